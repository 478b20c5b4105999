//! The blocked algorithm: what each task packs and multiplies.

use std::ops::Range;

use kiln_simd::gemm::{GemmElement, MicroKernel, RegisterTile};

use super::grid::{OutputGrid, TaskArea, even_split, for_each, workers};
use super::pack::{self, OperandRange, PackedView, PanelLayout};
use super::tile_prefetch::TilePrefetch;
use super::{GemmOperand, GemmOutput, GemmProblem, OutputBlock, PackOrder, scratch};
use crate::runtime::cpu::thresholds::{
    GEMM_A_IN_PLACE_STRIDE, GEMM_A_IN_PLACE_TILES, GEMM_B_IN_PLACE_BYTES, GEMM_COMPUTED_A_COLUMNS,
    GEMM_JOB_MIN_MULTIPLY_ADDS, GEMM_K_BLOCK_BYTES, GEMM_MAX_K_BLOCK, GEMM_MIN_K_BLOCK, GEMM_PACKED_A_ROWS,
    GEMM_PACKED_TILES, GEMM_PRIVATE_B_BYTES, GEMM_SCRATCH_ELEMENTS, GEMM_SERIAL_MULTIPLY_ADDS,
    GEMM_SHARED_B_BYTES, GEMM_SHARED_MIN_ROWS, GEMM_SHARED_TASK_MIN_ROWS, GEMM_TASK_COLUMNS,
    GEMM_TASK_MIN_MULTIPLY_ADDS, GEMM_TASKS_PER_THREAD,
};

/// Whether to compute the transposed product instead, where that leaves fewer
/// elements to transpose.
pub(super) fn better_transposed<T: GemmElement>(problem: &GemmProblem<T>) -> bool {
    let GemmProblem { m, n, k, ref a, ref b, ref out, .. } = *problem;
    let (row_stride, col_stride) = match *out {
        GemmOutput::Strided { row_stride, col_stride, .. } => (row_stride, col_stride),
        // Row-major: the transposed product's are turned.
        GemmOutput::Blocks(_) => (n as isize, 1),
    };
    let misplaced = |stride: isize, extent: usize, size: usize| {
        let contiguous = stride == 1 || extent <= 1;
        if contiguous { 0 } else { size }
    };
    let right = |operand: &GemmOperand<T>, rows: usize| match *operand {
        GemmOperand::Strided { row_stride, .. } => misplaced(row_stride, rows, rows * k),
        GemmOperand::Packed { order: PackOrder::RowContiguous, .. } => 0,
        GemmOperand::Packed { order: PackOrder::KContiguous, .. } => rows * k,
    };
    let plain = right(b, n) + misplaced(col_stride, n, m * n);
    let transposed = right(a, m) + misplaced(row_stride, m, m * n);
    2 * transposed < plain
}

/// Computes a product by blocks.
///
/// # Safety
/// As [`super::run_with`].
pub(super) unsafe fn run<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    let kernel = &kernel.for_columns(problem.n);
    let job = GemmJob::new(problem, kernel, workers(problem.work(), GEMM_SERIAL_MULTIPLY_ADDS));
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
pub(super) unsafe fn run_alone<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    let kernel = &kernel.for_columns(problem.n);
    let job = GemmJob::new(problem, kernel, 1);
    let grid = job.grid(0..problem.batch, 0..problem.n, problem.m);
    // SAFETY: the caller's promise.
    job.for_each(&grid, |area| unsafe { task(&job, &area, None) });
}

/// A problem and its execution plan.
struct GemmJob<'a, T: 'static> {
    problem: &'a GemmProblem<'a, T>,
    kernel: &'a MicroKernel<T>,
    /// The block size along k, which depends on the shape alone.
    k_block: usize,
    /// Threads worth using.
    workers: usize,
    /// Whether B is read in place.
    b_in_place: bool,
    /// Whether C is accumulated in place.
    direct: bool,
}

impl<'a, T: GemmElement> GemmJob<'a, T> {
    fn new(problem: &'a GemmProblem<'a, T>, kernel: &'a MicroKernel<T>, workers: usize) -> Self {
        let k_block = k_block_size::<T>(problem.k);
        let direct = match problem.out {
            GemmOutput::Strided { col_stride, .. } => col_stride == 1 || problem.n == 1,
            GemmOutput::Blocks(_) => false,
        };
        GemmJob { problem, kernel, k_block, workers, b_in_place: b_in_place(problem, k_block), direct }
    }

