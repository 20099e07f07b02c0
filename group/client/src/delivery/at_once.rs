//! Several connections' requests, given at once to a program that answers from one event loop.
//!
//! The front's side writes all of them before the program's looks at any: `filling` and `looking` are a lock that either
//! side takes by setting its own word and then reading the other's.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{LOOP, LOOPED, MOST_PROCESSES, PROCESSES, Page, is_gone};

/// The most requests that are given at once: more than make a message cheaper (its cost is shared by then), and fewer
/// than the head has room for.
pub const MOST_AT_ONCE: usize = 128;
/// Where the looper, and the requests given at once, are.
const FILLING: usize = 112;
const LOOKING: usize = 116;
const LOOPER: usize = 120;
const SERIAL: usize = 124;
const AT_ONCE: usize = PROCESSES + MOST_PROCESSES * 8;
/// More than one thread takes input.
const SEVERAL: u32 = u32::MAX;
/// Mark of input given at once that came in part.
const PARTLY: u32 = u32::MAX - 1;
/// Bytes of a connection, in the word of a request given at once.
const TARGET: u64 = (1 << 48) - 1;
/// For so long the front waits for the end of a look, before it does other things and tries again: a look takes µs.
const STEP: Duration = Duration::from_millis(20);

impl Page {
    /// True if the program may be given several connections' requests at once.
    pub fn is_loop(&self) -> bool {
        self.u64_at(16).load(Ordering::Relaxed) & LOOP != 0
    }

