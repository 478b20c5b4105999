//! Scans by parts: each part's result, the running results of the parts, and
//! every part scanned from there.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Access, Affine, Expr, ExprId, Guard, Within};
use crate::render::shader::PassBuffer;
use crate::render::split::draft::Draft;
use crate::render::split::{Cut, KernelSequence, Part, Piece};
use crate::render::target::GpuTarget;

/// The blocks that parts share: each part's own result, and that of all
/// parts up to it.
struct Blocks {
    own: PassBuffer,
    running: PassBuffer,
}

/// Three kernels at least, the first and the last for each piece.
pub fn split(split: &mut KernelSequence, part: &Part, scan: ExprId, cut: &Cut, target: &GpuTarget) {
    let kernel = &part.kernel;
    let Expr::Scan(monoid, x, _) = *kernel.expr(scan) else { panic!("%{} is no scan", scan.0) };
    let of = kernel.exprs[x.index()].dtype.compute();
    let points = kernel.level_points(0);
    let numel = cut.parts() * points;
    let blocks = Blocks { own: split.block(numel * of.size()), running: split.block(numel * of.size()) };
    for piece in &cut.pieces {
        let mut draft = Draft::new(part, 0);
        let (number, _) = draft.keep_piece(cut, piece);
        draft.keep_levels(0);
        draft.keep_rows(cut, piece, 1);
        let x = draft.copy(x);
        let value = draft.builder.expr(Expr::Reduce(monoid, x), of, 0);
        let address = number.times(points as i64).plus(&draft.point(0));
        draft.store(blocks.own, value, 0, address, numel);
        split.add(draft.finish(), target);
    }
    split.add(running(part, monoid, of, cut, &blocks), target);
    for piece in &cut.pieces {
        split.add(again(part, (monoid, scan), cut, piece, &blocks), target);
    }
    if kernel.stores.iter().any(|store| store.level == 0) {
        let mut draft = Draft::new(part, 0);
        draft.keep_levels(0);
        draft.copy_stores(0);
        split.add(draft.finish(), target);
    }
}

/// The kernel that scans what the parts gave.
fn running(part: &Part, monoid: Monoid, of: DType, cut: &Cut, blocks: &Blocks) -> Part {
    let points = part.kernel.level_points(0);
    let mut draft = Draft::new(part, 0);
    draft.keep_levels(0);
    let (axis, number) = draft.axis(cut.parts(), 1);
    let affine = number.times(points as i64).plus(&draft.point(0));
    let access = Access { affine: affine.clone(), ..Access::default() };
    let x = draft.load(blocks.own, of, cut.parts() * points, access, Guard::default());
    let value = draft.builder.expr(Expr::Scan(monoid, x, axis), of, 1);
    draft.store(blocks.running, value, 1, affine, cut.parts() * points);
    draft.finish()
}

/// The kernel that scans the parts of a piece, from what comes before each.
fn again(part: &Part, scan: (Monoid, ExprId), cut: &Cut, piece: &Piece, blocks: &Blocks) -> Part {
    let (monoid, id) = scan;
    let kernel = &part.kernel;
    let points = kernel.level_points(0);
    let dtype = kernel.exprs[id.index()].dtype;
    let mut draft = Draft::new(part, 0);
    let (number, _) = draft.keep_piece(cut, piece);
    draft.keep_levels(0);
    let rows = draft.keep_rows(cut, piece, 1);
    let Expr::Scan(_, x, _) = *kernel.expr(id) else { panic!("%{} is no scan", id.0) };
    let x = draft.copy(x);
    let own = draft.builder.expr(Expr::Scan(monoid, x, rows[0]), dtype, 1);
    // The first part has nothing before it.
    let before = number.plus(&Affine::constant(-1)).times(points as i64).plus(&draft.point(0));
    let later = Within { value: number.clone(), low: 1, high: cut.parts() as i64 };
    let guard = Guard { within: vec![later], ..Guard::default() };
    let access = Access { affine: before, ..Access::default() };
    let carry = draft.load(blocks.running, dtype, cut.parts() * points, access, guard);
    let joined = combine(&mut draft, monoid, carry, own);
    let later = draft.inside(number, 1, cut.parts() as i64);
    let value = draft.alu(AluOp::Where, &[later, joined, own]);
    draft.know(id, value);
    draft.copy_stores(1);
    draft.finish()
}

/// Two neighbouring runs' results as one.
fn combine(draft: &mut Draft<'_>, monoid: Monoid, a: ExprId, b: ExprId) -> ExprId {
    match monoid {
        Monoid::Sum => draft.alu(AluOp::Add, &[a, b]),
        Monoid::Prod => draft.alu(AluOp::Mul, &[a, b]),
        Monoid::Max if draft.dtype(a) == DType::Bool => draft.alu(AluOp::Or, &[a, b]),
        Monoid::Min if draft.dtype(a) == DType::Bool => draft.alu(AluOp::And, &[a, b]),
        Monoid::Max => draft.alu(AluOp::Max, &[a, b]),
        Monoid::Min => draft.alu(AluOp::Min, &[a, b]),
        Monoid::LogSumExp => {
            let most = draft.alu(AluOp::Max, &[a, b]);
            let [first, second] = [a, b].map(|x| {
                let gap = draft.alu(AluOp::Sub, &[x, most]);
                draft.alu(AluOp::Exp, &[gap])
            });
            let sum = draft.alu(AluOp::Add, &[first, second]);
            let log = draft.alu(AluOp::Log, &[sum]);
            let result = draft.alu(AluOp::Add, &[most, log]);
            // An infinite maximum is the result by itself.
            let size = draft.alu(AluOp::Abs, &[most]);
            let of = draft.dtype(most);
            let infinity = draft.builder.constant(Scalar::Float(f64::INFINITY), of);
            let infinite = draft.alu(AluOp::Eq, &[size, infinity]);
            draft.alu(AluOp::Where, &[infinite, most, result])
        }
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 => panic!("{} does not scan", monoid.name()),
    }
}
