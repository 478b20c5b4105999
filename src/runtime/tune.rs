//! Autotuning: which variant of a template is fastest for a kernel, timed when the
//! kernel is compiled, on scratch memory, and kept in the folder of compiled kernels.

use std::path::Path;

use crate::base::Result;
use crate::base::tuning::chooses_by_timing;
use crate::ir::DeviceBuffer;
use crate::kernel::{Access, Expr, Kernel, Workload};
use crate::render::wgsl::memory::accessed_extents;
use crate::runtime::disk_cache::cached;
use crate::runtime::{Binding, Bindings, IndexStatus, Program};

/// Variants timed for one kernel: the table's first ones.
pub const CANDIDATES: usize = 3;
/// Launches that are timed together.
pub const LAUNCHES: usize = 4;
/// Bytes of operands and results above which nothing is timed, since timing
/// needs memory of its own.
const MOST_BYTES: u64 = 512 << 20;

/// The number of the fastest of some candidates, timed now or before. One that
/// cannot be timed is not chosen; if none can, the first is.
pub fn fastest(
    folder: Option<&Path>,
    key: &str,
    count: usize,
    time: &mut dyn FnMut(usize) -> Result<f64>,
) -> usize {
    let mut choose = || -> std::result::Result<Vec<u8>, ()> {
        let times = (0..count).filter_map(|number| Some((time(number).ok()?, number)));
        let (_, number) = times.min_by(|(a, _), (b, _)| a.total_cmp(b)).ok_or(())?;
        Ok(vec![number as u8])
    };
    let found = match folder {
        Some(folder) => cached(folder, key, choose),
        None => choose(),
    };
    found.ok().and_then(|found| found.first().map(|&number| usize::from(number))).unwrap_or(0)
}

/// The kernel whose variants are timed, if some work is such: on a device that times them by
/// itself, or not.
pub fn timed(work: &Workload, by_itself: bool) -> Option<&Kernel> {
    work.kernel().filter(|kernel| chooses_by_timing(by_itself) && reads_where_axes_say(kernel))
}

/// Whether no address depends on data or arguments, which here would be any. It may be
/// computed: a transposed convolution divides positions.
fn reads_where_axes_say(kernel: &Kernel) -> bool {
    let mut varies: Vec<bool> = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        let mut own = matches!(node.expr, Expr::Load(..) | Expr::Arg(_) | Expr::Accumulator);
        node.expr.operands(|operand| own |= varies[operand.index()]);
        varies.push(own);
    }
    let is_known =
        |access: &Access| access.dynamic.iter().all(|part| !part.checked && !varies[part.index.index()]);
    let known = |expr: &Expr| match expr.load() {
        Some((_, access)) => is_known(access),
        None => !expr.reports(),
    };
    kernel.exprs.iter().all(|node| known(&node.expr))
}

/// Operands and results for timing.
#[derive(Debug)]
pub struct TrialBuffers {
    inputs: Vec<DeviceBuffer>,
    outputs: Vec<DeviceBuffer>,
    scalars: Vec<u64>,
}

impl TrialBuffers {
    /// Enough for a kernel; `None` if that is too much.
    pub fn of(kernel: &Kernel, allocate: &dyn Fn(usize) -> Result<DeviceBuffer>) -> Option<TrialBuffers> {
        let extents = accessed_extents(kernel).ok()?;
        let sizes = kernel.inputs.iter().zip(extents);
        let inputs: Vec<u64> = sizes.map(|(input, extent)| extent * input.dtype.size() as u64).collect();
        let outputs: Vec<u64> =
            kernel.stores.iter().map(|store| (store.numel * store.dtype.size()) as u64).collect();
        if inputs.iter().chain(&outputs).sum::<u64>() > MOST_BYTES {
            return None;
        }
        let all = |sizes: &[u64]| -> Option<Vec<DeviceBuffer>> {
            sizes.iter().map(|&bytes| allocate(bytes as usize).ok()).collect()
        };
        Some(TrialBuffers { inputs: all(&inputs)?, outputs: all(&outputs)?, scalars: vec![0; kernel.args] })
    }

