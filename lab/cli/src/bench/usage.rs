//! Resources that a process uses, by `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

/// Memory in KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Resident now: the sum of the next three.
    pub resident_kib: u64,
    /// Of that its own: heap, stacks, data that it has written.
    pub anonymous_kib: u64,
    /// Of that pages of files, above all of programs and libraries, which the kernel maps as far as
    /// it has them in memory anyway, shares among processes and takes back when it likes.
    pub file_kib: u64,
    /// Of that memory shared with others: the clock page where it is in a tmpfs.
    pub shared_kib: u64,
    /// The most that ever was.
    pub peak_kib: u64,
}

/// The memory of a process.
pub fn memory(pid: u32) -> io::Result<Memory> {
    parse_memory(&fs::read_to_string(format!("/proc/{pid}/status"))?).ok_or_else(|| {
        io::Error::other("/proc/PID/status lacks VmRSS, RssAnon, RssFile, RssShmem or VmHWM")
    })
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
    Some(Memory {
        resident_kib: field("VmRSS:")?,
        anonymous_kib: field("RssAnon:")?,
        file_kib: field("RssFile:")?,
        shared_kib: field("RssShmem:")?,
        peak_kib: field("VmHWM:")?,
    })
}

/// Number of times that the threads of a process have gone to sleep by themselves: as often as they
/// woke up.
pub fn wake_ups(pid: u32) -> io::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        sum += parse_wake_ups(&status).ok_or_else(malformed)?;
    }
    Ok(sum)
}

fn parse_wake_ups(status: &str) -> Option<u64> {
    let field = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
    status.lines().find_map(field)
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
        let status = "Name:\ttruechimer\nVmHWM:\t    5120 kB\nVmRSS:\t    4096 kB\n\
                      RssAnon:\t     768 kB\nRssFile:\t    3324 kB\nRssShmem:\t       4 kB\n\
                      Threads:\t2\nvoluntary_ctxt_switches:\t89\n\
                      nonvoluntary_ctxt_switches:\t7\n";
        let memory = Memory {
            resident_kib: 4096,
            anonymous_kib: 768,
            file_kib: 3324,
            shared_kib: 4,
            peak_kib: 5120,
        };
        assert_eq!(parse_wake_ups(status), Some(89));
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
