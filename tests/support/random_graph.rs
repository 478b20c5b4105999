//! Random tensor programs that shrink well.
//!
//! A program is a list of small instructions. Each is interpreted against a
//! stack of what was built before, its numbers taken modulo what is there,
//! and one that does not fit does nothing. So any part of a program is a
//! program, and proptest can drop and simplify instructions freely.

use std::fmt;
use std::sync::{Arc, Weak};

use kiln::Device;
use kiln::tensor::Tensor;
use kiln::unstable::ir::collect::collect;
use kiln::unstable::ir::{DeviceBuffer, Node};
use proptest::prelude::*;

use super::random_leaf::{Mode, Numbers, Sharing};
use super::random_steps::Construction;

/// What an instruction builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: what an instruction shrinks to.
    Nothing,
    /// Data in memory.
    Leaf,
    /// A rank-0 constant.
    Number,
    /// An index ramp, shaped like an operand's axis.
    Iota,
    /// A scalar operation of one operand.
    Unary,
    /// A scalar operation of two operands.
    Binary,
    /// A comparison.
    Compare,
    /// A selection.
    Select,
    /// A conversion.
    Cast,
    /// A reinterpretation of bits.
    Bitcast,
    /// Axes merged, split, added or removed.
    Reshape,
    /// Axes reordered.
    Permute,
    /// Axes repeated.
    Expand,
    /// Axes padded, cropped or spread.
    Pad,
    /// Axes sliced.
    Slice,
    /// Axes reversed.
    Flip,
    /// Windows along an axis.
    Window,
    /// Windows summed back.
    Unwindow,
    /// Axes combined.
    Reduce,
    /// Running combination.
    Scan,
    /// A contraction of two operands.
    Contract,
    /// Elements picked by an index.
    Gather,
    /// Elements combined in by an index.
    Scatter,
    /// A sorting permutation, or the sorted elements.
    Sort,
    /// A copy in row-major memory.
    Copy,
    /// A repetition.
    Loop,
    /// A named operation.
    Composite,
}

/// How often each kind is drawn.
const WEIGHTS: &[(u32, Kind)] = &[
    (1, Kind::Nothing),
    (6, Kind::Leaf),
    (3, Kind::Number),
    (2, Kind::Iota),
    (6, Kind::Unary),
    (12, Kind::Binary),
    (3, Kind::Compare),
    (3, Kind::Select),
    (4, Kind::Cast),
    (1, Kind::Bitcast),
    (4, Kind::Reshape),
    (4, Kind::Permute),
    (4, Kind::Expand),
    (3, Kind::Pad),
    (4, Kind::Slice),
    (2, Kind::Flip),
    (2, Kind::Window),
    (2, Kind::Unwindow),
    (6, Kind::Reduce),
    (2, Kind::Scan),
    (3, Kind::Contract),
    (2, Kind::Gather),
    (2, Kind::Scatter),
    (1, Kind::Sort),
    (1, Kind::Copy),
    (1, Kind::Loop),
    (1, Kind::Composite),
];

/// One step of a program.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What to build.
    pub kind: Kind,
    /// The operands, counted from the top of the stack.
    pub from: [u8; 3],
    /// Whatever else the kind wants to know.
    pub with: [u8; 4],
}

/// How large the values of a program are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So small that many programs run in little time.
    Small,
    /// Large enough for several blocks and tiles, with odd rests.
    Large,
}

impl Size {
    /// Elements a value may have; what would have more is not built.
    pub fn most(self) -> usize {
        match self {
            Size::Small => 4096,
            Size::Large => 1 << 15,
        }
    }
}

/// A random program.
#[derive(Clone)]
pub struct Program {
    /// Which numbers it computes with.
    pub mode: Mode,
    /// How large its values are.
    pub size: Size,
    /// Whether its data holds NaN and infinities.
    pub special: bool,
    /// Whether the leaves' gradients are among its results.
    pub gradients: bool,
    /// Its steps.
    pub instructions: Vec<Instruction>,
    /// The results besides the last, counted from the top of the stack.
    pub outputs: Vec<u8>,
}

/// What to change about a program while keeping its structure.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Seed of the data.
    pub data: u64,
    /// Seed of the constants.
    pub constants: u64,
    /// Added to every extent above 1 of the leaves.
    pub sizes: usize,
    /// Added to the offset of every leaf in its buffer.
    pub offset: usize,
    /// Which leaves share a buffer.
    pub sharing: Sharing,
    /// Seed of what the caller keeps besides the results. At 0 it keeps
    /// nothing, so that every leaf may be overwritten.
    pub keep: u64,
    /// Where it runs.
    pub device: Device,
}

impl Default for Variant {
    fn default() -> Variant {
        let sharing = Sharing::AsDrawn;
        Variant { data: 0, constants: 0, sizes: 0, offset: 0, sharing, keep: 0, device: Device::cpu() }
    }
}

/// A program, built, and what else of it the caller keeps.
#[derive(Debug)]
pub struct Built {
    /// The results: at least one, and none twice.
    pub outputs: Vec<Tensor>,
    /// Leaves, and other views of leaves' memory.
    pub leaves: Vec<Tensor>,
    /// Values that nobody asks for yet.
    pub inner: Vec<Tensor>,
    /// The memory of the leaves, as far as it is still there.
    pub memory: Vec<Weak<DeviceBuffer>>,
    /// How many leaves share that memory.
    pub leaf_count: usize,
    /// How many of the results are gradients that are no plain number.
    pub gradients: usize,
}

