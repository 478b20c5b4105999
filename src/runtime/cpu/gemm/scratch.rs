//! Working memory that each thread keeps between products.

use std::alloc::handle_alloc_error;
use std::cell::RefCell;

use crate::runtime::cpu::regions::{self, ALIGN};

thread_local! {
    /// Buffers that nothing on this thread uses now. A stack: a function that
    /// waits for other threads may run another product's work meanwhile.
    static FREE: RefCell<Vec<ScratchBuffer>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with uninitialized room for `count` elements, aligned to a
/// cache line.
pub fn with<T, R>(count: usize, body: impl FnOnce(*mut T) -> R) -> R {
    let bytes = (count * size_of::<T>()).max(1);
    let buffer = FREE.with_borrow_mut(Vec::pop).filter(|buffer| buffer.bytes >= bytes);
    let buffer = buffer.unwrap_or_else(|| ScratchBuffer::new(bytes));
    let result = body(buffer.start as *mut T);
    FREE.with_borrow_mut(|free| free.push(buffer));
    result
}

/// The least multiple of a cache line that holds `count` elements, in elements.
pub fn padded<T>(count: usize) -> usize {
    count.next_multiple_of((ALIGN / size_of::<T>()).max(1))
}

struct ScratchBuffer {
    start: u64,
    bytes: usize,
}

impl ScratchBuffer {
    fn new(bytes: usize) -> ScratchBuffer {
        let bytes = bytes.next_power_of_two().max(4096);
        let refused = || handle_alloc_error(regions::layout(bytes));
        ScratchBuffer { start: regions::allocate(bytes).unwrap_or_else(refused), bytes }
    }
}

impl Drop for ScratchBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, as many bytes.
        unsafe { regions::free(self.start, self.bytes) }
    }
}
