//! Beam search: texts that are likeliest as a whole.

use crate::base::{Device, Result};
use crate::nn::cache::KvCache;
use crate::tensor::compose::CallSite;
use crate::tensor::options::options;
use crate::tensor::sort::TopkOpts;
use crate::tensor::{Place, Tensor, read};

options! {
    /// Options of [`beam_search`].
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::BeamOpts;
    /// let opts = BeamOpts::default().beams(5).max_tokens(64).stop(vec![2]);
    /// assert_eq!((opts.beams, opts.length_penalty), (5, 1.0));
    /// ```
    BeamOpts {
        /// How many texts go on at a time (4).
        beams: usize = 4;
        /// Tokens after which a text ends (256).
        max_tokens: usize = 256;
        /// Tokens that end a text and are not part of it (none).
        stop: Vec<i64> = Vec::new();
        /// The power of a text's length that its log-probability is divided by (1): 0 favours short texts.
        length_penalty: f64 = 1.0;
    }
}

/// More texts than a search follows at a time.
const MOST_BEAMS: usize = 1024;

/// A text that [`beam_search`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// The tokens after the prompt, without the one that ends the text.
    pub tokens: Vec<i64>,
    /// The log-probability of all tokens, also that one, divided by a power of their number.
    pub score: f64,
}

/// The texts that are likeliest as a whole after a prompt, the best first: `opts.beams` of them go on together,
/// each step with the tokens that make them likeliest (Graves 2012; transformers: `num_beams`). Picking the likeliest
/// token each time ([`Sampling::greedy`](crate::nn::Sampling::greedy)) may begin with one that nothing likely follows.
///
/// `step` maps tokens `[beams, l]` that follow those before to the logits of the next, `[beams, n]`: a model whose
/// caches, of `beams` sequences, are `caches`. It sees the prompt first, in all rows, then a token for each text.
///
/// # Errors
/// No token in the prompt; no beam, or more than 1,024; logits of another number of rows; the first error of a
/// step.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::nn::{BeamOpts, beam_search};
/// // 1 is likelier than 2 at first, but then all is alike; 2 leads to 3 for sure, and 3 to the end.
/// let after = Tensor::from([[0.0f32, 0.5, 0.4, 0.1], [0.25; 4], [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]]);
/// let step = |tokens: &Tensor| after.log().index_select(0, &tokens.i((.., -1)));
/// let opts = BeamOpts::default().beams(2).max_tokens(3).stop(vec![0]);
/// let best = &beam_search(&[0], opts, (), &[], step)?[0];
/// assert_eq!(best.tokens, [2, 3]);
/// assert!((best.score - 0.4f64.ln() / 3.0).abs() < 1e-6);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn beam_search<F: FnMut(&Tensor) -> Tensor>(
    prompt: &[i64],
    opts: BeamOpts,
    place: impl Into<Place>,
    caches: &[KvCache],
    mut step: F,
) -> Result<Vec<Beam>> {
    let site = CallSite::here("beam_search");
    if prompt.is_empty() || !(1..=MOST_BEAMS).contains(&opts.beams) {
        let expected = format!("at least one token in the prompt and 1 to {MOST_BEAMS} beams");
        return Err(site.error(expected, format!("{} and {}", prompt.len(), opts.beams), &[]));
    }
    let (device, count, most) = (place.into().device(), opts.beams, opts.max_tokens);
    let mut search = Search::new(opts, device);
    let mut tokens = Tensor::from_vec(prompt.repeat(count), [count, prompt.len()], device);
    for length in 1..=most {
        let candidates = search.candidates(site, &step(&tokens))?;
        let parents = search.take(candidates, length);
        if search.is_done(length) {
            break;
        }
        // What each text was made of is what its row goes on from.
        if parents.iter().enumerate().any(|(row, &parent)| row as i64 != parent) {
            let rows = Tensor::from_vec(parents, [count], device);
            caches.iter().try_for_each(|cache| cache.reorder(&rows))?;
        }
        let last = search.running.iter().map(|beam| beam.tokens.last().copied().unwrap_or(0));
        tokens = Tensor::from_vec(last.collect::<Vec<i64>>(), [count, 1], device);
    }
    Ok(search.best(most))
}

