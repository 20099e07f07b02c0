//! Laws are those that delays follow, and a clock of particles does hardly better than the limit.

#![allow(clippy::unwrap_used)]

use super::super::law::Piece;
use super::super::{Day, Passed};
use super::*;
use crate::random::{Random, tests::distance};

fn day(technology: Technology, turn: u64, hours: f64) -> Day {
    let place = Technology::ALL.iter().position(|t| *t == technology).unwrap() as u64;
    Day::new(1, turn * Technology::ALL.len() as u64 + place, 16, hours)
}

/// The share of its law that is below each delay is even from 0 to 1.
#[test]
fn delays_follow_their_laws() {
    for technology in TOLD {
        let realised = day(technology, 1, 3.0).realise();
        let laws = laws(&realised.day, true);
        let mut shares = [const { Vec::new() }; 2];
        for (law, Passed { delays, .. }) in laws.iter().zip(&realised.exchanges) {
            for (way, shares) in shares.iter_mut().enumerate() {
                let told = &law.told.ways[way];
                if told.slot.is_none() && told.released.is_none() {
                    shares.push(law.ways[way].below(delays[way] - told.floor));
                }
            }
        }
        for shares in shares.into_iter().filter(|shares| shares.len() > 100) {
            let distance = distance(shares, |share| share);
            assert!(distance < 2.2, "{technology:?}: {distance}");
        }
    }
}

/// A limit that has yet to hear something, on this day, which has a walk of 0.
fn of_pieces(pieces: [Vec<Piece>; 2]) -> (Limit, Law) {
    let realised = day(Technology::Ethernet, 0, 0.1).realise();
    let packets = realised.packets().unwrap();
    let limit = realised.limit(&packets, false);
    let way = |pieces: &Vec<Piece>| Way { density: Arc::new(Density::of(pieces)), stretch: 1.0 };
    let ways = pieces.each_ref().map(way);
    let told = pieces.map(|pieces| Told { pieces, ..Told::default() });
    let told = Foretold { ways: told, cells: [(0.0, 0.0); 2], residence: 0.0 };
    (limit, Law { told, ways })
}

#[test]
fn posteriors_with_a_known_answer() {
    // Exponential delays of one mean: every offset between the two bounds is as likely.
    let equal = || vec![Piece::Exponential(1e-4)];
    let (limit, law) = of_pieces([equal(), equal()]);
    let (mean, variance) = limit.posterior(&law, &Seen { sent: -1e-4, received: 2e-4 }).unwrap();
    assert!((mean - 5e-5).abs() < 1e-7, "{mean}");
    let expected = 9e-8 / 12.0;
    assert!((variance / expected - 1.0).abs() < 0.02, "{variance} {expected}");
    // Nearly normal delays, of a standard deviation of a fortieth of the width: the mean of both
    // and of the prior, by their weights.
    let normal = |width| vec![Piece::Beta(width, 200.0, 200.0)];
    let [there, back] = [2e-5, 1e-5].map(|deviation| deviation * 2.0 * 401_f64.sqrt());
    let (mut limit, law) = of_pieces([normal(there), normal(back)]);
    let prior = 3e-5;
    limit.covariance[0][0] = prior * prior;
    let seen = Seen { sent: 1e-5 - there / 2.0, received: 2e-5 + back / 2.0 };
    let (mean, variance) = limit.posterior(&law, &seen).unwrap();
    let weights = [1.0 / 9e-10, 1.0 / 4e-10, 1.0 / 1e-10];
    let sum: f64 = weights.iter().sum();
    let expected = (weights[1] * 1e-5 + weights[2] * 2e-5) / sum;
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
    assert!((variance * sum - 1.0).abs() < 0.02, "{variance} {}", 1.0 / sum);
}

/// Particles of offset and rate, and what they are drawn with.
struct Particles {
    all: Vec<[f64; 2]>,
    random: Random,
}

impl Particles {
    const COUNT: usize = 3000;

    fn mean(&self, of: impl Fn(&[f64; 2]) -> f64) -> f64 {
        self.all.iter().map(of).sum::<f64>() / self.all.len() as f64
    }

    fn predict(&mut self, dt: f64, walk: f64) {
        for [x, y] in &mut self.all {
            let (a, b) = (self.random.normal(), self.random.normal());
            *x += *y * dt + walk * dt * dt.sqrt() * (0.5 * a + b / 12_f64.sqrt());
            *y += walk * dt.sqrt() * a;
        }
    }

