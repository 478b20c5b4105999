//! An MPI library, loaded at run time, of any of three binary interfaces: Open MPI's, MPICH's (Intel's and
//! others share it) and the standard one of MPI 5. The one module with calls into it: what leaves it is
//! safe.
//!
//! Implementations differ in the width of handles and in predefined constants. All handles pass in
//! registers or in words, so one signature serves: a handle that is an `int` is the low half of a word.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use libloading::os::unix::{Library as Object, RTLD_GLOBAL, RTLD_NOW};

/// What libraries are called, those of Open MPI first.
const NAMES: [&str; 5] = ["libmpi.so.40", "libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so"];

/// The most bytes of one message, whose count is an `int`.
const MOST: usize = 1 << 30;

/// The length of texts that MPI writes, at least that of every implementation.
const TEXT: usize = 8192;

/// The constants of an interface.
#[derive(Clone, Copy, Debug)]
struct Constants {
    world: usize,
    byte: usize,
    errors_return: usize,
    no_status: usize,
    /// `MPI_THREAD_SERIALIZED`.
    serialized: c_int,
}

const STANDARD: Constants =
    Constants { world: 0x101, byte: 0x241, errors_return: 0x142, no_status: 0, serialized: 2048 };
const MPICH: Constants = Constants {
    world: 0x4400_0000,
    byte: 0x4c00_013b,
    errors_return: 0x5400_0001,
    no_status: 1,
    serialized: 2,
};

type Send = unsafe extern "C" fn(*const c_void, c_int, usize, c_int, c_int, usize, *mut u64) -> c_int;
type Receive = unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, c_int, usize, *mut u64) -> c_int;
type Test = unsafe extern "C" fn(*mut u64, *mut c_int, usize) -> c_int;
type Number = unsafe extern "C" fn(usize, *mut c_int) -> c_int;
type Text = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int;
type Initialize = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;

/// A library that is initialized, and finalized by [`Mpi::finalize`]. It never leaves memory.
#[derive(Debug)]
pub(super) struct Mpi {
    constants: Constants,
    /// One call at a time, which every thread level but the lowest allows.
    calls: Mutex<Calls>,
    /// The library's own line about itself.
    pub version: String,
    /// This process among those that were started together.
    pub rank: usize,
    /// How many these are.
    pub size: usize,
}

#[derive(Debug)]
struct Calls {
    send: Send,
    receive: Receive,
    test: Test,
    error_text: ErrorText,
    finalize: unsafe extern "C" fn() -> c_int,
    _object: Object,
}

/// A symbol of a type.
///
/// # Safety
/// `F` is the symbol's.
unsafe fn symbol<F: Copy>(object: &Object, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller's.
    unsafe { object.get::<F>(name.to_bytes_with_nul()) }.map(|symbol| *symbol).map_err(|e| e.to_string())
}

/// The address of a symbol.
fn address(object: &Object, name: &CStr) -> Result<usize, String> {
    // SAFETY: an address is read of no symbol.
    let symbol = unsafe { object.get::<*mut c_void>(name.to_bytes_with_nul()) }.map_err(|e| e.to_string())?;
    Ok(symbol.as_raw_ptr() as usize)
}

impl Mpi {
    /// Loads and initializes the library of a name, or else the first that is there.
    ///
    /// # Errors
    /// What the system or the library says, for each that was tried.
    pub fn load(name: Option<&str>, prefer_mpich: bool) -> Result<Mpi, String> {
        let mut names: Vec<&str> = name.map_or_else(|| NAMES.to_vec(), |name| vec![name]);
        if name.is_none() && prefer_mpich {
            // Another family's library would make each process a world of its own.
            names.rotate_left(1);
        }
        let mut refused = Vec::new();
        for name in names {
            // SAFETY: MPI libraries do nothing when they are loaded. Open MPI's components look up its
            // symbols.
            match unsafe { Object::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(object) => return Mpi::of(object),
                Err(error) => refused.push(error.to_string()),
            }
        }
        Err(refused.join("; "))
    }

    fn of(object: Object) -> Result<Mpi, String> {
        let version = version(&object)?;
        let constants = constants(&object, &version)?;
        let (mut provided, mut rank, mut size) = (0, -1, -1);
        // SAFETY: signatures and constants are the interface's; it is initialized first, and once, since
        // `dist::init` loads one library in a process.
        let calls = unsafe {
            let initialize: Initialize = symbol(&object, c"MPI_Init_thread")?;
            let set: unsafe extern "C" fn(usize, usize) -> c_int =
                symbol(&object, c"MPI_Comm_set_errhandler")?;
            let of_rank: Number = symbol(&object, c"MPI_Comm_rank")?;
            let of_size: Number = symbol(&object, c"MPI_Comm_size")?;
            let calls = Calls {
                send: symbol(&object, c"MPI_Isend")?,
                receive: symbol(&object, c"MPI_Irecv")?,
                test: symbol(&object, c"MPI_Test")?,
                error_text: symbol(&object, c"MPI_Error_string")?,
                finalize: symbol(&object, c"MPI_Finalize")?,
                _object: object,
            };
            let (null, arguments) = (std::ptr::null_mut(), std::ptr::null_mut());
            let code = initialize(null, arguments, constants.serialized, &mut provided);
            if code != 0 {
                return Err(format!("MPI_Init_thread gave {code}"));
            }
            set(constants.world, constants.errors_return);
            of_rank(constants.world, &mut rank);
            of_size(constants.world, &mut size);
            calls
        };
        if provided < constants.serialized {
            return Err(format!("{version} lets only one thread of a process call it"));
        }
        let (rank, size) = (rank.max(0) as usize, size.max(1) as usize);
        Ok(Mpi { constants, calls: Mutex::new(calls), version, rank, size })
    }

