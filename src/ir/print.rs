//! The textual form of a graph, for golden files and for people.
//!
//! One line a node, `%3 = add f32[4, 8] %1, %2`: number, operation with its
//! attributes, type, operands. The device is named where it is not the first
//! CPU. Bodies follow their operation, indented, once each. Spans are left
//! out: the text depends on nothing but the graph.

use std::fmt::{self, Display, Write};

use crate::base::{Device, Precision};
use crate::ir::collect::collect_body;
use crate::ir::graph::{Graph, GraphNode, NodeId};
use crate::ir::op::{ContractDims, Op, PadAxis, ScatterMode, SliceAxis, WindowAxis};
use crate::ir::ty::Type;

impl Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_graph(f, self, 0, &mut Vec::new())
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)?;
        if self.device == Device::cpu() { Ok(()) } else { write!(f, "@{}", self.device) }
    }
}

/// The operation with its attributes: `slice(0..4:2)`, `cast(f16)`.
pub fn describe(op: &Op) -> String {
    let attributes = match op {
        Op::Const(value, ..) | Op::Arg(value, ..) => value.to_string(),
        Op::Iota(..) | Op::Leaf(_) | Op::Alu(_) | Op::Reshape(_) | Op::Expand(_) | Op::After => {
            return op.name().into();
        }
        Op::Param(number, _) => number.to_string(),
        Op::Cast(dtype) | Op::Bitcast(dtype) => dtype.to_string(),
        Op::Permute(axes) | Op::Flip(axes) | Op::Reduce(_, axes) => list(axes),
        Op::Pad(axes) => list(&axes.iter().map(pad_axis).collect::<Vec<_>>()),
        Op::Slice(axes) => list(&axes.iter().map(slice_axis).collect::<Vec<_>>()),
        Op::Window(window) => window_axis(window),
        Op::Unwindow(window, extent) => format!("{}, extent {extent}", window_axis(window)),
        Op::Scan(monoid, axis) => format!("{}, {axis}", monoid.name()),
        Op::Contract(dims) => contract_dims(dims),
        Op::Gather(axis) => axis.to_string(),
        Op::Scatter(axis, mode) => format!("{}, {axis}", mode_name(*mode)),
        Op::Sort { axis, descending, count } => {
            format!("{axis}{}, first {count}", if *descending { ", descending" } else { "" })
        }
        Op::Copy(device) => device.to_string(),
        Op::Collective(collective) => collective.kind.attributes(),
        Op::Pack(packing) => list(&packing.starts),
        Op::Loop(spec, out) => {
            let order = if spec.reverse { ", reverse" } else { "" };
            let (carries, stacked) = (spec.carries, spec.stacked);
            format!("{out}, {} trips, {carries} carries, {stacked} stacked{order}", spec.trips)
        }
        Op::Composite(composite, out) => {
            let mut text = out.to_string();
            for (name, value) in &composite.attributes {
                text += &format!(", {name} {value}");
            }
            text
        }
        Op::Custom(custom, out) => format!("{}, {out}", custom.name()),
    };
    format!("{}({attributes})", op.name())
}

fn list<T: Display>(entries: &[T]) -> String {
    entries.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn pad_axis(axis: &PadAxis) -> String {
    let gaps = if axis.interior == 0 { String::new() } else { format!("/{}", axis.interior) };
    format!("{}+{}{gaps}", axis.lo, axis.hi)
}

fn slice_axis(axis: &SliceAxis) -> String {
    let step = if axis.step == 1 { String::new() } else { format!(":{}", axis.step) };
    format!("{}..{}{step}", axis.start, axis.stop)
}

fn window_axis(window: &WindowAxis) -> String {
    let WindowAxis { axis, size, stride, dilation } = window;
    format!("{axis}, size {size}, stride {stride}, dilation {dilation}")
}

fn contract_dims(dims: &ContractDims) -> String {
    let pairs =
        |pairs: &[(u8, u8)]| pairs.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>().join(" ");
    let axes = match (dims.batch.is_empty(), dims.contract.is_empty()) {
        (true, _) => pairs(&dims.contract),
        (false, true) => format!("batch {}", pairs(&dims.batch)),
        (false, false) => format!("{}, batch {}", pairs(&dims.contract), pairs(&dims.batch)),
    };
    match dims.precision {
        Precision::Strict => format!("{axes}, strict precision"),
        Precision::Highest => axes,
        Precision::High => format!("{axes}, high precision"),
        Precision::Medium => format!("{axes}, medium precision"),
    }
}

fn mode_name(mode: ScatterMode) -> &'static str {
    match mode {
        ScatterMode::Set => "set",
        ScatterMode::Add => "add",
        ScatterMode::Mul => "mul",
        ScatterMode::Max => "max",
        ScatterMode::Min => "min",
    }
}

