//! A laboratory for any estimator: an oscillator, a path and a server, with the truth at hand.
//!
//! Simpler than the simulator and independent of it: the figures that the published algorithm is
//! held to must not depend on what else is being built.

#![allow(dead_code)]

use std::f64::consts::TAU;

use truechimer_feedforward::{Accepted, Estimate, Estimator, Exchange, Refusal, Settings};
use truechimer_time::{Count, CountSpan, Instant, Period, Rate, Span, Stamp, StampMethod};

/// The counter's nominal rate.
pub const HZ: u64 = 1_000_000_000;

/// SplitMix64: small, seeded, good enough for noise.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In (0, 1].
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.uniform())
    }

    pub fn normal(&mut self) -> f64 {
        libm::sqrt(-2.0 * libm::log(self.uniform())) * libm::cos(TAU * self.uniform())
    }
}

/// True time, `t` seconds into the run.
pub fn instant(t: f64) -> Instant {
    Instant::new(1_800_000_000, 0) + Span((t * 2f64.powi(64)) as i128)
}

pub fn settings(hz: u64) -> Settings {
    Settings {
        nominal: Period::from_hz(hz),
        resolution: CountSpan(26),
        max_wander: Rate::from_ppb(500),
        accept_step_after: truechimer_feedforward::ACCEPT_STEP_AFTER,
        asymmetry: None,
        pulse: false,
    }
}

/// Setting of a simulation. Times in seconds, true time from 0.
pub struct Laboratory {
    pub seed: u64,
    pub hz: u64,
    pub poll: f64,
    /// Eight requests two seconds apart to begin with.
    pub burst: bool,
    pub hours: f64,
    /// The oscillator: fixed skew, random walk per √s, and what temperature adds.
    pub skew: f64,
    pub walk: f64,
    pub temperature: fn(f64) -> f64,
    /// One-way delays at a true time.
    pub forward: fn(&mut Random, f64) -> f64,
    pub backward: fn(&mut Random, f64) -> f64,
    /// The server's time − true time.
    pub server: fn(f64) -> f64,
    pub loss: f64,
    pub reachable: fn(f64) -> bool,
}

/// A day's wave of ± 0.05 ppm.
pub fn diurnal(t: f64) -> f64 {
    0.05e-6 * libm::sin(TAU * t / 86_400.0)
}

/// 10 ms there and back, 100 µs of queueing each way.
pub fn wide(r: &mut Random, _: f64) -> f64 {
    5e-3 + r.exponential(100e-6)
}

/// 0.4 ms there and back, 20 µs of queueing each way.
pub fn near(r: &mut Random, _: f64) -> f64 {
    190e-6 + r.exponential(20e-6)
}

impl Default for Laboratory {
    /// The implementation's synthetic runs: poll 16 s, a daily wave and a slight walk, 1 % loss.
    fn default() -> Laboratory {
        Laboratory {
            seed: 1,
            hz: HZ,
            poll: 16.0,
            burst: false,
            hours: 96.0,
            skew: 20e-6,
            walk: 2e-11,
            temperature: diurnal,
            forward: wide,
            backward: wide,
            server: |_| 0.0,
            loss: 0.01,
            reachable: |_| true,
        }
    }
}

/// Outcome of one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Number of the exchange that reached the estimator, from 0.
    pub index: usize,
    /// True time of the reply's arrival.
    pub t: f64,
    pub outcome: Result<Accepted, Refusal>,
    /// The clock − true time at the arrival, just after the exchange.
    pub error: f64,
    pub estimate: Estimate,
    /// The true skew of the counter then.
    pub skew: f64,
}

/// The whole run, and the error at every second of it.
pub struct Outcome {
    pub exchanges: Vec<Seen>,
    pub seconds: Vec<(f64, f64)>,
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 2f64.powi(64)
}

