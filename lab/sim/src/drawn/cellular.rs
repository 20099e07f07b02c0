//! Mobile networks: slots of a grid, requests and grants, retransmissions, sleep, other cells.

use super::part::{Cause, Change, Load, MS, Packet, Part, Ways, next};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

/// Number of transmissions before the layer above repeats the packet.
const TRIES: u32 = 5;
/// Handovers come no closer to the day's ends than this, s.
const MARGIN: f64 = 7200.0;

const ERRORS: Range = Range {
    name: "transmissions that fail",
    unit: "",
    values: Values::Even(0.01, 0.15),
    reason: "link adaptation aims at 10 % of the first ones",
};
const LATER: Range = Range {
    name: "retransmissions that fail",
    unit: "",
    values: Values::Even(0.005, 0.05),
    reason: "soft combining leaves few",
};
const RECOVERY: Range = Range {
    name: "recovery by the link layer",
    unit: "ms",
    values: Values::Even(30.0, 120.0),
    reason: "RLC status reports and timers of 20 to 100 ms",
};
const CROWD: Range = Range {
    name: "wait for a free slot",
    unit: "slots",
    values: Values::Log(0.1, 15.0),
    reason: "mean at full load of the cell",
};
const IDLE: Range = Range {
    name: "connection released between requests",
    unit: "",
    values: Values::OneOf(&[0.0, 0.0, 1.0]),
    reason: "inactivity timers are 5 to 60 s; a request every 16 s, or other traffic, keeps most \
             up",
};
const AWAKE: Range = Range {
    name: "kept up by other traffic",
    unit: "",
    values: Values::Even(0.2, 1.0),
    reason: "share at full load",
};
const SPREAD: Range = Range {
    name: "scatter of the set-up",
    unit: "ms",
    values: Values::Log(2.0, 20.0),
    reason: "contention for the random access channel, processing in the core",
};
const INACTIVITY: Range = Range {
    name: "DRX inactivity timer",
    unit: "ms",
    values: Values::OneOf(&[10.0, 20.0, 40.0, 100.0, 200.0]),
    reason: "36.331 and 38.331; then the receiver is on only once a cycle",
};
const SLEEP: Range = Range {
    name: "DRX cycle",
    unit: "ms",
    values: Values::OneOf(&[0.0, 0.0, 40.0, 80.0, 160.0, 320.0]),
    reason: "36.331 and 38.331; 0 is none",
};
const CELLS: Range = Range {
    name: "handovers",
    unit: "",
    values: Values::OneOf(&[0.0, 0.0, 0.0, 1.0, 3.0]),
    reason: "routers stand still; phones do not",
};
const BACKHAUL: Range = Range {
    name: "a cell's backhaul",
    unit: "ms",
    values: Values::Log(0.3, 6.0),
    reason: "one way; fibre to microwave in several hops",
};

/// Parameters that are drawn for all of them.
pub(super) const RANGES: [Range; 11] =
    [ERRORS, LATER, RECOVERY, CROWD, IDLE, AWAKE, SPREAD, INACTIVITY, SLEEP, CELLS, BACKHAUL];

/// The moments at which a direction's transmissions can begin.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// Length of a slot, s.
    pub(super) length: f64,
    /// Which slots of the pattern are this direction's; not empty, one of them at least.
    pub(super) pattern: Vec<bool>,
}

impl Slots {
    /// The first slot of this direction at or after `t`: when it begins, s.
    fn next(&self, t: f64) -> f64 {
        let first = libm::ceil(t / self.length - 1e-9);
        let ours = |n: &f64| {
            let place = libm::fmod(*n, self.pattern.len() as f64) as usize;
            self.pattern.get(place).copied().unwrap_or(true)
        };
        let slots = (0..=self.pattern.len()).map(|k| first + k as f64);
        slots.into_iter().find(ours).unwrap_or(first) * self.length
    }
}

/// Parameters that tell one generation of networks from another.
#[derive(Clone, Debug)]
pub(super) struct Radio {
    pub(super) up: Slots,
    pub(super) down: Slots,
    /// Between two moments at which room can be asked for, s; 0: it need not be.
    pub(super) request: f64,
    /// From a request to the transmission that is granted, s.
    pub(super) grant: f64,
    /// From a transmission that failed to the next one, s.
    pub(super) retry: f64,
    /// Decoding at the receiver, s.
    pub(super) decoding: f64,
    /// The least time to set up a connection, s.
    pub(super) set_up: f64,
}

/// The transmissions of a packet in one direction.
#[derive(Clone, Debug)]
struct Air {
    slots: Slots,
    retry: f64,
    decoding: f64,
    errors: [f64; 2],
    recovery: f64,
    /// Mean wait for a free slot at full load, s.
    crowd: f64,
}

