//! A kernel under construction: axes, hash-consed expressions, inputs.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::expr::{Expr, ExprId, ExprNode, Guard, Within};
use crate::kernel::index::Position;
use crate::kernel::nest::{Axis, Input};

/// One dimension of the iteration space, made of one axis or, once split,
/// several.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Number of positions.
    pub extent: usize,
    /// The level, once decided: dimensions of the main store wait for the
    /// first reduction to say which of them are rows.
    pub level: Option<u8>,
    /// The axes, outermost first; none if the extent is 1.
    pub axes: SmallVec<[AxisId; 2]>,
}

/// How dimensions are split: per dimension, extents outermost first.
pub type Splits = HashMap<usize, Vec<usize>>;

/// The parts of a kernel, growing.
#[derive(Debug, Default)]
pub struct Builder {
    /// Axes; their levels are filled in by [`Builder::finish_levels`].
    pub axes: Vec<Axis>,
    /// Dimensions, in order of creation.
    pub dims: Vec<Dim>,
    /// Expressions, operands first.
    pub exprs: Vec<ExprNode>,
    /// Inputs in order of first use.
    pub inputs: Vec<Input>,
    interned: HashMap<ExprNode, ExprId>,
}

impl Builder {
    /// Adds a dimension, split as asked.
    pub fn dim(&mut self, extent: usize, level: Option<u8>, splits: &Splits) -> usize {
        let whole = [extent];
        let parts = splits.get(&self.dims.len()).map_or(&whole[..], |parts| &parts[..]);
        let mut axes = SmallVec::new();
        for &part in parts.iter().filter(|&&part| part != 1) {
            axes.push(AxisId(self.axes.len() as u16));
            self.axes.push(Axis { extent: part, level: 0 });
        }
        self.dims.push(Dim { extent, level, axes });
        self.dims.len() - 1
    }

    /// The position along a dimension.
    pub fn position(&self, dim: usize) -> Position {
        let mut affine = Affine::default();
        let mut stride = 1;
        for &axis in self.dims[dim].axes.iter().rev() {
            affine = affine.plus(&Affine::axis(axis).times(stride));
            stride *= self.axes[axis.index()].extent as i64;
        }
        affine.into()
    }

    /// The dimension an axis belongs to, and which of its axes it is.
    pub fn dim_of(&self, axis: AxisId) -> (usize, usize) {
        for (number, dim) in self.dims.iter().enumerate() {
            if let Some(place) = dim.axes.iter().position(|&a| a == axis) {
                return (number, place);
            }
        }
        panic!("axis {axis:?} belongs to no dimension of {:?}", self.dims)
    }

    /// An expression; an equal one is used again. The level counts for
    /// reductions and scans only until [`Builder::finish_levels`].
    pub fn expr(&mut self, expr: Expr, dtype: DType, level: u8) -> ExprId {
        let node = ExprNode { expr, dtype, level };
        if let Some(&id) = self.interned.get(&node) {
            return id;
        }
        let id = ExprId(self.exprs.len() as u32);
        self.interned.insert(node.clone(), id);
        self.exprs.push(node);
        id
    }

    /// A number.
    pub fn constant(&mut self, value: Scalar, dtype: DType) -> ExprId {
        self.expr(Expr::Const(value.to_bits(dtype)), dtype, 0)
    }

    /// A scalar operation whose operands have type `dtype` (`Where`: whose
    /// values have it).
    pub fn alu(&mut self, op: AluOp, result: DType, x: &[ExprId]) -> ExprId {
        let at = |i: usize| *x.get(i).unwrap_or(&x[0]);
        self.expr(Expr::Alu(op, [at(0), at(1), at(2)]), result, 0)
    }

    /// A position as an `I64` expression.
    pub fn position_expr(&mut self, position: &Position) -> ExprId {
        let has_affine = position.computed.is_empty() || position.affine != Affine::default();
        let mut sum =
            has_affine.then(|| self.expr(Expr::Index(position.affine.clone().into()), DType::I64, 0));
        for part in &position.computed {
            let factor = self.constant(Scalar::Int(part.factor), DType::I64);
            let term = match part.factor {
                1 => part.index,
                _ => self.alu(AluOp::Mul, DType::I64, &[part.index, factor]),
            };
            sum = Some(sum.map_or(term, |sum| self.alu(AluOp::Add, DType::I64, &[sum, term])));
        }
        sum.unwrap_or_else(|| self.constant(Scalar::Int(0), DType::I64))
    }

    /// An operation on an `I64` expression and a number.
    pub fn with_number(&mut self, op: AluOp, x: ExprId, number: i64) -> ExprId {
        let number = self.constant(Scalar::Int(number), DType::I64);
        self.alu(op, DType::I64, &[x, number])
    }

    /// Adds `0 <= position < extent` to a guard, where neither the axes' ranges nor
    /// what it holds already prove it. Gives the condition as an expression, or `None`
    /// if it holds wherever the guard does.
    pub fn require(&mut self, position: &Position, extent: i64, guard: &mut Guard) -> Option<ExprId> {
        if position.computed.is_empty() {
            let (low, high) = position.affine.range_of(|axis| self.positions(axis, guard));
            if low >= 0 && high < extent {
                return None;
            }
            let within = Within { value: position.affine.clone(), low: 0, high: extent };
            guard.within.push(within.clone());
            return Some(self.expr(Expr::Inside(within.into()), DType::Bool, 0));
        }
        let value = self.position_expr(position);
        let (zero, end) =
            (self.constant(Scalar::Int(0), DType::I64), self.constant(Scalar::Int(extent), DType::I64));
        let negative = self.alu(AluOp::Lt, DType::Bool, &[value, zero]);
        let not_negative = self.alu(AluOp::Not, DType::Bool, &[negative]);
        let below = self.alu(AluOp::Lt, DType::Bool, &[value, end]);
        let mask = self.alu(AluOp::And, DType::Bool, &[not_negative, below]);
        guard.masks.push(mask);
        Some(mask)
    }

    /// The first and last position of an axis that a guard leaves, as far as conditions on it
    /// alone tell; of a guard that leaves none, all.
    fn positions(&self, axis: AxisId, guard: &Guard) -> (i64, i64) {
        let all = (0, self.axes[axis.index()].extent as i64 - 1);
        let alone = guard.within.iter().filter_map(|within| within.positions(axis));
        let (first, last) = alone.fold(all, |(first, last), (low, high)| (first.max(low), last.min(high)));
        if first > last { all } else { (first, last) }
    }

    /// The conjunction of conditions; `None` if there is none.
    pub fn all(&mut self, conditions: &[ExprId]) -> Option<ExprId> {
        let (&first, rest) = conditions.split_first()?;
        Some(rest.iter().fold(first, |all, &c| self.alu(AluOp::And, DType::Bool, &[all, c])))
    }

    /// Gives every axis and expression its level, now that all dimensions
    /// have theirs (level 0 where none was decided).
    pub fn finish_levels(&mut self) {
        for dim in &self.dims {
            for axis in &dim.axes {
                self.axes[axis.index()].level = dim.level.unwrap_or(0);
            }
        }
        for i in 0..self.exprs.len() {
            self.exprs[i].level = self.exprs[i].level_among(&self.exprs, &self.axes);
        }
    }
}
