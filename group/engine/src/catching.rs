//! A newcomer: it gathers the state, queues the messages since its join, takes the state over and
//! makes up for them.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::event::{Action, Notice, Refusal, Rejection};
use crate::joining::Joined;
use crate::message::{Checkpoint, Entry, LONGEST_PART, MOST_MEMBERS, MOST_PARTS, Message, Part};
use crate::state::State;
use crate::types::{Member, Mode, Phase, Point};
use crate::view::View;
use crate::wire;

/// A newcomer queues at most this many bytes of messages while it waits for the state.
const LONGEST_QUEUE: usize = 128 << 20;

/// And gathers at most this many bytes of states, from all senders.
const MOST_GATHERED: usize = MOST_PARTS as usize * LONGEST_PART;

/// State that a newcomer gathers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Catching {
    /// The state must have been taken here.
    at: u64,
    /// The messages since, each with its place.
    queue: Vec<(Member, u64, Option<Message>)>,
    queued: usize,
    /// Parts of the state, by sender: the next part, and the bytes so far.
    parts: BTreeMap<Member, (u32, Vec<u8>)>,
}

impl Catching {
    pub(crate) fn new(at: u64) -> Catching {
        Catching { at, queue: Vec::new(), queued: 0, parts: BTreeMap::new() }
    }
}

impl Engine {
    /// A message of the stream at a member that is not live.
    pub(crate) fn listen(&mut self, from: Member, message: Option<Message>) {
        let at = self.place.mark;
        let mut caught = false;
        let mut whole = None;
        let mut message = message;
        if let Some(message) = &mut message {
            let incarnation = message.incarnation;
            if message.point != Point::default() {
                // It is live: whatever it asked for earlier was granted.
                self.place.joins.remove(&from);
            }
            for entry in &mut message.entries {
                match entry {
                    Entry::Join(join) => {
                        let admitted = self.place.admitted.get(&from);
                        if admitted.is_some_and(|&(life, number)| {
                            life == incarnation && join.number <= number
                        }) {
                            continue;
                        }
                        self.hear(from, join.report);
                        let joined = Joined { incarnation, at, join: join.clone() };
                        if self.place.joins.len() < MOST_MEMBERS {
                            self.place.joins.insert(from, joined);
                        }
                        if from == self.own.member && incarnation == self.own.incarnation {
                            self.outbox.joining = None;
                            self.counts.joins_heard += 1;
                            caught |= join.number == self.outbox.number() && self.place.admits();
                        }
                    }
                    Entry::State(part) => whole = self.gather(from, part).or(whole),
                    Entry::User(user) => self.disown(from, incarnation, user.token),
                    _ => {}
                }
            }
        }
        if caught {
            self.catching = Some(Catching::new(at));
            self.outbox.catches(self.now.physical);
            self.outbox.join = None;
        } else if let Some(catching) = &mut self.catching {
            let size = message.as_ref().map_or(0, weight);
            catching.queued = catching.queued.saturating_add(size + 64);
            catching.queue.push((from, at, message));
            if catching.queued > LONGEST_QUEUE {
                self.consider_joining();
            }
        }
        match whole {
            Some(bytes) => self.install(&bytes),
            None => self.resume(),
        }
    }

    /// A message of ours came back when we were not live: nobody has taken it.
    pub(crate) fn disown(&mut self, from: Member, incarnation: u64, token: u64) {
        if from == self.own.member && incarnation == self.own.incarnation {
            self.act(Action::Refused { token, why: Refusal::Outside });
        }
    }

    /// A part of a state at a member that is not live: the whole, if it is the last one for us.
    fn gather(&mut self, from: Member, part: &mut Part) -> Option<Vec<u8>> {
        let bytes = std::mem::take(&mut part.bytes);
        let joined = self.place.joins.get(&part.joiner);
        let fits = joined.is_some_and(|it| it.answers(part)) && self.group.counts(from);
        if part.joiner == self.own.member {
            *if fits { &mut self.counts.parts } else { &mut self.counts.parts_unfit } += 1;
        }
        let Some(joined) = joined.filter(|_| fits) else {
            // Whoever sent it may have let us in by this number: it must not be taken for an old
            // one that comes late when we ask again.
            let ours = (self.own.member, self.own.incarnation, self.outbox.number());
            if (part.joiner, part.incarnation, part.number) == ours && self.group.counts(from) {
                self.outbox.let_in(part.number);
            }
            return None;
        };
        let last = part.part + 1 == part.parts;
        if last {
            let admitted = (joined.incarnation, part.number);
            self.place.admitted.insert(part.joiner, admitted);
            self.place.joins.remove(&part.joiner);
        }
        if part.joiner != self.own.member {
            return None;
        }
        if last {
            // Whatever becomes of it here, the others have let us in by this number.
            self.outbox.let_in(part.number);
        }
        let Some(catching) = self.catching.as_mut().filter(|catching| catching.at == part.at)
        else {
            if last {
                // Let in, though we no longer wanted it.
                self.outbox.leaving = true;
            }
            return None;
        };
        self.outbox.catches(self.now.physical);
        if part.part == 0 {
            catching.parts.remove(&from);
        }
        let gathered: usize = catching.parts.values().map(|(_, bytes)| bytes.len()).sum();
        let (next, so_far) = catching.parts.entry(from).or_default();
        if gathered + bytes.len() > MOST_GATHERED {
            // Too many send at once: this one does not come to an end.
            *so_far = Vec::new();
            *next = u32::MAX;
        }
        if part.part == *next {
            so_far.extend_from_slice(&bytes);
            *next += 1;
        }
        last.then(|| catching.parts.remove(&from).map(|(_, bytes)| bytes).unwrap_or_default())
    }

