//! `truechimer-lab simulate ablation`: what each part of the estimator's model buys.

use std::io::Write;

use truechimer_estimators::{Ablation, OURS};
use truechimer_feedforward::Ours;
use truechimer_model::Constants;
use truechimer_sim::direct::Packets;
use truechimer_sim::oscillator::Step;
use truechimer_sim::server::Lie;
use truechimer_sim::{Scenario, Statistics, Trace, find, simulate_alike};

use super::{jobs, screen, seeds};
use truechimer_command::{Ended, Failure, Outcome};

/// Scenarios that each part is tried on, and for how many hours: those that parts were made for.
const SCENARIOS: [(&str, f64); 16] = [
    ("lan", 12.0),
    ("lan-bursts-both", 12.0),
    ("wan", 12.0),
    ("temperature", 12.0),
    ("wifi", 12.0),
    ("heavy-tail", 12.0),
    ("daily-load", 28.0),
    ("tide-both", 16.0),
    ("hidden-asymmetry", 12.0),
    ("shift-up-both", 18.0),
    ("shift-up-forward", 18.0),
    ("shift-down-forward", 18.0),
    ("oscillator-step-1ppm", 18.0),
    ("server-ramp-2ppm", 18.0),
    ("jitter-at-start-forward", 2.0),
    ("growing-queue-both", 2.0),
];
/// Far away, queues hide at first what happens. How long that is looked at, h, and when it happens,
/// s: the oscillator changes by so much, or the server is wrong by so much for ten minutes.
const FAR_HOURS: f64 = 8.0;
const THEN: f64 = 4.0 * 3600.0;
const STEP_PPM: f64 = 3.0;
const WRONG_MS: f64 = 2.0;
/// The start: how long it is looked at, h.
const START_HOURS: f64 = 0.5;

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    super::only_seeds(args, "ablation")?;
    let mut cases = Vec::new();
    for (name, hours) in SCENARIOS {
        let scenario = find(name).map_err(|why| Failure::new(name, why))?;
        let shorter = scenario.with_hours(hours).map_err(|why| Failure::new(name, why))?;
        cases.push((shorter.name.clone(), shorter, None));
    }
    let far = find("wan").map_err(|why| Failure::new("wan", why))?;
    let far = Scenario { hours: FAR_HOURS, warm_up_hours: 2.0, ..far };
    let mut changed = far.clone();
    changed.oscillator.steps.push(Step { at_s: THEN, ppm: STEP_PPM });
    cases.push((format!("wan, oscillator {STEP_PPM:+} ppm"), changed, None));
    let mut wrong = far;
    let lie = Lie { from_s: THEN, to_s: THEN + 600.0, by_ms: WRONG_MS };
    wrong.servers.iter_mut().for_each(|server| server.lies.push(lie));
    cases.push((format!("wan, server {WRONG_MS:+} ms"), wrong, None));
    for (name, threshold) in [("lan", 10.0), ("wan", 500.0)] {
        let scenario = find(name).map_err(|why| Failure::new(name, why))?;
        let start = Scenario { hours: START_HOURS, warm_up_hours: 0.0, ..scenario };
        cases.push((format!("{name} <{threshold} µs, s"), start, Some(threshold)));
    }
    let whole = Ablation { part: "–", constants: Constants::DEFAULT };
    let parts: Vec<Ablation> = [whole].into_iter().chain(Ablation::each()).collect();
    let mut columns: Vec<Vec<String>> = Vec::new();
    jobs::each(
        &cases,
        jobs::width(args.jobs),
        |(_, scenario, threshold)| column(scenario, *threshold, &parts, args),
        |(name, ..), column| {
            columns.push(column.map_err(|why| Failure::new(name, why))?);
            Ok::<(), Failure>(())
        },
    )?;
    let heads: Vec<&str> = cases.iter().map(|(name, ..)| name.as_str()).collect();
    writeln!(out, "| without | {} |", heads.join(" | "))?;
    writeln!(out, "|---|{}", "---|".repeat(heads.len()))?;
    for (index, Ablation { part, .. }) in parts.iter().enumerate() {
        let cells: Vec<&str> =
            columns.iter().filter_map(|c| c.get(index).map(String::as_str)).collect();
        writeln!(out, "| {part} | {} |", cells.join(" | "))?;
    }
    Ok(Outcome::Good)
}

/// RMS of the error, µs, or median time to converge, s, without each of the parts.
fn column(
    scenario: &Scenario,
    threshold: Option<f64>,
    parts: &[Ablation],
    args: &super::Simulate,
) -> Result<Vec<String>, String> {
    let mut traces: Vec<Vec<Trace>> = parts.iter().map(|_| Vec::new()).collect();
    for seed in seeds(args) {
        let run = simulate_alike(scenario, OURS, seed);
        let run = run.map_err(|why| why.to_string())?;
        let packets =
            Packets::of(scenario, seed, &run).ok_or("its packets have more than one story")?;
        let (settings, prior) = packets.known();
        for (traces, Ablation { constants, .. }) in traces.iter_mut().zip(parts) {
            let mut ours = Ours::new(settings, prior, None).with_constants(*constants);
            traces.push(packets.run(&mut ours));
        }
    }
    let cell = |traces: &Vec<Trace>| {
        let s = Statistics::of(&traces.iter().collect::<Vec<_>>());
        match threshold {
            Some(threshold) => screen::converged(&s, threshold),
            None => screen::number(s.error.rms_us),
        }
    };
    Ok(traces.iter().map(cell).collect())
}
