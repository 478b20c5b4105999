//! Matrix products on the CPU, with hooks where fusion needs them.
//!
//! `C[i, j] = sum over k of A[i, k] * B[j, k]` for each batch, after the scheme
//! of Goto and van de Geijn ("Anatomy of high-performance matrix
//! multiplication", 2008): register tiles of C, over blocks of A that stay in
//! the second-level cache and panels of B that stay in the first. Operands may
//! come from a function that writes blocks of them ([`Operand::Packed`]: a
//! fused producer, or the patches of a convolution) and C may go to a function
//! that reads finished blocks while they are in cache ([`Output::Blocks`]).
//!
//! The order of summation depends on the shape and the strides alone, so a
//! result's bits do not depend on the number of threads.

mod blocked;
mod grid;
mod kernels;
mod pack;
pub mod scratch;
mod split;
#[cfg(test)]
mod tests;
mod vector;

use std::ops::Range;

pub use grid::even;
use kernels::Kernel;
pub use kernels::{AbsoluteDifference, Element, Pair, SquaredDifference, multiplies_pairs};

/// A matrix of `rows` by `depth` for each batch; the depth is summed over.
///
/// A's rows are C's rows; B's rows are C's columns.
pub enum Operand<'a, T> {
    /// Elements in memory.
    Strided {
        /// The element at row 0, depth 0, before the batch's offset.
        ptr: *const T,
        /// Elements from a row to the next; may be zero or negative.
        row_stride: isize,
        /// Elements from a depth to the next; may be zero or negative.
        depth_stride: isize,
        /// Elements from `ptr` to a batch's first.
        batch: &'a (dyn Fn(usize) -> isize + Sync),
    },
    /// Elements that a function writes, block by block, on any thread and
    /// possibly more than once. Must give the same values each time.
    Packed {
        /// How it lays out each block.
        order: Order,
        /// Writes every element of the block asked for.
        fill: &'a (dyn Fn(Fill<T>) + Sync),
    },
}

/// Which index of a packed block is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// (row r, depth k) of the block is element `k * ld + r`: cheapest for B.
    Rows,
    /// (row r, depth k) of the block is element `r * ld + k`.
    Depth,
}

/// A request for a block of an operand.
pub struct Fill<T> {
    /// Of which batch.
    pub batch: usize,
    /// Which rows; not empty.
    pub rows: Range<usize>,
    /// Which depths; not empty.
    pub depth: Range<usize>,
    /// Where the block's first element goes: uninitialized memory that is
    /// writable over the whole block.
    pub to: *mut T,
    /// Elements between the lines of the block; see [`Order`].
    pub ld: usize,
}

/// Where C goes.
pub enum Output<'a, T> {
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
    Blocks(&'a (dyn Fn(Block<T>) + Sync)),
}

/// A finished block of C.
pub struct Block<T> {
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
pub struct Problem<'a, T> {
    /// How many products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Rows of B, columns of C.
    pub n: usize,
    /// The depth of A and B.
    pub k: usize,
    /// The left operand, `m` rows.
    pub a: Operand<'a, T>,
    /// The right operand, `n` rows.
    pub b: Operand<'a, T>,
    /// Where C goes.
    pub out: Output<'a, T>,
}

/// Computes a batch of matrix products on the device's threads.
///
/// A product over no depth is zero. Integers wrap.
///
/// # Safety
/// For every batch, row, column and depth in range: strided operands are
/// readable, a strided output is writable and overlaps neither an operand nor
/// itself (no two of its elements share an address). Functions write the whole
/// block they are asked for and no more, and read no more than they are given.
pub unsafe fn run<T: Element>(problem: &Problem<T>) {
    // SAFETY: the caller's promise; the list holds what this processor has.
    unsafe { run_with(problem, &T::kernels()[0]) }
}

/// [`run`] on the calling thread alone.
///
/// # Safety
/// As `run`.
pub unsafe fn run_alone<T: Element>(problem: &Problem<T>) {
    if problem.batch > 0 && problem.m > 0 && problem.n > 0 {
        // SAFETY: the caller's promise; the list holds what this processor has.
        unsafe { blocked::run_alone(problem, &T::kernels()[0]) }
    }
}

/// [`run`] with a chosen kernel.
///
/// # Safety
/// As `run`, and the processor has the kernel's instruction set.
unsafe fn run_with<T: Element>(problem: &Problem<T>, kernel: &Kernel<T>) {
    let Problem { batch, m, n, .. } = *problem;
    if batch == 0 || m == 0 || n == 0 {
        return;
    }
    // SAFETY: the caller's promise in each.
    unsafe {
        if split::worthwhile(problem) {
            split::run(problem, kernel);
        } else if vector::applies(problem) {
            vector::run(problem, kernel);
        } else if blocked::better_transposed(problem) {
            blocked::run(&problem.transposed(), kernel);
        } else {
            blocked::run(problem, kernel);
        }
    }
}

impl<T> Problem<'_, T> {
    /// The product of the transposes in the other order, for a strided output.
    fn transposed(&self) -> Problem<'_, T> {
        let out = match self.out {
            Output::Strided { ptr, row_stride, col_stride, batch } => {
                Output::Strided { ptr, row_stride: col_stride, col_stride: row_stride, batch }
            }
            Output::Blocks(function) => Output::Blocks(function),
        };
        Problem { batch: self.batch, m: self.n, n: self.m, k: self.k, a: self.b, b: self.a, out }
    }

    /// Multiply-adds of all batches.
    fn work(&self) -> usize {
        [self.m, self.n, self.k].into_iter().fold(self.batch, usize::saturating_mul)
    }
}

impl<'a, T> Operand<'a, T> {
    /// One batch of it, from a row and a depth on. Where a function writes it, `fill` is asked,
    /// which is to pass requests on to [`Operand::request`].
    pub fn part(
        &self,
        [index, row, depth]: [usize; 3],
        fill: &'a (dyn Fn(Fill<T>) + Sync),
    ) -> Operand<'a, T> {
        match *self {
            Operand::Strided { ptr, row_stride, depth_stride, batch } => {
                let first = batch(index) + row as isize * row_stride + depth as isize * depth_stride;
                Operand::Strided { ptr: ptr.wrapping_offset(first), row_stride, depth_stride, batch: &|_| 0 }
            }
            Operand::Packed { order, .. } => Operand::Packed { order, fill },
        }
    }

    /// Asks the function that writes it for a block of a part.
    pub fn request(&self, [batch, row, depth]: [usize; 3], fill: Fill<T>) {
        if let Operand::Packed { fill: function, .. } = self {
            let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
            let (rows, depth) = (moved(fill.rows, row), moved(fill.depth, depth));
            function(Fill { batch, rows, depth, ..fill });
        }
    }
}

impl<T> Clone for Operand<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operand<'_, T> {}

// SAFETY: `run`'s caller vouches for the pointers, which no thread writes
// through; functions are Sync.
unsafe impl<T: Sync> Sync for Operand<'_, T> {}

// SAFETY: threads write disjoint elements of a strided output.
unsafe impl<T: Send> Sync for Output<'_, T> {}
