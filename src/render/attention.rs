//! The sizes in which attention's template runs, and on what it is worth it.

use crate::kernel::lower::attention::{AttentionLimits, FewQueries, MAX_WIDTH};
use crate::kernel::{AxisId, FusedAttention, Kernel};
use crate::render::choice::TemplateChoice;
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thresholds::{FEW_QUERIES, KEYS_OF_FEW_QUERIES, MULTIPLICATIONS_PER_ELEMENT};
use crate::render::wgsl::thresholds;

/// The extents of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionExtents {
    /// Independent attentions.
    pub batch: usize,
    /// Queries.
    pub rows: usize,
    /// Width of the values.
    pub columns: usize,
    /// Keys, and so values.
    pub keys: usize,
    /// Width of queries and keys.
    pub depth: usize,
    /// Width of what is computed.
    pub width: usize,
    /// Attentions whose gradients are summed.
    pub summed: usize,
}

impl AttentionExtents {
    /// Those of a kernel's attention.
    pub fn of(kernel: &Kernel, a: &FusedAttention) -> AttentionExtents {
        let size = |axes: &[AxisId]| axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
        AttentionExtents {
            batch: size(&a.batch),
            rows: size(&a.rows),
            columns: size(&a.columns),
            keys: size(&a.keys),
            depth: size(&a.depth),
            width: size(&a.width),
            summed: size(&a.summed),
        }
    }

    /// Multiplications, for scores and for sums of values.
    fn work(&self) -> u64 {
        let sizes = [self.batch, self.rows, self.keys, self.depth + self.columns];
        sizes.iter().fold(1, |work: u64, &size| work.saturating_mul(size as u64))
    }
}

/// The part of an attention that a workgroup computes at a time, and by which
/// template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WgslAttentionTile {
    /// `shaders/attention_subgroup.wgsl`: registers, and broadcasts within a subgroup.
    Subgroup {
        /// Invocations of a subgroup.
        lanes: usize,
        /// Invocations that hold different vec4s of keys.
        key_lanes: usize,
        /// Invocations that hold different vec4s of columns.
        column_lanes: usize,
        /// How often they read columns.
        column_passes: usize,
    },
    /// `shaders/attention_workgroup.wgsl`: memory that the workgroup shares.
    Workgroup {
        /// Queries.
        rows: usize,
        /// Keys.
        keys: usize,
        /// Keys whose values are shared at a time.
        key_step: usize,
        /// Vec4s of columns that an invocation sums.
        column_vec4s: usize,
    },
    /// `shaders/attention_query.wgsl`: one query, whose keys teams of invocations share out.
    Query {
        /// Invocations of a team.
        lanes: usize,
        /// Teams of a workgroup.
        teams: usize,
    },
}

/// Depths that a workgroup shares at a time.
const DEPTH_STEP: usize = 16;

/// Queries and keys of blocks in shared memory, by class of adapter, the one
/// expected to be fastest first.
const WORKGROUP_TILES: &[(Adapter, [usize; 2])] = &[
    (Adapter::Discrete, [64, 64]),
    (Adapter::Discrete, [64, 32]),
    (Adapter::Discrete, [32, 32]),
    (Adapter::Integrated, [32, 32]),
    (Adapter::Integrated, [64, 32]),
    (Adapter::Integrated, [16, 32]),
];

/// Invocations of a team, and teams, for few queries, by class of adapter, as above. A software driver
/// writes out loops over what an invocation has, and takes two seconds to compile what a team of one has.
const QUERY_TILES: &[(Adapter, [usize; 2])] = &[
    (Adapter::Discrete, [8, 16]),
    (Adapter::Discrete, [16, 8]),
    (Adapter::Discrete, [8, 8]),
    (Adapter::Integrated, [8, 8]),
    (Adapter::Integrated, [8, 16]),
    (Adapter::Software, [8, 4]),
];

impl WgslAttentionTile {
    /// The block for some extents; `None` where the device has no template.
    pub fn of(extents: &AttentionExtents, target: &GpuTarget) -> Option<WgslAttentionTile> {
        target.chosen(&WgslAttentionTile::suitable(extents, target), TemplateChoice::Attention)
    }

