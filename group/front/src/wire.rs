//! Messages between fronts, in the group's order.
//!
//! A message: `TF`, version, kind, the sender's incarnation (u64), then the kind's fields; numbers
//! are little-endian. Who sent it is the group's word.

use truechimer_group::Member;

use crate::order::{Conn, End, FrontId, Peer, Position, Replied, State};

const VERSION: u8 = 4;

/// The most bytes of clients or of a checkpoint that go into one message.
pub const LARGEST_PIECE: usize = 64 << 10;

/// The most requests in one message.
pub const MOST_REQUESTS: usize = truechimer_group_client::delivery::MOST_AT_ONCE;
/// More members than a group has.
const MOST_PEERS: usize = 1024;
/// The most connections that a front tells the replies of at once.
pub const MOST_REPLIED: usize = 1024;
/// More pairs than members make.
const MOST_PAIRS: usize = 1 << 16;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Nothing: brings the time to a program that starts.
    Knock,
    /// I am not in, and this is what my program has processed.
    Hello { serial: u32, position: Position },
    /// I have said hello before, and am still not in: for those who have come since.
    Waiting { serial: u32, position: Position },
    /// To one that said hello: this was the state at the place of it.
    Here { to: FrontId, serial: u32, state: State },
    /// These begin.
    Begin { fronts: Vec<(FrontId, u32)>, position: Position },
    /// I start from a checkpoint that this one makes at the place of this message.
    Join { serial: u32, giver: FrontId },
    /// A piece of that checkpoint.
    Part { to: FrontId, serial: u32, total: u64, at: u64, state: Option<State>, bytes: Vec<u8> },
    /// There will be no checkpoint.
    Failed { to: FrontId, serial: u32, why: String },
    /// I have started from it.
    Ready,
    /// I end.
    Leave,
    /// Clients have connected to me, in this order.
    Open(Vec<u32>),
    /// Requests of my clients, in this order: who sent it, and its bytes.
    Requests(Vec<(u32, Vec<u8>)>),
    /// End of the connection.
    Close { conn: u32 },
    /// Time passes.
    Tick,
    /// My program has dealt with so much, and its replies are these now. Nothing new: I live.
    Done { count: u64, replied: Vec<Replied> },
    /// My program's replies and this one's differ on that connection, within so many bytes.
    Differs { from: FrontId, conn: Conn, length: u64 },
}

impl Message {
    /// Encodes it as bytes.
    pub fn encode(&self, incarnation: u64) -> Vec<u8> {
        let mut out = vec![b'T', b'F', VERSION, self.kind()];
        put(&mut out, incarnation);
        match self {
            Message::Knock | Message::Ready | Message::Leave | Message::Tick => {}
            Message::Hello { serial, position } | Message::Waiting { serial, position } => {
                out.extend(serial.to_le_bytes());
                put_position(&mut out, position);
            }
            Message::Here { to, serial, state } => {
                put_front(&mut out, to);
                out.extend(serial.to_le_bytes());
                put_state(&mut out, state);
            }
            Message::Begin { fronts, position } => {
                put_position(&mut out, position);
                out.extend((fronts.len() as u32).to_le_bytes());
                for (front, serial) in fronts {
                    put_front(&mut out, front);
                    out.extend(serial.to_le_bytes());
                }
            }
            Message::Join { serial, giver } => {
                out.extend(serial.to_le_bytes());
                put_front(&mut out, giver);
            }
            Message::Part { to, serial, total, at, state, bytes } => {
                put_front(&mut out, to);
                out.extend(serial.to_le_bytes());
                put(&mut out, *total);
                put(&mut out, *at);
                out.push(u8::from(state.is_some()));
                if let Some(state) = state {
                    put_state(&mut out, state);
                }
                out.extend(bytes);
            }
            Message::Failed { to, serial, why } => {
                put_front(&mut out, to);
                out.extend(serial.to_le_bytes());
                out.extend(why.bytes().take(1024));
            }
            Message::Open(conns) => {
                conns.iter().for_each(|conn| out.extend(conn.to_le_bytes()));
            }
            Message::Close { conn } => out.extend(conn.to_le_bytes()),
            Message::Requests(requests) => {
                for (conn, bytes) in requests {
                    out.extend(conn.to_le_bytes());
                    out.extend((bytes.len() as u32).to_le_bytes());
                    out.extend(bytes);
                }
            }
            Message::Done { count, replied } => {
                put(&mut out, *count);
                for replied in replied {
                    put_conn(&mut out, replied.conn);
                    put(&mut out, replied.length);
                    put(&mut out, replied.hash);
                    out.push(match replied.end {
                        End::Open => 0,
                        End::Finished => 1,
                        End::Cut => 2,
                    });
                }
            }
            Message::Differs { from, conn, length } => {
                put_front(&mut out, from);
                put_conn(&mut out, *conn);
                put(&mut out, *length);
            }
        }
        out
    }

