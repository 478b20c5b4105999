//! Options of a training.

use crate::base::{DType, Device};
use crate::optim::GradScalerOpts;
use crate::tensor::options::options;

/// How often something happens; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After every so many steps of the optimizer.
    Steps(u64),
    /// After every so many epochs.
    Epochs(u64),
}

impl Every {
    pub(super) fn is_after_step(self, step: u64) -> bool {
        matches!(self, Every::Steps(every) if every > 0 && step.is_multiple_of(every))
    }
    pub(super) fn is_after_epoch(self, epochs: u64) -> bool {
        matches!(self, Every::Epochs(every) if every > 0 && epochs.is_multiple_of(every))
    }
}

options! {
    /// Options of [`Trainer`](crate::train::Trainer).
    TrainerOpts {
        /// How often to go through the data (1).
        epochs: u64 = 1;
        /// Steps after which to end at the latest.
        steps: Option<u64> = None, u64 => Some;
        /// Batches whose gradients are averaged for a step (1).
        accumulate: usize = 1;
        /// The largest 2-norm of all gradients together.
        clip_norm: Option<f64> = None, f64 => Some;
        /// The type of mixed precision. With `F16`, losses are scaled.
        autocast: Option<DType> = None, DType => Some;
        /// How losses are scaled where they are.
        scaler: GradScalerOpts = GradScalerOpts::default();
        /// Steps between two reads of the training loss (50); 0 for one at the end of each epoch. Reading is
        /// what the host waits for, and where ranks agree on whether to stop.
        log_every: u64 = 50;
        /// How often to evaluate (after every epoch), if there is something to evaluate on.
        validate: Every = Every::Epochs(1);
        /// Where batches go; to the first parameter's device if `None`.
        device: Option<Device> = None, Device => Some;
    }
}

impl From<()> for TrainerOpts {
    fn from((): ()) -> TrainerOpts {
        TrainerOpts::default()
    }
}
