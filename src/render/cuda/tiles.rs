//! Tiles of matrix products for CUDA's templates: which there are, which suit a
//! kernel, and in how many parts of the depth.

use crate::base::{DType, Precision};
use crate::kernel::{Contraction, Expr, ExprId, Kernel};
use crate::render::cuda::skinny;
use crate::render::cuda::thresholds;
use crate::render::product::{ProductExtents, epilogue_ops};
use crate::render::target::{CudaFeatures, GpuTarget};
use crate::render::thresholds::{MAX_EPILOGUE_OPS, MIN_TILED_RESULTS};

/// The numbers that tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaType {
    /// 16-bit floats.
    F16,
    /// 16-bit floats with the exponents of 32-bit ones.
    BF16,
    /// 32-bit floats, of which 11 significant bits count.
    Tf32,
}

impl MmaType {
    /// The type of such numbers in memory.
    pub const fn dtype(self) -> DType {
        match self {
            MmaType::F16 => DType::F16,
            MmaType::BF16 => DType::BF16,
            MmaType::Tf32 => DType::F32,
        }
    }

    /// As functions of the prelude spell it.
    pub const fn name(self) -> &'static str {
        match self {
            MmaType::F16 => "f16",
            MmaType::BF16 => "bf16",
            MmaType::Tf32 => "tf32",
        }
    }

    /// What both operands of a product are without loss, or with what loss is allowed,
    /// if tensor cores know it.
    pub fn of(kernel: &Kernel, c: &Contraction) -> Option<MmaType> {
        if c.dtype != DType::F32 {
            return None;
        }
        match [c.a, c.b].map(|operand| kernel.exprs[unwidened(kernel, operand).index()].dtype) {
            [DType::F16, DType::F16] => Some(MmaType::F16),
            [DType::BF16, DType::BF16] => Some(MmaType::BF16),
            _ => match c.precision {
                Precision::Strict | Precision::Highest => None,
                Precision::High => Some(MmaType::Tf32),
                Precision::Medium => Some(MmaType::BF16),
            },
        }
    }

    /// The function of the prelude that makes such a number, as bits.
    pub const fn rounding(self) -> &'static str {
        match self {
            MmaType::F16 => "narrow_f16",
            MmaType::BF16 => "narrow_bf16",
            MmaType::Tf32 => "round_tf32",
        }
    }

    /// Of the rate with 16-bit floats, one in so many.
    const fn slowness(self) -> u64 {
        match self {
            MmaType::F16 | MmaType::BF16 => 1,
            MmaType::Tf32 => 2,
        }
    }
}

/// The 16-bit float of which an expression is a cast to 32 bits; else itself.
pub fn unwidened(kernel: &Kernel, id: ExprId) -> ExprId {
    let node = &kernel.exprs[id.index()];
    let Expr::Cast(x) = node.expr else { return id };
    let narrow = matches!(kernel.exprs[x.index()].dtype, DType::F16 | DType::BF16);
    if node.dtype == DType::F32 && narrow { x } else { id }
}

/// The part of a product that a block computes, and by which template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CudaProductTile {
    /// `kernels/product_simt.cuh`: memory that the block shares.
    Simt {
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Vec4s of rows that a thread computes.
        row_vec4s: usize,
        /// Vec4s of columns that a thread computes.
        column_vec4s: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// `kernels/product_skinny.cuh`: few rows, for which the other matrix is read once.
    Skinny {
        /// Rows of the tile, each of which a thread multiplies by what it reads.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Vec4s of depths that a thread takes at a time.
        k_unroll: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// `kernels/product_mma.cuh`: tensor cores.
    Mma {
        /// What they multiply.
        factor: MmaType,
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Rows of the part that a warp computes.
        part_rows: usize,
        /// Columns of the part that a warp computes.
        part_columns: usize,
        /// Steps of the depth that are in shared memory at a time.
        stages: usize,
    },
    /// `kernels/product_wgmma.cuh`: tensor cores of compute capability 9.0, which read
    /// shared memory.
    Wgmma {
        /// What they multiply.
        factor: MmaType,
        /// Rows of the tile: 64 for each warpgroup.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Steps of the depth that are in shared memory at a time.
        stages: usize,
    },
}

/// Depths of one step of [`CudaProductTile::Simt`].
const SIMT_STEP: usize = 16;
/// Threads of a block of [`CudaProductTile::Skinny`].
const SKINNY_THREADS: usize = 256;
/// Bytes along the depth of one step of [`CudaProductTile::Mma`].
const MMA_STEP_BYTES: usize = 64;

/// Bytes along the depth of one step of [`CudaProductTile::Wgmma`].
const WGMMA_STEP_BYTES: usize = 128;

/// Shared memory of a block: what the devices for data centres have, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharedMemoryClass {
    Large,
    Small,
}

