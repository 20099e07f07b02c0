//! Readers while a writer stands still in the middle of an update.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant as HostInstant};
use truechimer_command::clock::Page;

use serde::Serialize;
use signal_hook::consts::SIGSTOP;
use signal_hook::low_level::raise;
use truechimer_timehands::layout::{HAND_SIZE, HANDS_OFFSET};
use truechimer_timehands::{PageWriter, SLOTS, pack};

use super::children::{Role, Started};
use super::clocks::{Clocks, HALFWAY, Subject};
use super::stage::Hands;
use truechimer_command::clock;
use truechimer_command::{Ended, Failure, Outcome};

/// Where the generation of the newest hand is in the file.
const SEQUENCE: usize = 64;
/// Largest number of writers that are started until one stops where it is wanted to.
const ATTEMPTS: u32 = 400;
/// Time that a process has to come to a stop on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Observations while a writer stood still.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// Number of writers of the page that were stopped at random until one stood in the middle of
    /// an update.
    pub writers: u32,
    /// The generation of the hand that it had begun to write: the newest whole one is the one
    /// before.
    pub writing: u64,
    /// Time that readers were given, ms.
    pub tried_ms: u64,
    /// Number of threads that read the page meanwhile.
    pub readers: u16,
    /// Number of times that they did.
    pub timehands_reads: u64,
    /// Number of the readers that could read at all.
    pub timehands_readers: u16,
    /// Number of as many readers that could read the seqlock, whose writer stood half-way.
    pub seqlock_readers: u16,
    /// Number of those that could read the clock under the ticket lock, whose holder stood still.
    pub ticket_lock_readers: u16,
}

/// Stops writers and reads.
pub fn show(directory: &Path, readers: u16, time: Duration) -> Result<Standing, Failure> {
    let (writer, writers, writing) = stopped_writer(directory)?;
    let clock = clock::open(&Page { page: Some(page(directory)) })?;
    let reads: Vec<u64> = at_once(readers, || {
        let (begin, mut reads) = (HostInstant::now(), 0);
        // Once at least, however late the thread gets a processor.
        loop {
            reads += u64::from(clock.now().is_ok_and(|now| now.bound().is_some()));
            if begin.elapsed() >= time {
                return reads;
            }
        }
    });
    drop(writer);
    let held_up = |role, subject| -> Result<u16, Failure> {
        let mut holder = Started::new(role, directory)?;
        until_stopped(&mut holder)?;
        let clocks = Clocks::open(directory, HALFWAY)?;
        let able = at_once(readers, || u16::from(clocks.try_once(subject, time)));
        Ok(able.into_iter().sum())
    };
    Ok(Standing {
        writers,
        writing,
        tried_ms: time.as_millis() as u64,
        readers,
        timehands_reads: reads.iter().sum(),
        timehands_readers: reads.iter().map(|reads| u16::from(*reads > 0)).sum(),
        seqlock_readers: held_up(Role::SeqlockWriter, Subject::Seqlock)?,
        ticket_lock_readers: held_up(Role::LockHolder, Subject::TicketLock)?,
    })
}

fn at_once<T: Send>(readers: u16, read: impl Fn() -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let readers: Vec<_> = (0..readers).map(|_| scope.spawn(&read)).collect();
        readers.into_iter().filter_map(|reader| reader.join().ok()).collect()
    })
}

/// The page that is stopped, beside the one that is not.
fn page(directory: &Path) -> std::path::PathBuf {
    directory.join("stopped")
}

/// A writer that stands still in the middle of an update; how many it took; the generation of the
/// hand that it had begun to write.
fn stopped_writer(directory: &Path) -> Result<(Started, u32, u64), Failure> {
    for attempt in 1..=ATTEMPTS {
        let mut writer = Started::new(Role::PageWriter, directory)?;
        until_stopped(&mut writer)?;
        let bytes = fs::read(page(directory)).map_err(|why| Failure::new("the page", why))?;
        if let Some(generation) = being_written(&bytes) {
            return Ok((writer, attempt, generation));
        }
    }
    Err(Failure::Said(format!(
        "of {ATTEMPTS} writers that were stopped at random, none was in the middle of an update"
    )))
}

/// The generation of the hand that is being written: its slot is marked, and not yet given out.
fn being_written(page: &[u8]) -> Option<u64> {
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_ne_bytes(page.get(at..at + 8)?.try_into().ok()?))
    };
    let next = word(SEQUENCE)?.checked_add(1)?;
    let slot = HANDS_OFFSET + (next % SLOTS as u64) as usize * HAND_SIZE;
    // In a ring that was never full a slot may be unmarked because nothing was ever in it.
    (next > SLOTS as u64 && word(slot)? == 0).then_some(next)
}

/// Waits until a process has stopped itself.
fn until_stopped(process: &mut Started) -> Result<(), Failure> {
    let (begin, path) = (HostInstant::now(), format!("/proc/{}/stat", process.id()));
    while begin.elapsed() < SOON {
        let stat = fs::read_to_string(&path).unwrap_or_default();
        if stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")) {
            return Ok(());
        }
        if process.has_ended() {
            return Err(Failure::Said("a writer ended instead of standing still".into()));
        }
        thread::sleep(Duration::from_micros(200));
    }
    Err(Failure::Said("a writer did not come to a stop".into()))
}

/// A child: publishes hand after hand until it stops itself, wherever that is.
pub fn write_page(directory: &Path) -> Ended {
    let mut hands = Hands::new()?;
    let failed = |why| Failure::new("cannot make a clock page", why);
    let mut page = PageWriter::create(page(directory)).map_err(failed)?;
    let (hand, made) = hands.next();
    thread::spawn(|| {
        thread::sleep(Duration::from_millis(1));
        raise(SIGSTOP)
    });
    // Should nobody be there to end it once it goes on.
    let begin = HostInstant::now();
    while begin.elapsed() < SOON {
        for _ in 0..10_000 {
            page.publish(&hand, &made);
        }
    }
    Ok(Outcome::Good)
}

/// A child: stops itself in the middle of an update.
pub fn stop_halfway(directory: &Path, subject: Subject) -> Ended {
    let (hand, made) = Hands::new()?.next();
    Clocks::open(directory, HALFWAY)?.publish_halfway(subject, &pack(&hand, &made), || {
        let _ = raise(SIGSTOP);
    });
    Ok(Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_command::scratch::Scratch;

    #[test]
    fn a_hand_half_written_is_seen_as_such() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join("stopped");
        let mut page = PageWriter::create(&path).unwrap();
        let mut hands = Hands::new().unwrap();
        for _ in 0..SLOTS + 3 {
            let (hand, made) = hands.next();
            page.publish(&hand, &made);
        }
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(being_written(&bytes), None);
        // As the writer leaves it once it has marked the oldest slot.
        let next = SLOTS + 4;
        let slot = HANDS_OFFSET + next % SLOTS * HAND_SIZE;
        bytes[slot..slot + 8].fill(0);
        assert_eq!(being_written(&bytes), Some(next as u64));
        assert_eq!(being_written(&bytes[..100]), None);
        assert_eq!(being_written(&[0; 4096]), None);
    }
}
