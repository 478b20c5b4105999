//! Kernels with a contraction: matrix products whose operands are read where
//! they lie if strides describe them, else written block by block by a tile
//! program (casts, masks, the patches of a convolution), and whose result
//! goes where it belongs if that is all there is to do, else through a tile
//! program, block by block, while it is in cache.

mod bf16_operand;
pub mod differences;
pub mod joint;
mod operand;
mod problem;
mod quantized_rows;
mod result;
mod terms;

use std::fmt::Write;
use std::ops::Range;

use bf16_operand::{Bf16Operand, uses_bf16_pairs};
use kiln_simd::micro::QUANTIZED_BLOCK;
pub(super) use operand::OperandSource;
use problem::{ProblemUser, RunProblem};
use quantized_rows::QuantizedRows;
pub(super) use result::{ResultSink, ResultTarget};
use terms::SummedTerms;

use crate::base::{CowArc, DType, Precision};
use crate::kernel::contraction::as_reduction;
use crate::kernel::{Affine, AxisId, Contraction, Expr, ExprId, Kernel};
use crate::runtime::Bindings;
use crate::runtime::cpu::gemm::{
    self, AbsoluteDifference, Bf16x2, GemmElement, GemmOperand, GemmOutput, GemmProblem, IntegerLoops,
    IntegerProblem, PackOrder, PackRequest, SquaredDifference,
};
use crate::runtime::cpu::memory::MemoryView;
use crate::runtime::cpu::thresholds::{
    COPY_COST_CONTIGUOUS, COPY_COST_FAR, COPY_COST_NEAR, COPY_COST_RUN, SHALLOW_K,
};
use crate::runtime::cpu::tile::product::{BlockProgram, StridedBlock};
use crate::runtime::cpu::tile::space::{AxisGroup, regroup, unrounded_value};
use crate::runtime::cpu::tile::window::Window;

/// A compiled contraction.
#[derive(Debug)]
pub struct ContractionProgram {
    name: String,
    dtype: DType,
    terms: SummedTerms,
    precision: Precision,
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: OperandSource,
    b: OperandSource,
    out: ResultTarget,
}

/// What writes blocks of an operand.
#[derive(Debug)]
pub(super) enum BlockWriter {
    /// Copies of runs.
    Window(Window),
    /// Packed codes and their scales, dequantized.
    Quantized(QuantizedRows),
    /// A tile program.
    Program(BlockProgram),
}

/// How a matrix lies in a buffer, per batch, in elements.
#[derive(Debug)]
pub(super) struct Strides {
    offset: i64,
    /// Extent and step of each batch axis, outermost first.
    batch: Vec<(usize, i64)>,
    /// From a row to the next.
    row: i64,
    /// From a column, or depth, to the next.
    col: i64,
}

impl Strides {
    /// The first element of a batch.
    pub(super) fn batch(&self, batch: usize) -> isize {
        let (mut rest, mut at) = (batch, 0);
        for &(extent, step) in self.batch.iter().rev() {
            at += (rest % extent) as i64 * step;
            rest /= extent;
        }
        at as isize
    }
}

/// A contraction as a reduction where its operands are vectors, so that blocks
/// of them would be written to be read once: a convolution of each channel by
/// itself, say.
pub fn sums(kernel: &Kernel) -> Option<Kernel> {
    let product = kernel.contraction()?;
    let points = |axes: &[AxisId]| kernel.points_of(axes);
    let vectors = points(&product.m).min(points(&product.n)) == 1;
    // No axis, no rows to sum over.
    let depth = points(&product.k);
    (vectors && !product.k.is_empty() && (2..=SHALLOW_K).contains(&depth))
        .then(|| as_reduction(kernel))
        .flatten()
}

/// The program of a kernel with a contraction.
pub fn compile(kernel: &Kernel, contraction: &Contraction) -> ContractionProgram {
    let terms = if uses_bf16_pairs(kernel, contraction) {
        SummedTerms::PairsOfProducts
    } else {
        SummedTerms::Products
    };
    compile_terms(kernel, contraction, terms)
}

