//! Packets with extension fields of NTS, as a client and as a server read them: as they come, of which none is proven, as
//! nobody knows the keys; and sealed by keys that are known, so that what is behind the proof is read too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truechimer_nts::{Aead, Cookies, Keys, Session};

fuzz_target!(|bytes: &[u8]| {
    truechimer_nts::check_sealed(bytes);
    let mut state = 1u64;
    let mut random = |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
    };
    let server = Cookies::new(&mut random);
    let keys = Keys::new(Aead::SivCmac256, &[1; 32], &[2; 32]).expect("as long as they must be");
    let cookie = server.bake(&keys, &mut random);
    let mut client = Session::new(keys, vec![cookie]);
    let request = client.protect(&[0x23; 48], &mut random).expect("there is a cookie");
    assert!(server.open(bytes).is_err() || bytes == request);
    assert!(client.accept(bytes).is_err());
    // With what the request shows to everybody in front of it.
    let mut echoed = request.get(..request.len() - 40).unwrap_or_default().to_vec();
    echoed.extend_from_slice(bytes);
    assert!(server.open(&echoed).is_err() || echoed == request);
    assert!(client.accept(&echoed).is_err());
});
