//! The log: a phase file that grows while it is measured, and can be continued.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use truechimer_files::{Access, Entry, Lock};
use truechimer_time::{BootId, Count, Period, Span};

use super::error::StabilityError;
use crate::analysis::{PhaseFile, Row, write_row};

/// Identity of a measurement: what it is of, and where it began: all that must be the same for it
/// to be continued, and all that continuing takes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Identity {
    pub counter: String,
    pub reference: String,
    pub clocksource: String,
    /// All zeros where the kernel does not say.
    pub boot: BootId,
    /// Time for which the machine has been suspended since then, ns.
    pub suspended_ns: i64,
    pub interval_s: f64,
    /// Length that a count is taken to have.
    pub period: Period,
    /// Period of the reference if it is a counter.
    pub reference_period: Option<Period>,
    /// The first sample: phase zero.
    pub origin: Count,
    pub origin_reference: Span,
}

impl Identity {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let period = |p: Period| format!("{} {}", p.mantissa(), p.shift());
        writeln!(out, "# truechimer phase file: the counter - the reference, positive = ahead")?;
        writeln!(out, "# columns: seconds of the reference, phase in seconds")?;
        writeln!(out, "# counter: {}", self.counter)?;
        writeln!(out, "# reference: {}", self.reference)?;
        writeln!(out, "# clocksource: {}", self.clocksource)?;
        writeln!(out, "# boot: {}", boot(self.boot))?;
        writeln!(out, "# suspended-ns: {}", self.suspended_ns)?;
        writeln!(out, "# tau0: {}", self.interval_s)?;
        writeln!(out, "# period: {}", period(self.period))?;
        if let Some(reference) = self.reference_period {
            writeln!(out, "# reference-period: {}", period(reference))?;
        }
        writeln!(out, "# origin-count: {}", self.origin.0)?;
        writeln!(out, "# origin-reference-ns: {}", self.origin_reference.as_nanos())
    }

    /// Reads what a log says of itself; `None` for a file that is no log of ours, or is damaged.
    fn read(file: &PhaseFile) -> Option<Identity> {
        let get = |key: &str| file.header.get(key);
        let period = |text: &str| {
            let (mantissa, shift) = text.split_once(' ')?;
            Period::from_parts(mantissa.parse().ok()?, shift.parse().ok()?)
        };
        let reference_period = match get("reference-period") {
            Some(text) => Some(period(text)?),
            None => None,
        };
        Some(Identity {
            counter: get("counter")?.to_owned(),
            reference: get("reference")?.to_owned(),
            clocksource: get("clocksource")?.to_owned(),
            boot: parse_boot(get("boot")?)?,
            suspended_ns: get("suspended-ns")?.parse().ok()?,
            interval_s: file.header.interval_s?,
            period: period(get("period")?)?,
            reference_period,
            origin: Count(get("origin-count")?.parse().ok()?),
            origin_reference: Span::from_nanos_wide(get("origin-reference-ns")?.parse().ok()?),
        })
    }

    /// Reason why what is measured `now` does not continue this, if so. Of `now`, where it began
    /// does not count.
    fn differs(&self, now: &Identity) -> Option<String> {
        if self.boot != now.boot {
            return Some(
                "the machine was booted anew since, and its counter began anew: begin a new log"
                    .into(),
            );
        }
        if self.boot == UNKNOWN_BOOT {
            return Some(
                "the kernel does not say (/proc/sys/kernel/random/boot_id) whether the machine was \
                 booted anew since, in which case its counter began anew: begin a new log"
                    .into(),
            );
        }
        let asleep_ns = now.suspended_ns.saturating_sub(self.suspended_ns);
        if asleep_ns.saturating_abs() > AWAKE_NS {
            return Some(format!(
                "the machine was suspended for {} ms since it was begun, and the counter may have \
                 stopped or begun anew: begin a new log",
                asleep_ns / 1_000_000
            ));
        }
        let pairs = [
            ("the counter", &self.counter, &now.counter),
            ("the reference", &self.reference, &now.reference),
            ("the clocksource", &self.clocksource, &now.clocksource),
        ];
        for (what, then, now) in pairs {
            if then != now {
                return Some(format!("{what} was {then} then and is {now} now"));
            }
        }
        (self.interval_s != now.interval_s).then(|| {
            format!("the interval was {} s then and is {} s now", self.interval_s, now.interval_s)
        })
    }
}

