//! Rewriting dense graphs bottom-up: equal nodes become one, rules replace
//! nodes as they are built, what no output needs is dropped.
//!
//! A graph is rebuilt through a [`GraphBuilder`], whose operands are always in
//! normal form already; so a rule looks at one new node and what is below
//! it, and adding what the rule puts in its place applies the rules again.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::base::{Scalar, Shape, Span};
use crate::ir::alu::AluOp;
use crate::ir::graph::{Graph, GraphNode, NodeId, NodeKind};
use crate::ir::infer::infer;
use crate::ir::mismatch::Mismatch;
use crate::ir::monoid::Monoid;
use crate::ir::op::{Op, WindowAxis};
use crate::ir::ty::Type;

/// Stands in a map from old to new numbers for a node that is gone.
pub const DROPPED: NodeId = NodeId(u32::MAX);

/// A map from old to new numbers, in a word of four bytes each: plans keep one of every node.
#[derive(Clone, Debug, Default)]
pub struct Renumbering(Vec<NodeId>);

impl Renumbering {
    /// By old number, the new one; `None` for a node that is gone.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<NodeId>> + ExactSizeIterator {
        self.0.iter().map(|&id| (id != DROPPED).then_some(id))
    }

    /// The new number of a node; `None` if it is gone.
    pub fn get(&self, old: NodeId) -> Option<NodeId> {
        Some(self.0[old.index()]).filter(|&id| id != DROPPED)
    }
}

impl FromIterator<Option<NodeId>> for Renumbering {
    fn from_iter<I: IntoIterator<Item = Option<NodeId>>>(numbers: I) -> Renumbering {
        Renumbering(numbers.into_iter().map(|number| number.unwrap_or(DROPPED)).collect())
    }
}

/// A named replacement of one node by an equal, never costlier one.
#[derive(Clone, Copy, Debug)]
pub struct RewriteRule {
    /// What it does, in a few words; unique.
    pub name: &'static str,
    /// Whether the oracle's results stay the same bits. The others round
    /// differently in the last place.
    pub exact: bool,
    /// The replacement of a node that has not been added yet, or `None`
    /// where the rule does not apply.
    pub apply: fn(&mut GraphBuilder, &GraphNode) -> Option<NodeId>,
}

/// Merges nodes that compute the same from the same operands, and drops what
/// no output needs. Each [`Op::Arg`] stays itself. The second result maps
/// old numbers to new ones, [`DROPPED`] for nodes without a counterpart.
pub fn cse(graph: &Graph) -> (Graph, Vec<NodeId>) {
    rewrite(graph, &[])
}

/// Like [`cse`], and applies rules until none does.
pub fn rewrite(graph: &Graph, rules: &[RewriteRule]) -> (Graph, Vec<NodeId>) {
    let mut builder = GraphBuilder::new(rules);
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let operands = node.operands.iter().map(|o| map[o.index()]).collect();
        map.push(builder.add_node(GraphNode { operands, ..node.clone() }));
    }
    builder.graph.outputs = graph.outputs.iter().map(|o| map[o.index()]).collect();
    let (swept, kept) = sweep(builder.graph);
    (swept, map.iter().map(|id| kept[id.index()]).collect())
}

/// Drops the nodes that no output needs.
fn sweep(graph: Graph) -> (Graph, Vec<NodeId>) {
    let mut needed = vec![false; graph.nodes.len()];
    graph.outputs.iter().for_each(|output| needed[output.index()] = true);
    for id in graph.ids().rev().collect::<Vec<_>>() {
        if needed[id.index()] {
            graph.node(id).operands.iter().for_each(|operand| needed[operand.index()] = true);
        }
    }
    let mut swept = Graph::default();
    let mut map = vec![DROPPED; graph.nodes.len()];
    for (i, mut node) in graph.nodes.into_iter().enumerate().filter(|(i, _)| needed[*i]) {
        node.operands.iter_mut().for_each(|operand| *operand = map[operand.index()]);
        map[i] = swept.push(node);
    }
    swept.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    (swept, map)
}

/// A graph under construction in which equal nodes are one.
#[derive(Debug)]
pub struct GraphBuilder {
    /// What has been built.
    pub graph: Graph,
    rules: Vec<RewriteRule>,
    numbers: HashMap<NodeKey, NodeId>,
    stored: Vec<bool>,
}

impl GraphBuilder {
    /// An empty graph to be simplified by these rules.
    pub fn new(rules: &[RewriteRule]) -> GraphBuilder {
        GraphBuilder {
            graph: Graph::default(),
            rules: rules.to_vec(),
            numbers: HashMap::new(),
            stored: Vec::new(),
        }
    }

