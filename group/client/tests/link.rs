//! Both sides in threads of one process.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use common::{LEASE, Mock, Order, Scratch, eventually, value};
use truechimer_group_client::agent::{Door, DoorError, News, Request};
use truechimer_group_client::lineage::{Kind, child};
use truechimer_group_client::link::{
    Address, Answer, As, How, Link, Outside, ReadError, Refused, Role, WhyRefused,
};
use truechimer_group_client::{
    AttachError, Call, Closed, CommitError, Event, Gone, Member, NextError, Options, Phase, Point,
    Refusal, Rejection, Replica, ReplyError, Round, SendError, Thread, ThreadClock, Watcher,
};

const SOON: Option<Duration> = Some(Duration::from_secs(60));
const FIRST: Thread = Thread::FIRST;

fn delivered(replica: &Replica) -> truechimer_group_client::Delivered {
    match replica.next(SOON).unwrap().unwrap() {
        Event::Delivered(delivered) => delivered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_read_their_rounds() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    assert_eq!(replica.attached().member, Member(3));
    assert_eq!(replica.phase(), Some(Phase::Live));
    std::thread::scope(|scope| {
        for i in 0..8 {
            let clock = replica.thread(child(FIRST, i, Kind::Thread));
            scope.spawn(move || {
                let mut last = 0;
                for round in 0..500 {
                    assert_eq!(clock.rounds(), Round(round));
                    let now = clock.now(Call::Group, None).unwrap();
                    assert_eq!(now, value(now.point.index as i64));
                    assert!(now.time.0 > last);
                    last = now.time.0;
                }
            });
        }
    });
    assert_eq!(replica.latest(), Some(value(8 * 500).time));
}

#[test]
fn errno_is_left_alone() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let address = Address::of(&agent.path).unwrap();
    let errno = || {
        // SAFETY: it is this thread's own.
        unsafe { &mut *libc::__errno_location() }
    };
    *errno() = 77;
    let link = Link::attach(&address, As::default()).unwrap();
    link.read(FIRST, Call::Group, &How::default()).unwrap();
    agent.manners.silent.store(true, Relaxed);
    let how = How { patience_ns: Some(1_000_000), ..How::default() };
    assert_eq!(link.read(FIRST, Call::Group, &how), Err(ReadError::Late));
    drop(link);
    assert!(matches!(
        Link::attach(&Address::of("/nowhere/s".as_ref()).unwrap(), As::default()),
        Err(Refused::NoAgent)
    ));
    assert_eq!(*errno(), 77);
}

#[test]
fn patience_ends_and_the_slot_is_given_back() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let address = Address::of(&agent.path).unwrap();
    let link = Link::attach(&address, As::default()).unwrap();
    agent.manners.silent.store(true, Relaxed);
    let how = How { patience_ns: Some(2_000_000), ..How::default() };
    for _ in 0..20 {
        assert_eq!(link.read(FIRST, Call::Time, &how), Err(ReadError::Late));
    }
    agent.wait_for(|request| matches!(request, Request::Abandon { thread: FIRST, .. }));
    eventually(|| (link.in_flight() == 0).then_some(()));
    agent.manners.silent.store(false, Relaxed);
    assert!(link.read(FIRST, Call::Time, &How::default()).is_ok());
}

#[test]
fn outside_reads_wait_or_fail_as_chosen() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    agent.order(Order::Phase(Phase::Outside));
    let Event::Phase(Phase::Outside) = replica.next(SOON).unwrap().unwrap() else { panic!() };
    assert_eq!(replica.phase(), Some(Phase::Outside));
    let clock = replica.first_thread();
    let late = clock.now(Call::Group, Some(Duration::from_millis(5)));
    assert_eq!(late, Err(ReadError::Late));
    let options = Options {
        role: Role::Reader,
        family: replica.family(),
        outside: Outside::Fail,
        ..Options::default()
    };
    let other = Replica::attach_with(&scratch.at(), &options).unwrap();
    let failed = other.first_thread().now(Call::Group, None);
    assert_eq!(failed, Err(ReadError::Rejected(Rejection::Outside)));
    let waiting = std::thread::spawn(move || clock.now(Call::Group, SOON));
    agent.wait_for(|r| matches!(r, Request::Read { outside: Outside::Wait, .. }));
    agent.order(Order::Phase(Phase::Live));
    assert!(waiting.join().unwrap().is_ok());
}

