//! The functions of the header.

use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::time::Duration;

use libc::timespec;
use truechimer::WaitError;

use crate::code::{self, TRUECHIMER_E_ARGUMENT};
use crate::types::{
    Bound, Clock, Length, Moment, Reading, TRUECHIMER_AFTER, TRUECHIMER_FENCED, Tick, Timer,
};
use crate::{give, memory, unix};

/// Place for an answer: a pointer that may be null, to memory that need hold nothing yet.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Opens the clock of this machine: the page that $TRUECHIMER_PAGE names, else
/// $XDG_RUNTIME_DIR/truechimer/clock or /run/truechimer/clock.
///
/// Returns 0 and sets *clock, or an error and sets *clock to NULL. A page without any time yet is
/// no error here. Open a clock once: all threads may use it at the same time, and children after
/// fork().
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_open(clock: Option<&mut MaybeUninit<*mut Clock>>) -> c_int {
    open(None, 0, Some(Duration::ZERO), clock, null_mut(), 0)
}

/// Opens the clock whose page is at that path, or for NULL as truechimer_open() does.
///
/// Flags: 0 or TRUECHIMER_FENCED. A daemon that is just starting is given until timeout to make its
/// page, for NULL no time at all. A text of the error, with the path and what to do, goes into the
/// size bytes at text, cut off if need be; text may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_open_at(
    page: *const c_char,
    flags: u32,
    timeout: Option<&timespec>,
    clock: Option<&mut MaybeUninit<*mut Clock>>,
    text: *mut c_char,
    size: usize,
) -> c_int {
    match give::duration(timeout) {
        Ok(timeout) => open(Some(page), flags, timeout.or(Some(Duration::ZERO)), clock, text, size),
        Err(()) => argument(clock, text, size),
    }
}

/// Closes a clock that nobody uses any more. NULL is none.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_close(clock: Option<Box<Clock>>) {
    drop(clock);
}

/// Reads the time now, with its bound and status, at about the cost of reading the counter.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_now(
    clock: Option<&Clock>,
    reading: Option<&mut MaybeUninit<Reading>>,
) -> c_int {
    let (Some(clock), Some(reading)) = (clock, reading) else { return TRUECHIMER_E_ARGUMENT };
    if let Some(now) = clock.clock.now_if_usual()
        && let Some(usual) = give::usual(&now)
    {
        reading.write(usual);
        return 0;
    }
    now_unusually(clock, reading)
}

/// Reads it where something is not as usual.
#[cold]
#[inline(never)]
fn now_unusually(clock: &Clock, reading: &mut MaybeUninit<Reading>) -> c_int {
    answer(Some(clock), Some(reading), |clock| {
        clock.clock.now().map(|now| give::reading(&now)).map_err(code::of_read)
    })
}

/// Reads the time now, never before what an earlier call with this clock gave in any thread: best
/// stands still while the clock goes back or nothing is promised, and through an inserted leap
/// second, in which Unix time shows 23:59:59 once more.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_now_monotone(
    clock: Option<&Clock>,
    reading: Option<&mut MaybeUninit<Reading>>,
) -> c_int {
    answer(clock, reading, |clock| {
        let now = clock.clock.now_monotone_unix();
        now.map(|(now, unix)| give::with(&now, &unix)).map_err(code::of_read)
    })
}

/// Tells the status of the clock now: TRUECHIMER_UNKNOWN (0) to TRUECHIMER_DISRUPTED (3), or an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_status(clock: Option<&Clock>) -> c_int {
    let Some(clock) = clock else { return TRUECHIMER_E_ARGUMENT };
    clock.clock.status().map_or_else(code::of_read, |status| status as c_int)
}

/// Takes this moment down, to ask about later: at the cost of reading the counter.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_count(
    clock: Option<&Clock>,
    moment: Option<&mut MaybeUninit<Moment>>,
) -> c_int {
    let (Some(clock), Some(moment)) = (clock, moment) else { return TRUECHIMER_E_ARGUMENT };
    match clock.clock.moment() {
        Ok(now) => {
            moment.write(give::moment(now));
            0
        }
        Err(error) => code::of_read(error),
    }
}

/// Tells the time of a moment, by what is known now: the bound grows with the distance.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_time_of(
    clock: Option<&Clock>,
    moment: Option<&Moment>,
    reading: Option<&mut MaybeUninit<Reading>>,
) -> c_int {
    answer(clock, reading, |clock| {
        let moment = moment.and_then(give::moment_of).ok_or(TRUECHIMER_E_ARGUMENT)?;
        clock.clock.time_of(moment).map(|then| give::reading(&then)).map_err(code::of_read)
    })
}

