//! Distance of the group's clock from the members' clocks and from real time: 10 000 rounds with
//! random pauses, the synchronizer rotating, as in the paper's third experiment; and over days,
//! simulated.

use serde_json::json;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::{show_ns, show_share};
use truechimer_report::mean;
use truechimer_testbed::binary;

use crate::bench::group::bed::{Bed, How, MEMBERS};
use crate::bench::group::drift::{self, Plan, Tie};
use crate::bench::group::load::{Load, Sample};
use crate::bench::group::moment::{raw, realtime};
use crate::bench::group::options::Options;

/// The members' clocks against the host's: what the agents of nodes 1 to 3 take for UTC.
const WARPS: [(&str, f64, f64); 3] = [
    // As TRUECHIMER_WARP has it; offset in ns, rate in parts in 10⁶.
    ("offset=3ms,rate=40ppm", 3e6, 40.0),
    ("offset=-2ms,rate=-30ppm", -2e6, -30.0),
    ("offset=500us,rate=5ppm", 5e5, 5.0),
];
/// Bound that each agent is told of its clock's error.
const BOUND: &str = "8ms";
const BOUND_NS: f64 = 8e6;
/// Points of a line.
const POINTS: usize = 160;

/// A line: seconds, and ns from real time.
type Line = Vec<(f64, f64)>;

/// One run on the ring.
struct Run {
    name: &'static str,
    /// The group's clock − real time.
    group: Line,
    /// Each member's clock − real time.
    members: Vec<Line>,
    /// Number of rounds in which the group's clock was surely not where a member's clock and bound
    /// have UTC; none where members have none.
    out_of_bounds: Option<usize>,
    /// Number of rounds that each member was the synchronizer of.
    won: Vec<usize>,
    rounds: usize,
    /// Rounds whose value was not the same everywhere.
    different: usize,
}

/// Measures it.
///
/// # Errors
/// Where the machine lacks what that takes, or the group fails.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let rounds = options.count(10_000, 500) as u64;
    options.say("skew: as published");
    let published =
        ring(options, rounds, "as published", "order = \"published\"\nwithout-utc = true", "")?;
    options.say("skew: steered");
    let utc = format!("system-clock = \"{BOUND}\"");
    let steered = ring(options, rounds, "steered", "", &utc)?;
    let days = if options.quick { 0.25 } else { 3.0 };
    options.say("skew: simulated days");
    let plan = Plan { seconds: (days * 86_400.0) as u64, seed: options.seed, ..Plan::default() };
    let simulated = |tie| drift::simulate(&plan, tie).map_err(|e| Failure::of("simulating", e));
    let (mut paper, ours) = (simulated(Tie::Published)?, simulated(Tie::Steered)?);
    // Without UTC the group's clock begins anywhere: only how it goes on says something.
    let start = paper.first().map_or(0, |sample| sample.group_ns);
    paper.iter_mut().for_each(|sample| sample.group_ns -= start);
    Ok(outcome(&[published, steered], &paper, &ours, &plan))
}

/// The host's clock without what may warp it: real time by the raw clock, between two comparisons.
struct Real {
    before: (i64, i64),
    after: (i64, i64),
}

impl Real {
    fn at(&self, raw: i64) -> f64 {
        let (raw_0, real_0) = self.before;
        let (raw_1, real_1) = self.after;
        let share = (raw - raw_0) as f64 / (raw_1 - raw_0).max(1) as f64;
        // Relative to the first comparison: doubles would lose a part of the time since 1970.
        share * (real_1 - real_0) as f64
    }

    fn off(&self, raw: i64, clock: i64) -> f64 {
        (clock - self.before.1) as f64 - self.at(raw)
    }

    fn seconds(&self, raw: i64) -> f64 {
        (raw - self.before.0) as f64 * 1e-9
    }
}

/// The environment of an agent whose clock is warped from this moment on.
fn warped(warp: &str, from: i64) -> Result<Vec<(&'static str, String)>, Failure> {
    let library = binary::find("libtruechimer_warp.so").map_err(|lacking| Failure(lacking.0))?;
    let library = library.display().to_string();
    Ok(vec![("LD_PRELOAD", library), ("TRUECHIMER_WARP", format!("{warp},epoch={from}"))])
}

