//! Tiles of matrix products: which template, and in what size, for a device.

use crate::base::DType;
use crate::ir::AluOp;
use crate::kernel::{AxisId, Contraction, Expr, Kernel};
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thresholds::{
    FEW_COLUMNS, MAX_EPILOGUE_OPS, MIN_TILED_RESULTS, MULTIPLICATIONS_PER_ELEMENT,
};
use crate::render::wgsl::thresholds;

/// The part of a product that a workgroup computes, and by which template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WgslProductTile {
    /// `shaders/product_subgroup.wgsl`: registers, and broadcasts within a subgroup.
    Subgroup {
        /// Rows of the tile.
        rows: usize,
        /// Vec4s of columns that an invocation computes.
        vec4s: usize,
    },
    /// `shaders/product_workgroup.wgsl`: memory that the workgroup shares.
    Workgroup {
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Depths that are in shared memory at a time.
        step: usize,
        /// Vec4s of rows that an invocation computes.
        row_vec4s: usize,
        /// Vec4s of columns that an invocation computes.
        column_vec4s: usize,
    },
    /// `shaders/product_matrix.wgsl`: matrices that a subgroup multiplies together.
    Matrix {
        /// Rows and columns of a matrix.
        side: usize,
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Rows of the part that a subgroup computes.
        part_rows: usize,
        /// Columns of the part that a subgroup computes.
        part_columns: usize,
    },
}

/// Depths that a tile of matrices has in shared memory at a time.
const MATRIX_STEP: usize = 32;
/// Columns of sums that a tile of matrices lets out at a time.
const MATRIX_STRIP: usize = 16;

/// A line of the table of tiles.
struct TileEntry {
    adapter: Adapter,
    tile: WgslProductTile,
    /// How fast it is beside the class's others when all of it is used: on
    /// CPU adapters GFLOP per CPU-second of lavapipe; on GPUs an estimate from
    /// the reads of shared memory per multiplication, and for matrices from what
    /// vendors say of them beside other multiplications.
    rate: u64,
    /// Multiplications that are worth the time it takes to compile.
    min_work: u64,
}

const fn subgroup(rows: usize, vec4s: usize, rate: u64, min_work: u64) -> TileEntry {
    TileEntry { adapter: Adapter::Software, tile: WgslProductTile::Subgroup { rows, vec4s }, rate, min_work }
}

const fn workgroup(adapter: Adapter, [rows, columns]: [usize; 2], own: [usize; 2], rate: u64) -> TileEntry {
    let [row_vec4s, column_vec4s] = own;
    TileEntry {
        adapter,
        tile: WgslProductTile::Workgroup { rows, columns, step: 16, row_vec4s, column_vec4s },
        rate,
        min_work: 0,
    }
}

const fn matrix(
    adapter: Adapter,
    side: usize,
    [rows, columns]: [usize; 2],
    part: [usize; 2],
    rate: u64,
) -> TileEntry {
    let [part_rows, part_columns] = part;
    TileEntry {
        adapter,
        tile: WgslProductTile::Matrix { side, rows, columns, part_rows, part_columns },
        rate,
        min_work: 0,
    }
}

/// The tiles there are.
const TILES: &[TileEntry] = &[
    subgroup(32, 2, 33, 1 << 32),
    subgroup(32, 1, 28, 0),
    subgroup(16, 1, 20, 0),
    subgroup(8, 1, 15, 0),
    subgroup(4, 1, 9, 0),
    workgroup(Adapter::Discrete, [128, 128], [2, 2], 100),
    workgroup(Adapter::Discrete, [64, 128], [2, 2], 90),
    workgroup(Adapter::Discrete, [64, 64], [2, 1], 70),
    workgroup(Adapter::Discrete, [32, 64], [1, 1], 50),
    workgroup(Adapter::Discrete, [16, 64], [1, 1], 40),
    workgroup(Adapter::Integrated, [64, 64], [2, 2], 100),
    workgroup(Adapter::Integrated, [64, 64], [1, 1], 70),
    workgroup(Adapter::Integrated, [32, 32], [1, 1], 60),
    workgroup(Adapter::Integrated, [16, 32], [1, 1], 40),
    matrix(Adapter::Discrete, 16, [128, 128], [64, 32], 400),
    matrix(Adapter::Discrete, 16, [64, 64], [32, 32], 280),
    matrix(Adapter::Discrete, 16, [32, 64], [16, 32], 180),
    matrix(Adapter::Discrete, 8, [128, 128], [64, 32], 300),
    matrix(Adapter::Discrete, 8, [64, 64], [32, 32], 210),
    matrix(Adapter::Discrete, 8, [32, 64], [16, 32], 140),
    matrix(Adapter::Integrated, 16, [64, 64], [32, 32], 300),
    matrix(Adapter::Integrated, 16, [32, 32], [16, 16], 180),
    matrix(Adapter::Integrated, 8, [64, 64], [32, 32], 200),
    matrix(Adapter::Integrated, 8, [32, 32], [16, 16], 140),
];

