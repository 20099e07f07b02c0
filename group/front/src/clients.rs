//! The clients of this front.

mod unread;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use crate::cut::{Cutter, Protocol};
use crate::sys::Poll;
use unread::Unread;

/// Largest number of requests of a client that may be on their way.
const MOST_UNDER_WAY: usize = 64;
/// Largest number of bytes that a client may leave unread.
const MOST_UNREAD: usize = 64 << 20;
/// Bytes that may be kept for all clients together: replies that they leave unread, and the
/// beginnings of requests. Four clients at their own limit, or 25 KiB for each of the most.
pub const MOST_KEPT: usize = 256 << 20;
/// Number of clients that there may be.
pub const MOST: usize = 10_000;

/// One of them.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    cutter: Cutter,
    /// When its unfinished request began, by [`Clients::passed`].
    begun: u64,
    out: Unread,
    /// Messages that were sent for it and not delivered yet.
    under_way: usize,
    /// True if it has sent all that it will, and that was said.
    ended: bool,
    /// True if it has asked what it may not: what it sends is dropped, as unread it would take the
    /// last answer with it.
    refused: bool,
    /// True if it is to go when it has read all.
    going: bool,
}

/// Acts of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Did {
    /// Request sent.
    Request(u32, Vec<u8>),
    /// End of sending.
    End(u32),
    /// Client gone.
    Gone(u32),
    /// Client sent away, as it has left so many bytes unread.
    Slow(u32, usize),
}

/// All of them, by number.
#[derive(Debug)]
pub struct Clients {
    all: BTreeMap<u32, Client>,
    next: u32,
    /// The one that was read last.
    read_last: u32,
    protocol: Protocol,
    /// Bytes that have come from all clients and gone to them: the clock by which who is slow is
    /// judged.
    passed: u64,
    /// Room for what one has sent.
    buffer: Vec<u8>,
}

impl Clients {
    /// None yet.
    pub fn new(protocol: Protocol) -> Clients {
        let (all, buffer) = (BTreeMap::new(), vec![0; 16 << 10]);
        Clients { all, next: 0, read_last: 0, protocol, passed: 0, buffer }
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
            begun: 0,
            out: Unread::default(),
            under_way: 0,
            ended: false,
            refused: false,
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

    /// Writes what one can take, and reads what it has sent if it `reads`.
    pub fn serve(&mut self, number: u32, reads: bool) -> Vec<Did> {
        let mut did = Vec::new();
        let Some(client) = self.all.get_mut(&number) else { return did };
        if reads {
            self.read_last = number;
        }
        let written = client.out.write(&mut client.stream);
        let unread = client.out.length();
        if written.is_err() || unread > MOST_UNREAD {
            self.all.remove(&number);
            return vec![if written.is_ok() {
                Did::Slow(number, unread)
            } else {
                Did::Gone(number)
            }];
        }
        let gone = client.going && client.out.is_empty();
        let (passed, buffer) = (&mut self.passed, self.buffer.as_mut_slice());
        let failed = reads && !gone && client.read(number, passed, buffer, &mut did).is_err();
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
            client.out.push(bytes, self.passed);
            self.passed += bytes.len() as u64;
        }
    }

    /// Bytes that are kept for all together.
    pub fn kept(&self) -> usize {
        self.all.values().map(Client::kept).sum()
    }

    /// Sends clients away while more than that is kept for all together, bytes: first whoever has something
    /// unread, or a request unfinished, for longest. Their numbers, and the bytes of each.
    pub fn shed(&mut self, most: usize) -> Vec<(u32, usize)> {
        let mut kept = self.kept();
        let mut slow = Vec::new();
        while kept > most {
            let since = |(number, client): (&u32, &Client)| Some((client.since()?, *number));
            let Some((_, number)) = self.all.iter().filter_map(since).min() else { break };
            let bytes = self.all.remove(&number).map_or(0, |client| client.kept());
            kept = kept.saturating_sub(bytes);
            slow.push((number, bytes));
        }
        slow
    }

    /// Drops what it sends from now on, and what it has begun to send.
    pub fn refuse(&mut self, number: u32) {
        if let Some(client) = self.all.get_mut(&number) {
            client.refused = true;
            client.cutter = Cutter::new(self.protocol);
        }
    }

