//! Prefetches of what register tiles read next, within the tiles before.

use kiln_simd::gemm::{MicroKernel, Prefetches};

use super::pack::PackedView;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// What the tiles of a block prefetch: those of the first panel of B the rows of A that the next tile reads, where
/// they lie in place, and all others the next panel.
pub(super) struct TilePrefetch<T> {
    rows: Option<RowPrefetch<T>>,
    panels: PanelPrefetch,
}

/// Prefetches of rows of A, which nobody has read before: weights come from memory, and a block's rows are too short
/// for the hardware to see where they go.
struct RowPrefetch<T> {
    a: PackedView<T>,
    /// Tiles along the rows.
    tiles: usize,
    /// What the first tile of the next block reads.
    following: *const T,
}

/// Prefetches of the next panel of B: each tile prefetches a part, a little for each product that it sums. Panels
/// that threads share are seldom in a core's caches, and the first tile of each would wait for it.
struct PanelPrefetch {
    /// Bytes from a panel to the next.
    panel: isize,
    /// Bytes from a tile's part to the next tile's.
    each: usize,
    /// Parts there are.
    parts: usize,
    /// Bytes from what is prefetched for one product to the next.
    step: usize,
}

impl<T> TilePrefetch<T> {
    /// Of tiles of `rows` rows in all, each over `k` products. Where A lies in place, `following` is what is read
    /// after it.
    pub(super) fn new(
        kernel: &MicroKernel<T>,
        a: PackedView<T>,
        following: Option<*const T>,
        b: &PackedView<T>,
        [rows, k]: [usize; 2],
    ) -> TilePrefetch<T> {
        let tiles = rows.div_ceil(kernel.rows);
        let following = following.filter(|_| !kernel.contiguous_k);
        let rows = following.map(|following| RowPrefetch { a, tiles, following });
        TilePrefetch { rows, panels: PanelPrefetch::new(kernel, b, [tiles, k]) }
    }

    /// What a tile of a panel of B, the one at `right`, prefetches.
    pub(super) fn of_tile(&self, [panel, tile]: [usize; 2], right: *const T) -> Prefetches {
        match &self.rows {
            Some(rows) if panel == 0 => rows.after(tile),
            Some(_) | None => self.panels.part(right, tile),
        }
    }
}

impl<T> RowPrefetch<T> {
    /// For the products of a cache line of A, the next line of as many rows.
    fn after(&self, tile: usize) -> Prefetches {
        let PackedView { ptr, tile_stride, row_stride, .. } = self.a;
        let next = ptr.wrapping_offset((tile + 1) as isize * tile_stride);
        let start = if tile + 1 < self.tiles { next } else { self.following };
        let (group, step) = ((CACHE_LINE / size_of::<T>()).max(1), row_stride * size_of::<T>() as isize);
        Prefetches { start: start.cast(), step, group, skip: CACHE_LINE as isize - group as isize * step }
    }
}

impl PanelPrefetch {
    /// Of the panels of `b`, which so many tiles read, each over `k` products.
    fn new<T>(kernel: &MicroKernel<T>, b: &PackedView<T>, [tiles, k]: [usize; 2]) -> PanelPrefetch {
        let [panel, row] = [b.tile_stride, b.k_stride].map(|stride| stride * size_of::<T>() as isize);
        let contiguous = b.k_stride == kernel.columns as isize && b.tile_stride == b.k_stride * k as isize;
        if contiguous {
            let step = panel.unsigned_abs().div_ceil((tiles * k).max(1));
            return PanelPrefetch { panel, each: step * k, parts: tiles, step };
        }
        // A column of cache lines is a part. A matrix unit's tiles prefetch theirs at once, as one run.
        let lines = (kernel.columns * size_of::<T>()).div_ceil(CACHE_LINE);
        let parts = if kernel.contiguous_k { 0 } else { lines };
        PanelPrefetch { panel, each: CACHE_LINE, parts, step: row.unsigned_abs() }
    }

