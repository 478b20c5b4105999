//! The expression DAG of a kernel: pure, hash-consed, operands first.
//!
//! Every expression has a *level*: how deep in the kernel's nest of axes its
//! value varies. Level 0 varies over the grid, level 1 over the rows of one
//! grid point, level 2 over the rows nested in those. A [`Expr::Reduce`]
//! brings a value of level `l + 1` to level `l`.

use smallvec::SmallVec;

use crate::base::{CowArc, DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::nest::LoopAxis;

/// Number of an expression of a kernel; operands have lower numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

impl ExprId {
    /// As an index into the kernel's expressions.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A condition `low <= value < high` on the axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Within {
    /// What is compared.
    pub value: Affine,
    /// The least value inside.
    pub low: i64,
    /// The first value above the inside.
    pub high: i64,
}

impl Within {
    /// The first and last position of an axis where the condition holds, which is one on that
    /// axis alone.
    pub fn positions(&self, axis: AxisId) -> Option<(i64, i64)> {
        let &[(of, step)] = &self.value.terms[..] else { return None };
        let [low, high] =
            [self.low, self.high.saturating_sub(1)].map(|x| x.saturating_sub(self.value.offset));
        let (low, high) = if step > 0 { (low, high) } else { (high.saturating_neg(), low.saturating_neg()) };
        let step = step.saturating_abs();
        // Rounded up and down.
        let first = low.saturating_neg().div_euclid(step).saturating_neg();
        (of == axis).then_some((first, high.div_euclid(step)))
    }
}

/// When a load may happen; where it may not, it gives 0 (false) and touches
/// no memory. The conjunction of all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Guard {
    /// Conditions on the axes.
    pub within: Vec<Within>,
    /// Computed conditions (`Bool` expressions).
    pub masks: SmallVec<[ExprId; 1]>,
}

impl Guard {
    /// Whether there is no condition.
    pub fn is_always(&self) -> bool {
        self.within.is_empty() && self.masks.is_empty()
    }
}

/// A computed part of an address: `index * stride`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dynamic {
    /// The position, an `I64` expression (`I32` once rendering has narrowed it).
    pub index: ExprId,
    /// Elements from one position to the next.
    pub stride: i64,
    /// Positions there are. Where `checked`, a position outside `0..extent`
    /// is clamped and recorded as the kernel's index error.
    pub extent: usize,
    /// Whether the position comes from data and may be out of range.
    pub checked: bool,
}

/// Where in a buffer an element lies, in elements, `affine + sum(dynamic.index *
/// dynamic.stride)`, and when it may be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Access {
    /// The part that the axes determine.
    pub affine: Affine,
    /// The parts that data determines.
    pub dynamic: Vec<Dynamic>,
    /// When it may be read.
    pub guard: CowArc<Guard>,
}

/// What an index must be: within `0..extent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BoundsCheck {
    /// The index, an `I64` expression (`I32` once rendering has narrowed it).
    pub index: ExprId,
    /// The first position that does not exist.
    pub extent: usize,
}

/// A pure expression. Positions are apart: most expressions have none, and kernels share those
/// that are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A number, as the bits of the expression's type.
    Const(u64),
    /// The n-th scalar argument of the launch.
    Arg(u32),
    /// An affine combination of axes, as `I64` (`I32` once rendering has
    /// narrowed it).
    Index(CowArc<Affine>),
    /// Whether a condition on the axes holds, as `Bool`.
    Inside(CowArc<Within>),
    /// An element of the n-th input.
    Load(u32, CowArc<Access>),
    /// A scalar operation; unused operands repeat the first.
    Alu(AluOp, [ExprId; 3]),
    /// Conversion to the expression's type.
    Cast(ExprId),
    /// The same bits as the expression's type.
    Bitcast(ExprId),
    /// All axes one level deeper than the expression combined, in row-major order.
    Reduce(Monoid, ExprId),
    /// Running combination along an axis, inclusive. The axis is the only
    /// one of its level.
    Scan(Monoid, ExprId, AxisId),
    /// The value of another expression; an index that is out of bounds where it is computed
    /// is recorded as the kernel's index error. For a gather of what is computed: no load of
    /// it checks the index.
    Checked(ExprId, CowArc<BoundsCheck>),
    /// The finished accumulator of the kernel's contraction.
    Accumulator,
}

/// An expression with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExprNode {
    /// What is computed.
    pub expr: Expr,
    /// The type of the value. `F16` and `BF16` values are computed and held
    /// as `F32`; only loads, casts and stores know the narrow type.
    pub dtype: DType,
    /// The level at which the value varies.
    pub level: u8,
}

// A plan of many kernels holds many.
const _: () = assert!(size_of::<ExprNode>() <= 24);

impl ExprNode {
    /// The constant's value, if it is one.
    pub fn constant(&self) -> Option<Scalar> {
        match self.expr {
            Expr::Const(bits) => Some(Scalar::from_bits(bits, self.dtype)),
            Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Inside(_)
            | Expr::Load(..)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Checked(..)
            | Expr::Accumulator => None,
        }
    }

