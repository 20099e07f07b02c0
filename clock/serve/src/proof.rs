//! Proof of who answers, for those who ask for it: by Network Time Security, or by symmetric keys.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use truechimer_keys::{Key, Keys, Refusal};
use truechimer_ntp::server;
use truechimer_ntp::{HEADER_LEN, Log2, Packet, RefId, Timestamp};

use crate::nts::{Nts, Opened};

/// Kiss code of a request whose code does not fit (RFC 5905 Figure 13).
const CRYP: RefId = RefId(*b"CRYP");

/// Settings of a server that proves who it is by Network Time Security.
#[derive(Clone, Debug)]
pub struct NtsSettings {
    /// Certificate of the server, and those between it and an authority, in PEM.
    pub chain: PathBuf,
    /// The key to it, in PEM.
    pub key: PathBuf,
    /// Where the keys of cookies are kept from start to start; `None`: clients fetch new cookies after each.
    pub kept: Option<PathBuf>,
    /// The port of the key exchange.
    pub port: u16,
}

/// Keys of the server.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    pub nts: OnceLock<Arc<Nts>>,
    keys: RwLock<Option<Arc<Keys>>>,
    /// True if those are answered alone that ask for proof.
    pub required: AtomicBool,
}

/// Proof that a reply is to carry.
#[derive(Debug)]
pub(crate) enum Proof {
    #[cfg_attr(not(feature = "nts"), expect(dead_code, reason = "nobody opens one"))]
    Nts(Opened),
    /// The key of this number, of those that the request was opened with.
    Key(Arc<Keys>, u32),
}

/// Treatment of a request by what stands behind its header.
#[derive(Debug)]
pub(crate) enum Protected {
    /// Nothing that is known here: as any other.
    Plain,
    /// To be answered with this proof.
    By(Proof),
    /// To be answered with this packet: its cookie, or the key of its code, is not known here.
    Nak { packet: Vec<u8>, of_key: bool },
    /// Not to be answered, as what it shows is no proof.
    Refused,
    /// Not to be answered, as it asks for no proof.
    Lacking,
}

impl Proofs {
    /// Uses these symmetric keys from now on, and no others.
    pub fn share(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
    }

    fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Treatment of a request that arrived at `receive`, of which only the header has been checked.
    pub fn look(&self, request: &[u8], receive: Timestamp) -> Protected {
        // Most are a header alone: none of them takes a lock.
        let by_either = match request.len() {
            ..=HEADER_LEN => Protected::Plain,
            _ => self.look_behind(request, receive),
        };
        match by_either {
            Protected::Plain if self.required.load(Ordering::Relaxed) => Protected::Lacking,
            other => other,
        }
    }

    fn look_behind(&self, request: &[u8], receive: Timestamp) -> Protected {
        let by_nts = self.nts.get().map_or(Protected::Plain, |nts| nts.look(request, receive));
        match (by_nts, self.keys()) {
            (Protected::Plain, Some(keys)) => by_key(keys, request, receive),
            (other, _) => other,
        }
    }

    /// The reply with this header, with proof.
    pub fn protect(&self, header: &[u8; HEADER_LEN], to: &Proof) -> Vec<u8> {
        let packet = match to {
            Proof::Nts(opened) => self.nts.get().map(|nts| nts.protect(header, opened)),
            Proof::Key(keys, number) => keys.get(*number).map(|key| key.protect(header)),
        };
        // By what has opened the request it is always made.
        packet.unwrap_or_default()
    }
}

fn by_key(keys: Arc<Keys>, request: &[u8], receive: Timestamp) -> Protected {
    match keys.open(request).map(Key::number) {
        Ok(number) => Protected::By(Proof::Key(keys, number)),
        Err(Refusal::Unprotected) => Protected::Plain,
        Err(_) => match Packet::decode(request) {
            Some((header, _)) => {
                let kiss = server::kiss(&header, receive, CRYP, Log2(0));
                Protected::Nak { packet: truechimer_keys::nak(&kiss.encode()), of_key: true }
            }
            None => Protected::Refused,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use truechimer_keys::Algorithm;
    use truechimer_ntp::Mode;

    const AT: Timestamp = Timestamp(77);

    fn proofs() -> Proofs {
        let text = "1 AES128 ASCII:0123456789abcdef\n2 SHA512 ASCII:0123456789";
        let proofs = Proofs::default();
        proofs.share(Keys::parse(text, "keys").unwrap());
        proofs
    }

    fn request(version: u8, id: u64) -> [u8; HEADER_LEN] {
        let transmit_timestamp = Timestamp(id);
        Packet { version, mode: Mode::Client, transmit_timestamp, ..Packet::default() }.encode()
    }

    proptest! {
        #[test]
        fn a_reply_is_by_the_request_s_key_and_no_longer(version in 1u8..5, number in 1u32..3, id: u64) {
            let proofs = proofs();
            let key = proofs.keys().unwrap().get(number).unwrap().clone();
            let asked = key.protect(&request(version, id));
            let by = proofs.look(&asked, AT);
            let Protected::By(proof) = by else { panic!("{by:?}") };
            // Others that are read meanwhile make no difference to a request that was opened.
            proofs.share(Keys::default());
            let is_refused = matches!(proofs.look(&asked, AT), Protected::Nak { .. });
            prop_assert!(is_refused);
            let header = Packet { mode: Mode::Server, ..Packet::decode(&asked).unwrap().0 };
            let reply = proofs.protect(&header.encode(), &proof);
            prop_assert_eq!(reply.len(), asked.len());
            prop_assert_eq!(key.accept(&reply), Ok(header.encode()));
        }

        #[test]
        fn a_code_that_does_not_fit_gets_no_time(version in 1u8..5, number in 1u32..4, id: u64) {
            let wrong = Key::new(number, Algorithm::Aes128, &[7; 16]).unwrap();
            let asked = wrong.protect(&request(version, id));
            let by = proofs().look(&asked, AT);
            let Protected::Nak { packet, of_key: true } = by else { panic!("{by:?}") };
            prop_assert!(packet.len() <= asked.len());
            let (kiss, tail) = Packet::decode(&packet).unwrap();
            prop_assert_eq!((kiss.stratum, kiss.reference_id, tail), (0, CRYP, &[0; 4][..]));
            prop_assert_eq!(kiss.origin_timestamp, Timestamp(id));
        }
    }

    #[test]
    fn without_a_code_or_without_keys_a_request_is_as_any_other() {
        let asked = request(4, 1);
        assert!(matches!(proofs().look(&asked, AT), Protected::Plain));
        let key = Key::new(1, Algorithm::Aes128, b"0123456789abcdef").unwrap();
        assert!(matches!(Proofs::default().look(&key.protect(&asked), AT), Protected::Plain));
        // Without a lock: this would wait for ever.
        let busy = proofs();
        let held = busy.keys.write().unwrap();
        assert!(matches!(busy.look(&asked, AT), Protected::Plain));
        drop(held);
        let strict = Proofs { required: true.into(), ..proofs() };
        assert!(matches!(strict.look(&asked, AT), Protected::Lacking));
        assert!(matches!(strict.look(&key.protect(&asked), AT), Protected::By(Proof::Key(_, 1))));
    }
}
