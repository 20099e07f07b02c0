//! Sequence numbers: what was lost, doubled or overtaken, seen from one place.

use std::collections::VecDeque;

use crate::{Density, Losses, Reordering};

/// Two packets in a row that are numbered one after the other and this far below the highest are a
/// new beginning, if what they say was there, or is settled (RFC 3550 appendix A.1: MAX_MISORDER).
const MISORDER: i64 = 100;

/// A number is given up for lost once one this much higher has come.
const WINDOW: u64 = 1024;

/// Fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The first with its number, which is extended here beyond the width of the field.
    New(u64),
    /// Number that was there before.
    Duplicate,
    /// Came after it had been given up for lost, or is a copy of one so old.
    Late,
    /// Number far from all others.
    Stray,
    /// First with its number, like `New`, and the numbers begin anew here.
    Restart(u64),
}

/// A stream of packets with sequence numbers of 8 to 64 bits, which may roll over.
///
/// Numbers that jump far ahead (RFC 3550 appendix A.1: 3000; of fields wider than 16 bits 2²⁰) or
/// back are strays, until two follow one another there: then the sender has begun anew. So it has
/// if two that follow one another are far back among numbers that are long done with.
#[derive(Clone, PartialEq, Debug)]
pub struct Sequence {
    bits: u32,
    window: u64,
    ahead: i64,
    highest: Option<(u64, u64)>,
    /// Copies of each number from `low` on that came, as far as that is still open.
    open: VecDeque<u32>,
    low: u64,
    settled: bool,
    /// The number that would follow one that was far back, or away, and what that counted as.
    probe: Option<(u64, Fate)>,
    losses: Losses,
    reordering: Reordering,
    density: Density,
    /// Copies beyond the first (RFC 5560).
    pub copies: u64,
    /// Packets of which more than one copy came (RFC 5560: replicated).
    pub replicated: u64,
    /// Packets that came too late, after they had been counted as lost.
    pub late: u64,
    /// Packets far from all others.
    pub strays: u64,
    /// Number of times that the numbers began anew.
    pub restarts: u64,
}

impl Sequence {
    /// Numbers of so many bits (1 to 64).
    #[must_use]
    pub fn new(bits: u32) -> Sequence {
        let bits = bits.clamp(1, 64);
        let quarter = 1u64 << (bits.max(3) - 2);
        let ahead = if bits <= 16 { 3000 } else { 1 << 20 };
        Sequence {
            bits,
            window: WINDOW.min(quarter),
            ahead: i64::try_from(quarter).unwrap_or(i64::MAX).min(ahead),
            highest: None,
            open: VecDeque::new(),
            low: 0,
            settled: false,
            probe: None,
            losses: Losses::default(),
            reordering: Reordering::default(),
            density: Density::default(),
            copies: 0,
            replicated: 0,
            late: 0,
            strays: 0,
            restarts: 0,
        }
    }

    /// A packet with this number arrives.
    pub fn arrived(&mut self, number: u64, at_ns: i64) -> Fate {
        let Some((raw, highest)) = self.highest else {
            // Far from both ends of the scale.
            return Fate::New(self.begin(number, 1 << 62, at_ns));
        };
        let unused = 64 - self.bits;
        let step = ((number.wrapping_sub(raw) << unused) as i64) >> unused;
        if step > self.ahead || step < -self.ahead {
            if let Some(fate) = self.restarted(number, at_ns) {
                return fate;
            }
            self.strays += 1;
            return self.probing(number, Fate::Stray);
        }
        let extended = highest.saturating_add_signed(step);
        let there = extended.checked_sub(self.low).and_then(|at| self.open.get(at as usize));
        let done = there.map_or(self.settled && extended < self.low, |copies| *copies > 0);
        if step < -MISORDER && done && self.ahead > MISORDER {
            if let Some(fate) = self.restarted(number, at_ns) {
                return fate;
            }
        } else {
            self.probe = None;
        }
        let Some(back) = self.place(extended) else {
            self.late += 1;
            return self.probing(number, Fate::Late);
        };
        if step > 0 {
            self.highest = Some((number, extended));
        }
        let copies = self.open.get_mut(back).map_or(1, |copies| {
            *copies = copies.saturating_add(1);
            *copies
        });
        match copies {
            1 => {
                self.reordering.arrived(extended, at_ns);
                self.density.arrived(extended);
                Fate::New(extended)
            }
            more => {
                self.copies += 1;
                self.replicated += u64::from(more == 2);
                match step < -MISORDER {
                    true => self.probing(number, Fate::Duplicate),
                    false => Fate::Duplicate,
                }
            }
        }
    }

