//! One clock for a group of replicas: the Consistent Time Service of Zhao, Moser and
//! Melliar-Smith, as an engine without I/O.
//!
//! ```
//! use truechimer_group::{Engine, Group, Member, Own, Phase};
//!
//! let group = Group::new("bank", &[Member(1), Member(2), Member(3)]);
//! let engine = Engine::new(group, Own::new(Member(1), 1))?;
//! // More than half of the members have to be there.
//! assert_ne!(engine.phase(), Phase::Live);
//! # Ok::<(), truechimer_group::SettingsError>(())
//! ```
//!
//! Not here: sending and receiving (`truechimer-group-agent`), the order of messages itself (Corosync's, or the agent's own hub), and
//! programs (`truechimer-group-client`).
#![forbid(unsafe_code)]

mod catching;
mod causal;
mod checkpoints;
mod commit;
mod compared;
mod course;
mod digest;
mod engine;
mod event;
mod joining;
mod likeness;
mod membership;
mod message;
mod outgoing;
mod posts;
mod revival;
mod rounds;
mod settings;
mod stagger;
mod starts;
mod state;
mod status;
mod steer;
mod threads;
mod types;
mod view;
mod wire;

pub use digest::Digest;
pub use engine::Engine;
pub use event::{
    Action, Cause, Event, Handover, LARGEST_PAYLOAD, Notice, Refusal, Rejection, Unshifted,
};
pub use settings::{Group, LARGEST_UNIVERSE, LONGEST_NAME, Own, SettingsError};
pub use status::{Apart, MemberStatus, RECENT, Status, ThreadStatus};
pub use types::{
    Agreed, Bound, Call, Fence, GroupTime, Member, Mode, Order, Phase, Point, Post, Reading, Round,
    Thread, Utc,
};
#[cfg(fuzzing)]
pub use wire::check as check_wire;

#[cfg(test)]
mod tests;

/// Examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
