//! Looking at what would run.

use std::sync::Arc;

use crate::base::Result;
use crate::ir::Node;
use crate::plan::report::{PlanReport, Separation, report};
use crate::tensor::Tensor;

/// What computing several tensors together would do: kernels, bytes, memory.
/// Nothing runs, nothing is compiled; meta tensors and devices that are not
/// there are planned for as well.
///
/// # Errors
/// The mistake recorded in any of them.
pub fn plan(tensors: &[&Tensor]) -> Result<PlanReport> {
    let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
    Ok(report(&nodes))
}

impl Tensor {
    /// What computing this tensor would do; see [`plan`].
    ///
    /// # Errors
    /// The recorded mistake.
    pub fn plan(&self) -> Result<PlanReport> {
        Ok(report(std::slice::from_ref(self.node()?)))
    }
}

impl PlanReport {
    /// Why two tensors of the plan are not computed by one kernel; `None` if
    /// they are.
    ///
    /// # Errors
    /// The mistake recorded in either.
    pub fn why_not_fused(&self, a: &Tensor, b: &Tensor) -> Result<Option<Separation>> {
        Ok(self.separation(a.node()?, b.node()?))
    }
}
