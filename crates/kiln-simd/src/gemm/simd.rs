//! The inner loops themselves, written once over any vector register.
//!
//! Everything here is `inline(always)`: an instruction set's module wraps it in
//! functions that enable the set's features.

// Loops over constant extents that index several arrays at once unroll into
// registers.
#![allow(clippy::needless_range_loop)]

use crate::micro::{prefetch_l1, prefetch_l2};
use crate::thresholds::{GEMM_PACK_PREFETCH_ROWS, GEMV_PREFETCH_BYTES};

/// A vector register of elements.
///
/// # Safety
/// Every method needs the instruction set that the type stands for. Pointers
/// need no alignment beyond an element's.
pub(super) trait SimdVector: Copy {
    /// The element type.
    type Element: Copy + 'static;
    /// Elements in a register.
    const COUNT: usize;
    /// Whether reading fewer elements takes no longer than reading all.
    const FREE_MASKS: bool;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// The element at `from` in every lane.
    unsafe fn splat(from: *const Self::Element) -> Self;
    /// `COUNT` elements from `from`.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// `count <= COUNT` elements from `from`, no others read, then zeros.
    unsafe fn load_first(from: *const Self::Element, count: usize) -> Self;
    /// Writes `COUNT` elements.
    unsafe fn store(self, to: *mut Self::Element);
    /// Writes the first `count <= COUNT` elements.
    unsafe fn store_first(self, to: *mut Self::Element, count: usize);
    /// `self * x + y` in each lane.
    unsafe fn multiply_add(self, x: Self, y: Self) -> Self;
    /// The sum in each lane.
    unsafe fn add(self, other: Self) -> Self;
    /// The sum of all lanes, halving the width at each step.
    unsafe fn sum(self) -> Self::Element;
    /// Prefetches the cache line at `at`; may be any address.
    unsafe fn prefetch(at: *const Self::Element);
}

/// One register tile of C: `c[r, j] (+)= sum over k of a[r, k] * b[k, j]`.
pub struct RegisterTile<T> {
    /// The first element of A; strides in elements.
    pub a: *const T,
    /// From a row of A to the next.
    pub a_row: isize,
    /// From an element of A along k to the next.
    pub a_k_stride: isize,
    /// The first element of B; columns are contiguous.
    pub b: *const T,
    /// From a row of B to the next.
    pub b_k_stride: isize,
    /// How many products to sum.
    pub k: usize,
    /// The first element of C; columns are contiguous.
    pub c: *mut T,
    /// From a row of C to the next.
    pub c_row: isize,
    /// Columns that the last vector holds, at least 1.
    pub last: usize,
    /// Whether to add to C or to overwrite it.
    pub accumulate: bool,
    /// What to prefetch into L2 meanwhile.
    pub ahead: Prefetches,
}

/// Cache lines to prefetch beside a sum of products, one for each; the addresses may be any.
#[derive(Clone, Copy, Debug)]
pub struct Prefetches {
    /// The first byte.
    pub start: *const u8,
    /// Bytes from one product's line to the next product's; where a matrix unit sums, all between is prefetched.
    pub step: isize,
    /// After so many products, which are not 0...
    pub group: usize,
    /// ...so many bytes more.
    pub skip: isize,
}

impl Prefetches {
    /// No line but one.
    pub fn none<T>(at: *const T) -> Prefetches {
        Prefetches { start: at.cast(), step: 0, group: usize::MAX, skip: 0 }
    }
}

/// Computes the `R` rows by `V` vectors of a tile.
///
/// # Safety
/// A and B are readable at every (row, k) and (k, column) of the tile
/// and C writable at every (row, column), where the columns are `V - 1` full
/// vectors and `last` more; nothing else is touched.
#[inline(always)]
pub(super) unsafe fn tile<L: SimdVector, const R: usize, const V: usize>(tile: &RegisterTile<L::Element>) {
    // SAFETY: the caller's promise.
    unsafe {
        if L::FREE_MASKS || tile.last < L::COUNT {
            tile_of::<L, R, V, false>(tile);
        } else {
            tile_of::<L, R, V, true>(tile);
        }
    }
}

/// The same, where all vectors are full if `FULL` says so.
#[inline(always)]
unsafe fn tile_of<L: SimdVector, const R: usize, const V: usize, const FULL: bool>(
    tile: &RegisterTile<L::Element>,
) {
    let RegisterTile { a_row, a_k_stride, b_k_stride, c_row, .. } = *tile;
    let last = if FULL { L::COUNT } else { tile.last };
    // SAFETY: the addresses stay inside what the caller vouches for.
    unsafe {
        let mut sums = [[L::zero(); V]; R];
        for r in 0..R {
            prefetch_row::<L>(tile.c.offset(r as isize * c_row), V * L::COUNT);
        }
        let (mut a, mut b, mut ahead) = (tile.a, tile.b, tile.ahead.start);
        let mut left = tile.ahead.group;
        for _ in 0..tile.k {
            prefetch_l2(ahead, 1);
            let mut columns = [L::zero(); V];
            for v in 0..V - 1 {
                columns[v] = L::load(b.add(v * L::COUNT));
            }
            let at = b.add((V - 1) * L::COUNT);
            columns[V - 1] = if FULL { L::load(at) } else { L::load_first(at, last) };
            for r in 0..R {
                let x = L::splat(a.offset(r as isize * a_row));
                for v in 0..V {
                    sums[r][v] = x.multiply_add(columns[v], sums[r][v]);
                }
            }
            a = a.wrapping_offset(a_k_stride);
            b = b.wrapping_offset(b_k_stride);
            ahead = ahead.wrapping_offset(tile.ahead.step);
            left -= 1;
            if left == 0 {
                (ahead, left) = (ahead.wrapping_offset(tile.ahead.skip), tile.ahead.group);
            }
        }
        for r in 0..R {
            let c = tile.c.offset(r as isize * c_row);
            write_row(c, &sums[r], last, tile.accumulate);
        }
    }
}

