//! The codec: the layout of the standard, and that reading undoes writing.

use proptest::prelude::*;
use truechimer_ptp::{
    Announce, Body, ClockIdentity, ClockQuality, Correction, Flags, Header, Kind, LogInterval,
    Malformed, Message, PortIdentity, Timestamp, Tlv, Wire,
};
use truechimer_time::{Instant, Span};

use crate::drive;

/// An `Announce` of linuxptp 4.0, written out by hand from tables 35 and 43.
#[rustfmt::skip]
const ANNOUNCE: [u8; 64] = [
    0x0b, 0x12, 0, 64, 3, 0, 0x00, 0x3c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0x02, 0x42, 0xac, 0xff, 0xfe, 0x11, 0x00, 0x02, 0, 1, 0x01, 0x23, 5, 1,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 37, 0, 127, 6, 0x21, 0x4e, 0x5d, 128,
    0x02, 0x42, 0xac, 0xff, 0xfe, 0x11, 0x00, 0x09, 0, 1, 0x20,
];

#[test]
fn the_layout_is_that_of_the_standard() {
    let message = Message::decode(&ANNOUNCE).unwrap();
    let Body::Announce(announce) = message.body else { panic!("{message:?}") };
    let Header { domain, flags, source, sequence, interval, .. } = message.header;
    assert_eq!((domain, sequence, interval), (3, 0x0123, LogInterval(1)));
    assert!(flags.has(Flags::PTP_TIMESCALE.and(Flags::UTC_OFFSET_VALID)));
    assert!(flags.has(Flags::TIME_TRACEABLE) && !flags.has(Flags::LEAP_61));
    assert_eq!(source.to_string(), "02-42-ac-ff-fe-11-00-02 port 1");
    assert_eq!(announce.quality, ClockQuality { class: 6, accuracy: 0x21, variance: 0x4e5d });
    assert_eq!((announce.priority1, announce.priority2), (127, 128));
    assert_eq!((announce.utc_offset, announce.steps_removed, announce.time_source), (37, 1, 0x20));
    assert_eq!(announce.grandmaster.to_string(), "02-42-ac-ff-fe-11-00-09");
    assert_eq!(announce.quality.accuracy(), Some(Span::from_nanos(100)));
    let mut buffer = [0; 64];
    assert_eq!(message.encode(&mut buffer), Some(&ANNOUNCE[..]));
}

#[test]
fn what_is_no_message_is_told_apart() {
    assert_eq!(Message::decode(&[]), Err(Malformed::TooShort(0)));
    assert_eq!(Message::decode(&ANNOUNCE[..63]), Err(Malformed::TooShort(63)));
    let with = |at: usize, byte: u8| {
        let mut bytes = ANNOUNCE;
        bytes[at] = byte;
        bytes
    };
    assert_eq!(Message::decode(&with(1, 1)), Err(Malformed::Version(1)));
    assert_eq!(Message::decode(&with(0, 5)), Err(Malformed::Kind(5)));
    // Stated to be shorter than its body.
    assert_eq!(Message::decode(&with(3, 63)), Err(Malformed::TooShort(63)));
    // Padding is no TLV.
    let mut padded = ANNOUNCE.to_vec();
    padded.extend([0, 4, 0, 0]);
    assert_eq!(Message::decode(&padded).unwrap().tlvs().count(), 0);
    assert!(Message::decode(&with(1, 0x02)).is_ok(), "2008");
}

#[test]
fn corrections_and_times_have_their_units() {
    assert_eq!(Correction(3 << 16).span(), Some(Span::from_nanos(3)));
    assert_eq!(Correction(-(5 << 16)).span(), Some(Span::from_nanos(-5)));
    assert_eq!(Correction(0x8000).span().unwrap().as_picos(), 500);
    assert_eq!(Correction::TOO_LARGE.span(), None);
    let time = |seconds, nanos| Timestamp { seconds, nanos }.instant();
    assert_eq!(time(7, 999_999_999), Some(Instant::new(7, 0) + Span::from_nanos(999_999_999)));
    assert_eq!(time(7, 1_000_000_000), None);
    assert_eq!(LogInterval(-3).within(-7, 4), Some(Span::from_millis(125)));
    assert_eq!(LogInterval(100).within(-7, 4), Some(Span::from_secs(16)));
    assert_eq!(LogInterval::NONE.within(-7, 4), None);
}

#[test]
fn accuracies_are_those_of_table_5() {
    let of = |accuracy| ClockQuality { accuracy, ..ClockQuality::default() }.accuracy();
    assert_eq!(of(0x20), Some(Span::from_nanos(25)));
    assert_eq!(of(0x23), Some(Span::from_micros(1)));
    assert_eq!(of(0x29), Some(Span::from_millis(1)));
    assert_eq!(of(0x2f), Some(Span::from_secs(1)));
    assert_eq!(of(0x30), Some(Span::from_secs(10)));
    for unknown in [0, 0x16, 0x31, 0x80, 0xfe, 0xff] {
        assert_eq!(of(unknown), None, "{unknown:#x}");
    }
}

