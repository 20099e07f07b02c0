//! `truechimer capture`: packets with the time at which they passed.

mod check;
pub mod interfaces;
mod lines;
mod live;
mod metrics;
mod open;
mod size;

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use truechimer_command::clock::Page;

use clap::ValueEnum;
use serde::Serialize;
use truechimer::{Clock, Status};
use truechimer_capture::convert::{self, Converter, Search};
use truechimer_capture::pipeline::{self, Device, End, Progress, Summary, WhenFull};
use truechimer_capture::place::{Cores, Machine, Steered};
use truechimer_capture::sink::{CaptureFile, FileOptions, Sink, SinkError, Together, several};
use truechimer_capture::{Facts, Tap, TapError};
use truechimer_counter::Counter;
use truechimer_time::{Period, Span};

use lines::{Form, Lines};
use truechimer_command::parse;
use truechimer_command::report::host;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{show, signals};

/// Options of `truechimer capture`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Every packet keeps its raw count, the reading of the machine's counter at the moment when it was
stamped, beside its time, in pcapng (nanoseconds) that Wireshark, tshark and tcpdump read. The time
is that of the clock that 'truechimer run' keeps, with the bound of its error. Without a daemon, or
before its clock is synchronised, packets have the system clock's time and are marked as
unsynchronised; 'truechimer restamp' gives them better times later, from their counts.

Without -w a line for each packet is printed:
  09:30:12.123456789 ±8.2 µs  IP 192.0.2.1.123 > 192.0.2.2.40000: UDP, length 48
The time is UTC; '±?' stands where nothing is known of its error, and '±?!' where not even the raw
count is (no second time can be worked out of the file). With -w the state is shown on
standard error once a second: packets, what was lost, and what the stamps are worth. Lost are
packets by the 'interface', before anybody could see them (no buffers, a full backlog; of all
packets, whatever the filter), by the 'kernel' (no memory, invalid), 'ring' (the ring was full: see
--ring) and 'writer' (the disk was full, or conversion too slow for packets that are stamped when
they are fetched).

Methods:
  packet     a packet socket: the kernel's stamps, on any interface
  hw         the same with the network card's own stamps
  xdp        AF_XDP, for the highest rates: takes packets away from the host, which no longer sees
             them; on an interface with addresses only with --take; see below who may
  xdp-copy   copies made in XDP, the packets pass on
  auto       what fits the interface and takes nothing away; the summary says why

It takes root; or once and for all, for the members of a group, a copy of the program that nobody
else can run, as whoever may run it sees all packets of the host:
  sudo groupadd --system truechimer-capture
  sudo usermod --append --groups truechimer-capture $USER
  sudo install -g truechimer-capture -m 750 $(command -v truechimer) \\
      /usr/local/bin/truechimer-capture
  sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep /usr/local/bin/truechimer-capture
and after the next login 'truechimer-capture capture …'. cap_net_raw is enough for 'packet'.
--method xdp, with --take or without, is refused to those whose right is only lent by the file in
this way: it takes the interface off the network. It takes root, or cap_net_admin of the user's own
(pam_cap). Moving interrupts (--cores softirq=…) takes root.

Examples:
  truechimer capture -i eth0                            a line for each packet
  truechimer capture -i eth0 -w day.pcapng udp port 123
  truechimer capture -i any -c 100 -f 'vlan 7 and tcp'
  truechimer capture -i eth0 --comments -w - | wireshark -k -i -
  truechimer capture -i eth0 -w ring.pcapng --rotate-size 100M --files 10
  truechimer capture -i eth0 -w fast.pcapng --ring 512 --cores capture=1,convert=2,softirq=0
  truechimer capture -i eth0=hw -i tap0 -w both.pcapng  two interfaces, times on one scale
  truechimer capture -D                                 interfaces that there are
  truechimer capture -D --measure                       and which stamps come, for sure
  truechimer capture check eth0                         its stamps against each other
  truechimer extcap --install                           puts them into Wireshark's own list, and
                                                        bounds among its fields

Signals: INT, TERM and HUP end it; what the ring holds is still written. A second INT or TERM ends
it at once.

