//! Products by blocks: what each task packs and multiplies.

use std::ops::Range;

use super::grid::{Area, Grid, even, for_each, workers};
use super::kernels::{Element, Kernel, Tile};
use super::pack::{self, Layout, Part, View};
use super::{Block, Operand, Order, Output, Problem, scratch};
use crate::runtime::cpu::micro::prefetch_l2;

/// Rows of A that are copied at a time: with as many depths as a block has,
/// they take a quarter of a second-level cache of 1 MiB.
const ROWS: usize = 256;

/// Columns of a task at most, rounded up to tiles: for each task A is copied again.
const COLUMNS: usize = 1024;

/// The same where a function computes A, so that it does so less often.
const COMPUTED_COLUMNS: usize = 1024;

/// Elements of C that a task keeps in scratch at most.
const SCRATCH: usize = 1 << 16;

/// Bytes of B that are packed at once for all threads to share; few in tests,
/// so that small problems take several turns.
const SHARED: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// Multiply-adds that one thread does as fast as two.
const SERIAL: usize = 1 << 20;

/// Whether to compute the transposed product instead, where that leaves fewer
/// elements to transpose.
pub(super) fn better_transposed<T: Element>(problem: &Problem<T>) -> bool {
    let Problem { m, n, k, ref a, ref b, ref out, .. } = *problem;
    let Output::Strided { row_stride, col_stride, .. } = *out else {
        return false;
    };
    let misplaced = |stride: isize, extent: usize, size: usize| {
        let contiguous = stride == 1 || extent <= 1;
        if contiguous { 0 } else { size }
    };
    let right = |operand: &Operand<T>, rows: usize| match *operand {
        Operand::Strided { row_stride, .. } => misplaced(row_stride, rows, rows * k),
        Operand::Packed { order: Order::Rows, .. } => 0,
        Operand::Packed { order: Order::Depth, .. } => rows * k,
    };
    let plain = right(b, n) + misplaced(col_stride, n, m * n);
    let transposed = right(a, m) + misplaced(row_stride, m, m * n);
    2 * transposed < plain
}

/// Computes a product by blocks.
///
/// # Safety
/// As [`super::run_with`].
pub(super) unsafe fn run<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) {
    let kernel = &kernel.suited(problem.n);
    let job = Job::new(problem, kernel, workers(problem.work(), SERIAL));
    if job.shares() {
        let columns = job.shared_columns();
        for batch in 0..problem.batch {
            for start in (0..problem.n).step_by(columns) {
                // SAFETY: the caller's promise.
                unsafe { run_shared(&job, batch, start..problem.n.min(start + columns)) };
            }
        }
        return;
    }
    let grid = job.grid(0..problem.batch, 0..problem.n, problem.m);
    // SAFETY: the caller's promise.
    job.for_each(&grid, |area| unsafe { task(&job, &area, None) });
}

/// Computes a product by blocks on the calling thread.
///
/// # Safety
/// As [`super::run_with`].
pub(super) unsafe fn run_alone<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) {
    let kernel = &kernel.suited(problem.n);
    let job = Job::new(problem, kernel, 1);
    let grid = job.grid(0..problem.batch, 0..problem.n, problem.m);
    // SAFETY: the caller's promise.
    job.for_each(&grid, |area| unsafe { task(&job, &area, None) });
}

/// A problem and what was decided about it.
struct Job<'a, T: 'static> {
    problem: &'a Problem<'a, T>,
    kernel: &'a Kernel<T>,
    /// Depths of a block: they depend on nothing but the shape.
    depth: usize,
    /// Threads worth using.
    workers: usize,
    /// Whether B is read where it lies.
    right_in_place: bool,
    /// Whether C is summed where it goes.
    direct: bool,
}

impl<'a, T: Element> Job<'a, T> {
    fn new(problem: &'a Problem<'a, T>, kernel: &'a Kernel<T>, workers: usize) -> Self {
        let depth = depth_block::<T>(problem.k);
        let direct = match problem.out {
            Output::Strided { col_stride, .. } => col_stride == 1 || problem.n == 1,
            Output::Blocks(_) => false,
        };
        Job { problem, kernel, depth, workers, right_in_place: right_in_place(problem, depth), direct }
    }

