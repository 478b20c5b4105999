//! The loop of a training.

use std::time::Instant;

use crate::base::progress::{self, Task};
use crate::base::{DType, Error, Result, Span};
use crate::data::Batch;
use crate::dist::Reduce;
use crate::grad::without_grad;
use crate::ir::pending::{Pending, register};
use crate::nn::{Module, ModuleExt};
use crate::optim::clip_grad_norm;
use crate::plan::watch::watch;
use crate::tensor::Tensor;
use crate::train::evaluate::samples;
use crate::train::metric::Scores;
use crate::train::record::{Ended, EpochEvent, Phase, Record, StepEvent, StepRecord, Summary};
use crate::train::sharers::Sharers;
use crate::train::source::{BatchSource, Sharing};
use crate::train::trainer::Trainer;

/// How far a training is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    pub epoch: u64,
    /// Batches of the epoch that this rank has gone through.
    pub batch: u64,
    pub step: u64,
    /// Before the last resumption.
    pub seconds: f64,
    /// When the training began or was resumed.
    pub since: Option<Instant>,
}

impl Position {
    pub fn seconds(&self) -> f64 {
        self.seconds + self.since.map_or(0.0, |since| since.elapsed().as_secs_f64())
    }
}

/// The losses that nobody has read yet, as one number on the device, and those of the epoch that have been.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// `F32` of rank 0.
    pub sum: Option<Tensor>,
    pub count: u64,
    pub epoch_sum: f64,
    pub epoch_count: u64,
}

impl Window {
    /// Adds a loss, which the step computes: nobody waits.
    fn add(&mut self, loss: &Tensor) {
        let sum = without_grad(|| {
            let loss = loss.detach().to_dtype(DType::F32);
            match self.sum.take() {
                Some(sum) => sum + loss,
                None => Tensor::zeros((), (loss.device(), DType::F32)) + loss,
            }
        });
        if let Ok(node) = sum.node() {
            register([Pending::root(node)]);
        }
        (self.sum, self.count) = (Some(sum), self.count + 1);
    }
}

