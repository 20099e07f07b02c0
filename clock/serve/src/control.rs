//! Data that goes with a datagram between the kernel and us, as plain bytes.
//!
//! Every length is checked: a short, odd or foreign message is passed over.

use std::net::{Ipv4Addr, Ipv6Addr};

use truechimer_stamp::control::{at, split, stamp};

const WORD: usize = size_of::<usize>();
/// Length (a `size_t`), level and type (an `int` each).
const HEADER: usize = WORD + 8;

/// Word of the kernel on a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Said {
    /// Its stamp: Unix time by `CLOCK_REALTIME`, ns.
    pub stamp: Option<i64>,
    /// To which of our addresses it came.
    pub via: Option<Via>,
    /// How many datagrams the socket has lost since it was opened, modulo 2³².
    pub lost: Option<u32>,
}

/// One of our addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    V4(Ipv4Addr),
    /// With the number of the interface, which an address of the link itself needs.
    V6(Ipv6Addr, u32),
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
            // `in_pktinfo`: interface, our address, the address in the datagram's header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                said.via = at::<4>(data, 4).map(|ip| Via::V4(ip.into())).or(said.via);
            }
            // `in6_pktinfo`: address and interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let found = at::<16>(data, 0).zip(at(data, 16));
                said.via = found.map(|(ip, n)| Via::V6(ip.into(), u32::from_ne_bytes(n)));
            }
            _ => {}
        }
        rest = next;
    }
    said
}

/// Writes control messages for a packet that is to leave from `via`, stamped if so wished: how many
/// bytes there are of them. What does not fit is left out.
pub(crate) fn write(bytes: &mut [u8], via: Option<Via>, stamp: bool) -> usize {
    let mut len = 0;
    let mut put = |level: i32, kind: i32, data: &[&[u8]]| {
        let size = HEADER + data.iter().map(|part| part.len()).sum::<usize>();
        let Some(room) = bytes.get_mut(len..len + size.next_multiple_of(WORD)) else { return };
        room.fill(0);
        let header: [&[u8]; 3] = [&size.to_ne_bytes(), &level.to_ne_bytes(), &kind.to_ne_bytes()];
        let all = header.iter().chain(data).copied().flatten();
        room.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        len += room.len();
    };
    match via {
        // The routes decide which interface it is.
        Some(Via::V4(ip)) => {
            put(libc::IPPROTO_IP, libc::IP_PKTINFO, &[&[0; 4], &ip.octets(), &[0; 4]])
        }
        Some(Via::V6(ip, interface)) => {
            let interface = if ip.is_unicast_link_local() { interface } else { 0 };
            put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[&ip.octets(), &interface.to_ne_bytes()]);
        }
        None => {}
    }
    if stamp {
        let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE;
        put(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &[&flags.to_ne_bytes()]);
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = [0xff; 192];
        for via in [
            None,
            Some(Via::V4(Ipv4Addr::new(192, 0, 2, 1))),
            Some(Via::V6("fe80::1".parse().unwrap(), 3)),
        ] {
            for stamp in [false, true] {
                let len = write(&mut bytes, via, stamp);
                assert_eq!(parse(&bytes[..len]), Said { via, ..Said::default() });
                assert_eq!(len % WORD, 0);
            }
        }
        let far = Some(Via::V6("2001:db8::1".parse().unwrap(), 3));
        let len = write(&mut bytes, far, false);
        assert_eq!(parse(&bytes[..len]).via, Some(Via::V6("2001:db8::1".parse().unwrap(), 0)));
        assert_eq!(write(&mut bytes[..10], far, true), 0);
    }

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
