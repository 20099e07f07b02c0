//! The counters that a program can read, measured.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer_counter::{
    Choice, Cost, Counter, CounterError, NominalSource, agreement_of, resolution,
};
use truechimer_time::{Count, CountSpan, CounterKind};

use super::clocks::{Frequency, roll_over};
use super::{Inventory, Path, Unknown, same_hardware, trial};

/// Number of sandwiches that the narrowest is taken of at either end of a measurement.
const SANDWICHES: u32 = 64;
/// Longest time that a narrow counter may go unread while a frequency is measured.
const SLICE: Duration = Duration::from_millis(250);
/// A clock that runs so much faster or slower than CLOCK_MONOTONIC_RAW was stepped.
const STEPPED: f64 = 2e-3;

/// A counter that a program can read, or why it cannot.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CounterReport {
    /// Name, as `--counter` takes it.
    pub name: String,
    /// Description of it.
    pub what: String,
    /// Reason why this process cannot use it.
    pub unusable: Option<String>,
    /// Number of bits that count before it rolls over; 64 where nobody need care.
    pub bits: Option<u32>,
    /// Nature of a reading: an instruction, a call of the vDSO, a system call, an access to a
    /// device.
    pub access: Option<Access>,
    /// The nominal frequency.
    pub nominal: Option<Frequency>,
    /// The frequency against `CLOCK_MONOTONIC_RAW`.
    pub measured: Option<Measured>,
    /// The frequency against `CLOCK_REALTIME`, if that is synchronised.
    pub by_realtime: Option<Measured>,
    /// The step in which it counts.
    pub step: Option<Step>,
    /// Time that one reading takes, ns: the median of many rows of readings.
    pub read_ns: Option<f64>,
    /// After how many seconds it rolls over.
    pub rolls_over_s: Option<f64>,
}

/// Access that a reading takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// An instruction of the processor.
    Instruction,
    /// Code of the kernel's in user space, without a change of mode.
    Vdso,
    /// A system call.
    SystemCall,
    /// An access to a device, for which the processor waits.
    Device,
}

impl Access {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Access::Instruction => "CPU",
            Access::Vdso => "vDSO",
            Access::SystemCall => "syscall",
            Access::Device => "device",
        }
    }
}

/// A frequency as measured against a clock.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// In Hz, if a second is what the clock says it is.
    pub hz: f64,
    /// Bound of what reading the two clocks may have added to or taken from that, Hz. Nothing is
    /// said about the clock's own error.
    pub error_hz: f64,
    /// Over how many seconds.
    pub over_s: f64,
    /// True if the clock is another piece of hardware than the counter. If it is not, the figure is
    /// what the kernel reckons with, and says nothing about whether that is right.
    pub independent: bool,
}

/// In what steps a counter counts: an upper bound, as readings take their time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Step {
    /// In counts.
    pub counts: i64,
    /// In ns.
    pub ns: f64,
}

/// Agreement of the CPUs' counters: each was compared with that of the first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Agreement {
    /// Which counter.
    pub counter: String,
    /// Number of CPUs that were compared.
    pub cpus: u32,
    /// By how much two of them differ at least, ns; 0 where all may be equal.
    pub least_ns: f64,
    /// By how much they may differ at most, ns: what could have gone unseen, as telling another
    /// CPU takes time.
    pub most_ns: f64,
}

/// True if machines of this architecture can have this counter.
fn fits(choice: Choice, architecture: &str) -> bool {
    match choice {
        Choice::ArmGeneric => architecture == "aarch64",
        Choice::Raw | Choice::Auto => true,
        _ => architecture == "x86_64",
    }
}

fn what(choice: Choice) -> &'static str {
    match choice {
        Choice::Auto => "whichever suits",
        Choice::Tsc { fenced: false } => "time stamp counter",
        Choice::Tsc { fenced: true } => "time stamp counter, fenced",
        Choice::ArmGeneric => "generic timer",
        Choice::Raw => "CLOCK_MONOTONIC_RAW",
        Choice::Hpet => "high precision event timer",
        Choice::AcpiPm { safe: false } => "ACPI PM timer",
        Choice::AcpiPm { safe: true } => "ACPI PM timer, read until it can be believed",
    }
}

