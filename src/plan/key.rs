//! The key of a plan: which graphs share one.
//!
//! The *skeleton* says what is computed, without sizes and constants: operations,
//! operands, ranks, types, devices, layouts. The *values* are the rest:
//! extents, and the constants of the graph by occurrence. A cached plan
//! applies when the skeleton is the same and the values are, except for the
//! constants that the plan takes as arguments.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::base::{DType, Device, Scalar};
use crate::ir::collect::{AddressMap, Collected, collect_body};
use crate::ir::collective::CollectiveKind;
use crate::ir::op::WindowAxis;
use crate::ir::{BuiltIn, Composite, Graph, NodeId, Op, Type};
use crate::plan::donate::LeafMemory;
use crate::plan::varint::VarintList;
use crate::schedule::fallback::Fallback;

/// What identifies a plan. Compared in full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skeleton {
    words: VarintList,
    /// How many of the bytes encode the graph.
    graph: usize,
}

impl Skeleton {
    /// A hash of the graph alone, whatever memory its leaves are in.
    pub fn graph(&self) -> u64 {
        hash(&self.words.bytes()[..self.graph])
    }
}

/// One multiplication for eight bytes; collisions are told apart by comparison.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.iter().fold(0, |hash, &word| mix(hash, u64::from_le_bytes(word)));
    rest.iter().fold(whole, |hash, &byte| mix(hash, u64::from(byte)))
}

impl Hash for Skeleton {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(hash(self.words.bytes()));
    }
}

/// Frees spare capacity, since keys of plans are kept.
pub fn shrink(skeleton: &mut Skeleton, values: &mut KeyValues) {
    skeleton.words.shrink_to_fit();
    values.fixed.shrink_to_fit();
    values.scalars.shrink_to_fit();
    values.arguments.shrink_to_fit();
}

/// The sizes and constants of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValues {
    /// Extents and other numbers that a plan is built for.
    pub fixed: VarintList,
    /// The bits of the graph's constants, in the order of their nodes.
    pub scalars: Vec<u64>,
    /// By constant: whether it is an [`Op::Arg`], and so an argument in any case.
    pub arguments: Vec<bool>,
}

impl KeyValues {
    /// Whether there are as many extents and other numbers, and `agree` holds for each pair.
    pub fn fixed_agree(&self, other: &KeyValues, agree: impl Fn(u64, u64) -> bool) -> bool {
        let (mut mine, mut theirs) = (self.fixed.iter(), other.fixed.iter());
        loop {
            match (mine.next(), theirs.next()) {
                (Some(mine), Some(theirs)) if agree(mine, theirs) => {}
                (None, None) => return true,
                (Some(_) | None, _) => return false,
            }
        }
    }
}

/// The key of a collected graph, given its leaves' memory, the nodes that gradients may need later, and what
/// outputs fall back to.
pub fn key(
    collected: &Collected,
    memory: &LeafMemory,
    retain_candidates: &[NodeId],
    fallbacks: &[Fallback],
) -> (Skeleton, KeyValues) {
    let mut writer = KeyWriter::default();
    writer.collected(collected);
    for ((leaf, &donated), &shared) in collected.leaves().zip(&memory.donated).zip(&memory.shared) {
        if let Some(value) = leaf.value() {
            let lowest = value.layout.lowest(&leaf.ty().shape) as u64;
            let start = lowest * leaf.ty().dtype.size() as u64;
            let alignment = if start == 0 { 7 } else { start.trailing_zeros().min(7) };
            let shared = u64::from(shared) << 4;
            writer.word(shared | u64::from(alignment) << 1 | u64::from(donated));
            writer.values.fixed.extend(value.layout.strides.iter().map(|&stride| stride as u64));
        }
    }
    // As many leaves as before, so these are told apart from theirs.
    retain_candidates.iter().for_each(|id| writer.word(u64::from(id.0)));
    // No word above has so high a bit.
    for fallback in fallbacks {
        writer.word(1 << 62 | u64::from(fallback.output) << 32 | u64::from(fallback.before.0));
    }
    (writer.skeleton, writer.values)
}

/// The key of a repetition's body. It names the user's lines too, since reports
/// take a body's from its plan.
pub fn body_key(body: &Graph) -> (Skeleton, KeyValues) {
    let mut writer = KeyWriter { lines: true, ..KeyWriter::default() };
    // No graph of a realize begins so.
    writer.word(u64::MAX);
    writer.graph(body, false);
    (writer.skeleton, writer.values)
}

/// Whether two graphs differ in sizes and constants only, none of which is 0 or 1 in
/// one of them.
pub fn alike(one: &Graph, other: &Graph) -> bool {
    let key = |graph: &Graph| {
        let mut writer = KeyWriter::default();
        writer.graph(graph, true);
        (writer.skeleton, writer.values)
    };
    let ((one, these), (other, those)) = (key(one), key(other));
    let same = |x, y| x == y || (x > 1 && y > 1);
    one == other && these.fixed_agree(&those, same)
}

