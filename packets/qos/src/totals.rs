//! All flows together.

use std::collections::BTreeMap;

use crate::path::{Bounds, Way};
use crate::rtt::{Kind, Rtt};
use crate::{Bins, Distribution, flow::Flow};

/// Totals between the points of packets that went one way.
#[derive(Clone, PartialEq, Debug)]
pub struct WayTotals {
    /// Flows.
    pub flows: u64,
    /// One-way delays, ns.
    pub delays: Distribution,
    /// Their bounds.
    pub bounds: Bounds,
    /// Delays below zero by more than their bound.
    pub negative: u64,
    /// The most negative of them, ns.
    pub most_negative: i64,
    /// Differences between the delays of neighbours, ns.
    pub ipdv: Distribution,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets overtaken.
    pub reordered: u64,
    /// Copies too many.
    pub duplicates: u64,
    /// Delays, bounds and losses over time.
    pub bins: Bins,
}

/// All flows together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// From the first point to the second, and back.
    pub ways: [WayTotals; 2],
    /// Packets of which it cannot be told which of several alike they are, at each point.
    pub ambiguous: [u64; 2],
    /// Packets of which nothing can be said because the other point did not watch.
    pub unwatched: [u64; 2],
    /// Packets of which nothing can be said, at the end of the other's watch.
    pub recent: [u64; 2],
    /// Packets of which nothing can be said, for want of memory.
    pub dropped: [u64; 2],
    /// Packets of which nothing can be said, because segmentation offload cuts them up, or joins
    /// them.
    pub resized: [u64; 2],
    /// Packets that only this point saw, though they should have passed the other before.
    pub unseen: [u64; 2],
    /// Packets that only this point saw, in flows that were never seen at both.
    pub one_sided: [u64; 2],
    /// Round trips from each point.
    pub rtts: [BTreeMap<Kind, Rtt>; 2],
    /// Packets and bytes over time at each point.
    pub bins: [Option<Bins>; 2],
    /// Lost by sequence numbers, at each point.
    pub lost_by_number: [u64; 2],
}

impl Default for WayTotals {
    fn default() -> WayTotals {
        WayTotals {
            flows: 0,
            delays: Distribution::default(),
            bounds: Bounds::default(),
            negative: 0,
            most_negative: 0,
            ipdv: Distribution::default(),
            arrived: 0,
            lost: 0,
            reordered: 0,
            duplicates: 0,
            bins: Bins::new(1),
        }
    }
}

fn add(to: &mut [u64; 2], from: &[u64; 2]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

impl Totals {
    /// Adds a flow.
    pub fn add(&mut self, flow: &Flow) {
        if let Some(path) = &flow.path {
            add(&mut self.ambiguous, &path.ambiguous);
            add(&mut self.dropped, &path.dropped);
            add(&mut self.resized, &path.resized);
            add(&mut self.unseen, &path.unseen);
            add(&mut self.one_sided, &path.one_sided());
            let edges = [&path.unwatched, &path.recent];
            if path.way.is_none() {
                edges.into_iter().for_each(|edge| add(&mut self.one_sided, edge));
            }
            if let Some((way, _)) = path.way {
                add(&mut self.unwatched, &path.unwatched);
                add(&mut self.recent, &path.recent);
                let [forward, backward] = &mut self.ways;
                let way = if way == Way::Forward { forward } else { backward };
                way.flows += 1;
                way.delays.merge(&path.delays);
                way.bounds.merge(&path.bounds);
                way.negative += path.negative;
                way.most_negative = way.most_negative.min(path.most_negative);
                way.ipdv.merge(&path.ipdv);
                way.arrived += path.losses.arrived;
                way.lost += path.losses.lost;
                way.reordered += path.reordering.reordered;
                way.duplicates += path.duplicates;
                way.bins.merge(&path.bins);
            }
        }
        for (point, seen) in flow.seen.iter().enumerate() {
            let Some(seen) = seen else { continue };
            if let Some(bins) = self.bins.get_mut(point) {
                bins.get_or_insert_with(|| Bins::new(seen.bins.width_ns())).merge(&seen.bins);
            }
            if let (Some(lost), Some(sequence)) =
                (self.lost_by_number.get_mut(point), seen.sequence())
            {
                *lost += sequence.lost();
            }
            let Some(rtts) = self.rtts.get_mut(point) else { continue };
            for (kind, rtt) in &seen.rtts {
                let all = rtts.entry(*kind).or_insert_with(|| Rtt::new(seen.bins.width_ns()));
                all.times.merge(&rtt.times);
                all.bounds.merge(&rtt.bounds);
                all.by_counter += rtt.by_counter;
                all.bins.merge(&rtt.bins);
            }
        }
    }
}
