//! Contractions some of whose operands are computed before, once, and stored.

use crate::base::DType;
use crate::kernel::{AxisId, Contraction, Expr, ExprId};
use crate::render::shader::PassBuffer;
use crate::render::split::rewriter::KernelRewriter;
use crate::render::split::{BoundKernel, KernelSequence};
use crate::render::target::GpuTarget;

/// An operand that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaterializedOperand {
    /// The operand, or what it widens.
    pub value: ExprId,
    /// The axes along which it varies, in the order of its memory.
    pub axes: Vec<AxisId>,
    /// The type that it has there.
    pub dtype: DType,
}

impl MaterializedOperand {
    fn numel(&self, part: &BoundKernel) -> usize {
        part.kernel.points_of(&self.axes)
    }
}

/// Adds the kernels that store operands of a part's contraction, and gives the part that
/// reads them.
pub fn split(
    split: &mut KernelSequence,
    part: &BoundKernel,
    c: &Contraction,
    stored: &[MaterializedOperand],
    target: &GpuTarget,
) -> BoundKernel {
    let kernel = &part.kernel;
    let blocks: Vec<PassBuffer> =
        stored.iter().map(|own| split.block(own.numel(part) * own.dtype.size())).collect();
    for (own, &block) in stored.iter().zip(&blocks) {
        split.add(computed(part, own, block), target);
    }
    let mut rewriter = KernelRewriter::new(part, 0);
    let mut list =
        |axes: &[AxisId], level| axes.iter().map(|&axis| rewriter.keep_at(axis, level)).collect::<Vec<_>>();
    let (batch, m, n, k) = (list(&c.batch, 0), list(&c.m, 0), list(&c.n, 0), list(&c.k, 1));
    for (own, &block) in stored.iter().zip(&blocks) {
        let address = rewriter.linear(&own.axes);
        let load = rewriter.load_as(own.dtype, block, own.numel(part), address);
        let dtype = kernel.exprs[own.value.index()].dtype;
        let value = if dtype == own.dtype { load } else { rewriter.builder.expr(Expr::Cast(load), dtype, 0) };
        rewriter.know(own.value, value);
    }
    let (a, b) = (rewriter.copy(c.a), rewriter.copy(c.b));
    rewriter.copy_stores(0);
    let mut part = rewriter.finish();
    part.kernel.root = Contraction { a, b, dtype: c.dtype, precision: c.precision, batch, m, n, k }.into();
    part
}

/// The kernel that stores an operand.
fn computed(part: &BoundKernel, own: &MaterializedOperand, block: PassBuffer) -> BoundKernel {
    let mut rewriter = KernelRewriter::new(part, 1);
    own.axes.iter().for_each(|&axis| _ = rewriter.keep_at(axis, 0));
    let value = rewriter.copy(own.value);
    let address = rewriter.linear(&own.axes);
    rewriter.store_as(own.dtype, block, value, address, own.numel(part));
    rewriter.finish()
}
