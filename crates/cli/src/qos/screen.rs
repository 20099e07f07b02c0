//! Tables for people, at most 100 columns wide.

use std::io::{self, Write};

use truechimer_qos::{
    FlowReport, LayersReport, LossReport, NumbersReport, PathReport, PointReport, ReorderReport,
    Report, SeenReport, Severity, Spread, Way, WayReport,
};
use truechimer_report::Unit;

use super::csv::most_rtts;
use crate::table::{Side, Table};

/// Text is wrapped here.
const WIDTH: usize = 96;

fn shown(unit: &Unit, value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| unit.show(value, 3))
}

/// Numbers and their units are kept together until they are written.
fn plain(text: &str) -> String {
    text.replace('\u{a0}', " ")
}

fn write(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let mut buffer = Vec::new();
    table.write(&mut buffer)?;
    out.write_all(plain(&String::from_utf8_lossy(&buffer)).as_bytes())
}

/// A span in ns.
pub fn span(ns: Option<i64>) -> String {
    shown(&Unit::Seconds, ns.map(|ns| ns as f64 * 1e-9))
}

fn float_span(ns: Option<f64>) -> String {
    shown(&Unit::Seconds, ns.map(|ns| ns * 1e-9))
}

/// The bound of a span, or that there is none.
pub fn bound(ns: Option<u64>) -> String {
    match ns {
        Some(ns) => format!("±\u{a0}{}", span(Some(i64::try_from(ns).unwrap_or(i64::MAX)))),
        None => "±\u{a0}?".into(),
    }
}

/// Bits a second.
pub fn rate(bits: Option<f64>) -> String {
    let Some(bits) = bits else { return "-".into() };
    let (factor, unit) = match bits {
        ..1e3 => (1.0, "b/s"),
        ..1e6 => (1e3, "kb/s"),
        ..1e9 => (1e6, "Mb/s"),
        _ => (1e9, "Gb/s"),
    };
    format!("{:.1}\u{a0}{unit}", bits / factor)
}

fn share(count: u64, ratio: Option<f64>) -> String {
    match (count, ratio) {
        (0, _) | (_, None) => count.to_string(),
        (_, Some(ratio)) => format!("{count} ({:.2}%)", ratio * 100.0),
    }
}

fn bytes(n: u64) -> String {
    shown(&Unit::Bytes, Some(n as f64))
}

fn wrapped(out: &mut dyn Write, first: &str, text: &str) -> io::Result<()> {
    let indent = " ".repeat(first.chars().count());
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{}", plain(&line))?;
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{}", plain(&line))
}

/// The names of where packets leave and arrive.
pub fn ends(points: &[PointReport], way: Way) -> (&str, &str) {
    let name = |n: usize| points.get(n).map_or("?", |point| point.name.as_str());
    (name(way.origin()), name(1 - way.origin()))
}

/// All of it.
pub fn report(report: &Report, more: usize, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for point in &report.points {
        self::point(point, out)?;
    }
    notes(report, out)?;
    if !report.ways.is_empty() {
        writeln!(out)?;
        ways(report, out)?;
    }
    if !report.flows.is_empty() {
        writeln!(out)?;
        if verbose {
            for flow in &report.flows {
                details(report, flow, out)?;
            }
        } else {
            flows(report, out)?;
        }
    }
    if more > 0 {
        writeln!(out, "… and {more} more flows: --top 0 shows all of them")?;
    }
    if let Some(report) = &report.layers {
        writeln!(out)?;
        layers(report, out)?;
    }
    Ok(())
}

fn point(point: &PointReport, out: &mut dyn Write) -> io::Result<()> {
    let lasted = point.first_ns.zip(point.last_ns).map(|(first, last)| last.saturating_sub(first));
    let worth = match (point.unbounded, point.worst_bound_ns) {
        _ if point.packets == 0 => String::new(),
        (0, worst) => format!(", times within {}", bound(worst)),
        (n, _) if n == point.packets => ", times without a bound".into(),
        (n, worst) => format!(", times within {}, of {n} without a bound", bound(worst)),
    };
    let other = match point.not_ip {
        0 => String::new(),
        n => format!(" ({n} not IP)"),
    };
    let text = format!(
        "{} packets{other}, {}, {}{worth}",
        point.packets,
        bytes(point.bytes),
        span(lasted)
    );
    wrapped(out, &format!("{}: ", point.name), &text)
}

