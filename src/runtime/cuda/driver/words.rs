//! Words that the host and a device's kernels share.

use std::ops::Range;

use cudarc::driver::{result, sys};

use super::{Driver, Outcome};

/// Words in the host's memory that kernels write too. They stay for the life
/// of the process: a launch that still waits may write them.
#[derive(Debug)]
pub struct SharedWords {
    host: *mut u32,
    /// Where kernels find them.
    pub device: u64,
    count: usize,
}

// SAFETY: the words are read and written by volatile accesses only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl Driver {
    /// Words in the host's memory that kernels write too, all 0.
    ///
    /// # Errors
    /// Refusal.
    pub fn shared_words(&self, count: usize) -> Outcome<SharedWords> {
        let bytes = 4 * count;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: fresh memory of that size, page-aligned.
        self.call(|| unsafe {
            let host = result::malloc_host(bytes, flags)?;
            std::ptr::write_bytes(host.cast::<u8>(), 0, bytes);
            let mut device = 0;
            sys::cuMemHostGetDevicePointer_v2(&mut device, host, 0).result()?;
            Ok(SharedWords { host: host.cast(), device, count })
        })
    }
}

impl SharedWords {
    /// A word as it is; of finished launches, once they were waited for.
    pub fn read(&self, at: usize) -> u32 {
        assert!(at < self.count, "word {at} of {}", self.count);
        // SAFETY: there is such a word.
        unsafe { self.host.add(at).read_volatile() }
    }

    /// Makes words 0, the last first.
    pub fn clear(&self, range: Range<usize>) {
        assert!(range.end <= self.count, "words {range:?} of {}", self.count);
        for i in range.rev() {
            // SAFETY: there is such a word.
            unsafe { self.host.add(i).write_volatile(0) };
        }
    }
}
