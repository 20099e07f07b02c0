//! Requests on their way into the order: those of many clients go in one message.

use std::collections::VecDeque;

use crate::wire::{LARGEST_PIECE, MOST_REQUESTS, Message};

use super::Front;

/// Requests for the next message, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<(u32, Vec<u8>)>,
    /// The message that is under way.
    under_way: Option<u64>,
}

impl Requests {
    /// One of this client's.
    pub(super) fn push(&mut self, client: u32, bytes: Vec<u8>) {
        self.waiting.push_back((client, bytes));
    }

    /// Whether there is one of this client's.
    pub(super) fn has(&self, client: u32) -> bool {
        self.waiting.iter().any(|(other, _)| *other == client)
    }

    /// None, and nothing is under way.
    pub(super) fn clear(&mut self) {
        *self = Requests::default();
    }

    /// As many as one message takes; none if there are none.
    fn take(&mut self) -> Option<Vec<(u32, Vec<u8>)>> {
        let mut room = LARGEST_PIECE;
        let fits = |(_, bytes): &&(u32, Vec<u8>)| {
            let left = room.checked_sub(bytes.len());
            room = left.unwrap_or(0);
            left.is_some()
        };
        let many = self.waiting.iter().take(MOST_REQUESTS).take_while(fits).count();
        (many > 0).then(|| self.waiting.drain(..many).collect())
    }
}

impl Front {
    /// Sends the requests that wait, in as few messages as may be: while one is under way or the program works the
    /// others gather, unless it is to be `now`. Each message costs all fronts and agents as much as several requests.
    pub(super) fn ask(&mut self, now: bool) -> Result<(), String> {
        loop {
            let sent = self.requests.under_way;
            let gathers = sent.is_some_and(|token| self.under_way.contains_key(&token));
            if !now && (gathers || !self.work.is_idle()) {
                return Ok(());
            }
            let Some(requests) = self.requests.take() else { return Ok(()) };
            let clients = requests.iter().map(|(client, _)| *client).collect();
            let token = self.send_for(&Message::Requests(requests), clients)?;
            self.requests.under_way = Some(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_go_in_one_message_and_none_is_lost() {
        let mut requests = Requests::default();
        for client in 0..2 * MOST_REQUESTS as u32 {
            requests.push(client, vec![1]);
        }
        for length in [LARGEST_PIECE - 1, 1, 1, LARGEST_PIECE] {
            requests.push(9999, vec![2; length]);
        }
        assert!(requests.has(9999) && requests.has(0) && !requests.has(9998));
        let all: Vec<_> = std::iter::from_fn(|| requests.take()).collect();
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(counts, [MOST_REQUESTS, MOST_REQUESTS, 2, 1, 1]);
        let order = all.concat().into_iter().map(|(client, _)| client);
        assert!(order.is_sorted());
    }
}
