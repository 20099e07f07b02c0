//! Behaviour of the path and the server.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Least time that a packet takes, each way.
const FLOOR: Duration = Duration::from_micros(300);
/// The mean of what a packet takes longer at all times (exponentially distributed), each way.
const JITTER: Duration = Duration::from_micros(10);
/// The mean of what it takes longer than that in a burst.
const BURST: Duration = Duration::from_millis(1);
/// A burst in every one of these periods, s …
const PERIOD: f64 = 30.0;
/// … within these seconds of it.
const BUSY: std::ops::Range<f64> = 10.0..20.0;
/// Error of the server where it goes wrong.
const STEP: Duration = Duration::from_millis(150);
/// Addition to the path's delay where it changes.
const SHIFT: Duration = Duration::from_micros(400);

/// The way of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From client to server.
    There,
    /// From server to client.
    Back,
}

/// A part of a run, in shares of its length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phase {
    /// Name of the phase.
    pub name: &'static str,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// Course of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The word by which the command line knows it.
    pub name: &'static str,
    /// Description in words.
    pub about: &'static str,
    /// True if there are bursts, there and back.
    bursts: [bool; 2],
    /// The share of packets lost, each way.
    loss: f64,
    /// By how much the path gets longer from `event` on, there and back.
    shift: [Duration; 2],
    /// Error of the server's time in `event`.
    step: Duration,
    /// When it happens, in shares of the length.
    event: Option<(f64, f64)>,
}

/// All of them, in the order in which they are shown.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let quiet = Scenario {
        name: "quiet",
        about: "a quiet LAN: 300 µs and exponential 10 µs each way",
        bursts: [false; 2],
        loss: 0.0,
        shift: [Duration::ZERO; 2],
        step: Duration::ZERO,
        event: None,
    };
    let bursts = |name, about, bursts| Scenario { name, about, bursts, ..quiet.clone() };
    let shift = |name, about, shift| Scenario {
        name,
        about,
        shift,
        event: Some((0.5, 1.0)),
        ..quiet.clone()
    };
    vec![
        quiet.clone(),
        bursts(
            "bursts-back",
            "the same with bursts of exponential 1 ms from server to client, 10 s in every 30 s",
            [false, true],
        ),
        bursts("bursts-there", "the same with these bursts from client to server", [true, false]),
        bursts("bursts-both", "the same with these bursts both ways", [true, true]),
        Scenario {
            name: "loss",
            about: "the quiet LAN, losing 20 % of all packets each way",
            loss: 0.2,
            ..quiet.clone()
        },
        Scenario {
            name: "server-step",
            about: "the quiet LAN; the server steps by +150 ms half-way, and is right again after a \
                    tenth of the run",
            step: STEP,
            event: Some((0.5, 0.6)),
            ..quiet.clone()
        },
        shift(
            "route-both",
            "the quiet LAN; half-way the route gets longer by 400 µs each way",
            [SHIFT; 2],
        ),
        shift(
            "route-back",
            "the quiet LAN; half-way the route from server to client alone gets longer by 400 µs, \
             which nobody can see in the stamps: right is who says so in the bound",
            [Duration::ZERO, SHIFT],
        ),
    ]
}

impl Scenario {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Scenario> {
        all().into_iter().find(|scenario| scenario.name == name)
    }

