//! One attachment, as the agent has it. What the other side writes is taken for hostile: the
//! agent's own record says what is in work, and nothing there is believed that contradicts it.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::{EventfdFlags, eventfd};
use truechimer_group::{Phase, Rejection, Thread};

use super::{Counts, LinkId, Request, Ticket};
use crate::link::{Answer, Role};
use crate::memory::{Closed, Mapping, SLOTS, make};
use crate::message::{self, ToAgent, limit_to_agent};
use crate::packet::{Assembly, LONGEST};
use crate::slots::{Answered, Asked, Control, State};
use crate::sys;

/// Packets that are taken of one attachment before the others have their turn.
const TURN: usize = 64;

/// Reason why an attachment comes to its end.
pub(super) struct End {
    pub closed: Closed,
    pub why: String,
}

impl End {
    fn foul(why: impl Into<String>) -> End {
        End { closed: Closed::Foul, why: why.into() }
    }

    fn left(why: impl Into<String>) -> End {
        End { closed: Closed::Ended, why: why.into() }
    }
}

/// Knowledge that the agent has of a slot.
#[derive(Clone, Copy)]
struct Record {
    /// The read in work.
    work: Option<(Control, Thread)>,
    /// Control word when it was last looked at for dead owners.
    last: Control,
}

/// The memory of an attachment that reads.
pub(super) struct Shared {
    pub memory: Mapping,
    pub doorbell: OwnedFd,
    /// True if the doorbell has been rung and not been silenced since.
    pub rung: bool,
    records: Vec<Record>,
}

/// One attachment.
pub(super) struct Peer {
    pub id: LinkId,
    pub role: Role,
    pub family: u64,
    pub pid: u32,
    /// True if it is of the agent's own user or root.
    pub rules: bool,
    /// Reads that came from it.
    pub reads: u64,
    /// True if its process identifiers mean the same to us as to it.
    pub same_processes: bool,
    pub socket: OwnedFd,
    pub shared: Option<Shared>,
    assembly: Assembly,
    /// Packets, and how much each counts of what may wait.
    out: VecDeque<(Vec<u8>, usize)>,
    waiting: usize,
    /// True if nothing can be said to it any more.
    mute: bool,
}

impl Shared {
    /// New memory, the file to hand over, and the doorbell.
    pub fn new(phase: Phase) -> std::io::Result<(Shared, OwnedFd)> {
        let (file, memory) = make()?;
        memory.set_phase(phase);
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let records = vec![Record { work: None, last: Control(0) }; SLOTS];
        Ok((Shared { memory, doorbell, rung: false, records }, file))
    }
}

impl Peer {
    pub fn new(
        id: LinkId,
        (role, family): (Role, u64),
        (pid, rules): (u32, bool),
        socket: OwnedFd,
        shared: Option<Shared>,
        checkpoint: usize,
    ) -> Peer {
        let room = if role == Role::Program { checkpoint } else { 0 };
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
        let same_processes = namespace("self")
            .is_some_and(|ours| namespace(&pid.to_string()).is_some_and(|theirs| theirs == ours));
        Peer {
            id,
            role,
            family,
            pid,
            rules,
            reads: 0,
            same_processes,
            socket,
            shared,
            // Others have no use for room for a checkpoint.
            assembly: Assembly::new(limit_to_agent, room),
            out: VecDeque::new(),
            waiting: 0,
            mute: false,
        }
    }

    /// True if something waits to be written.
    pub fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Reads what has come over the socket.
    pub fn hear(&mut self, out: &mut Vec<Request>) -> Result<(), End> {
        let mut packet = [0; LONGEST + 1];
        for _ in 0..TURN {
            let mut descriptors = [-1; 4];
            let received =
                match sys::receive(self.socket.as_raw_fd(), &mut packet, &mut descriptors) {
                    Ok(received) => received,
                    Err(libc::EAGAIN) => return Ok(()),
                    Err(libc::EINTR) => continue,
                    Err(error) => {
                        let error = std::io::Error::from_raw_os_error(error);
                        return Err(End::left(format!("the connection broke: {error}")));
                    }
                };
            descriptors.iter().take(received.descriptors).for_each(|number| sys::close(*number));
            if received.length == 0 {
                return Err(End::left("the program has ended or left"));
            }
            let packet = match packet.get(..received.length) {
                Some(packet) if !received.cut && received.descriptors == 0 => packet,
                _ => return Err(End::foul("a packet that is too long, or with descriptors")),
            };
            let Some((kind, body)) = self.assembly.take(packet).map_err(|e| End::foul(e.what))?
            else {
                continue;
            };
            let message = ToAgent::of(kind, &body).map_err(|error| End::foul(error.what))?;
            out.push(self.request(message)?);
        }
        Ok(())
    }

    fn request(&self, message: ToAgent) -> Result<Request, End> {
        let link = self.id;
        let allowed = match &message {
            ToAgent::Status | ToAgent::Shift { .. } => true,
            ToAgent::Commit { .. } => self.role != Role::Watcher,
            _ => self.role == Role::Program,
        };
        if !allowed {
            return Err(End::foul("a message that its role does not allow"));
        }
        Ok(match message {
            ToAgent::Multicast { token, payload } => Request::Multicast { link, token, payload },
            ToAgent::SendTo { token, stamp, group, payload } => {
                Request::SendTo { link, group, token, stamp, payload }
            }
            ToAgent::Commit { token, point } => Request::Commit { link, token, point },
            ToAgent::Checkpoint { join, position, data } => {
                Request::Checkpoint { link, join, data, position }
            }
            ToAgent::Installed { gap } => Request::Installed { link, gap },
            ToAgent::Restarted { gap } => Request::Restarted { link, gap },
            ToAgent::Status => Request::Status { link },
            ToAgent::Shift { .. } if !self.rules => Request::Denied { link },
            ToAgent::Shift { member, to } => Request::Shift { link, member, to },
        })
    }

