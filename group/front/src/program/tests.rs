//! Tests of it: they count as the preloaded library does.

use super::*;
use std::ffi::CString;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use truechimer_group::Member;
use truechimer_group_client::delivery;

/// A page's file, the program's side of it, where that listens, and the front's side.
fn stage(name: &str, asked: bool) -> (PathBuf, Page, TcpListener, Program) {
    stage_with(name, asked, delivery::CLOCK)
}

pub(super) fn stage_with(
    name: &str,
    asked: bool,
    flags: u64,
) -> (PathBuf, Page, TcpListener, Program) {
    let name = format!("truechimer-front-{name}-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let path = CString::new(file.to_str().unwrap()).unwrap();
    let page = Page::create(&path, flags).unwrap();
    let theirs = Page::open(&path).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = Program::new(listener.local_addr().unwrap(), page, asked).unwrap();
    (file, theirs, listener, program)
}

#[test]
fn a_listener_is_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    assert!(Table::read().listens(at));
    drop(listener);
    // Another test's child may hold a copy until it becomes another program, and another test
    // may be given the same port for a moment.
    let gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !Table::read().listens(at)
    });
    assert!(gone);
}

/// This test counts as the preloaded library does, for a shell that sleeps.
#[test]
fn what_a_program_does_not_take_as_it_rests_is_left_for_later() {
    let (file, theirs, _listener, mut program) = stage("rests", false);
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
    theirs.attached(shell.id());
    let until_done = |program: &mut Program, begun: Instant, busy| {
        while !program.is_done(busy) {
            assert!(begun.elapsed() < Duration::from_secs(600), "{}", program.says(busy));
            program.wait(program.page().settles(), Duration::from_millis(1));
        }
        begun.elapsed()
    };
    let conn = Conn { member: Member(1), number: 1 };
    let begun = Instant::now();
    let busy = program.open(&[conn]).unwrap();
    let port = program.links[&conn].port;
    assert!(until_done(&mut program, begun, busy) >= TAKES + RESTS);
    assert!(program.troubles().is_some_and(|why| why.contains("for later")));
    let begun = Instant::now();
    let busy = program.give([(conn, b"request".into())]);
    assert!(until_done(&mut program, begun, busy) >= TAKES + RESTS);
    // Its client goes; the program has yet to take all of it.
    let busy = program.end(conn);
    until_done(&mut program, Instant::now(), busy);
    program.close(conn);
    assert_eq!((program.links.len(), program.leaving.len()), (0, 1));
    theirs.took_accept(port);
    theirs.took(port, 7);
    theirs.took_end(port);
    assert!(program.is_done(busy) && program.leaving.is_empty());
    assert_eq!(program.troubles(), None);
    // What is being worked on is not left, however long it takes.
    let busy = program.give([(conn, b"late".into())]);
    theirs.busy_up();
    std::thread::sleep(TAKES + RESTS);
    assert!(!program.is_done(busy) && !program.is_done(busy));
    shell.kill().unwrap();
    shell.wait().unwrap();
    fs::remove_file(file).unwrap();
}

