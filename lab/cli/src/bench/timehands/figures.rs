//! Findings, and their meaning for the goals.

use serde::Serialize;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::verdict::{Control, Verdict, counter_scaled};
use truechimer_report::{median, quantile, sorted};

use super::BenchTimehands;
use super::arithmetic::{Division, Renewal, renewals};
use super::clocks::Subject;
use super::contest::{BUSY, CALM, Contest, Row, Turn, Who};
use super::lock::Profile;
use super::stage::Stage;
use super::stopped::Standing;

/// Timehands scale at least so well in terms of the bare counter.
const SCALING: f64 = 0.95;
/// Under a busy writer they are read at least so often in terms of a calm one.
const FLAT: f64 = 0.95;
/// They are read at least so many times as often as the clock behind the mutex.
const TO_MUTEX: f64 = 10.0;

/// This share of the updates that the busy writer is told to make it must come to.
const WRITTEN: f64 = 0.8;

/// Everything, as it is printed with `--json`.
#[derive(Serialize)]
pub struct Figures {
    /// The counter that was read.
    pub counter: &'static str,
    /// Number of processors that this process may use.
    pub processors: usize,
    /// Number of turns of each clock.
    pub rounds: u16,
    /// Length of a turn, ms.
    pub turn_ms: u32,
    /// With how many readers.
    pub readers: Vec<u16>,
    /// Results of each turn.
    pub turns: Vec<Measured>,
    /// Updates a second that the writer was told to make, and made.
    pub updates_hz: Vec<(u32, f64)>,
    /// Cost of the lock to those who want it.
    pub lock: Vec<Profile>,
    /// Cost of a conversion.
    pub division: Division,
    /// Rates at which FreeBSD's hands have to be renewed.
    pub renewals: Vec<Renewal>,
    /// Reads made while a writer stood still.
    pub standing: Standing,
    /// Goals, and how they stand.
    pub goals: Vec<Goal>,
}

/// One kind of turn.
#[derive(Serialize)]
pub struct Measured {
    /// Which.
    #[serde(flatten)]
    pub turn: Turn,
    /// Reads a second of all readers together, median of rounds.
    pub reads_per_second: f64,
    /// Ratio of that to one reader alone; median of ratios within a round.
    pub scaling: f64,
    /// Scaling in terms of the bare counter's.
    pub scaling_to_counter: f64,
    /// Readers' shares of the average of their turn: least, quartiles, most.
    pub fairness: [f64; 5],
}

/// A goal and how it stands.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Goal {
    /// Aim, in words.
    pub what: String,
    /// Figure found, over the rounds.
    pub found: Interval,
    /// Least figure that meets the goal.
    pub least: f64,
    /// Verdict on the goal.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Goal {
    /// Text of what was found, and what it takes.
    pub fn text(&self) -> String {
        let Interval { median, low, high, .. } = self.found;
        let found = match (self.found.rounds, low < high && self.found.is_known()) {
            (0, _) => "-".to_owned(),
            (_, false) => median.to_string(),
            (_, true) => format!("{median} ({low} to {high})"),
        };
        format!("{found}, at least {}", self.least)
    }
}

impl Figures {
    /// Puts it all together.
    pub fn of(
        contest: &Contest,
        stage: &Stage,
        processors: usize,
        args: &BenchTimehands,
        lock: Vec<Profile>,
        division: Division,
        standing: Standing,
    ) -> Figures {
        let mut readers: Vec<u16> = contest.rows.iter().map(|row| row.turn.readers).collect();
        readers.sort_unstable();
        readers.dedup();
        Figures {
            counter: stage.clocks().counter().kind().name(),
            processors,
            rounds: args.rounds,
            turn_ms: args.turn,
            turns: contest.rows.iter().map(|row| Measured::of(contest, row)).collect(),
            updates_hz: contest.updates.iter().map(|(hz, made)| (*hz, tenths(*made))).collect(),
            lock,
            division,
            renewals: renewals(),
            goals: goals(contest, &readers, &standing, processors),
            readers,
            standing,
        }
    }

    /// Result of a turn.
    pub fn find(&self, turn: Turn) -> Option<&Measured> {
        self.turns.iter().find(|measured| measured.turn == turn)
    }

    /// The most readers there were.
    pub fn most(&self) -> u16 {
        self.readers.last().copied().unwrap_or(1)
    }
}

