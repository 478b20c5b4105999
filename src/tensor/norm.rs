//! Normalizations. Each is composed so that one kernel per row can do it:
//! `m = sum(x) / n`, `d = x - m`, `v = sum(d d) / n`, `d / sqrt(v + eps)`.
//! 16-bit floats compute in `F32` and are rounded once.

use crate::base::shape::volume;
use crate::base::{DType, Shape};
use crate::tensor::compose::{CallSite, Checked, finish};
use crate::tensor::distance::norm;
use crate::tensor::options::{options, some};
use crate::tensor::{Tensor, reduce};

options! {
    /// Options of layer, RMS and group normalization.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 3.0]]);
    /// let opts = NormOpts::default().weight(&Tensor::from([10.0f32, 10.0])).eps(0.0);
    /// assert_eq!(x.layer_norm([2], opts).to_vec::<f32>()?, [-10.0, 10.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    NormOpts {
        /// Multiplied onto the result.
        weight: Option<Tensor> = None, &Tensor => some;
        /// Added to the result.
        bias: Option<Tensor> = None, &Tensor => some;
        /// Added to the variance; 1e-5 if `None`, for RMS normalization the
        /// machine epsilon.
        eps: Option<f64> = None, f64 => Some;
    }
}

options! {
    /// Options of batch and instance normalization.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 30.0]]);
    /// let (mean, var) = (Tensor::from([1.0f32, 10.0]), Tensor::from([1.0f32, 4.0]));
    /// let y = x.batch_norm(RunningNormOpts::running(&mean, &var).eps(0.0));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 10.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    RunningNormOpts {
        /// Means per channel, used unless `input_stats`.
        running_mean: Option<Tensor> = None, &Tensor => some;
        /// Variances per channel, used unless `input_stats`.
        running_var: Option<Tensor> = None, &Tensor => some;
        /// Multiplied onto the result, per channel.
        weight: Option<Tensor> = None, &Tensor => some;
        /// Added to the result, per channel.
        bias: Option<Tensor> = None, &Tensor => some;
        /// Normalize by the input's own statistics (false): PyTorch's `training` of batch
        /// and `use_input_stats` of instance normalization.
        input_stats: bool = false;
        /// Added to the variance (1e-5).
        eps: f64 = 1e-5;
    }
}

impl RunningNormOpts {
    /// By the input's own statistics. PyTorch: `training=True`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32], [3.0]]);
    /// assert_eq!(x.batch_norm(RunningNormOpts::training().eps(0.0)).to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn training() -> RunningNormOpts {
        RunningNormOpts::default().input_stats(true)
    }
    /// By statistics gathered before. PyTorch: `training=False`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (mean, var) = (Tensor::from([1.0f32]), Tensor::from([4.0f32]));
    /// let opts = RunningNormOpts::running(&mean, &var).eps(0.0);
    /// assert_eq!(Tensor::from([[5.0f32]]).batch_norm(opts).to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn running(mean: &Tensor, var: &Tensor) -> RunningNormOpts {
        RunningNormOpts::default().running_mean(mean).running_var(var)
    }
}

