//! When a training ends before its last epoch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::train::metric::Goal;

/// Asks a training to save its state and end after the step that it is at: a handle, cheap to clone. Setting it
/// is safe from any thread, and from a signal handler.
///
/// # Examples
/// ```
/// use kiln::train::StopFlag;
/// let flag = StopFlag::default();
/// flag.clone().set();
/// assert!(flag.is_set());
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks for the end. Whether it had been asked for before.
    pub fn set(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }
    /// Whether the end is asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends a training once a metric has got no better for some evaluations.
///
/// # Examples
/// ```
/// use kiln::train::EarlyStop;
/// let stop = EarlyStop::on("accuracy").patience(3).min_change(0.001);
/// assert_eq!(stop.metric(), "accuracy");
/// ```
#[derive(Clone, Debug)]
pub struct EarlyStop {
    metric: String,
    patience: u64,
    min_change: f64,
    /// The best value so far, and evaluations since.
    pub(super) best: Option<f64>,
    pub(super) bad: u64,
}

impl EarlyStop {
    /// On a metric, or on `loss`, without patience.
    pub fn on(metric: impl Into<String>) -> EarlyStop {
        EarlyStop { metric: metric.into(), patience: 0, min_change: 0.0, best: None, bad: 0 }
    }
    /// Evaluations without improvement that are borne.
    #[must_use]
    pub fn patience(mut self, evaluations: u64) -> EarlyStop {
        self.patience = evaluations;
        self
    }
    /// What counts as improvement.
    #[must_use]
    pub fn min_change(mut self, change: f64) -> EarlyStop {
        self.min_change = change;
        self
    }
    /// The metric's name.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Takes note of a value; whether to end.
    pub(super) fn is_over(&mut self, goal: Goal, value: f64) -> bool {
        if goal.is_better(value, self.best.unwrap_or(goal.worst()), self.min_change) {
            (self.best, self.bad) = (Some(value), 0);
        } else {
            self.bad += 1;
        }
        self.bad > self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_counts_evaluations_without_improvement() {
        let mut stop = EarlyStop::on("loss").patience(1).min_change(0.1);
        let over = [1.0, 0.95, 0.8, 0.75, f64::NAN].map(|value| stop.is_over(Goal::Least, value));
        assert_eq!(over, [false, false, false, false, true]);
        let mut stop = EarlyStop::on("accuracy");
        assert_eq!([0.5, 0.6, 0.6].map(|value| stop.is_over(Goal::Most, value)), [false, false, true]);
    }
}
