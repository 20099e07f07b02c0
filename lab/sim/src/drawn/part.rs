//! Parts that ways through a network are made of.

use core::fmt;

use super::law::Told;
use super::range::{Drawing, Range, Values};
use crate::random::Random;

const HOUR: f64 = 3600.0;

/// One microsecond and one millisecond, s.
pub(super) const US: f64 = 1e-6;
pub(super) const MS: f64 = 1e-3;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Number of its exchange.
    pub(super) number: u64,
    /// When the exchange's request was through the first part of its way, s: since then nobody at
    /// the host's end has sent anything. Infinite before.
    pub(super) begun: f64,
}

/// Something that packets pass. What happens to one depends on its number and on when it comes.
pub(super) trait Part: fmt::Debug + Send {
    /// When a packet that comes at `t` leaves, s; `None` if it is lost.
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64>;

    /// Adds what is known beforehand of a packet that comes at `t`, but for its own luck. A
    /// technology with a part that has no such law has no limit.
    fn tell(&mut self, _: Packet, _: f64, _: &mut Told) {}
}

/// Parts one after the other.
#[derive(Debug, Default)]
pub(super) struct Way(pub(super) Vec<Box<dyn Part>>);

impl Way {
    /// When a packet that enters at `t` arrives, s; `None` if it is lost.
    pub(super) fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.0.iter_mut().try_fold(t, |t, part| part.pass(packet, t))
    }

    /// Adds what is known beforehand of a packet that enters at `t`.
    pub(super) fn tell(&mut self, packet: Packet, t: f64, told: &mut Told) {
        let mut at = t;
        for part in &mut self.0 {
            part.tell(packet, at, told);
            at = part.pass(packet, at).unwrap_or(at);
        }
    }

    /// The request of this number that leaves the host at `t`: the packet, and when it arrives.
    pub(super) fn begin(&mut self, number: u64, t: f64) -> Option<(Packet, f64)> {
        let mut packet = Packet { number, begun: f64::INFINITY };
        let mut at = t;
        for part in &mut self.0 {
            at = part.pass(packet, at)?;
            packet.begun = packet.begun.min(at);
        }
        Some((packet, at))
    }
}

/// Both ways, and what changes on them.
#[derive(Debug, Default)]
pub(super) struct Ways {
    pub(super) there: Way,
    pub(super) back: Way,
    pub(super) changes: Vec<Change>,
}

impl Ways {
    /// These between the host and others that go on to the server.
    pub(super) fn before(mut self, further: Ways) -> Ways {
        self.there.0.extend(further.there.0);
        self.back.0.splice(0..0, further.back.0);
        self.changes.extend(further.changes);
        self
    }

    /// Ways of one part each.
    pub(super) fn of(there: impl Part + 'static, back: impl Part + 'static) -> Ways {
        let one = |part: Box<dyn Part>| Way(vec![part]);
        Ways { there: one(Box::new(there)), back: one(Box::new(back)), changes: Vec::new() }
    }
}

/// A change of what a packet takes at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Change {
    /// When, s since the start of the day.
    pub at: f64,
    /// By how much the least delay grows, there and back, s; negative: falls.
    pub by: [f64; 2],
    /// Cause of the change.
    pub cause: Cause,
}

/// Cause of a change of the least delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Another route, or another cell: for good, or until the next.
    Route,
    /// Another satellite: every 15 s.
    Satellite,
    /// A queue that stands for minutes or hours begins or ends.
    Queue,
}

/// The first moment of a grid at or after `t`, s.
pub(super) fn next(t: f64, period: f64, phase: f64) -> f64 {
    phase + period * libm::ceil((t - phase) / period)
}

const PEAK: Range = Range {
    name: "busiest hour",
    unit: "h",
    values: Values::Even(0.0, 24.0),
    reason: "the day begins at any time of day",
};
const QUIET: Range = Range {
    name: "load of the quietest hour",
    unit: "",
    values: Values::Log(0.02, 0.7),
    reason: "share of the busiest hour's; backbones keep more than half at night, homes next to \
             nothing",
};
const ROUGH: Range = Range {
    name: "scatter of the hours' loads",
    unit: "",
    values: Values::Even(0.0, 0.5),
    reason: "standard deviation of the logarithm",
};

/// The load by hour: a daily cosine on which the hours scatter.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// At each full hour.
    hours: Vec<f64>,
}

impl Load {
    pub(super) const RANGES: [Range; 3] = [PEAK, QUIET, ROUGH];

    pub(super) fn draw(d: &mut Drawing, part: &str, seconds: f64) -> Load {
        let [peak, quiet, rough] = Load::RANGES.map(|range| d.draw(part, &range));
        let mut random = d.stream(&format!("{part}/hours"));
        let hour = |h: usize| {
            let turn = core::f64::consts::TAU * (h as f64 - peak) / 24.0;
            let daily = quiet + (1.0 - quiet) * 0.5 * (1.0 + libm::cos(turn));
            (daily * libm::exp(rough * random.normal())).clamp(0.0, 1.0)
        };
        Load { hours: (0..=(seconds / HOUR) as usize + 1).map(hour).collect() }
    }

    /// The load at `t`, 0 to 1.
    pub(super) fn at(&self, t: f64) -> f64 {
        let hours = (t / HOUR).max(0.0);
        let (hour, share) = (hours as usize, hours - libm::floor(hours));
        let load = |hour: usize| self.hours.get(hour).or(self.hours.last()).copied().unwrap_or(0.0);
        load(hour) + share * (load(hour + 1) - load(hour))
    }
}

/// Slow noise: normal numbers so far apart, with straight lines between them.
#[derive(Clone, Debug)]
pub(super) struct Slow {
    random: Random,
    apart: f64,
}

impl Slow {
    pub(super) fn new(random: Random, apart: f64) -> Slow {
        Slow { random, apart }
    }

    pub(super) fn at(&mut self, t: f64) -> f64 {
        let place = (t / self.apart).max(0.0);
        let knot = libm::floor(place);
        let mut value = |knot: f64| {
            self.random.seek(knot as u64);
            self.random.normal()
        };
        let (a, b) = (value(knot), value(knot + 1.0));
        a + (place - knot) * (b - a)
    }
}
