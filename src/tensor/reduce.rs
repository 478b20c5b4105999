//! Reductions: axes combined and removed, or kept with extent 1.

use crate::base::{DType, Kind, Result, Shape};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::call_site::with_axis;
use crate::tensor::compose::CallSite;
use crate::tensor::lane::{kept, reduced};
use crate::tensor::spec::IntoShapeSpec;

/// How an operation reduces `x` over `axes`; the axes are gone in the result.
pub(crate) type ReductionFn = fn(CallSite, &Tensor, &[usize]) -> Result<Tensor>;

macro_rules! reductions {
    ($($(#[doc = $doc:literal])+ $name:ident $keepdim:ident $rule:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(&self, axes: impl IntoAxes) -> Tensor {
                over(CallSite::here(stringify!($name)), self, axes.into_axes(), false, $rule)
            }

            #[doc = concat!("As [`Tensor::", stringify!($name), "`], the axes kept with extent 1.")]
            ///
            /// # Examples
            /// ```
            /// use kiln::prelude::*;
            /// let x = Tensor::ones([2, 3], ());
            #[doc = concat!("assert_eq!(x.", stringify!($keepdim), "(1).dims()?, [2, 1]);")]
            /// # Ok::<(), kiln::Error>(())
            /// ```
            #[track_caller]
            pub fn $keepdim(&self, axes: impl IntoAxes) -> Tensor {
                over(CallSite::here(stringify!($name)), self, axes.into_axes(), true, $rule)
            }
        )*}
    };
}

reductions! {
    /// The sum over axes, which disappear: `[2, 3]` along 1 gives `[2]`.
    ///
    /// Integers and truth values are summed as `I64`. Floats are summed in short blocks and the blocks in a
    /// second level, so that the error hardly grows with their number (Higham, "The accuracy of floating
    /// point summation", 1993). Invalid for an axis out of range or named twice.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(1).to_vec::<f32>()?, [3.0, 7.0]);
    /// assert_eq!(x.sum(..).item::<f32>()?, 10.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    sum sum_keepdim |site, x, axes| Ok(total(site, x, axes));
    /// The product over axes. Integers and truth values are multiplied as `I64`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.prod(1).to_vec::<f32>()?, [2.0, 12.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    prod prod_keepdim |site, x, axes| Ok(folded(site, &widened(site, x), Monoid::Prod, axes));
    /// The mean over axes; invalid unless the type is floating.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.mean(0).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    mean mean_keepdim mean;
    /// The largest element over axes; NaN if one is NaN.
    ///
    /// Invalid where there is no element to choose. With positions it is
    /// [`Tensor::max_with_index`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// assert_eq!(x.max(1).to_vec::<i64>()?, [5, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    max max_keepdim |site, x, axes| extreme(site, x, Monoid::Max, axes);
    /// The smallest element over axes; NaN if one is NaN.
    ///
    /// Invalid where there is no element to choose. With positions it is
    /// [`Tensor::min_with_index`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// assert_eq!(x.min(1).to_vec::<i64>()?, [1, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    min min_keepdim |site, x, axes| extreme(site, x, Monoid::Min, axes);
    /// As [`Tensor::max`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// assert_eq!(x.amax([0, 1]).to_vec::<i64>()?, [7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    amax amax_keepdim |site, x, axes| extreme(site, x, Monoid::Max, axes);
    /// As [`Tensor::min`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// assert_eq!(x.amin([0, 1]).to_vec::<i64>()?, [1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    amin amin_keepdim |site, x, axes| extreme(site, x, Monoid::Min, axes);
    /// Whether any element over axes is nonzero; `U8` stays `U8`, as in PyTorch.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[0.0f32, 2.0], [0.0, 0.0]]);
    /// assert_eq!(x.any(1).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    any any_keepdim |site, x, axes| Ok(truth(site, x, Monoid::Max, axes));
    /// Whether all elements over axes are nonzero; `U8` stays `U8`, as in PyTorch.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0], [0.0, 3.0]]);
    /// assert_eq!(x.all(1).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    all all_keepdim |site, x, axes| Ok(truth(site, x, Monoid::Min, axes));
    /// The sum over axes, NaN counting as 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, f32::NAN, 3.0]);
    /// assert_eq!(x.nansum(..).to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    nansum nansum_keepdim |site, x, axes| Ok(total(site, &without_nan(site, x), axes));
    /// The mean of the elements that are not NaN; invalid unless the type is floating.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, f32::NAN, 3.0]);
    /// assert_eq!(x.nanmean(..).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    nanmean nanmean_keepdim nanmean;
    /// The number of elements other than 0, as `I64`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[0i64, 3], [4, 5]]);
    /// assert_eq!(x.count_nonzero(1).to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    count_nonzero count_nonzero_keepdim |site, x, axes| Ok(total(site, &site.cast(x, DType::Bool), axes));
    /// The logarithm of the sum of the exponentials over axes, without overflow.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1000.0f32, 1000.0]);
    /// assert!((x.logsumexp(..).item::<f32>()? - 1000.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    logsumexp logsumexp_keepdim |site, x, axes| {
        Ok(folded(site, &site.cast(x, x.dtype().to_float()), Monoid::LogSumExp, axes))
    };
}