/// The program of a kernel with a contraction that sums these.
pub fn compile_terms(kernel: &Kernel, contraction: &Contraction, terms: SummedTerms) -> ContractionProgram {
    let points = |axes: &[AxisId]| kernel.points_of(axes);
    let (mut a, mut b) = (contraction.a, contraction.b);
    let (mut rows, mut cols) = (&contraction.m, &contraction.n);
    // Blocks of the result are row-major: let rows be what the main store is
    // contiguous along.
    let contiguous = |axes: &[AxisId]| {
        axes.iter().rfind(|axis| kernel.axes[axis.index()].extent != 1).is_some_and(|&axis| {
            kernel.stores.first().is_some_and(|store| store.address.coefficient(axis) == 1)
        })
    };
    if contiguous(rows) && !contiguous(cols) {
        (a, b, rows, cols) = (b, a, cols, rows);
    }
    let Contraction { batch, k, .. } = contraction;
    let dtype = if terms == SummedTerms::PairsOfProducts { DType::BF16 } else { contraction.dtype };
    ContractionProgram {
        name: kernel.name.to_string(),
        dtype: contraction.dtype,
        terms,
        precision: contraction.precision,
        batch: points(&contraction.batch),
        m: points(rows),
        n: points(cols),
        k: points(&contraction.k),
        a: side(kernel, [batch, rows, k], dtype, a),
        b: side(kernel, [batch, cols, k], dtype, b),
        out: target(kernel, contraction.dtype, [&contraction.batch, rows, cols]),
    }
}

fn group(axes: &[AxisId]) -> AxisGroup {
    AxisGroup { axes: axes.to_vec(), level: 0 }
}

/// The axes of a kernel over three groups, group by group.
fn parts(kernel: &Kernel, counts: [usize; 3]) -> [Vec<AxisId>; 3] {
    let mut next = 0;
    let mut take = |count: usize| -> Vec<AxisId> {
        next += count;
        (next - count..next).map(|axis| AxisId(axis as u16)).collect()
    };
    debug_assert_eq!(counts.iter().sum::<usize>(), kernel.axes.len());
    counts.map(&mut take)
}

/// A kernel over batch, lines and columns, all of level 0, with its axes.
fn flat(
    kernel: &Kernel,
    groups: [&[AxisId]; 3],
    roots: &[ExprId],
) -> (Kernel, [Vec<AxisId>; 3], Vec<ExprId>) {
    // Levels tell the groups apart while axes merge.
    let numbered: Vec<AxisGroup> =
        groups.iter().zip(0..).map(|(axes, level)| AxisGroup { level, ..group(axes) }).collect();
    let (mut flat, roots) = regroup(kernel, &numbered, roots);
    let counts = [0, 1, 2].map(|level| flat.level_axes(level).count());
    let axes = parts(&flat, counts);
    flat.axes.iter_mut().for_each(|axis| axis.level = 0);
    flat.exprs.iter_mut().for_each(|node| node.level = 0);
    flat.stores.iter_mut().for_each(|store| store.level = 0);
    (flat, axes, roots)
}

/// Where an operand comes from: matrices whose batch, rows and depth are these axes, in place
/// if memory holds this type.
pub(super) fn side(
    kernel: &Kernel,
    [batch, rows, depth]: [&[AxisId]; 3],
    dtype: DType,
    value: ExprId,
) -> OperandSource {
    let bare = Kernel { stores: CowArc::default(), ..kernel.clone() };
    let (depth_last, axes, roots) = flat(&bare, [batch, rows, depth], &[value]);
    if let Expr::Load(input, access) = depth_last.expr(roots[0]) {
        let plain = access.guard.is_always() && access.dynamic.is_empty();
        let same = depth_last.inputs[*input as usize].dtype == dtype;
        if let Some(strides) = strides(&depth_last, &access.affine, &axes).filter(|_| plain && same) {
            return OperandSource::Strided { input: *input, strides };
        }
    }
    // Blocks are written along whichever index memory is contiguous.
    if depth_is_contiguous(&depth_last, &axes) {
        return OperandSource::Packed {
            writer: BlockWriter::new(&depth_last, axes, roots[0]),
            order: PackOrder::KContiguous,
        };
    }
    let (rows_last, axes, roots) = flat(&bare, [batch, depth, rows], &[value]);
    OperandSource::Packed {
        writer: BlockWriter::new(&rows_last, axes, roots[0]),
        order: PackOrder::RowContiguous,
    }
}

