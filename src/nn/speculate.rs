//! Speculative decoding: one pass of a model reads several guessed tokens.

use std::collections::VecDeque;

use crate::base::Result;
use crate::nn::cache::{KvCache, realize};
use crate::nn::generate::{GenerateOpts, latest};
use crate::tensor::compose::CallSite;
use crate::tensor::random::Generator;
use crate::tensor::{Place, Tensor};

/// A stream of tokens, some of which were guessed; see [`speculate`].
#[derive(Debug)]
pub struct Speculation<'a, G, F> {
    step: F,
    guess: G,
    opts: GenerateOpts,
    place: Place,
    generator: Generator,
    caches: &'a [KvCache],
    /// The prompt, and what was picked.
    tokens: Vec<i64>,
    /// How many of them, from the end, the model has not seen.
    unseen: usize,
    /// What was picked and not given yet.
    ready: VecDeque<i64>,
    /// How many may still be picked.
    left: usize,
    guessed: usize,
    accepted: usize,
    /// How long the caches were before a pass that has not ended: a future that was dropped.
    lengths: Option<Vec<usize>>,
}

/// A pass of the model whose picks are not computed yet.
struct PendingPass {
    guesses: Vec<i64>,
    /// What is picked after the last token and after each guess, and after padding.
    picked: Tensor,
}

/// Guesses that a pass reads at most, whatever is asked for.
const MOST_GUESSES: usize = 1024;

/// The tokens that follow a prompt, as [`generate`](crate::nn::generate()) gives them, with fewer passes of
/// the model (Leviathan et al. 2023). `guess` maps all tokens so far to guesses of those that follow; the
/// model reads up to [`guesses`](GenerateOpts::guesses) of them in one pass, which costs little more than one
/// for a single token where reading the weights takes the time. A token is picked from the logits of each
/// position, and guesses hold while they are what was picked. So guesses change how fast tokens come and not
/// which: the likeliest stay the likeliest, and sampled ones have the model's own distribution. transformers:
/// `assistant_model`.
///
/// `step` maps tokens `[1, l]` that follow those before to the logits of what follows each, `[1, l, n]`, and
/// adds to `caches`, from which tokens that were guessed wrong are removed. Passes have one of two lengths,
/// with and without guesses, so that none needs a plan of its own; where the caches have too little room,
/// nothing is guessed.
///
/// An error ends the stream, with the caches as they were before its pass. Each pass waits for the device.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::nn::{GenerateOpts, Sampling, speculate};
/// // After each token the next higher one is the likeliest.
/// let step = |tokens: &Tensor| (tokens + 1).one_hot(10).float();
/// // Right but for the 6.
/// let guess = |tokens: &[i64]| {
///     let last = tokens[tokens.len() - 1];
///     Ok(vec![last + 1, if last == 4 { 0 } else { last + 2 }])
/// };
/// let opts = GenerateOpts::default().sampling(Sampling::greedy()).stop(vec![9]);
/// let mut tokens = speculate(&[1], opts, (), &[], guess, step);
/// assert_eq!(tokens.by_ref().collect::<kiln::Result<Vec<_>>>()?, [2, 3, 4, 5, 6, 7, 8]);
/// assert_eq!((tokens.guessed(), tokens.accepted()), (6, 5)); // by three passes
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn speculate<'a, G, F>(
    prompt: &[i64],
    mut opts: GenerateOpts,
    place: impl Into<Place>,
    caches: &'a [KvCache],
    guess: G,
    step: F,
) -> Speculation<'a, G, F>
where
    G: FnMut(&[i64]) -> Result<Vec<i64>>,
    F: FnMut(&Tensor) -> Tensor,
{
    opts.guesses = opts.guesses.min(MOST_GUESSES);
    let generator = opts.seed.map_or_else(crate::tensor::random::generator, Generator::new);
    Speculation {
        step,
        guess,
        place: place.into(),
        generator,
        caches,
        tokens: prompt.to_vec(),
        unseen: prompt.len(),
        ready: VecDeque::new(),
        left: opts.max_tokens,
        opts,
        guessed: 0,
        accepted: 0,
        lengths: None,
    }
}

