//! Decomposition: composites that no template runs are replaced by their bodies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Device, Optimization, Span};
use crate::ir::collect::collect_body;
use crate::ir::rewrite::DROPPED;
use crate::ir::simplify::simplify;
use crate::ir::{Composite, Graph, GraphNode, NodeId, Op, Type};
use crate::kernel::AttentionPart;
use crate::kernel::lower::attention::{Unfit, fits, part};
use crate::runtime::Capabilities;

/// A composite that is decomposed although the device has a template for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decomposed {
    /// The composite's name.
    pub name: &'static str,
    /// What it gives.
    pub ty: Type,
    /// The user's line.
    pub at: Span,
    /// Why.
    pub why: Unfit,
}

/// A graph whose composites are those that templates run.
#[derive(Clone, Debug, Default)]
pub struct Expanded {
    /// The graph.
    pub graph: Graph,
    /// From numbers in the graph given to numbers in this one.
    pub map: Vec<NodeId>,
    /// The nodes of the bodies of users' composites in the graph given, as [`Collected::inside`] has them.
    ///
    /// [`Collected::inside`]: crate::ir::collect::Collected::inside
    pub inside: Vec<NodeId>,
    /// The decomposed composites that templates could have run.
    pub decomposed: Vec<Decomposed>,
}

/// What each device can do.
type Devices<'a> = &'a dyn Fn(Device) -> Capabilities;

/// The graph with composites replaced by their bodies, but for those that
/// a kernel can hold and the device's template is worth it for. Bodies are
/// expanded in turn.
pub fn expand(graph: Graph, capabilities: Devices<'_>) -> Expanded {
    let map = graph.ids().collect();
    let mut expanded = Expanded { graph, map, ..Expanded::default() };
    while let Some(bodies) = composites(&expanded.graph, |id| verdict(&expanded.graph, id, capabilities)) {
        expanded.replace(&bodies);
    }
    let kept = |graph: &Graph, id| verdict(graph, id, capabilities).is_none() && is_composite(graph, id);
    let kept: Vec<NodeId> = expanded.graph.ids().filter(|&id| kept(&expanded.graph, id)).collect();
    if !kept.is_empty() {
        let shared = shared(&expanded.graph, &kept);
        let verdict = |id: NodeId| shared.contains(&id).then_some(Some(Unfit::Shared));
        if let Some(bodies) = composites(&expanded.graph, verdict) {
            expanded.replace(&bodies);
        }
    }
    expanded
}

fn is_composite(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).op, Op::Composite(..))
}

/// By number, whether a node is replaced by its body (`Some`), and what keeps
/// it from the device's template if there is one.
type Bodies = BTreeMap<NodeId, Option<Unfit>>;

/// The composites with a verdict; `None` if there is none.
fn composites(graph: &Graph, verdict: impl Fn(NodeId) -> Option<Option<Unfit>>) -> Option<Bodies> {
    let bodies: Bodies = graph.ids().filter_map(|id| Some((id, verdict(id)?))).collect();
    (!bodies.is_empty()).then_some(bodies)
}

/// Whether a composite is to be replaced, and why although there is a template.
fn verdict(graph: &Graph, id: NodeId, capabilities: Devices<'_>) -> Option<Option<Unfit>> {
    let node = graph.node(id);
    if !is_composite(graph, id) {
        return None;
    }
    let range = capabilities(node.ty.device).attention.filter(|_| Optimization::Templates.is_on());
    let (Some(part), Some(range)) = (part(&node.op), range) else { return Some(None) };
    if part != AttentionPart::Result && !range.backward {
        return Some(None);
    }
    let operands: Vec<&Type> = node.operands.iter().map(|&operand| graph.ty(operand)).collect();
    fits(part, &operands, &range).err().map(Some)
}

impl Expanded {
    fn replace(&mut self, bodies: &Bodies) {
        for (&id, why) in bodies {
            let node = self.graph.node(id);
            self.decomposed.extend(why.map(|why| Decomposed {
                name: node.op.name(),
                ty: node.ty.clone(),
                at: node.span,
                why,
            }));
        }
        let Expansion { graph, map, inside, .. } = expand_once(&self.graph, |id| bodies.contains_key(&id));
        self.map.iter_mut().chain(&mut self.inside).for_each(|id| *id = map[id.index()]);
        // A user's composite has no template: all are replaced the first time.
        if self.inside.is_empty() {
            self.inside = inside;
        }
        self.graph = graph;
    }
}

