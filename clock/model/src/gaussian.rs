//! Normal law of the states: a Kalman filter's mean and covariance.

/// Number of states; those that a server teaches nothing of once it has moved come first.
pub const STATES: usize = 5;
/// Offset θ: true time − the counter at its nominal period, s.
pub const OFFSET: usize = 0;
/// Rate of θ, s/s.
pub const RATE: usize = 1;
/// Floors under the delays of requests and of replies, s.
pub const FLOORS: [usize; 2] = [2, 3];

/// Server's time − true time, s: nothing, unless it has moved.
pub const SERVER: usize = 4;

/// Random walk of the phase, s/√s: reading the counter, and white noise of the oscillator.
const PHASE_WALK: f64 = 2e-9;

/// One number for each state.
pub type Vector = [f64; STATES];

/// Direction in which the state `i` alone grows.
#[must_use]
pub const fn unit(i: usize) -> Vector {
    let mut v = [0.0; STATES];
    v[i] = 1.0;
    v
}

/// Both floors by the same amount: a longer path.
pub const ALIKE: Vector = [0.0, 0.0, 1.0, 1.0, 0.0];
/// Floors by opposite amounts: what no measurement tells from the offset.
pub const APART: Vector = [0.0, 0.0, 1.0, -1.0, 0.0];

/// Mean and covariance of the states.
#[derive(Clone, Copy, Debug)]
pub struct Gaussian {
    /// Mean.
    pub x: Vector,
    /// Covariance.
    pub p: [Vector; STATES],
}

/// A linear combination of states.
#[derive(Clone, Copy, Debug)]
pub struct Projection {
    /// Mean.
    pub mean: f64,
    /// Variance.
    pub variance: f64,
    covariance: Vector,
}

/// Variance gained per second by each walk.
#[derive(Clone, Copy, Debug)]
pub struct Walks {
    /// Of the rate, 1/s.
    pub rate: f64,
    /// Of both floors alike, s².
    pub alike: f64,
}

impl Gaussian {
    /// Independent states with these means and standard deviations.
    #[must_use]
    pub fn new(x: Vector, deviations: Vector) -> Gaussian {
        let mut p = [[0.0; STATES]; STATES];
        for (i, d) in deviations.into_iter().enumerate() {
            p[i][i] = d * d;
        }
        Gaussian { x, p }
    }

    /// Moves on by `dt` seconds.
    pub fn predict(&mut self, dt: f64, walks: &Walks) {
        self.x[OFFSET] += self.x[RATE] * dt;
        for j in 0..STATES {
            self.p[OFFSET][j] += dt * self.p[RATE][j];
        }
        for row in &mut self.p {
            row[OFFSET] += dt * row[RATE];
        }
        let q = walks.rate;
        self.p[OFFSET][OFFSET] += PHASE_WALK * PHASE_WALK * dt + q * dt * dt * dt / 3.0;
        self.p[OFFSET][RATE] += q * dt * dt / 2.0;
        self.p[RATE][OFFSET] += q * dt * dt / 2.0;
        self.p[RATE][RATE] += q * dt;
        self.inflate(&ALIKE, walks.alike * dt);
    }

    /// Mean, variance and covariance of the linear combination `sum`.
    #[must_use]
    pub fn project(&self, sum: &Vector) -> Projection {
        let mut covariance = [0.0; STATES];
        for (row, by) in self.p.iter().zip(sum) {
            covariance.iter_mut().zip(row).for_each(|(all, p)| *all += p * by);
        }
        let dot = |v: &Vector| v.iter().zip(sum).map(|(a, b)| a * b).sum::<f64>();
        Projection { mean: dot(&self.x), variance: dot(&covariance).max(0.0), covariance }
    }

    /// Conditions the states on the projection being `by` above its mean, with `variance` left. The
    /// states from `first` on learn; those before it are considered (Schmidt 1966).
    pub fn absorb(&mut self, known: &Projection, by: f64, variance: f64, first: usize) {
        if known.variance <= 0.0 {
            return;
        }
        let gain = known.covariance.map(|c| c / known.variance);
        let more = variance - known.variance;
        for i in 0..STATES {
            // Of a difference rounding leaves no less than that.
            let least = f64::EPSILON * self.p[i][i];
            self.x[i] += if i < first { 0.0 } else { gain[i] * by };
            let from = if i < first { first } else { 0 };
            for j in from..STATES {
                self.p[i][j] += more * gain[i] * gain[j];
            }
            self.p[i][i] = self.p[i][i].max(least);
        }
    }

    /// Adds `by` times a direction to the mean.
    pub fn shift(&mut self, direction: &Vector, by: f64) {
        for (x, d) in self.x.iter_mut().zip(direction) {
            *x += d * by;
        }
    }

    /// Adds a variance along a direction.
    pub fn inflate(&mut self, direction: &Vector, variance: f64) {
        for (row, a) in self.p.iter_mut().zip(direction) {
            if *a != 0.0 {
                for (p, b) in row.iter_mut().zip(direction) {
                    *p += variance * a * b;
                }
            }
        }
    }

    /// State `i` is known to be `mean` ± `deviation`, whatever the others are.
    pub fn replace(&mut self, i: usize, mean: f64, deviation: f64) {
        self.x[i] = mean;
        for j in 0..STATES {
            (self.p[i][j], self.p[j][i]) = (0.0, 0.0);
        }
        self.p[i][i] = deviation * deviation;
    }

    /// Adds state `i` (times `sign`, which is 1 or −1) to state `j`, and leaves none of it.
    pub fn become_part(&mut self, i: usize, j: usize, sign: f64) {
        self.x[j] += sign * self.x[i];
        for k in 0..STATES {
            self.p[j][k] += sign * self.p[i][k];
        }
        for row in &mut self.p {
            row[j] += sign * row[i];
        }
        self.replace(i, 0.0, 0.0);
    }

