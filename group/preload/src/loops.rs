//! A program that answers from one event loop is given several connections' requests at once. Each replica's loop is
//! then to find all of them at one look, in the order in which they were given: its thread looks for input while the
//! front gives nothing, when all that was given has come, and has it sorted.
//!
//! A connection takes part once the one thread that takes all input has read it, or has accepted it, and has it in its
//! epoll instance (the first one that a connection was in), level-triggered, without blocking. One in another instance, or doubled, is for
//! the front to give its requests one at a time; so are all where another thread reads, or where the program has
//! anything edge-triggered or of one shot: an event that is taken and not handed out would be lost.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libc::{epoll_event, pollfd, sigset_t, timespec};
use truechimer_group_client::delivery::Page;

use crate::descriptors::{descriptor_of, port_of};
use crate::input::{is_blocking, page, waits};
use crate::kernel::{self, Errno, returned, set_errno};
use crate::real::{self, Real};
use crate::spans::{SECOND, from_timespec, to_timespec};
use crate::thread::here;

/// Descriptors beyond this are not looked after.
const MOST: usize = 1 << 16;
/// Between two looks whether what the front has written has come, ns: the kernel brings it within µs, or when it gets
/// round to it on a busy machine.
const PAUSE: i64 = 20_000;
/// For so long it is waited for, ns; far longer than the kernel takes.
const LATE: i64 = 2 * SECOND;

/// States of a descriptor: not in the loop's epoll instance; in it; the front has been told so; in another one as well,
/// or doubled.
const UNKNOWN: u8 = 0;
const LEVEL: u8 = 1;
const TOLD: u8 = 2;
const NEVER: u8 = 3;

/// The state of each descriptor.
static STATES: [AtomicU8; MOST] = [const { AtomicU8::new(UNKNOWN) }; MOST];
/// The program's own word for each, in its epoll instance.
static WORDS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// Number of bytes of each that were there to be read at one look at least, all in all.
static THERE: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// The loop's epoll instance, + 1; 0 = none yet.
static INSTANCE: AtomicI32 = AtomicI32::new(0);
/// True if the program has anything that is edge-triggered or of one shot.
static EDGES: AtomicBool = AtomicBool::new(false);
/// Events found at one look, of which the program gets as many as it asks for.
static FOUND: Found = Found(UnsafeCell::new([epoll_event { events: 0, u64: 0 }; MOST]));
/// The requests given at once that are known to have come.
static CAME: AtomicU32 = AtomicU32::new(0);

struct Found(UnsafeCell<[epoll_event; MOST]>);

// SAFETY: only the looper uses it, within `wait`, which calls nothing of the program's.
unsafe impl Sync for Found {}

/// Patience of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// For ever.
    Endless,
    /// So long, ns.
    Ns(i64),
    /// Something that the kernel is to refuse.
    Wrong,
}

impl Patience {
    /// Patience by a time-out of epoll_wait(2), ms.
    pub fn of_ms(ms: c_int) -> Patience {
        if ms < 0 { Patience::Endless } else { Patience::Ns(i64::from(ms) * 1_000_000) }
    }

    /// Patience by a time-out of epoll_pwait2(2); none is endless.
    pub fn of(span: Option<&timespec>) -> Patience {
        match span.map(from_timespec) {
            None => Patience::Endless,
            Some(Some(ns)) if ns >= 0 => Patience::Ns(ns),
            Some(_) => Patience::Wrong,
        }
    }
}

fn state(fd: c_int) -> Option<&'static AtomicU8> {
    STATES.get(usize::try_from(fd).ok()?)
}

fn word(fd: c_int) -> Option<&'static AtomicU64> {
    WORDS.get(usize::try_from(fd).ok()?)
}

fn there(fd: c_int) -> Option<&'static AtomicU64> {
    THERE.get(usize::try_from(fd).ok()?)
}

