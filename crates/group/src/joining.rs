//! Being let in: by the special round, whose message carries the state; or, where nobody has gone
//! on, by all that are connected reviving what they kept, or beginning.
//!
//! All of this happens within one configuration: each change of it starts it again.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::event::{Action, Notice, Refusal, Rejection};
use crate::message::{
    Checkpoint, Entry, Join, Kept, MOST_MEMBERS, Message, Part, Peer, Report, Transfer,
};
use crate::state::State;
use crate::types::{Call, Member, Mode, Order, Phase, Point, Round, Thread};
use crate::view::View;
use crate::wire;

/// A newcomer queues at most this many bytes of messages while it waits for the state.
const LONGEST_QUEUE: usize = 128 << 20;

/// A member that has asked to be let in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Joined {
    pub(crate) incarnation: u64,
    /// At which place of the configuration.
    pub(crate) at: u64,
    pub(crate) join: Join,
}

impl Joined {
    /// Whether this part of a state was made for it, and not for an earlier one.
    fn answers(&self, part: &Part) -> bool {
        let Join { number, attempt, .. } = self.join;
        (self.incarnation, number, attempt, self.at)
            == (part.incarnation, part.number, part.attempt, part.at)
    }
}

/// What a newcomer gathers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Catching {
    /// The state must have been taken here.
    at: u64,
    /// Who was waiting then.
    joins: BTreeMap<Member, Joined>,
    /// The messages since, each with its place.
    queue: Vec<(Member, u64, Option<Message>)>,
    queued: usize,
    /// Parts of the state, by sender: the next part, and the bytes so far.
    parts: BTreeMap<Member, (u32, Vec<u8>)>,
}

impl Catching {
    fn new(at: u64, joins: &BTreeMap<Member, Joined>) -> Catching {
        let joins = joins.clone();
        Catching { at, joins, queue: Vec::new(), queued: 0, parts: BTreeMap::new() }
    }
}

/// The states that a live replica holds ready.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Transfers {
    /// Who is to be served when the message has been taken up.
    new: Vec<Member>,
    pub(crate) ready: BTreeMap<Member, Serving>,
    serial: u64,
}

impl Transfers {
    pub(crate) fn clear(&mut self) {
        self.new.clear();
        self.ready.clear();
    }
}

/// A state that is held ready for a newcomer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Serving {
    /// The number of the checkpoint.
    id: u64,
    state: State,
    pub(crate) incarnation: u64,
    pub(crate) number: u64,
    pub(crate) attempt: u64,
    pub(crate) at: u64,
    /// Values that the program here had not read then; only for a checkpoint.
    values: Vec<Kept>,
    checkpoint: Option<Checkpoint>,
    wants: bool,
    /// Since when this member could send, or when another last did (physical).
    pub(crate) since: i64,
    /// Another sends.
    pub(crate) other: bool,
    /// Encoded, once it is being sent, and how many parts have been.
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent: u32,
    /// All of it is under way.
    pub(crate) finished: bool,
}

impl Serving {
    /// Whether there is something to send, and all is there that the newcomer needs.
    pub(crate) fn complete(&self) -> bool {
        let ready = !self.wants || self.checkpoint.is_some() || !self.bytes.is_empty();
        ready && !self.finished
    }

    /// Encodes it, at the first time.
    pub(crate) fn encode(&mut self) {
        if self.bytes.is_empty() {
            let checkpoint = self.checkpoint.take();
            let transfer = Transfer { snapshot: self.state.snapshot(), checkpoint };
            self.bytes = wire::encode_transfer(&transfer);
        }
    }
}

impl Engine {
    /// The message that asks to be let in.
    pub(crate) fn own_join(&self) -> Join {
        let report = match (self.view, self.now.utc) {
            (Some(view), utc) => Some(Report { view: view.at(self.now.physical), utc }),
            (None, Some(utc)) => Some(Report { view: utc.best, utc: Some(utc) }),
            (None, None) => None,
        };
        let standing = self.state.as_ref().filter(|_| self.is_replica()).map(|state| {
            crate::message::Standing {
                epoch: state.epoch,
                established: self.commits.established,
                confirmed: self.commits.confirmed,
                point: state.point,
                last: state.last,
                digest: state.digest(),
            }
        });
        Join {
            number: self.outbox.number(),
            attempt: self.outbox.attempts,
            standing,
            floor: self.floor,
            report,
            checkpoint: self.own.checkpoints,
        }
    }

