//! A diffusion U-Net.

use kiln::LoadOpts;
use kiln::nn::{AttentionLayerOpts, Conv2d, GroupNorm, Layer, Linear, MultiheadAttention};
use kiln::opts::InterpolateOpts;
use kiln::prelude::{ConvOpts, DType};
use kiln::tensor::{Place, Tensor};

use crate::config::Config;
use crate::error::Result;
use crate::waves::Waves;

/// The network that diffusion trains (Ho et al. 2020): noisy images or latents `[n, c, h, w]`, and how noisy
/// they are, to what is to be taken off. Each level halves height and width; on the way back what was there on
/// the way down is put beside.
///
/// Entries of its configuration: `in_channels`, `out_channels`, `block_out_channels` (channels by level),
/// `norm_num_groups`; `time_embedding`, without which the noise is not told; `attention_heads` of the
/// attention among all pixels in the middle, if there is one.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln_models::{Config, UNet};
/// let config = Config::parse("config.json", r#"{
///     "model_type": "unet", "in_channels": 3, "out_channels": 3, "block_out_channels": [8, 16],
///     "norm_num_groups": 4, "time_embedding": true, "attention_heads": 2
/// }"#)?;
/// let model = UNet::new(&config, ())?;
/// let noise = model.denoise(&Tensor::zeros([2, 3, 16, 16], ()), &Tensor::from([10i64, 500]));
/// assert_eq!(noise.dims()?, [2, 3, 16, 16]);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct UNet {
    /// Into the network.
    pub conv_in: Conv2d,
    /// How noisy the images are, as a vector.
    pub time: Option<TimeEmbedding>,
    /// Of the levels, the finest first.
    pub down_blocks: Vec<UNetBlock>,
    /// From a level to the next coarser one.
    pub downsamplers: Vec<Conv2d>,
    /// On the coarsest level.
    pub mid_attention: Option<UNetAttention>,
    /// On the coarsest level, before the attention.
    pub mid_block: UNetBlock,
    /// Of the levels, the finest first; the way back begins with the last.
    pub up_blocks: Vec<UNetBlock>,
    /// Before the last convolution.
    pub norm_out: GroupNorm,
    /// Out of the network.
    pub conv_out: Conv2d,
}
kiln::module!(UNet {
    conv_in,
    time,
    down_blocks,
    downsamplers,
    mid_attention,
    mid_block,
    up_blocks,
    norm_out,
    conv_out
});

/// Times as vectors: waves of many lengths, and a perceptron.
#[derive(Debug)]
pub struct TimeEmbedding {
    /// Of the waves.
    pub linear_1: Linear,
    /// Of its result.
    pub linear_2: Linear,
    waves: usize,
}
kiln::module!(TimeEmbedding { linear_1, linear_2; skip waves });

/// Two convolutions whose result is added to what comes in, and the time between them.
#[derive(Debug)]
pub struct UNetBlock {
    /// Before the first convolution.
    pub norm1: GroupNorm,
    /// 3 by 3.
    pub conv1: Conv2d,
    /// Of the time.
    pub time_emb_proj: Option<Linear>,
    /// Before the second convolution.
    pub norm2: GroupNorm,
    /// 3 by 3.
    pub conv2: Conv2d,
    /// Where channels change.
    pub conv_shortcut: Option<Conv2d>,
}
kiln::module!(UNetBlock { norm1, conv1, time_emb_proj, norm2, conv2, conv_shortcut });

/// Attention among pixels, whose result is added to what comes in.
#[derive(Debug)]
pub struct UNetAttention {
    /// Before attention.
    pub norm: GroupNorm,
    /// Among all pixels.
    pub attention: MultiheadAttention,
}
kiln::module!(UNetAttention { norm, attention });

/// What all blocks share.
struct Shape {
    groups: usize,
    /// Channels of the time.
    time: Option<usize>,
    place: Place,
}

