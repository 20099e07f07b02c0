//! Decisions are the same on every machine: a log that was written by one build is repeated by
//! another, for another processor or optimised, as `truechimer-lab replay` does it.
//!
//! ```text
//! cargo run -p truechimer-repeat -- write /tmp/log
//! cargo run -p truechimer-repeat --release -- /tmp/log
//! ```

#![allow(clippy::indexing_slicing, clippy::unwrap_used)] // Servers of its own bed.

extern crate alloc;

#[path = "../../../clock/engine/tests/bed/mod.rs"]
mod bed;

use std::env;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::process::ExitCode;

use bed::{Bed, Watcher, config, start};
use serde::Serialize;
use truechimer_engine::{Action, Engine, Event, Standard};
use truechimer_replay::verify;
use truechimer_time::Count;

/// One-way delays to the servers, ns.
const AWAY: [i64; 3] = [200_000, 1_100_000, 9_000_000];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", path] => write(path),
        [path] => repeat(path),
        _ => Err(io::Error::other("usage: repeat [write] LOG")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("repeat: {why}");
            ExitCode::FAILURE
        }
    }
}

fn repeat(path: &str) -> io::Result<()> {
    let log = BufReader::new(File::open(path)?);
    let summary = verify(log).map_err(io::Error::other)?;
    println!("{} events, {} hands: the same", summary.events, summary.hands);
    if summary.events > 0 { Ok(()) } else { Err(io::Error::other("nothing happens in that log")) }
}

/// Values that JSON can express.
trait Text {
    fn text(&self) -> String;
}

impl<T: Serialize> Text for T {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("all of it can be written")
    }
}

/// Writes the lines of a log (see [`truechimer_replay`]) on its way through the engine.
struct Log {
    out: BufWriter<File>,
    failed: io::Result<()>,
}

impl Log {
    /// A line of some fields.
    fn line(&mut self, fields: &[(&str, &dyn Text)]) {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("\"{name}\":{}", value.text())).collect();
        let written = writeln!(self.out, "{{{}}}", fields.join(","));
        self.failed = std::mem::replace(&mut self.failed, Ok(())).and(written);
    }

    fn decided(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Publish(hand) => self.line(&[("hand", hand)]),
                other => self.line(&[("action", other)]),
            }
        }
    }
}

impl Watcher for Log {
    fn after(&mut self, at: Count, event: &Event, actions: &[Action]) {
        self.line(&[("at", &at), ("event", event)]);
        self.decided(actions);
    }
}

/// Follows three servers: one comes to be farther away, and all are silent for a while.
fn write(path: &str) -> io::Result<()> {
    let mut log = Log { out: BufWriter::new(File::create(path)?), failed: Ok(()) };
    log.line(&[("truechimer-replay", &13), ("version", &env!("CARGO_PKG_VERSION"))]);
    let config = config(AWAY.len() as u8);
    log.line(&[("start", &start()), ("config", &config)]);
    log.decided(&Engine::new(config, start()).1);
    let mut bed = Bed::new(&AWAY, Box::new(Standard), &mut log);
    bed.run(3600, &mut log);
    bed.servers[0].floors[0] += 150_000;
    bed.run(1800, &mut log);
    bed.servers.iter_mut().for_each(|server| server.up = false);
    bed.run(600, &mut log);
    bed.servers.iter_mut().for_each(|server| server.up = true);
    bed.run(1800, &mut log);
    log.out.flush()?;
    log.failed
}