    /// Of bytes: the sender's incarnation and the message; none if it is none of ours.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Message)> {
        let mut from = Reader(bytes);
        let [b'T', b'F', VERSION, kind] = from.array()? else { return None };
        let incarnation = from.u64()?;
        let message = match kind {
            0 => Message::Knock,
            1 => Message::Hello { serial: from.u32()?, position: from.position()? },
            2 => Message::Here { to: from.front()?, serial: from.u32()?, state: from.state()? },
            3 => {
                let position = from.position()?;
                let count = from.count()?;
                let mut fronts = Vec::with_capacity(count);
                for _ in 0..count {
                    fronts.push((from.front()?, from.u32()?));
                }
                Message::Begin { fronts, position }
            }
            4 => Message::Join { serial: from.u32()?, giver: from.front()? },
            5 => Message::Part {
                to: from.front()?,
                serial: from.u32()?,
                total: from.u64()?,
                at: from.u64()?,
                state: match from.array()? {
                    [0] => None,
                    [1] => Some(from.state()?),
                    _ => return None,
                },
                bytes: from.piece()?,
            },
            6 => Message::Failed {
                to: from.front()?,
                serial: from.u32()?,
                why: String::from_utf8_lossy(&from.piece()?).into_owned(),
            },
            7 => Message::Ready,
            8 => Message::Leave,
            9 => {
                let mut conns = Vec::new();
                while !from.0.is_empty() && conns.len() < MOST_REQUESTS {
                    conns.push(from.u32()?);
                }
                Message::Open(conns)
            }
            10 => Message::Requests(from.requests()?),
            11 => Message::Close { conn: from.u32()? },
            12 => Message::Tick,
            13 => {
                let count = from.u64()?;
                let mut replied = Vec::new();
                while !from.0.is_empty() && replied.len() < MOST_REPLIED {
                    replied.push(from.replied()?);
                }
                Message::Done { count, replied }
            }
            14 => Message::Waiting { serial: from.u32()?, position: from.position()? },
            15 => Message::Differs { from: from.front()?, conn: from.conn()?, length: from.u64()? },
            _ => return None,
        };
        from.0.is_empty().then_some((incarnation, message))
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Knock => 0,
            Message::Hello { .. } => 1,
            Message::Here { .. } => 2,
            Message::Begin { .. } => 3,
            Message::Join { .. } => 4,
            Message::Part { .. } => 5,
            Message::Failed { .. } => 6,
            Message::Ready => 7,
            Message::Leave => 8,
            Message::Open(_) => 9,
            Message::Requests(_) => 10,
            Message::Close { .. } => 11,
            Message::Tick => 12,
            Message::Done { .. } => 13,
            Message::Waiting { .. } => 14,
            Message::Differs { .. } => 15,
        }
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_front(out: &mut Vec<u8>, front: &FrontId) {
    out.extend(front.member.0.to_le_bytes());
    put(out, front.incarnation);
}

fn put_conn(out: &mut Vec<u8>, conn: Conn) {
    out.extend(conn.member.0.to_le_bytes());
    out.extend(conn.number.to_le_bytes());
}

fn put_position(out: &mut Vec<u8>, position: &Position) {
    put(out, position.count);
    put(out, position.chain);
    out.push(u8::from(position.event_loop));
}

fn put_state(out: &mut Vec<u8>, state: &State) {
    put_position(out, &state.position);
    put(out, state.requests);
    out.extend(state.time.to_le_bytes());
    out.extend((state.peers.len() as u32).to_le_bytes());
    for (member, peer) in &state.peers {
        put_front(out, &FrontId { member: *member, incarnation: peer.incarnation });
        out.push(u8::from(peer.ready));
        out.extend(peer.quiet_ns.to_le_bytes());
        put(out, peer.done);
        out.extend(peer.stuck_ns.to_le_bytes());
    }
    out.extend((state.pairs.len() as u32).to_le_bytes());
    for (one, other) in &state.pairs {
        out.extend(one.0.to_le_bytes());
        out.extend(other.0.to_le_bytes());
    }
}

