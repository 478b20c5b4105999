//! NCCL, NVIDIA's library for data between devices, loaded at run time: the few calls of it that collectives
//! take, made safe.
//!
//! Signatures and numbers are those of `nccl.h`, which has kept them since version 2.10.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cudarc::driver::{result, sys};
use libloading::Library;

use super::{Driver, Failure, Outcome, StreamEvent};
use crate::base::DType;
use crate::ir::collective::Reduce;

/// What the library is called. `KILN_NCCL` names another.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// The first version that has averages.
const OLDEST: c_int = 21_000;

/// How often a stream is looked at before the thread sleeps in between, and for how long it does.
const POLLS: usize = 1000;
const NAP: Duration = Duration::from_micros(20);

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([c_char; UniqueId::BYTES]);

impl UniqueId {
    const BYTES: usize = 128;
}

type Code = c_int;
type Comm = *mut c_void;
type InitRank = unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int) -> Code;
type OfComm = unsafe extern "C" fn(Comm) -> Code;
type AsyncError = unsafe extern "C" fn(Comm, *mut Code) -> Code;
/// Of all-reduce and reduce-scatter: from, to, count, type, reduction, communicator, stream.
type Reduction =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, sys::CUstream) -> Code;
type Gather = unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Comm, sys::CUstream) -> Code;

/// The library's calls. It never leaves memory.
#[derive(Debug)]
struct Nccl {
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> Code,
    init_rank: InitRank,
    abort: OfComm,
    destroy: OfComm,
    async_error: AsyncError,
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    all_reduce: Reduction,
    reduce_scatter: Reduction,
    broadcast: Reduction,
    all_gather: Gather,
    _object: Library,
}

/// What a rank does in a collective, by addresses of its device.
#[derive(Clone, Copy, Debug)]
pub struct NcclCall {
    /// Which.
    pub kind: NcclKind,
    /// Of elements.
    pub dtype: DType,
    /// Elements: of the operand, of a reduce-scatter those of the result.
    pub count: usize,
    /// Where the operand is.
    pub from: u64,
    /// Where the result goes.
    pub to: u64,
}

/// The collectives that go by the library.
#[derive(Clone, Copy, Debug)]
pub enum NcclKind {
    /// To all.
    AllReduce(NcclReduce),
    /// A part to each.
    ReduceScatter(NcclReduce),
    /// Of all, to all.
    AllGather,
    /// Of one rank, to all.
    Broadcast(usize),
}

/// How elements are combined, by the library's numbers.
#[derive(Clone, Copy, Debug)]
pub enum NcclReduce {
    /// The sum.
    Sum = 0,
    /// The product.
    Product = 1,
    /// The mean.
    Mean = 4,
}

impl NcclReduce {
    /// The library's way to combine elements, where it does what kiln means: of the least and the largest it
    /// may lose NaN.
    pub fn of(reduce: Reduce) -> Option<NcclReduce> {
        match reduce {
            Reduce::Sum => Some(NcclReduce::Sum),
            Reduce::Product => Some(NcclReduce::Product),
            Reduce::Mean => Some(NcclReduce::Mean),
            Reduce::Min | Reduce::Max => None,
        }
    }
}

/// The library's number of a type.
fn number(dtype: DType) -> c_int {
    match dtype {
        DType::Bool | DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
    }
}

/// Why the library cannot be used, if it cannot.
///
/// # Errors
/// What is missing, in words.
pub fn check() -> Result<(), String> {
    library().map(drop)
}

/// The library, loaded once.
fn library() -> Result<&'static Nccl, String> {
    static LOADED: OnceLock<Result<Nccl, String>> = OnceLock::new();
    LOADED.get_or_init(Nccl::load).as_ref().map_err(Clone::clone)
}

