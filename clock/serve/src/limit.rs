//! Limit of how often one client may ask.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::Table;

/// Clients that are remembered: some 1 MiB.
const CLIENTS: usize = 16_384;
/// A client over its limit is told so no more often than this, ns.
const BETWEEN_KISSES: u64 = 4_000_000_000;
/// Of the requests beyond the limit one in so many is answered all the same, by chance: else
/// whoever can forge a client's address could keep it from the server for good.
const LEAK: u64 = 8;

/// Rate at which a client may ask: `per_second` on average, `burst` at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// On average, 1 to 1 000 000.
    pub per_second: u32,
    /// At once after a silence, at least 1.
    pub burst: u32,
}

/// Ruling on a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ruling {
    /// Answer it.
    Answer,
    /// Tell the client to ask less often.
    Kiss,
    /// Drop it.
    Drop,
}

/// A token bucket for each client.
#[derive(Debug)]
pub struct Limiter {
    /// Between two requests at the average rate, ns.
    interval: u64,
    /// Most that a client may be ahead of that rate, ns.
    ahead: u64,
    clients: Table<IpAddr, Bucket>,
    /// Steps of a random sequence, for the leak.
    random: AtomicU64,
}

#[derive(Debug)]
struct Bucket {
    /// When the bucket will be full again, ns.
    full_at: u64,
    /// Until when the client is not told again, ns.
    told_until: u64,
}

impl Limiter {
    /// Limits every client to `rate`. `seed` makes the leak unpredictable.
    pub fn new(rate: Rate, seed: u64) -> Limiter {
        let interval = 1_000_000_000 / u64::from(rate.per_second.clamp(1, 1_000_000));
        Limiter {
            interval,
            ahead: interval.saturating_mul(u64::from(rate.burst.max(1)) - 1),
            clients: Table::new(CLIENTS),
            random: AtomicU64::new(seed),
        }
    }

    /// Rules on a request of `client` at `now`, ns of a clock that does not go back.
    pub(crate) fn rule(&self, client: IpAddr, now: u64) -> Ruling {
        let (client, fresh) = (network(client), || Bucket { full_at: now, told_until: 0 });
        let ruled = self.clients.with(client, now, fresh, |bucket| {
            if self.has_room(bucket, now) {
                return Ruling::Answer;
            }
            if now >= bucket.told_until {
                bucket.told_until = now.saturating_add(BETWEEN_KISSES);
                return Ruling::Kiss;
            }
            if self.leaks() { Ruling::Answer } else { Ruling::Drop }
        });
        ruled.unwrap_or(Ruling::Answer)
    }

    /// Tells whether a request of `client` at `now` is within the rate: nothing beyond it is let through, which keeps whoever
    /// forges a client's address from having more sent there.
    pub fn allows(&self, client: IpAddr, now: u64) -> bool {
        let (client, fresh) = (network(client), || Bucket { full_at: now, told_until: 0 });
        self.clients.with(client, now, fresh, |bucket| self.has_room(bucket, now)).unwrap_or(false)
    }

    /// Tells whether a request is within the rate, which it then counts for.
    fn has_room(&self, bucket: &mut Bucket, now: u64) -> bool {
        let full_at = bucket.full_at.max(now);
        let room = full_at - now <= self.ahead;
        if room {
            bucket.full_at = full_at.saturating_add(self.interval);
        }
        room
    }

    /// The average interval, ns.
    pub fn interval(&self) -> u64 {
        self.interval
    }

    /// Tells whether chance lets this one through: SplitMix64.
    fn leaks(&self) -> bool {
        let step = 0x9e37_79b9_7f4a_7c15;
        let z = self.random.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).is_multiple_of(LEAK)
    }
}

/// Network that counts as one client: an IPv4 address, or the 64 bits of an IPv6 network, any
/// address in which a host may take at will.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Counts of `n` requests, `step` ns apart from `start` on, by what is ruled on them.
    fn ruled(limiter: &Limiter, client: IpAddr, start: u64, step: u64, n: u64) -> [u64; 3] {
        let mut counts = [0; 3];
        for i in 0..n {
            let at = match limiter.rule(client, start + i * step) {
                Ruling::Answer => 0,
                Ruling::Kiss => 1,
                Ruling::Drop => 2,
            };
            counts[at] += 1;
        }
        counts
    }

    #[test]
    fn a_burst_then_the_average_rate() {
        let limiter = Limiter::new(Rate { per_second: 4, burst: 10 }, 1);
        let client = address("192.0.2.1");
        assert_eq!(ruled(&limiter, client, 100 * SECOND, 0, 10), [10, 0, 0]);
        assert_eq!(limiter.rule(client, 100 * SECOND), Ruling::Kiss);
        // At the rate itself all are answered, from the moment when the first is due.
        assert_eq!(
            ruled(&limiter, client, 100 * SECOND + SECOND / 4, SECOND / 4, 1000),
            [1000, 0, 0]
        );
        // Another client is another matter.
        assert_eq!(ruled(&limiter, address("192.0.2.2"), 100 * SECOND, 0, 10), [10, 0, 0]);
    }

    #[test]
    fn a_flood_is_told_now_and_then_and_leaks_by_chance() {
        let limiter = Limiter::new(Rate { per_second: 1, burst: 1 }, 7);
        // A thousand a second for 40 s: 40 by the rate, a kiss every 4 s, an eighth of the rest.
        let [answered, told, dropped] =
            ruled(&limiter, address("::1"), SECOND, SECOND / 1000, 40_000);
        assert_eq!((told, answered + told + dropped), (10, 40_000));
        assert!((4500..5600).contains(&answered), "{answered}");
    }

    #[test]
    fn where_nothing_leaks_a_flood_gets_no_more_than_the_rate() {
        let limiter = Limiter::new(Rate { per_second: 10, burst: 5 }, 7);
        // A thousand a second for 4 s.
        let allowed =
            (0..4000).filter(|i| limiter.allows(address("::1"), i * SECOND / 1000)).count();
        assert_eq!(allowed, 5 + 39);
        assert!(limiter.allows(address("::1:0:0:0:1"), 0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let limiter = Limiter::new(Rate { per_second: 1, burst: 2 }, 1);
        assert_eq!(limiter.rule(address("2001:db8::1"), 0), Ruling::Answer);
        assert_eq!(limiter.rule(address("2001:db8::ffff:1"), 0), Ruling::Answer);
        assert_eq!(limiter.rule(address("2001:db8::2"), 0), Ruling::Kiss);
        assert_eq!(limiter.rule(address("2001:db8:0:1::2"), 0), Ruling::Answer);
        // The same client, however its address is written.
        assert_eq!(network(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }

    #[test]
    fn extremes_do_no_harm() {
        let limiter = Limiter::new(Rate { per_second: 0, burst: u32::MAX }, 1);
        for now in [0, 0, SECOND, u64::MAX / 2, u64::MAX, u64::MAX] {
            assert_eq!(limiter.rule(address("::1"), now), Ruling::Answer);
        }
        // A clock that goes back against its promise: refused, not worse.
        let _ = limiter.rule(address("::1"), 0);
    }
}
