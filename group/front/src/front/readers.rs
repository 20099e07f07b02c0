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
use std::time::Duration;

use truechimer_group::Point;
use truechimer_group_client::delivery::MOST_AT_ONCE;

use crate::clients::{Clients, Did};
use crate::commands::Commands;
use crate::order::Conn;
use crate::program::{Busy, Program};
use crate::sys;
use crate::wire::Message;

use super::requests::MOST_WAITING;
use super::{Front, Sent, slow};

/// Number of such clients that there may be: each is a connection that the other replicas' programs do not have.
pub const MOST_READERS: usize = 1000;
/// Bytes of answers that may wait for a majority before nothing more is asked.
const MOST_UNCOMMITTED: usize = 16 << 20;

/// Place for requests that change nothing, and what they may be.
#[derive(Clone, Debug)]
pub struct ReadOnly {
    /// Address for clients that only read.
    pub listen: SocketAddr,
    /// The oldest state that may answer: whatever a client was answered so long before it asked is in it.
    pub age: Duration,
    /// Commands that may be asked, of RESP; if there are none it is the operator's word that nothing that comes there changes anything.
    pub commands: Option<Commands>,
    /// The most clients ([`MOST_READERS`]). Each takes two descriptors here; all together take no more than half of them.
    pub most: usize,
}

/// Something for the program.
#[derive(Debug)]
enum Task {
    Open,
    Request(Vec<u8>),
    /// The end of the connection, and what the client is told last.
    End(Vec<u8>),
}

/// Something for the program, of that client, and since when it waits, by [`sys::boot_time`].
#[derive(Debug)]
struct Waiting {
    client: u32,
    task: Task,
    since: Duration,
}

/// Clients that only read, and how new the program's state is.
#[derive(Debug)]
pub(super) struct Readers {
    how: ReadOnly,
    listener: TcpListener,
    clients: Clients,
    waiting: VecDeque<Waiting>,
    /// Bytes that all of it takes.
    size: usize,
    /// Last word to the client whose connection ends.
    last_word: Vec<u8>,
    /// Messages of this front's own that have been delivered: their places, and when they were sent.
    own_messages: VecDeque<(Point, Duration)>,
    /// The last one of them that the state contains.
    fresh: Option<(Point, Duration)>,
    /// The tick that was sent to have a newer state.
    tick_under_way: Option<u64>,
    /// Number of requests that were given to the program.
    given: u64,
    /// Last words on why clients are refused.
    refusal_told: Option<String>,
}