    /// The blocks that suit some extents, the one expected to be fastest first.
    pub fn suitable(extents: &AttentionExtents, target: &GpuTarget) -> Vec<WgslAttentionTile> {
        let of_adapter = |table: &'static [(Adapter, [usize; 2])]| {
            table.iter().filter(|(adapter, _)| *adapter == target.adapter).map(|(_, sizes)| *sizes)
        };
        let mut all: Vec<WgslAttentionTile> = if extents.rows <= FEW_QUERIES {
            let of_sizes = |[lanes, teams]: [usize; 2]| WgslAttentionTile::Query { lanes, teams };
            of_adapter(QUERY_TILES).map(of_sizes).collect()
        } else if target.adapter == Adapter::Software {
            WgslAttentionTile::of_subgroups(extents, target)
        } else {
            let of_sizes = |sizes| WgslAttentionTile::of_workgroup(extents, sizes);
            of_adapter(WORKGROUP_TILES).map(of_sizes).collect()
        };
        all.retain(|block| block.fits(target));
        all
    }

    fn of_subgroups(extents: &AttentionExtents, target: &GpuTarget) -> Vec<WgslAttentionTile> {
        // What invocations above the eighth hold is not broadcast.
        if !matches!(target.subgroup, 4 | 8) {
            return Vec::new();
        }
        let lanes = target.subgroup as usize;
        let vec4_lanes = |extent: usize| extent.div_ceil(4).next_power_of_two().min(lanes);
        let column_lanes = vec4_lanes(extents.columns);
        // Together they hold no more keys of a column's values than a block has.
        let least = lanes / column_lanes;
        let key_lanes = vec4_lanes(extents.keys).max(least);
        // Two passes of columns save scores, and take a tenth of a second longer to compile.
        let worth = target.compile_bound_elements as u64 * thresholds::MIN_WORK_OF_SECOND_PASS;
        let column_passes = if extents.columns > 4 * lanes && extents.work() >= worth { 2 } else { 1 };
        let all = [key_lanes, key_lanes / 2].into_iter().filter(|&key_lanes| key_lanes >= least);
        all.map(|key_lanes| WgslAttentionTile::Subgroup { lanes, key_lanes, column_lanes, column_passes })
            .collect()
    }

    fn of_workgroup(extents: &AttentionExtents, [rows, keys]: [usize; 2]) -> WgslAttentionTile {
        let column_vec4s = extents.columns.div_ceil(keys);
        // As many as find room where queries and keys were.
        let most = DEPTH_STEP * (rows + keys) / (keys * column_vec4s);
        let key_step = (1 << most.max(4).ilog2()).min(keys);
        WgslAttentionTile::Workgroup { rows, keys, key_step, column_vec4s }
    }

    fn fits(&self, target: &GpuTarget) -> bool {
        self.workgroup() <= target.max_workgroup && self.shared_bytes() <= target.workgroup_bytes as usize
    }

    /// Bytes of memory that a workgroup shares.
    fn shared_bytes(&self) -> usize {
        match *self {
            WgslAttentionTile::Subgroup { .. } => 0,
            WgslAttentionTile::Workgroup { rows, keys, key_step, column_vec4s } => {
                let step = (DEPTH_STEP * (rows + keys)).max(key_step * keys * column_vec4s);
                4 * (step + keys * rows + keys / 4 * rows)
            }
            WgslAttentionTile::Query { lanes, teams } => {
                4 * teams * (2 * 4 * lanes + 2 + MAX_WIDTH.next_multiple_of(4 * lanes))
            }
        }
    }
    /// Invocations of a workgroup.
    pub fn workgroup(&self) -> u32 {
        match *self {
            WgslAttentionTile::Subgroup { lanes, .. } => lanes as u32,
            WgslAttentionTile::Workgroup { rows, keys, .. } => (rows / 4 * (keys / 4)) as u32,
            WgslAttentionTile::Query { lanes, teams } => (lanes * teams) as u32,
        }
    }
    /// Queries of a block.
    pub fn rows(&self) -> usize {
        match *self {
            WgslAttentionTile::Subgroup { lanes, .. } => 4 * lanes,
            WgslAttentionTile::Workgroup { rows, .. } => rows,
            WgslAttentionTile::Query { .. } => 1,
        }
    }
    /// Keys of a block.
    pub fn keys(&self) -> usize {
        match *self {
            WgslAttentionTile::Subgroup { key_lanes, .. } => 4 * key_lanes,
            WgslAttentionTile::Workgroup { keys, .. } => keys,
            WgslAttentionTile::Query { teams, .. } => 4 * teams,
        }
    }
    /// Columns that a workgroup computes.
    pub fn columns(&self) -> usize {
        match *self {
            WgslAttentionTile::Subgroup { column_lanes, column_passes, .. } => {
                4 * column_lanes * column_passes
            }
            WgslAttentionTile::Workgroup { keys, column_vec4s, .. } => keys * column_vec4s,
            WgslAttentionTile::Query { .. } => MAX_WIDTH,
        }
    }
    /// Depths of one iteration.
    pub fn depth_step(&self) -> usize {
        match *self {
            WgslAttentionTile::Subgroup { lanes, key_lanes, .. } => 4 * lanes / key_lanes,
            WgslAttentionTile::Workgroup { .. } => DEPTH_STEP,
            WgslAttentionTile::Query { lanes, .. } => 4 * lanes,
        }
    }
    /// Workgroups of an attention.
    pub fn groups(&self, extents: &AttentionExtents) -> u64 {
        let rows = extents.rows.div_ceil(self.rows());
        (extents.batch * rows * extents.columns.div_ceil(self.columns())) as u64
    }
    /// Iterations of an invocation, loops that are written out included.
    pub fn iterations(&self, extents: &AttentionExtents) -> u64 {
        let depths = extents.depth.div_ceil(self.depth_step());
        let inside = match *self {
            // Depths, what is hidden, powers, and the loops that go through scores.
            WgslAttentionTile::Subgroup { .. } => depths + 5 * self.keys() + 2 * self.columns(),
            // Copies and their vectors, sums, peaks, powers.
            WgslAttentionTile::Workgroup { keys, column_vec4s, .. } => {
                depths * (DEPTH_STEP + 2 * DEPTH_STEP) + 24 + 8 * column_vec4s + keys * (3 + 2 * column_vec4s)
            }
            // Depths, a team's parts, columns.
            WgslAttentionTile::Query { lanes, .. } => depths + lanes + extents.columns.div_ceil(4 * lanes),
        };
        (extents.keys.div_ceil(self.keys()) * (1 + inside)) as u64
    }
}

