//! Fusion blockers: why two values are not computed by one kernel.

use std::sync::Arc;

use crate::ir::{Graph, Node, NodeId, Op};
use crate::kernel::Blocker;
use crate::plan::report::{PlanReport, computed};
use crate::schedule::Refusal;
use crate::schedule::fusion_class::{FusionClass, fusion_class};

/// Why two values are not computed by one kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FusionBlocker {
    /// One of them is no part of the plan.
    #[error("one of them is not part of the plan")]
    NotPlanned,
    /// One of them has its value already.
    #[error("one of them is in memory already")]
    InMemory,
    /// One of them was simplified away.
    #[error("one of them was simplified away: nothing needs its value")]
    Simplified,
    /// Fusion was refused.
    #[error("{0}")]
    Blocked(Blocker),
    /// Fusion was not tried.
    #[error("neither is computed from the other, and no value that both read brought their kernels together")]
    Unrelated,
}

impl PlanReport {
    /// Why two nodes are not computed by one kernel; `None` if they are.
    pub(crate) fn fusion_blocker(&self, a: &Arc<Node>, b: &Arc<Node>) -> Option<FusionBlocker> {
        if a.value().is_some() || b.value().is_some() {
            return Some(FusionBlocker::InMemory);
        }
        let (Ok(a), Ok(b)) = (self.located(a), self.located(b)) else {
            return Some(self.located(a).and(self.located(b)).err().unwrap_or(FusionBlocker::NotPlanned));
        };
        let plan = self.plan.as_ref()?;
        let graph = &plan.schedule.graph;
        let all: Vec<Vec<NodeId>> = plan.schedule.steps.iter().map(|step| computed(graph, step)).collect();
        let search = BlockerSearch { graph, refusals: &plan.schedule.refusals, computed: &all };
        if search.together(a, b) {
            return None;
        }
        if [a, b].iter().any(|&id| matches!(graph.node(id).op, Op::Param(..))) {
            return Some(FusionBlocker::InMemory);
        }
        Some(search.blocker(a, b).map_or(FusionBlocker::Unrelated, FusionBlocker::Blocked))
    }

    fn located(&self, node: &Arc<Node>) -> Result<NodeId, FusionBlocker> {
        match self.origins.get(&(Arc::as_ptr(node) as usize)) {
            Some((_, Some(id))) => Ok(*id),
            Some((_, None)) => Err(FusionBlocker::Simplified),
            None => Err(FusionBlocker::NotPlanned),
        }
    }
}

struct BlockerSearch<'a> {
    graph: &'a Graph,
    refusals: &'a [Refusal],
    /// What each step computes.
    computed: &'a [Vec<NodeId>],
}

impl BlockerSearch<'_> {
    /// Whether some step computes both.
    fn together(&self, a: NodeId, b: NodeId) -> bool {
        self.computed.iter().any(|nodes| nodes.contains(&a) && nodes.contains(&b))
    }

    fn blocker(&self, a: NodeId, b: NodeId) -> Option<Blocker> {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        let between = self.between(low, high);
        self.direct(a, b)
            .or_else(|| self.direct(b, a))
            .or_else(|| self.on_the_way(&between))
            .or_else(|| self.opaque(&between))
            .or_else(|| self.opaque(&[a, b]))
    }

    /// The last refusal of one value by a kernel that computes the other.
    fn direct(&self, producer: NodeId, consumer: NodeId) -> Option<Blocker> {
        let same = |refused: NodeId| refused == producer || self.together(refused, producer);
        let exact = |r: &&Refusal| r.producer == producer && self.together(r.consumer, consumer);
        let near = |r: &&Refusal| same(r.producer) && self.together(r.consumer, consumer);
        let last = self.refusals.iter().rev();
        last.clone().find(exact).or_else(|| last.clone().find(near)).map(|r| (*r.blocker).clone())
    }

    /// The first refusal on the paths from one value to the other that kept
    /// its two sides apart in the end.
    fn on_the_way(&self, between: &[NodeId]) -> Option<Blocker> {
        let near = |id: NodeId| between.iter().any(|&on_path| self.together(on_path, id));
        let fits = |r: &&Refusal| {
            between.contains(&r.producer) && near(r.consumer) && !self.together(r.producer, r.consumer)
        };
        self.refusals.iter().filter(fits).min_by_key(|r| r.producer).map(|r| (*r.blocker).clone())
    }

    /// An operation that is a step of its own.
    fn opaque(&self, nodes: &[NodeId]) -> Option<Blocker> {
        let graph = self.graph;
        let apart = nodes.iter().find(|&&id| {
            let same =
                graph.node(id).operands.first().is_some_and(|&o| graph.ty(o).device == graph.ty(id).device);
            matches!(fusion_class(graph.node(id), same), FusionClass::Opaque | FusionClass::Scatter)
        });
        apart.map(|&id| Blocker::Opaque(graph.node(id).op.name()))
    }

    /// Every node on a path from `low` up to `high`, both included; nothing
    /// if there is no path.
    fn between(&self, low: NodeId, high: NodeId) -> Vec<NodeId> {
        let mut above = vec![false; self.graph.nodes.len()];
        above[low.index()] = true;
        for index in low.index() + 1..=high.index() {
            above[index] = self.graph.nodes[index].operands.iter().any(|operand| above[operand.index()]);
        }
        let mut below = vec![false; self.graph.nodes.len()];
        below[high.index()] = true;
        for index in (low.index()..=high.index()).rev().filter(|&i| above[i]) {
            if below[index] {
                let operands = &self.graph.nodes[index].operands;
                operands.iter().for_each(|operand| below[operand.index()] = true);
            }
        }
        let on_path = |id: &NodeId| above[id.index()] && below[id.index()];
        self.graph.ids().filter(on_path).collect()
    }
}
