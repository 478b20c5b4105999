//! KV cache: keys and values of earlier positions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::base::{DType, Result};
use crate::ir::Node;
use crate::nn::attention_mask::{PositionMask, Positions};
use crate::tensor::compose::CallSite;
use crate::tensor::slice_update::written_at;
use crate::tensor::var::Var;
use crate::tensor::{Place, Tensor};

/// Keys and values of the positions so far, so that a new position costs one
/// pass for itself alone. How many there are is an argument of the plan:
/// longer sequences need no new one.
///
/// Gradients look through it to earlier positions, whose graphs it keeps until
/// they are pulled back or the cache is cleared; under [`no_grad`](crate::no_grad)
/// it keeps none.
#[derive(Debug)]
pub struct KvCache {
    /// `[n, heads, capacity, e]`.
    keys: Var,
    /// `[n, heads, capacity, e]`.
    values: Var,
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
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::nn::KvCache;
    /// let cache = KvCache::new([1, 2, 16, 4], (Device::cpu(), DType::F16));
    /// assert_eq!((cache.len(), cache.capacity()), (0, 16));
    /// ```
    #[track_caller]
    pub fn new(shape: [usize; 4], place: impl Into<Place>) -> KvCache {
        let place = place.into();
        let zeros = || Var::new(Tensor::zeros(shape, place));
        KvCache { keys: zeros(), values: zeros(), lengths: Mutex::default(), starts: Mutex::default() }
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
        self.check_room(site, keys, length)?;
        let start = site.argument(self.len() as i64, DType::I64, keys.device());
        let (keys, values) = self.append_at(site, keys, values, &start)?;
        let starts = self.starts();
        let keys_read = keys.dims::<4>()?[2];
        let at = Positions { queries: length, keys: keys_read, start: Some(&start), starts: starts.as_ref() };
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
        let (site, keys) = (CallSite::here("set_starts"), self.keys.get());
        starts.check()?;
        if starts.shape()[..] != keys.shape()[..1] || !starts.dtype().is_int() {
            let expected = format!("integers of shape [{}]", keys.shape()[0]);
            return Err(site.error(expected, format!("{} {}", starts.dtype(), starts.shape()), &[starts]));
        }
        let starts = site.cast(&starts.detach().to(keys.device()), DType::I64);
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
        CallSite::here("position").argument(self.len() as i64, DType::I64, self.keys.get().device())
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
        let first = self.len();
        let held = |var: &Var| Var::new(var.get());
        let lengths = Mutex::new(Lengths { first, latest: Vec::new() });
        let starts = Mutex::new(self.starts());
        KvCache { keys: held(&self.keys), values: held(&self.values), lengths, starts }
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.lengths().at(&self.keys.get())
    }
    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Most positions it can hold.
    pub fn capacity(&self) -> usize {
        self.keys.get().shape().get(2).copied().unwrap_or(0)
    }
    /// Forgets all positions, and where sequences begin.
    pub fn clear(&self) {
        for held in [&self.keys, &self.values] {
            // What it holds is valid, so this is too.
            let _valid = held.replace(held.get().detach());
        }
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
    pub(super) fn check_room(&self, site: CallSite, x: &Tensor, count: usize) -> Result<()> {
        let (length, capacity) = (self.len(), self.capacity());
        if length + count > capacity {
            let expected = format!("at most {} positions, to fill a cache of {capacity}", capacity - length);
            return Err(site.error(expected, count.to_string(), &[x]));
        }
        Ok(())
    }

    /// The keys and values that are there, with new ones `[n, heads, l, e]` from `start` on.
    ///
    /// # Errors
    /// Keys or values that do not fit. The cache is then as it was.
    pub(super) fn append_at(
        &self,
        site: CallSite,
        keys: &Tensor,
        values: &Tensor,
        start: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (count, length) = (keys.dims::<4>()?[2], self.len());
        let with = |held: &Var, new: &Tensor| -> Result<Tensor> {
            let held = held.get();
            let [_, heads, _, width] = held.dims::<4>()?;
            let fits = new.shape()[..] == [held.shape()[0], heads, count, width];
            if !fits {
                let expected = format!("[{}, {heads}, {count}, {width}]", held.shape()[0]);
                return Err(site.error(expected, new.shape().to_string(), &[new]));
            }
            let all = written_at(site, &held, 2, start, &new.to_dtype(held.dtype()));
            all.check().map(|()| all)
        };
        let dtype = keys.dtype();
        let (keys, values) = (with(&self.keys, keys)?, with(&self.values, values)?);
        self.keys.set(keys.clone())?;
        self.values.set(values.clone())?;
        self.lengths().add(&keys, length + count);
        let read = self.extent_read();
        let [keys, values] = [keys, values].map(|all| all.narrow(2, 0, read).to_dtype(dtype));
        Ok((keys, values))
    }

    /// How many positions a pass reads: those that are there, and up to a quarter more, so that few
    /// plans serve all lengths.
    fn extent_read(&self) -> usize {
        let length = self.len().max(LEAST_READ);
        let step = (length.next_power_of_two() / 8).max(LEAST_READ);
        length.next_multiple_of(step).min(self.capacity())
    }
}

/// Positions that a pass reads at least, if the cache has room for them.
const LEAST_READ: usize = 64;
