//! Path of the packets of one flow between two points.

use std::collections::VecDeque;

use crate::bins::{loss, value};
use crate::rtt::Stamp;
use crate::{At, Bins, Density, Distribution, Jitter, Losses, Measured, Reordering};

/// Which way a flow goes between the two points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the first point to the second.
    Forward,
    /// From the second to the first.
    Backward,
}

impl Way {
    /// The point that packets leave from.
    #[must_use]
    pub fn origin(self) -> usize {
        match self {
            Way::Forward => 0,
            Way::Backward => 1,
        }
    }
}

/// By what the way was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The user said so.
    Chosen,
    /// The hop limit is lower where packets arrive.
    HopLimit,
    /// They pass the one point before the other by more than the bounds.
    Time,
    /// The capture says that they were sent at the one point and received at the other.
    Direction,
    /// They pass the one point before the other, without a bound to say so for certain.
    UnboundedTime,
}

/// Reason why a packet found no partner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alone {
    /// The other point watched, and it did not come in time.
    Lost,
    /// The other point did not watch yet.
    Unwatched,
    /// The other point's watch ended too soon after.
    Recent,
    /// There was no memory to wait for it.
    Dropped,
    /// Segmentation offload cuts packets of this flow up, or joins them, between the points.
    Resized,
}

/// Largest number of packets of one flow at one point that are kept until one before them is decided.
const MOST: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Waiting,
    /// The other point saw it as number `index` there, so long `after` this one.
    Met {
        index: u64,
        after: Measured,
    },
    Ambiguous,
    Alone(Alone),
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Item {
    at: At,
    fate: Fate,
}

/// Packets that passed one point, in that order, as far as it is open what became of them or of
/// one before them.
#[derive(Clone, PartialEq, Debug, Default)]
struct Queue {
    first: u64,
    items: VecDeque<Item>,
}

impl Queue {
    fn push(&mut self, at: At, fate: Fate) -> u64 {
        self.items.push_back(Item { at, fate });
        // Of packets that are alike any number may pass while one before them is waited for.
        if self.items.len() > MOST
            && let Some(front) = self.items.front_mut()
            && front.fate == Fate::Waiting
        {
            front.fate = Fate::Alone(Alone::Dropped);
        }
        self.first + self.items.len() as u64 - 1
    }

    fn set(&mut self, index: u64, fate: Fate) {
        let Some(place) = index.checked_sub(self.first) else { return };
        if let Some(item) = self.items.get_mut(place as usize) {
            item.fate = fate;
        }
    }

    /// The next of which everything is known.
    fn pop(&mut self) -> Option<Item> {
        if self.items.front()?.fate == Fate::Waiting {
            return None;
        }
        let item = self.items.pop_front()?;
        self.first += 1;
        Some(item)
    }
}

/// Bounds of many values.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bounds {
    /// Values with a bound.
    pub bounded: u64,
    /// Values without.
    pub unbounded: u64,
    /// Sum of the bounds, ns.
    pub sum: u128,
    /// The least, ns.
    pub least: u64,
    /// The greatest, ns.
    pub greatest: u64,
}

impl Bounds {
    /// Adds one.
    pub fn add(&mut self, bound: Option<u64>) {
        let Some(bound) = bound else {
            self.unbounded += 1;
            return;
        };
        self.least = if self.bounded == 0 { bound } else { self.least.min(bound) };
        self.greatest = self.greatest.max(bound);
        self.sum += u128::from(bound);
        self.bounded += 1;
    }

    pub(crate) fn merge(&mut self, other: &Bounds) {
        if other.bounded > 0 {
            self.least = if self.bounded == 0 { other.least } else { self.least.min(other.least) };
        }
        self.greatest = self.greatest.max(other.greatest);
        self.sum += other.sum;
        self.bounded += other.bounded;
        self.unbounded += other.unbounded;
    }

    /// The greatest, ns; `None` if one had none.
    #[must_use]
    pub fn greatest(&self) -> Option<u64> {
        (self.unbounded == 0 && self.bounded > 0).then_some(self.greatest)
    }

    /// The mean, ns.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.bounded > 0).then(|| self.sum as f64 / self.bounded as f64)
    }
}

