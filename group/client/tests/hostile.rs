//! Programs that write whatever they like: the agent believes none of it, cuts them off, and goes
//! on with the others.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use common::{Mock, Scratch, eventually};
use proptest::prelude::*;
use truechimer_group_client::agent::{Door, Request};
use truechimer_group_client::link::{Address, As, Link, Role, Together};
use truechimer_group_client::message::{HELLO, Hello, greeting};
use truechimer_group_client::slots::{Control, State};
use truechimer_group_client::{Call, Replica, packet};

const SIZE: usize = 135_168;

fn hello(role: Role) -> [u8; HELLO] {
    Hello { version: 5, role, family: 0, together: Together::All }.packet()
}

/// A program that speaks to the agent by itself, by what the document says.
struct Raw {
    socket: OwnedFd,
    memory: *mut u8,
    doorbell: Option<OwnedFd>,
}

impl Raw {
    /// A connection that has said nothing yet.
    fn connect(path: &std::path::Path) -> Raw {
        // SAFETY: calls with numbers, and an address that outlives them.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as u16;
            let bytes = path.as_os_str().as_encoded_bytes();
            for (to, from) in address.sun_path.iter_mut().zip(bytes) {
                *to = *from as libc::c_char;
            }
            let length = size_of::<libc::sockaddr_un>() as u32;
            let limit = libc::timeval { tv_sec: 60, tv_usec: 0 };
            let (at, size) = ((&raw const limit).cast(), size_of::<libc::timeval>() as u32);
            libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, at, size);
            assert_eq!(libc::connect(socket, (&raw const address).cast(), length), 0);
            OwnedFd::from_raw_fd(socket)
        };
        Raw { socket, memory: ptr::null_mut(), doorbell: None }
    }

    /// An attached program.
    fn attach(path: &std::path::Path) -> Raw {
        let mut raw = Raw::connect(path);
        raw.send(&hello(Role::Program));
        let (packet, descriptors) = raw.receive();
        assert!(greeting(&packet).unwrap().is_ok());
        let [memory, doorbell] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
        // SAFETY: a new mapping of a file of that size, which is sealed.
        unsafe {
            assert_eq!(libc::ftruncate(memory.as_raw_fd(), 0), -1, "it can be shortened");
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let number = memory.as_raw_fd();
            let at = libc::mmap(ptr::null_mut(), SIZE, access, libc::MAP_SHARED, number, 0);
            assert_ne!(at, libc::MAP_FAILED);
            raw.memory = at.cast();
        }
        raw.doorbell = Some(doorbell);
        raw
    }

    fn send(&self, packet: &[u8]) -> bool {
        let number = self.socket.as_raw_fd();
        // SAFETY: a buffer of that length.
        let sent =
            unsafe { libc::send(number, packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL) };
        sent == packet.len() as isize
    }

    /// The next packet, empty at the end, and the descriptors that came with it.
    fn receive(&self) -> (Vec<u8>, Vec<OwnedFd>) {
        let mut packet = vec![0_u8; 40_000];
        let mut control = [0_u64; 8];
        // SAFETY: all buffers outlive the call, and their lengths are right; descriptors follow
        // the header of 16 bytes, as many as its length says.
        unsafe {
            let mut part =
                libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let length = libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0);
            packet.truncate(length.max(0) as usize);
            // Where nothing came, that length is still the room there was.
            let came = if length > 0 { message.msg_controllen as usize } else { 0 };
            let count = came.saturating_sub(16) / 4;
            let numbers = control.as_ptr().cast::<i32>().add(4);
            let descriptors =
                (0..count.min(2)).map(|i| OwnedFd::from_raw_fd(*numbers.add(i))).collect();
            (packet, descriptors)
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < SIZE);
        // SAFETY: within the mapping, aligned, and shared as an atomic.
        unsafe { &*self.memory.add(at).cast() }
    }

    /// Slot `index`'s words: control, thread, call.
    fn ask(&self, index: usize, words: [u64; 3]) {
        let at = 4096 + index * 128;
        for (i, word) in words.iter().enumerate().rev() {
            self.word(at + i * 8).store(*word, SeqCst);
        }
        self.word(256 + index / 64 * 8).fetch_or(1 << (index % 64), SeqCst);
        self.ring();
    }

    fn ring(&self) {
        let number = self.doorbell.as_ref().unwrap().as_raw_fd();
        // SAFETY: eight bytes.
        unsafe { libc::write(number, (&raw const ONE).cast(), 8) };
    }

    /// True if the agent has closed the connection.
    fn is_cut_off(&self) -> bool {
        eventually(|| self.receive().0.is_empty().then_some(true))
    }
}