fn notes(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for note in &report.notes {
        let first = match note.severity {
            Severity::Problem => "problem: ",
            Severity::Warning => "warning: ",
            Severity::Note => "note: ",
        };
        wrapped(out, first, &note.text)?;
    }
    Ok(())
}

fn ways(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        ("way", Side::Left),
        ("flows", Side::Right),
        ("arrived", Side::Right),
        ("lost", Side::Right),
        ("delay min", Side::Right),
        ("median", Side::Right),
        ("p99", Side::Right),
        ("max", Side::Right),
        ("bound", Side::Right),
    ]);
    for way in &report.ways {
        let WayReport { flows, delay, arrived, lost, bound_max_ns, .. } = way;
        let sent = arrived + lost;
        let arrow = if way.way == Way::Forward { "1 > 2" } else { "2 > 1" };
        table.row(vec![
            arrow.into(),
            flows.to_string(),
            arrived.to_string(),
            share(*lost, (sent > 0).then(|| *lost as f64 / sent as f64)),
            span(delay.min_ns),
            span(delay.median_ns),
            span(delay.p99_ns),
            span(delay.max_ns),
            bound(*bound_max_ns),
        ]);
    }
    let (from, to) = ends(&report.points, Way::Forward);
    wrapped(out, "", &format!("one-way delay; 1 is {from}, 2 is {to}"))?;
    write(&table, out)
}

