//! Attention between positions, with several heads.

use crate::base::{Result, Span};
use crate::module;
use crate::nn::cache::{KvCache, visible};
use crate::nn::init;
use crate::nn::linear::Linear;
use crate::nn::module::Layer;
use crate::nn::param::Param;
use crate::tensor::attention::AttentionOpts;
use crate::tensor::compose::CallSite;
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
    /// `heads` equal parts of `width` channels, with PyTorch's start: biases are
    /// zeros. Forward passes are invalid if
    /// the heads do not divide the channels.
    #[track_caller]
    pub fn new(
        width: usize,
        heads: usize,
        opts: AttentionLayerOpts,
        place: impl Into<Place>,
    ) -> MultiheadAttention {
        let _line = Span::caller().enter();
        let place = place.into();
        let narrow = opts.kv_heads.unwrap_or(heads).saturating_mul(width / heads.max(1));
        let zeros = |outputs| Some(Param::new(Tensor::zeros([outputs], place)));
        // One matrix of queries, keys and values, after Glorot and Bengio.
        let bound = init::xavier_bound(narrow.saturating_mul(2).saturating_add(width), width);
        let inward = |outputs| Linear {
            weight: Param::new(Tensor::uniform(-bound, bound, [outputs, width], place)),
            bias: zeros(outputs),
        };
        MultiheadAttention {
            q_proj: inward(width),
            k_proj: inward(narrow),
            v_proj: inward(narrow),
            out_proj: Linear { bias: zeros(width), ..Linear::without_bias(width, width, place) },
            heads,
            opts,
        }
    }

    /// The output for queries `[n, l, width]`.
    #[track_caller]
    pub fn attend(&self, x: &Tensor, input: AttentionInput) -> Tensor {
        let _line = Span::caller().enter();
        let memory = input.memory.as_ref().unwrap_or(x);
        let [q, k, v] = self.parts(x, memory, None);
        let mut opts = self.scores().causal(self.opts.causal);
        opts.mask = input.mask;
        let y = q.scaled_dot_product_attention(&k, &v, opts);
        self.out_proj.forward(&joined(&y))
    }

    /// The output for positions `[n, l, width]` that follow those in the cache,
    /// to which they are added. A causal layer looks back only.
    ///
    /// Invalid, with the cache as it was, where the positions do not fit in
    /// it, or `n`, type or device differ.
    #[track_caller]
    pub fn attend_cached(&self, x: &Tensor, cache: &KvCache) -> Tensor {
        let _line = Span::caller().enter();
        let site = CallSite::here("attend_cached");
        let attend = || -> Result<Tensor> {
            let [_, length, _] = x.dims::<3>()?;
            let start = cache.room(site, x, length)?;
            let [q, k, v] = self.parts(x, x, Some(&start));
            let (k, v) = cache.append(site, &k, &v, &start)?;
            let read = cache.extent_read();
            let [k, v] = [k, v].map(|held| held.narrow(2, 0, read));
            let mask = visible(&start, length, read, self.opts.causal);
            let y = q.scaled_dot_product_attention(&k, &v, self.scores().mask(&mask));
            Ok(self.out_proj.forward(&joined(&y)))
        };
        Tensor::build(attend)
    }

    /// An empty cache for [`MultiheadAttention::attend_cached`]: `batch`
    /// sequences of up to `capacity` positions.
    #[track_caller]
    pub fn cache(&self, batch: usize, capacity: usize) -> KvCache {
        let heads = self.opts.kv_heads.unwrap_or(self.heads);
        let weight = &self.k_proj.weight;
        let width = weight.shape().first().copied().unwrap_or(0) / heads.max(1);
        KvCache::new([batch, heads, capacity, width], (weight.device(), weight.dtype()))
    }

    /// Queries, keys and values by head; positions count from `start`.
    #[track_caller]
    fn parts(&self, x: &Tensor, memory: &Tensor, start: Option<&Tensor>) -> [Tensor; 3] {
        let site = CallSite::here("attention");
        if let Err(invalid) = self.fits(site, x) {
            return [invalid.clone(), invalid.clone(), invalid];
        }
        let kv_heads = self.opts.kv_heads.unwrap_or(self.heads);
        let q = split(&self.q_proj.forward(x), self.heads);
        let k = split(&self.k_proj.forward(memory), kv_heads);
        let v = split(&self.v_proj.forward(memory), kv_heads);
        match self.opts.rotary {
            Some(base) => [rotated(&q, base, start), rotated(&k, base, start), v],
            None => [q, k, v],
        }
    }

    /// Whether heads have channels as they must; else what is wrong.
    fn fits(&self, site: CallSite, x: &Tensor) -> Result<(), Tensor> {
        let width = self.q_proj.weight.shape().first().copied().unwrap_or(0);
        let wrong = |expected: String, found: String| {
            Err(site.build(&[x], || Err(site.error(expected, found, &[x]))))
        };
        if self.heads == 0 || !width.is_multiple_of(self.heads) {
            return wrong(format!("heads that divide {width} channels"), format!("{} heads", self.heads));
        }
        let each = width / self.heads;
        if self.opts.rotary.is_some() && !each.is_multiple_of(2) {
            let expected = "an even number of channels in a head, to turn pairs of them";
            return wrong(expected.into(), format!("{each} channels"));
        }
        Ok(())
    }

    fn scores(&self) -> AttentionOpts {
        let kv_heads = self.opts.kv_heads.unwrap_or(self.heads);
        AttentionOpts::default().enable_gqa(kv_heads != self.heads)
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
    let split = |[n, l, width]: [usize; 3]| x.reshape([n, l, heads, width / heads.max(1)]).transpose(1, 2);
    CallSite::here("attention").build(&[x], || x.dims().map(split))
}

