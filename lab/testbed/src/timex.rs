//! The kernel's clock discipline as programs read it: the fields of node_exporter, and the bounded
//! clock that ScyllaDB makes of them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use truechimer_counter::{adjtimex, timex};
use truechimer_testbed::scale::Reference;

/// `TIME_ERROR`: what the call returns where the clock is not synchronised.
const TIME_ERROR: i32 = 5;
const NANOS: i64 = 1_000_000_000;
/// The clock that never goes back is moved towards the system clock by this part of the time at most.
const SLEW: i64 = 512;

/// Answer to one call of adjtimex(2).
struct Said {
    state: i32,
    fields: libc::timex,
}

impl Said {
    fn ask() -> Result<Said, String> {
        let mut fields = timex();
        let state = adjtimex(&mut fields).map_err(|error| format!("adjtimex: {error}"))?;
        Ok(Said { state, fields })
    }

    fn is_nano(&self) -> bool {
        self.fields.status & libc::STA_NANO != 0
    }

    /// The system clock when it was asked, Unix ns.
    fn unix_ns(&self) -> i64 {
        let parts = if self.is_nano() { 1 } else { 1000 };
        self.fields.time.tv_sec * NANOS + self.fields.time.tv_usec * parts
    }

    /// ScyllaDB's condition: it trusts `maxerror` unless one of the two says that nobody keeps the
    /// clock.
    fn is_trusted(&self) -> bool {
        self.state != TIME_ERROR && self.fields.status & libc::STA_UNSYNC == 0
    }

    /// The samples of node_exporter's collector `timex` that tell of the clock, by its names and in its
    /// units.
    fn metrics(&self) -> [(&'static str, f64); 9] {
        let t = &self.fields;
        let parts = if self.is_nano() { 1e9 } else { 1e6 };
        [
            ("node_timex_sync_status", f64::from(u8::from(self.state != TIME_ERROR))),
            ("node_timex_offset_seconds", t.offset as f64 / parts),
            ("node_timex_frequency_adjustment_ratio", 1.0 + t.freq as f64 / 65_536e6),
            ("node_timex_maxerror_seconds", t.maxerror as f64 / 1e6),
            ("node_timex_estimated_error_seconds", t.esterror as f64 / 1e6),
            ("node_timex_status", f64::from(t.status)),
            ("node_timex_loop_time_constant", t.constant as f64),
            ("node_timex_tick_seconds", t.tick as f64 / 1e6),
            ("node_timex_tai_offset_seconds", f64::from(t.tai)),
        ]
    }
}

/// Prints what node_exporter would, now.
pub fn print() -> Result<(), String> {
    for (name, value) in Said::ask()?.metrics() {
        println!("{name} {value}");
    }
    Ok(())
}

/// Reads again and again between readings of the truth, and prints what came of it.
pub fn watch(reference: &str, seconds: &str, every: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let reference: Reference = reference.parse()?;
    let time = Duration::from_secs(number(seconds)?);
    let every = Duration::from_millis(number(every)?);
    let start = Instant::now();
    let mut seen = Seen::default();
    while start.elapsed() < time {
        let monotonic = Instant::now();
        let before = reference.now_ns();
        let said = Said::ask()?;
        let truth = (before, reference.now_ns());
        seen.look(&said, truth, monotonic, start);
        sleep(every);
    }
    println!("{:#}", seen.result());
    Ok(())
}

#[derive(Default)]
struct Seen {
    readings: u64,
    trusted: u64,
    /// Trusted readings whose interval did not hold the truth.
    broken: u64,
    worst_outside_ns: i64,
    /// Likewise for the clock that never goes back.
    centre_broken: u64,
    centre: Option<(i64, Instant)>,
    /// The largest error of the system clock among trusted readings, ns.
    max_ns: i64,
    /// Smallest, largest and last `maxerror` among trusted readings, µs.
    max_error_us: Option<(i64, i64, i64)>,
    /// Number of times that it became smaller: somebody has renewed it.
    renewed: u64,
    /// Each change of whether it is trusted, from when on, s.
    changes: Vec<(f64, bool)>,
}

impl Seen {
    fn look(&mut self, said: &Said, truth: (i64, i64), monotonic: Instant, start: Instant) {
        let trusted = said.is_trusted();
        self.readings += 1;
        if self.changes.last().is_none_or(|(_, last)| *last != trusted) {
            self.changes.push((start.elapsed().as_secs_f64(), trusted));
        }
        let centre = self.centre(said, monotonic);
        if !trusted {
            return;
        }
        self.trusted += 1;
        let us = said.fields.maxerror;
        let (least, most, last) = self.max_error_us.unwrap_or((us, us, us));
        self.renewed += u64::from(us < last);
        self.max_error_us = Some((least.min(us), most.max(us), us));
        let outside = |at: i64, error: i64| (at - error - truth.1).max(truth.0 - at - error).max(0);
        let unix = said.unix_ns();
        self.max_ns = self.max_ns.max(outside(unix, 0));
        let beyond = outside(unix, us * 1000);
        self.broken += u64::from(beyond > 0);
        self.worst_outside_ns = self.worst_outside_ns.max(beyond);
        if let Some(centre) = centre {
            let error = us * 1000 + (unix - centre).abs();
            self.centre_broken += u64::from(outside(centre, error) > 0);
        }
    }

