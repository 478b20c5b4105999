//! Resampling of images onto another grid.
//!
//! Source positions are rational: position `i` of the result lies at
//! `(step i + offset) / unit` of the input. The three are integers, so that
//! every device finds the same neighbours and only the weights are rounded.

use crate::base::DType;
use crate::ir::AluOp;
use crate::tensor::Tensor;
use crate::tensor::adaptive::average;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::options::options;
use crate::tensor::spatial::Sizes;

/// How values between elements are found.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::{InterpolateMode, InterpolateOpts};
/// let x = Tensor::from([[[0.0f32, 4.0]]]);
/// let opts = InterpolateOpts::default().size(3).mode(InterpolateMode::Linear).align_corners(true);
/// assert_eq!(x.interpolate(opts).to_vec::<f32>()?, [0.0, 2.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterpolateMode {
    /// The element at the scaled position, rounded down.
    #[default]
    Nearest,
    /// The element whose centre is nearest.
    NearestExact,
    /// Linear in each of one, two or three spatial axes (PyTorch's `linear`,
    /// `bilinear` and `trilinear`).
    Linear,
    /// Cubic convolution in each of two axes (Keys 1981, with -0.75).
    Bicubic,
    /// The mean of the elements covered.
    Area,
}

options! {
    /// Options of [`Tensor::interpolate`]: one of `size` and `scale_factor`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::InterpolateOpts;
    /// let x = Tensor::zeros([1, 3, 4, 4], ());
    /// assert_eq!(x.interpolate(InterpolateOpts::default().scale_factor([2.0])).dims()?, [1, 3, 8, 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    InterpolateOpts {
        /// Extents of the result.
        size: Option<Sizes> = None, impl Into<Sizes> => given;
        /// What extents are multiplied by, one for all axes or one for each.
        scale_factor: Option<Vec<f64>> = None, impl Into<Vec<f64>> => factors;
        /// How values between elements are found (nearest).
        mode: InterpolateMode = InterpolateMode::Nearest;
        /// The corner elements' centres, not their corners, are the image's
        /// corners; for linear and bicubic.
        align_corners: bool = false;
        /// Positions follow from the extents, not from the factor given.
        recompute_scale_factor: bool = false;
    }
}

fn given(sizes: impl Into<Sizes>) -> Option<Sizes> {
    Some(sizes.into())
}

fn factors(factors: impl Into<Vec<f64>>) -> Option<Vec<f64>> {
    Some(factors.into())
}

impl Tensor {
    /// Resamples `[n, c, spatial..]` with one to three spatial axes onto a grid of other extents.
    ///
    /// Invalid when both or neither of size and factor are given, they do not fit the rank or leave
    /// no element, or the mode does not fit. PyTorch: `nn.functional.interpolate`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::InterpolateOpts;
    /// let x = Tensor::from([[[1.0f32, 2.0]]]);
    /// let y = x.interpolate(InterpolateOpts::default().size(4));
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn interpolate(&self, opts: InterpolateOpts) -> Tensor {
        let site = CallSite::here("interpolate");
        let this: &Tensor = &site.autocast(self);
        finish(interpolate(site, this, &opts))
    }
}

/// Where elements along one axis of the result lie on the input: element `i`
/// at `(step * i + offset) / unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ResampleGrid {
    extent: usize,
    out: usize,
    step: i64,
    offset: i64,
    unit: i64,
    /// How far the rounding of the step may leave positions short of where
    /// they are: a position that is whole must not round down.
    slack: i64,
}

/// Denominator of factors that were given: `1 / factor` to 24 bits, as many
/// as the type has that PyTorch holds it in.
const FACTOR_UNIT: i64 = 1 << 24;

