//! Figures of many runs of a case, and how they compare with those of before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cases::Group;
use super::run::Outcome;
use crate::lines;

/// A hold of an honest server that is longer than this is long, s.
const LONG_S: f64 = 600.0;
/// Number of standard deviations to either side that hold 95 % of a normal distribution.
const SIGMAS: f64 = 1.96;

/// Share of the runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Share {
    /// Number of runs
    pub count: usize,
    /// of these.
    pub of: usize,
}

impl Share {
    fn of(outcomes: &[Outcome], is: impl Fn(&Outcome) -> bool) -> Share {
        Share { count: outcomes.iter().filter(|one| is(one)).count(), of: outcomes.len() }
    }

    /// In per cent; NaN of none.
    #[must_use]
    pub fn percent(self) -> f64 {
        100.0 * self.count as f64 / self.of as f64
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Share) -> Share {
        Share { count: self.count + other.count, of: self.of + other.of }
    }

    /// Range of the probability, in per cent: Wilson's interval of 95 %.
    #[must_use]
    pub fn interval(self) -> (f64, f64) {
        let (n, p) = (self.of as f64, self.percent() / 100.0);
        let z2 = SIGMAS * SIGMAS;
        let middle = p + z2 / (2.0 * n);
        let half = SIGMAS * libm::sqrt(p * (1.0 - p) / n + z2 / (4.0 * n * n));
        let scale = 100.0 / (1.0 + z2 / n);
        (scale * (middle - half), scale * (middle + half))
    }
}

/// A quantile over the seeds, and the order statistics between which that of all seeds lies with a
/// probability of 95 %.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quantile {
    /// Of these seeds.
    pub value: f64,
    /// At least,
    pub low: f64,
    /// at most.
    pub high: f64,
}

/// Spread of a quantity over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: Quantile,
    /// 95th percentile.
    pub p95: Quantile,
    /// The largest.
    pub worst: f64,
}

impl Spread {
    /// Of these values, those that are not a number left out. `None` of none.
    fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let worst = *sorted.last()?;
        Some(Spread { median: quantile(&sorted, 0.5), p95: quantile(&sorted, 0.95), worst })
    }
}

/// The quantile `q` of sorted values, of which there is at least one.
fn quantile(sorted: &[f64], q: f64) -> Quantile {
    let last = sorted.len().saturating_sub(1) as f64;
    let at = |place: f64| {
        let index = libm::rint(place.clamp(0.0, last)) as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    let place = q * last;
    let scatter = SIGMAS * libm::sqrt(sorted.len() as f64 * q * (1.0 - q));
    Quantile { value: at(place), low: at(place - scatter), high: at(place + scatter) }
}

/// A case on a path under an estimator: what its runs came to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The case,
    pub case: String,
    /// its kind,
    pub group: Group,
    /// the path's name,
    pub path: String,
    /// the estimator's,
    pub estimator: String,
    /// what it was told, s,
    pub accept_step_after_s: f64,
    /// and how many seeds there were, from 1 on.
    pub seeds: usize,
    /// Runs in which an exchange was held off: of a wrong server while it was wrong, of an honest
    /// one at any time.
    pub held: Share,
    /// Runs in which the server was held off, or seen to break what an oscillator promises.
    pub doubted: Share,
    /// Runs in which the clock was led astray ([`Outcome::misled`]).
    pub misled: Share,
    /// Runs with the truth outside of the bound.
    pub outside: Share,
    /// Runs in which a server that was right was held off for more than ten minutes.
    pub held_long: Share,
    /// From when the server is wrong until it is held off, of the runs in which it is, s.
    pub held_after_s: Option<Spread>,
    /// Largest error meanwhile, µs.
    pub during_us: Option<Spread>,
    /// Largest error afterwards, µs.
    pub after_us: Option<Spread>,
    /// Seconds with the truth outside of the bound.
    pub outside_s: Option<Spread>,
    /// Seconds until the clock was right again.
    pub right_after_s: Option<Spread>,
    /// Seconds until a server that stays wrong was believed, of the runs in which it was.
    pub believed_after_s: Option<Spread>,
    /// The longest hold of a server that was right, s.
    pub held_honest_s: Option<Spread>,
}