Exit status: 0 ended by --count, --duration, a signal, or a reader of -w - that has gone; 1 the
interface has vanished, or the disk was full for some packets (the file is whole up to there); 2
error.")]
pub struct Capture {
    /// Instead of capturing.
    #[command(subcommand)]
    what: Option<What>,
    /// The interface to capture from; 'any' for all of them. May be repeated, with -w: each has its
    /// own clock, counts and losses in the one file, and, as eth0=hw, its own method
    #[arg(short, long, value_name = "NAME[=METHOD]", required_unless_present = "list")]
    interface: Vec<Wanted>,
    /// Write the packets to FILE in pcapng; '-' is standard output
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Say each packet's bound, clock, method and count in a comment as well: fields of Wireshark
    /// with 'truechimer extcap --install'; some 120 bytes a packet
    #[arg(long, requires = "write")]
    comments: bool,
    /// Name of this host in the file, in the place of the kernel's; '' writes none
    #[arg(long, value_name = "NAME", requires = "write", value_parser = host_name)]
    host: Option<String>,
    /// Which packets: a filter as of tcpdump, pcap-filter(7); it may also stand at the end, in
    /// words
    #[arg(short, long = "filter", value_name = "FILTER", conflicts_with = "words")]
    filter: Option<String>,
    /// A filter in words
    #[arg(value_name = "FILTER")]
    words: Vec<String>,
    /// Keep so many bytes of each packet; 0 is the default, 262144, which is all of any packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=262_144))]
    snap_length: u32,
    /// End after so many packets
    #[arg(short, long, value_name = "N")]
    count: Option<NonZeroU64>,
    /// End after so long: 1.5s, 20ms
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, allow_hyphen_values = true)]
    duration: Option<Span>,
    /// Packets of one direction only
    #[arg(short = 'Q', long, value_enum, value_name = "WHICH", default_value_t = Way::Inout)]
    direction: Way,
    /// Only packets that are for this host anyway: leave the interface out of promiscuous mode
    #[arg(short = 'p', long)]
    no_promiscuous: bool,
    /// List the interfaces, and end
    #[arg(short = 'D', long, visible_alias = "list-interfaces")]
    list: bool,
    /// With -D: try which stamps come, as 'capture check' does, for 0.3 s on each that is up; takes
    /// the rights of a capture, and sends some 30 frames that no bridge passes on
    #[arg(long, requires = "list")]
    measure: bool,
    /// Say nothing but errors and warnings
    #[arg(short, long)]
    quiet: bool,
    /// Say nothing but errors: Wireshark shows anything else as one
    #[arg(long, hide = true)]
    pub errors_only: bool,
    /// JSON lines on standard output, each with a 'type': start, packet (without -w), state (once a
    /// second, with -w), mark, summary; with '-w -' on standard error
    #[arg(long)]
    json: bool,
    /// Way in which packets are taken
    #[arg(long, value_enum, value_name = "HOW", default_value_t = How::Auto, help_heading = TAKING)]
    method: How,
    /// Let --method xdp take packets away from a host that uses the interface itself
    #[arg(long, help_heading = TAKING)]
    take: bool,
    /// Where --method xdp and xdp-copy stamp: in XDP by the kernel's clock, in XDP by the counter
    /// (TSC), or when the packet is fetched (fastest, and worst by far)
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Where::Auto)]
    #[arg(help_heading = TAKING)]
    stamp: Where,
    /// Memory for packets that wait, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = TAKING)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=65_536))]
    ring: u64,
    /// Which processor does what: capture=1,convert=2,softirq=0, or some of these. softirq moves
    /// the interface's receive interrupts and packet steering, and puts them back in the end
    #[arg(long, value_name = "PART=CPU,…", help_heading = TAKING)]
    cores: Option<Cores>,
    /// Convert and write on the thread that captures, instead of another one
    #[arg(long, help_heading = TAKING)]
    inline: bool,
    /// Begin another file when one has so many bytes: 500k, 100M, 2G
    #[arg(long, value_name = "SIZE", value_parser = size::bytes, help_heading = FILES)]
    #[arg(requires = "write")]
    rotate_size: Option<u64>,
    /// Begin another file after so long
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, help_heading = FILES)]
    #[arg(requires = "write")]
    rotate_time: Option<Span>,
    /// --rotate-size in millions of bytes, as of tcpdump
    #[arg(short = 'C', value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    #[arg(conflicts_with = "rotate_size", requires = "write", help_heading = FILES)]
    megabytes: Option<u64>,
    /// --rotate-time in seconds, as of tcpdump
    #[arg(short = 'G', value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    #[arg(conflicts_with = "rotate_time", requires = "write", help_heading = FILES)]
    seconds: Option<u64>,
    /// Keep the last N files, and delete older ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(requires = "write", help_heading = FILES)]
    files: Option<u32>,
    /// Keep the last N files of -C, end after N files of -G, as tcpdump does
    #[arg(short = 'W', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with = "files", requires = "write", help_heading = FILES)]
    limit: Option<u32>,
    /// Compress the files by zstd(1), which runs beside, at LEVEL, 1 to 19; --rotate-size is of what
    /// it has written. A full disk ends such a capture
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "3", value_parser = clap::value_parser!(u8).range(1..=19))]
    #[arg(requires = "write", conflicts_with = "cores", help_heading = FILES)]
    zstd: Option<u8>,
    /// Serve metrics for Prometheus at ADDR, as 127.0.0.1:9927, or at PATH, a Unix socket
    #[arg(long, value_name = "ADDR|PATH")]
    metrics: Option<truechimer_metrics::Listen>,
    #[command(flatten)]
    page: Page,
}