/// The extents of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductExtents {
    /// Independent products.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Products summed for an element.
    pub k: usize,
}

impl ProductExtents {
    /// Those of a kernel's contraction.
    pub fn of(kernel: &Kernel, c: &Contraction) -> ProductExtents {
        let size = |axes: &[AxisId]| axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
        ProductExtents { batch: size(&c.batch), m: size(&c.m), n: size(&c.n), k: size(&c.k) }
    }
}

/// The contraction with the operands in the order that tiles like: results
/// are neighbours in memory along the columns, and columns are not few.
#[must_use]
pub fn oriented(kernel: &Kernel, c: &Contraction) -> Contraction {
    let runs = |axes: &[AxisId]| {
        let last = axes.iter().rfind(|axis| kernel.axes[axis.index()].extent != 1);
        last.is_some_and(|&axis| kernel.stores.first().is_some_and(|s| s.address.coefficient(axis) == 1))
    };
    let ProductExtents { m, n, .. } = ProductExtents::of(kernel, c);
    let few = |n: usize, m: usize| n < FEW_COLUMNS && m >= 4 * n;
    if few(n, m) || (runs(&c.m) && !runs(&c.n) && !few(m, n)) {
        return Contraction { a: c.b, b: c.a, m: c.n.clone(), n: c.m.clone(), ..c.clone() };
    }
    c.clone()
}

