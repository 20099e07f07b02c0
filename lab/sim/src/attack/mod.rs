//! Attacks on the path, and by servers that are bought: drawn from ranges, and run around the very
//! engine.
//!
//! Each attack is a [`Scenario`]: a host, its servers and paths ([`ranges`]'s first entry), and
//! one or several parts that act on packets or servers. Parts know nothing of each other, so that
//! they combine. An attack is a function of the seed and of its number.

mod beside;
mod judged;
mod parts;

use truechimer_engine::AuthenticationMode;

use crate::drawn::range::Drawing;
use crate::drawn::{Drew, Range};
use crate::random::Random;
use crate::scenario::Scenario;

pub use beside::{Beside, beside};
pub use judged::{Judged, judge, judge_scenario};
use parts::{Part, Surroundings};

/// A kind of attack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Requests are held back.
    DelayRequests,
    /// Replies are held back.
    DelayReplies,
    /// Both are held back.
    DelayBoth,
    /// The delay of one direction grows slowly.
    DelaySlow,
    /// A delay of one direction comes and goes.
    DelayOnOff,
    /// Earlier replies are sent again.
    Replay,
    /// Packets are doubled, overtake each other, or are lost.
    Reorder,
    /// Others answer in the servers' names.
    Forged,
    /// A minority announces a leap second that does not come, or hides one that does.
    Leap,
    /// Kiss codes, forged and real.
    Kiss,
    /// A minority of the proven servers is bought.
    BoughtMinority,
    /// All plain servers lie from the start, and the proven ones answer late.
    Start,
    /// All plain servers are right, and then lie.
    PlainTurn,
    /// Several of these at once.
    Combined,
    /// Half of the proven servers is bought.
    BoughtHalf,
    /// A majority of the proven servers is bought.
    BoughtMajority,
    /// No server proves anything, and somebody on the path answers for all of them.
    Unproven,
    /// A minority of the proven servers lies, falls silent, and leads to honest ones' addresses.
    Redirect,
    /// Fewer servers of a pool lie than are a majority of those that are followed and answer at first; one that is honest
    /// falls silent.
    PoolMinority,
    /// Half of a pool's servers lies.
    PoolHalf,
}

/// Kinds that share their numbers, taking turns. Each later one has numbers of its own and is run by its name alone, so
/// that those of before stay what they are.
const TURNS: u64 = 17;
/// Bits of such numbers below the place of the kind.
const OWN_BITS: u32 = 32;

impl Kind {
    /// All of them; the first 17 in the order in which they take turns.
    pub const ALL: [Kind; 20] = [
        Kind::DelayRequests,
        Kind::DelayReplies,
        Kind::DelayBoth,
        Kind::DelaySlow,
        Kind::DelayOnOff,
        Kind::Replay,
        Kind::Reorder,
        Kind::Forged,
        Kind::Leap,
        Kind::Kiss,
        Kind::BoughtMinority,
        Kind::Start,
        Kind::PlainTurn,
        Kind::Combined,
        Kind::BoughtHalf,
        Kind::BoughtMajority,
        Kind::Unproven,
        Kind::Redirect,
        Kind::PoolMinority,
        Kind::PoolHalf,
    ];

    /// Number of the attack of this kind that is its `n`th, from 0.
    fn number(self, n: u64) -> u64 {
        let place = Kind::ALL.iter().position(|kind| *kind == self).unwrap_or(0) as u64;
        if place < TURNS { n * TURNS + place } else { (place << OWN_BITS) + n }
    }

    /// Kind of the attack of this number.
    fn of(number: u64) -> Kind {
        let own = number >> OWN_BITS;
        let place = if own < TURNS { number % TURNS } else { own };
        Kind::ALL.get(place as usize).copied().unwrap_or(Kind::DelayRequests)
    }

