//! The program as a user has it: what it says, what it returns, and that the whole works.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod bench;
#[path = "../../../../common/report/tests/support/headless.rs"]
mod headless;
mod help;
mod replay;
mod simulate;
#[allow(dead_code)] // It serves the tests of `truechimer` as well.
#[path = "../../../../cli/tests/cli/support.rs"]
mod support;
