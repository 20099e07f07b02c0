//! Times as C has them, and deadlines carried from the group's clock to a local one. Numbers only.

use libc::timespec;

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

/// Group time as a timespec.
#[must_use]
pub fn to_timespec(ns: i64) -> timespec {
    timespec { tv_sec: ns.div_euclid(SECOND), tv_nsec: ns.rem_euclid(SECOND) }
}

/// A timespec as ns, saturating; none if libc and the kernel would refuse it.
#[must_use]
pub fn from_timespec(time: &timespec) -> Option<i64> {
    if !(0..SECOND).contains(&time.tv_nsec) {
        return None;
    }
    Some(time.tv_sec.saturating_mul(SECOND).saturating_add(time.tv_nsec))
}

/// When a local clock shows what belongs to a deadline of the group's, by the last pair seen of
/// both; `ahead` = the group's clock − the local one, ns. Never negative: the kernel knows no such
/// deadline, and this one is over anyhow.
#[must_use]
pub fn local(deadline: i64, ahead: i64) -> i64 {
    deadline.saturating_sub(ahead).max(0)
}

/// Time left until a deadline of the group's for a timer that is set by what is left: at least 1
/// ns, as 0 would stop the timer.
#[must_use]
pub fn left(deadline: i64, ahead: i64, local_now: i64) -> i64 {
    local(deadline, ahead).saturating_sub(local_now).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timespecs() {
        for ns in [0, 1, SECOND, 1_700_000_000_123_456_789, -1, i64::MAX, i64::MIN] {
            let time = to_timespec(ns);
            assert!((0..SECOND).contains(&time.tv_nsec));
            // The very lowest saturates in between.
            let back = from_timespec(&time);
            assert!(back == Some(ns) || ns == i64::MIN, "{ns} {back:?}");
        }
        assert_eq!(from_timespec(&timespec { tv_sec: 1, tv_nsec: SECOND }), None);
        assert_eq!(from_timespec(&timespec { tv_sec: 1, tv_nsec: -1 }), None);
        assert_eq!(from_timespec(&timespec { tv_sec: i64::MAX, tv_nsec: 5 }), Some(i64::MAX));
    }

    #[test]
    fn deadlines_keep_their_distance() {
        const HOUR: i64 = 3600 * SECOND;
        let (local_now, group_now) = (50 * SECOND, 50 * SECOND + HOUR);
        let deadline = group_now + SECOND / 5;
        assert_eq!(local(deadline, HOUR), local_now + SECOND / 5);
        assert_eq!(left(deadline, HOUR, local_now), SECOND / 5);
        assert_eq!(left(deadline, HOUR, local_now + SECOND), 1, "over already");
        assert_eq!(local(5, HOUR), 0);
        assert_eq!(local(i64::MAX, -HOUR), i64::MAX, "for ever stays for ever");
        assert_eq!(left(i64::MIN, i64::MAX, 0), 1);
    }
}