static ONE: u64 = 1;

impl Drop for Raw {
    fn drop(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: our own mapping of that size.
            unsafe { libc::munmap(self.memory.cast(), SIZE) };
        }
    }
}

fn pending(serial: u32) -> u64 {
    Control::new(State::Pending, serial, std::process::id()).0
}

/// True if the agent still serves who behaves.
fn serves(scratch: &Scratch) -> bool {
    eventually(|| Replica::attach(&scratch.at()).ok()).first_thread().now(Call::Group, None).is_ok()
}

#[test]
fn the_document_suffices_to_read() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let raw = Raw::attach(&agent.path);
    raw.ask(1023, [pending(1), 16, 0]);
    let at = 4096 + 1023 * 128;
    eventually(|| (raw.word(at).load(SeqCst) & 7 == 4).then_some(()));
    // The answer: no error, round 0, and the time.
    assert_eq!([64, 72].map(|i| raw.word(at + i).load(SeqCst)), [0, 0]);
    assert_eq!(raw.word(at + 80).load(SeqCst) as i64, common::value(1).time.0);
}

#[test]
fn requests_that_cannot_be_are_foul() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    for words in [[pending(1), 15, 0], [pending(1), 16, 8], [pending(1), 16, 0x300]] {
        let raw = Raw::attach(&agent.path);
        raw.ask(3, words);
        assert!(raw.is_cut_off());
        assert_eq!(raw.word(392).load(SeqCst), 3, "it is not told why");
        drop(raw);
        assert!(serves(&scratch));
    }
    let raw = Raw::attach(&agent.path);
    agent.manners.silent.store(true, SeqCst);
    agent.requests.lock().unwrap().clear();
    raw.ask(3, [pending(1), 16, 0]);
    agent.wait_for(|request| matches!(request, Request::Read { .. }));
    raw.ask(3, [pending(2), 16, 0]);
    assert!(raw.is_cut_off(), "a slot was used anew while in work");
    agent.manners.silent.store(false, SeqCst);
    agent.wait_for(|request| matches!(request, Request::Abandon { .. }));
    drop(raw);
    assert!(serves(&scratch));
}

#[test]
fn packets_that_cannot_be_are_foul() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let mut long = packet::header(2, 0, 40_000 - 8).to_vec();
    long.resize(40_000, 0);
    let wrong: [&[u8]; 6] = [
        &[0],
        &packet::header(2, 0, 1),
        &packet::header(99, 0, 0),
        &packet::header(8, 2, 0),
        &packet::header(2, 1, 0),
        &long,
    ];
    for packet in wrong {
        let raw = Raw::attach(&agent.path);
        assert!(raw.send(packet));
        assert!(raw.is_cut_off(), "{packet:?}");
        drop(raw);
        assert!(serves(&scratch));
    }
    // A message without an end.
    let raw = Raw::attach(&agent.path);
    let mut part = packet::header(2, packet::MORE, 30_000).to_vec();
    part.resize(30_008, 0);
    let sent = (0..1000).take_while(|_| raw.send(&part)).count();
    assert!(sent < 100, "{sent} parts were taken");
    assert!(raw.is_cut_off());
    drop(raw);
    assert!(serves(&scratch));
}

#[test]
fn who_gives_no_checkpoints_gets_no_room_for_one() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    for role in [Role::Reader, Role::Watcher] {
        let raw = Raw::connect(&agent.path);
        raw.send(&hello(role));
        assert!(greeting(&raw.receive().0).unwrap().is_ok());
        let mut part = packet::header(5, packet::MORE, 30_000).to_vec();
        part.resize(30_008, 0);
        let sent = (0..1000).take_while(|_| raw.send(&part)).count();
        assert!(sent < 100, "{sent} parts were taken");
        assert!(raw.is_cut_off());
    }
    assert!(serves(&scratch));
}

#[test]
fn greetings_that_cannot_be_are_refused() {
    let scratch = Scratch::new();
    let agent = Mock::start(scratch.settings());
    let good = hello(Role::Program);
    for i in [0, 4, 8, 18, 20] {
        let mut wrong = good;
        wrong[i] ^= 0x40;
        let raw = Raw::connect(&agent.path);
        assert!(raw.send(&wrong));
        assert!(raw.receive().0.is_empty(), "byte {i}");
    }
    // Of another version, whatever else it says: told which this is.
    let mut later = packet::header(1, 0, 92).to_vec();
    later.extend_from_slice(&good[8..16]);
    later.extend_from_slice(&[7, 0]);
    later.resize(100, 0xff);
    let raw = Raw::connect(&agent.path);
    assert!(raw.send(&later) && HELLO < later.len());
    let answer = greeting(&raw.receive().0).unwrap().unwrap_err();
    assert_eq!((answer.0 as u8, answer.1), (1, 5));
    // Who says nothing holds nobody up.
    let _mute: Vec<Raw> = (0..8).map(|_| Raw::connect(&agent.path)).collect();
    assert!(serves(&scratch));
}

