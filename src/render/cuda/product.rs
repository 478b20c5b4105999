//! Contractions by templates: `kernels/product_*.cuh` multiply, and a generated
//! header in front of them says what.
//!
//! The header holds the extents, the tile's sizes and `Product`: the launch's
//! parameters, with functions that give four by four elements of an operand, or the
//! place of a chunk of 16 bytes, where an operand is copied as it is (none where the
//! device copies it by a tensor map), and one that
//! stores what becomes of four columns of a row of the sum ([`hook`]).

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::contraction::as_reduction;
use crate::kernel::{AxisId, Contraction, Expr, ExprId, Kernel};
use crate::render::c_like::hook::{self, Hook, HookAxis, HookContext};
use crate::render::c_like::writer::Writer;
use crate::render::c_like::{Coarsening, Dialect, Emitter, wide};
use crate::render::choice::TemplateChoice;
use crate::render::cuda::async_copy::{AsyncCopy, is_k_major};
use crate::render::cuda::dialect::{Cuda, storage};
use crate::render::cuda::kernel::{self, of_launch};
use crate::render::cuda::operand_selection::worth_materializing;
use crate::render::cuda::thresholds;
use crate::render::cuda::tiles::{CudaProductTile, MmaType, SplitKTile, suitable};
use crate::render::cuda::{Parameters, function, method, pass};
use crate::render::product::{ProductExtents, oriented};
use crate::render::shader::{Pass, StoredTile, TensorMapSpec, Unsupported};
use crate::render::split::{BoundKernel, KernelSequence, SplitPoint, contraction, materialize};
use crate::render::target::GpuTarget;

/// The lane groups: rows, columns, depths.
const ROWS: u8 = 0;
const COLUMNS: u8 = 1;
const DEPTHS: u8 = 2;

/// Bytes of a line in shared memory that warpgroups read.
const LINE_BYTES: usize = 128;

/// A product as sums over its depth, where blocks have nothing to share: of one row, and so
/// little depth that a thread has all of it (a convolution of each channel by itself).
pub fn as_sums(kernel: &Kernel) -> Option<Kernel> {
    let c = oriented(kernel, kernel.contraction()?);
    let ProductExtents { m, k, .. } = ProductExtents::of(kernel, &c);
    let floats = matches!(c.dtype, DType::F32 | DType::F64);
    if m == 1 && (1..thresholds::MIN_K_PER_PART).contains(&k) && floats { as_reduction(kernel) } else { None }
}

/// The tile that is taken.
fn chosen(kernel: &Kernel, c: &Contraction, target: &GpuTarget) -> Option<SplitKTile> {
    target.chosen(&suitable(kernel, c, target), |way| TemplateChoice::CudaProduct(way.tile))
}

/// A kernel after those that store its operands where that is worth it, in the parts of its
/// depth that suit its product, and their sum.
pub fn split(whole: BoundKernel, target: &GpuTarget) -> KernelSequence {
    let mut split = KernelSequence::default();
    let way = |part: &BoundKernel| {
        let turned = oriented(&part.kernel, part.kernel.contraction()?);
        Some((chosen(&part.kernel, &turned, target)?, turned))
    };
    let stored =
        way(&whole).map_or(Vec::new(), |(way, c)| worth_materializing(&whole.kernel, &c, &way, target));
    let whole = match whole.kernel.contraction() {
        Some(c) if !stored.is_empty() => materialize::split(&mut split, &whole, c, &stored, target),
        Some(_) | None => whole,
    };
    let split_point =
        way(&whole).filter(|(way, _)| way.parts > 1).and_then(|(SplitKTile { tile, parts }, c)| {
            SplitPoint::in_units(&whole.kernel, &c.k, parts, tile.step())
        });
    match (split_point, whole.kernel.contraction()) {
        (Some(split_point), Some(c)) => contraction::split(&mut split, &whole, c, &split_point, target),
        (_, _) => split.parts.push(whole),
    }
    split
}

