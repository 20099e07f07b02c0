//! `truechimer probe`: the path between two hosts, measured by test packets.

mod page;
mod reflect;
mod screen;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use truechimer_keys::{Algorithm, Key, Keys};
use truechimer_probe::measure::{Measurement, Plan};
use truechimer_probe::wire::{Layout, PORT};
use truechimer_probe::{Keeper, Report, Session};
use truechimer_qos::Codec;
use truechimer_time::Span;

use truechimer_command::clock::{self, Page};
use truechimer_command::output::{self, ready};
use truechimer_command::report::Watch;
use truechimer_command::{Ended, Failure, Outcome, parse, show, signals};

/// Largest packet, in bytes: the payload of a datagram of 9000 bytes over IPv6.
const MOST_BYTES: i64 = 8952;
/// Largest number of packets a second.
const MOST_RATE: i64 = 1000;
/// Largest number of packets of a session: 304 MB of memory, and 130 MB more while figures are made of it.
const MOST_PACKETS: i64 = 1_000_000;

/// Options of `truechimer probe`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Sends test packets to a reflector, STAMP's (RFC 8762): 'truechimer probe reflect' on the other host,
or a router's. Packets are stamped by the kernel, stamps become times of the clock that 'truechimer
run' keeps, and each packet says how far its own may be off. So the delay of each direction has a
bound: that of both clocks and of the stamps. If a clock promises nothing, that is said, and what is
left are the round trip and how delays vary, for which no time of day is needed.

The reflector counts its replies, so that losses and copies have a direction. If an answer is
missing in the end, up to five packets more are sent, to learn how many it has answered.

A delay back begins when the reflector reads its clock, just before it hands the reply to the
kernel; what its host takes from there to the wire is in it. Quantiles come with an interval at 95 %
confidence, for packets that are independent of each other; '-' stands where there are too few.
Voice is the E-model's estimate (ITU-T G.107): 1 is bad, 4.4 the best; its inputs stand beside it.

With a key that both ends share nobody else can measure, or change what is measured. Make one with
  chronyc keygen 1 SHA256 256 > probe.keys && chmod 600 probe.keys

Examples:
  truechimer probe reflect --keys probe.keys           on the one host
  truechimer probe --keys probe.keys 192.0.2.1         on the other
  truechimer probe --interval 20ms --count 3000 --size 172 --dscp 46 --keys k voip.example.org
  truechimer probe --csv packets.csv --json router.example.org
  truechimer probe --keys k --html path.html voip.example.org

Signals: INT and TERM end it early, with the figures so far.

Exit status: 0 some packet was answered, 1 none was, 2 error; what was measured until then is shown.")]
pub struct Probe {
    /// Instead of sending.
    #[command(subcommand)]
    what: Option<What>,
    /// The reflector: a name or an address, and its port if that is not 862
    #[arg(value_name = "HOST[:PORT]", required = true)]
    host: Option<String>,
    /// Packets to send, 1 to 1000000
    #[arg(short, long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_PACKETS))]
    count: u32,
    /// From one to the next, at least 1ms [default: 100ms]
    #[arg(short, long, value_name = "SPAN", value_parser = interval, conflicts_with = "rate")]
    interval: Option<Span>,
    /// Packets a second instead, 1 to 1000; a reflector of ours answers 200 unless told otherwise
    #[arg(short, long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=MOST_RATE))]
    rate: Option<u32>,
    /// Bytes of UDP payload, up to 8952 [default: the least: 44, with a key 112]
    #[arg(short, long, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u16).range(44..=MOST_BYTES))]
    size: Option<u16>,
    /// Differentiated services code point of what is sent, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: u8,
    /// Time to wait for an answer after the last packet
    #[arg(short, long, value_name = "SPAN", default_value = "2s", value_parser = parse::positive)]
    wait: Span,
    /// The file with the key, as chronyd's keyfile; none but its owner and group may read it
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Which of the keys, if there are several of type SHA256
    #[arg(long, value_name = "N", requires = "keys")]
    key: Option<u32>,
    /// The codec of which voice is estimated: g711, g711-plc (hides losses) or g729a
    #[arg(long, value_name = "NAME", default_value = "g711-plc")]
    #[arg(value_parser = parse::one_of(Codec::ALL.map(|codec| codec.name), codec), hide_possible_values = true)]
    codec: Codec,
    /// Write each packet to FILE: what was measured of it
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report to FILE: one page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: Page,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Answer the test packets of others
    Reflect(reflect::Reflect),
}

/// Reports with what they are about.
#[derive(Serialize)]
struct Shown<'a> {
    reflector: String,
    authenticated: bool,
    size: usize,
    interval_ns: i64,
    dscp: u8,
    #[serde(flatten)]
    report: &'a Report,
}

