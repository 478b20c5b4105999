//! Assertions on plans, for users' tests: fusion that a test holds on to
//! cannot be lost unseen. Each takes a tensor, several (`[&a, &b]`) or a
//! [`PlanReport`], and prints the plan when it fails. Nothing runs.

use std::path::Path;

use crate::base::Result;
use crate::plan::report::PlanReport;
use crate::tensor::plan::plan;
use crate::tensor::{Tensor, var::Var};

/// What can be planned. Implementation detail of the assertions.
#[doc(hidden)]
pub trait Planned {
    /// The plan.
    ///
    /// # Errors
    /// The error recorded in a tensor.
    fn planned(&self) -> Result<PlanReport>;
}

impl Planned for Tensor {
    fn planned(&self) -> Result<PlanReport> {
        self.plan()
    }
}
impl Planned for Var {
    fn planned(&self) -> Result<PlanReport> {
        self.get().plan()
    }
}
impl Planned for PlanReport {
    fn planned(&self) -> Result<PlanReport> {
        Ok(self.clone())
    }
}
impl Planned for [&Tensor] {
    fn planned(&self) -> Result<PlanReport> {
        plan(self)
    }
}
impl<const N: usize> Planned for [&Tensor; N] {
    fn planned(&self) -> Result<PlanReport> {
        plan(self)
    }
}
impl<T: Planned + ?Sized> Planned for &T {
    fn planned(&self) -> Result<PlanReport> {
        (**self).planned()
    }
}

/// The plan, for an assertion that an error in the graph fails too.
#[doc(hidden)]
#[track_caller]
pub fn planned(what: &(impl Planned + ?Sized)) -> PlanReport {
    what.planned().unwrap_or_else(|error| panic!("there is no plan: {error}"))
}

/// Asserts how many kernels a plan has: `assert_kernels!(y, 1)`. The kernels
/// of a repetition count once.
#[macro_export]
macro_rules! assert_kernels {
    ($what:expr, $n:expr $(,)?) => {{
        let plan = $crate::assert::planned(&$what);
        let (found, expected): (usize, usize) = (plan.kernels.len(), $n);
        assert!(found == expected, "expected {expected} kernels, found {found}\n{plan}");
    }};
}

/// Asserts the most memory a plan uses at once, in bytes, inputs included:
/// `assert_peak_bytes!(y, <= 1 << 20)`. Any comparison will do.
#[macro_export]
macro_rules! assert_peak_bytes {
    ($what:expr, $($bound:tt)+) => {
        $crate::assert_plan_bytes!(peak_bytes, $what, $($bound)+)
    };
}

/// Asserts how many bytes all kernels of a plan read and write:
/// `assert_bytes_moved!(y, <= 3 * 4 * n)`. Any comparison will do.
#[macro_export]
macro_rules! assert_bytes_moved {
    ($what:expr, $($bound:tt)+) => {
        $crate::assert_plan_bytes!(bytes_moved, $what, $($bound)+)
    };
}

/// Asserts that a plan is the one in a file: `assert_plan_locked!(plan, "tests/plans/step.plan")`. The path
/// counts from the package's folder, where cargo runs tests; see [`PlanLock`](crate::plan::report::PlanLock)
/// for what is in it.
///
/// A plan that differs fails with the figures that changed and a line diff of kernels. `KILN_LOCK=write
/// cargo test` writes the files anew; a file that is missing is an error that says so.
///
/// # Examples
/// ```
/// use kiln::assert_plan_locked;
/// use kiln::prelude::*;
/// let y = Tensor::empty([64, 64], Device::meta()).matmul(&Tensor::empty([64, 64], Device::meta())).relu();
/// assert_plan_locked!(y, "tests/plans/matmul_relu.plan");
/// ```
#[macro_export]
macro_rules! assert_plan_locked {
    ($what:expr, $path:expr $(,)?) => {
        $crate::assert::locked(&$crate::assert::planned(&$what), ::std::path::Path::new(&$path))
    };
}

/// Panics unless a plan is the one in a file.
#[doc(hidden)]
#[track_caller]
pub fn locked(plan: &PlanReport, path: &Path) {
    let shown = path.display();
    match plan.lock().changes_since_file(path) {
        Ok(None) => {}
        Ok(Some(changes)) => panic!(
            "the plan is not the one in {shown}:\n{changes}If that is meant, KILN_LOCK=write writes the file anew."
        ),
        Err(error) => panic!("{error}"),
    }
}

/// Implementation detail of the assertions on bytes.
#[doc(hidden)]
#[macro_export]
macro_rules! assert_plan_bytes {
    ($method:ident, $what:expr, <= $n:expr $(,)?) => {
        $crate::assert_plan_bytes!(@ $method, $what, <=, $n)
    };
    ($method:ident, $what:expr, < $n:expr $(,)?) => {
        $crate::assert_plan_bytes!(@ $method, $what, <, $n)
    };
    ($method:ident, $what:expr, == $n:expr $(,)?) => {
        $crate::assert_plan_bytes!(@ $method, $what, ==, $n)
    };
    (@ $method:ident, $what:expr, $compare:tt, $n:expr) => {{
        let plan = $crate::assert::planned(&$what);
        let (found, bound) = (plan.$method(), $n as u64);
        let (method, compare) = (stringify!($method), stringify!($compare));
        assert!(found $compare bound, "expected {method} {compare} {bound}, found {found}\n{plan}");
    }};
}
