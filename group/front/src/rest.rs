//! Rest of a program, as the kernel has it.
//!
//! A thread that another has woken has not said yet that it works. The kernel knows: a thread that
//! sleeps at two looks, and has not gone to sleep anew between them, slept all the time. If all
//! threads did, there was a moment at which nobody in the program had anything to do.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Threads, and how often each has gone to sleep.
type Look = BTreeMap<(u32, u32), u64>;

/// Looks at a program's threads.
#[derive(Debug, Default)]
pub struct Rest {
    /// The first of the last looks that were alike, and when it had ended.
    seen: Option<(Look, Instant)>,
}

impl Rest {
    /// Time for which all threads of these processes have slept, at least; none if one does not, or
    /// if that cannot be seen.
    pub fn time(&mut self, processes: &[u32]) -> Option<Duration> {
        // The time of a look is no time at rest.
        let begun = Instant::now();
        let Some(look) = look(processes) else {
            self.seen = None;
            return None;
        };
        match &self.seen {
            Some((before, since)) if *before == look => {
                Some(begun.saturating_duration_since(*since))
            }
            _ => {
                self.seen = Some((look, Instant::now()));
                None
            }
        }
    }

    /// True if all threads slept at the last look.
    pub fn is_asleep(&self) -> bool {
        self.seen.is_some()
    }

    /// True if there is but one thread, which slept at the last look: nobody whom it could wake.
    pub fn is_alone(&self) -> bool {
        self.seen.as_ref().is_some_and(|(look, _)| look.len() == 1)
    }
}

/// Turns of all threads, by process and thread.
pub type Turns = BTreeMap<(u32, u32), Turn>;

/// Course of a program's threads from some moment on.
#[derive(Debug)]
pub struct Course {
    begun: Instant,
    before: Turns,
}

/// Times of a thread by then, ns, and how often it had gone to sleep.
#[derive(Clone, Copy, Default, Debug)]
pub struct Turn {
    /// Time for which it had a processor, ns.
    pub ran: u64,
    /// Time for which it waited for one, ns.
    pub waited: u64,
    /// Number of times that it had gone to sleep.
    pub slept: u64,
}

impl Course {
    /// From now on.
    pub fn begin(now: Instant, turns: Turns) -> Course {
        Course { begun: now, before: turns }
    }

    /// Longest time since then for which a thread ran that has not slept; and all of the time, less that for which threads
    /// waited for a processor: they may have worked one after the other, so that the waits add up. As they may have waited
    /// side by side as well, a quarter of the time counts in any case. Nothing is known of either where the kernel does not
    /// count that.
    pub fn since(&self, now: Instant, turns: &Turns) -> (Duration, Duration) {
        let (mut spun, mut waited) = (0, 0);
        for (thread, now) in turns {
            let before = self.before.get(thread).copied().unwrap_or_default();
            waited += now.waited.saturating_sub(before.waited);
            if now.slept == before.slept {
                spun = now.ran.saturating_sub(before.ran).max(spun);
            }
        }
        let time = now.saturating_duration_since(self.begun);
        (Duration::from_nanos(spun), served(time, waited))
    }
}

/// Part of this time in which threads were not kept from working, if they waited so many nanoseconds for processors.
fn served(time: Duration, waited: u64) -> Duration {
    time.saturating_sub(Duration::from_nanos(waited)).max(time / 4)
}

/// Times of these processes' threads, by their `schedstat` and `status` of proc(5).
pub fn turns(processes: &[u32]) -> Turns {
    let mut all = Turns::new();
    for process in processes {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let (times, status) = (read("schedstat"), read("status"));
            let mut times = times.split_whitespace().map_while(|word| word.parse().ok());
            let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(number), Some(ran), Some(waited)) = (number, times.next(), times.next()) {
                let slept = times_slept(&status).unwrap_or_default();
                all.insert((*process, number), Turn { ran, waited, slept });
            }
        }
    }
    all
}

