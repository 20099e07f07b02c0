//! The command line: what may be asked, in which words.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand};
use truechimer_counter::Choice;
use truechimer_estimators::{Kind, TABLE};
use truechimer_time::{Rate, Span};

/// A feed-forward clock: follows NTP servers without ever touching a counter, and tells any
/// program the time with the bound of its error.
#[derive(Parser, Debug)]
#[command(name = "truechimer", bin_name = "truechimer", version, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Follow NTP servers and publish the clock (the daemon, in the foreground)
    Run(Run),
    /// Believe a server that is held off, now
    Accept(Accept),
    /// Print the time: earliest, latest, best, and what the bound is made of
    Now(Now),
    /// Show the state of the clock and of the daemon behind it
    Status(Status),
    /// List the servers that the daemon follows
    Sources(Sources),
    /// Wait until the clock is synchronised
    Waitsync(Waitsync),
    /// Watch a clock synchronise to a server of our own and check it against the truth
    Demo(Demo),
    /// Serve the clock over NTP, or a time of its own for demonstrations and tests
    Serve(crate::serve::Serve),
    /// Know the machine's counters: list, compare, select, latency, stability
    Counters(crate::counters::Counters),
    /// Capture packets with the time at which they passed, and how well it is known
    Capture(crate::capture::Capture),
    /// Work out the times in a capture anew, from its raw counts
    Restamp(crate::restamp::Restamp),
    /// Measure delay, jitter, loss and reordering, live or from captures
    Qos(crate::qos::Qos),
    /// One clock for a group of replicas: agree on each reading of time
    Group(crate::group::Group),
    /// Capture for Wireshark, which calls this itself
    #[command(hide = true)]
    Extcap(crate::extcap::Extcap),
    /// Put the clock into simulated networks and see how far it is from the truth
    Simulate(Simulate),
    /// Repeat every decision of a daemon from its log, or run a clock over a file of stamps
    Replay(Replay),
    /// Measure what reading the clock costs, what the daemon uses and what the server answers
    Bench(Bench),
    /// Write the manual pages
    Man(Man),
}

/// Which command stands under which heading in `truechimer --help`.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Keep a clock", &["run", "accept"]),
    ("Read it", &["now", "status", "sources", "waitsync"]),
    ("Try it", &["demo", "serve"]),
    ("Know the machine", &["counters"]),
    ("Stamp packets", &["capture", "restamp", "qos"]),
    ("Agree on time", &["group"]),
    ("Examine it", &["simulate", "replay", "bench", "man"]),
];

/// The parser, with the commands grouped in its help.
pub fn command() -> clap::Command {
    let command = CommandLine::command();
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|n| n.len()).max().unwrap_or(0);
    let mut list = String::new();
    for (title, names) in GROUPS {
        list.push_str(&format!("{title}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            list.push_str(&format!("  {name:width$}  {about}\n"));
        }
        list.push('\n');
    }
    let examples = "Examples:\n  \
        truechimer demo                              no root, no network, one minute\n  \
        sudo truechimer run --server ntp.example.org\n  \
        truechimer waitsync && truechimer now\n";
    command.help_template(format!(
        "{{about-with-newline}}\nUsage: {{usage}}\n\n{list}Options:\n{{options}}\n\n{examples}\n\
         'truechimer COMMAND --help' says more about each.\n\
         Spans of time are written 1.5s, 20ms, 250us or 10ns; rates are in ppm.\n"
    ))
}

/// Where the clock is.
#[derive(Args, Clone, Debug)]
pub struct Page {
    /// The clock page [default: $TRUECHIMER_PAGE, else $XDG_RUNTIME_DIR/truechimer/clock or
    /// /run/truechimer/clock]
    #[arg(long, value_name = "PATH", help_heading = "Where the clock is")]
    pub page: Option<PathBuf>,
}

/// Where the daemon answers.
#[derive(Args, Clone, Debug)]
pub struct Control {
    /// The daemon's control socket; none for a daemon without [default: PAGE.control]
    #[arg(long, value_name = "PATH", help_heading = "Where the clock is")]
    pub control: Option<PathBuf>,
}

impl Control {
    /// Whether there is to be none.
    pub fn is_none(&self) -> bool {
        self.control.as_deref().is_some_and(|path| path == Path::new("none"))
    }
}

