//! Page with plots on a path.

use truechimer_command::report;
use truechimer_probe::{Direction, Report, Session};
use truechimer_qos::{LossReport, Measured, Spread};
use truechimer_report::{
    Cell, Chart, Histogram, Marker, Page, Section, Series, Table, Tone, Unit, View,
};

use crate::qos::voices;

/// Subject of a page beside its figures.
pub struct About<'a> {
    /// Reflector's address.
    pub to: String,
    /// Packets, as they were asked for.
    pub packets: String,
    /// Clock during the run, in words.
    pub clock: &'a str,
}

/// A packet on one of its ways: s since the first was sent, what it took there, and the bound of that, s.
type Row = (f64, f64, Option<f64>);

/// The page.
pub fn page(about: &About<'_>, report: &Report, session: &Session) -> Page {
    let times: Vec<i64> = session.probes().iter().map(|probe| unix_ns(&probe.sent)).collect();
    let start = times.first().copied().unwrap_or(0);
    let at = |ns: i64| ns.saturating_sub(start) as f64 * 1e-9;
    let rows = |of: fn(&truechimer_probe::Echo) -> Option<Measured>| -> Vec<Row> {
        let echoes = times.iter().zip(session.probes());
        let each = echoes.filter_map(|(ns, probe)| {
            let took = of(probe.echoes.first()?)?;
            Some((at(*ns), took.ns as f64 * 1e-9, took.bound_ns.map(|ns| ns as f64 * 1e-9)))
        });
        each.collect()
    };
    let unanswered =
        times.iter().zip(session.probes()).filter(|(_, probe)| probe.echoes.is_empty());
    let unanswered: Vec<f64> = unanswered.map(|(ns, _)| at(*ns)).collect();
    let mut page = report::page(&format!("Path to {}", about.to))
        .about("Test packets (STAMP, RFC 8762) there and back.")
        .fact("packets", &about.packets)
        .fact("clock", about.clock)
        .since(start);
    for (name, way) in ways(report) {
        page = page.highlight(&format!("median delay {name}"), headline(way));
    }
    page = page.highlight("without an answer", unanswered_share(report)).section(figures(report));
    // What nothing is promised of, the difference of two clocks, is no delay.
    let known = |rows: Vec<Row>| rows.into_iter().filter(|row| row.2.is_some()).collect::<Vec<_>>();
    let (there, back) =
        (known(rows(|echo| Some(echo.forward))), known(rows(|echo| Some(echo.backward))));
    page.section(delays("One-way delay", &[("there", there), ("back", back)], &unanswered))
        .section(delays("Round trip", &[("round trip", rows(|echo| echo.round_trip))], &unanswered))
}

fn unix_ns(sent: &truechimer_probe::Timed) -> i64 {
    i64::try_from(sent.leaps.utc(sent.time).unix_nanos()).unwrap_or(i64::MAX)
}

