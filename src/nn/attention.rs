//! Attention between positions, with several heads.

use crate::base::{DType, Result};
use crate::module;
use crate::nn::linear::Linear;
use crate::nn::module::Layer;
use crate::tensor::attention::AttentionOpts;
use crate::tensor::options::{options, some};
use crate::tensor::{Place, Tensor};

options! {
    /// Options of [`MultiheadAttention`].
    AttentionLayerOpts {
        /// Position `i` looks at positions `0..=i` only.
        causal: bool = false;
        /// Heads of keys and values, each shared by equally many of the
        /// query's (Ainslie et al. 2023); as many as the query's if `None`.
        kv_heads: Option<usize> = None, usize => Some;
        /// Turn queries and keys by their position (Su et al. 2021): the base
        /// of the wave lengths, commonly 10,000.
        rotary: Option<f64> = None, f64 => Some;
    }
}

options! {
    /// What one pass through [`MultiheadAttention`] is told.
    AttentionInput {
        /// What keys and values are made from; the queries' input if `None`.
        memory: Option<Tensor> = None, &Tensor => some;
        /// `Bool`: where to look; floating: added to the scores. Broadcasts to
        /// `[n, heads, l, s]`.
        mask: Option<Tensor> = None, &Tensor => some;
    }
}

/// Attention with several heads (Vaswani et al. 2017): `[n, l, width]` to the
/// same shape.
#[derive(Debug)]
pub struct MultiheadAttention {
    /// `[width, width]`.
    pub q_proj: Linear,
    /// `[kv_heads * width / heads, width]`.
    pub k_proj: Linear,
    /// `[kv_heads * width / heads, width]`.
    pub v_proj: Linear,
    /// `[width, width]`.
    pub out_proj: Linear,
    heads: usize,
    opts: AttentionLayerOpts,
}
module!(MultiheadAttention { q_proj, k_proj, v_proj, out_proj; skip heads, opts });

impl MultiheadAttention {
    /// `heads` equal parts of `width` channels. Forward passes are invalid if
    /// the heads do not divide the channels.
    #[track_caller]
    pub fn new(
        width: usize,
        heads: usize,
        opts: AttentionLayerOpts,
        place: impl Into<Place>,
    ) -> MultiheadAttention {
        let place = place.into();
        let narrow = opts.kv_heads.unwrap_or(heads) * (width / heads.max(1));
        MultiheadAttention {
            q_proj: Linear::new(width, width, place),
            k_proj: Linear::new(width, narrow, place),
            v_proj: Linear::new(width, narrow, place),
            out_proj: Linear::new(width, width, place),
            heads,
            opts,
        }
    }

    /// The output for queries `[n, l, width]`.
    #[track_caller]
    pub fn attend(&self, x: &Tensor, input: AttentionInput) -> Tensor {
        let memory = input.memory.as_ref().unwrap_or(x);
        let kv_heads = self.opts.kv_heads.unwrap_or(self.heads);
        let mut q = split(&self.q_proj.forward(x), self.heads);
        let mut k = split(&self.k_proj.forward(memory), kv_heads);
        let v = split(&self.v_proj.forward(memory), kv_heads);
        if let Some(base) = self.opts.rotary {
            q = rotated(&q, base);
            k = rotated(&k, base);
        }
        let mut opts = AttentionOpts::default().causal(self.opts.causal).enable_gqa(kv_heads != self.heads);
        opts.mask = input.mask;
        let y = q.scaled_dot_product_attention(&k, &v, opts);
        self.out_proj.forward(&joined(&y))
    }
}

impl Layer for MultiheadAttention {
    /// Attention of positions among themselves.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.attend(x, AttentionInput::default())
    }
}

/// `[n, l, heads * e]` to `[n, heads, l, e]`.
#[track_caller]
fn split(x: &Tensor, heads: usize) -> Tensor {
    match x.dims::<3>() {
        Ok([n, l, width]) => x.reshape([n, l, heads, width / heads.max(1)]).transpose(1, 2),
        Err(error) => Tensor::invalid(error),
    }
}

/// `[n, heads, l, e]` to `[n, l, heads * e]`.
#[track_caller]
fn joined(x: &Tensor) -> Tensor {
    match x.dims::<4>() {
        Ok([n, heads, l, e]) => x.transpose(1, 2).reshape([n, l, heads * e]),
        Err(error) => Tensor::invalid(error),
    }
}

/// The halves of each head's channels as planes, turned by the position times
/// the plane's frequency.
#[track_caller]
fn rotated(x: &Tensor, base: f64) -> Tensor {
    let turn = |[_, _, length, width]: [usize; 4]| -> Result<Tensor> {
        let place = (x.device(), DType::F32);
        let positions = Tensor::arange(0, length as i64, 1, place).unsqueeze(1);
        let planes = Tensor::arange(0, (width / 2) as i64, 1, place);
        let angles = positions * (planes * (-2.0 * base.ln() / width as f64)).exp();
        let (cos, sin) = (angles.cos().to_dtype(x.dtype()), angles.sin().to_dtype(x.dtype()));
        let halves = x.chunk(2, -1);
        let [a, b] = &halves[..] else { return Ok(halves[0].clone()) };
        Ok(Tensor::cat(&[a * &cos - b * &sin, b * cos + a * sin], -1))
    };
    Tensor::build(|| turn(x.dims::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::rotated;
    use crate::tensor::testing::{pattern, values};

    #[test]
    fn turned_queries_and_keys_meet_at_their_distance() {
        // One query and one key, each at all of six positions.
        let (q, k) = (pattern(&[1, 1, 1, 4], 3), pattern(&[1, 1, 1, 4], 8));
        let (q, k) = (rotated(&q.expand([1, 1, 6, 4]), 1e4), rotated(&k.expand([1, 1, 6, 4]), 1e4));
        let scores = values(&q.matmul(&k.transpose(-1, -2)));
        for (i, j) in [(2, 1), (4, 3), (5, 4)] {
            assert!((scores[i * 6 + j] - scores[6]).abs() < 1e-5, "{scores:?}");
        }
        assert!((scores[6] - scores[0]).abs() > 1e-3 && (scores[1] - scores[6]).abs() > 1e-3, "{scores:?}");
    }
}
