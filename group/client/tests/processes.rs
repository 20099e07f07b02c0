//! Programs and agents that are forked, killed and stopped.
//!
//! Agent and programs are this very program, started again with a role in its environment.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::env;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use common::{Engine, Mock, Scratch, eventually};
use truechimer_group::Member;
use truechimer_group_client::agent::{Door, Request, Settings};
use truechimer_group_client::lineage::{Kind, child};
use truechimer_group_client::link::{Address, As, How, Link, ReadError, Role};
use truechimer_group_client::{Call, Gone, Options, Replica, Thread, Where};

const ROLE: &str = "GROUP_CLIENT_TEST_ROLE";
const PLACE: &str = "GROUP_CLIENT_TEST_PLACE";
const FIRST: Thread = Thread::FIRST;

/// Plays the role of a started-again program. As an ordinary test it does nothing.
#[test]
fn role() {
    let Ok(role) = env::var(ROLE) else { return };
    let place = PathBuf::from(env::var_os(PLACE).unwrap());
    let at = Where { directory: Some(place.clone()), group: "g".into(), member: None };
    let link = |role| {
        let address = Address::of(&at.socket().unwrap()).unwrap();
        Link::attach(&address, As { role, ..As::default() }).unwrap()
    };
    match role.as_str() {
        "agent" => {
            let door = Door::open(Settings::new(place, "g", Member(3))).unwrap();
            let (_orders, theirs) = std::sync::mpsc::channel();
            let engine = Engine::new(door, Default::default(), Default::default(), theirs);
            engine.run(&AtomicBool::new(false));
        }
        // Reads in many threads until killed.
        "read" => {
            let link = link(Role::Program);
            std::thread::scope(|scope| {
                for i in 0..4 {
                    let link = &link;
                    scope.spawn(move || {
                        let thread = child(FIRST, i, Kind::Thread);
                        loop {
                            link.read(thread, Call::Group, &How::default()).unwrap();
                        }
                    });
                }
            });
        }
        // Forks a child that is killed in the middle of its read, and goes on reading.
        "fork" => forked(&link(Role::Reader)),
        "close" => closed(&link(Role::Reader)),
        role => panic!("no role '{role}'"),
    }
}

/// Each process of several reads by a number of its own; one of them is killed while it waits.
fn forked(link: &Link) {
    let read = |thread| link.read(thread, Call::Group, &How::default()).map(|_| ());
    read(FIRST).unwrap();
    let mut children = Vec::new();
    for i in 0..4 {
        // SAFETY: this process has one more thread, the test's, which holds nothing that the
        // child uses: a read allocates nothing and takes no lock.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let thread = child(FIRST, i, Kind::Process);
            let mut failed = false;
            for _ in 0..200 {
                failed |= read(thread).is_err();
            }
            // SAFETY: it ends this process at once.
            unsafe { libc::_exit(i32::from(failed)) };
        }
        children.push(pid);
    }
    for _ in 0..200 {
        read(FIRST).unwrap();
    }
    for pid in children {
        let mut status = -1;
        // SAFETY: a status that outlives the call.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(status, 0, "a child's reads failed");
    }
}

