//! Watching a clock from the command line: for machines where no Rust test can run.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use truechimer::Clock;
use truechimer_testbed::figures::figures;
use truechimer_testbed::scale::Reference;
use truechimer_testbed::watch::Sample;

/// Readings each time, of which the one with the narrowest truth counts for the figures. That the
/// bound holds is asked of all.
const TRIES: usize = 3;
/// How long a clock may take to appear.
const PATIENCE: Duration = Duration::from_secs(60);

/// Watches the clock at `page` and prints what it came to.
pub fn look(page: &str, reference: &str, seconds: &str, every: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let reference: Reference = reference.parse()?;
    let time = Duration::from_secs(number(seconds)?);
    let every = Duration::from_millis(number(every)?);
    let clock = Clock::open_within(Some(Path::new(page)), PATIENCE)
        .map_err(|error| format!("{page}: {error}"))?;

    let start = Instant::now();
    let mut samples = Vec::new();
    let mut changes: Vec<(f64, Value)> = Vec::new();
    let (mut readings, mut promised, mut broken, mut refused) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut worst_outside_ns = 0;
    // When a bound was broken first and last, s.
    let mut broken_between: Option<(f64, f64)> = None;
    while start.elapsed() < time {
        let mut best: Option<Sample> = None;
        for _ in 0..TRIES {
            readings += 1;
            let seen = match Sample::look(&clock, || reference.now_ns(), start) {
                Ok((sample, _)) => {
                    if sample.status.bound_holds() {
                        promised += 1;
                        worst_outside_ns = worst_outside_ns.max(sample.outside_ns());
                        if sample.outside_ns() > 0 {
                            broken += 1;
                            let at = sample.at.as_secs_f64();
                            broken_between = Some((broken_between.map_or(at, |b| b.0), at));
                        }
                    }
                    if best.is_none_or(|best| sample.width_ns() < best.width_ns()) {
                        best = Some(sample);
                    }
                    let epoch = clock.moment().map_or(Value::Null, |moment| moment.epoch.0.into());
                    json!({ "status": sample.status.to_string(), "epoch": epoch })
                }
                Err(error) => {
                    refused += 1;
                    json!({ "refused": error.to_string() })
                }
            };
            if changes.last().is_none_or(|(_, last)| *last != seen) {
                changes.push((start.elapsed().as_secs_f64(), seen));
            }
        }
        samples.extend(best);
        sleep(every);
    }
    let changes: Vec<Value> = changes
        .into_iter()
        .map(|(at, mut seen)| {
            seen["at_s"] = format!("{at:.3}").parse::<f64>().unwrap_or(at).into();
            seen
        })
        .collect();
    let mut result = figures(&samples);
    result["readings"] = readings.into();
    result["promised"] = promised.into();
    result["broken"] = broken.into();
    result["refused"] = refused.into();
    result["broken_for_s"] = broken_between.map_or(0.0, |(first, last)| last - first).into();
    result["worst_outside_ns"] = worst_outside_ns.into();
    result["inside_share"] =
        if promised == 0 { Value::Null } else { (1.0 - broken as f64 / promised as f64).into() };
    result["changes"] = changes.into();
    println!("{result:#}");
    Ok(())
}
