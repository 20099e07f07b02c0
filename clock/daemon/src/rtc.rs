//! The machine's real-time clock: read by a helper thread that the time path never waits for, as a
//! CMOS clock may take milliseconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use truechimer_counter::{Counter, realtime_pair};
use truechimer_engine::{Event, RtcReading};
use truechimer_time::{Count, Period, Span};

/// The first real-time clock: the one that the kernel itself sets the time by.
const CLOCK: &str = "/sys/class/rtc/rtc0/since_epoch";
/// hwclock(8) says there whether it runs in UTC or in local time.
const ADJTIME: &str = "/etc/adjtime";
/// Interval at which it is read.
const INTERVAL: Span = Span::from_secs(64);
/// The helper thread needs next to no stack.
const STACK: usize = 64 << 10;

/// Time that the real-time clock keeps, as the machine says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    /// UTC.
    Utc,
    /// Local time.
    Local,
    /// Nothing: UTC, by hwclock(8), but not where another system sets it to local time.
    Unsaid,
}

impl Keeps {
    /// Reads the word there.
    fn by(adjtime: &Path) -> Keeps {
        let text = fs::read_to_string(adjtime).unwrap_or_default();
        let says = |word: &str| text.lines().any(|line| line.trim() == word);
        match (says("LOCAL"), says("UTC")) {
            (true, _) => Keeps::Local,
            (false, true) => Keeps::Utc,
            (false, false) => Keeps::Unsaid,
        }
    }

    /// Assumption, for the user, where it is not what the machine says.
    fn note(self) -> Option<String> {
        match self {
            Keeps::Utc => None,
            Keeps::Local => Some(format!(
                "the machine's real-time clock runs in local time, by {ADJTIME}: it is not looked at"
            )),
            Keeps::Unsaid => Some(format!(
                "{ADJTIME} does not say whether the machine's real-time clock runs in UTC or in \
                 local time: taken for UTC, or for local time if a first time is whole quarter-hours \
                 off it; 'hwclock --systohc --utc' settles it"
            )),
        }
    }
}

/// The real-time clock, if there is one that can be read and runs in UTC as far as is known.
#[derive(Debug)]
pub(crate) struct Rtc {
    counter: Counter,
    path: PathBuf,
    may_be_local: bool,
    due: Count,
    readings: Receiver<Option<RtcReading>>,
    sender: Sender<Option<RtcReading>>,
    waiting: bool,
}

impl Rtc {
    /// Reads it for the first time. Returns also what is assumed of it, for the user.
    pub(crate) fn open(counter: Counter) -> (Option<(Rtc, RtcReading)>, Option<String>) {
        // Inside a simulator it would tell another time.
        if truechimer_counter::is_simulated() || !Path::new(CLOCK).exists() {
            return (None, None);
        }
        let keeps = Keeps::by(Path::new(ADJTIME));
        (Rtc::at(counter, CLOCK.into(), keeps), keeps.note())
    }

    fn at(counter: Counter, path: PathBuf, keeps: Keeps) -> Option<(Rtc, RtcReading)> {
        let may_be_local = match keeps {
            Keeps::Utc => false,
            Keeps::Unsaid => true,
            Keeps::Local => return None,
        };
        let reading = read(counter, &path, may_be_local)?;
        let due = reading.count;
        let (sender, readings) = mpsc::channel();
        let rtc = Rtc { counter, path, may_be_local, due, readings, sender, waiting: false };
        Some((rtc, reading))
    }

    /// Has it read if that is due, and returns what was read since.
    pub(crate) fn look(&mut self, now: Count, nominal: Period) -> Option<Event> {
        let read_since = self.readings.try_recv().ok();
        if read_since.is_some() {
            self.waiting = false;
        }
        // A counter that went back makes it due at once.
        let left = nominal.span(self.due - now);
        if !self.waiting && (left <= Span::ZERO || left > INTERVAL) {
            self.due = now + nominal.counts(INTERVAL);
            let (counter, path, sender) = (self.counter, self.path.clone(), self.sender.clone());
            let may_be_local = self.may_be_local;
            let work = move || {
                // Nobody is there to hear it once the daemon has ended.
                let _ = sender.send(read(counter, &path, may_be_local));
            };
            let builder = thread::Builder::new().name("rtc".into()).stack_size(STACK);
            self.waiting = builder.spawn(work).is_ok();
        }
        read_since.flatten().map(Event::Rtc)
    }

