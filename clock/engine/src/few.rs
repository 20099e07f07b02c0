//! Short lists that take no memory from the heap.

use smallvec::SmallVec;

/// A list of a thing for each source: up to four without the heap, more with it.
pub(crate) type Few<T> = SmallVec<[T; 4]>;
