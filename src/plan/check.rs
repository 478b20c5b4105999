//! `KILN_CHECK`: each step of a plan beside the interpreter.
//!
//! A kernel that is wrong is found where it computes, not where somebody notices: what a
//! step read is taken before it runs, what it wrote is held against the bounds that
//! [`crate::ir::oracle`] gives for its operations, and the first step outside of them is
//! an error. The interpreter is slow, and each step is waited for.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Error, Result, Scalar, WrongStep};
use crate::ir::oracle::{Bounded, Data, Value, evaluate_bounded};
use crate::ir::{Graph, GraphNode, NodeId, Op};
use crate::plan::run::CallOf;
use crate::schedule::fusion_class::read_operands;
use crate::schedule::{Step, StepAction};

/// Values of an input that an error shows.
const SHOWN: usize = 8;

/// Gives the value of a node as it lies in memory now.
pub(crate) type Read<'a> = &'a dyn Fn(NodeId) -> Result<Value>;

/// What a step should compute.
pub(crate) struct Check {
    inputs: Vec<(NodeId, Value)>,
    expected: Vec<Bounded>,
}

impl Check {
    /// Computes what a step that is about to run should give; `None` for repetitions, whose
    /// own steps are checked, for what other ranks take part in, and where the interpreter fails, as at an index out of range,
    /// of which the step itself tells.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn begin(graph: &Graph, step: &Step, scalars: &[u64], read: Read<'_>) -> Result<Option<Check>> {
        if let StepAction::Repeat(_) | StepAction::Collective(_) = step.action {
            return Ok(None);
        }
        let mut alone = Alone { graph, scalars, made: Graph::default(), known: HashMap::new() };
        for (number, &id) in step.inputs.iter().enumerate() {
            let ty = graph.ty(id).clone();
            let param = GraphNode::new(
                Op::Param(number as u32, ty.clone()),
                ty,
                SmallVec::new(),
                graph.node(id).span,
            );
            let made = alone.made.push(param);
            alone.known.entry(id).or_insert(made);
        }
        for &output in &step.outputs {
            let made = alone.copied(output);
            alone.made.outputs.push(made);
        }
        let read = |&id: &NodeId| Ok((id, read(id)?));
        let inputs: Vec<(NodeId, Value)> = step.inputs.iter().map(read).collect::<Result<_>>()?;
        let params: Vec<Value> = inputs.iter().map(|(_, value)| value.clone()).collect();
        let expected = evaluate_bounded(&alone.made, &params).ok();
        Ok(expected.map(|expected| Check { inputs, expected }))
    }

    /// Compares what the step computed.
    ///
    /// # Errors
    /// [`Error::WrongStep`] for the first element outside its bounds; those of `read`.
    pub fn end(self, graph: &Graph, step: &Step, call: CallOf<'_>, read: Read<'_>) -> Result<()> {
        for (&output, expected) in step.outputs.iter().zip(&self.expected) {
            let found = read(output)?;
            let Some(element) = expected.disagreement(&found, 1.0) else { continue };
            let at = |value: &Value| value.data.scalar(element).as_f64();
            let span = |id: NodeId| call(id).map_or(graph.node(id).span, |call| call.span);
            let operation =
                |id: &NodeId| format!("{} {} at {}", graph.node(*id).op.name(), graph.ty(*id), span(*id));
            let input = |(id, value): &(NodeId, Value)| format!("{} {}", graph.ty(*id), shown(value));
            return Err(Error::WrongStep(Arc::new(WrongStep {
                step: step.name(graph),
                device: step.device,
                shape: graph.ty(output).shape.clone(),
                element,
                expected: at(&expected.value),
                bound: expected.error[element],
                found: at(&found),
                inputs: self.inputs.iter().map(input).collect(),
                operations: step.members.iter().map(operation).collect(),
                span: span(output),
            })));
        }
        Ok(())
    }
}

/// The first values of an input, and how many are not finite.
fn shown(value: &Value) -> String {
    let first: Vec<String> =
        (0..value.data.len().min(SHOWN)).map(|i| value.data.scalar(i).to_string()).collect();
    let more = if value.data.len() > SHOWN { ", .." } else { "" };
    let odd = match &value.data {
        Data::Int(_) => 0,
        Data::Float(data) => data.iter().filter(|x| !x.is_finite()).count(),
    };
    let odd = if odd > 0 { format!(" ({odd} not finite)") } else { String::new() };
    format!("[{}{more}]{odd}", first.join(", "))
}

/// The operations of one step as a graph of their own.
struct Alone<'a> {
    graph: &'a Graph,
    scalars: &'a [u64],
    made: Graph,
    /// Of nodes of the plan's graph, their copies.
    known: HashMap<NodeId, NodeId>,
}

impl Alone<'_> {
    /// The copy of a node with all below it that is not read from memory.
    fn copied(&mut self, id: NodeId) -> NodeId {
        let mut pending = vec![id];
        while let Some(&next) = pending.last() {
            if self.known.contains_key(&next) {
                pending.pop();
                continue;
            }
            // What a node only waits for may be any step's.
            let operands = read_operands(self.graph.node(next));
            let missing: SmallVec<[NodeId; 3]> =
                operands.iter().copied().filter(|operand| !self.known.contains_key(operand)).collect();
            if missing.is_empty() {
                let copy = self.copy(next, operands);
                self.known.insert(next, copy);
            } else {
                pending.extend(missing);
            }
        }
        self.known[&id]
    }

    fn copy(&mut self, id: NodeId, operands: &[NodeId]) -> NodeId {
        let node = self.graph.node(id);
        let operands: SmallVec<[NodeId; 3]> = operands.iter().map(|operand| self.known[operand]).collect();
        if let Op::After = node.op {
            return operands[0];
        }
        let mut copy = GraphNode { kind: node.kind.clone(), operands, span: node.span };
        if let Op::Arg(number, dtype, device) = node.op {
            let bits = self.scalars[number.as_i64() as usize];
            copy = copy.with_op(Op::Const(Scalar::from_bits(bits, dtype), dtype, device));
        }
        self.made.push(copy)
    }
}
