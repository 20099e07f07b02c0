//! The reference clocks: looked at when a sample is due, never waited for.

mod hypervisor;
mod reader;

use std::os::fd::RawFd;

use truechimer_counter::Counter;
use truechimer_engine::{Event, RefClockKind, SourceId};
use truechimer_time::{Count, CountSpan, Period, Span};

use crate::sys::{POLLIN, pollfd};
use reader::Reader;

/// Interval of looks at one whose samples come nobody knows when.
const SEARCH: Span = Span::from_millis(100);
/// A sample is looked for so long after it is due: it has to have come, and the sooner it is found
/// the better its count is known.
const AFTER: Span = Span::from_micros(500);
/// Not yet there, it is looked for again so much later, then twice as much, and so on.
const AGAIN: Span = Span::from_millis(1);
/// A second by the counter may be so far off: 1 %.
const OFF: i64 = 100;
/// A place that is being written may show half a sample, but not so often in a row.
const HALF_SAMPLES: u32 = 8;
/// A socket is read no more often than this, whoever sends.
const APART: Span = Span::from_millis(50);

/// All reference clocks.
#[derive(Debug)]
pub(crate) struct RefClocks {
    counter: Counter,
    nominal: Period,
    resolution: CountSpan,
    watched: Vec<Watched>,
}

/// One that is open.
#[derive(Debug)]
struct Watched {
    source: SourceId,
    reader: Reader,
    /// Time between samples.
    interval: Span,
    /// When it is looked at next.
    due: Count,
    /// When it was looked at last.
    looked: Count,
    /// Looks since the last sample.
    looks: u32,
    half_samples: u32,
    /// The newest sample, and how long after the one before it came, if that was as expected.
    last: Option<Count>,
    apart: CountSpan,
}

impl RefClocks {
    pub(crate) fn new(counter: Counter, nominal: Period, resolution: CountSpan) -> RefClocks {
        RefClocks { counter, nominal, resolution, watched: Vec::new() }
    }

    /// Opens the one at `path`. If that fails, this is what the engine should hear.
    pub(crate) fn watch(
        &mut self,
        source: SourceId,
        kind: RefClockKind,
        path: &str,
        poll: u32,
    ) -> Option<Event> {
        self.close(source);
        let log = (self.counter, self.nominal, self.resolution);
        match Reader::open(kind, path, log) {
            Ok(mut reader) => {
                let now = reader.prepare(self.counter);
                let interval = Span::from_secs(poll.max(1).into());
                self.watched.push(Watched {
                    source,
                    reader,
                    interval,
                    due: now,
                    looked: now,
                    looks: 0,
                    half_samples: 0,
                    last: None,
                    apart: self.nominal.counts(interval),
                });
                None
            }
            Err(error) => Some(Event::RefClockFailed { source, error }),
        }
    }

    /// Closes it.
    pub(crate) fn close(&mut self, source: SourceId) {
        self.watched.retain(|watched| watched.source != source);
    }

    /// Forgets all counts: the counter lost its continuity.
    pub(crate) fn forget(&mut self) {
        let now = self.counter.read();
        for watched in &mut self.watched {
            watched.reader.forget();
            (watched.due, watched.looked) = (now, now);
            watched.last = None;
        }
    }

    /// When [`RefClocks::look`] is wanted next, if ever.
    pub(crate) fn due(&self, now: Count) -> Option<Count> {
        self.watched.iter().map(|watched| watched.due).min_by_key(|due| (*due - now).0)
    }

    /// Adds what to wait for: the sockets that were not read just now.
    pub(crate) fn interests(&mut self, fds: &mut Vec<pollfd>, now: Count) {
        for watched in &mut self.watched {
            let Some(fd) = watched.reader.socket() else { continue };
            let again = watched.looked + self.nominal.counts(APART);
            if now.at_or_after(again) {
                fds.push(pollfd { fd, events: POLLIN, revents: 0 });
            } else if (watched.due - again).0 > 0 {
                watched.due = again;
            }
        }
    }

    /// Something came on one of these sockets.
    pub(crate) fn arrived(&mut self, fds: &[pollfd], now: Count) {
        let ready = |fd: RawFd| fds.iter().any(|found| found.fd == fd && found.revents != 0);
        for watched in &mut self.watched {
            if watched.reader.socket().is_some_and(ready) {
                watched.due = now;
            }
        }
    }

