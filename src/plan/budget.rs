//! Budgets: how much memory a plan may need, as an input of planning.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use crate::base::error::LiveTensor;
use crate::base::scope::{Scope, Scopes};
use crate::base::{Device, Error, Result};
use crate::ir::Op;
use crate::ir::collect::Collected;
use crate::plan::build::{Plan, rechunk, refit};
use crate::plan::context::Context;
use crate::plan::donate::LeafMemory;
use crate::plan::report::{MemoryReport, needs};
use crate::schedule::rematerialize::planned_bytes;

/// The most memory that a plan may need at once: its inputs, results and
/// intermediates ([`MemoryReport::peak`]), on one device or on each.
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

/// How often chunks are made smaller because their kernels need more scratch memory.
const CORRECTIONS: usize = 3;

thread_local! {
    static BUDGETS: Scopes<Budget> = const { Scopes::new() };
}

/// Runs the closure; what this thread plans and realizes meanwhile needs no
/// more memory than the budget says. In nested scopes all budgets hold.
///
/// A plan that would need more rematerializes values: it recomputes them right before
/// they are read, instead of keeping them: the same kernels once more, so results are
/// the same bit by bit and nothing new is compiled. Where that is not enough
/// (logits over a large vocabulary, a wide hidden layer, the scores of an
/// attention, the activations of a batch), what makes and uses the large values
/// is cut along an axis in which its parts do not depend on each other, and the
/// chunks run one after the other in the same memory
/// ([`crate::PlanReport::in_chunks`]). What is summed over the axis, such as a
/// weight's gradient, is then added up chunk by chunk, 16-bit floats in 32 bits.
/// So the last bits of sums and products, whose kernels depend on extents, may
/// differ from those without a budget; under one budget they repeat.
///
/// If nothing fits, realizing is [`Error::OverBudget`], before anything has run.
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
    let _scope = Scope::open(&BUDGETS, budget);
    body()
}

/// Whether a plan needs more than the budgets in force allow.
pub(crate) fn exceeds(context: &Context, plan: &Plan, collected: &Collected) -> bool {
    !BUDGETS.with(Scopes::is_empty) && !excesses(&needs(context, plan, collected)).is_empty()
}

/// The least of the budgets in force on a device.
fn limit(device: Device) -> Option<u64> {
    let applies = |budget: &Budget| budget.device.is_none_or(|only| only == device);
    BUDGETS.with(Scopes::all).into_iter().filter(applies).map(|budget| budget.bytes).min()
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
    if BUDGETS.with(Scopes::is_empty) {
        return Ok(plan);
    }
    let excesses = excesses(&needs(context, &plan, collected));
    if excesses.is_empty() {
        return Ok(plan);
    }
    // What steps may use: the budget without memory that is in use in any case.
    let target = |excess: &Excess| {
        let changeable = planned_bytes(&plan.schedule.memory, excess.device);
        (excess.device, (excess.budget + changeable).saturating_sub(excess.needed))
    };
    let targets: Vec<(Device, u64)> = excesses.iter().map(target).collect();
    let fitted = plan.fitted.lock().unwrap_or_else(PoisonError::into_inner);
    let known = fitted.iter().find(|(known, _)| *known == targets).map(|(_, plan)| plan.clone());
    drop(fitted);
    let found = known.unwrap_or_else(|| {
        let found = Arc::new(fit_targets(context, &plan, collected, memory, &targets));
        let mut fitted = plan.fitted.lock().unwrap_or_else(PoisonError::into_inner);
        if fitted.len() >= Plan::MAX_FITTED {
            fitted.remove(0);
        }
        fitted.push((targets, found.clone()));
        found
    });
    match self::excesses(&needs(context, &found, collected)).first() {
        Some(excess) => Err(over_budget(*excess, &found, collected)),
        None => Ok(found),
    }
}

