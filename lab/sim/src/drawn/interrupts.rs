//! Delays between wire and stamp: links and processors that sleep, interrupts that wait for each
//! other.

use super::part::{Load, Packet, Part, Slow, US, Ways};
use super::range::{Drawing, Range, Values};
use crate::random::Random;

const COALESCED: Range = Range {
    name: "interrupts apart at least",
    unit: "µs",
    values: Values::Log(3.0, 250.0),
    reason: "rx-usecs of ethtool: 3 (igb, adaptive) to 250 (e1000e at 4000 a second)",
};
const TIMER: Range = Range {
    name: "timer begins with the packet",
    unit: "",
    values: Values::OneOf(&[0.0, 1.0]),
    reason: "then each waits for all of it while the mode is on; else for what is left of it",
};
const BULK: Range = Range {
    name: "share of the time in that mode",
    unit: "",
    values: Values::Even(0.05, 0.95),
    reason: "adaptive moderation goes by the traffic",
};
const DWELL: Range = Range {
    name: "time between changes of the mode",
    unit: "s",
    values: Values::Log(5.0, 3600.0),
    reason: "traffic comes and goes by seconds to hours",
};
const EXIT: Range = Range {
    name: "deepest idle state's exit",
    unit: "µs",
    values: Values::OneOf(&[2.0, 10.0, 40.0, 133.0, 200.0, 890.0]),
    reason: "intel_idle.c: C1, C1E, C3, C6, C8, C10",
};
const DEEP: Range = Range {
    name: "packets that meet it",
    unit: "",
    values: Values::Even(0.1, 1.0),
    reason: "share on an idle machine; a shallow one else",
};
const SHALLOW: Range = Range {
    name: "shallow state's exit",
    unit: "µs",
    values: Values::Even(0.5, 3.0),
    reason: "C1 and the interrupt itself",
};
const WAKE: Range = Range {
    name: "link wakes up",
    unit: "µs",
    values: Values::OneOf(&[0.0, 0.0, 7.4, 16.5, 30.0, 64.0]),
    reason: "Energy-Efficient Ethernet (802.3az: 10 G, 1 G, 100 M), PCIe L1; 0: neither",
};

/// Parameters that are drawn.
pub(super) const RANGES: [Range; 8] = [COALESCED, TIMER, BULK, DWELL, EXIT, DEEP, SHALLOW, WAKE];

/// From the stamp to the wire.
#[derive(Debug)]
struct Send {
    wake: f64,
    load: Load,
    random: Random,
}

impl Part for Send {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let asleep = self.random.chance(1.0 - self.load.at(t));
        Some(t + if asleep { self.wake } else { 0.0 } + self.random.exponential(0.5 * US))
    }
}

/// From the wire to the stamp.
#[derive(Debug)]
struct Receive {
    coalesced: f64,
    timer: bool,
    /// Below this, slow noise means that the mode is on.
    threshold: f64,
    mode: Slow,
    exit: f64,
    deep: f64,
    shallow: f64,
    load: Load,
    random: Random,
}

impl Part for Receive {
    fn pass(&mut self, packet: Packet, t: f64) -> Option<f64> {
        self.random.seek(packet.number);
        let left = if self.timer { 1.0 } else { self.random.uniform() };
        let mut t = t;
        if self.mode.at(t) < self.threshold {
            t += left * self.coalesced;
        }
        let load = self.load.at(t);
        let exit =
            if self.random.chance(self.deep * (1.0 - load)) { self.exit } else { self.shallow };
        Some(t + exit * (0.8 + 0.2 * self.random.uniform()) + self.random.exponential(1.0 * US))
    }
}

pub(super) fn draw(d: &mut Drawing, seconds: f64) -> Ways {
    const HOST: &str = "host";
    let load = Load::draw(d, HOST, seconds);
    let send =
        Send { wake: d.draw(HOST, &WAKE) * US, load: load.clone(), random: d.stream("send") };
    let receive = Receive {
        coalesced: d.draw(HOST, &COALESCED) * US,
        timer: d.is(HOST, &TIMER),
        // About the share of normal numbers below it.
        threshold: 3.0 * (d.draw(HOST, &BULK) - 0.5),
        mode: Slow::new(d.stream("mode"), d.draw(HOST, &DWELL)),
        exit: d.draw(HOST, &EXIT) * US,
        deep: d.draw(HOST, &DEEP),
        shallow: d.draw(HOST, &SHALLOW) * US,
        load,
        random: d.stream("receive"),
    };
    Ways::of(send, receive)
}
