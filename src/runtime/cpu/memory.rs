//! The memory a launch works on, as addresses.

use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::runtime::{Binding, Bindings};

/// A kernel's view of a buffer: its element 0 and the bytes from there on.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The kernel's element 0.
    pub start: *mut u8,
    /// Bytes from `start` to the end of the buffer.
    pub bytes: usize,
}

// SAFETY: an address by itself; those who go through it state why they may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// The view a binding describes.
    pub fn of(binding: &Binding<'_>) -> Memory {
        let start = (binding.buffer.handle as *mut u8).wrapping_add(binding.offset);
        Memory { start, bytes: binding.buffer.bytes.saturating_sub(binding.offset) }
    }

    /// The address of an element, for elements of type `T`.
    pub fn at<T>(&self, element: usize) -> *mut T {
        self.start.cast::<T>().wrapping_add(element)
    }

    /// Whether two views share bytes.
    pub fn overlaps(&self, other: &Memory) -> bool {
        let (a, b) = (self.start.addr(), other.start.addr());
        a < b + other.bytes && b < a + self.bytes
    }

    /// The element at a position.
    ///
    /// # Panics
    /// Panics if it does not lie in the buffer: the kernel is wrong.
    pub fn read(&self, element: i64, dtype: DType) -> Scalar {
        let mut raw = [0u8; 8];
        let from = self.element(element, dtype);
        // SAFETY: `element` checked that the bytes lie in the buffer.
        unsafe { std::ptr::copy_nonoverlapping(from, raw.as_mut_ptr(), dtype.size()) };
        Scalar::from_bits(u64::from_le_bytes(raw), dtype)
    }

    /// Overwrites the element at a position.
    ///
    /// # Panics
    /// As [`Memory::read`].
    pub fn write(&self, element: i64, dtype: DType, value: Scalar) {
        let raw = value.to_bits(dtype).to_le_bytes();
        let to = self.element(element, dtype);
        // SAFETY: `element` checked that the bytes lie in the buffer, and only
        // the launch that owns its outputs writes.
        unsafe { std::ptr::copy_nonoverlapping(raw.as_ptr(), to, dtype.size()) };
    }

    fn element(&self, element: i64, dtype: DType) -> *mut u8 {
        let end = (element + 1) as usize * dtype.size();
        assert!(element >= 0 && end <= self.bytes, "element {element} of {} bytes", self.bytes);
        self.start.wrapping_add(end - dtype.size())
    }
}

/// The views of a launch's inputs.
pub fn inputs_of(bindings: &Bindings<'_>) -> SmallVec<[Memory; 8]> {
    bindings.inputs.iter().map(Memory::of).collect()
}

/// The views of a launch's outputs.
pub fn outputs_of(bindings: &Bindings<'_>) -> SmallVec<[Memory; 4]> {
    bindings.outputs.iter().map(Memory::of).collect()
}
