//! Attention as the root of a kernel.

use smallvec::SmallVec;

use crate::base::{DType, Shape};
use crate::ir::op::{ATTENTION, Composite};
use crate::ir::{NodeId, Op, Type};
use crate::kernel::affine::AxisId;
use crate::kernel::blocker::Blocker;
use crate::kernel::expr::{Expr, ExprId};
use crate::kernel::index::{Position, Positions, complete};
use crate::kernel::lower::{Lowered, Lowerer};
use crate::kernel::nest::Attention;

/// The widest rows of queries, keys and values that templates hold.
pub const MAX_WIDTH: usize = 128;

/// The attention that a device computes by one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// Queries below which the body is faster.
    pub least_rows: usize,
    /// Multiplications below which the body is compiled and run sooner.
    pub least_work: usize,
    /// Keys, at most.
    pub most_keys: usize,
    /// Columns of the values that have their scores computed once.
    pub columns: usize,
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
        /// [`Range::least_rows`].
        least: usize,
    },
    /// So little to compute that compiling the template takes longer.
    #[error("{found} multiplications, the template is worth compiling from {least} on")]
    LittleWork {
        /// Multiplications there are.
        found: usize,
        /// [`Range::least_work`].
        least: usize,
    },
    /// More keys than one invocation goes through.
    #[error("{found} keys, the template goes through {most}")]
    ManyKeys {
        /// Keys there are.
        found: usize,
        /// [`Range::most_keys`].
        most: usize,
    },
    /// More columns than the template sums at a time.
    #[error("values of {found} columns, the template computes all scores again for every {most}")]
    ManyColumns {
        /// Columns there are.
        found: usize,
        /// [`Range::columns`].
        most: usize,
    },
    /// Something else reads its scores or what becomes of them.
    #[error("its scores are needed elsewhere, for its gradient perhaps")]
    Shared,
}

/// Whether a kernel can hold attention with operands of these types, and the
/// device's template is worth it.
///
/// # Errors
/// The first reason against it.
pub fn fits(operands: &[&Type], range: &Range) -> Result<(), Unfit> {
    let [q, k, v, ..] = operands else { return Err(Unfit::Empty) };
    let last = |ty: &Type, from_end: usize| ty.shape[ty.shape.rank() - from_end];
    let (width, rows, keys) = (last(q, 1).max(last(v, 1)), last(q, 2), last(k, 2));
    if q.dtype.compute() != DType::F32 {
        return Err(Unfit::Type(q.dtype));
    }
    if operands.iter().any(|operand| operand.shape.numel() == 0) {
        return Err(Unfit::Empty);
    }
    if width > MAX_WIDTH {
        return Err(Unfit::Wide(width));
    }
    if rows < range.least_rows {
        return Err(Unfit::FewRows { found: rows, least: range.least_rows });
    }
    if keys > range.most_keys {
        return Err(Unfit::ManyKeys { found: keys, most: range.most_keys });
    }
    let (depth, columns) = (last(q, 1), last(v, 1));
    let scores = (q.shape.numel() / depth).saturating_mul(keys);
    let work = scores.saturating_mul(depth + columns);
    if work < range.least_work {
        return Err(Unfit::LittleWork { found: work, least: range.least_work });
    }
    if columns > range.columns && scores <= FEW_SCORES / DType::F32.size() {
        return Err(Unfit::ManyColumns { found: columns, most: range.columns });
    }
    Ok(())
}

/// The attributes of the composite.
struct Wanted {
    scale: f64,
    causal: bool,
    shared: bool,
}

impl Wanted {
    fn of(composite: &Composite) -> Option<Wanted> {
        let get = |name: &str| composite.attributes.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let (scale, causal, shared) = (get("scale")?, get("causal")?, get("gqa")?);
        Some(Wanted { scale: scale.as_f64(), causal: causal.as_bool(), shared: shared.as_bool() })
    }
}

/// Where the result's element is wanted.
struct Place<'a> {
    shape: &'a Shape,
    at: &'a Positions,
}

impl Lowerer<'_, '_> {
    pub(crate) fn composite(
        &mut self,
        id: NodeId,
        composite: &Composite,
        at: &Positions,
        guard: usize,
    ) -> Lowered<ExprId> {
        let graph = self.request.graph;
        let node = graph.node(id);
        let opaque = || Blocker::Opaque(node.op.name());
        let wanted = Wanted::of(composite).filter(|_| composite.name == ATTENTION).ok_or_else(opaque)?;
        self.may_fill_grid(id, guard)?;
        let [batch, rows, columns] = self.attention_axes(self.shape(id), at)?;
        self.decide(&[], 0);
        self.contraction_node = Some(id);
        let (q, k) = (node.operands[0], node.operands[1]);
        let last = |id: NodeId, from_end: usize| self.shape(id)[self.shape(id).rank() - from_end];
        let (keys, depth) = (last(k, 2), last(q, 1));
        let keys = self.builder.dim(keys, Some(1), self.splits);
        let depth = self.builder.dim(depth, Some(1), self.splits);
        let place = Place { shape: self.shape(id), at };
        self.in_operand = true;
        self.operand_numel = usize::MAX;
        let lowered = self.attention_operands(id, &place, [keys, depth], &wanted);
        self.in_operand = false;
        let [q, k, v, mask] = lowered?;
        let axes = |dim: usize| self.builder.dims[dim].axes.to_vec();
        let present = |operand: Option<ExprId>| operand.ok_or(Blocker::Opaque(ATTENTION));
        self.attention = Some(Attention {
            q: present(q)?,
            k: present(k)?,
            v: present(v)?,
            mask,
            scale: wanted.scale.to_bits(),
            causal: wanted.causal,
            batch,
            rows,
            columns,
            keys: axes(keys),
            depth: axes(depth),
        });
        let sum = self.builder.expr(Expr::Accumulator, DType::F32, 0);
        let narrower = node.ty.dtype != DType::F32;
        Ok(if narrower { self.builder.expr(Expr::Cast(sum), node.ty.dtype, 0) } else { sum })
    }

