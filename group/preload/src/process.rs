//! The process: whether it takes part, and what it is attached to. Set up once, by the library's
//! constructor or by the first call that comes before it, without allocating.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use truechimer_group::{Mode, Order};
use truechimer_group_client::Began;
use truechimer_group_client::delivery::{Page, Unusable};
use truechimer_group_client::lineage;
use truechimer_group_client::link::{self, Address, As, How, Link, Refused, Role, Waits};

use crate::kernel;
use crate::kin::{self, Kin};
use crate::real;
use crate::say::{NO_TIME, Text, WRONG_SETTINGS, fail, line};
use crate::settings::{self, Outside, Reads, Settings};
use crate::surroundings;
use crate::thread;

/// Behaviour of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Calls as libc does them.
    None,
    /// Reads are rounds.
    Round,
    /// Reads give the time of delivery.
    Delivery,
    /// Clocks are libc's, but input from the front is counted.
    Counting,
}

/// Facts that do not change once set up.
pub struct Process {
    /// The agent, for rounds.
    pub link: Option<Link>,
    /// The front's page, for the time of delivery.
    pub page: Option<Page>,
    /// Options with which rounds are read.
    pub how: How,
    /// True where they are of the time at present.
    pub now: bool,
    /// True if nothing is said of waiting, nor of how the program began.
    pub quiet: bool,
    /// True if the monotonic clocks are the group's.
    pub monotonic: bool,
    /// CLOCK_TAI − CLOCK_REALTIME, ns.
    pub tai_ns: i64,
    /// Where the clock of a condition variable is told, if that was found out.
    pub cond_clock: Option<(usize, u8)>,
    kin: Option<&'static Kin>,
    inherit: bool,
    family: u64,
    kin_fd: i32,
}

struct Once {
    process: UnsafeCell<MaybeUninit<Process>>,
    state: AtomicU32,
    /// The thread that sets it up.
    by: AtomicU32,
}

// SAFETY: `process` is written once by the thread that moved `state` from NEW to STARTING and read
// only after it has stored a later one.
unsafe impl Sync for Once {}

static ONCE: Once = Once {
    process: UnsafeCell::new(MaybeUninit::uninit()),
    state: AtomicU32::new(NEW),
    by: AtomicU32::new(0),
};

const NEW: u32 = 0;
const STARTING: u32 = 1;
const OFF: u32 = 2;
const ROUND: u32 = 3;
const DELIVERY: u32 = 4;
const COUNTING: u32 = 5;

/// After so long it is said that an agent or a front is waited for, ns.
const TELL_NS: i64 = 2_000_000_000;

/// Descriptors of ours, which the program may not close.
static OURS: [AtomicI32; 4] = [const { AtomicI32::new(-1) }; 4];

/// True if a descriptor is one that the program did not open and does not know of.
pub fn is_ours(fd: c_int) -> bool {
    fd >= 0 && OURS.iter().any(|ours| ours.load(Ordering::Relaxed) == fd)
}