fn interpolate(site: CallSite, x: &Tensor, opts: &InterpolateOpts) -> Checked<Tensor> {
    let fits = (3..=5).contains(&x.rank()) && !x.shape()[1..].contains(&0);
    site.require(fits, &[x], || {
        ("a tensor of rank 3 to 5 with elements".into(), format!("shape {}", x.shape()))
    })?;
    check_mode(site, x, opts)?;
    let spatial = x.rank() - 2;
    let (sizes, factors) = target(site, x, spatial, opts)?;
    if opts.mode == InterpolateMode::Area {
        let sizes: Sizes = sizes.iter().map(|&n| n as i64).collect::<Vec<i64>>().into();
        return average(site, spatial, x, &sizes.into());
    }
    let image = !x.dtype().is_float();
    let smooth = matches!(opts.mode, InterpolateMode::Linear | InterpolateMode::Bicubic);
    let mut y = if smooth { site.cast(x, x.dtype().to_float().compute()) } else { x.clone() };
    for step in 0..spatial {
        // Where each axis is rounded, PyTorch's order matters: the last one first.
        let i = if image { spatial - 1 - step } else { step };
        let (axis, out) = (2 + i, sizes[i]);
        let ratio = ratio(x.shape()[axis], out, factors.as_ref().map(|f| f[i]), opts);
        y = match opts.mode {
            InterpolateMode::Nearest => nearest(site, &y, axis, &ratio),
            InterpolateMode::NearestExact => nearest(site, &y, axis, &ratio.half_pixel()),
            // PyTorch copies an axis that keeps its extent, whatever the factor.
            InterpolateMode::Linear if out == ratio.extent => continue,
            InterpolateMode::Linear => linear(site, &y, axis, &ratio.positions(opts.align_corners)),
            InterpolateMode::Bicubic => cubic(site, &y, axis, &ratio.positions(opts.align_corners)),
            InterpolateMode::Area => y,
        };
        if image && smooth {
            y = whole(site, &y);
        }
    }
    Ok(site.cast(&y, x.dtype()))
}

/// The nearest value of a byte, halves up, as PyTorch leaves each axis of an image of bytes.
fn whole(site: CallSite, x: &Tensor) -> Tensor {
    let nearest = site.unary(AluOp::Floor, &site.add(x, 0.5));
    site.min(site.max(nearest, 0.0), 255.0)
}

fn check_mode(site: CallSite, x: &Tensor, opts: &InterpolateOpts) -> Checked<()> {
    let smooth = matches!(opts.mode, InterpolateMode::Linear | InterpolateMode::Bicubic);
    site.require(!opts.align_corners || smooth, &[x], || {
        ("linear or bicubic with aligned corners".into(), format!("{:?}", opts.mode))
    })?;
    site.require(opts.mode != InterpolateMode::Bicubic || x.rank() == 4, &[x], || {
        ("two spatial axes for bicubic".into(), format!("rank {}", x.rank()))
    })?;
    let fits = match opts.mode {
        InterpolateMode::Nearest | InterpolateMode::NearestExact => true,
        InterpolateMode::Linear | InterpolateMode::Bicubic => x.dtype().is_float() || x.dtype() == DType::U8,
        InterpolateMode::Area => x.dtype().is_float(),
    };
    site.require(fits, &[x], || ("a floating tensor, or bytes but for area".into(), x.dtype().to_string()))
}

/// The result's extents, and the factors that positions follow, if any.
fn target(
    site: CallSite,
    x: &Tensor,
    spatial: usize,
    opts: &InterpolateOpts,
) -> Checked<(Vec<usize>, Option<Vec<f64>>)> {
    let both = opts.size.is_some() == opts.scale_factor.is_some();
    site.require(!both, &[x], || ("either a size or a factor".into(), "both or neither".into()))?;
    if let Some(size) = &opts.size {
        let fits = !opts.recompute_scale_factor;
        site.require(fits, &[x], || ("a factor to recompute".into(), "a size".into()))?;
        return Ok((size.resolve(site, "size", spatial, 1, &[x])?, None));
    }
    let given = opts.scale_factor.clone().unwrap_or_default();
    let factors = if given.len() == 1 { vec![given[0]; spatial] } else { given };
    let sizes: Vec<f64> =
        factors.iter().zip(&x.shape()[2..]).map(|(factor, &n)| (factor * n as f64).floor()).collect();
    let fits = factors.len() == spatial && sizes.iter().all(|&n| (1.0..1e15).contains(&n));
    site.require(fits, &[x], || {
        (format!("1 or {spatial} factors that leave elements"), format!("{factors:?}"))
    })?;
    let sizes = sizes.iter().map(|&n| n as usize).collect();
    Ok((sizes, (!opts.recompute_scale_factor).then_some(factors)))
}

