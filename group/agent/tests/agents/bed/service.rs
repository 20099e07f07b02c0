//! A passively replicated service: the primary works on requests, and reads the clock once for
//! each; the backups note the requests, and work on them if they take over.

use std::collections::VecDeque;
use std::time::Duration;

use truechimer_group::{Agreed, Call, Phase};
use truechimer_group_client::{Event, NextError, Replica};

/// A request that was worked on, and when.
pub type Done = (u8, i64);

/// A replica of the service. Requests are bytes.
pub struct Service {
    pub replica: Replica,
    /// Work done, as far as this replica knows: its state.
    pub done: Vec<Done>,
    /// Requests that are still to be worked on.
    pub queue: VecDeque<u8>,
    /// Checkpoints taken over.
    pub installs: usize,
    /// The member was outside: what was done and came before may be nobody else's.
    outside: bool,
}

impl Service {
    pub fn new(replica: Replica) -> Service {
        Service { replica, done: Vec::new(), queue: VecDeque::new(), installs: 0, outside: false }
    }

    /// Requests that have come, from the first.
    pub fn seen(&self) -> usize {
        self.done.len() + self.queue.len()
    }

    /// State of the service, with what is still to be done.
    fn state(&self) -> Vec<u8> {
        let mut state = (self.done.len() as u64).to_le_bytes().to_vec();
        for (request, time) in &self.done {
            state.push(*request);
            state.extend(time.to_le_bytes());
        }
        state.extend(&self.queue);
        state
    }

    /// Another's state takes the place of ours. Requests that it does not have yet stay: the
    /// primary gave it at an earlier place of the stream than it comes.
    fn take_over(&mut self, state: &[u8]) {
        let (count, rest) = state.split_first_chunk().expect("a count");
        let (done, queue) = rest.split_at(9 * u64::from_le_bytes(*count) as usize);
        let of = |entry: &[u8]| (entry[0], i64::from_le_bytes(entry[1..].try_into().unwrap()));
        if std::mem::take(&mut self.outside) {
            self.done.clear();
            self.queue.clear();
        }
        let first = self.done.len();
        self.done = done.chunks_exact(9).map(of).collect();
        // Ours begin with the one numbered `first`.
        let known = self.done.len() + queue.len();
        let later = self.queue.iter().skip(known.saturating_sub(first));
        self.queue = queue.iter().chain(later).copied().collect();
        self.installs += 1;
    }

    /// Does what the next event asks, if one comes soon.
    pub fn turn(&mut self) -> Result<(), NextError> {
        match self.replica.next(Some(Duration::from_millis(5)))? {
            Some(Event::Delivered(message)) => self.queue.extend(message.payload),
            Some(Event::CheckpointWanted { join }) => {
                self.replica.checkpoint(join, &self.state()).expect("it is sent");
            }
            Some(Event::Install { data, .. }) => {
                self.take_over(&data);
                self.replica.installed().expect("the agent has it");
            }
            Some(Event::Phase(Phase::Outside)) => self.outside = true,
            Some(Event::Phase(Phase::Live)) => self.outside = false,
            _ => {}
        }
        Ok(())
    }

    /// Works on the next request, which must be there: one round.
    pub fn work(&mut self, patience: Duration) -> Agreed {
        let request = self.queue.pop_front().expect("a request");
        let read = self.replica.first_thread().now(Call::Group, Some(patience));
        let value = read.unwrap_or_else(|why| panic!("request {request}: {why:?}"));
        self.done.push((request, value.time.0));
        value
    }

    /// The primary gives its state of its own accord.
    pub fn checkpoint(&self) {
        self.replica.checkpoint(0, &self.state()).expect("it is sent");
    }
}

/// Lets all of them do what they are asked, until something is so.
#[track_caller]
pub fn serve(
    services: &mut [&mut Service],
    patience: Duration,
    what: &str,
    mut is: impl FnMut(&[&mut Service]) -> bool,
) {
    let end = std::time::Instant::now() + patience;
    while !is(services) {
        assert!(std::time::Instant::now() < end, "not in time: {what}");
        for service in &mut *services {
            service.turn().unwrap_or_else(|why| panic!("{what}: {why}"));
        }
    }
}