/// A program accepts, or reads, and nothing tells of that.
#[test]
fn what_is_taken_unseen_is_found() {
    let (file, theirs, listener, mut program) = stage("unseen", false);
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
    theirs.attached(shell.id());
    let until_found = |program: &mut Program, busy| {
        let begun = Instant::now();
        while program.unfit().is_none() {
            assert!(!program.is_done(busy), "it cannot be seen");
            assert!(begun.elapsed() < Duration::from_secs(600));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(program.unfit().unwrap().contains("takes its input unseen"));
        assert!(!program.is_done(busy));
        program.forget();
        assert_eq!(program.unfit(), None);
        theirs.attached(shell.id());
    };
    let conn = Conn { member: Member(1), number: 1 };
    let busy = program.open(&[conn]).unwrap();
    let _accepted = listener.accept().unwrap();
    until_found(&mut program, busy);
    // Who accepts says that it works, and nothing more of what it does.
    for works in [false, true] {
        let busy = program.open(&[conn]).unwrap();
        let (mut stream, peer) = listener.accept().unwrap();
        theirs.took_accept(peer.port());
        if works {
            theirs.busy_up();
        }
        let begun = Instant::now();
        while !program.is_done(busy) {
            assert!(begun.elapsed() < Duration::from_secs(600));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!works || begun.elapsed() >= RESTLESS);
        let busy = program.give([(conn, b"request".into())]);
        // Not while it waits for more in one call.
        theirs.set_takes_all(peer.port(), true);
        stream.read_exact(&mut [0; 7]).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < 5 * RESTS {
            program.is_done(busy);
        }
        assert_eq!(program.unfit(), None);
        program.untaken.clear();
        theirs.set_takes_all(peer.port(), false);
        until_found(&mut program, busy);
    }
    shell.kill().unwrap();
    shell.wait().unwrap();
    fs::remove_file(file).unwrap();
}

/// A request that was handed on, by a program that sleeps and may do so for a moment only: it is done later if nothing has
/// been written, as whoever has it may be held up before.
#[test]
fn who_has_not_answered_is_given_longer() {
    let (file, theirs, listener, mut program) = stage("silent", false);
    let sleeps = || {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap()
    };
    let mut shells = [sleeps(), sleeps()];
    shells.iter().for_each(|shell| theirs.attached(shell.id()));
    let conn = Conn { member: Member(1), number: 1 };
    program.open(&[conn]).unwrap();
    let (mut stream, peer) = listener.accept().unwrap();
    theirs.took_accept(peer.port());
    for answers in [false, true] {
        let begun = Instant::now();
        let busy = program.give([(conn, b"request".into())]);
        stream.read_exact(&mut [0; 7]).unwrap();
        theirs.took(peer.port(), 7);
        theirs.hand_on();
        if answers {
            stream.write_all(b"reply").unwrap();
        }
        while !program.is_done(busy) {
            program.drain(|_, _, _| ());
            assert!(begun.elapsed() < Duration::from_secs(600));
            program.wait(program.page().settles(), Duration::from_millis(1));
        }
        assert!(answers || begun.elapsed() >= RESTS);
        assert_eq!(program.answered, answers);
    }
    for shell in &mut shells {
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
    fs::remove_file(file).unwrap();
}

/// Nobody accepts, and the queue of those to accept has room for one.
#[test]
fn connections_beyond_the_queue_hold_up_nothing_and_keep_their_order() {
    let (file, _theirs, listener, mut program) = stage("queue", false);
    rustix::net::listen(&listener, 0).unwrap();
    let conns = [1, 2, 3, 4].map(|number| Conn { member: Member(1), number });
    for conn in conns {
        assert_eq!(program.open(&[conn]).unwrap(), Busy::Accept);
    }
    assert!(program.links.values().any(|link| link.stage != Stage::Connected));
    // One that waits can be written to, and ended.
    program.give([(conns[3], b"later".into())]);
    program.end(conns[3]);
    program.drain(|conn, _, end| panic!("{conn}: {end:?}"));
    listener.set_nonblocking(true).unwrap();
    let mut accepted = Vec::new();
    while accepted.len() < conns.len() {
        program.push();
        match listener.accept() {
            Ok((stream, peer)) => accepted.push((stream, peer.port())),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let ports: Vec<u16> = accepted.iter().map(|(_, port)| *port).collect();
    let links: Vec<u16> = program.links.values().map(|link| link.port).collect();
    assert_eq!(ports, links);
    program.push();
    let mut text = String::new();
    accepted[3].0.set_nonblocking(false).unwrap();
    accepted[3].0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "later");
    fs::remove_file(file).unwrap();
}

/// More connections than are looked at in one go, of which the program accepts none: it rests, and so does the front.
#[test]
fn connections_that_wait_are_not_looked_at() {
    let (file, _theirs, listener, mut program) = stage("waiting", false);
    rustix::net::listen(&listener, 0).unwrap();
    for number in 1..=MOST_CAME as u32 + 44 {
        program.open(&[Conn { member: Member(1), number }]).unwrap();
    }
    let waits = program.links.values().filter(|link| link.stage == Stage::Waits).count();
    assert!(waits > MOST_CAME, "{waits}");
    let mut poll = sys::Poll::default();
    let at = poll.add(program.epoll.as_raw_fd(), true, false);
    poll.wait(Duration::ZERO);
    assert!(!poll.came(at), "one that waits is reported");
    program.drain(|conn, _, end| panic!("{conn}: {end:?}"));
    fs::remove_file(file).unwrap();
}

/// The program's side has Nagle's algorithm, as one that has turned it on again.
#[test]
fn what_a_program_writes_is_acknowledged_at_once() {
    let (file, _theirs, listener, mut program) = stage("quick", false);
    let conn = Conn { member: Member(1), number: 1 };
    program.open(&[conn]).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    for _ in 0..10 {
        program.give([(conn, b"request".into())]);
        stream.read_exact(&mut [0; 7]).unwrap();
        stream.write_all(b"reply").unwrap();
        let mut length = 0;
        while length < 5 {
            program.drain(|_, bytes, _| length += bytes.len());
        }
        assert!(sockopt::tcp_quickack(&program.links[&conn].stream).unwrap());
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn a_program_that_came_first_is_known() {
    let file = std::env::temp_dir().join(format!("truechimer-front-first-{}", std::process::id()));
    let path = CString::new(file.to_str().unwrap()).unwrap();
    let page = Page::create(&path, 1).unwrap();
    Page::open(&path).unwrap().attached(std::process::id());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = Program::new(listener.local_addr().unwrap(), page, false).unwrap();
    assert_eq!(program.page().processes(), Some(vec![std::process::id()]));
    fs::remove_file(file).unwrap();
}

/// This test is the program: it counts as the preloaded library does.
#[test]
fn done_is_taken_and_waiting() {
    let (file, theirs, listener, mut program) = stage("program", true);
    assert!(program.misses().unwrap().contains("group exec"));
    assert!(!program.is_asked_for());
    // No process has that number: nobody is seen to rest.
    theirs.attached(i32::MAX as u32);
    assert!(program.misses().unwrap().contains("not asked yet") && program.is_asked_for());
    program.set_ready(Err("it starts up".into()));
    assert!(program.misses().unwrap().contains("it starts up") && program.is_asked_for());
    program.set_ready(Ok(()));
    assert!(program.misses().is_none() && !program.is_asked_for());

    let conn = Conn { member: Member(1), number: 1 };
    let busy = program.open(&[conn]).unwrap();
    let (mut stream, peer) = listener.accept().unwrap();
    let port = peer.port();
    assert!(!program.is_done(busy));
    theirs.busy_up();
    theirs.took_accept(port);
    assert!(!program.is_done(busy), "it works");
    theirs.busy_down();
    assert!(program.is_done(busy));

    let busy = program.give([(conn, b"request".into())]);
    assert!(!program.is_done(busy));
    let mut buffer = [0; 7];
    stream.read_exact(&mut buffer).unwrap();
    theirs.busy_up();
    theirs.took(port, 6);
    theirs.busy_down();
    assert!(!program.is_done(busy), "a byte is missing");
    assert!(program.says(busy).contains("6 of 7 bytes"));
    theirs.busy_up();
    theirs.took(port, 1);
    stream.write_all(b"reply").unwrap();
    theirs.busy_down();
    assert!(program.is_done(busy));
    let mut all = Vec::new();
    program.drain(|from, bytes, end| all.push((from, bytes.to_vec(), end)));
    assert_eq!(all, [(conn, b"reply".to_vec(), End::Open)]);

    let busy = program.end(conn);
    assert!(!program.is_done(busy));
    theirs.took_end(port);
    assert!(program.is_done(busy));
    drop(stream);
    let mut ended = End::Open;
    while ended == End::Open {
        program.drain(|_, _, end| ended = end);
    }
    assert_eq!(ended, End::Finished);
    // To a connection that the program has closed nothing needs to come.
    let busy = program.give([(conn, b"late".into())]);
    assert!(program.is_done(busy));
    fs::remove_file(file).unwrap();
}

#[test]
fn a_program_that_is_started_anew_is_no_sleepless_one() {
    let (file, _theirs, _listener, mut program) = stage("anew", false);
    let begun = Instant::now();
    for after in [RESTS, RESTS + RESTLESS] {
        let turns = rest::Turns::new;
        program.sleep.is_done(begun + after, after, false, true, turns);
    }
    assert!(program.troubles().is_some_and(|why| why.contains("never sleeps")));
    program.forget();
    assert_eq!(program.troubles(), None);
    fs::remove_file(file).unwrap();
}