/// Composites replaced by bodies, as they are.
struct Expansion {
    graph: Graph,
    map: Vec<NodeId>,
    /// The new nodes of each composite's body.
    spliced: HashMap<NodeId, Range<u32>>,
    /// The nodes of the bodies of users' composites, body by body.
    inside: Vec<NodeId>,
}

fn expand_once(graph: &Graph, replaced: impl Fn(NodeId) -> bool) -> Expansion {
    type BodyKey = (usize, SmallVec<[NodeId; 3]>);
    let mut expanded = Graph::default();
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    let (mut spliced, mut inside) = (HashMap::new(), Vec::new());
    // Several results of one composite share one copy of its body.
    let mut bodies: HashMap<BodyKey, (Vec<NodeId>, Range<u32>)> = HashMap::new();
    for (node, old) in graph.nodes.iter().zip(graph.ids()) {
        let operands: SmallVec<[NodeId; 3]> = node.operands.iter().map(|o| map[o.index()]).collect();
        let id = match &node.op {
            Op::Composite(composite, out) if replaced(old) => {
                let key = (Arc::as_ptr(composite) as usize, operands.clone());
                let body = bodies.entry(key).or_insert_with(|| {
                    let start = expanded.nodes.len() as u32;
                    let (nodes, results) = splice(&mut expanded, composite, &operands);
                    if composite.built_in.is_none() {
                        inside.extend(nodes);
                    }
                    (results, start..expanded.nodes.len() as u32)
                });
                spliced.insert(old, body.1.clone());
                body.0[*out as usize]
            }
            _ => expanded.push(GraphNode { operands, ..node.clone() }),
        };
        map.push(id);
    }
    expanded.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    Expansion { graph: expanded, map, spliced, inside }
}

/// Those of some attentions of which something else, no template, reads a part: a
/// gradient by its body computes the scores, and the attention's body would share them.
fn shared(graph: &Graph, kept: &[NodeId]) -> HashSet<NodeId> {
    let Expansion { graph: whole, map, spliced, .. } = expand_once(graph, |id| kept.contains(&id));
    let (simple, now) = simplify(&whole);
    let present = |id: NodeId| Some(now[id.index()]).filter(|id| *id != DROPPED);
    let results: HashSet<NodeId> = kept.iter().filter_map(|id| present(map[id.index()])).collect();
    let needed = needed_without(&simple, &results);
    let read_apart = |(composite, range): (&NodeId, &Range<u32>)| {
        let mut scores = from_products(&whole, range.clone()).filter_map(present);
        scores.any(|id| !results.contains(&id) && needed[id.index()]).then_some(*composite)
    };
    spliced.iter().filter_map(read_apart).collect()
}

/// By number, what the outputs need, were some nodes' values there already.
fn needed_without(graph: &Graph, there: &HashSet<NodeId>) -> Vec<bool> {
    let mut needed = vec![false; graph.nodes.len()];
    graph.outputs.iter().for_each(|output| needed[output.index()] = true);
    for id in graph.ids().rev() {
        if needed[id.index()] && !there.contains(&id) {
            graph.node(id).operands.iter().for_each(|x| needed[x.index()] = true);
        }
    }
    needed
}

/// The nodes of a body from its products on.
fn from_products(graph: &Graph, range: Range<u32>) -> impl Iterator<Item = NodeId> {
    let mut found: HashSet<NodeId> = HashSet::new();
    for id in range.map(NodeId) {
        let node = graph.node(id);
        if matches!(node.op, Op::Contract(_)) || node.operands.iter().any(|x| found.contains(x)) {
            found.insert(id);
        }
    }
    found.into_iter()
}

/// Adds a composite's body on these operands; gives its nodes and its results.
fn splice(graph: &mut Graph, composite: &Composite, operands: &[NodeId]) -> (Vec<NodeId>, Vec<NodeId>) {
    let body = collect_body(&composite.body.results);
    let mut map: Vec<NodeId> = Vec::with_capacity(body.nodes.len());
    for node in &body.nodes {
        let id = if let Op::Param(number, _) = node.op {
            operands[number as usize]
        } else {
            let operands = node.operands.iter().map(|o| map[o.index()]).collect();
            graph.push(GraphNode { operands, ..node.clone() })
        };
        map.push(id);
    }
    let results = body.outputs.iter().map(|output| map[output.index()]).collect();
    (map, results)
}
