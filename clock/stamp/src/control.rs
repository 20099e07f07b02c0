//! Control messages: what the kernel says about a datagram besides its bytes.
//!
//! Parsed from plain bytes, every length checked: a short, odd or foreign message is passed over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Data found among the control messages of one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Control {
    /// `SCM_TIMESTAMPING`: the software stamp, Unix time in ns.
    pub stamp: Option<i64>,
    /// Passage over the wire: where, and when by the card there.
    pub wire: Wire,
    /// `IP_RECVERR`, `IPV6_RECVERR` or `PACKET_TX_TIMESTAMP`: why the message is in the error queue.
    pub error: Option<QueuedError>,
    /// `IP_TTL`, `IPV6_HOPLIMIT`: the hop limit that the datagram arrived with.
    pub hop_limit: Option<u8>,
    /// `IP_PKTINFO`, `IPV6_PKTINFO`: to which of our addresses it came.
    pub via: Option<Via>,
}

/// Passage of a datagram from or to the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    /// `SCM_TIMESTAMPING`: the network card's stamp, in ns of its own clock.
    pub card_ns: Option<i64>,
    /// Number of the network interface: the card's own, where it gave a stamp of an arrival
    /// (`SCM_TIMESTAMPING_PKTINFO`), else that of the address (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub interface: Option<u32>,
    /// Bytes of the frame that arrived, from its Ethernet header on and without its check sequence.
    pub frame: Option<u32>,
}

/// `SCM_TIMESTAMPING_PKTINFO`: interface and length of a frame, which libc has no name for.
const FRAME: i32 = 58;

/// One of our addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// Of IPv4.
    V4(Ipv4Addr),
    /// Of IPv6, with the number of the interface, which an address of the link itself needs.
    V6(Ipv6Addr, u32),
}

/// A `sock_extended_err`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueuedError {
    /// Number of the error; ENOMSG for a transmit stamp.
    pub errno: i32,
    /// Origin of the message.
    pub origin: Origin,
    /// With a transmit stamp: which one (0 is the one taken as the packet leaves).
    pub info: u32,
    /// With a transmit stamp: the key of the datagram, counted from 0.
    pub data: u32,
    /// Sender of the ICMP message, if it was one.
    pub offender: Option<IpAddr>,
}

/// Origin of a message in the error queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Timestamping,
    Icmp,
    Other,
}

const WORD: usize = size_of::<usize>();
const LONG: usize = size_of::<libc::c_long>();
/// Length (a `size_t`), level and type (an `int` each).
const HEADER: usize = WORD + 8;
/// The bytes of a `sock_extended_err`; the offender's address follows.
const EXTENDED_ERR: usize = 16;

/// Reads all control messages in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Control {
    let mut control = Control::default();
    let (mut rest, mut by_address) = (bytes, None);
    while let Some((level, kind, data, next)) = split(rest) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                control.stamp = stamp(data).or(control.stamp);
                control.wire.card_ns =
                    data.get(4 * LONG..).and_then(stamp).or(control.wire.card_ns);
            }
            (libc::SOL_SOCKET, FRAME) => {
                let word = |offset| at(data, offset).map(u32::from_ne_bytes);
                // 0: the kernel does not know which card it was.
                control.wire.interface = word(0).filter(|index| *index != 0);
                control.wire.frame = word(4);
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR)
            | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            | (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
                control.error = extended_error(data).or(control.error);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                let value = at(data, 0).map(i32::from_ne_bytes);
                control.hop_limit = value.and_then(|value| u8::try_from(value).ok());
            }
            _ => {
                control.via = via(level, kind, data).or(control.via);
                by_address = interface(level, kind, data).or(by_address);
            }
        }
        rest = next;
    }
    control.wire.interface = control.wire.interface.or(by_address);
    control
}

/// The address of ours in a control message of this level and type.
#[must_use]
pub fn via(level: i32, kind: i32, data: &[u8]) -> Option<Via> {
    match (level, kind) {
        // `in_pktinfo`: interface, our address, the address in the datagram's header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => at::<4>(data, 4).map(|ip| Via::V4(ip.into())),
        // `in6_pktinfo`: address and interface.
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => at::<16>(data, 0)
            .zip(at(data, 16))
            .map(|(ip, interface)| Via::V6(ip.into(), u32::from_ne_bytes(interface))),
        _ => None,
    }
}

/// The number of the interface beside an address of ours.
fn interface(level: i32, kind: i32, data: &[u8]) -> Option<u32> {
    let offset = match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => 0,
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => 16,
        _ => return None,
    };
    at(data, offset).map(u32::from_ne_bytes).filter(|index| *index != 0)
}

