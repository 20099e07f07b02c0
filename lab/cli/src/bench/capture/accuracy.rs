//! One-way delays between two hosts, each with a clock of its own, against a path of known delay.

mod hosts;
mod judge;

use serde_json::{Value, json};
use truechimer_report::{Histogram, Unit};

use crate::bench::capture::options::Options;
use truechimer_outcome::verdict::Verdict;

use hosts::{Hosts, Road};
use judge::Judged;
use truechimer_outcome::outcome::{Failure, Figure, Goal, Grid, Outcome};
use truechimer_outcome::stats::{Spread, median, range, show_ns};

/// Datagrams a second.
const RATE: f64 = 400.0;

/// One way to capture, one road between the second host and its server; all rounds.
struct Case {
    method: &'static str,
    road: Road,
    judged: Vec<Judged>,
    /// Datagrams sent.
    sent: u64,
}

/// Measures it.
///
/// # Errors
/// Where the hosts cannot be made, or a program does not run.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let seconds = if options.quick { 4.0 } else { 20.0 };
    let datagrams = (seconds * RATE) as u32;
    let hosts = Hosts::new(options)?;
    let mut cases: Vec<Case> = Vec::new();
    let mut missing = Vec::new();
    for round in 0..options.rounds(3, 1) {
        for method in ["packet", "xdp-copy"] {
            for road in [Road::Short, Road::Crooked] {
                if !options.wants(method) || missing.iter().any(|(name, _)| *name == method) {
                    continue;
                }
                let (judged, sent) = match hosts.delays(method, road, datagrams) {
                    Ok(done) => done,
                    Err(failure) => {
                        options.say(&format!("given up: {failure}"));
                        missing.push((method, failure));
                        continue;
                    }
                };
                let inside = judged.iter().filter(|one| one.is_inside()).count();
                options.say(&format!(
                    "round {}, {method}, {}: {inside} of {} delays within their bounds",
                    round + 1,
                    road.name(),
                    judged.len()
                ));
                match cases.iter_mut().find(|case| case.method == method && case.road == road) {
                    Some(case) => {
                        case.judged.extend(judged);
                        case.sent += sent;
                    }
                    None => cases.push(Case { method, road, judged, sent }),
                }
            }
        }
    }
    if cases.is_empty() {
        let why = missing.into_iter().next().map(|(_, failure)| failure);
        return Err(why.unwrap_or_else(|| Failure("no method is wanted".to_owned())));
    }
    Ok(outcome(&cases, &missing))
}

fn about() -> Vec<String> {
    vec![
        format!(
            "Two network namespaces, each with a daemon of its own that follows one NTP server. \
             Datagrams ({RATE} a second) go from the second to a relay in the first, which holds \
             each for {} ms and more, and sends it back; `truechimer capture` sees each as it enters \
             the first namespace and as it enters the second, with the page of the daemon there. \
             The difference of the two times is the one-way delay, its bound the sum of the two \
             bounds.",
            hosts::HELD_MS
        ),
        "The judge is a pair of tcpdumps (--nano) beside the captures: both read the kernel's stamp \
         by the one system clock that the namespaces share, so that their difference is the true \
         delay. The error is our delay minus that. xdp-copy stamps before that, on a busy machine \
         by tens of microseconds: there the judge is the difference of the two raw counts, at the \
         rate that tcpdump's stamps give the counter."
            .to_owned(),
        "Both namespaces share one counter, as one machine must; the two clocks are two \
         daemons, with requests, stamps, estimates and bounds of their own, and that is what the \
         bounds are about here. On the crooked road the second daemon's requests take 1 ms longer \
         than the replies: no clock can see that, so its time is 0.5 ms wrong, and the bound must \
         say so."
            .to_owned(),
    ]
}

fn outcome(cases: &[Case], missing: &[(&str, Failure)]) -> Outcome {
    let mut about = about();
    let first = |failure: &Failure| failure.0.lines().next().unwrap_or_default().to_owned();
    about.extend(
        missing
            .iter()
            .map(|(method, failure)| format!("Not measured here: {method}: {}.", first(failure))),
    );
    let mut outcome = Outcome {
        name: "accuracy",
        title: "One-way delays against a path of known delay".to_owned(),
        about,
        ..Outcome::default()
    };
    let mut grid = Grid::new(
        "One-way delays",
        [
            "method, road of the second clock",
            "delays",
            "within bound",
            "bound (median)",
            "error: median",
            "|error| p99",
            "worst",
            "true delay: least – median",
        ],
    );
    let mut errors = Histogram::new("Error of the one-way delay", Unit::Seconds);
    for case in cases {
        let inside = case.judged.iter().filter(|one| one.is_inside()).count();
        let of = |part: fn(&Judged) -> f64| case.judged.iter().map(part).collect::<Vec<f64>>();
        let (error, bound, truth) =
            (of(|one| one.error_ns()), of(|one| one.bound_ns), of(|one| one.true_ns));
        let spread = Spread::of(error.iter().copied());
        let name = format!("{}, {}", case.method, case.road.name());
        grid.row([
            name.clone(),
            format!("{} of {}", case.judged.len(), case.sent),
            inside.to_string(),
            show_ns(median(&bound)),
            show_ns(median(&error)),
            show_ns(spread.p99),
            show_ns(spread.most),
            format!("{} – {}", show_ns(range(&truth).0), show_ns(median(&truth))),
        ]);
        let mut goal = Goal::counted(
            &format!("delays within their bounds: {name}"),
            "all",
            format!("{inside} of {}", case.judged.len()),
            inside == case.judged.len(),
        );
        if case.judged.is_empty() {
            goal.verdict = Verdict::all([]);
        }
        outcome.goals.push(goal);
        errors = errors.values(&name, error.iter().map(|ns| ns * 1e-9));
    }
    outcome.grids.push(grid);
    outcome.figures.push(Figure::Chart(Box::new(errors.chart())));
    outcome.json = cases
        .iter()
        .map(|case| {
            let of = |part: fn(&Judged) -> f64| case.judged.iter().map(part).collect::<Vec<f64>>();
            let error = of(|one| one.error_ns());
            let spread = Spread::of(error.iter().copied());
            json!({
                "method": case.method, "road": case.road.name(), "sent": case.sent,
                "delays": case.judged.len(),
                "inside": case.judged.iter().filter(|one| one.is_inside()).count(),
                "bound_ns": median(of(|one| one.bound_ns)), "error_ns": median(&error),
                "error_p99_ns": spread.p99, "error_worst_ns": spread.most,
                "true_ns": median(of(|one| one.true_ns)),
            })
        })
        .collect::<Value>();
    outcome
}
