//! Corosync's closed process groups (CPG) and quorum, by its libraries loaded at run time: the
//! build needs nothing of Corosync.
//!
//! * [`Cpg`]: one group, its messages in one order at all members, and who they are.
//! * [`Quorum`]: whether Corosync takes this node to be part of the majority.
//! * [`nodes`]: the ring's nodes by its configuration.
//!
//! No call waits for other nodes; opening a handle waits for the local Corosync.
//!
//! Not here: configuration of a ring, and anything of Corosync's beside these three.
#![deny(unsafe_code)]

mod cpg;
mod error;
mod library;
mod nodes;
mod quorum;

pub use cpg::{Cpg, Event, Gone, LONGEST_NAME, Process, Reason, Ring, Sent};
pub use error::CorosyncError;
pub use nodes::{Node, nodes};
pub use quorum::{Quorum, View};
