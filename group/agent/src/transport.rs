//! Carriers of a group's messages in one agreed order, which also say who is there.
//!
//! A [`Transport`] is one member's handle in one group. It never blocks: wait with poll(2) until
//! one of its [`descriptors`](Transport::descriptors) is readable, then
//! [`receive`](Transport::receive).
//!
//! What all of them give, and no more:
//! * *Agreed order*: messages and configuration changes come in the same order at all members
//!   that stay together, one's own messages included.
//! * *No primary component*: a part that is cut off goes on by itself, and its members keep
//!   getting each other's messages.
//! * *Not uniform*: a member that is cut off may get messages that no other member ever gets.

use std::error::Error;
use std::fmt;
use std::os::fd::BorrowedFd;

use truechimer_group::{Event, Member};

pub mod corosync;
pub mod local;

pub use corosync::Corosync;
pub use local::{Hub, Local};

/// One member's handle in one group. Dropping it leaves the group.
pub trait Transport: Send {
    /// Member that we are.
    fn member(&self) -> Member;

    /// Descriptors to wait for with poll(2): [`receive`](Transport::receive) when one is readable.
    /// They stay the same for the transport's life.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Takes note of what poll(2) made of the [`descriptors`](Transport::descriptors), so that the
    /// next [`receive`](Transport::receive) need not ask again. There may be others among them.
    fn polled(&mut self, _: &[libc::pollfd]) {}

    /// Appends what has come, in order, without waiting. At most [`MOST_AT_ONCE`]; what is left
    /// keeps a descriptor readable. Whether there may be more: what came first may be given alone,
    /// for it may be what a program waits for.
    ///
    /// # Errors
    /// After an error nothing comes any more: what has been appended is still valid, and ends
    /// with a configuration in which we are alone and all others are lost. Drop the transport,
    /// and where [`TransportError::passing`], open another after a while.
    fn receive(&mut self, into: &mut Vec<Incoming>) -> Result<bool, TransportError>;

    /// Sends a message to all, ourselves included; it counts only when it is received back.
    /// Before the first configuration has been received the answer is always [`Sent::Later`].
    ///
    /// # Errors
    /// As with [`receive`](Transport::receive); what was sent before may or may not arrive.
    fn send(&mut self, message: &[u8]) -> Result<Sent, TransportError>;
}

/// The most events that one [`Transport::receive`] appends, more or less.
pub const MOST_AT_ONCE: usize = 256;

/// The longest message that can be sent, bytes.
pub const LONGEST_MESSAGE: usize = 512 << 10;

/// Things that come from a transport.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// A message of the group's stream.
    Message {
        /// Sender.
        from: Member,
        /// Contents; anything, as far as the transport knows.
        bytes: Vec<u8>,
    },
    /// Members connected, from this place in the stream on.
    Configuration {
        /// Members, ourselves included, ascending.
        members: Vec<Member>,
        /// Members there until now and gone because their node or the network is; ascending. Not
        /// those whose process ended or left.
        lost: Vec<Member>,
    },
    /// Word of the layer below on whether this node is part of the majority.
    Quorum {
        /// Word on the quorum.
        quorate: bool,
    },
}

impl Incoming {
    /// Event as the engine takes it.
    #[must_use]
    pub fn event(&self) -> Event<'_> {
        match self {
            Incoming::Message { from, bytes } => Event::Delivered { from: *from, bytes },
            Incoming::Configuration { members, lost } => Event::Configuration { members, lost },
            Incoming::Quorum { quorate } => Event::Quorum { quorate: *quorate },
        }
    }

    /// Last configuration of a handle.
    fn alone(own: Member, connected: &[Member]) -> Incoming {
        let lost = connected.iter().copied().filter(|member| *member != own).collect();
        Incoming::Configuration { members: vec![own], lost }
    }
}

/// Fate of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// On its way.
    Taken,
    /// The transport is full: the same again after the next receive, or after a millisecond.
    Later,
}

/// Reason why a transport cannot be had, or no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportError {
    /// Fault found, and what to do about it.
    pub what: String,
    /// True if it may pass by itself (Corosync is being restarted, say), so that it is worth
    /// while to open the transport again after a second. Otherwise somebody has to mend something.
    pub passing: bool,
}

impl TransportError {
    fn unless_short(message: &[u8]) -> Result<(), TransportError> {
        if message.len() <= LONGEST_MESSAGE {
            return Ok(());
        }
        let what = format!(
            "a message of {} bytes: {LONGEST_MESSAGE} is the most; send it in parts",
            message.len()
        );
        Err(TransportError { what, passing: false })
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl Error for TransportError {}
