//! Saving optimizers and schedules.

use crate::base::{Device, Element, Result, Span};
use crate::io::{ExpectedTensor, StateDict};
use crate::optim::core::OptimizerCore;
use crate::optim::group::{Group, ParamSlot};
use crate::optim::rule::Rule;
use crate::optim::schedule::{Plateau, Scheduler};
use crate::optim::steps::StepCount;
use crate::plan;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;

/// A number as a tensor in host memory.
fn number<T: Element>(number: T) -> Tensor {
    Tensor::from_vec(vec![number], (), Device::cpu())
}

impl<R: Rule> OptimizerCore<R> {
    /// All state. Where ranks divide it, they compute it together now: of later readers there may be one.
    pub(super) fn saved_on_all_ranks(&self, span: Span) -> Result<StateDict> {
        let site = CallSite { name: "state_dict", span };
        let mut divided = Vec::new();
        let state = self.saved(&mut |slot, tensor| {
            let Some(owner) = &slot.owner else { return Ok(tensor) };
            let tensor = owner.broadcast(site, &tensor);
            divided.push(tensor.node()?.clone());
            Ok(tensor)
        })?;
        plan::realize(&divided, span)?;
        Ok(state)
    }

    fn saved(&self, whole: Whole<'_>) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (at, group) in self.groups.iter().enumerate() {
            state.extend(&group_name(at), group.saved(whole)?)?;
        }
        Ok(state)
    }

    /// Reads everything before it changes anything, since reading can fail.
    pub(super) fn resume(&mut self, state: &StateDict, span: Span) -> Result<()> {
        let mut targets = self.saved(&mut |_, tensor| Ok(tensor))?.targets();
        for name in (0..self.groups.len()).flat_map(changes) {
            targets.retain(|target| target.name != name);
            if state.get(&name).is_some() {
                targets.push(ExpectedTensor::number::<f64>(name));
            }
        }
        let state = state.fitted(&targets, "an optimizer's state", span)?;
        let read = |(at, group): (usize, &Group<R>)| group.read(&state.part(&group_name(at)));
        let loaded = self.groups.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
        let site = CallSite { name: "load_state_dict", span };
        let put = |(group, loaded): (&mut Group<R>, Loaded)| group.change(site, |group| group.put(loaded));
        self.groups.iter_mut().zip(loaded).for_each(put);
        Ok(())
    }
}

/// What all ranks have of a parameter's state, of which this one may remember nothing.
type Whole<'a> = &'a mut dyn FnMut(&ParamSlot, Tensor) -> Result<Tensor>;

fn group_name(at: usize) -> String {
    format!("groups.{at}")
}

/// The names of what a group's state holds only where it has been changed.
fn changes(at: usize) -> [String; 2] {
    ["reduction", "momentum"].map(|name| format!("{}.{name}", group_name(at)))
}

/// A group's state, read.
struct Loaded {
    lr: f64,
    reduction: f64,
    momentum: Option<f64>,
    /// Steps and state, by parameter.
    slots: Vec<(u64, Vec<Tensor>)>,
}

impl<R: Rule> Group<R> {
    fn saved(&self, whole: Whole<'_>) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert("lr", &number(self.rule.lr()))?;
        if self.reduction != 1.0 {
            state.insert("reduction", &number(self.reduction))?;
        }
        if let Some(momentum) = self.rule.momentum().filter(|_| self.momentum_set) {
            state.insert("momentum", &number(momentum))?;
        }
        for (at, slot) in self.slots.iter().enumerate() {
            state.insert(format!("params.{at}.steps"), &slot.steps.saved())?;
            let remembered = slot.state_beside(&slot.param.get(), &self.rule);
            for ((name, _), tensor) in self.rule.state().iter().zip(remembered) {
                state.insert(format!("params.{at}.{name}"), &whole(slot, tensor)?)?;
            }
        }
        Ok(state)
    }

    /// What [`Group::saved`] wrote, of a state that holds it all.
    fn read(&self, state: &StateDict) -> Result<Loaded> {
        let names = self.rule.state();
        let slot = |at: usize| {
            let remembered = |(name, _): &(&str, f64)| state.get(&format!("params.{at}.{name}")).cloned();
            let steps = state.number::<i64>(&format!("params.{at}.steps"))? as u64;
            Ok((steps, names.iter().filter_map(remembered).collect()))
        };
        let slots = (0..self.slots.len()).map(slot).collect::<Result<_>>()?;
        let change = |name: &str| state.get(name).map(Tensor::item::<f64>).transpose();
        let (reduction, momentum) = (change("reduction")?.unwrap_or(1.0), change("momentum")?);
        Ok(Loaded { lr: state.number("lr")?, reduction, momentum, slots })
    }

    fn put(&mut self, loaded: Loaded) {
        self.rule.set_lr(loaded.lr);
        self.reduction = loaded.reduction;
        if let Some(momentum) = loaded.momentum {
            self.set_momentum(momentum);
        }
        for (slot, (steps, state)) in self.slots.iter_mut().zip(loaded.slots) {
            slot.steps = StepCount::Known(steps);
            slot.state = if slot.is_remembered_here() { state } else { Vec::new() };
        }
    }
}

impl<S> Scheduler<S> {
    /// The step, how many of them are to be taken back, and the learning rates at the start. Waits for steps
    /// that are not [settled](Scheduler::settle), and settles none: who saves goes on as who does not.
    ///
    /// # Errors
    /// Out of memory; as [`Scheduler::settle`].
    #[track_caller]
    pub fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert("step", &number(self.step as i64))?;
        state.insert("skipped", &number(self.skipped()? as i64))?;
        state.insert("start", &Tensor::from_vec(self.start.clone(), [self.start.len()], Device::cpu()))?;
        Ok(state)
    }

    /// Resumes from a saved state. The optimizer's own holds the learning
    /// rates of the moment.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with everything that does not
    /// fit. The schedule is then as it was.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let state = state.fitted(&self.state_dict()?.targets(), "a schedule's state", Span::caller())?;
        let [step, skipped] = [state.number::<i64>("step")?, state.number::<i64>("skipped")?];
        self.start = state.get("start").map_or(Ok(Vec::new()), Tensor::to_vec)?;
        (self.step, self.skipped, self.undecided) = (step as u64, skipped as u64, Vec::new());
        Ok(())
    }
}

impl Plateau {
    /// The least number so far, and the steps since.
    ///
    /// # Errors
    /// Out of memory.
    pub fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert("least", &number(self.least))?;
        state.insert("bad", &number(self.bad as i64))?;
        Ok(state)
    }

    /// Resumes from a saved state.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) with everything that does not
    /// fit. The schedule is then as it was.
    #[track_caller]
    pub fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let state = state.fitted(&self.state_dict()?.targets(), "a schedule's state", Span::caller())?;
        (self.least, self.bad) = (state.number("least")?, state.number::<i64>("bad")? as u64);
        Ok(())
    }
}