#[test]
fn a_message_brings_its_time_and_a_lease() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    for length in [0, 1, 40_000, truechimer_group::LARGEST_PAYLOAD] {
        let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let token = replica.multicast(&payload).unwrap();
        let mut message = delivered(&replica);
        assert_eq!((message.token, &message.payload), (token, &payload));
        assert_eq!((message.from, message.stamp), (Member(3), None));
        let first = message.time.time.0;
        for i in 0..=LEASE {
            let now = message.now().unwrap();
            assert_eq!((now.time.0, now.point), (first + i, message.time.point));
        }
        assert_eq!(message.point(), message.time.point);
        // Then a round.
        let after = message.now().unwrap();
        assert!(after.time.0 > message.lease_end && message.point() == after.point);
        assert_eq!(replica.latest(), Some(after.time));
    }
    let too_long = vec![0; truechimer_group::LARGEST_PAYLOAD + 1];
    assert!(matches!(replica.multicast(&too_long), Err(SendError::TooLong { .. })));
}

#[test]
fn messages_to_other_groups_carry_the_latest_time() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    let now = replica.first_thread().now(Call::Group, None).unwrap();
    assert!(matches!(replica.send_to("../x", b""), Err(SendError::Group(_))));
    replica.send_to("other", b"hello").unwrap();
    let sent = agent.wait_for(|request| matches!(request, Request::SendTo { .. }));
    let Request::SendTo { group, stamp, payload, .. } = sent else { panic!() };
    assert_eq!((group.as_str(), stamp, &*payload), ("other", now.time.0, &b"hello"[..]));
    assert_eq!(delivered(&replica).stamp, Some(stamp));
}

#[test]
fn replies_leave_only_when_a_majority_has_what_they_depend_on() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    replica.multicast(b"request").unwrap();
    let message = delivered(&replica);
    assert_eq!(replica.reply(&message, SOON, || Ok(5)).unwrap(), 5);
    let asked = agent.wait_for(|request| matches!(request, Request::Commit { .. }));
    assert!(matches!(asked, Request::Commit { point, .. } if point == message.point()));
    agent.manners.loses.store(true, Relaxed);
    let reply = replica.reply(&message, SOON, || -> std::io::Result<()> { panic!("it was sent") });
    assert!(matches!(reply, Err(ReplyError::Commit(CommitError::Lost))));
}

#[test]
fn one_that_takes_nothing_is_given_up_if_that_was_asked_for() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let options = Options { silence: Some(Duration::from_millis(300)), ..Options::default() };
    let replica = Replica::attach_with(&scratch.at(), &options).unwrap();
    // For a moment: what is sent then waits in the socket.
    agent.manners.stands.store(true, Relaxed);
    replica.multicast(b"first").unwrap();
    agent.manners.stands.store(false, Relaxed);
    assert_eq!(delivered(&replica).payload, b"first");
    agent.manners.stands.store(true, Relaxed);
    let beat = replica.beat();
    let why = (0..100_000).find_map(|_| replica.multicast(&[7; 1000]).err()).unwrap();
    assert!(matches!(why, SendError::Silent(span) if span >= Duration::from_secs(3)), "{why}");
    assert!(why.to_string().contains("stands still"), "{why}");
    // It is one silence, not another one for each that waits.
    let mut last = why;
    for again in 0..6 {
        let why = match again % 3 {
            0 => replica.restarted().unwrap_err(),
            _ => replica.multicast(&[7; 1000]).unwrap_err(),
        };
        let longer = match (&last, &why) {
            (SendError::Silent(last), SendError::Silent(span)) => span >= last,
            _ => false,
        };
        assert!(longer, "{why} after {last}");
        last = why;
    }
    // Nothing of that one has gone out: others may.
    agent.manners.stands.store(false, Relaxed);
    eventually(|| (replica.beat() > beat).then_some(()));
    replica.multicast(b"later").unwrap();
    while delivered(&replica).payload != b"later" {}
    // Of one in pieces the agent may have a part: nothing else goes after that.
    agent.manners.stands.store(true, Relaxed);
    let beat = replica.beat();
    let why = replica.checkpoint(1, &vec![7; 8 << 20]).unwrap_err();
    assert!(matches!(why, SendError::Silent(_)), "{why}");
    agent.manners.stands.store(false, Relaxed);
    eventually(|| (replica.beat() > beat).then_some(()));
    let why = replica.multicast(b"last").unwrap_err();
    assert!(matches!(why, SendError::Silent(_)), "{why}");
    drop(replica);
    eventually(|| Replica::attach(&scratch.at()).ok()).multicast(b"next").unwrap();
    let messages = |request: &Request| match request {
        Request::Multicast { payload, .. } => Some(payload.len()),
        _ => None,
    };
    agent.wait_for(|request| messages(request) == Some(4));
    let requests = agent.requests.lock().unwrap();
    let all: Vec<usize> = requests.iter().filter_map(messages).collect();
    assert!(all.iter().filter(|length| **length == 4).count() == 1, "{all:?}");
}

