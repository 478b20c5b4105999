//! Random programs mean the same before and after simplification, exactly
//! where exactness is claimed, and within the oracle's bounds elsewhere.

mod support;

use std::sync::Arc;

use kiln::DType;
use kiln::unstable::ir::collect::{Collected, collect};
use kiln::unstable::ir::graph::GraphNode;
use kiln::unstable::ir::oracle::{Data, Value, evaluate, evaluate_bounded};
use kiln::unstable::ir::rewrite::{RewriteRule, cse, rewrite};
use kiln::unstable::ir::simplify::rules;
use kiln::unstable::ir::verify::verify;
use kiln::unstable::ir::{Graph, Node, NodeId, Op};
use kiln::unstable::runtime::host;
use proptest::prelude::*;
use support::random_graph::{Program, Variant, programs};
use support::random_leaf::Mode;

/// Cases of each property.
const CASES: u32 = 500;

fn collected(program: &Program) -> (Collected, Vec<Value>) {
    let nodes = program.build_nodes(Variant::default());
    let collected = collect(&nodes).expect("nobody computes them");
    let value = |leaf: &Arc<Node>| {
        let view = leaf.value().expect("a leaf has a value");
        Value::from_view(leaf.ty().clone(), host::bytes(&view.buffer), &view.layout)
    };
    let params = collected.leaves().map(value).collect();
    (collected, params)
}

/// Values as bits, every NaN the same.
fn bits(value: &Value) -> Vec<u64> {
    match &value.data {
        Data::Int(data) => data.iter().map(|&x| x as u64).collect(),
        Data::Float(data) => data.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect(),
    }
}

fn same_bits(before: &Graph, after: &Graph, params: &[Value]) -> Result<(), TestCaseError> {
    let violations: Vec<String> = verify(after).iter().map(|v| v.to_string()).collect();
    prop_assert!(violations.is_empty(), "{violations:?}\n{after}");
    let expected = evaluate(before, params).expect("the program runs");
    let found = evaluate(after, params).expect("the simplified program runs");
    for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
        prop_assert_eq!(&expected.ty, &found.ty);
        prop_assert_eq!(bits(expected), bits(found), "output {}\n{}\nbecame\n{}", i, before, after);
    }
    Ok(())
}

fn within_bounds(graph: &Graph, other: &Graph, params: &[Value]) -> Result<(), TestCaseError> {
    let expected = evaluate_bounded(graph, params).expect("the program runs");
    let found = evaluate(other, params).expect("the other program runs");
    for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
        if let Some(at) = expected.disagreement(found, 1.0) {
            let (want, got, error) = (expected.value.to_f64()[at], found.to_f64()[at], expected.error[at]);
            prop_assert!(
                false,
                "output {i}, element {at}: {got} is not {want} to {error}\n{graph}\nagainst\n{other}"
            );
        }
    }
    Ok(())
}

/// The graph with every float rounded to its type where it is computed, as a
/// device does that fuses nothing.
fn rounded_throughout(graph: &Graph) -> Graph {
    let mut rounded = Graph::default();
    let mut map: Vec<NodeId> = Vec::new();
    for node in &graph.nodes {
        let operands = node.operands.iter().map(|operand| map[operand.index()]).collect();
        let mut id = rounded.push(GraphNode { operands, ..node.clone() });
        if node.ty.dtype.is_float() && node.ty.dtype != DType::F64 {
            // A cast to the same type does nothing, so it goes by way of F64.
            for dtype in [DType::F64, node.ty.dtype] {
                let ty = node.ty.with_dtype(dtype);
                let (op, operands) = (Op::Cast(dtype), vec![id]);
                id = rounded.push(GraphNode::new(op, ty, operands, node.span));
            }
        }
        map.push(id);
    }
    rounded.outputs = graph.outputs.iter().map(|output| map[output.index()]).collect();
    rounded
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_are_well_formed(program in support::random_graph::program()) {
        let (collected, _) = collected(&program);
        prop_assert_eq!(verify(collected.graph()), []);
    }

    #[test]
    fn merging_changes_no_bit(program in support::random_graph::program()) {
        let (collected, params) = collected(&program);
        let (merged, map) = cse(collected.graph());
        prop_assert_eq!(map.len(), collected.graph().nodes.len());
        prop_assert!(merged.nodes.len() <= collected.graph().nodes.len());
        same_bits(collected.graph(), &merged, &params)?;
    }

    #[test]
    fn exact_rules_change_no_bit(program in support::random_graph::program()) {
        let exact: Vec<RewriteRule> = rules().iter().filter(|rule| rule.exact).copied().collect();
        let (collected, params) = collected(&program);
        same_bits(collected.graph(), &rewrite(collected.graph(), &exact).0, &params)?;
    }

    #[test]
    fn on_small_integers_no_rule_changes_a_bit(
        program in prop_oneof![programs(Mode::Exact, false), programs(Mode::Exact, true)]
    ) {
        let (collected, params) = collected(&program);
        same_bits(collected.graph(), &rewrite(collected.graph(), rules()).0, &params)?;
    }

    #[test]
    fn simplifying_twice_changes_nothing_more(program in support::random_graph::program()) {
        let (collected, _) = collected(&program);
        let (once, _) = rewrite(collected.graph(), rules());
        let (twice, _) = rewrite(&once, rules());
        prop_assert_eq!(once.to_string(), twice.to_string());
    }

    #[test]
    fn every_rule_stays_within_the_bounds(
        program in prop_oneof![programs(Mode::Smooth, false), programs(Mode::Smooth, true)]
    ) {
        let (collected, params) = collected(&program);
        within_bounds(collected.graph(), &rewrite(collected.graph(), rules()).0, &params)?;
    }

    #[test]
    fn rounding_after_every_operation_stays_within_the_bounds(program in support::random_graph::program()) {
        let (collected, params) = collected(&program);
        within_bounds(collected.graph(), &rounded_throughout(collected.graph()), &params)?;
    }
}
