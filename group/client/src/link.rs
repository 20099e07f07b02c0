//! The low level: one attachment to an agent, with reads that allocate nothing, take no lock,
//! leave `errno` alone and may be made from any context (signal handlers, children of a fork).

mod descriptor;
mod error;
mod waits;

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use truechimer_group::{Agreed, Call, Member, Mode, Order, Phase, Rejection, Round, Thread};

use crate::lead::Lead;
use crate::memory::{Began, Closed, Mapping, SLOTS, VERSION, missed_word, phase_of};
use crate::message::{self, Hello};
use crate::slots::{Control, Found, Slot, State};
use crate::sys;

use descriptor::Descriptor;
pub(crate) use error::MISSED;
pub use error::{ReadError, Refused, WhyRefused};
use waits::Vigil;
pub use waits::Waits;

/// Number of looks for an answer, unless told otherwise, before the thread sleeps: none. An answer
/// takes a turn of the ring, which is longer than going to sleep and being woken, and while a
/// thread spins the agent may lack the processor.
pub const SPIN: u32 = 0;

/// The longest sleep without a look whether the agent is still there, ns.
const SLICE: u64 = 100_000_000;
/// Longest time without a sign of life of an agent whose socket cannot be asked, ns.
const SILENCE: u64 = 10_000_000_000;
/// Longest time for a greeting, ns.
const GREETING: u64 = 5_000_000_000;

/// Fate of reads while the member is outside the primary component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outside {
    /// They wait until it is back.
    #[default]
    Wait,
    /// They fail.
    Fail,
    /// They wait. If part of the group's stream was missed meanwhile, they go on where the group's
    /// rounds are by then, and nobody is told ([`Rejection::Missed`] does not occur): for programs
    /// whose state does not depend on what they have read.
    Resume,
}

/// Purpose of an attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Role {
    /// Reads the clock and takes part in the group's messages: one per member.
    #[default]
    Program = 0,
    /// Reads the clock only: a preloaded library, a further process of the program.
    Reader = 1,
    /// Neither: asks for the status.
    Watcher = 2,
    /// Reads the clock for a moment, and goes ([`Closed::GaveWay`]) when a program comes that it does not
    /// belong to.
    Passing = 3,
}

/// With whom a program starts: until then its reads wait. Where members take checkpoints, and in the
/// passive mode, it starts with what its state or the log says, at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Together {
    /// With the programs of all live members, or those that have started within the time that the
    /// agents give (1 s).
    #[default]
    All,
    /// Start as soon as so many have started, itself counted (at most as many as the group has
    /// members, which the agent warns of): with 1 at once, with more however long it takes. 0 is as
    /// 1.
    Count(u8),
    /// No program: has only [`alone`](Thread::of_member) and [`shared`](Thread::shared) threads. One
    /// that reads by another all the same starts with that, as with [`All`](Together::All).
    Apart,
}

/// The byte that says that an attachment starts no program.
const APART: u8 = u8::MAX;

impl Together {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Together::All => 0,
            Together::Count(count) => count.clamp(1, APART - 1),
            Together::Apart => APART,
        }
    }

    pub(crate) fn of(byte: u8) -> Together {
        match byte {
            0 => Together::All,
            APART => Together::Apart,
            count => Together::Count(count),
        }
    }
}

/// Options of a read.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Number of looks for the answer before the thread sleeps (default [`SPIN`]).
    pub spin: u32,
    /// After how long a read fails, ns; none: never.
    pub patience_ns: Option<u64>,
    /// Choice for outside the primary component.
    pub outside: Outside,
    /// Is told what a read waits for that has waited for 2 s, and once more (none) when that read
    /// ends. It is called on the reading thread, maybe within a signal handler.
    pub note: Option<fn(Option<Waits>)>,
}

impl Default for How {
    fn default() -> How {
        How { spin: SPIN, patience_ns: None, outside: Outside::Wait, note: None }
    }
}

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The group's time.
    pub value: Agreed,
    /// Which of the thread's rounds it was.
    pub round: Round,
}

