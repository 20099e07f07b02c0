//! Unmodified programs under the library, with real doors of agents before a group of the test's.

mod agent;
mod births;
mod calls;
mod commands;
mod front;
mod loops;
mod replicas;
mod signals;
mod stage;
mod trouble;
mod waits;
