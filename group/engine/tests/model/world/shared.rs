//! Part of a state that many states have in common.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::print;

/// A value that is copied only when it is about to change, and its digest: a step touches one or two
/// nodes, and the states before it and beside it keep the rest.
#[derive(Clone, Default, Debug)]
pub struct Shared<T>(Rc<Kept<T>>);

#[derive(Clone, Default, Debug)]
struct Kept<T> {
    value: T,
    /// None since it may have changed.
    print: Cell<Option<u64>>,
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Shared<T> {
        Shared(Rc::new(Kept { value, print: Cell::new(None) }))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        let kept = Rc::make_mut(&mut self.0);
        kept.print.set(None);
        &mut kept.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let print = self.0.print.get().unwrap_or_else(|| print(&self.0.value));
        self.0.print.set(Some(print));
        state.write_u64(print);
    }
}
