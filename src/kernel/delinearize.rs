//! Delinearization: quotients and remainders of positions become affine again. What is flattened
//! and concatenated is read at quotients and remainders of a position; in the subdomain that has
//! it alone they are positions of axes, merged and split where they divide (strip-mining).

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::expr::{Access, Expr, ExprId, ExprNode};
use crate::kernel::index::{Division, divide};
use crate::kernel::index_set_splitting::reduces_same_level;
use crate::kernel::nest::{Kernel, KernelStore, LoopAxis};
use crate::kernel::ranges::position;

/// The kernel with axes of its grid merged and split so that it divides no position of what it
/// loads; `None` where it does not, or that does not help.
pub fn delinearize(kernel: &Kernel) -> Option<Kernel> {
    let divides = |kernel: &Kernel| kernel.exprs.iter().any(|node| loads_at_quotient(kernel, node));
    let kernel = without_dead_code(kernel);
    if !divides(&kernel) {
        return None;
    }
    // Axes may be split already as other pieces divide.
    let mut split = merge_axes(kernel);
    let positions = loop {
        match affine_positions(&split) {
            Ok(positions) => break positions,
            Err((axis, inner)) => split = split_axis(&split, axis, inner),
        }
    };
    let found = with_positions(&split, &positions);
    // A reduction has to run over what it ran over.
    let same = |(i, node): (usize, &ExprNode)| {
        let runs = matches!(node.expr, Expr::Reduce(..) | Expr::Scan(..));
        !runs || reduces_same_level(&split, node, &found, ExprId(i as u32))
    };
    let runs = split.exprs.iter().enumerate().all(same);
    (runs && !divides(&found)).then_some(found)
}

/// The kernel with what its stores need alone: a subdomain still has what the others compute.
fn without_dead_code(kernel: &Kernel) -> Kernel {
    let mut needed = vec![false; kernel.exprs.len()];
    kernel.stores.iter().for_each(|store| needed[store.value.index()] = true);
    for (i, node) in kernel.exprs.iter().enumerate().rev() {
        if needed[i] {
            node.expr.operands(|operand| needed[operand.index()] = true);
        }
    }
    let mut kept = Kernel { exprs: Vec::new(), ..kernel.clone() };
    let mut numbers: Vec<ExprId> = Vec::with_capacity(kernel.exprs.len());
    for (node, needed) in kernel.exprs.iter().zip(needed) {
        numbers.push(ExprId(kept.exprs.len() as u32));
        if needed {
            let expr = node.expr.mapped(|id| numbers[id.index()], Clone::clone);
            kept.exprs.push(ExprNode { expr, ..*node });
        }
    }
    let store = |store: &KernelStore| KernelStore { value: numbers[store.value.index()], ..store.clone() };
    kept.stores = kernel.stores.iter().map(store).collect();
    kept
}

/// Whether a node loads at a quotient or remainder.
fn loads_at_quotient(kernel: &Kernel, node: &ExprNode) -> bool {
    let quotient = |id: ExprId| matches!(kernel.expr(id), Expr::Alu(AluOp::Div | AluOp::Rem, _));
    node.expr.load().is_some_and(|(_, access)| access.dynamic.iter().any(|part| quotient(part.index)))
}

/// What each expression is as a position, where it is one; or the axis that has to be split
/// first, and the extent of its inner part.
fn affine_positions(kernel: &Kernel) -> Result<Vec<Option<Affine>>, (AxisId, usize)> {
    let mut found: Vec<Option<Affine>> = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        let quotient = |found: &[Option<Affine>], x: &[ExprId; 3], remainder: bool| {
            let number =
                kernel.exprs[x[1].index()].constant().and_then(number).filter(|&number| number > 0)?;
            let value = found[x[0].index()].as_ref().filter(|value| value.range(&kernel.axes).0 >= 0)?;
            let (divisor, modulus) = if remainder { (1, number) } else { (number, i64::MAX) };
            Some(divide(value, divisor, modulus, &kernel.axes))
        };
        let Expr::Alu(op @ (AluOp::Div | AluOp::Rem), x) = &node.expr else {
            found.push(position(kernel, node, &found));
            continue;
        };
        let value = match quotient(&found, x, *op == AluOp::Rem) {
            Some(Division::Affine(value)) => Some(value),
            Some(Division::Split(axis, inner)) if kernel.axes[axis.index()].level == 0 => {
                return Err((axis, inner));
            }
            Some(Division::Split(..) | Division::NotAffine) | None => None,
        };
        found.push(value);
    }
    Ok(found)
}

fn number(value: Scalar) -> Option<i64> {
    if let Scalar::Int(value) = value { Some(value) } else { None }
}

/// The kernel with axes of its grid merged where every address runs through both contiguously.
fn merge_axes(mut kernel: Kernel) -> Kernel {
    let mut outer = 0;
    while outer + 1 < kernel.axes.len() {
        let (axis, inner) = (AxisId(outer as u16), AxisId(outer as u16 + 1));
        let [a, b] = [axis, inner].map(|axis| kernel.axes[axis.index()].clone());
        let is_contiguous = |affine: &Affine| {
            let next = affine.coefficient(inner).checked_mul(b.extent as i64);
            a.extent == 1 || b.extent == 1 || next == Some(affine.coefficient(axis))
        };
        let all = kernel.exprs.iter().all(|node| node.expr.positions().into_iter().all(is_contiguous))
            && kernel.stores.iter().all(|store| is_contiguous(&store.address));
        if (a.level, b.level, all) != (0, 0, true) {
            outer += 1;
            continue;
        }
        let before = |other: AxisId| if other > axis { AxisId(other.0 - 1) } else { other };
        kernel = renumbered(&kernel, before, |affine| {
            let gone = if b.extent == 1 { inner } else { axis };
            let terms = affine.terms.iter().filter(|term| term.0 != gone);
            let terms = terms.map(|&(other, step)| (before(other), step)).collect();
            Affine { offset: affine.offset, terms }
        });
        kernel.axes[outer].extent = a.extent * b.extent;
        kernel.axes.remove(outer + 1);
    }
    kernel
}