/// What writes blocks of a value: batch, lines and elements of a line are so many axes each.
pub(super) fn writer(kernel: &Kernel, groups: [&[AxisId]; 3], value: ExprId) -> BlockWriter {
    let bare = Kernel { stores: CowArc::default(), ..kernel.clone() };
    let (flat, axes, roots) = flat(&bare, groups, &[value]);
    BlockWriter::new(&flat, axes, roots[0])
}

/// A function that writes blocks: of batch, lines, elements of a line, and the block.
pub(super) type WriteBlockFn<'a> = dyn Fn(usize, Range<usize>, Range<usize>, StridedBlock) + Sync + 'a;

impl BlockWriter {
    fn new(kernel: &Kernel, axes: [Vec<AxisId>; 3], value: ExprId) -> BlockWriter {
        if let Some(window) = Window::of(kernel, &axes, value) {
            return BlockWriter::Window(window);
        }
        match QuantizedRows::of(kernel, &axes, value) {
            Some(rows) => BlockWriter::Quantized(rows),
            None => BlockWriter::Program(BlockProgram::new(kernel, axes, Some(value))),
        }
    }

    pub(super) fn source(&self) -> String {
        match self {
            BlockWriter::Window(window) => window.to_string(),
            BlockWriter::Quantized(rows) => rows.to_string(),
            BlockWriter::Program(program) => program.source(),
        }
    }

    /// The function, on some memory.
    pub(super) fn on<'a>(&'a self, bindings: &Bindings<'a>) -> Box<WriteBlockFn<'a>> {
        match self {
            BlockWriter::Window(window) => {
                let memory = MemoryView::of(&bindings.inputs[window.input() as usize]);
                Box::new(move |batch, lines, along, to| {
                    // SAFETY: the kernel's accesses lie inside its buffers, and
                    // the product hands out blocks that are its own.
                    unsafe { window.write(memory, batch, lines, along, to) }
                })
            }
            BlockWriter::Quantized(rows) => {
                let memory = rows.on(bindings);
                // SAFETY: as above.
                Box::new(move |batch, lines, along, to| unsafe { memory.write(batch, lines, along, to) })
            }
            BlockWriter::Program(program) => {
                let launch = program.launch(bindings);
                Box::new(move |batch, lines, along, to| launch.run(batch, lines, along, to))
            }
        }
    }
}

/// How a value at this address lies, if one stride each describes rows and
/// columns.
fn strides(kernel: &Kernel, affine: &Affine, [batch, rows, cols]: &[Vec<AxisId>; 3]) -> Option<Strides> {
    if rows.len() > 1 || cols.len() > 1 {
        return None;
    }
    let step = |axes: &[AxisId]| axes.first().map_or(0, |&axis| affine.coefficient(axis));
    let along = |axis: &AxisId| (kernel.axes[axis.index()].extent, affine.coefficient(*axis));
    let batch = batch.iter().map(along).collect();
    Some(Strides { offset: affine.offset, batch, row: step(rows), col: step(cols) })
}

/// What it costs, about, to copy an element of runs of so many that are so far apart: a run
/// costs as much as some sixteen elements that lie one after another.
fn copying(extent: usize, step: i64) -> f64 {
    let element = match step.abs() {
        0 | 1 => COPY_COST_CONTIGUOUS,
        2..=4 => COPY_COST_NEAR,
        _ => COPY_COST_FAR,
    };
    element + COPY_COST_RUN / extent.max(1) as f64
}

/// Whether the largest load is cheaper to copy along the last depth axis than along
/// the last row.
fn depth_is_contiguous(kernel: &Kernel, [_, rows, depth]: &[Vec<AxisId>; 3]) -> bool {
    let loads = kernel.exprs.iter().filter_map(|node| match &node.expr {
        Expr::Load(input, access) => Some((kernel.inputs[*input as usize].numel, &access.affine)),
        Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Index(_)
        | Expr::Inside(_)
        | Expr::Alu(..)
        | Expr::Cast(_)
        | Expr::Bitcast(_)
        | Expr::Reduce(..)
        | Expr::Scan(..)
        | Expr::Checked(..)
        | Expr::Accumulator => None,
    });
    let Some((_, affine)) = loads.max_by_key(|(numel, _)| *numel) else { return true };
    let step = |axes: &[AxisId]| axes.last().map_or(0, |&axis| affine.coefficient(axis).abs());
    let extent = |axes: &[AxisId]| axes.last().map_or(1, |&axis| kernel.axes[axis.index()].extent);
    copying(extent(depth), step(depth)) <= copying(extent(rows), step(rows))
}

