//! Figures of `docs/explanation/algorithm.md`, as SVG files in a directory:
//! `cargo run --release -p truechimer-sim --example algorithm_figures -- docs/explanation/algorithm`.

use std::error::Error;
use std::path::Path;

use truechimer_estimators::OURS;
use truechimer_feedforward::number::seconds;
use truechimer_model::{Constants, Known, Model, Noise, Sample};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_sim::wrong::{Exchanges, WAYS, cases};

/// Floor of either direction, mean of its queue, and noise of a stamp on the LAN, s.
const FLOOR: f64 = 100e-6;
const QUEUE: f64 = 10e-6;
const NOISE: f64 = 0.3e-6;
/// Poll interval, s.
const POLL: f64 = 16.0;
/// By how much the oscillator's rate may change at once by its promise.
const STRAYS: f64 = 0.6e-6;
/// Exchanges that the model has seen: four hours.
const SEEN: u32 = 900;
/// Case, path and seed of the server that steps, and its step, ms.
const STEPS: (&str, &str, u64, f64) = ("step-0.3ms", "4ms", 3, 0.3);
/// Time shown before and after the step, s.
const SHOWN: (f64, f64) = (300.0, 600.0);

type Points = Vec<(f64, f64)>;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("the directory is missing")?;
    for (name, plot) in [("one-exchange", one_exchange()), ("server-step", server_step()?)] {
        std::fs::write(Path::new(&directory).join(name).with_extension("svg"), plot.svg())?;
    }
    Ok(())
}

/// Model that has seen a quiet LAN, just before its next exchange.
fn trained() -> Model {
    let known = |mean, deviation| Known { mean, deviation };
    let (offset, rate) = (known(0.0, FLOOR), known(0.0, 25e-6));
    let floor = known(FLOOR, FLOOR / 2.0);
    let mut model = Model::new(offset, rate, floor, Noise::of(NOISE), Constants::DEFAULT);
    for n in 0..SEEN {
        // Quantiles of the exponential law; 397 and 641 have no factor in common with 900.
        let wait = |step: u32| {
            let quantile = (f64::from(n * step % SEEN) + 0.5) / f64::from(SEEN);
            -QUEUE * (1.0 - quantile).ln()
        };
        let above = [FLOOR + wait(397), FLOOR + wait(641)];
        model.take(Sample { above, duration: above[0] + above[1] }, STRAYS, true);
        model.predict(POLL);
    }
    model
}

/// Distance that one exchange moves the offset, µs, over how late its request is, µs. Its reply is
/// as fast as can be.
fn one_exchange() -> Plot {
    let model = trained();
    let before = model.now();
    let moved = |late: f64| {
        let [request, reply] = before.floors;
        let above = [before.offset + request + late, reply - before.offset];
        let mut model = model.clone();
        model.take(Sample { above, duration: above[0] + above[1] }, STRAYS, true);
        model.now().offset - before.offset
    };
    // A filter that knows as much and takes waits for normal, with the same mean and variance. The
    // means of both directions cancel.
    let variance = before.offset_variance;
    let gain = variance / (2.0 * variance + QUEUE * QUEUE + NOISE * NOISE);
    let line = |f: &dyn Fn(f64) -> f64| -> Points {
        let late = (-60..=120).map(|n| 0.5e-6 * f64::from(n));
        late.map(|late| (late * 1e6, f(late) * 1e6)).collect()
    };
    Plot {
        title: "One exchange on a LAN: its request is late, its reply is not".into(),
        x: Axis::linear("how late the request is above its floor, µs"),
        y: Axis::linear("how far the offset moves, µs"),
        lines: vec![
            ("model".into(), line(&moved)),
            ("Kalman filter".into(), line(&|late| gain * late)),
        ],
    }
}

/// A lone server that steps, and is right again ten minutes later.
fn server_step() -> Result<Plot, Box<dyn Error>> {
    let (case, way, seed, step) = STEPS;
    let case = cases().into_iter().find(|c| c.name == case).ok_or("no such case")?;
    let way = WAYS.iter().find(|w| w.name == way).ok_or("no such path")?;
    let setup = case.setup(way, seed, 3600.0);
    let mut exchanges = Exchanges::new(&setup.scenario, seed)?;
    let beginning = exchanges.beginning();
    let mut estimator = OURS.estimator(&beginning);
    let [mut server, mut clock, mut all, mut held] = [const { Points::new() }; 4];
    while let Some(heard) = exchanges.next_heard().filter(|h| h.at < setup.to + SHOWN.1) {
        let x = &heard.exchange;
        let is_used = estimator.exchange(x).is_ok();
        if heard.at < setup.from - SHOWN.0 {
            continue;
        }
        let (count, truth) = (x.received.count, exchanges.truth(heard.at));
        let estimate = estimator.estimate(count).ok_or("no estimate")?;
        let away = beginning.settings.nominal.span(count - x.sent.count);
        let middle = x.server_sent + (away - (x.server_sent - x.server_received)).half();
        let is_wrong = heard.at >= setup.from && heard.at < setup.to;
        let point = |y: f64| ((heard.at - setup.from) / 60.0, y * 1e6);
        server.push(point(if is_wrong { step * 1e-3 } else { 0.0 }));
        clock.push(point(seconds(estimate.time - truth)));
        all.push(point(seconds(middle - truth)));
        held.extend((!is_used).then(|| point(seconds(middle - truth))));
    }
    Ok(Plot {
        title: "A lone server steps by 0.3 ms for ten minutes".into(),
        x: Axis::linear("minutes since it stepped"),
        y: Axis::linear("ahead of true time, µs"),
        lines: vec![
            ("clock".into(), clock),
            ("server".into(), server),
            ("exchange, its middle".into(), all),
            ("the same, held off".into(), held),
        ],
    })
}
