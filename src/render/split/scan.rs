//! Scans by parts: each part's result, the running results of the parts, and
//! every part scanned from there.

use crate::base::{DType, Scalar};
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Access, Affine, Expr, ExprId, Guard, Within};
use crate::render::shader::PassBuffer;
use crate::render::split::rewriter::KernelRewriter;
use crate::render::split::{BoundKernel, KernelSequence, PartGroup, SplitPoint};
use crate::render::target::GpuTarget;

/// The blocks that parts share: each part's own result, and that of all
/// parts up to it.
struct ScanScratch {
    own: PassBuffer,
    running: PassBuffer,
}

/// Three kernels at least, the first and the last for each piece.
pub fn split(
    split: &mut KernelSequence,
    part: &BoundKernel,
    scan: ExprId,
    split_point: &SplitPoint,
    target: &GpuTarget,
) {
    let kernel = &part.kernel;
    let Expr::Scan(monoid, x, _) = *kernel.expr(scan) else { panic!("%{} is no scan", scan.0) };
    let of = kernel.exprs[x.index()].dtype.compute();
    let points = kernel.level_points(0);
    let numel = split_point.parts() * points;
    let blocks = ScanScratch { own: split.block(numel * of.size()), running: split.block(numel * of.size()) };
    for group in &split_point.part_groups {
        let mut rewriter = KernelRewriter::new(part, 0);
        let (number, _) = rewriter.keep_group(split_point, group);
        rewriter.keep_levels(0);
        rewriter.keep_rows(split_point, group, 1);
        let x = rewriter.copy(x);
        let value = rewriter.builder.expr(Expr::Reduce(monoid, x), of, 0);
        let address = number.times(points as i64).plus(&rewriter.point(0));
        rewriter.store(blocks.own, value, 0, address, numel);
        split.add(rewriter.finish(), target);
    }
    split.add(running(part, monoid, of, split_point, &blocks), target);
    for group in &split_point.part_groups {
        split.add(again(part, (monoid, scan), split_point, group, &blocks), target);
    }
    if kernel.stores.iter().any(|store| store.level == 0) {
        let mut rewriter = KernelRewriter::new(part, 0);
        rewriter.keep_levels(0);
        rewriter.copy_stores(0);
        split.add(rewriter.finish(), target);
    }
}

/// The kernel that scans what the parts gave.
fn running(
    part: &BoundKernel,
    monoid: Monoid,
    of: DType,
    split_point: &SplitPoint,
    blocks: &ScanScratch,
) -> BoundKernel {
    let points = part.kernel.level_points(0);
    let mut rewriter = KernelRewriter::new(part, 0);
    rewriter.keep_levels(0);
    let (axis, number) = rewriter.axis(split_point.parts(), 1);
    let affine = number.times(points as i64).plus(&rewriter.point(0));
    let access = Access { affine: affine.clone(), ..Access::default() };
    let x = rewriter.load(blocks.own, of, split_point.parts() * points, access, Guard::default());
    let value = rewriter.builder.expr(Expr::Scan(monoid, x, axis), of, 1);
    rewriter.store(blocks.running, value, 1, affine, split_point.parts() * points);
    rewriter.finish()
}

/// The kernel that scans the parts of a piece, from what comes before each.
fn again(
    part: &BoundKernel,
    scan: (Monoid, ExprId),
    split_point: &SplitPoint,
    group: &PartGroup,
    blocks: &ScanScratch,
) -> BoundKernel {
    let (monoid, id) = scan;
    let kernel = &part.kernel;
    let points = kernel.level_points(0);
    let dtype = kernel.exprs[id.index()].dtype;
    let mut rewriter = KernelRewriter::new(part, 0);
    let (number, _) = rewriter.keep_group(split_point, group);
    rewriter.keep_levels(0);
    let rows = rewriter.keep_rows(split_point, group, 1);
    let Expr::Scan(_, x, _) = *kernel.expr(id) else { panic!("%{} is no scan", id.0) };
    let x = rewriter.copy(x);
    let own = rewriter.builder.expr(Expr::Scan(monoid, x, rows[0]), dtype, 1);
    // The first part has nothing before it.
    let before = number.plus(&Affine::constant(-1)).times(points as i64).plus(&rewriter.point(0));
    let later = Within { value: number.clone(), low: 1, high: split_point.parts() as i64 };
    let guard = Guard { within: vec![later], ..Guard::default() };
    let access = Access { affine: before, ..Access::default() };
    let carry = rewriter.load(blocks.running, dtype, split_point.parts() * points, access, guard);
    let joined = combine(&mut rewriter, monoid, carry, own);
    let later = rewriter.inside(number, 1, split_point.parts() as i64);
    let value = rewriter.alu(AluOp::Where, &[later, joined, own]);
    rewriter.know(id, value);
    rewriter.copy_stores(1);
    rewriter.finish()
}

/// Two neighbouring runs' results as one.
fn combine(rewriter: &mut KernelRewriter<'_>, monoid: Monoid, a: ExprId, b: ExprId) -> ExprId {
    match monoid {
        Monoid::Sum => rewriter.alu(AluOp::Add, &[a, b]),
        Monoid::Prod => rewriter.alu(AluOp::Mul, &[a, b]),
        Monoid::Max if rewriter.dtype(a) == DType::Bool => rewriter.alu(AluOp::Or, &[a, b]),
        Monoid::Min if rewriter.dtype(a) == DType::Bool => rewriter.alu(AluOp::And, &[a, b]),
        Monoid::Max => rewriter.alu(AluOp::Max, &[a, b]),
        Monoid::Min => rewriter.alu(AluOp::Min, &[a, b]),
        Monoid::LogSumExp => {
            let most = rewriter.alu(AluOp::Max, &[a, b]);
            let [first, second] = [a, b].map(|x| {
                let gap = rewriter.alu(AluOp::Sub, &[x, most]);
                rewriter.alu(AluOp::Exp, &[gap])
            });
            let sum = rewriter.alu(AluOp::Add, &[first, second]);
            let log = rewriter.alu(AluOp::Log, &[sum]);
            let result = rewriter.alu(AluOp::Add, &[most, log]);
            // An infinite maximum is the result by itself.
            let size = rewriter.alu(AluOp::Abs, &[most]);
            let of = rewriter.dtype(most);
            let infinity = rewriter.builder.constant(Scalar::Float(f64::INFINITY), of);
            let infinite = rewriter.alu(AluOp::Eq, &[size, infinity]);
            rewriter.alu(AluOp::Where, &[infinite, most, result])
        }
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 => panic!("{} does not scan", monoid.name()),
    }
}
