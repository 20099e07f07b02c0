//! Members connected, whether that is a primary component, and being in or out of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Engine;
use crate::event::{Action, Refusal, Unshifted};
use crate::joining::Joined;
use crate::message::{MOST_MEMBERS, Shift};
use crate::stagger::Stagger;
use crate::status::Apart;
use crate::types::{Member, Phase};

/// The configuration that this member is in. All of it but `quorate` is the same at all members of
/// the configuration at the same place of its stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Place {
    /// Members connected, ascending.
    pub(crate) connected: Vec<Member>,
    /// The mark of the last message delivered.
    pub(crate) mark: u64,
    /// Members that have asked to be let in and have not been yet.
    pub(crate) joins: BTreeMap<Member, Joined>,
    /// Members let in within this configuration: which life, by which join.
    pub(crate) admitted: BTreeMap<Member, (u64, u64)>,
    /// Members whose settings are others than ours, or their version of the protocol: which, and whether each
    /// was live at its last word.
    pub(crate) foreign: BTreeMap<Member, (Apart, bool)>,
    /// True if more than half of the universe is connected.
    pub(crate) primary: bool,
    /// Word of the layer below on the quorum.
    pub(crate) quorate: Option<bool>,
}

impl Place {
    /// True if one may be live here.
    pub(crate) fn admits(&self) -> bool {
        self.primary && self.quorate != Some(false)
    }
}

impl Engine {
    pub(crate) fn configuration(&mut self, members: &[Member], lost: &[Member]) {
        let mut connected: Vec<Member> = members.iter().copied().take(4 * MOST_MEMBERS).collect();
        connected.sort_unstable();
        connected.dedup();
        // Who has been with us all the time: the same set at each of them. A member that is in both
        // configurations but was lost in between has missed something; if that is most of the
        // universe, it is we who have.
        let stayed = |member: &Member| {
            self.place.connected.binary_search(member).is_ok()
                && connected.binary_search(member).is_ok()
                && (!lost.contains(member) || *member == self.own.member)
        };
        let stayed: BTreeSet<Member> =
            connected.iter().copied().filter(|member| stayed(member)).collect();
        let counted = |members: &mut dyn Iterator<Item = &Member>| {
            members.filter(|&&member| self.group.counts(member)).count()
        };
        let primary = self.group.majority(counted(&mut connected.iter()))
            && connected.binary_search(&self.own.member).is_ok();
        // Who is of other settings may form a group of its own: it does not bear us out.
        let mut own = stayed.iter().filter(|member| !self.place.foreign.contains_key(member));
        let continues =
            primary && !lost.contains(&self.own.member) && self.group.majority(counted(&mut own));
        self.place = Place { connected, primary, quorate: self.place.quorate, ..Place::default() };
        self.stagger = Stagger::default();
        self.transfers.clear();
        self.catching = None;
        if self.phase == Phase::Live {
            if continues {
                self.go_on(&stayed);
            } else {
                self.go_outside();
            }
        }
        self.consider_joining();
    }

    /// A member turns out to have other settings than ours, or to speak another version. Where too few
    /// are left that have ours, others may go on by theirs: all of ours see that at the same place.
    pub(crate) fn set_apart(&mut self, other: Member, why: Apart, live: bool) {
        if other == self.own.member || self.place.connected.binary_search(&other).is_err() {
            return;
        }
        self.place.foreign.insert(other, (why, live));
        if self.phase == Phase::Live && !self.is_borne_out() {
            self.go_outside();
            self.consider_joining();
        }
    }

    /// True if more than half of the universe is connected and not known to have other settings.
    pub(crate) fn is_borne_out(&self) -> bool {
        self.group.majority(self.own_replicas().count())
    }

    /// Replicas that are connected and not known to have other settings.
    pub(crate) fn own_replicas(&self) -> impl Iterator<Item = Member> + '_ {
        let ours = |member: &Member| {
            self.group.counts(*member) && !self.place.foreign.contains_key(member)
        };
        self.place.connected.iter().copied().filter(ours)
    }

    /// The primary component goes on, with those of its live members that are still there.
    fn go_on(&mut self, stayed: &BTreeSet<Member>) {
        let Some(state) = self.state.as_mut() else { return };
        let both = state.live.keys().filter(|&member| stayed.contains(member));
        if self.group.majority(both.filter(|&&member| self.group.counts(member)).count()) {
            // They have seen all of the generation that ends here, though we may not have heard so.
            let ended = state.point.generation;
            self.commits.established = self.commits.established.max(ended);
        }
        state.live.retain(|member, _| stayed.contains(member));
        state.begin_generation(state.point.generation.saturating_add(1));
        // The ring may have stood still for long: old reports would cut what is true by now.
        state.forget_reports();
        state.refresh(&self.group);
        self.outbox.report_anew();
        self.commits.generation(state.point);
        self.passed();
        // Each for itself may have waited for one that is gone: the order of proposers begins anew.
        self.threads.wait_anew(self.now.physical, true);
        self.after_departure();
    }

    /// Live members have gone.
    pub(crate) fn after_departure(&mut self) {
        let Some(state) = self.live() else { return };
        if state.ranks.is_empty() || !state.lives(self.own.member, self.own.incarnation) {
            self.go_outside();
            self.consider_joining();
        }
        self.leave_if_outnumbered();
    }

    pub(crate) fn quorum(&mut self, quorate: bool) {
        let before = self.place.admits();
        self.place.quorate = Some(quorate);
        if self.place.admits() == before {
            return;
        }
        if !quorate && self.phase == Phase::Live {
            self.go_outside();
            // The others cannot see that we do not take part any longer.
            self.outbox.leaving = true;
        }
        self.consider_joining();
    }

    /// We have missed, or are about to miss, part of the stream.
    pub(crate) fn go_outside(&mut self) {
        self.enter(Phase::Outside);
        self.transfers.clear();
        self.threads.wait_anew(self.now.physical, false);
        self.fail_commits();
        for (Shift { token, .. }, _) in std::mem::take(&mut self.outbox.shifts) {
            self.act(Action::Shifted { token, outcome: Err(Unshifted::Outside) });
        }
        for token in self.outbox.fail() {
            self.act(Action::Refused { token, why: Refusal::Outside });
        }
    }

    /// Asks to be let in, if that can be.
    pub(crate) fn consider_joining(&mut self) {
        if self.phase == Phase::Live {
            return;
        }
        self.catching = None;
        self.outbox.join = self.place.admits().then_some(self.now.physical);
        self.enter(if self.place.admits() { Phase::Joining } else { Phase::Outside });
    }
}
