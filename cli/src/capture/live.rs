//! Progress of a capture, and its outcome.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use truechimer_capture::Facts;
use truechimer_capture::pipeline::{Live, Summary, Tally};
use truechimer_time::{CountSpan, Period};

use truechimer_command::show::nanos;

/// The method, for people.
pub fn described(facts: &Facts) -> String {
    let Facts { method, detail, stamped_by, ring_bytes, .. } = facts;
    let mib = *ring_bytes as f64 / f64::from(1 << 20);
    let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
    format!("{method}{detail}, stamped by {stamped_by}, ring of {mib:.1} MiB")
}

/// Packets that are written, or on their way to the disk.
fn packets(live: &Live) -> u64 {
    live.written.saturating_sub(live.unwritten)
}

/// Losses: by the interface, and of what was received.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
struct Lost {
    interface: u64,
    kernel: u64,
    ring: u64,
    writer: u64,
}

impl Lost {
    fn of(live: &Live) -> Lost {
        let Live { losses, dropped, unwritten, .. } = live;
        Lost {
            interface: losses.interface,
            kernel: losses.kernel,
            ring: losses.ring,
            writer: dropped + unwritten,
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost { interface, kernel, ring, writer } = self;
        write!(f, "lost {interface} interface, {kernel} kernel, {ring} ring, {writer} writer")
    }
}

/// Quality of the stamps.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
struct Worth {
    bounded: u64,
    unsynchronised: u64,
    uncounted: u64,
    bound_median_ns: Option<u64>,
    bound_max_ns: Option<u64>,
    stamp_error_median_ns: Option<u64>,
    stamp_error_max_ns: Option<u64>,
}

impl Worth {
    fn new(tally: &Tally, period: Period) -> Worth {
        let Tally { bounded, unsynchronised, uncounted, bounds, errors } = tally;
        let ns = |counts: u64| {
            let counts = CountSpan(i64::try_from(counts).unwrap_or(i64::MAX));
            period.span(counts).as_nanos().clamp(0, i128::from(u64::MAX)) as u64
        };
        Worth {
            bounded: *bounded,
            unsynchronised: *unsynchronised,
            uncounted: *uncounted,
            bound_median_ns: bounds.quantile(0.5),
            bound_max_ns: bounds.quantile(1.0),
            stamp_error_median_ns: errors.quantile(0.5).map(ns),
            stamp_error_max_ns: errors.quantile(1.0).map(ns),
        }
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.bounded + self.unsynchronised + self.uncounted;
        if all == 0 {
            return f.write_str("no stamps yet");
        }
        let percent = |part: u64| share(part, all);
        match (self.bound_median_ns, self.bound_max_ns) {
            (Some(median), Some(max)) => write!(
                f,
                "{} bounded, ± {} (at most {})",
                percent(self.bounded),
                nanos(median),
                nanos(max)
            )?,
            _ => f.write_str("none bounded")?,
        }
        if self.unsynchronised > 0 {
            write!(f, "; {} unsynchronised", percent(self.unsynchronised))?;
        }
        if self.uncounted > 0 {
            write!(f, "; {} without a count", percent(self.uncounted))?;
        }
        if let (Some(median), Some(max)) = (self.stamp_error_median_ns, self.stamp_error_max_ns) {
            write!(f, "; counts ± {} (at most {})", nanos(median), nanos(max))?;
        }
        Ok(())
    }
}

/// A share in percent, never rounded up to all or down to nothing.
fn share(part: u64, all: u64) -> String {
    let percent = part as f64 * 100.0 / all as f64;
    match part {
        0 => "0 %".into(),
        _ if part == all => "100 %".into(),
        _ => format!("{:.1} %", percent.clamp(0.1, 99.9)),
    }
}

/// A number in the unit that fits.
fn scaled(number: f64, unit: &str) -> String {
    match number {
        ..1e3 => format!("{number:.0} {unit}"),
        ..1e6 => format!("{:.2} k{unit}", number / 1e3),
        ..1e9 => format!("{:.2} M{unit}", number / 1e6),
        _ => format!("{:.2} G{unit}", number / 1e9),
    }
}

/// Facts about a capture, as it begins.
#[derive(Serialize, Debug)]
pub struct Start<'a> {
    r#type: &'static str,
    interface: &'a str,
    link_type: u16,
    snap_length: u32,
    method: &'static str,
    detail: &'a str,
    why: &'a str,
    stamped_by: &'a str,
    ring_bytes: u64,
    /// See [`Facts::stamp_error`].
    stamp_error: i64,
    metrics: Option<&'a str>,
}

impl Start<'_> {
    /// By this tap.
    pub fn new<'a>(facts: &'a Facts, why: &'a str, metrics: Option<&'a str>) -> Start<'a> {
        let Facts {
            interface,
            method,
            detail,
            link_type,
            snap_length,
            stamped_by,
            ring_bytes,
            stamp_error,
        } = facts;
        Start {
            r#type: "start",
            interface,
            link_type: *link_type,
            snap_length: *snap_length,
            method: method.name(),
            detail,
            why,
            stamped_by,
            ring_bytes: *ring_bytes,
            stamp_error: stamp_error.0,
            metrics,
        }
    }
}

/// The state, once a second.
#[derive(Serialize, Debug)]
pub struct State<'a> {
    r#type: &'static str,
    interface: &'a str,
    packets: u64,
    packets_per_second: f64,
    bits_per_second: f64,
    lost: Lost,
    /// Since the last state.
    stamps: Worth,
    queued: u64,
    down: bool,
    trouble: Option<String>,
}

