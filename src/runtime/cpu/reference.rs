//! The meaning of a kernel, point by point in `f64` and `i64`: slow, plain,
//! and the judge of the tile programs.

mod attention;

use smallvec::SmallVec;

use crate::base::{DType, Scalar};
use crate::ir::monoid::MonoidState;
use crate::ir::{Monoid, ScatterMode};
use crate::kernel::{Access, AxisId, Contraction, Expr, ExprId, ExprNode, Kernel, ScatterStore, Within};
use crate::runtime::cpu::memory::{MemoryView, inputs_of, outputs_of};
use crate::runtime::{Bindings, IndexStatus};

/// Runs a kernel.
pub fn run(kernel: &Kernel, bindings: &Bindings<'_>) {
    run_as(kernel, bindings, false);
}

/// Runs a kernel, whose contraction may round what is computed in a 16-bit type to it
/// before it multiplies.
pub fn run_as(kernel: &Kernel, bindings: &Bindings<'_>, rounds_factors: bool) {
    let run = ReferenceRun {
        kernel,
        rounds_factors,
        inputs: inputs_of(bindings),
        outputs: outputs_of(bindings),
        scalars: bindings.scalars,
        status: bindings.status,
    };
    for index in 0..kernel.level_points(0) {
        run.grid_point(index);
    }
}

impl MemoryView {
    /// The element at a position.
    ///
    /// # Panics
    /// Panics if it does not lie in the buffer: the kernel is wrong.
    fn read(&self, element: i64, dtype: DType) -> Scalar {
        let mut raw = [0u8; 8];
        let from = self.element(element, dtype);
        // SAFETY: `element` checked that the bytes lie in the buffer.
        unsafe { std::ptr::copy_nonoverlapping(from, raw.as_mut_ptr(), dtype.size()) };
        Scalar::from_bits(u64::from_le_bytes(raw), dtype)
    }

    /// Overwrites the element at a position.
    ///
    /// # Panics
    /// As [`MemoryView::read`].
    fn write(&self, element: i64, dtype: DType, value: Scalar) {
        let raw = value.to_bits(dtype).to_le_bytes();
        let to = self.element(element, dtype);
        // SAFETY: `element` checked that the bytes lie in the buffer, and only
        // the launch that owns its outputs writes.
        unsafe { std::ptr::copy_nonoverlapping(raw.as_ptr(), to, dtype.size()) };
    }

    fn element(&self, element: i64, dtype: DType) -> *mut u8 {
        let end = (element + 1) as usize * dtype.size();
        assert!(element >= 0 && end <= self.bytes, "element {element} of {} bytes", self.bytes);
        self.start.wrapping_add(end - dtype.size())
    }
}

struct ReferenceRun<'a> {
    kernel: &'a Kernel,
    rounds_factors: bool,
    inputs: SmallVec<[MemoryView; 8]>,
    outputs: SmallVec<[MemoryView; 4]>,
    scalars: &'a [u64],
    status: &'a IndexStatus,
}

/// The values of an expression at all points of the levels 1 to its own.
type PointValues = Vec<Scalar>;