/// Which row it is: case, path, estimator and, in ms, `accept-step-after`.
type Key = (String, String, String, u64);

/// One figure of a row, beside that of the row before.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Name and unit of the figure.
    pub name: &'static str,
    /// Before; `None` where there was none.
    pub old: Option<f64>,
    /// Now.
    pub new: Option<f64>,
    /// True if it is worse by more than the seeds scatter.
    pub worse: bool,
}

/// One figure of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figure {
    name: &'static str,
    value: Quantile,
    /// True if more of it is worse.
    more_is_worse: bool,
}

impl Row {
    /// From text with a row of JSON a line.
    ///
    /// # Errors
    /// Which line, and what is wrong with it.
    pub fn read(text: &str) -> Result<Vec<Row>, String> {
        lines::parse(text).map_err(|why| format!("{why}; it must be what --json printed"))
    }

    /// Figures of these runs of a case.
    #[must_use]
    pub fn new(
        case: &super::Case,
        path: &str,
        estimator: &str,
        accept_step_after_s: f64,
        outcomes: &[Outcome],
    ) -> Row {
        let share = |is: &dyn Fn(&Outcome) -> bool| Share::of(outcomes, is);
        let spread = |value: &dyn Fn(&Outcome) -> f64| Spread::of(outcomes.iter().map(value));
        let honest = case.group.is_honest();
        let held =
            |one: &Outcome| if honest { one.held_honest > 0.0 } else { one.held_after.is_some() };
        Row {
            case: case.name.clone(),
            group: case.group,
            path: path.to_owned(),
            estimator: estimator.to_owned(),
            accept_step_after_s,
            seeds: outcomes.len(),
            held: share(&held),
            doubted: share(&|one| held(one) || one.doubted_after.is_some()),
            misled: share(&|one| one.misled),
            outside: share(&|one| one.outside > 0),
            held_long: share(&|one| one.held_honest > LONG_S),
            held_after_s: spread(&|one| one.held_after.unwrap_or(f64::NAN)),
            during_us: spread(&|one| 1e6 * one.during),
            after_us: spread(&|one| 1e6 * one.after),
            outside_s: spread(&|one| one.outside as f64),
            right_after_s: spread(&|one| one.right_after),
            believed_after_s: spread(&|one| one.believed_after.unwrap_or(f64::NAN)),
            held_honest_s: spread(&|one| one.held_honest),
        }
    }

    fn key(&self) -> Key {
        let ms = libm::rint(1e3 * self.accept_step_after_s) as u64;
        (self.case.clone(), self.path.clone(), self.estimator.clone(), ms)
    }

