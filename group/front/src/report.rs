//! Report of a front on itself, for tools: a file beside its program's page, one JSON object.

use std::fs::{File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys;

/// One that is older is of a front that hangs, ns.
const LATE_NS: i64 = 10_000_000_000;
/// No report is longer, bytes.
const LONGEST: u64 = 1 << 20;

/// Where a front stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not in yet, or not any more.
    Outside,
    /// Answering clients.
    Answering,
    /// In, and answering nobody: no majority of the programs follows, or its own does not.
    Waiting,
    /// Ended because it could not go on.
    Stopped,
}

/// Another replica, or the front's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerReport {
    /// Member of the replica.
    pub member: u32,
    /// `follows`, `starts`, `behind`, `diverged` or `gone`.
    pub standing: String,
    /// Reason, unless it follows.
    pub why: Option<String>,
    /// Agreed time since which it is out, ns since 1970.
    pub since_ns: Option<i64>,
    /// Number of requests by then: it was at the last of these, or before.
    pub request: Option<u64>,
}

/// State of things with a front.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FrontReport {
    /// Process of the front.
    pub pid: u32,
    /// When it said this, ns of CLOCK_MONOTONIC.
    pub at_ns: i64,
    /// Where it stands.
    pub state: State,
    /// Reason why it does not answer.
    pub why: Option<String>,
    /// Number of replicas in all.
    pub replicas: usize,
    /// Number of replicas whose programs follow.
    pub following: usize,
    /// Number of things to be dealt with: openings, requests and ends.
    pub count: u64,
    /// Number of these that its program has dealt with.
    pub done: u64,
    /// Others' words on replies that were the same as its own program's.
    pub same: u64,
    /// And that were not.
    pub different: u64,
    /// Requests beside the order that it has dealt with.
    #[serde(default)]
    pub reads: u64,
    /// Agreed time up to which its program has what the order has, ns since 1970: what its clock shows.
    #[serde(default)]
    pub time_ns: Option<i64>,
    /// The replicas, as far as they were ever in.
    pub peers: Vec<PeerReport>,
}

impl FrontReport {
    /// Where that of the front with this page is.
    #[must_use]
    pub fn path(page: &Path) -> PathBuf {
        page.with_extension("front.json")
    }

    /// Writes it, in one piece for whoever reads.
    pub(crate) fn write(&self, page: &Path) -> io::Result<()> {
        let path = FrontReport::path(page);
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        // The agent reads it, which may be another user's, whatever this front's umask.
        std::fs::set_permissions(&new, Permissions::from_mode(0o644))?;
        std::fs::rename(new, path)
    }

    /// That of the front with this page; none if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub fn read(page: &Path) -> io::Result<Option<FrontReport>> {
        // Others may write there: what is no file may have no end, or let its reader wait.
        let careful = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let path = FrontReport::path(page);
        let file = match File::options().read(true).custom_flags(careful).open(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = Vec::new();
        if file.take(LONGEST + 1).read_to_end(&mut text)? as u64 > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// CLOCK_MONOTONIC, ns.
    #[must_use]
    pub fn now_ns() -> i64 {
        sys::monotonic_ns()
    }

    /// Reason why it is not as it should be, in words. `attached` is whether the member's agent has
    /// a front, `now_ns` is [`FrontReport::now_ns`].
    #[must_use]
    pub fn trouble(&self, attached: bool, now_ns: i64) -> Option<String> {
        let late = now_ns.saturating_sub(self.at_ns);
        let why = self.why.as_deref().unwrap_or("it does not say why");
        match self.state {
            State::Stopped => Some(format!("its front has stopped: {why}")),
            _ if !attached => {
                Some(format!("its front (process {}) has ended without a word", self.pid))
            }
            _ if late > LATE_NS => Some(format!(
                "its front (process {}) has said nothing for {} s: does it hang?",
                self.pid,
                late / 1_000_000_000
            )),
            State::Outside => Some(format!("its front is not in: {why}")),
            State::Waiting => Some(format!("its front answers nobody: {why}")),
            State::Answering => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_judged() {
        let name = format!("truechimer-front-report-{}", std::process::id());
        let page = std::env::temp_dir().join(name).with_extension("front");
        assert_eq!(FrontReport::read(&page).unwrap(), None);
        let mut report = FrontReport {
            pid: 7,
            at_ns: 5,
            state: State::Answering,
            why: None,
            replicas: 3,
            following: 2,
            count: 9,
            done: 8,
            same: 1,
            different: 0,
            reads: 4,
            time_ns: Some(3),
            peers: vec![PeerReport {
                member: 2,
                standing: "gone".into(),
                why: Some("it has ended".into()),
                since_ns: Some(5),
                request: Some(6),
            }],
        };
        let umask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        report.write(&page).unwrap();
        rustix::process::umask(umask);
        let mode = std::fs::metadata(FrontReport::path(&page)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "its agent may be another user's");
        assert_eq!(FrontReport::read(&page).unwrap(), Some(report.clone()));
        let says =
            |report: &FrontReport, alive, now| report.trouble(alive, now).unwrap_or_default();
        assert_eq!(says(&report, true, 9), "");
        assert!(says(&report, false, 9).contains("process 7"));
        assert!(says(&report, true, LATE_NS + 6).contains("for 10 s"));
        report.why = Some("no program".into());
        for (state, text) in [
            (State::Stopped, "has stopped: no program"),
            (State::Outside, "is not in: no program"),
            (State::Waiting, "answers nobody: no program"),
        ] {
            report.state = state;
            assert!(says(&report, true, 9).contains(text));
        }
        std::fs::write(FrontReport::path(&page), "{}").unwrap();
        assert!(FrontReport::read(&page).is_err());
        let path = FrontReport::path(&page);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(FrontReport::read(&page).is_err());
        std::fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success() && FrontReport::read(&page).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, vec![b' '; LONGEST as usize + 1]).unwrap();
        let too_long = FrontReport::read(&page).unwrap_err();
        assert_eq!(too_long.kind(), io::ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).unwrap();
    }
}
