//! Index-set splitting: a kernel as several, each over a part of the grid (a subdomain) in
//! which conditions on positions are decided (Griebl, Feautrier and Lengauer
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

/// Subdomains of a kernel, at most.
const MAX_SUBDOMAINS: usize = 12;

/// A split point must decide a condition for at least one in so many positions of an axis.
const MIN_DECIDED_FRACTION: i64 = 4;

/// The kernels of the subdomains, which together write each element once, in any order; the
/// kernel itself where splitting decides nothing or its grid has fewer than `least` points. A
/// subdomain that delinearizing simplifies is split again.
pub fn split_index_set(kernel: &Kernel, least: usize) -> Vec<Kernel> {
    let subdomains = split_by_conditions(kernel, least);
    if subdomains.len() < 2 {
        return subdomains;
    }
    let mut room = MAX_SUBDOMAINS - subdomains.len();
    let mut again = |subdomain: Kernel| {
        let Some(simpler) = delinearize(&subdomain) else { return vec![subdomain] };
        let parts = split_by_conditions(&simpler, least);
        match room.checked_sub(parts.len() - 1) {
            Some(left) => room = left,
            None => return vec![simpler],
        }
        parts
    };
    subdomains.into_iter().flat_map(&mut again).collect()
}

/// The subdomains by the conditions that a kernel has as it is.
fn split_by_conditions(kernel: &Kernel, least: usize) -> Vec<Kernel> {
    let mut done = vec![kernel.clone()];
    if !kernel.is_elementwise() || kernel.level_points(0) < least.max(1) {
        return done;
    }
    let grid: Vec<AxisId> = kernel.level_axes(0).collect();
    for axis in grid.into_iter().rev() {
        done = largest_first(done, axis);
    }
    done
}

/// Kernels split along an axis where they can be, the largest first, as far as there is room.
fn largest_first(kernels: Vec<Kernel>, axis: AxisId) -> Vec<Kernel> {
    let mut order: Vec<usize> = (0..kernels.len()).collect();
    order.sort_by_key(|&i| Reverse(kernels[i].level_points(0)));
    let mut parts: Vec<Vec<Kernel>> = kernels.into_iter().map(|kernel| vec![kernel]).collect();
    let mut room = MAX_SUBDOMAINS - parts.len();
    for i in order {
        let split = split_along(&parts[i][0], axis).filter(|split| split.len() <= room + 1);
        if let Some(split) = split {
            room -= split.len() - 1;
            parts[i] = split;
        }
    }
    parts.concat()
}

/// A kernel split along an axis; `None` where a subdomain cannot be written.
fn split_along(kernel: &Kernel, axis: AxisId) -> Option<Vec<Kernel>> {
    let extent = kernel.axes[axis.index()].extent as i64;
    let mut split_points: Vec<i64> =
        conditions(kernel).iter().flat_map(|condition| split_points(kernel, condition, axis)).collect();
    split_points.sort_unstable();
    split_points.dedup();
    if split_points.is_empty() {
        return Some(vec![kernel.clone()]);
    }
    split_points.push(extent);
    let mut start = 0;
    let mut parts = Vec::new();
    for end in split_points {
        parts.push(restrict(kernel, axis, start, end)?);
        start = end;
    }
    Some(parts)
}

