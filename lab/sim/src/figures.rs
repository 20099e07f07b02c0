//! Figures of one estimator in every scenario, kept in a file so that later ones can be compared.
//!
//! A [`Record`] is a line of JSON: a scenario, an estimator, and every [`Figure`] of every seed.
//! Seeds give all estimators the same packets, so figures are compared in pairs. Values are rounded
//! to five digits, so that a record says the same after a trip through its file.

mod cases;
mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use truechimer_estimators::Kind;
use truechimer_report::{mean, rms};

use crate::lines;
use crate::scenario::ScenarioError;
use crate::world::simulate_alike;

pub use cases::{Case, cases};

/// A figure of one run. Errors are clock − truth, read once a second; those in µs leave out the
/// time to settle, all others are of the whole run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Root mean square of the error, µs.
    RmsUs,
    /// The largest error, µs.
    LargestUs,
    /// The error at the end of the longest time without any reply, µs; none if that is shorter
    /// than an hour.
    OutageEndUs,
    /// RMS error of 1 s, measured by the difference clock, µs.
    SecondUs,
    /// RMS error of 1000 s, likewise.
    ThousandSecondsUs,
    /// Median of the bound, µs.
    BoundUs,
    /// The bound that 99 % of the seconds do not exceed, µs.
    #[serde(rename = "bound_99_us")]
    Bound99Us,
    /// Seconds from the first request until the error stayed below 500 µs for 300 s; none if it
    /// never did.
    #[serde(rename = "below_500_us_s")]
    Below500UsS,
    /// Seconds to 100 µs, likewise.
    #[serde(rename = "below_100_us_s")]
    Below100UsS,
    /// Seconds to 10 µs, likewise.
    #[serde(rename = "below_10_us_s")]
    Below10UsS,
    /// Seconds in which a bound was promised.
    PromisedS,
    /// Seconds of these in which the truth was outside.
    OutsideS,
    /// The longest that it was outside without a break, s.
    OutsideLongestS,
    /// Seconds at whose end the truth was outside the bound of an interval by the difference clock,
    /// of 1 s or of 1000 s.
    DifferenceOutsideS,
    /// Times that an honest server was held off: its replies were not used, or it was taken for a
    /// falseticker.
    HeldOff,
    /// For how long altogether, s.
    HeldOffS,
    /// For how long at most without a break, s.
    HeldOffLongestS,
    /// Reports that a path changed.
    PathChanges,
    /// Those of them that no change of the path's floor explains.
    FalsePathChanges,
    /// Reports that the time of an honest server has moved, and is believed.
    FalseSteps,
    /// Exchanges with servers, and edges of pulses.
    Exchanges,
    /// Those of them that the estimator used.
    Used,
}

/// Way to pool several seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pool {
    /// Root of the mean square.
    RootMeanSquare,
    /// The largest.
    Largest,
    /// The mean.
    Mean,
    /// The sum of a count; where nothing is written of it, it is 0.
    Sum,
}

impl Figure {
    /// All of them, in the order of a table.
    pub const ALL: [Figure; 22] = [
        Figure::RmsUs,
        Figure::LargestUs,
        Figure::OutageEndUs,
        Figure::SecondUs,
        Figure::ThousandSecondsUs,
        Figure::BoundUs,
        Figure::Bound99Us,
        Figure::Below500UsS,
        Figure::Below100UsS,
        Figure::Below10UsS,
        Figure::PromisedS,
        Figure::OutsideS,
        Figure::OutsideLongestS,
        Figure::DifferenceOutsideS,
        Figure::HeldOff,
        Figure::HeldOffS,
        Figure::HeldOffLongestS,
        Figure::PathChanges,
        Figure::FalsePathChanges,
        Figure::FalseSteps,
        Figure::Exchanges,
        Figure::Used,
    ];

    /// Way in which the seeds are pooled.
    #[must_use]
    pub fn pool(self) -> Pool {
        use Figure as F;
        match self {
            F::RmsUs | F::OutageEndUs | F::SecondUs | F::ThousandSecondsUs => Pool::RootMeanSquare,
            F::LargestUs | F::OutsideLongestS | F::HeldOffLongestS => Pool::Largest,
            F::BoundUs | F::Bound99Us | F::Below500UsS | F::Below100UsS | F::Below10UsS => {
                Pool::Mean
            }
            F::PromisedS
            | F::OutsideS
            | F::DifferenceOutsideS
            | F::HeldOff
            | F::HeldOffS
            | F::PathChanges
            | F::FalsePathChanges
            | F::FalseSteps
            | F::Exchanges
            | F::Used => Pool::Sum,
        }
    }

    /// True if it is 0 unless something happens: not written then.
    fn is_rare(self) -> bool {
        self.pool() == Pool::Sum
            || matches!(self, Figure::OutsideLongestS | Figure::HeldOffLongestS)
    }
}

impl Pool {
    /// Pooled value of these; NaN of none.
    #[must_use]
    pub fn of(self, values: impl IntoIterator<Item = f64>) -> f64 {
        let values: Vec<f64> = values.into_iter().collect();
        match self {
            _ if values.is_empty() => f64::NAN,
            Pool::RootMeanSquare => rms(values),
            Pool::Largest => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Pool::Mean => mean(values),
            Pool::Sum => values.iter().sum(),
        }
    }
}

/// The figures of one run.
pub type Figures = BTreeMap<Figure, Option<f64>>;

/// The figures of one estimator in one scenario, one value for each of the seeds from 1 on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The scenario's name.
    pub scenario: String,
    /// The estimator's name.
    pub estimator: String,
    /// Length of each run, h.
    pub hours: f64,
    /// Number of seeds.
    pub seeds: usize,
    /// The values, as many as seeds; [`Record::values`] knows those that are not written.
    #[serde(serialize_with = "short")]
    figures: BTreeMap<Figure, Vec<Option<f64>>>,
}

