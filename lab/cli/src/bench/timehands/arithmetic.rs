//! Cost of turning counts into time by division and by multiplication, and how long each way lasts
//! before it overflows.

use std::hint::black_box;
use std::time::Instant as HostInstant;

use serde::Serialize;
use truechimer_report::median;
use truechimer_time::{CountSpan, Period};

use super::figures::tenths;

const CALLS: u32 = 10_000;
const NANOS: u64 = 1_000_000_000;

/// Cost of one conversion, ns, of numbers that the compiler does not know.
#[derive(Clone, Debug, Serialize)]
pub struct Division {
    /// counts · 10⁹ / hertz in 64 bits: overflows after 2⁶⁴ / 10⁹ counts.
    pub divide_64_ns: f64,
    /// Division in 128 bits, which does not overflow.
    pub divide_128_ns: f64,
    /// counts · period in 128 bits, as timehands do it.
    pub multiply_ns: f64,
}

/// Measures it, each way in turn.
pub fn division(rounds: u16) -> Division {
    let (counts, hz) = (1_234_567_890_123_u64, 2_596_000_001_u64);
    let period = Period::from_hz(hz);
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..rounds.max(5) {
        for (way, costs) in costs.iter_mut().enumerate() {
            let counts = black_box(counts);
            costs.push(match way {
                0 => timed(counts, |n| black_box(n.wrapping_mul(NANOS)) / black_box(hz).max(1)),
                1 => timed(counts, |n| {
                    let nanos =
                        u128::from(n) * u128::from(NANOS) / u128::from(black_box(hz).max(1));
                    nanos as u64
                }),
                _ => timed(counts, |n| black_box(period).span(CountSpan(n as i64)).0 as u64),
            });
        }
    }
    let [divide_64_ns, divide_128_ns, multiply_ns] =
        costs.map(|costs| (median(&costs) * 100.0).round() / 100.0);
    Division { divide_64_ns, divide_128_ns, multiply_ns }
}

/// Cost of a call, each needing the result of the one before.
fn timed(mut counts: u64, call: impl Fn(u64) -> u64) -> f64 {
    let begin = HostInstant::now();
    for _ in 0..CALLS {
        counts ^= call(counts) & 1;
    }
    black_box(counts);
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// A counter of FreeBSD's, and how often its hands have to be renewed.
#[derive(Clone, Debug, Serialize)]
pub struct Renewal {
    /// The counter.
    pub counter: &'static str,
    /// Frequency of the counter, Hz.
    pub hz: u64,
    /// Of how many bits are read: of wider ones FreeBSD takes 32.
    pub bits: u32,
    /// Time that a hand lasts before the product overflows, s.
    pub overflows_after_s: f64,
    /// Time that the counter lasts before it rolls over, s.
    pub rolls_over_after_s: f64,
    /// The least rate at which a hand has to be renewed, Hz.
    pub least_hz: f64,
    /// Time that one of our hands lasts before its product overflows, in years.
    pub ours_lasts_years: f64,
}

/// Counters from slow to fast.
const COUNTERS: [(&str, u64, u32); 6] = [
    ("i8254", 1_193_182, 16),
    ("ACPI PM timer, 24 bits", 3_579_545, 24),
    ("HPET", 14_318_180, 32),
    ("a clock in ns", 1_000_000_000, 32),
    ("TSC, 2.6 GHz", 2_596_000_000, 32),
    ("10 GHz", 10_000_000_000, 32),
];

/// For each of a few counters.
pub fn renewals() -> Vec<Renewal> {
    let renewal = |(counter, hz, bits): (&'static str, u64, u32)| {
        let lasts = |counts: f64| counts / hz as f64;
        let overflows_after_s = lasts(scaled::most(scaled::scale(hz)) as f64);
        let rolls_over_after_s = lasts((1_u64 << bits) as f64);
        Renewal {
            counter,
            hz,
            bits,
            overflows_after_s,
            rolls_over_after_s,
            least_hz: tenths(1.0 / overflows_after_s.min(rolls_over_after_s)),
            ours_lasts_years: (lasts(i64::MAX as f64) / 31_557_600.0).round(),
        }
    };
    COUNTERS.map(renewal).to_vec()
}

/// FreeBSD's way of turning counts into time: 64 bits of scale, 32 of counts, 64 of product.
mod scaled {
    /// The scale of a counter that nobody steers: 2⁶⁴ / hertz, as far as a division of 2⁶³ and a
    /// doubling have it.
    pub fn scale(hz: u64) -> u64 {
        (1_u64 << 63) / hz.max(1) * 2
    }

    /// The fraction of a second that so many counts last, in 2⁻⁶⁴ s: whole seconds are lost.
    #[cfg(test)]
    pub fn fraction(scale: u64, counts: u32) -> u64 {
        scale.wrapping_mul(counts.into())
    }

    /// The most counts whose product fits.
    pub fn most(scale: u64) -> u64 {
        u64::MAX / scale.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Span;

    #[test]
    fn the_scaled_way_overflows_after_a_second_and_ours_does_not() {
        for (_, hz, _) in COUNTERS {
            let (scale, period) = (scaled::scale(hz), Period::from_hz(hz));
            // As long as it lasts it is right, to the resolution of the scale.
            let most = scaled::most(scale);
            assert!((most as i128 - i128::from(hz)).abs() <= i128::from(hz) / 1_000_000 + 1);
            let Ok(counts) = u32::try_from(most) else {
                // Faster than 32 bits: the counter rolls over before that.
                assert!(hz > 1 << 32);
                continue;
            };
            let ours = |counts: u32| period.span(CountSpan(counts.into()));
            let right = |counts| Span(scaled::fraction(scale, counts).into());
            let off = right(counts) - ours(counts);
            assert!(off.abs() < Span::from_nanos(10), "{hz}: {off}");
            // One count more, and a whole second is gone.
            let Some(more) = counts.checked_add(1) else { continue };
            let off = right(more) - ours(more);
            assert!((off + Span::from_secs(1)).abs() < Span::from_nanos(10), "{hz}: {off}");
            assert!(ours(more) > ours(counts));
        }
    }

    #[test]
    fn the_least_rates_are_those_of_the_ticket() {
        let least = |name: &str| {
            renewals().into_iter().find(|one| one.counter == name).map(|one| one.least_hz).unwrap()
        };
        assert_eq!(least("i8254"), 18.2);
        assert_eq!(least("TSC, 2.6 GHz"), 1.0);
        assert_eq!(least("10 GHz"), 2.3);
        assert!(renewals().iter().all(|one| one.ours_lasts_years >= 29.0));
    }

    #[test]
    fn every_way_takes_some_time() {
        let division = division(1);
        assert!(division.divide_64_ns > 0.0 && division.multiply_ns > 0.0);
    }
}