    fn probing(&mut self, number: u64, fate: Fate) -> Fate {
        let unused = 64 - self.bits;
        self.probe = Some((number.wrapping_add(1) << unused >> unused, fate));
        fate
    }

    /// Begins anew if this number follows the one before it, which was out of place likewise.
    fn restarted(&mut self, number: u64, at_ns: i64) -> Option<Fate> {
        let unused = 64 - self.bits;
        let (expected, before) = self.probe?;
        if expected != number << unused >> unused {
            return None;
        }
        // What came before it was no copy then, and not late.
        match before {
            Fate::Duplicate => {
                self.copies = self.copies.saturating_sub(1);
                self.replicated = self.replicated.saturating_sub(1);
                self.strays += 1;
            }
            Fate::Late => {
                self.late = self.late.saturating_sub(1);
                self.strays += 1;
            }
            _ => {}
        }
        let highest = self.highest.map_or(1 << 62, |(_, highest)| highest);
        self.settle_all();
        self.restarts += 1;
        Some(Fate::Restart(self.begin(number, highest + (1 << 32), at_ns)))
    }

    fn begin(&mut self, number: u64, extended: u64, at_ns: i64) -> u64 {
        self.highest = Some((number, extended));
        self.low = extended;
        self.open.push_back(1);
        self.settled = false;
        self.probe = None;
        self.reordering.arrived(extended, at_ns);
        self.density.arrived(extended);
        extended
    }

    /// Where in `open` it belongs; makes room for it. `None`: it is settled already.
    fn place(&mut self, extended: u64) -> Option<usize> {
        if extended < self.low {
            let missing = self.low - extended;
            // Before the first that was seen, which need not have been the first that was sent.
            if self.settled || self.open.len() as u64 + missing > self.window {
                return None;
            }
            for _ in 0..missing {
                self.open.push_front(0);
            }
            self.low = extended;
        }
        let end = self.low + self.open.len() as u64;
        if extended >= end {
            let skipped = extended - end;
            if skipped >= self.window {
                // All that was open is settled, and most of what was left out is lost.
                self.settle_all();
                self.losses.lost(skipped - (self.window - 1));
                self.low = extended - (self.window - 1);
                self.open.extend(std::iter::repeat_n(0, self.window as usize));
            } else {
                self.open.extend(std::iter::repeat_n(0, skipped as usize + 1));
                while self.open.len() as u64 > self.window {
                    self.settle();
                }
            }
            self.settled |= skipped >= self.window;
        }
        Some((extended - self.low) as usize)
    }

    fn settle(&mut self) {
        match self.open.pop_front() {
            Some(0) => self.losses.lost(1),
            Some(_) => self.losses.arrived(1),
            None => return,
        }
        self.low += 1;
        self.settled = true;
    }

    fn settle_all(&mut self) {
        while !self.open.is_empty() {
            self.settle();
        }
    }

