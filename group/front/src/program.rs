//! The program: its connections, what it is given, and whether it is done with it.

mod at_once;
mod peers;
mod sleep;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::sockopt;
use truechimer_group::Member;
use truechimer_group_client::delivery::Page;

use crate::order::{Conn, End};
use crate::rest::{self, Rest};
use crate::sys;
use peers::{Socket, Table};
use sleep::Sleep;

/// A program that takes its input does so sooner: only after so long it is looked whether it rests.
const TAKES: Duration = Duration::from_millis(5);
/// A program that has rested for so long does not take it by itself: far longer than it takes the
/// kernel to bring it, on a busy machine too.
const RESTS: Duration = Duration::from_millis(20);
/// Between two looks at one that is about to rest, at least; an eighth of the time that it has
/// taken so far, if that is more.
const LOOKS: Duration = Duration::from_micros(100);
/// For so long a program is waited for that has done all, as it seems, and does not rest: a thread
/// of it may never sleep. Well below the patience with a program that is stuck (5 s unless set). That is the time for which
/// one thread has had a processor without sleeping; or for which threads of it have slept again and again, less what they
/// waited for processors.
const RESTLESS: Duration = Duration::from_secs(2);
/// In the latter case one that has written nothing may be at work all the same, as a runtime that starts on a busy machine
/// takes that long for its first request. Below that patience as well, where no thread waits for a processor; at most four
/// times as long where threads do.
const RESTLESS_AND_SILENT: Duration = Duration::from_secs(4);
/// Looks at a program's threads take no more than about so large a part of the time.
const LOOKED_AT: u32 = 32;
/// A connection may have that much input that the program has not taken while others go on.
const MOST_UNTAKEN: usize = 16 << 20;
/// Connections in which something has come that are looked at in one go.
const MOST_CAME: usize = 256;

/// Work with which the program is busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// Accepting the connections that it was given last.
    Accept,
    /// Reading the requests that it was given last, and working on them.
    Requests,
    /// Taking note of the end.
    End(Conn),
}

/// Progress of a connection: the program's queue of those to accept may be full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Another one comes first.
    Waits,
    /// The kernel tries.
    Begun,
    Connected,
}

/// One connection to it.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    stage: Stage,
    port: u16,
    /// Bytes for it, all in all.
    sent: u64,
    /// Those that the kernel has not taken yet.
    out: Vec<u8>,
    /// True if its client has ended; if the program has been told.
    finished: bool,
    told: bool,
    /// True if it has ended the connection.
    ended: bool,
}

/// The program beside this front.
#[derive(Debug)]
pub struct Program {
    address: SocketAddr,
    page: Arc<Page>,
    links: BTreeMap<Conn, Link>,
    /// Tells in which of them something has come.
    epoll: OwnedFd,
    /// Those that it was given last, or was given requests of.
    given: Vec<Conn>,
    /// True if it has written something to one of those since.
    answered: bool,
    /// True if a connection may wait to be connected, or something for the kernel to take it.
    waits: bool,
    /// True if it is to be given that at once and has not been, as it was stopped in a look.
    at_once: bool,
    /// Connections whose input it did not take when it rested: a server of one connection at a
    /// time, or one with fewer threads than connections, takes it when another has ended.
    untaken: BTreeSet<Conn>,
    /// Those whose clients have gone that it has yet to hear of.
    leaving: Vec<Link>,
    rest: Rest,
    /// When its threads were looked at last.
    glanced: Instant,
    sleep: Sleep,
    /// Since when it has had what it is busy with, and how often its threads had woken others.
    begun: (Instant, u32),
    /// True if it has taken a connection or input, and nobody has seen it do so.
    unseen: bool,
    /// When it was looked for that while it worked.
    looked: Instant,
    /// The look was the first of two.
    paired: bool,
    /// True if somebody else tells that it serves.
    asked: bool,
    /// Reason why it does not serve yet, by its last answer; none of one that is not asked about.
    unready: Option<String>,
}

