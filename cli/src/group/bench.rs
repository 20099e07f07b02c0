//! `truechimer group bench`: what readings of a group's clock cost at this member.

mod measure;

use std::io::{self, Write};

use clap::Args;
use truechimer_group::{Rejection, Thread};
use truechimer_group_agent::{Report, config};
use truechimer_group_client::link::{ReadError, Role, Together};
use truechimer_group_client::{Options as Attachment, Replica};
use truechimer_time::Span;

use self::measure::{Figures, Plan};
use super::{Place, ask, screen};
use truechimer_command::parse::positive;
use truechimer_command::show;
use truechimer_command::table::{Side, Table};
use truechimer_command::{Ended, Failure, Outcome};

/// Options of `truechimer group bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
It takes rounds from the group that this member is in: first one reading at a time, of a thread
that is this member's alone, so that it need not wait for others to propose; then several threads
at once, whose rounds all members may propose: nobody does before it is its turn, by default 0.4
ms for each live member of a lower number. The other members keep the values of these as they do
for a program that is slow. If no program is attached it takes the program's place meanwhile and
sends messages, whose readings need no round; else those are left out.

Figures are of this member, with whatever else this machine and the ring do meanwhile.

Lines:
  one round            a reading by a round of the group
  message              a message of our own until it is back, in the group's order
  riding               the first reading of the time that came with a message
  leased               the readings after it
  messages per round   proposals that were delivered for each round, by the agent; 1 is the least
                       for a reading at a time, several threads share messages

Exit status: 0, 1 the group has no time here (outside the majority, say), 2 error (no agent, say).")]
pub struct Options {
    /// The group; may be left out if this node has one agent and one group only
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// Number of readings, of each kind
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub count: u32,
    /// Number of threads that read at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// Time to wait for any one value
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = positive)]
    pub timeout: Span,
    /// Print one JSON object; spans are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Place,
}

/// Where the experiments are that compare.
const EXPERIMENTS: &str = "The experiments that compare this with Corosync alone, without the \
    service, and over fail-overs need a ring of their own: truechimer-lab bench group (make bench).";

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Ended {
    let place = ask::one(&options.place, options.group.as_deref())?;
    let report = ask::report(&place)?;
    if report.phase != "live" {
        return Ok(no_value(&report));
    }
    let family = report.programs.family.as_deref().and_then(|it| u64::from_str_radix(it, 16).ok());
    let alone = family.is_none();
    let attachment = Attachment {
        role: if alone { Role::Program } else { Role::Reader },
        family: family.unwrap_or(0),
        together: Together::Apart,
        ..Attachment::default()
    };
    let replica =
        Replica::attach_with(&place, &attachment).map_err(|why| Failure::Said(why.to_string()))?;
    let plan = Plan {
        count: options.count,
        threads: options.threads,
        patience: options.timeout.as_nanos_i64().unsigned_abs(),
        messages: alone,
        alone: own(&report)?,
    };
    let measured = measure::run(&replica, &plan, || ask::report(&place));
    let figures = match measured {
        Ok(figures) => figures,
        Err(measure::Broken::Asking(why)) => return Err(why),
        Err(measure::Broken::NoValue) => return Ok(no_value(&ask::report(&place)?)),
        Err(measure::Broken::Read(
            ReadError::Late | ReadError::Rejected(Rejection::Outside | Rejection::Missed),
        )) => return Ok(no_value(&ask::report(&place)?)),
        Err(measure::Broken::Read(why)) => {
            let text = format!("group '{}'", report.group.name);
            return Err(Failure::new(text, format!("no value: {why}")));
        }
    };
    if options.json {
        writeln!(out, "{}", show::json(&figures.json(&report))?)?;
    } else {
        write(&report, &figures, out)?;
    }
    Ok(Outcome::Good)
}

/// The thread that is this member's alone.
fn own(report: &Report) -> Result<Thread, Failure> {
    let place = report.group.members.iter().position(|one| *one == report.member);
    place
        .and_then(|index| u8::try_from(index).ok())
        .map(|index| Thread::of_member(index, 0))
        .ok_or_else(|| {
            Failure::Said(format!(
                "node {} is an observer: it takes no part in the rounds that readings are",
                report.member
            ))
        })
}

fn no_value(report: &Report) -> Outcome {
    let why = screen::unwell(report);
    let _ = writeln!(
        io::stderr(),
        "truechimer: group '{}' gave member {} no time: {}",
        report.group.name,
        report.member,
        show::plain(&why)
    );
    Outcome::Bad
}

fn write(report: &Report, figures: &Figures, out: &mut dyn Write) -> io::Result<()> {
    let group = &report.group;
    writeln!(
        out,
        "group {}, member {}: {}, {} members, by {}\n",
        group.name,
        report.member,
        group.mode,
        group.members.len(),
        if report.transport == "local" { "this process alone" } else { "Corosync" },
    )?;
    let columns = ["readings", "p50", "p90", "p99", "most"].map(|name| (name, Side::Right));
    let mut table = Table::new(&[&[("", Side::Left)], &columns[..]].concat());
    for (name, spread) in figures.lines() {
        let spans = [spread.p50, spread.p90, spread.p99, spread.most].map(show::nanos);
        let head = [name, spread.count.to_string()];
        table.row(head.into_iter().chain(spans).collect());
    }
    table.write(out)?;
    writeln!(out)?;
    for (name, rounds) in
        [("one at a time", &figures.single), ("several threads", &figures.several)]
    {
        let per_round = rounds.per_round().map_or_else(|| "-".to_owned(), |n| format!("{n:.3}"));
        writeln!(
            out,
            "{name}: {:.0} rounds per second, {per_round} messages per round",
            rounds.per_second()
        )?;
    }
    if figures.riding.is_none() {
        let text =
            "The program that is attached gets the messages: what they cost was not measured.";
        show::wrapped(text, "", out)?;
    }
    writeln!(out)?;
    show::wrapped(EXPERIMENTS, "", out)
}