fn ring(
    options: &Options,
    rounds: u64,
    name: &'static str,
    group: &str,
    utc: &str,
) -> Result<Run, Failure> {
    let steered = !utc.is_empty();
    let began = (raw(), realtime());
    let how = How {
        group: format!("rotate = true\n{group}"),
        utc: utc.to_owned(),
        environment: if steered {
            WARPS.iter().map(|(warp, ..)| warped(warp, began.1)).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        },
        ..How::usual(&options.truechimer)
    };
    let mut bed = Bed::up(how)?;
    let load = Load {
        first: 1000,
        threads: 1,
        rounds,
        pause_us: (60, 400),
        seed: options.seed,
        start: None,
    };
    let loaded = bed.load(&load)?;
    let real = Real { before: began, after: (raw(), realtime()) };
    let all: Vec<Vec<Sample>> =
        (1..=MEMBERS as usize).map(|node| loaded.samples(node).copied().collect()).collect();
    let rows = || (0..rounds as usize).map(|round| all.iter().filter_map(move |s| s.get(round)));
    let different = rows()
        .filter(|row| {
            let mut values = row.clone().map(|sample| (sample.time, sample.synchronizer));
            let first = values.next();
            values.any(|value| Some(value) != first)
        })
        .count();
    // The first member that had the value: the least delay in it.
    let mut group: Line = rows()
        .filter_map(|row| row.min_by_key(|sample| sample.raw))
        .map(|sample| (real.seconds(sample.raw), real.off(sample.raw, sample.time)))
        .collect();
    if !steered {
        let start = group.first().map_or(0.0, |point| point.1);
        group.iter_mut().for_each(|point| point.1 -= start);
    }
    let own = |node: usize, seconds: f64| -> f64 {
        let (_, offset, rate) = WARPS.get(node).copied().unwrap_or_default();
        if steered { offset + rate * 1e3 * seconds } else { 0.0 }
    };
    // The value was proposed after the first reading of the round began, and agreed on before one
    // ended (later ones find it there).
    let outside = |row: &Vec<&Sample>| {
        let began = row.iter().map(|s| (s.raw.saturating_sub_unsigned(s.took), s.time)).min();
        let ended = row.iter().map(|s| (s.raw, s.time)).min();
        let (Some(began), Some(ended)) = (began, ended) else { return false };
        let (most, least) = (real.off(began.0, began.1), real.off(ended.0, ended.1));
        (0..WARPS.len()).any(|node| {
            let own = own(node, real.seconds(ended.0));
            most < own - BOUND_NS || least > own + BOUND_NS
        })
    };
    let out_of_bounds = steered.then(|| rows().map(|row| row.collect()).filter(outside).count());
    let member = |node: usize| -> Line {
        let samples = all.get(node).into_iter().flatten();
        samples.map(|s| (real.seconds(s.raw), own(node, real.seconds(s.raw)))).collect()
    };
    let first = all.first().map_or(&[][..], Vec::as_slice);
    let won = (1..=MEMBERS).map(|n| first.iter().filter(|s| s.synchronizer == n).count());
    Ok(Run {
        name,
        group,
        members: (0..MEMBERS as usize).map(member).collect(),
        out_of_bounds,
        won: won.collect(),
        rounds: first.len(),
        different,
    })
}

/// About so many points of a line.
fn thinned(line: &Line) -> Line {
    let step = line.len().div_ceil(POINTS).max(1);
    line.iter().copied().step_by(step).collect()
}

/// The slope by least squares, parts in 10⁶ (ns per ms), of ns over seconds.
fn drift_ppm(line: &Line) -> f64 {
    let (x, y) = (mean(line.iter().map(|p| p.0)), mean(line.iter().map(|p| p.1)));
    let up: f64 = line.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let along: f64 = line.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    up / along * 1e-3
}

