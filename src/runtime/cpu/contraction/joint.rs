//! Contractions of one row that are launched together.

use super::ContractionProgram;
use super::problem::ProblemUser;
use crate::runtime::Bindings;
use crate::runtime::cpu::gemm::{self, GemmElement, GemmProblem, IntegerProblem};
use crate::runtime::cpu::row_product::{self, ColumnOrder, RowProduct};

/// A contraction and what it works on.
pub type JointLaunch<'a> = (&'a ContractionProgram, &'a Bindings<'a>);

impl ContractionProgram {
    /// Whether it is a product of one row, which may be launched together with others.
    pub fn is_of_one_row(&self) -> bool {
        self.batch == 1 && self.m == 1 && self.n > 1 && self.k > 0
    }
}

/// Launches contractions together.
pub fn launch(launches: &[JointLaunch<'_>], order: ColumnOrder) {
    launch_after(&[], launches, order);
}

/// Launches contractions together with products that are ready.
fn launch_after(ready: &[&dyn RowProduct], launches: &[JointLaunch<'_>], order: ColumnOrder) {
    let Some(((program, bindings), rest)) = launches.split_first() else {
        // SAFETY: their programs are launched, and columns wait for no others.
        return unsafe { row_product::run(ready, order) };
    };
    let then = |product: Option<&dyn RowProduct>| match product {
        Some(product) => launch_after(&[ready, &[product]].concat(), rest, order),
        None => {
            // SAFETY: as above.
            unsafe { row_product::run(ready, order) };
            program.launch(bindings);
            launch_after(&[], rest, order);
        }
    };
    program.with_problem(bindings, AsRowProduct(then));
}

/// Passes a problem as a product of one row, if it is computed so.
struct AsRowProduct<F>(F);

impl<F: FnOnce(Option<&dyn RowProduct>)> ProblemUser for AsRowProduct<F> {
    unsafe fn product<T: GemmElement>(self, problem: &GemmProblem<T>) {
        // SAFETY: the caller's promise.
        unsafe { gemm::with_row_product(problem, self.0) };
    }
    unsafe fn integers(self, problem: &IntegerProblem<'_>) {
        // SAFETY: the caller's promise.
        unsafe { problem.with_row_product(self.0) };
    }
}