impl Program {
    /// The program that listens there, or will. `asked`: it serves when [`Program::set_ready`] says
    /// so, else as soon as it listens.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(address: SocketAddr, page: Page, asked: bool) -> io::Result<Program> {
        // Nothing is forgotten here: the program may have attached to this page before.
        Ok(Program {
            address,
            page: Arc::new(page),
            links: BTreeMap::new(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            given: Vec::new(),
            answered: false,
            waits: false,
            at_once: false,
            untaken: BTreeSet::new(),
            leaving: Vec::new(),
            rest: Rest::default(),
            glanced: Instant::now(),
            sleep: Sleep::default(),
            begun: (Instant::now(), 0),
            unseen: false,
            looked: Instant::now(),
            paired: false,
            asked,
            unready: unasked(asked),
        })
    }

    /// True if it listens, and it is not known yet whether it serves.
    pub fn is_asked_for(&self) -> bool {
        self.unready.is_some() && self.listening().is_ok()
    }

    /// Takes note that it serves, or of the reason why it does not.
    pub fn set_ready(&mut self, ready: Result<(), String>) {
        self.unready = ready.err();
    }

    /// The page that is shared with it.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Reason why it cannot be used yet, in words.
    pub fn misses(&self) -> Option<String> {
        let unready = |why| format!("it listens, and does not serve yet (--ready-command: {why})");
        self.listening().err().or_else(|| self.unready.as_ref().map(unready))
    }

    fn listening(&self) -> Result<(), String> {
        if !Table::read().listens(self.address) {
            return Err(format!("nothing listens at {}", self.address));
        }
        if self.page.programs() == 0 {
            return Err(format!(
                "the program at {} was not started by 'truechimer group exec --reads delivery' \
                 since this front began",
                self.address
            ));
        }
        Ok(())
    }

    /// The time for what comes.
    pub fn set_time(&self, time: i64) {
        if self.page.time().is_none_or(|now| now < time) {
            self.page.set_time(time);
        }
    }

    /// Forgets all, as it is to be started anew: nothing is left of the old one.
    pub fn forget(&mut self) {
        self.links.clear();
        self.given.clear();
        (self.at_once, self.waits) = (false, false);
        self.untaken.clear();
        self.leaving.clear();
        self.page.forget_program();
        self.unseen = false;
        self.sleep = Sleep::default();
        self.unready = unasked(self.asked);
    }

    /// Gives it connections, in this order: to an event loop all at once.
    ///
    /// # Errors
    /// If it does not listen: it has none of them then.
    pub fn open(&mut self, conns: &[Conn]) -> io::Result<Busy> {
        self.begin();
        self.given = conns.to_vec();
        self.answered = false;
        self.at_once = conns.len() > 1;
        let opened = self.make_links().and_then(|()| self.write());
        if let Err(why) = opened {
            conns.iter().for_each(|conn| drop(self.links.remove(conn)));
            self.given.clear();
            self.at_once = false;
            return Err(why);
        }
        Ok(Busy::Accept)
    }

    /// Makes sockets for the connections that it is to be given.
    fn make_links(&mut self) -> io::Result<()> {
        self.waits = true;
        for conn in &self.given {
            let stream = sys::socket(self.address)?;
            let port = stream.local_addr()?.port();
            self.page.begin(port);
            let (out, finished, told, ended) = (Vec::new(), false, false, false);
            let stage = Stage::Waits;
            let link = Link { stream, stage, port, sent: 0, out, finished, told, ended };
            self.links.insert(*conn, link);
        }
        Ok(())
    }

    /// Connects one after the other, in their order: where the program's queue is full, the kernel tries each again at
    /// moments of its own, and which one gets in first would differ between replicas.
    fn connect(&mut self) -> io::Result<()> {
        let begun = |link: &Link| link.stage == Stage::Begun;
        let is_begun = self.leaving.iter().chain(self.links.values()).any(begun);
        let leaving = self.leaving.iter_mut().map(|link| (None, link));
        let links = self.links.iter_mut().map(|(conn, link)| (Some(*conn), link));
        let waits = |(_, link): &(_, &mut Link)| link.stage != Stage::Connected;
        for (conn, link) in leaving.chain(links).filter(waits) {
            if is_begun && link.stage == Stage::Waits {
                continue;
            }
            let result = link.connect(self.address);
            if link.stage == Stage::Begun {
                return Ok(());
            }
            if let Some(conn) = conn {
                // Not before: one that is not connected would be reported all the time.
                epoll::add(&self.epoll, &link.stream, data(conn), epoll::EventFlags::IN)?;
            }
            result?;
        }
        Ok(())
    }

