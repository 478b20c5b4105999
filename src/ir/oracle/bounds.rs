//! Bounds on what a device may differ by, one arm per primitive.
//!
//! Errors travel beside the values as tensors of their own: movement moves
//! them, sums add them. An integer's error is 0, or infinite where it hangs
//! on a float that is not known well enough.

use std::rc::Rc;

use crate::base::{DType, Result, Shape};
use crate::ir::alu::{AluOp, ResultType};
use crate::ir::graph::GraphNode;
use crate::ir::monoid::Monoid;
use crate::ir::op::{Axes, Op, ScatterMode};
use crate::ir::oracle::bounds_alu::{self, grown, least, unit};
use crate::ir::oracle::interpret::primitive;
use crate::ir::oracle::reduce::groups;
use crate::ir::oracle::value::{Data, OracleCell, Value};
use crate::ir::ty::Type;

/// A value, and how far each element of a device's result may be from it.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// The value.
    pub value: Value,
    /// One bound per element; infinite where anything may come out.
    pub error: Vec<f64>,
}

impl Bounded {
    pub(super) fn stored(cell: &OracleCell) -> Bounded {
        let cell = stored(cell);
        Bounded { value: (*cell.value).clone(), error: cell.errors().to_vec() }
    }

    /// The first element of `found` that is farther from the value than
    /// `slack` times the bound. NaN agrees with NaN, `-0` with `+0`.
    pub fn disagreement(&self, found: &Value, slack: f64) -> Option<usize> {
        let (expected, found) = (&self.value.data, &found.data);
        let agrees = |i: &usize| {
            let (x, y) = (expected.scalar(*i), found.scalar(*i));
            let (x, y, error) = (x.as_f64(), y.as_f64(), self.error[*i]);
            error == f64::INFINITY || x == y || (x - y).abs() <= slack * error || x.is_nan() && y.is_nan()
        };
        (0..expected.len().max(found.len())).find(|i| *i >= expected.len().min(found.len()) || !agrees(i))
    }
}

/// The cell as it is after lying in memory.
pub(super) fn stored(cell: &OracleCell) -> OracleCell {
    let value = cell.value.rounded();
    let error = cell.error.as_ref().map(|_| match &cell.value.data {
        Data::Int(_) => cell.errors().to_vec(),
        Data::Float(data) => {
            let pairs = data.iter().zip(cell.errors());
            pairs.map(|(&x, &error)| bounds_alu::stored(x, error, value.ty.dtype)).collect()
        }
    });
    OracleCell { error: error.map(|error| Rc::new(value.errors(error))), value: Rc::new(value) }
}

/// The errors of a primitive's result.
pub(super) fn error(node: &GraphNode, operands: &[OracleCell], value: &Value) -> Result<Value> {
    let errors = match &node.op {
        Op::Const(..) | Op::Arg(..) | Op::Leaf(_) | Op::Param(..) => vec![0.0; value.data.len()],
        Op::Iota(_, dtype, _) => ramp(value, *dtype),
        Op::Alu(op) => alu(*op, operands, value),
        Op::Cast(_) => cast(&operands[0], value),
        Op::Bitcast(_) => bitcast(&operands[0], value),
        Op::Copy(_) => stored(&operands[0]).errors().to_vec(),
        Op::After => operands[0].errors().to_vec(),
        // How far the other ranks' operands may be off is not known here.
        Op::Collective(_) => vec![f64::INFINITY; value.data.len()],
        Op::Pack(_) => on_errors(node, &operands.iter().map(stored).collect::<Vec<_>>())?,
        Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Pad(_) | Op::Slice(_) | Op::Flip(_) => {
            on_errors(node, operands)?
        }
        Op::Window(_) => on_errors(node, operands)?,
        Op::Unwindow(window, _) => sums(node, operands, value, window.size)?,
        Op::Reduce(monoid, axes) => reduce(node, *monoid, axes, &operands[0], value)?,
        Op::Scan(monoid, axis) => {
            let terms = operands[0].value.ty.shape[usize::from(*axis)];
            combined(node, *monoid, operands, value, terms)?
        }
        Op::Contract(dims) => {
            let extent = |pair: &(u8, u8)| operands[0].value.ty.shape[usize::from(pair.0)];
            contract(node, operands, value, dims.contract.iter().map(extent).product())?
        }
        Op::Gather(axis) => gather(node, *axis, operands)?,
        Op::Scatter(axis, mode) => scatter(node, *axis, *mode, operands, value)?,
        Op::Sort { axis, .. } => sort(*axis, &node.ty.shape, &operands[0]),
        Op::Loop(..) | Op::Composite(..) | Op::Custom(..) => panic!("{} has a body", node.op.name()),
    };
    let known = |error: f64| if error.is_nan() { f64::INFINITY } else { error };
    Ok(value.errors(errors.into_iter().map(known).collect()))
}

