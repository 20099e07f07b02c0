//! The ways to read a clock or a counter.

use std::fmt;
use std::hint::black_box;

use serde::{Deserialize, Serialize};
use truechimer_counter::{Choice, Counter};

use crate::sys;

/// One of the kernel's clocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
    /// `CLOCK_REALTIME_COARSE`: the time of the last tick, for which no counter is read.
    RealtimeCoarse,
    /// `CLOCK_MONOTONIC_COARSE`, likewise.
    MonotonicCoarse,
}

impl Clock {
    /// All of them.
    pub const ALL: [Clock; 7] = [
        Clock::Realtime,
        Clock::Monotonic,
        Clock::MonotonicRaw,
        Clock::Boottime,
        Clock::Tai,
        Clock::RealtimeCoarse,
        Clock::MonotonicCoarse,
    ];

    pub(super) fn id(self) -> libc::clockid_t {
        match self {
            Clock::Realtime => libc::CLOCK_REALTIME,
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Clock::Boottime => libc::CLOCK_BOOTTIME,
            Clock::Tai => libc::CLOCK_TAI,
            Clock::RealtimeCoarse => libc::CLOCK_REALTIME_COARSE,
            Clock::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
        }
    }

    /// Name in C.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Clock::Realtime => "CLOCK_REALTIME",
            Clock::Monotonic => "CLOCK_MONOTONIC",
            Clock::MonotonicRaw => "CLOCK_MONOTONIC_RAW",
            Clock::Boottime => "CLOCK_BOOTTIME",
            Clock::Tai => "CLOCK_TAI",
            Clock::RealtimeCoarse => "CLOCK_REALTIME_COARSE",
            Clock::MonotonicCoarse => "CLOCK_MONOTONIC_COARSE",
        }
    }

    fn is_coarse(self) -> bool {
        matches!(self, Clock::RealtimeCoarse | Clock::MonotonicCoarse)
    }
}

/// Way by which what is read is reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// By code of the kernel's that runs in the process, without entering the kernel if it can.
    Vdso,
    /// By entering the kernel.
    SystemCall,
    /// By an instruction or a device's register, the kernel not being asked.
    Direct,
}

impl By {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            By::Vdso => "vdso",
            By::SystemCall => "syscall",
            By::Direct => "direct",
        }
    }
}

/// A way to read a clock or a counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// `clock_gettime`, as a program calls it.
    Vdso(Clock),
    /// `gettimeofday`, as a program calls it.
    Gettimeofday,
    /// `time`, as a program calls it.
    Time,
    /// `syscall(SYS_clock_gettime)`.
    SystemCall(Clock),
    /// [`Counter::read`] of such a counter.
    Counter(Choice, &'static str),
}

/// The counters that are read directly. (`raw` is not: it is a clock by the vDSO.)
const COUNTERS: [&str; 6] = ["tsc", "tsc-fenced", "arm-generic", "hpet", "acpi-pm", "acpi-pm-safe"];

impl Way {
    /// Every way through the kernel, the coarse clocks last.
    #[must_use]
    pub fn of_the_kernel() -> Vec<Way> {
        let calls =
            [Clock::Realtime, Clock::Monotonic, Clock::MonotonicRaw, Clock::MonotonicCoarse];
        let fine = |clock: &Clock| !clock.is_coarse();
        let coarse = |clock: &Clock| clock.is_coarse();
        let vdso = Clock::ALL.into_iter().filter(fine).map(Way::Vdso);
        vdso.chain([Way::Gettimeofday])
            .chain(Clock::ALL.into_iter().filter(coarse).map(Way::Vdso))
            .chain([Way::Time])
            .chain(calls.map(Way::SystemCall))
            .collect()
    }

    /// Every counter that may be read directly on some machine of this architecture, by its name;
    /// an error where this version knows none of that name.
    pub fn direct() -> impl Iterator<Item = (&'static str, Result<Way, String>)> {
        let elsewhere = |name: &str| match name {
            "tsc" | "tsc-fenced" | "hpet" => !cfg!(target_arch = "x86_64"),
            "arm-generic" => !cfg!(target_arch = "aarch64"),
            _ => !cfg!(target_arch = "x86_64"),
        };
        COUNTERS.into_iter().filter(move |name| !elsewhere(name)).map(|name| {
            let way = name.parse().map(|choice| Way::Counter(choice, name));
            (name, way.map_err(|why| why.to_string()))
        })
    }

    /// Way by which it is reached.
    #[must_use]
    pub fn by(self) -> By {
        match self {
            Way::Vdso(_) | Way::Gettimeofday | Way::Time => By::Vdso,
            Way::SystemCall(_) => By::SystemCall,
            Way::Counter(..) => By::Direct,
        }
    }

