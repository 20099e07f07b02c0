//! Differences between the stamps of one frame, and what they come to.

use serde::Serialize;
use truechimer_capture::check::{Arrived, Measured, Sent};
use truechimer_report::{median, quantile, sorted};

/// Share of claimed stamps that must come, in per cent: some frames may be under way in the end.
const ENOUGH: usize = 99;
/// Least frames that a rate is told from.
const FEW: usize = 20;

/// Stamps of one kind.
#[derive(Clone, Serialize, PartialEq, Eq, Debug)]
pub struct Tally {
    pub stamp: &'static str,
    /// By the driver.
    pub claimed: bool,
    pub came: usize,
    pub of: usize,
}

/// Two stamps of each frame.
#[derive(Clone, Serialize, PartialEq, Debug)]
pub struct Comparison {
    pub from: &'static str,
    pub to: &'static str,
    pub frames: usize,
    /// Median of `to` − `from`.
    pub offset_ns: i64,
    /// From the 1st to the 99th percentile.
    pub jitter_ns: u64,
    pub least_ns: i64,
    pub most_ns: i64,
    /// By how much `to` gains on `from`.
    pub rate_ppm: Option<f64>,
    /// 95 % of its statistical error.
    pub rate_error_ppm: Option<f64>,
    /// Frames whose `to` was before `from`, by one and the same clock.
    pub backwards: Option<usize>,
}

/// Verdict on one thing.
#[derive(Clone, Serialize, PartialEq, Eq, Debug)]
pub struct Finding {
    pub good: bool,
    pub text: String,
}

/// A pair of stamps: names, whether both are the system clock's, and the two of each frame.
type Pair = (&'static str, &'static str, bool, Vec<(i64, i64)>);

fn pair<T>(
    frames: &[T],
    (from, to, same): (&'static str, &'static str, bool),
    of: impl Fn(&T) -> (Option<i64>, Option<i64>),
) -> Pair {
    let both = frames.iter().filter_map(|frame| {
        let (from, to) = of(frame);
        from.zip(to)
    });
    (from, to, same, both.collect())
}

fn pairs(measured: &Measured) -> Vec<Pair> {
    let Measured { sent, arrived, .. } = measured;
    let all: [Pair; 6] = [
        pair(sent, ("program", "queue", true), |s: &Sent| (Some(s.before), s.queue)),
        pair(sent, ("queue", "driver", true), |s| (s.queue, s.driver)),
        pair(sent, ("program", "driver", true), |s| (Some(s.before), s.driver)),
        pair(sent, ("driver", "card, sent", false), |s| (s.driver, s.card)),
        pair(arrived, ("kernel", "program", true), |a: &Arrived| (a.kernel, Some(a.program))),
        pair(arrived, ("kernel", "card, received", false), |a| (a.kernel, a.card)),
    ];
    all.into_iter().filter(|(.., both)| !both.is_empty()).collect()
}

/// All pairs of stamps that some frames have, in the order of [`points`].
pub fn comparisons(measured: &Measured) -> Vec<Comparison> {
    pairs(measured)
        .into_iter()
        .map(|(from, to, same, both)| compare(from, to, same, &both))
        .collect()
}

/// System clock's time of the first frame, Unix ns, and for each the seconds since then and `to` − `from`
/// in ns, for each comparison.
pub fn points(measured: &Measured) -> Vec<(i64, Vec<(f64, i64)>)> {
    let of = |(.., both): Pair| (both.first().map_or(0, |(from, _)| *from), since_first(&both));
    pairs(measured).into_iter().map(of).collect()
}

fn since_first(both: &[(i64, i64)]) -> Vec<(f64, i64)> {
    let first = both.first().map_or(0, |(from, _)| *from);
    let point = |(from, to): &(i64, i64)| {
        (from.saturating_sub(first) as f64 / 1e9, to.saturating_sub(*from))
    };
    both.iter().map(point).collect()
}

fn compare(from: &'static str, to: &'static str, same: bool, both: &[(i64, i64)]) -> Comparison {
    let points = since_first(both);
    let mut all: Vec<i64> = points.iter().map(|(_, ns)| *ns).collect();
    all.sort_unstable();
    let at = |percent: usize| {
        all.get((all.len().saturating_sub(1) * percent + 50) / 100).copied().unwrap_or(0)
    };
    let rate = rate_ppm(&points);
    Comparison {
        from,
        to,
        frames: all.len(),
        offset_ns: at(50),
        jitter_ns: at(99).abs_diff(at(1)),
        least_ns: at(0),
        most_ns: at(100),
        rate_ppm: rate.map(|(rate, _)| rate),
        rate_error_ppm: rate.map(|(_, error)| error),
        backwards: same.then(|| all.partition_point(|ns| *ns < 0)),
    }
}