/// A line of the table of tiles.
struct MmaTileEntry {
    shared: SharedMemoryClass,
    tile: [usize; 2],
    part: [usize; 2],
    stages: usize,
    /// Estimate of the multiplications that a multiprocessor does in a nanosecond
    /// when all of it is used: from what shared memory is read for each, beside
    /// what vendors say of the fastest.
    rate: u64,
}

const fn mma(
    shared: SharedMemoryClass,
    tile: [usize; 2],
    part: [usize; 2],
    stages: usize,
    rate: u64,
) -> MmaTileEntry {
    MmaTileEntry { shared, tile, part, stages, rate }
}

/// The tiles of tensor cores there are.
const MMA: &[MmaTileEntry] = &[
    mma(SharedMemoryClass::Large, [128, 256], [64, 64], 4, 1300),
    mma(SharedMemoryClass::Large, [128, 128], [64, 32], 4, 1200),
    mma(SharedMemoryClass::Large, [64, 128], [32, 32], 4, 1000),
    mma(SharedMemoryClass::Large, [64, 64], [32, 32], 5, 800),
    mma(SharedMemoryClass::Large, [32, 64], [16, 32], 5, 500),
    mma(SharedMemoryClass::Large, [16, 64], [16, 16], 5, 300),
    mma(SharedMemoryClass::Small, [128, 128], [64, 32], 3, 600),
    mma(SharedMemoryClass::Small, [64, 128], [32, 32], 3, 520),
    mma(SharedMemoryClass::Small, [64, 64], [32, 32], 4, 450),
    mma(SharedMemoryClass::Small, [32, 64], [16, 32], 4, 300),
    mma(SharedMemoryClass::Small, [16, 64], [16, 16], 4, 180),
];

/// The tiles of warpgroups: rows and columns, stages, the rate.
const WGMMA: &[([usize; 2], usize, u64)] = &[
    ([128, 256], 4, 2600),
    ([128, 128], 5, 2200),
    ([128, 64], 5, 1500),
    ([64, 128], 5, 1400),
    ([64, 64], 5, 1100),
];

/// The tiles of ordinary multiplications: rows and columns, vec4s of them that a
/// thread computes, the rate for 32-bit numbers.
const SIMT: &[([usize; 2], [usize; 2], u64)] = &[
    ([128, 128], [2, 2], 70),
    ([64, 128], [2, 2], 62),
    ([64, 64], [2, 1], 62),
    ([32, 64], [1, 1], 36),
    ([16, 64], [1, 1], 28),
];

/// A tile, with how fast it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileCandidate {
    /// The tile.
    pub tile: CudaProductTile,
    /// Multiplications that a multiprocessor does in a nanosecond.
    pub rate: u64,
}

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitKTile {
    /// By which tile.
    pub tile: CudaProductTile,
    /// In how many parts of the depth, whose results are summed.
    pub parts: usize,
}

