//! Adaptive pooling: the number of windows is given, their sizes follow.
//! Window `i` of `o` along an extent `l` is `floor(i l / o) .. ceil((i + 1) l / o)`.

use smallvec::SmallVec;

use crate::base::DType;
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::pool::{Windows, WindowsAlong, least};
use crate::tensor::spatial::{LARGEST, Sizes, batched, unbatched};

/// Numbers of windows: one for all spatial axes or one for each; `None` keeps the axis's extent.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([1, 1, 4, 6], ());
/// assert_eq!(x.adaptive_avg_pool2d([None, Some(2)]).dims()?, [1, 1, 4, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSizes(pub SmallVec<[Option<i64>; 3]>);

impl<T: Into<Sizes>> From<T> for OutputSizes {
    fn from(sizes: T) -> OutputSizes {
        OutputSizes(sizes.into().0.iter().map(|&size| Some(size)).collect())
    }
}
impl<const N: usize> From<[Option<i64>; N]> for OutputSizes {
    fn from(sizes: [Option<i64>; N]) -> OutputSizes {
        OutputSizes(SmallVec::from_slice(&sizes))
    }
}
impl From<Vec<Option<i64>>> for OutputSizes {
    fn from(sizes: Vec<Option<i64>>) -> OutputSizes {
        OutputSizes(SmallVec::from_vec(sizes))
    }
}

macro_rules! adaptive {
    ($($avg:ident $max:ident $indices:ident $rank:literal $axes:literal $x:literal;)*) => {$(
        #[doc = concat!("Means over so many windows that `", $axes, "` get the given extents.")]
        ///
        /// Invalid when the rank or the number of sizes does not fit, or one
        /// is negative.
        #[doc = concat!("PyTorch: `nn.functional.", stringify!($avg), "`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let y = x.", stringify!($avg), "(3);")]
        /// assert_eq!((y.shape()[2], y.mean(..).item::<f32>()?), (3, 1.0));
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $avg(&self, size: impl Into<OutputSizes>) -> Tensor {
            let site = CallSite::here(stringify!($avg));
            let this: &Tensor = &site.autocast(self);
            finish(average(site, $rank, this, &size.into()))
        }

        #[doc = concat!("Maxima over so many windows that `", $axes, "` get the given extents.")]
        ///
        /// Invalid in the same cases.
        #[doc = concat!("PyTorch: `nn.functional.", stringify!($max), "`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let y = x.", stringify!($max), "(3);")]
        /// assert_eq!((y.shape()[2], y.mean(..).item::<f32>()?), (3, 1.0));
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $max(&self, size: impl Into<OutputSizes>) -> Tensor {
            let site = CallSite::here(stringify!($max));
            let this: &Tensor = &site.autocast(self);
            finish(masked(site, $rank, this, &size.into()).map(|windows| windows.max(site)))
        }

        #[doc = concat!("[`Tensor::", stringify!($max), "`] and where each element is: its row-major")]
        #[doc = concat!("position in `", $axes, "`, as `I64`.")]
        ///
        /// # Examples
        /// ```
        /// use kiln::prelude::*;
        #[doc = concat!("let x = Tensor::ones(", $x, ", ());")]
        #[doc = concat!("let (y, indices) = x.", stringify!($indices), "(3);")]
        /// assert_eq!((y.shape(), indices.dtype()), (indices.shape(), DType::I64));
        /// # Ok::<(), kiln::Error>(())
        /// ```
        #[track_caller]
        pub fn $indices(&self, size: impl Into<OutputSizes>) -> (Tensor, Tensor) {
            let site = CallSite::here(stringify!($max));
            let this: &Tensor = &site.autocast(self);
            match masked(site, $rank, this, &size.into()) {
                Ok(windows) => windows.max_and_position(site),
                Err(invalid) => (invalid.clone(), invalid),
            }
        }
    )*};
}

