//! What was found, and what it means for the goals.

use serde::Serialize;

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

/// Everything, as it is printed with `--json`.
#[derive(Serialize)]
pub struct Figures {
    /// The counter that was read.
    pub counter: &'static str,
    /// How many processors this process may use.
    pub processors: usize,
    /// How often each clock had its turn.
    pub rounds: u16,
    /// How long a turn was, ms.
    pub turn_ms: u32,
    /// With how many readers.
    pub readers: Vec<u16>,
    /// What each turn came to.
    pub turns: Vec<Measured>,
    /// Updates a second that the writer was told to make, and made.
    pub updates_hz: Vec<(u32, f64)>,
    /// What the lock costs those who want it.
    pub lock: Vec<Profile>,
    /// What a conversion costs.
    pub division: Division,
    /// How often FreeBSD's hands have to be renewed.
    pub renewals: Vec<Renewal>,
    /// What readers did while a writer stood still.
    pub standing: Standing,
    /// What it means for the goals.
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
    /// How much more than one reader alone that is; median of ratios within a round.
    pub scaling: f64,
    /// The same in terms of the bare counter's.
    pub scaling_to_counter: f64,
    /// Readers' shares of the average of their turn: least, quartiles, most.
    pub fairness: [f64; 5],
}

/// A goal and how it stands.
#[derive(Serialize)]
pub struct Goal {
    /// What is wanted.
    pub what: String,
    /// What was found.
    pub found: f64,
    /// What it takes.
    pub least: f64,
    /// None where it takes more readers than there were.
    pub met: Option<bool>,
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
            goals: goals(contest, &readers, &standing),
            readers,
            standing,
        }
    }

    /// What a turn came to.
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

fn goals(contest: &Contest, readers: &[u16], standing: &Standing) -> Vec<Goal> {
    let most = readers.last().copied().unwrap_or(1);
    let turn = |clock, readers, writer_hz| {
        contest.row(Turn { clock, dummy: false, who: Who::Threads, readers, writer_hz })
    };
    // The first over the second of timehands, over the same of `other`.
    let against = |other, first: (u16, u32), second: (u16, u32)| {
        let of = |clock| -> Option<Vec<f64>> {
            let (one, two) = (turn(clock, first.0, first.1)?, turn(clock, second.0, second.1)?);
            Some(ratios(&one.rates, &two.rates))
        };
        of(Subject::Timehands).zip(of(other)).map_or(f64::NAN, |(a, b)| ratio_of(a, b))
    };
    let goal = |what: String, found: f64, least: f64| Goal {
        what,
        found: thousandths(found),
        least,
        met: (!found.is_nan()).then_some(found >= least),
    };
    let busiest = BUSY.into_iter().max().unwrap_or(CALM);
    let scaling = match most {
        1 => f64::NAN,
        _ => against(Subject::Counter, (most, CALM), (1, CALM)),
    };
    let to_mutex = turn(Subject::Timehands, 2, CALM)
        .zip(turn(Subject::Mutex, 2, CALM))
        .map_or(f64::NAN, |(ours, mutex)| ratio(&ours.rates, &mutex.rates));
    vec![
        goal(format!("scaling to {most} threads, of the counter's"), scaling, SCALING),
        goal(
            format!("under a writer of {busiest} Hz, of the counter's"),
            against(Subject::Counter, (most, busiest), (most, CALM)),
            FLAT,
        ),
        goal("reads by 2 threads, of those of the mutex".into(), to_mutex, TO_MUTEX),
        goal(
            "readers that go on while a writer stands still".into(),
            f64::from(standing.timehands_readers) / f64::from(standing.readers.max(1)),
            1.0,
        ),
    ]
}

/// One over the other, round by round.
fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

fn ratio_of(one: Vec<f64>, other: Vec<f64>) -> f64 {
    median(&ratios(&one, &other))
}

/// The median of the ratios within a round.
fn ratio(one: &[f64], other: &[f64]) -> f64 {
    median(&ratios(one, other))
}

/// The middle one; no number of none.
pub fn median(values: &[f64]) -> f64 {
    five(values)[2]
}

/// Least, quartiles, most.
pub fn five(values: &[f64]) -> [f64; 5] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| truechimer_report::quantile(&sorted, q))
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
        let row = |clock, readers, writer_hz, rates: &[f64]| Row {
            turn: Turn { clock, dummy: false, who: Who::Threads, readers, writer_hz },
            rates: rates.to_vec(),
            shares: vec![0.9, 1.1],
        };
        let rows = vec![
            row(Subject::Counter, 1, CALM, &[100.0, 50.0, 100.0]),
            row(Subject::Counter, 2, CALM, &[200.0, 100.0, 200.0]),
            row(Subject::Counter, 2, 10_000, &[180.0, 100.0, 180.0]),
            row(Subject::Timehands, 1, CALM, &[90.0, 45.0, 90.0]),
            row(Subject::Timehands, 2, CALM, &[171.0, 90.0, 171.0]),
            row(Subject::Timehands, 2, 10_000, &[153.9, 1.0, 153.9]),
            row(Subject::Mutex, 2, CALM, &[9.0, 9.0, 9.0]),
        ];
        Contest { rows, updates: Vec::new() }
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

    #[test]
    fn goals_are_judged_by_ratios_within_rounds() {
        let goals = goals(&contest(), &[1, 2], &standing(2));
        let found: Vec<f64> = goals.iter().map(|goal| goal.found).collect();
        assert_eq!(found, [0.95, 1.0, 19.0, 1.0]);
        assert!(goals.iter().all(|goal| goal.met == Some(true)));
        let worse = super::goals(&contest(), &[1, 2], &standing(1));
        assert_eq!(worse[3].met, Some(false));
        // One reader says nothing about scaling.
        assert_eq!(super::goals(&contest(), &[1], &standing(2))[0].met, None);
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
