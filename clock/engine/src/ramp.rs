//! Intervals at which a server is asked at the start.
//!
//! What limits a clock at first is how little it knows of its counter's rate, and that is a matter
//! of how long it has been looking: so the interval grows with the time since the first request. It
//! stays within what servers allow that limit their clients (`limited` of ntpd, `ratelimit` of
//! chronyd, as they come): eight requests at once, and one more for every 8 s.

/// Seconds between the first requests (RFC 5905 §13.1 has the same).
pub(crate) const FIRST_INTERVAL: u32 = 2;
/// Number of requests that follow one another at each of the first intervals, s ...
const STEPS: [(u32, u32); 3] = [(7, FIRST_INTERVAL), (3, 4), (13, 8)];
/// ... and so many at each that is twice as long as the one before, until it is what was asked for.
const AT_EACH: u32 = 4;

/// Where a source is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ramp {
    /// Number of requests that were sent, and of those that belong to it.
    sent: u32,
    of: u32,
}

impl Ramp {
    /// All of it.
    pub(crate) const WHOLE: Ramp = Ramp::of(u32::MAX);
    /// The user or the server does not want it.
    pub(crate) const NONE: Ramp = Ramp::of(0);

    /// Only its first requests.
    pub(crate) const fn of(requests: u32) -> Ramp {
        Ramp { sent: 0, of: requests }
    }

    /// A request is sent.
    pub(crate) fn step(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// True if so many requests were sent since it began, or it is over.
    pub(crate) fn is_beyond(self, requests: u32) -> bool {
        self.sent >= requests.min(self.of)
    }

    /// Wait after the newest request, s, if it is to be `steady` in the end.
    pub(crate) fn interval(self, steady: u32) -> u32 {
        if self.sent >= self.of {
            return steady;
        }
        let mut left = self.sent.saturating_sub(1);
        let mut last = FIRST_INTERVAL;
        for (requests, interval) in STEPS {
            if left < requests {
                return interval.min(steady);
            }
            left -= requests;
            last = interval;
        }
        let doublings = left / AT_EACH + 1;
        last.checked_shl(doublings).filter(|_| doublings < 16).map_or(steady, |s| s.min(steady))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// When requests are sent in the first so many seconds.
    fn times(steady: u32, until: u32) -> Vec<u32> {
        let (mut ramp, mut at, mut all) = (Ramp::WHOLE, 0, Vec::new());
        while at < until {
            all.push(at);
            ramp.step();
            at += ramp.interval(steady);
        }
        all
    }

    #[test]
    fn it_is_what_servers_allow() {
        for steady in [16, 64, 1024] {
            for (k, at) in times(steady, 10_000).iter().enumerate() {
                // Each comes up to 1/64 early.
                let at = f64::from(*at) * (1.0 - 1.0 / 64.0);
                assert!(k as f64 + 1.0 <= 8.0 + at / 8.0 + 0.3, "request {k} at {at} s");
            }
        }
    }

    #[test]
    fn it_grows_to_what_was_asked_for() {
        let first = [0, 2, 4, 6, 8, 10, 12, 14, 18, 22, 26, 34, 42];
        assert_eq!(times(16, 43), first);
        assert_eq!(times(2, 10), [0, 2, 4, 6, 8]);
        let gaps = |steady| {
            let all = times(steady, 20_000);
            let gaps = all.windows(2).map(|w| w[1] - w[0]);
            gaps.skip(23).take(30).collect::<Vec<_>>()
        };
        assert!(gaps(16).iter().all(|gap| *gap == 16));
        assert_eq!(gaps(64)[..9], [16, 16, 16, 16, 32, 32, 32, 32, 64]);
        assert_eq!(gaps(1024)[20..25], [512, 512, 512, 512, 1024]);
        assert_eq!(Ramp { sent: u32::MAX - 1, ..Ramp::WHOLE }.interval(1024), 1024);
        assert_eq!(Ramp::NONE.interval(64), 64);
        let after = |sent| Ramp { sent, ..Ramp::of(5) }.interval(64);
        assert_eq!([1, 4, 5, 6].map(after), [2, 2, 64, 64]);
    }
}
