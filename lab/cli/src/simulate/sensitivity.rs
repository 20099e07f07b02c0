//! `truechimer-lab simulate sensitivity`: what each constant of the estimator's model buys.

use std::io::Write;

use truechimer_estimators::OURS;
use truechimer_feedforward::Ours;
use truechimer_model::{Constant, Constants};
use truechimer_sim::direct::Packets;
use truechimer_sim::{Scenario, Statistics, find, simulate_alike};

use super::{jobs, seeds};
use truechimer_command::{Ended, Failure, Outcome};

/// Scenarios that the constants are tried on, and for how many hours.
const SCENARIOS: [(&str, f64); 12] = [
    ("lan", 12.0),
    ("lan-bursts-both", 12.0),
    ("wan", 12.0),
    ("temperature", 12.0),
    ("wifi", 12.0),
    ("heavy-tail", 12.0),
    ("daily-load", 28.0),
    ("tide-both", 16.0),
    ("shift-up-both", 18.0),
    ("shift-down-forward", 18.0),
    ("oscillator-step-1ppm", 18.0),
    ("wan-server-wrong-150ms", 18.0),
];
/// Factors that a constant is multiplied by.
const FACTORS: [f64; 2] = [0.5, 2.0];

/// RMS of the error in one scenario, µs: with the constants in use, and for each of them with that
/// one multiplied by each factor.
struct Column {
    name: &'static str,
    usual: f64,
    varied: Vec<[f64; 2]>,
}

/// Runs the study.
pub fn run(args: &super::Simulate, out: &mut dyn Write) -> Ended {
    super::only_seeds(args, "sensitivity")?;
    let mut columns: Vec<Column> = Vec::new();
    jobs::each(
        &SCENARIOS,
        jobs::width(args.jobs),
        |(name, hours)| column(name, *hours, args),
        |(name, _), column| {
            columns.push(column.map_err(|why| Failure::new(*name, why))?);
            Ok::<(), Failure>(())
        },
    )?;
    writeln!(
        out,
        "RMS of the error with half and with double the constant, by that with the constant in \
         use: geometric mean\nover {} scenarios, and the worst of them.\n",
        columns.len()
    )?;
    writeln!(out, "| constant | value | unit | half | worst | double | worst | reason |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for (k, constant) in Constants::LIST.iter().enumerate() {
        let Constant { name, value, unit, why } = constant;
        let cells: Vec<String> = (0..FACTORS.len()).map(|f| cell(&columns, k, f)).collect();
        writeln!(out, "| `{name}` | {value} | {unit} | {} | {why} |", cells.join(" | "))?;
    }
    Ok(Outcome::Good)
}

/// Mean and worst ratio of the constant `k` multiplied by the factor `f`.
fn cell(columns: &[Column], k: usize, f: usize) -> String {
    let ratios = columns.iter().filter_map(|column| {
        let ratio = column.varied.get(k)?.get(f)? / column.usual;
        Some((column.name, ratio))
    });
    let ratios: Vec<(&str, f64)> = ratios.collect();
    let logs: f64 = ratios.iter().map(|(_, ratio)| ratio.ln()).sum();
    let worst = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied().unwrap_or(("", 1.0));
    let mean = (logs / ratios.len().max(1) as f64).exp();
    format!("{mean:.2} | {:.2} {}", worst.1, if worst.1 > 1.02 { worst.0 } else { "" })
}

fn column(name: &'static str, hours: f64, args: &super::Simulate) -> Result<Column, String> {
    let scenario = find(name).map_err(|why| why.to_string())?;
    let scenario = scenario.with_hours(hours).map_err(|why| why.to_string())?;
    let packets = seeds(args).into_iter().map(|seed| packets(&scenario, seed));
    let packets = packets.collect::<Result<Vec<_>, _>>()?;
    let rms = |constants: Constants| {
        let traces = packets.iter().map(|packets| {
            let (settings, prior) = packets.known();
            packets.run(&mut Ours::new(settings, prior, None).with_constants(constants))
        });
        let traces: Vec<_> = traces.collect();
        Statistics::of(&traces.iter().collect::<Vec<_>>()).error.rms_us
    };
    let usual = Constants::DEFAULT;
    let varied = Constants::LIST.iter().map(|constant| {
        FACTORS.map(|f| usual.with(constant.name, f * constant.value).map_or(f64::NAN, rms))
    });
    Ok(Column { name, usual: rms(usual), varied: varied.collect() })
}

fn packets(scenario: &Scenario, seed: u64) -> Result<Packets, String> {
    let run = simulate_alike(scenario, OURS, seed).map_err(|why| why.to_string())?;
    Packets::of(scenario, seed, &run).ok_or_else(|| "its packets have more than one story".into())
}
