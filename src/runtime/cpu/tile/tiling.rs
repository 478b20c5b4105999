//! Which axes become the tile's rows and columns.

use kiln_simd::micro;
use kiln_simd::thresholds::SHORT_REDUCED_ROW;

use crate::ir::Monoid;
use crate::kernel::{Affine, AxisId, Expr, Kernel};
use crate::runtime::cpu::thresholds::{
    ACROSS_MAX_COLUMNS, ACROSS_MIN_ROWS, COST_CONTIGUOUS_ACCESS, COST_DISPATCH, COST_INVARIANT_ACCESS,
    COST_MAX_COLUMNS, COST_ROW, COST_STRIDED_LOAD, COST_STRIDED_STORE, MULTI_ROW_COLUMNS, MULTI_ROW_ELEMENTS,
    MULTI_ROW_MAX_ROWS, RESIDENT_ROW, ROW_INVARIANT_MAX_ROWS, ROW_INVARIANT_MIN_OPS, SCATTER_MIN_COLUMNS,
    SINGLE_PASS_ROW, TRANSPOSING_MIN_EXTENT, TRANSPOSING_TILE,
};
use crate::runtime::cpu::tile::analysis::{AxisSet, ExprFacts, bit};
use crate::runtime::cpu::tile::program::TileShape;
use crate::runtime::cpu::tile::reduction::reduction_kind;

/// The tile's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePlan {
    /// The axis of columns.
    pub col: Option<AxisId>,
    /// Its level; the deepest where there is no axis at all.
    pub level: u8,
    /// The axis of rows, of the same level or of the next lower one.
    pub row: Option<AxisId>,
    /// Whether a tile has full rows and their level has no other axis, so
    /// that values stay from one pass over it to the next.
    pub full_rows: bool,
    /// Rows of a tile.
    pub rows: usize,
    /// Rows of a tile at least, where more would not fit the cache.
    pub min_rows: usize,
    /// Columns of a tile, where something decides them beforehand.
    pub cols: Option<usize>,
    /// Whether tiles transpose, since a load is contiguous along their rows.
    pub transposing: bool,
}

impl TilePlan {
    /// Tiles of one row.
    fn of(col: Option<AxisId>, level: u8) -> TilePlan {
        TilePlan {
            col,
            level,
            row: None,
            full_rows: false,
            rows: 1,
            min_rows: 1,
            cols: None,
            transposing: false,
        }
    }
    /// The shape of what varies along a set of axes.
    pub fn shape(&self, axes: AxisSet) -> TileShape {
        let has = |axis: Option<AxisId>| axis.is_some_and(|axis| axes & bit(axis) != 0);
        let rows = if has(self.row) { TileShape::Row } else { TileShape::Scalar };
        rows.union(if has(self.col) { TileShape::Column } else { TileShape::Scalar })
    }
    /// The shape of a value that is stored, or reduced, over the axes of a
    /// level and, where `below`, of those beneath.
    pub fn shape_at_level(&self, kernel: &Kernel, level: u8, below: bool) -> TileShape {
        let counts = |axis: AxisId| {
            let of = kernel.axes[axis.index()].level;
            of == level || (below && of < level)
        };
        let axes = [self.row, self.col].into_iter().flatten().filter(|&axis| counts(axis));
        self.shape(axes.fold(0, |set, axis| set | bit(axis)))
    }
}

/// The tile's axes for a kernel whose axes are in order.
pub fn choose(kernel: &Kernel, facts: &ExprFacts) -> TilePlan {
    let levels = (0..=kernel.depth()).filter(|&level| kernel.level_axes(level).next().is_some());
    let best = levels.map(|level| (cost(kernel, level), level)).min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, level)) = best else {
        return TilePlan::of(None, 0);
    };
    let col = kernel.level_axes(level).last();
    let mut tiling = TilePlan::of(col, level);
    choose_rows(kernel, facts, &mut tiling);
    let multi_pass = level > 0 && multi_pass(kernel, facts, level);
    let only = kernel.level_axes(level).count() == 1;
    let extent = col.map_or(1, |col| extent(kernel, col));
    tiling.full_rows = level > 0
        && only
        && (tiling.row.is_some() || (extent <= RESIDENT_ROW && (multi_pass || extent <= SINGLE_PASS_ROW)));
    if tiling.full_rows {
        tiling.cols = Some(extent);
    }
    tiling
}

