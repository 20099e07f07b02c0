//! Satellites in low orbits: another one every 15 s, and a range that changes all the time, for
//! both directions alike.

use super::law::{Common, Piece, Told};
use super::part::{Cause, Change, Load, MS, Packet, Part, Ways, next};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

/// Between two assignments of satellites, s.
const TERM: f64 = 15.0;
/// A frame, s (Humphreys et al., Signal Structure of the Starlink Ku-Band Downlink, 2023).
const FRAME: f64 = 1.0 / 750.0;

const NEAREST: Range = Range {
    name: "shortest range, one way",
    unit: "ms",
    values: Values::Even(3.6, 4.5),
    reason: "up and down again: 540 to 570 km each, and what gateways are off by",
};
const SPREAD: Range = Range {
    name: "longest range, beyond it",
    unit: "ms",
    values: Values::Even(1.0, 5.0),
    reason: "elevations down to 25° at both ends: up to 1100 km each",
};
const DRIFT: Range = Range {
    name: "change of the range",
    unit: "µs/s",
    values: Values::Even(5.0, 35.0),
    reason: "most of either sign: 7.6 km/s at low elevation, both legs",
};
const FRAMES: Range = Range {
    name: "frames until a slot upstream",
    unit: "",
    values: Values::OneOf(&[1.0, 2.0, 4.0, 8.0]),
    reason: "slots are given out by round robin; delays scatter by some ms in all measurements",
};
const QUEUE: Range = Range {
    name: "queue of the cell",
    unit: "ms",
    values: Values::Log(0.2, 15.0),
    reason: "mean at full load, each way (Mohan et al., A Multifaceted Look at Starlink \
             Performance, 2024)",
};
const OUTAGE: Range = Range {
    name: "lost after a handover",
    unit: "ms",
    values: Values::Log(10.0, 400.0),
    reason: "what is sent so soon after it (the same)",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 6] = [NEAREST, SPREAD, DRIFT, FRAMES, QUEUE, OUTAGE];

/// The satellites of a day.
#[derive(Clone, Debug)]
struct Orbit {
    phase: f64,
    nearest: f64,
    spread: f64,
    drift: f64,
    random: Random,
}

impl Orbit {
    /// When the assignment in force at `t` began, s; and its propagation delay then and change per
    /// second.
    fn term(&mut self, t: f64) -> (f64, f64, f64) {
        let number = libm::floor((t - self.phase) / TERM);
        self.random.seek((number + 1.0).max(0.0) as u64);
        let delay = self.nearest + self.spread * self.random.uniform();
        let drift = self.drift * (2.0 * self.random.uniform() - 1.0);
        (self.phase + number * TERM, delay, drift)
    }

    /// Propagation delay of either direction at `t`, s.
    fn delay(&mut self, t: f64) -> f64 {
        let (begun, delay, drift) = self.term(t);
        (delay + drift * (t - begun)).max(self.nearest)
    }
}

#[derive(Debug)]
struct Link {
    orbit: Orbit,
    /// Between slots upstream, s, and where they are; downstream 0.
    slots: (f64, f64),
    queue: f64,
    outage: f64,
    load: Load,
    random: Random,
}

impl Part for Link {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        if t - self.orbit.term(t).0 < self.outage {
            return None;
        }
        let (period, phase) = self.slots;
        let queue = self.load.at(t) * self.random.exponential(self.queue);
        let at = if period > 0.0 { next(t + queue, period, phase) } else { t + queue };
        Some(at + FRAME + self.orbit.delay(at))
    }

    fn tell(&mut self, packet: Packet, t: f64, told: &mut Told) {
        self.random.seek(packet.number);
        let mean = self.load.at(t) * self.queue;
        told.add(0.0, [Piece::Exponential(mean)]);
        let (period, phase) = self.slots;
        if !told.all {
            let Orbit { nearest, spread, drift, .. } = self.orbit;
            let wobble = drift * (t - self.orbit.term(t).0);
            told.common = Some(Common { spread, wobble: wobble.max(1e-6) });
            return told.add(FRAME + nearest, [Piece::Uniform(period)]);
        }
        let left = t + self.load.at(t) * self.random.exponential(self.queue);
        if period > 0.0 {
            told.slot = Some((next(left, period, phase), period));
        }
        told.add(FRAME + self.orbit.delay(left), []);
    }
}

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    let orbit = Orbit {
        phase: d.phase("satellite", TERM),
        nearest: d.draw("satellite", &NEAREST) * MS,
        spread: d.draw("satellite", &SPREAD) * MS,
        drift: d.draw("satellite", &DRIFT) * 1e-6,
        random: d.stream("satellite"),
    };
    let period = d.draw("link up", &FRAMES) * FRAME;
    let slots = (period, d.phase("link up", period));
    let outage = d.draw("satellite", &OUTAGE) * MS;
    let mut link = |part: &str, slots| Link {
        orbit: orbit.clone(),
        slots,
        queue: d.draw(part, &QUEUE) * MS,
        outage,
        load: Load::draw(d, part, seconds),
        random: d.stream(part),
    };
    let ways = Ways::of(link("link up", slots), link("link down", (0.0, 0.0)));
    Ways { changes: handovers(orbit, seconds), ..ways }
}

fn handovers(mut orbit: Orbit, seconds: f64) -> Vec<Change> {
    let count = ((seconds - orbit.phase) / TERM).max(0.0) as usize;
    let change = |n: usize| {
        let at = orbit.phase + n as f64 * TERM;
        let by = orbit.delay(at) - orbit.delay(at - 1e-6);
        Change { at, by: [by; 2], cause: Cause::Satellite }
    };
    (0..=count).map(change).collect()
}
