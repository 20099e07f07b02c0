//! The whole stack as its users have it: the built command, real servers, real packets.
//!
//! Every test has its own servers, daemons, page and, where it needs one, network, so that all run
//! side by side. No figure of time decides by itself: a clock is right if the truth, read before
//! and after it, is within what it promised, however late the scheduler was; and how tight a
//! promise must be is relative to the round trip of the same minute.
// What panics in a test fails it.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

mod accept;
mod asymmetry;
mod audit;
mod bed;
mod capture;
mod choice;
mod clockbound;
mod compare;
mod creep;
mod embedded;
mod follow;
mod hostile;
mod keys;
mod life;
mod metrics;
mod microcontroller;
mod moved;
mod nts;
mod page;
mod pods;
mod pool;
mod pps;
mod probe;
mod ptp;
mod refclocks;
mod relay;
mod replay;
mod sandbox;
mod serve;
mod strict;
mod warp;

use std::time::Duration;

use serde_json::Value;
use truechimer_testbed::daemon::Daemon;
use truechimer_testbed::watch::{Sample, Watch, median};

/// When a clock must be at its best, after the daemon's start.
const SETTLED: Duration = Duration::from_secs(60);
/// Allowance beside the path and the server: stamps, queues, drift.
const ALLOWANCE_NS: i64 = 25_000;

/// A number in a JSON object.
fn number(object: &Value, name: &str) -> i64 {
    object[name].as_i64().unwrap_or_else(|| panic!("no number `{name}` in {object:#}"))
}

/// From `settled` after the start on, half of all bounds must be within half of the least round
/// trip + 25 µs + the server's root distance.
fn assert_tight(watch: &Watch, daemon: &Daemon, settled: Duration) {
    let source = daemon.source();
    let floor = number(&source, "rtt_floor_ns");
    let limit = floor / 2 + ALLOWANCE_NS + number(&source, "root_distance_ns");
    let bound = median(watch.since(settled).iter().map(Sample::bound_ns));
    println!(
        "median bound {bound} ns once settled, {limit} ns allowed, least round trip {floor} ns"
    );
    assert!(watch.since(settled).len() > 100, "hardly watched");
    assert!(bound <= limit, "the bound is loose: {bound} ns, allowed {limit} ns\n{source:#}");
}

/// Requests and replies must be stamped by the kernel.
fn assert_kernel_stamps(daemon: &Daemon) {
    let source = daemon.source();
    for stamp in ["sent_stamp", "received_stamp"] {
        assert_eq!(source[stamp], "kernel", "{source:#}");
    }
    println!(
        "kernel stamps both ways, to ± {} and ± {} ns",
        number(&source, "sent_stamp_error_ns"),
        number(&source, "received_stamp_error_ns")
    );
}
