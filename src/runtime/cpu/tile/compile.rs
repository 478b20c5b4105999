//! From a kernel to a program.

use smallvec::SmallVec;

use crate::base::DType;
use crate::kernel::{AxisId, Expr, ExprId, Kernel};
use crate::runtime::cpu::tile::analysis::{self, Facts, LEVELS};
use crate::runtime::cpu::tile::build::{Builder, Root, outer_axes};
use crate::runtime::cpu::tile::division::multiplied;
use crate::runtime::cpu::tile::program::{Loop, Loops, Program, Sharing, Step, units};
use crate::runtime::cpu::tile::stages::staged;
use crate::runtime::cpu::tile::tiling::{self, Tiling};
use crate::runtime::cpu::tile::{ahead, collapse, flatten, moves, overlap, registers, space, whole};

/// Bytes of registers that should be in use at once: half of a first-level cache.
const REGISTERS: usize = 24 << 10;

/// The same where what lies below is combined into a row: accumulators in the
/// second-level cache cost less than memory that is read in pieces of rows, since
/// processors foresee little beyond a page.
const ACCUMULATED: usize = 96 << 10;

/// Bytes that a tile of whole rows stores at most, where it has several: as many as wait in
/// a processor's queue of stores while it reads on.
const QUEUED: usize = 4 << 10;

/// Scalar operations below which other threads cost more than they help.
const SERIAL: usize = 1 << 17;

/// Scalar operations of a job.
const JOB: usize = 1 << 18;

/// Jobs that one level-0 point is shared between at most.
const SHARES: usize = 64;

/// Tiles of level 0 from which on those alone occupy the threads.
const MANY: usize = 32;

/// Bytes that a kernel reads and writes from which on what it writes passes the caches by:
/// about a last-level cache, which others use too. Few in tests, whose kernels are small.
const STREAM: usize = if cfg!(test) { 512 << 10 } else { 28 << 20 };

/// The same where they are written in pieces of rows, which hardware does not foresee:
/// what is written by way of the cache is read first. Few in tests, whose kernels are small.
const PIECES: usize = if cfg!(test) { 1 << 10 } else { 8 << 20 };

/// The program of a kernel without a contraction, or of pieces of one with so many outputs.
pub fn compile(kernel: &Kernel, outputs: usize) -> Program {
    let kernel = in_order(multiplied(kernel).as_ref().unwrap_or(kernel));
    let kernel = staged(&kernel).map_or(kernel, |staged| in_order(&staged));
    let facts = analysis::facts(&kernel);
    let tiling = tiling::choose(&kernel, &facts);
    let mut program = assemble(&kernel, outputs, &facts, tiling, Root::Stores);
    moves::follow(&mut program);
    overlap::overlap(&mut program);
    program
}

/// A kernel without a contraction, its axes in order along memory.
fn in_order(kernel: &Kernel) -> Kernel {
    let mut roots: Vec<ExprId> = kernel.stores.iter().map(|store| space::taken(kernel, store)).collect();
    roots.extend(kernel.scatter.iter().flat_map(|s| [s.index, s.value]));
    space::regroup(kernel, &space::by_level(kernel), &roots).0
}

/// The program of a kernel whose axes are in order, with so many outputs, for a tiling.
pub fn assemble(kernel: &Kernel, outputs: usize, facts: &Facts, tiling: Tiling, root: Root) -> Program {
    let large = streams(kernel, outputs, &tiling);
    let mut builder = Builder::new(kernel, outputs, facts, tiling, large);
    builder.build(root);
    let tile = tile_of(kernel, &tiling, &builder);
    let mut slots = builder.slots;
    let scratch = registers::place(&mut slots, &builder.lives, tile);
    let mut program = Program {
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
        meeting: kernel.scatter.iter().flat_map(|scatter| scatter.axes.clone()).collect(),
        sharing: Sharing::Serial,
        inputs: kernel.inputs.len(),
        empty: kernel.level_points(0) == 0,
    };
    single_loops_outermost(&mut program);
    flatten::flatten(&mut program);
    let down = program.loops[0].last().is_some_and(|inner| Some(inner.axis) == tiling.row);
    if tiling.whole || down && !tiling.square {
        ahead::foresee(&mut program, large);
    }
    if tiling.square {
        ahead::foresee_pieces(&mut program);
    } else {
        ahead::foresee_along(&mut program);
        ahead::foresee_passes(&mut program);
        ahead::foresee_converted(&mut program);
        ahead::foresee_strided(&mut program);
    }
    whole::merge(&mut program);
    program.sharing = sharing(kernel, &program);
    collapse::collapse(&mut program);
    program
}

