//! The figures as a page with plots.

use truechimer_report::{Cell, Chart, Page, Section, Series, Table, Unit};

use super::clocks::ALL;
use super::contest::{BUSY, CALM, Turn, Who};
use super::figures::Figures;
use super::tables::fairly;
use truechimer_command::report;

/// All of it.
pub fn page(figures: &Figures) -> Page {
    let about = format!(
        "Reads of the clock by threads and processes; counter {}, {} processors; medians of {} \
         rounds.",
        figures.counter, figures.processors, figures.rounds
    );
    let mut page = report::page("Timehands").about(&about);
    for goal in &figures.goals {
        page = page.highlight(&goal.what, format!("{}; {}", goal.text(), goal.verdict.text()));
    }
    page.section(scaling(figures, "Threads", false, Who::Threads))
        .section(scaling(figures, "Threads, without the counter", true, Who::Threads))
        .section(scaling(figures, "Processes", false, Who::Processes))
        .section(fairness(figures))
        .section(busy(figures))
        .section(lock(figures))
}

fn scaling(figures: &Figures, title: &str, dummy: bool, who: Who) -> Section {
    let mut chart = Chart::xy("Million reads a second")
        .x("readers", Unit::None)
        .y("million reads a second", Unit::None)
        .log_y();
    let mut head = vec!["clock".to_owned()];
    head.extend(figures.readers.iter().map(ToString::to_string));
    head.push("scaling".into());
    head.push("of the counter's".into());
    let mut table = Table::new("Million reads a second by number of readers").head(head);
    for (colour, clock) in ALL.into_iter().enumerate() {
        let find = |readers| figures.find(Turn { clock, dummy, who, readers, writer_hz: CALM });
        let Some(most) = find(figures.most()) else { continue };
        let rate = |readers: u16| find(readers).map_or(f64::NAN, |one| one.reads_per_second / 1e6);
        let rows = figures.readers.iter().map(|readers| (f64::from(*readers), rate(*readers)));
        chart = chart.with(Series::line(clock.name(), rows).colour(colour));
        let cells = figures.readers.iter().map(|readers| Cell::number(rate(*readers), Unit::None));
        let ratios = [most.scaling, most.scaling_to_counter].map(|n| Cell::number(n, Unit::None));
        table = table.row(clock.name(), cells.chain(ratios));
    }
    Section::new(title).chart(chart).table(table)
}

fn fairness(figures: &Figures) -> Section {
    let names = fairly(figures).map(|(clock, _)| clock.name());
    let boxes = fairly(figures).enumerate().map(|(at, (_, one))| (at as f64, one.fairness));
    let chart = Chart::places("Readers' shares of the average of their turn", names)
        .y("share of the average", Unit::None)
        .with(Series::boxes("least, quartiles, most", boxes));
    Section::new("Fairness").chart(chart)
}

fn busy(figures: &Figures) -> Section {
    let rates: Vec<u32> = [CALM].into_iter().chain(BUSY).collect();
    let mut head = vec!["clock".to_owned()];
    head.extend(rates.iter().map(|rate| format!("{rate} Hz")));
    let mut table = Table::new("Million reads a second under a writer of").head(head);
    for clock in ALL {
        let (readers, who) = (figures.most(), Who::Threads);
        let find = |writer_hz| figures.find(Turn { clock, dummy: false, who, readers, writer_hz });
        if find(BUSY[0]).is_none() {
            continue;
        }
        let rate = |hz: &u32| find(*hz).map_or(f64::NAN, |one| one.reads_per_second / 1e6);
        table = table.row(clock.name(), rates.iter().map(|hz| Cell::number(rate(hz), Unit::None)));
    }
    Section::new("A busy writer").table(table)
}

fn lock(figures: &Figures) -> Section {
    let mut table = Table::new("The lock of the old way").head([
        "threads",
        "taken",
        "contended",
        "to get it, mean",
        "most",
        "held, mean",
        "most",
    ]);
    for profile in &figures.lock {
        let seconds = |nanos: f64| Cell::number(nanos * 1e-9, Unit::Seconds);
        table = table.row(
            profile.threads.to_string(),
            [
                Cell::count(profile.acquisitions),
                Cell::count(profile.contended),
                seconds(profile.acquire_mean_ns),
                seconds(profile.acquire_max_ns),
                seconds(profile.section_mean_ns),
                seconds(profile.section_max_ns),
            ],
        );
    }
    let mut renewals = Table::new("How long a hand lasts").head([
        "counter",
        "FreeBSD: overflow",
        "roll-over",
        "least rate",
        "ours, years",
    ]);
    for one in &figures.renewals {
        renewals = renewals.row(
            one.counter,
            [
                Cell::number(one.overflows_after_s, Unit::Seconds),
                Cell::number(one.rolls_over_after_s, Unit::Seconds),
                Cell::number(one.least_hz, Unit::Hertz),
                Cell::number(one.ours_lasts_years, Unit::None),
            ],
        );
    }
    let division = &figures.division;
    Section::new("Locks, divisions, overflows").table(table).table(renewals).text(&format!(
        "Counts to time: {} ns by division in 64 bits, {} ns in 128, {} ns by multiplication.",
        division.divide_64_ns, division.divide_128_ns, division.multiply_ns
    ))
}
