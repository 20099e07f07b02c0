//! Passive optical networks, GPON and XGS-PON: upstream slots by dynamic bandwidth allocation.

use super::part::{Load, MS, Packet, Part, US, Ways, next};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

/// A frame of the downstream, and the grid of everything upstream, s (ITU-T G.984.3).
const FRAME: f64 = 125e-6;

const CYCLE: Range = Range {
    name: "allocation cycle",
    unit: "frames",
    values: Values::OneOf(&[4.0, 8.0, 8.0, 16.0, 32.0]),
    reason: "of 125 µs: allocations every 0.5 to 4 ms; ITU-T G.989.3 leaves it to the maker",
};
const ASSURED: Range = Range {
    name: "assured slot in each cycle",
    unit: "",
    values: Values::OneOf(&[0.0, 1.0]),
    reason: "T-CONT types 1 and 2; else the report of one cycle is granted in the next (types 3 \
             and 4)",
};
const FIBRE: Range = Range {
    name: "fibre, one way",
    unit: "µs",
    values: Values::Even(1.0, 100.0),
    reason: "up to 20 km; the head end's equalisation makes all of a tree equally far",
};
const MOVED: Range = Range {
    name: "time between moves of the slot",
    unit: "s",
    values: Values::Log(60.0, 20_000.0),
    reason: "its place in the cycle changes when another one of the tree comes or goes",
};
const WAIT: Range = Range {
    name: "cycles without room",
    unit: "",
    values: Values::Log(0.001, 0.2),
    reason: "share at full load",
};
const DOWN: Range = Range {
    name: "queue downstream",
    unit: "µs",
    values: Values::Log(3.0, 100.0),
    reason: "mean at full load: 2.5 or 10 Gbit/s shared by 32 to 128",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 6] = [CYCLE, ASSURED, FIBRE, MOVED, WAIT, DOWN];

#[derive(Debug)]
struct Up {
    cycle: f64,
    phase: f64,
    /// Cycles that a report takes.
    report: f64,
    fibre: f64,
    moved: f64,
    wait: f64,
    load: Load,
    random: Random,
    places: Random,
}

impl Part for Up {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        self.places.seek(libm::floor(t / self.moved) as u64);
        let frames = libm::rint(self.cycle / FRAME);
        let place = FRAME * libm::floor(frames * self.places.uniform().min(1.0 - 1e-9));
        let mut t = next(t, self.cycle, self.phase + place) + self.report * self.cycle;
        let load = self.load.at(t);
        // No more than it takes for a frame's worth of others.
        while self.random.chance(self.wait * load) {
            t += self.cycle;
        }
        Some(t + self.fibre)
    }
}

#[derive(Debug)]
struct Down {
    fibre: f64,
    queue: f64,
    load: Load,
    random: Random,
}

impl Part for Down {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        Some(t + self.fibre + self.load.at(t) * self.random.exponential(self.queue))
    }
}

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    const UP: &str = "optical up";
    const DOWN_PART: &str = "optical down";
    let cycle = d.draw(UP, &CYCLE) * FRAME;
    let fibre = d.draw(UP, &FIBRE) * US;
    let up = Up {
        cycle,
        phase: d.phase(UP, cycle),
        report: if d.is(UP, &ASSURED) { 0.0 } else { 1.0 },
        fibre,
        moved: d.draw(UP, &MOVED),
        wait: d.draw(UP, &WAIT),
        load: Load::draw(d, UP, seconds),
        random: d.stream(UP),
        places: d.stream("optical slot"),
    };
    let down = Down {
        fibre: fibre + 0.02 * MS,
        queue: d.draw(DOWN_PART, &DOWN) * US,
        load: Load::draw(d, DOWN_PART, seconds),
        random: d.stream(DOWN_PART),
    };
    Ways::of(up, down)
}
