//! A key, and the codes that it makes.

use std::fmt;
use std::ops::RangeInclusive;

use aes::{Aes128, Aes256};
use cmac::{Cmac, KeyInit, Mac as _};
use ctutils::CtEq;
use hmac::Hmac;
use sha2::{Digest, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

/// Shortest key of a hash, in bytes: 80 bits, below which chronyd warns.
const SHORTEST: usize = 10;
/// Longest key of a hash, in bytes: a block of SHA-512, beyond which more adds nothing.
const LONGEST: usize = 128;

/// Bytes of an HMAC that are compared at the least: half of it (RFC 2104 §5).
const HMAC_LEAST: usize = 16;

/// An algorithm of message authentication codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// AES-CMAC with a key of 128 bits (RFC 4493), as RFC 8573 asks for.
    Aes128,
    /// AES-CMAC with a key of 256 bits.
    Aes256,
    /// SHA-256 of key and packet.
    Sha256,
    /// SHA-384 of key and packet.
    Sha384,
    /// SHA-512 of key and packet.
    Sha512,
}

impl Algorithm {
    /// All of them, the preferred one first.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Aes128,
        Algorithm::Aes256,
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
    ];

    /// Name in files of keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Aes128 => "AES128",
            Algorithm::Aes256 => "AES256",
            Algorithm::Sha256 => "SHA256",
            Algorithm::Sha384 => "SHA384",
            Algorithm::Sha512 => "SHA512",
        }
    }

    /// Lengths that a key may have, in bytes.
    #[must_use]
    pub const fn key_len(self) -> RangeInclusive<usize> {
        match self {
            Algorithm::Aes128 => 16..=16,
            Algorithm::Aes256 => 32..=32,
            Algorithm::Sha256 | Algorithm::Sha384 | Algorithm::Sha512 => SHORTEST..=LONGEST,
        }
    }
}

/// A key, wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    number: u32,
    algorithm: Algorithm,
    secret: Zeroizing<Vec<u8>>,
}

impl Key {
    /// A key of this number, from 1 on, and of a length that its algorithm takes; `None` if it is not.
    #[must_use]
    pub fn new(number: u32, algorithm: Algorithm, secret: &[u8]) -> Option<Key> {
        let usable = number != 0 && algorithm.key_len().contains(&secret.len());
        usable.then(|| Key { number, algorithm, secret: Zeroizing::new(secret.to_vec()) })
    }

    /// Number by which both ends call it; never 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The algorithm that it is for.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The whole code of these bytes.
    pub(crate) fn code(&self, about: &[u8]) -> Vec<u8> {
        match self.algorithm {
            Algorithm::Aes128 => cmac::<Cmac<Aes128>>(&self.secret, about),
            Algorithm::Aes256 => cmac::<Cmac<Aes256>>(&self.secret, about),
            Algorithm::Sha256 => hash::<Sha256>(&self.secret, about),
            Algorithm::Sha384 => hash::<Sha384>(&self.secret, about),
            Algorithm::Sha512 => hash::<Sha512>(&self.secret, about),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing that a log may not hold.
        let mut shown = f.debug_struct("Key");
        shown.field("number", &self.number).field("algorithm", &self.algorithm);
        shown.finish_non_exhaustive()
    }
}

fn cmac<C: KeyInit + cmac::Mac>(secret: &[u8], about: &[u8]) -> Vec<u8> {
    // `Key::new` has seen to the length. An empty code fits nothing.
    let Ok(cmac) = <C as KeyInit>::new_from_slice(secret) else { return Vec::new() };
    cmac.chain_update(about).finalize().into_bytes().to_vec()
}

impl Key {
    /// HMAC-SHA-256 (RFC 2104, RFC 4868) of these parts, one behind the other; `None` if the key is for another
    /// algorithm than SHA-256. NTP's own codes are not made so.
    #[must_use]
    pub fn hmac(&self, parts: &[&[u8]]) -> Option<[u8; 32]> {
        let usable = self.algorithm == Algorithm::Sha256;
        let mut mac = usable.then(|| Hmac::<Sha256>::new_from_slice(&self.secret).ok())??;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac.finalize().into_bytes().into())
    }

