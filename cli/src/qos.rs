//! `truechimer qos`: what packets say of a path.

mod csv;
mod files;
mod layered;
mod live;
mod page;
mod peer;
mod screen;
#[cfg(test)]
mod tests;

pub use page::voices;
pub use screen::{bound, interval, span, voice_line};

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use truechimer_command::clock::Page;
use truechimer_command::report::Watch;

use truechimer_qos::rtp::Clocks;
use truechimer_qos::{
    Engine, FEW, FlowReport, Note, Options, Pattern, Report, RtpChoice, Severity, Totals, Way,
};
use truechimer_time::Span;

use truechimer_command::output::{ready, save_report};
use truechimer_command::parse;
use truechimer_command::program;
use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer qos`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
One file or interface shows what can be seen from one place: packets, rates, gaps, round trips
(TCP, ICMP echo, DNS, NTP, numbered packets, the first answer of any UDP conversation), and by
sequence numbers (RTP, --sequence) losses, duplicates, reordering and jitter. Two show what
happened between them: one-way delay, its variation, and losses of any flow, packet by packet. A
packet's delay is as good as both its times: its bound is the sum of theirs, or where both have
counts of one counter that of their difference. Times of 'truechimer capture' have a bound; those
of other programs have none, unless --assume gives them one. A delay below zero by more than its
bound means that a clock is wrong, and the output says which file promised nothing.

Packets are told apart by headers and the first bytes of what they carry; TTL, checksums and link
layer may change on the way. Of packets that are alike and on their way at the same time nobody
knows which is which: they are counted as ambiguous, and are in no delay or loss. Losses are packets
that the other point did not see within --timeout while it watched.

Sequence numbers anywhere in a payload, --sequence PROTOCOL[:PORT]@OFFSET:FIELD[,OFFSET=HEX[/MASK]]…
  udp:9000@0:be32            the first four bytes of UDP from or to port 9000
  any@8:le64,0=cafe,4=10/f0  eight bytes at 8, where bytes 0 and 1 are ca fe and byte 4 is 1x
FIELD is u8, be16, be32, be64, le16, le32 or le64. One that comes back from the other side with the
same number is an answer, and gives a round-trip time.

Flows of fewer than three packets that differ only by the port of one end, such as those of a
client that takes a new port for each request, are one row: 192.0.2.1:* > 192.0.2.2:123 (40
flows). A column that would be empty in all rows is left out.

Columns (-v has all of it):
  rate      of bytes as captured, from the first packet to the last
  gap       median of the time between packets
  resent    TCP segments sent again
  lost      by sequence numbers, or between the points, with their share of those sent
  dup       copies too many
  late      packets overtaken by later ones (RFC 4737)
  jitter    RFC 3550, its mean over all packets, and the most that it came to; of RTP by its clock,
            between two points by the true delays
  rtts, rtt how many round trips there were, their median, and the greatest: from a packet to its
            answer at this point; of several kinds the most frequent. That a UDP flow's first packet
            was answered by the first that came back is a guess: one by itself is shown by -v only
  delay     one way, with the greatest bound of one

Layers (--layers), in the order in which an arriving packet passes them: driver, where the driver
hands it to the network stack; stack, where packet sockets see it; socket, in the queue of the
socket that it is for; application, where that has read it. What is sent passes send, where the call
that sends it begins; scheduler, in the interface's queue; transmit, where the driver is given it;
sent, where the driver has it, and it is the card's. What a process sends next over the flow that
it has read a packet of counts as the answer to the last one that it read: one way, whose parts
add up. While it runs, every system call and packet of the host costs a little more.

The other host (--peer): what its capture writes is taken in as it comes, with that host's bounds. ssh
brings it, by the keys that it has; it is asked for no password. Leave ssh's own packets out at both
ends, or each brings about the next. Packets that come later than --timeout are left out, and that
is said; losses are counted between the stream's first packet and its last.

Definitions: delay RFC 7679, loss RFC 7680 and 3357, delay variation RFC 5481, duplicates RFC 5560,
reordering RFC 4737, density RFC 5236, jitter RFC 3550. Percentiles are exact while there are no
more than 1024 different values, then to the resolution that --json tells.

Examples:
  truechimer qos day.pcapng
  truechimer qos sender.pcapng receiver.pcapng --html path.html
  truechimer qos a.pcapng b.pcapng -f 'udp port 5004' --rtp 5004 --rtp-clock 96=48000
  truechimer qos both.pcapng --between eth0,eth1
  truechimer qos -i eth0                           live, until interrupted
  truechimer qos -i eth0 -i eth1 --json --duration 10s
  truechimer qos -i eth0 --layers                  from the driver to the application, and back
  truechimer qos -i eth0 -f 'udp port 5004' \\
    --peer 'ssh there truechimer capture -q -i eth1 -s 256 -w - udp port 5004'

Exit status: 0; 1 if a delay was below zero by more than its bound, or if there was no packet; 2 on
an error.")]
pub struct Qos {
    /// One capture (pcapng or pcap; - is standard input), or two: the first where packets leave,
    /// the second where they arrive
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// An interface to watch, or two of them
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["files", "between", "assume"])]
    interface: Vec<String>,
    /// The second point on another host: a command that writes its capture there, as it goes, to
    /// standard output
    #[arg(long, value_name = "COMMAND", requires = "interface", help_heading = LIVE)]
    peer: Option<String>,
    /// Two interfaces of one file, by name or number from 0, as the two points
    #[arg(long, value_name = "A,B", value_delimiter = ',', num_args = 1)]
    between: Vec<String>,
    /// Only packets that a filter as of tcpdump lets through, pcap-filter(7)
    #[arg(short, long, value_name = "FILTER")]
    filter: Option<String>,
    /// Show only flows whose name has TEXT in it, such as 192.0.2.1:5004
    #[arg(long, value_name = "TEXT", help_heading = OUTPUT)]
    flow: Option<String>,
    /// Show so many rows, those with the most packets; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = OUTPUT)]
    top: usize,
    /// Show each flow by itself, however few packets it has
    #[arg(long, help_heading = OUTPUT)]
    ungrouped: bool,
    /// Everything that is known of each flow
    #[arg(short, long, help_heading = OUTPUT)]
    verbose: bool,
    /// Print one JSON object, live one each interval
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Print a row for each flow, as comma-separated values with a header
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    csv: bool,
    /// With --csv: a row for each flow and interval instead
    #[arg(long, requires = "csv", help_heading = OUTPUT)]
    series: bool,
    /// Write a report to FILE: one page with plots
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    html: Option<PathBuf>,
    /// The width of an interval over time, and how often live output comes
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, default_value = "1s")]
    #[arg(help_heading = OUTPUT)]
    interval: Span,
    /// Ports whose UDP is RTP; 'auto': what looks like it; 'none'
    #[arg(long, value_name = "PORT,…", value_parser = rtp, default_value = "auto")]
    #[arg(help_heading = PACKETS)]
    rtp: RtpArgument,
    /// The clock rate of an RTP payload type in Hz, such as 96=48000, or of all without a fixed one
    #[arg(long, value_name = "TYPE=HZ", value_parser = rtp_clock, help_heading = PACKETS)]
    rtp_clock: Vec<(Option<u8>, u32)>,
    /// Where packets have a sequence number
    #[arg(long, value_name = "WHERE", help_heading = PACKETS)]
    sequence: Vec<Pattern>,
    /// Bytes of what packets carry that they are told apart by
    #[arg(long, value_name = "BYTES", default_value_t = 32, help_heading = PACKETS)]
    identity_bytes: usize,
    /// Which way packets go between the two points [default: told from each flow's packets]
    #[arg(long, value_enum, value_name = "WAY", help_heading = PACKETS)]
    direction: Option<Direction>,
    /// Time to wait for a packet or an answer
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, default_value = "2s")]
    #[arg(help_heading = PACKETS)]
    timeout: Span,
    /// The bound of times that have none, if you know it: for the first file, and the second
    #[arg(long, value_name = "SPAN,…", value_delimiter = ',', num_args = 1)]
    #[arg(value_parser = parse::not_negative, help_heading = PACKETS)]
    assume: Vec<Span>,
    /// Follow packets from the driver to the application; takes cap_bpf and cap_perfmon
    #[arg(long, requires = "interface", help_heading = LIVE)]
    layers: bool,
    /// End after so long
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, help_heading = LIVE)]
    #[arg(conflicts_with = "files")]
    duration: Option<Span>,
    /// Flows remembered at a time: each takes up to 500 KiB
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = MEMORY)]
    max_flows: usize,
    /// Packets remembered until they pass the other point: each takes some 200 bytes; with --layers,
    /// requests until they are answered: some 400
    #[arg(long, value_name = "N", default_value_t = 500_000, help_heading = MEMORY)]
    max_waiting: usize,
    #[command(flatten)]
    page: Page,
}

const OUTPUT: &str = "What is shown";
const PACKETS: &str = "What is known of the packets";
const LIVE: &str = "Live";
const MEMORY: &str = "Memory";

/// `--direction`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum Direction {
    /// From the first point to the second
    Forward,
    /// From the second to the first
    Backward,
}

/// `--rtp`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RtpArgument(RtpChoice);

fn rtp(text: &str) -> Result<RtpArgument, String> {
    let choice = match text {
        "auto" => RtpChoice::Auto,
        "none" => RtpChoice::Never,
        ports => {
            let port = |port: &str| {
                port.parse().map_err(|_| format!("'{port}' is not a port, 'auto' or 'none'"))
            };
            RtpChoice::Ports(ports.split(',').map(port).collect::<Result<_, _>>()?)
        }
    };
    Ok(RtpArgument(choice))
}

fn rtp_clock(text: &str) -> Result<(Option<u8>, u32), String> {
    let (kind, hz) = match text.split_once('=') {
        Some((kind, hz)) => {
            let wrong = || format!("'{kind}' is not a payload type, 0 to 127");
            (Some(kind.parse::<u8>().ok().filter(|kind| *kind < 128).ok_or_else(wrong)?), hz)
        }
        None => (None, text),
    };
    let rate = hz.parse().ok().filter(|hz| *hz > 0);
    Ok((kind, rate.ok_or_else(|| format!("'{hz}' is not a clock rate in Hz"))?))
}

fn nanos(span: Span) -> i64 {
    span.as_nanos_i64()
}

impl Qos {
    fn options(&self, points: usize) -> Options {
        let mut clocks = Clocks::default();
        for (kind, hz) in &self.rtp_clock {
            match kind {
                Some(kind) => drop(clocks.of_type.insert(*kind, *hz)),
                None => clocks.other = Some(*hz),
            }
        }
        Options {
            points,
            rtp: self.rtp.0.clone(),
            clocks,
            patterns: self.sequence.clone(),
            way: self.direction.map(|direction| match direction {
                Direction::Forward => Way::Forward,
                Direction::Backward => Way::Backward,
            }),
            timeout_ns: nanos(self.timeout),
            bin_ns: nanos(self.interval).max(1),
            most_flows: self.max_flows,
            most_waiting: self.max_waiting,
            identity_bytes: self.identity_bytes,
        }
    }

    /// Leaves the flows and groups in the report that are to be shown.
    fn choose(&self, report: &mut Report, most: usize) -> More {
        if self.ungrouped || self.csv {
            report.groups.clear();
        }
        if let Some(text) = &self.flow {
            report.groups.retain(|group| group.name.contains(text.as_str()));
            report.flows.retain(|flow| flow.name.contains(text.as_str()));
            if report.groups.is_empty() && report.flows.is_empty() {
                let text = format!("no flow has '{text}' in its name (--flow)");
                report.notes.push(Note { severity: Severity::Warning, text });
            }
        }
        let shown: HashSet<String> = report.groups.iter().map(|group| group.name.clone()).collect();
        report.flows.retain(|flow| flow.group.as_ref().is_none_or(|group| !shown.contains(group)));
        let mut more = More::default();
        if !self.json && !self.csv && !self.ungrouped && self.top > 0 {
            fold(report, &mut more);
        }
        let mut packets: Vec<u64> = report.flows.iter().map(|flow| flow.packets).collect();
        packets.extend(report.groups.iter().map(|group| group.packets));
        let most = match self.top {
            0 => most,
            top => top.min(most),
        };
        if packets.len() <= most {
            return more;
        }
        packets.sort_unstable_by_key(|packets| Reverse(*packets));
        // Of those that have as many packets as the last that is shown the first ones are.
        let least = packets.get(most.saturating_sub(1)).copied().unwrap_or(u64::MAX);
        let mut left = packets.iter().take(most).filter(|packets| **packets == least).count();
        let mut keep = |packets: u64, flows: u64| {
            let last = packets == least && left > 0 && most > 0;
            left -= usize::from(last);
            let keep = packets > least || last;
            if !keep {
                more.add(flows, packets);
            }
            keep
        };
        report.groups.retain(|group| keep(group.packets, group.flows));
        report.flows.retain(|flow| keep(flow.packets, 1));
        more
    }
}

/// Flows that are not shown.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct More {
    flows: u64,
    packets: u64,
    /// Packets of the one that has the most.
    most: u64,
}

impl More {
    fn add(&mut self, flows: u64, packets: u64) {
        self.flows += flows;
        self.packets += packets;
        self.most = self.most.max(packets);
    }
}

/// Flows of so few packets that there is nothing to say of them are not shown, where there are
/// many of them and others besides.
fn fold(report: &mut Report, more: &mut More) {
    let idle = |flow: &FlowReport| {
        flow.packets < FEW
            && flow.seen.iter().flatten().all(|seen| seen.rtt.is_empty())
            && flow.path.as_ref().is_none_or(|path| path.way.is_none())
    };
    let idlers = report.flows.iter().filter(|flow| idle(flow)).count();
    let others = report.flows.len() - idlers + report.groups.len();
    if idlers <= 3 || others == 0 {
        return;
    }
    report.flows.retain(|flow| {
        let idle = idle(flow);
        if idle {
            more.add(1, flow.packets);
        }
        !idle
    });
}

/// Results of the analysis.
struct Found {
    engine: Engine,
    names: Vec<String>,
    /// Oddities of the input, each with how serious it is.
    notes: Vec<Note>,
    layers: Option<truechimer_qos::LayersReport>,
    /// Hosts that the packets were captured at, in words.
    hosts: String,
}

/// Runs the command.
pub fn run(args: &Qos, out: &mut dyn Write) -> Ended {
    if args.files.is_empty() && args.interface.is_empty() {
        return Err(Failure::Said(
            "nothing to look at: name a capture, or two, or an interface with -i".into(),
        ));
    }
    if args.peer.is_some() && args.interface.len() != 1 {
        return Err(Failure::Said("--peer is the second point: one interface with -i".into()));
    }
    if args.interface.len() > 2 {
        return Err(Failure::Said("-i: one interface, or two".into()));
    }
    if !args.between.is_empty() && (args.between.len() != 2 || args.files.len() != 1) {
        return Err(Failure::Said(
            "--between takes one file, and two interfaces in it: A,B".into(),
        ));
    }
    if let Some(path) = &args.html {
        ready(path)?;
    }
    if args.interface.is_empty() {
        return tell(args, &files::read(args)?, None, out);
    }
    let clock = args.html.as_ref().map(|_| Watch::begin(&args.page));
    tell(args, &live::watch(args, out)?, clock, out)
}

/// Says what came of it; `clock` was watched meanwhile.
fn tell(args: &Qos, found: &Found, clock: Option<Watch>, out: &mut dyn Write) -> Ended {
    let mut report = Report::of(&found.engine, &found.names);
    report.layers.clone_from(&found.layers);
    report.notes.extend(found.notes.iter().cloned());
    report.notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
    let totals = found.engine.totals();
    let more = args.choose(&mut report, usize::MAX);
    if let Some(path) = &args.html {
        let mut page = page::page(&report, &found.engine, &totals, &program::line());
        page = page.fact("host", &found.hosts);
        if let Some(clock) = clock {
            page = page.fact("interface", &args.interface.join(", "));
            page = page.fact("clock", &clock.told());
        }
        save_report(path, &page)?;
    }
    if args.json {
        writeln!(out, "{}", show::json(&report)?)?;
    } else if args.csv && args.series {
        csv::series(&report, &found.engine, out)?;
    } else if args.csv {
        csv::flows(&report, out)?;
    } else {
        screen::report(&report, more, args.verbose, out)?;
    }
    let seen = report.points.iter().any(|point| point.packets > 0) || report.layers.is_some();
    Ok(Outcome::of(seen && !wrong(&report, &totals)))
}

/// True if a clock must be wrong.
fn wrong(report: &Report, totals: &Totals) -> bool {
    let problem = report.notes.iter().any(|note| note.severity == Severity::Problem);
    problem || totals.ways.iter().any(|way| way.negative > 0)
}