fn ways(report: &Report) -> [(&'static str, &Direction); 2] {
    [("there", &report.forward), ("back", &report.backward)]
}

fn seconds(ns: Option<i64>) -> Cell {
    Cell::number(ns.map_or(f64::NAN, |ns| ns as f64 * 1e-9), Unit::Seconds)
}

fn share(loss: Option<&LossReport>) -> Cell {
    Cell::number(loss.and_then(|loss| loss.ratio).unwrap_or(f64::NAN), Unit::Share)
}

/// Share of the packets sent that nobody answered, those after the last answer among them.
fn unanswered_share(report: &Report) -> Cell {
    let unanswered = report.sent.saturating_sub(report.answered);
    Cell::number(unanswered as f64 / report.sent as f64, Unit::Share)
}

/// Median with the greatest bound.
fn headline(way: &Direction) -> Cell {
    let Some(delay) = &way.delay else { return Cell::text("not known").tone(Tone::Warning) };
    let show = |ns: f64| Unit::Seconds.show(ns * 1e-9, 3);
    let median = delay.spread.median_ns.map_or(f64::NAN, |ns| ns as f64);
    Cell::text(format!("{} ± {}", show(median), show(delay.bound_max_ns as f64)))
}

fn figures(report: &Report) -> Section {
    let mut table = Table::new("Delays")
        .head(["", "least", "median", "p95", "p99", "greatest", "bound", "IPDV p99"]);
    let row = |spread: &Spread, bound: Option<u64>, ipdv: &Spread| {
        let values = [spread.min_ns, spread.median_ns, spread.p95_ns, spread.p99_ns, spread.max_ns];
        let bound =
            bound.map_or_else(Cell::missing, |ns| Cell::number(ns as f64 * 1e-9, Unit::Seconds));
        values.map(seconds).into_iter().chain([bound, seconds(ipdv.p99_ns)]).collect::<Vec<_>>()
    };
    let mut lost = Table::new("Losses").head(["", "lost", "share", "longest burst", "reordered"]);
    for (name, way) in ways(report) {
        table = match &way.delay {
            Some(delay) => table.row(name, row(&delay.spread, Some(delay.bound_max_ns), &way.ipdv)),
            None => table.row(format!("{name}, variation"), row(&way.pdv, None, &way.ipdv)),
        };
        let count = |n: Option<u64>| n.map_or_else(Cell::missing, Cell::count);
        let loss = way.loss.as_ref();
        lost = lost.row(
            name,
            [
                count(loss.map(|loss| loss.lost)),
                share(loss),
                count(loss.and_then(|loss| loss.longest_run).map(i64::unsigned_abs)),
                Cell::count(way.reordering.reordered),
            ],
        );
    }
    let unanswered = Cell::count(report.sent.saturating_sub(report.answered));
    lost = lost.row(
        "without an answer",
        [unanswered, unanswered_share(report), Cell::missing(), Cell::missing()],
    );
    let round = &report.round_trip;
    table = table.row("round trip", row(&round.time, round.bound_max_ns, &round.ipdv));
    let voice = ways(report).map(|(name, way)| way.voice.as_ref().map(|voice| (name, voice)));
    let voice = voices(voice.into_iter().flatten());
    let section = Section::new("Figures").table(table).table(lost).table(voice);
    report.notes.iter().fold(section, |section, note| section.text(note))
}

/// Ends of y that hold all delays and their bounds, s.
fn reach<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<(f64, f64)> {
    let ends = rows.map(|(_, took, bound)| {
        let bound = bound.unwrap_or(0.0);
        (took - bound, took + bound)
    });
    let (low, high) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let room = (high - low) * 0.07;
    Some((low - room, high + room))
}

/// Delays over time, each way in a chart on the same scale, and their distributions in one.
fn delays(title: &str, ways: &[(&str, Vec<Row>)], unanswered: &[f64]) -> Section {
    let scale = reach(ways.iter().flat_map(|(_, rows)| rows)).filter(|_| ways.len() > 1);
    let mut section = Section::new(title).continues();
    let mut histogram = Histogram::new("Distribution", Unit::Seconds);
    for (name, rows) in ways {
        let mut chart = Chart::time(name).unit(Unit::Seconds);
        if let Some((low, high)) = scale {
            chart = chart.view(View::range("both ways", low, high)).view(View::all("this way"));
        }
        let bounds = rows
            .iter()
            .filter_map(|(at, took, bound)| bound.map(|bound| (*at, took - bound, took + bound)));
        let lost = unanswered.iter().map(|at| Marker::new(*at, "no answer").tone(Tone::Bad));
        section = section.chart(
            chart
                .about("Each packet, and how far the delay may be off; lines where no answer came.")
                .with(Series::band("± bound", bounds).colour(7))
                .with(Series::points(name, rows.iter().map(|(at, took, _)| (*at, *took))).colour(0))
                .markers(lost),
        );
        histogram = histogram.values(name, rows.iter().map(|(_, took, _)| *took));
    }
    section.chart(histogram.chart())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_have_one_scale_that_holds_their_bounds() {
        let rows = |least: f64| vec![(0.0, least, Some(1e-3)), (1.0, least + 2e-3, None)];
        let section = delays("t", &[("there", rows(1e-3)), ("back", rows(10e-3))], &[0.5]);
        let page = Page::new("t").section(section.clone()).render();
        assert_eq!(page.matches("\"name\":\"both ways\"").count(), 2, "{section:?}");
        let (low, high) = reach(rows(1e-3).iter().chain(&rows(10e-3))).unwrap();
        assert!(low < 0.0 && (12e-3..13e-3).contains(&high), "{low} {high}");
        assert!(page.contains("no answer"));
    }

    #[test]
    fn packets_after_the_last_answer_are_without_one_too() {
        let session = Session::new(None, 44, 1);
        let mut report = Report::of(&session, 0, truechimer_qos::Codec::ALL[0]);
        (report.sent, report.answered, report.undetermined) = (10, 7, 3);
        assert_eq!(unanswered_share(&report), Cell::number(0.3, Unit::Share));
        assert!(format!("{:?}", figures(&report)).contains("without an answer"));
    }

    #[test]
    fn a_way_of_which_nothing_is_promised_has_no_delay_in_the_headline() {
        let session = Session::new(None, 44, 1);
        let report = Report::of(&session, 0, truechimer_qos::Codec::ALL[0]);
        let about =
            About { to: "192.0.2.1:862".into(), packets: "0 <of> 44".into(), clock: "none" };
        let page = page(&about, &report, &session).render();
        assert_eq!(page.matches("not known").count(), 2);
        assert!(page.contains("<dd>0 &lt;of&gt; 44</dd>") && page.contains("<dd>none</dd>"));
    }
}
