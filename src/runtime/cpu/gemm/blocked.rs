//! Products by blocks: which part of C each task computes, and how.

use std::ops::Range;

use rayon::prelude::*;

use super::kernels::{Element, Kernel, Tile};
use super::pack::{self, Layout, Part, View};
use super::{Block, Operand, Output, Problem, scratch, workers};

/// Rows of A that are copied at a time.
const ROWS: usize = 128;

/// Columns of a task at most, rounded up to tiles.
const COLUMNS: usize = 480;

/// Elements of C that a task keeps in scratch.
const SCRATCH: usize = 1 << 16;

/// Bytes of B that are packed at once for all threads to share.
const SHARED: usize = 16 << 20;

/// Whether to compute the transposed product instead, where that spares
/// transposing more.
pub(super) fn better_transposed<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) -> bool {
    let Output::Strided { row_stride, col_stride, .. } = problem.out else {
        return false;
    };
    if row_stride == 1 && col_stride != 1 && problem.m > 1 {
        return true;
    }
    // Few rows: broadcasting B from where it lies costs less than packing it.
    let Operand::Strided { row_stride, depth_stride, .. } = problem.b else {
        return false;
    };
    problem.m <= kernel.lanes && depth_stride == 1 && row_stride != 1 && problem.n > kernel.columns
}

/// Computes a product by blocks.
///
/// # Safety
/// As [`super::run_with`].
pub(super) unsafe fn run<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) {
    let job = Job::new(problem, kernel);
    if job.shares() {
        for batch in 0..problem.batch {
            let columns = shared_columns::<T>(kernel, problem);
            for start in (0..problem.n).step_by(columns) {
                // SAFETY: the caller's promise.
                unsafe { run_shared(&job, batch, start..problem.n.min(start + columns)) };
            }
        }
        return;
    }
    let grid = Grid::new(&job, 0..problem.n, problem.batch, problem.m);
    // SAFETY: the caller's promise.
    grid.for_each(&job, |batch, rows, cols| unsafe { task(&job, batch, rows, cols, None) });
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
}

/// B packed for several tasks: from a column on, all depths.
struct Shared<T> {
    base: *const T,
    layout: Layout,
    start: usize,
}

// SAFETY: read-only while tasks share it.
unsafe impl<T: Sync> Sync for Shared<T> {}

/// A pointer that tasks write disjoint parts through.
struct Disjoint<T>(*mut T);

// SAFETY: see the type.
unsafe impl<T: Send> Sync for Disjoint<T> {}

impl<T> Disjoint<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

impl<'a, T: Element> Job<'a, T> {
    fn new(problem: &'a Problem<'a, T>, kernel: &'a Kernel<T>) -> Self {
        let depth = depth_block::<T>(problem.k);
        let right_in_place = right_in_place(problem, kernel, depth);
        Job { problem, kernel, depth, workers: workers(problem.work()), right_in_place }
    }

    /// Whether packing B once for all tasks pays.
    fn shares(&self) -> bool {
        /// Bytes of B that one thread packs for itself.
        const OWN: usize = 512 << 10;
        let Problem { batch, m, n, k, .. } = *self.problem;
        let small = n.saturating_mul(k).saturating_mul(size_of::<T>()) <= OWN;
        !self.right_in_place
            && m > ROWS
            && !(small && (batch >= 2 * self.workers || self.workers == 1))
    }

    fn depths(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (k, step) = (self.problem.k, self.depth);
        (0..k.div_ceil(step).max(1)).map(move |i| i * step..k.min((i + 1) * step))
    }

    /// Whether C can be summed where it goes.
    fn direct(&self) -> bool {
        match self.problem.out {
            Output::Strided { col_stride, .. } => col_stride == 1 || self.problem.n == 1,
            Output::Blocks(_) => false,
        }
    }
}

/// Depths of a block, so that a panel of B stays in cache; about equal blocks.
fn depth_block<T>(k: usize) -> usize {
    let most = (1024 / size_of::<T>()).clamp(64, 256);
    let blocks = k.div_ceil(most).max(1);
    k.div_ceil(blocks).next_multiple_of(8).max(1)
}

