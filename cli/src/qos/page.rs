//! The report as a page with plots.

use truechimer_command::report as reports;
use truechimer_qos::{
    Bin, Bins, Distribution, Engine, Flow, FlowReport, GroupReport, LayersReport, Report, Severity,
    Totals, VoiceReport, Way, WayTotals,
};
use truechimer_report::{
    Cell, Chart, Histogram, Page, Section, Series, Share, Table, Tone, Unit, View,
};

use super::csv::most_rtts;
use super::screen::ends;

/// Bins of a histogram.
const BINS: u32 = 120;
/// Flows with plots of their own.
const FLOWS: usize = 12;

fn seconds(ns: Option<i64>) -> Cell {
    Cell::number(ns.map_or(f64::NAN, |ns| ns as f64 * 1e-9), Unit::Seconds)
}

fn bound(ns: Option<u64>) -> Cell {
    match ns {
        Some(ns) => Cell::number(ns as f64 * 1e-9, Unit::Seconds),
        None => Cell::text("none").tone(Tone::Warning),
    }
}

fn ratio(ratio: Option<f64>) -> Cell {
    Cell::number(ratio.unwrap_or(f64::NAN), Unit::Share)
}

fn bad(count: u64, tone: Tone) -> Cell {
    Cell::count(count).tone(if count > 0 { tone } else { Tone::Plain })
}

/// The page.
pub fn page(report: &Report, engine: &Engine, totals: &Totals, command: &str) -> Page {
    let start = report.points.iter().filter_map(|point| point.first_ns).min().unwrap_or(0);
    let names: Vec<&str> = report.points.iter().map(|point| point.name.as_str()).collect();
    let title = match names[..] {
        [from, to] => format!("From {from} to {to}, and back"),
        _ => format!("Packets at {}", names.join(", ")),
    };
    let mut page = Page::new(&title)
        .about("What packets say of the path: delay, jitter, loss, reordering.")
        .version(concat!("Truechimer ", env!("CARGO_PKG_VERSION")))
        .command(command)
        .since(start);
    page = headline(facts(page, report), report).section(summary(report));
    if let Some(section) = delays(report, totals, start) {
        page = page.section(section);
    }
    page = page.section(rates(report, totals, start));
    if let Some(section) = round_trips(report, totals, start) {
        page = page.section(section);
    }
    if let Some(layers) = &report.layers {
        page = page.section(self::layers(layers, start));
    }
    page = page.section(flows(report));
    for flow in report.flows.iter().take(FLOWS) {
        if let Some(kept) = engine.flow(flow.number) {
            page = page.section(one(report, flow, kept, start, beside(report, engine, flow)));
        }
    }
    page
}

/// Time of the packets, and what was known of it.
fn facts(page: Page, report: &Report) -> Page {
    let points = || report.points.iter();
    let first = points().filter_map(|point| point.first_ns).min();
    let last = points().filter_map(|point| point.last_ns).max();
    let time = first.zip(last).map(|(first, last)| reports::between(first, last));
    let clocks = points().map(|point| {
        let known = match (point.packets - point.unbounded, point.worst_bound_ns) {
            (0, _) | (_, None) => "no bound".to_owned(),
            (_, Some(ns)) => format!("within ± {}", Unit::Seconds.show(ns as f64 * 1e-9, 3)),
        };
        let without = match point.unbounded {
            n @ 1.. if n < point.packets => format!(", {n} packets without a bound"),
            _ => String::new(),
        };
        format!("{}: {known}{without}", point.name)
    });
    page.fact("time", &time.unwrap_or_default())
        .fact("stamps", &clocks.collect::<Vec<_>>().join("; "))
}

