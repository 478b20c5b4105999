//! A correct schedule passes; each planted bug is found, and called by its name.

use smallvec::smallvec;

use super::*;
use crate::base::{DType, Span};
use crate::ir::{AluOp, ContractDims, GraphNode, Type, infer};
use crate::runtime::null;
use crate::schedule::memory::plan;
use crate::schedule::{Environment, ScheduledGraph, schedule};

fn push(graph: &mut Graph, op: Op, operands: &[NodeId]) -> NodeId {
    let types: Vec<&Type> = operands.iter().map(|&id| graph.ty(id)).collect();
    let ty = infer(&op, &types).expect("operands that fit");
    graph.push(GraphNode::new(op, ty, operands, Span::caller()))
}

fn param(graph: &mut Graph, number: u32, shape: &[usize]) -> NodeId {
    let ty = Type::new(shape, DType::F32, Device::cpu());
    push(graph, Op::Param(number, ty), &[])
}

fn neg(graph: &mut Graph, x: NodeId) -> NodeId {
    push(graph, Op::Alu(AluOp::Neg), &[x])
}

fn sort(graph: &mut Graph, x: NodeId) -> NodeId {
    let count = graph.ty(x).shape[1];
    push(graph, Op::Sort { axis: 1, descending: false, count }, &[x])
}

fn scheduled(graph: Graph, donated: &[bool]) -> ScheduledGraph {
    let capabilities = |_| null::CAPABILITIES;
    schedule(
        graph,
        &Environment {
            layouts: &[],
            donated,
            shared: &[],
            capabilities: &capabilities,
            template: None,
            retain_candidates: &[],
            fallbacks: &[],
        },
    )
}

/// A product, sorted twice: five steps in a row, with four values in the arena.
fn sorted_product() -> ScheduledGraph {
    let mut graph = Graph::default();
    let (a, b) = (param(&mut graph, 0, &[16, 8]), param(&mut graph, 1, &[8, 24]));
    let dims = ContractDims { batch: smallvec![], contract: smallvec![(1, 0)], ..ContractDims::default() };
    let product = push(&mut graph, Op::Contract(Box::new(dims)), &[a, b]);
    let order = sort(&mut graph, product);
    let sorted = push(&mut graph, Op::Gather(1), &[product, order]);
    let turned = push(&mut graph, Op::Flip([0].into()), &[sorted]);
    let moved = push(&mut graph, Op::Permute([1, 0].into()), &[turned]);
    let again = sort(&mut graph, moved);
    let result = push(&mut graph, Op::Gather(1), &[moved, again]);
    graph.outputs = vec![neg(&mut graph, result)];
    scheduled(graph, &[])
}

/// A negation and a permutation of one parameter, both results.
fn two_results(donated: bool) -> ScheduledGraph {
    let mut graph = Graph::default();
    let x = param(&mut graph, 0, &[16, 32]);
    graph.outputs = vec![neg(&mut graph, x), sort(&mut graph, x)];
    scheduled(graph, &[donated])
}

fn steps_of(schedule: &ScheduledGraph) -> Vec<String> {
    check_steps(&schedule.graph, &schedule.steps)
}

fn memory_of(schedule: &ScheduledGraph, donated: bool) -> Vec<String> {
    memory_under(schedule, donated, InPlace::AnyOutputs)
}

fn memory_under(schedule: &ScheduledGraph, donated: bool, policy: InPlace) -> Vec<String> {
    let params = Params { donated: &|_| donated, first_with: &|param| param };
    check_memory(&schedule.graph, &schedule.steps, &schedule.memory, &params, &|_| policy)
}

/// Plants a bug and asserts that some violation is called this.
#[track_caller]
fn found(
    schedule: ScheduledGraph,
    check: impl Fn(&ScheduledGraph) -> Vec<String>,
    name: &str,
    bug: impl Fn(&mut ScheduledGraph),
) {
    assert_eq!(check(&schedule), Vec::<String>::new(), "before the bug");
    let mut broken = schedule;
    bug(&mut broken);
    let violations = check(&broken);
    assert!(
        violations.iter().any(|violation| violation.contains(name)),
        "{name:?} is not in {violations:#?}"
    );
}

#[track_caller]
fn found_in_steps(name: &str, bug: impl Fn(&mut ScheduledGraph)) {
    found(sorted_product(), steps_of, name, bug);
}

#[track_caller]
fn found_in_memory(name: &str, bug: impl Fn(&mut ScheduledGraph)) {
    found(sorted_product(), |schedule| memory_of(schedule, false), name, bug);
}

#[test]
fn steps_in_the_wrong_order_are_found() {
    for i in 0..sorted_product().steps.len() - 1 {
        found_in_steps("before it is written", |schedule| schedule.steps.swap(i, i + 1));
    }
}

#[test]
fn a_missing_step_is_found() {
    let count = sorted_product().steps.len();
    for i in 0..count {
        let name = if i + 1 == count { "is never written" } else { "before it is written" };
        found_in_steps(name, |schedule| drop(schedule.steps.remove(i)));
    }
}

