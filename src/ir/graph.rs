//! The dense graph the compiler works on: nodes in topological order,
//! operands by number, inputs as [`Op::Param`].

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::Span;
use crate::ir::op::Op;
use crate::ir::ty::Type;

/// Number of a node in a [`Graph`]; operands have lower numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index into dense tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A short list of nodes.
pub type NodeIds = SmallVec<[NodeId; 4]>;

/// What a node computes, and of what type: the same for many nodes of a model of equal
/// layers, so that nodes may share it.
#[derive(Clone, Debug)]
pub struct NodeKind {
    /// The operation; never [`Op::Leaf`].
    pub op: Op,
    /// What inference found.
    pub ty: Type,
}

/// One operation of a dense graph.
#[derive(Clone, Debug)]
pub struct GraphNode {
    /// What it computes; as if it were the node's own.
    pub kind: Arc<NodeKind>,
    /// Lower-numbered nodes.
    pub operands: SmallVec<[NodeId; 3]>,
    /// The user's line.
    pub span: Span,
}

impl Deref for GraphNode {
    type Target = NodeKind;
    fn deref(&self) -> &NodeKind {
        &self.kind
    }
}

impl GraphNode {
    /// A node of its own kind.
    pub fn new(op: Op, ty: Type, operands: impl Into<SmallVec<[NodeId; 3]>>, span: Span) -> GraphNode {
        GraphNode { kind: Arc::new(NodeKind { op, ty }), operands: operands.into(), span }
    }
    /// The node with another operation of the same result.
    #[must_use]
    pub fn with_op(&self, op: Op) -> GraphNode {
        GraphNode::new(op, self.ty.clone(), self.operands.clone(), self.span)
    }
    /// Whether it is an operand that is to be in memory before it is read.
    pub fn waits_for_itself(&self) -> bool {
        matches!(self.op, Op::After) && self.operands[0] == self.operands[1]
    }
}

/// A graph with numbered inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// In topological order.
    pub nodes: Vec<GraphNode>,
    /// The results, in the caller's order; repeats are allowed.
    pub outputs: Vec<NodeId>,
}

impl Graph {
    /// Adds a node; its operands must be there already.
    pub fn push(&mut self, node: GraphNode) -> NodeId {
        debug_assert!(node.operands.iter().all(|o| o.index() < self.nodes.len()));
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        id
    }
    /// The node of a number.
    pub fn node(&self, id: NodeId) -> &GraphNode {
        &self.nodes[id.index()]
    }
    /// The type of a node.
    pub fn ty(&self, id: NodeId) -> &Type {
        &self.nodes[id.index()].ty
    }
    /// All numbers, ascending.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
    /// The values whose memory together is that of a value: what it packs, or
    /// itself.
    pub fn pieces<'a>(&'a self, id: &'a NodeId) -> &'a [NodeId] {
        let node = self.node(*id);
        if let Op::Pack(_) = node.op { &node.operands } else { std::slice::from_ref(id) }
    }
    /// Of each node, whether it is a result or a piece of one.
    pub fn results(&self) -> Vec<bool> {
        let mut results = vec![false; self.nodes.len()];
        for output in &self.outputs {
            results[output.index()] = true;
            self.pieces(output).iter().for_each(|piece| results[piece.index()] = true);
        }
        results
    }
    /// For each node, the nodes that read it, ascending, once per use.
    pub fn users(&self) -> Vec<SmallVec<[NodeId; 4]>> {
        let mut users = vec![SmallVec::new(); self.nodes.len()];
        for id in self.ids() {
            for operand in &self.node(id).operands {
                users[operand.index()].push(id);
            }
        }
        users
    }
}
