//! Contractions by parts of the contracted axis (split-K).

use crate::ir::Monoid;
use crate::kernel::{Access, AxisId, Contraction, Expr, ExprId, Guard, Kernel};
use crate::render::iterations;
use crate::render::shader::PassBuffer;
use crate::render::split::draft::{Draft, needed};
use crate::render::split::{Cut, KernelSequence, Part, Piece, wanted};
use crate::render::target::GpuTarget;

/// Rows of a tile times its steps: what one iteration computes of an operand.
const MOST_LANES: usize = 32;

/// How the contracted axes are cut, if they should be.
pub fn cut(kernel: &Kernel, target: &GpuTarget) -> Option<Cut> {
    let Some(c) = &kernel.contraction else { panic!("a contraction's parts without one") };
    let (points, rows) = (kernel.level_points(0), kernel.level_points(1));
    let most = target.max_iterations / iterations::of_body(kernel, 1, MOST_LANES);
    let parts = wanted(points, rows, target).unwrap_or(1);
    let parts = match rows as u64 > most {
        true => parts.max(rows.div_ceil((most as usize / 2).max(1))),
        false => parts,
    };
    (parts > 1).then(|| Cut::new(kernel, &c.k, parts))?
}

/// Two kernels at least: products of each piece, and their sum.
pub fn split(split: &mut KernelSequence, part: &Part, cut: &Cut, target: &GpuTarget) {
    let kernel = &part.kernel;
    let Some(c) = &kernel.contraction else { panic!("a contraction's parts without one") };
    let points = kernel.level_points(0);
    let numel = cut.parts() * points;
    let block = split.block(numel * c.dtype.size());
    for piece in &cut.pieces {
        split.add(of_piece(part, c, cut, piece, block), target);
    }
    let mut draft = Draft::new(part, 0);
    draft.keep_levels(0);
    let (_, number) = draft.axis(cut.parts(), 1);
    let affine = number.times(points as i64).plus(&draft.point(0));
    let stores: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let access = Access { affine, ..Access::default() };
    for id in needed(kernel, &stores, |_| false) {
        if *kernel.expr(id) == Expr::Accumulator {
            let dtype = kernel.exprs[id.index()].dtype;
            let x = draft.load(block, c.dtype, numel, access.clone(), Guard::default());
            let sum = draft.builder.expr(Expr::Reduce(Monoid::Sum, x), dtype, 0);
            draft.know(id, sum);
        }
    }
    draft.copy_stores(0);
    split.add(draft.finish(), target);
}

/// The kernel that contracts each part of a piece: parts are a batch axis.
fn of_piece(part: &Part, c: &Contraction, cut: &Cut, piece: &Piece, block: PassBuffer) -> Part {
    let kernel = &part.kernel;
    let mut draft = Draft::new(part, 0);
    let (number, mut batch) = draft.keep_piece(cut, piece);
    let mut list = |axes: &[AxisId]| axes.iter().map(|&axis| draft.keep_at(axis, 0)).collect::<Vec<_>>();
    let (own, m, n) = (list(&c.batch), list(&c.m), list(&c.n));
    batch.extend(own);
    let k = draft.keep_rows(cut, piece, 1);
    let points = kernel.level_points(0);
    let address = number.times(points as i64).plus(&draft.point(0));
    let (a, b) = (draft.copy(c.a), draft.copy(c.b));
    let sum = draft.builder.expr(Expr::Accumulator, c.dtype, 0);
    draft.store(block, sum, 0, address, cut.parts() * points);
    let mut part = draft.finish();
    part.kernel.contraction =
        Some(Contraction { a, b, dtype: c.dtype, precision: c.precision, batch, m, n, k }.into());
    part
}
