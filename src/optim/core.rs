//! The core that all optimizers share.
//!
//! Parameters of a group that are equally far move together: they, their
//! gradients and each of their states are packed, and the rule works on the
//! packs. Updated parameters are contiguous in memory; each is a
//! view of it, and the next step finds the pack there. Whatever else is put into
//! a parameter is copied into a pack by the next step.

use std::sync::Arc;

use crate::base::region::OPTIMIZER;
use crate::base::{DType, OpError, Region, Result, Span};
use crate::grad::without_grad;
use crate::io::StateDict;
use crate::ir::Node;
use crate::ir::collective::Channel;
use crate::ir::pending::StateScope;
use crate::nn::Param;
use crate::optim::group::{Group, ParamSlot, reduced};
use crate::optim::packed_update::{PackedUpdate, Undo};
use crate::optim::rule::{Rule, Update};
use crate::optim::state_owner::StateRanks;
use crate::plan;
use crate::plan::fallback::Replacement;
use crate::plan::realize::RealizeHook;
use crate::runtime::trace;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

#[cfg(test)]
mod tests;

/// Updates parameters by their gradients.
pub trait Optimizer {
    /// Updates every parameter that has a gradient, and computes everything that
    /// is pending on the same work: gradients, the loss,
    /// running statistics. One plan.
    ///
    /// # Errors
    /// An error recorded in a gradient, or what
    /// [`Tensor::realize`](crate::Tensor::realize) says. Parameters and state
    /// are then as they were. A GPU tells of an index out of range when the host next waits for it: the step has
    /// moved nothing, and no later one depends on how many there were.
    #[track_caller]
    fn step(&mut self) -> Result<()>;
    /// [`Optimizer::step`], of which nothing is left where `skip`, a truth value of rank 0, holds:
    /// parameters, state and counts of steps are then as they were. Nobody waits for `skip`, which the step
    /// computes too: the device selects, and counts the steps from then on. [`GradScaler`] steps so.
    ///
    /// # Errors
    /// As [`Optimizer::step`]; a `skip` that is no such value.
    ///
    /// # Examples
    /// ```
    /// use kiln::nn::Param;
    /// use kiln::optim::{Optimizer, Sgd, SgdOpts};
    /// use kiln::prelude::*;
    /// let weight = Param::new(Tensor::from([1.0f32]));
    /// let mut optimizer = Sgd::new([weight.clone()], SgdOpts::default().lr(0.5));
    /// for overflowed in [true, false] {
    ///     weight.set_grad(Some(&Tensor::from([1.0f32])))?;
    ///     optimizer.step_unless(&Tensor::full((), overflowed, ()))?;
    /// }
    /// assert_eq!(weight.get().to_vec::<f32>()?, [0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// [`GradScaler`]: crate::optim::GradScaler
    #[track_caller]
    fn step_unless(&mut self, skip: &Tensor) -> Result<()>;
    /// The parameters, group after group.
    fn parameters(&self) -> Vec<Param>;
    /// Number of groups of parameters.
    fn groups(&self) -> usize;
    /// The learning rate of a group; NaN for one that there is not.
    fn lr(&self, group: usize) -> f64;
    /// Sets the learning rate of a group, if there is one of this number. A number that is
    /// none for a learning rate makes the next [`Optimizer::step`] fail.
    #[track_caller]
    fn set_lr(&mut self, group: usize, lr: f64);
    /// Lowers the learning rate of a group to `factor` (at least 0, less than 1) of it, but not
    /// below `floor`, and by as much all that a [`Scheduler`](crate::optim::Scheduler) sets later.
    #[track_caller]
    fn reduce_lr(&mut self, group: usize, factor: f64, floor: f64) {
        let lr = self.lr(group);
        self.set_lr(group, reduced(lr, factor, floor));
    }
    /// Share of what a schedule says that [`Optimizer::reduce_lr`] has left.
    fn reduction(&self, _group: usize) -> f64 {
        1.0
    }
    /// Share of the last direction, or of the mean of earlier gradients, that a step of a group
    /// keeps: momentum, or the first of Adam's betas. `None` for a rule without such.
    fn momentum(&self, _group: usize) -> Option<f64> {
        None
    }
    /// Sets what [`Optimizer::momentum`] says, if there is such.
    #[track_caller]
    fn set_momentum(&mut self, _group: usize, _momentum: f64) {}
    /// The learning rates, and of each parameter, by number, its steps and what
    /// the rule remembers: `groups.0.lr`, `groups.0.params.3.exp_avg`.
    ///
    /// # Errors
    /// The error recorded in a parameter; [`crate::Error::Collective`] where ranks divide the state.
    fn state_dict(&self) -> Result<StateDict>;
    /// Resumes from a saved state. Load the parameters first: the state goes
    /// to their devices.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with every name that is missing
    /// or not expected and every type and shape that differs; what realizing
    /// the state says. The optimizer is then as it was.
    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()>;
    /// Forgets all gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Param::zero_grad);
    }
}

