//! The link between the programs on a node and the node's agent, both sides of it.
//!
//! * [`Replica`]: what a program links that takes part in a group.
//! * [`link`]: the low level below it, for use where nothing may be allocated: signal handlers,
//!   preloaded libraries, children of a fork.
//! * [`agent`]: the other side, for the agent.
//! * [`lineage`]: how a program's threads get the numbers that they have at every replica.
//!
//! The memory and the messages between them are described byte by byte in `docs/group-link.md`.
#![deny(unsafe_code)]

pub mod agent;
pub mod delivery;
pub mod lineage;
pub mod link;
pub mod machine;
mod memory;
pub mod message;
pub mod packet;
mod place;
mod replica;
pub mod slots;
mod sys;
mod watch;

pub use memory::Closed;
pub use place::{
    PlaceError, SYSTEM, VARIABLE, Where, directories, directory_for_agent, members, socket_in,
    valid_group,
};
pub use replica::{
    AttachError, Attached, CommitError, Delivered, Event, Gone, NextError, Options, Replica,
    ReplyError, SendError, ThreadClock,
};
pub use truechimer_group::{
    Agreed, Bound, Call, GroupTime, Member, Mode, Order, Phase, Point, Refusal, Rejection, Round,
    Thread,
};
pub use watch::Watcher;
