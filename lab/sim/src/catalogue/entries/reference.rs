//! Scenarios that other daemons have reference figures for, and the poll intervals.

use super::{HOUR, NOON, at, lan_path, on_lan, single, wan_path, with};
use crate::oscillator::{OscillatorSpec, Sine};
use crate::path::{Law, Outage, PathSpec, When};
use crate::scenario::Scenario;
use crate::server::ServerSpec;

/// The poll intervals that are looked at.
const POLLS: [u32; 4] = [16, 64, 256, 1024];

pub(super) fn all() -> Vec<Scenario> {
    let bursts = || {
        let when = When::Bursts { first_s: 600.0, length_s: 420.0, period_s: 1020.0 };
        with(lan_path(), Law::Exponential { mean_ms: 1.0 }, when)
    };
    let wan = ServerSpec::symmetric("wan", wan_path());
    let away = Outage { from_s: NOON, to_s: NOON + 2.0 * HOUR };
    let outage = PathSpec { outages: vec![away], ..lan_path() };
    let lossy = PathSpec { loss: 0.2, ..lan_path() };
    let temperature = OscillatorSpec {
        sines: vec![
            Sine { amplitude_ppm: 0.1, period_s: 200.0, phase_deg: 0.0 },
            Sine { amplitude_ppm: 1.0, period_s: 86_400.0, phase_deg: 0.0 },
        ],
        ..OscillatorSpec::reference()
    };
    let mut all = vec![
        single("lan", "a LAN: 100 µs each way and exponential 10 µs", on_lan()),
        single(
            "lan-bursts-down",
            "the LAN, with 7 minutes of exponential 1 ms in every 17, server to client",
            at(lan_path(), bursts()),
        ),
        single(
            "lan-bursts-up",
            "the LAN, with 7 minutes of exponential 1 ms in every 17, client to server",
            at(bursts(), lan_path()),
        ),
        single(
            "lan-bursts-both",
            "the LAN, with 7 minutes of exponential 1 ms in every 17, both ways",
            at(bursts(), bursts()),
        ),
        single("wan", "a WAN: 18 ms each way and exponential 1 ms", wan.clone()),
        Scenario {
            oscillator: temperature,
            ..single(
                "temperature",
                "the LAN, with frequency cycles of 0.1 ppm in 200 s and 1 ppm in a day",
                on_lan(),
            )
        },
        single("outage", "the LAN, two hours of it without the server", at(outage.clone(), outage)),
        single("loss-20", "the LAN, 20 % of the packets lost each way", at(lossy.clone(), lossy)),
    ];
    for (name, server) in [("lan", on_lan()), ("wan", wan)] {
        for poll in POLLS.into_iter().skip(1) {
            let about = format!("the {}, one request in {poll} s", name.to_uppercase());
            let scenario = single(&format!("{name}-poll-{poll}"), &about, server.clone());
            all.push(Scenario { poll, ..scenario });
        }
    }
    let distances = [
        ("near", "a near server, 0.3 ms away and back", PathSpec::exponential(0.15, 0.01)),
        (
            "city",
            "a server in the same city, 0.9 ms away and back",
            PathSpec::exponential(0.45, 0.05),
        ),
        ("far", "a far server, 38 ms away and back", PathSpec::exponential(19.0, 1.0)),
    ];
    for (name, about, path) in distances {
        for poll in POLLS {
            let server = ServerSpec::symmetric(name, path.clone());
            let about = format!("{about}, one request in {poll} s");
            let scenario = single(&format!("{name}-{poll}"), &about, server);
            all.push(Scenario { poll, ..scenario });
        }
    }
    all.push(Scenario {
        adaptive: Some([16, 1024]),
        ..single("lan-adaptive", "the LAN, the poll interval the estimator's to choose", on_lan())
    });
    all.push(Scenario {
        poll: 256,
        hours: 336.0,
        warm_up_hours: 24.0,
        ..single("fortnight-256", "the LAN for two weeks, one request in 256 s", on_lan())
    });
    all
}
