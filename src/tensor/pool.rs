//! Pooling: windows, reduced.

use crate::base::DType;
use crate::base::shape::volume;
use crate::ir::monoid::int_range;
use crate::ir::op::WindowAxis;
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::options::options;
use crate::tensor::polyphase::{PaddedWindow, windows as padded_windows};
use crate::tensor::rule::with_rule;
use crate::tensor::spatial::{Sizes, batched, unbatched};

options! {
    /// Options of max pooling; each size is one number or one per spatial axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 3, 2, 4]]);
    /// assert_eq!(x.max_pool1d(2, MaxPoolOpts::default().stride(1)).to_vec::<i64>()?, [3, 3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    MaxPoolOpts {
        /// Distance between windows; the kernel's size if `None`.
        stride: Option<Sizes> = None, impl Into<Sizes> => given;
        /// Elements around the input that never win (0).
        padding: Sizes = 0.into(), impl Into<Sizes> => Into::into;
        /// Distance between elements of a window (1).
        dilation: Sizes = 1.into(), impl Into<Sizes> => Into::into;
        /// Keep a last window that only partly lies on the input.
        ceil_mode: bool = false;
    }
}

options! {
    /// Options of average pooling; each size is one number or one per spatial axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 3.0]]);
    /// let opts = AvgPoolOpts::default().padding(1).count_include_pad(false);
    /// assert_eq!(x.avg_pool1d(2, opts).to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    AvgPoolOpts {
        /// Distance between windows; the kernel's size if `None`.
        stride: Option<Sizes> = None, impl Into<Sizes> => given;
        /// Zeros around the input (0).
        padding: Sizes = 0.into(), impl Into<Sizes> => Into::into;
        /// Keep a last window that only partly lies on the input.
        ceil_mode: bool = false;
        /// Count padding as elements (true).
        count_include_pad: bool = true;
        /// Divide by this instead of the number of elements.
        divisor_override: Option<i64> = None, i64 => Some;
    }
}

fn given(sizes: impl Into<Sizes>) -> Option<Sizes> {
    Some(sizes.into())
}

macro_rules! pools {
    ($($max:ident $indices:ident $avg:ident $rank:literal $axes:literal $x:literal;)*) => {$(
        #[doc = concat!("The largest element of each window over `", $axes, "` of `[n, c, ", $axes, "]`,")]
        /// or of the same without `n`.
        ///
        /// Invalid when a size is out of range, the padding exceeds half a
        /// window, or there is no whole window.
        #[doc = concat!("PyTorch: `nn.functional.", stringify!($max), "`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::arange(0, 8, 1, ()).reshape(", $x, ");")]
        #[doc = concat!("let y = x.", stringify!($max), "(2, Default::default());")]
        /// assert_eq!(y.max(..).item::<i64>()?, 7);
        /// assert_eq!(y.shape()[2], x.shape()[2] / 2);
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $max(&self, kernel: impl Into<Sizes>, opts: MaxPoolOpts) -> Tensor {
            let site = CallSite::here(stringify!($max));
            let this: &Tensor = &site.autocast(self);
            finish(max_windows(site, $rank, this, &kernel.into(), &opts).map(|w| w.max(site)))
        }

        #[doc = concat!("[`Tensor::", stringify!($max), "`] and where each element is: its row-major")]
        #[doc = concat!("position in `", $axes, "`, as `I64`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let (y, indices) = x.", stringify!($indices), "(2, Default::default());")]
        /// assert_eq!((y.shape(), indices.dtype()), (indices.shape(), DType::I64));
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $indices(&self, kernel: impl Into<Sizes>, opts: MaxPoolOpts) -> (Tensor, Tensor) {
            let site = CallSite::here(stringify!($max));
            let this: &Tensor = &site.autocast(self);
            match max_windows(site, $rank, this, &kernel.into(), &opts) {
                Ok(windows) => windows.max_and_position(site),
                Err(invalid) => (invalid.clone(), invalid),
            }
        }

        #[doc = concat!("The mean of each window over `", $axes, "` of `[n, c, ", $axes, "]`, or of")]
        /// the same without `n`; of integers, truncated.
        ///
        /// Invalid in the same cases as max pooling, and for a divisor of 0.
        #[doc = concat!("PyTorch: `nn.functional.", stringify!($avg), "`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let y = x.", stringify!($avg), "(2, Default::default());")]
        /// assert_eq!(y.mean(..).item::<f32>()?, 1.0);
        /// assert_eq!(y.shape()[2], x.shape()[2] / 2);
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $avg(&self, kernel: impl Into<Sizes>, opts: AvgPoolOpts) -> Tensor {
            let site = CallSite::here(stringify!($avg));
            let this: &Tensor = &site.autocast(self);
            finish(avg_pool(site, $rank, this, &kernel.into(), &opts))
        }
    )*};
}