/// On how many CPUs more than the first the counter is compared: each takes up to a tenth of a
/// second on a busy machine.
const COMPARED: usize = 63;

/// Compares the CPUs' counters, whether or not the kernel trusts them.
fn agreement(inventory: &mut Inventory) {
    let kind = match inventory.architecture.as_str() {
        "x86_64" => CounterKind::Tsc,
        "aarch64" => CounterKind::ArmGeneric,
        _ => return,
    };
    let counter = inventory.counter(kind.name());
    let hz = counter.and_then(|counter| counter.measured).map(|measured| measured.hz);
    let source = inventory.clocksource(kind.name()).and_then(|source| source.kernel.clone());
    let Some(hz) = hz.or(source.map(|kernel| kernel.hz)) else { return };
    let found = Counter::of_kind(kind)
        .map_err(|why| why.to_string())
        .and_then(|counter| compare(counter, &inventory.cpus.online, hz));
    inventory.agreement = inventory.note("agreement of the CPUs' counters", found).flatten();
}

/// `None` with a single CPU, which agrees with itself.
fn compare(counter: Counter, online: &[u32], hz: f64) -> Result<Option<Agreement>, String> {
    let found = match online.split_first() {
        // Evenly spread over all of them.
        Some((first, others)) if others.len() > COMPARED => {
            let spread = (0..COMPARED).filter_map(|n| others.get(n * others.len() / COMPARED));
            agreement_of(counter, *first, &spread.copied().collect::<Vec<_>>())
        }
        _ => truechimer_counter::agreement(counter),
    };
    let found = found.map_err(|why| why.to_string())?;
    let compared = found.cpus.iter().filter(|cpu| cpu.offset.is_ok()).count();
    if compared == 0 {
        return Ok(None);
    }
    let ns = |counts: CountSpan| counts.0 as f64 / hz * 1e9;
    let (least, most) = found.range();
    Ok(Some(Agreement {
        counter: counter.kind().name().to_owned(),
        cpus: u32::try_from(compared + 1).unwrap_or(u32::MAX),
        least_ns: ns(least),
        most_ns: ns(most),
    }))
}

/// Measures every counter there is, over so long; zero for no frequencies.
pub(super) fn survey(inventory: &mut Inventory, over: Duration) {
    let current = inventory.current().map(str::to_owned);
    let mut counters = Vec::new();
    for (choice, opened) in truechimer_counter::counters() {
        if !fits(choice, &inventory.architecture) {
            continue;
        }
        let mut report = CounterReport {
            name: choice.name().to_owned(),
            what: what(choice).to_owned(),
            unusable: opened.as_ref().err().map(CounterError::to_string),
            bits: None,
            access: None,
            nominal: nominal(choice, opened.as_ref().ok(), inventory),
            measured: None,
            by_realtime: None,
            step: None,
            read_ns: None,
            rolls_over_s: None,
        };
        if let Ok(counter) = opened {
            report.bits = Some(counter.bits());
            report.access = Some(access(counter, inventory));
            if !over.is_zero() {
                report.read_ns = Some(trial::cost(|| counter.read()));
            }
            counters.push((inventory.counters.len(), counter));
        }
        inventory.counters.push(report);
    }
    if !over.is_zero() {
        let realtime = inventory.realtime.as_ref().is_some_and(|clock| clock.synchronised);
        let stretch = Stretch::watch(&counters, over, realtime);
        for ((n, counter), ends) in counters.iter().zip(&stretch.ends) {
            let Some(report) = inventory.counters.get_mut(*n) else { continue };
            let same = current.as_deref().is_some_and(|name| same_hardware(&report.name, name));
            let independent = current.is_some() && !same;
            report.measure(*counter, ends, independent);
        }
        if stretch.stepped {
            let why = "it was stepped or slewed by more than 2000 ppm meanwhile".to_owned();
            inventory.unknown.push(Unknown { what: "frequencies by CLOCK_REALTIME".into(), why });
        }
    }
    for report in &mut inventory.counters {
        let hz = report.measured.map(|measured| measured.hz);
        let hz = hz.or(report.nominal.as_ref().map(|nominal| nominal.hz));
        report.rolls_over_s = report.bits.zip(hz).map(|(bits, hz)| roll_over(bits, hz));
    }
    if !over.is_zero() {
        agreement(inventory);
    }
    let auto = Counter::open(Choice::Auto).map(|counter| counter.kind().name().to_owned());
    inventory.auto = inventory.note("--counter auto", auto.map_err(|why| why.to_string()));
}

