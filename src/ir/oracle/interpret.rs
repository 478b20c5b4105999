//! The interpreter's loop: node after node, values dropped after their last
//! use, so that the length of a chain costs neither stack nor memory.

use std::rc::Rc;

use crate::base::Result;
use crate::ir::collective::Collective;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::op::Op;
use crate::ir::oracle::value::{Data, OracleCell, Value};
use crate::ir::oracle::{argument, bodies, bounds, elementwise, index, movement, reduce};
use crate::ir::ty::Type;

/// The unrounded values of a graph's outputs, with error bounds if `bounded`.
pub(super) fn interpret(graph: &Graph, params: &[OracleCell], bounded: bool) -> Result<Vec<OracleCell>> {
    let mut uses = count_uses(graph);
    let mut cells: Vec<Option<OracleCell>> = vec![None; graph.nodes.len()];
    let mut shared = bodies::SharedRuns::new(graph, bounded);
    for id in graph.ids() {
        let node = graph.node(id);
        let operands: Vec<OracleCell> = node.operands.iter().map(|&o| held(&cells, o)).collect();
        let cell = cell_of(node, &operands, params, &mut shared, bounded)?;
        debug_assert_eq!(cell.value.ty, node.ty);
        cells[id.index()] = Some(cell);
        for &operand in &node.operands {
            uses[operand.index()] -= 1;
            if uses[operand.index()] == 0 {
                cells[operand.index()] = None;
            }
        }
        if uses[id.index()] == 0 {
            cells[id.index()] = None;
        }
    }
    Ok(graph.outputs.iter().map(|&output| held(&cells, output)).collect())
}

fn count_uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; graph.nodes.len()];
    let operands = graph.nodes.iter().flat_map(|node| &node.operands);
    for id in operands.chain(&graph.outputs) {
        uses[id.index()] += 1;
    }
    uses
}

fn held(cells: &[Option<OracleCell>], id: NodeId) -> OracleCell {
    cells[id.index()].clone().expect("a value is held until its last use")
}

fn param(params: &[OracleCell], number: u32, node: &GraphNode) -> Result<OracleCell> {
    match params.get(number as usize) {
        Some(cell) if cell.value.ty == node.ty => Ok(cell.clone()),
        Some(cell) => Err(argument(format!("{} as parameter {number}", node.ty), cell.value.ty.to_string())),
        None => Err(argument(format!("parameter {number}"), format!("{} parameters", params.len()))),
    }
}

fn cell_of(
    node: &GraphNode,
    operands: &[OracleCell],
    params: &[OracleCell],
    shared: &mut bodies::SharedRuns,
    bounded: bool,
) -> Result<OracleCell> {
    if let Op::Param(number, _) = &node.op {
        return param(params, *number, node);
    }
    if let Some(result) = shared.result(node, operands) {
        return result;
    }
    let values: Vec<&Value> = operands.iter().map(|cell| &*cell.value).collect();
    let value = Value::new(node.ty.clone(), primitive(node, &node.ty, &values)?);
    let error = if bounded { Some(Rc::new(bounds::error(node, operands, &value)?)) } else { None };
    Ok(OracleCell { value: Rc::new(value), error })
}

/// The elements of a primitive without a body, the result having type `ty`;
/// one arm each.
pub(super) fn primitive(node: &GraphNode, ty: &Type, operands: &[&Value]) -> Result<Data> {
    let taken = |at: Vec<usize>| operands[0].data.take(&at);
    let shape = || &operands[0].ty.shape;
    Ok(match &node.op {
        Op::Const(value, dtype, _) | Op::Arg(value, dtype, _) => elementwise::constant(*value, *dtype),
        Op::Iota(extent, dtype, _) => elementwise::iota(*extent, *dtype),
        Op::Alu(op) => elementwise::alu(*op, ty, operands),
        Op::Cast(dtype) => elementwise::cast(operands[0], *dtype),
        Op::Bitcast(dtype) => elementwise::bitcast(operands[0], *dtype),
        Op::Reshape(_) | Op::After => operands[0].data.clone(),
        Op::Permute(order) => taken(movement::permute(order, shape(), &ty.shape)),
        Op::Expand(_) => taken(movement::expand(shape(), &ty.shape)),
        Op::Pad(axes) => movement::pad(axes, ty, operands[0], operands[1]),
        Op::Slice(axes) => taken(movement::slice(axes, shape(), &ty.shape)),
        Op::Flip(axes) => taken(movement::flip(axes, shape())),
        Op::Window(window) => taken(movement::window(window, shape(), &ty.shape)),
        Op::Unwindow(window, _) => reduce::unwindow(window, ty, operands[0]),
        Op::Reduce(monoid, axes) => reduce::reduce(*monoid, axes, ty, operands[0]),
        Op::Scan(monoid, axis) => reduce::scan(*monoid, *axis, operands[0]),
        Op::Contract(dims) => reduce::contract(dims, ty, operands[0], operands[1]),
        Op::Gather(axis) => index::gather(*axis, node.span, operands[0], operands[1])?,
        Op::Scatter(axis, mode) => index::scatter(*axis, *mode, node.span, operands)?,
        Op::Sort { axis, descending, .. } => index::sort(*axis, *descending, ty, operands[0]),
        Op::Copy(_) => operands[0].rounded().data,
        Op::Collective(collective) => among_ranks(collective, node, operands[0])?,
        Op::Pack(packing) => movement::pack(packing, operands),
        Op::Leaf(_) | Op::Param(..) | Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => {
            panic!("{} reached the primitives", node.op.name())
        }
    })
}

/// What the ranks of a group compute together: the others run their oracles.
fn among_ranks(collective: &Collective, node: &GraphNode, operand: &Value) -> Result<Data> {
    let Some(channel) = &collective.channel else { panic!("{} of no group", collective.kind) };
    let bytes = channel.run(collective.kind, &operand.ty, node.span, &operand.rounded().to_bytes())?;
    Ok(Value::from_bytes(node.ty.clone(), &bytes).data)
}
