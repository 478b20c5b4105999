//! Products of a matrix with one vector (GEMV) or a few, which memory bandwidth limits.

use std::ops::Range;

use kiln_simd::gemm::{Axpy, Dot, GemmElement, MicroKernel};

use super::grid::{for_each, workers};
use super::{DotRequest, GemmOperand, GemmOutput, GemmProblem, OutputBlock, PackOrder, PackRequest, scratch};
use crate::runtime::cpu::row_product::RowProduct;
use crate::runtime::cpu::thresholds::{
    GEMV_FILLED_ELEMENTS, GEMV_MAX_COLUMNS, GEMV_MAX_FILLED_ROW, GEMV_MAX_SHARED_K, GEMV_MAX_VECTORS,
    GEMV_MIN_COLUMNS, GEMV_SERIAL_MULTIPLY_ADDS,
};

/// Whether a problem is a product of a matrix in contiguous memory with one vector or a few.
pub(super) fn applies<T: GemmElement>(problem: &GemmProblem<T>) -> bool {
    GemvOperands::of(problem).is_some()
}

/// Computes a batch of such products.
///
/// # Safety
/// As [`super::run_with`]; [`applies`] holds.
pub(super) unsafe fn run<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    // SAFETY: the caller's promise.
    unsafe { run_on(problem, kernel, workers(problem.work(), GEMV_SERIAL_MULTIPLY_ADDS)) }
}

/// [`run`] on the calling thread.
///
/// # Safety
/// As `run`.
pub(super) unsafe fn run_alone<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    // SAFETY: the caller's promise.
    unsafe { run_on(problem, kernel, 1) }
}

unsafe fn run_on<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>, workers: usize) {
    let Some(operands) = GemvOperands::of(problem) else {
        unreachable!("asked for a product with a few vectors of something else");
    };
    let step = operands.step(workers, kernel);
    let tasks = operands.rows.div_ceil(step);
    for_each(workers, problem.batch * tasks, 1, |index| {
        let (batch, start) = (index / tasks, index % tasks * step);
        // SAFETY: the caller's promise; tasks write different rows.
        unsafe { task(problem, kernel, &operands, batch, start..operands.rows.min(start + step)) };
    });
}

/// The matrix and the vectors of a product.
struct GemvOperands<'a, T> {
    matrix: GemmOperand<'a, T>,
    vectors: GemmOperand<'a, T>,
    /// How many vectors.
    count: usize,
    /// Rows of the matrix, elements of a result.
    rows: usize,
    /// Whether results are rows of C.
    is_row: bool,
    /// Whether the matrix is contiguous along k, rather than along its rows.
    k_contiguous: bool,
}

