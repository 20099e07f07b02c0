//! The uncorrected clock C(T) = p̂ T + K.
//!
//! p̂·T of a 64-bit count does not fit a double: 10⁶ s to 10⁻¹⁰ s are 54 bits. So nothing is ever
//! multiplied out. C is kept as its difference from a reference clock U(T) = Tb₀ + nominal·(T −
//! Ta₀), which is exact fixed point: C − U = ρ·(T − Ta₀)·nominal + k, where ρ = p̂ / nominal − 1.
//! That is at most a few seconds, which a double resolves to 10⁻¹⁵ s. Differences of periods are
//! differences of ρ, free of cancellation.

use truechimer_feedforward::number::{rate, seconds, span};
use truechimer_time::{Count, CountSpan, Instant, Period, Span};

use super::history::Record;

/// A period is believed within this factor of the nominal one. The algorithm has no such limit; a
/// server's nonsense must not become a negative period.
const PERIOD_LIMIT: f64 = 1_048_576.0;

/// Counts that are enough to tell a period by.
const SAMPLE: CountSpan = CountSpan(1 << 40);

/// The counter and the reference clock U.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    nominal: Period,
    /// `nominal` in seconds: good enough for round trips, ages and drift.
    per_count: f64,
    origin: (Count, Instant),
}

impl Reference {
    pub(super) fn new(nominal: Period, count: Count, time: Instant) -> Reference {
        let per_count = seconds(nominal.span(SAMPLE)) / SAMPLE.0 as f64;
        Reference { nominal, per_count, origin: (count, time) }
    }

    /// Nominal seconds of a span of counts.
    pub(super) fn nominal_seconds(&self, counts: CountSpan) -> f64 {
        counts.0 as f64 * self.per_count
    }

    fn since_origin(&self, count: Count) -> f64 {
        self.nominal_seconds(count - self.origin.0)
    }

    /// U(T).
    pub(super) fn reading(&self, count: Count) -> Instant {
        self.origin.1 + self.nominal.span(count - self.origin.0)
    }

    /// The ratio ρ of a period.
    pub(super) fn ratio(&self, period: Period) -> f64 {
        let nominal = self.nominal.span(SAMPLE);
        seconds(period.span(SAMPLE) - nominal) / seconds(nominal)
    }

    /// The period of a ratio ρ.
    pub(super) fn period(&self, ratio: f64) -> Period {
        if ratio.abs() < 0.49 {
            return self.nominal.scaled(rate(ratio));
        }
        let whole = span(self.nominal_seconds(SAMPLE) * (1.0 + ratio));
        Period::from_ratio(whole, SAMPLE).unwrap_or(self.nominal)
    }

    /// The pair estimator (ToN §4.1): the mean of the periods that the requests and the replies of
    /// two stamps show, as a ratio ρ. `None` if it cannot be a period.
    pub(super) fn pair(&self, far: &Record, near: &Record) -> Option<f64> {
        let one_way = |counts: CountSpan, time: Span| {
            let nominal = self.nominal.span(counts);
            (counts.0 > 0).then(|| seconds(time - nominal) / seconds(nominal))
        };
        let forward = one_way(near.ta - far.ta, near.tb - far.tb)?;
        let backward = one_way(near.tf - far.tf, near.te - far.te)?;
        let ratio = (forward + backward) / 2.0;
        let factor = 1.0 + ratio;
        (factor > 1.0 / PERIOD_LIMIT && factor < PERIOD_LIMIT).then_some(ratio)
    }
}

/// C(T).
#[derive(Clone, Copy, Debug)]
pub(super) struct Uncorrected {
    pub(super) reference: Reference,
    /// ρ of p̂.
    pub(super) ratio: f64,
    /// Time that K adds, s.
    k: f64,
}

impl Uncorrected {
    /// C(Ta₀) = Tb₀.
    pub(super) fn new(reference: Reference, ratio: f64) -> Uncorrected {
        Uncorrected { reference, ratio, k: 0.0 }
    }

    /// C(T) − U(T), s.
    fn gained(&self, count: Count) -> f64 {
        self.ratio * self.reference.since_origin(count) + self.k
    }

    /// C(T) − `by` seconds.
    pub(super) fn reading_less(&self, count: Count, by: f64) -> Instant {
        self.reference.reading(count) + span(self.gained(count) - by)
    }

    /// p̂ times so many counts, s.
    pub(super) fn seconds(&self, counts: i64) -> f64 {
        self.reference.nominal_seconds(CountSpan(counts)) * (1.0 + self.ratio)
    }

    /// Another p̂; C is continuous at the count `at` (K ← K + T (p̂_old − p̂_new)).
    pub(super) fn retune(&mut self, ratio: f64, at: Count) {
        self.k += self.reference.since_origin(at) * (self.ratio - ratio);
        self.ratio = ratio;
    }

    /// θ of one stamp: the mean of the clock's two readings less that of the server's, s.
    pub(super) fn theta(&self, r: &Record) -> f64 {
        let forward = seconds(self.reference.reading(r.ta) - r.tb) + self.gained(r.ta);
        let backward = seconds(self.reference.reading(r.tf) - r.te) + self.gained(r.tf);
        (forward + backward) / 2.0
    }
}
