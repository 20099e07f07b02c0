//! Scenarios of the host: its oscillator, its counter, its daemon, its other work.

use super::{HOUR, NOON, from_the_start, on_lan, single, wan_path};
use crate::host::{HostSpec, Jump, Load, RequestDelay, StampLaw, StampSpec, Suspend};
use crate::oscillator::{OscillatorSpec, Ramp, Step};
use crate::scenario::{Restart, Scenario};
use crate::server::ServerSpec;

pub(super) fn all() -> Vec<Scenario> {
    let mut all = oscillators();
    all.extend(breaks());
    all.extend(starts());
    all.extend(work());
    all
}

fn on_host(name: &str, about: &str, host: HostSpec) -> Scenario {
    Scenario { host, ..single(name, about, on_lan()) }
}

fn oscillators() -> Vec<Scenario> {
    let with = |name: &str, about: &str, oscillator: OscillatorSpec| Scenario {
        oscillator,
        ..single(name, about, on_lan())
    };
    let step = Step { at_s: NOON, ppm: 1.0 };
    let ramp = Ramp { from_s: NOON, to_s: NOON + 600.0, ppm: 0.5 };
    let reference = OscillatorSpec::reference;
    vec![
        with(
            "oscillator-step-1ppm",
            "the oscillator's frequency changes by 1 ppm at once",
            OscillatorSpec { steps: vec![step], ..reference() },
        ),
        with(
            "oscillator-ramp",
            "the oscillator's frequency changes by 0.5 ppm in ten minutes",
            OscillatorSpec { ramps: vec![ramp], ..reference() },
        ),
        with(
            "oscillator-noise",
            "white and flicker noise of a poor oscillator on top of its walk",
            OscillatorSpec {
                white_frequency_at_1s: 2e-8,
                flicker_phase_at_1s: 1e-9,
                white_phase_at_1s: 1e-9,
                ..reference()
            },
        ),
    ]
}

/// Breaks of the counter's continuity.
fn breaks() -> Vec<Scenario> {
    let suspend = |counter_stops: bool| HostSpec {
        suspends: vec![Suspend { from_s: NOON, to_s: NOON + HOUR, counter_stops }],
        ..HostSpec::default()
    };
    let jump = |by_s: f64, raw_too: bool| HostSpec {
        jumps: vec![Jump { at_s: NOON, by_s, raw_too }],
        ..HostSpec::default()
    };
    vec![
        on_host("suspend", "the host sleeps for an hour; its counter runs on", suspend(false)),
        on_host(
            "suspend-stops-counter",
            "the host sleeps for an hour, and its counter with it",
            suspend(true),
        ),
        on_host("counter-jump", "the counter jumps by half a second", jump(0.5, false)),
        on_host("counter-jump-back", "the counter jumps back by 1 ms", jump(-1e-3, false)),
        on_host(
            "counter-jump-hidden",
            "the counter jumps by 10 ms, and the kernel's clocks with it: nothing shows",
            jump(10e-3, true),
        ),
    ]
}

/// Starts of the daemon.
fn starts() -> Vec<Scenario> {
    let restart = |name: &str, about: &str, warm: bool, saved_rate: bool| Scenario {
        restarts: vec![Restart { at_s: NOON, gap_s: 60.0, warm, saved_rate }],
        ..single(name, about, on_lan())
    };
    let wan = ServerSpec::symmetric("wan", wan_path());
    vec![
        from_the_start(single("cold-start", "the first two hours on the LAN", on_lan()), 2.0),
        from_the_start(single("cold-start-wan", "the first two hours on the WAN", wan), 2.0),
        restart("warm-start", "the daemon is away for a minute and goes on", true, true),
        restart("cold-restart", "the daemon starts anew with the rate it saved", false, true),
        restart("cold-restart-no-rate", "the daemon starts anew and knows nothing", false, false),
    ]
}

/// Other work, and the stamps.
fn work() -> Vec<Scenario> {
    let stamps = StampSpec {
        outliers: 0.01,
        outlier_us: 2.0,
        send_us: 1.0,
        receive_us: 5.0,
        held_up: 0.005,
        held_up_ms: 1.0,
        ..StampSpec::default()
    };
    let user = StampSpec {
        law: StampLaw::User,
        send_us: 4.0,
        receive_us: 5.0,
        held_up: 0.002,
        held_up_ms: 2.0,
        ..StampSpec::default()
    };
    let load =
        Load { from_s: NOON, to_s: NOON + 6.0 * HOUR, factor: 10.0, stalls: 0.3, stall_ms: 50.0 };
    let delay = |by_us: f64, hour: f64| RequestDelay {
        from_s: NOON + hour * HOUR,
        to_s: NOON + (hour + 1.0) * HOUR,
        by_us,
    };
    vec![
        on_host(
            "noisy-host",
            "late interrupts, rare bad stamps, and six hours of heavy load",
            HostSpec { stamps, loads: vec![load], wake_us: 50.0, ..HostSpec::default() },
        ),
        on_host(
            "user-stamps",
            "no kernel stamps: the program reads the counter around its system calls",
            HostSpec { stamps: user, ..HostSpec::default() },
        ),
        on_host(
            "user-stamps-noisy-host",
            "no kernel stamps: counter reads around system calls, and six hours of heavy load",
            HostSpec { stamps: user, loads: vec![load], ..HostSpec::default() },
        ),
        on_host(
            "request-delays",
            "the client's requests are held up by 50, 100 and 200 µs for an hour each",
            HostSpec {
                request_delays: vec![delay(50.0, 0.0), delay(100.0, 2.0), delay(200.0, 4.0)],
                ..HostSpec::default()
            },
        ),
    ]
}
