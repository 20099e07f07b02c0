//! `adjtimex` for the warped clock.

use libc::{c_int, timex};

use crate::ahead::Ahead;
use crate::state::{Segment, State};

const SECOND: i64 = 1_000_000_000;
/// Largest frequency that the kernel takes, in 2⁻¹⁶ ppm.
const MAX_FREQUENCY: i64 = 500 << 16;
/// Modes that may be set without effect on the clock.
const IGNORED: u32 = libc::ADJ_MAXERROR
    | libc::ADJ_ESTERROR
    | libc::ADJ_TIMECONST
    | libc::ADJ_TAI
    | libc::ADJ_MICRO
    | libc::ADJ_NANO;

/// Does what `request` asks for at host time `real_ns`, and fills in the answer. `disturbance` is
/// the schedule's total at the same moment, ns. Modes that the tests have no use for (the kernel's
/// own loop, ticks) are refused with `EINVAL`.
pub fn adjust(
    state: &State,
    real_ns: i64,
    disturbance: i64,
    request: &mut timex,
) -> Result<c_int, c_int> {
    let modes = request.modes;
    let known = IGNORED | libc::ADJ_FREQUENCY | libc::ADJ_STATUS | libc::ADJ_SETOFFSET;
    if modes & !known != 0 {
        return Err(libc::EINVAL);
    }
    let mut step = 0;
    if modes & libc::ADJ_SETOFFSET != 0 {
        let nano = modes & libc::ADJ_NANO != 0;
        let (unit, limit) = if nano { (1, SECOND) } else { (1_000, 1_000_000) };
        if !(0..limit).contains(&request.time.tv_usec) {
            return Err(libc::EINVAL);
        }
        step = request.time.tv_sec.saturating_mul(SECOND) + request.time.tv_usec * unit;
    }
    let change = libc::ADJ_FREQUENCY | libc::ADJ_STATUS | libc::ADJ_SETOFFSET;
    if modes & change != 0 {
        let stored = state.append(|was| Segment {
            start_ns: real_ns,
            ahead: was.at(real_ns) + Ahead { slewed: 0, stepped: step },
            frequency: if modes & libc::ADJ_FREQUENCY != 0 {
                request.freq.clamp(-MAX_FREQUENCY, MAX_FREQUENCY)
            } else {
                was.frequency
            },
            status: if modes & libc::ADJ_STATUS != 0 {
                i64::from(request.status)
            } else {
                was.status
            },
        });
        if !stored {
            return Err(libc::ENOSPC);
        }
    }
    let now = state.newest();
    let warped = real_ns.saturating_add(disturbance).saturating_add(now.at(real_ns).total());
    request.freq = now.frequency;
    request.status = now.status as c_int | libc::STA_NANO;
    request.offset = 0;
    request.constant = 7;
    request.precision = 1;
    request.tolerance = MAX_FREQUENCY;
    request.tick = 10_000;
    request.time.tv_sec = warped.div_euclid(SECOND);
    request.time.tv_usec = warped.rem_euclid(SECOND);
    Ok(if request.status & libc::STA_UNSYNC != 0 { libc::TIME_ERROR } else { libc::TIME_OK })
}

/// Makes the warped clock show `target_ns` (Unix ns) at host time `real_ns`. False if the log is
/// full.
#[must_use]
pub fn set(state: &State, real_ns: i64, disturbance: i64, target_ns: i64) -> bool {
    let ahead = target_ns.saturating_sub(real_ns).saturating_sub(disturbance);
    state.append(|was| {
        let slewed = was.at(real_ns).slewed;
        Segment { start_ns: real_ns, ahead: Ahead { slewed, stepped: ahead - slewed }, ..was }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fresh;

    fn request(modes: u32) -> timex {
        // SAFETY: `timex` is plain integers, for which zeros are valid.
        let mut t: timex = unsafe { std::mem::zeroed() };
        t.modes = modes;
        t
    }

    #[test]
    fn frequency_and_step_add_up() {
        let state = fresh();
        let mut faster = request(libc::ADJ_FREQUENCY | libc::ADJ_NANO);
        faster.freq = 10 << 16;
        adjust(&state, 0, 0, &mut faster).unwrap();
        let mut back = request(libc::ADJ_SETOFFSET | libc::ADJ_NANO);
        back.time.tv_sec = -1;
        back.time.tv_usec = 999_999_000;
        adjust(&state, SECOND, 0, &mut back).unwrap();
        assert_eq!(state.at(SECOND).total(), 10_000 - 1_000);
        assert_eq!(state.at(2 * SECOND).total(), 20_000 - 1_000);
        assert_eq!(back.freq, 10 << 16);
    }

    #[test]
    fn the_answer_tells_the_warped_time() {
        let state = fresh();
        let mut read = request(0);
        assert_eq!(adjust(&state, 5 * SECOND, 3, &mut read), Ok(libc::TIME_OK));
        assert_eq!((read.time.tv_sec, read.time.tv_usec), (5, 3));
        assert!(set(&state, 5 * SECOND, 3, 100 * SECOND));
        adjust(&state, 6 * SECOND, 3, &mut read).unwrap();
        assert_eq!((read.time.tv_sec, read.time.tv_usec), (101, 0));
    }

    #[test]
    fn limits_are_the_kernels() {
        let state = fresh();
        let mut wild = request(libc::ADJ_FREQUENCY | libc::ADJ_NANO);
        wild.freq = i64::MAX;
        adjust(&state, 0, 0, &mut wild).unwrap();
        assert_eq!(wild.freq, MAX_FREQUENCY);
        let mut bad = request(libc::ADJ_SETOFFSET | libc::ADJ_NANO);
        bad.time.tv_usec = SECOND;
        assert_eq!(adjust(&state, 0, 0, &mut bad), Err(libc::EINVAL));
        assert_eq!(adjust(&state, 0, 0, &mut request(libc::ADJ_OFFSET)), Err(libc::EINVAL));
    }
}