/// The descriptor is another connection from now on, or none.
pub fn forget(fd: c_int) {
    if let Some(there) = there(fd) {
        there.store(0, Ordering::Relaxed);
    }
    if let Some(state) = state(fd) {
        state.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// The calling thread has accepted that connection.
pub fn accepted(page: &Page, port: u16) {
    if page.is_loop() && page.is_looper(here(crate::thread::Here::tid)) {
        page.looper_took_accept(port);
    } else {
        page.took_accept(port);
    }
}

/// The calling thread has taken input of that connection.
pub fn took(page: &Page, fd: c_int, port: u16) {
    if page.is_loop() && page.loops(here(crate::thread::Here::tid)) {
        tell(page, fd, port);
    }
}

/// Tells the front that the loop reads that connection, if it does.
fn tell(page: &Page, fd: c_int, port: u16) {
    if let Some(state) = state(fd)
        && state.load(Ordering::Relaxed) == LEVEL
        && !EDGES.load(Ordering::Relaxed)
    {
        state.store(TOLD, Ordering::Relaxed);
        page.set_looped(port, true);
    }
}

/// The descriptor is waited for in another way than the loop's, or has a twin: for good.
pub fn leave(fd: c_int) {
    if let Some(state) = state(fd) {
        state.store(NEVER, Ordering::Relaxed);
    }
    if let Some((page, port)) = page().zip(port_of(fd)) {
        page.set_looped(port, false);
    }
}

/// Takes note of an event that the program is about to wait for: before the kernel may report it, as a look of the loop
/// that found it would lose it.
fn about_to_wait(event: Option<&epoll_event>) {
    let edges = (libc::EPOLLET | libc::EPOLLONESHOT) as u32;
    if event.is_some_and(|event| event.events & edges != 0) && !EDGES.swap(true, Ordering::SeqCst) {
        (0..MOST as c_int).filter(|fd| port_of(*fd).is_some()).for_each(leave);
    }
}

/// The program has changed how it waits for that descriptor.
fn changed(epoll: c_int, fd: c_int, event: Option<&epoll_event>) {
    let Some((page, port)) = page().filter(|page| page.is_loop()).zip(port_of(fd)) else { return };
    let (Some(state), Some(word)) = (state(fd), word(fd)) else { return };
    let first = INSTANCE.compare_exchange(0, epoll + 1, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err_and(|instance| instance != epoll + 1) {
        if event.is_some() {
            leave(fd);
        }
        return;
    }
    match event {
        Some(event) if !is_blocking(fd) => {
            word.store(event.u64, Ordering::Relaxed);
            if state.load(Ordering::Relaxed) == UNKNOWN {
                state.store(LEVEL, Ordering::Relaxed);
                // Whoever takes all input has accepted it, and waits for it to be readable: it need not have read it yet.
                if page.taken(port).by_looper
                    && page.is_looper(here(crate::thread::Here::tid))
                    && event.events & libc::EPOLLIN as u32 != 0
                {
                    tell(page, fd, port);
                }
            }
        }
        _ => {
            if state.load(Ordering::Relaxed) != NEVER {
                state.store(UNKNOWN, Ordering::Relaxed);
            }
            page.set_looped(port, false);
        }
    }
}

/// # Safety
/// The arguments are those of `epoll_ctl(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let Some(real) = Real::get(&real::EPOLL_CTL) else {
        set_errno(libc::ENOSYS);
        return -1;
    };
    let errno = Errno::keep();
    let adds = matches!(operation, libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD);
    // SAFETY: null or the caller's event, which the kernel reads as well for these two.
    let waits = if adds { unsafe { event.as_ref() } } else { None };
    about_to_wait(waits);
    errno.restore();
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(epoll, operation, fd, event) };
    if result == 0 {
        let errno = Errno::keep();
        changed(epoll, fd, waits);
        errno.restore();
    }
    result
}

/// Waits as `epoll_pwait(2)` does, for the thread that takes all input, in its instance; none for any other.
///
/// # Safety
/// The arguments are those of `epoll_pwait(2)`.
pub unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    patience: Patience,
    mask: *const sigset_t,
) -> Option<c_int> {
    let page = page().filter(|page| page.is_loop())?;
    let patience = match patience {
        Patience::Endless => None,
        Patience::Ns(ns) => Some(ns),
        Patience::Wrong => return None,
    };
    let is_loop = page.is_looper(here(crate::thread::Here::tid))
        && INSTANCE.load(Ordering::Relaxed) == epoll + 1
        && !EDGES.load(Ordering::Relaxed);
    if !is_loop || !(1..=MOST as c_int).contains(&most) {
        return None;
    }
    let until = patience.map(|ns| kernel::clock(libc::CLOCK_MONOTONIC).saturating_add(ns));
    loop {
        let came = page.look(|| {
            wait_for_all(page);
            // All of it, since the kernel's first ones are not the first ones of the order. What is not handed out is
            // level-triggered, and found again; unless another thread has added an edge since the wait began.
            let room = if EDGES.load(Ordering::Relaxed) { i64::from(most) } else { MOST as i64 };
            let arguments = [i64::from(epoll), FOUND.0.get() as i64, room, 0, 0, 0];
            // SAFETY: room for so many; waits for nothing, and leaves signals alone.
            unsafe { kernel::call(libc::SYS_epoll_pwait, arguments) }
        });
        match usize::try_from(came) {
            Err(_) => return Some(returned(came) as c_int),
            Ok(0) => {}
            Ok(many) => {
                // SAFETY: this thread alone uses it, and the kernel has written so many.
                let found = unsafe {
                    core::slice::from_raw_parts_mut(FOUND.0.get().cast::<epoll_event>(), many)
                };
                sort(page, found);
                let many = many.min(most as usize);
                // SAFETY: the caller has room for `most`; the two do not overlap.
                unsafe { core::ptr::copy_nonoverlapping(found.as_ptr(), events, many) };
                return Some(many as c_int);
            }
        }
        if patience == Some(0) {
            return Some(0);
        }
        waits();
        let left = until.map(|until| {
            to_timespec(until.saturating_sub(kernel::clock(libc::CLOCK_MONOTONIC)).max(0))
        });
        let mut waited = pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
        let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // What is found stays: it is taken at the next look, when all has come.
        // SAFETY: one descriptor, a timespec that outlives the call, and the caller's mask.
        match unsafe { Real::get(&real::PPOLL)?(&mut waited, 1, left, mask) } {
            1.. => {}
            other => return Some(other),
        }
    }
}

