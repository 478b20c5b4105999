//! Transfer placement: where along a chain of movement and casts a transfer moves the
//! fewest bytes between devices.
//!
//! A value may be cut anywhere along the chain of movement and casts around
//! the transfer that the user wrote. The pass goes over the graph twice:
//!
//! - *sink*: where every reader of a transferred value takes a slice of it or
//!   casts it to something smaller, and these together are fewer bytes, they
//!   are taken before the transfer;
//! - *raise*: what expands, pads or widens runs after the transfer; a round
//!   trip is its start; a value that the other device can make is made there;
//!   what several transfers take from one value crosses once, where that is
//!   fewer bytes.
//!
//! Values keep their bits: a float that is computed in more precision than
//! its type is stored before it is anything else.

use std::collections::HashMap;
use std::fmt;

use smallvec::SmallVec;

use crate::base::{DType, Device, Span};
use crate::ir::rewrite::GraphBuilder;
use crate::ir::{Graph, GraphNode, NodeId, Op};
use crate::runtime::Capabilities;

/// Why a transfer moves the value it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferReason {
    /// As the user wrote it.
    Requested,
    /// A slice or a cast of it is all that is read.
    Sunk,
    /// What follows it in the program makes it larger.
    Raised,
    /// Several transfers take their values from it.
    Shared,
}

/// Where a transfer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferOrigin {
    /// Why it moves what it moves.
    pub reason: TransferReason,
    /// The transfer the user wrote, in the given graph.
    pub requested: NodeId,
}

/// A graph whose transfers have been placed.
#[derive(Debug, Default)]
pub struct PlacedTransfers {
    /// The graph.
    pub graph: Graph,
    /// From the given graph's numbers to this one's.
    pub map: Vec<NodeId>,
    /// The transfers that are left.
    pub transfers: HashMap<NodeId, TransferOrigin>,
}

/// Places the transfers of a graph.
pub fn place(graph: &Graph, capabilities: &dyn Fn(Device) -> Capabilities) -> PlacedTransfers {
    let cuts = Sinking::new(graph, capabilities).cuts();
    let mut placing = TransferPlacer {
        graph,
        capabilities,
        shared: shared_roots(graph, &cuts),
        cuts,
        builder: GraphBuilder::new(&[]),
        map: Vec::with_capacity(graph.nodes.len()),
        transfers: HashMap::new(),
        requested: None,
    };
    for id in graph.ids() {
        let new = placing.node(id);
        placing.map.push(new);
    }
    let TransferPlacer { mut builder, map, transfers, .. } = placing;
    builder.graph.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    PlacedTransfers { graph: builder.graph, map, transfers }
}

/// Whether a graph has transfers at all.
pub fn has_any(graph: &Graph) -> bool {
    graph.ids().any(|id| crossing(graph, id).is_some())
}

/// For a transfer: what it moves, and where to.
fn crossing(graph: &Graph, id: NodeId) -> Option<(NodeId, Device)> {
    let node = graph.node(id);
    let Op::Copy(to) = node.op else { return None };
    let from = node.operands[0];
    (graph.ty(from).device != to).then_some((from, to))
}

/// Whether a float is stored as it is, not computed in more precision.
fn is_stored(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let half = matches!(node.ty.dtype, DType::F16 | DType::BF16);
    !half || matches!(node.op, Op::Param(..) | Op::Leaf(_) | Op::Const(..) | Op::Arg(..) | Op::Copy(_)) || {
        moves(graph, id) && is_stored(graph, node.operands[0])
    }
}

/// Whether a node is movement of its first operand alone.
fn moves(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    match &node.op {
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Flip(_) | Op::Window(_) => true,
        Op::Pad(_) => is_number(graph, node.operands[1]),
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) | Op::Alu(_) => false,
        Op::Cast(_) | Op::Bitcast(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) => false,
        Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } | Op::Copy(_) => false,
        Op::Collective(_) | Op::After | Op::Pack(_) | Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => {
            false
        }
    }
}

fn is_number(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).op, Op::Const(..) | Op::Arg(..))
}

/// Whether a node can as well be made on either side of a transfer: it moves
/// its first operand, or casts it.
fn relocates(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    moves(graph, id) || matches!(node.op, Op::Cast(_)) && is_stored(graph, node.operands[0])
}

/// Bytes to be moved to have a node on another device; none for what can be
/// made there.
fn bytes(graph: &Graph, id: NodeId) -> usize {
    match graph.node(id).op {
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) => 0,
        _ => graph.ty(id).bytes(),
    }
}

/// A chain of nodes that relocate, from just above a transfer's operand or
/// result to where the cut is.
type RelocationChain = SmallVec<[NodeId; 4]>;

/// The first of the two passes.
struct Sinking<'a> {
    graph: &'a Graph,
    capabilities: &'a dyn Fn(Device) -> Capabilities,
    users: Vec<SmallVec<[NodeId; 4]>>,
    is_output: Vec<bool>,
}

/// For a node that is to be transferred in place of what it is made of: the
/// transfer, and the chain from there to the node.
type Cuts = HashMap<NodeId, (NodeId, RelocationChain)>;

