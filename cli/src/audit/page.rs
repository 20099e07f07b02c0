//! The report as one page, to read or to print.

use truechimer_audit::{Event, Kind, Time};
use truechimer_command::{report, show};
use truechimer_report::{Cell, Chart, Marker, Page, Section, Series, Table, Tone, Unit};

use super::{MEANING, Report, length, percent, short};

/// Markers in the plot: more would be a wall.
const MARKERS: usize = 200;

/// Headings of stretches without a record: of lines that do not fit, or not.
const GAPS: [(bool, &str); 2] = [
    (false, "No record: no daemon, one that was killed or stood still, or it could not write"),
    (true, "Broken: lines there do not fit the chain, and what they say is left out of all sums"),
];

/// The page; `command` makes it again.
pub fn page(report: &Report<'_>, command: &str) -> Page {
    let account = report.account;
    let all = account.judged_ns();
    let about = format!(
        "How well this clock was known from {} to {} (UTC), by the record in {}.",
        at(account.from),
        at(account.to),
        report.args.record.display()
    );
    let about = match report.pending {
        Some(pending) => {
            let text = super::sentence(&pending.text(account.judged()));
            format!("{about} Judged to {}: shares are of that. {text}.", at(account.judged()))
        }
        None => about,
    };
    let about = match report.silent {
        Some(silent) => format!("{about} {}.", super::sentence(&silent.text())),
        None => about,
    };
    let bounded = account.bounded_ns();
    let worst = account.worst().and_then(|piece| piece.bound_ns);
    // Of several limits the first counts; all are in the table.
    let (name, within) = match account.shares(&report.limits_ns).first() {
        Some(share) => (format!("within {}", short(share.limit_ns)), share.within_ns),
        None => ("with a bound".to_owned(), bounded),
    };
    let tone = if within == all { Tone::Good } else { Tone::Warning };
    let page = Page::new("Account of the clock")
        .about(&about)
        .version(concat!("Truechimer ", env!("CARGO_PKG_VERSION")))
        .command(command)
        .fact("record", &report.args.record.display().to_string())
        .fact("time", &report::between(account.from.0, account.to.0))
        .fact("clock", &format!("with a bound for {} of the time", percent(bounded, all)))
        .since(account.from.midnight().0)
        .highlight("worst bound", worst.map_or_else(Cell::missing, bound))
        .highlight(&name, Cell::text(percent(within, all)).tone(tone));
    let whole = report.chain.is_whole();
    let (word, tone) = if whole { ("whole", Tone::Good) } else { ("broken", Tone::Bad) };
    page.highlight("chain", Cell::text(word).tone(tone))
        .section(over_time(report))
        .section(shares(report))
        .section(sources(report))
        .section(events(report))
        .section(chain(report))
}

/// A time to the second, in a form that stays on one line.
fn at(time: Time) -> String {
    let text = time.to_string();
    text.chars()
        .take(19)
        .map(|c| if c == '-' { '\u{2011}' } else { c })
        .collect::<String>()
        .replace('T', "\u{a0}")
}

/// Two times to the minute, the second without its day if that is the day of the first.
fn between(from: Time, to: Time) -> String {
    let minute = |time| at(time).chars().take(16).collect::<String>();
    let (first, last) = (minute(from), minute(to));
    if from.midnight() == to.midnight() {
        let clock: String = last.chars().skip(11).collect();
        return format!("{first} to\u{a0}{clock}");
    }
    format!("{first} to {last}")
}

/// A bound, which is not shown smaller than it is.
fn bound(ns: u64) -> Cell {
    Cell::text(short(ns))
}

/// Seconds since the midnight at or before the begin of the span.
fn axis(report: &Report<'_>, time: Time) -> f64 {
    let zero = report.account.from.midnight();
    time.0.saturating_sub(zero.0) as f64 * 1e-9
}

fn over_time(report: &Report<'_>) -> Section {
    let account = report.account;
    let mut rows = Vec::new();
    let mut last = account.from;
    for piece in account.pieces() {
        if piece.from > last {
            rows.push((axis(report, last), f64::NAN));
        }
        let bound = piece.bound_ns.map_or(f64::NAN, |ns| ns as f64 * 1e-9);
        rows.push((axis(report, piece.from), bound));
        rows.push((axis(report, piece.to), bound));
        last = piece.to;
    }
    let mut chart = Chart::time("Bound over time")
        .about("The worst bound of each interval; where there is no line, no bound held, or nothing is known (no record, not judged yet). Marks are events.")
        .y("bound", Unit::Seconds)
        .log_y()
        .line("bound", rows);
    let (from, to) = (axis(report, account.from), axis(report, account.to));
    for (n, &limit) in report.limits_ns.iter().enumerate() {
        let y = limit as f64 * 1e-9;
        let line = Series::line(&format!("limit {}", short(limit)), [(from, y), (to, y)]);
        chart = chart.with(line.dashed().colour(n + 1));
    }
    let told = account.events().iter().filter(|event| event.kind != Kind::Log).take(MARKERS);
    chart = chart.markers(told.map(|event| {
        let text = format!("{}: {}", event.kind.name(), show::plain(&event.text));
        Marker::new(axis(report, event.at), &text).tone(tone(event))
    }));
    Section::new("Bound").chart(chart)
}

