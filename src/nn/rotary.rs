//! Rotary embedding of positions.

use std::f64::consts::TAU;

use crate::base::{DType, Device, Result, Span};
use crate::nn::rotary_factors::{FactorsOf, shared};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::options::options;

options! {
    /// How queries and keys are turned by their positions (Su et al. 2021): planes of two channels, each
    /// by the position times its frequency.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{Rotary, RotaryScaling};
    /// let rotary = Rotary::from(5e5).scaling(RotaryScaling::Linear { factor: 2.0 });
    /// let x = Tensor::ones([1, 1, 3, 4], ());
    /// // Position 2 is turned as far as position 1 is without scaling.
    /// let (y, plain) = (rotary.turn(&x, None), Rotary::from(5e5).turn(&x, None));
    /// let (y, plain) = (y.i((0, 0, 2)).to_vec::<f32>()?, plain.i((0, 0, 1)).to_vec::<f32>()?);
    /// assert!(y.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 1e-6));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    Rotary {
        /// Base of the wave lengths (10,000).
        base: f64 = 1e4;
        /// Channels of each head that are turned, an even number; all of them if `None`. PyTorch's
        /// models call its share `partial_rotary_factor`.
        width: Option<usize> = None, usize => Some;
        /// Planes are neighbouring channels, as in GPT-J and the first Llama, instead of channels half a
        /// head apart, as in GPT-NeoX and `transformers` (false).
        interleaved: bool = false;
        /// What fits longer contexts (nothing).
        scaling: RotaryScaling = RotaryScaling::None;
    }
}

/// How frequencies change so that a model serves longer contexts than it was trained with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum RotaryScaling {
    /// They stay.
    #[default]
    None,
    /// All are divided by the factor (Chen et al. 2023).
    Linear {
        /// Times the trained length.
        factor: f64,
    },
    /// The base grows so that the slowest is divided by the factor, the fastest not at all.
    Ntk {
        /// Times the trained length.
        factor: f64,
    },
    /// As in Llama 3: waves longer than `original / low` are divided by the factor, those shorter than
    /// `original / high` stay, and between them it passes over.
    Llama3 {
        /// Times the trained length.
        factor: f64,
        /// `low_freq_factor`.
        low: f64,
        /// `high_freq_factor`.
        high: f64,
        /// The trained length.
        original: f64,
    },
    /// YaRN (Peng et al. 2023): waves that turn fewer than `slow` times in the trained length are divided
    /// by the factor, those that turn more than `fast` times stay, and scores are sharpened.
    Yarn {
        /// Times the trained length.
        factor: f64,
        /// `beta_fast`, commonly 32.
        fast: f64,
        /// `beta_slow`, commonly 1.
        slow: f64,
        /// The trained length.
        original: f64,
    },
}

impl From<f64> for Rotary {
    /// With this base and all else as by default.
    fn from(base: f64) -> Rotary {
        Rotary::default().base(base)
    }
}

