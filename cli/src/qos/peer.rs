//! The second point on another host: a command whose standard output is its capture, as it streams in.

use std::io::BufReader;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use truechimer_qos::{Engine, Note, Severity};

use super::files::{Counters, Input};
use super::live::lock;
use truechimer_command::Failure;

/// The name of its point in what is shown.
pub const NAME: &str = "peer";

/// A command whose output is closed has this time to end, and so to say how it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A command that runs, and gives its end to be read.
pub struct Peer {
    child: Child,
    command: String,
}

/// The outcome of its stream.
pub type Streamed = Result<Vec<Note>, Failure>;

impl Peer {
    /// Starts the command in a session of its own: without a terminal it asks for no password, it gets no Ctrl-C,
    /// and all that it starts is ended with it.
    pub fn start(command: &str) -> Result<Peer, Failure> {
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", command]).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = shell.spawn().map_err(|why| {
            Failure::new("--peer takes setsid(1) of util-linux, which does not start", why)
        })?;
        Ok(Peer { child, command: command.to_owned() })
    }

    /// Hands its packets to the engine as they come, on a thread, and says `done` after the last.
    pub fn follow<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        filter: Option<String>,
        engine: &'scope Mutex<Engine>,
        done: impl FnOnce() + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, Streamed>, Failure> {
        let Some(output) = self.child.stdout.take() else {
            return Err(Failure::Said("--peer: its output is read already".into()));
        };
        let name = format!("--peer '{}'", self.command);
        let thread = std::thread::Builder::new().name("peer".into());
        let thread = thread.spawn_scoped(scope, move || {
            let streamed = stream(name, BufReader::new(output), filter, engine);
            done();
            streamed
        });
        thread.map_err(|why| Failure::new("cannot start a thread", why))
    }

    /// Ends it and whatever it started. A note, if its stream had ended before (`early`).
    pub fn end(&mut self, early: bool) -> Option<Note> {
        let until = Instant::now() + if early { LAST_WORDS } else { Duration::ZERO };
        let mut status = self.ended();
        while status.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            status = self.ended();
        }
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Some(group), None) = (group, status) {
            // It is not waited for yet, so that no other group has its number.
            let _ = kill_process_group(group, Signal::TERM);
            let _ = self.child.wait();
        }
        let how = status.map_or("its output is closed".into(), |status| status.to_string());
        let text = format!("--peer '{}' ended by itself: {how}", self.command);
        early.then_some(Note { severity: Severity::Warning, text })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.end(false));
    }
}

/// Reads to the end of the stream.
fn stream(
    name: String,
    output: impl std::io::Read + Send + 'static,
    filter: Option<String>,
    engine: &Mutex<Engine>,
) -> Streamed {
    let mut input = Input::of(name, Box::new(output), filter, None)?;
    input.point = 1;
    let mut counters = Counters::default();
    loop {
        input.advance()?;
        if !input.holds() {
            return Ok(input.notes());
        }
        input.give(&mut lock(engine), &mut counters);
    }
}
