//! Learning-rate schedules. Values are PyTorch's.

use std::f64::consts::PI;

use crate::base::{DType, Result, Span};
use crate::optim::core::{Optimizer, check_skip};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// A learning rate as a function of time.
pub trait Schedule {
    /// The learning rate after `step` steps, from the one at the start.
    fn lr(&self, start: f64, step: u64) -> f64;
    /// The momentum after `step` steps ([`Optimizer::momentum`]); `None` leaves it alone.
    fn momentum(&self, _step: u64) -> Option<f64> {
        None
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn lr(&self, start: f64, step: u64) -> f64 {
        (**self).lr(start, step)
    }
    fn momentum(&self, step: u64) -> Option<f64> {
        (**self).momentum(step)
    }
}

/// Multiplies by `factor` after every `every` steps.
#[derive(Clone, Copy, Debug)]
pub struct StepDecay {
    /// Steps between two changes.
    pub every: u64,
    /// What the learning rate is multiplied by.
    pub factor: f64,
}

impl Schedule for StepDecay {
    fn lr(&self, start: f64, step: u64) -> f64 {
        start * self.factor.powf((step / self.every.max(1)) as f64)
    }
}

/// Half a cosine from the learning rate at the start to `floor` after `steps`
/// steps (Loshchilov and Hutter 2017), and `floor` from then on.
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    /// Steps until the floor.
    pub steps: u64,
    /// The least learning rate.
    pub floor: f64,
}

impl Schedule for Cosine {
    fn lr(&self, start: f64, step: u64) -> f64 {
        cosine(start, self.floor, step as f64 / self.steps.max(1) as f64)
    }
}

/// From one number to another along half a cosine.
fn cosine(from: f64, to: f64, share: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * share.min(1.0)).cos()) / 2.0
}

/// Grows evenly from `factor` of the learning rate to all of it within `steps`
/// steps; from there on `then` counts from 0.
#[derive(Clone, Copy, Debug)]
pub struct WarmUp<S> {
    /// Steps until the whole learning rate.
    pub steps: u64,
    /// Share of the learning rate at the start.
    pub factor: f64,
    /// What follows.
    pub then: S,
}

impl<S: Schedule> Schedule for WarmUp<S> {
    fn lr(&self, start: f64, step: u64) -> f64 {
        if step >= self.steps {
            return self.then.lr(start, step - self.steps);
        }
        start * (self.factor + (1.0 - self.factor) * step as f64 / self.steps as f64)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        self.then.momentum(step.saturating_sub(self.steps))
    }
}

/// Up along half a cosine to `most`, then down to almost nothing (Smith and
/// Topin 2018), while momentum goes down and up again. The learning rate at the start plays no
/// part.
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    /// The largest learning rate.
    pub most: f64,
    /// All steps of the cycle.
    pub steps: u64,
    /// Share of the steps on which it grows.
    pub growing: f64,
    /// The first learning rate is `most` over this.
    pub first_divisor: f64,
    /// The last learning rate is the first over this.
    pub last_divisor: f64,
    /// The least momentum, where the learning rate is largest, and the largest; `None` leaves
    /// momentum alone. Where there is Adam's first beta instead, it is that.
    pub momentum: Option<(f64, f64)>,
}

impl OneCycle {
    /// PyTorch's defaults: grows on 0.3 of the steps, from a 25th, and ends at
    /// a 10,000th of that; momentum from 0.95 to 0.85 and back.
    pub fn new(most: f64, steps: u64) -> OneCycle {
        let momentum = Some((0.85, 0.95));
        OneCycle { most, steps, growing: 0.3, first_divisor: 25.0, last_divisor: 1e4, momentum }
    }

    /// From `first` to `top` while the learning rate grows, then to `last`.
    /// NaN, which optimizers refuse, for a share of the steps that is none.
    fn cycle(&self, step: u64, first: f64, top: f64, last: f64) -> f64 {
        if !(0.0..=1.0).contains(&self.growing) {
            return f64::NAN;
        }
        let (step, end) = (step as f64, self.steps.max(1) as f64 - 1.0);
        let grown = self.growing * self.steps as f64 - 1.0;
        if step <= grown {
            return cosine(first, top, step / grown);
        }
        cosine(top, last, (step - grown) / (end - grown))
    }
}

impl Schedule for OneCycle {
    fn lr(&self, _start: f64, step: u64) -> f64 {
        let first = self.most / self.first_divisor;
        self.cycle(step, first, self.most, first / self.last_divisor)
    }

    fn momentum(&self, step: u64) -> Option<f64> {
        let (least, most) = self.momentum?;
        Some(self.cycle(step, most, least, most))
    }
}

/// Parts that a [`Scheduler`] keeps before the device adds them up: no more than one kernel reads.
const UNDECIDED_PARTS: usize = 7;

/// Applies a schedule to every group of an optimizer. What a [`Plateau`] has reduced stays
/// reduced: by as much as that is what the schedule says multiplied.
#[derive(Clone, Debug)]
pub struct Scheduler<S> {
    schedule: S,
    pub(super) start: Vec<f64>,
    pub(super) step: u64,
    /// How many of the steps that are counted were skipped: as far as a saved state said so.
    pub(super) skipped: u64,
    /// And where that is not known yet, in parts.
    pub(super) undecided: Vec<Tensor>,
}

