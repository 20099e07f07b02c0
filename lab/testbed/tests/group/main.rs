//! One clock for a group of replicas, on a real Corosync ring in network namespaces.
// What panics in a test fails it.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

mod agents;
mod corosync;
mod exec;
mod failover;
mod failures;
mod front;
mod hanging;
mod http;
mod members;
mod passive;
mod pools;
mod postgresql;
mod redis;
mod rounds;
mod services;
mod sizes;
mod soak;
mod strangers;
mod unlike;
