//! Layer 5: from a graph to an ordered list of steps with memory assigned.
//!
//! [`schedule`] is the list of passes. Each clever one has a simple checker
//! in [`check`], which runs in debug builds.

pub mod check;
mod chosen_results;
pub mod chunk;
mod control_dependency;
pub mod copy_insertion;
pub mod expand;
pub mod fallback;
pub mod fuse;
pub mod fusion_class;
mod index_checks;
mod list_scheduling;
mod live_intervals;
pub mod memory;
pub mod order;
pub mod plan_reuse;
pub mod rematerialize;
mod retain;
pub mod transfer;

use std::collections::HashMap;

use crate::base::Device;
use crate::ir::collect::inside;
use crate::ir::rewrite::{Renumbering, share_kinds};
use crate::ir::{Graph, Layout, NodeId};
use crate::runtime::Capabilities;

pub use expand::Decomposed;
pub use fuse::Refusal;
pub use memory::{Location, MemoryPlan};
pub use order::{Step, StepAction, result_number};
pub use plan_reuse::PlanTemplate;
pub use transfer::{TransferOrigin, TransferReason};

/// What scheduling needs to know besides the graph.
pub struct Environment<'a> {
    /// The layouts of parameters, by number; dense where there is none.
    pub layouts: &'a [Layout],
    /// Whether a parameter's memory may be overwritten, by number.
    pub donated: &'a [bool],
    /// By number, the first parameter whose memory a parameter shares; itself
    /// where there is none.
    pub shared: &'a [u32],
    /// What each device can do.
    pub capabilities: &'a dyn Fn(Device) -> Capabilities,
    /// A schedule for other sizes, whose decisions are reused where possible.
    pub template: Option<PlanTemplate<'a>>,
    /// Nodes whose values gradients may need later.
    pub retain_candidates: &'a [NodeId],
    /// The outputs that fall back where an index is out of range; what to, the graph has as its
    /// last outputs, one each.
    pub fallbacks: &'a [u32],
}

/// A graph turned into steps.
#[derive(Clone, Debug)]
pub struct ScheduledGraph {
    /// The graph after all rewrites; steps refer to its nodes.
    pub graph: Graph,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// Where values are.
    pub memory: MemoryPlan,
    /// The transfers, by the value that arrives. `requested` is a node of the
    /// graph given.
    pub transfers: HashMap<NodeId, TransferOrigin>,
    /// Why things were not fused.
    pub refusals: Vec<Refusal>,
    /// Composites that were decomposed although there is a template.
    pub decomposed: Vec<Decomposed>,
    /// For each node of the given graph, the node that now has its value;
    /// `None` where nothing needs the value any more.
    pub map: Renumbering,
    /// The same of the nodes in bodies of users' composites ([`Collected::inside`](crate::ir::collect::Collected::inside)).
    pub inside: Renumbering,
    /// Whether the groups and the order are a template's.
    pub from_template: bool,
    /// For each value rematerialized to fit a budget, the value as it was
    /// computed first.
    pub recomputed: HashMap<NodeId, NodeId>,
    /// Of each value that is computed in chunks to fit a budget, by the nodes of
    /// the chunks.
    pub chunks: HashMap<NodeId, ChunkOrigin>,
    /// Nodes of the given graph whose values are retained for gradients, and the nodes that have them.
    pub retained: Vec<(NodeId, NodeId)>,
}

/// What a node of a chunk is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOrigin {
    /// The node of the given graph; of what is in a composite's body, the composite.
    pub given: NodeId,
    /// Which of the values that are made for it.
    pub value: usize,
}

/// Runs the passes, in order:
///
/// 1. `expand`: composites without a template are decomposed.
/// 2. `simplify`: one node per value, algebra.
/// 3. `fallback`: state keeps its value where an index is out of range.
/// 4. `transfer`: where transfers move the fewest bytes.
/// 5. `copy_insertion`: scatters get a base of their own.
/// 6. `plan_reuse`: the steps of a schedule for other sizes; or else
/// 7. `fuse`: nodes into groups, each lowered to a kernel;
/// 8. `order`: groups into steps.
/// 9. `retain`: activations kept for gradients.
/// 10. `memory`: values into storages and offsets.
pub fn schedule(graph: Graph, environment: &Environment<'_>) -> ScheduledGraph {
    let expand::Expanded { graph, map: expanded, inside, decomposed } =
        expand::expand(graph, environment.capabilities);
    let (graph, simplified) = crate::ir::simplify::simplify(&graph);
    let mut maps = vec![expanded, simplified];
    let graph = with_fallbacks(graph, environment, &mut maps);
    let mut transfers = HashMap::new();
    let graph = if transfer::has_any(&graph) {
        let (graph, kept) = place_transfers(&graph, environment, &mut maps);
        transfers = kept;
        graph
    } else {
        graph
    };
    let (graph, placed) = copy_insertion::insert_copies(&graph, environment.layouts);
    let transfers =
        transfers.into_iter().map(|(id, moved): (NodeId, TransferOrigin)| (placed[id.index()], moved));
    let transfers = transfers.collect();
    maps.push(placed);
    let map = compose(&maps);
    maps[0] = inside;
    let inside = compose(&maps);
    let donated = |param: u32| environment.donated.get(param as usize).copied().unwrap_or(false);
    let first_with = |param: u32| environment.shared.get(param as usize).copied().unwrap_or(param);
    let params = memory::Params { donated: &donated, first_with: &first_with };
    let model = environment.template.as_ref();
    let reused = model.and_then(|model| {
        Some((plan_reuse::reuse(&graph, environment.layouts, model)?, model.schedule.refusals.clone()))
    });
    let resized = reused.is_some();
    let (steps, refusals) = reused.unwrap_or_else(|| search(&graph, environment, &params));
    debug_check(&graph, || check::check_steps(&graph, &steps));
    let in_place = |device: Device| (environment.capabilities)(device).in_place;
    let remembered = retain::retained(&graph, &steps, &map, environment.retain_candidates);
    let kept = retain::with_outputs(&graph, &remembered);
    let memory = memory::plan(&kept, &steps, &params, &in_place);
    debug_check(&kept, || check::check_memory(&kept, &steps, &memory, &params, &in_place));
    drop(kept);
    let (again, parts) = (HashMap::new(), HashMap::new());
    let mut schedule = ScheduledGraph {
        graph,
        steps,
        memory,
        transfers,
        refusals,
        decomposed,
        map,
        inside,
        from_template: resized,
        recomputed: again,
        chunks: parts,
        retained: remembered,
    };
    schedule.shrink();
    schedule
}