const TAKING: &str = "How packets are taken";
const FILES: &str = "Several files";

/// Value of `--host`: one line, as it stands in listings.
fn host_name(text: &str) -> Result<String, String> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("a host's name has no {c:?}")),
        None => Ok(text.trim().to_owned()),
    }
}

/// Instead of capturing.
#[derive(clap::Subcommand, Debug)]
enum What {
    /// Measure which stamps an interface can take, and compare them: offset, jitter, rate
    Check(check::Check),
}

/// `--direction`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Way {
    In,
    Out,
    Inout,
}

/// `--method`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum How {
    Auto,
    Packet,
    Hw,
    Xdp,
    XdpCopy,
}

/// `--interface`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    name: String,
    /// Instead of `--method`.
    method: Option<How>,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let Some((name, method)) = text.rsplit_once('=') else {
            return Ok(Wanted { name: text.to_owned(), method: None });
        };
        let method = How::from_str(method, false).map_err(|_| {
            format!("'{method}' is no method: auto, packet, hw, xdp or xdp-copy, as in eth0=hw")
        })?;
        Ok(Wanted { name: name.to_owned(), method: Some(method) })
    }
}

/// `--stamp`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Where {
    Auto,
    Xdp,
    Tsc,
    Dequeue,
}

impl Capture {
    /// Bytes after which another file begins.
    fn rotate_bytes(&self) -> Option<u64> {
        self.rotate_size
            .or_else(|| self.megabytes.map(|millions| millions.saturating_mul(1_000_000)))
    }

    /// Time after which another file begins.
    fn rotate_after(&self) -> Option<Duration> {
        self.rotate_time.map(duration).or_else(|| self.seconds.map(Duration::from_secs))
    }

    /// Files that are kept.
    fn keep(&self) -> Option<u32> {
        self.files.or(self.limit.filter(|_| self.rotate_bytes().is_some()))
    }

    /// Files after which the capture ends.
    fn last(&self) -> Option<u32> {
        self.limit.filter(|_| self.rotate_bytes().is_none())
    }

    /// Time after which the capture ends.
    fn ends_after(&self) -> Option<Duration> {
        let files = self.last().zip(self.rotate_after());
        let files = files.map(|(files, each)| each.saturating_mul(files));
        self.duration.map(duration).into_iter().chain(files).min()
    }

    /// Refuses what is asked of several files where that cannot be, or would not be what was meant.
    fn check_files(&self) -> Result<(), String> {
        let (by_size, by_time) = (self.rotate_bytes().is_some(), self.rotate_after().is_some());
        if self.files.is_some() && !by_size && !by_time {
            return Err(
                "--files keeps the last of several files: say when another one begins, with \
                        --rotate-size or --rotate-time"
                    .into(),
            );
        }
        if self.limit.is_some() && by_size == by_time {
            return Err("-W keeps the last files of -C, or ends after so many of -G: give one of \
                        these; --files keeps the last of both"
                .into());
        }
        let name = self.write.as_deref().and_then(Path::file_name).unwrap_or_default();
        if by_time && name.as_encoded_bytes().contains(&b'%') {
            return Err(
                "-w: '%' in the name of files by time: times are not put there; all names \
                        get a number and the time, in UTC: NAME_00001_20261122103000.EXT"
                    .into(),
            );
        }
        Ok(())
    }

