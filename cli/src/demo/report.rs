//! The demonstration as a page with plots: the readings, and from the daemon's own log the
//! exchanges and what it had to say.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use truechimer::{Reading, View};
use truechimer_daemon::SourceStatus;
use truechimer_engine::Level;
use truechimer_replay::{Happened, Options, What, repeat};
use truechimer_time::{Count, Period, Rate, Span};
use truechimer_timehands::Status;
use truechimer_trace::{Exchanged, Interval, Noted, Sample, Statistics, Trace, report};

use super::tally;
use truechimer_command::Failure;
use truechimer_command::output::save_report;
use truechimer_command::program;
use truechimer_command::report::placed;

/// 2⁶⁴.
const SCALE: f64 = 18_446_744_073_709_551_616.0;
/// Readings that are all kept; later ones so far apart, s: not in step with any poll interval.
const DENSE: usize = 6000;
const SPARSE: f64 = 1.05;
/// Length of the longer of the intervals, s.
const THOUSAND: f64 = 1000.0;

/// Record of what was read.
#[derive(Debug, Default)]
pub struct Record {
    samples: Vec<Sample>,
    /// Count and served time, ns, of the last 1000 s.
    truths: VecDeque<(f64, Count, i64)>,
    /// A second and its count, and how long a count lasts.
    zero: Option<(f64, Count, Period)>,
    begun: i64,
    /// Unix ns of the time 0 of the samples.
    zero_ns: Option<i64>,
}

impl Record {
    /// True if readings count, now that the clock has this status: before its first promise a clock may have
    /// no time of day at all, and so no error.
    fn has_begun(&self, status: Status) -> bool {
        self.zero.is_some() || status.bound_holds()
    }

    /// A reading: `served` is the count and the true time beside it, ns; `fast` how much faster
    /// than the server the clock runs.
    pub fn add(
        &mut self,
        sample: &tally::Sample,
        reading: &Reading,
        view: &View,
        served: (Count, i64),
        fast: Option<Rate>,
    ) {
        if !self.has_begun(sample.status) {
            return;
        }
        let at = seconds(sample.at);
        let late = self.samples.last().is_none_or(|last| at >= last.at + SPARSE);
        if self.samples.len() >= DENSE && !late {
            return;
        }
        self.zero.get_or_insert_with(|| {
            self.begun = reading.best.secs();
            let unix_ns = i64::try_from(reading.utc().unix_nanos()).unwrap_or(i64::MAX);
            self.zero_ns = Some(unix_ns.saturating_sub((at * 1e9) as i64));
            (at, served.0, view.hand.period)
        });
        self.truths.push_back((at, served.0, served.1));
        while self.truths.get(1).is_some_and(|(then, ..)| at - then > THOUSAND) {
            self.truths.pop_front();
        }
        let promised = sample.status.bound_holds();
        let bound = if promised { seconds(sample.bound) } else { f64::INFINITY };
        self.samples.push(Sample {
            at,
            error: seconds(sample.error),
            bound,
            imbalance: seconds(view.hand.imbalance),
            likely: view.likely().map(seconds),
            statistical: bound - seconds(view.hand.path_bound),
            status: sample.status,
            rate_error: fast.map_or(f64::NAN, |rate| rate.0 as f64 / SCALE),
            skew: f64::NAN,
            second: self.interval(1.0, at, served, view),
            thousand: self.interval(THOUSAND, at, served, view),
        });
    }

    /// The last `length` seconds by the difference clock, and in truth.
    fn interval(&self, length: f64, at: f64, to: (Count, i64), view: &View) -> Option<Interval> {
        let (_, count, ns) = self.truths.iter().rev().find(|(then, ..)| at - then >= length)?;
        let (span, bound) = view.hand.elapsed(to.0 - *count);
        let error = span - Span::from_nanos(to.1 - ns);
        Some(Interval { error: seconds(error), bound: seconds(bound), deviation: f64::NAN })
    }

    /// Writes the page, with what the daemon's log has.
    pub fn write(
        self,
        to: &Path,
        log: &Path,
        parameters: Vec<(String, String)>,
    ) -> Result<(), Failure> {
        let mut trace = Trace {
            title: "demo".into(),
            about:
                "A daemon that follows a server of our own on loopback, read twenty times a second; the \
                    truth is the server's own clock."
                    .into(),
            estimator: "ours".into(),
            parameters,
            begun: self.begun,
            honest: true,
            samples: self.samples,
            ..Trace::default()
        };
        if let Some(zero) = self.zero {
            let file = File::open(log).map_err(|why| Failure::new(log.display(), why))?;
            repeat(BufReader::new(file), Options::default(), &mut |happened: &Happened| {
                take(&mut trace, zero, happened);
                Ok(())
            })
            .map_err(|why| Failure::new("the daemon's log", why))?;
        }
        let statistics = Statistics::of(&[&trace]);
        let mut page = placed(report::page(&[(&trace, statistics)], &program::line()));
        if let Some(zero_ns) = self.zero_ns {
            page = page.since(zero_ns);
        }
        save_report(to, &page)
    }
}

/// Adds what happened to the trace.
fn take(trace: &mut Trace, zero: (f64, Count, Period), happened: &Happened) {
    let at = zero.0 + seconds(zero.2.span(happened.count - zero.1));
    let mut note = |level, text| trace.notes.push(Noted { at, level, text });
    match &happened.what {
        What::Note { level, text } => note(*level, text.clone()),
        What::Status { from } => note(Level::Info, format!("{} (was {from})", happened.status)),
        What::Disruption => note(Level::Warning, "the counter lost its continuity".into()),
        What::Reload { sources } => note(Level::Info, format!("reloaded: {sources} sources")),
        What::Reply(heard) => {
            let known = trace.sources.iter().position(|name| *name == heard.source);
            let source = known.unwrap_or_else(|| {
                trace.sources.push(heard.source.clone());
                trace.sources.len() - 1
            });
            let or_nan = |span: Option<Span>| span.map_or(f64::NAN, seconds);
            trace.exchanges.push(Exchanged {
                at,
                source,
                rtt: or_nan(heard.rtt),
                floor: or_nan(heard.floor),
                forward: or_nan(heard.delays.map(|(there, _)| there)),
                backward: or_nan(heard.delays.map(|(_, back)| back)),
                true_delays: None,
                used: heard.refused.is_none(),
                selected: heard.status == SourceStatus::Selected,
            });
        }
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_from_its_first_promise_on() {
        let mut record = Record::default();
        assert!(!record.has_begun(Status::Unknown));
        assert!(record.has_begun(Status::Synchronised));
        record.zero = Some((0.0, Count(0), Period::NANOSECOND));
        assert!(record.has_begun(Status::Unknown), "what it loses later shows");
    }
}
