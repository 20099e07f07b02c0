//! One trial: a program captures, frames are sent, and what the file holds is counted.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use truechimer_pcapng::{Frame, Frames};
use truechimer_testbed::process::{Process, Signal};

use crate::bench::capture::bed::Bed;
use crate::bench::capture::frame::marked;
use crate::bench::capture::generator::{Order, Sent, Source};
use crate::bench::capture::peers::Tool;
use truechimer_outcome::outcome::Failure;

/// Time that a program has to start, or to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// A file that has not grown for so long, while its writer had little to do, will not grow.
const QUIET: Duration = Duration::from_millis(300);
/// Frames sent afterwards, so that the last of those that count are in no block that still fills.
const FILLERS: u32 = 6000;
const FILLER_RATE: f64 = 400e3;
/// Where files are memory.
const MEMORY: &str = "/dev/shm";
/// Beginning of their names; the number of the process that made them follows.
const PREFIX: &str = "truechimer-bench-";
/// Bytes read at a time.
const BUFFER: usize = 1 << 20;
/// The number of the run that the fillers are of.
const FILLER_RUN: u32 = u32::MAX;

/// A file in memory that loses its name as soon as somebody has opened it, and so is gone with its
/// users, however they end.
#[derive(Debug)]
pub struct Spool {
    file: File,
    path: PathBuf,
}

impl Spool {
    /// An empty one.
    ///
    /// # Errors
    /// Where there is no memory to be had.
    pub fn new() -> Result<Spool, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = format!("{MEMORY}/{PREFIX}{}-{n}", std::process::id());
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| Failure::of(format!("a file in memory, {path}"), error))?;
        Ok(Spool { file, path: path.into() })
    }

    /// Takes its name away: those who have it open go on with it.
    pub fn hide(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Path by which others open it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |data| data.len())
    }

    /// Calls `each` with one captured frame after the other. A file without a single byte has
    /// none; one that ends in the midst of a frame ends with the one before.
    ///
    /// # Errors
    /// Where it cannot be read, or is no capture.
    pub fn frames(&mut self, mut each: impl FnMut(&Frame<'_>)) -> Result<(), Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::of("reading what was captured", error);
        if self.length() == 0 {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(0)).map_err(|error| failed(&error))?;
        let input = BufReader::with_capacity(BUFFER, &self.file);
        let mut frames = Frames::new(input).map_err(|error| failed(&error))?;
        while let Some(frame) = frames.next_frame().map_err(|error| failed(&error))? {
            each(&frame);
        }
        Ok(())
    }
}

/// Removes the files of earlier runs that were killed before they could.
fn tidy() {
    let Ok(files) = std::fs::read_dir(MEMORY) else { return };
    for file in files.flatten() {
        let name = file.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let owner = owner.and_then(|(pid, _)| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Which processors do what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// The generator, and with it all that the kernel does with its frames.
    pub generator: String,
    /// The program that captures; `None`: wherever the scheduler likes.
    pub tool: Option<String>,
}

impl Places {
    /// The first processor for the generator, the others for the program.
    #[must_use]
    pub fn split() -> Places {
        let cpus = truechimer_counter::online_cpus().unwrap_or_default();
        let names: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        match names.split_first() {
            Some((first, others)) if !others.is_empty() => {
                Places { generator: first.clone(), tool: Some(others.join(",")) }
            }
            _ => Places { generator: "0".to_owned(), tool: None },
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.tool {
            Some(tool) => format!(
                "The generator, and with it the kernel's receive path, has processor {}; the \
                 program that captures has {tool}.",
                self.generator
            ),
            None => format!(
                "The generator, and with it the kernel's receive path, has processor {}; the \
                 program that captures runs where the scheduler puts it.",
                self.generator
            ),
        }
    }
}

/// One frame of ours as it was found in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Number of the frame.
    pub number: u64,
    /// When it was captured, Unix ns.
    pub time_ns: i64,
    /// When it was sent, `CLOCK_MONOTONIC`, ns.
    pub sent_ns: u64,
}

/// Result of a trial.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Result of sending.
    pub sent: Sent,
    /// Number of these that are in the file.
    pub captured: u64,
    /// Number of those that came after one with a higher number, or twice.
    pub disordered: u64,
    /// Loss by the program's own account.
    pub own_word: Option<u64>,
    /// The processor time of each of its threads, by name, s.
    pub threads: Vec<(String, f64)>,
    /// The frames, if that was wanted.
    pub found: Vec<Found>,
    /// Output of the program.
    pub said: String,
}

impl Trial {
    /// The share that was lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - self.captured as f64 / (self.sent.frames as f64).max(1.0)
    }

    /// Number of frames that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.frames.saturating_sub(self.captured)
    }
}

/// All that a trial needs but the tool and the frames.
#[derive(Debug)]
pub struct Stage {
    /// The wire.
    pub bed: Bed,
    /// Which processors do what.
    pub places: Places,
    /// The command `truechimer`.
    pub truechimer: PathBuf,
    /// The number of the next run.
    run: std::cell::Cell<u32>,
}

impl Stage {
    /// With a wire of its own.
    ///
    /// # Errors
    /// Where that cannot be made.
    pub fn new(queues: u32, truechimer: &Path) -> Result<Stage, Failure> {
        tidy();
        let places = Places::split();
        let run = std::cell::Cell::new(1);
        Ok(Stage { bed: Bed::new(queues)?, places, truechimer: truechimer.to_owned(), run })
    }