impl<'a> Sinking<'a> {
    fn new(graph: &'a Graph, capabilities: &'a dyn Fn(Device) -> Capabilities) -> Sinking<'a> {
        let mut is_output = vec![false; graph.nodes.len()];
        graph.outputs.iter().for_each(|output| is_output[output.index()] = true);
        Sinking { graph, capabilities, users: graph.users(), is_output }
    }

    fn cuts(&self) -> Cuts {
        let mut cuts = Cuts::new();
        for id in self.graph.ids().filter(|&id| !self.is_output[id.index()]) {
            let Some((from, _)) = crossing(self.graph, id) else { continue };
            let source = (self.capabilities)(self.graph.ty(from).device);
            let mut readers = self.users[id.index()].to_vec();
            readers.dedup();
            let branches: Vec<RelocationChain> =
                readers.iter().map(|&user| self.branch(id, user, &source)).collect();
            let sum: usize = branches.iter().map(|branch| self.bytes_of(id, branch)).sum();
            if sum < self.graph.ty(id).bytes() {
                for branch in branches {
                    if let Some(&last) = branch.last() {
                        cuts.insert(last, (id, branch));
                    }
                }
            }
        }
        cuts
    }

    /// From a reader of a transfer on, the nodes up to the one of the fewest
    /// bytes; empty if the reader needs the whole.
    fn branch(&self, copy: NodeId, user: NodeId, source: &Capabilities) -> RelocationChain {
        let (mut chain, mut best) = (RelocationChain::new(), 0);
        let mut least = self.graph.ty(copy).bytes();
        let mut next = Some(user);
        while let Some(id) = next.filter(|&id| self.takes_before(id, source)) {
            chain.push(id);
            if self.graph.ty(id).bytes() < least {
                (least, best) = (self.graph.ty(id).bytes(), chain.len());
            }
            let readers = &self.users[id.index()];
            let only = readers.first().filter(|&&first| readers.iter().all(|&reader| reader == first));
            next = only.copied().filter(|_| !self.is_output[id.index()]);
        }
        chain.truncate(best);
        chain
    }

    /// Whether the source of a transfer can do what a node does after it.
    fn takes_before(&self, id: NodeId, source: &Capabilities) -> bool {
        relocates(self.graph, id) && !source.missing.contains(&self.graph.ty(id).dtype)
    }

    fn bytes_of(&self, copy: NodeId, branch: &RelocationChain) -> usize {
        self.graph.ty(branch.last().copied().unwrap_or(copy)).bytes()
    }
}

/// The second pass: the new graph.
struct TransferPlacer<'a> {
    graph: &'a Graph,
    capabilities: &'a dyn Fn(Device) -> Capabilities,
    builder: GraphBuilder,
    map: Vec<NodeId>,
    transfers: HashMap<NodeId, TransferOrigin>,
    cuts: Cuts,
    /// Values that cross as a whole to a device, for several transfers.
    shared: HashMap<(NodeId, Device), usize>,
    /// The transfer being placed, and its line.
    requested: Option<(NodeId, Span)>,
}

