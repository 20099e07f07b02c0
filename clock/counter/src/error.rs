//! Reasons why a counter cannot be had.

use std::{fmt, io};

use truechimer_time::{Count, CounterKind, Span};

use crate::acpi::{self, TableError};
use crate::choose::Choice;

/// Reasons why a counter (or what is said about it) cannot be had. The text names the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CounterError {
    /// No counter has this name.
    UnknownChoice(String),
    /// This machine has no such counter.
    NotHere(CounterKind),
    /// CPUID does not vouch for the TSC's rate.
    NotInvariant,
    /// The kernel does not list this flag among the processor's.
    NoFlag(&'static str),
    /// The kernel does not offer the counter as a clocksource; these it does.
    NotOffered(CounterKind, Vec<String>),
    /// The firmware names no sensible frequency (Hz) for the Arm generic timer.
    NoFrequency(u64),
    /// `CLOCK_MONOTONIC_RAW` cannot be read: errno.
    NoRaw(i32),
    /// This process sees the kernel's monotonic clocks shifted by so many ns.
    Shifted(i64),
    /// `CLOCK_MONOTONIC_COARSE`, which tells the age of a narrow counter's keeping, cannot be
    /// read: errno.
    NoCoarse(i32),
    /// A counter of so many bits, or one of fewer than 64 that states no period, cannot be
    /// widened.
    Width(CounterKind, u32),
    /// The firmware's table that says where the device is cannot be read: errno.
    NoTable(CounterKind, i32),
    /// That table is damaged, or says that there is no such device.
    BadTable(CounterKind, TableError),
    /// The device is there, but this process may not reach it: all that was tried.
    NoAccess(CounterKind, Vec<Attempt>),
    /// The device does not do what it should.
    Faulty(CounterKind, Fault),
    /// Count said to have been kept that no widened counter reaches.
    Foreign(Count),
    /// The narrow counter was kept too long ago (or, if negative, in the future) to be continued.
    Stale {
        /// Time since then; negative: in the future.
        age: Span,
        /// Half a roll-over: from here on it is too long.
        limit: Span,
    },
    /// The counter did not advance while its rate was measured.
    Stuck,
    /// The kernel's boot identifier cannot be read.
    NoBootId(String),
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CounterError::*;
        match self {
            UnknownChoice(name) => {
                write!(f, "no counter is called '{name}': use auto")?;
                let [most @ .., last] = Choice::EVERY;
                most.iter().try_for_each(|choice| write!(f, ", {choice}"))?;
                write!(f, " or {last}")
            }
            NotHere(CounterKind::Simulated) => {
                f.write_str("the counter is a simulation's: there is nothing to read")
            }
            NotHere(kind) => write!(
                f,
                "this machine ({}) has no counter '{kind}': use --counter auto or raw",
                std::env::consts::ARCH
            ),
            NotInvariant => f.write_str(
                "the TSC is not invariant (cpuid 80000007h EDX bit 8), so its rate may change: \
                 use --counter raw",
            ),
            NoFlag(flag) => write!(
                f,
                "the kernel does not count '{flag}' among the processor's flags (/proc/cpuinfo), \
                 so the TSC may change its rate or stop: use --counter raw"
            ),
            NotOffered(kind, available) => write!(
                f,
                "the kernel does not offer {} as a clocksource, which it does unless it found it \
                 unreliable (available: {}): use --counter raw",
                match kind {
                    CounterKind::Tsc => "the TSC",
                    _ => "the Arm generic timer",
                },
                if available.is_empty() { "none".to_owned() } else { available.join(" ") }
            ),
            NoFrequency(hz) => write!(
                f,
                "the firmware says that the Arm generic timer runs at {hz} Hz (CNTFRQ_EL0), which \
                 cannot be: use --counter raw"
            ),
            NoRaw(errno) => write!(
                f,
                "CLOCK_MONOTONIC_RAW cannot be read: {}",
                io::Error::from_raw_os_error(*errno)
            ),
            Shifted(ns) => write!(
                f,
                "this process is in a time namespace that shifts the monotonic clocks by {ns} ns: \
                 neither CLOCK_MONOTONIC_RAW nor the age of a narrow counter's keeping is the \
                 machine's: leave the namespace or use --counter tsc"
            ),
            NoCoarse(errno) => write!(
                f,
                "CLOCK_MONOTONIC_COARSE cannot be read, which tells when a narrow counter was \
                 read last: {}: use --counter raw",
                io::Error::from_raw_os_error(*errno)
            ),
            Width(kind, bits) => write!(
                f,
                "a counter of {bits} bits ({kind}) cannot be widened: it takes 2 to 48 bits and \
                 a stated period"
            ),
            NoTable(kind, errno) => {
                let (error, path) = (io::Error::from_raw_os_error(*errno), table_path(*kind));
                match *errno {
                    libc::ENOENT => write!(
                        f,
                        "this machine's firmware names no {} ({path} is not there): use --counter \
                         auto or raw",
                        device(*kind)
                    ),
                    libc::EACCES | libc::EPERM => write!(
                        f,
                        "{path}: {error}: only root may read where the {} is",
                        device(*kind)
                    ),
                    _ => write!(f, "{path}: {error}"),
                }
            }
            BadTable(kind, TableError::Absent) => write!(
                f,
                "this machine's firmware ({}) says that there is no {}: use --counter auto or raw",
                table_path(*kind),
                device(*kind)
            ),
            BadTable(kind, error) => write!(
                f,
                "{}: {error}: the {} cannot be found by such a table; use --counter auto or raw",
                table_path(*kind),
                device(*kind)
            ),
            NoAccess(kind, attempts) => {
                write!(f, "this process may not read the {}: ", device(*kind))?;
                for (n, attempt) in attempts.iter().enumerate() {
                    let comma = if n == 0 { "" } else { "; " };
                    write!(f, "{comma}{attempt}")?;
                }
                Ok(())
            }
            Faulty(kind, fault) => {
                write!(f, "the {} {fault}: use --counter auto or raw", device(*kind))
            }
            Foreign(count) => write!(
                f,
                "the kept count {} is none that a widened counter reaches: what was kept is \
                 damaged or of another counter",
                count.0
            ),
            Stale { age, limit } if age.is_negative() => write!(
                f,
                "the counter is said to have been read {} from now (half a roll-over is {limit}): \
                 what was kept is not of this boot of this machine",
                age.abs()
            ),
            Stale { age, limit } => write!(
                f,
                "the counter was last read {age} ago, which is more than half a roll-over \
                 ({limit}): the process that keeps it was held up or has stopped; restart it, or \
                 use --counter raw"
            ),
            Stuck => f.write_str("the counter does not advance: use --counter raw"),
            NoBootId(why) => write!(f, "/proc/sys/kernel/random/boot_id: {why}"),
        }
    }
}

