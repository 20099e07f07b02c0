//! The configuration file, `truechimer.toml`.
//!
//! ```toml
//! counter = "auto"              # tsc, tsc-fenced, arm-generic, raw, hpet, acpi-pm, acpi-pm-safe
//! page = "/run/truechimer/clock"
//! control = "/run/truechimer/clock.control"   # or "none"
//! replay-log = "/var/log/truechimer.jsonl"    # none unless set
//! state = "/var/lib/truechimer/rate.json"     # or "none"
//! # sock-out = "/run/chrony.tc.sock"          # a socket that is sent the clock's time, as chrony's SOCK; none unless set
//! # key-file = "/etc/truechimer.keys"         # symmetric keys, for `key` of a source; none unless set
//! # source-dir = "/run/truechimer/sources"   # more [[source]], in files *.toml; none unless set
//! leap-file = "/usr/share/zoneinfo/leap-seconds.list"   # or "none"
//! max-wander-ppm = 0.5          # how far the oscillator's rate may stray, 0.001 to 100
//! accept-step-after = "1h"      # how long to hold out against a server whose time has moved
//! max-step = "1000s"            # how far servers may move the time without the user's word, or "none"
//! # min-sources = 2             # how many must agree; 2 if three or more are configured, else 1
//! authentication = "mix"        # what servers without proof may do beside those with it: "mix", "require", "ignore"
//! likely-confidence = 0.999999  # of the likely interval beside the bound, 0.5 to 0.999999999
//! sandbox = true                # whether to give up all rights that are not needed, once started
//! seccomp = "off"               # what becomes of system calls that no service makes: "off", "kill", "log"
//! lock-memory = false           # whether to keep all memory from being paged out
//! hardware-stamps = "none"      # interfaces whose cards stamp packets, as ["eth0"], or "auto": all that can
//! vmclock = "auto"              # where the hypervisor says that the machine was migrated, or "none"
//!
//! [[source]]
//! host = "ntp.example.org"      # or "ntp.example.org:1123", "192.0.2.7", "[2001:db8::1]:1123"
//! poll = 16                     # seconds between requests, 1 to 1024
//! # max-poll = 256              # how rarely, where that makes little difference; as `poll` unless set
//! # family = "ipv4"             # or "ipv6": which addresses of its name; either unless set
//! # interface = "eth0"          # network interface that it is asked by; the system's choice unless set
//! offline = false               # true: not asked before 'truechimer sources online'
//! interleaved = false           # true: ask when its last reply left, exactly (RFC 9769)
//! burst = true                  # begin with eight requests two seconds apart, then slow down
//! noselect = false              # true: ask and show it, but never believe it
//! trust = false                 # true: servers without it, and without proof, have no vote beside it
//! prefer = false                # true: the time goes by it where it agrees; the bound stays
//! require = false               # true: no time, and no move of it, without it or another such source
//! nts = false                   # true: it proves who it is (RFC 8915); a port is then that of the key exchange, 4460
//! # key = 5                     # the symmetric key, in `key-file`, by which it proves who it is; none unless set
//! # asymmetry = "120us"         # what the fastest request takes − what the fastest reply takes, if known
//! # asymmetry-error = "20us"    # and how well that is known
//!
//! # [[source]]
//! # pool = "pool.ntp.org"       # several servers of one name, each replaced when it is of no use
//! # max-sources = 4             # how many, 1 to 16
//!
//! [[source]]
//! pps = "/dev/pps0"             # a pulse per second: a device, or a file as /sys/class/pps/pps0/assert
//! latency = "10us"              # the most by which the kernel's stamp of an edge may be late
//! offset = "0ns"                # how long after the true second the edge comes; negative: before it
//! name = "gps"                  # what to call it; its path unless set
//!
//! # [[source]]
//! # pps = "/dev/ptp1"           # the same at an input of a card, which stamps the edges
//! # channel = 0                 # number of the external time stamp
//! # pin = 1                     # pin that is made its input; left as it is unless set
//!
//! # [[source]]
//! # phc = "/dev/ptp0"           # a card's clock: a device, the name of a clock or an interface
//! # error = "1us"               # the most by which it is off; as its driver says unless set
//! # scale = "auto"              # "utc", "tai", or whichever the others vouch for
//! # poll = 1                    # seconds between readings, 1 to 64
//! # trust = false               # true: has a vote as a server has, and needs none beside it
//!
//! # [[source]]
//! # shm = 0                     # a segment of shared memory that gpsd or another program writes, 0 to 15
//! # error = "100ms"             # the most by which its samples are off
//!
//! # [[source]]
//! # sock = "/run/truechimer/gps.sock"   # a socket that a program sends samples to, as chrony's SOCK
//! # error = "10us"              # the most by which they are off
//!
//! [system-clock]
//! discipline = false            # whether to steer CLOCK_REALTIME
//! step = "start"                # when to step it: "start" (once, then), "never", "always"
//! step-above = "1ms"            # a smaller offset is slewed away
//!
//! # [clockbound]                # pages that clients of ClockBound read
//! # pages = ["shm1"]            # "shm1" for clients 3.x; "shm0" (2.x) and "shm" (1.x) need discipline = true
//! # directory = "/run/clockbound"   # where clients look, as /var/run/clockbound
//! # vmclock = false             # whether clients shall look at /dev/vmclock0 too, which all must be able to read
//!
//! [nts]
//! # ca = "/etc/ssl/own.pem"      # authorities of servers' certificates; those of the system unless set
//! unset-clock = false            # true: certificates that a clock which is not set yet calls too new are taken
//!
//! [metrics]
//! # listen = "127.0.0.1:9924"   # where OpenMetrics are served: an address with a port, or a path; not unless set
//!
//! [audit]
//! # directory = "/var/lib/truechimer/audit"   # where the record for `truechimer audit` is kept; not unless set
//! # interval = "1min"             # a line for each so long, with the worst bound in it; 1s to 1h
//! # max-mb = 256                  # all of it at most, in 10⁶ bytes: the oldest goes first; 1 to 1000000
//! ```
//!
//! Only `[[source]]` with a `host` is needed, or a reference clock with `trust`: a pulse says when a
//! second begins, and not which. The bound of a clock that follows a reference clock is only as true
//! as its `latency` or `error`. An unknown key is an
//! error, and so is a value out of its range: each problem is reported with its line and with how
//! to mend it.

