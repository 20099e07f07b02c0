//! Lag from reading the clock for a reply until the reply leaves.

use truechimer_time::{Count, CountSpan};

/// Of how many measurements the least is taken: it may be exceeded and hardly ever undercut.
const KEPT: usize = 16;
/// Before that many there is no saying.
const ENOUGH: usize = 4;
/// Calls that send fewer say little of what each further packet takes.
const MANY: usize = 8;

/// Lags measured of late.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// From the reading to the departure of the first packet, counts.
    first: Least,
    /// Time of each further packet of the same call on average, counts.
    further: Least,
    /// To prove a reply by each kind of proof, counts.
    proofs: [Least; 2],
}

impl Lag {
    /// The first packet of a call left at `left` for which the clock was read at `read`.
    pub fn left(&mut self, read: Count, left: Count) {
        self.first.add((left - read).0);
    }

    /// A call sent `packets` within `took`.
    pub fn sent(&mut self, packets: usize, took: CountSpan) {
        if packets >= MANY {
            self.further.add(took.0 / packets as i64);
        }
    }

    /// A reply was proven within `took`; `by_key`: by a symmetric key.
    pub fn proven(&mut self, by_key: bool, took: CountSpan) {
        let [by_nts, by_a_key] = &mut self.proofs;
        if by_key { by_a_key } else { by_nts }.add(took.0);
    }

    /// Time that it takes to prove a reply, at the least.
    pub fn of_proof(&self, by_key: bool) -> CountSpan {
        let [by_nts, by_a_key] = &self.proofs;
        CountSpan(if by_key { by_a_key } else { by_nts }.get().unwrap_or(0))
    }

    /// Lag of packet `i` of a call behind the reading, at the least: 0 while too little is known.
    /// Of what further packets take half is counted on.
    pub fn of(&self, i: usize) -> CountSpan {
        let further = self.further.get().unwrap_or(0) / 2;
        CountSpan(self.first.get().unwrap_or(0).saturating_add(further.saturating_mul(i as i64)))
    }

    /// Forgets all, as when the counter is another.
    pub fn clear(&mut self) {
        *self = Lag::default();
    }
}

/// The least of the latest numbers.
#[derive(Debug, Default)]
struct Least {
    kept: [i64; KEPT],
    added: usize,
}

impl Least {
    fn add(&mut self, value: i64) {
        if let Some(place) = self.kept.get_mut(self.added % KEPT) {
            *place = value.max(0);
            self.added += 1;
        }
    }

    fn get(&self) -> Option<i64> {
        let known = self.kept.get(..self.added.min(KEPT))?;
        if known.len() < ENOUGH { None } else { known.iter().min().copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_late_counts() {
        let mut lag = Lag::default();
        for left in [900, 50, 700] {
            lag.left(Count(100), Count(100 + left));
        }
        assert_eq!(lag.of(0), CountSpan(0));
        lag.left(Count(100), Count(1000));
        assert_eq!((lag.of(0), lag.of(31)), (CountSpan(50), CountSpan(50)));
        for _ in 0..4 {
            lag.sent(MANY, CountSpan(800));
            lag.sent(MANY - 1, CountSpan(1));
        }
        assert_eq!(lag.of(2), CountSpan(150));
        // What is long ago is forgotten.
        (0..KEPT).for_each(|_| lag.left(Count(0), Count(600)));
        assert_eq!(lag.of(0), CountSpan(600));
        lag.clear();
        assert_eq!(lag.of(9), CountSpan(0));
    }

    #[test]
    fn each_kind_of_proof_has_its_own_time() {
        let mut lag = Lag::default();
        for _ in 0..ENOUGH {
            lag.proven(false, CountSpan(20_000));
            lag.proven(true, CountSpan(700));
        }
        assert_eq!((lag.of_proof(false), lag.of_proof(true)), (CountSpan(20_000), CountSpan(700)));
    }

    #[test]
    fn nothing_leaves_before_it_is_made() {
        let mut lag = Lag::default();
        (0..9).for_each(|_| lag.left(Count(9), Count(3)));
        assert_eq!(lag.of(0), CountSpan(0));
    }
}