/// Waits until the program could read all that was given at once last: it is on its way within this host.
fn wait_for_all(page: &Page) {
    let serial = page.serial();
    if CAME.load(Ordering::Relaxed) == serial {
        return;
    }
    let mut until = None;
    for (port, target) in page.at_once() {
        while !has_come(page, port, target) {
            let now = kernel::clock(libc::CLOCK_MONOTONIC);
            if now >= *until.get_or_insert(now.saturating_add(LATE)) {
                page.came_partly();
                CAME.store(serial, Ordering::Relaxed);
                return;
            }
            kernel::sleep_ns(PAUSE);
        }
    }
    CAME.store(serial, Ordering::Relaxed);
}

/// True if the program could read so many bytes of that connection by now, all in all.
fn has_come(page: &Page, port: u16, target: u64) -> bool {
    let Some(fd) = descriptor_of(port) else { return true };
    let taken = page.taken(port);
    if taken.closed || taken.bytes >= target {
        return true;
    }
    let mut waiting: c_int = 0;
    let arguments = [i64::from(fd), libc::FIONREAD as i64, (&raw mut waiting) as i64, 0, 0, 0];
    // SAFETY: a place for the number.
    let result = unsafe { kernel::call(libc::SYS_ioctl, arguments) };
    // One that cannot be asked has nothing to come.
    let waiting = u64::try_from(waiting).unwrap_or(0);
    let came = result < 0 || taken.bytes.saturating_add(waiting) >= target;
    if came
        && result == 0
        && let Some(there) = there(fd)
    {
        there.store(target, Ordering::Relaxed);
    }
    came
}

/// True if the calling thread, which takes all input, finds some there for certain: a read does not wait, whatever the
/// descriptor's flags are.
pub fn is_there(page: &Page, fd: c_int, port: u16) -> bool {
    there(fd).is_some_and(|there| there.load(Ordering::Relaxed) > page.taken(port).bytes)
        && page.is_looper(here(crate::thread::Here::tid))
}

/// Sorts what was found into the order in which it was given; all else comes behind.
fn sort(page: &Page, events: &mut [epoll_event]) {
    if events.len() < 2 {
        return;
    }
    let mut sorted = 0;
    for (port, _) in page.at_once() {
        let Some(own) = descriptor_of(port).and_then(word).map(|word| word.load(Ordering::Relaxed))
        else {
            continue;
        };
        let rest = events.get_mut(sorted..).unwrap_or_default();
        // Mostly it is the first.
        if let Some(at) = rest.iter().position(|event| event.u64 == own) {
            rest.get_mut(..=at).unwrap_or_default().rotate_right(1);
            sorted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience() {
        assert_eq!(Patience::of_ms(-1), Patience::Endless);
        assert_eq!(Patience::of_ms(3), Patience::Ns(3_000_000));
        assert_eq!(Patience::of(None), Patience::Endless);
        assert_eq!(Patience::of(Some(&to_timespec(5))), Patience::Ns(5));
        assert_eq!(Patience::of(Some(&to_timespec(-5))), Patience::Wrong);
        let wrong = timespec { tv_sec: 0, tv_nsec: SECOND };
        assert_eq!(Patience::of(Some(&wrong)), Patience::Wrong);
    }

    #[test]
    fn what_was_given_comes_first_and_in_its_order() {
        let name = format!("truechimer-loops-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let path = std::ffi::CString::new(file.to_str().unwrap()).unwrap();
        let page = Page::create(&path, truechimer_group_client::delivery::LOOP).unwrap();
        // Ports 1 to 5 are the descriptors 9001 to 9005, which the program calls 101 to 105.
        for port in 1..=5u16 {
            let fd = 9000 + c_int::from(port);
            crate::descriptors::set_port(fd, port);
            word(fd).unwrap().store(100 + u64::from(port), Ordering::Relaxed);
        }
        let gave = page.give_at_once(&[(4, 1), (2, 1), (4, 2), (5, 1), (1, 1)], || ());
        assert!(gave);
        let sorted = |given: &[u64]| {
            let mut events: Vec<_> =
                given.iter().map(|word| epoll_event { events: 1, u64: *word }).collect();
            sort(&page, &mut events);
            events.iter().map(|event| event.u64).collect::<Vec<u64>>()
        };
        assert_eq!(sorted(&[101, 102, 104, 105]), [104, 102, 105, 101]);
        assert_eq!(sorted(&[7, 101, 103, 8, 105]), [105, 101, 7, 103, 8]);
        assert_eq!(sorted(&[103]), [103]);
        assert_eq!(sorted(&[]), [0; 0]);
        std::fs::remove_file(file).unwrap();
    }
}
