//! Prefetches of packed B, within the register tiles.

use kiln_simd::gemm::MicroKernel;

use super::pack::PackedView;

/// Prefetches of the next panel of B: each tile prefetches a part, a little for each product that it sums. Panels
/// that threads share are seldom in a core's caches, and the first tile of each would wait for it.
pub(super) struct PanelPrefetch {
    /// Bytes from a panel to the next.
    panel: isize,
    /// Bytes from a tile's part to the next tile's.
    each: usize,
    /// Parts there are.
    parts: usize,
    /// Bytes from what is prefetched for one product to the next.
    step: usize,
}

impl PanelPrefetch {
    /// Of the panels of `b`, which tiles of `rows` rows in all read, each over `k` products.
    pub(super) fn new<T>(kernel: &MicroKernel<T>, b: &PackedView<T>, [rows, k]: [usize; 2]) -> PanelPrefetch {
        /// Bytes of a cache line.
        const CACHE_LINE: usize = 64;
        let [panel, row] = [b.tile_stride, b.k_stride].map(|stride| stride * size_of::<T>() as isize);
        let contiguous = b.k_stride == kernel.columns as isize && b.tile_stride == b.k_stride * k as isize;
        if contiguous {
            let parts = rows.div_ceil(kernel.rows);
            let step = panel.unsigned_abs().div_ceil((parts * k).max(1));
            return PanelPrefetch { panel, each: step * k, parts, step };
        }
        // A column of cache lines is a part. A matrix unit's tiles prefetch theirs at once, as one run.
        let lines = (kernel.columns * size_of::<T>()).div_ceil(CACHE_LINE);
        let parts = if kernel.contiguous_k { 0 } else { lines };
        PanelPrefetch { panel, each: CACHE_LINE, parts, step: row.unsigned_abs() }
    }

    /// The part that belongs to a tile of the panel at `right`, and its step.
    pub(super) fn part<T>(&self, right: *const T, tile: usize) -> (*const u8, usize) {
        let at = right.cast::<u8>().wrapping_offset(self.panel).wrapping_add(self.each * tile);
        if tile < self.parts { (at, self.step) } else { (right.cast(), 0) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use kiln_simd::gemm::{Bf16x2, GemmElement};

    use super::*;
    use crate::runtime::cpu::thresholds::GEMM_SHARED_TASK_MIN_ROWS;

    #[test]
    fn tiles_prefetch_the_whole_of_the_next_panel() {
        const LINE: usize = 64;
        for kernel in <f32 as GemmElement>::kernels() {
            let columns = kernel.columns as isize;
            for (k, wide) in [(1, 96), (7, 1008), (256, 4096)] {
                for [tile_stride, k_stride] in [[columns * k, columns], [columns, wide]] {
                    let b = PackedView { ptr: LINE as *const f32, tile_stride, row_stride: 1, k_stride };
                    let rows = GEMM_SHARED_TASK_MIN_ROWS;
                    let prefetch = PanelPrefetch::new(kernel, &b, [rows, k as usize]);
                    let parts = (0..rows.div_ceil(kernel.rows)).map(|tile| prefetch.part(b.ptr, tile));
                    let lines: HashSet<usize> = parts
                        .flat_map(|(at, step)| (0..k as usize).map(move |i| (at as usize + i * step) / LINE))
                        .collect();
                    for (i, j) in (0..k).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                        let next = b.ptr.wrapping_offset(tile_stride + i * k_stride + j) as usize;
                        assert!(
                            lines.contains(&(next / LINE)),
                            "{}: k {k}, row {i}, column {j}",
                            kernel.name
                        );
                    }
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
                let prefetch = PanelPrefetch::new(kernel, &b, [rows, k as usize]);
                let tiles = 0..rows.div_ceil(kernel.rows);
                let bytes: usize = tiles.map(|tile| prefetch.part(b.ptr, tile).1 * k as usize).sum();
                assert!(bytes <= (columns * k) as usize * size_of::<Bf16x2>(), "{}: {bytes}", kernel.name);
            }
        }
    }
}