/// Where an agent's socket is, in the kernel's form.
#[derive(Clone, Copy)]
pub struct Address(libc::sockaddr_un);

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<u8> =
            self.0.sun_path.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
        write!(out, "Address({})", String::from_utf8_lossy(&path))
    }
}

/// Identity with which one attaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct As {
    /// Purpose of the attachment.
    pub role: Role,
    /// To which family of processes it belongs; 0: to a new one.
    pub family: u64,
    /// With whom its program starts, if it is the first of its family.
    pub together: Together,
}

/// Words of the agent at the attachment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// Which member this is.
    pub member: Member,
    /// The family of processes; children that attach by themselves (after `exec`) name it.
    pub family: u64,
    /// The group's mode.
    pub mode: Mode,
    /// The group's order.
    pub order: Order,
}

/// One attachment.
///
/// After a fork the child may use it as well. Dropping it takes the memory away: who uses one from
/// signal handlers keeps it for ever (in a `static`).
pub struct Link {
    memory: Mapping,
    doorbell: Descriptor,
    socket: Descriptor,
    address: Address,
    welcome: Welcome,
}

impl Address {
    /// The address of a path; none if it is longer than 107 bytes.
    #[must_use]
    pub fn of(path: &Path) -> Option<Address> {
        let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as _, sun_path: [0; 108] };
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() || bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
            return None;
        }
        address.sun_path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as _);
        Some(Address(address))
    }

    /// A socket that is connected to it.
    pub(crate) fn connect(&self) -> Result<i32, Refused> {
        let socket = sys::socket().map_err(|error| Refused::System("socket", error))?;
        let until = sys::monotonic() + GREETING;
        loop {
            let refused = match sys::connect(socket, &self.0) {
                Ok(()) => return Ok(socket),
                Err(libc::EINTR) => continue,
                // Its queue is full: it has other things to do.
                Err(libc::EAGAIN) if sys::monotonic() < until => {
                    sys::nap(5_000_000);
                    continue;
                }
                Err(libc::EAGAIN) => Refused::Silent,
                Err(libc::ENOENT | libc::ENOTDIR | libc::ECONNREFUSED) => Refused::NoAgent,
                Err(libc::EACCES | libc::EPERM) => Refused::NotPermitted,
                Err(libc::EPROTOTYPE) => Refused::Malformed,
                Err(error) => Refused::System("connect", error),
            };
            sys::close(socket);
            return Err(refused);
        }
    }
}

/// Greets the agent: its welcome, and the descriptors that came with it (−1: none).
pub(crate) fn greet(socket: i32, as_: As) -> Result<(Welcome, [i32; 4]), Refused> {
    let As { role, family, together } = as_;
    let hello = Hello { version: VERSION, role, family, together };
    sys::send(socket, &hello.packet(), &[]).map_err(|error| match error {
        libc::EPIPE | libc::ECONNRESET => Refused::NoAgent,
        error => Refused::System("sendmsg", error),
    })?;
    let until = sys::monotonic() + GREETING;
    let mut packet = [0; 64];
    let mut descriptors = [-1; 4];
    loop {
        match sys::receive(socket, &mut packet, &mut descriptors) {
            Ok(received) => {
                let taken = descriptors.iter_mut().skip(received.descriptors);
                taken.for_each(|descriptor| *descriptor = -1);
                let welcome = match packet.get(..received.length) {
                    _ if received.length == 0 => Err(Refused::NoAgent),
                    Some(packet) if !received.cut => match message::greeting(packet) {
                        Ok(Ok(welcome)) => Ok(welcome),
                        Ok(Err((why, version, process))) => {
                            Err(Refused::ByAgent { why, version, process })
                        }
                        Err(_) => Err(Refused::Malformed),
                    },
                    _ => Err(Refused::Malformed),
                };
                if welcome.is_err() {
                    close_all(&descriptors);
                }
                return welcome.map(|welcome| (welcome, descriptors));
            }
            Err(libc::EAGAIN) => {
                let now = sys::monotonic();
                if now >= until {
                    return Err(Refused::Silent);
                }
                let _ = sys::poll(socket, libc::POLLIN, Some(until - now));
            }
            Err(libc::EINTR) => {}
            Err(libc::ECONNRESET) => return Err(Refused::NoAgent),
            Err(error) => return Err(Refused::System("recvmsg", error)),
        }
    }
}

