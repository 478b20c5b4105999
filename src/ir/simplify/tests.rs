use super::*;
use crate::base::{DType, Device, Scalar, Span};
use crate::ir::monoid::Monoid;
use crate::ir::op::{PadAxis, SliceAxis, WindowAxis};
use crate::ir::rewrite::{DROPPED, cse};
use crate::ir::ty::Type;
use crate::ir::verify::verify;

/// A graph under construction, without merging or rules.
struct Sketch(GraphBuilder);

impl Sketch {
    fn new() -> Sketch {
        Sketch(GraphBuilder::new(&[]))
    }
    fn param(&mut self, shape: &[usize], dtype: DType) -> NodeId {
        let number = self.0.graph.nodes.len() as u32;
        self.op(Op::Param(number, Type::new(shape, dtype, Device::cpu())), &[])
    }
    fn number(&mut self, value: impl Into<Scalar>, dtype: DType) -> NodeId {
        self.op(Op::Const(value.into(), dtype, Device::cpu()), &[])
    }
    fn op(&mut self, op: Op, operands: &[NodeId]) -> NodeId {
        self.0.add(op, operands, Span::caller())
    }
    fn alu(&mut self, op: AluOp, operands: &[NodeId]) -> NodeId {
        self.op(Op::Alu(op), operands)
    }
    /// The simplified graph with this output, as text.
    fn simplified(mut self, output: NodeId) -> String {
        self.0.graph.outputs = vec![output];
        let (graph, _) = simplify(&self.0.graph);
        assert_eq!(verify(&graph), []);
        graph.to_string()
    }
}

/// What a binary operation on a parameter and a number simplifies to.
fn with_number(op: AluOp, dtype: DType, value: impl Into<Scalar>) -> String {
    let mut g = Sketch::new();
    let x = g.param(&[3], dtype);
    let c = g.number(value, dtype);
    let y = g.alu(op, &[x, c]);
    g.simplified(y)
}

fn unchanged(dtype: DType) -> String {
    format!("%0 = param(0) {dtype}[3]\nreturn %0\n")
}

fn one_op(dtype: DType, op: &str) -> String {
    format!("%0 = param(0) {dtype}[3]\n%1 = {op} {dtype}[3] %0\nreturn %1\n")
}

#[test]
fn units_vanish() {
    let float = unchanged(DType::F32);
    assert_eq!(with_number(AluOp::Add, DType::F32, -0.0), float);
    assert_eq!(with_number(AluOp::Sub, DType::F32, 0.0), float);
    assert_eq!(with_number(AluOp::Mul, DType::F32, 1.0), float);
    assert_eq!(with_number(AluOp::Div, DType::F32, 1.0), float);
    assert_eq!(with_number(AluOp::Pow, DType::F32, 1.0), float);
    let int = unchanged(DType::I32);
    assert_eq!(with_number(AluOp::Add, DType::I32, 0), int);
    assert_eq!(with_number(AluOp::And, DType::I32, -1), int);
    assert_eq!(with_number(AluOp::Shl, DType::I32, 0), int);
    assert_eq!(with_number(AluOp::Eq, DType::Bool, true), unchanged(DType::Bool));
}

#[test]
fn the_sign_of_zero_is_kept() {
    assert!(with_number(AluOp::Add, DType::F32, 0.0).contains("add"));
    assert!(with_number(AluOp::Sub, DType::F32, -0.0).contains("sub"));
    assert!(with_number(AluOp::Mul, DType::F32, 0.0).contains("mul"));
    assert!(with_number(AluOp::Pow, DType::F32, 0.5).contains("pow"));
}

#[test]
fn powers_and_quotients_become_cheaper() {
    assert!(with_number(AluOp::Pow, DType::F32, 2.0).contains("= mul f32[3] %0, %0"));
    assert_eq!(with_number(AluOp::Pow, DType::F32, -1.0), one_op(DType::F32, "reciprocal"));
    assert!(with_number(AluOp::Div, DType::F32, 8.0).contains("const(0.125)"));
    assert!(with_number(AluOp::Div, DType::F32, 3.0).contains("div"));
    let mut g = Sketch::new();
    let x = g.param(&[3], DType::F32);
    let x = g.alu(AluOp::Abs, &[x]);
    let half = g.number(0.5, DType::F32);
    let root = g.alu(AluOp::Pow, &[x, half]);
    assert!(g.simplified(root).contains("sqrt"));
}

#[test]
fn numbers_fold_and_go_right() {
    let mut g = Sketch::new();
    let x = g.param(&[3], DType::I32);
    let (two, three) = (g.number(2, DType::I32), g.number(3, DType::I32));
    let sum = g.alu(AluOp::Add, &[two, x]);
    let sum = g.alu(AluOp::Add, &[three, sum]);
    let expected = "%0 = param(0) i32[3]\n%1 = const(5) i32[]\n%2 = add i32[3] %0, %1\nreturn %2\n";
    assert_eq!(g.simplified(sum), expected);
}