/// Options of `truechimer run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  truechimer run --server ntp.example.org --server 192.0.2.7:1123 --server [2001:db8::1]:123
  truechimer run --server ntp.example.org --pps /dev/pps0
  truechimer run --config /etc/truechimer.toml --check
  truechimer run --server 127.0.0.1:11123 --poll 1 --page /tmp/clock

Signals: TERM and INT end the daemon cleanly; HUP reads the configuration again without losing
what was learnt, and looks up again who no longer answers. The system clock is left alone
unless the configuration says otherwise.

Environment:
  TRUECHIMER_PAGE              the clock page, if --page does not name it
  XDG_RUNTIME_DIR              where the page of any user but root is
  STATE_DIRECTORY              where the measured rate is kept for the next start, in rate.json
                               (systemd sets it); else that is /var/lib/truechimer for root and
                               those who may write there, and for others in
                               $XDG_STATE_HOME/truechimer (~/.local/state/truechimer). If the
                               clock page is not at its usual place, or all servers are on this
                               machine, it is a trial: what is learnt is kept beside the page
                               alone. The configuration's 'state' comes first
  TRUECHIMER_SIMULATED_CLOCKS  set to 1 inside a clock simulator: CLOCK_BOOTTIME is left alone, and
                               suspend is not seen (clknetsim in LD_PRELOAD does the same)

Replay log: about 18 MB a day with one server at a poll of 16 s, 12 of them for the check of the
host's clocks every second. It repeats from its beginning only, as no later line holds what the
estimator had learnt by then. So it cannot be rotated while the daemon runs, and HUP does not
begin a new one: move the file away and restart the daemon, which goes on from its last word.
A restart keeps an older log beside the new one, with .old after its name.

