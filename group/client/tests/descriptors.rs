//! An agent that has no descriptors left. A test of its own, as it changes a limit of the process.
#![allow(clippy::unwrap_used, unsafe_code)]

mod common;

use std::time::Duration;

use common::{Scratch, eventually};
use truechimer_group_client::agent::{Door, Request};
use truechimer_group_client::link::{Address, As, Link};

fn limit(soft: Option<u64>) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: places for a limit, read and written.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let before = limit.rlim_cur;
        if let Some(soft) = soft {
            limit.rlim_cur = soft;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
        before
    }
}

#[test]
fn whoever_comes_when_no_descriptors_are_left_waits_and_the_agent_does_not_spin() {
    let scratch = Scratch::new();
    let mut door = Door::open(scratch.settings()).unwrap();
    let address = Address::of(door.path()).unwrap();
    let coming = std::thread::spawn(move || Link::attach(&address, As::default()).map(drop));
    let (mut polled, mut requests) = (Vec::new(), Vec::new());
    let descriptors = |door: &Door| {
        let mut polled = Vec::new();
        door.descriptors(&mut polled);
        polled
    };
    let listener = descriptors(&door);
    assert_eq!(listener.len(), 1, "the listener, and nobody yet");
    let is_readable = |fd: i32| {
        let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd.
        (unsafe { libc::poll(&mut one, 1, 0) } == 1).then_some(one)
    };
    polled.push(eventually(|| is_readable(listener[0].fd)));
    let before = limit(Some(3));
    door.work(&polled, &mut requests);
    assert!(requests.is_empty());
    assert!(descriptors(&door).is_empty(), "it would be readable all the time");
    let patience = door.patience().unwrap();
    assert!(patience <= Duration::from_millis(100) && !patience.is_zero(), "{patience:?}");
    limit(Some(before));
    eventually(|| {
        polled = descriptors(&door);
        polled.iter_mut().for_each(|one| one.revents = one.events & libc::POLLIN);
        door.work(&polled, &mut requests);
        requests.iter().any(|request| matches!(request, Request::Attached { .. })).then_some(())
    });
    coming.join().unwrap().unwrap();
}
