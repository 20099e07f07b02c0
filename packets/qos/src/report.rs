//! Report of the outcome, in plain numbers.

mod parts;

pub use parts::{LossReport, NumbersReport, Quantile, ReorderReport, RtpReport, Spread};

use std::collections::BTreeMap;

use serde::Serialize;

use crate::flow::{Flow, Seen};
use crate::path::{Evidence, Path, Way};
use crate::rtp::Stream;
use crate::rtt::{Kind, Rtt};
use crate::totals::{Totals, WayTotals};
use crate::voice::{Codec, IN_TIME, VoiceReport};
use crate::{Engine, GivenUp, Group, GroupKey};

/// Round trips of one kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RttReport {
    /// Kind of packet that was answered.
    pub kind: crate::Kind,
    /// ns.
    pub time: Spread,
    /// The greatest bound of one, ns; `None` if one had none.
    pub bound_max_ns: Option<u64>,
    /// Measured by the counter, whose error over so short a span is small.
    pub by_counter: u64,
}

/// Figures of a flow at one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeenReport {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// From the first packet to the last, ns.
    pub lasted_ns: i64,
    /// Packets a second from the first to the last.
    pub packets_per_s: Option<f64>,
    /// Bits a second: so many packets of the mean length.
    pub bits_per_s: Option<f64>,
    /// Largest number of bits a second in one bin, on an Ethernet: with preamble, checksum and gap.
    pub peak_wire_bits_per_s: Option<f64>,
    /// Between packets.
    pub gap: Spread,
    /// Sequence numbers, if it has any.
    pub numbers: Option<NumbersReport>,
    /// RTP, if it is.
    pub rtp: Option<RtpReport>,
    /// Round trips.
    pub rtt: Vec<RttReport>,
    /// TCP segments sent again.
    pub retransmitted: u64,
}

impl SeenReport {
    fn of(seen: &Seen) -> SeenReport {
        let lasted_ns = seen.last_ns.saturating_sub(seen.first_ns);
        let seconds = lasted_ns as f64 / 1e9;
        // The first packet only begins the time.
        let over = |n: u64| (lasted_ns > 0).then(|| n as f64 / seconds);
        let rtp = seen.rtp.as_ref();
        let peak = seen.bins.iter().map(|(_, bin)| bin.wire_bytes).max();
        SeenReport {
            packets: seen.packets,
            bytes: seen.bytes,
            lasted_ns,
            packets_per_s: over(seen.packets.saturating_sub(1)),
            bits_per_s: over(seen.packets.saturating_sub(1))
                .map(|packets| packets * 8.0 * seen.bytes as f64 / seen.packets as f64),
            peak_wire_bits_per_s: peak
                .map(|bytes| bytes as f64 * 8.0 / (seen.bins.width_ns() as f64 / 1e9)),
            gap: Spread::of(&seen.gaps),
            numbers: seen.sequence().map(NumbersReport::of),
            rtp: rtp.map(|stream| RtpReport {
                ssrc: stream.ssrc,
                payload_type: stream.payload_type,
                mixed_types: stream.mixed,
                clock_hz: stream.clock_hz,
                jitter_ns: stream.jitter.last(),
                jitter_mean_ns: stream.jitter.mean(),
                jitter_max_ns: stream.jitter.max(),
                pdv: Spread::of(&stream.variation()),
            }),
            rtt: rtts(&seen.rtts),
            retransmitted: seen.retransmitted,
        }
    }
}

