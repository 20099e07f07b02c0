//! The hypervisor's time by a vmclock page, at a count of the machine's own counter: no packet, no path, no
//! interrupt in between.

use truechimer_counter::Counter;
use truechimer_counter::vmclock::{VmCounter, VmLeap, VmScale, VmTime, Vmclock};
use truechimer_engine::{Scale, Shown};
use truechimer_time::{Count, CounterKind, Date, Instant, Span};

/// A page says nothing of a time so far from when it was written.
const REACH: Span = Span::from_secs(30 * 86_400);
/// Leap indicator of a clock that is not synchronised.
const UNSYNCHRONISED: u8 = 3;

/// A count, and the time of the page at it; `None` while that cannot be told: within a leap second, from one that
/// the page announces until the hypervisor writes it anew, or where the machine was moved just now.
pub(super) fn read(page: &Vmclock, counter: Counter) -> Result<Option<(Count, Shown)>, String> {
    let found = page.snapshot().map_err(|why| why.to_string())?;
    let count = counter.read();
    let Some(time) = found.time else {
        return Err(
            "the hypervisor gives no time (now): without a source there, or none at all".into()
        );
    };
    fits(time.counter, counter.kind())?;
    if page.marker() != found.marker {
        return Ok(None);
    }
    Ok(shown(&time, count)?.map(|shown| (count, shown)))
}

/// Checks that the counter is the one that the page tells of.
fn fits(told: VmCounter, kind: CounterKind) -> Result<(), String> {
    let (wanted, name) = match told {
        VmCounter::Tsc => (CounterKind::Tsc, "tsc"),
        VmCounter::ArmVirtual => (CounterKind::ArmGeneric, "arm-generic"),
    };
    if kind == wanted {
        return Ok(());
    }
    Err(format!(
        "it tells of the counter {name}, and the clock goes by another: set counter = \"{name}\""
    ))
}

/// The time at a count.
fn shown(time: &VmTime, count: Count) -> Result<Option<Shown>, String> {
    let scale = match time.scale {
        VmScale::Utc => Scale::Utc,
        VmScale::Tai => Scale::Tai,
        VmScale::Monotonic => {
            return Err(
                "the hypervisor gives time since some moment that nobody tells, and no date".into(),
            );
        }
    };
    let since = time.period.span(count - Count(time.count));
    if since.abs() > REACH {
        return Err(format!(
            "the hypervisor wrote the time {} ago or ahead, and not since",
            since.abs()
        ));
    }
    let now = time.time + since;
    let leap = match time.leap {
        VmLeap::Now => return Ok(None),
        // Unix time is another from then on than the page and the count say.
        VmLeap::Coming(step)
            if (now + NANOSECOND).secs()
                >= month_end(time.time).saturating_add(step.min(0).into()) =>
        {
            if scale == Scale::Utc {
                return Ok(None);
            }
            0
        }
        VmLeap::Coming(1) => 1,
        VmLeap::Coming(-1) => 2,
        _ => 0,
    };
    // An error of the time alone is one at the page's count, and says nothing of any other.
    let stated = time.error.zip(time.period_error);
    let error = stated.map(|(error, rate)| error + rate.over(since.abs()) + NANOSECOND);
    let lost = time.free_running && error.is_none();
    let unix_ns = i64::try_from(now.as_nanos()).map_err(|_| "the time is out of range")?;
    Ok(Some(Shown {
        unix_ns,
        pulse: false,
        error: error.unwrap_or(Span::ZERO),
        leap: if lost { UNSYNCHRONISED } else { leap },
        scale,
    }))
}

/// The second at which the month of `time` ends, on its own scale; TAI's months end some seconds before UTC's.
fn month_end(time: Instant) -> i64 {
    const DAY: i64 = 86_400;
    Date::of(time.secs().div_euclid(DAY)).next_month().days().saturating_mul(DAY)
}