/// Acts as a program that closes all that it has not opened, and opens something else.
fn closed(link: &Link) {
    // SAFETY: numbers only; no other test runs in this process. A copy of the socket stays, as in
    // the parent of a forked daemon: without, the agent takes the program to have ended.
    unsafe {
        libc::dup2(link.socket(), 700);
        for number in 800..900 {
            libc::close(number);
        }
    }
    let file = std::fs::File::open("/dev/null").unwrap();
    for number in 800..900 {
        // SAFETY: as above.
        unsafe { libc::dup2(file.as_raw_fd(), number) };
    }
    for _ in 0..50 {
        link.read(FIRST, Call::Group, &How::default()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(link.stands());
}

/// A process that is killed with the test.
struct Started(Child);

impl Started {
    fn new(role: &str, place: &Path) -> Started {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "role", "--nocapture"]).env(ROLE, role).env(PLACE, place);
        Started(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Stops it, and waits until all its threads are.
    fn stop(&self) {
        let pid = self.0.id() as i32;
        let mut status = 0;
        // SAFETY: our own child, which has not been waited for; a status that outlives the call.
        unsafe {
            libc::kill(pid, libc::SIGSTOP);
            assert_eq!(libc::waitpid(pid, &raw mut status, libc::WUNTRACED), pid);
        }
        assert!(libc::WIFSTOPPED(status));
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_programs_leave_nothing_behind() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    for killed in 1..=10 {
        let program = Started::new("read", &scratch.0);
        let seen = || agent.requests.lock().unwrap().clone();
        let pid = program.0.id();
        eventually(|| {
            let link = seen().iter().find_map(|request| match request {
                Request::Attached { link, pid: theirs, .. } if *theirs == pid => Some(*link),
                _ => None,
            })?;
            seen()
                .iter()
                .any(|r| matches!(r, Request::Read { ticket, .. } if ticket.link() == link))
                .then_some(())
        });
        drop(program);
        eventually(|| {
            let ends = |r: &&Request| matches!(r, Request::Detached { last: true, .. });
            (seen().iter().filter(ends).count() == killed).then_some(())
        });
        agent.requests.lock().unwrap().retain(|r| !matches!(r, Request::Read { .. }));
    }
    assert!(Replica::attach(&scratch.at()).is_ok());
}

#[test]
fn children_read_by_numbers_of_their_own() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let mut program = Started::new("fork", &scratch.0);
    assert!(program.0.wait().unwrap().success());
}

#[test]
fn descriptors_may_be_closed_under_it() {
    let scratch = Scratch::new();
    let _agent = Mock::start(scratch.settings());
    let mut program = Started::new("close", &scratch.0);
    assert!(program.0.wait().unwrap().success());
}

#[test]
fn a_dead_childs_slot_is_taken_back() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let address = Address::of(&agent.path).unwrap();
    let link = Link::attach(&address, As::default()).unwrap();
    agent.manners.silent.store(true, Relaxed);
    // SAFETY: the child uses nothing that another thread may hold: a read takes no lock.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let _ = link.read(child(FIRST, 0, Kind::Process), Call::Group, &How::default());
        // SAFETY: it ends this process at once.
        unsafe { libc::_exit(0) };
    }
    agent.wait_for(|request| matches!(request, Request::Read { .. }));
    assert_eq!(link.in_flight(), 1);
    // SAFETY: our own child.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
    let thread = child(FIRST, 0, Kind::Process);
    agent.wait_for(|request| matches!(request, Request::Abandon { thread: t, .. } if *t == thread));
    eventually(|| (link.in_flight() == 0).then_some(()));
    agent.manners.silent.store(false, Relaxed);
    assert!(link.read(FIRST, Call::Group, &How::default()).is_ok());
}

fn attached(scratch: &Scratch, gone: Gone) -> Replica {
    let wait_for_agent = Some(Duration::from_secs(60));
    let options = Options { gone, wait_for_agent, ..Options::default() };
    Replica::attach_with(&scratch.at(), &options).unwrap()
}

#[test]
fn a_killed_agent_is_noticed() {
    let scratch = Scratch::new();
    let agent = Started::new("agent", &scratch.0);
    let replica = attached(&scratch, Gone::Fail);
    let clock = replica.first_thread();
    clock.now(Call::Group, None).unwrap();
    // A stopped agent is not gone: reads wait for it.
    agent.stop();
    let late = clock.now(Call::Group, Some(Duration::from_millis(300)));
    assert_eq!(late, Err(ReadError::Late));
    let reading = std::thread::spawn({
        let clock = replica.thread(child(FIRST, 0, Kind::Thread));
        move || clock.now(Call::Group, None)
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(agent);
    assert_eq!(reading.join().unwrap(), Err(ReadError::Gone));
    assert_eq!(clock.now(Call::Group, None), Err(ReadError::Gone));
    let error = Replica::attach(&scratch.at()).unwrap_err().to_string();
    assert!(error.contains("truechimer group agent"), "{error}");
}

#[test]
fn the_next_agent_takes_the_killed_ones_place() {
    let scratch = Scratch::new();
    let mut agent = Started::new("agent", &scratch.0);
    let replica = attached(&scratch, Gone::WaitForNext);
    for _ in 0..3 {
        let reading = std::thread::spawn({
            let clock = replica.first_thread();
            move || (0..3000).map(|_| clock.now(Call::Group, None)).find(Result::is_err)
        });
        std::thread::sleep(Duration::from_millis(10));
        drop(agent);
        agent = Started::new("agent", &scratch.0);
        assert_eq!(reading.join().unwrap(), None);
    }
}
