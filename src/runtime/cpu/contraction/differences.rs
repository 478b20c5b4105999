//! Distances between all rows of two matrices: sums of squares, or magnitudes, of differences
//! share what they read as matrix products do, so the loops of products compute them.

use crate::base::{DType, Precision};
use crate::ir::{AluOp, Monoid};
use crate::kernel::{AxisId, Contraction, Expr, ExprId, Kernel};
use crate::runtime::cpu::contraction::terms::SummedTerms;
use crate::runtime::cpu::thresholds::{DISTANCE_MIN_K, DISTANCE_MIN_ROWS};
use crate::runtime::cpu::tile::analysis::{analyze, bit};

/// A kernel whose one reduction sums such terms, with a contraction of them in its place.
pub fn of(kernel: &Kernel) -> Option<(Kernel, Contraction, SummedTerms)> {
    let flat = kernel.depth() == 1 && kernel.stores.iter().all(|store| store.level == 0);
    if !kernel.is_elementwise() || !flat {
        return None;
    }
    let (at, term) = only_sum(kernel)?;
    let (terms, [a, b]) = difference(kernel, term)?;
    let contraction = contraction(kernel, [a, b])?;
    let [m, n, k] = [&contraction.m, &contraction.n, &contraction.k].map(|axes| kernel.points_of(axes));
    if m.min(n) < DISTANCE_MIN_ROWS || k < DISTANCE_MIN_K {
        return None;
    }
    let mut summed = kernel.clone();
    summed.exprs[at.index()].expr = Expr::Accumulator;
    Some((summed, contraction, terms))
}

/// The one reduction, a sum of 32-bit floats, and what it sums.
fn only_sum(kernel: &Kernel) -> Option<(ExprId, ExprId)> {
    let combines = |expr: &Expr| matches!(expr, Expr::Reduce(..) | Expr::Scan(..));
    let mut found = kernel.exprs.iter().enumerate().filter(|(_, node)| combines(&node.expr));
    let (at, node) = found.next().filter(|(_, node)| node.dtype == DType::F32)?;
    let Expr::Reduce(Monoid::Sum, term) = node.expr else { return None };
    found.next().is_none().then_some((ExprId(at as u32), term))
}

/// What is made of which difference.
fn difference(kernel: &Kernel, term: ExprId) -> Option<(SummedTerms, [ExprId; 2])> {
    let (op, [x, y]) = alu(kernel, term)?;
    let (terms, difference) = if op == AluOp::Mul && x == y {
        (SummedTerms::SquaredDifferences, x)
    } else if op == AluOp::Abs {
        (SummedTerms::AbsoluteDifferences, x)
    } else {
        return None;
    };
    alu(kernel, difference).filter(|(op, _)| *op == AluOp::Sub).map(|(_, operands)| (terms, operands))
}

/// The operation that a value is, and its first two operands.
fn alu(kernel: &Kernel, id: ExprId) -> Option<(AluOp, [ExprId; 2])> {
    let Expr::Alu(op, [a, b, _]) = *kernel.expr(id) else { return None };
    Some((op, [a, b]))
}

/// The contraction of two values, if each axis of the result belongs to one of them or both.
fn contraction(kernel: &Kernel, [a, b]: [ExprId; 2]) -> Option<Contraction> {
    let facts = analyze(kernel);
    let along = |value: ExprId, axis: AxisId| facts.axes[value.index()] & bit(axis) != 0;
    let (mut batch, mut m, mut n) = (Vec::new(), Vec::new(), Vec::new());
    for axis in kernel.level_axes(0) {
        match (along(a, axis), along(b, axis)) {
            (true, true) => batch.push(axis),
            (true, false) => m.push(axis),
            (false, true) => n.push(axis),
            (false, false) => return None,
        }
    }
    let (dtype, precision, k) = (DType::F32, Precision::Strict, kernel.level_axes(1).collect());
    Some(Contraction { a, b, dtype, precision, batch, m, n, k })
}