Exit status: 0 ended by a signal (or --check found nothing wrong), 2 error.")]
pub struct Run {
    /// An NTP server to follow: a name or an address, IPv6 with a port as [::1]:123; may be
    /// repeated
    #[arg(long = "server", value_name = "HOST[:PORT]")]
    pub servers: Vec<String>,
    /// A pulse per second to follow beside the servers, which say what second it begins: a device,
    /// or a plain file as /sys/class/pps/pps0/assert. Its edges are taken to be stamped at most
    /// 10 us late ('latency' in the configuration file); may be repeated
    #[arg(long = "pps", value_name = "PATH")]
    pub pps: Vec<String>,
    /// Read the configuration from FILE (options given here come on top)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Seconds between requests to a server, 1 to 1024 [default: 16]
    #[arg(long, value_name = "S", value_parser = poll)]
    pub poll: Option<u32>,
    /// The counter to read: auto, tsc, tsc-fenced, arm-generic, raw (CLOCK_MONOTONIC_RAW, over any
    /// clocksource), and as root hpet, acpi-pm or acpi-pm-safe; 'truechimer counters list' says
    /// which there are [default: auto]
    #[arg(long, value_name = "NAME")]
    pub counter: Option<Choice>,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
    /// Write every event and every hand to FILE, for 'truechimer replay'
    #[arg(long, value_name = "FILE")]
    pub replay_log: Option<PathBuf>,
    /// Forget what the clock page and the state say: time and rate of the last daemon, and what it
    /// held against servers. A new epoch begins
    #[arg(long)]
    pub fresh: bool,
    /// Check the configuration and the files that it names, say what is wrong, and end
    #[arg(long)]
    pub check: bool,
    /// Say more about what is going on
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `truechimer now`.
#[derive(Args, Debug)]
#[command(after_help = "\
True time lies between earliest and latest while the status is synchronised or holdover.

While a server is held off, as its time has moved by more than it may, the bound may have to cover
both what was known and what it says now: 'disputed' is what is there for that only. Of the JSON
it is disputed_bound_ns, which is contained in statistical_bound_ns; 0 if nothing is disputed.

'likely' (likely_ns) is how far best is likely to be off, by statistics and a prior for asymmetry,
at likely-confidence. It promises nothing: who waits until a time is over goes by the bound.

Exit status: 0 the bound holds, 1 the status says that it does not (unknown, disrupted),
2 error (no clock page, say).")]
pub struct Now {
    /// Print one JSON object; times are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    /// TAI instead of UTC
    #[arg(long)]
    pub tai: bool,
    #[command(flatten)]
    pub page: Page,
}

/// Options of `truechimer status`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without the daemon's control socket the clock page alone is shown, which says so.

Of the JSON, daemon.reason says why the clock does not go along with the server that is selected,
as 'truechimer sources --help' explains; null if it does. While it is held off, the bound covers
what it says as well: disputed_bound_ns is what of statistical_bound_ns is there for that,
0 if nothing is. likely_ns is how far the time is likely to be off, which is no promise.

Exit status: 0 the bound holds, 1 the status says that it does not, 2 error.")]
pub struct Status {
    /// Print one JSON object; spans are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

/// Options of `truechimer sources`.
#[derive(Args, Debug)]
#[command(after_help = "\
Columns:
  S          status: * selected (it leads), + combined (it has a part in the published time),
             - truechimer (it agrees with the majority, and has no part), x falseticker
             (also one that contradicts the server that you have accepted),
             w candidate (others have yet to answer, or no majority agrees), . unselectable
             (noselect, another name of a server, a leap smear), ? unreachable;
             h: stale, it lives on old samples; !: its newest samples are held off, as its
             time has moved by more than it may.
             Another one is selected once its part is 2.5 times as large
  part       its share in where the published time stands
  st         stratum: the server's distance from a reference clock
  rch        reach: the last eight polls in octal, 377 = a usable reply to all
  last       time since the last reply that was used, or is held off
  offset     published clock - this server's estimate, positive = published is ahead, and the
             bound of that estimate; of one that is held off, by what it says now. While there
             is no clock yet, the server in the middle takes its place, as the last line says
  floor      what the round trip takes at least just now, as far as is known
A pulse per second stands behind the servers. Below the table stands what is wrong with a
source, if anything is.

Of the JSON, offset_to says what offset_ns is shown against: clock, or that server's name;
retry_ns when a server that refuses service (DENY, RSTR) is asked again, null if it does not.
status is one of the words above; reason says why, null if there is nothing to say:
  kind            unreachable: no-address, no-reply, kiss-code; unselectable: noselect,
                  same-server, leap-smear; candidate: waiting (for other servers),
                  no-majority; falseticker: outvoted, overruled (by 'truechimer accept');
                  truechimer: contradicts-selected, rate-differs, outlier (not where most of
                  the others probably are), stale (nothing usable lately).
                  Held off: step-suspected (its time has moved by more than it may),
                  drift-suspected (and moves on), max-step, min-sources, majority-pending (of
                  those that say so too few are believed yet), implausible (by the real-time
                  clock, say)
  text            the same for people
  age_ns          for how long
  by_ns           by how much, where known: held off, its time less what was known; of
                  no-majority what lies between it and the nearest of those that it
                  contradicts; else what lies between it and the others
  replies         how many in a row have said so (step-suspected, drift-suspected)
  accepted_in_ns  how much longer it must say so to be believed (those two); null: until it
                  agrees with the others again, or more servers or 'truechimer accept' say so
selection, why and doubt are status and reason in the words of earlier versions.

Exit status: 0, or 2 on an error (no daemon, say).")]
pub struct Sources {
    /// Everything about each server: why it has no part, what was refused and why, poll interval,
    /// stamp errors, root distance
    #[arg(short, long)]
    pub verbose: bool,
    /// Print one JSON array; spans are whole nanoseconds
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

/// Options of `truechimer accept`.
#[derive(Args, Debug)]
#[command(after_help = "\
A server whose time has moved by more than it may is held off for an hour (accept-step-after), and
for ever if that is more than max-step or if too few say so (min-sources). Where you know that
it is right, say so: the clock goes there at once. Servers that contradict it have no vote until
they agree, also when the daemon is started again, but not after a boot or --fresh: take those that
are wrong out of its configuration.
Only root and the daemon's own user may do that. The daemon's log and its replay log have it.

The other remedy is to start the daemon with --fresh: it forgets what was known before, and
believes what the servers say then.

Exit status: 0 it is believed, 2 error (no daemon, no such server, nothing held off).")]
pub struct Accept {
    /// The server, as 'truechimer sources' calls it [default: the one that is held off, if it is
    /// one]
    #[arg(value_name = "SOURCE")]
    pub source: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
}

/// Options of `truechimer waitsync`.
#[derive(Args, Debug)]
#[command(after_help = "\
A clock page that is not there yet is waited for. At the timeout it says what is missing, and why
by the daemon's word, if that can be asked (its control socket beside the page).

A server's own root distance and half of the round trip to it are part of the bound: over the
Internet some 5 to 50 ms remain, on a LAN some 100 us.

Examples:
  truechimer waitsync && truechimer now
  truechimer waitsync --max-bound 500us --timeout 2s || echo not yet

Exit status: 0 synchronised (within --max-bound), 1 not before the timeout, 2 error.")]
pub struct Waitsync {
    /// How small the bound must be [default: any bound will do]
    #[arg(long, value_name = "SPAN", value_parser = positive, allow_hyphen_values = true)]
    pub max_bound: Option<Span>,
    /// How long to wait
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = not_negative, allow_hyphen_values = true)]
    pub timeout: Span,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub page: Page,
}

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
    /// How long to watch
    #[arg(long, value_name = "S", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(3..=86_400))]
    pub seconds: u32,
    /// How far the server's time is ahead of the system clock at the start
    #[arg(long, value_name = "SPAN", default_value = "1.5s", allow_hyphen_values = true)]
    pub offset: Span,
    /// How much the server's time gains on the system clock
    #[arg(long, value_name = "PPM", default_value = "37", allow_hyphen_values = true)]
    pub skew_ppm: Rate,
    /// Seconds between requests to the server, 1 to 1024
    #[arg(long, value_name = "S", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub poll: u32,
    /// The counter to read: auto, tsc, tsc-fenced, arm-generic, raw, hpet, acpi-pm, acpi-pm-safe
    #[arg(long, value_name = "NAME", default_value = "auto")]
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

/// Takes the name of an estimator that can be compared.
pub fn estimator() -> impl TypedValueParser<Value = Kind> {
    let names = TABLE.iter().map(|kind| PossibleValue::new(kind.name()).help(kind.about()));
    PossibleValuesParser::new(names)
        .try_map(|name| Kind::find(&name).ok_or("no estimator has that name"))
}

/// Options of `truechimer simulate`.
#[derive(Args, Debug)]
#[command(after_help = "\
The very engine of the daemon runs in virtual time, against simulated oscillators, paths and
servers. The published clock is read once a second, as a program would read it, and compared with
the truth. The same seed gives the same packets to every estimator, and the same output always.

Columns, in µs of |clock - truth| unless they say otherwise, without the time to settle but for
'<100' and 'inside', which are of all:
  rms        root mean square of the error
  median     of the error with its sign: positive, the clock is ahead
  iqr        from the 25th to the 75th percentile
  1 %, 99 %  percentiles
  max        the largest
  <100       seconds from the first request until the error stays below 100 µs for 300 s; - never
  inside     share of the seconds with the truth inside the bound, of all that promised one
  bound      median of the bound; stat. of its statistical part

Examples:
  truechimer simulate lan
  truechimer simulate lan-bursts-both --estimator ours,published --seeds 5
  truechimer simulate wan --hours 6 --report wan.html
  truechimer simulate lan --print > mine.toml; truechimer simulate mine.toml
  truechimer simulate case --report case.html       the paper's experiments, one after the other
  truechimer simulate accuracy --seeds 5            every scenario, every estimator
  truechimer simulate outage-end --seeds 100        two hours without, beside one that knows all
  truechimer simulate wrong-servers --help          a study with options of its own

Exit status: 0, 1 if the truth was outside the bound of 'ours' although its conditions held (where
they do not, that is said), 2 on an error.")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub struct Simulate {
    /// A study with options of its own.
    #[command(subcommand)]
    pub study: Option<crate::simulate::Study>,
    /// Scenarios by name (see --list), scenario files ending in .toml, or one of the studies
    /// case, accuracy, outage-end, ablation, sensitivity and bound
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    pub scenarios: Vec<String>,
    /// List the scenarios and what each is
    #[arg(long, exclusive = true)]
    pub list: bool,
    /// Which clocks to compare, separated by commas [default: ours; of the study case all]
    #[arg(long, value_name = "NAME", value_parser = estimator(), value_delimiter = ',')]
    pub estimator: Vec<Kind>,
    /// Where everything random comes from
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "seeds")]
    pub seed: u64,
    /// Run with the seeds 1 to N, and take the seconds of all together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: Option<u32>,
    /// How many hours, instead of the scenario's own. Where its time to settle is more than half of
    /// that, a seventh of it is
    #[arg(long, value_name = "H", value_parser = hours)]
    pub hours: Option<f64>,
    /// Seconds between requests, 1 to 1024, instead of the scenario's own
    #[arg(long, value_name = "S", value_parser = poll)]
    pub poll: Option<u32>,
    /// Print one JSON object a line for each scenario and estimator
    #[arg(long)]
    pub json: bool,
    /// Write a report to FILE: one HTML page with plots, of the first seed
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the stamps of the first seed to FILE, as 'truechimer replay' reads them; with several
    /// servers those of the first to FILE.1, and so on
    #[arg(long, value_name = "FILE")]
    pub stamps: Option<PathBuf>,
    /// Write every reading of the first seed to FILE: one line of CSV a second
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Print the scenario as a file to change, and end
    #[arg(long, conflicts_with_all = ["json", "report", "stamps", "csv"])]
    pub print: bool,
    /// How many runs go on side by side [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
}

