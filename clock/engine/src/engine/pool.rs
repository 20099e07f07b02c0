//! Servers of pools: which addresses are followed, and by which others they are replaced.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use rand_core::Rng;
use truechimer_time::Count;
use truechimer_timehands::Status;

use super::{Engine, Known, note};
use crate::config::{Config, SourceConfig};
use crate::event::{Action, Level, SourceId};
use crate::peer::{Interval, Role};
use crate::report::{Reason, SourceReport};
use crate::source::{Basis, Member, Pool, Source, canonical};

impl Engine {
    /// The answer to a look-up.
    pub(super) fn resolved(
        &mut self,
        id: SourceId,
        result: &Result<Vec<SocketAddr>, String>,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.id == id) {
            let trouble = pool.resolved(result.clone(), at);
            if let Some(trouble) = trouble {
                note(actions, Level::Warning, format!("{}: {trouble}", pool.name()));
            }
            return;
        }
        // Drawn for what failed alone: nothing else waits.
        let early = if result.is_err() { self.random.next_u64() } else { 0 };
        let others = self.sources.iter().filter(|other| other.id() != id);
        let taken: Vec<SocketAddr> = others.filter_map(Source::address).map(canonical).collect();
        let Some(source) = self.source(id) else { return };
        // Names of a pool may have the same addresses: each source takes one of its own.
        let result = result.clone().map(|mut addresses| {
            addresses.sort_by_key(|address| taken.contains(&canonical(*address)));
            addresses
        });
        if let Some(error) = source.resolved(result, at, early) {
            note(actions, Level::Warning, format!("{}: {error}", source.name()));
        }
    }

    /// Servers of pools that are wanted by another configuration as well, with what it says of them.
    pub(super) fn kept(&self, config: &Config) -> BTreeMap<SourceId, SourceConfig> {
        let mut kept = BTreeMap::new();
        for wanted in &config.sources {
            let Some(pool) = self.pools.iter().find(|pool| pool.is(wanted)) else { continue };
            let most = wanted.pool.and_then(|most| usize::try_from(most).ok()).unwrap_or(0);
            let is_wanted = |address: &SocketAddr| wanted.family.is_none_or(|f| f.has(*address));
            // One that is on trial is tried anew.
            let members = self.members(pool.id).filter(|s| !s.is_on_trial());
            let addresses = members.filter_map(|s| Some((s, s.member?.address)));
            for (source, address) in addresses.filter(|(_, a)| is_wanted(a)).take(most) {
                kept.insert(source.id(), wanted.member(address));
            }
        }
        kept
    }

    /// Servers of a pool.
    fn members(&self, pool: SourceId) -> impl Iterator<Item = &Source> {
        let is_of = move |source: &&Source| source.member.is_some_and(|member| member.pool == pool);
        self.sources.iter().filter(is_of)
    }

    /// Name of the pool that a source is of.
    pub(super) fn pool_of(&self, source: &Source) -> Option<String> {
        let id = source.member?.pool;
        self.pools.iter().find(|pool| pool.id == id).map(|pool| pool.name().to_owned())
    }

    /// Rows in `sources` of pools that have no server.
    pub(super) fn empty_pools(&self) -> impl Iterator<Item = SourceReport> {
        let empty = |pool: &&Pool| self.members(pool.id).next().is_none();
        self.pools.iter().filter(empty).map(|pool| pool.report(self.config.votes(&pool.config)))
    }

    /// Has names of pools looked up, servers joined that lack, and those replaced that are of no use.
    pub(super) fn tend_pools(&mut self, at: Count, actions: &mut Vec<Action>) {
        self.look_at_members(at);
        for index in 0..self.pools.len() {
            let Some(pool) = self.pools.get_mut(index) else { continue };
            actions.extend(pool.act(at));
            let (id, size, is_off) = (pool.id, pool.size(), pool.config.offline);
            if is_off || self.judge_newcomer(index, at, actions) {
                continue;
            }
            loop {
                let there = self.members(id).count();
                let spent = self.spent(id, at);
                let lacks = there < size || spent.is_some();
                let taken = self.taken();
                let Some(pool) = self.pools.get_mut(index) else { break };
                let Some(address) = pool.free(&taken, at).filter(|_| lacks) else {
                    let silent = |s: &Source| s.peer.tally.reach == 0;
                    let silent = self.members(id).any(silent);
                    let Some(pool) = self.pools.get_mut(index) else { break };
                    match lacks {
                        true => pool.lacks(at),
                        false if !silent => pool.is_well(),
                        false => {}
                    }
                    break;
                };
                match spent.filter(|_| there >= size) {
                    None => self.join_pool(index, address, at, actions),
                    Some(leaves) if self.knows(leaves, at) => {
                        self.try_out(index, address, leaves, at, actions);
                        break;
                    }
                    Some(leaves) => self.replace(index, address, leaves, at, actions),
                }
            }
        }
    }

    /// Lets the newcomer of a pool take the place that it is there for, or go, if either is due. Returns
    /// whether it has yet to answer.
    fn judge_newcomer(&mut self, index: usize, at: Count, actions: &mut Vec<Action>) -> bool {
        let Some(pool) = self.pools.get(index) else { return false };
        let place = |s: &Source| Some((s.id(), s.member?.instead_of?));
        let Some((id, leaves)) = self.members(pool.id).find_map(place) else { return false };
        let Some(newcomer) = self.sources.iter().find(|s| s.id() == id) else { return false };
        let is_wanted = self.sources.iter().any(|s| s.id() == leaves && s.is_spent(at));
        let (says, is_spent) = (newcomer.peer.says_between(at), newcomer.is_spent(at));
        let (pool, name) = (pool.name().to_owned(), newcomer.name().to_owned());
        let text = match says {
            _ if !is_wanted => format!("{pool}: {name} is not needed any more"),
            _ if self.is_asked_twice(newcomer) => {
                format!("{pool}: {name} is left: another source is that server")
            }
            Some(says) if !self.contradicts(says, at) => {
                self.promote(index, id, leaves, at, actions);
                return false;
            }
            Some(_) => format!("{pool}: {name} is left: it contradicts the clock"),
            None if is_spent => format!("{pool}: {name} is left: it does not answer"),
            None => return true,
        };
        note(actions, Level::Info, text);
        let gone = self.let_go(id, at, actions);
        let address = gone.and_then(|gone| gone.member).filter(|_| is_wanted);
        if let (Some(pool), Some(member)) = (self.pools.get_mut(index), address) {
            pool.leave(member.address, at);
        }
        false
    }

    /// True if another source that is heard has that source's server by now: a name that has been led there.
    fn is_asked_twice(&self, source: &Source) -> bool {
        let Some(its) = source.address().map(canonical) else { return false };
        let is_there =
            |s: &Source| [s.address().map(canonical), s.heard_from()].contains(&Some(its));
        self.sources.iter().any(|s| s.id() != source.id() && s.is_heard() && is_there(s))
    }

    /// True if that interval lies beside what the clock promises.
    fn contradicts(&self, (from, to): Interval, at: Count) -> bool {
        let (time, [before, after]) = (self.hand.time_at(at), self.hand.reach_at(at));
        self.hand.status.bound_holds() && (to < time - before || time + after < from)
    }

    /// True if a source knows the time, so that its vote would be missed.
    fn knows(&self, id: SourceId, at: Count) -> bool {
        let knows = |s: &Source| s.peer.filter.knows(at) && s.peer.trust.same_server().is_none();
        self.sources.iter().any(|s| s.id() == id && knows(s))
    }

    /// Tells servers of pools that are about to be asked whether others answer and agree.
    fn look_at_members(&mut self, at: Count) {
        for index in 0..self.sources.len() {
            let due = |s: &&Source| s.deadline().is_some_and(|due| at.at_or_after(due));
            let member = self.sources.get(index).filter(|s| s.member.is_some()).filter(due);
            let Some(id) = member.map(Source::id) else { continue };
            let speaks = |s: &Source| {
                s.votes() && s.peer.filter.is_fresh(at) && s.peer.trust.votes_with_most()
            };
            let others = self.sources.iter().any(|s| s.id() != id && speaks(s));
            if let Some(source) = self.sources.get_mut(index) {
                source.others_speak = others;
            }
        }
    }

    /// A server of that pool that is of no use, if there is one.
    fn spent(&self, pool: SourceId, at: Count) -> Option<SourceId> {
        self.members(pool).find(|source| source.is_spent(at)).map(Source::id)
    }

    /// Addresses that are asked already, or were the last that was asked.
    fn taken(&self) -> Vec<SocketAddr> {
        let address = |s: &Source| s.member.map(|member| member.address).or(s.address());
        self.sources.iter().filter_map(address).map(canonical).collect()
    }

    /// A pool that lacks servers takes the one at that address.
    fn join_pool(
        &mut self,
        index: usize,
        address: SocketAddr,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let Some((pool, name)) = self.take(index, address, None, at) else { return };
        note(actions, Level::Info, format!("{pool}: {name} is one of its servers now"));
    }

    /// Has the server at that address asked beside the one that `leaves` once the other has answered:
    /// until then it has no vote.
    fn try_out(
        &mut self,
        index: usize,
        address: SocketAddr,
        leaves: SourceId,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let Some((pool, name)) = self.take(index, address, Some(leaves), at) else { return };
        let old = self.name_of(leaves);
        let text = format!("{pool}: {name} is asked too, as {old} is of no use");
        note(actions, Level::Info, text);
    }

    /// A pool takes the server at that address in the place of one that knows nothing.
    fn replace(
        &mut self,
        index: usize,
        address: SocketAddr,
        leaves: SourceId,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let Some((why, led)) = self.leave(index, leaves, at, actions) else { return };
        let Some((pool, name)) = self.take(index, address, None, at) else { return };
        note(actions, Level::Info, format!("{pool}: {name} takes the place of {why}"));
        if led {
            self.publish(at, actions);
        }
    }

    /// A newcomer has answered: it takes the place of the one that `leaves`, and has a vote if that
    /// had one.
    fn promote(
        &mut self,
        index: usize,
        id: SourceId,
        leaves: SourceId,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let Some((why, _)) = self.leave(index, leaves, at, actions) else { return };
        let pool = self.pools.get(index).map_or_else(String::new, |pool| pool.name().to_owned());
        let Some(source) = self.sources.iter_mut().find(|s| s.id() == id) else { return };
        source.peer.role = self.config.role(&source.config);
        source.member = source.member.map(|member| Member { instead_of: None, ..member });
        let text = format!("{pool}: {} takes the place of {why}", source.name());
        note(actions, Level::Info, text);
        self.publish(at, actions);
    }

    /// A pool takes the server at that address, in addition to those that it has. Returns both names.
    fn take(
        &mut self,
        index: usize,
        address: SocketAddr,
        instead_of: Option<SourceId>,
        at: Count,
    ) -> Option<(String, String)> {
        let held = self.held(at);
        let pool = self.pools.get_mut(index)?;
        let (pool_name, wanted) = (pool.name().to_owned(), pool.config.member(address));
        let member = Member { pool: pool.id, address, instead_of };
        pool.is_not_waited_for();
        let awaited = !self.sources.iter().any(|s| s.peer.trust.is_selected());
        // Who joins later starts from what is known by then.
        let is_first = self.hand.status != Status::Synchronised;
        let known = if is_first { self.known.clone() } else { Known::default() };
        let (settings, rate, time) = (self.settings, self.known_rate(), known.time);
        let basis = Basis { settings, rate, time, own: false };
        let mut source = self.join(&wanted, &known, &held, &basis, awaited, at);
        let name = source.name().to_owned();
        source.member = Some(member);
        source.peer.role = match instead_of {
            Some(_) => Role::Watched,
            None => self.config.role(&wanted),
        };
        (source.peer.preferred, source.peer.required) = (wanted.prefer, wanted.require);
        self.sources.push(source);
        self.tell_intervals();
        Some((pool_name, name))
    }

    /// A server of a pool that is of no use goes, and its address is left alone. Returns its name with
    /// the reason, and whether it led.
    fn leave(
        &mut self,
        index: usize,
        id: SourceId,
        at: Count,
        actions: &mut Vec<Action>,
    ) -> Option<(String, bool)> {
        let source = self.sources.iter().find(|s| s.id() == id)?;
        let why = self.reason_of(&source.peer, source.unreachable(), at);
        let why = why.map_or_else(String::new, |Reason { text, .. }| format!(": {text}"));
        let gone = self.let_go(id, at, actions)?;
        if let (Some(pool), Some(member)) = (self.pools.get_mut(index), gone.member) {
            pool.leave(member.address, at);
        }
        Some((format!("{}{why}", gone.name()), gone.peer.trust.is_selected()))
    }

    /// Asks a source no more.
    fn let_go(&mut self, id: SourceId, at: Count, actions: &mut Vec<Action>) -> Option<Source> {
        let held = self.held(at);
        let place = self.sources.iter().position(|s| s.id() == id)?;
        let gone = self.sources.remove(place);
        actions.push(Action::Close { source: id });
        self.forget_gone(held, at);
        Some(gone)
    }
}