#[test]
fn whoever_starts_anew_does_not_wait_for_an_agent_that_stands() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let options = Options { silence: Some(Duration::from_millis(300)), ..Options::default() };
    let replica = Replica::attach_with(&scratch.at(), &options).unwrap();
    agent.order(Order::Miss);
    assert!(matches!(replica.next(SOON), Err(NextError::Missed)));
    agent.manners.stands.store(true, Relaxed);
    let why = replica.restarted().unwrap_err();
    assert!(matches!(why, SendError::Silent(span) if span >= Duration::from_secs(3)), "{why}");
    // Once the gap is settled it is the answer that does not come.
    agent.manners.stands.store(false, Relaxed);
    agent.order(Order::Phase(Phase::Outside));
    eventually(|| replica.next(SOON).ok().flatten());
    agent.manners.stands.store(true, Relaxed);
    let why = replica.restarted().unwrap_err();
    assert!(matches!(why, SendError::Silent(_)), "{why}");
    agent.manners.stands.store(false, Relaxed);
}

#[test]
fn commits_and_messages_do_not_wait_for_each_other() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for index in 0..200 {
                    replica.commit(Point { generation: 1, index }, SOON).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..500 {
                replica.multicast(&[7; 100]).unwrap();
            }
        });
        let tokens: Vec<u64> = (0..500).map(|_| delivered(&replica).token).collect();
        assert!(tokens.is_sorted());
    });
}

#[test]
fn what_was_missed_is_said_until_the_program_has_started_anew() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    let clock = replica.first_thread();
    let now = |clock: &ThreadClock| clock.now(Call::Group, SOON);
    now(&clock).unwrap();
    replica.multicast(b"before").unwrap();
    agent.wait_for(|request| matches!(request, Request::Multicast { .. }));
    agent.order(Order::Miss);
    agent.order(Order::Phase(Phase::Joining));
    // What came before comes still, and then no more.
    assert_eq!(delivered(&replica).payload, b"before");
    for _ in 0..3 {
        let why = replica.next(SOON).unwrap_err();
        assert!(matches!(why, NextError::Missed), "{why}");
        assert!(why.to_string().contains("start it anew"), "{why}");
        assert_eq!(now(&clock), Err(ReadError::Rejected(Rejection::Missed)));
        let point = Point { generation: 1, index: 1 };
        assert!(matches!(replica.commit(point, SOON), Err(CommitError::Missed)));
    }
    replica.restarted().unwrap();
    agent.order(Order::Phase(Phase::Live));
    for expected in [Phase::Joining, Phase::Live] {
        let event = replica.next(SOON).unwrap().unwrap();
        assert!(matches!(event, Event::Phase(phase) if phase == expected), "{event:?}");
    }
    now(&clock).unwrap();
    replica.commit(Point { generation: 1, index: 1 }, SOON).unwrap();

    // Each time anew; other processes of the program are told as well, another program is not.
    let as_ = Options { role: Role::Reader, family: replica.family(), ..Options::default() };
    let child = Replica::attach_with(&scratch.at(), &as_).unwrap();
    agent.order(Order::Miss);
    assert!(matches!(replica.next(SOON), Err(NextError::Missed)));
    let late = Replica::attach_with(&scratch.at(), &as_).unwrap();
    for replica in [&child, &late] {
        let result = now(&replica.first_thread());
        assert_eq!(result, Err(ReadError::Rejected(Rejection::Missed)));
    }
    let resumes = Options { outside: Outside::Resume, ..as_.clone() };
    let resumes = Replica::attach_with(&scratch.at(), &resumes).unwrap();
    now(&resumes.first_thread()).unwrap();
    now(&child.first_thread()).unwrap();
    agent.order(Order::Miss);
    assert!(matches!(replica.next(SOON), Err(NextError::Missed)));
    drop((replica, clock, child, late, resumes));
    let next = eventually(|| Replica::attach(&scratch.at()).ok());
    now(&next.first_thread()).unwrap();
}

