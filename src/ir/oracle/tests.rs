use std::sync::Arc;

use smallvec::smallvec;

use super::*;
use crate::base::{DType, Device, Scalar, Span};
use crate::ir::collect::collect_body;
use crate::ir::op::{Axes, Body, ContractDims, LoopSpec, Op, PadAxis, ScatterMode, SliceAxis, WindowAxis};
use crate::ir::{AluOp, Monoid, infer};

fn ty(shape: &[usize], dtype: DType) -> Type {
    Type::new(shape, dtype, Device::cpu())
}

fn floats(shape: &[usize], data: &[f64]) -> Value {
    Value::new(ty(shape, DType::F32), Data::Float(data.to_vec()))
}

fn ints(shape: &[usize], dtype: DType, data: &[i64]) -> Value {
    Value::new(ty(shape, dtype), Data::Int(data.to_vec()))
}

fn node(op: Op, operands: &[&Arc<Node>]) -> Arc<Node> {
    let types: Vec<&Type> = operands.iter().map(|o| o.ty()).collect();
    let ty = infer(&op, &types).expect("a well-typed test");
    Node::new(op, ty, operands.iter().map(|&o| o.clone()).collect(), Span::caller())
}

fn param(number: u32, value: &Value) -> Arc<Node> {
    node(Op::Param(number, value.ty.clone()), &[])
}

fn number(value: impl Into<Scalar>, dtype: DType) -> Arc<Node> {
    node(Op::Const(value.into(), dtype, Device::cpu()), &[])
}

/// One primitive on values.
fn run(op: Op, operands: &[&Value]) -> Result<Value> {
    let params: Vec<Arc<Node>> = (0..).zip(operands).map(|(i, value)| param(i, value)).collect();
    let values: Vec<Value> = operands.iter().map(|&value| value.clone()).collect();
    let root = node(op, &params.iter().collect::<Vec<_>>());
    Ok(evaluate(&collect_body(&[root]), &values)?.remove(0))
}

fn float_result(op: Op, operands: &[&Value]) -> Vec<f64> {
    run(op, operands).expect("a run").data.floats().to_vec()
}

fn int_result(op: Op, operands: &[&Value]) -> Vec<i64> {
    run(op, operands).expect("a run").data.ints().to_vec()
}

#[test]
fn integers_wrap_to_their_width() {
    let x = ints(&[3], DType::U8, &[250, 7, 255]);
    let y = ints(&[], DType::U8, &[10]);
    assert_eq!(int_result(Op::Alu(AluOp::Add), &[&x, &y]), [4, 17, 9]);
    assert_eq!(int_result(Op::Alu(AluOp::Not), &[&x]), [5, 248, 0]);
    assert_eq!(int_result(Op::Reduce(Monoid::Sum, [0].into()), &[&x]), [0]);
    let big = ints(&[2], DType::I32, &[i64::from(i32::MAX), 1]);
    assert_eq!(int_result(Op::Scan(Monoid::Sum, 0), &[&big]), [i64::from(i32::MAX), i64::from(i32::MIN)]);
}

#[test]
fn floats_round_at_casts_and_outputs_only() {
    let x = param(0, &floats(&[1], &[1.0]));
    let tiny = number(1e-9, DType::F32);
    let sum = node(Op::Alu(AluOp::Add), &[&x, &tiny]);
    let kept = node(Op::Alu(AluOp::Sub), &[&sum, &x]);
    let wide = node(Op::Cast(DType::F64), &[&sum]);
    let rounded = node(Op::Cast(DType::F32), &[&wide]);
    let lost = node(Op::Alu(AluOp::Sub), &[&rounded, &x]);
    let graph = collect_body(&[kept, lost, sum]);
    let out = evaluate(&graph, &[floats(&[1], &[1.0])]).expect("a run");
    assert!((out[0].data.floats()[0] - 1e-9).abs() < 1e-15);
    assert_eq!(out[1].data.floats(), [0.0]);
    assert_eq!(out[2].data.floats(), [1.0]);
}

#[test]
fn movement_takes_the_right_elements() {
    let x = floats(&[2, 3], &[0., 1., 2., 3., 4., 5.]);
    assert_eq!(float_result(Op::Permute([1, 0].into()), &[&x]), [0., 3., 1., 4., 2., 5.]);
    assert_eq!(float_result(Op::Flip([1].into()), &[&x]), [2., 1., 0., 5., 4., 3.]);
    let columns = [SliceAxis { start: 0, stop: 2, step: 1 }, SliceAxis { start: 0, stop: 3, step: 2 }];
    assert_eq!(float_result(Op::Slice(Box::new(columns)), &[&x]), [0., 2., 3., 5.]);
    let row = floats(&[1, 2], &[7., 8.]);
    assert_eq!(float_result(Op::expand([2, 2, 2]), &[&row]), [7., 8., 7., 8., 7., 8., 7., 8.]);
    let windows = WindowAxis { axis: 1, size: 2, stride: 1, dilation: 1 };
    assert_eq!(float_result(Op::window(windows), &[&x]), [0., 1., 1., 2., 3., 4., 4., 5.]);
}

