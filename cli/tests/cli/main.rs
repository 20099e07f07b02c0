//! The command as a user has it: what it says, what it returns, and that the whole works.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod audit;
mod counters_costs;
mod counters_list;
mod errors;
mod group;
#[path = "../../../common/report/tests/support/headless.rs"]
mod headless;
mod help;
mod links;
mod live;
mod log;
mod pages;
mod stability;
mod support;