/// A type of the same shape for errors and magnitudes.
fn wide(ty: &Type) -> Type {
    ty.with_dtype(DType::F64)
}

/// The primitive itself, applied to other operands of type `F64`.
fn applied(node: &GraphNode, operands: &[&Value]) -> Result<Vec<f64>> {
    Ok(primitive(node, &wide(&node.ty), operands)?.floats().to_vec())
}

/// The primitive itself, applied to the errors.
fn on_errors(node: &GraphNode, operands: &[OracleCell]) -> Result<Vec<f64>> {
    let errors: Vec<Value> = operands.iter().map(|cell| cell.value.errors(cell.errors().to_vec())).collect();
    applied(node, &errors.iter().collect::<Vec<_>>())
}

/// The largest magnitudes that the elements may have.
fn magnitudes(cell: &OracleCell) -> Value {
    let sizes = cell.value.to_f64();
    cell.value.errors(sizes.iter().zip(cell.errors()).map(|(x, error)| x.abs() + error).collect())
}

fn ramp(value: &Value, dtype: DType) -> Vec<f64> {
    match &value.data {
        Data::Int(data) => vec![0.0; data.len()],
        Data::Float(data) => data.iter().map(|&x| bounds_alu::stored(x, 0.0, dtype)).collect(),
    }
}

/// 0 if all are, else infinite.
fn all_or_nothing(errors: impl IntoIterator<Item = f64>) -> f64 {
    if errors.into_iter().all(|error| error == 0.0) { 0.0 } else { f64::INFINITY }
}

fn alu(op: AluOp, operands: &[OracleCell], value: &Value) -> Vec<f64> {
    let values: Vec<Vec<f64>> = operands.iter().map(|cell| cell.value.to_f64()).collect();
    let at = |i: usize, operand: usize| if operands[operand].value.ty.shape.rank() == 0 { 0 } else { i };
    let results = value.to_f64();
    let float = operands.last().is_some_and(|cell| cell.value.ty.dtype.is_float());
    let dtype = value.ty.dtype;
    let element = |i: usize| {
        let x: Vec<f64> = (0..operands.len()).map(|o| values[o][at(i, o)]).collect();
        let errors: Vec<f64> = (0..operands.len()).map(|o| operands[o].errors()[at(i, o)]).collect();
        if op == AluOp::Where {
            selected(&x, &errors, dtype)
        } else if !float {
            all_or_nothing(errors)
        } else if op.result() == ResultType::Bool {
            if bounds_alu::doubtful(&x, &errors) { f64::INFINITY } else { 0.0 }
        } else {
            bounds_alu::float(op, &x, &errors, results[i], dtype)
        }
    };
    (0..results.len()).map(element).collect()
}

/// The error of a selection: of either value, if the condition is unknown.
fn selected(x: &[f64], errors: &[f64], dtype: DType) -> f64 {
    if errors[0] == 0.0 {
        errors[if x[0] != 0.0 { 1 } else { 2 }]
    } else if x[1] == x[2] || dtype.is_float() {
        (x[1] - x[2]).abs() + errors[1].max(errors[2])
    } else {
        f64::INFINITY
    }
}

fn cast(operand: &OracleCell, value: &Value) -> Vec<f64> {
    let (from, to) = (operand.value.ty.dtype, value.ty.dtype);
    if from == to {
        return operand.errors().to_vec();
    }
    let (before, after) = (operand.value.to_f64(), value.to_f64());
    let pairs = before.iter().zip(&after).zip(operand.errors());
    pairs.map(|((&x, &y), &error)| bounds_alu::cast(x, error, from, y, to)).collect()
}