/// Slope of the differences, ppm, and 95 % of its error: the median of the slopes from each frame of
/// the first half to its like in the second, which outliers leave alone.
fn rate_ppm(points: &[(f64, i64)]) -> Option<(f64, f64)> {
    if points.len() < FEW {
        return None;
    }
    let (first, second) = points.split_at(points.len() / 2);
    // Of differences of 37 s and more only the change goes into a float.
    let slope = |((a, from), (b, to)): (&(f64, i64), &(f64, i64))| {
        let apart = b - a;
        (apart > 0.0).then(|| to.saturating_sub(*from) as f64 / 1e9 / apart * 1e6)
    };
    let slopes: Vec<f64> = first.iter().zip(second).filter_map(slope).collect();
    if slopes.len() < FEW / 2 {
        return None;
    }
    let rate = median(&slopes);
    let apart = sorted(slopes.iter().map(|slope| (slope - rate).abs()));
    // A normal distribution's deviation by its quartiles, and the median's of so many.
    let deviation = quantile(&apart, 0.5) * 1.4826;
    let error = 1.96 * 1.2533 * deviation / (slopes.len() as f64).sqrt();
    Some((rate, error))
}

/// Which stamps came.
pub fn tallies(measured: &Measured) -> Vec<Tally> {
    let (claims, sent, arrived) = (&measured.claims, &measured.sent, &measured.arrived);
    let out = |of: fn(&Sent) -> bool| sent.iter().filter(|s| of(s)).count();
    let income = |of: fn(&Arrived) -> bool| arrived.iter().filter(|a| of(a)).count();
    let tally = |stamp, claimed, came, of| Tally { stamp, claimed, came, of };
    vec![
        // Every interface has it.
        tally("queue, sent", true, out(|s| s.queue.is_some()), sent.len()),
        tally("driver, sent", claims.driver, out(|s| s.driver.is_some()), sent.len()),
        tally("card, sent", claims.card_out, out(|s| s.card.is_some()), sent.len()),
        tally("kernel, received", claims.kernel, income(|a| a.kernel.is_some()), arrived.len()),
        tally("card, received", claims.card_in, income(|a| a.card.is_some()), arrived.len()),
    ]
}

/// Verdict: which stamps can be had, whether they are in order, and what to capture with.
pub fn findings(measured: &Measured, stamps: &[Tally], all: &[Comparison]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |good, text: String| findings.push(Finding { good, text });
    if measured.sent.is_empty() && measured.arrived.is_empty() {
        find(false, "no frame was seen: nothing can be said".into());
        return findings;
    }
    for Tally { stamp, claimed, came, of } in stamps.iter().filter(|tally| tally.of > 0) {
        let is_enough = came * 100 >= of * ENOUGH;
        // What is sent is stamped by cards that were told to alone; of PTP alone there may be none.
        let is_optional = *stamp == "card, sent" || !measured.claims.card_in_all;
        match (claimed, is_enough) {
            (true, false) if stamp.starts_with("card") && is_optional => {
                find(true, format!("{stamp}: claimed, and not switched on for these frames"));
            }
            (true, false) => find(false, format!("{stamp}: claimed, but {came} of {of} came")),
            (false, true) => find(true, format!("{stamp}: not claimed, but all came")),
            _ => {}
        }
    }
    for comparison in all {
        let Comparison { from, to, backwards, least_ns, .. } = comparison;
        if let Some(many @ 1..) = *backwards {
            find(
                false,
                format!(
                    "{to} before {from} in {many} frames, by up to {} ns: one of the two is no stamp \
                     of what it says, or the system clock was stepped",
                    least_ns.unsigned_abs()
                ),
            );
        }
        if let Some(text) = card(comparison) {
            find(true, text);
        }
    }
    find(true, advice(measured, stamps, all));
    findings
}

/// Scale of a card's clock, as it shows.
fn card(comparison: &Comparison) -> Option<String> {
    if !comparison.to.starts_with("card") {
        return None;
    }
    const SECOND: i64 = 1_000_000_000;
    let seconds = (comparison.offset_ns + SECOND / 2).div_euclid(SECOND);
    let off = comparison.offset_ns.abs_diff(seconds * SECOND);
    let scale = match (seconds, off < SECOND.unsigned_abs() / 10) {
        (0, true) => "is on the system clock's scale, to 0.1 s".to_owned(),
        // Since 2017-01-01 (IERS Bulletin C 52).
        (37, true) => "is 37 s ahead of the system clock, as TAI is of UTC".to_owned(),
        _ => format!("is {:.3} s from the system clock", comparison.offset_ns as f64 / 1e9),
    };
    Some(format!("{}: the card's clock {scale}", comparison.to))
}

/// Method to capture with.
fn advice(measured: &Measured, stamps: &[Tally], all: &[Comparison]) -> String {
    let of_card = stamps.iter().find(|tally| tally.stamp == "card, received" && tally.of > 0);
    let by_card = of_card.is_some_and(|tally| tally.came * 100 >= tally.of * ENOUGH);
    let late = all.iter().find(|c| (c.from, c.to) == ("kernel", "program"));
    let late = late.map_or_else(String::new, |c| {
        format!(
            "; a program that stamps by itself is {} late, with a jitter of {}",
            truechimer_command::show::nanos(c.offset_ns.unsigned_abs()),
            truechimer_command::show::nanos(c.jitter_ns)
        )
    });
    match (by_card, measured.claims.card_in) {
        (true, _) => format!("capture with --method hw: the card stamps what arrives{late}"),
        (false, true) => {
            format!("capture with --method packet: the card did not stamp all that arrived{late}")
        }
        (false, false) => {
            format!("capture with --method packet: the card has no stamps of what arrives{late}")
        }
    }
}