#[test]
fn repeated_numbers_are_computed_once() {
    let mut g = Sketch::new();
    let c = g.number(2.0, DType::F32);
    let full = g.op(Op::expand([4, 4]), &[c]);
    let square = g.alu(AluOp::Mul, &[full, full]);
    let row = g.op(Op::Reduce(Monoid::Sum, [1].into()), &[square]);
    let expected = "%0 = const(16.0) f32[]\n%1 = expand f32[4] %0\nreturn %1\n";
    assert_eq!(g.simplified(row), expected);
}

#[test]
fn lifted_numbers_are_seen_by_no_rule() {
    let mut g = Sketch::new();
    let x = g.param(&[3], DType::F32);
    let one = || Op::Arg(Scalar::Float(1.0), DType::F32, Device::cpu());
    let (a, b) = (g.op(one(), &[]), g.op(one(), &[]));
    let product = g.alu(AluOp::Mul, &[x, a]);
    let product = g.alu(AluOp::Mul, &[product, b]);
    let expected = "\
%0 = param(0) f32[3]
%1 = arg(1.0) f32[]
%2 = arg(1.0) f32[]
%3 = mul f32[3] %0, %1
%4 = mul f32[3] %3, %2
return %4
";
    assert_eq!(g.simplified(product), expected);
}

#[test]
fn casts_that_lose_nothing_vanish() {
    let chain = |from, through, to| {
        let mut g = Sketch::new();
        let x = g.param(&[3], from);
        let y = g.op(Op::Cast(through), &[x]);
        let y = g.op(Op::Cast(to), &[y]);
        g.simplified(y)
    };
    assert_eq!(chain(DType::F16, DType::F32, DType::F16), unchanged(DType::F16));
    assert_eq!(chain(DType::I32, DType::F64, DType::I32), unchanged(DType::I32));
    assert_eq!(chain(DType::I32, DType::U32, DType::I32), unchanged(DType::I32));
    assert_eq!(chain(DType::I64, DType::I32, DType::U8).matches("cast").count(), 1);
    assert_eq!(chain(DType::I32, DType::F32, DType::I32).matches("cast").count(), 2);
    assert_eq!(chain(DType::F32, DType::F16, DType::F32).matches("cast").count(), 2);
    // 2^31 becomes -2^31 either way, and 2^32 - 1 becomes -1 only where it wraps.
    assert_eq!(chain(DType::U32, DType::F64, DType::I32).matches("cast").count(), 2);
    assert_eq!(chain(DType::I32, DType::F64, DType::I64).matches("cast").count(), 1);
}

#[test]
fn a_rounding_cast_of_a_computed_float_stays() {
    let mut g = Sketch::new();
    let x = g.param(&[3], DType::F16);
    let y = g.alu(AluOp::Exp, &[x]);
    let y = g.op(Op::Cast(DType::F32), &[y]);
    let y = g.op(Op::Cast(DType::F16), &[y]);
    assert_eq!(g.simplified(y).matches("cast").count(), 2);
}

#[test]
fn movement_composes() {
    let mut g = Sketch::new();
    let x = g.param(&[2, 3, 4], DType::F32);
    let y = g.op(Op::Permute([2, 0, 1].into()), &[x]);
    let y = g.op(Op::Permute([1, 2, 0].into()), &[y]);
    let y = g.op(Op::reshape([6, 4]), &[y]);
    let y = g.op(Op::reshape([2, 12]), &[y]);
    let y = g.op(Op::Flip([0].into()), &[y]);
    let y = g.op(Op::Flip([0, 1].into()), &[y]);
    let expected = "\
%0 = param(0) f32[2, 3, 4]
%1 = reshape f32[2, 12] %0
%2 = flip(1) f32[2, 12] %1
return %2
";
    assert_eq!(g.simplified(y), expected);
}

#[test]
fn windows_that_do_not_overlap_give_back_by_movement() {
    let text = |size: usize, stride: usize, extent: usize| {
        let mut g = Sketch::new();
        let x = g.param(&[3, 4, size], DType::F32);
        let window = WindowAxis { axis: 0, size, stride, dilation: 1 };
        let back = g.op(Op::Unwindow(window.into(), extent), &[x]);
        g.simplified(back)
    };
    let side_by_side = text(2, 2, 6);
    assert!(!side_by_side.contains("unwindow") && !side_by_side.contains("pad"), "{side_by_side}");
    assert!(side_by_side.contains("= add "), "{side_by_side}");
    assert_eq!(text(2, 3, 8).matches("pad").count(), 1);
    assert!(text(2, 3, 10).contains("pad") && text(3, 2, 7).contains("unwindow"));
}