/// Rest of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        self.u32().map(|count| count as usize).filter(|count| *count <= MOST_PEERS)
    }

    fn front(&mut self) -> Option<FrontId> {
        Some(FrontId { member: Member(self.u32()?), incarnation: self.u64()? })
    }

    fn conn(&mut self) -> Option<Conn> {
        Some(Conn { member: Member(self.u32()?), number: self.u32()? })
    }

    fn replied(&mut self) -> Option<Replied> {
        let (conn, length, hash) = (self.conn()?, self.u64()?, self.u64()?);
        let end = match self.array()? {
            [0] => End::Open,
            [1] => End::Finished,
            [2] => End::Cut,
            _ => return None,
        };
        Some(Replied { conn, length, hash, end })
    }

    fn position(&mut self) -> Option<Position> {
        let (count, chain) = (self.u64()?, self.u64()?);
        let event_loop = match self.array()? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        Some(Position { count, chain, event_loop })
    }

    fn state(&mut self) -> Option<State> {
        let position = self.position()?;
        let requests = self.u64()?;
        let time = self.i64()?;
        let mut state = State { position, requests, time, ..State::default() };
        for _ in 0..self.count()? {
            let FrontId { member, incarnation } = self.front()?;
            let ready = match self.array()? {
                [0] => false,
                [1] => true,
                _ => return None,
            };
            let (quiet_ns, done, stuck_ns) = (self.i64()?, self.u64()?, self.i64()?);
            state.peers.insert(member, Peer { incarnation, ready, quiet_ns, done, stuck_ns });
        }
        let pairs = self.u32()? as usize;
        for _ in 0..Some(pairs).filter(|pairs| *pairs <= MOST_PAIRS)? {
            state.pairs.insert((Member(self.u32()?), Member(self.u32()?)));
        }
        Some(state)
    }

    /// Requests, of at most [`LARGEST_PIECE`] bytes together.
    fn requests(&mut self) -> Option<Vec<(u32, Vec<u8>)>> {
        let (mut requests, mut length) = (Vec::new(), 0_usize);
        while !self.0.is_empty() && requests.len() < MOST_REQUESTS {
            let (conn, own) = (self.u32()?, self.u32()? as usize);
            let (bytes, rest) = self.0.split_at_checked(own)?;
            length += own;
            requests.push((conn, bytes.to_vec()));
            self.0 = rest;
        }
        (length <= LARGEST_PIECE).then_some(requests)
    }

    /// The rest.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.0);
        (rest.len() <= LARGEST_PIECE).then(|| rest.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        let front = FrontId { member: Member(3), incarnation: u64::MAX };
        let position = Position { count: 5, chain: 6, event_loop: true };
        let mut state = State { position, requests: 4, time: -1, ..State::default() };
        let peer = Peer { incarnation: 9, ready: true, quiet_ns: 7, done: 3, stuck_ns: 1 };
        state.peers.insert(Member(2), peer);
        state.pairs.insert((Member(1), Member(2)));
        let conn = Conn { member: Member(1), number: 4 };
        let replied = |end| Replied { conn, length: 3, hash: u64::MAX, end };
        vec![
            Message::Knock,
            Message::Hello { serial: 1, position },
            Message::Waiting { serial: 7, position },
            Message::Here { to: front, serial: 2, state: state.clone() },
            Message::Begin { fronts: vec![(front, 8)], position },
            Message::Join { serial: 1, giver: front },
            Message::Part {
                to: front,
                serial: 1,
                total: 10,
                at: 0,
                state: Some(state),
                bytes: vec![1, 2],
            },
            Message::Failed { to: front, serial: 1, why: "none".into() },
            Message::Ready,
            Message::Leave,
            Message::Open(Vec::new()),
            Message::Open(vec![7, 1]),
            Message::Requests(Vec::new()),
            Message::Requests(vec![(1, b"GET".to_vec()), (7, Vec::new()), (1, b"SET".to_vec())]),
            Message::Close { conn: 1 },
            Message::Tick,
            Message::Done {
                count: 3,
                replied: [End::Open, End::Finished, End::Cut].map(replied).to_vec(),
            },
            Message::Done { count: 3, replied: Vec::new() },
            Message::Differs { from: front, conn, length: 9 },
        ]
    }

    #[test]
    fn there_and_back() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode(77)), Some((77, message)));
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_without_harm() {
        for message in all() {
            let bytes = message.encode(1);
            for end in 0..bytes.len() {
                // A cut message is another one or none, never a panic.
                let _ = Message::decode(&bytes[..end]);
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] = value;
                    let _ = Message::decode(&bytes);
                }
            }
            let mut longer = bytes.clone();
            longer.push(0);
            let open_end = matches!(message, Message::Part { .. } | Message::Failed { .. });
            assert_eq!(Message::decode(&longer).is_some(), open_end, "{message:?}");
        }
        assert_eq!(Message::decode(b""), None);
        let half = vec![0; LARGEST_PIECE / 2];
        let most = Message::Requests(vec![(1, half.clone()), (2, half.clone())]);
        assert_eq!(Message::decode(&most.encode(1)), Some((1, most)));
        let huge = Message::Requests(vec![(1, half.clone()), (2, [&half[..], &[0]].concat())]);
        assert_eq!(Message::decode(&huge.encode(1)), None);
        let many = Message::Requests(vec![(1, vec![0]); MOST_REQUESTS + 1]);
        assert_eq!(Message::decode(&many.encode(1)), None);
    }
}
