//! Attention as the root of a kernel.

use smallvec::SmallVec;

use crate::base::{DType, Shape};
use crate::ir::{BuiltIn, Composite, NodeId, Op, Type};
use crate::kernel::affine::AxisId;
use crate::kernel::blocker::Blocker;
use crate::kernel::expr::{Expr, ExprId};
use crate::kernel::index::{Position, Positions, bijective_axes};
use crate::kernel::lower::{Lowered, Lowerer};
use crate::kernel::nest::{AttentionPart, FusedAttention};
use crate::kernel::root::KernelRoot;

/// The widest rows of queries, keys and values that templates hold.
pub const MAX_WIDTH: usize = 128;

/// The attention that a device computes by one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionLimits {
    /// Queries below which the body is faster than the template for many.
    pub least_rows: usize,
    /// Of the template for few queries, if there is one.
    pub few: Option<FewQueries>,
    /// Multiplications below which the body is compiled and run sooner.
    pub least_work: usize,
    /// Keys, at most.
    pub most_keys: usize,
    /// Columns of the values that have their scores computed once.
    pub columns: usize,
    /// Whether there is a template for the parts of its gradient.
    pub backward: bool,
}

/// The attentions that a device computes by a template that shares out the keys of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FewQueries {
    /// Queries of an attention, at most.
    pub most_rows: usize,
    /// Keys, at most, unless [`filling`](FewQueries::filling) says otherwise: the body shares them out among
    /// more threads.
    pub keys_of_few: usize,
    /// Queries of all attentions that occupy the device, however many their keys are.
    pub filling: usize,
}

impl FewQueries {
    fn suits(&self, keys: usize, all_rows: usize) -> bool {
        keys <= self.keys_of_few || all_rows >= self.filling
    }
}

/// Bytes of scores up to which they are written rather than computed twice.
const FEW_SCORES: usize = 64 << 20;

/// Why attention is computed by its body on a device that has a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A type that templates do not compute in.
    #[error("templates compute in F32, not {0}")]
    Type(DType),
    /// No elements at all.
    #[error("an operand is empty")]
    Empty,
    /// Rows of queries, keys or values that templates do not hold.
    #[error("rows of {0}, templates hold {MAX_WIDTH}")]
    Wide(usize),
    /// Too few queries to occupy a template.
    #[error("{found} queries, the template is faster from {least} on")]
    FewRows {
        /// Queries there are.
        found: usize,
        /// [`AttentionLimits::least_rows`].
        least: usize,
    },
    /// So little to compute that compiling the template takes longer.
    #[error("{found} multiplications, the template is worth compiling from {least} on")]
    LittleWork {
        /// Multiplications there are.
        found: usize,
        /// [`AttentionLimits::least_work`].
        least: usize,
    },
    /// More keys than one invocation goes through.
    #[error("{found} keys, the template goes through {most}")]
    ManyKeys {
        /// Keys there are.
        found: usize,
        /// [`AttentionLimits::most_keys`], or of few queries [`FewQueries::keys_of_few`].
        most: usize,
    },
    /// More columns than the template sums at a time.
    #[error("values of {found} columns, the template computes all scores again for every {most}")]
    ManyColumns {
        /// Columns there are.
        found: usize,
        /// [`AttentionLimits::columns`].
        most: usize,
    },
    /// Something else reads its scores or what becomes of them.
    #[error("its scores are needed elsewhere, for its gradient perhaps")]
    Shared,
}

