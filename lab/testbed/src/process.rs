//! Processes that end with their owner.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, kill_process_group, test_kill_process_group};

/// Signals that tests send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is its namesake")]
pub enum Signal {
    Term,
    Kill,
    Stop,
    Continue,
    Hangup,
}

/// A running program in a process group of its own, all of which is killed when it is dropped: what the program has
/// started ends with it, unless that has left the group as daemons do. Its output goes to a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Number of the group; none once the group is known to be empty, as others may have the number then.
    group: Option<Pid>,
    log: PathBuf,
}

/// Arguments of setpriv: the program dies with the thread that starts it.
pub(crate) const MORTAL: [&str; 2] = ["--pdeathsig", "KILL"];
/// Arguments of setpriv for root: nothing that a test starts shall be able to set the host's clock.
pub(crate) const NO_CLOCK: [&str; 2] = ["--bounding-set", "-sys_time"];

/// A command that runs `program` on the host. It dies with the thread that starts it.
#[must_use]
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(MORTAL);
    if is_root() {
        command.args(NO_CLOCK);
    }
    command.arg("--").arg(program);
    command
}

/// True if we are root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

impl Process {
    /// Starts `command`, all of whose output is appended to `log`.
    #[must_use]
    pub fn start(mut command: Command, log: &Path) -> Process {
        command.process_group(0);
        Process::spawn(command, log)
    }

    /// Starts a command that begins a session of its own by setsid(1), and so a group. At the head of a group
    /// already, that would go on in a child, and what was started would have ended.
    #[must_use]
    pub fn start_session(command: Command, log: &Path) -> Process {
        Process::spawn(command, log)
    }

    fn spawn(mut command: Command, log: &Path) -> Process {
        let output = File::options()
            .append(true)
            .create(true)
            .open(log)
            .unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let errors = output.try_clone().expect("a second handle of the log");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let group = Some(Pid::from_child(&child));
        Process { child, group, log: log.to_owned() }
    }

    /// Process id: also that of the program itself if it was started through
    /// [`crate::namespace::Namespace::command`], as all the wrappers only replace themselves.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Term => "-TERM",
            Signal::Kill => "-KILL",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
            Signal::Hangup => "-HUP",
        };
        // The shell's own kill: nothing to install, and no unsafe code here.
        let status = Command::new("sh")
            .args(["-c", "kill \"$0\" \"$1\"", name, &self.pid().to_string()])
            .status()
            .expect("sh runs");
        assert!(status.success(), "cannot send {name} to {}", self.pid());
    }

    /// Waits for it to end; `None` if it did not in time. What it has started, and left in its group, goes on: a
    /// compressor, say, that writes the end of a file.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                self.group = self.group.filter(|group| is_there(*group));
                return Some(status);
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// True if it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.wait(Duration::ZERO).is_none()
    }

    /// All it has written so far.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until it has written `text`.
    pub fn expect_output(&mut self, text: &str, within: Duration) {
        let end = Instant::now() + within;
        loop {
            // Asked first: what it wrote before it ended counts.
            let running = self.is_running();
            if self.output().contains(text) {
                return;
            }
            assert!(
                running && Instant::now() < end,
                "no `{text}` from a process that {}:\n{}",
                if running { "runs" } else { "has ended" },
                self.output()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What it has started first: the group may have no other trace of it when the program is gone.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, rustix::process::Signal::KILL);
        }
        // In a group of another number if it has made itself one.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- {} ----\n{}", self.log.display(), self.output());
        }
    }
}

/// True if the group has a process.
fn is_there(group: Pid) -> bool {
    test_kill_process_group(group) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp;

    const SOON: Duration = Duration::from_secs(60);

    /// A shell that starts a process which goes on by itself, and that process.
    fn shell(dir: &temp::Dir, then: &str) -> (Process, Pid) {
        let mut shell = command("sh");
        shell.args(["-c", &format!("sleep 1000 & echo started $!; {then}")]);
        let mut shell = Process::start(shell, &dir.join("log"));
        let other = started(&mut shell);
        (shell, other)
    }

    /// The process that it says it has started.
    fn started(shell: &mut Process) -> Pid {
        shell.expect_output("\n", SOON);
        let said = shell.output();
        let number = said.trim().strip_prefix("started ").and_then(|number| number.parse().ok());
        number.and_then(Pid::from_raw).unwrap_or_else(|| panic!("{said:?}"))
    }

    /// True if it has not ended. One that nobody has waited for has, too.
    fn runs(process: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
    }

    /// Waits until it has ended.
    fn ends(process: Pid) {
        let end = Instant::now() + SOON;
        while runs(process) {
            assert!(Instant::now() < end, "process {process:?} goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_it_has_started_ends_with_it() {
        let dir = temp::Dir::new();
        let (shell, other) = shell(&dir, "wait");
        assert!(runs(other));
        drop(shell);
        ends(other);
    }

    #[test]
    fn what_it_has_started_ends_with_it_when_it_has_ended_before() {
        let dir = temp::Dir::new();
        for then in ["wait", "exit"] {
            let (mut shell, other) = shell(&dir, then);
            if then == "wait" {
                shell.signal(Signal::Kill);
            }
            assert!(shell.wait(SOON).is_some());
            assert!(runs(other), "it may go on until then");
            drop(shell);
            ends(other);
            std::fs::remove_file(dir.join("log")).unwrap();
        }
    }

    #[test]
    fn a_session_is_a_group_as_well() {
        let dir = temp::Dir::new();
        let mut session = command("setsid");
        session.args(["sh", "-c", "sleep 1000 & echo started $!; wait"]);
        let mut session = Process::start_session(session, &dir.join("log"));
        let other = started(&mut session);
        assert!(session.is_running() && runs(other));
        drop(session);
        ends(other);
    }

    #[test]
    fn nothing_is_killed_by_a_number_that_others_may_have() {
        let dir = temp::Dir::new();
        let mut alone = Process::start(command("true"), &dir.join("log"));
        assert!(alone.wait(SOON).is_some() && alone.group.is_none());
    }
}
