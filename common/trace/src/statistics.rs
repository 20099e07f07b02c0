//! Figures of a run.

use serde::Serialize;
use truechimer_report::{mean, median, quantile, rms, sorted};
use truechimer_timehands::Status;

use crate::trace::{Interval, Sample, Trace};

/// Time that an error has to stay under a threshold to have converged, s.
const STAYS: f64 = 300.0;
/// Readings further apart than this have a gap between them, s.
const GAP: f64 = 1.5;
/// The thresholds, s.
const THRESHOLDS: [f64; 7] = [10e-3, 1e-3, 500e-6, 100e-6, 50e-6, 20e-6, 10e-6];

/// The statistics of one run, or of several pooled.
///
/// Errors are clock − truth, once a second, warm-up left out, whatever the status: only before its
/// first word has a clock none. With n of them in rising order, the quantile q is the one at the
/// place q · (n − 1), counted from 0; between two places it is on the straight line between the
/// two. Where nothing can be said the value is NaN (in JSON: null).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Statistics {
    /// Number of runs.
    pub runs: usize,
    /// The error of the clock.
    #[serde(flatten)]
    pub error: Errors,
    /// Median of the bound that was promised, µs.
    pub bound_median_us: f64,
    /// Median of its statistical part, µs.
    pub statistical_median_us: f64,
    /// Time from the first request until the error stayed under a threshold, s.
    pub converged_s: Vec<Converged>,
    /// The system clock, where the daemon steers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_clock: Option<Followed>,
    /// Account of the seconds with the truth inside the bound that was promised, from the very start.
    pub inside_bound: Inside,
    /// Seconds in each status, from the very start.
    pub seconds_by_status: ByStatus,
    /// The last second by the difference clock.
    pub one_second: Differences,
    /// The last 1000 s by the difference clock.
    pub thousand_seconds: Differences,
    /// Exchanges with servers.
    pub exchanges: Exchanges,
}

/// Errors, µs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Errors {
    /// Number of errors: seconds that count.
    pub seconds: usize,
    /// Median.
    pub median_us: f64,
    /// From the first to the third quartile.
    pub iqr_us: f64,
    /// The 1st percentile.
    pub p1_us: f64,
    /// The 25th percentile.
    pub p25_us: f64,
    /// The 75th percentile.
    pub p75_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The lowest.
    pub lowest_us: f64,
    /// The highest.
    pub highest_us: f64,
    /// The largest magnitude.
    pub max_us: f64,
    /// Root of the mean square.
    pub rms_us: f64,
    /// Mean.
    pub mean_us: f64,
}

/// Convergence to one threshold.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Converged {
    /// The threshold, µs.
    pub threshold_us: f64,
    /// In how many of the runs it was reached.
    pub runs: usize,
    /// Median of the time it took, s, over all runs; none if half of them or more never reached it.
    pub median_s: Option<f64>,
    /// Time that 95 % of the runs needed at most, s; none if more than 5 % never reached it.
    pub p95_s: Option<f64>,
    /// The longest it took, s; none if a run never reached it.
    pub worst_s: Option<f64>,
}

/// The truth and the bound.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Inside {
    /// Share of seconds inside, 0 to 1.
    pub share: f64,
    /// Seconds with a bound that was promised.
    pub seconds: usize,
    /// Of these, those in which the truth was outside.
    pub outside: usize,
    /// By how much it was outside at most, µs; 0 if never.
    pub exceeded_us: f64,
}

/// Seconds in each status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ByStatus {
    /// `unknown`.
    pub unknown: usize,
    /// `synchronised`.
    pub synchronised: usize,
    /// `holdover`.
    pub holdover: usize,
    /// `disrupted`.
    pub disrupted: usize,
}

/// Spans measured by the difference clock.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Differences {
    /// Measured − true.
    #[serde(flatten)]
    pub error: Errors,
    /// The oscillator's own limit, µs: root of the mean square of what the same intervals would be
    /// off by, measured by a clock that knew the exact rate when each began, and nothing after.
    pub limit_us: f64,
    /// Median of the bound, µs.
    pub bound_median_us: f64,
    /// Account of the seconds with the true length inside it.
    pub inside_bound: Inside,
}

/// Exchanges with servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Exchanges {
    /// All that came back.
    pub seen: usize,
    /// Those that the estimator used.
    pub used: usize,
    /// Those that it did not.
    pub refused: usize,
}

/// Difference of a clock that follows ours from it, two minutes after the start of a run and later.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Followed {
    /// RMS of the difference, µs.
    pub rms_us: f64,
    /// The largest, µs.
    pub max_us: f64,
    /// Number of times that it was stepped, in all runs and from the very start.
    pub steps: u32,
    /// The greatest frequency that it was given, ppm.
    pub max_frequency_ppm: f64,
}

