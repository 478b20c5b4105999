//! Products of few rows, which are as fast as the other matrix is read: the tiles of
//! `kernels/product_skinny.cuh`.

use crate::base::DType;
use crate::kernel::{Contraction, Kernel};
use crate::render::cuda::async_copy::{AsyncCopy, is_k_major, loads};
use crate::render::cuda::thresholds;
use crate::render::cuda::tiles::{CudaProductTile, MmaType, TileCandidate};
use crate::render::product::ProductExtents;
use crate::render::target::GpuTarget;

/// The tiles of few rows. Tensor cores read a matrix of 16-bit floats as fast if it is
/// copied as it is, and have less to do with rows that half fill them.
pub(super) fn candidates(kernel: &Kernel, c: &Contraction, target: &GpuTarget) -> Vec<TileCandidate> {
    let extents = ProductExtents::of(kernel, c);
    let (rows, size) = (extents.m.next_power_of_two(), c.dtype.compute().size().max(4));
    let is_copied = |dtype: DType| {
        [&c.k, &c.n].into_iter().any(|axes| AsyncCopy::of(kernel, c.b, axes, dtype, target).is_some())
    };
    let by_tensor_cores = MmaType::of(kernel, c)
        .is_some_and(|factor| rows > 4 && factor.dtype().size() == 2 && is_copied(factor.dtype()));
    if rows * size > 4 * thresholds::MAX_SKINNY_ROWS
        || extents.k < thresholds::MIN_K_PER_PART
        || c.dtype == DType::Bool
        || by_tensor_cores
    {
        return Vec::new();
    }
    let k_major = is_k_major(kernel, c.b, &c.k, &c.n);
    // Fewer columns than 32 that are neighbours in memory are less than a line of the cache.
    let widths: &[usize] = if k_major { &[4, 8, 16, 32] } else { &[16, 32, 64] };
    let bytes = loads(kernel, c.b).map(|(dtype, _)| dtype.size()).max().unwrap_or(4);
    // As much under way as registers allow.
    let k_unroll = match rows * size {
        ..=16 => 4,
        33.. if k_major => 1,
        _ => 2,
    };
    let candidate = |&columns: &usize| {
        let tile = CudaProductTile::Skinny { rows, columns, k_unroll, size };
        let read = thresholds::SKINNY_BYTES_PER_NANOSECOND
            / if k_major || columns >= thresholds::CACHE_LINE_COLUMNS { 1 } else { 2 }
            / bytes as u64;
        TileCandidate { tile, rate: (read * rows as u64).min(thresholds::SKINNY_MAX_RATE / size as u64) }
    };
    widths.iter().map(candidate).collect()
}
