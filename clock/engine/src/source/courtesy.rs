//! Demands of servers by kiss codes (RFC 5905 §7.4), and how they wear off.
//!
//! `RATE` doubles the poll interval at once, each time. It is halved again after a time without:
//! [`CALM`] at first, and twice as long after each `RATE` that comes at an interval which was too
//! short before, up to [`LONGEST_CALM`]: a server that allows no more hears of us a little too
//! often ever more rarely, and one that was only overloaded gets back what the user asked for.
//!
//! `DENY` and `RSTR` end the association. After [`FIRST_RETRY`] a new one begins with one request,
//! and after twice as long each further time, up to [`LONGEST_RETRY`]: a daemon that runs for
//! months finds out that it is let in again.

use alloc::vec::Vec;
use core::net::SocketAddr;

use truechimer_time::{Count, Period, Span};

use super::canonical;
use crate::config::POLL_RANGE;

/// Time without `RATE` after which the interval is halved, s: at first, and at most.
const CALM: u32 = 3600;
const LONGEST_CALM: u32 = 7 * 86_400;
/// Usable replies that it takes besides, and after which a refusal of service is forgotten.
const CALM_REPLIES: u32 = 8;
/// Time for which a server that refuses service is left alone, s: at first, and at most.
const FIRST_RETRY: u32 = 3600;
/// The first of them.
pub(super) const RETRY: Span = Span::from_secs(FIRST_RETRY as i64);
const LONGEST_RETRY: u32 = 86_400;
/// After how long it may be asked again because the user wants it, s.
const WISHED_RETRY: u32 = 300;
/// Addresses that are remembered for having refused service; names of pools lead to ever new ones.
const MOST_REFUSALS: usize = 32;

/// Demands on us.
#[derive(Debug)]
pub(super) struct Courtesy {
    /// The poll interval is no shorter than this, s.
    at_least: u32,
    /// The longest poll interval that was too short for the server, s; 0: none is known.
    too_short: u32,
    /// Usable replies since the last change, and the sum of the poll intervals since, s.
    replies: u32,
    calm: u32,
    /// Calm that it takes to halve the interval, s.
    wanted: u32,
    /// The interval was halved since the last `RATE`.
    tried: bool,
    refusals: Vec<Refusal>,
}

/// A server that refused service.
#[derive(Debug)]
struct Refusal {
    address: SocketAddr,
    /// When it did so last, and until when it is left alone for that.
    at: Count,
    until: Count,
    /// Time for which it is left alone the next time, s.
    next: u32,
}

impl Default for Courtesy {
    fn default() -> Courtesy {
        Courtesy {
            at_least: 0,
            too_short: 0,
            replies: 0,
            calm: 0,
            wanted: CALM,
            tried: false,
            refusals: Vec::new(),
        }
    }
}

impl Courtesy {
    /// The poll interval, s, if the user wants `poll`.
    pub(super) fn interval(&self, poll: u32) -> u32 {
        poll.max(self.at_least).clamp(*POLL_RANGE.start(), *POLL_RANGE.end())
    }

    /// True if the server is asked less often than the user wants.
    pub(super) fn is_slow(&self, poll: u32) -> bool {
        self.interval(poll) > poll
    }

    /// The server wants fewer requests than one in so many seconds.
    pub(super) fn slow(&mut self, interval: u32) {
        if core::mem::take(&mut self.tried) && interval <= self.too_short {
            self.wanted = self.wanted.saturating_mul(2).min(LONGEST_CALM);
        }
        self.too_short = interval;
        self.at_least = interval.saturating_mul(2).min(*POLL_RANGE.end());
        (self.replies, self.calm) = (0, 0);
    }

    /// A usable reply to a request that followed the one before after `interval` seconds.
    pub(super) fn served(&mut self, from: SocketAddr, interval: u32) {
        self.replies = self.replies.saturating_add(1);
        self.calm = self.calm.saturating_add(interval);
        if self.replies < CALM_REPLIES {
            return;
        }
        self.refusals.retain(|refusal| refusal.address != canonical(from));
        if self.calm < self.wanted {
            return;
        }
        // What was too short once no longer is.
        if interval <= self.too_short || self.at_least == 0 {
            self.too_short = interval / 2;
            self.wanted = (self.wanted / 2).max(CALM);
        }
        self.at_least = if interval > 1 { self.at_least.min(interval) / 2 } else { 0 };
        (self.replies, self.calm, self.tried) = (0, 0, true);
    }

