//! Updates of parameters in one piece of memory, and how they are rolled back.

use std::sync::{Arc, Weak};

use crate::base::{Result, Span};
use crate::ir::Node;
use crate::ir::history::GradSum;
use crate::ir::pending::Holder;
use crate::optim::group::{Group, ParamSlot};
use crate::optim::rule::{Rule, Update, UpdateInput};
use crate::optim::steps::{StepCount, StepNumbers, StepOf};
use crate::plan::fallback::looks_up;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::pack::{Pack, alike};

/// Parameters of a group that are updated together, as one piece of memory.
pub(super) struct PackedUpdate {
    /// Their slots.
    pub(super) slots_of: Vec<usize>,
    pack: Pack,
    /// What they and their state were, each in one piece.
    pub(super) param: Tensor,
    pub(super) state: Vec<Tensor>,
    /// Whether there was no state yet.
    first: bool,
    pub(super) update: Update,
    pub(super) step: StepOf,
}

/// A parameter that has a gradient.
struct MovingParam {
    place: usize,
    param: Tensor,
    grad: Tensor,
    /// Whether the gradient is one, where only the device knows.
    present: Option<Tensor>,
}

impl<R: Rule> Group<R> {
    /// The updates of the parameters that have gradients.
    pub(super) fn packed_updates(&self, site: CallSite, skip: Option<&Tensor>) -> Result<Vec<PackedUpdate>> {
        let mut moving: Vec<MovingParam> = Vec::new();
        for (place, slot) in self.slots.iter().enumerate() {
            if let Some(GradSum { node, presence }) = slot.param.cell().sum() {
                let param = slot.param.get();
                param.check()?;
                let grad = Tensor::from_node(node);
                let present = presence.and_then(|presence| presence.held()).map(Tensor::from_node);
                moving.push(MovingParam { place, param, grad, present });
            }
        }
        let gradients = || moving.iter().filter_map(|moving| moving.grad.node().ok().cloned()).collect();
        let looks_up = || looks_up(gradients());
        let mut numbers = StepNumbers::new(site, &self.rule, skip, &looks_up);
        let key = |MovingParam { place, param, grad, present }: &MovingParam| {
            let slot = &self.slots[*place];
            (
                param.dtype(),
                param.device(),
                grad.dtype(),
                grad.device(),
                slot.steps.clone(),
                slot.owner.as_ref().map(|owner| owner.rank),
                slot.param.cell().division(),
                slot.is_remembered_here() && slot.state.is_empty(),
                present.as_ref().and_then(Tensor::peek).map(Arc::as_ptr),
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
        moving: &[MovingParam],
        members: &[usize],
        numbers: &mut StepNumbers<'_, R>,
    ) -> Result<PackedUpdate> {
        let slots_of: Vec<usize> = members.iter().map(|&i| moving[i].place).collect();
        let params: Vec<Tensor> = members.iter().map(|&i| moving[i].param.clone()).collect();
        let grads: Vec<Tensor> = members.iter().map(|&i| moving[i].grad.clone()).collect();
        let present = moving[members[0]].present.as_ref();
        let shapes = params.iter().map(Tensor::shape).collect();
        let pack = Pack::new(site, shapes, params[0].dtype(), params[0].device());
        let (param, grad) = (pack.whole(&params)?, pack.whole(&grads)?);
        let slot = &self.slots[slots_of[0]];
        let (first, step) = (slot.state.is_empty(), numbers.at(&slot.steps, &param, present)?);
        let mut state = Vec::new();
        let mut update = Update { param: param.clone(), state: Vec::new() };
        if slot.is_remembered_here() {
            state = self.packed_state(&pack, &slots_of, &param, &params)?;
            let at = UpdateInput { param: &param, grad: &grad, state: &state, numbers: &step.numbers };
            update = self.updated(site, &at, step.skip.as_ref())?;
        }
        if let Some(owner) = &slot.owner {
            update.param = owner.broadcast(site, &update.param);
        }
        Ok(PackedUpdate { slots_of, pack, param, state, first, update, step })
    }

    /// What the rule remembers of some parameters, each in one piece.
    fn packed_state(
        &self,
        pack: &Pack,
        slots_of: &[usize],
        param: &Tensor,
        params: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        if self.slots[slots_of[0]].state.is_empty() {
            return Ok(self.rule.state().into_iter().map(|(_, start)| param.full_like(start)).collect());
        }
        let slots = slots_of.iter().map(|&place| &self.slots[place]);
        let states: Vec<Vec<Tensor>> =
            slots.zip(params).map(|(slot, param)| slot.state_beside(param, &self.rule)).collect();
        let part = |k: usize| states.iter().map(|state| state[k].clone()).collect::<Vec<Tensor>>();
        (0..states[0].len()).map(|k| pack.whole(&part(k))).collect()
    }

    /// The update by the rule, unless it is to be skipped.
    fn updated(&self, site: CallSite, at: &UpdateInput<'_>, skip: Option<&Tensor>) -> Result<Update> {
        let (update, param) = (self.rule.update(at), at.param);
        // Numbers of a wider type must not widen what they change.
        let narrow = |x: Tensor| site.cast(&x, param.dtype());
        let update =
            Update { param: narrow(update.param), state: update.state.into_iter().map(narrow).collect() };
        update.check(site, param)?;
        Ok(match skip {
            Some(skip) => update.unless(site, skip, param, at.state),
            None => update,
        })
    }
}

impl PackedUpdate {
    /// Applies the update. The old values are held weakly from then on: the
    /// new values, while they are not computed, hold it; and a value that only
    /// they hold can be overwritten by them.
    pub(super) fn take(self, group: usize, slots: &mut [ParamSlot], span: Span) -> Result<Undo> {
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

/// How to roll back a step of some parameters.
pub(super) struct Undo {
    group: usize,
    /// Their slots, and what was put in.
    pub(super) slots_of: Vec<(usize, Arc<Node>)>,
    pack: Pack,
    param: Weak<Node>,
    update: Arc<Node>,
    /// Empty if there was no state.
    state: Vec<Weak<Node>>,
    steps: StepCount,
}

impl Undo {
    pub(super) fn run<R>(self, groups: &mut [Group<R>]) {
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
