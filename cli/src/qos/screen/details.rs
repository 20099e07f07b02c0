//! Everything that is known of a flow.

use std::io::{self, Write};

use truechimer_qos::{
    FlowReport, GroupReport, LossReport, PathReport, ReorderReport, Report, RttReport, SeenReport,
    Spread,
};

use super::{bound, bytes, ends, float_span, interval, rate, share, span, voice_line, wrapped};

/// Everything that is known of a group.
pub fn group(report: &Report, group: &GroupReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} ({} flows)", group.name, group.flows)?;
    for ((point, packets), rtts) in report.points.iter().zip(&group.seen_packets).zip(&group.rtt) {
        if report.points.len() > 1 {
            writeln!(out, "  at {}", point.name)?;
        }
        line(out, "packets", &packets.to_string())?;
        self::rtts(rtts, out)?;
    }
    for way in &group.ways {
        let (from, to) = ends(&report.points, way.way);
        writeln!(out, "  from {from} to {to}")?;
        let text = format!("{}, {}", spread(&way.delay), bound(way.bound_max_ns));
        line(out, "one-way delay", &text)?;
        line(out, "lost", &format!("{} of {}", way.lost, way.lost + way.arrived))?;
    }
    if group.retransmitted > 0 {
        line(out, "sent again", &format!("{} segments", group.retransmitted))?;
    }
    Ok(())
}

fn rtts(rtts: &[RttReport], out: &mut dyn Write) -> io::Result<()> {
    for rtt in rtts {
        let text = format!("{}, {}", spread(&rtt.time), bound(rtt.bound_max_ns));
        line(out, "rtt", &format!("{}: {text}", rtt.kind.name()))?;
    }
    Ok(())
}

fn spread(spread: &Spread) -> String {
    if spread.n == 0 {
        return "none".into();
    }
    format!(
        "min {}, median {}, p95 {}, p99 {}, p99.9 {}, max {} ({})",
        span(spread.min_ns),
        span(spread.median_ns),
        span(spread.p95_ns),
        span(spread.p99_ns),
        span(spread.p999_ns),
        span(spread.max_ns),
        spread.n
    )
}

fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    wrapped(out, &format!("    {name:<14}"), text)
}

/// Everything that is known of a flow.
pub fn flow(report: &Report, flow: &FlowReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}. {}", flow.number, flow.name)?;
    for (point, seen) in report.points.iter().zip(&flow.seen) {
        if let Some(seen) = seen {
            if report.points.len() > 1 {
                writeln!(out, "  at {}", point.name)?;
            }
            seen_details(seen, out)?;
        }
    }
    if let Some(path) = &flow.path {
        path_details(report, path, out)?;
    }
    Ok(())
}

fn seen_details(seen: &SeenReport, out: &mut dyn Write) -> io::Result<()> {
    let peak = seen.peak_wire_bits_per_s;
    line(
        out,
        "rate",
        &format!(
            "{} packets, {}, in {}: {} packets/s, {}; peak on the wire {}",
            seen.packets,
            bytes(seen.bytes),
            span(Some(seen.lasted_ns)),
            seen.packets_per_s.map_or_else(|| "-".into(), |n| format!("{n:.1}")),
            rate(seen.bits_per_s),
            rate(peak)
        ),
    )?;
    line(out, "gaps", &spread(&seen.gap))?;
    if let Some(rtp) = &seen.rtp {
        let clock = rtp.clock_hz.map_or_else(|| "unknown".into(), |hz| format!("{hz} Hz"));
        let text = format!(
            "ssrc {:#010x}, payload type {}, clock {clock}; jitter {} on average, {} at most, {} at the end",
            rtp.ssrc,
            rtp.payload_type,
            float_span(rtp.jitter_mean_ns),
            float_span(rtp.jitter_max_ns),
            float_span(rtp.jitter_ns)
        );
        line(out, "rtp", &text)?;
        line(out, "pdv", &spread(&rtp.pdv))?;
    }
    if let Some(numbers) = &seen.numbers {
        loss(&numbers.loss, out)?;
        let text = format!(
            "{} copies of {} packets; {} too late, {} strays, {} new beginnings",
            numbers.copies, numbers.replicated, numbers.late, numbers.strays, numbers.restarts
        );
        line(out, "duplicates", &text)?;
        reordering(&numbers.reordering, out)?;
    }
    rtts(&seen.rtt, out)?;
    if seen.retransmitted > 0 {
        line(out, "sent again", &format!("{} segments", seen.retransmitted))?;
    }
    Ok(())
}

