//! Operations with several results: loops, composites and custom kernels.

use std::collections::HashMap;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::base::{DType, Error, Result};
use crate::ir::collect::collect_body;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::op::{Composite, Custom, LoopSpec, Op};
use crate::ir::oracle::bounds;
use crate::ir::oracle::interpret::interpret;
use crate::ir::oracle::value::{Data, OracleCell, Value};
use crate::ir::ty::Type;

/// What nodes must share to be results of one run.
type RunKey = (usize, SmallVec<[NodeId; 3]>);

/// The runs that several nodes take a result of.
pub(super) struct SharedRuns {
    runs: HashMap<RunKey, OpRun>,
    bounded: bool,
}

#[derive(Default)]
struct OpRun {
    /// Nodes that have yet to take their result.
    waiting: usize,
    results: Vec<OracleCell>,
}

impl SharedRuns {
    /// Counts, for each run, the nodes that want a result of it.
    pub(super) fn new(graph: &Graph, bounded: bool) -> SharedRuns {
        let mut runs: HashMap<RunKey, OpRun> = HashMap::new();
        for key in graph.nodes.iter().filter_map(key) {
            runs.entry(key).or_default().waiting += 1;
        }
        SharedRuns { runs, bounded }
    }

    /// The result that `node` takes, running the operation at the first call;
    /// `None` if it is not such an operation.
    pub(super) fn result(&mut self, node: &GraphNode, operands: &[OracleCell]) -> Option<Result<OracleCell>> {
        let (operation, out) = several(&node.op)?;
        Some(self.run(&operation, key(node)?, node, operands).map(|results| results[out as usize].clone()))
    }

    fn run(
        &mut self,
        operation: &Several<'_>,
        key: RunKey,
        node: &GraphNode,
        operands: &[OracleCell],
    ) -> Result<Vec<OracleCell>> {
        let run = self.runs.entry(key.clone()).or_default();
        if run.results.is_empty() {
            run.results = match operation {
                Several::Loop(spec) => repeat(spec, node, operands, self.bounded)?,
                Several::Composite(composite) => {
                    interpret(&collect_body(&composite.body.results), operands, self.bounded)?
                }
                Several::Custom(custom) => custom_results(*custom, node, operands, self.bounded)?,
            };
        }
        run.waiting = run.waiting.saturating_sub(1);
        if run.waiting > 0 {
            return Ok(run.results.clone());
        }
        Ok(self.runs.remove(&key).map(|run| run.results).unwrap_or_default())
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
        Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_) | Op::Copy(_) | Op::Collective(_) | Op::After => None,
        Op::Pack(_) => None,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) => None,
        Op::Flip(_) | Op::Window(_) | Op::Unwindow(..) | Op::Reduce(..) | Op::Scan(..) => None,
        Op::Contract(_) | Op::Gather(_) | Op::Scatter(..) | Op::Sort { .. } => None,
    }
}

fn key(node: &GraphNode) -> Option<RunKey> {
    let address = match several(&node.op)?.0 {
        Several::Loop(spec) => std::ptr::from_ref(spec) as usize,
        Several::Composite(composite) => std::ptr::from_ref(composite) as usize,
        Several::Custom(custom) => std::ptr::from_ref(custom).cast::<()>() as usize,
    };
    Some((address, node.operands.clone()))
}

/// Runs a loop's body; carries and slices are rounded, since a device stores them.
fn repeat(
    spec: &LoopSpec,
    node: &GraphNode,
    operands: &[OracleCell],
    bounded: bool,
) -> Result<Vec<OracleCell>> {
    let body = collect_body(&spec.body.results);
    let mut carries: Vec<OracleCell> = operands[..spec.carries].iter().map(bounds::stored).collect();
    let (stacked, invariants) = operands[spec.carries..].split_at(spec.stacked);
    let mut slices: Vec<Vec<OracleCell>> = vec![Vec::new(); spec.body.results.len() - spec.carries];
    for trip in 0..spec.trips {
        let trip = if spec.reverse { spec.trips - 1 - trip } else { trip };
        let number = Type::new((), DType::I64, node.ty.device);
        let mut params = vec![OracleCell::certain(Value::new(number, Data::Int(vec![trip as i64])), bounded)];
        params.extend(carries.iter().cloned());
        params.extend(stacked.iter().map(|cell| cell.moved(|value| slice_of(value, trip))));
        params.extend(invariants.iter().cloned());
        let mut results: Vec<OracleCell> =
            interpret(&body, &params, bounded)?.iter().map(bounds::stored).collect();
        for (slices, slice) in slices.iter_mut().zip(results.split_off(spec.carries)) {
            slices.push(slice);
        }
        carries = results;
    }
    for (mut slices, result) in slices.into_iter().zip(&spec.body.results[spec.carries..]) {
        if spec.reverse {
            slices.reverse();
        }
        let values: Vec<&Value> = slices.iter().map(|cell| &*cell.value).collect();
        let value = Rc::new(stack(&values, result.ty()));
        let errors: Option<Vec<&Value>> = slices.iter().map(|cell| cell.error.as_deref()).collect();
        let ty = result.ty().with_dtype(DType::F64);
        let error = errors.filter(|_| bounded).map(|errors| Rc::new(stack(&errors, &ty)));
        carries.push(OracleCell { value, error });
    }
    Ok(carries)
}

/// Entry `trip` of the leading axis.
fn slice_of(value: &Value, trip: usize) -> Value {
    let ty = value.ty.with_shape(&value.ty.shape[1..]);
    let count = ty.shape.numel();
    let range = trip * count..(trip + 1) * count;
    let data = match &value.data {
        Data::Int(data) => Data::Int(data[range].to_vec()),
        Data::Float(data) => Data::Float(data[range].to_vec()),
    };
    Value::new(ty, data)
}

/// Slices along a new leading axis.
fn stack(slices: &[&Value], slice: &Type) -> Value {
    let mut shape = slice.shape.clone();
    shape.0.insert(0, slices.len());
    let data = if slice.dtype.is_float() {
        Data::Float(slices.iter().flat_map(|slice| slice.data.floats()).copied().collect())
    } else {
        Data::Int(slices.iter().flat_map(|slice| slice.data.ints()).copied().collect())
    };
    Value::new(slice.with_shape(shape), data)
}

fn custom_results(
    custom: &dyn Custom,
    node: &GraphNode,
    operands: &[OracleCell],
    bounded: bool,
) -> Result<Vec<OracleCell>> {
    let failed = |message| Error::Kernel {
        kernel: custom.name().to_string(),
        device: node.ty.device,
        message,
        span: None,
    };
    let inputs: Vec<Vec<u8>> = operands.iter().map(|o| o.value.to_bytes()).collect();
    let types = custom.infer(&operands.iter().map(|o| &o.value.ty).collect::<Vec<_>>()).map_err(failed)?;
    let mut outputs: Vec<Vec<u8>> = types.iter().map(|ty| vec![0; ty.bytes()]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut slices: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    custom.run_cpu(&inputs, &mut slices).map_err(failed)?;
    // Of what the kernel does with an error, nothing is known.
    let certain = !bounded || operands.iter().all(|o| o.errors().iter().all(|&error| error == 0.0));
    let cell = |(ty, bytes): (Type, &Vec<u8>)| {
        let value = Value::from_bytes(ty, bytes);
        let error = if certain { 0.0 } else { f64::INFINITY };
        let error = bounded.then(|| Rc::new(value.errors(vec![error; value.data.len()])));
        OracleCell { value: Rc::new(value), error }
    };
    Ok(types.into_iter().zip(&outputs).map(cell).collect())
}