impl Tensor {
    /// The smallest and the largest element over axes; invalid where there is none.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// let (least, greatest) = x.aminmax(1);
    /// assert_eq!(least.to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(greatest.to_vec::<i64>()?, [5, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax(&self, axes: impl IntoAxes) -> (Tensor, Tensor) {
        extremes(CallSite::here("aminmax"), self, &axes.into_axes(), false)
    }

    /// As [`Tensor::aminmax`], the axes kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 5], [7, 4]]);
    /// let (least, greatest) = x.aminmax_keepdim(1);
    /// assert_eq!((least.dims()?, greatest.dims()?), ([2, 1], [2, 1]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn aminmax_keepdim(&self, axes: impl IntoAxes) -> (Tensor, Tensor) {
        extremes(CallSite::here("aminmax"), self, &axes.into_axes(), true)
    }

    /// The sum down to a shape that broadcasts to this one: the adjoint of [`Tensor::expand`].
    ///
    /// `[3, 2, 4]` to `[2, 1]` sums axes 0 and 2. Invalid for any other shape.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([3, 2, 4], ());
    /// assert_eq!(x.sum_to_size([2, 1]).to_vec::<f32>()?, [12.0, 12.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sum_to_size(&self, shape: impl IntoShapeSpec) -> Tensor {
        let site = CallSite::here("sum_to_size");
        let spec = shape.into_shape_spec();
        let this: &Tensor = &site.autocast(self);
        site.build(&[this], || {
            let fail = || {
                let expected = format!("a shape that broadcasts to {}", self.shape());
                site.error(expected, format!("{:?}", spec.0), &[self])
            };
            let dims = spec.0.iter().map(|&n| usize::try_from(n).map_err(|_| fail()));
            let shape = Shape(dims.collect::<Result<_>>()?);
            let own = self.shape();
            if shape.broadcast(&own).as_ref() != Some(&own) {
                return Err(fail());
            }
            let lead = own.rank() - shape.rank();
            let summed = |&axis: &usize| axis < lead || shape[axis - lead] != own[axis];
            let axes: Vec<usize> = (0..own.rank()).filter(summed).collect();
            Ok(site.reshape(&total(site, this, &axes), &shape))
        })
    }
}

/// A reduction over the axes named, put back with extent 1 on request.
pub(crate) fn over(site: CallSite, x: &Tensor, axes: AxisList, keepdim: bool, rule: ReductionFn) -> Tensor {
    let x: &Tensor = &site.autocast(x);
    site.build(&[x], || {
        let axes = reduced(site, x, &axes)?;
        let y = rule(site, x, &axes)?;
        Ok(if keepdim { site.reshape(&y, &kept(x, &axes)) } else { y })
    })
}