    /// A join takes effect at a live member.
    pub(crate) fn join(&mut self, from: Member, incarnation: u64, join: &Join) {
        let Some(state) = self.state.as_mut() else { return };
        let stale = state
            .live
            .get(&from)
            .is_some_and(|peer| peer.incarnation == incarnation && join.number <= peer.number);
        if stale || state.live.len() + self.place.joins.len() >= MOST_MEMBERS {
            return;
        }
        state.live.remove(&from);
        state.refresh(&self.group);
        if let Some(standing) = join.standing
            && self.group.order == Order::Monotone
        {
            // It may have been cut off with a value that nobody else has: not below that.
            let last = state.limit.map_or(standing.last, |limit| limit.min(standing.last));
            state.last = state.last.max(last);
        }
        let at = self.place.position;
        self.place.joins.insert(from, Joined { incarnation, at, join: join.clone() });
        self.transfers.ready.remove(&from);
        if !self.transfers.new.contains(&from) {
            self.transfers.new.push(from);
        }
        if self.catching.is_none() {
            self.after_departure();
        }
    }

    /// Holds the state at this place ready for those who have just asked for it.
    pub(crate) fn serve(&mut self) {
        let new = std::mem::take(&mut self.transfers.new);
        if self.phase != Phase::Live || !self.is_replica() || self.catching.is_some() {
            return;
        }
        for joiner in new {
            let (Some(joined), Some(state)) = (self.place.joins.get(&joiner), &self.state) else {
                continue;
            };
            let wants = joined.join.checkpoint;
            self.transfers.serial += 1;
            let id = self.transfers.serial;
            let serving = Serving {
                id,
                state: state.clone(),
                incarnation: joined.incarnation,
                number: joined.join.number,
                attempt: joined.join.attempt,
                at: joined.at,
                values: if wants { self.threads.values() } else { Vec::new() },
                checkpoint: None,
                wants,
                since: self.now.physical,
                other: false,
                bytes: Vec::new(),
                sent: 0,
                finished: false,
            };
            self.transfers.ready.insert(joiner, serving);
            if wants && self.own.checkpoints {
                self.act(Action::TakeCheckpoint { join: id });
            }
        }
    }

    pub(crate) fn checkpoint(&mut self, join: u64, data: &[u8], position: &[(Thread, Round)]) {
        let now = self.now.physical;
        let Some(serving) = self.transfers.ready.values_mut().find(|serving| serving.id == join)
        else {
            return;
        };
        if serving.checkpoint.is_some() {
            return;
        }
        let position: BTreeMap<Thread, Round> = position.iter().copied().collect();
        let mut values = std::mem::take(&mut serving.values);
        values.retain(|kept| {
            position.get(&kept.thread).is_none_or(|&position| kept.round >= position)
        });
        serving.checkpoint = Some(Checkpoint {
            data: data.to_vec(),
            position: position.into_iter().collect(),
            values,
        });
        serving.since = now;
    }

    /// A part of a state takes effect at a live member: the last one decides the joining round.
    pub(crate) fn part(&mut self, from: Member, part: &Part) {
        let Some(joined) = self.place.joins.get(&part.joiner) else { return };
        if !joined.answers(part) || !self.group.counts(from) {
            return;
        }
        let now = self.now.physical;
        if let Some(serving) = self.transfers.ready.get_mut(&part.joiner)
            && from != self.own.member
        {
            serving.since = now;
            serving.other = true;
        }
        if part.part + 1 < part.parts {
            return;
        }
        let peer = Peer {
            member: part.joiner,
            incarnation: joined.incarnation,
            number: part.number,
            since: self.point().index,
            suspect: false,
            report: None,
        };
        self.place.joins.remove(&part.joiner);
        self.place.admitted.insert(part.joiner, (peer.incarnation, peer.number));
        self.transfers.ready.remove(&part.joiner);
        if let Some(state) = self.state.as_mut() {
            state.live.insert(part.joiner, peer);
            state.refresh(&self.group);
        }
        self.round(from, Thread::JOIN, Call::Group, &part.time);
        if part.joiner == self.own.member
            && let Some(state) = &self.state
        {
            let (there, _) = self.since(state.last, part.time.utc);
            let physical = self.now.physical;
            self.view.get_or_insert(View::new(physical, there)).set(physical, there);
        }
    }

