//! An allocator for unit tests, which counts the bytes that each thread has allocated.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator. For each block, it counts the bytes that the server's allocator (usually jemalloc) would use.
pub(crate) struct Counted;

thread_local! {
    /// The number of allocated bytes. This number may wrap below 0, because one thread may free what another thread has allocated.
    static USED: Cell<usize> = const { Cell::new(0) };
}

/// Runs `body`. Returns the result of `body`, and how many bytes this thread has allocated and not freed meanwhile.
pub(crate) fn allocated_by<R>(body: impl FnOnce() -> R) -> (R, usize) {
    let before = USED.get();
    let result = body();
    (result, USED.get().wrapping_sub(before))
}

/// Rounds a size up as jemalloc does: in steps of 16 bytes up to 128; above, in four steps from each power of two to the next.
fn rounded(size: usize) -> usize {
    match size {
        0..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ => size.next_multiple_of(size.next_power_of_two() / 8),
    }
}

fn count(taken: usize, given_back: usize) {
    USED.set(USED.get().wrapping_add(taken).wrapping_sub(given_back));
}

// SAFETY: all blocks are the system's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(rounded(layout.size()), 0);
        // SAFETY: the system's allocator needs the same promises that the caller gave us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, rounded(layout.size()));
        // SAFETY: the system's allocator needs the same promises that the caller gave us.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(rounded(size), rounded(layout.size()));
        // SAFETY: the system's allocator needs the same promises that the caller gave us.
        unsafe { System.realloc(block, layout, size) }
    }
}
