//! Matrix products on the CPU, with hooks where fusion needs them.
//!
//! `C[i, j] = sum over k of A[i, k] * B[j, k]` for each batch, after the scheme
//! of Goto and van de Geijn ("Anatomy of high-performance matrix
//! multiplication", 2008): register tiles of C, over blocks of A that stay in
//! L2 and panels of B that stay in L1. Operands may
//! come from a function that writes blocks of them ([`GemmOperand::Packed`]: a
//! fused producer, or the patches of a convolution) and C may go to a function
//! that reads finished blocks while they are in cache ([`GemmOutput::Blocks`]).
//!
//! The order of summation depends on the shape and the strides alone, so a
//! result's bits do not depend on the number of threads.

mod blocked;
mod gemv;
mod grid;
mod integer;
mod pack;
pub mod scratch;
mod split_k;
#[cfg(test)]
mod tests;
mod tile_prefetch;

use std::ops::Range;

pub use grid::{even_split, for_each, workers};
pub use integer::{IntegerLoops, IntegerProblem};
use kiln_simd::gemm::MicroKernel;
pub use kiln_simd::gemm::{AbsoluteDifference, Bf16x2, GemmElement, SquaredDifference, has_matrix_unit};

use crate::runtime::cpu::row_product::RowProduct;

/// Whether this processor multiplies [`Bf16x2`]s by an instruction of its own; tests do so
/// without.
pub fn has_bf16_dot() -> bool {
    // The last kernel is the one that runs anywhere.
    cfg!(test) || Bf16x2::kernels().len() > 1
}

/// A matrix of rows by k for each batch, where k is the reduction dimension.
///
/// A's rows are C's rows; B's rows are C's columns.
pub enum GemmOperand<'a, T> {
    /// Elements in memory.
    Strided {
        /// The element at row 0, k 0, before the batch's offset.
        ptr: *const T,
        /// Elements from a row to the next; may be zero or negative.
        row_stride: isize,
        /// Elements from an index of k to the next; may be zero or negative.
        k_stride: isize,
        /// Elements from `ptr` to a batch's first.
        batch: &'a (dyn Fn(usize) -> isize + Sync),
    },
    /// Elements that a function writes, block by block, on any thread and
    /// possibly more than once. Must give the same values each time.
    Packed {
        /// How it lays out each block.
        order: PackOrder,
        /// Writes every element of the requested block.
        fill: &'a (dyn Fn(PackRequest<T>) + Sync),
        /// Multiplies rows with a vector without writing them, if it can do that faster.
        dots: Option<&'a (dyn Fn(DotRequest<T>) + Sync)>,
    },
}

/// Which index of a packed block is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackOrder {
    /// Element (r, k) of the block is at `k * ld + r`: cheapest for B.
    RowContiguous,
    /// Element (r, k) of the block is at `r * ld + k`.
    KContiguous,
}

/// A request to pack a block of an operand.
pub struct PackRequest<T> {
    /// Of which batch.
    pub batch: usize,
    /// Which rows; not empty.
    pub rows: Range<usize>,
    /// Which range of k; not empty.
    pub k: Range<usize>,
    /// Where the block's first element goes: uninitialized memory that is
    /// writable over the whole block.
    pub to: *mut T,
    /// The leading dimension of the block; see [`PackOrder`].
    pub ld: usize,
}

/// A request for the dot products of rows of an operand, all along k, with a vector.
pub struct DotRequest<T> {
    /// Of which batch.
    pub batch: usize,
    /// Which rows; not empty.
    pub rows: Range<usize>,
    /// An element for each index of k.
    pub vector: *const T,
    /// Where the products go, one after the other.
    pub to: *mut T,
}

/// The destination of C.
pub enum GemmOutput<'a, T> {
    /// Into memory that is written, never read before.
    Strided {
        /// The element at row 0, column 0, before the batch's offset.
        ptr: *mut T,
        /// Elements from a row to the next.
        row_stride: isize,
        /// Elements from a column to the next.
        col_stride: isize,
        /// Elements from `ptr` to a batch's first.
        batch: &'a (dyn Fn(usize) -> isize + Sync),
    },
    /// To a function that is called with each block once, on any thread; the
    /// blocks cover C without overlap.
    Blocks(&'a (dyn Fn(OutputBlock<T>) + Sync)),
}