impl Tensor {
    pools! {
        max_pool1d max_pool1d_with_indices avg_pool1d 1 "l" "[1, 2, 4]";
        max_pool2d max_pool2d_with_indices avg_pool2d 2 "h, w" "[1, 2, 2, 2]";
        max_pool3d max_pool3d_with_indices avg_pool3d 3 "d, h, w" "[1, 1, 2, 2, 2]";
    }
}

/// Windows along one spatial axis.
pub(crate) struct WindowsAlong {
    /// The axis's extent.
    pub extent: usize,
    /// Elements of a window.
    pub size: usize,
    /// Distance between them.
    pub dilation: usize,
    /// Where each window starts, `I64`; before 0 in the padding.
    pub starts: Tensor,
    /// Elements of padding in front.
    pub pad: usize,
}

/// A tensor seen through windows: `[n, c, windows.., elements..]`.
pub(crate) struct Windows {
    pub tensor: Tensor,
    pub along: Vec<WindowsAlong>,
    /// Whether the tensor came without its batch axis.
    pub lone: bool,
}

impl Windows {
    /// Numbers of the axes that hold the windows' elements.
    pub fn elements(&self) -> Vec<usize> {
        (2 + self.along.len()..2 + 2 * self.along.len()).collect()
    }

    /// The windows with all of their elements on one axis, the last.
    fn flat(&self, site: CallSite) -> Tensor {
        if self.tensor.ty().is_none() {
            return self.tensor.clone();
        }
        let (shape, lead) = (self.tensor.shape(), 2 + self.along.len());
        site.reshape(&self.tensor, &[&shape[..lead], &[volume(&shape[lead..])]].concat())
    }

    /// The largest elements.
    pub fn max(&self, site: CallSite) -> Tensor {
        unbatched(site, &self.largest(site, &self.flat(site)), self.lone)
    }

    /// The largest elements, and their row-major positions in the spatial
    /// axes: two reductions of one view, which one kernel can do.
    pub fn max_and_position(&self, site: CallSite) -> (Tensor, Tensor) {
        let flat = self.flat(site);
        if flat.ty().is_none() {
            return (flat.clone(), flat);
        }
        let (last, max) = (flat.rank() - 1, self.largest(site, &flat));
        let best = best(site, &flat, &max, self.first_inside(site).as_ref());
        let position = self.position(site, &best, flat.shape()[last]);
        (unbatched(site, &max, self.lone), unbatched(site, &position, self.lone))
    }

    /// From the number of an element of its window to its row-major position
    /// in the spatial axes.
    fn position(&self, site: CallSite, best: &Tensor, count: usize) -> Tensor {
        let (mut position, mut left): (Option<Tensor>, usize) = (None, count);
        for (i, along) in self.along.iter().enumerate() {
            left /= along.size;
            let inside = site.div(best, left as i64);
            let inside = if i == 0 { inside } else { site.binary(AluOp::Rem, inside, along.size as i64) };
            let mut dims = vec![1; self.along.len() - i];
            dims[0] = along.starts.numel();
            let at = site.add(site.reshape(&along.starts, &dims), site.mul(inside, along.dilation as i64));
            position = Some(match position {
                Some(outer) => site.add(site.mul(outer, along.extent as i64), at),
                None => at,
            });
        }
        position.unwrap_or_else(|| best.clone())
    }

