//! How errors pass through scalar operations, and what rounding adds.
//!
//! An element is known as an interval: the value plus or minus its error. A
//! monotone function takes its extremes at the interval's ends, so the bound
//! there is evaluated, not linearised; near a jump or a pole it is infinite,
//! which stands for "anything may come out".

use crate::base::DType;
use crate::ir::alu::AluOp;
use crate::ir::oracle::value::round;

/// Half the distance from 1 to the next number: the relative error of one
/// rounding. Doubled for `F64`, in which the oracle itself rounds.
pub(super) fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F32 => 2f64.powi(-24),
        DType::F64 => 2f64.powi(-52),
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => 0.0,
    }
}

/// The least normal number: devices may take anything smaller for 0.
pub(super) fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::BF16 | DType::F32 => 2f64.powi(-126),
        DType::F64 => f64::MIN_POSITIVE,
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => 0.0,
    }
}

/// Beyond this a device may overflow.
fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65_504.0,
        DType::BF16 => 3.38e38,
        DType::F32 => f64::from(f32::MAX),
        DType::F64 => f64::MAX,
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => f64::INFINITY,
    }
}

/// The error of `y` after rounding it: its error before, plus `steps`
/// roundings of the compute type, plus one of `dtype` itself, plus `absolute`.
pub(super) fn grown(y: f64, error: f64, steps: f64, absolute: f64, dtype: DType) -> f64 {
    let compute = dtype.compute();
    let stored = if compute == dtype { 0.0 } else { unit(dtype) };
    let size = y.abs() + error;
    let grown = error + (steps * unit(compute) + stored) * size + absolute + least(dtype);
    if y.is_finite() && size + grown <= greatest(dtype) {
        grown
    } else if !y.is_finite() && error == 0.0 {
        0.0
    } else {
        f64::INFINITY
    }
}

/// The error of `y` stored as an element of `dtype`.
pub(super) fn stored(y: f64, error: f64, dtype: DType) -> f64 {
    let kept = error == 0.0 && round(y, dtype).to_bits() == y.to_bits();
    // A value beyond the type's range is infinite, whatever its error.
    if kept || y.is_nan() && error == 0.0 { 0.0 } else { grown(y, error, 1.0, unit(dtype) * y.abs(), dtype) }
}

/// The error of `y`, the result of a float operation on these operands.
pub(super) fn float(op: AluOp, x: &[f64], errors: &[f64], y: f64, dtype: DType) -> f64 {
    let settled = x.iter().zip(errors).any(|(x, &error)| x.is_nan() && error == 0.0);
    if settled && y.is_nan() {
        return 0.0;
    }
    let passed = passed(op, x, errors, y);
    let passed = if passed.is_nan() { f64::INFINITY } else { passed };
    let (steps, absolute) = rounding(op, x, dtype);
    let exact = passed == 0.0 && steps <= 1.0 && round(y, dtype).to_bits() == y.to_bits();
    if exact { 0.0 } else { grown(y, passed, steps, absolute, dtype) }
}

/// What the operands' errors become.
fn passed(op: AluOp, x: &[f64], errors: &[f64], y: f64) -> f64 {
    match op {
        AluOp::Add | AluOp::Sub | AluOp::Neg | AluOp::Abs => sum(errors),
        AluOp::Max | AluOp::Min => errors.iter().fold(0.0, |a, &b| f64::max(a, b)),
        // Of infinity, sine and cosine are NaN; of what has no bound, which may be NaN, all four.
        AluOp::Sin | AluOp::Cos | AluOp::Tanh | AluOp::Erf if errors[0] == f64::INFINITY => f64::INFINITY,
        AluOp::Sin | AluOp::Cos => sum(errors).min(2.0),
        // The sign of an exact zero below a quotient is up to the device.
        AluOp::Recip if x[0].abs() <= errors[0] => f64::INFINITY,
        AluOp::Div if x[1].abs() <= errors[1] => f64::INFINITY,
        AluOp::Recip | AluOp::Sqrt | AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log => {
            corners(op, x, errors, y)
        }
        AluOp::Tanh | AluOp::Erf | AluOp::Floor | AluOp::Trunc | AluOp::Round => corners(op, x, errors, y),
        AluOp::Mul | AluOp::Div => corners(op, x, errors, y),
        AluOp::Rem => remainder(x, errors),
        AluOp::Pow => power(x, errors, y),
        AluOp::Lt | AluOp::Eq | AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not => f64::INFINITY,
        AluOp::Shl | AluOp::Shr | AluOp::Where => f64::INFINITY,
    }
}

fn sum(errors: &[f64]) -> f64 {
    errors.iter().sum()
}