/// The kernel with an axis as two, the second of so many positions.
fn split_axis(kernel: &Kernel, axis: AxisId, inner: usize) -> Kernel {
    let after = |other: AxisId| if other > axis { AxisId(other.0 + 1) } else { other };
    let mut split = renumbered(kernel, after, |affine| {
        let mut terms = affine.terms.clone();
        terms.iter_mut().for_each(|term| term.0 = after(term.0));
        if let Some(at) = terms.iter().position(|term| term.0 == axis) {
            let step = terms[at].1;
            terms[at].1 = step * inner as i64;
            terms.insert(at + 1, (AxisId(axis.0 + 1), step));
        }
        Affine { offset: affine.offset, terms }
    });
    let LoopAxis { extent, level } = split.axes[axis.index()];
    split.axes[axis.index()].extent = extent / inner;
    split.axes.insert(axis.index() + 1, LoopAxis { extent: inner, level });
    split
}

/// The kernel with other positions, and other numbers of axes that scans run along.
fn renumbered(
    kernel: &Kernel,
    number: impl Fn(AxisId) -> AxisId,
    moved: impl Fn(&Affine) -> Affine,
) -> Kernel {
    let mut kernel = kernel.clone();
    for node in &mut kernel.exprs {
        node.expr = match node.expr.mapped(|id| id, &moved) {
            Expr::Scan(monoid, x, along) => Expr::Scan(monoid, x, number(along)),
            other => other,
        };
    }
    let store = |store: &KernelStore| KernelStore { address: moved(&store.address), ..store.clone() };
    kernel.stores = kernel.stores.iter().map(store).collect();
    kernel
}

/// The kernel with expressions that are positions written as such, in addresses too.
fn with_positions(kernel: &Kernel, positions: &[Option<Affine>]) -> Kernel {
    let mut written = Kernel { exprs: Vec::with_capacity(kernel.exprs.len()), ..kernel.clone() };
    for (node, position) in kernel.exprs.iter().zip(positions) {
        let expr = match (&node.expr, position) {
            (Expr::Alu(..), Some(affine)) if node.dtype == DType::I64 => Expr::Index(affine.clone().into()),
            (Expr::Load(input, access), _) => Expr::Load(*input, addressed(kernel, access, positions).into()),
            (other, _) => other.clone(),
        };
        let mut node = ExprNode { expr, ..*node };
        node.level = node.level_among(&written.exprs, &written.axes);
        written.exprs.push(node);
    }
    written
}

/// An access with the parts of its address that are positions in range.
fn addressed(kernel: &Kernel, access: &Access, positions: &[Option<Affine>]) -> Access {
    let mut access = access.clone();
    let mut affine = access.affine.clone();
    access.dynamic.retain(|part| {
        let Some(position) = &positions[part.index.index()] else { return true };
        let (low, high) = position.range(&kernel.axes);
        let inside = !part.checked || (low >= 0 && high < part.extent as i64);
        if inside {
            affine = affine.plus(&position.times(part.stride));
        }
        !inside
    });
    access.affine = affine;
    access
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Monoid;
    use crate::kernel::expr::{Dynamic, Guard};
    use crate::kernel::nest::KernelInput;

    /// The sum over `i1` of the elements at `(10 * i0 + i1) / divisor`, for 4 by 10 positions.
    fn sums(divisor: i64) -> Kernel {
        let node = |expr, dtype, level| ExprNode { expr, dtype, level };
        let place = Affine { offset: 0, terms: [(AxisId(0), 10), (AxisId(1), 1)].into_iter().collect() };
        let quotient = Dynamic { index: ExprId(2), stride: 1, extent: 40, checked: false };
        let access = Access { dynamic: vec![quotient], ..Access::default() };
        let exprs = vec![
            node(Expr::Index(place.into()), DType::I64, 1),
            node(Expr::Const(divisor as u64), DType::I64, 0),
            node(Expr::Alu(AluOp::Div, [ExprId(0), ExprId(1), ExprId(0)]), DType::I64, 1),
            node(Expr::loaded(0, access, Guard::default()), DType::F32, 1),
            node(Expr::Reduce(Monoid::Sum, ExprId(3)), DType::F32, 0),
        ];
        let address = Affine::axis(AxisId(0));
        let store = KernelStore { dtype: DType::F32, value: ExprId(4), level: 0, address, numel: 4 };
        Kernel {
            name: String::from("sums").into(),
            axes: vec![LoopAxis { extent: 4, level: 0 }, LoopAxis { extent: 10, level: 1 }].into(),
            exprs,
            inputs: vec![KernelInput { numel: 40, dtype: DType::F32 }].into(),
            stores: vec![store].into(),
            ..Kernel::default()
        }
    }

    #[test]
    fn reductions_keep_what_they_run_over() {
        // By ten, what is summed is the same at all positions of the sum.
        assert_eq!(delinearize(&sums(10)), None);
        let whole = delinearize(&sums(1)).expect("no division");
        assert!(whole.exprs.iter().all(|node| !loads_at_quotient(&whole, node)));
    }
}