    /// The blocks of k; a single empty one if k is 0, which writes zeros.
    fn k_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (k, step) = (self.problem.k, self.k_block);
        (0..k.div_ceil(step).max(1)).map(move |i| i * step..k.min((i + 1) * step))
    }

    /// Whether packing B once for all tasks pays.
    fn shares(&self) -> bool {
        let GemmProblem { batch, m, n, .. } = *self.problem;
        let column = self.problem.k.saturating_mul(size_of::<T>());
        let own = n.saturating_mul(column) <= GEMM_PRIVATE_B_BYTES
            && (self.workers == 1 || batch >= 2 * self.workers);
        let fits = self.least_shared().saturating_mul(column) <= 4 * GEMM_SHARED_B_BYTES;
        !self.b_in_place && m > GEMM_SHARED_MIN_ROWS && !own && fits
    }

    /// Columns of B that are worth sharing.
    fn least_shared(&self) -> usize {
        4 * self.kernel.columns
    }

    /// Columns of B to share at a time.
    fn shared_columns(&self) -> usize {
        let GemmProblem { n, k, .. } = *self.problem;
        let most = (GEMM_SHARED_B_BYTES / size_of::<T>() / k.max(1)).max(self.least_shared());
        even_split(n, most, self.kernel.columns)
    }

    /// Rows of a task where B is shared, so that small tasks copy nothing again. Cores are seldom equally
    /// fast, and small tasks balance the load.
    fn shared_rows(&self) -> usize {
        self.problem
            .m
            .div_ceil(GEMM_TASKS_PER_THREAD * self.workers)
            .clamp(GEMM_SHARED_TASK_MIN_ROWS, GEMM_PACKED_A_ROWS)
    }

    /// Partitions columns of some batches, with at most `rows` rows a task.
    fn grid(&self, batches: Range<usize>, cols: Range<usize>, rows: usize) -> OutputGrid {
        let m = self.problem.m;
        let most = if self.computes_a() { GEMM_COMPUTED_A_COLUMNS } else { GEMM_TASK_COLUMNS };
        let col_step = even_split(cols.len(), most, self.kernel.columns);
        let most = if self.direct { rows } else { rows.min(GEMM_SCRATCH_ELEMENTS / col_step) };
        let row_step = even_split(m, most, self.kernel.rows);
        let mut grid = OutputGrid { batches, rows: m, cols, row_step, col_step };
        if self.workers > 1 {
            self.refine(&mut grid);
        }
        grid
    }

    /// Halves tasks until there are some for each thread.
    fn refine(&self, grid: &mut OutputGrid) {
        let MicroKernel { rows, columns, .. } = *self.kernel;
        while grid.tasks() < 2 * self.workers {
            let work = grid.row_step * grid.col_step * self.problem.k;
            let (tall, wide) = (grid.row_step > 4 * rows, grid.col_step > columns);
            if work < 2 * GEMM_TASK_MIN_MULTIPLY_ADDS || !(tall || wide) {
                return;
            }
            // Tasks that share columns copy the same of B, where it is copied, and tasks that
            // share rows the same of A.
            let least = if self.b_in_place { 4 * grid.row_step } else { grid.row_step };
            let across = !self.computes_a() && grid.col_step >= least;
            if wide && (!tall || across) {
                grid.col_step = even_split(grid.col_step, grid.col_step.div_ceil(2), columns);
            } else {
                grid.row_step = even_split(grid.row_step, grid.row_step.div_ceil(2), rows);
            }
        }
    }

    /// Where A's block after this one of a task begins, if it is read in place.
    fn following_a(&self, area: &TaskArea, range: &OperandRange) -> Option<*const T> {
        let GemmOperand::Strided { ptr, row_stride, k_stride, batch } = self.problem.a else { return None };
        let (row, k) = match (range.rows.end < area.rows.end, range.k.end < self.problem.k) {
            (true, _) => (range.rows.end, range.k.start),
            (false, true) => (area.rows.start, range.k.end),
            (false, false) => (range.rows.end, 0),
        };
        Some(ptr.wrapping_offset(batch(range.batch) + row as isize * row_stride + k as isize * k_stride))
    }

    fn computes_a(&self) -> bool {
        matches!(self.problem.a, GemmOperand::Packed { .. })
    }

    /// Calls `body` with each task's area, small ones in groups.
    fn for_each(&self, grid: &OutputGrid, body: impl Fn(TaskArea) + Sync) {
        let work = (grid.row_step * grid.col_step).saturating_mul(self.problem.k).max(1);
        for_each(self.workers, grid.tasks(), GEMM_JOB_MIN_MULTIPLY_ADDS.div_ceil(work), |index| {
            body(grid.area(index))
        });
    }
}