/// Three tiles: of two points the delay of each way, with its bound, and the losses of both; of one its
/// packets, its flows, shown or not, and the time that they lasted.
fn headline(mut page: Page, report: &Report) -> Page {
    let loss = |lost: u64, sent: u64| ratio((sent > 0).then(|| lost as f64 / sent as f64));
    if report.points.len() < 2 {
        let packets = report.points.iter().map(|point| point.packets).sum();
        let lasted = report.points.iter().find_map(|point| point.first_ns.zip(point.last_ns));
        return page
            .highlight("packets", Cell::count(packets))
            .highlight("flows", Cell::count(report.flows_seen))
            .highlight("lasted", seconds(lasted.map(|(first, last)| last.saturating_sub(first))));
    }
    let (mut lost, mut sent) = (0, 0);
    for way in &report.ways {
        let (from, to) = ends(&report.points, way.way);
        (lost, sent) = (lost + way.lost, sent + way.arrived + way.lost);
        let delay = way.delay.median_ns.map_or_else(Cell::missing, |ns| {
            let shown = Unit::Seconds.show(ns as f64 * 1e-9, 3);
            Cell::text(match way.bound_max_ns {
                Some(ns) => format!("{shown} ± {}", Unit::Seconds.show(ns as f64 * 1e-9, 3)),
                None => format!("{shown}, no bound"),
            })
        });
        page = page.highlight(&format!("median delay {from} → {to}"), delay);
    }
    page = page.highlight("lost", loss(lost, sent));
    match report.ways.as_slice() {
        [way] => page.highlight("99 % within", seconds(way.delay.p99_ns)),
        _ => page,
    }
}

fn summary(report: &Report) -> Section {
    let mut section = Section::new("Summary");
    for note in &report.notes {
        let word = match note.severity {
            Severity::Problem => "Problem: ",
            Severity::Warning => "Warning: ",
            Severity::Note => "",
        };
        section = section.text(&format!("{word}{}.", note.text));
    }
    let mut points = Table::new("Points").head([
        "point",
        "packets",
        "bytes",
        "not IP",
        "without a bound",
        "worst bound",
        "lasted",
    ]);
    for point in &report.points {
        let lasted = point.first_ns.zip(point.last_ns).map(|(a, b)| b.saturating_sub(a));
        points = points.row(
            point.name.clone(),
            [
                Cell::count(point.packets),
                Cell::number(point.bytes as f64, Unit::Bytes),
                Cell::count(point.not_ip),
                bad(point.unbounded, Tone::Warning),
                bound(point.worst_bound_ns),
                seconds(lasted),
            ],
        );
    }
    let mut ways = Table::new("Between them, all flows together")
        .head([
            "way",
            "flows",
            "arrived",
            "lost",
            "share",
            "min",
            "median",
            "p95",
            "p99",
            "max",
            "bound",
            "below zero",
        ])
        .share(Share::Rows);
    for way in &report.ways {
        let (from, to) = ends(&report.points, way.way);
        let sent = way.arrived + way.lost;
        ways = ways.row(
            format!("{from} → {to}"),
            [
                Cell::count(way.flows),
                Cell::count(way.arrived),
                bad(way.lost, Tone::Warning),
                ratio((sent > 0).then(|| way.lost as f64 / sent as f64)),
                seconds(way.delay.min_ns),
                seconds(way.delay.median_ns),
                seconds(way.delay.p95_ns),
                seconds(way.delay.p99_ns),
                seconds(way.delay.max_ns),
                bound(way.bound_max_ns),
                bad(way.negative, Tone::Bad),
            ],
        );
    }
    section.table(points).table(ways)
}

/// Values up to which each is a point.
const FEW: u64 = 50;

/// Distributions beside each other.
fn histogram(title: &str, about: &str, sets: &[(&str, &Distribution)]) -> Chart {
    let sets = || sets.iter().filter(|(_, values)| !values.is_empty());
    if sets().all(|(_, values)| values.len() <= FEW) {
        let of = |values: &Distribution| -> Vec<f64> {
            let times = |n: u64| usize::try_from(n).unwrap_or(0);
            let each = values.buckets();
            each.flat_map(|(ns, n)| std::iter::repeat_n(ns as f64 * 1e-9, times(n))).collect()
        };
        return sets()
            .fold(Histogram::new(title, Unit::Seconds), |all, (name, values)| {
                all.values(name, of(values))
            })
            .chart()
            .about(about);
    }
    let mut chart = Chart::xy(title)
        .about(about)
        .about("Without the outermost thousandth.")
        .x("", Unit::Seconds)
        .y("share of the packets in a bin", Unit::Share);
    for (name, values) in sets() {
        let steps = values.histogram(BINS).into_iter().map(|(ns, share)| (ns as f64 * 1e-9, share));
        chart = chart.with(Series::steps(name, steps));
    }
    chart.view(View::all("linear")).view(View::log("log"))
}

