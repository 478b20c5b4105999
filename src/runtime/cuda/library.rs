//! Kernels that are plain products, computed by cuBLASLt where it is there.

use std::sync::Arc;

use crate::base::Result;
use crate::base::config::config;
use crate::base::tuning::is_deterministic;
use crate::kernel::Workload;
use crate::render::cuda::plain_matmul::{Matrix, PlainMatmul};
use crate::render::product::ProductExtents;
use crate::runtime::cuda::driver::call::DriverCall;
use crate::runtime::cuda::driver::product::{CublasProduct, ProductCall};
use crate::runtime::cuda::gpu::{CudaGpu, allocate, lock};
use crate::runtime::cuda::graph;
use crate::runtime::{Bindings, Program};

/// A plain product, as the library's call.
#[derive(Clone)]
pub struct LibraryProgram {
    gpu: Arc<CudaGpu>,
    name: Arc<str>,
    plain: PlainMatmul,
    product: Arc<CublasProduct>,
}

impl LibraryProgram {
    /// Some work by the library, if it is a plain product and the library computes it.
    /// Where results must be the same in every process it computes none: a process
    /// that finds another version, or none, would have other last bits.
    pub fn of(gpu: &Arc<CudaGpu>, work: &Workload) -> Option<LibraryProgram> {
        let kernel = work.kernel().filter(|_| config().cublas && !is_deterministic())?;
        let plain = PlainMatmul::of(kernel)?;
        let product = gpu.product(&kernel.name, &plain)?;
        Some(LibraryProgram { gpu: gpu.clone(), name: kernel.name.as_str().into(), plain, product })
    }

    /// Whether it is taken where nothing is timed.
    pub fn is_worth_a_call(&self) -> bool {
        self.plain.is_worth_a_call()
    }

    /// Bytes of memory that a call takes besides its matrices.
    pub fn workspace(&self) -> usize {
        self.product.workspace
    }

    /// The call for some bindings.
    pub fn call(&self, bindings: &Bindings<'_>, workspace: u64) -> DriverCall {
        let PlainMatmul { a, b, c, .. } = self.plain;
        let inputs = [a, b].map(|matrix| (matrix, bindings.inputs[matrix.slot]));
        let all = [inputs[0], inputs[1], (c, bindings.outputs[c.slot])];
        let matrices = all.map(|(matrix, binding)| {
            let bytes = binding.offset + matrix.start * matrix.dtype.size();
            binding.buffer.handle + bytes as u64
        });
        DriverCall::Product(ProductCall {
            name: self.name.clone(),
            product: self.product.clone(),
            matrices,
            workspace,
        })
    }
}

impl Program for LibraryProgram {
    /// Whose call it is, and of what.
    fn source(&self) -> String {
        let PlainMatmul { extents: ProductExtents { batch, m, n, k }, precision, a, b, c } = &self.plain;
        let matrix = |name: &str, matrix: &Matrix| {
            let order = if matrix.column_major { "columns" } else { "rows" };
            format!("//   {name}: {}, by {order} {} elements apart\n", matrix.dtype, matrix.leading_dimension)
        };
        let lines = [matrix("a", a), matrix("b", b), matrix("c", c)].concat();
        format!("// cuBLASLt: c = a b, {batch} times {m} by {k} by {n}, precision {precision:?}\n{lines}")
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let workspace = match self.workspace() {
            0 => None,
            bytes => Some(allocate(&self.gpu, bytes)?),
        };
        let call = self.call(bindings, workspace.as_ref().map_or(0, |buffer| buffer.handle));
        graph::one_by_one(&self.gpu, &[call])
    }
}

impl std::fmt::Debug for LibraryProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.source())
    }
}

impl CudaGpu {
    /// The library's way to compute a kernel's product, asked for now or before, if it
    /// has one.
    fn product(&self, kernel: &str, plain: &PlainMatmul) -> Option<Arc<CublasProduct>> {
        if let Some(known) = lock(&self.products).get(plain) {
            return known.clone();
        }
        let found = self.driver.product(plain);
        if let (Err(reason), 3..) = (&found, config().debug) {
            eprintln!("{}: {kernel} is computed by a kernel of ours: {reason}", self.name);
        }
        lock(&self.products).entry(*plain).or_insert(found.ok().map(Arc::new)).clone()
    }
}
