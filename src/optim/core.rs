//! The core that all optimizers share.
//!
//! Parameters of a group that are equally far move together: they, their
//! gradients and each of their states are packed, and the rule works on the
//! packs. Updated parameters are contiguous in memory; each is a
//! view of it, and the next step finds the pack there. Whatever else is put into
//! a parameter is copied into a pack by the next step.

use std::sync::{Arc, Weak};

use crate::base::region::OPTIMIZER;
use crate::base::{DType, OpError, Region, Result, Span};
use crate::grad::without_grad;
use crate::io::StateDict;
use crate::ir::Node;
use crate::ir::pending::StateScope;
use crate::nn::Param;
use crate::optim::group::reduced;
use crate::optim::rule::{Rule, Update, UpdateInput};
use crate::optim::steps::{StepCount, StepNumbers, StepOf};
use crate::plan;
use crate::plan::fallback::Replacement;
use crate::plan::realize::RealizeHook;
use crate::runtime::trace;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::pack::{Pack, alike};

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
    /// moved nothing, and no later one depends on how many there were, unless the index was one that a loop
    /// computed, or one of which only a part is read.
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
    /// The error recorded in a parameter.
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
}

/// Parameters updated by one rule.
#[derive(Debug)]
pub struct Group<R> {
    /// The rule: the options of the optimizer.
    pub rule: R,
    pub(super) slots: Vec<ParamSlot>,
    /// The call that gave the options.
    pub(super) given: CallSite,
    /// What [`Optimizer::reduce_lr`] has left of the learning rate.
    pub(super) reduction: f64,
    /// Whether the momentum has been set since.
    pub(super) momentum_set: bool,
}

/// A parameter and its state.
#[derive(Debug)]
pub(super) struct ParamSlot {
    pub(super) param: Param,
    /// Empty before the first step.
    pub(super) state: Vec<Tensor>,
    pub(super) steps: StepCount,
}

