//! Normalizations.

use crate::base::{Result, Shape, Span};
use crate::module;
use crate::nn::module::Layer;
use crate::nn::module_region::in_module_of;
use crate::nn::param::{Buffer, Param, Training};
use crate::tensor::norm::{NormOpts, RunningNormOpts};
use crate::tensor::{Place, Tensor};

/// Layer normalization over the last axes.
#[derive(Debug)]
pub struct LayerNorm {
    /// Of the normalized shape; starts as ones.
    pub weight: Param,
    /// Of the normalized shape; starts as zeros.
    pub bias: Option<Param>,
    shape: Shape,
    eps: f64,
}
module!(LayerNorm { weight, bias; skip shape, eps });

impl LayerNorm {
    /// Over last axes of extents `shape`; [`eps`](Self::eps) is 1e-5.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>, place: impl Into<Place>) -> LayerNorm {
        let (shape, place) = (shape.into(), place.into());
        let weight = Param::new(Tensor::ones(shape.clone(), place));
        let bias = Param::new(Tensor::zeros(shape.clone(), place));
        LayerNorm { weight, bias: Some(bias), shape, eps: 1e-5 }
    }

    /// Adds so much to the variance.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{Layer, LayerNorm};
    /// let y = LayerNorm::new([2], ()).eps(3.0).forward(&Tensor::from([-1.0f32, 1.0]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn eps(self, eps: f64) -> LayerNorm {
        LayerNorm { eps, ..self }
    }

    /// Adds no bias. PyTorch: `bias=False`.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::LayerNorm;
    /// assert!(LayerNorm::new([2], ()).without_bias().bias.is_none());
    /// ```
    #[must_use]
    pub fn without_bias(self) -> LayerNorm {
        LayerNorm { bias: None, ..self }
    }
}

impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _module = in_module_of(&self.weight, 0);
        let mut opts = NormOpts::default().weight(&self.weight.get()).eps(self.eps);
        opts.bias = self.bias.as_ref().map(Param::get);
        x.layer_norm(self.shape.clone(), opts)
    }
}

/// Root-mean-square normalization over the last axes.
#[derive(Debug)]
pub struct RMSNorm {
    /// Of the normalized shape; starts as ones.
    pub weight: Param,
    shape: Shape,
    eps: Option<f64>,
    offset: f64,
}
module!(RMSNorm { weight; skip shape, eps, offset });

impl RMSNorm {
    /// Over last axes of extents `shape`; [`eps`](Self::eps) is the machine epsilon of the input's type,
    /// as in PyTorch. Models state their own.
    #[track_caller]
    pub fn new(shape: impl Into<Shape>, place: impl Into<Place>) -> RMSNorm {
        let shape = shape.into();
        RMSNorm { weight: Param::new(Tensor::ones(shape.clone(), place)), shape, eps: None, offset: 0.0 }
    }

    /// Adds so much to the mean of squares: Llama's `rms_norm_eps`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{Layer, RMSNorm};
    /// let y = RMSNorm::new([2], ()).eps(3.0).forward(&Tensor::from([-1.0f32, 1.0]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn eps(self, eps: f64) -> RMSNorm {
        RMSNorm { eps: Some(eps), ..self }
    }

    /// Multiplies by the weight plus so much: 1 for Gemma, whose weights are stored less 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{Layer, RMSNorm};
    /// let y = RMSNorm::new([2], ()).offset(1.0).eps(0.0).forward(&Tensor::from([-1.0f32, 1.0]));
    /// assert_eq!(y.to_vec::<f32>()?, [-2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn offset(self, offset: f64) -> RMSNorm {
        RMSNorm { offset, ..self }
    }
}

impl Layer for RMSNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _module = in_module_of(&self.weight, 0);
        let weight = self.weight.get();
        let weight = if self.offset == 0.0 { weight } else { weight + self.offset };
        let mut opts = NormOpts::default().weight(&weight);
        opts.eps = self.eps;
        x.rms_norm(self.shape.clone(), opts)
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
    eps: f64,
}
module!(GroupNorm { weight, bias; skip groups, eps });

