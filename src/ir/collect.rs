//! From persistent nodes to the dense graph.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::base::Span;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::node::Node;
use crate::ir::op::Op;

/// The unrealized nodes below some outputs, and the realized ones they read,
/// numbered. A realized node is a leaf: a parameter of the graph.
#[derive(Debug, Default)]
pub struct Collected {
    /// In topological order: operands first, in the order they are read.
    pub nodes: Vec<Arc<Node>>,
    /// The outputs' numbers, in the caller's order.
    pub outputs: Vec<NodeId>,
    /// The leaves' numbers, ascending.
    leaves: Vec<NodeId>,
    /// The numbers of all operands, node after node.
    operands: Vec<NodeId>,
    /// By node: where its operands end.
    ends: Vec<usize>,
    graph: OnceCell<Graph>,
}

/// What is left to do of a collection, nodes by their place among those met.
#[derive(Clone, Copy)]
enum Visit {
    /// To number a node after its operands, unless it has a number.
    Reach(u32),
    /// To number a node whose operands have numbers.
    Number(u32),
}

/// What is known of a node that has been met.
struct Met {
    /// Its number, or [`NO_NUMBER`].
    number: NodeId,
    /// Where the places of its operands begin and end, once it is reached.
    operands: (u32, u32),
}

const NO_NUMBER: NodeId = NodeId(u32::MAX);

/// Most nodes that there is room for from the start: a long history may lie
/// below a node that is computed from few.
const MOST_FORESEEN: usize = 256;

/// Numbers the nodes below `outputs`.
pub fn collect(outputs: &[Arc<Node>]) -> Collected {
    let deepest = outputs.iter().map(|output| output.depth() as usize + 1).max().unwrap_or(0);
    let mut collection = Collection::with_capacity(deepest.min(MOST_FORESEEN));
    let outputs = outputs.iter().map(|output| collection.add_output(output)).collect();
    collection.finish(outputs)
}

/// A collection on the way. Every realize pays for each edge of its graph here, so an edge is
/// looked up only where another may lead to the same node, and the lists are of small numbers.
struct Collection {
    /// The nodes that have been met.
    nodes: Vec<Option<Arc<Node>>>,
    met: Vec<Met>,
    /// The places of those that several edges may lead to.
    places: NodeMap<u32>,
    /// The places of operands, as their users were reached.
    operands: Vec<u32>,
    pending: Vec<Visit>,
    /// The places of the nodes by number.
    order: Vec<u32>,
}

impl Collection {
    fn with_capacity(nodes: usize) -> Collection {
        Collection {
            nodes: Vec::with_capacity(nodes),
            met: Vec::with_capacity(nodes),
            places: NodeMap::default(),
            operands: Vec::with_capacity(2 * nodes),
            pending: Vec::with_capacity(2 * nodes),
            order: Vec::with_capacity(nodes),
        }
    }

    /// Numbers an output and what is below it; returns its number.
    fn add_output(&mut self, output: &Arc<Node>) -> NodeId {
        let place = self.meet(output);
        self.pending.push(Visit::Reach(place));
        while let Some(visit) = self.pending.pop() {
            match visit {
                Visit::Reach(place) if self.met[place as usize].number == NO_NUMBER => self.reach(place),
                Visit::Reach(_) => {}
                Visit::Number(place) => self.number(place),
            }
        }
        self.met[place as usize].number
    }

    /// The place of a node that an edge, or the caller's list, leads to.
    #[inline]
    fn meet(&mut self, node: &Arc<Node>) -> u32 {
        let (nodes, met) = (&mut self.nodes, &mut self.met);
        let mut add = || {
            nodes.push(Some(node.clone()));
            met.push(Met { number: NO_NUMBER, operands: (0, 0) });
            met.len() as u32 - 1
        };
        // Another edge would hold it too.
        let alone = Arc::strong_count(node) == 1;
        if alone { add() } else { *self.places.entry(key(node)).or_insert_with(add) }
    }

    /// Leaves a node to be numbered after its operands, the first of them first. One
    /// that has a value needs none.
    fn reach(&mut self, place: u32) {
        // Not in the list while that grows.
        let Some(node) = self.nodes[place as usize].take() else { return };
        let first = self.operands.len();
        let operands = node.operands();
        // Looked at under the lock: a value set meanwhile empties the list.
        if node.value().is_none() {
            for operand in operands.iter() {
                let place = self.meet(operand);
                self.operands.push(place);
            }
        }
        drop(operands);
        self.nodes[place as usize] = Some(node);
        if first == self.operands.len() {
            return self.number(place);
        }
        self.met[place as usize].operands = (first as u32, self.operands.len() as u32);
        self.pending.push(Visit::Number(place));
        self.pending.extend(self.operands[first..].iter().rev().map(|&operand| Visit::Reach(operand)));
    }

    #[inline]
    fn number(&mut self, place: u32) {
        self.met[place as usize].number = NodeId(self.order.len() as u32);
        self.order.push(place);
    }

    /// The nodes in order.
    fn finish(mut self, outputs: Vec<NodeId>) -> Collected {
        let mut collected = Collected::with_capacity(self.order.len(), self.operands.len());
        for place in self.order {
            let (first, end) = self.met[place as usize].operands;
            let operands = &self.operands[first as usize..end as usize];
            let operands = operands.iter().map(|&operand| self.met[operand as usize].number);
            if let Some(node) = self.nodes[place as usize].take() {
                collected.push(node, operands);
            }
        }
        collected.outputs = outputs;
        collected
    }
}