/// The metrics of one flow between two points, from where it leaves to where it arrives.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// Which way, once one packet was seen at both points.
    pub way: Option<(Way, Evidence)>,
    /// One-way delays (RFC 7679), ns.
    pub delays: Distribution,
    /// Their bounds: the sum of those of both stamps.
    pub bounds: Bounds,
    /// Delays below zero by more than their bound: one of the clocks is not what it claims.
    pub negative: u64,
    /// The most negative of them, ns.
    pub most_negative: i64,
    /// Differences between the delays of packets sent one right after the other (IPDV, RFC 5481
    /// section 4.1, RFC 3393), ns.
    pub ipdv: Distribution,
    /// Jitter (RFC 3550) by the true times of sending.
    pub jitter: Jitter,
    /// Losses (RFC 7680).
    pub losses: Losses,
    /// Reordering, by the order at the origin.
    pub reordering: Reordering,
    /// Reorder density.
    pub density: Density,
    /// Copies that arrived beyond those that were sent (RFC 5560).
    pub duplicates: u64,
    /// Packets of which it cannot be told which of several alike they are, at each point.
    pub ambiguous: [u64; 2],
    /// Packets that only this point saw and of which nothing can be said, because the other did
    /// not watch: at each point.
    pub unwatched: [u64; 2],
    /// Packets that only this point saw, too shortly before the other's watch ended.
    pub recent: [u64; 2],
    /// Packets that only this point saw, forgotten for want of memory.
    pub dropped: [u64; 2],
    /// Packets that only this point saw because segmentation offload cuts them up, or joins them.
    pub resized: [u64; 2],
    /// Packets seen only where they arrive (or at a point of which that is not known).
    pub unseen: [u64; 2],
    /// Delays, bounds and losses over time, at the origin.
    pub bins: Bins,
    queues: [Queue; 2],
    before: Option<i64>,
    /// Numbers of packets at each point that were found lost before the way was known.
    early_losses: [u64; 2],
}

impl Path {
    pub(crate) fn new(way: Option<Way>, bin_ns: i64) -> Path {
        Path {
            way: way.map(|way| (way, Evidence::Chosen)),
            delays: Distribution::default(),
            bounds: Bounds::default(),
            negative: 0,
            most_negative: 0,
            ipdv: Distribution::default(),
            jitter: Jitter::default(),
            losses: Losses::default(),
            reordering: Reordering::default(),
            density: Density::default(),
            duplicates: 0,
            ambiguous: [0; 2],
            unwatched: [0; 2],
            recent: [0; 2],
            dropped: [0; 2],
            resized: [0; 2],
            unseen: [0; 2],
            bins: Bins::new(bin_ns),
            queues: Default::default(),
            before: None,
            early_losses: [0; 2],
        }
    }

    /// True if this is the point that packets arrive at.
    pub(crate) fn arrives_at(&self, point: usize) -> bool {
        self.way.is_some_and(|(way, _)| way.origin() != point)
    }

    /// A packet passes a point for the first time; gives its place.
    pub(crate) fn passed(&mut self, point: usize, at: At) -> u64 {
        self.queue(point).push(at, Fate::Waiting)
    }

    /// A packet that is like another passes.
    pub(crate) fn passed_ambiguous(&mut self, point: usize, at: At) {
        self.queue(point).push(at, Fate::Ambiguous);
        self.drain();
    }

    /// A packet that passed turns out to be like another.
    pub(crate) fn turned_ambiguous(&mut self, point: usize, index: u64) {
        self.queue(point).set(index, Fate::Ambiguous);
        self.drain();
    }

    /// A packet that passed the other point as number `other` now passes this one, so long after.
    pub(crate) fn met(
        &mut self,
        point: usize,
        at: At,
        other: u64,
        after: Measured,
        hint: impl FnOnce() -> (Way, Evidence),
    ) {
        let before = Fate::Met { index: other, after: after.reversed() };
        let index = self.queue(point).push(at, before);
        self.queue(1 - point).set(other, Fate::Met { index, after });
        if self.way.is_none() {
            let (way, evidence) = hint();
            self.way = Some((way, evidence));
            let origin = way.origin();
            for _ in 0..self.early_losses.get(origin).copied().unwrap_or(0) {
                self.losses.lost(1);
            }
            if let Some(unseen) = self.unseen.get_mut(1 - origin) {
                *unseen += self.early_losses.get(1 - origin).copied().unwrap_or(0);
            }
            self.early_losses = [0; 2];
        }
        self.drain();
    }

    /// A packet that passed found no partner.
    pub(crate) fn alone(&mut self, point: usize, index: u64, why: Alone) {
        self.queue(point).set(index, Fate::Alone(why));
        self.drain();
    }