/// Whether what a level computes or stores depends on a reduction over it.
pub fn multi_pass(kernel: &Kernel, facts: &ExprFacts, level: u8) -> bool {
    let later = |i: usize| facts.passes[i][usize::from(level) - 1] > 0;
    let computed = (0..kernel.exprs.len()).any(|i| kernel.exprs[i].level >= level && later(i));
    computed || kernel.stores.iter().any(|store| store.level >= level && later(store.value.index()))
}

fn extent(kernel: &Kernel, axis: AxisId) -> usize {
    kernel.axes[axis.index()].extent
}

/// What it costs, about, to run along the innermost axis of a level: each
/// load and store weighs by how its memory lies, each tile and each scalar
/// operation by its overhead.
fn cost(kernel: &Kernel, level: u8) -> f64 {
    let Some(col) = kernel.level_axes(level).last() else { return f64::INFINITY };
    let mut cost = 0.0;
    let mut access = |affine: &Affine, points: f64, store: bool| {
        cost += points
            * match affine.coefficient(col).unsigned_abs() {
                0 => COST_INVARIANT_ACCESS,
                1 => COST_CONTIGUOUS_ACCESS,
                _ if store => COST_STRIDED_STORE,
                _ => COST_STRIDED_LOAD,
            };
    };
    for node in &kernel.exprs {
        let points = kernel.points(node.level) as f64;
        match &node.expr {
            Expr::Load(_, a) => access(&a.affine, points, false),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Inside(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Checked(..)
            | Expr::Accumulator => {}
        }
    }
    for store in &kernel.stores {
        access(&store.address, kernel.points(store.level) as f64, true);
    }
    if let Some(scatter) = kernel.scatter() {
        access(&scatter.address, kernel.points(0) as f64, true);
    }
    let elements = extent(kernel, col).max(1) as f64;
    let rows = rows_below(kernel, level, extent(kernel, col)).map_or(1, |(_, rows)| rows) as f64;
    let short = elements <= SHORT_REDUCED_ROW as f64 && rows >= micro::ROW_BLOCK as f64;
    for node in &kernel.exprs {
        let points = kernel.points(node.level) as f64;
        // A dispatch costs as much as some forty elements, a row of a tile of
        // several ten; a reduction begins and ends for each row, if rows are not reduced together.
        cost += match &node.expr {
            Expr::Reduce(monoid, _) if node.level < level => {
                let together = short
                    && micro::reduce(reduction_kind(*monoid), node.dtype)
                        .is_some_and(|r| r.short_rows.is_some());
                if together { COST_ROW * points } else { COST_DISPATCH * points }
            }
            _ if node.level < level => COST_DISPATCH * points / rows,
            _ => (COST_ROW + (COST_DISPATCH - COST_ROW) / rows) * points / elements.min(COST_MAX_COLUMNS),
        };
    }
    cost
}

/// The axis of rows for a level of so many columns whose rows are whole, and
/// how many of them, about, are a tile.
fn rows_below(kernel: &Kernel, level: u8, cols: usize) -> Option<(AxisId, usize)> {
    let only = kernel.level_axes(level).count() == 1;
    if level == 0 || !only || cols == 0 {
        return None;
    }
    let row = kernel.level_axes(level - 1).last()?;
    let long =
        if contiguous_across_rows(kernel, level, row) { ACROSS_MAX_COLUMNS } else { MULTI_ROW_COLUMNS };
    (cols <= long).then_some(())?;
    Some((row, (MULTI_ROW_COLUMNS / cols).clamp(1, MULTI_ROW_MAX_ROWS).min(extent(kernel, row).max(1))))
}

/// Whether a load of a level is contiguous along an axis of the next lower one.
fn contiguous_across_rows(kernel: &Kernel, level: u8, row: AxisId) -> bool {
    let mut loads = kernel.exprs.iter().filter(|node| node.level == level);
    loads.any(|node| matches!(&node.expr, Expr::Load(_, a) if a.affine.coefficient(row) == 1))
}

/// Adds an axis of rows where columns are few, where a load is contiguous along another axis than
/// the columns, or where much is the same in all rows.
fn choose_rows(kernel: &Kernel, facts: &ExprFacts, tiling: &mut TilePlan) {
    let Some(col) = tiling.col else { return };
    let cols = extent(kernel, col);
    let level = tiling.level;
    if level > 0 {
        if let Some((row, _)) = rows_below(kernel, level, cols) {
            tiling.row = Some(row);
            tiling.rows = MULTI_ROW_MAX_ROWS.min(extent(kernel, row).max(1));
            let fewest = if contiguous_across_rows(kernel, level, row) { ACROSS_MIN_ROWS } else { 1 };
            tiling.min_rows = fewest.min(tiling.rows);
        }
        return;
    }
    // A transposing tile would change the order of conflicting writes.
    let conflict_axes = kernel.scatter().into_iter().flat_map(|scatter| &scatter.axes);
    if kernel.depth() == 0
        && conflict_axes.filter(|&&axis| extent(kernel, axis) > 1).count() < 2
        && let Some(row) = transposing_axis(kernel, col)
    {
        tiling.row = Some(row);
        tiling.rows = TRANSPOSING_TILE.min(extent(kernel, row).max(1));
        tiling.cols = Some(TRANSPOSING_TILE.min(cols.max(1)));
        tiling.min_rows = tiling.rows;
        tiling.transposing = true;
        return;
    }
    let next = kernel.level_axes(0).filter(|&axis| axis != col).last();
    if let Some(row) = next.filter(|_| cols <= MULTI_ROW_ELEMENTS / 2 && cols > 0) {
        tiling.row = Some(row);
        let cols = if splits_columns(kernel, col) {
            (cols / 8).next_multiple_of(16).max(SCATTER_MIN_COLUMNS)
        } else {
            cols
        };
        tiling.rows = (MULTI_ROW_ELEMENTS / cols).max(2).min(extent(kernel, row).max(1));
        tiling.cols = Some(cols);
    } else if cols > 0
        && let Some(row) = row_invariant_axis(kernel, facts, col)
    {
        tiling.row = Some(row);
        tiling.rows = ROW_INVARIANT_MAX_ROWS.min(extent(kernel, row));
        tiling.cols = Some((MULTI_ROW_ELEMENTS / tiling.rows).min(cols));
    }
}

/// The axis along which most of what columns compute is invariant, where that is at least half of
/// what they compute.
fn row_invariant_axis(kernel: &Kernel, facts: &ExprFacts, col: AxisId) -> Option<AxisId> {
    if kernel.depth() > 0 || kernel.scatter().is_some() {
        return None;
    }
    let work = |counts: &dyn Fn(AxisSet) -> bool| -> u64 {
        let counted = kernel.exprs.iter().zip(&facts.axes).filter(|(_, axes)| counts(**axes));
        counted.map(|(node, _)| operations(&node.expr)).sum()
    };
    let all = work(&|axes| axes & bit(col) != 0);
    let of = |row: AxisId| work(&|axes| axes & bit(col) != 0 && axes & bit(row) == 0);
    let rows = kernel.level_axes(0).filter(|&axis| axis != col && extent(kernel, axis) > 1);
    let (row, same) = rows.map(|row| (row, of(row))).max_by_key(|&(_, same)| same)?;
    (same >= ROW_INVARIANT_MIN_OPS && 2 * same >= all).then_some(row)
}

/// What an expression takes, in scalar operations, besides memory.
fn operations(expr: &Expr) -> u64 {
    match expr {
        Expr::Alu(op, _) => op.flops(),
        Expr::Index(_) | Expr::Inside(_) | Expr::Cast(_) | Expr::Bitcast(_) | Expr::Checked(..) => 1,
        Expr::Const(_) | Expr::Arg(_) | Expr::Load(..) | Expr::Accumulator => 0,
        Expr::Reduce(..) | Expr::Scan(..) => 0,
    }
}

/// Whether threads share a scatter's columns, of which a tile has only some then.
fn splits_columns(kernel: &Kernel, col: AxisId) -> bool {
    extent(kernel, col) > SCATTER_MIN_COLUMNS
        && kernel.scatter().is_some_and(|scatter| !scatter.axes.contains(&col))
}

/// The axis along which a load is contiguous that is not along the columns.
fn transposing_axis(kernel: &Kernel, col: AxisId) -> Option<AxisId> {
    let wide = |axis: AxisId| extent(kernel, axis) >= TRANSPOSING_MIN_EXTENT;
    kernel.exprs.iter().find_map(|node| {
        let Expr::Load(_, access) = &node.expr else { return None };
        if matches!(access.affine.coefficient(col), -1..=1) {
            return None;
        }
        let along = access.affine.terms.iter().find(|&&(axis, step)| step == 1 && wide(axis));
        along.map(|term| term.0).filter(|&axis| kernel.axes[axis.index()].level == 0 && wide(col))
    })
}

/// Whether a monoid needs the positions of its elements.
pub fn is_positional(monoid: Monoid) -> bool {
    match monoid {
        Monoid::ArgMax | Monoid::ArgMin => true,
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::M2 | Monoid::LogSumExp => false,
    }
}
