//! The clients of this front.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

use crate::cut::{Cutter, Protocol};

/// How many requests of a client may be on their way.
const MOST_UNDER_WAY: usize = 64;
/// How much a client may leave unread, bytes.
const MOST_UNREAD: usize = 64 << 20;
/// How many clients there may be.
pub const MOST: usize = 10_000;

/// One of them.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    cutter: Cutter,
    out: Vec<u8>,
    /// Messages that were sent for it and not delivered yet.
    under_way: usize,
    /// It has sent all that it will, and that was said.
    ended: bool,
    /// It is to go when it has read all.
    going: bool,
}

/// What a client did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Did {
    /// It sent a request.
    Request(u32, Vec<u8>),
    /// It sends no more.
    End(u32),
    /// It is gone.
    Gone(u32),
}

/// All of them, by number.
#[derive(Debug, Default)]
pub struct Clients {
    all: BTreeMap<u32, Client>,
    next: u32,
    protocol: Protocol,
}

impl Clients {
    /// None yet.
    pub fn new(protocol: Protocol) -> Clients {
        Clients { protocol, ..Clients::default() }
    }

    /// A new one. Returns its number, or nothing if there are too many.
    pub fn add(&mut self, stream: TcpStream) -> Option<u32> {
        if self.all.len() >= MOST || stream.set_nonblocking(true).is_err() {
            return None;
        }
        // Latency only.
        let _ = stream.set_nodelay(true);
        self.next = self.next.wrapping_add(1);
        let client = Client {
            stream,
            cutter: Cutter::new(self.protocol),
            out: Vec::new(),
            under_way: 0,
            ended: false,
            going: false,
        };
        self.all.insert(self.next, client).is_none().then_some(self.next)
    }

    /// A message that was sent for it was delivered.
    pub fn delivered(&mut self, number: u32) {
        if let Some(client) = self.all.get_mut(&number) {
            client.under_way = client.under_way.saturating_sub(1);
        }
    }

    /// Reads what one has sent, and writes what it can take.
    pub fn serve(&mut self, number: u32) -> Vec<Did> {
        let mut did = Vec::new();
        let Some(client) = self.all.get_mut(&number) else { return did };
        if client.write().is_err() || client.out.len() > MOST_UNREAD {
            self.all.remove(&number);
            return vec![Did::Gone(number)];
        }
        let gone = client.going && client.out.is_empty();
        let failed = !gone && client.read(number, &mut did).is_err();
        if failed {
            did.push(Did::Gone(number));
        }
        if gone || failed {
            self.all.remove(&number);
        }
        did
    }

    /// A reply for it.
    pub fn reply(&mut self, number: u32, bytes: &[u8]) {
        if let Some(client) = self.all.get_mut(&number) {
            client.out.extend(bytes);
        }
    }

    /// It is to go when it has read all.
    pub fn go(&mut self, number: u32) {
        if let Some(client) = self.all.get_mut(&number) {
            client.going = true;
        }
    }

    /// It is to go now.
    pub fn remove(&mut self, number: u32) {
        self.all.remove(&number);
    }

    /// All are to go now.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// All of them.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.all.keys().copied()
    }

    /// What to poll: number, descriptor, whether to read, whether to write.
    pub fn descriptors(&self) -> impl Iterator<Item = (u32, RawFd, bool, bool)> {
        let all = self.all.iter().map(|(number, client)| {
            let writes = !client.out.is_empty();
            (*number, client.stream.as_raw_fd(), client.reads(), writes)
        });
        // One that is to do neither would be reported for ever once it has hung up.
        all.filter(|(_, _, reads, writes)| *reads || *writes)
    }

    /// Those with something to write, or to end.
    pub fn unserved(&self) -> Vec<u32> {
        let due = |client: &Client| !client.out.is_empty() || client.going;
        self.all.iter().filter(|(_, client)| due(client)).map(|(number, _)| *number).collect()
    }
}

impl Client {
    fn reads(&self) -> bool {
        !self.ended && !self.going && self.under_way < MOST_UNDER_WAY
    }

    fn read(&mut self, number: u32, did: &mut Vec<Did>) -> std::io::Result<()> {
        let mut buffer = [0; 16 << 10];
        while self.reads() {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.ended = true;
                    let rest = std::iter::from_fn(|| self.cutter.rest());
                    did.extend(rest.map(|bytes| Did::Request(number, bytes)));
                    did.push(Did::End(number));
                }
                Ok(length) => {
                    self.cutter.push(buffer.get(..length).unwrap_or(&[]));
                    while let Some(bytes) = self.cutter.next() {
                        self.under_way += 1;
                        did.push(Did::Request(number, bytes));
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn write(&mut self) -> std::io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(length) => drop(self.out.drain(..length)),
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}