/// Ends of what a chart of these delays has to show, s: the delays, and the bounds around their means.
fn reach(bins: &Bins) -> Option<(f64, f64)> {
    let filled = bins.iter().filter(|(_, bin)| bin.values > 0);
    let ends = filled.map(|(_, bin)| {
        let (mean, bound) = (bin.mean().unwrap_or(0.0), bin.bound.unwrap_or(0) as f64);
        ((mean - bound).min(bin.least as f64), (mean + bound).max(bin.greatest as f64))
    });
    let (low, high) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let room = (high - low) * 0.07;
    Some(((low - room) * 1e-9, (high + room) * 1e-9))
}

/// Delays over time: mean, from the least to the greatest, and the bound around the mean. `scale`: ends
/// of y that other charts have as well, s.
fn over_time(
    title: &str,
    about: &str,
    start: i64,
    bins: &Bins,
    scale: Option<(f64, f64)>,
) -> Chart {
    let middle = |at: i64| (at.saturating_sub(start) as f64 + bins.width_ns() as f64 / 2.0) * 1e-9;
    let values = || bins.iter().filter(|(_, bin)| bin.values > 0);
    let mut chart = Chart::time(title).about(about).unit(Unit::Seconds);
    if let Some((low, high)) = scale {
        chart = chart.view(View::range("both ways", low, high)).view(View::all("this way"));
    }
    if values().any(|(_, bin)| bin.bound.is_some()) {
        let rows = values().map(|(at, bin)| {
            let bound = bin.bound.map_or(f64::NAN, |bound| bound as f64);
            let mean = bin.mean().unwrap_or(f64::NAN);
            (middle(at), (mean - bound) * 1e-9, (mean + bound) * 1e-9)
        });
        chart = chart.with(Series::band("mean ± bound", rows).colour(7));
        if scale.is_none() {
            chart = chart.view(View::all("with the bound"));
        }
        let least = values().map(|(_, bin)| bin.least).min().unwrap_or(0) as f64;
        let greatest = values().map(|(_, bin)| bin.greatest).max().unwrap_or(0) as f64;
        let room = (greatest - least).mul_add(0.07, 1.0);
        chart = chart.view(View::range("close", (least - room) * 1e-9, (greatest + room) * 1e-9));
    }
    let ends =
        |(at, bin): (i64, &Bin)| (middle(at), bin.least as f64 * 1e-9, bin.greatest as f64 * 1e-9);
    let mean = |(at, bin): (i64, &Bin)| (middle(at), bin.mean().unwrap_or(f64::NAN) * 1e-9);
    chart
        .with(Series::band("least to greatest", values().map(ends)).colour(0))
        .with(Series::line("mean", values().map(mean)).colour(0))
}

/// Share of each interval's packets that was lost, of those intervals whose packets are all decided.
fn losses(bins: &Bins, start: i64, decided: i64) -> Vec<(f64, f64)> {
    let sent = |bin: &Bin| bin.values + bin.lost;
    bins.iter()
        .filter(|(at, bin)| sent(bin) > 0 && at.saturating_add(bins.width_ns()) <= decided)
        .map(|(at, bin)| {
            (at.saturating_sub(start) as f64 * 1e-9, bin.lost as f64 / sent(bin) as f64)
        })
        .collect()
}