    /// The number of each window's first element that is not in the padding; `None` without any
    /// in front.
    fn first_inside(&self, site: CallSite) -> Option<Tensor> {
        if self.along.iter().all(|along| along.pad == 0) {
            return None;
        }
        let number = |i: usize, along: &WindowsAlong| {
            let mut dims = vec![1; self.along.len() - i];
            dims[0] = along.starts.numel();
            let outside = site.max(site.sub(0i64, site.reshape(&along.starts, &dims)), 0i64);
            let dilation = along.dilation as i64;
            let skipped = site.div(site.add(outside, dilation - 1), dilation);
            let inner: usize = self.along[i + 1..].iter().map(|along| along.size).product();
            site.mul(skipped, inner as i64)
        };
        let numbers = self.along.iter().enumerate().map(|(i, along)| number(i, along));
        numbers.reduce(|sum, number| site.add(sum, number))
    }

    /// The largest along the last axis of the flat windows, with a gradient that the first of equal
    /// ones has.
    fn largest(&self, site: CallSite, x: &Tensor) -> Tensor {
        if x.ty().is_none() {
            return x.clone();
        }
        let last = x.rank() - 1;
        let max = site.reduce(Monoid::Max, x, &[last]);
        let first = self.first_inside(site);
        let inputs: Vec<&Tensor> = [x].into_iter().chain(&first).collect();
        with_rule(max, &inputs, move |inputs, max, cotangent| {
            let best = site.unsqueeze(&best(site, &inputs[0], max, inputs.get(1)), last);
            let elements = site.iota(inputs[0].shape()[last], best.dtype(), best.device());
            let here = site.eq(&best, elements);
            let all = site.select(&here, site.unsqueeze(cotangent, last), 0i64, cotangent.dtype());
            [Some(all)].into_iter().chain(inputs[1..].iter().map(|_| None)).collect()
        })
    }
}

/// The number of the largest along the last axis: of equal ones the first, but not padding, which
/// has the least value and comes before `first`.
fn best(site: CallSite, x: &Tensor, max: &Tensor, first: Option<&Tensor>) -> Tensor {
    let best = site.reduce(Monoid::ArgMax, x, &[x.rank() - 1]);
    match first {
        Some(first) => site.select(&site.eq(max, least(x.dtype())), first, &best, best.dtype()),
        None => best,
    }
}

/// The least value of a type, which no maximum prefers.
pub(crate) fn least(dtype: DType) -> crate::base::Scalar {
    use crate::base::Scalar;
    if dtype.is_float() { Scalar::Float(f64::NEG_INFINITY) } else { Scalar::Int(int_range(dtype).0) }
}

/// Sizes along one axis, before windows are taken.
struct PoolAxis {
    extent: usize,
    kernel: usize,
    stride: usize,
    pad: usize,
    dilation: usize,
    out: usize,
}

impl PoolAxis {
    fn span(&self) -> usize {
        self.dilation * (self.kernel - 1) + 1
    }
    /// Elements past the input and the padding before it that windows reach.
    fn after(&self) -> i64 {
        ((self.out - 1) * self.stride + self.span()) as i64 - (self.extent + self.pad) as i64
    }
    fn starts(&self, site: CallSite, like: &Tensor) -> Tensor {
        let index = site.iota(self.out, DType::I64, like.device());
        let scaled = if self.stride == 1 { index } else { site.mul(index, self.stride as i64) };
        if self.pad == 0 { scaled } else { site.sub(scaled, self.pad as i64) }
    }
}

fn max_windows(
    site: CallSite,
    spatial: usize,
    x: &Tensor,
    kernel: &Sizes,
    opts: &MaxPoolOpts,
) -> Checked<Windows> {
    let (x, lone) = batched(site, x, spatial)?;
    let sizes = (kernel, opts.stride.as_ref(), &opts.padding, &opts.dilation);
    let axes = pool_axes(site, &x, spatial, sizes, opts.ceil_mode)?;
    Ok(windows(site, &x, &axes, least(x.dtype()), lone))
}

type PoolSizes<'a> = (&'a Sizes, Option<&'a Sizes>, &'a Sizes, &'a Sizes);