fn close_all(descriptors: &[i32]) {
    descriptors.iter().filter(|number| **number >= 0).for_each(|number| sys::close(*number));
}

impl Link {
    /// Attaches to the agent that listens there. Allocates nothing.
    ///
    /// # Errors
    /// See [`Refused`]. It waits at most some seconds for an agent that does not answer.
    pub fn attach(address: &Address, as_: As) -> Result<Link, Refused> {
        let socket = address.connect()?;
        let greeted = greet(socket, as_).and_then(|(welcome, descriptors)| {
            let [memory, doorbell, more @ ..] = descriptors;
            close_all(&more);
            let mapping = match memory >= 0 && doorbell >= 0 {
                true => Mapping::of(memory).map_err(|error| match error {
                    libc::EINVAL => Refused::Malformed,
                    error => Refused::System("mmap", error),
                }),
                false => Err(Refused::Malformed),
            };
            close_all(&[memory]);
            match mapping {
                Ok(mapping) if mapping.known() => Ok((welcome, mapping, doorbell)),
                other => {
                    close_all(&[doorbell]);
                    Err(other.err().unwrap_or(Refused::Malformed))
                }
            }
        });
        match greeted {
            Ok((welcome, memory, doorbell)) => Ok(Link {
                memory,
                doorbell: Descriptor::of(doorbell),
                socket: Descriptor::of(socket),
                address: *address,
                welcome,
            }),
            Err(refused) => {
                sys::close(socket);
                Err(refused)
            }
        }
    }

    /// Reads the group's clock: one round of that thread. It sleeps until the group has agreed,
    /// or as long as `how` says. Allocates nothing, takes no lock, does not touch `errno`.
    ///
    /// A signal handler that interrupts a read and reads by the same thread's number is rejected
    /// as [`Rejection::Busy`]: it takes a number of its own, which is no other replica's
    /// ([`Link::own_thread`]).
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(&self, thread: Thread, call: Call, how: &How) -> Result<Answer, ReadError> {
        let until = how.patience_ns.map(|ns| sys::monotonic().saturating_add(ns));
        let mut vigil = Vigil { link: self, note: how.note, since: None, said: false };
        loop {
            let read = self.read_once(thread, call, how, until, &mut vigil);
            if read != Err(ReadError::Rejected(Rejection::Outside)) || how.outside == Outside::Fail
            {
                return read;
            }
            self.await_phase(until, &mut vigil)?;
        }
    }

    fn read_once(
        &self,
        thread: Thread,
        call: Call,
        how: &How,
        until: Option<u64>,
        vigil: &mut Vigil<'_>,
    ) -> Result<Answer, ReadError> {
        let (slot, index, claimed) = self.claim(thread, until)?;
        let ours = slot.submit(claimed, &message::request_words(thread, call, how.outside));
        self.announce(index);
        let taken = |words| {
            let answer = message::answer(&words).map_err(|_| ReadError::Damaged)?;
            answer.map_err(ReadError::Rejected)
        };
        for _ in 0..how.spin {
            match slot.look(ours) {
                Found::Nothing => std::hint::spin_loop(),
                Found::Answer(words) => return taken(words),
                Found::Lost => return Err(self.lost()),
            }
        }
        loop {
            match slot.look(ours) {
                Found::Answer(words) => return taken(words),
                Found::Lost => return Err(self.lost()),
                Found::Nothing => {}
            }
            if self.memory.why_closed().is_some() {
                return Err(ReadError::Gone);
            }
            let left = left(until);
            if left == Some(0) {
                if slot.abandon(ours) {
                    self.announce(index);
                    return Err(ReadError::Late);
                }
                // The answer has come just now, or the slot is lost: the next look says which.
                continue;
            }
            let Some(asleep) = slot.sleep(ours) else { continue };
            let slice = left.unwrap_or(SLICE).min(SLICE);
            let late = sys::futex_wait(slot.control(), asleep.low(), slice);
            if late {
                vigil.slept();
            }
            if late && slice == SLICE && slot.now() == asleep && !self.stands() {
                return Err(ReadError::Gone);
            }
        }
    }