impl Measured {
    fn of(contest: &Contest, row: &Row) -> Measured {
        let turn = row.turn;
        let alone = |clock| contest.row(Turn { clock, readers: 1, writer_hz: CALM, ..turn });
        let counter = contest.row(Turn { clock: Subject::Counter, ..turn });
        let ratio = |one: Option<&Row>, other: Option<&Row>| {
            one.zip(other).map_or(f64::NAN, |(one, other)| ratio(&one.rates, &other.rates))
        };
        let scaling_to_counter = match (alone(turn.clock), counter, alone(Subject::Counter)) {
            (Some(alone), Some(counter), Some(counter_alone)) => {
                let [ours, theirs] = [(row, alone), (counter, counter_alone)]
                    .map(|(all, one)| ratios(&all.rates, &one.rates));
                ratio_of(ours, theirs)
            }
            _ => f64::NAN,
        };
        Measured {
            turn,
            reads_per_second: median(&row.rates).round(),
            scaling: thousandths(ratio(Some(row), alone(turn.clock))),
            scaling_to_counter: thousandths(scaling_to_counter),
            fairness: five(&row.shares).map(thousandths),
        }
    }
}

fn goals(contest: &Contest, readers: &[u16], standing: &Standing, processors: usize) -> Vec<Goal> {
    let most = readers.last().copied().unwrap_or(1);
    let turn = |clock, readers, writer_hz| {
        contest.row(Turn { clock, dummy: false, who: Who::Threads, readers, writer_hz })
    };
    // The first over the second.
    let change = |clock, first: (u16, u32), second: (u16, u32)| -> Vec<f64> {
        let rows = turn(clock, first.0, first.1).zip(turn(clock, second.0, second.1));
        rows.map_or(Vec::new(), |(one, two)| ratios(&one.rates, &two.rates))
    };
    // The same of timehands, over that of the counter.
    let against = |first, second| {
        let of = |clock| change(clock, first, second);
        rounded(Interval::of_ratios(&of(Subject::Timehands), &of(Subject::Counter)))
    };
    let goal = |what: String, found: Interval, least: f64, control: &Control| Goal {
        what,
        found,
        least,
        verdict: Verdict::at_least(least, &found).under(control),
    };
    let busiest = BUSY.into_iter().max().unwrap_or(CALM);
    let scaling = match most {
        1 => Interval::of(&[]),
        _ => against((most, CALM), (1, CALM)),
    };
    let to_mutex = turn(Subject::Timehands, 2, CALM).zip(turn(Subject::Mutex, 2, CALM));
    let to_mutex =
        to_mutex.map_or_else(Vec::new, |(ours, mutex)| ratios(&ours.rates, &mutex.rates));
    // The control: the bare counter, which nothing but the machine keeps from scaling.
    let scaled = |readers: u16| {
        let bare = change(Subject::Counter, (readers, CALM), (1, CALM));
        counter_scaled(&bare, readers, processors)
    };
    let updates = contest.updates.iter().find(|(hz, _)| *hz == busiest).map(|(_, made)| *made);
    let written = writer_wrote(updates.unwrap_or(f64::NAN), busiest);
    let going = standing.timehands_readers == standing.readers;
    vec![
        goal(
            format!("scaling to {most} threads, of the counter's"),
            scaling,
            SCALING,
            &if most > 1 { scaled(most) } else { Err("it takes two threads".to_owned()) },
        ),
        goal(
            format!("under a writer of {busiest} Hz, of the counter's"),
            against((most, busiest), (most, CALM)),
            FLAT,
            &scaled(most).and(written),
        ),
        goal(
            "reads by 2 threads, of those of the mutex".into(),
            rounded(Interval::of(&to_mutex)),
            TO_MUTEX,
            &scaled(2),
        ),
        Goal {
            what: "readers that go on while a writer stands still".into(),
            found: exactly(
                f64::from(standing.timehands_readers) / f64::from(standing.readers.max(1)),
            ),
            least: 1.0,
            verdict: Verdict::of(going),
        },
    ]
}

/// Checks that there was such a writer at all.
fn writer_wrote(made: f64, wanted: u32) -> Control {
    if made >= WRITTEN * f64::from(wanted) {
        return Ok(());
    }
    Err(format!("the writer came to {made:.0} updates a second only: this machine is busy"))
}

/// Interval of what is counted, and so known.
fn exactly(value: f64) -> Interval {
    Interval { median: value, low: value, high: value, rounds: 1 }
}

fn rounded(interval: Interval) -> Interval {
    let Interval { median, low, high, rounds } = interval;
    let [median, low, high] = [median, low, high].map(thousandths);
    Interval { median, low, high, rounds }
}

