//! Notes on the numbers: clock problems first.

use crate::path::Way;
use crate::report::{Note, Report, Severity, WayReport};
use crate::totals::Totals;
use crate::{Engine, Evidence, FlowKey};

/// A span for people.
fn span(ns: i64) -> String {
    truechimer_time::Span::from_nanos(ns).to_string()
}

/// Notes that are worth it, the most serious first.
pub(crate) fn notes(report: &Report, engine: &Engine, totals: &Totals) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |severity, text| notes.push(Note { severity, text });
    for point in report.points.iter().filter(|point| point.unbounded > 0) {
        let share = if point.unbounded == point.packets {
            "no packet's time has a bound".into()
        } else {
            format!("{} of {} packets have a time without a bound", point.unbounded, point.packets)
        };
        let text =
            format!("{}: {share}: its clock was not synchronised, or nobody says", point.name);
        say(Severity::Warning, text);
    }
    let bounded = report.points.iter().all(|point| point.unbounded == 0);
    for way in report.ways.iter().filter(|way| way.negative > 0) {
        say(Severity::Problem, negative(report, way, bounded));
    }
    if let Some(text) = contradiction(report, engine) {
        say(Severity::Problem, text);
    }
    let guessed = engine
        .flows()
        .filter_map(|flow| flow.path.as_ref()?.way)
        .filter(|(_, evidence)| *evidence == Evidence::UnboundedTime)
        .count();
    if guessed > 0 {
        let flows = if guessed == 1 { "1 flow" } else { &format!("{guessed} flows") };
        let text = format!(
            "which way {flows} went was told from times that may be wrong by more than they \
             differ; --direction says it for certain"
        );
        say(Severity::Warning, text);
    }
    for (point, n) in report.points.iter().zip(totals.ambiguous).filter(|(_, n)| *n > 0) {
        let text = format!(
            "{}: {n} packets are like others on their way at the same time, and are in no delay or \
             loss; --sequence tells packets apart by a number in them",
            point.name
        );
        say(Severity::Warning, text);
    }
    for (point, n) in report.points.iter().zip(totals.recent).filter(|(_, n)| *n > 0) {
        let text = format!(
            "{}: {n} packets that the other point did not see passed less than {} before the end \
             of its capture: lost or not, nobody knows",
            point.name,
            span(report.timeout_ns)
        );
        say(Severity::Note, text);
    }
    for (point, n) in report.points.iter().zip(totals.unwatched).filter(|(_, n)| *n > 0) {
        let text =
            format!("{}: {n} packets passed before the other point's capture began", point.name);
        say(Severity::Note, text);
    }
    for (point, n) in report.points.iter().zip(totals.unseen).filter(|(_, n)| *n > 0) {
        let text = format!(
            "{}: {n} packets arrived that the other point did not see: its capture lost them, or they \
             took longer than {} (--timeout)",
            point.name,
            span(report.timeout_ns)
        );
        say(Severity::Warning, text);
    }
    for (point, n) in report.points.iter().zip(totals.one_sided).filter(|(_, n)| *n > 0) {
        let text = format!(
            "{}: {n} packets are of flows that only this point saw (or that have other addresses at \
             the other, as behind NAT); they are no losses",
            point.name
        );
        say(Severity::Note, text);
    }
    for (point, n) in report.points.iter().zip(totals.resized).filter(|(_, n)| *n > 0) {
        let text = format!(
            "{}: {n} packets have no counterpart because segmentation offload (TSO, GSO, GRO) cuts \
             them up or joins them after the capture saw them; they are in no delay or loss: \
             'ethtool -K NAME tso off gso off gro off' before the capture shows them as they are",
            point.name
        );
        say(Severity::Warning, text);
    }
    if let [a, b] = engine.points()
        && a.shortest != b.shortest
        && report
            .ways
            .iter()
            .map(|way| way.lost)
            .chain(totals.unseen)
            .chain(totals.one_sided)
            .any(|n| n > 0)
        && let Some(shortest) = a.shortest.into_iter().chain(b.shortest).min()
    {
        let text = format!(
            "the captures cut packets off at different lengths, so that those of which fewer than \
             {} bytes of payload are there look different at both points: '--identity-bytes \
             {shortest}' compares what both have",
            engine.options().identity_bytes
        );
        say(Severity::Warning, text);
    }
    let given_up = report.given_up;
    if given_up.flows > 0 {
        let text = format!(
            "{} flows with {} packets made room for others, and are in the totals only; \
             --max-flows keeps more",
            given_up.flows, given_up.packets
        );
        say(Severity::Warning, text);
    }
    if given_up.waiting > 0 {
        let text = format!(
            "{} packets were forgotten before {} were over, and are in no loss; --max-waiting \
             remembers more",
            given_up.waiting,
            span(report.timeout_ns)
        );
        say(Severity::Warning, text);
    }
    let unknown = engine
        .flows()
        .flat_map(|flow| flow.seen.iter().flatten())
        .filter_map(|seen| seen.rtp.as_ref())
        .find(|stream| stream.clock_hz.is_none());
    if let Some(stream) = unknown {
        let text = format!(
            "RTP payload type {0} has no fixed clock rate: jitter is not known without \
             '--rtp-clock {0}=HZ'",
            stream.payload_type
        );
        say(Severity::Note, text);
    }
    notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    notes
}

fn name(report: &Report, point: usize) -> &str {
    report.points.get(point).map_or("?", |point| &point.name)
}

fn negative(report: &Report, way: &WayReport, bounded: bool) -> String {
    let (from, to) = match way.way {
        Way::Forward => (name(report, 0), name(report, 1)),
        Way::Backward => (name(report, 1), name(report, 0)),
    };
    let worst = span(way.most_negative_ns.unwrap_or(0));
    let found = format!(
        "{} of {} packets arrive at {to} before they leave {from}, by up to {}",
        way.negative,
        way.delay.n,
        worst.trim_start_matches('-')
    );
    let unsynchronised: Vec<&str> = report
        .points
        .iter()
        .filter(|point| point.unbounded > 0)
        .map(|point| point.name.as_str())
        .collect();
    if bounded {
        format!(
            "{found}, which is more than both bounds together: one of the two clocks is not within its bound"
        )
    } else {
        format!(
            "{found}: a clock is wrong, and of these nothing is promised: {}",
            unsynchronised.join(", ")
        )
    }
}

/// Both directions of a conversation that seem to go the same way.
fn contradiction(report: &Report, engine: &Engine) -> Option<String> {
    let by_time = |key: &FlowKey| {
        let flow = engine.keyed(key)?;
        let (way, evidence) = flow.path.as_ref()?.way?;
        let told = matches!(evidence, Evidence::Time | Evidence::UnboundedTime);
        told.then_some((way, flow.path.as_ref()?.delays.min()?))
    };
    // One is enough; looking for the counterparts of all is not needed.
    let (flow, way) = engine.flows().take(1000).find_map(|flow| {
        let (way, _) = by_time(&flow.key)?;
        let (back, _) = by_time(&flow.key.reversed())?;
        (way == back && flow.key != flow.key.reversed()).then_some((flow, way))
    })?;
    let (from, to) = match way {
        Way::Forward => (name(report, 0), name(report, 1)),
        Way::Backward => (name(report, 1), name(report, 0)),
    };
    Some(format!(
        "both directions of {} seem to go from {from} to {to}: the clocks of the two points differ \
         by more than the delay; --direction says which way they went",
        flow.key
    ))
}
