//! The templates for 16-bit floats on tensor cores: `kernels/attention_tensor.cuh` by warps,
//! `kernels/attention_wgmma.cuh` by groups of four of them; of gradients
//! `kernels/attention_backward_tensor.cuh` by either.

use std::fmt::Write;

use crate::kernel::{AttentionPart, AxisId, ExprId, FusedAttention};
use crate::render::attention::AttentionExtents;
use crate::render::c_like::Dialect;
use crate::render::c_like::hook::{Hook, HookAxis, HookContext, template as after_mark};
use crate::render::cuda::async_copy::AsyncCopy;
use crate::render::cuda::attention::{AttentionBody, CudaAttentionTile, SIDE, TemplateInstance, own_rows};
use crate::render::cuda::dialect::storage;
use crate::render::cuda::product::HOPPER;
use crate::render::cuda::thresholds;
use crate::render::target::CudaFeatures;

const ROWS: &str = include_str!("../../../../kernels/attention_rows.cuh");
const BY_WARPS: &str = include_str!("../../../../kernels/attention_by_warps.cuh");
const BY_GROUPS: &str = include_str!("../../../../kernels/attention_by_groups.cuh");
const OF_WARPS: &str = include_str!("../../../../kernels/attention_tensor.cuh");
const OF_GROUPS: &str = include_str!("../../../../kernels/attention_wgmma.cuh");
const BACKWARD: &str = include_str!("../../../../kernels/attention_backward_tensor.cuh");

/// Rows and columns of the matrices that are multiplied.
const MATRIX: usize = 16;
/// Elements of a piece; lines have one more, but for those that groups read.
const CHUNK: usize = 8;
/// Columns of results that leave together, at most, and elements of a line that groups read.
const STRIP: usize = 64;
/// Queries of a block whose warps have two matrices of them: what is read of keys and values
/// then serves both, but their sums leave no registers for queries, nor for a third block.
const TALL: usize = 128;
/// Tiles of keys, and of values, that groups have in shared memory.
const STAGES: usize = 2;

fn is_tall(a: &FusedAttention, block: CudaAttentionTile) -> bool {
    !a.part.is_gradient() && !block.uses_wgmma && block.rows == TALL
}

/// Own rows of a warp.
fn part(a: &FusedAttention, block: CudaAttentionTile) -> usize {
    if is_tall(a, block) { 2 * MATRIX } else { MATRIX }
}

/// Threads of a block.
pub(super) fn threads(a: &FusedAttention, block: CudaAttentionTile) -> usize {
    block.rows / part(a, block) * 32
}

/// Threads of a multiprocessor, at least.
pub(super) fn resident(a: &FusedAttention, block: CudaAttentionTile) -> usize {
    match a.part {
        AttentionPart::LogSum if block.uses_wgmma => thresholds::LOG_SUM_RESIDENT_THREADS,
        _ if a.part.is_gradient() || block.uses_wgmma || block.rows == TALL => {
            thresholds::WIDE_RESIDENT_THREADS
        }
        _ => thresholds::RESIDENT_THREADS,
    }
}

/// The blocks of warpgroups that suit an attention.
pub(super) fn of_groups(
    a: &FusedAttention,
    extents: &AttentionExtents,
    cuda: &CudaFeatures,
) -> Vec<CudaAttentionTile> {
    let has_values = a.part != AttentionPart::LogSum;
    let is_wide = |extent: usize| extent > STRIP / 2;
    let suits = cuda.compute_capability == (9, 0)
        && is_wide(extents.depth)
        && (!has_values || is_wide(extents.columns));
    if suits { vec![CudaAttentionTile::of_groups(64), CudaAttentionTile::of_groups(128)] } else { Vec::new() }
}

