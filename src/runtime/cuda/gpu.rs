//! An opened device: its memory's count, compiled functions, errors.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use crate::base::config::config;
use crate::base::{Device, Error, Result};
use crate::ir::{Buffer, Reclaim};
use crate::render::{Target, cuda};
use crate::runtime::MemoryStats;
use crate::runtime::cuda::driver::{self, Driver, Failure, Function, Outcome};
use crate::runtime::cuda::nvrtc;
use crate::runtime::cuda::pinned::Pinned;
use crate::runtime::disk_cache::cached;

/// An opened device. The process opens each once.
#[derive(Debug)]
pub struct Gpu {
    /// kiln's name for it.
    pub name: Device,
    /// The driver's side.
    pub driver: Driver,
    /// Loaded functions, by their text. They stay as long as the process.
    functions: Mutex<HashMap<String, Arc<Function>>>,
    stats: Mutex<MemoryStats>,
    /// Pinned memory of the host.
    pub pinned: Pinned,
}

impl Gpu {
    /// The device of that name, opened now or before.
    ///
    /// # Errors
    /// What is missing, and what mends it; that it was lost.
    pub fn open(name: Device) -> Result<Arc<Gpu>> {
        static OPEN: LazyLock<Mutex<HashMap<Device, Arc<Gpu>>>> = LazyLock::new(Mutex::default);
        let unavailable = |reason: String| Error::DeviceUnavailable { device: name, reason };
        let mut open = lock(&OPEN);
        if let Some(gpu) = open.get(&name) {
            // A process cannot get a lost device back.
            return gpu.driver.loss().map_or_else(|| Ok(gpu.clone()), |reason| Err(unavailable(reason)));
        }
        let count = driver::start().map_err(|reason| unavailable(format!("{reason}; {}", driver::MEND)))?;
        if usize::from(name.index) >= count {
            return Err(unavailable(match count {
                0 => format!("the driver sees no device; {}", driver::MEND),
                1 => "there is one device, cuda:0".into(),
                count => format!("there are {count} devices, from cuda:0 on"),
            }));
        }
        nvrtc::version().map_err(|reason| unavailable(format!("{reason}; {}", nvrtc::MEND)))?;
        let driver = Driver::open(i32::from(name.index)).map_err(unavailable)?;
        let stats = MemoryStats { limit: u64::MAX, ..MemoryStats::default() };
        let gpu = Gpu {
            name,
            driver,
            functions: Mutex::default(),
            stats: Mutex::new(stats),
            pinned: Pinned::default(),
        };
        Ok(open.entry(name).or_insert(Arc::new(gpu)).clone())
    }

    /// A failure in a kernel, or in none, as kiln's error.
    pub fn error(&self, kernel: &str, failure: Failure) -> Error {
        let stats = *lock(&self.stats);
        match failure {
            Failure::OutOfMemory => Error::OutOfMemory {
                device: self.name,
                requested: 0,
                in_use: stats.allocated,
                limit: self.driver.info.bytes as u64,
                largest: [].into(),
            },
            Failure::Lost(reason) => Error::DeviceUnavailable {
                device: self.name,
                reason: match kernel {
                    "" => format!("the device is lost: {reason}"),
                    kernel => format!("the device is lost in kernel {kernel}: {reason}"),
                },
            },
            Failure::Other(message) => self.refusal(kernel, message),
        }
    }

    /// A kernel that did not compile or launch.
    pub fn refusal(&self, kernel: &str, message: String) -> Error {
        let kernel = if kernel.is_empty() { "(none)" } else { kernel };
        Error::Kernel { kernel: kernel.into(), device: self.name, message }
    }

    /// What renderers know of the device.
    pub fn target(&self) -> Target {
        let (major, minor) = self.driver.info.capability;
        Target::nvidia((major.unsigned_abs(), minor.unsigned_abs()), self.driver.info.processors)
    }

    /// A function of that text, compiled now or before, for launches with so many
    /// bytes of shared memory.
    ///
    /// # Errors
    /// What the compiler or the driver said.
    pub fn function(&self, kernel: &str, source: &str, shared_bytes: u32) -> Result<Arc<Function>> {
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
        MemoryStats { reserved: self.driver.reserved(), ..*lock(&self.stats) }
    }

    /// Sets the most bytes that may be allocated at once.
    pub fn set_memory_limit(&self, bytes: u64) {
        lock(&self.stats).limit = bytes;
    }

    /// Counts an allocation before it is made.
    fn admit(&self, bytes: u64) -> Result<()> {
        let mut stats = lock(&self.stats);
        if stats.allocated.saturating_add(bytes) > stats.limit {
            return Err(Error::OutOfMemory {
                device: self.name,
                requested: bytes,
                in_use: stats.allocated,
                limit: stats.limit,
                largest: [].into(),
            });
        }
        stats.allocated += bytes;
        stats.peak = stats.peak.max(stats.allocated);
        stats.allocations += 1;
        Ok(())
    }
}

/// Uninitialised memory. Where the driver refuses, free memory goes back to it
/// and it is asked once more.
///
/// # Errors
/// [`Error::OutOfMemory`] over the limit or when the driver refuses.
pub fn allocate(gpu: &Arc<Gpu>, bytes: usize) -> Result<Buffer> {
    allocate_with(gpu, bytes, |bytes| gpu.driver.allocate(bytes))
}

/// [`allocate`] by another call of the driver's.
///
/// # Errors
/// As [`allocate`].
pub fn allocate_with(gpu: &Arc<Gpu>, bytes: usize, call: impl Fn(usize) -> Outcome<u64>) -> Result<Buffer> {
    gpu.admit(bytes as u64)?;
    let mut pointer = call(bytes.max(1));
    if pointer == Err(Failure::OutOfMemory) {
        gpu.driver.trim();
        pointer = call(bytes.max(1));
    }
    let pointer = pointer.map_err(|failure| {
        lock(&gpu.stats).allocated -= bytes as u64;
        match gpu.error("", failure) {
            Error::OutOfMemory { device, in_use, limit, largest, .. } => {
                Error::OutOfMemory { device, requested: bytes as u64, in_use, limit, largest }
            }
            other => other,
        }
    })?;
    let owner: Arc<dyn Reclaim> = Arc::new(Owner(Arc::downgrade(gpu)));
    Ok(Buffer::new(gpu.name, bytes, pointer, owner))
}

/// Takes buffers back for a device that is still there.
struct Owner(Weak<Gpu>);

impl Reclaim for Owner {
    fn reclaim(&self, handle: u64, bytes: usize) {
        let Some(gpu) = self.0.upgrade() else { return };
        gpu.pinned.forget(handle);
        gpu.driver.free(handle);
        lock(&gpu.stats).allocated -= bytes as u64;
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
    let compile = || nvrtc::cubin(unit, arch, &[]);
    let Some(folder) = &config().cache_dir else { return compile() };
    let (major, minor) = nvrtc::version()?;
    cached(folder, &format!("nvrtc {major}.{minor}, sm_{arch}\n{unit}"), compile)
}