impl<S: Schedule> Scheduler<S> {
    /// Starts at the groups' present learning rates, and sets the first ones.
    #[track_caller]
    pub fn new(optimizer: &mut dyn Optimizer, schedule: S) -> Scheduler<S> {
        let start = |group| match (optimizer.lr(group), optimizer.reduction(group)) {
            (lr, reduction) if reduction > 0.0 => lr / reduction,
            (lr, _) => lr,
        };
        let start = (0..optimizer.groups()).map(start).collect();
        let scheduler = Scheduler { schedule, start, step: 0, skipped: 0, undecided: Vec::new() };
        scheduler.apply(optimizer);
        scheduler
    }

    /// Advances by a step. Call it after the optimizer's.
    #[track_caller]
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) {
        self.step += 1;
        self.apply(optimizer);
    }

    /// Advances by a step unless `skip` holds, a truth value of rank 0 such as
    /// [`GradScaler::skipped`](crate::optim::GradScaler::skipped). Call it after the optimizer's.
    ///
    /// Nobody waits for a device: the step counts as made until [`Scheduler::settle`] takes it back.
    ///
    /// # Errors
    /// A `skip` that is no such value; as realizing a tensor. The schedule is then as it was.
    ///
    /// # Examples
    /// ```
    /// use kiln::optim::{Optimizer, Scheduler, Sgd, SgdOpts, StepDecay};
    /// use kiln::prelude::*;
    /// let mut optimizer = Sgd::new([], SgdOpts::default().lr(0.8));
    /// let mut scheduler = Scheduler::new(&mut optimizer, StepDecay { every: 1, factor: 0.5 });
    /// for skip in [true, false, true] {
    ///     scheduler.step_unless(&mut optimizer, &Tensor::from(skip))?;
    /// }
    /// assert_eq!(optimizer.lr(0), 0.1);
    /// scheduler.settle(&mut optimizer)?;
    /// assert_eq!(optimizer.lr(0), 0.4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn step_unless(&mut self, optimizer: &mut dyn Optimizer, skip: &Tensor) -> Result<()> {
        check_skip(CallSite::here("step_unless"), skip)?;
        if self.undecided.len() == UNDECIDED_PARTS {
            let sum = self.undecided();
            sum.iter().try_for_each(|sum| sum.realize().map(drop))?;
            self.undecided = sum.into_iter().collect();
        }
        self.undecided.push(skip.to_dtype(DType::I32));
        self.step(optimizer);
        Ok(())
    }

    /// Takes back steps that were counted and turn out to be skipped. Waits for the device, so call it
    /// where something else is read, such as a loss.
    ///
    /// # Errors
    /// As reading a tensor.
    #[track_caller]
    pub fn settle(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        let skipped = self.skipped()?;
        (self.skipped, self.undecided) = (0, Vec::new());
        if skipped > 0 {
            self.step = self.step.saturating_sub(skipped);
            self.apply(optimizer);
        }
        Ok(())
    }

    #[track_caller]
    fn apply(&self, optimizer: &mut dyn Optimizer) {
        let _line = Span::caller().enter();
        for (group, &start) in self.start.iter().enumerate() {
            let lr = self.schedule.lr(start, self.step) * optimizer.reduction(group);
            optimizer.set_lr(group, lr);
            if let Some(momentum) = self.schedule.momentum(self.step) {
                optimizer.set_momentum(group, momentum);
            }
        }
    }
}

impl<S> Scheduler<S> {
    /// How many of the steps that are counted were skipped. Waits for the device where that is not known.
    #[track_caller]
    pub(super) fn skipped(&self) -> Result<u64> {
        let undecided = self.undecided().map_or(Ok(0), |sum| sum.item::<i32>())?;
        Ok(self.skipped + undecided.max(0) as u64)
    }

    /// How many of the undecided steps were skipped.
    #[track_caller]
    fn undecided(&self) -> Option<Tensor> {
        self.undecided.iter().cloned().reduce(|one, other| one + other)
    }
}

/// Multiplies every group's learning rate by `factor` once a number, such as
/// the validation loss, has not fallen for more than `patience` steps. NaN is no fall.
#[derive(Clone, Copy, Debug)]
pub struct Plateau {
    /// What the learning rate is multiplied by: at least 0 and less than 1. The next
    /// [`Optimizer::step`] fails after any other.
    pub factor: f64,
    /// Steps without improvement that are borne.
    pub patience: u64,
    /// The relative fall that counts as one.
    pub threshold: f64,
    /// The least learning rate.
    pub floor: f64,
    pub(super) least: f64,
    pub(super) bad: u64,
}

impl Default for Plateau {
    /// PyTorch's: a tenth, after more than 10 steps without a fall by 1e-4.
    fn default() -> Plateau {
        Plateau { factor: 0.1, patience: 10, threshold: 1e-4, floor: 0.0, least: f64::INFINITY, bad: 0 }
    }
}

impl Plateau {
    /// Takes note of a number.
    #[track_caller]
    pub fn step(&mut self, number: f64, optimizer: &mut dyn Optimizer) {
        let _line = Span::caller().enter();
        if number < self.least * (1.0 - self.threshold) {
            (self.least, self.bad) = (number, 0);
        } else {
            self.bad += 1;
        }
        if self.bad > self.patience {
            self.bad = 0;
            for group in 0..optimizer.groups() {
                optimizer.reduce_lr(group, self.factor, self.floor);
            }
        }
    }
}
