//! Result of an estimator on a path-day.

use serde::Serialize;
use truechimer_feedforward::number::seconds;
use truechimer_feedforward::{Accepted, Estimator, Refusal};
use truechimer_report::{mean, quantile, rms};

use super::{Cause, Change, Passed, Realised};
use crate::direct::Packets;
use truechimer_trace::{Sample, Trace};

/// A report that the path has changed is right for so long after it did, s: a longer route shows
/// by all packets that come no sooner, and queues may hide it for a while.
const LATE: f64 = 1800.0;
/// Smaller changes of the least round trip are none, s.
const SMALLEST: f64 = 10e-6;

/// Figures of one estimator on one path-day. Errors are clock − truth once a second, without the
/// time to settle; everything else is of the whole day.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// Root mean square of the error, µs.
    pub rms_us: f64,
    /// Standard deviation of the error, µs: without the constant part, which asymmetry hides.
    pub deviation_us: f64,
    /// The largest error, µs.
    pub largest_us: f64,
    /// Median of the bound, µs.
    pub bound_us: f64,
    /// Median of the bound over what causality makes of the best round trip since the route
    /// changed: half of it, the root distance and a stamp's error.
    pub bound_ratio: f64,
    /// Seconds with a bound.
    pub promised_s: usize,
    /// Of these, those with the truth outside.
    pub outside_s: usize,
    /// By how much at most, µs.
    pub exceeded_us: f64,
    /// Number of times that the server, which is right, was held off.
    pub held: usize,
    /// For how long in all, s.
    pub held_s: f64,
    /// Number of times that it was taken to have stepped, and followed.
    pub stepped: usize,
    /// Reports that the path had changed.
    pub reported: Reported,
    /// Other floors that were told without that: shorter ones, and changes by as much as before.
    pub floors_moved: usize,
    /// Changes of route or cell that made the round trip longer: a shorter one shows by itself,
    /// with the first packet, and need not be reported.
    pub longer: usize,
    /// Of these, those reported.
    pub found: usize,
    /// Exchanges.
    pub exchanges: usize,
    /// The reports: when, s since the start of the day, and by how much the least round trip was
    /// said to have changed, µs.
    pub reports: Vec<(f64, f64)>,
    /// The hold-offs: from when to when, s since the start of the day.
    pub hold_offs: Vec<(f64, f64)>,
}

/// Reports that the path had changed, by what had happened in the half hour before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reported {
    /// A change of route or cell.
    pub at_route: usize,
    /// A queue that stands for minutes or hours had begun or ended.
    pub at_queue: usize,
    /// Another satellite, but no more than that.
    pub at_satellite: usize,
    /// Nothing.
    pub at_nothing: usize,
}

/// Fate of exchanges, in order.
#[derive(Debug, Default)]
struct Heard {
    /// Since when the server is held off, s.
    held_since: Option<f64>,
    /// See [`Judged::hold_offs`].
    hold_offs: Vec<(f64, f64)>,
    stepped: usize,
    floors_moved: usize,
    /// See [`Judged::reports`].
    reports: Vec<(f64, f64)>,
}

impl Heard {
    fn hear(&mut self, at: f64, outcome: Result<Accepted, Refusal>) {
        match outcome {
            Err(Refusal::ServerStep) => {
                self.held_since.get_or_insert(at);
            }
            Err(Refusal::CounterBackwards | Refusal::ImpossibleRoundTrip) => {}
            Ok(accepted) => {
                self.release(at);
                match accepted {
                    Accepted::Refined => {}
                    Accepted::FloorMoved(_) => self.floors_moved += 1,
                    Accepted::Shifted(by) => self.reports.push((at, seconds(by) * 1e6)),
                    Accepted::Stepped(_) => self.stepped += 1,
                }
            }
        }
    }

    fn release(&mut self, at: f64) {
        self.hold_offs.extend(self.held_since.take().map(|since| (since, at)));
    }
}

/// Runs an estimator over the day.
pub(super) fn judge(
    day: &Realised,
    packets: &Packets,
    estimator: &mut dyn Estimator,
) -> (Judged, Trace) {
    let mut heard = Heard::default();
    let trace = packets.run_heard(estimator, |at, outcome| heard.hear(at, outcome));
    heard.release(day.day.seconds);
    let settled = || trace.samples.iter().filter(|s| s.at >= trace.warm_up);
    let errors: Vec<f64> = settled().map(|s| s.error * 1e6).filter(|e| e.is_finite()).collect();
    let mean = mean(&errors);
    let promised = || trace.samples.iter().filter(|s| s.bound.is_finite());
    // What is no number counts as outside.
    let beyond =
        |s: &Sample| if s.error.is_finite() { s.error.abs() - s.reach() } else { f64::INFINITY };
    let exceeded: Vec<f64> = promised().map(beyond).filter(|by| *by > 0.0).collect();
    let is_longer = |c: &&Change| c.cause == Cause::Route && c.by.iter().sum::<f64>() >= SMALLEST;
    let longer: Vec<f64> = day.changes.iter().filter(is_longer).map(|c| c.at).collect();
    let found = |at: &&f64| heard.reports.iter().any(|(r, _)| (0.0..=LATE).contains(&(r - **at)));
    let judged = Judged {
        rms_us: rms(&errors),
        deviation_us: rms(errors.iter().map(|e| e - mean)),
        largest_us: errors.iter().fold(0.0, |most, e| e.abs().max(most)),
        bound_us: median(settled().map(|s| s.bound * 1e6).collect()),
        bound_ratio: bound_ratio(day, &trace, packets.begun()),
        promised_s: promised().count(),
        outside_s: exceeded.len(),
        exceeded_us: exceeded.iter().fold(0.0, |most, by| most.max(by * 1e6)),
        held: heard.hold_offs.len(),
        held_s: heard.hold_offs.iter().map(|(from, to)| to - from).sum(),
        stepped: heard.stepped,
        reported: reported(&heard.reports, &day.changes),
        floors_moved: heard.floors_moved,
        found: longer.iter().filter(found).count(),
        longer: longer.len(),
        exchanges: day.exchanges.len(),
        reports: heard.reports,
        hold_offs: heard.hold_offs,
    };
    (judged, trace)
}

