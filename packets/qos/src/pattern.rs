//! Sequence numbers that a user points out: where in the payload of which packets.

use std::fmt;
use std::str::FromStr;

use crate::{Parsed, Transport};

/// Where the number stands: `udp:9000@0:be32`, or with conditions on other bytes
/// `udp@8:le64,0=cafe,4=10/f0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    protocol: Option<u8>,
    port: Option<u16>,
    offset: usize,
    field: Field,
    conditions: Vec<Condition>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Field {
    bytes: usize,
    little: bool,
}

/// Bytes that must be there: (byte & mask) == value for each.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    offset: usize,
    /// Value and mask.
    bytes: Vec<(u8, u8)>,
}

/// No payload is longer.
const MOST: usize = 65_535;

impl Pattern {
    /// The number in a packet, if it is one of these.
    #[must_use]
    pub fn number(&self, parsed: &Parsed<'_>) -> Option<u64> {
        let ip = parsed.ip.as_ref()?;
        // Only the first fragment has it, if any.
        if ip.fragment.is_some_and(|(offset, _)| offset > 0)
            || self.protocol.is_some_and(|p| p != ip.protocol)
        {
            return None;
        }
        if let Some(port) = self.port {
            let ports = match parsed.transport {
                Transport::Udp { source, destination } => [source, destination],
                Transport::Tcp(tcp) => [tcp.source, tcp.destination],
                _ => return None,
            };
            if !ports.contains(&port) {
                return None;
            }
        }
        let field = parsed.payload.get(self.offset..self.offset + self.field.bytes)?;
        let met = self.conditions.iter().all(|condition| {
            let there = parsed.payload.get(condition.offset..).unwrap_or_default();
            there.len() >= condition.bytes.len()
                && there.iter().zip(&condition.bytes).all(|(b, (value, mask))| b & mask == *value)
        });
        let push = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
        met.then(|| match self.field.little {
            true => field.iter().rev().fold(0, push),
            false => field.iter().fold(0, push),
        })
    }

    /// Width of the number, in bits.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.field.bytes as u32 * 8
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let form = "PROTOCOL[:PORT]@OFFSET:FIELD[,OFFSET=HEX[/MASK]]…, such as udp:9000@0:be32";
        let mut parts = text.split(',');
        let (packets, place) = parts
            .next()
            .and_then(|first| first.split_once('@'))
            .ok_or_else(|| format!("'{text}' has no '@': {form}"))?;
        let (protocol, port) = match packets.split_once(':') {
            Some((protocol, port)) => (
                protocol,
                Some(port.parse().map_err(|_| format!("'{port}' is not a port, 0 to 65535"))?),
            ),
            None => (packets, None),
        };
        let protocol = match protocol {
            "udp" => Some(17),
            "tcp" => Some(6),
            "any" | "" => None,
            other => return Err(format!("'{other}' is not a protocol: udp, tcp or any")),
        };
        let (at, field) =
            place.split_once(':').ok_or_else(|| format!("'{place}' names no field: {form}"))?;
        let (bytes, little) = match field {
            "u8" | "be8" | "le8" => (1, false),
            "be16" => (2, false),
            "be32" => (4, false),
            "be64" => (8, false),
            "le16" => (2, true),
            "le32" => (4, true),
            "le64" => (8, true),
            other => {
                let why = "is not a field: u8, be16, be32, be64, le16, le32 or le64";
                return Err(format!("'{other}' {why}"));
            }
        };
        Ok(Pattern {
            protocol,
            port,
            offset: offset(at)?,
            field: Field { bytes, little },
            conditions: parts.map(condition).collect::<Result<_, _>>()?,
        })
    }
}

fn offset(text: &str) -> Result<usize, String> {
    let offset = match text.strip_prefix("0x") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    offset
        .filter(|offset| *offset <= MOST)
        .ok_or_else(|| format!("'{text}' is not an offset into the payload, 0 to {MOST}"))
}

