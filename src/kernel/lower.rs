//! From graph nodes to a kernel.
//!
//! Lowering starts at the values to store and walks down, carrying the
//! position of the element wanted along every axis of the node at hand.
//! Movement rewrites positions; scalar operations become expressions; a
//! reduction decides which axes are rows. What does not fit is a
//! [`Blocker`]: fusion is lowering that succeeds.
//!
//! Reshapes divide positions. Where a division is not affine because an axis
//! crosses the boundary, the axis is split there and lowering starts again;
//! only where no split helps does the division become part of the kernel.

use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use crate::base::{DType, Scalar, Shape};
use crate::ir::{AluOp, Graph, Layout, NodeId, NodeIds, Op};
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::blocker::Blocker;
use crate::kernel::builder::{KernelBuilder, RequiredSplit, Splits};
use crate::kernel::expr::{Access, Dynamic, Expr, ExprId, Guard};
use crate::kernel::index::{Positions, bijective_axes, linear, relinearize};
use crate::kernel::nest::{Kernel, KernelInput, KernelStore};
use crate::kernel::ranges::unchecked;
use crate::kernel::root::KernelRoot;

pub mod attention;
mod movement;
mod structure;

/// Expressions a kernel may have.
pub const MAX_EXPRS: usize = 4096;
/// Nodes that may lie between a store and a load.
const MAX_DEPTH: usize = 600;
/// Splits tried before giving up; more than any tensor has axes.
const MAX_SPLITS: usize = 64;

/// How lowering takes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computed in this kernel, wherever it is needed.
    Inside,
    /// Read from memory.
    Buffer,
}

/// What to lower.
pub struct Request<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The values to store; for a scatter, that one node.
    pub roots: &'a [NodeId],
    /// How to take a node below the roots.
    pub role: &'a dyn Fn(NodeId) -> Role,
    /// How parameters lie in memory, by number; dense where there is none.
    pub layouts: &'a [Layout],
}

/// A kernel, and the graph's values that it works on.
#[derive(Clone, Debug)]
pub struct LoweredKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// The values read, in the order of the kernel's inputs.
    pub inputs: NodeIds,
    /// The values written, in the order of the kernel's stores; of a scatter, what
    /// its buffer becomes.
    pub outputs: NodeIds,
    /// The scalar arguments, in the kernel's order.
    pub args: NodeIds,
}

/// Why lowering stopped.
pub(crate) enum Stop {
    /// The nodes are not one kernel.
    Blocked(Blocker),
    /// Start again with this axis split, the inner part of this extent.
    Split(AxisId, usize),
}

impl From<Blocker> for Stop {
    fn from(blocker: Blocker) -> Stop {
        Stop::Blocked(blocker)
    }
}

impl From<RequiredSplit> for Stop {
    fn from(RequiredSplit { axis, inner }: RequiredSplit) -> Stop {
        Stop::Split(axis, inner)
    }
}

pub(crate) type Lowered<T> = Result<T, Stop>;

/// The kernel that computes the roots.
///
/// # Errors
/// The [`Blocker`] that keeps the nodes from being one kernel.
pub fn lower(request: &Request<'_>) -> Result<LoweredKernel, Blocker> {
    let numel = |id: &&NodeId| request.graph.ty(**id).shape.numel();
    let largest = request.roots.iter().max_by_key(|id| (numel(id), std::cmp::Reverse(id.0)));
    let largest = *largest.unwrap_or_else(|| panic!("a kernel without stores"));
    match lower_from(request, largest, largest) {
        Err(blocker @ Blocker::DifferentDomain(_)) => {
            // A value stored beside its own reduction: only the reduction
            // knows which axes are rows.
            let smallest = request.roots.iter().min_by_key(numel).copied().filter(|&id| id != largest);
            smallest
                .map_or(Err(blocker.clone()), |lead| lower_from(request, largest, lead).map_err(|_| blocker))
        }
        other => other,
    }
}

