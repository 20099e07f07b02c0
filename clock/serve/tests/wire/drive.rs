//! Drives a responder by a string of bytes, and checks after each step what must always hold.
//! Whoever makes the bytes up, a fuzzer or a seeded generator, finds the same faults.

use std::collections::HashMap;
use std::net::IpAddr;

use truechimer_ntp::server::ServerState;
use truechimer_ntp::{LeapIndicator, Log2, Mode, Packet, RefId, Short, Timestamp};
use truechimer_serve::{Access, Answer, Kind, Outcome, Rate, Responder, Sent, transmit};

/// Clients: two who may ask, one of a network that may, and two who may not.
const CLIENTS: [&str; 5] = ["127.0.0.1", "::1", "2001:db8::7", "192.0.2.1", "2001:db8:0:dead::1"];

/// Model of the responder by what a reader of the documentation knows.
struct Model {
    responder: Responder,
    state: ServerState,
    now: u64,
    receive: u64,
    /// Replies that may be referred to, and when they left.
    replies: HashMap<Sent, Timestamp>,
    /// The newest reply of all.
    newest: Option<(IpAddr, Packet)>,
}

/// Plays `script`: datagrams of any content, requests that refer to replies of any time.
pub fn requests(mut script: &[u8]) {
    let allowed = ["2001:db8::/32"].map(|text| text.parse().unwrap());
    let denied = ["2001:db8:0:dead::/64"].map(|text| text.parse().unwrap());
    let rate = Rate { per_second: 1000, burst: 5 };
    let mut model = Model {
        responder: Responder::new(Access::new(&allowed, &denied), Some(rate), true, 1),
        state: ServerState {
            leap: LeapIndicator::None,
            stratum: 2,
            precision: Log2(-24),
            root_delay: Short(3),
            root_dispersion: Short(7),
            reference_id: RefId([192, 0, 2, 9]),
            reference_timestamp: Timestamp(0xee00_0000_0000_0000),
        },
        now: 0,
        receive: 0xee00_0010_0000_0000,
        replies: HashMap::new(),
        newest: None,
    };
    while let Some((&step, rest)) = script.split_first() {
        script = rest;
        let from: IpAddr = CLIENTS[usize::from(step >> 5) % CLIENTS.len()].parse().unwrap();
        model.now += u64::from(step >> 2 & 7) * 300_000;
        model.receive = model.receive.wrapping_add(0x1_0000 + u64::from(step));
        match step & 3 {
            // Any bytes at all.
            0 => {
                let len = usize::from(take(&mut script, 1).first().copied().unwrap_or(0)) % 80;
                let bytes = take(&mut script, len).to_vec();
                model.deliver(&bytes, from);
            }
            // A request that refers to something, and may have more behind it.
            1 | 2 => {
                let mut pick = || take(&mut script, 1).first().copied().unwrap_or(0);
                let (first, origin, receive, more) = (pick(), pick(), pick(), pick());
                let request = Packet {
                    version: if first < 200 { 4 } else { first & 7 },
                    mode: if first < 230 { Mode::Client } else { Mode::from_bits(first) },
                    origin_timestamp: model.named(origin),
                    receive_timestamp: model.named(receive),
                    transmit_timestamp: Timestamp(u64::from(more) << 7),
                    ..Packet::default()
                };
                let mut bytes = request.encode().to_vec();
                bytes.resize(48 + usize::from(more & 7) * 4, more);
                let from = match (&model.newest, step & 3) {
                    (Some((newest, _)), 2) => *newest,
                    _ => from,
                };
                model.deliver(&bytes, from);
            }
            // The clock is lost, or found again.
            _ => {
                model.state.leap = match model.state.leap {
                    LeapIndicator::None => LeapIndicator::Unsynchronised,
                    _ => LeapIndicator::None,
                };
            }
        }
    }
}