/// How many ways are expected to be faster. Groups are, each in a block of its own, so that
/// one multiplies while others make powers; but two of them share the tiles of wide gradients,
/// of which there would be more to bring than L2 gives (on an H200 128
/// columns took 0.8 of the time, 64 columns 1.4 times as long). So are tall blocks, where there
/// are two for each multiprocessor, and room for them.
pub(super) fn rank(
    a: &FusedAttention,
    extents: &AttentionExtents,
    block: CudaAttentionTile,
    cuda: &CudaFeatures,
) -> usize {
    let blocks = extents.batch * own_rows(a, extents).div_ceil(block.rows);
    let room = 2 * shared_bytes(a, extents, block) <= cuda.shared_bytes();
    let is_wide_gradient = a.part.is_gradient() && extents.depth.max(extents.columns) > STRIP;
    match block {
        CudaAttentionTile { uses_wgmma: true, rows: 128 }
            if is_wide_gradient && blocks >= cuda.multiprocessors =>
        {
            0
        }
        CudaAttentionTile { uses_wgmma: true, rows: 64 } if blocks >= cuda.multiprocessors => 1,
        _ if is_tall(a, block) && blocks >= 2 * cuda.multiprocessors && room => 2,
        CudaAttentionTile { uses_wgmma: false, rows: 64 } => 3,
        _ => 4,
    }
}

/// Bytes of a block's shared memory; as the templates say.
pub(super) fn shared_bytes(
    a: &FusedAttention,
    extents: &AttentionExtents,
    block: CudaAttentionTile,
) -> usize {
    if a.part.is_gradient() {
        return shared_bytes_of_gradient(a, extents, block);
    }
    let whole = if block.uses_wgmma { STRIP } else { MATRIX };
    let [depth, width] = [extents.depth, extents.width].map(|extent| extent.next_multiple_of(whole));
    let has_values = usize::from(a.part != AttentionPart::LogSum);
    let queries = block.rows * (depth + CHUNK);
    let (keys, values) = match block.uses_wgmma {
        true => (STAGES * SIDE * depth, has_values * STAGES * SIDE * width),
        false => (SIDE * (depth + CHUNK), has_values * SIDE * (width + CHUNK)),
    };
    let others = if is_tall(a, block) { queries + values } else { queries.max(values) };
    2 * (keys + others).max(has_values * result_elements(a, width, block))
}

/// Elements of a block's shared memory by which results so wide leave.
fn result_elements(a: &FusedAttention, width: usize, block: CudaAttentionTile) -> usize {
    threads(a, block) / 32 * MATRIX * (width.min(STRIP) + 8) * 2
}

/// Two tiles of others of both kinds, of groups one more of what is summed, and own rows where
/// but the first of them come.
fn shared_bytes_of_gradient(
    a: &FusedAttention,
    extents: &AttentionExtents,
    block: CudaAttentionTile,
) -> usize {
    let (whole, more) = if block.uses_wgmma { (STRIP, 0) } else { (MATRIX, CHUNK) };
    let [depth, columns] = [extents.depth, extents.columns].map(|extent| extent.next_multiple_of(whole));
    let [deep, wide] = [depth, columns].map(|length| SIDE * (length + more));
    let of_values = a.part == AttentionPart::ValueGradient;
    let (width, summed) = if of_values { (columns, wide) } else { (depth, deep) };
    let others = deep + wide + if block.uses_wgmma { summed } else { 0 };
    let own = block.rows * (depth + CHUNK + if of_values { 0 } else { columns + CHUNK });
    2 * (deep + wide + others.max(own)).max(result_elements(a, width, block))
}

/// What stands before an attention in such blocks.
pub(super) fn template(a: &FusedAttention, block: CudaAttentionTile) -> String {
    let (height, part) = (block.rows, part(a, block));
    let sizes = format!(
        "constexpr i32 ATTENTION_TILE_ROWS = {height}, ATTENTION_WARP_ROWS = {part};\n\
         constexpr bool ATTENTION_BY_WARPGROUPS = {};\n",
        block.uses_wgmma
    );
    let (before, by, own) =
        if block.uses_wgmma { (HOPPER, BY_GROUPS, OF_GROUPS) } else { ("", BY_WARPS, OF_WARPS) };
    let own = if a.part.is_gradient() { BACKWARD } else { own };
    [before, &sizes, ROWS, by, after_mark(own)].concat()
}

