//! Client and server of one association: each against the other, and against a network that changes
//! what it carries.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use proptest::prelude::*;
use truechimer_ntp::WAITING;
use truechimer_nts::{
    Aead, COOKIES, Closed, Cookies, Keys, LONGEST, Refusal, Session, Unprotected, nak,
};

/// Numbers that anybody can guess, for tests.
fn dice(mut state: u64) -> impl FnMut(&mut [u8]) {
    move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    }
}

fn keys(aead: Aead) -> Keys {
    let [to_server, to_client] = [1, 2].map(|byte| vec![byte; aead.key_len()]);
    Keys::new(aead, &to_server, &to_client).unwrap()
}

/// A client with so many cookies, and its server.
fn both(aead: Aead, cookies: usize) -> (Session, Cookies) {
    let mut random = dice(1);
    let server = Cookies::new(&mut random);
    let first = (0..cookies).map(|_| server.bake(&keys(aead), &mut random)).collect();
    (Session::new(keys(aead), first), server)
}

const ASK: [u8; 48] = [0x23; 48];
const TELL: [u8; 48] = [0x24; 48];

#[test]
fn cookies_are_spent_and_come_back() {
    for aead in Aead::ALL {
        let (mut client, server) = both(aead, COOKIES);
        let mut random = dice(2);
        let mut seen = std::collections::HashSet::new();
        for lost in [0usize, 0, 1, 2, 7, 0, 3, 0] {
            for _ in 0..lost {
                client.protect(&ASK, &mut random).unwrap();
            }
            let left = client.cookies().len();
            let request = client.protect(&ASK, &mut random).unwrap();
            assert_eq!(request[..48], ASK);
            assert!(request.len() <= LONGEST);
            let opened = server.open(&request).unwrap();
            let reply = server.protect(&TELL, &opened, &mut random);
            assert!(reply.len() <= request.len(), "a reply that is longer amplifies");
            assert_eq!(client.accept(&reply), Ok(TELL));
            // All that were missing, as far as the longest packet has room.
            let now = client.cookies().len();
            assert!(now == COOKIES || now > left && aead == Aead::SivCmac256, "{left} {now}");
            assert!(client.cookies().all(|cookie| seen.insert(cookie.to_vec()) || now > 1));
            assert_eq!(client.accept(&reply), Err(Refusal::Unasked), "a copy");
        }
    }
}

#[test]
fn without_replies_the_cookies_run_out() {
    let (mut client, _) = both(Aead::SivCmac256, COOKIES);
    let mut random = dice(3);
    for _ in 0..COOKIES {
        client.protect(&ASK, &mut random).unwrap();
    }
    assert_eq!(client.protect(&ASK, &mut random), Err(Unprotected::NoCookies));
}

/// Replies that take longer than until the next request.
#[test]
fn a_late_reply_is_taken_until_a_later_one_was() {
    let (mut client, server) = both(Aead::SivCmac256, COOKIES);
    let mut random = dice(5);
    let mut ask = |client: &mut Session| client.protect(&ASK, &mut random).unwrap();
    let requests: Vec<Vec<u8>> = (0..=WAITING).map(|_| ask(&mut client)).collect();
    let mut random = dice(6);
    let replies: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| server.protect(&TELL, &server.open(request).unwrap(), &mut random))
        .collect();
    assert_eq!(client.accept(&replies[0]), Err(Refusal::NotOurs), "too old");
    assert_eq!(client.accept(&replies[2]), Ok(TELL));
    assert_eq!(client.accept(&replies[1]), Err(Refusal::NotOurs), "older than the one before");
    assert_eq!(client.accept(&replies[2]), Err(Refusal::NotOurs), "a copy");
    assert_eq!(client.accept(&replies[WAITING]), Ok(TELL));
    assert_eq!(client.accept(&replies[3]), Err(Refusal::Unasked));
}

