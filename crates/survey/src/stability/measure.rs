//! The measurement itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use truechimer_counter::{Counter, boot_id, clocksource, host_reading, nominal};
use truechimer_stability::{Row, analyse, median, regular};
use truechimer_time::{BootId, CountSpan, Span};

use super::log::{Identity, Log};
use super::meaning::meaning;
use super::ntp::seconds;
use super::reference::{Continued, Reference, Sample};
use super::{Against, Progress, Setup, Stability, StabilityError, Stressed};
use super::{LONGEST_INTERVAL_S, SHORTEST_INTERVAL_S};
use crate::stress::{Loader, Stress};

/// The longest sleep at once: narrow counters want to be read, loads to be changed, and a user who
/// ends it does not wait.
const NAP: Duration = Duration::from_millis(200);
/// How long a reference may be silent at first until that is an error.
const SILENT: Duration = Duration::from_secs(10);

/// Measures as long as it is to, or until `stop` is set, and analyses what there is. `progress` is
/// told of every sample.
///
/// # Errors
/// Where counter, reference or log cannot be had, or there are fewer than two samples.
pub fn measure(
    setup: &Setup,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Stability, StabilityError> {
    if !(SHORTEST_INTERVAL_S..=LONGEST_INTERVAL_S).contains(&setup.interval_s) {
        let why =
            format!("the interval must be from {SHORTEST_INTERVAL_S} to {LONGEST_INTERVAL_S} s");
        return Err(StabilityError::Asked(why));
    }
    if matches!(setup.against, Against::Pps(_)) && setup.interval_s.fract() != 0.0 {
        let why = "pulses come once a second: the interval must be a whole number of seconds";
        return Err(StabilityError::Asked(why.into()));
    }
    let mut run = Run::begin(setup)?;
    run.until(stop, progress)?;
    run.finish()
}

/// A measurement under way.
struct Run<'a> {
    setup: &'a Setup,
    counter: Counter,
    reference: Reference,
    /// With the first sample once there is one.
    identity: Identity,
    log: Option<Log>,
    loader: Option<Loader>,
    /// The samples of the log that is continued come first.
    rows: Vec<Row>,
    continued: bool,
    half_widths: Vec<CountSpan>,
    missed: u64,
    notes: Vec<String>,
    ended_early: bool,
    suspended_ns: i64,
    lapses: u32,
    begun: Instant,
    /// When the loads began to alternate.
    loads_since: Option<Instant>,
}