/// Bits are known only of what is known exactly; the bits of a subnormal
/// float may be flushed.
fn bitcast(operand: &OracleCell, value: &Value) -> Vec<f64> {
    let flushed = |x: f64, dtype: DType| x != 0.0 && x.abs() < least(dtype);
    let (before, after) = (operand.value.to_f64(), value.to_f64());
    let element = |i: usize| {
        let doubt = flushed(before[i], operand.value.ty.dtype) || flushed(after[i], value.ty.dtype);
        let nan = before[i].is_nan() || after[i].is_nan();
        all_or_nothing([operand.errors()[i], f64::from(u8::from(doubt || nan))])
    };
    (0..after.len()).map(element).collect()
}

/// Whether all operands hold integers that are known exactly.
fn whole(operands: &[OracleCell]) -> bool {
    let exact = |cell: &OracleCell| cell.errors().iter().all(|&error| error == 0.0);
    operands.iter().all(|cell| exact(cell) && cell.value.to_f64().iter().all(|x| x.fract() == 0.0))
}

/// What a sum or product combines.
struct SumTerms {
    /// How many.
    count: usize,
    /// Whether they are integers that are known exactly.
    whole: bool,
    /// The type of the accumulator.
    dtype: DType,
}

impl SumTerms {
    /// SumTerms accumulated in the type that devices compute `value` in.
    fn of(value: &Value, count: usize, whole: bool) -> SumTerms {
        SumTerms { count, whole, dtype: value.ty.dtype.compute() }
    }
}

/// Errors of sums in any order: `passed` through from the elements, whose
/// magnitudes add up to `sizes`.
fn summed(value: &Value, passed: &[f64], sizes: &[f64], terms: &SumTerms) -> Vec<f64> {
    let dtype = value.ty.dtype;
    if !dtype.is_float() {
        return passed.iter().map(|&error| all_or_nothing([error])).collect();
    }
    let results = value.data.floats();
    let element = |i: usize| {
        // Integers that fit the significand add up exactly.
        let kept = bounds_alu::stored(results[i], 0.0, dtype) == 0.0;
        if terms.whole && kept && sizes[i] * unit(terms.dtype) <= 1.0 {
            return 0.0;
        }
        let rounding = terms.count as f64 * (unit(terms.dtype) * sizes[i] + least(dtype));
        let rounding = if results[i].is_finite() { rounding } else { 0.0 };
        grown(results[i], passed[i] + rounding, 2.0, 0.0, dtype)
    };
    (0..results.len()).map(element).collect()
}

/// Errors of a primitive that adds elements of its operand.
fn sums(node: &GraphNode, operands: &[OracleCell], value: &Value, terms: usize) -> Result<Vec<f64>> {
    let passed = on_errors(node, operands)?;
    let sizes = applied(node, &[&magnitudes(&operands[0])])?;
    Ok(summed(value, &passed, &sizes, &SumTerms::of(value, terms, whole(operands))))
}

fn contract(node: &GraphNode, operands: &[OracleCell], value: &Value, terms: usize) -> Result<Vec<f64>> {
    let (a, b) = (&operands[0], &operands[1]);
    let (large_a, large_b) = (magnitudes(a), magnitudes(b));
    let abs_a = a.value.errors(a.value.to_f64().iter().map(|x| x.abs()).collect());
    let errors = |cell: &OracleCell| cell.value.errors(cell.errors().to_vec());
    let left = applied(node, &[&errors(a), &large_b])?;
    let right = applied(node, &[&abs_a, &errors(b)])?;
    let sizes = applied(node, &[&large_a, &large_b])?;
    let passed: Vec<f64> = left.iter().zip(&right).map(|(x, y)| x + y).collect();
    Ok(summed(value, &passed, &sizes, &SumTerms::of(value, terms + 1, whole(operands))))
}

fn reduce(
    node: &GraphNode,
    monoid: Monoid,
    axes: &Axes,
    operand: &OracleCell,
    value: &Value,
) -> Result<Vec<f64>> {
    let shape = &operand.value.ty.shape;
    let terms = axes.iter().map(|&axis| shape[usize::from(axis)]).product();
    match monoid {
        Monoid::ArgMax | Monoid::ArgMin => Ok(argument(monoid, axes, operand, value)),
        Monoid::M2 => Ok(moments(axes, operand, value, terms)),
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min | Monoid::LogSumExp => {
            combined(node, monoid, std::slice::from_ref(operand), value, terms)
        }
    }
}

