//! The slots' protocol and the agent's sleep under a model checker: all interleavings, and all
//! values that a weakly ordered machine may load, as far as the checker goes through them. Fences
//! and orders are also left out, one at a time, to see that the model finds what they are for.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Arc, Condvar, Mutex};
use truechimer_group_client::machine::{Side, Word};
use truechimer_group_client::slots::{Answered, Asked, Board, Found, Slot};

/// Parts of the memory ordering that are kept.
trait Policy: 'static {
    const THREAD_FENCE: bool = true;
    const AGENT_FENCE: bool = true;
    /// Of announcements.
    const RELEASE_BITS: bool = true;
    /// Of looking at them.
    const ACQUIRE_BITS: bool = true;
    /// Of submitting.
    const RELEASE_STORE: bool = true;
}

macro_rules! policy {
    ($name:ident $(, $part:ident)?) => {
        struct $name;
        impl Policy for $name {
            $(const $part: bool = false;)?
        }
    };
}
policy!(Whole);
policy!(NoThreadFence, THREAD_FENCE);
policy!(NoAgentFence, AGENT_FENCE);
policy!(NoReleaseBits, RELEASE_BITS);
policy!(NoAcquireBits, ACQUIRE_BITS);
policy!(NoReleaseStore, RELEASE_STORE);

struct ModelWord<P>(AtomicU64, PhantomData<P>);

fn kept(order: Ordering, keep: bool) -> Ordering {
    if keep { order } else { Ordering::Relaxed }
}

impl<P: Policy> Word for ModelWord<P> {
    fn new(value: u64) -> Self {
        ModelWord(AtomicU64::new(value), PhantomData)
    }

    fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, kept(order, P::RELEASE_STORE));
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.0.swap(value, kept(order, P::ACQUIRE_BITS))
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.0.fetch_or(bits, kept(order, P::RELEASE_BITS))
    }

    fn replace(&self, current: u64, new: u64, success: Ordering) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, Ordering::Relaxed)
    }

    fn fence(side: Side) {
        let keep = match side {
            Side::Thread => P::THREAD_FENCE,
            Side::Agent => P::AGENT_FENCE,
        };
        if keep {
            fence(Ordering::SeqCst);
        }
    }
}

/// Bed on which a sleeper waits: the kernel's part of a futex or an event counter.
#[derive(Default)]
struct Bed {
    count: Mutex<u64>,
    woken: Condvar,
}

impl Bed {
    fn wait_for_ring(&self) {
        let mut count = self.count.lock().unwrap();
        while *count == 0 {
            count = self.woken.wait(count).unwrap();
        }
        *count = 0;
    }

    fn ring(&self) {
        *self.count.lock().unwrap() += 1;
        self.woken.notify_all();
    }

    /// [`Bed::futex_wait`] up to where the kernel would let the thread sleep.
    fn lie_down(&self, still: impl Fn() -> bool) {
        let mut count = self.count.lock().unwrap();
        if still() {
            *count = 1;
        }
    }

    /// True if somebody lay down and nobody came to wake him.
    fn sleeps_on(&self) -> bool {
        *self.count.lock().unwrap() != 0
    }

    /// The kernel compares under its lock.
    fn futex_wait(&self, still: impl Fn() -> bool) {
        let count = self.count.lock().unwrap();
        if still() {
            drop(self.woken.wait(count).unwrap());
        }
    }

    fn futex_wake(&self) {
        *self.count.lock().unwrap() = 0;
        self.woken.notify_all();
    }
}

/// Two slots of one word of request and answer each.
struct Model<P> {
    board: Board<ModelWord<P>, 1>,
    slots: [Slot<ModelWord<P>, 1, 1>; 2],
    doorbell: Bed,
    beds: [Bed; 2],
}

impl<P: Policy> Model<P> {
    fn new() -> Arc<Model<P>> {
        Arc::new(Model {
            board: Board::new(),
            slots: [Slot::new(), Slot::new()],
            doorbell: Bed::default(),
            beds: [Bed::default(), Bed::default()],
        })
    }

    fn announce(&self, slot: usize) {
        if self.board.announce(slot) {
            self.doorbell.ring();
        }
    }

