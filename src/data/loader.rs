//! Loaders: batches of a dataset, made ahead by threads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::base::{OpError, Result, Span, process};
use crate::data::dataset::Dataset;
use crate::data::distributed_sampler::DistributedSampler;
use crate::data::order::EpochOrder;
use crate::data::sampler::{Sampler, SubsetSampler};
use crate::data::scopes::ThreadScopes;
use crate::data::worker::{EpochWork, WorkerState};
use crate::runtime::trace::{self, Activity};
use crate::tensor::options::options;
use crate::tensor::random::Generator;

options! {
    /// Options of [`DataLoader`].
    LoaderOpts {
        /// Samples in a batch.
        batch_size: usize = 1;
        /// Another order of the samples in every epoch.
        shuffle: bool = false;
        /// What orders, and random tensors drawn while batches are made,
        /// follow from, with the epoch.
        seed: u64 = 0;
        /// Which samples an epoch has, in which order; instead of `shuffle`.
        sampler: Option<Arc<dyn Sampler>> = None, impl Sampler + 'static => shared;
        /// Leave out a last batch of fewer samples.
        drop_last: bool = false;
        /// Threads that make batches, 1,024 at most; the caller's own if 0. What is made
        /// does not depend on it.
        workers: usize = 1;
        /// Batches that are begun or finished before they are requested; at
        /// least 1 with workers.
        prefetch: usize = 2;
        /// Put batches into pinned memory ([`crate::Tensor::pin_memory`]), so that
        /// sending them to a device does not wait.
        pin_memory: bool = false;
    }
}

fn shared(sampler: impl Sampler + 'static) -> Option<Arc<dyn Sampler>> {
    Some(Arc::new(sampler))
}

/// More threads than any machine has cores would only wait for each other.
const MOST_WORKERS: usize = 1024;

/// Batches of a dataset, made by worker threads ahead of their use, handed out
/// in order.
#[derive(Debug)]
pub struct DataLoader<D> {
    data: Arc<D>,
    opts: LoaderOpts,
}