/// One over the other, round by round.
fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

fn ratio_of(one: Vec<f64>, other: Vec<f64>) -> f64 {
    median(ratios(&one, &other))
}

/// The median of the ratios within a round.
fn ratio(one: &[f64], other: &[f64]) -> f64 {
    median(ratios(one, other))
}

/// Least, quartiles, most.
pub fn five(values: &[f64]) -> [f64; 5] {
    let sorted = sorted(values);
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&sorted, q))
}

/// To one decimal.
pub fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest() -> Contest {
        let row = |clock, readers, writer_hz, rates: [f64; 2]| Row {
            turn: Turn { clock, dummy: false, who: Who::Threads, readers, writer_hz },
            // A slow round is slow for all.
            rates: [rates[0], rates[1], rates[0] / 2.0].repeat(2),
            shares: vec![0.9, 1.1],
        };
        let rows = vec![
            row(Subject::Counter, 1, CALM, [100.0; 2]),
            row(Subject::Counter, 2, CALM, [200.0; 2]),
            row(Subject::Counter, 2, 10_000, [180.0; 2]),
            row(Subject::Timehands, 1, CALM, [90.0; 2]),
            row(Subject::Timehands, 2, CALM, [171.0; 2]),
            row(Subject::Timehands, 2, 10_000, [153.9; 2]),
            row(Subject::Mutex, 2, CALM, [9.0; 2]),
        ];
        Contest { rows, updates: vec![(10_000, 9990.0)] }
    }

    fn standing(going: u16) -> Standing {
        Standing {
            writers: 1,
            writing: 9,
            tried_ms: 1,
            readers: 2,
            timehands_reads: 5,
            timehands_readers: going,
            seqlock_readers: 0,
            ticket_lock_readers: 0,
        }
    }

    fn judged(contest: &Contest) -> Vec<Goal> {
        goals(contest, &[1, 2], &standing(2), 2)
    }

    #[test]
    fn goals_are_judged_by_ratios_within_rounds() {
        let all = judged(&contest());
        let found: Vec<f64> = all.iter().map(|goal| goal.found.median).collect();
        assert_eq!(found, [0.95, 1.0, 19.0, 1.0]);
        assert!(all.iter().all(|goal| goal.verdict == Verdict::Met), "{all:?}");
        let worse = goals(&contest(), &[1, 2], &standing(1), 2);
        assert_eq!(worse[3].verdict, Verdict::NotMet);
        // One reader says nothing about scaling.
        assert_eq!(goals(&contest(), &[1], &standing(2), 2)[0].verdict.met(), None);
        let mut slow = contest();
        slow.rows[4].rates = [150.0, 150.0, 75.0].repeat(2);
        assert_eq!(judged(&slow)[0].verdict, Verdict::NotMet);
        // Five rounds say nothing.
        slow.rows[4].rates.pop();
        assert_eq!(judged(&slow)[0].verdict.met(), None);
    }

    #[test]
    fn nothing_is_judged_by_where_the_bare_counter_does_not_scale() {
        // As on a busy machine: two threads read less often than one, of whatever it is.
        let mut busy = contest();
        busy.rows[1].rates = [81.0, 40.5, 81.0].repeat(2);
        for timehands in [40.0, 90.0, 400.0] {
            busy.rows[4].rates = vec![timehands; 6];
            let all = judged(&busy);
            for goal in &all[..3] {
                let text = goal.verdict.text();
                let reason = "cannot judge: the bare counter itself scaled by 0.81 (";
                assert!(text.starts_with(reason) && text.ends_with("is busy"), "{text}");
            }
            // This is counted.
            assert_eq!(all[3].verdict, Verdict::Met);
        }
    }

    #[test]
    fn a_writer_that_does_not_come_to_write_disturbs_nobody() {
        let mut starved = contest();
        starved.updates = vec![(10_000, 410.0)];
        let goal = &judged(&starved)[1];
        assert!(goal.verdict.text().contains("410 updates a second only"), "{goal:?}");
    }

    #[test]
    fn a_turn_is_put_beside_one_reader_and_the_counter() {
        let contest = contest();
        let measured = Measured::of(&contest, &contest.rows[4]);
        assert_eq!((measured.reads_per_second, measured.scaling), (171.0, 1.9));
        assert_eq!(measured.scaling_to_counter, 0.95);
        assert_eq!(measured.fairness[0], 0.9);
        assert!(Measured::of(&contest, &contest.rows[6]).scaling.is_nan());
    }
}