fn right_in_place<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>, depth: usize) -> bool {
    /// Bytes that a block's rows may span and still stay in cache.
    const SPAN: usize = 128 << 10;
    let Operand::Strided { row_stride, depth_stride, .. } = problem.b else {
        return false;
    };
    let span = depth_stride.unsigned_abs().saturating_mul(depth).saturating_mul(size_of::<T>());
    (row_stride == 1 || problem.n == 1) && (problem.m <= kernel.rows || span <= SPAN)
}

fn shared_columns<T>(kernel: &Kernel<T>, problem: &Problem<T>) -> usize {
    let fit = SHARED / size_of::<T>() / problem.k.max(1);
    let least = 2 * kernel.columns;
    let chunks = problem.n.div_ceil(fit.max(least));
    problem.n.div_ceil(chunks).next_multiple_of(kernel.columns)
}

/// Packs some columns of B with all threads, then computes them.
unsafe fn run_shared<T: Element>(job: &Job<T>, batch: usize, cols: Range<usize>) {
    let problem = job.problem;
    let layout = Layout::new(&problem.b, job.kernel, cols.len());
    scratch::with(layout.room(problem.k), |base: *mut T| {
        let to = Disjoint(base);
        // SAFETY: tasks pack disjoint parts of the room.
        unsafe { pack_shared(job, batch, &cols, &layout, &to) };
        let shared = Shared { base, layout, start: cols.start };
        let grid = Grid::new(job, cols, 1, ROWS);
        // SAFETY: the caller's promise.
        grid.for_each(job, |_, rows, cols| unsafe { task(job, batch, rows, cols, Some(&shared)) });
    });
}

unsafe fn pack_shared<T: Element>(
    job: &Job<T>,
    batch: usize,
    cols: &Range<usize>,
    layout: &Layout,
    to: &Disjoint<T>,
) {
    let width = job.kernel.columns * 8;
    let groups = cols.len().div_ceil(width);
    let depths: Vec<_> = job.depths().collect();
    let pack = |index: usize| {
        let depth = depths[index / groups].clone();
        let col = index % groups * width;
        let rows = cols.start + col..cols.end.min(cols.start + col + width);
        let view = layout.view(to.get(), depth.start, depth.len(), col);
        let room = pack::right_room(&job.problem.b, rows.len(), depth.len());
        let part = Part { batch, rows, depth };
        scratch::with(room, |room| {
            // SAFETY: the caller's promise; parts do not overlap.
            unsafe { pack::right(&job.problem.b, job.kernel, &part, view, room) }
        });
    };
    for_each(job.workers, depths.len() * groups, 1, pack);
}

/// How C is cut into tasks.
struct Grid {
    batch: usize,
    cols: Range<usize>,
    rows: usize,
    row_step: usize,
    col_step: usize,
}

impl Grid {
    /// Cuts `cols` and all rows, at most `row_step` of them to a task.
    fn new<T: Element>(job: &Job<T>, cols: Range<usize>, batch: usize, row_step: usize) -> Grid {
        let rows = job.problem.m;
        let mut grid = Grid { batch, cols, rows, row_step: row_step.min(rows), col_step: 0 };
        grid.col_step = even(grid.cols.len(), COLUMNS, job.kernel.columns);
        if !job.direct() {
            grid.row_step =
                even(rows, (SCRATCH / grid.col_step).min(grid.row_step), job.kernel.rows);
        }
        if job.workers > 1 {
            grid.refine(job);
        }
        grid
    }

    /// Halves tasks until there are some for each thread.
    fn refine<T: Element>(&mut self, job: &Job<T>) {
        /// Multiply-adds of a task that is worth having.
        const LEAST: usize = 1 << 17;
        let Kernel { rows, columns, .. } = *job.kernel;
        while self.tasks() < 4 * job.workers {
            let work = self.row_step * self.col_step * job.problem.k;
            let (tall, wide) = (self.row_step > 4 * rows, self.col_step > columns);
            if work < 2 * LEAST || !(tall || wide) {
                return;
            }
            if wide && (!tall || self.col_step >= 2 * self.row_step) {
                self.col_step = even(self.col_step, self.col_step.div_ceil(2), columns);
            } else {
                self.row_step = even(self.row_step, self.row_step.div_ceil(2), rows);
            }
        }
    }

