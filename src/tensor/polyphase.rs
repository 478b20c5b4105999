//! Axes on which things lie a stride apart, phase by phase (Bellanger, Bonnerot and Coudreuse,
//! "Digital filtering by polyphase network", 1976): what belongs to a position is found without
//! a division and without the zeros between.

use crate::base::Scalar;
use crate::ir::op::WindowAxis;
use crate::ir::{Op, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::join::cat_along;
use crate::tensor::rule::with_rule;

/// Windows over an element that are added one by one; more are a reduction.
const MOST_TERMS: usize = 4;

/// An axis in periods of `stride`: position `i` is in period `first + p` at phase `r` where
/// `phase + i = stride * p + r`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    /// Phases of a period.
    pub stride: usize,
    /// The period of position 0.
    pub first: i64,
    /// Its phase.
    phase: usize,
    /// Positions.
    extent: usize,
}

impl Periods {
    /// `extent` positions, the first of which lies `offset` after the start of period 0.
    pub fn new(stride: usize, offset: i64, extent: usize) -> Periods {
        let period = stride as i64;
        let phase = offset.rem_euclid(period) as usize;
        Periods { stride, first: offset.div_euclid(period), phase, extent }
    }

    /// How many periods positions lie in.
    pub fn count(self) -> usize {
        (self.phase + self.extent).div_ceil(self.stride)
    }

    /// Whole periods from position 0 on, on one axis, of a tensor that has those periods on it and
    /// their phases on the axis after it.
    pub fn interleave(self, site: CallSite, x: &Tensor, axis: usize) -> Tensor {
        let Periods { stride, phase, .. } = self;
        let mut x = x.clone();
        let periods = self.extent.div_ceil(stride);
        if phase > 0 {
            // Periods that start where the positions do are cut at no position.
            x = padded(site, &x, axis, 0, (periods + 1 - self.count()) as i64);
            let part = |period: usize, from: usize, to: usize| {
                let x = site.slice(&x, axis, period, period + periods, 1);
                site.slice(&x, axis + 1, from, to, 1)
            };
            let parts = [part(0, phase, stride), part(1, 0, phase)];
            x = site.build(&[&x], || cat_along(site, &[&parts[0], &parts[1]], axis + 1));
        }
        if x.ty().is_none() {
            return x;
        }
        let mut dims = x.shape().to_vec();
        dims[axis] *= dims.remove(axis + 1);
        site.reshape(&x, &dims)
    }
}

/// So many positions of each axis from a number on. Part of a period would have to be found by
/// division, where in memory it is a slice of whole ones.
pub(crate) fn leading(site: CallSite, x: &Tensor, first: usize, extents: &[usize]) -> Tensor {
    if x.ty().is_none() || x.shape()[first..first + extents.len()] == *extents {
        return x.clone();
    }
    let whole = site.apply(Op::Copy(x.device()), &[x]);
    let cut = |x: Tensor, (i, &extent): (usize, &usize)| site.slice(&x, first + i, 0, extent, 1);
    extents.iter().enumerate().fold(whole, cut)
}

/// A window along an axis that has been padded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaddedWindow {
    /// The window.
    pub window: WindowAxis,
    /// Elements in front of the axis and after it.
    pub pad: (i64, i64),
}

/// Windows along some axes, their elements on new last axes, in order; in the padding they
/// have `fill`. What is pulled back overlaps and is added.
pub(crate) fn windows(
    site: CallSite,
    x: &Tensor,
    axes: Vec<PaddedWindow>,
    fill: impl Into<Scalar>,
) -> Tensor {
    let mut pads = vec![PadAxis::default(); x.rank()];
    for PaddedWindow { window, pad: (lo, hi) } in &axes {
        pads[usize::from(window.axis)] = PadAxis { lo: *lo, hi: *hi, interior: 0 };
    }
    let padded = site.pad(x, pads, fill);
    let y = axes.iter().fold(padded, |y, axis| site.window(&y, axis.window));
    with_rule(y, &[x], move |inputs, _, cotangent| {
        let shape = inputs[0].shape();
        vec![Some(overlap_add(site, cotangent, &axes, &shape))]
    })
}

/// The adjoint of windows over a tensor of a shape: each position gets the sum of what windows
/// have there.
pub(crate) fn overlap_add(site: CallSite, x: &Tensor, axes: &[PaddedWindow], shape: &[usize]) -> Tensor {
    let back = |x: Tensor, axis: &PaddedWindow| {
        overlap_add_along(site, &x, axis.window, axis.pad.0, shape[usize::from(axis.window.axis)])
    };
    leading(site, &axes.iter().rev().fold(x.clone(), back), 0, shape)
}

/// The same along an axis of which `offset` positions came before the first of `extent`, the
/// windows' elements on the last axis; perhaps with positions after those.
fn overlap_add_along(site: CallSite, x: &Tensor, window: WindowAxis, offset: i64, extent: usize) -> Tensor {
    if x.ty().is_none() {
        return x.clone();
    }
    let (axis, last) = (usize::from(window.axis), x.rank() - 1);
    let WindowAxis { size, stride, dilation, .. } = window;
    let windows = x.shape()[axis];
    let reached = size.div_ceil(stride);
    if dilation > 1 || size <= stride || reached > MOST_TERMS {
        let covered = windows.checked_sub(1).map_or(0, |last| last * stride + (size - 1) * dilation + 1);
        let all = site.unwindow(x, window, covered);
        return padded(site, &all, axis, -offset, extent as i64 + offset - covered as i64);
    }
    // Elements a stride apart lie at one phase of neighbouring periods.
    let x = padded(site, x, last, 0, (reached * stride - size) as i64);
    let x = site.reshape(&x, &[&x.shape()[..last], &[reached, stride]].concat());
    let order: Vec<usize> =
        [last].into_iter().chain(0..=axis).chain([last + 1]).chain(axis + 1..last).collect();
    let x = site.permute(&x, &order);
    let periods = Periods::new(stride, offset, extent);
    let term = |tap: usize| {
        let lo = tap as i64 - periods.first;
        padded(site, &site.select_index(&x, 0, tap), axis, lo, periods.count() as i64 - lo - windows as i64)
    };
    let sum = (1..reached).fold(term(0), |sum, tap| site.add(sum, term(tap)));
    periods.interleave(site, &sum, axis)
}

/// Zeros around an axis, or less of it.
pub(crate) fn padded(site: CallSite, x: &Tensor, axis: usize, lo: i64, hi: i64) -> Tensor {
    if (lo, hi) == (0, 0) {
        return x.clone();
    }
    let mut axes = vec![PadAxis::default(); x.rank()];
    axes[axis] = PadAxis { lo, hi, interior: 0 };
    site.pad(x, axes, 0i64)
}