/// The block size along k, so that a panel of B stays in L1; blocks of about equal sizes.
fn k_block_size<T>(k: usize) -> usize {
    let most = (GEMM_K_BLOCK_BYTES / size_of::<T>()).clamp(GEMM_MIN_K_BLOCK, GEMM_MAX_K_BLOCK);
    even_split(k, most, 8).max(1)
}

fn b_in_place<T: GemmElement>(problem: &GemmProblem<T>, k_block: usize) -> bool {
    let GemmOperand::Strided { row_stride, k_stride, .. } = problem.b else {
        return false;
    };
    let row = k_stride.unsigned_abs().saturating_mul(size_of::<T>());
    (row_stride == 1 || problem.n == 1) && row.saturating_mul(k_block) <= GEMM_B_IN_PLACE_BYTES
}

fn a_in_place<T: GemmElement>(operand: &GemmOperand<T>, kernel: &MicroKernel<T>, cols: usize) -> bool {
    let GemmOperand::Strided { k_stride, row_stride, .. } = *operand else {
        return false;
    };
    let near = row_stride.unsigned_abs().saturating_mul(size_of::<T>()) <= GEMM_A_IN_PLACE_STRIDE;
    k_stride == 1 && (near || cols <= GEMM_A_IN_PLACE_TILES * kernel.columns)
}

/// B packed for several tasks: from a column on, all of k.
struct SharedPanels<T> {
    base: *mut T,
    layout: PanelLayout,
    start: usize,
}

// SAFETY: tasks write disjoint parts, then only read.
unsafe impl<T: Send + Sync> Sync for SharedPanels<T> {}

/// Packs some columns of B with all threads, then computes them.
unsafe fn run_shared<T: GemmElement>(job: &GemmJob<T>, batch: usize, cols: Range<usize>) {
    let layout = PanelLayout::new(&job.problem.b, job.kernel, cols.len());
    scratch::with(layout.len(job.problem.k), |base: *mut T| {
        let shared = SharedPanels { base, layout, start: cols.start };
        // SAFETY: the scratch holds all panels; the caller's promise.
        unsafe { pack_shared(job, batch, &cols, &shared) };
        let grid = job.grid(batch..batch + 1, cols, job.shared_rows());
        // SAFETY: the caller's promise.
        job.for_each(&grid, |area| unsafe { task(job, &area, Some(&shared)) });
    });
}

unsafe fn pack_shared<T: GemmElement>(
    job: &GemmJob<T>,
    batch: usize,
    cols: &Range<usize>,
    shared: &SharedPanels<T>,
) {
    let width = job.kernel.columns * GEMM_PACKED_TILES;
    let groups = cols.len().div_ceil(width);
    let k_blocks: Vec<_> = job.k_blocks().collect();
    for_each(job.workers, k_blocks.len() * groups, 1, |index| {
        let k = k_blocks[index / groups].clone();
        let col = index % groups * width;
        let rows = cols.start + col..cols.end.min(cols.start + col + width);
        let view = shared.layout.view(shared.base.cast_const(), k.start, k.len(), col);
        let scratch_len = pack::b_scratch_len(&job.problem.b, rows.len(), k.len());
        let range = OperandRange { batch, rows, k };
        scratch::with(scratch_len, |scratch| {
            // SAFETY: the caller's promise; parts do not overlap.
            unsafe { pack::pack_b(&job.problem.b, job.kernel, &range, view, scratch) }
        });
    });
}

/// A block of C being accumulated.
#[derive(Clone, Copy)]
pub(super) struct OutputSum<T> {
    pub ptr: *mut T,
    /// Elements from a row to the next.
    pub ld: isize,
}

