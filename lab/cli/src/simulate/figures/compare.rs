//! Old figures and new ones side by side, and what is worse.

use std::collections::BTreeMap;

use serde_json::json;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Goal, Grid, Outcome};
use truechimer_outcome::verdict::Verdict;
use truechimer_sim::figures::{Case, Figure, Pool, Record};

use crate::simulate::screen::number;

/// Largest ratio of a reference figure to its value before.
const HEADLINE_LIMIT: f64 = 1.05;
/// Largest ratio of any other.
const LIMIT: f64 = 1.3;
/// Figures that are compared, but for those of the start.
const JUDGED: [Figure; 12] = [
    Figure::RmsUs,
    Figure::LargestUs,
    Figure::OutageEndUs,
    Figure::SecondUs,
    Figure::ThousandSecondsUs,
    Figure::BoundUs,
    Figure::Bound99Us,
    Figure::DifferenceOutsideS,
    Figure::HeldOff,
    Figure::HeldOffS,
    Figure::FalsePathChanges,
    Figure::FalseSteps,
];
/// Figures of the start, the tightest first.
const STARTS: [Figure; 3] = [Figure::Below10UsS, Figure::Below100UsS, Figure::Below500UsS];
/// A start that takes longer is decided by chance, s: a tighter threshold is passed over then.
const LONG_START: f64 = 600.0;
/// Added to the time that a start takes, old and new, s: an exchange more or less is no matter.
const EXCHANGE: f64 = 16.0;

/// The least share of the seconds that had a bound before which is to have one now.
const PROMISED: f64 = 0.99;

/// A figure of a scenario, old and new.
struct Row {
    scenario: String,
    is_headline: bool,
    figure: Figure,
    /// Old and new, all seeds together.
    pooled: [f64; 2],
    /// Old and new, for people.
    shown: [String; 2],
    /// New ÷ old; none where the old figure is 0.
    ratio: Option<Interval>,
    verdict: Verdict,
}

impl Row {
    fn limit(&self) -> f64 {
        limit(self.is_headline)
    }

    /// True if it is worse than it may be as far as these seeds go.
    fn is_above(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.median > self.limit())
    }

    fn name(&self) -> String {
        format!("{}: {}", self.scenario, label(self.figure))
    }

    fn cells(&self) -> [String; 6] {
        let Row { shown: [old, new], ratio, verdict, .. } = self;
        let ends = ratio.filter(Interval::is_known);
        let verdict = if *verdict == Verdict::Met { "" } else { verdict.word() };
        [
            self.name(),
            old.clone(),
            new.clone(),
            ratio.map_or_else(String::new, |ratio| times(ratio.median)),
            ends.map_or_else(String::new, |r| format!("{} to {}", times(r.low), times(r.high))),
            verdict.to_owned(),
        ]
    }

    fn goal(&self) -> Goal {
        let [_, old, new, ratio, ends, _] = self.cells();
        let [before, _] = self.pooled;
        let wanted = match self.figure {
            Figure::OutsideS if before == 0.0 => "100".to_owned(),
            _ if before == 0.0 => "0".to_owned(),
            _ => format!("≤ {} ×", self.limit()),
        };
        let ends = if ends.is_empty() { ends } else { format!(" ({ends})") };
        let ratio = if ratio.is_empty() { ratio } else { format!("{ratio} ×{ends}: ") };
        let measured = format!("{ratio}{old} → {new}");
        Goal { name: self.name(), wanted, measured, verdict: self.verdict.clone() }
    }

    fn to_json(&self) -> serde_json::Value {
        let [old, new] = self.pooled;
        let end = |of: fn(&Interval) -> f64| self.ratio.filter(Interval::is_known).map(|r| of(&r));
        json!({
            "scenario": self.scenario, "figure": self.figure, "headline": self.is_headline,
            "old": old, "new": new, "ratio": self.ratio.map(|ratio| ratio.median),
            "low": end(|r| r.low), "high": end(|r| r.high), "met": self.verdict.met(),
        })
    }
}