impl Rotary {
    /// `x`, `[.., l, e]`, turned by the positions from `start` on, a rank-0 integer tensor, or from 0.
    ///
    /// Invalid where fewer channels are there than are turned, or their number is odd.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::Rotary;
    /// let x = Tensor::from([[1.0f32, 0.0], [1.0, 0.0]]);
    /// let y = Rotary::default().turn(&x, None).to_vec::<f32>()?;
    /// assert!((y[2] - 1f32.cos()).abs() < 1e-6 && (y[3] - 1f32.sin()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn turn(&self, x: &Tensor, start: Option<&Tensor>) -> Tensor {
        let site = CallSite::here("rotary");
        site.build(&[x], || self.turned(site, x, start))
    }

    fn turned(&self, site: CallSite, x: &Tensor, start: Option<&Tensor>) -> Result<Tensor> {
        let shape = x.shape();
        let [.., length, channels] = shape[..] else {
            return Err(site.error("positions and channels", shape.to_string(), &[x]));
        };
        let width = self.width.unwrap_or(channels);
        if width > channels || !width.is_multiple_of(2) {
            let expected = format!("an even number of {channels} channels, to turn planes of two");
            return Err(site.error(expected, format!("{width} channels"), &[x]));
        }
        let make = || self.factors(x, length, width, start);
        let factors = match start {
            Some(start) => shared(self.factors_of(site.span, x, length, width), start, make),
            None => make(),
        };
        if width == channels {
            return Ok(self.planes_turned(x, &factors));
        }
        let y = self.planes_turned(&x.narrow(-1, 0, width), &factors);
        Ok(Tensor::cat(&[&y, &x.narrow(-1, width as i64, channels - width)], -1))
    }

    fn factors_of(&self, span: Span, x: &Tensor, length: usize, width: usize) -> FactorsOf {
        let Rotary { base, interleaved, scaling, .. } = *self;
        FactorsOf { base, interleaved, scaling, length, width, device: x.device(), dtype: x.dtype(), span }
    }

    /// Cosines of the angles, and their sines with a sign for each channel of a plane; an axis of planes'
    /// channels is where [`planes_turned`](Self::planes_turned) has it.
    fn factors(&self, x: &Tensor, length: usize, width: usize, start: Option<&Tensor>) -> [Tensor; 2] {
        let place = (x.device(), x.dtype().compute());
        let positions = Tensor::arange(0, length as i64, 1, place).unsqueeze(1);
        let positions = start.map_or(positions.clone(), |start| positions + start.to_dtype(place.1));
        let angles = positions * self.frequencies(width, place);
        let factors = [angles.cos(), angles.sin()].map(|y| self.sharpened(y).to_dtype(x.dtype()));
        let channel = Tensor::arange(0, 2, 1, (x.device(), x.dtype()));
        let sign = if self.interleaved { channel } else { channel.unsqueeze(1) } * 2 - 1;
        let [cos, sin] = factors.map(|factor| factor.unsqueeze(self.pair()));
        [cos, sin * sign]
    }

    /// The axis along which the channels of a plane lie, once planes have one of their own.
    fn pair(&self) -> i64 {
        if self.interleaved { -1 } else { -2 }
    }

    /// Angles from one position to the next, by plane: `[width / 2]`.
    fn frequencies(&self, width: usize, place: (Device, DType)) -> Tensor {
        let planes = Tensor::arange(0, (width / 2) as i64, 1, place);
        let base = match self.scaling {
            RotaryScaling::Ntk { factor } if width > 2 => {
                self.base * factor.powf(width as f64 / (width as f64 - 2.0))
            }
            RotaryScaling::None
            | RotaryScaling::Linear { .. }
            | RotaryScaling::Ntk { .. }
            | RotaryScaling::Llama3 { .. }
            | RotaryScaling::Yarn { .. } => self.base,
        };
        let plain = (&planes * (-2.0 * base.ln() / width as f64)).exp();
        match self.scaling {
            RotaryScaling::None | RotaryScaling::Ntk { .. } => plain,
            RotaryScaling::Linear { factor } => plain / factor,
            RotaryScaling::Llama3 { factor, low, high, original } => {
                let kept = ((&plain * (original / TAU) - low) / (high - low)).clamp(0.0, 1.0);
                passed_over(&plain, &kept, factor)
            }
            RotaryScaling::Yarn { factor, fast, slow, original } => {
                let plane_of =
                    |turns: f64| width as f64 * (original / (turns * TAU)).ln() / (2.0 * self.base.ln());
                let first = plane_of(fast).floor().max(0.0);
                let last = plane_of(slow).ceil().min(width as f64 - 1.0);
                let span = if first == last { 1e-3 } else { last - first };
                let kept = 1.0 - ((planes - first) / span).clamp(0.0, 1.0);
                passed_over(&plain, &kept, factor)
            }
        }
    }

    /// YaRN's queries and keys are longer by the root of the scores' factor.
    fn sharpened(&self, x: Tensor) -> Tensor {
        match self.scaling {
            RotaryScaling::Yarn { factor, .. } if factor > 1.0 => x * (0.1 * factor.ln() + 1.0),
            RotaryScaling::None
            | RotaryScaling::Linear { .. }
            | RotaryScaling::Ntk { .. }
            | RotaryScaling::Llama3 { .. }
            | RotaryScaling::Yarn { .. } => x,
        }
    }

    /// Planes of channels `(a, b)` as `(a cos - b sin, b cos + a sin)`. No condition tells the two channels
    /// apart: the other one's sine has a sign of its own.
    fn planes_turned(&self, x: &Tensor, [cos, sin]: &[Tensor; 2]) -> Tensor {
        let planes = x.unflatten(-1, if self.interleaved { [-1, 2] } else { [2, -1] });
        (&planes * cos + planes.flip(self.pair()) * sin).flatten(-2, -1)
    }
}

/// Frequencies of which a share is kept, and the rest divided by a factor.
fn passed_over(plain: &Tensor, kept: &Tensor, factor: f64) -> Tensor {
    plain * (kept + (1.0 - kept) / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{pattern, values};

    #[test]
    fn turned_queries_and_keys_meet_at_their_distance() {
        // One query and one key, each at all of six positions.
        let (q, k) = (pattern(&[1, 1, 1, 4], 3), pattern(&[1, 1, 1, 4], 8));
        let turned = |x: Tensor| Rotary::default().turn(&x.expand([1, 1, 6, 4]), None);
        let (q, k) = (turned(q), turned(k));
        let scores = values(&q.matmul(&k.transpose(-1, -2)));
        for (i, j) in [(2, 1), (4, 3), (5, 4)] {
            assert!((scores[i * 6 + j] - scores[6]).abs() < 1e-5, "{scores:?}");
        }
        assert!((scores[6] - scores[0]).abs() > 1e-3 && (scores[1] - scores[6]).abs() > 1e-3, "{scores:?}");
    }
}
