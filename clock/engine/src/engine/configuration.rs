//! Taking over another configuration without losing what is known.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use truechimer_feedforward::TimePrior;
use truechimer_time::Count;

use super::{Engine, Known};
use crate::config::{Config, RefClockConfig, SourceConfig};
use crate::event::{Action, SourceId, Start};
use crate::hold_off::Held;
use crate::refclock::RefClock;
use crate::source::{Basis, Pool, Source};

impl Engine {
    pub(super) fn configure(
        &mut self,
        config: Config,
        known: &Known,
        at: Count,
        actions: &mut Vec<Action>,
    ) {
        self.settings.max_wander = config.max_wander;
        self.settings.accept_step_after = config.accept_step_after;
        // Who joins later starts from what is known by then.
        let told_by = &self.gate.told_by;
        // A pool goes on with the servers that it has.
        let kept = self.kept(&config);
        let of_pools = kept.values().filter(|member| config.votes(member));
        let voters = config.sources.iter().filter(|s| config.votes(s)).chain(of_pools);
        let credit = told_by.is_empty()
            || config.sources.is_empty()
            || voters.map(SourceConfig::name).any(|name| told_by.contains(&name));
        // But not from what others had told that are all gone.
        let rate = if credit { self.known_rate() } else { self.nominal };
        let settings = self.settings;
        let basis = Basis { settings, rate, time: known.time, own: false };
        // A clock that is synchronised does not wait for those that join it.
        let stays = |s: &Source| {
            let wanted = config.sources.iter().find(|w| s.is(w)).or(kept.get(&s.id()));
            s.peer.trust.is_selected() && wanted.is_some_and(|wanted| config.votes(wanted))
        };
        let awaited = !self.sources.iter().any(stays);
        let led = |s: &Source| s.peer.trust.is_selected();
        let mut lost_selected = false;
        let held = self.held(at);
        let mut old: BTreeMap<u32, Source> =
            core::mem::take(&mut self.sources).into_iter().map(|s| (s.id().0, s)).collect();
        let mut pools = core::mem::take(&mut self.pools);
        let single = config.sources.iter().filter(|wanted| wanted.pool.is_none());
        let wanted = single.map(|wanted| (wanted, false)).chain(kept.values().map(|w| (w, true)));
        for (wanted, is_member) in wanted {
            if self.sources.iter().any(|s| s.is(wanted)) {
                continue;
            }
            let kept = old.iter().find(|(_, s)| s.is(wanted)).map(|(id, _)| *id);
            let source = match kept.and_then(|id| old.remove(&id)) {
                Some(mut source) => {
                    lost_selected |= led(&source) && config.role(wanted) != source.peer.role;
                    source.reconfigure(wanted.clone(), at);
                    source.peer.filter.set_max_wander(config.max_wander);
                    source.peer.filter.set_accept_step_after(config.accept_step_after);
                    source.member = source.member.filter(|_| is_member);
                    source
                }
                None => self.join(wanted, known, &held, &basis, awaited, at),
            };
            self.sources.push(source);
        }
        for wanted in config.sources.iter().filter(|wanted| wanted.pool.is_some()) {
            let same = pools.iter().position(|pool| pool.is(wanted)).map(|at| pools.remove(at));
            let pool = match same {
                Some(mut pool) => {
                    pool.reconfigure(wanted.clone(), at);
                    pool
                }
                None => {
                    let (id, nominal) = (self.new_id(), self.settings.nominal);
                    Pool::new(id, wanted.clone(), nominal, awaited, at)
                }
            };
            self.pools.push(pool);
        }
        lost_selected |= old.values().any(led);
        for gone in old.values() {
            actions.extend(gone.farewell());
            actions.push(Action::Close { source: gone.id() });
        }
        let mut old = core::mem::take(&mut self.refclocks);
        for wanted in &config.refclocks {
            if self.refclocks.iter().any(|r| r.config.is_same_clock(wanted)) {
                continue;
            }
            let kept = old.iter().position(|r| r.is(wanted)).map(|index| old.remove(index));
            let refclock = match kept {
                Some(mut refclock) => {
                    refclock.reconfigure(wanted.clone());
                    refclock.peer.filter.set_max_wander(config.max_wander);
                    if refclock.votes() {
                        refclock.peer.filter.set_accept_step_after(config.accept_step_after);
                    }
                    refclock
                }
                None => {
                    let id = self.new_id();
                    RefClock::new(id, wanted.clone(), &*self.method, basis, at)
                }
            };
            self.refclocks.push(refclock);
        }
        lost_selected |= old.iter().any(|r| r.peer.trust.is_selected());
        actions.extend(old.iter().map(|r| Action::Close { source: r.peer.id }));
        if self.config.discipline && !config.discipline {
            actions.extend(self.servo.rest().map(Action::Steer));
            actions.extend(self.kernel.nothing().map(Action::Steer));
        }
        for source in &mut self.sources {
            let SourceConfig { prefer, require, .. } = source.config;
            source.peer.role = config.role(&source.config);
            (source.peer.preferred, source.peer.required) = (prefer, require);
        }
        for refclock in &mut self.refclocks {
            let RefClockConfig { prefer, require, .. } = refclock.config;
            (refclock.peer.preferred, refclock.peer.required) = (prefer, require);
        }
        self.config = config;
        self.tell_intervals();
        self.forget_gone(held, at);
        if lost_selected {
            self.publish(at, actions);
        }
    }