    /// The blocks of depths; a single empty one where there are none, which
    /// writes zeros.
    fn depths(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (k, step) = (self.problem.k, self.depth);
        (0..k.div_ceil(step).max(1)).map(move |i| i * step..k.min((i + 1) * step))
    }

    /// Whether packing B once for all tasks pays.
    fn shares(&self) -> bool {
        /// Bytes of B that one thread packs for itself.
        const OWN: usize = 512 << 10;
        let Problem { batch, m, n, .. } = *self.problem;
        let column = self.problem.k.saturating_mul(size_of::<T>());
        let own = n.saturating_mul(column) <= OWN && (self.workers == 1 || batch >= 2 * self.workers);
        let fits = self.least_shared().saturating_mul(column) <= 4 * SHARED;
        !self.right_in_place && m > ROWS && !own && fits
    }

    /// Columns of B that are worth sharing.
    fn least_shared(&self) -> usize {
        4 * self.kernel.columns
    }

    /// Columns of B to share at a time.
    fn shared_columns(&self) -> usize {
        let Problem { n, k, .. } = *self.problem;
        let most = (SHARED / size_of::<T>() / k.max(1)).max(self.least_shared());
        even(n, most, self.kernel.columns)
    }

    /// Rows of a task where B is shared, so that nothing is copied again however few they are. Cores are seldom equally
    /// quick, and with small tasks each does as much as it can.
    fn shared_rows(&self) -> usize {
        /// Tasks for each thread.
        const EACH: usize = 8;
        /// Rows that are worth reading a panel of B for.
        const LEAST: usize = 64;
        self.problem.m.div_ceil(EACH * self.workers).clamp(LEAST, ROWS)
    }

    /// Cuts columns of some batches, and at most `rows` rows at a time.
    fn grid(&self, batches: Range<usize>, cols: Range<usize>, rows: usize) -> Grid {
        let m = self.problem.m;
        let most = if self.computes_left() { COMPUTED_COLUMNS } else { COLUMNS };
        let col_step = even(cols.len(), most, self.kernel.columns);
        let most = if self.direct { rows } else { rows.min(SCRATCH / col_step) };
        let row_step = even(m, most, self.kernel.rows);
        let mut grid = Grid { batches, rows: m, cols, row_step, col_step };
        if self.workers > 1 {
            self.refine(&mut grid);
        }
        grid
    }

    /// Halves tasks until there are some for each thread.
    fn refine(&self, grid: &mut Grid) {
        /// Multiply-adds of a task that is worth having.
        const LEAST: usize = 1 << 17;
        let Kernel { rows, columns, .. } = *self.kernel;
        while grid.tasks() < 2 * self.workers {
            let work = grid.row_step * grid.col_step * self.problem.k;
            let (tall, wide) = (grid.row_step > 4 * rows, grid.col_step > columns);
            if work < 2 * LEAST || !(tall || wide) {
                return;
            }
            // Tasks that share columns copy the same of B, where it is copied, and tasks that
            // share rows the same of A.
            let least = if self.right_in_place { 4 * grid.row_step } else { grid.row_step };
            let across = !self.computes_left() && grid.col_step >= least;
            if wide && (!tall || across) {
                grid.col_step = even(grid.col_step, grid.col_step.div_ceil(2), columns);
            } else {
                grid.row_step = even(grid.row_step, grid.row_step.div_ceil(2), rows);
            }
        }
    }

    fn computes_left(&self) -> bool {
        matches!(self.problem.a, Operand::Packed { .. })
    }

    /// Calls `body` with each task's area, small ones in groups.
    fn for_each(&self, grid: &Grid, body: impl Fn(Area) + Sync) {
        /// Multiply-adds that are worth handing to another thread.
        const LEAST: usize = 1 << 16;
        let work = (grid.row_step * grid.col_step).saturating_mul(self.problem.k).max(1);
        for_each(self.workers, grid.tasks(), LEAST.div_ceil(work), |index| body(grid.area(index)));
    }
}

/// Depths of a block, so that a panel of B stays in cache; about equal blocks.
fn depth_block<T>(k: usize) -> usize {
    let most = (1024 / size_of::<T>()).clamp(64, 256);
    even(k, most, 8).max(1)
}