impl<'a> Run<'a> {
    fn begin(setup: &'a Setup) -> Result<Run<'a>, StabilityError> {
        let counter = Counter::open(setup.counter)?;
        let mut identity = Identity {
            counter: counter.kind().name().to_owned(),
            reference: setup.against.to_string(),
            clocksource: clocksource().unwrap_or_else(|| "unknown".into()),
            boot: boot_id().unwrap_or(BootId([0; 16])),
            interval_s: setup.interval_s,
            period: nominal(counter)?.period,
            reference_period: None,
            origin: counter.read(),
            origin_reference: Span::ZERO,
        };
        let (mut log, mut rows) = (None, Vec::new());
        if let Some(path) = setup.log.as_deref().filter(|_| setup.resume) {
            let (old, from, samples) = Log::resume(path, &identity)?;
            (log, identity, rows) = (Some(old), from, samples);
        }
        let continued = log.is_some();
        let goes_on = continued.then_some(Continued {
            origin: identity.origin_reference,
            period: identity.reference_period,
        });
        let reference = Reference::open(&setup.against, counter, identity.period, goes_on)?;
        identity.reference_period = reference.period();
        let notes = meaning(counter.kind(), &setup.against, clocksource().as_deref());
        let loader = match setup.phases.stress {
            Stress::None => None,
            _ => Some(Loader::start().map_err(StabilityError::Load)?),
        };
        Ok(Run {
            setup,
            counter,
            reference,
            identity,
            log,
            loader,
            rows,
            continued,
            half_widths: Vec::new(),
            missed: 0,
            notes,
            ended_early: false,
            suspended_ns: host_reading(counter).suspended_ns,
            lapses: counter.lapses(),
            begun: Instant::now(),
            loads_since: None,
        })
    }

    fn until(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), StabilityError> {
        let stopped = || stop.load(Ordering::Relaxed);
        let old = self.rows.len();
        let mut first: Option<Instant> = None;
        let tries = self.setup.best_of.max(1);
        let (mut best, mut tried): (Option<Sample>, u32) = (None, 0);
        loop {
            if stopped() {
                self.ended_early = true;
                return Ok(());
            }
            self.set_load(first)?;
            let taken = self.reference.take().map_err(|why| self.failed(why))?;
            if let Some(sample) = taken {
                let better = |best: Sample| sample.half_width < best.half_width;
                best = if best.is_none_or(better) { Some(sample) } else { best };
            }
            if !self.reference.is_paced() {
                self.missed += u64::from(taken.is_none());
                tried += 1;
            }
            let complete = if self.reference.is_paced() { best.is_some() } else { tried >= tries };
            let mut reference_s = None;
            if complete && let Some(sample) = best.take() {
                tried = 0;
                reference_s = self.keep(sample)?;
                let begun = *first.get_or_insert_with(Instant::now);
                if let Some(row) = self.rows.last() {
                    progress(&Progress {
                        elapsed_s: begun.elapsed().as_secs_f64(),
                        duration_s: self.setup.duration.as_secs_f64(),
                        samples: self.rows.len(),
                        phase_s: row.phase_s,
                    });
                }
            } else if complete {
                tried = 0;
            }
            if self.rows.len() == old && self.begun.elapsed() > SILENT.max(self.interval() * 2) {
                return Err(self.failed("it gives no samples".into()));
            }
            if first.is_some_and(|first| first.elapsed() >= self.setup.duration) {
                return Ok(());
            }
            if !self.reference.is_paced() {
                self.sleep(reference_s, tries, first, &stopped)?;
            }
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.setup.interval_s)
    }

    /// Until it is time for the next sample: by the reference's own time, if that is known, so that
    /// samples stay evenly spaced however fast it runs.
    fn sleep(
        &mut self,
        reference_s: Option<f64>,
        tries: u32,
        first: Option<Instant>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), StabilityError> {
        let interval = self.setup.interval_s;
        let left = match reference_s {
            // A little past the middle belongs to the next.
            Some(now) => (((now / interval).round() + 1.0) * interval - now)
                .clamp(interval * 0.25, interval * 1.75),
            // Those of one sample all come at the beginning of its interval.
            None if tries > 1 => interval / f64::from(tries) / 4.0,
            None => interval,
        };
        let end = Instant::now() + Duration::from_secs_f64(left);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let over = first.is_some_and(|first| first.elapsed() >= self.setup.duration);
            if left.is_zero() || stopped() || over {
                return Ok(());
            }
            std::thread::sleep(left.min(NAP));
            let _ = self.counter.read();
            self.set_load(first)?;
        }
    }

    fn set_load(&mut self, first: Option<Instant>) -> Result<(), StabilityError> {
        let (Some(loader), Some(first)) = (&mut self.loader, first) else { return Ok(()) };
        self.loads_since = Some(first);
        loader.set(self.setup.phases.at(first.elapsed())).map_err(StabilityError::Load)
    }

