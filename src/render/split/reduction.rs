//! Reductions by parts: what each part gives, and what all give together.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Access, Affine, Dynamic, Expr, ExprId, Guard};
use crate::render::shader::PassBuffer;
use crate::render::split::draft::Draft;
use crate::render::split::{Cut, KernelSequence, Part, Piece, loops};
use crate::render::target::GpuTarget;

/// What one part gives for one reduction.
#[derive(Clone, Copy, Debug)]
struct Partial {
    /// How the elements of a part are combined.
    monoid: Monoid,
    /// Whether they are divided by their number before.
    mean: bool,
    dtype: DType,
}

/// What parts give, so that the reduction follows from it: results of
/// reductions, never inner states.
fn partials(monoid: Monoid, dtype: DType) -> Vec<Partial> {
    let value = Partial { monoid, mean: false, dtype };
    match monoid {
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => vec![value],
        Monoid::ArgMax => {
            vec![Partial { monoid: Monoid::Max, ..value }, Partial { dtype: DType::I32, ..value }]
        }
        Monoid::ArgMin => {
            vec![Partial { monoid: Monoid::Min, ..value }, Partial { dtype: DType::I32, ..value }]
        }
        Monoid::M2 => vec![value, Partial { monoid: Monoid::Sum, mean: true, dtype }],
    }
}

/// Two kernels at least: one for each piece, and the one that combines.
pub fn split(split: &mut KernelSequence, part: &Part, cut: &Cut, target: &GpuTarget) {
    let kernel = &part.kernel;
    let loops = loops(kernel);
    let numel = cut.parts() * kernel.level_points(0);
    let blocks: Vec<Vec<PassBuffer>> = (loops.iter())
        .map(|&id| {
            let (monoid, x) = reduction(part, id);
            let partials = partials(monoid, kernel.exprs[x.index()].dtype);
            partials.iter().map(|partial| split.block(numel * partial.dtype.compute().size())).collect()
        })
        .collect();
    for piece in &cut.pieces {
        let part = of_piece(part, cut, piece, &loops, &blocks);
        split.add(part, target);
    }
    let mut draft = Draft::new(part, 0);
    let parts = Parts::new(&mut draft, cut);
    draft.keep_levels(0);
    for (&id, blocks) in loops.iter().zip(&blocks) {
        let result = parts.combine(&mut draft, part, cut, id, blocks);
        draft.know(id, result);
    }
    draft.copy_stores(0);
    split.add(draft.finish(), target);
}

fn reduction(part: &Part, id: ExprId) -> (Monoid, ExprId) {
    let Expr::Reduce(monoid, x) = part.kernel.expr(id) else { panic!("%{} is no reduction", id.0) };
    (*monoid, *x)
}

/// The kernel that reduces each part of a piece.
fn of_piece(part: &Part, cut: &Cut, piece: &Piece, loops: &[ExprId], blocks: &[Vec<PassBuffer>]) -> Part {
    let mut draft = Draft::new(part, 0);
    let (number, _) = draft.keep_piece(cut, piece);
    draft.keep_levels(0);
    draft.keep_rows(cut, piece, 1);
    let points = part.kernel.level_points(0);
    let address = number.times(points as i64).plus(&draft.point(0));
    for (&id, blocks) in loops.iter().zip(blocks) {
        let (monoid, x) = reduction(part, id);
        let x = draft.copy(x);
        for (partial, &block) in partials(monoid, draft.dtype(x)).iter().zip(blocks) {
            let mut element = x;
            if partial.mean {
                let share = draft.number(1.0 / cut.rows(piece) as f64, partial.dtype.compute());
                element = draft.alu(AluOp::Mul, &[share, x]);
            }
            let reduce = Expr::Reduce(partial.monoid, element);
            let value = draft.builder.expr(reduce, partial.dtype, 0);
            draft.store(block, value, 0, address.clone(), cut.parts() * points);
        }
    }
    draft.finish()
}

/// The parts as rows: one for each position of the outer axes, then the parts
/// of the axis that is cut.
struct Parts {
    /// The part's number.
    number: Affine,
    /// Its number among those of one position of the outer axes.
    own: Affine,
}

impl Parts {
    fn new(draft: &mut Draft<'_>, cut: &Cut) -> Parts {
        let (_, outer) = draft.axis(cut.outer_rows, 1);
        let (_, own) = draft.axis(cut.each(), 1);
        Parts { number: outer.times(cut.each() as i64).plus(&own), own }
    }

