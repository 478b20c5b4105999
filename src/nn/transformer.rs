//! Blocks of transformers.

use crate::base::Span;
use crate::module;
use crate::nn::attention::{AttentionInput, AttentionLayerOpts, MultiheadAttention};
use crate::nn::cache::KvCache;
use crate::nn::dropout::Dropout;
use crate::nn::linear::Linear;
use crate::nn::module::Layer;
use crate::nn::module_region::in_module_of;
use crate::nn::norm::LayerNorm;
use crate::tensor::options::options;
use crate::tensor::{Place, Tensor};

options! {
    /// Options of [`TransformerEncoderLayer`] and [`TransformerDecoderLayer`].
    TransformerOpts {
        /// Channels between the two maps of the feed-forward part.
        feed_forward: usize = 2048;
        /// Probability of dropout, in training.
        dropout: f64 = 0.1;
        /// Normalize what enters each part instead of what leaves it (Xiong et
        /// al. 2020).
        norm_first: bool = false;
        /// Gelu between the two maps, instead of relu.
        gelu: bool = false;
        /// Options of the attention among the positions themselves.
        attention: AttentionLayerOpts = AttentionLayerOpts::default();
    }
}

/// Two maps with a nonlinearity between them.
#[derive(Debug)]
struct FeedForward {
    linear1: Linear,
    linear2: Linear,
    dropout: Dropout,
    gelu: bool,
}
module!(FeedForward { linear1, linear2, dropout; skip gelu });

impl FeedForward {
    #[track_caller]
    fn new(width: usize, opts: &TransformerOpts, place: Place) -> FeedForward {
        FeedForward {
            linear1: Linear::new(width, opts.feed_forward, place),
            linear2: Linear::new(opts.feed_forward, width, place),
            dropout: Dropout::new(opts.dropout),
            gelu: opts.gelu,
        }
    }
}

impl Layer for FeedForward {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let wide = self.linear1.forward(x);
        let wide = if self.gelu { wide.gelu() } else { wide.relu() };
        self.linear2.forward(&self.dropout.forward(&wide))
    }
}

/// A part of a block, added to what enters it.
#[track_caller]
fn residual(
    x: &Tensor,
    norm: &LayerNorm,
    dropout: &Dropout,
    first: bool,
    part: impl FnOnce(&Tensor) -> Tensor,
) -> Tensor {
    if first {
        x + dropout.forward(&part(&norm.forward(x)))
    } else {
        norm.forward(&(x + dropout.forward(&part(x))))
    }
}

/// Attention of positions among themselves, then a feed-forward network, both
/// added to what enters them (Vaswani et al. 2017): `[n, l, width]` to the same
/// shape.
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    feed_forward: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    dropout: Dropout,
    norm_first: bool,
}
module!(TransformerEncoderLayer { self_attn, feed_forward, norm1, norm2, dropout; skip norm_first });

impl TransformerEncoderLayer {
    /// `width` channels in `heads` heads.
    #[track_caller]
    pub fn new(
        width: usize,
        heads: usize,
        opts: TransformerOpts,
        place: impl Into<Place>,
    ) -> TransformerEncoderLayer {
        let place = place.into();
        TransformerEncoderLayer {
            self_attn: MultiheadAttention::new(width, heads, opts.attention.clone(), place),
            feed_forward: FeedForward::new(width, &opts, place),
            norm1: LayerNorm::new([width], place),
            norm2: LayerNorm::new([width], place),
            dropout: Dropout::new(opts.dropout),
            norm_first: opts.norm_first,
        }
    }
}

impl TransformerEncoderLayer {
    /// The output for positions that follow those in the cache: see
    /// [`MultiheadAttention::attend_cached`].
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &KvCache) -> Tensor {
        let _line = Span::caller().enter();
        self.around(x, |x| self.self_attn.attend_cached(x, cache))
    }

    /// An empty cache: see [`MultiheadAttention::cache`].
    #[track_caller]
    pub fn cache(&self, batch: usize, capacity: usize) -> KvCache {
        self.self_attn.cache(batch, capacity)
    }

    #[track_caller]
    fn around(&self, x: &Tensor, attention: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let _module = in_module_of(&self.norm1.weight, 1);
        let x = residual(x, &self.norm1, &self.dropout, self.norm_first, attention);
        residual(&x, &self.norm2, &self.dropout, self.norm_first, |x| self.feed_forward.forward(x))
    }
}

impl Layer for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        self.around(x, |x| self.self_attn.forward(x))
    }
}

/// Attention of positions among themselves, then to a memory, then a
/// feed-forward network.
#[derive(Debug)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    feed_forward: FeedForward,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    dropout: Dropout,
    norm_first: bool,
}
module!(TransformerDecoderLayer {
    self_attn, multihead_attn, feed_forward, norm1, norm2, norm3, dropout; skip norm_first
});

impl TransformerDecoderLayer {
    /// `width` channels in `heads` heads. A decoder's own positions usually
    /// look back only: [`AttentionLayerOpts::causal`].
    #[track_caller]
    pub fn new(
        width: usize,
        heads: usize,
        opts: TransformerOpts,
        place: impl Into<Place>,
    ) -> TransformerDecoderLayer {
        let place = place.into();
        TransformerDecoderLayer {
            self_attn: MultiheadAttention::new(width, heads, opts.attention.clone(), place),
            multihead_attn: MultiheadAttention::new(width, heads, AttentionLayerOpts::default(), place),
            feed_forward: FeedForward::new(width, &opts, place),
            norm1: LayerNorm::new([width], place),
            norm2: LayerNorm::new([width], place),
            norm3: LayerNorm::new([width], place),
            dropout: Dropout::new(opts.dropout),
            norm_first: opts.norm_first,
        }
    }

    /// The output for `x` `[n, l, width]` and a memory `[n, s, width]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        let _module = in_module_of(&self.norm1.weight, 1);
        let first = self.norm_first;
        let x = residual(x, &self.norm1, &self.dropout, first, |x| self.self_attn.forward(x));
        let x = residual(&x, &self.norm2, &self.dropout, first, |x| {
            self.multihead_attn.attend(x, AttentionInput::default().memory(memory))
        });
        residual(&x, &self.norm3, &self.dropout, first, |x| self.feed_forward.forward(x))
    }
}
