//! Attention between positions, with several heads.

use crate::base::{Result, Span};
use crate::module;
use crate::nn::attention_mask::{PositionMask, Positions};
use crate::nn::cache::KvCache;
use crate::nn::cache_state::KvState;
use crate::nn::init;
use crate::nn::linear::Linear;
use crate::nn::module::Layer;
use crate::nn::module_region::in_module_of;
use crate::nn::norm::RMSNorm;
use crate::nn::param::Param;
use crate::nn::rotary::Rotary;
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
        /// Turn queries and keys by their position: a [`Rotary`], or the base of its wave lengths,
        /// commonly 10,000.
        rotary: Option<Rotary> = None, impl Into<Rotary> => some_rotary;
        /// Channels of a head; `width / heads` if `None`.
        head_width: Option<usize> = None, usize => Some;
        /// The projections of queries, keys and values add a bias (true).
        bias: bool = true;
        /// The projection of the result adds a bias; as those of queries do if `None`.
        out_bias: Option<bool> = None, bool => Some;
        /// Normalize the queries and keys of each head by their root mean square before they are turned,
        /// as Qwen 3 and Gemma 3: what is added to the mean of squares.
        qk_norm: Option<f64> = None, f64 => Some;
        /// Position `i` looks at positions less than so far away (Beltagy et al. 2020).
        window: Option<usize> = None, usize => Some;
        /// Scores fall with the distance, each head's at a speed of its own (Press et al. 2022).
        alibi: bool = false;
        /// Scores are bounded by so much: `softcap * tanh(score / softcap)`, as Gemma 2.
        softcap: Option<f64> = None, f64 => Some;
        /// Factor of the scores; one over the root of a head's channels if `None`.
        scale: Option<f64> = None, f64 => Some;
    }
}

fn some_rotary(rotary: impl Into<Rotary>) -> Option<Rotary> {
    Some(rotary.into())
}

options! {
    /// What one pass through [`MultiheadAttention`] is told.
    AttentionInput {
        /// What keys and values are made from; the queries' input if `None`.
        memory: Option<Tensor> = None, &Tensor => some;
        /// Keys and values that [`MultiheadAttention::keys_values`] made, instead of `memory`: what many
        /// passes look at is projected once.
        keys_values: Option<[Tensor; 2]> = None, [Tensor; 2] => Some;
        /// `Bool`: where to look; floating: added to the scores. Broadcasts to
        /// `[n, heads, l, s]`.
        mask: Option<Tensor> = None, &Tensor => some;
    }
}

