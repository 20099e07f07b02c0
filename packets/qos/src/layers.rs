//! Times of a packet at several layers of one host, and how long it took from one to the next.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use serde::Serialize;

use crate::at::{At, Counted, DifferenceClock};
use crate::path::Bounds;
use crate::report::Spread;
use crate::rtt::Stamp;
use crate::{Bins, Distribution, bins};

/// Where in a host a packet was stamped, in the order in which an arriving packet passes them, and then
/// what answers it on its way out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// By the network card itself.
    Card,
    /// In the driver, by an XDP program.
    Xdp,
    /// Where the driver hands it to the network stack.
    Driver,
    /// Where the network stack begins with it: the kernel's own stamp, and what packet sockets see.
    Stack,
    /// In the queue of the socket that it is for.
    Socket,
    /// Where the application has read it.
    Application,
    /// Where the application begins to send.
    Send,
    /// In the queue of the interface that it is to leave by.
    Scheduler,
    /// Where the driver is given it.
    Transmit,
    /// Where the driver has it, and it is the card's.
    Sent,
}

impl Layer {
    /// All of them, in their order.
    pub const ALL: [Layer; 10] = [
        Layer::Card,
        Layer::Xdp,
        Layer::Driver,
        Layer::Stack,
        Layer::Socket,
        Layer::Application,
        Layer::Send,
        Layer::Scheduler,
        Layer::Transmit,
        Layer::Sent,
    ];

    /// For people, and for files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Card => "card",
            Layer::Xdp => "xdp",
            Layer::Driver => "driver",
            Layer::Stack => "stack",
            Layer::Socket => "socket",
            Layer::Application => "application",
            Layer::Send => "send",
            Layer::Scheduler => "scheduler",
            Layer::Transmit => "transmit",
            Layer::Sent => "sent",
        }
    }

    /// The layer of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Layer> {
        Layer::ALL.into_iter().find(|layer| layer.name() == name)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A packet at a layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Layered {
    /// Where.
    pub layer: Layer,
    /// When.
    pub at: At,
    /// Count there, if it has one: spans are measured by it.
    pub counted: Option<Counted>,
}

/// Delays from one layer to another.
#[derive(Clone, PartialEq, Debug)]
struct Pair {
    delays: Distribution,
    bounds: Bounds,
    negative: u64,
    by_counter: u64,
    bins: Bins,
}

/// Delays between the layers of one host, per packet.
///
/// Stamps of one packet come either all at once ([`packet`](Layers::packet)) or one by one under a
/// key that tells the packet from all others that are on their way ([`stamp`](Layers::stamp)).
#[derive(Clone, Debug)]
pub struct Layers {
    clock: Option<DifferenceClock>,
    most_waiting: usize,
    timeout_ns: i64,
    bin_ns: i64,
    pairs: BTreeMap<(Layer, Layer), Pair>,
    seen: BTreeMap<Layer, u64>,
    packets: u64,
    repeated: u64,
    given_up: u64,
    waiting: HashMap<u64, (u64, Vec<Layered>)>,
    ages: VecDeque<(i64, u64, u64)>,
    serial: u64,
}

impl Layers {
    /// With nothing seen. Packets are waited for `timeout_ns` from their first stamp on, and at
    /// most `most_waiting` of them (some 400 bytes each).
    #[must_use]
    pub fn new(timeout_ns: i64, most_waiting: usize, bin_ns: i64) -> Layers {
        Layers {
            clock: None,
            most_waiting: most_waiting.max(1),
            timeout_ns,
            bin_ns,
            pairs: BTreeMap::new(),
            seen: BTreeMap::new(),
            packets: 0,
            repeated: 0,
            given_up: 0,
            waiting: HashMap::new(),
            ages: VecDeque::new(),
            serial: 0,
        }
    }

    /// The clock that spans are measured by from now on.
    pub fn set_clock(&mut self, clock: Option<DifferenceClock>) {
        self.clock = clock;
    }

