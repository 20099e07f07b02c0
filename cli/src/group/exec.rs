//! `truechimer group exec`: a program that was not made for it reads the group's clock.

mod reach;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use truechimer_group_agent::config;
use truechimer_group_client::{Where, directories};
use truechimer_time::Span;

use super::{Place, Wait, ask};
use truechimer_command::show;
use truechimer_command::{Ended, Failure};

/// The file name of the library that is preloaded.
const LIBRARY: &str = "libtruechimer_group.so";
/// Names a library elsewhere.
const LIBRARY_VARIABLE: &str = "TRUECHIMER_GROUP_LIBRARY";

/// Options of `truechimer group exec`.
#[derive(Args, Debug)]
#[command(after_help = "\
PROGRAM runs with libtruechimer_group.so preloaded: what libc tells it of the time (clock_gettime,
gettimeofday, time, ftime, timespec_get, syscall) is the group's, and what it waits for on that
clock comes when it should. Monotonic clocks, CPU clocks, and the stamps of files and packets stay
the host's. Each read is a round, in the reading thread's own count of them: the replicas' threads
are the same where each has created its threads and child processes in the same order. With --reads
now the program is no replica, and may read when it pleases, in any number of threads and processes:
each read gives the group's time at present, later than what any such read gave that had ended
before this one began, at whichever member (of a database's primary and its standby, say). With
--reads delivery the program takes its input from 'truechimer group front', and its clock shows the
agreed time of the request that it is processing: reads are free then, and may be in any order.

Nothing that this program can do reaches static programs (most of Go's, and Rust's for musl), system
calls that a program makes by itself, and setuid programs. It says so if PROGRAM is one of them; with
--reads delivery no front can follow it, unless it only starts another one, or is a server in Go
that uses the package truechimer/group.

PROGRAM's first read waits for the programs of the other members (--together), so that all begin
with the same rounds, whatever was read at one of them before, and none is older than their
starts. If it begins while others are running it says so: it lacks what they have read.

Outside the group's primary component there is no time: reads wait (--outside block), or end the
program with status 75 (--outside exit, or --patience). It is never given one that was not agreed.
Rounds that were agreed on since the program began are still read, as all replicas read them,
however old they are. Nor may it go on as if nothing had been, once the others may have gone on
without it: then its next read ends it with status 75, to be started anew as any replica that has
failed. With --outside resume it goes on all the same, at the group's present rounds: for programs
whose state does not depend on the times that they have read, as it may differ from the other
replicas' from then on. With --reads now there is nothing to miss: it goes on.

In the environment of a program that PROGRAM executes, TRUECHIMER_GROUP_OFF=1 leaves it out.

Examples:
  truechimer group exec --group ledger -- python3 service.py
  truechimer group exec --group ledger --outside exit --patience 10s -- ./server --port 8000
  truechimer group exec --group cache --reads delivery -- redis-server --save ''
  truechimer group exec --group db --reads now -- postgres -D /var/lib/postgresql/15/main

Exit status: PROGRAM's; 2 if it could not be started; 75 without an agreed time; 78 if the settings
in the environment were changed to something else.")]
pub struct Options {
    /// The group whose clock it reads
    #[arg(long, value_name = "NAME", value_parser = config::name)]
    group: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    wait: Wait,
    /// Make sure that the group's mode is this: active, semi-active or passive
    #[arg(long, value_name = "MODE", value_parser = ["active", "semi-active", "passive"])]
    mode: Option<String>,
    /// Value that a read gives
    #[arg(long, value_enum, default_value_t = Reads::Round)]
    reads: Reads,
    /// Make the monotonic clocks the group's as well: for programs that make decisions by them, not
    /// for runtimes that read them at random
    #[arg(long, conflicts_with = "front")]
    monotonic: bool,
    /// With the programs of how many members PROGRAM starts, itself counted, but not those that are
    /// running already: its first read waits
    /// until they have started, and all begin with the same rounds, now; 1: at once, by itself; at
    /// most as many as the group has members
    /// [default: of all live members, or of those that start within the agents' --gather, 1s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    together: Option<u8>,
    /// Behaviour of reads outside the primary component
    #[arg(long, value_enum, default_value_t = Outside::Block)]
    outside: Outside,
    /// End the program if a read has had no value for so long, as in 10s (a bare number: seconds)
    /// [default: wait for ever]
    #[arg(long, value_name = "SPAN", value_parser = patience)]
    patience: Option<Duration>,
    /// CLOCK_TAI − CLOCK_REALTIME in seconds, the same at all replicas (the kernel's own, which may
    /// differ between hosts, is not asked)
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u16).range(0..=1000))]
    tai_offset: u16,
    /// Clock that programs have which PROGRAM executes
    #[arg(long, value_enum, default_value_t = Children::Inherit)]
    children: Children,
    /// Programs that keep the host's clocks wherever they come up
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = program_name)]
    opt_out_names: Vec<String>,
    /// The front's page [default: DIR/NAME/ID.front, as the agent's socket]
    #[arg(long, value_name = "FILE")]
    front: Option<PathBuf>,
    /// Do not say on standard error when a read waits for the group's time, and when it goes on
    #[arg(long)]
    quiet: bool,
    /// The library to preload [default: $TRUECHIMER_GROUP_LIBRARY, else libtruechimer_group.so
    /// beside this program or in ../lib/truechimer or ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", num_args = 1..)]
    program: Vec<OsString>,
}