    fn tasks(&self) -> usize {
        self.batch * self.rows.div_ceil(self.row_step) * self.cols.len().div_ceil(self.col_step)
    }

    fn for_each<T: Element>(
        &self,
        job: &Job<T>,
        body: impl Fn(usize, Range<usize>, Range<usize>) + Sync,
    ) {
        /// Multiply-adds that are worth handing to another thread.
        const LEAST: usize = 1 << 16;
        let down = self.rows.div_ceil(self.row_step);
        let across = self.cols.len().div_ceil(self.col_step);
        let work = (self.row_step * self.col_step).saturating_mul(job.problem.k).max(1);
        for_each(job.workers, self.tasks(), LEAST.div_ceil(work), |index| {
            let (batch, place) = (index / (down * across), index % (down * across));
            let row = place / across * self.row_step;
            let col = self.cols.start + place % across * self.col_step;
            let rows = row..self.rows.min(row + self.row_step);
            body(batch, rows, col..self.cols.end.min(col + self.col_step));
        });
    }
}

/// Parts of `total` of about equal length, at most about `most`, multiples of
/// `unit`.
fn even(total: usize, most: usize, unit: usize) -> usize {
    let parts = total.div_ceil(most.next_multiple_of(unit));
    total.div_ceil(parts.max(1)).next_multiple_of(unit)
}

/// Calls `body` for `0..count`, in groups of at least `group`, on all threads
/// if there are several workers.
pub(super) fn for_each(workers: usize, count: usize, group: usize, body: impl Fn(usize) + Sync) {
    if workers == 1 || count <= 1 {
        (0..count).for_each(body);
    } else {
        (0..count).into_par_iter().with_min_len(group).for_each(&body);
    }
}

/// Computes a block of C, over all depths.
unsafe fn task<T: Element>(
    job: &Job<T>,
    batch: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    shared: Option<&Shared<T>>,
) {
    let problem = job.problem;
    let own = shared.is_none() && !job.right_in_place;
    let layout = Layout::new(&problem.b, job.kernel, cols.len());
    let depth = job.depth.min(problem.k);
    let sizes = [
        pack::left_room::<T>(rows.len().min(ROWS), depth),
        if own { layout.room(depth) } else { 0 },
        if own { pack::right_room(&problem.b, cols.len(), depth) } else { 0 },
        if job.direct() { 0 } else { rows.len() * scratch::padded::<T>(cols.len()) },
    ]
    .map(scratch::padded::<T>);
    scratch::with(sizes.iter().sum(), |room: *mut T| {
        let left = room;
        let right = left.wrapping_add(sizes[0]);
        let spare = right.wrapping_add(sizes[1]);
        let c = spare.wrapping_add(sizes[2]);
        let (c, ld) = destination(job, batch, &rows, &cols, c);
        for depth in job.depths() {
            let part = Part { batch, rows: cols.clone(), depth: depth.clone() };
            // SAFETY: the room is as large as each function asks.
            unsafe {
                let b = right_view(job, &part, shared, layout, right, spare);
                multiply_rows(job, batch, &rows, cols.len(), depth, left, b, c, ld);
            }
        }
        // SAFETY: the block is complete.
        unsafe { deliver(job, batch, rows, cols, c, ld) };
    });
}

/// Where a task sums its block, and the elements between rows there.
fn destination<T: Element>(
    job: &Job<T>,
    index: usize,
    rows: &Range<usize>,
    cols: &Range<usize>,
    room: *mut T,
) -> (*mut T, isize) {
    match job.problem.out {
        Output::Strided { ptr, row_stride, col_stride, batch } if job.direct() => {
            let offset = rows.start as isize * row_stride + cols.start as isize * col_stride;
            (ptr.wrapping_offset(batch(index) + offset), row_stride)
        }
        Output::Strided { .. } | Output::Blocks(_) => {
            (room, scratch::padded::<T>(cols.len()) as isize)
        }
    }
}