fn port() -> impl Strategy<Value = PortIdentity> {
    (any::<[u8; 8]>(), any::<u16>())
        .prop_map(|(clock, port)| PortIdentity { clock: ClockIdentity(clock), port })
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..1_u64 << 48, any::<u32>()).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn announce() -> impl Strategy<Value = Announce> {
    (time(), any::<i16>(), any::<[u8; 5]>(), any::<(u16, u16)>(), any::<[u8; 8]>()).prop_map(
        |(origin, utc_offset, bytes, (variance, steps_removed), grandmaster)| Announce {
            origin,
            utc_offset,
            priority1: bytes[0],
            quality: ClockQuality { class: bytes[1], accuracy: bytes[2], variance },
            priority2: bytes[3],
            grandmaster: ClockIdentity(grandmaster),
            steps_removed,
            time_source: bytes[4],
        },
    )
}

fn header() -> impl Strategy<Value = Header> {
    (
        (0..0x1000_u16, 0..16_u8, any::<u8>(), any::<u16>()),
        any::<i64>(),
        any::<[u8; 4]>(),
        port(),
        any::<(u16, i8)>(),
    )
        .prop_map(
            |(
                (sdo_id, minor_version, domain, flags),
                correction,
                specific,
                source,
                (sequence, interval),
            )| {
                Header {
                    sdo_id,
                    minor_version,
                    domain,
                    flags: Flags(flags),
                    correction: Correction(correction),
                    specific,
                    source,
                    sequence,
                    interval: LogInterval(interval),
                }
            },
        )
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        time().prop_map(Body::Sync),
        time().prop_map(Body::DelayReq),
        time().prop_map(Body::PdelayReq),
        (time(), port()).prop_map(|(t, p)| Body::PdelayResp(t, p)),
        time().prop_map(Body::FollowUp),
        (time(), port()).prop_map(|(t, p)| Body::DelayResp(t, p)),
        (time(), port()).prop_map(|(t, p)| Body::PdelayRespFollowUp(t, p)),
        announce().prop_map(Body::Announce),
        port().prop_map(Body::Signaling),
        Just(Body::Management),
    ]
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(
        header in header(),
        body in body(),
        rest in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let message = Message { header, body, rest: &rest };
        let mut buffer = [0; 256];
        let bytes = message.encode(&mut buffer).unwrap();
        prop_assert_eq!(Message::decode(bytes), Ok(message));
    }

    #[test]
    fn tlvs_follow_one_another(
        (interval, seconds, renewed) in any::<(i8, u32, bool)>(),
        value in proptest::collection::vec(any::<u8>(), 0..40),
        kind in 0x2000_u16..,
        bits in 0..16_u8,
    ) {
        let (wire, interval) = (Wire::from_bits(bits), LogInterval(interval));
        let all = [
            Tlv::Request(wire, interval, seconds),
            Tlv::Other(kind, &value),
            Tlv::Grant { kind: wire, interval, seconds, renewed },
            Tlv::Cancel(wire),
            Tlv::Acknowledge(Wire::of(Kind::Sync)),
        ];
        let mut bytes = Vec::new();
        for tlv in all {
            bytes.extend_from_slice(tlv.encode(&mut [0; 64]).unwrap());
        }
        // What is cut off is left out, with what would follow.
        bytes.extend([0x20, 0, 0, 9, 1]);
        let header = Header::default();
        let body = Body::Signaling(PortIdentity::default());
        let mut buffer = [0; 256];
        let message = Message { header, body, rest: &bytes };
        let written = message.encode(&mut buffer).unwrap();
        let read: Vec<Tlv<'_>> = Message::decode(written).unwrap().tlvs().collect();
        prop_assert_eq!(read, all);
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        drive::message(&bytes);
        // Nearly a message.
        if bytes.len() >= 4 {
            bytes[1] = (bytes[1] & 0xf0) | 2;
            (bytes[2], bytes[3]) = (0, bytes.len() as u8);
            drive::message(&bytes);
        }
    }

    #[test]
    fn any_script_leaves_a_slave_sane(script in proptest::collection::vec(any::<u8>(), 0..400)) {
        drive::slave(&script);
    }

    /// Messages that are nearly right alone: far into what a port may be in, by group and by address.
    #[test]
    fn any_likely_script_leaves_a_slave_sane(
        first in 0_usize..8,
        steps in proptest::collection::vec(any::<[u8; 2]>(), 0..400),
    ) {
        let mut script = vec![first as u8, 0, 0];
        script.resize(3 + first, 0);
        script.extend(steps.iter().flat_map(|[what, step]| [0, *what, *step]));
        drive::slave(&script);
    }
}
