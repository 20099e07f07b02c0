//! Both ends of an exchange: who accepts what, and what a refusal leaves behind.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};

use proptest::prelude::*;
use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{
    Association, Demand, LeapIndicator, Log2, Mode, Packet, RefId, Refusal, Short, Timestamp,
    WAITING,
};
use truechimer_time::Span;

use crate::drive::{SERVER, STATE, good_reply};

const ID: u64 = 0x0123_4567_89ab_cdef;

/// An association that waits for the reply to [`ID`].
fn waiting() -> Association {
    let mut association = Association::new(SERVER);
    let _ = association.request(ID);
    association
}

fn kiss(code: &[u8; 4]) -> Packet {
    Packet {
        leap: LeapIndicator::Unsynchronised,
        stratum: 0,
        reference_id: RefId(*code),
        receive_timestamp: Timestamp::UNKNOWN,
        transmit_timestamp: Timestamp::UNKNOWN,
        ..good_reply(Timestamp(ID))
    }
}

#[test]
fn every_bad_reply_is_refused_for_its_reason() {
    let good = good_reply(Timestamp(ID));
    let too_far = Span::from_millis(1500) + Log2(-24).span();
    let table: &[(&str, Packet, Refusal)] = &[
        (
            "our own request sent back",
            Packet { mode: Mode::Client, ..good },
            Refusal::WrongMode(Mode::Client),
        ),
        (
            "a broadcast",
            Packet { mode: Mode::Broadcast, ..good },
            Refusal::WrongMode(Mode::Broadcast),
        ),
        ("version 0", Packet { version: 0, ..good }, Refusal::BadVersion(0)),
        ("version 2", Packet { version: 2, ..good }, Refusal::BadVersion(2)),
        ("version 5", Packet { version: 5, ..good }, Refusal::BadVersion(5)),
        (
            "no origin",
            Packet { origin_timestamp: Timestamp::UNKNOWN, ..good },
            Refusal::WrongOrigin,
        ),
        (
            "a forged kiss",
            Packet { origin_timestamp: Timestamp(!ID), ..kiss(b"DENY") },
            Refusal::WrongOrigin,
        ),
        ("DENY", kiss(b"DENY"), Refusal::KissDeny),
        ("RSTR", kiss(b"RSTR"), Refusal::KissRestrict),
        ("RATE", kiss(b"RATE"), Refusal::KissRate),
        ("NKEY", kiss(b"NKEY"), Refusal::KissOther(RefId(*b"NKEY"))),
        ("unknown code", kiss(b"X\0\0\0"), Refusal::KissOther(RefId(*b"X\0\0\0"))),
        ("INIT", kiss(b"INIT"), Refusal::Unsynchronised),
        ("STEP", kiss(b"STEP"), Refusal::Unsynchronised),
        ("chronyd before it is synchronised", kiss(&[0; 4]), Refusal::Unsynchronised),
        (
            "leap indicator 3",
            Packet { leap: LeapIndicator::Unsynchronised, ..good },
            Refusal::Unsynchronised,
        ),
        (
            "stratum 0 without a code",
            Packet { stratum: 0, reference_id: RefId([1, 2, 3, 4]), ..good },
            Refusal::Stratum(0),
        ),
        ("stratum 16", Packet { stratum: 16, ..good }, Refusal::Stratum(16)),
        ("stratum 255", Packet { stratum: 255, ..good }, Refusal::Stratum(255)),
        (
            "no receive timestamp",
            Packet { receive_timestamp: Timestamp::UNKNOWN, ..good },
            Refusal::ZeroTimestamp,
        ),
        (
            "no transmit timestamp",
            Packet { transmit_timestamp: Timestamp::UNKNOWN, ..good },
            Refusal::ZeroTimestamp,
        ),
        (
            "sent before it came",
            Packet { transmit_timestamp: Timestamp(good.receive_timestamp.0 - 257), ..good },
            Refusal::TransmitBeforeReceive,
        ),
        (
            "a root delay of 3 s",
            Packet { root_delay: Short(3 << 16), root_dispersion: Short(0), ..good },
            Refusal::RootDistance(too_far),
        ),
        (
            "a root dispersion of 1.5 s",
            Packet { root_delay: Short(0), root_dispersion: Short(3 << 15), ..good },
            Refusal::RootDistance(too_far),
        ),
        (
            "a precision of 2 s",
            Packet { precision: Log2(1), root_delay: Short(0), root_dispersion: Short(0), ..good },
            Refusal::RootDistance(Span::from_secs(2)),
        ),
    ];
    for (what, packet, refusal) in table {
        let mut association = waiting();
        let result = association.accept(&packet.encode(), SERVER);
        assert_eq!(result, Err(*refusal), "{what}");
        assert_eq!(association.refused().of(*refusal), 1, "{what}");
        assert_eq!(association.refused().total(), 1, "{what}");
        assert_eq!(association.is_waiting(), refusal.demand().is_none(), "{what}");
        // A good reply is still welcome, unless the server had its say.
        let good = association.accept(&good.encode(), SERVER).map(|reply| reply.stratum);
        let expected = if refusal.demand().is_none() { Ok(1) } else { Err(Refusal::Duplicate) };
        assert_eq!(good, expected, "{what}");
    }
}