/// A contraction as a pass: by a template where one suits it.
///
/// # Errors
/// More elements than positions reach.
pub fn render(part: &BoundKernel, c: &Contraction, target: &GpuTarget) -> Result<Pass, Unsupported> {
    let turned = oriented(&part.kernel, c);
    match chosen(&part.kernel, &turned, target) {
        Some(SplitKTile { tile, .. }) => by_template(part, &turned, &tile, target),
        None => kernel::contraction(part, c, target),
    }
}

/// A template's text, after its header.
fn template(tile: &CudaProductTile) -> String {
    match tile {
        CudaProductTile::Simt { .. } => {
            hook::template(include_str!("../../../kernels/product_simt.cuh")).into()
        }
        CudaProductTile::Skinny { .. } => {
            hook::template(include_str!("../../../kernels/product_skinny.cuh")).into()
        }
        CudaProductTile::Mma { .. } => {
            STAGES.to_string() + hook::template(include_str!("../../../kernels/product_mma.cuh"))
        }
        CudaProductTile::Wgmma { .. } => {
            STAGES.to_string() + hook::template(include_str!("../../../kernels/product_wgmma.cuh"))
        }
    }
}

/// What kernels for compute capability 9.0 call besides the prelude.
pub const HOPPER: &str = include_str!("../../../kernels/hopper.cuh");

/// What templates for tensor cores have in common.
pub const STAGES: &str = include_str!("../../../kernels/product_stages.cuh");

fn by_template(
    part: &BoundKernel,
    c: &Contraction,
    tile: &CudaProductTile,
    target: &GpuTarget,
) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let extents = ProductExtents::of(kernel, c);
    let dialect = Cuda::of(kernel, kernel::is_wide(kernel)?);
    let product = ProductRenderer { part, c, extents, tile, target, dialect: &dialect };
    let operands = product.operands();
    let after = product.after();
    let from_registers = operands.iter().filter(|operand| operand.copied.is_none());
    let by_registers: Vec<&Hook<'_>> = from_registers.map(|operand| &operand.hook).chain([&after]).collect();
    let vec4_accesses = Hook::vec4_accesses(&by_registers);
    let context = HookContext { dialect: &dialect, batch: &c.batch, vec4_accesses: &vec4_accesses };
    let mut parameters = Parameters::of(part, kernel.reports());
    let tensor_map = operands.iter().filter(|operand| operand.tensor_map.is_some());
    parameters.tensor_maps = tensor_map.map(|operand| format!("map_{}", operand.name)).collect();

    let mut text = if let CudaProductTile::Wgmma { .. } = tile { HOPPER.to_string() } else { String::new() };
    text += &product.constants(&operands);
    text += "struct Product {\n";
    text += &parameters.fields(kernel.args);
    operands.iter().for_each(|operand| text += &product.operand(operand, &context));
    let byte = |sum: String| if c.dtype == DType::U8 { format!("({sum} & 0xffu)") } else { sum };
    let place = "Place batch, Place row, Place column";
    text += &method(
        "void",
        "store_c",
        &format!("{place}, const Element (&x)[4]"),
        &after.after(Some(product.rows()), &context, &byte),
    );
    text += "};\n";
    text += &template(tile);
    let body = format!("    product(Product{{{}}});\n", parameters.names(kernel.args).join(", "));
    text += &function(&kernel.name, &parameters, kernel.args, bounds(tile), &body);

    let mut pass = pass(text, parameters, tile.threads(), tile.groups(&extents));
    pass.vec4_inputs = of_launch(part, &vec4_accesses.0);
    let copied: Vec<u32> = operands.iter().filter_map(|operand| Some(operand.copied?.slot)).collect();
    let is_copied: Vec<bool> = (0..kernel.inputs.len() as u32).map(|slot| copied.contains(&slot)).collect();
    pass.inputs_aligned_to_16 = of_launch(part, &is_copied);
    pass.shared_bytes = tile.shared_bytes() as u32;
    pass.tensor_maps = operands.into_iter().filter_map(|operand| operand.tensor_map).collect();
    pass.stored_tile = Some(StoredTile::of_product(kernel, c, TemplateChoice::CudaProduct(*tile)));
    Ok(pass)
}