/// A node's line, without the body that it may have.
pub fn line(graph: &Graph, id: NodeId) -> String {
    let mut text = format!("%{} = ", id.0);
    _ = write_node(&mut text, graph.node(id));
    text
}

/// Writes a graph; `bodies` are the addresses of those written already.
fn write_graph(out: &mut dyn Write, graph: &Graph, indent: usize, bodies: &mut Vec<usize>) -> fmt::Result {
    let margin = " ".repeat(indent);
    for id in graph.ids() {
        write!(out, "{margin}%{} = ", id.0)?;
        write_node(out, graph.node(id))?;
        if let Some(body) = graph.node(id).op.body() {
            let address = std::ptr::from_ref(body) as usize;
            match bodies.iter().position(|&b| b == address) {
                Some(number) => write!(out, " body {number}")?,
                None => {
                    writeln!(out, " body {} {{", bodies.len())?;
                    bodies.push(address);
                    write_graph(out, &collect_body(&body.results), indent + 2, bodies)?;
                    write!(out, "{margin}}}")?;
                }
            }
        }
        writeln!(out)?;
    }
    let outputs: Vec<String> = graph.outputs.iter().map(|o| format!("%{}", o.0)).collect();
    writeln!(out, "{margin}return {}", outputs.join(", "))
}

fn write_node(out: &mut dyn Write, node: &GraphNode) -> fmt::Result {
    write!(out, "{} {}", describe(&node.op), node.ty)?;
    for (i, operand) in node.operands.iter().enumerate() {
        write!(out, "{}%{}", if i == 0 { " " } else { ", " }, operand.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::smallvec;

    use super::*;
    use crate::base::{DType, Scalar, Span};
    use crate::ir::op::{Body, Composite};
    use crate::ir::{AluOp, Monoid, Node, NodeId, infer};

    fn push(graph: &mut Graph, op: Op, operands: &[u32]) -> NodeId {
        let operands: smallvec::SmallVec<[NodeId; 3]> = operands.iter().map(|&o| NodeId(o)).collect();
        let types: Vec<&Type> = operands.iter().map(|&o| graph.ty(o)).collect();
        let ty = infer(&op, &types).expect("a well-typed test");
        graph.push(GraphNode::new(op, ty, operands, Span::caller()))
    }

    fn float(shape: &[usize]) -> Type {
        Type::new(shape, DType::F32, Device::cpu())
    }

    #[test]
    fn a_graph_prints_one_line_a_node() {
        let mut graph = Graph::default();
        push(&mut graph, Op::Param(0, float(&[4, 8])), &[]);
        push(&mut graph, Op::Const(Scalar::Float(2.0), DType::F32, Device::cpu()), &[]);
        push(&mut graph, Op::Alu(AluOp::Mul), &[0, 1]);
        push(&mut graph, Op::Reduce(Monoid::Sum, [1].into()), &[2]);
        push(&mut graph, Op::Pad(Box::new([PadAxis { lo: 1, hi: -1, interior: 2 }])), &[3, 1]);
        push(&mut graph, Op::window(WindowAxis { axis: 0, size: 3, stride: 2, dilation: 1 }), &[4]);
        push(&mut graph, Op::Copy(Device::cuda(1)), &[5]);
        graph.outputs = vec![NodeId(6), NodeId(2)];
        let expected = "\
%0 = param(0) f32[4, 8]
%1 = const(2.0) f32[]
%2 = mul f32[4, 8] %0, %1
%3 = sum(1) f32[4] %2
%4 = pad(1+-1/2) f32[10] %3, %1
%5 = window(0, size 3, stride 2, dilation 1) f32[4, 3] %4
%6 = copy(cuda:1) f32[4, 3]@cuda:1 %5
return %6, %2
";
        assert_eq!(graph.to_string(), expected);
    }

    #[test]
    fn a_body_prints_once() {
        let param = Node::new(Op::Param(0, float(&[2])), float(&[2]), smallvec![], Span::caller());
        let neg = Node::new(Op::Alu(AluOp::Neg), float(&[2]), smallvec![param], Span::caller());
        let body = Body { params: vec![float(&[2])], results: vec![neg] };
        let attributes = vec![("scale", Scalar::Float(0.5))];
        let composite = Arc::new(Composite::new("flip_sign", None, attributes, body));
        let mut graph = Graph::default();
        push(&mut graph, Op::Param(0, float(&[2])), &[]);
        push(&mut graph, Op::Composite(composite.clone(), 0), &[0]);
        push(&mut graph, Op::Composite(composite, 0), &[1]);
        graph.outputs = vec![NodeId(2)];
        let expected = "\
%0 = param(0) f32[2]
%1 = flip_sign(0, scale 0.5) f32[2] %0 body 0 {
  %0 = param(0) f32[2]
  %1 = neg f32[2] %0
  return %1
}
%2 = flip_sign(0, scale 0.5) f32[2] %1 body 0
return %2
";
        assert_eq!(graph.to_string(), expected);
    }
}
