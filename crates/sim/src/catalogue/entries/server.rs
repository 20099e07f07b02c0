//! What servers do.

use super::{HOUR, NOON, lan_path, on_lan, single, wan_path};
use crate::path::PathSpec;
use crate::scenario::{LeapSpec, Scenario};
use crate::server::{Lie, Ramp, Refuse, ServerRestart, ServerSpec, Step, Wander};

/// 2027-07-01T00:00:00Z, and sixteen hours before.
const MIDNIGHT: i64 = 1_814_400_000;
const BEFORE: i64 = MIDNIGHT - 16 * 3600;

/// An honest server of this name on the LAN.
fn named(name: &str) -> ServerSpec {
    ServerSpec::symmetric(name, lan_path())
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = wrong();
    all.extend(right());
    all.extend(several());
    all
}

/// Servers whose time is wrong.
fn wrong() -> Vec<Scenario> {
    let step = |by_ms: f64| ServerSpec { steps: vec![Step { at_s: NOON, by_ms }], ..on_lan() };
    let lie = |length: f64| ServerSpec {
        lies: vec![Lie { from_s: NOON, to_s: NOON + length, by_ms: 150.0 }],
        ..on_lan()
    };
    let ramp = Ramp { from_s: NOON, to_s: NOON + 1000.0, ppm: 1.0 };
    let unclaimed = Wander { us_per_root_s: 1.0, honest: false };
    vec![
        single("server-step-150ms", "the server's clock steps by 150 ms, for good", step(150.0)),
        single("server-step-1ms", "the server's clock steps by 1 ms, for good", step(1.0)),
        single("server-fault-150ms", "the server is 150 ms wrong for two hours", lie(2.0 * HOUR)),
        single("server-hiccup-150ms", "the server is 150 ms wrong for a minute", lie(60.0)),
        single(
            "server-ramp",
            "the server's clock gains 1 ms in 1000 s",
            ServerSpec { ramps: vec![ramp], ..on_lan() },
        ),
        single(
            "server-wander-unclaimed",
            "the server's clock walks by 1 µs per √s and says nothing of it",
            ServerSpec { wander: Some(unclaimed), ..on_lan() },
        ),
    ]
}

/// Servers that have their troubles, and say so.
fn right() -> Vec<Scenario> {
    let wander = Wander { us_per_root_s: 0.3, honest: true };
    let restart = ServerRestart { at_s: NOON, silent_s: 120.0, unsynchronised_s: 600.0 };
    let refuse = |code: &str, from_s: f64, to_s: f64| Refuse { from_s, to_s, code: code.into() };
    let leap = |name: &str, about: &str| Scenario {
        begin: BEFORE,
        leap: Some(LeapSpec { midnight: MIDNIGHT, inserted: true }),
        ..single(name, about, on_lan())
    };
    let quantised = |name: &str, about: &str, quantum_us: f64, precision: i8| {
        single(name, about, ServerSpec { quantum_us, precision, ..on_lan() })
    };
    vec![
        single(
            "server-wander",
            "the server's clock walks by 0.3 µs per √s, and its root dispersion says so",
            ServerSpec { wander: Some(wander), ..on_lan() },
        ),
        single(
            "server-restart",
            "the server is away for two minutes and unsynchronised for ten",
            ServerSpec { restarts: vec![restart], ..on_lan() },
        ),
        single(
            "server-refuses",
            "the server asks for fewer requests for ten minutes (kiss code RATE)",
            ServerSpec { refusals: vec![refuse("RATE", NOON, NOON + 600.0)], ..on_lan() },
        ),
        leap("leap-second", "a leap second is inserted; the daemon has the list"),
        Scenario {
            leap_list: false,
            ..leap("leap-second-announced", "a leap second; only the server announces it")
        },
        quantised("quantised-stamps", "the server's stamps are cut to milliseconds", 1000.0, -9),
        quantised("quantised-stamps-1us", "the server's stamps are cut to microseconds", 1.0, -19),
    ]
}

fn several() -> Vec<Scenario> {
    let liar = ServerSpec {
        lies: vec![Lie { from_s: NOON, to_s: NOON + 2.0 * HOUR, by_ms: 20.0 }],
        ..ServerSpec::symmetric("liar", PathSpec::exponential(0.05, 0.005))
    };
    let born_liar = ServerSpec {
        offset_ms: 20.0,
        ..ServerSpec::symmetric("liar", PathSpec::exponential(0.05, 0.005))
    };
    let honest = || [named("first"), named("second")];
    let smearing = ServerSpec { smears: true, ..named("smearing") };
    let servers = [
        ServerSpec::symmetric("near", PathSpec::exponential(0.15, 0.01)),
        ServerSpec::symmetric("city", PathSpec::exponential(0.45, 0.05)),
        ServerSpec::symmetric("wan", wan_path()),
        ServerSpec {
            forward: PathSpec::exponential(25.0, 2.0),
            backward: PathSpec::exponential(12.0, 1.0),
            ..named("askew")
        },
        ServerSpec {
            root_delay_us: 8000.0,
            root_dispersion_us: 2000.0,
            offset_ms: 1.5,
            stratum: 3,
            ..named("third-hand")
        },
    ];
    let leap = LeapSpec { midnight: MIDNIGHT, inserted: true };
    let of = |n: usize| servers.iter().take(n).cloned().collect::<Vec<_>>();
    vec![
        Scenario::new(
            "liar-of-three",
            "three servers; the nearest is 20 ms wrong for two hours",
            [honest().to_vec(), vec![liar]].concat(),
        ),
        Scenario::new(
            "liar-from-the-start",
            "three servers; the nearest is 20 ms wrong all the time",
            [vec![born_liar], honest().to_vec()].concat(),
        ),
        Scenario {
            begin: BEFORE,
            leap: Some(leap),
            ..Scenario::new(
                "smear-of-three",
                "a leap second; one of three servers smears it",
                [vec![smearing], honest().to_vec()].concat(),
            )
        },
        Scenario::new("near-and-far", "three servers: near, same city, far", of(3)),
        Scenario::new(
            "five-servers",
            "five servers: near, same city, far, one askew, one at third hand",
            of(5),
        ),
        Scenario {
            poll: 256,
            ..Scenario::new(
                "five-servers-256",
                "five servers: near, same city, far, askew, third hand; one request in 256 s",
                of(5),
            )
        },
    ]
}
