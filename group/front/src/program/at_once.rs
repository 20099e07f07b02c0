//! Openings and requests that a program gets at once: several connections' if one event loop of it reads them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use truechimer_group_client::delivery::Taken;

use super::{Busy, Link, Program};
use crate::order::Conn;

/// The longest request that is given at once with others, bytes: far less than the kernel takes without waiting.
const MOST_TOGETHER: usize = 16 << 10;

impl Program {
    /// Number of these requests, from the first on, that it may be given at once: several only if all their connections
    /// are read by its one event loop, so that each replica's program finds the same at one look; and of each connection
    /// one, so that the order is that in which they would be done one at a time.
    pub fn takes(&self, requests: impl Iterator<Item = (Conn, usize)>) -> usize {
        if !self.leaves_nothing() {
            return 1;
        }
        let mut seen = BTreeSet::new();
        let fits = |(conn, length): &(Conn, usize)| {
            // One that it has ended gets nothing any more.
            let live = self.links.get(conn).is_some_and(Link::is_live);
            *length <= MOST_TOGETHER && live && self.is_looped(*conn) && seen.insert(*conn)
        };
        requests.take_while(fits).count().max(1)
    }

    /// Reason why nothing may be asked of it beside the order, in words: a connection or a request more could change what
    /// becomes of the others'.
    pub fn not_beside(&self) -> Option<&'static str> {
        if !self.page.is_loop() {
            Some("it is not said to answer from one event loop (--event-loop)")
        } else if self.page.has_several() {
            Some("several of its threads take input")
        } else if self.page.has_come_partly() {
            Some("what it was given at once did not come whole")
        } else if !self.untaken.is_empty() {
            Some("it rests and leaves a connection for later")
        } else {
            None
        }
    }

    /// True if its one event loop, by the operator's word, reads that connection.
    pub(super) fn is_looped(&self, conn: Conn) -> bool {
        self.taken_by_loop(conn).is_some_and(|taken| taken.looped)
    }

    /// True if the thread of its one event loop, by the operator's word, has accepted that connection.
    pub(super) fn is_loops(&self, conn: Conn) -> bool {
        self.taken_by_loop(conn).is_some_and(|taken| taken.by_looper)
    }

    /// State of that connection where one event loop takes all input.
    fn taken_by_loop(&self, conn: Conn) -> Option<Taken> {
        let link = self.links.get(&conn).filter(|_| self.is_one_loop())?;
        Some(self.page.taken(link.port))
    }

    /// True if one event loop of it takes all input, by the operator's word, and nothing speaks against it.
    fn is_one_loop(&self) -> bool {
        self.page.is_loop() && !self.page.has_several() && !self.page.has_come_partly()
    }

    /// Number of openings of so many that it may be given at once: several only to one event loop that leaves nothing for
    /// later, so that each replica's finds the same at one look.
    pub fn takes_openings(&self, many: usize) -> usize {
        if self.is_one_loop() && self.leaves_nothing() { many } else { 1 }
    }

    /// True if it has taken all that it was given before.
    fn leaves_nothing(&self) -> bool {
        self.untaken.is_empty() && self.leaving.is_empty()
    }

    /// Gives it requests.
    pub fn give(&mut self, requests: impl IntoIterator<Item = (Conn, Vec<u8>)>) -> Busy {
        self.begin();
        self.given.clear();
        self.answered = false;
        for (conn, bytes) in requests {
            self.given.push(conn);
            if let Some(link) = self.links.get_mut(&conn) {
                link.sent += bytes.len() as u64;
                link.out.extend(bytes);
            }
        }
        self.at_once = self.given.len() > 1;
        // Of one that is refused now its end tells.
        let _ = self.write();
        Busy::Requests
    }

    /// Writes what is for it, and connects what is to be connected. What it is to be given at once it gets whole, or later.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if !self.at_once {
            return self.write_now();
        }
        let live = |conn| self.links.get(conn).filter(|link| link.is_live());
        let ports = self.given.iter().filter_map(live).map(|link| (link.port, link.sent));
        let (page, ports) = (Arc::clone(&self.page), ports.collect::<Vec<(u16, u64)>>());
        let mut connected = Ok(());
        if page.give_at_once(&ports, || connected = self.write_now()) {
            self.at_once = false;
        }
        connected
    }

    fn write_now(&mut self) -> io::Result<()> {
        let connected = if self.waits { self.connect() } else { Ok(()) };
        for conn in &self.given {
            if let Some(link) = self.links.get_mut(conn) {
                link.push();
                self.waits |= link.waits();
            }
        }
        connected
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::net::Shutdown;

    use truechimer_group::Member;
    use truechimer_group_client::delivery;

    use super::super::Stage;
    use super::super::tests::stage_with;
    use super::*;

    /// Requests of these connections, of so many bytes.
    fn requests(of: &[(u32, usize)]) -> impl Iterator<Item = (Conn, usize)> {
        of.iter().map(|(number, length)| (Conn { member: Member(1), number: *number }, *length))
    }

    #[test]
    fn many_are_given_at_once_to_a_loop_only() {
        for (flags, most) in [(delivery::CLOCK, 1), (delivery::CLOCK | delivery::LOOP, 4)] {
            let (file, theirs, listener, mut program) = stage_with("takes", false, flags);
            // Something sleeps beside it: it is done as soon as nobody works, unless a thread has woken another.
            let mut streams = Vec::new();
            for number in 1..=5 {
                program.open(&[Conn { member: Member(1), number }]).unwrap();
                program.push();
                let (stream, peer) = listener.accept().unwrap();
                theirs.took_accept(peer.port());
                // The last one is edge-triggered, say.
                theirs.set_looped(peer.port(), number < 5);
                streams.push((stream, peer.port()));
            }
            let takes = |of: &[(u32, usize)]| program.takes(requests(of));
            assert_eq!(takes(&[(1, 1), (2, 1), (4, 1), (3, 1), (1, 1)]), most, "one of each");
            assert_eq!(takes(&[(5, 1), (1, 1)]), 1);
            assert_eq!(takes(&[(1, 1), (5, 1)]), 1);
            assert_eq!(takes(&[(1, MOST_TOGETHER + 1), (2, 1)]), 1);
            assert_eq!(takes(&[(9, 1), (1, 1)]), 1, "there is no such connection");
            // The program has shut down its side of the third one.
            streams[2].0.shutdown(Shutdown::Write).unwrap();
            while program.links.values().filter(|link| link.ended).count() == 0 {
                program.drain(|_, _, _| ());
            }
            let takes = |of: &[(u32, usize)]| program.takes(requests(of));
            assert_eq!(takes(&[(3, 1), (1, 1), (2, 1)]), 1, "it gets nothing any more");
            assert_eq!(takes(&[(1, 1), (2, 1), (3, 1)]), most.min(2));
            if most > 1 {
                assert_eq!(takes(&[(1, MOST_TOGETHER), (2, MOST_TOGETHER), (5, 1)]), 2);
                assert!(theirs.loops(7));
                assert_eq!(takes(&[(1, 1), (2, 1)]), 2);
                assert_eq!(program.not_beside(), None);
                theirs.came_partly();
                assert!(program.not_beside().unwrap().contains("whole"));
                assert_eq!(takes(&[(1, 1), (2, 1)]), 1);
                assert!(program.troubles().unwrap().contains("SO_RCVBUF"));
                theirs.loops(8);
                program.page.forget_program();
                assert!(theirs.loops(7) && !theirs.loops(8), "several take input");
                assert_eq!(program.takes(requests(&[(1, 1), (2, 1)])), 1);
                assert!(program.not_beside().unwrap().contains("several"));
            } else {
                assert!(program.not_beside().unwrap().contains("--event-loop"));
            }
            fs::remove_file(file).unwrap();
        }
    }

    /// Openings, as many as there are, come before the program looks, in their order. Its thread has taken them, so that it
    /// is of no matter whether another was woken: this test never sleeps.
    #[test]
    fn openings_of_a_loop_are_given_at_once_and_need_no_rest() {
        for (flags, most) in [(delivery::CLOCK, 1), (delivery::CLOCK | delivery::LOOP, 3)] {
            let (file, theirs, listener, mut program) = stage_with("opens", false, flags);
            theirs.attached(std::process::id());
            assert_eq!(program.takes_openings(3), most);
            let conns = [1, 2, 3].map(|number| Conn { member: Member(1), number });
            let conns = &conns[..most];
            let busy = theirs.look(|| {
                let busy = program.open(conns).unwrap();
                if most > 1 {
                    program.push();
                    let connected = |link: &Link| link.stage == Stage::Connected;
                    assert!(!program.links.values().any(connected), "it looks");
                }
                busy
            });
            program.push();
            for conn in conns {
                assert!(!program.is_done(busy), "one is not accepted yet");
                let (_, peer) = listener.accept().unwrap();
                assert_eq!(peer.port(), program.links[conn].port);
                theirs.looper_took_accept(peer.port());
            }
            theirs.hand_on();
            assert_eq!(program.is_done(busy), most > 1);
            let busy = program.end(conns[0]);
            theirs.took_end(program.links[&conns[0]].port);
            theirs.hand_on();
            assert_eq!(program.is_done(busy), most > 1);
            if most > 1 {
                // A second thread has taken input: one at a time from now on.
                assert!(theirs.loops(7) && !theirs.loops(8));
                assert_eq!((program.takes_openings(3), program.is_done(busy)), (1, false));
            }
            fs::remove_file(file).unwrap();
        }
    }

    /// Where nobody listens nothing is left of them.
    #[test]
    fn openings_that_are_refused_leave_nothing() {
        let (file, _theirs, listener, mut program) =
            stage_with("refused", false, delivery::CLOCK | delivery::LOOP);
        drop(listener);
        let conns = [1, 2].map(|number| Conn { member: Member(1), number });
        assert!(program.open(&conns).is_err());
        assert!(program.links.is_empty() && program.given.is_empty() && !program.at_once);
        fs::remove_file(file).unwrap();
    }

    /// The program is stopped while it looks: it gets all of it when it goes on, and others' after that.
    #[test]
    fn what_is_given_at_once_is_given_whole() {
        let flags = delivery::CLOCK | delivery::LOOP;
        let (file, theirs, listener, mut program) = stage_with("whole", false, flags);
        theirs.attached(std::process::id());
        let conns = [1, 2].map(|number| Conn { member: Member(1), number });
        let mut streams = Vec::new();
        for conn in conns {
            program.open(&[conn]).unwrap();
            program.push();
            let (stream, peer) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            theirs.took_accept(peer.port());
            theirs.set_looped(peer.port(), true);
            streams.push((stream, peer.port()));
        }
        let busy = theirs.look(|| {
            let busy = program.give(conns.map(|conn| (conn, b"ask".into())));
            program.push();
            let came = streams.iter_mut().any(|(stream, _)| stream.read(&mut [0; 9]).is_ok());
            assert!(!came && !program.is_done(busy));
            busy
        });
        program.push();
        let ports: Vec<(u16, u64)> = streams.iter().map(|(_, port)| (*port, 3)).collect();
        assert!(theirs.at_once().eq(ports));
        for (stream, port) in &mut streams {
            stream.set_nonblocking(false).unwrap();
            stream.read_exact(&mut [0; 3]).unwrap();
            theirs.took(*port, 3);
        }
        // A thread has woken another, which is of no matter for a loop's requests, but for others'.
        theirs.hand_on();
        assert!(program.is_done(busy));
        theirs.set_looped(streams[0].1, false);
        assert!(!program.is_done(busy), "this test does not sleep");
        // It shuts down its side of one while it is stopped, which gets nothing any more.
        theirs.look(|| {
            program.give(conns.map(|conn| (conn, b"ask".into())));
            streams[1].0.shutdown(Shutdown::Write).unwrap();
            while !program.links[&conns[1]].ended {
                program.drain(|_, _, _| ());
            }
        });
        program.push();
        assert!(theirs.at_once().eq([(streams[0].1, 6)]));
        fs::remove_file(file).unwrap();
    }
}
