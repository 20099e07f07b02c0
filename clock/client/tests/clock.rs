//! The clock over pages that a test daemon writes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::thread;
use std::time::Duration;

use common::{Daemon, TODAY};
use truechimer::{
    Clock, CounterKind, Epoch, Hand, Instant, Leap, Made, OpenError, Rate, ReadError, Side, Span,
    Status, Timer,
};
use truechimer_counter::{Choice, Counter, nominal};
use truechimer_time::{BootId, CountSpan};
use truechimer_timehands::PageWriter;

/// Interval where nothing is promised.
const NOTHING: (Instant, Instant) = (Instant(i128::MIN), Instant(i128::MAX));

#[test]
fn now_is_what_the_hand_says() {
    for choice in [Choice::Auto, Choice::Raw] {
        let mut daemon = Daemon::new(choice);
        let hand = daemon.publish(|_, _| ());
        for clock in [daemon.clock(), daemon.clock().fenced()] {
            for _ in 0..100 {
                let before = daemon.counter.fenced().read();
                let now = clock.now().unwrap();
                let after = daemon.counter.fenced().read();
                assert!(now.count.at_or_after(before) && after.at_or_after(now.count));
                let (time, bound) = (hand.time_at(now.count), hand.bound_at(now.count));
                assert_eq!((now.best, now.bound()), (time, Some(bound)));
                assert_eq!((now.earliest, now.latest), (time - bound, time + bound));
                assert_eq!((now.status, now.leaps()), (Status::Synchronised, hand.leaps));
                assert_eq!(now.utc().unix, time.secs() - 37);
            }
            assert_eq!(clock.status(), Ok(Status::Synchronised));
        }
    }
}

#[test]
fn one_clock_serves_all_threads() {
    fn shared<T: Send + Sync + std::fmt::Debug>(_: &T) {}
    shared(&Daemon::synchronised().clock());
}

#[test]
fn without_a_page_there_is_no_clock() {
    let error = Clock::open_at("/nonexistent/clock").unwrap_err();
    assert!(matches!(error, OpenError::NoPage { .. }));
    let text = error.to_string();
    assert!(text.contains("/nonexistent/clock") && text.contains("truechimer run"), "{text}");
    assert!(Clock::open_within(Some("/nonexistent".as_ref()), Duration::ZERO).is_err());
}

#[test]
fn without_a_hand_there_is_no_time_yet() {
    let mut daemon = Daemon::new(Choice::Auto);
    let clock = daemon.clock();
    assert_eq!(clock.now(), Err(ReadError::NotYet { tended: true }));
    assert_eq!(clock.moment(), Err(ReadError::NotYet { tended: true }));
    daemon.writer = None;
    assert_eq!(clock.now(), Err(ReadError::NotYet { tended: false }));
    // It comes, and the clock that was open all the while shows it.
    daemon.writer = Some(PageWriter::create(daemon.path()).unwrap());
    daemon.publish(|_, _| ());
    assert_eq!(clock.now().unwrap().status, Status::Synchronised);
}

#[test]
fn what_another_boot_left_is_no_time() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|hand, _| hand.counter.boot = BootId([7; 16]));
    // A daemon is there: it has yet to publish.
    let clock = daemon.clock();
    assert_eq!(clock.now(), Err(ReadError::NotYet { tended: true }));
    daemon.writer = None;
    assert!(matches!(Clock::open_at(daemon.path()), Err(OpenError::OtherBoot { .. })));
    assert_eq!(clock.now(), Err(ReadError::NotYet { tended: false }));
}

#[test]
fn a_counter_that_cannot_be_read_here_is_an_error() {
    let mut daemon = Daemon::synchronised();
    let clock = daemon.clock();
    assert!(clock.now().is_ok());
    daemon.publish(|hand, _| hand.counter.kind = CounterKind::Simulated);
    assert!(matches!(clock.now(), Err(ReadError::Counter(_))), "{:?}", clock.now());
    assert!(matches!(Clock::open_at(daemon.path()), Err(OpenError::Counter(_))));
}

