//! Thread mapping: which axes of a kernel go to threads, workgroups, elements per thread and loops.

use crate::base::DType;
use crate::kernel::{Access, Affine, AxisId, Contraction, Expr, Kernel};
use crate::render::TemplateChoice;
use crate::render::c_like::Coarsening;
use crate::render::c_like::emit::GROUPS;
use crate::render::c_like::unroll::unroll_count;
use crate::render::iterations;
use crate::render::shader::Unsupported;
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thresholds;

/// How a kernel is mapped to the threads of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadMapping {
    /// Coarsening: points, rows or steps that one thread computes together.
    pub coarsening: Coarsening,
    /// Threads that share the rows of a point, whose states are reduced: a workgroup, or 1.
    pub reduction_threads: usize,
    /// Whether each of these takes neighbouring rows (blocked, not cyclic).
    pub blocked: bool,
    /// Invocations in a workgroup.
    pub workgroup: u32,
    /// For each input and each output, whether it is accessed by vec4 accesses.
    pub vec4: (Vec<bool>, Vec<bool>),
    /// Of those, which by vec8 accesses.
    pub vec8: (Vec<bool>, Vec<bool>),
}

/// The layout of a kernel without a contraction.
///
/// # Errors
/// More iterations than the device carries out.
pub fn rows(kernel: &Kernel, target: &GpuTarget) -> Result<ThreadMapping, Unsupported> {
    let mut coarsening = Coarsening::single(kernel);
    let (outer, inner) = (innermost(kernel, 0), innermost(kernel, 1));
    let stream = |axis: Option<AxisId>| Some((axis?, streaming_factor(kernel, target, axis?)?));
    match (stream(inner), stream(outer)) {
        (Some((axis, count)), _) => coarsen(&mut coarsening, 1, axis, count),
        (None, Some((axis, count))) if !shares_few_points(kernel, target) => {
            coarsen(&mut coarsening, 0, axis, count);
        }
        (None, Some(_) | None) => {}
    }
    let points = kernel.level_points(0) / coarsening.factors[0];
    let reduction_threads = reduction_threads(kernel, target, points, &coarsening)?;
    let vec4 = vec4(kernel, &coarsening, target);
    let workgroup = if reduction_threads > 1 { reduction_threads as u32 } else { single_workgroup(target) };
    let vec8 = vec8(kernel, &coarsening, target);
    Ok(ThreadMapping {
        coarsening,
        reduction_threads,
        blocked: target.adapter == Adapter::Software,
        workgroup,
        vec4,
        vec8,
    })
}

/// Whether a GPU's workgroups share the rows of points that are too few for several to each.
fn shares_few_points(kernel: &Kernel, target: &GpuTarget) -> bool {
    target.adapter != Adapter::Software
        && kernel.depth() > 0
        && kernel.level_points(0) < thresholds::SHARED_ROW_POINTS
        && !is_across(kernel, target)
}

/// The layout in which subgroups share rows, few enough for each invocation to hold its own
/// between loops, on drivers that go through memory word by word. `None` where rows are too
/// long, or so few that compiling takes longer.
pub fn cached_rows(kernel: &Kernel, target: &GpuTarget) -> Option<ThreadMapping> {
    let elements = elements(kernel);
    let scans = kernel.exprs.iter().any(|node| matches!(node.expr, Expr::Scan(..)));
    if target.adapter != Adapter::Software || target.subgroup < 4 || kernel.depth() != 1 || scans {
        return None;
    }
    let axis = innermost(kernel, 1)
        .filter(|_| elements >= thresholds::CACHED_ROWS_SIZES * target.compile_bound_elements)?;
    let mut coarsening = Coarsening::single(kernel);
    coarsen(
        &mut coarsening,
        1,
        axis,
        streaming_factor(kernel, target, axis)?.min(thresholds::MAX_CACHED_ROW_COARSENING),
    );
    let reduction_threads = caching_threads(kernel, target, coarsening.factors[1])?;
    let vec4 = vec4(kernel, &coarsening, target);
    let vec8 = vec8(kernel, &coarsening, target);
    Some(ThreadMapping {
        coarsening,
        reduction_threads,
        blocked: false,
        workgroup: reduction_threads as u32,
        vec4,
        vec8,
    })
}