    /// A slot for a request. Threads begin to look for one in different places.
    fn claim(
        &self,
        thread: Thread,
        until: Option<u64>,
    ) -> Result<(&Slot<std::sync::atomic::AtomicU64>, usize, Control), ReadError> {
        let owner = sys::process();
        let first = first_slot(thread, owner);
        loop {
            if self.memory.why_closed().is_some() {
                return Err(ReadError::Gone);
            }
            for index in (first..SLOTS).chain(0..first) {
                if let Some(slot) = self.memory.slots.get(index)
                    && let Some(claimed) = slot.claim(owner)
                {
                    return Ok((slot, index, claimed));
                }
            }
            if left(until) == Some(0) {
                return Err(ReadError::Full);
            }
            if !self.stands() {
                return Err(ReadError::Gone);
            }
            sys::nap(1_000_000);
        }
    }

    fn announce(&self, index: usize) {
        if self.memory.board.announce(index) {
            self.ring();
        }
    }

    /// Wakes the agent. If the program has closed our descriptor, by knocking at the agent's door:
    /// it looks at all slots when somebody connects.
    fn ring(&self) {
        if self.doorbell.is_ours() && sys::ring(self.doorbell.number).is_ok() {
            return;
        }
        if let Ok(socket) = self.address.connect() {
            sys::close(socket);
        }
    }

    fn lost(&self) -> ReadError {
        match self.memory.why_closed() {
            Some(_) => ReadError::Gone,
            None => ReadError::Damaged,
        }
    }

    /// Waits until the member is no longer outside.
    fn await_phase(&self, until: Option<u64>, vigil: &mut Vigil<'_>) -> Result<(), ReadError> {
        loop {
            let word = self.memory.phase.load(Acquire);
            if self.memory.why_closed().is_some() {
                return Err(ReadError::Gone);
            }
            let left = left(until);
            if left == Some(0) {
                return Err(ReadError::Late);
            }
            if phase_of(word & 3) == Some(Phase::Live) {
                // It is back already, or the agent contradicts itself: not too fast, then.
                sys::nap(1_000_000);
                return Ok(());
            }
            let slice = left.unwrap_or(SLICE).min(SLICE);
            let late = sys::futex_wait(&self.memory.phase, word as u32, slice);
            if late {
                vigil.slept();
            }
            if late && self.memory.phase.load(Relaxed) == word && !self.stands() {
                return Err(ReadError::Gone);
            }
        }
    }

    /// Words of the agent at the attachment.
    #[must_use]
    pub fn welcome(&self) -> Welcome {
        self.welcome
    }

