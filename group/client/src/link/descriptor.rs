//! Descriptors of an attachment, kept out of the program's way.

use crate::sys;

/// Descriptors are kept above this, where programs seldom put theirs.
const HIGH: i32 = 800;

/// A descriptor, and which file it was when we got it: programs close descriptors that are not
/// theirs, and open others under the same numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub(super) number: i32,
    identity: Option<(u64, u64)>,
}

impl Descriptor {
    pub(super) fn of(number: i32) -> Descriptor {
        // Not where a program that expects 0, 1, 2 or the lowest free number will meet it.
        let number = match sys::duplicate(number, HIGH) {
            Ok(high) => {
                sys::close(number);
                high
            }
            Err(_) => number,
        };
        Descriptor { number, identity: sys::identity(number) }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.identity.is_some() && sys::identity(self.number) == self.identity
    }

    pub(super) fn close(&self) {
        if self.is_ours() {
            sys::close(self.number);
        }
    }
}