    /// True if what it sends is dropped.
    pub fn is_refused(&self, number: u32) -> bool {
        self.all.get(&number).is_some_and(|client| client.refused)
    }

    /// Lets it go when it has read all.
    pub fn go(&mut self, number: u32) {
        if let Some(client) = self.all.get_mut(&number) {
            client.going = true;
        }
    }

    /// Lets it go now.
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

    /// Polls for room to write, and for what they send if it `reads`. Returns where each has its answer.
    pub fn poll(&self, poll: &mut Poll, reads: bool) -> Vec<(usize, u32)> {
        let wants = |client: &Client| (reads && client.reads(), !client.out.is_empty());
        let wants = self.all.iter().map(|(number, client)| (*number, client, wants(client)));
        // One that is to do neither would be reported for ever once it has hung up.
        let wants = wants.filter(|(_, _, (reads, writes))| *reads || *writes);
        let add = |(number, client, (reads, writes)): (u32, &Client, (bool, bool))| {
            (poll.add(client.stream.as_raw_fd(), reads, writes), number)
        };
        wants.map(add).collect()
    }

    /// Numbers of those that can be served after that. Whoever was read last comes after all others, where there is no
    /// room for all.
    pub fn came(&self, poll: &Poll, polled: &[(usize, u32)]) -> Vec<u32> {
        let came = polled.iter().filter(|(at, _)| poll.came(*at));
        let mut came: Vec<u32> = came.map(|(_, number)| *number).collect();
        let first = came.partition_point(|number| *number <= self.read_last);
        came.rotate_left(first);
        came
    }

    /// Those with something to write, or to end.
    pub fn unserved(&self) -> Vec<u32> {
        let due = |client: &Client| !client.out.is_empty() || client.going;
        self.all.iter().filter(|(_, client)| due(client)).map(|(number, _)| *number).collect()
    }
}

impl Client {
    fn reads(&self) -> bool {
        !self.ended && !self.going && (self.refused || self.under_way < MOST_UNDER_WAY)
    }

    /// Bytes that are kept for it.
    fn kept(&self) -> usize {
        self.out.length() + self.cutter.length()
    }

    /// Since when the oldest of those are, by [`Clients::passed`]; none if there are none.
    fn since(&self) -> Option<u64> {
        let begun = (self.cutter.length() > 0).then_some(self.begun);
        self.out.since().into_iter().chain(begun).min()
    }

