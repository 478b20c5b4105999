//! Products with a single row or column, which memory bandwidth limits.

use std::ops::Range;

use super::grid::{for_each, workers};
use super::kernels::{Axpy, Dot, Element, Kernel};
use super::{Block, Fill, Operand, Order, Output, Problem, scratch};

/// Elements that a function fills at a time, about.
const FILLED: usize = 1 << 14;

/// The longest rows that a function fills whole.
const LONGEST: usize = 1 << 16;

/// Multiply-adds that one thread does as fast as two.
const SERIAL: usize = 1 << 17;

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
    let workers = workers(problem.work(), SERIAL);
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
        let (depth_contiguous, applies) = match matrix {
            Operand::Strided { row_stride, depth_stride, .. } => {
                let depth_contiguous = depth_stride == 1 || problem.k == 1;
                (depth_contiguous, depth_contiguous || row_stride == 1 || rows == 1)
            }
            Operand::Packed { order: Order::Depth, .. } => (true, problem.k <= LONGEST),
            Operand::Packed { order: Order::Rows, .. } => (false, true),
        };
        applies.then_some(Sides { matrix, vector, rows, is_row, depth_contiguous })
    }

    /// Rows of a task.
    fn step(&self, workers: usize, kernel: &Kernel<T>) -> usize {
        match self.depth_contiguous {
            true => self.rows.div_ceil(4 * workers).next_multiple_of(4),
            // As wide as can be: memory serves long pieces of lines in less time.
            false => self.rows.div_ceil(workers).clamp(64, WIDTH).next_multiple_of(kernel.lanes),
        }
    }

    /// Rows and depths that a function fills at a time.
    fn filled(&self, rows: usize, k: usize) -> [usize; 2] {
        match (self.matrix, self.depth_contiguous) {
            (Operand::Strided { .. }, _) => [0, 0],
            (Operand::Packed { .. }, true) => [(FILLED / k).next_multiple_of(4).max(4).min(rows), k],
            (Operand::Packed { .. }, false) => [rows, (FILLED / rows).next_multiple_of(8).min(k)],
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
    let [lines, depth] = sides.filled(rows.len(), k);
    let sizes = [k, rows.len(), lines * depth].map(scratch::padded::<T>);
    scratch::with(sizes.iter().sum(), |room: *mut T| {
        let result = room.wrapping_add(sizes[0]);
        let block = result.wrapping_add(sizes[1]);
        // SAFETY: the caller's promise; the room holds all three.
        unsafe {
            let product = Product { kernel, vector: contiguous(&sides.vector, batch, k, room), k };
            match sides.matrix {
                Operand::Strided { ptr, row_stride, depth_stride, batch: offset } => {
                    let start = offset(batch) + rows.start as isize * row_stride;
                    let from = ptr.wrapping_offset(start);
                    match sides.depth_contiguous {
                        true => product.dots(from, row_stride, rows.len(), result),
                        false => product.axpys(from, depth_stride, 0..k, rows.len(), result),
                    }
                }
                Operand::Packed { order, fill } => {
                    let request = Fill { batch, rows: rows.clone(), depth: 0..k, to: block, ld: 0 };
                    product.filled(fill, order, request, [lines, depth], result);
                }
            }
            deliver(problem, sides, batch, rows, result);
        }
    });
}

/// Products of lines of a matrix with a vector.
struct Product<'a, T: 'static> {
    kernel: &'a Kernel<T>,
    vector: *const T,
    k: usize,
}

impl<T: Element> Product<'_, T> {
    /// Dot products of `count` rows, `row` elements apart.
    unsafe fn dots(&self, from: *const T, row: isize, count: usize, to: *mut T) {
        for r in (0..count).step_by(4) {
            let rows = from.wrapping_offset(r as isize * row);
            let (vector, depth, count) = (self.vector, self.k, 4.min(count - r));
            // SAFETY: the caller vouches for the rows and the results.
            unsafe { (self.kernel.dot)(&Dot { rows, row, vector, depth, count, to: to.add(r) }) };
        }
    }

    /// Adds the lines of some depths, `row` elements apart; the first overwrite.
    unsafe fn axpys(&self, rows: *const T, row: isize, depth: Range<usize>, width: usize, y: *mut T) {
        let (factors, accumulate) = (self.vector.wrapping_add(depth.start), depth.start > 0);
        let depth = depth.len();
        // SAFETY: the caller vouches for the lines and the result.
        unsafe { (self.kernel.axpy)(&Axpy { rows, row, factors, depth, y, width, accumulate }) };
    }

    /// The product with blocks of a matrix that a function fills.
    unsafe fn filled(
        &self,
        fill: &(dyn Fn(Fill<T>) + Sync),
        order: Order,
        all: Fill<T>,
        [lines, depth]: [usize; 2],
        result: *mut T,
    ) {
        let Fill { batch, ref rows, to, .. } = all;
        match order {
            Order::Depth => {
                for start in rows.clone().step_by(lines) {
                    let some = start..rows.end.min(start + lines);
                    let (count, result) = (some.len(), result.wrapping_add(start - rows.start));
                    fill(Fill { batch, rows: some, depth: 0..self.k, to, ld: self.k });
                    // SAFETY: just filled; the caller vouches for the result.
                    unsafe { self.dots(to, self.k as isize, count, result) };
                }
            }
            Order::Rows => {
                let ld = rows.len();
                for start in (0..self.k).step_by(depth) {
                    let some = start..self.k.min(start + depth);
                    fill(Fill { batch, rows: rows.clone(), depth: some.clone(), to, ld });
                    // SAFETY: just filled; the caller vouches for the result.
                    unsafe { self.axpys(to, ld as isize, some, ld, result) };
                }
            }
        }
    }
}

/// The vector, as it lies or gathered into `room`.
unsafe fn contiguous<T: Element>(operand: &Operand<T>, index: usize, k: usize, room: *mut T) -> *const T {
    match *operand {
        Operand::Packed { fill, order } => {
            // One line along the depth, or `k` lines of one element.
            let ld = if order == Order::Rows { 1 } else { k };
            fill(Fill { batch: index, rows: 0..1, depth: 0..k, to: room, ld });
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
