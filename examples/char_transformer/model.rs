//! A causal transformer over characters.

use kiln::nn::{
    AttentionLayerOpts, Embedding, KvCache, Layer, LayerNorm, Linear, ModuleExt, TransformerEncoderLayer,
    TransformerOpts,
};
use kiln::prelude::*;
use kiln::{Generator, no_grad};

use super::Failure;

/// Sizes of the model.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Sizes {
    /// Characters that the model looks back on.
    #[arg(long, default_value_t = 64)]
    pub context: usize,
    /// Channels.
    #[arg(long, default_value_t = 128)]
    pub width: usize,
    /// Blocks.
    #[arg(long, default_value_t = 2)]
    pub layers: usize,
    /// Heads of attention in each block.
    #[arg(long, default_value_t = 4)]
    pub heads: usize,
    /// Probability of dropout, in training.
    #[arg(long, default_value_t = 0.0)]
    pub dropout: f64,
}

/// Characters to the logarithms, up to a summand, of the probabilities of what
/// follows. Positions are told by turned queries and keys.
pub struct CharTransformer {
    embedding: Embedding,
    blocks: Vec<TransformerEncoderLayer>,
    norm: LayerNorm,
    head: Linear,
    context: usize,
}
kiln::module!(CharTransformer { embedding, blocks, norm, head; skip context });

impl CharTransformer {
    /// On the default device.
    pub fn new(alphabet: usize, sizes: Sizes) -> CharTransformer {
        let attention = AttentionLayerOpts::default().causal(true).rotary(1e4);
        let opts = TransformerOpts::default()
            .attention(attention)
            .feed_forward(4 * sizes.width)
            .dropout(sizes.dropout)
            .norm_first(true)
            .gelu(true);
        let block = |_| TransformerEncoderLayer::new(sizes.width, sizes.heads, opts.clone(), ());
        CharTransformer {
            embedding: Embedding::new(alphabet, sizes.width, ()),
            blocks: (0..sizes.layers).map(block).collect(),
            norm: LayerNorm::new([sizes.width], ()),
            head: Linear::new(sizes.width, alphabet, ()),
            context: sizes.context,
        }
    }

    /// The mean cross-entropy of the characters that follow.
    pub fn loss(&self, characters: &Tensor, following: &Tensor) -> Tensor {
        let logits = self.forward(characters).flatten(0, 1);
        logits.cross_entropy(&following.flatten(0, 1), Default::default())
    }

    /// As [`Layer::forward`] for characters after those in the caches.
    pub fn forward_cached(&self, characters: &Tensor, caches: &[KvCache]) -> Tensor {
        let x = self.embedding.forward(characters);
        let x = self.blocks.iter().zip(caches).fold(x, |x, (block, cache)| block.forward_cached(&x, cache));
        self.head.forward(&self.norm.forward(&x))
    }

    /// Empty caches of one sequence.
    pub fn caches(&self) -> Vec<KvCache> {
        self.blocks.iter().map(|block| block.cache(1, self.context)).collect()
    }

    /// `count` characters after a prompt, each drawn from the model's
    /// probabilities; one pass for one position each. When the caches are
    /// full they are filled anew with the last half of what they held.
    pub fn sample(&self, prompt: &[u8], count: usize, generator: &mut Generator) -> Result<Vec<u8>, Failure> {
        let _no_grad = no_grad();
        self.eval();
        let device = self.check_device()?;
        let (mut text, caches) = (prompt.to_vec(), self.caches());
        let mut waiting = prompt[prompt.len().saturating_sub(self.context)..].to_vec();
        for _ in 0..count {
            let numbers: Vec<i64> = waiting.iter().map(|&number| i64::from(number)).collect();
            let characters = Tensor::from_slice(&numbers, [1, numbers.len()], device);
            let logits = self.forward_cached(&characters, &caches).i((0, -1)).to_vec::<f32>()?;
            let next = draw(&logits, generator);
            text.push(next);
            waiting = vec![next];
            if caches.iter().any(|cache| cache.len() == self.context) {
                caches.iter().for_each(KvCache::clear);
                waiting = text[text.len() - self.context / 2..].to_vec();
            }
        }
        Ok(text)
    }
}

impl Layer for CharTransformer {
    /// `[n, l]` to `[n, l, alphabet]`.
    fn forward(&self, characters: &Tensor) -> Tensor {
        let x = self.embedding.forward(characters);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.head.forward(&self.norm.forward(&x))
    }
}

/// A number drawn with the probabilities that `logits` give.
fn draw(logits: &[f32], generator: &mut Generator) -> u8 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shares: Vec<f64> = logits.iter().map(|logit| f64::from(logit - most).exp()).collect();
    let bits = generator.split().seed() >> 11;
    let mut rest = bits as f64 / (1u64 << 53) as f64 * shares.iter().sum::<f64>();
    for (number, share) in shares.iter().enumerate() {
        rest -= share;
        if rest < 0.0 {
            return number as u8;
        }
    }
    (shares.len() - 1) as u8
}
