//! Matrix-vector products (GEMV), which memory bandwidth limits.

use std::ops::Range;

use kiln_simd::gemm::{Axpy, Dot, GemmElement, MicroKernel};

use super::grid::{for_each, workers};
use super::{DotRequest, GemmOperand, GemmOutput, GemmProblem, OutputBlock, PackOrder, PackRequest, scratch};
use crate::runtime::cpu::thresholds::{
    GEMV_FILLED_ELEMENTS, GEMV_MAX_COLUMNS, GEMV_MAX_FILLED_ROW, GEMV_MIN_COLUMNS, GEMV_SERIAL_MULTIPLY_ADDS,
};

/// Whether a problem is a matrix-vector product over contiguous memory.
pub(super) fn applies<T: GemmElement>(problem: &GemmProblem<T>) -> bool {
    GemvOperands::of(problem).is_some()
}

/// Computes a batch of matrix-vector products.
///
/// # Safety
/// As [`super::run_with`]; [`applies`] holds.
pub(super) unsafe fn run<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    let Some(operands) = GemvOperands::of(problem) else {
        unreachable!("asked for a matrix-vector product of something else");
    };
    let workers = workers(problem.work(), GEMV_SERIAL_MULTIPLY_ADDS);
    let step = operands.step(workers, kernel);
    let tasks = operands.rows.div_ceil(step);
    for_each(workers, problem.batch * tasks, 1, |index| {
        let (batch, start) = (index / tasks, index % tasks * step);
        // SAFETY: the caller's promise; tasks write different rows.
        unsafe { task(problem, kernel, &operands, batch, start..operands.rows.min(start + step)) };
    });
}

/// The matrix and the vector of a product.
struct GemvOperands<'a, T> {
    matrix: GemmOperand<'a, T>,
    vector: GemmOperand<'a, T>,
    /// Rows of the matrix, elements of the result.
    rows: usize,
    /// Whether the result is a row of C.
    is_row: bool,
    /// Whether the matrix is contiguous along k, rather than along its rows.
    k_contiguous: bool,
}

impl<'a, T: GemmElement> GemvOperands<'a, T> {
    fn of(problem: &GemmProblem<'a, T>) -> Option<GemvOperands<'a, T>> {
        let is_row = problem.m == 1;
        if problem.k == 0 || (!is_row && problem.n != 1) {
            return None;
        }
        let (matrix, vector, rows) = match is_row {
            true => (problem.b, problem.a, problem.n),
            false => (problem.a, problem.b, problem.m),
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
        applies.then_some(GemvOperands { matrix, vector, rows, is_row, k_contiguous })
    }

    /// Rows of a task.
    fn step(&self, workers: usize, kernel: &MicroKernel<T>) -> usize {
        match self.k_contiguous {
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

unsafe fn task<T: GemmElement>(
    problem: &GemmProblem<T>,
    kernel: &MicroKernel<T>,
    operands: &GemvOperands<T>,
    batch: usize,
    rows: Range<usize>,
) {
    let k = problem.k;
    let [row_block, k_block] = operands.filled(rows.len(), k);
    let sizes = [k, rows.len(), row_block * k_block].map(scratch::padded::<T>);
    scratch::with(sizes.iter().sum(), |room: *mut T| {
        let result = room.wrapping_add(sizes[0]);
        let block = result.wrapping_add(sizes[1]);
        // SAFETY: the caller's promise; the room holds all three.
        unsafe {
            let product = Gemv { kernel, vector: contiguous(&operands.vector, batch, k, room), k };
            match operands.matrix {
                GemmOperand::Strided { ptr, row_stride, k_stride, batch: offset } => {
                    let start = offset(batch) + rows.start as isize * row_stride;
                    let from = ptr.wrapping_offset(start);
                    match operands.k_contiguous {
                        true => product.dots(from, row_stride, rows.len(), result),
                        false => product.axpys(from, k_stride, 0..k, rows.len(), result),
                    }
                }
                GemmOperand::Packed { dots: Some(dots), .. } => {
                    dots(DotRequest { batch, rows: rows.clone(), vector: product.vector, to: result });
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

/// Products of rows of a matrix with a vector.
struct Gemv<'a, T: 'static> {
    kernel: &'a MicroKernel<T>,
    vector: *const T,
    k: usize,
}

impl<T: GemmElement> Gemv<'_, T> {
    /// Dot products of `count` rows, `row` elements apart.
    unsafe fn dots(&self, from: *const T, row: isize, count: usize, to: *mut T) {
        for r in (0..count).step_by(4) {
            let rows = from.wrapping_offset(r as isize * row);
            let (vector, k, count) = (self.vector, self.k, 4.min(count - r));
            // SAFETY: the caller vouches for the rows and the results.
            unsafe { (self.kernel.dot)(&Dot { rows, row, vector, k, count, to: to.add(r) }) };
        }
    }

    /// Adds the rows of a range of k, `row` elements apart; the first range overwrites.
    unsafe fn axpys(&self, rows: *const T, row: isize, k: Range<usize>, width: usize, y: *mut T) {
        let (factors, accumulate) = (self.vector.wrapping_add(k.start), k.start > 0);
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

/// The vector, in place or gathered into `room`.
unsafe fn contiguous<T: GemmElement>(
    operand: &GemmOperand<T>,
    index: usize,
    k: usize,
    room: *mut T,
) -> *const T {
    match *operand {
        GemmOperand::Packed { fill, order, .. } => {
            // One row along k, or `k` rows of one element.
            let ld = if order == PackOrder::RowContiguous { 1 } else { k };
            fill(PackRequest { batch: index, rows: 0..1, k: 0..k, to: room, ld });
            room
        }
        GemmOperand::Strided { ptr, k_stride, batch, .. } => {
            let from = ptr.wrapping_offset(batch(index));
            if k_stride == 1 {
                return from;
            }
            for i in 0..k {
                // SAFETY: the caller vouches for the operand, and for room.
                unsafe { *room.add(i) = *from.offset(i as isize * k_stride) };
            }
            room
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
    match problem.out {
        GemmOutput::Blocks(function) => {
            let block = match operands.is_row {
                true => OutputBlock { batch: index, ld: rows.len(), rows: 0..1, cols: rows, ptr: result },
                false => OutputBlock { batch: index, ld: 1, rows, cols: 0..1, ptr: result },
            };
            function(block);
        }
        GemmOutput::Strided { ptr, row_stride, col_stride, batch } => {
            let stride = if operands.is_row { col_stride } else { row_stride };
            let to = ptr.wrapping_offset(batch(index) + rows.start as isize * stride);
            for i in 0..rows.len() {
                // SAFETY: the caller vouches for the output.
                unsafe { *to.offset(i as isize * stride) = *result.add(i) };
            }
        }
    }
}
