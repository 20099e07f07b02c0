//! Which clocks can be right together: what each member's own said when it heard another's report.
//!
//! A report is sent before it is heard. So a clock whose latest is before the earliest that the
//! report says contradicts the sender's, however long the message was under way; and where each of
//! two has heard the other and found nothing wrong, they are no further apart than their bounds and
//! the messages' ways. Neither needs a clock that the two have in common.

use crate::settings::LARGEST_UNIVERSE;
use crate::types::Utc;

const WORDS: usize = LARGEST_UNIVERSE / 64;

/// Some of the universe's members, by their places in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Places(pub(crate) [u64; WORDS]);

impl Places {
    pub(crate) fn contains(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    fn set(&mut self, place: usize, is: bool) {
        let Some(word) = self.0.get_mut(place / 64) else { return };
        *word = *word & !(1 << (place % 64)) | u64::from(is) << (place % 64);
    }

    fn shares(&self, other: &Places) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }
}

/// Comparison of a member's clock with those of the others whose reports it has heard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Compared {
    /// These can be right if it is.
    pub(crate) possible: Places,
    /// These were ahead of all that it can be, when they came.
    pub(crate) ahead: Places,
}

impl Compared {
    /// True if no member is both.
    pub(crate) fn is_sound(&self) -> bool {
        !self.possible.shares(&self.ahead)
    }

    /// A report has come: what the sender's clock said then, and what this member's says now.
    pub(crate) fn hear(&mut self, place: usize, there: Option<Utc>, here: Option<Utc>) {
        let ahead = there.zip(here).map(|(there, here)| there.bound.earliest > here.bound.latest);
        self.possible.set(place, ahead == Some(false));
        self.ahead.set(place, ahead == Some(true));
    }

    /// The member there is another now.
    pub(crate) fn forget(&mut self, place: usize) {
        self.possible.set(place, false);
        self.ahead.set(place, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Bound;

    fn utc(earliest: i64, latest: i64) -> Option<Utc> {
        Some(Utc { best: earliest, bound: Bound { earliest, latest } })
    }

    #[test]
    fn only_what_has_not_been_can_be_contradicted() {
        let mut compared = Compared::default();
        let last = LARGEST_UNIVERSE - 1;
        for (place, there, ahead) in [(0, utc(5, 9), false), (64, utc(11, 12), true)] {
            compared.hear(place, there, utc(1, 10));
            assert_eq!(compared.ahead.contains(place), ahead);
            assert_eq!(compared.possible.contains(place), !ahead);
        }
        // However late: it may have been under way.
        compared.hear(last, utc(-1_000_000, -999_999), utc(1, 10));
        assert!(compared.possible.contains(last) && compared.is_sound());
        // It changes its mind, and forgets.
        compared.hear(64, utc(10, 12), utc(1, 10));
        assert!(compared.possible.contains(64) && !compared.ahead.contains(64));
        compared.hear(64, None, utc(1, 10));
        compared.hear(last, utc(1, 1), None);
        compared.forget(0);
        assert_eq!(compared, Compared::default());
    }
}
