//! The group by an agent on this node: whether that is there.
#![allow(clippy::unwrap_used)]

#[path = "../../client/tests/common/mod.rs"]
mod common;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use common::{Mock, Order, Scratch, eventually};
use truechimer_group_client::{Options, Phase, Point, Replica};
use truechimer_group_front::{AgentRing, Ring, RingEvent};

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

#[test]
fn an_agent_that_stands_still_once_its_member_is_back_holds_up_nothing() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let mut ring = AgentRing::new(Replica::attach(&scratch.at()).unwrap());
    agent.order(Order::Miss);
    let mut polled =
        [libc::pollfd { fd: ring.descriptor().unwrap(), events: libc::POLLIN, revents: 0 }];
    eventually(|| {
        common::poll(&mut polled, 10);
        (polled[0].revents != 0).then_some(())
    });
    // It does not hear that what is missing is known.
    agent.manners.stands.store(true, Relaxed);
    assert_eq!(ring.next().unwrap(), Some(RingEvent::Phase(Phase::Joining)));
    assert_eq!(ring.descriptor(), None, "readable all the time, and nothing is read");
    let why = std::iter::repeat_with(|| turn(&mut ring)).find_map(Result::err).unwrap();
    assert!(why.contains("stands still: no sign of life for 3."), "{why}");
    // It goes on: so does what comes.
    agent.manners.stands.store(false, Relaxed);
    agent.order(Order::Phase(Phase::Outside));
    let next = eventually(|| ring.next().unwrap());
    assert_eq!(next, RingEvent::Phase(Phase::Outside));
    assert!(ring.descriptor().is_some());
}

#[test]
fn what_cannot_be_asked_of_a_silent_agent_ends_the_front_at_once() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let options = Options { silence: Some(Duration::from_millis(400)), ..Options::default() };
    let mut ring = AgentRing::new(Replica::attach_with(&scratch.at(), &options).unwrap());
    agent.manners.stands.store(true, Relaxed);
    let point = Point { generation: 1, index: 1 };
    let why = (0..100_000).find_map(|_| ring.commit(point).err()).unwrap();
    assert!(why.contains("stands still: no sign of life for 3."), "{why}");
    agent.manners.stands.store(false, Relaxed);
}