impl Nccl {
    fn load() -> Result<Nccl, String> {
        let named = std::env::var("KILN_NCCL").ok().filter(|name| !name.is_empty());
        let names = named.as_deref().map_or_else(|| NAMES.to_vec(), |name| vec![name]);
        let mut refused = Vec::new();
        for name in names {
            // SAFETY: NCCL does nothing when it is loaded.
            match unsafe { Library::new(name) } {
                Ok(object) => return Nccl::of(object).map_err(|error| format!("{name}: {error}")),
                Err(error) => refused.push(error.to_string()),
            }
        }
        Err(format!("{}; install NCCL 2.10 or later", refused.join("; ")))
    }

    fn of(object: Library) -> Result<Nccl, String> {
        /// A symbol of a type.
        ///
        /// # Safety
        /// `F` is the symbol's.
        unsafe fn symbol<F: Copy>(object: &Library, name: &CStr) -> Result<F, String> {
            // SAFETY: the caller's.
            unsafe { object.get::<F>(name.to_bytes_with_nul()) }.map(|it| *it).map_err(|e| e.to_string())
        }
        let mut version = 0;
        // SAFETY: signatures are those of `nccl.h`; the version is written to a live integer.
        unsafe {
            let of_library: unsafe extern "C" fn(*mut c_int) -> Code = symbol(&object, c"ncclGetVersion")?;
            of_library(&mut version);
            if version < OLDEST {
                return Err(format!("version {version} is older than 2.10"));
            }
            Ok(Nccl {
                unique_id: symbol(&object, c"ncclGetUniqueId")?,
                init_rank: symbol(&object, c"ncclCommInitRank")?,
                abort: symbol(&object, c"ncclCommAbort")?,
                destroy: symbol(&object, c"ncclCommDestroy")?,
                async_error: symbol(&object, c"ncclCommGetAsyncError")?,
                error_string: symbol(&object, c"ncclGetErrorString")?,
                all_reduce: symbol(&object, c"ncclAllReduce")?,
                reduce_scatter: symbol(&object, c"ncclReduceScatter")?,
                broadcast: symbol(&object, c"ncclBroadcast")?,
                all_gather: symbol(&object, c"ncclAllGather")?,
                _object: object,
            })
        }
    }

    fn said(&self, code: Code) -> Outcome<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library's texts are constants.
        let text = unsafe { (self.error_string)(code).as_ref().map(|text| CStr::from_ptr(text)) };
        let text = text.map_or("unknown".into(), |text| text.to_string_lossy());
        Err(Failure::Other(format!("NCCL: {text}")))
    }
}

/// A device among those of other ranks, and the stream on which they meet.
#[derive(Debug)]
pub struct NcclCommunicator {
    nccl: &'static Nccl,
    stream: sys::CUstream,
    /// None once it has been aborted.
    comm: Mutex<Option<RawComm>>,
}

#[derive(Clone, Copy, Debug)]
struct RawComm(Comm);

// SAFETY: a handle that any thread may use. Collectives of one are called by one thread at a time, the
// group's; an abort is allowed meanwhile.
unsafe impl Send for RawComm {}
// SAFETY: a stream is a handle that any thread may use with the context current; the rest is as above.
unsafe impl Send for NcclCommunicator {}
// SAFETY: as above.
unsafe impl Sync for NcclCommunicator {}

/// Bytes by which ranks find each other.
///
/// # Errors
/// No library, or what it says.
pub fn invitation() -> Outcome<Vec<u8>> {
    let nccl = library().map_err(Failure::Other)?;
    let mut id = UniqueId([0; UniqueId::BYTES]);
    // SAFETY: the id is written to live memory.
    nccl.said(unsafe { (nccl.unique_id)(&mut id) })?;
    Ok(id.0.iter().map(|&byte| byte as u8).collect())
}

