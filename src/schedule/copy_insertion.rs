//! Copy insertion: copies values to where and how steps need them. A scatter's base goes into
//! memory of its own, the operands of steps that are not kernels into
//! row-major memory, what is packed into its pack.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::base::Device;
use crate::ir::{Graph, GraphNode, Layout, NodeId, Op};
use crate::schedule::fusion_class::{FusionClass, fusion_class};

/// The graph with a materialized copy in front of each scatter whose base is
/// an input, or is read by anything else, of each parameter that is not
/// dense and is read by a step that is not a kernel, and of what is packed and
/// in memory already. The second result maps
/// old numbers to new ones.
pub fn insert_copies(graph: &Graph, layouts: &[Layout]) -> (Graph, Vec<NodeId>) {
    let users = graph.users();
    let mut placed = Graph::default();
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut operands: SmallVec<[NodeId; 3]> = node.operands.iter().map(|o| map[o.index()]).collect();
        if let Op::Scatter(..) = node.op {
            let base = node.operands[0];
            let alone = users[base.index()].len() == 1 && !graph.outputs.contains(&base);
            let computed = matches!(
                fusion_class(graph.node(base), true),
                FusionClass::Pointwise | FusionClass::Structural | FusionClass::Scatter
            );
            if !(alone && computed) {
                operands[0] = placed.push(copy_of(operands[0], graph.node(base), node.ty.device));
            }
        }
        if let Op::Pack(_) = node.op {
            let mut seen = HashSet::new();
            for (number, &old) in node.operands.iter().enumerate() {
                let again = !seen.insert(old);
                if again || !computed_alone(graph, old, &users) {
                    operands[number] =
                        placed.push(copy_of(operands[number], graph.node(old), node.ty.device));
                }
            }
        }
        let transfer = matches!(node.op, Op::Copy(_));
        if fusion_class(node, false) == FusionClass::Opaque && !transfer {
            for (operand, &old) in operands.iter_mut().zip(&node.operands) {
                if !is_dense(graph.node(old), layouts) {
                    *operand = placed.push(copy_of(*operand, graph.node(old), node.ty.device));
                }
            }
        }
        map.push(placed.push(GraphNode { operands, ..node.clone() }));
    }
    placed.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    (placed, map)
}

/// Whether a value is computed, and can be so within the memory of the one
/// pack that it is part of.
fn computed_alone(graph: &Graph, id: NodeId, users: &[SmallVec<[NodeId; 4]>]) -> bool {
    let packs = |user: &&NodeId| matches!(graph.node(**user).op, Op::Pack(_));
    let mut packs = users[id.index()].iter().filter(packs);
    let only = packs.next();
    let in_memory = matches!(
        fusion_class(graph.node(id), true),
        FusionClass::Input | FusionClass::Source | FusionClass::Pack
    );
    !in_memory && packs.all(|pack| Some(pack) == only)
}

/// Whether a value is contiguous and row-major; only parameters may not be.
fn is_dense(node: &GraphNode, layouts: &[Layout]) -> bool {
    let Op::Param(number, _) = node.op else { return true };
    layouts.get(number as usize).is_none_or(|layout| layout.is_contiguous(&node.ty.shape))
}

fn copy_of(id: NodeId, node: &GraphNode, device: Device) -> GraphNode {
    let operands = smallvec::smallvec![id];
    GraphNode::new(Op::Copy(device), node.ty.clone(), operands, node.span)
}