impl Program {
    /// A variant of the program. Equal variants are equal graphs of
    /// different nodes, on the current context's devices.
    pub fn build(&self, variant: Variant) -> Built {
        let mut construction = self.construct(variant);
        let mut outputs = construction.outputs(&self.outputs);
        let mut gradient_count = 0;
        if self.gradients {
            let found = gradients(&outputs, &construction.leaves);
            gradient_count = found.iter().filter(|node| node.depth() > 1).count();
            outputs.extend(found);
        }
        let mut numbers = Numbers(variant.keep);
        let mut chosen = |one_in: usize| variant.keep != 0 && numbers.below(one_in) == 0;
        let mut leaves = Vec::new();
        for leaf in &construction.leaves {
            if chosen(3) {
                leaves.push(leaf.clone());
            } else if chosen(3) {
                let value = leaf.value().expect("a leaf has a value");
                leaves.push(Node::leaf(leaf.ty().clone(), value.clone(), leaf.span()));
            }
        }
        let nodes = construction.stack.iter().map(|entry| &entry.node);
        let computed = nodes.filter(|node| node.value().is_none());
        let inner: Vec<Arc<Node>> = computed.filter(|_| chosen(6)).take(3).cloned().collect();
        let (memory, leaf_count) = (construction.memory(), construction.leaves.len());
        let tensors = |nodes: Vec<Arc<Node>>| nodes.into_iter().map(Tensor::from_node).collect();
        Built {
            outputs: tensors(outputs),
            leaves: tensors(leaves),
            inner: tensors(inner),
            memory,
            leaf_count,
            gradients: gradient_count,
        }
    }

    /// The results as nodes: at least one, and none twice.
    pub fn build_nodes(&self, variant: Variant) -> Vec<Arc<Node>> {
        self.construct(variant).outputs(&self.outputs)
    }

    fn construct(&self, variant: Variant) -> Construction {
        let mut construction = Construction::new(self, variant);
        for (number, instruction) in self.instructions.iter().enumerate() {
            construction.step(number as u64, instruction);
        }
        construction
    }
}

/// The gradients of the leaves, for cotangents of ones.
fn gradients(outputs: &[Arc<Node>], leaves: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let tensors = |nodes: &[Arc<Node>]| nodes.iter().cloned().map(Tensor::from_node).collect::<Vec<_>>();
    let outputs = tensors(outputs);
    let ones: Vec<Tensor> = outputs.iter().map(|y| Tensor::ones(y.shape(), y)).collect();
    let pairs: Vec<(&Tensor, &Tensor)> = outputs.iter().zip(&ones).collect();
    let tracked: Vec<Tensor> = tensors(leaves).into_iter().filter(Tensor::is_tracked).collect();
    let found = kiln::vjp(&pairs, &tracked.iter().collect::<Vec<_>>());
    found.iter().map(|gradient| gradient.node().expect("every primitive has a gradient").clone()).collect()
}

impl fmt::Debug for Program {
    /// The instructions and the graph they build, with the unasked values
    /// that a caller may keep among its results.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Program {{ mode: {:?}, size: {:?}, special: {},", self.mode, self.size, self.special)?;
        writeln!(f, "instructions: vec![")?;
        for Instruction { kind, from, with } in &self.instructions {
            writeln!(f, "    Instruction {{ kind: Kind::{kind:?}, from: {from:?}, with: {with:?} }},")?;
        }
        writeln!(f, "], outputs: vec!{:?} }}", self.outputs)?;
        // A panic while building is reported by the test, not by its report.
        let nodes = || {
            let built = self.build(Variant { keep: 1, ..Variant::default() });
            let tensors = built.outputs.iter().chain(&built.inner);
            tensors.map(|tensor| tensor.node().expect("a valid tensor").clone()).collect::<Vec<_>>()
        };
        match std::panic::catch_unwind(|| {
            collect(&nodes()).expect("nobody computes them").graph().to_string()
        }) {
            Ok(graph) => f.write_str(&graph),
            Err(_) => f.write_str("(it does not build)"),
        }
    }
}

/// Programs of one mode on small values.
pub fn programs(mode: Mode, special: bool) -> impl Strategy<Value = Program> {
    sized_programs(mode, special, Size::Small, 40)
}

/// Programs of one mode, of fewer than `length` instructions.
pub fn sized_programs(
    mode: Mode,
    special: bool,
    size: Size,
    length: usize,
) -> impl Strategy<Value = Program> {
    let kind = prop::sample::select(
        WEIGHTS.iter().flat_map(|&(weight, kind)| vec![kind; weight as usize]).collect::<Vec<_>>(),
    );
    // Operands near the top make chains, which fuse.
    let from = prop::array::uniform3(prop_oneof![3 => 0..3u8, 1 => any::<u8>()]);
    let instruction =
        (kind, from, any::<[u8; 4]>()).prop_map(|(kind, from, with)| Instruction { kind, from, with });
    let instructions = prop::collection::vec(instruction, 1..length);
    (instructions, prop::collection::vec(any::<u8>(), 0..3)).prop_map(move |(instructions, outputs)| {
        Program { mode, size, special, gradients: false, instructions, outputs }
    })
}

/// Programs of reals whose results include gradients.
pub fn programs_with_gradients() -> impl Strategy<Value = Program> {
    sized_programs(Mode::Smooth, false, Size::Small, 20)
        .prop_map(|program| Program { gradients: true, ..program })
}

/// Programs of either mode, with and without special numbers.
pub fn program() -> impl Strategy<Value = Program> {
    prop_oneof![
        programs(Mode::Exact, false),
        programs(Mode::Exact, true),
        programs(Mode::Smooth, false),
        programs(Mode::Smooth, true),
    ]
}
