//! The driver, made safe: a device with a stream, memory in the order of that
//! stream, modules, launches. Everything unsafe of this backend but the
//! compiler's calls is here.

pub mod call;
mod clock;
pub mod graph;
#[cfg(feature = "nccl")]
pub mod nccl;
mod peer;
pub mod product;
pub mod words;

use std::ffi::{CString, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::{result, sys};
use sys::CUresult as Code;

use self::product::CublasLt;

/// What to do where there is no driver.
pub const FIX: &str = "install NVIDIA's driver, version 525 or later (it brings libcuda)";

/// Bytes of shared memory that a launch may ask for without the function's leave.
const SHARED_BYTES: u32 = 48 << 10;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The device has no such amount of memory left.
    OutOfMemory,
    /// The device can no longer be used by this process.
    Lost(String),
    /// Something else.
    Other(String),
}

/// Results of the driver's calls.
pub type Outcome<T> = Result<T, Failure>;

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaInfo {
    /// The product's name.
    pub name: String,
    /// Compute capability: major, minor.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub processors: usize,
    /// Bytes of memory.
    pub bytes: usize,
    /// The driver's CUDA version: major, minor.
    pub driver: (i32, i32),
}

/// A device's stream, and what belongs to it.
#[derive(Debug)]
pub struct Driver {
    device: sys::CUdevice,
    context: sys::CUcontext,
    /// Where kernels run, and most copies.
    stream: sys::CUstream,
    /// Where the host's pinned memory is copied from, beside kernels.
    copies: sys::CUstream,
    pool: sys::CUmemoryPool,
    /// What the device is.
    pub info: CudaInfo,
    lost: Mutex<Option<String>>,
    /// cuBLASLt, or why it is not there.
    library: OnceLock<Result<CublasLt, String>>,
    /// Where calls of libraries are recorded for graphs; nothing runs there.
    recording: Mutex<Option<sys::CUstream>>,
}

// SAFETY: contexts, streams and pools are handles that any thread may use;
// every call here makes the context its thread's current one first.
unsafe impl Send for Driver {}
// SAFETY: as above; the driver locks internally.
unsafe impl Sync for Driver {}

/// A compiled function, loaded.
#[derive(Debug)]
pub struct LoadedFunction {
    module: sys::CUmodule,
    function: sys::CUfunction,
}

// SAFETY: handles, used with the context current. A module stays loaded as
// long as the process, so that launches that wait never lose their code.
unsafe impl Send for LoadedFunction {}
// SAFETY: as above.
unsafe impl Sync for LoadedFunction {}

/// A point in the order of a stream.
#[derive(Debug)]
pub struct StreamEvent(sys::CUevent);

// SAFETY: a handle that any thread may use with the context current.
unsafe impl Send for StreamEvent {}

impl Drop for StreamEvent {
    fn drop(&mut self) {
        // SAFETY: destroyed once; what still waits for it is no concern of the
        // handle. Without a current context the call fails and leaks a handle.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

/// Starts the driver once; says what is missing. Never panics.
///
/// # Errors
/// What is missing, in words.
pub fn start() -> Result<usize, String> {
    static STARTED: OnceLock<Result<usize, String>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // SAFETY: loading the driver's library runs its constructors.
            if !unsafe { sys::is_culib_present() } {
                return Err("the driver's library libcuda was not found".into());
            }
            result::init().map_err(|error| describe(error.0))?;
            let count = result::device::get_count().map_err(|error| describe(error.0))?;
            Ok(usize::try_from(count).unwrap_or(0))
        })
        .clone()
}

fn describe(code: Code) -> String {
    let error = result::DriverError(code);
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    format!("{code:?}: {}", text.unwrap_or_else(|_| "unknown to this driver".into()))
}

/// Whether nothing works in the process any more after this failure.
fn is_sticky(code: Code) -> bool {
    matches!(
        code,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE
            | Code::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | Code::CUDA_ERROR_DEVICE_UNAVAILABLE
            | Code::CUDA_ERROR_UNKNOWN
    )
}

impl Driver {
    /// Opens a device.
    ///
    /// # Errors
    /// What is missing or unfit, in words.
    pub fn open(ordinal: i32) -> Result<Driver, String> {
        let words = |error: result::DriverError| describe(error.0);
        let device = result::device::get(ordinal).map_err(words)?;
        let info = info(device)?;
        if info.capability < (8, 0) {
            let (major, minor) = info.capability;
            return Err(format!("{} has compute capability {major}.{minor}, below 8.0", info.name));
        }
        // SAFETY: the device is there; the context is never released, so all
        // handles stay valid. The attribute is a 64-bit number.
        unsafe {
            let context = result::primary_ctx::retain(device).map_err(words)?;
            result::ctx::set_current(context).map_err(words)?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(words)?;
            let copies = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(words)?;
            let pool = result::device::get_default_mem_pool(device).map_err(words)?;
            // Memory stays with the pool at every wait, or it would go back.
            let mut keep = u64::MAX;
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let value = (&raw mut keep).cast::<c_void>();
            result::mem_pool::set_attribute(pool, attribute, value).map_err(words)?;
            let (lost, library, recording) = Default::default();
            Ok(Driver { device, context, stream, copies, pool, info, lost, library, recording })
        }
    }