impl Collected {
    fn with_capacity(nodes: usize, operands: usize) -> Collected {
        Collected {
            nodes: Vec::with_capacity(nodes),
            ends: Vec::with_capacity(nodes),
            operands: Vec::with_capacity(operands),
            ..Collected::default()
        }
    }

    #[inline]
    fn push(&mut self, node: Arc<Node>, operands: impl Iterator<Item = NodeId>) {
        // A value set since the operands were read makes a leaf all the same.
        match node.value() {
            Some(_) => self.leaves.push(NodeId(self.nodes.len() as u32)),
            None => self.operands.extend(operands),
        }
        self.ends.push(self.operands.len());
        self.nodes.push(node);
    }

    /// The leaves, in the order of their parameters.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.leaves.iter().map(|leaf| &self.nodes[leaf.index()])
    }

    /// The leaves' numbers, in the order of their parameters.
    pub fn leaf_ids(&self) -> &[NodeId] {
        &self.leaves
    }

    /// The numbers of a node's operands.
    pub fn operands(&self, id: NodeId) -> &[NodeId] {
        let start = id.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.operands[start..self.ends[id.index()]]
    }

    /// The user's line that built a node.
    pub fn span(&self, id: NodeId) -> Span {
        self.nodes[id.index()].span()
    }

    /// The numbers of all nodes' operands.
    pub fn all_operands(&self) -> &[NodeId] {
        &self.operands
    }

    /// Each node with its parameter's number, if it is a leaf, and its
    /// operands' numbers.
    pub fn items(&self) -> impl Iterator<Item = (&Arc<Node>, Option<u32>, &[NodeId])> {
        let (mut leaves, mut start) = (0, 0);
        (0..).map(NodeId).zip(&self.nodes).zip(&self.ends).map(move |((id, node), &end)| {
            let leaf = (self.leaves.get(leaves) == Some(&id)).then_some(leaves as u32);
            leaves += usize::from(leaf.is_some());
            let operands = &self.operands[start..end];
            start = end;
            (node, leaf, operands)
        })
    }

    /// The dense graph; leaf `i` is `Op::Param(i)`. It is built when it is
    /// asked for: a plan that is known is found without it.
    pub fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| self.build_graph())
    }

    /// [`Collected::graph`], once nothing else is asked of the collection.
    pub fn into_graph(self) -> Graph {
        self.build_graph()
    }

    fn build_graph(&self) -> Graph {
        let nodes = self.items().map(|(node, leaf, operands)| {
            let param = |leaf| Op::Param(leaf, node.ty().clone());
            let op = leaf.map_or_else(|| node.op().clone(), param);
            GraphNode::new(op, node.ty().clone(), operands, node.span())
        });
        Graph { nodes: nodes.collect(), outputs: self.outputs.clone() }
    }
}

/// The dense graph of a closed body: its parameters keep their numbers.
pub fn collect_body(results: &[Arc<Node>]) -> Graph {
    collect(results).into_graph()
}

fn key(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

/// A map keyed by node addresses.
pub type NodeMap<V> = AddressMap<usize, V>;

/// A map keyed by addresses.
pub type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// Hashes an address by one multiplication; addresses are distinct already.
#[derive(Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }
    fn write_usize(&mut self, address: usize) {
        self.write_u64(address as u64);
    }
    fn write_u64(&mut self, address: u64) {
        let mixed = (self.0 ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{DType, Device};
    use crate::ir::alu::AluOp;
    use crate::ir::ty::Type;

    fn node(op: Op, operands: &[&Arc<Node>]) -> Arc<Node> {
        let ty = Type::scalar(DType::F32, Device::cpu());
        Node::new(op, ty, operands.iter().map(|&operand| operand.clone()).collect(), Span::caller())
    }

    fn number(value: f64) -> Arc<Node> {
        node(Op::Const(value.into(), DType::F32, Device::cpu()), &[])
    }

    fn numbers(collected: &Collected) -> Vec<Vec<u32>> {
        let ids = (0..collected.nodes.len() as u32).map(NodeId);
        ids.map(|id| collected.operands(id).iter().map(|operand| operand.0).collect()).collect()
    }

    #[test]
    fn operands_come_first_in_the_order_they_are_read() {
        let (a, b) = (number(1.0), number(2.0));
        let difference = node(Op::Alu(AluOp::Sub), &[&b, &a]);
        let product = node(Op::Alu(AluOp::Mul), &[&a, &difference]);
        let collected = collect(&[product.clone(), difference.clone(), product]);
        // a, b, b - a, a (b - a).
        assert_eq!(numbers(&collected), [vec![], vec![], vec![1, 0], vec![0, 2]]);
        assert_eq!(collected.outputs, [NodeId(3), NodeId(2), NodeId(3)]);
        assert!(Arc::ptr_eq(&collected.nodes[2], &difference));
    }

    #[test]
    fn who_else_holds_a_node_does_not_show() {
        let sum = || node(Op::Alu(AluOp::Add), &[&number(1.0), &number(2.0)]);
        let top = |sum: &Arc<Node>| node(Op::Alu(AluOp::Mul), &[sum, &node(Op::Alu(AluOp::Neg), &[sum])]);
        let held = sum();
        let twice = node(Op::Alu(AluOp::Add), &[&held, &held]);
        assert_eq!(numbers(&collect(&[twice])), [vec![], vec![], vec![0, 1], vec![2, 2]]);
        let (held, let_go) = (collect(&[top(&held)]), collect(&[top(&sum())]));
        assert_eq!(numbers(&held), numbers(&let_go));
        assert_eq!(numbers(&held), [vec![], vec![], vec![0, 1], vec![2], vec![2, 3]]);
    }
}
