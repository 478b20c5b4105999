//! Variance and standard deviation.

use crate::base::{Result, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::compose::Site;
use crate::tensor::lane::{kept, reduced};
use crate::tensor::options::options;
use crate::tensor::reduce::{computing, count, folded, mean};

options! {
    /// How a variance is taken.
    VarOpts {
        /// What is taken from the number of elements in the divisor: 1 for the
        /// unbiased estimate (the default), 0 for the elements' own variance.
        correction: f64 = 1.0;
        /// Keep the axes with extent 1 (false).
        keepdim: bool = false;
    }
}

impl Tensor {
    /// The unbiased variance over axes, of a floating type.
    #[track_caller]
    pub fn var(&self, axes: impl IntoAxes) -> Tensor {
        spread(Site::here("var"), self, axes.into_axes(), &VarOpts::default(), false)
    }

    /// As [`Tensor::var`], the axes kept with extent 1.
    #[track_caller]
    pub fn var_keepdim(&self, axes: impl IntoAxes) -> Tensor {
        spread(Site::here("var"), self, axes.into_axes(), &VarOpts::default().keepdim(true), false)
    }

    /// The variance over axes, taken as `opts` say.
    #[track_caller]
    pub fn var_with(&self, axes: impl IntoAxes, opts: VarOpts) -> Tensor {
        spread(Site::here("var_with"), self, axes.into_axes(), &opts, false)
    }

    /// The square root of [`Tensor::var`].
    #[track_caller]
    pub fn std(&self, axes: impl IntoAxes) -> Tensor {
        spread(Site::here("std"), self, axes.into_axes(), &VarOpts::default(), true)
    }

    /// As [`Tensor::std`], the axes kept with extent 1.
    #[track_caller]
    pub fn std_keepdim(&self, axes: impl IntoAxes) -> Tensor {
        spread(Site::here("std"), self, axes.into_axes(), &VarOpts::default().keepdim(true), true)
    }

    /// The square root of [`Tensor::var_with`].
    #[track_caller]
    pub fn std_with(&self, axes: impl IntoAxes, opts: VarOpts) -> Tensor {
        spread(Site::here("std_with"), self, axes.into_axes(), &opts, true)
    }

    /// The variance over axes, taken as `opts` say, and the mean.
    #[track_caller]
    pub fn var_mean(&self, axes: impl IntoAxes, opts: VarOpts) -> (Tensor, Tensor) {
        with_mean(Site::here("var_mean"), self, axes.into_axes(), &opts, false)
    }

    /// The standard deviation over axes, taken as `opts` say, and the mean.
    #[track_caller]
    pub fn std_mean(&self, axes: impl IntoAxes, opts: VarOpts) -> (Tensor, Tensor) {
        with_mean(Site::here("std_mean"), self, axes.into_axes(), &opts, true)
    }
}

fn spread(site: Site, x: &Tensor, axes: AxisList, opts: &VarOpts, root: bool) -> Tensor {
    site.build(&[x], || variance(site, x, &reduced(site, x, &axes)?, opts, root))
}

fn with_mean(site: Site, x: &Tensor, axes: AxisList, opts: &VarOpts, root: bool) -> (Tensor, Tensor) {
    site.build_pair(&[x], || {
        let axes = reduced(site, x, &axes)?;
        let centre = mean(site, x, &axes)?;
        let centre = if opts.keepdim { site.reshape(&centre, &kept(x, &axes)) } else { centre };
        Ok((variance(site, x, &axes, opts, root)?, centre))
    })
}

fn variance(site: Site, x: &Tensor, axes: &[usize], opts: &VarOpts, root: bool) -> Result<Tensor> {
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