/// True if a change is more than nothing.
fn is_large(change: &Change) -> bool {
    change.by.iter().any(|by| by.abs() >= SMALLEST)
}

fn reported(reports: &[(f64, f64)], changes: &[Change]) -> Reported {
    let mut reported = Reported::default();
    for (at, _) in reports {
        let recent = |cause: Cause| {
            let recent = |c: &&Change| c.cause == cause && (0.0..=LATE).contains(&(at - c.at));
            changes.iter().filter(recent).any(is_large)
        };
        *match () {
            () if recent(Cause::Route) => &mut reported.at_route,
            () if recent(Cause::Queue) => &mut reported.at_queue,
            () if recent(Cause::Satellite) => &mut reported.at_satellite,
            () => &mut reported.at_nothing,
        } += 1;
    }
    reported
}

/// See [`Judged::bound_ratio`]; `begun` is the time of the trace's time 0, s.
fn bound_ratio(day: &Realised, trace: &Trace, begun: f64) -> f64 {
    let claimed = [day.declared.root_distance, day.declared.stamp_error];
    let claimed: f64 = claimed.into_iter().flatten().map(seconds).sum();
    let mut routes = day.changes.iter().filter(|c| c.cause == Cause::Route).peekable();
    let mut exchanges = day.exchanges.iter().peekable();
    let (mut best, mut since) = (f64::INFINITY, 0.0);
    let mut ratios = Vec::with_capacity(trace.samples.len());
    for sample in &trace.samples {
        let now = sample.at + begun;
        while let Some(change) = routes.next_if(|change| change.at <= now) {
            (best, since) = (f64::INFINITY, change.at);
        }
        while let Some(Passed { at, delays, .. }) = exchanges.next_if(|passed| passed.at <= now) {
            let round_trip = delays.iter().sum::<f64>();
            // One that was on its way says nothing of the new route.
            if at - round_trip > since {
                best = best.min(round_trip);
            }
        }
        if sample.at >= trace.warm_up && best.is_finite() {
            ratios.push(sample.bound / (best / 2.0 + claimed));
        }
    }
    median(ratios)
}

/// The middle one; NaN of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::Span;

    #[test]
    fn a_hold_off_lasts_until_something_is_used() {
        let mut heard = Heard::default();
        for (at, outcome) in [
            (0.0, Ok(Accepted::Refined)),
            (16.0, Err(Refusal::ServerStep)),
            (32.0, Err(Refusal::ServerStep)),
            (40.0, Err(Refusal::ImpossibleRoundTrip)),
            (48.0, Ok(Accepted::Shifted(Span::from_millis(1)))),
            (56.0, Ok(Accepted::FloorMoved(Span::from_millis(-1)))),
            (64.0, Err(Refusal::ServerStep)),
            (80.0, Ok(Accepted::Stepped(Span::ZERO))),
            (96.0, Err(Refusal::ServerStep)),
        ] {
            heard.hear(at, outcome);
        }
        heard.release(100.0);
        assert_eq!(heard.hold_offs, [(16.0, 48.0), (64.0, 80.0), (96.0, 100.0)]);
        assert_eq!((heard.stepped, heard.floors_moved), (1, 1));
        assert_eq!(heard.reports, [(48.0, 1000.0)]);
    }

    #[test]
    fn reports_are_sorted_by_what_happened() {
        let change = |at, by, cause| Change { at, by: [by, 0.0], cause };
        let changes = [
            change(100.0, 1e-3, Cause::Route),
            change(5000.0, -1e-3, Cause::Queue),
            change(5010.0, 1e-6, Cause::Route),
            change(9000.0, 1e-3, Cause::Satellite),
        ];
        let reports = [99.0, 100.0, 1899.0, 1901.0, 5020.0, 9001.0].map(|at| (at, 5.0));
        let expected = Reported { at_route: 2, at_queue: 1, at_satellite: 1, at_nothing: 2 };
        assert_eq!(reported(&reports, &changes), expected);
    }
}
