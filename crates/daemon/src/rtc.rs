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
/// How often it is read.
const INTERVAL: Span = Span::from_secs(64);
/// The helper thread needs next to no stack.
const STACK: usize = 64 << 10;

/// The real-time clock, if there is one that can be read and runs in UTC.
#[derive(Debug)]
pub(crate) struct Rtc {
    counter: Counter,
    path: PathBuf,
    due: Count,
    readings: Receiver<Option<RtcReading>>,
    sender: Sender<Option<RtcReading>>,
    waiting: bool,
}

impl Rtc {
    /// Reads it for the first time.
    pub(crate) fn open(counter: Counter) -> Option<(Rtc, RtcReading)> {
        // Inside a simulator it would tell another time.
        if truechimer_counter::is_simulated() || is_local(Path::new(ADJTIME)) {
            return None;
        }
        Rtc::at(counter, CLOCK.into())
    }

    fn at(counter: Counter, path: PathBuf) -> Option<(Rtc, RtcReading)> {
        let reading = read(counter, &path)?;
        let (sender, readings) = mpsc::channel();
        Some((Rtc { counter, path, due: reading.count, readings, sender, waiting: false }, reading))
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
            let work = move || {
                // Nobody is there to hear it once the daemon has ended.
                let _ = sender.send(read(counter, &path));
            };
            let builder = thread::Builder::new().name("rtc".into()).stack_size(STACK);
            self.waiting = builder.spawn(work).is_ok();
        }
        read_since.flatten().map(Event::Rtc)
    }

    /// What was being read belongs to counts that are over.
    pub(crate) fn forget(&mut self) {
        let (sender, readings) = mpsc::channel();
        (self.sender, self.readings, self.waiting) = (sender, readings, false);
        self.due = self.counter.read();
    }
}

fn read(counter: Counter, path: &Path) -> Option<RtcReading> {
    let text = fs::read_to_string(path).ok()?;
    let unix = text.trim().parse().ok()?;
    let system = realtime_pair(counter, 1);
    let count = system.mid();
    Some(RtcReading { count, unix, system: Some(system.unix_ns.div_euclid(1_000_000_000)) })
}

/// Whether the machine's real-time clock runs in local time.
fn is_local(adjtime: &Path) -> bool {
    fs::read_to_string(adjtime).is_ok_and(|text| text.lines().any(|line| line.trim() == "LOCAL"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::Choice;

    #[test]
    fn it_is_read_at_the_start_and_then_by_another_thread() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let path = std::env::temp_dir().join(format!("truechimer-rtc-{}", std::process::id()));
        assert!(Rtc::at(counter, path.clone()).is_none(), "there is none");
        fs::write(&path, "no number\n").unwrap();
        assert!(Rtc::at(counter, path.clone()).is_none());
        fs::write(&path, "1800000000\n").unwrap();
        let (mut rtc, reading) = Rtc::at(counter, path.clone()).unwrap();
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
    fn one_in_local_time_is_told_by_its_file() {
        let path = std::env::temp_dir().join(format!("truechimer-adjtime-{}", std::process::id()));
        assert!(!is_local(&path));
        for (text, local) in [("0.0 0 0.0\n0\nLOCAL\n", true), ("0.0 0 0.0\n0\nUTC\n", false)] {
            fs::write(&path, text).unwrap();
            assert_eq!(is_local(&path), local);
        }
        fs::remove_file(&path).unwrap();
    }
}
