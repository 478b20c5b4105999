//! Contractions: the matrix product with what is fused around it.
//!
//! An operand that is plain memory with one stride per matrix axis goes to
//! the product as it is. Any other (a window view, padding, a cast, a scaled
//! operand) is first written out by a tile program over its own axes. The sum
//! goes straight to the result when nothing follows it; else to memory that a
//! tile program then reads as the accumulator.

use std::sync::Arc;

use crate::base::{DType, Result};
use crate::ir::NodeId;
use crate::kernel::{
    Access, Affine, AxisId, Contraction, Expr, ExprId, ExprNode, Guard, Input, Kernel, Store,
};
use crate::runtime::cpu::gemm::{self, Operand, Output, Problem};
use crate::runtime::cpu::memory::Memory;
use crate::runtime::cpu::{threads, tile};
use crate::runtime::{Binding, Bindings, Program, host};

/// A compiled contraction.
#[derive(Debug)]
pub struct ContractProgram {
    dtype: DType,
    sizes: Sizes,
    a: Source,
    b: Source,
    target: Target,
}

/// Extents of the product.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

/// Where a matrix lies: a stride per matrix axis, and strides of the batch axes.
#[derive(Clone, Debug)]
struct Matrix {
    offset: i64,
    rows: i64,
    columns: i64,
    /// Extent and stride of each batch axis, outermost first.
    batch: Vec<(usize, i64)>,
}

/// Where an operand comes from.
#[derive(Debug)]
enum Source {
    /// An input as it lies in memory.
    Input(usize, Matrix),
    /// Written out by a program first; this many elements.
    Written(Box<tile::Program>, Matrix, usize),
}

/// Where the sum goes.
#[derive(Debug)]
enum Target {
    /// The only output.
    Output(Matrix),
    /// Memory of this many elements that a program then reads as its last input.
    Then(Box<tile::Program>, Matrix, usize),
}

/// Compiles a kernel with a contraction.
pub fn compile(kernel: &Kernel, contraction: &Contraction) -> ContractProgram {
    let size = |axes: &[AxisId]| axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
    let Contraction { batch, m, n, k, .. } = contraction;
    let sizes = Sizes { batch: size(batch), m: size(m), n: size(n), k: size(k) };
    ContractProgram {
        dtype: contraction.dtype,
        sizes,
        a: source(kernel, contraction, contraction.a, m),
        b: source(kernel, contraction, contraction.b, n),
        target: target(kernel, contraction),
    }
}

/// The matrix that an affine address describes, if each group of axes has one
/// stride.
fn matrix(
    kernel: &Kernel,
    address: &Affine,
    batch: &[AxisId],
    rows: &[AxisId],
    columns: &[AxisId],
) -> Option<Matrix> {
    let extent = |axis: &AxisId| kernel.axes[axis.index()].extent;
    let single = |axes: &[AxisId]| -> Option<i64> {
        let mut stride: Option<(i64, i64)> = None;
        for axis in axes.iter().rev() {
            let own = address.coefficient(*axis);
            match stride {
                None => stride = Some((own, own * extent(axis) as i64)),
                Some((first, next)) if own == next => stride = Some((first, next * extent(axis) as i64)),
                Some(_) => return None,
            }
        }
        Some(stride.map_or(0, |(first, _)| first))
    };
    Some(Matrix {
        offset: address.offset,
        rows: single(rows)?,
        columns: single(columns)?,
        batch: batch.iter().map(|axis| (extent(axis), address.coefficient(*axis))).collect(),
    })
}

/// The row-major address over groups of axes.
fn dense(kernel: &Kernel, axes: &[AxisId]) -> Affine {
    let mut stride = 1;
    let mut address = Affine::default();
    for &axis in axes.iter().rev() {
        address = address.plus(&Affine::axis(axis).times(stride));
        stride *= kernel.axes[axis.index()].extent as i64;
    }
    address
}

fn source(kernel: &Kernel, contraction: &Contraction, value: ExprId, rows: &[AxisId]) -> Source {
    let node = &kernel.exprs[value.index()];
    if let Expr::Load(slot, access, guard) = &node.expr {
        let plain = guard.is_always() && access.dynamic.is_empty();
        let same_type = kernel.inputs[*slot as usize].dtype == contraction.dtype;
        let found = matrix(kernel, &access.affine, &contraction.batch, rows, &contraction.k);
        if let (true, true, Some(matrix)) = (plain, same_type, found) {
            return Source::Input(*slot as usize, matrix);
        }
    }
    let axes: Vec<AxisId> = [&contraction.batch[..], rows, &contraction.k].concat();
    let address = dense(kernel, &axes);
    let numel = axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
    let Some(matrix) = matrix(kernel, &address, &contraction.batch, rows, &contraction.k) else {
        panic!("row-major axes have one stride each");
    };
    let store = Store { node: NodeId(u32::MAX), dtype: contraction.dtype, value, level: 0, address, numel };
    let part = part(kernel, &axes, vec![store], None);
    Source::Written(Box::new(tile::compile(&part)), matrix, numel)
}

