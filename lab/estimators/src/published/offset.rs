//! θ̂: the error of the uncorrected clock (ToN §6).

use truechimer_time::Count;

use super::clock::Uncorrected;
use super::constants::{
    Class, OFFSET_QUALITY, OFFSET_SANITY_DELTAS, OFFSET_SANITY_GAMMAS, STAMP_LATENCY,
};
use super::history::History;

/// The offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset {
    /// θ̂, s: the uncorrected clock − UTC.
    pub(super) theta: f64,
    /// The last accepted update.
    pub(super) accepted: Option<Quality>,
    /// After a change of the poll period: the stamp it came with and the window before.
    resized: Option<(u64, u64)>,
}

/// Quality of an accepted update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality {
    /// The stamp's arrival.
    pub(super) at: Count,
    /// minE: the smallest error in the window, s.
    pub(super) least: f64,
    /// E2: the second smallest, s. The smallest, where there is only one.
    pub(super) second: f64,
}

/// Outcome of a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// θ̂ is new.
    Accepted,
    /// No stamp of the window is good enough: θ̂ stays (OFFSET_QUALITY).
    Poor,
    /// Step of more than is sane: θ̂ stays (OFFSET_SANITY).
    Insane,
}

/// Parts of the layers before it that the offset needs.
pub(super) struct Below<'a> {
    pub(super) history: &'a History,
    pub(super) clock: &'a Uncorrected,
    pub(super) class: &'a Class,
    /// R̂, counts.
    pub(super) baseline: i64,
    /// ρ of p_l, if it is known apart from p̂.
    pub(super) local: Option<f64>,
    pub(super) warming_up: bool,
    pub(super) far_server: bool,
}

/// The sums over a window.
#[derive(Clone, Copy, Debug)]
struct Window {
    weight: f64,
    weighted: f64,
    least: f64,
    second: f64,
    gap: f64,
}

impl Offset {
    pub(super) fn new() -> Offset {
        Offset { theta: 0.0, accepted: None, resized: None }
    }

    /// The window is another one from stamp `index` on; it was `before`.
    pub(super) fn resize(&mut self, index: u64, before: u64) {
        self.resized = Some((index, before));
    }

    /// The window's width in stamps: after a change of the poll period it passes from the old
    /// width to the new one while the new stamps come in.
    pub(super) fn width(&mut self, index: u64, full: u64) -> u64 {
        let Some((since, before)) = self.resized else { return full };
        let new = index.saturating_sub(since);
        if new >= full {
            self.resized = None;
            return full;
        }
        (before * (full - new) + full * new) / full
    }

    pub(super) fn update(&mut self, below: &Below<'_>, width: u64) -> Outcome {
        let Some(at) = below.history.last().map(|r| r.tf) else { return Outcome::Poor };
        let window = sums(below, at, width);
        let (near, far) = OFFSET_QUALITY;
        let quality = if below.far_server { far } else { near } * below.class.offset_width();
        if window.least >= quality || window.weight <= 0.0 {
            return Outcome::Poor;
        }
        let theta = window.weighted / window.weight;
        let since = self.accepted.map_or(0.0, |a| below.clock.seconds((at - a.at).0));
        let limit = OFFSET_SANITY_DELTAS * STAMP_LATENCY
            + OFFSET_SANITY_GAMMAS * below.class.rate_bound * window.gap.max(since);
        if !below.warming_up && (theta - self.theta).abs() > limit {
            return Outcome::Insane;
        }
        self.theta = theta;
        self.accepted = Some(Quality { at, least: window.least, second: window.second });
        Outcome::Accepted
    }
}

fn sums(below: &Below<'_>, at: Count, width: u64) -> Window {
    let clock = below.clock;
    let end = below.history.last().map_or(0, |r| r.index + 1);
    let mut w = Window {
        weight: 0.0,
        weighted: 0.0,
        least: f64::INFINITY,
        second: f64::INFINITY,
        gap: 0.0,
    };
    let mut previous: Option<Count> = None;
    // The first stamp of all set K: its own offset says nothing and is never used.
    for r in below.history.range(end.saturating_sub(width).max(1), end) {
        let baseline = if below.warming_up { below.baseline } else { r.baseline };
        let age = (at - r.tf).0;
        let error = clock.seconds(r.rtt - baseline) + below.class.ageing * clock.seconds(age);
        let relative = error / below.class.offset_width();
        let weight = libm::exp(-relative * relative);
        let moved = below.local.map_or(0.0, |local| {
            (local - clock.ratio) * clock.reference.nominal_seconds(at - r.tf)
        });
        w.weight += weight;
        w.weighted += weight * (r.theta - moved);
        if error < w.least {
            (w.least, w.second) = (error, w.least);
        } else if error < w.second {
            w.second = error;
        }
        if let Some(previous) = previous {
            w.gap = w.gap.max(clock.seconds((r.tf - previous).0));
        }
        previous = Some(r.tf);
    }
    if w.second == f64::INFINITY {
        w.second = w.least;
    }
    w
}
