//! Work of the fuzz target, without a fuzzer: seeded scripts, and the conversations that make
//! sense.

use proptest::prelude::*;
use truechimer_ntp::server::ServerState;
use truechimer_ntp::{LeapIndicator, Log2, Mode, Packet, RefId, Short, Timestamp};
use truechimer_serve::{Access, Kind, Outcome, Responder, transmit};

use crate::drive;

const STATE: ServerState = ServerState {
    leap: LeapIndicator::None,
    stratum: 2,
    precision: Log2(-24),
    root_delay: Short(3),
    root_dispersion: Short(7),
    reference_id: RefId([192, 0, 2, 9]),
    reference_timestamp: Timestamp(0xee00_0000_0000_0000),
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_requests_get_what_is_due(script in proptest::collection::vec(any::<u8>(), 0..400)) {
        drive::requests(&script);
    }

    /// Steps that refer to each other, so that interleaved mode is reached.
    #[test]
    fn conversations_get_what_is_due(
        steps in proptest::collection::vec((0u8..4, 0u8..200, 0u8..8, any::<u8>(), any::<u8>()), 0..60),
    ) {
        let script: Vec<_> = steps
            .iter()
            .flat_map(|&(gap, first, origin, receive, more)| [gap << 3 | 2, first, origin, receive, more])
            .collect();
        drive::requests(&script);
    }
}

fn ask(responder: &Responder, request: &Packet, at: u64) -> (Kind, Packet) {
    let from = "127.0.0.1".parse().unwrap();
    match responder.outcome(&request.encode(), from, Timestamp(at), at, &STATE) {
        Outcome::Reply(answer) => {
            if let Some(sent) = answer.remember {
                responder.departs(sent, transmit(Timestamp(at + 100), Timestamp(at)), at);
                responder.departed(sent, Timestamp(at + 200));
            }
            let mut packet = answer.packet;
            if answer.kind == Kind::Basic {
                packet.transmit_timestamp = transmit(Timestamp(at + 100), packet.receive_timestamp);
            }
            (answer.kind, packet)
        }
        other => panic!("{other:?}"),
    }
}

fn request(origin: Timestamp, receive: u64, transmit: u64) -> Packet {
    Packet {
        version: 4,
        mode: Mode::Client,
        origin_timestamp: origin,
        receive_timestamp: Timestamp(receive),
        transmit_timestamp: Timestamp(transmit),
        ..Packet::default()
    }
}

#[test]
fn a_client_of_interleaved_mode_gets_the_exact_departure() {
    let responder = Responder::new(Access::new(&[], &[]), None, true, 1);
    let (kind, first) = ask(&responder, &request(Timestamp::UNKNOWN, 0, 1 << 40), 10_000);
    assert_eq!(kind, Kind::Basic);
    // It names the reply: from now on what it will ask for is kept.
    let (kind, second) = ask(&responder, &request(first.receive_timestamp, 7, 2 << 40), 20_000);
    assert_eq!((kind, second.origin_timestamp), (Kind::Basic, Timestamp(2 << 40)));
    let named = request(second.receive_timestamp, 8, 3 << 40);
    let (kind, third) = ask(&responder, &named, 30_000);
    assert_eq!((kind, third.origin_timestamp), (Kind::Interleaved, Timestamp(8)));
    assert_eq!(third.transmit_timestamp, Timestamp(20_200));
    // The same once more is basic: nothing is told twice.
    assert_eq!(ask(&responder, &named, 40_000).0, Kind::Basic);
    // So is everything where interleaved mode is switched off.
    let responder = Responder::new(Access::new(&[], &[]), None, false, 1);
    for at in [1, 1 << 20] {
        assert_eq!(ask(&responder, &request(Timestamp(at | 1), 8, 9), at).0, Kind::Basic);
    }
}

#[test]
fn a_client_of_basic_mode_costs_no_memory() {
    // What it names is a transmit timestamp, and of those nothing is kept.
    let responder = Responder::new(Access::new(&[], &[]), None, true, 1);
    let mut origin = Timestamp::UNKNOWN;
    for i in 1..100u64 {
        let asked = request(origin, i << 20, i << 40);
        let from = "::1".parse().unwrap();
        let Outcome::Reply(answer) =
            responder.outcome(&asked.encode(), from, Timestamp(i << 30), 0, &STATE)
        else {
            panic!("no reply");
        };
        assert_eq!((answer.kind, answer.remember), (Kind::Basic, None));
        origin = transmit(Timestamp((i << 30) + 5), answer.packet.receive_timestamp);
    }
}

#[test]
fn a_transmit_timestamp_is_even_and_after_the_arrival() {
    for (at, receive, expected) in [
        (1001, 501, 1000),
        (1000, 501, 1000),
        // Read before the arrival, as after a correction of the clock.
        (500, 501, 502),
        (0, 501, 502),
        // At the end of an era.
        (1, u64::MAX, 2),
        (4, u64::MAX - 10, 4),
        (u64::MAX - 20, u64::MAX, 2),
    ] {
        assert_eq!(
            transmit(Timestamp(at), Timestamp(receive)),
            Timestamp(expected),
            "{at} {receive}"
        );
    }
}
