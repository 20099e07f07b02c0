//! Plan of what is done to the ring, in which order: drawn from a seed, the same for the same seed.

use std::fmt;
use std::time::Duration;

use truechimer_sim::Random;

/// Fault that is done to a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// The agent is killed, and started again after a while.
    KillAgent,
    /// Corosync is killed, and started again after a while.
    KillCorosync,
    /// The agent is stopped, and continued.
    StopAgent,
    /// Corosync is stopped for longer than the ring waits, and continued.
    StopCorosync,
    /// Corosync is stopped for less than the ring waits, and continued.
    Hiccup,
    /// The node's own interface goes down and up.
    Link,
    /// The network parts the node from the others, and heals.
    Partition,
    /// The network parts all nodes from each other, and heals.
    Scatter,
    /// The program is killed and started again: it joins the running group.
    Restart,
    /// The agent's system clock is stepped, and stepped back.
    Clock,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 10] = [
        Fault::KillAgent,
        Fault::KillCorosync,
        Fault::StopAgent,
        Fault::StopCorosync,
        Fault::Hiccup,
        Fault::Link,
        Fault::Partition,
        Fault::Scatter,
        Fault::Restart,
        Fault::Clock,
    ];

    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fault::KillAgent => "SIGKILL agent",
            Fault::KillCorosync => "SIGKILL corosync",
            Fault::StopAgent => "SIGSTOP agent",
            Fault::StopCorosync => "SIGSTOP corosync",
            Fault::Hiccup => "SIGSTOP corosync, shorter than the token",
            Fault::Link => "link down",
            Fault::Partition => "partition 1 | 2",
            Fault::Scatter => "partition 1 | 1 | 1",
            Fault::Restart => "restart program",
            Fault::Clock => "clock stepped by 2 s",
        }
    }

    /// True if nobody is left who can go on.
    #[must_use]
    pub const fn hits_all(self) -> bool {
        matches!(self, Fault::Scatter)
    }
}

/// One fail-over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Which one it is, from 0.
    pub number: u32,
    /// Fault that is done.
    pub fault: Fault,
    /// To which node.
    pub node: u32,
    /// Time for which it stays so.
    pub hold: Duration,
    /// Time for which all goes well before the next.
    pub calm: Duration,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { number, fault, node, hold, .. } = self;
        write!(f, "step {number}: {} at node {node} for {} ms", fault.name(), hold.as_millis())
    }
}

/// Draws `count` fail-overs for a ring of `nodes` nodes that takes a node for lost after `token`.
///
/// Each stays long enough to be seen, mostly, and sometimes not much longer or even shorter: what
/// heals while the ring is just about to change is the worst. A link is the same as a partition to
/// Corosync; both are there, as the node's own kernel sees only the first.
#[must_use]
pub fn plan(seed: u64, count: u32, nodes: u32, token: Duration) -> Vec<Step> {
    let mut random = Random::new(seed, "fail-overs");
    let mut bag: Vec<Fault> = Vec::new();
    (0..count)
        .map(|number| {
            // From a bag that is filled again when it is empty: all kinds come, in random order.
            if bag.is_empty() {
                bag = Fault::ALL.to_vec();
            }
            let fault = bag.swap_remove(below(&mut random, bag.len() as u64) as usize);
            let node = 1 + below(&mut random, u64::from(nodes)) as u32;
            let tokens = match fault {
                Fault::Hiccup => 0.1 + 0.7 * random.uniform(),
                Fault::StopAgent => 0.05 + 2.0 * random.uniform(),
                Fault::KillAgent | Fault::Restart => 0.5 * random.uniform(),
                _ if random.chance(0.25) => 0.8 + 1.6 * random.uniform(),
                _ => 2.6 + random.uniform(),
            };
            let hold = token.mul_f64(tokens);
            let calm = token.mul_f64(0.2 + 0.6 * random.uniform());
            Step { number, fault, node, hold, calm }
        })
        .collect()
}

/// A number below `limit`, which is small beside 2⁶⁴.
fn below(random: &mut Random, limit: u64) -> u64 {
    random.bits() % limit.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Duration = Duration::from_millis(300);

    #[test]
    fn the_seed_decides() {
        assert_eq!(plan(1, 100, 3, TOKEN), plan(1, 100, 3, TOKEN));
        assert_ne!(plan(1, 100, 3, TOKEN), plan(2, 100, 3, TOKEN));
        // A longer plan begins with the shorter one: a step can be repeated by its number.
        assert_eq!(plan(1, 100, 3, TOKEN)[..10], plan(1, 10, 3, TOKEN));
    }

    #[test]
    fn all_faults_hit_all_nodes() {
        let plan = plan(7, 1000, 3, TOKEN);
        for fault in Fault::ALL {
            for node in 1..=3 {
                let hits = plan.iter().filter(|s| s.fault == fault && s.node == node).count();
                assert!(hits > 15, "{fault:?} at {node}: {hits}");
            }
        }
        let short = plan.iter().filter(|s| s.fault == Fault::Hiccup);
        assert!(short.into_iter().all(|s| s.hold < TOKEN));
    }
}
