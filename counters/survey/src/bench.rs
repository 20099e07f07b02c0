//! Comparison by the same number of readings of every clock and counter.
//!
//! The classic comparison of clocksources: the time that, say, ten million readings take, as
//! `time` would show it, and what that is for each. For every clocksource that may be selected the
//! ways through the kernel are gone (by the vDSO and by system call), and once the counters that
//! can be read directly, which no clocksource changes.

mod found;
mod reads;
mod way;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::analysis::median;
use crate::clocksource::{ClocksourceError, Clocksources, Restored, Switch};
use crate::sys;

pub use found::{Bench, CoarseStep, Cost, OfSource, Unreadable};
pub use reads::parse_reads;
pub(crate) use way::nothing;
pub use way::{By, Clock, Reader, Way};

/// Readings between two looks at whether to stop: 1 ms, if a reading takes 1 µs.
const BETWEEN_LOOKS: u64 = 1000;
/// The readings are divided into so many batches, if they are enough; each of at least so many.
const BATCHES: u64 = 100;
const BATCH: u64 = 1000;
/// Readings by which it is found out how long the whole will take.
const PROBE: u64 = 200;
/// Steps of a coarse clock that are looked at.
const COARSE_STEPS: usize = 9;
/// Where the vDSO takes at least this share of what the system call takes, it makes one.
const AS_DEAR: f64 = 0.75;

/// Plan of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of readings of each.
    pub reads: u64,
    /// True to change the clocksource, so that all of them can be compared.
    pub switch: bool,
    /// Where the clocksources are.
    pub clocksources: Clocksources,
}

/// Progress, for those who wait.
#[derive(Clone, PartialEq, Debug)]
pub enum Progress<'a> {
    /// The clocksource is about to be changed: what this means, and how to put it back by hand.
    Warning {
        /// Clocksource in use.
        original: &'a str,
        /// Clocksources that will be used for a while.
        others: &'a [String],
        /// A command.
        mend: String,
    },
    /// The next ones: of this clocksource, or those that are read directly.
    Begin {
        /// Which.
        clocksource: Option<&'a str>,
        /// Number of ways.
        ways: usize,
        /// About how long they will take.
        about: Duration,
    },
}

