//! Lines of a record.

use serde::{Deserialize, Serialize};

use crate::{Hash, Time};

/// Content of a line, without its hash. Fields that are not known here are passed over: newer programs may
/// write more of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Line {
    /// The first of every file.
    Record(Header),
    /// A stretch of time.
    Interval(Interval),
    /// The sources by now.
    Sources(Sources),
    /// Something that happened.
    Event(Event),
}

/// Beginning of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub format: u32,
    /// Number of the file, from 1 on.
    pub file: u64,
    /// Version of the program.
    pub version: String,
    /// The last hash of the file before, or zeros.
    pub previous: Hash,
}

/// A stretch of time, and how well it was known at its worst.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Interval {
    /// End by the published clock, or by the system clock where `by_system_clock` says so.
    pub to: Time,
    /// Length, ns: `to` − the end of the one before. Negative if the clock was set back.
    pub for_ns: i64,
    /// The counter at its end.
    pub count: u64,
    /// Status of the clock.
    pub status: String,
    /// The worst bound within it, ns; none if the bound did not hold.
    pub bound_ns: Option<u64>,
    /// The selected source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Root distance of that source, as it claims, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_distance_ns: Option<u64>,
    /// True if `to` is the system clock's, as there was no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_system_clock: bool,
}

/// The sources at one time: at the beginning, once an hour, and when the status of one, or what it says
/// of its own source, was found to be another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sources {
    /// Time.
    pub at: Time,
    /// All sources.
    pub list: Vec<SourceState>,
}

/// One source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SourceState {
    /// Name as configured.
    pub name: String,
    /// Address in use.
    pub address: Option<String>,
    /// Status, in one word.
    pub status: String,
    /// Stratum.
    pub stratum: Option<u8>,
    /// Reference identifier, as text.
    pub reference: Option<String>,
    /// Root distance, as it claims, ns.
    pub root_distance_ns: Option<u64>,
    /// Reason for that status, in one word. (Records of older versions have none.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The daemon began.
    Start,
    /// The daemon ended in order.
    Stop,
    /// A configuration was read.
    Configuration,
    /// The status of the clock is another.
    Status,
    /// The counter lost its continuity.
    Disruption,
    /// The system clock was stepped.
    Step,
    /// A source is held off from now on.
    HoldOff,
    /// A source is not held off any more.
    Released,
    /// Knowledge of leap seconds changed.
    Leap,
    /// Another line of the daemon's log.
    Log,
    /// A line of the daemon's log that warns.
    Warning,
    /// The record itself: an old file was removed.
    Rotation,
    /// The record itself: the line before was cut off.
    Torn,
    /// The record itself: lines could not be written.
    Lost,
}

impl Kind {
    /// The word for it, as in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Start => "start",
            Kind::Stop => "stop",
            Kind::Configuration => "configuration",
            Kind::Status => "status",
            Kind::Disruption => "disruption",
            Kind::Step => "step",
            Kind::HoldOff => "hold-off",
            Kind::Released => "released",
            Kind::Leap => "leap",
            Kind::Log => "log",
            Kind::Warning => "warning",
            Kind::Rotation => "rotation",
            Kind::Torn => "torn",
            Kind::Lost => "lost",
        }
    }
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Time.
    pub at: Time,
    /// The counter then.
    pub count: u64,
    /// Kind.
    pub kind: Kind,
    /// Words on what it was and why, for people.
    pub text: String,
    /// Bound of `at`, ns; none if none held.
    pub bound_ns: Option<u64>,
    /// True if `at` is the system clock's, as there was no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_system_clock: bool,
    /// Of a step: by how much the system clock was set ahead, ns; negative: back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ns: Option<i64>,
    /// Of a line that was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torn: Option<Torn>,
    /// Of a start: the longest that an interval takes from then on, ns. (Records of older versions have none.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
}

/// Line that was cut off by a crash or a full disk, by which it can be known again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Torn {
    /// Length of what is left of it, bytes.
    pub bytes: u64,
    /// SHA-256 of that.
    pub sha256: Hash,
}

impl Line {
    /// Content as it is written, less its last brace: the hash comes there.
    pub(crate) fn content(&self) -> Option<String> {
        let mut text = serde_json::to_string(self).ok()?;
        text.pop();
        Some(text)
    }

    /// Line of this content.
    pub(crate) fn parse(content: &[u8]) -> Option<Line> {
        let text = std::str::from_utf8(content).ok()?;
        serde_json::from_str(&format!("{text}}}")).ok()
    }
}