impl TransferPlacer<'_> {
    fn node(&mut self, id: NodeId) -> NodeId {
        let node = self.graph.node(id).clone();
        if let Some((copy, before)) = self.before_cut(id) {
            self.requested = Some((copy, self.graph.node(copy).span));
            return self.emit_transfer(before, node.ty.device, TransferReason::Sunk);
        }
        if let Some((from, to)) = crossing(self.graph, id) {
            self.requested = Some((id, node.span));
            return self.value_on(from, to, true);
        }
        let operands: SmallVec<[NodeId; 3]> = node.operands.iter().map(|o| self.map[o.index()]).collect();
        self.builder.add_node(GraphNode { operands, ..node })
    }

    /// For a node that is cut out before a transfer: that transfer, and the
    /// node made where the transfer starts.
    fn before_cut(&mut self, id: NodeId) -> Option<(NodeId, NodeId)> {
        let (copy, chain) = self.cuts.get(&id)?.clone();
        let from = self.graph.node(copy).operands[0];
        Some((copy, chain.iter().fold(self.map[from.index()], |below, &link| self.link(link, below))))
    }

    /// A node of a chain again, made of `below`, on its device.
    fn link(&mut self, id: NodeId, below: NodeId) -> NodeId {
        let node = self.graph.node(id).clone();
        let device = self.builder.graph.ty(below).device;
        let mut operands: SmallVec<[NodeId; 3]> = smallvec::smallvec![below];
        for &other in &node.operands[1..] {
            operands.push(self.number(other, device));
        }
        self.builder.add(node.op.clone(), &operands, node.span)
    }

    /// A number of the graph on any device.
    fn number(&mut self, id: NodeId, device: Device) -> NodeId {
        let node = self.graph.node(id);
        let op =
            rematerialized_on(&node.op, device).unwrap_or_else(|| panic!("{} is no number", node.op.name()));
        self.builder.add(op, &[], node.span)
    }

    /// The value of a node of the given graph, on another device.
    fn value_on(&mut self, id: NodeId, to: Device, first: bool) -> NodeId {
        let node = self.graph.node(id);
        if node.ty.device == to {
            return self.round_trip(id);
        }
        if node.ty.device.is_meta() {
            return self.emit_transfer(self.map[id.index()], to, TransferReason::Requested);
        }
        if let Some(op) = rematerialized_on(&node.op, to) {
            return self.builder.add(op, &[], node.span);
        }
        if let Some((_, before)) = self.before_cut(id) {
            let there = self.builder.graph.ty(before).device == to;
            return if there { before } else { self.emit_transfer(before, to, TransferReason::Sunk) };
        }
        if let Some((below, _)) = crossing(self.graph, id).filter(|(below, _)| !self.is_meta(*below)) {
            return self.value_on(below, to, false);
        }
        let shared = self.shared.get(&(id, to)).copied().unwrap_or(0);
        if shared < 2 && self.raises(id, to) {
            let below = self.value_on(node.operands[0], to, false);
            return self.link(id, below);
        }
        let reason = match (shared, first) {
            (2.., _) => TransferReason::Shared,
            (_, true) => TransferReason::Requested,
            (_, false) => TransferReason::Raised,
        };
        self.emit_transfer(self.map[id.index()], to, reason)
    }

    /// The start of a round trip, stored if it would else be more precise.
    fn round_trip(&mut self, id: NodeId) -> NodeId {
        let own = self.map[id.index()];
        if is_stored(self.graph, id) {
            return own;
        }
        let ty = self.graph.ty(id).clone();
        let span = self.graph.node(id).span;
        self.builder.add_node(GraphNode::new(Op::Copy(ty.device), ty, [own].as_slice(), span))
    }

    /// Whether a node is better made after the transfer: something below it
    /// is fewer bytes, or crosses as a whole anyway.
    fn raises(&self, id: NodeId, to: Device) -> bool {
        let missing = (self.capabilities)(to).missing;
        let mut at = id;
        while relocates(self.graph, at) {
            at = self.graph.node(at).operands[0];
            if missing.contains(&self.graph.ty(at).dtype) {
                return false;
            }
            if bytes(self.graph, at) < self.graph.ty(id).bytes() || self.already_present(at, to) {
                return true;
            }
        }
        false
    }

    /// Whether a value is on a device already: it came from there, or crosses as a
    /// whole.
    fn already_present(&self, id: NodeId, to: Device) -> bool {
        let cut = self.cuts.get(&id).map(|(copy, _)| self.graph.node(*copy).operands[0]);
        let came_from = cut.or(crossing(self.graph, id).map(|(below, _)| below));
        came_from.is_some_and(|below| self.graph.ty(below).device == to)
            || self.shared.get(&(id, to)).is_some_and(|&transfers| transfers > 1)
    }

    fn is_meta(&self, id: NodeId) -> bool {
        self.graph.ty(id).device.is_meta()
    }

    fn emit_transfer(&mut self, from: NodeId, to: Device, reason: TransferReason) -> NodeId {
        let (requested, span) = self.requested.unwrap_or_else(|| panic!("a transfer that nobody requested"));
        let moved = self.builder.add(Op::Copy(to), &[from], span);
        self.transfers.entry(moved).or_insert(TransferOrigin { reason, requested });
        moved
    }
}

/// A value that any device can make, made on another one.
fn rematerialized_on(op: &Op, to: Device) -> Option<Op> {
    if let Op::Const(value, dtype, _) = op {
        Some(Op::Const(*value, *dtype, to))
    } else if let Op::Arg(value, dtype, _) = op {
        Some(Op::Arg(*value, *dtype, to))
    } else if let Op::Iota(extent, dtype, _) = op {
        Some(Op::Iota(*extent, *dtype, to))
    } else {
        None
    }
}

/// The values from which several transfers take what they move, where moving
/// the whole once is no more bytes than moving the parts: by value and
/// device, the number of transfers.
fn shared_roots(graph: &Graph, cuts: &Cuts) -> HashMap<(NodeId, Device), usize> {
    let mut parts: HashMap<(NodeId, Device), Vec<usize>> = HashMap::new();
    let sunk: Vec<NodeId> = cuts.values().map(|(copy, _)| *copy).collect();
    for id in graph.ids().filter(|id| !sunk.contains(id)) {
        let Some((from, to)) = crossing(graph, id) else { continue };
        let (mut root, mut least) = (from, bytes(graph, from));
        while relocates(graph, root) && bytes(graph, graph.node(root).operands[0]) > 0 {
            root = graph.node(root).operands[0];
            least = least.min(bytes(graph, root));
        }
        parts.entry((root, to)).or_default().push(least);
    }
    parts.retain(|(root, _), parts| parts.len() > 1 && parts.iter().sum::<usize>() >= bytes(graph, *root));
    parts.into_iter().map(|(key, parts)| (key, parts.len())).collect()
}

impl fmt::Display for TransferReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransferReason::Requested => "as written",
            TransferReason::Sunk => "sliced or cast first",
            TransferReason::Raised => "expanded, padded or widened after",
            TransferReason::Shared => "once, for several transfers",
        })
    }
}