fn pool_axes(
    site: CallSite,
    x: &Tensor,
    spatial: usize,
    (kernel, stride, padding, dilation): PoolSizes<'_>,
    ceil_mode: bool,
) -> Checked<Vec<PoolAxis>> {
    let kernels = kernel.resolve(site, "kernel size", spatial, 1, &[x])?;
    let strides = stride.unwrap_or(kernel).resolve(site, "stride", spatial, 1, &[x])?;
    let pads = padding.resolve(site, "padding", spatial, 0, &[x])?;
    let dilations = dilation.resolve(site, "dilation", spatial, 1, &[x])?;
    let axis = |i: usize| {
        let mut axis = PoolAxis {
            extent: x.shape()[2 + i],
            kernel: kernels[i],
            stride: strides[i],
            pad: pads[i],
            dilation: dilations[i],
            out: 0,
        };
        let (span, padded) = (axis.span(), axis.extent + 2 * axis.pad);
        site.require(axis.pad <= span / 2, &[x], || {
            (format!("padding of at most half a window of {span}"), axis.pad.to_string())
        })?;
        site.require(span <= padded && axis.extent > 0, &[x], || {
            (format!("a padded input of at least {span} on spatial axis {i}"), padded.to_string())
        })?;
        let room = padded - span;
        axis.out = if ceil_mode { room.div_ceil(axis.stride) } else { room / axis.stride } + 1;
        // A last window must start on the input or on the padding before it.
        if ceil_mode && (axis.out - 1) * axis.stride >= axis.extent + axis.pad {
            axis.out -= 1;
        }
        Ok(axis)
    };
    (0..spatial).map(axis).collect()
}

fn windows(
    site: CallSite,
    x: &Tensor,
    axes: &[PoolAxis],
    fill: impl Into<crate::base::Scalar>,
    lone: bool,
) -> Windows {
    let (mut padded, mut along) = (Vec::new(), Vec::new());
    for (i, axis) in axes.iter().enumerate() {
        let PoolAxis { kernel: size, stride, dilation, extent, .. } = *axis;
        let window = WindowAxis { axis: 2 + i as u8, size, stride, dilation };
        padded.push(PaddedWindow { window, pad: (axis.pad as i64, axis.after()) });
        along.push(WindowsAlong { extent, size, dilation, starts: axis.starts(site, x), pad: axis.pad });
    }
    let tensor = padded_windows(site, x, padded, fill);
    Windows { tensor, along, lone }
}

fn avg_pool(
    site: CallSite,
    spatial: usize,
    x: &Tensor,
    kernel: &Sizes,
    opts: &AvgPoolOpts,
) -> Checked<Tensor> {
    let (x, lone) = batched(site, x, spatial)?;
    let one = Sizes::from(1);
    let axes =
        pool_axes(site, &x, spatial, (kernel, opts.stride.as_ref(), &opts.padding, &one), opts.ceil_mode)?;
    site.require(opts.divisor_override != Some(0), &[&x], || ("a divisor other than 0".into(), "0".into()))?;
    // Sums of 16-bit floats may exceed their range before they are divided.
    let wide = site.cast(&x, x.dtype().compute());
    let windows = windows(site, &wide, &axes, 0i64, lone);
    let sum = site.reduce(Monoid::Sum, &windows.tensor, &windows.elements());
    let mean = match opts.divisor_override {
        Some(divisor) => site.div(&sum, divisor),
        None => divide_by_counts(site, &sum, &axes, opts.count_include_pad),
    };
    Ok(unbatched(site, &site.cast(&mean, x.dtype()), lone))
}

