//! The floor under a delay: a minimum with a limited memory.

/// The smallest value of the recent past, in constant space: the memory is two halves, and when
/// the newer is full the older is dropped.
///
/// A half is full when it has lasted long enough *and* seen enough values, so that slow polling
/// does not leave a floor resting on one or two packets.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    older: Option<f64>,
    newer: Option<f64>,
    newer_count: u32,
    newer_age: f64,
    older_count: u32,
}

/// How long a half lasts at least, s. With two halves a floor is forgotten after 17 to 34 minutes:
/// longer than ordinary bursts of traffic (7 minutes and more in the reference scenarios), short
/// enough that a change of route is followed within the hour.
const HALF_SECONDS: f64 = 1024.0;
/// How many values a half holds at least.
const HALF_COUNT: u32 = 16;

impl Floor {
    pub(crate) fn new() -> Floor {
        Floor { older: None, newer: None, newer_count: 0, newer_age: 0.0, older_count: 0 }
    }

    /// Takes in a value that came `dt` seconds after the one before.
    pub(crate) fn push(&mut self, value: f64, dt: f64) {
        self.newer_age += dt;
        if self.newer_age >= HALF_SECONDS && self.newer_count >= HALF_COUNT {
            self.older = self.newer.take();
            self.older_count = self.newer_count;
            self.newer_count = 0;
            self.newer_age = 0.0;
        }
        self.newer = Some(self.newer.map_or(value, |v| v.min(value)));
        self.newer_count += 1;
    }

    /// The floor.
    pub(crate) fn get(&self) -> Option<f64> {
        match (self.older, self.newer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// How many values it rests on.
    pub(crate) fn count(&self) -> u32 {
        self.older_count + self.newer_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_and_then_forgets() {
        let mut floor = Floor::new();
        floor.push(1.0, 0.0);
        for _ in 0..64 {
            floor.push(2.0, 16.0);
        }
        assert_eq!(floor.get(), Some(1.0));
        for _ in 0..128 {
            floor.push(2.0, 16.0);
        }
        assert_eq!(floor.get(), Some(2.0));
    }

    #[test]
    fn slow_polling_keeps_enough_values() {
        let mut floor = Floor::new();
        floor.push(1.0, 0.0);
        for _ in 0..HALF_COUNT - 1 {
            floor.push(2.0, 1024.0);
        }
        assert_eq!(floor.get(), Some(1.0));
    }
}