/// Errors of a reduction or scan.
fn combined(
    node: &GraphNode,
    monoid: Monoid,
    operands: &[OracleCell],
    value: &Value,
    terms: usize,
) -> Result<Vec<f64>> {
    let with = |monoid: Monoid| {
        let op = match &node.op {
            Op::Scan(_, axis) => Op::Scan(monoid, *axis),
            Op::Reduce(_, axes) => Op::Reduce(monoid, axes.clone()),
            other => panic!("{} combines nothing", other.name()),
        };
        node.with_op(op)
    };
    let dtype = value.ty.dtype;
    let results = value.to_f64();
    let largest: Vec<f64> =
        on_errors(&with(Monoid::Max), operands)?.iter().map(|&error| error.max(0.0)).collect();
    if !dtype.is_float() {
        return Ok(largest.iter().map(|&error| all_or_nothing([error])).collect());
    }
    Ok(match monoid {
        Monoid::Sum => sums(node, operands, value, terms)?,
        Monoid::Max | Monoid::Min => largest,
        Monoid::Prod => {
            let sizes = applied(node, &[&magnitudes(&operands[0])])?;
            let passed = |(size, y): (&f64, &f64)| size - y.abs();
            let passed: Vec<f64> = sizes.iter().zip(&results).map(passed).collect();
            summed(value, &passed, &sizes, &SumTerms::of(value, terms, false))
        }
        Monoid::LogSumExp => {
            // A weighted mean of the errors; each weight is off by a few
            // roundings of an exponential and of its argument.
            let rounding = (4.0 * terms as f64 + 24.0) * unit(dtype.compute());
            let pairs = results.iter().zip(&largest);
            pairs
                .map(|(&y, &error)| {
                    grown(y, error + if y.is_finite() { rounding } else { 0.0 }, 8.0, 0.0, dtype)
                })
                .collect()
        }
        Monoid::ArgMax | Monoid::ArgMin | Monoid::M2 => panic!("{} is no scan", monoid.name()),
    })
}

/// A position is known if no other element may be as good as the best.
fn argument(monoid: Monoid, axes: &Axes, operand: &OracleCell, value: &Value) -> Vec<f64> {
    let (to, number) = groups(axes, &operand.value.ty.shape);
    let (x, errors, best) = (operand.value.to_f64(), operand.errors(), value.data.ints());
    let mut at = vec![None; best.len()];
    for i in 0..x.len() {
        if number[i] as i64 == best[to[i]] {
            at[to[i]] = Some(i);
        }
    }
    let mut doubt = vec![0.0; best.len()];
    for i in 0..x.len() {
        let Some(best) = at[to[i]] else { continue };
        let close = i != best && bounds_alu::doubtful(&[x[i], x[best]], &[errors[i], errors[best]]);
        // An element of unknown value may be the best.
        if close || errors[i] == f64::INFINITY {
            doubt[to[i]] = f64::INFINITY;
        }
    }
    debug_assert!(matches!(monoid, Monoid::ArgMax | Monoid::ArgMin));
    doubt
}

/// Sums of squared deviations: each deviation is off by its element's error,
/// the mean's, and a few roundings of either.
fn moments(axes: &Axes, operand: &OracleCell, value: &Value, terms: usize) -> Vec<f64> {
    let (to, _) = groups(axes, &operand.value.ty.shape);
    let (x, errors, results) = (operand.value.data.floats(), operand.errors(), value.data.floats());
    let (dtype, count) = (value.ty.dtype, terms as f64);
    let unit = unit(dtype.compute());
    let mut mean = vec![0.0; results.len()];
    let mut doubt = vec![0.0; results.len()];
    for (i, &to) in to.iter().enumerate() {
        mean[to] += x[i] / count;
        doubt[to] += errors[i] / count + unit * (x[i].abs() + errors[i]);
    }
    let mut passed = vec![0.0; results.len()];
    for (i, &to) in to.iter().enumerate() {
        let off = errors[i] + doubt[to] + 4.0 * unit * (x[i].abs() + mean[to].abs());
        passed[to] += 2.0 * (x[i] - mean[to]).abs() * off + off * off;
    }
    let sizes: Vec<f64> = results.iter().zip(&passed).map(|(y, passed)| y.abs() + passed).collect();
    summed(value, &passed, &sizes, &SumTerms::of(value, terms + 4, false))
}

