//! The measurement itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use truechimer_counter::{Counter, boot_id, clocksource, host_reading, nominal};
use truechimer_time::{CountSpan, Span};

use super::log::{AWAKE_NS, Identity, Log, UNKNOWN_BOOT};
use super::meaning::meaning;
use super::ntp::seconds;
use super::reference::{Continued, Reference, Sample, resumable};
use super::{Against, Progress, Setup, Stability, StabilityError, Stressed};
use super::{LONGEST_INTERVAL_S, SHORTEST_INTERVAL_S};
use crate::analysis::{MOST_SAMPLES, Row, analyse, median, regular};
use crate::stress::{Loader, Stress};

/// The longest sleep at once: narrow counters want to be read, loads to be changed, and a user who
/// ends it does not wait.
const NAP: Duration = Duration::from_millis(200);
/// No counter is further off its nominal frequency, and no clock corrected by more for long.
const MOST_OFF: f64 = 2e-3;
/// Most that a network's delay may be, s; more is a clock that was set.
const JUMP_S: f64 = 0.4;
/// A pulse that is so far from its second, s, is none.
const ASTRAY_S: f64 = 0.05;
/// Longest time that a reference may be silent at first until that is an error.
const SILENT: Duration = Duration::from_secs(10);

/// Measures as long as it is to, or until `stop` is set, and analyses what there is. `progress` is
/// told of every sample.
///
/// # Errors
/// Where counter, reference or log cannot be had, or there are samples of fewer than two intervals.
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
    let samples = setup.duration.as_secs_f64() / setup.interval_s;
    if samples >= MOST_SAMPLES as f64 {
        let why = format!(
            "{samples:.0} samples are more than the {MOST_SAMPLES} that can be analysed: take one \
             every {:.3} s or less often, or measure less long",
            setup.duration.as_secs_f64() / (MOST_SAMPLES - 1) as f64
        );
        return Err(StabilityError::Asked(why));
    }
    let each_s = setup.phases.each.as_secs_f64();
    if setup.phases.stress != Stress::None && each_s < 2.0 * setup.interval_s {
        let why = format!(
            "phases of {each_s} s have no two samples that are {} s apart: make the phases longer, \
             or the interval shorter",
            setup.interval_s
        );
        return Err(StabilityError::Asked(why));
    }
    let mut run = Run::begin(setup)?;
    match run.until(stop, progress) {
        // What was measured for hours is not thrown away for what comes in the end.
        Err(why) if run.rows.len() >= run.old + 2 => {
            run.ended_early = true;
            run.notes.push(format!("It was ended by an error: {why}."));
        }
        other => other?,
    }
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
    /// Number of those.
    old: usize,
    continued: bool,
    half_widths: Vec<CountSpan>,
    missed: u64,
    notes: Vec<String>,
    ended_early: bool,
    suspended_ns: i64,
    lapses: u32,
    begun: Instant,
    /// True if loads alternate.
    loaded: bool,
    /// When the newest sample was taken, and how many seconds of the reference after the first.
    newest: Option<(Instant, f64)>,
    /// True if the newest one was not to be believed.
    jumped: bool,
}