impl State<'_> {
    /// Compares `now` with `before`, `since` earlier.
    pub fn new<'a>(
        interface: &'a str,
        (before, now): (&Live, &Live),
        since: Duration,
        period: Period,
    ) -> State<'a> {
        let seconds = since.as_secs_f64().max(1e-9);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        State {
            r#type: "state",
            interface,
            packets: packets(now),
            packets_per_second: rate(packets(now), packets(before)),
            bits_per_second: 8.0 * rate(now.bytes, before.bytes),
            lost: Lost::of(now),
            stamps: Worth::new(&now.tally.since(&before.tally), period),
            queued: now.queued,
            down: now.down,
            trouble: now.trouble.clone(),
        }
    }
}

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { packets, lost, stamps, .. } = self;
        let rate = scaled(self.packets_per_second, "pps");
        let bits = scaled(self.bits_per_second, "bit/s");
        write!(f, "{packets} packets, {rate}, {bits}; {lost}; {stamps}")?;
        if self.down {
            f.write_str("; the interface is down")?;
        }
        self.trouble.iter().try_for_each(|trouble| write!(f, "; {trouble}"))
    }
}

/// The summary.
#[derive(Serialize, Debug)]
pub struct Told {
    r#type: &'static str,
    end: String,
    seconds: f64,
    interface: String,
    method: &'static str,
    detail: String,
    why: String,
    stamped_by: String,
    ring_bytes: u64,
    packets: u64,
    bytes: u64,
    received: u64,
    lost: Lost,
    /// Taken beyond the number asked for.
    surplus: u64,
    /// Came after the end.
    left: u64,
    downs: u64,
    /// Number of times that the capture thread waited for the other.
    waits: u64,
    stamps: Worth,
    file: Option<PathBuf>,
    files: u64,
    file_bytes: u64,
}

impl Told {
    /// Of this run.
    pub fn new(summary: &Summary, why: &str, period: Period) -> Told {
        let Summary { end, facts, elapsed, live, left, written } = summary;
        Told {
            r#type: "summary",
            end: end.to_string(),
            seconds: elapsed.as_secs_f64(),
            interface: facts.interface.clone(),
            method: facts.method.name(),
            detail: facts.detail.clone(),
            why: why.to_owned(),
            stamped_by: facts.stamped_by.clone(),
            ring_bytes: facts.ring_bytes,
            packets: packets(live),
            bytes: live.bytes,
            received: live.losses.received,
            lost: Lost::of(live),
            surplus: live.surplus,
            left: *left,
            downs: live.downs,
            waits: live.waits,
            stamps: Worth::new(&live.tally, period),
            file: written.file.clone(),
            files: written.files,
            file_bytes: written.bytes,
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { packets, received, lost, end, .. } = self;
        let bytes = scaled(self.bytes as f64, "B");
        write!(f, "{packets} packets ({bytes}) in {:.1} s: {end}", self.seconds)?;
        match (&self.file, self.files) {
            (Some(file), 2..) => write!(f, "; {} files, the last {}", self.files, file.display())?,
            (Some(file), _) => write!(f, "; {}", file.display())?,
            (None, _) => {}
        }
        write!(f, "\nreceived {received}, {lost}")?;
        if self.surplus + self.left > 0 {
            write!(f, ", {} came after the end", self.surplus + self.left)?;
        }
        if self.downs > 0 {
            write!(f, "; the interface went down {} times", self.downs)?;
        }
        write!(f, "\nstamps: {}", self.stamps)?;
        write!(f, "\nmethod {}: {}", self.method, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_capture::Losses;

    fn live(written: u64) -> Live {
        let mut tally = Tally::default();
        for _ in 0..written {
            tally.bounded += 1;
            tally.bounds.add(8_000);
            tally.errors.add(50);
        }
        let losses = Losses { received: written + 7, ring: 4, kernel: 1, interface: 3 };
        Live { losses, written, bytes: 100 * written, dropped: 2, tally, ..Live::default() }
    }

    #[test]
    fn a_second_in_a_line() {
        let period = Period::from_hz(1_000_000_000);
        let (before, now) = (live(10), live(2010));
        let state = State::new("eth0", (&before, &now), Duration::from_secs(2), period);
        assert_eq!(
            state.to_string(),
            "2010 packets, 1.00 kpps, 800.00 kbit/s; lost 3 interface, 1 kernel, 4 ring, 2 writer; \
             100 % bounded, ± 8 µs (at most 8 µs); counts ± 50 ns (at most 50 ns)"
        );
        // While the disk is full nothing is written, and the rate is none.
        let full = Live { unwritten: 2010, ..live(4010) };
        let state = State::new("eth0", (&now, &full), Duration::from_secs(2), period);
        assert_eq!((state.packets, state.packets_per_second), (2000, 0.0));
        assert_eq!(state.lost.writer, 2012);
        let quiet = State::new("eth0", (&now, &now), Duration::ZERO, period);
        assert!(quiet.to_string().ends_with("no stamps yet"), "{quiet}");
    }

    #[test]
    fn shares_never_hide_the_rest() {
        assert_eq!(share(0, 5), "0 %");
        assert_eq!(share(1, 1_000_000), "0.1 %");
        assert_eq!(share(999_999, 1_000_000), "99.9 %");
        assert_eq!(share(5, 5), "100 %");
    }
}
