//! Where a session's guesses of tokens come from.

use std::fmt;

use kiln::nn::{Draft, KvCache, lookup};
use kiln::tensor::Tensor;

use crate::error::Result;
use crate::text::language_model::LanguageModel;
use crate::text::tokenizer::wrong;

type DraftStep<'a> = Box<dyn FnMut(&Tensor, &[KvCache]) -> Tensor + 'a>;

/// What guesses tokens, and how many for a pass.
pub(super) struct Guesser<'a> {
    pub(super) count: usize,
    /// Of a draft model; without one, what followed the same tokens before.
    draft: Option<Draft<DraftStep<'a>>>,
    /// The model's number of tokens.
    vocabulary: i64,
}

/// How many tokens must have occurred before, for a guess of what follows them.
const RUN: usize = 3;

impl<'a> Guesser<'a> {
    pub(super) fn lookup(model: &LanguageModel, count: usize) -> Guesser<'a> {
        Guesser { count, draft: None, vocabulary: vocabulary(model) }
    }

    /// # Errors
    /// A draft model of another vocabulary.
    #[track_caller]
    pub(super) fn draft(
        model: &LanguageModel,
        draft: &'a LanguageModel,
        count: usize,
        capacity: usize,
    ) -> Result<Guesser<'a>> {
        let others = model.tokenizer().differences(draft.tokenizer());
        if others > 0 {
            return Err(wrong(format!(
                "expected a draft model of the same vocabulary, found one of which {others} tokens differ"
            )));
        }
        let draft = draft.model();
        let caches = draft.caches(1, capacity.min(draft.config().positions));
        let decoder = draft.decoder();
        let step: DraftStep<'a> = Box::new(move |tokens, caches| decoder.next(tokens, caches));
        let draft = Draft::new(caches, draft.norm.weight.device(), step);
        Ok(Guesser { count, draft: Some(draft), vocabulary: vocabulary(model) })
    }

    pub(super) fn guess(&mut self, tokens: &[i64]) -> kiln::Result<Vec<i64>> {
        let mut guesses = match &mut self.draft {
            Some(draft) => draft.guess(tokens, self.count)?,
            None => lookup(tokens, RUN, self.count),
        };
        // Embeddings may have more rows than there are tokens, each model's its own number of them.
        let known = guesses.iter().position(|&token| token >= self.vocabulary);
        guesses.truncate(known.unwrap_or(guesses.len()));
        Ok(guesses)
    }
}

fn vocabulary(model: &LanguageModel) -> i64 {
    model.model().config().vocab as i64
}

impl fmt::Debug for Guesser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_draft = self.draft.is_some();
        f.debug_struct("Guesser")
            .field("count", &self.count)
            .field("is_draft", &is_draft)
            .finish_non_exhaustive()
    }
}