    /// A message of the stream at a member that is not live.
    pub(crate) fn listen(&mut self, from: Member, message: Option<Message>) {
        let at = self.place.position;
        let mut caught = false;
        let mut whole = None;
        let mut message = message;
        if let Some(message) = &mut message {
            let incarnation = message.incarnation;
            for entry in &mut message.entries {
                match entry {
                    Entry::Join(join) => {
                        let admitted = self.place.admitted.get(&from);
                        if admitted.is_some_and(|&(life, number)| {
                            life == incarnation && join.number <= number
                        }) {
                            continue;
                        }
                        let joined = Joined { incarnation, at, join: join.clone() };
                        if self.place.joins.len() < MOST_MEMBERS {
                            self.place.joins.insert(from, joined);
                        }
                        if from == self.own.member && incarnation == self.own.incarnation {
                            self.outbox.joining = None;
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
            self.catching = Some(Catching::new(at, &self.place.joins));
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
        let joined = self.place.joins.get(&part.joiner)?;
        if !joined.answers(part) || !self.group.counts(from) {
            return None;
        }
        let last = part.part + 1 == part.parts;
        if last {
            let admitted = (joined.incarnation, part.number);
            self.place.admitted.insert(part.joiner, admitted);
            self.place.joins.remove(&part.joiner);
        }
        if part.joiner != self.own.member {
            return None;
        }
        let Some(catching) = self.catching.as_mut().filter(|catching| catching.at == part.at)
        else {
            if last {
                // Let in, though we no longer wanted it.
                self.outbox.let_in();
                self.outbox.leaving = true;
            }
            return None;
        };
        let (next, so_far) = catching.parts.entry(from).or_default();
        if part.part == 0 {
            (*next, *so_far) = (0, Vec::new());
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
        // Whatever becomes of it here, the others have let us in by this number.
        self.outbox.let_in();
        let transfer = match wire::decode_transfer(bytes) {
            Ok(transfer) => transfer,
            Err(broken) => {
                let (from, what) = (self.own.member, broken.what());
                self.notice(crate::event::Notice::Malformed { from, what });
                return self.consider_joining();
            }
        };
        let state = State::restore(&self.group, transfer.snapshot);
        self.commits.enter(state.point);
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
                self.threads.install(&position, &values, &state.threads, self.own.buffer);
                self.installing = true;
                self.act(Action::InstallCheckpoint { data, position });
            }
            None => self.threads.skip(&state.threads),
        }
        let again = self.state.replace(state).is_some();
        self.place.joins = catching.joins.clone();
        self.replay(catching);
        let Some(state) = &self.state else { return };
        if !state.lives(self.own.member, self.own.incarnation) {
            return self.consider_joining();
        }
        if !checkpoint {
            let threads = &state.threads;
            self.threads.skip(threads);
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
        let here = self.place.position;
        let queue = std::mem::take(&mut catching.queue);
        // Marks that we are not serving anybody meanwhile.
        self.catching = Some(catching);
        for (from, at, message) in queue {
            self.place.position = at;
            self.apply(from, message.as_ref());
        }
        self.catching = None;
        self.transfers.clear();
        self.place.position = here;
    }

    fn go_live(&mut self) {
        self.catching = None;
        self.outbox.join = None;
        self.outbox.leaving = false;
        self.threads.wait_anew(self.now.physical, false);
        self.enter(Phase::Live);
        self.outbox.report_anew();
        self.check_commits();
        if !self.place.admits() {
            // The others take us to be in, but the layer below has changed its mind.
            self.go_outside();
            self.outbox.leaving = true;
        }
    }

    /// If nobody is live: all connected replicas have asked to be let in.
    fn resume(&mut self) {
        if !self.place.primary || self.phase == Phase::Live {
            return;
        }
        let replicas: Vec<Member> = self
            .place
            .connected
            .iter()
            .copied()
            .filter(|&member| self.group.counts(member) && !self.place.foreign.contains(&member))
            .collect();
        if !self.group.majority(replicas.len())
            || !replicas.iter().all(|member| self.place.joins.contains_key(member))
        {
            return;
        }
        let joined: BTreeMap<Member, Joined> = replicas
            .iter()
            .filter_map(|member| Some((*member, self.place.joins.get(member)?.clone())))
            .collect();
        let chosen = choose(&joined);
        let at = self.place.position;
        for member in &chosen {
            if let Some(joined) = self.place.joins.remove(member) {
                let admitted = (joined.incarnation, joined.join.number);
                self.place.admitted.insert(*member, admitted);
            }
        }
        self.place.joins.values_mut().for_each(|joined| joined.at = at);
        if !chosen.contains(&self.own.member) {
            if self.place.joins.contains_key(&self.own.member) && self.place.admits() {
                self.catching = Some(Catching::new(at, &self.place.joins));
            }
            return;
        }
        self.outbox.let_in();
        let peers: BTreeMap<Member, Peer> = chosen
            .iter()
            .filter_map(|member| {
                let joined = joined.get(member)?;
                let peer = Peer {
                    member: *member,
                    incarnation: joined.incarnation,
                    number: joined.join.number,
                    since: 0,
                    suspect: false,
                    report: joined.join.report,
                };
                Some((*member, peer))
            })
            .collect();
        if joined.values().all(|joined| joined.join.standing.is_none()) {
            self.begin(&joined, peers);
        } else {
            self.revive(&joined, peers);
        }
        self.transfers.new = self.place.joins.keys().copied().collect();
        self.go_live();
        self.serve();
    }

    fn begin(&mut self, joined: &BTreeMap<Member, Joined>, peers: BTreeMap<Member, Peer>) {
        let floor = joined.values().filter_map(|joined| joined.join.floor).max();
        let mut utc: Vec<i64> =
            joined.values().filter_map(|joined| Some(joined.join.report?.utc?.best)).collect();
        utc.sort_unstable();
        let known = utc.get((utc.len().max(1) - 1) / 2).copied();
        let start = floor.max(known).unwrap_or(0);
        let state = State::begin(&self.group, start, peers);
        let physical = self.now.physical;
        let own = self.now.utc.map_or(physical, |utc| utc.best);
        self.view = Some(match self.group.order {
            Order::Published => View::new(physical, physical),
            Order::Monotone => View::new(physical, own.max(start)),
        });
        self.guess = self.group.order == Order::Monotone && self.now.utc.is_none();
        self.commits.enter(state.point);
        self.commits.entered = state.point;
        self.commits.established = 0;
        self.state = Some(state);
        self.notice(Notice::Began { floor });
        self.keep_ahead(start);
    }

    fn revive(&mut self, joined: &BTreeMap<Member, Joined>, peers: BTreeMap<Member, Peer>) {
        let Some(state) = self.state.as_mut() else { return };
        let standings = || joined.values().filter_map(|joined| joined.join.standing);
        let many = peers.len();
        let generation = standings().map(|it| it.point.generation).max().unwrap_or(0);
        let kept = standings().filter(|it| it.epoch == state.epoch).count();
        let floor = joined
            .values()
            .filter(|joined| joined.join.standing.is_none())
            .filter_map(|joined| joined.join.floor)
            .max()
            .filter(|_| !self.group.majority(kept));
        if self.group.order == Order::Monotone {
            // Not below what any of them has given out; and where so many have lost their state
            // that values may be lost with it, not below what they had kept.
            let last = standings().map(|it| it.last).max().max(floor);
            state.last = last.map_or(state.last, |last| last.max(state.last));
        }
        state.point = Point { generation: generation + 1, index: state.point.index };
        let before = std::mem::replace(&mut state.live, peers);
        for (member, peer) in &mut state.live {
            peer.since = before.get(member).map_or(0, |peer| peer.since);
        }
        state.refresh(&self.group);
        let (point, last) = (state.point, state.last);
        self.commits.enter(point);
        if let Some(view) = self.view.as_mut()
            && self.group.order == Order::Monotone
        {
            view.at_least(self.now.physical, last);
        }
        self.notice(Notice::Revived { members: many });
        self.keep_ahead(last);
    }
}

/// Whose state goes on: of those that can have gone on longest, the ones that agree. All, if nobody
/// has kept anything.
fn choose(joined: &BTreeMap<Member, Joined>) -> Vec<Member> {
    let rank = |joined: &Joined| {
        let it = joined.join.standing?;
        Some((it.epoch, it.established, it.confirmed, it.point))
    };
    let Some(best) = joined.values().filter_map(rank).max() else {
        return joined.keys().copied().collect();
    };
    let mut agreeing: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
    for (member, joined) in joined {
        if let Some(standing) = joined.join.standing.filter(|_| rank(joined) == Some(best)) {
            agreeing.entry(standing.digest).or_default().push(*member);
        }
    }
    // Most members; of as many, those with the least member.
    let most = agreeing.into_values().max_by(|a, b| {
        (a.len(), std::cmp::Reverse(a.first())).cmp(&(b.len(), std::cmp::Reverse(b.first())))
    });
    most.unwrap_or_default()
}

/// About how much memory a message takes.
fn weight(message: &Message) -> usize {
    let entries = message.entries.iter().map(|entry| match entry {
        Entry::User(user) => user.payload.len() + 128,
        _ => 128,
    });
    entries.sum()
}
