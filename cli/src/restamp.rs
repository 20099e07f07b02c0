//! `truechimer restamp`: the times of a capture, worked out anew.

mod files;
mod list;
mod scan;
mod stamper;

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use truechimer::Clock;
use truechimer_pcapng::{Blocks, Content, Section, Torn, comment};

use truechimer_command::show;
use truechimer_command::{Ended, Failure, Outcome};

use files::Rewritten;
use list::List;
use scan::Scanned;
use stamper::{By, Stampers};

/// Options of `truechimer restamp`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Packets that 'truechimer capture' took bear the raw count at which they passed, and the file holds
every state of the clock meanwhile. From these the times are worked out again: with the replay log
of the daemon (truechimer run --replay-log) that kept the clock, also by what it knew afterwards.
Only times and the records beside them change; all else stays as it is, byte for byte. Packets
without a count, and those of others, keep their times.

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
    /// The capture, in pcapng
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
    /// Print a line for each packet; without --by, --log and --page with the times in the file
    #[arg(long)]
    pub list: bool,
    /// Print JSON: an object a line for each packet (with --list), and the summary
    #[arg(long)]
    pub json: bool,
}

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
    let scanned = scan::scan(open(&args.file)?, &name)?;
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
    let job = Job { name: &name, scanned: &scanned, comments: args.comments };
    let torn = job.go(open(&args.file)?, &mut stampers, written.as_mut(), &mut list, &mut out)?;
    let output = written.map(Rewritten::finish).transpose()?;
    let summary = list::Summary::new(&stampers, &scanned, torn, output);
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

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path).map_err(|why| Failure::new(path.display(), why))?;
    // Read twice: a pipe would be empty by then.
    let plain = file.metadata().is_ok_and(|data| data.is_file());
    match plain {
        true => Ok(BufReader::with_capacity(1 << 18, file)),
        false => Err(Failure::new(path.display(), "not a plain file; it is read twice")),
    }
}

/// The second reading of a file.
struct Job<'a> {
    name: &'a str,
    scanned: &'a Scanned,
    /// Whether packets get comments that have none.
    comments: bool,
}

impl Job<'_> {
    fn go(
        &self,
        input: impl Read,
        stampers: &mut Stampers,
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
                    let place = (section.number(), packet.interface);
                    let found = scan::examine(&block, packet.options).map_err(failed)?;
                    stampers.changes(place, &found.changes);
                    let before = section.nanos(&packet);
                    let resolution = section.interface(packet.interface).map(|i| i.resolution);
                    let anew = match (&found.packet, before) {
                        (Some((_, record)), Some(before)) => {
                            Some(stampers.stamp(place, record, before))
                        }
                        _ => None,
                    };
                    if let (Some(anew), Some((at, old)), Some(resolution)) =
                        (&anew, &found.packet, resolution)
                    {
                        let fits = files::put(&mut copy, &block, *at, old, anew, resolution);
                        if !fits {
                            let why =
                                "the new time cannot be written in the units of its interface";
                            return Err(failed(block.damaged(why)));
                        }
                        let text = comment::text(&anew.record, stampers.clock(place).as_deref());
                        let (order, options) = (block.order, packet.options);
                        comment::put(&mut copy, order, options, &text, self.comments)
                            .map_err(|what| failed(block.damaged(what)))?;
                    } else {
                        stampers.foreign();
                    }
                    if let Some(list) = list {
                        list.packet(before, anew.as_ref(), &found, out)?;
                    }
                }
                Content::Interface(number, options) => {
                    let found = scan::examine(&block, options).map_err(failed)?;
                    stampers.changes((section.number(), number), &found.changes);
                }
                _ => {}
            }
            if let Some(written) = &mut written {
                written.block(&copy)?;
            }
        }
        Ok(blocks.torn())
    }
}

#[cfg(test)]
mod tests;
