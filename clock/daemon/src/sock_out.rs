//! The clock's time for chronyd and others, as samples of chrony's protocol SOCK.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use truechimer_counter::Counter;
use truechimer_stamp::sock::{self, SockSample};
use truechimer_time::{Count, Leap, Period, Span};
use truechimer_timehands::{Hand, Status};

use crate::system_clock;

/// Time between samples.
const EVERY: Span = Span::from_secs(1);
/// A leap second is announced for so long before it, s.
const ANNOUNCED: i64 = 86_400;
/// Distance from one, s, within which nothing is sent: Unix time does not tell one second from the
/// other.
const SILENT: i64 = 2;

/// A socket that samples are sent to, for as long as the clock is synchronised.
#[derive(Debug)]
pub(crate) struct SockOut {
    path: PathBuf,
    socket: UnixDatagram,
    due: Option<Count>,
    /// The last trouble that was told.
    trouble: Option<ErrorKind>,
}

impl SockOut {
    pub(crate) fn new(path: &Path) -> io::Result<SockOut> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(SockOut { path: path.into(), socket, due: None, trouble: None })
    }

    /// Forgets all counts.
    pub(crate) fn forget(&mut self) {
        self.due = None;
    }

    /// Sends a sample, if it is time. Returns trouble that is new.
    pub(crate) fn tell(
        &mut self,
        hand: &Hand,
        counter: Counter,
        nominal: Period,
    ) -> Option<String> {
        let now = counter.read();
        if hand.status != Status::Synchronised || self.due.is_some_and(|due| (due - now).0 > 0) {
            return None;
        }
        self.due = Some(now + nominal.counts(EVERY));
        let system = system_clock::read(counter, nominal);
        let ours = hand.time_at(system.count);
        let until = |leap: Leap| leap.at.saturating_sub(ours.secs());
        let leaps = [hand.leaps.last, hand.leaps.next];
        if leaps.into_iter().flatten().any(|leap| until(leap).abs() <= SILENT) {
            return None;
        }
        let announced = hand.leaps.next.filter(|leap| (0..=ANNOUNCED).contains(&until(*leap)));
        let sample = SockSample {
            unix_ns: system.unix_ns,
            true_ns: i64::try_from(hand.leaps.utc(ours).unix_nanos()).ok()?,
            pulse: false,
            leap: announced.map_or(0, |leap| if leap.step > 0 { 1 } else { 2 }),
        };
        let trouble = match self.socket.send_to(&sock::write(&sample), &self.path) {
            // A reader that does not get round to it loses samples.
            Ok(_) => None,
            Err(why) if why.kind() == ErrorKind::WouldBlock => None,
            Err(why) => Some(why),
        };
        let kind = trouble.as_ref().map(io::Error::kind);
        let is_new = std::mem::replace(&mut self.trouble, kind) != kind;
        let why = trouble.filter(|_| is_new)?;
        Some(format!(
            "no samples to `sock-out`: {}: {why}; tried again every second",
            self.path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_counter::{Choice, realtime_pair};
    use truechimer_time::{BootId, CountSpan, CounterId, Epoch, Instant};

    #[test]
    fn samples_say_how_far_the_clock_is_ahead() {
        let path = std::env::temp_dir().join(format!("truechimer-out-{}", std::process::id()));
        let counter = Counter::open(Choice::Raw).unwrap();
        let pair = realtime_pair(counter, 8);
        let nominal = Period::NANOSECOND;
        // 1.5 s ahead of the system clock.
        let hand = Hand::exact(
            CounterId { kind: counter.kind(), boot: BootId::default(), epoch: Epoch(0) },
            pair.mid(),
            Instant::from_nanos(i128::from(pair.unix_ns) + 1_500_000_000),
            nominal,
            pair.mid() + CountSpan(1 << 50),
        );
        let mut out = SockOut::new(&path).unwrap();
        let told = out.tell(&hand, counter, nominal).expect("nobody is there");
        assert!(told.contains("`sock-out`") && told.contains("No such file"), "{told}");
        let reader = UnixDatagram::bind(&path).unwrap();
        reader.set_nonblocking(true).unwrap();
        assert_eq!(out.tell(&hand, counter, nominal), None, "not yet");
        out.forget();
        for status in [Status::Unknown, Status::Holdover, Status::Disrupted] {
            assert_eq!(out.tell(&Hand { status, ..hand }, counter, nominal), None);
        }
        assert_eq!(reader.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(out.tell(&hand, counter, nominal), None);
        let mut bytes = [0; 64];
        let length = reader.recv(&mut bytes).unwrap();
        let sample = sock::parse(&bytes[..length]).unwrap();
        let ahead = sample.true_ns - sample.unix_ns;
        assert!((ahead - 1_500_000_000).abs() < 5_000_000, "{ahead}");
        assert!(!sample.pulse && sample.leap == 0);
        std::fs::remove_file(&path).unwrap();
    }
}