/// Stand-in for a boot that cannot be told from others.
pub(super) const UNKNOWN_BOOT: BootId = BootId([0; 16]);
/// Longest suspend, ns, that is none but what reading the two clocks took.
pub(super) const AWAKE_NS: i64 = 1_000_000;

/// A log that is being written, by this process alone.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// True if nothing was added yet since it was resumed.
    resumed: bool,
    /// Keeps other processes from writing it.
    _lock: Lock,
}

impl Log {
    /// Begins a new one. A file that is there already is not overwritten.
    pub(super) fn begin(path: &Path, identity: &Identity) -> Result<Log, StabilityError> {
        let failed = |why: io::Error| match why.kind() {
            io::ErrorKind::AlreadyExists => StabilityError::Resume(
                path.into(),
                "it is there already: give --resume to go on with it, or another name".into(),
            ),
            _ => StabilityError::Log(path.into(), why),
        };
        let entry = Entry::itself(path).map_err(failed)?;
        let lock = lock(&entry, path)?;
        let mut file = entry.open(Access::New, 0o666).map_err(failed)?;
        let mut head = Vec::new();
        identity.write(&mut head).and_then(|()| file.write_all(&head)).map_err(failed)?;
        Ok(Log { path: path.into(), file, resumed: false, _lock: lock })
    }

    /// Goes on with one that is there, if it is of the same.
    pub(super) fn resume(
        path: &Path,
        now: &Identity,
    ) -> Result<(Log, Identity, Vec<Row>), StabilityError> {
        let failed = |why| StabilityError::Log(path.into(), why);
        let refused = |why: String| StabilityError::Resume(path.into(), why);
        let entry = Entry::at(path).map_err(failed)?;
        let mut file = entry.open(Access::ReadAppend, 0).map_err(failed)?;
        let lock = lock(&entry, path)?;
        let whole = whole_lines(&mut file).map_err(failed)?;
        file.rewind().map_err(failed)?;
        let old = PhaseFile::read(BufReader::new((&mut file).take(whole)));
        let old = old.map_err(|why| refused(why.to_string()))?;
        let identity = Identity::read(&old).ok_or_else(|| {
            refused(
                "it is no log of 'truechimer counters stability', or its head is damaged".into(),
            )
        })?;
        if let Some(why) = identity.differs(now) {
            return Err(refused(why));
        }
        let timed = old.rows.iter().all(|row| row.time_s.is_some());
        if !timed {
            return Err(refused("its lines have no times".into()));
        }
        file.set_len(whole).map_err(failed)?;
        Ok((Log { path: path.into(), file, resumed: true, _lock: lock }, identity, old.rows))
    }

    /// Adds a sample, at once.
    pub(super) fn add(&mut self, time_s: f64, phase_s: f64) -> Result<(), StabilityError> {
        let mut line = Vec::new();
        if std::mem::take(&mut self.resumed) {
            line.extend_from_slice(b"# resumed\n");
        }
        write_row(&mut line, Some(time_s), phase_s)
            .and_then(|()| self.file.write_all(&line))
            .map_err(|why| StabilityError::Log(self.path.clone(), why))
    }
}

/// Locks the log; the file itself may be open to all for reading, and so for locking.
fn lock(entry: &Entry, path: &Path) -> Result<Lock, StabilityError> {
    let lock = entry.lock().map_err(|why| StabilityError::Log(path.into(), why))?;
    let busy = "another process is writing it: end that first";
    lock.ok_or_else(|| StabilityError::Resume(path.into(), busy.into()))
}

/// Length of the whole lines of the file, in bytes: after a crash it may end in half a line, which
/// is none.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let tail = length.min(2000);
    file.seek(SeekFrom::Start(length - tail))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    // Without an end of a line there it is no log of ours, which its reader will say.
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let half = end.map_or(0, |end| bytes.len() - end - 1);
    Ok(length - half as u64)
}

