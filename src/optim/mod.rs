//! Optimizers: updates of parameters by their gradients.
//!
//! An optimizer is [`OptimizerCore`] by a [`Rule`]: the rule is a few lines of
//! tensor arithmetic on one parameter, its gradient and what is remembered of
//! earlier steps. What changes from step to step (the learning rate, the
//! corrections that depend on the number of steps) are arguments of the plan,
//! so nothing is planned or compiled again.
//!
//! [`Optimizer::step`] computes the new parameters, the state, the gradients,
//! the loss they came from and the statistics that the forward pass set, all
//! in one plan.
//!
//! ```
//! use kiln::nn::{Layer, Linear, ModuleExt};
//! use kiln::optim::{Optimizer, Sgd, SgdOpts};
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! kiln::manual_seed(1);
//! let line = Linear::new(1, 1, ());
//! let mut opt = Sgd::new(line.parameters(), SgdOpts::default().lr(0.1).momentum(0.9));
//! let x = Tensor::linspace(-1.0, 1.0, 16, ()).reshape([16, 1]);
//! let y = &x * 3.0 + 0.5;
//! let mut last = f64::INFINITY;
//! for _ in 0..200 {
//!     opt.zero_grad();
//!     let loss = (line.forward(&x) - &y).square().mean(..);
//!     loss.backward()?;
//!     opt.step()?;
//!     last = loss.item::<f64>()?; // computed by the step
//! }
//! assert!(last < 1e-4);
//! # Ok(())
//! # }
//! ```

mod adagrad;
mod adam;
mod check;
mod clip;
mod core;
mod division;
mod estimate;
mod grad_scaler;
mod group;
mod lion;
mod packed_update;
mod rmsprop;
mod rule;
mod schedule;
mod sgd;
mod state;
mod state_owner;
mod steps;

pub use adagrad::{Adagrad, AdagradOpts};
pub use adam::{Adam, AdamOpts, AdamW, AdamWOpts};
pub use check::Refused;
pub use clip::{clip_grad_norm, clip_grad_value};
pub use core::{Optimizer, OptimizerCore};
pub use estimate::{Estimate, Needs, estimate};
pub use grad_scaler::{GradScaler, GradScalerOpts};
pub use group::Group;
pub use lion::{Lion, LionOpts};
pub use rmsprop::{RmsProp, RmsPropOpts};
pub use rule::{Rule, Update, UpdateInput};
pub use schedule::{Cosine, OneCycle, Plateau, Schedule, Scheduler, StepDecay, WarmUp};
pub use sgd::{Sgd, SgdOpts};
pub use steps::StepNumber;