impl CudaProductTile {
    /// Rows and columns of the tile.
    pub fn size(&self) -> [usize; 2] {
        match *self {
            CudaProductTile::Simt { rows, columns, .. }
            | CudaProductTile::Skinny { rows, columns, .. }
            | CudaProductTile::Mma { rows, columns, .. }
            | CudaProductTile::Wgmma { rows, columns, .. } => [rows, columns],
        }
    }
    /// Depths of one step.
    pub fn step(&self) -> usize {
        match *self {
            CudaProductTile::Simt { .. } => SIMT_STEP,
            CudaProductTile::Skinny { k_unroll, .. } => self.deep() * k_unroll * 4,
            CudaProductTile::Mma { factor, .. } => MMA_STEP_BYTES / factor.dtype().size(),
            CudaProductTile::Wgmma { factor, .. } => WGMMA_STEP_BYTES / factor.dtype().size(),
        }
    }
    /// Steps until a pipeline is full.
    fn fill(&self) -> usize {
        match self {
            CudaProductTile::Simt { .. } | CudaProductTile::Mma { .. } | CudaProductTile::Wgmma { .. } => {
                thresholds::PIPELINE_FILL
            }
            CudaProductTile::Skinny { .. } => 1,
        }
    }
    /// Blocks that share a multiprocessor: of few rows two if registers last, so that some read
    /// while others multiply.
    pub fn sharers(&self) -> usize {
        match *self {
            CudaProductTile::Simt { .. } | CudaProductTile::Mma { .. } | CudaProductTile::Wgmma { .. } => 1,
            CudaProductTile::Skinny { size, .. } => 8 / size,
        }
    }
    /// Threads of a block that share its columns, and so take parts of the depth.
    pub fn deep(&self) -> usize {
        match *self {
            CudaProductTile::Skinny { columns, .. } => SKINNY_THREADS / (columns / 4),
            CudaProductTile::Simt { .. } | CudaProductTile::Mma { .. } | CudaProductTile::Wgmma { .. } => 1,
        }
    }
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        match *self {
            CudaProductTile::Simt { rows, columns, row_vec4s, column_vec4s, .. } => {
                (rows / 4 / row_vec4s * (columns / 4 / column_vec4s)) as u32
            }
            CudaProductTile::Skinny { .. } => SKINNY_THREADS as u32,
            CudaProductTile::Mma { rows, columns, part_rows, part_columns, .. } => {
                (32 * (rows / part_rows) * (columns / part_columns)) as u32
            }
            CudaProductTile::Wgmma { rows, .. } => 2 * rows as u32,
        }
    }
    /// Bytes of shared memory that a block asks for.
    pub fn shared_bytes(&self) -> usize {
        match *self {
            CudaProductTile::Simt { rows, columns, size, .. } => 2 * SIMT_STEP * (rows + columns) * size,
            // Two steps of the rows; then what half of the threads summed.
            CudaProductTile::Skinny { rows, size, .. } => {
                (2 * self.step()).max(2 * SKINNY_THREADS) * rows * size
            }
            CudaProductTile::Mma { rows, columns, part_columns, stages, .. } => {
                self.staged_bytes(stages * (rows + columns) * MMA_STEP_BYTES, part_columns)
            }
            CudaProductTile::Wgmma { rows, columns, stages, .. } => {
                self.staged_bytes(stages * (rows + columns) * WGMMA_STEP_BYTES, columns)
            }
        }
    }
    /// What stages of operands take, or sums that leave, in strips of at most 64 columns of
    /// 16 rows for each warp.
    fn staged_bytes(&self, operands: usize, part_columns: usize) -> usize {
        operands.max(self.threads() as usize / 32 * 16 * (part_columns.min(64) + 8) * 4)
    }
    /// Times that what follows the sum is in the text.
    fn copies(&self) -> usize {
        match *self {
            CudaProductTile::Simt { row_vec4s, column_vec4s, .. } => 16 * row_vec4s * column_vec4s,
            CudaProductTile::Skinny { .. } => 4,
            CudaProductTile::Mma { part_rows, .. } => 4 * (part_rows / 16),
            CudaProductTile::Wgmma { columns, .. } => 4 * (columns / 64),
        }
    }
    /// Blocks of a product.
    pub fn groups(&self, extents: &ProductExtents) -> u64 {
        let [rows, columns] = self.size();
        (extents.batch * extents.m.div_ceil(rows) * extents.n.div_ceil(columns)) as u64
    }
}