/// Runs the command.
pub fn run(args: &Probe, out: &mut dyn Write) -> Ended {
    match (&args.what, &args.host) {
        (Some(What::Reflect(reflect)), _) => reflect::run(reflect, out),
        (None, Some(host)) => measure(args, host, out),
        (None, None) => Err(Failure::Said("a reflector is wanted: HOST".into())),
    }
}

fn measure(args: &Probe, host: &str, out: &mut dyn Write) -> Ended {
    let stop = signals::stop()?;
    args.csv.iter().chain(&args.html).try_for_each(|path| ready(path))?;
    let clock = args.html.as_ref().map(|_| Watch::begin(&args.page));
    let plan = args.plan(host)?;
    let (to, size, keyed) = (plan.to, plan.size, plan.key.is_some());
    let (interval, count) = (plan.interval, plan.count);
    let (keeper, clockless) = keeper(&args.page)?;
    let failed = |why| Failure::new(format!("cannot measure to {to}"), why);
    let mut measurement = Measurement::new(plan, keeper).map_err(failed)?;
    if !args.json {
        let keyed = if keyed { ", with a key" } else { "" };
        let per_second = 1.0 / interval.as_secs_f64();
        writeln!(out, "{count} packets of {size} bytes{keyed} to {to}, {per_second:.3} a second")?;
        out.flush()?;
    }
    let ended = measurement.run(&stop).map_err(failed);
    let session = measurement.session();
    // What was measured is told before an error that ended it; where that is nothing the error says it all.
    let ended = match ended {
        Err(why) if session.probes().is_empty() => return Err(why),
        ended => ended,
    };
    let mut report = Report::of(session, measurement.closing(), args.codec);
    report.notes.extend(clockless);
    report.notes.extend(measurement.unsent().map(|why| {
        format!("the system did not take {} packets, the last of them: {why}", report.unsent)
    }));
    args.csv.iter().try_for_each(|path| save(path, session))?;
    if let (Some(path), Some(clock)) = (&args.html, clock) {
        let keyed = if keyed { ", with a key" } else { "" };
        let about = page::About {
            to: to.to_string(),
            packets: format!("{} of {size} bytes{keyed}, {}", report.sent, every(interval)),
            clock: &clock.told(),
        };
        output::save_report(path, &page::page(&about, &report, session))?;
    }
    if args.json {
        let interval_ns = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
        let (reflector, dscp) = (to.to_string(), args.dscp);
        let shown =
            Shown { reflector, authenticated: keyed, size, interval_ns, dscp, report: &report };
        writeln!(out, "{}", show::json(&shown)?)?;
    } else {
        screen::report(&report, out)?;
    }
    ended?;
    Ok(Outcome::of(report.answered > 0))
}

impl Probe {
    fn plan(&self, host: &str) -> Result<Plan, Failure> {
        let key = self.keys.as_deref().map(|file| one_key(file, self.key)).transpose()?;
        let layout = if key.is_some() { Layout::Keyed } else { Layout::Open };
        let interval = match (self.interval, self.rate) {
            (_, Some(rate)) => Duration::from_secs(1) / rate.max(1),
            (interval, None) => duration(interval.unwrap_or(Span::from_millis(100))),
        };
        // As unpredictable as the hashes of the standard library; 0 means that there is none.
        let identifier = (RandomState::new().hash_one(0) as u16).max(1);
        Ok(Plan {
            to: resolved(host)?,
            count: self.count,
            interval,
            wait: duration(self.wait),
            size: size(self.size, layout)?,
            code_point: self.dscp,
            key,
            identifier,
        })
    }
}

/// Distance of packets in words.
fn every(interval: Duration) -> String {
    let ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    format!("one every {}", show::nanos(ns))
}

/// Size of packets: those without padding, or padding's own four bytes more.
fn size(wanted: Option<u16>, layout: Layout) -> Result<usize, Failure> {
    let least = layout.size();
    let size = wanted.map_or(least, usize::from);
    if size == least || size >= least + 4 {
        return Ok(size);
    }
    let with = if layout == Layout::Keyed { " with a key" } else { "" };
    let more = least + 4;
    Err(Failure::Said(format!(
        "--size {size}: packets{with} have {least} bytes, or {more} and more"
    )))
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos_i64().unsigned_abs())
}

fn interval(text: &str) -> Result<Span, String> {
    let span = parse::positive(text)?;
    if span >= Span::from_millis(1) { Ok(span) } else { Err("must be 1ms at least".into()) }
}

fn codec(text: &str) -> Result<Codec, String> {
    let names = || Codec::ALL.map(|codec| codec.name).join(", ");
    Codec::named(text).ok_or_else(|| format!("must be one of {}", names()))
}

/// Address of the reflector.
fn resolved(host: &str) -> Result<SocketAddr, Failure> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // A bare IPv6 address has colons and no port.
    let has_port = bare == host
        && host
            .rsplit_once(':')
            .is_some_and(|(before, _)| !before.contains(':') || before.ends_with(']'));
    let found = if has_port { host.to_socket_addrs() } else { (bare, PORT).to_socket_addrs() };
    let mut found = found.map_err(|why| Failure::new(host, show::plain(&why.to_string())))?;
    found.next().ok_or_else(|| Failure::new(host, "has no address"))
}