/// Options of `truechimer replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
FILE is one of two things, told apart by how it begins: a replay log or a stamp file.

Replay log: what 'truechimer run --replay-log' wrote. Its events go to the engine once more, and
every action and every published hand is compared with those in the log, bit for bit. With
--estimator the same events go to an engine with that estimator; nothing is compared bit for bit
then, but how far its published clock is from the logged one is told. Its replies answer requests
of the logged engine: those that it would not have sent itself (it polls at other times) it takes
for strays, and goes without.

Stamp file: rows of Ta Tb Te Tf, with RefIn RefOut after them where a reference stamped the same
packets: counts when the request left and the reply arrived (Ta, Tf), Unix seconds by the server
(Tb, Te) and by the reference, comments after # or %. docs/stamp-files.md has all of it. Where the
counter begins again (a reboot) a new epoch begins.

Rows, by --csv or --json: one for each reply, with the clock as it was once the reply had been
taken in. An offset or error is the clock - the other, positive = the clock is ahead: 'offset' the
clock - what a client without a filter believes (the reply took half of the round trip), 'error' -
the reference, 'logged' - the clock in the log, 'source_offset' - the source's own estimate (with
one source the published clock is just that, and it is 0). Skew is that of the counter, positive =
fast. The last line of JSON is the summary.