/// The fewest invocations that hold a row so that its text is quickly compiled; else the most
/// that hold one at all.
fn caching_threads(kernel: &Kernel, target: &GpuTarget, coarsening: usize) -> Option<usize> {
    let rows = kernel.level_points(1);
    let own = kernel.exprs.iter().filter(|node| node.level == 1);
    let values: Vec<&Expr> = own.map(|node| &node.expr).filter(|x| !matches!(x, Expr::Index(_))).collect();
    let operations: usize = values.iter().map(|value| operations(value)).sum();
    // The iterations in most of which most invocations have something to do.
    let unrolled = |reduction_threads: usize| {
        let step = reduction_threads * coarsening;
        let few =
            |unrolled: usize| values.len() * coarsening * unrolled <= thresholds::MAX_UNROLLED_DEFINITIONS;
        unroll_count(rows.div_ceil(step)).filter(|&unrolled| few(unrolled) && 4 * rows >= 3 * unrolled * step)
    };
    let thread_counts = thresholds::SUBGROUPS_PER_CACHED_ROW.map(|count| count * target.subgroup as usize);
    let suited: Vec<(usize, usize)> = thread_counts
        .into_iter()
        .filter_map(|reduction_threads| Some((reduction_threads, unrolled(reduction_threads)?)))
        .collect();
    let quick = suited
        .iter()
        .find(|(_, unrolled)| operations * coarsening * unrolled <= thresholds::QUICKLY_COMPILED_OPERATIONS);
    quick.or(suited.last()).map(|(reduction_threads, _)| *reduction_threads)
}

/// What a value is computed by, about: at least its definition.
fn operations(value: &Expr) -> usize {
    if let Expr::Alu(op, _) = value { op.flops().max(1) as usize } else { 1 }
}

/// Elements of a kernel's rows.
fn elements(kernel: &Kernel) -> usize {
    kernel.points(kernel.depth().min(1))
}

/// Whether a kernel has so few elements that compiling it takes longer than running it.
fn is_small(kernel: &Kernel, target: &GpuTarget) -> bool {
    elements(kernel) < target.compile_bound_elements
}

/// Lanes along an axis that runs through memory, if it has any.
fn streaming_factor(kernel: &Kernel, target: &GpuTarget, axis: AxisId) -> Option<usize> {
    let elements = elements(kernel);
    let counts: &[usize] = if is_small(kernel, target) {
        &[]
    } else if target.vec8_halves && moves_halves(kernel, axis) {
        // 16 bytes of 16-bit elements.
        &[8, 4]
    } else if elements < thresholds::WIDE_COARSENING_SIZES * target.compile_bound_elements
        || target.adapter != Adapter::Software
    {
        &[4]
    } else {
        // An invocation costs a software driver about as much as two accesses, and of rows so
        // does an iteration of the loop.
        &[16, 8, 4]
    };
    let most = if kernel.axes[axis.index()].level == 1 {
        thresholds::MAX_ROW_COARSENING
    } else {
        thresholds::MAX_GRID_COARSENING
    };
    let counts = counts.iter().filter(|&&count| count <= most);
    let extent = kernel.axes[axis.index()].extent.max(1);
    let fits = |count: usize| {
        extent.is_multiple_of(count) && kernel.exprs.len() * count <= thresholds::MAX_COARSENED_DEFINITIONS
    };
    let count = counts.copied().find(|&count| fits(count))?;
    is_neighbourly(kernel, axis).then_some(count)
}

fn single_workgroup(target: &GpuTarget) -> u32 {
    match target.adapter {
        Adapter::Software => thresholds::SOFTWARE_WORKGROUP,
        Adapter::Discrete | Adapter::Integrated => thresholds::GPU_WORKGROUP.min(target.max_workgroup),
    }
}

/// Coarsens along an axis: gives it the elements of a dimension.
pub fn coarsen(coarsening: &mut Coarsening, group: u8, axis: AxisId, count: usize) {
    coarsening.factors[group as usize] = count;
    coarsening.group[axis.index()] = Some(group);
    if count.is_multiple_of(4) {
        coarsening.consecutive[group as usize] = Some(axis);
    }
}

/// The last axis of a level with more than one position.
fn innermost(kernel: &Kernel, level: u8) -> Option<AxisId> {
    kernel.level_axes(level).filter(|axis| kernel.axes[axis.index()].extent != 1).last()
}

/// Whether a GPU's neighbouring invocations read neighbours in memory only where they have
/// neighbouring points: what shares the rows of one would read pieces of many lines. Of what
/// has an element for each row of each point: what is the same for all points is little.
pub fn is_across(kernel: &Kernel, target: &GpuTarget) -> bool {
    let (Some(outer), Some(inner)) = (innermost(kernel, 0), innermost(kernel, 1)) else { return false };
    let runs =
        |axis, other| accesses(kernel).any(|(x, _)| x.coefficient(axis) == 1 && x.coefficient(other) != 0);
    target.adapter != Adapter::Software && runs(outer, inner) && !runs(inner, outer)
}