    fn read(
        &mut self,
        number: u32,
        passed: &mut u64,
        buffer: &mut [u8],
        did: &mut Vec<Did>,
    ) -> std::io::Result<()> {
        while self.reads() {
            match self.stream.read(buffer) {
                // More waits for another time: it may have no end.
                Ok(length) if self.refused => {
                    self.ended = length == 0;
                    break;
                }
                Ok(0) => {
                    self.ended = true;
                    let rest = std::iter::from_fn(|| self.cutter.rest());
                    did.extend(rest.map(|bytes| Did::Request(number, bytes)));
                    did.push(Did::End(number));
                }
                Ok(length) => {
                    if self.cutter.length() == 0 {
                        self.begun = *passed;
                    }
                    *passed += length as u64;
                    self.cutter.push(buffer.get(..length).unwrap_or(&[]));
                    while let Some(bytes) = self.cutter.next() {
                        self.begun = *passed;
                        self.under_way += 1;
                        did.push(Did::Request(number, bytes));
                    }
                    if length < buffer.len() {
                        break;
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// Clients, and their own ends of the connections.
    fn clients(many: usize) -> (Clients, Vec<(u32, TcpStream)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut clients = Clients::new(Protocol::Line);
        let add = |_| {
            let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (clients.add(listener.accept().unwrap().0).unwrap(), theirs)
        };
        let all = (0..many).map(add).collect();
        (clients, all)
    }

    #[test]
    fn who_has_not_read_for_longest_goes_first() {
        let (mut clients, all) = clients(4);
        let [one, two, three, four] = [0, 1, 2, 3].map(|at| all[at].0);
        clients.reply(one, &[1; 100]);
        clients.reply(two, &[2; 50]);
        // The first has read all of it, and has other replies by now.
        assert_eq!(clients.serve(one, true), []);
        clients.reply(three, &[3; 100]);
        clients.reply(one, &[1; 100]);
        assert_eq!(clients.shed(250), [], "exactly as much as may be kept");
        clients.reply(four, &[4; 60]);
        assert_eq!(clients.shed(250), [(two, 50), (three, 100)]);
        assert_eq!(clients.numbers().collect::<Vec<_>>(), [one, four]);
        // One that alone is too much is sent away, too.
        clients.reply(four, &[4; 1000]);
        assert_eq!(clients.shed(250), [(one, 100), (four, 1060)]);
        assert_eq!(clients.shed(250), []);
    }

    /// There is room for a few at a time only.
    #[test]
    fn whoever_was_read_last_waits_for_all_others() {
        let (mut clients, mut all) = clients(4);
        all.iter_mut().for_each(|(_, theirs)| theirs.write_all(&b"x\n".repeat(99)).unwrap());
        let come = |clients: &Clients| {
            let mut poll = Poll::default();
            let polled = clients.poll(&mut poll, true);
            while !polled.iter().all(|(at, _)| poll.came(*at)) {
                poll.wait(std::time::Duration::from_secs(60));
            }
            clients.came(&poll, &polled)
        };
        let numbers: Vec<u32> = all.iter().map(|(number, _)| *number).collect();
        let [one, two, three, four] = numbers[..] else { panic!("{numbers:?}") };
        assert_eq!(come(&clients), numbers);
        // Read, and nothing taken: it has more under way than it may.
        clients.all.get_mut(&two).unwrap().under_way = MOST_UNDER_WAY;
        assert_eq!(clients.serve(two, true), []);
        clients.all.get_mut(&two).unwrap().under_way = 0;
        assert_eq!(come(&clients), [three, four, one, two]);
        // Only written.
        assert_eq!(clients.serve(four, false), []);
        assert_eq!(come(&clients), [three, four, one, two]);
    }

    #[test]
    fn of_one_that_is_refused_nothing_more_is_taken() {
        let (mut clients, mut all) = clients(1);
        let (number, theirs) = &mut all[0];
        theirs.write_all(b"begun").unwrap();
        while clients.kept() == 0 {
            assert_eq!(clients.serve(*number, true), []);
        }
        clients.refuse(*number);
        assert!(clients.is_refused(*number) && clients.kept() == 0);
        theirs.write_all(&b"ask\n".repeat(10_000)).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        while !clients.all[number].ended {
            assert_eq!((clients.serve(*number, true), clients.kept()), (vec![], 0));
        }
        clients.reply(*number, b"no");
        clients.go(*number);
        clients.serve(*number, true);
        clients.serve(*number, true);
        let mut told = Vec::new();
        theirs.read_to_end(&mut told).unwrap();
        assert_eq!((told.as_slice(), clients.numbers().count()), (&b"no"[..], 0));
    }

    #[test]
    fn the_beginnings_of_requests_count_as_well() {
        let (mut clients, mut all) = clients(3);
        let [one, two, three] = [0, 1, 2].map(|at| all[at].0);
        let mut send = |clients: &mut Clients, at: usize, bytes: &[u8]| {
            all[at].1.write_all(bytes).unwrap();
            let before = clients.passed;
            let mut did = Vec::new();
            while clients.passed < before + bytes.len() as u64 {
                did.extend(clients.serve(all[at].0, true));
            }
            did
        };
        assert_eq!(send(&mut clients, 0, &[b'a'; 100]), []);
        assert_eq!(send(&mut clients, 1, &[b'b'; 100]), []);
        let long = [&[b'a'; 100], &b"\n"[..]].concat();
        assert_eq!(send(&mut clients, 0, b"\nc"), [Did::Request(one, long)]);
        clients.reply(three, &[3; 149]);
        assert_eq!(clients.shed(250), [], "1, 100 and 149 bytes");
        clients.reply(three, &[3; 1]);
        assert_eq!(clients.shed(250), [(two, 100)]);
        assert_eq!(clients.numbers().collect::<Vec<_>>(), [one, three]);
    }
}
