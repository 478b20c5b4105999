//! Picking the next token from a language model's logits.

use crate::base::DType;
use crate::tensor::Tensor;
use crate::tensor::options::options;
use crate::tensor::random::Generator;
use crate::tensor::sort::TopkOpts;

options! {
    /// How tokens are picked from logits, in the order of `transformers`: repetition penalty, temperature,
    /// the `top_k` likeliest, the likeliest that have `top_p` together, those of at least `min_p` times
    /// the likeliest's probability.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::Sampling;
    /// let logits = Tensor::from([0.0f32, 3.0, 1.0]);
    /// let mut generator = kiln::Generator::new(1);
    /// assert_eq!(Sampling::greedy().pick(&logits, None, &mut generator).item::<i64>()?, 1);
    /// let likeliest = Sampling::default().temperature(0.7).top_p(0.5);
    /// assert_eq!(likeliest.pick(&logits, None, &mut generator).item::<i64>()?, 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    Sampling {
        /// Divisor of the logits (1); 0 picks the likeliest.
        temperature: f64 = 1.0;
        /// Only so many of the likeliest.
        top_k: Option<usize> = None, usize => Some;
        /// Only the likeliest whose probabilities reach so much together (Holtzman et al. 2020).
        top_p: Option<f64> = None, f64 => Some;
        /// Only what is at least so many times as likely as the likeliest (Nguyen et al. 2024).
        min_p: Option<f64> = None, f64 => Some;
        /// Logits of tokens that were seen are divided by so much if positive, else multiplied by it
        /// (Keskar et al. 2019).
        repetition_penalty: Option<f64> = None, f64 => Some;
    }
}

impl Sampling {
    /// Always the likeliest.
    pub fn greedy() -> Sampling {
        Sampling::default().temperature(0.0)
    }

    /// Picks from logits `[.., n]` a token each, `[..]` of `I64`. `seen` are the tokens that the penalty
    /// falls on, `[.., l]`.
    ///
    /// All is one plan with what computes the logits, and nothing is read from the device.
    #[track_caller]
    pub fn pick(&self, logits: &Tensor, seen: Option<&Tensor>, generator: &mut Generator) -> Tensor {
        let logits = logits.to_dtype(logits.dtype().compute());
        let logits = match (self.repetition_penalty, seen) {
            (Some(penalty), Some(seen)) => penalized(&logits, seen, penalty),
            (Some(_) | None, _) => logits,
        };
        if self.temperature == 0.0 {
            return logits.argmax(-1);
        }
        let (candidates, tokens) = self.candidates(&(logits / self.temperature));
        let place = generator.multinomial(&candidates.softmax(-1), 1, true);
        match tokens {
            Some(tokens) => tokens.gather(-1, &place).squeeze(-1),
            None => place.squeeze(-1),
        }
    }

    /// The logits that are left, the others minus infinity, and the tokens they are of; of all in their
    /// order if `None`.
    fn candidates(&self, logits: &Tensor) -> (Tensor, Option<Tensor>) {
        let vocabulary = logits.shape().last().copied().unwrap_or(0);
        let (mut logits, tokens) = match (self.top_k, self.top_p) {
            (Some(k), _) if k < vocabulary => {
                let (logits, tokens) = logits.topk(k.max(1), TopkOpts::default());
                (logits, Some(tokens.to_dtype(DType::I64)))
            }
            (_, Some(_)) => {
                let (logits, tokens) = logits.sort(-1, true);
                (logits, Some(tokens))
            }
            (_, None) => (logits.clone(), None),
        };
        if let (Some(share), Some(_)) = (self.top_p, &tokens) {
            let probabilities = logits.softmax(-1);
            // The likeliest always stays.
            let before = probabilities.cumsum(-1) - probabilities;
            let stays = before.lt(share.max(f64::from(f32::MIN_POSITIVE)));
            logits = stays.select(&logits, f64::NEG_INFINITY);
        }
        if let Some(least) = self.min_p {
            let bound = logits.amax_keepdim(-1) + least.max(0.0).ln();
            logits = logits.ge(&bound).select(&logits, f64::NEG_INFINITY);
        }
        (logits, tokens)
    }
}

/// Logits `[.., n]` less likely where a token was seen.
fn penalized(logits: &Tensor, seen: &Tensor, penalty: f64) -> Tensor {
    let held = logits.gather(-1, seen);
    let changed = held.lt(0.0).select(&held * penalty, &held / penalty);
    logits.scatter(-1, seen, &changed)
}