/// A look at all threads; none if one of them does not sleep, or none is there.
fn look(processes: &[u32]) -> Option<Look> {
    let mut all = Look::new();
    for process in processes {
        let threads = match fs::read_dir(format!("/proc/{process}/task")) {
            Ok(threads) => threads,
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            Err(_) => return None,
        };
        for thread in threads {
            let number = thread.ok()?.file_name().to_str()?.parse().ok()?;
            let place = format!("/proc/{process}/task/{number}");
            // If it cannot be read the thread has ended since.
            let status = fs::read_to_string(format!("{place}/status")).ok()?;
            all.insert((*process, number), slept(&status)?);
            // A child that has not run yet has not said that it is the program's.
            let children = fs::read_to_string(format!("{place}/children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
                if !processes.contains(&child) {
                    let status = fs::read_to_string(format!("/proc/{child}/status"));
                    status.map_or(Some(0), |status| slept(&status))?;
                }
            }
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Number of times that a thread has gone to sleep which sleeps by now, by its `status` of proc(5). One that
/// has ended does so as well.
fn slept(status: &str) -> Option<u64> {
    matches!(word(status, "State:")?, "S" | "Z" | "X").then(|| times_slept(status))?
}

fn times_slept(status: &str) -> Option<u64> {
    word(status, "voluntary_ctxt_switches:")?.parse().ok()
}

/// The first word of that line of a `status`.
fn word<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    fn until(what: &str, mut is: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < Duration::from_secs(600), "never: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn course_of(processes: &[u32]) -> Course {
        Course::begin(Instant::now(), turns(processes))
    }

    fn since(course: &Course, processes: &[u32]) -> (Duration, Duration) {
        let turns = turns(processes);
        course.since(Instant::now(), &turns)
    }

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn whoever_sleeps_rests_and_whoever_works_does_not() {
        let mut sleeps = shell("read line");
        let mut works = shell("while :; do :; done");
        let (mut one, mut both) = (Rest::default(), Rest::default());
        until("it sleeps", || one.time(&[sleeps.id()]).is_some() && one.is_alone());
        let mut twin = shell("read line");
        let pair = [sleeps.id(), twin.id()];
        let slept = Duration::from_millis(5);
        until("both sleep", || both.time(&pair).is_some_and(|it| it >= slept));
        assert!(!both.is_alone());
        twin.kill().unwrap();
        twin.wait().unwrap();
        // Looked at often enough to meet it between two turns.
        let at_work = (0..50).filter(|_| both.time(&[sleeps.id(), works.id()]).is_some());
        assert_eq!(at_work.count(), 0);
        for child in [&mut sleeps, &mut works] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // Of nobody it cannot be said.
        assert_eq!((one.time(&[sleeps.id()]), one.time(&[])), (None, None));
    }

    /// A shell's child works that nobody has named.
    #[test]
    fn a_child_that_works_is_no_rest() {
        if !std::path::Path::new("/proc/self/task/self/children").exists()
            && fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()))
                .is_err()
        {
            // Past the harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "SKIPPED children at work: this kernel names none");
            return;
        }
        let mut shell = shell("(while :; do :; done) & read line; kill $!");
        until("it works", || look(&[shell.id()]).is_none());
        let at_work = (0..50).filter(|_| look(&[shell.id()]).is_some());
        assert_eq!(at_work.count(), 0);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    /// One more than there are processors.
    #[test]
    fn who_waits_for_a_processor_was_not_served_meanwhile() {
        if fs::read_to_string("/proc/self/schedstat").is_err() {
            let _ = writeln!(std::io::stderr(), "SKIPPED waits for processors: no schedstat here");
            return;
        }
        let many = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let all: Vec<Child> = (0..many).map(|_| shell("while :; do :; done")).collect();
        let processes: Vec<u32> = all.iter().map(Child::id).collect();
        let some = Duration::from_millis(50);
        let mut course = course_of(&processes);
        let mut begun = Instant::now();
        until("they have waited", || since(&course, &processes).1 + some < begun.elapsed());
        // A shell that has just begun waits for its pages, which is sleep.
        until("one has spun", || {
            if begun.elapsed() > 20 * some {
                (course, begun) = (course_of(&processes), Instant::now());
            }
            since(&course, &processes).0 >= some
        });
        let end = |mut child: Child| {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        all.into_iter().for_each(end);
        let sleeps = shell("read line");
        let asleep = [sleeps.id()];
        until("it sleeps", || look(&asleep).is_some());
        let course = course_of(&asleep);
        let begun = Instant::now();
        until("some time has gone by", || begun.elapsed() >= some);
        let least = begun.elapsed();
        let (spun, served) = since(&course, &asleep);
        assert!(
            served >= least && spun == Duration::ZERO,
            "nothing is taken off: {served:?} {least:?}"
        );
        end(sleeps);
    }

    #[test]
    fn however_long_threads_wait_the_time_goes_on() {
        let second = Duration::from_secs(1);
        assert_eq!(served(second, 0), second);
        assert_eq!(served(second, 600_000_000), Duration::from_millis(400));
        assert_eq!(served(8 * second, 30_000_000_000), 2 * second);
    }

    #[test]
    fn whoever_has_worked_between_two_looks_has_not_rested() {
        let status = |state: &str, times: u32| {
            format!("Name:\tx\nState:\t{state}\nvoluntary_ctxt_switches:\t{times}\n")
        };
        assert_eq!(slept(&status("S (sleeping)", 7)), Some(7));
        assert_eq!(slept(&status("Z (zombie)", 8)), Some(8));
        for state in ["R (running)", "D (disk sleep)", "T (stopped)", "t (tracing stop)"] {
            assert_eq!(slept(&status(state, 7)), None, "{state}");
        }
        assert_eq!(slept("State:\tS (sleeping)\n"), None);
        let mut rest = Rest { seen: Some((Look::from([((1, 1), 1)]), Instant::now())) };
        let mut child = shell("read line");
        until("it sleeps", || look(&[child.id()]).is_some());
        assert_eq!(rest.time(&[child.id()]), None, "another look than before");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
