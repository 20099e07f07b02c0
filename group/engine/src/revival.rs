//! Where nobody has gone on: all that are connected revive what they kept, or begin.

use std::collections::BTreeMap;

use crate::catching::Catching;
use crate::engine::Engine;
use crate::event::Notice;
use crate::joining::Joined;
use crate::message::{Join, Peer, Run, Stage};
use crate::state::State;
use crate::types::{Member, Order, Phase, Point};
use crate::view::View;

impl Engine {
    /// If nobody is live, by whatever settings: all connected replicas have asked to be let in.
    pub(crate) fn resume(&mut self) {
        if !self.place.primary || self.phase == Phase::Live {
            return;
        }
        if self.place.foreign.values().any(|&(_, live)| live) {
            // Those of the list before, or of the one before that, are still more than half of it.
            return;
        }
        let replicas: Vec<Member> = self.own_replicas().collect();
        if !self.is_borne_out()
            || !replicas.iter().all(|member| self.place.joins.contains_key(member))
        {
            return;
        }
        let joined: BTreeMap<Member, Joined> = replicas
            .iter()
            .filter_map(|member| Some((*member, self.place.joins.get(member)?.clone())))
            .collect();
        let chosen = choose(&joined);
        let at = self.place.mark;
        for member in &chosen {
            if let Some(joined) = self.place.joins.remove(member) {
                let admitted = (joined.incarnation, joined.join.number);
                self.place.admitted.insert(*member, admitted);
            }
        }
        self.place.joins.values_mut().for_each(|joined| joined.at = at);
        if !chosen.contains(&self.own.member) {
            if self.place.joins.contains_key(&self.own.member) && self.place.admits() {
                self.catching = Some(Catching::new(at));
                self.outbox.catches(self.now.physical);
            }
            return;
        }
        self.outbox.let_in(joined.get(&self.own.member).map_or(0, |own| own.join.number));
        let peers: BTreeMap<Member, Peer> = chosen
            .iter()
            .filter_map(|member| {
                let joined = joined.get(member)?;
                let fence = joined.join.fence;
                let stage = if fence.is_some() { Stage::Fenced } else { Stage::None };
                let peer = Peer {
                    member: *member,
                    incarnation: joined.incarnation,
                    number: joined.join.number,
                    since: 0,
                    place: 0,
                    drained: joined.join.drained,
                    gives: joined.join.checkpoint,
                    suspect: false,
                    report: joined.join.report,
                    run: Run { stage, ..Run::default() },
                    fence,
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
        if let Some(fence) = self.start.unlike().filter(|_| !self.start.is_fenced()) {
            // There is no other state for its program to take.
            self.deprive(fence);
            self.notice(Notice::Fenced { member: self.own.member, fence });
        }
        self.serve();
    }

    fn begin(&mut self, joined: &BTreeMap<Member, Joined>, peers: BTreeMap<Member, Peer>) {
        let floor = joined.values().filter_map(|joined| joined.join.floor).max();
        let mut utc: Vec<i64> =
            joined.values().filter_map(|joined| Some(joined.join.report?.utc?.best)).collect();
        utc.sort_unstable();
        let known = utc.get((utc.len().max(1) - 1) / 2).copied();
        let state = State::begin(&self.group, floor.max(known).unwrap_or(0), peers);
        let start = state.last;
        let physical = self.now.physical;
        let own = self.now.utc.map_or(physical, |utc| utc.best);
        self.view = Some(match self.group.order {
            Order::Published => View::new(physical, physical),
            Order::Monotone => View::new(physical, own.max(start)),
        });
        self.guess = self.group.order == Order::Monotone && self.now.utc.is_none();
        self.commits.enter(&state);
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
            state.at_least(last.unwrap_or(state.last));
        }
        if !self.group.majority(kept) {
            // Others may have begun anew meanwhile; this is the later one from now on.
            state.epoch = state.epoch.max(state.last).max(floor.unwrap_or(state.epoch));
            self.commits.established = 0;
        }
        let before = std::mem::replace(&mut state.live, peers);
        for (member, peer) in &mut state.live {
            let Some(before) = before.get(member) else { continue };
            peer.since = before.since;
            if peer.incarnation == before.incarnation {
                (peer.run, peer.fence) = (before.run, before.fence);
            }
        }
        state.begin_generation(generation.saturating_add(1));
        state.refresh(&self.group);
        let last = state.last;
        self.commits.enter(state);
        if let Some(view) = self.view.as_mut()
            && self.group.order == Order::Monotone
        {
            view.at_least(self.now.physical, last);
        }
        self.notice(Notice::Revived { members: many });
        self.keep_ahead(last);
    }
}

/// Members whose state goes on: of those that can have gone on longest, the ones that agree. All,
/// if nobody has kept anything.
fn choose(joined: &BTreeMap<Member, Joined>) -> Vec<Member> {
    // A generation that one has heard a majority in had one for all that are in it. Who has not
    // heard of that may have more of it, and have given it out.
    let known = |epoch: i64, generation: u64| {
        let standings = joined.values().filter_map(|joined| joined.join.standing);
        standings.into_iter().any(|it| it.epoch == epoch && it.established == generation)
    };
    // What a majority has gone away from goes on last: none has acknowledged what came after that.
    let rank = |joined: &Joined| {
        let it = joined.join.standing?;
        let Point { generation, index } = it.point;
        let established = if known(it.epoch, generation) { generation } else { it.established };
        Some((it.epoch, established, generation, !it.outnumbered, it.confirmed, index))
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
    let most = most.unwrap_or_default();
    // One whose program differs waits for another's state, if there is one.
    let waits = |join: &Join| join.checkpoint && join.fence.is_some();
    let alike = |member: &&Member| joined.get(*member).is_some_and(|it| !waits(&it.join));
    let alike: Vec<Member> = most.iter().filter(alike).copied().collect();
    if alike.is_empty() { most } else { alike }
}
