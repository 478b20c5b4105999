//! Levels of a U-Net.

use kiln::nn::{Conv2d, GroupNorm, Layer, Linear};
use kiln::opts::InterpolateOpts;
use kiln::prelude::ConvOpts;
use kiln::tensor::{Place, Tensor};

use crate::unet::{UNetAttention, UNetBlock};
use crate::unet2d::config::{Between, UNet2dConfig};
use crate::unet2d::transformer::{Shape, UNet2dTransformer};

/// A level on the way down or back, or the middle: blocks of convolutions, and what stands between them.
#[derive(Debug)]
pub struct UNet2dBlock {
    /// Convolutions, to which the time is added.
    pub resnets: Vec<UNetBlock>,
    /// Attention among pixels, after each of them or between two.
    pub attentions: Vec<UNetAttention>,
    /// Transformers instead.
    pub transformers: Vec<UNet2dTransformer>,
    /// To half the height and width, if a level follows.
    pub downsamplers: Vec<UNet2dSampler>,
    /// To twice the height and width, if a level follows.
    pub upsamplers: Vec<UNet2dSampler>,
}
kiln::module!(UNet2dBlock { resnets, attentions, transformers, downsamplers, upsamplers });

/// From a level to another.
#[derive(Debug)]
pub struct UNet2dSampler {
    /// 3 by 3.
    pub conv: Conv2d,
    one_sided: bool,
}
kiln::module!(UNet2dSampler { conv; skip one_sided });

/// What a block is told.
pub(super) struct Told<'a> {
    pub time: &'a Tensor,
    pub context: Option<&'a Tensor>,
}

/// Makes blocks of a network's shape.
pub(super) struct Builder<'a> {
    pub config: &'a UNet2dConfig,
    pub place: Place,
}

/// Extent of an axis.
pub(super) fn extent(x: &Tensor, axis: usize) -> usize {
    x.shape().get(axis).copied().unwrap_or(0)
}

/// A convolution that keeps height and width, or halves them.
#[track_caller]
pub(super) fn conv([inputs, outputs]: [usize; 2], kernel: usize, opts: ConvOpts, place: Place) -> Conv2d {
    Conv2d::new(inputs, outputs, [kernel, kernel], opts, place)
}

impl Builder<'_> {
    /// A block of a level with convolutions of these inputs and outputs.
    #[track_caller]
    fn block(&self, level: usize, between: Between, convs: &[[usize; 2]]) -> UNet2dBlock {
        let width = self.config.widths[level];
        let resnets: Vec<UNetBlock> = convs.iter().map(|&channels| self.resnet(channels)).collect();
        let count = |kind: Between| if kind == between { convs.len() } else { 0 };
        UNet2dBlock {
            attentions: (0..count(Between::Attention)).map(|_| self.attention(level, width)).collect(),
            transformers: (0..count(Between::Transformers)).map(|_| self.transformer(level, width)).collect(),
            resnets,
            downsamplers: Vec::new(),
            upsamplers: Vec::new(),
        }
    }

    /// On the way down.
    #[track_caller]
    pub fn down(&self, level: usize) -> UNet2dBlock {
        let (widths, config) = (&self.config.widths, self.config);
        let width = widths[level];
        let convs: Vec<[usize; 2]> = (0..config.blocks)
            .map(|at| [if at == 0 { widths[level.saturating_sub(1)] } else { width }, width])
            .collect();
        let mut block = self.block(level, config.down[level], &convs);
        if level + 1 < widths.len() {
            let padding = usize::from(!config.one_sided);
            let opts = ConvOpts::default().stride(2).padding(padding);
            let conv = conv([width, width], 3, opts, self.place);
            block.downsamplers.push(UNet2dSampler { conv, one_sided: config.one_sided });
        }
        block
    }

    /// The middle, with attention between two blocks of convolutions.
    #[track_caller]
    pub fn mid(&self) -> UNet2dBlock {
        let level = self.config.widths.len() - 1;
        let width = self.config.widths[level];
        let mut block = self.block(level, self.config.mid, &[[width, width]; 2]);
        block.attentions.truncate(1);
        block.transformers.truncate(1);
        block
    }

    /// On the way back: what was kept on the way down is beside what comes in.
    #[track_caller]
    pub fn up(&self, level: usize) -> UNet2dBlock {
        let (widths, config) = (&self.config.widths, self.config);
        let (width, last) = (widths[level], widths.len() - 1);
        let coarser = widths[(level + 1).min(last)];
        let finer = widths[level.saturating_sub(1)];
        let convs: Vec<[usize; 2]> = (0..=config.blocks)
            .map(|at| {
                let before = if at == 0 { coarser } else { width };
                let kept = if at == config.blocks { finer } else { width };
                [before.saturating_add(kept), width]
            })
            .collect();
        let mut block = self.block(level, config.up[last - level], &convs);
        if level > 0 {
            let conv = conv([width, width], 3, ConvOpts::default().padding(1), self.place);
            block.upsamplers.push(UNet2dSampler { conv, one_sided: false });
        }
        block
    }

    #[track_caller]
    fn resnet(&self, [inputs, outputs]: [usize; 2]) -> UNetBlock {
        let &UNet2dConfig { groups, eps, .. } = self.config;
        let norm = |channels| GroupNorm::new(groups, channels, self.place).eps(eps);
        let same = |inputs| conv([inputs, outputs], 3, ConvOpts::default().padding(1), self.place);
        let shortcut = || conv([inputs, outputs], 1, ConvOpts::default(), self.place);
        UNetBlock {
            norm1: norm(inputs),
            conv1: same(inputs),
            time_emb_proj: Some(Linear::new(self.config.time_width(), outputs, self.place)),
            norm2: norm(outputs),
            conv2: same(outputs),
            conv_shortcut: (inputs != outputs).then(shortcut),
        }
    }

    #[track_caller]
    fn attention(&self, level: usize, width: usize) -> UNetAttention {
        let mut attention =
            UNetAttention::of(width, self.config.heads[level], self.config.groups, self.place);
        attention.norm = attention.norm.eps(self.config.eps);
        attention
    }

    #[track_caller]
    fn transformer(&self, level: usize, width: usize) -> UNet2dTransformer {
        let &UNet2dConfig { groups, context, .. } = self.config;
        let (heads, layers) = (self.config.heads[level], self.config.layers[level]);
        UNet2dTransformer::new(&Shape { width, heads, layers, groups, context }, self.place)
    }
}

