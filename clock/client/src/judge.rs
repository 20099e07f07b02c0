//! Judgement of whether a hand still stands, by the host's own clocks: what a reader asks when no
//! daemon has looked for a while, and once for every new hand.

use truechimer_counter::HostReading;
use truechimer_time::{Count, Rate, Span};
use truechimer_timehands::{Allowed, Break, Hand, Made, PATIENCE, Passed, Status};

/// Rate at which the counter and `CLOCK_MONOTONIC_RAW` may drift apart. Ten times what any crystal
/// or calibration is off by, so that only a broken counter exceeds it.
const DRIFT: Rate = Rate::from_ppb(1_000_000);
/// Span by which they may be apart to begin with, beyond what it takes to read them now: far more
/// than it took the daemon to read them when it made the hand.
const APART: Span = Span::from_micros(100);
/// A shorter suspend than this there is not; what reading the clocks takes is less.
const SUSPEND: Span = Span::from_millis(10);

/// Verdict on a hand at one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    pub status: Status,
    /// Reason, if the status is not the one in the hand, or nobody tends that.
    pub reason: Option<&'static str>,
}

/// Judges a hand that was made when `made` says, by a later reading of the host's clocks, given
/// the count at which the daemon last looked.
pub(crate) fn judge(hand: &Hand, made: &Made, heartbeat: Count, host: &HostReading) -> Verdict {
    let verdict = |status, reason| Verdict { status, reason: Some(reason) };
    let width = hand.difference.span(host.width).abs();
    let passed = Passed::new(
        hand.difference,
        host.count - made.count,
        [made.raw_ns, host.raw_ns],
        [made.suspended_ns, host.suspended_ns],
    );
    let broken = passed.broken(&Allowed {
        suspended: SUSPEND + width,
        back: APART + width,
        apart: APART + width,
        rate: DRIFT,
    });
    if let Some(broken) = broken {
        let reason = match broken {
            Break::Suspended(_) => "the machine was suspended since",
            Break::Back(_) => "the counter went back",
            Break::Apart(_) => "the counter and the kernel's clock went apart",
        };
        return verdict(Status::Disrupted, reason);
    }
    if !hand.void_after.at_or_after(host.count) {
        return verdict(Status::Unknown, "the clock page is too old");
    }
    let silence = hand.period.span(host.count - heartbeat).abs();
    if silence > PATIENCE {
        let status = if hand.status.bound_holds() { Status::Holdover } else { hand.status };
        return verdict(status, "no daemon tends the clock");
    }
    Verdict { status: hand.status, reason: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{
        BootId, CountSpan, CounterId, CounterKind, Epoch, Instant, Leaps, Period,
    };

    /// One count a nanosecond, so that counts and host clocks read alike.
    const START: i64 = 50_000_000_000;
    const MS: i64 = 1_000_000;
    const S: i64 = 1_000 * MS;

    fn hand(status: Status) -> (Hand, Made) {
        let count = Count(START as u64);
        let hand = Hand {
            counter: CounterId { kind: CounterKind::Tsc, boot: BootId::default(), epoch: Epoch(3) },
            base: count,
            time: Instant::new(1_700_000_000, 0),
            period: Period::NANOSECOND,
            difference: Period::NANOSECOND,
            difference_error: Rate::from_ppb(100),
            path_bound: Span::from_micros(50),
            statistical_bound: Span::from_micros(5),
            disputed: Span::ZERO,
            growth: Rate::from_ppb(500),
            imbalance: Span::ZERO,
            likely: None,
            status,
            leaps: Leaps::default(),
            void_after: count + CountSpan(100 * S),
        };
        (
            hand,
            Made { count, monotonic_ns: START, raw_ns: START, suspended_ns: 7 * S, device: None },
        )
    }

    /// The verdict on a synchronised hand `later` ns after it was made, by a daemon that looked
    /// `silence` ns before, after a change to what the host says.
    fn verdict(later: i64, silence: i64, change: impl Fn(&mut HostReading)) -> Status {
        let (hand, made) = hand(Status::Synchronised);
        let now = START + later;
        let mut host = HostReading {
            count: Count(now as u64),
            raw_ns: now,
            suspended_ns: 7 * S,
            monotonic_ns: now,
            width: CountSpan(300),
        };
        change(&mut host);
        let verdict = judge(&hand, &made, Count((now - silence) as u64), &host);
        assert_eq!(verdict.reason.is_none(), verdict.status == hand.status, "{verdict:?}");
        verdict.status
    }

    #[test]
    fn all_is_well() {
        for later in [0, 1, S, 99 * S] {
            assert_eq!(verdict(later, 0, |_| ()), Status::Synchronised);
            assert_eq!(verdict(later, 3 * S, |_| ()), Status::Synchronised);
        }
        // Small differences are of the clocks' making.
        let drifted = |host: &mut HostReading| host.raw_ns += 90 * S / 1100;
        assert_eq!(verdict(90 * S, 0, drifted), Status::Synchronised);
        assert_eq!(verdict(0, 0, |host| host.suspended_ns -= 5 * MS), Status::Synchronised);
    }

    #[test]
    fn nobody_looks_any_more() {
        assert_eq!(verdict(9 * S, 3 * S + 1, |_| ()), Status::Holdover);
        assert_eq!(verdict(9 * S, -3 * S - 1, |_| ()), Status::Holdover);
        assert_eq!(verdict(100 * S, 50 * S, |_| ()), Status::Holdover);
        assert_eq!(verdict(100 * S + 1, 50 * S, |_| ()), Status::Unknown);
    }

    #[test]
    fn the_counter_lost_its_continuity() {
        // A suspend, whether the counter ran on or stood still.
        assert_eq!(verdict(S, 0, |host| host.suspended_ns += 11 * MS), Status::Disrupted);
        // A jump of 150 µs right after, but not if it took as long to read the clocks.
        let jump = |host: &mut HostReading| host.raw_ns += 150_000;
        assert_eq!(verdict(0, 0, jump), Status::Disrupted);
        let slow = |host: &mut HostReading| (jump(host), host.width = CountSpan(60_000)).1;
        assert_eq!(verdict(0, 0, slow), Status::Synchronised);
        // Jumps either way; a counter that ran at half its rate; one that began again.
        assert_eq!(verdict(S, 0, |host| host.raw_ns += 3 * MS), Status::Disrupted);
        assert_eq!(verdict(S, 0, |host| host.raw_ns -= 3 * MS), Status::Disrupted);
        assert_eq!(verdict(9 * S, 0, |host| host.raw_ns += 9 * S), Status::Disrupted);
        assert_eq!(verdict(9 * S, 0, |host| host.count = Count(12)), Status::Disrupted);
        // Back before the hand was made, even if the kernel's clock went along.
        assert_eq!(verdict(-2 * MS, 0, |_| ()), Status::Disrupted);
        // That matters more than whether the page is old.
        assert_eq!(verdict(200 * S, 90 * S, |host| host.raw_ns += S), Status::Disrupted);
    }

    #[test]
    fn a_clean_end_is_no_silence_to_wait_for() {
        let (hand, made) = hand(Status::Holdover);
        let ended = made.count + CountSpan(i64::MIN);
        for later in [0, S, 99 * S] {
            let host = HostReading {
                count: made.count + CountSpan(later),
                raw_ns: made.raw_ns + later,
                suspended_ns: made.suspended_ns,
                monotonic_ns: made.monotonic_ns,
                width: CountSpan(300),
            };
            let reason = Some("no daemon tends the clock");
            let holdover = Verdict { status: Status::Holdover, reason };
            assert_eq!(judge(&hand, &made, ended, &host), holdover);
            // The host is looked at, as before.
            let host = HostReading { suspended_ns: 8 * S, ..host };
            assert_eq!(judge(&hand, &made, ended, &host).status, Status::Disrupted);
        }
    }

    #[test]
    fn what_promises_nothing_stays_so() {
        for status in [Status::Unknown, Status::Disrupted] {
            let (hand, made) = hand(status);
            let host = HostReading {
                count: made.count,
                raw_ns: made.raw_ns,
                suspended_ns: made.suspended_ns,
                monotonic_ns: made.monotonic_ns,
                width: CountSpan(0),
            };
            let verdict = judge(&hand, &made, made.count, &host);
            assert_eq!(verdict, Verdict { status, reason: None });
            let reason = Some("no daemon tends the clock");
            assert_eq!(judge(&hand, &made, Count(0), &host), Verdict { status, reason });
        }
    }
}