impl UNet {
    /// A model of new weights.
    ///
    /// # Errors
    /// An entry that is missing or wrong, or another kind of model.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<UNet> {
        config.check_kind("unet")?;
        let place = place.into();
        let widths = config.counts("block_out_channels")?.unwrap_or_else(|| vec![64, 128, 256]);
        let [Some(&first), Some(&last)] = [widths.first(), widths.last()] else {
            return Err(config.wrong("block_out_channels", "at least one level", "none"));
        };
        let timed = config.flag_or("time_embedding", false)?;
        let heads = config.count_or("attention_heads", 0)?;
        let groups = config.count_or("norm_num_groups", 16)?;
        let shape = Shape { groups, time: timed.then_some(first.saturating_mul(4)), place };
        // What comes from the finer level, or the coarser one.
        let finer = |level: usize| widths[level.saturating_sub(1)];
        let beside = |level: usize| widths.get(level + 1).unwrap_or(&last).saturating_add(widths[level]);
        let levels = 0..widths.len();
        let down = |level: usize| conv([widths[level], widths[level]], 3, 2, place);
        Ok(UNet {
            conv_in: conv([config.count_or("in_channels", 4)?, first], 3, 1, place),
            time: timed.then(|| TimeEmbedding::new(first, place)),
            down_blocks: levels.clone().map(|at| UNetBlock::new(finer(at), widths[at], &shape)).collect(),
            downsamplers: levels.clone().skip(1).map(|level| down(level - 1)).collect(),
            mid_attention: (heads > 0).then(|| UNetAttention::of(last, heads, groups, place)),
            mid_block: UNetBlock::new(last, last, &shape),
            up_blocks: levels.map(|level| UNetBlock::new(beside(level), widths[level], &shape)).collect(),
            norm_out: GroupNorm::new(groups, first, place),
            conv_out: conv([first, config.count_or("out_channels", 4)?], 3, 1, place),
        })
    }

    /// How to load files with this type's own names.
    pub fn load_opts() -> LoadOpts {
        LoadOpts::default()
    }

    /// What is to be taken off images `[n, c, h, w]` that are as noisy as times `[n]` say.
    #[track_caller]
    pub fn denoise(&self, images: &Tensor, times: &Tensor) -> Tensor {
        let time = self.time.as_ref().map(|time| time.forward(times));
        self.pass(images, time.as_ref())
    }

    #[track_caller]
    fn pass(&self, images: &Tensor, time: Option<&Tensor>) -> Tensor {
        let mut x = self.conv_in.forward(images);
        let mut kept = Vec::new();
        for (level, block) in self.down_blocks.iter().enumerate() {
            if let Some(down) = level.checked_sub(1).and_then(|finer| self.downsamplers.get(finer)) {
                x = down.forward(&x);
            }
            x = block.forward(&x, time);
            kept.push(x.clone());
        }
        x = self.mid_block.forward(&x, time);
        if let Some(attention) = &self.mid_attention {
            x = attention.forward(&x);
        }
        for (level, (block, beside)) in self.up_blocks.iter().zip(&kept).enumerate().rev() {
            if level + 1 < kept.len() {
                x = x.interpolate(InterpolateOpts::default().scale_factor([2.0]));
            }
            x = block.forward(&Tensor::cat(&[&x, beside], 1), time);
        }
        self.conv_out.forward(&self.norm_out.forward(&x).silu())
    }
}

impl Layer for UNet {
    /// As [`UNet::denoise`] for images without noise, or where the noise is not told.
    #[track_caller]
    fn forward(&self, images: &Tensor) -> Tensor {
        let count = images.shape().first().copied().unwrap_or(0);
        self.denoise(images, &Tensor::zeros([count], (images.device(), DType::I64)))
    }
}

/// A convolution that keeps, or divides by its stride, height and width; without a bias.
#[track_caller]
fn conv([inputs, outputs]: [usize; 2], kernel: usize, stride: usize, place: Place) -> Conv2d {
    let opts = ConvOpts::default().stride(stride).padding(kernel / 2);
    let mut conv = Conv2d::new(inputs, outputs, [kernel, kernel], opts, place);
    conv.bias = None;
    conv
}

impl TimeEmbedding {
    #[track_caller]
    fn new(waves: usize, place: Place) -> TimeEmbedding {
        let width = waves.saturating_mul(4);
        TimeEmbedding {
            linear_1: Linear::new(waves, width, place),
            linear_2: Linear::new(width, width, place),
            waves,
        }
    }
}

impl Layer for TimeEmbedding {
    /// Times `[n]` to `[n, 4 * waves]`.
    #[track_caller]
    fn forward(&self, times: &Tensor) -> Tensor {
        let waves = Waves { flipped: true, shift: 0.0 }.of(times, self.waves);
        let waves = waves.to_dtype(self.linear_1.weight.dtype());
        self.linear_2.forward(&self.linear_1.forward(&waves).silu())
    }
}

impl UNetBlock {
    #[track_caller]
    fn new(inputs: usize, outputs: usize, shape: &Shape) -> UNetBlock {
        let &Shape { groups, time, place } = shape;
        UNetBlock {
            norm1: GroupNorm::new(groups, inputs, place),
            conv1: conv([inputs, outputs], 3, 1, place),
            time_emb_proj: time.map(|time| Linear::new(time, outputs, place)),
            norm2: GroupNorm::new(groups, outputs, place),
            conv2: conv([outputs, outputs], 3, 1, place),
            conv_shortcut: (inputs != outputs).then(|| conv([inputs, outputs], 1, 1, place)),
        }
    }

    #[track_caller]
    pub(crate) fn forward(&self, x: &Tensor, time: Option<&Tensor>) -> Tensor {
        let mut y = self.conv1.forward(&self.norm1.forward(x).silu());
        if let Some((project, time)) = self.time_emb_proj.as_ref().zip(time) {
            y = y + project.forward(&time.silu()).unsqueeze(-1).unsqueeze(-1);
        }
        let y = self.conv2.forward(&self.norm2.forward(&y).silu());
        match &self.conv_shortcut {
            Some(shortcut) => y + shortcut.forward(x),
            None => y + x,
        }
    }
}

impl UNetAttention {
    #[track_caller]
    pub(crate) fn of(width: usize, heads: usize, groups: usize, place: Place) -> UNetAttention {
        let attention = MultiheadAttention::new(width, heads, AttentionLayerOpts::default(), place);
        UNetAttention { norm: GroupNorm::new(groups, width, place), attention }
    }
}

impl Layer for UNetAttention {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let pixels = self.norm.forward(x).flatten(2, 3).transpose(1, 2);
        x + self.attention.forward(&pixels).transpose(1, 2).reshape(x.shape())
    }
}
