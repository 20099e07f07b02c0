//! Programs that follow: they have dealt with what the others have, and reply as a majority does.

use std::collections::BTreeMap;

use truechimer_group::Member;

use super::{Conn, Found, FrontId, Lost, Order, Peer, Step};

/// Standing of a replica's program, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Following.
    Follows,
    /// Starting from a checkpoint.
    Starts,
    /// Stuck.
    Behind(String),
    /// Other replies given than a majority's.
    Diverged(String),
    /// Front not in.
    Gone(String),
}

impl Order {
    /// Number of replicas that are a majority.
    pub fn majority(&self) -> usize {
        self.size / 2 + 1
    }

    /// The agreed time of the last message, ns.
    pub fn time(&self) -> i64 {
        self.state.time
    }

    /// Number of openings, requests and ends that there were to be dealt with.
    pub fn total(&self) -> u64 {
        self.state.position.count
    }

    /// That life of that member's front, if it is in.
    pub fn front_of(&self, member: Member) -> Option<FrontId> {
        let peer = self.state.peers.get(&member)?;
        Some(FrontId { member, incarnation: peer.incarnation })
    }

    /// Members whose programs follow, and how much these have dealt with.
    pub fn following(&self) -> BTreeMap<Member, u64> {
        self.followers().collect()
    }

    fn followers(&self) -> impl Iterator<Item = (Member, u64)> {
        let best = self.best();
        let follows = move |peer: &Peer| peer.ready && !self.is_behind(peer, best);
        let peers = self.state.peers.iter().filter(move |(_, peer)| follows(peer));
        peers.map(|(member, peer)| (*member, peer.done))
    }

    /// True if this front is in, and its program and those of more than half of all replicas
    /// follow: only then may a reply go.
    pub fn may_answer(&self) -> bool {
        self.is_in()
            && self.followers().any(|(member, _)| member == self.me.member)
            && self.followers().count() >= self.majority()
    }

    /// Reason why that program does not follow, if it is stuck.
    fn behind(&self, member: Member) -> Option<String> {
        let peer = self.state.peers.get(&member)?;
        let best = self.best();
        (peer.ready && self.is_behind(peer, best)).then(|| {
            let (done, seconds) = (peer.done, peer.stuck_ns / 1_000_000_000);
            format!(
                "its program is stuck: it has dealt with {done} of the {best} openings, requests \
                 and ends that another has, and with none of them for {seconds} s"
            )
        })
    }

    /// True if its program is stuck, where another's has dealt with `best`.
    fn is_behind(&self, peer: &Peer, best: u64) -> bool {
        peer.done < best && peer.stuck_ns > self.patience_ns
    }

    /// Standings of all that are in or were.
    pub fn standings(&self) -> BTreeMap<Member, Standing> {
        let lost = self.lost.iter().map(|(member, Lost { diverged, why, .. })| {
            let why = why.clone();
            (*member, if *diverged { Standing::Diverged(why) } else { Standing::Gone(why) })
        });
        let mut all: BTreeMap<Member, Standing> = lost.collect();
        for (member, peer) in &self.state.peers {
            let standing = match self.behind(*member) {
                _ if !peer.ready => Standing::Starts,
                Some(why) => Standing::Behind(why),
                None => Standing::Follows,
            };
            all.insert(*member, standing);
        }
        all
    }

    /// Notes that one is not in any more.
    pub(super) fn lose(&mut self, member: Member, diverged: bool, why: String) {
        let found = Found { since_ns: self.state.time, request: self.state.requests };
        self.lost.insert(member, Lost { diverged, why, found });
    }

    /// Place at which that was found, of one that is not in any more.
    pub fn lost(&self, member: Member) -> Option<Found> {
        self.lost.get(&member).map(|lost| lost.found)
    }

    fn best(&self) -> u64 {
        let ready = self.state.peers.values().filter(|peer| peer.ready);
        ready.map(|peer| peer.done).max().unwrap_or(0)
    }

    /// Takes note that its program has dealt with so much.
    pub(super) fn done(&mut self, member: Member, count: u64) {
        let most = self.state.position.count;
        if let Some(peer) = self.state.peers.get_mut(&member)
            && count.min(most) > peer.done
        {
            peer.done = count.min(most);
            peer.stuck_ns = 0;
        }
    }

    /// So much agreed time has passed.
    pub(super) fn pass_stuck(&mut self, gap: i64) {
        let best = self.best();
        for peer in self.state.peers.values_mut() {
            let stuck = peer.ready && peer.done < best;
            peer.stuck_ns = if stuck { peer.stuck_ns.saturating_add(gap) } else { 0 };
        }
    }

    /// One says that another's program has given other replies than its own: where a majority
    /// replies alike the others are out, where none does all are.
    pub(super) fn differs(
        &mut self,
        from: Member,
        other: FrontId,
        conn: Conn,
        length: u64,
        steps: &mut Vec<Step>,
    ) {
        if !self.peer(other).is_some_and(|peer| peer.ready) || from == other.member {
            return;
        }
        let (one, two) = (from.min(other.member), from.max(other.member));
        if !self.state.pairs.insert((one, two)) {
            return;
        }
        steps.push(Step::Report(format!(
            "the replies of the replicas {one} and {two} on connection {conn} differ within \
             {length} bytes"
        )));
        let ready = self.state.peers.iter().filter(|(_, peer)| peer.ready);
        let ready: Vec<Member> = ready.map(|(member, _)| *member).collect();
        let differ =
            |one: Member, two: Member| self.state.pairs.contains(&(one.min(two), one.max(two)));
        let alike = |one: Member| ready.iter().filter(|two| !differ(one, **two)).count();
        let (most, odd): (Vec<Member>, Vec<Member>) =
            ready.iter().partition(|member| alike(**member) >= self.majority());
        if most.is_empty() {
            steps.push(Step::Unfit(format!(
                "no majority of the {} replicas' programs gives the same replies: none of them is \
                 to be trusted, and all have to be started anew from a state that is known",
                self.size
            )));
            return;
        }
        let names = most.iter().map(Member::to_string).collect::<Vec<_>>().join(", ");
        // One that differs from some that have no majority either may yet be found in the right.
        let odd: Vec<Member> =
            odd.into_iter().filter(|odd| most.iter().any(|one| differ(*one, *odd))).collect();
        for member in odd {
            let why = format!(
                "its program's replies differ from those of replica {names} (connection {conn}, \
                 within {length} bytes, by request {})",
                self.state.requests
            );
            if member == self.me.member {
                steps.push(Step::Unfit(why));
                return;
            }
            steps.push(Step::Report(format!("replica {member} is out: {why}")));
            self.drop_peer(member, &why, steps);
            self.lose(member, true, why);
        }
    }
}
