//! The contest: every clock has its turn in every round.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant as HostInstant};

use serde::Serialize;
use truechimer::{Count, Period};

use super::children::Readers;
use super::clocks::{ALL, Clocks, Subject, on_its_own};
use super::not_stopped;
use super::stage::Stage;
use truechimer_command::Failure;

/// Updates a second by the writer while the rest is compared.
pub const CALM: u32 = 1;
/// Updates a second beyond that.
pub const BUSY: [u32; 2] = [100, 10_000];
/// Clocks compared under a busy writer.
const UNDER_BUSY: [Subject; 5] =
    [Subject::Counter, Subject::Timehands, Subject::Seqlock, Subject::TicketLock, Subject::Mutex];

/// Reads of one reader in a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reads {
    /// Number of reads.
    pub reads: u64,
    /// When it began, and when it was done.
    pub from: Count,
    /// See `from`.
    pub to: Count,
}

/// Kind of readers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// Threads of one process.
    Threads,
    /// Processes of one thread.
    Processes,
}

/// Setting of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Turn {
    /// Which clock.
    pub clock: Subject,
    /// Over a word of memory in place of the counter.
    pub dummy: bool,
    /// By threads or processes.
    pub who: Who,
    /// By how many of them.
    pub readers: u16,
    /// Updates a second that the writer was told to make.
    pub writer_hz: u32,
}

/// All turns of one kind.
pub struct Row {
    /// Setting that was measured.
    pub turn: Turn,
    /// Reads a second of all readers together, by round.
    pub rates: Vec<f64>,
    /// Reads of each reader over the average of its turn, in all rounds.
    pub shares: Vec<f64>,
}

/// Results of the contest.
pub struct Contest {
    /// A row for each kind of turn.
    pub rows: Vec<Row>,
    /// Updates a second that were made, for each rate that was told.
    pub updates: Vec<(u32, f64)>,
}

impl Contest {
    /// Runs it.
    pub fn run(
        stage: &Stage,
        threads: &[u16],
        rounds: u16,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Contest, Failure> {
        let most = threads.iter().copied().max().unwrap_or(1);
        let period = stage.clocks().period();
        let mut readers = Readers::start(most, stage.directory())?;
        let new = |turn| Row { turn, rates: Vec::new(), shares: Vec::new() };
        let mut rows: Vec<Row> = turns(threads).into_iter().map(new).collect();
        let mut updates: Vec<(u32, u64, Duration)> = Vec::new();
        for _ in 0..rounds {
            let mut rate = 0;
            for row in &mut rows {
                not_stopped(stop)?;
                let turn = row.turn;
                if turn.writer_hz != rate {
                    rate = turn.writer_hz;
                    stage.set_rate(rate);
                }
                let (before, start) = (stage.updates(), HostInstant::now());
                let reads = match turn.who {
                    Who::Threads => by_threads(stage.clocks(), &turn, time),
                    Who::Processes => readers.read(turn.readers, turn.clock, time)?,
                };
                let (made, took) = (stage.updates() - before, start.elapsed());
                match updates.iter_mut().find(|(hz, ..)| *hz == rate) {
                    Some(all) => (all.1, all.2) = (all.1 + made, all.2 + took),
                    None => updates.push((rate, made, took)),
                }
                row.add(&reads, period);
            }
        }
        stage.set_rate(CALM);
        let rate = |(hz, made, took): (u32, u64, Duration)| (hz, made as f64 / took.as_secs_f64());
        Ok(Contest { rows, updates: updates.into_iter().map(rate).collect() })
    }

    /// The row of this kind of turn.
    pub fn row(&self, turn: Turn) -> Option<&Row> {
        self.rows.iter().find(|row| row.turn == turn)
    }
}

impl Row {
    /// A turn: from when the first began to when the last was done.
    fn add(&mut self, reads: &[Reads], period: Period) {
        let Some(first) = reads.first() else { return };
        let (from, to) = reads.iter().fold((first.from, first.to), |(from, to), one| {
            (if one.from.at_or_after(from) { from } else { one.from }, to.latest(one.to))
        });
        let seconds = period.span(to - from).as_nanos().max(1) as f64 / 1e9;
        let sum: u64 = reads.iter().map(|one| one.reads).sum();
        let mean = sum as f64 / reads.len() as f64;
        self.rates.push(sum as f64 / seconds);
        self.shares.extend(reads.iter().map(|one| one.reads as f64 / mean));
    }
}

/// All kinds of turns; those of one rate of the writer stand together.
fn turns(threads: &[u16]) -> Vec<Turn> {
    let mut turns = Vec::new();
    for who in [Who::Threads, Who::Processes] {
        for readers in threads.iter().copied() {
            for clock in ALL {
                let turn = |dummy| Turn { clock, dummy, who, readers, writer_hz: CALM };
                if who == Who::Threads || clock.is_shared() {
                    turns.push(turn(false));
                }
                if who == Who::Threads && clock.takes_dummy() {
                    turns.push(turn(true));
                }
            }
        }
    }
    let readers = threads.iter().copied().max().unwrap_or(1);
    for writer_hz in BUSY {
        let turn = |clock| Turn { clock, dummy: false, who: Who::Threads, readers, writer_hz };
        turns.extend(UNDER_BUSY.map(turn));
    }
    turns
}

fn by_threads(clocks: &Clocks, turn: &Turn, time: Duration) -> Vec<Reads> {
    let start = &Barrier::new(turn.readers.into());
    thread::scope(|scope| {
        let read = |place| {
            move || {
                let _pinned = on_its_own(place);
                start.wait();
                clocks.drive(turn.clock, turn.dummy, time)
            }
        };
        let readers: Vec<_> = (0..turn.readers).map(|place| scope.spawn(read(place))).collect();
        readers.into_iter().filter_map(|reader| reader.join().ok()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_turns_are_alike_and_rates_stand_together() {
        let turns = turns(&[1, 2]);
        for (n, turn) in turns.iter().enumerate() {
            assert!(!turns[..n].contains(turn), "{turn:?}");
        }
        let changes = turns.windows(2).filter(|w| w[0].writer_hz != w[1].writer_hz).count();
        assert_eq!(changes, BUSY.len());
    }

    #[test]
    fn rates_add_up_and_shares_are_of_the_mean() {
        let turn = turns(&[2])[0];
        let mut row = Row { turn, rates: Vec::new(), shares: Vec::new() };
        let reads = |reads, from, to| Reads { reads, from: Count(from), to: Count(to) };
        row.add(&[reads(300, 1000, 1100), reads(100, 1050, 1200)], Period::from_hz(1000));
        assert_eq!(row.rates, [2000.0]);
        assert_eq!(row.shares, [1.5, 0.5]);
        row.add(&[], Period::NANOSECOND);
        assert_eq!(row.rates.len(), 1);
    }

    #[test]
    fn every_thread_reads() {
        let stage = Stage::new().unwrap();
        let turn = Turn {
            clock: Subject::Timehands,
            dummy: false,
            who: Who::Threads,
            readers: 3,
            writer_hz: CALM,
        };
        let reads = by_threads(stage.clocks(), &turn, Duration::from_millis(1));
        assert!(reads.len() == 3 && reads.iter().all(|reads| reads.reads > 0));
    }
}
