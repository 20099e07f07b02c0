//! Clients whose requests change nothing (`--read-only`): what they ask goes to this replica's program beside the order,
//! on connections of their own, while it works on nothing else.
//!
//! So the program is in the state after some place of the order, its clock shows that place's agreed time, and nothing of
//! it is in what replicas are compared by. How old that state may be goes by messages of this front's own: whatever any
//! client was answered before such a message was sent comes before it in the order. An answer waits until a majority has
//! that place.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use truechimer_group::{Member, Point};
use truechimer_group_client::delivery::MOST_AT_ONCE;

use crate::clients::{Clients, Did};
use crate::commands::Commands;
use crate::order::Conn;
use crate::program::{Busy, Program};
use crate::wire::{LARGEST_PIECE, Message};

use super::{Front, Sent, mib};

/// The member of connections to the program that are in no order: none has that number.
const BESIDE: Member = Member(0);
/// How many such clients there may be: each is a connection that the other replicas' programs do not have.
const MOST_READERS: usize = 1000;
/// Bytes that may wait here before these clients are no longer read.
const MOST_WAITING: usize = 16 * LARGEST_PIECE;

/// Requests that change nothing: who may ask, and what.
#[derive(Clone, Debug)]
pub struct ReadOnly {
    /// Where clients connect that only read.
    pub listen: SocketAddr,
    /// The oldest state that may answer: whatever a client was answered so long before it asked is in it.
    pub age: Duration,
    /// Commands that may be asked, of RESP; none: it is the operator's word that nothing that comes there changes anything.
    pub commands: Option<Commands>,
}

/// Something for the program.
#[derive(Debug)]
enum Ask {
    Open,
    Request(Vec<u8>),
    /// The end of the connection, and what the client is told last.
    End(Vec<u8>),
}

/// Something for the program, of that client, and since when it waits.
#[derive(Debug)]
struct Waiting {
    client: u32,
    ask: Ask,
    since: Instant,
}

/// Those clients, and how new the program's state is.
#[derive(Debug)]
pub(super) struct Readers {
    how: ReadOnly,
    listener: TcpListener,
    clients: Clients,
    waiting: VecDeque<Waiting>,
    /// Bytes of all that.
    size: usize,
    /// The client that was read last.
    read_last: u32,
    /// Last word to the client whose connection ends.
    last_word: Vec<u8>,
    /// Messages of this front's own that have been delivered: their places, and when they were sent.
    own_messages: VecDeque<(Point, Instant)>,
    /// The last one of them that the state contains.
    fresh: Option<(Point, Instant)>,
    /// The tick that was sent to have a newer state.
    tick_under_way: Option<u64>,
    /// Number of requests that were given to the program.
    given: u64,
    /// Last words on why clients are refused.
    refusal_told: Option<&'static str>,
}

impl Conn {
    /// The connection of a client that only reads.
    fn beside(number: u32) -> Conn {
        Conn { member: BESIDE, number }
    }

    /// True if it is in no order.
    pub(super) fn is_beside(self) -> bool {
        self.member == BESIDE
    }
}

