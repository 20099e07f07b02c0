//! Difference clock's rate: the mean rate of the last 1000 s.
//!
//! What comes later also says where the clock was: θ of some earlier instants is kept with its
//! covariance with offset and rate of now, and goes on learning with them (Rauch, Tung, Striebel
//! 1965, as a smoother of fixed lag). Between two instants the clock went straight.

use arrayvec::ArrayVec;

use crate::constants::Constants;
use crate::gaussian::{Gaussian, OFFSET, RATE};

/// Interval that the mean rate is for, s.
pub const INTERVAL: f64 = 1000.0;
/// Time between two instants, s: a clock that wanders by 10⁻⁹ /√s strays by 0.2 µs from the line.
const APART: f64 = Constants::DEFAULT.stretch;
/// Instants kept: the oldest is an interval old even just before a new one is made.
const KEPT: usize = (INTERVAL / APART) as usize + 2;

/// θ of an earlier instant.
#[derive(Clone, Copy, Default, Debug)]
struct Earlier {
    age: f64,
    theta: f64,
    /// Covariance with offset and rate of now.
    with: [f64; 2],
}

/// See the module's text; the newest first.
#[derive(Clone, Default, Debug)]
pub struct Smoother {
    kept: ArrayVec<Earlier, KEPT>,
}

impl Smoother {
    /// Time goes on by `dt` seconds from `now`.
    pub fn predict(&mut self, now: &Gaussian, dt: f64) {
        if self.kept.first().is_none_or(|newest| newest.age >= APART) {
            self.kept.truncate(KEPT - 1);
            let with = [now.p[OFFSET][OFFSET], now.p[OFFSET][RATE]];
            self.kept.insert(0, Earlier { age: 0.0, theta: now.x[OFFSET], with });
        }
        for then in &mut self.kept {
            then.age += dt;
            then.with[0] += dt * then.with[1];
        }
    }

    /// An exchange has changed what is known from `before` to `after`.
    pub fn learn(&mut self, before: &Gaussian, after: &Gaussian) {
        let block =
            |law: &Gaussian| [law.p[OFFSET][OFFSET], law.p[OFFSET][RATE], law.p[RATE][RATE]];
        let ([a, b, c], [x, y, z]) = (block(before), block(after));
        let determinant = a * c - b * b;
        if determinant <= 0.0 {
            return;
        }
        let by = [OFFSET, RATE].map(|i| after.x[i] - before.x[i]);
        for then in &mut self.kept {
            let [u, v] = then.with;
            let gain = [(u * c - v * b) / determinant, (v * a - u * b) / determinant];
            then.theta += gain[0] * by[0] + gain[1] * by[1];
            then.with = [gain[0] * x + gain[1] * y, gain[0] * y + gain[1] * z];
        }
    }

    /// θ has always been `by` more, and is less certain by this variance.
    pub fn shift(&mut self, by: f64, variance: f64) {
        for then in &mut self.kept {
            then.theta += by;
            then.with[0] += variance;
        }
    }

    /// Mean rate over the [`INTERVAL`] that ends `ahead` seconds from `now`.
    #[must_use]
    pub fn mean_rate(&self, now: &Gaussian, ahead: f64) -> f64 {
        let before = INTERVAL - ahead;
        let older = self.kept.iter().position(|then| then.age >= before);
        let end = older.map_or(self.kept.last(), |k| self.kept.get(k)).filter(|_| before > 0.0);
        let Some(end) = end else { return now.x[RATE] };
        let (mut age, mut theta) = (end.age, end.theta);
        if let Some(k) = older {
            // On the line to the one after it, or to the present.
            let next = k.checked_sub(1).map(|next| &self.kept[next]);
            let (young, there) = next.map_or((0.0, now.x[OFFSET]), |next| (next.age, next.theta));
            let share = (before - young) / (end.age - young).max(f64::MIN_POSITIVE);
            (age, theta) = (before, there + share * (theta - there));
        }
        (now.x[OFFSET] + now.x[RATE] * ahead - theta) / (age + ahead).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::{Vector, Walks, unit};

    /// A filter with θ of an earlier instant among its states says the same.
    #[test]
    fn an_earlier_offset_is_smoothed_as_a_state_would_be() {
        let deviations: Vector = [1e-3, 1e-6, 0.0, 0.0, 0.0];
        let mut law = Gaussian::new([0.0; 5], deviations);
        let mut smoother = Smoother::default();
        // The same law with a state for θ of the beginning in the place of the server's.
        let mut whole = law;
        for i in 0..5 {
            (whole.p[4][i], whole.p[i][4]) = (whole.p[0][i], whole.p[0][i]);
        }
        whole.p[4][4] = whole.p[0][0];
        for k in 0..7 {
            smoother.predict(&law, 16.0);
            let walks = Walks { rate: 1e-16, alike: 0.0 };
            law.predict(16.0, &walks);
            whole.predict(16.0, &walks);
            let before = law;
            let by = 1e-4 * f64::from(k * k % 5);
            for law in [&mut law, &mut whole] {
                let known = law.project(&unit(OFFSET));
                let left = known.variance * 1e-10 / (known.variance + 1e-10);
                law.absorb(&known, (by - known.mean) * (1.0 - left / known.variance), left, OFFSET);
            }
            smoother.learn(&before, &law);
        }
        let then = smoother.kept[0];
        assert!((then.age - 112.0).abs() < 1e-9);
        assert!((then.theta / whole.x[4] - 1.0).abs() < 1e-6, "{then:?} {:?}", whole.x);
        assert!((then.with[0] / whole.p[0][4] - 1.0).abs() < 1e-6, "{then:?} {:?}", whole.p);
    }
}