impl<'a> Run<'a> {
    fn begin(setup: &'a Setup) -> Result<Run<'a>, StabilityError> {
        let counter = Counter::open(setup.counter)?;
        let mut identity = Identity {
            counter: counter.kind().name().to_owned(),
            reference: setup.against.to_string(),
            clocksource: clocksource().unwrap_or_else(|| "unknown".into()),
            boot: boot_id().unwrap_or(UNKNOWN_BOOT),
            suspended_ns: host_reading(counter).suspended_ns,
            interval_s: setup.interval_s,
            period: nominal(counter)?.period,
            reference_period: None,
            origin: counter.read(),
            origin_reference: Span::ZERO,
        };
        let (mut log, mut rows) = (None, Vec::new());
        let suspended_ns = identity.suspended_ns;
        if let Some(path) = setup.log.as_deref().filter(|_| setup.resume) {
            resumable(counter).map_err(StabilityError::Asked)?;
            let (old, from, samples) = Log::resume(path, &identity)?;
            (log, identity, rows) = (Some(old), from, samples);
        }
        let continued = log.is_some();
        let goes_on = continued.then(|| {
            let last =
                rows.last().map_or((0.0, 0.0), |row| (row.time_s.unwrap_or(0.0), row.phase_s));
            let counted_s = Span::from_nanos(((last.0 + last.1) * 1e9) as i64);
            Continued {
                origin: identity.origin_reference,
                period: identity.reference_period,
                first: identity.origin,
                last: identity.origin + identity.period.counts(counted_s),
                last_s: last.0,
            }
        });
        let reference = Reference::open(&setup.against, counter, identity.period, goes_on)?;
        identity.reference_period = reference.period();
        let notes = meaning(counter.kind(), &setup.against, clocksource().as_deref());
        let loader = match setup.phases.stress {
            Stress::None => None,
            _ => Some(Loader::start().map_err(StabilityError::Load)?),
        };
        let lapses = counter.lapses().wrapping_add(reference.attend());
        Ok(Run {
            setup,
            counter,
            reference,
            identity,
            log,
            loader,
            old: rows.len(),
            rows,
            continued,
            half_widths: Vec::new(),
            missed: 0,
            notes,
            ended_early: false,
            suspended_ns,
            lapses,
            begun: Instant::now(),
            loaded: false,
            newest: None,
            jumped: false,
        })
    }

    fn until(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<(), StabilityError> {
        let stopped = || stop.load(Ordering::Relaxed);
        let mut first: Option<Instant> = None;
        let tries = self.setup.best_of.max(1);
        let (mut best, mut tried): (Option<Sample>, u32) = (None, 0);
        loop {
            if stopped() {
                self.ended_early = true;
                return Ok(());
            }
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
            // Only now: making it takes a moment, and the sample belongs to what was before.
            self.set_load()?;
            if self.rows.len() == self.old && self.begun.elapsed() > SILENT.max(self.interval() * 2)
            {
                return Err(self.failed("it gives no samples".into()));
            }
            if first.is_some_and(|first| first.elapsed() >= self.setup.duration) {
                return Ok(());
            }
            if !self.reference.is_paced() {
                let between = !complete;
                self.sleep(reference_s, between.then_some(tries), first, &stopped)?;
            }
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.setup.interval_s)
    }

    /// Until it is time for the next exchange of as many as there are `between` two samples, or for
    /// the next sample: by the reference's own time, if that is known, so that
    /// samples stay evenly spaced however fast it runs.
    fn sleep(
        &mut self,
        reference_s: Option<f64>,
        between: Option<u32>,
        first: Option<Instant>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), StabilityError> {
        let interval = self.setup.interval_s;
        let left = match reference_s {
            // A little past the middle belongs to the next.
            Some(now) => (((now / interval).round() + 1.0) * interval - now)
                .clamp(interval * 0.25, interval * 1.75),
            // Those of one sample all come at the beginning of its interval.
            None => between.map_or(interval, |tries| interval / f64::from(tries) / 4.0),
        };
        let end = Instant::now() + Duration::from_secs_f64(left);
        let left = || end.saturating_duration_since(Instant::now());
        loop {
            let over = first.is_some_and(|first| first.elapsed() >= self.setup.duration);
            if left().is_zero() || stopped() || over {
                return Ok(());
            }
            std::thread::sleep(left().min(NAP).min(self.until_change()));
            let _ = (self.counter.read(), self.reference.attend());
            if !left().is_zero() {
                self.set_load()?;
            }
        }
    }

    /// The time by which loads alternate, as samples are sorted by it: the reference's since the
    /// first sample, and the system's since the newest.
    fn load_time(&self) -> Option<Duration> {
        let (then, seconds) = self.newest?;
        Duration::try_from_secs_f64(seconds + then.elapsed().as_secs_f64()).ok()
    }

    /// Time until the load changes, from a millisecond to `NAP`.
    fn until_change(&self) -> Duration {
        let each = self.setup.phases.each.as_secs_f64();
        let time = self.load_time().filter(|_| self.loader.is_some() && each > 0.0);
        let left = time.map_or(NAP.as_secs_f64(), |time| each - time.as_secs_f64() % each);
        Duration::from_secs_f64(left.clamp(1e-3, NAP.as_secs_f64()))
    }

    fn set_load(&mut self) -> Result<(), StabilityError> {
        let time = self.load_time();
        let (Some(loader), Some(time)) = (&mut self.loader, time) else { return Ok(()) };
        self.loaded = true;
        loader.set(self.setup.phases.at(time)).map_err(StabilityError::Load)
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
            if self.disbelieved() {
                return Ok(None);
            }
            let why = "it went back: somebody set it. Measure against one that nobody sets (raw)";
            return Err(self.failed(why.into()));
        }
        if let Some(jump) = self.jump(&row) {
            if self.disbelieved() {
                return Ok(None);
            }
            return Err(match (&self.setup.log, self.rows.len() > self.old) {
                (Some(path), false) => StabilityError::Resume(
                    path.clone(),
                    format!(
                        "the phase has jumped by {jump:.3} s since its end: the counter or the \
                         reference was set or began anew. Begin a new log"
                    ),
                ),
                _ => self.failed(format!(
                    "the phase has jumped by {jump:.3} s: somebody set it, or the counter"
                )),
            });
        }
        self.jumped = false;
        if seconds(since) / self.setup.interval_s >= (MOST_SAMPLES - 1) as f64 {
            let why = format!("there are {MOST_SAMPLES} samples, as many as can be analysed");
            return Err(StabilityError::Asked(why));
        }
        self.newest = Some((Instant::now(), seconds(since)));
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

    /// True if a sample that cannot be is left out: a single reply of a server, or a single pulse,
    /// may be nonsense; two in a row are not.
    fn disbelieved(&mut self) -> bool {
        let first = !self.setup.against.is_local() && !self.jumped;
        self.jumped = true;
        self.missed += u64::from(first);
        first
    }

    /// By how many seconds the phase is elsewhere than it can be after the last one, if it is.
    fn jump(&self, now: &Row) -> Option<f64> {
        let last = self.rows.last()?;
        let (from, to) = (last.time_s?, now.time_s?);
        let (mut slope, mut off) = (0.0, MOST_OFF);
        // After a long break a resumed measurement goes by what it was before.
        if self.rows.len() == self.old
            && let Some(first) = self.rows.first()
            && let Some(span) = first.time_s.map(|first| from - first).filter(|span| *span > 0.0)
        {
            (slope, off) = ((last.phase_s - first.phase_s) / span, 1e-4 + JUMP_S / span);
        }
        let jump = now.phase_s - last.phase_s - slope * (to - from);
        let most = if matches!(self.setup.against, Against::Pps(_)) { ASTRAY_S } else { JUMP_S };
        (jump.abs() > most + off.min(MOST_OFF) * (to - from)).then_some(jump)
    }

    fn failed(&self, why: String) -> StabilityError {
        StabilityError::Reference(self.setup.against.to_string(), why)
    }

    /// The phase at each interval, of which there are two at least.
    fn phase(&self) -> Result<Vec<f64>, StabilityError> {
        let failed = |why: crate::analysis::PhaseFileError| self.failed(why.to_string());
        let phase = regular(&self.rows, self.setup.interval_s).map_err(failed)?;
        if phase.len() < 2 {
            let why = "there are samples of fewer than two intervals, of which nothing can be \
                       said: measure longer";
            return Err(StabilityError::Asked(why.into()));
        }
        Ok(phase)
    }

    fn finish(mut self) -> Result<Stability, StabilityError> {
        drop(self.loader.take());
        self.watch();
        let phase = self.phase()?;
        let period = self.identity.period;
        let widths = self.half_widths.iter().map(|half| seconds(period.span(*half)));
        let stressed = self
            .loaded
            .then_some(())
            .filter(|()| !self.continued)
            .map(|()| Stressed::of(self.setup.phases, &phase, self.setup.interval_s));
        if self.loaded && stressed.is_none() {
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
        if asleep > AWAKE_NS {
            self.notes.push(format!(
                "The machine was suspended for {} ms meanwhile: the counter may have stopped.",
                asleep / 1_000_000
            ));
        }
        if self.counter.lapses().wrapping_add(self.reference.attend()) != self.lapses {
            self.notes.push(
                "The counter, or the one that is the reference, was not read for half a roll-over or more meanwhile: its phase may \
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stability::Options;
    use crate::stress::Phases;
    use truechimer_counter::Choice;

    #[test]
    fn two_samples_of_one_interval_are_too_few() {
        let setup = Setup {
            counter: Choice::Raw,
            against: Against::Realtime,
            interval_s: 1.0,
            duration: Duration::ZERO,
            best_of: 1,
            phases: Phases { stress: Stress::None, each: Duration::from_secs(1) },
            log: None,
            resume: false,
            options: Options::default(),
        };
        let mut run = Run::begin(&setup).expect("every machine has these two");
        for (time_s, phases) in [(0.0, None), (0.3, None), (0.9, Some(2)), (2.0, Some(3))] {
            run.rows.push(Row { line: 0, time_s: Some(time_s), phase_s: 0.0 });
            assert_eq!(run.phase().map(|phase| phase.len()).ok(), phases, "until {time_s} s");
        }
    }
}
