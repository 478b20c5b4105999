//! Reductions, scans, contractions, gathers and scatters: what decides the
//! structure of a kernel.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::base::{DType, Scalar, Shape};
use crate::ir::{AluOp, Axes, ContractDims, Graph, Monoid, NodeId, NodeIds, Op};
use crate::kernel::affine::{Affine, AxisId};
use crate::kernel::blocker::Blocker;
use crate::kernel::expr::{BoundsCheck, Expr, ExprId};
use crate::kernel::index::{Position, Positions, bijective_axes, linear};
use crate::kernel::lower::movement::computed;
use crate::kernel::lower::{Lowered, LoweredKernel, Lowerer};
use crate::kernel::nest::{Contraction, ScatterStore};
use crate::kernel::root::KernelRoot;

/// The deepest level of rows.
const MAX_LEVEL: u8 = 2;

/// The rows that a reduction combines.
pub struct ReductionRows {
    /// Level of the result; the rows are one deeper.
    pub level: u8,
    /// The position along each reduced axis.
    pub positions: Positions,
}

impl Lowerer<'_, '_> {
    /// The rows for a reduction read at `at` over axes of these extents:
    /// axes that are rows already, axes of the main store that the
    /// reduction does not depend on, or new ones.
    ///
    /// What the guard depends on counts as depended on too: the rows must
    /// not be the axes that say where the result is wanted.
    pub(crate) fn rows(
        &mut self,
        id: NodeId,
        extents: &[usize],
        at: &Positions,
        guard: usize,
    ) -> Lowered<ReductionRows> {
        let name = self.request.graph.node(id).op.name();
        if self.contraction_node.is_some() || self.in_operand {
            return Err(Blocker::Contraction.into());
        }
        self.in_rows = true;
        let mut used = self.used_axes(name, at)?;
        self.guard_axes(guard, &mut used);
        let level = used.iter().filter_map(|axis| self.builder.levels[axis.index()]).max().unwrap_or(0);
        let mut axes: Vec<AxisId> = self.builder.axes_at(Some(level + 1)).collect();
        if axes.is_empty() && level == 0 {
            axes = self.builder.axes_at(None).filter(|axis| !used.contains(axis)).collect();
        }
        if axes.is_empty() {
            if level + 1 > MAX_LEVEL {
                return Err(Blocker::TooDeep.into());
            }
            for &extent in extents {
                let dim = self.builder.dim(extent, Some(level + 1), self.splits);
                axes.extend(&self.builder.dims[dim].axes);
            }
        }
        let Some(positions) = self.builder.along(&axes, extents)? else {
            let found: Vec<usize> = axes.iter().map(|axis| self.builder.axes[axis.index()].extent).collect();
            let wide: Vec<usize> = extents.iter().copied().filter(|&extent| extent != 1).collect();
            return Err(Blocker::DifferentRows(Box::new((Shape::new(&found), Shape::new(&wide)))).into());
        };
        self.decide(&axes, level + 1);
        self.no_repetition(id, name, level)?;
        Ok(ReductionRows { level, positions })
    }

    /// The axes that positions depend on.
    fn used_axes(&self, name: &'static str, at: &Positions) -> Lowered<Vec<AxisId>> {
        if at.iter().any(|position| !position.computed.is_empty()) {
            return Err(Blocker::DynamicIndex(name).into());
        }
        Ok(at.iter().flat_map(|position| position.affine.terms.iter().map(|term| term.0)).collect())
    }

    /// Adds the axes that a guard depends on.
    fn guard_axes(&self, guard: usize, axes: &mut Vec<AxisId>) {
        let guard = &self.guards[guard];
        axes.extend(guard.within.iter().flat_map(|within| within.value.terms.iter().map(|term| term.0)));
        let mut pending: Vec<ExprId> = guard.masks.to_vec();
        while let Some(id) = pending.pop() {
            match self.expr(id) {
                Expr::Index(affine) => axes.extend(affine.terms.iter().map(|term| term.0)),
                Expr::Inside(within) => axes.extend(within.value.terms.iter().map(|term| term.0)),
                Expr::Load(_, access) => {
                    axes.extend(access.affine.terms.iter().map(|term| term.0));
                    axes.extend(
                        access.guard.within.iter().flat_map(|w| w.value.terms.iter().map(|term| term.0)),
                    );
                }
                Expr::Const(_)
                | Expr::Arg(_)
                | Expr::Alu(..)
                | Expr::Cast(_)
                | Expr::Bitcast(_)
                | Expr::Reduce(..)
                | Expr::Scan(..)
                | Expr::Checked(..)
                | Expr::Accumulator => {}
            }
            self.expr(id).operands(|operand| pending.push(operand));
        }
    }