impl ScheduledGraph {
    /// For each node of the graph after all rewrites, the node of the given graph that it
    /// comes from, else that of a body in it: the first, if there are several.
    pub fn origins(&self) -> Renumbering {
        let mut origins = vec![None; self.graph.nodes.len()];
        for (number, id) in self.inside.iter().enumerate().rev() {
            if let Some(id) = id {
                origins[id.index()] = Some(inside(number as u32));
            }
        }
        for (given, id) in self.map.iter().enumerate().rev() {
            if let Some(id) = id {
                origins[id.index()] = Some(NodeId(given as u32));
            }
        }
        let transfers = self.transfers.iter().map(|(id, moved)| (id, moved.requested));
        for (id, given) in transfers.chain(self.chunks.iter().map(|(id, part)| (id, part.given))) {
            origins[id.index()] = Some(given);
        }
        for (again, first) in &self.recomputed {
            origins[again.index()] = origins[first.index()];
        }
        origins.into_iter().collect()
    }

    /// Frees unused and duplicate memory, since plans are cached.
    fn shrink(&mut self) {
        share_kinds(&mut self.graph);
        self.graph.nodes.shrink_to_fit();
        self.refusals.shrink_to_fit();
        self.memory.storages.shrink_to_fit();
    }
}

/// Fuses and orders.
fn search(
    graph: &Graph,
    environment: &Environment<'_>,
    params: &memory::Params<'_>,
) -> (Vec<Step>, Vec<Refusal>) {
    let context =
        fuse::FusionContext { graph, layouts: environment.layouts, capabilities: environment.capabilities };
    let fusion = fuse::fuse(&context);
    (order::order(graph, fusion.groups, params), fusion.refusals)
}

/// Inserts fallbacks and simplifies the result.
fn with_fallbacks(graph: Graph, environment: &Environment<'_>, maps: &mut Vec<Vec<NodeId>>) -> Graph {
    if environment.fallbacks.is_empty() {
        return graph;
    }
    let late = |device: Device| (environment.capabilities)(device).late_index_errors;
    let graph = fallback::insert_fallbacks(graph, environment.fallbacks, &late);
    let (graph, simplified) = crate::ir::simplify::simplify(&graph);
    maps.push(simplified);
    graph
}

/// Places the transfers of a graph and simplifies the result.
/// Gives the transfers that are left, as requested in the graph that `maps` start from.
fn place_transfers(
    graph: &Graph,
    environment: &Environment<'_>,
    maps: &mut Vec<Vec<NodeId>>,
) -> (Graph, HashMap<NodeId, TransferOrigin>) {
    let given = compose(maps);
    let origin = |id: NodeId| given.iter().position(|to| to == Some(id)).map(|at| NodeId(at as u32));
    let placed = transfer::place(graph, environment.capabilities);
    let (graph, simplified) = crate::ir::simplify::simplify(&placed.graph);
    let kept = placed.transfers.iter().filter_map(|(id, moved)| {
        let now = simplified[id.index()];
        let requested = origin(moved.requested)?;
        (now != crate::ir::rewrite::DROPPED).then_some((now, TransferOrigin { requested, ..*moved }))
    });
    let kept = kept.collect();
    maps.extend([placed.map, simplified]);
    (graph, kept)
}

/// The composition of several maps.
fn compose(maps: &[Vec<NodeId>]) -> Renumbering {
    let (first, rest) = maps.split_first().unwrap_or_else(|| panic!("no maps to compose"));
    let step = |id: NodeId, map: &Vec<NodeId>| map.get(id.index()).copied();
    first.iter().map(|&id| rest.iter().try_fold(id, step)).collect()
}

fn debug_check(graph: &Graph, check: impl FnOnce() -> Vec<String>) {
    if cfg!(debug_assertions) {
        let violations = check();
        assert!(violations.is_empty(), "{}\n{graph:?}", violations.join("\n"));
    }
}