impl UNet2dBlock {
    /// What attention or a transformer at a place makes of pixels.
    #[track_caller]
    fn attended(&self, at: usize, x: Tensor, told: &Told) -> Tensor {
        match (self.attentions.get(at), self.transformers.get(at), told.context) {
            (Some(attention), _, _) => attention.forward(&x),
            (None, Some(transformer), Some(context)) => transformer.forward(&x, context),
            (None, _, _) => x,
        }
    }

    /// The way down; all that the way back is to see is kept.
    #[track_caller]
    pub(super) fn down(&self, mut x: Tensor, told: &Told, kept: &mut Vec<Tensor>) -> Tensor {
        for (at, resnet) in self.resnets.iter().enumerate() {
            x = self.attended(at, resnet.forward(&x, Some(told.time)), told);
            kept.push(x.clone());
        }
        for sampler in &self.downsamplers {
            // Without padding of its own, at the right and at the bottom.
            x = if sampler.one_sided { x.pad(&[0, 1, 0, 1], 0.0) } else { x };
            x = sampler.conv.forward(&x);
            kept.push(x.clone());
        }
        x
    }

    #[track_caller]
    pub(super) fn mid(&self, mut x: Tensor, told: &Told) -> Tensor {
        for (at, resnet) in self.resnets.iter().enumerate() {
            x = if at > 0 { self.attended(at - 1, x, told) } else { x };
            x = resnet.forward(&x, Some(told.time));
        }
        x
    }

    /// The way back, beside what was kept last.
    #[track_caller]
    pub(super) fn up(&self, mut x: Tensor, told: &Told, kept: &mut Vec<Tensor>) -> Tensor {
        for (at, resnet) in self.resnets.iter().enumerate() {
            let beside = kept.pop().unwrap_or_else(|| x.clone());
            x = resnet.forward(&Tensor::cat(&[&x, &beside], 1), Some(told.time));
            x = self.attended(at, x, told);
        }
        for sampler in &self.upsamplers {
            // Mostly twice as many, but as many as there were.
            let size = kept.last().map_or([0, 0], |kept| [2, 3].map(|axis| extent(kept, axis)));
            x = sampler.conv.forward(&x.interpolate(InterpolateOpts::default().size(size)));
        }
        x
    }
}
