//! The two-state filter: offset and rate of a free-running oscillator.

use truechimer_time::Count;

/// Random walk of the oscillator's rate, per √s. Quartz in a machine room does 10⁻⁹ to 10⁻⁸
/// (reference scenarios: 10⁻⁹, and a 0.1 ppm swing every 200 s under air conditioning).
const RATE_WALK: f64 = 2e-9;
/// Random walk of the phase, s per √s: counter reads and short-term noise of the oscillator.
const PHASE_WALK: f64 = 2e-9;

/// θ (true time − what the counter shows at its nominal period, s) and its rate of change, with
/// their covariance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub(crate) at: Count,
    pub(crate) theta: f64,
    pub(crate) rate: f64,
    pub(crate) theta_var: f64,
    covariance: f64,
    pub(crate) rate_var: f64,
}

impl Filter {
    pub(crate) fn new(at: Count, theta: f64, theta_var: f64, rate: f64, rate_var: f64) -> Filter {
        Filter { at, theta, rate, theta_var, covariance: 0.0, rate_var }
    }

    /// The state `dt` seconds later, at count `at`. A negative `dt` is allowed for a step back
    /// over part of a round trip; noise is then added all the same.
    #[must_use]
    pub(crate) fn predicted(&self, at: Count, dt: f64) -> Filter {
        let noise = dt.abs();
        let walk = RATE_WALK * RATE_WALK;
        Filter {
            at,
            theta: self.theta + self.rate * dt,
            rate: self.rate,
            theta_var: self.theta_var
                + 2.0 * dt * self.covariance
                + dt * dt * self.rate_var
                + PHASE_WALK * PHASE_WALK * noise
                + walk * noise * noise * noise / 3.0,
            covariance: self.covariance + dt * self.rate_var + walk * dt * noise / 2.0,
            rate_var: self.rate_var + walk * noise,
        }
    }

    /// θ is proven to be at least `by` off, and `theta` is the nearest value that is possible. So
    /// neither the state nor its variances were worth what they said.
    pub(crate) fn refute(&mut self, theta: f64, by: f64, rate_slack: f64) {
        self.theta = theta;
        self.theta_var += by * by;
        self.rate_var += rate_slack * rate_slack;
        self.covariance = 0.0;
    }

    /// Takes in a measurement of θ with the given variance.
    pub(crate) fn update(&mut self, measured: f64, variance: f64) {
        let innovation = measured - self.theta;
        let total = self.theta_var + variance;
        let (gain, rate_gain) = (self.theta_var / total, self.covariance / total);
        self.theta += gain * innovation;
        self.rate += rate_gain * innovation;
        self.rate_var -= rate_gain * self.covariance;
        self.covariance -= gain * self.covariance;
        self.theta_var -= gain * self.theta_var;
        // Rounding may not make a variance vanish.
        self.theta_var = self.theta_var.max(1e-24);
        self.rate_var = self.rate_var.max(1e-26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_offset_and_rate_of_a_line() {
        let mut filter = Filter::new(Count(0), 0.0, 1.0, 0.0, 1e-6);
        for k in 1..=100u64 {
            filter = filter.predicted(Count(k), 16.0);
            filter.update(0.5 + 3e-6 * 16.0 * k as f64, 1e-12);
        }
        assert!((filter.theta - 0.5 - 3e-6 * 1600.0).abs() < 1e-7);
        assert!((filter.rate - 3e-6).abs() < 1e-8);
        assert!(filter.rate_var.is_sign_positive() && filter.rate_var < 1e-14);
    }
}
