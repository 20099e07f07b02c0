//! The replicated state: a deterministic function of the stream, the same at every live member.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::digest::Digest;
use crate::message::{Contest, Held, Peer, Progress, Report, Snapshot, Time};
use crate::settings::Group;
use crate::steer::{self, ClockReport, Law, SPREAD_NS, Steering};
use crate::types::{Bound, Member, Mode, Order, Point, Thread};
use crate::wire;

/// Until most members have reported anew after a change of the configuration, a proposal may be
/// this much farther ahead of what had been borne out, ns: so long may the ring have stood still.
const STILL_NS: u64 = 60_000_000_000;

/// The group's clock is never set beyond this (in the year 2116), so that it can always go on.
const LATEST: i64 = i64::MAX / 2;

/// Nanoseconds beyond that are all that it can go on by; no state has come as far as this.
pub(crate) const NEVER: i64 = LATEST + LATEST / 2;

/// State that all live members have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    /// The group's time when it began.
    pub(crate) epoch: i64,
    /// Place up to which has been delivered.
    pub(crate) point: Point,
    /// The last value, with what leases reserved.
    pub(crate) last: i64,
    /// Digest of all that made this state what it is, in its order, each with its place: values and
    /// whose they are, reports, who came and went. Whoever has another has another state, or may
    /// have; messages that changed nothing do not count.
    pub(crate) history: u64,
    /// True if the clock has been set by the members' UTC since the group began.
    pub(crate) tied: bool,
    pub(crate) steering: Steering,
    /// Observers too.
    pub(crate) live: BTreeMap<Member, Peer>,
    /// Progress of the threads whose rounds are the newest.
    pub(crate) threads: BTreeMap<Thread, Progress>,
    /// Threads by the places of their last rounds, but for the group's own.
    by_age: BTreeSet<(u64, Thread)>,
    /// The next round of each other thread: beyond all that any of them has had.
    pub(crate) base: u64,
    /// Causal messages that wait, in stream order.
    pub(crate) held: VecDeque<Held>,
    pub(crate) held_bytes: usize,
    /// Rounds that programs have read unlike, ascending by thread and round.
    pub(crate) contests: Vec<Contest>,
    /// Beyond this a proposal is cut; follows from the reports and `vouched`.
    pub(crate) limit: Option<i64>,
    /// Limit without the horizon; follows from the reports.
    pub(crate) borne_out: Option<i64>,
    /// The last that was borne out.
    pub(crate) vouched: Option<i64>,
    /// The live replicas in the order in which they propose; follows from `live`.
    pub(crate) ranks: Vec<Member>,
}

/// Outcome of a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decided {
    pub(crate) value: i64,
    /// By how much the proposal was cut.
    pub(crate) cut: Option<i64>,
    /// True if it is the proposal, neither cut nor raised.
    pub(crate) as_proposed: bool,
    /// Where UTC is by the proposer's clock; none if that contradicts the majority's.
    pub(crate) utc: Option<Bound>,
}

/// Effects of a report.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Reported {
    /// The clock is tied to UTC from now on.
    pub(crate) tied: bool,
    /// The group's clock is set ahead, once.
    pub(crate) step: Option<Step>,
    /// Members newly suspected, or no longer.
    pub(crate) suspects: Vec<(Member, bool)>,
}

/// Step by which the group's clock is set ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// By how much from the view that was the farthest behind, ns.
    pub(crate) by: i64,
    /// Amount that a member adds to its view that has no UTC to go by, ns: the median.
    pub(crate) guess: i64,
    /// Members whose clocks are borne out: they take UTC from there.
    pub(crate) borne_out: Vec<Member>,
}

impl State {
    /// A group that begins: at this time, with these members.
    pub(crate) fn begin(group: &Group, floor: i64, live: BTreeMap<Member, Peer>) -> State {
        let floor = floor.min(LATEST);
        let mut state = State {
            epoch: floor,
            point: Point::default(),
            last: floor,
            history: 0,
            tied: false,
            steering: Steering::default(),
            live,
            threads: BTreeMap::new(),
            by_age: BTreeSet::new(),
            base: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            contests: Vec::new(),
            limit: None,
            borne_out: None,
            vouched: None,
            ranks: Vec::new(),
        };
        state.begin_generation(1);
        state.refresh(group);
        state
    }

    /// Works out again what follows from the live members and their reports.
    pub(crate) fn refresh(&mut self, group: &Group) {
        self.tidy_contests(group);
        self.ranks = self.order(group);
        let trusted: Vec<&Peer> = self.replicas(group).filter(|peer| !peer.suspect).collect();
        let reports: Vec<ClockReport> =
            trusted.iter().filter_map(|peer| report_of(group, peer)).collect();
        let trusted = trusted.len();
        self.borne_out = steer::limit(&reports, trusted, 0);
        self.vouched = self.borne_out.or(self.vouched);
        let still = if self.borne_out.is_some() { 0 } else { STILL_NS };
        let beyond = group.horizon_ns.saturating_add(still);
        self.limit = self.vouched.map(|vouched| vouched.saturating_add_unsigned(beyond));
    }

