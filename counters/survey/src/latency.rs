//! Time that a reading takes, as a distribution.
//!
//! Each reading stands between two fenced readings of the finest counter there is, the *ruler*,
//! and what that advanced is taken. All ways have their turn one after the other, over and over, so
//! that whatever else the machine does hits all alike, and for each phase of the load there are
//! distributions of their own. The thread stays on one processor.
//!
//! The figures contain what the timing itself takes: the way [`NOTHING`], two readings of the ruler
//! with nothing between, shows it. It is not subtracted, as what overlaps in the processor does not
//! add up.
//!
//! Figures 14 to 16 of "The Case for Feed-Forward Clock Synchronization" are the paper's
//! measurements of this kind: what reading each counter takes, idle and under stress. They may be
//! compared in shape, not in figures: it was other hardware, and another kernel.

mod distribution;
mod plan;
mod trace;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use truechimer_counter::{Choice, Counter, CounterError, clocksource, nominal, resolution};

use crate::affinity::Pinned;
use crate::bench::{Clock, Reader, Unreadable, Way, nothing};
use crate::stress::{Load, Loader, Stress};

pub use distribution::{Bin, Distribution};
use distribution::{Ruler, Timings};
pub use plan::{Amount, Plan};
use trace::Tracer;
pub use trace::{Slot, Spread};

/// The name of timing nothing at all.
pub const NOTHING: &str = "nothing";

/// Rounds between two looks at the time and at whether to stop.
const ROUNDS: u32 = 16;
/// After a change of the load nothing is recorded for this long, or a tenth of the phase.
const SETTLE: Duration = Duration::from_millis(50);
/// Rounds before anything is recorded.
const WARM_UP: u32 = 1000;

/// Results of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// The clocksource meanwhile, if the kernel tells.
    pub clocksource: Option<String>,
    /// The counter by which readings are timed.
    pub ruler: String,
    /// Frequency of the ruler as it was used to convert, Hz, good to 500 ppm.
    pub ruler_hz: u64,
    /// Smallest step of the ruler, ns: figures are no finer.
    pub ruler_step_ns: f64,
    /// The processor on which all was read, if the thread could be kept to it.
    pub cpu: Option<usize>,
    /// Number of processors that were put under load.
    pub loaded_cpus: usize,
    /// Which phases alternated.
    pub stress: Stress,
    /// Length of each phase, s.
    pub phase_s: f64,
    /// Time that it all took, s.
    pub seconds: f64,
    /// True if it was ended before its time.
    pub cut_short: bool,
    /// The ways, in the order in which they had their turns.
    pub ways: Vec<String>,
    /// By load, the distribution of each way.
    pub loads: Vec<OfLoad>,
    /// Counters that cannot be read, and why.
    pub unreadable: Vec<Unreadable>,
    /// Course over time.
    pub trace: Vec<Slot>,
    /// Notes about it all.
    pub notes: Vec<String>,
}

/// Times that readings took under one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OfLoad {
    /// Which.
    pub load: Load,
    /// For each way.
    pub ways: Vec<Distribution>,
}

/// Reason why there are no measurements.
#[derive(Debug)]
pub enum LatencyError {
    /// Stopped as told before anything was recorded.
    Stopped,
    /// There is nothing to time readings by.
    NoRuler(CounterError),
    /// The load cannot be made.
    Load(io::Error),
    /// The thread cannot be kept to the processor that was asked for.
    Pin(usize, io::Error),
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LatencyError::Stopped => f.write_str("interrupted: nothing was measured"),
            LatencyError::NoRuler(why) => write!(f, "there is nothing to measure with: {why}"),
            LatencyError::Load(why) => write!(f, "the load cannot be made: {why}"),
            LatencyError::Pin(cpu, why) => write!(
                f,
                "cannot run on processor {cpu}: {why}; /proc/self/status has those allowed \
                 (Cpus_allowed_list)"
            ),
        }
    }
}

impl std::error::Error for LatencyError {}

/// The ways that are timed: three clocks by the vDSO, one by system call, and every counter.
fn ways() -> (Vec<(String, Reader)>, Vec<Unreadable>) {
    let clocks = [
        ("vdso realtime", Way::Vdso(Clock::Realtime)),
        ("vdso monotonic", Way::Vdso(Clock::Monotonic)),
        ("vdso raw", Way::Vdso(Clock::MonotonicRaw)),
        ("syscall raw", Way::SystemCall(Clock::MonotonicRaw)),
    ];
    let (mut ways, mut unreadable) = (Vec::new(), Vec::new());
    for (name, way) in clocks.map(|(name, way)| (name, Ok(way))).into_iter().chain(Way::direct()) {
        match way.and_then(Way::open) {
            Ok(reader) => ways.push((name.to_owned(), reader)),
            Err(why) => unreadable.push(Unreadable { what: name.to_owned(), why }),
        }
    }
    (ways, unreadable)
}