/// The bounds of a tile's blocks: of few threads, as many as make 256 threads of a
/// multiprocessor, so that a thread may have all the registers that it can name. Left to
/// itself the compiler aims at more blocks, though shared memory has no room for them (how
/// much a launch takes it does not know), and spills registers. Larger blocks have too many
/// sums for that; in those of ordinary multiplications it would have too many loads under way.
fn bounds(tile: &CudaProductTile) -> String {
    match (tile, tile.threads()) {
        (CudaProductTile::Mma { .. } | CudaProductTile::Wgmma { .. }, threads @ ..=128) => {
            format!("{threads}, {}", 256 / threads)
        }
        (CudaProductTile::Skinny { .. }, threads) => format!("{threads}, {}", tile.sharers()),
        (_, threads) => threads.to_string(),
    }
}

/// A product to be rendered.
#[derive(Clone, Copy)]
struct ProductRenderer<'a> {
    part: &'a BoundKernel,
    c: &'a Contraction,
    extents: ProductExtents,
    tile: &'a CudaProductTile,
    target: &'a GpuTarget,
    dialect: &'a Cuda,
}

/// An operand of a product.
struct ProductOperand<'a> {
    /// `a` or `b`.
    name: &'static str,
    value: ExprId,
    hook: Hook<'a>,
    /// In the order of the function's parameters.
    sides: [HookAxis<'a>; 2],
    /// Whether neighbours in shared memory are neighbours along the depth.
    k_major: bool,
    /// If it is copied as it is.
    copied: Option<AsyncCopy>,
    /// If the device copies it by a tensor map.
    tensor_map: Option<TensorMapSpec>,
}

