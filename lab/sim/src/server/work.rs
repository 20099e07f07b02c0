//! A server at work: what it answers, and the truth beside it.

use truechimer_ntp::server::{ServerState, respond};
use truechimer_ntp::{HEADER_LEN, LeapIndicator, Log2, RefId, Short, Timestamp};
use truechimer_time::{Instant, Leaps, Span};

use super::attack::{Sender, Warned};
use super::{HALF_DAY, ServerSpec, Wander, during};
use crate::path::Path;
use crate::random::Random;
use truechimer_feedforward::number::span;

/// Steps of a wandering server's clock are so far apart, s; between them it is a straight line.
const WANDER_STEP: f64 = 16.0;
/// Time before a leap second from which servers announce it, s: a day, as RFC 5905 has it.
const ANNOUNCED: i64 = 86_400;
/// Answer of a server, and what only the simulation knows about it.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// When the reply left, by true time, s.
    pub(crate) left: f64,
    pub(crate) packet: [u8; HEADER_LEN],
    /// Stamps, on the leap-free scale, as they went out.
    pub(crate) received_stamp: Instant,
    pub(crate) sent_stamp: Instant,
    /// The root distance that it claims.
    pub(crate) distance: Span,
    /// Resolution of its stamps that it claims.
    pub(crate) precision: Span,
    /// True if it is a word about time at all: no kiss, and synchronised.
    pub(crate) claims: bool,
    /// Sender of it.
    pub(crate) by: Sender,
}

/// A server at work.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) spec: ServerSpec,
    pub(crate) forward: Path,
    pub(crate) backward: Path,
    random: Random,
    wander: Walk,
    leap: Option<LeapSecond>,
    /// True if its time was within its root distance in all replies so far.
    pub(crate) honest: bool,
    /// Chances of whoever is on the path.
    pub(super) attacker: Random,
    /// Replies that somebody may have kept to send them again.
    pub(super) kept: Vec<Answered>,
}

/// The leap second of a scenario, as servers know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeapSecond {
    /// Seconds since the start of the run.
    pub(crate) at: f64,
    pub(crate) inserted: bool,
}

impl Server {
    /// The server of this name under this seed; `leap` is the leap second that comes. Everything
    /// random has a stream of its own.
    pub(crate) fn new(
        spec: &ServerSpec,
        seed: u64,
        name: &str,
        leap: Option<LeapSecond>,
    ) -> Server {
        let stream = |what: &str| Random::new(seed, &format!("{name}/{what}"));
        let deviation = spec.wander.map_or(0.0, |w| w.us_per_root_s * 1e-6);
        Server {
            spec: spec.clone(),
            forward: Path::new(&spec.forward, seed, &format!("{name}/forward")),
            backward: Path::new(&spec.backward, seed, &format!("{name}/backward")),
            random: stream("residence"),
            wander: Walk::new(stream("wander"), deviation),
            leap,
            honest: true,
            attacker: stream("attacker"),
            kept: Vec::new(),
        }
    }

    /// Time − the truth at `t`, s.
    fn offset_at(&mut self, t: f64) -> f64 {
        let smeared = match self.leap {
            // Half a day before the leap it begins to fall behind, half a day after it has.
            Some(leap) if self.spec.smears => {
                let part = ((t - leap.at + HALF_DAY) / (2.0 * HALF_DAY)).clamp(0.0, 1.0);
                let step = if leap.inserted { 1.0 } else { -1.0 };
                // On the leap-free scale UTC falls behind at the leap by itself.
                if t >= leap.at { step * (1.0 - part) } else { -step * part }
            }
            _ => 0.0,
        };
        let gone = if self.spec.is_unsynchronised(t) { 3600.0 } else { 0.0 };
        self.spec.offset_at(t) + self.wander.at(t) + smeared + gone
    }

    /// Stamp at `t`, on the leap-free scale that begins at `origin`.
    fn stamp(&mut self, t: f64, origin: Instant) -> Instant {
        let time = origin + span(t) + span(self.offset_at(t));
        let quantum = span(self.spec.quantum_us * 1e-6).0;
        if quantum > 0 { Instant(time.0 - time.0.rem_euclid(quantum)) } else { time }
    }

    /// Time at `t` as the server tells it as a PTP master; `None` while it is silent. Scale as of [`Server::answer`],
    /// which a master of PTP calls TAI.
    pub(crate) fn told(&mut self, t: f64, origin: Instant) -> Option<Instant> {
        if self.spec.is_silent(t) {
            return None;
        }
        let told = self.stamp(t, origin);
        let distance = self.spec.root_distance(self.spec.dispersion(0.0));
        self.honest &= (told - (origin + span(t))).abs() <= distance;
        Some(told)
    }