/// A finished block of C.
pub struct OutputBlock<T> {
    /// Of which batch.
    pub batch: usize,
    /// Which rows of C; not empty.
    pub rows: Range<usize>,
    /// Which columns of C; not empty.
    pub cols: Range<usize>,
    /// The block's elements, row-major; the function may overwrite them.
    pub ptr: *mut T,
    /// Elements from a row of the block to the next.
    pub ld: usize,
}

/// A batch of products of `m` by `k` with `k` by `n`.
pub struct GemmProblem<'a, T> {
    /// How many products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Rows of B, columns of C.
    pub n: usize,
    /// The reduction dimension of A and B.
    pub k: usize,
    /// The left operand, `m` rows.
    pub a: GemmOperand<'a, T>,
    /// The right operand, `n` rows.
    pub b: GemmOperand<'a, T>,
    /// Where C goes.
    pub out: GemmOutput<'a, T>,
}

/// Computes a batch of matrix products on the device's threads.
///
/// A product with k of 0 is zero. Integers wrap.
///
/// # Safety
/// For every batch, row, column and k in range: strided operands are
/// readable, a strided output is writable and overlaps neither an operand nor
/// itself (no two of its elements share an address). Functions write the whole
/// requested block and no more, and read no more than they are given.
pub unsafe fn run<T: GemmElement>(problem: &GemmProblem<T>) {
    // SAFETY: the caller's promise; the list holds what this processor has.
    unsafe { run_with(problem, &T::kernels()[0]) }
}

/// Passes a product as one of one row, if [`run`] computes it so.
///
/// # Safety
/// As [`run`], until what is passed is computed.
pub unsafe fn with_row_product<T: GemmElement>(
    problem: &GemmProblem<T>,
    use_it: impl FnOnce(Option<&dyn RowProduct>),
) {
    let is_row = problem.batch == 1 && problem.m == 1 && problem.n > 0 && !split_k::worthwhile(problem);
    match gemv::RowOfMatrix::of(problem).filter(|_| is_row) {
        Some(row) => use_it(Some(&row)),
        None => use_it(None),
    }
}

/// [`run`] on the calling thread alone.
///
/// # Safety
/// As `run`.
pub unsafe fn run_alone<T: GemmElement>(problem: &GemmProblem<T>) {
    if problem.batch > 0 && problem.m > 0 && problem.n > 0 {
        let kernel = &T::kernels()[0];
        // SAFETY: the caller's promise; the list holds what this processor has.
        unsafe {
            if gemv::applies(problem) {
                gemv::run_alone(problem, kernel);
            } else {
                blocked::run_alone(problem, kernel);
            }
        }
    }
}

/// [`run`] with a chosen kernel.
///
/// # Safety
/// As `run`, and the processor has the kernel's instruction set.
unsafe fn run_with<T: GemmElement>(problem: &GemmProblem<T>, kernel: &MicroKernel<T>) {
    let GemmProblem { batch, m, n, .. } = *problem;
    if batch == 0 || m == 0 || n == 0 {
        return;
    }
    // SAFETY: the caller's promise in each.
    unsafe {
        if split_k::worthwhile(problem) {
            split_k::run(problem, kernel);
        } else if gemv::applies(problem) {
            gemv::run(problem, kernel);
        } else if blocked::better_transposed(problem) {
            problem.with_transposed(kernel, |transposed| blocked::run(transposed, kernel));
        } else {
            blocked::run(problem, kernel);
        }
    }
}