/// Computes a block of C, over all of k.
unsafe fn task<T: GemmElement>(job: &GemmJob<T>, area: &TaskArea, shared: Option<&SharedPanels<T>>) {
    let (b, cols) = (&job.problem.b, area.cols.len());
    let own = shared.is_none() && !job.b_in_place;
    let layout = PanelLayout::new(b, job.kernel, cols);
    let k_block = job.k_block.min(job.problem.k);
    let sizes = [
        pack::a_scratch_len(area.rows.len().min(GEMM_PACKED_A_ROWS), k_block),
        if own { layout.len(k_block) } else { 0 },
        if own { pack::b_scratch_len(b, cols, k_block) } else { 0 },
        if job.direct { 0 } else { area.rows.len() * scratch::padded::<T>(cols) },
    ]
    .map(scratch::padded::<T>);
    scratch::with(sizes.iter().sum(), |a_scratch: *mut T| {
        let b_scratch = a_scratch.wrapping_add(sizes[0]);
        let spare = b_scratch.wrapping_add(sizes[1]);
        let sum = destination(job, area, spare.wrapping_add(sizes[2]));
        for k in job.k_blocks() {
            let range = OperandRange { batch: area.batch, rows: area.cols.clone(), k: k.clone() };
            // SAFETY: the scratch is as large as each function requires.
            unsafe {
                let b = b_view(job, &range, shared, layout, [b_scratch, spare]);
                multiply_rows(job, area, k, a_scratch, b, sum);
            }
        }
        if !job.direct {
            // SAFETY: the block is complete.
            unsafe { store_block(&job.problem.out, job.kernel, area, sum) };
        }
    });
}

/// Where a task accumulates its block.
fn destination<T: GemmElement>(job: &GemmJob<T>, area: &TaskArea, room: *mut T) -> OutputSum<T> {
    match job.problem.out {
        GemmOutput::Strided { ptr, row_stride, col_stride, batch } if job.direct => {
            let offset = area.rows.start as isize * row_stride + area.cols.start as isize * col_stride;
            OutputSum { ptr: ptr.wrapping_offset(batch(area.batch) + offset), ld: row_stride }
        }
        GemmOutput::Strided { .. } | GemmOutput::Blocks(_) => {
            OutputSum { ptr: room, ld: scratch::padded::<T>(area.cols.len()) as isize }
        }
    }
}

/// A block of B: shared, read in place, or packed into the first scratch.
unsafe fn b_view<T: GemmElement>(
    job: &GemmJob<T>,
    range: &OperandRange,
    shared: Option<&SharedPanels<T>>,
    layout: PanelLayout,
    [room, spare]: [*mut T; 2],
) -> PackedView<T> {
    let k = range.k.len();
    if let Some(shared) = shared {
        let col = range.rows.start - shared.start;
        return shared.layout.view(shared.base.cast_const(), range.k.start, k, col);
    }
    if job.b_in_place
        && let GemmOperand::Strided { ptr, row_stride, k_stride, batch } = job.problem.b
    {
        let ptr = pack::first(ptr, row_stride, k_stride, batch, range);
        return PackedView { ptr, tile_stride: job.kernel.columns as isize, row_stride: 1, k_stride };
    }
    let view = layout.view(room.cast_const(), 0, k, 0);
    // SAFETY: the caller's promise.
    unsafe { pack::pack_b(&job.problem.b, job.kernel, range, view, spare) };
    view
}

/// Multiplies a task's rows of A, some at a time, with a block of B.
unsafe fn multiply_rows<T: GemmElement>(
    job: &GemmJob<T>,
    area: &TaskArea,
    k: Range<usize>,
    room: *mut T,
    b: PackedView<T>,
    sum: OutputSum<T>,
) {
    let TaskArea { batch, ref rows, ref cols } = *area;
    let accumulate = k.start > 0;
    let in_place = a_in_place(&job.problem.a, job.kernel, cols.len());
    for start in rows.clone().step_by(GEMM_PACKED_A_ROWS) {
        let range =
            OperandRange { batch, rows: start..rows.end.min(start + GEMM_PACKED_A_ROWS), k: k.clone() };
        let sum = OutputSum { ptr: sum.ptr.wrapping_offset((start - rows.start) as isize * sum.ld), ..sum };
        let extents = [range.rows.len(), cols.len(), k.len()];
        // SAFETY: the caller's promise.
        unsafe {
            let a = pack::pack_a(&job.problem.a, job.kernel, &range, in_place, room);
            let following = if in_place { job.following_a(area, &range) } else { None };
            multiply(job.kernel, (a, following), b, extents, sum, accumulate);
        }
    }
}