/// Ways beside each other: on the same scales.
fn delays(report: &Report, totals: &Totals, start: i64) -> Option<Section> {
    let ways: Vec<(String, &WayTotals)> = [Way::Forward, Way::Backward]
        .into_iter()
        .zip(&totals.ways)
        .filter(|(_, of_way)| of_way.flows > 0)
        .map(|(way, of_way)| {
            let (from, to) = ends(&report.points, way);
            (format!("from {from} to {to}"), of_way)
        })
        .collect();
    let all = ways.iter().filter_map(|(_, of_way)| reach(&of_way.bins));
    let scale = all.reduce(both).filter(|_| ways.len() > 1);
    let mut section = (!ways.is_empty()).then(|| Section::new("One-way delay"))?;
    for (name, of_way) in &ways {
        section = section.chart(over_time(
            &format!("Delay {name}"),
            "Per interval; the mean may be off by the greatest bound of the interval's packets.",
            start,
            &of_way.bins,
            scale,
        ));
    }
    let sets = |of: fn(&WayTotals) -> &Distribution| -> Vec<(&str, &Distribution)> {
        ways.iter().map(|(name, of_way)| (name.as_str(), of(of_way))).collect()
    };
    section = section.chart(histogram("Distribution of the delay", "", &sets(|way| &way.delays)));
    if ways.iter().any(|(_, of_way)| !of_way.ipdv.is_empty()) {
        let about = "Delay of a packet less that of the one sent before it (RFC 5481, IPDV).";
        let title = "Distribution of its variation";
        section = section.chart(histogram(title, about, &sets(|way| &way.ipdv)));
    }
    // Of later packets it is not known which were lost.
    let ended = report.points.iter().filter_map(|point| point.last_ns).min();
    let decided = ended.unwrap_or(i64::MAX).saturating_sub(report.timeout_ns);
    let lost: Vec<_> =
        ways.iter().map(|(name, of_way)| (name, losses(&of_way.bins, start, decided))).collect();
    if lost.iter().flat_map(|(_, shares)| shares).any(|(_, share)| *share > 0.0) {
        let chart = Chart::time("Losses over time").unit(Unit::Share);
        section = section.chart(
            lost.into_iter()
                .fold(chart, |chart, (name, shares)| chart.with(Series::steps(name, shares))),
        );
    }
    Some(section)
}

fn rates(report: &Report, totals: &Totals, start: i64) -> Section {
    let mut bits = Chart::time("Rate on the wire")
        .about("An Ethernet's: with preamble, checksum and the gap between frames.")
        .y("rate", Unit::BitRate);
    let mut packets = Chart::time("Packets").y("packets/s", Unit::Named("/s".into()));
    for (point, bins) in report.points.iter().zip(&totals.bins) {
        let Some(bins) = bins else { continue };
        let width = bins.width_ns() as f64 * 1e-9;
        let at = |ns: i64| ns.saturating_sub(start) as f64 * 1e-9;
        let series = |value: fn(&Bin) -> f64| {
            bins.iter().map(|(ns, bin)| (at(ns), value(bin) / width)).collect::<Vec<_>>()
        };
        let wire = series(|bin| bin.wire_bytes as f64 * 8.0);
        bits = bits.with(Series::steps(&point.name, wire));
        packets = packets.with(Series::steps(&point.name, series(|bin| bin.packets as f64)));
    }
    Section::new("Rates").continues().chart(bits).chart(packets)
}

fn round_trips(report: &Report, totals: &Totals, start: i64) -> Option<Section> {
    if totals.rtts.iter().all(std::collections::BTreeMap::is_empty) {
        return None;
    }
    let mut table = Table::new("Round trips")
        .head(["kind", "point", "answers", "by counter", "min", "median", "p99", "max", "bound"])
        .share(Share::Rows);
    let mut section = Section::new("Round trips").continues().text(
        "From a packet that asks for an answer to the answer, at one point. Measured by the \
         counter where packets have counts: then the bound is that of both stamps and of the \
         counter's rate, whatever the time of day is worth.",
    );
    let mut charts = Vec::new();
    for (point, rtts) in report.points.iter().zip(&totals.rtts) {
        for (kind, rtt) in rtts {
            let name = format!("{} at {}", kind.name(), point.name);
            let worst = (rtt.bounds.unbounded == 0).then_some(rtt.bounds.greatest);
            table = table.row(
                kind.name(),
                [
                    Cell::text(point.name.clone()),
                    Cell::count(rtt.times.len()),
                    Cell::count(rtt.by_counter),
                    seconds(rtt.times.min()),
                    seconds(rtt.times.quantile(0.5)),
                    seconds(rtt.times.quantile(0.99)),
                    seconds(rtt.times.max()),
                    bound(worst),
                ],
            );
            charts.push(over_time(&name, "", start, &rtt.bins, None));
            charts.push(histogram(
                &format!("Distribution: {name}"),
                "",
                &[("round trip", &rtt.times)],
            ));
        }
    }
    section = section.table(table);
    Some(charts.into_iter().fold(section, Section::chart))
}

