//! Looking at what would run.

use std::sync::Arc;

use crate::base::Result;
use crate::ir::Node;
use crate::plan::budget::{Budget, with_budget};
use crate::plan::report::{PlanReport, Separation, report};
use crate::tensor::Tensor;

/// What computing several tensors together would do: kernels, bytes, memory.
/// Nothing runs, nothing is compiled; meta tensors and devices that are not
/// there are planned for as well.
///
/// # Errors
/// The mistake recorded in any of them; within [`crate::with_budget`], that the
/// plan needs more.
pub fn plan(tensors: &[&Tensor]) -> Result<PlanReport> {
    let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
    report(&nodes)
}

/// What computing several tensors together within a budget would do; realizing
/// them under [`crate::with_budget`] of the same does it.
///
/// # Errors
/// The mistake recorded in any of them; [`crate::Error::OverBudget`], with what
/// is in the way and the least budget that would do.
pub fn plan_with(tensors: &[&Tensor], budget: Budget) -> Result<PlanReport> {
    with_budget(budget, || plan(tensors))
}

impl Tensor {
    /// What computing this tensor would do; see [`plan`].
    ///
    /// # Errors
    /// As [`plan`].
    pub fn plan(&self) -> Result<PlanReport> {
        report(std::slice::from_ref(self.node()?))
    }

    /// What computing this tensor within a budget would do; see [`plan_with`].
    ///
    /// # Errors
    /// As [`plan_with`].
    pub fn plan_with(&self, budget: Budget) -> Result<PlanReport> {
        with_budget(budget, || self.plan())
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