impl WgslProductTile {
    /// Rows and columns of the tile.
    pub fn size(&self, target: &GpuTarget) -> [usize; 2] {
        match *self {
            WgslProductTile::Subgroup { rows, vec4s } => [rows, 4 * vec4s * target.subgroup as usize],
            WgslProductTile::Workgroup { rows, columns, .. }
            | WgslProductTile::Matrix { rows, columns, .. } => [rows, columns],
        }
    }
    /// Depths of one iteration.
    pub fn step(&self, target: &GpuTarget) -> usize {
        match *self {
            WgslProductTile::Subgroup { rows, .. } => 16 * target.subgroup as usize / rows,
            WgslProductTile::Workgroup { step, .. } => step,
            WgslProductTile::Matrix { .. } => MATRIX_STEP,
        }
    }
    /// Invocations of a workgroup.
    pub fn workgroup(&self, target: &GpuTarget) -> u32 {
        match *self {
            WgslProductTile::Subgroup { .. } => target.subgroup,
            WgslProductTile::Workgroup { rows, columns, row_vec4s, column_vec4s, .. } => {
                (rows / 4 / row_vec4s * (columns / 4 / column_vec4s)) as u32
            }
            // Most subgroups are of 32; the template does with others.
            WgslProductTile::Matrix { .. } => 32 * self.parts() as u32,
        }
    }
    /// Parts that subgroups compute, or invocations without any.
    fn parts(&self) -> usize {
        match *self {
            WgslProductTile::Matrix { rows, columns, part_rows, part_columns, .. } => {
                rows / part_rows * (columns / part_columns)
            }
            WgslProductTile::Subgroup { .. } | WgslProductTile::Workgroup { .. } => 1,
        }
    }
    /// Times that what follows the sum is in the text a driver sees.
    fn copies(&self) -> usize {
        match *self {
            WgslProductTile::Subgroup { .. } => 4,
            WgslProductTile::Workgroup { row_vec4s, column_vec4s, .. } => 16 * row_vec4s * column_vec4s,
            WgslProductTile::Matrix { side, part_rows, part_columns, .. } => {
                4 * (part_rows / side) * (part_columns / MATRIX_STRIP)
            }
        }
    }
    /// Bytes of memory that a workgroup shares.
    fn shared_bytes(&self) -> usize {
        match *self {
            WgslProductTile::Subgroup { .. } => 0,
            WgslProductTile::Workgroup { rows, columns, step, .. } => 4 * step * (rows + columns),
            WgslProductTile::Matrix { side, rows, columns, .. } => {
                let operands = rows * (MATRIX_STEP + 8) + MATRIX_STEP * (columns + 8);
                2 * operands + 4 * self.parts() * side * (MATRIX_STRIP + 4) + 16
            }
        }
    }
    /// Workgroups of a product.
    pub fn groups(&self, extents: &ProductExtents, target: &GpuTarget) -> u64 {
        let [rows, columns] = self.size(target);
        (extents.batch * extents.m.div_ceil(rows) * extents.n.div_ceil(columns)) as u64
    }
    /// Whether a device can run it, on a product that deep.
    fn fits(&self, k: usize, target: &GpuTarget) -> bool {
        let able = match *self {
            // A subgroup's lanes hold blocks of four rows; what those above the
            // eighth hold is not broadcast.
            WgslProductTile::Subgroup { rows, .. } => {
                rows / 4 <= target.subgroup as usize && target.subgroup <= 8
            }
            WgslProductTile::Workgroup { .. } => true,
            WgslProductTile::Matrix { side, .. } => target.matrix.is_some_and(|known| known as usize == side),
        };
        if !able {
            return false;
        }
        // A GPU's inner loops are not counted, since it has no such limit.
        let iterations = k.div_ceil(self.step(target)) as u64;
        self.shared_bytes() <= target.workgroup_bytes as usize
            && self.workgroup(target) <= target.max_workgroup
            && iterations <= target.max_iterations
    }
}

/// The tiles that suit a kernel's contraction, the one expected to be fastest
/// first. None: the product is too small, or of 64-bit elements, or the device
/// lacks what templates need.
pub fn suitable(kernel: &Kernel, c: &Contraction, target: &GpuTarget) -> Vec<WgslProductTile> {
    let extents = ProductExtents::of(kernel, c);
    let narrow = c.dtype.compute().size() <= 4 && c.dtype != DType::Bool;
    let work = (extents.batch * extents.m * extents.n) as u64 * extents.k as u64;
    let min_work = ((MULTIPLICATIONS_PER_ELEMENT * target.compile_bound_elements) as u64).max(1);
    if !narrow || extents.m * extents.n < MIN_TILED_RESULTS || work < min_work {
        return Vec::new();
    }
    let epilogue_ops = epilogue_ops(kernel);
    // Matrices hold 16-bit floats; other numbers would lose digits in them.
    let operands = [c.a, c.b].map(|operand| kernel.exprs[operand.index()].dtype);
    let halves = c.dtype == DType::F32 && operands == [DType::F16; 2];
    let suits = |row: &&TileEntry| {
        row.adapter == target.adapter
            && row.tile.fits(extents.k, target)
            && (halves || !matches!(row.tile, WgslProductTile::Matrix { .. }))
            && work >= row.min_work
            && epilogue_ops * row.tile.copies() as u64 <= MAX_EPILOGUE_OPS
    };
    let mut rows: Vec<&TileEntry> = TILES.iter().filter(suits).collect();
    rows.sort_by_key(|row| cost(row, &extents, target));
    rows.into_iter().map(|row| row.tile).collect()
}

/// Time that a product takes, in some unit: whole tiles, as many at a time as
/// the device has places for.
fn cost(row: &TileEntry, extents: &ProductExtents, target: &GpuTarget) -> u64 {
    let [rows, columns] = row.tile.size(target);
    let waves = row.tile.groups(extents, target).div_ceil(thresholds::concurrent_tiles(target.adapter));
    waves * (rows * columns) as u64 * 1000 / row.rate
}

