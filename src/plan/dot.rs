//! A plan as a Graphviz graph: kernels as clusters, the operations inside,
//! an edge for each value read.

use std::fmt::Write;

use crate::ir::print::describe;
use crate::ir::{Graph, NodeId, Op};
use crate::plan::build::Plan;
use crate::plan::report::{PlanReport, computed};
use crate::schedule::Step;

impl PlanReport {
    /// The plan in Graphviz's language: one cluster a step, edges that cross
    /// clusters in bold, for they go through memory.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("digraph plan {\n  node [shape=box, fontname=monospace];\n");
        if let Some(plan) = &self.plan {
            write_plan(&mut text, plan);
        }
        text + "}\n"
    }
}

fn write_plan(text: &mut String, plan: &Plan) {
    let graph = &plan.schedule.graph;
    for id in graph.ids().filter(|&id| is_input(graph, id)) {
        let _ = writeln!(text, "  in_{} [label=\"{}\", style=rounded];", id.0, label(graph, id));
    }
    let mut edges = String::new();
    for (number, step) in plan.schedule.steps.iter().enumerate() {
        let inside = computed(graph, step);
        let _ = writeln!(text, "  subgraph cluster_{number} {{");
        let _ = writeln!(text, "    label=\"{}\";", escaped(&step.name(graph)));
        for &id in &inside {
            let stored = if step.outputs.contains(&id) { ", style=bold" } else { "" };
            let _ = writeln!(text, "    s{number}_{} [label=\"{}\"{stored}];", id.0, label(graph, id));
        }
        text.push_str("  }\n");
        for &id in &inside {
            for &operand in &graph.node(id).operands {
                let (from, style) = source(plan, number, &inside, operand);
                let _ = writeln!(edges, "  {from} -> s{number}_{}{style};", id.0);
            }
        }
    }
    text.push_str(&edges);
}

/// Where a step finds an operand: within itself, among the inputs, or in
/// memory that another step wrote.
fn source(plan: &Plan, number: usize, inside: &[NodeId], operand: NodeId) -> (String, &'static str) {
    let through_memory = " [style=bold]";
    if is_input(&plan.schedule.graph, operand) {
        return (format!("in_{}", operand.0), through_memory);
    }
    if inside.contains(&operand) {
        return (format!("s{number}_{}", operand.0), "");
    }
    let writes = |step: &Step| step.outputs.contains(&operand);
    let writer = plan.schedule.steps.iter().position(writes).unwrap_or(number);
    (format!("s{writer}_{}", operand.0), through_memory)
}

fn is_input(graph: &Graph, id: NodeId) -> bool {
    matches!(graph.node(id).op, Op::Param(..))
}

fn label(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    escaped(&format!("%{} {}\n{}", id.0, describe(&node.op), node.ty))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