impl std::error::Error for CounterError {}

/// Name of a device.
fn device(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Hpet => "HPET",
        _ => "ACPI power management timer",
    }
}

/// The table that says where it is.
fn table_path(kind: CounterKind) -> &'static str {
    match kind {
        CounterKind::Hpet => acpi::HPET_PATH,
        _ => acpi::FADT_PATH,
    }
}

/// Attempt to reach a device, and how it failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// The file, or the system call.
    pub by: &'static str,
    /// Step that was being done.
    pub doing: Doing,
    /// The error's number.
    pub errno: i32,
}

/// A step on the way to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Opening a file.
    Open,
    /// Mapping it.
    Map,
    /// Asking for the permission to read this I/O port.
    Permit(u16),
}

impl Attempt {
    pub(crate) fn new(by: &'static str, doing: Doing, error: &io::Error) -> Attempt {
        Attempt { by, doing, errno: error.raw_os_error().unwrap_or(0) }
    }

    /// Advice on what to do about it.
    fn mend(&self) -> &'static str {
        use libc::{EACCES, EBUSY, EINVAL, ENOENT, ENOSYS, EPERM};
        let hpet = self.by == "/dev/hpet";
        match (self.doing, self.errno) {
            (Doing::Open, ENOENT) if hpet => "the kernel has no driver for it (CONFIG_HPET)",
            (Doing::Open, EACCES | EPERM) if hpet => {
                "only root may, unless a udev rule lets others"
            }
            (Doing::Open, EBUSY) if hpet => "other programs have it open: stop one of them",
            (Doing::Map, EACCES | EPERM) if hpet => "boot with hpet_mmap=1 (CONFIG_HPET_MMAP)",
            (Doing::Map, ENOSYS) if hpet => "the kernel cannot map it (CONFIG_HPET_MMAP)",
            (Doing::Open, ENOENT) => "the kernel has no such device (CONFIG_DEVMEM)",
            (Doing::Open, EACCES | EPERM) => {
                "run as root with CAP_SYS_RAWIO, and without the kernel's lockdown"
            }
            (Doing::Map, EACCES | EPERM) => {
                "the kernel keeps devices to itself (CONFIG_IO_STRICT_DEVMEM, lockdown): boot with \
                 iomem=relaxed"
            }
            (Doing::Permit(_), EPERM | EACCES) => {
                "run as root or with CAP_SYS_RAWIO, and without the kernel's lockdown"
            }
            (Doing::Permit(_), ENOSYS | EINVAL) => {
                "the kernel gives no program any I/O ports (CONFIG_X86_IOPL_IOPERM)"
            }
            _ => "use --counter auto or raw",
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        match self.doing {
            Doing::Open => write!(f, "{} cannot be opened", self.by)?,
            Doing::Map => write!(f, "{} cannot be mapped", self.by)?,
            Doing::Permit(port) => write!(f, "{} of I/O port {port:#x} is refused", self.by)?,
        }
        write!(f, ": {error}: {}", self.mend())
    }
}