/// Whether some load or store runs along an axis through memory.
fn is_neighbourly(kernel: &Kernel, axis: AxisId) -> bool {
    along(kernel, axis).next().is_some()
}

/// Whether one of 16-bit elements does.
fn moves_halves(kernel: &Kernel, axis: AxisId) -> bool {
    along(kernel, axis).any(|dtype| dtype.size() == 2)
}

/// Types of what loads and stores move that run along an axis through memory.
fn along(kernel: &Kernel, axis: AxisId) -> impl Iterator<Item = DType> {
    let runs = accesses(kernel).filter(move |(address, _)| address.coefficient(axis) == 1);
    runs.map(|(_, dtype)| dtype)
}

/// Addresses of loads and stores, with the types that they move.
fn accesses(kernel: &Kernel) -> impl Iterator<Item = (&Affine, DType)> {
    let loads = kernel.exprs.iter().filter_map(|node| node.expr.load());
    let loads = loads.map(|(slot, access)| (&access.affine, kernel.inputs[slot as usize].dtype));
    loads.chain(kernel.stores.iter().map(|store| (&store.address, store.dtype)))
}

/// How many invocations share the rows of a point.
fn reduction_threads(
    kernel: &Kernel,
    target: &GpuTarget,
    points: usize,
    coarsening: &Coarsening,
) -> Result<usize, Unsupported> {
    let rows = kernel.level_points(1);
    let all = coarsening.factors[0] * coarsening.factors[1];
    if kernel.depth() == 0 || points * rows == 0 {
        return Ok(1);
    }
    if rows > thresholds::MAX_NUMBERED_ROWS {
        let limit = thresholds::MAX_NUMBERED_ROWS as u64;
        return Err(Unsupported::Iterations { found: rows as u64, limit });
    }
    let most = rows.div_ceil(coarsening.factors[1]).next_power_of_two().min(target.max_workgroup as usize);
    let scans = kernel.exprs.iter().any(|node| matches!(node.expr, Expr::Scan(..)) && node.level == 1);
    let alone = scans || points >= thresholds::COALESCED_POINTS && is_across(kernel, target);
    let mut reduction_threads = if alone {
        1
    } else {
        preferred_reduction_threads(target, points, rows, coarsening.factors[1]).min(most)
    };
    let iterations = |reduction_threads: usize| {
        iterations::of_invocation(kernel, rows.div_ceil(reduction_threads * coarsening.factors[1]), all)
    };
    while !scans && reduction_threads < most && iterations(reduction_threads) > target.max_iterations {
        reduction_threads *= 2;
    }
    if iterations(reduction_threads) > target.max_iterations {
        return Err(Unsupported::Iterations {
            found: iterations(reduction_threads),
            limit: target.max_iterations,
        });
    }
    Ok(reduction_threads)
}

/// The invocations that should share rows, so many at a time, were it for
/// speed alone.
pub(in crate::render) fn preferred_reduction_threads(
    target: &GpuTarget,
    points: usize,
    rows: usize,
    coarsening: usize,
) -> usize {
    // Few sizes, since each is a text of its own.
    let steps = rows.div_ceil(coarsening);
    match target.adapter {
        Adapter::Software if points >= thresholds::SOFTWARE_WHOLE_ROW_POINTS => 1,
        Adapter::Software => {
            let shared = thresholds::SOFTWARE_ROW_THREADS.iter().find(|(least, _)| steps >= *least);
            shared.map_or(1, |(_, threads)| *threads)
        }
        Adapter::Discrete | Adapter::Integrated => {
            let many = points >= thresholds::GPU_MANY_POINTS;
            let whole = steps <= thresholds::GPU_WHOLE_ROW_STEPS
                || many && steps <= thresholds::GPU_WHOLE_ROW_STEPS_OF_MANY;
            match steps <= thresholds::GPU_WARP_ROW_STEPS {
                _ if whole => 1,
                true => 32,
                false => 256,
            }
        }
    }
}

/// Which inputs and outputs are accessed by vec4 accesses: where every access is to
/// four neighbours from a multiple of four on.
pub fn vec4(kernel: &Kernel, coarsening: &Coarsening, target: &GpuTarget) -> (Vec<bool>, Vec<bool>) {
    // Vectors have no vectors as elements.
    let has = |dtype: DType| dtype != DType::I64 || target.int64;
    let runs = target.alignment >= 4 && coarsening.consecutive.iter().any(Option::is_some);
    let mut inputs: Vec<bool> = kernel.inputs.iter().map(|input| runs && has(input.dtype)).collect();
    for node in &kernel.exprs {
        if let Expr::Load(slot, access) = &node.expr {
            inputs[*slot as usize] &= loads_neighbours(access, coarsening, 4);
        }
    }
    let is_run = |address: &Affine| run_axis(address, coarsening, 4).is_some();
    let outputs = kernel.stores.iter().map(|store| has(store.dtype) && is_run(&store.address));
    (inputs, outputs.collect())
}

