//! An opened device: its memory ledger, compiled functions, errors.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::base::config::config;
use crate::base::{Device, Error, Result};
use crate::ir::{DeviceBuffer, Reclaim};
use crate::render::cuda::plain_matmul::PlainMatmul;
use crate::render::{GpuTarget, cuda};
use crate::runtime::cuda::driver::product::CublasProduct;
use crate::runtime::cuda::driver::{self, Driver, Failure, LoadedFunction, Outcome};
use crate::runtime::cuda::nvrtc;
use crate::runtime::cuda::pinned::Pinned;
use crate::runtime::cuda::times::LaunchTimes;
use crate::runtime::disk_cache::cached;
use crate::runtime::{Ledger, MemoryStats};

/// An opened device. The process opens each once.
#[derive(Debug)]
pub struct CudaGpu {
    /// kiln's name for it.
    pub name: Device,
    /// The driver's side.
    pub driver: Driver,
    /// Loaded functions, by their text. They stay as long as the process.
    functions: Mutex<HashMap<String, Arc<LoadedFunction>>>,
    /// Products that cuBLASLt was asked for, and its answers.
    pub(super) products: Mutex<HashMap<PlainMatmul, Option<Arc<CublasProduct>>>>,
    /// What its memory is for.
    pub ledger: Mutex<Ledger>,
    /// Pinned memory of the host.
    pub pinned: Pinned,
    /// When launches ran, for those who record them.
    pub times: LaunchTimes,
}

/// The devices that the process has opened.
static OPEN: LazyLock<Mutex<HashMap<Device, Arc<CudaGpu>>>> = LazyLock::new(Mutex::default);

impl CudaGpu {
    /// The device of that name, opened now or before.
    ///
    /// # Errors
    /// What is missing, and what mends it; that it was lost.
    pub fn open(name: Device) -> Result<Arc<CudaGpu>> {
        let unavailable = |reason: String| Error::DeviceUnavailable { device: name, reason, span: None };
        let mut open = lock(&OPEN);
        if let Some(gpu) = open.get(&name) {
            // A process cannot get a lost device back.
            return gpu.driver.loss().map_or_else(|| Ok(gpu.clone()), |reason| Err(unavailable(reason)));
        }
        let count = driver::start().map_err(|reason| unavailable(format!("{reason}; {}", driver::FIX)))?;
        if usize::from(name.index) >= count {
            return Err(unavailable(match count {
                0 => format!("the driver sees no device; {}", driver::FIX),
                1 => "there is one device, cuda:0".into(),
                count => format!("there are {count} devices, from cuda:0 on"),
            }));
        }
        nvrtc::version().map_err(|reason| unavailable(format!("{reason}; {}", nvrtc::FIX)))?;
        let driver = Driver::open(i32::from(name.index)).map_err(unavailable)?;
        let gpu = CudaGpu {
            name,
            driver,
            functions: Mutex::default(),
            products: Mutex::default(),
            ledger: Mutex::new(Ledger::new(name)),
            pinned: Pinned::default(),
            times: LaunchTimes::default(),
        };
        Ok(open.entry(name).or_insert(Arc::new(gpu)).clone())
    }

    /// Lets the other devices that the process has opened read this one's memory, where they can.
    #[cfg(feature = "nccl")]
    pub fn open_to_others(self: &Arc<CudaGpu>) {
        let others: Vec<Arc<CudaGpu>> = lock(&OPEN).values().cloned().collect();
        for other in others.iter().filter(|other| !Arc::ptr_eq(other, self)) {
            // One that cannot read it does not.
            let _ = other.driver.reaches(&self.driver);
        }
    }

    /// A failure in a kernel, or in none, as kiln's error.
    pub fn error(&self, kernel: &str, failure: Failure) -> Error {
        match failure {
            Failure::OutOfMemory => self.refused(&lock(&self.ledger), 0, self.driver.info.bytes as u64),
            Failure::Lost(reason) => Error::DeviceUnavailable {
                device: self.name,
                reason: match kernel {
                    "" => format!("the device is lost: {reason}"),
                    kernel => format!("the device is lost in kernel {kernel}: {reason}"),
                },
                span: None,
            },
            Failure::Other(message) => self.refusal(kernel, message),
        }
    }

    /// A kernel that did not compile or launch.
    pub fn refusal(&self, kernel: &str, message: String) -> Error {
        let kernel = if kernel.is_empty() { "(none)" } else { kernel };
        Error::Kernel { kernel: kernel.into(), device: self.name, message, span: None }
    }

    /// What renderers know of the device.
    pub fn target(&self) -> GpuTarget {
        let (major, minor) = self.driver.info.capability;
        GpuTarget::cuda_device((major.unsigned_abs(), minor.unsigned_abs()), self.driver.info.processors)
    }

