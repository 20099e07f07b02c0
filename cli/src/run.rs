//! `truechimer run`: the daemon, in the foreground.

use std::io::Write;

use truechimer_daemon::{Level, Options, Service};
use truechimer_engine::{Config, RefClockKind};

use crate::daemon::Control;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use truechimer_command::clock::Page;
use truechimer_command::log::{self, Priority};
use truechimer_command::parse;
use truechimer_command::{Ended, Failure, Outcome};
use truechimer_command::{show, signals};
use truechimer_confine::Unlisted;
use truechimer_counter::{Choice, CounterError};

/// Options of `truechimer run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  truechimer run --server ntp.example.org --server 192.0.2.7:1123 --server [2001:db8::1]:123
  truechimer run --server ntp.example.org --pps /dev/pps0
  truechimer run --check                 the configuration of this machine: is it good?
  truechimer run --server 127.0.0.1:11123 --poll 1 --page /tmp/clock

Signals: TERM and INT end the daemon cleanly; HUP reads the configuration again without losing
what was learnt, and looks up again who no longer answers. The system clock is left alone
unless the configuration says otherwise.

Environment:
  TRUECHIMER_CONFIG            the configuration file, if --config does not name it
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
  NOTIFY_SOCKET, WATCHDOG_USEC set by a service manager that is to be told when the clock page is
                               there, and that the daemon is at work still (sd_notify)

Replay log: about 18 MB a day with one server at a poll of 16 s, 12 of them for the check of the
host's clocks every second. It repeats from its beginning only, as no later line holds what the
estimator had learnt by then. So it cannot be rotated while the daemon runs, and HUP does not
begin a new one: move the file away and restart the daemon, which goes on from its last word.
A restart keeps an older log beside the new one, with .old after its name.

Exit status: 0 ended by a signal, or --check found nothing that keeps it from starting (warnings
say what may), 2 error.")]
pub struct Run {
    /// An NTP server to follow: a name or an address, IPv6 with a port as [::1]:123; may be
    /// repeated
    #[allow(rustdoc::broken_intra_doc_links)] // The text of --help, in which brackets are brackets.
    #[arg(long = "server", value_name = "HOST[:PORT]")]
    pub servers: Vec<String>,
    /// A pulse per second to follow beside the servers, which say what second it begins: a device,
    /// or a plain file as /sys/class/pps/pps0/assert. Its edges are taken to be stamped at most
    /// 10 us late ('latency' in the configuration file); may be repeated
    #[arg(long = "pps", value_name = "PATH")]
    pub pps: Vec<String>,
    /// Read the configuration from FILE (options given here come on top) [default:
    /// $TRUECHIMER_CONFIG; else, unless there is a --server, /etc/truechimer.toml if that is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Seconds between requests to a server, 1 to 1024 [default: 16]
    #[arg(long, value_name = "S", value_parser = parse::poll)]
    pub poll: Option<u32>,
    /// The counter to read: auto, tsc, tsc-fenced, arm-generic, raw (CLOCK_MONOTONIC_RAW, over any
    /// clocksource), and as root hpet, acpi-pm or acpi-pm-safe; 'truechimer counters list' says
    /// which there are [default: auto]
    #[arg(long, value_name = "NAME", value_parser = counter(), hide_possible_values = true)]
    pub counter: Option<Choice>,
    #[command(flatten)]
    pub page: Page,
    #[command(flatten)]
    pub control: Control,
    /// Write every event and every hand to FILE, for 'truechimer-lab replay'
    #[arg(long, value_name = "FILE")]
    pub replay_log: Option<PathBuf>,
    /// Forget what the clock page and the state say: time and rate of the last daemon, and what it
    /// held against servers. A new epoch begins
    #[arg(long)]
    pub fresh: bool,
    /// Keep all rights that the process has, rather than give up what it does not need once it has
    /// started: files by Landlock, capabilities, new privileges ('sandbox' in the configuration)
    #[arg(long)]
    pub no_sandbox: bool,
    /// Of all system calls allow only those that the daemon makes, by seccomp: any other ends the
    /// process (kill), or is logged by the kernel (log) ('seccomp' in the configuration; off there)
    #[arg(long, value_name = "FATE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "kill", conflicts_with = "no_sandbox")]
    #[arg(value_parser = fate(), hide_possible_values = true)]
    pub seccomp: Option<Unlisted>,
    /// Check the configuration and the files that it names, say what is wrong, and end
    #[arg(long)]
    pub check: bool,
    /// Say more about what is going on
    #[arg(short, long)]
    pub verbose: bool,
}

