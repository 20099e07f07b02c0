//! Data that goes with a datagram between the kernel and us, as plain bytes.
//!
//! Every length is checked: a short, odd or foreign message is passed over.

use truechimer_stamp::control::{self, Via, at, split, stamp};

/// Word of the kernel on a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Said {
    /// Stamp of it: Unix time by `CLOCK_REALTIME`, ns.
    pub stamp: Option<i64>,
    /// To which of our addresses it came.
    pub via: Option<Via>,
    /// Number of datagrams that the socket has lost since it was opened, modulo 2³².
    pub lost: Option<u32>,
}

/// Reads all control messages in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Said {
    let mut said = Said::default();
    let mut rest = bytes;
    while let Some((level, kind, data, next)) = split(rest) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => said.stamp = stamp(data).or(said.stamp),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                said.lost = at(data, 0).map(u32::from_ne_bytes).or(said.lost);
            }
            _ => said.via = control::via(level, kind, data).or(said.via),
        }
        rest = next;
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORD: usize = size_of::<usize>();
    /// Length (a `size_t`), level and type (an `int` each).
    const HEADER: usize = WORD + 8;

    #[test]
    fn stamps_and_losses_are_read() {
        let mut bytes = Vec::new();
        let longs: [libc::c_long; 6] = [1_790_000_000, 5, 0, 0, 1, 2];
        for (level, kind, data) in [
            (1, libc::SCM_TIMESTAMPING, longs.iter().flat_map(|l| l.to_ne_bytes()).collect()),
            (1, libc::SO_RXQ_OVFL, 77u32.to_ne_bytes().to_vec()),
        ] {
            let data: Vec<u8> = data;
            bytes.extend((HEADER + data.len()).to_ne_bytes());
            bytes.extend(i32::to_ne_bytes(level));
            bytes.extend(i32::to_ne_bytes(kind));
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        }
        let said = Said { stamp: Some(1_790_000_000_000_000_005), via: None, lost: Some(77) };
        assert_eq!(parse(&bytes), said);
        // Cut off anywhere it is read as far as it goes.
        assert!(
            (0..bytes.len())
                .all(|end| parse(&bytes[..end]).stamp.is_none_or(|s| Some(s) == said.stamp))
        );
    }

    proptest! {
        #[test]
        fn random_bytes_do_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..192)) {
            for i in (0..bytes.len()).step_by(24) {
                bytes[i] %= 64;
                for byte in bytes.iter_mut().skip(i + 1).take(7) {
                    *byte = 0;
                }
            }
            let _ = parse(&bytes);
        }
    }
}