mod added;
mod asymmetry;
mod authentication;
mod duration;
mod foreign;
mod hardware_stamps;
mod host;
mod ptp;
mod reader;
mod refclock;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;

use truechimer_config::Problem;
pub use truechimer_config::{ConfigError, Place};
use truechimer_confine::Unlisted;
use truechimer_counter::Choice;
use truechimer_engine::Config;

use crate::audit;
use crate::clockbound::Wanted;
use truechimer_metrics::Listen;

pub(crate) use added::added;
pub use foreign::is_directive_of_chrony;
pub(crate) use host::host_and_port;
pub use reader::parse;
pub(crate) use refclock::path as pps_path;
pub(crate) use server::check_poll;

/// Network interfaces whose cards are to stamp packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HardwareStamps {
    /// No one's: nobody's setting is touched.
    #[default]
    None,
    /// All whose card can.
    Auto,
    /// The named ones.
    Of(Vec<String>),
}

/// Everything that the daemon needs to know, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The file that all this is read from again, if there is one.
    pub file: Option<PathBuf>,
    /// Line in it of each key that is from there, as `page` or `clockbound.pages`; of
    /// lists' tables none, but for `source.require`: the first server that has it.
    pub lines: BTreeMap<String, usize>,
    /// Configuration of the engine.
    pub engine: Config,
    /// The counter.
    pub counter: Choice,
    /// The clock page; `None`: where [`crate::run`] documents.
    pub page: Option<PathBuf>,
    /// The control socket.
    pub control: Place,
    /// The replay log, if one is wanted.
    pub replay_log: Option<PathBuf>,
    /// Where the rate is kept across boots.
    pub state: Place,
    /// The socket that samples of the clock are sent to, if any.
    pub sock_out: Option<PathBuf>,
    /// Symmetric keys that servers and this daemon share.
    pub key_file: Option<PathBuf>,
    /// Directory of files with more sources, as programs for DHCP leave them.
    pub source_dir: Option<PathBuf>,
    /// The list of leap seconds.
    pub leap_file: Place,
    /// Authorities that servers' certificates are by; `None`: those of the system.
    pub nts_ca: Option<PathBuf>,
    /// Certificates may be taken whose dates only a clock that is not set yet speaks against.
    pub nts_unset_clock: bool,
    /// The pages for clients of ClockBound, if any are wanted.
    pub clockbound: Option<Wanted>,
    /// Where metrics are served, if they are wanted.
    pub metrics: Option<Listen>,
    /// The record for `truechimer audit`, if one is wanted.
    pub audit: Option<audit::Wanted>,
    /// True to give up all rights that are not needed, once everything is open.
    pub sandbox: bool,
    /// Fate of system calls that no service makes: a part of that sandbox.
    pub seccomp: Unlisted,
    /// Keeps all memory from being paged out.
    pub lock_memory: bool,
    /// Network interfaces whose cards are to stamp packets.
    pub hardware_stamps: HardwareStamps,
    /// The hypervisor's vmclock device.
    pub vmclock: Place,
    /// Files of `source-dir` that are wrong, and so left out, for people.
    pub left_out: Vec<String>,
    /// True to forget what the clock page and the state say: not in the file, for one start.
    pub fresh: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            file: None,
            lines: BTreeMap::new(),
            engine: Config::default(),
            counter: Choice::Auto,
            page: None,
            control: Place::Default,
            replay_log: None,
            state: Place::Default,
            sock_out: None,
            key_file: None,
            source_dir: None,
            leap_file: Place::Default,
            nts_ca: None,
            nts_unset_clock: false,
            clockbound: None,
            metrics: None,
            audit: None,
            sandbox: true,
            seccomp: Unlisted::Pass,
            lock_memory: false,
            hardware_stamps: HardwareStamps::None,
            vmclock: Place::Default,
            left_out: Vec::new(),
            fresh: false,
        }
    }
}

impl Settings {
    /// Problem of a key, with the line in the file of it or else of its table; without one it is an
    /// option's.
    pub(crate) fn problem(&self, key: &str, text: impl Into<String>) -> Problem {
        match (self.line(key), &self.file) {
            (Some(line), Some(file)) => {
                Problem::in_file(&file.display().to_string(), Some(line), text)
            }
            _ => Problem::option(&format!("--{key}"), text),
        }
    }

    /// Line of a key that stands in the file, or of its table, unless an option comes before it.
    pub(crate) fn line(&self, key: &str) -> Option<usize> {
        let table = key.split_once('.').map(|(table, _)| table);
        [Some(key), table].into_iter().flatten().find_map(|key| self.lines.get(key)).copied()
    }
}

#[cfg(test)]
mod tests;
