//! The recent past of a card's clock, and stamps by it turned into counts.

use truechimer_counter::HostPair;
use truechimer_time::{Count, CountSpan, Period, Rate, Span, Stamp, StampMethod};

use crate::interval::Interval;
use crate::log::{NoStamp, PairLog, Stretch, Window};
use crate::phc::DevicePair;

/// Least time over which a card's rate is measured. Readings of 1 µs then tell it to 0.3 ppm, which is 30 ns over
/// the 0.1 s that a reply from far away takes.
const BASELINE: Span = Span::from_secs(4);
/// Longest stretch for which a rate measured over [`BASELINE`] tells of a step: half of that (see
/// [`Interval::doubting`]).
const WATCHED: Span = Span::from_secs(2);
/// Bound of a card's rate against the counter's nominal one before it is measured: 100 ppm that IEEE 802.3 allows a
/// card's crystal, and 100 ppm for the error of the nominal period.
const UNKNOWN: Rate = Rate::from_ppb(200_000);

/// The pairs of a card's clock with the counter, in the order of their counts.
///
/// A card's clock is taken to be free: it has a rate of its own, and anybody may slew or step it. Nothing shows the
/// difference at once; by how much it went on otherwise than at its rate of late, between the pairs around a stamp,
/// may all be a step, and is twice in the stamp's error, as the rate may have been measured across that step. As long as
/// the rate is not known, or where pairs are more than 2 s apart, 200 ppm of the stretch are added: so much of a step
/// may hide behind the rate. More than slewing explains is a step, and leaves no stamp.
#[derive(Clone, Debug)]
pub struct CardLog {
    /// Pairs, with a period by the card's own rate of late.
    log: PairLog,
    nominal: Period,
    /// Bound of the error of that rate; `None` if it is not measured yet.
    doubt: Option<Rate>,
    /// Pairs before this one say nothing of the rate now: the clock was stepped.
    since: Option<Count>,
}

impl CardLog {
    /// An empty log of pairs by a counter whose counts last `nominal` and which counts in steps of `resolution`.
    #[must_use]
    pub fn new(nominal: Period, resolution: CountSpan) -> CardLog {
        CardLog { log: PairLog::new(nominal, resolution), nominal, doubt: None, since: None }
    }

    /// Keeps a pair. One that is not later than the last makes the log forget everything before it.
    pub fn push(&mut self, DevicePair { before, device_ns, after }: DevicePair) {
        let pair = HostPair { before, unix_ns: device_ns, after, monotonic_ns: 0, end: after };
        let last = self.log.pairs().last().copied();
        self.log.push(pair);
        let stepped = match (last, self.log.pairs()) {
            (Some(last), [_, .., newest]) => {
                Interval::unwatched(before, self.log.period(), &last, newest).is_torn()
            }
            _ => true,
        };
        if stepped {
            self.unlearn();
            self.since = Some(before);
        } else if let Some((period, doubt)) = self.rate() {
            self.log.set_period(period);
            self.doubt = Some(doubt);
        }
    }

    /// Says whether the card's rate is known.
    #[must_use]
    pub fn has_rate(&self) -> bool {
        self.doubt.is_some()
    }

    fn unlearn(&mut self) {
        self.log.set_period(self.nominal);
        (self.doubt, self.since) = (None, None);
    }

    /// Length of a count by the card's clock, over [`BASELINE`] or somewhat more, with a bound of twice the error that reading
    /// the clock makes in it: what that hides of a step is in the rate, too.
    fn rate(&self) -> Option<(Period, Rate)> {
        let newest = self.log.pairs().last()?;
        let least = self.nominal.counts(BASELINE);
        let old = self.log.pairs().iter().rev().find(|pair| newest.mid() - pair.mid() >= least)?;
        if self.since.is_some_and(|since| !old.before.at_or_after(since)) {
            return None;
        }
        let shown = Span::from_nanos_wide(i128::from(newest.unix_ns) - i128::from(old.unix_ns));
        let period = Period::from_ratio(shown, newest.mid() - old.mid())?;
        let widths = self.nominal.span(newest.width() + old.width()).as_nanos().saturating_add(2);
        // Over no less than the baseline; rounded up.
        let ppb = widths.saturating_mul(1_000_000_000) / BASELINE.as_nanos() + 1;
        Some((period, Rate::from_ppb(i64::try_from(ppb).unwrap_or(i64::MAX))))
    }

