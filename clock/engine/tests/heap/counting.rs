//! The system's allocator, which counts what each thread has of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts, and passes on.
pub struct Counting;

/// Memory that a thread has asked for so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Heap {
    /// Number of times that it asked for memory.
    pub allocations: u64,
    /// Memory held now, bytes; negative if it gave back what another thread had asked for.
    pub live: i64,
    /// The most that it ever held.
    pub most: i64,
}

thread_local! {
    static HEAP: Cell<Heap> = const { Cell::new(Heap { allocations: 0, live: 0, most: 0 }) };
}

impl Heap {
    /// Of this thread.
    pub fn now() -> Heap {
        HEAP.get()
    }

    fn change(allocations: u64, bytes: i64) {
        // At a thread's very end there is nobody left to count for.
        let _ = HEAP.try_with(|heap| {
            let Heap { allocations: before, live, most } = heap.get();
            let live = live + bytes;
            heap.set(Heap { allocations: before + allocations, live, most: most.max(live) });
        });
    }
}

// SAFETY: every call is the system allocator's own; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Heap::change(1, layout.size() as i64);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Heap::change(0, -(layout.size() as i64));
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Heap::change(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's own promise.
        unsafe { System.realloc(at, layout, size) }
    }
}