/// The farthest from `y` that the operation comes at the ends of the intervals.
fn corners(op: AluOp, x: &[f64], errors: &[f64], y: f64) -> f64 {
    if sum(errors) == 0.0 {
        return 0.0;
    }
    let mut farthest: f64 = 0.0;
    for corner in 0..1 << x.len() {
        let end = |i: usize| if corner >> i & 1 == 0 { x[i] - errors[i] } else { x[i] + errors[i] };
        let distance = match x.len() {
            1 => op.eval_float(&[end(0)]) - y,
            _ => op.eval_float(&[end(0), end(1)]) - y,
        };
        if distance.is_nan() {
            return f64::INFINITY;
        }
        farthest = farthest.max(distance.abs());
    }
    farthest
}

/// The remainder jumps where the quotient passes an integer, and devices
/// round the quotient first.
fn remainder(x: &[f64], errors: &[f64]) -> f64 {
    let quotient = x[0] / x[1];
    let doubt = corners(AluOp::Div, x, errors, quotient) + quotient.abs() * 2f64.powi(-20);
    let steady = (quotient - doubt).trunc() == (quotient + doubt).trunc() && doubt < 0.5;
    // A dividend of 0 gives 0 whatever the divisor.
    if x[0] == 0.0 && errors[0] == 0.0 && x[1].abs() > errors[1] {
        0.0
    } else if steady && x[1].abs() > errors[1] {
        errors[0] + quotient.abs() * errors[1] + x[0].abs() * 2f64.powi(-22)
    } else {
        f64::INFINITY
    }
}

fn power(x: &[f64], errors: &[f64], y: f64) -> f64 {
    let whole = errors[1] == 0.0 && x[1].fract() == 0.0;
    if x[0] - errors[0] > 0.0 || sum(errors) == 0.0 && x[0] != 0.0 {
        corners(AluOp::Pow, x, errors, y)
    } else if whole && x[1] >= 0.0 {
        // The extreme may be at 0, inside the interval.
        corners(AluOp::Pow, x, errors, y).max(y.abs())
    } else {
        f64::INFINITY
    }
}

/// Roundings of the compute type that an operation may add to its result,
/// and an error that does not scale with it. WGSL's accuracy table (W3C,
/// section 15.7.4), the least strict, gives the order of magnitude.
fn rounding(op: AluOp, x: &[f64], dtype: DType) -> (f64, f64) {
    let unit = unit(dtype.compute());
    match op {
        AluOp::Max | AluOp::Min | AluOp::Neg | AluOp::Abs | AluOp::Floor | AluOp::Trunc | AluOp::Round => {
            (0.0, 0.0)
        }
        AluOp::Where | AluOp::Lt | AluOp::Eq | AluOp::And | AluOp::Or | AluOp::Xor => (0.0, 0.0),
        AluOp::Not | AluOp::Shl | AluOp::Shr => (0.0, 0.0),
        AluOp::Add | AluOp::Sub | AluOp::Mul => (1.0, 0.0),
        AluOp::Div | AluOp::Recip | AluOp::Rem | AluOp::Sqrt => (6.0, 0.0),
        AluOp::Exp | AluOp::Exp2 => (8.0 + 6.0 * x[0].abs(), 0.0),
        AluOp::Log | AluOp::Log2 => (8.0, 8.0 * unit),
        AluOp::Sin | AluOp::Cos => (8.0, 16.0 * unit * (1.0 + x[0].abs())),
        AluOp::Tanh | AluOp::Erf => (16.0, 8.0 * unit),
        AluOp::Pow => (16.0 * (2.0 + (x[1] * x[0].abs().log2()).abs().min(2048.0)), 0.0),
    }
}

/// Whether a comparison of floats may come out either way.
pub(super) fn doubtful(x: &[f64], errors: &[f64]) -> bool {
    let doubt = sum(errors);
    let known_nan = x.iter().zip(errors).any(|(x, &error)| x.is_nan() && error == 0.0);
    let distance = (x[0] - x[1]).abs();
    doubt > 0.0 && !known_nan && (distance.is_nan() || distance <= doubt)
}

/// The error of a conversion, `y` being the result as a number.
pub(super) fn cast(x: f64, error: f64, from: DType, y: f64, to: DType) -> f64 {
    if to.is_float() {
        return stored(if from.is_float() { x } else { y }, error, to);
    }
    if !from.is_float() {
        return error;
    }
    if to == DType::Bool {
        return if x.abs() <= error && error > 0.0 { f64::INFINITY } else { 0.0 };
    }
    // What becomes of a float outside the type is up to the device.
    let inside = x.is_finite() && x.trunc() == y;
    let steady = (x - error).trunc() == (x + error).trunc();
    if inside && steady { 0.0 } else { f64::INFINITY }
}