fn right_in_place<T: Element>(problem: &Problem<T>, depth: usize) -> bool {
    /// Bytes that a block's rows may span and still stay in cache.
    const SPAN: usize = 128 << 10;
    let Operand::Strided { row_stride, depth_stride, .. } = problem.b else {
        return false;
    };
    let line = depth_stride.unsigned_abs().saturating_mul(size_of::<T>());
    (row_stride == 1 || problem.n == 1) && line.saturating_mul(depth) <= SPAN
}

fn left_in_place<T: Element>(operand: &Operand<T>, kernel: &Kernel<T>, cols: usize) -> bool {
    /// Bytes between rows that count as near.
    const NEAR: usize = 1024;
    let Operand::Strided { depth_stride, row_stride, .. } = *operand else {
        return false;
    };
    let near = row_stride.unsigned_abs().saturating_mul(size_of::<T>()) <= NEAR;
    depth_stride == 1 && (near || cols <= 2 * kernel.columns)
}

/// B packed for several tasks: from a column on, all depths.
struct Shared<T> {
    base: *mut T,
    layout: Layout,
    start: usize,
}

// SAFETY: tasks write disjoint parts, then only read.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

/// Packs some columns of B with all threads, then computes them.
unsafe fn run_shared<T: Element>(job: &Job<T>, batch: usize, cols: Range<usize>) {
    let layout = Layout::new(&job.problem.b, job.kernel, cols.len());
    scratch::with(layout.room(job.problem.k), |base: *mut T| {
        let shared = Shared { base, layout, start: cols.start };
        // SAFETY: the room holds what is packed; the caller's promise.
        unsafe { pack_shared(job, batch, &cols, &shared) };
        let grid = job.grid(batch..batch + 1, cols, job.shared_rows());
        // SAFETY: the caller's promise.
        job.for_each(&grid, |area| unsafe { task(job, &area, Some(&shared)) });
    });
}

unsafe fn pack_shared<T: Element>(job: &Job<T>, batch: usize, cols: &Range<usize>, shared: &Shared<T>) {
    /// Tiles of columns that a thread packs at a time, in long lines.
    const TILES: usize = 24;
    let width = job.kernel.columns * TILES;
    let groups = cols.len().div_ceil(width);
    let depths: Vec<_> = job.depths().collect();
    for_each(job.workers, depths.len() * groups, 1, |index| {
        let depth = depths[index / groups].clone();
        let col = index % groups * width;
        let rows = cols.start + col..cols.end.min(cols.start + col + width);
        let view = shared.layout.view(shared.base.cast_const(), depth.start, depth.len(), col);
        let room = pack::right_room(&job.problem.b, rows.len(), depth.len());
        let part = Part { batch, rows, depth };
        scratch::with(room, |room| {
            // SAFETY: the caller's promise; parts do not overlap.
            unsafe { pack::right(&job.problem.b, job.kernel, &part, view, room) }
        });
    });
}

/// A block of C being summed.
#[derive(Clone, Copy)]
struct Sum<T> {
    ptr: *mut T,
    /// Elements from a row to the next.
    ld: isize,
}

/// Computes a block of C, over all depths.
unsafe fn task<T: Element>(job: &Job<T>, area: &Area, shared: Option<&Shared<T>>) {
    let (b, cols) = (&job.problem.b, area.cols.len());
    let own = shared.is_none() && !job.right_in_place;
    let layout = Layout::new(b, job.kernel, cols);
    let depth = job.depth.min(job.problem.k);
    let sizes = [
        pack::left_room(area.rows.len().min(ROWS), depth),
        if own { layout.room(depth) } else { 0 },
        if own { pack::right_room(b, cols, depth) } else { 0 },
        if job.direct { 0 } else { area.rows.len() * scratch::padded::<T>(cols) },
    ]
    .map(scratch::padded::<T>);
    scratch::with(sizes.iter().sum(), |left: *mut T| {
        let right = left.wrapping_add(sizes[0]);
        let spare = right.wrapping_add(sizes[1]);
        let sum = destination(job, area, spare.wrapping_add(sizes[2]));
        for depth in job.depths() {
            let part = Part { batch: area.batch, rows: area.cols.clone(), depth: depth.clone() };
            // SAFETY: the room is as large as each function asks.
            unsafe {
                let b = right_view(job, &part, shared, layout, [right, spare]);
                multiply_rows(job, area, depth, left, b, sum);
            }
        }
        // SAFETY: the block is complete.
        unsafe { deliver(job, area, sum) };
    });
}