    /// Not below this any more, as far as that can be.
    pub(crate) fn at_least(&mut self, last: i64) {
        self.last = self.last.max(last.min(LATEST));
        self.record(&[self.last as u64]);
    }

    /// Forgets the reports, which hold no longer; who is suspected stays so until most have
    /// reported anew.
    pub(crate) fn forget_reports(&mut self) {
        self.live.values_mut().for_each(|peer| peer.report = None);
    }

    pub(crate) fn replicas<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Peer> {
        self.live.values().filter(|peer| group.counts(peer.member))
    }

    /// A member is live from now on. What others' clocks said of it was of an earlier life.
    pub(crate) fn enter(&mut self, group: &Group, peer: Peer) {
        if let Some(place) = group.place(peer.member) {
            for report in self.live.values_mut().filter_map(|peer| peer.report.as_mut()) {
                report.compared.forget(place);
            }
        }
        let Peer { member, incarnation, number, .. } = peer;
        self.record(&[member.0.into(), incarnation, number]);
        self.live.insert(member, peer);
        self.refresh(group);
    }

    /// A member is live no longer.
    pub(crate) fn leave(&mut self, group: &Group, member: Member) {
        if self.live.remove(&member).is_some() {
            self.record(&[member.0.into()]);
        }
        self.refresh(group);
    }

    /// True if this life of this member is live.
    pub(crate) fn lives(&self, member: Member, incarnation: u64) -> bool {
        self.live.get(&member).is_some_and(|peer| peer.incarnation == incarnation)
    }

    /// A generation begins, with those that are live.
    pub(crate) fn begin_generation(&mut self, generation: u64) {
        self.point.generation = generation;
        self.record(&[generation, self.epoch as u64, self.last as u64]);
        let lives: Vec<u64> =
            self.live.values().flat_map(|peer| [peer.member.0.into(), peer.incarnation]).collect();
        self.record(&lives);
    }

    /// Puts what changes the state into its history.
    pub(crate) fn record(&mut self, what: &[u64]) {
        let mut digest = Digest(self.history);
        digest.word(self.point.index);
        what.iter().for_each(|&word| digest.word(word));
        self.history = digest.0;
    }

    /// The value that this proposal makes, as the next of the group's clock. Moves it.
    pub(crate) fn decide(&mut self, group: &Group, from: Member, time: &Time) -> Decided {
        if group.order == Order::Published {
            self.last = time.group;
            self.record(&[from.0.into(), time.group as u64]);
            return Decided { value: time.group, cut: None, as_proposed: true, utc: time.utc };
        }
        let least = self.last.saturating_add(1);
        let suspect = self.live.get(&from).is_some_and(|peer| peer.suspect);
        let limit = match (suspect, group.mode) {
            // What is beyond belief moves nothing: steering would take hours to bring it back.
            (false, _) => match self.limit {
                Some(limit) if time.group > limit => self.borne_out.or(self.limit),
                limit => limit,
            },
            // Nobody else proposes: its clock goes on, but only as far as the others bear it out.
            (true, Mode::Passive) => self.borne_out.or(self.limit),
            (true, _) => self.borne_out.or(Some(least)),
        };
        let cut = limit.unwrap_or(LATEST).min(LATEST).min(time.group);
        let value = cut.max(least);
        self.last = value;
        self.record(&[from.0.into(), value as u64]);
        Decided {
            value,
            cut: (cut < time.group).then(|| time.group.saturating_sub(value)).filter(|&by| by > 0),
            as_proposed: value == time.group,
            utc: time.utc.filter(|_| !suspect),
        }
    }

    /// The next round of a thread.
    ///
    /// No round is decided twice, though threads are forgotten: for one that is not known, all
    /// numbers below `base` are taken to be decided, and no forgotten one has had any that is not.
    pub(crate) fn next(&self, thread: Thread) -> u64 {
        let unknown = if thread < Thread::FIRST { 0 } else { self.base };
        self.threads.get(&thread).map_or(unknown, |progress| progress.next)
    }

    /// A thread's next round is decided here: its number. Forgets, where there is no room for it,
    /// the thread whose last round lies furthest back.
    pub(crate) fn advance(&mut self, group: &Group, thread: Thread) -> u64 {
        let round = self.next(thread);
        let at = self.point.index;
        self.record(&[thread.0, round]);
        let before = self.threads.insert(thread, Progress { next: round.saturating_add(1), at });
        if thread < Thread::FIRST {
            return round;
        }
        if let Some(before) = before {
            self.by_age.remove(&(before.at, thread));
        } else if self.by_age.len() >= group.threads as usize
            && let Some((_, oldest)) = self.by_age.pop_first()
            && let Some(forgotten) = self.threads.remove(&oldest)
        {
            self.base = self.base.max(forgotten.next);
        }
        self.by_age.insert((at, thread));
        round
    }

