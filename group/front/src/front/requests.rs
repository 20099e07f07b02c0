//! Requests on their way into the order: those of many clients go in one message.

use std::collections::VecDeque;
use std::time::Duration;

use crate::wire::{LARGEST_PIECE, MOST_REQUESTS, Message};

use super::{Front, Sent};

/// While the program works on requests of this front's own the next ones gather, but for no longer than that: several
/// times what a loop takes for a message's requests.
const GATHERS: Duration = Duration::from_millis(10);
/// Bytes that may wait here before clients are no longer read: 16 full messages, of which one is under way at a time.
pub(super) const MOST_WAITING: usize = 16 * LARGEST_PIECE;

/// Word of a client's that is to go into the order.
#[derive(Debug)]
enum Word {
    /// Opening: it has connected.
    Open,
    Request(Vec<u8>),
    /// The end of its connection.
    Close,
}

impl Word {
    /// Bytes that it takes here.
    fn size(&self) -> usize {
        let own = if let Word::Request(bytes) = self { bytes.len() } else { 0 };
        own + size_of::<(u32, Word)>()
    }
}

/// Clients' words for the next messages, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<(u32, Word)>,
    /// Bytes of all that.
    size: usize,
    /// The message that is under way.
    under_way: Option<u64>,
}

impl Requests {
    /// This client has connected.
    pub(super) fn open(&mut self, client: u32) {
        self.add(client, Word::Open);
    }

    /// One of this client's.
    pub(super) fn push(&mut self, client: u32, bytes: Vec<u8>) {
        self.add(client, Word::Request(bytes));
    }

    /// This client's connection ends after its requests.
    pub(super) fn close(&mut self, client: u32) {
        self.add(client, Word::Close);
    }

    fn add(&mut self, client: u32, word: Word) {
        self.size += word.size();
        self.waiting.push_back((client, word));
    }

    /// Drops this client's requests; its end is still to be said.
    pub(super) fn forget(&mut self, client: u32) {
        self.waiting.retain(|(other, word)| *other != client || matches!(word, Word::Close));
        self.size = self.waiting.iter().map(|(_, word)| word.size()).sum();
    }

    /// True if clients may be read.
    pub(super) fn has_room(&self) -> bool {
        self.size < MOST_WAITING
    }

    /// Drops all, and nothing is under way.
    pub(super) fn clear(&mut self) {
        *self = Requests::default();
    }

    /// Takes what goes into one message, and for whom; none if nothing waits. Of those that have connected several only
    /// if they are given `together`.
    fn take(&mut self, together: bool) -> Option<(Message, Sent)> {
        if let Some((client, Word::Close)) = self.waiting.front() {
            let client = *client;
            self.pop();
            return Some((Message::Close { conn: client }, Sent::Ends(client)));
        }
        let mut opened = Vec::new();
        while let Some((client, Word::Open)) = self.waiting.front()
            && opened.len() < if together { MOST_REQUESTS } else { 1 }
        {
            opened.push(*client);
            self.pop();
        }
        if !opened.is_empty() {
            return Some((Message::Open(opened.clone()), Sent::Asks(opened)));
        }
        let (mut requests, mut room) = (Vec::new(), LARGEST_PIECE);
        while let Some((client, Word::Request(bytes))) = self.waiting.front()
            && requests.len() < MOST_REQUESTS
            && let Some(left) = room.checked_sub(bytes.len())
        {
            let client = *client;
            room = left;
            if let Some(Word::Request(bytes)) = self.pop() {
                requests.push((client, bytes));
            }
        }
        let clients = requests.iter().map(|(client, _)| *client).collect();
        (!requests.is_empty()).then_some((Message::Requests(requests), Sent::Asks(clients)))
    }

    fn pop(&mut self) -> Option<Word> {
        let (_, word) = self.waiting.pop_front()?;
        self.size -= word.size();
        Some(word)
    }
}

