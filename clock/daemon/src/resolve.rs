//! Names to addresses, on helper threads that the time path never waits for.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use truechimer_engine::{Event, SourceId};

/// More addresses of one name than this are not looked at.
const MAX_ADDRESSES: usize = 16;

type Answer = (SourceId, Result<Vec<SocketAddr>, String>);

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

    /// Begins a look-up. An address needs none, and is answered at once.
    pub(crate) fn begin(&mut self, source: SourceId, host: &str, port: u16) -> Option<Event> {
        if let Ok(address) = host.parse::<IpAddr>() {
            let result = Ok(vec![SocketAddr::new(address, port)]);
            return Some(Event::Resolved { source, result });
        }
        if self.waiting.contains(&source) {
            return None;
        }
        let (host, sender) = (host.to_owned(), self.sender.clone());
        let work = move || {
            // Nobody is there to hear it once the daemon has ended.
            let _ = sender.send((source, look_up(&host, port)));
        };
        match thread::Builder::new().name("resolver".into()).spawn(work) {
            Ok(_) => {
                self.waiting.push(source);
                None
            }
            Err(error) => {
                let result = Err(format!("no thread for the look-up: {error}"));
                Some(Event::Resolved { source, result })
            }
        }
    }

    /// Whether answers are outstanding.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next answer that has come.
    pub(crate) fn answer(&mut self) -> Option<Event> {
        let (source, result) = self.answers.try_recv().ok()?;
        self.waiting.retain(|waiting| *waiting != source);
        Some(Event::Resolved { source, result })
    }
}

fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
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
            let event = resolver.begin(SOURCE, host, 1123);
            let result = Ok(vec![shown.parse().unwrap()]);
            assert_eq!(event, Some(Event::Resolved { source: SOURCE, result }));
            assert!(!resolver.is_waiting());
        }
    }

    #[test]
    fn names_are_answered_later_and_once() {
        let mut resolver = Resolver::new();
        assert_eq!(resolver.begin(SOURCE, "localhost", 123), None);
        assert_eq!(resolver.begin(SOURCE, "localhost", 123), None);
        assert!(resolver.is_waiting());
        let answer = resolver.answers.recv().unwrap();
        resolver.sender.send(answer).unwrap();
        let Some(Event::Resolved { source, result }) = resolver.answer() else { panic!() };
        assert_eq!(source, SOURCE);
        assert!(result.unwrap().iter().all(|a| a.port() == 123 && a.ip().is_loopback()));
        assert!(!resolver.is_waiting() && resolver.answer().is_none());
    }
}