impl<G, F> Speculation<'_, G, F> {
    /// How many tokens the model read as guesses so far.
    pub fn guessed(&self) -> usize {
        self.guessed
    }
    /// How many of them were right.
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// Removes from the caches what a pass read that has not ended.
    fn undo(&mut self) {
        self.keep(0);
    }

    /// Ends a pass: of what it read, the caches keep the first so many tokens.
    fn keep(&mut self, count: usize) {
        for (cache, length) in self.caches.iter().zip(self.lengths.take().into_iter().flatten()) {
            cache.truncate(length + count);
        }
    }
}

impl<G, F> Drop for Speculation<'_, G, F> {
    fn drop(&mut self) {
        self.undo();
    }
}

impl<G, F> Speculation<'_, G, F>
where
    G: FnMut(&[i64]) -> Result<Vec<i64>>,
    F: FnMut(&Tensor) -> Tensor,
{
    /// [`Iterator::next`] as a future, pending while the device is at it ([`Tensor::to_vec_async`]); guesses are
    /// made by the call. A future that is dropped takes nothing from the stream.
    ///
    /// # Errors
    /// As the iterator's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{GenerateOpts, Sampling, speculate};
    /// let step = |tokens: &Tensor| (tokens + 1).one_hot(10).float();
    /// let guess = |tokens: &[i64]| Ok(vec![tokens[tokens.len() - 1] + 1]);
    /// let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(3);
    /// let mut tokens = speculate(&[1], opts, (), &[], guess, step);
    /// drop(tokens.next_async());
    /// for expected in [2, 3, 4] {
    ///     assert_eq!(pollster::block_on(tokens.next_async()).transpose()?, Some(expected));
    /// }
    /// assert!(pollster::block_on(tokens.next_async()).is_none());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn next_async(&mut self) -> impl Future<Output = Option<Result<i64>>> {
        let site = CallSite::here("speculate");
        let pass = self.is_due().then(|| self.begin(site)).transpose();
        let pass = pass.map(|pass| pass.map(|pass| (pass.picked.to_vec_async::<i64>(), pass.guesses)));
        async move {
            let done = match pass {
                Ok(Some((picked, guesses))) => picked.await.map(|picked| self.end(&guesses, &picked)),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            self.after(done)
        }
    }

    /// Whether a pass is needed for the next token.
    fn is_due(&self) -> bool {
        self.ready.is_empty() && self.left > 0 && self.unseen > 0
    }

    /// The next token, after a pass or none.
    fn after(&mut self, done: Result<()>) -> Option<Result<i64>> {
        if let Err(error) = done {
            self.undo();
            self.left = 0;
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }

    /// Reads the last token and guesses of those that follow.
    fn begin(&mut self, site: CallSite) -> Result<PendingPass> {
        self.undo();
        self.read_prompt()?;
        let guesses = self.guesses()?;
        self.lengths = Some(self.caches.iter().map(KvCache::len).collect());
        let picked = self.picked(site, &guesses)?;
        Ok(PendingPass { guesses, picked })
    }

    /// Takes what was picked, up to the first guess that is wrong.
    fn end(&mut self, guesses: &[i64], picked: &[i64]) {
        let right = guesses.iter().zip(picked).take_while(|(guess, picked)| guess == picked).count();
        let new = &picked[..picked.len().min(right + 1)];
        let stop = new.iter().position(|token| self.opts.stop.contains(token));
        let new = &new[..stop.unwrap_or(new.len())];
        // The token before them was read, and of them those that were guessed.
        self.keep(1 + new.len().min(right));
        self.tokens.extend(new);
        self.ready.extend(new);
        self.unseen = 1;
        self.left = if stop.is_some() { 0 } else { self.left.saturating_sub(new.len()) };
        (self.guessed, self.accepted) = (self.guessed + guesses.len(), self.accepted + right);
    }

    /// Reads the prompt but for its last token, whose logits come with those of guesses.
    fn read_prompt(&mut self) -> Result<()> {
        if let [first @ .., _] = &self.tokens[self.tokens.len() - self.unseen..]
            && !first.is_empty()
        {
            let tokens = Tensor::from_slice(first, [1, first.len()], self.place.device());
            (self.step)(&tokens).check()?;
            self.unseen = 1;
            return realize(self.caches);
        }
        Ok(())
    }

    /// As many guesses as there is use and room for.
    fn guesses(&mut self) -> Result<Vec<i64>> {
        let room = self.caches.iter().map(|cache| cache.capacity() - cache.len()).min();
        let most = self.opts.guesses.min(self.left.saturating_sub(1));
        if most == 0 || room.is_some_and(|room| room <= self.opts.guesses) {
            return Ok(Vec::new());
        }
        let mut guesses = (self.guess)(&self.tokens)?;
        guesses.truncate(most);
        Ok(guesses)
    }

    /// What the model picks after the last token and after each guess, and after padding.
    fn picked(&mut self, site: CallSite, guesses: &[i64]) -> Result<Tensor> {
        let mut read = self.tokens.clone();
        let (seen, last) = (read.len(), read.last().copied().unwrap_or_default());
        read.extend(guesses);
        let length = if guesses.is_empty() { 1 } else { 1 + self.opts.guesses };
        read.resize(seen - 1 + length, last);
        let logits = (self.step)(&Tensor::from_slice(&read[seen - 1..], [1, length], self.place.device()));
        let [rows, positions, vocabulary] = logits.dims::<3>()?;
        if [rows, positions] != [1, length] {
            let expected = format!("logits [1, {length}, n] of what follows each of {length} tokens");
            return Err(site.error(expected, logits.shape().to_string(), &[&logits]));
        }
        let logits = logits.reshape([length, vocabulary]);
        let window = self.opts.repetition_window;
        let penalized = self.opts.sampling.repetition_penalty.filter(|_| window > 0);
        let before = |_| {
            let (all, first) = ([&self.opts.before[..], &read].concat(), self.opts.before.len() + seen);
            let all = (0..length).flat_map(|at| latest(&all[..first + at], window)).collect();
            Tensor::from_vec(all, [length, window], logits.device())
        };
        let before = penalized.map(before);
        Ok(self.opts.sampling.pick(&logits, before.as_ref(), &mut self.generator))
    }
}

impl<G, F> Iterator for Speculation<'_, G, F>
where
    G: FnMut(&[i64]) -> Result<Vec<i64>>,
    F: FnMut(&Tensor) -> Tensor,
{
    type Item = Result<i64>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<i64>> {
        let site = CallSite::here("speculate");
        let pass = |own: &mut Self| {
            let PendingPass { guesses, picked } = own.begin(site)?;
            let picked = picked.to_vec()?;
            own.end(&guesses, &picked);
            Ok(())
        };
        let done = if self.is_due() { pass(self) } else { Ok(()) };
        self.after(done)
    }
}

/// What followed the latest tokens where they occurred before, up to `count` tokens: guesses for
/// [`speculate`] that need no second model, right where a text repeats itself or the prompt (Saxena 2023).
/// The last `run` tokens must have occurred together; the last time they did counts. transformers:
/// `prompt_lookup_num_tokens`.
///
/// # Examples
/// ```
/// use kiln::nn::lookup;
/// assert_eq!(lookup(&[1, 2, 7, 8, 1, 2], 2, 3), [7, 8, 1]);
/// assert!(lookup(&[1, 2, 7, 8, 3, 2], 2, 3).is_empty());
/// ```
pub fn lookup(tokens: &[i64], run: usize, count: usize) -> Vec<i64> {
    let latest = &tokens[tokens.len().saturating_sub(run)..];
    let earlier = &tokens[..tokens.len().saturating_sub(1)];
    if latest.len() < run || run == 0 {
        return Vec::new();
    }
    let found = earlier.windows(run).rposition(|tokens| tokens == latest);
    found.map_or(Vec::new(), |at| tokens[at + run..].iter().take(count).copied().collect())
}
