//! What this member has come through: the digest of the stream at each place, for comparing it with
//! what others' headers say.

use std::collections::VecDeque;

use crate::types::Point;

/// The most places that are kept: far more messages than are under way at a time.
const MOST_PLACES: usize = 4096;

/// The last places that this member was at since it was let in, and the state's history there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Course(VecDeque<(Point, u64)>);

/// The last place's history follows from those before it.
impl core::hash::Hash for Course {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.0.front().hash(hasher);
        self.0.back().hash(hasher);
    }
}

impl Course {
    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// We are here now, beyond where we were.
    pub(crate) fn pass(&mut self, point: Point, history: u64) {
        if self.0.len() == MOST_PLACES {
            self.0.pop_front();
        }
        self.0.push_back((point, history));
    }

    /// Whether a member that is there, with that history, has come the same way. None if it is not
    /// known here how it was there, or nothing was to be said yet.
    pub(crate) fn same(&self, point: Point, history: u64) -> Option<bool> {
        let (&(first, _), &(last, _)) = self.0.front().zip(self.0.back())?;
        if point < first {
            return None;
        }
        if point > last {
            return Some(false);
        }
        let place = self.0.binary_search_by_key(&point, |&(point, _)| point).ok();
        // Never having been there at all is another way as well.
        Some(place.and_then(|place| self.0.get(place)).is_some_and(|&(_, here)| here == history))
    }
}