/// Reason why there is no comparison.
#[derive(Debug)]
pub enum BenchError {
    /// Stopped as told. Holds what the clocksource was left at, if it was changed.
    Stopped(Option<Restored>),
    /// About the clocksource.
    Clocksource(ClocksourceError),
    /// The clocksource could not be put back.
    NotRestored {
        /// Cause.
        why: ClocksourceError,
        /// The command that would.
        mend: String,
    },
    /// The kernel does not tell what was used.
    Usage(io::Error),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Stopped(None) => f.write_str("interrupted"),
            BenchError::Stopped(Some(Restored::Back(name))) => {
                write!(f, "interrupted; the clocksource is {name} again")
            }
            BenchError::Stopped(Some(Restored::Theirs { original, found })) => write!(
                f,
                "interrupted; somebody else has changed the clocksource to '{found}' meanwhile, \
                 and it is left so (it was '{original}')"
            ),
            BenchError::Clocksource(why) => why.fmt(f),
            BenchError::NotRestored { why, mend } => {
                write!(f, "the clocksource could not be put back: {why}; by hand: {mend}")
            }
            BenchError::Usage(why) => write!(f, "the time used cannot be read (getrusage): {why}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<ClocksourceError> for BenchError {
    fn from(why: ClocksourceError) -> BenchError {
        BenchError::Clocksource(why)
    }
}

/// Makes the comparison. `stop` ends it early, and within a few milliseconds; the clocksource is
/// put back whatever happens.
///
/// # Errors
/// Where it was stopped, or the clocksource cannot be changed or put back.
pub fn run(
    plan: &Plan,
    progress: &mut dyn FnMut(Progress<'_>),
    stop: &AtomicBool,
) -> Result<Bench, BenchError> {
    let mut bench = Bench {
        reads: plan.reads,
        clocksource: None,
        not_selected: Vec::new(),
        sources: Vec::new(),
        direct: Vec::new(),
        unreadable: Vec::new(),
        coarse: Vec::new(),
        notes: Vec::new(),
    };
    let all = plan.clocksources.current().and_then(|now| Ok((now, plan.clocksources.available()?)));
    let others = match all {
        Ok((current, mut available)) => {
            available.retain(|name| *name != current);
            bench.clocksource = Some(current);
            available
        }
        Err(why) if plan.switch => return Err(why.into()),
        Err(why) => {
            bench.notes.push(format!("which clocksource is in use is not known: {why}"));
            Vec::new()
        }
    };
    let mut switch = None;
    if plan.switch && !others.is_empty() {
        // Rather than after all that can be measured without.
        plan.clocksources.writable()?;
        switch = Some(Switch::new(plan.clocksources.clone())?);
    }
    bench.coarse = coarse_steps(stop)?;
    bench.direct(progress, stop)?;
    let current = bench.clocksource.clone();
    let costs = bench.of_the_kernel(current.as_deref(), progress, stop)?;
    bench.sources.push(costs);
    if let Some(switch) = switch {
        bench.switch_through(switch, &others, progress, stop)?;
    } else {
        if plan.switch {
            bench.notes.push("the kernel offers no other clocksource to compare with".into());
        }
        bench.not_selected = others;
    }
    bench.compare();
    Ok(bench)
}

impl Bench {
    /// Measures under each of the other clocksources.
    fn switch_through(
        &mut self,
        mut switch: Switch,
        others: &[String],
        progress: &mut dyn FnMut(Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<(), BenchError> {
        let mend = switch.mend();
        progress(Progress::Warning { original: switch.original(), others, mend: mend.clone() });
        let result = self.each_other(&mut switch, others, progress, stop);
        // First put back, then complain.
        let restored = switch.restore();
        match (result, restored) {
            (Err(BenchError::Stopped(_)), Ok(how)) => Err(BenchError::Stopped(Some(how))),
            (_, Err(why)) => Err(BenchError::NotRestored { why, mend }),
            (result, Ok(Restored::Back(_))) => result,
            (Ok(()), Ok(Restored::Theirs { original, found })) => {
                Err(ClocksourceError::Changed { ours: original, found }.into())
            }
            (Err(why), Ok(Restored::Theirs { .. })) => Err(why),
        }
    }

    fn each_other(
        &mut self,
        switch: &mut Switch,
        others: &[String],
        progress: &mut dyn FnMut(Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<(), BenchError> {
        for name in others {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Stopped(None));
            }
            let costs = match switch.to(name) {
                Ok(()) => self.of_the_kernel(Some(name), progress, stop)?,
                // One that is not to be had is no reason not to try the next.
                Err(
                    why
                    @ (ClocksourceError::Refused { .. } | ClocksourceError::NotAvailable { .. }),
                ) => OfSource {
                    clocksource: Some(name.clone()),
                    in_vdso: None,
                    costs: Vec::new(),
                    refused: Some(why.to_string()),
                },
                Err(why) => return Err(why.into()),
            };
            // What was measured under something else would be a lie.
            switch.unchanged()?;
            self.sources.push(costs);
        }
        Ok(())
    }

    /// Every way through the kernel.
    fn of_the_kernel(
        &mut self,
        clocksource: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<OfSource, BenchError> {
        let mut ways = Vec::new();
        for way in Way::of_the_kernel() {
            match way.open() {
                Ok(reader) => ways.push((way, reader)),
                Err(why) => self.cannot(way.what(), why),
            }
        }
        let costs = self.measure(clocksource, &ways, progress, stop)?;
        let ns = |by: By| {
            let same = |cost: &&Cost| cost.by == by && cost.what == Clock::Monotonic.name();
            costs.iter().find(same).map(|cost| cost.ns)
        };
        let in_vdso = ns(By::Vdso).zip(ns(By::SystemCall)).map(|(v, call)| v < AS_DEAR * call);
        let clocksource = clocksource.map(str::to_owned);
        Ok(OfSource { clocksource, in_vdso, costs, refused: None })
    }

    /// Every counter that can be read directly.
    fn direct(
        &mut self,
        progress: &mut dyn FnMut(Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<(), BenchError> {
        let mut ways = Vec::new();
        for (name, way) in Way::direct() {
            match way.and_then(|way| Ok((way, way.open()?))) {
                Ok(way) => ways.push(way),
                Err(why) => self.cannot(name, why),
            }
        }
        if !ways.is_empty() {
            self.direct = self.measure(None, &ways, progress, stop)?;
        }
        Ok(())
    }

    fn cannot(&mut self, what: &str, why: String) {
        if !self.unreadable.iter().any(|other| other.what == what) {
            self.unreadable.push(Unreadable { what: what.to_owned(), why });
        }
    }

    fn measure(
        &self,
        clocksource: Option<&str>,
        ways: &[(Way, Reader)],
        progress: &mut dyn FnMut(Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<Vec<Cost>, BenchError> {
        let probe = Instant::now();
        for (_, reader) in ways {
            reader.repeat(self.reads.min(PROBE));
        }
        let about = probe.elapsed().mul_f64(self.reads as f64 / self.reads.min(PROBE) as f64);
        progress(Progress::Begin { clocksource, ways: ways.len(), about });
        ways.iter().map(|(way, reader)| cost(*way, *reader, self.reads, stop)).collect()
    }

    /// Fills in the ratios to the cheapest.
    fn compare(&mut self) {
        let all = || self.sources.iter().flat_map(|of| &of.costs).chain(&self.direct);
        let fine = all().filter(|cost| !cost.coarse && cost.ns > 0.0);
        let cheapest = fine.map(|cost| cost.ns).fold(f64::INFINITY, f64::min);
        let costs = self.sources.iter_mut().flat_map(|of| &mut of.costs).chain(&mut self.direct);
        for cost in costs {
            cost.ratio = cost.ns / cheapest;
        }
    }
}

/// Measures the cost of `reads` readings.
fn cost(way: Way, reader: Reader, reads: u64, stop: &AtomicBool) -> Result<Cost, BenchError> {
    let batches = (reads / BATCH).clamp(1, BATCHES);
    let mut each = Vec::new();
    let before = sys::used().map_err(BenchError::Usage)?;
    let begun = Instant::now();
    for nth in 0..batches {
        // The first ones take what does not divide.
        let batch = reads / batches + u64::from(nth < reads % batches);
        let start = Instant::now();
        let mut left = batch;
        while left > 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Stopped(None));
            }
            let now = left.min(BETWEEN_LOOKS);
            reader.repeat(now);
            left -= now;
        }
        each.push(start.elapsed().as_nanos() as f64 / batch as f64);
    }
    let real = begun.elapsed();
    let after = sys::used().map_err(BenchError::Usage)?;
    Ok(Cost {
        by: way.by(),
        what: way.what().to_owned(),
        coarse: way.is_coarse(),
        real_s: real.as_secs_f64(),
        user_s: after.0.saturating_sub(before.0).as_secs_f64(),
        system_s: after.1.saturating_sub(before.1).as_secs_f64(),
        ns: (median(each.into_iter()).unwrap_or(f64::NAN) * 100.0).round() / 100.0,
        ratio: f64::NAN,
    })
}

/// Looks at the coarse clocks until they have gone on some steps; a few dozen milliseconds.
fn coarse_steps(stop: &AtomicBool) -> Result<Vec<CoarseStep>, BenchError> {
    let mut found = Vec::new();
    for clock in Clock::ALL.into_iter().filter(|clock| Way::Vdso(*clock).is_coarse()) {
        let Ok(said) = sys::resolution(clock.id()) else { continue };
        let mut steps = Vec::new();
        let mut last = sys::by_vdso(clock.id());
        let end = Instant::now() + Duration::from_millis(50).max(4 * said * COARSE_STEPS as u32);
        while steps.len() < COARSE_STEPS && Instant::now() < end {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Stopped(None));
            }
            let now = sys::by_vdso(clock.id());
            if now != last {
                steps.push(now.wrapping_sub(last));
                last = now;
            }
        }
        let said_ns = u64::try_from(said.as_nanos()).unwrap_or(u64::MAX);
        let seen_ns = steps.iter().min().copied();
        found.push(CoarseStep { clock: clock.name().to_owned(), said_ns, seen_ns });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocksource::tests::Fake;

    fn plan(fake: &Fake, switch: bool) -> Plan {
        Plan { reads: 2500, switch, clocksources: fake.sources() }
    }

    fn names(bench: &Bench) -> Vec<&str> {
        bench.sources.iter().filter_map(|of| of.clocksource.as_deref()).collect()
    }

    #[test]
    fn without_switching_nothing_is_changed() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let stop = AtomicBool::new(false);
        let mut begun = 0;
        let bench = run(
            &plan(&fake, false),
            &mut |progress| {
                assert!(matches!(progress, Progress::Begin { .. }), "{progress:?}");
                begun += 1;
            },
            &stop,
        );
        let bench = bench.unwrap();
        assert!(begun >= 1);
        assert_eq!((names(&bench), bench.clocksource.as_deref()), (vec!["tsc"], Some("tsc")));
        assert_eq!(bench.not_selected, ["hpet", "acpi_pm"]);
        let costs = &bench.sources[0].costs;
        assert_eq!(costs.len(), Way::of_the_kernel().len());
        for cost in costs.iter().chain(&bench.direct) {
            assert!(cost.ns > 0.0 && cost.real_s > 0.0 && cost.ratio > 0.0, "{cost:?}");
            assert!(cost.user_s >= 0.0 && cost.system_s >= 0.0, "{cost:?}");
            assert!(cost.coarse || cost.ratio >= 1.0, "{cost:?}");
        }
        assert_eq!(bench.coarse.len(), 2);
        assert!(bench.coarse.iter().all(|step| step.said_ns > 0), "{:?}", bench.coarse);
    }

    #[test]
    fn every_clocksource_has_its_turn_and_the_first_is_put_back() {
        let fake = Fake::new("hpet", "tsc hpet acpi_pm");
        let mut during = Vec::new();
        let mut warned = 0;
        let bench = run(
            &plan(&fake, true),
            &mut |progress| match progress {
                Progress::Warning { original, others, mend } => {
                    assert_eq!((original, others.len()), ("hpet", 2));
                    assert!(mend.starts_with("echo hpet > "), "{mend}");
                    assert_eq!(fake.sources().current().unwrap(), "hpet", "said before it is done");
                    warned += 1;
                }
                Progress::Begin { clocksource: Some(name), .. } => {
                    assert_eq!(fake.sources().current().unwrap(), name);
                    during.push(name.to_owned());
                }
                Progress::Begin { .. } => {}
            },
            &AtomicBool::new(false),
        );
        let bench = bench.unwrap();
        assert_eq!(
            (warned, during.as_slice()),
            (1, &["hpet", "tsc", "acpi_pm"].map(str::to_owned)[..])
        );
        assert_eq!(names(&bench), ["hpet", "tsc", "acpi_pm"]);
        assert!(bench.not_selected.is_empty());
        assert_eq!(fake.sources().current().unwrap(), "hpet");
    }

    #[test]
    fn it_is_put_back_when_stopped_in_the_middle() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let stop = AtomicBool::new(false);
        let result = run(
            &Plan { reads: 1_000_000_000_000, ..plan(&fake, true) },
            &mut |progress| {
                // As if the signal came while the first other one is measured; the first one
                // would go on for hours.
                if matches!(progress, Progress::Begin { .. }) {
                    stop.store(true, Ordering::Relaxed);
                }
            },
            &stop,
        );
        assert!(matches!(result, Err(BenchError::Stopped(None))), "{result:?}");

        let stop = AtomicBool::new(false);
        let result = run(
            &plan(&fake, true),
            &mut |progress| {
                if matches!(progress, Progress::Begin { clocksource: Some("hpet"), .. }) {
                    assert_eq!(fake.sources().current().unwrap(), "hpet");
                    stop.store(true, Ordering::Relaxed);
                }
            },
            &stop,
        );
        let why = result.unwrap_err();
        assert!(matches!(why, BenchError::Stopped(Some(Restored::Back(_)))), "{why:?}");
        assert_eq!(why.to_string(), "interrupted; the clocksource is tsc again");
        assert_eq!(fake.sources().current().unwrap(), "tsc");
    }

    #[test]
    fn a_change_by_somebody_else_ends_it_and_stays() {
        let fake = Fake::new("tsc", "tsc hpet acpi_pm");
        let result = run(
            &plan(&fake, true),
            &mut |progress| {
                if matches!(progress, Progress::Begin { clocksource: Some("hpet"), .. }) {
                    fake.put("current_clocksource", "acpi_pm");
                }
            },
            &AtomicBool::new(false),
        );
        assert!(result.unwrap_err().to_string().contains("somebody else"));
        assert_eq!(fake.sources().current().unwrap(), "acpi_pm");
    }

    #[test]
    fn a_refused_clocksource_does_not_end_it() {
        let fake = Fake::new("tsc", "tsc hpet");
        let plan = Plan { clocksources: fake.deaf(), ..plan(&fake, true) };
        let bench = run(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        let refused = bench.sources[1].refused.as_deref().unwrap();
        assert!(refused.contains("'hpet'"), "{refused}");
        assert!(bench.sources[1].costs.is_empty());
    }

    #[test]
    fn without_the_kernels_word_there_is_no_switching() {
        let fake = Fake::new("tsc", "tsc hpet");
        fake.remove("available_clocksource");
        let stop = AtomicBool::new(false);
        assert!(run(&plan(&fake, true), &mut |_| {}, &stop).is_err());
        let bench = run(&plan(&fake, false), &mut |_| {}, &stop).unwrap();
        assert_eq!((bench.clocksource, bench.notes.len()), (None, 1));
    }
}
