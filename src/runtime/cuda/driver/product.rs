//! Products of matrices by cuBLASLt, NVIDIA's library, made safe. It is loaded when a
//! product is first asked for; where it is missing that costs a few searches for files,
//! once.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use cudarc::cublaslt::{result, sys};
use cudarc::driver::result as driver;
use cudarc::driver::sys as driver_sys;

use super::{Driver, Failure, Outcome};
use crate::base::{DType, Precision};
use crate::render::cuda::plain_matmul::{Matrix, PlainMatmul};
use crate::render::product::ProductExtents;

/// Bytes of memory that a product may take besides its matrices: what NVIDIA
/// recommends for compute capability 9.0, and for others.
const WORKSPACE: [usize; 2] = [32 << 20, 4 << 20];

/// Bytes to which matrices are aligned where nothing else is known, as
/// [`crate::runtime::Capabilities::output_alignment`] says of results.
const ALIGNMENT: u64 = 16;

/// The library's numbers for what is done to a factor, of which its bindings know none.
const AS_IT_IS: u32 = 0;
const TRANSPOSED: u32 = 1;

/// The library, for a device.
#[derive(Debug)]
pub struct CublasLt {
    handle: sys::cublasLtHandle_t,
    /// Its version: 130000 is 13.0.0.
    pub version: usize,
}

/// Where to find the library's matrices, and their sizes, for its calls.
#[derive(Debug)]
struct MatrixLayout(sys::cublasLtMatrixLayout_t);

/// What the library is to compute.
#[derive(Debug)]
struct Description(sys::cublasLtMatmulDesc_t);

/// How the library chooses.
struct Preference(sys::cublasLtMatmulPreference_t);

/// A way to compute a product, with the memory that it takes besides.
#[derive(Clone, Copy, Debug)]
struct Algorithm {
    own: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
}

/// A product that the library computes. To it matrices are stored by columns, so it
/// is given the product of the transposed ones, the second first.
#[derive(Debug)]
pub struct CublasProduct {
    handle: sys::cublasLtHandle_t,
    description: Description,
    first: MatrixLayout,
    second: MatrixLayout,
    result: MatrixLayout,
    /// For matrices that are aligned, and for any.
    aligned: Algorithm,
    any: Algorithm,
    /// Bytes of memory that a call takes besides its matrices.
    pub workspace: usize,
}

// SAFETY: descriptions that nothing changes once they are made; the library may be
// called from any thread.
unsafe impl Send for CublasProduct {}
// SAFETY: as above.
unsafe impl Sync for CublasProduct {}

/// A product of matrices at some addresses.
#[derive(Clone, Debug)]
pub struct ProductCall {
    /// The kernel's name, for errors.
    pub name: Arc<str>,
    /// What is computed.
    pub product: Arc<CublasProduct>,
    /// The first element of each: two factors, the result.
    pub matrices: [u64; 3],
    /// The memory that it takes besides.
    pub workspace: u64,
}

