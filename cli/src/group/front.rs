//! `truechimer group front`: replicates a program that serves TCP and knows nothing of it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use truechimer_group_agent::{Report, config};
use truechimer_group_client::link::Together;
use truechimer_group_client::{Options as Attachment, Replica};
use truechimer_group_front::{
    AgentRing, Commands, Ended, Front, MOST_READERS, Protocol, ReadOnly, Settings,
};
use truechimer_time::Span;

use super::{Place, Wait, ask};
use truechimer_command::parse::{not_negative, positive};
use truechimer_command::{Ended as Result, Failure, Outcome};
use truechimer_command::{show, signals};

/// Time that the agent has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Options of `truechimer group front`.
#[derive(Args, Debug)]
#[command(after_help = "\
Clients connect to the front of any replica. What they send goes through the group's order, and
each front feeds its own program the same requests in the same order, one at a time, or many at
once to one that answers from an event loop (--event-loop, which suits Redis); the clock
that the program reads meanwhile stands at the agreed time of the request's delivery. The client
gets the answer of the replica whose front it is connected to, once a majority has the request,
and a majority of the programs has given that answer.

On each node (with 'group agent --local 3': three times, with --member and ports of their own):
  truechimer group front --group shop --listen 0.0.0.0:6379 --connect 127.0.0.1:7000
  truechimer group exec --group shop --reads delivery -- redis-server --port 7000

Suited are programs whose answers depend on nothing but the requests and the time of day: event
loops, a thread for each connection, pools of threads, also with fewer threads than connections or
one connection after the other: a request that the program leaves for later is no obstacle to the
others. Not suited are programs that make one connection's request wait for another's (SQL servers
with locks), draw random numbers, or show in their answers what their own timers did.

Fronts compare what their programs write on each connection. A program that differs from a
majority is out: its front ends, the others name it, and its answers reach nobody. So is one that
has left out an answer for --patience. Where no majority agrees all fronts end, and all replicas
have to be started anew from a state that is known. A program that is stuck for --patience while
others go on counts no more until it goes on itself. Without a majority of programs that follow,
whatever the agents do, nobody is answered: clients' connections are closed, the front says whom it
lacks ('group status' as well), and goes on by itself when they are back.

A client that connects while nobody is answered (also before this front is in, and while its member
is outside the majority) waits: it is served if that ends within --patience, else its connection is
closed.

A client whose front or replica dies sees its connection closed, and connects to another one. What
it had asked and got no answer to was done once or not at all. The same goes when a member is
outside the majority, and, at all fronts, when a replica joins. An agent that stands still (stopped,
or without a processor) for --patience, three seconds at least, ends its front, with status 2.

A replica that starts later, or has missed something, joins with the state of another one: that
one's --checkpoint-command writes it to standard output, here --restore-command starts the program
with it from standard input (with $TRUECHIMER_GROUP_FRONT and $TRUECHIMER_FRONT_CONNECT). Without
them it refuses, and all replicas have to be started anew. The group begins when all replicas'
fronts are there.

With --read-only ADDRESS:PORT there is a second address, for clients that change nothing: what they
ask is asked of this replica's event loop alone, without the group's order. The answer is of the
state after some place of the order, with all that any client was answered --read-only-age before;
the program's clock shows that place's time. It is compared with no other replica's.

