//! One closed process group.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use crate::error::{self, CorosyncError};

mod raw;

use raw::Handle;

/// The longest name of a group, bytes.
pub const LONGEST_NAME: usize = raw::NAME_SIZE;

/// Membership in a group. Dropping it leaves the group.
///
/// Take no two threads to one handle: `&mut` sees to it.
#[derive(Debug)]
pub struct Cpg {
    handle: Handle,
    local_node: u32,
}

/// A process at a node; a group's members are such.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// The node's id in the ring.
    pub node: u32,
    /// The process id there.
    pub pid: u32,
}

/// What comes of a group, in the same order at all members that stay together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A message, one's own included.
    Delivered {
        /// Who sent it.
        from: Process,
        /// What it says.
        bytes: Vec<u8>,
    },
    /// Who is in the group from here on.
    Configuration {
        /// All of them.
        members: Vec<Process>,
        /// Who is so no more, and why.
        left: Vec<Gone>,
        /// Who is so now and was not before.
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
    /// Why.
    pub reason: Reason,
}

/// Why a member left.
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

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// Corosync has it.
    Taken,
    /// Corosync's queue is full, or the ring is being formed: again a little later.
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
        let local_node = handle.local_node()?;
        Ok(Cpg { handle, local_node })
    }

    /// Joins a group; one for each connection.
    ///
    /// # Errors
    /// As [`Cpg::join`].
    pub fn enter(&mut self, name: &str) -> Result<(), CorosyncError> {
        self.handle.join(&raw::Name::new(name)?)
    }

    /// Who is in a group, ours or another, by what this node knows now.
    ///
    /// # Errors
    /// As [`Cpg::join`].
    pub fn members(&mut self, name: &str) -> Result<Vec<Process>, CorosyncError> {
        self.handle.members(&raw::Name::new(name)?)
    }

    /// This node's id.
    #[must_use]
    pub fn local_node(&self) -> u32 {
        self.local_node
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
            match self.handle.dispatch_one(into) {
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
        match self.handle.multicast(message) {
            error::ERR_TRY_AGAIN => Ok(Sent::TryAgain),
            code => error::checked("cpg_mcast_joined", code).map(|()| Sent::Taken),
        }
    }
}