/// Access that a reading takes: of the raw clock, by the measured path.
fn access(counter: Counter, inventory: &Inventory) -> Access {
    let raw = inventory.clock_calls.iter().find(|call| call.clock == "CLOCK_MONOTONIC_RAW");
    match (counter.cost(), raw.map(|call| call.path)) {
        (Cost::Instruction, _) => Access::Instruction,
        (Cost::Device, _) => Access::Device,
        (_, Some(Path::SystemCall)) => Access::SystemCall,
        (_, Some(Path::Vdso)) => Access::Vdso,
        (Cost::Vdso, _) => Access::Vdso,
        (Cost::SystemCall, _) => Access::SystemCall,
    }
}

/// By definition, by the processor's word, or by the firmware's.
fn nominal(choice: Choice, counter: Option<&Counter>, inventory: &Inventory) -> Option<Frequency> {
    let same = |source: &str| inventory.clocksource(source)?.nominal.clone();
    if matches!(choice, Choice::Tsc { .. }) {
        return same("tsc").or_else(|| same("tsc-early"));
    }
    let stated = counter?.hardware().stated()?;
    let from = match stated.source {
        NominalSource::Definition => "definition",
        NominalSource::Register => "a register",
        NominalSource::Measured => return None,
    };
    Some(Frequency { hz: stated.period.hz() as f64, from: from.to_owned() })
}

impl CounterReport {
    fn measure(&mut self, counter: Counter, ends: &Ends, independent: bool) {
        // CLOCK_MONOTONIC_RAW against itself would be 1 whatever it does.
        if self.name != "raw" {
            self.measured = ends.raw.and_then(|(a, b)| frequency(a, b, independent));
        }
        self.by_realtime = ends.realtime.and_then(|(a, b)| frequency(a, b, true));
        let counts = resolution(counter).0;
        let hz = self.measured.map(|measured| measured.hz);
        if let Some(hz) = hz.or(self.nominal.as_ref().map(|nominal| nominal.hz)) {
            self.step = Some(Step { counts, ns: counts as f64 / hz * 1e9 });
        }
    }
}

/// A count and what a clock said then: `ns` at some count within `width` ns of its reading.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    count: Count,
    ns: i64,
    width: i64,
}

/// The narrowest of many: the count is read between two readings of the clock.
fn point(counter: Counter, clock: libc::clockid_t) -> Option<Point> {
    let counter = counter.fenced();
    let take = || {
        let before = truechimer_counter::clock(clock).ok()?;
        let count = counter.read();
        let width = truechimer_counter::clock(clock).ok()?.checked_sub(before)?;
        (width >= 0).then_some(Point { count, ns: before + width / 2, width })
    };
    (0..SANDWICHES).filter_map(|_| take()).min_by_key(|point| point.width)
}

/// Readings of every counter at either end of the same stretch of time.
struct Stretch {
    ends: Vec<Ends>,
    stepped: bool,
}

struct Ends {
    raw: Option<(Point, Point)>,
    realtime: Option<(Point, Point)>,
}

impl Stretch {
    fn watch(counters: &[(usize, Counter)], over: Duration, realtime: bool) -> Stretch {
        let take = |clock| -> Vec<Option<Point>> {
            counters.iter().map(|(_, counter)| point(*counter, clock)).collect()
        };
        let by_realtime = || if realtime { take(libc::CLOCK_REALTIME) } else { Vec::new() };
        let (raw, real) = (take(libc::CLOCK_MONOTONIC_RAW), by_realtime());
        let end = Instant::now() + over;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            thread::sleep(left.min(SLICE));
            for (_, counter) in counters {
                std::hint::black_box(counter.read());
            }
        }
        let (raw_end, real_end) = (take(libc::CLOCK_MONOTONIC_RAW), by_realtime());
        let pair = |a: Option<&Option<Point>>, b: Option<&Option<Point>>| {
            a.copied().flatten().zip(b.copied().flatten())
        };
        let mut stretch = Stretch { ends: Vec::new(), stepped: false };
        for n in 0..counters.len() {
            let raw = pair(raw.get(n), raw_end.get(n));
            let mut realtime = pair(real.get(n), real_end.get(n));
            if let (Some(raw), Some(real)) = (raw, realtime)
                && stepped(raw, real)
            {
                stretch.stepped = true;
                realtime = None;
            }
            stretch.ends.push(Ends { raw, realtime });
        }
        stretch
    }
}

