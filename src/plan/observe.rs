//! What a profiler keeps of a run: the plan, and what the user called each of its values.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use crate::base::{OpName, Region, Span};
use crate::ir::NodeId;
use crate::ir::collect::Collected;
use crate::plan::build::Plan;
use crate::plan::report::{KernelReport, kernel_of};
use crate::plan::run::UserCall;
use crate::runtime::trace;
use crate::schedule::{Location, StepAction};

/// The calls behind a plan's values, in the graph that the plan was looked up with. Runs of the same
/// calls share one.
#[derive(Debug)]
pub struct ObservedRun {
    plan: Arc<Plan>,
    /// By node of the plan's graph.
    calls: Vec<UserCall>,
}

/// An operation inside a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObservedOperation {
    /// What the user called; for gradients and what no call made, the primitive.
    pub name: &'static str,
    /// The user's line.
    pub at: Span,
    /// The user's region.
    pub region: Region,
}

/// A kernel of an observed run.
#[derive(Clone, Debug)]
pub struct ObservedKernel {
    /// What was predicted of it.
    pub report: KernelReport,
    /// The operations inside, in order, each once.
    pub operations: Vec<ObservedOperation>,
    /// The region of the value it stores, else of the last operation in one.
    pub region: Region,
    /// Bytes of memory that the plan took for what it stores.
    pub allocated: u64,
}

impl ObservedRun {
    /// A run of a plan, if anybody records.
    pub(crate) fn of(plan: &Arc<Plan>, collected: &Collected) -> Option<Arc<ObservedRun>> {
        trace::is_on().then(|| {
            let start = trace::now();
            let run = ObservedRun::interned(plan, collected);
            trace::observed(trace::now() - start);
            run
        })
    }

    #[cold]
    fn interned(plan: &Arc<Plan>, collected: &Collected) -> Arc<ObservedRun> {
        let graph = &plan.schedule.graph;
        let call = |(id, origin): (usize, Option<NodeId>)| match origin {
            Some(origin) => {
                let node = &collected.nodes[origin.index()];
                UserCall { name: node.op_name(), span: node.span() }
            }
            None => UserCall { name: OpName::default(), span: graph.nodes[id].span },
        };
        let calls: Vec<UserCall> = plan.schedule.origins().iter().enumerate().map(call).collect();
        let mut last = plan.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.upgrade().filter(|known| known.calls == calls) {
            return known;
        }
        let run = Arc::new(ObservedRun { plan: plan.clone(), calls });
        *last = Arc::downgrade(&run);
        run
    }

    /// The kernel that a step launches; `None` for other steps.
    pub fn kernel(&self, step: usize) -> Option<ObservedKernel> {
        let step = self.plan.schedule.steps.get(step)?;
        let StepAction::Launch(work) = &step.action else { return None };
        let graph = &self.plan.schedule.graph;
        let spans: Vec<Span> = self.calls.iter().map(|call| call.span).collect();
        let names: Vec<Option<&'static str>> = self.calls.iter().map(|call| call.name.text()).collect();
        let report = kernel_of(graph, step, work, &spans, &names);
        let operation = |id: &NodeId| ObservedOperation {
            name: names[id.index()]
                .filter(|name| *name != OpName::GRADIENT)
                .unwrap_or(graph.node(*id).op.name()),
            at: spans[id.index()],
            region: self.region(*id),
        };
        let mut seen = HashSet::new();
        let operations = step.members.iter().map(operation).filter(|one| seen.insert(one.clone())).collect();
        let written = step.outputs.iter().filter(|&&output| self.is_new(output));
        let regions = step.outputs.iter().chain(step.members.iter().rev()).map(|&id| self.region(id));
        Some(ObservedKernel {
            report,
            operations,
            region: regions.into_iter().find(|region| *region != Region::default()).unwrap_or_default(),
            allocated: written.map(|&output| graph.ty(output).bytes() as u64).sum(),
        })
    }

    fn region(&self, id: NodeId) -> Region {
        self.calls[id.index()].name.region()
    }

    /// Whether a value has memory that the plan took for it.
    fn is_new(&self, id: NodeId) -> bool {
        let memory = &self.plan.schedule.memory;
        match memory.locations.get(&id) {
            Some(Location::Result(number, _)) => memory.results[*number as usize].donated.is_none(),
            Some(Location::Arena(_)) => true,
            Some(Location::Param(_)) | None => false,
        }
    }
}