fn layers(report: &LayersReport, start: i64) -> Section {
    let mut table = Table::new("From layer to layer")
        .head(["from", "to", "packets", "min", "median", "p95", "p99", "p99.9", "max", "bound"]);
    for pair in &report.pairs {
        table = table.row(
            pair.from.name(),
            [
                Cell::text(pair.to.name()),
                Cell::count(pair.delay.n),
                seconds(pair.delay.min_ns),
                seconds(pair.delay.median_ns),
                seconds(pair.delay.p95_ns),
                seconds(pair.delay.p99_ns),
                seconds(pair.delay.p999_ns),
                seconds(pair.delay.max_ns),
                bound(pair.bound_max_ns),
            ],
        );
    }
    let mut section = Section::new("Layers")
        .text("The same packet at several layers of this host, on its way up, and answers on their way down.")
        .table(table);
    for pair in report.pairs.iter().filter(|pair| pair.adjacent) {
        let name = format!("from {} to {}", pair.from, pair.to);
        section = section
            .chart(histogram(&format!("Distribution {name}"), "", &[("delay", &pair.delays)]))
            .chart(over_time(&format!("Over time {name}"), "", start, &pair.bins, None));
    }
    section
}

/// Estimates of voice, with what went into them.
pub fn voices<'a>(rows: impl Iterator<Item = (&'a str, &'a VoiceReport)>) -> Table {
    let table = Table::new("Voice by the E-model (ITU-T G.107)").head([
        "",
        "MOS",
        "R",
        "codec",
        "mouth to ear",
        "not played",
        "burst ratio",
    ]);
    rows.fold(table, |table, (name, of)| {
        table.row(
            name,
            [
                Cell::number(of.mos, Unit::None),
                Cell::number(of.rating, Unit::None),
                Cell::text(of.inputs.codec.name),
                Cell::number(of.inputs.delay_ms * 1e-3, Unit::Seconds),
                Cell::number(of.inputs.loss, Unit::Share),
                Cell::number(of.inputs.burst, Unit::None),
            ],
        )
    })
}

fn flows(report: &Report) -> Section {
    let two = report.points.len() == 2;
    let head: &[&str] = if two {
        &[
            "flow",
            "packets",
            "lost",
            "share",
            "dup",
            "late",
            "min",
            "median",
            "p99",
            "max",
            "bound",
            "jitter",
            "most",
            "ambiguous",
        ]
    } else {
        &[
            "flow", "packets", "bytes", "gap", "lost", "share", "dup", "late", "jitter", "most",
            "rtts", "rtt", "rtt max",
        ]
    };
    let mut table = Table::new("Flows").head(head.iter().copied());
    let mut rows: Vec<(u64, String, Vec<Cell>)> = Vec::new();
    for group in &report.groups {
        let row = if two { group_between(group) } else { group_alone(group) };
        rows.push((group.packets, format!("{} ({} flows)", group.name, group.flows), row));
    }
    for flow in &report.flows {
        let row = if two { between(flow) } else { alone(flow) };
        rows.push((flow.packets, flow.name.clone(), row));
    }
    rows.sort_by_key(|(packets, ..)| std::cmp::Reverse(*packets));
    table = rows.into_iter().fold(table, |table, (_, name, row)| table.row(name, row));
    let shown =
        report.flows.len() as u64 + report.groups.iter().map(|group| group.flows).sum::<u64>();
    let mut about = String::new();
    if !report.groups.is_empty() {
        about.push_str(
            "Flows of fewer than three packets that differ only by the port of one end are one row. ",
        );
    }
    match report.flows_seen.saturating_sub(shown) {
        0 => {}
        1 => about.push_str("1 more flow is not shown."),
        n => about.push_str(&format!("{n} more flows are not shown.")),
    }
    let section = Section::new("Flows").text(&about).table(table);
    let rated: Vec<_> = report
        .flows
        .iter()
        .filter_map(|flow| Some((flow.name.as_str(), flow.path.as_ref()?.voice.as_ref()?)))
        .collect();
    if rated.is_empty() { section } else { section.table(voices(rated.into_iter())) }
}

