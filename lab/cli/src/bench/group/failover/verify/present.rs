//! Order by real time: a value is greater than all that anybody had before anybody asked for it.
//!
//! In the group's default order that holds for each reading of the time at present, and for each round by the first who
//! asked for it: whoever comes to it later gets what was agreed on then. Who asked first may have left no record, as it
//! was killed or refused: so what the proposer's programs may have asked without a record counts as asked then.

use truechimer_group::Agreed;

use super::{Kind, Life, Seen, Verifier, place};

/// A value, and when it was read, ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reading {
    /// When the first asked for it, at the earliest; none for what nobody has asked for.
    pub began: Option<i64>,
    /// When the first had it.
    pub done: i64,
    pub value: Agreed,
}

impl Life {
    /// Moment at which it may have asked for that round without a record of the answer, at the earliest.
    fn may_have_asked(&self, thread: u64, round: u64) -> Option<i64> {
        let Some((last, _)) = self.threads.get(&thread) else { return self.since };
        let refused = self.refused.get(&thread).copied().unwrap_or(0);
        let next = last.saturating_add(1)..=last.saturating_add(1).saturating_add(refused);
        next.contains(&round).then(|| self.heard.get(&thread).copied()).flatten()
    }
}

impl Verifier {
    /// Readings of the time at present.
    pub(super) fn present_readings(&self) -> Vec<Reading> {
        let all = self.present.iter();
        all.map(|&(began, done, value, _)| Reading { began: Some(began), done, value }).collect()
    }

    /// First reading of a round.
    pub(super) fn reading_of(&self, thread: u64, round: u64, seen: &Seen<Agreed>) -> Reading {
        let proposer = seen.what.synchronizer.0;
        let others = self.lives.iter().filter(|life| life.node == proposer);
        let unseen = others.filter_map(|life| life.may_have_asked(thread, round)).min();
        let began = unseen.map_or(seen.began, |unseen| unseen.min(seen.began));
        Reading { began: Some(began), done: seen.done, value: seen.what }
    }
}

/// Finds those that are not greater than what had been read before they began.
pub(super) fn check(mut all: Vec<Reading>, found: &mut Vec<(Kind, String, String, String)>) {
    all.sort_by_key(|reading| reading.began);
    let mut ended: Vec<Reading> = all.clone();
    ended.sort_by_key(|reading| reading.done);
    let mut ended = ended.into_iter().peekable();
    let mut greatest: Option<Reading> = None;
    for reading in all {
        let Some(began) = reading.began else { continue };
        while let Some(other) = ended.next_if(|other| other.done < began) {
            if greatest.is_none_or(|it| it.value.time < other.value.time) {
                greatest = Some(other);
            }
        }
        if let Some(other) = greatest.filter(|other| other.value.time >= reading.value.time) {
            let says = |reading: &Reading, verb: &str, at: i64| {
                format!(
                    "{} at {}, {verb} at {at}",
                    reading.value.time.0,
                    place(reading.value.point)
                )
            };
            let this = says(&reading, "asked for", began);
            found.push((
                Kind::RealTime,
                "real time".to_owned(),
                this,
                says(&other, "had", other.done),
            ));
        }
    }
}
