//! Cost and survival of the group's clock, on a real Corosync ring in network namespaces.
//!
//! * [`latency`], [`messages`], [`skew`]: the paper's three experiments.
//! * [`read`]: what one reading costs, beside a bare round trip in the same run.
//! * [`failover`]: the campaign of fail-overs, what the programs record and the verifier.
//! * [`soak`]: rounds and memory over time.
//! * [`drift`]: the group's clock over simulated days.
//! * [`placement`]: which processors the Corosyncs have.
//! * [`bed`], [`service`], [`group_load`], [`wire`]: rings with agents, programs and captures.
//! * [`serve`], [`load`], [`bare`]: what runs at the nodes.
#![deny(unsafe_code)]

pub mod bare;
pub mod bed;
pub mod drift;
pub mod failover;
pub mod group_load;
pub mod latency;
pub mod load;
pub mod messages;
pub mod moment;
pub mod options;
pub mod placement;
pub mod read;
pub mod serve;
pub mod service;
pub mod skew;
pub mod soak;
pub mod wire;