/// Updates parameters by a rule.
#[derive(Debug)]
pub struct OptimizerCore<R> {
    pub(super) groups: Vec<Group<R>>,
    /// Who divides the state, if ranks do.
    ranks: Option<StateRanks>,
}

impl<R: Rule> OptimizerCore<R> {
    /// Updates these parameters; one that appears twice counts once. Options that make no
    /// sense, such as a negative learning rate, make [`Optimizer::step`] fail.
    #[track_caller]
    pub fn new(params: impl IntoIterator<Item = Param>, rule: R) -> OptimizerCore<R> {
        let mut core = OptimizerCore {
            groups: vec![Group::new(rule, Vec::new(), CallSite::here("optimizer"))],
            ranks: None,
        };
        for param in params {
            if !core.holds(&param) {
                core.groups[0].slots.push(ParamSlot::new(param));
            }
        }
        core
    }

    /// Updates these parameters too, by a rule of their own.
    ///
    /// # Errors
    /// A parameter that is there already, or options that make no sense. Nothing is then added.
    #[track_caller]
    pub fn add_group(&mut self, params: impl IntoIterator<Item = Param>, rule: R) -> Result<()> {
        let site = CallSite::here("add_group");
        let span = site.span;
        rule.check().map_err(|refused| refused.at(site))?;
        let params: Vec<Param> = params.into_iter().collect();
        if let Some(at) = params.iter().position(|param| self.holds(param)) {
            let expected = "parameters that are in no group yet";
            let error = OpError::new("add_group", span, expected, format!("parameter {at}, which is in one"));
            return Err(error.with_shapes([params[at].shape()]).into());
        }
        let mut slots: Vec<ParamSlot> = params.into_iter().map(ParamSlot::new).collect();
        if let Some(ranks) = &mut self.ranks {
            ranks.divide(slots.iter_mut());
        }
        self.groups.push(Group::new(rule, slots, site));
        Ok(())
    }

    /// Divides what the rule remembers among ranks, unless it is divided already: what others remember is not here.
    pub(crate) fn divided(mut self, channel: Arc<dyn Channel>) -> OptimizerCore<R> {
        if self.ranks.is_some() || channel.size() == 1 {
            return self;
        }
        let mut ranks = StateRanks::new(channel);
        ranks.divide(self.groups.iter_mut().flat_map(|group| &mut group.slots));
        self.ranks = Some(ranks);
        self
    }

    /// The groups.
    #[track_caller]
    pub fn groups_mut(&mut self) -> &mut [Group<R>] {
        let site = CallSite::here("groups_mut");
        self.groups.iter_mut().for_each(|group| group.change(site, |_| ()));
        &mut self.groups
    }

    /// The updates of every parameter that has a gradient: what to compute, and the step that
    /// applies it.
    fn advance(
        &mut self,
        site: CallSite,
        skip: Option<&Tensor>,
    ) -> Result<(Vec<Arc<Node>>, PendingStep<'_, R>)> {
        let _line = site.span.enter();
        self.groups.iter().try_for_each(Group::check)?;
        let packed_updates =
            self.groups.iter().map(|group| group.packed_updates(site, skip)).collect::<Result<Vec<_>>>()?;
        let (mut targets, mut gradients) = (Vec::new(), Vec::new());
        for (group, packed_update) in
            self.groups.iter().zip(&packed_updates).flat_map(|(g, s)| s.iter().map(move |s| (g, s)))
        {
            let Update { param, state } = &packed_update.update;
            for tensor in std::iter::once(param).chain(state).chain(packed_update.step.after.counted()) {
                targets.push(tensor.node()?.clone());
            }
            let params = packed_update.slots_of.iter().map(|&place| &group.slots[place].param);
            for gradient in params.filter_map(Param::grad_in_memory) {
                gradients.push(gradient.node()?.clone());
            }
        }
        targets.extend(gradients);
        if let Some(skip) = skip {
            targets.push(skip.node()?.clone());
        }
        Ok((
            targets,
            PendingStep { groups: &mut self.groups, packed_updates, done: Vec::new(), span: site.span },
        ))
    }