    /// Looks at those that are due.
    pub(crate) fn look(&mut self, now: Count) -> Vec<Event> {
        let (nominal, counter) = (self.nominal, self.counter);
        let mut events = Vec::new();
        self.watched.retain_mut(|watched| {
            if !now.at_or_after(watched.due) {
                return true;
            }
            match watched.look(nominal, counter) {
                Ok(event) => {
                    events.extend(event);
                    true
                }
                Err(error) => {
                    events.push(Event::RefClockFailed { source: watched.source, error });
                    false
                }
            }
        });
        events
    }
}

impl Watched {
    fn look(&mut self, nominal: Period, counter: Counter) -> Result<Option<Event>, String> {
        let now = self.reader.prepare(counter);
        self.looked = now;
        let found = match self.reader.fetch() {
            Err(why) if why.may_pass && self.half_samples < HALF_SAMPLES => {
                self.half_samples += 1;
                None
            }
            fetched => {
                self.half_samples = 0;
                fetched.map_err(|why| why.text)?
            }
        };
        if self.reader.is_asked() {
            self.due = now + nominal.counts(self.interval);
        } else if self.reader.socket().is_some() {
            // It is heard when something comes.
            self.due = now + nominal.counts(Span::from_secs(1));
        }
        let paced = !self.reader.is_asked() && self.reader.socket().is_none();
        let Some(sample) = found else {
            if paced {
                let wait = AGAIN * (1 << self.looks.min(7));
                self.looks = self.looks.saturating_add(1);
                self.due = now + nominal.counts(wait.min(SEARCH));
            }
            return Ok(None);
        };
        self.looks = 0;
        if paced {
            self.due = match &sample.stamp {
                Ok(stamp) => self.next(stamp.count, now, nominal),
                Err(_) => now + nominal.counts(SEARCH),
            };
        }
        let (source, sequence) = (self.source, sample.sequence.unwrap_or(now.0));
        let (stamp, shown) = (sample.stamp, sample.shown);
        Ok(Some(Event::Sample { source, sequence, stamp, shown }))
    }

