//! The values that integers of a kernel may have, from the extents of its axes (interval
//! analysis), and the checks of indices that they make needless.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::affine::Affine;
use crate::kernel::expr::{Access, Expr, ExprId, ExprNode};
use crate::kernel::nest::{Kernel, LoopAxis};

/// The least and greatest value of an expression, where known.
pub type ValueRange = Option<(i128, i128)>;

/// The range of each expression of a kernel.
pub fn ranges(kernel: &Kernel) -> Vec<ValueRange> {
    let points = |level| kernel.level_points(level);
    let space = Space { axes: &kernel.axes, exprs: &kernel.exprs, points: &points };
    let mut ranges = Vec::with_capacity(kernel.exprs.len());
    space.extend(&mut ranges, kernel.exprs.len());
    ranges
}

/// The expressions of a kernel, perhaps one that is being built.
pub struct Space<'k> {
    /// The axes.
    pub axes: &'k [LoopAxis],
    /// The expressions.
    pub exprs: &'k [ExprNode],
    /// How many points the axes of a level have.
    pub points: &'k dyn Fn(u8) -> usize,
}

impl Space<'_> {
    /// Finds the ranges of the first `count` expressions, where those of fewer are known.
    pub fn extend(&self, ranges: &mut Vec<ValueRange>, count: usize) {
        for node in self.exprs.iter().take(count).skip(ranges.len()) {
            ranges.push(range(self, node, ranges));
        }
    }
}

/// Whether all values of a range are in `0..extent`.
pub fn is_index(range: ValueRange, extent: usize) -> bool {
    range.is_some_and(|(low, high)| low >= 0 && high < extent as i128)
}

/// The kernel without checks of indices that are never out of range: those that are positions
/// become part of what the axes determine.
#[must_use]
pub fn unchecked(mut kernel: Kernel) -> Kernel {
    let checked = |access: &Access| access.dynamic.iter().any(|part| part.checked);
    if !kernel.exprs.iter().any(|node| node.expr.load().is_some_and(|(_, access)| checked(access))) {
        return kernel;
    }
    let (ranges, positions) = (ranges(&kernel), positions(&kernel));
    for i in 0..kernel.exprs.len() {
        if let Expr::Load(input, access) = &kernel.exprs[i].expr
            && checked(access)
        {
            kernel.exprs[i].expr = Expr::Load(*input, proven(access, &ranges, &positions).into());
        }
    }
    kernel
}

/// An access with the indices that are in range no longer checked.
fn proven(access: &Access, ranges: &[ValueRange], positions: &[Option<Affine>]) -> Access {
    let mut affine = access.affine.clone();
    let mut proven = access.clone();
    proven.dynamic.retain_mut(|part| {
        part.checked &= !is_index(ranges[part.index.index()], part.extent);
        let position = positions[part.index.index()].as_ref().filter(|_| !part.checked);
        if let Some(position) = position {
            affine = affine.plus(&position.times(part.stride));
        }
        position.is_none()
    });
    proven.affine = affine;
    proven
}

/// The position that each expression of a kernel is, where it is one and its type holds it at
/// every point.
pub fn positions(kernel: &Kernel) -> Vec<Option<Affine>> {
    let mut positions = Vec::with_capacity(kernel.exprs.len());
    for node in &kernel.exprs {
        positions.push(position(kernel, node, &positions));
    }
    positions
}

/// The position that an expression is, if it is one, from those of the expressions before it.
pub fn position(kernel: &Kernel, node: &ExprNode, positions: &[Option<Affine>]) -> Option<Affine> {
    let of = |id: &ExprId| positions[id.index()].as_ref();
    // Arithmetic on what fits 32 bits does not wrap in 64.
    let small = |id: &ExprId| of(id).filter(|value| fits(value.range(&kernel.axes), limits(DType::I32)));
    let number = |id: &ExprId| small(id).filter(|value| value.terms.is_empty());
    let value = match &node.expr {
        Expr::Index(affine) => Affine::clone(affine),
        Expr::Const(_) => match node.constant()? {
            Scalar::Int(value) => Affine::constant(value),
            Scalar::Bool(_) | Scalar::Float(_) => return None,
        },
        Expr::Cast(x) => of(x)?.clone(),
        Expr::Alu(AluOp::Add, [x, y, _]) => small(x)?.plus(small(y)?),
        Expr::Alu(AluOp::Sub, [x, y, _]) => small(x)?.plus(&small(y)?.times(-1)),
        Expr::Alu(AluOp::Mul, [x, y, _]) => match number(y) {
            Some(factor) => small(x)?.times(factor.offset),
            None => small(y)?.times(number(x)?.offset),
        },
        Expr::Arg(_) | Expr::Inside(_) | Expr::Load(..) | Expr::Alu(..) | Expr::Bitcast(_) => return None,
        Expr::Reduce(..) | Expr::Scan(..) | Expr::Checked(..) | Expr::Accumulator => return None,
    };
    fits(value.range(&kernel.axes), limits(node.dtype)).then_some(value)
}

