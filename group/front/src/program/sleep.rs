//! Sleep of a program's threads: whether they come to rest after what it was given, or never do.
//!
//! Times and the kernel's account of the threads are given by the caller.

use std::time::{Duration, Instant};

use super::{Busy, RESTLESS, RESTLESS_AND_SILENT, RESTS, TAKES};
use crate::rest::{Course, Turns};

/// Threads may wait for a moment by a timer, as a runtime does where many want a lock: only after
/// so long is it known that whoever has been handed work has done it. Who has written nothing yet is given as long as one
/// that rests ([`RESTS`]).
const PAUSES: Duration = Duration::from_millis(1);

/// Findings of the looks at a program's threads.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    /// True if it has taken all and nobody says that he works, but it does not rest.
    pub(super) restless: bool,
    /// True if it did not rest for so long that it is not waited for any more, until it does.
    sleepless: bool,
    /// True if a thread of it was seen to run for so long without sleeping, until all have rested.
    spins: bool,
    /// True if it did not rest for so long where it had written nothing, until it does there.
    sleepless_in_silence: bool,
    /// The threads' course once it has not come to rest for a while.
    course: Option<Course>,
    /// When it was seen to work first, since it was seen not to.
    worked: Option<Instant>,
}

/// True if an answer to that is due, and nothing has been written. An end is seldom answered: that nothing is written then
/// tells nothing.
pub(super) fn is_silent(with: Busy, answered: bool) -> bool {
    with == Busy::Requests && !answered
}

/// Time for which all threads are to have slept.
pub(super) fn pauses(silent: bool) -> Duration {
    if silent { RESTS } else { PAUSES }
}

impl Sleep {
    /// Takes note that something new is given.
    pub(super) fn begin(&mut self) {
        (self.course, self.worked) = (None, None);
    }

    /// Somebody says that he works.
    pub(super) fn works(&mut self, now: Instant) {
        self.worked.get_or_insert(now);
    }

    /// Nobody says so any more. Work that was seen was no restlessness. (Threads that only pass the time say for a moment
    /// that they work.)
    pub(super) fn works_no_more(&mut self, now: Instant) {
        let lasted = |since| now.saturating_duration_since(since);
        if self.worked.take().is_some_and(|since| lasted(since) > RESTS) {
            self.course = None;
        }
    }

    /// Takes note that input is left for later: what threads do then is no restlessness.
    pub(super) fn leaves(&mut self) {
        self.course = None;
    }

    pub(super) fn is_sleepless(&self) -> bool {
        self.sleepless
    }

    /// True if it is done with what it was given so long ago, and has taken: its threads have rested (are not `restless`),
    /// or never will.
    pub(super) fn is_done(
        &mut self,
        now: Instant,
        for_: Duration,
        silent: bool,
        restless: bool,
        turns: impl FnOnce() -> Turns,
    ) -> bool {
        self.restless = restless;
        // Only who has been looked at and rested is one that sleeps again.
        let known = if silent { self.sleepless_in_silence } else { self.sleepless };
        let sleepless =
            restless && (self.spins || known || self.never_rests(now, for_, silent, turns));
        self.sleepless = restless && (self.sleepless || sleepless);
        self.spins &= restless;
        if silent {
            self.sleepless_in_silence &= restless;
        }
        let least = if silent { RESTS } else { TAKES };
        !restless || (sleepless && for_ >= least)
    }

    /// True if it has not come to rest for so long that it never will, and had processors to work on.
    fn never_rests(
        &mut self,
        now: Instant,
        for_: Duration,
        silent: bool,
        turns: impl FnOnce() -> Turns,
    ) -> bool {
        if for_ < RESTS {
            return false;
        }
        let Some(course) = &self.course else {
            self.course = Some(Course::begin(now, turns()));
            return false;
        };
        if for_ < RESTLESS {
            return false;
        }
        let (spun, served) = course.since(now, &turns());
        self.spins |= spun >= RESTLESS - RESTS;
        // A start, or a connection that comes, tells nothing of requests that are not answered yet.
        self.sleepless_in_silence |= silent && served >= RESTLESS_AND_SILENT;
        self.spins || if silent { self.sleepless_in_silence } else { served >= RESTLESS }
    }
}

#[cfg(test)]
mod tests {
    use truechimer_group::Member;

    use super::*;
    use crate::order::Conn;
    use crate::rest::Turn;

    const MS: Duration = Duration::from_millis(1);
    /// The course begins with the first look after [`RESTS`].
    const BEGINS: Duration = RESTS;

    /// A program with two threads, by the kernel's account: ms that they ran and waited for a processor, and how often
    /// they slept.
    struct Stage {
        sleep: Sleep,
        begun: Instant,
        threads: [(u64, u64, u64); 2],
    }

    impl Stage {
        fn new() -> Stage {
            Stage { sleep: Sleep::default(), begun: Instant::now(), threads: [(0, 0, 0); 2] }
        }

        /// A request is given, so long after the last one.
        fn given(&mut self, later: Duration) {
            self.begun += later;
            self.sleep.begin();
        }

        fn look(&mut self, after: Duration, silent: bool, restless: bool) -> bool {
            let turns = (1..).zip(self.threads).map(|(thread, (ran, waited, slept))| {
                let ns = |ms: u64| ms * 1_000_000;
                ((7, thread), Turn { ran: ns(ran), waited: ns(waited), slept })
            });
            let turns = turns.collect();
            self.sleep.is_done(self.begun + after, after, silent, restless, || turns)
        }