/// Attention with several heads (Vaswani et al. 2017): `[n, l, width]` to the
/// same shape.
#[derive(Debug)]
pub struct MultiheadAttention {
    /// `[heads * e, width]`, where a head has `e` channels.
    pub q_proj: Linear,
    /// `[kv_heads * e, width]`.
    pub k_proj: Linear,
    /// `[kv_heads * e, width]`.
    pub v_proj: Linear,
    /// `[width, heads * e]`.
    pub out_proj: Linear,
    /// Of `e` channels; only with `qk_norm`.
    pub q_norm: Option<RMSNorm>,
    /// Of `e` channels; only with `qk_norm`.
    pub k_norm: Option<RMSNorm>,
    heads: usize,
    opts: AttentionLayerOpts,
}
module!(MultiheadAttention { q_proj, k_proj, v_proj, out_proj, q_norm, k_norm; skip heads, opts });

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
        let each = opts.head_width.unwrap_or(width / heads.max(1));
        let (wide, narrow) =
            (heads.saturating_mul(each), opts.kv_heads.unwrap_or(heads).saturating_mul(each));
        let zeros = |there: bool, outputs| there.then(|| Param::new(Tensor::zeros([outputs], place)));
        // One matrix of queries, keys and values, after Glorot and Bengio.
        let bound = init::xavier_bound(narrow.saturating_mul(2).saturating_add(wide), width);
        let inward = |outputs| {
            let weight = Tensor::uniform(-bound, bound, [outputs, width], place);
            Linear::of(Param::new(weight), zeros(opts.bias, outputs))
        };
        let norm = || opts.qk_norm.map(|eps| RMSNorm::new([each], place).eps(eps));
        let out_bias = zeros(opts.out_bias.unwrap_or(opts.bias), width);
        MultiheadAttention {
            q_proj: inward(wide),
            k_proj: inward(narrow),
            v_proj: inward(narrow),
            out_proj: Linear { bias: out_bias, ..Linear::without_bias(wide, width, place) },
            q_norm: norm(),
            k_norm: norm(),
            heads,
            opts,
        }
    }

    /// The output for queries `[n, l, width]`.
    #[track_caller]
    pub fn attend(&self, x: &Tensor, input: AttentionInput) -> Tensor {
        let _line = Span::caller().enter();
        let _module = in_module_of(&self.q_proj.weight, 1);
        let memory = input.memory.as_ref().unwrap_or(x);
        let site = CallSite::here("attention");
        let attend = || -> Result<Tensor> {
            let q = self.queries(x, None);
            let [k, v] = input.keys_values.unwrap_or_else(|| self.keys_values_at(memory, None));
            let limits = self.limits();
            let mut opts = self.scores();
            if limits.is_plain() && (input.mask.is_none() || !limits.causal) {
                (opts.causal, opts.mask) = (limits.causal, input.mask);
            } else {
                let [queries, keys] = [q.dims::<4>()?[2], k.dims::<4>()?[2]];
                let at = Positions { queries, keys, start: None, starts: None };
                opts.mask = limits.with(site, &q, at, input.mask.as_ref())?;
            }
            Ok(self.out_proj.forward(&joined(&q.scaled_dot_product_attention(&k, &v, opts))))
        };
        Tensor::build(attend)
    }

    /// Keys and values `[n, kv_heads, s, e]` of positions `[n, s, width]`, for passes with
    /// [`AttentionInput::keys_values`]: a decoder looks at one source for every token.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{AttentionInput, AttentionLayerOpts, MultiheadAttention};
    /// let layer = MultiheadAttention::new(8, 2, AttentionLayerOpts::default(), ());
    /// let (x, source) = (Tensor::ones([1, 1, 8], ()), Tensor::randn([1, 5, 8], ()));
    /// let held = layer.keys_values(&source);
    /// assert_eq!(held[0].dims()?, [1, 2, 5, 4]);
    /// let once = layer.attend(&x, AttentionInput::default().keys_values(held));
    /// let again = layer.attend(&x, AttentionInput::default().memory(&source));
    /// assert!((once - again).abs().max(..).item::<f32>()? < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn keys_values(&self, memory: &Tensor) -> [Tensor; 2] {
        let _line = Span::caller().enter();
        self.keys_values_at(memory, None)
    }

    /// The output for positions `[n, l, width]` that follow those in the cache,
    /// to which they are added. A causal layer looks back only.
    ///
    /// Invalid, with the cache as it was, where the positions do not fit in
    /// it, or `n`, type or device differ.
    #[track_caller]
    pub fn attend_cached(&self, x: &Tensor, cache: &KvCache) -> Tensor {
        let _line = Span::caller().enter();
        self.attend_cached_at(x, cache, &cache.position())
    }

    /// [`attend_cached`](Self::attend_cached) where the cache's [`position`](KvCache::position) is at hand:
    /// layers whose caches are equally long turn by the same angles if they are given the same one, which
    /// are then computed once for all of them.
    ///
    /// Invalid as that is.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{AttentionLayerOpts, MultiheadAttention};
    /// let opts = AttentionLayerOpts::default().causal(true).rotary(1e4);
    /// let layers = [(); 2].map(|()| MultiheadAttention::new(8, 2, opts.clone(), ()));
    /// let caches = [0, 1].map(|i: usize| layers[i].cache(1, 4));
    /// let position = caches[0].position();
    /// let x = Tensor::ones([1, 1, 8], ());
    /// let y = layers.iter().zip(&caches).fold(x, |x, (layer, cache)| layer.attend_cached_at(&x, cache, &position));
    /// assert_eq!((y.shape()[..].to_vec(), caches[1].len()), (vec![1, 1, 8], 1));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn attend_cached_at(&self, x: &Tensor, cache: &KvCache, position: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        let _module = in_module_of(&self.q_proj.weight, 1);
        let site = CallSite::here("attend_cached");
        let attend = || -> Result<Tensor> {
            let [_, length, _] = x.dims::<3>()?;
            cache.check_room(site, &[x], length)?;
            let [q, k, v] = self.project(x, position);
            let state = cache.state_with(length).written(site, [&k, &v], position)?;
            let y = self.attend_written(site, &q, &state, position)?;
            y.check()?;
            cache.put(&state, length)?;
            Ok(y)
        };
        Tensor::build(attend)
    }

    /// Queries, keys and values `[n, heads, l, e]` of positions `[n, l, width]` that begin at `position`, a rank-0
    /// integer tensor: the first part of [`attend_cached_at`](Self::attend_cached_at). See [`KvState`].
    ///
    /// Invalid as that is.
    #[track_caller]
    pub fn project(&self, x: &Tensor, position: &Tensor) -> [Tensor; 3] {
        let _line = Span::caller().enter();
        let _module = in_module_of(&self.q_proj.weight, 1);
        let q = self.queries(x, Some(position));
        let [k, v] = self.keys_values_at(x, Some(position));
        [q, k, v]
    }

    /// The output for queries that [`project`](Self::project) gave, which look at what a cache holds since their
    /// keys and values were [appended](KvState::append): the last part of
    /// [`attend_cached_at`](Self::attend_cached_at).
    ///
    /// Invalid as that is.
    #[track_caller]
    pub fn attend_state(&self, queries: &Tensor, state: &KvState, position: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        let _module = in_module_of(&self.q_proj.weight, 1);
        let site = CallSite::here("attend_state");
        Tensor::build(|| self.attend_written(site, queries, state, position))
    }

    fn attend_written(
        &self,
        site: CallSite,
        queries: &Tensor,
        state: &KvState,
        position: &Tensor,
    ) -> Result<Tensor> {
        let [keys, values] = state.read(site, queries.dtype());
        let at = state.positions(queries.dims::<4>()?[2], position);
        let mut opts = self.scores();
        opts.mask = self.limits().with(site, queries, at, None)?;
        Ok(self.out_proj.forward(&joined(&queries.scaled_dot_product_attention(&keys, &values, opts))))
    }

    /// An empty cache for [`MultiheadAttention::attend_cached`]: `batch`
    /// sequences of up to `capacity` positions.
    #[track_caller]
    pub fn cache(&self, batch: usize, capacity: usize) -> KvCache {
        let heads = self.kv_heads();
        let weight = &self.k_proj.weight;
        let width = weight.shape().first().copied().unwrap_or(0) / heads.max(1);
        KvCache::new([batch, heads, capacity, width], (weight.device(), weight.dtype()))
    }

    /// Queries by head; positions count from `start`.
    #[track_caller]
    fn queries(&self, x: &Tensor, start: Option<&Tensor>) -> Tensor {
        match self.fits(CallSite::here("attention"), x) {
            Ok(()) => self.placed(split(&self.q_proj.forward(x), self.heads), &self.q_norm, start),
            Err(invalid) => invalid,
        }
    }

    /// Keys and values by head; positions count from `start`.
    #[track_caller]
    fn keys_values_at(&self, memory: &Tensor, start: Option<&Tensor>) -> [Tensor; 2] {
        if let Err(invalid) = self.fits(CallSite::here("attention"), memory) {
            return [invalid.clone(), invalid];
        }
        let heads = |projection: &Linear| split(&projection.forward(memory), self.kv_heads());
        [self.placed(heads(&self.k_proj), &self.k_norm, start), heads(&self.v_proj)]
    }

    /// Heads normalized, and turned by their positions.
    #[track_caller]
    fn placed(&self, heads: Tensor, norm: &Option<RMSNorm>, start: Option<&Tensor>) -> Tensor {
        let heads = match norm {
            Some(norm) => norm.forward(&heads),
            None => heads,
        };
        match &self.opts.rotary {
            Some(rotary) => rotary.turn(&heads, start),
            None => heads,
        }
    }

    fn kv_heads(&self) -> usize {
        self.opts.kv_heads.unwrap_or(self.heads)
    }

    fn limits(&self) -> PositionMask {
        let AttentionLayerOpts { causal, window, alibi, .. } = self.opts;
        PositionMask { causal, window, alibi: alibi.then_some(self.heads) }
    }

    /// Whether heads have channels as they must; else what is wrong.
    fn fits(&self, site: CallSite, x: &Tensor) -> Result<(), Tensor> {
        let extent = |part: &Linear| part.weight.shape().first().copied().unwrap_or(0);
        // A width of heads that is given need not divide the layer's.
        let given = self.opts.head_width.is_some();
        let width = extent(if given { &self.q_proj } else { &self.out_proj });
        let wrong = |expected: String, found: String| {
            Err(site.build(&[x], || Err(site.error(expected, found, &[x]))))
        };
        if self.heads == 0 || !width.is_multiple_of(self.heads) {
            return wrong(format!("heads that divide {width} channels"), format!("{} heads", self.heads));
        }
        let each = width / self.heads;
        if self.opts.rotary.as_ref().is_some_and(|rotary| rotary.width.is_none()) && !each.is_multiple_of(2) {
            let expected = "an even number of channels in a head, to turn pairs of them";
            return wrong(expected.into(), format!("{each} channels"));
        }
        Ok(())
    }

    fn scores(&self) -> AttentionOpts {
        let AttentionLayerOpts { softcap, scale, .. } = self.opts;
        let opts = AttentionOpts::default().enable_gqa(self.kv_heads() != self.heads);
        AttentionOpts { softcap, scale, ..opts }
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
