//! The steps of a plan as nodes, and what they read of each other as edges.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::{Device, Direction, Region, Span};
use crate::ir::print::line;
use crate::ir::{Graph, NodeId, Op};
use crate::page::texts::Texts;
use crate::plan::observe::{ObservedKernel, ObservedRun};
use crate::plan::roofline::{PeakThroughput, roof};
use crate::profile::json::{Object, list, optional, quoted};
use crate::schedule::{Step, StepAction, result_number};

/// What devices can do at most, where that is known.
pub(super) type Peaks = HashMap<Device, PeakThroughput>;

/// The nodes that write a value.
type Writers = HashMap<NodeId, Vec<usize>>;

/// A plan's nodes and edges.
pub(super) struct GraphData<'a> {
    texts: &'a mut Texts,
    peaks: &'a Peaks,
    pub nodes: Vec<Object>,
    /// From, to, bytes.
    edges: Vec<(usize, usize, u64)>,
    /// By the address of the plan and the step: the node.
    pub node_of: HashMap<(usize, usize), usize>,
}

/// Where steps are: in the plan itself, or in the body of a repetition.
#[derive(Clone, Copy)]
struct Place {
    /// The node number of the first step of the outermost repetition, as its name.
    group: Option<usize>,
    launches: u64,
}

impl<'a> GraphData<'a> {
    /// The graph of a run's plan.
    pub fn of(run: &Arc<ObservedRun>, texts: &'a mut Texts, peaks: &'a Peaks) -> GraphData<'a> {
        let (nodes, edges, node_of) = (Vec::new(), Vec::new(), HashMap::new());
        let mut data = GraphData { texts, peaks, nodes, edges, node_of };
        data.steps(run, Writers::new(), Place { group: None, launches: 1 });
        data
    }

    /// The edges as JSON.
    pub fn edges(&self) -> String {
        list(self.edges.iter().map(|(from, to, bytes)| list([*from as u64, *to as u64, *bytes])))
    }

    /// Adds the steps of a run. Gives who writes what, the parameters' writers included.
    fn steps(&mut self, run: &Arc<ObservedRun>, mut writers: Writers, place: Place) -> Writers {
        let schedule = &run.plan.schedule;
        let graph = &schedule.graph;
        for (number, step) in schedule.steps.iter().enumerate() {
            if let StepAction::Repeat(spec) = &step.action {
                let Some(body) = run.bodies.get(&number) else { continue };
                let group = place.group.or(Some(self.nodes.len()));
                let launches = place.launches.saturating_mul(spec.trips as u64);
                let inside = self.steps(body, inside(graph, step, body, &writers), Place { group, launches });
                let results = &body.plan.schedule.graph.outputs;
                for &output in &step.outputs {
                    let made = results.get(result_number(graph, output)).and_then(|id| inside.get(id));
                    writers.insert(output, made.cloned().unwrap_or_default());
                }
                continue;
            }
            let Some(node) = self.node(run, number, place) else { continue };
            self.read(graph, step, &writers);
            let reads = self.reads(run, step, &writers);
            self.node_of.entry((Arc::as_ptr(&run.plan) as usize, number)).or_insert(self.nodes.len());
            writers.extend(step.outputs.iter().map(|&output| (output, vec![self.nodes.len()])));
            let node = node.value("reads", reads).value("step", number);
            self.nodes.push(node.value("group", optional(place.group)));
        }
        writers
    }

    /// A launch or transfer; `None` for a copy that is there already.
    fn node(&mut self, run: &ObservedRun, number: usize, place: Place) -> Option<Object> {
        let schedule = &run.plan.schedule;
        let step = &schedule.steps[number];
        match &step.action {
            StepAction::Launch(_) if schedule.memory.is_there_already(&schedule.graph, step) => None,
            StepAction::Launch(_) => run.kernel(number).map(|kernel| self.kernel(run, step, &kernel, place)),
            StepAction::Transfer { from } => Some(self.transfer(run, step, *from, place)),
            StepAction::Collective(_) | StepAction::Repeat(_) => None,
        }
    }

    fn kernel(
        &mut self,
        run: &ObservedRun,
        step: &Step,
        found: &ObservedKernel,
        Place { launches, .. }: Place,
    ) -> Object {
        let (report, graph) = (&found.report, &run.plan.schedule.graph);
        let roof = self.peaks.get(&report.device).map(|peak| roof(report, peak));
        let source = report.source().unwrap_or_else(|error| error.to_string());
        let members: Vec<String> = step.members.iter().map(|&id| line(graph, id)).collect();
        let lines: Vec<usize> = report.lines.iter().map(|&at| self.texts.line(at)).collect();
        let operations: Vec<String> =
            (found.operations.iter()).map(|one| self.operation(one.name, one.at, one.region).end()).collect();
        self.operation(&report.name, report.at, found.region)
            .text("kind", "kernel")
            .text("role", role(run, step, report.is_copy))
            .text("device", &report.device.to_string())
            .text("shape", &report.shape.to_string())
            .value("loaded", report.loaded)
            .value("stored", report.stored)
            .value("flops", report.flops)
            .value("launches", launches)
            .value("predicted", optional(roof.as_ref().map(|roof| roof.seconds)))
            .text("bound", &roof.map(|roof| roof.bound.to_string()).unwrap_or_default())
            .value("writes", list(step.outputs.iter().map(|&id| quoted(&graph.ty(id).to_string()))))
            .value("operations", list(operations))
            .value("lines", list(lines))
            .value("graph", self.texts.text(members.join("\n")))
            .value("ir", self.texts.text(report.text()))
            .value("source", self.texts.text(source))
    }

    fn transfer(&mut self, run: &ObservedRun, step: &Step, from: Device, place: Place) -> Object {
        let (graph, output) = (&run.plan.schedule.graph, step.outputs[0]);
        let (call, ty) = (run.call(output), graph.ty(output));
        let bytes = ty.bytes() as u64;
        let device = if step.device == Device::cpu() { from } else { step.device };
        let direction = Direction::of(from, step.device);
        let seconds = self.peaks.get(&device).map(|peak| peak.seconds_per_byte(direction) * bytes as f64);
        self.operation("transfer", call.span, call.name.region())
            .text("kind", "transfer")
            .text("role", "transfer")
            .text("device", &step.device.to_string())
            .text("from", &from.to_string())
            .text("shape", &ty.shape.to_string())
            .value("bytes", bytes)
            .value("launches", place.launches)
            .value("predicted", optional(seconds.map(|seconds| seconds * place.launches as f64)))
    }

    /// What an operation is called, where, and in which part of the program.
    fn operation(&mut self, name: &str, at: Span, region: Region) -> Object {
        let object = Object::new().text("name", name).value("line", self.texts.line(at));
        object.text("label", region.path().as_deref().unwrap_or_default())
    }

    /// Adds the edges to the node that comes next.
    fn read(&mut self, graph: &Graph, step: &Step, writers: &Writers) {
        let to = self.nodes.len();
        for input in step.inputs.iter().flat_map(|input| graph.pieces(input)) {
            for &from in writers.get(input).into_iter().flatten() {
                let bytes = graph.ty(*input).bytes() as u64;
                match self.edges.iter_mut().rev().find(|edge| (edge.0, edge.1) == (from, to)) {
                    Some(edge) => edge.2 += bytes,
                    None => self.edges.push((from, to, bytes)),
                }
            }
        }
    }

    /// What a step reads, as JSON: types, with who wrote them or which parameter of the plan they are.
    fn reads(&self, run: &ObservedRun, step: &Step, writers: &Writers) -> String {
        let graph = &run.plan.schedule.graph;
        list(step.inputs.iter().flat_map(|input| graph.pieces(input)).map(|input| {
            let node = graph.node(*input);
            let param = if let Op::Param(number, _) = node.op { Some(number) } else { None };
            let from = writers.get(input).into_iter().flatten();
            let object = Object::new().text("type", &node.ty.to_string()).value("from", list(from));
            // The parameters of a body are the repetition's own.
            object.value("input", optional(param.filter(|_| !run.inputs.is_empty()))).end()
        }))
    }
}

/// Who writes the parameters of a body: the trip's number, which nobody does, then what the repetition reads.
fn inside(graph: &Graph, step: &Step, body: &ObservedRun, writers: &Writers) -> Writers {
    let inner = &body.plan.schedule.graph;
    let writer = |id: NodeId| {
        let Op::Param(number, _) = inner.node(id).op else { return None };
        let input = step.inputs.get((number as usize).checked_sub(1)?)?;
        let pieces = graph.pieces(input).iter().filter_map(|piece| writers.get(piece));
        Some((id, pieces.flatten().copied().collect()))
    };
    inner.ids().filter_map(writer).collect()
}

/// What part of training a kernel is of.
fn role(run: &ObservedRun, step: &Step, is_copy: bool) -> &'static str {
    if step.outputs.iter().any(|&output| run.is_optimizers(output)) {
        "optimizer"
    } else if step.members.iter().any(|&member| run.is_gradient(member)) {
        "gradient"
    } else if is_copy {
        "copy"
    } else {
        "forward"
    }
}
