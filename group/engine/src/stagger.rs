//! Wait of a member for those before it in the order of proposing.
//!
//! Too short, and its proposal is on the way when the first one's comes back: a message for
//! nothing, for what is sent cannot be withdrawn. How long the first one's takes depends on the
//! ring (a token that was held after a silence comes late) and on how far apart the programs'
//! operations begin, which no setting knows. So it waits longer after each proposal for nothing,
//! and less and less while none is.

use crate::types::Point;

/// A wait grows by this part of the setting ...
const WIDER: u64 = 4;
/// ... up to so many times the setting; ...
const MOST: u64 = 4;
/// ... by this part of what it is too long it shrinks with each proposal that could be saved (so
/// that about one of 500 is for nothing), ...
const NARROWER: u64 = 2048;
/// ... and by this one with each that was needed, as those before it are not there.
const NEEDED: u64 = 4;

/// Wait beyond the setting.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stagger {
    extra_ns: u64,
    /// The last message that was for nothing: all of its proposals are as one.
    last: Point,
}

/// Leaves it out, as it only moves proposals in time, within what a slow network does too: no other
/// decision depends on it.
impl core::hash::Hash for Stagger {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}

impl Stagger {
    /// The wait for each rank, ns.
    pub(crate) fn ns(&self, setting_ns: u64) -> u64 {
        setting_ns.saturating_add(self.extra_ns)
    }

    /// A proposal of ours came after another's, by the message at this place.
    pub(crate) fn wasted(&mut self, setting_ns: u64, place: Point) {
        if std::mem::replace(&mut self.last, place) == place {
            return;
        }
        let most = setting_ns.saturating_mul(MOST - 1);
        self.extra_ns = self.extra_ns.saturating_add(setting_ns.div_ceil(WIDER)).min(most);
    }

    /// Another's proposal came before it was our turn.
    pub(crate) fn saved(&mut self) {
        self.extra_ns -= self.extra_ns.div_ceil(NARROWER);
    }

    /// Our proposal came first though it was not our turn first.
    pub(crate) fn needed(&mut self) {
        self.extra_ns -= self.extra_ns.div_ceil(NEEDED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: u64 = 400_000;

    fn place(index: u64) -> Point {
        Point { generation: 1, index }
    }

    #[test]
    fn it_grows_with_what_was_for_nothing_and_no_further_than_it_may() {
        let mut stagger = Stagger::default();
        assert_eq!(stagger.ns(SETTING), SETTING);
        stagger.wasted(SETTING, place(1));
        stagger.wasted(SETTING, place(1));
        assert_eq!(stagger.ns(SETTING), SETTING + SETTING / 4, "one message counts once");
        (2..100).for_each(|index| stagger.wasted(SETTING, place(index)));
        assert_eq!(stagger.ns(SETTING), 4 * SETTING);
        let mut none = Stagger::default();
        none.wasted(0, place(1));
        assert_eq!(none.ns(0), 0);
    }

    #[test]
    fn it_shrinks_slowly_while_it_saves_and_soon_where_it_only_delays() {
        let mut stagger = Stagger::default();
        (0..100).for_each(|index| stagger.wasted(SETTING, place(index)));
        let mut slow = stagger.clone();
        (0..500).for_each(|_| slow.saved());
        assert!(slow.ns(SETTING) > 3 * SETTING, "{slow:?}");
        (0..100_000).for_each(|_| slow.saved());
        assert_eq!(slow.ns(SETTING), SETTING);
        (0..10).for_each(|_| stagger.needed());
        assert!(stagger.ns(SETTING) < SETTING + SETTING / 4, "{stagger:?}");
        (0..100).for_each(|_| stagger.needed());
        assert_eq!(stagger.ns(SETTING), SETTING);
    }
}