/// Which attention a device has a template for.
pub fn range(target: &GpuTarget) -> Option<AttentionLimits> {
    // With the blocks of large ones.
    let widest = |keys| AttentionExtents {
        batch: 1 << 20,
        rows: MAX_WIDTH,
        columns: MAX_WIDTH,
        keys,
        depth: MAX_WIDTH,
        width: MAX_WIDTH,
        summed: 1,
    };
    let block = *WgslAttentionTile::suitable(&widest(MAX_WIDTH), target).first()?;
    let each = block.iterations(&widest(block.keys()));
    let most_keys = usize::try_from(target.max_iterations / each).unwrap_or(usize::MAX);
    Some(AttentionLimits {
        // A block has all its queries, whether there are so many or not.
        least_rows: match block {
            WgslAttentionTile::Subgroup { .. } => thresholds::SOFTWARE_QUERY_EIGHTHS * block.rows() / 8,
            WgslAttentionTile::Workgroup { .. } => block.rows() / thresholds::GPU_QUERY_FRACTION,
            WgslAttentionTile::Query { .. } => 1,
        },
        few: Some(few_queries(target.adapter)),
        // As for products.
        least_work: MULTIPLICATIONS_PER_ELEMENT * target.compile_bound_elements,
        most_keys: most_keys.saturating_mul(block.keys()),
        columns: block.columns(),
        backward: false,
    })
}

