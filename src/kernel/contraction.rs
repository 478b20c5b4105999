//! A contraction written as a reduction: products summed over rows, for where
//! a matrix product has nothing to share.

use crate::ir::{AluOp, Monoid};
use crate::kernel::expr::{Expr, ExprId, ExprNode};
use crate::kernel::nest::{Contraction, Kernel, KernelStore};
use crate::kernel::root::KernelRoot;

/// The kernel with a reduction over the contraction's `k` in the accumulator's
/// place; `None` for one without a contraction.
pub fn as_reduction(kernel: &Kernel) -> Option<Kernel> {
    let contraction = kernel.contraction()?;
    let mut after = vec![false; kernel.exprs.len()];
    for (i, node) in kernel.exprs.iter().enumerate() {
        let mut later = matches!(node.expr, Expr::Accumulator);
        node.expr.operands(|operand| later |= after[operand.index()]);
        after[i] = later;
    }
    let mut exprs: Vec<ExprNode> = Vec::with_capacity(kernel.exprs.len() + 2);
    let mut numbers = vec![ExprId(0); kernel.exprs.len()];
    let add = |exprs: &mut Vec<ExprNode>, node: ExprNode| {
        exprs.push(node);
        ExprId(exprs.len() as u32 - 1)
    };
    for (i, node) in kernel.exprs.iter().enumerate().filter(|(i, _)| !after[*i]) {
        let expr = node.expr.mapped(|id| numbers[id.index()], Clone::clone);
        numbers[i] = add(&mut exprs, ExprNode { expr, ..*node });
    }
    let sum = sum(contraction, &numbers, |node| add(&mut exprs, node));
    for (i, node) in kernel.exprs.iter().enumerate().filter(|(i, _)| after[*i]) {
        numbers[i] = match &node.expr {
            Expr::Accumulator => sum,
            expr => {
                let expr = expr.mapped(|id| numbers[id.index()], Clone::clone);
                add(&mut exprs, ExprNode { expr, ..*node })
            }
        };
    }
    let store = |s: &KernelStore| KernelStore { value: numbers[s.value.index()], ..s.clone() };
    let stores = kernel.stores.iter().map(store).collect();
    Some(Kernel { exprs, stores, root: KernelRoot::Elementwise, ..kernel.clone() })
}

/// The sum of the operands' products.
fn sum(contraction: &Contraction, numbers: &[ExprId], mut add: impl FnMut(ExprNode) -> ExprId) -> ExprId {
    let Contraction { a, b, dtype, .. } = contraction;
    let (a, b) = (numbers[a.index()], numbers[b.index()]);
    let product = Expr::Alu(AluOp::Mul, [a, b, a]);
    let product = add(ExprNode { expr: product, dtype: *dtype, level: 1 });
    add(ExprNode { expr: Expr::Reduce(Monoid::Sum, product), dtype: *dtype, level: 0 })
}
