//! When a server is asked: at which interval, what comes of silence, and how long others wait for
//! its first reply.

use core::net::SocketAddr;

use truechimer_ntp::WAITING;
use truechimer_time::{Count, CountSpan, Period, Span};

use super::courtesy::{self, Courtesy};
use crate::config::SourceConfig;
use crate::ramp::{self, Ramp};

/// Breaks of the counter in a row after which servers are not asked at once any more, but
/// [`ramp::FIRST_INTERVAL`] later: a counter that breaks with every look must not make a flood of
/// it.
const AT_ONCE: u32 = 3;
/// Requests in a row without a usable reply after which the next address is tried; once round, the
/// name is looked up again.
pub(super) const MISSES_PER_ADDRESS: u32 = 8;
/// Usable replies between two changes of the interval, which adapts.
const REPLIES_EACH: u32 = 8;
/// Growth of the bound between two requests makes little difference below this part of what the
/// path leaves open anyway.
const LITTLE: i128 = 8;
/// Requests in a row without a reply after which the user is told; a source that never answered has
/// then had its chance. As many are waited for at the same time: whoever answers within its chance is
/// heard, however long its packets take.
pub(super) const CHANCE: u32 = WAITING as u32;

/// Next thing that a source does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// Look the name up at that count.
    Resolve(Count),
    /// Wait for the look-up.
    Resolving,
    /// Ask at that count.
    Poll(Count),
    /// The server refused service at that count: look for another.
    Refused(Count),
    /// No address is left that does not refuse service: look again at that count.
    Retry(Count),
}

/// Action that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    LookUp,
    Poll,
    /// Leave a server that refused service.
    Leave,
    /// Look whether a server still refuses service.
    Retry,
}

/// The schedule of one server.
#[derive(Debug)]
pub(super) struct Schedule {
    nominal: Period,
    /// The poll interval that the user wants, s, and whether it begins with a burst.
    poll: u32,
    burst: bool,
    /// The longest interval that the user allows, s, and how often `poll` is doubled just now.
    max_poll: u32,
    doublings: u32,
    /// Usable replies since that changed.
    replies: u32,
    /// Nothing is to be done for now.
    offline: bool,
    pub(super) plan: Plan,
    ramp: Ramp,
    /// After how many more breaks the server is asked at once.
    at_once: u32,
    /// When the server made us slower last.
    slowed: Option<Count>,
    /// Demands of servers on us.
    pub(super) courtesy: Courtesy,
    /// Requests in a row without a usable reply, to this address and in all.
    pub(super) misses: u32,
    pub(super) silence: u32,
    /// Number of requests that may still fail before the others no longer wait for its first reply.
    chances: u32,
    /// The server answered since the newest request left, if only to refuse, be it to one before.
    pub(super) answered: bool,
    /// True if the network said that the newest request could not be delivered.
    undelivered: bool,
}

impl Schedule {
    /// Begins with a look-up at `at`; the others wait for its first reply if `awaited`.
    pub(super) fn new(
        config: &SourceConfig,
        nominal: Period,
        awaited: bool,
        at: Count,
    ) -> Schedule {
        Schedule {
            nominal,
            poll: config.poll,
            burst: config.burst,
            max_poll: config.max_poll.unwrap_or(config.poll),
            doublings: 0,
            replies: 0,
            offline: config.offline,
            plan: Plan::Resolve(at),
            ramp: if config.burst { Ramp::WHOLE } else { Ramp::NONE },
            at_once: AT_ONCE,
            slowed: None,
            courtesy: Courtesy::default(),
            misses: 0,
            silence: 0,
            chances: if awaited { CHANCE } else { 0 },
            answered: true,
            undelivered: false,
        }
    }

    /// When it wants to act next.
    pub(super) fn deadline(&self) -> Option<Count> {
        match self.plan {
            _ if self.offline => None,
            Plan::Resolve(at) | Plan::Poll(at) | Plan::Refused(at) | Plan::Retry(at) => Some(at),
            Plan::Resolving => None,
        }
    }

    /// Action that is due by then.
    pub(super) fn due(&self, at: Count) -> Option<Due> {
        let (due, what) = match self.plan {
            Plan::Resolve(due) => (due, Due::LookUp),
            Plan::Poll(due) => (due, Due::Poll),
            Plan::Refused(due) => (due, Due::Leave),
            Plan::Retry(due) => (due, Due::Retry),
            Plan::Resolving => return None,
        };
        at.at_or_after(due).then_some(what)
    }

