//! Kernels of any form: each reduction and scan by itself, its result in
//! memory, then the stores.

use crate::kernel::{Expr, ExprId};
use crate::render::shader::Memory;
use crate::render::split::draft::Draft;
use crate::render::split::{Part, Split, loops};
use crate::render::target::Target;

/// A kernel for every reduction and scan, and one for the stores of a level.
pub fn split(split: &mut Split, part: &Part, target: &Target) {
    let kernel = &part.kernel;
    let mut stored: Vec<(ExprId, Memory)> = Vec::new();
    for id in loops(kernel) {
        let node = &kernel.exprs[id.index()];
        // The points of a scan's rows are those of the levels above.
        let level = if let Expr::Scan(..) = node.expr { node.level - 1 } else { node.level };
        let mut draft = Draft::new(part, level);
        draft.keep_levels(level + 1);
        stored.iter().for_each(|&(id, block)| draft.find(id, block));
        let value = draft.copy(id);
        let numel = kernel.points(node.level);
        let block = split.block(numel * node.dtype.compute().size());
        let address = draft.point(node.level);
        draft.store(block, value, node.level - level, address, numel);
        split.add(draft.finish(), target);
        stored.push((id, block));
    }
    // Rows last come first: an output may lie over an input that only they read.
    let mut levels: Vec<u8> = kernel.stores.iter().map(|store| store.level).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels.into_iter().rev() {
        let mut draft = Draft::new(part, level);
        draft.keep_levels(level);
        stored.iter().for_each(|&(id, block)| draft.find(id, block));
        draft.copy_stores(level);
        split.add(draft.finish(), target);
    }
}
