//! Width of the interval that causality allows, over the width that it has to have.
//!
//! No interval from one path can be narrower than its fastest request and its fastest reply
//! together leave open: the best round trip, the root distance of the server to either side, and
//! the errors of the stamps. Here is by how much it is wider while the path is quiet, and ten
//! minutes after a route has changed.

use truechimer_feedforward::number::seconds;
use truechimer_report::{quantile, sorted};

use crate::scenario::{Scenario, ScenarioError};
use crate::world::{Options, Run, simulate};
use truechimer_trace::{Exchanged, Sample};

/// Time after a change of route by which the interval is to be narrow again, s.
pub const AGAIN_S: f64 = 600.0;

/// Half of the interval's width and the bound, both over half of the best round trip with what
/// server and stamps may be off by: medians over some time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// The least half-width, µs.
    pub least_us: f64,
    /// Half of the width over that.
    pub width: f64,
    /// Half of the width that nine in ten seconds do not exceed, over that.
    pub width_90: f64,
    /// The bound, which is the larger side of the two, over that.
    pub bound: f64,
}

/// Widths in one run of a single server's scenario: while nothing has changed yet, and for as long
/// again from ten minutes after the first change of route on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Widths {
    /// Once the clock has settled.
    pub quiet: Option<Ratio>,
    /// After the change; `None` if there is none.
    pub changed: Option<Ratio>,
}

/// Runs a scenario under a seed.
///
/// # Errors
/// If it makes no sense.
pub fn widths(scenario: &Scenario, seed: u64) -> Result<Widths, ScenarioError> {
    let run = simulate(scenario, &Options { seed, ..Options::default() })?;
    let ways = scenario.servers.iter().flat_map(|s| [&s.forward, &s.backward]);
    let changes = ways.flat_map(|way| way.shifts.iter().flat_map(|s| [Some(s.at_s), s.until_s]));
    let mut changes: Vec<f64> = changes.flatten().collect();
    changes.sort_by(f64::total_cmp);
    changes.dedup();
    let end = scenario.hours * 3600.0;
    let [first, second] = [0, 1].map(|n| changes.get(n).copied().unwrap_or(end));
    // A path is as it was until some seconds before its change, by the clock of the trace.
    let quiet = ratio(&run, 0.0, run.trace.warm_up, first - 60.0);
    let changed = ratio(&run, first + 60.0, first + AGAIN_S, second - 60.0);
    Ok(Widths { quiet, changed })
}

/// Over the seconds from `begin` to `end`, by the exchanges since `since`.
fn ratio(run: &Run, since: f64, begin: f64, end: f64) -> Option<Ratio> {
    let of_path = |x: &&Exchanged| (since..end).contains(&x.at);
    let trips = run.trace.exchanges.iter().filter(of_path).map(|x| x.rtt);
    let best = trips.fold(f64::INFINITY, f64::min);
    let declared = run.declared.first()?;
    let claimed = [declared.root_distance, declared.stamp_error];
    let least = best / 2.0 + claimed.into_iter().flatten().map(seconds).sum::<f64>();
    let counts = |s: &&Sample| (begin..end).contains(&s.at) && s.status.bound_holds();
    let at = |of: fn(&Sample) -> f64, q: f64| {
        let values = run.trace.samples.iter().filter(counts).map(|s| of(s) / least);
        quantile(&sorted(values), q)
    };
    let width = |s: &Sample| s.width() / 2.0;
    let found = Ratio {
        least_us: least * 1e6,
        width: at(width, 0.5),
        width_90: at(width, 0.9),
        bound: at(|s| s.bound, 0.5),
    };
    found.width.is_finite().then_some(found)
}