impl<'a, T: GemmElement> GemvOperands<'a, T> {
    fn of(problem: &GemmProblem<'a, T>) -> Option<GemvOperands<'a, T>> {
        let is_row = problem.m == 1 || has_few_rows(problem);
        if problem.k == 0 || (!is_row && problem.n != 1) {
            return None;
        }
        let (matrix, vectors, count, rows) = match is_row {
            true => (problem.b, problem.a, problem.m, problem.n),
            false => (problem.a, problem.b, 1, problem.m),
        };
        let (k_contiguous, applies) = match matrix {
            GemmOperand::Strided { row_stride, k_stride, .. } => {
                let k_contiguous = k_stride == 1 || problem.k == 1;
                (k_contiguous, k_contiguous || row_stride == 1 || rows == 1)
            }
            GemmOperand::Packed { order: PackOrder::KContiguous, .. } => {
                (true, problem.k <= GEMV_MAX_FILLED_ROW)
            }
            GemmOperand::Packed { order: PackOrder::RowContiguous, .. } => (false, true),
        };
        applies.then_some(GemvOperands { matrix, vectors, count, rows, is_row, k_contiguous })
    }

    /// Rows of a task.
    fn step(&self, workers: usize, kernel: &MicroKernel<T>) -> usize {
        match self.k_contiguous {
            // One thread alone prepares the vectors once.
            true if workers == 1 => self.rows,
            true => self.rows.div_ceil(4 * workers).next_multiple_of(4),
            // As wide as possible: long runs of contiguous memory have more bandwidth.
            false => self
                .rows
                .div_ceil(workers)
                .clamp(GEMV_MIN_COLUMNS, GEMV_MAX_COLUMNS)
                .next_multiple_of(kernel.lanes),
        }
    }

    /// Rows and elements of k that a function fills at a time.
    fn filled(&self, rows: usize, k: usize) -> [usize; 2] {
        match (self.matrix, self.k_contiguous) {
            (GemmOperand::Strided { .. } | GemmOperand::Packed { dots: Some(_), .. }, _) => [0, 0],
            (GemmOperand::Packed { .. }, true) => {
                [(GEMV_FILLED_ELEMENTS / k).next_multiple_of(4).max(4).min(rows), k]
            }
            (GemmOperand::Packed { .. }, false) => {
                [rows, (GEMV_FILLED_ELEMENTS / rows).next_multiple_of(8).min(k)]
            }
        }
    }
}

/// A product of one row, part by part.
pub(super) struct RowOfMatrix<'a, T: 'static> {
    problem: &'a GemmProblem<'a, T>,
    kernel: &'static MicroKernel<T>,
    operands: GemvOperands<'a, T>,
}

impl<'a, T: GemmElement> RowOfMatrix<'a, T> {
    pub(super) fn of(problem: &'a GemmProblem<'a, T>) -> Option<RowOfMatrix<'a, T>> {
        let operands = GemvOperands::of(problem).filter(|operands| operands.is_row)?;
        Some(RowOfMatrix { problem, kernel: &T::kernels()[0], operands })
    }
}

impl<T: GemmElement> RowProduct for RowOfMatrix<'_, T> {
    fn columns(&self) -> usize {
        self.operands.rows
    }
    fn multiply_adds(&self) -> usize {
        self.problem.work()
    }
    fn step(&self, workers: usize) -> usize {
        self.operands.step(workers, self.kernel)
    }
    unsafe fn compute(&self, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { task(self.problem, self.kernel, &self.operands, 0, columns) };
    }
}

/// Whether a problem's rows are few enough to be multiplied one by one with a matrix that is contiguous along k:
/// register tiles would leave most lanes empty. They are the heads that share keys, mostly.
fn has_few_rows<T>(problem: &GemmProblem<T>) -> bool {
    let are_vectors = match problem.a {
        GemmOperand::Strided { k_stride, .. } => k_stride == 1,
        GemmOperand::Packed { order, .. } => order == PackOrder::KContiguous,
    };
    let is_contiguous = matches!(problem.b, GemmOperand::Strided { k_stride: 1, .. });
    problem.m <= GEMV_MAX_VECTORS && problem.k <= GEMV_MAX_SHARED_K && are_vectors && is_contiguous
}

unsafe fn task<T: GemmElement>(
    problem: &GemmProblem<T>,
    kernel: &MicroKernel<T>,
    operands: &GemvOperands<T>,
    batch: usize,
    rows: Range<usize>,
) {
    let k = problem.k;
    let [row_block, k_block] = operands.filled(rows.len(), k);
    let (count, length) = (operands.count, rows.len());
    let sizes = [count * k, count * length, row_block * k_block].map(scratch::padded::<T>);
    scratch::with(sizes.iter().sum(), |room: *mut T| {
        let result = room.wrapping_add(sizes[0]);
        let block = result.wrapping_add(sizes[1]);
        // SAFETY: the caller's promise; the room holds all three.
        unsafe {
            let (vectors, apart) = operands.vectors.rows(batch, 0..count, k, room);
            let product = Gemv { kernel, vectors, apart, count, k };
            match operands.matrix {
                GemmOperand::Strided { ptr, row_stride, k_stride, batch: offset } => {
                    let start = offset(batch) + rows.start as isize * row_stride;
                    let from = ptr.wrapping_offset(start);
                    match operands.k_contiguous {
                        true => product.dots(from, row_stride, length, result),
                        false => product.axpys(from, k_stride, 0..k, length, result),
                    }
                }
                GemmOperand::Packed { dots: Some(dots), .. } => {
                    dots(DotRequest { batch, rows: rows.clone(), vector: product.vectors, to: result });
                }
                GemmOperand::Packed { order, fill, dots: None } => {
                    let request = PackRequest { batch, rows: rows.clone(), k: 0..k, to: block, ld: 0 };
                    product.filled(fill, order, request, [row_block, k_block], result);
                }
            }
            store_result(problem, operands, batch, rows, result);
        }
    });
}

