//! Sources, ALU operations and conversions.

use crate::base::{DType, Scalar};
use crate::ir::alu::{AluOp, ResultType};
use crate::ir::oracle::value::{Data, Value, wrap};
use crate::ir::ty::Type;

pub(super) fn constant(value: Scalar, dtype: DType) -> Data {
    data([value.cast(dtype)].into_iter(), dtype)
}

pub(super) fn iota(extent: usize, dtype: DType) -> Data {
    if dtype.is_float() {
        Data::Float((0..extent).map(|i| i as f64).collect())
    } else {
        Data::Int((0..extent).map(|i| wrap(i as i64, dtype)).collect())
    }
}

/// An operation on every element; rank-0 operands extend.
pub(super) fn alu(op: AluOp, ty: &Type, operands: &[&Value]) -> Data {
    let count = ty.shape.numel();
    let steps: Vec<usize> = operands.iter().map(|o| usize::from(o.ty.shape.rank() > 0)).collect();
    if op == AluOp::Where {
        return select(count, &steps, operands);
    }
    let dtype = operands[0].ty.dtype;
    if !dtype.is_float() {
        let operands: Vec<&[i64]> = operands.iter().map(|o| o.data.ints()).collect();
        let eval = |x: &[i64]| op.eval_integer(dtype, x).cast(ty.dtype).as_i64();
        return Data::Int(map(count, &steps, &operands, eval));
    }
    let operands: Vec<&[f64]> = operands.iter().map(|o| o.data.floats()).collect();
    match op.result() {
        ResultType::Same => Data::Float(map(count, &steps, &operands, |x| op.eval_float(x))),
        ResultType::Bool => Data::Int(map(count, &steps, &operands, |x| op.eval_float(x) as i64)),
    }
}

fn map<T: Copy, R>(count: usize, steps: &[usize], operands: &[&[T]], eval: impl Fn(&[T]) -> R) -> Vec<R> {
    let at = |operand: usize, i: usize| operands[operand][i * steps[operand]];
    match operands.len() {
        1 => (0..count).map(|i| eval(&[at(0, i)])).collect(),
        2 => (0..count).map(|i| eval(&[at(0, i), at(1, i)])).collect(),
        arity => panic!("an operation of {arity} operands"),
    }
}

fn select(count: usize, steps: &[usize], operands: &[&Value]) -> Data {
    let condition = operands[0].data.ints();
    let chosen = |i: usize| if condition[i * steps[0]] != 0 { 1 } else { 2 };
    match (&operands[1].data, &operands[2].data) {
        (Data::Int(yes), Data::Int(no)) => {
            let sides = [yes, no];
            Data::Int((0..count).map(|i| sides[chosen(i) - 1][i * steps[chosen(i)]]).collect())
        }
        (Data::Float(yes), Data::Float(no)) => {
            let sides = [yes, no];
            Data::Float((0..count).map(|i| sides[chosen(i) - 1][i * steps[chosen(i)]]).collect())
        }
        (Data::Int(_), Data::Float(_)) | (Data::Float(_), Data::Int(_)) => {
            panic!("inference let where mix types")
        }
    }
}

/// Conversion by value; to the type it has already, nothing.
pub(super) fn cast(operand: &Value, dtype: DType) -> Data {
    if operand.ty.dtype == dtype {
        return operand.data.clone();
    }
    let from = operand.ty.dtype;
    let element = |i| if from == DType::Bool { bool_of(operand, i) } else { operand.data.scalar(i) };
    data((0..operand.data.len()).map(|i| element(i).cast(dtype)), dtype)
}

fn bool_of(operand: &Value, i: usize) -> Scalar {
    Scalar::Bool(operand.data.scalar(i).as_bool())
}

pub(super) fn bitcast(operand: &Value, dtype: DType) -> Data {
    let bits = |i| operand.data.scalar(i).to_bits(operand.ty.dtype);
    data((0..operand.data.len()).map(|i| Scalar::from_bits(bits(i), dtype)), dtype)
}

fn data(elements: impl Iterator<Item = Scalar>, dtype: DType) -> Data {
    if dtype.is_float() {
        Data::Float(elements.map(Scalar::as_f64).collect())
    } else {
        Data::Int(elements.map(Scalar::as_i64).collect())
    }
}
