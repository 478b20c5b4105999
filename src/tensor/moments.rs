//! Variance and standard deviation.

use crate::base::{Result, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::compose::CallSite;
use crate::tensor::lane::{kept, reduced};
use crate::tensor::options::options;
use crate::tensor::reduce::{computing, count, folded, mean};

options! {
    /// How a variance is taken.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let opts = VarOpts::default().correction(0.0).keepdim(true);
    /// assert!((x.var_with(0, opts).item::<f32>()? - 0.6667).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    VarOpts {
        /// What is taken from the number of elements in the divisor: 1 for the
        /// unbiased estimate (the default), 0 for the elements' own variance.
        correction: f64 = 1.0;
        /// Keep the axes with extent 1 (false).
        keepdim: bool = false;
    }
}

impl Tensor {
    /// The unbiased variance over axes; invalid unless the type is floating.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [0.0, 4.0, 8.0]]);
    /// assert_eq!(x.var(1).to_vec::<f32>()?, [1.0, 16.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn var(&self, axes: impl IntoAxes) -> Tensor {
        spread(CallSite::here("var"), self, axes.into_axes(), &VarOpts::default(), false)
    }

    /// As [`Tensor::var`], the axes kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [0.0, 4.0, 8.0]]);
    /// assert_eq!(x.var_keepdim(1).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn var_keepdim(&self, axes: impl IntoAxes) -> Tensor {
        spread(CallSite::here("var"), self, axes.into_axes(), &VarOpts::default().keepdim(true), false)
    }

    /// The variance over axes, taken as `opts` say. PyTorch: `torch.var` with `correction`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 3.0]);
    /// assert_eq!(x.var_with(.., VarOpts::default().correction(0.0)).to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn var_with(&self, axes: impl IntoAxes, opts: VarOpts) -> Tensor {
        spread(CallSite::here("var_with"), self, axes.into_axes(), &opts, false)
    }

    /// The square root of [`Tensor::var`]: the standard deviation.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [0.0, 4.0, 8.0]]);
    /// assert_eq!(x.std(1).to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn std(&self, axes: impl IntoAxes) -> Tensor {
        spread(CallSite::here("std"), self, axes.into_axes(), &VarOpts::default(), true)
    }

    /// As [`Tensor::std`], the axes kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 2.0, 3.0], [0.0, 4.0, 8.0]]);
    /// assert_eq!(x.std_keepdim(1).dims()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn std_keepdim(&self, axes: impl IntoAxes) -> Tensor {
        spread(CallSite::here("std"), self, axes.into_axes(), &VarOpts::default().keepdim(true), true)
    }

    /// The square root of [`Tensor::var_with`]. PyTorch: `torch.std` with `correction`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 5.0]);
    /// assert_eq!(x.std_with(.., VarOpts::default().correction(0.0)).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn std_with(&self, axes: impl IntoAxes, opts: VarOpts) -> Tensor {
        spread(CallSite::here("std_with"), self, axes.into_axes(), &opts, true)
    }

    /// The variance over axes, taken as `opts` say, and the mean.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let (var, mean) = x.var_mean(0, VarOpts::default());
    /// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (1.0, 2.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn var_mean(&self, axes: impl IntoAxes, opts: VarOpts) -> (Tensor, Tensor) {
        with_mean(CallSite::here("var_mean"), self, axes.into_axes(), &opts, false)
    }

    /// The standard deviation over axes, taken as `opts` say, and the mean.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 4.0, 8.0]);
    /// let (std, mean) = x.std_mean(0, VarOpts::default());
    /// assert_eq!((std.item::<f32>()?, mean.item::<f32>()?), (4.0, 4.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn std_mean(&self, axes: impl IntoAxes, opts: VarOpts) -> (Tensor, Tensor) {
        with_mean(CallSite::here("std_mean"), self, axes.into_axes(), &opts, true)
    }
}

fn spread(site: CallSite, x: &Tensor, axes: AxisList, opts: &VarOpts, root: bool) -> Tensor {
    site.build(&[x], || variance(site, x, &reduced(site, x, &axes)?, opts, root))
}

fn with_mean(site: CallSite, x: &Tensor, axes: AxisList, opts: &VarOpts, root: bool) -> (Tensor, Tensor) {
    site.build_pair(&[x], || {
        let axes = reduced(site, x, &axes)?;
        let centre = mean(site, x, &axes)?;
        let centre = if opts.keepdim { site.reshape(&centre, &kept(x, &axes)) } else { centre };
        Ok((variance(site, x, &axes, opts, root)?, centre))
    })
}

fn variance(site: CallSite, x: &Tensor, axes: &[usize], opts: &VarOpts, root: bool) -> Result<Tensor> {
    let squares = folded(site, &computing(site, x)?, Monoid::M2, axes);
    let divisor = (count(x, axes) as f64 - opts.correction).max(0.0);
    let divisor = site.constant_like(Scalar::Float(divisor), &squares);
    let mut y = site.alu(AluOp::Div, &[&squares, &divisor]);
    if root {
        y = site.alu(AluOp::Sqrt, &[&y]);
    }
    let y = site.cast(&y, x.dtype());
    Ok(if opts.keepdim { site.reshape(&y, &kept(x, axes)) } else { y })
}
