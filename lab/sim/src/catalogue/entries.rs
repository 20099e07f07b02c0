//! The scenarios themselves, by what is the matter: the reference figures, paths, servers, the
//! host, distances, and what is hard on a bound.

mod address;
mod host;
mod path;
mod pulse;
mod reference;
mod server;
mod several;
mod system;

use crate::path::{Law, PathSpec, Queue, When};
use crate::scenario::Scenario;
use crate::server::ServerSpec;

/// An hour, s.
const HOUR: f64 = 3600.0;
/// Twelve hours after a warm-up of four, s: when things happen.
const NOON: f64 = 16.0 * HOUR;

pub(super) fn all() -> Vec<Scenario> {
    [
        reference::all(),
        path::all(),
        server::all(),
        address::all(),
        several::all(),
        pulse::all(),
        host::all(),
        system::all(),
    ]
    .concat()
}

/// The LAN of the reference figures, one way: 100 µs and exponential 10 µs.
fn lan_path() -> PathSpec {
    PathSpec::exponential(0.1, 0.01)
}

/// The WAN of the reference figures, one way: 18 ms and exponential 1 ms.
fn wan_path() -> PathSpec {
    PathSpec::exponential(18.0, 1.0)
}

/// A server there.
fn on_lan() -> ServerSpec {
    ServerSpec::symmetric("lan", lan_path())
}

/// A server at the end of these ways.
fn at(forward: PathSpec, backward: PathSpec) -> ServerSpec {
    ServerSpec { forward, backward, ..on_lan() }
}

/// The path with something more in it.
fn with(mut path: PathSpec, law: Law, when: When) -> PathSpec {
    path.queues.push(Queue { law, when });
    path
}

/// A scenario with a single server.
fn single(name: &str, about: &str, server: ServerSpec) -> Scenario {
    Scenario::new(name, about, vec![server])
}

/// Shorter, and all of it counts.
fn from_the_start(scenario: Scenario, hours: f64) -> Scenario {
    Scenario { hours, warm_up_hours: 0.0, ..scenario }
}
