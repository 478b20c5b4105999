//! A kernel in pieces, each over a part of the grid in which conditions on
//! positions are decided: index set splitting (Griebl, Feautrier and Lengauer
//! 2000). What joins, pads or slides a window then computes only what is there.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::delinearize::delinearize;
use crate::kernel::expr::{Expr, ExprId, ExprNode, Guard, Within};
use crate::kernel::nest::{Kernel, KernelStore};
use crate::kernel::ranges::{position, positions};

/// Pieces of a kernel at most.
const MOST: usize = 12;

/// A cut must decide a condition for at least one part in so many of an axis.
const WORTH: i64 = 4;

/// The pieces of a kernel, which together write each element once, in any
/// order; the kernel itself where nothing is decided by cutting it or its grid
/// has fewer than `least` points. A piece that divides positions no longer is cut again.
pub fn split_index_set(kernel: &Kernel, least: usize) -> Vec<Kernel> {
    let first = cut(kernel, least);
    if first.len() < 2 {
        return first;
    }
    let mut room = MOST - first.len();
    let mut again = |piece: Kernel| {
        let Some(regular) = delinearize(&piece) else { return vec![piece] };
        let parts = cut(&regular, least);
        match room.checked_sub(parts.len() - 1) {
            Some(left) => room = left,
            None => return vec![regular],
        }
        parts
    };
    first.into_iter().flat_map(&mut again).collect()
}

/// The pieces by the conditions that a kernel asks for as it is.
fn cut(kernel: &Kernel, least: usize) -> Vec<Kernel> {
    let special = kernel.contraction.is_some() || kernel.attention.is_some() || kernel.scatter.is_some();
    let mut done = vec![kernel.clone()];
    if special || kernel.level_points(0) < least.max(1) {
        return done;
    }
    let grid: Vec<AxisId> = kernel.level_axes(0).collect();
    for axis in grid.into_iter().rev() {
        done = largest_first(done, axis);
    }
    done
}

/// Kernels with those cut along an axis that can be, as far as there is room for their parts.
fn largest_first(kernels: Vec<Kernel>, axis: AxisId) -> Vec<Kernel> {
    let mut order: Vec<usize> = (0..kernels.len()).collect();
    order.sort_by_key(|&i| Reverse(kernels[i].level_points(0)));
    let mut parts: Vec<Vec<Kernel>> = kernels.into_iter().map(|kernel| vec![kernel]).collect();
    let mut room = MOST - parts.len();
    for i in order {
        let cut = along(&parts[i][0], axis).filter(|cut| cut.len() <= room + 1);
        if let Some(cut) = cut {
            room -= cut.len() - 1;
            parts[i] = cut;
        }
    }
    parts.concat()
}

