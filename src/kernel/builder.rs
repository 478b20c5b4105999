//! A kernel under construction: axes, hash-consed expressions, inputs.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::expr::{Expr, ExprId, ExprNode, Guard, Within};
use crate::kernel::index::{Position, Positions};
use crate::kernel::nest::{KernelInput, LoopAxis};
use crate::kernel::ranges::{Space, ValueRange, is_index};

/// One dimension of the iteration space, made of one axis, or of several
/// once it is split.
#[derive(Clone, Debug)]
pub struct Dim {
    /// The axes, outermost first; none if the extent is 1.
    pub axes: SmallVec<[AxisId; 2]>,
}

/// An axis that would have to be split, the inner part of this extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredSplit {
    /// The axis.
    pub axis: AxisId,
    /// The extent of its inner part.
    pub inner: usize,
}

/// How dimensions are split: per dimension, extents outermost first.
pub type Splits = HashMap<usize, Vec<usize>>;

/// A kernel under construction.
#[derive(Debug, Default)]
pub struct KernelBuilder {
    /// Axes; their levels are filled in by [`KernelBuilder::finish_levels`].
    pub axes: Vec<LoopAxis>,
    /// The axes' levels, once decided: those of the main store wait for the first reduction to
    /// say which of them are rows.
    pub levels: Vec<Option<u8>>,
    /// Dimensions, in order of creation.
    pub dims: Vec<Dim>,
    /// Expressions, operands first.
    pub exprs: Vec<ExprNode>,
    /// Inputs in order of first use.
    pub inputs: Vec<KernelInput>,
    interned: HashMap<ExprNode, ExprId>,
    /// Of the first expressions.
    ranges: Vec<ValueRange>,
}

impl KernelBuilder {
    /// Adds a dimension, split as asked.
    pub fn dim(&mut self, extent: usize, level: Option<u8>, splits: &Splits) -> usize {
        let whole = [extent];
        let parts = splits.get(&self.dims.len()).map_or(&whole[..], |parts| &parts[..]);
        let mut axes = SmallVec::new();
        for &part in parts.iter().filter(|&&part| part != 1) {
            axes.push(AxisId(self.axes.len() as u16));
            self.axes.push(LoopAxis { extent: part, level: 0 });
            self.levels.push(level);
        }
        self.dims.push(Dim { axes });
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
    /// reductions and scans only until [`KernelBuilder::finish_levels`].
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

    /// Whether an index is in `0..extent` at every point.
    pub fn is_index(&mut self, index: ExprId, extent: usize) -> bool {
        let points = |level: u8| {
            let axes = self.axes.iter().zip(&self.levels).filter(|(_, own)| **own == Some(level));
            axes.map(|(axis, _)| axis.extent).product()
        };
        let space = Space { axes: &self.axes, exprs: &self.exprs, points: &points };
        space.extend(&mut self.ranges, index.index() + 1);
        is_index(self.ranges[index.index()], extent)
    }

    /// The position with indices that may be out of range clamped, so that any use of it is safe.
    pub fn clamped(&mut self, position: &Position) -> Position {
        let mut position = position.clone();
        for part in position.computed.iter_mut().filter(|part| part.checked) {
            if !self.is_index(part.index, part.extent) {
                let above = self.with_number(AluOp::Max, part.index, 0);
                part.index = self.with_number(AluOp::Min, above, part.extent as i64 - 1);
            }
            part.checked = false;
        }
        position
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

    /// The axes of a level, or of none yet, in order.
    pub fn axes_at(&self, level: Option<u8>) -> impl Iterator<Item = AxisId> {
        let levels = self.levels.iter().enumerate();
        levels.filter(move |(_, own)| **own == level).map(|(i, _)| AxisId(i as u16))
    }

    /// The positions along extents over which some axes run in row-major order; `None` where
    /// these are other numbers of points, or an extent ends where no split of an axis does.
    ///
    /// # Errors
    /// [`RequiredSplit`] where an axis belongs to two extents.
    pub fn along(&self, axes: &[AxisId], extents: &[usize]) -> Result<Option<Positions>, RequiredSplit> {
        let mut axes = axes.iter().map(|&axis| (axis, self.axes[axis.index()].extent));
        let points = axes.clone().map(|(_, own)| own).fold(1, usize::saturating_mul);
        if points != extents.iter().copied().fold(1, usize::saturating_mul) {
            return Ok(None);
        }
        let mut positions = Positions::new();
        for &extent in extents {
            let (mut position, mut rest) = (Affine::default(), extent);
            while rest != 1 {
                let Some((axis, own)) = axes.next() else { return Ok(None) };
                rest = match own {
                    _ if own == rest => 1,
                    _ if own > rest && own.is_multiple_of(rest) => {
                        return Err(RequiredSplit { axis, inner: own / rest });
                    }
                    _ if rest.is_multiple_of(own) => rest / own,
                    _ => return Ok(None),
                };
                position = position.plus(&Affine::axis(axis).times(rest as i64));
            }
            positions.push(position.into());
        }
        Ok(Some(positions))
    }

    /// Gives every axis and expression its level, now that all axes have theirs (level 0 where
    /// none was decided).
    pub fn finish_levels(&mut self) {
        for (axis, level) in self.axes.iter_mut().zip(&self.levels) {
            axis.level = level.unwrap_or(0);
        }
        for i in 0..self.exprs.len() {
            self.exprs[i].level = self.exprs[i].level_among(&self.exprs, &self.axes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions by what the axes, of these extents, are multiplied by.
    fn along(axes: &[usize], extents: &[usize]) -> Result<Option<Vec<Vec<i64>>>, RequiredSplit> {
        let mut builder = KernelBuilder::default();
        for &extent in axes {
            builder.axes.push(LoopAxis { extent, level: 0 });
        }
        let ids: Vec<AxisId> = (0..axes.len()).map(|i| AxisId(i as u16)).collect();
        let strides = |position: &Position| position.affine.terms.iter().map(|term| term.1).collect();
        Ok(builder.along(&ids, extents)?.map(|found| found.iter().map(strides).collect()))
    }

    #[test]
    fn axes_run_along_extents_that_join_them() {
        assert_eq!(along(&[8, 56, 7], &[3136]), Ok(Some(vec![vec![392, 7, 1]])));
        assert_eq!(along(&[8, 56, 7], &[1, 448, 7]), Ok(Some(vec![vec![], vec![56, 1], vec![1]])));
        assert_eq!(along(&[], &[1, 1]), Ok(Some(vec![vec![], vec![]])));
        assert_eq!(along(&[3, 0], &[3, 0]), Ok(Some(vec![vec![1], vec![1]])));
    }

    #[test]
    fn an_axis_of_two_extents_is_to_be_split() {
        assert_eq!(along(&[8, 56], &[56, 8]), Err(RequiredSplit { axis: AxisId(1), inner: 8 }));
        assert_eq!(along(&[12], &[2, 6]), Err(RequiredSplit { axis: AxisId(0), inner: 6 }));
    }

    #[test]
    fn axes_do_not_run_along_other_extents() {
        for (axes, extents) in [(&[2, 5][..], &[5, 2][..]), (&[4], &[5]), (&[4], &[4, 2]), (&[2, 2], &[2])] {
            assert_eq!(along(axes, extents), Ok(None), "{axes:?} {extents:?}");
        }
    }
}