    /// Refuses what is not done for several interfaces at once.
    fn check_interfaces(&self) -> Result<(), String> {
        if self.interface.len() < 2 {
            return Ok(());
        }
        let refused = [
            (self.write.is_none(), "several interfaces are written to a file: -w FILE"),
            (self.count.is_some(), "--count takes one interface; --duration takes several"),
            (self.cores.is_some(), "--cores takes one interface"),
            (self.metrics.is_some(), "--metrics takes one interface: make a capture of each"),
        ];
        let twice = |n: usize, one: &Wanted| {
            self.interface.iter().take(n).any(|other| other.name == one.name)
        };
        let twice = self.interface.iter().enumerate().find(|(n, one)| twice(*n, one));
        let refused = refused.iter().find(|(is, _)| *is).map(|(_, why)| (*why).to_owned());
        let why = refused.or(twice.map(|(_, one)| format!("-i {} stands there twice", one.name)));
        why.map_or(Ok(()), Err)
    }

    /// The filter, if there is one.
    fn filter(&self) -> Option<String> {
        let words = (!self.words.is_empty()).then(|| self.words.join(" "));
        self.filter.clone().or(words).filter(|text| !text.trim().is_empty())
    }

    fn to_stdout(&self) -> bool {
        self.write.as_deref() == Some(Path::new("-"))
    }
}

/// Runs the command.
pub fn run(args: &Capture, out: &mut dyn Write) -> Ended {
    if let Some(What::Check(check)) = &args.what {
        return check::run(check, out);
    }
    if args.list {
        return interfaces::list(args.json, args.measure, out);
    }
    if args.interface.is_empty() {
        return Err(Failure::Said("no interface: name one with -i, see -D".into()));
    }
    if args.to_stdout() && io::stdout().is_terminal() {
        return Err(Failure::Said(
            "packets are not for a terminal: -w FILE, or a program that reads them behind '-w - |'"
                .into(),
        ));
    }
    args.check_files().and_then(|()| args.check_interfaces()).map_err(Failure::Said)?;
    let exporter = metrics::open(args.metrics.as_ref())?;
    let stop = signals::finish()?;
    let say = Say { quiet: args.quiet, errors_only: args.errors_only };
    let search = args.page.page.clone().map_or(Search::Usual, Search::At);
    let clock = convert::clock(&search).map_err(said)?;
    let counter = convert::choose(clock.as_ref()).map_err(said)?;
    let worth = worth(clock.as_ref(), &search);
    if let Some(Ok(Status::Holdover)) = clock.as_ref().map(Clock::status) {
        say.warn(
            "the clock is in holdover: it has no fresh word of any server, and its bound grows; \
             'truechimer status' says more",
        );
    }
    let mut sources = Vec::new();
    for wanted in &args.interface {
        sources.push(Source::open(args, wanted, counter, &search, say)?);
    }
    if let Err(why) = &worth {
        say.warn(why);
    }
    let facts: Vec<Facts> = sources.iter().map(|source| source.facts.clone()).collect();
    let (sinks, whole) = sinks(args, &sources, &worth)?;
    let (cores, warnings) = args.cores.unwrap_or_default().check(&Machine::default(), args.inline);
    warnings.iter().for_each(|warning| say.warn(warning));
    let first = args.interface.first().map_or("", |first| first.name.as_str());
    let steered = cores.softirq.map(|cpu| Steered::to(&Machine::default(), first, cpu));
    let steered = steered.map(|(steered, warnings)| {
        warnings.iter().for_each(|warning| say.warn(warning));
        steered
    });
    let options = pipeline::Options {
        inline: args.inline,
        count: args.count,
        duration: args.ends_after(),
        capture_cpu: cores.capture,
        convert_cpu: cores.convert,
        ..pipeline::Options::default()
    };
    let place = exporter.as_ref().map(|server| server.place().to_string());
    for source in &sources {
        if args.json && !args.quiet {
            put(args, out, &live::Start::new(&source.facts, &source.why, place.as_deref()))?;
        } else {
            let name = &source.facts.interface;
            say.tell(&format!("capturing on {name}: {}", live::described(&source.facts)));
        }
    }
    if let (Some(place), false) = (&place, args.json && !args.quiet) {
        say.tell(&format!("metrics are served at {place}"));
    }
    let whys: Vec<(String, Period)> =
        sources.iter().map(|source| (source.why.clone(), source.period)).collect();
    let progress: Vec<Progress> = sources.iter().map(|_| Progress::default()).collect();
    let watched: Vec<Watched<'_>> = facts
        .iter()
        .zip(&progress)
        .zip(&whys)
        .map(|((facts, progress), (_, period))| Watched {
            name: &facts.interface,
            progress,
            period: *period,
        })
        .collect();
    let mut shown = Shown { args, say, out, watched: &watched, stop: &stop };
    let (done, finished) = mpsc::channel();
    let over = AtomicBool::new(false);
    let summaries = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for ((source, sink), progress) in sources.into_iter().zip(sinks).zip(&progress) {
            let (done, stop) = (done.clone(), &stop);
            let options = pipeline::Options { when_full: source.when_full, ..options.clone() };
            let run = std::thread::Builder::new().name("capture".into());
            let run = run.spawn_scoped(scope, move || {
                let _ending = Ending { stop, done };
                let Source { tap, device, converter, .. } = source;
                let summary = pipeline::run(tap, device, converter, sink, &options, stop, progress);
                if !summary.end.is_good() && !matches!(summary.end, End::Gone) {
                    // The others write the same file: not half of it.
                    stop.store(true, Ordering::Relaxed);
                }
                summary
            });
            threads.push(run.map_err(|why| {
                stop.store(true, Ordering::Relaxed);
                Failure::new("cannot start a thread", why)
            })?);
        }
        drop(done);
        if let (Some(server), Some(facts), Some(progress)) =
            (exporter, facts.first(), progress.first())
        {
            let thread = std::thread::Builder::new().name("metrics".into());
            let served = thread.spawn_scoped(scope, || export(server, &over, facts, progress));
            if let Err(why) = served {
                say.warn(&format!("no metrics: no thread for them: {why}"));
            }
        }
        let shown = shown.until(&finished);
        if shown.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let summaries: Result<Vec<Summary>, _> =
            threads.into_iter().map(|thread| thread.join()).collect();
        over.store(true, Ordering::Relaxed);
        let failed = |_| Failure::Said("the capture thread has failed".into());
        shown.and(summaries.map_err(failed))
    });
    let left = steered.map(Steered::restore).unwrap_or_default();
    left.iter().for_each(|warning| say.warn(warning));
    let mut summaries = summaries?;
    let trouble = together(&mut summaries, whole.as_ref());
    let mut all = Outcome::Good;
    let mut failed = None;
    for (summary, (why, period)) in summaries.into_iter().zip(&whys) {
        match ended(args, &say, summary, why, *period, out) {
            Ok(Outcome::Good) => {}
            Ok(bad) => all = bad,
            // That of the first, which the others ended for.
            Err(why) => failed = failed.or(Some(why)),
        }
    }
    if let (Some(trouble), None) = (&trouble, &failed) {
        say.error(trouble);
    }
    failed.map_or(Ok(all), Err)
}

