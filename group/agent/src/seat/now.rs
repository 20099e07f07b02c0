//! Readings of the time at present: any number at a time, by rounds that they share.
//!
//! Whoever has come before a round is proposed gets its value. The engine hands that out when a
//! majority has it.

use truechimer_group::{Agreed, Call, Event, Phase, Rejection, Round, Thread};
use truechimer_group_client::agent::Ticket;
use truechimer_group_client::link::{Answer, Outside};

use super::gate::Asked;
use super::{Seat, Turn};
use crate::clocks::Clocks;

/// Rounds that may be under way at a time; who comes then waits for the next.
const MOST_ROUNDS: u64 = 4;

/// A reading that waits.
struct Reader {
    ticket: Ticket,
    outside: Outside,
    /// When it came, by the physical clock, ns.
    since: i64,
}

/// All that wait.
#[derive(Default)]
pub(super) struct Now {
    /// Those that no round has been begun for.
    open: Vec<Reader>,
    /// Rounds under way, and for whom.
    rounds: Vec<(Thread, Vec<Reader>)>,
    /// First of the numbers that are used for them.
    first: u64,
}

impl Now {
    /// When each came, by the physical clock, ns.
    pub(super) fn since(&self) -> impl Iterator<Item = i64> {
        self.open.iter().chain(self.rounds.iter().flat_map(|(_, some)| some)).map(|one| one.since)
    }

    /// Number of readers that wait for no round yet.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes out those that are meant.
    fn take(&mut self, meant: impl Fn(&Reader) -> bool) -> Vec<Reader> {
        let lists = self.rounds.iter_mut().map(|(_, some)| some).chain([&mut self.open]);
        let mut taken = Vec::new();
        lists.for_each(|some| taken.extend(some.extract_if(.., |reader| meant(reader))));
        taken
    }

    /// Nothing comes of the rounds that are under way, which are returned: others are to be begun.
    /// What was proposed may come all the same, so that their numbers are not used again.
    pub(super) fn begin_anew(&mut self) -> Vec<Thread> {
        let former = std::mem::take(&mut self.rounds);
        if !former.is_empty() {
            self.first += MOST_ROUNDS;
        }
        let (threads, readers): (Vec<Thread>, Vec<_>) = former.into_iter().unzip();
        drop(self.open.splice(..0, readers.into_iter().flatten()));
        threads
    }

    /// True while some wait for a round that may be begun.
    pub(super) fn is_due(&self) -> bool {
        !self.open.is_empty() && (self.rounds.len() as u64) < MOST_ROUNDS
    }
}

impl Seat {
    /// Place of this member in the group, from 0; none for an observer.
    fn place(&self) -> Option<u8> {
        let mut universe = self.membership.group.universe.iter();
        universe.position(|member| *member == self.member)?.try_into().ok()
    }

    /// True for a thread whose readings are of the time at present.
    pub(super) fn is_now(&self, thread: Thread) -> bool {
        let member = |thread: Thread| thread.0 >> 40;
        let own = |place: u8| member(thread) == member(Thread::now(place, 0));
        thread.is_now() && self.place().is_some_and(own)
    }

    /// Somebody reads the time at present.
    pub(super) fn read_now(&mut self, ticket: Ticket, outside: Outside) {
        if outside == Outside::Fail && self.phase == Phase::Outside {
            self.door.complete(ticket, Err(Rejection::Outside));
            return;
        }
        self.now.open.push(Reader { ticket, outside, since: crate::sys::raw_ns() });
    }

    /// Begins a round for those that wait for none, if there may be one more.
    pub(super) fn begin_round(&mut self, clocks: &Clocks) {
        let (Some(place), true) = (self.place(), self.now.is_due()) else { return };
        let numbers = self.now.first..self.now.first + MOST_ROUNDS;
        let mut threads = numbers.map(|number| Thread::now(place, number));
        let is_free = |thread: &Thread| self.now.rounds.iter().all(|(other, _)| other != thread);
        if let Some(thread) = threads.find(is_free) {
            let readers = std::mem::take(&mut self.now.open);
            self.now.rounds.push((thread, readers));
            self.ask(Asked::Read { thread, call: Call::Group }, clocks);
        }
    }

    /// A round for the time at present has come to its end; others may begin.
    pub(super) fn end_round(
        &mut self,
        thread: Thread,
        result: Result<(Round, Agreed), Rejection>,
        turn: &Turn<'_>,
    ) {
        let at = self.now.rounds.iter().position(|(other, _)| *other == thread);
        let Some(at) = at else { return };
        match result {
            Ok((round, value)) => {
                for reader in self.now.rounds.swap_remove(at).1 {
                    self.door.complete(reader.ticket, Ok(Answer { value, round }));
                    let waited = crate::sys::raw_ns().saturating_sub(reader.since);
                    self.waits.add(crate::metrics::seconds(waited));
                }
            }
            Err(why @ (Rejection::Observer | Rejection::TooManyThreads | Rejection::Full)) => {
                let readers = self.now.rounds.swap_remove(at).1;
                self.reject(readers, why);
            }
            // It was the rounds of programs that are beside it that nothing comes of.
            Err(_) => self.begin_rounds_anew(turn.clocks),
        }
        self.begin_round(turn.clocks);
    }

    fn reject(&mut self, readers: Vec<Reader>, why: Rejection) {
        for reader in readers {
            self.door.complete(reader.ticket, Err(why));
        }
    }

    /// Gives up the rounds that are under way. Whoever waits for one gets a later one's value.
    pub(super) fn begin_rounds_anew(&mut self, clocks: &Clocks) {
        let threads = self.now.begin_anew();
        self.gate.forget(&threads);
        for thread in threads {
            self.engine.handle(clocks.read(), Event::Abandon { thread });
        }
    }

    /// None of them gets a value.
    pub(super) fn reject_now(&mut self, why: Rejection, clocks: &Clocks) {
        let readers = self.now.take(|_| true);
        self.reject(readers, why);
        self.begin_rounds_anew(clocks);
    }

    /// Nobody is there any more that has asked.
    pub(super) fn end_now(&mut self, clocks: &Clocks) {
        drop(self.now.take(|_| true));
        self.begin_rounds_anew(clocks);
    }

    /// Those that shall not wait outside the primary component.
    pub(super) fn fail_now(&mut self) {
        let readers = self.now.take(|reader| reader.outside == Outside::Fail);
        self.reject(readers, Rejection::Outside);
    }

    /// Nobody waits for that one any more.
    pub(super) fn abandon_now(&mut self, ticket: Ticket) {
        self.now.take(|reader| reader.ticket == ticket);
    }
}
