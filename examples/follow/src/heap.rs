//! The heap: so many bytes in a static.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};

use linked_list_allocator::Heap as List;

/// Bytes: half of the memory. Most of the rest is the stack's.
const SIZE: usize = 128 * 1024;

/// The heap of the program.
#[global_allocator]
pub static HEAP: Heap = Heap(UnsafeCell::new(State { list: List::empty(), most: 0, given: 0 }));

static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));

/// A heap for one processor, where no interrupt allocates.
pub struct Heap(UnsafeCell<State>);

struct State {
    list: List,
    most: usize,
    given: u32,
}

#[repr(align(8))]
struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: there is one processor, and no interrupt asks for memory: nobody interrupts a call.
unsafe impl Sync for Heap {}
// SAFETY: only the heap has it, see above.
unsafe impl Sync for Memory {}

impl Heap {
    /// The most that was ever in use, bytes.
    pub fn most(&self) -> usize {
        // SAFETY: nobody changes it meanwhile, see `Sync`.
        unsafe { (*self.0.get()).most }
    }

    /// Calls for memory so far, modulo 2³².
    pub fn given(&self) -> u32 {
        // SAFETY: nobody changes it meanwhile, see `Sync`.
        unsafe { (*self.0.get()).given }
    }
}

// SAFETY: the list keeps what it gave away apart until it is given back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: nobody else uses it meanwhile, see `Sync`.
        let state = unsafe { &mut *self.0.get() };
        if state.list.size() == 0 {
            // SAFETY: the memory is the list's alone from now on, and lasts for ever.
            unsafe { state.list.init(MEMORY.0.get().cast(), SIZE) };
        }
        let given = state.list.allocate_first_fit(layout);
        state.most = state.most.max(state.list.used());
        state.given = state.given.wrapping_add(1);
        given.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: nobody else uses it meanwhile, see `Sync`.
        let state = unsafe { &mut *self.0.get() };
        if let Some(at) = NonNull::new(at) {
            // SAFETY: it came of `alloc` with this layout, as the caller promises.
            unsafe { state.list.deallocate(at, layout) };
        }
    }
}
