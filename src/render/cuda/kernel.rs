//! The functions of kernels.

use std::fmt::Write;

use crate::base::DType;
use crate::kernel::{AxisId, Contraction, Expr, ExprId, Kernel};
use crate::render::TemplateChoice;
use crate::render::c_like::emit::ElementIndex;
use crate::render::c_like::{Emitter, wide};
use crate::render::cuda::dialect::Cuda;
use crate::render::cuda::{Parameters, function, pass};
use crate::render::shader::{Pass, StoredTile, Unsupported};
use crate::render::split::BoundKernel;
use crate::render::target::GpuTarget;
use crate::render::thread_mapping::{self, ThreadMapping};
use crate::render::thresholds::GPU_CACHE_REGISTERS;

/// Invocations of a warp.
pub(super) const WARP: usize = 32;

/// A kernel of points and rows.
pub fn rows(part: &BoundKernel, target: &GpuTarget) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let mapping = thread_mapping::rows(kernel, target)?;
    let points = kernel.level_points(0) / mapping.coarsening.factors[0];
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let mut emitter = emitter(&dialect, kernel, &mapping);
    let point = if mapping.reduction_threads > 1 {
        emitter.out.line("const i32 lane = threadIdx.x;");
        "blockIdx.x".to_string()
    } else {
        invocation(&dialect, mapping.workgroup)
    };
    start(&mut emitter, "point", &point, points);
    let axes = wide(kernel, kernel.level_axes(0));
    grid(&mut emitter, "point", &axes, mapping.coarsening.factors[0]);
    emitter.point(&|_| None);
    let per_group = if mapping.reduction_threads > 1 { 1 } else { u64::from(mapping.workgroup) };
    let stored_tile = StoredTile::of_points(kernel, mapping.coarsening.factors[0], mapping.reduction_threads);
    Ok(Pass { stored_tile, ..finish(part, &mapping, &emitter, (points as u64).div_ceil(per_group)) })
}

/// Whether some position exceeds 32 bits.
pub(super) fn is_wide(kernel: &Kernel) -> Result<bool, Unsupported> {
    // Rows are numbered in 32 bits, for the places of extremes.
    for level in 1..=kernel.depth() {
        if kernel.level_points(level) > i32::MAX as usize {
            return Err(Unsupported::Elements(kernel.level_points(level)));
        }
    }
    // Groups round up to whole workgroups.
    let most = i64::from(i32::MAX) - 4096;
    let mut wide = kernel.level_points(0) as i64 > most;
    for node in &kernel.exprs {
        let Expr::Load(_, access) = &node.expr else { continue };
        let (mut low, mut high) = access.affine.range(&kernel.axes);
        for part in &access.dynamic {
            let reach = part.stride * (part.extent as i64 - 1).max(0);
            (low, high) = (low + reach.min(0), high + reach.max(0));
        }
        wide |= low < -most || high > most;
    }
    wide |= kernel.stores.iter().any(|store| store.numel as i64 > most);
    wide |= kernel.scatter().is_some_and(|scatter| scatter.numel as i64 > most);
    Ok(wide)
}

pub(super) fn emitter<'k>(dialect: &'k Cuda, kernel: &'k Kernel, mapping: &ThreadMapping) -> Emitter<'k> {
    let mut emitter = Emitter::new(dialect, kernel, mapping.coarsening.clone());
    emitter.reduction_threads = mapping.reduction_threads;
    emitter.blocked = mapping.blocked;
    emitter.warp = WARP;
    emitter.cache_registers = GPU_CACHE_REGISTERS;
    emitter.vec4 = mapping.vec4.clone();
    emitter.vec8 = mapping.vec8.clone();
    // The body of a function.
    emitter.out = crate::render::c_like::writer::Writer::inside(1);
    emitter
}

/// The number of an invocation among all.
pub(super) fn invocation(dialect: &Cuda, workgroup: u32) -> String {
    let block = if dialect.wide { "(i64)blockIdx.x" } else { "blockIdx.x" };
    format!("{block} * {workgroup} + threadIdx.x")
}

/// Defines an index; invocations beyond its end have nothing to do.
pub(super) fn start(emitter: &mut Emitter<'_>, name: &str, value: &str, end: usize) {
    let ty = emitter.dialect.position_type();
    let line = emitter.dialect.define(name, ty, value);
    emitter.out.line(line);
    emitter.out.line(format!("if ({name} >= {end}) return;"));
}

/// Defines the positions of axes from an index of groups of `lanes` points.
fn grid(emitter: &mut Emitter<'_>, index: &str, axes: &[AxisId], coarsening: usize) {
    if coarsening == 1 {
        return emitter.positions(index, axes, 1);
    }
    let first = format!("{index}_first");
    let ty = emitter.dialect.position_type();
    let line = emitter.dialect.define(&first, ty, &format!("{index} * {coarsening}"));
    emitter.out.line(line);
    emitter.positions(&first, axes, coarsening);
}