    /// When to look for the sample after that at `count`.
    fn next(&mut self, count: Count, now: Count, nominal: Period) -> Count {
        let nominally = nominal.counts(self.interval);
        let apart = self.last.replace(count).map(|last| count - last);
        let is_expected = |apart: &CountSpan| (apart.0 - nominally.0).abs() <= nominally.0 / OFF;
        match apart.filter(is_expected) {
            Some(apart) => self.apart = apart,
            // Nobody knows yet whether they come as they should.
            None => return now + nominal.counts(SEARCH),
        }
        let due = count + self.apart + nominal.counts(AFTER);
        if due.at_or_after(now) { due } else { now + nominal.counts(SEARCH) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::{Choice, realtime_pair};
    use truechimer_stamp::sock;

    #[test]
    fn edges_are_found_and_then_expected() {
        let path = std::env::temp_dir().join(format!("truechimer-pulse-{}", std::process::id()));
        let text = path.to_str().unwrap().to_owned();
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut clocks = RefClocks::new(counter, Period::NANOSECOND, CountSpan(1));
        let id = SourceId(7);
        let missing = clocks.watch(id, RefClockKind::Pulse, &text, 1);
        assert!(matches!(missing, Some(Event::RefClockFailed { source, .. }) if source == id));
        assert_eq!(clocks.due(counter.read()), None);
        std::fs::write(&path, "0.000000000#0\n").unwrap();
        assert_eq!(clocks.watch(id, RefClockKind::Pulse, &text, 1), None);
        for sequence in 1..4u64 {
            // The edges of a clock of which a second is a moment.
            let unix_ns = realtime_pair(counter, 8).unix_ns;
            let line = format!(
                "{}.{:09}#{sequence}\n",
                unix_ns.div_euclid(1_000_000_000),
                unix_ns.rem_euclid(1_000_000_000)
            );
            std::fs::write(&path, line).unwrap();
            let due = clocks.due(counter.read()).unwrap();
            let events = clocks.look(due);
            let [Event::Sample { source, sequence: found, stamp: Ok(stamp), .. }] =
                events.as_slice()
            else {
                panic!("{events:?}")
            };
            assert_eq!((*source, *found), (id, sequence));
            assert!(counter.read().at_or_after(stamp.count));
            let due = clocks.due(counter.read()).unwrap();
            assert!(clocks.look(due).is_empty(), "once only");
        }
        std::fs::write(&path, "nonsense\n").unwrap();
        let mut failed = Vec::new();
        for _ in 0..=HALF_SAMPLES {
            assert!(failed.is_empty());
            let due = clocks.due(counter.read()).unwrap();
            failed = clocks.look(due);
        }
        assert!(matches!(failed.as_slice(), [Event::RefClockFailed { .. }]), "{failed:?}");
        assert_eq!(clocks.due(counter.read()), None, "closed");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_next_edge_is_looked_for_a_second_later() {
        let path = std::env::temp_dir().join(format!("truechimer-next-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut clocks = RefClocks::new(counter, Period::NANOSECOND, CountSpan(1));
        clocks.watch(SourceId(0), RefClockKind::Pulse, path.to_str().unwrap(), 1);
        let watched = clocks.watched.first_mut().unwrap();
        const SECOND: u64 = 1_000_000_000;
        let mut next = |at: u64, late: u64| {
            let now = Count(at + late);
            (watched.next(Count(at), now, Period::NANOSECOND) - Count(at)).0
        };
        assert_eq!(next(SECOND, 0), 100_000_000, "the first");
        // 300 ppm fast.
        assert_eq!(next(2 * SECOND + 300_000, 1_000_000), 1_000_800_000);
        assert_eq!(next(3 * SECOND, 0), 1_000_200_000);
        assert_eq!(next(7 * SECOND, 0), 100_000_000, "some are missing");
        assert_eq!(next(7 * SECOND + SECOND / 2, 0), 100_000_000, "2 Hz");
        assert_eq!(next(8 * SECOND + SECOND / 2, 2 * SECOND), 2_100_000_000, "looked too late");
        std::fs::remove_file(&path).unwrap();
    }

    /// A sample that is true, as a program sends it.
    fn sample(true_ns: i64, pulse: bool, leap: u8) -> [u8; 40] {
        let counter = Counter::open(Choice::Raw).unwrap();
        let unix_ns = realtime_pair(counter, 8).unix_ns;
        sock::write(&sock::SockSample { unix_ns, true_ns: unix_ns + true_ns, pulse, leap })
    }

    #[test]
    fn datagrams_become_samples_and_a_flood_of_them_one() {
        let path = std::env::temp_dir().join(format!("truechimer-sock-{}", std::process::id()));
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut clocks = RefClocks::new(counter, Period::NANOSECOND, CountSpan(1));
        let id = SourceId(3);
        let text = path.to_str().unwrap();
        assert_eq!(clocks.watch(id, RefClockKind::Sock, text, 1), None);
        let mode = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let due = clocks.due(counter.read()).unwrap();
        assert_eq!(clocks.look(due), []);
        // Nothing that makes no sense gets through, and the newest that does counts.
        for bytes in [&sample(5_000, false, 0)[..], &[0; 40], &sample(7_000, true, 1), &[1, 2, 3]] {
            sender.send_to(bytes, &path).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(60));
        let mut fds = Vec::new();
        clocks.interests(&mut fds, counter.read());
        assert!(crate::sys::poll(&mut fds, 1000).unwrap());
        let now = counter.read();
        clocks.arrived(&fds, now);
        let events = clocks.look(now);
        let [Event::Sample { source, stamp: Ok(stamp), shown, .. }] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((*source, shown.pulse, shown.leap), (id, true, 1));
        assert!(counter.read().at_or_after(stamp.count));
        fds.clear();
        clocks.interests(&mut fds, counter.read());
        assert!(fds.is_empty(), "not so soon again");
        // What has been read is not read again; and the name goes with the socket.
        let due = clocks.due(counter.read()).unwrap();
        assert_eq!(clocks.look(due), []);
        clocks.close(id);
        assert!(!path.exists());
    }

    #[test]
    fn what_else_is_in_the_place_of_a_socket_stays() {
        let path = std::env::temp_dir().join(format!("truechimer-no-sock-{}", std::process::id()));
        std::fs::write(&path, "mine").unwrap();
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut clocks = RefClocks::new(counter, Period::NANOSECOND, CountSpan(1));
        let failed = clocks.watch(SourceId(1), RefClockKind::Sock, path.to_str().unwrap(), 1);
        assert!(matches!(failed, Some(Event::RefClockFailed { .. })), "{failed:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn cards_and_segments_that_are_not_there() {
        let counter = Counter::open(Choice::Raw).unwrap();
        let mut clocks = RefClocks::new(counter, Period::NANOSECOND, CountSpan(1));
        for (kind, path, told) in [
            (RefClockKind::Phc, "/dev/no-such-ptp", "/dev/no-such-ptp cannot be read"),
            (RefClockKind::Phc, "no such card", "is called no such card"),
            (RefClockKind::Shm, "99", "0 to 15"),
            (RefClockKind::Sock, "/no/such/folder/s", "/no/such/folder/s"),
        ] {
            let Some(Event::RefClockFailed { error, .. }) =
                clocks.watch(SourceId(1), kind, path, 1)
            else {
                panic!("{path}")
            };
            assert!(error.contains(told), "{error}");
        }
    }
}
