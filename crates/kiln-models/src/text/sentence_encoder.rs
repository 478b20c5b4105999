//! Sentences as vectors that lie near each other where their meanings do.

use std::path::Path;

use kiln::tensor::Tensor;
use serde_json::Value;

use crate::bert::Bert;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::{Error, Result};
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
    pooling: Pooling,
    positions: usize,
}

/// How the vectors of tokens become one.
#[derive(Clone, Copy, Debug)]
enum Pooling {
    First,
    Mean,
}

/// Lengths are filled up to a multiple of so much, so that few plans serve all.
const LENGTH_STEP: usize = 8;

impl SentenceEncoder {
    /// Opens a folder.
    ///
    /// # Errors
    /// Those of [`Checkpoint::open`] and [`Bert::load`]; no tokenizer; other ways to make a vector of a text than
    /// the mean of its tokens' vectors or the first of them.
    #[track_caller]
    pub fn open(folder: impl AsRef<Path>, opts: LoadModelOpts) -> Result<SentenceEncoder> {
        let checkpoint = Checkpoint::open(folder)?;
        let folder = checkpoint.path();
        check_modules(&folder.join("modules.json"))?;
        let pooling = optional(&folder.join("1_Pooling/config.json"))?;
        let pooling = pooling.map_or(Ok(Pooling::Mean), |config| Pooling::of(&config))?;
        let model = Bert::load(&checkpoint, opts)?;
        let longest = optional(&folder.join("sentence_bert_config.json"))?;
        let longest = longest.map(|config| config.maybe_count("max_seq_length")).transpose()?.flatten();
        let positions = longest.map_or(model.positions(), |longest| longest.min(model.positions()));
        let tokenizer = Tokenizer::open(folder.join("tokenizer.json"))?.truncated(positions)?;
        Ok(SentenceEncoder { model, tokenizer, pooling, positions })
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
        let longest = all.iter().map(Vec::len).max().ok_or_else(|| wrong("expected a text, found none"))?;
        let length = longest.next_multiple_of(LENGTH_STEP).min(self.positions);
        let device = self.model.norm.weight.device();
        let mask: Vec<bool> = all.iter().flat_map(|tokens| (0..length).map(|i| i < tokens.len())).collect();
        all.iter_mut().for_each(|tokens| tokens.resize(length, 0));
        let shape = [texts.len(), length];
        let (tokens, mask) = (all.concat(), Tensor::from_vec(mask, shape, device));
        let vectors = self.model.encode(&Tensor::from_vec(tokens, shape, device), Some(&mask));
        let pooled = match self.pooling {
            Pooling::First => vectors.narrow(1, 0, 1).squeeze(1),
            Pooling::Mean => mean(&vectors, &mask),
        };
        Ok(pooled.normalize(2.0, -1, 1e-12))
    }
}

impl Pooling {
    fn of(config: &Config) -> Result<Pooling> {
        let flagged = |mode: &&str| config.flag_or(&format!("pooling_mode_{mode}"), false);
        let mut modes = Vec::new();
        for mode in MODES {
            modes.extend(flagged(&mode)?.then(|| mode.to_string()));
        }
        // Newer files name it instead.
        if config.has("pooling_mode") {
            modes.push(config.text("pooling_mode")?);
        }
        match modes.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["cls_token" | "cls"] => Ok(Pooling::First),
            [] | ["mean_tokens" | "mean"] => Ok(Pooling::Mean),
            _ => Err(config.wrong("pooling_mode", "mean or cls", modes.join(" and "))),
        }
    }
}

/// What flags of `1_Pooling/config.json` stand for.
const MODES: [&str; 6] =
    ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"];

fn optional(path: &Path) -> Result<Option<Config>> {
    path.exists().then(|| Config::open(path)).transpose()
}

/// Fails if a folder's list of modules has one that is not known.
fn check_modules(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
    let modules: Vec<Value> =
        serde_json::from_str(&text).map_err(|source| Error::Json { path: path.into(), source })?;
    for module in modules {
        let kind = module["type"].as_str().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        if !["Transformer", "Pooling", "Normalize"].contains(&kind) {
            let (file, key, found) = (path.display().to_string(), "type".into(), kind.into());
            let expected = "Transformer, Pooling or Normalize".into();
            return Err(Error::Config { file, key, expected, found });
        }
    }
    Ok(())
}

/// The mean of the vectors `[n, l, width]` that count, `[n, width]`.
#[track_caller]
fn mean(vectors: &Tensor, mask: &Tensor) -> Tensor {
    let counted = mask.to_dtype(vectors.dtype()).unsqueeze(-1);
    (vectors * &counted).sum(1) / counted.sum(1)
}
