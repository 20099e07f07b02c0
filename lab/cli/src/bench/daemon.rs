//! `truechimer-lab bench daemon`: what the daemon uses.

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use truechimer::{Rate, Span, Status};
use truechimer_serve::{DEFAULT_STRATUM, ServedClock, Server};

use crate::bench::usage::{Memory, memory, processor_time, wake_ups};
use clap::Args;
use truechimer_command::clock;
use truechimer_command::scratch::Scratch;
use truechimer_command::show::json;
use truechimer_command::signals;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer-lab bench daemon`.
#[derive(Args, Debug)]
#[command(after_help = "\
Starts 'truechimer run' against a server of our own on loopback, waits for it to synchronise and
settle into its poll interval, and then reads /proc for the given time. No goal is set: what it
says is said with the conditions it holds for.

Exit status: 0, or 2 on an error.")]
pub struct BenchDaemon {
    /// Time to measure
    #[arg(long, value_name = "S", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
    /// Seconds between requests to the server, 1 to 1024
    #[arg(long, value_name = "S", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub poll: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Length of the start-up burst, after which the daemon is in its regular poll interval.
const SETTLE: Duration = Duration::from_secs(20);
/// Time that the daemon has to synchronise.
const SYNC: Duration = Duration::from_secs(20);
/// Between looks at whether to end early.
const STEP: Duration = Duration::from_millis(100);

/// Figures as measured.
#[derive(Serialize)]
struct Usage {
    seconds: f64,
    poll_s: u32,
    servers: u32,
    counter: &'static str,
    /// Kind of build: release or debug.
    build: &'static str,
    processors: usize,
    /// Runnable processes of the whole machine, average of the last minute, before and after.
    load: [Option<f64>; 2],
    resident_kib: u64,
    anonymous_kib: u64,
    file_kib: u64,
    shared_kib: u64,
    peak_resident_kib: u64,
    wake_ups_per_second: f64,
    processor_ns: u64,
    processor_percent: f64,
}

/// Runs the command.
pub fn run(args: &BenchDaemon, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    let scratch = Scratch::new().map_err(|why| Failure::new("cannot make a directory", why))?;
    let page = scratch.path().join("clock");
    let server = ServedClock::starting_now(Span::ZERO, Rate::ZERO)
        .map_err(io::Error::other)
        .and_then(|served| {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            Server::bind(listen, served, DEFAULT_STRATUM)?.start()
        })
        .map_err(|why| Failure::new("cannot start the server on loopback", why))?;
    let daemon = Daemon::start(scratch.path(), &page, server.address(), args.poll)
        .map_err(|why| Failure::new("cannot start the daemon", why))?;
    if !args.json {
        let whole = SETTLE.as_secs() + u64::from(args.seconds);
        writeln!(io::stderr(), "this takes {whole} s")?;
    }
    let clock = clock::open_within(&page, SYNC)?;
    clock.wait_synchronised(None, SYNC).map_err(|why| Failure::new("the daemon", why))?;
    sleep(SETTLE, &stop)?;
    let measured = daemon.measure(Duration::from_secs(args.seconds.into()), &stop)?;
    if clock.status() != Ok(Status::Synchronised) {
        return Err(Failure::new("the daemon", "it did not stay synchronised"));
    }
    let counter = clock.view().map_err(clock::unreadable)?.hand.counter.kind.name();
    let usage = Usage::of(&measured, args.poll, counter);
    if args.json {
        writeln!(out, "{}", json(&usage)?)?;
    } else {
        usage.write(out)?;
    }
    Ok(Outcome::Good)
}

/// A daemon in a process of its own; ends when dropped.
pub struct Daemon(Child);

impl Daemon {
    /// Starts one that asks `server` every `poll` seconds; its files go to `dir`.
    pub fn start(dir: &Path, page: &Path, server: SocketAddr, poll: u32) -> io::Result<Daemon> {
        let config = dir.join("truechimer.toml");
        // Nothing comes from outside and nothing is left behind.
        fs::write(&config, "state = \"none\"\nleap-file = \"none\"\n")?;
        let child = Command::new(super::truechimer()?)
            .args(["run", "--server", &server.to_string(), "--poll", &poll.to_string()])
            .arg("--config")
            .arg(config)
            .arg("--page")
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Daemon(child))
    }

    fn measure(&self, time: Duration, stop: &AtomicBool) -> Result<Measured, Failure> {
        let failed = |why| Failure::new("/proc", why);
        let pid = self.0.id();
        let load = load();
        let (begun, before) = (Instant::now(), processor_time(pid).map_err(failed)?);
        let wakes = wake_ups(pid).map_err(failed)?;
        sleep(time, stop)?;
        let after = processor_time(pid).map_err(failed)?;
        Ok(Measured {
            elapsed: begun.elapsed(),
            processor: after.saturating_sub(before),
            wake_ups: wake_ups(pid).map_err(failed)?.saturating_sub(wakes),
            load: [load, self::load()],
            memory: memory(pid).map_err(failed)?,
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Measured {
    elapsed: Duration,
    processor: Duration,
    wake_ups: u64,
    load: [Option<f64>; 2],
    memory: Memory,
}

/// Runnable processes, average of the last minute.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

impl Usage {
    fn of(measured: &Measured, poll_s: u32, counter: &'static str) -> Usage {
        let seconds = measured.elapsed.as_secs_f64();
        let Memory { resident_kib, anonymous_kib, file_kib, shared_kib, peak_kib } =
            measured.memory;
        Usage {
            seconds,
            poll_s,
            servers: 1,
            counter,
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            processors: thread::available_parallelism().map_or(1, usize::from),
            load: measured.load,
            resident_kib,
            anonymous_kib,
            file_kib,
            shared_kib,
            peak_resident_kib: peak_kib,
            wake_ups_per_second: measured.wake_ups as f64 / seconds,
            processor_ns: u64::try_from(measured.processor.as_nanos()).unwrap_or(u64::MAX),
            processor_percent: measured.processor.as_secs_f64() / seconds * 100.0,
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mib = |kib: u64| kib as f64 / 1024.0;
        let load = |load: Option<f64>| load.map_or("unknown".into(), |load| format!("{load:.2}"));
        writeln!(
            out,
            "the daemon for {:.0} s: {} server on loopback, asked every {} s; counter {}; no state,\n\
             no replay log, no steering; {} build; {} processors, load {} before and {} after",
            self.seconds,
            self.servers,
            self.poll_s,
            self.counter,
            self.build,
            self.processors,
            load(self.load[0]),
            load(self.load[1]),
        )?;
        writeln!(
            out,
            "memory of its own  {:.1} MiB (heap, stack, data)",
            mib(self.anonymous_kib + self.shared_kib)
        )?;
        writeln!(
            out,
            "resident in all    {:.1} MiB, at most {:.1}: with {:.1} MiB of files, which is of its program\n\
             {:19}and libraries what the kernel had in memory anyway; it shares them and\n\
             {:19}takes them back, so that this differs from run to run",
            mib(self.resident_kib),
            mib(self.peak_resident_kib),
            mib(self.file_kib),
            "",
            "",
        )?;
        let wakes = self.wake_ups_per_second * self.seconds;
        writeln!(
            out,
            "processor          {:.4} % of a core: {:.1} ms, {:.2} wake-ups a second, {:.0} µs each; more\n\
             {:19}where others' work has emptied the caches meanwhile",
            self.processor_percent,
            self.processor_ns as f64 / 1e6,
            self.wake_ups_per_second,
            self.processor_ns as f64 / 1e3 / wakes.max(1.0),
            "",
        )
    }
}

/// Sleeps, unless told to stop.
fn sleep(time: Duration, stop: &AtomicBool) -> Result<(), Failure> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Said("interrupted: nothing was measured".into()));
        }
        thread::sleep(STEP.min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}