    /// These axes have this level; undecided others are the grid.
    pub(crate) fn decide(&mut self, axes: &[AxisId], level: u8) {
        for axis in axes {
            self.builder.levels[axis.index()] = Some(level);
        }
        for own in &mut self.builder.levels {
            own.get_or_insert(0);
        }
    }

    /// A value of this level is computed at every point of the axes
    /// down to it: more points than elements would be waste.
    fn no_repetition(&self, id: NodeId, name: &'static str, level: u8) -> Lowered<()> {
        let levels = self.builder.levels.iter().zip(&self.builder.axes);
        let axes = levels.filter(|(own, _)| own.is_some_and(|own| own <= level));
        let points: usize = axes.map(|(_, axis)| axis.extent).fold(1, usize::saturating_mul);
        let elements = self.shape(id).numel();
        // Padding around a reduction reads a few positions outside it.
        if elements > 0 && points > elements + elements / 4 {
            return Err(Blocker::Repeated(name, points.div_ceil(elements)).into());
        }
        Ok(())
    }

    /// A reduction expression of a level.
    pub(crate) fn reduction(&mut self, monoid: Monoid, value: ExprId, dtype: DType, level: u8) -> ExprId {
        self.builder.expr(Expr::Reduce(monoid, value), dtype, level)
    }

    pub(crate) fn reduce(
        &mut self,
        id: NodeId,
        monoid: Monoid,
        axes: &Axes,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        let operand = node.operands[0];
        let shape = self.shape(operand);
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        let extents: Vec<usize> = sorted.iter().map(|&axis| shape[usize::from(axis)]).collect();
        let rows = self.rows(id, &extents, at, guard)?;
        let (mut kept, mut reduced) = (at.iter(), rows.positions.iter());
        let from = |axis: usize| {
            let source = if sorted.contains(&(axis as u8)) { reduced.next() } else { kept.next() };
            source.cloned().unwrap_or_default()
        };
        let positions: Positions = (0..shape.rank()).map(from).collect();
        let value = self.value(operand, &positions, guard)?;
        Ok(self.reduction(monoid, value, node.ty.dtype, rows.level))
    }

    pub(crate) fn scan(
        &mut self,
        id: NodeId,
        monoid: Monoid,
        axis: usize,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        let operand = node.operands[0];
        let extent = self.shape(operand)[axis];
        if extent == 1 {
            return self.value(operand, at, guard);
        }
        let mut others = at.clone();
        let along = others.remove(axis);
        let [(only, 1)] = along.affine.terms[..] else { return Err(Blocker::ScanAxis.into()) };
        if along.affine.offset != 0 || !along.computed.is_empty() || guard != 0 {
            return Err(Blocker::ScanAxis.into());
        }
        let rows = self.rows(id, &[extent], &others, guard).map_err(|stop| match stop {
            crate::kernel::lower::Stop::Blocked(Blocker::Repeated(..)) => Blocker::ScanAxis.into(),
            other => other,
        })?;
        if rows.positions[0] != Position::from(Affine::axis(only)) {
            return Err(Blocker::ScanAxis.into());
        }
        self.scan_axis = Some(only);
        let value = self.value(operand, at, guard)?;
        Ok(self.builder.expr(Expr::Scan(monoid, value, only), node.ty.dtype, rows.level + 1))
    }

    pub(crate) fn gather(
        &mut self,
        id: NodeId,
        axis: usize,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        let (data, index) = (node.operands[0], node.operands[1]);
        let extent = self.shape(data)[axis];
        let index = self.value(index, at, guard)?;
        let mut moved = at.clone();
        moved[axis] = computed(index, extent, true);
        let value = self.value(data, &moved, guard)?;
        let is_checked = self.loaded.contains(&(index, extent, guard));
        Ok(if is_checked || self.builder.is_index(index, extent) {
            value
        } else {
            self.checked(value, BoundsCheck { index, extent }, guard)
        })
    }

