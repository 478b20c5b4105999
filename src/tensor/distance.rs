//! Distances and similarities between vectors.

use crate::tensor::Tensor;
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::magnitude::magnitude;
use crate::tensor::options::options;

options! {
    /// Options of [`Tensor::pairwise_distance`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::PairwiseDistanceOpts;
    /// let (x, y) = (Tensor::from([1.0f32, 5.0]), Tensor::from([2.0f32, 3.0]));
    /// let y = x.pairwise_distance(&y, PairwiseDistanceOpts::default().p(1.0).eps(0.0));
    /// assert_eq!(y.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    PairwiseDistanceOpts {
        /// The norm's order (2).
        p: f64 = 2.0;
        /// Added to each difference (1e-6); with 0, the gradient of a distance of 0 is 0.
        eps: f64 = 1e-6;
        /// Keep the last axis with extent 1.
        keepdim: bool = false;
    }
}

impl Tensor {
    /// Distances by the `p`-norm between the rows of two (batches of) matrices.
    ///
    /// `[.., n, d]` and `[.., m, d]` give `[.., n, m]`. Invalid when `p` is negative, a rank is
    /// below 2 or the rows' lengths differ.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([[0.0f32, 0.0]]), Tensor::from([[3.0f32, 4.0], [0.0, 1.0]]));
    /// assert_eq!(x.cdist(&y, 2.0).to_vec::<f32>()?, [5.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Tensor {
        let site = CallSite::here("cdist");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        finish(cdist(site, this, other, p))
    }

    /// The `p`-norm of `self - other + eps` along the last axis: `[.., n]` to `[..]`.
    ///
    /// Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([3.0f32, 4.0]), Tensor::zeros([2], ()));
    /// assert!((x.pairwise_distance(&y, Default::default()).item::<f32>()? - 5.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn pairwise_distance(&self, other: &Tensor, opts: PairwiseDistanceOpts) -> Tensor {
        let site = CallSite::here("pairwise_distance");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        pairwise(site, this, other, &opts)
    }

    /// The cosine of the angle between vectors along an axis, which disappears; shapes broadcast.
    ///
    /// Each length is taken as at least `eps` (PyTorch's default: 1e-8).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([1.0f32, 1.0]), Tensor::from([1.0f32, 0.0]));
    /// assert!((x.cosine_similarity(&y, 0, 1e-8).item::<f32>()? - 0.7071).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: i64, eps: f64) -> Tensor {
        let site = CallSite::here("cosine_similarity");
        let this: &Tensor = &site.autocast(self);
        let other: &Tensor = &site.autocast(other);
        finish(cosine_similarity(site, this, other, axis, eps))
    }
}

/// The norms of the differences along the last axis.
pub(crate) fn pairwise(site: CallSite, a: &Tensor, b: &Tensor, opts: &PairwiseDistanceOpts) -> Tensor {
    let difference = site.add(float(site, &site.sub(a, b)), opts.eps);
    let axis = match site.axis(&difference, -1) {
        Ok(axis) => axis,
        Err(invalid) => return invalid,
    };
    let norms = norm(site, &difference, opts.p, axis);
    if opts.keepdim { site.unsqueeze(&norms, axis) } else { norms }
}

/// Integers and truth values as the default floating type.
pub(crate) fn float(site: CallSite, x: &Tensor) -> Tensor {
    site.cast(x, x.dtype().to_float())
}

/// The `p`-norm along an axis, which disappears.
pub(crate) fn norm(site: CallSite, x: &Tensor, p: f64, axis: usize) -> Tensor {
    site.build(&[x], || magnitude(site, &float(site, x), p, &[axis]))
}

fn cdist(site: CallSite, a: &Tensor, b: &Tensor, p: f64) -> Checked<Tensor> {
    site.require(p >= 0.0, &[a, b], || ("a norm of order at least 0".into(), p.to_string()))?;
    let (ra, rb) = (a.rank(), b.rank());
    let fits = ra >= 2 && rb >= 2 && a.shape()[ra - 1] == b.shape()[rb - 1];
    site.require(fits, &[a, b], || {
        ("matrices with rows of one length".into(), format!("{} and {}", a.shape(), b.shape()))
    })?;
    let difference = site.sub(site.unsqueeze(a, ra - 1), site.unsqueeze(b, rb - 2));
    site.valid(&[&difference])?;
    // Rows of nothing are at no distance, whatever the order.
    let p = if a.shape()[ra - 1] == 0 { 1.0 } else { p };
    Ok(norm(site, &difference, p, difference.rank() - 1))
}

fn cosine_similarity(site: CallSite, a: &Tensor, b: &Tensor, axis: i64, eps: f64) -> Checked<Tensor> {
    let dtype = a.dtype().promote(b.dtype());
    site.require(dtype.is_float(), &[a, b], || ("floating tensors".into(), dtype.to_string()))?;
    // A single element is a vector of one, as in PyTorch.
    let vector = |x: &Tensor| if x.rank() == 0 { site.unsqueeze(x, 0) } else { x.clone() };
    let (a, b) = (vector(&site.cast(a, dtype.compute())), vector(&site.cast(b, dtype.compute())));
    let product = site.mul(&a, &b);
    let axis = site.axis(&product, axis)?;
    let shape = product.shape();
    let length = |x: &Tensor| site.max(norm(site, &site.expand(x, &shape), 2.0, axis), eps);
    // One after the other, since the product of small or large lengths has no room.
    let similarity = site.div(site.div(site.sum(&product, &[axis]), length(&a)), length(&b));
    Ok(site.cast(&similarity, dtype))
}
