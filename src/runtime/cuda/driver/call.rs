//! What is enqueued: launches of kernels, and products by a library.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result;

use super::product::ProductCall;
use super::{Driver, Function, Outcome};

/// Something to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A kernel's launch.
    Kernel(KernelCall),
    /// A product by cuBLASLt.
    Product(ProductCall),
}

impl Call {
    /// The kernel's name, for errors.
    pub fn name(&self) -> &str {
        match self {
            Call::Kernel(call) => &call.name,
            Call::Product(call) => &call.name,
        }
    }
}

/// A launch as the driver takes it: each parameter as 8 bytes, of which the
/// function takes as many as it declares.
#[derive(Clone, Debug)]
pub struct KernelCall {
    /// The kernel's name, for errors.
    pub name: Arc<str>,
    /// What runs.
    pub function: Arc<Function>,
    /// Blocks.
    pub groups: u32,
    /// Threads of a block.
    pub workgroup: u32,
    /// Bytes of shared memory for each block, besides what the function declares.
    pub shared_bytes: u32,
    /// The function's parameters.
    pub parameters: Vec<u64>,
}

impl PartialEq for KernelCall {
    fn eq(&self, other: &KernelCall) -> bool {
        Arc::ptr_eq(&self.function, &other.function)
            && (self.groups, self.workgroup, self.shared_bytes)
                == (other.groups, other.workgroup, other.shared_bytes)
            && self.parameters == other.parameters
    }
}

impl Driver {
    /// Enqueues a call.
    ///
    /// # Errors
    /// The driver's failure, or the library's.
    pub fn launch(&self, call: &Call) -> Outcome<()> {
        match call {
            Call::Kernel(call) => self.launch_kernel(call),
            Call::Product(call) => self.multiply(call, self.stream),
        }
    }

    fn launch_kernel(&self, call: &KernelCall) -> Outcome<()> {
        let mut parameters = call.parameters.clone();
        let mut places: Vec<*mut c_void> =
            parameters.iter_mut().map(|parameter| (&raw mut *parameter).cast()).collect();
        let (grid, block) = ((call.groups, 1, 1), (call.workgroup, 1, 1));
        let (function, shared_bytes) = (call.function.function, call.shared_bytes);
        // SAFETY: the renderer gives one parameter for each the function
        // declares, and kernels keep to their buffers by construction; the
        // driver copies parameters before it returns.
        self.call(|| unsafe {
            result::launch_kernel(function, grid, block, shared_bytes, self.stream, &mut places)
        })
    }
}