#[test]
fn checkpoints_travel_with_their_positions() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    replica.first_thread().now(Call::Group, None).unwrap();
    let _unread = replica.thread(Thread(99));
    agent.order(Order::Send(News::TakeCheckpoint { join: 12 }));
    let Event::CheckpointWanted { join: 12 } = replica.next(SOON).unwrap().unwrap() else {
        panic!()
    };
    let state: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 253) as u8).collect();
    replica.checkpoint(12, &state).unwrap();
    let made = agent.wait_for(|request| matches!(request, Request::Checkpoint { .. }));
    let Request::Checkpoint { join: 12, data, position, .. } = made else { panic!() };
    assert_eq!((data, &*position), (state.clone(), &[(FIRST, Round(1))][..]));
    let position = vec![(FIRST, Round(8)), (Thread(99), Round(3))];
    let data = state.clone();
    agent.order(Order::Send(News::InstallCheckpoint { gap: 0, data, position: position.clone() }));
    let installed = replica.next(SOON).unwrap().unwrap();
    assert!(
        matches!(installed, Event::Install { data, position: at } if data == state && at == position)
    );
    assert_eq!(replica.first_thread().rounds(), Round(8));
    replica.installed().unwrap();
    agent.wait_for(|request| matches!(request, Request::Installed { .. }));
    replica.restarted().unwrap();
    agent.wait_for(|request| matches!(request, Request::Restarted { .. }));
    agent.order(Order::Send(News::Refused { token: 4, why: Refusal::TooMuch }));
    assert!(matches!(
        replica.next(SOON).unwrap().unwrap(),
        Event::Refused { token: 4, why: Refusal::TooMuch }
    ));
}

#[test]
fn the_status_is_told_to_anyone_who_asks() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    let mut watcher = Watcher::attach(&scratch.at()).unwrap();
    for _ in 0..3 {
        assert_eq!(watcher.status(SOON.unwrap()).unwrap().unwrap(), r#"{"mock":true}"#);
        assert_eq!(replica.status(SOON.unwrap()).unwrap().unwrap(), r#"{"mock":true}"#);
    }
}

#[test]
fn a_member_has_one_program_and_its_family() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let at = scratch.at();
    let replica = Replica::attach(&at).unwrap();
    let taken = |error| match error {
        AttachError::Refused {
            why: Refused::ByAgent { why: WhyRefused::Taken, process, .. },
            ..
        } => {
            assert_eq!(process, std::process::id());
        }
        other => panic!("{other:?}"),
    };
    taken(Replica::attach(&at).unwrap_err());
    let family = replica.family();
    taken(Replica::attach_with(&at, &Options { family, ..Options::default() }).unwrap_err());
    let reader = Options { role: Role::Reader, family, ..Options::default() };
    taken(
        Replica::attach_with(&at, &Options { family: family ^ 1, ..reader.clone() }).unwrap_err(),
    );
    let reader = Replica::attach_with(&at, &reader).unwrap();
    assert!(reader.first_thread().now(Call::Group, None).is_ok());
    assert!(matches!(reader.multicast(b""), Err(SendError::Role)));
    reader.commit(Point::default(), SOON).unwrap();
    drop(replica);
    agent.wait_for(|r| matches!(r, Request::Detached { role: Role::Program, last: false, .. }));
    drop(reader);
    agent.wait_for(|r| matches!(r, Request::Detached { role: Role::Reader, last: true, .. }));
    let next = Replica::attach(&at).unwrap();
    assert_ne!(next.family(), family);
}

