//! The replay log: every event that reached the engine and everything the engine decided, so that
//! every decision can be repeated, bit for bit.
//!
//! JSON lines; counts and times are integers in the units of `truechimer-time`.
//!
//! | line | content |
//! |---|---|
//! | the first | `{"truechimer-replay":14,"version":"…"}`: version of the format, of the program |
//! | the second | `{"start":…,"config":…}`: what the engine was started with |
//! | then, in order | `{"at":count,"event":…}`: something happened |
//! | | `{"hand":…}`: the engine published this |
//! | | `{"action":…}`: the engine wanted this done |
//!
//! Format 3, of before there were pulses per second, is the same without them, and is read; so is
//! format 4, of before there were limits to how far servers may move the time (and how few): its
//! decisions are repeated without. Hands of format 5 and before have one width to either side, and
//! nothing likely: they are compared without. Format 6 has no word of a hypervisor and no PTP ports, and
//! before format 7 all reference clocks were pulses, in other words (`edge`, `pps-failed`, `pps`,
//! `latency`), which are read as well. Configurations without `authentication` are of before servers without
//! proof were fenced, and are repeated without. Format 7 is of before late replies were waited for, and names
//! no interface and no family where a name is looked up. The number rises as well when the engine comes to decide
//! otherwise. Notes are the same if as many come of the same level at the same
//! places: their wording may change from version to version. Formats 1 and 2 had other events, and are
//! refused. Where another version decides otherwise, the error names the one that wrote the log; with another
//! estimator asked for, any log that can be read is repeated without its decisions.
//!
//! A log repeats from its beginning only: what the engine has learnt by a later line is in all the
//! lines before it and in no start record. So it is not begun anew while the daemon runs; to rotate
//! it, move it away and restart the daemon. It grows by some 18 MB a day with one server at a poll
//! of 16 s.
//!
//! The log contains the seed of the daemon's random numbers. While that daemon runs, whoever can
//! read the log can forge replies to it: the file is readable by its owner only, and should stay
//! so until the daemon has ended.

#![forbid(unsafe_code)]

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use truechimer_engine::{Action, Config, Event, Start};
use truechimer_files::{Access, Entry, Kind, Status};
use truechimer_time::Count;
use truechimer_timehands::Hand;

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

mod difference;
mod happened;
mod read;
mod repeat;

pub use happened::{Happened, Heard, What};
pub use read::{ReplayError, Writer};
pub use repeat::{Options, Summary, repeat, verify};

/// The version of the format.
const FORMAT: u32 = 14;
/// Since this one hands say how far they reach to either side, and what is likely.
const TWO_SIDES: u32 = 6;
/// The oldest one that is read.
const OLDEST: u32 = 3;
/// Only the owner may read: the seed is in it.
const MODE: u32 = 0o600;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(rename = "truechimer-replay")]
    format: u32,
    version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beginning {
    start: Start,
    config: Config,
}

#[derive(Serialize)]
struct EventLine<'a> {
    at: Count,
    event: &'a Event,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Decided<'a> {
    Hand(&'a Hand),
    Action(&'a Action),
}

impl<'a> Decided<'a> {
    fn of(action: &'a Action) -> Decided<'a> {
        match action {
            Action::Publish(hand) => Decided::Hand(hand),
            other => Decided::Action(other),
        }
    }
}

/// Any line but the first two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: Option<Count>,
    event: Option<Event>,
    hand: Option<Hand>,
    action: Option<Action>,
}

/// A log that is being written. Once writing has failed it is as if there were none.
#[derive(Debug)]
pub struct Log<W: Write = File> {
    out: Option<BufWriter<W>>,
    trouble: Option<io::Error>,
}

impl Log {
    /// Begins a log at `path`. A log that is there already is kept beside it, with `.old` after its
    /// name: it may tell why the daemon had to be started again.
    ///
    /// # Errors
    /// `path` is refused by the system, or its folder is, or the first two lines could not be written.
    pub fn create(path: &Path, start: &Start, config: &Config) -> io::Result<Log> {
        let entry = Entry::at(path)?;
        let is_log = |old: Status| old.kind == Kind::RegularFile && old.length > 0;
        if entry.status()?.is_some_and(is_log) {
            let mut old = entry.name().to_owned();
            old.push(".old");
            entry.rename(&old)?;
        }
        let file = entry.open(Access::Write, MODE)?;
        // It may have been there before, with another mode. Devices keep theirs.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
            file.set_permissions(Permissions::from_mode(MODE))?;
        }
        Log::begin(file, start, config)
    }
}

impl<W: Write> Log<W> {
    fn begin(out: W, start: &Start, config: &Config) -> io::Result<Log<W>> {
        let mut log = Log { out: Some(BufWriter::new(out)), trouble: None };
        log.line(&Header { format: FORMAT, version: VERSION.into() });
        log.line(&Beginning { start: start.clone(), config: config.clone() });
        log.flush();
        log.trouble.take().map_or(Ok(log), Err)
    }

    /// Something happened.
    pub fn event(&mut self, at: Count, event: &Event) {
        self.line(&EventLine { at, event });
    }

    /// The engine decided.
    pub fn action(&mut self, action: &Action) {
        self.line(&Decided::of(action));
    }

    /// Hands everything to the system.
    pub fn flush(&mut self) {
        if let Some(Err(error)) = self.out.as_mut().map(Write::flush) {
            self.fail(error);
        }
    }

    /// Reason why there is no log any more, once.
    pub fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    fn line(&mut self, line: &impl Serialize) {
        let Some(out) = &mut self.out else { return };
        let written = serde_json::to_writer(&mut *out, line)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"));
        if let Err(error) = written {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.trouble = Some(error);
        if let Some(out) = self.out.take() {
            // What is still in the buffer would only fail again.
            drop(out.into_parts());
        }
    }
}

#[cfg(test)]
mod tests;