    /// Another server is asked: what the one before wanted of the interval is not its doing.
    pub(super) fn forget_rate(&mut self) {
        *self = Courtesy { refusals: core::mem::take(&mut self.refusals), ..Courtesy::default() };
    }

    /// The server at that address refuses service.
    pub(super) fn refuse(&mut self, address: SocketAddr, at: Count, nominal: Period, early: u64) {
        let address = canonical(address);
        self.replies = 0;
        let before = self.refusals.iter().position(|refusal| refusal.address == address);
        let wait = before.map_or(FIRST_RETRY, |index| self.refusals.swap_remove(index).next);
        if self.refusals.len() >= MOST_REFUSALS {
            let soonest = self.refusals.iter().enumerate().min_by_key(|(_, r)| (r.until - at).0);
            soonest.map(|(index, _)| index).map(|index| self.refusals.swap_remove(index));
        }
        // Up to an eighth early, so that clients that were all refused do not come back in step.
        let whole = nominal.counts(Span::from_secs(wait.into())).0.unsigned_abs();
        let early = early % (whole / 8).max(1);
        let until = Count(at.0.wrapping_add(whole - early));
        let next = wait.saturating_mul(2).min(LONGEST_RETRY);
        self.refusals.push(Refusal { address, at, until, next });
    }

    /// Until when the server at that address is to be left alone.
    pub(super) fn left_alone(&self, address: SocketAddr, at: Count) -> Option<Count> {
        let address = canonical(address);
        let refusal = self.refusals.iter().find(|refusal| refusal.address == address)?;
        (!at.at_or_after(refusal.until)).then_some(refusal.until)
    }

    /// The user wants to know whether anything has changed.
    pub(super) fn hurry(&mut self, at: Count, nominal: Period) {
        let least = nominal.counts(Span::from_secs(WISHED_RETRY.into()));
        for refusal in &mut self.refusals {
            let soon = (refusal.at + least).latest(at);
            refusal.until = if refusal.until.at_or_after(soon) { soon } else { refusal.until };
        }
        self.calm = self.calm.max(self.wanted);
    }