/// Fault of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// All its registers read the same: nothing is there.
    Silent,
    /// Switched off.
    Disabled,
    /// On, but does not count.
    Stopped,
    /// Claims a period, in fs, that cannot be.
    Period(u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Silent => f.write_str("is not where the firmware says"),
            Fault::Disabled => f.write_str(
                "is switched off, which only the kernel can change: boot without nohpet",
            ),
            Fault::Stopped => f.write_str("does not count"),
            Fault::Period(fs) => write!(f, "claims that a count lasts {fs} fs, which cannot be"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_errors_name_path_and_mend() {
        let attempt = |by, doing, errno| Attempt { by, doing, errno };
        let hpet = |attempts| CounterError::NoAccess(CounterKind::Hpet, attempts).to_string();
        let pm = |attempts| CounterError::NoAccess(CounterKind::AcpiPm, attempts).to_string();
        for (text, parts) in [
            (
                hpet(vec![
                    attempt("/dev/hpet", Doing::Map, libc::EACCES),
                    attempt("/dev/mem", Doing::Open, libc::EPERM),
                ]),
                ["the HPET", "/dev/hpet cannot be mapped", "hpet_mmap=1", "; /dev/mem", "lockdown"],
            ),
            (
                pm(vec![attempt("ioperm", Doing::Permit(0x608), libc::EPERM)]),
                ["ACPI power", "ioperm", "0x608", "CAP_SYS_RAWIO", "lockdown"],
            ),
            (
                CounterError::NoTable(CounterKind::AcpiPm, libc::EACCES).to_string(),
                ["/sys/firmware/acpi/tables/FACP", "denied", "root", "ACPI", "timer"],
            ),
            (
                CounterError::NoTable(CounterKind::Hpet, libc::ENOENT).to_string(),
                ["this machine", "no HPET", "/sys/firmware/acpi/tables/HPET", "auto", "raw"],
            ),
            (
                CounterError::BadTable(CounterKind::Hpet, TableError::Checksum(3)).to_string(),
                ["/sys/firmware/acpi/tables/HPET", "checksum", "off by 3", "auto", "raw"],
            ),
            (
                CounterError::Faulty(CounterKind::Hpet, Fault::Disabled).to_string(),
                ["HPET", "switched off", "nohpet", "--counter", "raw"],
            ),
        ] {
            for part in parts {
                assert!(text.contains(part), "'{part}' is not in: {text}");
            }
        }
    }
}
