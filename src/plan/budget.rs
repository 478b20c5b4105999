//! Budgets: how much memory a plan may need, as an input of planning.

use std::cell::RefCell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};

use crate::base::error::LiveTensor;
use crate::base::{Device, Error, Result};
use crate::ir::Op;
use crate::ir::collect::Collected;
use crate::plan::build::{Plan, refit};
use crate::plan::context::Context;
use crate::plan::donate::LeafMemory;
use crate::plan::realize::lines_of;
use crate::plan::report::{MemoryReport, needs};
use crate::schedule::budget::taken;

/// The most memory that a plan may need at once: its inputs, its results and
/// what is between ([`MemoryReport::peak`]), on one device or on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    bytes: u64,
    device: Option<Device>,
}

impl Budget {
    /// So many bytes on each device.
    pub const fn bytes(bytes: u64) -> Budget {
        Budget { bytes, device: None }
    }
    /// The same for one device; others may use what they have.
    #[must_use]
    pub const fn on(self, device: Device) -> Budget {
        Budget { device: Some(device), ..self }
    }
}

thread_local! {
    static BUDGETS: RefCell<Vec<Budget>> = const { RefCell::new(Vec::new()) };
}

/// Ends a budget's scope when dropped.
struct Scope(PhantomData<*const ()>);

impl Drop for Scope {
    fn drop(&mut self) {
        BUDGETS.with_borrow_mut(|budgets| budgets.pop());
    }
}

/// Runs the closure; what this thread plans and realizes meanwhile needs no
/// more memory than the budget says. A plan that would need more computes
/// values again, right before they are read, instead of keeping them: the
/// same kernels once more, so results are the same bit by bit and nothing new
/// is compiled. If that is not enough, realizing is [`Error::OverBudget`],
/// before anything has run. In nested scopes all budgets hold.
///
/// ```
/// use kiln::Budget;
/// use kiln::prelude::*;
/// # fn main() -> kiln::Result<()> {
/// let x = Tensor::ones([1000], ());
/// let w = Tensor::ones([1000, 1000], ()).materialize();
/// w.realize()?;
/// let loss = x.matmul(&w).tanh().sum(..);
/// let needed = loss.plan()?.peak_bytes();
/// let error = kiln::with_budget(Budget::bytes(needed / 2), || loss.item::<f32>()).unwrap_err();
/// println!("{error}"); // over budget: the matrix alone needs more
/// kiln::with_budget(Budget::bytes(needed), || loss.item::<f32>())?;
/// # Ok(())
/// # }
/// ```
pub fn with_budget<R>(budget: Budget, body: impl FnOnce() -> R) -> R {
    BUDGETS.with_borrow_mut(|budgets| budgets.push(budget));
    let _scope = Scope(PhantomData);
    body()
}

/// The least of the budgets in force on a device.
fn limit(device: Device) -> Option<u64> {
    let applies = |budget: &&Budget| budget.device.is_none_or(|only| only == device);
    BUDGETS.with_borrow(|budgets| budgets.iter().filter(applies).map(|budget| budget.bytes).min())
}

/// A device on which a plan needs too much.
#[derive(Clone, Copy, Debug)]
struct Excess {
    device: Device,
    budget: u64,
    needed: u64,
}

fn excesses(memory: &[MemoryReport]) -> Vec<Excess> {
    let excess = |memory: &MemoryReport| {
        let (device, needed) = (memory.device, memory.peak());
        limit(device).filter(|&budget| budget < needed).map(|budget| Excess { device, budget, needed })
    };
    memory.iter().filter_map(excess).collect()
}