/// Multiplies a block of A, after which another may follow in memory, with a block of B, tile by tile.
unsafe fn multiply<T: GemmElement>(
    kernel: &MicroKernel<T>,
    (a, following): (PackedView<T>, Option<*const T>),
    b: PackedView<T>,
    [rows, cols, k]: [usize; 3],
    sum: OutputSum<T>,
    accumulate: bool,
) {
    let prefetch = TilePrefetch::new(kernel, a, following, &b, [rows, k]);
    for (panel, j) in (0..cols).step_by(kernel.columns).enumerate() {
        let width = kernel.columns.min(cols - j);
        let vectors = width.div_ceil(kernel.lanes);
        let last = width - (vectors - 1) * kernel.lanes;
        let right = b.ptr.wrapping_offset(panel as isize * b.tile_stride);
        for (line, i) in (0..rows).step_by(kernel.rows).enumerate() {
            let height = kernel.rows.min(rows - i);
            let tile = RegisterTile {
                a: a.ptr.wrapping_offset(line as isize * a.tile_stride),
                a_row: a.row_stride,
                a_k_stride: a.k_stride,
                b: right,
                b_k_stride: b.k_stride,
                k,
                c: sum.ptr.wrapping_offset(i as isize * sum.ld + j as isize),
                c_row: sum.ld,
                last,
                accumulate,
                ahead: prefetch.of_tile([panel, line], right),
            };
            // SAFETY: the views cover the tile; C is the caller's block.
            unsafe { kernel.tiles[height - 1][vectors - 1](&tile) };
        }
    }
}

/// Stores a finished block.
///
/// # Safety
/// The sum and the output hold every element of the area.
pub(super) unsafe fn store_block<T: GemmElement>(
    out: &GemmOutput<T>,
    kernel: &MicroKernel<T>,
    area: &TaskArea,
    sum: OutputSum<T>,
) {
    let TaskArea { batch: index, ref rows, ref cols } = *area;
    match *out {
        GemmOutput::Blocks(function) => {
            let (rows, cols) = (rows.clone(), cols.clone());
            function(OutputBlock { batch: index, rows, cols, ptr: sum.ptr, ld: sum.ld as usize });
        }
        GemmOutput::Strided { ptr, row_stride, col_stride, batch } => {
            let offset = rows.start as isize * row_stride + cols.start as isize * col_stride;
            let to = ptr.wrapping_offset(batch(index) + offset);
            let (strides, extents) = ([row_stride, col_stride], [rows.len(), cols.len()]);
            // SAFETY: both blocks hold every element.
            unsafe { pack::scatter(kernel, sum.ptr, sum.ld, to, strides, extents) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the job of an `m` by `n` by `k` product for two threads says.
    fn plan<R>([m, n, k]: [usize; 3], query: impl Fn(&GemmJob<'_, f32>) -> R) -> R {
        let (batch, width) = (&|_: usize| 0, n as isize);
        let ptr = std::ptr::dangling::<f32>();
        let a = GemmOperand::Strided { ptr, row_stride: k as isize, k_stride: 1, batch };
        let b = GemmOperand::Strided { ptr, row_stride: 1, k_stride: width, batch };
        let out = GemmOutput::Strided { ptr: ptr.cast_mut(), row_stride: width, col_stride: 1, batch };
        let problem = GemmProblem { batch: 1, m, n, k, a, b, out };
        query(&GemmJob::new(&problem, &<f32 as GemmElement>::kernels()[0], 2))
    }

    #[test]
    fn tasks_divide_what_is_larger_to_copy() {
        let copied = |m: usize, n: usize| {
            let grid = plan([m, n, 784], |job| {
                assert!(!job.shares(), "each task copies for itself");
                job.grid(0..1, 0..n, m)
            });
            n.div_ceil(grid.col_step) * m + m.div_ceil(grid.row_step) * n
        };
        // By rows or by columns alone 2,176 or 1,024; and 384 or 576.
        assert_eq!((copied(128, 512), copied(128, 64)), (1024, 384));
    }

    #[test]
    fn tasks_that_share_copies_are_small() {
        for (m, tasks) in [(1024, 15), (512, 7), (257, 4)] {
            // So small a k that even the widest tile's columns are shared.
            let grid = plan([m, 1024, 256], |job| {
                assert!(job.shares());
                job.grid(0..1, 0..1024, job.shared_rows())
            });
            assert!(grid.tasks() >= tasks, "{m} rows: {} tasks", grid.tasks());
        }
    }
}
