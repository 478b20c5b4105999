//! Data parallelism: one model on every rank, each with data of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::{DType, Error, Result, Span};
use crate::dist::group::Group;
use crate::grad::without_grad;
use crate::ir::collective::{CollectiveKind, Reduce};
use crate::ir::history::GradReducer;

use crate::nn::{Buffer, Found, Layer, Module, ModuleExt, Param, Visitor};
use crate::plan;
use crate::tensor::Tensor;
use crate::tensor::collective::collective;
use crate::tensor::compose::CallSite;
use crate::tensor::options::options;
use crate::tensor::pack::{Pack, alike};

mod agreement;
mod reducer;

use agreement::agree;
use reducer::Reducer;

/// What happens to buffers, such as running statistics, when a model that trains goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSync {
    /// All ranks take those of rank 0.
    Broadcast,
    /// All ranks take the average of floats, and rank 0's of other types.
    Average,
    /// Each rank keeps its own.
    Keep,
}

options! {
    /// Options of [`Ddp`].
    DdpOpts {
        /// Bytes of gradients that are averaged together.
        bucket_bytes: usize = 25 << 20;
        /// Bytes of the first of these buckets.
        first_bucket_bytes: usize = 1 << 20;
        /// What happens to buffers. PyTorch: `broadcast_buffers`.
        buffers: BufferSync = BufferSync::Broadcast;
        /// The type in which gradients go between ranks, such as `BF16`; their own if `None`. PyTorch:
        /// `bf16_compress_hook`.
        compress: Option<DType> = None, DType => Some;
    }
}

impl From<()> for DdpOpts {
    fn from((): ()) -> DdpOpts {
        DdpOpts::default()
    }
}

/// A model that every rank of a group trains on its own part of the data, as one process would on all of it.
///
/// `backward` leaves the average of all ranks' gradients, in the plan of the step. So every rank takes the
/// same step, and parameters stay the same, bit by bit. What looks at gradients sees those averages:
/// clipping is by the norm of all, and a [`GradScaler`](crate::optim::GradScaler) skips a step on all ranks
/// or on none. A parameter that a rank has not used counts as having gradient zero there.
///
/// Each rank's loss should be the mean over its samples, equally many on all ranks; then the average is the
/// mean over all. All ranks run the same steps. PyTorch: `DistributedDataParallel`.
///
/// # Examples
/// ```
/// use kiln::dist::{self, Ddp};
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::optim::{Optimizer, Sgd, SgdOpts};
/// use kiln::prelude::*;
/// let weights = dist::spawn(2, |group| {
///     let model = Ddp::new(Linear::new(3, 1, ()), &group, ())?;
///     let mut optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.1));
///     for step in 0..3 {
///         // Other data on each rank.
///         let x = Tensor::full([4, 3], (group.rank() + step) as f32, ());
///         optimizer.zero_grad();
///         (model.forward(&x) - 1.0).square().mean(..).backward()?;
///         optimizer.step()?;
///     }
///     model.module().weight.get().to_vec::<f32>()
/// })?;
/// assert_eq!(weights[0], weights[1]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct Ddp<M> {
    module: M,
    group: Group,
    reducer: Arc<Reducer>,
    buffers: Vec<Buffer>,
}

impl<M: Module> Ddp<M> {
    /// A model whose parameters and buffers are those of rank 0 from now on, and whose gradients are
    /// averages.
    ///
    /// # Errors
    /// Models that differ between ranks in a parameter's or a buffer's name, shape or type, or in which part of
    /// a parameter they have; a bucket of 0 bytes, or a `compress` that is no floating type; what computing the
    /// parameters says; [`Error::Collective`].
    #[track_caller]
    pub fn new(module: M, group: &Group, opts: impl Into<DdpOpts>) -> Result<Ddp<M>> {
        let (span, opts) = (Span::caller(), opts.into());
        let _line = span.enter();
        check(&opts, span)?;
        let (params, buffers) = (module.named_parameters(), module.named_buffers());
        let of = |name: &str, x: &Tensor| format!("{name} {}{}", x.dtype(), x.shape());
        let part = |param: &Param| {
            let sharers = param.cell().sharers();
            sharers.map_or(String::new(), |it| format!(", part {} of {}", it.rank(), it.size()))
        };
        let lines = params.iter().map(|(name, param)| of(name, &param.get()) + &part(param));
        let lines: Vec<String> = lines.chain(buffers.iter().map(|(name, b)| of(name, &b.get()))).collect();
        agree(group, "Ddp::new", "parameters and buffers", &lines, span)?;
        // Quantized parameters are never trained, and come from one file on all ranks.
        let params = params.into_iter().map(|(_, param)| param).filter(|param| param.quantized().is_none());
        let params: Vec<Param> = params.collect();
        let buffers: Vec<Buffer> = buffers.into_iter().map(|(_, buffer)| buffer).collect();
        take_first(CallSite { name: "Ddp::new", span }, group, &params, &buffers)?;
        let paused = AtomicUsize::new(0);
        let reducer = Arc::new(Reducer { channel: group.channel(), params, opts, paused });
        let own: Arc<dyn GradReducer> = reducer.clone();
        reducer.params.iter().for_each(|param| param.cell().set_reducer(Arc::downgrade(&own)));
        Ok(Ddp { module, group: group.clone(), reducer, buffers })
    }

    /// The model itself.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// The ranks.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The model, whose gradients are its own again.
    pub fn into_inner(self) -> M {
        self.module
    }