/// The greatest number of such a descriptor; −1 if there is none.
pub fn ours() -> impl Iterator<Item = c_int> {
    OURS.iter().map(|ours| ours.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
}

fn protect(fd: c_int) {
    for ours in &OURS {
        if ours.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Part that the process takes; sets it up if need be, and notices a fork.
pub fn part() -> Part {
    let mut state = ONCE.state.load(Ordering::Acquire);
    if state == NEW || state == STARTING {
        state = start();
    }
    if state > OFF && thread::notice_fork() {
        become_child();
    }
    match state {
        ROUND => Part::Round,
        DELIVERY => Part::Delivery,
        COUNTING => Part::Counting,
        _ => Part::None,
    }
}

/// The process, if it takes part.
pub fn process() -> Option<&'static Process> {
    let state = ONCE.state.load(Ordering::Acquire);
    // SAFETY: beyond OFF it was written before the state was stored, and is never written again.
    (state > OFF).then(|| unsafe { (*ONCE.process.get()).assume_init_ref() })
}

/// The process as a child of a fork.
pub fn become_child() {
    let own = thread::here(thread::Here::become_child);
    WAITING.store(0, Ordering::Relaxed);
    if let Some(kin) = process().and_then(|process| process.kin) {
        kin.enter(kernel::pid(), own);
    }
    crate::input::joined();
}

fn start() -> u32 {
    let own = kernel::tid();
    loop {
        match ONCE.state.compare_exchange(NEW, STARTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            // What libc calls of ours while we set up is libc's own affair.
            Err(STARTING) if ONCE.by.load(Ordering::Acquire) == own => return OFF,
            Err(STARTING) => kernel::sleep_ms(1),
            Err(ready) => return ready,
        }
    }
    ONCE.by.store(own, Ordering::Release);
    let errno = kernel::Errno::keep();
    real::look_all_up();
    let state = match Settings::of(surroundings::get, program()) {
        Ok(None) => OFF,
        Ok(Some(settings)) => set_up(&settings),
        Err((name, may_be)) => {
            fail(WRONG_SETTINGS, format_args!("{name} is wrong: it is to be {may_be}"))
        }
    };
    errno.restore();
    ONCE.state.store(state, Ordering::Release);
    ONCE.by.store(0, Ordering::Release);
    state
}

/// Threads whose reads have been waiting for long.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Says that other replicas have read what this one has not, if that is known and was not said.
pub fn tell_late(process: &Process, link: &Link) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    if link.began() == Began::Late && !process.quiet && SAID.swap(1, Ordering::Relaxed) == 0 {
        line(format_args!(
            "this program has begun while those of other members were running: it reads the \
             group's time as of now, but lacks what they have read before: it needs their state \
             if it is to give their answers, or all are to be started together"
        ));
    }
}

/// Says that reads wait, and that they go on.
fn tell(waits: Option<Waits>) {
    match waits {
        Some(waits) if WAITING.fetch_add(1, Ordering::Relaxed) == 0 => {
            line(format_args!("waiting for the group's time: {waits}"));
        }
        Some(_) => {}
        // A forked child has fewer threads than were counted.
        None => {
            let less = |many: u32| many.checked_sub(1);
            let before = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            if before == Ok(1) {
                line(format_args!("no longer waiting for the group's time"));
            }
        }
    }
}

fn set_up(settings: &Settings<'_>) -> u32 {
    let outside = match settings.outside {
        Outside::Block => link::Outside::Wait,
        Outside::Exit => link::Outside::Fail,
        Outside::Resume => link::Outside::Resume,
    };
    let note: Option<fn(Option<Waits>)> = if settings.quiet { None } else { Some(tell) };
    let how = How { patience_ns: settings.patience_ns, outside, note, ..How::default() };
    let mut process = Process {
        link: None,
        page: None,
        how,
        now: settings.reads == Reads::Now,
        quiet: settings.quiet,
        monotonic: settings.monotonic,
        tai_ns: settings.tai_ns,
        cond_clock: crate::waits::find_cond_clock(),
        kin: None,
        inherit: settings.inherit,
        family: settings.family,
        kin_fd: -1,
    };
    let state = match settings.reads {
        Reads::Round | Reads::Now => {
            let link = attach(settings);
            process.family = link.welcome().family;
            if process.now {
                // Its threads and processes need no numbers.
                thread::begin(lineage::FIRST);
            } else {
                register(settings, &mut process);
            }
            keep_over_exec(link.socket());
            protect(link.socket());
            process.link = Some(link);
            ROUND
        }
        Reads::Delivery => {
            let page = open(settings);
            page.attached(kernel::pid());
            let clock = page.is_clock();
            process.page = Some(page);
            if clock { DELIVERY } else { COUNTING }
        }
    };
    thread::watch_for_forks();
    // SAFETY: this thread alone has moved the state from NEW, and nobody reads before it moves on.
    unsafe { (*ONCE.process.get()).write(process) };
    state
}

/// The logical number of the process, and the register for those after it.
fn register(settings: &Settings<'_>, process: &mut Process) {
    let inherited = settings.kin.map(|fd| (fd, Kin::inherited(fd, process.family)));
    let own = match inherited {
        None => lineage::FIRST,
        Some((fd, Some(kin))) => {
            (process.kin, process.kin_fd) = (Some(kin), fd);
            kin.thread_of(kernel::pid()).unwrap_or_else(|| kin.unseen_child(kernel::parent()))
        }
        Some((_, None)) => {
            line(format_args!(
                "the register of the processes was not handed down: this one counts as the only \
                 such child"
            ));
            kin::lost()
        }
    };
    if process.kin.is_none()
        && let Some((kin, fd)) = Kin::create(process.family)
    {
        (process.kin, process.kin_fd) = (Some(kin), fd);
    }
    if let Some(kin) = process.kin {
        protect(process.kin_fd);
        kin.enter(kernel::pid(), own);
    }
    thread::begin(own);
}

/// A program that this process executes in its own place attaches before this ends, so that the
/// agent does not take the replica for gone.
fn keep_over_exec(socket: c_int) {
    let (fd, command) = (i64::from(socket), i64::from(libc::F_SETFD));
    // SAFETY: takes numbers only.
    unsafe { kernel::call(libc::SYS_fcntl, [fd, command, 0, 0, 0, 0]) };
}

fn attach(settings: &Settings<'_>) -> Link {
    let path = settings.socket.unwrap_or_default();
    let Some(address) = Address::of(Path::new(OsStr::from_bytes(path.to_bytes()))) else {
        fail(WRONG_SETTINGS, format_args!("TRUECHIMER_GROUP_SOCKET is longer than 107 bytes"))
    };
    let begin = kernel::clock(libc::CLOCK_MONOTONIC);
    let mut said = false;
    loop {
        let Settings { family, together, .. } = *settings;
        let attached = Link::attach(&address, As { role: Role::Reader, family, together });
        let why = match attached {
            Ok(link) => {
                if said {
                    line(format_args!("the agent is there"));
                }
                check_mode(settings.mode, link.welcome().mode);
                check_order(settings.reads, link.welcome().order);
                return link;
            }
            Err(why) => why,
        };
        let path = Shown(path.to_bytes());
        let waited = kernel::clock(libc::CLOCK_MONOTONIC).saturating_sub(begin);
        let is_over = settings.patience_ns.is_some_and(|most| waited as u64 >= most);
        match why {
            Refused::NoAgent if settings.outside == Outside::Exit || is_over => {
                fail(NO_TIME, format_args!("no agent listens at {path}: start it first"))
            }
            Refused::NoAgent if !said && !settings.quiet && waited >= TELL_NS => {
                line(format_args!("no agent listens at {path}: waiting for it"));
                said = true;
            }
            Refused::NoAgent => {}
            other => fail(NO_TIME, format_args!("{path}: {other}")),
        }
        kernel::sleep_ms(20);
    }
}

fn check_mode(wanted: Option<Mode>, is: Mode) {
    if wanted.is_some_and(|wanted| wanted != is) {
        fail(
            WRONG_SETTINGS,
            format_args!("the group's mode is {is}, not the one asked for (--mode)"),
        );
    }
}

fn check_order(reads: Reads, is: Order) {
    if reads == Reads::Now && is != Order::Monotone {
        fail(
            WRONG_SETTINGS,
            format_args!(
                "the group's order is {is}: its time may go back from one reading to another's, so \
                 there is none at present (--reads now)"
            ),
        );
    }
}

fn open(settings: &Settings<'_>) -> Page {
    let path = settings.front.unwrap_or_default();
    let begin = kernel::clock(libc::CLOCK_MONOTONIC);
    let mut said = false;
    loop {
        let why = match Page::open(path) {
            Ok(page) => {
                if said {
                    line(format_args!("the front is there"));
                }
                return page;
            }
            Err(why) => why,
        };
        let path = Shown(path.to_bytes());
        if let Unusable::Version(_) = why {
            fail(NO_TIME, format_args!("{path}: {why}"));
        }
        let missing =
            matches!(why, Unusable::System(libc::ENOENT) | Unusable::NoPage | Unusable::Stale);
        let waited = kernel::clock(libc::CLOCK_MONOTONIC).saturating_sub(begin);
        let is_over = settings.patience_ns.is_some_and(|most| waited as u64 >= most);
        if !missing || is_over || settings.outside == Outside::Exit {
            fail(NO_TIME, format_args!("{path} is no page of a running front: {why}"));
        }
        if !said && !settings.quiet && waited >= TELL_NS {
            line(format_args!(
                "no front has its page at {path} yet: waiting for it (truechimer group front)"
            ));
            said = true;
        }
        kernel::sleep_ms(20);
    }
}

/// Does what can be done only when the program's memory is set up: the environment for programs
/// that this one executes.
fn set_environment(inherited: Option<i32>) {
    if let Some(process) = process() {
        if !process.inherit {
            forget_us();
        } else if process.kin_fd >= 0 || process.now {
            let socket = process.link.as_ref().map_or(-1, Link::socket);
            let family = Text::of(format_args!("{:016x}", process.family));
            let (kin, before) =
                (Text::of(format_args!("{}", process.kin_fd)), Text::of(format_args!("{socket}")));
            let variables = [
                (c"TRUECHIMER_GROUP_FAMILY", family.as_c_str()),
                (c"TRUECHIMER_GROUP_BEFORE", before.as_c_str()),
                (c"TRUECHIMER_GROUP_KIN", kin.as_c_str()),
            ];
            let [family, before, _] = variables;
            // SAFETY: called by the constructor only.
            unsafe {
                match process.now {
                    true => surroundings::set(&[family, before]),
                    false => surroundings::set(&variables),
                }
            }
        }
    }
    // The attachment of the program that this one was executed in place of.
    if let Some(fd) = inherited.filter(|fd| !is_ours(*fd) && is_unix_socket(*fd)) {
        kernel::close(fd);
    }
}

fn is_unix_socket(fd: c_int) -> bool {
    let option = |name: c_int| {
        let mut value: c_int = -1;
        let mut length = size_of::<c_int>() as libc::socklen_t;
        let (value_at, length_at) = ((&raw mut value) as i64, (&raw mut length) as i64);
        let arguments =
            [i64::from(fd), i64::from(libc::SOL_SOCKET), i64::from(name), value_at, length_at, 0];
        // SAFETY: places for an int and its length.
        unsafe { kernel::call(libc::SYS_getsockopt, arguments) };
        value
    };
    option(libc::SO_TYPE) == libc::SOCK_SEQPACKET && option(libc::SO_DOMAIN) == libc::AF_UNIX
}

/// Programs that this one executes run without this library.
fn forget_us() {
    let mut room = [0; 4096];
    let list = surroundings::get(c"LD_PRELOAD").map_or(&[][..], CStr::to_bytes);
    let rest = settings::without(list, b"libtruechimer_group.so", &mut room);
    // SAFETY: called by the constructor only.
    unsafe {
        match rest {
            Some(rest) if rest.is_empty() => surroundings::remove(c"LD_PRELOAD"),
            Some(rest) => surroundings::set(&[(c"LD_PRELOAD", rest)]),
            None => {}
        }
        surroundings::remove(c"TRUECHIMER_GROUP");
    }
}

unsafe extern "C" {
    static program_invocation_short_name: *const c_char;
}

fn program() -> &'static [u8] {
    // SAFETY: glibc sets it before any constructor runs, to a C string of the program's arguments.
    unsafe {
        match program_invocation_short_name.is_null() {
            true => &[],
            false => CStr::from_ptr(program_invocation_short_name).to_bytes(),
        }
    }
}

/// A path in a message.
struct Shown<'a>(&'a [u8]);

impl core::fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| out.write_str(chunk.valid()))
    }
}

extern "C" fn constructor() {
    let inherited = surroundings::get(c"TRUECHIMER_GROUP_BEFORE")
        .and_then(|text| text.to_str().ok()?.parse().ok())
        .filter(|fd: &i32| *fd >= 3);
    part();
    set_environment(inherited);
    crate::births::watch();
}

extern "C" fn destructor() {
    crate::input::end_of_process();
    if let Some(kin) = process().and_then(|process| process.kin) {
        kin.leave(kernel::pid());
    }
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;