/// True if the two clocks ran so differently, by the same counter, that one of them was stepped.
fn stepped(raw: (Point, Point), real: (Point, Point)) -> bool {
    let hz = |(a, b)| frequency(a, b, true).map(|measured| measured.hz);
    match (hz(raw), hz(real)) {
        (Some(raw), Some(real)) => (real / raw - 1.0).abs() > STEPPED,
        _ => true,
    }
}

/// The frequency between two points; `None` if counter or clock did not advance.
fn frequency(a: Point, b: Point, independent: bool) -> Option<Measured> {
    let counts = (b.count - a.count).0;
    let ns = b.ns.checked_sub(a.ns)?;
    if counts <= 0 || ns <= 0 {
        return None;
    }
    let hz = counts as f64 / ns as f64 * 1e9;
    // The count lies anywhere within either sandwich, whose ends are rounded to a nanosecond.
    let off_ns = (a.width + b.width) as f64 / 2.0 + 2.0;
    let error_hz = hz * off_ns / ns as f64 + 1e9 / ns as f64;
    Some(Measured { hz, error_hz, over_s: ns as f64 * 1e-9, independent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(count: u64, ns: i64, width: i64) -> Point {
        Point { count: Count(count), ns, width }
    }

    #[test]
    fn frequency_and_its_error() {
        let start = u64::MAX - 5;
        let end = start.wrapping_add(2_500_000_000);
        let measured = frequency(at(start, 7, 40), at(end, 1_000_000_007, 60), true).unwrap();
        assert!((measured.hz - 2.5e9).abs() < 1e-3 && (measured.over_s - 1.0).abs() < 1e-9);
        // 50 + 2 ns of a second, and a count.
        assert!((measured.error_hz - (2.5e9 * 52e-9 + 1.0)).abs() < 1e-6, "{measured:?}");
        assert_eq!(frequency(at(5, 0, 0), at(5, 10, 0), true), None);
        assert_eq!(frequency(at(5, 10, 0), at(9, 10, 0), true), None);
        assert_eq!(frequency(at(5, i64::MIN, 0), at(9, 10, 0), true), None);
    }

    #[test]
    fn a_stepped_clock_is_no_yardstick() {
        let raw = (at(0, 0, 20), at(1_000_000_000, 1_000_000_000, 20));
        let slewed = (at(0, 5, 20), at(1_000_000_000, 1_000_500_005, 20));
        let stepped_by_ms = (at(0, 5, 20), at(1_000_000_000, 1_010_000_005, 20));
        assert!(!stepped(raw, slewed));
        assert!(stepped(raw, stepped_by_ms));
        assert!(stepped(raw, (at(0, 5, 20), at(1_000_000_000, 4, 20))));
    }

    #[test]
    fn this_machines_counters() {
        let mut inventory =
            Inventory { architecture: std::env::consts::ARCH.into(), ..Inventory::default() };
        survey(&mut inventory, Duration::from_millis(20));
        let raw = inventory.counter("raw").unwrap();
        assert_eq!((raw.unusable.as_ref(), raw.measured), (None, None));
        assert!(raw.read_ns.unwrap() > 0.0 && raw.step.unwrap().counts >= 1);
        for counter in inventory.counters.iter().filter(|counter| counter.name != "raw") {
            if let Some(measured) = counter.measured {
                assert!(measured.hz > 1e3 && measured.error_hz > 0.0, "{counter:?}");
            }
        }
        assert!(inventory.auto.is_some());
    }
}
