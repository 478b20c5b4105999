//! Sentences as vectors that lie near each other where their meanings do.

use std::path::Path;

use kiln::tensor::Tensor;

use crate::bert::Bert;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::Result;
use crate::load::LoadModelOpts;
use crate::text::tokenizer::{Tokenizer, wrong};

/// A [`Bert`] that makes a vector of a text (Reimers and Gurevych 2019): a folder as `sentence-transformers`
/// saves it, such as all-MiniLM-L6-v2.
///
/// # Examples
/// ```no_run
/// use kiln_models::{LoadModelOpts, SentenceEncoder};
/// let encoder = SentenceEncoder::open("all-MiniLM-L6-v2", LoadModelOpts::default())?;
/// let vectors = encoder.encode(&["A cat sat on a mat.", "A kitten rested on a rug."])?; // [2, 384]
/// let similarity = vectors.matmul(&vectors.t()).to_vec::<f32>()?[1];
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Debug)]
pub struct SentenceEncoder {
    model: Bert,
    tokenizer: Tokenizer,
    /// The first token's vector stands for the text, instead of the mean of all.
    by_first: bool,
    positions: usize,
}

/// Lengths are filled up to a multiple of so much, so that few plans serve all.
const LENGTH_STEP: usize = 8;

impl SentenceEncoder {
    /// Opens a folder.
    ///
    /// # Errors
    /// Those of [`Checkpoint::open`] and [`Bert::load`]; no tokenizer.
    #[track_caller]
    pub fn open(folder: impl AsRef<Path>, opts: LoadModelOpts) -> Result<SentenceEncoder> {
        let checkpoint = Checkpoint::open(folder)?;
        let folder = checkpoint.path();
        let pooling = folder.join("1_Pooling/config.json");
        let pooling = pooling.exists().then(|| Config::open(pooling)).transpose()?;
        let by_first = pooling
            .map(|pooling| pooling.flag_or("pooling_mode_cls_token", false))
            .transpose()?
            .unwrap_or(false);
        Ok(SentenceEncoder {
            model: Bert::load(&checkpoint, opts)?,
            tokenizer: Tokenizer::open(folder.join("tokenizer.json"))?,
            by_first,
            positions: checkpoint.config().count_or("max_position_embeddings", 512)?,
        })
    }

    /// A vector of length one for each text, `[n, width]`, not computed yet. Texts that are too long are
    /// cut.
    ///
    /// # Errors
    /// No text, or one that the tokenizer cannot take.
    #[track_caller]
    pub fn encode(&self, texts: &[impl AsRef<str>]) -> Result<Tensor> {
        let encoded = texts.iter().map(|text| self.tokenizer.encode(text.as_ref(), true));
        let mut all: Vec<Vec<i64>> = encoded.collect::<Result<_>>()?;
        all.iter_mut().for_each(|tokens| tokens.truncate(self.positions));
        let longest = all.iter().map(Vec::len).max().ok_or_else(|| wrong("expected a text, found none"))?;
        let length = longest.next_multiple_of(LENGTH_STEP).min(self.positions);
        let device = self.model.norm.weight.device();
        let mask: Vec<bool> = all.iter().flat_map(|tokens| (0..length).map(|i| i < tokens.len())).collect();
        all.iter_mut().for_each(|tokens| tokens.resize(length, 0));
        let shape = [texts.len(), length];
        let (tokens, mask) = (all.concat(), Tensor::from_vec(mask, shape, device));
        let vectors = self.model.encode(&Tensor::from_vec(tokens, shape, device), Some(&mask));
        let pooled = if self.by_first { vectors.narrow(1, 0, 1).squeeze(1) } else { mean(&vectors, &mask) };
        Ok(pooled.normalize(2.0, -1, 1e-12))
    }
}

/// The mean of the vectors `[n, l, width]` that count, `[n, width]`.
#[track_caller]
fn mean(vectors: &Tensor, mask: &Tensor) -> Tensor {
    let counted = mask.to_dtype(vectors.dtype()).unsqueeze(-1);
    (vectors * &counted).sum(1) / counted.sum(1)
}
