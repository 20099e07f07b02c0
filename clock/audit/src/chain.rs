//! The chain: each line ends with the hash of the line before and of itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Text between the content of a line and its hash.
const BEFORE: &str = ",\"hash\":\"";
/// Text after it.
const AFTER: &str = "\"}";
/// Digits of a hash.
const DIGITS: usize = 64;

/// A SHA-256 in hexadecimal, lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hash(String);

impl Hash {
    /// Stands before the first line of a record: all zeros.
    #[must_use]
    pub fn none() -> Hash {
        Hash("0".repeat(DIGITS))
    }

    /// SHA-256 of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::digits(Sha256::digest(bytes).as_slice())
    }

    /// Hash of a line: of the digits of the line before, and of its own content, which is all of it
    /// up to `,"hash":"`.
    #[must_use]
    pub fn next(&self, content: &[u8]) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(self.0.as_bytes());
        hasher.update(content);
        Hash::digits(hasher.finalize().as_slice())
    }

    fn digits(bytes: &[u8]) -> Hash {
        let mut text = String::with_capacity(DIGITS);
        for byte in bytes {
            for half in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(half.into(), 16));
            }
        }
        Hash(text)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Hash, &'static str> {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == DIGITS && text.bytes().all(digit) {
            Ok(Hash(text.to_owned()))
        } else {
            Err("must be a hash of 64 digits, 0 to 9 and a to f, as 'truechimer audit' prints it")
        }
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Takes a line, without its end, apart: content and hash.
pub(crate) fn split(line: &[u8]) -> Option<(&[u8], Hash)> {
    let line = line.strip_suffix(AFTER.as_bytes())?;
    let (rest, hash) = line.split_at_checked(line.len().checked_sub(DIGITS)?)?;
    let content = rest.strip_suffix(BEFORE.as_bytes())?;
    Some((content, std::str::from_utf8(hash).ok()?.parse().ok()?))
}

/// Puts content, which lacks its last brace, and hash together to a line with its end.
pub(crate) fn join(content: &str, hash: &Hash) -> String {
    format!("{content}{BEFORE}{hash}{AFTER}\n")
}
