//! Wi-Fi: contention with windows that double, frames of others, power save, scans.

use super::law::{Contention, Piece, Told};
use super::part::{Load, MS, Packet, Part, US, Ways, next};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

/// IEEE 802.11, 5 GHz: DIFS and a slot of the back-off, s.
const DIFS: f64 = 34.0 * US;
/// A slot of the back-off, s.
pub(super) const SLOT: f64 = 9.0 * US;
/// Slots of the first window and of the longest one.
pub(super) const WINDOWS: (u32, u32) = (16, 1024);
/// Transmissions of a packet before it is given up.
pub(super) const TRIES: u32 = 8;
/// Between two beacons, s.
const BEACON: f64 = 102.4 * MS;

const AIRTIME: Range = Range {
    name: "own frame",
    unit: "µs",
    values: Values::Log(60.0, 500.0),
    reason: "90 bytes with preamble and acknowledgement, 300 to 6 Mbit/s",
};
const BUSY: Range = Range {
    name: "air in use by others",
    unit: "",
    values: Values::Even(0.05, 0.8),
    reason: "share at full load; what surveys of channels find in offices and flats",
};
const FRAMES: Range = Range {
    name: "others' frames",
    unit: "ms",
    values: Values::Log(0.2, 5.0),
    reason: "aggregates last 5.484 ms at most",
};
const COLLISIONS: Range = Range {
    name: "transmissions that fail",
    unit: "",
    values: Values::Log(0.01, 0.4),
    reason: "share at full load: collisions, hidden nodes, fading",
};
const POWER_SAVE: Range = Range {
    name: "power save",
    unit: "",
    values: Values::OneOf(&[0.0, 0.0, 1.0]),
    reason: "mains-powered devices have it off",
};
const TIMEOUT: Range = Range {
    name: "doze after",
    unit: "ms",
    values: Values::OneOf(&[5.0, 10.0, 20.0, 50.0, 100.0, 200.0]),
    reason: "dynamic power save of drivers; a reply that takes longer waits for a beacon",
};
const LISTEN: Range = Range {
    name: "listen interval",
    unit: "beacons",
    values: Values::OneOf(&[1.0, 1.0, 2.0, 3.0]),
    reason: "of 102.4 ms; DTIM periods of access points",
};
const SCAN: Range = Range {
    name: "between background scans",
    unit: "s",
    values: Values::OneOf(&[0.0, 0.0, 60.0, 120.0, 300.0]),
    reason: "network managers; 0 is never",
};
const AWAY: Range = Range {
    name: "away while scanning",
    unit: "ms",
    values: Values::Log(20.0, 500.0),
    reason: "one channel takes 20 to 110 ms; some drivers look at several before they come back",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 9] =
    [AIRTIME, BUSY, FRAMES, COLLISIONS, POWER_SAVE, TIMEOUT, LISTEN, SCAN, AWAY];

#[derive(Clone, Debug)]
struct Air {
    airtime: f64,
    busy: f64,
    frames: f64,
    collisions: f64,
    /// Doze after, listen interval and where it begins, s: downstream only.
    power_save: Option<(f64, f64, f64)>,
    /// Period of scans, how long each is, and where it begins, s.
    scans: Option<(f64, f64, f64)>,
    load: Load,
    random: Random,
}

impl Air {
    /// When a packet that comes at `t` finds the radio awake and on its channel, s.
    fn released(&self, packet: Packet, t: f64) -> f64 {
        let mut t = t;
        if let Some((doze, listen, phase)) = self.power_save
            && t > packet.begun + doze
        {
            t = next(t, listen, phase);
        }
        if let Some((period, away, phase)) = self.scans {
            let begun = next(t, period, phase) - period;
            t = t.max(begun + away);
        }
        t
    }
}

impl Part for Air {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let load = self.load.at(t);
        let busy = self.busy * load;
        let mut t = self.released(packet, t);
        let (mut window, longest) = WINDOWS;
        for _ in 0..TRIES {
            // The frame that is on the air, and those that come while the back-off runs.
            if self.random.chance(busy) {
                t += self.frames * self.random.uniform();
            }
            let slots = libm::floor(f64::from(window) * (1.0 - self.random.uniform()));
            let waited = slots * SLOT;
            t += DIFS + waited + busy / (1.0 - busy) * self.random.exponential(waited);
            t += self.airtime;
            if !self.random.chance(self.collisions * load) {
                return Some(t);
            }
            window = (2 * window).min(longest);
        }
        None
    }

    fn tell(&mut self, packet: Packet, t: f64, told: &mut Told) {
        let load = self.load.at(t);
        let released = self.released(packet, t);
        if released > t {
            told.release(released);
        }
        let air = Contention {
            busy: self.busy * load,
            frames: self.frames,
            takes: DIFS + self.airtime,
            fails: self.collisions * load,
        };
        told.add(0.0, [Piece::Air(air)]);
    }
}

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    const AIR: &str = "air";
    let air = |d: &mut Drawing, part: &str| Air {
        airtime: d.draw(part, &AIRTIME) * US,
        busy: d.draw(AIR, &BUSY),
        frames: d.draw(AIR, &FRAMES) * MS,
        collisions: d.draw(part, &COLLISIONS),
        power_save: None,
        scans: None,
        load: Load::draw(d, AIR, seconds),
        random: d.stream(part),
    };
    let (up, down) = (air(d, "air up"), air(d, "air down"));
    let doze = (d.draw(AIR, &TIMEOUT) * MS, d.draw(AIR, &LISTEN) * BEACON);
    let power_save = d.is(AIR, &POWER_SAVE).then(|| (doze.0, doze.1, d.phase("beacons", doze.1)));
    let (period, away) = (d.draw(AIR, &SCAN), d.draw(AIR, &AWAY) * MS);
    let scans = (period > 0.0).then(|| (period, away, d.phase("scans", period)));
    Ways::of(Air { scans, ..up }, Air { scans, power_save, ..down })
}
