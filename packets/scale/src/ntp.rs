//! NTP exchanges that pass an interface, as anchors of its clock.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use truechimer_ntp::{LeapIndicator, Mode, Packet, Timestamp};
use truechimer_qos::{Parsed, Transport};

use crate::Anchor;

/// UDP port of NTP servers.
const PORT: u16 = 123;
/// Middle of the 136 years that timestamps are taken to be of: 2026-01-01, Unix seconds.
const PIVOT: i64 = 1_767_225_600;
/// Requests that wait for a reply; the oldest of more are given up.
const WAITING: usize = 1 << 16;
/// A reply that comes later, ns, is none to that request.
const PATIENCE: i64 = 16_000_000_000;
/// A server that claims no better than this, ns, tells nothing.
const ROOT_DISTANCE: i64 = 4_000_000_000;

/// Client, its port, server, and the transmit timestamp of a request.
type Asked = (IpAddr, u16, IpAddr, u64);

/// Requests that passed one interface and have no reply yet.
#[derive(Clone, Debug, Default)]
pub struct Ntp {
    waiting: HashMap<Asked, i64>,
    /// Those, and some that were answered, in the order in which they passed.
    order: VecDeque<(Asked, i64)>,
}

impl Ntp {
    /// Looks at a packet with the interface's stamp, ns. A reply gives an anchor for itself, and one
    /// for its request if that passed as well. The reference is the server's clock to within the
    /// root distance that it claims (RFC 5905, section 11.2).
    pub fn packet(&mut self, parsed: &Parsed<'_>, at: i64) -> [Option<Anchor>; 2] {
        let nothing = [None, None];
        let (Some(ip), Transport::Udp { source, destination }) = (parsed.ip, parsed.transport)
        else {
            return nothing;
        };
        if (source != PORT && destination != PORT) || ip.fragment.is_some() {
            return nothing;
        }
        let Some((packet, _)) = Packet::decode(parsed.payload) else { return nothing };
        match packet.mode {
            Mode::Client if destination == PORT => {
                let key = (ip.source, source, ip.destination, packet.transmit_timestamp.0);
                self.asked(key, at);
                nothing
            }
            Mode::Server if source == PORT => {
                let key = (ip.destination, destination, ip.source, packet.origin_timestamp.0);
                let asked = self.waiting.remove(&key);
                let is_it = |then: &i64| {
                    at.checked_sub(*then).is_some_and(|waited| (0..PATIENCE).contains(&waited))
                };
                answered(&packet, asked.filter(is_it), at)
            }
            _ => nothing,
        }
    }

    fn asked(&mut self, key: Asked, at: i64) {
        if key.3 == 0 {
            return;
        }
        while let Some((oldest, then)) = self.order.front()
            && (self.order.len() >= WAITING || at.abs_diff(*then) >= PATIENCE.unsigned_abs())
        {
            // One that was answered may have been asked again.
            if self.waiting.get(oldest) == Some(then) {
                self.waiting.remove(oldest);
            }
            self.order.pop_front();
        }
        // Of one that passed twice the first sighting is before the server for sure.
        if let Entry::Vacant(place) = self.waiting.entry(key) {
            place.insert(at);
            self.order.push_back((key, at));
        }
    }
}

/// Anchors of a reply that passed at `at`, to a request that passed at `asked`.
fn answered(packet: &Packet, asked: Option<i64>, at: i64) -> [Option<Anchor>; 2] {
    let Packet { leap, version, stratum, .. } = *packet;
    let usable = leap != LeapIndicator::Unsynchronised
        && (3..=4).contains(&version)
        && (1..16).contains(&stratum);
    let distance =
        packet.root_delay.span().half() + packet.root_dispersion.span() + packet.precision.span();
    let distance = i64::try_from(distance.as_nanos()).ok().map(|ns| ns.saturating_add(1));
    let distance = distance.filter(|ns| usable && (0..ROOT_DISTANCE).contains(ns));
    let (Some(distance), Some(sent)) = (distance, unix_ns(packet.transmit_timestamp)) else {
        return [None, None];
    };
    let reply = Anchor { at, earliest: Some(sent - distance), latest: None };
    let received = unix_ns(packet.receive_timestamp).filter(|received| *received <= sent);
    let request = asked.zip(received).map(|(at, received)| Anchor {
        at,
        earliest: None,
        // Rounded down there.
        latest: Some(received + 1 + distance),
    });
    [request, Some(reply)]
}

/// Unix time of a timestamp, ns, rounded down; `None` for zero.
fn unix_ns(timestamp: Timestamp) -> Option<i64> {
    let (seconds, fraction) = timestamp.to_unix(PIVOT);
    let nanos = (u128::from(fraction) * 1_000_000_000) >> 64;
    let whole = seconds.checked_mul(1_000_000_000)?;
    (!timestamp.is_unknown()).then_some(whole + i64::try_from(nanos).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn key(number: u64) -> Asked {
        (NOWHERE, 1, NOWHERE, number)
    }

    #[test]
    fn requests_that_are_never_answered_make_room_for_others() {
        let mut ntp = Ntp::default();
        let many = 3 * WAITING as u64;
        // At one moment, and by times that are far from each other: the work is done once for each.
        for times in [[0, 0], [0, 16_500_000_000]] {
            for n in 1..=many {
                ntp.asked(key(n), times[(n % 2) as usize]);
                assert!(ntp.waiting.len() <= WAITING && ntp.order.len() <= WAITING);
                assert!(ntp.waiting.contains_key(&key(n)), "request {n}");
            }
        }
        // Later, and at the same moment, an honest client is heard.
        for at in [16_500_000_000, 36_500_000_000] {
            ntp.asked(key(many + 1), at);
            assert_eq!(ntp.waiting.remove(&key(many + 1)), Some(at));
        }
        assert!(ntp.order.len() <= 2, "{}", ntp.order.len());
    }

    #[test]
    fn a_request_that_was_answered_and_comes_again_waits_anew() {
        let mut ntp = Ntp::default();
        ntp.asked(key(1), 0);
        ntp.asked(key(1), 1);
        assert_eq!(ntp.waiting.remove(&key(1)), Some(0), "the first sighting");
        ntp.asked(key(1), 15_000_000_000);
        ntp.asked(key(2), 17_000_000_000);
        assert_eq!(ntp.waiting.get(&key(1)), Some(&15_000_000_000));
    }
}
