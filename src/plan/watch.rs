//! The plans that a thread runs, for whoever wants to show what they predict.

use std::cell::RefCell;
use std::sync::Arc;

use crate::ir::collect::Collected;
use crate::plan::build::Plan;
use crate::plan::report::{PlanReport, of_plan};

thread_local! {
    static WATCHED: RefCell<Option<Vec<PlanReport>>> = const { RefCell::new(None) };
}

/// Runs the closure; with what it returns, the reports of the plans that this thread ran in it, in order.
pub(crate) fn watch<R>(body: impl FnOnce() -> R) -> (R, Vec<PlanReport>) {
    /// Ends it after a panic too.
    struct Watching;
    impl Drop for Watching {
        fn drop(&mut self) {
            WATCHED.take();
        }
    }
    WATCHED.set(Some(Vec::new()));
    let _watching = Watching;
    let result = body();
    (result, WATCHED.take().unwrap_or_default())
}

/// Takes note of a plan that is about to run, if somebody watches.
pub(crate) fn note(plan: &Arc<Plan>, collected: &Collected) {
    if WATCHED.with_borrow(Option::is_some) {
        let report = of_plan(plan, collected);
        WATCHED
            .with_borrow_mut(|watched| watched.iter_mut().for_each(|watched| watched.push(report.clone())));
    }
}
