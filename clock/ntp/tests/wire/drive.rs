//! Drives the whole crate by a string of bytes, and checks after each step what must always hold.
//! Whoever makes the bytes up, a fuzzer or a seeded generator, finds the same faults.

use std::net::SocketAddr;

use truechimer_ntp::server::{self, ServerState, respond};
use truechimer_ntp::{
    Association, HEADER_LEN, LeapIndicator, Log2, MAX_ROOT_DISTANCE, Mode, Packet, RefId, Refusal,
    Reply, Short, Timestamp, WAITING,
};

/// The server that the association asks.
pub const SERVER: SocketAddr = address(1, 123);
/// The server's address, another port.
const OTHER_PORT: SocketAddr = address(1, 124);
/// Another address, the server's port.
const OTHER_HOST: SocketAddr = address(2, 123);

const fn address(host: u8, port: u16) -> SocketAddr {
    use std::net::{IpAddr, Ipv4Addr};
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port)
}

/// A good server.
pub const STATE: ServerState = ServerState {
    leap: LeapIndicator::None,
    stratum: 1,
    precision: Log2(-24),
    root_delay: Short(3),
    root_dispersion: Short(7),
    reference_id: RefId(*b"GPS\0"),
    reference_timestamp: Timestamp(0xee00_0000_0000_0000),
};
const ARRIVED: Timestamp = Timestamp(0xee00_0010_0000_0000);
const LEFT: Timestamp = Timestamp(0xee00_0010_0001_0000);

/// The good server's reply to the request with that transmit timestamp.
pub fn good_reply(id: Timestamp) -> Packet {
    let request =
        Packet { version: 4, mode: Mode::Client, transmit_timestamp: id, ..Packet::default() };
    let bytes = respond(&request.encode(), ARRIVED, LEFT, &STATE).expect("a request");
    Packet::decode(&bytes).expect("a header").0
}

/// An association, and what a reader of its documentation knows about it.
struct Model {
    association: Association,
    /// The last requests, and whether each waits for its reply; the newest first.
    requests: Vec<(Timestamp, bool)>,
    refused: u64,
}

impl Model {
    fn request(&mut self, random: u64) {
        let bytes = self.association.request(random);
        let (packet, rest) = Packet::decode(&bytes).expect("a header");
        assert!(rest.is_empty());
        assert!(!packet.transmit_timestamp.is_unknown());
        // Nothing of the client shows.
        assert_eq!(
            packet,
            Packet {
                version: 4,
                mode: Mode::Client,
                precision: Log2(32),
                transmit_timestamp: packet.transmit_timestamp,
                ..Packet::default()
            }
        );
        self.requests.insert(0, (packet.transmit_timestamp, true));
        self.requests.truncate(WAITING);
    }

    /// Timestamp of a request so far back, or none.
    fn named(&self, back: u8) -> Timestamp {
        self.requests.get(usize::from(back & 3)).map(|(id, _)| *id).unwrap_or_default()
    }

    /// True if a reply to the request of this timestamp is waited for.
    fn waits_for(&self, id: Timestamp) -> bool {
        self.requests.iter().find(|(of, _)| *of == id).is_some_and(|(_, waits)| *waits)
    }

    fn give_up(&mut self, from: usize) {
        self.requests.iter_mut().skip(from).for_each(|(_, waits)| *waits = false);
    }

    /// The datagram was the answer to its request: nothing older is waited for.
    fn answered(&mut self, datagram: &[u8], from: SocketAddr) -> usize {
        let (packet, _) = Packet::decode(datagram).expect("a header");
        let id = packet.origin_timestamp;
        assert!(self.waits_for(id) && from == SERVER);
        let place = self.requests.iter().position(|(of, _)| *of == id).expect("it waits");
        self.give_up(place);
        place
    }

    fn deliver(&mut self, datagram: &[u8], from: SocketAddr) -> Result<Reply, Refusal> {
        let before = self.association.clone();
        let result = self.association.accept(datagram, from);
        match &result {
            Ok(reply) => {
                let (packet, rest) = Packet::decode(datagram).expect("a header");
                assert_eq!(packet.mode, Mode::Server);
                assert!((3..=4).contains(&reply.version) && (1..=15).contains(&reply.stratum));
                assert_ne!(reply.leap, LeapIndicator::Unsynchronised);
                assert!(!reply.receive.is_unknown() && !reply.transmit.is_unknown());
                assert!(!reply.residence().is_negative());
                assert!(!reply.root_delay.is_negative() && !reply.root_dispersion.is_negative());
                assert!(reply.root_distance() <= MAX_ROOT_DISTANCE);
                assert_eq!(reply.unread, rest.len());
                assert!(!reply.reference_id.text(reply.stratum).to_string().is_empty());
                assert_eq!(reply.later_requests, self.answered(datagram, from));
            }
            Err(refusal) => {
                self.refused += 1;
                assert!(refusal.to_string().bytes().all(|b| b == b' ' || b.is_ascii_graphic()));
                if refusal.demand().is_some() {
                    self.answered(datagram, from);
                } else {
                    self.same_answer_as(&before);
                }
            }
        }
        let newest = self.requests.first();
        assert_eq!(self.association.is_waiting(), newest.is_some_and(|(_, waits)| *waits));
        assert_eq!(self.association.refused().total(), self.refused);
        assert_eq!(self.association.refused().iter().map(|(_, n)| n).sum::<u64>(), self.refused);
        result
    }

