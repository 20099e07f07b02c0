//! The RTT layer: the baseline of the round trip, what it forgets, and shifts of its level.
//!
//! All of it in counts, so that no error of p̂ ever gets in (ToN §4; Part "RTT layer").

use super::history::History;
use super::windows::Windows;

/// Where the top history window slides, by stamp numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slides {
    /// Half a window, in stamps.
    half: u64,
    next: u64,
    halfway_seen: bool,
}

/// Change of the history at a stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slide {
    /// Nothing.
    None,
    /// The second half of the first window begins.
    HalfWay,
    /// The first half is forgotten, and the second is the first now.
    Slid,
}

impl Slides {
    pub(super) fn new(windows: &Windows) -> Slides {
        let half = windows.history / 2;
        Slides { half, next: half, halfway_seen: false }
    }

    /// Another poll period: what was to come at stamp `next` comes after as much time as before.
    pub(super) fn resize(&mut self, windows: &Windows, index: u64) {
        let half = windows.history / 2;
        let left = u128::from(self.next.saturating_sub(index));
        let left = left * u128::from(half) / u128::from(self.half.max(1));
        self.next = index + u64::try_from(left).unwrap_or(half).max(1);
        self.half = half;
    }

    pub(super) fn at(&mut self, windows: &Windows, index: u64) -> Slide {
        if index < self.next {
            return Slide::None;
        }
        if self.halfway_seen {
            self.next = index + self.half;
            return Slide::Slid;
        }
        self.halfway_seen = true;
        // The first window ends with stamp h_win − 1.
        self.next = index + (windows.history - self.half).saturating_sub(1).max(1);
        Slide::HalfWay
    }
}

/// The baseline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Baseline {
    /// R̂, counts.
    pub(super) floor: i64,
    /// R̂': the same of the second half of the history window alone.
    successor: Option<i64>,
    /// The first stamp that the shift window may hold.
    shift_from: u64,
}

/// A change of the baseline that is worth telling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift {
    /// New floor − old, counts: a lower round trip is the new floor at once.
    Down(i64),
    /// New floor − old, counts, and the stamp that the shift began with.
    Up(i64, u64),
}

impl Baseline {
    pub(super) fn new(rtt: i64) -> Baseline {
        Baseline { floor: rtt, successor: None, shift_from: 0 }
    }

    /// The shift window begins anew after stamp `index`.
    pub(super) fn restart_shift(&mut self, index: u64) {
        self.shift_from = index + 1;
    }

    pub(super) fn slide(&mut self, slide: Slide, rtt: i64) {
        match slide {
            Slide::None => return,
            Slide::HalfWay => {}
            Slide::Slid => self.floor = self.successor.unwrap_or(rtt),
        }
        self.successor = Some(rtt);
    }

    /// Takes in the newest round trip. Returns the change.
    pub(super) fn push(&mut self, rtt: i64) -> i64 {
        let before = self.floor;
        self.floor = self.floor.min(rtt);
        self.successor = self.successor.map(|s| s.min(rtt));
        self.floor - before
    }

    /// Looks for a shift up: the smallest round trip of the whole shift window is above the floor
    /// by more than `threshold` counts. The level has then shifted, a window ago, and is followed.
    pub(super) fn detect(
        &mut self,
        history: &History,
        window: u64,
        threshold: i64,
    ) -> Option<Shift> {
        let index = history.last()?.index;
        if index + 1 < self.shift_from + window {
            return None;
        }
        let since = index + 1 - window;
        let least = history.best(since, index + 1)?.rtt;
        let by = least - self.floor;
        if by <= threshold {
            return None;
        }
        self.floor = least;
        self.successor = self.successor.map(|_| least);
        Some(Shift::Up(by, since))
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::HostClass;
    use super::*;

    /// The window slides first at its end, then every half.
    #[test]
    fn history_slides_by_halves() {
        let windows = Windows::new(1024, &HostClass::Good.values());
        assert_eq!(windows.history, 590);
        let mut slides = Slides::new(&windows);
        let seen: Vec<(u64, Slide)> =
            (1..1300).map(|i| (i, slides.at(&windows, i))).filter(|s| s.1 != Slide::None).collect();
        let expected =
            [(295, Slide::HalfWay), (589, Slide::Slid), (884, Slide::Slid), (1179, Slide::Slid)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_floor_forgets_what_the_first_half_saw() {
        let mut floor = Baseline::new(1000);
        assert_eq!(floor.push(900), -100);
        floor.slide(Slide::HalfWay, 1200);
        assert_eq!(floor.push(1100), 0);
        assert_eq!(floor.push(1300), 0);
        assert_eq!(floor.floor, 900);
        floor.slide(Slide::Slid, 1500);
        assert_eq!(floor.floor, 1100);
        floor.slide(Slide::Slid, 1600);
        assert_eq!(floor.floor, 1500);
    }
}
