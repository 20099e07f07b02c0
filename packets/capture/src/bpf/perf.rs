//! The bare time stamp counter in programs, through the kernel's `msr` perf events.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::asm::Asm;
use super::encode::{Reg, Size};
use super::error::BpfError;
use super::helper::Helper;
use super::map::{Map, cpus};
use super::program::{Program, ProgramKind};
use super::sys;

const DEVICE: &str = "/sys/bus/event_source/devices/msr";
/// "The event of the CPU that this runs on."
const CURRENT_CPU: i32 = -1;
/// Comparisons for one CPU's base; the narrowest ones count.
const LOOKS: usize = 400;

/// Perf events that count the TSC, one for each CPU.
#[derive(Debug)]
pub struct Tsc {
    map: Map,
    cpus: Vec<u32>,
    _events: Vec<OwnedFd>,
}

/// A CPU's event begins to count when it is opened: counter = `counts` + what the event says,
/// within ± `error`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// The CPU.
    pub cpu: u32,
    /// Counter when the event began.
    pub counts: u64,
    /// |true − `counts`| is not above this, counts.
    pub error: u64,
}

impl Tsc {
    /// Opens the event on every CPU that is there.
    ///
    /// # Errors
    /// Where the kernel has no such event (only x86 has), or rights are missing.
    pub fn open() -> Result<Tsc, BpfError> {
        let doing = "opening the perf event `msr/tsc`";
        let none = |why: String| {
            BpfError::ours(doing, why)
                .mend("only kernels for x86 have it; elsewhere, stamp by the kernel's clock")
        };
        let read = |name: &str| {
            let path = format!("{DEVICE}/{name}");
            std::fs::read_to_string(&path).map_err(|error| none(format!("{path}: {error}")))
        };
        let kind = read("type")?;
        let kind = kind.trim().parse().map_err(|_| none(format!("{DEVICE}/type is no number")))?;
        let event = read("events/tsc")?;
        let config = event_config(event.trim())
            .ok_or_else(|| none(format!("{DEVICE}/events/tsc says `{}`", event.trim())))?;
        let cpus = cpus("/sys/devices/system/cpu/online").map_err(none)?;
        let most = cpus.last().map_or(1, |cpu| cpu + 1);
        let map = Map::perf_event_array(most)?;
        let mut events = Vec::new();
        for &cpu in &cpus {
            let event = sys::perf_event(kind, config, cpu.cast_signed()).map_err(|error| {
                BpfError::system(format!("{doing} on CPU {cpu}"), &error, "cap_perfmon")
            })?;
            map.set_fd(cpu, std::os::fd::AsFd::as_fd(&event))?;
            events.push(event);
        }
        Ok(Tsc { map, cpus, _events: events })
    }

    /// The CPUs it was opened on.
    #[must_use]
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Appends the reading of this CPU's event into R0 (R1 to R5 are lost): counts since the event
    /// was opened, or −errno as a 64-bit number.
    pub fn read<'a>(&self, asm: &'a mut Asm) -> &'a mut Asm {
        asm.map(Reg::R1, &self.map).mov32(Reg::R2, CURRENT_CPU).call(Helper::PerfEventRead)
    }

    /// Where every CPU's event began, by comparing through `CLOCK_MONOTONIC`: `now` reads the
    /// counter, `nanos_per_count` is its period in ns. The calling thread visits each CPU and is
    /// put back to where it was allowed to run.
    ///
    /// # Errors
    /// Where rights are missing, a CPU may not be used, or the comparisons contradict each other.
    pub fn bases(
        &self,
        nanos_per_count: f64,
        now: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<Base>, BpfError> {
        let result = Map::array(24, 1)?;
        let program = self.comparison(&result)?;
        let doing = "comparing the perf event with the counter";
        let failed = |error: Errno| BpfError::system(doing, &error.into(), "cap_sys_nice");
        let before = sched_getaffinity(None).map_err(failed)?;
        let mut bases = Vec::new();
        for &cpu in &self.cpus {
            let base = only(cpu)
                .ok_or_else(|| BpfError::ours(doing, format!("CPU {cpu} is out of reach")))
                .and_then(|set| sched_setaffinity(None, &set).map_err(failed))
                .and_then(|()| base(cpu, &program, &result, nanos_per_count, now));
            match base {
                Ok(base) => bases.push(base),
                Err(error) => {
                    sched_setaffinity(None, &before).map_err(failed)?;
                    return Err(error);
                }
            }
        }
        sched_setaffinity(None, &before).map_err(failed)?;
        Ok(bases)
    }

    /// A program that reads event, clock, event into `result`.
    fn comparison(&self, result: &Map) -> Result<Program, BpfError> {
        let mut asm = Asm::new();
        self.read(&mut asm).mov(Reg::R6, Reg::R0);
        asm.call(Helper::KtimeGetNs).mov(Reg::R7, Reg::R0);
        self.read(&mut asm).mov(Reg::R8, Reg::R0);
        asm.map_value(Reg::R1, result, 0);
        asm.store(Size::U64, Reg::R1, 0, Reg::R6).store(Size::U64, Reg::R1, 8, Reg::R7);
        asm.store(Size::U64, Reg::R1, 16, Reg::R8).give(0);
        Program::load(ProgramKind::RawTracepoint, "tsc_base", &asm)
    }
}

