//! Both ends under sealed fields of any bytes, by keys that are known: what the fuzz target `nts_packet` and a test drive.

use crate::field::{self, AUTHENTICATOR, COOKIE, Fields, UNIQUE};
use crate::{Aead, COOKIES, Cookies, HEADER, Keys, Session};

/// Seals these bytes in a reply and in a request that are authentic, and has them read: the client keeps what are cookies,
/// never more than its number, and the server answers with a packet that is no longer than the request.
///
/// # Panics
/// If not.
pub fn check_sealed(bytes: &[u8]) {
    for aead in Aead::ALL {
        sealed_by(aead, bytes);
    }
}

fn sealed_by(aead: Aead, bytes: &[u8]) {
    let mut state = 1u8;
    let mut random = |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(5).wrapping_add(1);
            *byte = state;
        }
    };
    let key = |byte| vec![byte; aead.key_len()];
    let keys = Keys::new(aead, &key(1), &key(2)).expect("as long as they must be");
    let server = Cookies::new(&mut random);
    let cookie = server.bake(&keys, &mut random);
    let mut client = Session::new(keys.clone(), vec![cookie.clone()]);
    let header = [0x24; HEADER];
    let request = client.protect(&header, &mut random).expect("there is a cookie");
    let unique = Fields::of_packet(&request).flatten().find(|field| field.kind == UNIQUE);
    let unique = unique.expect("each request has one").body.to_vec();
    let nonce = vec![7; aead.nonce_len()];

    let mut reply = header.to_vec();
    field::push(&mut reply, UNIQUE, &unique);
    let sealed = keys.to_client.seal(&nonce, &reply, bytes);
    field::push(&mut reply, AUTHENTICATOR, &field::authenticator(&nonce, &sealed));
    // A field has no room for more.
    let fits = sealed.len() < usize::from(u16::MAX) - 64;
    let accepted = client.accept(&reply);
    assert!(!fits || accepted == Ok(header), "it is authentic");
    assert!(client.cookies().len() <= COOKIES);
    assert!(client.cookies().all(|cookie| !cookie.is_empty()));

    let mut request = header.to_vec();
    field::push(&mut request, UNIQUE, &unique);
    field::push(&mut request, COOKIE, &cookie);
    let sealed = keys.to_server.seal(&nonce, &request, bytes);
    field::push(&mut request, AUTHENTICATOR, &field::authenticator(&nonce, &sealed));
    if fits {
        let opened = server.open(&request).expect("it is authentic");
        assert!(server.protect(&header, &opened, &mut random).len() <= request.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_sealed_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            check_sealed(&bytes);
        }

        /// Fields of any kinds and lengths, cookies among them.
        #[test]
        fn sealed_fields_are_read(
            fields in prop::collection::vec((0..3u8, prop::collection::vec(any::<u8>(), 0..600)), 0..12),
        ) {
            let mut bytes = Vec::new();
            for (kind, body) in &fields {
                let kind = [COOKIE, UNIQUE, 0x1234][usize::from(*kind)];
                field::push(&mut bytes, kind, body);
            }
            check_sealed(&bytes);
        }
    }

    #[test]
    fn more_than_a_field_holds_is_no_harm() {
        check_sealed(&[0; 70_000]);
    }
}