/// Whether a kernel can hold a part of attention with operands of these types, and the
/// device's template is worth it.
///
/// # Errors
/// The first reason against it.
pub fn fits(part: AttentionPart, operands: &[&Type], range: &AttentionLimits) -> Result<(), Unfit> {
    let [q, k, others @ ..] = operands else { return Err(Unfit::Empty) };
    let last = |ty: &Type, from_end: usize| ty.shape[ty.shape.rank() - from_end];
    let v = others.first().filter(|_| part != AttentionPart::LogSum);
    let (depth, columns) = (last(q, 1), v.map_or(0, |v| last(v, 1)));
    let (width, rows, keys) = (depth.max(columns), last(q, 2), last(k, 2));
    if q.dtype.compute() != DType::F32 {
        return Err(Unfit::Type(q.dtype));
    }
    if operands.iter().any(|operand| operand.shape.numel() == 0) {
        return Err(Unfit::Empty);
    }
    if width > MAX_WIDTH {
        return Err(Unfit::Wide(width));
    }
    let all_rows = q.shape.numel() / depth;
    let few = range.few.filter(|few| part == AttentionPart::Result && rows <= few.most_rows);
    let are_few = few.is_some_and(|few| few.suits(keys, all_rows));
    if !are_few && rows < range.least_rows {
        let few_rows = Unfit::FewRows { found: rows, least: range.least_rows };
        return Err(few.map_or(few_rows, |few| Unfit::ManyKeys { found: keys, most: few.keys_of_few }));
    }
    // A gradient may go through the queries of all attentions.
    let most = OperandNumbers::of(part).g.map_or(keys, |g| keys.max(operands[g].shape.numel() / columns));
    if most > range.most_keys {
        return Err(Unfit::ManyKeys { found: most, most: range.most_keys });
    }
    if are_few {
        return Ok(());
    }
    let scores = all_rows.saturating_mul(keys);
    let work = scores.saturating_mul(depth + columns);
    if work < range.least_work {
        return Err(Unfit::LittleWork { found: work, least: range.least_work });
    }
    if columns > range.columns && scores <= FEW_SCORES / DType::F32.size() {
        return Err(Unfit::ManyColumns { found: columns, most: range.columns });
    }
    Ok(())
}

/// The attributes of the composites.
struct AttentionAttributes {
    scale: f64,
    causal: bool,
    shared: bool,
}

impl AttentionAttributes {
    fn of(composite: &Composite) -> Option<AttentionAttributes> {
        let get = |name: &str| composite.attributes.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let (scale, causal, shared) = (get("scale")?, get("causal")?, get("gqa")?);
        Some(AttentionAttributes {
            scale: scale.as_f64(),
            causal: causal.as_bool(),
            shared: shared.as_bool(),
        })
    }
}

/// Positions of what operands depend on.
struct AttentionPositions<'a> {
    /// The shape whose axes before the last two are those of the attentions.
    shape: &'a [usize],
    /// The positions along these.
    batch: Positions,
    row: Position,
    key: Position,
    depth: Position,
    column: Position,
    /// Heads of the query share the keys'.
    shared: bool,
}

/// The dimensions that one part of attention goes through.
struct AttentionDims {
    summed: Vec<usize>,
    /// Of keys, or rows where results' rows are the keys'.
    others: usize,
    depth: usize,
    columns: Option<usize>,
}

/// Which operands of a part's node, after queries and keys, are what.
struct OperandNumbers {
    v: Option<usize>,
    g: Option<usize>,
    log_sum: Option<usize>,
    product: Option<usize>,
    /// If there is a mask.
    mask: usize,
}

impl OperandNumbers {
    fn of(part: AttentionPart) -> OperandNumbers {
        let [v, g, log_sum, product, mask] = match part {
            AttentionPart::Result => [2, 0, 0, 0, 3],
            AttentionPart::LogSum => [0, 0, 0, 0, 2],
            AttentionPart::QueryGradient | AttentionPart::KeyGradient => [2, 3, 4, 5, 6],
            AttentionPart::ValueGradient => [0, 2, 3, 0, 4],
        };
        let some = |number: usize| Some(number).filter(|number| *number > 0);
        OperandNumbers { v: some(v), g: some(g), log_sum: some(log_sum), product: some(product), mask }
    }
}

/// The operands' values; `None` where a part does without.
struct AttentionOperands {
    q: ExprId,
    k: ExprId,
    v: Option<ExprId>,
    g: Option<ExprId>,
    log_sum: Option<ExprId>,
    product: Option<ExprId>,
    mask: Option<ExprId>,
}