/// A program has missed something and ended, and the next one has gone before it was let in.
#[test]
fn who_has_gone_before_it_was_let_in_changes_nothing() {
    let scratch = Scratch::new();
    let mut door = Door::open(scratch.settings()).unwrap();
    let (mut polled, mut requests) = (Vec::new(), Vec::new());
    let mut turn = |door: &mut Door, until: fn(&Request) -> bool| {
        eventually(|| {
            polled.clear();
            door.descriptors(&mut polled);
            common::poll(&mut polled, 10);
            door.work(&polled, &mut requests);
            requests.drain(..).any(|request| until(&request)).then_some(())
        });
    };
    let program = Raw::connect(door.path());
    assert!(program.send(&hello(Role::Program)));
    turn(&mut door, |request| matches!(request, Request::Attached { new: true, .. }));
    assert_eq!(door.miss(), 1);
    drop(program);
    turn(&mut door, |request| matches!(request, Request::Detached { last: true, .. }));
    let next = Raw::connect(door.path());
    assert!(next.send(&hello(Role::Program)));
    drop(next);
    // Let in, and heard.
    let all = door.opened() + 2;
    eventually(|| {
        let (mut polled, mut requests) = (Vec::new(), Vec::new());
        door.descriptors(&mut polled);
        common::poll(&mut polled, 10);
        door.work(&polled, &mut requests);
        assert!(requests.is_empty(), "{requests:?}");
        (door.opened() == all).then_some(())
    });
    assert_eq!(door.missed(), Some(1));
}

#[test]
fn agents_that_cannot_be_are_refused() {
    let scratch = Scratch::new();
    let path = scratch.0.join("s");
    let address = Address::of(&path).unwrap();
    // SAFETY: calls with numbers, and an address that outlives them.
    let listener = unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0);
        let mut at: libc::sockaddr_un = std::mem::zeroed();
        at.sun_family = libc::AF_UNIX as u16;
        for (to, from) in at.sun_path.iter_mut().zip(path.as_os_str().as_encoded_bytes()) {
            *to = *from as libc::c_char;
        }
        let length = size_of::<libc::sockaddr_un>() as u32;
        assert_eq!(libc::bind(socket, (&raw const at).cast(), length), 0);
        assert_eq!(libc::listen(socket, 4), 0);
        OwnedFd::from_raw_fd(socket)
    };
    let answers: [&[u8]; 4] = [
        b"",
        b"nonsense",
        // A welcome without the memory.
        &[65, 0, 0, 0, 16, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        // One of another version.
        &[65, 0, 0, 0, 16, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ];
    for answer in answers {
        let attaching = std::thread::spawn(move || Link::attach(&address, As::default()).err());
        // SAFETY: no address is asked for.
        let raw = unsafe {
            let number = libc::accept(listener.as_raw_fd(), ptr::null_mut(), ptr::null_mut());
            Raw { socket: OwnedFd::from_raw_fd(number), memory: ptr::null_mut(), doorbell: None }
        };
        assert_eq!(raw.receive().0.len(), HELLO);
        if !answer.is_empty() {
            assert!(raw.send(answer));
        }
        drop(raw);
        let refused = attaching.join().unwrap();
        assert!(refused.is_some(), "{answer:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    /// Whatever a program writes anywhere, the agent goes on, and answers those who behave.
    #[test]
    fn any_words_anywhere(writes in prop::collection::vec((any::<u16>(), any::<u64>()), 1..200)) {
        let scratch = Scratch::new();
        let agent = Mock::start(scratch.settings());
        let raw = Raw::attach(&agent.path);
        for (at, value) in writes {
            // Mostly slots, with control words of states that there are.
            let at = usize::from(at) % (SIZE / 8) * 8;
            let is_control = at >= 4096 && at.is_multiple_of(128);
            let value = if is_control { (value & !7) | (value % 7) } else { value };
            raw.word(at).store(value, SeqCst);
            if at >= 4096 {
                let index = (at - 4096) / 128;
                raw.word(256 + index / 64 * 8).fetch_or(1 << (index % 64), SeqCst);
            }
            raw.ring();
        }
        drop(raw);
        prop_assert!(serves(&scratch));
    }
}
