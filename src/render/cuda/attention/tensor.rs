//! The templates for 16-bit floats on tensor cores: `kernels/attention_tensor.cuh` by warps,
//! `kernels/attention_wgmma.cuh` by groups of four of them.

use std::fmt::Write;

use crate::kernel::{Attention, AttentionPart, ExprId};
use crate::render::attention::Extents;
use crate::render::c_like::Dialect;
use crate::render::c_like::hook::{Around, Hook, Side, template as after_mark};
use crate::render::cuda::attention::{Block, Body, SIDE, Written, own_rows};
use crate::render::cuda::dialect::storage;
use crate::render::cuda::piece::Copied;
use crate::render::cuda::product::HOPPER;
use crate::render::target::Nvidia;

const ROWS: &str = include_str!("../../../../kernels/attention_rows.cuh");
const BY_WARPS: &str = include_str!("../../../../kernels/attention_tensor.cuh");
const BY_GROUPS: &str = include_str!("../../../../kernels/attention_wgmma.cuh");

/// Rows and columns of the matrices that are multiplied.
const MATRIX: usize = 16;
/// Elements of a piece; lines have one more, but for those that groups read.
const PIECE: usize = 8;
/// Columns of results that leave together, at most, and elements of a line that groups read.
const STRIP: usize = 64;
/// Queries of a block whose warps have two matrices of them: what is read of keys and values
/// then serves both, but their sums leave no registers for queries, nor for a third block.
const TALL: usize = 128;
/// Tiles of keys, and of values, that groups have in shared memory.
const STAGES: usize = 2;

fn is_tall(block: Block) -> bool {
    !block.by_groups && block.height == TALL
}

/// Queries of a warp.
fn part(block: Block) -> usize {
    if is_tall(block) { 2 * MATRIX } else { MATRIX }
}

/// Threads of a block.
pub(super) fn threads(block: Block) -> usize {
    block.height / part(block) * 32
}

/// Threads of a multiprocessor, at least: so many have registers for what they hold.
pub(super) fn resident(block: Block) -> usize {
    if block.by_groups || block.height == TALL { 256 } else { 384 }
}

/// The blocks of groups of warps that suit an attention.
pub(super) fn of_groups(a: &Attention, extents: &Extents, nvidia: &Nvidia) -> Vec<Block> {
    let wide = [extents.depth, extents.width].iter().all(|extent| *extent > STRIP / 2);
    let suits = nvidia.capability == (9, 0) && a.part == AttentionPart::Result && wide;
    if suits { vec![Block::of_groups(64), Block::of_groups(128)] } else { Vec::new() }
}

/// How many ways are expected to be faster. Groups are, each in a block of its own, so that
/// one multiplies while others make powers; and tall blocks, where there are two for each
/// multiprocessor, and room for them.
pub(super) fn rank(a: &Attention, extents: &Extents, block: Block, nvidia: &Nvidia) -> usize {
    let blocks = extents.batch * own_rows(a, extents).div_ceil(block.height);
    let room = 2 * shared_bytes(a, extents, block) <= nvidia.shared_bytes();
    match block {
        Block { by_groups: true, height: 64 } if blocks >= nvidia.processors => 0,
        _ if is_tall(block) && blocks >= 2 * nvidia.processors && room => 1,
        Block { by_groups: false, height: 64 } => 2,
        _ => 3,
    }
}

/// Bytes of a block's shared memory; as the templates say.
pub(super) fn shared_bytes(a: &Attention, extents: &Extents, block: Block) -> usize {
    let whole = if block.by_groups { STRIP } else { MATRIX };
    let [depth, width] = [extents.depth, extents.width].map(|extent| extent.next_multiple_of(whole));
    let has_values = usize::from(a.part != AttentionPart::LogSum);
    let queries = block.height * (depth + PIECE);
    let (keys, values) = match block.by_groups {
        true => (STAGES * SIDE * depth, STAGES * SIDE * width),
        false => (SIDE * (depth + PIECE), has_values * SIDE * (width + PIECE)),
    };
    let others = if is_tall(block) { queries + values } else { queries.max(values) };
    let results = has_values * threads(block) / 32 * MATRIX * (width.min(STRIP) + 8) * 2;
    2 * (keys + others).max(results)
}

