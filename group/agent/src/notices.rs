//! Notices for the operator, in words and at a bounded rate.

use serde::{Deserialize, Serialize};
use truechimer_group::Notice;

/// Each kind is said at most this often, ns; what comes in between is counted.
const EVERY: i64 = 10_000_000_000;

/// Gravity of a line for the operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// For those who look for a fault.
    Debug,
    /// Normal course of things.
    Info,
    /// Somebody should look after it.
    Warning,
}

/// Count of one kind of notice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noticed {
    /// Which kind.
    pub kind: String,
    /// Number of times that it came.
    pub count: u64,
    /// The last one, in words.
    pub last: String,
    /// Age of the last one, ns.
    pub age_ns: i64,
}

/// All kinds that have come.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    count: u64,
    last: String,
    at: i64,
    said_at: i64,
    unsaid: u64,
}

impl Notices {
    /// Counts it, and gives what is to be said now, if anything.
    pub(crate) fn take(&mut self, notice: &Notice, now: i64) -> Option<(Level, String)> {
        let (level, name, text) = words(notice);
        self.note(level, name, text, now)
    }

    /// Notes what the agent itself has to say. `name` is the kind.
    pub(crate) fn note(
        &mut self,
        level: Level,
        name: &'static str,
        text: String,
        now: i64,
    ) -> Option<(Level, String)> {
        let index = self.kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            let never = now.saturating_sub(EVERY);
            let last = String::new();
            self.kinds.push(Kind { name, count: 0, last, at: now, said_at: never, unsaid: 0 });
            self.kinds.len() - 1
        });
        let kind = self.kinds.get_mut(index)?;
        kind.count += 1;
        kind.at = now;
        kind.last.clone_from(&text);
        if now.saturating_sub(kind.said_at) < EVERY {
            kind.unsaid += 1;
            return None;
        }
        kind.said_at = now;
        Some((
            level,
            match std::mem::take(&mut kind.unsaid) {
                0 => text,
                n => format!("{text} ({n} more of this kind since the last time)"),
            },
        ))
    }

    /// Forgets what there was of this kind, as it does not matter any more.
    pub(crate) fn forget(&mut self, name: &str) {
        self.kinds.retain(|kind| kind.name != name);
    }

    /// Counts of each kind.
    pub(crate) fn report(&self, now: i64) -> Vec<Noticed> {
        let noticed = |kind: &Kind| Noticed {
            kind: kind.name.to_owned(),
            count: kind.count,
            last: kind.last.clone(),
            age_ns: now.saturating_sub(kind.at),
        };
        self.kinds.iter().map(noticed).collect()
    }
}