/// Where a result of this type goes, whose batch, rows and columns are so many axes each.
pub(super) fn target(kernel: &Kernel, dtype: DType, groups: [&[AxisId]; 3]) -> ResultTarget {
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| unrounded_value(kernel, store)).collect();
    let (flat, axes, _) = flat(kernel, groups, &values);
    if let [store] = &flat.stores[..] {
        let whole = matches!(flat.expr(store.value), Expr::Accumulator);
        let strides = strides(&flat, &store.address, &axes);
        if let Some(strides) = strides.filter(|_| whole && store.dtype == dtype) {
            return ResultTarget::Strided(strides);
        }
    }
    ResultTarget::Blocks(BlockProgram::new(&flat, axes, None))
}

impl ContractionProgram {
    /// Runs the product.
    pub fn launch(&self, bindings: &Bindings<'_>) {
        self.with_problem(bindings, RunProblem);
    }

    /// Passes the product on this memory.
    fn with_problem(&self, bindings: &Bindings<'_>, user: impl ProblemUser) {
        match self.terms {
            SummedTerms::Products => self.with_products(bindings, user),
            SummedTerms::PairsOfProducts => self.with_pairs(bindings, user),
            SummedTerms::SquaredDifferences => self.with_terms::<SquaredDifference>(bindings, user),
            SummedTerms::AbsoluteDifferences => self.with_terms::<AbsoluteDifference>(bindings, user),
        }
    }

    fn with_products(&self, bindings: &Bindings<'_>, user: impl ProblemUser) {
        if let Some((rows, loops)) = self.integer_rows() {
            return self.with_integers(bindings, rows, loops, user);
        }
        match self.dtype {
            DType::F32 | DType::F16 | DType::BF16 => self.with_terms::<f32>(bindings, user),
            DType::F64 => self.with_terms::<f64>(bindings, user),
            DType::I64 => self.with_terms::<i64>(bindings, user),
            DType::I32 => self.with_terms::<i32>(bindings, user),
            DType::U32 => self.with_terms::<u32>(bindings, user),
            DType::U8 | DType::Bool => self.with_terms::<u8>(bindings, user),
        }
    }

    fn with_terms<T: GemmElement>(&self, bindings: &Bindings<'_>, user: impl ProblemUser) {
        let (fill_a, fill_b) = (self.a.filler::<T>(bindings), self.b.filler::<T>(bindings));
        let [dots_a, dots_b] = [&self.a, &self.b].map(|side| side.dots::<T>(bindings, self.k));
        let (batch_a, batch_b) = (self.a.offsets(), self.b.offsets());
        let a = self.a.operand(bindings, &batch_a, fill_a.as_deref()).with_dots(dots_a.as_deref());
        let b = self.b.operand(bindings, &batch_b, fill_b.as_deref()).with_dots(dots_b.as_deref());
        self.with_operands(bindings, self.k, [a, b], user);
    }

    fn with_pairs(&self, bindings: &Bindings<'_>, user: impl ProblemUser) {
        let [a, b] = [&self.a, &self.b].map(|side| Bf16Operand::new(side, self.k, bindings));
        let (fill_a, fill_b) =
            (|fill: PackRequest<Bf16x2>| a.fill(fill), |fill: PackRequest<Bf16x2>| b.fill(fill));
        let (batch_a, batch_b) = (|batch: usize| a.offset(batch), |batch: usize| b.offset(batch));
        let operands = [a.operand(&batch_a, &fill_a), b.operand(&batch_b, &fill_b)];
        self.with_operands(bindings, self.k.div_ceil(2), operands, user);
    }