/// The texts so far.
struct Search {
    opts: BeamOpts,
    device: Device,
    /// Those that go on, the likeliest first, with their log-probabilities.
    running: Vec<Beam>,
    ended: Vec<Beam>,
}

/// A token after a running text, and the log-probability of both.
struct Candidate {
    row: usize,
    token: i64,
    log_probability: f64,
}

impl Search {
    fn new(opts: BeamOpts, device: Device) -> Search {
        // All begin alike, so only the first has candidates.
        let beam =
            |row: usize| Beam { tokens: Vec::new(), score: if row == 0 { 0.0 } else { f64::NEG_INFINITY } };
        Search { running: (0..opts.beams).map(beam).collect(), ended: Vec::new(), opts, device }
    }

    /// The likeliest texts that are a token longer, so many that all may end but as many as go on.
    fn candidates(&self, site: CallSite, logits: &Tensor) -> Result<Vec<Candidate>> {
        let [count, vocabulary] = logits.dims::<2>()?;
        if count != self.opts.beams {
            let expected = format!("logits of {} rows, one a beam", self.opts.beams);
            return Err(site.error(expected, count.to_string(), &[logits]));
        }
        let before: Vec<f32> = self.running.iter().map(|beam| beam.score as f32).collect();
        let before = Tensor::from_vec(before, [count, 1], self.device);
        let all = (logits.float().log_softmax(-1) + before).reshape([count * vocabulary]);
        let wanted = self.opts.beams.saturating_mul(1 + self.opts.stop.len().max(1));
        let (scores, places) = all.topk(wanted.min(count * vocabulary), TopkOpts::default());
        read::realize(&[&scores, &places])?;
        let (scores, places) = (scores.to_vec::<f32>()?, places.to_vec::<i64>()?);
        let candidate = |(score, place): (f32, i64)| Candidate {
            row: place as usize / vocabulary,
            token: place % vocabulary as i64,
            log_probability: score.into(),
        };
        Ok(scores.into_iter().zip(places).map(candidate).collect())
    }

    /// Goes on with candidates, the likeliest first; the rows that they follow.
    fn take(&mut self, candidates: Vec<Candidate>, length: usize) -> Vec<i64> {
        let (mut running, mut parents) = (Vec::new(), Vec::new());
        for (rank, Candidate { row, token, log_probability }) in candidates.into_iter().enumerate() {
            let mut tokens = self.running[row].tokens.clone();
            if self.opts.stop.contains(&token) {
                // One that is less likely than all that go on is none of the best.
                if rank < self.opts.beams && log_probability > f64::NEG_INFINITY {
                    self.ended.push(Beam { tokens, score: self.score(log_probability, length) });
                }
            } else if running.len() < self.opts.beams {
                tokens.push(token);
                running.push(Beam { tokens, score: log_probability });
                parents.push(row as i64);
            }
        }
        // Where there are fewer, rows are filled with what cannot be.
        let never = Beam { tokens: vec![0; length], score: f64::NEG_INFINITY };
        running.resize(self.opts.beams, never);
        parents.resize(self.opts.beams, 0);
        self.ended.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.ended.truncate(self.opts.beams);
        self.running = running;
        parents
    }

    fn score(&self, log_probability: f64, length: usize) -> f64 {
        log_probability / (length as f64).powf(self.opts.length_penalty)
    }

    /// Whether no text that goes on can be one of the best, as it is now.
    fn is_done(&self, length: usize) -> bool {
        let best = self.score(self.running[0].score, length);
        let worst = self.ended.get(self.opts.beams - 1).map(|beam| beam.score);
        best == f64::NEG_INFINITY || worst.is_some_and(|worst| worst >= best)
    }

    /// The best of all, those of `most` tokens that have not ended among them.
    fn best(mut self, most: usize) -> Vec<Beam> {
        if most > 0 {
            let score = |beam: &Beam| self.score(beam.score, beam.tokens.len());
            let open: Vec<Beam> =
                self.running.iter().map(|beam| Beam { score: score(beam), ..beam.clone() }).collect();
            self.ended.extend(open.into_iter().filter(|beam| beam.score > f64::NEG_INFINITY));
        }
        self.ended.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.ended.truncate(self.opts.beams);
        self.ended
    }
}
