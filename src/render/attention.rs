//! The sizes in which attention's template runs, and on what it is worth it.

use crate::kernel::lower::attention::{MAX_WIDTH, Range};
use crate::kernel::{Attention, AxisId, Kernel};
use crate::render::target::{Adapter, Target};

/// The extents of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
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
}

impl Extents {
    /// Those of a kernel's attention.
    pub fn of(kernel: &Kernel, a: &Attention) -> Extents {
        let size = |axes: &[AxisId]| axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
        Extents {
            batch: size(&a.batch),
            rows: size(&a.rows),
            columns: size(&a.columns),
            keys: size(&a.keys),
            depth: size(&a.depth),
        }
    }
}

/// The part of an attention that a workgroup computes at a time, by
/// `shaders/attention_subgroup.wgsl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Invocations of a subgroup.
    pub lanes: usize,
    /// Invocations that hold different fours of keys.
    pub key_lanes: usize,
    /// Invocations that hold different fours of columns.
    pub column_lanes: usize,
    /// How often they read columns.
    pub column_turns: usize,
}

impl Block {
    /// The block for some extents; `None` where the device has no template.
    pub fn of(extents: &Extents, target: &Target) -> Option<Block> {
        // What invocations above the eighth hold is not broadcast.
        if target.adapter != Adapter::Cpu || !matches!(target.subgroup, 4 | 8) {
            return None;
        }
        let lanes = target.subgroup as usize;
        let fours = |extent: usize| extent.div_ceil(4).next_power_of_two().min(lanes);
        let column_lanes = fours(extents.columns);
        // Together they hold no more keys of a column's values than a block has.
        let key_lanes = fours(extents.keys).max(lanes / column_lanes);
        let column_turns = if extents.columns > 4 * lanes { 2 } else { 1 };
        let block = Block { lanes, key_lanes, column_lanes, column_turns };
        (16 * block.lanes * block.keys().max(block.columns()) <= target.workgroup_bytes as usize)
            .then_some(block)
    }
    /// Keys of a block.
    pub fn keys(&self) -> usize {
        4 * self.key_lanes
    }
    /// Columns that a workgroup computes.
    pub fn columns(&self) -> usize {
        4 * self.column_lanes * self.column_turns
    }
    /// Depths of one iteration.
    pub fn depth_step(&self) -> usize {
        4 * self.lanes / self.key_lanes
    }
    /// Workgroups of an attention.
    pub fn groups(&self, extents: &Extents) -> u64 {
        let rows = extents.rows.div_ceil(4 * self.lanes);
        (extents.batch * rows * extents.columns.div_ceil(self.columns())) as u64
    }
    /// Iterations of an invocation, loops that are written out included.
    pub fn iterations(&self, extents: &Extents) -> u64 {
        // Depths, what is hidden, powers, and the loops that go through scores.
        let inside = extents.depth.div_ceil(self.depth_step()) + 5 * self.keys() + 2 * self.columns();
        (extents.keys.div_ceil(self.keys()) * (1 + inside)) as u64
    }
}

/// Which attention a device has a template for.
pub fn range(target: &Target) -> Option<Range> {
    let widest = |keys| Extents { batch: 1, rows: 1, columns: MAX_WIDTH, keys, depth: MAX_WIDTH };
    let block = Block::of(&widest(MAX_WIDTH), target)?;
    let each = block.iterations(&widest(block.keys()));
    let most_keys = usize::try_from(target.max_iterations / each).unwrap_or(usize::MAX);
    Some(Range {
        // The template has four queries for each invocation, whether there are
        // so many or not; at five eighths of them it is as fast as the body
        // (lavapipe, 8 heads 64 wide, 512 keys).
        least_rows: 5 * block.lanes / 2,
        // As for products.
        least_work: 1024 * target.few_elements,
        most_keys: most_keys.saturating_mul(block.keys()),
        columns: block.columns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fits_the_extents() {
        let target = Target::software();
        let of = |keys, columns| {
            let extents = Extents { batch: 1, rows: 64, columns, keys, depth: 64 };
            Block::of(&extents, &target).map(|block| (block.keys(), block.columns()))
        };
        assert_eq!(of(512, 64), Some((32, 64)));
        assert_eq!(of(512, 128), Some((32, 64)));
        assert_eq!(of(5, 32), Some((8, 32)));
        assert_eq!(of(512, 3), Some((32, 4)));
        assert_eq!(of(3, 3), Some((32, 4)));
    }

    #[test]
    fn no_subgroups_no_template() {
        assert_eq!(range(&Target { subgroup: 0, ..Target::software() }), None);
        assert_eq!(range(&Target::webgpu_default()), None);
    }

    #[test]
    fn the_longest_attention_keeps_to_the_drivers_iterations() {
        for subgroup in [4, 8] {
            let target = Target { subgroup, ..Target::software() };
            let keys = range(&target).expect("a template").most_keys;
            for width in [1, 16, MAX_WIDTH] {
                let extents = Extents { batch: 1, rows: 64, columns: width, keys, depth: width };
                let block = Block::of(&extents, &target).expect("a block");
                assert!(block.iterations(&extents) <= target.max_iterations, "{width}: {block:?}");
            }
        }
    }
}