#[test]
fn a_daemon_with_another_counter_is_followed() {
    let mut daemon = Daemon::new(Choice::Auto);
    let clock = daemon.clock();
    for choice in [Choice::Auto, Choice::Raw, Choice::Auto, Choice::Raw] {
        daemon.counter = Counter::open(choice).unwrap();
        daemon.period = nominal(daemon.counter).unwrap().period;
        let hand = daemon.publish(|_, _| ());
        for _ in 0..3 {
            let before = daemon.counter.fenced().read();
            let now = clock.now().unwrap();
            assert!(now.count.at_or_after(before), "{choice:?}");
            assert_eq!(now.best, hand.time_at(now.count));
            assert_eq!(clock.moment().unwrap().kind, daemon.counter.kind());
            assert_eq!(now.status, Status::Synchronised);
        }
    }
}

#[test]
fn without_a_daemon_it_is_holdover() {
    let mut daemon = Daemon::synchronised();
    let clock = daemon.clock();
    assert_eq!(clock.status(), Ok(Status::Synchronised));
    let silent = daemon.counter.read() - daemon.counts(Span::from_secs(4));
    daemon.writer().heartbeat(silent);
    let now = clock.now().unwrap();
    assert_eq!((now.status, now.bound().is_some()), (Status::Holdover, true));
    assert_eq!(clock.view().unwrap().reason, Some("no daemon tends the clock"));
    // It is back.
    let count = daemon.counter.read();
    daemon.writer().heartbeat(count);
    assert_eq!(clock.status(), Ok(Status::Synchronised));
}

#[test]
fn an_old_page_promises_nothing() {
    let mut daemon = Daemon::new(Choice::Auto);
    daemon.publish(|hand, _| hand.void_after = hand.base);
    let now = daemon.clock().now().unwrap();
    assert_eq!((now.status, now.bound()), (Status::Unknown, None));
    assert_eq!((now.earliest, now.latest), NOTHING);
}

#[test]
fn hands_that_promise_nothing_are_told_as_such() {
    let mut daemon = Daemon::new(Choice::Auto);
    for status in [Status::Unknown, Status::Disrupted] {
        daemon.publish(|hand, _| {
            hand.status = status;
            hand.statistical_bound = Span::MAX;
        });
        let clock = daemon.clock();
        for _ in 0..2 {
            let now = clock.now().unwrap();
            assert_eq!((now.status, now.bound()), (status, None));
            assert_eq!((now.earliest, now.latest), NOTHING);
        }
    }
}

/// Something done to a hand before it is published.
type Change<'a> = &'a dyn Fn(&mut Hand, &mut Made);

#[test]
fn a_break_shows_without_a_daemon() {
    let second = 1_000_000_000;
    let ms = Daemon::new(Choice::Auto).counts(Span::from_millis(20));
    let breaks: [Change<'_>; 4] = [
        &|_, made| made.suspended_ns -= second,
        &|_, made| made.raw_ns += second,
        &|_, made| made.count = made.count + ms,
        &|_, made| made.count = made.count - ms,
    ];
    for change in breaks {
        // Whether a daemon tends the page or not.
        for silence in [Span::ZERO, Span::from_secs(60)] {
            let mut daemon = Daemon::new(Choice::Auto);
            daemon.publish(change);
            let count = daemon.counter.read() - daemon.counts(silence);
            daemon.writer().heartbeat(count);
            let clock = daemon.clock();
            for _ in 0..2 {
                let now = clock.now().unwrap();
                assert_eq!((now.status, now.bound()), (Status::Disrupted, None));
                assert_eq!((now.earliest, now.latest), NOTHING);
            }
            assert!(clock.view().unwrap().reason.is_some());
            // No moment of an epoch that is over, and no length of time either.
            assert_eq!(clock.moment(), Err(ReadError::Disrupted));
        }
    }
}

