//! Parameters that ranks divide, as what looks at all gradients sees them.

use std::sync::Arc;

use crate::ir::collective::{Channel, CollectiveKind, Reduce};
use crate::nn::Param;
use crate::tensor::Tensor;
use crate::tensor::collective::collective;
use crate::tensor::compose::CallSite;

/// Ranks that divide some parameters.
pub(super) struct Division<'a> {
    sharers: &'a Arc<dyn Channel>,
    /// The first of the parameters.
    first: &'a Param,
}

impl<'a> Division<'a> {
    /// Those of parameters that may have gradients, each once. Whether there are gradients may differ between ranks,
    /// what they do together may not.
    pub fn all(params: &'a [Param]) -> Vec<Division<'a>> {
        let mut found: Vec<Division<'a>> = Vec::new();
        let may_have = |param: &&Param| param.requires_grad() || param.grad_in_memory().is_some();
        for first in params.iter().filter(may_have) {
            if let Some(sharers) = first.cell().sharers()
                && !found.iter().any(|known| known.is_of(first))
            {
                found.push(Division { sharers, first });
            }
        }
        found
    }

    /// Whether they divide this one.
    pub fn is_of(&self, param: &Param) -> bool {
        self.first.cell().division() == param.cell().division()
    }

    /// What all of them have together, of a number of each; of a rank without gradients, 0.
    pub fn all_reduce(&self, site: CallSite, reduce: Reduce, own: Option<Tensor>) -> Tensor {
        let none = || Tensor::zeros((), (self.first.device(), self.first.dtype()));
        collective(site, CollectiveKind::AllReduce(reduce), self.sharers, &own.unwrap_or_else(none))
    }
}
