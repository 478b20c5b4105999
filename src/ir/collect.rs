//! From persistent nodes to the dense graph.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::base::Span;
use crate::ir::claim::Deadlock;
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
    /// Operations whose values are worth keeping ([`Node::is_kept`]).
    kept: Vec<NodeId>,
    graph: OnceCell<Graph>,
    inside: OnceCell<Vec<Arc<Node>>>,
}

/// Numbers of nodes inside bodies start here.
const INSIDE: u32 = 1 << 31;

/// The number by which [`Collected::node`] knows a node of [`Collected::inside`].
pub fn inside(number: u32) -> NodeId {
    NodeId(INSIDE + number)
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

/// Numbers the nodes below `outputs`. Waits for those that other threads compute.
///
/// # Errors
/// One whose computation waits for this thread.
pub fn collect(outputs: &[Arc<Node>]) -> Result<Collected, Deadlock> {
    let deepest = outputs.iter().map(|output| output.depth() as usize + 1).max().unwrap_or(0);
    let mut collection = Collection::with_capacity(deepest.min(MOST_FORESEEN));
    let outputs = outputs.iter().map(|output| collection.add_output(output)).collect::<Result<_, _>>()?;
    Ok(collection.finish(outputs))
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
    fn add_output(&mut self, output: &Arc<Node>) -> Result<NodeId, Deadlock> {
        let place = self.meet(output);
        self.pending.push(Visit::Reach(place));
        while let Some(visit) = self.pending.pop() {
            match visit {
                Visit::Reach(place) if self.met[place as usize].number == NO_NUMBER => self.reach(place)?,
                Visit::Reach(_) => {}
                Visit::Number(place) => self.number(place),
            }
        }
        Ok(self.met[place as usize].number)
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
    fn reach(&mut self, place: u32) -> Result<(), Deadlock> {
        // Not in the list while that grows.
        let Some(node) = self.nodes[place as usize].take() else { return Ok(()) };
        let first = self.operands.len();
        let operands = node.operands_to_compute()?;
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
            self.number(place);
            return Ok(());
        }
        self.met[place as usize].operands = (first as u32, self.operands.len() as u32);
        self.pending.push(Visit::Number(place));
        self.pending.extend(self.operands[first..].iter().rev().map(|&operand| Visit::Reach(operand)));
        Ok(())
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
            None => {
                self.operands.extend(operands);
                if node.is_kept() {
                    self.kept.push(NodeId(self.nodes.len() as u32));
                }
            }
        }
        self.ends.push(self.operands.len());
        self.nodes.push(node);
    }

    /// Adds a node that is not in the collection, with the numbers of its operands; returns its own.
    pub fn add(&mut self, node: Arc<Node>, operands: &[NodeId]) -> NodeId {
        self.graph.take();
        self.push(node, operands.iter().copied());
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The leaves, in the order of their parameters.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.leaves.iter().map(|leaf| &self.nodes[leaf.index()])
    }

    /// The leaves' numbers, in the order of their parameters.
    pub fn leaf_ids(&self) -> &[NodeId] {
        &self.leaves
    }

    /// Operations whose values are to be kept: whose node says so, and is held by more than the edges of this
    /// graph or is a collective. A constant is computed anew wherever it is read, at no cost.
    pub fn kept(&self) -> Vec<Arc<Node>> {
        if self.kept.is_empty() {
            return Vec::new();
        }
        let edges = self.edges();
        let is_held =
            |id: NodeId| Arc::strong_count(&self.nodes[id.index()]) > edges[id.index()] as usize + 1;
        // What ranks have run together none of them can run again by itself.
        let runs_once = |id: NodeId| matches!(self.nodes[id.index()].op(), Op::Collective(_));
        let held = |id: &&NodeId| runs_once(**id) || is_held(**id);
        let kept = self.kept.iter().filter(held).filter(|id| !self.outputs.contains(id));
        kept.filter(|&&id| !self.is_constant(id)).map(|id| self.nodes[id.index()].clone()).collect()
    }

    /// Operations that the gradients of some losses may ask for, once they are there.
    pub fn gradient_candidates(&self, losses: &[Arc<Node>]) -> Vec<NodeId> {
        let mut to_do = losses.to_vec();
        let mut needed: NodeMap<()> = NodeMap::default();
        while let Some(node) = to_do.pop() {
            let below =
                node.history().into_iter().filter(|node| node.value().is_none() && node.has_gradient());
            to_do.extend(below.filter(|node| needed.insert(key(node), ()).is_none()));
        }
        if needed.is_empty() {
            return Vec::new();
        }
        let ids = (0..).map(NodeId).zip(&self.nodes).filter(|(id, _)| !self.outputs.contains(id));
        ids.filter(|(_, node)| needed.contains_key(&key(node))).map(|(id, _)| id).collect()
    }

    /// By node: how many operands it is.
    pub fn edges(&self) -> Vec<u32> {
        let mut edges = vec![0; self.nodes.len()];
        self.operands.iter().for_each(|operand| edges[operand.index()] += 1);
        edges
    }

    /// Whether a node is one number everywhere, or a ramp of them, perhaps moved.
    fn is_constant(&self, mut id: NodeId) -> bool {
        let moves = |op: &Op| {
            matches!(
                op,
                Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Flip(_) | Op::Copy(_)
            )
        };
        while let ([below, ..], true) = (self.operands(id), moves(self.nodes[id.index()].op())) {
            id = *below;
        }
        matches!(self.nodes[id.index()].op(), Op::Const(..) | Op::Arg(..) | Op::Iota(..))
    }

    /// The numbers of a node's operands.
    pub fn operands(&self, id: NodeId) -> &[NodeId] {
        let start = id.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.operands[start..self.ends[id.index()]]
    }

    /// The node of a number, perhaps one inside a body, unless it is one that a plan has added to a body.
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        match id.0.checked_sub(INSIDE) {
            Some(number) => self.inside().get(number as usize),
            None => self.nodes.get(id.index()),
        }
    }

    /// The nodes in the bodies of users' composites, body by body. Results of one composite share a body.
    pub fn inside(&self) -> &[Arc<Node>] {
        self.inside.get_or_init(|| {
            let mut seen: HashSet<(usize, &[NodeId])> = HashSet::new();
            let mut nodes = Vec::new();
            for (node, leaf, operands) in self.items() {
                if let (Op::Composite(composite, _), None) = (node.op(), leaf)
                    && composite.built_in.is_none()
                    && seen.insert((Arc::as_ptr(composite) as usize, operands))
                {
                    nodes.extend(collect_nodes_of_body(&composite.body.results).nodes);
                }
            }
            nodes
        })
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

    /// [`Collected::graph`], once nothing else of the collection is needed.
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
    collect_nodes_of_body(results).into_graph()
}

/// The nodes of a closed body.
pub fn collect_nodes_of_body(results: &[Arc<Node>]) -> Collected {
    match collect(results) {
        Ok(collected) => collected,
        Err(Deadlock) => panic!("the nodes of a body are computed by nobody"),
    }
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
        let collected = collect(&[product.clone(), difference.clone(), product]).unwrap();
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
        assert_eq!(numbers(&collect(&[twice]).unwrap()), [vec![], vec![], vec![0, 1], vec![2, 2]]);
        let (held, let_go) = (collect(&[top(&held)]).unwrap(), collect(&[top(&sum())]).unwrap());
        assert_eq!(numbers(&held), numbers(&let_go));
        assert_eq!(numbers(&held), [vec![], vec![], vec![0, 1], vec![2], vec![2, 3]]);
    }
}
