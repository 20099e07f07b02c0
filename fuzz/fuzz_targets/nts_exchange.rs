//! Messages of a key exchange, as a client and as a server read them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use truechimer_nts::Aead;
use truechimer_nts::exchange::{agreement, answer, asked, is_whole};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(agreed) = agreement(bytes, &Aead::ALL) {
        assert!(is_whole(bytes) && !agreed.cookies.is_empty() && agreed.port != Some(0));
        assert!(agreed.server.is_none_or(|name| name.bytes().all(|byte| byte.is_ascii_graphic())));
    }
    if let Ok(asked) = asked(bytes) {
        assert!(is_whole(bytes));
        let reply = answer(&asked, &[vec![1; 104]], 1123);
        let usable = asked.ntp && asked.aead.is_some();
        assert_eq!(agreement(&reply, &Aead::ALL).is_ok(), usable);
    }
});