impl PartialEq for ProductCall {
    fn eq(&self, other: &ProductCall) -> bool {
        Arc::ptr_eq(&self.product, &other.product)
            && (self.matrices, self.workspace) == (other.matrices, other.workspace)
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; a failure to free has no remedy.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

/// Loads the library once; gives its version, or says what is missing. Never panics.
fn version() -> Result<usize, String> {
    static VERSION: OnceLock<Result<usize, String>> = OnceLock::new();
    let find = || {
        // SAFETY: loading a library runs its constructors; cuBLASLt's are harmless.
        if !unsafe { sys::is_culib_present() } {
            return Err("the library libcublasLt was not found".into());
        }
        // SAFETY: the library is there; all versions have this function.
        match unsafe { sys::cublasLtGetVersion() } {
            version @ 120_000.. => Ok(version),
            version => Err(format!("libcublasLt is of version {version}, older than 120000")),
        }
    };
    VERSION.get_or_init(find).clone()
}

fn words(error: result::CublasError) -> String {
    format!("cuBLASLt: {:?}", error.0)
}

/// The library's name for a type of elements.
fn data_type(dtype: DType) -> Result<sys::cudaDataType, String> {
    match dtype {
        DType::F16 => Ok(sys::cudaDataType::CUDA_R_16F),
        DType::BF16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        DType::F32 => Ok(sys::cudaDataType::CUDA_R_32F),
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::F64 => {
            Err(format!("cuBLASLt is not asked for products of {dtype}"))
        }
    }
}

/// What the library may do to factors of 32 bits.
const fn compute_type(precision: Precision) -> sys::cublasComputeType_t {
    match precision {
        Precision::Strict | Precision::Highest => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        Precision::High => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
        Precision::Medium => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF,
    }
}

impl MatrixLayout {
    /// Of a batch of matrices of so many rows and columns. What we store by rows is
    /// to the library the transposed matrix.
    fn new(matrix: &Matrix, rows: usize, columns: usize, batch: usize) -> Result<MatrixLayout, String> {
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        let (line, lines) = if matrix.column_major { (rows, columns) } else { (columns, rows) };
        let dtype = data_type(matrix.dtype)?;
        let own =
            result::create_matrix_layout(dtype, line as u64, lines as u64, matrix.leading_dimension as i64);
        let layout = MatrixLayout(own.map_err(words)?);
        let (count, apart) = (batch as i32, matrix.batch_stride as i64);
        // SAFETY: the layout lives; attributes are of the types that are given.
        unsafe {
            let set = |attribute, value: *const c_void, bytes| {
                result::set_matrix_layout_attribute(layout.0, attribute, value, bytes).map_err(words)
            };
            set(Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (&raw const count).cast(), 4)?;
            set(Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, (&raw const apart).cast(), 8)?;
        }
        Ok(layout)
    }
}

impl Description {
    fn new(plain: &PlainMatmul) -> Result<Description, String> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let compute = compute_type(plain.precision);
        let own = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F).map_err(words)?;
        let description = Description(own);
        // As the result is stored by rows, so are factors that the library takes as
        // they are.
        let of = |matrix: &Matrix| if matrix.column_major { TRANSPOSED } else { AS_IT_IS };
        let factors = [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, of(&plain.b)),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, of(&plain.a)),
        ];
        for (attribute, operation) in factors {
            let value: *const c_void = (&raw const operation).cast();
            // SAFETY: the description lives; the attribute is a 32-bit number.
            unsafe { result::set_matmul_desc_attribute(description.0, attribute, value, 4) }
                .map_err(words)?;
        }
        Ok(description)
    }
}

impl Preference {
    /// For matrices at multiples of so many bytes.
    fn new(workspace: u64, alignments: [u64; 3]) -> Result<Preference, String> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = Preference(result::create_matmul_pref().map_err(words)?);
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: the preference lives; attributes are of the types that are given.
            unsafe { result::set_matmul_pref_attribute(preference.0, attribute, value, bytes) }.map_err(words)
        };
        set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (&raw const workspace).cast(), 8)?;
        let [first, second, result] = alignments.map(|alignment| alignment as u32);
        for (attribute, alignment) in [
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result),
            (Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result),
        ] {
            set(attribute, (&raw const alignment).cast(), 4)?;
        }
        Ok(preference)
    }
}

