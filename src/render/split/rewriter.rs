//! A kernel written after another: its axes, expressions and memory mapped.

use crate::base::{DType, Scalar};
use crate::ir::AluOp;
use crate::kernel::builder::KernelBuilder;
use crate::kernel::{
    Access, Affine, AxisId, Expr, ExprId, Guard, Kernel, KernelInput, KernelRoot, KernelStore, LoopAxis,
    ScatterStore, Within,
};
use crate::render::shader::PassBuffer;
use crate::render::split::{BoundKernel, PartGroup, SplitPoint};

/// Some values and what lies behind them, operands first; nothing behind those
/// that are a `leaf`.
pub fn needed(kernel: &Kernel, targets: &[ExprId], leaf: impl Fn(ExprId) -> bool) -> Vec<ExprId> {
    let mut parts_to_fill_device = vec![false; kernel.exprs.len()];
    targets.iter().for_each(|id| parts_to_fill_device[id.index()] = true);
    for i in (0..parts_to_fill_device.len()).rev() {
        let id = ExprId(i as u32);
        if parts_to_fill_device[i] && !leaf(id) {
            kernel.expr(id).operands(|x| parts_to_fill_device[x.index()] = true);
        }
    }
    (0..parts_to_fill_device.len()).filter(|&i| parts_to_fill_device[i]).map(|i| ExprId(i as u32)).collect()
}

/// The axes along which a value varies.
pub fn axes_of(kernel: &Kernel, value: ExprId) -> Vec<AxisId> {
    let behind = needed(kernel, &[value], |_| false);
    let positions = behind.iter().flat_map(|&id| kernel.expr(id).positions());
    positions.flat_map(|affine| affine.terms.iter().map(|term| term.0)).collect()
}

/// A part under construction.
pub struct KernelRewriter<'k> {
    from: &'k BoundKernel,
    /// The new kernel's axes, expressions and inputs.
    pub builder: KernelBuilder,
    /// Levels of the old kernel that become level 0, besides that.
    flat: u8,
    /// What each of the old axes is.
    axes: Vec<Affine>,
    /// The new axis that each of the old ones became, if it is whole.
    kept: Vec<Option<AxisId>>,
    /// What each of the old expressions is.
    known: Vec<Option<ExprId>>,
    /// Where old expressions' values are, at the points of their levels.
    stored: Vec<Option<PassBuffer>>,
    inputs: Vec<PassBuffer>,
    stores: Vec<KernelStore>,
    outputs: Vec<PassBuffer>,
}