/// Meaning of a notice and what to do, and its kind.
fn words(notice: &Notice) -> (Level, &'static str, String) {
    use Level::{Info, Warning};
    match notice {
        Notice::Malformed { from, what } => (
            Warning,
            "malformed",
            format!(
                "ignored a message from node {from} that is not one of ours ({what}): does another \
                 program use this group's name?"
            ),
        ),
        Notice::Version { from, version } => (
            Warning,
            "version",
            format!(
                "ignored node {from}, whose agent speaks version {version} of the protocol: run the \
                 same version of truechimer on all nodes"
            ),
        ),
        Notice::OtherGroup { from } => (
            Warning,
            "other-settings",
            format!(
                "ignored node {from}, whose group of this name has other settings: members, mode, \
                 order, steering, horizon, lease and the like must be the same on all nodes \
                 (compare 'truechimer group status --json'), or the name another"
            ),
        ),
        Notice::Divergence { thread, round, theirs, ours, synchronizer } => (
            Warning,
            "divergence",
            format!(
                "the program here differs from the others: round {} of thread {thread} was agreed \
                 for {theirs} (by node {synchronizer}), and it called {ours}: the replicas must \
                 create their threads in the same order and do the same work",
                round.0
            ),
        ),
        Notice::Fenced { member, fence } => (
            Warning,
            "fenced",
            format!(
                "the program of node {member} does other work than a majority's: {fence}; it gets \
                 no values until it is started anew"
            ),
        ),
        Notice::Cut { from, by_ns } => (
            Warning,
            "cut",
            format!(
                "a proposal of node {from} was {} ahead of what the others bear out and was cut: \
                 look after that node's clock",
                truechimer_time::Span::from_nanos_wide(i128::from(*by_ns))
            ),
        ),
        Notice::Suspect { member, suspected: true } => (
            Warning,
            "suspect",
            format!(
                "the clock of node {member} contradicts the majority's: it no longer moves the \
                 group's clock ahead; look after that node's clock"
            ),
        ),
        Notice::Suspect { member, suspected: false } => (
            Info,
            "suspect",
            format!("the clock of node {member} agrees with the majority's again"),
        ),
        Notice::Began { floor: Some(floor) } => (
            Info,
            "began",
            format!(
                "the group begins anew; its clock does not fall behind {floor} ns, as was kept"
            ),
        ),
        Notice::Began { floor: None } => (
            Info,
            "began",
            "the group begins; no member has kept anything of an earlier life".to_owned(),
        ),
        Notice::NoCheckpoint { member } => (
            Warning,
            "no-checkpoint",
            format!(
                "node {member} wants to come in with a checkpoint, and no live node has a program \
                 that gives any: it waits. Start one that does, or set checkpoints = false there"
            ),
        ),
        Notice::Missed { from, differs } => (
            Warning,
            "missed",
            format!(
                "other nodes (one is node {from}) {}, and Corosync did not say that it was out: it \
                 comes in anew",
                if *differs {
                    "have had other messages than this one"
                } else {
                    "do not take this one for one of theirs"
                }
            ),
        ),
        Notice::NotLetIn { for_ns, checkpoint } => (
            Warning,
            "not-let-in",
            format!(
                "nobody has let this node in for {} s: {}",
                for_ns / 1_000_000_000,
                if *checkpoint {
                    "it waits for another node's program to give a checkpoint, or, where nobody is \
                     live, for all connected nodes to ask to be let in (does an agent hang?)"
                } else {
                    "it waits for a live node's answer, or, where nobody is live, for all \
                     connected nodes to ask to be let in (does an agent hang?)"
                }
            ),
        ),
        Notice::Tied { ahead_ns: 0 } => {
            (Info, "tied", "the group's clock is tied to UTC from now on".to_owned())
        }
        Notice::Tied { ahead_ns } => (
            Info,
            "tied",
            format!(
                "the group's clock is tied to UTC from now on; once, it was set ahead at a stroke, by \
                 {}.{:03} s",
                ahead_ns / 1_000_000_000,
                ahead_ns % 1_000_000_000 / 1_000_000
            ),
        ),
        Notice::Revived { members } => (
            Info,
            "revived",
            format!("the group goes on where it was: {members} members have its latest state"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_group::Member;

    #[test]
    fn each_kind_is_said_at_a_bounded_rate_and_all_are_counted() {
        let mut notices = Notices::default();
        let bad = Notice::Malformed { from: Member(2), what: "no magic" };
        let suspect = Notice::Suspect { member: Member(3), suspected: true };
        let (level, text) = notices.take(&bad, 5).unwrap();
        assert!(level == Level::Warning && text.contains("node 2") && text.contains("no magic"));
        for _ in 0..999 {
            assert_eq!(notices.take(&bad, 6), None);
        }
        assert!(notices.take(&suspect, 7).is_some(), "another kind");
        let (_, text) = notices.take(&bad, 5 + EVERY).unwrap();
        assert!(text.ends_with("(999 more of this kind since the last time)"), "{text}");
        let report = notices.report(10 + EVERY);
        assert_eq!(
            (report[0].kind.as_str(), report[0].count, report[0].age_ns),
            ("malformed", 1001, 5)
        );
        assert_eq!((report[1].kind.as_str(), report[1].count), ("suspect", 1));
    }
}
