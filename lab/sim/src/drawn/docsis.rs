//! Cable, DOCSIS 3.1: a modem asks for room upstream, and is granted some by the next maps.

use super::part::{Load, MS, Packet, Part, US, Ways, next};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

/// Slots of the first window of a request that collided, as a power of two, and of the last one.
const BACKOFF: (u32, u32) = (2, 7);
/// Number of collisions after which the packet is given up.
const TRIES: u32 = 16;

const MAP: Range = Range {
    name: "MAP cycle",
    unit: "ms",
    values: Values::Even(1.0, 4.0),
    reason: "2 ms is usual (White, Sundaresan, Briscoe: Low Latency DOCSIS, 2019)",
};
const GRANT: Range = Range {
    name: "request to grant",
    unit: "cycles",
    values: Values::OneOf(&[1.0, 2.0, 2.0, 3.0]),
    reason: "media acquisition takes 2 to 8 ms (the same)",
};
const OPPORTUNITIES: Range = Range {
    name: "request opportunities in a cycle",
    unit: "",
    values: Values::OneOf(&[1.0, 2.0, 4.0]),
    reason: "DOCSIS 3.1 MULPI: contention regions of each MAP",
};
const COLLISIONS: Range = Range {
    name: "requests that collide",
    unit: "",
    values: Values::Log(0.002, 0.2),
    reason: "share at full load; truncated binary back-off after it",
};
const FRAME: Range = Range {
    name: "OFDMA frame",
    unit: "ms",
    values: Values::Even(0.15, 0.9),
    reason: "6 to 36 symbols of 20 or 40 µs and their prefixes",
};
const PROACTIVE: Range = Range {
    name: "proactive grants",
    unit: "",
    values: Values::OneOf(&[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    reason: "Low Latency DOCSIS is rare as yet: grants come unasked, one in each cycle",
};
const BUSY: Range = Range {
    name: "packets behind own uploads",
    unit: "",
    values: Values::Log(0.001, 0.3),
    reason: "share at full load",
};
const UPLOAD: Range = Range {
    name: "queue of an upload",
    unit: "ms",
    values: Values::Log(1.0, 20.0),
    reason: "DOCSIS-PIE keeps it near 10 ms (RFC 8034)",
};
const PLANT: Range = Range {
    name: "plant and interleaver, downstream",
    unit: "ms",
    values: Values::Even(0.3, 1.2),
    reason: "cable up to 80 km, OFDM symbols and time interleaving",
};
const DOWN: Range = Range {
    name: "queue downstream",
    unit: "µs",
    values: Values::Log(20.0, 500.0),
    reason: "mean at full load of a channel of 1 Gbit/s shared by some hundred",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 10] =
    [MAP, GRANT, OPPORTUNITIES, COLLISIONS, FRAME, PROACTIVE, BUSY, UPLOAD, PLANT, DOWN];

#[derive(Debug)]
struct Up {
    cycle: f64,
    /// Cycles from a request to its grant; 0 where grants come unasked.
    grant: f64,
    opportunity: f64,
    collisions: f64,
    frame: f64,
    /// Where maps and frames begin.
    phases: [f64; 2],
    busy: f64,
    upload: f64,
    plant: f64,
    load: Load,
    random: Random,
}

impl Up {
    /// When a request that is ready at `t` gets through; `None` if it never does.
    fn asked(&mut self, t: f64, load: f64) -> Option<f64> {
        let mut t = next(t, self.opportunity, self.phases[0]);
        let (first, last) = BACKOFF;
        for n in 0..TRIES {
            if !self.random.chance(self.collisions * load) {
                return Some(t);
            }
            let window = f64::from(1u32 << (first + n).min(last));
            // That it collided shows by the maps that follow.
            t += self.cycle * self.grant.max(1.0)
                + self.opportunity * libm::ceil(window * self.random.uniform());
            t = next(t, self.opportunity, self.phases[0]);
        }
        None
    }
}

impl Part for Up {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let load = self.load.at(t);
        let mut t = t;
        if self.random.chance(self.busy * load) {
            t += self.random.gamma(2.0, self.upload / 2.0);
        }
        let place = self.random.uniform() * load * self.cycle;
        t = if self.grant > 0.0 {
            let asked = self.asked(t, load)?;
            // The first cycle whose map was made after the request, and a place in it.
            next(asked, self.cycle, self.phases[0]) + (self.grant - 1.0) * self.cycle + place
        } else {
            next(t, self.cycle, self.phases[0])
        };
        Some(next(t, self.frame, self.phases[1]) + self.frame + self.plant)
    }
}

#[derive(Debug)]
struct Down {
    plant: f64,
    queue: f64,
    load: Load,
    random: Random,
}

impl Part for Down {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        Some(t + self.plant + self.load.at(t) * self.random.exponential(self.queue))
    }
}

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    const UP: &str = "cable up";
    const DOWN_PART: &str = "cable down";
    let cycle = d.draw(UP, &MAP) * MS;
    let grant = d.draw(UP, &GRANT);
    let frame = d.draw(UP, &FRAME) * MS;
    let plant = d.draw(DOWN_PART, &PLANT) * MS;
    let up = Up {
        cycle,
        grant: if d.is(UP, &PROACTIVE) { 0.0 } else { grant },
        opportunity: cycle / d.draw(UP, &OPPORTUNITIES),
        collisions: d.draw(UP, &COLLISIONS),
        frame,
        phases: [d.phase("cable map", cycle), d.phase("cable frame", frame)],
        busy: d.draw(UP, &BUSY),
        upload: d.draw(UP, &UPLOAD) * MS,
        // Without the interleaver.
        plant: plant / 2.0,
        load: Load::draw(d, UP, seconds),
        random: d.stream(UP),
    };
    let down = Down {
        plant,
        queue: d.draw(DOWN_PART, &DOWN) * US,
        load: Load::draw(d, DOWN_PART, seconds),
        random: d.stream(DOWN_PART),
    };
    Ways::of(up, down)
}
