//! Record of a run that all checkers share: faults that are in force, counts, violations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Violations that are kept in words; all are counted.
const MOST_KEPT: usize = 200;

/// A part of the bed that a fault may hit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The daemon.
    Daemon,
    /// The NTP server of its page.
    Serve,
    /// The capture.
    Capture,
    /// All paths between the daemon and its servers.
    Wire,
    /// One server or one path.
    Server,
    /// The interface that is captured.
    Load,
    /// The disk of the daemon's records.
    Disk,
    /// The disk of the captures.
    CaptureDisk,
    /// The control socket.
    Control,
    /// A member of the group.
    Group,
}

/// A promise that was broken.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// Since the start, s.
    pub at: f64,
    /// The invariant.
    pub check: &'static str,
    /// Observation.
    pub text: String,
}

/// A fault that was made and undone.
#[derive(Clone, PartialEq, Debug)]
pub struct Done {
    /// Kind.
    pub kind: &'static str,
    /// When it began, since the start, s.
    pub at: f64,
    /// Length of the fault, s.
    pub lasted: f64,
    /// From its end until all was well again, s; none if that was not in time.
    pub recovered: Option<f64>,
    /// True if another fault was in force at the same time.
    pub with_another: bool,
}

#[derive(Default)]
struct Inner {
    violations: Vec<Violation>,
    broken: BTreeMap<&'static str, u64>,
    counts: BTreeMap<&'static str, u64>,
    largest: BTreeMap<&'static str, i64>,
    done: Vec<Done>,
    out: BTreeMap<Part, Instant>,
    settled: Option<Instant>,
    pids: BTreeMap<String, u32>,
    seen: BTreeMap<&'static str, Instant>,
    member: [Option<Instant>; 3],
    /// Times at which packets of the load could get lost before they reach the capture.
    gaps: Vec<(Instant, Option<Instant>)>,
    /// Packets that the capture itself has lost, in runs that were checked.
    checks: BTreeSet<&'static str>,
}

/// The record.
pub struct Ledger {
    /// When the run began.
    pub began: Instant,
    /// Set when it is to end.
    pub stop: Arc<AtomicBool>,
    /// True to say on standard error what is going on.
    pub progress: bool,
    inner: Mutex<Inner>,
}

/// All that a report needs.
#[derive(Clone, Default)]
pub struct Summary {
    /// Violations in words, as many as were kept.
    pub violations: Vec<Violation>,
    /// All violations, by invariant; those that held have 0.
    pub broken: BTreeMap<&'static str, u64>,
    /// Counts.
    pub counts: BTreeMap<&'static str, u64>,
    /// Largest values.
    pub largest: BTreeMap<&'static str, i64>,
    /// Faults.
    pub done: Vec<Done>,
}

impl Ledger {
    /// An empty one, from now on.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>, progress: bool) -> Ledger {
        Ledger { began: Instant::now(), stop, progress, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the run is to end.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Says what is going on.
    pub fn say(&self, text: &str) {
        if self.progress {
            eprintln!("{:8.1}  {text}", self.began.elapsed().as_secs_f64());
        }
    }

    /// An invariant that is being looked at, whether it breaks or not.
    pub fn checks(&self, check: &'static str) {
        self.lock().checks.insert(check);
    }

    /// An invariant does not hold.
    pub fn violation(&self, check: &'static str, text: String) {
        // What ends with a Ctrl-C ends before its flag is seen.
        if !self.ends() {
            self.found(check, text);
        }
    }

    /// Likewise, by one who looks after the run has ended.
    pub fn found(&self, check: &'static str, text: String) {
        let at = self.began.elapsed().as_secs_f64();
        eprintln!("{at:8.1}  VIOLATION {check}: {text}");
        let mut inner = self.lock();
        *inner.broken.entry(check).or_default() += 1;
        if inner.violations.len() < MOST_KEPT {
            inner.violations.push(Violation { at, check, text });
        }
    }

    /// Counts one.
    pub fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts so many.
    pub fn add(&self, what: &'static str, n: u64) {
        *self.lock().counts.entry(what).or_default() += n;
    }

    /// Keeps the largest.
    pub fn largest(&self, what: &'static str, value: i64) {
        let mut inner = self.lock();
        let largest = inner.largest.entry(what).or_insert(value);
        *largest = (*largest).max(value);
    }

    /// All is no longer well.
    pub fn unsettle(&self) {
        self.lock().settled = None;
    }

    /// A part is out of order from now on.
    pub fn put_out(&self, part: Part) {
        let mut inner = self.lock();
        inner.out.entry(part).or_insert_with(Instant::now);
        if part == Part::Load {
            inner.gaps.push((Instant::now(), None));
        }
    }

    /// A part is put in order again.
    pub fn put_back(&self, part: Part) {
        let mut inner = self.lock();
        inner.out.remove(&part);
        if part == Part::Load
            && let Some(last) = inner.gaps.last_mut()
        {
            last.1 = Some(Instant::now());
        }
    }

    /// For how long a part has been out of order.
    #[must_use]
    pub fn out_for(&self, part: Part) -> Option<Duration> {
        self.lock().out.get(&part).map(Instant::elapsed)
    }

    /// True if packets of the load could have got lost on their way between these moments.
    #[must_use]
    pub fn load_was_out(&self, from: Instant, to: Instant) -> bool {
        // A link that comes up again takes a moment.
        let after = Duration::from_secs(3);
        let gaps = &self.lock().gaps;
        gaps.iter().any(|gap| gap.0 <= to && gap.1.is_none_or(|end| from <= end + after))
    }

    /// All is well from now on.
    pub fn settle(&self) {
        self.lock().settled.get_or_insert_with(Instant::now);
    }

    /// For how long all has been well.
    #[must_use]
    pub fn settled_for(&self) -> Option<Duration> {
        self.lock().settled.map(|since| since.elapsed())
    }

    /// A process that belongs to the bed; `None`: it has ended.
    pub fn process(&self, name: &str, pid: Option<u32>) {
        let mut inner = self.lock();
        match pid {
            Some(pid) => inner.pids.insert(name.to_owned(), pid),
            None => inner.pids.remove(name),
        };
    }

    /// The bed's processes.
    #[must_use]
    pub fn processes(&self) -> BTreeMap<String, u32> {
        self.lock().pids.clone()
    }

    /// Something came, as it should: a reply, say.
    pub fn saw(&self, what: &'static str) {
        self.lock().seen.insert(what, Instant::now());
    }

    /// Time since it came; none if it never did.
    #[must_use]
    pub fn seen_for(&self, what: &'static str) -> Option<Duration> {
        self.lock().seen.get(what).map(Instant::elapsed)
    }

    /// A member of the group (from 0) has read its clock.
    pub fn member_read(&self, member: usize) {
        if let Some(last) = self.lock().member.get_mut(member) {
            *last = Some(Instant::now());
        }
    }

    /// True if each of the members has read the group's clock within so long.
    #[must_use]
    pub fn members_read_within(&self, time: Duration) -> bool {
        self.lock().member.iter().all(|last| last.is_some_and(|last| last.elapsed() <= time))
    }

    /// A fault is over.
    pub fn done(&self, done: Done) {
        self.lock().done.push(done);
    }

    /// All that there is to report.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let inner = self.lock();
        let mut broken: BTreeMap<_, _> = inner.checks.iter().map(|check| (*check, 0)).collect();
        broken.extend(inner.broken.clone());
        Summary {
            violations: inner.violations.clone(),
            broken,
            counts: inner.counts.clone(),
            largest: inner.largest.clone(),
            done: inner.done.clone(),
        }
    }
}