impl Readers {
    /// None yet.
    ///
    /// # Errors
    /// If nobody can listen there.
    pub(super) fn new(how: ReadOnly, clients: Clients) -> Result<Readers, String> {
        let listener = TcpListener::bind(how.listen)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|why| format!("cannot listen on {}: {why}", how.listen))?;
        Ok(Readers {
            how,
            listener,
            clients,
            waiting: VecDeque::new(),
            size: 0,
            read_last: 0,
            last_word: Vec::new(),
            own_messages: VecDeque::new(),
            fresh: None,
            tick_under_way: None,
            given: 0,
            refusal_told: None,
        })
    }

    /// Where they connect.
    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The clients.
    pub(super) fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// Number of requests that were given to the program.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    fn push(&mut self, client: u32, ask: Ask) {
        self.size += size(&ask);
        self.waiting.push_back(Waiting { client, ask, since: Instant::now() });
    }

    fn pop(&mut self) -> Option<(u32, Ask)> {
        let Waiting { client, ask, .. } = self.waiting.pop_front()?;
        self.size -= size(&ask);
        Some((client, ask))
    }

    fn has_room(&self) -> bool {
        self.size < MOST_WAITING
    }

    /// A message of this front's own has this place.
    pub(super) fn delivered(&mut self, place: Point, sent: Instant) {
        self.own_messages.push_back((place, sent));
    }

    /// The program has dealt with all before `next`; with all that there is, if that is none.
    fn settled(&mut self, next: Option<Point>) {
        while let Some((place, sent)) = self.own_messages.front()
            && next.is_none_or(|next| next > *place)
        {
            self.fresh = Some((*place, *sent));
            self.own_messages.pop_front();
        }
    }

    /// True if the state is new enough for who has asked then.
    fn fits(&self, since: Instant) -> bool {
        self.fresh.is_some_and(|(_, sent)| is_within(sent, since, self.how.age))
    }

    /// How many requests at the beginning may be given to the program.
    fn count(&self, program: &Program) -> usize {
        let due = self.waiting.iter().take(MOST_AT_ONCE).map_while(|waiting| match &waiting.ask {
            Ask::Request(bytes) if self.fits(waiting.since) => {
                Some((Conn::beside(waiting.client), bytes.len()))
            }
            _ => None,
        });
        let mut due = due.peekable();
        if due.peek().is_some() { program.takes(due) } else { 0 }
    }

    /// Gives the program what is due. Its clock stands at the time of what it has dealt with last.
    fn give(&mut self, program: &mut Program) -> Option<Busy> {
        while let Some(Waiting { client, ask, .. }) = self.waiting.front() {
            let conn = Conn::beside(*client);
            if matches!(ask, Ask::Request(_)) {
                let mut requests = Vec::new();
                for _ in 0..self.count(program) {
                    if let Some((client, Ask::Request(bytes))) = self.pop() {
                        self.clients.delivered(client);
                        requests.push((Conn::beside(client), bytes));
                    }
                }
                self.given += requests.len() as u64;
                return (!requests.is_empty()).then(|| program.give(requests));
            }
            match self.pop() {
                Some((_, Ask::End(word))) => {
                    self.last_word = word;
                    return Some(program.end(conn));
                }
                Some((client, _)) => match program.open(conn) {
                    Ok(busy) => return Some(busy),
                    // It is about to be found that there is no program.
                    Err(_) => self.clients.remove(client),
                },
                None => {}
            }
        }
        None
    }

    /// The connection ends after its requests, and the client has that as the last word.
    pub(super) fn end(&mut self, client: u32, word: Vec<u8>) {
        self.push(client, Ask::End(word));
    }

    /// Nobody is to be answered any more: all connections end.
    pub(super) fn clear(&mut self) {
        let gone: Vec<u32> = self.clients.numbers().collect();
        self.clients.clear();
        self.waiting.retain(|waiting| matches!(waiting.ask, Ask::End(_)));
        self.size = self.waiting.iter().map(|waiting| size(&waiting.ask)).sum();
        gone.into_iter().for_each(|client| self.end(client, Vec::new()));
    }

    /// This front is out: what it has may be of any age.
    pub(super) fn drop_out(&mut self) {
        self.clear();
        self.own_messages.clear();
        self.fresh = None;
    }

    /// The program is to be started anew, and has no connections any more.
    pub(super) fn forget(&mut self) {
        self.clients.clear();
        self.waiting.clear();
        self.size = 0;
        self.own_messages.clear();
        self.fresh = None;
    }

    /// Asks of a client's request what may be asked, and ends its connection after that.
    fn ask(&mut self, client: u32, mut bytes: Vec<u8>) {
        let checked = self.how.commands.as_ref().map(|commands| commands.allowed(&bytes));
        let (length, why) = checked.unwrap_or((bytes.len(), None));
        bytes.truncate(length);
        if !bytes.is_empty() {
            self.push(client, Ask::Request(bytes));
        }
        if let Some(why) = why {
            let word = format!("-ERR {why} (--read-only): ask the front's other address\r\n");
            self.end(client, word.into_bytes());
        }
    }

    /// True if a message is to be sent, as the newest one, sent `newest`, makes no state that is new enough for those who
    /// wait, or soon will not.
    fn lacks(&self, newest: Option<Instant>) -> bool {
        let Some(last) = self.waiting.back() else { return false };
        let own = self.own_messages.back().or(self.fresh.as_ref());
        let newest = newest.or(own.map(|(_, sent)| *sent));
        let soon = |sent: Instant| !self.how.age.is_zero() && sent.elapsed() > self.how.age / 2;
        newest.is_none_or(|sent| soon(sent) || !is_within(sent, last.since, self.how.age))
    }
}

/// True if a state that contains what was sent at `sent` is at most so old at `asked`.
fn is_within(sent: Instant, asked: Instant, age: Duration) -> bool {
    asked.saturating_duration_since(sent) <= age
}

/// Bytes that it takes here.
fn size(ask: &Ask) -> usize {
    let own = if let Ask::Request(bytes) | Ask::End(bytes) = ask { bytes.len() } else { 0 };
    own + size_of::<Waiting>()
}

