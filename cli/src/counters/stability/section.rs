//! Stability in a report.

use truechimer_report::{Cell, Chart, Marker, Section, Series, Table, Tone, Unit};
use truechimer_survey::analysis::{Analysis, Point, Removal, Trend};
use truechimer_survey::stability::{Stability, instantaneous};

use super::{many_outliers, rounded, short, subject, summary, verdict};

/// Points of the fitted curve.
const CURVE: u32 = 200;

/// The section of a report that shows it: tables, and plots of deviations, phase and frequency.
pub fn section(found: &Stability) -> Section {
    let mut section = Section::new(&format!("Stability of {}", subject(found)));
    for note in &found.notes {
        section = section.text(note);
    }
    let said: Vec<String> = summary(found).into_iter().skip(1).chain(verdict(found)).collect();
    section = section.text(&sentences(&said));
    let analysis = &found.analysis;
    section = section.chart(deviations(analysis)).table(points(analysis)).table(levels(analysis));
    if let Some(stressed) = &found.stressed {
        let mut table = Table::new(
            "Frequency under alternating loads, from its mean; intervals with a change of load in \
             them are left out",
        )
        .head([
            "load",
            "intervals",
            "mean",
            "median",
            "standard deviation",
            "least",
            "greatest",
        ]);
        for of in &stressed.loads {
            let ppm = [of.mean_ppm, of.median_ppm, of.deviation_ppm, of.min_ppm, of.max_ppm];
            let cells = ppm.map(|ppm| Cell::number(ppm * 1e-6, Unit::Rate));
            table = table
                .row(of.load.name(), [Cell::count(of.intervals as u64)].into_iter().chain(cells));
        }
        section = section.table(table);
    }
    section.chart(phase(found)).chart(frequency(found))
}

/// With a minus that no line is broken at.
fn scientific(value: f64) -> Cell {
    Cell::text(format!("{value:.3e}").replace('-', "\u{2212}"))
}

fn sentences(said: &[String]) -> String {
    let capital = |text: &String| {
        let mut rest = text.chars();
        rest.next().map_or_else(String::new, |c| c.to_uppercase().chain(rest).collect())
    };
    said.iter().map(|text| capital(text) + ".").collect::<Vec<_>>().join(" ")
}

fn deviations(analysis: &Analysis) -> Chart {
    let points = &analysis.points;
    let over = |of: fn(&Point) -> Option<f64>| {
        points.iter().filter_map(move |p| of(p).map(|value| (p.tau_s, value)))
    };
    let limits = points.iter().map(|p| (p.tau_s, p.adev_limits.low, p.adev_limits.high));
    let percent = rounded(analysis.confidence * 100.0);
    let mut chart = Chart::xy("Allan deviation")
        .about(&format!(
            "Overlapping, with {percent} % limits; what of it is which noise is fitted. Where it is \
             least, averaging stops helping."
        ))
        .x("averaging time τ", Unit::Seconds)
        .y("deviation", Unit::None)
        .log_x()
        .log_y()
        .with(Series::band("limits", limits).colour(0))
        .with(Series::line("Allan", over(|p| Some(p.adev))).colour(0))
        .with(Series::line("modified Allan", over(|p| p.mdev)).colour(1))
        .with(Series::line("Hadamard", over(|p| p.hdev)).colour(2).hidden());
    if let (Some(fit), Some(first), Some(last)) = (&analysis.fit, points.first(), points.last()) {
        let ratio = (last.tau_s / first.tau_s).ln() / f64::from(CURVE);
        let taus = || (0..=CURVE).map(|n| first.tau_s * (f64::from(n) * ratio).exp());
        let whole = taus().map(|tau| (tau, fit.deviation(tau)));
        chart = chart.with(Series::line("fit", whole).colour(3).dashed());
        if fit.levels.len() > 1 {
            for (n, level) in fit.levels.iter().enumerate() {
                let share = taus().map(|tau| (tau, fit.share(level.noise, tau)));
                let series = Series::line(level.noise.name(), share).colour(4 + n);
                chart = chart.with(series.dashed().behind().hidden());
            }
        }
    }
    if let Some(minimum) = analysis.minimum.filter(|_| !analysis.still_falling) {
        let text = format!("least: {:.2e} at {}", minimum.deviation, short(minimum.tau_s));
        chart = chart.marker(Marker::new(minimum.tau_s, &text).label("τ*").tone(Tone::Good));
    }
    chart
}

