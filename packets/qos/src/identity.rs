//! Identity of a packet: what tells it from all others, wherever it is seen.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{Parsed, Transport};

/// Identity that a packet keeps on its way and that others of its flow do not have: by the value of
/// a pattern at some offset, or else by its headers and so many bytes of its payload.
#[must_use]
pub fn identity(parsed: &Parsed<'_>, pattern: Option<(usize, u64)>, payload: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(pattern) = pattern {
        pattern.hash(&mut hasher);
        return hasher.finish();
    }
    if let Some(ip) = &parsed.ip {
        (ip.identification, ip.fragment, ip.length).hash(&mut hasher);
    }
    match parsed.transport {
        Transport::Tcp(tcp) => {
            (tcp.sequence, tcp.acknowledgement, tcp.timestamps).hash(&mut hasher);
            (tcp.syn, tcp.ack, tcp.fin, tcp.rst, tcp.data_length).hash(&mut hasher);
        }
        Transport::Echo { request, identifier, sequence } => {
            (request, identifier, sequence).hash(&mut hasher);
        }
        Transport::Udp { .. } | Transport::Other => {}
    }
    parsed.payload.get(..payload).unwrap_or(parsed.payload).hash(&mut hasher);
    hasher.finish()
}