    /// The poll interval in force, s.
    pub(super) fn interval(&self) -> u32 {
        self.ramp.interval(self.steady_interval())
    }

    /// The poll interval after the start, s.
    pub(super) fn steady_interval(&self) -> u32 {
        self.courtesy.interval(self.wanted(self.doublings))
    }

    /// The interval that we want if it is doubled so often, s.
    fn wanted(&self, doublings: u32) -> u32 {
        let longer = self.poll.checked_shl(doublings.min(16)).unwrap_or(u32::MAX);
        longer.min(self.max_poll.max(self.poll))
    }

    /// A usable reply came: the interval is doubled after [`REPLIES_EACH`] of them while a longer one
    /// makes little difference, up to what the user allows, and halved where it makes one. `grows`
    /// is by how much the bound grows in so many seconds, and `path` its part that stays.
    pub(super) fn adapt(&mut self, grows: impl Fn(u32) -> Span, path: Span) {
        self.replies = self.replies.saturating_add(1);
        let now = self.wanted(self.doublings);
        let next = self.wanted(self.doublings + 1);
        let little = Span(path.0 / LITTLE);
        if next > now && self.replies >= REPLIES_EACH && grows(next) <= little {
            (self.doublings, self.replies) = (self.doublings + 1, 0);
        } else if self.doublings > 0 && grows(now) > little + little {
            (self.doublings, self.replies) = (self.doublings - 1, 0);
        }
    }

    /// Something is in doubt: as often as the user allows, from now on.
    pub(super) fn hasten(&mut self, at: Count) {
        (self.doublings, self.replies) = (0, 0);
        self.sooner(at);
    }

    /// The next request comes no later than by the interval in force.
    pub(super) fn sooner(&mut self, at: Count) {
        if let Plan::Poll(next) = self.plan {
            let soon = self.after(at, self.interval());
            self.plan = Plan::Poll(if next.at_or_after(soon) { soon } else { next });
        }
    }

    pub(super) fn after(&self, at: Count, seconds: u32) -> Count {
        at + self.nominal.counts(Span::from_secs(i64::from(seconds)))
    }

    /// About so many seconds after `at`: up to an eighth less by the chance `early`, so that clients that all lost the same
    /// server do not come back in step.
    pub(super) fn about(&self, at: Count, seconds: u32, early: u64) -> Count {
        let whole = self.nominal.counts(Span::from_secs(i64::from(seconds))).0.max(0);
        at + CountSpan(whole - (early % (whole.unsigned_abs() / 8).max(1)) as i64)
    }

    /// When a server that refuses service is asked again, if no other could be found.
    pub(super) fn retry(&self) -> Option<Count> {
        if let Plan::Retry(at) = self.plan { Some(at) } else { None }
    }