Units: spans are nanoseconds in CSV (_ns), whole picoseconds in rows of JSON (_ps), microseconds in
tables and in the summary of JSON (_us).

Examples:
  truechimer replay /var/log/truechimer.replay
  truechimer replay --estimator published --csv /var/log/truechimer.replay > published.csv
  truechimer simulate lan --stamps lan.stamps; truechimer replay --settle 7200 lan.stamps
  zcat trace.gz | truechimer replay --hz 2400000000 --json -

Exit status: 0, 1 if a decision is not the same as in the log, or if there was nothing to replay or
fewer than half of the rows could be used, 2 on an error.")]
pub struct Replay {
    /// A replay log or a stamp file; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// With this estimator [default: the log's own; ours for a stamp file]
    #[arg(long, value_name = "NAME", value_parser = estimator())]
    pub estimator: Option<Kind>,
    /// Print a row per reply, as comma-separated values with a header
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print a row per reply and the summary, a JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Leave out the rows: of the JSON, print the summary alone
    #[arg(long, conflicts_with = "csv")]
    pub summary: bool,
    /// Leave the first so many seconds out of the statistics, though not out of the rows
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub settle: u32,
    /// Counts per second, nominally [default: by a comment, else by the first rows]
    #[arg(long, value_name = "HZ", help_heading = STAMPS, value_parser = crate::replay::whole_hz)]
    #[arg(allow_hyphen_values = true)]
    pub hz: Option<u64>,
    /// Bound of the error of each count [default: by a comment, else 1us]
    #[arg(long, value_name = "SPAN", value_parser = not_negative, allow_hyphen_values = true)]
    #[arg(help_heading = STAMPS)]
    pub stamp_error: Option<Span>,
    /// The server's distance from true time [default: by a comment, else 0]
    #[arg(long, value_name = "SPAN", value_parser = not_negative, allow_hyphen_values = true)]
    #[arg(help_heading = STAMPS)]
    pub root_distance: Option<Span>,
    /// Seconds between requests, 1 to 1024 [default: by the first rows]
    #[arg(long, value_name = "S", help_heading = STAMPS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub poll: Option<u32>,
    /// How fast the oscillator may wander, in ppm [default: 0.5]
    #[arg(long, value_name = "PPM", help_heading = STAMPS, value_parser = positive_rate)]
    pub max_wander: Option<Rate>,
}