    /// A graph to be added to; its nodes keep their numbers.
    pub fn extending(graph: Graph) -> GraphBuilder {
        let mut builder = GraphBuilder::new(&[]);
        for node in graph.nodes {
            builder.push(node);
        }
        builder.graph.outputs = graph.outputs;
        builder
    }

    /// A node of an operation, or what the rules put in its place. The
    /// operation must fit the operands.
    pub fn add(&mut self, op: Op, operands: &[NodeId], span: Span) -> NodeId {
        let inferred = {
            let types: SmallVec<[&Type; 3]> = operands.iter().map(|&o| self.graph.ty(o)).collect();
            infer(&op, &types)
        };
        let wrong =
            |e: Mismatch| panic!("a rule built {}: expected {}, found {}", op.name(), e.expected, e.found);
        let ty = inferred.unwrap_or_else(wrong);
        self.add_node(GraphNode::new(op, ty, operands, span))
    }

    /// A scalar operation.
    pub fn alu(&mut self, op: AluOp, operands: &[NodeId], span: Span) -> NodeId {
        self.add(Op::Alu(op), operands, span)
    }

    /// The number of a node of type `ty`, repeated over its shape.
    pub fn full(&mut self, value: impl Into<Scalar>, ty: &Type, span: Span) -> NodeId {
        let value = value.into().cast(ty.dtype);
        let scalar = self.add(Op::Const(value, ty.dtype, ty.device), &[], span);
        self.shaped(scalar, &ty.shape, span)
    }

    /// A node that may have rank 0, extended to `shape`.
    pub fn shaped(&mut self, id: NodeId, shape: &Shape, span: Span) -> NodeId {
        if self.graph.ty(id).shape == *shape { id } else { self.add(Op::expand(shape), &[id], span) }
    }

    /// The value of a constant; numbers that must not be baked in have none.
    pub fn number(&self, id: NodeId) -> Option<Scalar> {
        if let Op::Const(value, dtype, _) = &self.graph.node(id).op { Some(value.cast(*dtype)) } else { None }
    }

    /// The rank-0 node of which this one is a repetition, itself if it has rank 0.
    pub fn uniform(&self, id: NodeId) -> Option<NodeId> {
        let node = self.graph.node(id);
        if node.ty.shape.rank() == 0 {
            return Some(id);
        }
        let source = if let Op::Expand(_) = node.op { node.operands[0] } else { return None };
        (self.graph.ty(source).shape.rank() == 0).then_some(source)
    }

    /// Whether the node's floats have no more precision than their type: they
    /// come out of memory, a constant or a conversion, moved but not computed.
    pub fn is_stored(&self, id: NodeId) -> bool {
        self.stored[id.index()]
    }

    /// A node of a known type: one copied from another graph, say.
    pub fn add_node(&mut self, node: GraphNode) -> NodeId {
        for i in 0..self.rules.len() {
            if let Some(id) = (self.rules[i].apply)(self, &node) {
                debug_assert_eq!(*self.graph.ty(id), node.ty, "the rule {:?}", self.rules[i].name);
                return id;
            }
        }
        let Some(key) = NodeKey::of(&node) else { return self.push(node) };
        if let Some(&id) = self.numbers.get(&key) {
            return id;
        }
        let id = self.push(node);
        self.numbers.insert(key, id);
        id
    }

    fn push(&mut self, node: GraphNode) -> NodeId {
        self.stored.push(!node.ty.dtype.is_float() || self.stays_stored(&node));
        self.graph.push(node)
    }

    fn stays_stored(&self, node: &GraphNode) -> bool {
        let operands = || node.operands.iter().all(|&o| self.is_stored(o));
        match &node.op {
            Op::Const(..) | Op::Arg(..) | Op::Leaf(_) | Op::Param(..) => true,
            Op::Cast(_) => self.graph.ty(node.operands[0]).dtype != node.ty.dtype || operands(),
            Op::Bitcast(_)
            | Op::Copy(_)
            | Op::Pack(_)
            | Op::Loop(..)
            | Op::Custom(..)
            | Op::Collective(_) => true,
            Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) => operands(),
            Op::Flip(_) | Op::Window(_) | Op::Gather(_) => operands(),
            Op::After => self.is_stored(node.operands[0]),
            Op::Alu(AluOp::Max | AluOp::Min | AluOp::Neg | AluOp::Abs | AluOp::Where) => operands(),
            Op::Reduce(Monoid::Max | Monoid::Min, _) | Op::Scan(Monoid::Max | Monoid::Min, _) => operands(),
            Op::Iota(..) | Op::Alu(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) => false,
            Op::Contract(_) | Op::Scatter(..) | Op::Sort { .. } | Op::Composite(..) => false,
        }
    }
}