impl Laboratory {
    pub fn run(&self, clock: &mut dyn Estimator) -> Outcome {
        let mut random = Random(self.seed);
        let (mut now, mut phase, mut skew) = (0.0f64, 0.0f64, self.skew);
        let mut advance = |random: &mut Random, t: f64| {
            let dt = t - now;
            let temperature = (self.temperature)(now + dt / 2.0);
            phase += (skew + temperature) * dt;
            if self.walk > 0.0 {
                skew += self.walk * libm::sqrt(dt.max(0.0)) * random.normal();
            }
            now = t;
            let hz = self.hz as f64;
            let part = (t - t.floor()) * hz + phase * hz;
            let count = 1_000_000_000 + t as u64 * self.hz;
            (Count(count.wrapping_add_signed(part.round() as i64)), skew + temperature)
        };
        let mut out = Outcome { exchanges: Vec::new(), seconds: Vec::new() };
        let (mut next, mut reading, mut polls) = (1.0, 1.5, 0);
        while next < self.hours * 3600.0 {
            while reading < next {
                let (count, _) = advance(&mut random, reading);
                if let Some(e) = clock.estimate(count) {
                    out.seconds.push((reading, seconds(e.time - instant(reading))));
                }
                reading += 1.0;
            }
            let sent_at: f64 = next;
            polls += 1;
            next += if self.burst && polls < 8 { self.poll.min(2.0) } else { self.poll };
            let lost = random.uniform() < self.loss;
            let there = (self.forward)(&mut random, sent_at);
            let back = (self.backward)(&mut random, sent_at);
            if lost || !(self.reachable)(sent_at) {
                continue;
            }
            let (sent, _) = advance(&mut random, sent_at);
            let (arrived, left) = (sent_at + there, sent_at + there + 20e-6);
            let t = left + back;
            if t >= reading.min(next) {
                continue;
            }
            let (received, skew) = advance(&mut random, t);
            let outcome = clock.exchange(&Exchange {
                sent: stamp(sent),
                server_received: instant(arrived + (self.server)(arrived)),
                server_sent: instant(left + (self.server)(left)),
                received: stamp(received),
                root_distance: Span::from_micros(1),
                precision: Span::ZERO,
            });
            let Some(estimate) = clock.estimate(received) else { continue };
            let error = seconds(estimate.time - instant(t));
            let index = out.exchanges.len();
            out.exchanges.push(Seen { index, t, outcome, error, estimate, skew });
        }
        out
    }
}

pub fn stamp(count: Count) -> Stamp {
    Stamp { count, error: CountSpan(260), method: StampMethod::Kernel }
}

impl Outcome {
    /// Errors just after each exchange from a true time on, s.
    pub fn errors_after(&self, t: f64) -> Errors {
        let errors = self.exchanges.iter().filter(|s| s.t >= t).map(|s| s.error).collect();
        Errors::new(errors)
    }

    /// Errors at every second between two true times, s.
    pub fn errors_each_second(&self, from: f64, to: f64) -> Errors {
        let within = self.seconds.iter().filter(|s| s.0 >= from && s.0 < to);
        Errors::new(within.map(|s| s.1).collect())
    }

    /// The first true time from which on |error| stays below the limit for five minutes, s.
    pub fn converged(&self, limit: f64) -> Option<f64> {
        let mut since = None;
        for (t, error) in &self.seconds {
            if error.abs() >= limit {
                since = None;
            } else if t - *since.get_or_insert(*t) >= 300.0 {
                return since;
            }
        }
        None
    }
}

/// Errors, sorted.
pub struct Errors(Vec<f64>);

impl Errors {
    fn new(mut errors: Vec<f64>) -> Errors {
        assert!(!errors.is_empty());
        errors.sort_by(f64::total_cmp);
        Errors(errors)
    }

    pub fn quantile(&self, q: f64) -> f64 {
        truechimer_report::quantile(&self.0, q)
    }

    pub fn iqr(&self) -> f64 {
        self.quantile(0.75) - self.quantile(0.25)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn max(&self) -> f64 {
        self.quantile(1.0).max(-self.quantile(0.0))
    }

    pub fn rms(&self) -> f64 {
        truechimer_report::rms(&self.0)
    }
}