    /// A read as `Link::read` makes it; what is asked is answered with itself and 100.
    fn read(&self, index: usize, asked: u64) {
        let slot = &self.slots[index];
        let Some(claimed) = slot.claim(1) else { return };
        let ours = slot.submit(claimed, &[asked]);
        self.announce(index);
        loop {
            match slot.look(ours) {
                Found::Answer(words) => {
                    assert_eq!(words, [asked + 100], "another answer");
                    return;
                }
                Found::Lost => panic!("lost"),
                Found::Nothing => {}
            }
            if let Some(asleep) = slot.sleep(ours) {
                self.beds[index].futex_wait(|| slot.now() == asleep);
            }
        }
    }

    /// An agent that answers until it has seen so many ends of reads, sleeping in between.
    fn serve(&self, mut ends: usize) {
        while ends > 0 {
            ends -= self.look();
            if ends > 0 && self.board.sleep() {
                self.doorbell.wait_for_ring();
                self.board.wake();
            }
        }
    }

    fn look_until_one(&self) {
        while self.look() == 0 {
            loom::thread::yield_now();
        }
    }

    /// Looks once at what asks. How many reads were answered or given up.
    fn look(&self) -> usize {
        let mut ends = 0;
        for (_, bits) in self.board.take() {
            for index in (0..2).filter(|index| bits & 1 << index != 0) {
                let slot = &self.slots[index];
                match slot.asked() {
                    Asked::Request(seen, [asked]) => {
                        assert!(matches!(asked, 1..=9), "nobody asked that: {asked}");
                        match slot.answer(seen, &[asked + 100]) {
                            Answered::Found => ends += 1,
                            Answered::Wake => {
                                ends += 1;
                                self.beds[index].futex_wake();
                            }
                            Answered::Void => {}
                        }
                    }
                    Asked::Abandoned(seen) => {
                        assert!(slot.free(seen), "freed by somebody else");
                        ends += 1;
                    }
                    Asked::Nothing => {}
                }
            }
        }
        ends
    }
}

/// All interleavings.
fn check(model: impl Fn() + Sync + Send + 'static) {
    loom::model::Builder::new().check(model);
}

/// Those in which threads are interrupted at most so often.
fn check_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// One thread reads, the agent sleeps and is woken, and the thread is.
#[test]
fn a_read_is_answered_whoever_sleeps() {
    check_within(3, || {
        let model = Model::<Whole>::new();
        let agent = loom::thread::spawn({
            let model = model.clone();
            move || model.serve(1)
        });
        model.read(0, 1);
        agent.join().unwrap();
    });
}

/// Three reads by two threads, one slot used twice.
#[test]
fn several_reads_are_answered() {
    check_within(2, || {
        let model = Model::<Whole>::new();
        let agent = loom::thread::spawn({
            let model = model.clone();
            move || model.serve(3)
        });
        let other = loom::thread::spawn({
            let model = model.clone();
            move || model.read(1, 3)
        });
        model.read(0, 1);
        model.read(0, 2);
        other.join().unwrap();
        agent.join().unwrap();
    });
}

/// A thread asks once; an agent looks once and goes to sleep if there was nothing. Nobody waits,
/// as the checker cannot go on after a deadlock: it is looked at the end who would wait for ever.
fn one_look<P: Policy>() {
    check(|| {
        let model = Model::<P>::new();
        let agent = loom::thread::spawn({
            let model = model.clone();
            move || {
                // Whether it sleeps in the end. What keeps it awake it sees the second time.
                let looks = |_| model.look() == 1;
                !looks(()) && (model.board.sleep() || (!looks(()) && model.board.sleep()))
            }
        });
        let slot = &model.slots[0];
        let ours = slot.submit(slot.claim(1).unwrap(), &[1]);
        let rang = model.board.announce(0);
        let first = slot.look(ours);
        if first == Found::Nothing
            && let Some(asleep) = slot.sleep(ours)
        {
            model.beds[0].lie_down(|| slot.now() == asleep);
        }
        let asleep = agent.join().unwrap();
        assert!(!asleep || rang, "the agent sleeps and nobody rings");
        if asleep {
            model.look();
        }
        let answer = if first == Found::Nothing { slot.look(ours) } else { first };
        if answer == Found::Nothing {
            // The agent saw the announcement and not the request.
            panic!("a request was overlooked");
        }
        assert_eq!(answer, Found::Answer([101]), "another answer");
        assert!(!model.beds[0].sleeps_on(), "the thread sleeps and nobody wakes it");
    });
}

