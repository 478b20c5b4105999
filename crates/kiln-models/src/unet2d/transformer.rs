//! Transformers of pixels that look at a context.

use kiln::nn::{AttentionInput, AttentionLayerOpts, GroupNorm, Layer, LayerNorm, Linear, MultiheadAttention};
use kiln::tensor::{Place, Tensor};

/// Layers of a transformer among pixels, whose result is added to what comes in.
#[derive(Debug)]
pub struct UNet2dTransformer {
    /// Before all.
    pub norm: GroupNorm,
    /// Of each pixel.
    pub proj_in: Linear,
    /// The layers, first to last.
    pub transformer_blocks: Vec<UNet2dTransformerLayer>,
    /// Of each pixel.
    pub proj_out: Linear,
}
kiln::module!(UNet2dTransformer { norm, proj_in, transformer_blocks, proj_out });

/// A layer of [`UNet2dTransformer`].
#[derive(Debug)]
pub struct UNet2dTransformerLayer {
    /// Before the attention among pixels.
    pub norm1: LayerNorm,
    /// Among pixels.
    pub attn1: MultiheadAttention,
    /// Before the attention to the context.
    pub norm2: LayerNorm,
    /// To the context.
    pub attn2: MultiheadAttention,
    /// Before the perceptron.
    pub norm3: LayerNorm,
    /// Into the perceptron, and into its gates (Shazeer 2020).
    pub ff_in: Linear,
    /// Out of it.
    pub ff_out: Linear,
}
kiln::module!(UNet2dTransformerLayer { norm1, attn1, norm2, attn2, norm3, ff_in, ff_out });

/// The shape of transformers of a level.
pub(super) struct Shape {
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
    pub groups: usize,
    pub context: usize,
}

impl UNet2dTransformer {
    #[track_caller]
    pub(super) fn new(shape: &Shape, place: Place) -> UNet2dTransformer {
        let &Shape { width, layers, groups, .. } = shape;
        UNet2dTransformer {
            norm: GroupNorm::new(groups, width, place).eps(1e-6),
            proj_in: Linear::new(width, width, place),
            transformer_blocks: (0..layers).map(|_| UNet2dTransformerLayer::new(shape, place)).collect(),
            proj_out: Linear::new(width, width, place),
        }
    }

    /// Pixels `[n, width, h, w]` beside a context `[n, l, context]`.
    #[track_caller]
    pub(super) fn forward(&self, x: &Tensor, context: &Tensor) -> Tensor {
        let pixels = self.norm.forward(x).flatten(2, 3).transpose(1, 2);
        let layers = self.transformer_blocks.iter();
        let pixels =
            layers.fold(self.proj_in.forward(&pixels), |pixels, layer| layer.forward(&pixels, context));
        x + self.proj_out.forward(&pixels).transpose(1, 2).reshape(x.shape())
    }
}

impl UNet2dTransformerLayer {
    #[track_caller]
    fn new(&Shape { width, heads, context, .. }: &Shape, place: Place) -> UNet2dTransformerLayer {
        let norm = || LayerNorm::new([width], place);
        let opts = AttentionLayerOpts::default().bias(false).out_bias(true);
        let attention = || MultiheadAttention::new(width, heads, opts.clone(), place);
        let mut attn2 = attention();
        for projection in [&mut attn2.k_proj, &mut attn2.v_proj] {
            *projection = Linear::without_bias(context, width, place);
        }
        let inner = width.saturating_mul(4);
        UNet2dTransformerLayer {
            norm1: norm(),
            attn1: attention(),
            norm2: norm(),
            attn2,
            norm3: norm(),
            ff_in: Linear::new(width, inner.saturating_mul(2), place),
            ff_out: Linear::new(inner, width, place),
        }
    }

    #[track_caller]
    fn forward(&self, x: &Tensor, context: &Tensor) -> Tensor {
        let x = x + self.attn1.forward(&self.norm1.forward(x));
        let input = AttentionInput::default().memory(context);
        let x = &x + self.attn2.attend(&self.norm2.forward(&x), input);
        let inner = self.ff_in.forward(&self.norm3.forward(&x));
        let half = inner.shape().last().map_or(0, |width| width / 2);
        let gated = inner.narrow(-1, 0, half) * inner.narrow(-1, half as i64, half).gelu();
        &x + self.ff_out.forward(&gated)
    }
}