    fn queue(&mut self, point: usize) -> &mut Queue {
        let [first, second] = &mut self.queues;
        if point == 0 { first } else { second }
    }

    fn drain(&mut self) {
        for point in [0, 1] {
            while let Some(item) = self.queue(point).pop() {
                match self.way {
                    Some((way, _)) if way.origin() == point => self.left(point, &item),
                    Some(_) => self.arrived(point, &item),
                    None => self.nowhere(point, &item),
                }
            }
        }
    }

    fn count(&mut self, point: usize, fate: Fate) {
        let counts = match fate {
            Fate::Ambiguous => &mut self.ambiguous,
            Fate::Alone(Alone::Unwatched) => &mut self.unwatched,
            Fate::Alone(Alone::Recent) => &mut self.recent,
            Fate::Alone(Alone::Dropped) => &mut self.dropped,
            Fate::Alone(Alone::Resized) => &mut self.resized,
            Fate::Alone(Alone::Lost) => &mut self.unseen,
            Fate::Waiting | Fate::Met { .. } => return,
        };
        if let Some(count) = counts.get_mut(point) {
            *count += 1;
        }
    }

    /// The way is not known yet.
    fn nowhere(&mut self, point: usize, item: &Item) {
        match item.fate {
            Fate::Alone(Alone::Lost) => {
                if let Some(losses) = self.early_losses.get_mut(point) {
                    *losses += 1;
                }
            }
            fate => self.count(point, fate),
        }
    }

    fn left(&mut self, point: usize, item: &Item) {
        match item.fate {
            Fate::Met { after: delay, .. } => {
                self.delay(item.at.unix_ns, delay);
                self.losses.arrived(1);
                if let Some(before) = self.before.replace(delay.ns) {
                    self.ipdv.add(delay.ns.saturating_sub(before));
                }
            }
            Fate::Alone(Alone::Lost) => {
                self.losses.lost(1);
                self.bins.add(item.at.unix_ns, &loss());
                self.before = None;
            }
            fate => {
                self.count(point, fate);
                self.losses.interrupted();
                self.before = None;
            }
        }
    }

    fn delay(&mut self, at_ns: i64, delay: Measured) {
        self.delays.add(delay.ns);
        self.bounds.add(delay.bound_ns);
        self.bins.add(at_ns, &value(delay.ns, delay.bound_ns));
        if delay.is_negative() {
            self.negative += 1;
            self.most_negative = self.most_negative.min(delay.ns);
        }
    }

    fn arrived(&mut self, point: usize, item: &Item) {
        let Fate::Met { index, after } = item.fate else {
            return self.count(point, item.fate);
        };
        let arrived_ns = item.at.leap_free_ns.unwrap_or(item.at.unix_ns);
        self.reordering.arrived(index, arrived_ns);
        self.density.arrived(index);
        self.jitter.arrived(after.reversed().ns.into());
    }

    /// Packets found lost of which it is not known which way they went, at each point.
    #[must_use]
    pub fn one_sided(&self) -> [u64; 2] {
        self.early_losses
    }

    /// Packets of which it is still open what becomes of them, at each point.
    #[must_use]
    pub fn waiting(&self) -> [u64; 2] {
        let waiting = |queue: &Queue| {
            queue.items.iter().filter(|item| item.fate == Fate::Waiting).count() as u64
        };
        let [first, second] = &self.queues;
        [waiting(first), waiting(second)]
    }
}

/// Which way a packet went that passed the first point and, so much later, the second.
pub(crate) fn way(first: &Passing, second: &Passing, took: Measured) -> (Way, Evidence) {
    let by = |forward: bool| if forward { Way::Forward } else { Way::Backward };
    if first.hop_limit != second.hop_limit {
        return (by(first.hop_limit > second.hop_limit), Evidence::HopLimit);
    }
    if took.bound_ns.is_some() && (took.is_negative() || took.reversed().is_negative()) {
        return (by(took.ns > 0), Evidence::Time);
    }
    use crate::Direction::Out;
    match (first.direction == Out, second.direction == Out) {
        (true, false) => (Way::Forward, Evidence::Direction),
        (false, true) => (Way::Backward, Evidence::Direction),
        _ => (by(took.ns >= 0), Evidence::UnboundedTime),
    }
}

/// A packet at a point, as far as it tells which way the packet goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Passing {
    pub(crate) stamp: Stamp,
    pub(crate) hop_limit: u8,
    pub(crate) direction: crate::Direction,
}