/// Says that an interface has ended, also where its thread panics: then all others end too, which write the
/// same file.
struct Ending<'a> {
    stop: &'a AtomicBool,
    done: mpsc::Sender<()>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.store(true, Ordering::Relaxed);
        }
        let _ = self.done.send(());
    }
}

/// Gives each of several interfaces what became of its packets and of the one file of all, as of its end; trouble
/// that was left.
fn together(summaries: &mut [Summary], whole: Option<&Together>) -> Option<String> {
    let all = whole.map(Together::written).unwrap_or_default();
    for (summary, written) in summaries.iter_mut().zip(all) {
        summary.live.unwritten = written.unwritten;
        summary.written = written;
    }
    summaries.iter().find_map(|one| one.written.trouble.clone())
}

/// An interface, ready to be captured from.
struct Source {
    tap: Box<dyn Tap>,
    device: Option<Device>,
    converter: Converter,
    when_full: WhenFull,
    facts: Facts,
    /// Reason for this method, for people.
    why: String,
    period: Period,
}

impl Source {
    fn open(
        args: &Capture,
        wanted: &Wanted,
        counter: Counter,
        search: &Search,
        say: Say,
    ) -> Result<Source, Failure> {
        let clock = convert::clock(search).map_err(said)?;
        // Before the first packet comes, which has no count without a pair of before it.
        let converter = Converter::new(counter, clock).map_err(said)?.looking(search.clone());
        let open::Opened { tap, device, why, warnings, when_full } =
            open::open(args, wanted, counter)?;
        warnings.iter().for_each(|warning| say.warn(warning));
        let (facts, period) = (tap.facts().clone(), converter.identity().period);
        Ok(Source { tap, device, converter, when_full, facts, why, period })
    }
}

