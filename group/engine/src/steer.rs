//! The tie to real time: what the members report of their clocks makes the steering of the group's.
//!
//! Pure functions of reports that all members have in the same order, in integers throughout: each
//! member comes to the same result. Nothing here trusts one report: the offset is a median, whose
//! clock is wrong is decided by majority, and no result can overflow.

use crate::compared::Compared;
use crate::settings::Group;
use crate::types::{Member, Utc};

#[cfg(test)]
mod tests;

/// By how much the group's clock may be behind UTC when it is tied to it without being set ahead,
/// ns.
pub(crate) const SPREAD_NS: u64 = 5_000_000;

/// The longest time that one report's offset is taken to have lasted, ns.
const LONGEST_STEP_NS: i64 = 10_000_000_000;

/// The shortest steering time in steps of the reports: steering faster than it hears would swing.
const STEPS_PER_STEERING_TIME: i128 = 4;

/// Readings of a member's clocks at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClockReport {
    /// Member that reports.
    pub(crate) member: Member,
    /// Which of the universe's members that is.
    pub(crate) place: usize,
    /// View that it has of the group's clock, ns.
    pub(crate) view: i64,
    /// UTC by its clock; none if that is not synchronised.
    pub(crate) utc: Option<Utc>,
    /// Comparison of its clock with the others'.
    pub(crate) compared: Compared,
}

impl ClockReport {
    /// UTC − the group's clock, ns: what the group's clock should gain. None without UTC.
    fn gain(&self) -> Option<i128> {
        Some(i128::from(self.utc?.best) - i128::from(self.view))
    }

    /// True if each of the two has heard the other, and both can be right.
    pub(crate) fn agrees(&self, other: &ClockReport) -> bool {
        let heard = |a: &ClockReport, b: &ClockReport| a.compared.possible.contains(b.place);
        self.place == other.place || (heard(self, other) && heard(other, self))
    }

    /// True if one of the two has heard from the other what cannot be.
    fn contradicts(&self, other: &ClockReport) -> bool {
        let ahead = |a: &ClockReport, b: &ClockReport| a.compared.ahead.contains(b.place);
        self.place != other.place && (ahead(self, other) || ahead(other, self))
    }
}

/// Verdict on whose clocks can be right.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verdict {
    /// Those that more than half of the synchronised ones agree with, themselves counted.
    pub(crate) borne_out: Vec<Member>,
    /// Those that cannot be borne out, as so many contradict them, while others are.
    contradicted: Vec<Member>,
    /// Those that have no UTC.
    silent: Vec<Member>,
}

impl Verdict {
    /// True if its clock contradicts the majority's; none where that is not known.
    pub(crate) fn suspects(&self, member: Member) -> Option<bool> {
        if self.contradicted.contains(&member) {
            return Some(true);
        }
        let cleared = self.borne_out.contains(&member) || self.silent.contains(&member);
        cleared.then_some(false)
    }
}

/// Judges the clocks of the live members by what they say of each other (one report for each).
///
/// Where no clock is borne out there is no majority, and nobody is suspected. Between being borne
/// out and being suspect there is not being known: then it stays as it was. Members without UTC are
/// not asked and never suspected.
pub(crate) fn judge(reports: &[ClockReport]) -> Verdict {
    let (known, silent): (Vec<&ClockReport>, Vec<&ClockReport>) =
        reports.iter().partition(|report| report.utc.is_some());
    let majority = known.len() / 2 + 1;
    let agree = |one: &ClockReport| known.iter().filter(|other| one.agrees(other)).count();
    // Who has not been heard yet may still come to agree.
    let may_agree = |one: &ClockReport| known.iter().filter(|it| !one.contradicts(it)).count();
    let borne_out: Vec<Member> =
        known.iter().filter(|one| agree(one) >= majority).map(|one| one.member).collect();
    let lost = |one: &&&ClockReport| !borne_out.is_empty() && may_agree(one) < majority;
    let contradicted = known.iter().filter(lost).map(|one| one.member).collect();
    let silent = silent.iter().map(|report| report.member).collect();
    Verdict { borne_out, contradicted, silent }
}

/// The median of what those that are borne out say the group's clock should gain, ns (UTC − group);
/// between the two in the middle if they are even in number.
pub(crate) fn median_gain(reports: &[ClockReport], borne_out: &[Member]) -> Option<i64> {
    let trusted = reports.iter().filter(|report| borne_out.contains(&report.member));
    median(trusted.filter_map(ClockReport::gain).collect()).map(to_i64)
}