impl Tensor {
    adaptive! {
        adaptive_avg_pool1d adaptive_max_pool1d adaptive_max_pool1d_with_indices 1 "l" "[1, 2, 5]";
        adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool2d_with_indices 2 "h, w" "[1, 2, 5, 5]";
        adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices 3 "d, h, w" "[1, 2, 5, 5, 5]";
    }
}

/// Means over windows, for interpolation by area too.
pub(crate) fn average(site: CallSite, spatial: usize, x: &Tensor, size: &OutputSizes) -> Checked<Tensor> {
    // Sums of 16-bit floats may exceed their range before they are divided.
    let wide = site.cast(x, x.dtype().to_float().compute());
    let (windows, counts) = windows(site, spatial, &wide, size, 0.0.into())?;
    let mut mean = site.reduce(Monoid::Sum, &windows.tensor, &windows.elements());
    for count in counts {
        mean = match count {
            Count::Same(count) => site.div(&mean, count as i64),
            Count::Each(counts) => site.div(&mean, site.cast(&counts, mean.dtype())),
        };
    }
    Ok(unbatched(site, &site.cast(&mean, x.dtype().to_float()), windows.lone))
}

fn masked(site: CallSite, spatial: usize, x: &Tensor, size: &OutputSizes) -> Checked<Windows> {
    Ok(windows(site, spatial, x, size, least(x.dtype()))?.0)
}

/// Numbers of elements of the windows along one axis.
enum Count {
    Same(usize),
    /// Shaped to broadcast against the windows.
    Each(Tensor),
}

fn output_sizes(site: CallSite, spatial: usize, x: &Tensor, size: &OutputSizes) -> Checked<Vec<usize>> {
    let all = if size.0.len() == 1 { vec![size.0[0]; spatial] } else { size.0.to_vec() };
    let fits = all.len() == spatial && all.iter().all(|size| size.is_none_or(|n| (0..=LARGEST).contains(&n)));
    site.require(fits, &[x], || {
        let expected = format!("1 or {spatial} output sizes in 0..={LARGEST}");
        (expected, format!("{:?}", &size.0[..]))
    })?;
    Ok(all.iter().enumerate().map(|(i, n)| n.map_or(x.shape()[2 + i], |n| n as usize)).collect())
}

fn windows(
    site: CallSite,
    spatial: usize,
    x: &Tensor,
    size: &OutputSizes,
    fill: crate::base::Scalar,
) -> Checked<(Windows, Vec<Count>)> {
    let (x, lone) = batched(site, x, spatial)?;
    let sizes = output_sizes(site, spatial, &x, size)?;
    let empty = x.shape()[2..].contains(&0);
    site.require(!empty, &[&x], || ("spatial extents of at least 1".into(), format!("shape {}", x.shape())))?;
    let (mut tensor, mut along, mut counts) = (x.clone(), Vec::new(), Vec::new());
    for (i, &out) in sizes.iter().enumerate() {
        let axis = Adaptive { extent: x.shape()[2 + i], out, axis: 2 + i, spatial };
        let (windowed, one, count) = axis.split(site, &tensor, fill);
        tensor = windowed;
        along.push(one);
        counts.push(count);
    }
    Ok((Windows { tensor, along, lone }, counts))
}

/// Windows along one axis.
struct Adaptive {
    extent: usize,
    out: usize,
    axis: usize,
    spatial: usize,
}

impl Adaptive {
    /// Elements of the largest window. With `l / o = q + r / m` in lowest
    /// terms, a window covers `q + ceil(f + r / m)` elements for every
    /// fraction `f = 0, 1 / m, .., (m - 1) / m`.
    fn size(&self) -> usize {
        if self.out == 0 {
            return 1;
        }
        let (q, r) = (self.extent / self.out, self.extent % self.out);
        match r / gcd(self.out, r.max(1)) {
            _ if r == 0 => q,
            1 => q + 1,
            _ => q + 2,
        }
    }

