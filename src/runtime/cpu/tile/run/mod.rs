//! Interpretation of tile programs.
//!
//! A thread runs bodies in a [`Frame`]: pointers by slot, current values of
//! addresses, the current tile's size. All memory goes through raw pointers;
//! what makes that right is stated once here and referred to as *the
//! program's contract*: the kernel's accesses lie inside its buffers (the
//! verifier of kernels and the planner see to that), slots point at registers
//! that [`super::registers`] keeps apart while both live or at memory of the
//! launch, every register has room for a whole tile of its shape, no two jobs
//! write the same elements, and an output lies over an input only where the
//! kernel has no other output and reads of that input just the elements it
//! then writes, each before its value is complete.

mod access;
pub mod frame;
mod gather;
mod load;
mod parallel_reduction;
mod reduce;
mod scatter;
mod store;

use std::ops::Range;

use kiln_simd::micro::{self, MicroFn};
use smallvec::SmallVec;

use crate::runtime::cpu::memory::{MemoryView, inputs_of, outputs_of};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::tile::program::{
    FrameSlot, Instr, LoopBody, LoopNest, Prefetch, RowwiseOp, TileProgram, WorkPartition, trip_count,
};
use crate::runtime::{Bindings, IndexStatus};

pub use access::solve_range;
pub use frame::{Frame, MatrixBlock};

/// A program and what one launch runs it on.
pub struct TileLaunch<'a> {
    /// The program.
    pub program: &'a TileProgram,
    /// The program's loops by level, or a part of them.
    pub loops: &'a [LoopNest],
    /// Inputs, then outputs.
    pub memory: SmallVec<[MemoryView; 12]>,
    /// Scalar arguments.
    pub scalars: &'a [u64],
    /// Where index errors go.
    pub status: &'a IndexStatus,
}

