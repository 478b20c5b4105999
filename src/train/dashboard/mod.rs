//! A picture of a training on a terminal.

mod axis;
mod screen;
mod status;
#[cfg(test)]
mod tests;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::progress::{Progress, Task, replace_progress};
use crate::base::{Error, Result};
use crate::plan::PlanReport;
use crate::train::record::{Logger, Phase, Record, StepRecord, Summary};
use screen::Screen;
use status::{Predicted, Status};

/// The least time between two looks at the memory.
const LOOK: Duration = Duration::from_millis(250);

/// Shows a training on a terminal while it runs: curves of all that is recorded, steps and samples a second, the time
/// that is left, the memory of the model's device, and what the plans of a step predict.
///
/// It takes the whole terminal, and leaves it as it was when the training ends, however it does: with an error, by a
/// panic, by Ctrl-C, which then does what it does without. `q` ends the picture alone. Where standard input, output
/// or error is no terminal, and after `q`, records are plain lines on standard error. What the program prints
/// meanwhile disturbs the picture.
///
/// # Examples
/// ```
/// use kiln::nn::{Layer, Linear, ModuleExt};
/// use kiln::optim::{Sgd, SgdOpts};
/// use kiln::prelude::*;
/// use kiln::train::{Dashboard, Trainer, TrainerOpts};
/// let model = Linear::new(1, 1, ());
/// let optimizer = Sgd::new(model.parameters(), SgdOpts::default());
/// let forward = |model: &Linear, x: &Tensor| model.forward(x).square().mean(..);
/// let trainer = Trainer::new(model, optimizer, forward, TrainerOpts::default());
/// let dashboard = Dashboard::new().title("a line");
/// assert_eq!(format!("{dashboard:?}"), "Dashboard(\"a line\")");
/// let trainer = trainer.log_to(dashboard);
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct Dashboard {
    status: Arc<Mutex<Status>>,
    screen: Option<Screen>,
    /// Who showed progress before.
    progress: Option<Arc<dyn Progress>>,
    looked: Option<Instant>,
    /// The last of each phase.
    records: Vec<Record>,
}

impl Dashboard {
    /// A dashboard that shows itself when the training begins.
    pub fn new() -> Dashboard {
        let status = Arc::new(Mutex::new(Status::new("training", Instant::now())));
        Dashboard { status, screen: None, progress: None, looked: None, records: Vec::new() }
    }

    /// What stands at its top.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Dashboard {
        self.status().title = title.into();
        self
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        lock(&self.status)
    }

    fn is_shown(&self) -> bool {
        self.screen.as_ref().is_some_and(Screen::is_shown)
    }

    /// Gives the terminal back; says whether the picture was there.
    fn hide(&mut self) -> bool {
        let was_shown = self.is_shown();
        if self.screen.take().is_some() {
            replace_progress(self.progress.take());
        }
        was_shown
    }
}

impl Default for Dashboard {
    fn default() -> Dashboard {
        Dashboard::new()
    }
}

fn lock(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Logger for Dashboard {
    fn begin(&mut self, _steps: u64) -> Result<()> {
        self.status().began = Instant::now();
        self.screen = Screen::show(&self.status);
        if self.screen.is_some() {
            self.progress = replace_progress(Some(Arc::new(Working(self.status.clone()))));
        }
        Ok(())
    }

    fn step(&mut self, step: &StepRecord) -> Result<()> {
        let now = Instant::now();
        if self.is_shown() && self.looked.is_none_or(|at| now.duration_since(at) >= LOOK) {
            self.looked = Some(now);
            let memory = step.device.memory_stats().ok();
            self.status().memory = memory;
        }
        self.status().step(step, now);
        Ok(())
    }

    fn wants_plans(&self) -> bool {
        // The first step makes state that the others find.
        let status = self.status();
        self.is_shown() && status.step.is_some() && status.predicted.is_none()
    }

    fn plans(&mut self, plans: &[PlanReport]) -> Result<()> {
        let predicted = predicted(plans);
        if let Some(device) = self.status().step.map(|step| step.device) {
            // What measuring the device took is no part of the training.
            let _ = device.reset_peak_memory_stats();
        }
        self.status().predicted = Some(predicted);
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<()> {
        self.status().record(record);
        self.records.retain(|last| last.phase != record.phase);
        self.records.push(record.clone());
        if !self.is_shown() {
            eprintln!("{record}");
        }
        Ok(())
    }

    fn finish(&mut self, _summary: &Summary) -> Result<()> {
        if self.hide() {
            // What the picture showed last stays in the terminal.
            for phase in [Phase::Train, Phase::Validation] {
                self.records.iter().filter(|last| last.phase == phase).for_each(|last| eprintln!("{last}"));
            }
        }
        Ok(())
    }

    fn fail(&mut self, _error: &Error) {
        self.hide();
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.hide();
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dashboard({:?})", self.status().title)
    }
}

/// What plans predict together, one after the other.
fn predicted(plans: &[PlanReport]) -> Predicted {
    let seconds = |plan: &PlanReport| {
        let device = plan.kernels.first()?.device;
        Some(plan.roofline(device).ok()?.seconds())
    };
    Predicted {
        kernels: plans.iter().map(PlanReport::launches).sum(),
        bytes: plans.iter().map(PlanReport::bytes_moved).fold(0, u64::saturating_add),
        peak: plans.iter().map(PlanReport::peak_bytes).max().unwrap_or(0),
        seconds: plans.iter().map(seconds).sum(),
    }
}

/// Shows what else takes long: planning and compiling before the first step.
struct Working(Arc<Mutex<Status>>);

impl Progress for Working {
    fn report(&self, task: Task, done: u64, total: u64) {
        // A training tells of its steps itself.
        if task != Task::Train {
            lock(&self.0).task = (done < total).then_some((task, done, total));
        }
    }
}