/// Where a task sums its block.
fn destination<T: Element>(job: &Job<T>, area: &Area, room: *mut T) -> Sum<T> {
    match job.problem.out {
        Output::Strided { ptr, row_stride, col_stride, batch } if job.direct => {
            let offset = area.rows.start as isize * row_stride + area.cols.start as isize * col_stride;
            Sum { ptr: ptr.wrapping_offset(batch(area.batch) + offset), ld: row_stride }
        }
        Output::Strided { .. } | Output::Blocks(_) => {
            Sum { ptr: room, ld: scratch::padded::<T>(area.cols.len()) as isize }
        }
    }
}

/// A block of B: shared, where it lies, or packed into the first room.
unsafe fn right_view<T: Element>(
    job: &Job<T>,
    part: &Part,
    shared: Option<&Shared<T>>,
    layout: Layout,
    [room, spare]: [*mut T; 2],
) -> View<T> {
    let depth = part.depth.len();
    if let Some(shared) = shared {
        let col = part.rows.start - shared.start;
        return shared.layout.view(shared.base.cast_const(), part.depth.start, depth, col);
    }
    if job.right_in_place
        && let Operand::Strided { ptr, row_stride, depth_stride, batch } = job.problem.b
    {
        let ptr = pack::first(ptr, row_stride, depth_stride, batch, part);
        return View { ptr, step: job.kernel.columns as isize, row: 1, depth: depth_stride };
    }
    let view = layout.view(room.cast_const(), 0, depth, 0);
    // SAFETY: the caller's promise.
    unsafe { pack::right(&job.problem.b, job.kernel, part, view, spare) };
    view
}

/// Multiplies a task's rows of A, some at a time, with a block of B.
unsafe fn multiply_rows<T: Element>(
    job: &Job<T>,
    area: &Area,
    depth: Range<usize>,
    room: *mut T,
    b: View<T>,
    sum: Sum<T>,
) {
    let Area { batch, ref rows, ref cols } = *area;
    let accumulate = depth.start > 0;
    let in_place = left_in_place(&job.problem.a, job.kernel, cols.len());
    for start in rows.clone().step_by(ROWS) {
        let part = Part { batch, rows: start..rows.end.min(start + ROWS), depth: depth.clone() };
        let sum = Sum { ptr: sum.ptr.wrapping_offset((start - rows.start) as isize * sum.ld), ..sum };
        let extents = [part.rows.len(), cols.len(), depth.len()];
        // SAFETY: the caller's promise.
        unsafe {
            let a = pack::left(&job.problem.a, job.kernel, &part, in_place, room);
            multiply(job.kernel, a, b, extents, sum, accumulate);
        }
    }
}

/// What a tile asks for of the next panel of B, which lies where this one ends. Panels that
/// threads share come from far away, and the first tile of each would wait for all of it.
struct Ahead {
    /// Bytes of a panel.
    panel: usize,
    /// Bytes to ask for at each tile.
    each: usize,
}

impl Ahead {
    fn new<T>(kernel: &Kernel<T>, b: &View<T>, [rows, depth]: [usize; 2]) -> Ahead {
        /// Bytes of a line of the cache.
        const LINE: usize = 64;
        let panel = b.step.unsigned_abs() * size_of::<T>();
        let follows = b.depth == kernel.columns as isize && b.step == b.depth * depth as isize;
        let tiles = rows.div_ceil(kernel.rows);
        let each = if follows { panel.div_ceil(tiles).next_multiple_of(LINE) } else { 0 };
        Ahead { panel, each }
    }

    /// Asks for the part that belongs to a tile of the panel at `right`.
    fn ask<T>(&self, right: *const T, tile: usize) {
        let start = self.each * tile;
        if start < self.panel {
            let at = right.cast::<u8>().wrapping_add(self.panel + start);
            prefetch_l2(at, self.each.min(self.panel - start));
        }
    }
}

