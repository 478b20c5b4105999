//! Interpretation of tile programs.
//!
//! A thread runs bodies in a [`Frame`]: pointers by slot, current values of
//! addresses, the current tile's size. All memory goes through raw pointers;
//! what makes that right is stated once here and referred to as *the
//! program's contract*: the kernel's accesses lie inside its buffers (the
//! verifier of kernels and the planner see to that), slots point at registers
//! that [`super::registers`] keeps apart while both live or at memory of the
//! launch, every register has room for a whole tile of its class, no two jobs
//! write the same elements, and an output lies over an input only where the
//! kernel has no other output and reads of that input just the elements it
//! then writes, each before its value is complete.

pub mod frame;
mod gather;
mod lines;
mod load;
mod reduce;
mod scatter;
mod share;
mod store;

use std::ops::Range;

use smallvec::SmallVec;

use crate::runtime::cpu::memory::{Memory, inputs_of, outputs_of};
use crate::runtime::cpu::micro::{self, DeferredStore, MicroFn, NonTemporalLoop, OperandPtrs};
use crate::runtime::cpu::threads;
use crate::runtime::cpu::tile::program::{
    Ahead, Asks, Body, Class, Lines, Loops, Program, PutOff, Sharing, Slot, Step, units,
};
use crate::runtime::{Bindings, IndexStatus};

pub use frame::{Block, Frame};
pub use lines::holds;
pub use scatter::{ScatterFn, scatter_function};

/// A program and what one launch runs it on.
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// The program's loops by level, or a part of them.
    pub loops: &'a [Loops],
    /// Inputs, then outputs.
    pub memory: SmallVec<[Memory; 12]>,
    /// Scalar arguments.
    pub scalars: &'a [u64],
    /// Where index errors go.
    pub status: &'a IndexStatus,
}