/// What is said of stamp files only.
const STAMPS: &str = "Stamp files";

/// Options of `truechimer bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchWhat,
}

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum BenchWhat {
    /// What reading the clock costs, beside other ways to tell the time
    Read(crate::bench::ReadArgs),
    /// How reading scales with threads and processes, beside other designs
    Timehands(crate::bench_timehands::BenchTimehands),
    /// What the daemon uses: resident memory and share of a core
    Daemon(BenchDaemon),
    /// What an exchange with a server costs, by poll interval, and one server's memory
    Estimator(crate::bench_estimator::BenchEstimator),
    /// How many requests 'truechimer serve --clock page' answers, beside chronyd
    Serve(crate::bench_serve::BenchServe),
}

/// Options of `truechimer bench daemon`.
#[derive(Args, Debug)]
#[command(after_help = "\
Starts 'truechimer run' against a server of our own on loopback, waits for it to synchronise and
settle into its poll interval, and then reads /proc for the given time. No goal is set: what it
says is said with the conditions it holds for.

Exit status: 0, or 2 on an error.")]
pub struct BenchDaemon {
    /// How long to measure
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

/// Options of `truechimer man`.
#[derive(Args, Debug)]
pub struct Man {
    /// The directory to write truechimer.1 and a page per command into
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

pub fn positive(text: &str) -> Result<Span, String> {
    let span = Span::from_str(text).map_err(|why| why.to_string())?;
    if span > Span::ZERO { Ok(span) } else { Err("must be more than zero".into()) }
}

fn positive_rate(text: &str) -> Result<Rate, String> {
    let rate = Rate::from_str(text).map_err(|why| why.to_string())?;
    if rate > Rate::ZERO { Ok(rate) } else { Err("must be more than zero".into()) }
}

pub fn not_negative(text: &str) -> Result<Span, String> {
    let span = Span::from_str(text).map_err(|why| why.to_string())?;
    if span.is_negative() { Err("must not be negative".into()) } else { Ok(span) }
}

pub fn poll(text: &str) -> Result<u32, String> {
    let seconds: Option<u32> = text.trim().parse().ok();
    seconds
        .filter(|seconds| (1..=1024).contains(seconds))
        .ok_or_else(|| "must be a whole number of seconds, 1 to 1024, without a unit".to_owned())
}

pub fn hours(text: &str) -> Result<f64, String> {
    let hours: f64 = text.parse().map_err(|_| "not a number of hours".to_owned())?;
    if (0.01..=10_000.0).contains(&hours) {
        Ok(hours)
    } else {
        Err("must be from 0.01 to 10000 hours".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound() {
        command().debug_assert();
    }

    /// Longer lines would be wrapped, commands that are there to be copied among them.
    #[test]
    fn no_line_below_the_options_is_longer_than_a_terminal() {
        fn check(command: &clap::Command) {
            let below = command.get_after_long_help().or(command.get_after_help());
            let text = below.map(ToString::to_string).unwrap_or_default();
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= 100, "{}: {width} columns: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }

    #[test]
    fn every_command_stands_in_exactly_one_group() {
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = command();
        let visible: Vec<_> = command
            .get_subcommands()
            .filter(|c| !c.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(listed, visible);
    }

    #[test]
    fn a_poll_interval_says_what_it_may_be() {
        assert_eq!((poll("1"), poll("1024")), (Ok(1), Ok(1024)));
        for text in ["1.5", "0", "1025", "16s", "", "-1"] {
            assert!(
                poll(text).unwrap_err().contains("whole number of seconds, 1 to 1024"),
                "{text}"
            );
        }
    }

    #[test]
    fn negative_offsets_and_skews_are_taken() {
        let line = ["truechimer", "serve", "--offset", "-1.5s", "--skew-ppm", "-37"];
        let Command::Serve(serve) = CommandLine::parse_from(line).command else { panic!() };
        assert_eq!(serve.offset, "-1.5s".parse().ok());
        assert_eq!(serve.skew_ppm, "-37".parse().ok());
    }
}