/// The clock, or why there is none, which is no reason to measure nothing.
fn keeper(page: &Page) -> Result<(Keeper, Option<String>), Failure> {
    let (clock, clockless) = match clock::open(page) {
        Ok(clock) => (Some(clock), None),
        Err(Failure::Said(why)) => (None, Some(format!("no clock here: {why}"))),
        Err(unread) => return Err(unread),
    };
    let keeper = Keeper::new(clock).map_err(|why| Failure::new("cannot stamp packets", why))?;
    Ok((keeper, clockless))
}

/// Keys of a file that STAMP can use, of which there is one at least.
fn usable(file: &Path) -> Result<Vec<Key>, Failure> {
    let keys = Keys::read(file).map_err(|why| Failure::Said(why.to_string()))?;
    let usable = |key: &&Key| key.algorithm() == Algorithm::Sha256;
    let keys: Vec<Key> = keys.iter().filter(usable).cloned().collect();
    if keys.is_empty() {
        let file = file.display();
        return Err(Failure::Said(format!(
            "{file}: has no key of type SHA256, which STAMP takes: add a line, as 'chronyc keygen 1 SHA256 256' prints one"
        )));
    }
    Ok(keys)
}

fn one_key(file: &Path, number: Option<u32>) -> Result<Key, Failure> {
    let mut keys = usable(file)?;
    let numbers = keys.iter().map(|key| key.number().to_string()).collect::<Vec<_>>().join(", ");
    let said = |why: String| Failure::new(file.display(), why);
    match number {
        Some(number) => {
            keys.retain(|key| key.number() == number);
            let missing = || format!("has no key {number} of type SHA256, but {numbers}");
            keys.pop().ok_or_else(|| said(missing()))
        }
        None if keys.len() > 1 => {
            Err(said(format!("has several keys: choose one with --key: {numbers}")))
        }
        None => keys.pop().ok_or_else(|| said("has no key".into())),
    }
}

/// Writes a row for each packet.
fn save(path: &Path, session: &Session) -> Result<(), Failure> {
    let rows = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(
            file,
            "sequence,sent_unix_ns,reply_number,forward_ns,forward_bound_ns,backward_ns,backward_bound_ns,\
             round_trip_ns,round_trip_bound_ns,kept_ns,far_bound_ns,hop_limit,replies"
        )?;
        for probe in session.probes() {
            let sent = probe.sent.leaps.utc(probe.sent.time).unix_nanos();
            write!(file, "{},{sent},", probe.sequence)?;
            let shown = |bound: Option<u64>| bound.map_or_else(String::new, |ns| ns.to_string());
            match probe.echoes.first() {
                None => write!(file, ",,,,,,,,,,")?,
                Some(echo) => write!(
                    file,
                    "{},{},{},{},{},{},{},{},{},{},",
                    echo.number,
                    echo.forward.ns,
                    shown(echo.forward.bound_ns),
                    echo.backward.ns,
                    shown(echo.backward.bound_ns),
                    echo.round_trip.map_or_else(String::new, |round| round.ns.to_string()),
                    shown(echo.round_trip.and_then(|round| round.bound_ns)),
                    echo.kept_ns,
                    shown(echo.far_bound_ns),
                    echo.hop_limit,
                )?,
            }
            writeln!(file, "{}", probe.echoes.len())?;
        }
        file.flush()
    };
    rows().map_err(|why| Failure::new(path.display(), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_may_have_a_port() {
        for (host, address) in [
            ("192.0.2.1", "192.0.2.1:862"),
            ("192.0.2.1:8620", "192.0.2.1:8620"),
            ("2001:db8::1", "[2001:db8::1]:862"),
            ("[2001:db8::1]", "[2001:db8::1]:862"),
            ("[2001:db8::1]:8620", "[2001:db8::1]:8620"),
        ] {
            assert_eq!(resolved(host).unwrap().to_string(), address, "{host}");
        }
        for host in ["192.0.2.1:", "192.0.2.1:x", "[2001:db8::1]:70000", ""] {
            assert!(resolved(host).is_err(), "{host}");
        }
    }

    #[test]
    fn sizes_have_room_for_padding() {
        assert_eq!(size(None, Layout::Open).unwrap(), 44);
        assert_eq!(size(Some(48), Layout::Open).unwrap(), 48);
        assert_eq!(size(None, Layout::Keyed).unwrap(), 112);
        for (wanted, layout) in [(45, Layout::Open), (44, Layout::Keyed), (115, Layout::Keyed)] {
            let Err(Failure::Said(why)) = size(Some(wanted), layout) else { panic!("{wanted}") };
            assert!(why.contains("and more"), "{why}");
        }
    }
}
