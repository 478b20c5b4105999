//! Normalizations.

use crate::base::{Result, Shape, Span};
use crate::module;
use crate::nn::module::Layer;
use crate::nn::param::{Buffer, Param, Training};
use crate::tensor::norm::{NormOpts, RunningNormOpts};
use crate::tensor::{Place, Tensor};

/// Layer normalization over the last axes.
#[derive(Debug)]
pub struct LayerNorm {
    /// Of the normalized shape; starts as ones.
    pub weight: Param,
    /// Of the normalized shape; starts as zeros.
    pub bias: Param,
    shape: Shape,
    eps: f64,
}
module!(LayerNorm { weight, bias; skip shape, eps });

impl LayerNorm {
    /// Over last axes of extents `shape`; `eps` is 1e-5.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>, place: impl Into<Place>) -> LayerNorm {
        let (shape, place) = (shape.into(), place.into());
        let weight = Param::new(Tensor::ones(shape.clone(), place));
        let bias = Param::new(Tensor::zeros(shape.clone(), place));
        LayerNorm { weight, bias, shape, eps: 1e-5 }
    }
}

impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let opts = NormOpts::default().weight(&self.weight.get()).bias(&self.bias.get()).eps(self.eps);
        x.layer_norm(self.shape.clone(), opts)
    }
}

/// Root-mean-square normalization over the last axes.
#[derive(Debug)]
pub struct RMSNorm {
    /// Of the normalized shape; starts as ones.
    pub weight: Param,
    shape: Shape,
}
module!(RMSNorm { weight; skip shape });

impl RMSNorm {
    /// Over last axes of extents `shape`.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>, place: impl Into<Place>) -> RMSNorm {
        let shape = shape.into();
        RMSNorm { weight: Param::new(Tensor::ones(shape.clone(), place)), shape }
    }
}

impl Layer for RMSNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.rms_norm(self.shape.clone(), NormOpts::default().weight(&self.weight.get()))
    }
}

/// Normalization of `[n, c, ..]` over groups of channels.
#[derive(Debug)]
pub struct GroupNorm {
    /// `[c]`; starts as ones.
    pub weight: Param,
    /// `[c]`; starts as zeros.
    pub bias: Param,
    groups: usize,
}
module!(GroupNorm { weight, bias; skip groups });

impl GroupNorm {
    /// `channels` in `groups` equal groups.
    #[track_caller]
    pub fn new(groups: usize, channels: usize, place: impl Into<Place>) -> GroupNorm {
        let place = place.into();
        let weight = Param::new(Tensor::ones([channels], place));
        GroupNorm { weight, bias: Param::new(Tensor::zeros([channels], place)), groups }
    }
}

impl Layer for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let opts = NormOpts::default().weight(&self.weight.get()).bias(&self.bias.get());
        x.group_norm(self.groups, opts)
    }
}

/// Normalization of `[n, c, ..]` over the axes after the channels, of each
/// sample by itself.
#[derive(Debug, Default)]
pub struct InstanceNorm {
    /// `[c]`; starts as ones.
    pub weight: Option<Param>,
    /// `[c]`; starts as zeros.
    pub bias: Option<Param>,
}
module!(InstanceNorm { weight, bias });

impl InstanceNorm {
    /// Without parameters, as PyTorch's by default; of any number of channels.
    pub fn new() -> InstanceNorm {
        InstanceNorm::default()
    }
    /// With a factor and a summand for each channel.
    #[track_caller]
    pub fn affine(channels: usize, place: impl Into<Place>) -> InstanceNorm {
        let place = place.into();
        let weight = Some(Param::new(Tensor::ones([channels], place)));
        InstanceNorm { weight, bias: Some(Param::new(Tensor::zeros([channels], place))) }
    }
}

impl Layer for InstanceNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut opts = RunningNormOpts::training();
        (opts.weight, opts.bias) = (self.weight.as_ref().map(Param::get), self.bias.as_ref().map(Param::get));
        x.instance_norm(opts)
    }
}

/// Batch normalization of `[n, c, ..]` per channel, of any number of spatial
/// axes. Training uses the batch's statistics and moves the running ones
/// towards them; evaluation uses the running ones.
#[derive(Debug)]
pub struct BatchNorm {
    /// `[c]`; starts as ones.
    pub weight: Param,
    /// `[c]`; starts as zeros.
    pub bias: Param,
    /// `[c]`; starts as zeros.
    pub running_mean: Buffer,
    /// `[c]`; starts as ones.
    pub running_var: Buffer,
    training: Training,
    momentum: f64,
}
module!(BatchNorm { weight, bias, running_mean, running_var, training; skip momentum });

impl BatchNorm {
    /// The running statistics move by a tenth.
    #[track_caller]
    pub fn new(channels: usize, place: impl Into<Place>) -> BatchNorm {
        let place = place.into();
        let _line = Span::caller().enter();
        let (ones, zeros) = (|| Tensor::ones([channels], place), || Tensor::zeros([channels], place));
        BatchNorm {
            weight: Param::new(ones()),
            bias: Param::new(zeros()),
            running_mean: Buffer::new(zeros()),
            running_var: Buffer::new(ones()),
            training: Training::default(),
            momentum: 0.1,
        }
    }

    fn update(&self, x: &Tensor) -> Result<()> {
        let (mean, var) = (self.running_mean.get(), self.running_var.get());
        let (mean, var) = x.detach().batch_norm_stats(&mean, &var, self.momentum);
        self.running_mean.set(&mean)?;
        self.running_var.set(&var)
    }
}

impl Layer for BatchNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        let training = self.training.is_on();
        let opts = RunningNormOpts::default()
            .running_mean(&self.running_mean.get())
            .running_var(&self.running_var.get())
            .weight(&self.weight.get())
            .bias(&self.bias.get())
            .input_stats(training);
        let y = x.batch_norm(opts);
        if training && y.check().is_ok() {
            return Tensor::build(|| self.update(x).map(|()| y));
        }
        y
    }
}