    /// Launches a program so often.
    ///
    /// # Errors
    /// The program's.
    pub fn launch(&self, program: &dyn Program, times: usize) -> Result<()> {
        let (inputs, outputs, status) = (bound(&self.inputs), bound(&self.outputs), IndexStatus::default());
        let bindings =
            Bindings { inputs: &inputs, outputs: &outputs, scalars: &self.scalars, status: &status };
        (0..times).try_for_each(|_| program.launch(&bindings))
    }
}

fn bound(buffers: &[DeviceBuffer]) -> Vec<Binding<'_>> {
    buffers.iter().map(|buffer| Binding { buffer, offset: 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{DType, Device, Error};
    use crate::runtime::disk_cache::TempFolder;
    use crate::tensor::Tensor;
    use crate::tensor::conv::ConvTransposeOpts;

    #[test]
    fn the_fastest_is_found_once_for_each_key() {
        let folder = TempFolder::new("tiles");
        let mut timed = 0;
        let mut choose = |key: &str, times: [f64; 3]| {
            fastest(Some(&folder.0), key, 3, &mut |number| {
                timed += 1;
                Ok(times[number])
            })
        };
        assert_eq!(choose("one", [3.0, 1.0, 2.0]), 1);
        // Known: other times are not looked at.
        assert_eq!(choose("one", [1.0, 2.0, 3.0]), 1);
        assert_eq!(choose("two", [3.0, 2.0, 1.0]), 2);
        assert_eq!(timed, 6);
    }

    #[test]
    fn a_variant_that_fails_is_not_chosen_and_if_all_do_the_table_decides() {
        let fail = || {
            let message = "does not run".into();
            Err(Error::Kernel { kernel: "way".into(), device: Device::wgpu(0), message, span: None })
        };
        let some =
            fastest(None, "", 3, &mut |number| if number == 0 { fail() } else { Ok(3.0 - number as f64) });
        assert_eq!(some, 2);
        assert_eq!(fastest(None, "", 3, &mut |_| fail()), 0);
    }

    fn zeros<const N: usize>(dims: [usize; N], dtype: DType) -> Tensor {
        let x = Tensor::zeros(dims, Device::null()).to_dtype(dtype);
        x.realize().expect("a leaf");
        x
    }

    /// The kernel of a product.
    fn product(y: &Tensor) -> Kernel {
        let report = y.plan().expect("a plan");
        let mut kernels = report.kernels.iter().filter_map(|kernel| kernel.work().kernel());
        kernels.find(|kernel| kernel.contraction().is_some()).expect("a product").clone()
    }

    fn is_computed(kernel: &Kernel) -> bool {
        kernel.exprs.iter().filter_map(|node| node.expr.load()).any(|(_, access)| !access.dynamic.is_empty())
    }

    #[test]
    fn a_convolution_that_divides_positions_is_timed_on_memory_as_large_as_its_operands() {
        let image = zeros([2, 8, 7, 9], DType::F32);
        let filter = zeros([8, 24, 3, 3], DType::F32);
        let opts = ConvTransposeOpts::default().padding(1).stride(2).dilation(2);
        let kernel = product(&image.conv_transpose2d(&filter, None, opts));
        assert!(is_computed(&kernel) && reads_where_axes_say(&kernel));
        let extents = accessed_extents(&kernel).expect("few elements");
        let sizes: Vec<u64> = kernel.inputs.iter().map(|input| input.numel as u64).collect();
        assert_eq!(extents, sizes);
    }

    #[test]
    fn what_reads_where_data_say_is_not_timed() {
        let (table, filter) = (zeros([50, 64], DType::F32), zeros([64, 64], DType::F32));
        let rows = table.index_select(0, &zeros([80], DType::I64));
        let kernel = product(&rows.matmul(&filter));
        assert!(is_computed(&kernel) && !reads_where_axes_say(&kernel));
        // A row that is taken apart after it was chosen.
        let halves = rows.reshape([160, 32]).matmul(&zeros([32, 64], DType::F32));
        assert!(!reads_where_axes_say(&product(&halves)));
    }
}
