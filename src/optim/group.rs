//! Parameters that move by one rule: their state, and the rule's options.

use crate::base::Result;
use crate::nn::Param;
use crate::optim::rule::Rule;
use crate::optim::state_owner::StateOwner;
use crate::optim::steps::StepCount;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// Parameters updated by one rule.
#[derive(Debug)]
pub struct Group<R> {
    /// The rule: the options of the optimizer.
    pub rule: R,
    pub(super) slots: Vec<ParamSlot>,
    /// The call that gave the options.
    pub(super) given: CallSite,
    /// What [`Optimizer::reduce_lr`](crate::optim::Optimizer::reduce_lr) has left of the learning rate.
    pub(super) reduction: f64,
    /// Whether the momentum has been set since.
    pub(super) momentum_set: bool,
}

/// A parameter and its state.
#[derive(Debug)]
pub(super) struct ParamSlot {
    pub(super) param: Param,
    /// Empty before the first step, and where another rank remembers it.
    pub(super) state: Vec<Tensor>,
    pub(super) steps: StepCount,
    /// Who remembers the state, if ranks divide it.
    pub(super) owner: Option<StateOwner>,
}

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

impl ParamSlot {
    pub(super) fn new(param: Param) -> ParamSlot {
        ParamSlot { param, state: Vec::new(), steps: StepCount::Known(0), owner: None }
    }

    pub(super) fn is_remembered_here(&self) -> bool {
        self.owner.as_ref().is_none_or(StateOwner::is_this_rank)
    }

    /// The state, in the parameter's type and on its device.
    pub(super) fn state_beside(&self, param: &Tensor, rule: &impl Rule) -> Vec<Tensor> {
        let beside = |x: &Tensor| {
            let there = if x.device() == param.device() { x.clone() } else { x.to(param.device()) };
            there.to_dtype(param.dtype())
        };
        // Options may have changed which state there is.
        let at = |(i, (_, start)): (usize, (&str, f64))| {
            self.state.get(i).map_or_else(|| param.full_like(start), beside)
        };
        rule.state().into_iter().enumerate().map(at).collect()
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
