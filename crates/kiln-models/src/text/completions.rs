//! Several texts continued together.

use kiln::nn::{GenerateOpts, KvCache, StopText, generate_batch, pad_left};
use kiln::tensor::Tensor;

use crate::error::{Error, Result};
use crate::text::language_model::LanguageModel;
use crate::text::session::TextOpts;
use crate::text::tokenizer::{Decoder, wrong};

/// What follows a text, so far.
struct Completion<'a> {
    decoder: Decoder<'a>,
    stop: StopText,
    text: String,
    is_done: bool,
}

impl Completion<'_> {
    fn push(&mut self, token: i64) -> Result<()> {
        let (shown, stopped) = self.stop.push(&self.decoder.push(token)?);
        self.text += &shown;
        self.is_done = stopped;
        Ok(())
    }

    fn end(mut self) -> String {
        if !self.is_done {
            self.text += &self.stop.finish();
        }
        self.text
    }
}

impl LanguageModel {
    /// What follows each of several texts, which are continued together: the weights are read once for all of
    /// them, where one at a time would read them for each.
    ///
    /// # Errors
    /// Text that the tokenizer cannot take, without a token, or that there is no room for.
    pub fn complete_all(&self, texts: &[&str], opts: &TextOpts) -> Result<Vec<String>> {
        let _no_graph = kiln::no_grad();
        let prompts = self.prompts(texts)?;
        let (found, most) =
            (prompts.iter().map(Vec::len).max().unwrap_or(0), self.model().config().positions);
        let left = (most + 1).checked_sub(found).filter(|&left| left > 0);
        let count = opts.max_tokens.min(left.ok_or(Error::TooLong { found, most })?);
        let device = self.model().norm.weight.device();
        let caches = self.model().caches(texts.len(), (found + count).min(most));
        let (_, starts) = pad_left(&prompts, device)?;
        caches.iter().try_for_each(|cache: &KvCache| cache.set_starts(&starts))?;
        let mut generation = GenerateOpts::default().sampling(opts.sampling.clone()).max_tokens(count);
        (generation.stop, generation.seed) = (self.stop().to_vec(), opts.seed);
        let start = |prompt: &Vec<i64>| {
            let (decoder, stop) = (self.tokenizer().decoder_after(prompt)?, StopText::new(opts.stop.clone()));
            Ok(Completion { decoder, stop, text: String::new(), is_done: false })
        };
        let mut completions: Vec<Completion<'_>> = prompts.iter().map(start).collect::<Result<_>>()?;
        let decoder = self.model().decoder();
        let step = |tokens: &Tensor| decoder.next(tokens, &caches);
        for tokens in generate_batch(&prompts, generation, device, step)? {
            for (completion, token) in completions.iter_mut().zip(tokens?) {
                if let Some(token) = token.filter(|_| !completion.is_done) {
                    completion.push(token)?;
                }
            }
            if completions.iter().all(|completion| completion.is_done) {
                break;
            }
        }
        Ok(completions.into_iter().map(Completion::end).collect())
    }

    fn prompts(&self, texts: &[&str]) -> Result<Vec<Vec<i64>>> {
        let prompt = |text: &&str| {
            let tokens = self.tokenizer().encode(text, true)?;
            if tokens.is_empty() {
                Err(wrong("expected texts of at least one token, found none"))
            } else {
                Ok(tokens)
            }
        };
        texts.iter().map(prompt).collect()
    }
}