/// A kernel in pieces along an axis; `None` where one cannot be written.
fn along(kernel: &Kernel, axis: AxisId) -> Option<Vec<Kernel>> {
    let extent = kernel.axes[axis.index()].extent as i64;
    let mut cuts: Vec<i64> =
        conditions(kernel).iter().flat_map(|condition| cuts(kernel, condition, axis)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    if cuts.is_empty() {
        return Some(vec![kernel.clone()]);
    }
    cuts.push(extent);
    let mut start = 0;
    let mut parts = Vec::new();
    for end in cuts {
        parts.push(part(kernel, axis, start, end)?);
        start = end;
    }
    Some(parts)
}

/// Every condition on positions that a kernel asks for.
fn conditions(kernel: &Kernel) -> Vec<Within> {
    let mut found = Vec::new();
    let positions = positions(kernel);
    let of = |id: ExprId| positions[id.index()].as_ref();
    for node in &kernel.exprs {
        match &node.expr {
            Expr::Inside(within) => found.push(Within::clone(within)),
            Expr::Load(_, access) => found.extend(access.guard.within.iter().cloned()),
            Expr::Alu(AluOp::Lt, x) => found.extend(below(of(x[0]), of(x[1]))),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Checked(..)
            | Expr::Accumulator => {}
        }
    }
    found
}

/// A comparison of a position with a number, as a condition.
fn below(x: Option<&Affine>, y: Option<&Affine>) -> Option<Within> {
    let (x, y) = (x?.clone(), y?.clone());
    match (&x.terms[..], &y.terms[..]) {
        (_, []) => Some(Within { value: x, low: i64::MIN, high: y.offset }),
        ([], _) => Some(Within { value: y, low: x.offset.checked_add(1)?, high: i64::MAX }),
        _ => None,
    }
}

/// Where along an axis a condition begins or ends to be decided.
fn cuts(kernel: &Kernel, condition: &Within, axis: AxisId) -> SmallVec<[i64; 4]> {
    let extent = kernel.axes[axis.index()].extent as i64;
    let step = condition.value.coefficient(axis);
    if step == 0 {
        return SmallVec::new();
    }
    // What the other axes add.
    let mut rest = condition.value.clone();
    rest.terms.retain(|term| term.0 != axis);
    let (least, most) = rest.range(&kernel.axes);
    // The first position from which `step * position + rest` reaches a bound
    // for some, or for all, of the rest; for negative steps, no longer does.
    let reach = |bound: i64, rest: i64| {
        let need = bound.saturating_sub(rest);
        if step > 0 { ceiling(need, step) } else { need.saturating_neg().div_euclid(-step).saturating_add(1) }
    };
    let bounds = [condition.low, condition.high];
    let found = bounds.into_iter().flat_map(|bound| [reach(bound, least), reach(bound, most)]);
    // From this far on the axis is decided on one side at least.
    found.filter(|&cut| cut > 0 && cut < extent && decides(kernel, condition, axis, cut)).collect()
}

/// Whether a condition is decided for a good part of an axis on one side of a
/// cut; other cuts may bound that side further.
fn decides(kernel: &Kernel, condition: &Within, axis: AxisId, cut: i64) -> bool {
    let extent = kernel.axes[axis.index()].extent as i64;
    let decided = |beside: i64| {
        let mut value = condition.value.clone();
        shift(&mut value, axis, beside, true);
        holds(&Within { value, ..condition.clone() }, kernel).is_some()
    };
    let worth = |length: i64| length * WORTH >= extent;
    (worth(cut) && decided(cut - 1)) || (worth(extent - cut) && decided(cut))
}

/// `numerator / step` rounded up, for a positive step.
fn ceiling(numerator: i64, step: i64) -> i64 {
    numerator.div_euclid(step).saturating_add(i64::from(numerator.rem_euclid(step) != 0))
}

/// Whether a condition holds at every point, or at none.
fn holds(condition: &Within, kernel: &Kernel) -> Option<bool> {
    let (low, high) = condition.value.range(&kernel.axes);
    if low >= condition.low && high < condition.high {
        return Some(true);
    }
    (high < condition.low || low >= condition.high).then_some(false)
}

/// Moves an axis of an affine value to begin at `start`; `single` where the
/// axis has one position left and so no term.
fn shift(affine: &mut Affine, axis: AxisId, start: i64, single: bool) {
    let step = affine.coefficient(axis);
    affine.offset = affine.offset.wrapping_add(step.wrapping_mul(start));
    if single {
        affine.terms.retain(|term| term.0 != axis);
    }
}

/// A kernel over a stretch of one axis, its decided conditions gone; `None`
/// where a reduction would be left without what it runs over, or one of several
/// outputs would become a copy.
fn part(kernel: &Kernel, axis: AxisId, start: i64, end: i64) -> Option<Kernel> {
    let mut piece = Kernel { exprs: Vec::new(), ..kernel.clone() };
    piece.axes[axis.index()].extent = (end - start) as usize;
    let moved = |affine: &Affine| {
        let mut affine = affine.clone();
        shift(&mut affine, axis, start, end - start == 1);
        affine
    };
    let mut numbers: Vec<ExprId> = Vec::with_capacity(kernel.exprs.len());
    let mut positions = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        let expr = node.expr.mapped(|id| numbers[id.index()], moved);
        let same = ExprNode { expr, ..*node };
        let id = simplified(&mut piece, same, &positions);
        if let Some(added) = piece.exprs.get(positions.len()) {
            positions.push(position(&piece, added, &positions));
        }
        if matches!(node.expr, Expr::Reduce(..) | Expr::Scan(..))
            && !runs_over_the_same(kernel, node, &piece, id)
        {
            return None;
        }
        numbers.push(id);
    }
    let store = |s: &KernelStore| KernelStore {
        value: numbers[s.value.index()],
        address: moved(&s.address),
        ..s.clone()
    };
    piece.stores = kernel.stores.iter().map(store).collect();
    // Outputs may lie over inputs that others copy only where none is a copy.
    let copies = |kernel: &Kernel| kernel.stores.iter().filter(|s| kernel.is_copy(s.value)).count();
    (kernel.stores.len() == 1 || copies(&piece) == copies(kernel)).then_some(piece)
}

