//! Functions of each element: one, two or three operands.

use kiln::Scalar;
use kiln::opts::IsCloseOpts;
use kiln::opts::NanToNumOpts;
use kiln::opts::Rounding;
use kiln::tensor::Tensor;

use super::super::call::{Call, Outcome, unsupported};
use super::{Entry, entry, one};

/// `name method;` for each function of one tensor.
macro_rules! unary {
    ($($name:literal $method:ident;)*) => {
        &[$(entry($name, "self", |c| one(c.tensor("self")?.$method()))),*]
    };
}

/// Functions of one tensor.
pub const UNARY: &[Entry] = unary! {
    "abs" abs;
    "acos" acos;
    "acosh" acosh;
    "asin" asin;
    "asinh" asinh;
    "atan" atan;
    "atanh" atanh;
    "ceil" ceil;
    "cos" cos;
    "cosh" cosh;
    "deg2rad" deg2rad;
    "digamma" digamma;
    "erf" erf;
    "erfc" erfc;
    "erfinv" erfinv;
    "exp" exp;
    "exp2" exp2;
    "expm1" expm1;
    "floor" floor;
    "frac" frac;
    "i0" i0;
    "lgamma" lgamma;
    "log" log;
    "log10" log10;
    "log1p" log1p;
    "log2" log2;
    "neg" neg;
    "rad2deg" rad2deg;
    "reciprocal" reciprocal;
    "rsqrt" rsqrt;
    "sigmoid" sigmoid;
    "sign" sign;
    "sgn" sgn;
    "signbit" signbit;
    "sin" sin;
    "sinc" sinc;
    "sinh" sinh;
    "sqrt" sqrt;
    "square" square;
    "tan" tan;
    "tanh" tanh;
    "trunc" trunc;
    "isfinite" isfinite;
    "isinf" isinf;
    "isnan" isnan;
    "isposinf" isposinf;
    "isneginf" isneginf;
    "logical_not" logical_not;
    "bitwise_not" bitwise_not;
    "positive" clone;
    "real" clone;
    "special.entr" entr;
    "special.ndtr" ndtr;
    "special.ndtri" ndtri;
    "special.erfcx" erfcx;
    "special.i1" i1;
};

/// `name parameter |x, y| call;` for each function of a tensor and a tensor
/// or number, as `operand`, or of two tensors, as `tensor`.
macro_rules! binary {
    ($kind:ident: $($name:literal $other:literal |$x:ident, $y:ident| $body:expr;)*) => {
        &[$(entry($name, concat!("self ", $other), |c| {
            let ($x, $y) = (c.tensor("self")?, c.$kind($other)?);
            one($body)
        })),*]
    };
}

/// Functions of a tensor and a tensor or number.
pub const BINARY: &[Entry] = binary! { operand:
    "mul" "other" |x, y| x * y;
    "true_divide" "other" |x, y| x / y;
    "floor_divide" "other" |x, y| x.floor_divide(y);
    "remainder" "other" |x, y| x.remainder(y);
    "fmod" "other" |x, y| x.fmod(y);
    "float_power" "exponent" |x, y| x.float_power(y);
    "copysign" "other" |x, y| x.copysign(y);
    "xlogy" "other" |x, y| x.xlogy(y);
    "special.xlog1py" "other" |x, y| x.xlog1py(y);
    "eq" "other" |x, y| x.eq(y);
    "ne" "other" |x, y| x.ne(y);
    "lt" "other" |x, y| x.lt(y);
    "le" "other" |x, y| x.le(y);
    "gt" "other" |x, y| x.gt(y);
    "ge" "other" |x, y| x.ge(y);
    "bitwise_and" "other" |x, y| x & y;
    "bitwise_or" "other" |x, y| x | y;
    "bitwise_xor" "other" |x, y| x ^ y;
    "bitwise_left_shift" "other" |x, y| x << y;
    "bitwise_right_shift" "other" |x, y| x >> y;
    "clamp_min" "min" |x, y| x.clamp_min(y);
    "clamp_max" "max" |x, y| x.clamp_max(y);
};

/// Functions of two tensors, and operators with the operands exchanged.
pub const PAIRS: &[Entry] = binary! { tensor:
    "atan2" "other" |x, y| x.atan2(&y);
    "hypot" "other" |x, y| x.hypot(&y);
    "maximum" "other" |x, y| x.maximum(&y);
    "minimum" "other" |x, y| x.minimum(&y);
    "fmax" "other" |x, y| x.fmax(&y);
    "fmin" "other" |x, y| x.fmin(&y);
    "heaviside" "values" |x, y| x.heaviside(&y);
    "logaddexp" "other" |x, y| x.logaddexp(&y);
    "logaddexp2" "other" |x, y| x.logaddexp2(&y);
    "nextafter" "other" |x, y| x.nextafter(&y);
    "ldexp" "other" |x, y| x.ldexp(&y);
    "logical_and" "other" |x, y| x.logical_and(&y);
    "logical_or" "other" |x, y| x.logical_or(&y);
    "logical_xor" "other" |x, y| x.logical_xor(&y);
    "gcd" "other" |x, y| x.gcd(&y);
    "lcm" "other" |x, y| x.lcm(&y);
    "__radd__" "other" |x, y| y + x;
    "__rmul__" "other" |x, y| y * x;
    "__rdiv__" "other" |x, y| y / x;
    "__rsub__" "other" |x, y| y - x;
    "__rmod__" "other" |x, y| y % x;
    "__rpow__" "other" |x, y| y.pow(x);
};

