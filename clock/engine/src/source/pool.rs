//! A name that leads to several servers: when it is looked up, and which of its addresses are free.
//!
//! One look-up serves all of its servers. Another comes where servers lack, or one is of no use and
//! no address is left to take its place: [`AGAIN`] after the one before, twice as long after each
//! further one, up to [`SELDOM`], until all of them answer. An address that was of no use is left
//! alone for [`LEFT_ALONE`].

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use truechimer_time::{Count, Period, Span};

use super::canonical;
use super::resolver::Resolver;
use crate::cause::Cause;
use crate::config::SourceConfig;
use crate::event::{Action, SourceId};
use crate::report::{Reason, SourceKind, SourceReport};

/// Seconds between look-ups of a name that could be looked up: at first, and at most.
const AGAIN: u32 = 128;
const SELDOM: u32 = 14_400;
/// Time for which an address that was of no use is not tried again, s.
const LEFT_ALONE: u32 = 14_400;
/// Addresses that are remembered for that; the oldest is forgotten first.
const MOST_LEFT: usize = 32;

/// Next step of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Nothing.
    Rest,
    /// Look its name up at that count.
    LookUp(Count),
    /// Wait for the look-up.
    LookingUp,
}

/// A pool of servers. The servers themselves are sources like any other.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) id: SourceId,
    pub(crate) config: SourceConfig,
    name: String,
    nominal: Period,
    resolver: Resolver,
    plan: Plan,
    /// When the name may be looked up again, and how long after a look-up that is, s.
    earliest: Count,
    again: u32,
    /// Addresses that were of no use, and until when they are left alone.
    left: Vec<(SocketAddr, Count)>,
    /// The others wait for its first server.
    awaited: bool,
}

impl Pool {
    /// A pool whose name is looked up at `at`; the others wait for its first server if `awaited`.
    pub(crate) fn new(
        id: SourceId,
        config: SourceConfig,
        nominal: Period,
        awaited: bool,
        at: Count,
    ) -> Pool {
        Pool {
            id,
            name: config.name(),
            config,
            nominal,
            resolver: Resolver::new(),
            plan: Plan::LookUp(at),
            earliest: at,
            again: AGAIN,
            left: Vec::new(),
            awaited,
        }
    }

    /// Name that the user gave it: host and port.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The most servers that it may have.
    pub(crate) fn size(&self) -> usize {
        self.config.pool.and_then(|most| usize::try_from(most).ok()).unwrap_or(0)
    }

    /// True if `config` is for the same pool.
    pub(crate) fn is(&self, config: &SourceConfig) -> bool {
        let SourceConfig { host, port, authentication, pool, .. } = config;
        let ours = &self.config;
        pool.is_some()
            && (&ours.host, ours.port, ours.authentication) == (host, *port, *authentication)
    }

    /// True if the others wait for its first server.
    pub(crate) fn is_to_come(&self) -> bool {
        self.awaited && !self.config.offline
    }

    /// The others do not wait for its first server.
    pub(crate) fn is_not_waited_for(&mut self) {
        self.awaited = false;
    }

    /// Takes over another configuration; whoever has it read again may have mended the name.
    pub(crate) fn reconfigure(&mut self, config: SourceConfig, at: Count) {
        if self.config.family != config.family {
            // What was found is of the other one.
            self.resolver = Resolver::new();
            self.plan = match self.plan {
                Plan::LookingUp => Plan::LookingUp,
                _ => Plan::LookUp(at),
            };
        }
        self.config = config;
        (self.earliest, self.again) = (at, AGAIN);
        if let Plan::LookUp(_) = self.plan {
            self.plan = Plan::LookUp(at);
        }
    }

    /// The counter broke: counts from before mean nothing.
    pub(crate) fn new_epoch(&mut self, at: Count) {
        self.earliest = self.after(at, AGAIN);
        self.left.clear();
        if let Plan::LookUp(_) = self.plan {
            self.plan = Plan::LookUp(at);
        }
    }

    /// When it wants to act next.
    pub(crate) fn deadline(&self) -> Option<Count> {
        match self.plan {
            Plan::LookUp(at) if !self.config.offline => Some(at),
            _ => None,
        }
    }

