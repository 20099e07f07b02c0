//! The slots' protocol: how a read gets from a thread to the agent and its answer back, and how
//! the agent is woken if it sleeps. No system calls here: those are [`crate::link`]'s and the
//! agent's.
//!
//! A slot is owned by whoever its state says:
//!
//! | state | whose | what comes next |
//! |---|---|---|
//! | free | anyone's | a thread claims it |
//! | claimed | the thread's | it writes its request, then says pending |
//! | pending, asleep | the agent's | it writes the answer, then says answered; asleep: and wakes |
//! | answered | the thread's | it reads the answer, then says free |
//! | abandoned | the agent's | it says free |
//!
//! All changes but the first store of a request are by compare-and-swap on the whole control word
//! (state, serial number, owner), so that whoever has lost a slot finds out.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::machine::{Side, Word};

/// Words of a request after the control word.
pub const REQUEST: usize = 7;
/// Words of an answer.
pub const ANSWER: usize = 8;

const STATE_BITS: u32 = 3;
const STATE: u64 = (1 << STATE_BITS) - 1;
const SERIAL_BITS: u32 = 29;
const SERIAL: u64 = (1 << SERIAL_BITS) - 1;

/// State of a slot: whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Anyone's.
    Free = 0,
    /// A thread's that writes its request.
    Claimed = 1,
    /// The agent's; the thread looks for the answer.
    Pending = 2,
    /// The agent's; the thread sleeps.
    Asleep = 3,
    /// The thread's, with the answer.
    Answered = 4,
    /// The agent's, for a thread that has given up.
    Abandoned = 5,
}

/// A control word: state (bits 0–2), serial number of the use (3–31), owner's process (32–63).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control(pub u64);

impl Control {
    /// Of its parts.
    #[must_use]
    pub fn new(state: State, serial: u32, owner: u32) -> Control {
        let serial = (u64::from(serial) & SERIAL) << STATE_BITS;
        Control(state as u64 | serial | (u64::from(owner) << 32))
    }

    /// State of the slot; none if the word is none that the protocol knows.
    #[must_use]
    pub fn state(self) -> Option<State> {
        Some(match self.0 & STATE {
            0 => State::Free,
            1 => State::Claimed,
            2 => State::Pending,
            3 => State::Asleep,
            4 => State::Answered,
            5 => State::Abandoned,
            _ => return None,
        })
    }

    /// The how-manieth use it is, modulo 2²⁹.
    #[must_use]
    pub fn serial(self) -> u32 {
        ((self.0 >> STATE_BITS) & SERIAL) as u32
    }

    /// The process identifier of the owner, as that process sees it.
    #[must_use]
    pub fn owner(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The half that a futex looks at.
    #[must_use]
    pub fn low(self) -> u32 {
        self.0 as u32
    }

    /// Control word of the same use in another state.
    #[must_use]
    pub fn with(self, state: State) -> Control {
        Control((self.0 & !STATE) | state as u64)
    }

    fn is(self, other: Control) -> bool {
        self.0 | STATE == other.0 | STATE
    }
}

/// One slot: two cache lines, the first written by the thread, the second by the agent.
#[repr(C, align(128))]
pub struct Slot<W, const R: usize = REQUEST, const A: usize = ANSWER> {
    control: W,
    request: [W; R],
    answer: [W; A],
}

/// State in which a thread finds the slot of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found<const A: usize = ANSWER> {
    /// No answer yet.
    Nothing,
    /// The answer.
    Answer([u64; A]),
    /// The slot is no longer this request's: somebody else has had his hands in.
    Lost,
}

/// State in which the agent finds a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked<const R: usize = REQUEST> {
    /// A request.
    Request(Control, [u64; R]),
    /// A request given up.
    Abandoned(Control),
    /// Nothing for the agent.
    Nothing,
}

/// Fate of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// The thread will find it.
    Found,
    /// The thread sleeps: wake it.
    Wake,
    /// Nobody waits for it.
    Void,
}

impl<W: Word, const R: usize, const A: usize> Slot<W, R, A> {
    /// A free slot.
    #[must_use]
    pub fn new() -> Self {
        Slot {
            control: W::new(0),
            request: core::array::from_fn(|_| W::new(0)),
            answer: core::array::from_fn(|_| W::new(0)),
        }
    }

    /// The control word, for the futex.
    #[must_use]
    pub fn control(&self) -> &W {
        &self.control
    }

    /// The control word's value.
    #[must_use]
    pub fn now(&self) -> Control {
        Control(self.control.load(Relaxed))
    }

    fn change(&self, from: Control, to: State) -> bool {
        self.control.replace(from.0, from.with(to).0, AcqRel).is_ok()
    }

    /// A thread takes the slot if it is free.
    #[must_use]
    pub fn claim(&self, owner: u32) -> Option<Control> {
        let now = self.now();
        if now.state() != Some(State::Free) {
            return None;
        }
        let ours = Control::new(State::Claimed, now.serial().wrapping_add(1), owner);
        self.control.replace(now.0, ours.0, Acquire).ok().map(|_| ours)
    }

    /// A thread that has claimed the slot writes its request. [`Board::announce`] must follow.
    #[must_use]
    pub fn submit(&self, claimed: Control, request: &[u64; R]) -> Control {
        for (word, value) in self.request.iter().zip(request) {
            word.store(*value, Relaxed);
        }
        let pending = claimed.with(State::Pending);
        self.control.store(pending.0, Release);
        pending
    }

