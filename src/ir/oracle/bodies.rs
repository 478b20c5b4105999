//! Operations with several results: loops, composites and custom kernels.

use std::collections::HashMap;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::base::{DType, Error, Result, Scalar};
use crate::ir::collect::collect_body;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::node::Type;
use crate::ir::op::{Composite, Custom, LoopSpec, Op};
use crate::ir::oracle::interpret::interpret;
use crate::ir::oracle::value::{Data, Value};

/// What nodes must share to be results of one run.
type Key = (usize, SmallVec<[NodeId; 3]>);

/// The runs that several nodes take a result of.
pub(super) struct Shared {
    runs: HashMap<Key, Run>,
}

#[derive(Default)]
struct Run {
    /// Nodes that have yet to take their result.
    waiting: usize,
    results: Vec<Rc<Value>>,
}

impl Shared {
    /// Counts, for each run, the nodes that want a result of it.
    pub(super) fn new(graph: &Graph) -> Shared {
        let mut runs: HashMap<Key, Run> = HashMap::new();
        for key in graph.nodes.iter().filter_map(key) {
            runs.entry(key).or_default().waiting += 1;
        }
        Shared { runs }
    }

    /// The result that `node` takes, running the operation at the first call.
    pub(super) fn result(&mut self, node: &GraphNode, operands: &[Rc<Value>]) -> Result<Rc<Value>> {
        let (operation, out) = several(&node.op).expect("an operation with several results");
        let key = key(node).expect("an operation with several results");
        let run = self.runs.entry(key.clone()).or_default();
        if run.results.is_empty() {
            run.results = match operation {
                Several::Loop(spec) => repeat(spec, node, operands)?,
                Several::Composite(composite) => composed(composite, operands)?,
                Several::Custom(custom) => custom_results(custom, node, operands)?,
            };
        }
        let result = run.results[out as usize].clone();
        run.waiting = run.waiting.saturating_sub(1);
        if run.waiting == 0 {
            self.runs.remove(&key);
        }
        Ok(result)
    }
}

/// An operation with several results.
enum Several<'a> {
    Loop(&'a LoopSpec),
    Composite(&'a Composite),
    Custom(&'a dyn Custom),
}

/// An operation with several results, and which one this is.
fn several(op: &Op) -> Option<(Several<'_>, u32)> {
    match op {
        Op::Loop(spec, out) => Some((Several::Loop(spec), *out)),
        Op::Composite(composite, out) => Some((Several::Composite(composite), *out)),
        Op::Custom(custom, out) => Some((Several::Custom(custom.as_ref()), *out)),
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => None,
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Copy(_) | Op::AllReduce(_) => None,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) => None,
        Op::Flip(_) | Op::Window(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) => None,
        Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } => None,
    }
}

fn key(node: &GraphNode) -> Option<Key> {
    let address = match several(&node.op)?.0 {
        Several::Loop(spec) => std::ptr::from_ref(spec) as usize,
        Several::Composite(composite) => std::ptr::from_ref(composite) as usize,
        Several::Custom(custom) => std::ptr::from_ref(custom).cast::<()>() as usize,
    };
    Some((address, node.operands.clone()))
}

fn composed(composite: &Composite, operands: &[Rc<Value>]) -> Result<Vec<Rc<Value>>> {
    interpret(&collect_body(&composite.body.results), operands.to_vec())
}

/// Runs a loop's body; carries and slices are rounded, since a device stores them.
fn repeat(spec: &LoopSpec, node: &GraphNode, operands: &[Rc<Value>]) -> Result<Vec<Rc<Value>>> {
    let body = collect_body(&spec.body.results);
    let round = |value: &Rc<Value>| Rc::new(value.rounded());
    let mut carries: Vec<Rc<Value>> = operands[..spec.carries].iter().map(round).collect();
    let (stacked, invariants) = operands[spec.carries..].split_at(spec.stacked);
    let mut slices: Vec<Vec<Rc<Value>>> = vec![Vec::new(); spec.body.results.len() - spec.carries];
    for trip in 0..spec.trips {
        let trip = if spec.reverse { spec.trips - 1 - trip } else { trip };
        let number = Type::new((), DType::I64, node.ty.device);
        let mut params = vec![Rc::new(Value::new(number, Data::Int(vec![trip as i64])))];
        params.extend(carries.iter().cloned());
        params.extend(stacked.iter().map(|value| Rc::new(slice_of(value, trip))));
        params.extend(invariants.iter().cloned());
        let mut results: Vec<Rc<Value>> = interpret(&body, params)?.iter().map(round).collect();
        for (slices, slice) in slices.iter_mut().zip(results.split_off(spec.carries)) {
            slices.push(slice);
        }
        carries = results;
    }
    let stacks = slices.into_iter().zip(&spec.body.results[spec.carries..]);
    carries.extend(stacks.map(|(slices, result)| Rc::new(stack(spec, slices, result.ty()))));
    Ok(carries)
}

/// Entry `trip` of the leading axis.
fn slice_of(value: &Value, trip: usize) -> Value {
    let ty = Type { shape: value.ty.shape[1..].into(), ..value.ty.clone() };
    let count = ty.shape.numel();
    let range = trip * count..(trip + 1) * count;
    let data = match &value.data {
        Data::Int(data) => Data::Int(data[range].to_vec()),
        Data::Float(data) => Data::Float(data[range].to_vec()),
    };
    Value::new(ty, data)
}

/// Slices along a new leading axis, the first iteration's last when reversed.
fn stack(spec: &LoopSpec, mut slices: Vec<Rc<Value>>, slice: &Type) -> Value {
    if spec.reverse {
        slices.reverse();
    }
    let mut shape = slice.shape.clone();
    shape.0.insert(0, spec.trips);
    let scalars = slices.iter().flat_map(|s| (0..s.data.len()).map(|i| s.data.scalar(i)));
    let data = if slice.dtype.is_float() {
        Data::Float(scalars.map(Scalar::as_f64).collect())
    } else {
        Data::Int(scalars.map(Scalar::as_i64).collect())
    };
    Value::new(Type { shape, ..slice.clone() }, data)
}

fn custom_results(custom: &dyn Custom, node: &GraphNode, operands: &[Rc<Value>]) -> Result<Vec<Rc<Value>>> {
    let failed =
        |message| Error::Kernel { kernel: custom.name().to_string(), device: node.ty.device, message };
    let inputs: Vec<Vec<u8>> = operands.iter().map(|o| o.to_bytes()).collect();
    let types = custom.infer(&operands.iter().map(|o| &o.ty).collect::<Vec<_>>()).map_err(failed)?;
    let mut outputs: Vec<Vec<u8>> = types.iter().map(|ty| vec![0; ty.bytes()]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    custom.run_cpu(&inputs, &mut slices).map_err(failed)?;
    Ok(types.into_iter().zip(&outputs).map(|(ty, bytes)| Rc::new(Value::from_bytes(ty, bytes))).collect())
}