/// Writes control messages for a packet that is to leave from `via`, stamped if so wished: how many
/// bytes there are of them. What does not fit is left out.
#[must_use]
pub fn write(bytes: &mut [u8], via: Option<Via>, stamp: bool) -> usize {
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

/// The first control message (level, type, data) and what follows it; `None` at the end, or where
/// something else begins.
#[must_use]
pub fn split(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let length = usize::from_ne_bytes(at(bytes, 0)?);
    let level = i32::from_ne_bytes(at(bytes, WORD)?);
    let kind = i32::from_ne_bytes(at(bytes, WORD + 4)?);
    let data = bytes.get(HEADER..length)?;
    let next = bytes.get(length.checked_next_multiple_of(WORD)?..).unwrap_or(&[]);
    Some((level, kind, data, next))
}

/// The first of the three `timespec`s (zero if there is none) in the data of an `SCM_TIMESTAMPING`, which is the
/// software stamp: Unix time in ns.
#[must_use]
pub fn stamp(data: &[u8]) -> Option<i64> {
    #[allow(clippy::useless_conversion)] // c_long has 32 bits on some targets
    let long = |offset| Some(i64::from(libc::c_long::from_ne_bytes(at(data, offset)?)));
    let (secs, nanos) = (long(0)?, long(LONG)?);
    if (secs, nanos) == (0, 0) || !(0..1_000_000_000).contains(&nanos) {
        return None;
    }
    secs.checked_mul(1_000_000_000)?.checked_add(nanos)
}

fn extended_error(data: &[u8]) -> Option<QueuedError> {
    let word = |offset| Some(u32::from_ne_bytes(at(data, offset)?));
    let origin = match *data.get(4)? {
        libc::SO_EE_ORIGIN_TIMESTAMPING => Origin::Timestamping,
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => Origin::Icmp,
        _ => Origin::Other,
    };
    Some(QueuedError {
        errno: i32::from_ne_bytes(at(data, 0)?),
        origin,
        info: word(8)?,
        data: word(12)?,
        offender: address(data.get(EXTENDED_ERR..).unwrap_or(&[])),
    })
}

/// The address in a `sockaddr_in` or `sockaddr_in6`; none if the family is another.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(u16::from_ne_bytes(at(bytes, 0)?)) {
        libc::AF_INET => Some(Ipv4Addr::from(at::<4>(bytes, 4)?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(at::<16>(bytes, 8)?).into()),
        _ => None,
    }
}