    fn lost(&self) -> MutexGuard<'_, Option<String>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the device is lost, if it is.
    pub fn loss(&self) -> Option<String> {
        self.lost().clone()
    }

    /// A call's failure, remembered if it is the last.
    fn fail(&self, error: result::DriverError) -> Failure {
        if error.0 == Code::CUDA_ERROR_OUT_OF_MEMORY {
            return Failure::OutOfMemory;
        }
        let words = describe(error.0);
        if is_sticky(error.0) {
            self.lost().get_or_insert_with(|| words.clone());
            return Failure::Lost(words);
        }
        Failure::Other(words)
    }

    /// Makes the context this thread's current one.
    fn enter(&self) -> Outcome<()> {
        if let Some(reason) = self.loss() {
            return Err(Failure::Lost(reason));
        }
        // SAFETY: the context is never released.
        unsafe { result::ctx::set_current(self.context) }.map_err(|error| self.fail(error))
    }

    /// Runs calls with the context current.
    fn call<T>(&self, calls: impl FnOnce() -> Result<T, result::DriverError>) -> Outcome<T> {
        self.enter()?;
        calls().map_err(|error| self.fail(error))
    }

    /// Memory, in the order of the stream.
    ///
    /// # Errors
    /// Refusal, or another failure.
    pub fn allocate(&self, bytes: usize) -> Outcome<u64> {
        // SAFETY: the stream lives; contents are unspecified, as promised.
        self.call(|| unsafe { result::malloc_async(self.stream, bytes) })
    }

    /// Gives memory back, after all that was enqueued before. Memory of a lost
    /// device is gone anyway.
    pub fn free(&self, pointer: u64) {
        // SAFETY: called once for each allocation, by its owner's drop.
        let _ = self.call(|| unsafe { result::free_async(pointer, self.stream) });
    }