/// Divides sums by the numbers of elements of their windows: one number
/// where all windows along all axes have as many.
fn divide_by_counts(site: CallSite, sum: &Tensor, axes: &[PoolAxis], include_pad: bool) -> Tensor {
    let mut whole = 1;
    let mut counts: Option<Tensor> = None;
    for (i, axis) in axes.iter().enumerate() {
        let (before, after) = if include_pad { (axis.pad, axis.pad) } else { (0, 0) };
        if axis.pad <= before && axis.after() <= after as i64 {
            whole *= axis.kernel;
            continue;
        }
        let starts = axis.starts(site, sum);
        let ends = site.min(site.add(&starts, axis.kernel as i64), (axis.extent + after) as i64);
        let count = site.cast(&site.sub(ends, site.max(&starts, -(before as i64))), sum.dtype());
        let mut dims = vec![1; axes.len()];
        dims[i] = axis.out;
        let count = site.reshape(&count, &dims);
        counts = Some(counts.map_or(count.clone(), |all| site.mul(all, &count)));
    }
    match counts {
        Some(counts) if whole != 1 => site.div(sum, site.mul(counts, whole as i64)),
        Some(counts) => site.div(sum, counts),
        None => site.div(sum, whole as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, i64s, pattern, values};

    /// Windows along one axis by the definition: for each, the positions on
    /// the input and how many the padded input has.
    fn along(l: usize, k: usize, s: usize, p: usize, d: usize, ceil: bool) -> Vec<(Vec<usize>, usize)> {
        let room = l + 2 * p - (d * (k - 1) + 1);
        let mut out = if ceil { room.div_ceil(s) } else { room / s } + 1;
        if ceil && (out - 1) * s >= l + p {
            out -= 1;
        }
        let window = |o: usize| {
            let all = (0..k).map(|i| o * s + i * d);
            let inside = all.clone().filter(|&i| i >= p && i < l + p).map(|i| i - p).collect();
            (inside, all.filter(|&i| i < l + 2 * p).count())
        };
        (0..out).map(window).collect()
    }

    #[test]
    fn windows_are_those_of_the_definition() {
        for (k, s, p, d, ceil) in
            [(3, 2, 1, 1, false), (3, 2, 0, 1, true), (2, 3, 1, 2, true), (4, 3, 2, 1, true)]
        {
            let (h, w) = (8, 7);
            let x = pattern(&[2, h, w], 3);
            let v = values(&x);
            let (rows, columns) = (along(h, k, s, p, d, ceil), along(w, k, s, p, d, ceil));
            let (mut maxima, mut at, mut padded, mut bare) = (vec![], vec![], vec![], vec![]);
            for c in 0..2 {
                for (row, held) in &rows {
                    for (column, wide) in &columns {
                        let inside: Vec<usize> =
                            row.iter().flat_map(|&i| column.iter().map(move |&j| i * w + j)).collect();
                        let value = |&q: &usize| v[c * h * w + q];
                        let max = inside.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
                        maxima.push(max);
                        at.push(inside.iter().find(|q| value(q) == max).copied().unwrap_or(0) as f64);
                        let sum: f64 = inside.iter().map(value).sum();
                        padded.push(sum / (held * wide) as f64);
                        bare.push(sum / inside.len() as f64);
                    }
                }
            }
            let dims = [2, rows.len(), columns.len()];
            let opts = MaxPoolOpts::default().stride(s).padding(p).dilation(d).ceil_mode(ceil);
            let (max, index) = x.max_pool2d_with_indices(k, opts);
            assert_close(&max, &dims, &maxima);
            assert_close(&index, &dims, &at);
            if d == 1 {
                let opts = AvgPoolOpts::default().stride(s).padding(p).ceil_mode(ceil);
                assert_close(&x.avg_pool2d(k, opts.clone()), &dims, &padded);
                assert_close(&x.avg_pool2d(k, opts.count_include_pad(false)), &dims, &bare);
            }
        }
    }

    #[test]
    fn integers_truncate_and_divisors_may_be_given() {
        let x = i64s(&[1, 4], &[1, 2, -3, -4]);
        assert_close(&x.avg_pool1d(2, AvgPoolOpts::default()), &[1, 2], &[1.0, -3.0]);
        assert_close(&x.max_pool1d(2, MaxPoolOpts::default().padding(1)), &[1, 3], &[1.0, 2.0, -4.0]);
        let y = pattern(&[1, 4, 4], 1).avg_pool2d(4, AvgPoolOpts::default().divisor_override(-2));
        let sum: f64 = values(&pattern(&[1, 4, 4], 1)).iter().sum();
        assert_close(&y, &[1, 1, 1], &[sum / -2.0]);
    }

    #[test]
    fn errors_are_told() {
        let x = pattern(&[1, 4, 4], 1);
        assert!(error_text(&x.max_pool2d(2, MaxPoolOpts::default().padding(-1))).contains("padding"));
        assert!(error_text(&x.max_pool2d([3, 2], MaxPoolOpts::default().padding(4))).contains("half"));
        assert!(error_text(&x.max_pool2d(5, MaxPoolOpts::default())).contains("at least 5"));
        assert!(error_text(&x.avg_pool2d(2, AvgPoolOpts::default().divisor_override(0))).contains("divisor"));
        assert!(error_text(&pattern(&[], 1).max_pool1d(1, MaxPoolOpts::default())).contains("rank"));
    }
}
