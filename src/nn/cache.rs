//! KV cache: keys and values of earlier positions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::base::{DType, Result, Span};
use crate::ir::Node;
use crate::nn::attention_mask::PositionMask;
use crate::nn::cache_state::KvState;
use crate::nn::cached_rows::CachedRows;
use crate::tensor::compose::CallSite;
use crate::tensor::{Place, Tensor, read};

/// Keys and values of the positions so far, so that a new position costs one
/// pass for itself alone. How many there are is an argument of the plan:
/// longer sequences need no new one.
///
/// Gradients look through it to earlier positions, whose graphs it keeps until
/// they are pulled back or the cache is cleared; under [`no_grad`](crate::no_grad)
/// it keeps none.
#[derive(Debug)]
pub struct KvCache {
    keys: CachedRows,
    values: CachedRows,
    lengths: Mutex<Lengths>,
    /// Where sequences begin, `[n]`, unless all begin at 0.
    starts: Mutex<Option<Tensor>>,
}

/// How many positions the cache had at each of the latest keys, of which it holds one: the last, or one
/// before if those could not be computed.
#[derive(Debug, Default)]
struct Lengths {
    /// At keys that are none of the latest.
    first: usize,
    latest: Vec<(Weak<Node>, usize)>,
}

impl Lengths {
    fn at(&self, keys: &Tensor) -> usize {
        let is_held = |node: &Weak<Node>| keys.peek().is_some_and(|keys| node.as_ptr() == Arc::as_ptr(keys));
        self.latest.iter().rev().find(|(node, _)| is_held(node)).map_or(self.first, |(_, length)| *length)
    }

    /// What falls back later falls back to no more than so many.
    fn truncate(&mut self, length: usize) {
        self.first = self.first.min(length);
        self.latest.iter_mut().for_each(|(_, held)| *held = (*held).min(length));
    }

    fn add(&mut self, keys: &Tensor, length: usize) {
        // What is computed is never fallen back from.
        let computed =
            |(node, _): &(Weak<Node>, usize)| node.upgrade().is_some_and(|node| node.value().is_some());
        if let Some(last) = self.latest.iter().rposition(computed) {
            self.first = self.latest[last].1;
            self.latest.drain(..=last);
        }
        self.latest.extend(keys.peek().map(|keys| (Arc::downgrade(keys), length)));
    }
}

/// What a [`KvCache`] holds after an append.
#[derive(Clone, Debug)]
pub struct CachedKeys {
    /// Keys, `[n, heads, s, e]`: all that are there, and up to a quarter more that are not, so that few
    /// plans serve all lengths.
    pub keys: Tensor,
    /// Values, of the same shape.
    pub values: Tensor,
    /// Where the appended positions may look, `Bool` `[l, s]`, or `[n, 1, l, s]` if sequences begin at
    /// [different positions](KvCache::set_starts): at themselves and what was there before.
    pub mask: Tensor,
}

impl KvCache {
    /// An empty cache of `[n, heads, capacity, e]`: n sequences of up to `capacity` positions. Keys and
    /// values are kept in the type of `place`, and read in that of what was appended.
    ///
    /// `U8` keeps codes of 8 bits with a scale in `F32` for each position and head, a little more than a
    /// quarter of what `F32` takes: a number is off by at most 1/254 of the largest beside it. Rounding
    /// passes no gradient, so appending what is tracked is then an error; generate under
    /// [`no_grad`](crate::no_grad). transformers: `QuantizedCache`. Appending to a cache of another type that
    /// is no float is an error, too.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::KvCache;
    /// let cache = KvCache::new([1, 2, 16, 4], (Device::cpu(), DType::F16));
    /// assert_eq!((cache.len(), cache.capacity()), (0, 16));
    ///
    /// let cache = KvCache::new([1, 1, 16, 3], DType::U8);
    /// let x = Tensor::from([-2.54f32, 0.111, 1.27]).reshape([1, 1, 1, 3]);
    /// let read = cache.append(&x, &x)?.keys.i((0, 0, 0)).to_vec::<f32>()?;
    /// assert!((read[0] + 2.54).abs() < 1e-6 && (read[1] - 0.12).abs() < 1e-6); // steps of 0.02
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new(shape: [usize; 4], place: impl Into<Place>) -> KvCache {
        let (_line, place) = (Span::caller().enter(), place.into());
        let rows = || CachedRows::new(shape, place);
        KvCache { keys: rows(), values: rows(), lengths: Mutex::default(), starts: Mutex::default() }
    }

