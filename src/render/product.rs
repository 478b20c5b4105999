//! Tiles of matrix products: which template, and in what size, for a device.

use crate::ir::AluOp;
use crate::kernel::{AxisId, Contraction, Expr, Kernel};
use crate::render::target::{Adapter, Target};

/// The part of a product that a workgroup computes, and by which template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tile {
    /// `shaders/product_subgroup.wgsl`: registers, and broadcasts within a subgroup.
    Subgroup {
        /// Rows of the tile.
        rows: usize,
        /// Fours of columns that an invocation computes.
        fours: usize,
    },
    /// `shaders/product_workgroup.wgsl`: memory that the workgroup shares.
    Workgroup {
        /// Rows of the tile.
        rows: usize,
        /// Columns of the tile.
        columns: usize,
        /// Depths that are in shared memory at a time.
        step: usize,
        /// Fours of rows that an invocation computes.
        row_fours: usize,
        /// Fours of columns that an invocation computes.
        column_fours: usize,
    },
}

/// A line of the table of tiles.
struct Row {
    adapter: Adapter,
    tile: Tile,
    /// How fast it is beside the class's others when all of it is used: on
    /// CPU adapters GFLOP per CPU-second of lavapipe; on GPUs an estimate from
    /// the reads of shared memory per multiplication.
    rate: u64,
    /// Multiplications that are worth the time it takes to compile.
    least: u64,
}

const fn subgroup(rows: usize, fours: usize, rate: u64, least: u64) -> Row {
    Row { adapter: Adapter::Cpu, tile: Tile::Subgroup { rows, fours }, rate, least }
}

const fn workgroup(adapter: Adapter, [rows, columns]: [usize; 2], own: [usize; 2], rate: u64) -> Row {
    let [row_fours, column_fours] = own;
    Row {
        adapter,
        tile: Tile::Workgroup { rows, columns, step: 16, row_fours, column_fours },
        rate,
        least: 0,
    }
}

/// The tiles there are.
const TABLE: &[Row] = &[
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
];

/// Operations after the sums, each time it is written out, at most: drivers
/// compile a thousand in about 30 ms.
const MOST_AFTER: u64 = 4096;

/// Results below which a product is no tile's work.
const FEWEST: usize = 64;

/// The extents of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Independent products.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Products summed for an element.
    pub k: usize,
}