/// Tells how long it was from one moment to another, by the clock that no correction of the time
/// disturbs; negative if the second one came first.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_elapsed(
    clock: Option<&Clock>,
    from: Option<&Moment>,
    to: Option<&Moment>,
    length: Option<&mut MaybeUninit<Length>>,
) -> c_int {
    answer(clock, length, |clock| {
        let from = from.and_then(give::moment_of).ok_or(TRUECHIMER_E_ARGUMENT)?;
        let to = to.and_then(give::moment_of).ok_or(TRUECHIMER_E_ARGUMENT)?;
        clock.clock.elapsed(from, to).map(|e| give::length(&e)).map_err(code::of_read)
    })
}

/// Tells how long the machine has been up, suspended or not, never before what an earlier call with
/// this clock gave: CLOCK_BOOTTIME at the first call and after a break of the counter, from there
/// by the difference clock; the bound is that of the length since.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_uptime(
    clock: Option<&Clock>,
    length: Option<&mut MaybeUninit<Length>>,
) -> c_int {
    answer(clock, length, |clock| {
        clock.clock.uptime().map(|up| give::length(&up)).map_err(code::of_read)
    })
}

/// Waits until a time (UTC) is over for sure, which is when earliest is after it: the commit wait of
/// databases. For ever if timeout is NULL; a negative one is 0.
///
/// Returns 0 and sets *reading to the reading that was, or an error. reading may be NULL. Of a time
/// that a leap second repeats the later one is meant. Timeouts are of CLOCK_MONOTONIC, here and
/// elsewhere: while the machine is suspended they stand still.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_wait_after(
    clock: Option<&Clock>,
    time: Option<&timespec>,
    timeout: Option<&timespec>,
    reading: Option<&mut MaybeUninit<Reading>>,
) -> c_int {
    truechimer_wait_for(clock, time, TRUECHIMER_AFTER, timeout, reading)
}

/// Waits for a time (UTC), on that side of it: TRUECHIMER_BEFORE, TRUECHIMER_LIKELY or
/// TRUECHIMER_AFTER. Otherwise as truechimer_wait_after().
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_wait_for(
    clock: Option<&Clock>,
    time: Option<&timespec>,
    side: c_int,
    timeout: Option<&timespec>,
    reading: Option<&mut MaybeUninit<Reading>>,
) -> c_int {
    let (Some(clock), Some(time), Some(side)) = (clock, time, give::side(side)) else {
        return TRUECHIMER_E_ARGUMENT;
    };
    let (Some(time), Ok(timeout)) = (unix::time(time), give::duration(timeout)) else {
        return TRUECHIMER_E_ARGUMENT;
    };
    waited(clock.clock.wait_for_unix(time, side, timeout), reading)
}

/// Begins a timer for a first time (UTC) and every period after it, ns, on that side of each; a
/// period below 1000 ns counts as that.
///
/// Returns 0 and sets *timer, or an error. Only once the clock was set is it known where the leap
/// seconds are: until then there is TRUECHIMER_E_NOT_YET.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_timer_begin(
    clock: Option<&Clock>,
    first: Option<&timespec>,
    period_ns: i64,
    side: c_int,
    timer: Option<&mut MaybeUninit<Timer>>,
) -> c_int {
    answer(clock, timer, |clock| {
        let first = first.and_then(unix::time).ok_or(TRUECHIMER_E_ARGUMENT)?;
        let side = give::side(side).ok_or(TRUECHIMER_E_ARGUMENT)?;
        let leaps = clock.clock.now().map_err(code::of_read)?.leaps();
        let period_ns = u64::try_from(period_ns).unwrap_or(0);
        Ok(give::timer(&truechimer::UnixTimer::new(&leaps, first, period_ns, side)))
    })
}

/// Waits for the next time of a timer. Of times that have come already only the last is given out,
/// so that a program that was held up catches up at once. For ever if timeout is NULL; a negative
/// one is 0.
///
/// Returns 0 and sets *tick and the timer's next time, or an error: the same time is then waited for
/// once more. tick may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_timer_tick(
    clock: Option<&Clock>,
    timer: Option<&mut Timer>,
    timeout: Option<&timespec>,
    tick: Option<&mut MaybeUninit<Tick>>,
) -> c_int {
    let (Some(clock), Some(timer), Ok(timeout)) = (clock, timer, give::duration(timeout)) else {
        return TRUECHIMER_E_ARGUMENT;
    };
    let Some(mut inner) = give::timer_of(timer) else { return TRUECHIMER_E_ARGUMENT };
    match inner.tick(&clock.clock, timeout) {
        Ok(came) => {
            *timer = give::timer(&inner);
            if let Some(tick) = tick {
                tick.write(give::tick(&came));
            }
            0
        }
        Err(error) => code::of_wait(error),
    }
}

/// Waits until the clock is synchronised, with a bound of at most max_bound unless that is NULL. For
/// ever if timeout is NULL; a negative one is 0. Looks fifty times a second.
///
/// Returns 0 and sets *reading to the reading that was, or an error. reading may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_wait_synchronised(
    clock: Option<&Clock>,
    max_bound: Option<&timespec>,
    timeout: Option<&timespec>,
    reading: Option<&mut MaybeUninit<Reading>>,
) -> c_int {
    let Some(clock) = clock else { return TRUECHIMER_E_ARGUMENT };
    let (Ok(max), Ok(timeout)) = (max_bound.map(give::span).transpose(), give::duration(timeout))
    else {
        return TRUECHIMER_E_ARGUMENT;
    };
    waited(clock.clock.wait_synchronised(max, timeout.unwrap_or(Duration::MAX)), reading)
}

