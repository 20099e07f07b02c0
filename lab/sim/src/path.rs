//! One direction of a path through a network: how long each packet takes, if it arrives.
//!
//! What happens to a packet depends on the specification, the seed, the path's name, when the
//! packet is sent and which one it is, counted from 0: nothing else. Each chance (loss,
//! duplication, each queue, …) has a stream of its own, with a place in it for every packet. So
//! losing a packet, switching a queue on, or a law that takes more random numbers than another
//! leave all other packets and chances as they were.

mod recording;
mod spec;
#[cfg(test)]
mod tests;

use crate::limits::DELAY;
use crate::random::Random;
pub use recording::{DelayError, Recording, parse_delays};
pub use spec::{Law, Outage, PathSpec, Queue, Shift, When};

/// A realisation of a [`PathSpec`].
#[derive(Clone, Debug)]
pub struct Path {
    spec: PathSpec,
    loss: Random,
    duplication: Random,
    reordering: Random,
    /// One for each queue of the specification.
    queues: Vec<Random>,
    /// Number of the next packet.
    number: u64,
}

/// Fate of a packet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Passage {
    /// When it arrived, true time in seconds; nothing if it was lost.
    pub arrival: Option<f64>,
    /// When its copy arrived, if there was one. It may be before the packet itself.
    pub copy: Option<f64>,
}

impl Passage {
    /// All arrivals: none, one or two.
    pub fn arrivals(&self) -> impl Iterator<Item = f64> + use<> {
        [self.arrival, self.copy].into_iter().flatten()
    }
}

impl Path {
    /// The path of this name under this seed: another name, another realisation.
    #[must_use]
    pub fn new(spec: &PathSpec, seed: u64, name: &str) -> Path {
        let stream = |what: &str| Random::new(seed, &format!("{name}/{what}"));
        Path {
            loss: stream("loss"),
            duplication: stream("duplication"),
            reordering: stream("reordering"),
            queues: (0..spec.queues.len()).map(|i| stream(&format!("queue {i}"))).collect(),
            spec: spec.clone(),
            number: 0,
        }
    }

    /// The least delay of a packet sent at `t`, s.
    #[must_use]
    pub fn floor_at(&self, t: f64) -> f64 {
        self.spec.floor_at(t)
    }

    /// Sends the next packet at true time `t`, s.
    pub fn pass(&mut self, t: f64) -> Passage {
        let number = self.number;
        self.number += 1;
        let cut = self.spec.outages.iter().any(|outage| t >= outage.from_s && t < outage.to_s);
        if cut || happens(&mut self.loss, number, self.spec.loss) {
            return Passage::default();
        }
        let mut delay = self.delay(number, 0, t);
        if happens(&mut self.reordering, number, self.spec.reordering) {
            delay += 1e-3 * self.spec.held_back_ms;
        }
        let twice = happens(&mut self.duplication, number, self.spec.duplication);
        Passage { arrival: Some(t + delay), copy: twice.then(|| t + self.delay(number, 1, t)) }
    }

    /// Floor and queues of a packet (`copy` 0) or of its copy (1), s.
    fn delay(&mut self, number: u64, copy: u64, t: f64) -> f64 {
        let mut delay = self.spec.floor_at(t);
        for (queue, random) in self.spec.queues.iter().zip(&mut self.queues) {
            let factor = queue.when.factor(t);
            if factor > 0.0 {
                random.seek(2 * number + copy);
                delay += factor * queue.law.draw(random, number, t);
            }
        }
        delay
    }
}

/// True if something of this probability happens to a packet.
fn happens(random: &mut Random, number: u64, probability: f64) -> bool {
    if probability <= 0.0 {
        return false;
    }
    random.seek(number);
    random.chance(probability)
}

impl Law {
    /// The delay of the packet of this number, sent at `t`, s.
    fn draw(&self, random: &mut Random, number: u64, t: f64) -> f64 {
        let delay = match self {
            Law::Constant { ms } => 1e-3 * ms,
            Law::Exponential { mean_ms } => random.exponential(1e-3 * mean_ms),
            Law::Gamma { shape, scale_ms } => random.gamma(*shape, 1e-3 * scale_ms),
            Law::Lomax { shape, scale_ms, cap_ms } => {
                random.lomax(*shape, 1e-3 * scale_ms).min(cap_ms.map_or(DELAY, |cap| 1e-3 * cap))
            }
            Law::Recorded { delays, .. } => delays.as_ref().map_or(0.0, |d| d.delay(number, t)),
        };
        delay.min(DELAY)
    }
}
