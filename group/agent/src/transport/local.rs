//! Several members of a group in one process: for development, for tests, for services whose
//! replicas share a machine.
//!
//! A [`Hub`] is one group's ring. What a real one does when nodes and networks fail it does on
//! demand: [`Hub::cut`], [`Hub::heal`], [`Hub::crash`], [`Hub::hold`], [`Hub::strand`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use truechimer_group::Member;

use super::{Incoming, MOST_AT_ONCE, Sent, Transport, TransportError};

/// Largest number of bytes that may wait for a member that does not receive; then nobody on its side can send.
const ROOM: usize = 32 << 20;
/// Bytes that an event takes beside its own, so that empty ones are not free.
const OVERHEAD: usize = 128;

/// One group's ring inside this process. Clones are the same ring.
#[derive(Clone, Debug, Default)]
pub struct Hub(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    ports: BTreeMap<Member, Port>,
    /// Which part each is in while the ring is cut; those that are not named are in part 0.
    parts: BTreeMap<Member, usize>,
    /// Tells a member's later lives from this one.
    lives: u64,
}

#[derive(Debug)]
struct Port {
    life: u64,
    bell: UnixStream,
    queue: VecDeque<Incoming>,
    /// Of the queue, with [`OVERHEAD`].
    bytes: usize,
    /// Members in its last configuration.
    connected: BTreeSet<Member>,
    held: bool,
    stranded: bool,
}

/// A member's handle on a [`Hub`].
#[derive(Debug)]
pub struct Local {
    hub: Hub,
    member: Member,
    life: u64,
    bell: UnixStream,
    /// Members in the last configuration that was received; none before the first.
    connected: Option<Vec<Member>>,
}

impl Hub {
    /// A ring without members.
    #[must_use]
    pub fn new() -> Hub {
        Hub::default()
    }

