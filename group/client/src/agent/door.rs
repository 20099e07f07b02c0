//! The door: all attachments of one member.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use truechimer_group::{Phase, Rejection};

use super::listener::Listener;
use super::peer::{End, Peer, Shared};
use super::{Counts, DoorError, LinkId, News, Request, Settings, Ticket, monotonic};
use crate::lead::Lead;
use crate::link::{Answer, Role, Welcome, WhyRefused};
use crate::memory::{Began, Closed, VERSION};
use crate::message::{self, Hello};
use crate::sys;

/// Connections that have not said who they are.
const GUESTS: usize = 16;
/// Longest time that they may take, ns.
const GREETING: u64 = 5_000_000_000;
/// Connections taken before the others have their turn.
const TURN: usize = 16;
/// Time in which nobody is let in after the system had no room for one more, ns.
const DEAF: u64 = 100_000_000;
/// Interval between heartbeats, and between looks for dead processes' slots, ns.
const BEAT: u64 = 1_000_000_000;

/// One member's door to the programs on its node.
pub struct Door {
    settings: Settings,
    listener: Listener,
    guests: Vec<Guest>,
    peers: Vec<Peer>,
    phase: Phase,
    family: u64,
    next: u64,
    beat: u64,
    /// Until when the listener is left alone: it would stay readable.
    deaf: u64,
    paused: bool,
    /// Number of times that a program has missed something here, and mark of an unsettled one.
    gap: u64,
    unsettled: bool,
    /// Start of the program.
    began: Began,
    lead: Lead,
    counts: Counts,
    /// Number of times that descriptors were opened for attachments.
    opened: u64,
    /// Requests made between two calls of [`Door::work`].
    later: Vec<Request>,
}

/// A connection that has not said who it is.
struct Guest {
    socket: OwnedFd,
    since: u64,
}

