//! Variance and standard deviation.

use crate::base::{DType, Result, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::tensor::Tensor;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::compose::CallSite;
use crate::tensor::lane::{kept, reduced};
use crate::tensor::options::options;
use crate::tensor::reduce::{computing, count, folded, mean};
use crate::tensor::rule::with_rule;

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
    /// No square overflows on the way. The gradient of a deviation of 0 is 0.
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
    let wide = computing(site, x)?;
    let divisor = (count(x, axes) as f64 - opts.correction).max(0.0);
    let divisor = site.constant_like(Scalar::Float(divisor), &wide);
    let y = if root {
        deviation(site, &wide, axes, &divisor)
    } else {
        site.alu(AluOp::Div, &[&folded(site, &wide, Monoid::M2, axes), &divisor])
    };
    let y = site.cast(&y, x.dtype());
    Ok(if opts.keepdim { site.reshape(&y, &kept(x, axes)) } else { y })
}

/// The root of the squared deviations' sum over `divisor`.
fn deviation(site: CallSite, x: &Tensor, axes: &[usize], divisor: &Tensor) -> Tensor {
    if x.numel() == 0 {
        let squares = folded(site, x, Monoid::M2, axes);
        return site.alu(AluOp::Sqrt, &[&site.alu(AluOp::Div, &[&squares, divisor])]);
    }
    let (scale, scaled) = in_range(site, x, axes);
    let squares = folded(site, &scaled, Monoid::M2, axes);
    let root = site.alu(AluOp::Sqrt, &[&site.alu(AluOp::Div, &[&squares, divisor])]);
    let y = site.alu(AluOp::Div, &[&root, &site.reshape(&scale, &root.shape())]);
    let axes: Box<[usize]> = axes.into();
    with_rule(y, &[x, divisor], move |inputs, y, g| {
        let (x, divisor) = (&inputs[0], &inputs[1]);
        let (scale, scaled) = in_range(site, x, &axes);
        let centred = site.sub(&scaled, site.mean_keepdim(&scaled, &axes));
        let size = site.alu(AluOp::Mul, &[&site.reshape(y, &scale.shape()), &scale]);
        let still = site.alu(AluOp::Eq, &[&size, &site.constant_like(0, &size)]);
        let safe = site.choose(&still, &site.constant_like(1, &size), &size);
        let share = site.alu(AluOp::Div, &[&site.reshape(g, &scale.shape()), divisor]);
        let factor = site.alu(AluOp::Div, &[&share, &safe]);
        let factor = site.choose(&still, &site.constant_like(0, &size), &factor);
        vec![Some(site.alu(AluOp::Mul, &[&centred, &site.expand(&factor, &x.shape())])), None]
    })
}

/// A power of two over axes that stay with extent 1, and the elements times it, whose squares
/// neither overflow nor vanish.
fn in_range(site: CallSite, x: &Tensor, axes: &[usize]) -> (Tensor, Tensor) {
    let double = x.dtype() == DType::F64;
    let (bound, down, up) = if double { (300, -700, 700) } else { (40, -80, 90) };
    let power = |exponent: i32| site.constant_like(Scalar::Float(2f64.powi(exponent)), x);
    let largest = folded(site, &site.alu(AluOp::Abs, &[x]), Monoid::Max, axes);
    let largest = site.reshape(&largest, &kept(x, axes));
    let small = site.alu(AluOp::Lt, &[&largest, &power(-bound)]);
    let large = site.alu(AluOp::Lt, &[&power(bound), &largest]);
    let scale = site.choose(&small, &power(up), &site.constant_like(1, x));
    let scale = site.choose(&large, &power(down), &scale);
    let scaled = site.alu(AluOp::Mul, &[x, &site.expand(&scale, &x.shape())]);
    (scale, scaled)
}
