//! The path penalty, by which one of several servers is preferred (since RADclock 0.8).

use super::constants::{ASYMMETRY, Class, PATH_SCALE};

/// The penalty of one server's path, s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Penalty {
    base: f64,
    change: f64,
    quality: f64,
    /// Err: the error of the newest offset, growing while there is none.
    error: f64,
    begun: bool,
}

impl Penalty {
    pub(super) fn new() -> Penalty {
        Penalty { base: 0.0, change: 0.0, quality: 0.0, error: 0.0, begun: false }
    }

    /// A stamp, after `missing` that never came: baseline and its change, s, and the least error
    /// of the offset if it was updated.
    pub(super) fn push(
        &mut self,
        class: &Class,
        poll: u32,
        missing: u64,
        (baseline, change): (f64, f64),
        least: Option<f64>,
    ) {
        let period = f64::from(poll);
        let gain = 1.0 - libm::exp(-period / PATH_SCALE);
        let step = class.rate_bound * period;
        if missing > 0 {
            // The average follows an error that grows evenly at a fixed distance, once what it was
            // before is forgotten: `missing` steps at once.
            let (behind, passed) = (step * (1.0 - gain) / gain, missing as f64);
            let before = self.quality - self.error + behind;
            self.error += step * passed;
            let forgotten = libm::exp(-period * passed / PATH_SCALE);
            self.quality = self.error - behind + before * forgotten;
        }
        self.error = least.unwrap_or(self.error + step);
        if !self.begun {
            // An average begins with its first value.
            (self.base, self.quality, self.begun) = (ASYMMETRY * baseline, self.error, true);
        }
        self.quality += gain * (self.error - self.quality);
        self.base += gain * (ASYMMETRY * baseline - self.base);
        self.change = libm::sqrt(1.0 - gain) * self.change + change.abs() / 2.0;
    }

    /// In all, if the last stamp is `age` seconds old.
    pub(super) fn total(&self, class: &Class, age: f64) -> f64 {
        self.base + self.change + self.quality + class.rate_bound * age.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::HostClass;
    use super::*;

    #[test]
    fn a_near_path_costs_less_and_silence_costs() {
        let class = HostClass::Good.values();
        let after = |baseline: f64, missing: u64| {
            let mut penalty = Penalty::new();
            for _ in 0..100 {
                penalty.push(&class, 16, missing, (baseline, 0.0), Some(20e-6));
            }
            penalty
        };
        let (near, far) = (after(0.4e-3, 0), after(10e-3, 0));
        assert!((near.total(&class, 0.0) - (80e-6 + 20e-6)).abs() < 1e-9);
        assert!((far.total(&class, 0.0) - (2000e-6 + 20e-6)).abs() < 1e-9);
        assert!((near.total(&class, 1000.0) - near.total(&class, 0.0) - 500e-6).abs() < 1e-9);
        assert!(after(0.4e-3, 3).total(&class, 0.0) > near.total(&class, 0.0));
    }

    #[test]
    fn many_missing_stamps_cost_as_much_as_each_by_itself() {
        let class = HostClass::Good.values();
        let (mut at_once, mut one_by_one) = (Penalty::new(), Penalty::new());
        for penalty in [&mut at_once, &mut one_by_one] {
            penalty.push(&class, 16, 0, (1e-3, 0.0), Some(30e-6));
        }
        let (mut error, mut quality) = (one_by_one.error, one_by_one.quality);
        let gain = 1.0 - libm::exp(-16.0 / PATH_SCALE);
        for _ in 0..500 {
            error += class.rate_bound * 16.0;
            quality += gain * (error - quality);
        }
        (one_by_one.error, one_by_one.quality) = (error, quality);
        at_once.push(&class, 16, 500, (1e-3, 0.0), None);
        one_by_one.push(&class, 16, 0, (1e-3, 0.0), None);
        let apart = at_once.total(&class, 0.0) / one_by_one.total(&class, 0.0) - 1.0;
        assert!(apart.abs() < 1e-9, "{apart}");
        at_once.push(&class, 1, u64::MAX, (1e-3, 0.0), Some(0.0));
        assert!(at_once.total(&class, 0.0).is_finite());
    }

    #[test]
    fn a_change_of_route_costs_half_of_it_and_is_forgotten() {
        let class = HostClass::Good.values();
        let mut penalty = Penalty::new();
        penalty.push(&class, 16, 0, (1e-3, 0.0), Some(0.0));
        penalty.push(&class, 16, 0, (1e-3, 2e-3), Some(0.0));
        let after = penalty.total(&class, 0.0);
        assert!((after - 1.2e-3).abs() < 1e-6, "{after}");
        for _ in 0..(2.0 * PATH_SCALE / 16.0) as u32 {
            penalty.push(&class, 16, 0, (1e-3, 0.0), Some(0.0));
        }
        // The square root: it halves in twice the time.
        let left = penalty.total(&class, 0.0) - 0.2e-3;
        assert!((left - 1e-3 / std::f64::consts::E).abs() < 5e-6, "{left}");
    }
}
