//! The interpreter's loop: node after node, values dropped after their last
//! use, so that the length of a chain costs neither stack nor memory.

use std::rc::Rc;

use crate::base::Result;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::op::Op;
use crate::ir::oracle::value::Value;
use crate::ir::oracle::{argument, bodies, elementwise, index, movement, reduce};

/// The unrounded values of a graph's outputs.
pub(super) fn interpret(graph: &Graph, params: Vec<Rc<Value>>) -> Result<Vec<Rc<Value>>> {
    let mut uses = count_uses(graph);
    let mut values: Vec<Option<Rc<Value>>> = vec![None; graph.nodes.len()];
    let mut shared = bodies::Shared::new(graph);
    for id in graph.ids() {
        let node = graph.node(id);
        let operands: Vec<Rc<Value>> = node.operands.iter().map(|&o| held(&values, o)).collect();
        let value = value_of(node, &operands, &params, &mut shared)?;
        debug_assert_eq!(value.ty, node.ty);
        values[id.index()] = Some(value);
        for &operand in &node.operands {
            uses[operand.index()] -= 1;
            if uses[operand.index()] == 0 {
                values[operand.index()] = None;
            }
        }
        if uses[id.index()] == 0 {
            values[id.index()] = None;
        }
    }
    Ok(graph.outputs.iter().map(|&output| held(&values, output)).collect())
}

fn count_uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; graph.nodes.len()];
    let operands = graph.nodes.iter().flat_map(|node| &node.operands);
    for id in operands.chain(&graph.outputs) {
        uses[id.index()] += 1;
    }
    uses
}

fn held(values: &[Option<Rc<Value>>], id: NodeId) -> Rc<Value> {
    values[id.index()].clone().expect("a value is held until its last use")
}

fn param(params: &[Rc<Value>], number: u32, node: &GraphNode) -> Result<Rc<Value>> {
    match params.get(number as usize) {
        Some(value) if value.ty == node.ty => Ok(value.clone()),
        Some(value) => Err(argument(
            format!("{} {} as parameter {number}", node.ty.dtype, node.ty.shape),
            format!("{} {}", value.ty.dtype, value.ty.shape),
        )),
        None => Err(argument(format!("parameter {number}"), format!("{} parameters", params.len()))),
    }
}

/// The value of one node; one arm per primitive.
fn value_of(
    node: &GraphNode,
    operands: &[Rc<Value>],
    params: &[Rc<Value>],
    shared: &mut bodies::Shared,
) -> Result<Rc<Value>> {
    let ty = &node.ty;
    let taken = |at: Vec<usize>| operands[0].data.take(&at);
    let shape = || &operands[0].ty.shape;
    let data = match &node.op {
        Op::Const(value, dtype, _) | Op::Arg(value, dtype, _) => elementwise::constant(*value, *dtype),
        Op::Iota(extent, dtype, _) => elementwise::iota(*extent, *dtype),
        Op::Leaf(_) => panic!("a leaf in a dense graph"),
        Op::Param(number, _) => return param(params, *number, node),
        Op::Alu(op) => elementwise::alu(*op, ty, operands),
        Op::Cast(dtype) => elementwise::cast(&operands[0], *dtype),
        Op::Bitcast(dtype) => elementwise::bitcast(&operands[0], *dtype),
        Op::Reshape(_) | Op::AllReduce(_) => operands[0].data.clone(),
        Op::Permute(order) => taken(movement::permute(order, shape(), &ty.shape)),
        Op::Expand(_) => taken(movement::expand(shape(), &ty.shape)),
        Op::Pad(axes) => movement::pad(axes, ty, &operands[0], &operands[1]),
        Op::Slice(axes) => taken(movement::slice(axes, shape(), &ty.shape)),
        Op::Flip(axes) => taken(movement::flip(axes, shape())),
        Op::Window(window) => taken(movement::window(window, shape(), &ty.shape)),
        Op::Unwindow(window, _) => reduce::unwindow(window, ty, &operands[0]),
        Op::Reduce(monoid, axes) => reduce::reduce(*monoid, axes, ty, &operands[0]),
        Op::Scan(monoid, axis) => reduce::scan(*monoid, *axis, &operands[0]),
        Op::Contract(dims) => reduce::contract(dims, ty, &operands[0], &operands[1]),
        Op::Gather(axis) => index::gather(*axis, node.span, &operands[0], &operands[1])?,
        Op::Scatter(axis, mode) => index::scatter(*axis, *mode, node.span, operands)?,
        Op::Sort { axis, descending } => index::sort(*axis, *descending, &operands[0]),
        Op::Copy(_) => operands[0].rounded().data,
        Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => return shared.result(node, operands),
    };
    Ok(Rc::new(Value::new(ty.clone(), data)))
}