    /// True if the server refuses service.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.plan, Plan::Refused(_) | Plan::Retry(_))
    }

    /// True if the others wait for its first reply.
    pub(super) fn is_awaited(&self) -> bool {
        self.chances > 0 && self.retry().is_none() && !self.offline
    }

    /// The others do not wait for its first reply.
    pub(super) fn is_not_awaited(&mut self) {
        self.chances = 0;
    }

    /// A request brought nothing of use.
    pub(super) fn fails(&mut self) {
        self.chances = self.chances.saturating_sub(1);
    }

    /// No usable reply came since the newest request left. Returns whether none came at all, and for how
    /// many requests in a row, if the network did not say why.
    pub(super) fn missed(&mut self) -> Option<u32> {
        self.misses = self.misses.saturating_add(1);
        self.silence = self.silence.saturating_add(1);
        self.fails();
        (!self.answered && !self.undelivered).then_some(self.silence)
    }

    /// A request is sent: the next is due an interval later.
    pub(super) fn sent(&mut self, at: Count, random: &mut dyn FnMut() -> u64) {
        (self.answered, self.undelivered) = (false, false);
        self.ramp.step();
        // Up to 1/64 early, so that many clients do not ask in step and polls do not beat with
        // whatever else the host does periodically.
        let interval = self.nominal.counts(Span::from_secs(i64::from(self.interval()))).0.max(1);
        let early = (random() % (interval.unsigned_abs() / 64).max(1)) as i64;
        self.plan = Plan::Poll(at + CountSpan(interval - early));
        if self.ramp.is_beyond(CHANCE + 1) {
            self.at_once = AT_ONCE;
        }
    }

    /// Puts the next request off until about so many seconds after `at`, if it was to be sooner.
    pub(super) fn no_sooner(&mut self, at: Count, seconds: u32, random: &mut dyn FnMut() -> u64) {
        if seconds > self.interval() {
            self.plan = Plan::Poll(self.about(at, seconds, random()));
        }
    }

    /// One of the requests that wait could not be delivered.
    pub(super) fn undelivered(&mut self) {
        self.undelivered = true;
    }

    /// The server served one of the requests that wait. Returns the poll interval, s, if that changes.
    pub(super) fn served(&mut self, from: SocketAddr) -> Option<u32> {
        (self.misses, self.answered) = (0, true);
        let before = self.steady_interval();
        self.courtesy.served(from, before);
        Some(self.steady_interval()).filter(|now| *now != before)
    }

    /// The server wants fewer requests (`RATE`), in reply to one that left at `sent`. One that was under way
    /// when it was obeyed last says nothing of how often it is asked now.
    pub(super) fn slow(&mut self, sent: Count, at: Count) {
        if self.slowed.is_some_and(|last| last.at_or_after(sent)) {
            return;
        }
        self.slowed = Some(at);
        self.ramp = Ramp::NONE;
        self.courtesy.slow(self.steady_interval());
        self.replies = 0;
        self.plan = Plan::Poll(self.after(at, self.interval()));
    }

    /// The server at that address refuses service (`DENY`, `RSTR`).
    pub(super) fn refused(&mut self, by: SocketAddr, at: Count, early: u64) {
        self.courtesy.refuse(by, at, self.nominal, early);
    }

    /// Another server is looked for, without haste.
    pub(super) fn leave(&mut self) {
        (self.ramp, self.misses) = (Ramp::NONE, 0);
    }

    /// All addresses refuse service: until the first of them may be asked again. Returns how long
    /// that is.
    pub(super) fn wait_for_service(&mut self, addresses: &[SocketAddr], at: Count) -> Span {
        let until = |address: &SocketAddr| self.courtesy.left_alone(*address, at);
        let soonest = addresses.iter().filter_map(until).min_by_key(|due| (*due - at).0);
        let due = soonest.unwrap_or(at + self.nominal.counts(courtesy::RETRY));
        (self.plan, self.chances) = (Plan::Retry(due), 0);
        self.nominal.span(due - at)
    }

    /// Another server answers by the same name: what the one before wanted is not its doing.
    pub(super) fn change_server(&mut self, at: Count) {
        self.courtesy.forget_rate();
        self.slowed = None;
        if self.burst && matches!(self.plan, Plan::Poll(_)) {
            self.ramp = Ramp::WHOLE;
            self.plan = Plan::Poll(self.after(at, self.interval()));
        }
    }

    /// Takes over another poll interval.
    pub(super) fn reconfigure(&mut self, config: &SourceConfig, at: Count) {
        let before = self.steady_interval();
        self.max_poll = config.max_poll.unwrap_or(config.poll);
        let comes_back = self.offline && !config.offline;
        (self.poll, self.burst, self.offline) = (config.poll, config.burst, config.offline);
        if let (true, Plan::Poll(_)) = (comes_back, self.plan) {
            self.plan = Plan::Poll(at);
        }
        if self.steady_interval() < before {
            self.sooner(at);
        }
        self.courtesy.hurry(at, self.nominal);
    }

    /// The counter broke: begins again, at once. Whoever had something to say before the break is
    /// `awaited` again.
    pub(super) fn new_epoch(&mut self, at: Count, awaited: bool) {
        if awaited {
            self.chances = CHANCE;
        }
        (self.doublings, self.replies, self.slowed) = (0, 0, None);
        // One more than the chances: that the last was missed shows when the next is sent.
        self.ramp = if self.burst { Ramp::WHOLE } else { Ramp::of(CHANCE + 1) };
        if self.courtesy.is_slow(self.poll) {
            // Who wants fewer requests gets no burst, and so keeps nobody waiting.
            (self.ramp, self.chances) = (Ramp::NONE, 0);
        }
        self.courtesy.new_epoch(at, self.nominal);
        let due = match self.at_once.checked_sub(1) {
            Some(left) => {
                self.at_once = left;
                at
            }
            None => self.after(at, ramp::FIRST_INTERVAL),
        };
        match self.plan {
            Plan::Poll(_) => self.plan = Plan::Poll(due),
            Plan::Resolve(_) => self.plan = Plan::Resolve(due),
            Plan::Refused(_) => self.plan = Plan::Refused(due),
            Plan::Retry(_) => self.plan = Plan::Retry(at + self.nominal.counts(courtesy::RETRY)),
            Plan::Resolving => {}
        }
    }
}