/// Whether a kernel's large results pass the caches by.
fn streams(kernel: &Kernel, outputs: usize, tiling: &Tiling) -> bool {
    let bytes = |numel: usize, dtype: DType| numel.saturating_mul(dtype.size());
    let stored = kernel.stores.iter().take(outputs).map(|store| bytes(store.numel, store.dtype));
    let stored = stored.fold(0, usize::saturating_add);
    if tiling.square {
        return stored > PIECES;
    }
    let points = kernel.points(kernel.depth());
    let read = kernel.inputs.iter().map(|input| bytes(input.numel.min(points), input.dtype));
    read.fold(stored, usize::saturating_add) >= STREAM
}

/// Puts loops of one iteration around the others, which changes nothing but
/// that the innermost loop, whose advance is cheap, is one that advances.
fn single_loops_outermost(program: &mut Program) {
    for (level, loops) in program.loops.iter_mut().enumerate() {
        let mut order: SmallVec<[usize; 4]> = (0..loops.len()).collect();
        order.sort_by_key(|&old| loops[old].count() != 1);
        *loops = order.iter().map(|&old| loops[old]).collect();
        // What depended on the first so many loops depends on as many as it
        // takes to have all of those.
        let enough = |count: usize| order.iter().rposition(|&old| old < count).map_or(0, |last| last + 1);
        for body in program.bodies.iter_mut().filter(|body| usize::from(body.level) == level) {
            let mut hoisted: Vec<(usize, Vec<Step>)> = Vec::new();
            let mut steps = Vec::new();
            for (count, list) in std::mem::take(&mut body.hoisted) {
                match enough(count) {
                    every if every == order.len() && every > 0 => steps.extend(list),
                    fewer => match hoisted.last_mut().filter(|last| last.0 == fewer) {
                        Some(last) => last.1.extend(list),
                        None => hoisted.push((fewer, list)),
                    },
                }
            }
            steps.append(&mut body.steps);
            (body.hoisted, body.steps) = (hoisted, steps);
        }
    }
}

/// Rows and columns of a tile: what something decided beforehand, else as
/// many columns as registers allow.
fn tile_of(kernel: &Kernel, tiling: &Tiling, builder: &Builder<'_>) -> (usize, usize) {
    let extent = |axis: Option<AxisId>| axis.map_or(1, |axis| kernel.axes[axis.index()].extent.max(1));
    let all = extent(tiling.col);
    if let Some(cols) = tiling.cols {
        let stored = written(kernel, tiling);
        let (own, shared) = registers::widths(&builder.slots, &builder.lives);
        let held = REGISTERS.saturating_sub(shared * cols) / (own + stored).max(1);
        let queued = if tiling.whole { QUEUED / stored.max(1) } else { held };
        let fitting = held.min(queued) / cols.max(1);
        let rows = tiling.rows.min(fitting.max(tiling.fewest));
        return (rows, cols.clamp(1, all));
    }
    let width = registers::width(&builder.slots, &builder.lives);
    let (bytes, most) = match (builder.reductions.is_empty(), tiling.level < kernel.depth()) {
        (true, _) => (REGISTERS, 1024),
        (false, false) => (REGISTERS, 4096),
        (false, true) => (ACCUMULATED, 8192),
    };
    let most = most / tiling.rows;
    let fitting = (bytes / width.max(1) / tiling.rows).clamp(64.min(most), most);
    let tiles = all.div_ceil(fitting);
    let even = all.div_ceil(tiles).next_multiple_of(16);
    (tiling.rows, even.min(all))
}

/// Bytes that go from each element of a tile to memory, by way of the cache.
fn written(kernel: &Kernel, tiling: &Tiling) -> usize {
    let stores = kernel.stores.iter().filter(|store| store.level == tiling.level);
    stores.map(|store| store.dtype.size()).sum()
}

fn loops(kernel: &Kernel, tiling: &Tiling, tile: (usize, usize), level: u8) -> Loops {
    let whole = |axis: AxisId, chunk| Loop { axis, start: 0, end: kernel.axes[axis.index()].extent, chunk };
    let mut loops: Loops = outer_axes(kernel, tiling, level).into_iter().map(|axis| whole(axis, 1)).collect();
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
fn work(kernel: &Kernel) -> usize {
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

fn sharing(kernel: &Kernel, program: &Program) -> Sharing {
    let work = work(kernel);
    if work <= SERIAL || program.empty {
        return Sharing::Serial;
    }
    let tiles = units(&program.loops[0]);
    if kernel.scatter.is_some() {
        return Sharing::Apart(work.div_ceil(JOB).min(SHARES));
    }
    let per_tile = work / tiles;
    let rows = units(&program.loops[1]);
    let scans = program.bodies.iter().flat_map(|body| &body.steps).any(|step| match step {
        Step::Nest { scans, .. } | Step::Begin { scans, .. } => !scans.is_empty(),
        _ => false,
    });
    if tiles < MANY && per_tile > 2 * JOB && rows > 1 && !scans {
        let per_row = (per_tile / rows).max(1);
        return Sharing::Rows(JOB.div_ceil(per_row).max(rows.div_ceil(SHARES)));
    }
    Sharing::Tiles(JOB.div_ceil(per_tile.max(1)).max(1))
}
