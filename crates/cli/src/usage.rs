//! What a process uses, by `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

/// Memory in KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Resident now.
    pub resident_kib: u64,
    /// The most that ever was.
    pub peak_kib: u64,
}

/// The memory of a process.
pub fn memory(pid: u32) -> io::Result<Memory> {
    parse_memory(&fs::read_to_string(format!("/proc/{pid}/status"))?)
        .ok_or_else(|| io::Error::other("/proc/PID/status lacks VmRSS"))
}

/// The time that all threads of a process have spent on a processor, to the nanosecond where the
/// kernel keeps account of it (`schedstat`), else to the clock tick.
pub fn processor_time(pid: u32) -> io::Result<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        match fs::read_to_string(thread?.path().join("schedstat")) {
            Ok(text) => sum += parse_schedstat(&text).ok_or_else(malformed)?,
            Err(_) => return ticks(pid),
        }
    }
    Ok(sum)
}

fn ticks(pid: u32) -> io::Result<Duration> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?).ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::other("/proc has another form than expected")
}

fn parse_memory(status: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some(Memory { resident_kib: field("VmRSS:")?, peak_kib: field("VmHWM:")? })
}

/// The first number is the time on the processor in ns.
fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// utime and stime, the 14th and 15th field, in ticks of 10 ms (`USER_HZ` is 100 everywhere).
fn parse_stat(text: &str) -> Option<Duration> {
    // The second field, the name in parentheses, may contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)?.checked_mul(10).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_the_kernel_writes_it() {
        let status = "Name:\ttruechimer\nVmHWM:\t    5120 kB\nVmRSS:\t    4096 kB\nThreads:\t2\n";
        let memory = Memory { resident_kib: 4096, peak_kib: 5120 };
        assert_eq!(parse_memory(status), Some(memory));
        assert_eq!(parse_memory("Name:\tkthreadd\n"), None);
        assert_eq!(parse_schedstat("12345 678 9\n"), Some(Duration::from_nanos(12_345)));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 3 0 0 20 0 1 0 99 0 0\n";
        assert_eq!(parse_stat(stat), Some(Duration::from_millis(150)));
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_uses_something() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(memory.resident_kib > 0 && memory.peak_kib >= memory.resident_kib);
        assert!(processor_time(pid).unwrap() > Duration::ZERO);
    }
}
