//! Judgement of why a source is not where it should be: the fault is its own, our oscillator's, or
//! that of whoever it is measured by.

use truechimer_time::Count;

use super::{ALIKE, Outvoted, Put};
use crate::drift::{self, Movement};
use crate::few::Few;

/// Deviations off that show that the source has jumped, or the oscillator has: all who can tell are
/// asked …
const JUMP: f64 = 6.0;
/// … and so much beside, s.
const JUMP_LEAST: f64 = 3e-6;
/// Before its lean has been averaged for so long, what a source says next is no jump, s.
const SETTLED: f64 = 1800.0;
/// Factor by which one that is asked must be better than what is asked about ...
const ABLE: f64 = 4.0;
/// ... and whoever tells that one that was away has moved, so many times.
const ABLE_BEFORE: f64 = 16.0;
/// Share of a jump that must be new at least: what came slowly is none.
const SLOWLY: f64 = 0.5;
/// Where a source that was outvoted has stayed for so long, it leans from now on, s.
const STAYS: f64 = 3600.0;
/// Deviations elsewhere that show that it has not stayed.
const ELSEWHERE: f64 = 5.0;

/// A source that is suddenly elsewhere: was it its path, or is it our clock? The others tell by
/// their next exchange, if they are good enough.
pub(super) fn judge(put: &mut [Put], at: Count) {
    let before: Few<Put> = Few::from_slice(put);
    let crowd = before.iter().filter(|p| !p.silent).count() >= drift::CROWD;
    let nobody_drifts = before.iter().all(|p| p.silent || p.speaks());
    let mass = |p: &&Put| 1.0 / (p.mean + p.unlearnt());
    let speaking = before.iter().filter(|p| p.speaks());
    let heaviest = speaking.max_by(|a, b| mass(a).total_cmp(&mass(b))).map(|p| p.id);
    for p in put.iter_mut().filter(|p| p.silent || p.speaks()) {
        p.member.waits = false;
        let off = p.off().abs();
        let beyond = (off - JUMP_LEAST).max(0.0);
        let slowly =
            p.member.off.is_some() && p.member.suspect.is_none() && p.news().abs() < SLOWLY * off;
        if crowd && slowly {
            // It, or all that it is measured by: the others will tell.
            let waits = nobody_drifts && heaviest != Some(p.id);
            p.member.waits = waits && beyond > JUMP * p.restless();
            continue;
        }
        let is_settled = p.member.known * p.noise >= SETTLED;
        if p.member.off.is_none() && !is_settled {
            // What it leaned by before it went is hardly known.
            p.member.lean += p.off();
            (p.member.known, p.member.suspect) = (0.0, None);
            (p.member.used_to, p.member.used) = (p.member.lean, 0.0);
            continue;
        }
        if beyond * beyond <= JUMP * JUMP * p.variance() {
            p.member.suspect = None;
            continue;
        }
        if p.member.off.is_none() {
            // It is back, and not where it was when it went: as if it were new, unless those that
            // stayed can tell that it has moved.
            let able = before.iter().filter(|other| other.id != p.id && other.speaks());
            let mut able = able.filter(|other| other.member.off.is_some());
            if able.any(|other| other.restless() * ABLE_BEFORE + other.member.path.change() < off) {
                p.member.jumped += off * off;
            }
            p.member.lean += p.off();
            p.member.known = 0.0;
            (p.member.used_to, p.member.used) = (p.member.lean, 0.0);
            continue;
        }
        if !is_settled {
            p.member.suspect = None;
            continue;
        }
        let able = before.iter().filter(|other| {
            other.id != p.id
                && (other.silent || other.speaks())
                && other.member.suspect.is_none()
                && other.variance() * (ABLE * ABLE) < off * off
        });
        let Some(witness) = able.max_by_key(|other| (other.heard - at).0) else {
            p.member.suspect = None;
            continue;
        };
        let since = *p.member.suspect.get_or_insert(p.heard);
        if (witness.heard - since).0 <= 0 {
            continue;
        }
        p.member.suspect = None;
        if witness.off().abs() < off / ABLE {
            // Its own: it leans by so much more, and how far it leans is less certain.
            p.member.jumped += off * off;
            let news = p.news();
            p.member.lean += news;
            p.member.used_to += news;
            p.member.known = 0.0;
        }
    }
    let idle = |p: &Put| !p.speaks() || p.member.suspect.is_some() || p.member.waits;
    if put.iter().all(idle) {
        put.iter_mut().for_each(|p| (p.member.suspect, p.member.waits) = (None, false));
    }
}

/// Excludes one that moves against the majority from when the others have said so again, until it
/// comes back, or stays. `elapsed` is how long ago a count was, s.
pub(super) fn vote(put: &mut [Put], at: Count, elapsed: impl Fn(Count) -> f64) {
    let votes = |p: &&mut Put| !p.silent && p.member.suspect.is_none() && p.member.used >= ALIKE;
    let mut voters: Few<&mut Put> = put.iter_mut().filter(votes).collect();
    let movements: Few<Movement> = voters.iter().map(|p| p.movement()).collect();
    let out = drift::outvoted(&movements);
    let others = || voters.iter().zip(&out).filter(|(_, out)| !**out).map(|(p, _)| p.heard);
    let all_since = |count: Count| others().all(|heard| (heard - count).0 > 0);
    let mut fresh = false;
    let states: Few<Option<Outvoted>> = voters
        .iter()
        .zip(&out)
        .map(|(p, out)| {
            let by = p.moved();
            let new = Outvoted { since: at, here: at, by, sure: false };
            let mut state = p.member.outvoted.unwrap_or(new);
            if !out {
                return None;
            }
            if (by - state.by).abs() > ELSEWHERE * p.restless() {
                (state.here, state.by) = (at, by);
            }
            fresh |= !state.sure && all_since(state.since);
            state.sure |= all_since(state.since);
            Some(state)
        })
        .collect();
    for (p, state) in voters.iter_mut().zip(states) {
        p.member.outvoted = state;
        if let Some(state) = state.filter(|state| state.sure && elapsed(state.here) >= STAYS) {
            // It leans by so much more, and how far it leans is less certain.
            p.member.jumped += state.by * state.by;
            p.member.lean += p.off();
            (p.member.used_to, p.member.used) = (p.member.lean, 0.0);
            (p.member.known, p.member.off, p.member.outvoted) = (0.0, Some(0.0), None);
        }
        if fresh && state.is_none() {
            // What the one that drifts has taught of the others' leans of late is forgotten.
            p.member.lean = p.member.used_to;
            (p.member.off, p.member.waits) = (Some(p.off()), false);
        }
    }
}