#[derive(Default)]
struct KeyWriter {
    skeleton: Skeleton,
    values: KeyValues,
    /// Whether the user's lines are part of the skeleton.
    lines: bool,
    /// Users' composites by address, numbered as they come: the results of a call share one.
    composites: AddressMap<usize, u64>,
}

impl KeyWriter {
    fn graph(&mut self, graph: &Graph, lift: bool) {
        for (number, node) in graph.nodes.iter().enumerate() {
            self.op(&node.op, lift);
            self.operands(number, &node.operands);
            if self.lines {
                self.word(node.span.file().as_ptr() as u64);
                self.word(u64::from(node.span.line()));
            }
        }
        self.outputs(&graph.outputs);
    }

    /// What [`KeyWriter::graph`] writes of the collection's graph, without it.
    fn collected(&mut self, collected: &Collected) {
        self.skeleton.words.reserve(4 * collected.nodes.len());
        for (number, (node, leaf, operands)) in collected.items().enumerate() {
            match leaf {
                Some(leaf) => self.parameter(leaf, node.ty()),
                None => self.op(node.op(), true),
            }
            self.operands(number, operands);
        }
        self.outputs(&collected.outputs);
    }

    fn operands(&mut self, node: usize, operands: &[NodeId]) {
        self.word(operands.len() as u64);
        // Mostly of the nodes just before.
        self.skeleton.words.extend(operands.iter().map(|operand| (node - operand.index()) as u64));
    }

    fn outputs(&mut self, outputs: &[NodeId]) {
        self.skeleton.words.extend(outputs.iter().map(|output| u64::from(output.0) | 1 << 32));
        self.skeleton.graph = self.skeleton.words.bytes().len();
    }

    fn parameter(&mut self, number: u32, ty: &Type) {
        self.tag(4, u64::from(number));
        self.ty(ty);
    }

    fn word(&mut self, word: u64) {
        self.skeleton.words.push(word);
    }

    /// One number for both: there are fewer than 32 tags.
    fn tag(&mut self, tag: u8, detail: u64) {
        debug_assert!(tag < 32 && detail >> 59 == 0, "{tag} and {detail} are told apart");
        self.word(detail << 5 | u64::from(tag));
    }

    fn extents(&mut self, extents: &[usize]) {
        self.word(extents.len() as u64);
        self.values.fixed.extend(extents.iter().map(|&extent| extent as u64));
    }

    fn scalar(&mut self, value: Scalar, dtype: DType, argument: bool, lift: bool) {
        let bits = value.to_bits(dtype);
        if lift {
            self.values.scalars.push(bits);
            self.values.arguments.push(argument);
        } else {
            self.values.fixed.push(bits);
        }
    }

    fn ty(&mut self, ty: &Type) {
        self.word(placement(ty.dtype, ty.device));
        self.extents(&ty.shape);
    }

    fn window(&mut self, window: &WindowAxis) {
        self.values.fixed.extend([window.size, window.stride, window.dilation].map(|n| n as u64));
    }

    /// What [`KeyWriter::graph`] writes of a composite's body; of a user's that is known already, its number.
    fn body(&mut self, composite: &Arc<Composite>) {
        if composite.built_in.is_none() {
            let next = self.composites.len() as u64 + 1;
            let known = *self.composites.entry(Arc::as_ptr(composite) as usize).or_insert(next);
            if known < next {
                return self.word(known);
            }
            self.word(0);
        }
        if self.lines {
            return self.graph(&collect_body(&composite.body.results), false);
        }
        let [words, fixed] = composite.key.get_or_init(|| {
            let mut own = KeyWriter::default();
            own.graph(&collect_body(&composite.body.results), false);
            [own.skeleton.words, own.values.fixed].map(VarintList::into_bytes)
        });
        self.skeleton.words.append(words);
        self.values.fixed.append(fixed);
    }