    /// The part that belongs to a tile of the panel at `right`.
    fn part<T>(&self, right: *const T, tile: usize) -> Prefetches {
        if tile >= self.parts {
            return Prefetches::none(right);
        }
        let start = right.cast::<u8>().wrapping_offset(self.panel).wrapping_add(self.each * tile);
        Prefetches { start, step: self.step as isize, ..Prefetches::none(right) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use kiln_simd::gemm::{Bf16x2, GemmElement};

    use super::*;
    use crate::runtime::cpu::thresholds::GEMM_SHARED_TASK_MIN_ROWS;

    /// The cache lines that so many products prefetch.
    fn lines(ahead: Prefetches, k: usize) -> impl Iterator<Item = usize> {
        let Prefetches { start, step, group, skip } = ahead;
        let at = move |i: usize| i as isize * step + (i / group) as isize * skip;
        (0..k).map(move |i| start.wrapping_offset(at(i)) as usize / CACHE_LINE)
    }

    #[test]
    fn tiles_prefetch_the_whole_of_the_next_panel() {
        for kernel in <f32 as GemmElement>::kernels() {
            let columns = kernel.columns as isize;
            for (k, wide) in [(1, 96), (7, 1008), (256, 4096)] {
                for [tile_stride, k_stride] in [[columns * k, columns], [columns, wide]] {
                    let b =
                        PackedView { ptr: CACHE_LINE as *const f32, tile_stride, row_stride: 1, k_stride };
                    let tiles = GEMM_SHARED_TASK_MIN_ROWS.div_ceil(kernel.rows);
                    let prefetch = TilePrefetch::new(kernel, b, None, &b, [tiles * kernel.rows, k as usize]);
                    let found: HashSet<usize> = (0..tiles)
                        .flat_map(|tile| lines(prefetch.of_tile([0, tile], b.ptr), k as usize))
                        .collect();
                    for (i, j) in (0..k).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                        let next = b.ptr.wrapping_offset(tile_stride + i * k_stride + j) as usize;
                        assert!(
                            found.contains(&(next / CACHE_LINE)),
                            "{}: k {k}, row {i}, column {j}",
                            kernel.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_of_the_first_panel_prefetch_the_rows_of_the_next_tile() {
        for kernel in <f32 as GemmElement>::kernels() {
            let (tiles, k, width) = (3, 64, 576);
            let tile_stride = kernel.rows as isize * width;
            let a = PackedView { ptr: CACHE_LINE as *const f32, tile_stride, row_stride: width, k_stride: 1 };
            let following = a.ptr.wrapping_add(k);
            let prefetch = TilePrefetch::new(kernel, a, Some(following), &a, [tiles * kernel.rows, k]);
            for tile in 0..tiles {
                let found: HashSet<usize> = lines(prefetch.of_tile([0, tile], a.ptr), k).collect();
                let next = a.ptr.wrapping_offset((tile + 1) as isize * tile_stride);
                let next = if tile + 1 < tiles { next } else { following };
                for (row, i) in (0..kernel.rows as isize).flat_map(|row| (0..k).map(move |i| (row, i))) {
                    let at = next.wrapping_offset(row * width).wrapping_add(i) as usize;
                    assert!(
                        found.contains(&(at / CACHE_LINE)),
                        "{}: tile {tile}, row {row}, {i}",
                        kernel.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_matrix_unit_prefetches_no_more_than_a_panel() {
        for kernel in Bf16x2::kernels().iter().filter(|kernel| kernel.contiguous_k) {
            let (columns, k, rows) = (kernel.columns as isize, 256, GEMM_SHARED_TASK_MIN_ROWS);
            for [tile_stride, k_stride] in [[columns * k, columns], [columns, 512]] {
                let b = PackedView { ptr: std::ptr::null::<Bf16x2>(), tile_stride, row_stride: 1, k_stride };
                let prefetch = TilePrefetch::new(kernel, b, Some(b.ptr), &b, [rows, k as usize]);
                let tiles = 0..rows.div_ceil(kernel.rows);
                let bytes: isize = tiles.map(|tile| prefetch.of_tile([0, tile], b.ptr).step * k).sum();
                assert!(bytes <= columns * k * size_of::<Bf16x2>() as isize, "{}: {bytes}", kernel.name);
            }
        }
    }
}