    /// The values of queries, keys, values and, if there is one, the mask.
    fn attention_operands(
        &mut self,
        id: NodeId,
        place: &Place<'_>,
        [keys, depth]: [usize; 2],
        wanted: &Wanted,
    ) -> Lowered<[Option<ExprId>; 4]> {
        let operands = self.request.graph.node(id).operands.clone();
        let (key, depth) = (self.builder.position(keys), self.builder.position(depth));
        let (row, column) = match &place.at[place.at.len() - 2..] {
            [row, column] => (row.clone(), column.clone()),
            _ => return Err(Blocker::Opaque(ATTENTION).into()),
        };
        let own = [[row.clone(), depth.clone()], [key.clone(), depth], [key.clone(), column], [row, key]];
        let mut values = [None; 4];
        for (number, (&operand, own)) in operands.iter().zip(own).enumerate() {
            let shared = wanted.shared && matches!(number, 1 | 2);
            let at = self.attention_positions(self.shape(operand), place, own, shared)?;
            values[number] = Some(self.value(operand, &at, 0)?);
        }
        Ok(values)
    }

    /// The positions of an operand: the result's along the batch, an extent
    /// of 1 repeats; where heads are shared, several of the query's have one.
    fn attention_positions(
        &mut self,
        shape: &Shape,
        place: &Place<'_>,
        own: [Position; 2],
        shared: bool,
    ) -> Lowered<Positions> {
        let batch = shape.rank() - 2;
        let mut positions = Positions::new();
        for axis in 0..batch {
            let from = place.shape.rank() - 2 - batch + axis;
            let (extent, all) = (shape[axis], place.shape[from]);
            positions.push(match extent {
                1 => Position::default(),
                _ if shared && axis + 1 == batch && extent != all => {
                    self.quotient(&place.at[from], (all / extent) as i64, extent)?
                }
                _ => place.at[from].clone(),
            });
        }
        let own = own.into_iter().zip(&shape[batch..]);
        positions.extend(own.map(|(p, &extent)| if extent == 1 { Position::default() } else { p }));
        Ok(positions)
    }

    /// The grid axes of the batch, the rows and the columns; together they
    /// are the whole grid, each once.
    fn attention_axes(&self, shape: &Shape, at: &Positions) -> Lowered<[Vec<AxisId>; 3]> {
        let mut groups = [Vec::new(), Vec::new(), Vec::new()];
        let batch = shape.rank() - 2;
        for (i, (position, &extent)) in at.iter().zip(shape.iter()).enumerate() {
            let axes = complete(position, extent, &self.builder.axes).ok_or(Blocker::Contraction)?;
            groups[usize::from(i >= batch) + usize::from(i > batch)].extend(axes);
        }
        let mut all: SmallVec<[AxisId; 8]> = groups.iter().flatten().copied().collect();
        all.sort_unstable();
        let whole = (0..self.builder.axes.len()).map(|i| AxisId(i as u16));
        if all.iter().copied().eq(whole) { Ok(groups) } else { Err(Blocker::Contraction.into()) }
    }
}

/// Whether a node is attention that a kernel holds as its root.
pub fn is_attention(op: &Op) -> bool {
    matches!(op, Op::Composite(composite, _) if composite.name == ATTENTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Device;

    const RANGE: Range = Range { least_rows: 20, least_work: 25_600, most_keys: 1000, columns: 64 };

    /// What keeps attention of one head with these extents from a template.
    fn why([rows, keys, depth, columns]: [usize; 4], dtype: DType) -> Option<Unfit> {
        let ty = |dims: &[usize]| Type { shape: Shape::from(dims), dtype, device: Device::cpu() };
        let [q, k, v] = [ty(&[rows, depth]), ty(&[keys, depth]), ty(&[keys, columns])];
        fits(&[&q, &k, &v], &RANGE).err()
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
    fn values_of_many_columns_are_worth_it_only_where_scores_are_many() {
        let many = Some(Unfit::ManyColumns { found: 65, most: 64 });
        assert_eq!(why([16 << 10, 1000, 64, 65], DType::F32), many);
        assert_eq!(why([17 << 10, 1000, 64, 65], DType::F32), None);
    }
}