    /// Lets the tool capture what the order sends. `keep`: the frames found are in the result.
    ///
    /// # Errors
    /// Where the tool does not run, or its file cannot be read.
    pub fn trial(&self, tool: &Tool, order: &Order, keep: bool) -> Result<Trial, Failure> {
        let mut spool = Spool::new()?;
        let log = Spool::new()?;
        let file = spool.path().to_string_lossy().into_owned();
        let command =
            tool.command(self.bed.receiver(), self.places.tool.as_deref(), &self.truechimer, &file);
        let mut process = Process::start_session(command, log.path());
        let program = self.ready(tool, &mut process)?;
        spool.hide();
        let before = threads(process.pid());
        let run = self.run.get();
        self.run.set(run.wrapping_add(1));
        let program = if order.source == Source::Driver { program } else { 0 };
        let order = Order { run, program, ..order.clone() };
        let sent = order.send(&self.bed, &self.places.generator)?;
        let (timed, run, frames) = (false, FILLER_RUN, FILLERS);
        let fillers = Order { run, frames, timed, ..order.clone() }.at(FILLER_RATE);
        fillers.send(&self.bed, &self.places.generator)?;
        settle(&spool, &process);
        let threads = since(&before, threads(process.pid()));
        process.signal(Signal::Term);
        let ended = process.wait(PATIENCE);
        let said = process.output();
        if ended.is_none() {
            return Err(Failure::of(tool.name, format!("does not end\n{said}")));
        }
        let (mut captured, mut disordered, mut next, mut found) = (0, 0, 0, Vec::new());
        let failed = |error| Failure::of(tool.name, format!("{error}\n{said}"));
        spool
            .frames(|frame| {
                let Some(mark) = marked(frame.data).filter(|mark| mark.run == order.run) else {
                    return;
                };
                if mark.number < next {
                    disordered += 1;
                } else {
                    next = mark.number + 1;
                }
                captured += 1;
                if keep {
                    let time_ns = frame.unix_ns.unwrap_or(0);
                    found.push(Found { number: mark.number, time_ns, sent_ns: mark.sent_ns });
                }
            })
            .map_err(failed)?;
        let own_word = tool.own_word(&said);
        Ok(Trial { sent, captured, disordered, own_word, threads, found, said })
    }

    /// Waits until the tool captures; its XDP program's number, or 0.
    fn ready(&self, tool: &Tool, process: &mut Process) -> Result<u32, Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            if !process.is_running() {
                return Err(Failure::of(tool.name, format!("has ended\n{}", process.output())));
            }
            let said = process.output();
            if tool.xdp && said.contains("TPACKET") {
                return Err(Failure::of(tool.name, "captures by packet sockets instead"));
            }
            if said.contains(tool.greeting()) {
                let program = if tool.xdp { self.bed.xdp_program()? } else { Some(0) };
                if let Some(program) = program {
                    // It may still be setting up what comes after that.
                    std::thread::sleep(Duration::from_millis(150));
                    return Ok(program);
                }
            }
            if Instant::now() >= end {
                return Err(Failure::of(
                    tool.name,
                    format!("does not start\n{}", process.output()),
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until the file has stopped growing.
fn settle(spool: &Spool, process: &Process) {
    let end = Instant::now() + PATIENCE;
    let busy = |before: f64, now: f64, over: Duration| now - before > over.as_secs_f64() * 0.2;
    let total = || threads(process.pid()).iter().map(|(_, seconds)| seconds).sum::<f64>();
    let (mut length, mut used, mut since) = (spool.length(), total(), Instant::now());
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        if spool.length() != length || busy(used, total(), since.elapsed()) {
            (length, used, since) = (spool.length(), total(), Instant::now());
        } else if since.elapsed() > QUIET {
            return;
        }
    }
}

/// Processor time that each thread has used since `before`, s.
fn since(before: &[(String, f64)], now: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let earlier = |name: &str| before.iter().find(|(known, _)| known == name).map_or(0.0, |b| b.1);
    now.into_iter().map(|(name, used)| (name.clone(), used - earlier(&name))).collect()
}

/// The processor time of each of a process's threads, s.
fn threads(pid: u32) -> Vec<(String, f64)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let mut all: Vec<(String, f64)> = tasks
        .flatten()
        .filter_map(|task| {
            let name = read(task.path().join("comm")).trim().to_owned();
            let ns: f64 =
                read(task.path().join("schedstat")).split_whitespace().next()?.parse().ok()?;
            Some((name, ns * 1e-9))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn spool(bytes: &[u8]) -> Spool {
        let spool = Spool::new().unwrap();
        let mut file = File::options().write(true).truncate(true).open(spool.path()).unwrap();
        spool.hide();
        file.write_all(bytes).unwrap();
        assert_eq!(spool.length(), bytes.len() as u64);
        spool
    }

    #[test]
    fn a_spool_is_written_by_name_and_read_back() {
        let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 96, 1, 5, 6, 3, 90];
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut seen = Vec::new();
        let mut whole = spool(&[head.clone(), vec![7, 8, 9]].concat());
        whole.frames(|frame| seen.push((frame.unix_ns, frame.data.to_vec()))).unwrap();
        assert_eq!(seen, [(Some(5_000_006_000), vec![7, 8, 9])]);
        spool(&head).frames(|_| panic!("it is cut off")).unwrap();
        spool(&[]).frames(|_| panic!("there is none")).unwrap();
        assert!(spool(b"no capture at all").frames(|_| {}).is_err());
    }

    #[test]
    fn only_files_of_the_dead_are_tidied_away() {
        let (ours, dead) = (Spool::new().unwrap(), format!("{MEMORY}/{PREFIX}4294967295-0"));
        File::create(&dead).unwrap();
        tidy();
        assert!(ours.path().exists() && !Path::new(&dead).exists());
    }

    #[test]
    fn our_own_threads_have_used_time() {
        assert!(threads(std::process::id()).iter().any(|(_, seconds)| *seconds > 0.0));
    }
}
