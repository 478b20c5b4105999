//! Text to token numbers and back.

use std::path::Path;

use kiln::io::gguf::Gguf;
use tokenizers::{PostProcessor, TruncationParams};

use crate::error::{Error, Result};
use crate::text::gguf_tokenizer::tokenizer_json;

/// Turns text into token numbers and back, as the library `tokenizers` does.
///
/// # Examples
/// ```
/// use kiln_models::Tokenizer;
/// let json = r#"{
///     "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
///     "pre_tokenizer": {"type": "Whitespace"}
/// }"#;
/// let tokenizer = Tokenizer::from_json(json)?;
/// assert_eq!(tokenizer.encode("b a c", false)?, [1, 0, 2]);
/// assert_eq!(tokenizer.decode(&[1, 0])?, "b a");
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

/// What the library says, as an error of this crate.
pub(super) fn wrong(error: impl std::fmt::Display) -> Error {
    Error::Tokenizer { message: error.to_string() }
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that cannot be read or is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Tokenizer> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path);
        Tokenizer::from_json(&text.map_err(|source| Error::File { path: path.into(), source })?)
    }

    /// Reads the text of a `tokenizer.json`.
    ///
    /// # Errors
    /// Text that is none.
    pub fn from_json(text: &str) -> Result<Tokenizer> {
        let mut inner = tokenizers::Tokenizer::from_bytes(text).map_err(wrong)?;
        // Files may fill or cut texts to a length of their own.
        inner.with_padding(None).with_truncation(None).map_err(wrong)?;
        Ok(Tokenizer { inner })
    }

    /// The same for texts of up to `most` tokens, of which those that are longer are cut before what ends a text.
    ///
    /// # Errors
    /// Fewer than begin and end a text.
    pub(super) fn truncated(mut self, most: usize) -> Result<Tokenizer> {
        let added = self.inner.get_post_processor().map_or(0, |ends| ends.added_tokens(false));
        if most < added {
            return Err(wrong(format!("expected texts of at least {added} tokens, found a limit of {most}")));
        }
        let longest = TruncationParams { max_length: most, ..TruncationParams::default() };
        self.inner.with_truncation(Some(longest)).map_err(wrong)?;
        Ok(self)
    }

    /// The tokenizer in a GGUF file: byte-level pairs, as GPT-2, Llama 3, SmolLM and Qwen have, or pieces of
    /// SentencePiece, as Llama 2, Mistral and Gemma.
    ///
    /// # Errors
    /// A file without one, or with another kind.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer> {
        Tokenizer::from_json(&tokenizer_json(gguf)?.to_string())
    }

    /// The numbers of a text's tokens; `special` adds those that begin and end a text, where the model
    /// has them.
    ///
    /// # Errors
    /// Text that it cannot take.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<i64>> {
        let encoding = self.inner.encode_fast(text, special).map_err(wrong)?;
        Ok(encoding.get_ids().iter().map(|&id| i64::from(id)).collect())
    }

    /// The text of tokens, without special ones.
    ///
    /// # Errors
    /// Numbers that cannot be tokens.
    pub fn decode(&self, tokens: &[i64]) -> Result<String> {
        let ids: Vec<u32> = tokens.iter().map(|&token| id_of(token)).collect::<Result<_>>()?;
        self.inner.decode(&ids, true).map_err(wrong)
    }

    /// The number of a token.
    pub fn token(&self, text: &str) -> Option<i64> {
        self.inner.token_to_id(text).map(i64::from)
    }

    /// The text of a token, as its list has it.
    pub fn text_of(&self, token: i64) -> Option<String> {
        self.inner.id_to_token(u32::try_from(token).ok()?)
    }

    /// Whether a token is not text, but marks something.
    pub fn is_special(&self, token: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(token)
    }

    /// How many tokens have another number in the other one, or none, or are only there.
    pub(super) fn differences(&self, other: &Tokenizer) -> usize {
        let [own, others] = [self, other].map(|tokenizer| tokenizer.inner.get_vocab(true));
        let shared = own.iter().filter(|(text, number)| others.get(*text) == Some(number)).count();
        own.len().max(others.len()) - shared
    }

    /// Tokens that follow these to text, one by one: what begins a text may be written differently.
    ///
    /// # Errors
    /// A number that cannot be a token.
    pub(super) fn decoder_after(&self, tokens: &[i64]) -> Result<Decoder<'_>> {
        let mut decoder = Decoder { stream: self.inner.decode_stream(true) };
        tokens.last().map(|&token| decoder.push(token)).transpose()?;
        Ok(decoder)
    }
}

/// Text of tokens that come one by one. A token may be a part of a letter, and then gives nothing yet.
pub(super) struct Decoder<'a> {
    stream: tokenizers::tokenizer::DecodeStream<
        'a,
        tokenizers::ModelWrapper,
        tokenizers::NormalizerWrapper,
        tokenizers::PreTokenizerWrapper,
        tokenizers::PostProcessorWrapper,
        tokenizers::DecoderWrapper,
    >,
}

impl Decoder<'_> {
    pub(super) fn push(&mut self, token: i64) -> Result<String> {
        Ok(self.stream.step(id_of(token)?).map_err(wrong)?.unwrap_or_default())
    }
}

fn id_of(token: i64) -> Result<u32> {
    u32::try_from(token).map_err(|_| wrong(format!("expected the number of a token, found {token}")))
}
