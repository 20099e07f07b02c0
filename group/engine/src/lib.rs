//! One clock for a group of replicas: the Consistent Time Service of Zhao, Moser and
//! Melliar-Smith, as an engine without I/O.
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
mod membership;
mod message;
mod outgoing;
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
pub use event::{Action, Event, LARGEST_PAYLOAD, Notice, Refusal, Rejection};
pub use settings::{Group, LARGEST_UNIVERSE, LONGEST_NAME, Own, SettingsError};
pub use status::{MemberStatus, RECENT, Status, ThreadStatus};
pub use types::{
    Agreed, Bound, Call, GroupTime, Member, Mode, Order, Phase, Point, Reading, Round, Thread, Utc,
};
#[cfg(fuzzing)]
pub use wire::check as check_wire;

#[cfg(test)]
mod tests;