/// The kernel whose main value is `main`; the axes of `lead` are the grid
/// and, perhaps, the rows.
fn lower_from(request: &Request<'_>, main: NodeId, lead: NodeId) -> Result<LoweredKernel, Blocker> {
    let mut splits = Splits::new();
    for _ in 0..MAX_SPLITS {
        let mut lowerer = Lowerer::new(request, &splits);
        match lowerer.run(main, lead) {
            Ok(call) => return Ok(call),
            Err(Stop::Blocked(blocker)) => return Err(blocker),
            Err(Stop::Split(axis, inner)) => {
                let builder = std::mem::take(&mut lowerer.builder);
                let (dim, place) = builder.dim_of(axis);
                let extents = builder.dims[dim].axes.iter().map(|a| builder.axes[a.index()].extent);
                let mut parts: Vec<usize> = extents.collect();
                parts[place] /= inner;
                parts.insert(place + 1, inner);
                splits.insert(dim, parts);
            }
        }
    }
    Err(Blocker::TooLarge(MAX_EXPRS))
}

/// The state of one attempt.
pub(crate) struct Lowerer<'r, 'g> {
    request: &'r Request<'g>,
    splits: &'r Splits,
    builder: KernelBuilder,
    /// Dimensions of the main store.
    root_dims: Vec<usize>,
    slots: HashMap<NodeId, u32>,
    /// The values behind the builder's inputs, by slot.
    inputs: NodeIds,
    args: NodeIds,
    guards: Vec<Guard>,
    memo: HashMap<(NodeId, Positions, usize), ExprId>,
    /// Where each node was first met without a guard.
    met: HashMap<NodeId, (Positions, ExprId)>,
    /// The indices that loads check: against which extent, under which guard.
    loaded: HashSet<(ExprId, usize, usize)>,
    root: KernelRoot,
    /// The node of the contraction or attention, and whether its operands are being lowered.
    contraction_node: Option<NodeId>,
    in_operand: bool,
    /// Whether the kernel has a reduction.
    in_rows: bool,
    /// The axis of a scan, which must stay whole.
    scan_axis: Option<AxisId>,
    /// Elements of the operand being lowered.
    operand_numel: usize,
    depth: usize,
}

impl<'r, 'g> Lowerer<'r, 'g> {
    fn new(request: &'r Request<'g>, splits: &'r Splits) -> Lowerer<'r, 'g> {
        Lowerer {
            request,
            splits,
            builder: KernelBuilder::default(),
            root_dims: Vec::new(),
            slots: HashMap::new(),
            inputs: NodeIds::new(),
            args: NodeIds::new(),
            guards: vec![Guard::default()],
            memo: HashMap::new(),
            met: HashMap::new(),
            loaded: HashSet::new(),
            root: KernelRoot::Elementwise,
            contraction_node: None,
            in_operand: false,
            in_rows: false,
            scan_axis: None,
            operand_numel: 0,
            depth: 0,
        }
    }

