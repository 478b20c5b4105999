//! The trainer: what takes part in a training.

use std::fmt;

use crate::base::{Device, Error, Result, Span};
use crate::data::Batch;
use crate::dist::{Ddp, DdpOpts, Group};
use crate::nn::{Module, ModuleExt, Param};
use crate::optim::{GradScaler, Optimizer, Plateau, Schedule, Scheduler};
use crate::tensor::Tensor;
use crate::tensor::random::{Generator, set_generator};
#[cfg(feature = "safetensors")]
use crate::train::checkpoints::Checkpoints;
use crate::train::fit::{Position, Window};
use crate::train::metric::{Goal, Metric, Scores};
use crate::train::model::Model;
use crate::train::opts::TrainerOpts;
use crate::train::output::Output;
use crate::train::record::{EpochEvent, Logger, StepEvent, Summary};
use crate::train::source::BatchSource;
use crate::train::stop::{EarlyStop, StopFlag};

/// What users want called.
pub(super) struct Hooks<'a, M, B> {
    pub batch: Option<Box<dyn Fn(B) -> B + 'a>>,
    pub model: Option<Box<dyn FnMut(&M) -> Result<()> + 'a>>,
    pub step: Vec<Box<dyn FnMut(&StepEvent<'_, M>) -> Result<()> + 'a>>,
    pub epoch: Vec<Box<dyn FnMut(&EpochEvent<'_, M>) -> Result<()> + 'a>>,
    pub end: Vec<Box<dyn FnMut(&Summary, &M) -> Result<()> + 'a>>,
}

/// Trains a model: goes through the data, steps the optimizer, evaluates, logs, saves and resumes. Each part
/// can be used alone; this is the loop around them.
///
/// `M` is the model and `B` what the forward pass takes: a batch of the data. Parts that are not set cost
/// nothing: without anyone who asks, the host waits for one loss in [`log_every`](TrainerOpts::log_every)
/// steps.
///
/// PyTorch: what `Trainer` of Lightning and Accelerate's loop are.
///
/// # Examples
/// ```
/// use kiln::data::{DataLoader, Items, LoaderOpts};
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::optim::{Sgd, SgdOpts};
/// use kiln::prelude::*;
/// use kiln::train::{Trainer, TrainerOpts};
/// kiln::manual_seed(0);
/// let line = Items::new(64, |i| Ok((Tensor::full([1], i as f32 / 64.0, ()), Tensor::full([1], 2.0f32, ()))));
/// let loader = DataLoader::new(line, LoaderOpts::default().batch_size(16).shuffle(true))?;
/// let model = Linear::new(1, 1, ());
/// let optimizer = Sgd::new(model.parameters(), SgdOpts::default().lr(0.3));
/// let forward = |model: &Linear, (x, y): &(Tensor, Tensor)| (model.forward(x) - y).square().mean(..);
/// let mut trainer = Trainer::new(model, optimizer, forward, TrainerOpts::default().epochs(20));
/// let summary = trainer.fit(&loader)?;
/// assert_eq!((summary.epochs, summary.steps), (20, 80));
/// assert!(summary.loss.is_some_and(|loss| loss < 0.05));
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct Trainer<'a, M, B> {
    pub(super) model: Model<M>,
    pub(super) params: Vec<Param>,
    pub(super) optimizer: Box<dyn Optimizer + 'a>,
    pub(super) forward: Box<dyn Fn(&M, &B) -> Output + 'a>,
    pub(super) opts: TrainerOpts,
    pub(super) scaler: GradScaler,
    pub(super) scheduler: Option<Scheduler<Box<dyn Schedule + 'a>>>,
    pub(super) plateau: Option<Plateau>,
    pub(super) metrics: Vec<Box<dyn Metric + 'a>>,
    pub(super) validation: Option<Box<dyn BatchSource<B> + 'a>>,
    pub(super) early_stop: Option<EarlyStop>,
    #[cfg(feature = "safetensors")]
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) loggers: Vec<Box<dyn Logger + 'a>>,
    pub(super) hooks: Hooks<'a, M, B>,
    pub(super) stop: StopFlag,
    pub(super) position: Position,
    pub(super) window: Window,
    /// Of the last step, if gradients are clipped.
    pub(super) grad_norm: Option<Tensor>,
    /// The mean loss of the last whole epoch.
    pub(super) epoch_loss: Option<f64>,
    pub(super) scores: Option<Scores>,
}