    /// Multiplies the deviation of state `i` by `factor`, and its covariances with it.
    pub fn scale(&mut self, i: usize, factor: f64) {
        for j in 0..STATES {
            self.p[i][j] *= factor;
            self.p[j][i] *= factor;
        }
    }

    /// Mixture of this law, of weight `own`, and another, as one normal law.
    #[must_use]
    pub fn mixed(&self, own: f64, other: &Gaussian) -> Gaussian {
        let rest = 1.0 - own;
        let mut all = *self;
        let apart: Vector = core::array::from_fn(|i| self.x[i] - other.x[i]);
        for i in 0..STATES {
            all.x[i] = own * self.x[i] + rest * other.x[i];
            for j in 0..STATES {
                all.p[i][j] =
                    own * self.p[i][j] + rest * other.p[i][j] + own * rest * apart[i] * apart[j];
            }
        }
        all
    }

    /// Mixture of several laws as one normal law; weights add up to 1.
    pub fn mixture<'a>(parts: impl Iterator<Item = (f64, &'a Gaussian)> + Clone) -> Gaussian {
        let mut all = Gaussian { x: [0.0; STATES], p: [[0.0; STATES]; STATES] };
        for (w, part) in parts.clone() {
            all.shift(&part.x, w);
        }
        for (w, part) in parts {
            let mut apart = part.x;
            apart.iter_mut().zip(&all.x).for_each(|(x, mean)| *x -= mean);
            for i in 0..STATES {
                for j in 0..STATES {
                    all.p[i][j] += w * (part.p[i][j] + apart[i] * apart[j]);
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vague() -> Gaussian {
        let mut law = Gaussian::new([0.0, 0.0, 1e-3, 1e-3, 0.0], [1.0, 1e-3, 0.0, 0.0, 0.0]);
        law.inflate(&ALIKE, 1e-6);
        law
    }

    const STILL: Walks = Walks { rate: 0.0, alike: 0.0 };

    #[test]
    fn offset_and_rate_of_a_line_are_found() {
        let mut law = vague();
        for k in 1..=100 {
            law.predict(16.0, &STILL);
            let known = law.project(&unit(OFFSET));
            let left = known.variance * 1e-12 / (known.variance + 1e-12);
            let by =
                (0.5 + 3e-6 * 16.0 * f64::from(k) - known.mean) * (1.0 - left / known.variance);
            law.absorb(&known, by, left, OFFSET);
        }
        assert!((law.x[OFFSET] - 0.5 - 3e-6 * 1600.0).abs() < 1e-7, "{:?}", law.x);
        assert!((law.x[RATE] - 3e-6).abs() < 1e-8, "{:?}", law.x);
    }

    #[test]
    fn a_difference_of_the_floors_is_never_learnt() {
        let mut law = vague();
        for k in 0..50 {
            law.predict(16.0, &Walks { rate: 1e-18, alike: 1e-15 });
            for sum in [[1.0, -1e-3, 1.0, 0.0, 1.0], [-1.0, 0.0, 0.0, 1.0, -1.0]] {
                let known = law.project(&sum);
                law.absorb(
                    &known,
                    1e-4 * f64::from(k % 3) - known.mean,
                    known.variance / 2.0,
                    OFFSET,
                );
            }
        }
        assert!((law.x[FLOORS[0]] - law.x[FLOORS[1]]).abs() < 1e-12, "{:?}", law.x);
    }

    #[test]
    fn a_server_that_has_moved_teaches_neither_offset_nor_rate() {
        let mut law = vague();
        law.inflate(&unit(SERVER), 1.0);
        let before = law;
        let known = law.project(&[1.0, -1e-3, 1.0, 0.0, 1.0]);
        law.absorb(&known, 0.3, known.variance / 3.0, FLOORS[0]);
        assert_eq!((law.x[OFFSET], law.x[RATE]), (before.x[OFFSET], before.x[RATE]));
        assert_eq!(law.p[OFFSET][OFFSET], before.p[OFFSET][OFFSET]);
        assert!(law.x[SERVER] > 0.1 && law.p[SERVER][SERVER] < before.p[SERVER][SERVER]);
    }

    #[test]
    fn what_a_state_becomes_part_of_is_their_sum() {
        let mut law = vague();
        law.inflate(&[0.3, 0.0, 0.0, 0.2, 1.0], 4.0);
        law.x[SERVER] = 0.5;
        let reply = [-1.0, 0.0, 0.0, 1.0, -1.0];
        let before = law.project(&reply);
        law.become_part(SERVER, FLOORS[1], -1.0);
        let after = law.project(&reply);
        assert!((after.mean - before.mean).abs() < 1e-12, "{after:?}");
        assert!((after.variance / before.variance - 1.0).abs() < 1e-12, "{after:?}");
        assert_eq!((law.x[SERVER], law.p[SERVER]), (0.0, [0.0; STATES]));
    }

    #[test]
    fn a_mixture_has_the_moments_of_its_parts() {
        let at = |x: f64| Gaussian::new([x, 0.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0, 0.0]);
        let (a, b) = (at(1.0), at(5.0));
        for all in [Gaussian::mixture([(0.25, &a), (0.75, &b)].into_iter()), a.mixed(0.25, &b)] {
            assert_eq!(all.x[OFFSET], 4.0);
            assert_eq!(all.p[OFFSET][OFFSET], 4.0 + 0.25 * 0.75 * 16.0);
        }
    }
}