/// Puts a pass together around an emitted body.
pub(super) fn finish(
    part: &BoundKernel,
    mapping: &ThreadMapping,
    emitter: &Emitter<'_>,
    groups: u64,
) -> Pass {
    let kernel = &part.kernel;
    let parameters = Parameters::of(part, kernel.reports());
    let mut body = String::new();
    for (name, ty) in &emitter.shared {
        let _ = writeln!(body, "    __shared__ {ty} {name}[{}];", emitter.reduction_threads.div_ceil(WARP));
    }
    body += emitter.out.text();
    let source = function(&kernel.name, &parameters, kernel.args, mapping.workgroup, &body);
    let mut pass = pass(source, parameters, mapping.workgroup, groups);
    pass.vec4_inputs = of_launch(part, &mapping.vec4.0);
    pass.inputs_aligned_to_16 = of_launch(part, &mapping.vec8.0);
    pass
}

/// The launch's inputs among those of a part's that are marked.
pub(super) fn of_launch(part: &BoundKernel, marked: &[bool]) -> Vec<usize> {
    let slots = (0..marked.len()).filter(|&slot| marked[slot]);
    slots.filter_map(|slot| part.inputs[slot].input()).collect()
}

/// A contraction: a tile of the product per invocation, in registers.
pub fn contraction(part: &BoundKernel, c: &Contraction, target: &GpuTarget) -> Result<Pass, Unsupported> {
    let kernel = &part.kernel;
    let mapping = thread_mapping::contraction(kernel, c, target);
    let count = mapping.coarsening.factors;
    let size =
        |axes: &[AxisId]| -> usize { axes.iter().map(|axis| kernel.axes[axis.index()].extent).product() };
    let (rows, columns) = (size(&c.m) / count[0], size(&c.n) / count[1]);
    let tiles = size(&c.batch) * rows * columns;
    let dialect = Cuda::of(kernel, is_wide(kernel)?);
    let mut emitter = emitter(&dialect, kernel, &mapping);
    start(&mut emitter, "tile", &invocation(&dialect, mapping.workgroup), tiles);
    emitter.tile("tile", rows, columns);
    emitter.positions("batch", &wide(kernel, c.batch.iter().copied()), 1);
    grid(&mut emitter, "row", &wide(kernel, c.m.iter().copied()), count[0]);
    grid(&mut emitter, "column", &wide(kernel, c.n.iter().copied()), count[1]);
    product(&mut emitter, c);
    let groups = (tiles as u64).div_ceil(u64::from(mapping.workgroup));
    let stored_tile =
        Some(StoredTile::of_product(kernel, c, TemplateChoice::Invocation([count[0], count[1]])));
    Ok(Pass { stored_tile, ..finish(part, &mapping, &emitter, groups) })
}

fn sum(i: usize, j: usize) -> String {
    format!("sum_{i}_{j}")
}

/// The sum over k, and the stores that see it.
fn product(emitter: &mut Emitter<'_>, c: &Contraction) {
    let kernel = emitter.kernel;
    let dialect = emitter.dialect;
    let count = emitter.coarsening.factors;
    let (ty, zero) = (dialect.register(c.dtype), dialect.constant(c.dtype, 0));
    for (i, j) in pairs(count) {
        emitter.out.line(dialect.variable(&sum(i, j), ty, &zero));
    }
    let needed = emitter.needed(&[c.a, c.b]);
    for id in needed.into_iter().filter(|id| kernel.exprs[id.index()].level == 0) {
        emitter.define_all(&[id]);
    }
    let axes = wide(kernel, c.k.iter().copied());
    let steps: usize = axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
    emitter.out.open(dialect.for_loop("step", "0", &steps.to_string(), count[2]));
    emitter.positions("step", &axes, count[2]);
    let mark = emitter.mark();
    emitter.define_all(&[c.a, c.b]);
    for k in 0..count[2] {
        for (i, j) in pairs(count) {
            let elem: ElementIndex = [i, j, k];
            let (a, b) = (emitter.name(c.a, elem), emitter.name(c.b, elem));
            emitter.out.line(format!("{0} = multiply_add({a}, {b}, {0});", sum(i, j)));
        }
    }
    emitter.forget(mark);
    emitter.out.close();
    finish_product(emitter, c.dtype);
}

fn finish_product(emitter: &mut Emitter<'_>, dtype: DType) {
    let (kernel, dialect, count) = (emitter.kernel, emitter.dialect, emitter.coarsening.factors);
    let accumulators = (0..kernel.exprs.len()).filter(|&i| kernel.exprs[i].expr == Expr::Accumulator);
    for id in accumulators.map(|i| ExprId(i as u32)) {
        for (i, j) in pairs(count) {
            let value = if dtype == DType::U8 { format!("({} & 0xffu)", sum(i, j)) } else { sum(i, j) };
            let name = emitter.name(id, [i, j, 0]);
            emitter.out.line(dialect.define(&name, dialect.register(dtype), &value));
        }
        emitter.assume(id);
    }
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    emitter.define_all(&values);
    for store in 0..kernel.stores.len() {
        emitter.store(store, &|_| None);
    }
}

/// The elements of a thread's tile.
fn pairs(factors: ElementIndex) -> impl Iterator<Item = (usize, usize)> {
    (0..factors[0]).flat_map(move |i| (0..factors[1]).map(move |j| (i, j)))
}
