//! `truechimer demo`: a server of our own, a daemon that follows it, and a reader that knows the
//! truth.

mod report;
mod screen;
mod tally;
mod truth;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use truechimer::{Clock, ReadError};
use truechimer_counter::Counter;
use truechimer_daemon::{DaemonError, Level, Options, SourceReport, control};
use truechimer_serve::{DEFAULT_STRATUM, Running, ServedClock, Server};

use crate::{run, serve};
use clap::Args;
use report::Record;
use screen::{End, Line};
use tally::{Sample, Tally};
use truechimer_command::output::ready;
use truechimer_command::scratch::Scratch;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{clock, show, signals};
use truechimer_counter::Choice;
use truechimer_time::{Rate, Span};
use truth::Truth;

/// Options of `truechimer demo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Runs an NTP server on loopback, a daemon that follows it with real UDP packets and kernel stamps,
and a reader that compares the clock with the truth twenty times a second: it reads the counter,
then the server's clock, then the counter again. Nothing on the machine is changed.

Examples:
  truechimer demo
  truechimer demo --seconds 20 --offset -3s --skew-ppm -100
  truechimer demo --seconds 300 --report demo.html

Exit status: 0 the clock synchronised and every reading since was within its bound, 1 it did not,
2 error.")]
pub struct Demo {
    /// Time to watch
    #[arg(long, value_name = "S", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(3..=86_400))]
    pub seconds: u32,
    /// Offset of the server's time from the system clock at the start (positive: ahead)
    #[arg(long, value_name = "SPAN", default_value = "1.5s", allow_hyphen_values = true)]
    pub offset: Span,
    /// Rate at which the server's time gains on the system clock
    #[arg(long, value_name = "PPM", default_value = "37", allow_hyphen_values = true)]
    pub skew_ppm: Rate,
    /// Seconds between requests to the server, 1 to 1024
    #[arg(long, value_name = "S", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub poll: u32,
    /// The counter to read: auto, tsc, tsc-fenced, arm-generic, raw, hpet, acpi-pm, acpi-pm-safe
    #[arg(long, value_name = "NAME", default_value = "auto")]
    #[arg(value_parser = run::counter(), hide_possible_values = true)]
    pub counter: Choice,
    /// Print JSON lines: one object a second, and the summary
    #[arg(long)]
    pub json: bool,
    /// Write a report to FILE: one HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Show what the daemon says
    #[arg(short, long)]
    pub verbose: bool,
}

/// Between readings.
const STEP: Duration = Duration::from_millis(50);
/// Between lines.
const LINE: Duration = Duration::from_secs(1);
/// Time that the daemon has to answer; it does so at once.
const ANSWER: Duration = Duration::from_millis(500);
/// Time that the daemon has to make its page, having looked at its counter first.
const START: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(args: &Demo, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    if let Some(path) = &args.report {
        ready(path)?;
    }
    let scratch = Scratch::new().map_err(|why| Failure::new("cannot make a directory", why))?;
    let page = scratch.path().join("clock");
    let server = start_server(args)?;
    let begun = Instant::now();
    let log = args.report.is_some().then(|| scratch.path().join("replay.log"));
    let mut daemon = Daemon::start(args, &page, log.as_deref(), server.address())?;
    if !args.json {
        introduce(args, &server, out)?;
    }
    let mut watch = match Watch::new(args, &page, server.clock()) {
        Ok(watch) => watch,
        // If there is no clock because the daemon could not start, that is what to say.
        Err(why) => return daemon.check().and(Err(why)),
    };
    let end = begun + Duration::from_secs(args.seconds.into());
    let mut next_line = begun + LINE;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        thread::sleep(STEP);
        daemon.check()?;
        watch.look(begun.elapsed())?;
        if Instant::now() >= next_line {
            next_line += LINE;
            watch.write_line(begun.elapsed(), out)?;
        }
    }
    let ended = watch.end(out)?;
    if let (Some(path), Some(log)) = (&args.report, log) {
        // Its log is complete once it has ended.
        drop(daemon);
        watch.record.write(path, &log, parameters(args))?;
    }
    Ok(ended)
}