fn points(analysis: &Analysis) -> Table {
    let plain = scientific;
    let optional = |value: Option<f64>| value.map_or_else(Cell::missing, plain);
    let mut table = Table::new("Deviations by averaging time").head([
        "τ",
        "Allan",
        "lower limit",
        "upper limit",
        "modified",
        "time deviation",
        "Hadamard",
        "degrees of freedom",
        "noise",
    ]);
    for p in &analysis.points {
        let noise = match p.noise {
            Some(noise) if p.identified => noise.name().to_owned(),
            Some(noise) => format!("({})", noise.name()),
            None => "–".into(),
        };
        table = table.row(
            short(p.tau_s),
            [
                plain(p.adev),
                plain(p.adev_limits.low),
                plain(p.adev_limits.high),
                optional(p.mdev),
                p.tdev_s.map_or_else(Cell::missing, |s| Cell::number(s, Unit::Seconds)),
                optional(p.hdev),
                Cell::number(p.edf, Unit::None),
                Cell::text(noise),
            ],
        );
    }
    table
}

fn levels(analysis: &Analysis) -> Table {
    let mut table =
        Table::new("Fitted noise: what each type has of the Allan deviation at τ = 1 s").head([
            "noise",
            "share at 1 s",
            "standard error",
            "h",
        ]);
    for level in analysis.fit.iter().flat_map(|fit| &fit.levels) {
        table = table.row(
            level.noise.name(),
            [
                scientific(level.deviation_1s),
                Cell::number(level.relative_error, Unit::Share).digits(2),
                scientific(level.h),
            ],
        );
    }
    table
}

fn phase(found: &Stability) -> Chart {
    let interval = found.analysis.interval_s;
    let mut straight = found.phase.clone();
    if let Some(trend) = Trend::of(&straight, interval) {
        trend.remove(&mut straight, Removal::Offset);
    }
    let rows = straight.into_iter().enumerate().map(|(i, x)| (i as f64 * interval, x));
    let chart = Chart::time("Phase")
        .about("The counter - the reference, without the mean offset of the frequency.")
        .y("phase", Unit::Seconds)
        .line("phase", rows);
    marked(found, chart)
}

fn frequency(found: &Stability) -> Chart {
    let interval = found.analysis.interval_s;
    let rows = instantaneous(&found.phase, interval);
    let rows = rows.into_iter().map(|(at, ppm)| (at + interval / 2.0, ppm * 1e-6));
    let chart = Chart::time("Frequency error")
        .about(&format!(
            "From sample to sample ({} apart), less its mean. Noise of reading counts the more the \
             closer the samples are.",
            short(interval)
        ))
        .y("frequency error", Unit::Rate)
        .points("frequency error", rows);
    marked(found, chart)
}

/// With a line where the load changes, and where a sample is far off.
fn marked(found: &Stability, chart: Chart) -> Chart {
    let interval = found.analysis.interval_s;
    let outliers = &found.analysis.outliers;
    let first = found.phase.iter().position(|v| v.is_finite()).unwrap_or(0);
    let at = |i: &usize| (first + i) as f64 * interval;
    let odd = (outliers.steps.iter().map(|i| (i, "the phase steps here")))
        .chain(outliers.spikes.iter().map(|i| (i, "a sample far off")));
    let odd = odd.filter(|_| !many_outliers(&found.analysis));
    let mut chart =
        chart.markers(odd.map(|(i, text)| Marker::new(at(i), text).tone(Tone::Warning)));
    if let Some(phases) = found.phases {
        let each = phases.each.as_secs_f64();
        let loads = phases.stress.loads();
        let ends = found.phase.len() as f64 * interval;
        for (n, load) in loads.iter().cycle().enumerate().take(500) {
            let at = n as f64 * each;
            if at >= ends {
                break;
            }
            chart = chart.marker(Marker::new(at, &format!("load: {load}")).label(load.name()));
        }
    }
    chart
}