fn group_alone(group: &GroupReport) -> Vec<Cell> {
    let rtt = group.rtt.first().and_then(|rtts| most_rtts(rtts)).map(|rtt| &rtt.time);
    let bytes: u64 = group.seen_bytes.iter().sum();
    let mut cells = vec![Cell::count(group.packets), Cell::number(bytes as f64, Unit::Bytes)];
    cells.extend((0..7).map(|_| Cell::missing()));
    cells.push(rtt.map_or_else(Cell::missing, |rtt| Cell::count(rtt.n)));
    cells.push(seconds(rtt.and_then(|rtt| rtt.median_ns)));
    cells.push(seconds(rtt.and_then(|rtt| rtt.max_ns)));
    cells
}

fn group_between(group: &GroupReport) -> Vec<Cell> {
    let packets = group.seen_packets.iter().max().copied().unwrap_or(0);
    let Some(way) = group.ways.iter().max_by_key(|way| way.delay.n) else {
        return vec![Cell::count(packets), Cell::text("seen at one point only").tone(Tone::Quiet)];
    };
    let sent = way.arrived + way.lost;
    vec![
        Cell::count(packets),
        bad(way.lost, Tone::Warning),
        ratio((sent > 0).then(|| way.lost as f64 / sent as f64)),
        Cell::count(way.duplicates),
        Cell::count(way.reordered),
        seconds(way.delay.min_ns),
        seconds(way.delay.median_ns),
        seconds(way.delay.p99_ns),
        seconds(way.delay.max_ns),
        bound(way.bound_max_ns),
        Cell::missing(),
        Cell::missing(),
        Cell::missing(),
    ]
}

fn float_seconds(ns: Option<f64>) -> Cell {
    Cell::number(ns.map_or(f64::NAN, |ns| ns * 1e-9), Unit::Seconds)
}

fn between(flow: &FlowReport) -> Vec<Cell> {
    let packets = flow.seen.iter().flatten().map(|seen| seen.packets).max().unwrap_or(0);
    let Some(path) = flow.path.as_ref().filter(|path| path.way.is_some()) else {
        return vec![Cell::count(packets), Cell::text("seen at one point only").tone(Tone::Quiet)];
    };
    vec![
        Cell::count(packets),
        bad(path.loss.lost, Tone::Warning),
        ratio(path.loss.ratio),
        Cell::count(path.duplicates),
        Cell::count(path.reordering.reordered),
        seconds(path.delay.min_ns),
        seconds(path.delay.median_ns),
        seconds(path.delay.p99_ns),
        seconds(path.delay.max_ns),
        bound(path.bound_max_ns),
        float_seconds(path.jitter_mean_ns),
        float_seconds(path.jitter_max_ns),
        Cell::count(path.ambiguous.iter().sum()),
    ]
}

fn alone(flow: &FlowReport) -> Vec<Cell> {
    let Some(seen) = flow.seen.iter().flatten().next() else { return Vec::new() };
    let (numbers, rtp) = (seen.numbers.as_ref(), seen.rtp.as_ref());
    let count = |n: Option<u64>| n.map_or_else(Cell::missing, Cell::count);
    let rtt = most_rtts(&seen.rtt).map(|rtt| &rtt.time);
    vec![
        Cell::count(seen.packets),
        Cell::number(seen.bytes as f64, Unit::Bytes),
        seconds(seen.gap.median_ns),
        count(numbers.map(|n| n.loss.lost)),
        ratio(numbers.and_then(|n| n.loss.ratio)),
        count(numbers.map(|n| n.copies)),
        count(numbers.map(|n| n.reordering.reordered)),
        float_seconds(rtp.and_then(|rtp| rtp.jitter_mean_ns)),
        float_seconds(rtp.and_then(|rtp| rtp.jitter_max_ns)),
        count(rtt.map(|rtt| rtt.n)),
        seconds(rtt.and_then(|rtt| rtt.median_ns)),
        seconds(rtt.and_then(|rtt| rtt.max_ns)),
    ]
}