/// The distance of neighbours on the input: the ratio of the extents, or one
/// over the factor given.
fn ratio(extent: usize, out: usize, factor: Option<f64>, opts: &InterpolateOpts) -> ResampleGrid {
    match factor {
        Some(factor) if !opts.align_corners => {
            let step = (FACTOR_UNIT as f64 / factor).round() as i64;
            ResampleGrid { extent, out, step, offset: 0, unit: FACTOR_UNIT, slack: out as i64 }
        }
        Some(_) | None => {
            ResampleGrid { extent, out, step: extent as i64, offset: 0, unit: out as i64, slack: 0 }
        }
    }
}

impl ResampleGrid {
    /// Positions by elements' centres, rounded down: `(i + 1/2) ratio`.
    fn half_pixel(self) -> ResampleGrid {
        ResampleGrid {
            step: 2 * self.step,
            offset: self.step,
            unit: 2 * self.unit,
            slack: 2 * self.slack,
            ..self
        }
    }
    /// Positions between centres: `(i + 1/2) ratio - 1/2`, or with the
    /// corners aligned `i (extent - 1) / (out - 1)`.
    fn positions(self, align_corners: bool) -> ResampleGrid {
        if align_corners {
            let (step, unit) =
                if self.out > 1 { (self.extent as i64 - 1, self.out as i64 - 1) } else { (0, 1) };
            return ResampleGrid { step, offset: 0, unit, ..self };
        }
        ResampleGrid { step: 2 * self.step, offset: self.step - self.unit, unit: 2 * self.unit, ..self }
    }
    /// The positions times the unit, `I64`.
    fn scaled(&self, site: CallSite, x: &Tensor) -> Tensor {
        let index = site.iota(self.out, DType::I64, x.device());
        let scaled = if self.step == 1 { index } else { site.mul(index, self.step) };
        if self.offset == 0 { scaled } else { site.add(scaled, self.offset) }
    }
    /// The largest of the integers at most `extent - 1`.
    fn clamped(&self, site: CallSite, index: &Tensor) -> Tensor {
        site.min(index, self.extent as i64 - 1)
    }
}

fn nearest(site: CallSite, x: &Tensor, axis: usize, grid: &ResampleGrid) -> Tensor {
    if (grid.step, grid.offset, grid.extent) == (grid.unit, 0, grid.out) {
        return x.clone();
    }
    let index =
        site.div(ResampleGrid { offset: grid.offset + grid.slack, ..*grid }.scaled(site, x), grid.unit);
    site.take(x, axis, &grid.clamped(site, &index))
}

/// A tensor along `axis`, shaped to broadcast against one of rank `rank`.
fn along(site: CallSite, x: &Tensor, axis: usize, rank: usize) -> Tensor {
    let mut dims = vec![1; rank - axis];
    dims[0] = x.numel();
    site.reshape(x, &dims)
}

/// How far positions lie beyond their element, as a share of the way to the next.
fn share(site: CallSite, scaled: &Tensor, below: &Tensor, grid: &ResampleGrid, dtype: DType) -> Tensor {
    let rest = site.sub(scaled, site.mul(below, grid.unit));
    site.mul(site.cast(&rest, dtype), 1.0 / grid.unit as f64)
}