    /// The count within `window` at which the card's clock showed `device_ns`, with a bound of the error.
    ///
    /// Holds unless the clock was stepped and slewed meanwhile such that the one undid the other
    /// before the next pair, or runs by more than 200 ppm off the nominal rate while that is not known.
    ///
    /// # Errors
    /// If there is no such count, nothing to tell it by, or the clock was stepped.
    pub fn place(&self, device_ns: i64, window: Window) -> Result<Stamp, NoStamp> {
        let watched = self.nominal.counts(WATCHED);
        let doubt = |left: &HostPair, right: &HostPair| match self.doubt {
            Some(doubt) if right.mid() - left.mid() <= watched => doubt,
            _ => UNKNOWN,
        };
        let stretch: Stretch<'_> = &|origin, period, left, right| {
            Interval::unwatched(origin, period, left, right).doubting(doubt(left, right))
        };
        self.log.find(device_ns, window, stretch, StampMethod::Hardware)
    }

    /// Forgets everything: for when the counter lost its continuity, or the card's clock is another.
    pub fn clear(&mut self) {
        self.log.clear();
        self.unlearn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A card's clock by a counter of nanoseconds.
    #[derive(Clone, Copy)]
    struct Card {
        ppb: i64,
        /// At this count it is stepped by so much.
        step: (i64, i64),
    }

    const START: i64 = 1_700_000_037_000_000_000;

    impl Card {
        fn at(&self, count: i64) -> i64 {
            let gained = i128::from(count) * i128::from(self.ppb) / 1_000_000_000;
            let step = if count >= self.step.0 { self.step.1 } else { 0 };
            START + count + gained as i64 + step
        }

        /// A pair `early` before and `late` after the count at which it is read.
        fn pair(&self, count: i64, early: i64, late: i64) -> DevicePair {
            DevicePair {
                before: Count((count - early) as u64),
                device_ns: self.at(count),
                after: Count((count + late) as u64),
            }
        }
    }

    const STEADY: Card = Card { ppb: 40_000, step: (0, 0) };

    fn log() -> CardLog {
        CardLog::new(Period::NANOSECOND, CountSpan(1))
    }

    fn window(earliest: i64, latest: i64) -> Window {
        Window { earliest: Count(earliest as u64), latest: Count(latest as u64) }
    }

    fn error(log: &CardLog, card: &Card, at: i64, window: Window) -> Result<i64, NoStamp> {
        let stamp = log.place(card.at(at), window)?;
        assert_eq!(stamp.method, StampMethod::Hardware);
        assert!((stamp.count - Count(at as u64)).abs() <= stamp.error, "{stamp:?} of {at}");
        Ok(stamp.error.0)
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn the_rate_is_learnt_and_the_error_small_across_a_long_gap() {
        let mut log = log();
        log.push(STEADY.pair(SECOND, 100, 100));
        log.push(STEADY.pair(SECOND + 100_000_000, 100, 100));
        let gap = window(SECOND, SECOND + 100_000_000);
        // Nobody knows that it runs 40 ppm fast: 200 ppm over 0.1 s may hide a step, and what shows may be one, twice.
        let unknown = error(&log, &STEADY, SECOND + 99_950_000, gap).unwrap();
        assert!((28_000..29_000).contains(&unknown), "{unknown}");
        assert!(!log.has_rate());
        for second in 2..8 {
            log.push(STEADY.pair(second * SECOND, 100, 100));
        }
        log.push(STEADY.pair(8 * SECOND - 1_000_000, 100, 100));
        log.push(STEADY.pair(8 * SECOND + 99_000_000, 100, 100));
        let gap = window(8 * SECOND - 1_000_000, 8 * SECOND + 99_000_000);
        let known = error(&log, &STEADY, 8 * SECOND + 98_950_000, gap).unwrap();
        assert!(known < 700, "{known}");
    }

    #[test]
    fn a_step_leaves_no_stamp_and_those_after_it_are_right() {
        let card = Card { step: (6 * SECOND + 500_000, 5_000_000), ..STEADY };
        let mut log = log();
        for second in 1..=6 {
            log.push(card.pair(second * SECOND, 100, 100));
        }
        log.push(card.pair(6 * SECOND + 1_000_000, 100, 100));
        let torn = window(6 * SECOND, 6 * SECOND + 1_000_000);
        for at in [200_000, 700_000] {
            let placed = log.place(card.at(6 * SECOND + at), torn);
            assert_eq!(placed, Err(NoStamp::Stepped), "{at}");
        }
        log.push(card.pair(6 * SECOND + 2_000_000, 100, 100));
        let after = window(6 * SECOND + 1_100_000, 6 * SECOND + 2_000_000);
        assert!(error(&log, &card, 6 * SECOND + 1_500_000, after).unwrap() < 1_500);
        // Its rate is learnt anew, from pairs since.
        assert_eq!(log.log.period(), Period::NANOSECOND);
        log.push(card.pair(11 * SECOND, 100, 100));
        assert!(log.log.period() != Period::NANOSECOND);
    }

    #[test]
    fn a_step_hides_neither_behind_a_rate_that_is_not_known_nor_in_one_that_was_measured_across_it()
    {
        let place = |card: Card, from: i64, pairs: &[i64], at: i64| {
            let mut log = log();
            pairs.iter().for_each(|count| log.push(card.pair(*count, 100, 100)));
            // The truth is within it.
            error(&log, &card, at, window(from, *pairs.last().unwrap())).unwrap();
        };
        // What 50 ppm gain in 0.1 s a step of 5 µs takes away.
        let from = 10 * SECOND;
        // Stamped a moment before the step, which is a moment before the pair.
        let pairs = [from, from + 100_000_000];
        let card = Card { ppb: 50_000, step: (pairs[1] - 20_000, -5_000) };
        place(card, from, &pairs, pairs[1] - 30_000);
        // Of the 4 s of the baseline the last 2 s have it.
        for by in [300_000, -300_000] {
            let card = Card { ppb: 50_000, step: (14 * SECOND - 20_000, by) };
            let pairs = [6, 8, 10, 12, 14].map(|second| second * SECOND);
            place(card, 12 * SECOND, &pairs, 14 * SECOND - 30_000);
        }
    }

    #[test]
    fn a_small_step_is_in_the_error() {
        let card = Card { step: (6 * SECOND + 500_000, 800), ..STEADY };
        let mut log = log();
        for second in 1..=6 {
            log.push(card.pair(second * SECOND, 100, 100));
        }
        log.push(card.pair(6 * SECOND + 1_000_000, 100, 100));
        for at in [200_000, 700_000] {
            let window = window(6 * SECOND, 6 * SECOND + 1_000_000);
            assert!(error(&log, &card, 6 * SECOND + at, window).unwrap() >= 800);
        }
    }

    #[test]
    fn nothing_is_placed_where_no_pairs_are() {
        let mut log = log();
        assert_eq!(log.place(START, window(1, 2)), Err(NoStamp::OutOfLog));
        log.push(STEADY.pair(SECOND, 10, 10));
        log.push(STEADY.pair(SECOND + 1_000, 10, 10));
        let between = window(SECOND, SECOND + 1_000);
        assert!(error(&log, &STEADY, SECOND + 500, between).is_ok());
        // Of another packet, or of no time that it showed then.
        assert_eq!(log.place(START, between), Err(NoStamp::NotCausal));
        // A counter that went back.
        log.push(STEADY.pair(10, 1, 1));
        assert_eq!(log.place(STEADY.at(SECOND + 500), between), Err(NoStamp::OutOfLog));
        log.push(STEADY.pair(1_000, 1, 1));
        log.clear();
        assert_eq!(log.place(STEADY.at(500), window(20, 900)), Err(NoStamp::OutOfLog));
    }

    proptest! {
        /// However the card runs, whatever reading it takes, and however it is stepped: a stamp that is
        /// placed holds the truth.
        #[test]
        fn a_placed_stamp_holds_the_truth(
            ppb in -500_000_i64..500_000,
            reads in prop::collection::vec(
                (prop_oneof![20_000_i64..200_000, 1_000_000_i64..3_000_000_000], 0_i64..3_000, 0_i64..3_000),
                3..80,
            ),
            (at, step_at) in (0.0_f64..1.0, 0.0_f64..1.0),
            by in prop_oneof![
                Just(0_i64), -3_000_i64..3_000, -2_000_000_i64..2_000_000, -2_000_000_000_i64..2_000_000_000
            ],
            // Beside one of the last pairs, the step between that and the stamp: there the pair tells most, and wrongly.
            beside in prop::option::of((1_usize..4, -60_000_i64..60_000)),
            // And it takes away what the card's rate gives.
            undoes in any::<bool>(),
        ) {
            let mut counts = vec![10 * SECOND];
            for (gap, early, late) in &reads {
                let last = *counts.last().unwrap();
                counts.push(last + gap + early + late + 6_000);
            }
            let span = counts.last().unwrap() - counts[0];
            let place = |part: f64| counts[0] + (span as f64 * part) as i64;
            let last = *counts.last().unwrap();
            let (at, step_at, by) = match beside {
                Some((back, off)) => {
                    let number = counts.len().saturating_sub(back).max(1);
                    let (pair, gap) = (counts[number], counts[number] - counts[number - 1]);
                    let undone = (i128::from(-ppb) * i128::from(gap) / 1_000_000_000) as i64;
                    (pair + off, pair + (off as f64 * step_at) as i64, if undoes { undone } else { by })
                }
                None => (place(at), place(step_at), by),
            };
            let at = at.clamp(counts[0], last);
            let card = Card { ppb, step: (step_at, by) };
            let mut log = log();
            for (count, (_, early, late)) in counts.iter().zip(std::iter::once(&(0, 50, 50)).chain(&reads)) {
                log.push(card.pair(*count, *early, *late));
            }
            let window = window((at - 50_000).max(counts[0]), (at + 50_000).min(last));
            let placed = log.place(card.at(at), window);
            // However short the stretch, and however long reading the clock took.
            prop_assert!(by != 0 || placed.is_ok(), "{placed:?}");
            if let Ok(stamp) = placed {
                let off = (stamp.count - Count(at as u64)).abs();
                // A step hides behind the part of the rate that is allowed for nowhere, while that is not known; and
                // where pairs are far apart, in the rate that was measured across it.
                let around = counts.windows(2).filter(|pair| {
                    Count(pair[1] as u64).at_or_after(window.earliest) && window.latest.at_or_after(Count(pair[0] as u64))
                });
                let gap = around.map(|pair| pair[1] - pair[0]).max().unwrap();
                let rate = match log.doubt {
                    _ if gap > WATCHED.as_nanos_i64() - 10_000 => 1_100_000,
                    Some(_) => 0,
                    None => (ppb.abs() - 200_000).max(0),
                };
                let hidden = (i128::from(rate) * i128::from(gap) / 1_000_000_000) as i64;
                prop_assert!(off.0 <= stamp.error.0 + hidden.min(by.abs()), "{stamp:?} of {at}");
            }
        }
    }
}