#[test]
fn a_step_that_runs_twice_is_found() {
    found_in_steps("again", |schedule| schedule.steps.push(schedule.steps[1].clone()));
}

#[test]
fn a_value_dropped_from_its_kernel_is_found() {
    for i in 0..sorted_product().steps.len() {
        found_in_steps("does not read", |schedule| {
            schedule.steps[i].inputs.pop();
        });
        found_in_steps("does not compute", |schedule| schedule.steps[i].members.clear());
    }
}

#[test]
fn a_kernel_bound_to_other_values_is_found() {
    found_in_steps("binds other values", |schedule| schedule.steps[0].inputs.swap(0, 1));
    found_in_steps("binds other values", |schedule| {
        let step = schedule.steps.iter_mut().rev().find(|step| step.kernel().is_some()).expect("a kernel");
        step.inputs.reverse();
    });
}

#[test]
fn a_value_without_memory_is_found() {
    found_in_memory("has no memory", |schedule| {
        let output = schedule.steps[2].outputs[0];
        schedule.memory.locations.remove(&output);
    });
}

#[test]
fn overlapping_offsets_are_found() {
    // A value over the one that its own step reads.
    for i in 1..sorted_product().steps.len() - 1 {
        found_in_memory(" over ", |schedule| {
            let (from, to) = (schedule.steps[i].inputs[0], schedule.steps[i].outputs[0]);
            let place = schedule.memory.locations[&from];
            schedule.memory.locations.insert(to, place);
        });
    }
    // A few bytes are enough.
    found_in_memory(" over ", |schedule| {
        let (from, to) = (schedule.steps[1].inputs[0], schedule.steps[1].outputs[0]);
        let Location::Arena(offset) = schedule.memory.locations[&from] else {
            panic!("a value in the arena")
        };
        schedule.memory.locations.insert(to, Location::Arena(offset + schedule.graph.ty(from).bytes() - 4));
    });
}

#[test]
fn a_value_outside_its_memory_is_found() {
    found_in_memory("ends at", |schedule| schedule.memory.arenas[0].1 -= 256);
    found_in_memory("ends at", |schedule| schedule.memory.results[0].bytes -= 1);
    found_in_memory("not at a multiple", |schedule| {
        let output = schedule.steps[2].outputs[0];
        schedule.memory.locations.insert(output, Location::Arena(4));
    });
}

#[test]
fn a_result_over_another_is_found() {
    let check = |schedule: &ScheduledGraph| memory_of(schedule, false);
    found(two_results(false), check, "still needed", |schedule| {
        let [first, second] = [0, 1].map(|i| schedule.steps[i].outputs[0]);
        let place = schedule.memory.locations[&first];
        schedule.memory.results.iter_mut().for_each(|result| result.bytes = 16 * 32 * 8);
        schedule.memory.locations.insert(second, place);
    });
}

#[test]
fn a_parameter_overwritten_too_early_is_found() {
    let check = |schedule: &ScheduledGraph| memory_of(schedule, true);
    let donate = |schedule: &mut ScheduledGraph| {
        let first = schedule.steps[0].outputs[0];
        let Location::Result(number, 0) = schedule.memory.locations[&first] else { panic!("a result") };
        schedule.memory.results[number as usize].donated = Some(0);
    };
    found(two_results(true), check, "still needed", donate);
}

#[test]
fn a_parameter_that_is_not_donated_stays() {
    let mut graph = Graph::default();
    let x = param(&mut graph, 0, &[16, 32]);
    graph.outputs = vec![neg(&mut graph, x)];
    let schedule = scheduled(graph, &[true]);
    assert_eq!(schedule.memory.results[0].donated, Some(0));
    assert_eq!(memory_of(&schedule, true), Vec::<String>::new());
    assert!(memory_of(&schedule, false)[0].contains("not donated"));
}

#[test]
fn a_parameter_overwritten_while_it_is_read_elsewhere_is_found() {
    let mut graph = Graph::default();
    let x = param(&mut graph, 0, &[16, 16]);
    let turned = push(&mut graph, Op::Permute([1, 0].into()), &[x]);
    graph.outputs = vec![neg(&mut graph, turned)];
    let check = |schedule: &ScheduledGraph| memory_of(schedule, true);
    found(scheduled(graph, &[true]), check, "while reading it", |schedule| {
        schedule.memory.results[0].donated = Some(0);
    });
}

#[test]
fn a_buffer_that_is_read_and_written_is_found() {
    let mut schedule = sorted_product();
    let params = Params { donated: &|_| false, first_with: &|param| param };
    schedule.memory = plan(&schedule.graph, &schedule.steps, &params, &|_| InPlace::Never);
    let check = |schedule: &ScheduledGraph| memory_under(schedule, false, InPlace::Never);
    found(schedule, check, "in the buffer of", |schedule| schedule.memory.cuts.clear());
}