fn linear(site: CallSite, x: &Tensor, axis: usize, grid: &ResampleGrid) -> Tensor {
    let scaled = site.max(grid.scaled(site, x), 0i64);
    let below = grid.clamped(site, &site.div(&scaled, grid.unit));
    let above = grid.clamped(site, &site.add(&below, 1i64));
    let share = along(site, &share(site, &scaled, &below, grid, x.dtype()), axis, x.rank());
    let (low, high) = (site.take(x, axis, &below), site.take(x, axis, &above));
    site.add(site.mul(low, site.sub(1.0, &share)), site.mul(high, share))
}

/// The weights of four neighbours around a position `t` beyond the second.
pub(crate) fn cubic_weights(site: CallSite, t: &Tensor) -> [Tensor; 4] {
    const A: f64 = -0.75;
    // At most one element away, and between one and two.
    let inner = |x: &Tensor| {
        let slope = site.sub(site.mul(x, A + 2.0), A + 3.0);
        site.add(site.mul(site.mul(slope, x), x), 1.0)
    };
    let outer = |x: &Tensor| {
        let slope = site.sub(site.mul(x, A), 5.0 * A);
        let curve = site.add(site.mul(slope, x), 8.0 * A);
        site.sub(site.mul(curve, x), 4.0 * A)
    };
    let rest = site.sub(1.0, t);
    [outer(&site.add(t, 1.0)), inner(t), inner(&rest), outer(&site.add(&rest, 1.0))]
}

