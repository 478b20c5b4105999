//! Which devices there are.

use crate::base::{Device, Result};
use crate::plan::context;

impl Device {
    /// The fastest device there is, never a software adapter; the CPU if
    /// there is nothing faster.
    pub fn best() -> Device {
        #[cfg(feature = "wgpu")]
        if crate::runtime::wgpu::adapter::is_software(0) == Some(false) {
            return Device::wgpu(0);
        }
        Device::cpu()
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    /// What is missing, and what mends it.
    pub fn probe(self) -> Result<()> {
        if self.is_meta() { Ok(()) } else { context::current().backend(self).map(|_| ()) }
    }
}
