//! Text that a model generates, piece by piece.

use std::fmt;

use kiln::DType;
use kiln::nn::{GenerateOpts, KvCache, Sampling, StopText};

use crate::error::{Error, Result};
use crate::text::guesses::Guesser;
use crate::text::language_model::LanguageModel;
use crate::text::template::Message;
use crate::text::token_stream::TokenStream;
use crate::text::tokenizer::{Decoder, wrong};

/// How text is generated.
///
/// # Examples
/// ```
/// use kiln::nn::Sampling;
/// use kiln_models::TextOpts;
/// let opts = TextOpts::default().max_tokens(64).sampling(Sampling::default().temperature(0.7)).stop("\n");
/// assert_eq!((opts.max_tokens, opts.stop.len()), (64, 1));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TextOpts {
    /// How tokens are picked: the likeliest, unless said otherwise.
    pub sampling: Sampling,
    /// Most tokens (256).
    pub max_tokens: usize,
    /// Texts before which it ends, beside the model's own ends.
    pub stop: Vec<String>,
    /// Seed of the picks; the process's generator gives one if `None`.
    pub seed: Option<u64>,
}

impl Default for TextOpts {
    fn default() -> TextOpts {
        TextOpts { sampling: Sampling::greedy(), max_tokens: 256, stop: Vec::new(), seed: None }
    }
}

impl TextOpts {
    /// With this `sampling`.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }
    /// With this `max_tokens`.
    #[must_use]
    pub fn max_tokens(mut self, count: usize) -> Self {
        self.max_tokens = count;
        self
    }
    /// Ends before this text too.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }
    /// With this `seed`.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

/// A text that grows. What the model has seen of it is kept, so that a longer conversation costs only
/// what is new.
#[derive(Debug)]
pub struct Session<'a> {
    model: &'a LanguageModel,
    caches: Vec<KvCache>,
    /// The tokens that the caches hold.
    seen: Vec<i64>,
    guesser: Option<Guesser<'a>>,
}

impl<'a> Session<'a> {
    #[track_caller]
    pub(super) fn new(model: &'a LanguageModel, capacity: usize) -> Session<'a> {
        Session { model, caches: model.model().caches(1, capacity), seen: Vec::new(), guesser: None }
    }

    /// The same with keys and values kept in this type ([`KvCache::new`]): floats of 16 bits, or `U8` for
    /// codes of 8 bits, take a half or a quarter of the memory of `F32`.
    #[must_use]
    #[track_caller]
    pub fn cache_dtype(mut self, dtype: DType) -> Self {
        self.caches = self.caches.iter().map(|cache| cache.to_dtype(dtype)).collect();
        self
    }

    /// The same with up to `count` tokens at a time guessed by a smaller model of the same vocabulary, which
    /// this one reads in one pass ([`speculate`](kiln::nn::speculate())). Texts stay the model's own; they
    /// come sooner where the small model is often right and much faster. transformers: `assistant_model`.
    ///
    /// # Errors
    /// A model of another vocabulary.
    #[track_caller]
    pub fn draft(mut self, model: &'a LanguageModel, count: usize) -> Result<Self> {
        self.guesser = Some(Guesser::draft(self.model, model, count, self.capacity())?);
        Ok(self)
    }

    /// The same with guesses that need no model: up to `count` tokens that followed the three latest where
    /// they occurred before ([`lookup`](kiln::nn::lookup)). Texts that repeat themselves or what they were
    /// told come sooner. transformers: `prompt_lookup_num_tokens`.
    #[must_use]
    pub fn lookup(mut self, count: usize) -> Self {
        self.guesser = Some(Guesser::lookup(self.model, count));
        self
    }

    /// The answer to a conversation, by the model's chat template.
    ///
    /// # Errors
    /// A model without a template; messages that it refuses; text that the tokenizer cannot take, or that
    /// there is no room for.
    pub fn reply(&mut self, messages: &[Message], opts: TextOpts) -> Result<TextStream<'_>> {
        let template = self.model.template().ok_or_else(|| wrong("expected a chat template, found none"))?;
        let tokens = self.model.tokenizer().encode(&template.fill(messages)?, false)?;
        self.continued(tokens, opts)
    }

