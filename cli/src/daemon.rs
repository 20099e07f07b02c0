//! The daemon as the commands ask it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use truechimer::places;
use truechimer_daemon::control::{self, Accepted, Answer, ControlError};

use crate::args;
use crate::failure::Failure;

/// How long a daemon may take to answer. It does at once, unless it has been stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks the daemon that the user means for all that it knows.
pub fn ask(page: &args::Page, socket: &args::Control) -> Result<Answer, Failure> {
    at_its_socket(page, socket, |path| control::report(path, PATIENCE))
}

/// Has the daemon that the user means believe a source.
pub fn accept(
    page: &args::Page,
    socket: &args::Control,
    source: Option<&str>,
) -> Result<Accepted, Failure> {
    at_its_socket(page, socket, |path| control::accept(path, source, PATIENCE))
}

fn at_its_socket<T>(
    page: &args::Page,
    socket: &args::Control,
    ask: impl Fn(&Path) -> Result<T, ControlError>,
) -> Result<T, Failure> {
    if socket.is_none() {
        return Err(Failure::Said("--control none: the daemon is not asked".into()));
    }
    let mut first_error = None;
    for path in sockets(page, socket) {
        match ask(&path) {
            Ok(answer) => return Ok(answer),
            // Nobody there: perhaps at the next place.
            Err(why @ ControlError::NoDaemon { .. }) => {
                first_error.get_or_insert(why);
            }
            Err(why) => return Err(Failure::Said(why.to_string())),
        }
    }
    let why = first_error.map_or_else(|| "no place to look for it".into(), |why| why.to_string());
    Err(Failure::Said(why))
}

/// Where its control socket may be.
fn sockets(page: &args::Page, socket: &args::Control) -> Vec<PathBuf> {
    match (&socket.control, &page.page) {
        (Some(socket), _) => vec![socket.clone()],
        (None, Some(page)) => vec![control::default_path(page)],
        (None, None) => {
            places::for_readers().iter().map(|page| control::default_path(page)).collect()
        }
    }
}