impl Door {
    /// Makes the socket, in place of one that nobody listens at any more.
    ///
    /// # Errors
    /// If another agent listens there, or the system refuses.
    pub fn open(settings: Settings) -> Result<Door, DoorError> {
        let listener = Listener::open(&settings)?;
        Ok(Door {
            settings,
            listener,
            guests: Vec::new(),
            peers: Vec::new(),
            phase: Phase::Outside,
            family: 0,
            next: 1,
            beat: 0,
            deaf: 0,
            paused: false,
            gap: 0,
            unsettled: false,
            began: Began::Unknown,
            lead: Lead::default(),
            counts: Counts::default(),
            opened: 0,
            later: Vec::new(),
        })
    }

    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.listener.path
    }

    /// Appends what to poll: descriptor and events.
    pub fn descriptors(&self, out: &mut Vec<libc::pollfd>) {
        let mut add = |socket: &OwnedFd, events| {
            out.push(libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 });
        };
        if self.guests.len() < GUESTS && self.deaf() == 0 {
            add(&self.listener.socket, libc::POLLIN);
        }
        self.guests.iter().for_each(|guest| add(&guest.socket, libc::POLLIN));
        for peer in &self.peers {
            let heard = if self.paused && peer.role == Role::Program { 0 } else { libc::POLLIN };
            let written = if peer.has_out() { libc::POLLOUT } else { 0 };
            add(&peer.socket, heard | written);
            if let Some(shared) = &peer.shared {
                add(&shared.doorbell, libc::POLLIN);
            }
        }
    }

    /// Number of times that descriptors have been opened: one of the same number as before may be
    /// another file when this has changed.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Does all there is to do without waiting, and appends what programs want. `ready` is what
    /// `poll` made of what [`Door::descriptors`] said (others among them are passed over); empty
    /// where only the slots are to be looked at.
    pub fn work(&mut self, ready: &[libc::pollfd], out: &mut Vec<Request>) {
        out.append(&mut self.later);
        // Few of many, as a rule: each attachment is looked for in it.
        let ready: Vec<_> = ready.iter().filter(|polled| polled.revents != 0).collect();
        let has = |socket: &OwnedFd| {
            let number = socket.as_raw_fd();
            ready.iter().any(|polled| polled.fd == number)
        };
        if has(&self.listener.socket) {
            self.accept();
        }
        let mut i = 0;
        while let Some(guest) = self.guests.get(i) {
            match has(&guest.socket).then(|| hear_hello(&guest.socket)) {
                None | Some(Heard::Nothing) => i += 1,
                Some(Heard::Gone) => drop(self.guests.swap_remove(i)),
                Some(Heard::Hello(hello)) => {
                    let Guest { socket, .. } = self.guests.swap_remove(i);
                    self.welcome(socket, hello, out);
                }
            }
        }
        let mut ends = Vec::new();
        for peer in &mut self.peers {
            if has(&peer.socket) {
                if peer.has_out() {
                    peer.write();
                }
                let gone = |polled: &&libc::pollfd| {
                    polled.fd == peer.socket.as_raw_fd()
                        && polled.revents & (libc::POLLHUP | libc::POLLERR) != 0
                };
                let listens = !(self.paused && peer.role == Role::Program);
                if (listens || ready.iter().any(gone))
                    && let Err(end) = peer.hear(out)
                {
                    ends.push((peer.id, end));
                    continue;
                }
            }
            // It is silenced before the agent sleeps again: who rang is waiting now.
            if let Some(shared) = &mut peer.shared {
                shared.rung |= has(&shared.doorbell);
            }
            if let Err(end) = peer.look(&mut self.counts, out) {
                ends.push((peer.id, end));
            }
        }
        for (id, end) in ends {
            self.end(id, end, out);
        }
        self.beat(out);
    }

    /// Looks after what only time brings.
    fn beat(&mut self, out: &mut Vec<Request>) {
        let now = monotonic();
        if now.saturating_sub(self.beat) < BEAT {
            return;
        }
        self.beat = now;
        self.guests.retain(|guest| now.saturating_sub(guest.since) < GREETING);
        for peer in &mut self.peers {
            self.counts.reclaimed += peer.reclaim(out);
        }
    }

    fn accept(&mut self) {
        for _ in 0..TURN {
            if self.guests.len() >= GUESTS {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.listener.socket, flags) {
                Ok(socket) => {
                    let since = monotonic();
                    self.opened += 1;
                    self.guests.push(Guest { socket, since });
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // No descriptors left, say: those who wait go on waiting.
                Err(_) => {
                    self.deaf = monotonic().saturating_add(DEAF);
                    return;
                }
            }
        }
    }

    /// Time from now on in which nobody is let in, ns.
    fn deaf(&self) -> u64 {
        match self.deaf {
            0 => 0,
            until => until.saturating_sub(monotonic()),
        }
    }

    /// Lets somebody in, or says why not.
    fn welcome(&mut self, socket: OwnedFd, hello: Hello, out: &mut Vec<Request>) {
        self.opened += 1;
        match self.admit(&socket, hello) {
            Ok((peer, uid, new, file)) => {
                // A program that was not there has missed nothing.
                let unsettled = self.unsettled && !new;
                let began = if new { Began::Unknown } else { self.began };
                if let Some(shared) = &peer.shared {
                    shared.memory.set_missed(self.gap, unsettled);
                    shared.memory.set_began(began);
                    shared.memory.lead.set(&self.lead);
                    shared.memory.place.store(self.settings.place.into(), Relaxed);
                }
                let welcome = Welcome {
                    member: self.settings.member,
                    family: peer.family,
                    mode: self.settings.mode,
                    order: self.settings.order,
                };
                let packet = message::welcome_packet(&welcome);
                let handed = match (&peer.shared, &file) {
                    (Some(shared), Some(file)) => {
                        let descriptors = [file.as_raw_fd(), shared.doorbell.as_raw_fd()];
                        sys::send(socket.as_raw_fd(), &packet, &descriptors)
                    }
                    _ => sys::send(socket.as_raw_fd(), &packet, &[]),
                };
                if handed.is_err() {
                    return;
                }
                self.unsettled = unsettled;
                self.began = began;
                self.counts.attached += 1;
                if peer.shared.is_some() {
                    self.family = peer.family;
                }
                self.clear_way(peer.family, out);
                let (link, role, pid) = (peer.id, peer.role, peer.pid);
                let together = hello.together;
                out.push(Request::Attached { link, role, pid, uid, new, together });
                self.peers.push(peer);
            }
            Err((why, process)) => {
                self.counts.refused += 1;
                let _ =
                    sys::send(socket.as_raw_fd(), &message::unwelcome_packet(why, process), &[]);
            }
        }
    }

    /// Ends those of other families, which are passing: nobody was let in beside others.
    fn clear_way(&mut self, family: u64, out: &mut Vec<Request>) {
        let others = self.peers.iter().filter(|peer| peer.shared.is_some());
        let others = others.filter(|peer| family != 0 && peer.family != family);
        let others: Vec<LinkId> = others.map(|peer| peer.id).collect();
        for id in others {
            let why = "a program has come in its place".to_owned();
            self.end(id, End { closed: Closed::GaveWay, why }, out);
        }
    }

    #[allow(clippy::type_complexity)]
    fn admit(
        &mut self,
        socket: &OwnedFd,
        hello: Hello,
    ) -> Result<(Peer, u32, bool, Option<OwnedFd>), (WhyRefused, u32)> {
        if hello.version != VERSION {
            return Err((WhyRefused::Version, 0));
        }
        let (pid, uid) =
            sys::peer(socket.as_raw_fd()).map_err(|_| (WhyRefused::NotPermitted, 0))?;
        let known = uid == 0 || uid == geteuid().as_raw();
        if !known && self.settings.users.as_ref().is_some_and(|users| !users.contains(&uid)) {
            return Err((WhyRefused::NotPermitted, 0));
        }
        let reads = hello.role != Role::Watcher;
        let passes = |role: Role| role == Role::Passing;
        // Those that give way to it are there no more.
        let goes = |peer: &Peer| {
            reads && !passes(hello.role) && passes(peer.role) && peer.family != hello.family
        };
        if self.peers.iter().filter(|peer| !goes(peer)).count() >= self.settings.links {
            return Err((WhyRefused::TooMany, 0));
        }
        let mut readers = self.peers.iter().filter(|peer| {
            peer.shared.is_some()
                && (passes(hello.role) || !passes(peer.role) || peer.family == hello.family)
        });
        let new = reads && readers.clone().next().is_none();
        if reads {
            // One program per member: its own processes, and of these one for the messages.
            let other = readers.clone().find(|peer| peer.family != hello.family);
            let same = readers.find(|peer| peer.role == Role::Program);
            let taken = other.or(same.filter(|_| hello.role == Role::Program));
            if let Some(there) = taken {
                return Err((WhyRefused::Taken, there.pid));
            }
        }
        let family = match (reads, hello.family) {
            (false, _) => 0,
            (true, 0) => random().max(1),
            (true, family) => family,
        };
        let (shared, file) = match reads.then(|| Shared::new(self.phase)) {
            None => (None, None),
            Some(Ok((shared, file))) => (Some(shared), Some(file)),
            Some(Err(_)) => return Err((WhyRefused::TooMany, 0)),
        };
        let id = LinkId(self.next);
        self.next += 1;
        let copy = socket.try_clone().map_err(|_| (WhyRefused::TooMany, 0))?;
        let role = (hello.role, family);
        let peer = Peer::new(id, role, (pid, known), copy, shared, self.settings.checkpoint);
        Ok((peer, uid, new, file))
    }

    /// True if a slot asks for something: as cheap as a few loads, for loops that spin.
    #[must_use]
    pub fn rung(&self) -> bool {
        !self.later.is_empty() || self.boards().any(|board| board.memory.board.rung())
    }

    fn boards(&self) -> impl Iterator<Item = &Shared> {
        self.peers.iter().filter_map(|peer| peer.shared.as_ref())
    }

    /// Says that the agent goes to sleep, so that programs ring. False if it must not, as
    /// something has come: then it is as after [`Door::wake`].
    #[must_use]
    pub fn sleep(&mut self) -> bool {
        // Whoever rings after this is found below, or rings in vain once more.
        for shared in self.peers.iter_mut().filter_map(|peer| peer.shared.as_mut()) {
            if std::mem::take(&mut shared.rung)
                && rustix::io::read(&shared.doorbell, &mut [0; 8][..]).is_ok()
            {
                self.counts.rings += 1;
            }
        }
        let quiet =
            self.later.is_empty() && self.boards().all(|shared| shared.memory.board.sleep());
        if !quiet {
            self.wake();
        }
        quiet
    }

    /// Says that the agent is awake, so that programs need not ring.
    pub fn wake(&mut self) {
        self.boards().for_each(|shared| shared.memory.board.wake());
    }

    /// Longest time that `poll` may wait; none: for ever.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        if !self.later.is_empty() {
            return Some(Duration::ZERO);
        }
        let needed = !self.peers.is_empty() || !self.guests.is_empty();
        let left = self.beat.saturating_add(BEAT).saturating_sub(monotonic());
        let deaf = Some(self.deaf()).filter(|deaf| *deaf > 0);
        needed.then_some(left).into_iter().chain(deaf).min().map(Duration::from_nanos)
    }

    /// While paused, nothing is read of the program's messages (its reads of the clock are): for
    /// times when the group's order takes no more. The program waits, then.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Answers a read. False if nobody waits for it any more.
    pub fn complete(&mut self, ticket: Ticket, result: Result<Answer, Rejection>) -> bool {
        if self.began == Began::Late && result.is_ok() {
            // One says so, to whoever started it: the first that reads.
            self.began = Began::Together;
            let others = self.peers.iter().filter(|peer| peer.id != ticket.link);
            let others = others.filter_map(|peer| peer.shared.as_ref());
            others.for_each(|shared| shared.memory.set_began(Began::Together));
        }
        let peer = self.peers.iter_mut().find(|peer| peer.id == ticket.link);
        let found = peer.is_some_and(|peer| peer.complete(ticket, &result));
        self.counts.answers += u64::from(found);
        found
    }

    /// Tells one attachment something. False if it is gone, or was cut off for it.
    pub fn send(&mut self, to: LinkId, news: &News) -> bool {
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.id == to) else { return false };
        match peer.tell(news.packets(), self.settings.queue) {
            Ok(()) => true,
            Err(end) => {
                let mut out = std::mem::take(&mut self.later);
                self.end(to, end, &mut out);
                self.later = out;
                false
            }
        }
    }

    /// The member's program: the attachment that takes part in the group's messages.
    #[must_use]
    pub fn program(&self) -> Option<LinkId> {
        self.peers.iter().find(|peer| peer.role == Role::Program).map(|peer| peer.id)
    }

    /// All attachments that read the clock.
    pub fn readers(&self) -> impl Iterator<Item = LinkId> {
        self.peers.iter().filter(|peer| peer.shared.is_some()).map(|peer| peer.id)
    }

    /// The processes that are attached to read the clock: each one's number (as it is here; 0 if it
    /// has none), how it takes part, and how many reads came from it, its forked children's too.
    pub fn processes(&self) -> impl Iterator<Item = (u32, Role, u64)> {
        let readers = self.peers.iter().filter(|peer| peer.shared.is_some());
        readers.map(|peer| (peer.pid, peer.role, peer.reads))
    }

    /// The family of processes that the member's program is, while it is there.
    #[must_use]
    pub fn family(&self) -> Option<u64> {
        self.boards().next().map(|_| self.family)
    }

    /// Tells all where the member stands; the program in the order of its messages as well.
    pub fn phase(&mut self, phase: Phase) {
        if self.phase == phase {
            return;
        }
        self.phase = phase;
        self.boards().for_each(|shared| shared.memory.set_phase(phase));
        if let Some(program) = self.program() {
            self.send(program, &News::Phase(phase));
        }
    }

    /// The member's program has missed part of the group's stream. Until [`Door::settle`] or a new
    /// program, its reads are to be rejected as [`Rejection::Missed`]. Returns the gap's number.
    pub fn miss(&mut self) -> u64 {
        self.gap += 1;
        self.mark(true);
        self.gap
    }

    /// Start of the program here. That it was [late](Began::Late) is said by that of its
    /// attachments that reads first, and not by the others from then on.
    pub fn began(&mut self, began: Began) {
        self.began = began;
        self.boards().for_each(|shared| shared.memory.set_began(began));
    }

    /// The primary now, and why; a change happens at this moment.
    pub fn lead(&mut self, lead: Lead) {
        self.lead = lead;
        self.boards().for_each(|shared| shared.memory.lead.set(&lead));
    }

    /// The program knows of the last gap.
    pub fn settle(&mut self) {
        self.mark(false);
    }

    fn mark(&mut self, unsettled: bool) {
        self.unsettled = unsettled;
        self.boards().for_each(|shared| shared.memory.set_missed(self.gap, unsettled));
    }

    /// The number of the last gap, if the program has missed that and has not said yet that it
    /// knows.
    #[must_use]
    pub fn missed(&self) -> Option<u64> {
        self.unsettled.then_some(self.gap)
    }

    /// Cuts an attachment off.
    pub fn cut_off(&mut self, link: LinkId, why: &str) {
        let mut out = std::mem::take(&mut self.later);
        self.end(link, End { closed: Closed::CutOff, why: why.into() }, &mut out);
        self.later = out;
    }

    /// Counts since the door was opened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn end(&mut self, id: LinkId, end: End, out: &mut Vec<Request>) {
        let Some(i) = self.peers.iter().position(|peer| peer.id == id) else { return };
        let mut peer = self.peers.swap_remove(i);
        peer.abandon_all(out);
        if let Some(shared) = &peer.shared {
            shared.memory.close(end.closed);
        }
        let parted = matches!(end.closed, Closed::Ended | Closed::GaveWay);
        self.counts.cut_off += u64::from(!parted);
        let last = peer.shared.is_some() && self.boards().next().is_none();
        out.push(Request::Detached { link: id, role: peer.role, why: end.why, last });
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.boards().for_each(|shared| {
            shared.memory.heartbeat.store(0, Relaxed);
            shared.memory.close(Closed::Ended);
        });
    }
}

enum Heard {
    Nothing,
    Gone,
    Hello(Hello),
}

fn hear_hello(socket: &OwnedFd) -> Heard {
    let (mut packet, mut descriptors) = ([0; 256], [-1; 4]);
    match sys::receive(socket.as_raw_fd(), &mut packet, &mut descriptors) {
        Ok(received) => {
            descriptors.iter().take(received.descriptors).for_each(|number| sys::close(*number));
            // A greeting of a later version may be longer; its beginning says which.
            let packet = packet.get(..received.length).unwrap_or(&packet);
            match Hello::of(packet) {
                Ok(hello) => Heard::Hello(hello),
                Err(_) => Heard::Gone,
            }
        }
        Err(libc::EAGAIN | libc::EINTR) => Heard::Nothing,
        Err(_) => Heard::Gone,
    }
}
/// A random number from the kernel; 0 if it has none.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}
