//! A graph with a region computed in chunks, one after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use smallvec::SmallVec;

use crate::base::{DType, Shape};
use crate::ir::alu::AluOp;
use crate::ir::infer::infer;
use crate::ir::op::{Axes, SliceAxis};
use crate::ir::{Graph, GraphNode, NodeId, Op, Packing, Type};
use crate::schedule::chunk::axis::{OperandAxes, operand_axes, resized};
use crate::schedule::chunk::region::ChunkRegion;
use crate::schedule::fusion_class::{FusionClass, fusion_class, read_operands};

/// A graph that computes what another does.
#[derive(Debug)]
pub(super) struct ChunkedGraph {
    pub graph: Graph,
    /// By old node, the one that has its value; `None` where it is never there
    /// as a whole.
    pub map: Vec<Option<NodeId>>,
    /// Of each node that computes a part, the old node.
    pub parts: HashMap<NodeId, NodeId>,
}

/// The graph with the region in chunks of so many units each, the last perhaps
/// smaller. Nodes are numbered chunk by chunk, and so steps are ordered.
pub(super) fn rewrite(graph: &Graph, region: &ChunkRegion, units: usize) -> ChunkedGraph {
    let mut writer = ChunkRewriter {
        old: graph,
        region,
        new: Graph::default(),
        map: vec![None; graph.nodes.len()],
        parts: HashMap::new(),
        here: HashMap::new(),
        slices: HashMap::new(),
        pieces: BTreeMap::new(),
        sums: BTreeMap::new(),
        gates: Vec::new(),
        moves: trailing_movement(graph, region),
        done: BTreeSet::new(),
    };
    writer.before();
    for start in (0..region.units).step_by(units) {
        writer.chunk(start..(start + units).min(region.units));
    }
    writer.after();
    let ChunkRewriter { mut new, map, parts, .. } = writer;
    let whole = |id: &NodeId| map[id.index()].unwrap_or_else(|| panic!("the result {id:?} is in parts"));
    new.outputs = graph.outputs.iter().map(whole).collect();
    ChunkedGraph { graph: new, map, parts }
}

struct ChunkRewriter<'a> {
    old: &'a Graph,
    region: &'a ChunkRegion,
    new: Graph,
    map: Vec<Option<NodeId>>,
    parts: HashMap<NodeId, NodeId>,
    /// By old node of the region: its part in the chunk at hand.
    here: HashMap<NodeId, NodeId>,
    /// Parts of values from outside, by old node and axis.
    slices: HashMap<(NodeId, usize), NodeId>,
    /// By old node that is kept: its parts so far.
    pieces: BTreeMap<NodeId, Vec<NodeId>>,
    /// By old node that sums: the sum so far.
    sums: BTreeMap<NodeId, NodeId>,
    /// Control dependencies of the next chunk, so that no kernel computes parts of two.
    gates: Vec<NodeId>,
    /// By old node that sums: what only moves its elements, in order.
    moves: BTreeMap<NodeId, Vec<NodeId>>,
    /// Old nodes of sums whose values are never there by themselves.
    done: BTreeSet<NodeId>,
}

/// What is done to each sum that moves its elements and nothing else: parts are
/// added up in their final layout, so that the sum needs no second memory.
fn trailing_movement(graph: &Graph, region: &ChunkRegion) -> BTreeMap<NodeId, Vec<NodeId>> {
    let users = graph.users();
    let next = |id: NodeId| {
        let [only] = users[id.index()][..] else { return None };
        let moves = matches!(graph.node(only).op, Op::Permute(_) | Op::Reshape(_));
        (moves && !graph.outputs.contains(&id)).then_some(only)
    };
    let added = region.sums.keys().filter(|id| !matches!(graph.node(**id).op, Op::Scatter(..)));
    added.map(|&id| (id, std::iter::successors(next(id), |&id| next(id)).collect())).collect()
}