fn boot(boot: BootId) -> String {
    boot.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_boot(text: &str) -> Option<BootId> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(BootId(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            counter: "tsc".into(),
            reference: "ntp:192.0.2.7:123".into(),
            clocksource: "tsc".into(),
            boot: BootId([0xa5; 16]),
            suspended_ns: 7_000_000_000,
            interval_s: 0.5,
            period: Period::from_hz(2_596_123_456),
            reference_period: Some(Period::NANOSECOND),
            origin: Count(u64::MAX - 5),
            origin_reference: Span::from_nanos(1_700_000_000_123_456_789),
        }
    }

    fn path(name: &str) -> PathBuf {
        let name = format!("truechimer-survey-{}-{name}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_log_is_continued_where_it_ended() {
        let path = path("log");
        let mut log = Log::begin(&path, &identity()).unwrap();
        log.add(0.0, 0.0).unwrap();
        log.add(0.5, -1.25e-9).unwrap();
        drop(log);
        let later = Identity { origin: Count(7), ..identity() };
        let (mut log, old, rows) = Log::resume(&path, &later).unwrap();
        assert_eq!((old, rows.len()), (identity(), 2));
        log.add(5.0, 3e-9).unwrap();
        // Half a line, as after a crash.
        for half in ["6.0 3", "6.0 -1.2e", "6.0 ", "# resum", "nan"] {
            log.file.write_all(half.as_bytes()).unwrap();
            let busy = Log::resume(&path, &later).unwrap_err().to_string();
            assert!(busy.contains("another process"), "{busy}");
            drop(log);
            let (again, _, rows) = Log::resume(&path, &later).unwrap();
            assert_eq!(rows.len(), 3, "{half}");
            log = again;
        }
        log.add(6.0, 4e-9).unwrap();
        drop(log);
        // Whoever may read the log may lock it: that keeps nobody from going on with it.
        let reader = File::open(&path).unwrap();
        reader.lock().unwrap();
        drop(Log::resume(&path, &later).unwrap());
        let whole = PhaseFile::read(BufReader::new(File::open(&path).unwrap())).unwrap();
        assert_eq!(
            whole.rows.iter().map(|row| row.phase_s).collect::<Vec<_>>(),
            [0.0, -1.25e-9, 3e-9, 4e-9]
        );
        assert_eq!(whole.samples(None).unwrap().0.len(), 13, "with a gap");
        let again = Log::begin(&path, &identity()).unwrap_err().to_string();
        assert!(again.contains("--resume"), "{again}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_another_is_not_continued() {
        let path = path("other");
        let mut log = Log::begin(&path, &identity()).unwrap();
        log.add(0.0, 0.0).unwrap();
        drop(log);
        for (now, says) in [
            (Identity { boot: BootId([1; 16]), ..identity() }, "booted anew"),
            (
                Identity { counter: "hpet".into(), ..identity() },
                "the counter was tsc then and is hpet",
            ),
            (Identity { reference: "raw".into(), ..identity() }, "the reference was ntp"),
            (Identity { clocksource: "hpet".into(), ..identity() }, "the clocksource was tsc"),
            (Identity { suspended_ns: 9_000_000_000, ..identity() }, "suspended for 2000 ms"),
            (Identity { interval_s: 1.0, ..identity() }, "the interval was 0.5 s then and is 1 s"),
        ] {
            let why = Log::resume(&path, &now).unwrap_err().to_string();
            assert!(why.contains(says) && why.contains("cannot be continued"), "{why}");
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        for (damage, instead, says) in [
            ("# boot: a5", "# boot: zz", "no log of"),
            ("# period: ", "# period: 7", "no log of"),
            ("# origin-count: ", "# origin-count: -", "no log of"),
            ("# suspended-ns: ", "# suspended-ns: x", "no log of"),
            ("0 0e0", "0 oh", "line 13: \"oh\""),
            ("0 0e0", "", "no phases"),
        ] {
            assert!(whole.contains(damage), "{whole}");
            std::fs::write(&path, whole.replace(damage, instead)).unwrap();
            let why = Log::resume(&path, &identity()).unwrap_err().to_string();
            assert!(why.contains(says), "{instead}: {why}");
        }
        // Of two boots of which the kernel says nothing, nobody knows whether they are one.
        std::fs::write(&path, whole.replace(&"a5".repeat(16), &"00".repeat(16))).unwrap();
        let unknown = Identity { boot: UNKNOWN_BOOT, ..identity() };
        let why = Log::resume(&path, &unknown).unwrap_err().to_string();
        assert!(why.contains("does not say"), "{why}");
        std::fs::remove_file(&path).unwrap();
        let why = Log::resume(&path, &identity()).unwrap_err().to_string();
        assert!(why.contains("No such file"), "{why}");
    }
}