impl Front {
    /// Gives the program what clients ask that only read. The answers depend on the message that says how new the state
    /// is, which may come after the last thing that the program was given.
    pub(super) fn give_reads(&mut self) -> Option<Busy> {
        let readers = self.readers.as_mut()?;
        readers.settled(self.work.next());
        if !self.order.may_answer() {
            readers.clear();
        } else if let Some(why) = self.program.not_beside() {
            readers.clear();
            if readers.refusal_told.replace(why) != Some(why) {
                self.says.push(format!(
                    "the program is asked nothing beside the order (--read-only): {why}; those \
                     clients' connections are closed"
                ));
            }
        }
        if let Some((place, _)) = readers.fresh {
            self.work.depend_on(place);
        }
        readers.give(&mut self.program)
    }

    /// Sends a message if the state is too old for those who wait.
    pub(super) fn renew(&mut self) -> Result<(), String> {
        let Some(readers) = &self.readers else { return Ok(()) };
        let newest = self.under_way.values().next_back().map(|(_, at)| *at);
        let tick = readers.tick_under_way;
        let comes = tick.is_some_and(|token| self.under_way.contains_key(&token));
        if comes || !self.order.may_answer() || !readers.lacks(newest) {
            return Ok(());
        }
        let token = self.send_for(&Message::Tick, Sent::Own)?;
        if let Some(readers) = &mut self.readers {
            readers.tick_under_way = Some(token);
        }
        Ok(())
    }

    /// Polls for clients that only read: where each has its answer, the listener first.
    pub(super) fn poll_readers(&mut self) -> Option<(usize, Vec<(usize, u32)>)> {
        let readers = self.readers.as_ref()?;
        let listener = self.poll.add(readers.listener.as_raw_fd(), true, false);
        let takes = readers.has_room();
        let mut clients = Vec::new();
        for (number, descriptor, reads, writes) in readers.clients.descriptors() {
            if writes || (reads && takes) {
                clients.push((self.poll.add(descriptor, reads && takes, writes), number));
            }
        }
        Some((listener, clients))
    }

    /// Takes what those have sent that came, whoever was read last after all others.
    pub(super) fn serve_readers(&mut self, (listener, mut clients): (usize, Vec<(usize, u32)>)) {
        let Some(readers) = &mut self.readers else { return };
        let answers = self.order.may_answer() && self.program.not_beside().is_none();
        while self.poll.came(listener)
            && let Ok((stream, _)) = readers.listener.accept()
        {
            // Another replica is to be asked, and not to be waited for here.
            if answers
                && readers.clients.numbers().count() < MOST_READERS
                && let Some(number) = readers.clients.add(stream)
            {
                readers.push(number, Ask::Open);
            }
        }
        let first = clients.partition_point(|(_, number)| *number <= readers.read_last);
        clients.rotate_left(first);
        for (at, number) in clients {
            if self.poll.came(at) {
                self.serve_reader(number);
            }
        }
    }

    /// Writes what one can take, and reads what it has sent if there is room.
    pub(super) fn serve_reader(&mut self, number: u32) {
        let Some(readers) = &mut self.readers else { return };
        let reads = readers.has_room();
        if reads {
            readers.read_last = number;
        }
        for did in readers.clients.serve(number, reads) {
            match did {
                Did::Request(number, bytes) => readers.ask(number, bytes),
                Did::End(number) | Did::Gone(number) => readers.end(number, Vec::new()),
                Did::Slow(number, unread) => {
                    self.says.push(format!(
                        "client {number} that only reads sent away: it has left {} of replies unread",
                        mib(unread)
                    ));
                    readers.end(number, Vec::new());
                }
            }
        }
    }

    /// Writes what waits for those clients, and sends the slowest away if too much is kept for all of them.
    pub(super) fn release_readers(&mut self) {
        let Some(readers) = &mut self.readers else { return };
        let slow = readers.clients.shed();
        for (number, bytes) in slow {
            self.says.push(format!(
                "client {number} that only reads sent away, as the slowest, with {}",
                mib(bytes)
            ));
            readers.end(number, Vec::new());
        }
        for number in readers.clients.unserved() {
            self.serve_reader(number);
        }
    }

    /// Last word to the client of that connection, if it only reads.
    pub(super) fn last_word_of(&mut self, conn: Conn) -> Vec<u8> {
        let readers = self.readers.as_mut().filter(|_| conn.is_beside());
        readers.map(|readers| std::mem::take(&mut readers.last_word)).unwrap_or_default()
    }
}