    /// Begins to send bytes to a process.
    ///
    /// # Errors
    /// What the library says.
    pub fn send(self: &Arc<Mpi>, bytes: Arc<[u8]>, to: usize, tag: i32) -> Result<Pending, String> {
        let mut requests = Vec::new();
        for part in bytes.chunks(MOST) {
            let (mut request, count) = (0, part.len() as c_int);
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the bytes live until the request is done, or for ever: `Pending`.
            let code = unsafe {
                let (byte, world) = (self.constants.byte, self.constants.world);
                (calls.send)(part.as_ptr().cast(), count, byte, to as c_int, tag, world, &mut request)
            };
            requests.push(request);
            if code != 0 {
                let text = calls.text(code);
                std::mem::forget(bytes);
                return Err(text);
            }
        }
        Ok(Pending { mpi: self.clone(), requests, bytes: Some(Bytes::Sent(bytes)) })
    }

    /// Begins to receive so many bytes of a process.
    ///
    /// # Errors
    /// What the library says.
    pub fn receive(self: &Arc<Mpi>, count: usize, from: usize, tag: i32) -> Result<Pending, String> {
        let mut bytes = vec![0; count];
        let mut requests = Vec::new();
        for part in bytes.chunks_mut(MOST) {
            let (mut request, count) = (0, part.len() as c_int);
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: as in `send`; nobody looks at the bytes before.
            let code = unsafe {
                let (byte, world) = (self.constants.byte, self.constants.world);
                (calls.receive)(
                    part.as_mut_ptr().cast(),
                    count,
                    byte,
                    from as c_int,
                    tag,
                    world,
                    &mut request,
                )
            };
            requests.push(request);
            if code != 0 {
                let text = calls.text(code);
                std::mem::forget(bytes);
                return Err(text);
            }
        }
        Ok(Pending { mpi: self.clone(), requests, bytes: Some(Bytes::Received(bytes)) })
    }

    /// Ends the library's work in this process. Nothing else may be called after it.
    pub fn finalize(&self) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the owner of the library calls it once, when no group is left.
        unsafe { (calls.finalize)() };
    }
}

impl Calls {
    /// What an error code means.
    fn text(&self, code: c_int) -> String {
        let mut text = vec![0 as c_char; TEXT];
        let mut length = 0;
        // SAFETY: the text is as long as any implementation's longest.
        unsafe { (self.error_text)(code, text.as_mut_ptr(), &mut length) };
        read(&text)
    }
}

/// A text that MPI has written, with a 0 behind it.
fn read(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The library's first line about itself.
fn version(object: &Object) -> Result<String, String> {
    let mut text = vec![0 as c_char; TEXT];
    let mut length = 0;
    // SAFETY: the call is allowed before initialization, and the text is as long as any implementation's
    // longest.
    unsafe {
        let get: Text = symbol(object, c"MPI_Get_library_version")?;
        get(text.as_mut_ptr(), &mut length);
    }
    Ok(read(&text).lines().next().unwrap_or_default().trim().to_string())
}

/// The constants of a library: by its number of the standard interface, by a symbol of Open MPI's, by its
/// name.
fn constants(object: &Object, version: &str) -> Result<Constants, String> {
    let (mut major, mut minor) = (0, 0);
    type AbiVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: the call is allowed before initialization.
    if let Ok(get) = unsafe { symbol::<AbiVersion>(object, c"MPI_Abi_get_version") } {
        // SAFETY: as above.
        unsafe { get(&mut major, &mut minor) };
    }
    if major >= 1 {
        return Ok(STANDARD);
    }
    if let Ok(world) = address(object, c"ompi_mpi_comm_world") {
        let (byte, errors_return) =
            (address(object, c"ompi_mpi_uint8_t")?, address(object, c"ompi_mpi_errors_return")?);
        return Ok(Constants { world, byte, errors_return, no_status: 0, serialized: 2 });
    }
    let known = ["MPICH", "Intel", "MVAPICH", "CRAY"].iter().any(|name| version.contains(name));
    if known { Ok(MPICH) } else { Err(format!("{version} has an interface that is not known")) }
}

/// A message on its way. One that is dropped before it is done leaves its bytes to the library for ever.
#[derive(Debug)]
pub(super) struct Pending {
    mpi: Arc<Mpi>,
    requests: Vec<u64>,
    bytes: Option<Bytes>,
}

#[derive(Debug)]
enum Bytes {
    Sent(Arc<[u8]>),
    Received(Vec<u8>),
}

impl Pending {
    /// Whether the message has arrived, or its bytes are the library's no more.
    ///
    /// # Errors
    /// What the library says.
    pub fn is_done(&mut self) -> Result<bool, String> {
        while let Some(request) = self.requests.last_mut() {
            let mut done = 0;
            let calls = self.mpi.calls.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the request is one that has not been done.
            let code = unsafe { (calls.test)(request, &mut done, self.mpi.constants.no_status) };
            if code != 0 {
                return Err(calls.text(code));
            }
            if done == 0 {
                return Ok(false);
            }
            self.requests.pop();
        }
        Ok(true)
    }

    /// The bytes that have arrived; none of a message that was sent.
    pub fn into_received(mut self) -> Vec<u8> {
        match self.bytes.take() {
            Some(Bytes::Received(bytes)) if self.requests.is_empty() => bytes,
            Some(other) => {
                self.bytes = Some(other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            match self.bytes.take() {
                Some(Bytes::Sent(bytes)) => std::mem::forget(bytes),
                Some(Bytes::Received(bytes)) => std::mem::forget(bytes),
                None => {}
            }
        }
    }
}
