//! What a training tells while it runs, and who listens.

use std::fmt;

use crate::base::{Device, Error, Result};
use crate::plan::PlanReport;
use crate::tensor::Tensor;
use crate::train::metric::Scores;

/// What numbers are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The steps since the last record.
    Train,
    /// An evaluation.
    Validation,
}

impl Phase {
    /// `train` or `validation`.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Train => "train",
            Phase::Validation => "validation",
        }
    }
}

/// Numbers of a moment of a training. Printed, it is one line.
///
/// # Examples
/// ```
/// use kiln::train::{Phase, Record, Scores};
/// let scores = Scores { values: vec![("loss".into(), 0.25), ("lr".into(), 1e-3)], ..Scores::default() };
/// let record = Record { phase: Phase::Train, epoch: 2, step: 150, seconds: 1.5, scores };
/// assert_eq!(record.to_string(), "epoch 2, step 150, train: loss 0.2500, lr 1.00e-3");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What the numbers are of.
    pub phase: Phase,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps of the optimizer so far.
    pub step: u64,
    /// Seconds since the training began, without those between a stop and its resumption.
    pub seconds: f64,
    /// The numbers: the mean `loss`, and with it `lr` and `grad_norm` of the last step, or metrics.
    pub scores: Scores,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}, step {}, {}:", self.epoch, self.step, self.phase.name())?;
        for (at, (name, value)) in self.scores.values.iter().enumerate() {
            write!(f, "{} {name} {}", if at > 0 { "," } else { "" }, short(*value))?;
        }
        Ok(())
    }
}

/// A number in few characters.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (0.01..1e6).contains(&size) || !value.is_finite() {
        return format!("{value:.4}");
    }
    format!("{value:.2e}")
}

/// A step that has been made, for [`Logger::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps of the optimizer so far.
    pub step: u64,
    /// Epochs in all.
    pub epochs: u64,
    /// Steps when all epochs are over.
    pub steps: u64,
    /// Samples of the step's batches, on all ranks.
    pub samples: u64,
    /// Where the model is.
    pub device: Device,
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// After all epochs or steps.
    Done,
    /// Because a metric got no better ([`EarlyStop`](crate::train::EarlyStop)).
    Early,
    /// By its [`StopFlag`](crate::train::StopFlag).
    Stopped,
}

/// What a training came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How it ended.
    pub ended: Ended,
    /// Whole epochs, those before a resumption included.
    pub epochs: u64,
    /// Steps of the optimizer, those before a resumption included.
    pub steps: u64,
    /// Seconds, those before a resumption included.
    pub seconds: f64,
    /// The mean training loss of the last whole epoch.
    pub loss: Option<f64>,
    /// The last evaluation.
    pub scores: Option<Scores>,
}

/// Takes the records of a training: [`CsvLog`](crate::train::CsvLog), [`JsonLog`](crate::train::JsonLog),
/// [`Report`](crate::train::Report), TensorBoard's `SummaryWriter`, or a closure. On rank 0 alone.
///
/// # Examples
/// ```
/// use kiln::train::{Logger, Record};
/// // Progress as plain lines.
/// let print = |record: &Record| {
///     eprintln!("{record}");
///     Ok(())
/// };
/// fn takes(_: impl Logger) {}
/// takes(print);
/// ```
pub trait Logger {
    /// The training begins, or goes on after so many steps.
    ///
    /// # Errors
    /// As [`Logger::record`].
    fn begin(&mut self, _steps: u64) -> Result<()> {
        Ok(())
    }
    /// Takes a record.
    ///
    /// # Errors
    /// Anything; the training ends with it.
    fn record(&mut self, record: &Record) -> Result<()>;
    /// A step has been launched: the device may be at it still.
    ///
    /// # Errors
    /// As [`Logger::record`].
    fn step(&mut self, _step: &StepRecord) -> Result<()> {
        Ok(())
    }
    /// Whether to be told what the plans of the next step predict.
    fn wants_plans(&self) -> bool {
        false
    }
    /// The plans that a step has run, in order: one, unless it takes several batches.
    ///
    /// # Errors
    /// As [`Logger::record`].
    fn plans(&mut self, _plans: &[PlanReport]) -> Result<()> {
        Ok(())
    }
    /// The training has ended.
    ///
    /// # Errors
    /// As [`Logger::record`].
    fn finish(&mut self, _summary: &Summary) -> Result<()> {
        Ok(())
    }
    /// The training has ended with an error, which it returns.
    fn fail(&mut self, _error: &Error) {}
}

impl<F: FnMut(&Record) -> Result<()>> Logger for F {
    fn record(&mut self, record: &Record) -> Result<()> {
        self(record)
    }
}

/// A step that has been made, for [`Trainer::on_step`](crate::train::Trainer::on_step).
#[derive(Debug)]
pub struct StepEvent<'a, M> {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps so far.
    pub step: u64,
    /// The loss of the step's last batch on this rank. Reading it waits for the device.
    pub loss: &'a Tensor,
    /// The model.
    pub model: &'a M,
}

/// An epoch that has ended, for [`Trainer::on_epoch`](crate::train::Trainer::on_epoch).
#[derive(Debug)]
pub struct EpochEvent<'a, M> {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps so far.
    pub step: u64,
    /// The mean training loss of the epoch, over all ranks.
    pub loss: f64,
    /// The last evaluation.
    pub scores: Option<&'a Scores>,
    /// The model.
    pub model: &'a M,
}