/// Prefetches every cache line that a row of C touches.
#[inline(always)]
unsafe fn prefetch_row<L: SimdVector>(row: *const L::Element, columns: usize) {
    const CACHE_LINE: usize = 64;
    // SAFETY: the caller has the instruction set.
    unsafe {
        for column in (0..columns).step_by(CACHE_LINE / size_of::<L::Element>()) {
            L::prefetch(row.wrapping_add(column));
        }
        // Rows start anywhere in a cache line.
        L::prefetch(row.wrapping_add(columns - 1));
    }
}

#[inline(always)]
unsafe fn write_row<L: SimdVector, const V: usize>(
    c: *mut L::Element,
    sums: &[L; V],
    last: usize,
    accumulate: bool,
) {
    // SAFETY: the row holds V - 1 full vectors and `last` elements more.
    unsafe {
        for v in 0..V - 1 {
            let at = c.add(v * L::COUNT);
            let sum = if accumulate { sums[v].add(L::load(at)) } else { sums[v] };
            sum.store(at);
        }
        let at = c.add((V - 1) * L::COUNT);
        let mut sum = sums[V - 1];
        if last == L::COUNT {
            if accumulate {
                sum = sum.add(L::load(at));
            }
            sum.store(at);
        } else {
            if accumulate {
                sum = sum.add(L::load_first(at, last));
            }
            sum.store_first(at, last);
        }
    }
}

/// Dot products of up to four contiguous rows with one contiguous vector.
pub struct Dot<T> {
    /// The first row.
    pub rows: *const T,
    /// From a row to the next, in elements.
    pub row: isize,
    /// The vector.
    pub vector: *const T,
    /// Elements of a row and of the vector.
    pub k: usize,
    /// How many rows, 1 to 4.
    pub count: usize,
    /// Where the `count` results go.
    pub to: *mut T,
}

/// Computes the dot products, row after row: memory is read fastest as one run.
///
/// # Safety
/// `count` rows of `k` elements and the vector are readable, `count`
/// elements at `to` writable.
#[inline(always)]
pub(super) unsafe fn dot<L: SimdVector>(dot: &Dot<L::Element>) {
    for r in 0..dot.count {
        // SAFETY: as the caller vouches.
        unsafe { *dot.to.add(r) = dot_row::<L>(dot, r) };
    }
}

#[inline(always)]
unsafe fn dot_row<L: SimdVector>(dot: &Dot<L::Element>, r: usize) -> L::Element {
    /// Sums that do not wait for each other.
    const SUMS: usize = 2;
    // SAFETY: the row is one of the caller's.
    unsafe {
        let row = dot.rows.wrapping_offset(r as isize * dot.row);
        let mut sums = [L::zero(); SUMS];
        let step = SUMS * L::COUNT;
        let whole = dot.k / step * step;
        let ahead = RowsAhead::of(dot);
        let mut p = 0;
        while p < whole {
            prefetch_l1(row.wrapping_offset(ahead.of_element(p)).cast(), step * size_of::<L::Element>());
            for (u, sum) in sums.iter_mut().enumerate() {
                let at = p + u * L::COUNT;
                *sum = L::load(dot.vector.add(at)).multiply_add(L::load(row.add(at)), *sum);
            }
            p += step;
        }
        let mut u = 0;
        while p < dot.k {
            let count = L::COUNT.min(dot.k - p);
            let (x, y) = (L::load_first(dot.vector.add(p), count), L::load_first(row.add(p), count));
            sums[u] = x.multiply_add(y, sums[u]);
            p += count;
            u += 1;
        }
        sums.into_iter().reduce(|sum, other| sum.add(other)).unwrap_or(L::zero()).sum()
    }
}

/// What is read some bytes later: of the same row, or of a later one.
struct RowsAhead {
    /// From an element to what is so far behind it, in elements.
    apart: isize,
    /// The first element for which that is a row later.
    turn: usize,
    /// Elements between a row's end and the next row.
    gap: isize,
}

