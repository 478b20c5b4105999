//! Contractions some of whose operands are computed before, once, and stored.

use crate::base::DType;
use crate::kernel::{AxisId, Contraction, Expr, ExprId};
use crate::render::shader::PassBuffer;
use crate::render::split::draft::Draft;
use crate::render::split::{KernelSequence, Part};
use crate::render::target::GpuTarget;

/// An operand that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The operand, or what it widens.
    pub value: ExprId,
    /// The axes along which it varies, in the order of its memory.
    pub axes: Vec<AxisId>,
    /// The type that it has there.
    pub dtype: DType,
}

impl Stored {
    fn numel(&self, part: &Part) -> usize {
        part.kernel.points_of(&self.axes)
    }
}

/// Adds the kernels that store operands of a part's contraction, and gives the part that
/// reads them.
pub fn split(split: &mut KernelSequence, part: &Part, stored: &[Stored], target: &GpuTarget) -> Part {
    let kernel = &part.kernel;
    let Some(c) = &kernel.contraction else { panic!("operands without a contraction") };
    let blocks: Vec<PassBuffer> =
        stored.iter().map(|own| split.block(own.numel(part) * own.dtype.size())).collect();
    for (own, &block) in stored.iter().zip(&blocks) {
        split.add(computed(part, own, block), target);
    }
    let mut draft = Draft::new(part, 0);
    let mut list =
        |axes: &[AxisId], level| axes.iter().map(|&axis| draft.keep_at(axis, level)).collect::<Vec<_>>();
    let (batch, m, n, k) = (list(&c.batch, 0), list(&c.m, 0), list(&c.n, 0), list(&c.k, 1));
    for (own, &block) in stored.iter().zip(&blocks) {
        let address = draft.linear(&own.axes);
        let load = draft.load_as(own.dtype, block, own.numel(part), address);
        let dtype = kernel.exprs[own.value.index()].dtype;
        let value = if dtype == own.dtype { load } else { draft.builder.expr(Expr::Cast(load), dtype, 0) };
        draft.know(own.value, value);
    }
    let (a, b) = (draft.copy(c.a), draft.copy(c.b));
    draft.copy_stores(0);
    let mut part = draft.finish();
    part.kernel.contraction =
        Some(Contraction { a, b, dtype: c.dtype, precision: c.precision, batch, m, n, k }.into());
    part
}

/// The kernel that stores an operand.
fn computed(part: &Part, own: &Stored, block: PassBuffer) -> Part {
    let mut draft = Draft::new(part, 1);
    own.axes.iter().for_each(|&axis| _ = draft.keep_at(axis, 0));
    let value = draft.copy(own.value);
    let address = draft.linear(&own.axes);
    draft.store_as(own.dtype, block, value, address, own.numel(part));
    draft.finish()
}
