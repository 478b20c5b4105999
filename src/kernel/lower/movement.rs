//! Movement: positions in the result become positions in the operand.

use std::sync::Arc;

use crate::base::{DType, Scalar, Shape};
use crate::ir::op::{PadAxis, WindowAxis};
use crate::ir::{AluOp, Monoid, NodeId, Op};
use crate::kernel::expr::ExprId;
use crate::kernel::index::{Computed, Division, MixedRadixDigit, Position, Positions, divide, linear};
use crate::kernel::lower::{Lowered, Lowerer, Stop};

/// The operand's positions, for movement that only rearranges.
pub fn operand_positions(op: &Op, operand: &Shape, at: &Positions) -> Positions {
    match op {
        Op::Permute(order) => {
            let mut moved = at.clone();
            for (i, &axis) in order.iter().enumerate() {
                moved[usize::from(axis)] = at[i].clone();
            }
            moved
        }
        Op::Expand(_) => {
            let lead = at.len() - operand.rank();
            let from = |(i, &extent): (usize, &usize)| {
                if extent == 1 { Position::default() } else { at[lead + i].clone() }
            };
            operand.iter().enumerate().map(from).collect()
        }
        Op::Slice(axes) => {
            let from =
                |(p, s): (&Position, &crate::ir::SliceAxis)| p.times(s.step as i64).offset(s.start as i64);
            at.iter().zip(axes).map(from).collect()
        }
        Op::Flip(axes) => {
            let from = |(i, p): (usize, &Position)| {
                if axes.contains(&(i as u8)) { p.times(-1).offset(operand[i] as i64 - 1) } else { p.clone() }
            };
            at.iter().enumerate().map(from).collect()
        }
        Op::Window(window) => {
            let mut moved = at.clone();
            let element = moved.pop().unwrap_or_default().times(window.dilation as i64);
            let axis = usize::from(window.axis);
            moved[axis] = moved[axis].times(window.stride as i64).plus(&element);
            moved
        }
        Op::Const(..)
        | Op::Arg(..)
        | Op::Iota(..)
        | Op::Leaf(_)
        | Op::Param(..)
        | Op::Alu(_)
        | Op::Cast(_)
        | Op::Bitcast(_)
        | Op::Reshape(_)
        | Op::Pad(_)
        | Op::Unwindow(..)
        | Op::Reduce(..)
        | Op::Scan(..)
        | Op::Contract(_)
        | Op::Gather(_)
        | Op::Scatter(..)
        | Op::Sort { .. }
        | Op::Copy(_)
        | Op::Collective(_)
        | Op::After
        | Op::Pack(_)
        | Op::Loop(..)
        | Op::Composite(..)
        | Op::Custom(..) => panic!("{} does not only rearrange", op.name()),
    }
}

impl Lowerer<'_, '_> {
    /// The operand of a reshape to `shape`: runs of axes with equal products
    /// correspond; within a run, the row-major number is delinearized again.
    pub(crate) fn reshape(
        &mut self,
        operand: NodeId,
        shape: &Shape,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let from = self.shape(operand);
        if from.numel() == 0 {
            let dtype = self.request.graph.ty(operand).dtype;
            return Ok(self.builder.constant(Scalar::Int(0), dtype));
        }
        let mut moved = Positions::new();
        let mut result = 0;
        while moved.len() < from.rank() {
            let (outs, ins) = matching_prefix(&shape[result..], &from[moved.len()..]);
            let part = Shape::new(&shape[result..result + outs]);
            let number = linear(&at[result..result + outs], &part);
            let targets = Shape::new(&from[moved.len()..moved.len() + ins]);
            self.delinearize(&number, &targets, &mut moved)?;
            result += outs;
        }
        self.value(operand, &moved, guard)
    }

    /// Positions along axes of these extents, from a row-major number.
    fn delinearize(&mut self, number: &Position, extents: &Shape, moved: &mut Positions) -> Lowered<()> {
        let (mut whole, count) = (None, extents.numel() as i64);
        for (&extent, &stride) in extents.iter().zip(&extents.strides()) {
            let position = if extent == 1 {
                Position::default()
            } else if extents.iter().filter(|&&e| e != 1).count() == 1 {
                number.clone()
            } else {
                let mut digit = self.quotient(number, stride, extent)?;
                for part in &mut digit.computed {
                    let number = whole.get_or_insert_with(|| Arc::new(number.clone())).clone();
                    part.digit = Some(MixedRadixDigit { number, divisor: stride, count });
                }
                digit
            };
            moved.push(position);
        }
        Ok(())
    }

    /// `number / divisor mod extent`.
    pub(crate) fn quotient(&mut self, number: &Position, divisor: i64, extent: usize) -> Lowered<Position> {
        if number.computed.is_empty() {
            match divide(&number.affine, divisor, extent as i64, &self.builder.axes) {
                Division::Affine(affine) => return Ok(affine.into()),
                Division::Split(axis, inner) if self.scan_axis != Some(axis) => {
                    return Err(Stop::Split(axis, inner));
                }
                Division::Split(..) | Division::NotAffine => {}
            }
        }
        let number = self.builder.clamped(number);
        let value = self.builder.position_expr(&number);
        let over = self.builder.with_number(AluOp::Div, value, divisor);
        let index = self.builder.with_number(AluOp::Rem, over, extent as i64);
        Ok(computed(index, extent, false))
    }

