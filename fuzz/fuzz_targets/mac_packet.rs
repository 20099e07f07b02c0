//! Packets with a message authentication code, as a client and as a server read them: none of them is proven, as
//! nobody knows the keys.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truechimer_keys::{Keys, Mac};

fuzz_target!(|bytes: &[u8]| {
    let text =
        "1 AES128 ASCII:0123456789abcdef\n2 SHA256 ASCII:0123456789\n3 SHA512 ASCII:0123456789";
    let keys = Keys::parse(text, "keys").expect("three keys");
    if let Some(mac) = Mac::of(bytes) {
        assert_eq!(mac.about.len() + 4 + mac.code.len(), bytes.len());
    }
    assert!(keys.open(bytes).is_err());
    for number in 1..=3 {
        let key = keys.get(number).expect("it is there");
        assert!(key.accept(bytes).is_err());
        // What has gone by, with more behind it.
        let mut seen = key.protect(&[0x23; 48]);
        let length = seen.len();
        seen.extend_from_slice(bytes);
        assert!(keys.open(&seen).is_err() || seen.len() == length);
    }
});