/// Which inputs and outputs are accessed by vec8 accesses: 16-bit elements where one access moves eight of them,
/// and 32-bit ones where each access takes time of its own.
fn vec8(kernel: &Kernel, coarsening: &Coarsening, target: &GpuTarget) -> (Vec<bool>, Vec<bool>) {
    let wide = |dtype: DType| match target.adapter {
        Adapter::Software => target.int64 && dtype.size() == 4,
        Adapter::Discrete | Adapter::Integrated => target.vec8_halves && dtype.size() == 2,
    };
    let mut inputs: Vec<bool> =
        kernel.inputs.iter().map(|input| target.alignment >= 8 && wide(input.dtype)).collect();
    for node in &kernel.exprs {
        if let Expr::Load(slot, access) = &node.expr {
            inputs[*slot as usize] &= loads_neighbours(access, coarsening, 8);
        }
    }
    let is_run = |address: &Affine| run_axis(address, coarsening, 8).is_some();
    let outputs = kernel.stores.iter().map(|store| wide(store.dtype) && is_run(&store.address));
    (inputs, outputs.collect())
}

fn loads_neighbours(access: &Access, coarsening: &Coarsening, count: usize) -> bool {
    let Some(axis) = run_axis(&access.affine, coarsening, count) else { return false };
    let same = access.guard.within.iter().all(|within| within.value.coefficient(axis) == 0);
    access.dynamic.is_empty() && access.guard.masks.is_empty() && same
}

/// The axis along which an address gives so many neighbours at a time, from a multiple
/// of their number on.
fn run_axis(address: &Affine, coarsening: &Coarsening, count: usize) -> Option<AxisId> {
    let group = (0..GROUPS)
        .find(|&group| coarsening.consecutive[group].is_some_and(|axis| address.coefficient(axis) == 1))?;
    let axis = coarsening.consecutive[group].filter(|_| coarsening.factors[group].is_multiple_of(count))?;
    let whole = |c: i64| c % count as i64 == 0;
    let aligned = address.terms.iter().all(|&(other, c)| other == axis || whole(c));
    (aligned && whole(address.offset)).then_some(axis)
}

/// The layout of a contraction: a tile of the product per invocation.
pub fn contraction(kernel: &Kernel, c: &Contraction, target: &GpuTarget) -> ThreadMapping {
    let mut coarsening = Coarsening::single(kernel);
    let after = kernel.exprs.iter().filter(|node| node.level == 0).count();
    let work = kernel.points(kernel.depth().min(1)) as u64;
    let by_adapter = match target.adapter {
        Adapter::Software if after <= thresholds::MAX_WIDE_TILE_EPILOGUE => thresholds::WIDE_PRODUCT_TILE,
        // What follows a sum is in the text once for each, and takes its time to compile.
        Adapter::Software
            if work < (thresholds::MULTIPLICATIONS_PER_ELEMENT * target.compile_bound_elements) as u64 =>
        {
            thresholds::SMALL_PRODUCT_TILE
        }
        Adapter::Software | Adapter::Discrete | Adapter::Integrated => thresholds::PRODUCT_TILE,
    };
    let [rows, columns] =
        if let Some(TemplateChoice::Invocation(tile)) = target.choice { tile } else { by_adapter.into() };
    for (group, axes, most) in [(0, &c.m, rows), (1, &c.n, columns), (2, &c.k, thresholds::PRODUCT_STEP)] {
        let mut wide = axes.iter().copied().filter(|axis| kernel.axes[axis.index()].extent != 1);
        if let Some(axis) = wide.next_back() {
            let extent = kernel.axes[axis.index()].extent;
            // All or one: each number of lanes is a text of its own.
            let count = if extent.max(1).is_multiple_of(most) { most } else { 1 };
            coarsen(&mut coarsening, group, axis, count);
        }
    }
    let vec4 = vec4(kernel, &coarsening, target);
    let workgroup = if target.adapter == Adapter::Software {
        thresholds::SOFTWARE_PRODUCT_WORKGROUP
    } else {
        thresholds::GPU_PRODUCT_WORKGROUP
    };
    let vec8 = (vec![false; kernel.inputs.len()], vec![false; kernel.stores.len()]);
    ThreadMapping { coarsening, reduction_threads: 1, blocked: false, workgroup, vec4, vec8 }
}