impl NcclCommunicator {
    /// Meets the other ranks that have the invitation.
    ///
    /// # Errors
    /// What the library or the driver says.
    pub fn join(driver: &Driver, invitation: &[u8], rank: usize, size: usize) -> Outcome<NcclCommunicator> {
        let nccl = library().map_err(Failure::Other)?;
        let mut id = UniqueId([0; UniqueId::BYTES]);
        id.0.iter_mut().zip(invitation).for_each(|(to, &byte)| *to = byte as c_char);
        let stream = driver.call(|| result::stream::create(result::stream::StreamKind::NonBlocking))?;
        let mut comm: Comm = std::ptr::null_mut();
        // SAFETY: the handle is written to live memory; the context is current.
        nccl.said(unsafe { (nccl.init_rank)(&mut comm, size as c_int, id, rank as c_int) })?;
        Ok(NcclCommunicator { nccl, stream, comm: Mutex::new(Some(RawComm(comm))) })
    }

    fn comm(&self) -> Outcome<RawComm> {
        let comm = *self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        comm.ok_or_else(|| Failure::Other("NCCL: given up".into()))
    }

    /// Runs a call of the driver's device after an event, and waits until it is done.
    ///
    /// # Errors
    /// What the library or the driver says; an abort.
    pub fn run(&self, driver: &Driver, call: &NcclCall, after: &StreamEvent) -> Outcome<()> {
        let comm = self.comm()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event live.
        driver.call(|| unsafe { result::stream::wait_event(self.stream, after.0, flags) })?;
        self.nccl.said(self.enqueue(comm.0, call))?;
        let done = driver.mark(self.stream)?;
        let mut polls = 0;
        while !driver.query(&done)? {
            self.check()?;
            polls += 1;
            if polls < POLLS { std::thread::yield_now() } else { std::thread::sleep(NAP) }
        }
        self.check()
    }

    fn enqueue(&self, comm: Comm, call: &NcclCall) -> Code {
        let NcclCall { kind, dtype, count, from, to } = *call;
        let (from, to, dtype, stream) =
            (from as *const c_void, to as *mut c_void, number(dtype), self.stream);
        // SAFETY: the addresses are of buffers of this device that hold as many elements and are kept until
        // the call is done. A communicator that is aborted meanwhile makes the call return.
        unsafe {
            match kind {
                NcclKind::AllReduce(how) => {
                    (self.nccl.all_reduce)(from, to, count, dtype, how as c_int, comm, stream)
                }
                NcclKind::ReduceScatter(how) => {
                    (self.nccl.reduce_scatter)(from, to, count, dtype, how as c_int, comm, stream)
                }
                NcclKind::Broadcast(root) => {
                    (self.nccl.broadcast)(from, to, count, dtype, root as c_int, comm, stream)
                }
                NcclKind::AllGather => (self.nccl.all_gather)(from, to, count, dtype, comm, stream),
            }
        }
    }

    /// What the library has found out since it was called.
    fn check(&self) -> Outcome<()> {
        let comm = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(RawComm(comm)) = *comm else { return Err(Failure::Other("NCCL: given up".into())) };
        let mut code = 0;
        // SAFETY: the communicator lives while it is locked.
        self.nccl.said(unsafe { (self.nccl.async_error)(comm, &mut code) })?;
        self.nccl.said(code)
    }

    /// Ends what runs: it fails on the thread that waits for it.
    pub fn abort(&self) {
        let mut comm = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(RawComm(comm)) = comm.take() {
            // SAFETY: aborted once; nobody finds it from now on.
            unsafe { (self.nccl.abort)(comm) };
        }
    }
}

impl Drop for NcclCommunicator {
    fn drop(&mut self) {
        let Some(comm) = self.comm.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let destroy = self.nccl.destroy;
        let end = move || {
            let comm = comm;
            // SAFETY: destroyed once, by its last owner, when nothing of it runs.
            unsafe { destroy(comm.0) };
        };
        // It may wait for the other ranks of this machine, whose programs need not be as far.
        let _ = std::thread::Builder::new().name("kiln-nccl-end".into()).spawn(end);
    }
}
