//! Split-K: products with a small output and a large k compute slices of k in parallel, then sum
//! their partial results.

use kiln_simd::gemm::{GemmElement, MicroKernel};

use super::grid::{for_each, workers};
use super::{GemmOperand, GemmOutput, GemmProblem, OutputBlock, PackRequest, run_with, scratch};
use crate::runtime::cpu::thresholds::{
    SPLIT_K_MAX_OUTPUTS, SPLIT_K_MAX_SLICES, SPLIT_K_MIN_MULTIPLY_ADDS, SPLIT_K_SERIAL_MULTIPLY_ADDS,
    SPLIT_K_SLICE,
};

/// Whether slicing pays; depends on the shape alone, as the sum's order does.
pub(super) fn worthwhile<T>(problem: &GemmProblem<T>) -> bool {
    let outputs = [problem.m, problem.n].into_iter().fold(problem.batch, usize::saturating_mul);
    outputs <= SPLIT_K_MAX_OUTPUTS
        && problem.k >= 4 * SPLIT_K_SLICE
        && problem.k / 4 >= problem.m.max(problem.n)
        && outputs.saturating_mul(problem.k) >= SPLIT_K_MIN_MULTIPLY_ADDS
}

/// Computes a product by slices of k.
///
/// # Safety
/// As [`run_with`].
pub(super) unsafe fn run<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    let slices = (problem.k / SPLIT_K_SLICE).min(SPLIT_K_MAX_SLICES);
    let length = problem.k.div_ceil(slices).next_multiple_of(16);
    let size = problem.m * problem.n;
    scratch::with(slices * problem.batch * size, |room: *mut T| {
        let room = PartialSums(room);
        for_each(workers(problem.work(), SPLIT_K_SERIAL_MULTIPLY_ADDS), problem.batch * slices, 1, |index| {
            let (batch, slice) = (index / slices, index % slices);
            let k_range = (slice * length).min(problem.k)..((slice + 1) * length).min(problem.k);
            let to = room.at(index * size);
            // SAFETY: the caller's promise; slices have rooms of their own.
            unsafe { run_slice(problem, kernel, batch, k_range, to) };
        });
        for batch in 0..problem.batch {
            let sum = room.at(batch * slices * size);
            // SAFETY: the slices' results lie one after another.
            unsafe {
                for slice in 1..slices {
                    add(sum, sum.add(slice * size), size);
                }
                store_result(problem, batch, sum);
            }
        }
    });
}

/// Room that slices write disjoint parts of.
struct PartialSums<T>(*mut T);

// SAFETY: see the type.
unsafe impl<T: Send> Sync for PartialSums<T> {}

impl<T> PartialSums<T> {
    fn at(&self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

unsafe fn run_slice<T: GemmElement>(
    problem: &GemmProblem<T>,
    kernel: &MicroKernel<T>,
    batch: usize,
    k_range: std::ops::Range<usize>,
    to: *mut T,
) {
    let (a_offset, b_offset) = (batch_offset(&problem.a, batch), batch_offset(&problem.b, batch));
    let start = k_range.start;
    let (a_fill, b_fill) = (slice_fill(&problem.a, batch, start), slice_fill(&problem.b, batch, start));
    let slice = GemmProblem {
        batch: 1,
        m: problem.m,
        n: problem.n,
        k: k_range.len(),
        a: slice_operand(&problem.a, start, &a_offset, &a_fill),
        b: slice_operand(&problem.b, start, &b_offset, &b_fill),
        out: GemmOutput::Strided { ptr: to, row_stride: problem.n as isize, col_stride: 1, batch: &|_| 0 },
    };
    // SAFETY: a part of what the caller vouches for.
    unsafe { run_with(&slice, kernel) };
}

/// The offset of one batch, whatever index the slice passes.
fn batch_offset<T>(operand: &GemmOperand<T>, index: usize) -> impl Fn(usize) -> isize + Sync + use<T> {
    let offset = match *operand {
        GemmOperand::Strided { batch, .. } => batch(index),
        GemmOperand::Packed { .. } => 0,
    };
    move |_| offset
}

/// A packed operand's function for one batch, from an offset along k on.
fn slice_fill<'a, T>(
    operand: &GemmOperand<'a, T>,
    batch: usize,
    start: usize,
) -> impl Fn(PackRequest<T>) + Sync + use<'a, T> {
    let operand = match *operand {
        GemmOperand::Packed { fill, .. } => Some(fill),
        GemmOperand::Strided { .. } => None,
    };
    move |request: PackRequest<T>| {
        if let Some(fill) = operand {
            let k = request.k.start + start..request.k.end + start;
            fill(PackRequest { batch, k, ..request });
        }
    }
}

fn slice_operand<'a, T>(
    operand: &GemmOperand<'_, T>,
    start: usize,
    batch: &'a (dyn Fn(usize) -> isize + Sync),
    fill: &'a (dyn Fn(PackRequest<T>) + Sync),
) -> GemmOperand<'a, T> {
    match *operand {
        GemmOperand::Strided { ptr, row_stride, k_stride, .. } => {
            let ptr = ptr.wrapping_offset(start as isize * k_stride);
            GemmOperand::Strided { ptr, row_stride, k_stride, batch }
        }
        GemmOperand::Packed { order, .. } => GemmOperand::Packed { order, fill, dots: None },
    }
}

unsafe fn add<T: GemmElement>(sum: *mut T, other: *const T, count: usize) {
    for i in 0..count {
        // SAFETY: the caller vouches for both.
        unsafe { *sum.add(i) = (*sum.add(i)).plus(*other.add(i)) };
    }
}

unsafe fn store_result<T: GemmElement>(problem: &GemmProblem<T>, index: usize, sum: *mut T) {
    let GemmProblem { m, n, .. } = *problem;
    match problem.out {
        GemmOutput::Blocks(function) => {
            function(OutputBlock { batch: index, rows: 0..m, cols: 0..n, ptr: sum, ld: n });
        }
        GemmOutput::Strided { ptr, row_stride, col_stride, batch } => {
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
