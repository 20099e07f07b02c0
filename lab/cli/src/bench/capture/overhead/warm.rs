//! Costs of the same readings back to back, with everything in the caches: BPF's own test runs, and
//! the counter in user space.

use std::time::Instant;

use truechimer_capture::bpf::{Asm, BpfError, Helper, Program, ProgramKind};
use truechimer_counter::{Choice, Counter};

use super::probe::Ruler;
use truechimer_outcome::outcome::Failure;
use truechimer_outcome::stats::median;

/// Calls in a program.
const CALLS: usize = 64;
/// Runs of a program at a time.
const REPEAT: u32 = 2000;
const READS: u32 = 20_000;

/// Cost of a reading, ns: the median of the rounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// Of what.
    pub name: String,
    /// Cost, ns.
    pub ns: f64,
}

/// Everything, round by round.
///
/// # Errors
/// Where programs cannot be run.
pub fn costs(ruler: &Ruler, rounds: usize) -> Result<Vec<Cost>, Failure> {
    measured(ruler, rounds).map_err(|error| Failure(error.to_string()))
}

fn measured(ruler: &Ruler, rounds: usize) -> Result<Vec<Cost>, BpfError> {
    let program = |name: &str, write: &dyn Fn(&mut Asm)| {
        let mut asm = Asm::new();
        for _ in 0..CALLS {
            write(&mut asm);
        }
        asm.give(0);
        Program::load(ProgramKind::Xdp, "cost", &asm).map(|program| (name.to_owned(), program))
    };
    let helper = |helper: Helper| {
        move |asm: &mut Asm| {
            asm.call(helper);
        }
    };
    let mut programs = vec![
        program("", &|_| ())?,
        program("BPF: CLOCK_MONOTONIC of the last tick", &helper(Helper::KtimeGetCoarseNs))?,
        program("BPF: CLOCK_MONOTONIC", &helper(Helper::KtimeGetNs))?,
        program("BPF: CLOCK_TAI", &helper(Helper::KtimeGetTaiNs))?,
    ];
    if let Ruler::Tsc(tsc) = ruler {
        programs.push(program("BPF: the count, by the perf event msr/tsc", &|asm| {
            tsc.read(asm);
        })?);
    }
    let mut runs = vec![Vec::new(); programs.len()];
    let counter = Counter::open(Choice::Auto).ok();
    let mut plain = Vec::new();
    let mut fenced = Vec::new();
    for _ in 0..rounds {
        let mut empty = 0.0;
        for (n, ((_, program), runs)) in programs.iter().zip(&mut runs).enumerate() {
            let nanos = f64::from(program.test_run(&[0; 64], REPEAT)?.nanos);
            if n == 0 {
                empty = nanos;
            } else {
                runs.push((nanos - empty) / CALLS as f64);
            }
        }
        if let Some(counter) = counter {
            plain.push(reading(counter));
            fenced.push(reading(counter.fenced()));
        }
    }
    let mut costs: Vec<Cost> = programs
        .into_iter()
        .zip(&runs)
        .skip(1)
        .map(|((name, _), runs)| Cost { name, ns: median(runs) })
        .collect();
    if let Some(counter) = counter {
        let name = counter.description();
        costs.push(Cost { name: format!("user space: {name}"), ns: median(&plain) });
        let name = counter.fenced().description();
        costs.push(Cost { name: format!("user space: {name}"), ns: median(&fenced) });
    }
    Ok(costs)
}

/// One reading of a counter in user space, ns.
fn reading(counter: Counter) -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(counter.read());
    }
    start.elapsed().as_nanos() as f64 / f64::from(READS)
}
