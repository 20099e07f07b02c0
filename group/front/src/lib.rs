//! Replicates a program that serves TCP and knows nothing of it.
//!
//! A front runs beside the program on each member's node. Clients connect to any of the fronts.
//! What they send goes as messages through the group's order; each front feeds its own program the
//! same requests in the same order, one at a time (or, to one that answers from one event loop,
//! those of a message at once), and the clock that the program reads while it
//! works on one stands at the agreed time of its message's delivery. So replicas that are
//! deterministic otherwise give the same answers. The client has its answer from the front that it
//! is connected to, once a majority has the request and a majority of the programs the same answer;
//! a program that gives another one is out, and where no majority agrees all stop.
//!
//! Suited: a program whose answers depend on its requests and the time of day alone: an event loop,
//! a thread for each connection, a pool of threads. Not suited: programs in which one connection's
//! request waits for another's (locks), that draw random numbers, or act on timers of their own in
//! a way that answers show.
#![deny(unsafe_code)]

mod clients;
mod commands;
mod cut;
mod front;
mod mask;
mod order;
mod program;
mod record;
mod report;
mod rest;
mod ring;
mod streams;
mod sys;
mod transfer;
mod waker;
mod wire;

pub use clients::MOST_KEPT;
pub use commands::Commands;
pub use cut::Protocol;
pub use front::{Ended, Front, MOST_READERS, ReadOnly, Settings};
pub use order::{Conn, FrontId};
pub use report::{FrontReport, PeerReport, State};
pub use ring::{AgentRing, Committing, Ring, RingEvent};
