//! Course that this member has come through: the digest of the stream at each place, for comparing
//! it with what others' headers say.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::types::Point;

/// The most places that are kept: far more messages than are under way at a time.
const MOST_PLACES: usize = 4096;

/// The last places that this member was at since it was let in, and the state's history there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Course {
    /// Where it was let in.
    start: Point,
    places: VecDeque<(Point, u64)>,
}

/// Relation of another's way to ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Same way, to where it is.
    Same,
    /// Another.
    Other,
    /// Place where we were not yet let in.
    Before,
    /// Place farther back than is remembered here.
    Unknown,
}

/// The last place's history follows from those before it.
impl core::hash::Hash for Course {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.start.hash(hasher);
        self.places.front().hash(hasher);
        self.places.back().hash(hasher);
    }
}

impl Course {
    /// Begins anew, here.
    pub(crate) fn begin(&mut self, point: Point, history: u64) {
        self.start = point;
        self.places.clear();
        self.pass(point, history);
    }

    /// We are here now, beyond where we were.
    pub(crate) fn pass(&mut self, point: Point, history: u64) {
        if self.places.len() == MOST_PLACES {
            self.places.pop_front();
        }
        self.places.push_back((point, history));
    }

    /// Way by which a member that is there, with that history, has come there.
    pub(crate) fn way(&self, point: Point, history: u64) -> Way {
        if point < self.start {
            return Way::Before;
        }
        if self.places.front().is_none_or(|&(first, _)| point < first) {
            return Way::Unknown;
        }
        let place = self.places.binary_search_by_key(&point, |&(point, _)| point).ok();
        // Never to have been there at all is another way as well.
        match place.and_then(|place| self.places.get(place)) {
            Some(&(_, here)) if here == history => Way::Same,
            _ => Way::Other,
        }
    }
}

impl Engine {
    /// True if another member has come the same way as this one, as far as the one that is less
    /// far: for checkers, which have both before them.
    pub fn has_come_with(&self, other: &Engine) -> bool {
        let epoch = |engine: &Engine| engine.state.as_ref().map(|state| state.epoch);
        let (near, far) = if self.point() <= other.point() { (self, other) } else { (other, self) };
        let Some(state) = &near.state else { return false };
        let way = far.commits.course.way(state.point, state.history);
        epoch(self) == epoch(other) && matches!(way, Way::Same | Way::Before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(generation: u64, index: u64) -> Point {
        Point { generation, index }
    }

    #[test]
    fn ways_are_compared_by_place_and_history() {
        let mut course = Course::default();
        course.begin(at(3, 10), 100);
        course.pass(at(3, 11), 101);
        course.pass(at(4, 11), 102);
        course.pass(at(4, 12), 103);
        for (index, point) in [at(3, 10), at(3, 11), at(4, 11), at(4, 12)].into_iter().enumerate() {
            assert_eq!(course.way(point, 100 + index as u64), Way::Same, "{point:?}");
            assert_eq!(course.way(point, 99), Way::Other, "{point:?}");
        }
        // Where this member has never been: the boundary was elsewhere, or it is farther on.
        for point in [at(3, 12), at(4, 10), at(4, 13), at(5, 0), at(u64::MAX, u64::MAX)] {
            assert_eq!(course.way(point, 103), Way::Other, "{point:?}");
        }
        for point in [at(3, 9), at(2, u64::MAX), at(0, 0)] {
            assert_eq!(course.way(point, 100), Way::Before, "{point:?}");
        }
    }

    #[test]
    fn what_is_far_back_is_forgotten() {
        let mut course = Course::default();
        course.begin(at(1, 0), 0);
        for index in 1..=MOST_PLACES as u64 {
            course.pass(at(1, index), index);
        }
        assert_eq!(course.places.len(), MOST_PLACES);
        assert_eq!(course.way(at(1, 0), 0), Way::Unknown);
        assert_eq!(course.way(at(1, 1), 1), Way::Same);
        assert_eq!(course.way(at(0, 9), 1), Way::Before);
    }
}