    /// Passes the product of operands of so many depths.
    fn with_operands<T: GemmElement>(
        &self,
        bindings: &Bindings<'_>,
        k: usize,
        [a, b]: [GemmOperand<'_, T>; 2],
        user: impl ProblemUser,
    ) {
        self.with_output(bindings, |out| {
            let problem = GemmProblem { batch: self.batch, m: self.m, n: self.n, k, a, b, out };
            // SAFETY: the kernel's accesses lie inside its buffers, outputs do not
            // overlap inputs of a contraction, and block programs write what they
            // are asked for.
            unsafe { user.product(&problem) }
        });
    }

    /// The packed numbers that rows, rounded to 8 bits, are multiplied with in integers, if they are.
    fn integer_rows(&self) -> Option<(&QuantizedRows, IntegerLoops)> {
        let rounds = self.precision == Precision::Medium && self.terms == SummedTerms::Products;
        let rows = self.b.quantized().filter(|_| rounds && (self.m == 1 || self.a.is_along_depth()))?;
        let loops = rows.integer_loops()?;
        (loops.panels.is_some() || self.m == 1).then_some((rows, loops))
    }

    /// Passes the product of rows, rounded to 8 bits, with packed numbers.
    fn with_integers(
        &self,
        bindings: &Bindings<'_>,
        rows: &QuantizedRows,
        loops: IntegerLoops,
        user: impl ProblemUser,
    ) {
        let (fill, offsets) = (self.a.filler::<f32>(bindings), self.a.offsets());
        let a = self.a.operand(bindings, &offsets, fill.as_deref());
        let ContractionProgram { batch, m, n, k, .. } = *self;
        let memory = rows.on(bindings);
        let lines = |batch, lines, to| memory.matrix(batch, lines, k / QUANTIZED_BLOCK, to);
        self.with_output(bindings, |out| {
            let problem = IntegerProblem { batch, m, n, k, loops, a, b: &lines, out };
            // SAFETY: as above.
            unsafe { user.integers(&problem) }
        });
    }

    /// Passes where the result goes.
    fn with_output<T: GemmElement>(&self, bindings: &Bindings<'_>, run: impl FnOnce(GemmOutput<'_, T>)) {
        let drained = match &self.out {
            ResultTarget::Blocks(program) => Some(program.launch(bindings)),
            ResultTarget::Strided(_) => None,
        };
        let drain = |block: gemm::OutputBlock<T>| {
            if let Some(program) = &drained {
                let lines =
                    StridedBlock { start: block.ptr.cast(), row_stride: block.ld, lane: size_of::<T>() };
                program.run(block.batch, block.rows, block.cols, lines);
            }
        };
        let batch_out = |batch: usize| match &self.out {
            ResultTarget::Strided(strides) => strides.batch(batch),
            ResultTarget::Blocks(_) => 0,
        };
        run(match &self.out {
            ResultTarget::Strided(strides) => GemmOutput::Strided {
                ptr: element(&bindings.outputs[0], strides.offset),
                row_stride: strides.row as isize,
                col_stride: strides.col as isize,
                batch: &batch_out,
            },
            ResultTarget::Blocks(_) => GemmOutput::Blocks(&drain),
        });
    }

    /// The program as text.
    pub fn source(&self) -> String {
        let ContractionProgram { name, dtype, terms, batch, m, n, k, .. } = self;
        let rounded = if self.integer_rows().is_some() { ", rows rounded to 8 bits" } else { "" };
        let mut text = format!("product {name}: {dtype}{terms}, {batch} x ({m} x {k} x {n}){rounded}\n");
        for (operand, side) in [("a", &self.a), ("b", &self.b)] {
            let _ = write!(text, "{operand}: {}", side.source());
        }
        text + &self.out.source()
    }
}

impl Strides {
    /// The element of the first output where a batch's offset counts from.
    pub(super) fn start<T>(&self, bindings: &Bindings<'_>) -> *mut T {
        element(&bindings.outputs[0], self.offset)
    }

    /// From a row to the next.
    pub(super) fn row(&self) -> isize {
        self.row as isize
    }

    /// From a column to the next.
    pub(super) fn col(&self) -> isize {
        self.col as isize
    }

    /// Whether columns lie one after another.
    pub(super) fn contiguous(&self) -> bool {
        self.col == 1
    }

    fn text(&self) -> String {
        let Strides { offset, batch, row, col } = self;
        format!("from {offset}, rows {row} apart, columns {col}, batches {batch:?}")
    }
}

fn element<T>(binding: &crate::runtime::Binding<'_>, offset: i64) -> *mut T {
    MemoryView::of(binding).start.cast::<T>().wrapping_offset(offset as isize)
}