/// Serves metrics until it is over.
fn export(
    mut server: truechimer_metrics::Server,
    over: &AtomicBool,
    facts: &Facts,
    progress: &Progress,
) {
    let began = Instant::now();
    server.run(over, &mut || metrics::families(facts, &progress.live(), began.elapsed()));
}

/// Writes to standard error.
#[derive(Clone, Copy)]
struct Say {
    quiet: bool,
    errors_only: bool,
}

impl Say {
    fn warn(self, text: &str) {
        if !self.errors_only {
            self.error(text);
        }
    }

    fn error(self, text: &str) {
        // If that cannot be said, there is nobody to say it to.
        let _ = writeln!(io::stderr(), "truechimer: {}", show::plain(text));
    }

    fn tell(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

fn said(why: impl std::fmt::Display) -> Failure {
    Failure::Said(why.to_string())
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos().clamp(0, i128::from(u64::MAX)) as u64)
}

/// Quality of the clock as the capture begins, in words; `Err` if times are the system clock's.
fn worth(clock: Option<&Clock>, search: &Search) -> Result<String, String> {
    let counts = "packets have raw counts, and the system clock's time marked as unsynchronised";
    let later = "'truechimer restamp' can do better later";
    let Some(clock) = clock else {
        let place = match search {
            Search::At(path) => format!(" at {}", path.display()),
            Search::Usual | Search::Nowhere => String::new(),
        };
        return Err(format!(
            "no clock{place}: {counts}. Start one with 'truechimer run --server HOST', it is used \
             as soon as it is there; {later}"
        ));
    };
    let reading = clock.now().map_err(|why| format!("{why}: {counts}"))?;
    let status = reading.status;
    match reading.bound() {
        Some(bound) => Ok(format!("{status}, ± {}", bound.rounded_up())),
        None => Err(format!("the clock is {status}: {counts} until it is synchronised; {later}")),
    }
}

/// Sinks of interfaces, and the account of one file of all.
type Sinks = (Vec<Box<dyn Sink>>, Option<Together>);

/// A sink for each of these.
fn sinks(
    args: &Capture,
    sources: &[Source],
    worth: &Result<String, String>,
) -> Result<Sinks, Failure> {
    let facts: Vec<Facts> = sources.iter().map(|source| source.facts.clone()).collect();
    let Some(path) = &args.write else {
        let form = if args.json { Form::Json } else { Form::Text };
        let line = |facts| -> Result<Box<dyn Sink>, Failure> {
            Ok(Box::new(Lines::standard(facts, form, args.quiet).map_err(said)?))
        };
        return Ok((facts.iter().map(line).collect::<Result<_, _>>()?, None));
    };
    let worth = match worth {
        Ok(worth) | Err(worth) => worth,
    };
    let method = |Source { facts, why, .. }: &Source| {
        let of = if sources.len() > 1 { format!(" of {}", facts.interface) } else { String::new() };
        format!("method{of} {}: {why}", live::described(facts))
    };
    let mut comments: Vec<String> = sources.iter().map(method).collect();
    comments.push(format!("clock at the start: {worth}"));
    let options = FileOptions {
        path: path.clone(),
        rotate_bytes: args.rotate_bytes(),
        rotate_after: args.rotate_after(),
        keep: args.keep(),
        last: args.last(),
        filter: args.filter(),
        host: Some(args.host.clone().unwrap_or_else(host)).filter(|host| !host.is_empty()),
        comments,
        packet_comments: args.comments,
        zstd: args.zstd,
        // Its thread has nobody to hand this to while it counts.
        tell: Some(|text| {
            let _ = writeln!(io::stderr(), "truechimer: {}", show::plain(text));
        }),
    };
    match facts.as_slice() {
        [one] => Ok((vec![Box::new(CaptureFile::create(one, options).map_err(said)?)], None)),
        all => several(all, options).map(|(sinks, whole)| (sinks, Some(whole))).map_err(said),
    }
}

/// One interface, as it is watched.
struct Watched<'a> {
    name: &'a str,
    progress: &'a Progress,
    period: Period,
}