impl<M: Module, B: Batch> Trainer<'_, M, B> {
    /// Trains from where it is to the end: the last epoch or step, or what ends it before. A trainer that has
    /// resumed goes on in the middle of an epoch.
    ///
    /// # Errors
    /// Options that make no sense; what loading a batch, a step, a callback, a logger or saving says. What is
    /// saved by then stays.
    #[track_caller]
    pub fn fit(&mut self, source: &dyn BatchSource<B>) -> Result<Summary> {
        let span = Span::caller();
        let _line = span.enter();
        let fitted = self.run(source, span);
        if let Err(error) = &fitted {
            self.loggers.iter_mut().for_each(|logger| logger.fail(error));
        }
        fitted
    }

    fn run(&mut self, source: &dyn BatchSource<B>, span: Span) -> Result<Summary> {
        self.check(span)?;
        let (ranks, rank) = (self.model.ranks(), self.model.rank());
        let part = if ranks > 1 { source.share(ranks, rank, Sharing::Equal)? } else { None };
        if self.logs() {
            let steps = self.position.step;
            self.loggers.iter_mut().try_for_each(|logger| logger.begin(steps))?;
        }
        self.position.since = Some(Instant::now());
        self.model().train();
        if let Some(prepare) = &mut self.hooks.model {
            prepare(self.model.module())?;
        }
        let ended = self.epochs(part.as_deref().unwrap_or(source), span)?;
        self.save_at_end()?;
        let summary = self.summary(ended);
        if self.logs() {
            self.loggers.iter_mut().try_for_each(|logger| logger.finish(&summary))?;
        }
        self.hooks.end.iter_mut().try_for_each(|call| call(&summary, self.model.module()))?;
        self.position.seconds = self.position.seconds();
        self.position.since = None;
        Ok(summary)
    }

    fn summary(&self, ended: Ended) -> Summary {
        let Position { epoch, step, .. } = self.position;
        let loss = self.epoch_loss;
        let scores = self.scores.clone();
        Summary { ended, epochs: epoch, steps: step, seconds: self.position.seconds(), loss, scores }
    }

    fn epochs(&mut self, source: &dyn BatchSource<B>, span: Span) -> Result<Ended> {
        while self.position.epoch < self.opts.epochs {
            if let Some(ended) = self.rest_of_epoch(source, span)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Done)
    }

    /// What is left of an epoch; how the training ended, if it did.
    fn rest_of_epoch(&mut self, source: &dyn BatchSource<B>, span: Span) -> Result<Option<Ended>> {
        let mut batches = source.epoch_from(self.position.epoch, self.position.batch as usize);
        loop {
            if self.opts.steps.is_some_and(|most| self.position.step >= most) {
                return Ok(Some(Ended::Done));
            }
            let left = source.batches().saturating_sub(self.position.batch as usize);
            let count = left.min(self.opts.accumulate);
            if count == 0 {
                break;
            }
            let (loss, samples) = self.watched(|trainer| trainer.step(&mut *batches, count, span))?;
            self.position.step += 1;
            self.position.batch += count as u64;
            self.show(source.batches(), samples)?;
            if let Some(ended) = self.after_step(&loss)? {
                return Ok(Some(ended));
            }
        }
        drop(batches);
        self.after_epoch()
    }

    /// Tells whoever shows progress, of an epoch of so many batches and a step of so many samples.
    fn show(&mut self, batches: usize, samples: usize) -> Result<()> {
        if !self.logs() {
            return Ok(());
        }
        let Position { epoch, step, .. } = self.position;
        let in_epochs = self.opts.epochs.saturating_mul(batches.div_ceil(self.opts.accumulate) as u64);
        let steps = self.opts.steps.map_or(in_epochs, |steps| steps.min(in_epochs));
        progress::report(Task::Train, step as usize, steps as usize);
        let samples = (samples * self.model.ranks()) as u64;
        let made =
            StepRecord { epoch, step, epochs: self.opts.epochs, steps, samples, device: self.device() };
        self.loggers.iter_mut().try_for_each(|logger| logger.step(&made))
    }

    /// Runs a step, and tells loggers that want to know what its plans predict.
    fn watched<R>(&mut self, step: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let wants = |trainer: &Self| trainer.loggers.iter().any(|logger| logger.wants_plans());
        if !self.logs() || !wants(self) {
            return step(self);
        }
        let (made, plans) = watch(|| step(self));
        let made = made?;
        let mut wanting = self.loggers.iter_mut().filter(|logger| logger.wants_plans());
        wanting.try_for_each(|logger| logger.plans(&plans))?;
        Ok(made)
    }

    /// One step of the optimizer, on so many batches. The loss of the last of them, and the samples of all.
    fn step(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<B>>,
        count: usize,
        span: Span,
    ) -> Result<(Tensor, usize)> {
        self.optimizer.zero_grad();
        let (mut last, mut count_of_samples) = (None, 0);
        for number in 1..=count {
            let Some(batch) = batches.next() else {
                let expected = "as many batches as the source says".into();
                let found = format!("an end after {}", self.position.batch as usize + number - 1);
                return Err(Error::Argument { call: "fit", expected, found, span });
            };
            let (batch, meets) = (batch?, number == count);
            count_of_samples += samples(&batch);
            let loss = self
                .model
                .accumulating(meets, || self.model.before_forward().map(|()| self.output(batch).loss))?;
            let share = if count > 1 { &loss / count as f64 } else { loss.clone() };
            let scaled = self.scaler.scale(&share);
            self.model.accumulating(meets, || scaled.backward())?;
            self.window.add(&loss);
            if number < count {
                // Computes the gradients too, so that the batch's activations can go.
                self.window.sum.iter().try_for_each(|sum| sum.realize().map(drop))?;
            }
            last = Some(loss);
        }
        self.update()?;
        Ok((last.unwrap_or_else(|| Tensor::zeros((), ())), count_of_samples))
    }

    /// Moves the parameters by their gradients.
    fn update(&mut self) -> Result<()> {
        if let Some(most) = self.opts.clip_norm {
            self.scaler.unscale(&*self.optimizer)?;
            self.grad_norm = Some(clip_grad_norm(&self.params, most)?);
        }
        self.scaler.step(&mut *self.optimizer)?;
        self.scaler.update()?;
        match &mut self.scheduler {
            Some(scheduler) if self.scaler.is_enabled() => {
                scheduler.step_unless(&mut *self.optimizer, &self.scaler.skipped())
            }
            Some(scheduler) => {
                scheduler.step(&mut *self.optimizer);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Takes back steps of the schedule that the scaler skipped: the host waits.
    fn settle_schedule(&mut self) -> Result<()> {
        match &mut self.scheduler {
            Some(scheduler) => scheduler.settle(&mut *self.optimizer),
            None => Ok(()),
        }
    }

    fn after_step(&mut self, loss: &Tensor) -> Result<Option<Ended>> {
        let (epoch, step) = (self.position.epoch, self.position.step);
        let event = StepEvent { epoch, step, loss, model: self.model.module() };
        self.hooks.step.iter_mut().try_for_each(|call| call(&event))?;
        let reads = self.opts.log_every > 0 && step.is_multiple_of(self.opts.log_every);
        if reads {
            self.record_training()?;
        }
        let over = self.opts.validate.is_after_step(step) && self.validate()?;
        // Ranks can agree where they meet anyway.
        let stopped = (reads || self.model.ranks() == 1) && self.is_stopped()?;
        if over || stopped {
            return Ok(Some(if stopped { Ended::Stopped } else { Ended::Early }));
        }
        self.save_after_step()?;
        Ok(None)
    }

    fn after_epoch(&mut self) -> Result<Option<Ended>> {
        self.record_training()?;
        let epoch = self.position.epoch;
        let (sum, count) = (self.window.epoch_sum, self.window.epoch_count);
        let loss = sum / count as f64;
        (self.window.epoch_sum, self.window.epoch_count) = (0.0, 0);
        self.epoch_loss = Some(loss);
        let over = self.opts.validate.is_after_epoch(epoch + 1) && self.validate()?;
        (self.position.epoch, self.position.batch) = (epoch + 1, 0);
        let (step, model) = (self.position.step, self.model.module());
        let event = EpochEvent { epoch, step, loss, scores: self.scores.as_ref(), model };
        self.hooks.epoch.iter_mut().try_for_each(|call| call(&event))?;
        if self.is_stopped()? {
            return Ok(Some(Ended::Stopped));
        }
        self.save_after_epoch()?;
        Ok(over.then_some(Ended::Early))
    }

    /// Evaluates, if there is something to evaluate on. Whether to end.
    fn validate(&mut self) -> Result<bool> {
        let Some(source) = &self.validation else { return Ok(false) };
        let scores = self.evaluate(&**source)?;
        let loss = scores.get("loss").unwrap_or(f64::NAN);
        if let Some(plateau) = &mut self.plateau {
            plateau.step(loss, &mut *self.optimizer);
        }
        self.record(Phase::Validation, scores.clone())?;
        self.save_best(&scores)?;
        self.scores = Some(scores);
        let watched = self.early_stop.as_ref().map(|stop| stop.metric().to_string());
        let goal = watched.as_deref().and_then(|name| self.goal(name));
        let value = watched.as_deref().and_then(|name| self.scores.as_ref()?.get(name));
        Ok(match (&mut self.early_stop, goal, value) {
            (Some(stop), Some(goal), Some(value)) => stop.is_over(goal, value),
            (_, _, _) => false,
        })
    }

    /// Reads the losses since the last record: the host waits.
    fn record_training(&mut self) -> Result<()> {
        let Some(sum) = self.window.sum.take() else { return Ok(()) };
        let count = std::mem::take(&mut self.window.count);
        let sum = match self.model.group() {
            Some(group) => group.all_reduce(&sum, Reduce::Mean),
            None => sum,
        };
        let sum = f64::from(sum.item::<f32>()?);
        self.settle_schedule()?;
        self.window.epoch_sum += sum;
        self.window.epoch_count += count;
        let mut values = vec![("loss".into(), sum / count as f64), ("lr".into(), self.optimizer.lr(0))];
        if let Some(norm) = self.grad_norm.take() {
            values.push(("grad_norm".into(), norm.to_dtype(DType::F64).item()?));
        }
        self.record(Phase::Train, Scores { values, ..Scores::default() })
    }

    fn record(&mut self, phase: Phase, scores: Scores) -> Result<()> {
        let Position { epoch, step, .. } = self.position;
        let record = Record { phase, epoch, step, seconds: self.position.seconds(), scores };
        if !self.logs() {
            return Ok(());
        }
        self.loggers.iter_mut().try_for_each(|logger| logger.record(&record))
    }

    /// Whether the end has been asked for, on any rank.
    fn is_stopped(&self) -> Result<bool> {
        let own = i64::from(self.stop.is_set());
        let any = match self.model.group() {
            Some(group) => {
                group.all_reduce(&Tensor::full((), own, crate::Device::cpu()), Reduce::Max).item::<i64>()?
            }
            None => own,
        };
        Ok(self.sharers().all_reduce(Reduce::Max, any)? > 0)
    }

    /// The ranks that divide the model.
    pub(super) fn sharers(&self) -> Sharers {
        Sharers::of(&self.params)
    }

    /// Whether this rank is the one of all that logs.
    fn logs(&self) -> bool {
        self.model.rank() == 0 && self.sharers().is_first()
    }
}