/// A ratio for people: three decimals tell one limit from the next.
fn times(ratio: f64) -> String {
    if ratio < 9.9995 { format!("{ratio:.3}") } else { number(ratio) }
}

fn limit(is_headline: bool) -> f64 {
    if is_headline { HEADLINE_LIMIT } else { LIMIT }
}

/// Name of a figure in a table.
fn label(figure: Figure) -> &'static str {
    match figure {
        Figure::RmsUs => "RMS, µs",
        Figure::LargestUs => "largest, µs",
        Figure::OutageEndUs => "end of outage, µs",
        Figure::SecondUs => "1 s, µs",
        Figure::ThousandSecondsUs => "1000 s, µs",
        Figure::BoundUs => "bound, median, µs",
        Figure::Bound99Us => "bound, 99 %, µs",
        Figure::Below500UsS => "to 500 µs, s",
        Figure::Below100UsS => "to 100 µs, s",
        Figure::Below10UsS => "to 10 µs, s",
        Figure::PromisedS => "bound promised, s",
        Figure::OutsideS => "bound held, %",
        Figure::OutsideLongestS => "longest outside the bound, s",
        Figure::DifferenceOutsideS => "intervals outside their bound, s",
        Figure::HeldOff => "honest servers held off, times",
        Figure::HeldOffS => "honest servers held off, s",
        Figure::HeldOffLongestS => "longest hold-off, s",
        Figure::PathChanges => "path changes",
        Figure::FalsePathChanges => "false path changes",
        Figure::FalseSteps => "false steps",
        Figure::Exchanges => "exchanges",
        Figure::Used => "exchanges used",
    }
}

/// The comparison of these cases. `whole`: every scenario of the old figures is to be there still.
pub fn of(cases: &[Case], old: &[Record], new: &[Record], whole: bool) -> Outcome {
    let kept: BTreeMap<&str, &Record> = old.iter().map(|r| (r.scenario.as_str(), r)).collect();
    let mut rows = Vec::new();
    let mut unknown = Vec::new();
    for (case, new) in cases.iter().zip(new) {
        match kept.get(new.scenario.as_str()) {
            Some(old) => rows.extend(compared(case, old, new)),
            None => unknown.push(new.scenario.as_str()),
        }
    }
    let mut goals = goals(&rows);
    let gone = |record: &&Record| whole && new.iter().all(|now| now.scenario != record.scenario);
    goals.extend(
        old.iter().filter(gone).map(|record| {
            Goal::counted(&record.scenario, "still a scenario", "there is none", false)
        }),
    );
    let title = format!("{} beside {}", estimator(new), estimator(old));
    let (headline, other): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.is_headline);
    let grids = [
        grid(&format!("Reference figures: at most {HEADLINE_LIMIT} ×"), &headline),
        grid(&format!("Other scenarios: at most {LIMIT} ×"), &other),
        tally(&rows),
    ];
    Outcome {
        headline: Vec::new(),
        name: "figures",
        title,
        about: about(old, new, &unknown),
        goals,
        grids: grids.into_iter().filter(|grid| !grid.rows.is_empty()).collect(),
        figures: Vec::new(),
        json: rows.iter().map(Row::to_json).collect(),
    }
}

fn estimator(records: &[Record]) -> &str {
    records.first().map_or("nothing", |record| record.estimator.as_str())
}

fn about(old: &[Record], new: &[Record], unknown: &[&str]) -> Vec<String> {
    let seeds = new.iter().map(|record| record.seeds).min().unwrap_or(0);
    let mut about = vec![format!(
        "'was': {} as it was kept; 'is': {} on the same packets. Runs of each scenario: {seeds} or more. \
         Root mean square over the runs; of the largest the largest, of bounds and times to converge \
         the mean (never: the length of the run), of what is counted the sum. The ratio's interval holds \
         it with 95 %, by leaving out one run at a time; of times to converge it is that of both and \
         {EXCHANGE} s more.",
        estimator(old),
        estimator(new),
    )];
    if !unknown.is_empty() {
        about.push(format!("Not in the file, and so not compared: {}.", unknown.join(", ")));
    }
    about
}