#[test]
fn who_reads_in_passing_gives_way_to_a_program() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let at = scratch.at();
    let passing = |family| Options { role: Role::Passing, family, ..Options::default() };
    let waits = Replica::attach_with(&at, &passing(0)).unwrap();
    agent.manners.silent.store(true, Relaxed);
    let clock = waits.first_thread();
    let reading = std::thread::spawn(move || clock.now(Call::Group, None));
    agent.wait_for(|request| matches!(request, Request::Read { .. }));
    // Not to another such.
    let taken = Replica::attach_with(&at, &passing(0)).unwrap_err();
    assert!(taken.to_string().contains("has a program"), "{taken}");
    let program = Replica::attach(&at).unwrap();
    assert_eq!(reading.join().unwrap(), Err(ReadError::Gone));
    assert_eq!(waits.closed(), Some(Closed::GaveWay));
    agent.wait_for(|r| matches!(r, Request::Detached { role: Role::Passing, last: true, .. }));
    let started =
        |r: &Request| matches!(r, Request::Attached { role: Role::Program, new: true, .. });
    agent.wait_for(started);
    // Beside that program it stays, and another program is still refused.
    agent.manners.silent.store(false, Relaxed);
    let beside = Replica::attach_with(&at, &passing(program.family())).unwrap();
    Replica::attach(&at).unwrap_err();
    let reader = Options { role: Role::Reader, ..Options::default() };
    Replica::attach_with(&at, &reader).unwrap_err();
    beside.first_thread().now(Call::Group, SOON).unwrap();
    assert_eq!((program.closed(), beside.closed()), (None, None));
}

/// All the attachments that there may be are such that read in passing: they make room for a program.
#[test]
fn those_that_give_way_take_no_room() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    settings.links = 2;
    let _agent = Mock::start(settings);
    let at = scratch.at();
    let passing = |family| Options { role: Role::Passing, family, ..Options::default() };
    let one = Replica::attach_with(&at, &passing(0)).unwrap();
    let two = Replica::attach_with(&at, &passing(one.family())).unwrap();
    let full = Replica::attach_with(&at, &passing(one.family())).unwrap_err();
    assert!(full.to_string().contains("no more attachments"), "{full}");
    let program = Replica::attach(&at).unwrap();
    eventually(|| (one.closed() == Some(Closed::GaveWay)).then_some(()));
    eventually(|| (two.closed() == Some(Closed::GaveWay)).then_some(()));
    assert_eq!(program.closed(), None);
}

#[test]
fn an_agent_that_ends_is_noticed_at_once() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let replica = Replica::attach(&scratch.at()).unwrap();
    agent.manners.silent.store(true, Relaxed);
    let clock = replica.first_thread();
    let reading = std::thread::spawn(move || clock.now(Call::Group, None));
    agent.wait_for(|request| matches!(request, Request::Read { .. }));
    let path = agent.path.clone();
    drop(agent);
    assert_eq!(reading.join().unwrap(), Err(ReadError::Gone));
    assert!(matches!(replica.next(SOON), Err(NextError::Gone(Some(Closed::Ended)))));
    assert!(matches!(replica.multicast(b""), Err(SendError::Gone(_))));
    assert_eq!(replica.phase(), None);
    assert!(!common::exists(&path), "the socket stays behind");
    let error = Replica::attach(&scratch.at()).unwrap_err().to_string();
    assert!(error.contains("truechimer group agent --group g"), "{error}");
}

#[test]
fn a_program_may_wait_for_the_next_agent() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let options = Options { gone: Gone::WaitForNext, ..Options::default() };
    let replica = Replica::attach_with(&scratch.at(), &options).unwrap();
    let family = replica.family();
    let clock = replica.first_thread();
    clock.now(Call::Group, None).unwrap();
    agent.manners.silent.store(true, Relaxed);
    let late = clock.now(Call::Group, Some(Duration::from_millis(1)));
    assert_eq!(late, Err(ReadError::Late));
    let reading = std::thread::spawn(move || clock.now(Call::Group, None));
    drop(agent);
    std::thread::sleep(Duration::from_millis(20));
    let _agent = Mock::start(scratch.settings());
    assert!(reading.join().unwrap().is_ok());
    assert!(matches!(replica.next(SOON).unwrap().unwrap(), Event::NewAgent));
    assert_eq!(replica.family(), family);
    replica.multicast(b"again").unwrap();
    assert_eq!(delivered(&replica).payload, b"again");
}

#[test]
fn whoever_starts_first_waits_for_the_agent() {
    let scratch = Scratch::new();
    let at = scratch.at();
    let options = Options { wait_for_agent: SOON, ..Options::default() };
    let attaching = std::thread::spawn(move || Replica::attach_with(&at, &options));
    std::thread::sleep(Duration::from_millis(10));
    let _agent = Mock::start(scratch.settings());
    assert!(attaching.join().unwrap().is_ok());
}

