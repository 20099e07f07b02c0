//! Scenarios of servers.

use super::{HOUR, NOON, lan_path, on_lan, single, wan_path};
use crate::host::Jump;
use crate::path::{PathSpec, Shift};
use crate::scenario::{LeapSpec, Restart, Scenario};
use crate::server::{Lie, Ramp, Refuse, ServerRestart, ServerSpec, Step, Wander};

/// 2027-07-01T00:00:00Z, and sixteen hours before.
const MIDNIGHT: i64 = 1_814_400_000;
const BEFORE: i64 = MIDNIGHT - 16 * 3600;

/// Time for which a wrong server is wrong, s.
const WRONG: f64 = 600.0;

/// An honest server of this name on the LAN.
fn named(name: &str) -> ServerSpec {
    ServerSpec::symmetric(name, lan_path())
}

pub(super) fn all() -> Vec<Scenario> {
    let mut all = wrong();
    all.extend(stubborn());
    all.extend(declared());
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

/// A single server that is wrong for ten minutes: nobody else could tell.
fn stubborn() -> Vec<Scenario> {
    let wan = || ServerSpec::symmetric("wan", wan_path());
    let lie = |server: ServerSpec, by_ms: f64| ServerSpec {
        lies: vec![Lie { from_s: NOON, to_s: NOON + WRONG, by_ms }],
        ..server
    };
    // There and back again, so that it is right in the end.
    let ramp = |server: ServerSpec, ppm: f64| {
        let by_ms = -ppm * WRONG * 1e-3;
        ServerSpec {
            ramps: vec![Ramp { from_s: NOON, to_s: NOON + WRONG, ppm }],
            steps: vec![Step { at_s: NOON + WRONG, by_ms }],
            ..server
        }
    };
    let again = (0..9).map(|n| NOON + 1200.0 * f64::from(n));
    let again = again.map(|from_s| Lie { from_s, to_s: from_s + WRONG, by_ms: 150.0 });
    let elsewhere = ServerSpec {
        restarts: vec![ServerRestart { at_s: NOON, silent_s: 60.0, unsynchronised_s: 120.0 }],
        lies: vec![Lie { from_s: NOON, to_s: NOON + WRONG, by_ms: 1.0 }],
        ..on_lan()
    };
    let jump = |by_s: f64| Jump { at_s: NOON, by_s, raw_too: true };
    let mut migrated = Scenario::new(
        "counter-jump-hidden-of-three",
        "the counter jumps by 5 ms, the kernel's clocks with it; three servers tell",
        vec![named("first"), named("second"), wan()],
    );
    migrated.host.jumps = vec![jump(5e-3)];
    vec![
        single("server-wrong-1ms", "the server is 1 ms wrong for ten minutes", lie(on_lan(), 1.0)),
        single(
            "server-wrong-10ms",
            "the server is 10 ms wrong (behind) for ten minutes",
            lie(on_lan(), -10.0),
        ),
        single(
            "server-wrong-150ms",
            "the server is 150 ms wrong for ten minutes",
            lie(on_lan(), 150.0),
        ),
        single(
            "server-wrong-1s",
            "the server is a second wrong (behind) for ten minutes",
            lie(on_lan(), -1000.0),
        ),
        single(
            "server-ramp-200ppm",
            "the server's clock gains 200 ppm for ten minutes and is right again",
            ramp(on_lan(), 200.0),
        ),
        single(
            "server-ramp-200ppm-behind",
            "the server's clock loses 200 ppm for ten minutes and is right again",
            ramp(on_lan(), -200.0),
        ),
        single(
            "server-ramp-2ppm",
            "the server's clock gains 2 ppm for ten minutes and is right again",
            ramp(on_lan(), 2.0),
        ),
        single(
            "server-ramp-5ppm-behind",
            "the server's clock loses 5 ppm for ten minutes and is right again",
            ramp(on_lan(), -5.0),
        ),
        single(
            "server-wrong-again",
            "the server is 150 ms wrong for ten minutes in every twenty, nine times",
            ServerSpec { lies: again.collect(), ..on_lan() },
        ),
        single(
            "server-restart-elsewhere",
            "the server restarts, and is 1 ms wrong for the rest of ten minutes",
            elsewhere,
        ),
        Scenario {
            restarts: vec![Restart {
                at_s: NOON + 300.0,
                gap_s: 10.0,
                warm: true,
                saved_rate: true,
            }],
            ..single(
                "server-wrong-restart",
                "the server is 150 ms wrong for ten minutes; the daemon restarts meanwhile",
                lie(on_lan(), 150.0),
            )
        },
        single(
            "wan-server-wrong-150ms",
            "a server far away is 150 ms wrong for ten minutes",
            lie(wan(), 150.0),
        ),
        single(
            "wan-server-ramp-200ppm",
            "the clock of a server far away gains 200 ppm for ten minutes and is right again",
            ramp(wan(), 200.0),
        ),
        migrated,
    ]
}

/// Paths of which the user knows the asymmetry.
fn declared() -> Vec<Scenario> {
    let path = PathSpec::exponential;
    let told = |server: ServerSpec, by_us: f64, error_us: f64| ServerSpec {
        declared_asymmetry_us: Some(by_us),
        declared_error_us: error_us,
        ..server
    };
    let askew = || ServerSpec { forward: path(0.25, 0.01), backward: path(0.1, 0.01), ..on_lan() };
    let shifts = |by_ms: f64| {
        let mut server = told(
            ServerSpec { forward: path(1.0, 0.01), backward: path(1.0, 0.01), ..on_lan() },
            0.0,
            20.0,
        );
        server.forward.shifts = vec![Shift { at_s: NOON, by_ms, until_s: None }];
        server
    };
    vec![
        single("askew", "the way there takes 150 µs longer, and nobody knows", askew()),
        single(
            "askew-declared",
            "the way there takes 150 µs longer, and the daemon is told so to within 20 µs",
            told(askew(), 140.0, 20.0),
        ),
        single(
            "declared-shift-longer",
            "a path declared to be symmetric takes 0.9 ms longer there from hour 16 on",
            shifts(0.9),
        ),
        single(
            "declared-shift-shorter",
            "a path declared to be symmetric takes 0.9 ms less there from hour 16 on",
            shifts(-0.9),
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