impl<'k> KernelRewriter<'k> {
    /// Nothing yet. The levels up to `flat` become level 0, and those beyond
    /// follow it.
    pub fn new(from: &'k BoundKernel, flat: u8) -> KernelRewriter<'k> {
        KernelRewriter {
            from,
            builder: KernelBuilder::default(),
            flat,
            axes: vec![Affine::default(); from.kernel.axes.len()],
            kept: vec![None; from.kernel.axes.len()],
            known: vec![None; from.kernel.exprs.len()],
            stored: vec![None; from.kernel.exprs.len()],
            inputs: Vec::new(),
            stores: Vec::new(),
            outputs: Vec::new(),
        }
    }

    fn level(&self, level: u8) -> u8 {
        level.saturating_sub(self.flat)
    }

    /// A new axis.
    pub fn axis(&mut self, extent: usize, level: u8) -> (AxisId, Affine) {
        let id = AxisId(self.builder.axes.len() as u16);
        self.builder.axes.push(LoopAxis { extent, level });
        let position = if extent == 1 { Affine::default() } else { Affine::axis(id) };
        (id, position)
    }

    /// Takes an axis over, at this level.
    pub fn keep_at(&mut self, axis: AxisId, level: u8) -> AxisId {
        let (id, position) = self.axis(self.from.kernel.axes[axis.index()].extent, level);
        self.axes[axis.index()] = position;
        self.kept[axis.index()] = Some(id);
        id
    }

    /// Takes the axes of the old levels up to `level` over.
    pub fn keep_levels(&mut self, level: u8) {
        let from = self.from;
        for old in 0..=level {
            for axis in from.kernel.level_axes(old) {
                self.keep_at(axis, self.level(old));
            }
        }
    }

    /// Takes the rows of a piece over: parts are points, what is inside them
    /// rows. Gives the part's number and the new axes: of parts, of rows.
    pub fn keep_group(&mut self, split_point: &SplitPoint, group: &PartGroup) -> (Affine, Vec<AxisId>) {
        let mut points: Vec<AxisId> = split_point.outer.iter().map(|&axis| self.keep_at(axis, 0)).collect();
        let outer = self.linear(&split_point.outer);
        let (part, number) = self.axis(group.count, 0);
        points.push(part);
        let start = Affine::constant(group.start as i64).plus(&number.times(group.length as i64));
        self.axes[split_point.axis.index()] = start;
        (
            outer.times(split_point.each() as i64).plus(&number).plus(&Affine::constant(group.first as i64)),
            points,
        )
    }

    /// The rows of a piece, after [`KernelRewriter::keep_group`], as axes of this level.
    pub fn keep_rows(&mut self, split_point: &SplitPoint, group: &PartGroup, level: u8) -> Vec<AxisId> {
        let (row, position) = self.axis(group.length, level);
        self.axes[split_point.axis.index()] = self.axes[split_point.axis.index()].plus(&position);
        let inner = split_point.inner.iter().map(|&axis| self.keep_at(axis, level));
        std::iter::once(row).chain(inner.collect::<Vec<_>>()).collect()
    }

    /// The position in row-major order among old axes.
    pub fn linear(&self, axes: &[AxisId]) -> Affine {
        let mut index = Affine::default();
        let mut stride = 1;
        for axis in axes.iter().rev() {
            index = index.plus(&self.axes[axis.index()].times(stride));
            stride *= self.from.kernel.axes[axis.index()].extent as i64;
        }
        index
    }

    /// The position in row-major order among the points of the old levels up
    /// to one.
    pub fn point(&self, level: u8) -> Affine {
        let kernel = &self.from.kernel;
        let axes: Vec<AxisId> = (0..=level).flat_map(|level| kernel.level_axes(level)).collect();
        self.linear(&axes)
    }

    /// An old affine combination, in new axes.
    pub fn affine(&self, affine: &Affine) -> Affine {
        let constant = Affine::constant(affine.offset);
        affine.terms.iter().fold(constant, |sum, &(axis, c)| sum.plus(&self.axes[axis.index()].times(c)))
    }

    /// Says what an old expression is.
    pub fn know(&mut self, old: ExprId, new: ExprId) {
        self.known[old.index()] = Some(new);
    }

    /// An old expression, with all that lies behind it.
    pub fn copy(&mut self, id: ExprId) -> ExprId {
        let is_known = |id: ExprId| self.known[id.index()].is_some();
        let leaf = |id: ExprId| is_known(id) || self.stored[id.index()].is_some();
        let behind = needed(&self.from.kernel, &[id], leaf);
        for id in behind.into_iter().filter(|&id| !is_known(id)).collect::<Vec<_>>() {
            let new = self.expr(id);
            self.know(id, new);
        }
        self.new_of(id)
    }

    /// Says that an old expression's values are in memory, one for each point
    /// of its level, in row-major order.
    pub fn find(&mut self, old: ExprId, block: PassBuffer) {
        self.stored[old.index()] = Some(block);
    }

    fn new_of(&self, id: ExprId) -> ExprId {
        match self.known[id.index()] {
            Some(new) => new,
            None => panic!("%{} comes after its use", id.0),
        }
    }

    /// An old expression whose operands are known.
    fn expr(&mut self, id: ExprId) -> ExprId {
        let kernel = &self.from.kernel;
        let node = &kernel.exprs[id.index()];
        if let Some(block) = self.stored[id.index()] {
            let access = Access { affine: self.point(node.level), ..Access::default() };
            return self.load(block, node.dtype, kernel.points(node.level), access, Guard::default());
        }
        let mut expr = node.expr.mapped(|x| self.new_of(x), |affine| self.affine(affine));
        if let Expr::Load(slot, ..) = &mut expr {
            let old = *slot as usize;
            *slot = self.input(self.from.inputs[old], kernel.inputs[old].clone());
        }
        if let Expr::Scan(_, _, axis) = &mut expr {
            *axis = match self.kept[axis.index()] {
                // Of one position, too, of which addresses know nothing.
                Some(kept) => kept,
                None => panic!("i{} is cut, and %{} scans it", axis.0, id.0),
            };
        }
        self.builder.expr(expr, node.dtype, self.level(node.level))
    }

    fn input(&mut self, memory: PassBuffer, input: KernelInput) -> u32 {
        let known = self.inputs.iter().position(|&known| known == memory);
        let slot = known.unwrap_or_else(|| {
            self.inputs.push(memory);
            self.builder.inputs.push(input);
            self.inputs.len() - 1
        });
        slot as u32
    }

    /// An element of a shared block, as a value of type `dtype`; the block
    /// holds what such values are computed in.
    pub fn load(
        &mut self,
        block: PassBuffer,
        dtype: DType,
        numel: usize,
        access: Access,
        guard: Guard,
    ) -> ExprId {
        let slot = self.input(block, KernelInput { dtype: dtype.compute(), numel });
        self.builder.expr(Expr::loaded(slot, access, guard), dtype, 0)
    }

    /// The same where the block holds elements of that type itself.
    pub fn load_as(&mut self, dtype: DType, block: PassBuffer, numel: usize, affine: Affine) -> ExprId {
        let slot = self.input(block, KernelInput { dtype, numel });
        let access = Access { affine, ..Access::default() };
        self.builder.expr(Expr::loaded(slot, access, Guard::default()), dtype, 0)
    }

    /// A value's type.
    pub fn dtype(&self, id: ExprId) -> DType {
        self.builder.exprs[id.index()].dtype
    }

    /// A scalar operation on values of one type.
    pub fn alu(&mut self, op: AluOp, x: &[ExprId]) -> ExprId {
        let dtype = if op == AluOp::Lt || op == AluOp::Eq { DType::Bool } else { self.dtype(x[x.len() - 1]) };
        self.builder.alu(op, dtype, x)
    }

    /// A number.
    pub fn number(&mut self, value: f64, dtype: DType) -> ExprId {
        self.builder.constant(Scalar::Float(value), dtype)
    }

    /// Whether a condition on new axes holds.
    pub fn inside(&mut self, value: Affine, low: i64, high: i64) -> ExprId {
        self.builder.expr(Expr::Inside(Within { value, low, high }.into()), DType::Bool, 0)
    }

    /// Writes a value to a shared block of so many elements.
    pub fn store(&mut self, block: PassBuffer, value: ExprId, level: u8, address: Affine, numel: usize) {
        let dtype = self.dtype(value).compute();
        self.stores.push(KernelStore { dtype, value, level, address, numel });
        self.outputs.push(block);
    }

    /// The same to a block of elements of a type, at every point.
    pub fn store_as(
        &mut self,
        dtype: DType,
        block: PassBuffer,
        value: ExprId,
        address: Affine,
        numel: usize,
    ) {
        self.stores.push(KernelStore { dtype, value, level: 0, address, numel });
        self.outputs.push(block);
    }

    /// Writes what the old kernel's stores of a level write.
    pub fn copy_stores(&mut self, level: u8) {
        let from = self.from;
        for (number, store) in from.kernel.stores.iter().enumerate().filter(|(_, s)| s.level == level) {
            let value = self.copy(store.value);
            let (address, level) = (self.affine(&store.address), self.level(level));
            self.stores.push(KernelStore { value, level, address, ..store.clone() });
            self.outputs.push(from.outputs[number]);
        }
    }

    /// The part that scatters to some memory.
    pub fn scatter(self, scatter: ScatterStore, to: PassBuffer) -> BoundKernel {
        let mut part = self.finish();
        part.kernel.root = scatter.into();
        part.outputs = vec![to];
        part
    }

    /// The part.
    pub fn finish(mut self) -> BoundKernel {
        self.builder.finish_levels();
        let KernelBuilder { axes, exprs, inputs, .. } = self.builder;
        let kernel = Kernel {
            name: self.from.kernel.name.clone(),
            axes: axes.into(),
            exprs,
            inputs: inputs.into(),
            stores: self.stores.into(),
            args: self.from.kernel.args,
            root: KernelRoot::Elementwise,
        };
        BoundKernel { kernel, inputs: self.inputs, outputs: self.outputs }
    }
}
