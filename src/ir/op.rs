//! The primitives: everything a graph can say, one enum.
//!
//! Nodes are pure: there is no assignment. Target shapes, types and devices
//! are part of the operation where operands do not determine them. All ALU
//! operands have one shape, except that rank-0 operands extend to any shape.

use std::fmt;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::base::{DType, Device, Precision, Result, Scalar, Shape};
use crate::ir::alu::AluOp;
use crate::ir::built_in::BuiltIn;
use crate::ir::collective::Collective;
use crate::ir::monoid::Monoid;
use crate::ir::node::Node;
use crate::ir::ty::Type;

/// A short list of axis numbers, each below the operand's rank.
pub type Axes = Box<[u8]>;

/// Padding of one axis: elements put before, after and between the others.
/// Negative `lo` and `hi` crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct PadAxis {
    /// Elements before the first.
    pub lo: i64,
    /// Elements after the last.
    pub hi: i64,
    /// Elements between each two neighbours.
    pub interior: usize,
}

/// A slice of one axis: `start`, `start + step`, ... below `stop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceAxis {
    /// First index taken.
    pub start: usize,
    /// First index not taken.
    pub stop: usize,
    /// Distance between indices taken, at least 1.
    pub step: usize,
}

/// Sliding windows along one axis, and their adjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowAxis {
    /// The axis slid along.
    pub axis: u8,
    /// Elements in one window, at least 1.
    pub size: usize,
    /// Distance between the starts of windows, at least 1.
    pub stride: usize,
    /// Distance between elements of a window, at least 1.
    pub dilation: usize,
}

impl WindowAxis {
    /// Number of windows along an axis of `extent`.
    pub fn count(&self, extent: usize) -> usize {
        let span = self.dilation.saturating_mul(self.size - 1).saturating_add(1);
        if extent < span { 0 } else { (extent - span) / self.stride + 1 }
    }
}

/// Which axes a contraction pairs. The result's axes are the batch pairs in
/// order, then the first operand's other axes, then the second's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ContractDims {
    /// Pairs of axes (first operand, second operand) kept once.
    pub batch: SmallVec<[(u8, u8); 4]>,
    /// Pairs of axes multiplied and summed over.
    pub contract: SmallVec<[(u8, u8); 4]>,
    /// How exactly 32-bit floats are multiplied; of no meaning for other types.
    pub precision: Precision,
}

/// How a scatter combines an update with what is there. Updates of one
/// element are applied in index order, or where it matters for rounding alone
/// in an order of the device's that is always the same: every mode is deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ScatterMode {
    /// Overwrite; the last update wins.
    Set,
    /// Add.
    Add,
    /// Multiply.
    Mul,
    /// Keep the larger.
    Max,
    /// Keep the smaller.
    Min,
}

impl ScatterMode {
    /// What combines updates whose order does not matter but for rounding; `None` where the last wins.
    pub fn monoid(self) -> Option<Monoid> {
        match self {
            ScatterMode::Set => None,
            ScatterMode::Add => Some(Monoid::Sum),
            ScatterMode::Mul => Some(Monoid::Prod),
            ScatterMode::Max => Some(Monoid::Max),
            ScatterMode::Min => Some(Monoid::Min),
        }
    }
    /// The operation that combines; `None` overwrites.
    pub fn op(self) -> Option<AluOp> {
        match self {
            ScatterMode::Set => None,
            ScatterMode::Add => Some(AluOp::Add),
            ScatterMode::Mul => Some(AluOp::Mul),
            ScatterMode::Max => Some(AluOp::Max),
            ScatterMode::Min => Some(AluOp::Min),
        }
    }
}

/// The offsets of tensors that share one piece of memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packing {
    /// By operand: its first element.
    pub starts: Vec<usize>,
    /// The shape of the whole. Elements between operands are never looked at.
    pub shape: Shape,
}

/// A closed graph: its results depend on nothing but its parameters, which
/// appear inside as [`Op::Param`] nodes.
#[derive(Debug)]
pub struct Body {
    /// Types of the parameters.
    pub params: Vec<Type>,
    /// The results.
    pub results: Vec<Arc<Node>>,
}