impl Record {
    /// The record of a case, from the runs of its seeds.
    #[must_use]
    pub fn new(case: &Case, estimator: Kind, runs: &[Figures]) -> Record {
        let column = |figure: &Figure| -> Vec<Option<f64>> {
            runs.iter().map(|run| run.get(figure).copied().flatten().map(rounded)).collect()
        };
        let says = |figure: Figure, values: &[Option<f64>]| {
            values.iter().flatten().any(|value| !figure.is_rare() || *value != 0.0)
        };
        let shown = case.figures.iter().map(|figure| (*figure, column(figure)));
        Record {
            scenario: case.scenario.name.clone(),
            estimator: estimator.name().to_owned(),
            hours: case.scenario.hours,
            seeds: runs.len(),
            figures: shown.filter(|(figure, values)| says(*figure, values)).collect(),
        }
    }

    /// The values of a figure, one for each seed.
    #[must_use]
    pub fn values(&self, figure: Figure) -> Vec<Option<f64>> {
        let unwritten = figure.is_rare().then_some(0.0);
        let written = self.figures.get(&figure).cloned();
        written.unwrap_or_else(|| vec![unwritten; self.seeds])
    }
}

/// The figures of a case under one estimator and seed.
///
/// # Errors
/// If its scenario makes no sense.
pub fn measure(case: &Case, estimator: Kind, seed: u64) -> Result<Figures, ScenarioError> {
    let scenario = &case.scenario;
    Ok(run::figures(scenario, &simulate_alike(scenario, estimator, seed)?))
}

/// The records of a file.
///
/// # Errors
/// Which line is no record, and why.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let records: Vec<Record> = lines::parse(text)?;
    for (index, record) in records.iter().enumerate() {
        let odd = record.figures.iter().find(|(_, values)| values.len() != record.seeds);
        if let Some((figure, values)) = odd {
            return Err(format!(
                "line {}: {figure:?} has {} values for {} seeds",
                index + 1,
                values.len(),
                record.seeds
            ));
        }
    }
    Ok(records)
}

/// Five significant digits of a finite number, all of them of a whole one.
fn rounded(value: f64) -> f64 {
    if libm::trunc(value) == value {
        value
    } else {
        format!("{value:.4e}").parse().unwrap_or(value)
    }
}

/// Whole numbers without a decimal point.
fn short<S: Serializer>(
    figures: &BTreeMap<Figure, Vec<Option<f64>>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let number = |value: &Option<f64>| match value {
        None => Value::Null,
        Some(v) if libm::trunc(*v) == *v && v.abs() < 1e15 => Value::from(*v as i64),
        Some(v) => Value::from(*v),
    };
    serializer.collect_map(figures.iter().map(|(figure, values)| {
        let values: Vec<Value> = values.iter().map(number).collect();
        (figure, values)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        let all = cases().unwrap();
        all.into_iter().find(|case| case.scenario.name == "lan").unwrap()
    }

    fn record() -> Record {
        let one = |rms: f64| {
            let figures = [
                (Figure::RmsUs, Some(rms)),
                (Figure::Below10UsS, Some(0.0)),
                (Figure::HeldOff, Some(0.0)),
                (Figure::PromisedS, Some(100_799.0)),
                (Figure::OutageEndUs, None),
            ];
            Figures::from(figures)
        };
        Record::new(&case(), truechimer_estimators::OURS, &[one(1.234_567), one(1e-7)])
    }

    #[test]
    fn a_record_comes_back_from_its_line() {
        let record = record();
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(
            line,
            "{\"scenario\":\"lan\",\"estimator\":\"ours\",\"hours\":28.0,\"seeds\":2,\"figures\":{\
             \"rms_us\":[1.2346,1e-7],\"below_10_us_s\":[0,0],\"promised_s\":[100799,100799]}}"
        );
        assert_eq!(parse(&line).unwrap(), std::slice::from_ref(&record));
        assert_eq!(record.values(Figure::RmsUs), [Some(1.2346), Some(1e-7)]);
        assert_eq!(record.values(Figure::HeldOff), [Some(0.0); 2], "a count that is not written");
        assert_eq!(record.values(Figure::OutageEndUs), [None; 2]);
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let good = serde_json::to_string(&record()).unwrap();
        for (bad, says) in [
            ("{", "line 2: EOF"),
            (&good.replace("\"seeds\":2", "\"seeds\":3"), "RmsUs has 2 values for 3 seeds"),
            (&good.replace("rms_us", "rms_ms"), "unknown variant `rms_ms`"),
            (&good.replace("\"hours\":28.0,", ""), "missing field `hours`"),
        ] {
            let why = parse(&format!("{good}\n{bad}")).unwrap_err();
            assert!(why.contains("line 2") && why.contains(says), "{why}");
        }
    }

    #[test]
    fn seeds_are_pooled_as_tables_have_them() {
        for (pool, expected) in
            [(Pool::RootMeanSquare, 5.0), (Pool::Largest, 7.0), (Pool::Mean, 4.0), (Pool::Sum, 8.0)]
        {
            assert_eq!(pool.of([1.0, 7.0]), expected);
            assert!(pool.of([]).is_nan());
        }
    }

    #[test]
    fn every_figure_has_a_place_in_the_order() {
        assert!(Figure::ALL.is_sorted());
        let last = serde_json::to_string(&Figure::Used).unwrap();
        assert_eq!((last.as_str(), Figure::Used as usize + 1), ("\"used\"", Figure::ALL.len()));
    }
}
