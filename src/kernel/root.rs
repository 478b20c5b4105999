//! What a kernel computes at its root.

use crate::base::CowArc;
use crate::kernel::{Contraction, ExprId, FusedAttention, Kernel, ScatterStore};

/// What a kernel computes, beside the expressions of its operands and its stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelRoot {
    /// Expressions at each point, with reductions and scans along its rows.
    #[default]
    Elementwise,
    /// A sum of products, which the stores see as [`Expr::Accumulator`](crate::kernel::Expr::Accumulator).
    Contraction(CowArc<Contraction>),
    /// Attention or a part of its gradient, which the stores see so too.
    Attention(CowArc<FusedAttention>),
    /// Updates of the buffer that is the kernel's one output; there are no stores.
    Scatter(CowArc<ScatterStore>),
}

impl From<Contraction> for KernelRoot {
    fn from(contraction: Contraction) -> KernelRoot {
        KernelRoot::Contraction(contraction.into())
    }
}

impl From<FusedAttention> for KernelRoot {
    fn from(attention: FusedAttention) -> KernelRoot {
        KernelRoot::Attention(attention.into())
    }
}

impl From<ScatterStore> for KernelRoot {
    fn from(scatter: ScatterStore) -> KernelRoot {
        KernelRoot::Scatter(scatter.into())
    }
}

impl KernelRoot {
    /// The values that it takes.
    pub fn operands(&self) -> Vec<ExprId> {
        match self {
            KernelRoot::Elementwise => Vec::new(),
            KernelRoot::Contraction(c) => vec![c.a, c.b],
            KernelRoot::Attention(attention) => attention.operands().collect(),
            KernelRoot::Scatter(scatter) => vec![scatter.index, scatter.value],
        }
    }
}

impl Kernel {
    /// Whether it is nothing but expressions at points and along rows.
    pub fn is_elementwise(&self) -> bool {
        matches!(self.root, KernelRoot::Elementwise)
    }

    /// The contraction, if it is one.
    pub fn contraction(&self) -> Option<&Contraction> {
        match &self.root {
            KernelRoot::Contraction(contraction) => Some(contraction),
            KernelRoot::Elementwise | KernelRoot::Attention(_) | KernelRoot::Scatter(_) => None,
        }
    }

    /// The same, to be changed.
    #[cfg(test)]
    pub fn contraction_mut(&mut self) -> Option<&mut Contraction> {
        match &mut self.root {
            KernelRoot::Contraction(contraction) => Some(contraction),
            KernelRoot::Elementwise | KernelRoot::Attention(_) | KernelRoot::Scatter(_) => None,
        }
    }

    /// The attention, if it is one.
    pub fn attention(&self) -> Option<&FusedAttention> {
        match &self.root {
            KernelRoot::Attention(attention) => Some(attention),
            KernelRoot::Elementwise | KernelRoot::Contraction(_) | KernelRoot::Scatter(_) => None,
        }
    }

    /// The scatter, if it is one.
    pub fn scatter(&self) -> Option<&ScatterStore> {
        match &self.root {
            KernelRoot::Scatter(scatter) => Some(scatter),
            KernelRoot::Elementwise | KernelRoot::Contraction(_) | KernelRoot::Attention(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn scatter_mut(&mut self) -> Option<&mut ScatterStore> {
        match &mut self.root {
            KernelRoot::Scatter(scatter) => Some(scatter),
            KernelRoot::Elementwise | KernelRoot::Contraction(_) | KernelRoot::Attention(_) => None,
        }
    }
}
