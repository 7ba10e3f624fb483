//! The server's memory, aligned as Rust wants it.
//!
//! The server's own allocator may align to 8 bytes only: where it can't ask the C library for the size of a block, as with musl,
//! it keeps that in front of the block. Hash tables want 16.

use std::alloc::{GlobalAlloc, Layout};

/// What the server aligns each block to, at least.
const ALIGNED: usize = align_of::<usize>();

/// An allocator like the server's, made to align.
pub(crate) struct Aligning<A>(pub(crate) A);

// SAFETY: a block that wants no more than the server's alignment is the server's own. Any other lies within one, at a multiple of
// what it wants, and behind the address of that, by which it is given back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Aligning<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: what the caller owes us, we owe it.
            unsafe { self.0.alloc(layout) }
        } else {
            // SAFETY: the caller's layout is not of size 0, as it owes us.
            unsafe { self.alloc_within(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= ALIGNED {
            // SAFETY: `alloc` had it from there.
            unsafe { self.0.dealloc(block, layout) };
        } else {
            // SAFETY: `alloc` made it with that layout.
            unsafe { self.dealloc_within(block, layout) };
        }
    }
}

/// The layout of a block of the server's allocator that has room for a block of this layout, wherever it starts.
fn around(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(layout.align())?, ALIGNED).ok()
}

impl<A: GlobalAlloc> Aligning<A> {
    /// # Safety
    /// The layout is not of size 0, and wants more than `ALIGNED`.
    unsafe fn alloc_within(&self, layout: Layout) -> *mut u8 {
        let Some(outer) = around(layout) else { return std::ptr::null_mut() };
        // SAFETY: `outer` is greater than `layout`, so not of size 0.
        let start = unsafe { self.0.alloc(outer) };
        if start.is_null() {
            return start;
        }
        // At least `ALIGNED`: the start is a multiple of that, and so is what the layout wants.
        let skip = layout.align() - start.addr() % layout.align();
        // SAFETY: `outer` is larger by what the layout wants, and `skip` is not more: all of the layout is behind it.
        let block = unsafe { start.add(skip) };
        // SAFETY: there are `ALIGNED` bytes before the block, as many as an address has, and it is aligned for one.
        unsafe { block.cast::<*mut u8>().wrapping_sub(1).write(start) };
        block
    }

    /// # Safety
    /// `alloc_within` made the block, with that layout.
    unsafe fn dealloc_within(&self, block: *mut u8, layout: Layout) {
        let Some(outer) = around(layout) else { return };
        // SAFETY: `alloc_within` has written it there.
        let start = unsafe { block.cast::<*mut u8>().wrapping_sub(1).read() };
        // SAFETY: it is what that got for `outer`.
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

    /// As a Redis that was built with musl: each block follows its size, and so lies 8 bytes off a multiple of 16.
    #[derive(Default)]
    struct Prefixed(Mutex<HashMap<usize, Layout>>);

    fn with_prefix(layout: Layout) -> Layout {
        Layout::from_size_align(layout.size() + 8, 16).unwrap()
    }

    // SAFETY: blocks of the system's, but for their first 8 bytes.
    unsafe impl GlobalAlloc for Prefixed {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            assert!(layout.align() <= 8, "{layout:?}");
            // SAFETY: not of size 0.
            let block = unsafe { System.alloc(with_prefix(layout)).add(8) };
            self.0.lock().unwrap().insert(block.addr(), layout);
            block
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            assert_eq!(self.0.lock().unwrap().remove(&block.addr()), Some(layout));
            // SAFETY: `alloc` had it from there.
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
                // SAFETY: not of size 0; each block is written to within its layout, and given back once.
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
