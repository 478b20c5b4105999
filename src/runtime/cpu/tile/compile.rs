//! From a kernel to a program.

use smallvec::SmallVec;

use crate::base::{DType, Optimization, system};
use crate::kernel::{AxisId, Expr, ExprId, Kernel};
use crate::runtime::cpu::thresholds::{
    MAX_ACCUMULATOR_COLUMNS, MAX_COLUMNS, MAX_REDUCED_COLUMNS, MAX_REDUCTION_JOBS, MIN_COLUMNS,
    MIN_PARALLEL_TILES, NON_TEMPORAL_BYTES, NON_TEMPORAL_TRANSPOSED_BYTES, OPS_PER_JOB, SERIAL_OPS,
    STORE_QUEUE_BYTES, TILE_ACCUMULATOR_BYTES, TILE_REGISTER_BYTES,
};
use crate::runtime::cpu::tile::analysis::{self, ExprFacts, LEVELS};
use crate::runtime::cpu::tile::build::{ProgramBuilder, Root, outer_axes};
use crate::runtime::cpu::tile::pipeline::{self, KERNEL_PASSES, PassContext};
use crate::runtime::cpu::tile::program::{Instr, Loop, LoopNest, TileProgram, WorkPartition, trip_count};
use crate::runtime::cpu::tile::tiling::{self, TilePlan};
use crate::runtime::cpu::tile::{registers, space};

/// The program of a kernel without a contraction, or of pieces of one with so many outputs.
pub fn compile(kernel: &Kernel, outputs: usize) -> TileProgram {
    let mut kernel = order_axes(kernel);
    for (optimization, pass) in KERNEL_PASSES {
        if optimization.is_on()
            && let Some(rewritten) = pass(&kernel)
        {
            kernel = order_axes(&rewritten);
        }
    }
    let facts = analysis::analyze(&kernel);
    let tiling = tiling::choose(&kernel, &facts);
    assemble(&kernel, outputs, &facts, tiling, Root::Stores)
}

/// A kernel without a contraction, its axes in order along memory.
fn order_axes(kernel: &Kernel) -> Kernel {
    let mut roots: Vec<ExprId> =
        kernel.stores.iter().map(|store| space::unrounded_value(kernel, store)).collect();
    roots.extend(kernel.root.operands());
    space::regroup(kernel, &space::by_level(kernel), &roots).0
}

/// The program of a kernel whose axes are in order, with so many outputs, for a tiling.
pub fn assemble(
    kernel: &Kernel,
    outputs: usize,
    facts: &ExprFacts,
    tiling: TilePlan,
    root: Root,
) -> TileProgram {
    let non_temporal = uses_non_temporal_stores(kernel, outputs, &tiling);
    let mut builder = ProgramBuilder::new(kernel, outputs, facts, tiling, non_temporal);
    builder.build(root);
    let tile = tile_size(kernel, &tiling, &builder);
    let mut slots = builder.slots;
    let scratch = registers::allocate(&mut slots, &builder.live_ranges, tile);
    let mut program = TileProgram {
        name: kernel.name.to_string(),
        axes: kernel.axes.to_vec(),
        row: tiling.row,
        col: tiling.col,
        tile,
        loops: (0..LEVELS as u8).map(|level| loops(kernel, &tiling, tile, level)).collect(),
        addresses: builder.addresses,
        slots,
        scratch,
        bodies: builder.bodies,
        reductions: builder.reductions,
        scans: builder.scans,
        conflict_axes: kernel.scatter().into_iter().flat_map(|scatter| scatter.axes.clone()).collect(),
        partition: WorkPartition::Serial,
        inputs: kernel.inputs.len(),
        empty: kernel.level_points(0) == 0,
    };
    let context = PassContext { tiling, non_temporal };
    single_trip_loops_outermost(&mut program);
    pipeline::run(&mut program, &context);
    program.partition = partition(kernel, &program);
    program
}

/// Whether a kernel's large results are written by non-temporal stores.
fn uses_non_temporal_stores(kernel: &Kernel, outputs: usize, tiling: &TilePlan) -> bool {
    if !Optimization::NonTemporalStores.is_on() {
        return false;
    }
    let bytes = |numel: usize, dtype: DType| numel.saturating_mul(dtype.size());
    let stored = kernel.stores.iter().take(outputs).map(|store| bytes(store.numel, store.dtype));
    let stored = stored.fold(0, usize::saturating_add);
    if tiling.transposing {
        return stored > NON_TEMPORAL_TRANSPOSED_BYTES;
    }
    let points = kernel.points(kernel.depth());
    let read = kernel.inputs.iter().map(|input| bytes(input.numel.min(points), input.dtype));
    let (least, most) = (*NON_TEMPORAL_BYTES.start(), *NON_TEMPORAL_BYTES.end());
    read.fold(stored, usize::saturating_add) >= system::l3_bytes().unwrap_or(least).clamp(least, most)
}

/// Puts loops of one iteration around the others, which changes nothing but
/// that the innermost loop, whose advance is cheap, is one that advances.
fn single_trip_loops_outermost(program: &mut TileProgram) {
    for (level, loops) in program.loops.iter_mut().enumerate() {
        let mut order: SmallVec<[usize; 4]> = (0..loops.len()).collect();
        order.sort_by_key(|&old| loops[old].trip_count() != 1);
        *loops = order.iter().map(|&old| loops[old]).collect();
        // What depended on the first so many loops depends on as many as it
        // takes to have all of those.
        let enough = |count: usize| order.iter().rposition(|&old| old < count).map_or(0, |last| last + 1);
        for body in program.bodies.iter_mut().filter(|body| usize::from(body.level) == level) {
            let mut hoisted: Vec<(usize, Vec<Instr>)> = Vec::new();
            let mut instrs = Vec::new();
            for (count, list) in std::mem::take(&mut body.hoisted) {
                match enough(count) {
                    every if every == order.len() && every > 0 => instrs.extend(list),
                    fewer => match hoisted.last_mut().filter(|last| last.0 == fewer) {
                        Some(last) => last.1.extend(list),
                        None => hoisted.push((fewer, list)),
                    },
                }
            }
            instrs.append(&mut body.instrs);
            (body.hoisted, body.instrs) = (hoisted, instrs);
        }
    }
}