/// Goals missed, then those that may have been.
fn goals(rows: &[Row]) -> Vec<Goal> {
    let missed = rows.iter().filter(|row| row.verdict.is_missed());
    let perhaps = rows.iter().filter(|row| !row.verdict.is_missed() && row.is_above());
    missed.chain(perhaps).map(Row::goal).collect()
}

fn grid(caption: &str, rows: &[&Row]) -> Grid {
    let mut grid = Grid::new(caption, ["", "was", "is", "ratio", "95 %", ""]);
    rows.iter().for_each(|row| grid.row(row.cells()));
    grid
}

/// Number of rows of each figure that are met, and the geometric mean of their ratios.
fn tally(rows: &[Row]) -> Grid {
    let head = ["", "reference", "met", "NOT MET", "open", "other", "met", "NOT MET", "open"];
    let mut grid = Grid::new("Geometric mean of the ratios, and how many rows stand how", head);
    for figure in Figure::ALL {
        let of = |is_headline: bool| {
            let rows =
                || rows.iter().filter(move |r| r.figure == figure && r.is_headline == is_headline);
            let count = |met: Option<bool>| rows().filter(|r| r.verdict.met() == met).count();
            let logs: Vec<f64> = rows()
                .filter_map(|row| Some(row.ratio?.median.ln()).filter(|log| log.is_finite()))
                .collect();
            let mean = Pool::Mean.of(logs.iter().copied()).exp();
            let mean = if logs.is_empty() { "–".to_owned() } else { format!("{mean:.3}") };
            let counts = [Some(true), Some(false), None].map(|met| count(met).to_string());
            std::iter::once(mean).chain(counts)
        };
        if rows.iter().any(|row| row.figure == figure) {
            let name = std::iter::once(label(figure).to_owned());
            grid.row(name.chain(of(true)).chain(of(false)));
        }
    }
    grid
}

/// The rows of a case.
fn compared(case: &Case, old: &Record, new: &Record) -> Vec<Row> {
    let row = |figure| row(case, figure, old, new);
    let bound = [promised(case, old, new), held(case, old, new)];
    let start = start(old).and_then(row);
    let rest = JUDGED.into_iter().filter_map(row);
    bound.into_iter().flatten().chain(start).chain(rest).collect()
}

/// The figure of the start that says something: the tightest that was always reached, and soon.
fn start(old: &Record) -> Option<Figure> {
    let reached = STARTS.into_iter().filter_map(|figure| {
        let times: Option<Vec<f64>> = old.values(figure).into_iter().collect();
        Some((figure, Pool::Mean.of(times?)))
    });
    let reached: Vec<(Figure, f64)> = reached.collect();
    let short = reached.iter().find(|(_, mean)| *mean <= LONG_START);
    short.or(reached.last()).map(|(figure, _)| *figure)
}

/// Seconds with a bound, if there are far fewer than there were.
fn promised(case: &Case, old: &Record, new: &Record) -> Option<Row> {
    let pooled = [old, new].map(|record| sum(record, Figure::PromisedS, new.seeds));
    let [before, now] = pooled;
    (now < PROMISED * before).then(|| Row {
        scenario: case.scenario.name.clone(),
        is_headline: case.is_headline,
        figure: Figure::PromisedS,
        pooled,
        shown: pooled.map(|seconds| format!("{seconds:.0}")),
        ratio: None,
        verdict: Verdict::NotMet,
    })
}

/// The bound: it is to hold wherever it did; wherever it did not, its breaks are compared.
fn held(case: &Case, old: &Record, new: &Record) -> Option<Row> {
    let share = |record: &Record| {
        let of = |figure| sum(record, figure, new.seeds);
        (1.0 - of(Figure::OutsideS) / of(Figure::PromisedS)) * 100.0
    };
    let shown = [old, new].map(|record| match share(record) {
        // All but one second of a year is not all.
        percent if percent < 100.0 => format!("{:.3}", percent.min(99.999)),
        percent if percent.is_finite() => "100".to_owned(),
        _ => "–".to_owned(),
    });
    let applies = sum(old, Figure::PromisedS, new.seeds) > 0.0;
    let values = [old, new].map(|record| record.values(Figure::OutsideS));
    let row = judged(case, Figure::OutsideS, &values, None)?;
    applies.then_some(Row { shown, ..row })
}

