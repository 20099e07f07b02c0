//! Parts of every path-day: an oscillator within its promise, a host, a server's claims.

use super::part::US;
use super::range::{Drawing, Range, Values};
use crate::host::StampSpec;
use crate::oscillator::{Ramp, Sine};
use crate::{HostSpec, OscillatorSpec};

const SKEW: Range = Range {
    name: "skew",
    unit: "ppm",
    values: Values::Even(-50.0, 50.0),
    reason: "cut of the quartz, and how well the counter's rate was measured at boot",
};
const WALK: Range = Range {
    name: "random walk",
    unit: "/√s",
    values: Values::Log(5e-11, 1e-9),
    reason: "an ordinary quartz has about 10⁻⁹, a good one a tenth",
};
const WHITE: Range = Range {
    name: "white phase noise at 1 s",
    unit: "",
    values: Values::Log(1e-11, 1e-9),
    reason: "Allan deviation; below what stamps resolve",
};
const DAILY: Range = Range {
    name: "daily temperature",
    unit: "ppm",
    values: Values::Log(0.005, 0.25),
    reason: "some kelvins of a room at 0.05 ppm/K",
};
const HEATING: Range = Range {
    name: "heating and cooling",
    unit: "ppm",
    values: Values::Log(0.001, 0.05),
    reason: "thermostats",
};
const HEATING_PERIOD: Range = Range {
    name: "their period",
    unit: "s",
    values: Values::Log(600.0, 7200.0),
    reason: "thermostats",
};
const WARMING: Range = Range {
    name: "a change of the machine's load",
    unit: "ppm",
    values: Values::Even(-0.1, 0.1),
    reason: "it warms up or cools down once a day, within an hour",
};
const WARMING_TIME: Range = Range {
    name: "how long that takes",
    unit: "s",
    values: Values::Log(120.0, 3600.0),
    reason: "from a heat sink's time constant to a case's",
};
const COUNTER: Range = Range {
    name: "counter",
    unit: "MHz",
    values: Values::OneOf(&[24.0, 62.5, 1000.0, 1900.0, 2400.0, 3600.0]),
    reason: "Arm generic timers and time stamp counters",
};
const NOISE: Range = Range {
    name: "noise of kernel stamps",
    unit: "ns",
    values: Values::Log(5.0, 60.0),
    reason: "of turning them into counts; the stated error is five times that and 50 ns",
};
const SEND: Range = Range {
    name: "stamp to wire",
    unit: "µs",
    values: Values::Log(0.1, 3.0),
    reason: "mean, exponential; driver and DMA",
};
const RECEIVE: Range = Range {
    name: "wire to stamp",
    unit: "µs",
    values: Values::Log(0.5, 15.0),
    reason: "mean, exponential; interrupt and its handling",
};
const ROOT: Range = Range {
    name: "root distance",
    unit: "µs",
    values: Values::Log(1.0, 10_000.0),
    reason: "from a receiver of its own to a stratum 3; the server is right whatever it claims",
};
const RESIDENCE: Range = Range {
    name: "residence",
    unit: "µs",
    values: Values::Log(2.0, 300.0),
    reason: "from hardware to a process that is woken",
};
const RESIDENCE_MORE: Range = Range {
    name: "its scatter",
    unit: "µs",
    values: Values::Log(1.0, 200.0),
    reason: "mean, exponential",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 15] = [
    SKEW,
    WALK,
    WHITE,
    DAILY,
    HEATING,
    HEATING_PERIOD,
    WARMING,
    WARMING_TIME,
    COUNTER,
    NOISE,
    SEND,
    RECEIVE,
    ROOT,
    RESIDENCE,
    RESIDENCE_MORE,
];

/// An oscillator that strays by at most 0.5 ppm from its recent mean: daily cycle, heating and
/// warming together by half of that at most, the walk by the other half at four standard
/// deviations.
pub(super) fn oscillator(d: &mut Drawing, seconds: f64) -> OscillatorSpec {
    const PART: &str = "oscillator";
    let turn = |d: &Drawing, what: &str| d.phase(&format!("{PART}/{what}"), 360.0);
    let sine = |d: &mut Drawing, what: &str, range: &Range, period_s: f64| Sine {
        amplitude_ppm: d.draw(PART, range),
        period_s,
        phase_deg: turn(d, what),
    };
    let period = d.draw(PART, &HEATING_PERIOD);
    let sines = vec![sine(d, "day", &DAILY, 86_400.0), sine(d, "heating", &HEATING, period)];
    let from_s = seconds * d.stream(&format!("{PART}/warming")).uniform();
    let to_s = from_s + d.draw(PART, &WARMING_TIME);
    OscillatorSpec {
        skew_ppm: d.draw(PART, &SKEW),
        walk_per_root_s: d.draw(PART, &WALK),
        white_phase_at_1s: d.draw(PART, &WHITE),
        sines,
        ramps: vec![Ramp { from_s, to_s, ppm: d.draw(PART, &WARMING) }],
        ..OscillatorSpec::default()
    }
}

pub(super) fn host(d: &mut Drawing) -> HostSpec {
    const PART: &str = "stamps";
    let noise_ns = d.draw(PART, &NOISE);
    HostSpec {
        counter_hz: (1e6 * d.draw(PART, &COUNTER)) as u64,
        stamps: StampSpec {
            noise_ns,
            stated_ns: 5.0 * noise_ns + 50.0,
            send_us: d.draw(PART, &SEND),
            receive_us: d.draw(PART, &RECEIVE),
            ..StampSpec::default()
        },
        ..HostSpec::default()
    }
}

/// Root distance that the server claims beside the resolution of its stamps, s.
pub(super) fn root_distance(d: &mut Drawing) -> f64 {
    d.draw("server", &ROOT) * US
}

/// Least time in the server and the mean of what comes on top, s.
pub(super) fn residence(d: &mut Drawing) -> [f64; 2] {
    [d.draw("server", &RESIDENCE) * US, d.draw("server", &RESIDENCE_MORE) * US]
}