/// Nothing is waited for: no time passes in which a reader could still take the clock for
/// synchronised.
#[test]
fn a_clean_end_shows_at_once() {
    let mut daemon = Daemon::new(Choice::Auto);
    let hand = daemon.publish(|_, _| ());
    let (clock, moment) = (daemon.clock(), daemon.clock().moment().unwrap());
    assert_eq!(clock.now().unwrap().status, Status::Synchronised);
    daemon.writer = None;
    for clock in [&clock, &daemon.clock()] {
        for _ in 0..3 {
            let now = clock.now().unwrap();
            assert_eq!(now.status, Status::Holdover);
            assert_eq!(
                (now.best, now.bound()),
                (hand.time_at(now.count), Some(hand.bound_at(now.count)))
            );
            let then = clock.time_of(moment).unwrap();
            assert_eq!(
                (then.status, then.bound()),
                (Status::Holdover, Some(hand.bound_at(then.count)))
            );
        }
        assert_eq!(clock.view().unwrap().reason, Some("no daemon tends the clock"));
        assert!(clock.elapsed(moment, clock.moment().unwrap()).is_ok());
    }
    // The next daemon takes over, and has nothing of its own to say yet.
    daemon.writer = Some(PageWriter::create(daemon.path()).unwrap());
    assert_eq!(clock.now().unwrap().status, Status::Holdover);
    daemon.publish(|_, _| ());
    assert_eq!(clock.now().unwrap().status, Status::Synchronised);
    // Where it was the host that broke, that is what the readers hear.
    daemon.publish(|_, made| made.suspended_ns -= 1_000_000_000);
    daemon.writer = None;
    assert_eq!(clock.now().unwrap().status, Status::Disrupted);
}

#[test]
fn elapsed_goes_by_the_difference_clock() {
    for choice in [Choice::Auto, Choice::Raw] {
        elapsed_over(Daemon::new(choice));
    }
}

fn elapsed_over(mut daemon: Daemon) {
    // Twice wrong: the absolute clock runs 1 ms a second fast to catch up.
    let hand =
        daemon.publish(|hand, _| hand.period = hand.period.scaled(Rate::from_ppb(1_000_000)));
    let clock = daemon.clock();
    let start = clock.moment().unwrap();
    thread::sleep(Duration::from_millis(20));
    let end = clock.moment().unwrap();
    // The first call goes the long way, for it measures the counter's resolution.
    for _ in 0..3 {
        let forth = clock.elapsed(start, end).unwrap();
        let back = clock.elapsed(end, start).unwrap();
        assert_eq!(forth.span, hand.difference.span(end.count - start.count));
        assert!((forth.span + back.span).abs() <= Span(1));
        assert!(forth.span >= Span::from_millis(20), "{}", forth.span);
        assert!(forth.bound > hand.difference_error.over(forth.span));
        assert!(forth.bound < hand.difference_error.over(forth.span) + Span::from_micros(1));
        assert_eq!(clock.time_of(end).unwrap().best, hand.time_at(end.count));
        let none = clock.elapsed(end, end).unwrap();
        assert!(none.span == Span::ZERO && none.bound > Span::ZERO);
    }
    // No daemon any more: the counter still counts.
    let old = start.count - daemon.counts(Span::from_secs(9));
    daemon.writer().heartbeat(old);
    assert!(clock.elapsed(start, end).is_ok());
}

#[test]
fn moments_of_another_epoch_are_refused() {
    let mut daemon = Daemon::synchronised();
    let clock = daemon.clock();
    let old = clock.moment().unwrap();
    daemon.publish(|hand, _| {
        hand.counter.epoch = Epoch(2);
        hand.status = Status::Disrupted;
    });
    let refusal = ReadError::OtherEpoch { moment: Epoch(1), clock: Epoch(2) };
    assert_eq!(clock.time_of(old), Err(refusal.clone()));
    // The daemon knows, so there are moments of the new epoch already.
    let new = clock.moment().unwrap();
    assert_eq!(new.epoch, Epoch(2));
    assert_eq!(clock.elapsed(old, new), Err(refusal.clone()));
    assert_eq!(clock.elapsed(new, new), Err(ReadError::Disrupted));
    daemon.publish(|hand, _| hand.counter.epoch = Epoch(2));
    assert_eq!(clock.time_of(old), Err(refusal.clone()));
    assert_eq!(clock.elapsed(new, old), Err(refusal));
    assert!(clock.elapsed(new, clock.moment().unwrap()).is_ok());
    // Of another counter, whatever its epoch.
    let mut other = new;
    other.kind = CounterKind::Simulated;
    let refusal = ReadError::OtherCounter { moment: other.kind, clock: new.kind };
    assert_eq!(clock.elapsed(other, new), Err(refusal.clone()));
    assert_eq!(clock.time_of(other), Err(refusal));
}