/// Two lines for each flow: its name, its figures.
pub fn flows(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut buffer = Vec::new();
    let two = report.points.len() == 2;
    let columns: &[(&str, Side)] = if two {
        &[
            ("", Side::Left),
            ("packets", Side::Right),
            ("lost", Side::Right),
            ("dup", Side::Right),
            ("late", Side::Right),
            ("delay min", Side::Right),
            ("median", Side::Right),
            ("p99", Side::Right),
            ("bound", Side::Right),
            ("jitter", Side::Right),
        ]
    } else {
        &[
            ("", Side::Left),
            ("packets", Side::Right),
            ("rate", Side::Right),
            ("gap", Side::Right),
            ("lost", Side::Right),
            ("dup", Side::Right),
            ("late", Side::Right),
            ("jitter", Side::Right),
            ("rtt", Side::Right),
            ("max", Side::Right),
        ]
    };
    let mut table = Table::new(columns);
    for flow in &report.flows {
        table.row(if two { between(flow) } else { alone(flow) });
    }
    write(&table, &mut buffer)?;
    let text = String::from_utf8_lossy(&buffer).into_owned();
    let mut lines = text.lines();
    writeln!(out, "{}", lines.next().unwrap_or_default())?;
    for (flow, line) in report.flows.iter().zip(lines) {
        let name = match flow.protocol.as_str() {
            "rtp" => format!("{} (rtp)", flow.name),
            _ => flow.name.clone(),
        };
        writeln!(out, "{name}")?;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn alone(flow: &FlowReport) -> Vec<String> {
    let Some(seen) = flow.seen.iter().flatten().next() else { return vec![String::new(); 10] };
    let numbers = seen.numbers.as_ref();
    let number = |pick: fn(&NumbersReport) -> u64| {
        numbers.map_or_else(|| "-".into(), |numbers| pick(numbers).to_string())
    };
    let rtt = most_rtts(&seen.rtt).map(|rtt| &rtt.time);
    vec![
        String::new(),
        seen.packets.to_string(),
        rate(seen.bits_per_s),
        span(seen.gap.median_ns),
        numbers.map_or_else(|| "-".into(), |n| share(n.loss.lost, n.loss.ratio)),
        number(|n| n.copies),
        number(|n| n.reordering.reordered),
        float_span(seen.rtp.as_ref().and_then(|rtp| rtp.jitter_ns)),
        span(rtt.and_then(|rtt| rtt.median_ns)),
        span(rtt.and_then(|rtt| rtt.max_ns)),
    ]
}

fn between(flow: &FlowReport) -> Vec<String> {
    let packets = flow.seen.iter().flatten().map(|seen| seen.packets).max().unwrap_or(0);
    let Some(path) = flow.path.as_ref().filter(|path| path.way.is_some()) else {
        let mut cells = vec![String::new(), packets.to_string()];
        cells.resize(10, "-".into());
        return cells;
    };
    vec![
        String::new(),
        packets.to_string(),
        share(path.loss.lost, path.loss.ratio),
        path.duplicates.to_string(),
        path.reordering.reordered.to_string(),
        span(path.delay.min_ns),
        span(path.delay.median_ns),
        span(path.delay.p99_ns),
        bound(path.bound_max_ns),
        float_span(path.jitter_ns),
    ]
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
fn details(report: &Report, flow: &FlowReport, out: &mut dyn Write) -> io::Result<()> {
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
            "ssrc {:#010x}, payload type {}, clock {clock}; jitter {}, mean {}, max {}",
            rtp.ssrc,
            rtp.payload_type,
            float_span(rtp.jitter_ns),
            float_span(rtp.jitter_mean_ns),
            float_span(rtp.jitter_max_ns)
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
    for rtt in &seen.rtt {
        let text = format!("{}, {}", spread(&rtt.time), bound(rtt.bound_max_ns));
        line(out, "rtt", &format!("{}: {text}", rtt.kind.name()))?;
    }
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
            ", in {runs} runs, the longest of {}, {:.1} on average; {} less than 100 after another",
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
    line(out, "pdv", &spread(&path.pdv))?;
    line(out, "ipdv", &spread(&path.ipdv))?;
    let (last, max) = (float_span(path.jitter_ns), float_span(path.jitter_max_ns));
    line(out, "jitter", &format!("{last}, max {max}"))?;
    loss(&path.loss, out)?;
    line(out, "duplicates", &path.duplicates.to_string())?;
    reordering(&path.reordering, out)?;
    let unknown: Vec<String> = [
        ("ambiguous", path.ambiguous),
        ("not watched for", path.unwatched),
        ("too near the end", path.recent),
        ("forgotten", path.dropped),
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

/// Delays between layers.
pub fn layers(report: &LayersReport, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(&[
        ("from", Side::Left),
        ("to", Side::Left),
        ("packets", Side::Right),
        ("min", Side::Right),
        ("median", Side::Right),
        ("p95", Side::Right),
        ("p99", Side::Right),
        ("max", Side::Right),
        ("bound", Side::Right),
    ]);
    for pair in report
        .pairs
        .iter()
        .filter(|pair| pair.adjacent)
        .chain(report.pairs.iter().filter(|pair| !pair.adjacent))
    {
        table.row(vec![
            pair.from.name().into(),
            pair.to.name().into(),
            pair.delay.n.to_string(),
            span(pair.delay.min_ns),
            span(pair.delay.median_ns),
            span(pair.delay.p95_ns),
            span(pair.delay.p99_ns),
            span(pair.delay.max_ns),
            bound(pair.bound_max_ns),
        ]);
    }
    writeln!(out, "layers: {} packets", report.packets)?;
    write(&table, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(plain(&span(Some(-1_234_567))), "−1.23 ms");
        assert_eq!((span(None), plain(&bound(None))), ("-".into(), "± ?".into()));
        assert_eq!(plain(&bound(Some(20_000))), "± 20.0 µs");
        assert_eq!(plain(&rate(Some(64_000.0))), "64.0 kb/s");
        assert_eq!(share(3, Some(0.015)), "3 (1.50%)");
    }

    #[test]
    fn long_texts_are_wrapped() {
        let mut out = Vec::new();
        wrapped(&mut out, "note: ", &"word ".repeat(60)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.lines().skip(1).all(|line| line.starts_with("      ")));
    }
}