/// Value that a read gives.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    /// A round of the group for each read: the k-th of each thread is the same at all replicas
    Round,
    /// The group's time at present: for programs that are no replicas
    Now,
    /// The agreed time of the request that the program is processing
    Delivery,
}

/// Behaviour of reads outside the primary component.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Outside {
    /// Wait until this member is back; end the program if the others may have gone on without it
    Block,
    /// End the program
    Exit,
    /// Wait, and go on at the group's present rounds: for programs without state
    Resume,
}

/// Clocks of programs that the program executes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Children {
    /// Read the group's clock
    Inherit,
    /// Keep the host's clocks
    None,
}

/// Runs the command. Comes back only if the program could not be started.
pub fn run(options: &Options, _out: &mut dyn Write) -> Ended {
    let library = library(options.library.as_deref())?;
    let mut words = options.program.iter();
    let Some(name) = words.next() else {
        return Err(Failure::Said("no program is named after --".to_owned()));
    };
    let path = reach::found(name).ok_or_else(|| {
        Failure::new(name.display(), "no such program: name one, by its path or in $PATH")
    })?;
    for limit in reach::limits(&path) {
        // It may be one that only starts another program, which can be followed.
        let unseen = "; a front cannot follow it, and says so at its first request, unless it is one in Go that uses the \
                      package truechimer/group";
        let unseen = if options.reads == Reads::Delivery { unseen } else { "" };
        warn(&format!("{}: {limit}{unseen}", path.display()));
    }
    let mut command = Command::new(&path);
    command.arg0(name).args(words);
    if options.reads == Reads::Now && options.together.is_some() {
        return Err(Failure::new("--together", "programs with --reads now start with nobody"));
    }
    set_environment(options, &library, &mut command)?;
    let error = command.exec();
    Err(Failure::new(path.display(), error))
}

fn warn(text: &str) {
    // Nobody to tell if standard error is gone.
    let _ = writeln!(std::io::stderr(), "truechimer: {}", show::plain(text));
}

fn set_environment(
    options: &Options,
    library: &Path,
    command: &mut Command,
) -> Result<(), Failure> {
    for (name, _) in env::vars_os() {
        // What is left of another such command above this one.
        let ours = name.to_str().is_some_and(|name| name.starts_with("TRUECHIMER_GROUP"));
        if ours && name != truechimer_group_client::VARIABLE {
            command.env_remove(name);
        }
    }
    let mut preload = library.as_os_str().to_owned();
    // ld.so takes either for what stands between two of them.
    if preload.as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(Failure::new(
            library.display(),
            "a path with a blank or a colon cannot be preloaded; put the library elsewhere and \
             name it with --library",
        ));
    }
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload);
    command.env("TRUECHIMER_GROUP", &options.group);
    let place = Where {
        directory: options.place.directory.clone(),
        group: options.group.clone(),
        member: options.place.member,
    };
    match options.reads {
        Reads::Round | Reads::Now => {
            let place = ask::one_awaited(&options.place, Some(&options.group), options.wait.end())?;
            if let Some(together) = options.together {
                are_so_many(together, &options.place, &options.group)?;
            }
            let socket = place
                .socket()
                .map_err(|why| Failure::new(format!("group '{}'", options.group), why))?;
            command.env("TRUECHIMER_GROUP_SOCKET", absolute(&socket)?);
            let reads = if options.reads == Reads::Now { "now" } else { "round" };
            command.env("TRUECHIMER_GROUP_READS", reads);
        }
        Reads::Delivery => {
            let front = match &options.front {
                Some(front) => front.clone(),
                None if place.member.is_some() => front(&place)?,
                None => {
                    let end = options.wait.end();
                    front(&ask::one_awaited(&options.place, Some(&options.group), end)?)?
                }
            };
            command.env("TRUECHIMER_GROUP_FRONT", absolute(&front)?);
            command.env("TRUECHIMER_GROUP_READS", "delivery");
        }
    }
    let outside = match options.outside {
        Outside::Block => "block",
        Outside::Exit => "exit",
        Outside::Resume => "resume",
    };
    let children = match options.children {
        Children::Inherit => "inherit",
        Children::None => "none",
    };
    command.env("TRUECHIMER_GROUP_OUTSIDE", outside);
    command.env("TRUECHIMER_GROUP_CHILDREN", children);
    command.env("TRUECHIMER_GROUP_MONOTONIC", if options.monotonic { "1" } else { "0" });
    command.env("TRUECHIMER_GROUP_TAI", options.tai_offset.to_string());
    command.env("TRUECHIMER_GROUP_FAMILY", format!("{:016x}", family()?));
    if let Some(mode) = &options.mode {
        command.env("TRUECHIMER_GROUP_MODE", mode);
    }
    if let Some(patience) = options.patience {
        command.env("TRUECHIMER_GROUP_PATIENCE", patience.as_millis().to_string());
    }
    if let Some(together) = options.together {
        command.env("TRUECHIMER_GROUP_TOGETHER", together.to_string());
    }
    if options.quiet {
        command.env("TRUECHIMER_GROUP_QUIET", "1");
    }
    if !options.opt_out_names.is_empty() {
        command.env("TRUECHIMER_GROUP_EXCEPT", options.opt_out_names.join(","));
    }
    Ok(())
}