    /// Copies from the host. The data may change once this returns.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn write(&self, to: u64, data: &[u8]) -> Outcome<()> {
        // SAFETY: the caller's buffer holds `data.len()` bytes. The driver
        // copies pageable memory before it returns.
        self.call(|| unsafe { result::memcpy_htod_async(to, data, self.stream) })
    }

    /// Memory whose first use is a copy from the host, in the order of those
    /// copies; kernels enqueued later find it there.
    ///
    /// # Errors
    /// As [`Driver::allocate`].
    pub fn allocate_to_fill(&self, bytes: usize) -> Outcome<u64> {
        // SAFETY: the stream lives; contents are unspecified, as promised.
        let pointer = self.call(|| unsafe { result::malloc_async(self.copies, bytes) })?;
        match self.let_kernels_follow() {
            Ok(_) => Ok(pointer),
            Err(failure) => {
                // SAFETY: nobody knows the memory yet.
                let _ = self.call(|| unsafe { result::free_async(pointer, self.copies) });
                Err(failure)
            }
        }
    }

    /// Starts a copy from pinned memory of the host; with `beside`, next to the
    /// kernels enqueued, which memory of [`Driver::allocate_to_fill`] that
    /// nothing has used allows.
    ///
    /// # Errors
    /// The driver's failure.
    ///
    /// # Safety
    /// `from` is pinned memory of `bytes` bytes that stays as it is until the
    /// event is through.
    pub unsafe fn start_write(&self, to: u64, from: u64, bytes: usize, beside: bool) -> Outcome<StreamEvent> {
        let stream = if beside { self.copies } else { self.stream };
        // SAFETY: as the caller promises; the target holds as many bytes.
        self.call(|| unsafe {
            let data = std::slice::from_raw_parts(from as *const u8, bytes);
            result::memcpy_htod_async(to, data, stream)
        })?;
        if beside { self.let_kernels_follow() } else { self.mark(self.stream) }
    }

    /// Makes what is enqueued for kernels from now on wait for all copies
    /// started so far.
    fn let_kernels_follow(&self) -> Outcome<StreamEvent> {
        let event = self.mark(self.copies)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event live.
        self.call(|| unsafe { result::stream::wait_event(self.stream, event.0, flags) })?;
        Ok(event)
    }

    /// An event after all that a stream was given so far.
    fn mark(&self, stream: sys::CUstream) -> Outcome<StreamEvent> {
        // SAFETY: the stream lives, the event is fresh.
        self.call(|| unsafe {
            let event = StreamEvent(result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?);
            result::event::record(event.0, stream)?;
            Ok(event)
        })
    }

    /// Whether all before an event is done; also if the device is lost, when
    /// nothing more will be.
    pub fn is_through(&self, event: &StreamEvent) -> bool {
        self.query(event).unwrap_or(true)
    }

    /// Whether all before an event is done.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn query(&self, event: &StreamEvent) -> Outcome<bool> {
        // SAFETY: the event lives.
        self.call(|| match unsafe { result::event::query(event.0) } {
            Err(error) if error.0 == Code::CUDA_ERROR_NOT_READY => Ok(false),
            done => done.map(|()| true),
        })
    }

    /// Page-locked memory of the host.
    ///
    /// # Errors
    /// Refusal.
    pub fn allocate_pinned(&self, bytes: usize) -> Outcome<u64> {
        // SAFETY: fresh memory, given back by `free_pinned` alone.
        self.call(|| unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }).map(|at| at as u64)
    }

    /// Gives page-locked memory back.
    pub fn free_pinned(&self, pointer: u64) {
        // SAFETY: called once for each such allocation, by the pool that has it.
        let _ = self.call(|| unsafe { result::free_host(pointer as *mut c_void) });
    }

    /// Copies to the host, waiting.
    ///
    /// # Errors
    /// The driver's failure, of this or of earlier work.
    pub fn read(&self, from: u64, out: &mut [u8]) -> Outcome<()> {
        self.read_all(std::iter::once((from, out)))
    }

    /// Copies several stretches to the host, waiting once.
    ///
    /// # Errors
    /// As [`Driver::read`].
    pub fn read_all<'a>(&self, parts: impl Iterator<Item = (u64, &'a mut [u8])>) -> Outcome<()> {
        // SAFETY: the buffers hold as many bytes; the slices outlive the wait,
        // which comes whatever fails.
        self.call(|| unsafe {
            let mut parts = parts;
            let started = parts.try_for_each(|(from, out)| result::memcpy_dtoh_async(out, from, self.stream));
            let waited = result::stream::synchronize(self.stream);
            started.and(waited)
        })
    }

    /// Copies within the device.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn copy(&self, from: u64, to: u64, bytes: usize) -> Outcome<()> {
        // SAFETY: both ranges lie in buffers of the caller's.
        self.call(|| unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream) })
    }

    /// Waits for everything enqueued.
    ///
    /// # Errors
    /// The first failure of what was enqueued.
    pub fn wait(&self) -> Outcome<()> {
        // SAFETY: the stream lives.
        self.call(|| unsafe { result::stream::synchronize(self.stream) })
    }

    /// Loads machine code and finds its function, for launches that ask for so
    /// many bytes of shared memory.
    ///
    /// # Errors
    /// The driver refuses the code, or there is no such function, or less memory.
    pub fn load(&self, code: &[u8], entry: &str, shared_bytes: u32) -> Outcome<LoadedFunction> {
        let name = CString::new(entry).map_err(|error| Failure::Other(error.to_string()))?;
        // SAFETY: the image is whole (a CUBIN states its own size).
        self.call(|| unsafe {
            let module = result::module::load_data(code.as_ptr().cast())?;
            let function = result::module::get_function(module, name)?;
            // What every device has needs no leave.
            if shared_bytes > SHARED_BYTES {
                let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                result::function::set_function_attribute(function, most, shared_bytes as i32)?;
            }
            Ok(LoadedFunction { module, function })
        })
    }

    /// Bytes that the pool holds.
    pub fn reserved(&self) -> u64 {
        let mut bytes = 0u64;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        let value = (&raw mut bytes).cast::<c_void>();
        // SAFETY: the attribute is a 64-bit number.
        let known = self.call(|| unsafe { result::mem_pool::get_attribute(self.pool, attribute, value) });
        known.map_or(0, |()| bytes)
    }

    /// Bytes of the device that nobody holds, and all there are.
    pub fn free_and_total(&self) -> Option<(u64, u64)> {
        self.call(result::mem_get_info).ok().map(|(free, total)| (free as u64, total as u64))
    }

    /// Gives the pool's free memory back to the system.
    pub fn trim(&self) {
        // SAFETY: the pool lives. What fails here fails again where it matters.
        let _ = self.call(|| unsafe {
            result::stream::synchronize(self.stream)?;
            result::mem_pool::trim_to(self.pool, 0)
        });
    }
}

fn info(device: sys::CUdevice) -> Result<CudaInfo, String> {
    use sys::CUdevice_attribute as Attribute;
    let words = |error: result::DriverError| describe(error.0);
    let attribute = |which: Attribute| {
        // SAFETY: the device is there.
        unsafe { result::device::get_attribute(device, which) }.map_err(words)
    };
    let mut driver = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { sys::cuDriverGetVersion(&mut driver) }.result().map_err(words)?;
    if driver < 12_000 {
        return Err(format!(
            "the driver is for CUDA {}.{}, older than 12.0",
            driver / 1000,
            driver % 1000 / 10
        ));
    }
    Ok(CudaInfo {
        name: result::device::get_name(device).map_err(words)?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
        // SAFETY: the device is there.
        bytes: unsafe { result::device::total_mem(device) }.map_err(words)?,
        driver: (driver / 1000, driver % 1000 / 10),
    })
}

impl Drop for LoadedFunction {
    fn drop(&mut self) {
        // Launches may still wait for the code, and a backend keeps what it
        // loaded for the process's life; there is nothing to do.
        let _ = self.module;
    }
}