fn shares(report: &Report<'_>) -> Section {
    let account = report.account;
    let all = account.judged_ns();
    let mut section = Section::new("Shares of the time").text(
        "An interval counts as within a limit only if its worst bound was. Time without a bound, and \
         time of which the record says nothing, is beyond every limit.",
    );
    if !report.limits_ns.is_empty() {
        let mut table =
            Table::new("Limits").head(["limit", "within it", "beyond it", "share within"]);
        for share in account.shares(&report.limits_ns) {
            table = table.row(
                short(share.limit_ns),
                [
                    length(share.within_ns),
                    length(all - share.within_ns),
                    percent(share.within_ns, all),
                ],
            );
        }
        section = section.table(table);
    }
    let mut bounds = Table::new("Bound, of the time with one").head(["share", "at most"]);
    for percent in [50, 95, 99, 100] {
        let bound = account.percentile_ns(percent).map_or_else(Cell::missing, self::bound);
        bounds = bounds.row(format!("{percent} %"), [bound]);
    }
    let mut statuses = Table::new("Status").head(["status", "time", "share"]);
    for (status, ns) in account.by_status() {
        statuses = statuses.row(status, [length(ns), percent(ns, all)]);
    }
    let broken = account.broken_ns();
    let silent = all - account.recorded_ns() - broken;
    statuses = statuses.row("no record", [length(silent), percent(silent, all)]);
    if broken > 0 {
        statuses = statuses.row("broken", [length(broken), percent(broken, all)]);
    }
    section = section.table(bounds).table(statuses);
    for (is_broken, title) in GAPS {
        let all = account.gaps().into_iter().filter(|gap| gap.is_broken == is_broken);
        let mut gaps = Table::new(title).head(["from", "to", "time"]);
        let mut is_empty = true;
        for gap in all {
            is_empty = false;
            gaps = gaps.row(at(gap.from), [at(gap.to), length(gap.length_ns())]);
        }
        if !is_empty {
            section = section.table(gaps);
        }
    }
    section
}

fn sources(report: &Report<'_>) -> Section {
    let account = report.account;
    let mut selected =
        Table::new("Selected").head(["source", "time", "share", "root distance at most"]);
    for (source, (ns, distance)) in account.by_source() {
        selected = selected.row(
            source,
            [
                Cell::text(length(ns)),
                Cell::text(percent(ns, account.judged_ns())),
                distance.map_or_else(Cell::missing, bound),
            ],
        );
    }
    let mut seen = Table::new("As they were seen").head([
        "source",
        "address",
        "stratum, refid, root distance",
        "seen so",
        "time",
        "status, and for how long",
    ]);
    for source in account.sources() {
        let stratum = source.stratum.map(|stratum| stratum.to_string());
        let distance = source.root_distance_ns.map(|ns| format!("≤\u{a0}{}", short(ns)));
        let own: Vec<String> =
            stratum.into_iter().chain(source.reference).chain(distance).collect();
        let or_dash = |text: String| if text.is_empty() { Cell::missing() } else { text.into() };
        seen = seen.row(
            source.name,
            [
                or_dash(source.address.unwrap_or_default()),
                or_dash(own.join(", ")),
                Cell::text(between(source.first, source.last)),
                Cell::text(length(source.time_ns)),
                Cell::text(super::statuses(&source.statuses)),
            ],
        );
    }
    Section::new("Sources")
        .text(
            "Traceability: the server that was selected, and what each server said of its own source. \
             Stratum 1 names its reference clock as refid, higher ones the address of their server.",
        )
        .table(selected)
        .table(seen)
}

fn events(report: &Report<'_>) -> Section {
    let section = Section::new("Events");
    let all = report.account.events();
    if all.is_empty() {
        return section.text("None.");
    }
    // A table and not a list that scrolls: paper does not.
    let mut table = Table::new(
        "Everything that happened, with its cause (UTC; ~: by the system clock, as no bound held)",
    )
    .head(["time", "kind", "bound", "cause"]);
    for event in all {
        let by = if event.by_system_clock { "~" } else { "" };
        table = table.row(
            format!("{by}{}", at(event.at)),
            [
                Cell::text(event.kind.name()).tone(tone(event)),
                event.bound_ns.map_or_else(Cell::missing, bound),
                Cell::text(show::plain(&event.text)),
            ],
        );
    }
    section.table(table)
}

fn tone(event: &Event) -> Tone {
    match event.kind {
        Kind::Disruption | Kind::Lost | Kind::Torn => Tone::Bad,
        Kind::Warning | Kind::HoldOff | Kind::Step => Tone::Warning,
        Kind::Log | Kind::Rotation => Tone::Quiet,
        Kind::Start
        | Kind::Stop
        | Kind::Configuration
        | Kind::Status
        | Kind::Released
        | Kind::Leap => Tone::Plain,
    }
}

fn chain(report: &Report<'_>) -> Section {
    let mut lines = Vec::new();
    // Memory takes all.
    let _ = super::screen::chain(report.chain, &mut lines);
    Section::new("Chain of hashes").code(String::from_utf8_lossy(&lines).trim_end()).text(MEANING)
}
