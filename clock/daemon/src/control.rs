//! The control socket: a Unix stream socket that speaks JSON lines.
//!
//! A client writes one request a line and reads one answer a line:
//!
//! | request | answer |
//! |---|---|
//! | `{"verb":"report"}` | an [`Answer`]: the daemon, and all that its engine knows |
//! | `{"verb":"version"}` | a [`Version`] |
//! | `{"verb":"reload"}` | a [`Reloaded`], or what is wrong with the configuration; only for the daemon's own user and root |
//! | `{"verb":"accept","source":"…"}` | an [`Accepted`]: that source is believed now; without `source` the one that is held off; only for those two |
//! | `{"verb":"add","source":"…"}` | a [`Changed`]; `source` is a document of the configuration with `[[source]]` alone; only for those two |
//! | `{"verb":"delete","source":"…"}` | a [`Changed`]: that source, by its name, is not asked any more; only for those two |
//! | `{"verb":"offline","source":"…"}`, `online` | a [`Changed`]: that source, or all without `source`, is not asked for now, or again; only for those two |
//! | anything else | `{"error":"…"}` |
//!
//! Each user has a budget, and a few connections: whoever asks too often is told so once and hung up
//! on, and nobody else notices. The daemon's own user and root are served first.
//!
//! Spans and instants are integers of 2⁻⁶⁴ s, counts and rates integers as well: exact, and more
//! than a JSON reader that knows only doubles can hold.

mod budget;
mod client;
mod server;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use truechimer_engine::Report;
use truechimer_time::Span;

use crate::cards::CardReport;
use crate::clockbound::PageReport;

pub use client::{ControlError, accept, change, connect, reload, report, version};
#[cfg(fuzzing)]
pub use server::check::check as check_requests;
pub(crate) use server::{Handler, Server};

/// The answer to `report`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The daemon itself.
    pub daemon: DaemonInfo,
    /// Report of its engine.
    pub report: Report,
}

/// The daemon itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DaemonInfo {
    /// Version of the daemon.
    pub version: String,
    /// Process ID.
    pub pid: u32,
    /// The counter, for people.
    pub counter: String,
    /// The smallest step of the counter.
    pub resolution: Span,
    /// Time for which it has been running, by the counter.
    pub uptime: Span,
    /// Resident memory in bytes; 0 if it cannot be told.
    pub memory: u64,
    /// The clock page that it writes.
    pub page: PathBuf,
    /// The replay log that it writes.
    pub replay_log: Option<PathBuf>,
    /// Where it keeps the rate across boots.
    pub state: Option<PathBuf>,
    /// Treatment of the system clock, for people.
    pub system_clock: String,
    /// Number of times that so many datagrams came for one request that the rest was left unread.
    pub floods: u64,
    /// Network cards that stamp, and how often they did.
    #[serde(default)]
    pub cards: Vec<CardReport>,
    /// Pages for clients of ClockBound, and what they say.
    #[serde(default)]
    pub clockbound: Vec<PageReport>,
}

/// The answer to `version`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Version {
    /// The daemon's version.
    pub version: String,
}

/// The answer to `accept`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    /// The source that is believed, as configured.
    pub accepted: String,
    /// Status of the clock now, and why.
    pub status: String,
}

/// The answer to `add`, `delete`, `offline` and `online`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// Names of the sources that it was about.
    pub changed: Vec<String>,
}

/// The longest request, with its newline, in bytes.
const MAX_REQUEST: usize = 1024;

/// Request of a client.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    verb: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// The answer to `reload`: the configuration was read again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reloaded {
    /// Always true.
    pub reloading: bool,
    /// Parts of it that are not in force: files that are wrong, keys that take a restart.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The answer to a request that cannot be met.
#[derive(Serialize, Deserialize)]
struct Refused {
    error: String,
}

/// Where the control socket of the daemon that writes `page` is by default: beside it, the name
/// ending in `.control`.
#[must_use]
pub fn default_path(page: &Path) -> PathBuf {
    let mut name = page.as_os_str().to_owned();
    name.push(".control");
    PathBuf::from(name)
}
