//! `truechimer restamp`: the times of a capture, worked out anew.

mod files;
mod list;
mod others;
mod scan;
mod stamper;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use truechimer::Clock;
use truechimer_pcapng::records::RESTAMPED;
use truechimer_pcapng::{
    Block, Blocks, Content, Converted, PacketBlock, Pcap, Section, Torn, comment, edit,
};
use truechimer_time::{Rate, Span};

use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{parse, show};

use files::Rewritten;
use list::List;
use others::{ClockLog, Conditions, Looks, Others};
use scan::{Found, Scanned};
use stamper::{Anew, By, Stampers};

/// Options of `truechimer restamp`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Packets that 'truechimer capture' took bear the raw count at which they passed, and the file holds
every state of the clock meanwhile. From these the times are worked out again: with the replay log
of the daemon (truechimer run --replay-log) that kept the clock, also by what it knew afterwards.
Of these packets only times and the records beside them change; all else stays as it is, byte for
byte. Those without a count keep their times.

Packets of others (tcpdump, dumpcap, a card with a recorder of its own, in pcapng or pcap) have
stamps of some clock: UTC, TAI (37 s ahead), or a card's that runs freely. The file itself may tell
what true time was: by NTP exchanges that passed the interface, within the root distance that their
servers claim, and with --apart by packets that an interface of a known time saw as well; or a log
of the clock that stamped does (--clock, kept by 'truechimer capture check --clock-log'). From these
and the limits of the clock's rate each packet gets its time in UTC and a bound, and a record that
keeps its first stamp; their interfaces get a comment that says by what. Interfaces of which nothing
tells keep their times: the summary says which, and what would. A capture on an NTP server itself
may see requests after the server's own stamp: do not go by those.

What bounds of others cover: servers are believed while they agree. Where they contradict each
other, or themselves, the clock was stepped or one is wrong: packets between the exchanges around
that have a bound that covers all that is said, and the summary counts them. Not covered are servers
that are wrong alike, or alone in their part of the file (whoever can put packets into the capture
can put any time there); clocks that were slewed faster than --max-rate-ppm, as chronyd does (up to
83333 unless its maxslewrate is less); and steps that are smaller than what that rate leaves open
from one exchange to the next (18 ms in 16 s).

--by recorded   by the hands that were used at the time: gives the same file again
--by best       by all hands before and after each packet: the time that none of them excludes,
                and a bound that is no larger, unless the file's own is refuted; where hands
                contradict each other it covers both, and the summary says so

OUT may be FILE itself: it is replaced when all is written.

Columns of --list: the packet's number; its time, and the bound of that time's error ('-': nothing
is promised); what that is worth, and how it was captured; 'moved': by how much the time is later
(+) or earlier (-) than in the file, '=' the same; the raw count, the counter's epoch, and the
number of the hand (the state of the clock) that the time is by.

--comments makes bounds fields of Wireshark (truechimer.bound, see 'truechimer extcap --help').

Examples:
  truechimer restamp --list day.pcapng
  truechimer restamp --log day.log -o better.pcapng day.pcapng
  truechimer restamp --page /run/truechimer/clock -o better.pcapng now.pcapng
  truechimer restamp --by recorded --comments -o shown.pcapng day.pcapng

