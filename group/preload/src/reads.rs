//! Reading the group's clock.

use core::sync::atomic::{Ordering, compiler_fence};
use core::time::Duration;

use truechimer_group::{Call, Rejection, Thread};
use truechimer_group_client::link::{Link, ReadError};

use crate::kernel::{self, Errno};
use crate::process::{self, Part, Process};
use crate::real;
use crate::say::{NO_TIME, fail};
use crate::spans::to_timespec;
use crate::thread::{DEEPEST, Here, here};

/// The group's time, ns since 1970; none if this process takes its clocks from libc. Does not
/// return without an agreed value: it waits, or ends the process.
pub fn group_time(call: Call) -> Option<i64> {
    let part = process::part();
    if matches!(part, Part::None | Part::Counting) {
        return None;
    }
    let process = process::process()?;
    let errno = Errno::keep();
    let time = match (part, &process.link, &process.page) {
        (Part::Delivery, _, Some(page)) if page.is_fenced() => fenced(),
        (Part::Delivery, _, Some(page)) => page.time().unwrap_or_else(|| first_time(process)),
        (_, Some(link), _) if process.now => now(process, link, call),
        (_, Some(link), _) => here(|here| round(process, link, here, call)),
        _ => return None,
    };
    here(|here| here.saw(time, monotonic()));
    errno.restore();
    Some(time)
}

/// The group's clock − CLOCK_MONOTONIC by the last pair seen, ns; none if this process takes its
/// clocks from libc. If there is no pair yet it reads one, which is a round.
pub fn group_ahead() -> Option<i64> {
    match process::part() {
        Part::Round => {}
        // Time stands still while a message is processed: what counts is how long ago it began to
        // stand, of which the last read is the best sign.
        Part::Delivery => {}
        Part::None | Part::Counting => return None,
    }
    here(Here::ahead).or_else(|| {
        group_time(Call::Deadline)?;
        here(Here::ahead)
    })
}

/// CLOCK_MONOTONIC of this host, ns.
pub fn monotonic() -> i64 {
    let Some(clock_gettime) = real::CLOCK_GETTIME.get() else {
        return kernel::clock(libc::CLOCK_MONOTONIC);
    };
    let mut now = to_timespec(0);
    // SAFETY: a timespec to be filled.
    unsafe { clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

fn fenced() -> ! {
    fail(
        NO_TIME,
        format_args!(
            "the front has ended, as its program's replies differ from a majority's or it could \
             not go on for another reason, which its log says: start both anew"
        ),
    )
}

/// Before the first message there is no time.
fn first_time(process: &Process) -> i64 {
    let patience = process.how.patience_ns;
    let once = Duration::from_nanos(patience.unwrap_or(60_000_000_000));
    let Some(page) = &process.page else { kernel::end(NO_TIME) };
    loop {
        match page.wait_for_time(once) {
            Some(time) => return time,
            None if page.is_fenced() => fenced(),
            None if patience.is_some() => {
                fail(NO_TIME, format_args!("the front has delivered no message yet: no time"))
            }
            None => {}
        }
    }
}

/// The time at present. A handler that has interrupted such a read makes one of its own.
fn now(process: &Process, link: &Link, call: Call) -> i64 {
    let thread = link.now_thread();
    match link.read(thread, call, &process.how) {
        Ok(answer) => answer.value.time.0,
        Err(why) => no_time(thread, &why),
    }
}

fn round(process: &Process, link: &Link, here: &Here, call: Call) -> i64 {
    let frame = 0_u8;
    let frame = (&raw const frame).addr();
    let jumped = leave_what_was_left(here, frame);
    let depth = here.depth.get();
    let Some(place) = here.frames.get(depth) else {
        fail(
            NO_TIME,
            format_args!("{DEEPEST} signal handlers have interrupted reads of each other"),
        )
    };
    place.set(frame);
    // Which reads are interrupted is not the same at all replicas: what a handler reads inside one
    // is no round of theirs, or they would get each other's, of long ago.
    let thread = match depth {
        0 => here.number(),
        _ => link.own_thread(here.inside(depth)),
    };
    // A handler that comes after this sees all of it.
    compiler_fence(Ordering::SeqCst);
    here.depth.set(depth + 1);
    compiler_fence(Ordering::SeqCst);
    let mut answer = link.read(thread, call, &process.how);
    // The read that was left behind is still under way: its value comes first, to nobody.
    while jumped && answer == Err(ReadError::Rejected(Rejection::Busy)) {
        kernel::sleep_ms(1);
        answer = link.read(thread, call, &process.how);
    }
    compiler_fence(Ordering::SeqCst);
    here.depth.set(depth);
    match answer {
        Ok(answer) => {
            process::tell_late(process, link);
            answer.value.time.0
        }
        Err(why) => no_time(thread, &why),
    }
}

/// Forgets reads whose place on the stack is gone: a handler that interrupted them has jumped out
/// (`siglongjmp`). Their rounds are read all the same. Whether there were any.
fn leave_what_was_left(here: &Here, frame: usize) -> bool {
    let mut jumped = false;
    while let Some(outer) = here.depth.get().checked_sub(1) {
        let at = here.frames.get(outer).map_or(0, core::cell::Cell::get);
        // Stacks grow down. On a stack of its own a handler's place says nothing.
        if frame < at || is_on_signal_stack() {
            break;
        }
        here.depth.set(outer);
        jumped = true;
    }
    jumped
}

fn is_on_signal_stack() -> bool {
    let mut stack = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    let at = (&raw mut stack) as i64;
    // SAFETY: asks only, into a place for the answer.
    unsafe { kernel::call(libc::SYS_sigaltstack, [0, at, 0, 0, 0, 0]) };
    stack.ss_flags & libc::SS_ONSTACK != 0
}

fn no_time(thread: Thread, why: &ReadError) -> ! {
    let thread = thread.0;
    let why = match why {
        ReadError::Rejected(Rejection::Outside) => {
            fail(
                NO_TIME,
                format_args!(
                    "this member is outside the primary component: there is no group time"
                ),
            );
        }
        ReadError::Rejected(Rejection::Behind) => {
            "it is so far behind the group that its values were forgotten: start it anew from a \
             checkpoint"
        }
        ReadError::Rejected(Rejection::Busy) => {
            "another thread of the program has the same number and reads at the same time"
        }
        ReadError::Rejected(Rejection::TooManyThreads) => {
            "the program has had more threads than the group keeps"
        }
        ReadError::Rejected(Rejection::Observer) => "this member is an observer",
        ReadError::Rejected(Rejection::Full) => {
            "too many readings wait for the group's clock to be tied to UTC"
        }
        ReadError::Rejected(Rejection::Missed) => {
            "the group goes on without this program, as its member was out of the majority (for a \
             program without state, see 'group exec --outside resume') or it differs from a \
             majority's ('truechimer group status' says which): start it anew, from a checkpoint if \
             it has state"
        }
        ReadError::Late => "patience is at an end",
        ReadError::Gone => "the agent is gone, or has cut this program off: start both anew",
        ReadError::Full => "all of the agent's slots are in use",
        ReadError::Damaged => "the memory shared with the agent is damaged",
        _ => "for a reason that this library does not know",
    };
    fail(NO_TIME, format_args!("no group time for thread {thread:x}: {why}"))
}
