//! How operands of templates lie in memory; those whose elements are copied to shared memory
//! as they are, by chunks of 16 bytes.

use crate::base::DType;
use crate::kernel::{Access, AxisId, Expr, ExprId, Kernel};
use crate::render::c_like::emit::ElementIndex;
use crate::render::c_like::{Emitter, wide};
use crate::render::cuda::tiles::unwidened;
use crate::render::split::rewriter::needed;
use crate::render::target::GpuTarget;

/// Bytes of a piece.
const CHUNK_BYTES: usize = 16;

/// An input that is copied as it is.
#[derive(Clone, Copy, Debug)]
pub struct AsyncCopy {
    /// Its place among the kernel's inputs.
    pub slot: u32,
    /// The load of it.
    pub load: ExprId,
}

impl AsyncCopy {
    /// The input that a value is, if its elements are of a type and whole pieces of it are
    /// neighbours along some axes, all of a piece there or none.
    pub fn of(
        kernel: &Kernel,
        value: ExprId,
        along: &[AxisId],
        wanted: DType,
        target: &GpuTarget,
    ) -> Option<AsyncCopy> {
        let load = unwidened(kernel, value);
        let Expr::Load(slot, access) = kernel.expr(load) else { return None };
        let dtype = kernel.inputs[*slot as usize].dtype;
        let piece = (CHUNK_BYTES / dtype.size()) as i64;
        let axis = *wide(kernel, along.iter().copied()).last()?;
        let terms = access.affine.terms.iter();
        let whole = kernel.axes[axis.index()].extent as i64 % piece == 0
            && access.affine.offset % piece == 0
            && access.affine.coefficient(axis) == 1
            && terms.filter(|term| term.0 != axis).all(|term| term.1 % piece == 0);
        let same = access.guard.within.iter().all(|within| within.value.coefficient(axis) == 0);
        let plain = access.dynamic.is_empty() && access.guard.masks.is_empty();
        (target.alignment >= 4 && dtype == wanted && whole && same && plain)
            .then_some(AsyncCopy { slot: *slot, load })
    }

    /// Lines of a function that sets `is_inside` and returns where the piece begins whose
    /// position an emitter knows: it counts where all conditions hold, these and the load's.
    pub fn begin(&self, emitter: &mut Emitter<'_>, kernel: &Kernel, mut conditions: Vec<String>) {
        let Expr::Load(_, access) = kernel.expr(self.load) else { panic!("no load is copied") };
        let elem = ElementIndex::default();
        conditions.extend(emitter.open(&access.guard, elem));
        let condition = if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
        emitter.out.line(format!("is_inside = {condition};"));
        let address = emitter.affine(&access.affine, elem);
        emitter.out.line(format!("return in{} + (is_inside ? {address} : 0);", self.slot));
    }
}

/// What a value loads: types, and where.
pub fn loads(kernel: &Kernel, value: ExprId) -> impl Iterator<Item = (DType, &Access)> {
    let behind = needed(kernel, &[value], |_| false).into_iter();
    let load = |id: ExprId| kernel.expr(id).load();
    behind.filter_map(load).map(|(slot, access)| (kernel.inputs[slot as usize].dtype, access))
}

/// Whether an operand's neighbours in memory are neighbours along the depth rather than across
/// it: those of a window over an image are along both, three of them and a line.
pub fn is_k_major(kernel: &Kernel, value: ExprId, depth: &[AxisId], across: &[AxisId]) -> bool {
    let run = |axes: &[AxisId]| {
        let last = wide(kernel, axes.iter().copied()).last().copied();
        let runs =
            |axis: &AxisId| loads(kernel, value).any(|(_, access)| access.affine.coefficient(*axis) == 1);
        last.filter(runs).map_or(0, |axis| kernel.axes[axis.index()].extent)
    };
    let across = run(across);
    across == 0 || run(depth) > across
}
