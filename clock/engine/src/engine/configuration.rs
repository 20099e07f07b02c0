//! Taking over another configuration without losing what is known.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use truechimer_feedforward::TimePrior;
use truechimer_time::Count;

use super::{Engine, Known};
use crate::config::{Config, RefClockConfig, SourceConfig};
use crate::event::{Action, SourceId};
use crate::refclock::RefClock;
use crate::source::{Basis, Source};

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
        let credit = told_by.is_empty()
            || config.sources.is_empty()
            || config.sources.iter().any(|s| config.votes(s) && told_by.contains(&s.name()));
        // But not from what others had told that are all gone.
        let rate = if credit { self.known_rate() } else { self.nominal };
        let settings = self.settings;
        let basis = Basis { settings, rate, time: known.time, own: false };
        // A clock that is synchronised does not wait for those that join it.
        let stays = |s: &Source| {
            s.peer.trust.is_selected() && config.sources.iter().any(|w| s.is(w) && config.votes(w))
        };
        let awaited = !self.sources.iter().any(stays);
        let led = |s: &Source| s.peer.trust.is_selected();
        let mut lost_selected = false;
        let held = self.held(at);
        let mut old: BTreeMap<u32, Source> =
            core::mem::take(&mut self.sources).into_iter().map(|s| (s.id().0, s)).collect();
        for wanted in &config.sources {
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
                    source
                }
                None => {
                    let id = SourceId(self.next_id);
                    self.next_id += 1;
                    let name = wanted.name();
                    let held = held.iter().find(|held| held.server == name);
                    let held = held.and_then(|held| held.prior(&self.hand));
                    let agreed = known.time.and_then(|_| known.agreed.get(&name).copied());
                    let of_page =
                        known.time.map(|time| TimePrior { known: agreed.flatten(), ..time });
                    let (time, agreed) = (held.or(of_page), agreed.is_some());
                    let basis = Basis { time, own: agreed || held.is_some(), ..basis };
                    let mut source =
                        Source::new(id, wanted.clone(), &*self.method, &basis, awaited, at);
                    source.peer.trust.agreed = agreed && held.is_none();
                    source.peer.trust.overruled = known.overruled.contains(&name);
                    source
                }
            };
            self.sources.push(source);
        }
        // What is held against those that go, or have yet to answer, is not lost.
        let answered =
            |name: &str| self.sources.iter().any(|s| s.name() == name && s.peer.filter.knows(at));
        self.inherited = held.into_iter().filter(|held| !answered(&held.server)).collect();
        lost_selected |= old.values().any(led);
        actions.extend(old.values().map(|s| Action::Close { source: s.id() }));
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
                    let id = SourceId(self.next_id);
                    self.next_id += 1;
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
        let there: Vec<SourceId> = self.peers().map(|peer| peer.id).collect();
        self.combination.keep(|id| there.contains(&SourceId(id)));
        self.change_log.keep(|id| there.contains(&SourceId(id)));
        self.likeness.keep(|id| there.contains(&id));
        if lost_selected {
            self.publish(at, actions);
        }
    }
}
