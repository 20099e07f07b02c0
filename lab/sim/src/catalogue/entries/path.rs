//! Scenarios of paths: shifts, congestion, heavy tails, and what is hard on a bound.

use super::{HOUR, NOON, at, from_the_start, lan_path, on_lan, single, with};
use crate::path::{Law, PathSpec, Shift, When};
use crate::scenario::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    let mut all = shifts();
    all.extend(congestion());
    all.extend(early());
    all.extend(hard());
    all
}

/// Changes of route by 0.9 ms.
fn shifts() -> Vec<Scenario> {
    let path = |ms: f64, by: f64| PathSpec {
        shifts: vec![Shift { at_s: NOON, by_ms: by, until_s: None }],
        ..PathSpec::exponential(ms, 0.01)
    };
    let mut all = Vec::new();
    for (up, from, by) in [("up", 0.1, 0.9), ("down", 1.0, -0.9)] {
        for (which, there, back) in [("forward", by, 0.0), ("backward", 0.0, by), ("both", by, by)]
        {
            let ways = match which {
                "both" => "each way",
                "forward" => "client to server",
                _ => "server to client",
            };
            let longer = if by > 0.0 { "longer" } else { "shorter" };
            let about = format!("after 16 hours the route gets 0.9 ms {longer}, {ways}");
            let server = at(path(from, there), path(from, back));
            all.push(single(&format!("shift-{up}-{which}"), &about, server));
        }
    }
    all
}

fn congestion() -> Vec<Scenario> {
    let lomax = Law::Lomax { shape: 1.3, scale_ms: 0.2, cap_ms: Some(2000.0) };
    let tails =
        || with(PathSpec { floor_ms: 5.0, ..PathSpec::default() }, lomax.clone(), When::Always);
    let wifi = |scale_ms: f64, spikes: f64| {
        let path = PathSpec { floor_ms: 1.0, loss: 0.02, ..PathSpec::default() };
        let path = with(path, Law::Gamma { shape: 2.0, scale_ms }, When::Always);
        let spikes = Law::Lomax { shape: 1.5, scale_ms: spikes, cap_ms: Some(500.0) };
        let path = with(path, spikes, When::Always);
        let busy = When::Bursts { first_s: 120.0, length_s: 30.0, period_s: 300.0 };
        with(path, Law::Exponential { mean_ms: 15.0 }, busy)
    };
    let busy = || {
        let when = When::Between { from_s: NOON, to_s: NOON + 6.0 * HOUR };
        let path = with(lan_path(), Law::Constant { ms: 2.0 }, when);
        with(path, Law::Gamma { shape: 2.0, scale_ms: 1.0 }, when)
    };
    let daily = |floor: f64| {
        let when = When::Daily { peak_s: 14.0 * HOUR, low: 0.02, period_s: 24.0 * HOUR };
        with(PathSpec::exponential(floor, 0.02), Law::Gamma { shape: 1.5, scale_ms: 1.0 }, when)
    };
    let disordered = || PathSpec {
        reordering: 0.1,
        held_back_ms: 40.0,
        duplication: 0.1,
        ..PathSpec::exponential(2.0, 0.5)
    };
    vec![
        single(
            "heavy-tail",
            "5 ms each way and heavy tails (Lomax, shape 1.3, scale 0.2 ms)",
            at(tails(), tails()),
        ),
        single(
            "wifi",
            "a wireless link: gamma and Lomax, bursts, losses, worse on the way up",
            at(wifi(0.8, 0.5), wifi(0.3, 0.2)),
        ),
        single(
            "asymmetric-congestion",
            "six hours of congestion client to server that never lets a packet through at once",
            at(busy(), lan_path()),
        ),
        single(
            "daily-load",
            "queues that come and go with the day, in both directions",
            at(daily(5.0), daily(5.0)),
        ),
        Scenario {
            poll: 1,
            hours: 7.0,
            warm_up_hours: 1.0,
            ..single(
                "reordering-duplication",
                "a tenth of the packets held back by 40 ms, a tenth twice; one request a second",
                at(disordered(), disordered()),
            )
        },
    ]
}