/// What stands before an attention in such blocks.
pub(super) fn template(block: Block) -> String {
    let (height, part) = (block.height, part(block));
    let sizes = format!(
        "constexpr i32 ATTENTION_HEIGHT = {height}, ATTENTION_PART = {part};\n\
         constexpr bool ATTENTION_BY_GROUPS = {};\n",
        block.by_groups
    );
    match block.by_groups {
        true => [HOPPER, &sizes, ROWS, after_mark(BY_GROUPS)].concat(),
        false => [&sizes, ROWS, after_mark(BY_WARPS)].concat(),
    }
}

impl Body<'_> {
    /// What is written for the template, whose elements are of a type that it names so.
    pub(super) fn by_tensor_cores(&self, shares: &'static str, extents: &Extents, block: Block) -> Written {
        let (a, kernel) = (self.a, self.kernel());
        let mut text = "    KILN_SHARED(shared);\n    u16* const block = (u16*)shared;\n".to_string();
        let bytes = shared_bytes(a, extents, block);
        let _ = writeln!(
            text,
            "    static_assert(AttentionParts<Extents>::ELEMENTS * 2 == {bytes}, \"as launched\");"
        );
        let mut pieces = vec![false; kernel.inputs.len()];
        let mut conditions = Vec::new();
        let operands = [
            ("Q_IS_COPIED", "from_q", [("row", &a.rows[..]), ("depth", &a.depth[..])], Some(a.q)),
            ("K_IS_COPIED", "from_k", [("key", &a.keys[..]), ("depth", &a.depth[..])], Some(a.k)),
            ("V_IS_COPIED", "from_v", [("key", &a.keys[..]), ("column", &a.columns[..])], a.v),
        ];
        for (condition, name, sides, value) in operands {
            let copied = value.and_then(|value| {
                Copied::of(kernel, value, sides[1].1, kernel.exprs[value.index()].dtype, self.target)
            });
            conditions.push((condition, copied.is_some()));
            text += &match copied {
                Some(copied) => self.piece(name, &sides, copied),
                None => self.operand(name, &sides, value),
            };
            copied.iter().for_each(|copied| pieces[copied.slot as usize] = true);
        }
        text += &self.masked(("row", &a.rows), ("key", &a.keys));
        let (store, fours) = self.store_fours(extents);
        text += &store;
        text += &self.call("attention", "from_q, from_k, from_v");
        Written { shares, conditions, body: text, fours, pieces }
    }

    /// Where a piece of an operand begins, and whether it counts.
    fn piece(&self, name: &str, sides: &[super::Side<'_>], copied: Copied) -> String {
        let (mut emitter, head) = self.begin(name, sides, ", bool& is_inside");
        copied.begin(&mut emitter, self.kernel(), vec!["is_inside".into()]);
        let ty = storage(self.kernel().inputs[copied.slot as usize].dtype);
        format!("{head} -> const {ty}* {{\n{}    }};\n", emitter.out.text())
    }

    /// Stores what becomes of four columns of a row of the result; and the inputs that it
    /// reads by fours.
    fn store_fours(&self, extents: &Extents) -> (String, Vec<bool>) {
        let (a, kernel) = (self.a, self.kernel());
        let columns = Side { parameter: "column", axes: &a.width, group: 1, extent: extents.width };
        let rows = Side { parameter: "row", axes: &a.rows, group: 0, extent: extents.rows };
        let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
        let hook = Hook::new(kernel, &values, [columns, columns], self.target);
        let fours = Hook::fours(&[&hook]);
        let around = Around { dialect: self.dialect, batch: &a.batch, fours: &fours };
        let lines = hook.after(Some(rows), &around, &|sum| sum);
        let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
        let place = self.dialect.position_type();
        let list = format!("{place} batch, {place} row, {place} column, const f32(&x)[4]");
        (format!("    const auto store = [&]({list}) {{\n{lines}    }};\n"), fours.0)
    }
}
