//! Which scans `shaders/scan.wgsl` and `kernels/scan.cuh` serve, and with how many invocations.
//!
//! They serve kernels that scan once along their rows and store nothing else,
//! where rows are long enough, or few enough, for a workgroup to share each.
//! Other kernels loop over their rows in an invocation, a scan being one more
//! variable of the loop. So do all on the host's processor: on lavapipe the
//! template was no faster (4 to 31 rows of 600 to 65,536) and took three times
//! as long to compile.

use crate::kernel::{Expr, ExprId, Kernel};
use crate::render::iterations;
use crate::render::split::Form;
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thread_mapping::preferred_reduction_threads;

/// Neighbours that an invocation scans by itself.
pub const ELEMENTS_PER_THREAD: usize = 4;

/// A scan by a workgroup for each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkgroupScan {
    /// The scan.
    pub scan: ExprId,
    /// Invocations of a workgroup.
    pub threads: usize,
}

impl WorkgroupScan {
    /// How a kernel scans by the template; `None` if it is not for it.
    pub fn of(kernel: &Kernel, target: &GpuTarget) -> Option<WorkgroupScan> {
        let Form::Scan(scan) = Form::of(kernel) else { return None };
        let (points, rows) = (kernel.level_points(0), kernel.level_points(1));
        if target.adapter == Adapter::Software
            || points * rows == 0
            || kernel.stores.iter().any(|store| store.level != 1)
        {
            return None;
        }
        let most = rows.div_ceil(ELEMENTS_PER_THREAD).next_power_of_two().min(target.max_workgroup as usize);
        let threads = preferred_reduction_threads(target, points, rows, ELEMENTS_PER_THREAD).min(most);
        let blocks = rows.div_ceil(ELEMENTS_PER_THREAD * threads) as u64;
        // Elements, states merged step by step, and results.
        let merges = 4 * ELEMENTS_PER_THREAD + threads.ilog2() as usize;
        let iterations = blocks.saturating_mul(iterations::of_body(kernel, 1, merges) + merges as u64);
        (threads > 1 && iterations <= target.max_iterations).then_some(WorkgroupScan { scan, threads })
    }

    /// The kernel that sees the scan's results as another sees a sum.
    pub fn with_result(&self, kernel: &Kernel) -> Kernel {
        let mut kernel = kernel.clone();
        kernel.exprs[self.scan.index()].expr = Expr::Accumulator;
        kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Workload;
    use crate::tensor::Tensor;
    use crate::{Device, plan};

    fn threads(y: &Tensor, target: &GpuTarget) -> Vec<Option<usize>> {
        let report = plan(&[y]).expect("a plan");
        let of = |work: &Workload| match work {
            Workload::Kernel(kernel) => WorkgroupScan::of(kernel, target).map(|shared| shared.threads),
            Workload::Sort(_) | Workload::Custom(..) | Workload::Joint(_) => None,
        };
        report.kernels.iter().map(|kernel| of(kernel.work())).collect()
    }

    fn rows(count: usize, length: usize) -> Tensor {
        Tensor::zeros([count, length], Device::null()) + 1.0
    }

    #[test]
    fn long_rows_are_shared_by_a_workgroup_and_short_ones_are_not() {
        let gpu = GpuTarget::webgpu_default();
        assert_eq!(threads(&rows(100, 5000).cumsum(-1), &gpu), [Some(256)]);
        assert_eq!(threads(&rows(100, 500).cumsum(-1), &gpu), [Some(32)]);
        assert_eq!(threads(&rows(100, 50).cumsum(-1), &gpu), [None]);
        assert_eq!(threads(&rows(100, 5000).cumsum(-1), &GpuTarget::software()), [None]);
    }

    #[test]
    fn a_scan_among_other_loops_is_one_of_them() {
        let x = rows(100, 5000);
        let gpu = GpuTarget::webgpu_default();
        let y = x.cumsum(-1).sum(-1);
        assert!(threads(&y, &gpu).iter().all(Option::is_none));
    }
}
