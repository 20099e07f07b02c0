//! The second point on another host: a command whose standard output is its capture, as it streams in.

use std::io::{self, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};
use truechimer::Clock;
use truechimer_qos::{Engine, Note, Severity};
use truechimer_time::Span;

use super::files::{Counters, Input, NOT_TOLD};
use super::live::lock;
use truechimer_command::Failure;

/// The name of its point in what is shown.
pub const NAME: &str = "peer";
/// Time that a command has to end by itself: after its output was closed, and after it was told to.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Interval at which a silent stream is left to see whether all is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A command that runs.
pub struct Peer {
    child: Child,
    command: String,
}

impl Peer {
    /// Starts the command, in a session of its own: it asks for no password, as it has no terminal, and gets no Ctrl-C.
    pub fn start(command: &str) -> Result<(Peer, ChildStdout), Failure> {
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", command]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = shell.spawn().map_err(|why| {
            Failure::new("--peer takes setsid(1) of util-linux, which does not start", why)
        })?;
        let output = child.stdout.take();
        let peer = Peer { child, command: command.to_owned() };
        let output = output.ok_or_else(|| Failure::Said("--peer: it has no output".into()))?;
        Ok((peer, output))
    }

    /// Ends it and what it started, as far as that is in its session. Returns how it had ended before, if it had.
    pub fn end(&mut self, early: bool) -> Option<String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)?;
        let how = early.then(|| ended(pid, LAST_WORDS)).flatten();
        // It is not waited for yet, so that nobody else has its number.
        for signal in [Signal::TERM, Signal::KILL] {
            // Just begun, it may have no session yet.
            let _ = kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal));
            if ended(pid, LAST_WORDS).is_some() {
                break;
            }
        }
        let _ = self.child.wait();
        how
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Waited for already, it has no number of its own any more.
        if let Ok(None) = self.child.try_wait() {
            self.end(false);
        }
    }
}

/// End of a child for people, once it has ended; it is waited for afterwards.
fn ended(pid: Pid, within: Duration) -> Option<String> {
    let until = Instant::now() + within;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(Some(status)) => return Some(words(&status)),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => return None,
        }
    }
}

fn words(status: &WaitIdStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "no status".into(),
    }
}

/// Output of a command until all is to end: no other process that has it too can keep us.
struct Pipe<'a> {
    output: ChildStdout,
    stop: &'a AtomicBool,
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
            match poll(&mut [PollFd::new(&self.output, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) => {}
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                _ => return self.output.read(into),
            }
        }
    }
}

/// Packets that come from another host.
pub struct Stream<'a> {
    pub engine: &'a Mutex<Engine>,
    pub filter: Option<String>,
    pub clock: Option<Clock>,
    pub timeout_ns: i64,
    pub stop: &'a AtomicBool,
    /// Set where the stream ends, before all is told to.
    pub early: &'a AtomicBool,
}

/// Says that a stream has ended, however it has.
struct Ending<'a>(&'a Stream<'a>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Stream { early, stop, .. } = self.0;
        early.store(!stop.load(Ordering::SeqCst), Ordering::SeqCst);
        // Without it there is nothing to compare with.
        stop.store(true, Ordering::SeqCst);
    }
}

/// Account of a stream that has ended.
pub struct Told {
    pub notes: Vec<Note>,
    /// Host that it came from, in words.
    pub host: String,
}

/// Packets of a stream that are in no figure.
#[derive(Default)]
struct LeftOut {
    packets: u64,
    late: u64,
    ahead: u64,
    latest_ns: i64,
    error: Option<String>,
}

