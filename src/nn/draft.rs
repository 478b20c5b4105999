//! Guesses of a smaller model.

use crate::base::Result;
use crate::nn::cache::KvCache;
use crate::tensor::{Place, Tensor};

/// A smaller model of the same vocabulary, whose likeliest tokens are guesses for
/// [`speculate`](crate::nn::speculate()). It reads with caches of its own what is new since it was asked
/// last.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::nn::{Draft, GenerateOpts, Sampling, speculate};
/// // Both know that after each token the next higher one is the likeliest.
/// let logits = |tokens: &Tensor| (tokens + 1).one_hot(10).float();
/// let mut draft = Draft::new(Vec::new(), (), |tokens, _| logits(tokens).i((.., -1)));
/// let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(5);
/// let guess = |tokens: &[i64]| draft.guess(tokens, 4);
/// let mut tokens = speculate(&[1], opts, (), &[], guess, logits);
/// assert_eq!(tokens.by_ref().collect::<kiln::Result<Vec<_>>>()?, [2, 3, 4, 5, 6]);
/// assert_eq!((tokens.guessed(), tokens.accepted()), (4, 4)); // by one pass
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct Draft<F> {
    caches: Vec<KvCache>,
    place: Place,
    step: F,
    /// What the caches hold.
    seen: Vec<i64>,
}

impl<F: FnMut(&Tensor, &[KvCache]) -> Tensor> Draft<F> {
    /// `step` maps tokens `[1, l]` that follow those in the caches to the logits of the next, `[1, n]`, and
    /// adds to the caches.
    pub fn new(caches: Vec<KvCache>, place: impl Into<Place>, step: F) -> Draft<F> {
        Draft { caches, place: place.into(), step, seen: Vec::new() }
    }

    /// The `count` likeliest tokens after these, one after the other; fewer where its caches are full.
    ///
    /// # Errors
    /// What computing them says.
    pub fn guess(&mut self, tokens: &[i64], count: usize) -> Result<Vec<i64>> {
        let common = self.seen.iter().zip(tokens).take_while(|(seen, token)| seen == token).count();
        // The last token is read again, for what follows it; and a step that failed was not read.
        let held = self.caches.iter().map(KvCache::len).min().unwrap_or(0);
        let held = held.min(common).min(tokens.len().saturating_sub(1));
        self.caches.iter().for_each(|cache| cache.truncate(held));
        self.seen.truncate(held);
        let most = self.caches.iter().map(KvCache::capacity).min();
        let room = most.map_or(count, |most| (most + 1).saturating_sub(tokens.len()));
        let (mut new, mut guesses) = (tokens[held..].to_vec(), Vec::new());
        for _ in 0..count.min(room) {
            let logits =
                (self.step)(&Tensor::from_slice(&new, [1, new.len()], self.place.device()), &self.caches);
            let guess = logits.argmax(-1).reshape(()).item::<i64>()?;
            self.seen.append(&mut new);
            new.push(guess);
            guesses.push(guess);
        }
        Ok(guesses)
    }
}