impl Tensor {
    /// Normalizes over the last axes, whose extents are `shape` (Ba et al. 2016); the shape stays.
    ///
    /// Weight and bias have that shape. Invalid unless the type is floating and the last extents
    /// fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 3.0], [0.0, 8.0]]);
    /// let y = x.layer_norm([2], NormOpts::default().eps(0.0));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, shape: impl Into<Shape>, opts: NormOpts) -> Tensor {
        let site = CallSite::here("layer_norm");
        let this: &Tensor = &site.autocast(self);
        match layer_norm(site, this, &shape.into(), &opts) {
            Ok((y, ..)) => y,
            Err(invalid) => invalid,
        }
    }

    /// [`Tensor::layer_norm`], the means, and one over the standard deviations.
    ///
    /// The statistics keep the normalized axes with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 3.0]]);
    /// let (y, mean, rstd) = x.native_layer_norm([2], NormOpts::default().eps(0.0));
    /// assert_eq!(Tensor::cat(&[y, mean, rstd], 1).to_vec::<f32>()?, [-1.0, 1.0, 2.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn native_layer_norm(&self, shape: impl Into<Shape>, opts: NormOpts) -> (Tensor, Tensor, Tensor) {
        let site = CallSite::here("native_layer_norm");
        let this: &Tensor = &site.autocast(self);
        match layer_norm(site, this, &shape.into(), &opts) {
            Ok((y, mean, rstd)) => (y, mean.detached(site.span), rstd.detached(site.span)),
            Err(invalid) => (invalid.clone(), invalid.clone(), invalid),
        }
    }

    /// Divides by the root mean square over the last axes (Zhang and Sennrich 2019).
    ///
    /// Their extents are `shape`, which weight and bias have too. Invalid unless the type is
    /// floating and the last extents fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[2.0f32, -2.0]]);
    /// assert_eq!(x.rms_norm([2], NormOpts::default().eps(0.0)).to_vec::<f32>()?, [1.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm(&self, shape: impl Into<Shape>, opts: NormOpts) -> Tensor {
        let site = CallSite::here("rms_norm");
        let this: &Tensor = &site.autocast(self);
        finish(rms_norm(site, this, &shape.into(), &opts))
    }

    /// Normalizes `[n, c, ..]` over groups of channels and all further axes (Wu and He 2018).
    ///
    /// There are `groups` equal groups; weight and bias are `[c]`. Invalid unless the groups divide
    /// the channels.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 3.0, 0.0, 8.0]]);
    /// let y = x.group_norm(2, NormOpts::default().eps(0.0));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn group_norm(&self, groups: usize, opts: NormOpts) -> Tensor {
        let site = CallSite::here("group_norm");
        let this: &Tensor = &site.autocast(self);
        finish(group_norm(site, this, groups, &opts))
    }

    /// Normalizes `[n, c, ..]` over all axes but the channels (Ioffe and Szegedy 2015).
    ///
    /// The shape stays. New running statistics come from [`Tensor::batch_norm_stats`]. Invalid
    /// without statistics, or with a single value per channel in training.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32, 0.0], [3.0, 8.0]]);
    /// let y = x.batch_norm(RunningNormOpts::training().eps(0.0));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, -1.0, 1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm(&self, opts: RunningNormOpts) -> Tensor {
        let site = CallSite::here("batch_norm");
        finish(batch_norm(site, self, &opts))
    }

    /// The running mean and variance after one training batch.
    ///
    /// `(1 - momentum) * old + momentum * new`, the new variance unbiased. Invalid unless both are
    /// `[c]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1.0f32], [3.0]]);
    /// let (mean, var) = x.batch_norm_stats(&Tensor::zeros([1], ()), &Tensor::ones([1], ()), 0.5);
    /// assert_eq!((mean.item::<f32>()?, var.item::<f32>()?), (1.0, 1.5));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn batch_norm_stats(&self, mean: &Tensor, var: &Tensor, momentum: f64) -> (Tensor, Tensor) {
        let site = CallSite::here("batch_norm_stats");
        match batch_norm_stats(site, self, mean, var, momentum) {
            Ok(stats) => stats,
            Err(invalid) => (invalid.clone(), invalid),
        }
    }

    /// Normalizes `[n, c, ..]` over the axes after the channels (Ulyanov et al. 2016).
    ///
    /// Invalid below rank 3.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[[1.0f32, 3.0], [0.0, 8.0]]]);
    /// let y = x.instance_norm(RunningNormOpts::training().eps(0.0));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn instance_norm(&self, opts: RunningNormOpts) -> Tensor {
        let site = CallSite::here("instance_norm");
        finish(instance_norm(site, self, &opts))
    }

    /// Divides by the `p`-norm along an axis, taken as at least `eps`; the shape stays.
    ///
    /// PyTorch: `nn.functional.normalize`, with the defaults 2, 1 and 1e-12.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[3.0f32, 4.0]]);
    /// let length = x.normalize(2.0, 1, 1e-12).square().sum(1);
    /// assert!((length.item::<f32>()? - 1.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn normalize(&self, p: f64, axis: i64, eps: f64) -> Tensor {
        let site = CallSite::here("normalize");
        let this: &Tensor = &site.autocast(self);
        let wide = site.cast(this, this.dtype().to_float().compute());
        // A single element is a vector of one, as in PyTorch.
        let wide = if this.rank() == 0 { site.unsqueeze(&wide, 0) } else { wide };
        let axis = match site.axis(&wide, axis) {
            Ok(axis) => axis,
            Err(invalid) => return invalid,
        };
        let length = site.unsqueeze(&norm(site, &wide, p, axis), axis);
        let unit = site.reshape(&site.div(&wide, site.max(length, eps)), &this.shape());
        site.cast(&unit, this.dtype().to_float())
    }
}