impl RowsAhead {
    #[inline(always)]
    fn of<T>(dot: &Dot<T>) -> RowsAhead {
        let (ahead, k) = (GEMV_PREFETCH_BYTES / size_of::<T>(), dot.k.max(1));
        let (rows, rest) = (ahead / k, ahead % k);
        RowsAhead {
            apart: rows as isize * dot.row + rest as isize,
            turn: k - rest,
            gap: dot.row - k as isize,
        }
    }

    /// From the row's start to what is read so much later than an element of it.
    #[inline(always)]
    fn of_element(&self, p: usize) -> isize {
        p as isize + self.apart + if p < self.turn { 0 } else { self.gap }
    }
}

/// `y[j] (+)= sum over k of x[k] * rows[k, j]`, for contiguous rows.
pub struct Axpy<T> {
    /// The first row.
    pub rows: *const T,
    /// From a row to the next, in elements.
    pub row: isize,
    /// The factors, contiguous.
    pub factors: *const T,
    /// How many rows.
    pub k: usize,
    /// Where the sums go.
    pub y: *mut T,
    /// Elements of a row and of `y`.
    pub width: usize,
    /// Whether to add to `y` or to overwrite it.
    pub accumulate: bool,
}

/// Computes an axpy over all of its rows.
///
/// # Safety
/// `k` rows of `width` elements and `k` factors are readable, `width`
/// elements at `y` writable.
#[inline(always)]
pub(super) unsafe fn axpy<L: SimdVector>(axpy: &Axpy<L::Element>) {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut j = 0;
        while j < axpy.width && !axpy.accumulate {
            let count = L::COUNT.min(axpy.width - j);
            L::zero().store_first(axpy.y.add(j), count);
            j += count;
        }
        let mut p = 0;
        while p + 8 <= axpy.k {
            axpy_rows::<L, 8>(axpy, p);
            p += 8;
        }
        while p < axpy.k {
            axpy_rows::<L, 1>(axpy, p);
            p += 1;
        }
    }
}

#[inline(always)]
unsafe fn axpy_rows<L: SimdVector, const R: usize>(axpy: &Axpy<L::Element>, p: usize) {
    // SAFETY: rows k..k + R are among the caller's.
    unsafe {
        let rows: [*const L::Element; R] =
            std::array::from_fn(|r| axpy.rows.wrapping_offset((p + r) as isize * axpy.row));
        let mut factors = [L::zero(); R];
        for r in 0..R {
            factors[r] = L::splat(axpy.factors.add(p + r));
        }
        let whole = axpy.width / L::COUNT * L::COUNT;
        let mut j = 0;
        while j < whole {
            let mut sum = L::load(axpy.y.add(j));
            for r in 0..R {
                sum = factors[r].multiply_add(L::load(rows[r].add(j)), sum);
            }
            sum.store(axpy.y.add(j));
            j += L::COUNT;
        }
        let count = axpy.width - whole;
        if count > 0 {
            let mut sum = L::load_first(axpy.y.add(j), count);
            for r in 0..R {
                sum = factors[r].multiply_add(L::load_first(rows[r].add(j), count), sum);
            }
            sum.store_first(axpy.y.add(j), count);
        }
    }
}

/// A copy of `rows` rows of `width` contiguous elements.
pub struct RowCopy<T> {
    /// The first row.
    pub from: *const T,
    /// From a row to the next, in elements.
    pub from_row: isize,
    /// Where the first row goes.
    pub to: *mut T,
    /// From a copied row to the next.
    pub to_row: isize,
    /// How many rows.
    pub rows: usize,
    /// Elements of each.
    pub width: usize,
}

/// Copies a matrix.
///
/// # Safety
/// The rows are readable, the copies writable, and they do not overlap.
#[inline(always)]
pub(super) unsafe fn copy<L: SimdVector>(copying: &RowCopy<L::Element>) {
    let whole = copying.width / L::COUNT * L::COUNT;
    let rest = copying.width - whole;
    for r in 0..copying.rows as isize {
        // SAFETY: as the caller vouches.
        unsafe {
            let from = copying.from.offset(r * copying.from_row);
            let to = copying.to.offset(r * copying.to_row);
            let mut j = 0;
            while j < whole {
                let next = from.wrapping_offset(GEMM_PACK_PREFETCH_ROWS * copying.from_row).wrapping_add(j);
                prefetch_l2(next.cast(), size_of::<L>());
                L::load(from.add(j)).store(to.add(j));
                j += L::COUNT;
            }
            if rest > 0 {
                L::load_first(from.add(j), rest).store_first(to.add(j), rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn what_is_ahead_is_of_a_later_row_where_this_one_ends() {
        let bytes = size_of::<f32>();
        for (k, row) in [(576, 576), (100, 130), (2048, 2048), (5000, 5001), (1, 3), (64, -64)] {
            let dot = Dot::<f32> { rows: null(), row, vector: null(), k, count: 1, to: null_mut() };
            let ahead = RowsAhead::of(&dot);
            for p in 0..k {
                let element = p + GEMV_PREFETCH_BYTES / bytes;
                let expected = (element / k) as isize * dot.row + (element % k) as isize;
                assert_eq!(ahead.of_element(p), expected, "element {p} of {k}, rows {row} apart");
            }
        }
    }
}
