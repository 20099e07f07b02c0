//! The stream: messages as they are delivered, and the rounds that they decide.

use crate::engine::Engine;
use crate::event::{Action, Notice};
use crate::message::{Entry, Kept, Message, Proposal, Report, Time};
use crate::state::Decided;
use crate::status::Apart;
use crate::types::{Agreed, Bound, Call, GroupTime, Member, Order, Phase, Point, Round, Thread};
use crate::view;
use crate::wire::{self, Broken};

/// The floor is kept this far ahead of the group's clock, ns ...
const FLOOR_AHEAD_NS: i64 = 3_000_000_000;
/// ... and anew as soon as it is nearer than this.
const FLOOR_NEAR_NS: i64 = 2_000_000_000;

impl Engine {
    pub(crate) fn delivered(&mut self, from: Member, bytes: &[u8]) {
        self.counts.delivered += 1;
        let message = self.decode(from, bytes);
        self.place.mark = Message::mark(from, message.as_ref());
        if self.phase == Phase::Live {
            self.heard(from, message.as_ref());
            self.leave_if_outnumbered();
        }
        if self.phase == Phase::Live {
            self.apply(from, message.as_ref());
        } else {
            self.listen(from, message);
        }
    }

    fn decode(&mut self, from: Member, bytes: &[u8]) -> Option<Message> {
        let notice = match wire::decode(bytes) {
            Ok(message) if message.group == self.digest => {
                // Perhaps it was started anew, and the layer below has not told of that.
                self.place.foreign.remove(&from);
                return Some(message);
            }
            Ok(message) => {
                self.set_apart(from, Apart::Settings, message.point != Point::default());
                Notice::OtherGroup { from }
            }
            Err(Broken::Version(version)) => {
                // Nobody knows what it does by its version, and with whom: as with other settings.
                self.set_apart(from, Apart::Version(version), wire::is_of_live(bytes));
                Notice::Version { from, version }
            }
            Err(broken) => Notice::Malformed { from, what: broken.what() },
        };
        self.counts.foreign += 1;
        self.notice(notice);
        None
    }

    /// A message of the stream takes effect on the state: the same at every live member.
    pub(crate) fn apply(&mut self, from: Member, message: Option<&Message>) {
        let Some(state) = self.state.as_mut() else { return };
        state.point.index = state.point.index.saturating_add(1);
        if let Some(message) = message {
            self.take_up(from, message);
        }
        self.passed();
    }

    /// We are at a new place of the stream.
    pub(crate) fn passed(&mut self) {
        if let Some(state) = &self.state {
            self.commits.course.pass(state.point, state.history);
        }
        self.see_primary();
    }

    fn take_up(&mut self, from: Member, message: &Message) {
        let mut reported = false;
        for entry in &message.entries {
            let Some(state) = &self.state else { return };
            match entry {
                Entry::Join(join) => self.join(from, message.incarnation, join),
                Entry::User(user) if !state.lives(from, message.incarnation) => {
                    self.disown(from, message.incarnation, user.token);
                }
                _ if !state.lives(from, message.incarnation) => {}
                Entry::State(part) => self.part(from, part),
                Entry::Propose(proposal) => self.proposed(from, proposal),
                Entry::User(user) => self.user(from, user),
                // One is enough: a report is work for all.
                Entry::Report(_) if reported => {}
                Entry::Report(report) => {
                    reported = true;
                    self.reported(from, *report);
                }
                Entry::Ask(point) => self.asked(from, *point),
                Entry::Leave => self.left(from),
                Entry::Checkpoint(piece) => self.piece(from, message.point, piece),
                Entry::Program(program) => self.program(from, program),
                Entry::Begin(since) => self.begin_those_since(from, *since),
                Entry::Shift(shift) => self.shifted(from, shift),
                Entry::Vote(vote) => self.voted(from, vote),
            }
        }
        // Not before all of the message: what is kept here, of the group's state and the program's,
        // is what the others have at this place, and may be what goes on.
        if self.catching.is_none() {
            self.after_departure();
        }
        self.serve();
        self.check_commits();
    }

