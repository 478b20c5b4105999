//! Copies between two devices, each in the order of its own stream.

use cudarc::driver::{result, sys};

use super::{Driver, Outcome, StreamEvent};

impl Driver {
    /// Whether this device can read another's memory, which is opened to it.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn reaches(&self, other: &Driver) -> Outcome<bool> {
        let mut can = 0;
        // SAFETY: the pointer is to a live integer; both devices are there.
        self.call(|| unsafe { sys::cuDeviceCanAccessPeer(&mut can, self.device, other.device).result() })?;
        if can == 0 {
            return Ok(false);
        }
        let opened = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: self.device,
            },
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the pool lives as long as the process; one description.
        other.call(|| unsafe { sys::cuMemPoolSetAccess(other.pool, &raw const opened, 1).result() })?;
        Ok(true)
    }

    /// An event after all that was enqueued so far.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn now(&self) -> Outcome<StreamEvent> {
        self.mark(self.stream)
    }

    /// Makes what is enqueued from now on wait for an event, perhaps of another
    /// device's.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn follow(&self, event: &StreamEvent) -> Outcome<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event live.
        self.call(|| unsafe { result::stream::wait_event(self.stream, event.0, flags) })
    }

    /// Enqueues a copy of another device's memory into this one's.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn copy_from(&self, to: u64, other: &Driver, from: u64, bytes: usize) -> Outcome<()> {
        // SAFETY: both ranges lie in buffers of the caller's, each of its device.
        self.call(|| unsafe {
            result::memcpy_peer_async(self.context, to, other.context, from, bytes, self.stream)
        })
    }
}