    /// The state is complete: takes it over, and what came since.
    fn install(&mut self, bytes: &[u8]) {
        let Some(catching) = self.catching.take() else { return };
        let transfer = match wire::decode_transfer(bytes) {
            Ok(transfer) => transfer,
            Err(broken) => {
                let (from, what) = (self.own.member, broken.what());
                self.notice(Notice::Malformed { from, what });
                return self.consider_joining();
            }
        };
        let before = self.clone();
        let state = State::restore(&self.group, transfer.snapshot);
        self.commits.enter(&state);
        self.commits.entered = state.point;
        self.commits.established = 0;
        self.counts.gaps += 1;
        let mut view = View::new(self.now.physical, state.last);
        view.steer(self.now.physical, state.steering.rate_ppb);
        self.view = Some(view);
        self.guess = false;
        let checkpoint = transfer.checkpoint.is_some();
        match transfer.checkpoint {
            Some(Checkpoint { data, position, values }) => {
                self.threads.install(&position, &values, &state, self.own.buffer);
                self.installing = true;
                self.act(Action::InstallCheckpoint { data, position });
            }
            None => self.go_on_here(),
        }
        // Not those that were heard here: somebody's request may not have come here.
        self.place.joins = transfer.joins.into_iter().collect();
        // A late copy of the join of one that is live is none.
        self.place.joins.retain(|&member, joined| !state.lives(member, joined.incarnation));
        let again = self.state.replace(state).is_some();
        self.replay(catching);
        if self.state.as_ref().is_none_or(|it| !it.lives(self.own.member, self.own.incarnation)) {
            // Whoever sent it had left by then: it is nobody's state, and nothing of it is told.
            *self = before;
            return self.consider_joining();
        }
        if checkpoint {
            self.threads.caught_up();
        } else {
            self.go_on_here();
        }
        self.go_live();
        if again && self.group.mode == Mode::Passive && !self.is_first() {
            // It was the primary: another has the work now, and its rounds.
            for thread in std::mem::take(&mut self.threads.waiting) {
                self.threads.reject(thread);
                self.act(Action::Reject { thread, why: Rejection::Outside });
            }
        }
    }

    /// The messages since our join, as if we had been live.
    fn replay(&mut self, mut catching: Catching) {
        let here = self.place.mark;
        let queue = std::mem::take(&mut catching.queue);
        // Marks that we are not serving anybody meanwhile.
        self.catching = Some(catching);
        for (from, at, message) in queue {
            self.place.mark = at;
            self.heard(from, message.as_ref());
            self.apply(from, message.as_ref());
        }
        self.catching = None;
        self.transfers.clear();
        self.place.mark = here;
    }

    pub(crate) fn go_live(&mut self) {
        self.catching = None;
        self.outbox.join = None;
        self.outbox.leaving = false;
        self.threads.wait_anew(self.now.physical, false);
        self.enter(Phase::Live);
        self.outbox.report_anew();
        self.start.tell_anew();
        self.check_commits();
        self.leave_if_outnumbered();
        if self.phase == Phase::Live && !(self.place.admits() && self.is_borne_out()) {
            // The others take us to be in, but the layer below has changed its mind; or those that
            // let us in have gone outside since, as too few have our settings.
            self.go_outside();
            self.outbox.leaving = true;
            self.consider_joining();
        }
    }
}

/// About how much memory a message takes.
fn weight(message: &Message) -> usize {
    let entries = message.entries.iter().map(|entry| match entry {
        Entry::User(user) => user.payload.len() + 128,
        _ => 128,
    });
    entries.sum()
}