Exit status: 0 ended by a signal, 1 this replica cannot go on, 2 error.")]
pub struct Options {
    /// The group; may be left out if this node has one agent and one group only
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    pub group: Option<String>,
    /// Where clients connect
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,
    /// Where this replica's program listens, on this host's loopback
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub connect: SocketAddr,
    /// Number of replicas in all [default: as many as the group has members]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub replicas: Option<u32>,
    /// Write each request's number, agreed time and reply to FILE
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// After how long without requests the time goes on by itself
    #[arg(long, value_name = "SPAN", default_value = "100ms", value_parser = positive)]
    pub tick: Span,
    /// Way in which requests are told apart
    #[arg(long, value_enum, default_value_t = Requests::Auto)]
    pub protocol: Requests,
    /// Condition that replies wait for
    #[arg(long, value_enum, default_value_t = Commit::Majority)]
    pub commit: Commit,
    /// Writes the program's state to standard output, for a replica that joins
    #[arg(long, value_name = "COMMAND")]
    pub checkpoint_command: Option<String>,
    /// Starts the program with the state on standard input, and ends then
    #[arg(long, value_name = "COMMAND")]
    pub restore_command: Option<String>,
    /// Succeeds once the program serves, for one that listens before it does, such as PostgreSQL:
    /// pg_isready -h 127.0.0.1 -p 7000. Asked again until then
    #[arg(long, value_name = "COMMAND")]
    pub ready_command: Option<String>,
    /// After how long a program that is not done with a request is reported, and no longer counted
    /// as one that follows if others are, a client that came while nobody is answered sent away, and
    /// an agent that stands still given up (after three seconds at least)
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = positive)]
    pub patience: Span,
    /// The program answers from one event loop (epoll), and what its other threads do changes no
    /// answer, as with Redis: it gets the requests of many connections at once. The same at all
    /// replicas
    #[arg(long, action = ArgAction::SetTrue)]
    pub event_loop: bool,
    /// Where clients connect whose requests change nothing: they are asked of this replica's program
    /// alone, without the group's order. With --event-loop, and not with --commit none
    #[arg(long, value_name = "ADDRESS:PORT", requires = "event_loop")]
    pub read_only: Option<SocketAddr>,
    /// With RESP, what may be asked there, as GET,MGET,CLIENT|ID [default: Redis' commands that read]
    #[arg(long, value_name = "NAMES", requires = "read_only")]
    pub read_only_commands: Option<Commands>,
    /// Age of the oldest state that may answer there: all that any client was answered so long
    /// before is in it. 0s: all until it asks, at the cost of a round
    #[arg(long, value_name = "SPAN", default_value = "1s", requires = "read_only",
        value_parser = not_negative)]
    pub read_only_age: Span,
    /// Leave the program its own clock: the same order, but not the same time; for comparison. Who
    /// differs is said, but not out
    #[arg(long, action = ArgAction::SetTrue)]
    pub own_clocks: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub wait: Wait,
}

/// Way in which requests are told apart.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Requests {
    /// RESP commands if a connection begins with one, else what comes at once
    Auto,
    /// Lines
    Line,
    /// RESP commands (Redis) and lines; those that come at once (a pipeline) are one request
    Resp,
    /// Bytes that come at once
    Bytes,
}

/// Condition that replies wait for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Commit {
    /// Until a majority has the request, and a majority of the programs gives the same reply
    Majority,
    /// Nothing: a reply may be of a request that only this replica ever had, or one that no other
    /// program gives
    None,
}

/// Runs the command.
pub fn run(options: &Options, out: &mut dyn Write) -> Result {
    let read_only = read_only(options)?;
    let stop = signals::stop()?;
    let place = ask::one_awaited(&options.place, options.group.as_deref(), options.wait.end())?;
    // It takes its time from messages: it waits for no other's start, and what it joins with is
    // its own matter.
    let attachment = Attachment {
        together: Together::Apart,
        silence: Some(duration(options.patience)),
        ..Attachment::default()
    };
    let replica =
        Replica::attach_with(&place, &attachment).map_err(|why| Failure::Said(why.to_string()))?;
    let member = replica.attached().member;
    let socket = place.socket().map_err(|why| Failure::Said(why.to_string()))?;
    let settings = Settings {
        listen: options.listen,
        connect: options.connect,
        replicas: match options.replicas {
            Some(replicas) => replicas as usize,
            None => members(&replica)?,
        },
        page: socket.with_file_name(format!("{member}.front")),
        clock: !options.own_clocks,
        record: options.record.clone(),
        tick: duration(options.tick),
        protocol: match options.protocol {
            Requests::Auto => Protocol::Auto,
            Requests::Line => Protocol::Line,
            Requests::Resp => Protocol::Resp,
            Requests::Bytes => Protocol::Bytes,
        },
        commit: options.commit == Commit::Majority,
        checkpoint_command: options.checkpoint_command.clone(),
        restore_command: options.restore_command.clone(),
        ready_command: options.ready_command.clone(),
        patience: duration(options.patience),
        most_kept: truechimer_group_front::MOST_KEPT,
        event_loop: options.event_loop,
        read_only,
    };
    let page = settings.page.clone();
    let mut front =
        Front::new(settings, Box::new(AgentRing::new(replica))).map_err(Failure::Said)?;
    writeln!(
        out,
        "member {member} of {}: clients on {}, the program's page is {}",
        place.group,
        front.address()?,
        page.display()
    )?;
    if let Some(address) = front.read_only_address()? {
        writeln!(out, "clients that only read on {address}")?;
    }
    out.flush()?;
    let mut say = |line: &str| {
        // There is nobody to tell if that fails.
        let _ = writeln!(out, "{}", show::plain(line));
        let _ = out.flush();
    };
    match front.run(&stop, &mut say) {
        Ok(Ended::Stopped) => Ok(Outcome::Good),
        Ok(Ended::Unfit(why)) => {
            writeln!(out, "this replica cannot go on: {}", show::plain(&why))?;
            Ok(Outcome::Bad)
        }
        Err(why) => Err(Failure::Said(why)),
    }
}

