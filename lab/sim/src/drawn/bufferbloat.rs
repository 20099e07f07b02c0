//! Queues that stand for minutes to hours, in one direction or in both.

use super::part::{Cause, Change, MS, Packet, Part, Slow, Ways};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

const COUNT: Range = Range {
    name: "uploads or downloads of a day",
    unit: "",
    values: Values::OneOf(&[1.0, 2.0, 3.0, 5.0, 8.0]),
    reason: "backups, synchronisation, video",
};
const LENGTH: Range = Range {
    name: "their length",
    unit: "min",
    values: Values::Log(3.0, 360.0),
    reason: "1 GB at 40 Mbit/s takes 3 min, a backup a night",
};
const DEPTH: Range = Range {
    name: "queue when full",
    unit: "ms",
    values: Values::Log(2.0, 250.0),
    reason: "buffers of access links (Gettys, Nichols: Bufferbloat, 2011), or AQM at 5 to 20 ms",
};
const LOW: Range = Range {
    name: "queue when low",
    unit: "",
    values: Values::Even(0.0, 0.9),
    reason: "share of a full one: Reno halves its window, CUBIC takes 30 %, several flows even out",
};
const TOOTH: Range = Range {
    name: "period of its saw-tooth",
    unit: "s",
    values: Values::Log(0.3, 60.0),
    reason: "a window's growth: round trips times packets in flight",
};
const ROUGH: Range = Range {
    name: "slow scatter",
    unit: "",
    values: Values::Even(0.02, 0.3),
    reason: "standard deviation of the depth, as flows come and go",
};
const APART: Range = Range {
    name: "time in which it changes",
    unit: "s",
    values: Values::Log(10.0, 1800.0),
    reason: "flows live for seconds to an hour",
};
const RAMP: Range = Range {
    name: "time to fill",
    unit: "s",
    values: Values::Log(0.5, 60.0),
    reason: "slow start to gentle pacing",
};
const WAYS: Range = Range {
    name: "directions",
    unit: "",
    values: Values::OneOf(&[1.0, 2.0, 3.0, 4.0]),
    reason: "1 there, 2 back, 3 both alike, 4 both, each by itself",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 9] = [COUNT, LENGTH, DEPTH, LOW, TOOTH, ROUGH, APART, RAMP, WAYS];

/// A queue that stands for a while.
#[derive(Clone, Copy, Debug)]
struct Episode {
    from: f64,
    to: f64,
    depth: f64,
    ramp: f64,
}

#[derive(Debug)]
struct Queue {
    episodes: Vec<Episode>,
    low: f64,
    tooth: f64,
    rough: f64,
    slow: Slow,
    random: Random,
}

impl Part for Queue {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let mut depth = 0.0;
        for Episode { from, to, depth: full, ramp } in &self.episodes {
            if t >= *from && t < to + ramp {
                depth += full * ((t - from) / ramp).min(1.0).min((to + ramp - t) / ramp);
            }
        }
        let turns = t / self.tooth;
        let tooth = self.low + (1.0 - self.low) * (turns - libm::floor(turns));
        let slow = (1.0 + self.rough * self.slow.at(t)).max(0.0);
        Some(t + depth * tooth * slow + self.random.exponential(0.02 * MS))
    }
}

/// One direction and its changes. `like` names the draws.
fn queue(d: &mut Drawing, part: &str, like: &str, seconds: f64) -> (Queue, Vec<(f64, f64)>) {
    let low = d.draw(like, &LOW);
    let count = d.draw(like, &COUNT) as usize;
    let room = seconds / count.max(1) as f64;
    let episode = |n: usize, d: &mut Drawing| {
        let name = format!("{like} {}", n + 1);
        let from = room * (n as f64 + 0.6 * d.stream(&format!("{name}/at")).uniform());
        let length = (d.draw(&name, &LENGTH) * 60.0).min(0.39 * room);
        let depth = d.draw(&name, &DEPTH) * MS;
        Episode { from, to: from + length, depth, ramp: d.draw(&name, &RAMP).min(length / 2.0) }
    };
    let episodes: Vec<Episode> = (0..count).map(|n| episode(n, d)).collect();
    let changes =
        episodes.iter().flat_map(|e| [(e.from, e.depth * low), (e.to, -e.depth * low)]).collect();
    let queue = Queue {
        episodes,
        low,
        tooth: d.draw(like, &TOOTH),
        rough: d.draw(like, &ROUGH),
        slow: Slow::new(d.stream(&format!("{like}/slow")), d.draw(like, &APART)),
        random: d.stream(part),
    };
    (queue, changes)
}

/// A direction in which nothing stands.
fn empty(d: &Drawing, part: &str) -> Queue {
    Queue {
        episodes: Vec::new(),
        low: 0.0,
        tooth: 1.0,
        rough: 0.0,
        slow: Slow::new(d.stream(part), 1.0),
        random: d.stream(part),
    }
}

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    let ways = d.draw("queue", &WAYS) as usize;
    let (mut there, mut back) = (empty(d, "queue there"), empty(d, "queue back"));
    let mut changes = Vec::new();
    let mut change = |all: Vec<(f64, f64)>, ways: [f64; 2]| {
        changes.extend(all.into_iter().map(|(at, by)| Change {
            at,
            by: ways.map(|way| way * by),
            cause: Cause::Queue,
        }));
    };
    if ways != 2 {
        let all;
        (there, all) = queue(d, "queue there", "queue", seconds);
        change(all, [1.0, 0.0]);
    }
    if ways != 1 {
        let all;
        let like = if ways == 4 { "queue of replies" } else { "queue" };
        (back, all) = queue(d, "queue back", like, seconds);
        change(all, [0.0, 1.0]);
    }
    Ways { changes, ..Ways::of(there, back) }
}