impl Readers {
    /// None yet. `descriptors` is how many this process may have.
    ///
    /// # Errors
    /// If nobody can listen there.
    pub(super) fn new(
        mut how: ReadOnly,
        clients: Clients,
        descriptors: u64,
    ) -> Result<Readers, String> {
        how.most = how.most.min(usize::try_from(descriptors / 4).unwrap_or(usize::MAX));
        let listener = TcpListener::bind(how.listen)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|why| format!("cannot listen on {}: {why}", how.listen))?;
        Ok(Readers {
            how,
            listener,
            clients,
            waiting: VecDeque::new(),
            size: 0,
            last_word: Vec::new(),
            own_messages: VecDeque::new(),
            fresh: None,
            tick_under_way: None,
            given: 0,
            refusal_told: None,
        })
    }

    /// Address to which they connect.
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

    fn push(&mut self, client: u32, task: Task) {
        self.size += size(&task);
        self.waiting.push_back(Waiting { client, task, since: sys::boot_time() });
    }

    fn pop(&mut self) -> Option<(u32, Task)> {
        let Waiting { client, task, .. } = self.waiting.pop_front()?;
        self.size -= size(&task);
        Some((client, task))
    }

    fn has_room(&self) -> bool {
        self.size < MOST_WAITING
    }

    /// A message of this front's own has this place.
    pub(super) fn delivered(&mut self, place: Point, sent: Duration) {
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
    fn fits(&self, since: Duration) -> bool {
        self.fresh.is_some_and(|(_, sent)| is_within(sent, since, self.how.age))
    }

    /// Number of requests at the beginning that may be given to the program.
    fn count(&self, program: &Program) -> usize {
        let due = self.waiting.iter().take(MOST_AT_ONCE).map_while(|waiting| match &waiting.task {
            Task::Request(bytes) if self.fits(waiting.since) => {
                Some((Conn::beside(waiting.client), bytes.len()))
            }
            _ => None,
        });
        let mut due = due.peekable();
        if due.peek().is_some() { program.takes(due) } else { 0 }
    }

    /// Gives the program what is due. Its clock stands at the time of what it has dealt with last.
    fn give(&mut self, program: &mut Program, says: &mut Vec<String>) -> Option<Busy> {
        while let Some(Waiting { client, task, .. }) = self.waiting.front() {
            let conn = Conn::beside(*client);
            if matches!(task, Task::Request(_)) {
                let mut requests = Vec::new();
                for _ in 0..self.count(program) {
                    if let Some((client, Task::Request(bytes))) = self.pop() {
                        self.clients.delivered(client);
                        requests.push((Conn::beside(client), bytes));
                    }
                }
                self.given += requests.len() as u64;
                return (!requests.is_empty()).then(|| program.give(requests));
            }
            match self.pop() {
                Some((_, Task::End(word))) => {
                    self.last_word = word;
                    return Some(program.end(conn));
                }
                Some((client, _)) => {
                    let mut opened = vec![client];
                    while let Some(Waiting { client, task: Task::Open, .. }) = self.waiting.front()
                        && opened.len() < program.takes_openings(MOST_AT_ONCE)
                    {
                        opened.push(*client);
                        self.pop();
                    }
                    let conns: Vec<Conn> = opened.iter().copied().map(Conn::beside).collect();
                    match program.open(&conns) {
                        Ok(busy) => return Some(busy),
                        // It may be that there is no program any more, or that descriptors or ports are used up.
                        Err(why) => {
                            opened.into_iter().for_each(|client| self.clients.remove(client));
                            self.refuse(format!("the program cannot be connected to: {why}"), says);
                        }
                    }
                }
                None => {}
            }
        }
        None
    }

    /// Says why clients are sent away, unless that was said last.
    fn refuse(&mut self, why: String, says: &mut Vec<String>) {
        if self.refusal_told.as_ref() != Some(&why) {
            says.push(format!("clients that only read are sent away (--read-only): {why}"));
            self.refusal_told = Some(why);
        }
    }

    /// The connection ends after its requests, and the client has that as the last word.
    pub(super) fn end(&mut self, client: u32, word: Vec<u8>) {
        self.push(client, Task::End(word));
    }

    /// Nobody is to be answered any more: all connections end.
    pub(super) fn clear(&mut self) {
        let gone: Vec<u32> = self.clients.numbers().collect();
        self.clients.clear();
        self.waiting.retain(|waiting| matches!(waiting.task, Task::End(_)));
        self.size = self.waiting.iter().map(|waiting| size(&waiting.task)).sum();
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

    /// Takes of a client's request what may be asked, and ends its connection if that is not all.
    fn take(&mut self, client: u32, mut bytes: Vec<u8>) {
        if self.clients.is_refused(client) {
            return;
        }
        let checked = self.how.commands.as_ref().map(|commands| commands.allowed(&bytes));
        let (length, why) = checked.unwrap_or((bytes.len(), None));
        bytes.truncate(length);
        if !bytes.is_empty() {
            self.push(client, Task::Request(bytes));
        }
        if let Some(why) = why {
            let word = format!("-ERR {why} (--read-only): ask the front's other address\r\n");
            self.end(client, word.into_bytes());
            self.clients.refuse(client);
        }
    }

    /// True if a message is to be sent, as the newest one, sent `newest`, makes no state that is new enough for those who
    /// wait, or soon will not.
    fn lacks(&self, newest: Option<Duration>) -> bool {
        let Some(last) = self.waiting.back() else { return false };
        let own = self.own_messages.back().or(self.fresh.as_ref());
        let newest = newest.or(own.map(|(_, sent)| *sent));
        let now = sys::boot_time();
        let soon =
            |sent: Duration| !self.how.age.is_zero() && now.saturating_sub(sent) > self.how.age / 2;
        newest.is_none_or(|sent| soon(sent) || !is_within(sent, last.since, self.how.age))
    }
}

/// True if a state that contains what was sent at `sent` is at most so old at `asked`.
fn is_within(sent: Duration, asked: Duration, age: Duration) -> bool {
    asked.saturating_sub(sent) <= age
}

/// Bytes that it takes here.
fn size(task: &Task) -> usize {
    let own = if let Task::Request(bytes) | Task::End(bytes) = task { bytes.len() } else { 0 };
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
            readers.refuse(why.into(), &mut self.says);
        }
        if let Some((place, _)) = readers.fresh {
            self.work.depend_on(place);
        }
        if self.replies.read() > MOST_UNCOMMITTED {
            return None;
        }
        readers.give(&mut self.program, &mut self.says)
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
        let listener = self.poll.add(readers.listener.as_raw_fd(), readers.has_room(), false);
        Some((listener, readers.clients.poll(&mut self.poll, readers.has_room())))
    }

    /// Takes those that come, and what they have sent.
    pub(super) fn serve_readers(&mut self, (listener, clients): (usize, Vec<(usize, u32)>)) {
        let Some(readers) = &mut self.readers else { return };
        let answers = self.order.may_answer() && self.program.not_beside().is_none();
        while self.poll.came(listener)
            && let Ok((stream, _)) = readers.listener.accept()
        {
            // Another replica is to be asked, and not to be waited for here.
            let most = readers.how.most;
            if !answers {
                continue;
            }
            if readers.clients.numbers().count() >= most {
                readers.refuse(format!("there are {most} already"), &mut self.says);
            } else if let Some(number) = readers.clients.add(stream) {
                readers.push(number, Task::Open);
            }
        }
        for number in readers.clients.came(&self.poll, &clients) {
            self.serve_reader(number, true);
        }
    }

    /// Writes what one can take, and reads what it has sent if it `reads` and there is room.
    fn serve_reader(&mut self, number: u32, reads: bool) {
        let Some(readers) = &mut self.readers else { return };
        for did in readers.clients.serve(number, reads && readers.has_room()) {
            match did {
                Did::Request(number, bytes) => readers.take(number, bytes),
                Did::End(number) if readers.clients.is_refused(number) => {}
                Did::End(number) | Did::Gone(number) => readers.end(number, Vec::new()),
                Did::Slow(number, unread) => {
                    self.says.push(slow(number, unread));
                    readers.end(number, Vec::new());
                }
            }
        }
    }

    /// Writes what waits for those clients, and sends the slowest away if more is kept for them than the others leave.
    pub(super) fn release_readers(&mut self) {
        let unserved = self.readers.as_ref().map(|readers| readers.clients.unserved());
        for number in unserved.unwrap_or_default() {
            self.serve_reader(number, false);
        }
        let Some(readers) = &mut self.readers else { return };
        let left = self.settings.most_kept.saturating_sub(self.clients.kept());
        let slow = readers.clients.shed(left);
        slow.iter().for_each(|(number, _)| readers.end(*number, Vec::new()));
        self.tell_shed(&slow);
    }

    /// Last word to the client of that connection, if it only reads.
    pub(super) fn last_word_of(&mut self, conn: Conn) -> Vec<u8> {
        let readers = self.readers.as_mut().filter(|_| conn.is_beside());
        readers.map(|readers| std::mem::take(&mut readers.last_word)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Read;
    use std::net::TcpStream;

    use truechimer_group_client::delivery::{self, Page};

    use super::*;
    use crate::cut::Protocol;

    /// Descriptors or ports that are used up are found in the same way as an address that nothing can be connected to.
    #[test]
    fn whoever_gets_no_connection_to_the_program_is_refused() {
        let name = format!("truechimer-readers-{}.front", std::process::id());
        let path = std::env::temp_dir().join(name);
        let page = CString::new(path.to_str().unwrap()).unwrap();
        let page = Page::create(&page, delivery::CLOCK | delivery::LOOP).unwrap();
        let everybody = "255.255.255.255:9".parse().unwrap();
        let mut program = Program::new(everybody, page, false).unwrap();
        let (listen, age, most) = ("127.0.0.1:0".parse().unwrap(), Duration::ZERO, MOST_READERS);
        let how = ReadOnly { listen, age, commands: None, most };
        let mut readers = Readers::new(how, Clients::new(Protocol::Line), 1024).unwrap();
        assert_eq!(readers.how.most, 256, "half the descriptors, two each");
        let mut says = Vec::new();
        for _ in 0..2 {
            let mut theirs = TcpStream::connect(readers.address().unwrap()).unwrap();
            readers.listener.set_nonblocking(false).unwrap();
            let number = readers.clients.add(readers.listener.accept().unwrap().0).unwrap();
            readers.push(number, Task::Open);
            assert_eq!(readers.give(&mut program, &mut says), None);
            assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "closed");
        }
        assert!(says.len() == 1 && says[0].contains("cannot be connected to"), "{says:?}");
        std::fs::remove_file(path).unwrap();
    }
}
