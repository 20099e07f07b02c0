//! Lead of a clock over the host's, by how it got there.

use std::ops::Add;

/// Both in ns, positive: ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ahead {
    /// By running faster or slower: `CLOCK_MONOTONIC` shares it.
    pub slewed: i64,
    /// By being set: `CLOCK_REALTIME` alone.
    pub stepped: i64,
}

impl Ahead {
    /// Either way together, ns.
    #[must_use]
    pub fn total(self) -> i64 {
        self.slewed.saturating_add(self.stepped)
    }
}

impl Add for Ahead {
    type Output = Ahead;
    fn add(self, rhs: Ahead) -> Ahead {
        Ahead {
            slewed: self.slewed.saturating_add(rhs.slewed),
            stepped: self.stepped.saturating_add(rhs.stepped),
        }
    }
}