    /// A value of what is computed, beside which the index that finds it is checked where the
    /// guard holds.
    fn checked(&mut self, value: ExprId, bounded: BoundsCheck, guard: usize) -> ExprId {
        let BoundsCheck { mut index, extent } = bounded;
        let guard = self.guards[guard].clone();
        // Where its own guard is closed, a load gives 0.
        let guarded = matches!(self.expr(index), Expr::Load(_, access) if *access.guard == guard);
        if !guarded {
            let mut conditions: Vec<ExprId> = Vec::new();
            for within in guard.within {
                conditions.push(self.builder.expr(Expr::Inside(within.into()), DType::Bool, 0));
            }
            conditions.extend(guard.masks);
            if let Some(open) = self.builder.all(&conditions) {
                let first = self.builder.constant(Scalar::Int(0), DType::I64);
                index = self.builder.alu(AluOp::Where, DType::I64, &[open, index, first]);
            }
        }
        let dtype = self.builder.exprs[value.index()].dtype;
        self.builder.expr(Expr::Checked(value, BoundsCheck { index, extent }.into()), dtype, 0)
    }

    pub(crate) fn contract(
        &mut self,
        id: NodeId,
        dims: &ContractDims,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        self.may_fill_grid(id, guard)?;
        let graph = self.request.graph;
        let node = graph.node(id);
        let (a, b) = (node.operands[0], node.operands[1]);
        let operand_axes = ContractionAxes::of(dims, self.shape(a).rank(), self.shape(b).rank());
        let (batch, m, n) = self.result_axes(id, &operand_axes, at)?;
        self.decide(&[], 0);
        self.contraction_node = Some(id);
        let extents = dims.contract.iter().map(|pair| self.shape(a)[usize::from(pair.0)]);
        let k_dims: Vec<usize> = extents
            .collect::<Vec<_>>()
            .into_iter()
            .map(|e| self.builder.dim(e, Some(1), self.splits))
            .collect();
        let k_at: Positions = k_dims.iter().map(|&dim| self.builder.position(dim)).collect();
        let a_at = operand_axes.operand(at, &k_at, 0);
        let b_at = operand_axes.operand(at, &k_at, 1);
        self.in_operand = true;
        self.operand_numel = self.shape(a).numel();
        let first = self.value(a, &a_at, 0);
        self.operand_numel = self.shape(b).numel();
        let lowered = first.and_then(|a| Ok((a, self.value(b, &b_at, 0)?)));
        self.in_operand = false;
        let (a, b) = lowered?;
        let k = k_dims.iter().flat_map(|&dim| self.builder.dims[dim].axes.clone()).collect();
        let dtype = node.ty.dtype.compute();
        self.root = Contraction { a, b, dtype, precision: dims.precision, batch, m, n, k }.into();
        Ok(self.builder.expr(Expr::Accumulator, node.ty.dtype, 0))
    }

    /// Whether a contraction, or attention, may be the kernel's: it fills the
    /// grid alone, and is no reduction's operand, of no axes either.
    pub(crate) fn may_fill_grid(&self, id: NodeId, guard: usize) -> Lowered<()> {
        let decided = self.in_rows || self.builder.levels.iter().any(Option::is_some);
        let other = self.contraction_node.is_some_and(|node| node != id);
        if other || self.in_operand || decided || guard != 0 {
            return Err(Blocker::Contraction.into());
        }
        Ok(())
    }

    /// The grid axes of a contraction's batch, m and n; together they are
    /// the whole grid, each once.
    fn result_axes(
        &self,
        id: NodeId,
        operand_axes: &ContractionAxes,
        at: &Positions,
    ) -> Lowered<(Vec<AxisId>, Vec<AxisId>, Vec<AxisId>)> {
        let shape = self.shape(id);
        let mut groups = [Vec::new(), Vec::new(), Vec::new()];
        for (i, position) in at.iter().enumerate() {
            let axes = bijective_axes(position, shape[i], &self.builder.axes).ok_or(Blocker::Contraction)?;
            groups[operand_axes.group(i)].extend(axes);
        }
        let mut all: Vec<AxisId> = groups.concat();
        all.sort_unstable();
        let whole = (0..self.builder.axes.len()).map(|i| AxisId(i as u16));
        if !all.iter().copied().eq(whole) {
            return Err(Blocker::Contraction.into());
        }
        let [batch, m, n] = groups;
        Ok((batch, m, n))
    }

