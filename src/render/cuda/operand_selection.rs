//! Which operands of products on tensor cores are computed once and stored, by a kernel of
//! their own: what is in memory as tensor cores take it is copied to shared memory as it is,
//! anything else goes through registers in every block that reads it.

use crate::kernel::{AxisId, Contraction, Expr, ExprId, Kernel};
use crate::render::c_like::wide;
use crate::render::cuda::async_copy::is_k_major;
use crate::render::cuda::thresholds;
use crate::render::cuda::tiles::{CudaProductTile, MmaType, SplitKTile, unwidened};
use crate::render::product::ProductExtents;
use crate::render::split::materialize::MaterializedOperand;
use crate::render::split::rewriter::{axes_of, needed};
use crate::render::target::{CudaFeatures, GpuTarget};

/// Neighbours that are copied together.
const CHUNK: usize = 8;

/// The operands of a kernel's product that are worth it, by the way that the product takes.
pub fn worth_materializing(
    kernel: &Kernel,
    turned: &Contraction,
    way: &SplitKTile,
    target: &GpuTarget,
) -> Vec<MaterializedOperand> {
    let (CudaProductTile::Mma { factor, .. } | CudaProductTile::Wgmma { factor, .. }) = way.tile else {
        return Vec::new();
    };
    let Some(cuda) = target.cuda.filter(|_| factor.dtype().size() == 2 && target.alignment >= CHUNK) else {
        return Vec::new();
    };
    let [rows, columns] = way.tile.size();
    let operands = [(turned.a, &turned.m, rows), (turned.b, &turned.n, columns)];
    let stored = operands.into_iter().filter_map(|(operand, across, lines)| {
        let stored = as_matrix(kernel, turned, factor, operand, across)?;
        pays(kernel, turned, way, &stored, lines, &cuda).then_some(stored)
    });
    stored.collect()
}

/// An operand as a matrix in memory, if it is computed, of every pair of its positions, from
/// no fewer elements: a window has more than what it is a window of.
fn as_matrix(
    kernel: &Kernel,
    c: &Contraction,
    factor: MmaType,
    operand: ExprId,
    across: &[AxisId],
) -> Option<MaterializedOperand> {
    let value = unwidened(kernel, operand);
    let dtype = factor.dtype();
    if matches!(kernel.expr(value), Expr::Load(..)) && kernel.exprs[value.index()].dtype == dtype {
        return None;
    }
    let varies = axes_of(kernel, value);
    let batch = wide(kernel, c.batch.iter().copied()).into_iter().filter(|axis| varies.contains(axis));
    let (across, depth) = (wide(kernel, across.iter().copied()), wide(kernel, c.k.iter().copied()));
    let k_major = is_k_major(kernel, value, &depth, &across);
    let [lines, along] = if k_major { [&across, &depth] } else { [&depth, &across] };
    let whole = kernel.points_of(along).is_multiple_of(CHUNK);
    let axes: Vec<AxisId> = batch.chain(lines.iter().copied()).chain(along.iter().copied()).collect();
    let dense =
        axes.iter().all(|axis| varies.contains(axis)) && kernel.points_of(&axes) <= read(kernel, value).0;
    (whole && dense).then_some(MaterializedOperand { value, axes, dtype })
}

/// Whether computing an operand in every block takes longer than storing it: `lines` are
/// those of a tile.
fn pays(
    kernel: &Kernel,
    c: &Contraction,
    way: &SplitKTile,
    stored: &MaterializedOperand,
    lines: usize,
    cuda: &CudaFeatures,
) -> bool {
    let extents = ProductExtents::of(kernel, c);
    let blocks = (way.tile.groups(&extents) * way.parts as u64).div_ceil(cuda.multiprocessors as u64);
    let computed = blocks * (lines * extents.k / way.parts) as u64;
    let moved = kernel.points_of(&stored.axes) * stored.dtype.size() + read(kernel, stored.value).1;
    computed / thresholds::COMPUTED_PER_NANOSECOND
        > moved as u64 / thresholds::MEMORY_BYTES_PER_NANOSECOND + thresholds::LAUNCH_NANOSECONDS
}

/// Elements and bytes of what a value is computed from.
fn read(kernel: &Kernel, value: ExprId) -> (usize, usize) {
    let loads = needed(kernel, &[value], |_| false).into_iter().filter_map(|id| kernel.expr(id).load());
    let mut slots: Vec<u32> = loads.map(|(slot, _)| slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.into_iter().fold((0, 0), |(elements, bytes), slot| {
        let input = &kernel.inputs[slot as usize];
        (elements + input.numel, bytes + input.numel * input.dtype.size())
    })
}