    fn op(&mut self, op: &Op, lift: bool) {
        match op {
            Op::Const(value, dtype, device) => {
                self.tag(0, placement(*dtype, *device));
                self.scalar(*value, *dtype, false, lift);
            }
            Op::Arg(value, dtype, device) => {
                self.tag(1, placement(*dtype, *device));
                self.scalar(*value, *dtype, true, lift);
            }
            Op::Iota(extent, dtype, device) => {
                self.tag(2, placement(*dtype, *device));
                self.values.fixed.push(*extent as u64);
            }
            Op::Leaf(ty) => {
                self.tag(3, 0);
                self.ty(ty);
            }
            Op::Param(number, ty) => self.parameter(*number, ty),
            Op::Alu(op) => self.tag(5, *op as u64),
            Op::Cast(dtype) => self.tag(6, *dtype as u64),
            Op::Bitcast(dtype) => self.tag(7, *dtype as u64),
            Op::Reshape(shape) => {
                self.tag(8, 0);
                self.extents(shape);
            }
            Op::Permute(order) => self.axes(9, order),
            Op::Expand(shape) => {
                self.tag(10, 0);
                self.extents(shape);
            }
            Op::Pad(axes) => {
                self.tag(11, axes.len() as u64);
                let numbers = axes.iter().flat_map(|a| [a.lo as u64, a.hi as u64, a.interior as u64]);
                self.values.fixed.extend(numbers);
            }
            Op::Slice(axes) => {
                self.tag(12, axes.len() as u64);
                let numbers = axes.iter().flat_map(|a| [a.start as u64, a.stop as u64, a.step as u64]);
                self.values.fixed.extend(numbers);
            }
            Op::Flip(axes) => self.axes(13, axes),
            Op::Window(window) => {
                self.tag(14, u64::from(window.axis));
                self.window(window);
            }
            Op::Unwindow(window, extent) => {
                self.tag(15, u64::from(window.axis));
                self.window(window);
                self.values.fixed.push(*extent as u64);
            }
            Op::Reduce(monoid, axes) => {
                self.axes(16, axes);
                self.word(*monoid as u64);
            }
            Op::Scan(monoid, axis) => self.tag(17, (*monoid as u64) << 8 | u64::from(*axis)),
            Op::Contract(dims) => {
                let pairs = (dims.batch.len() as u64) << 8 | dims.contract.len() as u64;
                self.tag(18, (dims.precision as u64) << 16 | pairs);
                let pairs = dims.batch.iter().chain(&dims.contract);
                self.skeleton.words.extend(pairs.map(|pair| u64::from(pair.0) << 8 | u64::from(pair.1)));
            }
            Op::Gather(axis) => self.tag(19, u64::from(*axis)),
            Op::Scatter(axis, mode) => self.tag(20, (*mode as u64) << 8 | u64::from(*axis)),
            Op::Sort { axis, descending, count } => {
                self.tag(21, u64::from(*descending) << 8 | u64::from(*axis));
                self.values.fixed.push(*count as u64);
            }
            Op::Copy(device) => self.tag(22, placement(DType::Bool, *device)),
            Op::Collective(collective) => {
                self.tag(23, collective.size as u64);
                self.collective(collective.kind);
            }
            Op::After => self.tag(27, 0),
            Op::Pack(packing) => {
                self.tag(28, (packing.starts.len() as u64) << 8 | packing.shape.rank() as u64);
                self.values.fixed.extend(packing.starts.iter().map(|&start| start as u64));
                self.values.fixed.extend(packing.shape.iter().map(|&extent| extent as u64));
            }
            Op::Loop(spec, out) => {
                self.tag(24, u64::from(*out) << 1 | u64::from(spec.reverse));
                self.extents(&[spec.trips, spec.carries, spec.stacked]);
                self.graph(&collect_body(&spec.body.results), false);
            }
            Op::Composite(composite, out) => {
                self.tag(25, u64::from(*out) << 1 | u64::from(composite.built_in.is_some()));
                self.skeleton.words.append(composite.name.as_bytes());
                for (name, value) in &composite.attributes {
                    self.skeleton.words.append(name.as_bytes());
                    self.scalar(*value, value.default_dtype(), false, false);
                }
                // What is said already need not be read out.
                if !composite.built_in.is_some_and(BuiltIn::determines_body) {
                    self.body(composite);
                }
            }
            Op::Custom(custom, out) => {
                self.tag(26, u64::from(*out));
                self.word(Arc::as_ptr(custom).cast::<()>() as u64);
            }
        }
    }

    /// The group is no part of a key: a plan runs with that of the graph at hand.
    fn collective(&mut self, kind: CollectiveKind) {
        let (code, detail) = match kind {
            CollectiveKind::AllReduce(reduce) => (0, reduce as u64),
            CollectiveKind::ReduceScatter(reduce) => (1, reduce as u64),
            CollectiveKind::AllGather => (2, 0),
            CollectiveKind::AllToAll => (3, 0),
            CollectiveKind::Broadcast { root } => (4, root as u64),
            CollectiveKind::SumTo { root } => (5, root as u64),
            CollectiveKind::Barrier => (6, 0),
        };
        self.word(detail << 3 | code);
    }

    fn axes(&mut self, tag: u8, axes: &[u8]) {
        self.tag(tag, axes.len() as u64);
        self.skeleton.words.extend(axes.iter().map(|&axis| u64::from(axis)));
    }
}

fn placement(dtype: DType, device: Device) -> u64 {
    u64::from(device.index) << 16 | (device.kind as u64) << 8 | dtype as u64
}