#[test]
fn the_bound_of_a_moment_grows_with_its_distance() {
    let mut daemon = Daemon::new(Choice::Auto);
    let hand = daemon.publish(|_, _| ());
    let clock = daemon.clock();
    let now = clock.moment().unwrap();
    for seconds in [-90_000, -900, -1, 0, 1, 900, 1100] {
        let mut moment = now;
        moment.count = now.count + daemon.counts(Span::from_secs(seconds));
        let reading = clock.time_of(moment).unwrap();
        assert_eq!(reading.best, hand.time_at(moment.count));
        assert_eq!(reading.count, moment.count);
        if seconds < 1000 {
            assert_eq!(reading.bound(), Some(hand.bound_at(moment.count)));
            assert_eq!(reading.status, Status::Synchronised);
        } else {
            assert_eq!((reading.bound(), reading.status), (None, Status::Unknown));
        }
    }
}

#[test]
fn a_void_hand_still_tells_of_its_own_time() {
    let mut daemon = Daemon::new(Choice::Auto);
    let hand = daemon.publish(|hand, _| hand.void_after = hand.base);
    let clock = daemon.clock();
    let mut moment = clock.moment().unwrap();
    assert_eq!(clock.time_of(moment).unwrap().status, Status::Unknown);
    assert_eq!(clock.elapsed(moment, moment), Err(ReadError::Void));
    let mut ahead = moment;
    ahead.count = moment.count + daemon.counts(Span::from_secs(90));
    assert_eq!(clock.elapsed(ahead, moment), Err(ReadError::NotOver));
    moment.count = hand.base - CountSpan(1000);
    let reading = clock.time_of(moment).unwrap();
    assert_eq!(reading.status, Status::Holdover);
    assert_eq!(reading.bound(), Some(hand.bound_at(moment.count)));
    assert!(clock.elapsed(moment, moment).is_ok());
}

#[test]
fn monotone_time_stands_still_rather_than_going_back() {
    let mut daemon = Daemon::synchronised();
    let clock = daemon.clock();
    let first = clock.now_monotone().unwrap();
    // The daemon learns that it was 10 ms ahead.
    let (hand, made) = daemon.hand();
    let back = Hand { time: first.best - Span::from_millis(10), ..hand };
    daemon.writer().publish(&back, &made);
    let plain = clock.now().unwrap();
    let second = clock.now_monotone().unwrap();
    assert!(plain.best < first.best && second.best >= first.best);
    assert!(second.latest >= second.best && second.earliest <= plain.best);
    // Nothing is promised, and what the clock shows is far ahead: that is not taken up.
    let ahead =
        Hand { time: TODAY + Span::from_secs(1_000_000), status: Status::Disrupted, ..hand };
    daemon.writer().publish(&ahead, &made);
    assert_eq!(clock.now_monotone().unwrap().best, second.best);
    assert_eq!(clock.now_monotone().unwrap().status, Status::Disrupted);
    // It is right again, and goes on.
    daemon.publish(|hand, _| hand.time = TODAY + Span::from_secs(1));
    assert!(clock.now_monotone().unwrap().best > second.best);
}

/// A hand of half a second before an inserted leap second, or of its beginning.
fn around_a_leap(hand: &mut Hand, n: i64, begun: bool) {
    let leap = Leap { at: hand.time.secs() + 1000 * n, step: 1 };
    hand.time = Instant::new(leap.at - 2 + i64::from(begun), u64::from(!begun) << 63);
    hand.leaps.next = Some(leap);
}

