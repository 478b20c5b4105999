//! Models of which each rank has a part: which of these ranks logs, and what they agree on.

use std::sync::Arc;

use crate::base::{Device, Result};
use crate::ir::collective::{Channel, CollectiveKind, Reduce};
use crate::nn::Param;
use crate::tensor::Tensor;
use crate::tensor::collective::collective;
use crate::tensor::compose::CallSite;

/// The ranks that divide a model; none where it is whole.
#[derive(Clone)]
pub(super) struct Sharers(Option<Arc<dyn Channel>>);

impl Sharers {
    /// Those that divide the first of the parameters that is divided.
    pub fn of(params: &[Param]) -> Sharers {
        Sharers(params.iter().find_map(|param| param.cell().sharers().cloned()))
    }

    /// Whether this rank has the first part, or all.
    pub fn is_first(&self) -> bool {
        self.0.as_ref().is_none_or(|ranks| ranks.rank() == 0)
    }

    /// What the names of this part's files end with.
    #[cfg(feature = "safetensors")]
    pub fn suffix(&self) -> String {
        let suffix = |ranks: &Arc<dyn Channel>| format!("-part-{}-of-{}", ranks.rank(), ranks.size());
        self.0.as_ref().map(suffix).unwrap_or_default()
    }

    /// What the ranks have together of a number each; this one's where the model is whole. All of them call it.
    ///
    /// # Errors
    /// [`crate::Error::Collective`].
    #[track_caller]
    pub fn all_reduce(&self, reduce: Reduce, own: i64) -> Result<i64> {
        let Some(ranks) = &self.0 else { return Ok(own) };
        let (site, kind) = (CallSite::here("fit"), CollectiveKind::AllReduce(reduce));
        collective(site, kind, ranks, &Tensor::full((), own, Device::cpu())).item()
    }
}
