//! One closed process group.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use crate::error::{self, CorosyncError};

mod raw;

use raw::Handle;

/// The longest name of a group, bytes.
pub const LONGEST_NAME: usize = raw::NAME_SIZE;

/// The most messages of one's own that are on their way. Corosync's library waits without end when
/// some 270 have not been fetched, as by a Corosync that was stopped by a signal.
const MOST_UNDER_WAY: usize = 64;

/// Membership in a group. Dropping it leaves the group.
///
/// Take no two threads to one handle: `&mut` sees to it.
#[derive(Debug)]
pub struct Cpg {
    handle: Handle,
    own: Process,
    /// Messages sent that have not come back.
    under_way: usize,
}

/// A process at a node; a group's members are such.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// The node's id in the ring.
    pub node: u32,
    /// The process id there.
    pub pid: u32,
}

/// Events of a group, in the same order at all members that stay together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message, one's own included.
    Delivered {
        /// Sender.
        from: Process,
        /// Contents.
        bytes: Vec<u8>,
    },
    /// Members of the group from here on.
    Configuration {
        /// All of them.
        members: Vec<Process>,
        /// Members so no more, and why.
        left: Vec<Gone>,
        /// Members so now and not before.
        joined: Vec<Process>,
    },
    /// The ring below has another shape from here on; a group's members may be the same.
    Ring(Ring),
}

/// A configuration of the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    /// The node that leads it.
    pub leader: u32,
    /// Grows with each.
    pub sequence: u64,
    /// The nodes in it.
    pub nodes: Vec<u32>,
}

/// A process that is no member any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone {
    /// Which.
    pub process: Process,
    /// Reason.
    pub reason: Reason,
}

/// Reason why a member left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// By its own will.
    Left,
    /// The process has ended.
    ProcessDown,
    /// The node is not in the ring any more.
    NodeDown,
    /// Something that the library does not say in a way that we know.
    Other(u32),
}

/// Fate of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// Corosync has it.
    Taken,
    /// Corosync's queue is full, the ring is being formed, or too many of our own messages have
    /// not come back: dispatch, and again a little later.
    TryAgain,
}

impl Cpg {
    /// Joins a group. Being in it begins with the first [`Event::Configuration`].
    ///
    /// # Errors
    /// When the name is empty or longer than [`LONGEST_NAME`], without the library, when Corosync
    /// does not run or does not let us in.
    pub fn join(name: &str) -> Result<Cpg, CorosyncError> {
        let mut cpg = Cpg::connect()?;
        cpg.enter(name)?;
        Ok(cpg)
    }

    /// A connection that is in no group yet: to look who is there before [`Cpg::enter`].
    ///
    /// # Errors
    /// Without the library, when Corosync does not run or does not let us in.
    pub fn connect() -> Result<Cpg, CorosyncError> {
        let handle = Handle::open()?;
        let own = Process { node: handle.local_node()?, pid: std::process::id() };
        Ok(Cpg { handle, own, under_way: 0 })
    }

    /// Joins a group; one for each connection.
    ///
    /// # Errors
    /// As [`Cpg::join`].
    pub fn enter(&mut self, name: &str) -> Result<(), CorosyncError> {
        self.handle.join(&raw::Name::new(name)?)
    }

    /// Members of a group, ours or another, by what this node knows now.
    ///
    /// # Errors
    /// As [`Cpg::join`].
    pub fn members(&mut self, name: &str) -> Result<Vec<Process>, CorosyncError> {
        self.handle.members(&raw::Name::new(name)?)
    }

    /// This node's id.
    #[must_use]
    pub fn local_node(&self) -> u32 {
        self.own.node
    }

    /// Readable when [`Cpg::dispatch`] has something, or an error.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.handle.descriptor()
    }

    /// Appends what has come, in order, without waiting: at most about `most` events. What is left
    /// keeps the descriptor readable. `false` when nothing was left.
    ///
    /// # Errors
    /// [`CorosyncError::Gone`] when Corosync has ended; what has been appended is valid.
    pub fn dispatch(
        &mut self,
        into: &mut VecDeque<Event>,
        most: usize,
    ) -> Result<bool, CorosyncError> {
        for _ in 0..most {
            let before = into.len();
            let code = self.handle.dispatch_one(into);
            let back = into.range(before..).filter(
                |event| matches!(event, Event::Delivered { from, .. } if *from == self.own),
            );
            self.under_way = self.under_way.saturating_sub(back.count());
            match code {
                error::OK => {}
                error::ERR_TRY_AGAIN => return Ok(false),
                code => return error::checked("cpg_dispatch", code).map(|()| false),
            }
        }
        Ok(true)
    }

    /// Sends a message to the group, ourselves included, in agreed order.
    ///
    /// # Errors
    /// [`CorosyncError::Gone`] when Corosync has ended.
    pub fn multicast(&mut self, message: &[u8]) -> Result<Sent, CorosyncError> {
        if self.under_way >= MOST_UNDER_WAY {
            return Ok(Sent::TryAgain);
        }
        match self.handle.multicast(message) {
            error::ERR_TRY_AGAIN => Ok(Sent::TryAgain),
            code => {
                error::checked("cpg_mcast_joined", code)?;
                self.under_way += 1;
                Ok(Sent::Taken)
            }
        }
    }
}