/// Products of rows of a matrix with vectors.
struct Gemv<'a, T: 'static> {
    kernel: &'a MicroKernel<T>,
    vectors: *const T,
    /// Elements from a vector to the next.
    apart: isize,
    count: usize,
    k: usize,
}

impl<T: GemmElement> Gemv<'_, T> {
    /// Dot products of `length` rows, `row` elements apart: those with the first vector, then the others'.
    unsafe fn dots(&self, from: *const T, row: isize, length: usize, to: *mut T) {
        for r in (0..length).step_by(4) {
            let rows = from.wrapping_offset(r as isize * row);
            let (k, count) = (self.k, 4.min(length - r));
            for number in 0..self.count {
                let vector = self.vectors.wrapping_offset(number as isize * self.apart);
                // SAFETY: the caller vouches for the rows and the results.
                unsafe {
                    (self.kernel.dot)(&Dot { rows, row, vector, k, count, to: to.add(number * length + r) })
                };
            }
        }
    }

    /// Adds the rows of a range of k, `row` elements apart; the first range overwrites. Of one vector.
    unsafe fn axpys(&self, rows: *const T, row: isize, k: Range<usize>, width: usize, y: *mut T) {
        let (factors, accumulate) = (self.vectors.wrapping_add(k.start), k.start > 0);
        let k = k.len();
        // SAFETY: the caller vouches for the rows and the result.
        unsafe { (self.kernel.axpy)(&Axpy { rows, row, factors, k, y, width, accumulate }) };
    }

    /// The product with blocks of a matrix that a function fills.
    unsafe fn filled(
        &self,
        fill: &(dyn Fn(PackRequest<T>) + Sync),
        order: PackOrder,
        all: PackRequest<T>,
        [row_block, k_block]: [usize; 2],
        result: *mut T,
    ) {
        let PackRequest { batch, ref rows, to, .. } = all;
        match order {
            PackOrder::KContiguous => {
                for start in rows.clone().step_by(row_block) {
                    let some = start..rows.end.min(start + row_block);
                    let (count, result) = (some.len(), result.wrapping_add(start - rows.start));
                    fill(PackRequest { batch, rows: some, k: 0..self.k, to, ld: self.k });
                    // SAFETY: just filled; the caller vouches for the result.
                    unsafe { self.dots(to, self.k as isize, count, result) };
                }
            }
            PackOrder::RowContiguous => {
                let ld = rows.len();
                for start in (0..self.k).step_by(k_block) {
                    let some = start..self.k.min(start + k_block);
                    fill(PackRequest { batch, rows: rows.clone(), k: some.clone(), to, ld });
                    // SAFETY: just filled; the caller vouches for the result.
                    unsafe { self.axpys(to, ld as isize, some, ld, result) };
                }
            }
        }
    }
}

unsafe fn store_result<T: GemmElement>(
    problem: &GemmProblem<T>,
    operands: &GemvOperands<T>,
    index: usize,
    rows: Range<usize>,
    result: *mut T,
) {
    let (count, length) = (operands.count, rows.len());
    match problem.out {
        GemmOutput::Blocks(function) => {
            let (rows, cols, ld) =
                if operands.is_row { (0..count, rows, length) } else { (rows, 0..count, 1) };
            function(OutputBlock { batch: index, rows, cols, ptr: result, ld });
        }
        GemmOutput::Strided { ptr, row_stride, col_stride, batch } => {
            let (along, across) =
                if operands.is_row { (col_stride, row_stride) } else { (row_stride, col_stride) };
            let to = ptr.wrapping_offset(batch(index) + rows.start as isize * along);
            for (number, i) in (0..count).flat_map(|number| (0..length).map(move |i| (number, i))) {
                // SAFETY: the caller vouches for the output.
                unsafe {
                    let element = *result.add(number * length + i);
                    *to.offset(number as isize * across + i as isize * along) = element;
                }
            }
        }
    }
}