/// The least and greatest value of a type of integers or truth values.
fn limits(dtype: DType) -> ValueRange {
    match dtype {
        DType::Bool => Some((0, 1)),
        DType::U8 => Some((0, u8::MAX.into())),
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        DType::U32 => Some((0, u32::MAX.into())),
        DType::I64 => Some((i64::MIN.into(), i64::MAX.into())),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
    }
}

/// Whether all values between two are in a range.
fn fits((low, high): (i64, i64), range: ValueRange) -> bool {
    range.is_some_and(|(least, most)| i128::from(low) >= least && i128::from(high) <= most)
}

/// The values that an expression of integers or truth values may have.
fn range(space: &Space<'_>, node: &ExprNode, ranges: &[ValueRange]) -> ValueRange {
    let of = |x: &ExprId| ranges[x.index()];
    let all = limits(node.dtype);
    let (least, most) = all?;
    let own = match &node.expr {
        Expr::Const(bits) => {
            let value = Scalar::from_bits(*bits, node.dtype).as_i64().into();
            Some((value, value))
        }
        Expr::Index(affine) => {
            let (low, high) = affine.range(space.axes);
            Some((low.into(), high.into()))
        }
        Expr::Alu(op, x) => {
            let (op, x) = extreme(space, *op, x);
            // A bound bounds whatever there is.
            let unknown = if matches!(op, AluOp::Max | AluOp::Min) { all } else { None };
            arithmetic(op, &x.each_ref().map(|x| of(x).or(unknown)))
        }
        Expr::Cast(x) | Expr::Checked(x, _) => of(x),
        Expr::Reduce(monoid, x) => combined(*monoid, of(x), (space.points)(node.level + 1)),
        Expr::Scan(monoid, x, axis) => combined(*monoid, of(x), space.axes[axis.index()].extent),
        Expr::Arg(_) | Expr::Inside(_) | Expr::Load(..) | Expr::Bitcast(_) | Expr::Accumulator => None,
    };
    // Arithmetic wraps beyond its type.
    let exact = own.filter(|&(low, high)| low >= least && high <= most);
    if node.dtype == DType::I64 { exact } else { exact.or(all) }
}

/// The greater or lesser of two in place of a choice by their comparison.
fn extreme(space: &Space<'_>, op: AluOp, x: &[ExprId; 3]) -> (AluOp, [ExprId; 3]) {
    if let (AluOp::Where, Expr::Alu(AluOp::Lt, compared)) = (op, &space.exprs[x[0].index()].expr) {
        let [a, b, _] = *compared;
        if x[1..] == [b, a] {
            return (AluOp::Max, *compared);
        }
        if x[1..] == [a, b] {
            return (AluOp::Min, *compared);
        }
    }
    (op, *x)
}

/// What `rows` values within `x` combine to.
fn combined(monoid: Monoid, x: ValueRange, rows: usize) -> ValueRange {
    let rows = rows as i128;
    match monoid {
        Monoid::ArgMax | Monoid::ArgMin => Some((0, (rows - 1).max(0))),
        Monoid::Sum => x.map(|(low, high)| ((low * rows).min(0), (high * rows).max(0))),
        Monoid::Max | Monoid::Min if rows > 0 => x,
        Monoid::Max | Monoid::Min | Monoid::Prod | Monoid::M2 | Monoid::LogSumExp => None,
    }
}