    /// Forgets what was being read: it belongs to counts that are over.
    pub(crate) fn forget(&mut self) {
        let (sender, readings) = mpsc::channel();
        (self.sender, self.readings, self.waiting) = (sender, readings, false);
        self.due = self.counter.read();
    }
}

fn read(counter: Counter, path: &Path, may_be_local: bool) -> Option<RtcReading> {
    let text = fs::read_to_string(path).ok()?;
    let unix = text.trim().parse().ok()?;
    let system = realtime_pair(counter, 1);
    let count = system.mid();
    let system = Some(system.unix_ns.div_euclid(1_000_000_000));
    Some(RtcReading { count, unix, system, may_be_local })
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::Choice;

    #[test]
    fn it_is_read_at_the_start_and_then_by_another_thread() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let path = std::env::temp_dir().join(format!("truechimer-rtc-{}", std::process::id()));
        assert!(Rtc::at(counter, path.clone(), Keeps::Utc).is_none(), "there is none");
        fs::write(&path, "no number\n").unwrap();
        assert!(Rtc::at(counter, path.clone(), Keeps::Utc).is_none());
        fs::write(&path, "1800000000\n").unwrap();
        let (mut rtc, reading) = Rtc::at(counter, path.clone(), Keeps::Utc).unwrap();
        assert_eq!(reading.unix, 1_800_000_000);
        fs::write(&path, "1800000007\n").unwrap();
        let nominal = Period::NANOSECOND;
        assert_eq!(rtc.look(reading.count, nominal), None, "asked for");
        let later = rtc.readings.recv().unwrap();
        rtc.sender.send(later).unwrap();
        let event = rtc.look(counter.read(), nominal);
        assert!(matches!(event, Some(Event::Rtc(RtcReading { unix: 1_800_000_007, .. }))));
        assert!(rtc.look(counter.read(), nominal).is_none() && !rtc.waiting, "not due");
        // One that is gone says nothing, and is asked again.
        fs::remove_file(&path).unwrap();
        rtc.forget();
        assert_eq!(rtc.look(counter.read(), nominal), None);
        assert_eq!(rtc.readings.recv().unwrap(), None);
    }

    #[test]
    fn what_it_keeps_is_told_by_its_file() {
        let path = std::env::temp_dir().join(format!("truechimer-adjtime-{}", std::process::id()));
        assert_eq!(Keeps::by(&path), Keeps::Unsaid, "there is none");
        for (text, keeps) in [
            ("0.0 0 0.0\n0\nLOCAL\n", Keeps::Local),
            ("0.0 0 0.0\n0\nUTC\n", Keeps::Utc),
            ("0.0 0 0.0\n", Keeps::Unsaid),
            ("", Keeps::Unsaid),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(Keeps::by(&path), keeps, "{text:?}");
        }
        // Of one in local time nothing is read, and of one of which nothing is said that is known.
        let counter = Counter::open(Choice::Raw).unwrap();
        fs::write(&path, "1800000000\n").unwrap();
        assert!(Rtc::at(counter, path.clone(), Keeps::Local).is_none());
        for (keeps, may_be_local) in [(Keeps::Utc, false), (Keeps::Unsaid, true)] {
            let (mut rtc, reading) = Rtc::at(counter, path.clone(), keeps).unwrap();
            assert_eq!(reading.may_be_local, may_be_local);
            assert_eq!(rtc.look(reading.count, Period::NANOSECOND), None, "asked for");
            assert_eq!(rtc.readings.recv().unwrap().unwrap().may_be_local, may_be_local);
        }
        assert_eq!(Keeps::Utc.note(), None);
        for (keeps, says) in [(Keeps::Local, "is not looked at"), (Keeps::Unsaid, "taken for UTC")]
        {
            let note = keeps.note().unwrap();
            assert!(note.contains("/etc/adjtime") && note.contains(says), "{note}");
        }
        fs::remove_file(&path).unwrap();
    }
}
