//! The message authentication code at the end of a packet (RFC 5905 §7.3, RFC 7822 §7.5).

use ctutils::CtEq;
use truechimer_ntp::HEADER_LEN;
use truechimer_ntp::extension::Fields;

use crate::{Key, Keys, Refusal};

/// Bytes of a key's number before the code.
const NUMBER: usize = 4;
/// Longest code of a packet of version 4, in bytes: what is longer is cut, or it could be taken for an
/// extension field.
const LONGEST_V4: usize = 20;
/// Lengths of number and code in version 4, where extension fields may stand before them.
const LENGTHS_V4: [usize; 2] = [NUMBER + 16, NUMBER + LONGEST_V4];
/// Lengths of number and code before version 4, in bytes.
const LENGTHS_V3: std::ops::RangeInclusive<usize> = NUMBER + 16..=NUMBER + 64;
/// Version from which on codes are cut.
const VERSION_4: u8 = 4;

/// A packet taken apart. Nothing in it has been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mac<'a> {
    /// The version of the packet, 0 to 7.
    pub version: u8,
    /// Header and extension fields, which the code is about.
    pub about: &'a [u8],
    /// The number of the key.
    pub number: u32,
    /// The code.
    pub code: &'a [u8],
}

impl<'a> Mac<'a> {
    /// The code of a packet; `None` if it has none.
    #[must_use]
    pub fn of(packet: &'a [u8]) -> Option<Mac<'a>> {
        let version = version(packet)?;
        let (about, tail) = if version < VERSION_4 {
            let (about, tail) = packet.split_at_checked(HEADER_LEN)?;
            let fits = LENGTHS_V3.contains(&tail.len()) && tail.len().is_multiple_of(4);
            fits.then_some((about, tail))?
        } else {
            let mut fields = Fields::of_packet(packet);
            loop {
                let (about, tail) = fields.split();
                if LENGTHS_V4.contains(&tail.len()) {
                    break (about, tail);
                }
                fields.next()??;
            }
        };
        let (number, code) = tail.split_first_chunk::<NUMBER>()?;
        Some(Mac { version, about, number: u32::from_be_bytes(*number), code })
    }
}

fn version(packet: &[u8]) -> Option<u8> {
    packet.get(..HEADER_LEN)?.first().map(|flags| flags >> 3 & 7)
}

impl Key {
    /// The code of these bytes as a packet of this version has it.
    fn code_in(&self, version: u8, about: &[u8]) -> Vec<u8> {
        let mut code = self.code(about);
        if version >= VERSION_4 {
            code.truncate(LONGEST_V4);
        }
        code
    }

    /// The packet with its code behind it.
    #[must_use]
    pub fn protect(&self, packet: &[u8]) -> Vec<u8> {
        let code = self.code_in(version(packet).unwrap_or(VERSION_4), packet);
        [packet, &self.number().to_be_bytes(), &code].concat()
    }

    /// True if the packet was made with this key; takes equally long whatever the code is.
    fn fits(&self, mac: &Mac<'_>) -> bool {
        let code = self.code_in(mac.version, mac.about);
        mac.number == self.number()
            && !code.is_empty()
            && bool::from(code.as_slice().ct_eq(mac.code))
    }

    /// Header of an authentic reply; nothing of the packet has been checked.
    ///
    /// # Errors
    /// Why it is not used.
    pub fn accept(&self, packet: &[u8]) -> Result<[u8; HEADER_LEN], Refusal> {
        let (header, rest) = packet.split_first_chunk::<HEADER_LEN>().ok_or(Refusal::Malformed)?;
        match Mac::of(packet) {
            Some(mac) if self.fits(&mac) => Ok(*header),
            Some(mac) if mac.number == self.number() => Err(Refusal::Forged(mac.number)),
            Some(mac) => Err(Refusal::OtherKey(mac.number)),
            None if rest == [0; NUMBER] => Err(Refusal::Nak),
            None => Err(Refusal::Unprotected),
        }
    }
}

impl Keys {
    /// The key by which a request proves itself, of which nothing has been checked.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open(&self, request: &[u8]) -> Result<&Key, Refusal> {
        let mac = Mac::of(request).ok_or(Refusal::Unprotected)?;
        let key = self.get(mac.number).ok_or(Refusal::OtherKey(mac.number))?;
        key.fits(&mac).then_some(key).ok_or(Refusal::Forged(mac.number))
    }
}

/// The packet that says that a code does not fit, or its key is unknown (crypto-NAK, RFC 5905 §9.2): a header, and key
/// number 0 without a code.
#[must_use]
pub fn nak(header: &[u8; HEADER_LEN]) -> Vec<u8> {
    [header.as_slice(), &[0; NUMBER]].concat()
}
