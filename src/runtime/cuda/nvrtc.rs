//! NVIDIA's run-time compiler, loaded when it is first needed.
//!
//! It compiles for a machine that need not be there, so that kernels can be
//! checked without a GPU.

use std::ffi::{CStr, CString, c_char};

use cudarc::nvrtc::{result, sys};

/// What to do where it is missing.
pub const FIX: &str = "install CUDA's NVRTC, version 12 or later (part of the CUDA toolkit; for Python: pip install \
                        nvidia-cuda-nvrtc) and put the folder of libnvrtc on the library path (LD_LIBRARY_PATH)";

/// Products and sums stay apart, so that results do not depend on what the
/// compiler contracts. Most functions of the prelude go unused (177).
const OPTIONS: [&str; 4] = ["--std=c++17", "--fmad=false", "-default-device", "--diag-suppress=177"];

/// Makes the assembler (ptxas) say how many bytes of registers it keeps in memory.
pub const TELL_SPILLS: &str = "--ptxas-options=--warn-on-spills";

/// Lets a thread have all the registers that it can name, where the text does not say how
/// many blocks a multiprocessor is to hold. Compilers of version 12.0 do not know it.
const ALL_REGISTERS: &str = "--ptxas-options=--minnctapersm=1";

/// The compiler's version, or why it is not there. Never panics.
///
/// # Errors
/// What is missing.
pub fn version() -> Result<(i32, i32), String> {
    // SAFETY: loading a library runs its constructors; NVRTC's are harmless.
    if !unsafe { sys::is_culib_present() } {
        return Err("the library libnvrtc was not found".into());
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is there, and both pointers are to live integers.
    match unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result() {
        Ok(()) if major >= 12 => Ok((major, minor)),
        Ok(()) => Err(format!("libnvrtc is of version {major}.{minor}, older than 12")),
        Err(error) => Err(format!("libnvrtc: {:?}", error.0)),
    }
}

/// Machine code.
pub struct Cubin {
    /// What the driver loads.
    pub code: Vec<u8>,
    /// What the compiler said beside it.
    pub log: String,
}

impl Cubin {
    /// The bytes of registers that a thread stores for want of room.
    pub fn spilled_bytes(&self) -> usize {
        let of_line = |line: &str| {
            let (before, _) = line.split_once(" bytes spill stores")?;
            before.split(' ').next_back()?.parse::<usize>().ok()
        };
        self.log.lines().filter_map(of_line).sum()
    }

    /// The same where no register is spilled.
    ///
    /// # Errors
    /// What the compiler said of those that are.
    pub fn unspilled(self) -> Result<Self, String> {
        if self.spilled_bytes() == 0 { Ok(self) } else { Err(self.log) }
    }
}

/// Machine code for compute capability `arch`, as `"90"` or `"90a"`.
///
/// How many registers a thread may have the assembler guesses from the block's size. Its guess
/// may be too low by a hair, most often where the numbers have 64 bits; where all are allowed
/// it spills twice as often, in other kernels. So what spills is compiled again with all of them, and
/// the code that spills less is taken.
///
/// # Errors
/// What the compiler said; that it is missing.
pub fn cubin(source: &str, arch: &str) -> Result<Cubin, String> {
    let guessed = cubin_with(source, arch, &[TELL_SPILLS])?;
    if guessed.spilled_bytes() == 0 {
        return Ok(guessed);
    }
    match cubin_with(source, arch, &[TELL_SPILLS, ALL_REGISTERS]) {
        Ok(allowed) if allowed.spilled_bytes() < guessed.spilled_bytes() => Ok(allowed),
        _ => Ok(guessed),
    }
}

/// Machine code with more options.
///
/// # Errors
/// As [`cubin`].
pub fn cubin_with(source: &str, arch: &str, options: &[&str]) -> Result<Cubin, String> {
    let (code, log) = compile(source, &format!("sm_{arch}"), options, &|program| {
        let mut size = 0;
        // SAFETY: the program was compiled and is alive; the buffer has the
        // size that the first call gave.
        unsafe {
            sys::nvrtcGetCUBINSize(program, &mut size).result()?;
            let mut code = vec![0u8; size];
            sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast::<c_char>()).result()?;
            Ok(code)
        }
    })?;
    Ok(Cubin { code, log })
}

/// The text of the virtual machine's instructions (PTX), to look at.
///
/// # Errors
/// As [`cubin`].
pub fn ptx(source: &str, arch: &str) -> Result<String, String> {
    let (code, _) = compile(source, &format!("compute_{arch}"), &[], &|program| {
        // SAFETY: the program was compiled and is alive.
        unsafe { result::get_ptx(program) }
    })?;
    Ok(text(&code))
}

fn text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A program of the compiler's, destroyed when it goes.
struct Compilation(sys::nvrtcProgram);

impl Drop for Compilation {
    fn drop(&mut self) {
        // SAFETY: made by `create_program` and destroyed once. A failure to
        // free has no remedy.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

/// What `take` takes of a compiled program, and the compiler's log.
fn compile<T>(
    source: &str,
    machine: &str,
    extra: &[&str],
    take: &dyn Fn(sys::nvrtcProgram) -> Result<T, result::NvrtcError>,
) -> Result<(T, String), String> {
    version()?;
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let name: &CStr = c"kernel.cu";
    let failed = |error: result::NvrtcError| format!("{:?}", error.0);
    let program = Compilation(result::create_program(&source, Some(name)).map_err(failed)?);
    let mut options: Vec<String> = OPTIONS.iter().chain(extra).map(ToString::to_string).collect();
    options.push(format!("--gpu-architecture={machine}"));
    // SAFETY: the program is alive; options hold no zero bytes.
    let done = unsafe { result::compile_program(program.0, &options) };
    // SAFETY: the program is alive.
    let log = unsafe { result::get_program_log(program.0) };
    let log = log.map(|log| text(&log)).unwrap_or_default();
    match done {
        Ok(()) => Ok((take(program.0).map_err(failed)?, log)),
        Err(error) => Err(format!("{:?}\n{log}", error.0)),
    }
}
