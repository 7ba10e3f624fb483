//! An allocator for unit tests: it counts what the thread that asks has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator. It counts blocks as large as the server's own would make them, which is jemalloc mostly.
pub(crate) struct Counted;

thread_local! {
    static USED: Cell<usize> = const { Cell::new(0) };
}

/// How many bytes this thread has taken more than it has given back.
pub(crate) fn used() -> usize {
    USED.get()
}

/// In steps of 16 bytes up to 128; from there on, four of them up to the next power of two.
fn rounded(size: usize) -> usize {
    match size {
        0..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ => size.next_multiple_of(size.next_power_of_two() / 8),
    }
}

fn count(taken: usize, given_back: usize) {
    USED.set(USED.get().wrapping_add(rounded(taken)).wrapping_sub(rounded(given_back)));
}

// SAFETY: all blocks are the system's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USED.set(USED.get().wrapping_add(rounded(layout.size())));
        // SAFETY: what the caller owes us, we owe it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        USED.set(USED.get().wrapping_sub(rounded(layout.size())));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
