//! The U-Nets of diffusers, Stable Diffusion's among them.

mod block;
mod config;
mod transformer;

use kiln::nn::{Conv2d, GroupNorm, Layer, Linear};
use kiln::prelude::ConvOpts;
use kiln::tensor::{Place, Tensor};
use kiln::{LoadOpts, Span};

use crate::config::Config;
use crate::error::Result;
use crate::unet2d::block::{Builder, Told, conv, extent};
use crate::unet2d::config::{Between, UNet2dConfig};

pub use block::{UNet2dBlock, UNet2dSampler};
pub use transformer::{UNet2dTransformer, UNet2dTransformerLayer};

/// The network that takes noise off images or latents `[n, c, h, w]`, as diffusers has it: `UNet2DModel` (Ho et
/// al. 2020) and `UNet2DConditionModel` (Rombach et al. 2022), the latter of Stable Diffusion 1, 2 and XL.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln_models::{Config, UNet2d, UNet2dInput};
/// let config = Config::parse("config.json", r#"{
///     "_class_name": "UNet2DConditionModel", "in_channels": 4, "out_channels": 4,
///     "block_out_channels": [8, 16], "layers_per_block": 1, "norm_num_groups": 4,
///     "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
///     "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
///     "attention_head_dim": 2, "cross_attention_dim": 12
/// }"#)?;
/// let model = UNet2d::new(&config, ())?;
/// let (latents, times) = (Tensor::zeros([2, 4, 8, 8], ()), Tensor::from([10i64, 500]));
/// let text = Tensor::ones([2, 5, 12], ());
/// let noise = model.denoise(&latents, &times, &UNet2dInput::default().context(&text));
/// assert_eq!(noise.dims()?, [2, 4, 8, 8]);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct UNet2d {
    /// Into the network.
    pub conv_in: Conv2d,
    /// Of the waves of the time.
    pub time_embedding: UNet2dEmbedding,
    /// Of what SDXL is told beside the context.
    pub add_embedding: Option<UNet2dEmbedding>,
    /// Levels, the finest first.
    pub down_blocks: Vec<UNet2dBlock>,
    /// On the coarsest level.
    pub mid_block: UNet2dBlock,
    /// Levels, the coarsest first.
    pub up_blocks: Vec<UNet2dBlock>,
    /// Before the last convolution.
    pub conv_norm_out: GroupNorm,
    /// Out of the network.
    pub conv_out: Conv2d,
    config: UNet2dConfig,
}
kiln::module!(UNet2d {
    conv_in, time_embedding, add_embedding, down_blocks, mid_block, up_blocks, conv_norm_out, conv_out;
    skip config
});

/// A perceptron of waves.
#[derive(Debug)]
pub struct UNet2dEmbedding {
    /// Of the waves.
    pub linear_1: Linear,
    /// Of its result.
    pub linear_2: Linear,
}
kiln::module!(UNet2dEmbedding { linear_1, linear_2 });

/// What [`UNet2d::denoise`] is told beside images and times; nothing, unless the model wants it.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let text = Tensor::ones([1, 77, 768], ());
/// let input = kiln_models::UNet2dInput::default().context(&text);
/// assert!(input.context.is_some() && input.pooled.is_none());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UNet2dInput {
    /// Vectors of a text `[n, l, context]`: `encoder_hidden_states` of diffusers.
    pub context: Option<Tensor>,
    /// SDXL: one vector of the text, `[n, e]`: `text_embeds`.
    pub pooled: Option<Tensor>,
    /// SDXL: the sizes and the place of the picture, `[n, 6]`: `time_ids`.
    pub sizes: Option<Tensor>,
}

impl UNet2dInput {
    /// With this `context`.
    #[must_use]
    pub fn context(mut self, context: &Tensor) -> Self {
        self.context = Some(context.clone());
        self
    }
    /// With this `pooled`.
    #[must_use]
    pub fn pooled(mut self, pooled: &Tensor) -> Self {
        self.pooled = Some(pooled.clone());
        self
    }
    /// With these `sizes`.
    #[must_use]
    pub fn sizes(mut self, sizes: &Tensor) -> Self {
        self.sizes = Some(sizes.clone());
        self
    }
}

impl UNet2d {
    /// A model of new weights. On [`Device::meta`](kiln::Device::meta) it takes no memory until weights are
    /// loaded.
    ///
    /// # Errors
    /// An entry that is missing or wrong, another kind of model, or what is not computed here.
    #[track_caller]
    pub fn new(config: &Config, place: impl Into<Place>) -> Result<UNet2d> {
        let (config, place) = (UNet2dConfig::read(config)?, place.into());
        let build = Builder { config: &config, place };
        let (first, levels, time) = (config.widths[0], config.widths.len(), config.time_width());
        let same = || ConvOpts::default().padding(1);
        Ok(UNet2d {
            conv_in: conv([config.inputs, first], 3, same(), place),
            time_embedding: UNet2dEmbedding::new(first, time, place),
            add_embedding: config.added.map(|added| UNet2dEmbedding::new(added.inputs, time, place)),
            down_blocks: (0..levels).map(|level| build.down(level)).collect(),
            mid_block: build.mid(),
            up_blocks: (0..levels).rev().map(|level| build.up(level)).collect(),
            conv_norm_out: GroupNorm::new(config.groups, first, place).eps(config.eps),
            conv_out: conv([first, config.outputs], 3, same(), place),
            config,
        })
    }

