//! The group by an agent on this node: whether that is there.
#![allow(clippy::unwrap_used)]

#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common::{Mock, Scratch};
use truechimer_group_client::Replica;
use truechimer_group_front::{AgentRing, Ring};

/// One turn of a front.
fn turn(ring: &mut AgentRing) -> Result<(), String> {
    while ring.next()?.is_some() {}
    ring.look(Duration::from_millis(400))?;
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

#[test]
fn an_agent_that_shows_no_life_is_found_though_nothing_is_sent_to_it() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let mut ring = AgentRing::new(Replica::attach(&scratch.at()).unwrap());
    // Nothing comes of it, and it is well.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        turn(&mut ring).unwrap();
    }
    agent.manners.stands.store(true, Relaxed);
    let why = std::iter::repeat_with(|| turn(&mut ring)).find_map(Result::err).unwrap();
    assert!(why.contains("stands still: no sign of life for 3."), "{why}");
    agent.manners.stands.store(false, Relaxed);
}
