//! Counts of elements by value.

use crate::base::{DType, Scalar, Shape};
use crate::ir::{AluOp, Monoid, Op, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::advanced::as_index;
use crate::tensor::compose::CallSite;

impl Tensor {
    /// How many elements (floating) fall in each of `bins` equal parts of `min..=max`: `[bins]`.
    ///
    /// Elements outside do not count. With `min == max` the elements' own range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 0.1, 0.9, 5.0]);
    /// assert_eq!(x.histc(2, 0.0, 1.0).to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn histc(&self, bins: usize, min: f64, max: f64) -> Tensor {
        let site = CallSite::here("histc");
        site.build(&[self], || {
            if !self.dtype().is_float() || bins == 0 || !min.is_finite() || !max.is_finite() || max < min {
                let expected = "a floating type, at least one bin and a finite range";
                let found = format!("{}, {bins} bins and {min}..={max}", self.dtype());
                return Err(site.error(expected, found, &[self]));
            }
            let x = site.reshape(self, &Shape::from(self.numel()));
            let (low, high) = if min < max || x.numel() == 0 {
                (site.constant_like(Scalar::Float(min), &x), site.constant_like(Scalar::Float(max), &x))
            } else {
                own_range(site, &x)
            };
            Ok(counted(site, &x, bins, &low, &high))
        })
    }

    /// How often each of `0..length` occurs in a rank-1 integer tensor.
    ///
    /// With weights, the sum of the weights of its occurrences. A larger element is an error when
    /// it runs. PyTorch: `torch.bincount`, whose length follows from the elements.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0i64, 2, 2]).bincount(None, 3).to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, length: usize) -> Tensor {
        let site = CallSite::here("bincount");
        let operands: Vec<&Tensor> = std::iter::once(self).chain(weights).collect();
        site.build(&operands, || {
            let index = as_index(site, self)?;
            let fits = self.rank() == 1 && weights.is_none_or(|w| w.shape() == self.shape());
            if !fits {
                return Err(site.error("rank 1, and a weight for each element", "other shapes", &operands));
            }
            let updates = match weights {
                None => site.expand(&site.scalar(1, DType::I64, self.device()), &self.shape()),
                Some(w) if w.dtype() == DType::F32 => w.clone(),
                Some(w) => site.cast(w, DType::F64),
            };
            let base = site.expand(&site.constant_like(0, &updates), &Shape::from(length));
            Ok(site.apply(Op::Scatter(0, ScatterMode::Add), &[&base, &index, &updates]))
        })
    }
}

/// The least and greatest element, set apart where they are equal.
fn own_range(site: CallSite, x: &Tensor) -> (Tensor, Tensor) {
    let (low, high) = (site.reduce(Monoid::Min, x, &[0]), site.reduce(Monoid::Max, x, &[0]));
    let same = site.alu(AluOp::Eq, &[&low, &high]);
    let one = site.constant_like(1, x);
    let below = site.alu(AluOp::Sub, &[&low, &one]);
    let above = site.alu(AluOp::Add, &[&high, &one]);
    (site.choose(&same, &below, &low), site.choose(&same, &above, &high))
}

fn counted(site: CallSite, x: &Tensor, bins: usize, low: &Tensor, high: &Tensor) -> Tensor {
    // Rounded at each step as PyTorch does: near an edge the bin depends on it.
    let step = |op, a: &Tensor, b: &Tensor| {
        let wide = site.alu(op, &[&site.cast(a, x.dtype().compute()), &site.cast(b, x.dtype().compute())]);
        site.cast(&wide, x.dtype())
    };
    let above = step(AluOp::Mul, &step(AluOp::Sub, x, low), &site.constant_like(bins, x));
    let bin = step(AluOp::Div, &above, &step(AluOp::Sub, high, low));
    let bin = site.cast(&site.alu(AluOp::Floor, &[&bin]), DType::I64);
    // The upper end belongs to the last bin.
    let bin = site.alu(AluOp::Min, &[&bin, &site.constant_like(bins - 1, &bin)]);
    let outside = site.alu(AluOp::Or, &[&site.alu(AluOp::Lt, &[x, low]), &site.alu(AluOp::Lt, &[high, x])]);
    let outside = site.alu(AluOp::Or, &[&outside, &site.is_nan(x)]);
    let bin = site.choose(&outside, &site.constant_like(0, &bin), &bin);
    let (zero, one) = (site.constant_like(0, x), site.constant_like(1, x));
    let updates = site.choose(&outside, &zero, &one);
    let base = site.expand(&zero, &Shape::from(bins));
    site.apply(Op::Scatter(0, ScatterMode::Add), &[&base, &bin, &updates])
}

#[cfg(test)]
mod tests {
    use crate::tensor::testing::{assert_close, f32s, i64s};

    #[test]
    fn the_upper_end_belongs_to_the_last_bin() {
        let x = f32s(&[6], &[0.0, 0.5, 1.0, 2.0, -1.0, f64::NAN]);
        assert_close(&x.histc(2, 0.0, 2.0), &[2], &[2.0, 2.0]);
        assert_close(&f32s(&[2], &[3.0, 3.0]).histc(2, 0.0, 0.0), &[2], &[0.0, 2.0]);
    }

    #[test]
    fn integers_are_counted_or_weighed() {
        let x = i64s(&[3], &[1, 1, 3]);
        assert_close(&x.bincount(None, 4), &[4], &[0.0, 2.0, 0.0, 1.0]);
        assert_close(&x.bincount(Some(&f32s(&[3], &[0.5, 1.0, 2.0])), 4), &[4], &[0.0, 1.5, 0.0, 2.0]);
    }
}
