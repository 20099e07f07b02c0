//! The group by an agent on this node: whether that is there.
#![allow(clippy::unwrap_used)]

#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use common::{Mock, Scratch};
use truechimer_group_client::Replica;
use truechimer_group_client::agent::Request;
use truechimer_group_front::{AgentRing, Ring};

/// One turn of a front.
fn turn(ring: &mut AgentRing) -> Result<(), String> {
    while ring.next()?.is_some() {}
    ring.look(Duration::from_millis(400))?;
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

#[test]
fn an_agent_that_answers_nothing_is_found_though_nothing_is_sent_to_it() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let mut ring = AgentRing::new(Replica::attach(&scratch.at()).unwrap());
    let asked = || {
        let requests = agent.requests.lock().unwrap();
        requests.iter().filter(|request| matches!(request, Request::Commit { .. })).count()
    };
    while asked() < 3 {
        turn(&mut ring).unwrap();
    }
    agent.manners.stands.store(true, Relaxed);
    let before = asked();
    let why = std::iter::repeat_with(|| turn(&mut ring)).find_map(Result::err).unwrap();
    assert!(why.contains("stands still: it has answered nothing for 0."), "{why}");
    assert!(asked() <= before + 1);
    agent.manners.stands.store(false, Relaxed);
}
