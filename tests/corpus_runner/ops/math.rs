//! Mathematics of each element.

use kiln::base::Scalar;
use kiln::tensor::Tensor;
use kiln::tensor::arithmetic::NanToNumOpts;
use kiln::tensor::operand::OperandValue;
use kiln::tensor::rounding::Rounding;

use super::super::call::{Call, Outcome, unsupported};
use super::{Entry, entry, one};

macro_rules! unary {
    ($($(#[$meta:meta])* $name:literal $method:ident;)*) => {
        &[$(entry($name, "self", |c| one(c.tensor("self")?.$method()))),*]
    };
}

macro_rules! binary_tensors {
    ($($name:literal $method:ident;)*) => {
        &[$(entry($name, "self other", |c| one(c.tensor("self")?.$method(&c.tensor("other")?)))),*]
    };
}

macro_rules! binary_operands {
    ($($name:literal $method:ident;)*) => {
        &[$(entry($name, "self other", |c| one(c.tensor("self")?.$method(c.operand("other")?)))),*]
    };
}

/// Functions of one operand.
pub const UNARY: &[Entry] = unary! {
    "abs" abs; "neg" neg; "sign" sign; "sgn" sgn; "signbit" signbit; "sqrt" sqrt; "rsqrt" rsqrt;
    "reciprocal" reciprocal; "exp" exp; "exp2" exp2; "expm1" expm1; "log" log; "log2" log2; "log10" log10;
    "log1p" log1p; "sin" sin; "cos" cos; "tan" tan; "asin" asin; "acos" acos; "atan" atan; "sinh" sinh;
    "cosh" cosh; "tanh" tanh; "asinh" asinh; "acosh" acosh; "atanh" atanh; "sinc" sinc; "floor" floor;
    "ceil" ceil; "trunc" trunc; "frac" frac; "deg2rad" deg2rad; "rad2deg" rad2deg; "erf" erf; "erfc" erfc;
    "erfinv" erfinv; "special.erfcx" erfcx; "special.ndtr" ndtr; "special.ndtri" ndtri;
    "special.entr" entr; "lgamma" lgamma; "digamma" digamma; "i0" i0; "special.i1" i1;
    "bitwise_not" bitwise_not; "isnan" isnan; "isinf" isinf; "isfinite" isfinite; "isposinf" isposinf;
    "isneginf" isneginf; "logical_not" logical_not; "square" square;
};

/// Functions of two tensors.
pub const OF_TENSORS: &[Entry] = binary_tensors! {
    "maximum" maximum; "minimum" minimum; "fmax" fmax; "fmin" fmin; "hypot" hypot; "atan2" atan2;
    "logaddexp" logaddexp; "logaddexp2" logaddexp2; "gcd" gcd; "lcm" lcm; "ldexp" ldexp;
    "nextafter" nextafter; "logical_and" logical_and; "logical_or" logical_or; "logical_xor" logical_xor;
};

/// Functions of a tensor and another operand.
pub const OF_OPERANDS: &[Entry] = binary_operands! {
    "fmod" fmod; "floor_divide" floor_divide; "copysign" copysign; "xlogy" xlogy;
    "special.xlog1py" xlog1py; "eq" eq; "ne" ne; "lt" lt; "le" le; "gt" gt; "ge" ge;
};

/// Functions with parameters of their own.
pub const WITH_PARAMETERS: &[Entry] = &[
    entry("add", "self other alpha", |c| one(c.tensor("self")?.add_alpha(c.operand("other")?, alpha(c)?))),
    entry("sub", "self other alpha", |c| one(c.tensor("self")?.sub_alpha(c.operand("other")?, alpha(c)?))),
    entry("rsub", "self other alpha", |c| one(c.tensor("self")?.rsub_alpha(c.operand("other")?, alpha(c)?))),
    entry("pow", "self exponent", |c| match c.operand("self")? {
        OperandValue::Tensor(base) => one(base.pow(c.operand("exponent")?)),
        base @ OperandValue::Scalar(_) => one(c.tensor("exponent")?.rpow(base)),
    }),
    entry("float_power", "self exponent", |c| one(c.tensor("self")?.float_power(c.operand("exponent")?))),
    entry("div", "self other rounding_mode", |c| {
        let (x, divisor) = (c.tensor("self")?, c.operand("other")?);
        match c.opt_text("rounding_mode")?.as_deref() {
            None => one(x / divisor),
            Some("floor") => one(x.div_rounded(divisor, Rounding::Floor)),
            Some("trunc") => one(x.div_rounded(divisor, Rounding::Trunc)),
            Some(other) => unsupported("rounding_mode", other),
        }
    }),
    entry("round", "self decimals", |c| {
        let (x, decimals) = (c.tensor("self")?, c.opt_int("decimals")?);
        one(decimals.map_or_else(|| x.round(), |d| x.round_decimals(d as i32)))
    }),
    entry("heaviside", "self values", |c| one(c.tensor("self")?.heaviside(&c.tensor("values")?))),
    entry("lerp", "self end weight", |c| {
        one(c.tensor("self")?.lerp(&c.tensor("end")?, c.operand("weight")?))
    }),
    entry("addcmul", "self tensor1 tensor2 value", |c| {
        let (a, b) = (c.tensor("tensor1")?, c.tensor("tensor2")?);
        one(c.tensor("self")?.addcmul(&a, &b, value(c)?))
    }),
    entry("addcdiv", "self tensor1 tensor2 value", |c| {
        let (a, b) = (c.tensor("tensor1")?, c.tensor("tensor2")?);
        one(c.tensor("self")?.addcdiv(&a, &b, value(c)?))
    }),
    entry("clamp", "self min max", |c| {
        let x = c.tensor("self")?;
        match (c.opt_operand("min")?, c.opt_operand("max")?) {
            (Some(min), Some(max)) => one(x.clamp(min, max)),
            (Some(min), None) => one(x.clamp_min(min)),
            (None, Some(max)) => one(x.clamp_max(max)),
            (None, None) => unsupported("min and max", "None"),
        }
    }),
    entry("clamp_min", "self min", |c| one(c.tensor("self")?.clamp_min(c.operand("min")?))),
    entry("clamp_max", "self max", |c| one(c.tensor("self")?.clamp_max(c.operand("max")?))),
    entry("nan_to_num", "self nan posinf neginf", |c| {
        let mut opts = NanToNumOpts::default();
        opts.nan = c.opt_float("nan")?;
        opts.posinf = c.opt_float("posinf")?;
        opts.neginf = c.opt_float("neginf")?;
        one(c.tensor("self")?.nan_to_num_with(opts))
    }),
    entry("logit", "self eps", |c| {
        let (x, eps) = (c.tensor("self")?, c.opt_float("eps")?);
        one(eps.map_or_else(|| x.logit(), |eps| x.logit_eps(eps)))
    }),
    entry("isclose", "self other rtol atol equal_nan", |c| {
        let mut opts = kiln::tensor::compare::IsCloseOpts::default();
        opts.rtol = c.opt_float("rtol")?.unwrap_or(opts.rtol);
        opts.atol = c.opt_float("atol")?.unwrap_or(opts.atol);
        opts.equal_nan = c.is("equal_nan")?;
        one(c.tensor("self")?.isclose_with(&c.tensor("other")?, opts))
    }),
    entry("where", "condition self other", |c| {
        let (yes, no) = (c.operand("self")?, c.operand("other")?);
        one(c.tensor("condition")?.select(yes, no))
    }),
    entry("masked_fill", "self mask value", |c| {
        one(c.tensor("self")?.masked_fill(&c.tensor("mask")?, c.operand("value")?))
    }),
    entry("positive", "self", |c| one(c.tensor("self")?)),
    entry("real", "self", |c| one(c.tensor("self")?)),
    entry("__radd__", "self other", |c| reversed(c, |x, y| x + y)),
    entry("__rmul__", "self other", |c| reversed(c, |x, y| x * y)),
    entry("__rsub__", "self other", |c| reversed(c, |x, y| x - y)),
    entry("__rdiv__", "self other", |c| reversed(c, |x, y| x / y)),
    entry("__rmod__", "self other", |c| reversed(c, |x, y| x % y)),
    entry("__rpow__", "self other", |c| one(c.tensor("self")?.rpow(c.operand("other")?))),
];

fn alpha(c: &Call) -> Outcome<Scalar> {
    Ok(c.opt_scalar("alpha")?.unwrap_or(Scalar::Int(1)))
}

fn value(c: &Call) -> Outcome<Scalar> {
    Ok(c.opt_scalar("value")?.unwrap_or(Scalar::Int(1)))
}

/// An operator whose tensor stands on the right.
fn reversed(c: &Call, operator: fn(Tensor, OperandValue) -> Tensor) -> Outcome {
    let right = c.tensor("self")?;
    let left = match c.operand("other")? {
        OperandValue::Tensor(left) => left,
        // A rank-0 constant promotes as the number does.
        OperandValue::Scalar(number) => Tensor::scalar(number, right.device()),
    };
    one(operator(left, OperandValue::Tensor(right)))
}