/// Lets nodes of equal kinds share one, for a graph that is kept.
pub fn share_kinds(graph: &mut Graph) {
    let mut known: HashMap<KindKey, Arc<NodeKind>> = HashMap::new();
    for node in &mut graph.nodes {
        if let Some(key) = KindKey::of(&node.kind) {
            node.kind = known.entry(key).or_insert_with(|| node.kind.clone()).clone();
        }
    }
}

/// Kinds with equal keys are equal.
#[derive(Debug, PartialEq, Eq, Hash)]
struct KindKey {
    op: Discriminant<Op>,
    words: SmallVec<[u64; 8]>,
    ty: Type,
}

impl KindKey {
    /// `None` for an operation that is never merged.
    fn of(kind: &NodeKind) -> Option<KindKey> {
        Some(KindKey { op: discriminant(&kind.op), words: words(&kind.op)?, ty: kind.ty.clone() })
    }
}

/// Nodes with equal keys compute the same.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NodeKey {
    kind: KindKey,
    operands: SmallVec<[NodeId; 3]>,
}

impl NodeKey {
    /// `None` for an operation that is never merged.
    fn of(node: &GraphNode) -> Option<NodeKey> {
        let mut operands = node.operands.clone();
        if matches!(node.op, Op::Alu(op) if op.commutes()) {
            operands.sort();
        }
        Some(NodeKey { kind: KindKey::of(&node.kind)?, operands })
    }
}

/// The attributes of an operation, all of them, as words. What the result's
/// type says already is left out. `None` if equal operations are distinct.
fn words(op: &Op) -> Option<SmallVec<[u64; 8]>> {
    let axes = |axes: &[u8]| axes.iter().map(|&axis| u64::from(axis)).collect();
    Some(match op {
        Op::Arg(..) | Op::Collective(_) => return None,
        Op::Const(value, dtype, _) => smallvec![value.to_bits(*dtype)],
        Op::Iota(..) | Op::Leaf(_) | Op::Cast(_) | Op::Bitcast(_) | Op::After => smallvec![],
        Op::Reshape(_) | Op::Expand(_) | Op::Copy(_) => smallvec![],
        Op::Param(number, _) => smallvec![u64::from(*number)],
        Op::Alu(op) => smallvec![*op as u64],
        Op::Permute(order) => axes(order),
        Op::Flip(flipped) => axes(flipped),
        Op::Pad(pads) => pads.iter().flat_map(|p| [p.lo as u64, p.hi as u64, p.interior as u64]).collect(),
        Op::Slice(slices) => {
            slices.iter().flat_map(|s| [s.start as u64, s.stop as u64, s.step as u64]).collect()
        }
        Op::Window(window) => window_words(window),
        Op::Unwindow(window, _) => window_words(window),
        Op::Reduce(monoid, reduced) => {
            std::iter::once(*monoid as u64).chain(reduced.iter().map(|&axis| u64::from(axis))).collect()
        }
        Op::Scan(monoid, axis) => smallvec![*monoid as u64, u64::from(*axis)],
        Op::Contract(dims) => {
            let pair = |&(a, b): &(u8, u8)| u64::from(a) << 8 | u64::from(b);
            let batch = dims.batch.iter().map(pair);
            std::iter::once((dims.precision as u64) << 8 | dims.batch.len() as u64)
                .chain(batch)
                .chain(dims.contract.iter().map(pair))
                .collect()
        }
        Op::Gather(axis) => smallvec![u64::from(*axis)],
        Op::Scatter(axis, mode) => smallvec![u64::from(*axis), *mode as u64],
        Op::Sort { axis, descending, count } => {
            smallvec![u64::from(*axis), u64::from(*descending), *count as u64]
        }
        Op::Pack(packing) => packing.starts.iter().chain(packing.shape.iter()).map(|&n| n as u64).collect(),
        Op::Loop(spec, out) => smallvec![Arc::as_ptr(spec) as u64, u64::from(*out)],
        Op::Composite(composite, out) => smallvec![Arc::as_ptr(composite) as u64, u64::from(*out)],
        Op::Custom(custom, out) => smallvec![Arc::as_ptr(custom).cast::<()>() as u64, u64::from(*out)],
    })
}

fn window_words(window: &WindowAxis) -> SmallVec<[u64; 8]> {
    smallvec![u64::from(window.axis), window.size as u64, window.stride as u64, window.dilation as u64]
}