#[test]
fn nothing_is_read_for_a_value_without_elements() {
    let mut g = Sketch::new();
    let x = g.param(&[3], DType::F32);
    let y = g.op(Op::Slice(Box::new([SliceAxis { start: 1, stop: 1, step: 1 }])), &[x]);
    assert_eq!(g.simplified(y), "%0 = const(0.0) f32[]\n%1 = expand f32[0] %0\nreturn %1\n");
}

#[test]
fn the_inside_of_a_pad_is_not_padded() {
    let mut g = Sketch::new();
    let x = g.param(&[6], DType::F32);
    let zero = g.number(0.0, DType::F32);
    let y = g.op(Op::Pad(Box::new([PadAxis { lo: 2, hi: 3, interior: 0 }])), &[x, zero]);
    let y = g.op(Op::Slice(Box::new([SliceAxis { start: 3, stop: 8, step: 2 }])), &[y]);
    let y = g.op(Op::Slice(Box::new([SliceAxis { start: 1, stop: 3, step: 1 }])), &[y]);
    let expected = "%0 = param(0) f32[6]\n%1 = slice(3..6:2) f32[2] %0\nreturn %1\n";
    assert_eq!(g.simplified(y), expected);
}

#[test]
fn reductions_of_single_elements_reshape() {
    let mut g = Sketch::new();
    let x = g.param(&[3, 1], DType::F32);
    let y = g.op(Op::Reduce(Monoid::Max, [1].into()), &[x]);
    assert_eq!(g.simplified(y), "%0 = param(0) f32[3, 1]\n%1 = reshape f32[3] %0\nreturn %1\n");
}

#[test]
fn selections_that_are_decided_vanish() {
    let mut g = Sketch::new();
    let (x, c) = (g.param(&[3], DType::F32), g.param(&[3], DType::Bool));
    let not = g.alu(AluOp::Not, &[c]);
    let no = g.number(0.0, DType::F32);
    let y = g.alu(AluOp::Where, &[not, x, no]);
    let yes = g.number(true, DType::Bool);
    let y = g.alu(AluOp::Where, &[yes, y, x]);
    let expected = "\
%0 = param(0) f32[3]
%1 = param(1) bool[3]
%2 = const(0.0) f32[]
%3 = where f32[3] %1, %2, %0
return %3
";
    assert_eq!(g.simplified(y), expected);
}

#[test]
fn masks_made_of_numbers_are_the_conditions_they_were_made_of() {
    for (op, bound, first, expected) in [
        (AluOp::Lt, 0.5, true, "return %0\n"),
        (AluOp::Lt, 0.5, false, "%1 = bitwise_not bool[3] %0\nreturn %1\n"),
        (AluOp::Eq, 0.0, false, "%1 = bitwise_not bool[3] %0\nreturn %1\n"),
        (AluOp::Lt, 2.0, false, "%0 = const(true) bool[]\n%1 = expand bool[3] %0\nreturn %1\n"),
    ] {
        let mut g = Sketch::new();
        let c = g.param(&[3], DType::Bool);
        let (one, zero, bound) =
            (g.number(1.0, DType::F32), g.number(0.0, DType::F32), g.number(bound, DType::F32));
        let mask = g.alu(AluOp::Where, &[c, one, zero]);
        let y = g.alu(op, &if first { [bound, mask] } else { [mask, bound] });
        let text = g.simplified(y);
        assert!(text.ends_with(expected), "{text}");
    }
}

#[test]
fn equal_nodes_merge_and_unneeded_ones_go() {
    let mut graph = Graph::default();
    let ty = Type::new([3], DType::F32, Device::cpu());
    let mut push = |op: Op, operands: &[u32]| {
        let operands: Vec<NodeId> = operands.iter().map(|&o| NodeId(o)).collect();
        graph.push(GraphNode::new(op, ty.clone(), operands, Span::caller()))
    };
    push(Op::Param(0, ty.clone()), &[]);
    push(Op::Param(1, ty.clone()), &[]);
    push(Op::Alu(AluOp::Add), &[0, 1]);
    push(Op::Alu(AluOp::Exp), &[0]);
    push(Op::Alu(AluOp::Add), &[1, 0]);
    push(Op::Alu(AluOp::Mul), &[2, 4]);
    graph.outputs = vec![NodeId(5), NodeId(4)];
    let (merged, map) = cse(&graph);
    let expected = "\
%0 = param(0) f32[3]
%1 = param(1) f32[3]
%2 = add f32[3] %0, %1
%3 = mul f32[3] %2, %2
return %3, %2
";
    assert_eq!(merged.to_string(), expected);
    assert_eq!(map, [0, 1, 2, DROPPED.0, 2, 3].map(NodeId));
    assert_eq!(merged.node(NodeId(2)).span, graph.nodes[2].span);
}

#[test]
fn rule_names_are_unique() {
    let names: std::collections::HashSet<&str> = rules().iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), rules().len());
}
