//! Rematerialization: values are recomputed right before they are read, instead of
//! being kept, until the schedule fits a budget.
//!
//! Whole steps are recomputed: the same kernels on the same
//! values, so results are the same bit by bit, and nothing new is compiled.
//! The choice is greedy (as in rematerialization by Kumar et al. 2019, with
//! the bytes that are above the goal, summed over steps, for what is to
//! shrink), made on a trace of the steps; the memory planner decides whether
//! the result fits.

mod rebuild;
mod search;
mod trace;

use crate::base::Device;
use crate::runtime::InPlace;
use crate::schedule::memory::{self, MemoryPlan, Params};
use crate::schedule::{ScheduledGraph, check, debug_check};

use trace::{StepFacts, Trace};

/// How often the target is corrected after memory planning.
const ROUNDS: usize = 6;

/// A schedule made from another.
#[derive(Debug)]
pub struct Fitted {
    /// The schedule.
    pub schedule: ScheduledGraph,
    /// By step, the number of the step it was.
    pub from: Vec<usize>,
}

/// The schedule changed until results and intermediates take at most `target` bytes
/// on a device, or, where that cannot be reached, as few as were found.
pub fn fit(
    schedule: &ScheduledGraph,
    params: &Params<'_>,
    in_place: &dyn Fn(Device) -> InPlace,
    device: Device,
    target: u64,
) -> Fitted {
    let facts = StepFacts::new(schedule);
    let start = Trace::new(schedule, &facts, device);
    // What the planner needs overheads what the trace sees: results, and gaps.
    let mut overhead = planned_bytes(&schedule.memory, device).saturating_sub(peak(&start));
    let mut best: Option<Fitted> = None;
    for _ in 0..ROUNDS {
        let trace = search::search(start.clone(), target.saturating_sub(overhead));
        let mut found = rebuild::rebuild(schedule, &trace);
        debug_check(&found.graph, || check::check_steps(&found.graph, &found.steps));
        found.memory = memory::plan(&found.graph, &found.steps, params, in_place);
        let ScheduledGraph { graph, steps, memory, .. } = &found;
        debug_check(graph, || check::check_memory(graph, steps, memory, params, in_place));
        let needed = planned_bytes(&found.memory, device);
        if best.as_ref().is_none_or(|best| needed < planned_bytes(&best.schedule.memory, device)) {
            let from = trace.entries.iter().map(|line| line.step).collect();
            best = Some(Fitted { schedule: found, from });
        }
        let unseen = needed.saturating_sub(peak(&trace));
        if needed <= target || unseen <= overhead {
            break;
        }
        overhead = unseen;
    }
    best.unwrap_or_else(|| panic!("no round was made"))
}

fn peak(trace: &Trace<'_>) -> u64 {
    trace.profile(&trace.live_ranges()).into_iter().max().unwrap_or(0)
}

/// Bytes of results and intermediates on a device.
pub fn planned_bytes(memory: &MemoryPlan, device: Device) -> u64 {
    let arenas = memory.arenas.iter().filter(|arena| arena.0 == device).map(|arena| arena.1 as u64);
    let results = memory.results.iter().filter(|result| result.device == device && result.donated.is_none());
    arenas.chain(results.map(|result| result.bytes as u64)).sum()
}
