//! From persistent nodes to the dense graph.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::node::Node;
use crate::ir::op::Op;

/// The unrealized nodes below some outputs, numbered, and the realized ones
/// they read.
#[derive(Debug, Default)]
pub struct Collected {
    /// The dense graph; leaf `i` is `Op::Param(i)`.
    pub graph: Graph,
    /// The nodes with values, in the order of their parameters.
    pub leaves: Vec<Arc<Node>>,
    /// The persistent node behind each dense one.
    pub nodes: Vec<Arc<Node>>,
}

/// Numbers the nodes below `outputs` in topological order: operands first,
/// in the order they are read. A node with a value becomes a parameter.
pub fn collect(outputs: &[Arc<Node>]) -> Collected {
    let mut collected = Collected::default();
    let mut numbers: NodeMap<NodeId> = NodeMap::default();
    // A node is pushed once unexpanded and, below its operands, once with
    // their keys. Each reference counted or lock taken is paid for by every
    // node of every plan, so there are as few as can be.
    let mut pending: Vec<(Arc<Node>, Option<SmallVec<[usize; 3]>>)> = Vec::new();
    for output in outputs {
        pending.push((output.clone(), None));
        while let Some((node, expanded)) = pending.pop() {
            if numbers.contains_key(&key(&node)) {
                continue;
            }
            let keys = match expanded {
                Some(keys) => keys,
                None => {
                    let operands = node.operands();
                    // Checked under the lock: a value set meanwhile empties the list.
                    let keys: SmallVec<[usize; 3]> = match node.value() {
                        Some(_) => SmallVec::new(),
                        None => operands.iter().map(key).collect(),
                    };
                    if !keys.is_empty() {
                        let at = pending.len();
                        let new = operands.iter().rev().filter(|o| !numbers.contains_key(&key(o)));
                        pending.extend(new.map(|o| (o.clone(), None)));
                        drop(operands);
                        if pending.len() > at {
                            pending.insert(at, (node, Some(keys)));
                            continue;
                        }
                    }
                    keys
                }
            };
            let number = key(&node);
            let ids = keys.iter().filter_map(|key| numbers.get(key).copied()).collect();
            let id = collected.push(node, ids);
            numbers.insert(number, id);
        }
        collected.graph.outputs.push(numbers[&key(output)]);
    }
    collected
}

impl Collected {
    fn push(&mut self, node: Arc<Node>, operands: SmallVec<[NodeId; 3]>) -> NodeId {
        let (op, operands) = if node.value().is_some() {
            self.leaves.push(node.clone());
            let number = self.leaves.len() as u32 - 1;
            (Op::Param(number, Box::new(node.ty().clone())), Default::default())
        } else {
            (node.op().clone(), operands)
        };
        let id = self.graph.push(GraphNode { op, ty: node.ty().clone(), operands, span: node.span() });
        self.nodes.push(node);
        id
    }
}

/// The dense graph of a closed body: its parameters keep their numbers.
pub fn collect_body(results: &[Arc<Node>]) -> Graph {
    collect(results).graph
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
