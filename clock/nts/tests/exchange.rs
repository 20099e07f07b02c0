//! Records of the key exchange: what one end writes the other reads, and nobody trips over what is none.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use truechimer_nts::Aead;
use truechimer_nts::exchange::{
    Agreement, Mistake, agreement, answer, asked, contexts, is_whole, refuse, request,
};

fn record(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut record = kind.to_be_bytes().to_vec();
    record.extend_from_slice(&(body.len() as u16).to_be_bytes());
    record.extend_from_slice(body);
    record
}

/// A server's message that a client agrees to.
fn good() -> Vec<Vec<u8>> {
    vec![
        record(0x8001, &[0, 0]),
        record(0x8004, &[0, 15]),
        record(5, &[1; 100]),
        record(5, &[2; 100]),
        record(0x8000, &[]),
    ]
}

#[test]
fn a_request_is_as_the_standard_has_it() {
    let message = request(&[Aead::SivCmac256]);
    assert_eq!(message, [0x80, 1, 0, 2, 0, 0, 0x80, 4, 0, 2, 0, 15, 0x80, 0, 0, 0]);
    assert_eq!(contexts(Aead::SivCmac256), [[0, 0, 0, 15, 0], [0, 0, 0, 15, 1]]);
    let both = asked(&request(&Aead::ALL)).unwrap();
    assert_eq!((both.aead, both.ntp), (Some(Aead::SivCmac256), true));
}

#[test]
fn both_ends_agree() {
    for aead in Aead::ALL {
        let asked = asked(&request(&[aead])).unwrap();
        let cookies = vec![vec![3; 104], vec![4; 104]];
        let message = answer(&asked, &cookies, 1123);
        let wanted = Agreement { aead, cookies: cookies.clone(), server: None, port: Some(1123) };
        assert_eq!(agreement(&message, &Aead::ALL), Ok(wanted));
        assert_eq!(agreement(&answer(&asked, &cookies, 123), &Aead::ALL).unwrap().port, None);
        let other = Aead::ALL.into_iter().find(|other| *other != aead).unwrap();
        assert_eq!(agreement(&message, &[other]), Err(Mistake::NoAlgorithm), "not asked for");
        assert_eq!(agreement(&answer(&asked, &[], 123), &Aead::ALL), Err(Mistake::NoCookie));
    }
    let none = asked(&request(&[])).unwrap();
    assert_eq!(agreement(&answer(&none, &[], 123), &Aead::ALL), Err(Mistake::NoAlgorithm));
}

#[test]
fn mistakes_are_named() {
    let with = |place: usize, record: Vec<u8>| {
        let mut records = good();
        records.insert(place, record);
        agreement(&records.concat(), &Aead::ALL)
    };
    assert!(agreement(&good().concat(), &Aead::ALL).is_ok());
    assert_eq!(with(0, record(0x8002, &[0, 1])), Err(Mistake::Error(1)));
    assert_eq!(with(0, record(0x8003, &[0, 9])), Err(Mistake::Warning(9)));
    assert_eq!(with(0, record(0x8099, &[])), Err(Mistake::Unknown(0x99)));
    assert!(with(0, record(0x99, &[1, 2])).is_ok(), "of no consequence");
    assert_eq!(with(2, record(0x8004, &[0, 15])), Err(Mistake::Record(4)));
    assert_eq!(with(0, record(7, &[0])), Err(Mistake::Record(7)));
    assert_eq!(with(0, record(7, &[0, 0])), Err(Mistake::Record(7)));
    let server = with(0, record(0x8006, b"time.example.org")).unwrap().server;
    assert_eq!(server.as_deref(), Some("time.example.org"));
    for bad in [&b""[..], b"a b", b"a\nb", &[0xff, 0xfe], &[b'a'; 256]] {
        assert_eq!(with(0, record(6, bad)), Err(Mistake::Record(6)));
    }
    let whole = good().concat();
    for length in 0..whole.len() {
        assert_eq!(agreement(&whole[..length], &Aead::ALL), Err(Mistake::Short));
        assert!(!is_whole(&whole[..length]));
    }
    assert!(is_whole(&whole));
    assert_eq!(agreement(&good()[1..].concat(), &Aead::ALL), Err(Mistake::NoProtocol));
    // To a client that makes mistakes.
    let critical = asked(&[record(0x8099, &[]), request(&Aead::ALL)].concat()).unwrap_err();
    assert_eq!(critical, Mistake::Unknown(0x99));
    assert_eq!(agreement(&refuse(&critical), &Aead::ALL), Err(Mistake::Error(0)));
    assert_eq!(agreement(&refuse(&Mistake::Short), &Aead::ALL), Err(Mistake::Error(1)));
    assert_eq!(asked(&record(0x8000, &[])), Err(Mistake::Record(1)));
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), pieces in prop::collection::vec((0u16..9, any::<bool>(), prop::collection::vec(any::<u8>(), 0..9)), 0..12)) {
        let _ = (agreement(&bytes, &Aead::ALL), asked(&bytes), is_whole(&bytes));
        let message: Vec<u8> = pieces
            .into_iter()
            .flat_map(|(kind, critical, body)| record(if critical { kind | 0x8000 } else { kind }, &body))
            .collect();
        let _ = (agreement(&message, &Aead::ALL), asked(&message), is_whole(&message));
    }
}