    /// Padding: a condition on the position, and a value where it holds.
    pub(crate) fn pad(
        &mut self,
        id: NodeId,
        axes: &[PadAxis],
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        let (operand, fill) = (node.operands[0], node.operands[1]);
        let shape = self.shape(operand);
        let mut narrowed = self.guards[guard].clone();
        let mut conditions = Vec::new();
        let mut moved = Positions::new();
        for ((position, axis), &extent) in at.iter().zip(axes).zip(shape.iter()) {
            let shifted = self.builder.clamped(position).offset(-axis.lo);
            let gap = axis.interior as i64 + 1;
            let inner = if gap == 1 || extent <= 1 {
                shifted
            } else {
                let (inner, exact) = self.dilated(&shifted, gap, extent);
                conditions.push(exact);
                narrowed.masks.push(exact);
                inner
            };
            conditions.extend(self.builder.require(&inner, extent as i64, &mut narrowed));
            moved.push(inner);
        }
        let fill = self.value(fill, &Positions::new(), guard)?;
        if shape.numel() == 0 {
            return Ok(fill);
        }
        let Some(condition) = self.builder.all(&conditions) else {
            return self.value(operand, &moved, guard);
        };
        let inside = self.guard(narrowed);
        let value = self.value(operand, &moved, inside)?;
        Ok(self.choose(condition, value, fill, node.ty.dtype))
    }

    /// The position among elements that lie `gap` apart, and whether there
    /// is an element at all.
    fn dilated(&mut self, position: &Position, gap: i64, extent: usize) -> (Position, ExprId) {
        // One period further keeps the numbers positive, so that truncating
        // division is flooring division; positions before the first element
        // then give -1 or less and fail the range check.
        let (low, _) = position.affine.range(&self.builder.axes);
        let periods = (-low.min(0) + gap - 1) / gap;
        let value = self.builder.position_expr(&position.offset(periods * gap));
        let remainder = self.builder.with_number(AluOp::Rem, value, gap);
        let zero = self.builder.constant(Scalar::Int(0), DType::I64);
        let exact = self.builder.alu(AluOp::Eq, DType::Bool, &[remainder, zero]);
        let over = self.builder.with_number(AluOp::Div, value, gap);
        (computed(over, extent + periods as usize, false).offset(-periods), exact)
    }

    /// The adjoint of a window: a sum over the taps that reach a position.
    pub(crate) fn unwindow(
        &mut self,
        id: NodeId,
        window: &WindowAxis,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        let operand = node.operands[0];
        let axis = usize::from(window.axis);
        let rows = self.rows(id, &[window.size], at, guard)?;
        let tap = rows.positions[0].times(-(window.dilation as i64));
        let start = self.builder.clamped(&at[axis]).plus(&tap);
        let count = self.shape(operand)[axis];
        let mut narrowed = self.guards[guard].clone();
        let mut conditions = Vec::new();
        let position = if window.stride == 1 {
            start
        } else {
            let (position, exact) = self.dilated(&start, window.stride as i64, count);
            conditions.push(exact);
            narrowed.masks.push(exact);
            position
        };
        conditions.extend(self.builder.require(&position, count as i64, &mut narrowed));
        let mut moved = at.clone();
        moved[axis] = position;
        moved.push(rows.positions[0].clone());
        let inside = self.guard(narrowed);
        let dtype = node.ty.dtype;
        let value = if count == 0 {
            self.builder.constant(Scalar::Int(0), dtype)
        } else {
            self.value(operand, &moved, inside)?
        };
        let zero = self.builder.constant(Scalar::Int(0), dtype);
        let value = match self.builder.all(&conditions) {
            Some(condition) => self.choose(condition, value, zero, dtype),
            None => value,
        };
        Ok(match window.size {
            // A reduction without axes would take those of another below it.
            1 if dtype.is_float() => self.builder.alu(AluOp::Add, dtype, &[value, zero]),
            1 => value,
            _ => self.reduction(Monoid::Sum, value, dtype, rows.level),
        })
    }
}

/// A position that an expression gives.
pub fn computed(index: ExprId, extent: usize, checked: bool) -> Position {
    let part = Computed { index, factor: 1, extent, checked, digit: None };
    Position { computed: smallvec::smallvec![part], ..Position::default() }
}

/// How many leading extents of each list have equal products; at least one
/// of the second list.
fn matching_prefix(outs: &[usize], ins: &[usize]) -> (usize, usize) {
    let (mut i, mut j) = (0, 1);
    let (mut out, mut inn) = (1usize, ins[0]);
    loop {
        if out < inn {
            out *= outs[i];
            i += 1;
        } else if inn < out {
            inn *= ins[j];
            j += 1;
        } else {
            break;
        }
    }
    // Trailing extents of 1 that nothing else would take.
    if j == ins.len() {
        i = outs.len();
    }
    (i, j)
}