/// `[n, heads, l, e]` to `[n, l, heads * e]`.
#[track_caller]
fn joined(x: &Tensor) -> Tensor {
    let join = |[n, heads, l, e]: [usize; 4]| x.transpose(1, 2).reshape([n, l, heads * e]);
    CallSite::here("attention").build(&[x], || x.dims().map(join))
}

/// The halves of each head's channels as planes, turned by the position, from
/// `start` or 0 on, times the plane's frequency.
#[track_caller]
fn rotated(x: &Tensor, base: f64, start: Option<&Tensor>) -> Tensor {
    let turn = |[_, _, length, width]: [usize; 4]| -> Result<Tensor> {
        let place = (x.device(), x.dtype().compute());
        let positions = Tensor::arange(0, length as i64, 1, place).unsqueeze(1);
        let positions = start.map_or(positions.clone(), |start| positions + start.to_dtype(place.1));
        let planes = Tensor::arange(0, (width / 2) as i64, 1, place);
        let angles = positions * (planes * (-2.0 * base.ln() / width as f64)).exp();
        let (cos, sin) = (angles.cos().to_dtype(x.dtype()), angles.sin().to_dtype(x.dtype()));
        let halves = x.chunk(2, -1);
        let [a, b] = &halves[..] else { return Ok(halves[0].clone()) };
        Ok(Tensor::cat(&[a * &cos - b * &sin, b * cos + a * sin], -1))
    };
    CallSite::here("attention").build(&[x], || turn(x.dims()?))
}

#[cfg(test)]
mod tests {
    use super::{Tensor, rotated};
    use crate::tensor::testing::{pattern, values};

    #[test]
    fn turned_queries_and_keys_meet_at_their_distance() {
        // One query and one key, each at all of six positions.
        let (q, k) = (pattern(&[1, 1, 1, 4], 3), pattern(&[1, 1, 1, 4], 8));
        let turned = |x: Tensor| rotated(&x.expand([1, 1, 6, 4]), 1e4, None);
        let (q, k) = (turned(q), turned(k));
        let scores = values(&q.matmul(&k.transpose(-1, -2)));
        for (i, j) in [(2, 1), (4, 3), (5, 4)] {
            assert!((scores[i * 6 + j] - scores[6]).abs() < 1e-5, "{scores:?}");
        }
        assert!((scores[6] - scores[0]).abs() > 1e-3 && (scores[1] - scores[6]).abs() > 1e-3, "{scores:?}");
    }
}
