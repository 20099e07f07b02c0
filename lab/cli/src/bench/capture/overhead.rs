//! Cost of a stamp in the kernel, and how it varies: the tables I and II of the 2013 paper, on a
//! stock kernel.

pub mod host;
mod probe;
pub mod series;
pub mod show;
mod traffic;
mod warm;

use std::time::Duration;

use truechimer_counter::affinity::Cpus;
use truechimer_counter::{Counter, nominal, resolution};
use truechimer_time::{CountSpan, CounterKind, Period};

use crate::bench::capture::bed::Bed;
use crate::bench::capture::options::Options;
use host::Place;
use probe::{Act, Probe, Ruler};
use series::{Block, Random, Series};
use traffic::{PATTERNS, Pattern, Sender};
use truechimer_outcome::outcome::{Failure, Outcome};
use warm::Cost;

/// The kernel begins and ends to stamp by a worker of its own.
const SWITCHING: Duration = Duration::from_millis(40);

/// A block that others on the machine have spoilt is sent again, so often at most.
const ATTEMPTS: usize = 3;

/// One kind of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    act: Act,
    /// True if packets are stamped by the kernel meanwhile.
    stamped: bool,
    name: &'static str,
    /// Kind that it is compared with: an index into [`KINDS`].
    ground: usize,
}

/// Which of [`KINDS`] is the kernel without a stamp.
const UNSTAMPED: usize = 4;

const KINDS: [Kind; 6] = [
    Kind { act: Act::Nothing, stamped: false, name: "empty bracket", ground: 0 },
    Kind { act: Act::Monotonic, stamped: false, name: "CLOCK_MONOTONIC (BPF)", ground: 0 },
    Kind { act: Act::Tai, stamped: false, name: "CLOCK_TAI (BPF)", ground: 0 },
    Kind { act: Act::Count, stamped: false, name: "raw count (BPF, msr/tsc)", ground: 0 },
    Kind { act: Act::Kernel, stamped: false, name: "tracepoints, no stamp", ground: UNSTAMPED },
    Kind {
        act: Act::Kernel,
        stamped: true,
        name: "tracepoints, kernel's stamp",
        ground: UNSTAMPED,
    },
];

/// Measurements of one pattern.
#[derive(Clone, Debug)]
struct Measured {
    pattern: Pattern,
    /// Series of each kind, in the order of [`KINDS`].
    series: Vec<Series>,
    /// Packets that were stamped though nobody here wanted it, or not though wanted.
    misfits: usize,
    /// Packets of which no record came.
    missing: usize,
}

/// All of it.
#[derive(Clone, Debug)]
struct Overhead {
    measured: Vec<Measured>,
    costs: Vec<Cost>,
    /// The ruler's step, ns.
    step: f64,
    /// Reason why the ruler is not the TSC.
    no_tsc: Option<String>,
    cpu: usize,
}

/// Measures it.
///
/// # Errors
/// Where programs cannot be loaded or namespaces not be made.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    let bed = Bed::new(1)?;
    let place = Place::of(bed.sender())?;
    let (ruler, why) = Ruler::best();
    let (period, step) = scale(&ruler)?;
    let allowed = Cpus::allowed().map_err(|error| Failure::of("asking for processors", error))?;
    let cpu = allowed.iter().last().unwrap_or(0);
    let mut measured = Vec::new();
    for pattern in PATTERNS {
        let rounds = options.rounds(pattern.rounds, pattern.quick);
        options.say(&format!("overhead: {}, {rounds} rounds of every kind", pattern.name));
        let work = || {
            place.enter()?;
            Cpus::one(cpu).apply().map_err(|error| Failure::of("keeping to a processor", error))?;
            measure(pattern, rounds, &ruler, period)
        };
        let done = std::thread::scope(|scope| scope.spawn(work).join());
        measured.push(done.map_err(|_| Failure("a measuring thread ended early".to_owned()))??);
    }
    options.say("overhead: the same readings back to back");
    let costs = warm::costs(&ruler, if options.quick { 5 } else { 25 })?;
    let no_tsc = why.map(|error| error.to_string());
    Ok(show::outcome(&Overhead { measured, costs, step, no_tsc, cpu }))
}

/// The ruler's period, and its step in ns.
fn scale(ruler: &Ruler) -> Result<(Period, f64), Failure> {
    match ruler {
        Ruler::Clock => Ok((Period::NANOSECOND, 1.0)),
        Ruler::Tsc(_) => {
            let failed = |error| Failure::of("timing the TSC", error);
            let counter = Counter::of_kind(CounterKind::Tsc).map_err(failed)?;
            let period = nominal(counter).map_err(failed)?.period;
            Ok((period, nanos(period, resolution(counter).0)))
        }
    }
}

fn nanos(period: Period, counts: i64) -> f64 {
    period.span(CountSpan(counts)).as_picos() as f64 / 1000.0
}

/// One pattern, in the calling thread.
fn measure(
    pattern: Pattern,
    rounds: usize,
    ruler: &Ruler,
    period: Period,
) -> Result<Measured, Failure> {
    let mut probe = Probe::new(ruler, pattern.ip_length())?;
    let mut sender = Sender::new(pattern)?;
    let mut measured =
        Measured { pattern, series: vec![Series::new(); KINDS.len()], misfits: 0, missing: 0 };
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    let mut origin = None;
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..KINDS.len()).collect();
        for n in (1..order.len()).rev() {
            order.swap(n, random.below(n + 1));
        }
        for n in order {
            let Some(kind) = KINDS.get(n) else { continue };
            if kind.act == Act::Count && matches!(ruler, Ruler::Clock) {
                continue;
            }
            let mut block = Block::default();
            for _ in 0..ATTEMPTS {
                block = Block::default();
                let stamps = kind.stamped.then(host::stamping).transpose()?;
                std::thread::sleep(SWITCHING);
                probe.set(kind.act)?;
                let first = sender.send(pattern.block)?;
                let records = probe.take()?;
                drop(stamps);
                let begin = records.first().map_or(0, |record| record.before);
                let origin = *origin.get_or_insert(begin);
                measured.missing += pattern.block.saturating_sub(records.len());
                // The first packet meets caches as another kind has left them.
                for record in records.iter().filter(|record| record.number != first) {
                    if kind.act == Act::Kernel && record.stamped != kind.stamped {
                        measured.misfits += 1;
                        continue;
                    }
                    let ns =
                        |from: u64, to: u64| nanos(period, to.wrapping_sub(from).cast_signed());
                    block.cost.push(ns(record.before, record.after));
                    block.at.push(ns(origin, record.after));
                }
                if 2 * block.cost.len() > pattern.block {
                    break;
                }
            }
            if let Some(series) = measured.series.get_mut(n) {
                series.push(block);
            }
        }
    }
    Ok(measured)
}