    /// A cache with the same positions that keeps them in another type, as [`new`](Self::new) has them: what
    /// layers make, [`MultiheadAttention::cache`](crate::nn::MultiheadAttention::cache), in the type you
    /// want.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::{AttentionLayerOpts, MultiheadAttention};
    /// let layer = MultiheadAttention::new(8, 2, AttentionLayerOpts::default(), ());
    /// let cache = layer.cache(1, 16).to_dtype(DType::U8);
    /// let _no_grad = kiln::no_grad();
    /// let y = layer.attend_cached(&Tensor::ones([1, 3, 8], ()), &cache);
    /// assert_eq!((y.dims()?, cache.len()), ([1, 3, 8], 3));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> KvCache {
        let site = CallSite::here("to_dtype");
        if !self.is_empty() {
            return self.with(|rows| rows.to_dtype(site, dtype));
        }
        let _line = site.span.enter();
        let place = Place { device: Some(self.keys.device()), dtype: Some(dtype) };
        self.with(|rows| CachedRows::new(rows.extents(), place))
    }

    /// A cache with the same positions, kept in other rows.
    fn with(&self, rows: impl Fn(&CachedRows) -> CachedRows) -> KvCache {
        let lengths = Mutex::new(Lengths { first: self.len(), latest: Vec::new() });
        let starts = Mutex::new(self.starts());
        KvCache { keys: rows(&self.keys), values: rows(&self.values), lengths, starts }
    }

    /// Adds keys and values, `[n, heads, l, e]`, and gives all, for an attention of your own. Writing costs
    /// what is written, unless somebody else holds what was there ([`fork`](Self::fork)).
    ///
    /// # Errors
    /// Keys or values that do not fit, with the cache as it was.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::KvCache;
    /// let cache = KvCache::new([1, 1, 8, 2], ());
    /// let (q, k, v) = (Tensor::ones([1, 1, 3, 2], ()), Tensor::ones([1, 1, 3, 2], ()), Tensor::ones([1, 1, 3, 2], ()));
    /// let held = cache.append(&k, &v)?;
    /// let y = q.scaled_dot_product_attention(&held.keys, &held.values, AttentionOpts::default().mask(&held.mask));
    /// assert_eq!((cache.len(), y.sum(..).item::<f32>()?), (3, 6.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn append(&self, keys: &Tensor, values: &Tensor) -> Result<CachedKeys> {
        let site = CallSite::here("append");
        let length = keys.dims::<4>()?[2];
        self.check_room(site, &[keys], length)?;
        let start = site.argument(self.len() as i64, DType::I64, keys.device());
        let state = self.state_with(length).written(site, [keys, values], &start)?;
        self.put(&state, length)?;
        let [keys, values] = state.read(site, keys.dtype());
        let at = state.positions(length, &start);
        let causal = PositionMask { causal: true, ..PositionMask::default() };
        match causal.with(site, &keys, at, None)? {
            Some(mask) => Ok(CachedKeys { keys, values, mask }),
            None => Err(site.error("a causal mask", "none", &[&keys])),
        }
    }

    /// Says where each of the `n` sequences begins, `[n]` of integers: what is before is padding, at which no
    /// later position looks. So texts of different lengths are one batch, those that are shorter with padding
    /// at their left. Distances between positions stay, so rotary positions and ALiBi need nothing else.
    ///
    /// # Errors
    /// Another shape or type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::KvCache;
    /// let cache = KvCache::new([2, 1, 8, 2], ());
    /// cache.set_starts(&Tensor::from([0i64, 2]))?;
    /// let held = cache.append(&Tensor::ones([2, 1, 3, 2], ()), &Tensor::ones([2, 1, 3, 2], ()))?;
    /// // The last position of the second sequence sees itself alone: two are padding.
    /// assert_eq!(held.mask.i((1, 0, 2)).to_vec::<bool>()?[..4], [false, false, true, false]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn set_starts(&self, starts: &Tensor) -> Result<()> {
        let starts = self.number_for_each(CallSite::here("set_starts"), starts)?;
        *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = Some(starts);
        Ok(())
    }

    /// Where sequences begin, unless all begin at 0.
    pub(super) fn starts(&self) -> Option<Tensor> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many positions there are, as a rank-0 integer tensor for [`Rotary::turn`](crate::nn::Rotary::turn):
    /// an argument of plans, so that no position needs one of its own.
    ///
    /// # Examples
    /// ```
    /// # use kiln::nn::KvCache;
    /// assert_eq!(KvCache::new([1, 1, 8, 2], ()).position().item::<i64>()?, 0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn position(&self) -> Tensor {
        CallSite::here("position").argument(self.len() as i64, DType::I64, self.keys.device())
    }

    /// Forgets all positions but the first `length`, as if the others had not been added: what a rejected
    /// draft or a new end of a common beginning needs. Nothing is copied.
    ///
    /// # Examples
    /// ```
    /// # use kiln::nn::KvCache;
    /// # use kiln::tensor::Tensor;
    /// let cache = KvCache::new([1, 1, 8, 2], ());
    /// cache.append(&Tensor::ones([1, 1, 5, 2], ()), &Tensor::ones([1, 1, 5, 2], ()))?;
    /// cache.truncate(2);
    /// assert_eq!(cache.len(), 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn truncate(&self, length: usize) {
        self.lengths().truncate(length);
    }

    /// A cache that begins with the same positions. They share memory until one of the two is appended
    /// to, which copies.
    ///
    /// # Examples
    /// ```
    /// # use kiln::nn::KvCache;
    /// # use kiln::tensor::Tensor;
    /// let cache = KvCache::new([1, 1, 8, 2], ());
    /// let position = Tensor::ones([1, 1, 1, 2], ());
    /// cache.append(&position, &position)?;
    /// let other = cache.fork();
    /// other.append(&position, &position)?;
    /// assert_eq!((cache.len(), other.len()), (1, 2));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn fork(&self) -> KvCache {
        self.with(CachedRows::fork)
    }

    /// Lets each sequence go on from another one: sequence i from `rows[i]`, integers of shape `[n]`. Beam search
    /// needs it. What it holds is copied once.
    ///
    /// # Errors
    /// Another shape or type of `rows`, or the error recorded in it. The cache is then as it was.
    ///
    /// # Examples
    /// ```
    /// # use kiln::nn::KvCache;
    /// # use kiln::tensor::Tensor;
    /// let cache = KvCache::new([2, 1, 8, 1], ());
    /// let new = Tensor::from([1.0f32, 2.0]).reshape([2, 1, 1, 1]);
    /// cache.append(&new, &new)?;
    /// cache.reorder(&Tensor::from([1i64, 1]))?;
    /// let held = cache.append(&new, &new)?.keys.i((.., 0, ..2, 0));
    /// assert_eq!(held.to_vec::<f32>()?, [2.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn reorder(&self, rows: &Tensor) -> Result<()> {
        let site = CallSite::here("reorder");
        let (rows, _line) = (self.number_for_each(site, rows)?, site.span.enter());
        let state = self.state_with(0);
        let [keys, values] = [&state.keys, &state.values].map(|held| held.of_sequences(&rows));
        let starts = state.starts.as_ref().map(|starts| starts.index_select(0, &rows));
        self.put(&KvState { keys, values, ..state }, 0)?;
        *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = starts;
        Ok(())
    }

    /// An integer for each sequence, as `I64` on the cache's device.
    fn number_for_each(&self, site: CallSite, numbers: &Tensor) -> Result<Tensor> {
        let [rows, ..] = self.keys.extents();
        numbers.check()?;
        if numbers.shape()[..] != [rows] || !numbers.dtype().is_int() {
            let expected = format!("integers of shape [{rows}]");
            let found = format!("{} {}", numbers.dtype(), numbers.shape());
            return Err(site.error(expected, found, &[numbers]));
        }
        Ok(site.cast(&numbers.detach().to(self.keys.device()), DType::I64))
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.lengths().at(&self.keys.held())
    }
    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Most positions it can hold.
    pub fn capacity(&self) -> usize {
        self.keys.extents()[2]
    }
    /// Forgets all positions, and where sequences begin.
    pub fn clear(&self) {
        [&self.keys, &self.values].into_iter().for_each(CachedRows::detach);
        *self.lengths() = Lengths::default();
        *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn lengths(&self) -> MutexGuard<'_, Lengths> {
        // Every change is whole, so a poisoned lock holds whole lengths.
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for `count` further positions.
    ///
    /// # Errors
    /// Too many positions.
    pub(super) fn check_room(&self, site: CallSite, operands: &[&Tensor], count: usize) -> Result<()> {
        let (length, capacity) = (self.len(), self.capacity());
        if length + count > capacity {
            let expected = format!("at most {} positions, to fill a cache of {capacity}", capacity - length);
            return Err(site.error(expected, count.to_string(), operands));
        }
        Ok(())
    }

    /// What it holds, to be written at and read without it ([`KvState`]), with `count` further positions to come;
    /// [`put`](Self::put) puts them in.
    ///
    /// # Errors
    /// Too many positions.
    #[track_caller]
    pub fn state(&self, count: usize) -> Result<KvState> {
        self.check_room(CallSite::here("state"), &[], count)?;
        Ok(self.state_with(count))
    }

    /// The same where there is room.
    pub(super) fn state_with(&self, count: usize) -> KvState {
        let (keys, values) = (self.keys.content(), self.values.content());
        KvState { keys, values, starts: self.starts(), read: self.extent_read(self.len() + count) }
    }

    /// Holds a state with `count` further positions from now on, of which [`state`](Self::state) gave the state
    /// before.
    ///
    /// # Errors
    /// An error recorded in it, or tensors that do not fit. The cache is then as it was.
    #[track_caller]
    pub fn put(&self, state: &KvState, count: usize) -> Result<()> {
        let length = self.len() + count;
        state.tensors().iter().try_for_each(Tensor::check)?;
        self.keys.set(&state.keys)?;
        self.values.set(&state.values)?;
        self.lengths().add(&state.keys.held, length);
        Ok(())
    }

    /// How many positions a pass reads of so many: those that are there, and up to a quarter more, so that few
    /// plans serve all lengths.
    fn extent_read(&self, length: usize) -> usize {
        let length = length.max(LEAST_READ);
        let step = (length.next_power_of_two() / 8).max(LEAST_READ);
        length.next_multiple_of(step).min(self.capacity())
    }
}

/// Computes what caches hold, in one plan.
///
/// # Errors
/// As [`Tensor::realize`].
#[track_caller]
pub(super) fn realize(caches: &[KvCache]) -> Result<()> {
    let all: Vec<Tensor> =
        caches.iter().flat_map(|cache| [&cache.keys, &cache.values]).map(CachedRows::held).collect();
    read::realize(&all.iter().collect::<Vec<_>>())
}

/// Positions that a pass reads at least, if the cache has room for them.
const LEAST_READ: usize = 64;