impl ChunkRewriter<'_> {
    fn push(&mut self, op: Op, operands: &[NodeId], from: NodeId) -> NodeId {
        let ty = {
            let types: SmallVec<[&Type; 3]> = operands.iter().map(|&id| self.new.ty(id)).collect();
            infer(&op, &types).unwrap_or_else(|found| panic!("a part of {from:?}: {found:?}"))
        };
        let node = GraphNode::new(op, ty, operands, self.old.node(from).span);
        self.new.push(node)
    }

    fn is_inside(&self, id: NodeId) -> bool {
        self.region.axes.contains_key(&id) || self.region.sums.contains_key(&id)
    }

    /// What comes before the region, and what the region reads.
    fn before(&mut self) {
        let mut read = vec![false; self.old.nodes.len()];
        for id in self.old.ids().rev() {
            if self.is_inside(id) || read[id.index()] {
                read_operands(self.old.node(id)).iter().for_each(|x| read[x.index()] = true);
            }
        }
        let first = self.old.ids().find(|&id| self.is_inside(id));
        for id in self.old.ids() {
            if self.is_inside(id) {
                continue;
            }
            if first.is_none_or(|first| id < first) || read[id.index()] {
                self.copy(id);
            }
        }
    }

    /// A node from outside. A gate that would wait for the region, which reads
    /// what it passes on, waits for nothing.
    fn copy(&mut self, id: NodeId) {
        let node = self.old.node(id);
        let whole = |operand: &NodeId| self.map[operand.index()].or_else(|| self.here.get(operand).copied());
        let operands: Option<SmallVec<[NodeId; 3]>> = node.operands.iter().map(whole).collect();
        self.map[id.index()] = match (&node.op, operands) {
            (_, Some(operands)) => Some(self.new.push(GraphNode { operands, ..node.clone() })),
            (Op::After, None) => whole(&node.operands[0]),
            (op, None) => panic!("an operand of {} is not there", op.name()),
        };
    }

    /// All that the region does for a part of its units.
    fn chunk(&mut self, units: Range<usize>) {
        self.here.clear();
        self.slices.clear();
        let region = self.region;
        let mut inside: Vec<NodeId> = region.axes.keys().chain(region.sums.keys()).copied().collect();
        inside.sort_unstable();
        for id in inside {
            match region.axes.get(&id) {
                Some(&axis) => self.part(id, axis, &units),
                None => self.sum(id, &region.sums[&id], &units),
            }
        }
        self.gates.clear();
        for &id in &region.kept {
            let piece = self.piece(id);
            self.pieces.entry(id).or_default().push(piece);
            self.gates = vec![piece];
        }
        // Sums of products are computed apart anyway.
        let apart = |id: &NodeId| matches!(self.old.node(*id).op, Op::Contract(_));
        let sums = self.sums.iter().filter(|(id, _)| !apart(id)).map(|(_, &sum)| sum);
        self.gates.extend(sums);
        if self.gates.is_empty() {
            self.gates.extend(self.sums.values().next_back());
        }
    }

    fn part(&mut self, id: NodeId, axis: usize, units: &Range<usize>) {
        let node = self.old.node(id);
        let needs = operand_axes(self.old, id, axis).unwrap_or_else(|| panic!("{id:?} has no parts"));
        let operands = self.operands(id, &needs, units);
        let extent = node.ty.shape[axis] / self.region.units * units.len();
        let part = match (&node.op, &operands[..]) {
            // Its gate is not there yet.
            (Op::After, &[only]) => only,
            (_, operands) => self.push(resized(node, axis, extent), operands, id),
        };
        self.here.insert(id, part);
        self.parts.insert(part, id);
    }

    /// What a node of the region reads in this chunk.
    fn operands(&mut self, id: NodeId, needs: &OperandAxes, units: &Range<usize>) -> SmallVec<[NodeId; 3]> {
        let given = &self.old.node(id).operands;
        let read = read_operands(self.old.node(id)).len();
        let mut operands = SmallVec::new();
        for (&operand, need) in given[..read].iter().zip(needs) {
            operands.push(match (self.here.get(&operand), need) {
                (Some(&here), _) => here,
                (None, Some(axis)) => self.slice(operand, *axis, units),
                (None, None) => self.whole(operand),
            });
        }
        let gates = given[read..].iter();
        operands.extend(gates.filter_map(|g| self.here.get(g).copied().or(self.map[g.index()])));
        operands
    }

    fn whole(&self, id: NodeId) -> NodeId {
        self.map[id.index()].unwrap_or_else(|| panic!("{id:?} is not there as a whole"))
    }

    /// A part of a value from outside, not to be read before the chunk before
    /// this one is done.
    fn slice(&mut self, id: NodeId, axis: usize, units: &Range<usize>) -> NodeId {
        if let Some(&known) = self.slices.get(&(id, axis)) {
            return known;
        }
        let mut whole = self.whole(id);
        if fusion_class(self.old.node(id), true) != FusionClass::Source {
            for gate in self.gates.clone() {
                whole = self.push(Op::After, &[whole, gate], id);
            }
        }
        let shape = &self.old.ty(id).shape;
        let unit = shape[axis] / self.region.units;
        let part = |i: usize| {
            let taken = if i == axis { units.start * unit..units.end * unit } else { 0..shape[i] };
            SliceAxis { start: taken.start, stop: taken.end, step: 1 }
        };
        let op = Op::Slice((0..shape.rank()).map(part).collect());
        let slice = self.push(op, &[whole], id);
        self.slices.insert((id, axis), slice);
        slice
    }

    /// Adds this chunk's part to a sum. Sums of 16-bit floats are added up in
    /// 32 bits, and rounded once.
    fn sum(&mut self, id: NodeId, needs: &OperandAxes, units: &Range<usize>) {
        let node = self.old.node(id);
        let mut operands = self.operands(id, needs, units);
        let before = self.sums.get(&id).copied();
        if let Op::Scatter(..) = node.op {
            operands[0] = before.unwrap_or(operands[0]);
        } else if is_narrow(node.ty.dtype) {
            for operand in &mut operands {
                *operand = self.push(Op::Cast(DType::F32), &[*operand], id);
            }
        }
        let mut sum = self.push(node.op.clone(), &operands, id);
        let moves = self.moves.get(&id).cloned().unwrap_or_default();
        for &moved in &moves {
            self.parts.insert(sum, id);
            sum = self.push(self.old.node(moved).op.clone(), &[sum], moved);
        }
        if before.is_none() && !moves.is_empty() {
            // Stored in its final layout, from the first chunk on.
            sum = self.push(Op::Copy(node.ty.device), &[sum], id);
        }
        self.parts.insert(sum, id);
        if let (Some(before), false) = (before, matches!(node.op, Op::Scatter(..))) {
            // In memory before it is added to, so that no part is kept for long.
            let before = self.push(Op::After, &[before, before], id);
            sum = self.push(Op::Alu(AluOp::Add), &[before, sum], id);
            self.parts.insert(sum, id);
        }
        self.sums.insert(id, sum);
    }

    /// A part in the layout of the whole: the axis that parts follow along first.
    fn piece(&mut self, id: NodeId) -> NodeId {
        let part = self.here[&id];
        let Some(order) = self.chunk_order(id) else { return part };
        let piece = self.push(Op::Permute(order), &[part], id);
        self.parts.insert(piece, id);
        piece
    }

    /// The order of axes in which parts of a value are contiguous, if
    /// it is not their own.
    fn chunk_order(&self, id: NodeId) -> Option<Axes> {
        let axis = self.region.axes[&id];
        let shape = &self.old.ty(id).shape;
        let others = (0..shape.rank()).filter(|&i| i != axis);
        let order = std::iter::once(axis).chain(others).map(|i| i as u8).collect();
        shape[..axis].iter().any(|&extent| extent != 1).then_some(order)
    }

    /// What comes after the region.
    fn after(&mut self) {
        for id in self.old.ids() {
            if self.map[id.index()].is_some() || self.done.contains(&id) {
                continue;
            }
            if let Some(&sum) = self.sums.get(&id) {
                self.finish_sum(id, sum);
            } else if let Some(pieces) = self.pieces.remove(&id) {
                self.map[id.index()] = Some(self.pack(id, &pieces));
            } else if !self.region.axes.contains_key(&id) {
                self.copy(id);
            }
        }
    }

    /// A sum that is complete is the value that its moves end with; nobody else
    /// reads what is on the way there.
    fn finish_sum(&mut self, id: NodeId, sum: NodeId) {
        let dtype = self.old.ty(id).dtype;
        let same = self.new.ty(sum).dtype == dtype;
        let sum = if same { sum } else { self.push(Op::Cast(dtype), &[sum], id) };
        let moves = self.moves.get(&id).map_or(&[][..], |moves| moves);
        self.map[moves.last().unwrap_or(&id).index()] = Some(sum);
        self.done.insert(id);
        self.done.extend(moves);
    }

    /// The whole of a value whose parts are there.
    fn pack(&mut self, id: NodeId, pieces: &[NodeId]) -> NodeId {
        let shape = &self.old.ty(id).shape;
        let order = self.chunk_order(id);
        let extents = order.as_ref().map(|order| order.iter().map(|&i| shape[usize::from(i)]).collect());
        let shape = extents.map_or_else(|| shape.clone(), Shape);
        let mut end = 0;
        let mut start = |piece: &NodeId| {
            let start = end;
            end += self.new.ty(*piece).shape.numel();
            start
        };
        let starts = pieces.iter().map(&mut start).collect();
        let whole = self.push(Op::Pack(Box::new(Packing { starts, shape })), pieces, id);
        let Some(order) = order else { return whole };
        let mut back = order.clone();
        order.iter().enumerate().for_each(|(to, &from)| back[usize::from(from)] = to as u8);
        self.push(Op::Permute(back), &[whole], id)
    }
}

fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}
