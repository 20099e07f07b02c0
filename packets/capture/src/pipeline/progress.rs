//! Figures to watch while it runs.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Spread;
use crate::sink::Written;
use crate::{Losses, Quality, Stamped};

/// Progress of a run so far, for others to look at while it goes on.
#[derive(Default, Debug)]
pub struct Progress {
    received: AtomicU64,
    ring: AtomicU64,
    kernel: AtomicU64,
    interface: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) surplus: AtomicU64,
    pub(super) unwritten: AtomicU64,
    files: AtomicU64,
    file_bytes: AtomicU64,
    pub(super) queued: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) downs: AtomicU64,
    pub(super) down: AtomicBool,
    tally: Mutex<Tally>,
    trouble: Mutex<Option<String>>,
    notes: Mutex<Vec<String>>,
}

/// Number of notes kept that nobody has asked for.
const MOST_NOTES: usize = 100;

/// The state of [`Progress`] at one moment. Its numbers never go back, but for `queued`.
#[derive(Clone, Default, Debug)]
pub struct Live {
    /// Losses by the kernel's word, as of some tenths of a second ago.
    pub losses: Losses,
    /// Packets that came to the capture thread.
    pub taken: u64,
    /// Packets that were taken, and never written: the queue was full, or the sink failed.
    pub dropped: u64,
    /// Packets that were handed to the sink, those that are on their way to the disk included.
    pub written: u64,
    /// Bytes of those that it took, as captured.
    pub bytes: u64,
    /// Of `written`, packets that could not be: the disk is full. The rest may go back by what was on its way.
    pub unwritten: u64,
    /// Files begun so far.
    pub files: u64,
    /// Bytes of all of them together.
    pub file_bytes: u64,
    /// Trouble of the sink at the moment.
    pub trouble: Option<String>,
    /// Packets that were taken beyond the number that was asked for.
    pub surplus: u64,
    /// Packets between the two threads.
    pub queued: u64,
    /// Number of times that the capture thread had to wait for the other.
    pub waits: u64,
    /// Number of times that the interface went down.
    pub downs: u64,
    /// True while it is down.
    pub down: bool,
    /// Quality of the stamps of those written.
    pub tally: Tally,
}

/// Quality of stamps, together.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Number of stamps within their bound.
    pub bounded: u64,
    /// Number of stamps with the system clock's time, and a count.
    pub unsynchronised: u64,
    /// Number of stamps without a count.
    pub uncounted: u64,
    /// The bounds of those that have one, in ns.
    pub bounds: Spread,
    /// The error of the counts of those that have one, in counts.
    pub errors: Spread,
}

impl Tally {
    /// Takes one in.
    pub fn add(&mut self, stamped: &Stamped) {
        match stamped.quality {
            Quality::Bounded => self.bounded += 1,
            Quality::Unsynchronised => self.unsynchronised += 1,
            Quality::Uncounted => self.uncounted += 1,
        }
        if let Some(bound) = stamped.bound {
            self.bounds.add(bound.as_nanos_i64().unsigned_abs());
        }
        if let Some(counted) = stamped.counted {
            self.errors.add(counted.error.0.unsigned_abs());
        }
    }

    /// Difference since `earlier`, an earlier state of the same.
    #[must_use]
    pub fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            bounded: self.bounded.saturating_sub(earlier.bounded),
            unsynchronised: self.unsynchronised.saturating_sub(earlier.unsynchronised),
            uncounted: self.uncounted.saturating_sub(earlier.uncounted),
            bounds: self.bounds.since(&earlier.bounds),
            errors: self.errors.since(&earlier.errors),
        }
    }
}

impl Progress {
    /// State at present.
    #[must_use]
    pub fn live(&self) -> Live {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Live {
            losses: Losses {
                received: of(&self.received),
                ring: of(&self.ring),
                kernel: of(&self.kernel),
                interface: of(&self.interface),
            },
            taken: of(&self.taken),
            dropped: of(&self.dropped),
            written: of(&self.written),
            bytes: of(&self.bytes),
            unwritten: of(&self.unwritten),
            files: of(&self.files),
            file_bytes: of(&self.file_bytes),
            trouble: guard(&self.trouble).clone(),
            surplus: of(&self.surplus),
            queued: of(&self.queued),
            waits: of(&self.waits),
            downs: of(&self.downs),
            down: self.down.load(Ordering::Relaxed),
            tally: guard(&self.tally).clone(),
        }
    }

    /// Takes the notes for the user, once each: what did not work, and does not end the run.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *guard(&self.notes))
    }

    /// True where so many packets are written, or on their way to the disk.
    pub(super) fn has(&self, count: Option<NonZeroU64>) -> bool {
        let [written, unwritten] =
            [&self.written, &self.unwritten].map(|number| number.load(Ordering::Relaxed));
        count.is_some_and(|count| written.saturating_sub(unwritten) >= count.get())
    }

    /// Counts as dropped what was taken and neither written nor counted otherwise.
    pub(super) fn drop_rest(&self) {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let rest =
            of(&self.taken).saturating_sub(of(&self.written)).saturating_sub(of(&self.surplus));
        self.dropped.store(rest, Ordering::Relaxed);
    }

    pub(super) fn note(&self, note: String) {
        let mut notes = guard(&self.notes);
        if notes.len() < MOST_NOTES {
            notes.push(note);
        }
    }

    pub(super) fn lost(&self, losses: &Losses) {
        self.received.store(losses.received, Ordering::Relaxed);
        self.ring.store(losses.ring, Ordering::Relaxed);
        self.kernel.store(losses.kernel, Ordering::Relaxed);
        self.interface.store(losses.interface, Ordering::Relaxed);
    }

    pub(super) fn sink(&self, written: &Written) {
        self.unwritten.store(written.unwritten, Ordering::Relaxed);
        self.files.store(written.files, Ordering::Relaxed);
        self.file_bytes.store(written.bytes, Ordering::Relaxed);
        guard(&self.trouble).clone_from(&written.trouble);
    }

    pub(super) fn worth(&self, tally: &Tally) {
        guard(&self.tally).clone_from(tally);
    }
}

/// Locks it even after a panic: what is behind such a lock is whole at any moment.
pub(super) fn guard<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
