//! Values that interrupts and the program share.

use core::cell::RefCell;

use crate::machine::masked;

/// A value that is used with all interrupts masked.
pub struct Shared<T>(RefCell<T>);

// SAFETY: there is one processor, and nobody interrupts the use of the value; a use within a use panics.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Shares it.
    pub const fn new(value: T) -> Shared<T> {
        Shared(RefCell::new(value))
    }

    /// Uses it, which should not take long.
    pub fn with<R>(&self, using: impl FnOnce(&mut T) -> R) -> R {
        masked(|| using(&mut self.0.borrow_mut()))
    }
}