fn condition(text: &str) -> Result<Condition, String> {
    let (at, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is not a condition such as 0=cafe or 4=10/f0"))?;
    let (value, mask) = match value.split_once('/') {
        Some((value, mask)) => (hex(value)?, hex(mask)?),
        None => (hex(value)?, vec![0xff; value.len() / 2]),
    };
    if value.is_empty() || value.len() != mask.len() {
        return Err(format!("'{text}': value and mask must be as long, and not empty"));
    }
    if value.iter().zip(&mask).any(|(v, m)| v & !m != 0) {
        return Err(format!("'{text}' can never be met: the value has bits outside the mask"));
    }
    let bytes = value.into_iter().zip(mask).collect();
    Ok(Condition { offset: offset(at)?, bytes })
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("'{text}' is not bytes in hexadecimal, two digits each");
    if !text.len().is_multiple_of(2) || !text.is_ascii() || text.len() > 2 * MOST {
        return Err(wrong());
    }
    let pair = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(|at| pair(at).ok_or_else(wrong)).collect()
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Some(17) => "udp",
            Some(6) => "tcp",
            _ => "any",
        };
        write!(f, "{protocol}")?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match (self.field.bytes, self.field.little) {
            (1, _) => write!(f, "@{}:u8", self.offset)?,
            (n, little) => {
                let order = if little { "le" } else { "be" };
                write!(f, "@{}:{order}{}", self.offset, n * 8)?;
            }
        }
        for condition in &self.conditions {
            write!(f, ",{}=", condition.offset)?;
            condition.bytes.iter().try_for_each(|(value, _)| write!(f, "{value:02x}"))?;
            if condition.bytes.iter().any(|(_, mask)| *mask != 0xff) {
                write!(f, "/")?;
                condition.bytes.iter().try_for_each(|(_, mask)| write!(f, "{mask:02x}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ip;
    use proptest::prelude::*;

    fn packet(port: u16, payload: &[u8]) -> Parsed<'_> {
        let ip = Ip {
            source: [127, 0, 0, 1].into(),
            destination: [127, 0, 0, 1].into(),
            protocol: 17,
            length: 0,
            carried: 0,
            hop_limit: 64,
            identification: None,
            fragment: None,
        };
        let transport = Transport::Udp { source: 5, destination: port };
        Parsed { ip: Some(ip), transport, payload, cut: false }
    }

    #[test]
    fn finds_numbers() {
        let payload = [0xca, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let number = |text: &str| Pattern::from_str(text).unwrap().number(&packet(9000, &payload));
        assert_eq!(number("udp:9000@2:be32"), Some(0x0102_0304));
        assert_eq!(number("any@2:le16"), Some(0x0201));
        assert_eq!(number("udp@3:be64,0=cafe,2=01/0f"), Some(0x0203_0405_0607_0809));
        assert_eq!(number("udp@0x2:u8,0=c0fe/f0ff"), Some(1));
        for none in
            ["udp:9001@2:be32", "tcp@0:u8", "udp@4:be64", "udp@0:u8,0=caff", "udp@0:u8,10=0909"]
        {
            assert_eq!(number(none), None, "{none}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, word) in [
            ("9000", "'@'"),
            ("udp:x@0:be32", "port"),
            ("sctp@0:be32", "protocol"),
            ("udp@0", "field"),
            ("udp@0:be33", "be32"),
            ("udp@70000:u8", "offset"),
            ("udp@0:u8,4", "condition"),
            ("udp@0:u8,4=1", "two digits"),
            ("udp@0:u8,4=10/ff00", "as long"),
            ("udp@0:u8,4=11/10", "never"),
            ("udp@0:u8,4=", "empty"),
            ("udp@0:u8,4=äb", "hexadecimal"),
        ] {
            let why = Pattern::from_str(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "[a-z0-9:@=,/x]{0,30}|\\PC{0,12}") {
            if let Ok(pattern) = text.parse::<Pattern>() {
                prop_assert_eq!(pattern.to_string().parse::<Pattern>().unwrap(), pattern);
            }
        }
    }
}