    /// Takes up a live replica's report.
    pub(crate) fn report(&mut self, group: &Group, from: Member, report: Report) -> Reported {
        let mut done = Reported::default();
        if !group.counts(from) {
            return done;
        }
        let Some(peer) = self.live.get_mut(&from) else { return done };
        let before = peer.report.replace(report);
        let utc = report.utc.map_or(0, |utc| utc.best as u64);
        self.record(&[from.0.into(), report.view as u64, utc]);
        // What the others heard of it was said by a clock that has been set since.
        if before.is_some_and(|before| report.is_set_since(&before))
            && let Some(place) = group.place(from)
        {
            for report in self.live.values_mut().filter_map(|peer| peer.report.as_mut()) {
                report.compared.forget(place);
            }
        }
        let reports = self.reports(group);
        let many = self.replicas(group).count();
        if group.order == Order::Published || 2 * reports.len() <= many {
            // Too few to judge by.
            self.refresh(group);
            return done;
        }
        let verdict = steer::judge(&reports);
        for peer in self.live.values_mut() {
            let suspect = verdict.suspects(peer.member).unwrap_or(peer.suspect);
            if peer.suspect != suspect {
                peer.suspect = suspect;
                done.suspects.push((peer.member, suspect));
            }
        }
        if !self.tied && 2 * verdict.borne_out.len() > many {
            self.tied = true;
            done.tied = true;
            let gain = steer::greatest_gain(&reports, &verdict.borne_out).unwrap_or(0);
            if gain > SPREAD_NS as i64 {
                let guess = steer::median_gain(&reports, &verdict.borne_out).unwrap_or(0).max(0);
                for peer in self.live.values_mut() {
                    let Some(report) = peer.report.as_mut() else { continue };
                    let utc = report.utc.filter(|_| verdict.borne_out.contains(&peer.member));
                    report.view = match utc {
                        Some(utc) => report.view.max(utc.best),
                        None => report.view.saturating_add(guess),
                    };
                }
                done.step = Some(Step { by: gain, guess, borne_out: verdict.borne_out.clone() });
            }
        }
        let reports = self.reports(group);
        self.steering.update(Law::from(group), &reports, &verdict.borne_out);
        self.refresh(group);
        done
    }

    /// True if all replicas have reported, and all that know UTC agree with this one.
    pub(crate) fn agree_with(&self, group: &Group, member: Member) -> bool {
        let reports = self.reports(group);
        let own = reports.iter().find(|report| report.member == member);
        reports.len() == self.replicas(group).count()
            && own.is_some_and(|own| {
                reports.iter().all(|other| other.utc.is_none() || other.agrees(own))
            })
    }

    fn reports(&self, group: &Group) -> Vec<ClockReport> {
        self.replicas(group).filter_map(|peer| report_of(group, peer)).collect()
    }

    /// Copy of the state as it travels to a newcomer.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            epoch: self.epoch,
            point: self.point,
            last: self.last,
            history: self.history,
            tied: self.tied,
            steering: self.steering,
            live: self.live.values().copied().collect(),
            vouched: self.vouched,
            base: self.base,
            threads: self.threads.iter().map(|(&thread, &progress)| (thread, progress)).collect(),
            held: self.held.iter().cloned().collect(),
            contests: self.contests.clone(),
        }
    }

    /// Makes the state from a snapshot as it came.
    pub(crate) fn restore(group: &Group, snapshot: Snapshot) -> State {
        let Snapshot {
            epoch,
            point,
            last,
            history,
            tied,
            steering,
            live,
            vouched,
            base,
            threads,
            held,
            contests,
        } = snapshot;
        let ours = threads.iter().filter(|(thread, _)| *thread >= Thread::FIRST);
        let mut state = State {
            epoch,
            point,
            last,
            history,
            tied,
            steering,
            live: live.into_iter().map(|peer| (peer.member, peer)).collect(),
            by_age: ours.map(|&(thread, progress)| (progress.at, thread)).collect(),
            threads: threads.into_iter().collect(),
            base,
            held_bytes: held.iter().map(|held| held.payload.len()).sum(),
            held: held.into(),
            contests,
            limit: None,
            borne_out: None,
            vouched,
            ranks: Vec::new(),
        };
        state.refresh(group);
        state
    }

    /// Equal at members whose states are.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        digest.bytes(&wire::encode_snapshot(&self.snapshot()));
        digest.0
    }
}

fn report_of(group: &Group, peer: &Peer) -> Option<ClockReport> {
    let (report, place) = (peer.report?, group.place(peer.member)?);
    let Report { view, utc, compared } = report;
    Some(ClockReport { member: peer.member, place, view, utc, compared })
}
