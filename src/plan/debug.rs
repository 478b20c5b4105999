//! What `KILN_DEBUG` prints on the standard error stream. Each level adds to
//! the one below:
//!
//! 1. a summary of every plan built;
//! 2. every launch with its time;
//! 3. fusion blockers, and composites that were decomposed;
//! 4. the kernels' sources;
//! 5. the kernels before rendering, with their index expressions.

use std::fmt::Write;
use std::sync::Arc;

use crate::base::config::config;
use crate::base::system::Instant;
use crate::ir::NodeId;
use crate::ir::collect::Collected;
use crate::plan::build::Plan;
use crate::plan::report::{PlanReport, bytes, of_plan};
use crate::schedule::Decomposed;

/// Prints a plan that was just built.
pub(crate) fn built(plan: &Arc<Plan>, collected: &Collected) {
    let level = config().debug;
    if level > 0 {
        eprintln!("{}", describe(&of_plan(plan, collected), level));
    }
}

/// A plan's description at a level.
pub fn describe(report: &PlanReport, level: u8) -> String {
    let mut text = String::new();
    if level >= 1 {
        text += &report.to_string();
    }
    if level >= 3 {
        text += &refusals(report);
        text += &decomposed(report);
    }
    for kernel in &report.kernels {
        if level >= 4 {
            let source = kernel.source().unwrap_or_else(|error| error.to_string());
            let _ = write!(text, "source of {}{}:\n{source}\n", kernel.name, kernel.shape);
        }
        if level >= 5 {
            text += &kernel.text();
        }
    }
    text
}

/// One line for each refused fusion.
fn refusals(report: &PlanReport) -> String {
    let Some(plan) = &report.plan else { return String::new() };
    let graph = &plan.schedule.graph;
    let named = |id: NodeId| {
        let node = graph.node(id);
        format!("{} {} ({})", node.op.name(), node.ty, report.spans[id.index()])
    };
    let mut text = String::new();
    for refusal in &plan.schedule.refusals {
        let (producer, consumer) = (named(refusal.producer), named(refusal.consumer));
        let _ = writeln!(text, "not fused: {producer} with {consumer}: {}", refusal.blocker);
    }
    text
}

/// One line for each decomposed composite that a template could have computed.
fn decomposed(report: &PlanReport) -> String {
    let plans = report.plan.iter();
    let line = |one: &Decomposed| format!("decomposed: {} {} ({}): {}\n", one.name, one.ty, one.at, one.why);
    plans.flat_map(|plan| &plan.schedule.decomposed).map(line).collect()
}

/// The time at which a launch starts, where launches are printed.
pub(crate) fn clock() -> Option<Instant> {
    (config().debug >= 2).then(Instant::now)
}

/// Prints a launch that has been waited for.
pub(crate) fn launched(start: Instant, name: &str, moved: u64) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = moved as f64 / seconds.max(1e-9) / 1e9;
    eprintln!("{:>10.1} us {:>10} {rate:>7.1} GB/s  {name}", seconds * 1e6, bytes(moved));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::pattern;

    #[test]
    fn each_level_adds_to_the_one_below() {
        let x = pattern(&[4, 6], 0);
        let report = crate::tensor::plan::plan(&[&x.softmax(1).sum(0)]).unwrap();
        let parts = [(1, "peak memory"), (3, "not fused: "), (4, "source of softmax_sum"), (5, "kernel sum")];
        assert_eq!(describe(&report, 0), "");
        for level in 1..=5 {
            let text = describe(&report, level);
            for (from, part) in parts {
                assert_eq!(text.contains(part), level >= from, "{part} at level {level}:\n{text}");
            }
        }
    }
}