/// Figures of a flow between the points.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathReport {
    /// Which way the flow goes; `None`: no packet was seen at both points.
    pub way: Option<Way>,
    /// By what that was told.
    pub evidence: Option<Evidence>,
    /// One-way delay (RFC 7679).
    pub delay: Spread,
    /// Quantiles of the delay, at 95 % confidence if packets are independent of each other.
    pub quantiles: Vec<Quantile>,
    /// The least bound of one, ns.
    pub bound_min_ns: Option<u64>,
    /// The mean bound.
    pub bound_mean_ns: Option<f64>,
    /// The greatest bound; `None` if one had none.
    pub bound_max_ns: Option<u64>,
    /// Delays without a bound: a clock was not synchronised.
    pub unbounded: u64,
    /// Delays below zero by more than their bound.
    pub negative: u64,
    /// Delay less the least (PDV, RFC 5481 section 4.2).
    pub pdv: Spread,
    /// Between the delays of neighbours (IPDV, RFC 5481 section 4.1).
    pub ipdv: Spread,
    /// Jitter (RFC 3550) by the true times of sending, after the last packet, ns.
    pub jitter_ns: Option<f64>,
    /// Mean jitter over all packets, ns.
    pub jitter_mean_ns: Option<f64>,
    /// Greatest jitter, ns.
    pub jitter_max_ns: Option<f64>,
    /// Losses (RFC 7680).
    pub loss: LossReport,
    /// Copies that arrived beyond those sent (RFC 5560).
    pub duplicates: u64,
    /// Reordering.
    pub reordering: ReorderReport,
    /// Voice, of an RTP stream of one payload type, which says the codec, whose delays all have a bound.
    pub voice: Option<VoiceReport>,
    /// Packets that cannot be told from others, at each point: in no metric.
    pub ambiguous: [u64; 2],
    /// Packets that only this point saw, before the other watched.
    pub unwatched: [u64; 2],
    /// Packets that only this point saw, too shortly before the end of the other's watch to be
    /// called lost.
    pub recent: [u64; 2],
    /// Packets that only this point saw, forgotten for want of memory.
    pub dropped: [u64; 2],
    /// Packets that only this point saw, because segmentation offload cuts them up, or joins them.
    pub resized: [u64; 2],
    /// Packets that only the point saw at which they arrive.
    pub unseen: [u64; 2],
    /// Packets that only this point saw, of a flow never seen at both.
    pub one_sided: [u64; 2],
    /// Packets of which it is open still what becomes of them.
    pub waiting: [u64; 2],
}

impl PathReport {
    fn of(path: &Path, stream: Option<&Stream>) -> PathReport {
        let delay = Spread::of(&path.delays);
        PathReport {
            way: path.way.map(|(way, _)| way),
            evidence: path.way.map(|(_, evidence)| evidence),
            pdv: delay.clone().less(delay.min_ns.unwrap_or(0)),
            delay,
            quantiles: Quantile::of(&path.delays),
            bound_min_ns: (path.bounds.bounded > 0).then_some(path.bounds.least),
            bound_mean_ns: path.bounds.mean(),
            bound_max_ns: path.bounds.greatest(),
            unbounded: path.bounds.unbounded,
            negative: path.negative,
            ipdv: Spread::of(&path.ipdv),
            jitter_ns: path.jitter.last(),
            jitter_mean_ns: path.jitter.mean(),
            jitter_max_ns: path.jitter.max(),
            loss: LossReport::of(&path.losses),
            duplicates: path.duplicates,
            reordering: ReorderReport::of(&path.reordering, path.density.densities()),
            voice: stream.and_then(|stream| voice(path, stream)),
            ambiguous: path.ambiguous,
            unwatched: path.unwatched,
            recent: path.recent,
            dropped: path.dropped,
            resized: path.resized,
            unseen: path.unseen,
            one_sided: path.one_sided(),
            waiting: path.waiting(),
        }
    }
}

fn voice(path: &Path, stream: &Stream) -> Option<VoiceReport> {
    let codec = Codec::of_payload_type(stream.payload_type).filter(|_| !stream.mixed)?;
    // By clocks that promise nothing a delay may be anything.
    path.bounds.greatest()?;
    let (network_ns, lost) = (path.delays.quantile(IN_TIME)?, path.losses.ratio()?);
    Some(VoiceReport::of(codec, network_ns, lost, path.losses.runs().mean()))
}

