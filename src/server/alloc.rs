//! Makes the server's allocator align blocks as Rust asks.
//!
//! The server's allocator may align blocks to 8 bytes only: an allocator that can't ask the C library for a block's size (as with musl)
//! stores the size in the 8 bytes in front of the block. Rust's hash tables need an alignment of 16 bytes.

use std::alloc::{GlobalAlloc, Layout};

/// The alignment in bytes that every block from the server has.
const ALIGNED: usize = align_of::<usize>();

/// The allocator `A`, but each block has the alignment that its layout asks for.
pub(crate) struct Aligning<A>(pub(crate) A);

// SAFETY: if the server aligns a block well enough by itself, `alloc` returns the server's block. Otherwise `alloc` returns an aligned part
// of a larger block. The address of the larger block is stored right before that part, so that `dealloc` can free the larger block.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Aligning<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: the inner allocator needs the same promises that the caller gave us.
            unsafe { self.0.alloc(layout) }
        } else {
            // SAFETY: the caller promises that the layout's size is not 0, and in this branch, its alignment is above `ALIGNED`.
            unsafe { self.alloc_within(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= ALIGNED {
            // SAFETY: `alloc` got the block from this allocator.
            unsafe { self.0.dealloc(block, layout) };
        } else {
            // SAFETY: for this alignment, `alloc` got the block from `alloc_within`, with this layout.
            unsafe { self.dealloc_within(block, layout) };
        }
    }
}

/// Returns the layout of a block in which an aligned block of the given layout fits, wherever the server places the outer block.
fn around(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(layout.align())?, ALIGNED).ok()
}

impl<A: GlobalAlloc> Aligning<A> {
    /// # Safety
    /// The layout's size is not 0, and its alignment is above `ALIGNED`.
    unsafe fn alloc_within(&self, layout: Layout) -> *mut u8 {
        let Some(outer) = around(layout) else { return std::ptr::null_mut() };
        // SAFETY: `outer` is greater than `layout`, so not of size 0.
        let start = unsafe { self.0.alloc(outer) };
        if start.is_null() {
            return start;
        }
        // `skip` is at least `ALIGNED`, because the start and the alignment are both multiples of `ALIGNED`.
        let skip = layout.align() - start.addr() % layout.align();
        // SAFETY: `outer` is larger than `layout` by the alignment, and `skip` is at most the alignment, so a block of this layout fits
        // into `outer` after `skip` bytes.
        let block = unsafe { start.add(skip) };
        // SAFETY: before the block are at least `ALIGNED` bytes, enough for an address, and aligned for an address.
        unsafe { block.cast::<*mut u8>().wrapping_sub(1).write(start) };
        block
    }

    /// # Safety
    /// `alloc_within` made the block, with this layout.
    unsafe fn dealloc_within(&self, block: *mut u8, layout: Layout) {
        let Some(outer) = around(layout) else { return };
        // SAFETY: `alloc_within` has written the start in front of the block.
        let start = unsafe { block.cast::<*mut u8>().wrapping_sub(1).read() };
        // SAFETY: `start` is the block that `alloc_within` got for `outer`.
        unsafe { self.0.dealloc(start, outer) };
    }
}

#[cfg(test)]
#[allow(clippy::multiple_unsafe_ops_per_block)]
mod tests {
    use std::alloc::System;
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;

    /// An allocator like that of a Redis built with musl, which stores each block's size in the 8 bytes in front of the block. The address
    /// of these 8 bytes is a multiple of 16, so the block itself is aligned to 8 bytes only.
    #[derive(Default)]
    struct Prefixed(Mutex<HashMap<usize, Layout>>);

    fn with_prefix(layout: Layout) -> Layout {
        Layout::from_size_align(layout.size() + 8, 16).unwrap()
    }

    // SAFETY: each block is a block of the system's allocator, without its first 8 bytes.
    unsafe impl GlobalAlloc for Prefixed {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            assert!(layout.align() <= 8, "{layout:?}");
            // SAFETY: with the prefix, the layout has at least 8 bytes.
            let block = unsafe { System.alloc(with_prefix(layout)).add(8) };
            self.0.lock().unwrap().insert(block.addr(), layout);
            block
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            assert_eq!(self.0.lock().unwrap().remove(&block.addr()), Some(layout));
            // SAFETY: `alloc` got the block from this allocator.
            unsafe { System.dealloc(block.sub(8), with_prefix(layout)) };
        }
    }

    #[test]
    fn blocks_are_aligned_keep_what_is_written_and_are_given_back() {
        let allocator = Aligning(Prefixed::default());
        for align in (0..10).map(|power| 1 << power) {
            for size in [1, 7, 8, 9, 24, 100, 4096] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let larger = Layout::from_size_align(size * 3, align).unwrap();
                // SAFETY: no size is 0, and each block is written to within its layout, and freed once.
                unsafe {
                    let block = allocator.alloc(layout);
                    assert_eq!(block.addr() % align, 0, "{layout:?}");
                    block.write_bytes(0xa5, size);
                    let block = allocator.realloc(block, layout, larger.size());
                    assert_eq!(block.addr() % align, 0, "{larger:?}");
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0xa5));
                    block.write_bytes(0x5a, larger.size());
                    allocator.dealloc(block, larger);
                }
            }
        }
        assert!(allocator.0.0.lock().unwrap().is_empty());
    }
}