    /// The level at which the value varies, by its axes and its operands among
    /// these; reductions and scans keep theirs.
    pub fn level_among(&self, exprs: &[ExprNode], axes: &[LoopAxis]) -> u8 {
        let of =
            |affine: &Affine| affine.terms.iter().map(|term| axes[term.0.index()].level).max().unwrap_or(0);
        let own = match &self.expr {
            Expr::Reduce(..) | Expr::Scan(..) => return self.level,
            Expr::Index(affine) => of(affine),
            Expr::Inside(within) => of(&within.value),
            Expr::Load(_, access) => {
                let within = access.guard.within.iter();
                within.map(|within| of(&within.value)).fold(of(&access.affine), u8::max)
            }
            Expr::Const(_) | Expr::Arg(_) | Expr::Accumulator | Expr::Alu(..) => 0,
            Expr::Cast(_) | Expr::Bitcast(_) | Expr::Checked(..) => 0,
        };
        let mut level = own;
        self.expr.operands(|operand| level = level.max(exprs[operand.index()].level));
        level
    }
}

impl Expr {
    /// An element of an input.
    pub fn loaded(input: u32, access: Access, guard: Guard) -> Expr {
        Expr::Load(input, Access { guard: guard.into(), ..access }.into())
    }

    /// The input and the access of a load.
    pub fn load(&self) -> Option<(u32, &Access)> {
        if let Expr::Load(input, access) = self { Some((*input, access)) } else { None }
    }

    /// Whether it may meet an index out of range.
    pub fn reports(&self) -> bool {
        let checks = |(_, access): (u32, &Access)| access.dynamic.iter().any(|part| part.checked);
        matches!(self, Expr::Checked(..)) || self.load().is_some_and(checks)
    }

    /// Calls `visit` with every operand, guards and dynamic indices included.
    pub fn operands(&self, mut visit: impl FnMut(ExprId)) {
        match self {
            Expr::Const(_) | Expr::Arg(_) | Expr::Index(_) | Expr::Inside(_) | Expr::Accumulator => {}
            Expr::Load(_, access) => {
                access.dynamic.iter().for_each(|d| visit(d.index));
                access.guard.masks.iter().copied().for_each(&mut visit);
            }
            Expr::Alu(op, x) => x[..op.arity()].iter().copied().for_each(visit),
            Expr::Cast(x) | Expr::Bitcast(x) | Expr::Reduce(_, x) | Expr::Scan(_, x, _) => visit(*x),
            Expr::Checked(x, bounded) => [*x, bounded.index].into_iter().for_each(visit),
        }
    }

    /// The positions it has of its own.
    pub fn positions(&self) -> SmallVec<[&Affine; 4]> {
        match self {
            Expr::Index(affine) => SmallVec::from_slice(&[&**affine]),
            Expr::Inside(within) => SmallVec::from_slice(&[&within.value]),
            Expr::Load(_, access) => {
                let within = access.guard.within.iter().map(|within| &within.value);
                std::iter::once(&access.affine).chain(within).collect()
            }
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Checked(..)
            | Expr::Accumulator => SmallVec::new(),
        }
    }

    /// The same with other operands and other positions.
    #[must_use]
    pub fn mapped(&self, number: impl Fn(ExprId) -> ExprId, affine: impl Fn(&Affine) -> Affine) -> Expr {
        let within = |w: &Within| Within { value: affine(&w.value), ..w.clone() };
        match self {
            Expr::Const(_) | Expr::Arg(_) | Expr::Accumulator => self.clone(),
            Expr::Index(value) => Expr::Index(affine(value).into()),
            Expr::Inside(condition) => Expr::Inside(within(condition).into()),
            Expr::Load(slot, access) => {
                let dynamic = |d: &Dynamic| Dynamic { index: number(d.index), ..d.clone() };
                let guard = Guard {
                    within: access.guard.within.iter().map(within).collect(),
                    masks: access.guard.masks.iter().map(|&mask| number(mask)).collect(),
                };
                let access = Access {
                    affine: affine(&access.affine),
                    dynamic: access.dynamic.iter().map(dynamic).collect(),
                    guard: guard.into(),
                };
                Expr::Load(*slot, access.into())
            }
            Expr::Alu(op, x) => Expr::Alu(*op, x.map(number)),
            Expr::Cast(x) => Expr::Cast(number(*x)),
            Expr::Bitcast(x) => Expr::Bitcast(number(*x)),
            Expr::Reduce(monoid, x) => Expr::Reduce(*monoid, number(*x)),
            Expr::Scan(monoid, x, axis) => Expr::Scan(*monoid, number(*x), *axis),
            Expr::Checked(x, bounded) => {
                Expr::Checked(number(*x), BoundsCheck { index: number(bounded.index), ..**bounded }.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_on_an_axis_hold_where_counting_finds() {
        let [axis, other] = [AxisId(1), AxisId(2)];
        for (offset, step) in (-9..9).flat_map(|offset| [-3, -2, -1, 1, 2, 5].map(|step| (offset, step))) {
            for (low, high) in [(0, 7), (-4, 3), (2, 3), (i64::MIN, 4), (1, i64::MAX)] {
                let value = Affine::axis(axis).times(step).plus(&Affine::constant(offset));
                let within = Within { value, low, high };
                let (first, last) = within.positions(axis).expect("an axis alone");
                for i in -30..30 {
                    let holds = (low..high).contains(&(step * i + offset));
                    assert_eq!((first..=last).contains(&i), holds, "{within:?} at {i}");
                }
                assert_eq!(within.positions(other), None);
            }
        }
        let both = Affine::axis(axis).plus(&Affine::axis(other));
        assert_eq!(Within { value: both, low: 0, high: 5 }.positions(axis), None);
    }
}