/// The first ten minutes, one request in 2 s: without bursts, and with short ones.
fn early() -> Vec<Scenario> {
    let path = || PathSpec::exponential(0.3, 0.01);
    let bursts = || {
        let when = When::Bursts { first_s: 10.0, length_s: 10.0, period_s: 30.0 };
        with(path(), Law::Exponential { mean_ms: 1.0 }, when)
    };
    let kinds = [
        ("early", "a LAN in its first ten minutes", at(path(), path())),
        (
            "early-bursts-down",
            "a LAN at first, 10 s of exponential 1 ms in every 30 s, server to client",
            at(path(), bursts()),
        ),
        (
            "early-bursts-both",
            "a LAN at first, 10 s of exponential 1 ms in every 30 s, both ways",
            at(bursts(), bursts()),
        ),
    ];
    let all = kinds.map(|(name, about, server)| {
        let scenario = single(name, &format!("{about}; one request in 2 s"), server);
        Scenario { poll: 2, hours: 1.0 / 6.0, warm_up_hours: 1.0 / 60.0, ..scenario }
    });
    all.into()
}

/// Scenarios that look like something else: queues that grow steadily look like a rate.
fn hard() -> Vec<Scenario> {
    let grows = || {
        let when = When::Ramp { from_s: 0.0, to_s: 300.0, until_s: None };
        with(lan_path(), Law::Constant { ms: 5.0 }, when)
    };
    // A step of 5/6 ms every five seconds.
    let drains = || {
        (0..60).fold(lan_path(), |path, step| {
            let when = When::Between { from_s: 0.0, to_s: 5.0 * f64::from(step + 1) };
            with(path, Law::Constant { ms: 50.0 / 60.0 }, when)
        })
    };
    let jitters = || {
        let when = When::Between { from_s: 0.0, to_s: 300.0 };
        with(lan_path(), Law::Exponential { mean_ms: 2.0 }, when)
    };
    let swings = |peak_s: f64, period_s: f64, ms: f64| {
        with(lan_path(), Law::Constant { ms }, When::Daily { peak_s, low: 0.0, period_s })
    };
    let tide = || swings(0.5 * 5.0 * HOUR, 5.0 * HOUR, 20.0);
    let kinds: [(&str, &str, &dyn Fn() -> PathSpec, f64); 4] = [
        ("growing-queue", "a queue that grows to 5 ms in the first five minutes", &grows, 2.0),
        ("draining-queue", "a queue of 50 ms that drains in the first five minutes", &drains, 2.0),
        ("jitter-at-start", "exponential 2 ms in the first five minutes", &jitters, 2.0),
        ("tide", "load of 20 ms that comes and goes within five hours", &tide, 16.0),
    ];
    let mut all = Vec::new();
    for (name, about, path, hours) in kinds {
        for (which, ways, server) in [
            ("forward", "client to server", at(path(), lan_path())),
            ("backward", "server to client", at(lan_path(), path())),
            ("both", "both ways", at(path(), path())),
        ] {
            let scenario =
                single(&format!("{name}-{which}"), &format!("{about}, {ways}"), server.clone());
            // A tide comes after two hours; what it does is not to be lost in the start.
            let warm_up_hours = if hours > 2.0 { 1.0 } else { 0.0 };
            all.push(Scenario { warm_up_hours, ..from_the_start(scenario, hours) });
            if hours == 2.0 && which != "both" {
                let name = format!("{name}-{which}-poll-1");
                let about = format!("{about}, {ways}; one request a second");
                let scenario = Scenario { poll: 1, ..single(&name, &about, server) };
                all.push(from_the_start(scenario, hours));
            }
        }
    }
    let swing = at(swings(75.0, 300.0, 2.0), swings(225.0, 300.0, 2.0));
    let swinging = from_the_start(
        single(
            "hidden-asymmetry",
            "the directions change places every 150 s, by 2 ms; the round trip stays the same",
            swing,
        ),
        12.0,
    );
    all.push(Scenario { warm_up_hours: 1.0, ..swinging });
    let far = PathSpec { loss: 0.2, ..PathSpec::exponential(0.9, 0.01) };
    all.push(single(
        "lossy-asymmetric",
        "900 µs there and 100 µs back, 20 % of the packets lost",
        at(far, PathSpec { loss: 0.2, ..on_lan().backward }),
    ));
    all
}
