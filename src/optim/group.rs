//! A group's options: who gave them, and how they change.

use crate::base::Result;
use crate::optim::core::{Group, ParamSlot};
use crate::optim::rule::Rule;
use crate::tensor::compose::CallSite;

impl<R: Rule> Group<R> {
    /// Slots that move by a rule, which a call has given.
    pub(super) fn new(rule: R, slots: Vec<ParamSlot>, given: CallSite) -> Group<R> {
        Group { rule, slots, given, reduction: 1.0, momentum_set: false }
    }

    /// Fails for options that make no sense, by the line that gave them.
    pub(super) fn check(&self) -> Result<()> {
        self.rule.check().map_err(|refused| refused.at(self.given).into())
    }

    /// Changes options. What was wrong before stays the fault of who gave it; behind
    /// `dyn Optimizer` nothing is known of who calls.
    pub(super) fn change(&mut self, site: CallSite, change: impl FnOnce(&mut Group<R>)) {
        if site.span.is_users() && self.rule.check().is_ok() {
            self.given = site;
        }
        change(self);
    }

    /// Lowers the learning rate, and with it what schedules say from then on.
    pub(super) fn reduce(&mut self, factor: f64, floor: f64) {
        let before = self.rule.lr();
        let lr = reduced(before, factor, floor);
        self.rule.set_lr(lr);
        self.reduction *= if before > 0.0 { lr / before } else { factor };
    }

    pub(super) fn set_momentum(&mut self, momentum: f64) {
        self.momentum_set = self.rule.momentum().is_some();
        self.rule.set_momentum(momentum);
    }
}

/// `factor` of a learning rate, but not below `floor` unless it was; NaN, which optimizers refuse,
/// for a factor outside `0.0..1.0`.
pub(super) fn reduced(lr: f64, factor: f64, floor: f64) -> f64 {
    if !(0.0..1.0).contains(&factor) {
        return f64::NAN;
    }
    let lower = lr * factor;
    if lower < floor { floor.min(lr) } else { lower }
}