    /// A function of that text, compiled now or before, for launches with so many
    /// bytes of shared memory.
    ///
    /// # Errors
    /// What the compiler or the driver said.
    pub fn function(&self, kernel: &str, source: &str, shared_bytes: u32) -> Result<Arc<LoadedFunction>> {
        if let Some(known) = lock(&self.functions).get(source) {
            return Ok(known.clone());
        }
        let unit = cuda::translation_unit(source);
        let code = machine_code(&unit, &architecture(self.driver.info.capability))
            .map_err(|message| self.refusal(kernel, format!("{message}\nin\n{source}")))?;
        let function = self.driver.load(&code, cuda::ENTRY, shared_bytes);
        let function = function.map_err(|failure| self.error(kernel, failure))?;
        Ok(lock(&self.functions).entry(source.into()).or_insert(Arc::new(function)).clone())
    }

    /// What the pool holds.
    pub fn memory(&self) -> MemoryStats {
        MemoryStats { reserved: self.driver.reserved(), ..lock(&self.ledger).stats() }
    }

    /// Sets the most bytes that may be allocated at once.
    pub fn set_memory_limit(&self, bytes: u64) {
        lock(&self.ledger).set_limit(bytes);
    }

    /// That so many bytes are not to be had.
    fn refused(&self, ledger: &Ledger, requested: u64, limit: u64) -> Error {
        Error::OutOfMemory {
            device: self.name,
            requested,
            in_use: ledger.stats().allocated,
            limit,
            largest: ledger.largest(Ledger::NAMED).into(),
            span: None,
        }
    }
}

/// Uninitialised memory. Where the driver refuses, free memory goes back to it
/// and it is asked once more.
///
/// # Errors
/// [`Error::OutOfMemory`] over the limit or when the driver refuses.
pub fn allocate(gpu: &Arc<CudaGpu>, bytes: usize) -> Result<DeviceBuffer> {
    allocate_with(gpu, bytes, |bytes| gpu.driver.allocate(bytes))
}

/// [`allocate`] by another call of the driver's.
///
/// # Errors
/// As [`allocate`].
pub fn allocate_with(
    gpu: &Arc<CudaGpu>,
    bytes: usize,
    call: impl Fn(usize) -> Outcome<u64>,
) -> Result<DeviceBuffer> {
    // Locked until the block is in the books, so that no two pass the limit.
    let mut ledger = lock(&gpu.ledger);
    if !ledger.admits(bytes as u64) {
        return Err(gpu.refused(&ledger, bytes as u64, ledger.stats().limit));
    }
    let mut pointer = call(bytes.max(1));
    if pointer == Err(Failure::OutOfMemory) {
        gpu.driver.trim();
        pointer = call(bytes.max(1));
    }
    let pointer = match pointer {
        Ok(pointer) => pointer,
        Err(Failure::OutOfMemory) => {
            return Err(gpu.refused(&ledger, bytes as u64, gpu.driver.info.bytes as u64));
        }
        Err(failure @ (Failure::Lost(_) | Failure::Other(_))) => {
            drop(ledger);
            return Err(gpu.error("", failure));
        }
    };
    ledger.allocated(pointer, bytes as u64);
    drop(ledger);
    let owner: Arc<dyn Reclaim> = Arc::new(CudaReclaim(Arc::downgrade(gpu)));
    Ok(DeviceBuffer::new(gpu.name, bytes, pointer, owner))
}

/// Takes buffers back for a device that is still there.
struct CudaReclaim(Weak<CudaGpu>);

impl Reclaim for CudaReclaim {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let Some(gpu) = self.0.upgrade() else { return };
        gpu.pinned.forget(handle);
        // Out of the books first: the driver may hand the address out again.
        lock(&gpu.ledger).freed(handle, bytes as u64);
        gpu.driver.free(handle);
    }
}

/// Locks; what is behind is consistent between statements, so that a poisoned
/// lock is usable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The compiler's name for a compute capability; of 9.0 with what only it has.
fn architecture((major, minor): (i32, i32)) -> String {
    let own = if (major, minor) == (9, 0) { "a" } else { "" };
    format!("{major}{minor}{own}")
}

/// Machine code, from the folder of compiled kernels where one is set.
fn machine_code(unit: &str, arch: &str) -> std::result::Result<Vec<u8>, String> {
    let compile = || nvrtc::cubin(unit, arch).map(|cubin| cubin.code);
    let Some(folder) = &config().cache_dir else { return compile() };
    let (major, minor) = nvrtc::version()?;
    cached(folder, &format!("nvrtc {major}.{minor}, sm_{arch}\n{unit}"), compile)
}