/// Time that a system clock has to come to ours, s.
const FOLLOWED_FROM: f64 = 120.0;

impl Followed {
    fn of(traces: &[&Trace]) -> Option<Followed> {
        let all = || traces.iter().flat_map(|trace| &trace.system);
        let settled = all().filter(|s| s.at >= FOLLOWED_FROM);
        let errors = Errors::of(settled.filter_map(|s| s.against_ours));
        let frequency = all().map(|s| s.frequency.abs() * 1e6).fold(0.0, f64::max);
        let steps = traces.iter().filter_map(|trace| trace.system.last()).map(|s| s.steps).sum();
        all().next().map(|_| Followed {
            rms_us: errors.rms_us,
            max_us: errors.max_us,
            steps,
            max_frequency_ppm: frequency,
        })
    }
}

impl Statistics {
    /// The statistics of these runs, pooled.
    #[must_use]
    pub fn of(traces: &[&Trace]) -> Statistics {
        let all = || traces.iter().flat_map(|trace| &trace.samples);
        let counted = || {
            let settled = |trace: &Trace| trace.samples.partition_point(|s| s.at < trace.warm_up);
            traces.iter().flat_map(move |trace| trace.samples.iter().skip(settled(trace)))
        };
        let promised = |sample: &&Sample| sample.status.bound_holds();
        let mut exchanges = Exchanges::default();
        for exchange in traces.iter().flat_map(|trace| &trace.exchanges) {
            exchanges.seen += 1;
            exchanges.used += usize::from(exchange.used);
            exchanges.refused += usize::from(!exchange.used);
        }
        let mut seconds_by_status = ByStatus::default();
        for sample in all() {
            *match sample.status {
                Status::Unknown => &mut seconds_by_status.unknown,
                Status::Synchronised => &mut seconds_by_status.synchronised,
                Status::Holdover => &mut seconds_by_status.holdover,
                Status::Disrupted => &mut seconds_by_status.disrupted,
            } += 1;
        }
        let differences = |which: fn(&Sample) -> Option<Interval>, length: usize| {
            let spans = || counted().filter_map(which);
            Differences {
                error: Errors::of(spans().map(|span| span.error)),
                limit_us: Errors::of(traces.iter().flat_map(|t| limits(t, which, length))).rms_us,
                bound_median_us: median_us(spans().map(|span| span.bound)),
                inside_bound: Inside::of(all().filter_map(which).map(|s| (s.error, s.bound))),
            }
        };
        Statistics {
            runs: traces.len(),
            error: Errors::of(counted().map(|sample| sample.error)),
            bound_median_us: median_us(counted().filter(promised).map(|sample| sample.bound)),
            statistical_median_us: median_us(
                counted().filter(promised).map(|sample| sample.statistical),
            ),
            system_clock: Followed::of(traces),
            converged_s: THRESHOLDS.iter().map(|t| Converged::of(*t, traces)).collect(),
            inside_bound: Inside::of(all().filter(promised).map(|s| (s.error, s.reach()))),
            seconds_by_status,
            one_second: differences(|sample| sample.second, 1),
            thousand_seconds: differences(|sample| sample.thousand, 1000),
            exchanges,
        }
    }
}

/// Errors that intervals of `length` seconds would have, s, had the oscillator kept the rate that
/// it had when each began: those that were measured and count. Its rate is taken to move evenly
/// from one second to the next.
fn limits(trace: &Trace, which: fn(&Sample) -> Option<Interval>, length: usize) -> Vec<f64> {
    let samples = &trace.samples;
    let mut gained = Vec::with_capacity(samples.len());
    let mut sum = 0.0;
    let mut before: Option<&Sample> = None;
    for sample in samples {
        if let Some(before) = before {
            sum += (sample.skew + before.skew) / 2.0 * (sample.at - before.at);
        }
        before = Some(sample);
        gained.push(sum);
    }
    let begun = samples.iter().zip(&gained);
    let ended = begun.clone().skip(length);
    begun
        .zip(ended)
        .filter(|((from, _), (to, _))| {
            let whole = (to.at - from.at - length as f64).abs() < GAP - 1.0;
            whole && to.at >= trace.warm_up && which(to).is_some()
        })
        .map(|((from, start), (to, end))| end - start - from.skew * (to.at - from.at))
        .collect()
}

impl Errors {
    /// Of errors in seconds.
    fn of(errors: impl Iterator<Item = f64>) -> Errors {
        let errors = sorted(errors.map(|e| e * 1e6));
        let at = |q: f64| quantile(&errors, q);
        let (p25_us, p75_us) = (at(0.25), at(0.75));
        let (lowest_us, highest_us) = (at(0.0), at(1.0));
        Errors {
            seconds: errors.len(),
            median_us: at(0.5),
            iqr_us: p75_us - p25_us,
            p1_us: at(0.01),
            p25_us,
            p75_us,
            p99_us: at(0.99),
            lowest_us,
            highest_us,
            max_us: highest_us.abs().max(lowest_us.abs()),
            rms_us: rms(&errors),
            mean_us: mean(&errors),
        }
    }
}