    /// Answers the request that arrives at `t`, if it does. `leaps` are the leap seconds as they
    /// really are.
    pub(crate) fn answer(
        &mut self,
        t: f64,
        request: &[u8],
        origin: Instant,
        leaps: &Leaps,
    ) -> Option<Answered> {
        if self.spec.is_silent(t) {
            return None;
        }
        // Drawn for every request, so that what a server says does not change what it draws.
        let jitter = self.random.exponential(1.0) * self.spec.residence_jitter_us;
        let left = t + (self.spec.residence_us + jitter) * 1e-6;
        let (receive, transmit) = (self.stamp(t, origin), self.stamp(left, origin));
        let unsynchronised = self.spec.is_unsynchronised(t);
        let warned = self.spec.warned(t);
        self.honest &= warned.is_none();
        let wandered = match self.spec.wander {
            Some(Wander { honest: true, .. }) => {
                self.wander.at(t).abs().max(self.wander.at(left).abs())
            }
            _ => 0.0,
        };
        let dispersion = self.spec.dispersion(wandered + self.spec.grown_at(left));
        let now = origin + span(t);
        let announced = self.spec.announces && !self.spec.smears;
        let leap =
            match leaps.next.filter(|_| announced && warned.is_none()) {
                _ if unsynchronised => LeapIndicator::Unsynchronised,
                None if warned.is_some() => warned.map_or(LeapIndicator::None, Warned::indicator),
                Some(next) if (0..ANNOUNCED).contains(&(next.at - now.secs() - 1)) => {
                    if next.step > 0 { LeapIndicator::Insert } else { LeapIndicator::Delete }
                }
                _ => LeapIndicator::None,
            };
        let state = ServerState {
            leap,
            stratum: if unsynchronised { 16 } else { self.spec.stratum },
            precision: Log2(self.spec.precision),
            root_delay: Short::at_least(span(self.spec.root_delay_us * 1e-6)),
            root_dispersion: dispersion,
            reference_id: if unsynchronised { RefId(*b"INIT") } else { RefId(*b"SIM\0") },
            reference_timestamp: Timestamp::from_instant(receive, leaps),
        };
        let [receive_wire, transmit_wire] =
            [receive, transmit].map(|at| Timestamp::from_instant(at, leaps));
        let mut packet = respond(request, receive_wire, transmit_wire, &state)?;
        let kiss = self.spec.refusals.iter().find(|r| during(t, r.from_s, r.to_s));
        if let Some(refuse) = kiss
            && let Some(code) = refuse.code.as_bytes().first_chunk::<4>()
        {
            packet[1] = 0;
            packet[12..16].copy_from_slice(code);
        }
        let claims = kiss.is_none() && !unsynchronised;
        // As it goes out, cut to 2⁻³² s.
        let cut = |at: Instant| Instant(at.0 >> 32 << 32);
        let (received_stamp, sent_stamp) = (cut(receive), cut(transmit));
        let distance = self.spec.root_distance(dispersion);
        let precision = Log2(self.spec.precision).span();
        let right = |stamp: Instant, t: f64| (stamp - (origin + span(t))).abs() <= distance;
        self.honest &= !claims || right(received_stamp, t) && right(sent_stamp, left);
        let by = Sender::Server;
        Some(Answered { left, packet, received_stamp, sent_stamp, distance, precision, claims, by })
    }
}

/// A random walk in equal steps, made as far as it was asked for.
#[derive(Debug)]
struct Walk {
    random: Random,
    deviation: f64,
    values: Vec<f64>,
}

impl Walk {
    fn new(random: Random, per_sqrt_second: f64) -> Walk {
        let deviation = per_sqrt_second * libm::sqrt(WANDER_STEP);
        Walk { random, deviation, values: vec![0.0] }
    }

    /// Value at `t` ≥ 0.
    fn at(&mut self, t: f64) -> f64 {
        if self.deviation == 0.0 {
            return 0.0;
        }
        let steps = (t / WANDER_STEP).max(0.0);
        let index = steps as usize;
        while self.values.len() < index + 2 {
            let last = self.values.last().copied().unwrap_or(0.0);
            self.values.push(last + self.deviation * self.random.normal());
        }
        let value = |index: usize| self.values.get(index).copied().unwrap_or(0.0);
        let (from, to) = (value(index), value(index + 1));
        from + (to - from) * (steps - index as f64)
    }
}