Exit status: 0, or 2 on an error.")]
pub struct Restamp {
    /// The capture, in pcapng; pcap of others
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the capture with its new times to OUT; - is standard output [default: only say what
    /// would change]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Take the hands in this replay log of the daemon's as well
    #[arg(long, value_name = "REPLAY_LOG")]
    pub log: Option<PathBuf>,
    /// Take the present hand of this clock page as well
    #[arg(long, value_name = "PATH")]
    pub page: Option<PathBuf>,
    /// By which hands [default: best]
    #[arg(long, value_name = "HOW", value_enum)]
    pub by: Option<How>,
    /// Say each packet's bound, clock, method and count in a comment, for Wireshark; those that the
    /// file has are always kept true
    #[arg(long, requires = "output")]
    pub comments: bool,
    /// Packets of others: two interfaces that saw one packet saw it no farther apart than this, so
    /// that one of a known time tells the other's
    #[arg(long, value_name = "SPAN", value_parser = parse::positive, help_heading = OTHERS)]
    pub apart: Option<Span>,
    /// The clock that stamped an interface's packets is the system clock or the card's in this clock
    /// log, which 'truechimer capture check --clock-log' wrote meanwhile; NAME may be its number
    #[arg(long, value_name = "NAME=system|card:FILE", help_heading = OTHERS)]
    pub clock: Vec<ClockLog>,
    /// The clock that stamped them is within so many ppm of its nominal rate, slews and all
    /// [default: 1100]
    #[arg(long, value_name = "PPM", value_parser = parse::positive_rate, help_heading = OTHERS)]
    pub max_rate_ppm: Option<Rate>,
    /// The rate of that clock is within so many ppm of its average in the file: for one that nobody steers
    /// [default: nothing is taken for granted]
    #[arg(long, value_name = "PPM", value_parser = parse::positive_rate, help_heading = OTHERS)]
    pub max_wander_ppm: Option<Rate>,
    /// Print a line for each packet; without --by, --log and --page with the times in the file
    #[arg(long)]
    pub list: bool,
    /// Print JSON: an object a line for each packet (with --list), and the summary
    #[arg(long)]
    pub json: bool,
}

const OTHERS: &str = "Captures of others";

/// By which hands.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Those that were used at the time
    Recorded,
    /// All there are
    Best,
}

/// Runs the command.
pub fn run(args: &Restamp, out: &mut dyn Write) -> Ended {
    let name = args.file.display().to_string();
    let by = match args.by {
        Some(How::Recorded) if args.log.is_some() || args.page.is_some() => {
            let why = "--by recorded takes no hands but those in the file; leave out --log, --page";
            return Err(Failure::Said(why.to_owned()));
        }
        Some(How::Recorded) => By::Recorded,
        None if args.list && args.log.is_none() && args.page.is_none() => By::Nothing,
        _ => By::Best,
    };
    let standard = args.output.as_deref() == Some(Path::new("-"));
    if standard && (args.list || args.json) {
        let why = "standard output cannot take both the capture and what is said of it; name a \
                   file with -o";
        return Err(Failure::Said(why.to_owned()));
    }
    let conditions =
        Conditions { apart: args.apart, rate: args.max_rate_ppm, wander: args.max_wander_ppm };
    let mut looks = Looks::new(conditions);
    let scanned = scan::scan(open(&args.file)?, &name, &mut looks)?;
    args.clock.iter().try_for_each(|log| looks.log(log))?;
    let others = looks.solve();
    if let (Some(why), true) = (scan::nothing(&scanned, &others), by != By::Nothing) {
        return Err(Failure::new(name, why));
    }
    let mut stampers = Stampers::new(&scanned, by);
    if let Some(log) = &args.log {
        stampers.log(log)?;
    }
    if let Some(page) = &args.page {
        let clock = Clock::open_at(page).map_err(|why| Failure::Said(why.to_string()))?;
        stampers.page(&clock)?;
    }
    let mut written = args.output.as_deref().map(Rewritten::create).transpose()?;
    let mut out = BufWriter::new(out);
    let mut list = args.list.then(|| List::new(args.json));
    let job = Job { name: &name, scanned: &scanned, by, comments: args.comments };
    let mut makers = (stampers, others);
    let torn = job.go(open(&args.file)?, &mut makers, written.as_mut(), &mut list, &mut out)?;
    let output = written.map(Rewritten::finish).transpose()?;
    let (stampers, others) = makers;
    let summary = list::Summary::new(&stampers, &scanned, &others, torn, output);
    if standard {
        // The capture has standard output for itself.
        summary.write(&mut std::io::stderr().lock())?;
    } else if args.json {
        writeln!(out, "{}", show::json(&summary)?)?;
    } else {
        if args.list {
            writeln!(out)?;
        }
        summary.write(&mut out)?;
    }
    out.flush()?;
    Ok(Outcome::Good)
}

/// Bytes of a capture as pcapng, whichever format it is of.
fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    let file = File::open(path).map_err(|why| Failure::new(path.display(), why))?;
    // Read twice: a pipe would be empty by then.
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return Err(Failure::new(path.display(), "not a plain file; it is read twice"));
    }
    let mut file = BufReader::with_capacity(1 << 18, file);
    let head = file.fill_buf().map_err(|why| Failure::new(path.display(), why))?;
    if !Pcap::is_one(head) {
        return Ok(Box::new(file));
    }
    let pcap = Pcap::new(file).map_err(|why| Failure::new(path.display(), why))?;
    Ok(Box::new(Converted::new(pcap)))
}

