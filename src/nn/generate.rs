//! Streams of generated tokens, and where text stops.

use crate::base::Result;
use crate::nn::sampling::Sampling;
use crate::tensor::options::options;
use crate::tensor::random::Generator;
use crate::tensor::{Place, Tensor};

options! {
    /// Options of [`generate`].
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::{GenerateOpts, Sampling};
    /// let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(8).stop(vec![2]);
    /// assert_eq!((opts.max_tokens, opts.repetition_window), (8, 64));
    /// ```
    GenerateOpts {
        /// How tokens are picked (by the model's probabilities).
        sampling: Sampling = Sampling::default();
        /// Tokens after which the stream ends (256).
        max_tokens: usize = 256;
        /// Tokens that end the stream and are not part of it (none).
        stop: Vec<i64> = Vec::new();
        /// Tokens before a prompt, or all prompts of a batch, which the caches hold already; a repetition penalty
        /// falls on them too (none).
        before: Vec<i64> = Vec::new();
        /// How many of the latest tokens a repetition penalty falls on (64).
        repetition_window: usize = 64;
        /// Most tokens that a pass of [`speculate`](crate::nn::speculate()) reads as guesses (4), up to 1,024.
        guesses: usize = 4;
        /// Seed of the picks; the process's generator gives one if `None`.
        seed: Option<u64> = None, u64 => Some;
    }
}

/// A stream of tokens; see [`generate`].
#[derive(Debug)]
pub struct Tokens<F> {
    step: F,
    opts: GenerateOpts,
    place: Place,
    generator: Generator,
    /// What the model has not seen yet.
    pending: Vec<i64>,
    latest: Vec<i64>,
    left: usize,
}

/// The tokens that follow a prompt, one by one. `step` maps tokens `[1, l]` that follow those before to
/// the logits of the next, `[1, n]` or `[n]`: a model with caches of its own. It sees the whole prompt
/// first, then each token that was picked.
///
/// An error ends the stream.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::nn::{GenerateOpts, Sampling, generate};
/// // After each token the next higher one is the likeliest.
/// let step = |tokens: &Tensor| (tokens.i((0, -1)) + 1).one_hot(10).float();
/// let opts = GenerateOpts::default().sampling(Sampling::greedy()).stop(vec![7]);
/// let tokens: Vec<i64> = generate(&[1, 2, 3], opts, (), step).collect::<Result<_, _>>()?;
/// assert_eq!(tokens, [4, 5, 6]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn generate<F: FnMut(&Tensor) -> Tensor>(
    prompt: &[i64],
    opts: GenerateOpts,
    place: impl Into<Place>,
    step: F,
) -> Tokens<F> {
    let generator = opts.seed.map_or_else(crate::tensor::random::generator, Generator::new);
    let (pending, latest, left) = (prompt.to_vec(), [&opts.before, prompt].concat(), opts.max_tokens);
    Tokens { step, opts, place: place.into(), generator, pending, latest, left }
}

impl<F: FnMut(&Tensor) -> Tensor> Tokens<F> {
    /// [`Iterator::next`] as a future, pending while the device is at it ([`Tensor::item_async`]). What is
    /// computed is stated by the call, so that [`no_grad`](crate::no_grad) around it is enough.
    ///
    /// # Errors
    /// As the iterator's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{GenerateOpts, Sampling, generate};
    /// let step = |tokens: &Tensor| (tokens.i((0, -1)) + 1).one_hot(10).float();
    /// let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(1);
    /// let mut tokens = generate(&[1, 2, 3], opts, (), step);
    /// assert_eq!(pollster::block_on(tokens.next_async()).transpose()?, Some(4));
    /// assert!(pollster::block_on(tokens.next_async()).is_none());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn next_async(&mut self) -> impl Future<Output = Option<Result<i64>>> {
        let picked = self.pick().map(|picked| picked.item_async::<i64>());
        async move { self.took(picked?.await) }
    }

    /// The next token, not computed yet; `None` at the end.
    fn pick(&mut self) -> Option<Tensor> {
        let count = self.pending.len();
        if self.left == 0 || count == 0 {
            return None;
        }
        self.left -= 1;
        let tokens = Tensor::from_vec(std::mem::take(&mut self.pending), [1, count], self.place.device());
        let logits = (self.step)(&tokens);
        let seen = self.opts.sampling.repetition_penalty.and_then(|_| self.seen(&logits));
        let picked = self.opts.sampling.pick(&logits, seen.as_ref(), &mut self.generator);
        Some(picked.reshape(()))
    }

    /// What the stream gives for a token that was computed.
    fn took(&mut self, picked: Result<i64>) -> Option<Result<i64>> {
        if let Ok(picked) = picked {
            if self.opts.stop.contains(&picked) {
                return None;
            }
            self.pending.push(picked);
            self.latest.push(picked);
        }
        Some(picked)
    }

    fn seen(&self, logits: &Tensor) -> Option<Tensor> {
        let all: Vec<i64> = latest(&self.latest, self.opts.repetition_window).collect();
        let mut shape = vec![1; logits.rank()];
        *shape.last_mut()? = all.len();
        (!all.is_empty()).then(|| Tensor::from_vec(all, shape, logits.device()))
    }
}

/// The latest of some tokens, always as many, so that no length needs a plan of its own.
pub(super) fn latest(tokens: &[i64], window: usize) -> impl Iterator<Item = i64> {
    tokens[tokens.len().saturating_sub(window)..].iter().cycle().take(window).copied()
}

impl<F: FnMut(&Tensor) -> Tensor> Iterator for Tokens<F> {
    type Item = Result<i64>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<i64>> {
        let picked = self.pick()?.item::<i64>();
        self.took(picked)
    }
}

/// Finds where text that comes in pieces reaches one of some stop strings, and holds back what may become
/// one.
///
/// # Examples
/// ```
/// use kiln::nn::StopText;
/// let mut text = StopText::new(["</s>", "User:"]);
/// assert_eq!(text.push("Hello <"), ("Hello ".to_string(), false));
/// assert_eq!(text.push("b> Us"), ("<b> ".to_string(), false));
/// assert_eq!(text.push("er: no"), (String::new(), true));
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopText {
    stops: Vec<String>,
    held: String,
}

impl StopText {
    /// With these stop strings; empty ones count for nothing.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> StopText {
        let stops = stops.into_iter().map(Into::into).filter(|stop: &String| !stop.is_empty());
        StopText { stops: stops.collect(), held: String::new() }
    }

    /// Takes the next piece; gives the text that may be shown now, and whether a stop string was reached.
    pub fn push(&mut self, piece: &str) -> (String, bool) {
        self.held += piece;
        if let Some(end) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            let shown = self.held[..end].to_string();
            self.held.clear();
            return (shown, true);
        }
        let may_become = |&at: &usize| {
            let rest = &self.held[at..];
            self.stops.iter().any(|stop| stop.starts_with(rest))
        };
        let starts = self.held.char_indices().map(|(at, _)| at);
        let end = starts.into_iter().find(may_become).unwrap_or(self.held.len());
        let rest = self.held.split_off(end);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back, when no more text comes.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}