#[test]
fn the_limits_themselves_are_accepted() {
    let good = good_reply(Timestamp(ID));
    for (what, packet) in [
        ("version 3", Packet { version: 3, ..good }),
        ("stratum 15", Packet { stratum: 15, ..good }),
        ("leap", Packet { leap: LeapIndicator::Delete, ..good }),
        ("no residence", Packet { transmit_timestamp: good.receive_timestamp, ..good }),
        (
            "random bits below a precision of 2⁻²⁴ s",
            Packet { transmit_timestamp: Timestamp(good.receive_timestamp.0 - 256), ..good },
        ),
        (
            "almost 1.5 s",
            Packet { root_delay: Short(0), root_dispersion: Short((3 << 15) - 1), ..good },
        ),
        (
            "residence across the era",
            Packet {
                receive_timestamp: Timestamp(u64::MAX),
                transmit_timestamp: Timestamp(9),
                ..good
            },
        ),
    ] {
        let reply = waiting().accept(&packet.encode(), SERVER);
        assert!(reply.is_ok(), "{what}: {reply:?}");
    }
}

#[test]
fn too_short_by_a_byte() {
    let bytes = good_reply(Timestamp(ID)).encode();
    for len in 0..bytes.len() {
        let result = waiting().accept(&bytes[..len], SERVER);
        assert_eq!(result, Err(Refusal::TooShort(len)));
    }
}

#[test]
fn extension_fields_are_passed_over_and_counted() {
    let mut bytes = good_reply(Timestamp(ID)).encode().to_vec();
    bytes.extend([0x01, 0x04, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let reply = waiting().accept(&bytes, SERVER).unwrap();
    assert_eq!(reply.unread, 16);
}

#[test]
fn only_the_server_itself_is_heard() {
    let bytes = good_reply(Timestamp(ID)).encode();
    for from in ["192.0.2.1:124", "192.0.2.2:123", "[2001:db8::1]:123"] {
        let from: SocketAddr = from.parse().unwrap();
        let mut association = waiting();
        assert_eq!(association.accept(&bytes, from), Err(Refusal::WrongAddress(from)));
        assert!(association.accept(&bytes, SERVER).is_ok());
    }
    // The same address by another name.
    let mapped = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into(), 123);
    assert!(waiting().accept(&bytes, mapped).is_ok());
}

#[test]
fn the_scope_of_an_address_counts_where_both_sides_know_it() {
    let link_local =
        |scope| SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 123, 7, scope));
    let heard = |asked, from| {
        let mut association = Association::new(link_local(asked));
        let _ = association.request(ID);
        association.accept(&good_reply(Timestamp(ID)).encode(), link_local(from)).is_ok()
    };
    assert!(heard(2, 2) && heard(0, 2) && heard(2, 0));
    assert!(!heard(2, 3));
}

#[test]
fn of_a_flood_the_first_is_taken_and_the_rest_counted() {
    let mut association = waiting();
    let good = good_reply(Timestamp(ID)).encode();
    let forged = good_reply(Timestamp(ID + 1)).encode();
    for _ in 0..1000 {
        assert_eq!(association.accept(&forged, SERVER), Err(Refusal::WrongOrigin));
    }
    assert!(association.accept(&good, SERVER).is_ok());
    for _ in 0..1000 {
        assert_eq!(association.accept(&good, SERVER), Err(Refusal::Duplicate));
    }
    let counts: Vec<_> = association.refused().iter().collect();
    assert_eq!(counts, [("wrong-origin", 1000), ("duplicate", 1000)]);
}