impl Inside {
    /// Of errors and the bounds promised with them, in seconds.
    fn of(readings: impl Iterator<Item = (f64, f64)>) -> Inside {
        let mut inside = Inside { share: f64::NAN, seconds: 0, outside: 0, exceeded_us: 0.0 };
        for (error, bound) in readings {
            inside.seconds += 1;
            // What is no number counts as outside.
            let is_inside = error.abs() <= bound;
            if !is_inside {
                inside.outside += 1;
                inside.exceeded_us = inside.exceeded_us.max(1e6 * (error.abs() - bound));
            }
        }
        if inside.seconds > 0 {
            inside.share = 1.0 - inside.outside as f64 / inside.seconds as f64;
        }
        inside
    }
}

impl Converged {
    fn of(threshold: f64, traces: &[&Trace]) -> Converged {
        let took: Vec<Option<f64>> =
            traces.iter().map(|t| converged(&t.samples, threshold)).collect();
        let reached = sorted(took.iter().flatten());
        // Those that never got there are the slowest: the median is one of theirs, or is not.
        let middle =
            |n: usize| reached.get(n / 2).copied().zip(reached.get(n.saturating_sub(1) / 2));
        Converged {
            threshold_us: threshold * 1e6,
            runs: reached.len(),
            median_s: middle(took.len()).map(|(high, low)| (high + low) / 2.0),
            p95_s: reached.get((19 * took.len()).div_ceil(20).saturating_sub(1)).copied(),
            worst_s: reached.last().copied().filter(|_| reached.len() == took.len()),
        }
    }
}

/// When the error first stayed under the threshold for long enough, s since the first request.
/// The run has to go on for that long.
fn converged(samples: &[Sample], threshold: f64) -> Option<f64> {
    let mut since: Option<f64> = None;
    let mut before = f64::NEG_INFINITY;
    for sample in samples {
        // Nobody looked for a while: nobody knows.
        if sample.at - before > GAP {
            since = None;
        }
        before = sample.at;
        if sample.error.abs() < threshold {
            let begun = *since.get_or_insert(sample.at);
            if sample.at - begun >= STAYS {
                return Some(begun);
            }
        } else {
            since = None;
        }
    }
    None
}