fn outcome(runs: &[Run], paper: &[drift::Sample], ours: &[drift::Sample], plan: &Plan) -> Outcome {
    let mut grid = Grid::new(
        "The group's clock on the ring",
        [
            "how",
            "rounds",
            "drift from real time, ppm",
            "moved in all",
            "won by 1",
            "by 2",
            "by 3",
            "values that differ",
        ],
    );
    let mut figures = Vec::new();
    let mut goals = Vec::new();
    let mut json = Vec::new();
    for run in runs {
        let moved = match (run.group.first(), run.group.last()) {
            (Some(first), Some(last)) => last.1 - first.1,
            _ => f64::NAN,
        };
        let share = |won: &usize| show_share(*won as f64 / run.rounds as f64);
        let name = [run.name.to_owned(), run.rounds.to_string()];
        let drift = [format!("{:.1}", drift_ppm(&run.group)), show_ns(moved)];
        let rest = run.won.iter().map(share).chain([run.different.to_string()]);
        grid.row(name.into_iter().chain(drift).chain(rest));
        goals.push(Goal::counted(
            &format!("rounds with different values, {}", run.name),
            "0",
            run.different,
            run.different == 0,
        ));
        json.push(json!({
            "how": run.name, "rounds": run.rounds, "drift_ppm": drift_ppm(&run.group),
            "moved_ns": moved, "won": run.won, "different": run.different,
            "group_ns": thinned(&run.group),
        }));
        let mut lines = vec![("the group's clock".to_owned(), to_us(&thinned(&run.group)))];
        lines.extend(
            run.members
                .iter()
                .enumerate()
                .map(|(n, line)| (format!("clock of member {}", n + 1), to_us(&thinned(line)))),
        );
        if run.out_of_bounds.is_some() {
            lines.extend(bounds(&run.members));
        }
        figures.push(Figure::Plot(Plot {
            title: format!("Offset from real time, µs, {}", run.name),
            x: Axis::linear("time since the start, s"),
            y: Axis::linear("offset, µs (positive: ahead)"),
            lines,
        }));
    }
    let within = ours.iter().filter(|sample| sample.within).count();
    goals.push(Goal::counted(
        "simulated: the group's clock within each member's bound of UTC",
        "always",
        format!("{within} of {} samples", ours.len()),
        within == ours.len() && !ours.is_empty(),
    ));
    for run in runs {
        let Some(out) = run.out_of_bounds else { continue };
        goals.push(Goal::counted(
            &format!("on the ring, {}: rounds outside a member's bound of UTC", run.name),
            "0",
            out,
            out == 0,
        ));
    }
    figures.extend(days(paper, ours, plan));
    let last = |samples: &[drift::Sample]| samples.last().map_or(f64::NAN, |s| s.group_ns as f64);
    let most = ours.iter().map(|s| s.group_ns.abs()).max().unwrap_or(0) as f64;
    let mut simulated = Grid::new(
        "Simulated days",
        ["how", "days", "from UTC at the end", "most, after the start"],
    );
    let days = format!("{:.2}", plan.seconds as f64 / 86_400.0);
    simulated.row(["as published".to_owned(), days.clone(), show_ns(last(paper)), "–".to_owned()]);
    simulated.row(["steered".to_owned(), days, show_ns(last(ours)), show_ns(most)]);
    let series = |samples: &[drift::Sample]| {
        samples.iter().map(|s| json!([s.seconds, s.group_ns])).collect::<Vec<_>>()
    };
    Outcome {
        headline: Vec::new(),
        name: "skew",
        title: "Skew and drift of the group's clock".to_owned(),
        about: vec![
            "On the ring: three members, one logical thread each, before each reading a random \
             pause of 60 to 400 µs, the order of proposing going round with the rounds, so that \
             every member becomes the synchronizer. Real time is the host's clock. First as \
             published: no order between threads, no UTC; all members of this one machine share \
             one physical clock, so what drift there is comes from the algorithm alone: a member \
             that did not win takes the group's time for that of its own reading, which was some \
             other moment. Without UTC its clock begins anywhere, so it is shown from where it began."
                .to_owned(),
            format!(
                "Then steered: the same, but each agent takes for UTC a system clock of its own: {} \
                 for members 1 to 3, all of them with a bound of {BOUND}. The group's clock follows \
                 the median, and never goes back. A reading that took long is shown where it ended: \
                 behind by as much.",
                WARPS.map(|(warp, ..)| warp).join("; ")
            ),
            format!(
                "Over days the real engines run in virtual time: three members whose physical \
                 clocks are {} parts in 10⁹ fast (negative: slow), with a daily swing, UTC known to \
                 {} each. Without UTC the member nearest to the network wins most rounds, and its \
                 clock drives the group's: the drift that the paper reports.",
                plan.clocks.iter().map(|c| c.rate_ppb.to_string()).collect::<Vec<_>>().join(", "),
                show_ns(plan.clocks.first().map_or(0.0, |c| c.bound_ns as f64))
            ),
        ],
        goals,
        grids: vec![grid, simulated],
        figures,
        json: json!({ "ring": json, "published": series(paper), "steered": series(ours) }),
    }
}

