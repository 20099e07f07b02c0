//! Births of threads and processes, and the logical numbers that they get.

use core::ffi::{c_int, c_void};

use libc::{pid_t, pthread_attr_t, pthread_t};
use truechimer_group::Thread;

use crate::input::hand_on;
use crate::kernel;
use crate::process::{self, Part, part};
use crate::real::{self, Real, Start, ThrdStart};
use crate::thread::{Here, here};

/// C11's answer when there is no memory.
const THRD_NOMEM: c_int = 3;

/// Things handed to a new thread.
struct Birth<S> {
    start: S,
    argument: *mut c_void,
    number: Thread,
}

impl<S> Birth<S> {
    /// In memory of libc's, for the thread that was just numbered; null if there is none.
    fn make(start: S, argument: *mut c_void) -> *mut Birth<S> {
        // SAFETY: memory of that size, which libc aligns for anything.
        let at = unsafe { libc::malloc(size_of::<Birth<S>>()) }.cast::<Birth<S>>();
        if !at.is_null() {
            let number = here(Here::next_thread);
            // SAFETY: fresh memory of that size and alignment.
            unsafe { at.write(Birth { start, argument, number }) };
        }
        at
    }

    /// Takes it back.
    ///
    /// # Safety
    /// It is of `make`, and nobody uses it any more.
    unsafe fn take(at: *mut c_void) -> Birth<S> {
        // SAFETY: the caller's word.
        unsafe {
            let birth = at.cast::<Birth<S>>().read();
            libc::free(at);
            birth
        }
    }
}

/// # Safety
/// As `pthread_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = Real::get(&real::PTHREAD_CREATE) else { return libc::ENOSYS };
    hand_on();
    if part() != Part::Round {
        // SAFETY: the caller's own arguments.
        return unsafe { real(thread, attributes, start, argument) };
    }
    let birth = Birth::make(start, argument);
    if birth.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: the caller's own arguments, and what `begin` takes.
    let result = unsafe { real(thread, attributes, begin, birth.cast()) };
    if result != 0 {
        // SAFETY: no thread has come to take it.
        let _ = unsafe { Birth::<Start>::take(birth.cast()) };
        here(Here::take_thread_back);
    }
    result
}

/// # Safety
/// As `thrd_create(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    start: ThrdStart,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = Real::get(&real::THRD_CREATE) else { return THRD_NOMEM };
    hand_on();
    if part() != Part::Round {
        // SAFETY: the caller's own arguments.
        return unsafe { real(thread, start, argument) };
    }
    let birth = Birth::make(start, argument);
    if birth.is_null() {
        return THRD_NOMEM;
    }
    // SAFETY: the caller's own arguments, and what `begin_thrd` takes.
    let result = unsafe { real(thread, begin_thrd, birth.cast()) };
    if result != 0 {
        // SAFETY: no thread has come to take it.
        let _ = unsafe { Birth::<ThrdStart>::take(birth.cast()) };
        here(Here::take_thread_back);
    }
    result
}

/// Nothing of ours is left on the stack when the program's own function runs: it may be cancelled
/// or end its thread, which unwinds it.
unsafe extern "C-unwind" fn begin(birth: *mut c_void) -> *mut c_void {
    // SAFETY: handed over by `pthread_create`.
    let Birth { start, argument, number } = unsafe { Birth::<Start>::take(birth) };
    here(|here| here.born(number));
    // SAFETY: the program's own function and its argument.
    unsafe { start(argument) }
}

unsafe extern "C-unwind" fn begin_thrd(birth: *mut c_void) -> c_int {
    // SAFETY: handed over by `thrd_create`.
    let Birth { start, argument, number } = unsafe { Birth::<ThrdStart>::take(birth) };
    here(|here| here.born(number));
    // SAFETY: the program's own function and its argument.
    unsafe { start(argument) }
}

/// Forks that run libc's own handlers are seen by ours.
pub fn watch() {
    if process::process().is_some() {
        // SAFETY: functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    }
}

/// The calling thread is about to fork.
pub extern "C" fn before() {
    here(Here::fork);
    hand_on();
}

/// Notes in the parent that it has forked.
pub extern "C" fn after() {
    here(Here::has_forked);
}

/// Makes a forked child take part as itself.
pub extern "C" fn in_child() {
    // The first look at what it takes part in makes it its own.
    part();
}

/// A child that shares its parent's memory would change what the parent knows of itself: it gets a
/// copy, which POSIX allows.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn vfork() -> pid_t {
    match Real::get(&real::FORK) {
        // SAFETY: as for any fork: the caller's own affair.
        Some(real) => unsafe { real() },
        None => missing(),
    }
}

/// `fork` without handlers.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
extern "C" fn _Fork() -> pid_t {
    let Some(real) = Real::get(&real::UNDERSCORE_FORK) else { return missing() };
    if part() == Part::None {
        // SAFETY: as for any fork: the caller's own affair.
        return unsafe { real() };
    }
    before();
    // SAFETY: as above.
    match unsafe { real() } {
        0 => {
            in_child();
            0
        }
        result => {
            after();
            result
        }
    }
}

fn missing() -> pid_t {
    kernel::set_errno(libc::ENOSYS);
    -1
}
