//! The daemon as the commands ask it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use truechimer::{Status, places};
use truechimer_daemon::control::{self, Accepted, Answer, Changed, ControlError, Reloaded};

use clap::Args;
use truechimer_command::Failure;
use truechimer_command::clock::Page;

/// Where the daemon answers.
#[derive(Args, Clone, Debug)]
pub struct Control {
    /// The daemon's control socket; none for a daemon without [default: PAGE.control]
    #[arg(long, value_name = "PATH", help_heading = "Where the clock is")]
    pub control: Option<PathBuf>,
}

impl Control {
    /// True if there is to be none.
    pub fn is_none(&self) -> bool {
        self.control.as_deref().is_some_and(|path| path == Path::new("none"))
    }
}

/// Time that a daemon has to answer. It does so at once, unless it has been stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time that it has where the answer is worth no wait.
const AT_ONCE: Duration = Duration::from_millis(200);

/// Asks the daemon that the user means for all that it knows.
pub fn ask(page: &Page, socket: &Control) -> Result<Answer, Failure> {
    at_its_socket(page, socket, |path| control::report(path, PATIENCE))
}

/// Asks likewise a daemon that is not waited for if it does not answer at once.
pub fn ask_at_once(page: &Page, socket: &Control) -> Result<Answer, Failure> {
    at_its_socket(page, socket, |path| control::report(path, AT_ONCE))
}

/// Reason of the daemon that writes this page for its clock's status, if that is the one meant, and if
/// it answers at once.
pub fn reason(page: &Path, status: Status) -> Option<String> {
    let answer = control::report(&control::default_path(page), AT_ONCE).ok()?;
    let report = answer.report;
    let is_meant = report.hand.is_some_and(|hand| hand.status == status);
    (is_meant && !report.reason.is_empty()).then_some(report.reason)
}

/// Has the daemon that the user means believe a source.
pub fn accept(page: &Page, socket: &Control, source: Option<&str>) -> Result<Accepted, Failure> {
    at_its_socket(page, socket, |path| control::accept(path, source, PATIENCE))
}

/// Has the daemon that the user means change its sources.
pub fn change(
    page: &Page,
    socket: &Control,
    verb: &str,
    source: Option<&str>,
) -> Result<Changed, Failure> {
    at_its_socket(page, socket, |path| control::change(path, verb, source, PATIENCE))
}

/// Has the daemon that the user means read its configuration again.
pub fn reload(page: &Page, socket: &Control) -> Result<Reloaded, Failure> {
    at_its_socket(page, socket, |path| control::reload(path, PATIENCE))
}

fn at_its_socket<T>(
    page: &Page,
    socket: &Control,
    ask: impl Fn(&Path) -> Result<T, ControlError>,
) -> Result<T, Failure> {
    if socket.is_none() {
        return Err(Failure::Said("--control none: the daemon is not asked".into()));
    }
    let (mut best, mut found) = (None, false);
    for path in sockets(page, socket) {
        match ask(&path) {
            Ok(answer) => return Ok(answer),
            // Nobody there: perhaps at the next place. A socket that one left says more than none.
            Err(ControlError::NoDaemon { socket, why }) => {
                let is_there = why.kind() != ErrorKind::NotFound;
                if best.is_none() || (is_there && !found) {
                    best = Some(ControlError::NoDaemon { socket, why });
                }
                found |= is_there;
            }
            Err(why) => return Err(Failure::Said(why.to_string())),
        }
    }
    let why = best.map_or_else(|| "no place to look for it".into(), |why| why.to_string());
    Err(Failure::Said(why))
}

/// Where its control socket may be.
fn sockets(page: &Page, socket: &Control) -> Vec<PathBuf> {
    match (&socket.control, &page.page) {
        (Some(socket), _) => vec![socket.clone()],
        (None, Some(page)) => vec![control::default_path(page)],
        (None, None) => {
            places::for_readers().iter().map(|page| control::default_path(page)).collect()
        }
    }
}