#[test]
fn padding_crops_and_spreads() {
    let x = floats(&[3], &[1., 2., 3.]);
    let fill = floats(&[], &[9.]);
    let pad = |lo, hi, interior| Op::Pad(Box::new([PadAxis { lo, hi, interior }]));
    let result = |lo, hi, interior| float_result(pad(lo, hi, interior), &[&x, &fill]);
    assert_eq!(result(1, 2, 0), [9., 1., 2., 3., 9., 9.]);
    assert_eq!(result(0, 1, 1), [1., 9., 2., 9., 3., 9.]);
    assert_eq!(result(-1, -1, 1), [9., 2., 9.]);
    assert_eq!(result(-3, 2, 0), [9., 9.]);
}

#[test]
fn unwindow_sums_overlaps() {
    let windows = WindowAxis { axis: 0, size: 3, stride: 1, dilation: 1 };
    let x = floats(&[2, 3], &[1., 2., 3., 10., 20., 30.]);
    assert_eq!(float_result(Op::unwindow(windows, 4), &[&x]), [1., 12., 23., 30.]);
}

#[test]
fn reductions_follow_their_monoids() {
    let x = floats(&[2, 3], &[1., f64::NAN, 3., 4., 5., 5.]);
    let last: Axes = [1].into();
    assert_eq!(int_result(Op::Reduce(Monoid::ArgMax, last.clone()), &[&x]), [1, 1]);
    assert!(float_result(Op::Reduce(Monoid::Max, last.clone()), &[&x])[0].is_nan());
    let y = floats(&[2, 2], &[1., 3., 2., 8.]);
    assert_eq!(float_result(Op::Reduce(Monoid::M2, last.clone()), &[&y]), [2., 18.]);
    let logsumexp = float_result(Op::Reduce(Monoid::LogSumExp, last.clone()), &[&y]);
    assert!((logsumexp[0] - (1f64.exp() + 3f64.exp()).ln()).abs() < 1e-6);
    assert_eq!(int_result(Op::Reduce(Monoid::ArgMax, [1, 0].into()), &[&y]), [3]);
    let empty = floats(&[2, 0], &[]);
    assert_eq!(float_result(Op::Reduce(Monoid::Max, last), &[&empty]), [f64::NEG_INFINITY; 2]);
}

#[test]
fn contraction_keeps_batch_then_free_axes() {
    let a = ints(&[2, 3], DType::I32, &[1, 2, 3, 4, 5, 6]);
    let b = ints(&[2, 3], DType::I32, &[1, 0, 1, 0, 1, 0]);
    let matmul = ContractDims { batch: smallvec![], contract: smallvec![(1, 1)], ..ContractDims::default() };
    assert_eq!(int_result(Op::Contract(Box::new(matmul)), &[&a, &b]), [4, 2, 10, 5]);
    let dots =
        ContractDims { batch: smallvec![(0, 0)], contract: smallvec![(1, 1)], ..ContractDims::default() };
    assert_eq!(int_result(Op::Contract(Box::new(dots)), &[&a, &b]), [4, 5]);
    let columns = ContractDims { batch: smallvec![(1, 1)], contract: smallvec![], ..ContractDims::default() };
    assert_eq!(int_result(Op::Contract(Box::new(columns)), &[&a, &b]), [1, 0, 4, 0, 0, 2, 0, 5, 3, 0, 6, 0]);
}

#[test]
fn gather_and_scatter_refuse_indices_outside() {
    let x = floats(&[2, 2], &[1., 2., 3., 4.]);
    let index = ints(&[1, 2], DType::I64, &[1, 0]);
    assert_eq!(float_result(Op::Gather(0), &[&x, &index]), [3., 2.]);
    let updates = floats(&[1, 2], &[10., 20.]);
    let added = float_result(Op::Scatter(0, ScatterMode::Add), &[&x, &index, &updates]);
    assert_eq!(added, [1., 22., 13., 4.]);
    let outside = ints(&[1, 2], DType::I64, &[0, 2]);
    assert!(matches!(
        run(Op::Gather(0), &[&x, &outside]),
        Err(Error::IndexOutOfRange { index: 2, extent: 2, .. })
    ));
}

#[test]
fn the_last_of_several_updates_wins() {
    let base = ints(&[2], DType::I32, &[0, 0]);
    let index = ints(&[3], DType::I64, &[1, 1, 0]);
    let updates = ints(&[3], DType::I32, &[5, 6, 7]);
    assert_eq!(int_result(Op::Scatter(0, ScatterMode::Set), &[&base, &index, &updates]), [7, 6]);
}

#[test]
fn sorting_is_stable_both_ways() {
    let x = floats(&[5], &[2., f64::NAN, 1., 2., 1.]);
    let sort = |descending, count| Op::Sort { axis: 0, descending, count };
    assert_eq!(int_result(sort(false, 5), &[&x]), [2, 4, 0, 3, 1]);
    assert_eq!(int_result(sort(true, 5), &[&x]), [1, 0, 3, 2, 4]);
    assert_eq!(int_result(sort(false, 3), &[&x]), [2, 4, 0]);
}

