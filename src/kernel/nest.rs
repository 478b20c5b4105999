//! The kernel: an iteration space with loads, expressions, reductions and
//! stores.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::base::shape::{product, volume};
use crate::base::{CowArc, DType, Precision, Shape};
use crate::ir::{Custom, ScatterMode, Type};
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::expr::{Expr, ExprId, ExprNode};
use crate::kernel::joint::JointWork;
use crate::kernel::root::KernelRoot;

/// One axis of a kernel's iteration space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopAxis {
    /// Number of positions.
    pub extent: usize,
    /// 0: the grid. 1: rows of a grid point (and the contracted axes of a
    /// contraction). 2: rows nested in those.
    pub level: u8,
}

/// A buffer that a kernel reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelInput {
    /// Type of the elements in memory.
    pub dtype: DType,
    /// Elements the value has, for costs.
    pub numel: usize,
}

/// A value that a kernel writes, row-major and dense.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelStore {
    /// Type of the elements in memory.
    pub dtype: DType,
    /// What is written, once at every point of its level and above.
    pub value: ExprId,
    /// Level of the axes stored over: 0 once per grid point, 1 once per row element.
    pub level: u8,
    /// Where, in elements: a bijection from the axes up to `level` onto the
    /// elements of what is written.
    pub address: Affine,
    /// Elements of what is written.
    pub numel: usize,
}

/// The contraction at the root of a kernel:
/// `acc[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]`.
///
/// Each list is in row-major order. Stores and their expressions see the
/// finished sum as [`Expr::Accumulator`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contraction {
    /// The first operand's value: depends on batch, m and k.
    pub a: ExprId,
    /// The second operand's value: depends on batch, k and n.
    pub b: ExprId,
    /// Type of the products and the sum (`F32` for the 16-bit floats).
    pub dtype: DType,
    /// How exactly 32-bit floats are multiplied, where a device can choose.
    pub precision: Precision,
    /// Axes both operands and the result have (level 0).
    pub batch: Vec<AxisId>,
    /// Axes of the first operand and the result (level 0).
    pub m: Vec<AxisId>,
    /// Axes of the second operand and the result (level 0).
    pub n: Vec<AxisId>,
    /// Axes summed over (level 1).
    pub k: Vec<AxisId>,
}

/// What a kernel computes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionPart {
    /// The output of every row:
    /// `acc[batch, row, column] = sum over keys of softmax(score)[key] * v[batch, key, column]`.
    /// A row of which everything is masked is zero.
    Result,
    /// At every row, the log-sum-exp of its scores.
    LogSum,
    /// The gradient of the queries,
    /// `acc[batch, row, depth] = sum over keys of gradient * k[batch, key, depth] * scale`,
    /// where `weight = exp(score - log_sum)`, 0 where everything is masked, and
    /// `gradient = weight * (sum over columns of g * v - product)`.
    QueryGradient,
    /// The gradient of the keys,
    /// `acc[batch, key, depth] = sum over rows of gradient * q[batch, row, depth] * scale`.
    KeyGradient,
    /// The gradient of the values,
    /// `acc[batch, key, column] = sum over rows of weight * g[batch, row, column]`.
    ValueGradient,
}

impl AttentionPart {
    /// Whether its results' rows are the queries', not the keys'.
    pub const fn by_query(self) -> bool {
        match self {
            AttentionPart::Result | AttentionPart::LogSum | AttentionPart::QueryGradient => true,
            AttentionPart::KeyGradient | AttentionPart::ValueGradient => false,
        }
    }
    /// Whether it is a gradient.
    pub const fn is_gradient(self) -> bool {
        match self {
            AttentionPart::Result | AttentionPart::LogSum => false,
            AttentionPart::QueryGradient | AttentionPart::KeyGradient | AttentionPart::ValueGradient => true,
        }
    }
    /// The name in kernels' text.
    pub const fn name(self) -> &'static str {
        match self {
            AttentionPart::Result => "attention",
            AttentionPart::LogSum => "attention log_sum",
            AttentionPart::QueryGradient => "attention gradient of q",
            AttentionPart::KeyGradient => "attention gradient of k",
            AttentionPart::ValueGradient => "attention gradient of v",
        }
    }
}