    /// Time that never goes back: the monotonic clock's, moved little by little to the system clock's.
    fn centre(&mut self, said: &Said, monotonic: Instant) -> Option<i64> {
        let unix = said.is_trusted().then(|| said.unix_ns());
        let now = match (self.centre, unix) {
            (None, unix) => unix?,
            (Some((before, then)), unix) => {
                let elapsed = monotonic.duration_since(then).as_nanos() as i64;
                let on = before + elapsed;
                on + unix.map_or(0, |unix| (unix - on).clamp(-elapsed / SLEW, elapsed / SLEW))
            }
        };
        self.centre = Some((now, monotonic));
        Some(now)
    }

    fn result(&self) -> Value {
        let (least, most, last) = self.max_error_us.unwrap_or_default();
        let words = self.changes.iter().map(|(_, is)| if *is { "trusted" } else { "refused" });
        let at: Vec<_> = self.changes.iter().map(|(at, _)| (at * 1e3).round() / 1e3).collect();
        json!({
            "readings": self.readings,
            "trusted": self.trusted,
            "broken": self.broken,
            "worst_outside_ns": self.worst_outside_ns,
            "centre_broken": self.centre_broken,
            "max_ns": self.max_ns,
            "least_maxerror_us": least,
            "most_maxerror_us": most,
            "last_maxerror_us": last,
            "renewed": self.renewed,
            "changes": words.collect::<Vec<_>>().join(" "),
            "changed_at_s": at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: i32, status: i32, maxerror: i64, unix_ns: i64) -> Said {
        let mut fields = timex();
        (fields.status, fields.maxerror, fields.tai) = (status | libc::STA_NANO, maxerror, 37);
        (fields.time.tv_sec, fields.time.tv_usec) = (unix_ns / NANOS, unix_ns % NANOS);
        Said { state, fields }
    }

    #[test]
    fn fields_are_in_the_exporters_units() {
        let mut one = said(0, 0, 1500, 7);
        one.fields.freq = 65_536;
        one.fields.offset = -2_000;
        let value = |said: &Said, name| {
            let metrics = said.metrics();
            metrics.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
        };
        assert_eq!(value(&one, "node_timex_maxerror_seconds"), Some(0.0015));
        assert_eq!(value(&one, "node_timex_sync_status"), Some(1.0));
        assert_eq!(value(&one, "node_timex_offset_seconds"), Some(-2e-6));
        assert_eq!(value(&one, "node_timex_frequency_adjustment_ratio"), Some(1.000_001));
        assert_eq!(value(&one, "node_timex_tai_offset_seconds"), Some(37.0));
        one.fields.status = 0;
        assert_eq!(value(&one, "node_timex_offset_seconds"), Some(-2e-3), "in microseconds");
        assert_eq!(value(&said(TIME_ERROR, 0, 0, 0), "node_timex_sync_status"), Some(0.0));
    }

    #[test]
    fn a_word_that_does_not_hold_is_seen_and_one_that_nobody_gives_is_not_judged() {
        let (start, mut seen) = (Instant::now(), Seen::default());
        let truth = (1_000_000_000, 1_000_000_100);
        seen.look(&said(0, 0, 10, 1_000_009_000), truth, start, start);
        assert_eq!((seen.trusted, seen.broken, seen.max_ns), (1, 0, 8_900));
        seen.look(&said(0, 0, 8, 1_000_009_000), truth, start, start);
        assert_eq!((seen.broken, seen.worst_outside_ns, seen.renewed), (1, 900, 1));
        seen.look(&said(TIME_ERROR, 0, 0, 0), truth, start, start);
        seen.look(&said(0, libc::STA_UNSYNC, 0, 0), truth, start, start);
        assert_eq!((seen.readings, seen.trusted, seen.broken), (4, 2, 1));
        assert_eq!(seen.changes.iter().map(|c| c.1).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn the_clock_that_never_goes_back_comes_near_after_a_step() {
        let (start, mut seen) = (Instant::now(), Seen::default());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(
            seen.centre(&said(TIME_ERROR, 0, 0, 5), at(0)),
            None,
            "not before it is trusted"
        );
        assert_eq!(seen.centre(&said(0, 0, 0, NANOS), at(0)), Some(NANOS));
        // A step back by half a second: it goes on, a little more slowly.
        let stepped = seen.centre(&said(0, 0, 0, NANOS / 2 + 1_000_000), at(1));
        assert_eq!(stepped, Some(NANOS + 1_000_000 - 1_000_000 / SLEW));
    }

    #[test]
    fn the_kernel_answers() {
        assert!(Said::ask().unwrap().unix_ns() > 1_700_000_000 * NANOS);
    }
}