/// The sum over the first so many seeds.
fn sum(record: &Record, figure: Figure, seeds: usize) -> f64 {
    record.values(figure).into_iter().take(seeds).flatten().sum()
}

/// A figure of a case; none where there was none before, or nothing was ever counted.
fn row(case: &Case, figure: Figure, old: &Record, new: &Record) -> Option<Row> {
    let never = STARTS.contains(&figure).then_some(case.scenario.hours * 3600.0);
    let row = judged(case, figure, &[old, new].map(|record| record.values(figure)), never)?;
    let nothing = figure.pool() == Pool::Sum && row.pooled == [0.0; 2];
    (!nothing).then_some(row)
}

/// A figure of a case by its values, old and new, of as many seeds as both have; `never` stands for
/// one that there is not.
fn judged(
    case: &Case,
    figure: Figure,
    [old, new]: &[Vec<Option<f64>>; 2],
    never: Option<f64>,
) -> Option<Row> {
    let pairs = old.iter().zip(new).filter_map(|(old, new)| Some((old.or(never)?, new.or(never))));
    let pairs: Vec<(f64, Option<f64>)> = pairs.collect();
    if pairs.is_empty() {
        return None;
    }
    let lost = pairs.iter().any(|(_, new)| new.is_none());
    let pairs: Vec<(f64, f64)> =
        pairs.iter().map(|(old, new)| (*old, new.unwrap_or(f64::NAN))).collect();
    let pooled = pooled(figure, pairs.iter().copied());
    let [before, now] = pooled;
    let ratio = (before > 0.0).then(|| ratio(figure, &pairs)).filter(|_| !lost);
    let is_count = figure.pool() == Pool::Sum;
    let verdict = match ratio {
        _ if lost => Verdict::NotMet,
        _ if is_count && now <= before => Verdict::Met,
        None => Verdict::of(now <= before),
        Some(ratio) if !ratio.is_known() => {
            Verdict::Open("too few seeds for an interval".to_owned())
        }
        Some(ratio) => Verdict::at_most(limit(case.is_headline), &ratio),
    };
    Some(Row {
        scenario: case.scenario.name.clone(),
        is_headline: case.is_headline,
        figure,
        pooled,
        shown: pooled.map(number),
        ratio,
        verdict,
    })
}

/// Old and new, all seeds together.
fn pooled(figure: Figure, pairs: impl Iterator<Item = (f64, f64)>) -> [f64; 2] {
    let (old, new): (Vec<f64>, Vec<f64>) = pairs.unzip();
    [old, new].map(|values| figure.pool().of(values))
}