    /// The axis split: its windows in place, their elements on a new last axis.
    fn split(&self, site: CallSite, x: &Tensor, fill: crate::base::Scalar) -> (Tensor, WindowsAlong, Count) {
        let size = self.size();
        let index = site.iota(self.out, DType::I64, x.device());
        let starts = site.div(site.mul(&index, self.extent as i64), self.out.max(1) as i64);
        let along = |starts| WindowsAlong { extent: self.extent, size, dilation: 1, starts, pad: 0 };
        let mut order: Vec<usize> = (0..=x.rank()).collect();
        order.remove(self.axis + 1);
        order.push(self.axis + 1);
        let mut dims = x.shape().to_vec();
        dims.splice(self.axis..=self.axis, [self.out, size]);
        if self.out > 0 && self.extent.is_multiple_of(self.out) {
            let split = site.permute(&site.reshape(x, &dims), &order);
            return (split, along(starts), Count::Same(size));
        }
        // ceil((i + 1) l / o)
        let past = (self.extent + self.out.max(1) - 1) as i64;
        let ends = site.div(site.add(site.mul(&index, self.extent as i64), past), self.out.max(1) as i64);
        let column = |t: &Tensor| site.reshape(t, &[self.out, 1]);
        let at = site.add(column(&starts), site.iota(size, DType::I64, x.device()));
        let inside = site.lt(&at, column(&ends));
        let at = site.min(&at, self.extent as i64 - 1);
        let taken = site.take(x, self.axis, &site.reshape(&at, &[self.out * size]));
        let split = site.permute(&site.reshape(&taken, &dims), &order);
        let mut mask = vec![1; split.rank()];
        mask[self.axis] = self.out;
        mask[x.rank()] = size;
        let split = site.select(&site.reshape(&inside, &mask), &split, fill, x.dtype());
        let mut dims = vec![1; self.spatial];
        dims[self.axis - 2] = self.out;
        let counts = site.reshape(&site.binary(AluOp::Sub, &ends, &starts), &dims);
        (split, along(starts), Count::Each(counts))
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use crate::tensor::testing::{assert_close, error_text, pattern, values};

    fn edges(extent: usize, out: usize) -> Vec<(usize, usize)> {
        (0..out).map(|i| (i * extent / out, ((i + 1) * extent).div_ceil(out))).collect()
    }

    #[test]
    fn windows_cover_what_their_edges_say() {
        for (h, w, oh, ow) in [(7, 5, 3, 2), (6, 4, 3, 2), (5, 3, 8, 7), (9, 6, 6, 4), (4, 4, 1, 4)] {
            let x = pattern(&[2, h, w], 1);
            let v = values(&x);
            let (mut means, mut maxima, mut at) = (Vec::new(), Vec::new(), Vec::new());
            for c in 0..2 {
                for &(top, bottom) in &edges(h, oh) {
                    for &(left, right) in &edges(w, ow) {
                        let inside: Vec<usize> =
                            (top..bottom).flat_map(|i| (left..right).map(move |j| i * w + j)).collect();
                        let value = |&p: &usize| v[c * h * w + p];
                        means.push(inside.iter().map(value).sum::<f64>() / inside.len() as f64);
                        let max = inside.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
                        maxima.push(max);
                        at.push(inside.iter().find(|p| value(p) == max).copied().unwrap_or(0) as f64);
                    }
                }
            }
            assert_close(&x.adaptive_avg_pool2d([oh, ow]), &[2, oh, ow], &means);
            let (max, index) = x.adaptive_max_pool2d_with_indices([oh, ow]);
            assert_close(&max, &[2, oh, ow], &maxima);
            assert_close(&index, &[2, oh, ow], &at);
        }
    }

    #[test]
    fn none_keeps_the_extent_and_zero_empties_it() {
        let x = pattern(&[1, 2, 4, 6], 1);
        assert_eq!(x.adaptive_avg_pool2d([Some(2), None]).shape()[..], [1, 2, 2, 6]);
        assert_eq!(values(&x.adaptive_max_pool2d([0, 3])).len(), 0);
        assert!(error_text(&x.adaptive_avg_pool2d(-1)).contains("output sizes in 0..="));
        assert!(error_text(&x.adaptive_avg_pool2d(Vec::<Option<i64>>::new())).contains("1 or 2"));
    }
}
