//! One clock for a group of replicas: the Consistent Time Service of Zhao, Moser and
//! Melliar-Smith, as an engine without I/O.
#![forbid(unsafe_code)]

mod event;
mod settings;
mod types;

pub use event::{Action, Event, LARGEST_PAYLOAD, Notice, Refusal, Rejection};
pub use settings::{Group, LONGEST_NAME, Own};
pub use types::{
    Agreed, Bound, Call, GroupTime, Member, Mode, Order, Phase, Point, Reading, Round, Thread, Utc,
};