/// Makes sure that the group has so many members: it would be waited for them for ever, or begun
/// without them.
fn are_so_many(together: u8, place: &Place, group: &str) -> Result<(), Failure> {
    let reports = ask::reports(place, Some(group))?;
    let members = reports.iter().map(|found| found.report.group.members.len()).max();
    match members.filter(|members| *members < usize::from(together)) {
        Some(members) => Err(Failure::new(
            format!("--together {together}"),
            format!("group '{group}' has {members} members: give at most {members}"),
        )),
        None => Ok(()),
    }
}

/// The program may change its folder before it, or a program that it executes, attaches.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|why| Failure::new(path.display(), why))
}

/// Where the front puts its page: it may start later, so it need not be there.
fn front(place: &Where) -> Result<PathBuf, Failure> {
    let named = |directory: &Path, file: &str| directory.join(&place.group).join(file);
    let searched = match &place.directory {
        Some(directory) => vec![directory.clone()],
        None => directories(),
    };
    if let Some(member) = place.member {
        let file = format!("{member}.front");
        let there = searched.iter().map(|directory| named(directory, &file));
        let first = || searched.first().map(|directory| named(directory, &file));
        let group_is_there = |path: &PathBuf| path.parent().is_some_and(Path::is_dir);
        return there.into_iter().find(group_is_there).or_else(first).ok_or_else(|| {
            Failure::Said("no directory for the group's sockets: name one by --directory".into())
        });
    }
    let socket =
        place.socket().map_err(|why| Failure::new(format!("group '{}'", place.group), why))?;
    Ok(socket.with_extension("front"))
}

/// Which processes belong together, over all that the program executes.
fn family() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|why| Failure::new("/dev/urandom", why))?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

fn library(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let by_environment = || env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    if let Some(path) = named.map(Path::to_owned).or_else(|| by_environment().map(Into::into)) {
        let path = absolute(&path)?;
        return match path.is_file() {
            true => Ok(path),
            false => Err(Failure::new(path.display(), "no such library to preload")),
        };
    }
    let own = env::current_exe().map_err(|why| Failure::new("this program's own path", why))?;
    let places = places(&own);
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        Failure::Said(format!(
            "{LIBRARY} is none of {}: build or install truechimer-group-preload, or name it with \
             --library",
            looked.join(", ")
        ))
    })
}

/// Where the library may be, seen from this program.
fn places(own: &Path) -> Vec<PathBuf> {
    let Some(folder) = own.parent() else { return Vec::new() };
    let above = folder.parent().unwrap_or(folder);
    vec![
        folder.join(LIBRARY),
        above.join("lib/truechimer").join(LIBRARY),
        above.join("lib").join(LIBRARY),
        Path::new("/usr/local/lib/truechimer").join(LIBRARY),
        Path::new("/usr/lib/truechimer").join(LIBRARY),
    ]
}

fn patience(text: &str) -> Result<Duration, String> {
    let span = match text.parse().ok().map(Duration::try_from_secs_f64) {
        Some(seconds) => seconds.ok(),
        None => text.parse().ok().and_then(|span: Span| {
            let ns = u64::try_from(span.as_nanos()).ok()?;
            Some(Duration::from_nanos(ns))
        }),
    };
    match span {
        Some(span) if (0.001..=1e6).contains(&span.as_secs_f64()) => Ok(span),
        _ => Err("must be a span from 1ms to 1000000s, as in 10s".to_owned()),
    }
}

fn program_name(text: &str) -> Result<String, String> {
    match text.is_empty() || OsStr::new(text).to_string_lossy().contains(['/', ',']) {
        true => Err("must be names of programs, without a path".to_owned()),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        for text in ["1.5", "1.5s", "1500ms"] {
            assert_eq!(patience(text), Ok(Duration::from_millis(1500)));
        }
        for wrong in ["", "x", "-1", "-1s", "0", "0s", "nan", "inf", "2e6", "2000000s", "1us"] {
            assert!(patience(wrong).is_err(), "{wrong}");
        }
        assert_eq!(program_name("top"), Ok("top".to_owned()));
        assert!(program_name("/bin/top").is_err() && program_name("").is_err());
    }

    #[test]
    fn the_library_is_looked_for_beside_the_program_first() {
        let places = places(Path::new("/opt/bin/truechimer"));
        assert_eq!(places[0], Path::new("/opt/bin/libtruechimer_group.so"));
        assert_eq!(places[1], Path::new("/opt/lib/truechimer/libtruechimer_group.so"));
    }

    #[test]
    fn families_differ() {
        assert_ne!(family().unwrap(), family().unwrap());
    }
}