impl ReferenceRun<'_> {
    fn grid_point(&self, index: usize) {
        let kernel = self.kernel;
        let mut values: Vec<Option<PointValues>> = vec![None; kernel.exprs.len()];
        if let Some(contraction) = kernel.contraction() {
            self.evaluate(contraction.a, index, &mut values, None);
            self.evaluate(contraction.b, index, &mut values, None);
            let sum = self.contract(contraction, &values);
            for store in &kernel.stores {
                self.evaluate(store.value, index, &mut values, Some(sum));
            }
        }
        if let Some(attention) = kernel.attention() {
            attention.operands().for_each(|operand| self.evaluate(operand, index, &mut values, None));
            let result = self.attention(attention, index, &values);
            for store in &kernel.stores {
                self.evaluate(store.value, index, &mut values, Some(result));
            }
        }
        for store in &kernel.stores {
            self.evaluate(store.value, index, &mut values, None);
        }
        if let Some(scatter) = kernel.scatter() {
            self.evaluate(scatter.index, index, &mut values, None);
            self.evaluate(scatter.value, index, &mut values, None);
            self.scatter(scatter, index, &values);
        }
        for (slot, store) in kernel.stores.iter().enumerate() {
            let count = self.inner_points(store.level);
            for inner in 0..count {
                let point = self.point(index, inner, store.level);
                let value = self.at(&values, store.value, inner, store.level);
                self.outputs[slot].write(store.address.at(&point), store.dtype, value);
            }
        }
    }

    /// Fills in an expression's values and those of all it needs.
    fn evaluate(&self, id: ExprId, grid: usize, values: &mut [Option<PointValues>], acc: Option<Scalar>) {
        // Operands have lower numbers, so one pass in order suffices.
        let mut needed = vec![false; id.index() + 1];
        needed[id.index()] = true;
        for i in (0..=id.index()).rev() {
            if needed[i] && values[i].is_none() {
                self.kernel.exprs[i].expr.operands(|o| needed[o.index()] = true);
            }
        }
        for i in 0..=id.index() {
            if needed[i] && values[i].is_none() {
                values[i] = Some(self.values_of(ExprId(i as u32), grid, values, acc));
            }
        }
    }

    fn values_of(
        &self,
        id: ExprId,
        grid: usize,
        values: &[Option<PointValues>],
        acc: Option<Scalar>,
    ) -> PointValues {
        let node = &self.kernel.exprs[id.index()];
        if let Expr::Scan(monoid, x, axis) = &node.expr {
            return self.scan(*monoid, node, *x, *axis, values);
        }
        let count = self.inner_points(node.level);
        (0..count).map(|inner| self.value(node, grid, inner, values, acc)).collect()
    }

    fn value(
        &self,
        node: &ExprNode,
        grid: usize,
        inner: usize,
        values: &[Option<PointValues>],
        acc: Option<Scalar>,
    ) -> Scalar {
        let operand = |x: ExprId| self.at(values, x, inner, node.level);
        let point = self.point(grid, inner, node.level);
        match &node.expr {
            Expr::Const(bits) => Scalar::from_bits(*bits, node.dtype),
            Expr::Arg(slot) => Scalar::from_bits(self.scalars[*slot as usize], node.dtype),
            Expr::Index(affine) => Scalar::Int(affine.at(&point)),
            Expr::Inside(within) => Scalar::Bool(inside(within, &point)),
            Expr::Load(slot, access) => self.load(*slot, node.dtype, access, &point, &operand),
            Expr::Alu(op, x) => {
                let operands: SmallVec<[Scalar; 3]> = x[..op.arity()].iter().map(|&x| operand(x)).collect();
                // The condition of `Where` has a type of its own; comparisons
                // are made in their operands' type.
                let typed = self.kernel.exprs[x[op.arity() - 1].index()].dtype;
                op.eval(typed.compute(), &operands)
            }
            Expr::Cast(x) => operand(*x).cast(node.dtype),
            Expr::Bitcast(x) => {
                let from = self.kernel.exprs[x.index()].dtype;
                Scalar::from_bits(operand(*x).to_bits(from), node.dtype)
            }
            Expr::Reduce(monoid, x) => self.reduce(*monoid, node, *x, inner, values),
            Expr::Scan(..) => panic!("scans are evaluated whole"),
            Expr::Checked(x, bounded) => {
                let index = operand(bounded.index).as_i64();
                if !(0..bounded.extent as i64).contains(&index) {
                    self.status.record(index, bounded.extent);
                }
                operand(*x)
            }
            Expr::Accumulator => acc.expect("accumulators occur above contractions"),
        }
    }

    fn load(
        &self,
        slot: u32,
        dtype: DType,
        access: &Access,
        point: &[usize],
        operand: &dyn Fn(ExprId) -> Scalar,
    ) -> Scalar {
        let guard = &access.guard;
        let open = guard.within.iter().all(|w| inside(w, point))
            && guard.masks.iter().all(|&mask| operand(mask).as_bool());
        if !open {
            return Scalar::Int(0).cast(dtype);
        }
        let mut address = access.affine.at(point);
        for dynamic in &access.dynamic {
            let index = operand(dynamic.index).as_i64();
            if dynamic.checked && !(0..dynamic.extent as i64).contains(&index) {
                self.status.record(index, dynamic.extent);
            }
            let index = if dynamic.checked { index.clamp(0, dynamic.extent as i64 - 1) } else { index };
            address += index * dynamic.stride;
        }
        self.inputs[slot as usize].read(address, self.kernel.inputs[slot as usize].dtype)
    }

    fn reduce(
        &self,
        monoid: Monoid,
        node: &ExprNode,
        x: ExprId,
        inner: usize,
        values: &[Option<PointValues>],
    ) -> Scalar {
        let level = node.level + 1;
        let rows = self.kernel.level_points(level);
        let from = self.kernel.exprs[x.index()].dtype;
        let mut state = monoid.identity(from);
        for row in 0..rows {
            let value = self.at(values, x, inner * rows + row, level);
            state = monoid.combine(state, lift(monoid, from, value, row));
        }
        finish(monoid, from, node.dtype, state)
    }

    fn scan(
        &self,
        monoid: Monoid,
        node: &ExprNode,
        x: ExprId,
        axis: AxisId,
        values: &[Option<PointValues>],
    ) -> PointValues {
        let length = self.kernel.axes[axis.index()].extent;
        let count = self.inner_points(node.level);
        let mut result = Vec::with_capacity(count);
        let mut state = monoid.identity(node.dtype);
        for inner in 0..count {
            if inner % length == 0 {
                state = monoid.identity(node.dtype);
            }
            let value = self.at(values, x, inner, node.level);
            state = monoid.combine(state, lift(monoid, node.dtype, value, inner % length));
            result.push(finish(monoid, node.dtype, node.dtype, state));
        }
        result
    }

    fn contract(&self, contraction: &Contraction, values: &[Option<PointValues>]) -> Scalar {
        let dtype = contraction.dtype;
        let products = (0..self.kernel.level_points(1)).map(|inner| {
            let factor = |id: ExprId| {
                let value = self.at(values, id, inner, 1);
                let dtype = self.kernel.exprs[id.index()].dtype;
                if self.rounds_factors { value.cast(dtype) } else { value }
            };
            (factor(contraction.a), factor(contraction.b))
        });
        if dtype.is_float() {
            Scalar::Float(products.map(|(a, b)| a.as_f64() * b.as_f64()).sum()).cast(dtype)
        } else {
            let add =
                |sum: i64, (a, b): (Scalar, Scalar)| sum.wrapping_add(a.as_i64().wrapping_mul(b.as_i64()));
            Scalar::Int(products.fold(0, add)).cast(dtype)
        }
    }

    fn scatter(&self, scatter: &ScatterStore, grid: usize, values: &[Option<PointValues>]) {
        let index = self.at(values, scatter.index, 0, 0).as_i64();
        if !(0..scatter.extent as i64).contains(&index) {
            return self.status.record(index, scatter.extent);
        }
        let address = scatter.address.at(&self.point(grid, 0, 0)) + index * scatter.stride;
        let value = self.at(values, scatter.value, 0, 0);
        let old = self.outputs[0].read(address, scatter.dtype);
        self.outputs[0].write(address, scatter.dtype, merge(scatter.mode, scatter.dtype, old, value));
    }

    /// Points of the levels 1 to `level`.
    fn inner_points(&self, level: u8) -> usize {
        (1..=level).map(|l| self.kernel.level_points(l)).product()
    }

    /// The value of an expression at an inner point counted at `level`.
    fn at(&self, values: &[Option<PointValues>], id: ExprId, inner: usize, level: u8) -> Scalar {
        let own = self.kernel.exprs[id.index()].level;
        let deeper: usize = (own + 1..=level).map(|l| self.kernel.level_points(l)).product();
        values[id.index()].as_ref().expect("operands come first")[inner / deeper.max(1)]
    }

    /// Positions of all axes up to `level`; deeper ones are 0.
    fn point(&self, grid: usize, inner: usize, level: u8) -> Vec<usize> {
        let mut point = vec![0; self.kernel.axes.len()];
        let (mut inner, mut grid) = (inner, grid);
        for l in (0..=level).rev() {
            let rest = if l == 0 { &mut grid } else { &mut inner };
            let axes: Vec<AxisId> = self.kernel.level_axes(l).collect();
            for axis in axes.into_iter().rev() {
                let extent = self.kernel.axes[axis.index()].extent;
                point[axis.index()] = *rest % extent;
                *rest /= extent;
            }
        }
        point
    }
}

fn inside(within: &Within, point: &[usize]) -> bool {
    (within.low..within.high).contains(&within.value.at(point))
}

fn lift(monoid: Monoid, dtype: DType, value: Scalar, index: usize) -> MonoidState {
    if dtype.is_float() {
        monoid.lift_float(value.as_f64(), index)
    } else {
        monoid.lift_int(value.as_i64(), index)
    }
}

fn finish(monoid: Monoid, from: DType, to: DType, state: MonoidState) -> Scalar {
    let value = if from.is_float() {
        Scalar::Float(monoid.finish_float(state))
    } else {
        Scalar::Int(monoid.finish_int(state))
    };
    value.cast(to.compute())
}

/// What a scatter leaves where `old` was.
fn merge(mode: ScatterMode, dtype: DType, old: Scalar, value: Scalar) -> Scalar {
    mode.op().map_or(value, |op| op.eval(dtype.compute(), &[old, value]))
}