#[test]
fn a_program_that_does_not_read_is_cut_off_and_told_why() {
    let scratch = Scratch::new();
    let agent = Mock::start(truechimer_group_client::agent::Settings {
        queue: 1 << 20,
        ..scratch.settings()
    });
    let replica = Replica::attach(&scratch.at()).unwrap();
    let news = News::Deliver {
        from: Member(1),
        token: 0,
        payload: vec![0; 100_000],
        time: value(1),
        lease_end: value(1).time.0,
        stamp: None,
    };
    for _ in 0..100 {
        agent.order(Order::Send(news.clone()));
    }
    let gone = agent.wait_for(|request| matches!(request, Request::Detached { .. }));
    assert!(matches!(gone, Request::Detached { why, .. } if why.contains("did not read")));
    // What was sent before is still there, in order; then comes the reason.
    let mut messages = 0;
    let why = loop {
        match replica.next(SOON) {
            Ok(Some(Event::Delivered(_))) => messages += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(messages > 0 && messages < 100, "{messages}");
    assert!(matches!(why, NextError::Gone(Some(Closed::Behind))), "{why}");
    // The member is free for another.
    drop(replica);
    assert!(Replica::attach(&scratch.at()).is_ok());
}

#[test]
fn whoever_is_cut_off_stays_so() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let options = Options { gone: Gone::WaitForNext, ..Options::default() };
    let replica = Replica::attach_with(&scratch.at(), &options).unwrap();
    agent.order(Order::CutOff);
    assert!(matches!(replica.next(SOON), Err(NextError::Gone(Some(Closed::CutOff)))));
    assert_eq!(replica.first_thread().now(Call::Group, None), Err(ReadError::Gone));
}

#[test]
fn sockets_that_are_left_behind_are_replaced_and_others_not() {
    let scratch = Scratch::new();
    let place = scratch.0.join("g");
    std::fs::create_dir(&place).unwrap();
    let path = place.join("3.sock");
    std::fs::write(&path, "mine").unwrap();
    let error = |settings| Door::open(settings).err().unwrap();
    assert!(matches!(error(scratch.settings()), DoorError::NotASocket(_)));
    std::fs::remove_file(&path).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let door = Door::open(scratch.settings()).unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // The directory is as the settings say, whatever it was.
    assert_eq!((mode(&path), mode(&place)), (0o600, 0o700));
    assert!(matches!(error(scratch.settings()), DoorError::Served(_)));
    drop(door);
    assert!(!common::exists(&path));
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(error(scratch.settings()), DoorError::Directory { .. }));
    let mut settings = scratch.settings();
    settings.group = "h".into();
    let _door = Door::open(settings.clone()).unwrap();
    assert_eq!(mode(&scratch.0.join("h")), 0o700);
    settings.group = "x".repeat(60);
    settings.directory = settings.directory.join("y".repeat(60));
    assert!(matches!(error(settings), DoorError::TooLong(_)));
}

/// A directory as a umask of 077 leaves it, or as other settings had it, is that of the settings.
#[test]
fn the_directory_admits_whom_the_socket_does() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let place = scratch.0.join("g");
    let mut settings = scratch.settings();
    drop(Door::open(settings.clone()).unwrap());
    let own = metadata("/proc/self").unwrap();
    let root = own.uid() == 0;
    let mode = |path| metadata(path).unwrap().mode() & 0o7777;
    for (permissions, wanted) in [(0o666, 0o755), (0o660, 0o754), (0o606, 0o705), (0o600, 0o700)] {
        settings.permissions = permissions;
        for before in [0o700, 0o1775] {
            set_permissions(&place, Permissions::from_mode(before)).unwrap();
            drop(Door::open(settings.clone()).unwrap());
            assert_eq!(mode(&place), wanted, "{permissions:o}");
        }
    }
    if root {
        (settings.owner, settings.permissions) = (Some(65_533), 0o600);
        drop(Door::open(settings.clone()).unwrap());
        assert_eq!(mode(&place), 0o705);
        // Without `link` again: nobody else's.
        (settings.owner, settings.access_group) = (None, Some(65_532));
        settings.permissions = 0o660;
        drop(Door::open(settings.clone()).unwrap());
        assert_eq!(metadata(&place).unwrap().gid(), 65_532);
        drop(Door::open(scratch.settings()).unwrap());
        assert_eq!((mode(&place), metadata(&place).unwrap().gid()), (0o700, own.gid()));
    }
}

