//! The distributions as a part of a report.

use truechimer_report::{Cell, Chart, Marker, Page, Section, Series, Share, Table, Unit, View};
use truechimer_survey::latency::{Distribution, Latency, NOTHING, OfLoad, Slot, Spread};
use truechimer_survey::stress::Load;

use super::{circumstances, remarks, spans_ns};
use crate::counters::bench::grouped;

/// ns in s.
const NANO: f64 = 1e-9;
/// Width of all boxes of one place, in places.
const WIDTH: f64 = 0.6;

/// The part of a report.
pub fn section(found: &Latency) -> Section {
    let mut section = Section::new("How long a reading takes").text(
        "Each reading is timed by the finest counter, read with fences before and after it; all \
         ways have their turn one after the other. Figures 14 to 16 of “The Case for Feed-Forward \
         Clock Synchronization” are of this kind, from other machines.",
    );
    for line in circumstances(found) {
        section = section.text(&line);
    }
    section = section.chart(boxes(found));
    for of in &found.loads {
        section = section.table(table(of));
    }
    for of in &found.loads {
        section = section.chart(shares(of)).chart(tails(of));
    }
    if found.trace.len() > 1 {
        section = section.chart(course(
            "Over time, the median",
            "Of the readings in each short stretch of time.",
            found,
            |spread| spread.median_ns,
        ));
        section = section.chart(course(
            "Over time, 99 %",
            "99 % of the readings in each short stretch took no longer.",
            found,
            |spread| spread.p99_ns,
        ));
    }
    remarks(found).iter().fold(section, |section, remark| section.text(remark))
}

/// Adds what one wants to know first: the fastest and the slowest way under the first load, and how many readings.
pub fn highlights(page: Page, found: &Latency) -> Page {
    let ways = found.loads.first().map_or(&[][..], |of| &of.ways);
    let mut ways: Vec<&Distribution> = ways.iter().filter(|way| way.way != NOTHING).collect();
    ways.sort_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
    let (Some(fastest), Some(slowest)) = (ways.first(), ways.last()) else { return page };
    let median = |way: &Distribution| Cell::number(way.median_ns * NANO, Unit::Seconds);
    page.highlight(&format!("fastest, median: {}", fastest.way), median(fastest))
        .highlight(&format!("slowest, median: {}", slowest.way), median(slowest))
        .highlight("readings of each way", grouped(fastest.readings))
}

/// The loads side by side at each way.
fn boxes(found: &Latency) -> Chart {
    let mut chart = Chart::places("What a reading takes", found.ways.iter().map(String::as_str))
        .about("Whiskers: 1 % and 99 %. Box: 25 % and 75 %, with the median.")
        .y("one reading", Unit::Seconds)
        .log_y();
    let count = found.loads.len() as f64;
    for (nth, of) in found.loads.iter().enumerate() {
        let beside = ((nth as f64 + 0.5) / count - 0.5) * WIDTH;
        let row = |(place, way): (usize, &Distribution)| {
            let five = [way.p1_ns, way.p25_ns, way.median_ns, way.p75_ns, way.p99_ns];
            (place as f64 + beside, five.map(|ns| ns * NANO))
        };
        let rows: Vec<_> = of.ways.iter().enumerate().map(row).collect();
        chart = chart.with(Series::boxes(of.load.name(), rows).colour(colour(of.load)));
    }
    chart
}

/// Colour of a load, the same everywhere.
fn colour(load: Load) -> usize {
    match load {
        Load::Quiet => 0,
        Load::Cpu => 1,
        Load::Net => 2,
    }
}

fn table(of: &OfLoad) -> Table {
    let each = of.ways.first().map_or(0, |way| way.readings);
    let caption = format!("{}: {} readings of each way", of.load, grouped(each));
    let mut table = Table::new(&caption).share(Share::None).head([
        "",
        "min",
        "median",
        "IQR",
        "95 %",
        "99 %",
        "99.9 %",
        "max",
        "> 10 medians",
    ]);
    for way in &of.ways {
        let cells = spans_ns(way).map(|ns| Cell::number(ns * NANO, Unit::Seconds));
        table = table.row(way.way.as_str(), cells.into_iter().chain([Cell::count(way.outliers)]));
    }
    table
}

/// Chart of how often which time was taken.
fn shares(of: &OfLoad) -> Chart {
    let title = format!("{}: how often which time was taken", of.load);
    let mut chart = Chart::xy(&title)
        .about("In bins of 1/40 of a power of ten. No time is finer than a step of the ruler.")
        .x("one reading", Unit::Seconds)
        .y("share of the readings", Unit::Share)
        .log_x()
        .view(View::all("linear"))
        .view(View::log("log"));
    for way in &of.ways {
        let all = way.readings.max(1) as f64;
        let mut rows = Vec::new();
        for (nth, bin) in way.bins.iter().enumerate() {
            rows.push((bin.from_ns * NANO, bin.count as f64 / all));
            let next = way.bins.get(nth + 1).map(|next| next.from_ns);
            // A gap, or the end: nothing from here on.
            if next.is_none_or(|next| next > bin.to_ns() * 1.001) {
                rows.push((bin.to_ns() * NANO, 0.0));
            }
        }
        chart = chart.with(Series::steps(&way.way, rows));
    }
    chart
}

/// Chart of the share of readings that take longer than each time.
fn tails(of: &OfLoad) -> Chart {
    let title = format!("{}: how many take longer", of.load);
    let mut chart = Chart::xy(&title)
        .about("The share of the readings that took longer than x.")
        .x("longer than", Unit::Seconds)
        .y("share of the readings", Unit::Share)
        .log_x()
        .log_y();
    for way in &of.ways {
        let all = way.readings.max(1) as f64;
        let mut left = way.readings;
        let mut rows = vec![(way.min_ns.max(1.0) * NANO, 1.0)];
        for bin in &way.bins {
            left = left.saturating_sub(bin.count);
            if left > 0 {
                rows.push((bin.to_ns() * NANO, left as f64 / all));
            }
        }
        chart = chart.line(&way.way, rows);
    }
    chart
}

/// Chart of one figure over time, with the phases of the load marked.
fn course(title: &str, about: &str, found: &Latency, of: impl Fn(&Spread) -> f64) -> Chart {
    let mut chart = Chart::time(title).about(about).y("one reading", Unit::Seconds).log_y();
    for (nth, way) in found.ways.iter().enumerate() {
        let at = |slot: &Slot| {
            let ns = slot.ways.get(nth).map_or(f64::NAN, &of);
            ((slot.from_s + slot.to_s) / 2.0, ns * NANO)
        };
        chart = chart.line(way, found.trace.iter().map(at).collect::<Vec<_>>());
    }
    let mut before = None;
    for slot in &found.trace {
        if before != Some(slot.load) && found.loads.len() > 1 {
            let marker = Marker::new(slot.from_s, &format!("load: {}", slot.load));
            chart = chart.marker(marker.label(slot.load.name()));
        }
        before = Some(slot.load);
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_made_of_it() {
        let page = Page::new("t").section(section(&super::super::tests::found()));
        // The boxes, and two for each load; nothing over time was recorded.
        assert_eq!(page.charts(), 5);
        let html = page.render();
        for part in ["vdso monotonic", "net: how many take longer", "a note", "12 345 678"] {
            assert!(html.contains(part), "{part:?} is missing");
        }
    }
}