/// Which attention of few queries a kind of adapter has a template for.
fn few_queries(adapter: Adapter) -> FewQueries {
    let (keys_of_few, filling) = match adapter {
        Adapter::Software => (thresholds::SOFTWARE_KEYS_OF_FEW_QUERIES, usize::MAX),
        Adapter::Integrated | Adapter::Discrete => {
            (KEYS_OF_FEW_QUERIES, thresholds::concurrent_tiles(adapter) as usize)
        }
    };
    FewQueries { most_rows: FEW_QUERIES, keys_of_few, filling }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(keys: usize, columns: usize) -> AttentionExtents {
        AttentionExtents { batch: 1 << 16, rows: 64, columns, keys, depth: 64, width: columns, summed: 1 }
    }

    #[test]
    fn a_block_fits_the_extents() {
        let of = |keys, columns| {
            let block = WgslAttentionTile::of(&extents(keys, columns), &GpuTarget::software());
            block.map(|block| (block.keys(), block.columns()))
        };
        assert_eq!(of(512, 64), Some((32, 64)));
        assert_eq!(of(512, 128), Some((32, 64)));
        assert_eq!(of(5, 32), Some((8, 32)));
        assert_eq!(of(512, 3), Some((32, 4)));
        assert_eq!(of(3, 3), Some((32, 4)));
    }

    #[test]
    fn few_multiplications_are_not_worth_a_second_turn() {
        let columns = |batch: usize| {
            let extents = AttentionExtents { batch, ..extents(512, 64) };
            WgslAttentionTile::of(&extents, &GpuTarget::software()).map(|block| block.columns())
        };
        assert_eq!((columns(100), columns(200)), (Some(32), Some(64)));
    }

    #[test]
    fn every_gpu_has_a_template_that_sums_all_columns() {
        for adapter in [Adapter::Discrete, Adapter::Integrated] {
            for target in [GpuTarget::webgpu_default(), GpuTarget::downlevel()] {
                let target = GpuTarget { adapter, ..target };
                for columns in [1, 17, 64, 100, MAX_WIDTH] {
                    let block = WgslAttentionTile::of(&extents(512, columns), &target).expect("a block");
                    assert!(block.columns() >= columns && block.fits(&target), "{columns}: {block:?}");
                }
            }
        }
    }

    #[test]
    fn more_shared_memory_more_keys() {
        let keys =
            |target: &GpuTarget| WgslAttentionTile::of(&extents(512, 64), target).map(|block| block.keys());
        let small = GpuTarget::webgpu_default();
        assert_eq!(keys(&small), Some(32));
        assert_eq!(keys(&GpuTarget { workgroup_bytes: 32 << 10, ..small }), Some(64));
    }

    #[test]
    fn shared_memory_is_what_the_templates_declare() {
        let agree = |text: &str, tile: WgslAttentionTile| {
            let module = naga::front::wgsl::parse_str(text).expect("a valid shader");
            let shared =
                module.global_variables.iter().filter(|(_, own)| own.space == naga::AddressSpace::WorkGroup);
            let size = |ty: naga::Handle<naga::Type>| module.types[ty].inner.size(module.to_ctx()) as usize;
            let declared: usize = shared.map(|(_, own)| size(own.ty)).sum();
            assert_eq!(declared, tile.shared_bytes(), "{tile:?}");
        };
        let of_block = WgslAttentionTile::of_workgroup(&extents(45, 27), [32, 32]);
        agree(include_str!("../../shaders/attention_workgroup.wgsl"), of_block);
        let text = include_str!("../../shaders/attention_query.wgsl");
        let text = text.replacen("const COLUMNS = 27;", &format!("const COLUMNS = {MAX_WIDTH};"), 1);
        agree(&text, WgslAttentionTile::Query { lanes: 4, teams: 8 });
    }

    #[test]
    fn few_queries_have_a_workgroup_each() {
        for adapter in [Adapter::Discrete, Adapter::Integrated, Adapter::Software] {
            let target = GpuTarget { adapter, ..GpuTarget::downlevel() };
            let extents = AttentionExtents { rows: FEW_QUERIES, ..extents(512, 64) };
            let tiles = WgslAttentionTile::suitable(&extents, &target);
            assert!(!tiles.is_empty(), "{adapter:?}");
            for tile in tiles {
                assert_eq!(tile.groups(&extents), (extents.batch * FEW_QUERIES) as u64, "{tile:?}");
            }
        }
    }

    #[test]
    fn a_software_driver_without_small_subgroups_has_no_template() {
        for subgroup in [0, 16, 32] {
            assert_eq!(range(&GpuTarget { subgroup, ..GpuTarget::software() }), None);
        }
    }

    #[test]
    fn the_longest_attention_keeps_to_the_drivers_iterations() {
        for subgroup in [4, 8] {
            let target = GpuTarget { subgroup, ..GpuTarget::software() };
            let keys = range(&target).expect("a template").most_keys;
            for width in [1, 16, MAX_WIDTH] {
                let extents = AttentionExtents {
                    batch: 1,
                    rows: 64,
                    columns: width,
                    keys,
                    depth: width,
                    width,
                    summed: 1,
                };
                let block = WgslAttentionTile::of(&extents, &target).expect("a block");
                assert!(block.iterations(&extents) <= target.max_iterations, "{width}: {block:?}");
            }
        }
    }
}