fn median_us(values: impl Iterator<Item = f64>) -> f64 {
    median(values.map(|v| v * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Exchanged;

    /// A second with this error, within a bound of 10 µs of which 4 µs are statistical.
    fn sample(at: f64, error_us: f64) -> Sample {
        Sample {
            at,
            error: error_us * 1e-6,
            bound: 10e-6,
            imbalance: 0.0,
            likely: None,
            statistical: 4e-6,
            status: Status::Synchronised,
            rate_error: 0.0,
            skew: 0.0,
            second: Some(Interval { error: 1e-9, bound: 2e-9, deviation: 1e-9 }),
            thousand: None,
        }
    }

    fn trace(errors_us: &[f64]) -> Trace {
        let samples = errors_us.iter().enumerate().map(|(i, e)| sample(i as f64 + 0.5, *e));
        Trace { samples: samples.collect(), ..Trace::default() }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn five_seconds_by_hand() {
        // In order: −3, 1, 2, 5, 15.
        let s = Statistics::of(&[&trace(&[1.0, -3.0, 15.0, 2.0, 5.0])]);
        let e = &s.error;
        assert_eq!(e.seconds, 5);
        assert!(near(e.median_us, 2.0) && near(e.p25_us, 1.0) && near(e.p75_us, 5.0));
        assert!(near(e.iqr_us, 4.0) && near(e.mean_us, 4.0) && near(e.max_us, 15.0));
        assert!(near(e.lowest_us, -3.0) && near(e.highest_us, 15.0));
        // 1 % of the way through four gaps: 0.04 of the first one, which is 4 wide.
        assert!(near(e.p1_us, -3.0 + 0.16) && near(e.p99_us, 15.0 - 0.4));
        assert!(near(e.rms_us, f64::sqrt((1.0 + 9.0 + 225.0 + 4.0 + 25.0) / 5.0)));
        assert_eq!((s.inside_bound.seconds, s.inside_bound.outside), (5, 1));
        assert!(near(s.inside_bound.share, 0.8) && near(s.inside_bound.exceeded_us, 5.0));
        assert!(near(s.bound_median_us, 10.0) && near(s.statistical_median_us, 4.0));
        assert_eq!((s.one_second.error.seconds, s.one_second.inside_bound.outside), (5, 0));
        assert!(near(s.one_second.error.median_us, 1e-3));
        assert_eq!(s.thousand_seconds.error.seconds, 0);
        assert!(s.thousand_seconds.inside_bound.share.is_nan());
    }

    #[test]
    fn the_warm_up_is_left_out_of_errors_but_not_of_the_bound() {
        let early = Trace { warm_up: 2.0, ..trace(&[500.0, 400.0, 1.0, 3.0]) };
        let s = Statistics::of(&[&early]);
        assert_eq!(s.error.seconds, 2);
        assert!(near(s.error.median_us, 2.0) && near(s.error.max_us, 3.0));
        assert_eq!((s.inside_bound.seconds, s.inside_bound.outside), (4, 2));
    }

    #[test]
    fn an_error_counts_whatever_the_status_and_a_bound_only_if_promised() {
        let mut early = trace(&[f64::INFINITY, 6.0, 0.0, 3.0]);
        for (sample, status) in early.samples.iter_mut().zip([
            Status::Unknown,
            Status::Disrupted,
            Status::Holdover,
            Status::Synchronised,
        ]) {
            sample.status = status;
        }
        let s = Statistics::of(&[&early]);
        let by = ByStatus { unknown: 1, synchronised: 1, holdover: 1, disrupted: 1 };
        assert_eq!(s.seconds_by_status, by);
        assert_eq!((s.error.seconds, s.inside_bound.seconds, s.inside_bound.outside), (3, 2, 0));
        assert!(near(s.error.mean_us, 3.0));
    }

    #[test]
    fn the_limit_of_an_interval_is_what_the_rate_did_in_it() {
        // The rate rises by 10⁻⁷ every second: in a second that makes 0.05 µs.
        let mut rising = trace(&[0.0; 50]);
        for (k, sample) in rising.samples.iter_mut().enumerate() {
            sample.skew = 1e-7 * k as f64;
        }
        let s = Statistics::of(&[&rising]);
        assert!(near(s.one_second.limit_us, 0.05), "{}", s.one_second.limit_us);
        assert!(s.thousand_seconds.limit_us.is_nan());
    }

    #[test]
    fn convergence_is_when_it_stays() {
        // Under 100 µs for 200 s, once over it, and under it from second 200 on.
        let mut errors = vec![50.0; 700];
        errors[0] = 2000.0;
        errors[200] = 150.0;
        let short = trace(&errors[..450]);
        let long = trace(&errors);
        let took = |traces: &[&Trace], us: f64| {
            let all = Statistics::of(traces).converged_s;
            all.into_iter().find(|c| near(c.threshold_us, us)).unwrap()
        };
        let c = took(&[&long], 100.0);
        assert_eq!((c.runs, c.median_s, c.worst_s), (1, Some(201.5), Some(201.5)));
        assert_eq!(took(&[&long], 1000.0).worst_s, Some(1.5));
        // It ends before it has stayed for 300 s.
        assert_eq!(took(&[&short], 100.0).runs, 0);
        assert_eq!(took(&[&long], 10.0).median_s, None);
        // The one that never got there is the slowest of all.
        let c = took(&[&long, &short, &long], 100.0);
        assert_eq!((c.runs, c.median_s, c.worst_s), (2, Some(201.5), None));
        assert_eq!(took(&[&long, &short], 100.0).median_s, None);
    }

    #[test]
    fn runs_are_pooled() {
        let (one, two) = (trace(&[1.0, 2.0]), trace(&[3.0]));
        let s = Statistics::of(&[&one, &two]);
        assert_eq!((s.runs, s.error.seconds), (2, 3));
        assert!(near(s.error.median_us, 2.0));
    }

    #[test]
    fn nothing_at_all_is_no_panic_and_no_number() {
        for traces in [&[][..], &[&Trace::default()][..]] {
            let s = Statistics::of(traces);
            assert!(s.error.rms_us.is_nan() && s.error.median_us.is_nan());
            let json = serde_json::to_value(&s).unwrap();
            assert!(json["rms_us"].is_null() && json["inside_bound"]["share"].is_null());
        }
    }

    #[test]
    fn exchanges_are_counted() {
        let exchange = |used| Exchanged {
            at: 0.0,
            source: 0,
            rtt: 0.0,
            floor: 0.0,
            forward: 0.0,
            backward: 0.0,
            true_delays: None,
            used,
            selected: true,
        };
        let exchanges = vec![exchange(true), exchange(false), exchange(true)];
        let s = Statistics::of(&[&Trace { exchanges, ..Trace::default() }]);
        assert_eq!(s.exchanges, Exchanges { seen: 3, used: 2, refused: 1 });
    }
}