/// Multiplies a block of A with a block of B, tile by tile.
unsafe fn multiply<T: Element>(
    kernel: &Kernel<T>,
    a: View<T>,
    b: View<T>,
    [rows, cols, depth]: [usize; 3],
    sum: Sum<T>,
    accumulate: bool,
) {
    let ahead = Ahead::new(kernel, &b, [rows, depth]);
    for (panel, j) in (0..cols).step_by(kernel.columns).enumerate() {
        let width = kernel.columns.min(cols - j);
        let vectors = width.div_ceil(kernel.lanes);
        let last = width - (vectors - 1) * kernel.lanes;
        let right = b.ptr.wrapping_offset(panel as isize * b.step);
        for (line, i) in (0..rows).step_by(kernel.rows).enumerate() {
            let height = kernel.rows.min(rows - i);
            ahead.ask(right, line);
            let tile = Tile {
                a: a.ptr.wrapping_offset(line as isize * a.step),
                a_row: a.row,
                a_depth: a.depth,
                b: right,
                b_depth: b.depth,
                depth,
                c: sum.ptr.wrapping_offset(i as isize * sum.ld + j as isize),
                c_row: sum.ld,
                last,
                accumulate,
            };
            // SAFETY: the views cover the tile; C is the caller's block.
            unsafe { kernel.tiles[height - 1][vectors - 1](&tile) };
        }
    }
}

/// Hands a finished block over, unless it was summed where it belongs.
unsafe fn deliver<T: Element>(job: &Job<T>, area: &Area, sum: Sum<T>) {
    let Area { batch: index, ref rows, ref cols } = *area;
    match job.problem.out {
        Output::Blocks(function) => {
            let (rows, cols) = (rows.clone(), cols.clone());
            function(Block { batch: index, rows, cols, ptr: sum.ptr, ld: sum.ld as usize });
        }
        Output::Strided { ptr, row_stride, col_stride, batch } if !job.direct => {
            let offset = rows.start as isize * row_stride + cols.start as isize * col_stride;
            let to = ptr.wrapping_offset(batch(index) + offset);
            let (strides, extents) = ([row_stride, col_stride], [rows.len(), cols.len()]);
            // SAFETY: both blocks hold every element.
            unsafe { pack::scatter(job.kernel, sum.ptr, sum.ld, to, strides, extents) };
        }
        Output::Strided { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::private::Sealed;
    use super::*;

    /// What is decided about `m` by `n` over a depth of `k` for two threads.
    fn decided<R>([m, n, k]: [usize; 3], ask: impl Fn(&Job<'_, f32>) -> R) -> R {
        let (batch, width) = (&|_: usize| 0, n as isize);
        let ptr = std::ptr::dangling::<f32>();
        let a = Operand::Strided { ptr, row_stride: k as isize, depth_stride: 1, batch };
        let b = Operand::Strided { ptr, row_stride: 1, depth_stride: width, batch };
        let out = Output::Strided { ptr: ptr.cast_mut(), row_stride: width, col_stride: 1, batch };
        let problem = Problem { batch: 1, m, n, k, a, b, out };
        ask(&Job::new(&problem, &<f32 as Sealed>::kernels()[0], 2))
    }

    #[test]
    fn tasks_divide_what_is_larger_to_copy() {
        let copied = |m: usize, n: usize| {
            let grid = decided([m, n, 784], |job| {
                assert!(!job.shares(), "each task copies for itself");
                job.grid(0..1, 0..n, m)
            });
            n.div_ceil(grid.col_step) * m + m.div_ceil(grid.row_step) * n
        };
        // By rows or by columns alone 2,304 or 1,536; and 768 or 1,152.
        assert_eq!((copied(256, 512), copied(256, 128)), (1536, 768));
    }

    #[test]
    fn tasks_that_share_copies_are_small() {
        for (m, tasks) in [(1024, 15), (512, 7), (257, 4)] {
            // So few depths that even the widest tile's columns are shared.
            let grid = decided([m, 1024, 256], |job| {
                assert!(job.shares());
                job.grid(0..1, 0..1024, job.shared_rows())
            });
            assert!(grid.tasks() >= tasks, "{m} rows: {} tasks", grid.tasks());
        }
    }
}
