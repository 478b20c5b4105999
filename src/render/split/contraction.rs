//! Contractions by parts of the contracted axis (split-K).

use crate::ir::Monoid;
use crate::kernel::{Access, AxisId, Contraction, Expr, ExprId, Guard, Kernel};
use crate::render::iterations;
use crate::render::shader::PassBuffer;
use crate::render::split::rewriter::{KernelRewriter, needed};
use crate::render::split::{BoundKernel, KernelSequence, PartGroup, SplitPoint, parts_to_fill_device};
use crate::render::target::GpuTarget;
use crate::render::thresholds::MAX_PRODUCT_ELEMENTS_PER_STEP;

/// How the contracted axes are cut, if they should be.
pub fn split_point(kernel: &Kernel, c: &Contraction, target: &GpuTarget) -> Option<SplitPoint> {
    let (points, rows) = (kernel.level_points(0), kernel.level_points(1));
    let most = target.max_iterations / iterations::of_body(kernel, 1, MAX_PRODUCT_ELEMENTS_PER_STEP);
    let parts = parts_to_fill_device(points, rows, target).unwrap_or(1);
    let parts = match rows as u64 > most {
        true => parts.max(rows.div_ceil((most as usize / 2).max(1))),
        false => parts,
    };
    (parts > 1).then(|| SplitPoint::new(kernel, &c.k, parts))?
}

/// Two kernels at least: products of each piece, and their sum.
pub fn split(
    split: &mut KernelSequence,
    part: &BoundKernel,
    c: &Contraction,
    split_point: &SplitPoint,
    target: &GpuTarget,
) {
    let kernel = &part.kernel;
    let points = kernel.level_points(0);
    let numel = split_point.parts() * points;
    let block = split.block(numel * c.dtype.size());
    for group in &split_point.part_groups {
        split.add(of_group(part, c, split_point, group, block), target);
    }
    let mut rewriter = KernelRewriter::new(part, 0);
    rewriter.keep_levels(0);
    let (_, number) = rewriter.axis(split_point.parts(), 1);
    let affine = number.times(points as i64).plus(&rewriter.point(0));
    let stores: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    let access = Access { affine, ..Access::default() };
    for id in needed(kernel, &stores, |_| false) {
        if *kernel.expr(id) == Expr::Accumulator {
            let dtype = kernel.exprs[id.index()].dtype;
            let x = rewriter.load(block, c.dtype, numel, access.clone(), Guard::default());
            let sum = rewriter.builder.expr(Expr::Reduce(Monoid::Sum, x), dtype, 0);
            rewriter.know(id, sum);
        }
    }
    rewriter.copy_stores(0);
    split.add(rewriter.finish(), target);
}

/// The kernel that contracts each part of a piece: parts are a batch axis.
fn of_group(
    part: &BoundKernel,
    c: &Contraction,
    split_point: &SplitPoint,
    group: &PartGroup,
    block: PassBuffer,
) -> BoundKernel {
    let kernel = &part.kernel;
    let mut rewriter = KernelRewriter::new(part, 0);
    let (number, mut batch) = rewriter.keep_group(split_point, group);
    let mut list = |axes: &[AxisId]| axes.iter().map(|&axis| rewriter.keep_at(axis, 0)).collect::<Vec<_>>();
    let (own, m, n) = (list(&c.batch), list(&c.m), list(&c.n));
    batch.extend(own);
    let k = rewriter.keep_rows(split_point, group, 1);
    let points = kernel.level_points(0);
    let address = number.times(points as i64).plus(&rewriter.point(0));
    let (a, b) = (rewriter.copy(c.a), rewriter.copy(c.b));
    let sum = rewriter.builder.expr(Expr::Accumulator, c.dtype, 0);
    rewriter.store(block, sum, 0, address, split_point.parts() * points);
    let mut part = rewriter.finish();
    part.kernel.root = Contraction { a, b, dtype: c.dtype, precision: c.precision, batch, m, n, k }.into();
    part
}