    /// A refused datagram changed nothing that a later good one could notice.
    fn same_answer_as(&self, before: &Association) {
        for (id, _) in &self.requests {
            let good = good_reply(*id).encode();
            let now = self.association.clone().accept(&good, SERVER);
            assert_eq!(before.clone().accept(&good, SERVER), now);
            assert_eq!(now.is_ok(), self.waits_for(*id));
        }
    }
}

/// Plays `script` to an association: requests, datagrams of any content, true and half-true
/// replies, from right and wrong addresses.
pub fn reply(mut script: &[u8]) {
    let mut model =
        Model { association: Association::new(SERVER), requests: Vec::new(), refused: 0 };
    let mut last = Vec::new();
    while let Some((&step, rest)) = script.split_first() {
        script = rest;
        let from = match step >> 6 {
            1 => OTHER_PORT,
            2 => OTHER_HOST,
            _ => SERVER,
        };
        match step & 7 {
            0 => model.request(number(&mut script)),
            1 => {
                model.association.give_up();
                model.give_up(0);
            }
            // Any bytes at all.
            2 => {
                let len = usize::from(step >> 3 & 7) * 12;
                last = take(&mut script, len).to_vec();
                let _ = model.deliver(&last, from);
            }
            // Any bytes that name our request.
            3 | 4 => {
                last = take(&mut script, HEADER_LEN).to_vec();
                last.resize(HEADER_LEN, 0);
                last[24..32].copy_from_slice(&model.named(step >> 4).0.to_be_bytes());
                if step & 7 == 4 {
                    last[0] = last[0] & 0o300 | 0o44;
                }
                let _ = model.deliver(&last, from);
            }
            // A good reply with one byte replaced and some appended.
            5 => {
                last = good_reply(model.named(step >> 4)).encode().to_vec();
                let [at, value] = take(&mut script, 2) else { return };
                last[usize::from(*at) % HEADER_LEN] = *value;
                last.resize(HEADER_LEN + usize::from(step >> 3 & 7) * 4, 0);
                let _ = model.deliver(&last, from);
            }
            // A good reply: taken if and only if it is waited for and comes from the right place.
            6 => {
                let id = model.named(step >> 4);
                last = good_reply(id).encode().to_vec();
                let due = model.waits_for(id) && from == SERVER;
                assert_eq!(model.deliver(&last, from).is_ok(), due);
            }
            // The last datagram once more: nothing is taken twice.
            _ => {
                let packet = Packet::decode(&last);
                let due =
                    packet.is_some_and(|(packet, _)| model.waits_for(packet.origin_timestamp));
                let taken = model.deliver(&last, from).is_ok();
                assert!(due || !taken);
            }
        }
    }
}

/// Sends any bytes to the server, and its reply to the client that may have sent them.
pub fn request(datagram: &[u8]) {
    let reply = respond(datagram, ARRIVED, LEFT, &STATE);
    let Some((asked, _)) = Packet::decode(datagram) else {
        assert_eq!(reply, None);
        return;
    };
    let due = asked.mode == Mode::Client && (1..=4).contains(&asked.version);
    assert_eq!(reply.is_some(), due);
    let Some(bytes) = reply else { return };
    assert!(bytes.len() <= datagram.len());
    let (answer, _) = Packet::decode(&bytes).expect("a header");
    assert_eq!(answer.mode, Mode::Server);
    assert_eq!(answer.origin_timestamp, asked.transmit_timestamp);
    assert_eq!((answer.version, answer.poll), (asked.version, asked.poll));
    assert_eq!((answer.receive_timestamp, answer.transmit_timestamp), (ARRIVED, LEFT));
    // A reply starts no conversation between servers.
    assert_eq!(respond(&bytes, ARRIVED, LEFT, &STATE), None);
    // The other kinds of replies are as long, and neither is a request nor taken for another.
    let late = server::interleaved(&asked, ARRIVED, Timestamp(1), &STATE);
    assert_eq!(late.origin_timestamp, asked.receive_timestamp);
    let kiss = server::kiss(&asked, ARRIVED, RefId(*b"RATE"), Log2(4));
    assert!(kiss.poll >= asked.poll && kiss.poll >= Log2(4));
    for other in [late, kiss] {
        assert_eq!((other.version, other.mode), (asked.version, Mode::Server));
        assert_eq!(respond(&other.encode(), ARRIVED, LEFT, &STATE), None);
    }

    let id = asked.transmit_timestamp;
    let mut asker = Association::new(SERVER);
    let _ = asker.request(id.0);
    if (3..=4).contains(&asked.version) && !id.is_unknown() {
        let told = asker.clone().accept(&kiss.encode(), SERVER);
        assert!(told.is_err_and(|refusal| refusal.demand().is_some()));
    }
    let taken = asker.accept(&bytes, SERVER);
    assert_eq!(taken.is_ok(), (3..=4).contains(&asked.version) && !id.is_unknown());
    let mut stranger = Association::new(SERVER);
    let _ = stranger.request(id.0 ^ 1);
    assert!(stranger.accept(&bytes, SERVER).is_err());
}

/// The first `len` bytes of the script, fewer if it ends.
fn take<'a>(script: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = script.split_at(len.min(script.len()));
    *script = tail;
    head
}

fn number(script: &mut &[u8]) -> u64 {
    take(script, 8).iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}