/// Place for requests beside the order, if there is one, and what they may be.
fn read_only(options: &Options) -> std::result::Result<Option<ReadOnly>, Failure> {
    let Some(listen) = options.read_only else { return Ok(None) };
    if options.commit == Commit::None {
        return Err(Failure::new(
            "--read-only answers from what a majority has, and with --commit none nobody asks that",
            "leave out one of the two",
        ));
    }
    let commands = match (options.protocol, &options.read_only_commands) {
        (Requests::Auto, _) => {
            return Err(Failure::new(
                "--read-only goes by what requests are, and --protocol does not say that",
                "give --protocol resp, for which commands are looked at; or line or bytes, if \
                 nothing that comes to that address changes anything",
            ));
        }
        (Requests::Resp, commands) => Some(commands.clone().unwrap_or_default()),
        (_, Some(_)) => {
            return Err(Failure::Said("--read-only-commands needs --protocol resp".into()));
        }
        (_, None) => None,
    };
    let age = duration(options.read_only_age);
    Ok(Some(ReadOnly { listen, age, commands, most: MOST_READERS }))
}

/// Number of members that the group has.
fn members(replica: &Replica) -> std::result::Result<usize, Failure> {
    let status = replica.status(PATIENCE).map_err(|why| Failure::Said(why.to_string()))?;
    let report = status.as_deref().and_then(|status| Report::from_json(status).ok());
    report.map(|report| report.group.members.len()).ok_or_else(|| {
        let why = "say how many replicas there are with --replicas";
        Failure::new("the agent does not say who belongs to the group", why)
    })
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos_i64().max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn said(more: &str) -> std::result::Result<Option<ReadOnly>, Failure> {
        let line = "front --listen 0.0.0.0:1 --connect 127.0.0.1:2 --event-loop";
        let line = line.split(' ').chain(more.split_ascii_whitespace());
        read_only(&Line::try_parse_from(line).unwrap().options)
    }

    #[test]
    fn reads_go_by_what_a_majority_has_and_by_what_requests_are() {
        assert!(said("").unwrap().is_none() && said("--commit none").unwrap().is_none());
        let only = "--read-only 0.0.0.0:3";
        for (more, names) in [("--protocol line", false), ("--protocol resp", true)] {
            let how = said(&format!("{only} {more}")).unwrap().unwrap();
            assert_eq!(
                (how.age, how.commands.is_some(), how.most),
                (Duration::from_secs(1), names, MOST_READERS)
            );
        }
        for wrong in
            ["", "--protocol line --read-only-commands GET", "--protocol resp --commit none"]
        {
            assert!(said(&format!("{only} {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_span_is_a_duration() {
        assert_eq!(duration(Span::from_millis(100)), Duration::from_millis(100));
    }
}
