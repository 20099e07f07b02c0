//! The best that can be made of the stamps of a run: by a filter that is told everything.

use truechimer_estimators::{OURS, Told, Truth};

use crate::direct::Packets;
use crate::path::{Law, PathSpec, When};
use crate::scenario::{Scenario, ScenarioError};
use crate::world::simulate_alike;
use truechimer_trace::Trace;

/// The mean of a path's queue, s, if it has one that is exponential and always there, and nothing
/// else ever changes.
fn queue(path: &PathSpec) -> Option<f64> {
    let [queue] = path.queues.as_slice() else { return None };
    match queue.law {
        Law::Exponential { mean_ms } if queue.when == When::Always && path.shifts.is_empty() => {
            Some(mean_ms * 1e-3)
        }
        _ => None,
    }
}

/// Truth to be told of a scenario. `None` if it is more than a random walk and two exponential
/// queues.
fn truth(scenario: &Scenario) -> Option<Truth> {
    let oscillator = &scenario.oscillator;
    let only_walks =
        oscillator.sines.is_empty() && oscillator.ramps.is_empty() && oscillator.steps.is_empty();
    let [server] = scenario.servers.as_slice() else { return None };
    if !only_walks || !server.addresses.is_empty() {
        return None;
    }
    Some(Truth {
        walk: oscillator.walk_per_root_s,
        floors: [&server.forward, &server.backward].map(|path| path.floor_ms * 1e-3),
        queues: [queue(&server.forward)?, queue(&server.backward)?],
        noise: scenario.host.stamps.noise_ns * 1e-9,
    })
}

/// Runs the filter that is told everything over the packets that every estimator sees. `None` if
/// there is more to a scenario than it can be told.
///
/// # Errors
/// If the scenario makes no sense.
pub fn told(scenario: &Scenario, seed: u64) -> Result<Option<Trace>, ScenarioError> {
    let Some(truth) = truth(scenario) else { return Ok(None) };
    let run = simulate_alike(scenario, OURS, seed)?;
    let packets = Packets::of(scenario, seed, &run);
    Ok(packets.map(|packets| packets.run(&mut Told::new(packets.known().0, truth))))
}