    /// Losses; those numbers that did not come, though higher ones did, are lost.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let mut all = self.losses.clone();
        for copies in &self.open {
            if *copies > 0 { all.arrived(1) } else { all.lost(1) }
        }
        all
    }

    /// Numbers lost so far, those of the window included.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses.lost + self.open.iter().filter(|copies| **copies == 0).count() as u64
    }

    /// Reordering.
    #[must_use]
    pub fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// Reorder density.
    #[must_use]
    pub fn density(&self) -> &Density {
        &self.density
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_roll_over_is_no_loss() {
        let mut made = Sequence::new(16);
        for n in 65_530u64..65_550 {
            assert!(matches!(made.arrived(n & 0xffff, 0), Fate::New(_)), "{n}");
        }
        let losses = made.losses();
        assert_eq!((losses.lost, losses.arrived, made.reordering().reordered), (0, 20, 0));
    }

    #[test]
    fn a_stray_is_no_loss_and_two_are_a_beginning() {
        let mut made = Sequence::new(16);
        for n in 0..10 {
            made.arrived(n, 0);
        }
        assert_eq!(made.arrived(40_000, 0), Fate::Stray);
        assert!(matches!(made.arrived(10, 0), Fate::New(_)));
        assert_eq!(made.arrived(30_000, 0), Fate::Stray);
        assert!(matches!(made.arrived(30_001, 0), Fate::Restart(_)));
        assert!(matches!(made.arrived(30_003, 0), Fate::New(_)));
        let losses = made.losses();
        assert_eq!((losses.lost, losses.arrived), (1, 13));
        assert_eq!((made.strays, made.restarts), (2, 1));
    }

    #[test]
    fn a_sender_that_begins_anew_nearby() {
        // 500 packets, and the same numbers again; then from beyond the window.
        for packets in [500u64, 2_500] {
            let mut made = Sequence::new(16);
            for n in (0..packets).chain(0..packets) {
                made.arrived(n, 0);
            }
            assert_eq!((made.restarts, made.strays, made.late, made.copies), (1, 1, 0, 0));
            let losses = made.losses();
            assert_eq!((losses.lost, losses.arrived), (0, 2 * packets - 1));
        }
        // Copies that come between others are no beginning.
        let mut made = Sequence::new(16);
        for n in 0..300 {
            made.arrived(n, 0);
        }
        for n in 300..400 {
            made.arrived(n, 0);
            made.arrived(n - 200, 0);
        }
        assert_eq!((made.restarts, made.copies), (0, 100));
    }

    #[test]
    fn an_outage_is_one_run() {
        let mut made = Sequence::new(32);
        made.arrived(5, 0);
        made.arrived(1_000_005, 1);
        assert_eq!(made.arrived(6, 2), Fate::Late);
        let losses = made.losses();
        assert_eq!((losses.lost, losses.arrived, made.late), (999_999, 2, 1));
        assert_eq!(losses.runs().buckets().collect::<Vec<_>>(), [(999_999, 1)]);
        assert_eq!(made.lost(), 999_999);
    }

    proptest! {
        #[test]
        fn hostile_numbers_are_survived(
            bits in 1u32..=64, numbers in prop::collection::vec(any::<u64>(), 0..200),
        ) {
            let mut made = Sequence::new(bits);
            for n in &numbers {
                made.arrived(*n, 0);
            }
            prop_assert!(made.open.len() as u64 <= WINDOW);
            prop_assert_eq!(made.losses().lost, made.lost());
        }

        #[test]
        fn as_counted_by_hand(
            fates in prop::collection::vec((0usize..4, 0i64..40), 2..600),
            bits in 16u32..=64, first: u64,
        ) {
            // Of each packet 0 to 3 copies arrive, up to 40 places late.
            let mut order: Vec<(u64, i64)> = Vec::new();
            for (n, (copies, delay)) in fates.iter().enumerate() {
                for copy in 0..(*copies).min(2) + usize::from(*copies == 3) {
                    order.push((n as u64, n as i64 + delay + copy as i64));
                }
            }
            order.sort_by_key(|(_, at)| *at);
            let mut made = Sequence::new(bits);
            let mask = u64::MAX >> (64 - bits);
            for (n, at) in &order {
                made.arrived(first.wrapping_add(*n) & mask, *at);
            }
            let mut counts = BTreeMap::new();
            order.iter().for_each(|(n, _)| *counts.entry(*n).or_insert(0u64) += 1);
            let (Some((low, _)), Some((high, _))) = (counts.first_key_value(), counts.last_key_value())
                else { return Ok(()) };
            let mut losses = Losses::default();
            for n in *low..=*high {
                if counts.contains_key(&n) { losses.arrived(1) } else { losses.lost(1) }
            }
            let mut reordering = Reordering::default();
            let mut seen = std::collections::BTreeSet::new();
            for (n, at) in &order {
                if seen.insert(n) {
                    reordering.arrived(*n, *at);
                }
            }
            prop_assert_eq!(made.losses(), losses);
            prop_assert_eq!(made.copies, counts.values().map(|c| c - 1).sum::<u64>());
            prop_assert_eq!(made.replicated, counts.values().filter(|c| **c > 1).count() as u64);
            prop_assert_eq!(made.reordering().reordered, reordering.reordered);
            prop_assert_eq!(made.reordering().extents(), reordering.extents());
            prop_assert_eq!((made.late, made.strays, made.restarts), (0, 0, 0));
        }
    }
}
