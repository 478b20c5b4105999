//! Layer 5: from a graph to an ordered list of steps with memory assigned.
//!
//! [`schedule`] is the list of passes. Each clever one has a simple checker
//! in [`check`], which runs in debug builds.

mod alive;
pub mod budget;
pub mod check;
pub mod chunk;
pub mod class;
pub mod expand;
pub mod floor;
pub mod fuse;
pub mod memory;
pub mod order;
pub mod place;
mod remember;
pub mod resize;
mod sequence;
pub mod transfer;
mod wait;

use std::collections::HashMap;

use crate::base::Device;
use crate::ir::rewrite::{Renumbering, share_kinds};
use crate::ir::{Graph, Layout, NodeId};
use crate::runtime::Capabilities;

pub use expand::ByBody;
pub use fuse::Refusal;
pub use memory::{Memory, Place};
pub use order::{Action, Step, result_number};
pub use resize::Model;
pub use transfer::{Moved, Reason};

/// What scheduling needs to know besides the graph.
pub struct Environment<'a> {
    /// How parameters lie in memory, by number; dense where there is none.
    pub layouts: &'a [Layout],
    /// Whether a parameter's memory may be overwritten, by number.
    pub donated: &'a [bool],
    /// By number, the first parameter whose memory a parameter shares; itself
    /// where there is none.
    pub shared: &'a [u32],
    /// What each device can do.
    pub capabilities: &'a dyn Fn(Device) -> Capabilities,
    /// A schedule for other sizes, to take its decisions where that can be.
    pub model: Option<Model<'a>>,
    /// Nodes of the graph that gradients may ask for later.
    pub asked_later: &'a [NodeId],
}

/// A graph turned into steps.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The graph after all rewrites; steps refer to its nodes.
    pub graph: Graph,
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// Where values are.
    pub memory: Memory,
    /// The transfers, by the value that arrives. `asked` is a node of the
    /// graph given.
    pub transfers: HashMap<NodeId, Moved>,
    /// Why things were not fused.
    pub refusals: Vec<Refusal>,
    /// Composites computed by their bodies where there is a template.
    pub by_body: Vec<ByBody>,
    /// For each node of the graph given, the node that now has its value;
    /// `None` where nothing needs the value any more.
    pub map: Renumbering,
    /// Whether the partition and the order are a model's.
    pub resized: bool,
    /// Of each value computed again to fit a budget, the value as it was
    /// computed first.
    pub again: HashMap<NodeId, NodeId>,
    /// Of each value that is computed in chunks to fit a budget, by the nodes of
    /// the chunks.
    pub parts: HashMap<NodeId, Part>,
    /// Nodes of the graph given whose values are kept for gradients, and the nodes that have them.
    pub remembered: Vec<(NodeId, NodeId)>,
}

/// What a node of a chunk is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node of the graph given; of what is in a composite's body, the composite.
    pub given: NodeId,
    /// Which of the values that are made for it.
    pub value: usize,
}

/// Runs the passes, in order:
///
/// 1. `expand`: composites without a template become their bodies.
/// 2. `simplify`: one node per value, algebra.
/// 3. `transfer`: what crosses between devices, as few bytes as can be.
/// 4. `place`: scatters get a base of their own.
/// 5. `resize`: the steps of a schedule for other sizes; or else
/// 6. `fuse`: nodes into groups, each lowered to a kernel;
/// 7. `order`: groups into steps.
/// 8. `remember`: what a loss leaves for its gradients.
/// 9. `memory`: values into storages and offsets.
pub fn schedule(graph: Graph, environment: &Environment<'_>) -> Schedule {
    let expand::Expanded { graph, map: expanded, by_body } = expand::expand(graph, environment.capabilities);
    let (graph, simplified) = crate::ir::simplify::simplify(&graph);
    let mut maps = vec![expanded, simplified];
    let mut transfers = HashMap::new();
    let graph = if transfer::has_any(&graph) {
        let (graph, kept) = move_less(&graph, environment, &mut maps);
        transfers = kept;
        graph
    } else {
        graph
    };
    let (graph, placed) = place::place(&graph, environment.layouts);
    let transfers = transfers.into_iter().map(|(id, moved): (NodeId, Moved)| (placed[id.index()], moved));
    let transfers = transfers.collect();
    maps.push(placed);
    let map = follow(&maps);
    let donated = |param: u32| environment.donated.get(param as usize).copied().unwrap_or(false);
    let first_with = |param: u32| environment.shared.get(param as usize).copied().unwrap_or(param);
    let params = memory::Params { donated: &donated, first_with: &first_with };
    let model = environment.model.as_ref();
    let taken = model.and_then(|model| {
        Some((resize::resize(&graph, environment.layouts, model)?, model.schedule.refusals.clone()))
    });
    let resized = taken.is_some();
    let (steps, refusals) = taken.unwrap_or_else(|| search(&graph, environment, &params));
    debug_check(&graph, || check::check_steps(&graph, &steps));
    let several_in_place = |device: Device| (environment.capabilities)(device).several_in_place;
    let remembered = remember::remembered(&graph, &steps, &map, environment.asked_later);
    let kept = remember::with_outputs(&graph, &remembered);
    let memory = memory::plan(&kept, &steps, &params, &several_in_place);
    debug_check(&kept, || check::check_memory(&kept, &steps, &memory, &params));
    drop(kept);
    let (again, parts) = (HashMap::new(), HashMap::new());
    let mut schedule = Schedule {
        graph,
        steps,
        memory,
        transfers,
        refusals,
        by_body,
        map,
        resized,
        again,
        parts,
        remembered,
    };
    schedule.shrink();
    schedule
}