    /// Forgets those that are no longer asked, but not what is held against them, or against those that
    /// have yet to answer.
    pub(super) fn forget_gone(&mut self, held: Vec<Held>, at: Count) {
        let answered =
            |name: &str| self.sources.iter().any(|s| s.name() == name && s.peer.filter.knows(at));
        self.inherited = held.into_iter().filter(|held| !answered(&held.server)).collect();
        let there: Vec<SourceId> = self.peers().map(|peer| peer.id).collect();
        self.combination.keep(|id| there.contains(&SourceId(id)));
        self.change_log.keep(|id| there.contains(&SourceId(id)));
        self.likeness.keep(|id| there.contains(&id));
    }

    /// A source that is new: it begins with what is known of it.
    pub(super) fn join(
        &mut self,
        wanted: &SourceConfig,
        known: &Known,
        held: &[Held],
        basis: &Basis,
        awaited: bool,
        at: Count,
    ) -> Source {
        let name = wanted.name();
        let held = held.iter().find(|held| held.server == name);
        let held = held.and_then(|held| held.prior(&self.hand));
        let agreed = known.time.and_then(|_| known.agreed.get(&name).copied());
        let of_page = known.time.map(|time| TimePrior { known: agreed.flatten(), ..time });
        let (time, agreed) = (held.or(of_page), agreed.is_some());
        let basis = Basis { time, own: agreed || held.is_some(), ..*basis };
        let id = self.new_id();
        let mut source = Source::new(id, wanted.clone(), &*self.method, &basis, awaited, at);
        source.peer.trust.agreed = agreed && held.is_none();
        source.peer.trust.overruled = known.overruled.contains(&name);
        if let Some(path) = known.paths.iter().find(|path| path.server == name) {
            source.remember_path(path.clone());
        }
        source
    }

    fn new_id(&mut self) -> SourceId {
        let id = SourceId(self.next_id);
        self.next_id += 1;
        id
    }
}

/// Those whose word the clock page has, if that is known, and none of them is followed now.
pub(super) fn strangers(config: &Config, start: &Start) -> Option<String> {
    let (warm, saved) = (start.warm.as_ref()?, start.saved.as_ref()?);
    let tellers = saved.agreed.as_ref()?.tellers(warm);
    let voters = || config.sources.iter().filter(|source| config.votes(source));
    // Who the servers of a pool are is not known yet.
    let followed =
        |name: &String| voters().any(|source| source.pool.is_some() || source.name() == *name);
    let strange = !tellers.is_empty() && !tellers.iter().any(followed);
    strange.then(|| tellers.join(", "))
}