/// The finest counter: the architecture's own if it is sound, else the kernel's raw clock.
fn ruler() -> Result<Counter, CounterError> {
    [Choice::Tsc { fenced: true }, Choice::ArmGeneric]
        .into_iter()
        .find_map(|choice| Counter::open(choice).ok())
        .map_or_else(|| Counter::open(Choice::Raw), Ok)
        .map(Counter::fenced)
}

/// Measures. `stop` ends it early, with what there is by then; `tell` is told the share of the
/// work that is done, some times a second: 0 when all is ready, 1 in the end.
///
/// # Errors
/// Where nothing can be measured.
pub fn run(
    plan: &Plan,
    tell: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<Latency, LatencyError> {
    let ruler = ruler().map_err(LatencyError::NoRuler)?;
    let period = nominal(ruler).map_err(LatencyError::NoRuler)?.period;
    let scale = Ruler::new(period);
    let step = resolution(ruler);
    // Before the thread is pinned: the load is for all processors.
    let mut loader = Loader::start().map_err(LatencyError::Load)?;
    let mut notes = Vec::new();
    let pinned = match (Pinned::to(plan.cpu), plan.cpu) {
        (Ok(pinned), _) => Some(pinned),
        (Err(why), Some(cpu)) => return Err(LatencyError::Pin(cpu, why)),
        (Err(why), None) => {
            notes.push(format!("the thread could not be kept to one processor: {why}"));
            None
        }
    };
    let (ways, unreadable) = ways();
    let names: Vec<String> =
        std::iter::once(NOTHING.to_owned()).chain(ways.iter().map(|way| way.0.clone())).collect();
    let before = clocksource();
    let mut run = Run {
        plan,
        ruler,
        readers: ways.into_iter().map(|way| way.1).collect(),
        loads: plan.phases.stress.loads().iter().map(|load| (*load, timings(&names))).collect(),
        tracer: Tracer::new(names.len(), plan.slot()),
    };
    let seconds = run.all(&mut loader, tell, stop)?;
    if run.recorded() == 0 {
        return Err(LatencyError::Stopped);
    }
    if clocksource() != before {
        notes.push("the clocksource changed meanwhile: the figures are a mixture".into());
    }
    if matches!(ruler.kind(), truechimer_time::CounterKind::Raw) {
        notes.push(
            "there is no sound counter finer than CLOCK_MONOTONIC_RAW: it times the readings, and \
             what reading it takes is in each figure"
                .into(),
        );
    }
    Ok(Latency {
        clocksource: before,
        ruler: ruler.description().to_owned(),
        ruler_hz: period.hz(),
        ruler_step_ns: scale.nanos(step.0),
        cpu: pinned.as_ref().map(Pinned::cpu),
        loaded_cpus: loader.processors(),
        stress: plan.phases.stress,
        phase_s: plan.phases.each.as_secs_f64(),
        seconds: seconds.as_secs_f64(),
        cut_short: stop.load(Ordering::Relaxed),
        loads: run
            .loads
            .iter()
            .map(|(load, timings)| OfLoad {
                load: *load,
                ways: names
                    .iter()
                    .zip(timings)
                    .map(|(way, t)| t.distribution(way, &scale))
                    .collect(),
            })
            .collect(),
        trace: run.tracer.finish(&scale),
        ways: names,
        unreadable,
        notes,
    })
}

fn timings(names: &[String]) -> Vec<Timings> {
    names.iter().map(|_| Timings::new()).collect()
}

struct Run<'a> {
    plan: &'a Plan,
    ruler: Counter,
    readers: Vec<Reader>,
    loads: Vec<(Load, Vec<Timings>)>,
    tracer: Tracer,
}