/// A flow.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowReport {
    /// Number, in the order of first packets.
    pub number: u64,
    /// The whole of it: `udp 192.0.2.1:5004 > 192.0.2.2:5004`.
    pub name: String,
    /// The protocol.
    pub protocol: String,
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Which of the patterns its packets match, from 0.
    pub pattern: Option<usize>,
    /// Figures at each point.
    pub seen: Vec<Option<SeenReport>>,
    /// Figures between the points, if there are two.
    pub path: Option<PathReport>,
    /// Packets at all points: what flows are ordered by.
    pub packets: u64,
    /// The name of the group that it is in, if it has few packets and is not the only one.
    pub group: Option<String>,
}

/// Flows of fewer than three packets each that differ in nothing but the port of one end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupReport {
    /// The whole of it: `udp 192.0.2.1:* > 192.0.2.2:123`.
    pub name: String,
    /// The protocol.
    pub protocol: String,
    /// Number of flows.
    pub flows: u64,
    /// Packets at each point.
    pub seen_packets: Vec<u64>,
    /// Bytes at each point.
    pub seen_bytes: Vec<u64>,
    /// Packets at all points.
    pub packets: u64,
    /// TCP segments sent again, at all points.
    pub retransmitted: u64,
    /// Round trips, at each point.
    pub rtt: Vec<Vec<RttReport>>,
    /// Figures between the points, one way and the other; what has no flow is left out.
    pub ways: Vec<WayReport>,
}

impl GroupReport {
    /// That of a group at so many points.
    #[must_use]
    pub fn of(key: &GroupKey, group: &Group, points: usize) -> GroupReport {
        let at_points = |counts: &[u64; 2]| counts.iter().copied().take(points).collect();
        GroupReport {
            name: key.to_string(),
            protocol: key.protocol_name(),
            flows: group.flows,
            seen_packets: at_points(&group.packets),
            seen_bytes: at_points(&group.bytes),
            packets: group.packets.iter().sum(),
            retransmitted: group.retransmitted,
            rtt: group.totals.rtts.iter().take(points).map(rtts).collect(),
            ways: ways(&group.totals),
        }
    }
}

fn rtts(of: &BTreeMap<Kind, Rtt>) -> Vec<RttReport> {
    let report = |(kind, rtt): (&Kind, &Rtt)| RttReport {
        kind: *kind,
        time: Spread::of(&rtt.times),
        bound_max_ns: rtt.bounds.greatest(),
        by_counter: rtt.by_counter,
    };
    of.iter().map(report).collect()
}

fn ways(totals: &Totals) -> Vec<WayReport> {
    [Way::Forward, Way::Backward]
        .into_iter()
        .zip(&totals.ways)
        .filter(|(_, totals)| totals.flows > 0)
        .map(|(way, totals)| WayReport::of(way, totals))
        .collect()
}

impl FlowReport {
    /// That of a flow at so many points.
    #[must_use]
    pub fn of(flow: &Flow, points: usize) -> FlowReport {
        let stream = flow.seen.iter().flatten().find_map(|seen| seen.rtp.as_ref());
        FlowReport {
            number: flow.number,
            name: flow.key.to_string(),
            protocol: match flow.rtp {
                Some(_) => "rtp".into(),
                None => flow.key.protocol_name(),
            },
            from: flow.key.from(),
            to: flow.key.to(),
            pattern: flow.pattern,
            seen: flow
                .seen
                .iter()
                .take(points)
                .map(|seen| seen.as_deref().map(SeenReport::of))
                .collect(),
            path: flow.path.as_deref().map(|path| PathReport::of(path, stream)),
            packets: flow.packets(),
            group: None,
        }
    }
}

/// Figures of one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PointReport {
    /// Name of the point.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets in no flow because they are not IP, or cut off in its header.
    pub not_ip: u64,
    /// Packets of which not all was captured.
    pub cut: u64,
    /// Packets whose time has no bound.
    pub unbounded: u64,
    /// The greatest bound of a time, ns.
    pub worst_bound_ns: Option<u64>,
    /// Unix ns of the first packet.
    pub first_ns: Option<i64>,
    /// Of the last.
    pub last_ns: Option<i64>,
}

/// Severity of a note.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Some of the numbers say less than they seem to.
    Warning,
    /// Some of the numbers cannot be right.
    Problem,
}

