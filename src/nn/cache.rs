//! KV cache: keys and values of earlier positions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::base::{DType, Result};
use crate::ir::Node;
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

impl KvCache {
    #[track_caller]
    pub(super) fn new(shape: [usize; 4], place: impl Into<Place>) -> KvCache {
        let place = place.into();
        let zeros = || Var::new(Tensor::zeros(shape, place));
        KvCache { keys: zeros(), values: zeros(), lengths: Mutex::default() }
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
    /// Forgets all positions.
    pub fn clear(&self) {
        for held in [&self.keys, &self.values] {
            // What it holds is valid, so this is too.
            let _valid = held.replace(held.get().detach());
        }
        *self.lengths() = Lengths::default();
    }

    fn lengths(&self) -> MutexGuard<'_, Lengths> {
        // Every change is whole, so a poisoned lock holds whole lengths.
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where `count` further positions start, as an argument of the plan.
    ///
    /// # Errors
    /// Too many positions.
    pub(super) fn room(&self, site: CallSite, x: &Tensor, count: usize) -> Result<Tensor> {
        let (length, capacity) = (self.len(), self.capacity());
        if length + count > capacity {
            let expected = format!("at most {} positions, to fill a cache of {capacity}", capacity - length);
            return Err(site.error(expected, count.to_string(), &[x]));
        }
        Ok(site.argument(length as i64, DType::I64, x.device()))
    }

    /// All keys and values, with new ones `[n, heads, l, e]` from `start` on.
    ///
    /// # Errors
    /// Keys or values that do not fit. The cache is then as it was.
    pub(super) fn append(
        &self,
        site: CallSite,
        keys: &Tensor,
        values: &Tensor,
        start: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (count, length) = (keys.dims::<4>()?[2], self.len());
        let with = |held: &Var, new: &Tensor| -> Result<Tensor> {
            let all = written_at(site, &held.get(), 2, start, new);
            all.check().map(|_| all)
        };
        let (keys, values) = (with(&self.keys, keys)?, with(&self.values, values)?);
        self.keys.set(keys.clone())?;
        self.values.set(values.clone())?;
        self.lengths().add(&keys, length + count);
        Ok((keys, values))
    }

    /// The first positions that a pass reads: those that are there, and up to a quarter more, so that few
    /// plans serve all lengths.
    pub(super) fn extent_read(&self) -> usize {
        let length = self.len().max(LEAST_READ);
        let step = (length.next_power_of_two() / 8).max(LEAST_READ);
        length.next_multiple_of(step).min(self.capacity())
    }
}

/// Positions that a pass reads at least, if the cache has room for them.
const LEAST_READ: usize = 64;

/// Where `count` positions from `start` on look among the first `read` of a cache: `[count, read]`. At all
/// that are there, or at those before and themselves.
pub(super) fn visible(start: &Tensor, count: usize, read: usize, causal: bool) -> Tensor {
    let place = (start.device(), DType::I64);
    let all = Tensor::arange(0, read as i64, 1, place).unsqueeze(0);
    let last = if causal {
        Tensor::arange(0, count as i64, 1, place).unsqueeze(1)
    } else {
        Tensor::full([count, 1], count as i64 - 1, place)
    };
    all.le(&(last + start))
}