    /// Tells it that the client has ended.
    pub fn end(&mut self, conn: Conn) -> Busy {
        self.begin();
        if let Some(link) = self.links.get_mut(&conn) {
            link.finished = true;
            self.waits = true;
        }
        self.push();
        Busy::End(conn)
    }

    /// Takes note of the moment: what it is given comes after.
    fn begin(&mut self) {
        self.rest = Rest::default();
        self.sleep.begin();
        self.paired = false;
        self.begun = (Instant::now(), self.page.handed());
    }

    /// Nothing more of that connection. What the program has not taken of it it still may.
    pub fn close(&mut self, conn: Conn) {
        let link = self.links.remove(&conn);
        if self.untaken.remove(&conn)
            && let Some(link) = link
        {
            self.forget_link(&link);
            self.leaving.push(link);
        }
    }

    /// Nothing is to be told of it any more.
    fn forget_link(&self, link: &Link) {
        // One that has been forgotten before is none.
        let _ = epoll::delete(&self.epoll, &link.stream);
    }

    /// Passes on what the kernel would not take before.
    pub fn push(&mut self) {
        if self.at_once {
            // Of one that is refused now its end tells.
            let _ = self.write();
        } else if self.waits {
            let _ = self.connect();
            self.links.values_mut().chain(&mut self.leaving).for_each(Link::push);
            self.waits = self.links.values().chain(&self.leaving).any(Link::waits);
        }
    }

    /// True if it is done: has taken all its input, and waits again; or does not take it, and
    /// rests.
    pub fn is_done(&mut self, with: Busy) -> bool {
        self.sleep.restless = false;
        if self.unseen {
            return false;
        }
        if self.page.busy() != 0 {
            self.sleep.works(Instant::now());
            return self.look_closer(with);
        }
        self.sleep.works_no_more(Instant::now());
        let page = &self.page;
        self.untaken.retain(|conn| self.links.get(conn).is_some_and(|link| !link.is_taken(page)));
        self.leaving.retain(|link| !link.is_taken(page));
        let waits = !self.untaken.is_empty() || !self.leaving.is_empty();
        let late = self.late(with);
        // After what it has taken: it gets busy first, then counts.
        if self.page.busy() != 0 {
            return false;
        }
        let (since, handed) = self.begun;
        if late.is_empty() {
            // Somebody may be about to work who has not said so: of no matter beside the loop of one, by the operator's
            // word.
            let of_loop = match with {
                Busy::Requests => self.given.iter().all(|conn| self.is_looped(*conn)),
                Busy::Accept => self.given.iter().all(|conn| self.is_loops(*conn)),
                Busy::End(conn) => self.is_loops(conn),
            };
            if !waits && (of_loop || self.page.handed() == handed) {
                return true;
            }
            if self.glanced.elapsed() < (since.elapsed() / LOOKED_AT).min(RESTS / 2) {
                self.sleep.restless = true;
                return false;
            }
            let now = Instant::now();
            self.glanced = now;
            let silent = sleep::is_silent(with, self.answered);
            let restless = self.is_restless(sleep::pauses(silent));
            let for_ = now.saturating_duration_since(since);
            let turns = || rest::turns(&self.page.processes().unwrap_or_default());
            return self.sleep.is_done(now, for_, silent, restless, turns);
        }
        self.sleep.leaves();
        // What it does not take it leaves to a later moment, and so does every replica's.
        let is_little =
            |conn| self.links.get(conn).map_or(0, |link| link.out.len()) <= MOST_UNTAKEN;
        let all = late.iter().all(is_little);
        let rests = all && since.elapsed() >= TAKES && self.has_rested();
        if rests {
            self.find_unseen(&late, with);
            // That takes its time, in which it may have gone on.
            let gone_on = !self.has_rested() || self.late(with) != late;
            if self.unseen || gone_on || self.is_underway(&late) {
                return false;
            }
            self.untaken.extend(late);
        }
        rests
    }

