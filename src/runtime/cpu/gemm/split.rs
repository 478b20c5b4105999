//! Products with little output and great depth: slices of the depth in
//! parallel, then their sum.

use super::grid::{for_each, workers};
use super::kernels::{Element, Kernel};
use super::{Block, Fill, Operand, Output, Problem, run_with, scratch};

/// Elements of C up to which its blocks alone cannot occupy the threads.
const FEW: usize = 64 * 64;

/// Depths of a slice at least.
const SLICE: usize = 1024;

/// Multiply-adds that one thread does as fast as two.
const SERIAL: usize = 1 << 17;

/// Slices at most.
const SLICES: usize = 16;

/// Whether slicing pays; depends on the shape alone, as the sum's order does.
pub(super) fn worthwhile<T>(problem: &Problem<T>) -> bool {
    let outputs = [problem.m, problem.n].into_iter().fold(problem.batch, usize::saturating_mul);
    outputs <= FEW
        && problem.k >= 4 * SLICE
        && problem.k / 4 >= problem.m.max(problem.n)
        && outputs.saturating_mul(problem.k) >= 1 << 18
}

/// Computes a product by slices of its depth.
///
/// # Safety
/// As [`run_with`].
pub(super) unsafe fn run<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) {
    let slices = (problem.k / SLICE).min(SLICES);
    let length = problem.k.div_ceil(slices).next_multiple_of(16);
    let size = problem.m * problem.n;
    scratch::with(slices * problem.batch * size, |room: *mut T| {
        let room = Partial(room);
        for_each(workers(problem.work(), SERIAL), problem.batch * slices, 1, |index| {
            let (batch, slice) = (index / slices, index % slices);
            let depth = (slice * length).min(problem.k)..((slice + 1) * length).min(problem.k);
            let to = room.at(index * size);
            // SAFETY: the caller's promise; slices have rooms of their own.
            unsafe { run_slice(problem, kernel, batch, depth, to) };
        });
        for batch in 0..problem.batch {
            let sum = room.at(batch * slices * size);
            // SAFETY: the slices' results lie one after another.
            unsafe {
                for slice in 1..slices {
                    add(sum, sum.add(slice * size), size);
                }
                deliver(problem, batch, sum);
            }
        }
    });
}

/// Room that slices write disjoint parts of.
struct Partial<T>(*mut T);

// SAFETY: see the type.
unsafe impl<T: Send> Sync for Partial<T> {}

impl<T> Partial<T> {
    fn at(&self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

unsafe fn run_slice<T: Element>(
    problem: &Problem<T>,
    kernel: &Kernel<T>,
    batch: usize,
    depth: std::ops::Range<usize>,
    to: *mut T,
) {
    let (a_offset, b_offset) = (moved(&problem.a, batch), moved(&problem.b, batch));
    let start = depth.start;
    let (a_fill, b_fill) = (shifted(&problem.a, batch, start), shifted(&problem.b, batch, start));
    let slice = Problem {
        batch: 1,
        m: problem.m,
        n: problem.n,
        k: depth.len(),
        a: sliced(&problem.a, start, &a_offset, &a_fill),
        b: sliced(&problem.b, start, &b_offset, &b_fill),
        out: Output::Strided { ptr: to, row_stride: problem.n as isize, col_stride: 1, batch: &|_| 0 },
    };
    // SAFETY: a part of what the caller vouches for.
    unsafe { run_with(&slice, kernel) };
}

/// The offset of one batch, as a function of none.
fn moved<T>(operand: &Operand<T>, index: usize) -> impl Fn(usize) -> isize + Sync + use<T> {
    let offset = match *operand {
        Operand::Strided { batch, .. } => batch(index),
        Operand::Packed { .. } => 0,
    };
    move |_| offset
}

/// A packed operand's function for one batch, from a depth on.
fn shifted<'a, T>(
    operand: &Operand<'a, T>,
    batch: usize,
    start: usize,
) -> impl Fn(Fill<T>) + Sync + use<'a, T> {
    let operand = match *operand {
        Operand::Packed { fill, .. } => Some(fill),
        Operand::Strided { .. } => None,
    };
    move |request: Fill<T>| {
        if let Some(fill) = operand {
            let depth = request.depth.start + start..request.depth.end + start;
            fill(Fill { batch, depth, ..request });
        }
    }
}

fn sliced<'a, T>(
    operand: &Operand<'_, T>,
    start: usize,
    batch: &'a (dyn Fn(usize) -> isize + Sync),
    fill: &'a (dyn Fn(Fill<T>) + Sync),
) -> Operand<'a, T> {
    match *operand {
        Operand::Strided { ptr, row_stride, depth_stride, .. } => {
            let ptr = ptr.wrapping_offset(start as isize * depth_stride);
            Operand::Strided { ptr, row_stride, depth_stride, batch }
        }
        Operand::Packed { order, .. } => Operand::Packed { order, fill },
    }
}

unsafe fn add<T: Element>(sum: *mut T, other: *const T, count: usize) {
    for i in 0..count {
        // SAFETY: the caller vouches for both.
        unsafe { *sum.add(i) = (*sum.add(i)).plus(*other.add(i)) };
    }
}

unsafe fn deliver<T: Element>(problem: &Problem<T>, index: usize, sum: *mut T) {
    let Problem { m, n, .. } = *problem;
    match problem.out {
        Output::Blocks(function) => {
            function(Block { batch: index, rows: 0..m, cols: 0..n, ptr: sum, ld: n });
        }
        Output::Strided { ptr, row_stride, col_stride, batch } => {
            let to = ptr.wrapping_offset(batch(index));
            for i in 0..m {
                for j in 0..n {
                    let offset = i as isize * row_stride + j as isize * col_stride;
                    // SAFETY: the caller vouches for the output.
                    unsafe { *to.offset(offset) = *sum.add(i * n + j) };
                }
            }
        }
    }
}