impl<'g> Lowerer<'_, 'g> {
    pub(crate) fn composite(
        &mut self,
        id: NodeId,
        composite: &Composite,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let node = self.request.graph.node(id);
        let opaque = || Blocker::Opaque(node.op.name());
        let part = part(&node.op).ok_or_else(opaque)?;
        let attributes = AttentionAttributes::of(composite).ok_or_else(opaque)?;
        self.may_fill_grid(id, guard)?;
        let own = self.shape(id).rank() - if part == AttentionPart::LogSum { 1 } else { 2 };
        let [batch, along, width] = self.attention_axes(self.shape(id), own, at)?;
        self.decide(&[], 0);
        self.contraction_node = Some(id);
        let (dims, indices) = self.attention_dims(id, part, own, at, attributes.shared);
        self.in_operand = true;
        let lowered = self.attention_operands(id, part, &indices);
        self.in_operand = false;
        let AttentionOperands { q, k, v, g, log_sum, product, mask } = lowered?;
        let axes = |dim: usize| self.builder.dims[dim].axes.to_vec();
        let (rows, keys) =
            if part.by_query() { (along, axes(dims.others)) } else { (axes(dims.others), along) };
        self.root = KernelRoot::from(FusedAttention {
            part,
            q,
            k,
            v,
            g,
            log_sum,
            product,
            mask,
            scale: attributes.scale.to_bits(),
            causal: attributes.causal,
            batch,
            summed: dims.summed.iter().flat_map(|&dim| axes(dim)).collect(),
            rows,
            keys,
            depth: axes(dims.depth),
            columns: dims.columns.map_or_else(|| width.clone(), axes),
            width,
        });
        let sum = self.builder.expr(Expr::Accumulator, DType::F32, 0);
        let narrower = node.ty.dtype != DType::F32;
        Ok(if narrower { self.builder.expr(Expr::Cast(sum), node.ty.dtype, 0) } else { sum })
    }

    /// The dimensions that a part's element goes through, and with them the positions of
    /// its operands' elements. The first `own` axes of the node are those of attentions.
    fn attention_dims(
        &mut self,
        id: NodeId,
        part: AttentionPart,
        own: usize,
        at: &Positions,
        shared: bool,
    ) -> (AttentionDims, AttentionPositions<'g>) {
        let operands = &self.request.graph.node(id).operands;
        let last = |number: usize, from_end: usize| {
            let shape = self.shape(operands[number]);
            shape[shape.rank() - from_end]
        };
        let (rows, keys, depth) = (last(0, 2), last(1, 2), last(0, 1));
        let g = OperandNumbers::of(part).g;
        let columns = g.map(|g| last(g, 1));
        let shape: &'g [usize] = match g.map(|g| self.shape(operands[g])) {
            Some(g) => &g[..g.rank() - 2],
            None => &self.shape(id)[..own],
        };
        let (batch, summed) =
            self.attention_batch(shape, self.shape(id), own, at, shared && !part.by_query());
        let others = if part.by_query() { keys } else { rows };
        let mut dim = |extent: usize| self.builder.dim(extent, Some(1), self.splits);
        let dims =
            AttentionDims { summed, others: dim(others), depth: dim(depth), columns: columns.map(dim) };
        let (along, other) = (at[own].clone(), self.builder.position(dims.others));
        let (row, key) = if part.by_query() { (along, other) } else { (other, along) };
        let depth = self.builder.position(dims.depth);
        let column = match dims.columns {
            Some(dim) => self.builder.position(dim),
            None => at.get(own + 1).cloned().unwrap_or_default(),
        };
        (dims, AttentionPositions { shape, batch, row, key, depth, column, shared })
    }

    /// The positions along the axes of attentions, for an element of an operand's
    /// gradient: its own, and where several attentions share the operand, dimensions
    /// along which their gradients are summed.
    fn attention_batch(
        &mut self,
        all: &[usize],
        shape: &Shape,
        own: usize,
        at: &Positions,
        shared: bool,
    ) -> (Positions, Vec<usize>) {
        let (mut positions, mut summed) = (Positions::new(), Vec::new());
        let missing = all.len() - own;
        for (axis, &whole) in all.iter().enumerate() {
            let (extent, position) = match axis.checked_sub(missing) {
                Some(axis) => (shape[axis], at[axis].clone()),
                None => (1, Position::default()),
            };
            let group = whole / extent;
            let is_group = shared && axis + 1 == all.len();
            debug_assert!(group == 1 || extent == 1 || is_group, "{extent} of {whole} attentions");
            if group == 1 {
                positions.push(position);
                continue;
            }
            let dim = self.builder.dim(group, Some(1), self.splits);
            positions.push(position.times(group as i64).plus(&self.builder.position(dim)));
            summed.push(dim);
        }
        (positions, summed)
    }

    /// The operands that a part needs.
    fn attention_operands(
        &mut self,
        id: NodeId,
        part: AttentionPart,
        indices: &AttentionPositions<'_>,
    ) -> Lowered<AttentionOperands> {
        let operands = self.request.graph.node(id).operands.clone();
        let mut value = |number: usize, own: &[&Position], shared: bool| -> Lowered<ExprId> {
            let shape = self.shape(operands[number]);
            // Blocks of queries go through all keys, but read their own rows once.
            self.operand_numel = if number == 0 && part.by_query() { shape.numel() } else { usize::MAX };
            let at = self.attention_positions(shape, indices, own, shared)?;
            self.value(operands[number], &at, 0)
        };
        let (row, key, depth, column) = (&indices.row, &indices.key, &indices.depth, &indices.column);
        let has = OperandNumbers::of(part);
        let q = value(0, &[row, depth], false)?;
        let k = value(1, &[key, depth], indices.shared)?;
        let v = has.v.map(|v| value(v, &[key, column], indices.shared)).transpose()?;
        let g = has.g.map(|g| value(g, &[row, column], false)).transpose()?;
        let log_sum = has.log_sum.map(|sum| value(sum, &[row], false)).transpose()?;
        let product = has.product.map(|product| value(product, &[row], false)).transpose()?;
        let mask = (operands.len() > has.mask).then(|| value(has.mask, &[row, key], false)).transpose()?;
        Ok(AttentionOperands { q, k, v, g, log_sum, product, mask })
    }

    /// The positions of an operand: the attentions' along the batch, an extent
    /// of 1 repeats; where heads are shared, several of the query's have one.
    fn attention_positions(
        &mut self,
        shape: &Shape,
        indices: &AttentionPositions<'_>,
        own: &[&Position],
        shared: bool,
    ) -> Lowered<Positions> {
        // A mask may have fewer axes.
        let own = &own[own.len().saturating_sub(shape.rank())..];
        let batch = shape.rank() - own.len();
        let mut positions = Positions::new();
        for axis in 0..batch {
            let from = indices.shape.len() - batch + axis;
            let (extent, all) = (shape[axis], indices.shape[from]);
            positions.push(match extent {
                1 => Position::default(),
                _ if shared && axis + 1 == batch && extent != all => {
                    self.quotient(&indices.batch[from], (all / extent) as i64, extent)?
                }
                _ => indices.batch[from].clone(),
            });
        }
        let own = own.iter().zip(&shape[batch..]);
        positions.extend(own.map(|(&p, &extent)| if extent == 1 { Position::default() } else { p.clone() }));
        Ok(positions)
    }

    /// The grid axes of the batch, the rows and the columns; together they
    /// are the whole grid, each once.
    fn attention_axes(&self, shape: &Shape, batch: usize, at: &Positions) -> Lowered<[Vec<AxisId>; 3]> {
        let mut groups = [Vec::new(), Vec::new(), Vec::new()];
        for (i, (position, &extent)) in at.iter().zip(shape.iter()).enumerate() {
            let axes = bijective_axes(position, extent, &self.builder.axes).ok_or(Blocker::Contraction)?;
            groups[usize::from(i >= batch) + usize::from(i > batch)].extend(axes);
        }
        let mut all: SmallVec<[AxisId; 8]> = groups.iter().flatten().copied().collect();
        all.sort_unstable();
        let whole = (0..self.builder.axes.len()).map(|i| AxisId(i as u16));
        if all.iter().copied().eq(whole) { Ok(groups) } else { Err(Blocker::Contraction.into()) }
    }
}

