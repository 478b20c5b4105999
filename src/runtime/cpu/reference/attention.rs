//! What the parts of attention mean: all scores of a row at once.

use super::{PointValues, ReferenceRun};
use crate::base::{DType, Scalar};
use crate::kernel::{AttentionPart, AxisId, ExprId, FusedAttention};

/// An attention's operands at a point of the grid.
struct At<'a> {
    run: &'a ReferenceRun<'a>,
    a: &'a FusedAttention,
    grid: usize,
    values: &'a [Option<PointValues>],
    depth: usize,
    columns: usize,
}

impl ReferenceRun<'_> {
    /// The element of an attention's part at a point of the grid.
    pub(super) fn attention(
        &self,
        a: &FusedAttention,
        grid: usize,
        values: &[Option<PointValues>],
    ) -> Scalar {
        let columns = if a.part.is_gradient() { self.size(&a.columns) } else { 1 };
        let at = At { run: self, a, grid, values, depth: self.size(&a.depth), columns };
        let others = self.size(&a.summed) * self.size(if a.part.by_query() { &a.keys } else { &a.rows });
        let found = match a.part {
            AttentionPart::Result => at.result(others),
            AttentionPart::LogSum => {
                let (most, powers) = at.powers(others);
                most + powers.iter().sum::<f64>().ln()
            }
            AttentionPart::QueryGradient | AttentionPart::KeyGradient | AttentionPart::ValueGradient => {
                (0..others).map(|other| at.gradient(other)).sum()
            }
        };
        Scalar::Float(found).cast(DType::F32)
    }

    fn size(&self, axes: &[AxisId]) -> usize {
        axes.iter().map(|axis| self.kernel.axes[axis.index()].extent).product()
    }
}

impl At<'_> {
    /// An operand, for one of those that the part goes through.
    fn operand(&self, id: ExprId, other: usize, d: usize, c: usize) -> Scalar {
        self.run.at(self.values, id, (other * self.depth + d) * self.columns + c, 1)
    }
    fn number(&self, id: Option<ExprId>, other: usize, c: usize) -> f64 {
        id.map_or(0.0, |id| self.operand(id, other, 0, c).as_f64())
    }

    /// Where a point lies along some axes.
    fn place(&self, axes: &[AxisId], other: usize) -> usize {
        let point = self.run.point(self.grid, other * self.depth * self.columns, 1);
        let extent = |axis: &AxisId| self.run.kernel.axes[axis.index()].extent;
        axes.iter().fold(0, |place, axis| place * extent(axis) + point[axis.index()])
    }

    fn score(&self, other: usize) -> f64 {
        let of = |id: ExprId, d: usize| self.operand(id, other, d, 0).as_f64();
        let products = (0..self.depth).map(|d| of(self.a.q, d) * of(self.a.k, d));
        let score = products.sum::<f64>() * f64::from_bits(self.a.scale);
        let later = || self.place(&self.a.keys, other) > self.place(&self.a.rows, other);
        match self.a.mask.map(|mask| self.operand(mask, other, 0, 0)) {
            _ if self.a.causal && later() => f64::NEG_INFINITY,
            Some(Scalar::Bool(false)) => f64::NEG_INFINITY,
            Some(Scalar::Bool(true)) | None => score,
            Some(added) => score + added.as_f64(),
        }
    }

    /// The greatest score, and the powers of the scores' differences from it.
    fn powers(&self, keys: usize) -> (f64, Vec<f64>) {
        let scores: Vec<f64> = (0..keys).map(|key| self.score(key)).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY && self.a.mask.is_some() {
            return (most, vec![0.0; keys]);
        }
        (most, scores.iter().map(|score| (score - most).exp()).collect())
    }

    /// Softmax of one row's scores times the values.
    fn result(&self, keys: usize) -> f64 {
        let (_, powers) = self.powers(keys);
        let sum: f64 = powers.iter().sum();
        let weighed: f64 = powers.iter().enumerate().map(|(key, p)| p * self.number(self.a.v, key, 0)).sum();
        if sum == 0.0 { 0.0 } else { weighed / sum }
    }

    /// What one of those that the part goes through adds to a gradient.
    fn gradient(&self, other: usize) -> f64 {
        let a = self.a;
        let sum = self.number(a.log_sum, other, 0);
        let nowhere = a.mask.is_some() && sum == f64::NEG_INFINITY;
        let share = if nowhere { 0.0 } else { (self.score(other) - sum).exp() };
        let width = self.place(&a.width, other);
        let slope = || {
            let products = (0..self.columns).map(|c| self.number(a.g, other, c) * self.number(a.v, other, c));
            share * (products.sum::<f64>() - self.number(a.product, other, 0)) * f64::from_bits(a.scale)
        };
        match a.part {
            AttentionPart::Result | AttentionPart::LogSum => 0.0,
            AttentionPart::QueryGradient => slope() * self.operand(a.k, other, width, 0).as_f64(),
            AttentionPart::KeyGradient => slope() * self.operand(a.q, other, width, 0).as_f64(),
            AttentionPart::ValueGradient => share * self.number(a.g, other, width),
        }
    }
}