/// Shows how it goes.
struct Shown<'a> {
    args: &'a Capture,
    say: Say,
    out: &'a mut dyn Write,
    watched: &'a [Watched<'a>],
    stop: &'a AtomicBool,
}

/// An object in a line, where packets do not go.
fn put(args: &Capture, out: &mut dyn Write, object: &impl Serialize) -> Result<(), Failure> {
    let line = show::json(object)?;
    if args.to_stdout() {
        // If nobody wants to know, the packets still matter.
        let _ = writeln!(io::stderr(), "{line}");
    } else {
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Ok(())
}

/// Time between looks at how far all are.
const EVERY: Duration = Duration::from_secs(1);
/// After a stop, when it is said that it is somebody else who takes his time.
const PATIENCE: Duration = Duration::from_secs(3);

impl Shown<'_> {
    /// Until all have finished.
    fn until(&mut self, finished: &mpsc::Receiver<()>) -> Result<(), Failure> {
        let shows = self.args.write.is_some() && !self.args.quiet;
        let live = |one: &Watched<'_>| (Instant::now(), one.progress.live());
        let mut before: Vec<_> = self.watched.iter().map(live).collect();
        let mut stopped: Option<Instant> = None;
        let mut left = self.watched.len();
        let overwrites = io::stderr().is_terminal() && !self.args.json && left == 1;
        let mut drawn = false;
        loop {
            match finished.recv_timeout(EVERY) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) => left -= 1,
                Err(RecvTimeoutError::Disconnected) => left = 0,
            }
            if drawn && overwrites {
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
            drawn = false;
            for one in self.watched {
                let notes = one.progress.notes();
                notes.iter().for_each(|note| self.say.warn(&self.of(one, note)));
            }
            if left == 0 {
                return Ok(());
            }
            let reads = self.args.to_stdout() || self.args.write.is_none();
            if reads && pipeline::is_unread(io::stdout().as_fd()) {
                // The next write will tell the other thread.
                self.stop.store(true, Ordering::Relaxed);
            }
            let now: Vec<_> = self.watched.iter().map(live).collect();
            if self.stop.load(Ordering::Relaxed)
                && stopped.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
            {
                stopped = Some(Instant::now() + EVERY * 60);
                self.say.warn("still writing what was captured; interrupt again to give that up");
            }
            for (one, (before, now)) in self.watched.iter().zip(before.iter().zip(&now)) {
                if !shows {
                    break;
                }
                let since = now.0.saturating_duration_since(before.0);
                let state = live::State::new(one.name, (&before.1, &now.1), since, one.period);
                if self.args.json {
                    put(self.args, self.out, &state)?;
                } else if overwrites {
                    // On one line, however narrow: what does not fit is not shown.
                    let _ = write!(io::stderr(), "\x1b[?7l{state}\x1b[?7h");
                    drawn = true;
                } else {
                    let _ = writeln!(io::stderr(), "{}", self.of(one, &state.to_string()));
                }
            }
            before = now;
        }
    }

    /// Words on one of several.
    fn of(&self, one: &Watched<'_>, words: &str) -> String {
        if self.watched.len() > 1 { format!("{}: {words}", one.name) } else { words.to_owned() }
    }
}

/// The last words.
fn ended(
    args: &Capture,
    say: &Say,
    summary: Summary,
    why: &str,
    period: Period,
    out: &mut dyn Write,
) -> Ended {
    let told = live::Told::new(&summary, why, period);
    if args.json && !args.quiet {
        if !matches!(summary.end, End::Unread) {
            put(args, out, &told)?;
        }
    } else if args.interface.len() > 1 {
        say.tell(&format!("{}: {told}", summary.facts.interface));
    } else {
        say.tell(&told.to_string());
    }
    match summary.end {
        End::Sink(why) => Err(said(why)),
        End::Tap(TapError { doing, why, mend }) => {
            let mend = mend.map(|mend| format!("; {mend}")).unwrap_or_default();
            Err(Failure::Said(format!("{doing}: {why}{mend}")))
        }
        End::Fault(what) => Err(Failure::new("the conversion thread has failed", what)),
        End::Gone => {
            say.error(&format!("the interface {} has vanished", summary.facts.interface));
            Ok(Outcome::Bad)
        }
        // What came after that was for nobody.
        End::Unread => Ok(Outcome::Good),
        End::Count | End::Duration | End::Stopped => {
            Ok(Outcome::of(summary.written.unwritten == 0))
        }
    }
}