impl Run<'_> {
    /// Measures all there is to measure; how long that took.
    fn all(
        &mut self,
        loader: &mut Loader,
        tell: &mut dyn FnMut(f64),
        stop: &AtomicBool,
    ) -> Result<Duration, LatencyError> {
        tell(0.0);
        for _ in 0..WARM_UP {
            self.round(None);
        }
        let settle = SETTLE.min(self.plan.phases.each / 10);
        let start = Instant::now();
        let (mut now, mut told) = (None, Instant::now());
        let mut settled = Duration::ZERO;
        loop {
            let elapsed = start.elapsed();
            let done = self.done(elapsed);
            if stop.load(Ordering::Relaxed) || done >= 1.0 {
                break;
            }
            if done > 0.0 && told.elapsed() > Duration::from_millis(200) {
                tell(done);
                told = Instant::now();
            }
            let load = self.plan.phases.at(elapsed);
            if now != Some(load) {
                if now.is_some() || load != Load::Quiet {
                    loader.set(load).map_err(LatencyError::Load)?;
                }
                now = Some(load);
                settled = start.elapsed() + settle;
                self.tracer.begin(load, elapsed);
            }
            if elapsed < settled {
                // The load has a moment to get under way; what is read meanwhile is not kept.
                self.round(None);
                continue;
            }
            for _ in 0..ROUNDS {
                self.round(Some(load));
            }
            self.tracer.tick(elapsed);
        }
        tell(1.0);
        Ok(start.elapsed())
    }

    /// Each way once, recorded for this load.
    #[inline]
    fn round(&mut self, load: Option<Load>) {
        let wanted = match self.plan.amount {
            Amount::Samples(wanted) => wanted,
            Amount::Time(_) => u64::MAX,
        };
        let timings = self.loads.iter_mut().find(|(of, _)| Some(*of) == load).map(|l| &mut l.1);
        let Some(timings) = timings else {
            for reader in &self.readers {
                reader.timed(self.ruler);
            }
            return;
        };
        if timings.first().is_some_and(|first| first.recorded() >= wanted) {
            // This load has its share; it lasts until the next phase all the same.
            thread::yield_now();
            return;
        }
        let tracer = &mut self.tracer;
        let mut timings = timings.iter_mut().enumerate();
        if let Some((nth, timings)) = timings.next() {
            let counts = nothing(self.ruler);
            timings.record(counts);
            tracer.record(nth, counts);
        }
        for ((nth, timings), reader) in timings.zip(&self.readers) {
            let counts = reader.timed(self.ruler);
            timings.record(counts);
            tracer.record(nth, counts);
        }
    }

    fn recorded(&self) -> u64 {
        let all = self.loads.iter().filter_map(|(_, timings)| timings.first());
        all.map(Timings::recorded).sum()
    }

    /// The share of the work that is done.
    fn done(&self, elapsed: Duration) -> f64 {
        match self.plan.amount {
            Amount::Time(all) => elapsed.as_secs_f64() / all.as_secs_f64().max(1e-9),
            Amount::Samples(wanted) => {
                let wanted = wanted.max(1) * self.loads.len() as u64;
                self.recorded() as f64 / wanted as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::Cpus;
    use crate::stress::Phases;

    fn plan(stress: Stress, amount: Amount) -> Plan {
        let phases = Phases { stress, each: Duration::from_millis(40) };
        Plan { phases, amount, cpu: None }
    }

    #[test]
    fn every_way_is_timed_alike_under_every_load() {
        let before = Cpus::allowed().unwrap();
        let plan = plan(Stress::All, Amount::Samples(300));
        let mut shares = Vec::new();
        let found = run(&plan, &mut |share| shares.push(share), &AtomicBool::new(false)).unwrap();
        assert_eq!(Cpus::allowed().unwrap(), before, "the affinity is as it was");
        assert_eq!(shares.last(), Some(&1.0));
        assert!(!found.cut_short);
        assert!(found.ways.len() > 4 && found.ways[0] == NOTHING, "{:?}", found.ways);
        let loads: Vec<Load> = found.loads.iter().map(|of| of.load).collect();
        assert_eq!(loads, Load::ALL);
        for of in &found.loads {
            assert_eq!(of.ways.len(), found.ways.len());
            for (way, name) in of.ways.iter().zip(&found.ways) {
                assert_eq!((&way.way, way.readings + way.backwards), (name, 300), "{way:?}");
                let ascending = [way.min_ns, way.p25_ns, way.median_ns, way.p75_ns, way.p95_ns];
                assert!(ascending.is_sorted(), "{way:?}");
                assert!([way.p95_ns, way.p99_ns, way.p999_ns, way.max_ns].is_sorted(), "{way:?}");
                assert_eq!(way.bins.iter().map(|bin| bin.count).sum::<u64>(), way.readings);
            }
        }
        assert!(!found.trace.is_empty());
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Latency>(&text).unwrap().ways, found.ways);
    }

    #[test]
    fn it_ends_when_told_to() {
        let stop = AtomicBool::new(true);
        let hour = plan(Stress::None, Amount::Time(Duration::from_secs(3600)));
        assert!(matches!(run(&hour, &mut |_| {}, &stop), Err(LatencyError::Stopped)));
        let stop = AtomicBool::new(false);
        let mut tell = |share| stop.store(share > 0.0, Ordering::Relaxed);
        let found = run(&hour, &mut tell, &stop).unwrap();
        assert!(found.cut_short && found.loads[0].ways[0].readings > 0);
    }

    #[test]
    fn a_processor_that_is_not_there_is_an_error() {
        let plan = Plan { cpu: Some(8191), ..plan(Stress::None, Amount::Samples(10)) };
        let why = run(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap_err();
        assert!(why.to_string().contains("processor 8191"), "{why}");
    }
}