    /// The program's side: this thread has taken input. True if it is the one that takes all.
    pub fn loops(&self, thread: u32) -> bool {
        let looper = self.u32_at(LOOPER);
        let known = looper.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire);
        let other = known.err().filter(|known| *known != thread);
        if other.is_some_and(|other| other != PARTLY) {
            looper.store(SEVERAL, Ordering::Release);
        }
        other.is_none()
    }

    /// The program's side: what was given at once did not come whole, and nothing is to be given so any more.
    pub fn came_partly(&self) {
        self.u32_at(LOOPER).store(PARTLY, Ordering::Release);
    }

    /// True if what was given at once did not come whole.
    pub fn has_come_partly(&self) -> bool {
        self.u32_at(LOOPER).load(Ordering::Acquire) == PARTLY
    }

    /// True if this thread has taken all input so far.
    pub fn is_looper(&self, thread: u32) -> bool {
        self.u32_at(LOOPER).load(Ordering::Acquire) == thread
    }

    /// True if there are several threads that take input.
    pub fn has_several(&self) -> bool {
        self.u32_at(LOOPER).load(Ordering::Acquire) == SEVERAL
    }

    /// The program's side: the loop reads the connection from that port; or not any more.
    pub fn set_looped(&self, port: u16, looped: bool) {
        if looped {
            self.taken_at(port).fetch_or(LOOPED, Ordering::Release);
        } else {
            self.taken_at(port).fetch_and(!LOOPED, Ordering::Release);
        }
    }

    /// The front's side: gives requests at once: writes them by `write`, and the program looks at none before all of
    /// them are written. Each is a port, and how many bytes there are then of that connection, all in all. False if
    /// the program has been stopped in a look, which would find some of them: nothing is given then.
    #[must_use]
    pub fn give_at_once(&self, requests: &[(u16, u64)], write: impl FnOnce()) -> bool {
        self.u32_at(FILLING).store(1, Ordering::SeqCst);
        let begun = Instant::now();
        while self.u32_at(LOOKING).load(Ordering::SeqCst) != 0 {
            if begun.elapsed() >= STEP {
                let gone = |processes: Vec<u32>| processes.iter().all(|own| is_gone((*own).into()));
                if self.processes().is_some_and(gone) {
                    break;
                }
                self.u32_at(FILLING).store(0, Ordering::SeqCst);
                self.wake(FILLING);
                return false;
            }
            std::thread::yield_now();
        }
        let count = requests.len().min(MOST_AT_ONCE);
        self.u64_at(AT_ONCE).store(count as u64, Ordering::Relaxed);
        for (n, (port, target)) in requests.iter().take(count).enumerate() {
            let word = (u64::from(*port) << 48) | (target & TARGET);
            self.u64_at(AT_ONCE + 8 + n * 8).store(word, Ordering::Relaxed);
        }
        self.u32_at(SERIAL).fetch_add(1, Ordering::AcqRel);
        write();
        self.u32_at(FILLING).store(0, Ordering::SeqCst);
        self.wake(FILLING);
        true
    }

    /// Number of times that requests were given at once.
    pub fn serial(&self) -> u32 {
        self.u32_at(SERIAL).load(Ordering::Acquire)
    }

    /// The requests that were given at once last, in their order: port, and how many bytes there are then.
    pub fn at_once(&self) -> impl Iterator<Item = (u16, u64)> {
        let count = self.u64_at(AT_ONCE).load(Ordering::Relaxed).min(MOST_AT_ONCE as u64) as usize;
        (0..count).map(|n| {
            let word = self.u64_at(AT_ONCE + 8 + n * 8).load(Ordering::Relaxed);
            ((word >> 48) as u16, word & TARGET)
        })
    }

    /// The program's side: its looper looks by `look` which connections have input, while the front gives nothing. A
    /// front that is stopped in the middle of that is waited for as long as it lives.
    pub fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let (filling, looking) = (self.u32_at(FILLING), self.u32_at(LOOKING));
        looking.store(1, Ordering::SeqCst);
        while filling.load(Ordering::SeqCst) != 0 {
            looking.store(0, Ordering::SeqCst);
            self.wait(FILLING, 1, Duration::from_millis(100));
            if is_gone(self.u64_at(96).load(Ordering::Relaxed)) {
                break;
            }
            looking.store(1, Ordering::SeqCst);
        }
        let found = look();
        looking.store(0, Ordering::SeqCst);
        found
    }

    /// The front's side: nobody loops or looks, and nothing was given.
    pub(super) fn forget_loop(&self) {
        for at in [LOOKING, LOOPER] {
            self.u32_at(at).store(0, Ordering::Release);
        }
        self.u64_at(AT_ONCE).store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::super::CLOCK;
    use super::super::tests::path;
    use super::*;

    #[test]
    fn one_thread_takes_all_or_several_do() {
        let path = path("looper");
        let front = Page::create(&path, CLOCK | LOOP).unwrap();
        let program = Page::open(&path).unwrap();
        assert!(program.is_loop() && !program.is_looper(7));
        assert!(program.loops(7) && program.loops(7) && program.is_looper(7));
        assert!(!front.has_several() && !program.loops(8));
        assert!(front.has_several() && !program.loops(7) && !program.is_looper(7));
        front.forget_program();
        assert!(!front.has_several() && program.loops(8));
        program.came_partly();
        assert!(front.has_come_partly() && !program.loops(8) && !program.is_looper(8));
        assert!(front.has_come_partly(), "the reason stays");
        front.forget_program();
        assert!(!front.has_come_partly() && program.loops(8));
        program.took(9, 5);
        program.set_looped(9, true);
        program.set_looped(9, false);
        assert_eq!((front.taken(9).bytes, front.taken(9).looped), (5, false));
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    /// Whoever looks meets all that is given at once, or nothing of it.
    #[test]
    fn who_looks_sees_all_or_nothing() {
        let path = path("at-once");
        let front = Page::create(&path, LOOP).unwrap();
        let program = Page::open(&path).unwrap();
        let written = [const { AtomicU64::new(0) }; 8];
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut last = 0;
                while last < 2000 {
                    let (serial, seen) = program.look(|| {
                        let seen = written.each_ref().map(|at| at.load(Ordering::Relaxed));
                        (u64::from(program.serial()), seen)
                    });
                    assert_eq!(seen, [serial; 8]);
                    let given: Vec<_> = program.at_once().collect();
                    assert!(serial == 0 || given.len() == 8, "{given:?}");
                    last = serial;
                }
            });
            for round in 1..=2000 {
                let requests: Vec<_> = (0..8).map(|n| (65528 + n, round)).collect();
                assert!(front.give_at_once(&requests, || {
                    written.iter().for_each(|at| at.store(round, Ordering::Relaxed));
                }));
            }
            looks.join().unwrap();
        });
        assert_eq!(program.at_once().last(), Some((65535, 2000)));
        // One that was killed while it looked holds up nothing for long.
        program.u32_at(LOOKING).store(1, Ordering::SeqCst);
        assert!(front.give_at_once(&[], || ()));
        assert_eq!(program.at_once().count(), 0);
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    #[test]
    fn a_program_that_is_stopped_in_a_look_is_given_nothing() {
        let path = path("stopped");
        let front = Page::create(&path, LOOP).unwrap();
        let program = Page::open(&path).unwrap();
        program.attached(std::process::id());
        let gave = program.look(|| front.give_at_once(&[(1, 2)], || panic!("it looks")));
        assert!(!gave && program.at_once().count() == 0 && program.serial() == 0);
        assert!(front.give_at_once(&[(1, 2)], || ()));
        // A new program is to start while the old one looks.
        program.look(|| front.forget_program());
        assert_eq!((front.u32_at(LOOKING).load(Ordering::SeqCst), front.at_once().count()), (0, 0));
        program.attached(std::process::id());
        assert!(front.give_at_once(&[], || ()));
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }

    /// A front that is stopped for longer than any patience while it gives: nobody sees a half of it.
    #[test]
    fn who_looks_waits_for_a_front_that_is_stopped() {
        let path = path("slow");
        let front = Page::create(&path, LOOP).unwrap();
        let program = Page::open(&path).unwrap();
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (begins, begun) = std::sync::mpsc::channel();
            let (program, written) = (&program, &written);
            let looks = scope.spawn(move || {
                begun.recv().unwrap();
                program.look(|| written.load(Ordering::Relaxed))
            });
            assert!(front.give_at_once(&[], || {
                written.store(1, Ordering::Relaxed);
                begins.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(2500));
                written.store(2, Ordering::Relaxed);
            }));
            assert_eq!(looks.join().unwrap(), 2);
        });
        std::fs::remove_file(path.to_str().unwrap()).unwrap();
    }
}