fn parameters(args: &Demo) -> Vec<(String, String)> {
    let all = [
        ("server − system clock at the start", format!("{:+}", args.offset)),
        ("server gains on it", format!("{:+}", args.skew_ppm)),
        ("poll", format!("{} s", args.poll)),
        ("watched", format!("{} s", args.seconds)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn start_server(args: &Demo) -> Result<Running, Failure> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Server::bind(listen, serve::clock(args.offset, args.skew_ppm)?, DEFAULT_STRATUM)
        .and_then(Server::start)
        .map_err(|why| Failure::new("cannot start the server on loopback", why))
}

fn introduce(args: &Demo, server: &Running, out: &mut dyn Write) -> std::io::Result<()> {
    let clock = server.clock();
    writeln!(
        out,
        "A server on {} serves the system clock {:+}, gaining {} on it.\n\
         A daemon asks it for the time by NTP every {} s and publishes what it makes of that;\n\
         this program reads the published clock as any other would and compares it with the\n\
         server's own: true error = clock - server. Ends after {} s.\n",
        server.address(),
        clock.offset,
        clock.skew,
        args.poll,
        args.seconds,
    )?;
    screen::header(out)
}

/// The daemon on a thread of this process; ends when dropped.
struct Daemon {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), DaemonError>>>,
}

impl Daemon {
    fn start(
        args: &Demo,
        page: &Path,
        log: Option<&Path>,
        server: SocketAddr,
    ) -> Result<Daemon, Failure> {
        let none = || Some("none".into());
        // Its server's time may be as far off the real-time clock as the user likes.
        let config = page.with_extension("toml");
        std::fs::write(&config, "max-step = \"none\"\n")
            .map_err(|why| Failure::new("cannot write the configuration", why))?;
        let options = Options {
            config: Some(config),
            servers: vec![server.to_string()],
            poll: Some(args.poll),
            counter: Some(args.counter),
            page: Some(page.to_owned()),
            control: Some(control::default_path(page)),
            replay_log: log.map(Path::to_owned),
            // Nothing comes from outside and nothing is left behind.
            state: none(),
            leap_file: none(),
            ..Options::default()
        };
        let stop = Arc::new(AtomicBool::new(false));
        let mut note = run::note(if args.verbose { Level::Debug } else { Level::Warning });
        let flag = Arc::clone(&stop);
        let reload = AtomicBool::new(false);
        let thread = thread::Builder::new()
            .name("daemon".into())
            .spawn(move || {
                let mut service = truechimer_daemon::Service::none();
                truechimer_daemon::run(&options, &flag, &reload, &mut service, &mut note)
            })
            .map_err(|why| Failure::new("cannot start the daemon", why))?;
        Ok(Daemon { stop, thread: Some(thread) })
    }

    /// Fails if the daemon has ended, which it does only in error.
    fn check(&mut self) -> Result<(), Failure> {
        if !self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Ok(());
        }
        let why = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(why))) => why.to_string(),
            _ => "it ended by itself".into(),
        };
        Err(Failure::new("the daemon", why))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it ended with concerns nobody any more.
            let _ = thread.join();
        }
    }
}

/// The reader.
struct Watch {
    json: bool,
    control: PathBuf,
    clock: Clock,
    truth: Truth,
    tally: Tally,
    /// The newest reading, and clock − system clock then.
    newest: Option<(Sample, Span)>,
    source: Option<SourceReport>,
    record: Record,
}

impl Watch {
    fn new(args: &Demo, page: &Path, served: ServedClock) -> Result<Watch, Failure> {
        let counter = Counter::open(args.counter).map_err(|why| Failure::new("--counter", why))?;
        Ok(Watch {
            json: args.json,
            control: control::default_path(page),
            // As any program would, which knows nothing of how the page comes about.
            clock: clock::open_within(page, START)?,
            truth: Truth::new(served, counter),
            tally: Tally::default(),
            newest: None,
            source: None,
            record: Record::default(),
        })
    }

    /// Reads the clock and judges it.
    fn look(&mut self, at: Duration) -> Result<(), Failure> {
        let reading = match self.clock.now() {
            Ok(reading) => reading,
            Err(ReadError::NotYet { .. }) => return Ok(()),
            Err(why) => return Err(clock::unreadable(why)),
        };
        let view = self.clock.view().map_err(clock::unreadable)?;
        let sandwich = self.truth.sandwich();
        // The sandwich was taken a microsecond later: as seen at the count of the reading.
        let later = view.hand.period.span(sandwich.count() - reading.count);
        let best = Span::from_nanos_wide(reading.utc().unix_nanos()) + later;
        let sample = Sample {
            at: Span::from_nanos(i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)),
            status: reading.status,
            bound: reading.bound().unwrap_or(Span::MAX),
            error: best - Span::from_nanos(sandwich.unix_ns),
        };
        self.newest = Some((sample, best - Span::from_nanos(sandwich.system_ns)));
        self.tally.add(sample);
        let fast = self.truth.rates(view.hand.period).map(|rates| rates.error);
        let served = (sandwich.count(), sandwich.unix_ns);
        self.record.add(&sample, &reading, &view, served, fast);
        Ok(())
    }

    fn line(&self) -> Option<Line<'_>> {
        let (sample, lead) = self.newest?;
        let period = self.clock.view().ok().map(|view| view.hand.period);
        let rates = period.and_then(|period| self.truth.rates(period));
        Some(Line { sample, lead, rates, source: self.source.as_ref() })
    }

    fn write_line(&mut self, at: Duration, out: &mut dyn Write) -> Result<(), Failure> {
        // Without an answer the line lacks the round trip, which is all that it is asked for.
        let answer = control::report(&self.control, ANSWER).ok();
        self.source = answer.and_then(|answer| answer.report.sources.into_iter().next());
        match self.line() {
            Some(line) if self.json => writeln!(out, "{}", show::json(&line.json())?)?,
            Some(line) => line.write(out)?,
            None if self.json => {}
            None => screen::write_waiting(at, out)?,
        }
        Ok(())
    }

    fn end(&self, out: &mut dyn Write) -> Ended {
        let end = End { summary: self.tally.summary(), line: self.line() };
        if self.json {
            writeln!(out, "{}", show::json(&end.json())?)?;
        } else {
            end.write(out)?;
        }
        Ok(Outcome::of(end.good()))
    }
}