impl<'a> ProductRenderer<'a> {
    fn rows(&self) -> HookAxis<'a> {
        HookAxis { parameter: "row", axes: &self.c.m, group: ROWS, extent: self.extents.m }
    }
    fn columns(&self) -> HookAxis<'a> {
        HookAxis { parameter: "column", axes: &self.c.n, group: COLUMNS, extent: self.extents.n }
    }
    fn depths(&self) -> HookAxis<'a> {
        HookAxis { parameter: "depth", axes: &self.c.k, group: DEPTHS, extent: self.extents.k }
    }

    fn operands(&self) -> [ProductOperand<'a>; 2] {
        let a = self.operand_of("a", self.c.a, [self.rows(), self.depths()]);
        [a, self.operand_of("b", self.c.b, [self.depths(), self.columns()])]
    }

    fn operand_of(&self, name: &'static str, value: ExprId, sides: [HookAxis<'a>; 2]) -> ProductOperand<'a> {
        let hook = Hook::new(&self.part.kernel, &[value], sides, self.target);
        let [across, depth] = if sides[0].group == DEPTHS { [sides[1], sides[0]] } else { sides };
        let copied = |along: HookAxis<'a>| self.copied(hook.kernel(), value, along);
        let (k_major, copied) = match (copied(depth), copied(across)) {
            (Some(load), _) => (true, Some(load)),
            (None, Some(load)) => (false, Some(load)),
            (None, None) => (is_k_major(hook.kernel(), value, depth.axes, across.axes), None),
        };
        let [along, line] = if k_major { [depth, across] } else { [across, depth] };
        let tensor_map = copied.and_then(|copied| self.tensor_map(hook.kernel(), copied, along, line));
        ProductOperand { name, value, hook, sides, k_major, copied, tensor_map }
    }

    /// The tensor map by which the device copies an input that runs through memory
    /// along a side, in lines along the other: where each is one axis, and the bytes
    /// between lines and matrices are what tensor maps allow.
    fn tensor_map(
        &self,
        kernel: &Kernel,
        copied: AsyncCopy,
        along: HookAxis<'_>,
        across: HookAxis<'_>,
    ) -> Option<TensorMapSpec> {
        let CudaProductTile::Wgmma { rows, columns, .. } = *self.tile else { return None };
        let Expr::Load(slot, access) = kernel.expr(copied.load) else { return None };
        let axes = |axes: &[AxisId]| wide(kernel, axes.iter().copied());
        let (&[element], &[line]) = (&*axes(along.axes), &*axes(across.axes)) else { return None };
        let batch = match *axes(&self.c.batch) {
            [] => None,
            [batch] => Some(batch),
            _ => return None,
        };
        let known = |axis| [Some(element), Some(line), batch].contains(&Some(axis));
        let stride =
            |axis: AxisId| usize::try_from(access.affine.coefficient(axis)).ok().filter(|&by| by > 0);
        let size = kernel.inputs[*slot as usize].dtype.size();
        let lines = stride(line)?;
        let matrices = batch.map_or(Some(lines * across.extent), stride)?;
        let fits = access.affine.terms.iter().all(|term| known(term.0))
            && access.guard.is_always()
            && matrices.is_multiple_of(lines)
            && (matrices as u64 * size as u64) < 1 << 40
            && lines >= along.extent;
        let high = match (along.group, across.group) {
            (DEPTHS, ROWS) => rows,
            (DEPTHS, _) => columns,
            _ => self.tile.step(),
        };
        let has_tensor_maps = self.target.cuda.is_some_and(|cuda| cuda.tensor_maps);
        (fits && has_tensor_maps).then_some(TensorMapSpec {
            memory: self.part.inputs[*slot as usize],
            start: usize::try_from(access.affine.offset).ok()? * size,
            extents: [along.extent, across.extent, batch.map_or(1, |axis| kernel.axes[axis.index()].extent)],
            strides: [lines * size, matrices * size],
            box_shape: [LINE_BYTES / size, high],
        })
    }

    /// The input that a value is, if a tile takes its elements by chunks along a side.
    fn copied(&self, kernel: &Kernel, value: ExprId, along: HookAxis<'_>) -> Option<AsyncCopy> {
        let (CudaProductTile::Mma { factor, .. } | CudaProductTile::Wgmma { factor, .. }) = *self.tile else {
            return None;
        };
        AsyncCopy::of(kernel, value, along.axes, factor.dtype(), self.target)
    }

    /// What follows the sum.
    fn after(&self) -> Hook<'a> {
        let kernel = &self.part.kernel;
        let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
        Hook::new(kernel, &values, [self.columns(), self.columns()], self.target)
    }

    /// The function that gives an operand; none where its tensor map does.
    fn operand(&self, operand: &ProductOperand<'_>, context: &HookContext<'_>) -> String {
        if operand.tensor_map.is_some() {
            return String::new();
        }
        let sides = operand.sides.map(|side| format!("Place {}", side.parameter)).join(", ");
        if let Some(copied) = operand.copied {
            let body = self.chunk(operand, copied, context);
            let ty = format!("const {}*", storage(self.part.kernel.inputs[copied.slot as usize].dtype));
            return method(
                &ty,
                &format!("chunk_{}", operand.name),
                &format!("Place batch, {sides}, bool& is_inside"),
                &body,
            );
        }
        // No depth of the last step counts that is beyond the end.
        let whole = Some((DEPTHS, self.tile.step()));
        let plain = |value: &str, _: usize, _: usize| value.to_string();
        let zero = self.dialect.constant(self.c.dtype, 0);
        let block = operand.hook.block(operand.value, whole, context, &zero, &plain);
        let mut body = block.lines;
        for (i, row) in block.elements.iter().enumerate() {
            row.iter().enumerate().for_each(|(j, x)| _ = writeln!(body, "    x[{i}][{j}] = {x};"));
        }
        let parameters = format!("Place batch, {sides}, Element (&x)[4][4]");
        method("void", &format!("load_{}", operand.name), &parameters, &body)
    }

    /// Where a piece begins, and whether it counts.
    fn chunk(&self, operand: &ProductOperand<'_>, copied: AsyncCopy, context: &HookContext<'_>) -> String {
        let kernel = operand.hook.kernel();
        let [high, across] = self.tile.size();
        let unit = |side: &HookAxis<'_>| match side.group {
            DEPTHS => self.tile.step(),
            ROWS => high,
            _ => across,
        };
        let ends = operand.sides.iter().filter(|side| !side.extent.is_multiple_of(unit(side)));
        let inside: Vec<String> = ends.map(|side| format!("{} < {}", side.parameter, side.extent)).collect();
        let mut emitter = Emitter::new(self.dialect, kernel, Coarsening::single(kernel));
        emitter.out = Writer::inside(2);
        let axes = |axes: &[AxisId]| wide(kernel, axes.iter().copied());
        emitter.positions("batch", &axes(context.batch), 1);
        operand.sides.iter().for_each(|side| emitter.positions(side.parameter, &axes(side.axes), 1));
        copied.begin(&mut emitter, kernel, inside);
        emitter.out.text().into()
    }

    /// What a template is written in.
    fn constants(&self, operands: &[ProductOperand<'_>; 2]) -> String {
        let ProductExtents { batch, m, n, k } = self.extents;
        let [rows, columns] = self.tile.size();
        let mut text = String::new();
        let _ = writeln!(text, "typedef {} Element;", self.dialect.register(self.c.dtype));
        let _ = writeln!(text, "typedef {} Place;", self.dialect.position_type());
        let _ = writeln!(text, "constexpr i32 BATCHES = {batch}, M = {m}, N = {n}, K = {k};");
        let _ =
            writeln!(text, "constexpr i32 ROWS = {rows}, COLUMNS = {columns}, STEP = {};", self.tile.step());
        for (name, operand) in ["A", "B"].iter().zip(operands) {
            let _ = writeln!(text, "constexpr bool {name}_K_MAJOR = {};", operand.k_major);
        }
        match *self.tile {
            CudaProductTile::Simt { row_vec4s, column_vec4s, .. } => {
                let _ =
                    writeln!(text, "constexpr i32 ROW_VEC4S = {row_vec4s}, COLUMN_VEC4S = {column_vec4s};");
            }
            CudaProductTile::Skinny { k_unroll, .. } => {
                let _ = writeln!(text, "constexpr i32 DEEP = {}, K_UNROLL = {k_unroll};", self.tile.deep());
            }
            CudaProductTile::Mma { factor, part_rows, part_columns, stages, .. } => {
                let _ =
                    writeln!(text, "constexpr i32 PART_ROWS = {part_rows}, PART_COLUMNS = {part_columns};");
                text += &self.staging(operands, factor, stages);
                let _ = writeln!(
                    text,
                    "KILN_FUNCTION void mma(f32 (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {{ mma_{}(c, a, b); }}",
                    factor.name()
                );
            }
            CudaProductTile::Wgmma { factor, stages, .. } => {
                text += &self.staging(operands, factor, stages);
                let _ = writeln!(
                    text,
                    "template <bool A_TRANSPOSED, bool B_TRANSPOSED>\n\
                     KILN_FUNCTION void wgmma(f32 (&c)[COLUMNS / 8][4], u64 a, u64 b) {{ \
                     wgmma_{}<A_TRANSPOSED, B_TRANSPOSED>(c, a, b); }}",
                    factor.name()
                );
            }
        }
        text
    }

    /// What `kernels/product_stages.cuh` is written in.
    fn staging(&self, operands: &[ProductOperand<'_>; 2], factor: MmaType, stages: usize) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "constexpr i32 STAGES = {stages}, THREADS = {};", self.tile.threads());
        for (name, operand) in ["A", "B"].iter().zip(operands) {
            let _ = writeln!(text, "constexpr bool {name}_IS_ASYNC = {};", operand.copied.is_some());
            let _ = writeln!(text, "constexpr bool {name}_BY_TMA = {};", operand.tensor_map.is_some());
        }
        let _ = writeln!(text, "typedef {} Stored;", storage(factor.dtype()));
        let _ = writeln!(text, "KILN_FUNCTION u32 stored(f32 x) {{ return {}(x); }}", factor.rounding());
        text
    }
}
