//! The measurement as text, tables and pictures.

use serde_json::{Value, json};
use truechimer_report::{Chart, Histogram, Unit};

use super::probe::Act;
use super::series::{self, Figures, Net, QUANTILES, Series, Together};
use super::{KINDS, Measured, Overhead, UNSTAMPED};
use truechimer_outcome::outcome::{Figure, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::stats::tail;

/// Lags shown in the table, and the greatest in the picture.
const LAGS: [usize; 4] = [1, 2, 5, 10];
const MOST_LAG: usize = 20;
/// Points of a scatter.
const MOST_POINTS: usize = 4000;

/// Figures shown of one kind under one pattern.
struct Row {
    name: &'static str,
    figures: Figures,
    net: Option<Nets>,
    correlations: Vec<f64>,
    together: Together,
}

struct Nets {
    mean: Net,
    median: Net,
    variance: Net,
    core: Net,
}

fn rows(measured: &Measured) -> Vec<Row> {
    let all = KINDS.iter().zip(&measured.series).enumerate();
    all.filter(|(_, (_, series))| is_there(series))
        .map(|(n, (kind, series))| Row {
            name: kind.name,
            figures: Figures::of(series),
            net: measured
                .series
                .get(kind.ground)
                .filter(|ground| kind.ground != n && is_there(ground))
                .map(|ground| nets(series, ground)),
            correlations: (1..=MOST_LAG).map(|lag| series::autocorrelation(series, lag)).collect(),
            together: series::together(series),
        })
        .collect()
}

/// True if anything came of it.
fn is_there(series: &Series) -> bool {
    series.iter().any(|block| !block.cost.is_empty())
}

fn nets(series: &Series, ground: &Series) -> Nets {
    Nets {
        mean: series::net(series, ground, |f| f.mean),
        median: series::net(series, ground, Figures::median),
        variance: series::net(series, ground, |f| f.variance),
        core: series::net(series, ground, |f| f.core),
    }
}

pub fn plain(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        0.0..1000.0 => format!("{value:.1}"),
        1000.0..1e6 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

pub fn with_interval(net: &Net) -> String {
    format!("{} [{} … {}]", plain(net.value), plain(net.low), plain(net.high))
}

pub fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:+.2}") } else { "–".to_owned() }
}

/// Everything.
pub(super) fn outcome(overhead: &Overhead) -> Outcome {
    let mut outcome = Outcome {
        name: "overhead",
        title: "Overhead and variance of the stamp in the kernel".to_owned(),
        about: about(overhead),
        ..Outcome::default()
    };
    let mut patterns = Vec::new();
    outcome.headline = headline(overhead);
    let all: Vec<_> = overhead.measured.iter().map(|measured| (measured, rows(measured))).collect();
    let found = all.iter().filter_map(|(measured, rows)| finding(measured.pattern.name, rows));
    let found: Vec<String> = found.collect();
    outcome.about.splice(0..0, found);
    for (measured, rows) in all {
        outcome.grids.extend(grids(measured, &rows));
        outcome.figures.extend(figures(measured, &rows));
        patterns.push(json_of(measured, &rows));
    }
    let mut grid = Grid::new(
        "The same readings back to back, everything in the caches: ns each, median of the rounds",
        ["reading", "ns"],
    );
    for cost in &overhead.costs {
        grid.row([cost.name.clone(), plain(cost.ns)]);
    }
    outcome.grids.push(grid);
    let costs: Vec<Value> =
        overhead.costs.iter().map(|cost| json!({ "reading": cost.name, "ns": cost.ns })).collect();
    outcome.json = json!({
        "ruler_step_ns": overhead.step, "no_tsc": overhead.no_tsc, "cpu": overhead.cpu,
        "patterns": patterns, "back_to_back": costs,
        "paper": { "stock": { "mean_ns": 195.0, "variance_ns2": 176.0 },
                   "raw": { "mean_ns": 73.0, "variance_ns2": 3.8 } },
    });
    outcome
}