/// The plan, or one that does the same within the budgets in force.
///
/// # Errors
/// [`Error::OverBudget`] if there is none.
pub(crate) fn within(
    context: &Context,
    plan: Arc<Plan>,
    collected: &Collected,
    memory: &LeafMemory,
) -> Result<Arc<Plan>> {
    if BUDGETS.with_borrow(Vec::is_empty) {
        return Ok(plan);
    }
    let excesses = excesses(&needs(context, &plan, collected));
    if excesses.is_empty() {
        return Ok(plan);
    }
    // What steps may take: the budget without what is there in any case.
    let target = |excess: &Excess| {
        let changeable = taken(&plan.schedule.memory, excess.device);
        (excess.device, (excess.budget + changeable).saturating_sub(excess.needed))
    };
    let targets: Vec<(Device, u64)> = excesses.iter().map(target).collect();
    let fitted = plan.fitted.lock().unwrap_or_else(PoisonError::into_inner);
    let known = fitted.iter().find(|(known, _)| *known == targets).map(|(_, plan)| plan.clone());
    drop(fitted);
    if let Some(known) = known {
        return Ok(known);
    }
    let found = Arc::new(refit(context, &plan, memory, &targets));
    if let Some(excess) = self::excesses(&needs(context, &found, collected)).first() {
        return Err(over_budget(*excess, &found, collected));
    }
    let mut fitted = plan.fitted.lock().unwrap_or_else(PoisonError::into_inner);
    if fitted.len() >= Plan::MAX_FITTED {
        fitted.remove(0);
    }
    fitted.push((targets, found.clone()));
    Ok(found)
}

/// The error for a plan that is as small as was found.
fn over_budget(excess: Excess, plan: &Plan, collected: &Collected) -> Error {
    let Excess { device, budget, needed } = excess;
    let mut alive = alive_at_peak(plan, collected, device);
    alive.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes));
    let mut explained = 0;
    alive.retain(|tensor| {
        let needed = explained < needed - budget;
        explained += tensor.bytes;
        needed
    });
    Error::OverBudget { device, budget, least: needed, causes: alive.into() }
}

/// What is in a device's memory when most is.
fn alive_at_peak(plan: &Plan, collected: &Collected, device: Device) -> Vec<LiveTensor> {
    let graph = &plan.schedule.graph;
    let memory = &plan.schedule.memory;
    let lines = lines_of(plan, collected);
    let named = |id: crate::ir::NodeId, bytes: usize| {
        let node = graph.node(id);
        let (name, shape) = (node.op.name().to_string(), node.ty.shape.clone());
        LiveTensor { name, shape, bytes: bytes as u64, at: Some(lines[id.index()].unwrap_or(node.span)) }
    };
    let results = memory.results.iter().filter(|r| r.device == device && r.donated.is_none());
    let mut alive: Vec<LiveTensor> = results.map(|result| named(result.node, result.bytes)).collect();
    let here = || memory.storages.iter().filter(|storage| storage.device == device);
    let at = |step: usize| here().filter(move |s| s.first <= step && step <= s.last);
    let most = (0..plan.schedule.steps.len()).max_by_key(|&step| at(step).map(|s| s.bytes).sum::<usize>());
    if let Some(step) = most {
        let newest = |id: &&crate::ir::NodeId| {
            plan.schedule.steps[..=step].iter().any(|step| step.outputs.contains(id))
        };
        let node = |nodes: &[crate::ir::NodeId]| *nodes.iter().rev().find(newest).unwrap_or(&nodes[0]);
        alive.extend(at(step).map(|storage| named(node(&storage.nodes), storage.bytes)));
    }
    alive.extend(inputs(collected, device));
    alive
}

/// The memory of a graph's inputs on a device.
fn inputs(collected: &Collected, device: Device) -> Vec<LiveTensor> {
    let input = |ty: &crate::ir::Type, bytes: usize, span| LiveTensor {
        name: "input".into(),
        shape: ty.shape.clone(),
        bytes: bytes as u64,
        at: Some(span),
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for leaf in &collected.leaves {
        let Some(value) = leaf.value() else { continue };
        if value.buffer.device == device && seen.insert(Arc::as_ptr(&value.buffer)) {
            found.push(input(leaf.ty(), value.buffer.bytes, leaf.span()));
        }
    }
    let dataless = collected.graph.nodes.iter().filter(|node| matches!(node.op, Op::Leaf(_)));
    let dataless = dataless.filter(|node| node.ty.device == device);
    found.extend(dataless.map(|node| input(&node.ty, node.ty.bytes(), node.span)));
    found
}