    /// Counts from before mean nothing any more.
    pub(super) fn new_epoch(&mut self, at: Count, nominal: Period) {
        for refusal in &mut self.refusals {
            let wait = nominal.counts(RETRY);
            (refusal.at, refusal.until) = (at, at + wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ramp::FIRST_INTERVAL;
    use std::vec;

    const NS: Period = Period::NANOSECOND;
    const HOUR: i64 = 3600;

    fn address(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 123).into()
    }

    /// A server that answers `RATE` to whoever comes sooner than `allows` seconds after the last
    /// request, asked for so many days by one who wants to every `poll` seconds: how often it did
    /// so, and the interval in the end.
    fn asked(courtesy: &mut Courtesy, poll: u32, allows: u32, days: u32) -> (u32, u32) {
        let (mut t, mut rates) = (0, 0);
        while t < days * 86_400 {
            let interval = courtesy.interval(poll);
            t += interval;
            if interval < allows {
                rates += 1;
                courtesy.slow(interval);
            } else {
                courtesy.served(address(1), interval);
            }
        }
        (rates, courtesy.interval(poll))
    }

    #[test]
    fn a_slow_down_wears_off_step_by_step() {
        let mut courtesy = Courtesy::default();
        assert_eq!(courtesy.interval(64), 64);
        for interval in [128, 256, 512, 1024, 1024] {
            courtesy.slow(courtesy.interval(64));
            assert_eq!(courtesy.interval(64), interval);
        }
        // An hour and eight replies at each step.
        let mut steps = vec![(0, 1024)];
        let mut t = 0;
        while courtesy.is_slow(64) {
            let interval = courtesy.interval(64);
            courtesy.served(address(1), interval);
            t += interval;
            if courtesy.interval(64) != interval {
                steps.push((t, courtesy.interval(64)));
            }
        }
        assert_eq!(steps, [(0, 1024), (8192, 512), (12_288, 256), (16_128, 128), (19_840, 64)]);
        // Never below what the user wants, and not above it for ever.
        assert_eq!(asked(&mut courtesy, 64, 0, 30), (0, 64));
        assert_eq!(courtesy.interval(FIRST_INTERVAL), FIRST_INTERVAL);
    }

    #[test]
    fn a_server_that_allows_no_more_is_tried_ever_more_rarely() {
        let mut courtesy = Courtesy::default();
        let (rates, interval) = asked(&mut courtesy, 64, 100, 365);
        assert!((50..70).contains(&rates), "{rates} times in a year");
        assert_eq!((interval, courtesy.wanted), (128, LONGEST_CALM));
        // When it allows more at last, that is found out within a week or so.
        assert_eq!(asked(&mut courtesy, 64, 0, 8), (0, 64));
        // And in some weeks nothing is held against it any more.
        assert_eq!(asked(&mut courtesy, 64, 0, 30), (0, 64));
        assert_eq!((courtesy.wanted, courtesy.too_short), (CALM, 32));
    }

    #[test]
    fn an_interval_of_the_users_own_choice_is_not_lengthened_for_nothing() {
        let mut courtesy = Courtesy::default();
        courtesy.slow(64);
        assert_eq!([64, 128, 512, 1024].map(|poll| courtesy.interval(poll)), [128, 128, 512, 1024]);
        assert!(courtesy.is_slow(64) && !courtesy.is_slow(128));
        // The longest there is remains what it is.
        let mut courtesy = Courtesy::default();
        assert_eq!(asked(&mut courtesy, 1024, 5000, 30).1, 1024);
        courtesy.slow(u32::MAX);
        assert_eq!(courtesy.interval(u32::MAX), 1024);
    }

    #[test]
    fn a_wish_brings_the_next_step_forward_and_no_more() {
        let mut courtesy = Courtesy::default();
        courtesy.slow(64);
        courtesy.hurry(Count(0), NS);
        for _ in 1..CALM_REPLIES {
            courtesy.served(address(1), 128);
            assert!(courtesy.is_slow(64));
        }
        courtesy.served(address(1), 128);
        assert!(!courtesy.is_slow(64));
    }

    #[test]
    fn a_refusal_holds_for_an_hour_and_for_a_day_in_the_end() {
        let mut courtesy = Courtesy::default();
        let mut at = Count(5);
        let mut waits = Vec::new();
        for early in [0, 0, 0, 0, 0, 0, 0, u64::MAX, 77] {
            courtesy.refuse(address(1), at, NS, early);
            let until = courtesy.left_alone(address(1), at).unwrap();
            waits.push((until - at).0 / 1_000_000_000);
            assert_eq!(courtesy.left_alone(address(2), at), None);
            at = until;
            assert_eq!(courtesy.left_alone(address(1), at), None);
        }
        let hours = [1, 2, 4, 8, 16, 24, 24].map(|h| h * HOUR);
        assert_eq!(waits[..7], hours);
        assert!(waits[7..].iter().all(|w| (21 * HOUR..=24 * HOUR).contains(w)), "{waits:?}");
        // A wish is heard, and not too often; what comes sooner anyway comes.
        courtesy.refuse(address(1), at, NS, 0);
        courtesy.hurry(at, NS);
        let until = courtesy.left_alone(address(1), at).unwrap();
        assert_eq!((until - at).0, 300_000_000_000);
        courtesy.hurry(until - truechimer_time::CountSpan(1), NS);
        assert_eq!(courtesy.left_alone(address(1), at), Some(until));
        // One reply does not make it forgotten, a few do.
        courtesy.refuse(address(1), at, NS, 0);
        for served in 0..CALM_REPLIES {
            assert_eq!(courtesy.refusals.len(), 1, "{served}");
            courtesy.served(address(1), 64);
        }
        assert!(courtesy.refusals.is_empty());
        // Also by another spelling of the address; and there are never too many.
        courtesy.refuse("[::ffff:192.0.2.1]:123".parse().unwrap(), at, NS, 0);
        assert!(courtesy.left_alone(address(1), at).is_some());
        for n in 0..=255 {
            courtesy.refuse(address(n), at, NS, 0);
        }
        assert_eq!(courtesy.refusals.len(), MOST_REFUSALS);
    }

    #[test]
    fn after_a_break_of_the_counter_a_refusal_holds_for_an_hour_more() {
        let mut courtesy = Courtesy::default();
        for _ in 0..6 {
            courtesy.refuse(address(1), Count(u64::MAX / 3), NS, 0);
        }
        courtesy.new_epoch(Count(10), NS);
        let until = courtesy.left_alone(address(1), Count(10)).unwrap();
        assert_eq!((until - Count(10)).0, HOUR * 1_000_000_000);
    }
}
