//! Processes that end with their owner.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

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

/// A running program, killed by its pid when dropped. Its output goes to a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
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
        let output = File::options()
            .append(true)
            .create(true)
            .open(log)
            .unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let errors = output.try_clone().expect("a second handle of the log");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Process { child, log: log.to_owned() }
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

    /// Waits for it to end; `None` if it did not in time.
    pub fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
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
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("---- {} ----\n{}", self.log.display(), self.output());
        }
    }
}