/// The most that the time is rounded by.
const NANOSECOND: Span = Span::from_nanos(1);

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_time::{Period, Rate};

    /// A page of a counter of 1 GHz that was written at count 5·10⁹, at 100 s.
    fn page() -> VmTime {
        VmTime {
            counter: VmCounter::Tsc,
            scale: VmScale::Tai,
            free_running: false,
            count: 5_000_000_000,
            time: Instant::new(100, 0),
            error: Some(Span::from_nanos(400)),
            deviation: None,
            period: Period::NANOSECOND,
            period_error: Some(Rate::from_ppb(50)),
            period_deviation: None,
            tai_offset: None,
            leap: VmLeap::None,
        }
    }

    fn at(time: &VmTime, count: u64) -> Shown {
        shown(time, Count(count)).unwrap().unwrap()
    }

    #[test]
    fn the_time_goes_on_with_the_count_and_so_does_its_error() {
        // Ten seconds later, and before.
        for (count, second) in [(15_000_000_000, 110), (0, 95)] {
            let shown = at(&page(), count);
            assert!((shown.unix_ns - second * 1_000_000_000).abs() <= 1, "{shown:?}");
            let away = (second - 100).abs();
            let most = 400 + 50 * away;
            assert!((most..=most + 3).contains(&shown.error.as_nanos_up()), "{shown:?}");
            assert_eq!((shown.scale, shown.leap, shown.pulse), (Scale::Tai, 0, false));
        }
    }

    #[test]
    fn an_error_that_is_not_stated_whole_is_not_stated() {
        for part in [VmTime { error: None, ..page() }, VmTime { period_error: None, ..page() }] {
            assert_eq!(at(&part, 0).error, Span::ZERO);
            // Nobody knows how far it has strayed.
            assert_eq!(at(&VmTime { free_running: true, ..part }, 0).leap, UNSYNCHRONISED);
        }
        assert_eq!(at(&VmTime { free_running: true, ..page() }, 0).leap, 0);
    }

    #[test]
    fn leap_seconds_are_told_and_waited_for() {
        let with = |leap| VmTime { leap, ..page() };
        assert_eq!(at(&with(VmLeap::Coming(1)), 0).leap, 1);
        assert_eq!(at(&with(VmLeap::Coming(-1)), 0).leap, 2);
        assert_eq!(at(&with(VmLeap::Past(1)), 0).leap, 0);
        assert_eq!(shown(&with(VmLeap::Now), Count(0)), Ok(None));
    }

    /// A page that the hypervisor has not written since knows nothing of the second that came or was left out.
    #[test]
    fn utc_is_not_told_across_a_leap_second_that_is_announced() {
        // 10 s before 1970-02-01, at count 5·10⁹.
        let month_end = 31 * 86_400;
        let time = Instant::new(month_end - 10, 0);
        for (step, until) in [(1, 10), (-1, 9)] {
            let leap = VmLeap::Coming(step);
            let count = |since_ms: u64| Count(5_000_000_000 + since_ms * 1_000_000);
            let utc = VmTime { scale: VmScale::Utc, time, leap, ..page() };
            let before = shown(&utc, count(until * 1000 - 1)).unwrap().unwrap();
            assert_eq!(before.leap, if step > 0 { 1 } else { 2 });
            for since in [until * 1000, until * 1000 + 500, 40_000, 90_000_000] {
                assert_eq!(shown(&utc, count(since)), Ok(None), "{step} {since}");
            }
            // On TAI nothing is left out, and the announcement is over.
            let tai =
                shown(&VmTime { scale: VmScale::Tai, ..utc }, count(40_000)).unwrap().unwrap();
            assert_eq!(tai.leap, 0);
            assert!((tai.unix_ns - (month_end + 30) * 1_000_000_000).abs() <= 1, "{tai:?}");
        }
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let never = VmTime { scale: VmScale::Monotonic, ..page() };
        assert!(shown(&never, Count(0)).unwrap_err().contains("no date"));
        let old = Count(page().count + 40 * 86_400 * 1_000_000_000);
        assert!(shown(&page(), old).unwrap_err().contains("not since"));
        let far = VmTime { time: Instant::new(1 << 39, 0), ..page() };
        assert!(shown(&far, Count(0)).unwrap_err().contains("out of range"));
        assert!(fits(VmCounter::Tsc, CounterKind::Raw).unwrap_err().contains("counter = \"tsc\""));
        assert!(fits(VmCounter::ArmVirtual, CounterKind::ArmGeneric).is_ok());
    }
}
