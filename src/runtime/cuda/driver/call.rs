//! What is enqueued: launches of kernels, and products by a library.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::product::ProductCall;
use super::{Driver, LoadedFunction, Outcome};
use crate::render::shader::TensorMapSpec;

/// Something to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub enum DriverCall {
    /// A kernel's launch.
    Kernel(KernelCall),
    /// A product by cuBLASLt.
    Product(ProductCall),
}

impl DriverCall {
    /// The kernel's name, for errors.
    pub fn name(&self) -> &str {
        match self {
            DriverCall::Kernel(call) => &call.name,
            DriverCall::Product(call) => &call.name,
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
    pub function: Arc<LoadedFunction>,
    /// Blocks.
    pub groups: u32,
    /// Threads of a block.
    pub workgroup: u32,
    /// Bytes of shared memory for each block, besides what the function declares.
    pub shared_bytes: u32,
    /// The function's parameters.
    pub parameters: Vec<u64>,
    /// Its last ones: descriptions of matrices.
    pub maps: Vec<TensorMap>,
}

/// A description of matrices, for the device's own copies (a tensor map).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap(sys::CUtensorMap);

impl KernelCall {
    /// Where the parameters lie, for the driver, which copies them.
    pub(super) fn places(&self) -> Vec<*mut c_void> {
        let parameters =
            self.parameters.iter().map(|parameter| std::ptr::from_ref(parameter).cast_mut().cast());
        let maps = self.maps.iter().map(|map| std::ptr::from_ref(map).cast_mut().cast());
        parameters.chain(maps).collect()
    }
}

impl PartialEq for KernelCall {
    fn eq(&self, other: &KernelCall) -> bool {
        Arc::ptr_eq(&self.function, &other.function)
            && (self.groups, self.workgroup, self.shared_bytes)
                == (other.groups, other.workgroup, other.shared_bytes)
            && self.parameters == other.parameters
            && self.maps == other.maps
    }
}

impl Driver {
    /// Enqueues a call.
    ///
    /// # Errors
    /// The driver's failure, or the library's.
    pub fn launch(&self, call: &DriverCall) -> Outcome<()> {
        match call {
            DriverCall::Kernel(call) => self.launch_kernel(call),
            DriverCall::Product(call) => self.multiply(call, self.stream),
        }
    }

    /// The description of matrices of 16-bit elements in a buffer that begins at an
    /// address, for pieces whose lines of 128 bytes change places.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn tensor_map(&self, address: u64, spec: &TensorMapSpec) -> Outcome<TensorMap> {
        let extents = spec.extents.map(|extent| extent as u64);
        let strides = spec.strides.map(|stride| stride as u64);
        let [elements, lines] = spec.box_shape.map(|extent| extent as u32);
        let mut map = std::mem::MaybeUninit::<sys::CUtensorMap>::zeroed();
        let start = (address + spec.start as u64) as *mut c_void;
        // SAFETY: the arrays have as many numbers as three dimensions need, and the
        // map is written, never the memory it describes.
        self.call(|| unsafe {
            sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
                3,
                start,
                extents.as_ptr(),
                strides.as_ptr(),
                [elements, lines, 1].as_ptr(),
                [1, 1, 1].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
            .result()?;
            Ok(TensorMap(map.assume_init()))
        })
    }

    fn launch_kernel(&self, call: &KernelCall) -> Outcome<()> {
        let mut places = call.places();
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
