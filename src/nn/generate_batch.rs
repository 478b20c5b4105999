//! Several prompts continued together.

use crate::base::{Device, Result};
use crate::nn::generate::{GenerateOpts, latest};
use crate::tensor::compose::CallSite;
use crate::tensor::random::Generator;
use crate::tensor::{Place, Tensor};

/// Tokens that follow several prompts, a step at a time; see [`generate_batch`].
#[derive(Debug)]
pub struct BatchTokens<F> {
    step: F,
    opts: GenerateOpts,
    device: Device,
    generator: Generator,
    /// What the model has not seen yet, `[n, l]`.
    pending: Tensor,
    rows: Vec<Row>,
    left: usize,
}

/// A prompt with what follows it.
#[derive(Debug)]
struct Row {
    tokens: Vec<i64>,
    is_done: bool,
}

/// Prompts as one tensor `[n, l]` of `I64`, the shorter ones with padding at their left, and where each begins,
/// `[n]`, for [`KvCache::set_starts`](crate::nn::KvCache::set_starts). transformers: `padding_side="left"`.
///
/// # Errors
/// No prompts, or one without a token.
///
/// # Examples
/// ```
/// use kiln::nn::pad_left;
/// let (tokens, starts) = pad_left(&[vec![5, 6, 7], vec![8]], ())?;
/// assert_eq!(tokens.to_vec::<i64>()?, [5, 6, 7, 8, 8, 8]); // padding is a token like others
/// assert_eq!(starts.to_vec::<i64>()?, [0, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn pad_left(prompts: &[Vec<i64>], place: impl Into<Place>) -> Result<(Tensor, Tensor)> {
    let (site, device) = (CallSite::here("pad_left"), place.into().device());
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    if longest == 0 || prompts.iter().any(Vec::is_empty) {
        let found = prompts.iter().position(Vec::is_empty);
        let found = found.map_or("no prompts".into(), |empty| format!("none in prompt {empty}"));
        return Err(site.error("at least one token in each prompt", found, &[]));
    }
    let padding = |prompt: &Vec<i64>| longest - prompt.len();
    let padded = |prompt: &Vec<i64>| [vec![prompt[0]; padding(prompt)], prompt.clone()].concat();
    let tokens: Vec<i64> = prompts.iter().flat_map(padded).collect();
    let starts: Vec<i64> = prompts.iter().map(|prompt| padding(prompt) as i64).collect();
    let count = prompts.len();
    Ok((Tensor::from_vec(tokens, [count, longest], device), Tensor::from_vec(starts, [count], device)))
}

/// The tokens that follow several prompts, all continued by each step. `step` maps tokens `[n, l]` that follow
/// those before to the logits of the next, `[n, vocabulary]`: a model with caches that know where the prompts
/// begin ([`pad_left`]). It sees the prompts first, then the tokens that were picked.
///
/// Each step gives a token for each prompt, `None` for one that a stop token has ended; the stream ends with
/// the last of them. An error ends it too.
///
/// # Errors
/// Those of [`pad_left`].
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::nn::{GenerateOpts, Sampling, generate_batch};
/// // After each token the next higher one is the likeliest.
/// let step = |tokens: &Tensor| (tokens.i((.., -1)) + 1).one_hot(10).float();
/// let opts = GenerateOpts::default().sampling(Sampling::greedy()).stop(vec![7]);
/// let steps: Vec<_> = generate_batch(&[vec![2, 3, 4], vec![5]], opts, (), step)?.collect::<Result<_, _>>()?;
/// assert_eq!(steps, [[Some(5), Some(6)], [Some(6), None]]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn generate_batch<F: FnMut(&Tensor) -> Tensor>(
    prompts: &[Vec<i64>],
    opts: GenerateOpts,
    place: impl Into<Place>,
    step: F,
) -> Result<BatchTokens<F>> {
    let device = place.into().device();
    let (pending, _) = pad_left(prompts, device)?;
    let generator = opts.seed.map_or_else(crate::tensor::random::generator, Generator::new);
    let row = |prompt: &Vec<i64>| Row { tokens: [&opts.before[..], prompt].concat(), is_done: false };
    let rows = prompts.iter().map(row).collect();
    let left = opts.max_tokens;
    Ok(BatchTokens { step, opts, device, generator, pending, rows, left })
}

impl<F: FnMut(&Tensor) -> Tensor> BatchTokens<F> {
    /// [`Iterator::next`] as a future, pending while the device is at it ([`Tensor::to_vec_async`]). What is
    /// computed is stated by the call, so that [`no_grad`](crate::no_grad) around it is enough.
    ///
    /// # Errors
    /// As the iterator's.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{GenerateOpts, Sampling, generate_batch};
    /// let step = |tokens: &Tensor| (tokens.i((.., -1)) + 1).one_hot(10).float();
    /// let opts = GenerateOpts::default().sampling(Sampling::greedy()).max_tokens(1);
    /// let mut steps = generate_batch(&[vec![2, 3, 4], vec![5]], opts, (), step)?;
    /// assert_eq!(pollster::block_on(steps.next_async()).transpose()?, Some(vec![Some(5), Some(6)]));
    /// assert!(pollster::block_on(steps.next_async()).is_none());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn next_async(&mut self) -> impl Future<Output = Option<Result<Vec<Option<i64>>>>> {
        let picked = self.pick().map(|picked| picked.to_vec_async::<i64>());
        async move { self.took(picked?.await) }
    }

    /// The next tokens, not computed yet; `None` at the end.
    fn pick(&mut self) -> Option<Tensor> {
        if self.left == 0 || self.rows.iter().all(|row| row.is_done) {
            return None;
        }
        self.left -= 1;
        let logits = (self.step)(&self.pending);
        Some(self.opts.sampling.pick(&logits, self.seen().as_ref(), &mut self.generator))
    }

    /// The tokens that a repetition penalty falls on, `[n, window]`.
    fn seen(&self) -> Option<Tensor> {
        let window = self.opts.repetition_window;
        self.opts.sampling.repetition_penalty.filter(|_| window > 0)?;
        let all: Vec<i64> = self.rows.iter().flat_map(|row| latest(&row.tokens, window)).collect();
        Some(Tensor::from_vec(all, [self.rows.len(), window], self.device))
    }

    /// What the stream gives for tokens that were computed.
    fn took(&mut self, picked: Result<Vec<i64>>) -> Option<Result<Vec<Option<i64>>>> {
        let picked = match picked {
            Ok(picked) => picked,
            Err(error) => {
                self.left = 0;
                return Some(Err(error));
            }
        };
        for (row, token) in self.rows.iter_mut().zip(&picked) {
            row.is_done |= self.opts.stop.contains(token);
            row.tokens.push(*token);
        }
        let given = self.rows.iter().zip(&picked).map(|(row, &token)| (!row.is_done).then_some(token));
        let given: Vec<Option<i64>> = given.collect();
        // Those that are done go along, unread.
        let count = picked.len();
        self.pending = Tensor::from_vec(picked, [count, 1], self.device);
        given.iter().any(Option::is_some).then_some(Ok(given))
    }
}

impl<F: FnMut(&Tensor) -> Tensor> Iterator for BatchTokens<F> {
    type Item = Result<Vec<Option<i64>>>;

    #[track_caller]
    fn next(&mut self) -> Option<Result<Vec<Option<i64>>>> {
        let picked = self.pick()?.to_vec::<i64>();
        self.took(picked)
    }
}