impl<R: Rule> OptimizerCore<R> {
    /// Updates these parameters; one that appears twice counts once. Options that make no
    /// sense, such as a negative learning rate, make [`Optimizer::step`] fail.
    #[track_caller]
    pub fn new(params: impl IntoIterator<Item = Param>, rule: R) -> OptimizerCore<R> {
        let mut core =
            OptimizerCore { groups: vec![Group::new(rule, Vec::new(), CallSite::here("optimizer"))] };
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
        self.groups.push(Group::new(rule, params.into_iter().map(ParamSlot::new).collect(), site));
        Ok(())
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
            for gradient in packed_update.slots_of.iter().filter_map(|&place| group.slots[place].param.grad())
            {
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
        let scalar = skip.node()?.ty().shape.rank() == 0 && skip.dtype() == DType::Bool;
        if !scalar {
            return Err(site.error("a truth value of rank 0", skip.node()?.ty().to_string(), &[skip]));
        }
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
        self.saved()
    }

    #[track_caller]
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        self.resume(state, Span::caller())
    }
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
                found.push((new.node()?.clone(), before.node()?.clone()));
            }
            if let (Some(new), Some(before)) = (packed.step.after.counted(), packed.step.before.counted()) {
                found.push((new.node()?.clone(), before.node()?.clone()));
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

/// Parameters of a group that are updated together, as one piece of memory.
struct PackedUpdate {
    /// Their slots.
    slots_of: Vec<usize>,
    pack: Pack,
    /// What they and their state were, each in one piece.
    param: Tensor,
    state: Vec<Tensor>,
    /// Whether there was no state yet.
    first: bool,
    update: Update,
    step: StepOf,
}

impl<R: Rule> Group<R> {
    /// The updates of the parameters that have gradients.
    fn packed_updates(&self, site: CallSite, skip: Option<&Tensor>) -> Result<Vec<PackedUpdate>> {
        let mut numbers = StepNumbers::new(site, &self.rule, skip);
        let mut moving: Vec<(usize, Tensor, Tensor)> = Vec::new();
        for (place, slot) in self.slots.iter().enumerate() {
            if let Some(grad) = slot.param.grad() {
                let param = slot.param.get();
                param.check()?;
                moving.push((place, param, grad));
            }
        }
        let key = |(place, param, grad): &(usize, Tensor, Tensor)| {
            let slot = &self.slots[*place];
            (
                param.dtype(),
                param.device(),
                grad.dtype(),
                grad.device(),
                slot.steps.clone(),
                slot.state.is_empty(),
            )
        };
        let together = alike(moving.iter().map(key));
        together
            .into_iter()
            .map(|members| self.packed_update(site, &moving, &members, &mut numbers))
            .collect()
    }

    fn packed_update(
        &self,
        site: CallSite,
        moving: &[(usize, Tensor, Tensor)],
        members: &[usize],
        numbers: &mut StepNumbers<'_, R>,
    ) -> Result<PackedUpdate> {
        let slots_of: Vec<usize> = members.iter().map(|&i| moving[i].0).collect();
        let params: Vec<Tensor> = members.iter().map(|&i| moving[i].1.clone()).collect();
        let grads: Vec<Tensor> = members.iter().map(|&i| moving[i].2.clone()).collect();
        let shapes = params.iter().map(Tensor::shape).collect();
        let pack = Pack::new(site, shapes, params[0].dtype(), params[0].device());
        let (param, grad) = (pack.whole(&params)?, pack.whole(&grads)?);
        let first = self.slots[slots_of[0]].state.is_empty();
        let state: Vec<Tensor> = if first {
            self.rule.state().into_iter().map(|(_, start)| param.full_like(start)).collect()
        } else {
            let states: Vec<Vec<Tensor>> = slots_of
                .iter()
                .zip(&params)
                .map(|(&place, param)| self.slots[place].state_beside(param, &self.rule))
                .collect();
            let part = |k: usize| states.iter().map(|state| state[k].clone()).collect::<Vec<Tensor>>();
            (0..states[0].len()).map(|k| pack.whole(&part(k))).collect::<Result<_>>()?
        };
        let step = numbers.at(&self.slots[slots_of[0]].steps, &param)?;
        let update = self.rule.update(&UpdateInput {
            param: &param,
            grad: &grad,
            state: &state,
            numbers: &step.numbers,
        });
        // Numbers of a wider type must not widen what they change.
        let narrow = |x: Tensor| site.cast(&x, param.dtype());
        let update =
            Update { param: narrow(update.param), state: update.state.into_iter().map(narrow).collect() };
        update.check(site, &param)?;
        let update = match numbers.skip(param.device()) {
            Some(skip) => update.unless(site, &skip, &param, &state),
            None => update,
        };
        Ok(PackedUpdate { slots_of, pack, param, state, first, update, step })
    }
}

impl PackedUpdate {
    /// Applies the update. The old values are held weakly from then on: the
    /// new values, while they are not computed, hold it; and a value that only
    /// they hold can be overwritten by them.
    fn take(self, group: usize, slots: &mut [ParamSlot], span: Span) -> Result<Undo> {
        let weak = |x: &Tensor| x.node().map(Arc::downgrade);
        let (param, update) = (weak(&self.param)?, self.update.param.node()?.clone());
        let state =
            if self.first { Vec::new() } else { self.state.iter().map(weak).collect::<Result<_>>()? };
        let mut slots_of = Vec::with_capacity(self.slots_of.len());
        let mut steps = StepCount::Known(0);
        for (number, &place) in self.slots_of.iter().enumerate() {
            let slot = &mut slots[place];
            slots_of.push((place, slot.param.advance(&self.pack.part(&self.update.param, number), span)?));
            slot.state = self.update.state.iter().map(|whole| self.pack.part(whole, number)).collect();
            steps = std::mem::replace(&mut slot.steps, self.step.after.clone());
        }
        Ok(Undo { group, slots_of, pack: self.pack, param, update, state, steps })
    }
}

impl ParamSlot {
    fn new(param: Param) -> ParamSlot {
        ParamSlot { param, state: Vec::new(), steps: StepCount::Known(0) }
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

/// How to roll back a step of some parameters.
struct Undo {
    group: usize,
    /// Their slots, and what was put in.
    slots_of: Vec<(usize, Arc<Node>)>,
    pack: Pack,
    param: Weak<Node>,
    update: Arc<Node>,
    /// Empty if there was no state.
    state: Vec<Weak<Node>>,
    steps: StepCount,
}

impl Undo {
    fn run<R>(self, groups: &mut [Group<R>]) {
        // All of it before anything is dropped.
        let old = self.param.upgrade();
        let state: Vec<Tensor> = self.state.iter().filter_map(Weak::upgrade).map(Tensor::from_node).collect();
        for (number, (place, put)) in self.slots_of.iter().enumerate() {
            let slot = &mut groups[self.group].slots[*place];
            slot.param.retract(put);
            slot.state = state.iter().map(|whole| self.pack.part(whole, number)).collect();
            slot.steps = self.steps.clone();
        }
        // A thread that holds the new parameters reads the old values: it saw a state between steps.
        if let Some(value) = old.as_ref().and_then(|param| param.value()) {
            self.update.set_value(value.clone());
        }
    }
}