impl Front {
    /// Sends what clients want, in as few messages as may be: while one with openings or requests is under way the others
    /// gather, and while the program answers its requests if it may be given many at once. Each message costs all fronts and
    /// agents as much as several requests.
    pub(super) fn ask(&mut self) -> Result<(), String> {
        let me = self.order.me().member;
        loop {
            let sent = self.requests.under_way;
            let under_way = sent.is_some_and(|token| self.under_way.contains_key(&token));
            let answers = self.settings.event_loop && self.work.answers(me, GATHERS);
            if under_way || answers {
                return Ok(());
            }
            let together = self.settings.event_loop;
            let Some((message, sent)) = self.requests.take(together) else { return Ok(()) };
            let asks = matches!(sent, Sent::Asks(_));
            let token = self.send_for(&message, sent)?;
            if asks {
                self.requests.under_way = Some(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clients of all messages, which are requests.
    fn all(requests: &mut Requests) -> Vec<Vec<u32>> {
        let clients =
            |(_, sent)| if let Sent::Asks(clients) = sent { clients } else { panic!("{sent:?}") };
        std::iter::from_fn(|| requests.take(true)).map(clients).collect()
    }

    fn end(client: u32) -> Option<(Message, Sent)> {
        Some((Message::Close { conn: client }, Sent::Ends(client)))
    }

    #[test]
    fn many_go_in_one_message_and_none_is_lost() {
        let mut requests = Requests::default();
        for client in 0..2 * MOST_REQUESTS as u32 {
            requests.push(client, vec![1]);
        }
        for length in [LARGEST_PIECE - 1, 1, 1, LARGEST_PIECE] {
            requests.push(9999, vec![2; length]);
        }
        let all = all(&mut requests);
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(counts, [MOST_REQUESTS, MOST_REQUESTS, 2, 1, 1]);
        assert!(all.concat().is_sorted());
        assert_eq!(requests.size, 0);
    }

    #[test]
    fn openings_of_a_loop_go_together_and_come_before_their_requests() {
        let mut requests = Requests::default();
        let mut fill = || {
            [1, 2].into_iter().for_each(|client| requests.open(client));
            requests.push(1, vec![1]);
            requests.open(3);
            requests.push(3, vec![3]);
        };
        fill();
        fill();
        let open =
            |clients: &[u32]| Some((Message::Open(clients.into()), Sent::Asks(clients.into())));
        assert_eq!(requests.take(true), open(&[1, 2]));
        assert_eq!(
            all(&mut requests),
            [vec![1], vec![3], vec![3], vec![1, 2], vec![1], vec![3], vec![3]]
        );
        [1, 2].into_iter().for_each(|client| requests.open(client));
        assert_eq!([requests.take(false), requests.take(false)], [open(&[1]), open(&[2])]);
        let mut many = Requests::default();
        (0..MOST_REQUESTS as u32 + 1).for_each(|client| many.open(client));
        assert_eq!(all(&mut many).iter().map(Vec::len).collect::<Vec<_>>(), [MOST_REQUESTS, 1]);
    }

    #[test]
    fn an_end_comes_after_its_requests_and_hastens_nobody() {
        let mut requests = Requests::default();
        requests.push(1, vec![1]);
        requests.push(2, vec![2]);
        requests.close(1);
        requests.push(2, vec![3]);
        let first = requests.take(true).unwrap();
        assert_eq!(first.0, Message::Requests(vec![(1, vec![1]), (2, vec![2])]));
        assert_eq!(requests.take(true), end(1));
        assert_eq!(all(&mut requests), [[2]]);
    }

    #[test]
    fn of_a_client_that_was_refused_only_its_end_is_left() {
        let mut requests = Requests::default();
        for (client, byte) in [(1, 1), (2, 2), (1, 3)] {
            requests.push(client, vec![byte]);
        }
        requests.close(1);
        requests.forget(1);
        assert_eq!(requests.take(true).unwrap().0, Message::Requests(vec![(2, vec![2])]));
        assert_eq!(requests.take(true), end(1));
        assert_eq!((requests.take(true), requests.size), (None, 0));
    }

    #[test]
    fn there_is_room_again_when_messages_have_gone() {
        let mut requests = Requests::default();
        let mut many = 0;
        while requests.has_room() {
            requests.push(many, vec![0; 1000]);
            many += 1;
        }
        assert!(many as usize * 1000 <= MOST_WAITING);
        requests.take(true);
        assert!(requests.has_room());
        // Short ones take more than their bytes.
        let mut requests = Requests::default();
        (0..MOST_WAITING as u32 / 8).for_each(|client| requests.push(client, vec![0]));
        assert!(!requests.has_room());
    }
}