    /// Figures of the row, those of which less is worse first.
    fn figures(&self) -> Vec<Figure> {
        let honest = self.group.is_honest();
        let share = |name, share: Share, more_is_worse| {
            let (low, high) = share.interval();
            let value = Quantile { value: share.percent(), low, high };
            Some(Figure { name, value, more_is_worse })
        };
        let of = |name, value: Option<Quantile>| {
            value.map(|value| Figure { name, value, more_is_worse: true })
        };
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        let p95 = |spread: Option<Spread>| spread.map(|spread| spread.p95);
        let believed = median(self.believed_after_s);
        [
            share("held off, %", self.held, honest),
            believed.map(|value| Figure { name: "believed after, s", value, more_is_worse: false }),
            share("led astray, %", self.misled, true),
            share("outside of the bound, %", self.outside, true),
            share("held off for long while right, %", self.held_long, true),
            of("held off after, median, s", median(self.held_after_s)),
            of("held off after, 95 %, s", p95(self.held_after_s)),
            of("error meanwhile, median, µs", median(self.during_us)),
            of("error meanwhile, 95 %, µs", p95(self.during_us)),
            of("error afterwards, median, µs", median(self.after_us)),
            of("error afterwards, 95 %, µs", p95(self.after_us)),
            of("right after, median, s", median(self.right_after_s)),
            of("right after, 95 %, s", p95(self.right_after_s)),
            of("longest hold while right, 95 %, s", p95(self.held_honest_s)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Figures of the row beside those of an earlier one of the same case.
    #[must_use]
    pub fn against(&self, before: &Row) -> Vec<Compared> {
        let old = before.figures();
        self.figures()
            .into_iter()
            .map(|new| {
                let old = old.iter().find(|old| old.name == new.name);
                Compared {
                    name: new.name,
                    old: old.map(|old| old.value.value),
                    new: Some(new.value.value),
                    worse: old.is_some_and(|old| new.is_worse_than(old)),
                }
            })
            .collect()
    }
}

impl Figure {
    /// True if the two intervals are apart, on the wrong side.
    fn is_worse_than(&self, old: &Figure) -> bool {
        let (new, old) = (&self.value, &old.value);
        if self.more_is_worse { new.low > old.high } else { new.high < old.low }
    }
}

/// Rows that are looked up by those of a later run.
#[derive(Clone, Debug, Default)]
pub struct Rows(BTreeMap<Key, Row>);

impl From<Vec<Row>> for Rows {
    fn from(rows: Vec<Row>) -> Rows {
        Rows(rows.into_iter().map(|row| (row.key(), row)).collect())
    }
}

impl Rows {
    /// The row of the same case, path, `accept-step-after` and estimator, or of the only estimator
    /// that there is.
    #[must_use]
    pub fn like(&self, row: &Row) -> Option<&Row> {
        let key = row.key();
        let only = || {
            let (.., estimator, _) = self.0.keys().next()?;
            let alone = self.0.keys().all(|(.., other, _)| other == estimator);
            alone.then(|| (key.0.clone(), key.1.clone(), estimator.clone(), key.3))
        };
        self.0.get(&key).or_else(|| self.0.get(&only()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{WAYS, cases};
    use super::*;

    fn row(held: usize, during_us: f64) -> Row {
        let case = cases().into_iter().find(|case| case.name == "step-1ms").unwrap();
        let outcome = |n: usize| Outcome {
            held_after: (n < held).then_some(20.0 + n as f64),
            during: 1e-6 * (during_us + n as f64),
            ..Outcome::default()
        };
        let outcomes: Vec<Outcome> = (0..100).map(outcome).collect();
        Row::new(&case, WAYS[0].name, "ours", 3600.0, &outcomes)
    }

    #[test]
    fn quantiles_and_their_scatter() {
        let spread = Spread::of((0..=100).map(f64::from).chain([f64::NAN])).unwrap();
        assert_eq!((spread.median.value, spread.p95.value, spread.worst), (50.0, 95.0, 100.0));
        assert_eq!((spread.median.low, spread.median.high), (40.0, 60.0));
        assert_eq!((spread.p95.low, spread.p95.high), (91.0, 99.0));
        assert_eq!(Spread::of([f64::NAN].into_iter()), None);
    }

    #[test]
    fn a_share_of_none_may_be_a_few_per_cent() {
        let (low, high) = Share { count: 0, of: 100 }.interval();
        assert!(low.abs() < 1e-9 && (3.6..3.8).contains(&high), "{low} {high}");
        let (low, high) = Share { count: 50, of: 100 }.interval();
        assert!((40.3..40.5).contains(&low) && (59.5..59.7).contains(&high), "{low} {high}");
    }

    #[test]
    fn worse_is_what_is_beyond_the_scatter() {
        let old = row(100, 10.0);
        let text = serde_json::to_string(&old).unwrap();
        let rows = Rows::from(Row::read(&text).unwrap());
        let worse = |new: &Row| -> Vec<&str> {
            let compared = new.against(rows.like(new).unwrap());
            compared.into_iter().filter(|one| one.worse).map(|one| one.name).collect()
        };
        assert!(worse(&old).is_empty());
        assert!(worse(&row(99, 15.0)).is_empty());
        assert_eq!(worse(&row(80, 10.0)), ["held off, %"]);
        let names = ["error meanwhile, median, µs", "error meanwhile, 95 %, µs"];
        assert_eq!(worse(&row(100, 40.0)), names);
        // Another estimator is compared with the only one that there is.
        let other = Row { estimator: "model".into(), ..row(80, 10.0) };
        assert_eq!(worse(&other), ["held off, %"]);
        assert!(rows.like(&Row { path: "4ms".into(), ..other }).is_none());
        let bad = Row::read("{}").unwrap_err();
        assert!(bad.starts_with("line 1: ") && bad.contains("--json"), "{bad}");
    }
}
