//! Writers that are killed and stopped at random moments, and readers that must not notice; readers that are stopped,
//! which nobody must notice.
//!
//! The writer is this very program, started again with a role in its environment: a tight loop of
//! publishing, so that nearly every moment is the middle of an update.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Scratch, derived, skipped};
use truechimer_timehands::{PageError, PageReader, PageWriter};

const ROLE: &str = "TIMEHANDS_TEST_ROLE";
const PAGE: &str = "TIMEHANDS_TEST_PAGE";

/// Number of times that a writer is killed or stopped, or a reader stopped.
const ROUNDS: u64 = 60;
/// Hands that are published while a reader stands still: laps of the ring.
const MISSED: u64 = 100;
/// The last hand of a writer whose reader is stopped, after the first.
const LAST: u64 = 1 + ROUNDS * MISSED;

/// Plays the role of a started-again program. As an ordinary test it does nothing.
#[test]
fn role() {
    let Ok(role) = env::var(ROLE) else { return };
    let path = PathBuf::from(env::var_os(PAGE).unwrap());
    match role.as_str() {
        "write" => write(&path),
        "read" => {
            let reader = PageReader::open(&path).unwrap();
            let mut last = 0;
            for _ in 0..200_000 {
                last = read(&reader, last);
            }
        }
        "follow" => {
            let reader = PageReader::open(&path).unwrap();
            let mut last = 0;
            while last < LAST {
                last = read(&reader, last);
            }
        }
        "create" => {
            // SAFETY: it only changes this process's mask.
            unsafe { libc::umask(0o777) };
            PageWriter::create(&path).unwrap();
        }
        role => panic!("no role '{role}'"),
    }
}

/// Publishes until killed.
fn write(path: &Path) {
    let mut writer = PageWriter::create(path).unwrap();
    let mut generation = writer.last_hand().map_or(0, |(hand, _)| hand.base.0);
    loop {
        generation += 1;
        let (hand, made) = derived(generation);
        assert_eq!(writer.publish(&hand, &made), generation);
    }
}

/// Reads once: whole, and not older than `last`. Returns its generation.
fn read(reader: &PageReader, last: u64) -> u64 {
    let (generation, hand, made) = reader.newest().unwrap().unwrap();
    assert_eq!((hand, made), derived(generation));
    assert!(generation >= last, "{generation} after {last}");
    generation
}

/// This program in another role.
fn command(program: &Path, role: &str, path: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", "role", "--nocapture"]).env(ROLE, role).env(PAGE, path);
    command.stdout(Stdio::null());
    command
}

/// A process that is killed with the test.
struct Killed(Child);

impl Killed {
    fn start(role: &str, path: &Path) -> Killed {
        Killed(command(&env::current_exe().unwrap(), role, path).spawn().unwrap())
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: it is our child and was not waited for: the number is still its own.
        assert_eq!(unsafe { libc::kill(self.0.id() as libc::pid_t, signal) }, 0);
    }

    /// True while it has this file mapped, by `/proc`.
    fn maps(&self, path: &Path) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.id())).unwrap();
        maps.lines().any(|line| line.ends_with(path.to_str().unwrap()))
    }

    /// True while all of it stands still, by `/proc`.
    fn stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
        })
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `condition`, for a minute at most.
fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Pseudo-random numbers (xorshift), the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn readers_never_notice_what_becomes_of_the_writer() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    drop(PageWriter::create(&path).unwrap());
    let page = PageReader::open(&path).unwrap();
    let generation = || page.ring().generation();
    let mut random = Random(0x5eed);
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));

    thread::scope(|scope| {
        let mut writer = Killed::start("write", &path);
        until("the first hand", || generation() > 0);
        for _ in 0..2 {
            scope.spawn(|| {
                // The mapping outlives every writer.
                let reader = PageReader::open(&path).unwrap();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    last = read(&reader, last);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut another = Killed::start("read", &path);

        for round in 0..ROUNDS {
            let before = generation();
            until("a hand of this writer", || generation() > before);
            thread::sleep(Duration::from_micros(random.below(3000)));
            if round % 2 == 0 {
                writer.signal(libc::SIGSTOP);
                until("the writer to stop", || writer.stopped());
                at_first_look(&page);
                assert!(matches!(PageWriter::create(&path), Err(PageError::Locked { .. })));
                let before = generation();
                if round % 4 == 0 {
                    writer.signal(libc::SIGCONT);
                    until("the writer to go on", || generation() > before);
                }
            }
            let before = read(&page, 0);
            drop(writer);
            at_first_look(&page);
            read(&page, before);
            writer = Killed::start("write", &path);
        }

        drop(writer);
        assert!(another.0.wait().unwrap().success(), "the reading process");
        done.store(true, Ordering::Relaxed);
    });
    let (reads, hands) = (reads.into_inner(), generation());
    println!("{hands} hands by {ROUNDS} writers, {reads} reads by threads beside another process");
    assert!(reads > 10_000 && hands > 10_000, "{reads} reads of {hands} hands");
}

/// With the writer standing still, wherever it does, the newest hand is there at the first look.
fn at_first_look(page: &PageReader) {
    for _ in 0..3 {
        let look = page.ring().look().unwrap();
        assert!(look.held());
        assert_eq!(read(page, look.generation()), look.generation());
    }
}

#[test]
fn a_reader_that_is_stopped_in_the_middle_holds_up_nobody() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let mut writer = PageWriter::create(&path).unwrap();
    let mut publish = |generation| {
        let (hand, made) = derived(generation);
        assert_eq!(writer.publish(&hand, &made), generation);
    };
    publish(1);
    let page = PageReader::open(&path).unwrap();
    let mut random = Random(0x5eed);
    let mut reader = Killed::start("follow", &path);
    until("the reader to begin", || reader.maps(&path));
    for round in 0..ROUNDS {
        thread::sleep(Duration::from_micros(random.below(3000)));
        reader.signal(libc::SIGSTOP);
        until("the reader to stop", || reader.stopped());
        // What it was reading is overwritten, and another reader has each hand at once.
        for n in 0..MISSED {
            let generation = 2 + round * MISSED + n;
            publish(generation);
            assert_eq!(read(&page, generation), generation);
        }
        at_first_look(&page);
        reader.signal(libc::SIGCONT);
    }
    assert!(reader.0.wait().unwrap().success(), "the reader goes on and sees none but whole hands");
}

#[test]
fn a_reader_needs_no_privilege() {
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    let (hand, made) = derived(1);
    PageWriter::create(&path).unwrap().publish(&hand, &made);
    // SAFETY: it only asks.
    if unsafe { libc::geteuid() } != 0 {
        skipped("a_reader_needs_no_privilege: only root can become somebody else");
        return;
    }
    // A copy, for the build directory may be closed to others.
    let program = scratch.join("program");
    // Not by our own hand: a process that another test starts meanwhile would hold it open.
    let copied = Command::new("cp").arg(env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let nobody = 65534;
    let status = command(&program, "read", &path).uid(nobody).gid(nobody).status().unwrap();
    assert!(status.success());
    // And it cannot write.
    let mut writer = command(&program, "write", &path);
    let status = writer.uid(nobody).gid(nobody).stderr(Stdio::null()).status().unwrap();
    assert!(!status.success());
    assert_eq!(PageReader::open(&path).unwrap().read(), Some((hand, made)));
}

#[test]
fn the_umask_does_not_hide_the_page() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let path = scratch.join("clock");
    assert!(command(&env::current_exe().unwrap(), "create", &path).status().unwrap().success());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
}
