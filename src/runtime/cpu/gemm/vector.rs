//! Products with a single row or column, which memory bandwidth limits.

use std::ops::Range;

use super::blocked::for_each;
use super::kernels::{Axpy, Dot, Element, Kernel};
use super::{Block, Operand, Output, Problem, scratch, workers};

/// Elements of the result that a task computes by axpys at most: they stay in
/// the first-level cache.
const WIDTH: usize = 2048;

/// Whether a problem is a matrix-vector product over contiguous memory.
pub(super) fn applies<T: Element>(problem: &Problem<T>) -> bool {
    Sides::of(problem).is_some()
}

/// Computes a batch of matrix-vector products.
///
/// # Safety
/// As [`super::run_with`]; [`applies`] holds.
pub(super) unsafe fn run<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) {
    let Some(sides) = Sides::of(problem) else {
        unreachable!("asked for a matrix-vector product of something else");
    };
    let workers = workers(problem.work());
    let step = sides.step(workers, kernel);
    let tasks = sides.rows.div_ceil(step);
    for_each(workers, problem.batch * tasks, 1, |index| {
        let (batch, start) = (index / tasks, index % tasks * step);
        // SAFETY: the caller's promise; tasks write different rows.
        unsafe { task(problem, kernel, &sides, batch, start..sides.rows.min(start + step)) };
    });
}

/// The matrix and the vector of a product.
struct Sides<'a, T> {
    matrix: Operand<'a, T>,
    vector: Operand<'a, T>,
    /// Rows of the matrix, elements of the result.
    rows: usize,
    /// Whether the result is a row of C.
    is_row: bool,
    /// Whether the matrix's depths are contiguous, rather than its rows.
    depth_contiguous: bool,
}

impl<'a, T: Element> Sides<'a, T> {
    fn of(problem: &Problem<'a, T>) -> Option<Sides<'a, T>> {
        let is_row = problem.m == 1;
        if problem.k == 0 || (!is_row && problem.n != 1) {
            return None;
        }
        let (matrix, vector, rows) = match is_row {
            true => (problem.b, problem.a, problem.n),
            false => (problem.a, problem.b, problem.m),
        };
        let Operand::Strided { row_stride, depth_stride, .. } = matrix else {
            return None;
        };
        let depth_contiguous = depth_stride == 1 || problem.k == 1;
        let applies = depth_contiguous || row_stride == 1 || rows == 1;
        applies.then_some(Sides { matrix, vector, rows, is_row, depth_contiguous })
    }

    /// Rows of a task.
    fn step(&self, workers: usize, kernel: &Kernel<T>) -> usize {
        let share = self.rows.div_ceil(4 * workers);
        match self.depth_contiguous {
            true => share.next_multiple_of(4),
            false => share.clamp(64, WIDTH).next_multiple_of(kernel.lanes),
        }
    }
}

unsafe fn task<T: Element>(
    problem: &Problem<T>,
    kernel: &Kernel<T>,
    sides: &Sides<T>,
    batch: usize,
    rows: Range<usize>,
) {
    let k = problem.k;
    let sizes = [k, rows.len()].map(scratch::padded::<T>);
    scratch::with(sizes[0] + sizes[1], |room: *mut T| {
        // SAFETY: the caller's promise; the room holds vector and result.
        unsafe {
            let vector = contiguous(&sides.vector, batch, k, room);
            let result = room.add(sizes[0]);
            multiply(kernel, sides, batch, rows.clone(), vector, k, result);
            deliver(problem, sides, batch, rows, result);
        }
    });
}

/// The vector, as it lies or gathered into `room`.
unsafe fn contiguous<T: Element>(
    operand: &Operand<T>,
    index: usize,
    k: usize,
    room: *mut T,
) -> *const T {
    match *operand {
        Operand::Packed { fill, order } => {
            // One line along the depth, or `k` lines of one element.
            let ld = if order == super::Order::Rows { 1 } else { k };
            fill(super::Fill { batch: index, rows: 0..1, depth: 0..k, to: room, ld });
            room
        }
        Operand::Strided { ptr, depth_stride, batch, .. } => {
            let from = ptr.wrapping_offset(batch(index));
            if depth_stride == 1 {
                return from;
            }
            for i in 0..k {
                // SAFETY: the caller vouches for the operand, and for room.
                unsafe { *room.add(i) = *from.offset(i as isize * depth_stride) };
            }
            room
        }
    }
}

unsafe fn multiply<T: Element>(
    kernel: &Kernel<T>,
    sides: &Sides<T>,
    index: usize,
    rows: Range<usize>,
    vector: *const T,
    depth: usize,
    to: *mut T,
) {
    let Operand::Strided { ptr, row_stride, depth_stride, batch } = sides.matrix else {
        unreachable!("the matrix of a matrix-vector product lies in memory");
    };
    let from = ptr.wrapping_offset(batch(index) + rows.start as isize * row_stride);
    // SAFETY: the caller's promise.
    unsafe {
        if !sides.depth_contiguous {
            let row = depth_stride;
            (kernel.axpy)(&Axpy {
                rows: from,
                row,
                factors: vector,
                depth,
                y: to,
                width: rows.len(),
            });
            return;
        }
        for r in (0..rows.len()).step_by(4) {
            let count = 4.min(rows.len() - r);
            let (lines, to) = (from.wrapping_offset(r as isize * row_stride), to.add(r));
            (kernel.dot)(&Dot { rows: lines, row: row_stride, vector, depth, count, to });
        }
    }
}

unsafe fn deliver<T: Element>(
    problem: &Problem<T>,
    sides: &Sides<T>,
    index: usize,
    rows: Range<usize>,
    result: *mut T,
) {
    match problem.out {
        Output::Blocks(function) => {
            let block = match sides.is_row {
                true => Block { batch: index, ld: rows.len(), rows: 0..1, cols: rows, ptr: result },
                false => Block { batch: index, ld: 1, rows, cols: 0..1, ptr: result },
            };
            function(block);
        }
        Output::Strided { ptr, row_stride, col_stride, batch } => {
            let stride = if sides.is_row { col_stride } else { row_stride };
            let to = ptr.wrapping_offset(batch(index) + rows.start as isize * stride);
            for i in 0..rows.len() {
                // SAFETY: the caller vouches for the output.
                unsafe { *to.offset(i as isize * stride) = *result.add(i) };
            }
        }
    }
}