/// The errors of what the index picks; all of them where it is not known.
fn gather(node: &GraphNode, axis: u8, operands: &[OracleCell]) -> Result<Vec<f64>> {
    let errors = operands[0].value.errors(operands[0].errors().to_vec());
    let index = node.with_op(Op::Gather(axis));
    let picked = applied(&index, &[&errors, &operands[1].value])?;
    let known = operands[1].errors();
    Ok(picked
        .iter()
        .zip(known)
        .map(|(&error, &doubt)| if doubt > 0.0 { f64::INFINITY } else { error })
        .collect())
}

fn scatter(
    node: &GraphNode,
    axis: u8,
    mode: ScatterMode,
    operands: &[OracleCell],
    value: &Value,
) -> Result<Vec<f64>> {
    let (base, index, updates) = (&operands[0], &operands[1], &operands[2]);
    if index.errors().iter().any(|&doubt| doubt > 0.0) {
        return Ok(vec![f64::INFINITY; value.data.len()]);
    }
    let run = |mode: ScatterMode, base: &Value, updates: &Value| {
        let node = node.with_op(Op::Scatter(axis, mode));
        applied(&node, &[base, &index.value, updates])
    };
    let errors = |cell: &OracleCell| cell.value.errors(cell.errors().to_vec());
    if mode == ScatterMode::Set {
        return run(mode, &errors(base), &errors(updates));
    }
    let largest = run(ScatterMode::Max, &errors(base), &errors(updates))?;
    if !value.ty.dtype.is_float() {
        return Ok(largest.iter().map(|&error| all_or_nothing([error])).collect());
    }
    // Each update is rounded in place.
    let count = index.value.ty.shape[usize::from(axis)] + 1;
    let stored = |whole| SumTerms { count, whole, dtype: value.ty.dtype };
    let sizes = run(mode, &magnitudes(base), &magnitudes(updates))?;
    Ok(match mode {
        ScatterMode::Set | ScatterMode::Max | ScatterMode::Min => largest,
        ScatterMode::Add => {
            let passed = run(ScatterMode::Add, &errors(base), &errors(updates))?;
            let whole = whole(&[base.clone(), updates.clone()]);
            summed(value, &passed, &sizes, &stored(whole))
        }
        ScatterMode::Mul => {
            let passed = |(size, y): (&f64, f64)| size - y.abs();
            let passed: Vec<f64> = sizes.iter().zip(value.to_f64()).map(passed).collect();
            summed(value, &passed, &sizes, &stored(false))
        }
    })
}

/// The order of a row is known if no two of its elements may be equal or
/// change places; elements that are known exactly keep theirs if equal.
fn sort(axis: u8, result: &Shape, operand: &OracleCell) -> Vec<f64> {
    let axes: Axes = [axis].into_iter().collect();
    let (row_of, _) = groups(&axes, &operand.value.ty.shape);
    let (x, errors) = (operand.value.to_f64(), operand.errors());
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); row_of.iter().max().map_or(0, |&row| row + 1)];
    row_of.iter().enumerate().for_each(|(i, &row)| rows[row].push(i));
    let doubt: Vec<f64> = rows.iter().map(|row| doubt_of_order(row, &x, errors)).collect();
    groups(&axes, result).0.iter().map(|&row| doubt[row]).collect()
}

fn doubt_of_order(row: &[usize], x: &[f64], errors: &[f64]) -> f64 {
    let mut order = row.to_vec();
    order.sort_by(|&i, &j| x[i].total_cmp(&x[j]));
    let mut highest = (f64::NEG_INFINITY, 0.0);
    for &i in &order {
        let close = highest.1 + errors[i] > 0.0 && x[i] - errors[i] <= highest.0;
        if close || errors[i] == f64::INFINITY {
            return f64::INFINITY;
        }
        if x[i] + errors[i] >= highest.0 {
            highest = (x[i] + errors[i], errors[i]);
        }
    }
    0.0
}