    /// What follows a text.
    ///
    /// # Errors
    /// Text that the tokenizer cannot take, without a token, or that there is no room for.
    pub fn complete(&mut self, text: &str, opts: TextOpts) -> Result<TextStream<'_>> {
        let tokens = self.model.tokenizer().encode(text, true)?;
        if tokens.is_empty() {
            return Err(wrong("expected a text of at least one token, found none"));
        }
        self.continued(tokens, opts)
    }

    fn continued(&mut self, tokens: Vec<i64>, opts: TextOpts) -> Result<TextStream<'_>> {
        let (model, most) = (self.model, self.capacity());
        let (found, left) = (tokens.len(), (most + 1).checked_sub(tokens.len()));
        let left = left.filter(|&left| left > 0).ok_or(Error::TooLong { found, most })?;
        let common = self.seen.iter().zip(&tokens).take_while(|(seen, token)| seen == token).count();
        // The last token is seen again, for what follows it; and a step that failed was not seen.
        let held = self.caches.iter().map(KvCache::len).min().unwrap_or(0);
        let held = held.min(common).min(tokens.len().saturating_sub(1));
        self.caches.iter().for_each(|cache| cache.truncate(held));
        self.seen.truncate(held);
        let (caches, new) = (&self.caches, &tokens[held..]);
        let mut generation =
            GenerateOpts::default().sampling(opts.sampling).max_tokens(opts.max_tokens.min(left));
        (generation.stop, generation.seed) = (model.stop().to_vec(), opts.seed);
        generation.before = tokens[..held].to_vec();
        let stream = match &mut self.guesser {
            None => TokenStream::new(model, caches, new, generation),
            Some(guesser) => TokenStream::guessed(model, caches, guesser, [&tokens[..held], new], generation),
        };
        Ok(TextStream {
            tokens: stream,
            unseen: new.to_vec(),
            seen: &mut self.seen,
            decoder: model.tokenizer().decoder_after(&tokens)?,
            stop: StopText::new(opts.stop),
            count: 0,
            prompt: tokens.len(),
            done: false,
        })
    }

    /// How many tokens there is room for.
    pub fn capacity(&self) -> usize {
        self.caches.iter().map(KvCache::capacity).min().unwrap_or(0)
    }
    /// How many tokens the model has seen.
    pub fn len(&self) -> usize {
        self.seen.len()
    }
    /// Whether it has seen none.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

/// Pieces of generated text, as they come; see [`Session`]. An error ends it, and so does a session that is
/// full.
pub struct TextStream<'a> {
    tokens: TokenStream<'a>,
    /// Tokens that the next step feeds to the model.
    unseen: Vec<i64>,
    seen: &'a mut Vec<i64>,
    decoder: Decoder<'a>,
    stop: StopText,
    count: usize,
    prompt: usize,
    done: bool,
}

impl TextStream<'_> {
    /// How many tokens came so far.
    pub fn written(&self) -> usize {
        self.count
    }
    /// How many tokens the text before has.
    pub fn read(&self) -> usize {
        self.prompt
    }

    /// How many tokens were guessed so far, and how many of these guesses were right.
    pub fn guesses(&self) -> (usize, usize) {
        self.tokens.guesses()
    }

    /// [`Iterator::next`] as a future, pending while the device is at it, as a page of a browser needs it.
    /// Where tokens are guessed it waits instead.
    ///
    /// # Errors
    /// As the iterator's.
    pub async fn next_async(&mut self) -> Option<Result<String>> {
        while !self.done {
            let token = self.tokens.next_async().await;
            if let Some(shown) = self.took(token) {
                return Some(shown);
            }
        }
        None
    }

    /// What is shown after a token, or at the end of them, if something is.
    fn took(&mut self, token: Option<kiln::Result<i64>>) -> Option<Result<String>> {
        let Some(token) = token else {
            self.done = true;
            let rest = self.stop.finish();
            return (!rest.is_empty()).then_some(Ok(rest));
        };
        let text = token.map_err(Error::from).and_then(|token| {
            self.seen.append(&mut self.unseen);
            self.unseen.push(token);
            self.count += 1;
            self.decoder.push(token)
        });
        match text {
            Ok(text) => {
                let (shown, stopped) = self.stop.push(&text);
                self.done = stopped;
                (!shown.is_empty()).then_some(Ok(shown))
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

impl Iterator for TextStream<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        while !self.done {
            let token = self.tokens.next();
            if let Some(shown) = self.took(token) {
                return Some(shown);
            }
        }
        None
    }
}

impl fmt::Debug for TextStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextStream").field("count", &self.count).finish_non_exhaustive()
    }
}