impl AttentionBody<'_> {
    /// What is written for the template, whose elements are of a type that it names so.
    pub(super) fn by_tensor_cores(
        &self,
        shares: &'static str,
        extents: &AttentionExtents,
        block: CudaAttentionTile,
    ) -> TemplateInstance {
        let (a, kernel) = (self.a, self.kernel());
        let mut text = "    KILN_SHARED(shared);\n    u16* const block = (u16*)shared;\n".to_string();
        let bytes = shared_bytes(a, extents, block);
        let _ = writeln!(
            text,
            "    static_assert(AttentionSharedLayout<Extents>::ELEMENTS * 2 == {bytes}, \"as launched\");"
        );
        let mut pieces = vec![false; kernel.inputs.len()];
        let mut conditions = Vec::new();
        let [rows, keys] = self.lines();
        let (rows, keys) = (("row", &rows[..]), ("key", &keys[..]));
        let (depth, column) = (("depth", &a.depth[..]), ("column", &a.columns[..]));
        let is_gradient = a.part.is_gradient();
        let operands = [
            ("Q_IS_ASYNC", "from_q", [rows, depth], Some(a.q)),
            ("K_IS_ASYNC", "from_k", [keys, depth], Some(a.k)),
            ("V_IS_ASYNC", "from_v", [keys, column], a.v),
            ("G_IS_ASYNC", "from_g", [rows, column], a.g),
        ];
        for (condition, name, sides, value) in &operands[..if is_gradient { 4 } else { 3 }] {
            let copied = value.and_then(|value| {
                AsyncCopy::of(kernel, value, sides[1].1, kernel.exprs[value.index()].dtype, self.target)
            });
            conditions.push((*condition, copied.is_some()));
            text += &match copied {
                Some(copied) => self.piece(name, sides, copied),
                None => self.operand(name, sides, *value),
            };
            copied.iter().for_each(|copied| pieces[copied.slot as usize] = true);
        }
        if is_gradient {
            text += &self.operand("load_log_sum", &[rows], a.log_sum);
            text += &self.operand("load_product", &[rows], a.product);
        }
        text += &self.masked(rows, keys);
        let (store, vec4_accesses) = self.store_fours(extents);
        text += &store;
        text += &match is_gradient {
            true => {
                self.call("attention_backward", "from_q, from_k, from_v, from_g, load_log_sum, load_product")
            }
            false => self.call("attention", "from_q, from_k, from_v"),
        };
        TemplateInstance { shares: Some(shares), conditions, body: text, vec4_accesses, pieces }
    }

    /// Where a piece of an operand begins, and whether it counts.
    fn piece(&self, name: &str, sides: &[super::AxisParameter<'_>], copied: AsyncCopy) -> String {
        let (mut emitter, head) = self.begin(name, sides, ", bool& is_inside");
        copied.begin(&mut emitter, self.kernel(), vec!["is_inside".into()]);
        let ty = storage(self.kernel().inputs[copied.slot as usize].dtype);
        format!("{head} -> const {ty}* {{\n{}    }};\n", emitter.out.text())
    }

    /// Stores what becomes of four columns of a row of the result; and the inputs that it
    /// reads by vec4 accesses.
    fn store_fours(&self, extents: &AttentionExtents) -> (String, Vec<bool>) {
        let (a, kernel) = (self.a, self.kernel());
        let columns = HookAxis { parameter: "column", axes: &a.width, group: 1, extent: extents.width };
        let own: &[AxisId] = if a.part.by_query() { &a.rows } else { &a.keys };
        let rows = HookAxis { parameter: "row", axes: own, group: 0, extent: own_rows(a, extents) };
        let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
        let hook = Hook::new(kernel, &values, [columns, columns], self.target);
        let vec4_accesses = Hook::vec4_accesses(&[&hook]);
        let context = HookContext { dialect: self.dialect, batch: &a.batch, vec4_accesses: &vec4_accesses };
        let lines = hook.after(Some(rows), &context, &|sum| sum);
        let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
        let place = self.dialect.position_type();
        let list = format!("{place} batch, {place} row, {place} column, const f32(&x)[4]");
        (format!("    const auto store = [&]({list}) {{\n{lines}    }};\n"), vec4_accesses.0)
    }
}