    /// What a reduction gives, from what its parts gave.
    fn combine(
        &self,
        draft: &mut Draft<'_>,
        part: &Part,
        cut: &Cut,
        id: ExprId,
        blocks: &[PassBuffer],
    ) -> ExprId {
        let (monoid, x) = reduction(part, id);
        let points = part.kernel.level_points(0);
        let (x, dtype) = (part.kernel.exprs[x.index()].dtype, part.kernel.exprs[id.index()].dtype);
        let affine = self.number.times(points as i64).plus(&draft.point(0));
        let access = Access { affine, ..Access::default() };
        let first = draft.load(blocks[0], x, cut.parts() * points, access.clone(), Guard::default());
        match monoid {
            Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => {
                draft.builder.expr(Expr::Reduce(monoid, first), dtype, 0)
            }
            Monoid::ArgMax | Monoid::ArgMin => {
                let best = draft.builder.expr(Expr::Reduce(monoid, first), DType::I32, 0);
                let part =
                    Dynamic { index: best, stride: points as i64, extent: cut.parts(), checked: false };
                let access = Access { affine: draft.point(0), dynamic: vec![part], ..Access::default() };
                let inside =
                    draft.load(blocks[1], DType::I32, cut.parts() * points, access, Guard::default());
                let start = first_row(draft, cut, best);
                let place = draft.alu(AluOp::Add, &[start, inside]);
                if dtype == DType::I32 { place } else { draft.builder.expr(Expr::Cast(place), dtype, 0) }
            }
            Monoid::M2 => {
                let mean = draft.load(blocks[1], x, cut.parts() * points, access, Guard::default());
                self.moments(draft, cut, first, mean, dtype)
            }
        }
    }

    /// The squares of all parts: their own, and those of their means' gaps to
    /// the mean of all (Chan, Golub and LeVeque 1983).
    fn moments(
        &self,
        draft: &mut Draft<'_>,
        cut: &Cut,
        squares: ExprId,
        mean: ExprId,
        dtype: DType,
    ) -> ExprId {
        let of = dtype.compute();
        let rows = |piece: &Piece| cut.rows(piece) as f64;
        let all: f64 = cut.pieces.iter().map(|piece| rows(piece) * piece.count as f64).sum();
        let all = all * cut.outer_rows as f64;
        let mut count = draft.number(rows(&cut.pieces[0]), of);
        let mut share = draft.number(rows(&cut.pieces[0]) / all, of);
        if let Some(last) = cut.pieces.get(1) {
            let main = draft.inside(self.own.clone(), 0, last.first as i64);
            let (short, less) = (draft.number(rows(last), of), draft.number(rows(last) / all, of));
            count = draft.alu(AluOp::Where, &[main, count, short]);
            share = draft.alu(AluOp::Where, &[main, share, less]);
        }
        let weighted = draft.alu(AluOp::Mul, &[mean, share]);
        let total = draft.builder.expr(Expr::Reduce(Monoid::Sum, weighted), of, 0);
        let gap = draft.alu(AluOp::Sub, &[mean, total]);
        let square = draft.alu(AluOp::Mul, &[gap, gap]);
        let between = draft.alu(AluOp::Mul, &[square, count]);
        let both = draft.alu(AluOp::Add, &[squares, between]);
        draft.builder.expr(Expr::Reduce(Monoid::Sum, both), dtype, 0)
    }
}

/// The number of a part's first row; rows are numbered in 32 bits.
fn first_row(draft: &mut Draft<'_>, cut: &Cut, part: ExprId) -> ExprId {
    let int =
        |draft: &mut Draft<'_>, value: usize| draft.builder.constant(Scalar::Int(value as i64), DType::I32);
    let each = int(draft, cut.each());
    let length = int(draft, cut.rows(&cut.pieces[0]));
    if cut.outer_rows == 1 {
        return draft.alu(AluOp::Mul, &[part, length]);
    }
    let outer = draft.alu(AluOp::Div, &[part, each]);
    let own = draft.alu(AluOp::Rem, &[part, each]);
    let whole: usize = cut.pieces.iter().map(|piece| cut.rows(piece) * piece.count).sum();
    let whole = int(draft, whole);
    let before = draft.alu(AluOp::Mul, &[outer, whole]);
    let own = draft.alu(AluOp::Mul, &[own, length]);
    draft.alu(AluOp::Add, &[before, own])
}