    fn asked(&mut self, from: Member, point: Point) {
        if from != self.own.member && self.commits.said < point {
            self.commits.asked = self.commits.asked.max(Some(point));
        }
    }

    pub(crate) fn left(&mut self, from: Member) {
        if let Some(state) = self.state.as_mut() {
            state.leave(&self.group, from);
        }
    }

    fn proposed(&mut self, from: Member, proposal: &Proposal) {
        let &Proposal { thread, round, call, ref time } = proposal;
        let Some(state) = self.state.as_mut() else { return };
        let next = state.next(thread);
        if round.0 < next {
            self.counts.duplicates += 1;
            if from == self.own.member && self.rank(round.0) > Some(0) {
                self.stagger.wasted(self.own.stagger_ns, self.point());
            }
            return;
        }
        let sound = (thread >= Thread::FIRST || thread == Thread::CAUSAL)
            && round.0 == next
            && self.group.counts(from);
        if !sound && self.commits.differs(from) {
            // It knows of rounds that we do not, or we of some that it does not.
            return;
        }
        if !sound {
            self.counts.foreign += 1;
            let what = "a proposal that no member makes";
            return self.notice(Notice::Malformed { from, what });
        }
        // One that is this member's alone waits for nobody.
        let waited = from == self.own.member && thread.owner().is_none();
        if waited && self.rank(round.0) > Some(0) {
            self.stagger.needed();
        }
        self.round(from, thread, call, time);
        if thread.is_now() {
            // It waits for a majority: that need not ask.
            self.asked(from, self.point());
        }
    }

    /// The first proposal for a thread's next round decides it.
    pub(crate) fn round(&mut self, from: Member, thread: Thread, call: Call, time: &Time) {
        let Some(state) = self.state.as_mut() else { return };
        let round = state.advance(&self.group, thread);
        let decided = state.decide(&self.group, from, time);
        let value = Agreed {
            time: GroupTime(decided.value),
            utc: decided.utc,
            synchronizer: from,
            point: state.point,
        };
        self.keep_ahead(decided.value);
        self.counts.won(value);
        let ours = self.keeps(thread) && !self.holds(thread);
        if thread >= Thread::FIRST && self.is_replica() && ours {
            let buffer = self.own.buffer;
            if self.threads.passes_over(thread, round) {
                self.likeness.lose(value.point);
            }
            if let Some(pending) = self.threads.take(thread, round, call, value, buffer) {
                self.finish(Kept { thread, round: Round(round), call, value }, pending);
            }
        }
        self.settle(from, time, decided);
        self.release(decided.utc, from);
    }

    /// Keeps the floor ahead of the clock.
    pub(crate) fn keep_ahead(&mut self, value: i64) {
        let near = |floor: i64| value.saturating_add(FLOOR_NEAR_NS) > floor;
        if self.floor.is_none_or(near) {
            let floor = value.saturating_add(FLOOR_AHEAD_NS);
            self.floor = Some(floor);
            self.act(Action::Keep { floor });
        }
    }