    /// All stamps of one packet, in any order. Of two at the same layer the first counts.
    pub fn packet(&mut self, stamps: &[Layered]) {
        let mut by_layer = BTreeMap::new();
        for stamp in stamps {
            match by_layer.entry(stamp.layer) {
                Entry::Occupied(_) => self.repeated += 1,
                Entry::Vacant(place) => drop(place.insert(stamp)),
            }
        }
        if by_layer.is_empty() {
            return;
        }
        self.packets += 1;
        let stamps: Vec<&Layered> = by_layer.into_values().collect();
        for (n, from) in stamps.iter().enumerate() {
            *self.seen.entry(from.layer).or_default() += 1;
            for to in stamps.iter().skip(n + 1) {
                self.pair(from, to);
            }
        }
    }

    fn pair(&mut self, from: &Layered, to: &Layered) {
        let stamp = |layered: &Layered| Stamp { at: layered.at, counted: layered.counted };
        let (took, by_counter) = stamp(to).since(&stamp(from), self.clock.as_ref());
        let bin_ns = self.bin_ns;
        let pair = self.pairs.entry((from.layer, to.layer)).or_insert_with(|| Pair {
            delays: Distribution::default(),
            bounds: Bounds::default(),
            negative: 0,
            by_counter: 0,
            bins: Bins::new(bin_ns),
        });
        pair.delays.add(took.ns);
        pair.bounds.add(took.bound_ns);
        pair.negative += u64::from(took.is_negative());
        pair.by_counter += u64::from(by_counter);
        pair.bins.add(from.at.unix_ns, &bins::value(took.ns, took.bound_ns));
    }

    /// A stamp of the packet that has this key.
    pub fn stamp(&mut self, key: u64, stamp: Layered) {
        let now = stamp.at.unix_ns;
        match self.waiting.get_mut(&key) {
            // No packet has more stamps than there are layers, but for copies.
            Some((_, stamps)) if stamps.len() < 2 * Layer::ALL.len() => stamps.push(stamp),
            Some(_) => self.repeated += 1,
            None => {
                self.serial += 1;
                self.waiting.insert(key, (self.serial, vec![stamp]));
                self.ages.push_back((now, key, self.serial));
            }
        }
        while let Some(&(at_ns, key, serial)) = self.ages.front() {
            let old = now.saturating_sub(at_ns) > self.timeout_ns;
            if !old && self.ages.len() <= self.most_waiting {
                break;
            }
            self.given_up += u64::from(!old);
            self.ages.pop_front();
            self.done(key, serial);
        }
    }

    fn done(&mut self, key: u64, serial: u64) {
        if self.waiting.get(&key).is_some_and(|(number, _)| *number == serial)
            && let Some((_, stamps)) = self.waiting.remove(&key)
        {
            self.packet(&stamps);
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        while let Some((_, key, serial)) = self.ages.pop_front() {
            self.done(key, serial);
        }
    }

    /// True if there was no stamp.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0 && self.waiting.is_empty()
    }

    /// Report of the outcome.
    #[must_use]
    pub fn report(&self) -> LayersReport {
        let order: Vec<Layer> = self.seen.keys().copied().collect();
        let next = |from: Layer, to: Layer| {
            order.iter().position(|l| *l == from).map(|at| at + 1)
                == order.iter().position(|l| *l == to)
        };
        let pairs = self.pairs.iter().map(|((from, to), pair)| LayerReport {
            from: *from,
            to: *to,
            adjacent: next(*from, *to),
            delay: Spread::of(&pair.delays),
            bound_max_ns: (pair.bounds.unbounded == 0).then_some(pair.bounds.greatest),
            unbounded: pair.bounds.unbounded,
            negative: pair.negative,
            by_counter: pair.by_counter,
            delays: pair.delays.clone(),
            bins: pair.bins.clone(),
        });
        LayersReport {
            packets: self.packets,
            seen: self.seen.iter().map(|(layer, n)| (*layer, *n)).collect(),
            repeated: self.repeated,
            given_up: self.given_up,
            pairs: pairs.collect(),
        }
    }
}