    /// Makes `member` one of the ring.
    ///
    /// # Errors
    /// When it is one already, and when there are no more file descriptors.
    pub fn join(&self, member: Member) -> Result<Local, TransportError> {
        let failed = |error: std::io::Error| TransportError {
            what: format!("a socket pair for member {member}: {error}"),
            passing: false,
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        for end in [&ours, &theirs] {
            end.set_nonblocking(true).map_err(failed)?;
        }
        let mut ring = self.lock();
        if ring.ports.contains_key(&member) {
            return Err(TransportError {
                what: format!("member {member} is in the group already: give each its own number"),
                passing: false,
            });
        }
        ring.lives += 1;
        let life = ring.lives;
        let port = Port {
            life,
            bell: theirs,
            queue: VecDeque::new(),
            bytes: 0,
            connected: BTreeSet::new(),
            held: false,
            stranded: false,
        };
        ring.ports.insert(member, port);
        ring.reconfigure(&BTreeSet::new());
        Ok(Local { hub: self.clone(), member, life, bell: ours, connected: None })
    }

    /// Cuts the ring into these parts; those that are not named stay together in one more.
    /// Everything sent before arrives everywhere.
    pub fn cut(&self, parts: &[&[Member]]) {
        let mut ring = self.lock();
        ring.parts.clear();
        for (number, part) in (1..).zip(parts) {
            ring.parts.extend(part.iter().map(|member| (*member, number)));
        }
        ring.reconfigure(&BTreeSet::new());
    }

    /// Makes the ring whole.
    pub fn heal(&self) {
        self.cut(&[]);
    }

    /// The member's node fails: the others lose it, its handle is dead.
    pub fn crash(&self, member: Member) {
        self.lock().remove(member, false);
    }

    /// From now on the member receives nothing, until [`Hub::release`]; its place in the ring it
    /// keeps.
    pub fn hold(&self, member: Member) {
        if let Some(port) = self.lock().ports.get_mut(&member) {
            port.held = true;
        }
    }

    /// Ends [`Hub::hold`].
    pub fn release(&self, member: Member) {
        if let Some(port) = self.lock().ports.get_mut(&member) {
            port.held = false;
            port.ring();
        }
    }

    /// Strands the member (what it sends reaches only itself, until its next configuration): a cut
    /// that nobody has noticed yet. Cut it off after that; a ring never goes on as if nothing had
    /// been.
    pub fn strand(&self, member: Member) {
        if let Some(port) = self.lock().ports.get_mut(&member) {
            port.stranded = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn part(&self, member: Member) -> usize {
        self.parts.get(&member).copied().unwrap_or(0)
    }

    fn remove(&mut self, member: Member, willing: bool) {
        if let Some(port) = self.ports.remove(&member) {
            let left = if willing { BTreeSet::from([member]) } else { BTreeSet::new() };
            self.reconfigure(&left);
            port.ring();
        }
    }

    /// Tells all whose surroundings have changed; `left` went of their own will.
    fn reconfigure(&mut self, left: &BTreeSet<Member>) {
        let parts: Vec<(Member, usize)> =
            self.ports.keys().map(|member| (*member, self.part(*member))).collect();
        for (member, part) in &parts {
            let Some(port) = self.ports.get_mut(member) else { continue };
            let now: BTreeSet<Member> = parts
                .iter()
                .filter(|(_, other)| other == part)
                .map(|(member, _)| *member)
                .collect();
            if now == port.connected {
                continue;
            }
            port.stranded = false;
            let lost = port.connected.difference(&now).filter(|one| !left.contains(one));
            let lost = lost.copied().collect();
            let members = now.iter().copied().collect();
            port.connected = now;
            port.push(Incoming::Configuration { members, lost });
        }
    }

    fn send(&mut self, from: Member, message: &[u8]) -> Sent {
        let Some(port) = self.ports.get(&from) else { return Sent::Later };
        let reached = if port.stranded { BTreeSet::from([from]) } else { port.connected.clone() };
        let size = message.len() + OVERHEAD;
        let full = |member| self.ports.get(member).is_some_and(|port| port.bytes + size > ROOM);
        if reached.iter().any(full) {
            return Sent::Later;
        }
        for member in &reached {
            if let Some(port) = self.ports.get_mut(member) {
                port.push(Incoming::Message { from, bytes: message.to_vec() });
            }
        }
        Sent::Taken
    }
}

impl Port {
    fn push(&mut self, event: Incoming) {
        self.bytes += size(&event);
        self.queue.push_back(event);
        if !self.held && self.queue.len() == 1 {
            self.ring();
        }
    }

    fn ring(&self) {
        // A bell that is full of rings rings.
        let _ = (&self.bell).write(&[0]);
    }
}

fn size(event: &Incoming) -> usize {
    OVERHEAD + if let Incoming::Message { bytes, .. } = event { bytes.len() } else { 0 }
}

impl Local {
    fn gone(&self) -> TransportError {
        let what = format!("member {} has crashed, as it was told to", self.member);
        TransportError { what, passing: true }
    }

    /// Hears the bell no more, until it rings again.
    fn hush(&self) {
        let mut rings = [0; 64];
        loop {
            match (&self.bell).read(&mut rings) {
                Ok(n) if n == rings.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

impl Transport for Local {
    fn member(&self) -> Member {
        self.member
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.bell.as_fd()]
    }

    fn receive(&mut self, into: &mut Vec<Incoming>) -> Result<bool, TransportError> {
        let mut ring = self.hub.lock();
        let Some(port) = ring.ports.get_mut(&self.member).filter(|port| port.life == self.life)
        else {
            drop(ring);
            if let Some(connected) = self.connected.take() {
                into.push(Incoming::alone(self.member, &connected));
            }
            return Err(self.gone());
        };
        self.hush();
        if port.held {
            return Ok(false);
        }
        for _ in 0..MOST_AT_ONCE {
            let Some(event) = port.queue.pop_front() else { return Ok(false) };
            port.bytes -= size(&event);
            if let Incoming::Configuration { members, .. } = &event {
                self.connected = Some(members.clone());
            }
            into.push(event);
        }
        if !port.queue.is_empty() {
            port.ring();
        }
        Ok(!port.queue.is_empty())
    }

    fn send(&mut self, message: &[u8]) -> Result<Sent, TransportError> {
        TransportError::unless_short(message)?;
        let mut ring = self.hub.lock();
        if ring.ports.get(&self.member).is_none_or(|port| port.life != self.life) {
            return Err(self.gone());
        }
        if self.connected.is_none() {
            return Ok(Sent::Later);
        }
        Ok(ring.send(self.member, message))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let mut ring = self.hub.lock();
        if ring.ports.get(&self.member).is_some_and(|port| port.life == self.life) {
            ring.remove(self.member, true);
        }
    }
}

#[cfg(test)]
mod tests;
