//! Form of a request in a log: a list of its bytes, which serde knows of short arrays only.

use core::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserializer, Serializer};
use truechimer_ntp::HEADER_LEN;

/// Writes the bytes one by one.
pub(crate) fn serialize<S: Serializer>(
    packet: &[u8; HEADER_LEN],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(packet)
}

/// Reads as many.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<[u8; HEADER_LEN], D::Error> {
    deserializer.deserialize_seq(Bytes)
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = [u8; HEADER_LEN];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {HEADER_LEN} bytes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut packet = [0; HEADER_LEN];
        for (index, byte) in packet.iter_mut().enumerate() {
            *byte = list.next_element()?.ok_or_else(|| A::Error::invalid_length(index, &self))?;
        }
        match list.next_element::<u8>()? {
            None => Ok(packet),
            Some(_) => Err(A::Error::invalid_length(HEADER_LEN + 1, &self)),
        }
    }
}
