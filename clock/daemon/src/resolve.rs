//! Names to addresses, and keys of servers that prove who they are, on helper threads that the time path
//! never waits for.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use truechimer_engine::SourceId;

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

    /// Whether answers are outstanding.
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