    /// The kernel of a scatter: its axes are the updates'.
    pub(crate) fn scatter(&mut self, id: NodeId, axis: usize) -> Lowered<LoweredKernel> {
        let graph = self.request.graph;
        let node = graph.node(id);
        let (index, updates) = (node.operands[1], node.operands[2]);
        for &extent in self.shape(updates).iter() {
            let dim = self.builder.dim(extent, None, self.splits);
            self.root_dims.push(dim);
        }
        let at = self.positions(&self.root_dims.clone());
        let index = self.value(index, &at, 0)?;
        let value = self.value(updates, &at, 0)?;
        self.builder.finish_levels();
        if self.builder.axes.iter().any(|axis| axis.level > 0) || self.contraction_node.is_some() {
            return Err(Blocker::Opaque("scatter").into());
        }
        let Op::Scatter(_, mode) = node.op else { panic!("{} is not a scatter", node.op.name()) };
        let shape = self.shape(id);
        let mut others = at.clone();
        others[axis] = Position::default();
        self.root = KernelRoot::from(ScatterStore {
            dtype: node.ty.dtype,
            index,
            checked: !self.builder.is_index(index, shape[axis]),
            value,
            address: linear(&others, shape).affine,
            stride: shape.strides()[axis],
            extent: shape[axis],
            axes: self.builder.dims[self.root_dims[axis]].axes.to_vec(),
            mode,
            numel: shape.numel(),
        });
        Ok(self.call(NodeIds::from_slice(&[id]), Vec::new()))
    }
}

/// Where the axes of a contraction's result and operands come from.
struct ContractionAxes {
    batch: SmallVec<[(u8, u8); 4]>,
    contract: SmallVec<[(u8, u8); 4]>,
    free: [SmallVec<[u8; 4]>; 2],
}

impl ContractionAxes {
    fn of(dims: &ContractDims, a_rank: usize, b_rank: usize) -> ContractionAxes {
        let pairs = || dims.batch.iter().chain(&dims.contract);
        let free_a = (0..a_rank as u8).filter(|&i| pairs().all(|pair| pair.0 != i)).collect();
        let free_b = (0..b_rank as u8).filter(|&i| pairs().all(|pair| pair.1 != i)).collect();
        ContractionAxes { batch: dims.batch.clone(), contract: dims.contract.clone(), free: [free_a, free_b] }
    }

    /// 0, 1, 2: whether axis `i` of the result is a batch, m or n axis.
    fn group(&self, i: usize) -> usize {
        let batch = self.batch.len();
        usize::from(i >= batch) + usize::from(i >= batch + self.free[0].len())
    }

    /// The positions of an operand's axes, from the result's and the summed ones.
    fn operand(&self, at: &Positions, k_at: &Positions, which: usize) -> Positions {
        let rank = self.batch.len() + self.contract.len() + self.free[which].len();
        let mut positions: Positions = (0..rank).map(|_| Position::default()).collect();
        let side = |pair: &(u8, u8)| usize::from(if which == 0 { pair.0 } else { pair.1 });
        for (i, pair) in self.batch.iter().enumerate() {
            positions[side(pair)] = at[i].clone();
        }
        for (k, pair) in self.contract.iter().enumerate() {
            positions[side(pair)] = k_at[k].clone();
        }
        let first = self.batch.len() + if which == 0 { 0 } else { self.free[0].len() };
        for (i, &axis) in self.free[which].iter().enumerate() {
            positions[usize::from(axis)] = at[first + i].clone();
        }
        positions
    }
}

/// A kernel's name: its main operations, the last ones where there are many, and the
/// shape of its main store.
pub fn name(graph: &Graph, main: NodeId, met: &HashMap<NodeId, (Positions, ExprId)>) -> String {
    let mut nodes: Vec<NodeId> = met.keys().copied().chain([main]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let structural = |op: &Op| {
        matches!(
            op,
            Op::Reduce(..)
                | Op::Scan(..)
                | Op::Contract(_)
                | Op::Scatter(..)
                | Op::Unwindow(..)
                | Op::Composite(..)
        )
    };
    let scalar = |op: &Op| matches!(op, Op::Alu(_) | Op::Cast(_) | Op::Gather(_));
    let pick = |wanted: &dyn Fn(&Op) -> bool| -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for &id in nodes.iter().rev().filter(|&&id| wanted(&graph.node(id).op)) {
            let name = graph.node(id).op.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.reverse();
        names
    };
    let mut parts = pick(&structural);
    let scalars = pick(&scalar);
    let beyond = scalars.len().saturating_sub(6usize.saturating_sub(parts.len()));
    parts.extend(&scalars[beyond..]);
    if parts.is_empty() {
        parts.push("copy");
    }
    format!("{}{}", parts.join("_"), graph.ty(main).shape)
}