    fn step_at(&mut self, site: CallSite, skip: Option<&Tensor>) -> Result<()> {
        without_grad(|| {
            let _region = trace::is_on().then(|| Region::current().inside(OPTIMIZER).enter());
            let (targets, mut advance) = self.advance(site, skip)?;
            plan::realize_as(&targets, site.span, StateScope::All, &mut advance)
        })
    }

    fn holds(&self, param: &Param) -> bool {
        self.groups.iter().flat_map(|group| &group.slots).any(|slot| slot.param.ptr_eq(param))
    }
}

impl<R: Rule> Optimizer for OptimizerCore<R> {
    #[track_caller]
    fn step(&mut self) -> Result<()> {
        self.step_at(CallSite::here("step"), None)
    }
    #[track_caller]
    fn step_unless(&mut self, skip: &Tensor) -> Result<()> {
        let site = CallSite::here("step_unless");
        check_skip(site, skip)?;
        self.step_at(site, Some(skip))
    }

    fn parameters(&self) -> Vec<Param> {
        self.groups.iter().flat_map(|group| &group.slots).map(|slot| slot.param.clone()).collect()
    }
    fn groups(&self) -> usize {
        self.groups.len()
    }
    fn lr(&self, group: usize) -> f64 {
        self.groups.get(group).map_or(f64::NAN, |group| group.rule.lr())
    }
    #[track_caller]
    fn set_lr(&mut self, group: usize, lr: f64) {
        let site = CallSite::here("set_lr");
        if let Some(group) = self.groups.get_mut(group) {
            group.change(site, |group| group.rule.set_lr(lr));
        }
    }
    #[track_caller]
    fn reduce_lr(&mut self, group: usize, factor: f64, floor: f64) {
        let site = CallSite::here("reduce_lr");
        if let Some(group) = self.groups.get_mut(group) {
            group.change(site, |group| group.reduce(factor, floor));
        }
    }
    fn reduction(&self, group: usize) -> f64 {
        self.groups.get(group).map_or(1.0, |group| group.reduction)
    }
    fn momentum(&self, group: usize) -> Option<f64> {
        self.groups.get(group)?.rule.momentum()
    }
    #[track_caller]
    fn set_momentum(&mut self, group: usize, momentum: f64) {
        let site = CallSite::here("set_momentum");
        if let Some(group) = self.groups.get_mut(group) {
            group.change(site, |group| group.set_momentum(momentum));
        }
    }

    fn state_dict(&self) -> Result<StateDict> {
        self.saved_on_all_ranks(Span::caller())
    }

    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        self.resume(state, Span::caller())
    }
}

/// Fails for what does not say whether to skip a step.
pub(super) fn check_skip(site: CallSite, skip: &Tensor) -> Result<()> {
    let ty = skip.node()?.ty();
    if ty.shape.rank() == 0 && ty.dtype == DType::Bool {
        return Ok(());
    }
    Err(site.error("a truth value of rank 0", ty.to_string(), &[skip]))
}

/// A step of an optimizer: applies the updates, or rolls them back.
struct PendingStep<'a, R> {
    groups: &'a mut [Group<R>],
    /// By group.
    packed_updates: Vec<Vec<PackedUpdate>>,
    done: Vec<Undo>,
    span: Span,
}

impl<R> RealizeHook for PendingStep<'_, R> {
    fn replacements(&self) -> Result<Vec<Replacement>> {
        let mut found = Vec::new();
        for packed in self.packed_updates.iter().flatten() {
            let (new, before) = (&packed.update, &packed.state);
            let pairs = new.state.iter().zip(before).chain(std::iter::once((&new.param, &packed.param)));
            for (new, before) in pairs {
                found.push((new.node()?.clone(), Some(before.node()?.clone())));
            }
            if let (Some(new), Some(before)) = (packed.step.after.counted(), packed.step.before.counted()) {
                found.push((new.node()?.clone(), Some(before.node()?.clone())));
            }
        }
        Ok(found)
    }

    fn begin(&mut self) -> Result<Vec<Arc<Node>>> {
        for (number, packed_updates) in std::mem::take(&mut self.packed_updates).into_iter().enumerate() {
            for packed_update in packed_updates {
                self.done.push(packed_update.take(number, &mut self.groups[number].slots, self.span)?);
            }
        }
        Ok(self.done.iter().flat_map(|undo| &undo.slots_of).map(|(_, put)| put.clone()).collect())
    }

    fn undo(&mut self) {
        self.done.drain(..).for_each(|undo| undo.run(self.groups));
    }
}