/// Medians of the last pattern, the dense one: the kernel's stamp, and the time and the count in BPF.
fn headline(overhead: &Overhead) -> Vec<(String, String)> {
    let Some(measured) = overhead.measured.last() else { return Vec::new() };
    let rows = rows(measured);
    let wanted = [
        ("the kernel's stamp", Act::Kernel, true),
        ("CLOCK_MONOTONIC in BPF", Act::Monotonic, false),
        ("raw count in BPF", Act::Count, false),
    ];
    let nets = wanted.into_iter().filter_map(|(name, act, stamped)| {
        let kind = KINDS.iter().find(|kind| kind.act == act && kind.stamped == stamped)?;
        let nets = rows.iter().find(|row| row.name == kind.name)?.net.as_ref()?;
        Some((
            format!("{name}, {}", measured.pattern.name),
            format!("{} ns", plain(nets.median.value)),
        ))
    });
    nets.collect()
}

/// The result in a sentence.
fn finding(pattern: &str, rows: &[Row]) -> Option<String> {
    let nets = |act: Act, stamped: bool| {
        let kind = KINDS.iter().find(|kind| kind.act == act && kind.stamped == stamped)?;
        rows.iter().find(|row| row.name == kind.name)?.net.as_ref()
    };
    let cost = |nets: &Nets| {
        format!("{} ns (mean {})", with_interval(&nets.median), with_interval(&nets.mean))
    };
    let stamp = nets(Act::Kernel, true)?;
    let time = nets(Act::Monotonic, false)?;
    let mut text = format!(
        "Found, {pattern}, medians: the kernel's stamp takes {} (the paper: mean 195), and adds {} \
         ns² of variance, {} without the largest hundredth (the paper: 176). CLOCK_MONOTONIC in \
         BPF takes {}",
        cost(stamp),
        with_interval(&stamp.variance),
        with_interval(&stamp.core),
        cost(time)
    );
    if let Some(count) = nets(Act::Count, false) {
        // As they are printed, to a tenth: what touches there does not differ.
        let tenths = |ns: f64| (ns * 10.0).round();
        let is_above = |a: &Nets, b: &Nets| {
            tenths(a.median.low) > tenths(b.median.high) && tenths(a.mean.low) > tenths(b.mean.high)
        };
        let verdict = if is_above(count, time) {
            "dearer to get than"
        } else if is_above(time, count) {
            "cheaper to get than"
        } else {
            "neither clearly dearer nor clearly cheaper to get than"
        };
        text.push_str(&format!(
            ", the raw count in BPF {}: on this kernel a program in it finds the count {verdict} the \
             time.",
            cost(count)
        ));
    } else {
        text.push('.');
    }
    Some(text)
}