/// The greatest of these gains, ns: from the view that is the farthest behind.
pub(crate) fn greatest_gain(reports: &[ClockReport], borne_out: &[Member]) -> Option<i64> {
    let trusted = reports.iter().filter(|report| borne_out.contains(&report.member));
    trusted.filter_map(ClockReport::gain).max().map(to_i64)
}

/// The newest group time that more than half of `live` members' reports bear out, and the horizon
/// beyond it, ns: a proposal that is farther ahead is cut there. None while too few have reported.
pub(crate) fn limit(reports: &[ClockReport], live: usize, horizon_ns: u64) -> Option<i64> {
    let mut views: Vec<i64> = reports.iter().map(|report| report.view).collect();
    views.sort_unstable_by(|a, b| b.cmp(a));
    let newest = *views.get(live / 2)?;
    Some(newest.saturating_add_unsigned(horizon_ns))
}

/// Law by which steering answers to an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Law {
    /// The time in which it takes away an offset, ns, 1 or more.
    pub(crate) time_ns: u64,
    /// The greatest rate, parts in 10⁹; what is beyond 999 999 999 is not used, so that the group's
    /// clock always goes forward.
    pub(crate) cap_ppb: u32,
}

impl From<&Group> for Law {
    fn from(group: &Group) -> Law {
        Law { time_ns: group.steering_time_ns, cap_ppb: group.steering_cap_ppb }
    }
}

impl Law {
    fn cap_ppb(&self) -> i128 {
        i128::from(self.cap_ppb.min(999_999_999))
    }
}

/// Steering of the group's clock: part of the state that all members have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Steering {
    /// Rate of the group's clock above that of the members' physical clocks, parts in 10⁹.
    pub(crate) rate_ppb: i32,
    /// The lasting part of it, which makes up for what the physical clocks are off, parts in 10¹².
    pub(crate) trend_ppt: i64,
    /// The group time that the last update was for, ns.
    pub(crate) updated: Option<i64>,
}

impl Steering {
    /// Takes up the live members' last reports, a new one among them.
    ///
    /// A proportional and an integral part, critically damped: an offset is taken away in the
    /// steering time, and a rate by which the physical clocks are off leaves no offset. The time
    /// between two updates is the median of the reports' too, so that one wild report changes
    /// nothing of either. Where no majority bears out any clock, the lasting part goes on.
    pub(crate) fn update(&mut self, law: Law, reports: &[ClockReport], borne_out: &[Member]) {
        let cap = law.cap_ppb();
        let now = median(reports.iter().map(|report| report.view.into()).collect()).map(to_i64);
        let step = match (self.updated, now) {
            (Some(before), Some(now)) => now.saturating_sub(before).clamp(0, LONGEST_STEP_NS),
            _ => 0,
        };
        self.updated = now.or(self.updated);
        let step = i128::from(step);
        let Some(gain) = median_gain(reports, borne_out) else {
            self.rate_ppb = to_i32((i128::from(self.trend_ppt) / 1000).clamp(-cap, cap));
            return;
        };
        let gain = i128::from(gain);
        let time = i128::from(law.time_ns.max(1)).max(step * STEPS_PER_STEERING_TIME);
        let proportional = gain * 1_000_000_000 / time;
        let before = i128::from(self.trend_ppt);
        // At the cap the offset says nothing about the rate: the trend only grows below it.
        let trend = if (proportional + before / 1000).abs() < cap {
            before + proportional * 1000 * step / (4 * time)
        } else {
            before
        };
        let trend = trend.clamp(-cap * 1000, cap * 1000);
        self.trend_ppt = to_i64(trend);
        self.rate_ppb = to_i32((proportional + trend / 1000).clamp(-cap, cap));
    }
}

/// Advance of the group's clock while a physical clock goes `elapsed_ns` further, ns.
pub(crate) fn advance(elapsed_ns: i64, rate_ppb: i32) -> i64 {
    let elapsed = i128::from(elapsed_ns);
    to_i64(elapsed + elapsed * i128::from(rate_ppb) / 1_000_000_000)
}

fn median(mut values: Vec<i128>) -> Option<i128> {
    values.sort_unstable();
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(lower + (upper - lower) / 2)
}

fn to_i64(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn to_i32(value: i128) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}
