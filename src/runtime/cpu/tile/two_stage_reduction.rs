//! Reductions over several axes in two stages: first over all but the innermost axis, element by
//! element of it, and then along it (loop interchange, after splitting the reduction's axes).

use crate::ir::Monoid;
use crate::kernel::{Affine, AxisId, Expr, ExprId, ExprNode, Kernel, KernelStore};
use crate::runtime::cpu::thresholds::{TWO_STAGE_MAX_ROW, TWO_STAGE_MIN_ROWS};
use crate::runtime::cpu::tile::analysis::{LEVELS, analyze};
use crate::runtime::cpu::tile::tiling::multi_pass;

/// The kernel, whose axes are in order, with its deepest reductions in two stages; `None` where
/// rows are long or few, or something else happens along them.
pub fn in_two_stages(kernel: &Kernel) -> Option<Kernel> {
    let depth = kernel.depth();
    let axes: Vec<AxisId> = kernel.level_axes(depth).collect();
    let (&line, others) = axes.split_last()?;
    let length = kernel.axes[line.index()].extent;
    let many = length > 0 && kernel.level_points(depth) / length >= TWO_STAGE_MIN_ROWS;
    if depth == 0
        || usize::from(depth) + 1 >= LEVELS
        || length > TWO_STAGE_MAX_ROW
        || !many
        || !only_reduces(kernel, line)
    {
        return None;
    }
    let mut staged = Kernel { exprs: Vec::with_capacity(kernel.exprs.len()), ..kernel.clone() };
    others.iter().for_each(|axis| staged.axes[axis.index()].level = depth + 1);
    let mut numbers: Vec<ExprId> = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        let mut node = ExprNode { expr: node.expr.mapped(|id| numbers[id.index()], Affine::clone), ..*node };
        node.level = node.level_among(&staged.exprs, &staged.axes);
        if let Expr::Reduce(monoid, _) = node.expr
            && node.level + 1 == depth
        {
            staged.exprs.push(ExprNode { level: depth, ..node.clone() });
            node.expr = Expr::Reduce(monoid, ExprId(staged.exprs.len() as u32 - 1));
        }
        staged.exprs.push(node);
        numbers.push(ExprId(staged.exprs.len() as u32 - 1));
    }
    let store = |s: &KernelStore| KernelStore { value: numbers[s.value.index()], ..s.clone() };
    staged.stores = kernel.stores.iter().map(store).collect();
    Some(staged)
}

/// Whether all that happens at the deepest level is that values are reduced in one pass, some of
/// them contiguous along its innermost axis.
fn only_reduces(kernel: &Kernel, line: AxisId) -> bool {
    let depth = kernel.depth();
    let along =
        |node: &ExprNode| node.expr.load().is_some_and(|(_, access)| access.affine.coefficient(line) == 1);
    let reduced = |node: &ExprNode| match &node.expr {
        Expr::Reduce(monoid, _) => {
            node.level + 1 < depth || is_reorderable(*monoid) && node.dtype.size() >= 4
        }
        Expr::Scan(..) => node.level < depth,
        Expr::Const(_) | Expr::Arg(_) | Expr::Index(_) | Expr::Inside(_) | Expr::Load(..) => true,
        Expr::Alu(..) | Expr::Cast(_) | Expr::Bitcast(_) | Expr::Checked(..) | Expr::Accumulator => true,
    };
    kernel.scatter().is_none()
        && kernel.stores.iter().all(|store| store.level < depth)
        && kernel.exprs.iter().all(reduced)
        && kernel.exprs.iter().any(along)
        && !multi_pass(kernel, &analyze(kernel), depth)
}

/// Whether parts of what a monoid combines may be combined first, whichever they are.
fn is_reorderable(monoid: Monoid) -> bool {
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => true,
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 | Monoid::LogSumExp => false,
    }
}
