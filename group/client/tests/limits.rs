//! Limits: too much, and what must wait.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Mock, Order, Scratch, eventually};
use truechimer_group_client::agent::{Door, News, Request};
use truechimer_group_client::lineage::FIRST;
use truechimer_group_client::{
    Call, Event, LARGEST_CHECKPOINT, Phase, Refusal, Rejection, Replica, Round, SendError, Thread,
};

const SOON: Option<Duration> = Some(Duration::from_secs(60));

#[test]
fn no_read_overtakes_the_word_that_the_program_starts_anew() {
    let scratch = Scratch::new();
    let mut door = Door::open(scratch.settings()).unwrap();
    door.phase(Phase::Live);
    let (at, done) = (scratch.at(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let replica = Replica::attach(&at).unwrap();
            replica.restarted().unwrap();
            let read = replica.first_thread().now(Call::Group, SOON);
            assert!(read.is_err(), "{read:?}");
            done.store(true, Ordering::Relaxed);
        });
        let (mut requests, mut polled) = (Vec::new(), Vec::new());
        let mut turn = |door: &mut Door, sockets: bool, requests: &mut Vec<Request>| {
            polled.clear();
            if sockets {
                door.descriptors(&mut polled);
                polled.iter_mut().for_each(|one| one.revents = one.events & libc::POLLIN);
            }
            door.work(&polled, requests);
        };
        while !requests.iter().any(|request| matches!(request, Request::Attached { .. })) {
            turn(&mut door, true, &mut requests);
        }
        // An agent that has looked at its sockets just before sees the slots first.
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            turn(&mut door, false, &mut requests);
            std::thread::sleep(Duration::from_millis(1));
        }
        let until = Instant::now() + Duration::from_secs(60);
        let mut seen = Vec::new();
        while !done.load(Ordering::Relaxed) {
            assert!(Instant::now() < until, "it never ends: {seen:?}");
            for request in requests.drain(..) {
                match &request {
                    Request::Status { link } => {
                        door.send(*link, &News::Status("{}".to_owned()));
                    }
                    Request::Read { ticket, .. } => {
                        door.complete(*ticket, Err(Rejection::Busy));
                    }
                    _ => {}
                }
                seen.push(request);
            }
            turn(&mut door, true, &mut requests);
            std::thread::sleep(Duration::from_millis(1));
        }
        let place = |what: fn(&Request) -> bool| seen.iter().position(what).unwrap();
        let restarted = place(|request| matches!(request, Request::Restarted { .. }));
        let read = place(|request| matches!(request, Request::Read { .. }));
        assert!(restarted < read, "{seen:?}");
    });
}

#[test]
fn a_checkpoint_that_is_too_long_is_an_error_here_and_costs_nothing_else() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    let mut state = vec![7; LARGEST_CHECKPOINT + 1];
    let refused = replica.checkpoint(1, &state);
    assert!(matches!(refused, Err(SendError::TooLong { limit: LARGEST_CHECKPOINT, .. })));
    let threads = (0..=1 << 16).map(|n| (Thread(16 + n), Round(1))).collect();
    let refused = replica.checkpoint_at(2, b"short", threads);
    assert!(matches!(refused, Err(SendError::TooLong { .. })), "{refused:?}");
    replica.first_thread().now(Call::Group, SOON).unwrap();
    // The longest that there may be arrives.
    state.truncate(LARGEST_CHECKPOINT);
    replica.checkpoint_at(3, &state, vec![(FIRST, Round(1))]).unwrap();
    let made = agent.wait_for(|request| matches!(request, Request::Checkpoint { .. }));
    let Request::Checkpoint { join: 3, data, .. } = made else { panic!("another: {made:?}") };
    assert!(data == state);
    replica.first_thread().now(Call::Group, SOON).unwrap();
}

#[test]
fn who_is_given_a_checkpoint_is_not_cut_off_for_what_comes_with_it() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    settings.queue = 256 << 10;
    let agent = Mock::start(settings);
    let replica = Replica::attach(&scratch.at()).unwrap();
    let refused = |token| News::Refused { token, why: Refusal::TooMuch };
    let data = vec![3; 4 << 20];
    // More than the socket holds, so that something waits when the checkpoint comes.
    (0..500).for_each(|token| agent.order(Order::Send(refused(token))));
    let checkpoint = News::InstallCheckpoint { gap: 0, data: data.clone(), position: vec![] };
    agent.order(Order::Send(checkpoint));
    (500..1000).for_each(|token| agent.order(Order::Send(refused(token))));
    // A status is asked for over another connection: by then all of that was sent.
    let mut watcher = eventually(|| truechimer_group_client::Watcher::attach(&scratch.at()).ok());
    watcher.status(Duration::from_secs(60)).unwrap().unwrap();
    for expected in 0..1000 {
        if expected == 500 {
            let event = replica.next(SOON).unwrap().unwrap();
            assert!(matches!(event, Event::Install { data: came, .. } if came == data));
        }
        let event = replica.next(SOON).unwrap().unwrap();
        assert!(matches!(event, Event::Refused { token, .. } if token == expected), "{event:?}");
    }
}

#[test]
fn patience_without_end_is_none_that_overflows() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let options = truechimer_group_client::Options {
        patience: Some(Duration::MAX),
        wait_for_agent: Some(Duration::MAX),
        ..truechimer_group_client::Options::default()
    };
    let replica = Replica::attach_with(&scratch.at(), &options).unwrap();
    let value = replica.first_thread().now(Call::Group, Some(Duration::MAX)).unwrap();
    replica.commit(value.point, Some(Duration::MAX)).unwrap();
    assert!(replica.status(Duration::MAX).unwrap().is_some());
    replica.multicast(b"x").unwrap();
    assert!(replica.next(Some(Duration::MAX)).unwrap().is_some());
}