#[test]
fn as_unix_time_too_where_a_leap_second_shows_a_second_twice() {
    let mut daemon = Daemon::synchronised();
    let clock = daemon.clock();
    // Time goes on meanwhile, on a busy machine past the moment that matters.
    let went_back = (1..100).any(|n| {
        daemon.publish(|hand, _| around_a_leap(hand, n, false));
        let (_, before) = clock.now_monotone_unix().unwrap();
        daemon.publish(|hand, _| around_a_leap(hand, n, true));
        let (reading, within) = clock.now_monotone_unix().unwrap();
        assert!(within.best >= before.best && within.best <= within.latest);
        assert!(within.earliest <= reading.unix().earliest);
        within.leap_second && reading.unix().best < before.best && within.best == before.best
    });
    assert!(went_back);
    // Nothing is promised, which moves nothing.
    let (_, last) = clock.now_monotone_unix().unwrap();
    daemon.publish(|hand, _| {
        (hand.status, hand.time) = (Status::Disrupted, hand.time + Span::from_secs(1_000_000));
    });
    let (_, unknown) = clock.now_monotone_unix().unwrap();
    assert_eq!(unknown.best, last.best);
}

#[test]
fn waiting_ends_when_it_is_good_enough() {
    let mut daemon = Daemon::new(Choice::Auto);
    let clock = daemon.clock();
    let wait = |bound, ms| clock.wait_synchronised(bound, Duration::from_millis(ms));
    assert_eq!(wait(None, 1).unwrap_err().last, Err(ReadError::NotYet { tended: true }));
    daemon.publish(|hand, _| hand.status = Status::Holdover);
    let error = wait(None, 1).unwrap_err();
    assert_eq!(error.last.as_ref().unwrap().status, Status::Holdover);
    assert!(error.to_string().contains("the status is holdover, the bound 55."), "{error}");
    daemon.publish(|_, _| ());
    assert!(wait(None, 0).is_ok());
    assert!(wait(Some(Span::from_micros(1)), 1).is_err());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(Some(Span::from_micros(20)), 60_000));
        thread::sleep(Duration::from_millis(30));
        daemon.publish(|hand, _| hand.path_bound = Span::from_micros(10));
        assert_eq!(waiting.join().unwrap().unwrap().status, Status::Synchronised);
    });
}

#[test]
fn a_page_that_comes_late_is_waited_for() {
    let mut daemon = Daemon::synchronised();
    let late = daemon.directory.join("late");
    thread::scope(|scope| {
        let opening =
            scope.spawn(|| Clock::open_within(Some(&late), Duration::from_secs(60)).unwrap());
        thread::sleep(Duration::from_millis(30));
        daemon.writer = Some(PageWriter::create(&late).unwrap());
        assert_eq!(opening.join().unwrap().now(), Err(ReadError::NotYet { tended: true }));
    });
    // What waiting cannot mend is told at once.
    let error = Clock::open_within(Some(&daemon.directory), Duration::from_secs(3600));
    assert!(matches!(error, Err(OpenError::Page(_))));
}

#[test]
fn a_time_that_is_over_for_sure_is_waited_for() {
    let mut daemon = Daemon::new(Choice::Auto);
    let clock = daemon.clock();
    let forever = None;
    let soon = Some(Duration::from_millis(1));
    assert!(clock.wait_after(TODAY, soon).is_err());
    daemon.publish(|_, _| ());
    // Long over, and not for a long time.
    assert!(clock.wait_after(TODAY - Span::from_secs(1), forever).is_ok());
    let error = clock.wait_after(TODAY + Span::from_secs(9000), soon).unwrap_err();
    assert_eq!(error.timeout, Duration::from_millis(1));
    for ms in [0, 1, 30] {
        let time = clock.now().unwrap().latest + Span::from_millis(ms);
        let reading = clock.wait_after(time, forever).unwrap();
        assert!(reading.earliest > time);
        // By UTC as well: 37 s behind here.
        let time = clock.now().unwrap().latest + Span::from_millis(ms);
        let utc = reading.leaps().utc(time);
        assert!(clock.wait_after_utc(utc.unix, utc.frac, forever).unwrap().earliest > time);
    }
    // As long as nothing is promised, nothing is over.
    daemon.publish(|hand, _| hand.status = Status::Disrupted);
    assert!(clock.wait_after(TODAY - Span::from_secs(1), soon).is_err());
}