/// A [`SinkError`] from writing to standard output.
fn sink_error(why: io::Error) -> SinkError {
    match why.kind() {
        io::ErrorKind::BrokenPipe => SinkError::Closed,
        _ => SinkError::Failed { file: "standard output".into(), doing: "writing", why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        capture: Capture,
    }

    #[test]
    fn an_interface_whose_thread_panics_ends_the_others() {
        let ends = |panics: bool| {
            let stop = AtomicBool::new(false);
            let (done, finished) = mpsc::channel();
            std::thread::scope(|scope| {
                let ending = Ending { stop: &stop, done };
                let thread = scope.spawn(move || {
                    let _ending = ending;
                    assert!(!panics, "as wished");
                });
                assert_eq!(finished.recv(), Ok(()));
                assert_eq!(thread.join().is_err(), panics);
            });
            stop.load(Ordering::Relaxed)
        };
        assert!(ends(true));
        assert!(!ends(false));
    }

    #[test]
    fn several_interfaces_each_with_its_method() {
        let read = |line: &str| {
            let words = std::iter::once("capture").chain(line.split(' '));
            Line::try_parse_from(words).map(|line| line.capture)
        };
        let capture = read("-i eth0=hw -i tap0 -w x").unwrap();
        let wanted = |name: &str, method| Wanted { name: name.into(), method };
        assert_eq!(capture.interface, [wanted("eth0", Some(How::Hw)), wanted("tap0", None)]);
        assert_eq!(capture.check_interfaces(), Ok(()));
        for odd in [
            "-i a -i b",
            "-i a -i b -w x -c 5",
            "-i a -i b -w x --cores capture=1",
            "-i a -i b -w x --metrics 127.0.0.1:1",
            "-i a -i b -i a=hw -w x",
        ] {
            assert!(read(odd).unwrap().check_interfaces().is_err(), "{odd}");
        }
        assert_eq!(read("-i a -c 5").unwrap().check_interfaces(), Ok(()));
        assert!(read("-i a=b").is_err());
    }

    #[test]
    fn tcpdumps_options_for_several_files_mean_what_they_mean_there() {
        let read = |line: &str| {
            let file: &[&str] = if line.contains("-w") { &[] } else { &["-w", "x"] };
            let words = ["capture", "-i", "eth0"].iter().chain(file).copied();
            let words = words.chain(line.split(' '));
            Line::try_parse_from(words).map(|line| line.capture)
        };
        let capture = read("-C 100 -W 5").unwrap();
        assert_eq!(capture.rotate_bytes(), Some(100_000_000));
        assert_eq!((capture.keep(), capture.last(), capture.ends_after()), (Some(5), None, None));
        assert_eq!(capture.check_files(), Ok(()));
        // An hour, and the end; nothing is deleted.
        let capture = read("-G 3600 -W 1").unwrap();
        assert_eq!(capture.rotate_after(), Some(Duration::from_secs(3600)));
        assert_eq!((capture.keep(), capture.last()), (None, Some(1)));
        assert_eq!(capture.ends_after(), Some(Duration::from_secs(3600)));
        assert_eq!(capture.check_files(), Ok(()));
        let sooner = read("-G 3600 -W 2 --duration 10s").unwrap();
        assert_eq!(sooner.ends_after(), Some(Duration::from_secs(10)));
        let ours = read("--rotate-size 100M --rotate-time 60s --files 5").unwrap();
        assert_eq!(ours.rotate_bytes(), Some(100_000_000));
        assert_eq!(ours.rotate_after(), Some(Duration::from_secs(60)));
        assert_eq!((ours.keep(), ours.last(), ours.ends_after()), (Some(5), None, None));
        for odd in
            ["-W 5", "-C 100 -G 60 -W 5", "--files 5", "-G 60 -w c-%H%M", "--rotate-time 60s -w %F"]
        {
            assert!(read(odd).unwrap().check_files().is_err(), "{odd}");
        }
        assert_eq!(read("-C 1 -w c-%H%M").unwrap().check_files(), Ok(()));
        for both in [
            "-C 1 -W 2 --files 3",
            "-C 1 --rotate-size 1M",
            "-G 1 --rotate-time 1s",
            "-C 0",
            "-W 0",
        ] {
            assert!(read(both).is_err(), "{both}");
        }
    }
}
