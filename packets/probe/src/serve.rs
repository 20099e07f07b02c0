//! The reflector with its sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use truechimer::Clock;
use truechimer_stamp::{Ready, Socket, any};

use crate::keeper::Keeper;
use crate::reflector::{Access, Ignored, Reflector};

/// Largest number of bytes of a datagram.
const ROOM: usize = 1 << 16;
/// Packets taken from one socket before the next has its turn.
const TURN: usize = 64;
/// Longest wait until it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Fate of all datagrams.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Received.
    pub received: u64,
    /// Answered.
    pub answered: u64,
    /// Of them those whose clock promised nothing.
    pub unsynchronised: u64,
    /// Replies that the system did not take.
    pub unsent: u64,
    /// Not answered, by reason.
    pub ignored: BTreeMap<Ignored, u64>,
}

impl Tally {
    /// All counts with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let reasons = [
            Ignored::Short,
            Ignored::Unauthentic,
            Ignored::Reflected,
            Ignored::Port,
            Ignored::Stale,
            Ignored::Limited,
        ];
        let ignored = reasons.map(|why| (why.name(), self.ignored.get(&why).copied().unwrap_or(0)));
        [
            ("received", self.received),
            ("answered", self.answered),
            ("unsynchronised", self.unsynchronised),
            ("unsent", self.unsent),
        ]
        .into_iter()
        .chain(ignored)
    }
}

/// An address that cannot be had.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Error of the operating system.
    pub why: io::Error,
}

/// A reflector bound to its addresses.
pub struct Server {
    sockets: Vec<Socket>,
    addresses: Vec<SocketAddr>,
    keeper: Keeper,
    reflector: Reflector,
    tally: Tally,
    began: Instant,
    /// The counter that the sockets stamp by.
    generation: u32,
}

impl Server {
    /// Binds one, which stamps by this clock. An address that the system does not have is done without if it is optional.
    ///
    /// # Errors
    /// If an address that is not optional cannot be had, or none at all, or there is no counter to stamp with.
    pub fn bind(
        listen: &[(SocketAddr, bool)],
        clock: Option<Clock>,
        access: Access,
    ) -> Result<Server, BindError> {
        let unstamped = |why| {
            let address = SocketAddr::from(([0, 0, 0, 0], 0));
            BindError { address, why: io::Error::other(why) }
        };
        let mut keeper = Keeper::new(clock).map_err(unstamped)?;
        let (mut sockets, mut addresses, mut missing) = (Vec::new(), Vec::new(), None);
        for &(address, optional) in listen {
            match bound(&address, &mut keeper) {
                Ok((socket, address)) => {
                    sockets.push(socket);
                    addresses.push(address);
                }
                Err(why) => {
                    let failed = BindError { address, why };
                    if !optional {
                        return Err(failed);
                    }
                    missing = Some(failed);
                }
            }
        }
        if let (true, Some(missing)) = (sockets.is_empty(), missing) {
            return Err(missing);
        }
        let ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        let reflector = Reflector::new(access, &ports);
        let (tally, began) = (Tally::default(), Instant::now());
        let generation = keeper.generation();
        Ok(Server { sockets, addresses, keeper, reflector, tally, began, generation })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Clock that it stamps by.
    pub fn keeper(&mut self) -> &mut Keeper {
        &mut self.keeper
    }

    /// Fate of all datagrams so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Answers until told to stop, and calls `idle` several times a second.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut idle: impl FnMut(&mut Server) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut ready = vec![Ready::default(); self.sockets.len()];
        let mut bytes = vec![0; ROOM];
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            any(self.sockets.iter().map(AsFd::as_fd), &mut ready, PATIENCE)?;
            for (place, ready) in ready.iter().enumerate() {
                if ready.readable {
                    (0..TURN).find(|_| !self.turn(place, &mut bytes));
                }
                if let (true, Some(socket)) = (ready.errors, self.sockets.get_mut(place)) {
                    let (counter, log) = self.keeper.parts();
                    let _ = socket.on_error_queue(counter, log);
                }
            }
            if Instant::now() >= due {
                idle(self)?;
                self.recount();
                // That nothing is there says that what comes has not arrived long before.
                for place in 0..self.sockets.len() {
                    self.turn(place, &mut bytes);
                }
                due = Instant::now() + PATIENCE;
            }
        }
        Ok(())
    }

    /// Tells the sockets if the counter is another one.
    fn recount(&mut self) {
        if self.generation != self.keeper.generation() {
            self.generation = self.keeper.generation();
            let (counter, log) = self.keeper.parts();
            self.sockets.iter_mut().for_each(|socket| socket.recount(counter, log));
        }
    }

    /// Receives one datagram and answers it: whether there was one.
    fn turn(&mut self, place: usize, bytes: &mut [u8]) -> bool {
        self.recount();
        let Some(socket) = self.sockets.get_mut(place) else { return false };
        let (counter, log) = self.keeper.parts();
        // What the network says of replies that were not delivered is nobody's matter.
        let Ok(Some(received)) = socket.receive(counter, log, bytes) else { return false };
        self.tally.received += 1;
        let arrived = self.keeper.of(&received.received);
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let datagram = bytes.get(..received.len).unwrap_or_default();
        let (from, limit) = (received.from, received.hop_limit);
        match self.reflector.answer(datagram, from, limit, &arrived, now) {
            Ok(prepared) => {
                let leaves = self.keeper.now();
                let unbounded = arrived.bound.is_none() || leaves.bound.is_none();
                let reply = prepared.leave(&leaves);
                let sent = socket.answer_via(&from, received.via, &reply).is_ok();
                self.tally.answered += u64::from(sent);
                self.tally.unsent += u64::from(!sent);
                self.tally.unsynchronised += u64::from(sent && unbounded);
            }
            Err(why) => *self.tally.ignored.entry(why).or_default() += 1,
        }
        true
    }
}

fn bound(address: &SocketAddr, keeper: &mut Keeper) -> io::Result<(Socket, SocketAddr)> {
    let (counter, log) = keeper.parts();
    let socket = Socket::bind(address, counter, log)?;
    socket.ask_headers();
    let address = socket.local_address()?;
    Ok((socket, address))
}
