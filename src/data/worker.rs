//! Worker threads of a loader, and their shared state.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::base::{Device, Error, Result, Span};
use crate::data::batch::Batch;
use crate::data::dataset::{Dataset, LoadError};
use crate::data::order::EpochOrder;
use crate::data::scopes::{ThreadScopes, with_generator};
use crate::ir::Node;
use crate::plan;
use crate::runtime::trace::{self, Activity};

/// The making of an epoch's batches.
pub struct EpochWork<D: Dataset> {
    pub data: Arc<D>,
    pub order: EpochOrder,
    pub scopes: ThreadScopes,
    /// The line that started the epoch.
    pub span: Span,
    /// Batches that may be finished or begun before they are requested.
    pub ahead: usize,
    /// Whether batches go to pinned memory.
    pub pinned: bool,
    pub state: Mutex<WorkerState<D::Batch>>,
    pub changed: Condvar,
}

/// How far the making is.
pub struct WorkerState<B> {
    /// The next batch to be begun.
    pub next: usize,
    /// The next batch to be handed out.
    pub handed_out: usize,
    /// Whether the consumer is gone.
    pub stopped: bool,
    pub done: BTreeMap<usize, Result<B>>,
}

impl<D: Dataset> EpochWork<D> {
    pub fn lock(&self) -> MutexGuard<'_, WorkerState<D::Batch>> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes batches until there are no more to make.
    pub fn run(&self) {
        while let Some(number) = self.claim() {
            let batch = self.make(number);
            let mut state = self.lock();
            state.done.insert(number, batch);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next batch to make, once it may be begun.
    fn claim(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.next >= self.order.batches {
                return None;
            }
            if state.next < state.handed_out.saturating_add(self.ahead) {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A batch, its tensors computed; or what went wrong, a panic included.
    pub fn make(&self, number: usize) -> Result<D::Batch> {
        let _span = trace::span(Activity::Batch).at(self.span);
        let make = || -> Result<D::Batch, LoadError> {
            let batch = self.data.batch(&self.order.samples(number)?)?;
            let batch = computed(batch, self.span)?;
            Ok(if self.pinned { pinned(batch)? } else { batch })
        };
        let generator = self.order.generator(number);
        let made = catch_unwind(AssertUnwindSafe(|| self.scopes.enter(|| with_generator(generator, make))));
        match made {
            Ok(made) => made.map_err(|error| named(number, error, self.span)),
            Err(panic) => {
                let message = format!("panicked: {}", text(&*panic));
                Err(Error::Data { batch: number, message, span: self.span })
            }
        }
    }
}

/// The library's own errors as they are, others with the batch's number; with the loader's line.
fn named(batch: usize, error: LoadError, span: Span) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error.at(span),
        Err(other) => Error::Data { batch, message: other.to_string(), span },
    }
}

/// What a panic said.
fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// The batch, its tensors computed together.
fn computed<B: Batch>(batch: B, span: Span) -> Result<B> {
    let mut nodes: Vec<Arc<Node>> = Vec::new();
    let mut failure = None;
    let batch = batch.map(&mut |x| {
        match x.node() {
            Ok(node) if node.ty().device.is_meta() => {}
            Ok(node) => nodes.push(node.clone()),
            Err(error) => failure = Some(error),
        }
        x.clone()
    });
    match failure {
        Some(error) => Err(error),
        None => plan::realize(&nodes, span).map(|()| batch),
    }
}

/// The batch with what is in host memory pinned.
fn pinned<B: Batch>(batch: B) -> Result<B> {
    let mut failed = None;
    let batch = batch.map(&mut |x| {
        if x.device() != Device::cpu() {
            return x.clone();
        }
        x.pin_memory().unwrap_or_else(|error| {
            failed = Some(error);
            x.clone()
        })
    });
    failed.map_or(Ok(batch), Err)
}