impl<D: Dataset + 'static> DataLoader<D> {
    /// A loader of this dataset.
    ///
    /// # Errors
    /// A batch size of 0, more than 1,024 workers, a sampler beside `shuffle`.
    #[track_caller]
    pub fn new(data: D, opts: LoaderOpts) -> Result<DataLoader<D>> {
        let span = Span::caller();
        let refused = |expected: String, found: String| {
            Err(OpError::new("DataLoader::new", span, expected, found).into())
        };
        if opts.batch_size == 0 {
            return refused("a batch size of at least 1".into(), "0".into());
        }
        if opts.workers > MOST_WORKERS {
            return refused(format!("at most {MOST_WORKERS} workers"), opts.workers.to_string());
        }
        if let Some(sampler) = opts.sampler.as_ref().filter(|_| opts.shuffle) {
            return refused("a sampler or shuffle".into(), format!("shuffle and {sampler:?}"));
        }
        Ok(DataLoader { data: Arc::new(data), opts })
    }

    /// A loader of one of several ranks' part of the same dataset, which draws random numbers of its own. With
    /// `equal`, all ranks have equally many samples ([`DistributedSampler`]); otherwise each sample is one
    /// rank's. `None` for a loader with a sampler, which says already what this rank goes through.
    ///
    /// # Errors
    /// A rank that is none of them.
    ///
    /// # Examples
    /// ```
    /// use kiln::data::{DataLoader, Items, LoaderOpts};
    /// let loader = DataLoader::new(Items::new(5, |i| Ok(i as f32)), LoaderOpts::default().batch_size(8))?;
    /// let of_rank_1 = |equal| -> kiln::Result<Vec<f32>> {
    ///     let part = loader.part(2, 1, equal)?.expect("no sampler");
    ///     part.epoch(0).next().expect("a batch")?.to_vec()
    /// };
    /// assert_eq!(of_rank_1(true)?, [1.0, 3.0, 0.0]);
    /// assert_eq!(of_rank_1(false)?, [1.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn part(&self, ranks: usize, rank: usize, equal: bool) -> Result<Option<DataLoader<D>>> {
        let sampler = DistributedSampler::new(ranks, rank)?;
        if self.opts.sampler.is_some() {
            return Ok(None);
        }
        let LoaderOpts { shuffle, seed, drop_last, .. } = self.opts;
        let seed_of_rank = Generator::resume(seed, rank as u64).split().seed();
        let opts = self.opts.clone().shuffle(false).seed(seed_of_rank);
        let opts = if equal {
            opts.sampler(sampler.shuffle(shuffle).seed(seed).drop_last(drop_last))
        } else {
            let own: Vec<usize> = (rank..self.data.len()).step_by(ranks).collect();
            opts.sampler(SubsetSampler::new(own).shuffle(false))
        };
        Ok(Some(DataLoader { data: self.data.clone(), opts }))
    }

    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.data
    }

    /// Number of batches in an epoch.
    pub fn len(&self) -> usize {
        let (samples, size) = (self.data.len(), self.opts.batch_size);
        let samples = self.opts.sampler.as_ref().map_or(samples, |sampler| sampler.count(samples));
        if self.opts.drop_last { samples / size } else { samples.div_ceil(size) }
    }

    /// Whether an epoch has no batches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batches of an epoch. The same number gives the same batches.
    #[track_caller]
    pub fn epoch(&self, epoch: u64) -> Batches<D> {
        self.epoch_from(epoch, 0)
    }

    /// The batches of an epoch but the first `start`, which are not made: to
    /// continue where a run was stopped.
    ///
    /// Workers have the context, default device and gradient mode that this
    /// thread has now.
    #[track_caller]
    pub fn epoch_from(&self, epoch: u64, start: usize) -> Batches<D> {
        let LoaderOpts { batch_size, shuffle, seed, workers, prefetch, pin_memory, .. } = self.opts;
        let (samples, batches) = (self.data.len(), self.len());
        let order = match &self.opts.sampler {
            Some(sampler) => EpochOrder::sampled(samples, batch_size, batches, seed, epoch, sampler.as_ref()),
            None => EpochOrder::new(samples, batch_size, batches, seed, epoch, shuffle),
        };
        let work = Arc::new(EpochWork {
            data: self.data.clone(),
            order,
            scopes: ThreadScopes::here(),
            span: Span::caller(),
            ahead: prefetch.max(1),
            pinned: pin_memory,
            state: Mutex::new(WorkerState {
                next: start,
                handed_out: start,
                stopped: false,
                done: BTreeMap::new(),
            }),
            changed: Condvar::new(),
        });
        let spawn = |number: usize| {
            process::started();
            let work = work.clone();
            Builder::new().name(format!("kiln-loader-{number}")).spawn(move || work.run())
        };
        // Where the system gives no thread, fewer will do, or the caller's.
        let workers = workers.min(self.len().saturating_sub(start));
        let threads = (0..workers).map_while(|number| spawn(number).ok()).collect();
        Batches { work, threads }
    }
}

/// The batches of an epoch, in order. An error takes the place of its batch;
/// those after it follow. Dropping it ends the threads and waits for them.
pub struct Batches<D: Dataset> {
    work: Arc<EpochWork<D>>,
    threads: Vec<JoinHandle<()>>,
}

impl<D: Dataset> Batches<D> {
    /// Waits for no thread that a fork has left behind.
    fn forget_other_process(&mut self) {
        if process::is_forked() {
            std::mem::forget(std::mem::take(&mut self.threads));
        }
    }
}

impl<D: Dataset> Iterator for Batches<D> {
    type Item = Result<D::Batch>;

    fn next(&mut self) -> Option<Result<D::Batch>> {
        self.forget_other_process();
        let mut state = self.work.lock();
        let number = state.handed_out;
        if number >= self.work.order.batches {
            return None;
        }
        if self.threads.is_empty() {
            state.handed_out += 1;
            drop(state);
            return Some(self.work.make(number));
        }
        let _span = trace::span(Activity::Wait).at(self.work.span).named(|| "a batch".into());
        loop {
            if let Some(batch) = state.done.remove(&number) {
                state.handed_out += 1;
                drop(state);
                self.work.changed.notify_all();
                return Some(batch);
            }
            state = self.work.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.work.order.batches.saturating_sub(self.work.lock().handed_out);
        (left, Some(left))
    }
}

impl<D: Dataset> ExactSizeIterator for Batches<D> {}

impl<D: Dataset> Drop for Batches<D> {
    fn drop(&mut self) {
        self.forget_other_process();
        if self.threads.is_empty() {
            return;
        }
        self.work.lock().stopped = true;
        self.work.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has become its batch's error.
            let _ = thread.join();
        }
    }
}

impl<D: Dataset> fmt::Debug for Batches<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batches({} to come, {} threads)", self.len(), self.threads.len())
    }
}
