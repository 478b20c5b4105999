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
    /// To number a node, unless it has a number.
    Reach(u32),
    /// To number a node whose operands, so many, are the last ones numbered.
    Number(u32, u32),
}

/// A node that an edge leads to.
struct Met {
    /// Itself, until it is numbered.
    node: Option<Arc<Node>>,
    /// Its number, once it has one.
    number: NodeId,
}

/// Most nodes that there is room for from the start: a long history may lie
/// below a node that is computed from few.
const MOST_FORESEEN: usize = 256;

/// Numbers the nodes below `outputs`.
pub fn collect(outputs: &[Arc<Node>]) -> Collected {
    let deepest = outputs.iter().map(|output| output.depth() as usize + 1).max().unwrap_or(0);
    let mut collection = Collection::with_capacity(deepest.min(MOST_FORESEEN));
    outputs.iter().for_each(|output| collection.add_output(output));
    collection.collected
}

/// A collection on the way. Every realize pays for each edge of its graph here, so an
/// edge is looked up once, and a reference is counted only for a node not met before.
struct Collection {
    collected: Collected,
    met: Vec<Met>,
    places: NodeMap<u32>,
    pending: Vec<Visit>,
    /// The numbers of operands whose users have none yet.
    numbered: Vec<NodeId>,
}

impl Collection {
    fn with_capacity(nodes: usize) -> Collection {
        Collection {
            collected: Collected::with_capacity(nodes),
            met: Vec::with_capacity(nodes),
            places: NodeMap::with_capacity_and_hasher(nodes, BuildHasherDefault::default()),
            pending: Vec::new(),
            numbered: Vec::new(),
        }
    }

    fn add_output(&mut self, output: &Arc<Node>) {
        let place = self.meet(output);
        self.pending.push(Visit::Reach(place));
        while let Some(visit) = self.pending.pop() {
            match visit {
                Visit::Reach(place) => self.reach(place),
                Visit::Number(place, operands) => self.number(place, operands as usize),
            }
        }
        self.collected.outputs.append(&mut self.numbered);
    }

    /// The place of a node among those met.
    fn meet(&mut self, node: &Arc<Node>) -> u32 {
        let met = &mut self.met;
        *self.places.entry(key(node)).or_insert_with(|| {
            met.push(Met { node: Some(node.clone()), number: NodeId(0) });
            met.len() as u32 - 1
        })
    }

    /// Leaves a node to be numbered after its operands, the first of them first. One
    /// that has a value needs none.
    fn reach(&mut self, place: u32) {
        let met = &mut self.met[place as usize];
        let Some(node) = met.node.take() else {
            self.numbered.push(met.number);
            return;
        };
        let operands = node.operands();
        // Looked at under the lock: a value set meanwhile empties the list.
        let needed = if node.value().is_none() { &operands[..] } else { &[] };
        self.pending.push(Visit::Number(place, needed.len() as u32));
        for operand in needed.iter().rev() {
            let place = self.meet(operand);
            self.pending.push(Visit::Reach(place));
        }
        drop(operands);
        self.met[place as usize].node = Some(node);
    }

    fn number(&mut self, place: u32, operands: usize) {
        let met = &mut self.met[place as usize];
        let Some(node) = met.node.take() else { return };
        let first = self.numbered.len() - operands;
        met.number = self.collected.push(node, &self.numbered[first..]);
        self.numbered.truncate(first);
        self.numbered.push(met.number);
    }
}

impl Collected {
    fn with_capacity(nodes: usize) -> Collected {
        let (ends, operands) = (Vec::with_capacity(nodes), Vec::with_capacity(2 * nodes));
        Collected { nodes: Vec::with_capacity(nodes), ends, operands, ..Collected::default() }
    }

    fn push(&mut self, node: Arc<Node>, operands: &[NodeId]) -> NodeId {
        let number = NodeId(self.nodes.len() as u32);
        // A value set since the operands were read makes a leaf all the same.
        match node.value() {
            Some(_) => self.leaves.push(number),
            None => self.operands.extend_from_slice(operands),
        }
        self.ends.push(self.operands.len());
        self.nodes.push(node);
        number
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