    fn shape(&self, id: NodeId) -> &'g Shape {
        &self.request.graph.ty(id).shape
    }

    fn run(&mut self, main: NodeId, lead: NodeId) -> Lowered<LoweredKernel> {
        if let Op::Scatter(axis, _) = self.request.graph.node(main).op {
            return self.scatter(main, usize::from(axis));
        }
        for &extent in self.shape(lead).iter() {
            let dim = self.builder.dim(extent, None, self.splits);
            self.root_dims.push(dim);
        }
        let positions = self.positions(&self.root_dims.clone());
        let value = self.compute(lead, &positions, 0)?;
        let mut stored = vec![(lead, positions, value)];
        for &root in self.request.roots.iter().filter(|&&root| root != lead) {
            let (positions, value) = self.second_root(root, main)?;
            stored.push((root, positions, value));
        }
        // The main store comes first.
        stored.sort_by_key(|&(root, ..)| root != main);
        self.builder.finish_levels();
        let mut stores = Vec::with_capacity(stored.len());
        for (node, positions, value) in &stored {
            stores.push(self.store(*node, positions, *value, main)?);
        }
        let outputs = stored.into_iter().map(|(node, ..)| node).collect();
        Ok(self.call(outputs, stores))
    }

    /// The positions along some dimensions.
    fn positions(&self, dims: &[usize]) -> Positions {
        dims.iter().map(|&dim| self.builder.position(dim)).collect()
    }

    /// A further value to store: where it was met, else over the grid.
    fn second_root(&mut self, root: NodeId, main: NodeId) -> Lowered<(Positions, ExprId)> {
        if let Some((positions, value)) = self.met.get(&root) {
            return Ok((positions.clone(), *value));
        }
        let shape = self.shape(root);
        let mut axes: Vec<AxisId> =
            self.root_dims.iter().flat_map(|&dim| self.builder.dims[dim].axes.clone()).collect();
        let mut positions = self.builder.along(&axes, shape)?;
        if positions.is_none() {
            axes.retain(|axis| self.builder.levels[axis.index()].unwrap_or(0) == 0);
            positions = self.builder.along(&axes, shape)?;
        }
        let different = || Blocker::DifferentDomain(Box::new((self.shape(main).clone(), shape.clone())));
        let positions = positions.ok_or_else(different)?;
        let value = self.compute(root, &positions, 0)?;
        Ok((positions, value))
    }

    /// A store, if the positions run over the node's elements exactly once.
    fn store(
        &self,
        node: NodeId,
        positions: &Positions,
        value: ExprId,
        main: NodeId,
    ) -> Lowered<KernelStore> {
        let shape = self.shape(node);
        let different = || Blocker::DifferentDomain(Box::new((self.shape(main).clone(), shape.clone())));
        let mut axes: Vec<AxisId> = Vec::new();
        for (position, &extent) in positions.iter().zip(shape.iter()) {
            axes.extend(bijective_axes(position, extent, &self.builder.axes).ok_or_else(different)?);
        }
        axes.sort_unstable();
        let level_of = |axis: &AxisId| self.builder.axes[axis.index()].level;
        let level = axes.iter().map(level_of).max().unwrap_or(0);
        let up_to = |level: u8| -> Vec<AxisId> {
            let ids = (0..self.builder.axes.len()).map(|i| AxisId(i as u16));
            ids.filter(|axis| level_of(axis) <= level).collect()
        };
        let value_level = self.builder.exprs[value.index()].level;
        // What a contraction sums over is no place to store at.
        let summed = self.contraction_node.is_some() && level > 0;
        if axes != up_to(level) || value_level > level || summed {
            return Err(different().into());
        }
        let address = linear(positions, shape).affine;
        let dtype = self.request.graph.ty(node).dtype;
        Ok(KernelStore { dtype, value, level, address, numel: shape.numel() })
    }

    /// What was lowered, to be stored so. The main value comes first.
    fn call(&mut self, outputs: NodeIds, stores: Vec<KernelStore>) -> LoweredKernel {
        let builder = std::mem::take(&mut self.builder);
        let kernel = Kernel {
            name: structure::name(self.request.graph, outputs[0], &self.met).into(),
            axes: builder.axes.into(),
            exprs: builder.exprs,
            inputs: builder.inputs.into(),
            stores: stores.into(),
            args: self.args.len(),
            root: std::mem::take(&mut self.root),
        };
        let [inputs, args] = [&mut self.inputs, &mut self.args].map(std::mem::take);
        LoweredKernel { kernel: unchecked(kernel), inputs, outputs, args }
    }

    /// The value of a node at some positions, under a guard: computed here
    /// or loaded, as its role says.
    pub(crate) fn value(&mut self, id: NodeId, at: &Positions, guard: usize) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        if node.ty.shape.numel() == 0 {
            // Nothing reads it, but hoisted work may stand outside empty rows.
            return Ok(self.builder.constant(Scalar::Int(0), node.ty.dtype));
        }
        let always_inside = matches!(node.op, Op::Const(..) | Op::Arg(..) | Op::Iota(..));
        if !always_inside && (self.request.role)(id) == Role::Buffer {
            return Ok(self.load(id, at, guard));
        }
        self.compute(id, at, guard)
    }

    /// The value of a node, computed in this kernel.
    pub(crate) fn compute(&mut self, id: NodeId, at: &Positions, guard: usize) -> Lowered<ExprId> {
        let key = (id, at.clone(), guard);
        if let Some(&value) = self.memo.get(&key) {
            return Ok(value);
        }
        if self.depth > MAX_DEPTH || self.builder.exprs.len() > MAX_EXPRS {
            return Err(Blocker::TooLarge(MAX_EXPRS).into());
        }
        self.depth += 1;
        let value = self.dispatch(id, at, guard);
        self.depth -= 1;
        let value = value?;
        if guard == 0 {
            self.met.entry(id).or_insert_with(|| (at.clone(), value));
        }
        self.memo.insert(key, value);
        Ok(value)
    }

    fn dispatch(&mut self, id: NodeId, at: &Positions, guard: usize) -> Lowered<ExprId> {
        let graph = self.request.graph;
        let node = graph.node(id);
        let operand = |i: usize| node.operands[i];
        match &node.op {
            Op::Const(value, dtype, _) => Ok(self.builder.constant(*value, *dtype)),
            Op::Arg(_, dtype, _) => Ok(self.argument(id, *dtype)),
            Op::Iota(_, dtype, _) => {
                let index = self.builder.position_expr(&at[0]);
                Ok(self.cast(index, DType::I64, *dtype))
            }
            Op::Leaf(_) | Op::Param(..) => Ok(self.load(id, at, guard)),
            Op::Alu(op) => self.alu(*op, id, at, guard),
            Op::Cast(dtype) => {
                let x = self.value(operand(0), at, guard)?;
                Ok(self.cast(x, graph.ty(operand(0)).dtype, *dtype))
            }
            Op::Bitcast(dtype) => {
                let x = self.value(operand(0), at, guard)?;
                Ok(self.builder.expr(Expr::Bitcast(x), *dtype, 0))
            }
            Op::Reshape(_) => self.reshape(operand(0), self.shape(id), at, guard),
            Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Flip(_) | Op::Window(_) => {
                let moved = movement::operand_positions(&node.op, self.shape(operand(0)), at);
                self.value(operand(0), &moved, guard)
            }
            Op::Pad(axes) => self.pad(id, axes, at, guard),
            Op::Unwindow(window, _) => self.unwindow(id, window, at, guard),
            Op::Reduce(monoid, axes) => self.reduce(id, *monoid, axes, at, guard),
            Op::Scan(monoid, axis) => self.scan(id, *monoid, usize::from(*axis), at, guard),
            Op::Contract(dims) => self.contract(id, dims, at, guard),
            Op::Gather(axis) => self.gather(id, usize::from(*axis), at, guard),
            Op::Scatter(..)
            | Op::Sort { .. }
            | Op::Collective(_)
            | Op::Pack(_)
            | Op::Loop(..)
            | Op::Custom(..) => Err(Blocker::Opaque(node.op.name()).into()),
            Op::Composite(composite, _) => self.composite(id, composite, at, guard),
            Op::After => self.value(operand(0), at, guard),
            Op::Copy(device) if *device == graph.ty(operand(0)).device => self.value(operand(0), at, guard),
            Op::Copy(_) => Err(Blocker::Opaque(node.op.name()).into()),
        }
    }

    fn argument(&mut self, id: NodeId, dtype: DType) -> ExprId {
        let known = self.args.iter().position(|&arg| arg == id);
        let number = known.unwrap_or_else(|| {
            self.args.push(id);
            self.args.len() - 1
        });
        self.builder.expr(Expr::Arg(number as u32), dtype, 0)
    }

    fn cast(&mut self, x: ExprId, from: DType, to: DType) -> ExprId {
        if from == to { x } else { self.builder.expr(Expr::Cast(x), to, 0) }
    }

    fn alu(&mut self, op: AluOp, id: NodeId, at: &Positions, guard: usize) -> Lowered<ExprId> {
        let graph = self.request.graph;
        let node = graph.node(id);
        // Packing an operand visits each of its elements at least once.
        let repeated = self.operand_numel >= 2 * self.shape(id).numel();
        if self.in_operand && (op.flops() > 4 || (repeated && self.shape(id).rank() > 0)) {
            return Err(Blocker::ExpensivePrologue(op.name()).into());
        }
        let mut x: SmallVec<[ExprId; 3]> = SmallVec::new();
        for &operand in &node.operands {
            // Rank-0 operands extend to any shape.
            let scalar = Positions::new();
            let at = if self.shape(operand).rank() == 0 { &scalar } else { at };
            x.push(self.value(operand, at, guard)?);
        }
        Ok(self.builder.alu(op, node.ty.dtype, &x))
    }

    /// An element of a buffer.
    fn load(&mut self, id: NodeId, at: &Positions, guard: usize) -> ExprId {
        let ty = self.request.graph.ty(id);
        if ty.shape.numel() == 0 {
            // Nothing reads it, but hoisted work may stand outside empty rows.
            return self.builder.constant(Scalar::Int(0), ty.dtype);
        }
        let dense;
        let op = &self.request.graph.node(id).op;
        let number = if let Op::Param(number, _) = op { Some(*number as usize) } else { None };
        let known = number.and_then(|number| self.request.layouts.get(number));
        let layout = match known {
            Some(layout) => layout,
            None => {
                dense = Layout::contiguous(&ty.shape);
                &dense
            }
        };
        let mut access = Access { affine: Affine::constant(layout.offset), ..Access::default() };
        for (position, stride) in relinearize(at, &layout.strides) {
            access.affine = access.affine.plus(&position.affine.times(stride));
            for part in &position.computed {
                if part.checked {
                    self.loaded.insert((part.index, part.extent, guard));
                }
                access.dynamic.push(Dynamic {
                    index: part.index,
                    stride: part.factor * stride,
                    extent: part.extent,
                    checked: part.checked,
                });
            }
        }
        let slot = *self.slots.entry(id).or_insert_with(|| {
            self.builder.inputs.push(KernelInput { dtype: ty.dtype, numel: ty.shape.numel() });
            self.inputs.push(id);
            self.builder.inputs.len() as u32 - 1
        });
        let guard = self.guards[guard].clone();
        self.builder.expr(Expr::loaded(slot, access, guard), ty.dtype, 0)
    }

    /// The number of a guard.
    fn guard(&mut self, guard: Guard) -> usize {
        if let Some(known) = self.guards.iter().position(|g| *g == guard) {
            return known;
        }
        self.guards.push(guard);
        self.guards.len() - 1
    }

    /// `condition ? value : fill`.
    fn choose(&mut self, condition: ExprId, value: ExprId, fill: ExprId, dtype: DType) -> ExprId {
        // A guarded load gives zero by itself.
        let zero = Scalar::Int(0).to_bits(dtype);
        let fill_is_zero = *self.expr(fill) == Expr::Const(zero);
        if fill_is_zero && matches!(self.expr(value), Expr::Load(..)) {
            return value;
        }
        self.builder.alu(AluOp::Where, dtype, &[condition, value, fill])
    }

    fn expr(&self, id: ExprId) -> &Expr {
        &self.builder.exprs[id.index()].expr
    }
}
