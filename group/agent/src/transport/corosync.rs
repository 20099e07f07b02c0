//! A group of Corosync's: one handle for each group, at one node one process in it.

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use truechimer_corosync::{self as corosync, CorosyncError, Cpg, Gone, Process, Quorum, Reason};
use truechimer_group::Member;

use super::{Incoming, MOST_AT_ONCE, Sent, Transport, TransportError};
use crate::sys;

/// Prefix of a group's name in the ring.
const PREFIX: &str = "truechimer/";
/// Longest time that an agent that has ended may still be in the group.
const HANGOVER: Duration = Duration::from_secs(2);

/// This node's membership in a group of Corosync's. The member is the node's id.
#[derive(Debug)]
pub struct Corosync {
    cpg: Cpg,
    quorum: Option<Quorum>,
    view: View,
    events: VecDeque<corosync::Event>,
    /// Descriptors known to have come without asking.
    known: Known,
}

/// Knowledge of the libraries' descriptors.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// Nothing.
    Nothing,
    /// True for something of the stream, and of the quorum.
    Polled(bool, bool),
    /// That there may be more of the stream.
    More,
}

/// Result of the configurations.
#[derive(Debug)]
struct View {
    group: String,
    own: Process,
    /// Members in the last configuration that was received; none before the first.
    connected: Option<BTreeSet<Member>>,
}

