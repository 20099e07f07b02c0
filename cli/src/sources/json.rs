//! `truechimer sources --json`.

use std::collections::BTreeMap;

use serde::Serialize;
use truechimer_engine::{Reason, ReasonKind, SourceKind, SourceReport, SourceStatus};
use truechimer_time::{Span, StampMethod};

use truechimer_command::show::{plain, ppb};

use super::ptp::PtpJson;

/// One source as JSON: spans in ns, rates in parts per 10⁹.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    name: &'a str,
    kind: &'static str,
    /// True for a pulse per second, for programs that know no other kinds.
    pulse: bool,
    /// Proof of who made its replies: none, nts or key.
    authentication: &'static str,
    /// Number of the symmetric key, if that is the proof.
    key: Option<u32>,
    /// Cookies that are left, if the proof is nts and there are keys.
    cookies: Option<usize>,
    /// Algorithm that was agreed on, likewise.
    aead: Option<&'a str>,
    /// True if it has a vote on what time it is.
    vote: bool,
    address: Option<String>,
    /// Pool that it is a server of.
    pool: Option<&'a str>,
    /// Place where it, or its pool, was named: configuration, source-dir or run-time.
    origin: &'static str,
    status: SourceStatus,
    /// Reason for that status.
    reason: Option<ReasonJson>,
    /// Share in the published time, 0 to 1.
    weight: Option<f64>,
    /// Status and reason in the words of before (docs/reference/words.md), for programs that read these.
    selection: &'static str,
    why: Option<String>,
    doubt: Option<DoubtJson>,
    /// True if it has said nothing usable for longer than it may.
    holdover: bool,
    stratum: Option<u8>,
    reference: Option<&'a str>,
    /// True if its last reply was in interleaved mode.
    interleaved: bool,
    leap: Option<u8>,
    poll_s: u32,
    retry_ns: Option<i64>,
    reach: u8,
    polls: u8,
    last_reply_ns: Option<i64>,
    offset_ns: Option<i64>,
    /// Reference of `offset_ns`: `clock`, or the name of a server while there is no clock.
    offset_to: Option<&'a str>,
    bound_ns: Option<i64>,
    /// Asymmetry of the path (there − back) that is used, declared or learnt; null if none is.
    asymmetry_ns: Option<i64>,
    /// Bound of its error.
    asymmetry_error_ns: Option<i64>,
    /// Asymmetry that the exchanges show beside a clock that knows the time better; null if they
    /// show none.
    learnt_asymmetry_ns: Option<i64>,
    /// Bound of its error.
    learnt_asymmetry_error_ns: Option<i64>,
    /// Likely error of its estimate; null if statistics say no less than the bound.
    likely_ns: Option<i64>,
    deviation_ns: Option<i64>,
    skew_ppb: Option<f64>,
    rtt_ns: Option<i64>,
    rtt_floor_ns: Option<i64>,
    root_distance_ns: Option<i64>,
    sent_stamp: Option<&'static str>,
    received_stamp: Option<&'static str>,
    sent_stamp_error_ns: Option<i64>,
    received_stamp_error_ns: Option<i64>,
    requests: u64,
    accepted: u64,
    timeouts: u64,
    refused: &'a BTreeMap<String, u64>,
    trouble: Option<String>,
    /// Domain and masters of a PTP port.
    ptp: Option<PtpJson<'a>>,
}

/// Reason for the status of a source; `sources --help` says what the fields mean.
#[derive(Serialize)]
pub struct ReasonJson {
    kind: ReasonKind,
    text: String,
    age_ns: i64,
    by_ns: Option<i64>,
    replies: Option<u32>,
    accepted_in_ns: Option<i64>,
}

impl ReasonJson {
    /// Of what the daemon says.
    pub fn of(reason: &Reason) -> ReasonJson {
        let Reason { kind, text, age, by, replies, left } = reason;
        ReasonJson {
            kind: *kind,
            text: plain(text),
            age_ns: age.as_nanos_i64(),
            by_ns: by.map(Span::as_nanos_i64),
            replies: *replies,
            accepted_in_ns: left.map(Span::as_nanos_i64),
        }
    }
}

/// Doubt in the words of before.
#[derive(Serialize)]
pub struct DoubtJson {
    kind: &'static str,
    age_ns: i64,
    by_ns: Option<i64>,
    replies: Option<u32>,
    believed_in_ns: Option<i64>,
}