/// Operations on an element after its sum is there.
pub fn epilogue_ops(kernel: &Kernel) -> u64 {
    let own = kernel.exprs.iter().filter(|node| node.level == 0);
    own.map(|node| match node.expr {
        Expr::Alu(op, _) => AluOp::flops(op),
        Expr::Load(..) | Expr::Cast(_) => 1,
        Expr::Const(_)
        | Expr::Arg(_)
        | Expr::Index(_)
        | Expr::Inside(_)
        | Expr::Bitcast(_)
        | Expr::Reduce(..)
        | Expr::Scan(..)
        | Expr::Checked(..)
        | Expr::Accumulator => 0,
    })
    .sum::<u64>()
    .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_fits_its_class() {
        for row in TILES {
            let gpu = GpuTarget { adapter: row.adapter, ..GpuTarget::webgpu_default() };
            let target = match (row.adapter, row.tile) {
                (Adapter::Software, _) => GpuTarget::software(),
                // GPUs with matrices share more than every GPU does.
                (_, WgslProductTile::Matrix { side, .. }) => {
                    GpuTarget { matrix: Some(side as u32), workgroup_bytes: 32 << 10, ..gpu }
                }
                _ => gpu,
            };
            assert!(row.tile.fits(1, &target), "{:?}", row.tile);
            if let WgslProductTile::Workgroup { rows, columns, .. } = row.tile {
                let threads = row.tile.workgroup(&target) as usize;
                assert_eq!(rows * columns, threads * row.tile.copies(), "{:?}", row.tile);
            }
        }
    }

    #[test]
    fn parts_of_tiles_are_whole_matrices_and_workgroups_whole_subgroups() {
        for row in TILES {
            let WgslProductTile::Matrix { side, rows, columns, part_rows, part_columns } = row.tile else {
                continue;
            };
            let whole = |size: usize, part: usize| size.is_multiple_of(part);
            assert!(whole(rows, part_rows) && whole(columns, part_columns), "{:?}", row.tile);
            assert!(whole(part_rows, side) && whole(part_columns, MATRIX_STRIP), "{:?}", row.tile);
            // No subgroup has more than 128 invocations.
            assert!(whole(row.tile.workgroup(&GpuTarget::webgpu_default()) as usize, 128), "{:?}", row.tile);
        }
    }

    #[test]
    fn memory_for_matrices_is_what_the_template_declares() {
        let text = include_str!("../../shaders/product_matrix.wgsl");
        let module = naga::front::wgsl::parse_str(text).expect("a valid shader");
        let shared =
            module.global_variables.iter().filter(|(_, own)| own.space == naga::AddressSpace::WorkGroup);
        let size = |ty: naga::Handle<naga::Type>| module.types[ty].inner.size(module.to_ctx()) as usize;
        let tile =
            WgslProductTile::Matrix { side: 16, rows: 64, columns: 64, part_rows: 32, part_columns: 32 };
        let declared: usize = shared.map(|(_, own)| size(own.ty)).sum();
        assert_eq!(declared, tile.shared_bytes());
    }

    #[test]
    fn a_software_driver_without_subgroups_has_no_tile() {
        let target = GpuTarget { subgroup: 0, ..GpuTarget::software() };
        assert!(TILES.iter().all(|row| row.adapter != Adapter::Software || !row.tile.fits(1, &target)));
    }

    #[test]
    fn a_small_result_gets_a_small_tile_and_a_large_one_the_fastest() {
        let target = GpuTarget::webgpu_default();
        let best = |m, n| {
            let extents = ProductExtents { batch: 1, m, n, k: 512 };
            let rows =
                TILES.iter().filter(|row| row.adapter == Adapter::Discrete && row.tile.fits(512, &target));
            rows.min_by_key(|row| cost(row, &extents, &target)).map(|row| row.tile.size(&target))
        };
        assert_eq!(best(4096, 4096), Some([128, 128]));
        assert_eq!(best(16, 64), Some([16, 64]));
    }
}