/// The numbers of the last axes, whose extents `shape` gives.
fn normalized_axes(site: CallSite, x: &Tensor, shape: &Shape, opts: &NormOpts) -> Checked<Vec<usize>> {
    site.require(x.dtype().is_float(), &[x], || ("a floating tensor".into(), x.dtype().to_string()))?;
    let rank = shape.rank();
    site.require(rank > 0, &[x], || ("at least one normalized axis".into(), "none".into()))?;
    let fits = x.rank() >= rank && x.shape()[x.rank() - rank..] == shape[..];
    site.require(fits, &[x], || (format!("last extents {shape}"), format!("shape {}", x.shape())))?;
    for affine in [&opts.weight, &opts.bias].into_iter().flatten() {
        site.require(affine.shape() == *shape, &[x, affine], || {
            (format!("weight and bias of shape {shape}"), affine.shape().to_string())
        })?;
    }
    Ok((x.rank() - rank..x.rank()).collect())
}

/// Deviations from the mean, the mean, and one over the standard deviation,
/// over axes that stay with extent 1.
fn deviations(site: CallSite, wide: &Tensor, axes: &[usize], eps: f64) -> (Tensor, Tensor, Tensor) {
    let mean = site.mean_keepdim(wide, axes);
    let deviation = site.sub(wide, &mean);
    let variance = site.mean_keepdim(&site.square(&deviation), axes);
    (deviation, mean, site.rsqrt(&site.add(variance, eps)))
}

/// Weight and bias applied where there are, and the result rounded.
fn affine(site: CallSite, y: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, dtype: DType) -> Tensor {
    let wide = |t: &Tensor| site.cast(t, y.dtype());
    let scaled = weight.map_or(y.clone(), |w| site.mul(&y, wide(w)));
    let shifted = bias.map_or(scaled.clone(), |b| site.add(&scaled, wide(b)));
    site.cast(&shifted, dtype)
}

fn layer_norm(
    site: CallSite,
    x: &Tensor,
    shape: &Shape,
    opts: &NormOpts,
) -> Checked<(Tensor, Tensor, Tensor)> {
    let axes = normalized_axes(site, x, shape, opts)?;
    let wide = site.cast(x, x.dtype().compute());
    let (deviation, mean, rstd) = deviations(site, &wide, &axes, opts.eps.unwrap_or(1e-5));
    let y = site.mul(deviation, &rstd);
    let y = affine(site, y, opts.weight.as_ref(), opts.bias.as_ref(), x.dtype());
    Ok((y, site.cast(&mean, x.dtype()), site.cast(&rstd, x.dtype())))
}

fn rms_norm(site: CallSite, x: &Tensor, shape: &Shape, opts: &NormOpts) -> Checked<Tensor> {
    let axes = normalized_axes(site, x, shape, opts)?;
    let wide = site.cast(x, x.dtype().compute());
    let epsilon = if wide.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let square = site.mean_keepdim(&site.square(&wide), &axes);
    let y = site.mul(&wide, site.rsqrt(&site.add(square, opts.eps.unwrap_or(epsilon))));
    Ok(affine(site, y, opts.weight.as_ref(), opts.bias.as_ref(), x.dtype()))
}

/// A tensor per channel, shaped to broadcast against `[n, c, ..]`.
fn per_channel(site: CallSite, x: &Tensor, channels: usize, rank: usize) -> Checked<Tensor> {
    check_channels(site, x, channels)?;
    let mut dims = vec![1; rank - 1];
    dims[0] = channels;
    Ok(site.reshape(x, &dims))
}

fn check_channels(site: CallSite, x: &Tensor, channels: usize) -> Checked<()> {
    site.require(x.shape()[..] == [channels], &[x], || {
        (format!("a tensor of shape [{channels}], one element per channel"), x.shape().to_string())
    })
}

fn channels_of(site: CallSite, x: &Tensor, least: usize) -> Checked<usize> {
    site.require(x.rank() >= least && x.dtype().is_float(), &[x], || {
        (format!("a floating tensor of rank at least {least}"), format!("{} of rank {}", x.dtype(), x.rank()))
    })?;
    Ok(x.shape()[1])
}