/// Rows and columns of a tile: what something decided beforehand, else as
/// many columns as registers allow.
fn tile_size(kernel: &Kernel, tiling: &TilePlan, builder: &ProgramBuilder<'_>) -> (usize, usize) {
    let extent = |axis: Option<AxisId>| axis.map_or(1, |axis| kernel.axes[axis.index()].extent.max(1));
    let all = extent(tiling.col);
    if let Some(cols) = tiling.cols {
        let stored = stored_bytes(kernel, tiling);
        let (own, shared) = registers::widths(&builder.slots, &builder.live_ranges);
        let held = TILE_REGISTER_BYTES.saturating_sub(shared * cols) / (own + stored).max(1);
        let queued = if tiling.full_rows { STORE_QUEUE_BYTES / stored.max(1) } else { held };
        let fitting = held.min(queued) / cols.max(1);
        let rows = tiling.rows.min(fitting.max(tiling.min_rows));
        return (rows, cols.clamp(1, all));
    }
    let width = registers::width(&builder.slots, &builder.live_ranges);
    let (bytes, most) = match (builder.reductions.is_empty(), tiling.level < kernel.depth()) {
        (true, _) => (TILE_REGISTER_BYTES, MAX_COLUMNS),
        (false, false) => (TILE_REGISTER_BYTES, MAX_REDUCED_COLUMNS),
        (false, true) => (TILE_ACCUMULATOR_BYTES, MAX_ACCUMULATOR_COLUMNS),
    };
    let most = most / tiling.rows;
    let fitting = (bytes / width.max(1) / tiling.rows).clamp(MIN_COLUMNS.min(most), most);
    let tiles = all.div_ceil(fitting);
    let even = all.div_ceil(tiles).next_multiple_of(16);
    (tiling.rows, even.min(all))
}

/// Bytes that go from each element of a tile to memory, by way of the cache.
fn stored_bytes(kernel: &Kernel, tiling: &TilePlan) -> usize {
    let stores = kernel.stores.iter().filter(|store| store.level == tiling.level);
    stores.map(|store| store.dtype.size()).sum()
}

fn loops(kernel: &Kernel, tiling: &TilePlan, tile: (usize, usize), level: u8) -> LoopNest {
    let whole = |axis: AxisId, chunk| Loop { axis, start: 0, end: kernel.axes[axis.index()].extent, chunk };
    let mut loops: LoopNest =
        outer_axes(kernel, tiling, level).into_iter().map(|axis| whole(axis, 1)).collect();
    let tiled: SmallVec<[(Option<AxisId>, usize); 2]> =
        SmallVec::from_slice(&[(tiling.row, tile.0), (tiling.col, tile.1)]);
    for (axis, chunk) in tiled {
        if let Some(axis) = axis.filter(|axis| kernel.axes[axis.index()].level == level) {
            loops.push(whole(axis, chunk));
        }
    }
    loops
}

/// Scalar operations of a launch, about, loads and stores among them.
fn scalar_ops(kernel: &Kernel) -> usize {
    let mut work = 0usize;
    for node in &kernel.exprs {
        let weight = match &node.expr {
            Expr::Alu(op, _) => op.flops() as usize,
            Expr::Reduce(monoid, _) | Expr::Scan(monoid, ..) => monoid.flops() as usize,
            Expr::Load(..) | Expr::Cast(_) | Expr::Bitcast(_) | Expr::Index(_) | Expr::Inside(_) => 1,
            Expr::Checked(..) => 1,
            Expr::Const(_) | Expr::Arg(_) | Expr::Accumulator => 0,
        };
        let level = node.level + u8::from(matches!(node.expr, Expr::Reduce(..)));
        work = work.saturating_add(kernel.points(level).saturating_mul(weight));
    }
    let stores = kernel.stores.iter().map(|store| store.numel);
    stores.fold(work, usize::saturating_add)
}

fn partition(kernel: &Kernel, program: &TileProgram) -> WorkPartition {
    let work = scalar_ops(kernel);
    if work <= SERIAL_OPS || program.empty {
        return WorkPartition::Serial;
    }
    let tiles = trip_count(&program.loops[0]);
    if kernel.scatter().is_some() {
        return WorkPartition::ConflictFree(work.div_ceil(OPS_PER_JOB).min(MAX_REDUCTION_JOBS));
    }
    let per_tile = work / tiles;
    let rows = trip_count(&program.loops[1]);
    let scans = program.bodies.iter().flat_map(|body| &body.instrs).any(|instr| match instr {
        Instr::Nest { scans, .. } | Instr::BeginPass { scans, .. } => !scans.is_empty(),
        _ => false,
    });
    if tiles < MIN_PARALLEL_TILES && per_tile > 2 * OPS_PER_JOB && rows > 1 && !scans {
        let per_row = (per_tile / rows).max(1);
        return WorkPartition::ReductionRows(
            OPS_PER_JOB.div_ceil(per_row).max(rows.div_ceil(MAX_REDUCTION_JOBS)),
        );
    }
    WorkPartition::Tiles(OPS_PER_JOB.div_ceil(per_tile.max(1)).max(1))
}
