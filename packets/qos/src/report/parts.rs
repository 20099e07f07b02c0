//! Parts of reports.

use serde::Serialize;

use crate::density::Densities;
use crate::{Distribution, Losses, Reordering, Sequence};

/// A distribution in a few numbers, ns (or packets, where that is said).
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    /// Values.
    pub n: u64,
    /// The least.
    pub min_ns: Option<i64>,
    /// Half of the values are not above it.
    pub median_ns: Option<i64>,
    /// The 95th percentile.
    pub p95_ns: Option<i64>,
    /// The 99th.
    pub p99_ns: Option<i64>,
    /// The 99.9th.
    pub p999_ns: Option<i64>,
    /// The greatest.
    pub max_ns: Option<i64>,
    /// The mean.
    pub mean_ns: Option<f64>,
    /// The standard deviation.
    pub deviation_ns: Option<f64>,
    /// Percentiles are right to ± half of it; 1: exact.
    pub resolution_ns: u64,
}

impl Spread {
    /// That of a distribution.
    #[must_use]
    pub fn of(values: &Distribution) -> Spread {
        Spread {
            n: values.len(),
            min_ns: values.min(),
            median_ns: values.quantile(0.5),
            p95_ns: values.quantile(0.95),
            p99_ns: values.quantile(0.99),
            p999_ns: values.quantile(0.999),
            max_ns: values.max(),
            mean_ns: values.mean(),
            deviation_ns: values.deviation(),
            resolution_ns: values.resolution(),
        }
    }

    /// Every value less `by`.
    #[must_use]
    pub fn less(mut self, by: i64) -> Spread {
        for value in [
            &mut self.min_ns,
            &mut self.median_ns,
            &mut self.p95_ns,
            &mut self.p99_ns,
            &mut self.p999_ns,
            &mut self.max_ns,
        ] {
            *value = value.map(|value| value.saturating_sub(by));
        }
        self.mean_ns = self.mean_ns.map(|mean| mean - by as f64);
        self
    }
}

/// Quantiles that are given with an interval.
const QUANTILES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];
/// Confidence of those intervals.
const CONFIDENCE: f64 = 0.95;

/// A quantile, and between which values it is for the path, as far as so few packets say.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Quantile {
    /// Share of the values below it, 0 to 1.
    pub q: f64,
    /// That of the packets, ns.
    pub ns: i64,
    /// From where, ns; `None`: there are too few packets to say.
    pub low_ns: Option<i64>,
    /// To where.
    pub high_ns: Option<i64>,
}

impl Quantile {
    /// Quantiles of a distribution, at 95 % confidence if its values are independent of each other.
    #[must_use]
    pub fn of(values: &Distribution) -> Vec<Quantile> {
        let of = |q| {
            let interval = values.quantile_interval(q, CONFIDENCE);
            let [low_ns, high_ns] = [0, 1].map(|end| interval.and_then(|i| i.get(end).copied()));
            values.quantile(q).map(|ns| Quantile { q, ns, low_ns, high_ns })
        };
        QUANTILES.into_iter().filter_map(of).collect()
    }
}

/// Losses and their runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LossReport {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets lost.
    pub lost: u64,
    /// Lost ÷ sent.
    pub ratio: Option<f64>,
    /// Runs of losses (loss periods, RFC 3357).
    pub runs: u64,
    /// The longest, in packets.
    pub longest_run: Option<i64>,
    /// Their mean length, in packets.
    pub mean_run: Option<f64>,
    /// Median distance from one loss to the next, in packets (RFC 3357).
    pub median_distance: Option<i64>,
    /// Losses at most 99 packets after the one before.
    pub noticeable: u64,
}

impl LossReport {
    /// That of these losses.
    #[must_use]
    pub fn of(losses: &Losses) -> LossReport {
        let runs = losses.runs();
        LossReport {
            arrived: losses.arrived,
            lost: losses.lost,
            ratio: losses.ratio(),
            runs: runs.len(),
            longest_run: runs.max(),
            mean_run: runs.mean(),
            median_distance: losses.distances().quantile(0.5),
            noticeable: losses.noticeable,
        }
    }
}

/// Reordering.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReorderReport {
    /// Packets overtaken (RFC 4737).
    pub reordered: u64,
    /// Reordered ÷ arrived.
    pub ratio: Option<f64>,
    /// The greatest extent, in packets.
    pub max_extent: Option<i64>,
    /// The mean extent, in packets.
    pub mean_extent: Option<f64>,
    /// Packets overtaken by more than can be told exactly.
    pub beyond: u64,
    /// Late-time offset.
    pub late: Spread,
    /// n, and how many packets are n-reordered; 3 is what matters to TCP.
    pub n_reordered: Vec<(u64, u64)>,
    /// The mean of the runs in order between reordered packets, in packets.
    pub mean_free_run: Option<f64>,
    /// RD and RBD (RFC 5236).
    pub density: Densities,
}

impl ReorderReport {
    /// That of this reordering.
    #[must_use]
    pub fn of(reordering: &Reordering, density: Densities) -> ReorderReport {
        let degrees = [1, 2, 3, 4, 8, 16, 32, 64].map(|n| (n, reordering.n_reordered(n)));
        ReorderReport {
            reordered: reordering.reordered,
            ratio: reordering.ratio(),
            max_extent: reordering.extents().max(),
            mean_extent: reordering.extents().mean(),
            beyond: reordering.beyond,
            late: Spread::of(reordering.late_times()),
            n_reordered: degrees.into_iter().filter(|(_, packets)| *packets > 0).collect(),
            mean_free_run: reordering.free_runs().mean(),
            density,
        }
    }
}

/// RTP at one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RtpReport {
    /// Synchronisation source.
    pub ssrc: u32,
    /// The payload type of the last packet.
    pub payload_type: u8,
    /// True if there was more than one.
    pub mixed_types: bool,
    /// Clock rate, Hz; without it there is no jitter.
    pub clock_hz: Option<u32>,
    /// Jitter (RFC 3550) after the last packet, ns.
    pub jitter_ns: Option<f64>,
    /// Mean jitter over all packets, ns.
    pub jitter_mean_ns: Option<f64>,
    /// Greatest jitter, ns.
    pub jitter_max_ns: Option<f64>,
    /// Delay less the least delay, by the sender's timestamps: PDV (RFC 5481 section 4.2), with
    /// what the sender's clock drifts in it.
    pub pdv: Spread,
}

/// Sequence numbers at one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NumbersReport {
    /// Numbers that did not come.
    pub loss: LossReport,
    /// Copies beyond the first.
    pub copies: u64,
    /// Packets of which copies came.
    pub replicated: u64,
    /// Packets that came after they had been counted as lost.
    pub late: u64,
    /// Packets with numbers far from all others.
    pub strays: u64,
    /// Number of times that the numbers began anew.
    pub restarts: u64,
    /// Reordering.
    pub reordering: ReorderReport,
}

impl NumbersReport {
    pub(super) fn of(sequence: &Sequence) -> NumbersReport {
        NumbersReport {
            loss: LossReport::of(&sequence.losses()),
            copies: sequence.copies,
            replicated: sequence.replicated,
            late: sequence.late,
            strays: sequence.strays,
            restarts: sequence.restarts,
            reordering: ReorderReport::of(sequence.reordering(), sequence.density().densities()),
        }
    }
}