    /// Looks at the slots that ask for something.
    pub fn look(&mut self, counts: &mut Counts, out: &mut Vec<Request>) -> Result<(), End> {
        let Some(Shared { memory, records, .. }) = &mut self.shared else { return Ok(()) };
        for (first, mut bits) in memory.board.take() {
            while bits != 0 {
                let index = first + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (Some(slot), Some(record)) = (memory.slots.get(index), records.get_mut(index))
                else {
                    continue;
                };
                let ticket = |seen: Control| Ticket {
                    link: self.id,
                    slot: index as u32,
                    serial: seen.serial(),
                };
                match slot.asked() {
                    Asked::Request(seen, words) => {
                        if let Some((before, _)) = record.work {
                            if same_use(before, seen) {
                                continue;
                            }
                            return Err(End::foul("a slot used anew while its read is in work"));
                        }
                        let (thread, call, outside) =
                            message::request(&words).map_err(|error| End::foul(error.what))?;
                        record.work = Some((seen, thread));
                        counts.reads += 1;
                        self.reads += 1;
                        out.push(Request::Read { ticket: ticket(seen), thread, call, outside });
                    }
                    Asked::Abandoned(seen) => {
                        if let Some((before, thread)) = record.work
                            && same_use(before, seen)
                        {
                            record.work = None;
                            out.push(Request::Abandon { ticket: ticket(seen), thread });
                        }
                        let _ = slot.free(seen);
                    }
                    Asked::Nothing => {}
                }
            }
        }
        Ok(())
    }

    /// Answers a read. Whether somebody waits for it.
    pub fn complete(&mut self, ticket: Ticket, result: &Result<Answer, Rejection>) -> bool {
        let index = ticket.slot as usize;
        let Some(Shared { memory, records, .. }) = &mut self.shared else { return false };
        let (Some(slot), Some(record)) = (memory.slots.get(index), records.get_mut(index)) else {
            return false;
        };
        let Some((seen, _)) = record.work.filter(|(seen, _)| seen.serial() == ticket.serial) else {
            return false;
        };
        record.work = None;
        match slot.answer(seen, &message::answer_words(result)) {
            Answered::Found => true,
            Answered::Wake => {
                sys::futex_wake(slot.control());
                true
            }
            Answered::Void => false,
        }
    }

    /// Takes back the slots of processes that are dead: those that have not changed since the last
    /// call and whose owner does not exist. How many.
    pub fn reclaim(&mut self, out: &mut Vec<Request>) -> u64 {
        let mut reclaimed = 0;
        let Some(Shared { memory, records, .. }) = &mut self.shared else { return 0 };
        memory.heartbeat.store(super::monotonic(), Relaxed);
        if !self.same_processes {
            return 0;
        }
        for (index, (slot, record)) in memory.slots.iter().zip(records).enumerate() {
            let now = slot.now();
            let unchanged = std::mem::replace(&mut record.last, now) == now;
            let used = !matches!(now.state(), Some(State::Free));
            if !unchanged || !used || sys::lives(now.owner()) {
                continue;
            }
            if let Some((seen, thread)) = record.work.take() {
                let (slot, serial) = (index as u32, seen.serial());
                out.push(Request::Abandon {
                    ticket: Ticket { link: self.id, slot, serial },
                    thread,
                });
            }
            reclaimed += u64::from(slot.free(now));
        }
        reclaimed
    }

    /// Gives up all reads in work.
    pub fn abandon_all(&mut self, out: &mut Vec<Request>) {
        let Some(Shared { records, .. }) = &mut self.shared else { return };
        for (index, record) in records.iter_mut().enumerate() {
            if let Some((seen, thread)) = record.work.take() {
                let (slot, serial) = (index as u32, seen.serial());
                out.push(Request::Abandon {
                    ticket: Ticket { link: self.id, slot, serial },
                    thread,
                });
            }
        }
    }

    /// Queues packets and writes what can be written. `limit`: bytes that may wait.
    pub fn tell(&mut self, packets: Vec<Vec<u8>>, limit: usize) -> Result<(), End> {
        if self.mute {
            return Ok(());
        }
        let more: usize = packets.iter().map(Vec::len).sum();
        // A single message may be longer than the limit: a checkpoint. Who is given one is not cut
        // off for what comes before and after it.
        let counts = more <= limit;
        let more = if counts { more } else { 0 };
        if self.waiting.saturating_add(more) > limit {
            let waiting = self.waiting;
            let why = format!("it did not read: {waiting} bytes wait for it");
            return Err(End { closed: Closed::Behind, why });
        }
        self.waiting += more;
        let idle = self.out.is_empty();
        self.out.extend(packets.into_iter().map(|packet| {
            let size = if counts { packet.len() } else { 0 };
            (packet, size)
        }));
        if idle {
            self.write();
        }
        Ok(())
    }

    /// Writes what can be written.
    pub fn write(&mut self) {
        while let Some((packet, size)) = self.out.front() {
            match sys::send(self.socket.as_raw_fd(), packet, &[]) {
                Ok(()) => {
                    self.waiting -= size;
                    self.out.pop_front();
                }
                Err(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => return,
                Err(libc::EINTR) => {}
                Err(_) => {
                    // The program has ended. What it said before is still to be read, and then
                    // the connection's end.
                    self.mute = true;
                    self.out.clear();
                    self.waiting = 0;
                }
            }
        }
    }
}

/// True if two control words are of the same use of a slot.
fn same_use(one: Control, other: Control) -> bool {
    (one.serial(), one.owner()) == (other.serial(), other.owner())
}