/// Whatever a NAK says counts only until somebody proves who he is.
#[test]
fn a_word_without_proof_ends_nothing_by_itself() {
    let (mut client, server) = both(Aead::SivCmac256, COOKIES);
    let mut random = dice(4);
    let mut kiss = [0; 48];
    kiss[0] = 0xe4;
    kiss[12..16].copy_from_slice(b"NTSN");
    let request = client.protect(&ASK, &mut random).unwrap();
    let unique = request[52..84].to_vec();
    assert_eq!(client.accept(&nak(&kiss, &[0; 32])), Err(Refusal::NotOurs));
    assert_eq!(client.accept(&nak(&kiss, &unique)), Err(Refusal::Nak));
    let reply = server.protect(&TELL, &server.open(&request).unwrap(), &mut random);
    assert_eq!(client.accept(&reply), Ok(TELL), "the server's own reply came later");
    // Here nothing came after it.
    let request = client.protect(&ASK, &mut random).unwrap();
    assert_eq!(client.accept(&nak(&kiss, &request[52..84])), Err(Refusal::Nak));
    assert_eq!(client.protect(&ASK, &mut random), Err(Unprotected::Nak));
}

#[test]
fn keys_go_out_of_use_after_two_others() {
    let (mut client, mut server) = both(Aead::SivCmac256, COOKIES);
    let mut random = dice(5);
    for turn in 0..4 {
        let request = client.protect(&ASK, &mut random).unwrap();
        match server.open(&request) {
            Ok(_) => assert!(turn < 3),
            Err(Closed { refusal, nak }) => {
                assert_eq!((turn, refusal), (3, Refusal::NoCookie));
                assert_eq!(nak.as_deref(), Some(&request[52..84]));
            }
        }
        server.rotate(&mut random);
    }
    // A server that starts again with what it kept knows its clients.
    let again = Cookies::from_bytes(&server.bytes()).unwrap();
    let cookie = server.bake(&keys(Aead::GcmSiv128), &mut random);
    let mut client = Session::new(keys(Aead::GcmSiv128), vec![cookie]);
    assert!(again.open(&client.protect(&ASK, &mut random).unwrap()).is_ok());
    assert!(Cookies::from_bytes(&server.bytes()[1..]).is_none());
    assert!(Cookies::from_bytes(&[]).is_none());
}

proptest! {
    /// Nothing that was changed on the way is taken in, whichever byte it was; and the reply as it was
    /// is taken in after all that.
    #[test]
    fn a_changed_reply_is_none(seed: u64, changes in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..8), gcm: bool) {
        let (mut client, server) = both(if gcm { Aead::GcmSiv128 } else { Aead::SivCmac256 }, 6);
        let mut random = dice(seed);
        let request = client.protect(&ASK, &mut random).unwrap();
        let reply = server.protect(&TELL, &server.open(&request).unwrap(), &mut random);
        for (place, by) in changes {
            let mut other = reply.clone();
            let place = place.index(other.len());
            other[place] ^= by;
            let refusal = client.accept(&other);
            prop_assert!(refusal.is_err(), "byte {place}");
        }
        prop_assert_eq!(client.accept(&reply), Ok(TELL));
    }

    /// Likewise a request: what the authenticator covers cannot be changed.
    #[test]
    fn a_changed_request_is_none(seed: u64, place: prop::sample::Index, by in 1u8..) {
        let (mut client, server) = both(Aead::SivCmac256, 3);
        let mut request = client.protect(&ASK, &mut dice(seed)).unwrap();
        let place = place.index(request.len());
        request[place] ^= by;
        prop_assert!(server.open(&request).is_err(), "byte {}", place);
    }

    /// Neither end trips over any bytes.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400), pieces in prop::collection::vec((0u16..6, 0u16..40, any::<u8>()), 0..12)) {
        let (mut client, server) = both(Aead::SivCmac256, 3);
        client.protect(&ASK, &mut dice(9)).unwrap();
        prop_assert!(client.accept(&bytes).is_err());
        prop_assert!(server.open(&bytes).is_err());
        // Fields that nearly fit.
        let mut packet = ASK.to_vec();
        for (kind, words, fill) in pieces {
            packet.extend_from_slice(&(kind << 8 | 4).to_be_bytes());
            packet.extend_from_slice(&(words * 4).to_be_bytes());
            packet.extend(std::iter::repeat_n(fill, (usize::from(words) * 4).saturating_sub(4)));
        }
        prop_assert!(client.accept(&packet).is_err());
        prop_assert!(server.open(&packet).is_err());
    }
}
