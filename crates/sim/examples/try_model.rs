//! Old and new side by side.
#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used)]
use std::sync::Mutex;
use std::time::Instant;
use truechimer_engine::EstimatorKind;
use truechimer_feedforward::{Estimator, Ours, Parts};
use truechimer_sim::direct::Packets;
use truechimer_sim::{Scenario, Statistics, Trace, catalogue, simulate_alike};

type Row = (String, usize, Vec<(f64, f64, f64, f64, usize, f64)>);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = args.first().map_or(1, |a| a.parse().unwrap());
    let patterns = &args[1.min(args.len())..];
    let (invert, patterns): (bool, Vec<String>) = (
        patterns.first().is_some_and(|p| p == "not"),
        patterns.iter().filter(|p| *p != "not").cloned().collect(),
    );
    let all: Vec<Scenario> = catalogue().into_iter().filter(|s| patterns.is_empty() || patterns.iter().any(|p| match p.strip_prefix('=') { Some(p) => s.name == p, None => s.name.contains(p.as_str()) }) != invert).collect();
    let mut all = all;
    if let Ok(files) = std::env::var("FILES") { all = files.split(' ').map(|f| Scenario::from_toml(&std::fs::read_to_string(f).unwrap()).unwrap()).collect(); }
    let hours: Option<f64> = std::env::var("HOURS").ok().and_then(|h| h.parse().ok());
    let first: u64 = std::env::var("FIRST").ok().and_then(|f| f.parse().ok()).unwrap_or(1);
    let jobs: Vec<(usize, u64)> = (0..all.len()).flat_map(|i| (first..first + seeds).map(move |s| (i, s))).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let rows: Mutex<Vec<Row>> = Mutex::new(Vec::new());
    let both = [Parts { model: false, ..Parts::ALL }, Parts::ALL];
    std::thread::scope(|scope| {
        for _ in 0..std::env::var("JOBS").ok().and_then(|j| j.parse().ok()).unwrap_or(4) {
            scope.spawn(|| loop {
                let k = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((i, seed)) = jobs.get(k).copied() else { break };
                let mut scenario = all[i].clone();
                if let Some(hours) = hours && hours < scenario.hours { scenario.hours = hours; }
                let Ok(run) = simulate_alike(&scenario, EstimatorKind::Ours, seed) else { continue };
                let Some(packets) = Packets::of(&scenario, seed, &run) else { continue };
                let (settings, prior) = packets.known();
                let mut cells = Vec::new();
                for parts in both {
                    let mut ours = Ours::new(settings, prior, None).with_parts(parts);
                    let begun = Instant::now();
                    let trace: Trace = packets.run(&mut ours as &mut dyn Estimator);
                    let took = begun.elapsed().as_secs_f64();
                    let s = Statistics::of(&[&trace]);
                    let outside = trace.samples.iter().filter(|s| s.error.abs() > s.bound).count();
                    let conv = |limit: f64| trace.samples.iter().rev().find(|s| s.at < 600.0 && s.error.abs() > limit).map_or(0.0, |s| s.at);
                    let sec = { let v: Vec<f64> = trace.samples.iter().filter(|s| s.at > trace.warm_up).filter_map(|s| s.second.map(|i| i.error)).collect(); (v.iter().map(|e| e*e).sum::<f64>() / v.len() as f64).sqrt() * 1e6 };
                    cells.push((s.error.rms_us, s.error.max_us, conv(10e-6), sec, outside, took));
                }
                rows.lock().unwrap().push((scenario.name.clone(), seed as usize, cells));
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let mut names: Vec<String> = rows.iter().map(|r| r.0.clone()).collect();
    names.dedup();
    let mut logs = 0.0; let mut n = 0.0;
    println!("{:32} {:>9} {:>9} {:>6} | {:>9} {:>9} | {:>5} {:>5} | {:>6} {:>6} | {:>5} {:>5} | {:>5} {:>5}", "scenario", "old rms", "new rms", "ratio", "old max", "new max", "<10", "<10", "1s", "1s", "out", "out", "t", "t");
    for name in names {
        let of: Vec<&Row> = rows.iter().filter(|r| r.0 == name).collect();
        let k = of.len() as f64;
        let rms = |c: usize| (of.iter().map(|r| r.2[c].0.powi(2)).sum::<f64>() / k).sqrt();
        let max = |c: usize| of.iter().map(|r| r.2[c].1).fold(0.0, f64::max);
        let conv = |c: usize| of.iter().map(|r| r.2[c].2).sum::<f64>() / k;
        let sec = |c: usize| of.iter().map(|r| r.2[c].3).sum::<f64>() / k;
        let out = |c: usize| of.iter().map(|r| r.2[c].4).sum::<usize>();
        let took = |c: usize| of.iter().map(|r| r.2[c].5).sum::<f64>() / k;
        logs += (rms(1) / rms(0)).ln(); n += 1.0;
        let mark = if rms(1) > 1.3 * rms(0) { "**" } else if rms(1) > 1.05 * rms(0) { "*" } else if rms(1) < 0.9 * rms(0) { "+" } else { "" };
        println!("{:32} {:9.2} {:9.2} {:6.2} | {:9.1} {:9.1} | {:5.0} {:5.0} | {:6.3} {:6.3} | {:5} {:5} | {:5.2} {:5.2} {}", name, rms(0), rms(1), rms(1) / rms(0), max(0), max(1), conv(0), conv(1), sec(0), sec(1), out(0), out(1), took(0), took(1), mark);
    }
    println!("geometric mean of the ratios {:.3} over {}", f64::exp(logs / n), n);
}