    /// A thread looks for its answer. With it the slot is free again.
    #[must_use]
    pub fn look(&self, ours: Control) -> Found<A> {
        let now = Control(self.control.load(Acquire));
        match now.state() {
            _ if !now.is(ours) => Found::Lost,
            Some(State::Answered) => {
                let answer = core::array::from_fn(|i: usize| {
                    self.answer.get(i).map_or(0, |word| word.load(Relaxed))
                });
                // If that fails, a copy of this thread (a fork in a signal handler) was faster.
                if self.change(now, State::Free) { Found::Answer(answer) } else { Found::Lost }
            }
            Some(State::Pending | State::Asleep) => Found::Nothing,
            _ => Found::Lost,
        }
    }

    /// A thread says that it goes to sleep until the control word changes from what is returned.
    /// None: it must look first.
    #[must_use]
    pub fn sleep(&self, ours: Control) -> Option<Control> {
        let (pending, asleep) = (ours.with(State::Pending), ours.with(State::Asleep));
        match self.control.replace(pending.0, asleep.0, Relaxed) {
            Ok(_) => Some(asleep),
            Err(now) if now == asleep.0 => Some(asleep),
            Err(_) => None,
        }
    }

    /// A thread gives up. [`Board::announce`] must follow. False if the answer is there.
    #[must_use]
    pub fn abandon(&self, ours: Control) -> bool {
        self.change(ours.with(State::Asleep), State::Abandoned)
            || self.change(ours.with(State::Pending), State::Abandoned)
    }

    /// The agent looks what a slot asks for. The words are whatever the other side has written.
    #[must_use]
    pub fn asked(&self) -> Asked<R> {
        let now = Control(self.control.load(Acquire));
        match now.state() {
            Some(State::Pending | State::Asleep) => {
                let request = core::array::from_fn(|i: usize| {
                    self.request.get(i).map_or(0, |word| word.load(Relaxed))
                });
                Asked::Request(now, request)
            }
            Some(State::Abandoned) => Asked::Abandoned(now),
            _ => Asked::Nothing,
        }
    }

    /// The agent answers the request that it saw.
    #[must_use]
    pub fn answer(&self, seen: Control, answer: &[u64; A]) -> Answered {
        if !self.now().is(seen) {
            return Answered::Void;
        }
        // If the thread gives up now these words are nobody's, and stay so until we free the slot.
        for (word, value) in self.answer.iter().zip(answer) {
            word.store(*value, Relaxed);
        }
        if self.change(seen.with(State::Pending), State::Answered) {
            return Answered::Found;
        }
        if self.change(seen.with(State::Asleep), State::Answered) {
            return Answered::Wake;
        }
        Answered::Void
    }

    /// The agent frees a slot that it saw abandoned, or whose owner is dead. False if it has
    /// changed since.
    #[must_use]
    pub fn free(&self, seen: Control) -> bool {
        self.change(seen, State::Free)
    }
}

impl<W: Word, const R: usize, const A: usize> Default for Slot<W, R, A> {
    fn default() -> Self {
        Slot::new()
    }
}

/// Means by which the agent finds the slots that ask for something, and by which it is woken.
#[repr(C, align(128))]
pub struct Board<W, const WORDS: usize> {
    sleeping: W,
    spare: [W; 15],
    active: [W; WORDS],
}

impl<W: Word, const WORDS: usize> Board<W, WORDS> {
    /// A board without requests, of an agent that is awake.
    #[must_use]
    pub fn new() -> Self {
        Board {
            sleeping: W::new(0),
            spare: core::array::from_fn(|_| W::new(0)),
            active: core::array::from_fn(|_| W::new(0)),
        }
    }

    /// A thread says that a slot asks for something. True: the agent sleeps, ring the doorbell.
    ///
    /// The fence and that of [`Board::sleep`] make sure that the thread sees the agent sleeping,
    /// or the agent sees the slot, or both.
    #[must_use]
    pub fn announce(&self, slot: usize) -> bool {
        if let Some(word) = self.active.get(slot / 64) {
            word.fetch_or(1 << (slot % 64), Release);
        }
        W::fence(Side::Thread);
        // Only loaded: a thread that took the flag and died before it rang would leave the agent
        // asleep for all.
        self.sleeping.load(Relaxed) != 0
    }

    /// True if any slot asks for something.
    #[must_use]
    pub fn rung(&self) -> bool {
        self.active.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// The agent says that it goes to sleep. False: something is there, and it is awake.
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.sleeping.store(1, Relaxed);
        W::fence(Side::Agent);
        if self.rung() {
            self.wake();
            return false;
        }
        true
    }

    /// The agent says that it is awake.
    pub fn wake(&self) {
        self.sleeping.store(0, Relaxed);
    }

    /// The agent takes the slots that ask for something, 64 at a time: the lowest one's number,
    /// and one bit for each.
    pub fn take(&self) -> impl Iterator<Item = (usize, u64)> {
        self.active.iter().enumerate().filter_map(|(i, word)| {
            let bits = match word.load(Relaxed) {
                0 => 0,
                _ => word.swap(0, Acquire),
            };
            (bits != 0).then_some((i * 64, bits))
        })
    }
}

impl<W: Word, const WORDS: usize> Default for Board<W, WORDS> {
    fn default() -> Self {
        Board::new()
    }
}
