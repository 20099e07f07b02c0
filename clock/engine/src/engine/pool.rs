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
use crate::report::{Reason, SourceReport};
use crate::source::{Basis, Pool, Source, canonical};

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
            let addresses = self.members(pool.id).filter_map(|s| Some((s, s.member?.1)));
            for (source, address) in addresses.filter(|(_, a)| is_wanted(a)).take(most) {
                kept.insert(source.id(), wanted.member(address));
            }
        }
        kept
    }

    /// Servers of a pool.
    fn members(&self, pool: SourceId) -> impl Iterator<Item = &Source> {
        let is_of = move |source: &&Source| source.member.is_some_and(|(of, _)| of == pool);
        self.sources.iter().filter(is_of)
    }

    /// Name of the pool that a source is of.
    pub(super) fn pool_of(&self, source: &Source) -> Option<String> {
        let (id, _) = source.member?;
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
            if is_off {
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
                let leaves = spent.filter(|_| there >= size);
                self.take(index, address, leaves, at, actions);
            }
        }
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
        let address = |s: &Source| s.member.map(|(_, address)| address).or(s.address());
        self.sources.iter().filter_map(address).map(canonical).collect()
    }

    /// A pool takes the server at that address, in the place of one that `leaves` if it is full.
    fn take(
        &mut self,
        index: usize,
        address: SocketAddr,
        leaves: Option<SourceId>,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        let held = self.held(at);
        let gone = leaves.and_then(|id| self.sources.iter().position(|s| s.id() == id));
        let gone = gone.map(|place| self.sources.remove(place));
        let Some(pool) = self.pools.get_mut(index) else { return };
        let (id, name, wanted) = (pool.id, pool.name().to_owned(), pool.config.member(address));
        pool.is_not_waited_for();
        if let Some((_, address)) = gone.as_ref().and_then(|gone| gone.member) {
            pool.leave(address, at);
        }
        let awaited = !self.sources.iter().any(|s| s.peer.trust.is_selected());
        // Who joins later starts from what is known by then.
        let is_first = self.hand.status != Status::Synchronised;
        let known = if is_first { self.known.clone() } else { Known::default() };
        let (settings, rate, time) = (self.settings, self.known_rate(), known.time);
        let basis = Basis { settings, rate, time, own: false };
        let mut source = self.join(&wanted, &known, &held, &basis, awaited, at);
        source.member = Some((id, address));
        source.peer.role = self.config.role(&wanted);
        (source.peer.preferred, source.peer.required) = (wanted.prefer, wanted.require);
        let text = match &gone {
            None => format!("{name}: {} is one of its servers now", source.name()),
            Some(gone) => {
                let why = self.reason_of(&gone.peer, gone.unreachable(), at);
                let why = why.map_or_else(String::new, |Reason { text, .. }| format!(": {text}"));
                format!("{name}: {} takes the place of {}{why}", source.name(), gone.name())
            }
        };
        note(actions, Level::Info, text);
        self.sources.push(source);
        self.tell_intervals();
        let Some(gone) = gone else { return };
        actions.push(Action::Close { source: gone.id() });
        self.forget_gone(held, at);
        if gone.peer.trust.is_selected() {
            self.publish(at, actions);
        }
    }
}