/// Repetition inside the graph.
///
/// The body's parameters are: the iteration number (rank-0 `I64`; it counts
/// down to 0 in a reversed loop, so that it is always the slice's), the carries, one slice (leading axis removed) of each stacked input, the
/// invariants. Its results are the next carries, then one slice of each
/// stacked output. The node's operands are the carries, the stacked inputs
/// (leading axis `trips`) and the invariants.
#[derive(Debug)]
pub struct LoopSpec {
    /// What one iteration computes.
    pub body: Body,
    /// Number of iterations; 0 leaves the carries as they are.
    pub trips: usize,
    /// Number of carries.
    pub carries: usize,
    /// Number of stacked inputs.
    pub stacked: usize,
    /// Iterate from the last slice to the first.
    pub reverse: bool,
}

/// A named operation whose meaning is its body; a template is only a faster
/// way to run it. Where no template takes it, it is replaced by its body.
#[derive(Debug)]
pub struct Composite {
    /// What the caller calls it.
    pub name: &'static str,
    /// What it is by construction, so that templates and rules for gradients may stand in
    /// for the body. A user's composite is what its body says, whatever its name.
    pub built_in: Option<BuiltIn>,
    /// What templates need to know beyond the operands' types.
    pub attributes: Vec<(&'static str, Scalar)>,
    /// The meaning.
    pub body: Body,
    /// What keys of plans say of the body, once one has said it: many graphs may apply one composite.
    pub key: OnceLock<BodyKey>,
}

/// What a key of a plan says of a body: numbers that tell its structure, and its sizes and constants, encoded.
pub type BodyKey = [Box<[u8]>; 2];

impl Composite {
    /// A composite of these parts.
    pub fn new(
        name: &'static str,
        built_in: Option<BuiltIn>,
        attributes: Vec<(&'static str, Scalar)>,
        body: Body,
    ) -> Composite {
        Composite { name, built_in, attributes, body, key: OnceLock::new() }
    }
}

/// A user's own kernel, with its own inference.
pub trait Custom: fmt::Debug + Send + Sync {
    /// The kernel's name, in plans and errors.
    fn name(&self) -> &str;
    /// Types of the results for operands of these types.
    ///
    /// # Errors
    /// A text saying what was expected when the operands do not fit.
    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String>;
    /// Runs on the CPU: operands and results are row-major and contiguous,
    /// one byte slice each.
    ///
    /// # Errors
    /// A text that becomes part of the realize's error.
    fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String>;
}

/// A primitive. What is larger than two words is boxed: most operations are scalar ones, and
/// every node has one.
#[derive(Clone, Debug)]
pub enum Op {
    // Sources.
    /// A number known while building; rank 0. May be baked into kernels.
    Const(Scalar, DType, Device),
    /// A number that is always a run-time argument of kernels: never merged
    /// with an equal one, never baked. Rank 0. Random keys are such.
    Arg(Scalar, DType, Device),
    /// `0, 1, 2, ...` along one axis of the given extent.
    Iota(usize, DType, Device),
    /// Data already in memory; the node's value says where.
    Leaf(Type),
    /// The n-th parameter of a body or of a plan.
    Param(u32, Type),

    // ALU.
    /// A scalar operation on every element.
    Alu(AluOp),
    /// Conversion by value: floats become integers by truncation, integers wrap.
    Cast(DType),
    /// The same bits as another type of the same width.
    Bitcast(DType),

    // Movement: never runs, rewrites indices.
    /// The same elements in row-major order under another shape.
    Reshape(Box<Shape>),
    /// Axes reordered: axis `i` of the result is axis `p[i]` of the operand.
    Permute(Axes),
    /// Extents of 1 repeated, and new leading axes.
    Expand(Box<Shape>),
    /// Padding, one entry per axis; the second operand (rank 0) is the fill.
    Pad(Box<[PadAxis]>),
    /// A slice, one entry per axis.
    Slice(Box<[SliceAxis]>),
    /// The given axes reversed.
    Flip(Axes),
    /// Sliding windows; the window's elements become a new last axis.
    Window(Box<WindowAxis>),
    /// The adjoint of [`Op::Window`]: sums windows back onto an axis of the
    /// given extent. The operand's last axis is the window's elements.
    Unwindow(Box<WindowAxis>, usize),

    // Reductions.
    /// The given axes combined and removed.
    Reduce(Monoid, Axes),
    /// Running combination along an axis, inclusive.
    Scan(Monoid, u8),

