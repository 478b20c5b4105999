//! Attention in one kernel: the scores of some queries for some keys, their exponentials and the
//! products of these with the values, one after the other while they are in cache, so that no
//! scores go to memory. A query's maximum and sum are corrected as more keys come (Milakov and
//! Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention",
//! 2022).
//!
//! Scores lie key by key, the queries of a block side by side: then keys and values are read
//! where they are, and maxima and sums go along vectors, not across them.

mod run;

use kiln_simd::micro::softmax::QUERY_LANES;

use crate::base::{DType, Result};
use crate::kernel::lower::attention::{AttentionLimits, MAX_WIDTH};
use crate::kernel::{self, AxisId, Expr, ExprId, ExprNode, Kernel};
use crate::runtime::cpu::contraction::{BlockWriter, OperandSource, ResultTarget, side, target, writer};
use crate::runtime::cpu::tile::analysis::{analyze, bit};
use crate::runtime::{Bindings, Program};

/// Which attention is computed so.
pub const RANGE: AttentionLimits = AttentionLimits {
    least_rows: 1,
    few: None,
    least_work: 0,
    most_keys: usize::MAX,
    columns: MAX_WIDTH,
    backward: false,
};

/// A compiled attention.
#[derive(Debug)]
pub struct AttentionProgram {
    name: String,
    extents: AttentionSizes,
    scale: f32,
    /// Row `i` looks at the keys `0..=i` only.
    causal: bool,
    /// Writes queries: batch, rows, depth.
    queries: BlockWriter,
    /// Rows are the keys.
    keys: OperandSource,
    /// Rows are the values' columns, depths the keys.
    values: OperandSource,
    mask: Option<Mask>,
    /// Batch, rows, columns.
    target: ResultTarget,
}

/// Points of each group of axes.
#[derive(Clone, Copy, Debug)]
struct AttentionSizes {
    batch: usize,
    rows: usize,
    keys: usize,
    depth: usize,
    columns: usize,
}

/// What is done to scores.
#[derive(Debug)]
struct Mask {
    /// Writes it: batch, then the lines of `lines`.
    writer: BlockWriter,
    lines: MaskLines,
    /// Whether it says where to look; else it is added.
    hides: bool,
}

/// How a mask is written: a line costs about as much as some dozens of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaskLines {
    /// A line of rows for each key, as scores lie.
    Keys,
    /// A line of keys for each of few rows.
    Rows,
    /// One line of keys that holds for all rows: they are heads, mostly.
    One,
}

impl AttentionProgram {
    /// The program of a kernel whose attention is the result of this part.
    pub fn new(kernel: &Kernel, attention: &kernel::FusedAttention) -> AttentionProgram {
        let kernel::FusedAttention { keys, depth, columns, width, .. } = attention;
        let [batch, rows] = &batch_and_rows(kernel, attention);
        let points = |axes: &[AxisId]| kernel.points_of(axes);
        // A result has values; only other parts, which `RANGE` leaves to their bodies, have none.
        let values = attention.v.unwrap_or(attention.k);
        AttentionProgram {
            name: kernel.name.to_string(),
            extents: AttentionSizes {
                batch: points(batch),
                rows: points(rows),
                keys: points(keys),
                depth: points(depth),
                columns: points(columns),
            },
            scale: f64::from_bits(attention.scale) as f32,
            causal: attention.causal,
            queries: writer(kernel, [batch, rows, depth], attention.q),
            keys: side(kernel, [batch, keys, depth], DType::F32, attention.k),
            values: side(kernel, [batch, columns, keys], DType::F32, values),
            mask: attention.mask.map(|mask| Mask::new(kernel, [batch, rows, keys], mask)),
            target: target(kernel, DType::F32, [batch, rows, width]),
        }
    }
}

/// The axes of batches and those of rows. Where queries are few, heads that share keys and values are rows of
/// one attention, so that keys are read once for all of them.
fn batch_and_rows(kernel: &Kernel, attention: &kernel::FusedAttention) -> [Vec<AxisId>; 2] {
    let kernel::FusedAttention { batch, rows, causal, k, v, .. } = attention;
    let facts = analyze(kernel);
    let keys_vary = facts.axes[k.index()] | v.map_or(0, |v| facts.axes[v.index()]);
    // A causal row's number says how far it looks.
    let together = !causal && kernel.points_of(rows) < QUERY_LANES;
    let shared = batch.iter().rev().take_while(|axis| together && keys_vary & bit(**axis) == 0).count();
    let (batch, heads) = batch.split_at(batch.len() - shared);
    [batch.to_vec(), [heads, rows].concat()]
}

impl Mask {
    fn new(kernel: &Kernel, [batch, rows, keys]: [&[AxisId]; 3], mask: ExprId) -> Mask {
        let varies = analyze(kernel).axes[mask.index()];
        let lines = if kernel.points_of(rows) >= QUERY_LANES {
            MaskLines::Keys
        } else if rows.iter().any(|axis| varies & bit(*axis) != 0) {
            MaskLines::Rows
        } else {
            MaskLines::One
        };
        let groups = match lines {
            MaskLines::Keys => [batch, keys, rows],
            MaskLines::Rows => [batch, rows, keys],
            MaskLines::One => [batch, &[], keys],
        };
        let node = &kernel.exprs[mask.index()];
        if node.dtype == DType::Bool {
            return Mask { writer: writer(kernel, groups, mask), lines, hides: true };
        }
        let mut kernel = kernel.clone();
        let number = ExprId(kernel.exprs.len() as u32);
        kernel.exprs.push(ExprNode { expr: Expr::Cast(mask), dtype: DType::F32, ..*node });
        Mask { writer: writer(&kernel, groups, number), lines, hides: false }
    }
}

impl Program for AttentionProgram {
    fn source(&self) -> String {
        let AttentionProgram { name, extents, scale, causal, queries, keys, values, mask, target } = self;
        let AttentionSizes { batch, rows, keys: count, depth, columns } = extents;
        let causal = if *causal { ", causal" } else { "" };
        let mask = mask.as_ref().map_or_else(String::new, |mask| {
            format!("{}:\n{}", if mask.hides { "where" } else { "added" }, mask.writer.source())
        });
        format!(
            "attention {name}: {batch} x ({rows} queries, {count} keys of {depth}, values of {columns}), \
             scale {scale}{causal}\nqueries:\n{}keys: {}values: {}{mask}result: {}",
            queries.source(),
            keys.source(),
            values.source(),
            target.source()
        )
    }

    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        self.run(bindings);
        Ok(())
    }

    fn compiled(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests;