impl Schedule {
    /// For each node of the graph after all rewrites, the node of the graph given whose
    /// line asked for it: the first, if there are several.
    pub fn askers(&self) -> Renumbering {
        let mut askers = vec![None; self.graph.nodes.len()];
        for (given, id) in self.map.iter().enumerate().rev() {
            if let Some(id) = id {
                askers[id.index()] = Some(NodeId(given as u32));
            }
        }
        let transfers = self.transfers.iter().map(|(id, moved)| (id, moved.asked));
        for (id, given) in transfers.chain(self.parts.iter().map(|(id, part)| (id, part.given))) {
            askers[id.index()] = Some(given);
        }
        for (again, first) in &self.again {
            askers[again.index()] = askers[first.index()];
        }
        askers.into_iter().collect()
    }

    /// Lets go of memory that is not used, or used twice for the same: plans are kept.
    fn shrink(&mut self) {
        share_kinds(&mut self.graph);
        self.graph.nodes.shrink_to_fit();
        self.refusals.shrink_to_fit();
        self.memory.storages.shrink_to_fit();
    }
}

/// Decides what runs together, and in which order.
fn search(
    graph: &Graph,
    environment: &Environment<'_>,
    params: &memory::Params<'_>,
) -> (Vec<Step>, Vec<Refusal>) {
    let context =
        fuse::Context { graph, layouts: environment.layouts, capabilities: environment.capabilities };
    let fusion = fuse::fuse(&context);
    (order::order(graph, fusion.groups, params), fusion.refusals)
}

/// Places the transfers of a graph and simplifies what that has uncovered.
/// Gives the transfers left, as asked for in the graph that `maps` start from.
fn move_less(
    graph: &Graph,
    environment: &Environment<'_>,
    maps: &mut Vec<Vec<NodeId>>,
) -> (Graph, HashMap<NodeId, Moved>) {
    let given = follow(maps);
    let origin = |id: NodeId| given.iter().position(|to| to == Some(id)).map(|at| NodeId(at as u32));
    let placed = transfer::place(graph, environment.capabilities);
    let (graph, simplified) = crate::ir::simplify::simplify(&placed.graph);
    let kept = placed.transfers.iter().filter_map(|(id, moved)| {
        let now = simplified[id.index()];
        let asked = origin(moved.asked)?;
        (now != crate::ir::rewrite::DROPPED).then_some((now, Moved { asked, ..*moved }))
    });
    let kept = kept.collect();
    maps.extend([placed.map, simplified]);
    (graph, kept)
}

/// One map from several in a row.
fn follow(maps: &[Vec<NodeId>]) -> Renumbering {
    let (first, rest) = maps.split_first().unwrap_or_else(|| panic!("no maps to follow"));
    let step = |id: NodeId, map: &Vec<NodeId>| map.get(id.index()).copied();
    first.iter().map(|&id| rest.iter().try_fold(id, step)).collect()
}

fn debug_check(graph: &Graph, check: impl FnOnce() -> Vec<String>) {
    if cfg!(debug_assertions) {
        let violations = check();
        assert!(violations.is_empty(), "{}\n{graph:?}", violations.join("\n"));
    }
}