fn about(overhead: &Overhead) -> Vec<String> {
    let ruler = match &overhead.no_tsc {
        None => "the TSC, read in BPF through the perf event msr/tsc".to_owned(),
        Some(why) => format!("CLOCK_MONOTONIC, as the TSC cannot be read in BPF here ({why})"),
    };
    let misfits: usize = overhead.measured.iter().map(|m| m.misfits).sum();
    let missing: usize = overhead.measured.iter().map(|m| m.missing).sum();
    let mut about = vec![
        "Method. Real UDP packets cross a virtual wire between two network namespaces, in the \
         paper's two patterns. On their arrival the kernel passes the tracepoint netif_rx_entry, \
         stamps the packet if any socket wants stamps, and passes the tracepoint netif_rx; nothing \
         else lies between the two. BPF programs sit at both. (1) Kernel's stamp: the first \
         program reads the ruler as the last thing it does, the second as the first thing; what \
         lies between is the stamp, if there is one, and the ends of the programs. Stamping is \
         switched by opening and closing a socket with SO_TIMESTAMPING; whether each packet was \
         stamped is read from the packet itself. The difference of the two distributions is the \
         stamp. (2) Brackets: the first program reads the ruler, then a clock or the count as BPF \
         can, then the ruler again; net of the same bracket with nothing in it. All kinds take \
         turns in blocks, in an order drawn anew for every round. Intervals are 95 %, by bootstrap \
         over rounds."
            .to_owned(),
        format!(
            "The ruler is {ruler}; it advances in steps of {:.1} ns. A step of s ns adds to a \
             variance something between 0 and s²/4 (here {:.0} ns²), depending on where the true \
             length falls between two multiples of s: smaller variances and differences of \
             variances cannot be told apart here, the paper's 3.8 ns² among them. Means are not \
             affected.",
            overhead.step,
            overhead.step * overhead.step / 4.0
        ),
        "What it shows and what not. Reading the ruler costs more than what is measured, and varies \
         more: only differences mean anything, and a difference of variances is that of the stamp \
         only if the two do not influence each other. The bracket has warmed the caches for the \
         programs, not for the kernel's clock: its first reading is as cold as the packet finds \
         it. Between the tracepoints the way to the second program is as cold, which is why what \
         they measure is large after 20 ms of rest; the difference is the stamp's all the same. \
         Packets arrive in the sender's context on one processor, softirqs off but \
         interrupts on: the paper's stamps had interrupts off around them. What an interrupt or \
         the hypervisor takes shows in the greatest values and in the whole variance; the \
         variance without the largest hundredth is what is left without. No stock kernel stores a \
         raw count with a packet, so there is no raw stamp to measure in that place; BPF's own way \
         to the count goes through perf, whose bookkeeping costs more than converting a count \
         into time. What the instruction itself takes, and what conversion adds, is seen in the \
         last table."
            .to_owned(),
        format!("Everything ran on processor {}.", overhead.cpu),
    ];
    if misfits > 0 {
        about.push(format!(
            "{misfits} packets were left out because they were stamped though nobody here wanted \
             it, or the other way round: other programs on this machine switch stamping for all, \
             and the kernel takes a while to switch."
        ));
    }
    if missing > 0 {
        about.push(format!("{missing} packets left no record and are not in the figures."));
    }
    for measured in &overhead.measured {
        if !measured.series.get(UNSTAMPED).is_some_and(is_there) {
            about.push(format!(
                "{}: no packet came unstamped; some program on this machine wants stamps all the \
                 time, so that the kernel's stamp cannot be told from none.",
                measured.pattern.name
            ));
        }
    }
    about
}

fn grids(measured: &Measured, rows: &[Row]) -> Vec<Grid> {
    let name = measured.pattern.name;
    let mut net = Grid::new(
        &format!("{name}: net of what is measured without it, with 95 % intervals; ns and ns²"),
        ["", "mean", "median", "variance", "variance without the largest 1 %"],
    );
    for row in rows {
        if let Some(nets) = &row.net {
            let cells = [&nets.mean, &nets.median, &nets.variance, &nets.core].map(with_interval);
            net.row([row.name.to_owned()].into_iter().chain(cells));
        }
    }
    net.row(["the paper, stock kernel 2013", "195", "", "176", ""]);
    net.row(["the paper, raw count in a patched kernel", "73", "", "3.8", ""]);
    let mut whole = Grid::new(
        &format!("{name}: as measured, the ruler's own time included; ns and ns²"),
        [
            "",
            "packets",
            "mean",
            "variance",
            "without 1 %",
            "least",
            "p1",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "most",
        ],
    );
    let mut series = Grid::new(
        &format!(
            "{name}: autocorrelation of the overhead (of ranks within a block, at lags in packets), and how it \
             goes with the inter-arrival time. Chance gives ± 2/√n; in the last column 1 %."
        ),
        [
            "",
            "lag 1",
            "2",
            "5",
            "10",
            "2/√n",
            "with inter-arrival",
            "by ranks",
            "largest 1 % of both",
        ],
    );
    for row in rows {
        let f = &row.figures;
        let cells = [f.mean, f.variance, f.core].into_iter().chain(f.quantiles).map(plain);
        whole.row([row.name.to_owned(), f.count.to_string()].into_iter().chain(cells));
        let lags = LAGS.map(|lag| row.correlations.get(lag - 1).copied().unwrap_or(f64::NAN));
        let chance = 2.0 / (f.count as f64).sqrt();
        let t = &row.together;
        let large = match t.few {
            0 => "–".to_owned(),
            few => format!("{:.0} % of {few}", t.large * 100.0),
        };
        let cells = lags.into_iter().map(ratio).chain([
            format!("{chance:.2}"),
            ratio(t.values),
            ratio(t.ranks),
            large,
        ]);
        series.row([row.name.to_owned()].into_iter().chain(cells));
    }
    vec![net, whole, series]
}