/// Every condition on positions in a kernel.
fn conditions(kernel: &Kernel) -> Vec<Within> {
    let mut found = Vec::new();
    let positions = positions(kernel);
    let of = |id: ExprId| positions[id.index()].as_ref();
    for node in &kernel.exprs {
        match &node.expr {
            Expr::Inside(within) => found.push(Within::clone(within)),
            Expr::Load(_, access) => found.extend(access.guard.within.iter().cloned()),
            Expr::Alu(AluOp::Lt, x) => found.extend(comparison(of(x[0]), of(x[1]))),
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
fn comparison(x: Option<&Affine>, y: Option<&Affine>) -> Option<Within> {
    let (x, y) = (x?.clone(), y?.clone());
    match (&x.terms[..], &y.terms[..]) {
        (_, []) => Some(Within { value: x, low: i64::MIN, high: y.offset }),
        ([], _) => Some(Within { value: y, low: x.offset.checked_add(1)?, high: i64::MAX }),
        _ => None,
    }
}

/// Where along an axis a condition begins or ends to be decided.
fn split_points(kernel: &Kernel, condition: &Within, axis: AxisId) -> SmallVec<[i64; 4]> {
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
        if step > 0 {
            div_ceil_positive(need, step)
        } else {
            need.saturating_neg().div_euclid(-step).saturating_add(1)
        }
    };
    let bounds = [condition.low, condition.high];
    let found = bounds.into_iter().flat_map(|bound| [reach(bound, least), reach(bound, most)]);
    // From this far on the axis is decided on one side at least.
    found.filter(|&point| point > 0 && point < extent && decides(kernel, condition, axis, point)).collect()
}

/// Whether a condition is decided for a good part of an axis on one side of a split point;
/// other points may bound that side further.
fn decides(kernel: &Kernel, condition: &Within, axis: AxisId, point: i64) -> bool {
    let extent = kernel.axes[axis.index()].extent as i64;
    let decided = |at: i64| {
        let mut value = condition.value.clone();
        rebase(&mut value, axis, at, true);
        known_truth(&Within { value, ..condition.clone() }, kernel).is_some()
    };
    let worth = |length: i64| length * MIN_DECIDED_FRACTION >= extent;
    (worth(point) && decided(point - 1)) || (worth(extent - point) && decided(point))
}

/// `numerator / step` rounded up, for a positive step.
fn div_ceil_positive(numerator: i64, step: i64) -> i64 {
    numerator.div_euclid(step).saturating_add(i64::from(numerator.rem_euclid(step) != 0))
}

/// Whether a condition holds at every point, or at none.
fn known_truth(condition: &Within, kernel: &Kernel) -> Option<bool> {
    let (low, high) = condition.value.range(&kernel.axes);
    if low >= condition.low && high < condition.high {
        return Some(true);
    }
    (high < condition.low || low >= condition.high).then_some(false)
}

/// Moves an axis of an affine value to begin at `start`; `single` where the
/// axis has one position left and so no term.
fn rebase(affine: &mut Affine, axis: AxisId, start: i64, single: bool) {
    let step = affine.coefficient(axis);
    affine.offset = affine.offset.wrapping_add(step.wrapping_mul(start));
    if single {
        affine.terms.retain(|term| term.0 != axis);
    }
}

/// A kernel over a stretch of one axis, its decided conditions gone; `None`
/// where a reduction would be left without what it runs over, or one of several
/// outputs would become a copy.
fn restrict(kernel: &Kernel, axis: AxisId, start: i64, end: i64) -> Option<Kernel> {
    let mut subdomain = Kernel { exprs: Vec::new(), ..kernel.clone() };
    subdomain.axes[axis.index()].extent = (end - start) as usize;
    let moved = |affine: &Affine| {
        let mut affine = affine.clone();
        rebase(&mut affine, axis, start, end - start == 1);
        affine
    };
    let mut numbers: Vec<ExprId> = Vec::with_capacity(kernel.exprs.len());
    let mut positions = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        let expr = node.expr.mapped(|id| numbers[id.index()], moved);
        let same = ExprNode { expr, ..*node };
        let id = simplified(&mut subdomain, same, &positions);
        if let Some(added) = subdomain.exprs.get(positions.len()) {
            positions.push(position(&subdomain, added, &positions));
        }
        if matches!(node.expr, Expr::Reduce(..) | Expr::Scan(..))
            && !reduces_same_level(kernel, node, &subdomain, id)
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
    subdomain.stores = kernel.stores.iter().map(store).collect();
    // Outputs may lie over inputs that others copy only where none is a copy.
    let copies = |kernel: &Kernel| kernel.stores.iter().filter(|s| kernel.is_copy(s.value)).count();
    (kernel.stores.len() == 1 || copies(&subdomain) == copies(kernel)).then_some(subdomain)
}

/// Whether a reduction's or scan's operand varies over as deep a level as before.
pub(super) fn reduces_same_level(kernel: &Kernel, node: &ExprNode, subdomain: &Kernel, id: ExprId) -> bool {
    let level = |kernel: &Kernel, expr: &Expr| {
        let mut level = None;
        expr.operands(|operand| level = Some(kernel.exprs[operand.index()].level));
        level
    };
    level(kernel, &node.expr) == level(subdomain, &subdomain.exprs[id.index()].expr)
}

/// Adds an expression to a subdomain, of which some expressions are positions, or finds what it
/// simplifies to.
fn simplified(subdomain: &mut Kernel, mut node: ExprNode, positions: &[Option<Affine>]) -> ExprId {
    let position = |id: ExprId| positions[id.index()].as_ref();
    let truth = |id: ExprId| subdomain.exprs[id.index()].constant().map(|value| value.as_i64() != 0);
    let decided = |value: bool| Expr::Const(Scalar::Bool(value).to_bits(DType::Bool));
    let expr = match &mut node.expr {
        Expr::Inside(within) => known_truth(within, subdomain).map(decided),
        Expr::Load(_, access) => simplify_guard(subdomain, &mut access.guard).then(|| Expr::Const(0)),
        Expr::Alu(AluOp::Where, x) => match truth(x[0]) {
            Some(true) => return x[1],
            Some(false) => return x[2],
            None => None,
        },
        Expr::Alu(AluOp::Lt, x) => comparison(position(x[0]), position(x[1]))
            .and_then(|within| known_truth(&within, subdomain))
            .map(decided),
        Expr::Alu(op @ (AluOp::And | AluOp::Or), x) if node.dtype == DType::Bool => {
            match (truth(x[0]), truth(x[1]), *op == AluOp::And) {
                (Some(true), _, true) | (Some(false), _, false) => return x[1],
                (_, Some(true), true) | (_, Some(false), false) => return x[0],
                (Some(value), ..) | (_, Some(value), _) => Some(decided(value)),
                (None, None, _) => None,
            }
        }
        // A gather outside of the subdomain.
        Expr::Checked(x, bounded) => match subdomain.exprs[bounded.index.index()].constant() {
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
    node.level = node.level_among(&subdomain.exprs, &subdomain.axes);
    subdomain.exprs.push(node);
    ExprId(subdomain.exprs.len() as u32 - 1)
}

/// Takes the decided conditions out of a guard; whether it never holds.
fn simplify_guard(subdomain: &Kernel, guard: &mut Guard) -> bool {
    let mut never = false;
    guard.within.retain(|within| match known_truth(within, subdomain) {
        Some(always) => {
            never |= !always;
            false
        }
        None => true,
    });
    guard.masks.retain(|mask| match subdomain.exprs[mask.index()].constant() {
        Some(value) => {
            never |= value.as_i64() == 0;
            false
        }
        None => true,
    });
    never
}