impl DoubtJson {
    /// Of what the daemon says, if there was a word for it.
    pub fn of(reason: &Reason) -> Option<DoubtJson> {
        use ReasonKind as Kind;
        let kind = match reason.kind {
            Kind::StepSuspected => "server-step",
            Kind::DriftSuspected => "server-drift",
            Kind::Outvoted | Kind::Overruled => "falseticker",
            Kind::NoMajority => "no-majority",
            Kind::ContradictsSelected | Kind::RateDiffers => "contradiction",
            Kind::Outlier => "improbable",
            Kind::Stale => "silent",
            Kind::LeapSmear => "smear",
            kind if kind.is_hold_off() => "held",
            _ => return None,
        };
        let ReasonJson { age_ns, by_ns, replies, accepted_in_ns, .. } = ReasonJson::of(reason);
        Some(DoubtJson { kind, age_ns, by_ns, replies, believed_in_ns: accepted_in_ns })
    }
}

/// The status in the words of before.
fn selection(source: &SourceReport) -> &'static str {
    let kind = source.reason.as_ref().map(|reason| reason.kind);
    match (source.status, kind) {
        (SourceStatus::Unselectable, Some(ReasonKind::Noselect)) => "watched",
        (SourceStatus::Unselectable, Some(ReasonKind::LeapSmear)) => "smeared",
        (SourceStatus::Candidate, Some(ReasonKind::Waiting))
        | (SourceStatus::Unreachable | SourceStatus::Unselectable, _) => "unusable",
        (SourceStatus::Candidate, _) => "no-majority",
        (status, _) => status.name(),
    }
}

impl Json<'_> {
    pub(super) fn of(source: &SourceReport) -> Json<'_> {
        let ns = |span: Option<Span>| span.map(Span::as_nanos_i64);
        let reason = source.reason.as_ref();
        let doubt = reason.and_then(DoubtJson::of);
        Json {
            name: &source.name,
            kind: source.kind.name(),
            pulse: source.kind == SourceKind::Pulse,
            authentication: source.authentication.name(),
            key: source.authentication.key(),
            cookies: source.cookies,
            aead: source.aead.as_deref(),
            vote: source.vote,
            address: source.address.map(|a| a.to_string()),
            pool: source.pool.as_deref(),
            origin: source.origin.name(),
            status: source.status,
            reason: reason.map(ReasonJson::of),
            weight: source.weight,
            selection: selection(source),
            why: reason.filter(|_| doubt.is_some()).map(|reason| plain(&reason.text)),
            doubt,
            holdover: source.holdover,
            stratum: source.stratum,
            reference: source.reference.as_deref(),
            interleaved: source.interleaved,
            leap: source.leap,
            poll_s: source.poll,
            retry_ns: ns(source.retry),
            reach: source.reach,
            polls: source.polls,
            last_reply_ns: ns(source.last_reply),
            offset_ns: ns(source.offset),
            offset_to: source.offset.map(|_| source.offset_to.as_deref().unwrap_or("clock")),
            bound_ns: source.bound.map(Span::as_nanos_up),
            asymmetry_ns: source.asymmetry.map(|a| a.by.as_nanos_i64()),
            asymmetry_error_ns: source.asymmetry.map(|a| a.error.as_nanos_up()),
            learnt_asymmetry_ns: source.learnt.map(|l| l.asymmetry.by.as_nanos_i64()),
            learnt_asymmetry_error_ns: source.learnt.map(|l| l.asymmetry.error.as_nanos_up()),
            likely_ns: source.likely.map(Span::as_nanos_up),
            deviation_ns: ns(source.deviation),
            skew_ppb: source.skew.map(ppb),
            rtt_ns: ns(source.rtt),
            rtt_floor_ns: ns(source.rtt_floor),
            root_distance_ns: ns(source.root_distance),
            sent_stamp: source.sent_method.map(StampMethod::name),
            received_stamp: source.received_method.map(StampMethod::name),
            sent_stamp_error_ns: ns(source.stamp_errors.map(|e| e.0)),
            received_stamp_error_ns: ns(source.stamp_errors.map(|e| e.1)),
            requests: source.requests,
            accepted: source.accepted,
            timeouts: source.timeouts,
            refused: &source.refused,
            trouble: source.trouble.as_deref().map(plain),
            ptp: source.ptp.as_ref().map(PtpJson::of),
        }
    }
}
