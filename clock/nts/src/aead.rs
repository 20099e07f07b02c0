//! Authenticated encryption that NTS uses: the algorithms and the keys of one association.

use std::fmt;

use aes_gcm_siv::Aes128GcmSiv;
use aes_siv::Aes128SivAead;
use aes_siv::aead::{Aead as _, KeyInit, Payload};
use zeroize::Zeroizing;

/// An algorithm of IANA's registry of AEADs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aead {
    /// AEAD_AES_SIV_CMAC_256 (RFC 5297), which every server has (RFC 8915 §5.1).
    SivCmac256,
    /// AEAD_AES_128_GCM_SIV (RFC 8452), whose cookies are shorter.
    GcmSiv128,
}

impl Aead {
    /// All of them, the preferred one first: it is the one that nobody derives other keys for
    /// ([`crate::exchange`]).
    pub const ALL: [Aead; 2] = [Aead::SivCmac256, Aead::GcmSiv128];

    /// The number in the registry.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Aead::SivCmac256 => 15,
            Aead::GcmSiv128 => 30,
        }
    }

    /// The algorithm of that number, if it is spoken here.
    #[must_use]
    pub fn of(number: u16) -> Option<Aead> {
        Aead::ALL.into_iter().find(|aead| aead.number() == number)
    }

    /// Bytes of a key.
    #[must_use]
    pub fn key_len(self) -> usize {
        match self {
            Aead::SivCmac256 => 32,
            Aead::GcmSiv128 => 16,
        }
    }

    /// Bytes of a nonce; a multiple of 4.
    pub(crate) fn nonce_len(self) -> usize {
        match self {
            Aead::SivCmac256 => 16,
            Aead::GcmSiv128 => 12,
        }
    }
}

impl fmt::Display for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aead::SivCmac256 => "AES-SIV-CMAC-256",
            Aead::GcmSiv128 => "AES-128-GCM-SIV",
        })
    }
}

/// Bytes by which a ciphertext is longer than what was encrypted.
pub(crate) const TAG: usize = 16;

/// A key, wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    aead: Aead,
    pub(crate) bytes: Zeroizing<Vec<u8>>,
}

impl Key {
    /// A key of this algorithm, if the bytes are as many as it takes.
    pub(crate) fn new(aead: Aead, bytes: &[u8]) -> Option<Key> {
        (bytes.len() == aead.key_len()).then(|| Key { aead, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// Encrypts, with the tag where the algorithm has it. The nonce has the algorithm's length.
    pub(crate) fn seal(&self, nonce: &[u8], about: &[u8], text: &[u8]) -> Vec<u8> {
        // Fails for lengths that no packet reaches: then nothing goes out that could be opened.
        self.run(nonce, about, text, true).unwrap_or_default()
    }

    /// Decrypts; `None` if anything was changed on the way, or the nonce has another length.
    pub(crate) fn open(&self, nonce: &[u8], about: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.run(nonce, about, sealed, false)
    }

    fn run(&self, nonce: &[u8], aad: &[u8], msg: &[u8], seal: bool) -> Option<Vec<u8>> {
        let payload = Payload { msg, aad };
        match self.aead {
            Aead::SivCmac256 => {
                let cipher = Aes128SivAead::new_from_slice(&self.bytes).ok()?;
                let nonce = nonce.try_into().ok()?;
                if seal { cipher.encrypt(nonce, payload) } else { cipher.decrypt(nonce, payload) }
            }
            Aead::GcmSiv128 => {
                let cipher = Aes128GcmSiv::new_from_slice(&self.bytes).ok()?;
                let nonce = nonce.try_into().ok()?;
                if seal { cipher.encrypt(nonce, payload) } else { cipher.decrypt(nonce, payload) }
            }
        }
        .ok()
    }
}

/// The two keys that client and server share.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    pub(crate) aead: Aead,
    /// Protects requests.
    pub(crate) to_server: Key,
    /// Protects replies.
    pub(crate) to_client: Key,
}

impl Keys {
    /// Keys from the key exchange: for requests (C2S) and for replies (S2C); `None` if they are not as
    /// long as [`Aead::key_len`].
    #[must_use]
    pub fn new(aead: Aead, to_server: &[u8], to_client: &[u8]) -> Option<Keys> {
        let (to_server, to_client) = (Key::new(aead, to_server)?, Key::new(aead, to_client)?);
        Some(Keys { aead, to_server, to_client })
    }

    /// The algorithm that they are for.
    #[must_use]
    pub fn aead(&self) -> Aead {
        self.aead
    }

    /// Both keys, for requests first: to be kept where nobody else reads them.
    #[must_use]
    pub fn bytes(&self) -> [&[u8]; 2] {
        [&self.to_server.bytes, &self.to_client.bytes]
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing that a log may not hold.
        f.debug_struct("Keys").field("aead", &self.aead).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// RFC 8452 appendix C.1: AEAD_AES_128_GCM_SIV, plaintext of 8 bytes, no additional data; and with
    /// one byte of it.
    #[test]
    fn gcm_siv_is_as_published() {
        let key = Key::new(Aead::GcmSiv128, &hex("01000000000000000000000000000000")).unwrap();
        let nonce = hex("030000000000000000000000");
        let text = hex("0100000000000000");
        let sealed = hex("b5d839330ac7b786578782fff6013b815b287c22493a364c");
        assert_eq!(key.seal(&nonce, &[], &text), sealed);
        let text = hex("0200000000000000");
        let sealed = hex("1e6daba35669f4273b0a1a2560969cdf790d99759abd1508");
        assert_eq!(key.seal(&nonce, &[1], &text), sealed);
        assert_eq!(key.open(&nonce, &[1], &sealed), Some(text));
    }

    /// Sealed text is opened again by whoever has the key, nonce and context, and by nobody else.
    #[test]
    fn a_changed_bit_shows() {
        for aead in Aead::ALL {
            let key = Key::new(aead, &vec![7; aead.key_len()]).unwrap();
            let nonce = vec![9; aead.nonce_len()];
            let sealed = key.seal(&nonce, b"about", b"text");
            assert_eq!(sealed.len(), 4 + TAG);
            assert_eq!(key.open(&nonce, b"about", &sealed).as_deref(), Some(&b"text"[..]));
            for place in 0..sealed.len() * 8 {
                let mut other = sealed.clone();
                other[place / 8] ^= 1 << (place % 8);
                assert_eq!(key.open(&nonce, b"about", &other), None);
            }
            assert_eq!(key.open(&nonce, b"abouT", &sealed), None);
            assert_eq!(key.open(&nonce[1..], b"about", &sealed), None);
            let other = Key::new(aead, &vec![8; aead.key_len()]).unwrap();
            assert_eq!(other.open(&nonce, b"about", &sealed), None);
        }
        assert!(Keys::new(Aead::SivCmac256, &[0; 32], &[0; 31]).is_none());
    }

    #[test]
    fn keys_are_not_shown() {
        let keys = Keys::new(Aead::GcmSiv128, &[0xab; 16], &[0xcd; 16]).unwrap();
        let shown = format!("{keys:?}");
        assert!(shown.contains("GcmSiv128") && !shown.contains("171") && !shown.contains("ab,"));
    }
}