    /// Looks, once in a while, whether one that says it works sleeps, and has taken what it is not seen to have. True for
    /// one that has accepted and sleeps since: if it waits for input, and nobody sees it, the first request will show it.
    fn look_closer(&mut self, with: Busy) -> bool {
        let for_ = self.begun.0.elapsed();
        // All threads are gone through for it, and all connections of the host. It takes a pair of looks that are so far
        // apart as it has to rest.
        let pace = if self.paired { RESTS } else { (RESTS / 2).max(for_ / 8) };
        if for_ < TAKES || self.looked.elapsed() < pace {
            return false;
        }
        self.looked = Instant::now();
        let late = self.late(with);
        let slept = self.has_slept();
        self.paired = !self.paired && self.rest.is_asleep();
        if !slept {
            return false;
        }
        if late.is_empty() {
            return with == Busy::Accept && for_ >= RESTLESS;
        }
        self.find_unseen(&late, with);
        false
    }

    /// Looks whether one that has slept for long has taken any of these.
    fn find_unseen(&mut self, late: &[Conn], with: Busy) {
        // Unless it has gone on meanwhile, and is about to say so.
        self.unseen = self.has_taken(late, with) && self.has_slept() && !self.late(with).is_empty();
    }

    /// True if it has one of these by the kernel's account: it has accepted it, or has read all that was sent.
    fn has_taken(&self, late: &[Conn], with: Busy) -> bool {
        let links = late.iter().filter_map(|conn| self.links.get(conn));
        let whole = |link: &&Link| link.out.is_empty() && !self.page.takes_all(link.port);
        let links: Vec<&Link> = links.filter(whole).collect();
        let sockets = Table::read();
        let mut found = links.iter().filter_map(|link| link.socket(&sockets));
        found.any(|socket| match with {
            Busy::Accept => socket.accepted,
            Busy::Requests => socket.accepted && socket.unread == 0 && !socket.underway,
            // It reads the end when it likes to.
            Busy::End(_) => false,
        })
    }

    /// True if something that was sent to one of these may not have arrived yet: an acknowledgement may take 40 ms.
    fn is_underway(&self, late: &[Conn]) -> bool {
        let sockets = Table::read();
        let links = late.iter().filter_map(|conn| self.links.get(conn));
        let mut found = links.filter_map(|link| link.socket(&sockets));
        found.any(|socket| socket.unread == 0 && socket.underway)
    }