    /// Runs the closure; `backward` meanwhile accumulates this rank's own gradients, and buffers stay as
    /// they are. The first `backward` after it averages all that has accumulated. For steps of several
    /// batches: all but the last go here. PyTorch: `no_sync`.
    ///
    /// # Examples
    /// ```
    /// use kiln::dist::{self, Ddp};
    /// use kiln::nn::{Layer, Linear};
    /// use kiln::prelude::*;
    /// let gradients = dist::spawn(2, |group| {
    ///     let model = Ddp::new(Linear::new(1, 1, ()), &group, ())?;
    ///     let backward = |x: f32| model.forward(&Tensor::full([1, 1], x, ())).sum(..).backward();
    ///     model.no_sync(|| backward(group.rank() as f32))?; // 0 and 1
    ///     backward(2.0)?;
    ///     model.module().weight.grad().expect("a gradient").item::<f32>()
    /// })?;
    /// assert_eq!(gradients, [2.5, 2.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn no_sync<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Paused<'a>(&'a AtomicUsize);
        impl Drop for Paused<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.reducer.paused.fetch_add(1, Ordering::Relaxed);
        let _paused = Paused(&self.reducer.paused);
        body()
    }

    /// Makes the buffers of all ranks the same, as the options say; [`Layer::forward`] does it when the
    /// model trains.
    ///
    /// # Errors
    /// The error recorded in a buffer.
    #[track_caller]
    pub fn sync_buffers(&self) -> Result<()> {
        let site = CallSite::here("sync_buffers");
        let first = CollectiveKind::Broadcast { root: 0 };
        let how = |dtype: DType| match self.reducer.opts.buffers {
            BufferSync::Average if dtype.is_float() => CollectiveKind::AllReduce(Reduce::Mean),
            BufferSync::Average | BufferSync::Broadcast | BufferSync::Keep => first,
        };
        if self.reducer.opts.buffers == BufferSync::Keep {
            return Ok(());
        }
        let held: Vec<Tensor> = self.buffers.iter().map(Buffer::get).collect();
        let common = without_grad(|| common(site, &self.group, &held, how))?;
        self.buffers.iter().zip(common).try_for_each(|(buffer, tensor)| buffer.set(&tensor))
    }

    /// What a forward pass begins with: buffers of a model that trains become the same on all ranks.
    #[track_caller]
    pub(crate) fn before_forward(&self) -> Result<()> {
        if self.buffers.is_empty() || !self.reducer.is_on() || !self.is_training() {
            return Ok(());
        }
        self.sync_buffers()
    }

    fn is_training(&self) -> bool {
        let mut training = false;
        self.module.each(&mut |_, part| training |= matches!(part, Found::Training(own) if own.is_on()));
        training
    }
}

impl<M: Module> Module for Ddp<M> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.module.visit(visitor);
    }
    fn kind(&self) -> &'static str {
        self.module.kind()
    }
}

impl<M: Layer> Layer for Ddp<M> {
    /// The model's output; before that, buffers of a model that trains become the same on all ranks.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _line = Span::caller().enter();
        match self.before_forward() {
            Ok(()) => self.module.forward(x),
            Err(error) => Tensor::invalid(error),
        }
    }
}

impl<M> std::fmt::Debug for Ddp<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ddp({} parameters, {:?})", self.reducer.params.len(), self.group)
    }
}

fn check(opts: &DdpOpts, span: Span) -> Result<()> {
    let wrong = |expected: &str, found: String| {
        Err(Error::Argument { call: "Ddp::new", expected: expected.into(), found, span })
    };
    match opts.compress {
        Some(dtype) if !dtype.is_float() => wrong("a floating type to compress to", dtype.to_string()),
        _ if opts.bucket_bytes == 0 || opts.first_bucket_bytes == 0 => {
            wrong("buckets of some bytes", "0".into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Makes parameters and buffers those of rank 0, now.
fn take_first(site: CallSite, group: &Group, params: &[Param], buffers: &[Buffer]) -> Result<()> {
    without_grad(|| {
        let held: Vec<Tensor> =
            params.iter().map(Param::get).chain(buffers.iter().map(Buffer::get)).collect();
        let first = common(site, group, &held, |_| CollectiveKind::Broadcast { root: 0 })?;
        let nodes = first.iter().map(|x| x.node().cloned()).collect::<Result<Vec<_>>>()?;
        plan::realize(&nodes, site.span)?;
        let (of_params, of_buffers) = first.split_at(params.len());
        params.iter().zip(of_params).try_for_each(|(param, tensor)| param.set(tensor))?;
        buffers.iter().zip(of_buffers).try_for_each(|(buffer, tensor)| buffer.set(tensor))
    })
}

/// What becomes of tensors that all ranks combine, those that are alike in one piece.
fn common(
    site: CallSite,
    group: &Group,
    held: &[Tensor],
    how: impl Fn(DType) -> CollectiveKind,
) -> Result<Vec<Tensor>> {
    let mut found: Vec<Option<Tensor>> = vec![None; held.len()];
    for members in alike(held.iter().map(|x| (x.dtype(), x.device()))) {
        let own: Vec<Tensor> = members.iter().map(|&i| held[i].detached(site.span)).collect();
        let pack = Pack::new(site, own.iter().map(Tensor::shape).collect(), own[0].dtype(), own[0].device());
        let whole = collective(site, how(own[0].dtype()), &group.channel(), &pack.whole(&own)?);
        whole.check()?;
        for (&i, part) in members.iter().zip(pack.parts(&whole, own.len())) {
            found[i] = Some(part);
        }
    }
    Ok(found.into_iter().flatten().collect())
}