    /// Name, one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::DelayRequests => "delay-requests",
            Kind::DelayReplies => "delay-replies",
            Kind::DelayBoth => "delay-both",
            Kind::DelaySlow => "delay-slow",
            Kind::DelayOnOff => "delay-on-off",
            Kind::Replay => "replay",
            Kind::Reorder => "reorder",
            Kind::Forged => "forged",
            Kind::Leap => "leap",
            Kind::Kiss => "kiss",
            Kind::BoughtMinority => "bought-minority",
            Kind::Start => "start",
            Kind::PlainTurn => "plain-turn",
            Kind::Combined => "combined",
            Kind::BoughtHalf => "bought-half",
            Kind::BoughtMajority => "bought-majority",
            Kind::Unproven => "unproven",
            Kind::Redirect => "redirect",
            Kind::PoolMinority => "pool-minority",
            Kind::PoolHalf => "pool-half",
        }
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// There is none: which there are.
    pub fn named(name: &str) -> Result<Kind, String> {
        let all = Kind::ALL.map(Kind::name);
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("no attack is called {name:?}; there are {}", all.join(", ")))
    }

    /// Description in a line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Kind::DelayRequests => "requests are held back (RFC 7384, 3.2.6)",
            Kind::DelayReplies => "replies are held back",
            Kind::DelayBoth => "requests and replies are held back alike",
            Kind::DelaySlow => "the delay of one direction grows slowly, as a drift would",
            Kind::DelayOnOff => "a delay of one direction comes and goes",
            Kind::Replay => "earlier replies are sent again before the true ones (RFC 7384, 3.2.3)",
            Kind::Reorder => "packets are doubled, overtake each other, or are lost",
            Kind::Forged => {
                "others answer in the servers' names, who see the requests or not (RFC 7384, 3.2.2)"
            }
            Kind::Leap => {
                "a minority of the proven servers and all plain ones announce a leap second that \
                 does not come, or hide one that does"
            }
            Kind::Kiss => "kiss codes in the servers' names; plain servers really refuse",
            Kind::BoughtMinority => "a minority of the proven servers lies",
            Kind::Start => {
                "all plain servers lie from the start, and the proven ones are held back at first"
            }
            Kind::PlainTurn => "all plain servers are right and near, and then lie",
            Kind::Combined => "two or more of all these at once",
            Kind::BoughtHalf => "half of the proven servers lies",
            Kind::BoughtMajority => "a majority of the proven servers lies",
            Kind::Unproven => {
                "no server proves anything, and somebody on the path answers for all of them"
            }
            Kind::Redirect => {
                "a minority of the proven servers lies, and then falls silent and leads to the \
                 addresses of honest ones, by name or by its exchange of keys"
            }
            Kind::PoolMinority => {
                "of a pool of plain servers fewer lie than are a majority of those that are followed \
                 and answer at first; one that is honest falls silent and is replaced"
            }
            Kind::PoolHalf => "half of a pool of plain servers lies",
        }
    }

    /// True if an honest majority of the servers that vote is left.
    #[must_use]
    pub const fn leaves_majority(self) -> bool {
        !matches!(self, Kind::BoughtHalf | Kind::BoughtMajority | Kind::Unproven | Kind::PoolHalf)
    }

    fn surroundings(self) -> Surroundings {
        match self {
            Kind::BoughtMinority | Kind::BoughtMajority | Kind::Redirect => Surroundings::Several,
            Kind::BoughtHalf => Surroundings::Even,
            Kind::Start | Kind::PlainTurn => Surroundings::Mixed,
            Kind::Unproven => Surroundings::Plain,
            Kind::PoolMinority | Kind::PoolHalf => Surroundings::Pool,
            _ => Surroundings::Any,
        }
    }

    fn parts(self, d: &mut Drawing) -> Vec<Part> {
        vec![match self {
            Kind::DelayRequests => Part::DelayRequests,
            Kind::DelayReplies => Part::DelayReplies,
            Kind::DelayBoth => Part::DelayBoth,
            Kind::DelaySlow => Part::DelaySlow,
            Kind::DelayOnOff => Part::DelayOnOff,
            Kind::Replay => Part::Replay,
            Kind::Reorder => Part::Reorder,
            Kind::Forged | Kind::Unproven => Part::Forged,
            Kind::Leap => Part::Leap,
            Kind::Kiss => Part::Kiss,
            Kind::BoughtMinority => Part::BoughtMinority,
            Kind::Redirect => Part::Redirect,
            Kind::PoolMinority => Part::PoolMinority,
            Kind::PoolHalf => Part::PoolHalf,
            Kind::BoughtHalf => Part::BoughtHalf,
            Kind::BoughtMajority => Part::BoughtMajority,
            Kind::Start => Part::Start,
            Kind::PlainTurn => Part::PlainTurn,
            Kind::Combined => return parts::several(d),
        }]
    }
}

/// An attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attack {
    /// Number, from 0.
    pub number: u64,
    /// The seed that all numbers count under.
    pub seed: u64,
    /// Kind of attack.
    pub kind: Kind,
    own_seed: u64,
}

impl Attack {
    /// The attack of this number.
    #[must_use]
    pub fn new(seed: u64, number: u64) -> Attack {
        Attack {
            number,
            seed,
            kind: Kind::of(number),
            own_seed: Random::new(seed, &format!("attack {number}")).bits(),
        }
    }

    /// Numbers of the first so many attacks, of one kind, or of those that take turns.
    #[must_use]
    pub fn numbers(attacks: u64, kind: Option<Kind>) -> Vec<u64> {
        (0..attacks).map(|n| kind.map_or(n, |kind| kind.number(n))).collect()
    }

    /// The seed of its packets.
    #[must_use]
    pub fn packet_seed(&self) -> u64 {
        self.own_seed
    }

    /// All that happens, what was drawn for it, and which servers are the attacker's.
    #[must_use]
    pub fn scenario(&self) -> (Scenario, Vec<Drew>) {
        let mut d = Drawing::new(self.own_seed);
        let mut scenario = parts::surroundings(self.kind.surroundings(), &mut d);
        scenario.name = format!("{}-{}", self.kind.name(), self.number);
        self.kind.about().clone_into(&mut scenario.about);
        scenario.authentication = AuthenticationMode::Mix;
        for part in self.kind.parts(&mut d) {
            part.apply(&mut d, &mut scenario);
        }
        (scenario, d.drew)
    }
}

/// The parameters that are drawn: a title, a line about them, and the ranges.
#[must_use]
pub fn ranges() -> Vec<(&'static str, &'static str, Vec<Range>)> {
    parts::ranges()
}