unsafe fn right_view<T: Element>(
    job: &Job<T>,
    part: &Part,
    shared: Option<&Shared<T>>,
    layout: Layout,
    room: *mut T,
    spare: *mut T,
) -> View<T> {
    let depth = part.depth.len();
    if let Some(shared) = shared {
        let col = part.rows.start - shared.start;
        return shared.layout.view(shared.base, part.depth.start, depth, col);
    }
    if let (true, Operand::Strided { ptr, row_stride, depth_stride, batch }) =
        (job.right_in_place, job.problem.b)
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
#[allow(clippy::too_many_arguments)]
unsafe fn multiply_rows<T: Element>(
    job: &Job<T>,
    batch: usize,
    rows: &Range<usize>,
    cols: usize,
    depth: Range<usize>,
    room: *mut T,
    b: View<T>,
    c: *mut T,
    ld: isize,
) {
    let accumulate = depth.start > 0;
    for start in rows.clone().step_by(ROWS) {
        let part = Part { batch, rows: start..rows.end.min(start + ROWS), depth: depth.clone() };
        let c = c.wrapping_offset((start - rows.start) as isize * ld);
        // SAFETY: the caller's promise.
        unsafe {
            let in_place = left_in_place(&job.problem.a, job.kernel, cols);
            let a = pack::left(&job.problem.a, job.kernel, &part, in_place, room);
            multiply(job.kernel, a, b, [part.rows.len(), cols, depth.len()], c, ld, accumulate);
        }
    }
}

fn left_in_place<T: Element>(operand: &Operand<T>, kernel: &Kernel<T>, cols: usize) -> bool {
    let Operand::Strided { depth_stride, row_stride, .. } = *operand else {
        return false;
    };
    let near = row_stride.unsigned_abs() * size_of::<T>() <= 1024;
    depth_stride == 1 && (near || cols <= 2 * kernel.columns)
}

/// Multiplies a block of A with a block of B, tile by tile.
unsafe fn multiply<T: Element>(
    kernel: &Kernel<T>,
    a: View<T>,
    b: View<T>,
    [rows, cols, depth]: [usize; 3],
    c: *mut T,
    c_row: isize,
    accumulate: bool,
) {
    for (panel, j) in (0..cols).step_by(kernel.columns).enumerate() {
        let width = kernel.columns.min(cols - j);
        let vectors = width.div_ceil(kernel.lanes);
        let last = width - (vectors - 1) * kernel.lanes;
        let right = b.ptr.wrapping_offset(panel as isize * b.step);
        for (line, i) in (0..rows).step_by(kernel.rows).enumerate() {
            let height = kernel.rows.min(rows - i);
            let tile = Tile {
                a: a.ptr.wrapping_offset(line as isize * a.step),
                a_row: a.row,
                a_depth: a.depth,
                b: right,
                b_depth: b.depth,
                depth,
                c: c.wrapping_offset(i as isize * c_row + j as isize),
                c_row,
                last,
                accumulate,
            };
            // SAFETY: the views cover the tile; C is the caller's block.
            unsafe { kernel.tiles[height - 1][vectors - 1](&tile) };
        }
    }
}

/// Hands a finished block over, unless it was summed where it belongs.
unsafe fn deliver<T: Element>(
    job: &Job<T>,
    index: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    c: *mut T,
    ld: isize,
) {
    match job.problem.out {
        Output::Blocks(function) => {
            function(Block { batch: index, rows, cols, ptr: c, ld: ld as usize });
        }
        Output::Strided { ptr, row_stride, col_stride, batch } if !job.direct() => {
            let offset = rows.start as isize * row_stride + cols.start as isize * col_stride;
            let to = ptr.wrapping_offset(batch(index) + offset);
            for r in 0..rows.len() as isize {
                for j in 0..cols.len() as isize {
                    // SAFETY: both blocks hold the element.
                    unsafe { *to.offset(r * row_stride + j * col_stride) = *c.offset(r * ld + j) };
                }
            }
        }
        Output::Strided { .. } => {}
    }
}
