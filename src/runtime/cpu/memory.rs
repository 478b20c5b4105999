//! The memory a launch works on, as addresses.

use smallvec::SmallVec;

use crate::runtime::{Binding, Bindings};

/// A kernel's view of a buffer: its element 0 and the bytes from there on.
#[derive(Clone, Copy, Debug)]
pub struct MemoryView {
    /// The kernel's element 0.
    pub start: *mut u8,
    /// Bytes from `start` to the end of the buffer.
    pub bytes: usize,
}

// SAFETY: an address by itself; those who go through it state why they may.
unsafe impl Send for MemoryView {}
// SAFETY: as above.
unsafe impl Sync for MemoryView {}

impl MemoryView {
    /// The view a binding describes.
    pub fn of(binding: &Binding<'_>) -> MemoryView {
        let start = (binding.buffer.handle as *mut u8).wrapping_add(binding.offset);
        MemoryView { start, bytes: binding.buffer.bytes.saturating_sub(binding.offset) }
    }

    /// The address of an element, for elements of type `T`.
    pub fn at<T>(&self, element: usize) -> *mut T {
        self.start.cast::<T>().wrapping_add(element)
    }
}

/// The views of a launch's inputs.
pub fn inputs_of(bindings: &Bindings<'_>) -> SmallVec<[MemoryView; 8]> {
    bindings.inputs.iter().map(MemoryView::of).collect()
}

/// The views of a launch's outputs.
pub fn outputs_of(bindings: &Bindings<'_>) -> SmallVec<[MemoryView; 4]> {
    bindings.outputs.iter().map(MemoryView::of).collect()
}
