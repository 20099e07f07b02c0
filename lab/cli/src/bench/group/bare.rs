//! A bare round trip: one's own message back in the group's order, by nothing but Corosync.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use truechimer_corosync::{Cpg, Event, Sent};
use truechimer_outcome::outcome::Failure;

/// The process group's name.
const NAME: &str = "truechimer-bare";
/// Bytes of a proposal, about.
const SIZE: usize = 96;
/// Time that one may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process group of its own.
#[derive(Debug)]
pub struct Bare {
    cpg: Cpg,
    events: VecDeque<Event>,
    /// Number of the newest message that was sent, and of the newest that has come.
    sent: u64,
    come: u64,
}

impl Bare {
    /// Joins it.
    ///
    /// # Errors
    /// Where Corosync does not let us in.
    pub fn join() -> Result<Bare, Failure> {
        let cpg = Cpg::join(NAME).map_err(|e| Failure::of("Corosync", e))?;
        Ok(Bare { cpg, events: VecDeque::new(), sent: 0, come: 0 })
    }

    /// Waits until the process group has so many members.
    ///
    /// # Errors
    /// Where Corosync fails, or they do not come.
    pub fn wait_for(&mut self, members: usize) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            let there = self.cpg.members(NAME).map_err(|e| Failure::of("Corosync", e))?;
            if there.len() >= members {
                return Ok(());
            }
            if Instant::now() > end {
                let all = there.len();
                return Err(Failure(format!("{all} of {members} are there for bare round trips")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Receives what the others send, until the process is ended.
    ///
    /// # Errors
    /// Where Corosync fails.
    pub fn listen(&mut self) -> Result<(), Failure> {
        loop {
            self.wait();
            self.cpg.dispatch(&mut self.events, 64).map_err(|e| Failure::of("Corosync", e))?;
            self.events.clear();
        }
    }

    /// One round trip, one in flight; how long it took.
    ///
    /// # Errors
    /// Where Corosync fails.
    pub fn round_trip(&mut self) -> Result<Duration, Failure> {
        self.sent += 1;
        let mut message = [0; SIZE];
        if let Some(head) = message.first_chunk_mut() {
            *head = self.sent.to_le_bytes();
        }
        let began = Instant::now();
        let end = began + PATIENCE;
        let failed = |error| Failure::of("Corosync", error);
        while let Sent::TryAgain = self.cpg.multicast(&message).map_err(failed)? {
            self.check(end)?;
            std::thread::sleep(Duration::from_micros(50));
        }
        self.wait_for_message(end)?;
        Ok(began.elapsed())
    }

    /// The next message of the one member that makes round trips.
    ///
    /// # Errors
    /// Where Corosync fails.
    pub fn follow(&mut self) -> Result<(), Failure> {
        self.sent += 1;
        self.wait_for_message(Instant::now() + PATIENCE)
    }

    /// Until the message of that number has come; it may have before.
    fn wait_for_message(&mut self, end: Instant) -> Result<(), Failure> {
        while self.come < self.sent {
            self.cpg
                .dispatch(&mut self.events, 64)
                .map_err(|error| Failure::of("Corosync", error))?;
            let before = self.come;
            for event in self.events.drain(..) {
                if let Event::Delivered { bytes, .. } = event
                    && bytes.len() == SIZE
                    && let Some(head) = bytes.first_chunk()
                {
                    self.come = u64::from_le_bytes(*head);
                }
            }
            if self.come == before {
                self.check(end)?;
                self.wait();
            }
        }
        Ok(())
    }

    fn check(&self, end: Instant) -> Result<(), Failure> {
        if Instant::now() < end {
            return Ok(());
        }
        Err(Failure("a bare round trip did not end in 20 s".to_owned()))
    }

    fn wait(&self) {
        let mut waiting = [PollFd::from_borrowed_fd(self.cpg.descriptor(), PollFlags::IN)];
        let _ = poll(&mut waiting, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
    }
}
