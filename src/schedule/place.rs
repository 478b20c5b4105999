//! Gives every scatter a base of its own: memory that it may update.

use crate::base::Device;
use crate::ir::{Graph, GraphNode, NodeId, Op};
use crate::schedule::class::{Class, class};

/// The graph with a materialized copy in front of each scatter whose base is
/// an input, or is read by anything else. The second result maps old numbers
/// to new ones.
pub fn place(graph: &Graph) -> (Graph, Vec<NodeId>) {
    let users = graph.users();
    let mut placed = Graph::default();
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut operands: smallvec::SmallVec<[NodeId; 3]> =
            node.operands.iter().map(|o| map[o.index()]).collect();
        if let Op::Scatter(..) = node.op {
            let base = node.operands[0];
            let alone = users[base.index()].len() == 1 && !graph.outputs.contains(&base);
            let computed = matches!(
                class(graph.node(base), true),
                Class::Pointwise | Class::Structural | Class::Scatter
            );
            if !(alone && computed) {
                operands[0] = placed.push(copy_of(operands[0], graph.node(base), node.ty.device));
            }
        }
        map.push(placed.push(GraphNode { operands, ..node.clone() }));
    }
    placed.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    (placed, map)
}

fn copy_of(id: NodeId, node: &GraphNode, device: Device) -> GraphNode {
    let operands = smallvec::smallvec![id];
    GraphNode { op: Op::Copy(device), ty: node.ty.clone(), operands, span: node.span }
}