/// Whether a reduction's or scan's operand varies over as deep a level as before.
pub(super) fn runs_over_the_same(kernel: &Kernel, node: &ExprNode, piece: &Kernel, id: ExprId) -> bool {
    let level = |kernel: &Kernel, expr: &Expr| {
        let mut level = None;
        expr.operands(|operand| level = Some(kernel.exprs[operand.index()].level));
        level
    };
    level(kernel, &node.expr) == level(piece, &piece.exprs[id.index()].expr)
}

/// Adds an expression to a piece, of which some expressions are positions, or finds what it is
/// the same as.
fn simplified(piece: &mut Kernel, mut node: ExprNode, positions: &[Option<Affine>]) -> ExprId {
    let position = |id: ExprId| positions[id.index()].as_ref();
    let truth = |id: ExprId| piece.exprs[id.index()].constant().map(|value| value.as_i64() != 0);
    let decided = |value: bool| Expr::Const(Scalar::Bool(value).to_bits(DType::Bool));
    let expr = match &mut node.expr {
        Expr::Inside(within) => holds(within, piece).map(decided),
        Expr::Load(_, access) => settle(piece, &mut access.guard).then(|| Expr::Const(0)),
        Expr::Alu(AluOp::Where, x) => match truth(x[0]) {
            Some(true) => return x[1],
            Some(false) => return x[2],
            None => None,
        },
        Expr::Alu(AluOp::Lt, x) => {
            below(position(x[0]), position(x[1])).and_then(|within| holds(&within, piece)).map(decided)
        }
        Expr::Alu(op @ (AluOp::And | AluOp::Or), x) if node.dtype == DType::Bool => {
            match (truth(x[0]), truth(x[1]), *op == AluOp::And) {
                (Some(true), _, true) | (Some(false), _, false) => return x[1],
                (_, Some(true), true) | (_, Some(false), false) => return x[0],
                (Some(value), ..) | (_, Some(value), _) => Some(decided(value)),
                (None, None, _) => None,
            }
        }
        // A gather outside of the piece.
        Expr::Checked(x, bounded) => match piece.exprs[bounded.index.index()].constant() {
            Some(index) if (0..bounded.extent as i64).contains(&index.as_i64()) => return *x,
            Some(_) | None => None,
        },
        Expr::Alu(AluOp::Not, x) if node.dtype == DType::Bool => truth(x[0]).map(|value| decided(!value)),
        Expr::Alu(..)
        | Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Index(_)
        | Expr::Cast(_)
        | Expr::Bitcast(_)
        | Expr::Reduce(..)
        | Expr::Scan(..)
        | Expr::Accumulator => None,
    };
    if let Some(expr) = expr {
        node = ExprNode { expr, level: 0, ..node };
    }
    node.level = node.level_among(&piece.exprs, &piece.axes);
    piece.exprs.push(node);
    ExprId(piece.exprs.len() as u32 - 1)
}

/// Takes the decided conditions out of a guard; whether it never holds.
fn settle(piece: &Kernel, guard: &mut Guard) -> bool {
    let mut never = false;
    guard.within.retain(|within| match holds(within, piece) {
        Some(always) => {
            never |= !always;
            false
        }
        None => true,
    });
    guard.masks.retain(|mask| match piece.exprs[mask.index()].constant() {
        Some(value) => {
            never |= value.as_i64() == 0;
            false
        }
        None => true,
    });
    never
}