/// The values of an operation on integers, were there no end to them.
fn arithmetic(op: AluOp, x: &[ValueRange; 3]) -> ValueRange {
    if op == AluOp::Where {
        return chosen(x);
    }
    let (a, b) = x[0]?;
    let size = a.abs().max(b.abs());
    let (c, d) = if op.arity() > 1 { x[1]? } else { (0, 0) };
    let positive = a >= 0 && c >= 0;
    match op {
        AluOp::Where => None,
        AluOp::Add => Some((a + c, b + d)),
        AluOp::Sub => Some((a - d, b - c)),
        AluOp::Mul => {
            let products = [a * c, a * d, b * c, b * d];
            Some((*products.iter().min()?, *products.iter().max()?))
        }
        AluOp::Max => Some((a.max(c), b.max(d))),
        AluOp::Min => Some((a.min(c), b.min(d))),
        AluOp::Div if a >= 0 && c > 0 => Some((a / d, b / c)),
        AluOp::Rem if a >= 0 && c > 0 => Some((0, b.min(d - 1))),
        AluOp::Div | AluOp::Rem if positive => Some((0, b)),
        AluOp::Div | AluOp::Rem => Some((-size, size)),
        AluOp::And if positive => Some((0, b.min(d))),
        AluOp::Lt if b < c || a >= d => Some((i128::from(b < c), i128::from(b < c))),
        AluOp::Lt | AluOp::Eq => Some((0, 1)),
        AluOp::Neg => Some((-b, -a)),
        AluOp::Abs => Some((0, size)),
        AluOp::Not => Some((-1 - b, -1 - a)),
        // Shifts depend on the width; the others' ranges are wide.
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Shl | AluOp::Shr | AluOp::Pow => None,
        AluOp::Recip | AluOp::Sqrt | AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log => None,
        AluOp::Sin | AluOp::Cos | AluOp::Tanh | AluOp::Erf | AluOp::Floor | AluOp::Trunc | AluOp::Round => {
            None
        }
    }
}

/// The values of one of two, of which a condition that is known picks one.
fn chosen([condition, yes, no]: &[ValueRange; 3]) -> ValueRange {
    match condition {
        Some((1, _)) => *yes,
        Some((_, 0)) => *no,
        Some(_) | None => {
            let ((a, b), (c, d)) = (yes.as_ref()?, no.as_ref()?);
            Some((*a.min(c), *b.max(d)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Device;
    use crate::tensor::Tensor;
    use crate::tensor::testing::pattern;

    /// Of the load of rows that indices find: its text in the kernel.
    fn row(index: impl Fn(Tensor) -> Tensor) -> String {
        let index = index(Tensor::arange(0, 6, 1, Device::cpu()));
        let taken = pattern(&[8, 5], 1).index_select(0, &index);
        let plan = taken.plan().expect("a plan");
        let text = crate::kernel::print::text(plan.kernels[0].work().kernel().expect("a kernel"));
        text.lines().find_map(|line| line.split_once(" = in0[")).expect("a load").1.to_string()
    }

    #[test]
    fn indices_that_cannot_be_out_of_range_are_not_checked() {
        assert!(row(|i| i * 7 + 3).contains("!<8"), "up to 38 of 8");
        assert!(row(|i| i - 1).contains("!<8"), "-1 of 8");
        assert!(row(|i| (i * 7).clamp(0, 8)).contains("!<8"), "8 of 8");
        for within in [
            row(|i| (i * 7 - 2).clamp(0, 7)),
            row(|i| (i * 7).remainder(8)),
            row(|i| (i * 7 - 2).lt(9).to_dtype(DType::I64) * 7),
            row(|i| (i.to_dtype(DType::I32) * 3).floor_divide(2)),
        ] {
            assert!(within.contains("<8") && !within.contains('!'), "{within}");
        }
    }

    #[test]
    fn indices_that_are_positions_take_part_in_the_address() {
        for affine in [row(|i| i + 2), row(|i| (i + 2).to_dtype(DType::I32))] {
            assert!(!affine.contains('%') && affine.contains("+ 10"), "{affine}");
        }
        assert!(row(|i| i.to_dtype(DType::U8) + 251).contains("!<8"), "wraps at 256");
    }
}