fn costs(series: &Series) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|block| block.cost.iter().copied())
}

fn figures(measured: &Measured, rows: &[Row]) -> Vec<Figure> {
    let name = measured.pattern.name;
    let kinds = || KINDS.iter().zip(&measured.series).filter(|(_, series)| is_there(series));
    let mut above = Plot {
        title: format!("{name}: share of packets that took longer (ruler included)"),
        x: Axis::log("ns"),
        y: Axis::log("share"),
        lines: Vec::new(),
    };
    for (kind, series) in kinds() {
        above.lines.push((kind.name.to_owned(), tail(costs(series))));
    }
    let lags = Plot {
        title: format!("{name}: autocorrelation of the overhead"),
        x: Axis::linear("lag, packets"),
        y: Axis::linear("correlation of ranks"),
        lines: rows
            .iter()
            .map(|row| {
                let points = row.correlations.iter().enumerate();
                (row.name.to_owned(), points.map(|(n, c)| ((n + 1) as f64, *c)).collect())
            })
            .collect(),
    };
    let histogram = kinds().fold(
        Histogram::new(&format!("{name}: distribution (ruler included)"), Unit::Seconds),
        |histogram, (kind, series)| histogram.values(kind.name, costs(series).map(|ns| ns * 1e-9)),
    );
    let scatter = kinds().fold(
        Chart::xy(&format!("{name}: overhead against inter-arrival time"))
            .x("inter-arrival time", Unit::Seconds)
            .y("overhead, ruler included", Unit::Seconds),
        |chart, (kind, series)| {
            let points = series.iter().flat_map(|block| {
                let gaps = block.at.iter().zip(block.at.iter().skip(1)).map(|(a, b)| b - a);
                gaps.zip(block.cost.iter().skip(1)).map(|(gap, cost)| (gap * 1e-9, cost * 1e-9))
            });
            chart.points(kind.name, points.take(MOST_POINTS))
        },
    );
    vec![
        Figure::Plot(above),
        Figure::Plot(lags),
        Figure::Chart(Box::new(histogram.chart())),
        Figure::Chart(Box::new(scatter)),
    ]
}

fn json_of(measured: &Measured, rows: &[Row]) -> Value {
    let net = |net: &Net| json!({ "value": net.value, "low": net.low, "high": net.high });
    let kinds: Vec<Value> = rows
        .iter()
        .map(|row| {
            let f = &row.figures;
            let quantiles: Vec<Value> = QUANTILES
                .iter()
                .zip(f.quantiles)
                .map(|(q, ns)| json!({ "quantile": q, "ns": ns }))
                .collect();
            json!({
                "kind": row.name, "packets": f.count, "mean_ns": f.mean,
                "variance_ns2": f.variance, "variance_without_largest_hundredth_ns2": f.core,
                "quantiles": quantiles,
                "net": row.net.as_ref().map(|nets| json!({
                    "mean_ns": net(&nets.mean), "median_ns": net(&nets.median),
                    "variance_ns2": net(&nets.variance),
                    "variance_without_largest_hundredth_ns2": net(&nets.core),
                })),
                "autocorrelation_of_ranks": row.correlations,
                "with_inter_arrival": {
                    "correlation": row.together.values, "of_ranks": row.together.ranks,
                    "largest_hundredth_of_both": row.together.large, "hundredth": row.together.few,
                },
            })
        })
        .collect();
    json!({
        "pattern": measured.pattern.name, "bytes": measured.pattern.size,
        "gap_ns": measured.pattern.gap.as_nanos() as u64, "misfits": measured.misfits,
        "missing": measured.missing, "kinds": kinds,
    })
}
