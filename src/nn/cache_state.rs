//! What a KV cache holds at one time, as tensors.

use crate::base::{DType, Result};
use crate::nn::attention_mask::Positions;
use crate::nn::cached_rows::HeldRows;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// What a [`KvCache`](crate::nn::KvCache) holds, as tensors, for layers that are [`Function`](crate::Function)s.
/// These take tensors as inputs and give others: a pass projects what comes in, writes keys and values, and attends
/// to them, each a function of its own. Writing is one by itself, so that what is held is overwritten in place.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::Function;
/// use kiln::nn::{AttentionLayerOpts, MultiheadAttention};
/// let layer = MultiheadAttention::new(8, 2, AttentionLayerOpts::default().causal(true), ());
/// let [project, write, attend] = ["project", "write", "attend"].map(Function::new);
/// let (cache, _no_grad) = (layer.cache(1, 16), kiln::no_grad());
/// let step = |x: &Tensor| -> kiln::Result<Tensor> {
///     let (position, state) = (cache.position(), cache.state(1)?);
///     let parts = project.call(&[], &[x.clone(), position.clone()], |inputs| {
///         layer.project(&inputs[0], &inputs[1]).to_vec()
///     });
///     let inputs = [vec![position.clone()], parts[1..].to_vec(), state.tensors()].concat();
///     let written = write.call(&[], &inputs, |inputs| {
///         state.with_tensors(&inputs[3..]).append(&inputs[1], &inputs[2], &inputs[0]).tensors()
///     });
///     let state = state.with_tensors(&written);
///     cache.put(&state, 1)?;
///     let inputs = [vec![position, parts[0].clone()], written].concat();
///     let read = [("read", (state.extent_read() as i64).into())];
///     let mut results = attend.call(&read, &inputs, |inputs| {
///         vec![layer.attend_state(&inputs[1], &state.with_tensors(&inputs[2..]), &inputs[0])]
///     });
///     Ok(results.remove(0))
/// };
/// let (x, plain) = (Tensor::randn([1, 1, 8], ()), layer.cache(1, 16));
/// for _ in 0..3 {
///     let error = (step(&x)? - layer.attend_cached(&x, &plain)).abs().max(..).item::<f32>()?;
///     assert!(error < 1e-6);
/// }
/// assert_eq!(cache.len(), 3);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KvState {
    pub(super) keys: HeldRows,
    pub(super) values: HeldRows,
    /// Where sequences begin, unless all begin at 0.
    pub(super) starts: Option<Tensor>,
    /// How many positions are read.
    pub(super) read: usize,
}

impl KvState {
    /// The tensors, always in the same order: what is held of keys and values, and then, if sequences begin at
    /// different positions, where they do.
    pub fn tensors(&self) -> Vec<Tensor> {
        self.keys.tensors().chain(self.values.tensors()).chain(self.starts.clone()).collect()
    }

    /// A state of the same kind that is these tensors.
    #[must_use]
    pub fn with_tensors(&self, tensors: &[Tensor]) -> KvState {
        let mut tensors = tensors.iter().cloned();
        let (keys, values) = (self.keys.with_tensors(&mut tensors), self.values.with_tensors(&mut tensors));
        let starts = self.starts.as_ref().map(|held| tensors.next().unwrap_or_else(|| held.clone()));
        KvState { keys, values, starts, read: self.read }
    }

    /// The state with keys and values `[n, heads, l, e]` from a position on, a rank-0 integer tensor.
    ///
    /// Its tensors are invalid where keys or values do not fit.
    #[must_use]
    #[track_caller]
    pub fn append(&self, keys: &Tensor, values: &Tensor, position: &Tensor) -> KvState {
        self.written(CallSite::here("append"), [keys, values], position).unwrap_or_else(|error| {
            let invalid = Tensor::build(|| Err(error));
            self.with_tensors(&vec![invalid; self.tensors().len()])
        })
    }

    /// How many positions are read: a graph depends on it.
    pub fn extent_read(&self) -> usize {
        self.read
    }

    /// The state with new keys and values `[n, heads, l, e]` from `start` on.
    ///
    /// # Errors
    /// Keys or values that do not fit.
    pub(super) fn written(&self, site: CallSite, new: [&Tensor; 2], start: &Tensor) -> Result<KvState> {
        let [keys, values] = new;
        let keys = self.keys.written(site, keys, start)?;
        let values = self.values.written(site, values, start)?;
        Ok(KvState { keys, values, ..self.clone() })
    }

    /// Keys and values as numbers.
    pub(super) fn read(&self, site: CallSite, dtype: DType) -> [Tensor; 2] {
        [&self.keys, &self.values].map(|rows| rows.read(site, self.read, dtype))
    }

    /// The positions of so many queries from `start` on.
    pub(super) fn positions<'a>(&'a self, queries: usize, start: &'a Tensor) -> Positions<'a> {
        Positions { queries, keys: self.read, start: Some(start), starts: self.starts.as_ref() }
    }
}