    /// Name of what is read.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Way::Vdso(clock) | Way::SystemCall(clock) => clock.name(),
            Way::Gettimeofday => "gettimeofday",
            Way::Time => "time",
            Way::Counter(_, name) => name,
        }
    }

    /// True if no counter is read for it, only what the kernel noted at its last tick.
    #[must_use]
    pub fn is_coarse(self) -> bool {
        match self {
            Way::Vdso(clock) | Way::SystemCall(clock) => clock.is_coarse(),
            Way::Time => true,
            Way::Gettimeofday | Way::Counter(..) => false,
        }
    }

    /// Makes it ready.
    ///
    /// # Errors
    /// Why it cannot be read on this machine or by this process.
    pub fn open(self) -> Result<Reader, String> {
        let clock = |clock: Clock| match sys::resolution(clock.id()) {
            Ok(_) => Ok(clock.id()),
            Err(why) => Err(format!("{}: {why}", clock.name())),
        };
        Ok(match self {
            Way::Vdso(of) => Reader(Source::Vdso(clock(of)?)),
            Way::Gettimeofday => Reader(Source::Gettimeofday),
            Way::Time => Reader(Source::Time),
            Way::SystemCall(of) => Reader(Source::SystemCall(clock(of)?)),
            Way::Counter(choice, _) => {
                Reader(Source::Counter(Counter::open(choice).map_err(|why| why.to_string())?))
            }
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.by().name(), self.what())
    }
}

/// A way that can be gone on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reader(Source);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Vdso(libc::clockid_t),
    Gettimeofday,
    Time,
    SystemCall(libc::clockid_t),
    Counter(Counter),
}

impl Reader {
    /// Reads so many times in a row.
    #[inline(never)]
    pub fn repeat(self, times: u64) {
        fn all(times: u64, read: impl Fn() -> u64) {
            for _ in 0..times {
                black_box(read());
            }
        }
        // Decided before the loop, which then holds nothing but the reading.
        match self.0 {
            Source::Vdso(clock) => all(times, || sys::by_vdso(clock)),
            Source::Gettimeofday => all(times, sys::gettimeofday),
            Source::Time => all(times, sys::time),
            Source::SystemCall(clock) => all(times, || sys::by_system_call(clock)),
            Source::Counter(counter) => all(times, || counter.read().0),
        }
    }

    /// Reads once between two readings of `ruler`, and says how far that went meanwhile; negative
    /// where the ruler went back.
    #[inline(never)]
    pub fn timed(self, ruler: Counter) -> i64 {
        match self.0 {
            Source::Vdso(clock) => between(ruler, || sys::by_vdso(clock)),
            Source::Gettimeofday => between(ruler, sys::gettimeofday),
            Source::Time => between(ruler, sys::time),
            Source::SystemCall(clock) => between(ruler, || sys::by_system_call(clock)),
            Source::Counter(counter) => between(ruler, || counter.read().0),
        }
    }
}

/// Times nothing, like [`Reader::timed`] with nothing to read: what timing itself takes.
#[inline(never)]
pub(crate) fn nothing(ruler: Counter) -> i64 {
    between(ruler, || 0)
}

#[inline(always)]
fn between(ruler: Counter, read: impl Fn() -> u64) -> i64 {
    let before = ruler.read();
    black_box(read());
    (ruler.read() - before).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_the_kernel_can_be_gone() {
        let ruler = Counter::open(Choice::Raw).unwrap();
        for way in Way::of_the_kernel() {
            let reader = way.open().unwrap();
            reader.repeat(10);
            assert!(reader.timed(ruler) >= 0, "{way}");
            assert_ne!(way.by(), By::Direct);
        }
        assert!(nothing(ruler) >= 0);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (name, way) in Way::direct() {
            match way.and_then(Way::open) {
                Ok(reader) => reader.repeat(3),
                Err(why) => assert!(why.len() > 10, "{name}: {why}"),
            }
        }
    }

    #[test]
    fn names_are_those_of_the_manual() {
        let names: Vec<String> = Way::of_the_kernel().iter().map(Way::to_string).collect();
        for name in [
            "vdso CLOCK_MONOTONIC_RAW",
            "vdso gettimeofday",
            "vdso time",
            "syscall CLOCK_REALTIME",
            "vdso CLOCK_REALTIME_COARSE",
        ] {
            assert!(names.iter().any(|n| n == name), "{name}: {names:?}");
        }
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len());
    }
}