#[test]
fn replies_to_earlier_requests_are_taken_until_a_later_one_is_answered() {
    let reply = |id| good_reply(Timestamp(id)).encode();
    let mut association = Association::new(SERVER);
    let ask = |association: &mut Association, ids: std::ops::Range<u64>| {
        ids.for_each(|id| _ = association.request(id));
    };
    ask(&mut association, 1..4);
    let older = association.accept(&reply(2), SERVER).unwrap();
    assert_eq!(older.later_requests, 1);
    assert_eq!(association.accept(&reply(1), SERVER), Err(Refusal::Late));
    assert_eq!(association.accept(&reply(2), SERVER), Err(Refusal::Duplicate));
    assert!(association.is_waiting(), "the newest still may come");
    assert_eq!(association.accept(&reply(3), SERVER).unwrap().later_requests, 0);
    ask(&mut association, 4..4 + WAITING as u64);
    assert_eq!(association.accept(&reply(3), SERVER), Err(Refusal::WrongOrigin));
    let oldest = association.accept(&reply(4), SERVER).unwrap();
    assert_eq!(oldest.later_requests, WAITING - 1);
    association.give_up();
    assert_eq!(association.accept(&reply(5), SERVER), Err(Refusal::Late));
    assert!(!association.is_waiting());
}

#[test]
fn nothing_is_accepted_before_the_first_request_or_after_a_move() {
    let good = good_reply(Timestamp(ID)).encode();
    let mut association = Association::new(SERVER);
    assert_eq!(association.accept(&good, SERVER), Err(Refusal::WrongOrigin));
    let _ = association.request(ID);
    association.move_to(SERVER);
    assert_eq!(association.accept(&good, SERVER), Err(Refusal::WrongOrigin));
    assert_eq!(association.refused().total(), 2);
}

#[test]
fn a_kiss_demands_once() {
    for (code, demand) in
        [(b"DENY", Demand::Stop), (b"RSTR", Demand::Stop), (b"RATE", Demand::SlowDown)]
    {
        let mut association = waiting();
        let bytes = kiss(code).encode();
        let refusal = association.accept(&bytes, SERVER).unwrap_err();
        assert_eq!(refusal.demand(), Some(demand));
        assert_eq!(association.accept(&bytes, SERVER), Err(Refusal::Duplicate));
    }
}

#[test]
fn a_random_number_of_zero_is_replaced() {
    let mut association = Association::new(SERVER);
    let request = association.request(0);
    let (packet, _) = Packet::decode(&request).unwrap();
    assert!(!packet.transmit_timestamp.is_unknown());
    let good = good_reply(packet.transmit_timestamp).encode();
    assert!(association.accept(&good, SERVER).is_ok());
}

#[test]
fn the_server_answers_clients_only() {
    let request = waiting().request(ID);
    let answered = |flags: u8| {
        let mut bytes = request;
        bytes[0] = flags;
        respond(&bytes, Timestamp(1), Timestamp(2), &STATE).is_some()
    };
    for flags in 0..=255u8 {
        let (version, mode) = (flags >> 3 & 7, flags & 7);
        assert_eq!(answered(flags), mode == 3 && (1..=4).contains(&version), "{flags:#o}");
    }
    assert_eq!(respond(&request[..47], Timestamp(1), Timestamp(2), &STATE), None);
}

#[test]
fn an_unsynchronised_server_says_so() {
    let state = ServerState {
        leap: LeapIndicator::Unsynchronised,
        stratum: 16,
        reference_id: RefId(*b"INIT"),
        ..STATE
    };
    let mut association = Association::new(SERVER);
    let request = association.request(ID);
    let bytes = respond(&request, Timestamp(1), Timestamp(2), &state).unwrap();
    assert_eq!(Packet::decode(&bytes).unwrap().0.stratum, 0);
    assert_eq!(association.accept(&bytes, SERVER), Err(Refusal::Unsynchronised));
}

fn any_good_state() -> impl Strategy<Value = ServerState> {
    (0..3u8, 1..16u8, -30..-1i8, 0..0x8000u32, 0..0x8000u32, any::<([u8; 4], u64)>()).prop_map(
        |(leap, stratum, precision, delay, dispersion, (id, reference))| ServerState {
            leap: LeapIndicator::from_bits(leap),
            stratum,
            precision: Log2(precision),
            root_delay: Short(delay),
            root_dispersion: Short(dispersion),
            reference_id: RefId(id),
            reference_timestamp: Timestamp(reference),
        },
    )
}

