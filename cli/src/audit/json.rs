//! The report as JSON.

use serde::Serialize;
use truechimer_audit::{Chain, Event};

use super::{Pending, Report};

/// A report.
#[derive(Serialize)]
pub struct Json<'a> {
    from: String,
    to: String,
    unfinished_from: Option<String>,
    unfinished_why: Option<&'static str>,
    known_from: Option<String>,
    silent_since: Option<String>,
    length_ns: i64,
    judged_ns: i64,
    recorded_ns: i64,
    bounded_ns: i64,
    worst_bound_ns: Option<u64>,
    worst_until: Option<String>,
    median_bound_ns: Option<u64>,
    p95_bound_ns: Option<u64>,
    p99_bound_ns: Option<u64>,
    limits: Vec<Limit>,
    statuses: Vec<Named<'a>>,
    gaps: Vec<GapJson>,
    selected: Vec<Named<'a>>,
    sources: Vec<Source>,
    events: Vec<EventJson<'a>>,
    chain: Verified,
}

#[derive(Serialize)]
struct Limit {
    limit_ns: u64,
    within_ns: i64,
    share: f64,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    time_ns: i64,
}

#[derive(Serialize)]
struct GapJson {
    from: String,
    to: String,
    time_ns: i64,
    broken: bool,
}

#[derive(Serialize)]
struct Source {
    name: String,
    address: Option<String>,
    stratum: Option<u8>,
    reference: Option<String>,
    root_distance_ns: Option<u64>,
    from: String,
    to: String,
    time_ns: i64,
    statuses: Vec<String>,
    times: Vec<StatusTime>,
}

#[derive(Serialize)]
struct StatusTime {
    status: String,
    reason: Option<String>,
    time_ns: i64,
}

#[derive(Serialize)]
struct EventJson<'a> {
    at: String,
    kind: &'static str,
    text: &'a str,
    bound_ns: Option<u64>,
    by_system_clock: bool,
    step_ns: Option<i64>,
}

/// Findings on the chain.
#[derive(Serialize)]
pub struct Verified {
    whole: bool,
    files: u64,
    bytes: u64,
    lines: u64,
    first_file: u64,
    last_hash: String,
    contains_hash: Option<bool>,
    fault_count: u64,
    faults: Vec<Place>,
    torn: Vec<Torn>,
}

#[derive(Serialize)]
struct Place {
    file: String,
    line: u64,
    text: String,
}

#[derive(Serialize)]
struct Torn {
    file: String,
    line: u64,
    bytes: u64,
    told: bool,
}

impl Verified {
    /// Findings of a check.
    pub fn of(chain: &Chain) -> Verified {
        let faults = chain.faults.iter().cloned();
        let torn = chain.torn.iter().cloned();
        Verified {
            whole: chain.is_whole(),
            files: chain.files,
            bytes: chain.bytes,
            lines: chain.lines,
            first_file: chain.first_file,
            last_hash: chain.last.to_string(),
            contains_hash: chain.contains,
            fault_count: chain.fault_count,
            faults: faults.map(|f| Place { file: f.file, line: f.line, text: f.text }).collect(),
            torn: torn
                .map(|t| Torn { file: t.file, line: t.line, bytes: t.bytes, told: t.is_told })
                .collect(),
        }
    }
}

impl<'a> Json<'a> {
    /// All of a report.
    pub fn of(report: &Report<'a>) -> Json<'a> {
        let account = report.account;
        let worst = account.worst();
        let judged_ns = account.judged_ns();
        let limits = account.shares(&report.limits_ns).into_iter().map(|share| Limit {
            limit_ns: share.limit_ns,
            within_ns: share.within_ns,
            share: share.within_ns as f64 / judged_ns.max(1) as f64,
        });
        let statuses = account.by_status().into_iter();
        let selected = account.by_source().into_iter();
        Json {
            from: account.from.to_string(),
            to: account.to.to_string(),
            unfinished_from: report.pending.map(|_| account.judged().to_string()),
            unfinished_why: report.pending.map(Pending::word),
            silent_since: report.silent.map(|silent| silent.since.to_string()),
            known_from: match report.pending {
                Some(Pending::Unknown(until)) => Some(until.to_string()),
                _ => None,
            },
            length_ns: account.length_ns(),
            judged_ns,
            recorded_ns: account.recorded_ns(),
            bounded_ns: account.bounded_ns(),
            worst_bound_ns: worst.and_then(|piece| piece.bound_ns),
            worst_until: worst.map(|piece| piece.to.to_string()),
            median_bound_ns: account.percentile_ns(50),
            p95_bound_ns: account.percentile_ns(95),
            p99_bound_ns: account.percentile_ns(99),
            limits: limits.collect(),
            statuses: statuses.map(|(name, time_ns)| Named { name, time_ns }).collect(),
            gaps: account
                .gaps()
                .iter()
                .map(|gap| GapJson {
                    from: gap.from.to_string(),
                    to: gap.to.to_string(),
                    time_ns: gap.length_ns(),
                    broken: gap.is_broken,
                })
                .collect(),
            selected: selected.map(|(name, (time_ns, _))| Named { name, time_ns }).collect(),
            sources: account
                .sources()
                .into_iter()
                .map(|seen| Source {
                    name: seen.name,
                    address: seen.address,
                    stratum: seen.stratum,
                    reference: seen.reference,
                    root_distance_ns: seen.root_distance_ns,
                    from: seen.first.to_string(),
                    to: seen.last.to_string(),
                    time_ns: seen.time_ns,
                    statuses: words(&seen.statuses),
                    times: seen.statuses.into_iter().map(time).collect(),
                })
                .collect(),
            events: account.events().iter().map(event).collect(),
            chain: Verified::of(report.chain),
        }
    }
}

/// Statuses without their reasons, each once.
fn words(times: &[truechimer_audit::StatusTime]) -> Vec<String> {
    let mut words = Vec::new();
    for it in times {
        if !words.contains(&it.status) {
            words.push(it.status.clone());
        }
    }
    words
}

fn time(it: truechimer_audit::StatusTime) -> StatusTime {
    StatusTime { status: it.status, reason: it.reason, time_ns: it.time_ns }
}

fn event(event: &Event) -> EventJson<'_> {
    EventJson {
        at: event.at.to_string(),
        kind: event.kind.name(),
        text: &event.text,
        bound_ns: event.bound_ns,
        by_system_clock: event.by_system_clock,
        step_ns: event.step_ns,
    }
}
