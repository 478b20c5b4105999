//! Working memory that each thread keeps between products.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

/// A cache line, and the widest register.
const ALIGN: usize = 64;

thread_local! {
    /// Buffers that nothing on this thread uses now. A stack: a function that
    /// waits for other threads may run another product's work meanwhile.
    static FREE: RefCell<Vec<ScratchBuffer>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with uninitialized room for `count` elements, aligned to a
/// cache line.
pub fn with<T, R>(count: usize, body: impl FnOnce(*mut T) -> R) -> R {
    let bytes = (count * size_of::<T>()).max(1);
    let buffer = FREE.with_borrow_mut(Vec::pop).filter(|buffer| buffer.layout.size() >= bytes);
    let buffer = buffer.unwrap_or_else(|| ScratchBuffer::new(bytes));
    let result = body(buffer.start.as_ptr().cast());
    FREE.with_borrow_mut(|free| free.push(buffer));
    result
}

/// The least multiple of a cache line that holds `count` elements, in elements.
pub fn padded<T>(count: usize) -> usize {
    count.next_multiple_of((ALIGN / size_of::<T>()).max(1))
}

struct ScratchBuffer {
    start: NonNull<u8>,
    layout: Layout,
}

impl ScratchBuffer {
    fn new(bytes: usize) -> ScratchBuffer {
        let size = bytes.next_power_of_two().max(4096);
        let layout = Layout::from_size_align(size, ALIGN).expect("a block fits the address space");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        ScratchBuffer { start, layout }
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
