//! Room for key exchanges: how many go on at a time, and how often one client may begin.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::limit::{Limiter, Rate, network};
use crate::worker::since;

/// Exchanges at a time: whoever comes beyond that is turned away.
pub(super) const MOST: usize = 32;
/// Exchanges at a time with one client, so that nobody has all of them.
const EACH: usize = 4;
/// Rate at which one client may begin exchanges, each of which costs a signature: an address of IPv4 may be that of many clients.
const RATE: Rate = Rate { per_second: 4, burst: 32 };

/// Exchanges that are under way, and who began some lately.
#[derive(Debug)]
pub(super) struct Room {
    at_work: Mutex<Vec<IpAddr>>,
    limiter: Limiter,
    origin: Instant,
}

impl Room {
    pub(super) fn new() -> Room {
        let (at_work, origin) = (Mutex::new(Vec::new()), Instant::now());
        // Nothing is let through beyond the rate, so that there is nothing to be unpredictable.
        Room { at_work, limiter: Limiter::new(RATE, 0), origin }
    }

    /// Tells whether there is room for an exchange with this client, which then begins. A network of IPv6 is one client.
    pub(super) fn begins(&self, from: IpAddr) -> bool {
        self.begins_at(from, since(self.origin))
    }

    fn begins_at(&self, from: IpAddr, now: u64) -> bool {
        if !self.limiter.allows(from, now) {
            return false;
        }
        let from = network(from);
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let own = at_work.iter().filter(|other| **other == from).count();
        let room = at_work.len() < MOST && own < EACH;
        if room {
            at_work.push(from);
        }
        room
    }

    /// An exchange with this client is over.
    pub(super) fn ends(&self, from: IpAddr) {
        let from = network(from);
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = at_work.iter().position(|other| *other == from) {
            at_work.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(network: u16, host: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host])
    }

    #[test]
    fn a_network_of_ipv6_does_not_take_all_places() {
        let room = Room::new();
        let begun = (0..32).filter(|host| room.begins_at(client(1, *host), 0)).count();
        assert_eq!(begun, EACH);
        assert!(room.begins_at(client(2, 1), 0), "there is room for others");
        room.ends(client(1, 99));
        assert!(room.begins_at(client(1, 100), 1_000_000_000));
    }

    #[test]
    fn exchanges_that_end_at_once_are_limited_in_number() {
        let room = Room::new();
        let begins = |host| {
            let begins = room.begins_at(client(1, host), 0);
            begins.then(|| room.ends(client(1, host))).is_some()
        };
        let begun = (0..1000).filter(|host| begins(*host)).count();
        assert_eq!(begun, RATE.burst as usize);
        assert!(room.begins_at(client(2, 1), 0));
        assert!(room.begins_at(client(1, 1), 1_000_000_000), "later");
    }

    #[test]
    fn no_more_go_on_than_there_is_room_for() {
        let room = Room::new();
        let begun = (0..100).filter(|n| room.begins_at(client(*n, 1), 0)).count();
        assert_eq!(begun, MOST);
    }
}
