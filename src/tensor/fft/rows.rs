//! One axis of a tensor as rows of a matrix, and back.

use crate::base::Result;
use crate::base::Shape;
use crate::ir::PadAxis;
use crate::tensor::Tensor;
use crate::tensor::call_site::{with_axis, without};
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::permute::move_axis;

/// The lines of a tensor along an axis, of so many points each.
pub(super) struct Rows {
    /// The axis.
    axis: usize,
    /// The extents of the others.
    others: Shape,
    /// Points of a line.
    pub n: usize,
}

impl Rows {
    /// The lines of `x` along an axis, of its extent or of `n` points.
    ///
    /// # Errors
    /// An axis out of range; no points, or more than there are tables for.
    pub fn of(site: CallSite, x: &Tensor, axis: i64, n: Option<usize>) -> Result<Rows> {
        let axis = site.axis_number(x, axis)?;
        let n = n.unwrap_or(x.shape()[axis]);
        if n == 0 {
            return Err(site.error("at least one point", "0 points", &[x]));
        }
        few_enough(site, n)?;
        Ok(Rows { axis, others: without(&x.shape(), axis), n })
    }

    /// The same lines, with so many points.
    pub fn with_points(&self, n: usize) -> Rows {
        Rows { axis: self.axis, others: self.others.clone(), n }
    }

    /// `[batch, n]`: the lines, cut or continued with zeros.
    pub fn matrix(&self, site: CallSite, x: &Tensor) -> Tensor {
        let x = move_axis(site, x, self.axis, self.others.rank());
        site.reshape(&resized(site, &x, self.n), &[self.others.numel(), self.n])
    }

    /// The tensor whose lines are those of `[batch, n]`.
    pub fn tensor(&self, site: CallSite, rows: &Tensor) -> Tensor {
        let lines = site.reshape(rows, &with_axis(&self.others, self.others.rank(), self.n));
        move_axis(site, &lines, self.others.rank(), self.axis)
    }

    /// The numbers whose lines are those of real and imaginary parts, `[batch, n]`.
    pub fn numbers(&self, site: CallSite, [re, im]: [&Tensor; 2]) -> Complex {
        Complex { re: self.tensor(site, re), im: self.tensor(site, im) }
    }
}

/// The most points of a transform, or values of a table: they are computed on the host.
const MOST_POINTS: usize = 1 << 28;

/// Fails for more points than there are tables for.
pub(super) fn few_enough(site: CallSite, points: usize) -> Result<()> {
    if points <= MOST_POINTS {
        return Ok(());
    }
    Err(site.error(format!("at most {MOST_POINTS} points"), points.to_string(), &[]))
}

/// The last axis cut or continued with zeros.
fn resized(site: CallSite, x: &Tensor, n: usize) -> Tensor {
    let last = x.rank() - 1;
    let extent = x.shape()[last];
    if n <= extent {
        return site.slice(x, last, 0, n, 1);
    }
    let mut pads = vec![PadAxis::default(); x.rank()];
    pads[last].hi = (n - extent) as i64;
    site.pad(x, pads, 0.0)
}

/// Times a number; the same node for 1.
pub(super) fn scaled(site: CallSite, x: &Tensor, scale: f64) -> Tensor {
    if scale == 1.0 { x.clone() } else { site.mul(x, scale) }
}