        fn flags(&self) -> (bool, bool, bool) {
            (self.sleep.sleepless, self.sleep.spins, self.sleep.sleepless_in_silence)
        }
    }

    #[test]
    fn an_end_is_no_request_that_is_not_answered() {
        let conn = Conn { member: Member(1), number: 1 };
        assert!(is_silent(Busy::Requests, false) && !is_silent(Busy::Requests, true));
        for with in [Busy::Accept, Busy::End(conn)] {
            assert!(!is_silent(with, false) && !is_silent(with, true), "{with:?}");
        }
        assert_eq!((pauses(true), pauses(false)), (RESTS, PAUSES));
    }

    #[test]
    fn one_that_rests_is_done_at_once() {
        let mut stage = Stage::new();
        for silent in [true, false] {
            assert!(!stage.look(MS, silent, true) && stage.look(MS, silent, false));
            assert_eq!(stage.flags(), (false, false, false));
        }
    }

    /// A thread runs all the time and never sleeps, beside one that sleeps again and again.
    #[test]
    fn one_that_spins_is_waited_for_once() {
        for silent in [false, true] {
            let mut stage = Stage::new();
            assert!(!stage.look(BEGINS, silent, true));
            stage.threads = [(1979, 0, 0), (0, 1900, 50)];
            assert!(!stage.look(RESTLESS, silent, true), "it has run for a little less than that");
            stage.threads = [(1980, 0, 0), (0, 1900, 50)];
            assert!(stage.look(RESTLESS, silent, true), "silent: {silent}");
            assert_eq!(stage.flags(), (true, true, false));
            // From now on nobody waits for it, answered or not, but for a moment.
            stage.given(3 * RESTLESS);
            assert!(!stage.look(TAKES - MS, false, true) && stage.look(TAKES, false, true));
            stage.given(RESTLESS);
            assert!(!stage.look(RESTS - MS, true, true) && stage.look(RESTS, true, true));
            // Until all have rested.
            stage.given(RESTLESS);
            assert!(stage.look(MS, silent, false));
            assert_eq!(stage.flags(), (false, false, false));
            assert!(!stage.look(TAKES, false, true) && !stage.look(RESTS, true, true));
        }
    }

    /// One that has slept does not spin, however long it has run.
    #[test]
    fn one_that_works_and_sleeps_does_not_spin() {
        let mut stage = Stage::new();
        assert!(!stage.look(BEGINS, true, true));
        stage.threads = [(3900, 0, 1), (0, 0, 0)];
        assert!(
            !stage.look(RESTLESS_AND_SILENT, true, true),
            "the course is shorter by its beginning"
        );
        assert_eq!(stage.flags(), (false, false, false));
    }

    #[test]
    fn threads_that_never_all_sleep_are_waited_for_once() {
        let mut stage = Stage::new();
        assert!(!stage.look(BEGINS, false, true));
        assert!(!stage.look(RESTLESS, false, true), "the course is shorter by its beginning");
        assert!(stage.look(BEGINS + RESTLESS, false, true));
        assert_eq!(stage.flags(), (true, false, false));
        stage.given(3 * RESTLESS);
        assert!(stage.look(TAKES, false, true));
        // One that has not answered may be at work: it is given twice as long, once.
        stage.given(RESTLESS);
        assert!(!stage.look(RESTS, true, true) && !stage.look(2 * RESTLESS, true, true));
        assert!(stage.look(RESTS + RESTLESS_AND_SILENT, true, true));
        assert_eq!(stage.flags(), (true, false, true));
        stage.given(3 * RESTLESS);
        assert!(!stage.look(RESTS - MS, true, true) && stage.look(RESTS, true, true));
        // A rest after an answer tells nothing of the silence before one.
        assert!(stage.look(MS, false, false));
        assert_eq!(stage.flags(), (false, false, true));
        assert!(stage.look(MS, true, false));
        assert_eq!(stage.flags(), (false, false, false));
    }

    /// Of the time in which threads waited for processors a quarter counts.
    #[test]
    fn who_waited_for_processors_is_given_longer() {
        let mut stage = Stage::new();
        assert!(!stage.look(BEGINS, false, true));
        stage.threads = [(0, 1000, 9), (0, 1001, 9)];
        assert!(!stage.look(BEGINS + 2 * RESTLESS, false, true));
        stage.threads = [(0, 1000, 9), (0, 1000, 9)];
        assert!(stage.look(BEGINS + 2 * RESTLESS, false, true));
        let mut stage = Stage::new();
        assert!(!stage.look(BEGINS, true, true));
        stage.threads = [(0, 90_000, 9), (0, 90_000, 9)];
        assert!(!stage.look(BEGINS + 4 * RESTLESS_AND_SILENT - MS, true, true));
        assert!(stage.look(BEGINS + 4 * RESTLESS_AND_SILENT, true, true));
    }

    #[test]
    fn work_that_is_seen_ends_a_course_and_a_moment_of_it_does_not() {
        for (lasts, ends) in [(RESTS, false), (RESTS + MS, true)] {
            let mut stage = Stage::new();
            assert!(!stage.look(BEGINS, false, true));
            let at = stage.begun + RESTLESS;
            stage.sleep.works(at - lasts);
            stage.sleep.works(at - MS);
            stage.sleep.works_no_more(at);
            assert_eq!(stage.look(BEGINS + RESTLESS, false, true), !ends, "{lasts:?}");
            // So does input that is left for later, and what is given next.
            stage.sleep.leaves();
            assert!(stage.sleep.course.is_none());
        }
    }
}