/// Parser of a counter's name.
pub fn counter() -> parse::OneOf<Choice, CounterError> {
    let names = [Choice::Auto].into_iter().chain(Choice::EVERY).map(Choice::name);
    parse::one_of(names, Choice::from_str)
}

/// Parser of the fate of system calls that a service does not make.
pub fn fate() -> parse::OneOf<Unlisted, String> {
    parse::one_of(["kill", "log", "off"], Unlisted::from_str)
}

/// Runs the command.
pub fn run(args: Run, out: &mut dyn Write) -> Ended {
    let mut options = Options {
        config: args.config,
        servers: args.servers,
        pps: args.pps,
        poll: args.poll,
        counter: args.counter,
        page: args.page.page,
        control: args.control.control,
        replay_log: args.replay_log,
        fresh: args.fresh,
        sandbox: !args.no_sandbox,
        seccomp: args.seccomp,
        ..Options::default()
    };
    options.find_config();
    if args.check {
        let mut note = note(Level::Warning);
        let settings = options.check(&mut |text| note(Level::Warning, text));
        let settings = settings.map_err(|why| Failure::Said(why.to_string()))?;
        let good = what_is_followed(&settings.engine);
        let file = options.config.map(|path| format!(" {}", path.display())).unwrap_or_default();
        writeln!(out, "the configuration{} is good: {good}", show::plain(&file))?;
        return Ok(Outcome::Good);
    }
    let (stop, reload) = (signals::stop()?, signals::reload()?);
    let mut say = note(if args.verbose { Level::Debug } else { Level::Info });
    // Before the first thing that it says: a daemon that cannot start says why, and no more.
    let mut read = options.config.as_ref().map(|path| format!("configuration {}", path.display()));
    let mut note = |level, text: &str| {
        log::begin();
        if let Some(read) = read.take() {
            say(Level::Info, &read);
        }
        say(level, text);
    };
    let mut service = Service::of_environment();
    truechimer_daemon::run(&options, &stop, &reload, &mut service, &mut note)
        .map_err(|why| Failure::Said(why.to_string()))?;
    Ok(Outcome::Good)
}

/// Passes on what the daemon has to say, from this level on.
pub fn note(least: Level) -> impl FnMut(Level, &str) {
    move |level, text| {
        let (priority, name) = match level {
            _ if level < least => return,
            Level::Debug => (Priority::Debug, "debug"),
            Level::Info => (Priority::Info, "info"),
            Level::Warning => (Priority::Warning, "warning"),
        };
        log::say(priority, &format!("truechimer: {name}: {text}"));
    }
}

fn what_is_followed(config: &Config) -> String {
    let some = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    let refclocks = &config.refclocks;
    let pulses = refclocks.iter().filter(|r| r.kind == RefClockKind::Pulse).count();
    let pools = config.sources.iter().filter(|source| source.pool.is_some()).count();
    let ports = config.sources.iter().filter(|source| source.ptp.is_some()).count();
    let kinds = [
        (config.sources.len() - pools - ports, "server"),
        (ports, "PTP port"),
        (pools, "pool"),
        (pulses, "pulse"),
        (
            refclocks.len() - pulses,
            if pulses > 0 { "other reference clock" } else { "reference clock" },
        ),
    ];
    let kinds = kinds.into_iter().filter(|(n, _)| *n > 0);
    let kinds: Vec<String> = kinds.map(|(n, what)| some(n, what)).collect();
    match kinds.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => kinds.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_engine::{PtpConfig, RefClockConfig, SourceConfig};

    #[test]
    fn each_kind_of_source_is_counted_as_what_it_is() {
        let mut config = Config { sources: vec![SourceConfig::new("a"); 2], ..Config::default() };
        assert_eq!(what_is_followed(&config), "2 servers");
        config.sources[1].ptp = Some(PtpConfig::default());
        assert_eq!(what_is_followed(&config), "1 server and 1 PTP port");
        config.refclocks = vec![RefClockConfig::pulse("/dev/pps0")];
        assert_eq!(what_is_followed(&config), "1 server, 1 PTP port and 1 pulse");
    }
}