impl Corosync {
    /// Joins the group of this name. Waits for the local Corosync alone, but for up to 2 s if
    /// another process of this node is still in the group.
    ///
    /// # Errors
    /// Without Corosync's libraries, when it does not run or does not let us in, when another
    /// process of this node is in the group.
    pub fn open(group: &str) -> Result<Corosync, TransportError> {
        let name = format!("{PREFIX}{group}");
        let mut cpg = Cpg::connect()?;
        let quorum = Quorum::follow()?;
        let own = Process { node: cpg.local_node(), pid: std::process::id() };
        if own.node == 0 {
            return Err(TransportError {
                what: "Corosync has no id for this node: give it a `nodeid` in corosync.conf"
                    .to_owned(),
                passing: false,
            });
        }
        let end = Instant::now() + HANGOVER;
        loop {
            let there = cpg.members(&name)?;
            let Some(other) = there.iter().find(|other| other.node == own.node) else { break };
            if Instant::now() >= end {
                return Err(occupied(group, *other));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        cpg.enter(&name)?;
        let view = View { group: group.to_owned(), own, connected: None };
        Ok(Corosync { cpg, quorum, view, events: VecDeque::new(), known: Known::Nothing })
    }

    /// Looks for something of the stream, and of the quorum: one system call where asking the
    /// libraries would take one for each, on the way of every reading.
    fn has(&self) -> Result<(bool, bool), TransportError> {
        let quorum = self.quorum.as_ref().map_or(-1, |quorum| quorum.descriptor().as_raw_fd());
        let mut fds = [self.cpg.descriptor().as_raw_fd(), quorum].map(sys::readable);
        match sys::poll(&mut fds, 0) {
            Ok(()) => Ok((fds[0].revents != 0, fds[1].revents != 0)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok((true, true)),
            Err(error) => Err(TransportError { what: format!("poll: {error}"), passing: true }),
        }
    }

    /// Takes in what has come. True if there may be more.
    fn take(&mut self, into: &mut Vec<Incoming>) -> Result<bool, TransportError> {
        let known = std::mem::replace(&mut self.known, Known::Nothing);
        let (stream, majority) = match known {
            Known::Nothing => self.has()?,
            Known::Polled(stream, majority) => (stream, majority),
            Known::More => (true, false),
        };
        if let Some(quorum) = self.quorum.as_mut().filter(|_| majority) {
            let mut views = Vec::new();
            let outcome = quorum.dispatch(&mut views, MOST_AT_ONCE);
            into.extend(views.iter().map(|view| Incoming::Quorum { quorate: view.quorate }));
            outcome?;
        }
        if !stream {
            return Ok(false);
        }
        // One alone at first: looking for the next one is a system call that the answer to a
        // program need not wait for.
        let most = if matches!(known, Known::More) { MOST_AT_ONCE } else { 1 };
        let outcome = self.cpg.dispatch(&mut self.events, most);
        for event in self.events.drain(..) {
            match event {
                corosync::Event::Delivered { from, bytes } => {
                    into.push(Incoming::Message { from: Member(from.node), bytes });
                }
                corosync::Event::Configuration { members, left, .. } => {
                    self.view.change(&members, &left, into)?;
                }
                corosync::Event::Ring(_) => {}
            }
        }
        let more = outcome?;
        if more {
            self.known = Known::More;
        }
        Ok(more)
    }
}

impl View {
    fn change(
        &mut self,
        members: &[Process],
        left: &[Gone],
        into: &mut Vec<Incoming>,
    ) -> Result<(), TransportError> {
        let own = Member(self.own.node);
        let now: BTreeSet<Member> = members.iter().map(|one| Member(one.node)).collect();
        let before = match &self.connected {
            Some(before) => before,
            None => {
                let other = members.iter().find(|one| one.node == own.0 && **one != self.own);
                if let Some(other) = other {
                    return Err(occupied(&self.group, *other));
                }
                &BTreeSet::new()
            }
        };
        let with = |willing: bool| -> BTreeSet<Member> {
            let left = left.iter().filter(|one| is_willing(one.reason) == willing);
            left.map(|one| Member(one.process.node)).collect()
        };
        let (willing, unwilling) = (with(true), with(false));
        // Who has left and is there all the same was away: its process here is another, or its
        // node came back at once. All members must see that alike, so nothing else counts.
        let mut between = &(&now - &willing) - &unwilling;
        if between.len() < now.len() {
            if !between.contains(&own) {
                between = BTreeSet::from([own]);
            }
            into.push(configuration(before, &between, &willing));
            into.push(configuration(&between, &now, &willing));
        } else if self.connected.as_ref() != Some(&now) {
            into.push(configuration(before, &now, &willing));
        }
        self.connected = Some(now);
        Ok(())
    }
}

fn configuration(
    before: &BTreeSet<Member>,
    now: &BTreeSet<Member>,
    willing: &BTreeSet<Member>,
) -> Incoming {
    let lost = before.iter().filter(|one| !now.contains(one) && !willing.contains(one));
    Incoming::Configuration {
        members: now.iter().copied().collect(),
        lost: lost.copied().collect(),
    }
}

/// True if a member that leaves so leaves the others as they are.
fn is_willing(reason: Reason) -> bool {
    matches!(reason, Reason::Left | Reason::ProcessDown)
}

fn occupied(group: &str, other: Process) -> TransportError {
    TransportError {
        what: format!(
            "process {} of this node ({}) is in group {group} already: one agent for each node; \
             end that one",
            other.pid, other.node
        ),
        passing: false,
    }
}

impl Transport for Corosync {
    fn member(&self) -> Member {
        Member(self.view.own.node)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let quorum = self.quorum.as_ref().map(Quorum::descriptor);
        std::iter::once(self.cpg.descriptor()).chain(quorum).collect()
    }

    fn polled(&mut self, polled: &[libc::pollfd]) {
        let has = |fd: i32| polled.iter().find(|one| one.fd == fd).map(|one| one.revents != 0);
        let stream = has(self.cpg.descriptor().as_raw_fd());
        let quorum = match &self.quorum {
            Some(quorum) => has(quorum.descriptor().as_raw_fd()),
            None => Some(false),
        };
        self.known = match stream.zip(quorum) {
            Some((stream, quorum)) => Known::Polled(stream, quorum),
            None => Known::Nothing,
        };
    }

    fn receive(&mut self, into: &mut Vec<Incoming>) -> Result<bool, TransportError> {
        let outcome = self.take(into);
        if outcome.is_err()
            && let Some(connected) = self.view.connected.take()
        {
            let connected: Vec<Member> = connected.into_iter().collect();
            into.push(Incoming::alone(self.member(), &connected));
        }
        outcome
    }

    fn send(&mut self, message: &[u8]) -> Result<Sent, TransportError> {
        TransportError::unless_short(message)?;
        if self.view.connected.is_none() {
            return Ok(Sent::Later);
        }
        Ok(match self.cpg.multicast(message)? {
            corosync::Sent::Taken => Sent::Taken,
            corosync::Sent::TryAgain => Sent::Later,
        })
    }
}

impl From<CorosyncError> for TransportError {
    fn from(error: CorosyncError) -> TransportError {
        TransportError { passing: error.is_passing(), what: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(node: u32, pid: u32) -> Process {
        Process { node, pid }
    }

    fn view() -> View {
        View { group: "g".to_owned(), own: process(1, 10), connected: None }
    }

    fn gone(node: u32, pid: u32, reason: Reason) -> Gone {
        Gone { process: process(node, pid), reason }
    }

    /// Change by a configuration: members and lost.
    fn change(view: &mut View, members: &[(u32, u32)], left: &[Gone]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let members: Vec<Process> =
            members.iter().map(|(node, pid)| process(*node, *pid)).collect();
        let mut into = Vec::new();
        view.change(&members, left, &mut into).unwrap();
        let numbers = |all: Vec<Member>| all.into_iter().map(|member| member.0).collect();
        into.into_iter()
            .map(|event| match event {
                Incoming::Configuration { members, lost } => (numbers(members), numbers(lost)),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn nodes_are_lost_and_processes_only_leave() {
        let mut view = view();
        let all = [(1, 10), (2, 20), (3, 30)];
        assert_eq!(change(&mut view, &all, &[]), [(vec![1, 2, 3], vec![])]);
        let left = [gone(2, 20, Reason::ProcessDown), gone(3, 30, Reason::NodeDown)];
        assert_eq!(change(&mut view, &[(1, 10)], &left), [(vec![1], vec![3])]);
        assert_eq!(change(&mut view, &all, &[]), [(vec![1, 2, 3], vec![])]);
        let left = [gone(2, 20, Reason::Other(77)), gone(3, 30, Reason::Left)];
        assert_eq!(change(&mut view, &[(1, 10)], &left), [(vec![1], vec![2])]);
    }

    #[test]
    fn who_was_away_for_a_moment_was_away() {
        let mut view = view();
        let all = [(1, 10), (2, 20), (3, 30)];
        change(&mut view, &all, &[]);
        let left = [gone(2, 20, Reason::ProcessDown)];
        let back = change(&mut view, &[(1, 10), (2, 21), (3, 30)], &left);
        assert_eq!(back, [(vec![1, 3], vec![]), (vec![1, 2, 3], vec![])]);
        let left = [gone(2, 21, Reason::NodeDown), gone(3, 30, Reason::NodeDown)];
        let back = change(&mut view, &all, &left);
        assert_eq!(back, [(vec![1], vec![2, 3]), (vec![1, 2, 3], vec![])]);
        // Another process of our own node: the others see that as we do.
        let left = [gone(1, 11, Reason::ProcessDown)];
        let back = change(&mut view, &all, &left);
        assert_eq!(back, [(vec![1], vec![2, 3]), (vec![1, 2, 3], vec![])]);
    }

    #[test]
    fn two_processes_of_a_node_are_one_too_many() {
        let mut view = view();
        let members = [process(1, 9), process(1, 10), process(2, 20)];
        let refused = view.change(&members, &[], &mut Vec::new()).unwrap_err();
        assert!(refused.what.contains("process 9") && !refused.passing, "{refused}");
        // Who was there first stays.
        change(&mut view, &[(1, 10), (2, 20)], &[]);
        assert_eq!(change(&mut view, &[(1, 10), (1, 99), (2, 20)], &[]), []);
    }
}