/// New ÷ old, and how far it depends on single seeds.
fn ratio(figure: Figure, pairs: &[(f64, f64)]) -> Interval {
    let slack = if STARTS.contains(&figure) { EXCHANGE } else { 0.0 };
    let without = |left_out: usize| {
        let kept = pairs.iter().enumerate().filter(|(seed, _)| *seed != left_out);
        let [old, new] = pooled(figure, kept.map(|(_, pair)| *pair));
        (new + slack) / (old + slack)
    };
    let each: Vec<f64> = (0..pairs.len()).map(without).collect();
    Interval::jackknife(without(pairs.len()), &each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_estimators::OURS;
    use truechimer_sim::figures::{Figures, cases};

    fn case(name: &str) -> Case {
        cases().unwrap().into_iter().find(|case| case.scenario.name == name).unwrap()
    }

    fn record(name: &str, values: [(Figure, [Option<f64>; 3]); 3]) -> Record {
        let promised = (Figure::PromisedS, Some(1000.0));
        let run = |seed: usize| -> Figures {
            values.iter().map(|(figure, v)| (*figure, v[seed])).chain([promised]).collect()
        };
        Record::new(&case(name), OURS, &[0, 1, 2].map(run))
    }

    fn rows(name: &str, old: &Record, new: &Record) -> Vec<(Figure, Option<bool>)> {
        let rows = compared(&case(name), old, new);
        rows.iter().map(|row| (row.figure, row.verdict.met())).collect()
    }

    fn with(name: &str, rms: [f64; 3], outside: f64, start: [Option<f64>; 3]) -> Record {
        let values = [
            (Figure::RmsUs, rms.map(Some)),
            (Figure::OutsideS, [Some(outside), Some(0.0), Some(0.0)]),
            (Figure::Below10UsS, start),
        ];
        record(name, values)
    }

    #[test]
    fn reference_figures_are_judged_more_strictly() {
        let soon = [Some(2.0), Some(4.0), Some(2.0)];
        let old = |name| with(name, [1.0, 2.0, 1.5], 0.0, soon);
        let new = |name| with(name, [1.1, 2.2, 1.65], 0.0, soon);
        for (name, met) in [("lan", Some(false)), ("wifi", Some(true))] {
            let all = rows(name, &old(name), &new(name));
            let expected = [
                (Figure::OutsideS, Some(true)),
                (Figure::Below10UsS, Some(true)),
                (Figure::RmsUs, met),
            ];
            assert_eq!(all, expected);
        }
        // The same on the whole, but the seeds scatter by more than that.
        let scattered = with("lan", [0.8, 2.3, 1.3], 0.0, soon);
        assert!(rows("lan", &old("lan"), &scattered).contains(&(Figure::RmsUs, None)));
        // Fewer seeds are compared with as many.
        let outcome = of(&[case("lan")], &[old("lan")], &[new("lan")], false);
        assert!(!outcome.is_met());
        assert!(
            outcome.text().contains("1.100 × (1.100 to 1.100): 1.55 → 1.71"),
            "{}",
            outcome.text()
        );
    }

    #[test]
    fn the_bound_is_to_hold_wherever_it_did() {
        let soon = [Some(2.0); 3];
        let with = |outside| with("wifi", [1.0; 3], outside, soon);
        let met = |old, new| rows("wifi", &with(old), &with(new))[0];
        assert_eq!(met(0.0, 0.0), (Figure::OutsideS, Some(true)));
        assert_eq!(met(0.0, 1.0), (Figure::OutsideS, Some(false)));
        assert_eq!(met(7.0, 6.0), (Figure::OutsideS, Some(true)));
        assert_eq!(met(7.0, 8.0), (Figure::OutsideS, None), "one seed of three tells nothing");
        let text = of(&[case("wifi")], &[with(0.0)], &[with(1.0)], false).text();
        assert!(text.contains("99.967") && text.contains("100 → 99.967"), "{text}");
    }

    #[test]
    fn what_is_never_reached_any_more_is_worse() {
        let soon = [Some(2.0); 3];
        let with = |start| with("wifi", [1.0; 3], 0.0, start);
        let never = with([Some(2.0), None, None]);
        let row = row(&case("wifi"), Figure::Below10UsS, &with(soon), &never).unwrap();
        assert!(row.pooled[1] > 60_000.0 && row.is_above(), "{:?}", row.pooled);
        // It was not always reached before: nothing to compare.
        assert_eq!(start(&never), None);
        let slow = with([Some(2000.0); 3]);
        assert_eq!(start(&slow), Some(Figure::Below10UsS), "better than nothing");
    }

    #[test]
    fn a_scenario_that_is_gone_is_missed() {
        let record = |name| with(name, [1.0; 3], 0.0, [Some(2.0); 3]);
        let gone = of(&[case("lan")], &[record("lan"), record("wan")], &[record("lan")], true);
        assert!(!gone.is_met() && gone.text().contains("there is none"));
        let new = of(&[case("lan")], &[record("wan")], &[record("lan")], false);
        assert!(new.is_met() && new.text().contains("Not in the file, and so not compared: lan."));
    }
}