impl Model {
    /// A timestamp that a client may name.
    fn named(&self, which: u8) -> Timestamp {
        let newest = self.newest.map(|(_, packet)| packet).unwrap_or_default();
        match which & 7 {
            0 => Timestamp::UNKNOWN,
            1..=4 => newest.receive_timestamp,
            5 => newest.transmit_timestamp,
            6 => Timestamp(newest.receive_timestamp.0.wrapping_add(2)),
            _ => Timestamp(u64::from(which) << 5),
        }
    }

    fn deliver(&mut self, datagram: &[u8], from: IpAddr) {
        let (receive, state) = (Timestamp(self.receive), self.state);
        let outcome = self.responder.outcome(datagram, from, receive, self.now, &state);
        let asked = Packet::decode(datagram).map(|(packet, _)| packet);
        let due =
            asked.filter(|asked| asked.mode == Mode::Client && (1..=4).contains(&asked.version));
        let allowed = CLIENTS.iter().take(3).any(|client| client.parse() == Ok(from));
        let (request, answer) = match (outcome, due) {
            (Outcome::Ignored(_), None) => return,
            (Outcome::Denied, Some(_)) if !allowed => return,
            (Outcome::Limited, Some(_)) if allowed => return,
            (Outcome::Reply(answer), Some(request)) if allowed => (request, answer),
            wrong => panic!("{wrong:?} for {datagram:?} from {from}"),
        };
        let packet = answer.packet;
        assert!(packet.encode().len() <= datagram.len());
        assert_eq!((packet.mode, packet.version), (Mode::Server, request.version));
        assert_eq!(packet.receive_timestamp, Timestamp(receive.0 | 1));
        // A reply starts no conversation.
        let echo = self.responder.outcome(&packet.encode(), from, receive, self.now, &state);
        assert!(matches!(echo, Outcome::Ignored(_)), "{echo:?}");
        if answer.kind == Kind::Kiss {
            assert_eq!((packet.leap, packet.stratum), (LeapIndicator::Unsynchronised, 0));
            assert_eq!(packet.reference_id, RefId(*b"RATE"));
            assert_eq!(
                (packet.origin_timestamp, answer.remember),
                (request.transmit_timestamp, None)
            );
            return;
        }
        assert_eq!((packet.leap, packet.stratum), (state.leap, state.stratum));
        self.in_its_mode(&request, &answer, from);
    }

    /// The answer is of the mode that was asked for, and can be, and what is kept is kept.
    fn in_its_mode(&mut self, request: &Packet, answer: &Answer, from: IpAddr) {
        let mut packet = answer.packet;
        let named = request.origin_timestamp;
        let wanted = named.0 & 1 == 1
            && request.receive_timestamp != request.transmit_timestamp
            && self.state.leap != LeapIndicator::Unsynchronised;
        let sent = (from, packet.receive_timestamp);
        assert_eq!(answer.remember, wanted.then_some(sent));
        // Whatever was kept is asked for once.
        let kept = if wanted { self.replies.remove(&(from, named)) } else { None };
        match (answer.kind, kept) {
            (Kind::Interleaved, Some(left)) => {
                assert_eq!(packet.origin_timestamp, request.receive_timestamp);
                assert_eq!(packet.transmit_timestamp, left);
            }
            (Kind::Basic, None) => {
                assert_eq!(packet.origin_timestamp, request.transmit_timestamp);
                let at = Timestamp(self.receive.wrapping_add(0x1000));
                packet.transmit_timestamp = transmit(at, packet.receive_timestamp);
                assert_eq!(packet.transmit_timestamp.0 & 1, 0);
                assert!(packet.transmit_timestamp.since(packet.receive_timestamp).0 > 0);
            }
            wrong => panic!("{wrong:?} for {request:?}"),
        }
        if wanted {
            let at = transmit(Timestamp(self.receive + 0x800), packet.receive_timestamp);
            self.responder.departs(sent, at, self.now);
            let better = transmit(Timestamp(self.receive + 0x900), packet.receive_timestamp);
            self.responder.departed(sent, better);
            self.replies.insert(sent, better);
        }
        self.newest = Some((from, packet));
    }
}

/// The first `len` bytes of the script, fewer if it ends.
fn take<'a>(script: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = script.split_at(len.min(script.len()));
    *script = tail;
    head
}