impl Stream<'_> {
    /// Hands the packets to the engine as they come, to the end of the stream.
    pub fn follow(&self, output: ChildStdout, peer: &str) -> Result<Told, Failure> {
        let _ending = Ending(self);
        let mut out = LeftOut::default();
        let pipe = BufReader::new(Pipe { output, stop: self.stop });
        let name = format!("--peer '{peer}'");
        let mut input = match Input::of(name, Box::new(pipe), self.filter.clone(), None) {
            // It was ended by us before it had begun.
            Err(_) if self.stop.load(Ordering::Relaxed) => {
                return Ok(Told { notes: Vec::new(), host: NOT_TOLD.to_owned() });
            }
            input => input?,
        };
        (input.point, input.streams) = (1, true);
        let mut counters = Counters::default();
        loop {
            match input.advance() {
                Err(_) if self.stop.load(Ordering::Relaxed) => break,
                Err(Failure::Said(why)) if out.packets > 0 => {
                    out.error = Some(why);
                    break;
                }
                other => other?,
            }
            let Some(at) = input.held_at() else { break };
            out.packets += 1;
            if !self.is_out(self.now_ns(), at.unix_ns, &mut out) {
                input.give(&mut lock(self.engine), &mut counters);
            }
        }
        let notes = input.notes().into_iter().chain(out.notes(peer)).collect();
        Ok(Told { notes, host: input.host() })
    }

    /// Test for times that would be compared with nothing: of packets whose others were given up here, or that
    /// nobody can have sent yet. It is `now_ns` by the clock that stamps the packets of here.
    fn is_out(&self, now_ns: i64, unix_ns: i64, out: &mut LeftOut) -> bool {
        let behind = now_ns.saturating_sub(unix_ns);
        let (late, ahead) = (behind > self.timeout_ns, behind < -self.timeout_ns);
        out.ahead += u64::from(ahead);
        out.late += u64::from(late);
        out.latest_ns = out.latest_ns.max(behind);
        late || ahead
    }

    /// Unix ns now, by the clock that stamps the packets of here: the system clock while there is no other.
    fn now_ns(&self) -> i64 {
        let ours = self.clock.as_ref().and_then(|clock| clock.now().ok());
        ours.filter(|now| now.bound().is_some()).map_or_else(
            || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64),
            |now| now.utc().unix_nanos() as i64,
        )
    }
}

impl LeftOut {
    fn notes(&self, peer: &str) -> impl Iterator<Item = Note> {
        let told = |text: String| Note {
            severity: Severity::Warning,
            text: format!("--peer '{peer}': {text}"),
        };
        let late = (self.late > 0).then(|| {
            let LeftOut { late, latest_ns, .. } = self;
            let most = Span::from_nanos(*latest_ns);
            told(format!("{late} packets came up to {most} late, beyond --timeout, and are left out: a line that is too slow, or clocks that differ"))
        });
        let ahead = (self.ahead > 0).then(|| {
            told(format!(
                "{} packets are of times to come, and are left out: its clock is ahead",
                self.ahead
            ))
        });
        let error =
            self.error.as_ref().map(|why| told(format!("its stream ended in an error: {why}")));
        [late, ahead, error].into_iter().flatten()
    }
}

/// Note of a stream that ended by itself.
pub fn early(peer: &Peer, how: Option<&str>) -> Note {
    let how = how.unwrap_or("its output is closed");
    let text = format!("--peer '{}' ended by itself: {how}", peer.command);
    Note { severity: Severity::Warning, text }
}

/// Failure of a stream, with how its command ended.
pub fn ended_so(why: Failure, how: Option<String>) -> Failure {
    match (why, how) {
        (Failure::Said(why), Some(how)) => Failure::Said(format!("{why}; it ended with {how}")),
        (why, _) => why,
    }
}

#[cfg(test)]
mod tests {
    use truechimer_qos::Options;

    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn packets_too_late_or_of_times_to_come_are_left_out() {
        let engine = Mutex::new(Engine::new(Options { points: 2, ..Options::default() }));
        let (stop, early) = (AtomicBool::new(false), AtomicBool::new(false));
        let stream = Stream {
            engine: &engine,
            filter: None,
            clock: None,
            timeout_ns: 2 * S,
            stop: &stop,
            early: &early,
        };
        let (mut out, now) = (LeftOut::default(), 1_800_000_000 * S);
        for (after, is_out) in [
            (0, false),
            (S, false),
            (-S, false),
            (-3 * S, true),
            (3600 * S, true),
            (i64::MAX - now, true),
            (i64::MIN + now, true),
        ] {
            assert_eq!(stream.is_out(now, now + after, &mut out), is_out, "{after} ns after");
        }
        assert_eq!((out.late, out.ahead), (2, 2));
        let notes: Vec<String> = out.notes("command").map(|note| note.text).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        // However it ends, all ends with it.
        drop(Ending(&stream));
        assert!(stop.load(Ordering::SeqCst) && early.load(Ordering::SeqCst));
    }
}