    /// Reason why it cannot be followed at all, in words.
    pub fn unfit(&self) -> Option<&'static str> {
        self.unseen.then_some(
            "the program takes its input unseen: by streams of C's library on a socket (fdopen), by io_uring, recvmmsg \
             or splice, by system calls of its own, as static programs and Go's do (there is a package for Go), in a process \
             that was handed the connection, or by a descriptor beyond 65 535; it cannot be seen when it has dealt with \
             a request",
        )
    }

    /// The connections of which it has not taken what it was given with that.
    fn late(&self, with: Busy) -> Vec<Conn> {
        let Busy::End(conn) = with else {
            return self.given.iter().copied().filter(|conn| self.is_late(*conn, with)).collect();
        };
        Some(conn).filter(|conn| self.is_late(*conn, with)).into_iter().collect()
    }

    fn is_late(&self, conn: Conn, with: Busy) -> bool {
        let Some(link) = self.links.get(&conn).filter(|link| !link.ended) else { return false };
        let taken = self.page.taken(link.port);
        match with {
            Busy::Accept => !taken.accepted,
            Busy::Requests => !link.out.is_empty() || taken.bytes < link.sent,
            Busy::End(_) => !taken.ended && !taken.closed,
        }
    }

    /// Waits a little for it to come to rest, if it has not since `settles` was read.
    pub fn wait(&self, settles: u32, patience: Duration) {
        if self.sleep.restless {
            std::thread::sleep((self.begun.0.elapsed() / 8).max(LOOKS).min(patience));
        } else {
            self.page.wait_settled(settles, patience);
        }
    }

    /// Reason why it cannot be followed as others are, in words.
    pub fn troubles(&self) -> Option<&'static str> {
        if self.sleep.is_sleepless() {
            Some(
                "a thread of the program never sleeps, or they never all do for long enough: where one hands a request \
                 to another it cannot be seen when that is done, and answers may differ between replicas",
            )
        } else if self.page.has_come_partly() {
            Some(
                "what the program was given at once did not come whole (is its receive buffer, \
                 SO_RCVBUF, below 16 KiB?): it gets one request at a time from now on, and answers \
                 may differ between replicas; leave out --event-loop",
            )
        } else if !self.untaken.is_empty() {
            Some(
                "the program rests and leaves a connection for later: it serves fewer at a time \
                 than there are, and takes that one when another has ended; the others go on",
            )
        } else {
            None
        }
    }

    /// True if one of its threads does not sleep, or has done so for less than `pauses`, or that cannot
    /// be seen of it; false where nothing is known of its processes.
    fn is_restless(&mut self, pauses: Duration) -> bool {
        let Some(processes) = self.page.processes().filter(|all| !all.is_empty()) else {
            return false;
        };
        let rested = self.rest.time(&processes).is_some_and(|time| time >= pauses);
        !(rested || self.rest.is_alone()) || self.page.busy() != 0
    }

    /// True if all its threads have slept for long.
    fn has_slept(&mut self) -> bool {
        let processes = self.page.processes().unwrap_or_default();
        self.rest.time(&processes).is_some_and(|time| time >= RESTS)
    }

    /// True if they have, and nobody works.
    fn has_rested(&mut self) -> bool {
        self.has_slept() && self.page.busy() == 0
    }

    /// Takes what it has written: calls `each` with the connection, the bytes, and how it has ended
    /// it.
    pub fn drain(&mut self, mut each: impl FnMut(Conn, &[u8], End)) {
        let mut buffer = [0; 16 << 10];
        let mut came = Vec::with_capacity(MOST_CAME);
        let quick = !self.page.is_loop();
        loop {
            came.clear();
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            // What comes later is found later.
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut came), Some(&now));
            for event in &came {
                let conn = conn(event.data);
                let Some(link) = self.links.get_mut(&conn).filter(|link| link.is_live()) else {
                    continue;
                };
                self.answered = self.answered || self.given.contains(&conn);
                link.drain(&mut buffer, quick, |bytes, end| each(conn, bytes, end));
                if link.ended {
                    // Reported for ever otherwise.
                    let _ = epoll::delete(&self.epoll, &link.stream);
                }
            }
            if came.len() < MOST_CAME {
                break;
            }
        }
        // To clients that have gone nothing goes any more.
        for link in &mut self.leaving {
            link.drain(&mut buffer, quick, |_, _| ());
        }
    }

    /// Descriptors to poll, and whether for room to write.
    pub fn descriptors(&self) -> impl Iterator<Item = (RawFd, bool)> {
        let wants = |link: &&Link| {
            !link.ended && (link.stage == Stage::Begun || (link.is_live() && !link.out.is_empty()))
        };
        let links = self.waits.then(|| self.links.values()).into_iter().flatten();
        let writes = links.filter(wants).map(|link| (link.stream.as_raw_fd(), true));
        let leaves = self.leaving.iter().filter(|link| !link.ended && link.stage != Stage::Waits);
        let leaves = leaves.map(move |link| (link.stream.as_raw_fd(), wants(&link)));
        std::iter::once((self.epoll.as_raw_fd(), false)).chain(writes).chain(leaves)
    }

    /// Work that it is doing, for a report.
    pub fn says(&self, with: Busy) -> String {
        let threads = self.page.busy();
        let late = self.late(with);
        let Some((conn, link)) = late.first().and_then(|conn| Some((conn, self.links.get(conn)?)))
        else {
            return format!("{threads} of its threads work, or were killed at it");
        };
        match with {
            Busy::Accept => format!("it has not accepted connection {conn}"),
            Busy::Requests => {
                let bytes = self.page.taken(link.port).bytes;
                format!("it has read {bytes} of {} bytes on connection {conn}", link.sent)
            }
            Busy::End(_) => format!("it has not read the end of connection {conn}"),
        }
    }
}