    /// Keeps a sample, if it is a new one; the reference's seconds at it.
    fn keep(&mut self, mut sample: Sample) -> Result<Option<f64>, StabilityError> {
        if self.rows.is_empty() && !self.continued {
            self.identity.origin = sample.count;
            // As the log has it, so that a resumed measurement has the same zero.
            self.identity.origin_reference = Span::from_nanos_wide(sample.reference.as_nanos());
            sample.reference = self.identity.origin_reference;
            if let Some(path) = &self.setup.log {
                self.log = Some(Log::begin(path, &self.identity)?);
            }
        }
        let since = sample.reference - self.identity.origin_reference;
        let counted = self.identity.period.span(sample.count - self.identity.origin);
        let row = Row { line: 0, time_s: Some(seconds(since)), phase_s: seconds(counted - since) };
        let before = self.rows.last().and_then(|row| row.time_s);
        if before.is_some_and(|before| seconds(since) <= before) {
            let why = "it went back: somebody set it. Measure against one that nobody sets (raw)";
            return Err(self.failed(why.into()));
        }
        if matches!(self.setup.against, Against::Pps(_))
            && seconds(since).round() % self.setup.interval_s != 0.0
        {
            return Ok(None);
        }
        if self.setup.against.is_local()
            && let Some(before) = before
            && seconds(since) - before < 0.25 * self.setup.interval_s
        {
            return Ok(Some(seconds(since)));
        }
        if let Some(log) = &mut self.log {
            log.add(seconds(since), row.phase_s)?;
        }
        self.rows.push(row);
        self.half_widths.push(sample.half_width);
        Ok(Some(seconds(since)))
    }

    fn failed(&self, why: String) -> StabilityError {
        StabilityError::Reference(self.setup.against.to_string(), why)
    }

    fn finish(mut self) -> Result<Stability, StabilityError> {
        drop(self.loader.take());
        self.watch();
        if self.rows.len() < 2 {
            let why =
                "there are fewer than two samples, of which nothing can be said: measure longer";
            return Err(StabilityError::Asked(why.into()));
        }
        let failed = |why: truechimer_stability::PhaseFileError| self.failed(why.to_string());
        let phase = regular(&self.rows, self.setup.interval_s).map_err(failed)?;
        let period = self.identity.period;
        let widths = self.half_widths.iter().map(|half| seconds(period.span(*half)));
        let stressed = self
            .loads_since
            .filter(|_| !self.continued)
            .map(|_| Stressed::of(self.setup.phases, &phase, self.setup.interval_s));
        if self.loads_since.is_some() && stressed.is_none() {
            self.notes.push("What the load did is not told apart in a resumed measurement.".into());
        }
        Ok(Stability {
            counter: Some(self.identity.counter.clone()),
            nominal_hz: Some(period.hz()),
            reference: self.identity.reference.clone(),
            clocksource: clocksource(),
            ended_early: self.ended_early,
            missed: self.missed,
            reading_s: median(widths),
            exchanges: self.reference.exchanges(&self.half_widths, period),
            analysis: analyse(&phase, self.setup.interval_s, &self.setup.options),
            phases: stressed.as_ref().map(|_| self.setup.phases),
            stressed,
            phase,
            notes: self.notes,
        })
    }

    /// Notes what has happened meanwhile that spoils it.
    fn watch(&mut self) {
        let now = clocksource().unwrap_or_else(|| "unknown".into());
        if now != self.identity.clocksource {
            self.notes.push(format!(
                "The clocksource was changed from {} to {now} meanwhile: the kernel's clocks have \
                 another rate since.",
                self.identity.clocksource
            ));
        }
        let asleep = host_reading(self.counter).suspended_ns.saturating_sub(self.suspended_ns);
        if asleep > 1_000_000 {
            self.notes.push(format!(
                "The machine was suspended for {} ms meanwhile: the counter may have stopped.",
                asleep / 1_000_000
            ));
        }
        if self.counter.lapses() > self.lapses {
            self.notes.push(
                "The counter was not read for half a roll-over or more meanwhile: its phase may \
                 be off by whole roll-overs since."
                    .into(),
            );
        }
        if matches!(self.setup.against, Against::Ntp(..)) && self.identity.interval_s < 16.0 {
            self.notes
                .push("Ask servers that are not your own no more often than every 16 s.".into());
        }
    }
}