impl GroupNorm {
    /// `channels` in `groups` equal groups; [`eps`](Self::eps) is 1e-5.
    #[track_caller]
    pub fn new(groups: usize, channels: usize, place: impl Into<Place>) -> GroupNorm {
        let place = place.into();
        let weight = Param::new(Tensor::ones([channels], place));
        GroupNorm { weight, bias: Param::new(Tensor::zeros([channels], place)), groups, eps: 1e-5 }
    }

    /// Adds so much to the variance.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{GroupNorm, Layer};
    /// let y = GroupNorm::new(1, 2, ()).eps(3.0).forward(&Tensor::from([[-1.0f32, 1.0]]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn eps(self, eps: f64) -> GroupNorm {
        GroupNorm { eps, ..self }
    }
}

impl Layer for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _module = in_module_of(&self.weight, 0);
        let opts = NormOpts::default().weight(&self.weight.get()).bias(&self.bias.get()).eps(self.eps);
        x.group_norm(self.groups, opts)
    }
}

/// Normalization of `[n, c, ..]` over the axes after the channels, of each
/// sample by itself.
#[derive(Debug)]
pub struct InstanceNorm {
    /// `[c]`; starts as ones.
    pub weight: Option<Param>,
    /// `[c]`; starts as zeros.
    pub bias: Option<Param>,
    eps: f64,
}
module!(InstanceNorm { weight, bias; skip eps });

impl Default for InstanceNorm {
    fn default() -> InstanceNorm {
        InstanceNorm { weight: None, bias: None, eps: 1e-5 }
    }
}

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
        InstanceNorm { weight, bias: Some(Param::new(Tensor::zeros([channels], place))), eps: 1e-5 }
    }

    /// Adds so much to the variance (1e-5).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{InstanceNorm, Layer};
    /// let y = InstanceNorm::new().eps(3.0).forward(&Tensor::from([[[-1.0f32, 1.0]]]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn eps(self, eps: f64) -> InstanceNorm {
        InstanceNorm { eps, ..self }
    }
}

impl Layer for InstanceNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _module = self.weight.as_ref().and_then(|weight| in_module_of(weight, 0));
        let mut opts = RunningNormOpts::training().eps(self.eps);
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
    eps: f64,
}
module!(BatchNorm { weight, bias, running_mean, running_var, training; skip momentum, eps });

impl BatchNorm {
    /// [`momentum`](Self::momentum) is 0.1 and [`eps`](Self::eps) 1e-5.
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
            eps: 1e-5,
        }
    }

    /// Running statistics move by this share of the way to the batch's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{BatchNorm, Layer};
    /// let norm = BatchNorm::new(1, ()).momentum(1.0);
    /// norm.forward(&Tensor::from([[0.0f32], [2.0]])).realize()?;
    /// assert_eq!(norm.running_mean.get().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn momentum(self, momentum: f64) -> BatchNorm {
        BatchNorm { momentum, ..self }
    }

    /// Adds so much to the variance.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{BatchNorm, Layer};
    /// let y = BatchNorm::new(1, ()).eps(3.0).forward(&Tensor::from([[-1.0f32], [1.0]]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn eps(self, eps: f64) -> BatchNorm {
        BatchNorm { eps, ..self }
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
        let _module = in_module_of(&self.weight, 0);
        let _line = Span::caller().enter();
        let training = self.training.is_on();
        let opts = RunningNormOpts::default()
            .running_mean(&self.running_mean.get())
            .running_var(&self.running_var.get())
            .weight(&self.weight.get())
            .bias(&self.bias.get())
            .eps(self.eps)
            .input_stats(training);
        let y = x.batch_norm(opts);
        if training && y.check().is_ok() {
            return Tensor::build(|| self.update(x).map(|()| y));
        }
        y
    }
}