/// The set of this CPU alone.
fn only(cpu: u32) -> Option<CpuSet> {
    let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_CPU)?;
    let mut set = CpuSet::new();
    set.set(cpu);
    Some(set)
}

/// `CLOCK_MONOTONIC`, ns.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The base of the CPU that the thread is on: every comparison allows an interval, the truth is in
/// all of them.
fn base(
    cpu: u32,
    program: &Program,
    result: &Map,
    nanos_per_count: f64,
    now: &mut dyn FnMut() -> u64,
) -> Result<Base, BpfError> {
    let doing = format!("comparing the perf event of CPU {cpu} with the counter");
    let mut interval: Option<(i128, i128)> = None;
    for _ in 0..LOOKS {
        let before = now();
        let clock = monotonic();
        let after = now();
        program.test_run_arguments(&[], None)?;
        let words = result.words(0)?;
        let [first, clock_there, last] = words.as_slice() else {
            return Err(BpfError::ours(doing, "the program left no result"));
        };
        if clock_there.wrapping_sub(clock) > 1_000_000 || (*last).cast_signed() < 0 {
            // Descheduled in between (the clock may be slewed), or no event.
            continue;
        }
        // The clock is read in whole nanoseconds at both ends, and may be slewed by 1000 ppm:
        // 500 by the kernel's NTP code, as much by adjtime; 100 for the nominal period.
        let passed = (*clock_there - clock) as f64;
        let least = ((passed - 1.0) / nanos_per_count * 0.998_9).floor() as i128;
        let most = ((passed + 1.0) / nanos_per_count * 1.001_1).ceil() as i128;
        let low = i128::from(before) + least - i128::from(*last);
        let high = i128::from(after) + most - i128::from(*first);
        let known = interval.unwrap_or((low, high));
        interval = Some((known.0.max(low), known.1.min(high)));
    }
    match interval {
        Some((low, high)) if low <= high && low >= 0 => Ok(Base {
            cpu,
            counts: u64::try_from((low + high) / 2).unwrap_or(u64::MAX),
            error: u64::try_from((high - low + 1) / 2).unwrap_or(u64::MAX),
        }),
        Some(_) => Err(BpfError::ours(doing, "the comparisons contradict each other")),
        None => Err(BpfError::ours(doing, "the event gives no counts")),
    }
}

/// `event=0x00` as the number it sets; further terms are not known.
fn event_config(text: &str) -> Option<u64> {
    let value = text.strip_prefix("event=")?;
    match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read() {
        assert_eq!(event_config("event=0x00"), Some(0));
        assert_eq!(event_config("event=12"), Some(12));
        assert_eq!(event_config("event=0x1,umask=2"), None);
        assert_eq!(event_config("tsc"), None);
    }
}