/// Only root may give files away to users that it is not, so elsewhere only that it is refused.
#[test]
fn sockets_are_given_to_whom_the_settings_name() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    (settings.owner, settings.access_group) = (Some(65_533), Some(65_532));
    settings.permissions = 0o660;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        let why = Door::open(settings).err().unwrap().to_string();
        assert!(why.contains("cannot give away") && why.contains("only root may"), "{why}");
        return;
    }
    let (place, path) = (scratch.0.join("g"), scratch.0.join("g/3.sock"));
    for _ in 0..2 {
        let door = Door::open(settings.clone()).unwrap();
        let of = |path: &std::path::Path| {
            let there = std::fs::metadata(path).unwrap();
            (there.uid(), there.gid(), there.mode() & 0o7777)
        };
        assert_eq!(of(&path), (65_533, 65_532, 0o660));
        // The group may put a front's page there, and take nothing of others away.
        assert_eq!(of(&place), (0, 65_532, 0o1775));
        // As an agent leaves it that is killed.
        let again = scratch.0.join("aside");
        std::fs::rename(&path, &again).unwrap();
        drop(door);
        std::fs::rename(&again, &path).unwrap();
    }
}

/// Cost of a read through the link, for people: `cargo test … -- --ignored --nocapture`. The agent
/// answers at once; it sleeps whenever there is nothing to do, or never. The agent answers who has
/// rung before it silences the bell; silent it is before the agent sleeps.
#[test]
fn the_doorbell_is_silent_when_the_agent_sleeps() {
    let scratch = Scratch::new();
    let mut door = Door::open(scratch.settings()).unwrap();
    door.phase(Phase::Live);
    let address = Address::of(door.path()).unwrap();
    let reader = std::thread::spawn(move || {
        let link = Link::attach(&address, As::default()).unwrap();
        for _ in 0..3 {
            link.read(FIRST, Call::Group, &How::default()).unwrap();
        }
    });
    let (mut polled, mut requests, mut answered) = (Vec::new(), Vec::new(), 0);
    while answered < 3 {
        door.work(&polled, &mut requests);
        for request in requests.drain(..) {
            if let Request::Read { ticket, .. } = request {
                answered += 1;
                let answer = Answer { value: value(answered), round: Round(0) };
                assert!(door.complete(ticket, Ok(answer)));
            }
        }
        polled.clear();
        door.descriptors(&mut polled);
        if door.sleep() {
            common::poll(&mut polled, 20);
        }
        door.wake();
    }
    reader.join().unwrap();
    // Nobody rings any more; that the program has gone is heard as well.
    door.work(&polled, &mut requests);
    eventually(|| {
        polled.clear();
        door.descriptors(&mut polled);
        let asleep = door.sleep();
        common::poll(&mut polled, 0);
        door.wake();
        let loud = polled.iter().any(|one| one.revents != 0);
        door.work(&polled, &mut requests);
        (asleep && !loud).then_some(())
    });
}

/// Each side waits asleep, or awake, or awake for a while.
#[test]
fn reads_are_answered_however_both_sides_wait() {
    for (sleeps, spin) in [(true, 0), (true, 200), (true, 5000), (false, 0), (false, 5000)] {
        let scratch = Scratch::new();
        let mut door = Door::open(scratch.settings()).unwrap();
        let address = Address::of(door.path()).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut polled, mut requests, mut reads) = (Vec::new(), Vec::new(), 0);
                while !stop.load(Relaxed) {
                    door.work(&polled, &mut requests);
                    for request in requests.drain(..) {
                        if let Request::Read { ticket, .. } = request {
                            let answer = Answer { value: value(reads), round: Round(0) };
                            door.complete(ticket, Ok(answer));
                            reads += 1;
                        }
                    }
                    polled.clear();
                    door.descriptors(&mut polled);
                    if !sleeps && door.program().is_some() {
                        (0..100_000).any(|_| door.rung());
                        polled.clear();
                        continue;
                    }
                    if door.sleep() {
                        common::poll(&mut polled, 20);
                    }
                    door.wake();
                }
            });
            let link = Link::attach(&address, As::default()).unwrap();
            let how = How { spin, ..How::default() };
            for n in 0..2_000 {
                let answer = link.read(FIRST, Call::Group, &how);
                assert_eq!(answer.unwrap().value, value(n), "asleep {sleeps}, spin {spin}");
            }
            stop.store(true, Relaxed);
        });
    }
}
