//! The link between the programs on a node and the node's agent, both sides of it.
//!
//! * [`Replica`]: what a program links that takes part in a group.
//! * [`link`]: the low level below it, for use where nothing may be allocated: signal handlers,
//!   preloaded libraries, children of a fork.
//! * [`agent`]: the other side, for the agent.
//! * [`lineage`]: how a program's threads get the numbers that they have at every replica.
//!
//! A service whose replicas give the same answers, in a group of one here, with an agent that has
//! no group behind it ([`agent`] shows the loop of one that has):
//!
//! ```
//! # use truechimer_group_client::agent::{Door, News, Request, Settings};
//! # use truechimer_group_client::{Agreed, GroupTime, Member, Phase, Point};
//! # let directory = std::env::temp_dir().join(format!("truechimer-doc-{}", std::process::id()));
//! # let mut door = Door::open(Settings::new(directory.clone(), "bank", Member(1)))?;
//! # door.phase(Phase::Live);
//! # let agent = std::thread::spawn(move || {
//! #     let mut requests = Vec::new();
//! #     loop {
//! #         let mut polled = Vec::new();
//! #         door.descriptors(&mut polled);
//! #         for one in &mut polled { one.revents = one.events & 1; }
//! #         door.work(&polled, &mut requests);
//! #         for request in requests.drain(..) {
//! #             match request {
//! #                 Request::Multicast { link, token, payload } => {
//! #                     let point = Point { generation: 1, index: 1 };
//! #                     let (time, synchronizer) = (GroupTime(1_700_000_000_000_000_000), Member(1));
//! #                     let time = Agreed { time, utc: None, synchronizer, point };
//! #                     let (from, lease_end, stamp) = (Member(1), time.time.0 + 1000, None);
//! #                     door.send(link, &News::Deliver { from, token, payload, time, lease_end, stamp });
//! #                 }
//! #                 Request::Commit { link, token, .. } => {
//! #                     door.send(link, &News::Committed { token });
//! #                 }
//! #                 Request::Detached { .. } => return,
//! #                 _ => {}
//! #             }
//! #         }
//! #         std::thread::sleep(std::time::Duration::from_millis(1));
//! #     }
//! # });
//! # fn answer_to(payload: &[u8], now: GroupTime) -> String { format!("{} {}", payload.len(), now.0) }
//! # let mut client: Vec<u8> = Vec::new();
//! # let place = truechimer_group_client::Where { directory: Some(directory.clone()), ..truechimer_group_client::Where::group("bank") };
//! use std::io::Write;
//! use truechimer_group_client::{Event, Replica};
//!
//! // `Where::group("bank")` finds the agent on this node in the usual places.
//! let replica = Replica::attach(&place)?;
//! // A request goes through the group's order, so that all replicas get it, at one time.
//! replica.multicast(b"what is the time?")?;
//! if let Some(Event::Delivered(mut request)) = replica.next(None)? {
//!     let now = request.now()?.time;
//!     let answer = answer_to(&request.payload, now);
//!     // It leaves the group once a majority has what it depends on.
//!     replica.reply(&request, None, || client.write_all(answer.as_bytes()))?;
//! }
//! # assert_eq!(client, b"17 1700000000000000000");
//! # drop(replica);
//! # agent.join().unwrap();
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a read outside the primary component does, and what when the agent goes, is the program's
//! choice ([`Options`]); none of the choices makes a time up.
//!
//! A member that comes back, and cannot be sure that the others have not gone on without it, has a
//! *gap*. Its program's state is no longer the others'. So all reads ([`Rejection::Missed`]),
//! messages ([`NextError::Missed`]) and commits ([`CommitError::Missed`]) fail until the program
//! has started anew: with a new attachment, from a checkpoint ([`Replica::installed`]), or, if it
//! has no state, by saying so ([`Replica::restarted`]).
//!
//! The memory and the messages between them are described byte by byte in `docs/reference/group-link.md`.
#![deny(unsafe_code)]

pub mod agent;
pub mod delivery;
mod lead;
pub mod lineage;
pub mod link;
pub mod machine;
mod memory;
pub mod message;
pub mod packet;
mod place;
mod replica;
mod silence;
pub mod slots;
mod sys;
mod watch;

/// The largest checkpoint that a program can give, bytes: 64 MiB.
pub const LARGEST_CHECKPOINT: usize = 64 << 20;

pub use lead::Lead;
pub use memory::{Began, Closed};
pub use place::{
    PlaceError, SYSTEM, VARIABLE, Where, directories, directory_for_agent, members, socket_in,
    valid_group,
};
pub use replica::{
    AttachError, Attached, CommitError, Committing, Delivered, Event, Gone, NextError, Options,
    Replica, ReplyError, SendError, ThreadClock,
};
pub use silence::Silence;
pub use truechimer_group::{
    Agreed, Bound, Call, Cause, GroupTime, Handover, Member, Mode, Order, Phase, Point, Post,
    Refusal, Rejection, Round, Thread, Unshifted,
};
pub use watch::Watcher;

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