#[test]
fn nobody_sleeps_through_anything() {
    one_look::<Whole>();
}

#[test]
#[should_panic(expected = "nobody rings")]
fn it_takes_the_threads_fence() {
    one_look::<NoThreadFence>();
}

#[test]
#[should_panic(expected = "nobody rings")]
fn it_takes_the_agents_fence() {
    one_look::<NoAgentFence>();
}

#[test]
#[should_panic(expected = "nobody rings")]
fn it_takes_the_release_of_announcements() {
    one_look::<NoReleaseBits>();
}

#[test]
#[should_panic(expected = "nobody rings")]
fn it_takes_the_acquire_of_announcements() {
    one_look::<NoAcquireBits>();
}

/// A thread asks and looks until it has the answer, while an agent looks until it has answered.
fn one_answer<P: Policy>() {
    check_within(3, || {
        let model = Model::<P>::new();
        let agent = loom::thread::spawn({
            let model = model.clone();
            move || model.look_until_one()
        });
        let slot = &model.slots[0];
        let ours = slot.submit(slot.claim(1).unwrap(), &[1]);
        let _ = model.board.announce(0);
        let answer = loop {
            match slot.look(ours) {
                Found::Nothing => loom::thread::yield_now(),
                found => break found,
            }
        };
        assert_eq!(answer, Found::Answer([101]), "another answer");
        agent.join().unwrap();
    });
}

#[test]
fn an_answer_is_whole() {
    one_answer::<Whole>();
}

/// A thread gives up while the agent may be answering; then another uses the slot. The agent may
/// find the second thread's request by the first one's announcement.
fn given_up<P: Policy>() {
    check_within(2, || {
        let model = Model::<P>::new();
        let agent = loom::thread::spawn({
            let model = model.clone();
            move || model.look() + model.look()
        });
        let other = loom::thread::spawn({
            let model = model.clone();
            move || {
                let slot = &model.slots[0];
                let ours = slot.submit(slot.claim(2)?, &[2]);
                let _ = model.board.announce(0);
                Some(ours)
            }
        });
        let slot = &model.slots[0];
        let first = slot.claim(1).map(|claimed| slot.submit(claimed, &[1]));
        if let Some(ours) = first {
            let _ = model.board.announce(0);
            if slot.abandon(ours) {
                let _ = model.board.announce(0);
            } else {
                assert_eq!(slot.look(ours), Found::Answer([101]), "another answer");
            }
        }
        let other = other.join().unwrap();
        agent.join().unwrap();
        model.look();
        if let Some(ours) = other {
            assert_eq!(slot.look(ours), Found::Answer([102]), "another answer");
        }
        assert!(slot.claim(3).is_some(), "the slot is nobody's");
    });
}

#[test]
fn a_thread_may_give_up_at_any_time() {
    given_up::<Whole>();
}

/// A thread has given up, and its second announcement is late: the agent finds the next thread's
/// request in the slot before that has announced it.
fn found_early<P: Policy>() {
    check_within(3, || {
        let model = Model::<P>::new();
        let slot = &model.slots[0];
        let first = slot.submit(slot.claim(1).unwrap(), &[1]);
        let _ = model.board.announce(0);
        assert!(slot.abandon(first));
        assert_eq!(model.look(), 1);
        let agent = loom::thread::spawn({
            let model = model.clone();
            move || model.look_until_one()
        });
        let late = loom::thread::spawn({
            let model = model.clone();
            move || model.board.announce(0)
        });
        let ours = slot.submit(slot.claim(2).unwrap(), &[2]);
        let _ = model.board.announce(0);
        agent.join().unwrap();
        late.join().unwrap();
        assert_eq!(slot.look(ours), Found::Answer([102]), "another answer");
    });
}

#[test]
fn a_request_that_is_found_early_is_whole() {
    found_early::<Whole>();
}

#[test]
#[should_panic(expected = "another answer")]
fn it_takes_the_release_of_requests() {
    found_early::<NoReleaseStore>();
}