fn target(kernel: &Kernel, contraction: &Contraction) -> Target {
    let Contraction { batch, m, n, .. } = contraction;
    if let [store] = &kernel.stores[..] {
        let plain = *kernel.expr(store.value) == Expr::Accumulator && store.dtype == contraction.dtype;
        if let (true, Some(matrix)) = (plain, matrix(kernel, &store.address, batch, m, n)) {
            return Target::Output(matrix);
        }
    }
    let axes: Vec<AxisId> = [&batch[..], m, n].concat();
    let address = dense(kernel, &axes);
    let numel = axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
    let Some(matrix) = matrix(kernel, &address, batch, m, n) else {
        panic!("row-major axes have one stride each");
    };
    let sum = (address, contraction.dtype, numel);
    let part = part(kernel, &axes, kernel.stores.clone(), Some(sum));
    Target::Then(Box::new(tile::compile(&part)), matrix, numel)
}

/// The elementwise kernel of some stores over some axes. The accumulator, if
/// any, is read from one more input at the given address.
fn part(
    kernel: &Kernel,
    axes: &[AxisId],
    mut stores: Vec<Store>,
    accumulator: Option<(Affine, DType, usize)>,
) -> Kernel {
    let renamed = Renamed::of(kernel, axes);
    let mut inputs = kernel.inputs.clone();
    let mut exprs: Vec<ExprNode> = Vec::new();
    let mut map: Vec<Option<ExprId>> = vec![None; kernel.exprs.len()];
    let needed = needed(kernel, stores.iter().map(|store| store.value));
    for (i, node) in kernel.exprs.iter().enumerate().filter(|(i, _)| needed[*i]) {
        let mut node = ExprNode { expr: renamed.expr(&node.expr, &map), level: 0, ..node.clone() };
        if let (Expr::Accumulator, Some((address, dtype, _))) = (&node.expr, &accumulator) {
            let access = Access { affine: renamed.affine(address), ..Access::default() };
            node.expr = Expr::Load(inputs.len() as u32, access, Guard::default());
            node.dtype = *dtype;
        }
        map[i] = Some(ExprId(exprs.len() as u32));
        exprs.push(node);
    }
    for store in &mut stores {
        store.address = renamed.affine(&store.address);
        store.value = map[store.value.index()].unwrap_or_else(|| panic!("a stored value is needed"));
        store.level = 0;
    }
    if let Some((_, dtype, numel)) = accumulator {
        inputs.push(Input { node: NodeId(u32::MAX), dtype, numel });
    }
    let level_zero = |axis: &AxisId| crate::kernel::Axis { level: 0, ..kernel.axes[axis.index()].clone() };
    Kernel {
        name: kernel.name.clone(),
        axes: renamed.order.iter().map(level_zero).collect(),
        exprs,
        inputs,
        stores,
        args: kernel.args.clone(),
        contraction: None,
        scatter: None,
    }
}

/// Which expressions some values need.
fn needed(kernel: &Kernel, values: impl Iterator<Item = ExprId>) -> Vec<bool> {
    let mut needed = vec![false; kernel.exprs.len()];
    values.for_each(|value| needed[value.index()] = true);
    for i in (0..kernel.exprs.len()).rev() {
        if needed[i] {
            kernel.exprs[i].expr.operands(|operand| needed[operand.index()] = true);
        }
    }
    needed
}

/// A choice of a kernel's axes under new numbers, in their old order.
struct Renamed {
    order: Vec<AxisId>,
    numbers: Vec<Option<AxisId>>,
}

impl Renamed {
    fn of(kernel: &Kernel, axes: &[AxisId]) -> Renamed {
        // Stores are fastest row-major over axes in the order given.
        let mut numbers = vec![None; kernel.axes.len()];
        for (new, axis) in axes.iter().enumerate() {
            numbers[axis.index()] = Some(AxisId(new as u16));
        }
        Renamed { order: axes.to_vec(), numbers }
    }

    fn affine(&self, affine: &Affine) -> Affine {
        let mut renamed = Affine::constant(affine.offset);
        for &(axis, c) in &affine.terms {
            let Some(new) = self.numbers[axis.index()] else { panic!("{affine} leaves its axes") };
            renamed = renamed.plus(&Affine::axis(new).times(c));
        }
        renamed
    }