    /// How to load files with the names of diffusers, old ones too.
    ///
    /// # Examples
    /// ```
    /// let opts = kiln_models::UNet2d::load_opts();
    /// let name = opts.renamed("down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_out.0.bias");
    /// assert_eq!(name, "down_blocks.1.transformers.0.transformer_blocks.0.attn2.out_proj.bias");
    /// assert_eq!(opts.renamed("mid_block.attentions.0.query.bias"), "mid_block.attentions.0.attention.q_proj.bias");
    /// ```
    pub fn load_opts() -> LoadOpts {
        let blocks = ["down_blocks.{}", "mid_block", "up_blocks.{}"];
        let projections = blocks.iter().flat_map(|block| {
            ["proj_in", "proj_out"].map(|name| format!("{block}.transformers.{{}}.{name}.weight"))
        });
        // Some files have convolutions of single pixels.
        let flat = |weight: &Tensor| weight.flatten(1, -1);
        projections.fold(LoadOpts::default().rename_with(own_name), |opts, name| opts.transform(&name, flat))
    }

    /// What is to be taken off images `[n, c, h, w]` that are as noisy as times `[n]` say, or one for all.
    ///
    /// Invalid where the model wants a context, or what SDXL is told, and `input` has none.
    #[track_caller]
    pub fn denoise(&self, images: &Tensor, times: &Tensor, input: &UNet2dInput) -> Tensor {
        let times = times.reshape([-1]).expand([extent(images, 0)]);
        match self.time(&times, input) {
            Ok(time) => self.pass(images, &Told { time: &time, context: input.context.as_ref() }),
            Err(error) => Tensor::build(|| Err(error)),
        }
    }

    /// What blocks are told of the time, `[n, width]`.
    #[track_caller]
    fn time(&self, times: &Tensor, input: &UNet2dInput) -> kiln::Result<Tensor> {
        let span = Span::caller();
        let missing = |expected: &str| kiln::Error::Argument {
            call: "UNet2d::denoise",
            expected: expected.into(),
            found: "none".into(),
            span,
        };
        if self.config.mid == Between::Transformers && input.context.is_none() {
            return Err(missing("a context"));
        }
        let dtype = self.conv_in.weight.dtype();
        let waves = |numbers: &Tensor, count| self.config.waves.of(numbers, count).to_dtype(dtype);
        let time = self.time_embedding.forward(&waves(times, self.config.widths[0]));
        let Some((embedding, added)) = self.add_embedding.as_ref().zip(self.config.added) else {
            return Ok(time);
        };
        let both = input.pooled.as_ref().zip(input.sizes.as_ref());
        let (pooled, sizes) = both.ok_or_else(|| missing("pooled and sizes"))?;
        let rows = extent(times, 0) as i64;
        let sizes = waves(&sizes.flatten(0, -1), added.waves).reshape([rows, -1]);
        Ok(time + embedding.forward(&Tensor::cat(&[pooled, &sizes], -1)))
    }

    #[track_caller]
    fn pass(&self, images: &Tensor, told: &Told) -> Tensor {
        let centered = self.config.centered.then(|| images * 2.0 - 1.0);
        let mut x = self.conv_in.forward(centered.as_ref().unwrap_or(images));
        let mut kept = vec![x.clone()];
        for block in &self.down_blocks {
            x = block.down(x, told, &mut kept);
        }
        x = self.mid_block.mid(x, told);
        for block in &self.up_blocks {
            x = block.up(x, told, &mut kept);
        }
        self.conv_out.forward(&self.conv_norm_out.forward(&x).silu())
    }
}

impl UNet2dConfig {
    /// Channels of the time.
    fn time_width(&self) -> usize {
        self.widths[0].saturating_mul(4)
    }
}

impl UNet2dEmbedding {
    #[track_caller]
    fn new(inputs: usize, width: usize, place: Place) -> UNet2dEmbedding {
        let (linear_1, linear_2) = (Linear::new(inputs, width, place), Linear::new(width, width, place));
        UNet2dEmbedding { linear_1, linear_2 }
    }
}

impl Layer for UNet2dEmbedding {
    #[track_caller]
    fn forward(&self, waves: &Tensor) -> Tensor {
        self.linear_2.forward(&self.linear_1.forward(waves).silu())
    }
}

/// Names of diffusers that are others here.
const NAMES: [(&str, &str); 11] = [
    (".group_norm.", ".norm."),
    (".to_q.", ".q_proj."),
    (".to_k.", ".k_proj."),
    (".to_v.", ".v_proj."),
    (".to_out.0.", ".out_proj."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".proj_attn.", ".out_proj."),
    (".ff.net.0.proj.", ".ff_in."),
    (".ff.net.2.", ".ff_out."),
];

/// A name of diffusers as it is here, where attention and transformers are apart.
fn own_name(name: &str) -> String {
    let place = || {
        let (block, rest) = name.split_once(".attentions.")?;
        let (number, rest) = rest.split_once('.')?;
        let part = rest.split('.').next()?;
        Some(match part {
            "norm" | "proj_in" | "proj_out" | "transformer_blocks" => {
                format!("{block}.transformers.{number}.{rest}")
            }
            "group_norm" => format!("{block}.attentions.{number}.{rest}"),
            _ => format!("{block}.attentions.{number}.attention.{rest}"),
        })
    };
    let name = place().unwrap_or_else(|| name.into());
    NAMES.iter().fold(name, |name, (from, to)| name.replace(from, to))
}