/// Runs the programs of a kernel's pieces. Those that are shared by tiles run side by side, each
/// job taking a part of each piece: neighbours in memory are mostly in pieces that walk alike.
pub fn launch(programs: &[Program], bindings: &Bindings<'_>) {
    let mut together: SmallVec<[Launch<'_>; 4]> = SmallVec::new();
    let mut jobs = 0;
    for program in programs.iter().filter(|program| !program.empty) {
        let launch = Launch::new(program, bindings);
        let tiles = launch.units(0);
        match program.sharing {
            Sharing::Serial => launch.tiles(tiles, None),
            Sharing::Rows(rows) => launch.tiles(tiles, Some(rows)),
            Sharing::Apart(jobs) => scatter::launch_scatter(&launch, jobs),
            Sharing::Tiles(count) => {
                jobs += tiles.div_ceil(count);
                together.push(launch);
            }
        }
    }
    threads::share(jobs, |mine| share_tiles(&together, mine, jobs));
}

/// Runs the tiles of some of all jobs on this thread.
fn share_tiles(launches: &[Launch<'_>], mine: impl Iterator<Item = usize>, jobs: usize) {
    let mut frames: SmallVec<[Frame; 4]> = launches.iter().map(frame::take).collect();
    for job in mine {
        for (launch, frame) in launches.iter().zip(&mut frames) {
            let tiles = launch.units(0);
            launch.body(frame, launch.root(), tiles * job / jobs..tiles * (job + 1) / jobs);
        }
    }
    frames.into_iter().for_each(frame::give_back);
    // Stores past the caches must be seen by whoever reads next. This waits for all of them,
    // so that it comes once and not after each job.
    micro::nt_fence();
}

impl<'a> Launch<'a> {
    /// A launch on some memory.
    pub fn new(program: &'a Program, bindings: &Bindings<'a>) -> Launch<'a> {
        let inputs = inputs_of(bindings);
        let outputs = outputs_of(bindings);
        let memory = inputs.into_iter().chain(outputs).collect();
        Launch { program, loops: &program.loops, memory, scalars: bindings.scalars, status: bindings.status }
    }

    /// Runs so many tiles of level 0 on this thread; level 1 shared between
    /// threads where a number of its rows per job is given.
    fn tiles(&self, tiles: usize, shared: Option<usize>) {
        frame::with(self, |frame| {
            frame.shared = shared;
            self.body(frame, self.root(), 0..tiles);
        });
        // Stores past the caches must be seen by whoever reads next.
        micro::nt_fence();
    }

    /// Number of iterations of a level.
    pub fn units(&self, level: u8) -> usize {
        units(&self.loops[level as usize])
    }

    /// The loops of a body.
    pub fn loops_of(&self, body: &'a Body) -> &'a Loops {
        body.loops.as_ref().unwrap_or(&self.loops[body.level as usize])
    }

    /// The body of level 0.
    pub fn root(&self) -> &'a Body {
        self.program.bodies.last().expect("a program has a body for level 0")
    }

    /// Runs a body at some points of its level, counted in row-major order.
    fn body(&self, frame: &mut Frame, body: &Body, points: Range<usize>) {
        if points.is_empty() {
            return;
        }
        let loops = self.loops_of(body);
        if let Some((load, number)) = self.rows_taken(body, loops) {
            return self.take_rows(frame, body, load, number, points);
        }
        frame.enter(self.program, body, loops, points.start);
        self.hoisted(frame, body, 0);
        self.steps(frame, &body.steps);
        for _ in 1..points.len() {
            let advanced = frame.advance(self.program, body, loops);
            if advanced + 1 < loops.len() {
                self.hoisted(frame, body, advanced + 1);
            } else {
                frame.follow(body);
            }
            self.steps(frame, &body.steps);
        }
    }

    /// Runs the steps hoisted out of all but the first so many loops or more.
    pub fn hoisted(&self, frame: &mut Frame, body: &Body, from: usize) {
        for (_, steps) in body.hoisted.iter().filter(|(loops, _)| *loops >= from) {
            self.steps(frame, steps);
        }
    }

    /// Runs steps at the frame's current tile. What they do are functions that stay functions:
    /// with all of their code in here, each call keeps twenty addresses for whichever comes.
    pub fn steps(&self, frame: &mut Frame, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Micro { function, streaming, to, from, class, asks, .. } => {
                    let from = from.map(|slot| frame.slot(slot).cast_const());
                    let next = match asks {
                        Asks::For(slot, bytes) => frame.slot(*slot).wrapping_add(*bytes),
                        Asks::Never | Asks::Nothing => from[0],
                    };
                    let function = fitting(frame, *to, *function, *streaming);
                    // SAFETY: the program's contract; the forms of `function`
                    // are the operands' classes.
                    unsafe { function(frame.slot(*to), from, frame.count(*class), next) }
                }
                Step::Lines(lines) => self.by_line(frame, lines),
                Step::PutOff(step) => self.put_off(frame, step),
                Step::Expand { function, to, from } => {
                    let (rows, cols) = frame.tile();
                    // SAFETY: the program's contract.
                    unsafe { function(frame.slot(*to), frame.slot(*from), rows, cols) }
                }
                Step::Index { to, value, class } => self.index(frame, *to, *value, *class),
                Step::Inside { to, bound, class } => self.inside(frame, *to, bound, *class),
                Step::Check(index, extent, class) => self.check(frame, *index, *extent, *class),
                Step::Load(load) => self.load(frame, load),
                Step::Gather(gather) => self.gather(frame, gather),
                Step::Aim(aim) => self.aim(frame, aim),
                Step::Store(store) => self.store(frame, store),
                Step::FromBlock(block) => self.from_block(frame, block),
                Step::AimBlock(block) => self.aim_block(frame, block),
                Step::ToBlock(block) => self.to_block(frame, block),
                Step::Scatter(scatter) => self.scatter(frame, scatter),
                Step::Update(number) => self.update(frame, *number),
                Step::Reduce(number) => self.reduce(frame, *number),
                Step::Scan(number) => self.scan(frame, *number),
                Step::Nest { body, reductions, scans } => self.nest(frame, *body, reductions, scans),
                Step::Begin { reductions, scans } => self.begin_pass(frame, reductions, scans),
                Step::Finish(number) => {
                    self.complete(frame, *number);
                    self.finish(frame, *number);
                }
            }
        }
    }

    /// A micro-op over each line of the tile.
    #[inline(never)]
    fn by_line(&self, frame: &mut Frame, lines: &Lines) {
        let (rows, cols) = frame.tile();
        let rows = if lines.class.rows() { rows } else { 1 };
        if rows == 1 && lines.aim.is_none() {
            return self.one_line(frame, lines, cols);
        }
        let from_on = lines.from.map(|(_, advance)| advance.bytes(cols));
        let (mut to, on) = self.aim_lines(frame, lines, from_on, lines.to.1.bytes(cols));
        // What is written in pieces of rows is read first, and no hardware foresees it.
        let pieces = lines.aim.as_ref().filter(|aim| aim.pieces);
        let written = pieces.map_or(0, |aim| cols * aim.store.dtype.size());
        let mut from = lines.from.map(|(slot, _)| frame.slot(slot).cast_const());
        if let (Some(function), None, 0) = (lines.short, lines.ahead, written) {
            let apart = micro::RowBatch { rows, dst_stride: on, src_strides: from_on };
            // SAFETY: the program's contract; the forms of `function` are those of the
            // operands' lines, and where it writes none of them lies.
            return unsafe { function(to, from, cols, &apart) };
        }
        let function = fitting(frame, lines.to.0, lines.function, lines.streaming);
        for row in 0..rows {
            // SAFETY: the program's contract; the forms of `function` are
            // those of the operands' lines.
            unsafe { self.whole_line(frame, lines, row, || line(function, lines, to, from, cols)) }
            micro::prefetch_l1(to.wrapping_add(rows * on), written);
            to = to.wrapping_add(on);
            from = std::array::from_fn(|i| from[i].wrapping_add(from_on[i]));
        }
    }

    /// A micro-op over the only line there is.
    fn one_line(&self, frame: &mut Frame, lines: &Lines, cols: usize) {
        let from = lines.from.map(|(slot, _)| frame.slot(slot).cast_const());
        let function = fitting(frame, lines.to.0, lines.function, lines.streaming);
        let to = frame.slot(lines.to.0);
        if let Some(both) = lines.overlap
            && let Some(late) = frame.late.take()
        {
            let next = from[0].wrapping_add(lines.ahead.map_or(0, |ahead| ahead.after));
            // SAFETY: the program's contract; what was put off is of an earlier iteration.
            return unsafe { self.whole_line(frame, lines, 0, || both(to, from, cols, next, &late)) };
        }
        // SAFETY: as above.
        unsafe { self.whole_line(frame, lines, 0, || line(function, lines, to, from, cols)) }
    }

    /// Leaves a product that writes a store's values in place for the next iteration.
    #[inline(never)]
    fn put_off(&self, frame: &mut Frame, off: &PutOff) {
        debug_assert!(frame.late.is_none(), "the iteration's loop does what was put off before");
        let PutOff { step, function, to, number, line } = off;
        let [at, from] = [*to, line[0]].map(|slot| frame.slot(slot).cast::<f32>());
        // SAFETY: the program's contract: a number, `f32` as those of late products are.
        let factor = unsafe { frame.slot(*number).cast::<f32>().read() };
        let late = DeferredStore { function: *function, to: at, from, factor, n: frame.count(Class::COL) };
        if frame.slot(*to) == frame.home(*to) || !late.fills_cache_lines() {
            return self.steps(frame, std::slice::from_ref(step));
        }
        frame.late = Some(late);
        frame.trade(*line);
    }

    /// A pass over a level.
    #[inline(never)]
    fn nest(&self, frame: &mut Frame, body: u32, reductions: &[u32], scans: &[u32]) {
        let body = &self.program.bodies[body as usize];
        let points = units(self.loops_of(body));
        self.begin_pass(frame, reductions, scans);
        match frame.shared.filter(|&rows| body.level == 1 && points > rows) {
            Some(rows) => self.share(frame, body, reductions, points, rows),
            None => {
                self.body(frame, body, 0..points);
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

/// The loop of a step: what it writes in place may pass the caches by.
#[inline]
fn fitting(frame: &Frame, to: Slot, function: MicroFn, streaming: Option<NonTemporalLoop>) -> MicroFn {
    let streaming = streaming.filter(|_| frame.slot(to) != frame.home(to));
    streaming.map_or(function, |streaming| streaming.function)
}

/// A micro-op over one line, and what is asked for meanwhile.
///
/// # Safety
/// The contract of the micro-op.
#[inline]
unsafe fn line(function: MicroFn, lines: &Lines, to: *mut u8, from: OperandPtrs, cols: usize) {
    let Ahead { operand, after, bytes } = lines.ahead.unwrap_or_default();
    let next = from[operand].wrapping_add(after);
    // SAFETY: the caller's promise.
    unsafe { function(to, from, cols, next) }
    if !lines.asks {
        micro::prefetch_l1(next, bytes);
    }
}