/// Ends of y that the delays of a flow have in common with those of its answers, s; none where nothing answers.
fn beside(report: &Report, engine: &Engine, flow: &FlowReport) -> Option<(f64, f64)> {
    let answers = report.flows.iter().find(|other| {
        (&other.protocol, &other.from, &other.to) == (&flow.protocol, &flow.to, &flow.from)
            && other.number != flow.number
    })?;
    let delays = |flow: &FlowReport| {
        let path = engine.flow(flow.number)?.path.as_ref()?;
        path.way.and_then(|_| reach(&path.bins))
    };
    Some(both(delays(flow)?, delays(answers)?))
}

/// Ends of what both hold.
fn both(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// One flow's plots; `scale` as of [`over_time`].
fn one(
    report: &Report,
    flow: &FlowReport,
    kept: &Flow,
    start: i64,
    scale: Option<(f64, f64)>,
) -> Section {
    let mut section = Section::new(&flow.name);
    if let Some(path) = kept.path.as_ref().filter(|path| path.way.is_some()) {
        let about = "Band: from the least to the greatest, and the mean with its bound.";
        section = section
            .chart(over_time("Delay over time", about, start, &path.bins, scale))
            .chart(histogram("Distribution of the delay", "", &[("delay", &path.delays)]));
    }
    let gaps: Vec<(&str, &Distribution)> = report
        .points
        .iter()
        .zip(&kept.seen)
        .filter_map(|(point, seen)| Some((point.name.as_str(), &seen.as_ref()?.gaps)))
        .collect();
    section = section.chart(histogram("Time between packets", "", &gaps));
    let reordering = flow.path.as_ref().map(|path| &path.reordering).or_else(|| {
        let numbers = flow.seen.iter().flatten().find_map(|seen| seen.numbers.as_ref());
        numbers.map(|numbers| &numbers.reordering)
    });
    if let Some(reordering) = reordering.filter(|reordering| reordering.reordered > 0) {
        let density = &reordering.density;
        let chart = |title: &str, about: &str, rows: Vec<(f64, f64)>| {
            Chart::xy(title)
                .about(about)
                .x("packets", Unit::None)
                .y("share", Unit::Share)
                .points("", rows)
        };
        let rd = density.displacement.iter().map(|(d, share)| (*d as f64, *share)).collect();
        let rbd = density.occupancy.iter().map(|(b, share)| (*b as f64, *share)).collect();
        section = section
            .chart(chart("Reorder density", "Displacement, positive: late (RFC 5236).", rd))
            .chart(chart(
                "Reorder buffer-occupancy density",
                "Packets that would wait in a buffer that puts them in order (RFC 5236).",
                rbd,
            ));
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_qos::bins::value;

    /// Delays, ns, with their bound, a second each.
    fn delays(all: &[i64], bound: Option<u64>) -> Bins {
        let mut bins = Bins::new(1_000_000_000);
        for (second, ns) in (0..).zip(all) {
            bins.add(second * 1_000_000_000, &value(*ns, bound));
        }
        bins
    }

    #[test]
    fn a_chart_holds_all_bounds() {
        let (low, high) = reach(&delays(&[1000, 5000], Some(30_000))).unwrap();
        assert!(low < -29_000e-9 && high > 35_000e-9, "{low} {high}");
        let (low, high) = reach(&delays(&[1000, 5000], None)).unwrap();
        assert!(low < 1000e-9 && low > 0.0 && high > 5000e-9 && high < 6000e-9, "{low} {high}");
        assert_eq!(reach(&Bins::new(1)), None);
        // The view that a page shows first has the ends that it was given; what is close is another.
        let (bins, ends) = (delays(&[1000, 5000], Some(30_000)), (-40e-6, 90e-6));
        let shown = |scale| {
            Page::new("t")
                .section(Section::new("s").chart(over_time("c", "", 0, &bins, scale)))
                .render()
        };
        assert!(shown(Some(ends)).contains("both ways") && !shown(None).contains("both ways"));
        assert_eq!(both((1.0, 2.0), (0.0, 1.5)), (0.0, 2.0));
    }
}