    // Structured.
    /// Batched contraction: matmul, einsum, convolution over a window view.
    Contract(Box<ContractDims>),
    /// Elements of the first operand along an axis at the positions the
    /// second (`I64`) gives; both have one rank and agree on the other axes.
    Gather(u8),
    /// The first operand with the third's elements combined in, at positions
    /// along an axis that the second (`I64`) gives.
    Scatter(u8, ScatterMode),
    /// The first positions of the stable sorting permutation along an axis
    /// (`I64`); NaN is largest.
    Sort {
        /// The axis sorted along.
        axis: u8,
        /// Largest first.
        descending: bool,
        /// How many positions: at most the axis's extent, and the result's.
        count: usize,
    },

    // Placement.
    /// The operand on another device; on its own, in row-major memory.
    Copy(Device),
    /// What the ranks of a group do together. A second operand is the collective that this rank runs before it, of
    /// which nothing is read.
    Collective(Arc<Collective>),
    /// The first operand, to be used no earlier than the second is there: what
    /// is computed from it is computed apart from what is computed from the
    /// operand itself. Recomputation starts from such. What waits for itself is
    /// read from memory.
    After,

    /// The operands, each in row-major order, in one piece of memory.
    /// What a plan computes is computed in place, so that this costs nothing.
    Pack(Box<Packing>),

    // Structure.
    /// The n-th result of a repetition.
    Loop(Arc<LoopSpec>, u32),
    /// The n-th result of a named operation.
    Composite(Arc<Composite>, u32),
    /// The n-th result of a user's kernel.
    Custom(Arc<dyn Custom>, u32),
}

impl Op {
    /// An [`Op::Reshape`].
    pub fn reshape(shape: impl Into<Shape>) -> Op {
        Op::Reshape(Box::new(shape.into()))
    }
    /// An [`Op::Expand`].
    pub fn expand(shape: impl Into<Shape>) -> Op {
        Op::Expand(Box::new(shape.into()))
    }
    /// An [`Op::Window`].
    pub fn window(window: WindowAxis) -> Op {
        Op::Window(Box::new(window))
    }
    /// An [`Op::Unwindow`].
    pub fn unwindow(window: WindowAxis, extent: usize) -> Op {
        Op::Unwindow(Box::new(window), extent)
    }

    /// The operation's name, for plans, goldens and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Const(..) => "const",
            Op::Arg(..) => "arg",
            Op::Iota(..) => "iota",
            Op::Leaf(_) => "leaf",
            Op::Param(..) => "param",
            Op::Alu(op) => op.name(),
            Op::Cast(_) => "cast",
            Op::Bitcast(_) => "bitcast",
            Op::Reshape(_) => "reshape",
            Op::Permute(_) => "permute",
            Op::Expand(_) => "expand",
            Op::Pad(_) => "pad",
            Op::Slice(_) => "slice",
            Op::Flip(_) => "flip",
            Op::Window(_) => "window",
            Op::Unwindow(..) => "unwindow",
            Op::Reduce(monoid, _) => monoid.name(),
            Op::Scan(..) => "scan",
            Op::Contract(_) => "contract",
            Op::Gather(_) => "gather",
            Op::Scatter(..) => "scatter",
            Op::Sort { .. } => "sort",
            Op::Copy(_) => "copy",
            Op::Collective(collective) => collective.kind.name(),
            Op::After => "after",
            Op::Pack(_) => "pack",
            Op::Loop(..) => "loop",
            Op::Composite(composite, _) => composite.name,
            Op::Custom(..) => "custom",
        }
    }

    /// Whether it looks elements up by an index, which may be out of range.
    pub fn uses_indices(&self) -> bool {
        matches!(self, Op::Gather(_) | Op::Scatter(..))
    }

    /// The body of a repetition or a named operation.
    pub fn body(&self) -> Option<&Body> {
        match self {
            Op::Loop(spec, _) => Some(&spec.body),
            Op::Composite(composite, _) => Some(&composite.body),
            Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) | Op::Alu(_) => None,
            Op::Cast(_) | Op::Bitcast(_) | Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) => None,
            Op::Pad(_) | Op::Slice(_) | Op::Flip(_) | Op::Window(_) | Op::Unwindow(..) => None,
            Op::Reduce(..) | Op::Scan(..) | Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) => None,
            Op::Sort { .. } | Op::Copy(_) | Op::Collective(_) | Op::After | Op::Pack(_) => None,
            Op::Custom(..) => None,
        }
    }
}