fn to_us(line: &Line) -> Line {
    line.iter().map(|(x, y)| (*x, y * 1e-3)).collect()
}

/// Where UTC can be by the clocks and bounds of all members, on the ring.
fn bounds(members: &[Line]) -> [(String, Line); 2] {
    let all = |name: &str, of: fn(f64, f64) -> f64, bound: f64| {
        let (first, rest) = members.split_first().map_or((&[][..], &[][..]), |(f, r)| (f, r));
        let line = first.iter().enumerate().map(|(n, (x, y))| {
            let others = rest.iter().filter_map(|line| line.get(n));
            (*x, others.fold(*y, |most, (_, y)| of(most, *y)) + bound)
        });
        (name.to_owned(), to_us(&thinned(&line.collect())))
    };
    [
        all("latest by all members' bounds", f64::min, BOUND_NS),
        all("earliest by all members' bounds", f64::max, -BOUND_NS),
    ]
}

/// The paper's drift and ours: how far, on one scale; and ours closely.
fn days(paper: &[drift::Sample], ours: &[drift::Sample], plan: &Plan) -> [Figure; 2] {
    let line = |samples: &[drift::Sample], of: &dyn Fn(&drift::Sample) -> i64| -> Line {
        let all = samples.iter().map(|s| (s.seconds / 3600.0, of(s) as f64 * 1e-6));
        thinned(&all.collect())
    };
    let far = |samples| line(samples, &|s| s.group_ns.abs());
    let bound = plan.clocks.iter().map(|clock| clock.bound_ns).min().unwrap_or(0);
    let far = Plot {
        title: "Distance from UTC, ms, over simulated days".to_owned(),
        x: Axis::linear("time since the start, hours"),
        y: Axis::log("distance from UTC, ms"),
        lines: vec![
            ("as published".to_owned(), far(paper)),
            ("steered".to_owned(), far(ours)),
            ("members' bound of UTC".to_owned(), line(ours, &|_| bound)),
        ],
    };
    let close = Plot {
        title: "Offset from UTC, ms, over simulated days, steered".to_owned(),
        x: Axis::linear("time since the start, hours"),
        y: Axis::linear("offset, ms (positive: ahead)"),
        lines: vec![
            ("the group's clock".to_owned(), line(ours, &|s| s.group_ns)),
            ("members' bound of UTC".to_owned(), line(ours, &|_| bound)),
            ("the same, below".to_owned(), line(ours, &|_| -bound)),
        ],
    };
    [Figure::Plot(far), Figure::Plot(close)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_the_slope() {
        let line: Line =
            (0..100).map(|n| (f64::from(n) * 0.1, 7.0 + f64::from(n) * 500.0)).collect();
        // 500 ns in 0.1 s.
        assert!((drift_ppm(&line) - 5.0).abs() < 1e-9);
        assert!(thinned(&(0..1000).map(|n| (f64::from(n), 0.0)).collect()).len() <= POINTS);
    }

    #[test]
    fn real_time_lies_between_two_comparisons() {
        let real = Real { before: (1000, 5_000_000), after: (2000, 5_001_100) };
        assert_eq!(real.off(1500, 5_000_550), 0.0);
        assert_eq!(real.off(1500, 5_000_551), 1.0);
        assert!((real.seconds(1500) - 5e-7).abs() < 1e-15);
    }
}