    /// Tells whether these bytes begin the HMAC of the parts, by as many bytes as there are, 16 at least; takes equally long
    /// whatever they are.
    #[must_use]
    pub fn hmac_fits(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        let made = self.hmac(parts).filter(|_| code.len() >= HMAC_LEAST);
        let made = made.as_ref().and_then(|made| made.get(..code.len()));
        made.is_some_and(|made| bool::from(made.ct_eq(code)))
    }
}

/// Hash of the key with the packet behind it (RFC 5905 §7.3), no HMAC. Whoever knows such a code could go on where the
/// hash has ended, and so make that of a longer packet: therefore in version 4 codes are cut, and packets of other
/// versions are taken in one length alone.
fn hash<D: Digest>(secret: &[u8], about: &[u8]) -> Vec<u8> {
    D::new().chain_update(secret).chain_update(about).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    /// RFC 4493 §4 and NIST SP 800-38B appendix D.3: keys, messages of 16 and 64 bytes, codes.
    #[test]
    fn cmac_is_as_published() {
        let message = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
        let short = hex("2b7e151628aed2a6abf7158809cf4f3c");
        let long = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
        for (algorithm, secret, codes) in [
            (
                Algorithm::Aes128,
                short,
                ["070a16b46b4d4144f79bdd9dd04a287c", "51f0bebf7e3b9d92fc49741779363cfe"],
            ),
            (
                Algorithm::Aes256,
                long,
                ["28a7023f452e8f82bd4bf28d8c37c35c", "e1992190549f6ed5696a2c056c315410"],
            ),
        ] {
            let key = Key::new(1, algorithm, &secret).unwrap();
            assert_eq!(key.code(&message[..16]), hex(codes[0]));
            assert_eq!(key.code(&message), hex(codes[1]));
        }
    }

    /// FIPS 180-4's example of two blocks, its first bytes taken for the key.
    #[test]
    fn hashes_are_of_the_key_and_what_follows() {
        let text = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        let code = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        let key = Key::new(1, Algorithm::Sha256, &text[..20]).unwrap();
        assert_eq!(key.code(&text[20..]), hex(code));
        for (algorithm, bytes) in [(Algorithm::Sha384, 48), (Algorithm::Sha512, 64)] {
            let code = |n| Key::new(1, algorithm, &text[..n]).unwrap().code(&text[n..]);
            assert_eq!((code(10), code(10).len()), (code(50), bytes));
        }
    }

    /// RFC 4231 §4.2 (keys of 20 bytes; the key of §4.3 is too short for a file of keys) and §4.4.
    #[test]
    fn hmac_is_as_published() {
        for (secret, text, code) in [
            (
                vec![0x0b; 20],
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                vec![0xaa; 20],
                vec![0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
        ] {
            let key = Key::new(1, Algorithm::Sha256, &secret).unwrap();
            let code = hex(code);
            let (start, end) = text.split_at(3);
            assert_eq!(key.hmac(&[start, end]).unwrap(), code.as_slice());
            assert!(key.hmac_fits(&[&text], &code[..16]) && key.hmac_fits(&[&text], &code));
            assert!(!key.hmac_fits(&[&text], &code[..15]) && !key.hmac_fits(&[start], &code));
            assert!(!key.hmac_fits(&[&text], &[code.as_slice(), &[0]].concat()));
        }
        let other = Key::new(1, Algorithm::Aes128, &[1; 16]).unwrap();
        assert!(other.hmac(&[b"x"]).is_none() && !other.hmac_fits(&[b"x"], &[0; 16]));
    }

    #[test]
    fn a_key_is_not_shown_and_has_its_length() {
        let key = Key::new(7, Algorithm::Aes128, &[0xab; 16]).unwrap();
        assert_eq!(format!("{key:?}"), "Key { number: 7, algorithm: Aes128, .. }");
        assert!(Key::new(0, Algorithm::Aes128, &[0; 16]).is_none());
        for algorithm in Algorithm::ALL {
            for bytes in 0..200 {
                let key = Key::new(1, algorithm, &vec![1; bytes]);
                assert_eq!(key.is_some(), algorithm.key_len().contains(&bytes));
            }
        }
    }
}