impl Driver {
    /// The library, loaded now or before; or why it is not there.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn library(&self) -> Result<&CublasLt, String> {
        let open = || {
            let version = version()?;
            self.enter().map_err(|failure| format!("{failure:?}"))?;
            Ok(CublasLt { handle: result::create_handle().map_err(words)?, version })
        };
        self.library.get_or_init(open).as_ref().map_err(String::clone)
    }

    /// The library's way to compute a product.
    ///
    /// # Errors
    /// Why it does not, in words.
    pub fn product(&self, plain: &PlainMatmul) -> Result<CublasProduct, String> {
        let library = self.library()?;
        self.enter().map_err(|failure| format!("{failure:?}"))?;
        let ProductExtents { batch, m, n, k } = plain.extents;
        let description = Description::new(plain)?;
        let (first, second) =
            (MatrixLayout::new(&plain.b, k, n, batch)?, MatrixLayout::new(&plain.a, m, k, batch)?);
        let layout = MatrixLayout::new(&plain.c, m, n, batch)?;
        let most = WORKSPACE[usize::from(self.info.capability != (9, 0))];
        let algorithm = |alignments| {
            let preference = Preference::new(most as u64, alignments)?;
            // SAFETY: all descriptions live, and the results fit what is asked for.
            let found = unsafe {
                result::get_matmul_algo_heuristic(
                    library.handle,
                    description.0,
                    first.0,
                    second.0,
                    layout.0,
                    layout.0,
                    preference.0,
                )
            };
            let found = found.map_err(words)?;
            Ok::<Algorithm, String>(Algorithm { own: found.algo, workspace: found.workspaceSize })
        };
        let aligned = algorithm([ALIGNMENT; 3])?;
        let any = algorithm([&plain.b, &plain.a, &plain.c].map(|matrix| matrix.dtype.size() as u64))?;
        let (handle, workspace) = (library.handle, aligned.workspace.max(any.workspace));
        Ok(CublasProduct { handle, description, first, second, result: layout, aligned, any, workspace })
    }

    /// Enqueues a product.
    pub(super) fn multiply(&self, call: &ProductCall, stream: driver_sys::CUstream) -> Outcome<()> {
        self.enter()?;
        let (product, (one, zero)) = (&*call.product, (1f32, 0f32));
        let is_aligned = call.matrices.iter().all(|at| at.is_multiple_of(ALIGNMENT));
        let algorithm = if is_aligned { &product.aligned } else { &product.any };
        let [a, b, c] = call.matrices.map(|at| at as *mut c_void);
        // SAFETY: descriptions and stream live; the matrices lie in buffers of the
        // caller's by the kernel's own addresses; factors of 32 bits are the host's,
        // and read before the call returns.
        let done = unsafe {
            result::matmul(
                product.handle,
                product.description.0,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                b,
                product.first.0,
                a,
                product.second.0,
                c,
                product.result.0,
                c,
                product.result.0,
                &raw const algorithm.own,
                call.workspace as *mut c_void,
                product.workspace,
                stream.cast(),
            )
        };
        done.map_err(|error| Failure::Other(words(error)))
    }

    /// What a product enqueues, as a graph that the caller has.
    pub(super) fn recorded(&self, call: &ProductCall) -> Outcome<driver_sys::CUgraph> {
        let mut recording = crate::runtime::cuda::gpu::lock(&self.recording);
        let stream = match *recording {
            Some(stream) => stream,
            None => {
                let kind = driver::stream::StreamKind::NonBlocking;
                *recording.insert(self.call(|| driver::stream::create(kind))?)
            }
        };
        let mode = driver_sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives, and is this call's alone while it is locked.
        self.call(|| unsafe { driver::stream::begin_capture(stream, mode) })?;
        let enqueued = self.multiply(call, stream);
        let mut graph = null_mut();
        // SAFETY: as above; a recording ends whatever failed.
        let ended = self.call(|| {
            graph = unsafe { driver::stream::end_capture(stream) }?;
            Ok(())
        });
        match enqueued.and(ended) {
            Ok(()) => Ok(graph),
            Err(failure) => {
                self.forget_graph(graph);
                Err(failure)
            }
        }
    }

    /// Gives a graph back, if it is one.
    pub(super) fn forget_graph(&self, graph: driver_sys::CUgraph) {
        if !graph.is_null() {
            // SAFETY: the caller's, and used no more.
            let _ = self.call(|| unsafe { driver::graph::destroy(graph) });
        }
    }
}