/// FusedAttention, or a part of its gradient, at the root of a kernel, as
/// [`AttentionPart`] says with `score = sum over depth of q * k * scale`, hidden or
/// shifted by the mask.
///
/// Each list is in row-major order. Stores and their expressions see the
/// result as [`Expr::Accumulator`]; everything is computed in `F32`. An operand that
/// the part does without is `None`. The result's axes are level 0, the others level 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedAttention {
    /// What is computed.
    pub part: AttentionPart,
    /// Queries: depend on batch, rows and depth.
    pub q: ExprId,
    /// Keys: depend on batch, keys and depth.
    pub k: ExprId,
    /// Values: depend on batch, keys and columns.
    pub v: Option<ExprId>,
    /// The gradient of the result: depends on batch, rows and columns.
    pub g: Option<ExprId>,
    /// The log-sum-exp of the scores: depends on batch and rows.
    pub log_sum: Option<ExprId>,
    /// The sum over columns of result and gradient: depends on batch and rows.
    pub product: Option<ExprId>,
    /// A `Bool`, false where a score is masked, or a number added to it: depends on
    /// batch, rows and keys.
    pub mask: Option<ExprId>,
    /// Factor of the scores, as the bits of an `f64`.
    pub scale: u64,
    /// Row `i` looks at the keys `0..=i` only.
    pub causal: bool,
    /// Axes of independent attentions.
    pub batch: Vec<AxisId>,
    /// Axes of attentions whose gradients are summed, outside of what is summed over.
    pub summed: Vec<AxisId>,
    /// Axes of the queries.
    pub rows: Vec<AxisId>,
    /// Axes of the keys.
    pub keys: Vec<AxisId>,
    /// Axes along the rows of queries and keys.
    pub depth: Vec<AxisId>,
    /// Axes along the rows of values and the result.
    pub columns: Vec<AxisId>,
    /// Axes along the rows of what is computed: the columns of a result; for gradients,
    /// axes of their own.
    pub width: Vec<AxisId>,
}

impl FusedAttention {
    /// All operands there are.
    pub fn operands(&self) -> impl Iterator<Item = ExprId> + use<> {
        let others = [self.v, self.mask, self.g, self.log_sum, self.product];
        [self.q, self.k].into_iter().chain(others.into_iter().flatten())
    }
}

/// A scatter at the root of a kernel: at every point of the level-0 axes, in
/// row-major order, `value` is combined into the element at
/// `address + index * stride` of a buffer that already holds the base.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterStore {
    /// Type of the elements in memory.
    pub dtype: DType,
    /// Position along the scattered axis, an `I64` expression (`I32` once
    /// rendering has narrowed it). Outside
    /// `0..extent` it is recorded as the kernel's index error and skipped.
    pub index: ExprId,
    /// Whether the index may be out of range.
    pub checked: bool,
    /// The update.
    pub value: ExprId,
    /// The part of the address that the axes determine, in elements.
    pub address: Affine,
    /// Elements from one position along the scattered axis to the next.
    pub stride: i64,
    /// Extent of the scattered axis in the buffer.
    pub extent: usize,
    /// The kernel axes along the scattered axis of the updates, outermost first
    /// (several where a reshape splits it); points that
    /// differ on other axes never meet.
    pub axes: Vec<AxisId>,
    /// How an update combines.
    pub mode: ScatterMode,
    /// Elements of the buffer.
    pub numel: usize,
}

/// What one launch computes, on whatever values: it knows what it reads and writes
/// by position, so that steps of one form share it.
///
/// Without a contraction: for every point of the level-0 axes, the level-1
/// axes are rows that reductions combine, and so on inwards. Reductions run
/// in stages: a reduction's operand may depend on the result of another of
/// the same level (softmax: the sum depends on the max).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// For people: the operations inside and the main store's shape.
    pub name: CowArc<String>,
    /// The iteration space, outermost first within each level.
    pub axes: CowArc<Vec<LoopAxis>>,
    /// Operands first.
    pub exprs: Vec<ExprNode>,
    /// The buffers read; [`Expr::Load`] refers to them by position.
    pub inputs: CowArc<Vec<KernelInput>>,
    /// What is written; the main store first.
    pub stores: CowArc<Vec<KernelStore>>,
    /// How many scalar arguments a launch takes; [`Expr::Arg`] refers to them by
    /// position.
    pub args: usize,
    /// What it computes.
    pub root: KernelRoot,
}