/// The connection's word in the epoll instance.
fn data(conn: Conn) -> epoll::EventData {
    epoll::EventData::new_u64((u64::from(conn.member.0) << 32) | u64::from(conn.number))
}

/// And back.
fn conn(data: epoll::EventData) -> Conn {
    let word = data.u64();
    Conn { member: Member((word >> 32) as u32), number: word as u32 }
}

impl Link {
    /// The program's side of it, by the kernel's account.
    fn socket(&self, sockets: &Table) -> Option<Socket> {
        let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        let (own, theirs) = (self.stream.local_addr().ok()?, self.stream.peer_addr().ok()?);
        sockets.between(plain(own), plain(theirs))
    }

    /// True if the program has taken all that there was to take.
    fn is_taken(&self, page: &Page) -> bool {
        let taken = page.taken(self.port);
        let all = taken.accepted && self.out.is_empty() && taken.bytes >= self.sent;
        self.ended || taken.closed || (all && (!self.finished || taken.ended))
    }

    /// Takes what has come, and says so to the program's side at once if that is to be `quick`.
    fn drain(&mut self, buffer: &mut [u8], quick: bool, mut each: impl FnMut(&[u8], End)) {
        let room = buffer.len();
        while self.is_live() {
            let end = match self.stream.read(buffer) {
                Ok(0) => End::Finished,
                Ok(length) => {
                    if quick {
                        // A program that writes in pieces (head, body) and has turned Nagle's algorithm on again sends
                        // the next one when this one is acknowledged, which may wait for 40 ms.
                        let _ = sockopt::set_tcp_quickack(&self.stream, true);
                    }
                    each(buffer.get(..length).unwrap_or(&[]), End::Open);
                    if length < room {
                        break;
                    }
                    continue;
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(_) => End::Cut,
            };
            self.ended = true;
            each(&[], end);
        }
    }

    /// True while something may come of it.
    fn is_live(&self) -> bool {
        self.stage == Stage::Connected && !self.ended
    }

    /// Connects it, or sees how far that has come.
    fn connect(&mut self, to: SocketAddr) -> io::Result<()> {
        // On this host it has come about when the first call is over, which does not say so.
        let result = match sys::connects(&self.stream, to) {
            Ok(false) => sys::connects(&self.stream, to),
            result => result,
        };
        // Reading from one that was refused fails, and tells that it is cut off.
        let begun = matches!(result, Ok(false));
        self.stage = if begun { Stage::Begun } else { Stage::Connected };
        result.map(drop)
    }

    /// True if it waits to be connected, or something for the kernel to take it.
    fn waits(&self) -> bool {
        let untold = self.finished && !self.told;
        !self.ended && (self.stage != Stage::Connected || !self.out.is_empty() || untold)
    }

    fn push(&mut self) {
        if self.stage != Stage::Connected {
            return;
        }
        while !self.out.is_empty() && !self.ended {
            match self.stream.write(&self.out) {
                Ok(length) => drop(self.out.drain(..length)),
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                // It has closed its end: what it wrote before is still to be read.
                Err(_) => self.out.clear(),
            }
        }
        if self.finished && !self.told && self.out.is_empty() {
            self.told = true;
            // What is gone already needs no end.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

/// Reason why a program does not serve yet, where somebody else tells that it does.
fn unasked(asked: bool) -> Option<String> {
    asked.then(|| "not asked yet".to_owned())
}

#[cfg(test)]
mod tests;
