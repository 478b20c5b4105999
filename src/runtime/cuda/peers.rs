//! Copies from one CUDA device to another without the host: neither waits for
//! the other but on the devices themselves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::base::{Device, Result};
use crate::runtime::cuda::gpu::{CudaGpu, lock};
use crate::runtime::cuda::reports::CudaReports;

/// The other devices, as one of them sees them.
#[derive(Debug, Default)]
pub struct Peers {
    /// Whether their memory can be read.
    reached: Mutex<HashMap<Device, bool>>,
    /// Those that gave data since this device's results were looked at last.
    givers: Mutex<Vec<(Arc<CudaGpu>, Arc<CudaReports>)>>,
}

impl Peers {
    /// Whether a device reads another's memory. One that the driver does not
    /// open is not read.
    fn reaches(&self, gpu: &CudaGpu, other: &CudaGpu) -> bool {
        if let Some(&known) = lock(&self.reached).get(&other.name) {
            return known;
        }
        let reaches = gpu.driver.reaches(&other.driver).unwrap_or(false);
        *lock(&self.reached).entry(other.name).or_insert(reaches)
    }

    /// Copies `bytes` at `from` of another device to `to` of this one; whether
    /// it can.
    ///
    /// # Errors
    /// Either device's failure.
    pub fn copy(
        &self,
        (gpu, to): (&Arc<CudaGpu>, u64),
        (other, reports, from): (&Arc<CudaGpu>, &Arc<CudaReports>, u64),
        bytes: usize,
    ) -> Result<bool> {
        if Arc::ptr_eq(gpu, other) || !self.reaches(gpu, other) {
            return Ok(false);
        }
        let computed = other.driver.now().map_err(|failure| other.error("", failure))?;
        let copied = gpu.driver.follow(&computed).and_then(|()| {
            gpu.driver.copy_from(to, &other.driver, from, bytes)?;
            gpu.driver.now()
        });
        let copied = copied.map_err(|failure| gpu.error("", failure))?;
        // Until then the other device neither overwrites the memory nor reuses it.
        other.driver.follow(&copied).map_err(|failure| other.error("", failure))?;
        let mut givers = lock(&self.givers);
        if !givers.iter().any(|(_, known)| Arc::ptr_eq(known, reports)) {
            givers.push((other.clone(), reports.clone()));
        }
        Ok(true)
    }

    /// Gives the errors that launches on devices which gave data reported.
    ///
    /// # Errors
    /// The first of them; a failure of such a device.
    pub fn settle(&self) -> Result<()> {
        let givers = std::mem::take(&mut *lock(&self.givers));
        givers.iter().try_for_each(|(other, reports)| {
            reports.after(other, || other.driver.wait().map_err(|failure| other.error("", failure)))
        })
    }
}