    /// True if the server is right all the time.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        self.step.is_zero()
    }

    /// True if the path is known to have changed in one direction only: the error of at least half
    /// of that is beyond anyone.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.shift[0] != self.shift[1]
    }

    /// The parts of the run to tell apart.
    #[must_use]
    pub fn phases(&self) -> Vec<Phase> {
        let Some((from, to)) = self.event else {
            return vec![Phase { name: "all", from: 0.0, to: 1.0 }];
        };
        let mut phases = vec![
            Phase { name: "before", from: 0.0, to: from },
            Phase { name: "during", from, to },
            Phase { name: "after", from: to, to: 1.0 },
        ];
        phases.retain(|phase| phase.to > phase.from);
        if let (2, Some(last)) = (phases.len(), phases.last_mut()) {
            last.name = "after";
        }
        phases
    }

    fn happens(&self, share: f64) -> bool {
        self.event.is_some_and(|(from, to)| (from..to).contains(&share))
    }

    /// Error of the server's time at this share of the run, ns; positive: ahead.
    #[must_use]
    pub fn lie_ns(&self, share: f64) -> i64 {
        if self.happens(share) { self.step.as_nanos() as i64 } else { 0 }
    }

    /// Delay of a packet that leaves `seconds` after the start of a run of this `length`, s; `None`
    /// if it is lost.
    pub fn fate(&self, way: Way, seconds: f64, length: f64, dice: &mut Dice) -> Option<Duration> {
        // As many numbers for each packet, whatever becomes of it.
        let (lost, jitter, burst) = (dice.unit(), dice.exponential(), dice.exponential());
        if lost < self.loss {
            return None;
        }
        let [there, back] = self.bursts;
        let bursting = match way {
            Way::There => there,
            Way::Back => back,
        };
        let mut delay = FLOOR + JITTER.mul_f64(jitter);
        if bursting && BUSY.contains(&seconds.rem_euclid(PERIOD)) {
            delay += BURST.mul_f64(burst);
        }
        if self.happens(seconds / length) {
            let [there, back] = self.shift;
            delay += if way == Way::There { there } else { back };
        }
        Some(delay)
    }
}

/// Random numbers of one direction.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Dice that give the same numbers for the same seed and direction.
    #[must_use]
    pub fn new(seed: u64, way: Way) -> Dice {
        Dice(ChaCha8Rng::seed_from_u64(seed.wrapping_mul(2) + u64::from(way == Way::Back)))
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of mean 1.
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(name: &str, way: Way, at: f64) -> Vec<Option<Duration>> {
        let scenario = Scenario::named(name).unwrap();
        let mut dice = Dice::new(1, way);
        (0..2000).map(|_| scenario.fate(way, at, 100.0, &mut dice)).collect()
    }

    fn mean_us(delays: &[Option<Duration>]) -> f64 {
        truechimer_report::mean(delays.iter().flatten().map(|d| d.as_secs_f64() * 1e6))
    }

    #[test]
    fn packets_take_what_the_scenario_says() {
        assert!((mean_us(&delays("quiet", Way::There, 15.0)) - 310.0).abs() < 2.0);
        assert!((mean_us(&delays("bursts-back", Way::There, 15.0)) - 310.0).abs() < 2.0);
        assert!((mean_us(&delays("bursts-back", Way::Back, 15.0)) - 1310.0).abs() < 100.0);
        assert!((mean_us(&delays("bursts-back", Way::Back, 25.0)) - 310.0).abs() < 2.0);
        assert!((mean_us(&delays("route-back", Way::There, 60.0)) - 310.0).abs() < 2.0);
        assert!((mean_us(&delays("route-back", Way::Back, 60.0)) - 710.0).abs() < 2.0);
        let lost = delays("loss", Way::There, 1.0).iter().filter(|d| d.is_none()).count();
        assert!((350..450).contains(&lost), "{lost}");
        assert_eq!(delays("loss", Way::Back, 1.0), delays("loss", Way::Back, 1.0));
    }

    #[test]
    fn the_server_lies_only_where_it_is_said() {
        let scenario = Scenario::named("server-step").unwrap();
        assert_eq!([0.49, 0.55, 0.61].map(|share| scenario.lie_ns(share)), [0, 150_000_000, 0]);
        let names: Vec<_> = scenario.phases().iter().map(|phase| phase.name).collect();
        assert_eq!(names, ["before", "during", "after"]);
        assert!(all().iter().all(|s| s.is_honest() == (s.name != "server-step")));
        for scenario in all() {
            let phases = scenario.phases();
            assert_eq!(phases.first().unwrap().from, 0.0);
            assert_eq!(phases.last().unwrap().to, 1.0);
            assert!(phases.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }
}