    /// The look-up that is due, if one is.
    pub(crate) fn act(&mut self, at: Count) -> Option<Action> {
        self.deadline().filter(|due| at.at_or_after(*due))?;
        self.plan = Plan::LookingUp;
        let SourceConfig { host, port, .. } = self.config.clone();
        let (authentication, interface, family) = (crate::Authentication::None, None, None);
        let source = self.id;
        Some(Action::Resolve { source, host, port, authentication, interface, family })
    }

    /// The look-up's answer. Returns why it failed, if that is new.
    pub(crate) fn resolved(
        &mut self,
        result: Result<Vec<SocketAddr>, String>,
        at: Count,
    ) -> Option<String> {
        if self.plan != Plan::LookingUp {
            return None;
        }
        let result = match self.config.family {
            Some(family) => result.and_then(|addresses| family.of(addresses)),
            None => result,
        };
        let failure = match result {
            Ok(addresses) if addresses.is_empty() => "the name has no address".into(),
            Ok(addresses) => {
                self.resolver.found(addresses);
                self.resolver.served();
                self.plan = Plan::Rest;
                self.earliest = self.after(at, self.again);
                self.again = self.again.saturating_mul(2).min(SELDOM);
                return None;
            }
            Err(error) => error,
        };
        self.awaited = false;
        self.plan = Plan::LookUp(self.after(at, self.resolver.wait.next));
        let host = &self.config.host;
        self.resolver.failed(failure).map(|failure| format!("cannot look up {host}: {failure}"))
    }

    /// The first of its addresses that is neither taken nor to be left alone.
    pub(crate) fn free(&self, taken: &[SocketAddr], at: Count) -> Option<SocketAddr> {
        let is_left = |address: SocketAddr| {
            let until = self.left.iter().find(|(left, _)| *left == address);
            until.is_some_and(|(_, until)| !at.at_or_after(*until))
        };
        let addresses = self.resolver.addresses().iter().map(|address| canonical(*address));
        addresses.into_iter().find(|address| !taken.contains(address) && !is_left(*address))
    }

    /// The server at that address is of no use.
    pub(crate) fn leave(&mut self, address: SocketAddr, at: Count) {
        self.left.retain(|(left, _)| *left != address);
        if self.left.len() >= MOST_LEFT {
            self.left.remove(0);
        }
        self.left.push((address, self.after(at, LEFT_ALONE)));
    }

    /// Servers lack that it has no address for.
    pub(crate) fn lacks(&mut self, at: Count) {
        if self.plan == Plan::Rest {
            // Whoever waits for the time waits for nobody that is not there.
            self.awaited = false;
            let soon = if self.earliest.at_or_after(at) { self.earliest } else { at };
            self.plan = Plan::LookUp(soon);
        }
    }

    /// All of its servers are there and answer.
    pub(crate) fn is_well(&mut self) {
        self.again = AGAIN;
        if let Plan::LookUp(_) = self.plan {
            self.plan = Plan::Rest;
        }
    }

    /// Reason why it has no server, if it has none.
    pub(crate) fn trouble(&self) -> Option<String> {
        if self.config.offline {
            return Some("offline, by your word: not looked up".into());
        }
        let host = &self.config.host;
        self.resolver.failure().map(|why| format!("cannot look up {host}: {why}"))
    }

    /// Row in `sources` while it has no server.
    pub(crate) fn report(&self, votes: bool) -> SourceReport {
        let SourceConfig { authentication, poll, origin, .. } = self.config;
        let cause = match self.resolver.failure() {
            _ if self.config.offline => Cause::Offline,
            Some(_) => Cause::NoAddress,
            None => Cause::NoReply,
        };
        let reason = Some(Reason::of(&cause, Span::ZERO));
        let (pool, trouble) = (Some(self.name.clone()), self.trouble());
        let shown = SourceReport::new(self.name.clone(), SourceKind::Server);
        SourceReport { pool, authentication, poll, vote: votes, origin, reason, trouble, ..shown }
    }

    fn after(&self, at: Count, seconds: u32) -> Count {
        at + self.nominal.counts(Span::from_secs(seconds.into()))
    }
}
