//! Kernels that do no more than copy or clear memory: the queue does that without a
//! shader, so that nothing is compiled.

use std::sync::{Arc, OnceLock};

use crate::base::Result;
use crate::kernel::{Expr, Kernel, Workload};
use crate::runtime::wgpu::gpu::{WgpuGpu, lock};
use crate::runtime::wgpu::program::ShaderProgram;
use crate::runtime::wgpu::reports::WgpuReports;
use crate::runtime::{Bindings, Program};

/// What a kernel does to its output, all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FillSource {
    /// Bytes of an input, from that one on.
    From(usize, usize),
    /// Zeros.
    Zeros,
}

/// Such a kernel.
#[derive(Debug)]
pub struct CopyProgram {
    gpu: Arc<WgpuGpu>,
    reports: Arc<WgpuReports>,
    work: Workload,
    fill: FillSource,
    bytes: usize,
    /// For copies within one block, or from where none of its words starts.
    shader: OnceLock<ShaderProgram>,
}

impl CopyProgram {
    /// The program of a kernel, if that is all it does.
    pub fn of(gpu: &Arc<WgpuGpu>, reports: &Arc<WgpuReports>, work: &Workload) -> Option<CopyProgram> {
        let Workload::Kernel(kernel) = work else { return None };
        let (fill, bytes) = fill(kernel)?;
        let (gpu, reports, work) = (gpu.clone(), reports.clone(), work.clone());
        Some(CopyProgram { gpu, reports, work, fill, bytes, shader: OnceLock::new() })
    }

    fn shader(&self) -> Result<&ShaderProgram> {
        if let Some(known) = self.shader.get() {
            return Ok(known);
        }
        let made = ShaderProgram::new(self.gpu.clone(), self.reports.clone(), self.work.clone())?;
        Ok(self.shader.get_or_init(|| made))
    }
}

/// What a kernel fills its output with, and how many bytes that is, in whole words.
fn fill(kernel: &Kernel) -> Option<(FillSource, usize)> {
    let [store] = &kernel.stores[..] else { return None };
    if kernel.depth() > 0 || !kernel.is_elementwise() {
        return None;
    }
    let size = store.dtype.size();
    let fill = match kernel.expr(store.value) {
        Expr::Const(0) => FillSource::Zeros,
        Expr::Load(slot, access) => {
            let input = &kernel.inputs[*slot as usize];
            let plain = access.dynamic.is_empty() && access.guard.is_always();
            let first = usize::try_from(access.affine.offset - store.address.offset).ok()?;
            if !plain || input.dtype != store.dtype || access.affine.terms != store.address.terms {
                return None;
            }
            FillSource::From(*slot as usize, first * size)
        }
        Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Index(_)
        | Expr::Inside(_)
        | Expr::Alu(..)
        | Expr::Cast(_)
        | Expr::Bitcast(_)
        | Expr::Reduce(..)
        | Expr::Scan(..)
        | Expr::Checked(..)
        | Expr::Accumulator => return None,
    };
    let bytes = store.numel * size;
    bytes.is_multiple_of(4).then_some((fill, bytes))
}

impl Program for CopyProgram {
    fn source(&self) -> String {
        match self.fill {
            FillSource::From(slot, first) => {
                format!("copies {} bytes of in{slot} from byte {first} on\n", self.bytes)
            }
            FillSource::Zeros => format!("clears {} bytes\n", self.bytes),
        }
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        let to = &bindings.outputs[0];
        let block = lock(&self.gpu.blocks).get(to.buffer)?;
        let (start, bytes) = (to.offset as u64, self.bytes as u64);
        match self.fill {
            FillSource::Zeros if start.is_multiple_of(4) => self.gpu.record_clear((&block, start), bytes),
            FillSource::Zeros => self.shader()?.launch(bindings),
            FillSource::From(slot, first) => {
                let from = &bindings.inputs[slot];
                let source = lock(&self.gpu.blocks).get(from.buffer)?;
                let first = (from.offset + first) as u64;
                if source == block || !start.is_multiple_of(4) || !first.is_multiple_of(4) {
                    return self.shader()?.launch(bindings);
                }
                self.gpu.record_copy((&source, first), (&block, start), bytes)
            }
        }
    }

    fn compiled(&self) -> Option<u64> {
        Some(0)
    }
}