/// Tells where the bound comes from, and the state of the clock behind it, after a look at the
/// host's own clocks: about a microsecond.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_bound_sources(
    clock: Option<&Clock>,
    bound: Option<&mut MaybeUninit<Bound>>,
) -> c_int {
    answer(clock, bound, |clock| {
        clock.clock.view().map(|view| give::bound(&view)).map_err(code::of_read)
    })
}

/// Tells how far true time may be from best of a reading at most, ns, rounded up; -1 if nothing is
/// promised, or for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_reading_bound(reading: Option<&Reading>) -> i64 {
    reading.map_or(-1, give::bound_ns)
}

/// Tells the path of a clock's page, which stays where it is until the clock is closed; NULL for
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_page(clock: Option<&Clock>) -> *const c_char {
    clock.map_or(std::ptr::null(), |clock| clock.page.as_ptr())
}

/// Tells what a returned number means, in words, for any number.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_error_text(code: c_int) -> *const c_char {
    code::text(code).as_ptr()
}

/// Tells in full why there was no time: of that moment, or now if moment is NULL. A text with what
/// truechimer_error_text() does not know, such as which counter it is, goes into the size bytes at
/// text, cut off if need be.
///
/// The clock is asked once more; where that ends otherwise than with this error, the text is that of
/// truechimer_error_text(). Returns 0 or TRUECHIMER_E_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_explain(
    clock: Option<&Clock>,
    moment: Option<&Moment>,
    error: c_int,
    text: *mut c_char,
    size: usize,
) -> c_int {
    let (Some(clock), false) = (clock, text.is_null()) else { return TRUECHIMER_E_ARGUMENT };
    let again = match moment.map(give::moment_of) {
        None => clock.clock.now().err(),
        Some(moment) => moment.and_then(|moment| clock.clock.time_of(moment).err()),
    };
    match again.filter(|again| code::of(again) == error) {
        Some(again) => memory::put(again, text, size),
        None => memory::put(code::words(error), text, size),
    }
    0
}

/// Tells the name of a status, in lower case, for any number.
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_status_name(status: c_int) -> *const c_char {
    code::status_name(status).as_ptr()
}

/// Tells the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn truechimer_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

fn open(
    page: Option<*const c_char>,
    flags: u32,
    timeout: Option<Duration>,
    clock: Out<'_, *mut Clock>,
    text: *mut c_char,
    size: usize,
) -> c_int {
    if clock.is_none() || flags & !TRUECHIMER_FENCED != 0 {
        return argument(clock, text, size);
    }
    let path = page.and_then(memory::path);
    let opened = truechimer::Clock::open_within(path, timeout.unwrap_or_default());
    let (pointer, code) = match opened {
        Ok(opened) => {
            memory::put("", text, size);
            (Box::into_raw(Box::new(handle(opened, flags))), 0)
        }
        Err(error) => {
            memory::put(&error, text, size);
            (null_mut(), code::of_open(&error))
        }
    };
    if let Some(clock) = clock {
        clock.write(pointer);
    }
    code
}

fn handle(clock: truechimer::Clock, flags: u32) -> Clock {
    let clock = if flags & TRUECHIMER_FENCED == 0 { clock } else { clock.fenced() };
    // Measured now, so that it need not be later: how fine the counter is.
    if let Ok(moment) = clock.moment() {
        let _ = clock.elapsed(moment, moment);
    }
    let page = CString::new(clock.page().path().as_os_str().as_bytes()).unwrap_or_default();
    Clock { clock, page }
}

fn argument(clock: Out<'_, *mut Clock>, text: *mut c_char, size: usize) -> c_int {
    if let Some(clock) = clock {
        clock.write(null_mut());
    }
    memory::put(code::words(TRUECHIMER_E_ARGUMENT), text, size);
    TRUECHIMER_E_ARGUMENT
}

#[inline(always)]
fn answer<T>(
    clock: Option<&Clock>,
    place: Out<'_, T>,
    ask: impl FnOnce(&Clock) -> Result<T, c_int>,
) -> c_int {
    let (Some(clock), Some(place)) = (clock, place) else { return TRUECHIMER_E_ARGUMENT };
    match ask(clock) {
        Ok(answer) => {
            place.write(answer);
            0
        }
        Err(code) => code,
    }
}

fn waited(result: Result<truechimer::Reading, WaitError>, place: Out<'_, Reading>) -> c_int {
    match result {
        Ok(reading) => {
            if let Some(place) = place {
                place.write(give::reading(&reading));
            }
            0
        }
        Err(error) => code::of_wait(error),
    }
}
