//! Interning (hash-consing) of the parts of kernels that are kept.

use crate::base::Interner;
use crate::kernel::affine::Affine;
use crate::kernel::expr::{Access, BoundsCheck, Expr, Guard, Within};
use crate::kernel::nest::{
    Contraction, FusedAttention, Kernel, KernelInput, KernelStore, LoopAxis, ScatterStore,
};
use crate::kernel::root::KernelRoot;

/// Stores equal parts of a plan's kernels once: kernels that differ mostly do so in a
/// number or a position.
#[derive(Debug, Default)]
pub struct KernelInterner {
    names: Interner<String>,
    axes: Interner<Vec<LoopAxis>>,
    inputs: Interner<Vec<KernelInput>>,
    stores: Interner<Vec<KernelStore>>,
    contractions: Interner<Contraction>,
    attentions: Interner<FusedAttention>,
    scatters: Interner<ScatterStore>,
    indices: Interner<Affine>,
    conditions: Interner<Within>,
    accesses: Interner<Access>,
    guards: Interner<Guard>,
    bounds: Interner<BoundsCheck>,
}

impl KernelInterner {
    /// Makes a kernel refer to the interned copy of each of its parts, and frees memory that it
    /// does not use.
    pub fn intern(&mut self, kernel: &mut Kernel) {
        kernel.name.shrink_to_fit();
        kernel.axes.shrink_to_fit();
        kernel.inputs.shrink_to_fit();
        kernel.stores.shrink_to_fit();
        self.names.share(&mut kernel.name);
        self.axes.share(&mut kernel.axes);
        self.inputs.share(&mut kernel.inputs);
        self.stores.share(&mut kernel.stores);
        match &mut kernel.root {
            KernelRoot::Elementwise => {}
            KernelRoot::Contraction(contraction) => self.contractions.share(contraction),
            KernelRoot::Attention(attention) => self.attentions.share(attention),
            KernelRoot::Scatter(scatter) => self.scatters.share(scatter),
        }
        kernel.exprs.shrink_to_fit();
        kernel.exprs.iter_mut().for_each(|node| self.intern_positions(&mut node.expr));
    }

    fn intern_positions(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Index(affine) => self.indices.share(affine),
            Expr::Inside(within) => self.conditions.share(within),
            Expr::Load(_, access) => {
                self.guards.share(&mut access.guard);
                self.accesses.share(access);
            }
            Expr::Checked(_, bounded) => self.bounds.share(bounded),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Scan(..)
            | Expr::Accumulator => {}
        }
    }
}
