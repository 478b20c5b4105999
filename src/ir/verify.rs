//! The structural checker of dense graphs: what every pass must leave true.
//!
//! Operands come before their users; the stored type of each node is the one
//! inference finds; a parameter's number always stands for one type; there
//! are no leaves; outputs exist; and the same holds inside bodies, whose
//! parameters are the declared ones.

use std::collections::HashMap;
use std::fmt;

use crate::base::Span;
use crate::ir::collect::collect_body;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::infer::infer;
use crate::ir::op::{Body, Op};
use crate::ir::ty::Type;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The node at fault; for an output that does not exist, its number.
    pub node: NodeId,
    /// The user's line behind the node, if the node is there.
    pub span: Option<Span>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}: {}", self.node.0, self.message)?;
        self.span.map_or(Ok(()), |span| write!(f, "\n  at {span}"))
    }
}

/// Every broken invariant, in node order; empty for a sound graph.
pub fn verify(graph: &Graph) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut params = HashMap::new();
    for id in graph.ids() {
        let node = graph.node(id);
        let mut messages = check_node(graph, id, node);
        messages.extend(check_param(node, &mut params));
        messages.extend(node.op.body().map(check_body).unwrap_or_default());
        let violation = |message| Violation { node: id, span: Some(node.span), message };
        violations.extend(messages.into_iter().map(violation));
    }
    let missing = graph.outputs.iter().filter(|o| o.index() >= graph.nodes.len());
    violations.extend(missing.map(|&node| Violation {
        node,
        span: None,
        message: "an output that is not in the graph".into(),
    }));
    violations
}

fn check_node(graph: &Graph, id: NodeId, node: &GraphNode) -> Vec<String> {
    let late: Vec<String> = node
        .operands
        .iter()
        .filter(|&&operand| operand >= id)
        .map(|operand| format!("{} reads %{}, which is not before it", node.op.name(), operand.0))
        .collect();
    if !late.is_empty() {
        return late;
    }
    let types: Vec<&Type> = node.operands.iter().map(|&operand| graph.ty(operand)).collect();
    match infer(&node.op, &types) {
        Ok(ty) if ty == node.ty => Vec::new(),
        Ok(ty) => vec![format!("{} has type {}, inference finds {ty}", node.op.name(), node.ty)],
        Err(e) => vec![format!("{}: expected {}, found {}", node.op.name(), e.expected, e.found)],
    }
}

fn check_param<'a>(node: &'a GraphNode, params: &mut HashMap<u32, &'a Type>) -> Option<String> {
    match &node.op {
        Op::Leaf(_) => Some("a leaf in a dense graph".into()),
        Op::Param(number, ty) => match params.insert(*number, ty) {
            Some(before) if before != ty => {
                Some(format!("parameter {number} has type {ty}, and {before} before"))
            }
            Some(_) | None => None,
        },
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) => None,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) | Op::Flip(_) => None,
        Op::Window(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) | Op::Contract(_) => None,
        Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } | Op::Copy(_) | Op::Collective(_) | Op::After => {
            None
        }
        Op::Pack(_) => None,
        Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => None,
    }
}

/// A body is sound and reads the parameters it declares.
fn check_body(body: &Body) -> Vec<String> {
    let graph = collect_body(&body.results);
    let mut messages: Vec<String> = verify(&graph).iter().map(|v| format!("in its body, {v}")).collect();
    for node in &graph.nodes {
        if let Op::Param(number, ty) = &node.op {
            let declared = body.params.get(*number as usize);
            if declared != Some(ty) {
                let declared = declared.map_or("nothing".into(), Type::to_string);
                messages.push(format!("its body reads parameter {number} as {ty}, declared {declared}"));
            }
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::smallvec;

    use super::*;
    use crate::base::{DType, Device, Scalar};
    use crate::ir::op::Composite;
    use crate::ir::{AluOp, Monoid, Node};

    fn float(shape: &[usize]) -> Type {
        Type::new(shape, DType::F32, Device::cpu())
    }

    fn push(graph: &mut Graph, op: Op, ty: Type, operands: &[u32]) {
        let operands: Vec<NodeId> = operands.iter().map(|&o| NodeId(o)).collect();
        graph.nodes.push(GraphNode::new(op, ty, operands, Span::caller()));
    }

    fn sound() -> Graph {
        let mut graph = Graph::default();
        push(&mut graph, Op::Param(0, float(&[4, 8])), float(&[4, 8]), &[]);
        push(&mut graph, Op::Const(Scalar::Float(1.0), DType::F32, Device::cpu()), float(&[]), &[]);
        push(&mut graph, Op::Alu(AluOp::Add), float(&[4, 8]), &[0, 1]);
        push(&mut graph, Op::Reduce(Monoid::Sum, [1].into()), float(&[4]), &[2]);
        graph.outputs = vec![NodeId(3)];
        graph
    }

    fn found(graph: &Graph) -> Vec<(u32, String)> {
        verify(graph).into_iter().map(|v| (v.node.0, v.message)).collect()
    }

    #[test]
    fn a_sound_graph_has_no_violations() {
        assert_eq!(found(&sound()), []);
    }

    #[test]
    fn planted_bugs_are_found_where_they_are() {
        let mut late = sound();
        late.nodes[2].operands[1] = NodeId(3);
        assert_eq!(found(&late), [(2, "add reads %3, which is not before it".into())]);

        let mut wrong = sound();
        Arc::make_mut(&mut wrong.nodes[3].kind).ty = float(&[8]);
        assert_eq!(found(&wrong), [(3, "sum has type f32[8], inference finds f32[4]".into())]);

        let mut arity = sound();
        arity.nodes[2].operands.pop();
        assert_eq!(found(&arity), [(2, "add: expected 2 operands, found 1".into())]);

        let mut leaf = sound();
        leaf.nodes[0] = leaf.nodes[0].with_op(Op::Leaf(float(&[4, 8])));
        assert_eq!(found(&leaf), [(0, "a leaf in a dense graph".into())]);

        let mut param = sound();
        push(&mut param, Op::Param(0, float(&[2])), float(&[2]), &[]);
        assert_eq!(found(&param), [(4, "parameter 0 has type f32[2], and f32[4, 8] before".into())]);

        let mut output = sound();
        output.outputs.push(NodeId(9));
        assert_eq!(found(&output), [(9, "an output that is not in the graph".into())]);
    }

    #[test]
    fn bodies_are_checked_too() {
        let inner = Node::new(Op::Param(1, float(&[2])), float(&[2]), smallvec![], Span::caller());
        let body = crate::ir::Body { params: vec![float(&[2])], results: vec![inner] };
        let composite = Arc::new(Composite::new("broken", None, vec![], body));
        let mut graph = Graph::default();
        push(&mut graph, Op::Param(0, float(&[2])), float(&[2]), &[]);
        push(&mut graph, Op::Composite(composite, 0), float(&[2]), &[0]);
        let message = "its body reads parameter 1 as f32[2], declared nothing";
        assert_eq!(found(&graph), [(1, message.into())]);
    }
}
