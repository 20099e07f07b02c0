//! Asking a running daemon.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;

use super::{Accepted, Answer, Changed, Refused, Reloaded, Request, Version};

/// The longest answer that is taken, in bytes.
const MAX_ANSWER: u64 = 16 << 20;

/// Reasons why a daemon could not be asked.
#[derive(Debug)]
pub enum ControlError {
    /// Nobody answers there.
    NoDaemon {
        /// The socket.
        socket: PathBuf,
        /// Error of the operating system.
        why: io::Error,
    },
    /// The socket is not for this user.
    NoPermission {
        /// The socket.
        socket: PathBuf,
    },
    /// No answer in time.
    Silent {
        /// The socket.
        socket: PathBuf,
    },
    /// Connection hung up or broken.
    Broken {
        /// The socket.
        socket: PathBuf,
        /// Error of the operating system.
        why: io::Error,
    },
    /// Refusal, for this reason.
    Refused(String),
    /// Answer that is none: another version, or not a daemon of ours.
    Unintelligible {
        /// The socket.
        socket: PathBuf,
        /// Fault of the answer.
        why: String,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::NoDaemon { socket, why } => write!(
                f,
                "no daemon answers at {} ({why}): start one with `truechimer run --server HOST`",
                socket.display()
            ),
            ControlError::NoPermission { socket } => {
                write!(f, "no permission to ask the daemon at {}", socket.display())
            }
            ControlError::Silent { socket } => {
                write!(f, "the daemon at {} does not answer: is it stopped?", socket.display())
            }
            ControlError::Broken { socket, why } => {
                write!(f, "the daemon at {} hung up: {why}", socket.display())
            }
            ControlError::Refused(why) => write!(f, "the daemon refused: {why}"),
            ControlError::Unintelligible { socket, why } => write!(
                f,
                "cannot make out what {} says ({why}): is its daemon of another version?",
                socket.display()
            ),
        }
    }
}

impl std::error::Error for ControlError {}

/// Asks the daemon behind `socket` for all that it knows.
///
/// # Errors
/// If no daemon answers within `timeout` (for each step of the exchange).
pub fn report(socket: &Path, timeout: Duration) -> Result<Answer, ControlError> {
    ask(socket, "report", timeout)
}

/// Asks the daemon behind `socket` for its version.
///
/// # Errors
/// If no daemon answers within `timeout`.
pub fn version(socket: &Path, timeout: Duration) -> Result<Version, ControlError> {
    ask(socket, "version", timeout)
}

/// Tells the daemon behind `socket` to read its configuration again, as SIGHUP does.
///
/// # Errors
/// If no daemon answers within `timeout`, if it is another user's, or if the configuration is wrong:
/// the old one stays in force then.
pub fn reload(socket: &Path, timeout: Duration) -> Result<Reloaded, ControlError> {
    ask(socket, "reload", timeout)
}

/// Tells the daemon behind `socket` to believe this source now, or without one the one that is
/// held off.
///
/// # Errors
/// If no daemon answers within `timeout`, if it is another user's, or if there is no such source
/// that has anything to say.
pub fn accept(
    socket: &Path,
    source: Option<&str>,
    timeout: Duration,
) -> Result<Accepted, ControlError> {
    let source = source.map(str::to_owned);
    request(socket, &Request { verb: "accept".into(), source }, timeout)
}

/// Tells the daemon behind `socket` to change its sources until it ends: `verb` is `add`, with a small
/// document of `[[source]]`, `delete`, `offline` or `online`, with a name or, of the last two, without.
///
/// # Errors
/// If no daemon answers within `timeout`, if it is another user's, or if it refuses.
pub fn change(
    socket: &Path,
    verb: &str,
    source: Option<&str>,
    timeout: Duration,
) -> Result<Changed, ControlError> {
    let source = source.map(str::to_owned);
    request(socket, &Request { verb: verb.into(), source }, timeout)
}

fn ask<T: DeserializeOwned>(
    socket: &Path,
    verb: &str,
    timeout: Duration,
) -> Result<T, ControlError> {
    request(socket, &Request { verb: verb.into(), source: None }, timeout)
}

fn request<T: DeserializeOwned>(
    socket: &Path,
    request: &Request,
    timeout: Duration,
) -> Result<T, ControlError> {
    let failed = |why: io::Error| failure(socket, why);
    let stream = connect(socket, timeout).map_err(failed)?;

    let broken = |why: io::Error| broken(socket, why);
    let request = serde_json::to_string(request);
    let request = request.map_err(|why| broken(why.into()))? + "\n";
    // A daemon that has hung up already has said why.
    let written = (&stream).write_all(request.as_bytes());
    let mut line = String::new();
    let read = BufReader::new((&stream).take(MAX_ANSWER)).read_line(&mut line);
    if line.is_empty() {
        written.map_err(broken)?;
    }
    read.map_err(broken)?;
    if line.is_empty() {
        return Err(broken(io::ErrorKind::UnexpectedEof.into()));
    }
    if let Ok(refused) = serde_json::from_str::<Refused>(&line) {
        return Err(ControlError::Refused(refused.error));
    }
    // Typed at once: a `serde_json::Value` would lose what does not fit into 64 bits.
    serde_json::from_str(&line)
        .map_err(|why| ControlError::Unintelligible { socket: socket.into(), why: why.to_string() })
}

/// A connection that takes so long at most, to be made as well as for each read and write: behind a daemon that is stopped,
/// once as many wait as the kernel lets wait, it would be for ever.
///
/// # Errors
/// If there is no such socket, nobody listens at it, or nobody takes connections in within the time
/// ([`io::ErrorKind::WouldBlock`]).
pub fn connect(socket: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let stream = UnixStream::from(stream);
    // A timeout of zero is refused by the system.
    let timeout = Some(timeout.max(Duration::from_millis(1)));
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)?;
    let address = SocketAddrUnix::new(socket)?;
    retry_on_intr(|| net::connect(&stream, &address))?;
    Ok(stream)
}

fn failure(socket: &Path, why: io::Error) -> ControlError {
    let socket = socket.to_path_buf();
    match why.kind() {
        io::ErrorKind::PermissionDenied => ControlError::NoPermission { socket },
        io::ErrorKind::WouldBlock => ControlError::Silent { socket },
        _ => ControlError::NoDaemon { socket, why },
    }
}

fn broken(socket: &Path, why: io::Error) -> ControlError {
    let socket = socket.to_path_buf();
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent { socket },
        _ => ControlError::Broken { socket, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon that is stopped takes no connections: whoever asks hears of that in time.
    #[test]
    fn a_daemon_that_takes_nobody_in_is_silent() {
        let folder = std::env::temp_dir().join(format!("truechimer-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control");
        let flags = SocketFlags::CLOEXEC;
        let listener =
            net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&listener, 0).unwrap();
        let soon = Duration::from_millis(20);
        let waiting: Vec<_> = (0..8).map_while(|_| connect(&path, soon).ok()).collect();
        assert!((1..8).contains(&waiting.len()), "{}", waiting.len());
        let asked = ask::<Version>(&path, "version", soon);
        assert!(matches!(asked, Err(ControlError::Silent { .. })), "{asked:?}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