fn cubic(site: CallSite, x: &Tensor, axis: usize, grid: &ResampleGrid) -> Tensor {
    let scaled = grid.scaled(site, x);
    // Integer division truncates: kept positive, as positions are above -1.
    let lifted = site.div(site.add(&scaled, grid.unit), grid.unit);
    let below = site.sub(lifted, 1i64);
    let share = along(site, &share(site, &scaled, &below, grid, x.dtype()), axis, x.rank());
    let mut sum: Option<Tensor> = None;
    for (i, weight) in cubic_weights(site, &share).into_iter().enumerate() {
        let index = site.max(site.add(&below, i as i64 - 1), 0i64);
        let term = site.mul(site.take(x, axis, &grid.clamped(site, &index)), weight);
        sum = Some(sum.map_or(term.clone(), |sum| site.binary(AluOp::Add, sum, &term)));
    }
    sum.unwrap_or_else(|| x.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

    fn line(opts: InterpolateOpts) -> Tensor {
        f32s(&[1, 1, 4], &[1.0, 2.0, 4.0, 8.0]).interpolate(opts)
    }

    #[test]
    fn neighbours_are_those_of_the_definition() {
        let sized = |n: usize, mode| InterpolateOpts::default().size(n).mode(mode);
        assert_close(&line(sized(6, InterpolateMode::Nearest)), &[1, 1, 6], &[1.0, 1.0, 2.0, 4.0, 4.0, 8.0]);
        let exact = [1.0, 2.0, 2.0, 4.0, 8.0, 8.0];
        assert_close(&line(sized(6, InterpolateMode::NearestExact)), &[1, 1, 6], &exact);
        let factor = InterpolateOpts::default().scale_factor([0.6]);
        assert_close(&line(factor), &[1, 1, 2], &[1.0, 2.0]);
        assert_close(&line(sized(2, InterpolateMode::Area)), &[1, 1, 2], &[1.5, 6.0]);
    }

    #[test]
    fn lines_are_weighted_by_distance() {
        let linear = InterpolateOpts::default().mode(InterpolateMode::Linear);
        let corners = linear.clone().size(7).align_corners(true);
        assert_close(&line(corners), &[1, 1, 7], &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]);
        let halves = [1.0, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, 8.0];
        assert_close(&line(linear.clone().size(8)), &[1, 1, 8], &halves);
        assert_close(&line(linear.clone().scale_factor([2.0])), &[1, 1, 8], &halves);
        assert_close(&line(linear.size(1).align_corners(true)), &[1, 1, 1], &[1.0]);
    }

    #[test]
    fn cubic_convolution_keeps_elements_and_constants() {
        let x = pattern(&[1, 2, 4, 5], 1);
        let bicubic = InterpolateOpts::default().mode(InterpolateMode::Bicubic);
        let same = x.interpolate(bicubic.clone().size([4, 5]));
        assert_close(&same, &[1, 2, 4, 5], &values(&x));
        let corners = x.interpolate(bicubic.clone().size([7, 9]).align_corners(true));
        let site = CallSite::here("slice");
        let every = site.slice(&site.slice(&corners, 2, 0, 7, 2), 3, 0, 9, 2);
        assert_close(&every, &[1, 2, 4, 5], &values(&x));
        let flat = f32s(&[1, 1, 2, 2], &[3.0; 4]).interpolate(bicubic.size(5));
        assert_close(&flat, &[1, 1, 5, 5], &[3.0; 25]);
    }

    #[test]
    fn images_of_bytes_round_each_axis() {
        let x = f32s(&[1, 1, 2, 2], &[0.0, 255.0, 10.0, 21.0]).to_dtype(DType::U8);
        let linear = x.interpolate(InterpolateOpts::default().size([2, 4]).mode(InterpolateMode::Linear));
        assert_eq!(linear.dtype(), DType::U8);
        // 63.75, 191.25; 12.75, 18.25.
        assert_close(&linear, &[1, 1, 2, 4], &[0.0, 64.0, 191.0, 255.0, 10.0, 13.0, 18.0, 21.0]);
        let corners = InterpolateOpts::default().size([3, 3]).mode(InterpolateMode::Linear);
        let both = x.interpolate(corners.align_corners(true));
        // 127.5 and 15.5 are rounded before their mean, 72, is taken.
        assert_close(&both, &[1, 1, 3, 3], &[0.0, 128.0, 255.0, 5.0, 72.0, 138.0, 10.0, 16.0, 21.0]);
        let cubic = x.interpolate(InterpolateOpts::default().size(8).mode(InterpolateMode::Bicubic));
        let found = values(&cubic);
        assert_eq!((found[0], found[7]), (0.0, 255.0), "overshoot is cut off");
        let near = x.interpolate(InterpolateOpts::default().size([2, 4]));
        assert_close(&near, &[1, 1, 2, 4], &[0.0, 0.0, 255.0, 255.0, 10.0, 10.0, 21.0, 21.0]);
        let words = x
            .to_dtype(DType::I32)
            .interpolate(InterpolateOpts::default().size(4).mode(InterpolateMode::Linear));
        assert!(error_text(&words).contains("bytes"));
    }

    #[test]
    fn an_axis_that_keeps_its_extent_is_copied() {
        let x = f32s(&[1, 1, 2, 3], &[1.0, f64::NAN, 2.0, f64::INFINITY, 3.0, 4.0]);
        let linear = InterpolateOpts::default().mode(InterpolateMode::Linear);
        assert_close(&x.interpolate(linear.clone().size([2, 3])), &[1, 1, 2, 3], &values(&x));
        let wider = x.i((.., .., 1..)).interpolate(linear.size([1, 5]));
        let expected = [f64::INFINITY, f64::INFINITY, 3.0, 3.6, 4.0];
        assert_close(&wider, &[1, 1, 1, 5], &expected);
    }

    #[test]
    fn errors_are_told() {
        let bad = |opts| error_text(&line(opts));
        assert!(bad(InterpolateOpts::default()).contains("either"));
        assert!(bad(InterpolateOpts::default().size(0)).contains("size"));
        assert!(bad(InterpolateOpts::default().size(2).align_corners(true)).contains("aligned"));
        assert!(
            bad(InterpolateOpts::default().size(2).mode(InterpolateMode::Bicubic)).contains("two spatial")
        );
        assert!(bad(InterpolateOpts::default().scale_factor([0.1])).contains("leave"));
    }
}