/// The tiles that suit a kernel's product, the one expected to be fastest first,
/// each with the parts of the depth that suit it. None: the product is too small,
/// or of numbers that no template multiplies.
pub fn suitable(kernel: &Kernel, c: &Contraction, target: &GpuTarget) -> Vec<SplitKTile> {
    let (extents, Some(cuda)) = (ProductExtents::of(kernel, c), target.cuda) else { return Vec::new() };
    let reach = 1..=i32::MAX as usize - 4096;
    if [extents.m, extents.n, extents.k].iter().any(|extent| !reach.contains(extent)) {
        return Vec::new();
    }
    let epilogue_ops = epilogue_ops(kernel);
    let fits = |candidate: &TileCandidate| {
        candidate.tile.shared_bytes() <= cuda.shared_bytes()
            && candidate.tile.groups(&extents) <= i32::MAX as u64
            && epilogue_ops * candidate.tile.copies() as u64 <= MAX_EPILOGUE_OPS
    };
    let ways = |candidates: Vec<TileCandidate>| {
        let candidates = candidates.into_iter().filter(fits);
        let mut ways: Vec<(u64, SplitKTile)> =
            candidates.map(|candidate| fastest(&candidate, &extents, &cuda)).collect();
        ways.sort_by_key(|&(cost, _)| cost);
        ways.into_iter().map(|(_, way)| way)
    };
    let is_small = extents.m * extents.n < MIN_TILED_RESULTS;
    let others = if is_small { Vec::new() } else { candidates(kernel, c, &cuda) };
    ways(skinny::candidates(kernel, c, target)).chain(ways(others)).collect()
}

/// The tiles for what a product multiplies, on a device.
fn candidates(kernel: &Kernel, c: &Contraction, cuda: &CudaFeatures) -> Vec<TileCandidate> {
    let Some(factor) = MmaType::of(kernel, c) else { return ordinary(c.dtype) };
    let shared = if cuda.shared_bytes() < thresholds::LARGE_SHARED_BYTES {
        SharedMemoryClass::Small
    } else {
        SharedMemoryClass::Large
    };
    let candidate = |row: &MmaTileEntry| {
        let ([rows, columns], [part_rows, part_columns]) = (row.tile, row.part);
        let tile =
            CudaProductTile::Mma { factor, rows, columns, part_rows, part_columns, stages: row.stages };
        TileCandidate { tile, rate: row.rate / factor.slowness() }
    };
    let mut all: Vec<TileCandidate> = MMA.iter().filter(|row| row.shared == shared).map(candidate).collect();
    let wgmma = |&([rows, columns], stages, rate): &([usize; 2], usize, u64)| TileCandidate {
        tile: CudaProductTile::Wgmma { factor, rows, columns, stages },
        rate,
    };
    if cuda.compute_capability == (9, 0) && factor.dtype().size() == 2 {
        all.extend(WGMMA.iter().map(wgmma));
    }
    all
}

/// The tiles of ordinary multiplications. Numbers of 64 bits take the registers of
/// two, and so have no large ones; truth values have none.
fn ordinary(dtype: DType) -> Vec<TileCandidate> {
    let size = dtype.compute().size().max(4);
    let fits = |[row_vec4s, column_vec4s]: [usize; 2]| row_vec4s * column_vec4s * size <= 16;
    let candidate = |&([rows, columns], own, rate): &([usize; 2], [usize; 2], u64)| {
        let [row_vec4s, column_vec4s] = own;
        let tile = CudaProductTile::Simt { rows, columns, row_vec4s, column_vec4s, size };
        (fits(own) && dtype != DType::Bool).then_some(TileCandidate { tile, rate: rate * 4 / size as u64 })
    };
    SIMT.iter().filter_map(candidate).collect()
}

/// A tile with the parts that make it fastest.
fn fastest(candidate: &TileCandidate, extents: &ProductExtents, cuda: &CudaFeatures) -> (u64, SplitKTile) {
    let parts = (0..6).map(|power| 1usize << power).filter(|&parts| {
        let small = candidate.tile.groups(extents) * (parts as u64)
            < thresholds::SPLIT_K_BLOCKS * cuda.multiprocessors as u64;
        parts == 1 || (extents.k / parts >= thresholds::MIN_K_PER_PART && small)
    });
    let choices = parts
        .map(|parts| (cost(candidate, extents, parts, cuda), SplitKTile { tile: candidate.tile, parts }));
    let Some(best) = choices.min_by_key(|&(cost, choice)| (cost, choice.parts)) else {
        panic!("one part is always possible")
    };
    best
}