/// A reduction by a monoid; over no axes, still one that lifts and finishes.
pub(crate) fn folded(site: CallSite, x: &Tensor, monoid: Monoid, axes: &[usize]) -> Tensor {
    if !axes.is_empty() {
        return site.reduce(monoid, x, axes);
    }
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => x.clone(),
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 => {
            let single = site.reshape(x, &with_axis(&x.shape(), 0, 1));
            site.reduce(monoid, &single, &[0])
        }
    }
}

/// Integers and truth values as `I64`, in which they are summed.
pub(crate) fn widened(site: CallSite, x: &Tensor) -> Tensor {
    match x.dtype().kind() {
        Kind::Float => x.clone(),
        Kind::Bool | Kind::Int => site.cast(x, DType::I64),
    }
}

/// The sum over axes.
pub(crate) fn total(site: CallSite, x: &Tensor, axes: &[usize]) -> Tensor {
    folded(site, &widened(site, x), Monoid::Sum, axes)
}

/// Number of elements that each result of a reduction combines.
pub(crate) fn count(x: &Tensor, axes: &[usize]) -> usize {
    axes.iter().fold(1, |n, &axis| n.saturating_mul(x.shape()[axis]))
}

/// A floating tensor in the type its arithmetic is carried out in.
///
/// # Errors
/// A type that is not floating.
pub(crate) fn computing(site: CallSite, x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return Ok(site.cast(x, x.dtype().compute()));
    }
    Err(site.error("a floating type", x.dtype().to_string(), &[x]))
}

/// The mean over axes, rounded once.
pub(crate) fn mean(site: CallSite, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let wide = computing(site, x)?;
    let sum = total(site, &wide, axes);
    let n = site.constant_like(count(x, axes), &sum);
    Ok(site.cast(&site.alu(AluOp::Div, &[&sum, &n]), x.dtype()))
}

fn nanmean(site: CallSite, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let wide = computing(site, x)?;
    let there = site.cast(&site.alu(AluOp::Eq, &[&wide, &wide]), wide.dtype());
    let sum = total(site, &without_nan(site, &wide), axes);
    let n = total(site, &there, axes);
    Ok(site.cast(&site.alu(AluOp::Div, &[&sum, &n]), x.dtype()))
}

fn without_nan(site: CallSite, x: &Tensor) -> Tensor {
    if !x.dtype().is_float() {
        return x.clone();
    }
    site.choose(&site.alu(AluOp::Eq, &[x, x]), x, &site.constant_like(0, x))
}

/// The largest or smallest element, of which there must be one.
pub(crate) fn extreme(site: CallSite, x: &Tensor, monoid: Monoid, axes: &[usize]) -> Result<Tensor> {
    nonempty(site, x, axes)?;
    Ok(folded(site, x, monoid, axes))
}

fn extremes(site: CallSite, x: &Tensor, axes: &AxisList, keepdim: bool) -> (Tensor, Tensor) {
    site.build_pair(&[x], || {
        let axes = reduced(site, x, axes)?;
        let (least, most) = (extreme(site, x, Monoid::Min, &axes)?, extreme(site, x, Monoid::Max, &axes)?);
        if !keepdim {
            return Ok((least, most));
        }
        let shape = kept(x, &axes);
        Ok((site.reshape(&least, &shape), site.reshape(&most, &shape)))
    })
}

/// Fails where there is no element to choose from.
pub(crate) fn nonempty(site: CallSite, x: &Tensor, axes: &[usize]) -> Result<()> {
    match axes.iter().find(|&&axis| x.shape()[axis] == 0) {
        None => Ok(()),
        Some(axis) => {
            Err(site.error("at least one element to choose from", format!("extent 0 on axis {axis}"), &[x]))
        }
    }
}

fn truth(site: CallSite, x: &Tensor, monoid: Monoid, axes: &[usize]) -> Tensor {
    let found = folded(site, &site.cast(x, DType::Bool), monoid, axes);
    if x.dtype() == DType::U8 { site.cast(&found, DType::U8) } else { found }
}

#[cfg(test)]
mod tests;