/// What a node computes of an attention, if it is one that a kernel holds as its root.
pub fn part(op: &Op) -> Option<AttentionPart> {
    let Op::Composite(composite, out) = op else { return None };
    Some(match composite.built_in? {
        BuiltIn::Attention => AttentionPart::Result,
        BuiltIn::AttentionLogSum => AttentionPart::LogSum,
        BuiltIn::AttentionBackward if *out == 0 => AttentionPart::QueryGradient,
        BuiltIn::AttentionBackward => AttentionPart::KeyGradient,
        BuiltIn::AttentionBackwardValues => AttentionPart::ValueGradient,
        BuiltIn::Dequantize => return None,
    })
}

/// Whether a node is attention, or a part of its gradient.
pub fn is_attention(op: &Op) -> bool {
    part(op).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Device;

    const RANGE: AttentionLimits = AttentionLimits {
        least_rows: 20,
        few: Some(FewQueries { most_rows: 4, keys_of_few: 200, filling: 4 }),
        least_work: 25_600,
        most_keys: 1000,
        columns: 64,
        backward: false,
    };

    /// What keeps attention of one head with these extents from a template.
    fn why([rows, keys, depth, columns]: [usize; 4], dtype: DType) -> Option<Unfit> {
        let ty = |dims: &[usize]| Type::new(dims, dtype, Device::cpu());
        let [q, k, v] = [ty(&[rows, depth]), ty(&[keys, depth]), ty(&[keys, columns])];
        fits(AttentionPart::Result, &[&q, &k, &v], &RANGE).err()
    }

    #[test]
    fn each_reason_against_a_template_is_told() {
        assert_eq!(why([20, 1000, 128, 64], DType::F32), None);
        assert_eq!(why([20, 1000, 128, 64], DType::BF16), None);
        assert_eq!(why([20, 1000, 128, 64], DType::F64), Some(Unfit::Type(DType::F64)));
        assert_eq!(why([20, 0, 64, 64], DType::F32), Some(Unfit::Empty));
        assert_eq!(why([20, 10, 129, 64], DType::F32), Some(Unfit::Wide(129)));
        assert_eq!(why([19, 10, 64, 64], DType::F32), Some(Unfit::FewRows { found: 19, least: 20 }));
        let little = Unfit::LittleWork { found: 20 * 9 * 128, least: 25_600 };
        assert_eq!(why([20, 9, 64, 64], DType::F32), Some(little));
        assert_eq!(why([20, 1001, 64, 64], DType::F32), Some(Unfit::ManyKeys { found: 1001, most: 1000 }));
    }

    #[test]
    fn few_queries_have_a_template_unless_their_keys_are_many() {
        assert_eq!(why([1, 1, 8, 100], DType::F32), None);
        assert_eq!(why([3, 200, 128, 128], DType::F32), None);
        assert_eq!(why([3, 201, 64, 64], DType::F32), Some(Unfit::ManyKeys { found: 201, most: 200 }));
        assert_eq!(why([4, 1000, 64, 64], DType::F32), None, "as many as fill the device");
        assert_eq!(why([4, 1001, 64, 64], DType::F32), Some(Unfit::ManyKeys { found: 1001, most: 1000 }));
        assert_eq!(why([5, 20, 64, 64], DType::F32), Some(Unfit::FewRows { found: 5, least: 20 }));
        let ty = Type::new([1, 64], DType::F32, Device::cpu());
        let of_sums = fits(AttentionPart::LogSum, &[&ty, &ty], &RANGE);
        assert_eq!(of_sums, Err(Unfit::FewRows { found: 1, least: 20 }), "results alone");
    }

    #[test]
    fn values_of_many_columns_are_worth_it_only_where_scores_are_many() {
        let many = Some(Unfit::ManyColumns { found: 65, most: 64 });
        assert_eq!(why([16 << 10, 1000, 64, 65], DType::F32), many);
        assert_eq!(why([17 << 10, 1000, 64, 65], DType::F32), None);
    }
}
