//! What is done with the product that a contraction sets up.

use crate::runtime::cpu::gemm::{self, GemmElement, GemmProblem, IntegerProblem};

/// Something that takes a product.
pub(super) trait ProblemUser {
    /// # Safety
    /// As [`gemm::run`].
    unsafe fn product<T: GemmElement>(self, problem: &GemmProblem<T>);
    /// # Safety
    /// As [`IntegerProblem::run`].
    unsafe fn integers(self, problem: &IntegerProblem<'_>);
}

/// Computes it.
pub(super) struct RunProblem;

impl ProblemUser for RunProblem {
    unsafe fn product<T: GemmElement>(self, problem: &GemmProblem<T>) {
        // SAFETY: the caller's promise.
        unsafe { gemm::run(problem) }
    }
    unsafe fn integers(self, problem: &IntegerProblem<'_>) {
        // SAFETY: the caller's promise.
        unsafe { problem.run() }
    }
}