    /// Draws them anew by their likelihoods, and moves each a little, so that mean and variance
    /// stay as they are; returns the offset's mean.
    fn learn(&mut self, likelihood: impl Fn(f64) -> f64) -> f64 {
        let weights: Vec<f64> = self.all.iter().map(|p| likelihood(p[0])).collect();
        let sum: f64 = weights.iter().sum();
        let moment = |of: &dyn Fn(&[f64; 2]) -> f64| {
            self.all.iter().zip(&weights).map(|(p, w)| w * of(p)).sum::<f64>() / sum
        };
        let [mx, my] = [moment(&|p| p[0]), moment(&|p| p[1])];
        let xx = moment(&|p| (p[0] - mx) * (p[0] - mx));
        let xy = moment(&|p| (p[0] - mx) * (p[1] - my));
        let yy = moment(&|p| (p[1] - my) * (p[1] - my));
        let (keep, step) = (0.995_f64, (1.0 - 0.995_f64 * 0.995).sqrt());
        let (l, along) = (xx.sqrt(), xy / xx.sqrt());
        let across = (yy - along * along).max(0.0).sqrt();
        let (mut i, mut below) = (0, weights[0]);
        let first = self.random.uniform();
        let mut drawn = Vec::with_capacity(self.all.len());
        for n in 0..self.all.len() {
            let at = (n as f64 + first) / self.all.len() as f64 * sum;
            while below < at && i + 1 < weights.len() {
                i += 1;
                below += weights[i];
            }
            let [x, y] = self.all[i];
            let (a, b) = (self.random.normal(), self.random.normal());
            drawn.push([
                keep * x + (1.0 - keep) * mx + step * l * a,
                keep * y + (1.0 - keep) * my + step * (along * a + across * b),
            ]);
        }
        self.all = drawn;
        mx
    }
}

/// Standard deviations of the errors of a day: the limit's and that of particles.
fn compare(technology: Technology, turn: u64, hours: f64) -> [f64; 2] {
    let realised = day(technology, turn, hours).realise();
    let packets = realised.packets().unwrap();
    let mut limit = realised.limit(&packets, false);
    let laws = Arc::clone(&limit.told);
    let random = Random::new(1, "particles");
    let mut particles = Particles { all: Vec::new(), random };
    let mut errors = [Vec::new(), Vec::new()];
    let walk = limit.walk.sqrt();
    let mut last = 0.0;
    for ((exchange, law), passed) in packets.exchanges().zip(&*laws).zip(&realised.exchanges) {
        let _ = limit.exchange(exchange);
        let received = limit.shown(exchange.received.count);
        let sent = limit.shown(exchange.sent.count);
        let course = |t: f64| limit.course.course(t);
        let known = received - course(received);
        if particles.all.is_empty() {
            let (mean, deviation) = (limit.mean[0], limit.covariance[0][0].sqrt());
            let random = &mut particles.random;
            let one = |_| [mean + deviation * random.normal(), RATE * random.normal()];
            particles.all = (0..Particles::COUNT).map(one).collect();
            last = received;
            continue;
        }
        particles.predict(received - last, walk);
        last = received;
        let rate = particles.mean(|p| p[1]);
        let moved = rate * (received - sent) + course(received) - course(sent);
        let seen = Seen { received: known, sent: known - (received - sent) + moved };
        let mean = particles.learn(likelihood(law, &seen));
        if passed.at > 1800.0 {
            let truth = received - passed.at - course(received);
            errors[0].push(limit.mean[0] - truth);
            errors[1].push(mean - truth);
        }
    }
    errors.map(|errors| {
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let squares = errors.iter().map(|e| (e - mean) * (e - mean)).sum::<f64>();
        (squares / errors.len() as f64).sqrt()
    })
}

/// Errors are as large as the limit takes them to be.
#[test]
fn deviations_are_those_of_the_errors() {
    let days = [
        (Technology::Jitter, 19),
        (Technology::Quantised, 23),
        (Technology::Wifi, 1),
        (Technology::Leo, 1),
    ];
    for (technology, turn) in days {
        let realised = day(technology, turn, 2.5).realise();
        let packets = realised.packets().unwrap();
        for (learns, mut limit) in realised.limits(&packets).into_iter().enumerate() {
            let (mut errors, mut expected) = (0.0, 0.0);
            packets.read(
                &mut limit,
                |_, _| {},
                |k, error, estimate| {
                    if k > 3600 {
                        errors += error * error;
                        expected += seconds(estimate.deviation) * seconds(estimate.deviation);
                    }
                },
            );
            let ratio: f64 = (errors / expected).sqrt();
            assert!((0.4..1.7).contains(&ratio), "{technology:?} {turn} {learns}: {ratio}");
        }
    }
}

/// A Gaussian in place of the whole posterior costs next to nothing.
#[test]
fn particles_do_no_better() {
    for technology in [Technology::Jitter, Technology::Quantised] {
        let [limit, particles] = compare(technology, 1, 3.0);
        assert!(particles > 0.85 * limit, "{technology:?}: {limit} {particles}");
        assert!(limit > 0.7 * particles, "{technology:?}: {limit} {particles}");
    }
}