/// The second reading of a file.
struct Job<'a> {
    name: &'a str,
    scanned: &'a Scanned,
    by: By,
    /// True if packets get comments that have none.
    comments: bool,
}

impl Job<'_> {
    fn go(
        &self,
        input: impl Read,
        makers: &mut (Stampers, Others),
        mut written: Option<&mut Rewritten>,
        list: &mut Option<List>,
        out: &mut dyn Write,
    ) -> Result<Option<Torn>, Failure> {
        let (mut blocks, mut section) = (Blocks::new(input), Section::new());
        let mut copy = Vec::new();
        let failed = |why| Failure::new(self.name, why);
        while blocks.advance().map_err(failed)? {
            // What the scan did not see was written since.
            let Some(block) = blocks.block().filter(|b| b.number <= self.scanned.blocks) else {
                break;
            };
            let content = section.take(&block).map_err(failed)?;
            copy.clear();
            copy.extend_from_slice(block.bytes);
            match content {
                Content::Packet(packet) => {
                    let found = scan::examine(&block, packet.options).map_err(failed)?;
                    let before = section.nanos(&packet);
                    let anew = self
                        .packet((&block, &section), &packet, &found, makers, &mut copy)
                        .map_err(|what| failed(block.damaged(what)))?;
                    if let Some(list) = list {
                        list.packet(before, anew.as_ref(), &found, out)?;
                    }
                }
                Content::Interface(number, options) => {
                    let found = scan::examine(&block, options).map_err(failed)?;
                    let place = (section.number(), number);
                    makers.0.changes(place, &found.changes);
                    if let (Some(text), true) = (makers.1.comment(place), self.by == By::Best) {
                        files::describe(&mut copy, block.order, options.begin(), &text)
                            .map_err(|what| failed(block.damaged(what)))?;
                    }
                }
                _ => {}
            }
            if let Some(written) = &mut written {
                written.block(&copy)?;
            }
        }
        Ok(blocks.torn())
    }

    /// New time of a packet, which is put into the copy of its block; `None` if it keeps its own.
    fn packet(
        &self,
        (block, section): (&Block<'_>, &Section),
        packet: &PacketBlock<'_>,
        found: &Found,
        (stampers, others): &mut (Stampers, Others),
        copy: &mut Vec<u8>,
    ) -> Result<Option<Anew>, String> {
        let place = (section.number(), packet.interface);
        stampers.changes(place, &found.changes);
        let old = found.packet.as_ref().map(|(_, record)| record);
        let is_ours = old.is_some_and(|record| record.method != RESTAMPED);
        let (Some(before), Some(interface)) =
            (section.nanos(packet), section.interface(packet.interface))
        else {
            stampers.foreign();
            return Ok(None);
        };
        let (anew, clock) = match old {
            Some(record) if is_ours => {
                (Some(stampers.stamp(place, record, before)), stampers.clock(place))
            }
            _ if self.by == By::Best && found.unknown == 0 => {
                (others.stamp(place, old, Some(before)), None)
            }
            // As it is.
            _ => (old.map(|record| Anew { unix_ns: before, record: *record }), None),
        };
        let Some(anew) = anew else {
            stampers.foreign();
            return Ok(None);
        };
        if !is_ours {
            stampers.restamped(old, &anew, before);
        }
        files::put(copy, block, packet.ticks_at, anew.unix_ns, interface.resolution)?;
        let begin = packet.options.begin();
        let record = anew.record.encode();
        match &found.packet {
            // All else stays, whatever it is.
            Some((at, _)) => copy
                .get_mut(*at..at + record.len())
                .ok_or("no room for its record")?
                .copy_from_slice(&record),
            None => edit::put_record(copy, block.order, begin, &record)?,
        }
        let text = comment::text(&anew.record, clock.as_deref());
        comment::put(copy, block.order, begin, &text, self.comments)?;
        Ok(Some(anew))
    }
}

#[cfg(test)]
mod tests;
