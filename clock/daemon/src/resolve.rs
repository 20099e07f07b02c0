//! Names to addresses, and keys of servers that prove who they are, on helper threads that the time path
//! never waits for.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use truechimer_engine::{Family, SourceId};

use crate::proof::{Exchange, Session};

/// More addresses of one name than this are not looked at.
const MAX_ADDRESSES: usize = 16;

/// Findings of a look-up.
#[derive(Debug)]
pub(crate) struct Found {
    /// Addresses of the NTP server, the preferred one first.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Keys, if they were asked for.
    pub(crate) session: Option<Session>,
}

/// Way by which the keys of a server are fetched.
#[derive(Clone, Default, Debug)]
#[cfg_attr(not(feature = "nts"), expect(dead_code, reason = "nobody fetches any"))]
pub(crate) struct Route {
    /// Network interface; `None`: whichever the system chooses.
    pub(crate) interface: Option<String>,
    /// Family of the server's addresses; `None`: either.
    pub(crate) family: Option<Family>,
}

#[cfg(feature = "nts")]
impl Route {
    /// Those of these addresses that are of the family that is wanted, or why there are none.
    pub(crate) fn choose(&self, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, String> {
        match self.family {
            Some(family) => family.of(addresses),
            None => Ok(addresses),
        }
    }

    /// A connection to that address, within that time.
    pub(crate) fn connect(
        &self,
        to: &SocketAddr,
        within: std::time::Duration,
    ) -> std::io::Result<std::net::TcpStream> {
        use std::io;
        use std::net::TcpStream;
        use std::os::fd::{AsFd, AsRawFd};

        use rustix::io::Errno;
        use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

        use crate::sys::{self, pollfd};

        let Some(interface) = &self.interface else {
            return TcpStream::connect_timeout(to, within);
        };
        let named =
            |why: io::Error| io::Error::new(why.kind(), format!("interface {interface}: {why}"));
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        truechimer_stamp::bind_to_device(socket.as_fd(), interface).map_err(named)?;
        match net::connect(&socket, to) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                let mut fds = [pollfd { fd: socket.as_raw_fd(), events: sys::POLLOUT, revents: 0 }];
                let ms = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
                if !sys::poll(&mut fds, ms)? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(why) => return Err(named(why.into())),
        }
        let stream = TcpStream::from(socket);
        match stream.take_error()? {
            Some(why) => Err(why),
            None => stream.set_nonblocking(false).map(|()| stream),
        }
    }
}

type Answer = (SourceId, Result<Found, String>);

/// Look-ups under way.
#[derive(Debug)]
pub(crate) struct Resolver {
    answers: Receiver<Answer>,
    sender: Sender<Answer>,
    /// Which sources wait for an answer. Each has one thread.
    waiting: Vec<SourceId>,
}

impl Resolver {
    pub(crate) fn new() -> Resolver {
        let (sender, answers) = mpsc::channel();
        Resolver { answers, sender, waiting: Vec::new() }
    }

    /// Begins a look-up, and gets keys if there is an exchange. Without one an address is answered at
    /// once.
    pub(crate) fn begin(
        &mut self,
        source: SourceId,
        (host, port): (&str, u16),
        keys: Option<Exchange>,
    ) -> Option<Answer> {
        if let (Ok(address), None) = (host.parse::<IpAddr>(), &keys) {
            return Some((source, Ok(Found::plain(vec![SocketAddr::new(address, port)]))));
        }
        if self.waiting.contains(&source) {
            return None;
        }
        let (host, sender) = (host.to_owned(), self.sender.clone());
        let work = move || {
            let found = match keys {
                None => look_up(&host, port).map(Found::plain),
                Some(exchange) => exchange.with(&host, port),
            };
            // Nobody is there to hear it once the daemon has ended.
            let _ = sender.send((source, found));
        };
        match thread::Builder::new().name("resolver".into()).spawn(work) {
            Ok(_) => {
                self.waiting.push(source);
                None
            }
            Err(error) => Some((source, Err(format!("no thread for the look-up: {error}")))),
        }
    }

    /// True if answers are outstanding.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next answer that has come.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let (source, result) = self.answers.try_recv().ok()?;
        self.waiting.retain(|waiting| *waiting != source);
        Some((source, result))
    }
}

impl Found {
    fn plain(addresses: Vec<SocketAddr>) -> Found {
        Found { addresses, session: None }
    }
}

/// Addresses of a name, some at most.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs().map_err(|error| error.to_string())? {
        if addresses.len() < MAX_ADDRESSES && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err("the name has no address".into()) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(7);

    #[cfg(feature = "nts")]
    #[test]
    fn keys_are_fetched_by_the_interface_and_the_family_that_is_wanted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let limit = std::time::Duration::from_secs(20);
        let by = |interface: Option<&str>| Route {
            interface: interface.map(str::to_owned),
            family: Some(Family::Ipv4),
        };
        for interface in [None, Some("lo")] {
            let stream = by(interface).connect(&to, limit).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), to);
            assert_eq!(listener.accept().unwrap().1, stream.local_addr().unwrap());
        }
        let why = by(Some("nowhere")).connect(&to, limit).unwrap_err().to_string();
        assert!(why.starts_with("interface nowhere: "), "{why}");
        let both = vec!["[::1]:4460".parse().unwrap(), to];
        assert_eq!(by(None).choose(both.clone()), Ok(vec![to]));
        assert_eq!(Route::default().choose(both.clone()), Ok(both));
        let why = Route { interface: None, family: Some(Family::Ipv6) }.choose(vec![to]);
        assert_eq!(why.unwrap_err(), "the name has no IPv6 address");
        let closed = to;
        drop(listener);
        let why = Route { interface: Some("lo".into()), family: None }.connect(&closed, limit);
        assert_eq!(why.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn addresses_take_no_thread() {
        let mut resolver = Resolver::new();
        for (host, shown) in
            [("192.0.2.7", "192.0.2.7:1123"), ("2001:db8::1", "[2001:db8::1]:1123")]
        {
            let (source, found) = resolver.begin(SOURCE, (host, 1123), None).unwrap();
            assert_eq!(source, SOURCE);
            assert_eq!(found.unwrap().addresses, [shown.parse().unwrap()]);
            assert!(!resolver.is_waiting());
        }
    }

    #[test]
    fn names_are_answered_later_and_once() {
        let mut resolver = Resolver::new();
        for _ in 0..2 {
            assert!(resolver.begin(SOURCE, ("localhost", 123), None).is_none());
        }
        assert!(resolver.is_waiting());
        let answer = resolver.answers.recv().unwrap();
        resolver.sender.send(answer).unwrap();
        let (source, found) = resolver.answer().unwrap();
        assert_eq!(source, SOURCE);
        let found = found.unwrap();
        assert!(found.session.is_none() && !found.addresses.is_empty());
        assert!(found.addresses.iter().all(|a| a.port() == 123 && a.ip().is_loopback()));
        assert!(!resolver.is_waiting() && resolver.answer().is_none());
    }
}