#[test]
fn a_wait_ends_on_the_side_of_its_time_that_was_asked_for() {
    let daemon = Daemon::synchronised();
    let clock = daemon.clock();
    // Surely before, unless the thread is stopped at that moment, as it often is on a busy machine.
    let in_time = (0..10_000).any(|_| {
        let time = clock.now().unwrap().latest + Span::from_micros(300);
        let before = clock.wait_for(time, Side::Before, None).unwrap();
        // No sooner than it has to.
        assert!(time - before.latest <= Span::from_micros(1));
        before.latest < time
    });
    assert!(in_time);
    let time = clock.now().unwrap().latest + Span::from_micros(300);
    let best = clock.wait_for(time, Side::Best, None).unwrap();
    assert!(best.best >= time);
    let after = clock.wait_for(time, Side::After, None).unwrap();
    assert!(after.earliest > time && after.best > best.best);
    // It is over: nothing is waited for, and the reading says so.
    let late = clock.wait_for(time, Side::Before, None).unwrap();
    assert!(late.latest >= time);
}

#[test]
fn a_timer_keeps_to_its_times_and_says_what_it_missed() {
    let daemon = Daemon::synchronised();
    let clock = daemon.clock();
    let (first, period) = (clock.now().unwrap().latest, Span::from_millis(2));
    let mut timer = Timer::new(&clock, first, period, Side::After);
    let mut count = 0;
    for n in 0..5 {
        if n == 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let tick = timer.tick(None).unwrap();
        count += i128::from(tick.missed);
        assert_eq!(tick.time, first + Span(period.0 * count));
        assert!(tick.reading.earliest > tick.time);
        assert!(n != 3 || tick.missed >= 9, "{}", tick.missed);
        // The last one that had come.
        assert!(tick.reading.earliest - tick.time <= period);
        count += 1;
    }
    let error = timer.tick(Some(Duration::ZERO));
    assert!(error.is_err() || error.unwrap().time == first + Span(period.0 * count));
}

#[test]
fn uptime_goes_on_whatever_the_time_does() {
    let boot = || truechimer_counter::clock(libc::CLOCK_BOOTTIME).unwrap();
    let mut daemon = Daemon::new(Choice::Auto);
    let clock = daemon.clock();
    assert_eq!(clock.uptime(), Err(ReadError::NotYet { tended: true }));
    let mut last = Span::ZERO;
    for epoch in [1, 1, 2, 2, 2] {
        daemon.publish(|hand, _| {
            hand.counter.epoch = Epoch(epoch);
            // A step of the time of an hour, and a rate that is 1 ms a second off.
            hand.time = TODAY + Span::from_secs(3600 * i64::from(epoch % 2));
            hand.period = hand.period.scaled(Rate::from_ppb(1_000_000));
        });
        for _ in 0..3 {
            let (before, up, after) = (boot(), clock.uptime().unwrap(), boot());
            // Rates of the kernel's and the test's making, over less than a minute.
            let apart = up.bound + Span::from_millis(2);
            assert!(up.span + apart >= Span::from_nanos(before), "{up:?} is before {before}");
            assert!(up.span <= Span::from_nanos(after) + apart, "{up:?} is after {after}");
            assert!(up.span >= last);
            last = up.span;
        }
    }
    // A rate that turns out smaller does not turn it back, and the bound says how far it stands. As
    // small as may be: beyond 1000 ppm readers take the counter for broken, sooner or later.
    daemon.publish(|hand, _| {
        hand.counter.epoch = Epoch(2);
        hand.difference = hand.difference.scaled(Rate::from_ppb(-900_000));
        hand.period = hand.difference;
    });
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = last;
                for _ in 0..1000 {
                    let up = clock.uptime().unwrap();
                    assert!(up.span + Span::from_nanos(1) >= last && !up.bound.is_negative());
                    last = last.max(up.span);
                }
            });
        }
    });
}
