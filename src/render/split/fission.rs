//! Kernels of any form: each reduction and scan by itself, its result in
//! memory, then the stores.

use crate::kernel::{AxisId, Expr, ExprId};
use crate::render::shader::PassBuffer;
use crate::render::split::rewriter::KernelRewriter;
use crate::render::split::{BoundKernel, KernelSequence, loops};
use crate::render::target::GpuTarget;

/// A kernel for every reduction and scan, and one for the stores of a level.
pub fn split(split: &mut KernelSequence, part: &BoundKernel, target: &GpuTarget) {
    let kernel = &part.kernel;
    let mut stored: Vec<(ExprId, PassBuffer)> = Vec::new();
    for id in loops(kernel) {
        let node = &kernel.exprs[id.index()];
        // The points of a scan's rows are those of the levels above.
        let level = if let Expr::Scan(..) = node.expr { node.level - 1 } else { node.level };
        let mut rewriter = KernelRewriter::new(part, level);
        rewriter.keep_levels(level + 1);
        stored.iter().for_each(|&(id, block)| rewriter.find(id, block));
        let value = rewriter.copy(id);
        let numel = kernel.points(node.level);
        let block = split.block(numel * node.dtype.compute().size());
        let address = rewriter.point(node.level);
        rewriter.store(block, value, node.level - level, address, numel);
        split.add(rewriter.finish(), target);
        stored.push((id, block));
    }
    // Rows last come first: an output may lie over an input that only they read.
    let mut levels: Vec<u8> = kernel.stores.iter().map(|store| store.level).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels.into_iter().rev() {
        let mut rewriter = KernelRewriter::new(part, level);
        as_stored(part, level).into_iter().for_each(|axis| _ = rewriter.keep_at(axis, 0));
        stored.iter().for_each(|&(id, block)| rewriter.find(id, block));
        rewriter.copy_stores(level);
        split.add(rewriter.finish(), target);
    }
}

/// The axes up to a level, those last along which its first store runs through memory.
fn as_stored(part: &BoundKernel, level: u8) -> Vec<AxisId> {
    let kernel = &part.kernel;
    let mut axes: Vec<AxisId> = (0..=level).flat_map(|level| kernel.level_axes(level)).collect();
    let step = |axis: AxisId| {
        let store = kernel.stores.iter().find(|store| store.level == level);
        store.map_or(0, |store| store.address.coefficient(axis).abs())
    };
    axes.sort_by_key(|&axis| std::cmp::Reverse(step(axis)));
    axes
}