fn loss(loss: &LossReport, out: &mut dyn Write) -> io::Result<()> {
    let sent = loss.arrived + loss.lost;
    let runs = match loss.runs {
        0 => String::new(),
        runs => format!(
            ", in {runs} runs, the longest of {}, {:.1} on average; {} at most 99 after another",
            loss.longest_run.unwrap_or(0),
            loss.mean_run.unwrap_or(0.0),
            loss.noticeable
        ),
    };
    line(out, "lost", &format!("{} of {sent}{runs}", share(loss.lost, loss.ratio)))
}

fn reordering(reordering: &ReorderReport, out: &mut dyn Write) -> io::Result<()> {
    if reordering.reordered == 0 {
        return line(out, "reordered", "0");
    }
    let n = |wanted: u64| {
        let found = reordering.n_reordered.iter().find(|(n, _)| *n == wanted);
        found.map_or(0, |(_, packets)| *packets)
    };
    let text = format!(
        "{}; extent {:.1} on average, at most {}; 3-reordered {}; late by at most {}",
        share(reordering.reordered, reordering.ratio),
        reordering.mean_extent.unwrap_or(0.0),
        reordering.max_extent.unwrap_or(0),
        n(3),
        span(reordering.late.max_ns)
    );
    line(out, "reordered", &text)?;
    let density = &reordering.density;
    let most =
        |shares: &mut dyn Iterator<Item = String>| shares.take(7).collect::<Vec<_>>().join(" ");
    let rd = most(&mut density.displacement.iter().map(|(d, s)| format!("{d:+}:{s:.3}")));
    let rbd = most(&mut density.occupancy.iter().map(|(b, s)| format!("{b}:{s:.3}")));
    line(out, "density", &format!("RD {rd}; RBD {rbd}"))
}

fn path_details(report: &Report, path: &PathReport, out: &mut dyn Write) -> io::Result<()> {
    let Some(way) = path.way else {
        return writeln!(out, "  between: no packet was seen at both points");
    };
    let (from, to) = ends(&report.points, way);
    writeln!(out, "  from {from} to {to}")?;
    let negative = match path.negative {
        0 => String::new(),
        n => format!("; {n} below zero by more than their bound"),
    };
    let text = format!("{}, {}{negative}", spread(&path.delay), bound(path.bound_max_ns));
    line(out, "one-way delay", &text)?;
    line(out, "median, 95 %", &interval(&path.quantiles))?;
    line(out, "pdv", &spread(&path.pdv))?;
    line(out, "ipdv", &spread(&path.ipdv))?;
    let [mean, max, last] =
        [path.jitter_mean_ns, path.jitter_max_ns, path.jitter_ns].map(float_span);
    line(out, "jitter", &format!("{mean} on average, {max} at most, {last} at the end"))?;
    loss(&path.loss, out)?;
    line(out, "duplicates", &path.duplicates.to_string())?;
    reordering(&path.reordering, out)?;
    if let Some(voice) = &path.voice {
        line(out, "voice", &voice_line(voice))?;
    }
    let unknown: Vec<String> = [
        ("ambiguous", path.ambiguous),
        ("not watched for", path.unwatched),
        ("too near the end", path.recent),
        ("forgotten", path.dropped),
        ("cut up or joined", path.resized),
        ("not seen at the other", path.unseen),
    ]
    .into_iter()
    .filter(|(_, [a, b])| a + b > 0)
    .map(|(what, [a, b])| format!("{what} {a} + {b}"))
    .collect();
    if !unknown.is_empty() {
        line(out, "in no figure", &unknown.join(", "))?;
    }
    Ok(())
}
