//! Bounded jitter: delays between a floor that is hardly ever met and a ceiling.

use super::law::{Piece, Told};
use super::part::{MS, Packet, Part, Slow, Ways};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

const WIDTH: Range = Range {
    name: "width",
    unit: "ms",
    values: Values::Log(0.02, 5.0),
    reason: "from the floor to the ceiling: paced hosts, virtual switches, packet schedulers",
};
const RARE: Range = Range {
    name: "rarity of the floor",
    unit: "",
    values: Values::Even(1.5, 6.0),
    reason: "first parameter of a beta law: the share within x of the floor goes by x to this \
             power",
};
const HIGH: Range = Range {
    name: "rarity of the ceiling",
    unit: "",
    values: Values::Even(0.7, 4.0),
    reason: "second parameter",
};
const SWAY: Range = Range {
    name: "sway of the width",
    unit: "",
    values: Values::OneOf(&[0.0, 0.0, 0.1, 0.3]),
    reason: "standard deviation: load by the hour",
};
const SWAY_TIME: Range = Range {
    name: "time in which it sways",
    unit: "s",
    values: Values::Log(300.0, 10_000.0),
    reason: "minutes to hours",
};
const ALIKE: Range = Range {
    name: "both directions alike",
    unit: "",
    values: Values::OneOf(&[0.0, 1.0]),
    reason: "one scheduler for both, or one on one side only",
};
const ONE_SIDE: Range = Range {
    name: "width of the way back, else",
    unit: "",
    values: Values::Even(0.0, 1.0),
    reason: "share of the way there",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 7] = [WIDTH, RARE, HIGH, SWAY, SWAY_TIME, ALIKE, ONE_SIDE];

#[derive(Debug)]
struct Jitter {
    width: f64,
    rare: f64,
    high: f64,
    sway: f64,
    slow: Slow,
    random: Random,
}

impl Jitter {
    fn width_at(&mut self, t: f64) -> f64 {
        self.width * (1.0 + self.sway * self.slow.at(t)).clamp(0.1, 2.0)
    }
}

impl Part for Jitter {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let (low, high) = (self.random.gamma(self.rare, 1.0), self.random.gamma(self.high, 1.0));
        Some(t + self.width_at(t) * low / (low + high))
    }

    fn tell(&mut self, _: Packet, t: f64, told: &mut Told) {
        told.add(0.0, [Piece::Beta(self.width_at(t), self.rare, self.high)]);
    }
}

pub(super) fn draw(d: &mut Drawing, _: f64) -> Ways {
    let width = d.draw("jitter", &WIDTH) * MS;
    let (rare, high) = (d.draw("jitter", &RARE), d.draw("jitter", &HIGH));
    let (sway, apart) = (d.draw("jitter", &SWAY), d.draw("jitter", &SWAY_TIME));
    let alike = d.is("jitter", &ALIKE);
    let share = d.draw("jitter", &ONE_SIDE);
    let way = |part: &str, width: f64| Jitter {
        width,
        rare,
        high,
        sway,
        slow: Slow::new(d.stream("jitter/sway"), apart),
        random: d.stream(part),
    };
    let back = if alike { width } else { share * width };
    Ways::of(way("jitter there", width), way("jitter back", back))
}