/// `N` bytes from `offset` on, if they are there.
#[must_use]
pub fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{Rng, SeedableRng};

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        bytes
    }

    fn timestamping(secs: libc::c_long, nanos: libc::c_long) -> Vec<u8> {
        let longs = [secs, nanos, 0, 0, 0, 0];
        let data: Vec<u8> = longs.iter().flat_map(|long| long.to_ne_bytes()).collect();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    fn extended(errno: i32, origin: u8, info: u32, data: u32, offender: &[u8]) -> Vec<u8> {
        let mut bytes = errno.to_ne_bytes().to_vec();
        bytes.extend([origin, 3, 3, 0]);
        bytes.extend(info.to_ne_bytes());
        bytes.extend(data.to_ne_bytes());
        bytes.extend(offender);
        bytes
    }

    fn sockaddr_in(ip: [u8; 4]) -> Vec<u8> {
        let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(ip);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn a_transmit_stamp_and_its_key() {
        let error = extended(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 41, &[0; 16]);
        for (level, kind) in
            [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)]
        {
            let bytes = [timestamping(1_790_000_000, 5), message(level, kind, &error)].concat();
            let control = parse(&bytes);
            assert_eq!(control.stamp, Some(1_790_000_000_000_000_005));
            let error = control.error.unwrap();
            assert_eq!((error.errno, error.info, error.data), (libc::ENOMSG, 0, 41));
            assert_eq!((error.origin, error.offender), (Origin::Timestamping, None));
        }
    }

    #[test]
    fn an_icmp_message_and_its_sender() {
        let error = extended(
            libc::ECONNREFUSED,
            libc::SO_EE_ORIGIN_ICMP,
            0,
            0,
            &sockaddr_in([192, 0, 2, 1]),
        );
        let control = parse(&message(libc::IPPROTO_IP, libc::IP_RECVERR, &error));
        let error = control.error.unwrap();
        assert_eq!((error.errno, error.origin), (libc::ECONNREFUSED, Origin::Icmp));
        assert_eq!(error.offender, Some(Ipv4Addr::new(192, 0, 2, 1).into()));
        assert_eq!(control.stamp, None);
    }

    #[test]
    fn hop_limits_are_read_and_other_messages_passed_over() {
        let bytes = [
            message(libc::IPPROTO_IP, libc::IP_TTL, &64i32.to_ne_bytes()),
            message(libc::SOL_SOCKET, libc::SCM_RIGHTS, &[]),
            timestamping(3, 4),
        ]
        .concat();
        let control =
            Control { stamp: Some(3_000_000_004), hop_limit: Some(64), ..Control::default() };
        assert_eq!(parse(&bytes), control);
        let six = message(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &255i32.to_ne_bytes());
        assert_eq!(parse(&six).hop_limit, Some(255));
        for odd in [256i32, -1] {
            let odd = message(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &odd.to_ne_bytes());
            assert_eq!(parse(&odd), Control::default());
        }
    }

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
                let read = parse(&bytes[..len]);
                assert_eq!(
                    Control { wire: Wire::default(), ..read },
                    Control { via, ..Control::default() }
                );
                let by_link = matches!(via, Some(Via::V6(..))).then_some(3);
                assert_eq!(read.wire.interface, by_link);
                assert_eq!(len % WORD, 0);
            }
        }
        let far = Some(Via::V6("2001:db8::1".parse().unwrap(), 3));
        let len = write(&mut bytes, far, false);
        assert_eq!(parse(&bytes[..len]).via, Some(Via::V6("2001:db8::1".parse().unwrap(), 0)));
        assert_eq!(write(&mut bytes[..10], far, true), 0);
    }

    /// A message with the stamps of kernel and card.
    fn stamps(kernel: libc::c_long, card: libc::c_long) -> Vec<u8> {
        let longs = [kernel, 0, 0, 0, card, if card == 0 { 0 } else { 7 }];
        let data: Vec<u8> = longs.iter().flat_map(|long| long.to_ne_bytes()).collect();
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    #[test]
    fn the_card_s_stamp_comes_with_its_interface_and_length() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let frame: Vec<u8> = words(&[4, 90, 0, 0]);
        let info: Vec<u8> = words(&[9, 0x0100_007f, 0]);
        let by_address = message(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        let wire = |parts: &[Vec<u8>]| parse(&parts.concat()).wire;
        let all = [by_address.clone(), stamps(3, 5), message(libc::SOL_SOCKET, FRAME, &frame)];
        let card_ns = Some(5_000_000_007);
        assert_eq!(wire(&all), Wire { card_ns, interface: Some(4), frame: Some(90) });
        assert_eq!(parse(&all.concat()).stamp, Some(3_000_000_000));
        // A driver that the kernel does not know the interface of.
        let frame: Vec<u8> = words(&[0, 90, 0, 0]);
        let all = [message(libc::SOL_SOCKET, FRAME, &frame), by_address.clone()];
        assert_eq!(wire(&all), Wire { card_ns: None, interface: Some(9), frame: Some(90) });
        // The card's alone, as it comes for what was sent.
        let alone = [stamps(0, 5), by_address];
        assert_eq!(wire(&alone), Wire { card_ns, interface: Some(9), frame: None });
        assert_eq!(parse(&alone.concat()).stamp, None);
        assert_eq!(wire(&[stamps(3, 0)]), Wire::default());
    }

    #[test]
    fn a_stamp_of_nothing_is_none() {
        for (secs, nanos) in [(0, 0), (1, -1), (1, 1_000_000_000), (libc::c_long::MAX, 0)] {
            assert_eq!(parse(&timestamping(secs, nanos)).stamp, None, "{secs} {nanos}");
        }
        assert_eq!(parse(&timestamping(-1, 999_999_999)).stamp, Some(-1));
    }

    #[test]
    fn cut_off_anywhere_it_is_read_as_far_as_it_goes() {
        let error = extended(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 1, &[]);
        let whole =
            [timestamping(3, 4), message(libc::IPPROTO_IP, libc::IP_RECVERR, &error)].concat();
        for end in 0..whole.len() {
            let control = parse(&whole[..end]);
            assert_eq!(control.stamp.is_some(), end >= HEADER + 6 * LONG, "{end}");
            assert_eq!(control.error, None, "{end}");
        }
        assert!(parse(&whole).error.is_some());
        // A header that claims less than itself, nothing, or everything.
        for length in [0, 1, HEADER - 1, usize::MAX, usize::MAX - 7] {
            let mut bytes = whole.clone();
            bytes[..WORD].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(parse(&bytes), Control::default(), "{length}");
        }
    }

    #[test]
    fn random_bytes_do_no_harm() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut bytes = [0; 128];
        for _ in 0..100_000 {
            rng.fill_bytes(&mut bytes);
            // Lengths, levels and types that lead somewhere.
            for offset in (0..bytes.len()).step_by(HEADER * 2) {
                let length = usize::from(bytes[offset] % 80);
                bytes[offset..offset + WORD].copy_from_slice(&length.to_ne_bytes());
                let level = [0i32, 1, 41, 7][usize::from(bytes[offset + WORD] % 4)];
                bytes[offset + WORD..offset + WORD + 4].copy_from_slice(&level.to_ne_bytes());
                let kind = [11i32, 37, 25, 7][usize::from(bytes[offset + WORD + 4] % 4)];
                bytes[offset + WORD + 4..offset + WORD + 8].copy_from_slice(&kind.to_ne_bytes());
            }
            let end = rng.next_u32() as usize % bytes.len();
            parse(&bytes[..end]);
        }
    }
}