/// Nanoseconds that a product takes, about: whole tiles on each multiprocessor, and
/// the sum of the parts.
fn cost(candidate: &TileCandidate, extents: &ProductExtents, parts: usize, cuda: &CudaFeatures) -> u64 {
    let tile = &candidate.tile;
    let [rows, columns] = tile.size();
    let sharers = tile.sharers();
    let takers = (cuda.multiprocessors * sharers) as u64;
    let each = (tile.groups(extents) * parts as u64).div_ceil(takers);
    let depth = extents.k.div_ceil(parts).next_multiple_of(tile.step()) + tile.fill() * tile.step();
    let product = each * (sharers * rows * columns * depth) as u64 / candidate.rate;
    let moved = 8 * (parts * extents.batch * extents.m * extents.n) as u64;
    if parts == 1 {
        product
    } else {
        product + moved / thresholds::MEMORY_BYTES_PER_NANOSECOND + thresholds::LAUNCH_NANOSECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(compute_capability: (u32, u32)) -> CudaFeatures {
        CudaFeatures { compute_capability, multiprocessors: 108, tensor_maps: true }
    }

    fn tile(row: &MmaTileEntry) -> CudaProductTile {
        let ([rows, columns], [part_rows, part_columns]) = (row.tile, row.part);
        CudaProductTile::Mma {
            factor: MmaType::BF16,
            rows,
            columns,
            part_rows,
            part_columns,
            stages: row.stages,
        }
    }

    #[test]
    fn every_tile_fits_its_devices() {
        for row in MMA {
            let generation = if row.shared == SharedMemoryClass::Large { (8, 0) } else { (12, 0) };
            assert!(tile(row).shared_bytes() <= device(generation).shared_bytes(), "{:?}", row.tile);
            let CudaProductTile::Mma { rows, columns, part_rows, part_columns, stages, .. } = tile(row)
            else {
                panic!("a tile of tensor cores")
            };
            assert!(rows % part_rows == 0 && columns % part_columns == 0 && stages > 1, "{:?}", row.tile);
            assert!(part_rows % 16 == 0 && part_columns % 16 == 0, "{:?}", row.tile);
        }
    }

    #[test]
    fn every_tile_of_groups_fits_its_device() {
        for &([rows, columns], stages, _) in WGMMA {
            let tile = CudaProductTile::Wgmma { factor: MmaType::F16, rows, columns, stages };
            assert!(tile.shared_bytes() <= device((9, 0)).shared_bytes(), "{tile:?}");
            assert!(rows % 64 == 0 && [64, 128, 256].contains(&columns) && stages > 2, "{tile:?}");
        }
    }

    #[test]
    fn warps_of_ordinary_tiles_are_four_by_eight_threads() {
        for &([rows, columns], [row_vec4s, column_vec4s], _) in SIMT {
            let [down, across] = [rows / 4 / row_vec4s, columns / 4 / column_vec4s];
            assert!(down % 4 == 0 && across % 8 == 0, "{rows} by {columns}");
        }
        let most = ordinary(DType::F64).into_iter().map(|candidate| candidate.tile.shared_bytes()).max();
        assert!(most.is_some_and(|bytes| bytes <= device((12, 0)).shared_bytes()));
        assert!(ordinary(DType::Bool).is_empty());
    }

    fn best(extents: ProductExtents) -> SplitKTile {
        let device = device((8, 0));
        let rows = MMA.iter().filter(|row| row.shared == SharedMemoryClass::Large);
        let choices =
            rows.map(|row| fastest(&TileCandidate { tile: tile(row), rate: row.rate }, &extents, &device));
        choices.min_by_key(|&(cost, _)| cost).expect("a tile").1
    }

    #[test]
    fn large_products_get_large_tiles_and_deep_narrow_ones_parts() {
        let large = best(ProductExtents { batch: 1, m: 8192, n: 8192, k: 8192 });
        assert_eq!((large.tile.size(), large.parts), ([128, 256], 1));
        let small = best(ProductExtents { batch: 1, m: 16, n: 64, k: 512 });
        assert_eq!((small.tile.size(), small.parts), ([16, 64], 1));
        let deep = best(ProductExtents { batch: 1, m: 256, n: 256, k: 16384 });
        assert!(deep.parts > 4, "{deep:?}");
    }
}
