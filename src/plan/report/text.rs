//! A plan in full, as text that depends on nothing but the graph, the
//! device's capabilities and the compiler: for golden files and for people
//! who look for what changed.

use std::fmt::Write;

use crate::ir::NodeId;
use crate::plan::build::{Plan, work_text};
use crate::plan::report::PlanReport;
use crate::schedule::{Location, Step, StepAction};

impl PlanReport {
    /// The graph as it was built, and as it was scheduled.
    pub fn graph_text(&self) -> String {
        match &self.plan {
            Some(plan) => format!("as built:\n{}\nas scheduled:\n{}", self.built, plan.schedule.graph),
            None => String::new(),
        }
    }

    /// The steps with their kernels, and where every value is.
    pub fn steps_text(&self) -> String {
        let mut text = String::new();
        if let Some(plan) = &self.plan {
            write_plan(&mut text, plan, "");
        }
        text
    }
}

fn write_plan(text: &mut String, plan: &Plan, margin: &str) {
    for (number, step) in plan.schedule.steps.iter().enumerate() {
        let line = format!("{margin}step {number} on {}: {}", step.device, values(plan, step));
        let _ = writeln!(text, "{line}");
        match &step.action {
            StepAction::Launch(work) => {
                for line in work_text(work).lines() {
                    let _ = writeln!(text, "{margin}  {line}");
                }
            }
            StepAction::Transfer { from } => {
                let _ = writeln!(text, "{margin}  transfer from {from}");
            }
            StepAction::Collective(kind) => {
                let _ = writeln!(text, "{margin}  {kind}");
            }
            StepAction::Repeat(spec) => {
                let _ = writeln!(text, "{margin}  {} times", spec.trips);
                write_plan(text, &plan.bodies[&number], &format!("{margin}    "));
            }
        }
    }
    let memory = &plan.schedule.memory;
    for (number, result) in memory.results.iter().enumerate() {
        let donated = result.donated.map(|param| format!(", in the memory of param {param}"));
        let donated = donated.unwrap_or_default();
        let _ =
            writeln!(text, "{margin}result {number}: {} bytes on {}{donated}", result.bytes, result.device);
    }
    for (device, bytes) in &memory.arenas {
        let _ = writeln!(text, "{margin}intermediates: {bytes} bytes on {device}");
    }
}

/// `%4 in result 0 from %1 in param 0, %3 in arena at 256`.
fn values(plan: &Plan, step: &Step) -> String {
    let location = |id: &NodeId| match plan.schedule.memory.locations.get(id) {
        Some(Location::Param(number)) => format!("%{} in param {number}", id.0),
        Some(Location::Result(number, 0)) => format!("%{} in result {number}", id.0),
        Some(Location::Result(number, start)) => format!("%{} in result {number} at {start}", id.0),
        Some(Location::Arena(offset)) => format!("%{} at {offset}", id.0),
        None => format!("%{} nowhere", id.0),
    };
    let list = |ids: &[NodeId]| ids.iter().map(location).collect::<Vec<_>>().join(", ");
    format!("{} from {}", list(&step.outputs), list(&step.inputs))
}