impl Extents {
    /// Those of a kernel's contraction.
    pub fn of(kernel: &Kernel, c: &Contraction) -> Extents {
        let size = |axes: &[AxisId]| axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
        Extents { batch: size(&c.batch), m: size(&c.m), n: size(&c.n), k: size(&c.k) }
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
    let Extents { m, n, .. } = Extents::of(kernel, c);
    let few = |n: usize, m: usize| n < 8 && m >= 4 * n;
    if few(n, m) || (runs(&c.m) && !runs(&c.n) && !few(m, n)) {
        return Contraction { a: c.b, b: c.a, m: c.n.clone(), n: c.m.clone(), ..c.clone() };
    }
    c.clone()
}

impl Tile {
    /// Rows and columns of the tile.
    pub fn size(&self, target: &Target) -> [usize; 2] {
        match *self {
            Tile::Subgroup { rows, fours } => [rows, 4 * fours * target.subgroup as usize],
            Tile::Workgroup { rows, columns, .. } => [rows, columns],
        }
    }
    /// Depths of one iteration.
    pub fn step(&self, target: &Target) -> usize {
        match *self {
            Tile::Subgroup { rows, .. } => 16 * target.subgroup as usize / rows,
            Tile::Workgroup { step, .. } => step,
        }
    }
    /// Invocations of a workgroup.
    pub fn workgroup(&self, target: &Target) -> u32 {
        match *self {
            Tile::Subgroup { .. } => target.subgroup,
            Tile::Workgroup { rows, columns, row_fours, column_fours, .. } => {
                (rows / 4 / row_fours * (columns / 4 / column_fours)) as u32
            }
        }
    }
    /// Times that what follows the sum is in the text a driver sees.
    fn copies(&self) -> usize {
        match *self {
            Tile::Subgroup { .. } => 4,
            Tile::Workgroup { row_fours, column_fours, .. } => 16 * row_fours * column_fours,
        }
    }
    /// Workgroups of a product.
    pub fn groups(&self, extents: &Extents, target: &Target) -> u64 {
        let [rows, columns] = self.size(target);
        (extents.batch * extents.m.div_ceil(rows) * extents.n.div_ceil(columns)) as u64
    }
    /// Whether a device can run it, on a product that deep.
    fn fits(&self, k: usize, target: &Target) -> bool {
        let shared = match *self {
            // A subgroup's lanes hold blocks of four rows; what those above the
            // eighth hold is not broadcast.
            Tile::Subgroup { rows, .. } if rows / 4 > target.subgroup as usize || target.subgroup > 8 => {
                return false;
            }
            Tile::Subgroup { .. } => 4 * self.size(target).iter().product::<usize>(),
            Tile::Workgroup { rows, columns, step, .. } => 4 * step * (rows + columns),
        };
        // A GPU's inner loops are not counted, since it has no such limit.
        let iterations = k.div_ceil(self.step(target)) as u64;
        shared <= target.workgroup_bytes as usize
            && self.workgroup(target) <= target.max_workgroup
            && iterations <= target.max_iterations
    }
}

/// The tiles that suit a kernel's contraction, the one expected to be fastest
/// first. None: the product is too small, or of 64-bit elements, or the device
/// lacks what templates need.
pub fn suitable(kernel: &Kernel, c: &Contraction, target: &Target) -> Vec<Tile> {
    let extents = Extents::of(kernel, c);
    let narrow = c.dtype.compute().size() <= 4 && c.dtype != crate::base::DType::Bool;
    let work = (extents.batch * extents.m * extents.n) as u64 * extents.k as u64;
    let least = (1024 * target.few_elements as u64).max(1);
    if !narrow || extents.m * extents.n < FEWEST || work < least {
        return Vec::new();
    }
    let after = after(kernel);
    let suits = |row: &&Row| {
        row.adapter == target.adapter
            && row.tile.fits(extents.k, target)
            && work >= row.least
            && after * row.tile.copies() as u64 <= MOST_AFTER
    };
    let mut rows: Vec<&Row> = TABLE.iter().filter(suits).collect();
    rows.sort_by_key(|row| cost(row, &extents, target));
    rows.into_iter().map(|row| row.tile).collect()
}

/// Time that a product takes, in some unit: whole tiles, as many at a time as
/// the device has places for.
fn cost(row: &Row, extents: &Extents, target: &Target) -> u64 {
    let places = match target.adapter {
        Adapter::Cpu => 8,
        Adapter::Integrated => 32,
        Adapter::Discrete => 128,
    };
    let [rows, columns] = row.tile.size(target);
    let waves = row.tile.groups(extents, target).div_ceil(places);
    waves * (rows * columns) as u64 * 1000 / row.rate
}

/// Operations on an element after its sum is there.
fn after(kernel: &Kernel) -> u64 {
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
        for row in TABLE {
            let target = match row.adapter {
                Adapter::Cpu => Target::software(),
                adapter => Target { adapter, ..Target::webgpu_default() },
            };
            assert!(row.tile.fits(1, &target), "{:?}", row.tile);
            if let Tile::Workgroup { rows, columns, .. } = row.tile {
                let threads = row.tile.workgroup(&target) as usize;
                assert_eq!(rows * columns, threads * row.tile.copies(), "{:?}", row.tile);
            }
        }
    }

    #[test]
    fn a_software_driver_without_subgroups_has_no_tile() {
        let target = Target { subgroup: 0, ..Target::software() };
        assert!(TABLE.iter().all(|row| row.adapter != Adapter::Cpu || !row.tile.fits(1, &target)));
    }

    #[test]
    fn a_small_result_gets_a_small_tile_and_a_large_one_the_fastest() {
        let target = Target::webgpu_default();
        let best = |m, n| {
            let extents = Extents { batch: 1, m, n, k: 512 };
            let rows = TABLE.iter().filter(|row| row.adapter == Adapter::Discrete);
            rows.min_by_key(|row| cost(row, &extents, &target)).map(|row| row.tile.size(&target))
        };
        assert_eq!(best(4096, 4096), Some([128, 128]));
        assert_eq!(best(16, 64), Some([16, 64]));
    }
}
