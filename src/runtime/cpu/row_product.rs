//! Products of one row each, several in one launch: threads meet once for all of them.

use std::ops::Range;

use smallvec::SmallVec;

use crate::runtime::cpu::gemm::{for_each, workers};
use crate::runtime::cpu::thresholds::JOINT_SERIAL_MULTIPLY_ADDS;

/// A product of one row with a matrix, any of whose columns can be computed on any thread.
pub trait RowProduct: Sync {
    /// How many columns there are.
    fn columns(&self) -> usize;
    /// Multiply-adds of all columns.
    fn multiply_adds(&self) -> usize;
    /// Columns that are computed together, where so many threads share them.
    fn step(&self, workers: usize) -> usize;
    /// Computes some columns and hands them on.
    ///
    /// # Safety
    /// No other thread computes any of them; what they read is there.
    unsafe fn compute(&self, columns: Range<usize>);
}

/// Which columns of products wait for which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnOrder {
    /// None of one for those of another.
    Independent,
    /// A column of one for the same column of those before.
    Elementwise,
}

/// Computes products together.
///
/// # Safety
/// As the products', and the order is theirs.
pub unsafe fn run(products: &[&dyn RowProduct], order: ColumnOrder) {
    let work = products.iter().map(|product| product.multiply_adds()).sum();
    let workers = workers(work, JOINT_SERIAL_MULTIPLY_ADDS);
    match order {
        // SAFETY: the caller's promise.
        ColumnOrder::Independent => unsafe { independent(products, workers) },
        // SAFETY: the caller's promise.
        ColumnOrder::Elementwise => unsafe { elementwise(products, workers) },
    }
}

unsafe fn independent(products: &[&dyn RowProduct], workers: usize) {
    let tasks = |product: &&dyn RowProduct| product.columns().div_ceil(product.step(workers));
    // Tests find those that depend on earlier ones.
    let mut order: SmallVec<[&dyn RowProduct; 4]> = products.into();
    if cfg!(test) {
        order.reverse();
    }
    for_each(workers, order.iter().map(tasks).sum(), 1, |mut task| {
        for product in &order {
            let own = tasks(product);
            if task < own {
                // SAFETY: the caller's promise; tasks have columns of their own.
                return unsafe { part(*product, task, product.step(workers)) };
            }
            task -= own;
        }
    });
}

unsafe fn elementwise(products: &[&dyn RowProduct], workers: usize) {
    let step = products.iter().map(|product| product.step(workers)).max().unwrap_or(1);
    let columns = products.iter().map(|product| product.columns()).max().unwrap_or(0);
    for_each(workers, columns.div_ceil(step), 1, |task| {
        for product in products {
            // SAFETY: the caller's promise; of those before, this thread has computed the same columns.
            unsafe { part(*product, task, step) };
        }
    });
}

unsafe fn part(product: &dyn RowProduct, task: usize, step: usize) {
    let start = task * step;
    // SAFETY: the caller's promise.
    unsafe { product.compute(start..product.columns().min(start + step)) };
}
