//! What this member has come through: the digest of the stream at each place, for comparing it with
//! what others' headers say.

use std::collections::VecDeque;

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

/// How another's way stands to ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It has come the same way, to where it is.
    Same,
    /// Another.
    Other,
    /// It is where we were not yet let in.
    Before,
    /// It is farther back than is remembered here.
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

    /// How a member that is there, with that history, has come there.
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