    /// Where the member stands; none once the agent has closed the link.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        match self.memory.why_closed() {
            None => phase_of(self.memory.phase.load(Acquire) & 3),
            Some(_) => None,
        }
    }

    /// A thread whose rounds no other member keeps: for reads that are not the same everywhere.
    #[must_use]
    pub fn own_thread(&self, hash: u64) -> Thread {
        Thread::of_member(self.memory.place.load(Relaxed) as u8, hash)
    }

    /// The thread of readings of the time at present: of any number at a time, each in a round that
    /// was begun after it, and done when a majority has the value.
    #[must_use]
    pub fn now_thread(&self) -> Thread {
        Thread::now(self.memory.place.load(Relaxed) as u8, 0)
    }

    /// Start of the program; from its first read on [`Began::Late`] at the attachment only that
    /// made it.
    #[must_use]
    pub fn began(&self) -> Began {
        self.memory.began()
    }

    /// The primary, and why.
    #[must_use]
    pub fn lead(&self) -> Lead {
        self.memory.lead.get()
    }

    /// Number of times that this program has missed part of the group's stream, as the agent has
    /// it.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.memory.missed.load(Acquire) >> 1
    }

    /// True if the agent waits for a sign that this program knows of that gap.
    #[must_use]
    pub fn is_unsettled(&self, gap: u64) -> bool {
        self.memory.missed.load(Acquire) == missed_word(gap, true)
    }

    /// Waits for a moment that the agent no longer does. False if it is gone.
    pub(crate) fn await_settled(&self, gap: u64) -> bool {
        let late = sys::futex_wait(&self.memory.missed, missed_word(gap, true) as u32, SLICE);
        self.memory.why_closed().is_none() && (!late || self.stands())
    }

    /// Reason why the agent has closed the link, if it has. An agent that was killed has not.
    #[must_use]
    pub fn closed(&self) -> Option<Closed> {
        self.memory.why_closed()
    }

    /// True if the agent is there and has not cut this program off. Takes a system call or two.
    #[must_use]
    pub fn stands(&self) -> bool {
        if self.memory.why_closed().is_some() {
            return false;
        }
        if self.socket.is_ours() {
            let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
            return sys::poll(self.socket.number, 0, Some(0)).is_ok_and(|has| has & gone == 0);
        }
        // The program has closed our descriptor.
        sys::monotonic().saturating_sub(self.beat()) < SILENCE
    }

    /// Newest sign of life of the agent (`CLOCK_MONOTONIC`, ns): one a second, whatever its disk and
    /// the ring do.
    #[must_use]
    pub fn beat(&self) -> u64 {
        self.memory.heartbeat.load(Relaxed)
    }

    /// The control socket; not for a preloaded library to use.
    #[must_use]
    pub fn socket(&self) -> i32 {
        self.socket.number
    }

    /// Number of slots in use, for tests and the curious.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let free = |slot: &&Slot<_>| slot.now().state() != Some(State::Free);
        self.memory.slots.iter().filter(free).count()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.doorbell.close();
        self.socket.close();
    }
}

fn left(until: Option<u64>) -> Option<u64> {
    until.map(|until| until.saturating_sub(sys::monotonic()))
}

/// Slot that a thread looks at first. Readings of the time at present are of one number, whichever
/// thread and process reads: these begin by where its stack is.
fn first_slot(thread: Thread, owner: u32) -> usize {
    let frame = 0_u8;
    let stack = (&raw const frame).addr() as u64 >> 12;
    let mixed = (stack ^ u64::from(owner) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    let spread = if thread.is_now() { mixed } else { 0 };
    (thread.0.wrapping_add(spread) % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_read_by_one_number_begin_in_different_places() {
        let all = Barrier::new(32);
        let firsts = |thread: Thread, owner: u32| -> BTreeSet<usize> {
            std::thread::scope(|scope| {
                let first = || {
                    all.wait();
                    let first = first_slot(thread, owner);
                    all.wait();
                    first
                };
                let threads: Vec<_> = (0..32).map(|_| scope.spawn(first)).collect();
                threads.into_iter().map(|one| one.join().expect("no panic")).collect()
            })
        };
        let now = firsts(Thread::now(0, 0), 7);
        assert!(now.len() > 16 && now.iter().all(|first| *first < SLOTS), "{now:?}");
        assert_eq!(firsts(Thread(1234), 7), BTreeSet::from([1234 % SLOTS]));
        let of_forks: BTreeSet<usize> =
            (0..32).map(|owner| first_slot(Thread::now(0, 0), owner)).collect();
        assert!(of_forks.len() > 16, "{of_forks:?}");
    }
}
