//! Word of Corosync whether this node is part of the majority.

use std::os::fd::BorrowedFd;

use crate::error::{self, CorosyncError};

mod raw;

use raw::Handle;

/// A connection that follows the quorum.
#[derive(Debug)]
pub struct Quorum {
    handle: Handle,
}

/// Quorum as Corosync has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// True if this node is part of the majority.
    pub quorate: bool,
    /// The ring that this is about; grows with each.
    pub ring_sequence: u64,
    /// The nodes in it.
    pub nodes: Vec<u32>,
}

impl Quorum {
    /// Begins to follow it; the present state comes first. `None` where Corosync is set up without
    /// a quorum provider.
    ///
    /// # Errors
    /// Without the library, when Corosync does not run or does not let us in.
    pub fn follow() -> Result<Option<Quorum>, CorosyncError> {
        Ok(Handle::open()?.map(|handle| Quorum { handle }))
    }

    /// Readable when [`Quorum::dispatch`] has something, or an error.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.handle.descriptor()
    }

    /// Appends what has come, in order, without waiting: at most about `most` views. `false` when
    /// nothing was left.
    ///
    /// # Errors
    /// [`CorosyncError::Gone`] when Corosync has ended; what has been appended is valid.
    pub fn dispatch(&mut self, into: &mut Vec<View>, most: usize) -> Result<bool, CorosyncError> {
        for _ in 0..most {
            match self.handle.dispatch_one(into) {
                error::OK => {}
                error::ERR_TRY_AGAIN => return Ok(false),
                code => return error::checked("quorum_dispatch", code).map(|()| false),
            }
        }
        Ok(true)
    }
}
