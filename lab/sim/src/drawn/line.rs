//! The way from the access network to the server: fibre, routers, and changes of route.

use super::law::{Piece, Told};
use super::part::{Cause, Change, Load, MS, Packet, Part, US, Ways};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

/// Changes of route come no closer to the day's ends than this, s.
const MARGIN: f64 = 7200.0;
/// The most that a change may take away from the least delay.
const MOST_SHORTENED: f64 = 0.7;

const DISTANCE: Range = Range {
    name: "fibre, one way",
    unit: "ms",
    values: Values::Log(0.2, 25.0),
    reason: "4.9 µs/km: 40 to 5000 km",
};
const NEAR: Range = Range {
    name: "fibre, one way",
    unit: "ms",
    values: Values::Log(0.01, 25.0),
    reason: "from the next switch to another continent",
};
const ASYMMETRY: Range = Range {
    name: "asymmetry of the route",
    unit: "",
    values: Values::Even(-0.1, 0.1),
    reason: "share by which the way back is longer: routes there and back differ on most paths \
             (Paxson 1997)",
};
const QUEUE: Range = Range {
    name: "queues in routers",
    unit: "µs",
    values: Values::Log(1.0, 100.0),
    reason: "scale of a gamma law at full load; 1500 bytes take 1.2 µs at 10 Gbit/s, 12 µs at 1 \
             Gbit/s",
};
const HOPS: Range = Range {
    name: "routers with a queue",
    unit: "",
    values: Values::Even(0.5, 4.0),
    reason: "shape of the gamma law",
};
const TAIL_SHARE: Range = Range {
    name: "packets behind a burst",
    unit: "",
    values: Values::Log(1e-4, 0.05),
    reason: "share at full load",
};
const TAIL: Range = Range {
    name: "a burst's length",
    unit: "µs",
    values: Values::Log(20.0, 1000.0),
    reason: "scale of a Lomax law of shape 1.5, at most 50 ms: buffers of routers",
};
const LOSS: Range = Range {
    name: "loss",
    unit: "",
    values: Values::Log(1e-5, 0.02),
    reason: "each way; from clean fibre to what TCP just bears",
};
const REORDERING: Range = Range {
    name: "packets held back",
    unit: "",
    values: Values::Log(1e-5, 5e-3),
    reason: "parallel links: Paxson 1997 saw up to some per cent on single paths",
};
const HELD_BACK: Range = Range {
    name: "for how long",
    unit: "ms",
    values: Values::Log(0.05, 3.0),
    reason: "what parallel links differ by",
};
const ROUTES: Range = Range {
    name: "changes of route",
    unit: "",
    values: Values::OneOf(&[0.0, 0.0, 0.0, 0.0, 1.0, 2.0]),
    reason: "two thirds of the paths keep their route for days (Paxson 1997)",
};
const ROUTE_BY: Range = Range {
    name: "a route's change",
    unit: "ms",
    values: Values::Log(0.05, 10.0),
    reason: "a way round of 10 to 2000 km; longer or shorter, by at most 70 %",
};
const ROUTE_WAYS: Range = Range {
    name: "ways that change",
    unit: "",
    values: Values::OneOf(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]),
    reason: "1 there, 2 back, 3 both alike",
};
const LONGER: Range = Range {
    name: "the new route is longer",
    unit: "",
    values: Values::OneOf(&[0.0, 1.0]),
    reason: "as often as not",
};

/// Parameters that are drawn for a line.
pub(super) const RANGES: [Range; 13] = [
    DISTANCE, ASYMMETRY, QUEUE, HOPS, TAIL_SHARE, TAIL, LOSS, REORDERING, HELD_BACK, ROUTES,
    ROUTE_BY, ROUTE_WAYS, LONGER,
];
/// Parameters that are drawn instead where the line is all there is.
pub(super) const ONLY: [Range; 1] = [NEAR];

