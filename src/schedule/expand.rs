//! Replaces composites that no template runs by their bodies.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::Device;
use crate::ir::collect::collect_body;
use crate::ir::{Composite, Graph, GraphNode, NodeId, Op};

/// The graph with every composite replaced by its body, unless `template`
/// says that the device runs it. Bodies are expanded in turn. The second
/// result maps old numbers to new ones.
pub fn expand(graph: Graph, template: &dyn Fn(Device, &'static str) -> bool) -> (Graph, Vec<NodeId>) {
    let has_any = |graph: &Graph| graph.nodes.iter().any(|node| to_expand(node, template).is_some());
    let mut map: Vec<NodeId> = graph.ids().collect();
    let mut graph = graph;
    while has_any(&graph) {
        let (expanded, step) = expand_once(&graph, template);
        map.iter_mut().for_each(|id| *id = step[id.index()]);
        graph = expanded;
    }
    (graph, map)
}

fn to_expand<'n>(
    node: &'n GraphNode,
    template: &dyn Fn(Device, &'static str) -> bool,
) -> Option<(&'n Arc<Composite>, u32)> {
    let Op::Composite(composite, out) = &node.op else { return None };
    (!template(node.ty.device, composite.name)).then_some((composite, *out))
}

fn expand_once(graph: &Graph, template: &dyn Fn(Device, &'static str) -> bool) -> (Graph, Vec<NodeId>) {
    type Key = (usize, SmallVec<[NodeId; 3]>);
    let mut expanded = Graph::default();
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    // Several results of one composite share one copy of its body.
    let mut bodies: HashMap<Key, Vec<NodeId>> = HashMap::new();
    for node in &graph.nodes {
        let operands: SmallVec<[NodeId; 3]> = node.operands.iter().map(|o| map[o.index()]).collect();
        let id = match to_expand(node, template) {
            None => expanded.push(GraphNode { operands, ..node.clone() }),
            Some((composite, out)) => {
                let key = (Arc::as_ptr(composite) as usize, operands.clone());
                let results =
                    bodies.entry(key).or_insert_with(|| splice(&mut expanded, composite, &operands));
                results[out as usize]
            }
        };
        map.push(id);
    }
    expanded.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    (expanded, map)
}

/// Adds a composite's body on these operands; gives its results.
fn splice(graph: &mut Graph, composite: &Composite, operands: &[NodeId]) -> Vec<NodeId> {
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
    body.outputs.iter().map(|output| map[output.index()]).collect()
}