#[test]
fn bits_survive_a_bitcast() {
    let x = floats(&[2], &[1.0, -0.0]);
    let bits = int_result(Op::Bitcast(DType::I32), &[&x]);
    assert_eq!(bits, [0x3f80_0000, i64::from(i32::MIN)]);
}

#[test]
fn a_loop_carries_and_stacks() {
    let (carry, slice) = (floats(&[], &[1.]), floats(&[], &[0.]));
    let trip = node(Op::Param(0, ty(&[], DType::I64)), &[]);
    let sum = node(Op::Alu(AluOp::Add), &[&param(1, &carry), &param(2, &slice)]);
    let body = Body {
        params: vec![trip.ty().clone(), carry.ty.clone(), slice.ty.clone()],
        results: vec![sum.clone(), sum, trip],
    };
    let spec = Arc::new(LoopSpec { body, trips: 3, carries: 1, stacked: 1, reverse: true });
    let stacked = floats(&[3], &[10., 20., 30.]);
    let operands = [&carry, &stacked];
    assert_eq!(float_result(Op::Loop(spec.clone(), 0), &operands), [61.]);
    assert_eq!(float_result(Op::Loop(spec.clone(), 1), &operands), [61., 51., 31.]);
    assert_eq!(int_result(Op::Loop(spec, 2), &operands), [0, 1, 2]);
}

#[test]
fn a_long_chain_needs_neither_stack_nor_memory() {
    let mut x = number(0.0, DType::F32);
    let one = number(1.0, DType::F32);
    for _ in 0..200_000 {
        x = node(Op::Alu(AluOp::Add), &[&x, &one]);
    }
    let graph = collect_body(&[x]);
    assert_eq!(evaluate(&graph, &[]).expect("a run")[0].data.floats(), [200_000.0]);
}

#[test]
fn bytes_and_views_round_trip() {
    let x = ints(&[2, 2], DType::I32, &[1, -2, 3, -4]);
    assert_eq!(Value::from_bytes(x.ty.clone(), &x.to_bytes()), x);
    let columns = crate::ir::Layout { offset: 2, strides: smallvec![1, -2] };
    let view = Value::from_view(x.ty.clone(), &x.to_bytes(), &columns);
    assert_eq!(view.data.ints(), [3, 1, -4, -2]);
}

/// One primitive on values, with bounds.
fn bounded(op: Op, operands: &[&Value]) -> Bounded {
    let params: Vec<Arc<Node>> = (0..).zip(operands).map(|(i, value)| param(i, value)).collect();
    let values: Vec<Value> = operands.iter().map(|&value| value.clone()).collect();
    let root = node(op, &params.iter().collect::<Vec<_>>());
    evaluate_bounded(&collect_body(&[root]), &values).expect("a run").remove(0)
}

#[test]
fn sums_of_small_integers_are_exact_in_any_order() {
    let x = floats(&[3], &[1., -2., 3.]);
    let sum = bounded(Op::Reduce(Monoid::Sum, [0].into()), &[&x]);
    assert_eq!(sum.error, [0.0]);
    let x = floats(&[3], &[0.5, 1e7, -1e7]);
    let sum = bounded(Op::Reduce(Monoid::Sum, [0].into()), &[&x]);
    assert!(sum.error[0] > 1.0 && sum.error[0] < 10.0, "{sum:?}");
}

#[test]
fn a_result_outside_its_bound_disagrees() {
    let x = floats(&[2], &[1.0, f64::NAN]);
    let exp = bounded(Op::Alu(AluOp::Exp), &[&x]);
    assert_eq!(exp.error[1], 0.0);
    let close = floats(&[2], &[2.718_281_9, f64::NAN]);
    let far = floats(&[2], &[2.718_29, f64::NAN]);
    let number = floats(&[2], &[2.718_281_9, 0.0]);
    assert_eq!(exp.disagreement(&close, 1.0), None);
    assert_eq!(exp.disagreement(&far, 1.0), Some(0));
    assert_eq!(exp.disagreement(&number, 1.0), Some(1));
    assert_eq!(exp.disagreement(&floats(&[1], &[2.718_281_9]), 1.0), Some(1));
}

#[test]
fn nothing_is_known_beyond_a_jump_or_a_pole() {
    let third = number(1.0 / 3.0, DType::F32);
    let three = number(3.0, DType::F32);
    let one = number(1.0, DType::F32);
    let almost_one = node(Op::Alu(AluOp::Mul), &[&third, &three]);
    let floor = node(Op::Alu(AluOp::Floor), &[&almost_one]);
    let less = node(Op::Alu(AluOp::Lt), &[&almost_one, &one]);
    let rest = node(Op::Alu(AluOp::Sub), &[&almost_one, &one]);
    let pole = node(Op::Alu(AluOp::Recip), &[&rest]);
    let out = evaluate_bounded(&collect_body(&[floor, less, pole]), &[]).expect("a run");
    assert!(out[0].error[0] >= 1.0);
    assert_eq!(out[1].error[0], f64::INFINITY);
    assert_eq!(out[2].error[0], f64::INFINITY);
}