impl Air {
    fn draw(d: &mut Drawing, part: &str, slots: &Slots, radio: &Radio) -> Air {
        Air {
            slots: slots.clone(),
            retry: radio.retry,
            decoding: radio.decoding,
            errors: [d.draw(part, &ERRORS), d.draw(part, &LATER)],
            recovery: d.draw(part, &RECOVERY) * MS,
            crowd: d.draw(part, &CROWD) * slots.length,
        }
    }

    /// When what is ready at `t` has been received, s.
    fn send(&self, t: f64, load: f64, random: &mut Random) -> f64 {
        let mut t = self.slots.next(t + load * random.exponential(self.crowd));
        let [mut errors, later] = self.errors;
        let mut tries = 0;
        while random.chance(errors) {
            tries += 1;
            let wait = if tries < TRIES { self.retry } else { self.recovery };
            t = self.slots.next(t + wait);
            errors = later;
            if tries == TRIES {
                break;
            }
        }
        t + self.slots.length + self.decoding
    }
}

/// The cells of a day: since when, and how far the core is, s.
type Cells = Vec<(f64, f64)>;

/// Number and backhaul of the cell at `t`.
fn cell(cells: &Cells, t: f64) -> (usize, f64) {
    let number = cells.partition_point(|(since, _)| *since <= t).saturating_sub(1);
    (number, cells.get(number).map_or(0.0, |(_, far)| *far))
}

#[derive(Debug)]
struct Up {
    air: Air,
    request: f64,
    grant: f64,
    /// True if the connection is released between requests.
    idle: bool,
    awake: f64,
    set_up: f64,
    spread: f64,
    cells: Cells,
    load: Load,
    random: Random,
    phases: Random,
}

impl Part for Up {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let (number, far) = cell(&self.cells, t);
        let load = self.load.at(t);
        let mut t = t;
        let up = self.random.chance(self.awake * load);
        if self.idle && !up {
            t += self.set_up + self.random.exponential(self.spread);
        } else if self.request > 0.0 {
            // Each cell gives other places to ask.
            self.phases.seek(number as u64);
            let phase = self.request * self.phases.uniform();
            t = next(t, self.request, phase) + self.grant;
        }
        Some(self.air.send(t, load, &mut self.random) + far)
    }
}

#[derive(Debug)]
struct Down {
    air: Air,
    inactivity: f64,
    /// Length of the cycle, s, and where it begins.
    sleep: Option<(f64, f64)>,
    cells: Cells,
    load: Load,
    random: Random,
}

impl Part for Down {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let (_, far) = cell(&self.cells, t);
        let load = self.load.at(t);
        let mut t = t + far;
        if let Some((cycle, phase)) = self.sleep.filter(|_| t > packet.begun + self.inactivity) {
            t = next(t, cycle, phase);
        }
        Some(self.air.send(t, load, &mut self.random))
    }
}

/// Both ways over such a radio network, to the end of its backhaul.
pub(super) fn ways(d: &mut Drawing, radio: &Radio, seconds: f64) -> Ways {
    const UP: &str = "radio up";
    const DOWN: &str = "radio down";
    let (cells, changes) = cells(d, seconds);
    let cycle = d.draw(DOWN, &SLEEP) * MS;
    let up = Up {
        air: Air::draw(d, UP, &radio.up, radio),
        request: radio.request,
        grant: radio.grant,
        idle: d.is(UP, &IDLE),
        awake: d.draw(UP, &AWAKE),
        set_up: radio.set_up,
        spread: d.draw(UP, &SPREAD) * MS,
        cells: cells.clone(),
        load: Load::draw(d, UP, seconds),
        random: d.stream(UP),
        phases: d.stream("radio requests"),
    };
    let down = Down {
        air: Air::draw(d, DOWN, &radio.down, radio),
        inactivity: d.draw(DOWN, &INACTIVITY) * MS,
        sleep: (cycle > 0.0).then(|| (cycle, d.phase("radio sleep", cycle))),
        cells,
        load: Load::draw(d, DOWN, seconds),
        random: d.stream(DOWN),
    };
    Ways { changes, ..Ways::of(up, down) }
}

fn cells(d: &mut Drawing, seconds: f64) -> (Cells, Vec<Change>) {
    let mut cells = vec![(0.0, d.draw("cell 1", &BACKHAUL) * MS)];
    let mut changes = Vec::new();
    let count = d.draw("radio up", &CELLS) as usize;
    let room = (seconds - 2.0 * MARGIN) / count.max(1) as f64;
    for n in 0..if room > 0.0 { count } else { 0 } {
        let part = format!("cell {}", n + 2);
        let at = MARGIN + room * (n as f64 + d.stream(&format!("{part}/at")).uniform());
        let far = d.draw(&part, &BACKHAUL) * MS;
        let by = far - cells.last().map_or(far, |(_, before)| *before);
        changes.push(Change { at, by: [by; 2], cause: Cause::Route });
        cells.push((at, far));
    }
    (cells, changes)
}
