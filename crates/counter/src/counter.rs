//! One counter, ready to be read.

use truechimer_time::{Count, CounterKind};

use crate::choose::{self, Choice};
use crate::error::CounterError;
use crate::{machine, read};

/// A counter that this process can read: a small value to be copied about freely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Counter(Source);

/// How to take a reading. `Native` is whatever the architecture has ([`read::NATIVE`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    Native,
    NativeFenced,
    Raw,
}

impl Counter {
    /// The counter of this choice, after asking processor and kernel whether it can be relied on.
    ///
    /// # Errors
    /// What is wrong with it, and what to choose instead. [`Choice::Auto`] only fails where not
    /// even `CLOCK_MONOTONIC_RAW` can be read.
    pub fn open(choice: Choice) -> Result<Counter, CounterError> {
        choose::choose(choice, &machine::facts()).map(Counter)
    }

    /// The counter of this kind, unfenced, for those who read what somebody else chose: the kind
    /// comes from a page, and its writer has judged the counter already. What is asked here is
    /// only whether this process can read it, and gets the same counts.
    ///
    /// # Errors
    /// Where it cannot, with the reason.
    pub fn of_kind(kind: CounterKind) -> Result<Counter, CounterError> {
        choose::readable(kind, &machine::facts()).map(Counter)
    }

    /// One reading. A few nanoseconds; never blocks, allocates or fails.
    #[must_use]
    #[inline]
    pub fn read(self) -> Count {
        Count(match self.0 {
            Source::Native => read::native(),
            Source::NativeFenced => read::native_fenced(),
            Source::Raw => read::raw(),
        })
    }

    /// Which counter it is: readings of one kind compare, fenced or not.
    #[must_use]
    pub fn kind(self) -> CounterKind {
        match (self.0, read::NATIVE) {
            (Source::Native | Source::NativeFenced, Some(kind)) => kind,
            _ => CounterKind::Raw,
        }
    }

    /// Whether a reading is ordered with the instructions around it. `CLOCK_MONOTONIC_RAW`
    /// always is: the vDSO sees to that.
    #[must_use]
    pub fn is_fenced(self) -> bool {
        self.0 != Source::Native
    }

    /// The same counter with fenced reads.
    #[must_use]
    #[inline]
    pub fn fenced(self) -> Counter {
        Counter(match self.0 {
            Source::Native => Source::NativeFenced,
            other => other,
        })
    }

    /// The same counter with the cheapest reads there are.
    pub(crate) fn unfenced(self) -> Counter {
        Counter(match self.0 {
            Source::NativeFenced => Source::Native,
            other => other,
        })
    }

    /// What it is, in a few words for people.
    #[must_use]
    pub fn description(self) -> &'static str {
        match (self.kind(), self.is_fenced()) {
            (CounterKind::Tsc, false) => "time stamp counter",
            (CounterKind::Tsc, true) => "time stamp counter, fenced",
            (CounterKind::ArmGeneric, false) => "Arm generic timer",
            (CounterKind::ArmGeneric, true) => "Arm generic timer, fenced",
            _ => "CLOCK_MONOTONIC_RAW",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_openable_counter_advances() {
        for choice in [Choice::Auto, Choice::Tsc { fenced: false }, Choice::Raw] {
            let Ok(counter) = Counter::open(choice) else { continue };
            let first = counter.read();
            std::thread::sleep(std::time::Duration::from_millis(2));
            assert!((counter.read() - first).0 > 1000, "{choice:?}");
            assert_eq!(Counter::of_kind(counter.kind()).map(Counter::fenced), Ok(counter.fenced()));
        }
    }

    #[test]
    fn fenced_readings_never_go_back() {
        let counter = Counter::open(Choice::Auto).unwrap().fenced();
        assert!(counter.is_fenced());
        let mut last = counter.read();
        for _ in 0..100_000 {
            let next = counter.read();
            assert!(next.at_or_after(last));
            last = next;
        }
    }

    #[test]
    fn raw_is_everywhere() {
        let raw = Counter::open(Choice::Raw).unwrap();
        assert_eq!((raw.kind(), raw.fenced()), (CounterKind::Raw, raw));
        assert_eq!(raw.description(), "CLOCK_MONOTONIC_RAW");
    }
}