impl<T> GemmProblem<'_, T> {
    /// Passes the product of the transposes in the other order to `run`. Its blocks are turned back
    /// before the function of this one reads them.
    fn with_transposed(&self, kernel: &MicroKernel<T>, run: impl FnOnce(&GemmProblem<T>))
    where
        T: GemmElement,
    {
        let turn = |block: OutputBlock<T>| {
            let GemmOutput::Blocks(function) = self.out else { return };
            let extents = [block.rows.len(), block.cols.len()];
            let ld = scratch::padded::<T>(extents[0]);
            scratch::with(ld * extents[1], |ptr: *mut T| {
                // SAFETY: the block is whole, and the scratch holds as many elements.
                unsafe {
                    pack::scatter(kernel, block.ptr, block.ld as isize, ptr, [1, ld as isize], extents)
                };
                function(OutputBlock { batch: block.batch, rows: block.cols, cols: block.rows, ptr, ld });
            });
        };
        let out = match self.out {
            GemmOutput::Strided { ptr, row_stride, col_stride, batch } => {
                GemmOutput::Strided { ptr, row_stride: col_stride, col_stride: row_stride, batch }
            }
            GemmOutput::Blocks(_) => GemmOutput::Blocks(&turn),
        };
        run(&GemmProblem { batch: self.batch, m: self.n, n: self.m, k: self.k, a: self.b, b: self.a, out });
    }

    /// Multiply-adds of all batches.
    fn work(&self) -> usize {
        [self.m, self.n, self.k].into_iter().fold(self.batch, usize::saturating_mul)
    }
}

impl<'a, T> GemmOperand<'a, T> {
    /// One batch of it, from a row and an index of k on. Where a function writes it, `fill` is called,
    /// which forwards requests to [`GemmOperand::request`].
    pub fn sub_operand(
        &self,
        [index, row, k]: [usize; 3],
        fill: &'a (dyn Fn(PackRequest<T>) + Sync),
    ) -> GemmOperand<'a, T> {
        match *self {
            GemmOperand::Strided { ptr, row_stride, k_stride, batch } => {
                let first = batch(index) + row as isize * row_stride + k as isize * k_stride;
                GemmOperand::Strided { ptr: ptr.wrapping_offset(first), row_stride, k_stride, batch: &|_| 0 }
            }
            GemmOperand::Packed { order, .. } => GemmOperand::Packed { order, fill, dots: None },
        }
    }

    /// With a function that multiplies its rows with a vector, if it is one that a function writes.
    pub fn with_dots(self, dots: Option<&'a (dyn Fn(DotRequest<T>) + Sync)>) -> GemmOperand<'a, T> {
        match self {
            GemmOperand::Packed { order, fill, .. } => GemmOperand::Packed { order, fill, dots },
            GemmOperand::Strided { .. } => self,
        }
    }

    /// Some rows, contiguous along k, in place or written to `room`, and how many elements they are apart. Of
    /// several rows, a function writes those alone that it writes along k.
    ///
    /// # Safety
    /// As [`run`]; the room holds the rows.
    unsafe fn rows(&self, index: usize, rows: Range<usize>, k: usize, room: *mut T) -> (*const T, isize)
    where
        T: Copy,
    {
        match *self {
            GemmOperand::Packed { fill, order, .. } => {
                // Rows along k, or `k` rows of one element.
                let ld = if order == PackOrder::RowContiguous { 1 } else { k };
                fill(PackRequest { batch: index, rows, k: 0..k, to: room, ld });
                (room, k as isize)
            }
            GemmOperand::Strided { ptr, k_stride, row_stride, batch } => {
                let from = ptr.wrapping_offset(batch(index) + rows.start as isize * row_stride);
                if k_stride == 1 {
                    return (from, row_stride);
                }
                for (row, i) in (0..rows.len()).flat_map(|row| (0..k).map(move |i| (row, i))) {
                    // SAFETY: the caller vouches for the operand, and for room.
                    unsafe {
                        let element = *from.offset(row as isize * row_stride + i as isize * k_stride);
                        *room.add(row * k + i) = element;
                    }
                }
                (room, k as isize)
            }
        }
    }

    /// Forwards a request for a block of a sub-operand to the function that writes this operand.
    pub fn request(&self, [batch, row, k]: [usize; 3], fill: PackRequest<T>) {
        if let GemmOperand::Packed { fill: function, .. } = self {
            let shifted = |range: Range<usize>, by: usize| range.start + by..range.end + by;
            let (rows, k) = (shifted(fill.rows, row), shifted(fill.k, k));
            function(PackRequest { batch, rows, k, ..fill });
        }
    }
}

impl<T> Clone for GemmOperand<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GemmOperand<'_, T> {}

// SAFETY: `run`'s caller vouches for the pointers, which no thread writes
// through; functions are Sync.
unsafe impl<T: Sync> Sync for GemmOperand<'_, T> {}

// SAFETY: threads write disjoint elements of a strided output.
unsafe impl<T: Send> Sync for GemmOutput<'_, T> {}