proptest! {
    #[test]
    fn who_asked_is_answered_and_nobody_else(
        state in any_good_state(), mine: u64, theirs: u64, arrived in 1u64.., stay in 0..1u64 << 40,
    ) {
        prop_assume!(mine != theirs && mine != 0 && theirs != 0);
        let left = Timestamp(arrived.wrapping_add(stay));
        prop_assume!(!left.is_unknown());
        let (mut me, mut them) = (Association::new(SERVER), Association::new(SERVER));
        let (request, _) = (me.request(mine), them.request(theirs));
        let bytes = respond(&request, Timestamp(arrived), left, &state).unwrap();
        prop_assert_eq!(them.accept(&bytes, SERVER), Err(Refusal::WrongOrigin));
        let reply = me.accept(&bytes, SERVER).unwrap();
        prop_assert_eq!((reply.receive, reply.transmit), (Timestamp(arrived), left));
        prop_assert_eq!(reply.residence(), Span(i128::from(stay) << 32));
        prop_assert_eq!((reply.leap, reply.stratum), (state.leap, state.stratum));
        prop_assert_eq!(reply.precision, state.precision);
        prop_assert_eq!(reply.root_delay, state.root_delay.span());
        prop_assert_eq!(reply.root_dispersion, state.root_dispersion.span());
        prop_assert_eq!(reply.reference_id, state.reference_id);
        prop_assert_eq!(reply.reference_timestamp, state.reference_timestamp);
    }

    #[test]
    fn one_wrong_bit_in_the_origin_is_enough(id in 1u64.., bit in 0..64u32) {
        let mut association = Association::new(SERVER);
        let _ = association.request(id);
        let bytes = good_reply(Timestamp(id ^ (1 << bit))).encode();
        prop_assert_eq!(association.accept(&bytes, SERVER), Err(Refusal::WrongOrigin));
        prop_assert!(association.is_waiting());
    }
}

/// Of interleaved mode, the request and both possible answers.
#[test]
fn what_comes_back_says_which_mode_it_is_of() {
    let mut association = Association::new(SERVER);
    let ask = |association: &mut Association, random: u64, other: u64| {
        Packet::decode(&association.request_interleaved(random, other)).unwrap().0
    };
    // Nothing was heard yet: as in basic mode.
    let first = ask(&mut association, 1, 2);
    assert!(first.origin_timestamp.is_unknown() && first.receive_timestamp.is_unknown());
    let good = good_reply(first.transmit_timestamp);
    let reply = association.accept(&good.encode(), SERVER).unwrap();
    assert_eq!(reply.interleaved, None);
    let (t2, t3) = (reply.receive, reply.transmit);
    for (random, other) in [(7, 9), (0, 0), (5, 5), (u64::MAX, 0)] {
        let mut association = association.clone();
        let request = ask(&mut association, random, other);
        assert_eq!(request.origin_timestamp, t2);
        assert_ne!(request.receive_timestamp, request.transmit_timestamp);
        assert!(!request.receive_timestamp.is_unknown());
        let later = Timestamp(t2.0 + (16 << 32));
        let answer = |origin, transmit| {
            let packet = Packet {
                origin_timestamp: origin,
                receive_timestamp: later,
                transmit_timestamp: transmit,
                ..good
            };
            packet.encode()
        };
        let (id, named) = (request.transmit_timestamp, request.receive_timestamp);
        let mut basic = association.clone();
        let reply = basic.accept(&answer(id, later), SERVER).unwrap();
        assert_eq!((reply.interleaved, reply.receive), (None, later));
        let second = association.clone().accept(&answer(named, t3), SERVER).unwrap();
        assert_eq!((second.interleaved, second.receive, second.transmit), (Some(t2), later, t3));
        // The departure of the reply before lies between its arrival and the next one's.
        for wrong in [Timestamp(t2.0 - (1 << 32)), Timestamp(later.0 + (1 << 32))] {
            let refused = association.clone().accept(&answer(named, wrong), SERVER);
            assert_eq!(refused, Err(Refusal::TransmitBeforeReceive));
        }
        // Of both answers the first that comes counts.
        assert!(association.accept(&answer(named, t3), SERVER).is_ok());
        for origin in [id, named] {
            let again = association.accept(&answer(origin, t3), SERVER);
            assert_eq!(again, Err(Refusal::Duplicate));
        }
        assert_eq!(association.accept(&answer(t2, t3), SERVER), Err(Refusal::WrongOrigin));
        let _ = association.request(33);
        assert_eq!(association.accept(&answer(named, t3), SERVER), Err(Refusal::Duplicate));
    }
}