    /// Applies a decision to this member's own view of the clock.
    pub(crate) fn settle(&mut self, from: Member, time: &Time, decided: Decided) {
        self.keep_ahead(decided.value);
        if let Some(by_ns) = decided.cut {
            self.counts.cuts += 1;
            self.notice(Notice::Cut { from, by_ns });
        }
        let guess = std::mem::take(&mut self.guess);
        if self.group.order == Order::Monotone && self.is_suspect() {
            // Its own view was led by a clock that is wrong: it has the group's from now on.
            self.follow(decided.value, time.utc);
            return;
        }
        if self.group.order == Order::Published
            || decided.cut.is_some()
            || (from == self.own.member && decided.as_proposed)
        {
            return;
        }
        let physical = self.now.physical;
        let (least, most) = self.since(decided.value, time.utc);
        // A clock that is sure that it is not yet that late is not led astray at once.
        let sure = self.sure();
        let Some(view) = self.view.as_mut() else { return };
        // One that is beyond all that could be agreed on is none of the group's clock, unless this
        // member's clock bears it out: the proposal may be from before the clock was set ahead.
        let beyond = most.saturating_add_unsigned(self.group.horizon_ns);
        let beyond = self.now.utc.map_or(beyond, |utc| beyond.max(utc.bound.latest));
        if guess || (decided.as_proposed && view.at(physical) > beyond) {
            view.set(physical, least);
        }
        view.at_least(physical, least.min(sure));
        if decided.as_proposed {
            view.draw(physical, least, most);
        }
    }

    /// The latest that UTC can be by this member's clock; the end of time if it has none.
    pub(crate) fn sure(&self) -> i64 {
        self.now.utc.map_or(i64::MAX, |utc| utc.bound.latest)
    }

    /// Compares another's clock with this member's, as its report comes.
    pub(crate) fn hear(&mut self, from: Member, report: Option<Report>) {
        let there = report.and_then(|report| report.utc);
        if let Some(place) = self.group.place(from).filter(|_| from != self.own.member) {
            self.compared.hear(place, there, self.now.utc);
        }
    }

    fn is_suspect(&self) -> bool {
        let own = self.state.as_ref().and_then(|state| state.live.get(&self.own.member));
        own.is_some_and(|peer| peer.suspect)
    }

    /// Takes the group's clock for its own view.
    fn follow(&mut self, there: i64, sent: Option<Bound>) {
        let (physical, (least, _)) = (self.now.physical, self.since(there, sent));
        if let Some(view) = self.view.as_mut() {
            view.set(physical, least);
        }
    }

    /// Where the group's clock is now, if it was there when a message was sent: not before, not
    /// after.
    pub(crate) fn since(&self, there: i64, sent: Option<Bound>) -> (i64, i64) {
        let (least, most) = view::way(sent, &self.now);
        (there.saturating_add(least), there.saturating_add(most))
    }

    fn reported(&mut self, from: Member, report: Report) {
        self.hear(from, Some(report));
        let Some(state) = self.state.as_mut() else { return };
        if !self.group.counts(from) {
            return;
        }
        let done = state.report(&self.group, from, report);
        let rate = state.steering.rate_ppb;
        let first = state.ranks.first() == Some(&from);
        let borne_out = state.borne_out;
        self.counts.reports += 1;
        for (member, suspected) in done.suspects {
            self.notice(Notice::Suspect { member, suspected });
        }
        if done.tied {
            let ahead_ns = done.step.as_ref().map_or(0, |step| step.by);
            self.notice(Notice::Tied { ahead_ns });
        }
        if self.group.order == Order::Published {
            return;
        }
        let (physical, own, suspect) = (self.now.physical, self.own.member, self.is_suspect());
        let (least, most) = self.since(report.view, report.utc.map(|utc| utc.bound));
        if let Some(view) = self.view.as_mut() {
            view.steer(physical, rate);
            match done.step {
                // The views may differ: whose clock is borne out has its own to go by.
                Some(step) => match self.now.utc.filter(|_| step.borne_out.contains(&own)) {
                    Some(utc) => view.at_least(physical, utc.best),
                    None => {
                        view.set(physical, view.at(physical).saturating_add(step.guess));
                        self.guess = true;
                    }
                },
                None if first && self.guess => {
                    self.guess = false;
                    if from != self.own.member {
                        view.set(physical, least);
                    }
                }
                // Between rounds all follow the one that would propose.
                None if first && from != own && suspect => view.set(physical, least),
                None if first && from != self.own.member => view.draw(physical, least, most),
                None => {}
            }
        }
        if let Some(borne_out) = borne_out {
            self.keep_ahead(borne_out);
        }
    }
}