/// Delays between layers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LayersReport {
    /// Packets with at least one stamp.
    pub packets: u64,
    /// Number of packets with a stamp at each layer.
    pub seen: Vec<(Layer, u64)>,
    /// Stamps beyond the first at a layer: left out.
    pub repeated: u64,
    /// Packets counted before the time to wait for their stamps was over, for want of memory.
    pub given_up: u64,
    /// From each layer to each later one.
    pub pairs: Vec<LayerReport>,
}

/// Delays from one layer to another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LayerReport {
    /// From here.
    pub from: Layer,
    /// To there.
    pub to: Layer,
    /// No other layer that has stamps lies between.
    pub adjacent: bool,
    /// ns.
    pub delay: Spread,
    /// The greatest bound of one, ns; `None` if one had none.
    pub bound_max_ns: Option<u64>,
    /// Delays without a bound.
    pub unbounded: u64,
    /// Delays below zero by more than their bound.
    pub negative: u64,
    /// Number of delays measured by the counter.
    pub by_counter: u64,
    /// All of it, for plots.
    #[serde(skip)]
    pub delays: Distribution,
    /// Over time, for plots.
    #[serde(skip)]
    pub bins: Bins,
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{Count, CountSpan, Epoch, Period, Rate};

    fn at(layer: Layer, ns: i64) -> Layered {
        Layered { layer, at: At::exact(ns, Some(10)), counted: None }
    }

    #[test]
    fn delays_between_all_pairs_of_layers() {
        let mut layers = Layers::new(1_000_000_000, 100, 1_000_000_000);
        for n in 0..10 {
            let start = n * 1_000_000;
            layers.stamp(n as u64, at(Layer::Xdp, start));
            layers.stamp(n as u64, at(Layer::Application, start + 20_000 + n));
            layers.stamp(n as u64, at(Layer::Stack, start + 500));
        }
        layers.stamp(3, at(Layer::Application, 9_999_999));
        layers.finish();
        let report = layers.report();
        assert_eq!((report.packets, report.repeated), (10, 1));
        let pairs: Vec<_> = report
            .pairs
            .iter()
            .map(|p| (p.from, p.to, p.adjacent, p.delay.min_ns, p.delay.max_ns))
            .collect();
        assert_eq!(
            pairs,
            [
                (Layer::Xdp, Layer::Stack, true, Some(500), Some(500)),
                (Layer::Xdp, Layer::Application, false, Some(20_000), Some(20_009)),
                (Layer::Stack, Layer::Application, true, Some(19_500), Some(19_509)),
            ]
        );
        assert!(report.pairs.iter().all(|p| p.bound_max_ns == Some(20)));
    }

    #[test]
    fn counts_measure_better_than_times() {
        let mut layers = Layers::new(1, 100, 1);
        layers.set_clock(Some(DifferenceClock {
            period: Period::from_hz(1_000_000_000),
            error: Rate::ZERO,
        }));
        let counted = |layer, ns: i64, count| Layered {
            layer,
            at: At::exact(ns, Some(50_000)),
            counted: Some(Counted { count: Count(count), error: CountSpan(5), epoch: Epoch(1) }),
        };
        layers.packet(&[counted(Layer::Application, 0, 1_700), counted(Layer::Card, 0, 1_000)]);
        let report = layers.report();
        let pair = report.pairs.first().expect("a pair");
        assert_eq!((pair.delay.min_ns, pair.by_counter), (Some(700), 1));
        assert!(pair.bound_max_ns.is_some_and(|bound| bound < 20));
    }

    #[test]
    fn memory_is_bounded() {
        let mut layers = Layers::new(i64::MAX, 100, 1);
        (0..1000).for_each(|n| layers.stamp(n, at(Layer::Xdp, n as i64)));
        (0..1000).for_each(|n| layers.stamp(5000, at(Layer::Xdp, n)));
        assert!(layers.waiting.len() <= 100 && layers.ages.len() <= 100);
        layers.finish();
        assert!(layers.report().given_up >= 900);
    }

    #[test]
    fn layers_have_names() {
        for layer in Layer::ALL {
            assert_eq!(Layer::named(layer.name()), Some(layer));
        }
        assert_eq!(Layer::named("physical"), None);
    }
}