/// One direction.
#[derive(Debug)]
pub(super) struct Line {
    /// The least delay since when, s.
    floors: Vec<(f64, f64)>,
    hops: f64,
    queue: f64,
    tail_share: f64,
    tail: f64,
    loss: f64,
    reordering: f64,
    held_back: f64,
    load: Load,
    random: Random,
}

impl Line {
    /// The least delay at `t`, s.
    pub(super) fn floor_at(&self, t: f64) -> f64 {
        let in_force = self.floors.iter().rev().find(|(since, _)| *since <= t);
        in_force.or(self.floors.first()).map_or(0.0, |(_, floor)| *floor)
    }
}

impl Part for Line {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let lost = self.random.chance(self.loss);
        let held_back = self.random.chance(self.reordering);
        let load = self.load.at(t);
        let burst = self.random.chance(self.tail_share * load);
        let mut delay = self.floor_at(t) + load * self.random.gamma(self.hops, self.queue);
        if held_back {
            delay += self.held_back * self.random.uniform();
        }
        if burst {
            delay += self.random.lomax(1.5, self.tail).min(50.0 * MS);
        }
        (!lost).then_some(t + delay)
    }

    fn tell(&mut self, _: Packet, t: f64, told: &mut Told) {
        let load = self.load.at(t);
        let pieces = [
            Piece::Gamma(self.hops, load * self.queue),
            Piece::Burst(self.tail_share * load, self.tail),
            Piece::Late(self.reordering, self.held_back),
        ];
        told.add(self.floor_at(t), pieces);
    }
}

/// Lines to a server far enough away that there is an access network before them.
pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    lines(d, &DISTANCE, seconds)
}

/// Lines to a server anywhere.
pub(super) fn alone(d: &mut Drawing, seconds: f64) -> Ways {
    lines(d, &NEAR, seconds)
}

fn lines(d: &mut Drawing, distance: &Range, seconds: f64) -> Ways {
    let there = d.draw("line", distance) * MS;
    let back = there * (1.0 + d.draw("line", &ASYMMETRY));
    let changes = routes(d, [there, back], seconds);
    let mut way = |name: &str, floor: f64, which: usize| {
        let mut floors = vec![(0.0, floor)];
        for change in &changes {
            let last = floors.last().map_or(floor, |(_, floor)| *floor);
            floors.push((change.at, last + change.by.get(which).copied().unwrap_or(0.0)));
        }
        Line {
            floors,
            hops: d.draw(name, &HOPS),
            queue: d.draw(name, &QUEUE) * US,
            tail_share: d.draw(name, &TAIL_SHARE),
            tail: d.draw(name, &TAIL) * US,
            loss: d.draw(name, &LOSS),
            reordering: d.draw(name, &REORDERING),
            held_back: d.draw(name, &HELD_BACK) * MS,
            load: Load::draw(d, name, seconds),
            random: d.stream(name),
        }
    };
    let ways = Ways::of(way("line there", there, 0), way("line back", back, 1));
    Ways { changes, ..ways }
}

/// The day's changes of route; `floors` are the least delays at its beginning, s.
fn routes(d: &mut Drawing, mut floors: [f64; 2], seconds: f64) -> Vec<Change> {
    let count = d.draw("line", &ROUTES) as usize;
    let room = (seconds - 2.0 * MARGIN) / count.max(1) as f64;
    if room <= 0.0 {
        return Vec::new();
    }
    let change = |n: usize| {
        let part = format!("route {}", n + 1);
        let at = MARGIN + room * (n as f64 + d.stream(&format!("{part}/at")).uniform());
        let size = d.draw(&part, &ROUTE_BY) * MS;
        let ways = d.draw(&part, &ROUTE_WAYS) as usize;
        let longer = d.is(&part, &LONGER);
        let mut by = [0.0; 2];
        for (way, (by, floor)) in by.iter_mut().zip(&mut floors).enumerate() {
            if ways & (way + 1) != 0 {
                *by = if longer { size } else { -size.min(MOST_SHORTENED * *floor) };
                *floor += *by;
            }
        }
        Change { at, by, cause: Cause::Route }
    };
    (0..count).map(change).collect()
}