/// Channel-wise weight and bias applied to `y`, and the result rounded.
fn channel_affine(
    site: CallSite,
    y: Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    dtype: DType,
) -> Checked<Tensor> {
    let shaped = |t: Option<&Tensor>| t.map(|t| per_channel(site, t, y.shape()[1], y.rank())).transpose();
    let (weight, bias) = (shaped(weight)?, shaped(bias)?);
    Ok(affine(site, y, weight.as_ref(), bias.as_ref(), dtype))
}

fn group_norm(site: CallSite, x: &Tensor, groups: usize, opts: &NormOpts) -> Checked<Tensor> {
    let channels = channels_of(site, x, 2)?;
    site.require(groups > 0 && channels % groups == 0, &[x], || {
        (format!("groups that divide {channels} channels"), groups.to_string())
    })?;
    let shape = x.shape();
    let each = volume(&shape[2..]);
    site.require(each > 0, &[x], || ("extents after the channels of at least 1".into(), shape.to_string()))?;
    let wide = site.cast(x, x.dtype().compute());
    let split = site.reshape(&wide, &[shape[0], groups, (channels / groups).saturating_mul(each)]);
    let (deviation, _, rstd) = deviations(site, &split, &[2], opts.eps.unwrap_or(1e-5));
    let y = site.reshape(&site.mul(deviation, rstd), &shape);
    channel_affine(site, y, opts.weight.as_ref(), opts.bias.as_ref(), x.dtype())
}

fn batch_norm(site: CallSite, x: &Tensor, opts: &RunningNormOpts) -> Checked<Tensor> {
    // As in PyTorch, an empty input of any rank is its own result.
    if x.ty().is_some() && x.numel() == 0 {
        return Ok(x.clone());
    }
    let channels = channels_of(site, x, 2)?;
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    if opts.input_stats {
        let values = reduce::count(x, &axes);
        site.require(values != 1, &[x], || {
            ("more than one value per channel to normalize by".into(), format!("shape {}", x.shape()))
        })?;
    }
    running_norm(site, x, channels, &axes, opts)
}

fn instance_norm(site: CallSite, x: &Tensor, opts: &RunningNormOpts) -> Checked<Tensor> {
    let channels = channels_of(site, x, 3)?;
    running_norm(site, x, channels, &(2..x.rank()).collect::<Vec<_>>(), opts)
}

/// By the input's statistics over `axes`, or by running ones.
fn running_norm(
    site: CallSite,
    x: &Tensor,
    channels: usize,
    axes: &[usize],
    opts: &RunningNormOpts,
) -> Checked<Tensor> {
    let wide = site.cast(x, x.dtype().compute());
    let (deviation, rstd) = match (&opts.running_mean, &opts.running_var) {
        (Some(mean), Some(var)) if !opts.input_stats => {
            let column = |t| Ok(site.cast(&per_channel(site, t, channels, x.rank())?, wide.dtype()));
            let (mean, var): (Tensor, Tensor) = (column(mean)?, column(var)?);
            (site.sub(&wide, mean), site.rsqrt(&site.add(var, opts.eps)))
        }
        (_, _) if opts.input_stats => {
            let (deviation, _, rstd) = deviations(site, &wide, axes, opts.eps);
            (deviation, rstd)
        }
        (_, _) => return Err(site.invalid("a running mean and variance, or training", "neither", &[x])),
    };
    let y = site.mul(deviation, rstd);
    channel_affine(site, y, opts.weight.as_ref(), opts.bias.as_ref(), x.dtype())
}

fn batch_norm_stats(
    site: CallSite,
    x: &Tensor,
    mean: &Tensor,
    var: &Tensor,
    momentum: f64,
) -> Checked<(Tensor, Tensor)> {
    let channels = channels_of(site, x, 2)?;
    check_channels(site, mean, channels)?;
    check_channels(site, var, channels)?;
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    let count = reduce::count(x, &axes);
    let wide = site.cast(x, x.dtype().compute());
    let new_mean = site.mean_keepdim(&wide, &axes);
    let squares = site.sum(&site.square(&site.sub(&wide, &new_mean)), &axes);
    let new_var = site.div(squares, count as f64 - 1.0);
    let blend = |old: &Tensor, new: &Tensor| {
        let new = site.mul(site.cast(&site.reshape(new, &[channels]), old.dtype()), momentum);
        site.add(site.mul(old, 1.0 - momentum), new)
    };
    Ok((blend(mean, &new_mean), blend(var, &new_var)))
}

#[cfg(test)]
mod tests;
