//! Properties of packets with a message authentication code.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use proptest::prelude::*;
use truechimer_keys::{Algorithm, Key, Keys, Mac, Refusal, nak};

/// Keys of all algorithms, by the numbers 1 to 5, in a file.
fn keys() -> Keys {
    let lines: Vec<String> = (1..)
        .zip(Algorithm::ALL)
        .map(|(number, algorithm)| {
            let digits = "0f".repeat(*algorithm.key_len().start());
            format!("{number} {} HEX:{digits}", algorithm.name())
        })
        .collect();
    Keys::parse(&lines.join("\n"), "keys").unwrap()
}

fn header(bytes: [u8; 48], version: u8) -> [u8; 48] {
    let mut header = bytes;
    header[0] = header[0] & !0x38 | version << 3;
    header
}

fn any_header() -> impl Strategy<Value = [u8; 48]> {
    (proptest::collection::vec(any::<u8>(), 48), 1u8..5)
        .prop_map(|(bytes, version)| header(bytes.try_into().unwrap(), version))
}

/// Extension fields that are whole, of up to 60 bytes each.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let field = (any::<u16>(), 4usize..16, any::<u8>()).prop_map(|(kind, words, byte)| {
        let length = u16::try_from(4 * words).unwrap();
        let head = [kind.to_be_bytes(), length.to_be_bytes()].concat();
        [head, vec![byte; 4 * words - 4]].concat()
    });
    proptest::collection::vec(field, 0..4).prop_map(|fields| fields.concat())
}

proptest! {
    #[test]
    fn what_was_protected_is_opened(header in any_header(), number in 1u32..6, fields in fields()) {
        let keys = keys();
        let key = keys.get(number).unwrap();
        let version = header[0] >> 3 & 7;
        // Before version 4 there are no extension fields.
        let about = if version < 4 { header.to_vec() } else { [&header[..], &fields].concat() };
        let packet = key.protect(&about);
        let longest = if version < 4 { 68 } else { 24 };
        prop_assert!(packet.len() - about.len() <= longest);
        let mac = Mac::of(&packet).unwrap();
        prop_assert_eq!((mac.about, mac.number), (&about[..], number));
        prop_assert_eq!(keys.open(&packet).map(Key::number), Ok(number));
        prop_assert_eq!(key.accept(&packet), Ok(header));
    }

    #[test]
    fn a_changed_bit_proves_nothing(header in any_header(), number in 1u32..6, place: prop::sample::Index) {
        let keys = keys();
        let key = keys.get(number).unwrap();
        let mut packet = key.protect(&header);
        let bit = place.index(packet.len() * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(keys.open(&packet).is_err());
        prop_assert!(key.accept(&packet).is_err());
    }

    #[test]
    fn nothing_is_proven_by_bytes_of_strangers(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let keys = keys();
        prop_assert!(keys.open(&bytes).is_err());
        for number in 1..6 {
            prop_assert!(keys.get(number).unwrap().accept(&bytes).is_err());
        }
        if let Some(mac) = Mac::of(&bytes) {
            prop_assert_eq!(mac.about.len() + 4 + mac.code.len(), bytes.len());
            prop_assert!(mac.about.len() >= 48 && mac.code.len() >= 16);
        }
    }

    /// A cut code would be found by fewer tries.
    #[test]
    fn a_shorter_code_is_none(header in any_header(), number in 1u32..6, kept in 0usize..68) {
        let key = keys().get(number).unwrap().clone();
        let packet = key.protect(&header);
        let cut = &packet[..(48 + kept).min(packet.len() - 1)];
        prop_assert!(key.accept(cut).is_err());
    }
}

#[test]
fn refusals_say_why() {
    let keys = keys();
    let key = keys.get(1).unwrap();
    let header = header([7; 48], 4);
    assert_eq!(key.accept(&header), Err(Refusal::Unprotected));
    assert_eq!(key.accept(&header[..47]), Err(Refusal::Malformed));
    assert_eq!(key.accept(&nak(&header)), Err(Refusal::Nak));
    assert_eq!(key.accept(&keys.get(2).unwrap().protect(&header)), Err(Refusal::OtherKey(2)));
    let other = Key::new(1, Algorithm::Aes128, &[9; 16]).unwrap();
    assert_eq!(key.accept(&other.protect(&header)), Err(Refusal::Forged(1)));
    assert_eq!(keys.open(&other.protect(&header)).unwrap_err(), Refusal::Forged(1));
    let unknown = Key::new(6, Algorithm::Aes128, &[9; 16]).unwrap();
    assert_eq!(keys.open(&unknown.protect(&header)).unwrap_err(), Refusal::OtherKey(6));
    assert_eq!(keys.open(&header).unwrap_err(), Refusal::Unprotected);
}

/// The hash could be gone on with where it is whole: a longer packet of version 3 has no code at all.
#[test]
fn nothing_stands_between_header_and_code_before_version_4() {
    let keys = keys();
    let key = keys.get(5).unwrap();
    let longer = [&header([7; 48], 3)[..], &[0; 16]].concat();
    assert_eq!(key.accept(&key.protect(&longer)), Err(Refusal::Unprotected));
}