/// Something to know about the numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Note {
    /// Severity.
    pub severity: Severity,
    /// In words.
    pub text: String,
}

/// All packets that went one way between the points.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WayReport {
    /// Which way.
    pub way: Way,
    /// Flows.
    pub flows: u64,
    /// One-way delay.
    pub delay: Spread,
    /// The greatest bound of one; `None` if one had none.
    pub bound_max_ns: Option<u64>,
    /// Delays without a bound.
    pub unbounded: u64,
    /// Delays below zero by more than their bound.
    pub negative: u64,
    /// The most negative of them, ns.
    pub most_negative_ns: Option<i64>,
    /// Between the delays of neighbours.
    pub ipdv: Spread,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets overtaken.
    pub reordered: u64,
    /// Copies too many.
    pub duplicates: u64,
}

impl WayReport {
    fn of(way: Way, totals: &WayTotals) -> WayReport {
        WayReport {
            way,
            flows: totals.flows,
            delay: Spread::of(&totals.delays),
            bound_max_ns: totals.bounds.greatest(),
            unbounded: totals.bounds.unbounded,
            negative: totals.negative,
            most_negative_ns: (totals.negative > 0).then_some(totals.most_negative),
            ipdv: Spread::of(&totals.ipdv),
            arrived: totals.arrived,
            lost: totals.lost,
            reordered: totals.reordered,
            duplicates: totals.duplicates,
        }
    }
}

/// All of it. Spans are in ns, positive: later.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The version of this form.
    pub version: u32,
    /// Figures of each point.
    pub points: Vec<PointReport>,
    /// All flows between two points, one way and the other; what has no flow is left out.
    pub ways: Vec<WayReport>,
    /// Number of flows that there were.
    pub flows_seen: u64,
    /// The flows, those with the most packets first.
    pub flows: Vec<FlowReport>,
    /// Flows of few packets that have all but a port in common, those with the most packets first.
    pub groups: Vec<GroupReport>,
    /// Counts of what had to be given up for want of memory.
    pub given_up: GivenUp,
    /// Longest wait for a packet, ns.
    pub timeout_ns: i64,
    /// Notes on the numbers, the most serious first.
    pub notes: Vec<Note>,
    /// Delays between layers, if there were stamps.
    pub layers: Option<crate::LayersReport>,
}

impl Report {
    /// That of an engine whose points are called so.
    #[must_use]
    pub fn of(engine: &Engine, names: &[String]) -> Report {
        let (totals, groups) = (engine.totals(), engine.groups());
        let points: Vec<PointReport> = engine
            .points()
            .iter()
            .enumerate()
            .map(|(n, point)| PointReport {
                name: names.get(n).cloned().unwrap_or_else(|| format!("point {}", n + 1)),
                packets: point.packets,
                bytes: point.bytes,
                not_ip: point.not_ip,
                cut: point.cut,
                unbounded: point.unbounded,
                worst_bound_ns: point.worst_bound,
                first_ns: point.span.map(|(first, _)| first),
                last_ns: point.span.map(|(_, last)| last),
            })
            .collect();
        let mut flows: Vec<FlowReport> = engine
            .flows()
            .map(|flow| {
                let group = groups.of(flow).map(|(key, _)| key.to_string());
                FlowReport { group, ..FlowReport::of(flow, points.len()) }
            })
            .collect();
        flows.sort_by_key(|flow| (std::cmp::Reverse(flow.packets), flow.number));
        let mut grouped: Vec<GroupReport> =
            groups.iter().map(|(key, group)| GroupReport::of(key, group, points.len())).collect();
        grouped.sort_by_key(|group| std::cmp::Reverse(group.packets));
        let mut report = Report {
            version: 1,
            points,
            ways: ways(&totals),
            flows_seen: engine.flows_made(),
            flows,
            groups: grouped,
            given_up: engine.given_up(),
            timeout_ns: engine.options().timeout_ns,
            notes: Vec::new(),
            layers: None,
        };
        report.notes = crate::notes::notes(&report, engine, &totals);
        report
    }
}