impl Kernel {
    /// The expression of a number.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()].expr
    }
    /// Whether an expression is an element of an input, unchanged.
    pub fn is_copy(&self, id: ExprId) -> bool {
        match self.expr(id) {
            Expr::Load(..) => true,
            Expr::Cast(x) => self.exprs[x.index()].dtype == self.exprs[id.index()].dtype && self.is_copy(*x),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Inside(_)
            | Expr::Alu(..)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Checked(..)
            | Expr::Accumulator => false,
        }
    }
    /// Whether it may meet an index out of range.
    pub fn reports(&self) -> bool {
        self.scatter().is_some_and(|scatter| scatter.checked)
            || self.exprs.iter().any(|node| node.expr.reports())
    }
    /// The axes of one level, outermost first.
    pub fn level_axes(&self, level: u8) -> impl Iterator<Item = AxisId> + '_ {
        let ids = (0..self.axes.len()).filter(move |&i| self.axes[i].level == level);
        ids.map(|i| AxisId(i as u16))
    }
    /// Number of points of the axes of one level; saturates, as all these numbers do.
    pub fn level_points(&self, level: u8) -> usize {
        product(self.axes.iter().filter(|axis| axis.level == level).map(|axis| axis.extent))
    }
    /// Number of points of some axes.
    pub fn points_of(&self, axes: &[AxisId]) -> usize {
        product(axes.iter().map(|axis| self.axes[axis.index()].extent))
    }
    /// Number of points of all axes up to a level.
    pub fn points(&self, level: u8) -> usize {
        product((0..=level).map(|l| self.level_points(l)))
    }
    /// The deepest level there is.
    pub fn depth(&self) -> u8 {
        self.axes.iter().map(|axis| axis.level).max().unwrap_or(0)
    }
}

/// The first positions of the stable sorting permutation along one axis of a
/// dense row-major input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Extents of the input.
    pub shape: Shape,
    /// Type of the keys.
    pub dtype: DType,
    /// The axis sorted along.
    pub axis: usize,
    /// Largest first. NaN is largest; equal keys keep their order either way.
    pub descending: bool,
    /// How many positions.
    pub count: usize,
}

impl Sort {
    /// Extents of the result.
    pub fn result(&self) -> Shape {
        let mut shape = self.shape.clone();
        shape.0[self.axis] = self.count;
        shape
    }

    /// Elements between neighbours along the axis.
    pub fn inner(&self) -> usize {
        volume(&self.shape[self.axis + 1..])
    }
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.descending { ", descending" } else { "" };
        write!(f, "sort {}{} along axis {}{order}, first {}", self.dtype, self.shape, self.axis, self.count)
    }
}

/// What a device compiles and launches. Equal works are one program; a user's kernel
/// is equal to itself alone.
#[derive(Clone, Debug)]
pub enum Workload {
    /// A generated kernel.
    Kernel(Kernel),
    /// A sorting permutation: one input, one `I64` output.
    Sort(Sort),
    /// A user's kernel: dense row-major inputs and outputs of these types.
    Custom(Arc<dyn Custom>, Vec<Type>, Vec<Type>),
    /// Kernels that are one launch.
    Joint(JointWork),
}

impl PartialEq for Workload {
    fn eq(&self, other: &Workload) -> bool {
        match (self, other) {
            (Workload::Kernel(kernel), Workload::Kernel(other)) => kernel == other,
            (Workload::Sort(sort), Workload::Sort(other)) => sort == other,
            (Workload::Custom(custom, inputs, outputs), Workload::Custom(other, from, to)) => {
                Arc::ptr_eq(custom, other) && inputs == from && outputs == to
            }
            (Workload::Joint(joint), Workload::Joint(other)) => joint == other,
            (Workload::Kernel(_) | Workload::Sort(_) | Workload::Custom(..) | Workload::Joint(_), _) => false,
        }
    }
}

impl Eq for Workload {}

impl Hash for Workload {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Workload::Kernel(kernel) => kernel.hash(state),
            Workload::Sort(sort) => sort.hash(state),
            Workload::Custom(custom, inputs, outputs) => {
                Arc::as_ptr(custom).cast::<()>().hash(state);
                (inputs, outputs).hash(state);
            }
            Workload::Joint(joint) => joint.hash(state),
        }
    }
}

impl Workload {
    /// The kernel, if it is a generated one.
    pub fn kernel(&self) -> Option<&Kernel> {
        match self {
            Workload::Kernel(kernel) => Some(kernel),
            Workload::Sort(_) | Workload::Custom(..) | Workload::Joint(_) => None,
        }
    }

    /// Its name, for people.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Workload::Kernel(kernel) => Cow::Borrowed(&kernel.name),
            Workload::Sort(_) => "sort".into(),
            Workload::Custom(custom, ..) => custom.name().into(),
            Workload::Joint(joint) => joint.name().into(),
        }
    }

    /// The type of an input's elements.
    pub fn input_dtype(&self, number: usize) -> DType {
        match self {
            Workload::Kernel(kernel) => kernel.inputs[number].dtype,
            Workload::Sort(sort) => sort.dtype,
            Workload::Custom(_, inputs, _) => inputs[number].dtype,
            Workload::Joint(joint) => joint.input_dtypes[number],
        }
    }
}
