//! Looking at what would run.

use std::sync::Arc;

use crate::base::{Result, Span};
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
#[track_caller]
pub fn plan(tensors: &[&Tensor]) -> Result<PlanReport> {
    plan_at(tensors, Span::caller())
}

fn plan_at(tensors: &[&Tensor], span: Span) -> Result<PlanReport> {
    let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
    report(&nodes, span)
}

/// What computing several tensors together within a budget would do; realizing
/// them under [`crate::with_budget`] of the same does it.
///
/// # Errors
/// The mistake recorded in any of them; [`crate::Error::OverBudget`], with what
/// is in the way and the least budget that would do.
#[track_caller]
pub fn plan_with(tensors: &[&Tensor], budget: Budget) -> Result<PlanReport> {
    let span = Span::caller();
    with_budget(budget, || plan_at(tensors, span))
}

impl Tensor {
    /// What computing this tensor would do; see [`plan`].
    ///
    /// # Errors
    /// As [`plan`].
    #[track_caller]
    pub fn plan(&self) -> Result<PlanReport> {
        plan_at(&[self], Span::caller())
    }

    /// What computing this tensor within a budget would do; see [`plan_with`].
    ///
    /// # Errors
    /// As [`plan_with`].
    #[track_caller]
    pub fn plan_with(&self, budget: Budget) -> Result<PlanReport> {
        plan_with(&[self], budget)
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
