//! Words of a daemon to the service manager that started it, by the protocol of sd_notify(3): that
//! it is ready, that it is still at work, that it reads its configuration again, that it ends.
//!
//! ```
//! use truechimer_notify::Service;
//!
//! let mut service = Service::of_environment();
//! service.ready();
//! for _turn in 0..3 {
//!     service.alive(); // As often as you like: it is passed on when it is due.
//! }
//! service.stopping();
//! ```
//!
//! Where nobody wants to hear it, nothing is sent and no clock is read. No message is worth an
//! error: a manager that hears nothing does what its configuration says.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, or nobody.
#[derive(Debug, Default)]
pub struct Service {
    socket: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
}

#[derive(Debug)]
struct Watchdog {
    every: Duration,
    due: Instant,
}

impl Service {
    /// Nobody: for programs that are not the service themselves.
    #[must_use]
    pub fn none() -> Service {
        Service::default()
    }

    /// Whoever has set `NOTIFY_SOCKET`, and if it watches this process (`WATCHDOG_USEC`,
    /// `WATCHDOG_PID`), how often it wants to hear from it.
    #[must_use]
    pub fn of_environment() -> Service {
        let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Service::none() };
        let Ok(socket) = connected(&name) else { return Service::none() };
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let ours = env::var_os("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(std::process::id().into());
        let limit = number("WATCHDOG_USEC").filter(|limit| ours && *limit > 0);
        Service::new(socket, limit.map(Duration::from_micros))
    }

    /// One at the other end of this socket, that takes silence of more than `limit` for a hang.
    fn new(socket: UnixDatagram, limit: Option<Duration>) -> Service {
        // A quarter: one message may be lost, and a turn may take as long.
        let watchdog = limit.map(|limit| Watchdog { every: limit / 4, due: Instant::now() });
        Service { socket: Some(socket), watchdog }
    }

    /// All is set up, or the configuration has been read again.
    pub fn ready(&mut self) {
        self.say("READY=1");
    }

    /// At work still: to be called on every turn of the loop that must not hang.
    pub fn alive(&mut self) {
        let Some(watchdog) = &mut self.watchdog else { return };
        let now = Instant::now();
        if now >= watchdog.due {
            watchdog.due = now + watchdog.every;
            self.say("WATCHDOG=1");
        }
    }

    /// The configuration is being read again; [`Service::ready`] when that is done.
    pub fn reloading(&mut self) {
        self.say("RELOADING=1");
    }

    /// About to end.
    pub fn stopping(&mut self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// A socket to this address: a path, or `@` and a name without one. The daemon never waits for
/// whoever reads it.
fn connected(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> String {
        let mut text = [0; 64];
        manager.set_nonblocking(true).unwrap();
        let length = manager.recv(&mut text).unwrap_or(0);
        String::from_utf8(text.get(..length).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn a_manager_hears_each_word_by_itself() {
        let (ours, manager) = UnixDatagram::pair().unwrap();
        let mut service = Service::new(ours, None);
        service.ready();
        service.alive();
        service.reloading();
        service.stopping();
        let all: Vec<_> = (0..4).map(|_| heard(&manager)).collect();
        assert_eq!(all, ["READY=1", "RELOADING=1", "STOPPING=1", ""]);
    }

    #[test]
    fn a_watchdog_hears_in_time_and_no_more() {
        let (ours, manager) = UnixDatagram::pair().unwrap();
        let mut service = Service::new(ours, Some(Duration::from_secs(4 * 3600)));
        service.alive();
        service.alive();
        assert_eq!((heard(&manager), heard(&manager)), ("WATCHDOG=1".into(), String::new()));
        service.watchdog.as_mut().unwrap().due = Instant::now();
        service.alive();
        assert_eq!(heard(&manager), "WATCHDOG=1");
    }

    #[test]
    fn both_kinds_of_address_are_taken() {
        let path = env::temp_dir().join(format!("truechimer-notify-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        Service::new(connected(path.as_os_str()).unwrap(), None).ready();
        assert_eq!(heard(&manager), "READY=1");
        std::fs::remove_file(&path).unwrap();
        assert!(connected(path.as_os_str()).is_err());

        let name = format!("truechimer-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        Service::new(connected(OsStr::new(&format!("@{name}"))).unwrap(), None).ready();
        assert_eq!(heard(&manager), "READY=1");
    }

    #[test]
    fn a_manager_that_does_not_read_holds_nobody_up() {
        let (ours, _manager) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut service = Service::new(ours, None);
        (0..100_000).for_each(|_| service.ready());
        Service::none().ready();
    }
}