impl<'a, M: Module, B: Batch> Trainer<'a, M, B> {
    /// A trainer of a model, by an optimizer of its parameters. `forward` gives the loss of a batch, or
    /// `(loss, predictions, targets)` for metrics.
    #[track_caller]
    pub fn new<O: Into<Output>>(
        model: M,
        optimizer: impl Optimizer + 'a,
        forward: impl Fn(&M, &B) -> O + 'a,
        opts: impl Into<TrainerOpts>,
    ) -> Trainer<'a, M, B> {
        let opts = opts.into();
        let scales = opts.autocast == Some(crate::DType::F16) && opts.scaler.enabled;
        Trainer {
            params: model.parameters(),
            model: Model::Alone(model),
            optimizer: Box::new(optimizer),
            forward: Box::new(move |model, batch| forward(model, batch).into()),
            scaler: GradScaler::new(opts.scaler.clone().enabled(scales)),
            opts,
            scheduler: None,
            plateau: None,
            metrics: Vec::new(),
            validation: None,
            early_stop: None,
            #[cfg(feature = "safetensors")]
            checkpoints: None,
            loggers: Vec::new(),
            hooks: Hooks { batch: None, model: None, step: Vec::new(), epoch: Vec::new(), end: Vec::new() },
            stop: StopFlag::default(),
            position: Position::default(),
            window: Window::default(),
            grad_norm: None,
            epoch_loss: None,
            scores: None,
        }
    }

    /// Trains on all ranks of a group, as [`Ddp`] does: they take the model of rank 0, each takes its part of
    /// the data, and random numbers differ from rank to rank. Rank 0 logs and saves.
    ///
    /// # Errors
    /// As [`Ddp::new`].
    #[track_caller]
    pub fn ranks(mut self, group: &Group, opts: impl Into<DdpOpts>) -> Result<Trainer<'a, M, B>> {
        self.model = Model::Shared(Ddp::new(self.model.into_module(), group, opts)?);
        let before = crate::generator();
        set_generator(Generator::resume(before.seed(), before.draws() + group.rank() as u64).split());
        Ok(self)
    }

    /// Sets learning rates by a schedule, which counts steps of the optimizer. A step that an overflow in 16
    /// bits makes void counts too.
    #[must_use]
    #[track_caller]
    pub fn schedule(mut self, schedule: impl Schedule + 'a) -> Trainer<'a, M, B> {
        let schedule: Box<dyn Schedule + 'a> = Box::new(schedule);
        self.scheduler = Some(Scheduler::new(&mut *self.optimizer, schedule));
        self
    }
    /// Lowers learning rates when the validation loss falls no more.
    #[must_use]
    pub fn plateau(mut self, plateau: Plateau) -> Trainer<'a, M, B> {
        self.plateau = Some(plateau);
        self
    }
    /// Evaluates a metric too.
    #[must_use]
    pub fn metric(mut self, metric: impl Metric + 'a) -> Trainer<'a, M, B> {
        self.metrics.push(Box::new(metric));
        self
    }
    /// Evaluates on this source, as often as [`TrainerOpts::validate`] says.
    #[must_use]
    pub fn validate_on(mut self, source: impl BatchSource<B> + 'a) -> Trainer<'a, M, B> {
        self.validation = Some(Box::new(source));
        self
    }
    /// Ends when a metric gets no better.
    #[must_use]
    pub fn early_stop(mut self, stop: EarlyStop) -> Trainer<'a, M, B> {
        self.early_stop = Some(stop);
        self
    }
    /// Saves the state now and then, and when the training ends.
    #[cfg(feature = "safetensors")]
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Trainer<'a, M, B> {
        self.checkpoints = Some(checkpoints);
        self
    }
    /// Gives all records to a logger, on rank 0.
    #[must_use]
    pub fn log_to(mut self, logger: impl Logger + 'a) -> Trainer<'a, M, B> {
        self.loggers.push(Box::new(logger));
        self
    }
    /// Ends when this flag is set, after the step at hand and a checkpoint. Ranks agree on it where they read
    /// the loss.
    #[must_use]
    pub fn stop_flag(mut self, flag: &StopFlag) -> Trainer<'a, M, B> {
        self.stop = flag.clone();
        self
    }

    /// Changes each batch before the forward pass, on the model's device.
    #[must_use]
    pub fn prepare_batch(mut self, prepare: impl Fn(B) -> B + 'a) -> Trainer<'a, M, B> {
        self.hooks.batch = Some(Box::new(prepare));
        self
    }
    /// Calls this with the model when a training begins, in training mode: to freeze parts of it, say.
    #[must_use]
    pub fn prepare_model(mut self, prepare: impl FnMut(&M) -> Result<()> + 'a) -> Trainer<'a, M, B> {
        self.hooks.model = Some(Box::new(prepare));
        self
    }
    /// Calls this after each step, on all ranks. An error ends the training.
    #[must_use]
    pub fn on_step(mut self, call: impl FnMut(&StepEvent<'_, M>) -> Result<()> + 'a) -> Trainer<'a, M, B> {
        self.hooks.step.push(Box::new(call));
        self
    }
    /// Calls this after each epoch, on all ranks.
    #[must_use]
    pub fn on_epoch(mut self, call: impl FnMut(&EpochEvent<'_, M>) -> Result<()> + 'a) -> Trainer<'a, M, B> {
        self.hooks.epoch.push(Box::new(call));
        self
    }
    /// Calls this when the training has ended, on all ranks.
    #[must_use]
    pub fn on_end(mut self, call: impl FnMut(&Summary, &M) -> Result<()> + 'a) -> Trainer<'a, M, B> {
        self.hooks.end.push(Box::new(call));
        self
    }

    /// The model.
    pub fn model(&self) -> &M {
        self.model.module()
    }
    /// The model, trained.
    pub fn into_model(self) -> M {
        self.model.into_module()
    }
    /// The optimizer.
    pub fn optimizer(&mut self) -> &mut (dyn Optimizer + 'a) {
        &mut *self.optimizer
    }

    /// Where batches go.
    pub(super) fn device(&self) -> Device {
        let first = || self.params.first().map_or(Device::cpu(), Param::device);
        self.opts.device.unwrap_or_else(first)
    }

    /// Which values of a metric, or of `loss`, are better.
    pub(super) fn goal(&self, name: &str) -> Option<Goal> {
        let of_metric = self.metrics.iter().find(|metric| metric.name() == name).map(|metric| metric.goal());
        of_metric.or((name == "loss").then_some(Goal::Least))
    }

    /// Fails for what makes no sense together.
    pub(super) fn check(&self, span: Span) -> Result<()> {
        let wrong =
            |expected: String, found: String| Err(Error::Argument { call: "fit", expected, found, span });
        if self.opts.accumulate == 0 {
            return wrong("at least one batch a step".into(), "0".into());
        }
        for name in self.early_stop.iter().map(EarlyStop::metric).chain(self.best_metric()) {
            if self.goal(name).is_none() {
                let known = self.metrics.iter().map(|metric| metric.name()).chain(["loss"]);
                let known: Vec<&str> = known.collect();
                return wrong(format!("a metric that there is: {}", known.join(", ")), name.into());
            }
            if self.validation.is_none() {
                return wrong("validate_on(..), for what looks at a metric".into(), name.into());
            }
        }
        Ok(())
    }
}

impl<M: Module, B> fmt::Debug for Trainer<'_, M, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { epoch, step, .. } = self.position;
        write!(f, "Trainer({}, epoch {epoch}, step {step})", self.model.module().kind())
    }
}