/// Functions with options or more operands.
pub const OTHER: &[Entry] = &[
    entry("add", "self other alpha", |c| {
        let (x, y) = (c.tensor("self")?, c.operand("other")?);
        one(match c.opt_scalar("alpha")? {
            None => x + y,
            Some(alpha) => x.add_alpha(y, alpha),
        })
    }),
    entry("sub", "self other alpha", |c| {
        let (x, y) = (c.tensor("self")?, c.operand("other")?);
        one(match c.opt_scalar("alpha")? {
            None => x - y,
            Some(alpha) => x.sub_alpha(y, alpha),
        })
    }),
    entry("rsub", "self other alpha", |c| {
        let alpha = c.opt_scalar("alpha")?.unwrap_or(Scalar::Int(1));
        one(c.tensor("self")?.rsub_alpha(c.operand("other")?, alpha))
    }),
    entry("div", "self other rounding_mode", |c| {
        let (x, y) = (c.tensor("self")?, c.operand("other")?);
        one(match c.opt_text("rounding_mode")?.as_deref() {
            None => x / y,
            Some("trunc") => x.div_rounded(y, Rounding::Trunc),
            Some("floor") => x.div_rounded(y, Rounding::Floor),
            Some(other) => return unsupported("rounding_mode", other),
        })
    }),
    entry("pow", "self exponent", |c| {
        if c.has_tensor("self") {
            return one(c.tensor("self")?.pow(c.operand("exponent")?));
        }
        let base = c.scalar("self")?;
        one(c.tensor("exponent")?.rpow(base))
    }),
    entry("round", "self decimals", |c| {
        let x = c.tensor("self")?;
        one(match c.opt_int("decimals")? {
            None => x.round(),
            Some(decimals) => x.round_decimals(i32::try_from(decimals).unwrap_or(i32::MAX)),
        })
    }),
    entry("logit", "self eps", |c| {
        let x = c.tensor("self")?;
        one(match c.opt_float("eps")? {
            None => x.logit(),
            Some(eps) => x.logit_eps(eps),
        })
    }),
    entry("nan_to_num", "self nan posinf neginf", |c| {
        let mut opts = NanToNumOpts::default();
        if let Some(value) = c.opt_float("nan")? {
            opts = opts.nan(value);
        }
        if let Some(value) = c.opt_float("posinf")? {
            opts = opts.posinf(value);
        }
        if let Some(value) = c.opt_float("neginf")? {
            opts = opts.neginf(value);
        }
        one(c.tensor("self")?.nan_to_num_with(opts))
    }),
    entry("clamp", "self min max", |c| {
        let x = c.tensor("self")?;
        one(match (c.opt_operand("min")?, c.opt_operand("max")?) {
            (Some(min), Some(max)) => x.clamp(min, max),
            (Some(min), None) => x.clamp_min(min),
            (None, Some(max)) => x.clamp_max(max),
            (None, None) => return unsupported("min and max", "None"),
        })
    }),
    entry("isclose", "self other rtol atol equal_nan", |c| {
        let mut opts = IsCloseOpts::default().equal_nan(c.is("equal_nan")?);
        if let Some(rtol) = c.opt_float("rtol")? {
            opts = opts.rtol(rtol);
        }
        if let Some(atol) = c.opt_float("atol")? {
            opts = opts.atol(atol);
        }
        one(c.tensor("self")?.isclose_with(&c.tensor("other")?, opts))
    }),
    entry("where", "self condition other", |c| {
        one(c.tensor("condition")?.select(c.operand("self")?, c.operand("other")?))
    }),
    entry("lerp", "self end weight", |c| {
        one(c.tensor("self")?.lerp(&c.tensor("end")?, c.operand("weight")?))
    }),
    entry("addcmul", "self tensor1 tensor2 value", |c| third(c, Tensor::addcmul)),
    entry("addcdiv", "self tensor1 tensor2 value", |c| third(c, Tensor::addcdiv)),
];

/// `self` with `value` times a function of two more tensors.
fn third(c: &Call, f: fn(&Tensor, &Tensor, &Tensor, Scalar) -> Tensor) -> Outcome {
    let value = c.opt_scalar("value")?.unwrap_or(Scalar::Int(1));
    one(f(&c.tensor("self")?, &c.tensor("tensor1")?, &c.tensor("tensor2")?, value))
}
