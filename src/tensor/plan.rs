//! Looking at what would run.

use std::sync::Arc;

use crate::base::{Result, Span};
use crate::ir::Node;
use crate::plan::budget::{Budget, with_budget};
use crate::plan::report::{FusionBlocker, PlanReport, report};
use crate::tensor::Tensor;

/// What computing several tensors together would do: kernels, bytes, memory.
///
/// Nothing runs, nothing is compiled; meta tensors and devices that are not there are planned for
/// as well.
///
/// # Errors
/// The error recorded in any of them; within [`crate::with_budget`], that the
/// plan needs more.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::empty([1024], Device::meta());
/// let (y, z) = (x.exp(), x.exp() + 1.0);
/// assert_eq!(kiln::plan(&[&y, &z])?.kernels.len(), 1);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn plan(tensors: &[&Tensor]) -> Result<PlanReport> {
    plan_at(tensors, Span::caller())
}

fn plan_at(tensors: &[&Tensor], span: Span) -> Result<PlanReport> {
    let nodes: Vec<Arc<Node>> = tensors.iter().map(|t| t.node().cloned()).collect::<Result<_>>()?;
    report(&nodes, span)
}

/// What computing several tensors together within a budget would do.
///
/// Realizing them under [`crate::with_budget`] of the same does it.
///
/// # Errors
/// The error recorded in any of them; [`crate::Error::OverBudget`], with what
/// is in the way and the least budget that would do.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::{Budget, plan_with};
/// let x = Tensor::zeros([1024], ()) + 1.0;
/// assert!(plan_with(&[&x], Budget::bytes(4096)).is_ok());
/// assert!(plan_with(&[&x], Budget::bytes(16)).is_err());
/// ```
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
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::empty([1024], Device::meta());
    /// assert_eq!(x.softmax(0).plan()?.kernels.len(), 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn plan(&self) -> Result<PlanReport> {
        plan_at(&[self], Span::caller())
    }

    /// What computing this tensor within a budget would do; see [`plan_with`].
    ///
    /// # Errors
    /// As [`plan_with`].
    ///
    /// # Examples
    /// ```
    /// use kiln::Budget;
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([1024], ()) + 1.0;
    /// assert!(x.plan_with(Budget::bytes(1 << 20)).is_ok());
    /// ```
    #[track_caller]
    pub fn plan_with(&self, budget: Budget) -> Result<PlanReport> {
        plan_with(&[self], budget)
    }
}

impl PlanReport {
    /// Why two tensors of the plan are not computed by one kernel; `None` if they are.
    ///
    /// # Errors
    /// The error recorded in either.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::empty([64, 64], Device::meta());
    /// let y = x.exp();
    /// let z = &y + 1.0;
    /// assert!(z.plan()?.why_not_fused(&y, &z)?.is_none());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn why_not_fused(&self, a: &Tensor, b: &Tensor) -> Result<Option<FusionBlocker>> {
        Ok(self.fusion_blocker(a.node()?, b.node()?))
    }
}