/// Runs the programs of a kernel's pieces. Those that are shared by tiles run side by side, each
/// job taking a part of each piece: neighbours in memory are mostly in pieces that walk alike.
pub fn launch(programs: &[TileProgram], bindings: &Bindings<'_>) {
    let mut together: SmallVec<[TileLaunch<'_>; 4]> = SmallVec::new();
    let mut jobs = 0;
    for program in programs.iter().filter(|program| !program.empty) {
        let launch = TileLaunch::new(program, bindings);
        let tiles = launch.trip_count(0);
        match program.partition {
            WorkPartition::Serial => launch.run_tiles(tiles, None),
            WorkPartition::ReductionRows(rows) => launch.run_tiles(tiles, Some(rows)),
            WorkPartition::ConflictFree(jobs) => scatter::launch_scatter(&launch, jobs),
            WorkPartition::Tiles(count) => {
                jobs += tiles.div_ceil(count);
                together.push(launch);
            }
        }
    }
    threads::for_each_worker(jobs, |mine| share_tiles(&together, mine, jobs));
}

/// Runs the tiles of some of all jobs on this thread.
fn share_tiles(launches: &[TileLaunch<'_>], mine: impl Iterator<Item = usize>, jobs: usize) {
    let mut frames: SmallVec<[Frame; 4]> = launches.iter().map(frame::take).collect();
    for job in mine {
        for (launch, frame) in launches.iter().zip(&mut frames) {
            let tiles = launch.trip_count(0);
            launch.run_body(frame, launch.root(), tiles * job / jobs..tiles * (job + 1) / jobs);
        }
    }
    frames.into_iter().for_each(frame::give_back);
    // non-temporal stores must be seen by whoever reads next. This waits for all of them,
    // so that it comes once and not after each job.
    micro::nt_fence();
}

impl<'a> TileLaunch<'a> {
    /// A launch on some memory.
    pub fn new(program: &'a TileProgram, bindings: &Bindings<'a>) -> TileLaunch<'a> {
        let inputs = inputs_of(bindings);
        let outputs = outputs_of(bindings);
        let memory = inputs.into_iter().chain(outputs).collect();
        TileLaunch {
            program,
            loops: &program.loops,
            memory,
            scalars: bindings.scalars,
            status: bindings.status,
        }
    }

    /// Runs so many tiles of level 0 on this thread; level 1 shared between
    /// threads where a number of its rows per job is given.
    fn run_tiles(&self, tiles: usize, shared: Option<usize>) {
        frame::with(self, |frame| {
            frame.rows_per_job = shared;
            self.run_body(frame, self.root(), 0..tiles);
        });
        // non-temporal stores must be seen by whoever reads next.
        micro::nt_fence();
    }

    /// Number of iterations of a level.
    pub fn trip_count(&self, level: u8) -> usize {
        trip_count(&self.loops[level as usize])
    }

    /// The loops of a body.
    pub fn loops_of(&self, body: &'a LoopBody) -> &'a LoopNest {
        &self.loops[body.level as usize]
    }

    /// The body of level 0.
    pub fn root(&self) -> &'a LoopBody {
        self.program.bodies.last().expect("a program has a body for level 0")
    }

    /// Runs a body at some points of its level, counted in row-major order.
    fn run_body(&self, frame: &mut Frame, body: &LoopBody, points: Range<usize>) {
        if points.is_empty() {
            return;
        }
        let loops = self.loops_of(body);
        if let Some((load, number)) = self.row_accumulation(body, loops) {
            return self.accumulate_rows(frame, body, load, number, points);
        }
        frame.enter(self.program, body, loops, points.start);
        self.run_hoisted(frame, body, 0);
        self.run_instrs(frame, &body.instrs);
        for _ in 1..points.len() {
            let advanced = frame.advance(self.program, body, loops);
            if advanced + 1 < loops.len() {
                self.run_hoisted(frame, body, advanced + 1);
            }
            self.run_instrs(frame, &body.instrs);
        }
    }

    /// Runs the instructions hoisted out of all but the first so many loops or more.
    pub fn run_hoisted(&self, frame: &mut Frame, body: &LoopBody, from: usize) {
        for (_, instrs) in body.hoisted.iter().filter(|(loops, _)| *loops >= from) {
            self.run_instrs(frame, instrs);
        }
    }

    /// Runs instructions at the frame's current tile. What they do are functions that are never inlined:
    /// with all of their code in here, each call keeps twenty addresses for whichever comes.
    pub fn run_instrs(&self, frame: &mut Frame, instrs: &[Instr]) {
        for instr in instrs {
            match instr {
                Instr::Micro { function, non_temporal, to, from, shape, prefetch, .. } => {
                    let from = from.map(|slot| frame.slot(slot).cast_const());
                    let next = prefetch.map_or(from[0], |Prefetch { operand, distance, .. }| {
                        frame.slot(operand).wrapping_offset(distance).cast_const()
                    });
                    let function = select_function(frame, *to, *function, *non_temporal);
                    // SAFETY: the program's contract; the forms of `function`
                    // are the operands' shapes.
                    unsafe { function(frame.slot(*to), from, frame.count(*shape), next) }
                }
                Instr::Rowwise(op) => self.rowwise(frame, op),
                Instr::Expand { function, to, from } => {
                    let (rows, cols) = frame.tile();
                    // SAFETY: the program's contract.
                    unsafe { function(frame.slot(*to), frame.slot(*from), rows, cols) }
                }
                Instr::Index { to, value, shape } => self.index(frame, *to, *value, *shape),
                Instr::Inside { to, bound, shape } => self.inside(frame, *to, bound, *shape),
                Instr::Check(index, extent, shape) => self.check(frame, *index, *extent, *shape),
                Instr::Load(load) => self.load(frame, load),
                Instr::Gather(gather) => self.gather(frame, gather),
                Instr::ForwardDest(forwarding) => self.forward_dest(frame, forwarding),
                Instr::Store(store) => self.store(frame, store),
                Instr::FromBlock(block) => self.from_block(frame, block),
                Instr::ForwardBlockDest(block) => self.forward_block_dest(frame, block),
                Instr::ToBlock(block) => self.to_block(frame, block),
                Instr::Scatter(scatter) => self.scatter(frame, scatter),
                Instr::Update(number) => self.update(frame, *number),
                Instr::ReduceRows(number) => self.reduce(frame, *number),
                Instr::Scan(number) => self.scan(frame, *number),
                Instr::Nest { body, reductions, scans } => self.nest(frame, *body, reductions, scans),
                Instr::BeginPass { reductions, scans } => self.begin_pass(frame, reductions, scans),
                Instr::FinishReduction(number) => {
                    self.complete(frame, *number);
                    self.finish(frame, *number);
                }
            }
        }
    }

    /// A micro-op over each row of the tile.
    #[inline(never)]
    fn rowwise(&self, frame: &mut Frame, op: &RowwiseOp) {
        let (rows, cols) = frame.tile();
        let rows = if op.shape.rows() { rows } else { 1 };
        if rows == 1 && op.forwarding.is_none() {
            return self.single_row(frame, op, cols);
        }
        let from_on = op.from.map(|(_, advance)| advance.bytes(cols));
        let (mut to, on) = self.forward_row_dest(frame, op, from_on, op.to.1.bytes(cols));
        // What is written in pieces of rows is read first, and no hardware prefetches it.
        let partial_rows = op.forwarding.as_ref().filter(|forwarding| forwarding.partial_rows);
        let written = partial_rows.map_or(0, |forwarding| cols * forwarding.store.dtype.size());
        let mut from = op.from.map(|(slot, _)| frame.slot(slot).cast_const());
        if let (Some(function), None, 0) = (op.batched, op.prefetch, written) {
            let apart = micro::RowBatch { rows, dst_stride: on, src_strides: from_on };
            // SAFETY: the program's contract; the forms of `function` are those of the
            // operands' rows, and where it writes none of them lies.
            return unsafe { function(to, from, cols, &apart) };
        }
        let function = select_function(frame, op.to.0, op.function, op.non_temporal);
        let (mut next, next_on, bytes) = prefetch_of_row(frame, op);
        for row in 0..rows {
            // SAFETY: the program's contract; the forms of `function` are
            // those of the operands' rows.
            unsafe { self.reduce_row(frame, op, row, || function(to, from, cols, next)) }
            micro::prefetch_l1(next, bytes);
            micro::prefetch_l1(to.wrapping_add(rows * on), written);
            to = to.wrapping_add(on);
            next = next.wrapping_add(next_on);
            from = std::array::from_fn(|i| from[i].wrapping_add(from_on[i]));
        }
    }

    /// A micro-op over the only row there is.
    fn single_row(&self, frame: &mut Frame, op: &RowwiseOp, cols: usize) {
        let from = op.from.map(|(slot, _)| frame.slot(slot).cast_const());
        let function = select_function(frame, op.to.0, op.function, op.non_temporal);
        let to = frame.slot(op.to.0);
        let (next, _, bytes) = prefetch_of_row(frame, op);
        // SAFETY: as above.
        unsafe { self.reduce_row(frame, op, 0, || function(to, from, cols, next)) }
        micro::prefetch_l1(next, bytes);
    }

    /// A pass over a level.
    #[inline(never)]
    fn nest(&self, frame: &mut Frame, body: u32, reductions: &[u32], scans: &[u32]) {
        let body = &self.program.bodies[body as usize];
        let points = trip_count(self.loops_of(body));
        self.begin_pass(frame, reductions, scans);
        match frame.rows_per_job.filter(|&rows| body.level == 1 && points > rows) {
            Some(rows) => self.reduce_in_parallel(frame, body, reductions, points, rows),
            None => {
                self.run_body(frame, body, 0..points);
                for &reduction in reductions {
                    self.complete(frame, reduction);
                }
            }
        }
        for &reduction in reductions {
            self.finish(frame, reduction);
        }
    }

    /// Makes the states of a pass those of no elements.
    #[inline(never)]
    fn begin_pass(&self, frame: &mut Frame, reductions: &[u32], scans: &[u32]) {
        for &scan in scans {
            self.begin_scan(frame, scan);
        }
        for &reduction in reductions {
            self.begin(frame, reduction);
        }
    }
}

/// The loop of an instruction: what it writes in place may are written by non-temporal stores.
#[inline]
fn select_function(
    frame: &Frame,
    to: FrameSlot,
    function: MicroFn,
    non_temporal: Option<MicroFn>,
) -> MicroFn {
    let non_temporal = non_temporal.filter(|_| frame.slot(to) != frame.home(to));
    non_temporal.unwrap_or(function)
}

/// Where what an instruction prefetches with its first row is, bytes from there to the next row's, and how many
/// of each row are prefetched after it; memory at hand if nothing is.
#[inline]
fn prefetch_of_row(frame: &Frame, op: &RowwiseOp) -> (*const u8, usize, usize) {
    let Some(Prefetch { operand, distance, row_stride, bytes }) = op.prefetch else {
        return (frame.slot(op.from[0].0), 0, 0);
    };
    (frame.slot(operand).wrapping_offset(distance), row_stride, bytes.unwrap_or(0))
}