/// The plan changed until it is within the budgets, or needs as little as any was found to.
fn fit_targets(
    context: &Context,
    plan: &Plan,
    collected: &Collected,
    memory: &LeafMemory,
    targets: &[(Device, u64)],
) -> Plan {
    let over = |plan: &Plan| over(context, plan, collected);
    let found = meet_targets(context, plan, collected, memory, targets);
    if over(&found) == 0 || targets.iter().all(|(_, target)| *target == 0) {
        return found;
    }
    // Another target leads the search elsewhere: a target of 0 finds the least, which errors name.
    let none: Vec<(Device, u64)> = targets.iter().map(|(device, _)| (*device, 0)).collect();
    let least = meet_targets(context, plan, collected, memory, &none);
    if over(&least) < over(&found) { least } else { found }
}

/// By how many bytes a plan is over the budgets, on all devices.
fn over(context: &Context, plan: &Plan, collected: &Collected) -> u64 {
    let excesses = excesses(&needs(context, plan, collected));
    excesses.iter().map(|excess| excess.needed - excess.budget).sum()
}

/// The plan changed until it meets targets, or needs as little more as was found:
/// by rematerialization if that is enough, since it changes no bit; else in chunks, and
/// then by both.
fn meet_targets(
    context: &Context,
    plan: &Plan,
    collected: &Collected,
    memory: &LeafMemory,
    targets: &[(Device, u64)],
) -> Plan {
    let over = |plan: &Plan| over(context, plan, collected);
    let refitted = refit(context, plan, memory, targets);
    if over(&refitted) == 0 {
        return refitted;
    }
    // Kernels of chunks may need other scratch memory than was estimated.
    let mut targets = targets.to_vec();
    let Some(mut chunks) = rechunk(context, plan, collected, memory, &targets) else { return refitted };
    for _ in 0..CORRECTIONS {
        let excesses = excesses(&needs(context, &chunks, collected));
        let unestimated = |(device, target): &mut (Device, u64)| {
            let excess = excesses.iter().find(|excess| excess.device == *device);
            let met = planned_bytes(&chunks.schedule.memory, *device) <= *target;
            let more = excess.filter(|_| met).map_or(0, |excess| excess.needed - excess.budget);
            *target = target.saturating_sub(more);
            more > 0
        };
        if targets.iter_mut().filter_map(|target| unestimated(target).then_some(())).count() == 0 {
            break;
        }
        chunks = rechunk(context, plan, collected, memory, &targets).unwrap_or(chunks);
    }
    // What the chunks leave may still be rematerialized.
    let both = refit(context, &chunks, memory, &targets);
    [chunks, both]
        .into_iter()
        .fold(refitted, |best, plan| if over(&plan) <= over(&best) { plan } else { best })
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
    Error::OverBudget { device, budget, least: needed, causes: alive.into(), span: None }
}

/// What is live on a device at its peak.
fn alive_at_peak(plan: &Plan, collected: &Collected, device: Device) -> Vec<LiveTensor> {
    let graph = &plan.schedule.graph;
    let memory = &plan.schedule.memory;
    let lines = plan.lines(collected);
    let named = |id: crate::ir::NodeId, bytes: usize| {
        let node = graph.node(id);
        let (name, shape) = (node.op.name().to_string(), node.ty.shape.clone());
        let at = Some(lines[id.index()].unwrap_or(node.span));
        LiveTensor { name, shape, bytes: bytes as u64, at }
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
    for leaf in collected.leaves() {
        let Some(value) = leaf.value() else { continue };
        if value.buffer.device == device && seen.insert(Arc::as_ptr(&value.buffer)) {
            found.push(input(leaf.ty(), value.buffer.bytes, leaf.span()));
        }
    }
    let dataless = collected.graph().nodes.iter().filter(|node| matches!(node.op, Op::Leaf(_)));
    let dataless = dataless.filter(|node| node.ty.device == device);
    found.extend(dataless.map(|node| input(&node.ty, node.ty.bytes(), node.span)));
    found
}
