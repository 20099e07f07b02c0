//! Tables for people, at most 100 columns wide.

mod details;

use std::io::{self, Write};

use truechimer_qos::{
    FlowReport, GroupReport, LayersReport, NumbersReport, PointReport, Quantile, Report, Severity,
    VoiceReport, Way, WayReport,
};
use truechimer_report::Unit;

use super::More;
use super::csv::most_rtts;
use truechimer_command::show::many;
use truechimer_command::table::{Side, Table};

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

/// Interval of the median.
pub fn interval(quantiles: &[Quantile]) -> String {
    let median = quantiles.iter().find(|quantile| quantile.q == 0.5);
    let ends = median.and_then(|median| median.low_ns.zip(median.high_ns));
    ends.map_or_else(
        || "-".into(),
        |(low, high)| format!("{}…{}", span(Some(low)), span(Some(high))),
    )
}

/// Estimate of voice, and what went into it.
pub fn voice_line(voice: &VoiceReport) -> String {
    let inputs = &voice.inputs;
    let assumed = if voice.assumed { " (assumed)" } else { "" };
    format!(
        "MOS {:.2} (R {:.1}): {}, {:.1} ms mouth to ear{assumed}, {:.2} % not played, burst ratio {:.2}",
        voice.mos,
        voice.rating,
        inputs.codec.name,
        inputs.delay_ms,
        inputs.loss * 100.0,
        inputs.burst,
    )
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
pub fn report(report: &Report, more: More, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for point in &report.points {
        self::point(point, out)?;
    }
    notes(report, out)?;
    if !report.ways.is_empty() {
        writeln!(out)?;
        ways(report, out)?;
    }
    if !report.flows.is_empty() || !report.groups.is_empty() {
        writeln!(out)?;
        if verbose {
            for group in &report.groups {
                details::group(report, group, out)?;
            }
            for flow in &report.flows {
                details::flow(report, flow, out)?;
            }
        } else {
            flows(report, out)?;
        }
    }
    if more.flows > 0 {
        let few = if more.most < truechimer_qos::FEW { " of one or two packets each" } else { "" };
        let text = format!(
            "{}{few}, {}: --top 0 shows all",
            many(more.flows, "more flow", "more flows"),
            many(more.packets, "packet", "packets")
        );
        wrapped(out, "… and ", &text)?;
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

/// Two lines for each flow or group: its name, its figures.
fn flows(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let two = report.points.len() == 2;
    let columns: &[&str] = if two {
        &[
            "packets",
            "lost",
            "dup",
            "late",
            "delay min",
            "median",
            "p99",
            "bound",
            "jitter",
            "most",
            "rtt",
        ]
    } else {
        &[
            "packets", "rate", "gap", "lost", "dup", "late", "jitter", "most", "resent", "rtts",
            "rtt", "rtt max",
        ]
    };
    let mut rows: Vec<(u64, String, Vec<String>)> = Vec::new();
    for group in &report.groups {
        let name = format!("{} ({} flows)", group.name, group.flows);
        rows.push((
            group.packets,
            name,
            if two { group_between(group) } else { group_alone(group) },
        ));
    }
    for flow in &report.flows {
        let name = match flow.protocol.as_str() {
            "rtp" => format!("{} (rtp)", flow.name),
            _ => flow.name.clone(),
        };
        rows.push((flow.packets, name, if two { between(flow) } else { alone(flow) }));
    }
    rows.sort_by_key(|(packets, ..)| std::cmp::Reverse(*packets));
    // What no row has anything to say of.
    let said = |column: usize| {
        rows.iter().any(|(.., cells)| cells.get(column).is_some_and(|cell| cell != "-"))
    };
    let kept: Vec<bool> = (0..columns.len()).map(said).collect();
    let keep = |cells: &[String]| -> Vec<String> {
        let kept = cells.iter().zip(&kept).filter(|(_, kept)| **kept);
        std::iter::once(String::new()).chain(kept.map(|(cell, _)| cell.clone())).collect()
    };
    let heads = columns.iter().zip(&kept).filter(|(_, kept)| **kept);
    let heads: Vec<(&str, Side)> = std::iter::once(("", Side::Left))
        .chain(heads.map(|(head, _)| (*head, Side::Right)))
        .collect();
    let mut table = Table::new(&heads);
    rows.iter().for_each(|(.., cells)| table.row(keep(cells)));
    let mut buffer = Vec::new();
    write(&table, &mut buffer)?;
    let text = String::from_utf8_lossy(&buffer).into_owned();
    let mut lines = text.lines();
    writeln!(out, "{}", lines.next().unwrap_or_default())?;
    for ((_, name, _), line) in rows.iter().zip(lines) {
        writeln!(out, "{name}")?;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn count(n: Option<u64>) -> String {
    n.map_or_else(|| "-".into(), |n| n.to_string())
}

fn alone(flow: &FlowReport) -> Vec<String> {
    let Some(seen) = flow.seen.iter().flatten().next() else { return vec!["-".into(); 12] };
    let (numbers, rtp) = (seen.numbers.as_ref(), seen.rtp.as_ref());
    let number = |pick: fn(&NumbersReport) -> u64| count(numbers.map(pick));
    let rtt = most_rtts(&seen.rtt).map(|rtt| &rtt.time);
    vec![
        seen.packets.to_string(),
        rate(seen.bits_per_s),
        span(seen.gap.median_ns),
        numbers.map_or_else(|| "-".into(), |n| share(n.loss.lost, n.loss.ratio)),
        number(|n| n.copies),
        number(|n| n.reordering.reordered),
        float_span(rtp.and_then(|rtp| rtp.jitter_mean_ns)),
        float_span(rtp.and_then(|rtp| rtp.jitter_max_ns)),
        count((flow.protocol == "tcp").then_some(seen.retransmitted)),
        count(rtt.map(|rtt| rtt.n)),
        span(rtt.and_then(|rtt| rtt.median_ns)),
        span(rtt.and_then(|rtt| rtt.max_ns)),
    ]
}

fn group_alone(group: &GroupReport) -> Vec<String> {
    let rtt = group.rtt.first().and_then(|rtts| most_rtts(rtts)).map(|rtt| &rtt.time);
    let mut cells = vec!["-".to_owned(); 8];
    if let Some(packets) = cells.first_mut() {
        *packets = group.packets.to_string();
    }
    cells.extend([
        count((group.protocol == "tcp").then_some(group.retransmitted)),
        count(rtt.map(|rtt| rtt.n)),
        span(rtt.and_then(|rtt| rtt.median_ns)),
        span(rtt.and_then(|rtt| rtt.max_ns)),
    ]);
    cells
}

/// The median round trip at the first point that has one.
fn first_rtt<'a>(mut of: impl Iterator<Item = &'a [truechimer_qos::RttReport]>) -> String {
    span(of.find_map(most_rtts).and_then(|rtt| rtt.time.median_ns))
}

fn between(flow: &FlowReport) -> Vec<String> {
    let packets = flow.seen.iter().flatten().map(|seen| seen.packets).max().unwrap_or(0);
    let rtt = first_rtt(flow.seen.iter().flatten().map(|seen| seen.rtt.as_slice()));
    let Some(path) = flow.path.as_ref().filter(|path| path.way.is_some()) else {
        let mut cells = vec![packets.to_string()];
        cells.resize(10, "-".into());
        cells.push(rtt);
        return cells;
    };
    vec![
        packets.to_string(),
        share(path.loss.lost, path.loss.ratio),
        path.duplicates.to_string(),
        path.reordering.reordered.to_string(),
        span(path.delay.min_ns),
        span(path.delay.median_ns),
        span(path.delay.p99_ns),
        bound(path.bound_max_ns),
        float_span(path.jitter_mean_ns),
        float_span(path.jitter_max_ns),
        rtt,
    ]
}

fn group_between(group: &GroupReport) -> Vec<String> {
    let packets = group.seen_packets.iter().max().copied().unwrap_or(0);
    let rtt = first_rtt(group.rtt.iter().map(Vec::as_slice));
    let way = group.ways.iter().max_by_key(|way| way.delay.n);
    let Some(way) = way else {
        let mut cells = vec![packets.to_string()];
        cells.resize(10, "-".into());
        cells.push(rtt);
        return cells;
    };
    let sent = way.arrived + way.lost;
    vec![
        packets.to_string(),
        share(way.lost, (sent > 0).then(|| way.lost as f64 / sent as f64)),
        way.duplicates.to_string(),
        way.reordered.to_string(),
        span(way.delay.min_ns),
        span(way.delay.median_ns),
        span(way.delay.p99_ns),
        bound(way.bound_max_ns),
        "-".into(),
        "-".into(),
        rtt,
    ]
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
    fn voice_stands_with_its_inputs() {
        let codec = truechimer_qos::Codec::named("g711").unwrap();
        let voice = VoiceReport::of(codec, 34_000_000, 0.1, Some(2.0));
        let text = voice_line(&voice);
        let inputs = "g711, 54.0 ms mouth to ear, 10.90 % not played, burst ratio 1.80";
        assert!(text.starts_with("MOS 1.") && text.ends_with(inputs), "{text}");
        let page = truechimer_report::Page::new("t");
        let rows = super::super::voices([("flow", &voice)].into_iter());
        let page = page.section(truechimer_report::Section::new("s").table(rows)).render();
        assert!(page.contains("mouth to ear") && page.contains("g711"), "{page}");
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