    fn expr(&self, expr: &Expr, map: &[Option<ExprId>]) -> Expr {
        let at = |id: ExprId| map[id.index()].unwrap_or_else(|| panic!("operands come first"));
        let within =
            |w: &crate::kernel::Within| crate::kernel::Within { value: self.affine(&w.value), ..w.clone() };
        match expr {
            Expr::Const(_) | Expr::Arg(_) | Expr::Accumulator => expr.clone(),
            Expr::Index(affine) => Expr::Index(self.affine(affine)),
            Expr::Inside(inside) => Expr::Inside(within(inside)),
            Expr::Load(slot, access, guard) => {
                let mut access = access.clone();
                access.affine = self.affine(&access.affine);
                access.dynamic.iter_mut().for_each(|part| part.index = at(part.index));
                let guard = Guard {
                    within: guard.within.iter().map(within).collect(),
                    masks: guard.masks.iter().map(|&mask| at(mask)).collect(),
                };
                Expr::Load(*slot, access, guard)
            }
            Expr::Alu(op, x) => {
                // Unused operands repeat the first.
                let operand = |i: usize| at(x[if i < op.arity() { i } else { 0 }]);
                Expr::Alu(*op, [operand(0), operand(1), operand(2)])
            }
            Expr::Cast(x) => Expr::Cast(at(*x)),
            Expr::Bitcast(x) => Expr::Bitcast(at(*x)),
            Expr::Reduce(monoid, x) => Expr::Reduce(*monoid, at(*x)),
            Expr::Scan(monoid, x, axis) => Expr::Scan(*monoid, at(*x), *axis),
        }
    }
}

impl Program for ContractProgram {
    fn source(&self) -> String {
        format!("{self:#?}")
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        match self.dtype {
            DType::F32 | DType::F16 | DType::BF16 => self.run::<f32>(bindings),
            DType::F64 => self.run::<f64>(bindings),
            DType::I32 => self.run::<i32>(bindings),
            DType::U32 => self.run::<u32>(bindings),
            DType::I64 => self.run::<i64>(bindings),
            DType::U8 | DType::Bool => self.run::<u8>(bindings),
        }
    }
}

impl ContractProgram {
    fn run<T: gemm::Element>(&self, bindings: &Bindings<'_>) -> Result<()> {
        let a = self.a.ready(bindings, size_of::<T>())?;
        let b = self.b.ready(bindings, size_of::<T>())?;
        match &self.target {
            Target::Output(matrix) => {
                self.product::<T>(&a, &b, Memory::of(&bindings.outputs[0]), matrix);
                Ok(())
            }
            Target::Then(program, matrix, numel) => {
                let sum = host::allocate(numel * size_of::<T>())?;
                let binding = Binding { buffer: &sum, offset: 0 };
                self.product::<T>(&a, &b, Memory::of(&binding), matrix);
                let inputs: Vec<Binding<'_>> = bindings.inputs.iter().copied().chain([binding]).collect();
                tile::launch(program, &Bindings { inputs: &inputs, ..*bindings });
                Ok(())
            }
        }
    }

    fn product<T: gemm::Element>(&self, a: &Ready<'_>, b: &Ready<'_>, to: Memory, matrix: &Matrix) {
        let Sizes { batch, m, n, k } = self.sizes;
        let (of_a, of_b) = (|i| a.matrix.batch_offset(i), |i| b.matrix.batch_offset(i));
        let of_c = |i| matrix.batch_offset(i);
        let operand = |ready: &Ready<'_>, offset| Operand::Strided {
            ptr: ready.memory.start.cast::<T>().wrapping_offset(ready.matrix.offset as isize).cast_const(),
            row_stride: ready.matrix.rows as isize,
            depth_stride: ready.matrix.columns as isize,
            batch: offset,
        };
        let problem = Problem {
            batch,
            m,
            n,
            k,
            a: operand(a, &of_a),
            b: operand(b, &of_b),
            out: Output::Strided {
                ptr: to.start.cast::<T>().wrapping_offset(matrix.offset as isize),
                row_stride: matrix.rows as isize,
                col_stride: matrix.columns as isize,
                batch: &of_c,
            },
        };
        // SAFETY: lowering keeps addresses inside the buffers bound, outputs
        // overlap no operand of the product, and a store is a bijection.
        threads::install(|| unsafe { gemm::run(&problem) });
    }
}

impl Matrix {
    fn batch_offset(&self, mut batch: usize) -> isize {
        let mut offset = 0;
        for &(extent, stride) in self.batch.iter().rev() {
            offset += (batch % extent) as i64 * stride;
            batch /= extent;
        }
        offset as isize
    }
}

/// An operand in memory.
struct Ready<'a> {
    memory: Memory,
    matrix: &'a Matrix,
    /// Keeps what was written out alive.
    _written: Option<Arc<crate::ir::Buffer>>,
}

impl Source {
    fn ready(&self, bindings: &Bindings<'_>, size: usize) -> Result<Ready<'_>> {
        match self {
            Source::Input(slot, matrix) => {
                Ok(Ready { memory: Memory::of(&bindings.inputs[*slot]), matrix, _written: None })
            }
            Source::Written(program, matrix, numel) => {
                let buffer = Arc::new(host::allocate(numel * size)?);
                let binding = Binding { buffer: &buffer, offset: 0 };
                let memory = Memory::of(&binding);
                tile::launch(program, &Bindings { outputs: &[binding], ..*bindings });
                Ok(Ready { memory, matrix, _written: Some(buffer) })
            }
        }
    }
}
