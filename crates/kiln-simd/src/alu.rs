//! The ALU table: the scalar operations, one row each.
//!
//! A row states the name, the number of operands, the kinds of type accepted,
//! the type of the result, and the meaning: an evaluation on `f64` for floats
//! and on `i64` for integers and truth values. Everything else about an
//! operation (its gradient, its spelling in a target language, its micro-op
//! on the CPU) is stated once in the layer that owns it, by an exhaustive
//! match over [`AluOp`].

use crate::{DType, Kind, Scalar};

/// What the result's type is, given the operands' common type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// The operands' type.
    Same,
    /// `Bool`.
    Bool,
}

impl ResultType {
    /// The type, for operands of type `dtype`.
    #[inline]
    pub const fn of(self, dtype: DType) -> DType {
        match self {
            ResultType::Same => dtype,
            ResultType::Bool => DType::Bool,
        }
    }
}

/// Which kinds of operand type a row accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// Truth values.
    pub bool: bool,
    /// Integers.
    pub int: bool,
    /// Floating-point numbers.
    pub float: bool,
}

impl Accepts {
    /// Whether a type of this kind is accepted.
    #[inline]
    pub const fn kind(self, kind: Kind) -> bool {
        match kind {
            Kind::Bool => self.bool,
            Kind::Int => self.int,
            Kind::Float => self.float,
        }
    }

    /// What is accepted, for people: `"a bool or integer type"`.
    #[cold]
    pub fn description(self) -> String {
        let kinds = [(Kind::Bool, "bool"), (Kind::Int, "integer"), (Kind::Float, "floating")];
        let names: Vec<&str> = kinds.iter().filter(|kind| self.kind(kind.0)).map(|kind| kind.1).collect();
        let article = if names.first() == Some(&"integer") { "an" } else { "a" };
        format!("{article} {} type", names.join(" or "))
    }
}

const NUMBER: Accepts = Accepts { bool: false, int: true, float: true };
const FLOAT: Accepts = Accepts { bool: false, int: false, float: true };
const BITS: Accepts = Accepts { bool: true, int: true, float: false };
const INT: Accepts = Accepts { bool: false, int: true, float: false };
const ANY: Accepts = Accepts { bool: true, int: true, float: true };

macro_rules! alu_table {
    ($($(#[doc = $doc:literal])+ $op:ident $name:literal $arity:literal $accepts:ident $result:ident,
        float |$fx:ident| $float:expr, int |$ix:ident| $int:expr;)*) => {
        /// A scalar operation. All operands have one type, but for the
        /// condition of [`AluOp::Where`], which is `Bool`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum AluOp { $($(#[doc = $doc])+ $op,)* }

        impl AluOp {
            /// Every row of the table.
            pub const ALL: &'static [AluOp] = &[$(AluOp::$op,)*];

            /// The row's name, PyTorch's where it has one.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self { $(AluOp::$op => $name,)* }
            }
            /// Number of operands.
            #[inline]
            pub const fn arity(self) -> usize {
                match self { $(AluOp::$op => $arity,)* }
            }
            /// The kinds of type accepted (for `Where`, of the two values).
            #[inline]
            pub const fn accepts(self) -> Accepts {
                match self { $(AluOp::$op => $accepts,)* }
            }
            /// The result's type.
            #[inline]
            pub const fn result(self) -> ResultType {
                match self { $(AluOp::$op => ResultType::$result,)* }
            }
            /// The meaning on floats, unrounded. `Where` and comparisons
            /// take and give truth as 0 and 1.
            pub fn eval_float(self, x: &[f64]) -> f64 {
                match self { $(AluOp::$op => { let $fx = x; $float })* }
            }
            /// The meaning on integers and truth values, before wrapping to
            /// the width of the type.
            pub fn eval_int(self, x: &[i64]) -> i64 {
                match self { $(AluOp::$op => { let $ix = x; $int })* }
            }
        }
    };
}

alu_table! {
    /// Sum; integers wrap.
    Add "add" 2 NUMBER Same, float |x| x[0] + x[1], int |x| x[0].wrapping_add(x[1]);
    /// Difference; integers wrap.
    Sub "sub" 2 NUMBER Same, float |x| x[0] - x[1], int |x| x[0].wrapping_sub(x[1]);
    /// Product; integers wrap.
    Mul "mul" 2 NUMBER Same, float |x| x[0] * x[1], int |x| x[0].wrapping_mul(x[1]);
    /// Quotient; integers truncate, and anything over 0 is 0.
    Div "div" 2 NUMBER Same, float |x| x[0] / x[1], int |x| if x[1] == 0 { 0 } else { x[0].wrapping_div(x[1]) };
    /// Remainder with the dividend's sign (C's `fmod`); integer remainder by 0 is 0.
    Rem "fmod" 2 NUMBER Same, float |x| x[0] % x[1], int |x| if x[1] == 0 { 0 } else { x[0].wrapping_rem(x[1]) };
    /// The larger; NaN if either is NaN, and `+0` is larger than `-0`.
    Max "maximum" 2 NUMBER Same, float |x| float_max(x[0], x[1]), int |x| x[0].max(x[1]);
    /// The smaller; NaN if either is NaN, and `-0` is smaller than `+0`.
    Min "minimum" 2 NUMBER Same, float |x| -float_max(-x[0], -x[1]), int |x| x[0].min(x[1]);
    /// Power; an integer to a negative power is 0 unless the base is 1 or -1.
    Pow "pow" 2 NUMBER Same, float |x| x[0].powf(x[1]), int |x| int_pow(x[0], x[1]);
    /// Negation; integers wrap.
    Neg "neg" 1 NUMBER Same, float |x| -x[0], int |x| x[0].wrapping_neg();
    /// Absolute value; clears the sign of zeros.
    Abs "abs" 1 NUMBER Same, float |x| x[0].abs(), int |x| x[0].wrapping_abs();
    /// One over the operand.
    Recip "reciprocal" 1 FLOAT Same, float |x| 1.0 / x[0], int |x| x[0];
    /// Square root.
    Sqrt "sqrt" 1 FLOAT Same, float |x| x[0].sqrt(), int |x| x[0];
    /// Two to the power of the operand.
    Exp2 "exp2" 1 FLOAT Same, float |x| x[0].exp2(), int |x| x[0];
    /// Logarithm to base 2.
    Log2 "log2" 1 FLOAT Same, float |x| x[0].log2(), int |x| x[0];
    /// Natural exponential.
    Exp "exp" 1 FLOAT Same, float |x| x[0].exp(), int |x| x[0];
    /// Natural logarithm.
    Log "log" 1 FLOAT Same, float |x| x[0].ln(), int |x| x[0];
    /// Sine of radians.
    Sin "sin" 1 FLOAT Same, float |x| x[0].sin(), int |x| x[0];
    /// Cosine of radians.
    Cos "cos" 1 FLOAT Same, float |x| x[0].cos(), int |x| x[0];
    /// Hyperbolic tangent.
    Tanh "tanh" 1 FLOAT Same, float |x| x[0].tanh(), int |x| x[0];
    /// Error function.
    Erf "erf" 1 FLOAT Same, float |x| crate::special::erf(x[0]), int |x| x[0];
    /// Largest integer not above the operand.
    Floor "floor" 1 FLOAT Same, float |x| x[0].floor(), int |x| x[0];
    /// The operand without its fraction.
    Trunc "trunc" 1 FLOAT Same, float |x| x[0].trunc(), int |x| x[0];
    /// The nearest integer, halves to the even one.
    Round "round" 1 FLOAT Same, float |x| x[0].round_ties_even(), int |x| x[0];
    /// Whether the first is below the second.
    Lt "lt" 2 ANY Bool, float |x| f64::from(u8::from(x[0] < x[1])), int |x| i64::from(x[0] < x[1]);
    /// Whether the two are equal (NaN never, `-0` and `+0` always).
    Eq "eq" 2 ANY Bool, float |x| f64::from(u8::from(x[0] == x[1])), int |x| i64::from(x[0] == x[1]);
    /// Bitwise (for truth values logical) and.
    And "bitwise_and" 2 BITS Same, float |x| x[0], int |x| x[0] & x[1];
    /// Bitwise (for truth values logical) or.
    Or "bitwise_or" 2 BITS Same, float |x| x[0], int |x| x[0] | x[1];
    /// Bitwise (for truth values logical) exclusive or.
    Xor "bitwise_xor" 2 BITS Same, float |x| x[0], int |x| x[0] ^ x[1];
    /// Bitwise complement; for truth values, negation.
    Not "bitwise_not" 1 BITS Same, float |x| x[0], int |x| !x[0];
    /// Shift to the left; 0 when the distance is negative or not below the width.
    Shl "bitwise_left_shift" 2 INT Same, float |x| x[0], int |x| if (0..64).contains(&x[1]) { x[0] << x[1] } else { 0 };
    /// Shift to the right, keeping the sign; a distance that is negative or
    /// not below the width shifts everything out.
    Shr "bitwise_right_shift" 2 INT Same, float |x| x[0], int |x| x[0] >> if (0..64).contains(&x[1]) { x[1] } else { 63 };
    /// The second where the first is true, else the third.
    Where "where" 3 ANY Same, float |x| if x[0] != 0.0 { x[1] } else { x[2] }, int |x| if x[0] != 0 { x[1] } else { x[2] };
}

impl AluOp {
    /// Whether swapping the two operands leaves the result as it is.
    #[inline]
    pub const fn commutes(self) -> bool {
        matches!(
            self,
            AluOp::Add
                | AluOp::Mul
                | AluOp::Max
                | AluOp::Min
                | AluOp::Eq
                | AluOp::And
                | AluOp::Or
                | AluOp::Xor
        )
    }

    /// The operation on operands of type `dtype`, rounded and wrapped to the
    /// result's type. For `Where`, `dtype` is the values' type.
    pub fn eval(self, dtype: DType, operands: &[Scalar]) -> Scalar {
        let result = self.result().of(dtype);
        if dtype.is_float() {
            let x = values(operands, |s| s.as_f64());
            Scalar::Float(self.eval_float(&x)).cast(result)
        } else {
            let x = values(operands, |s| s.as_i64());
            self.eval_integer(dtype, &x).cast(result)
        }
    }

    /// The operation on integers or truth values of type `dtype`, before
    /// wrapping to the result's type.
    pub fn eval_integer(self, dtype: DType, x: &[i64]) -> Scalar {
        let width = 8 * dtype.size() as i64;
        let value = if self == AluOp::Shl && !(0..width).contains(&x[1]) {
            0
        } else if self == AluOp::Not && dtype == DType::Bool {
            i64::from(x[0] == 0)
        } else {
            self.eval_int(x)
        };
        Scalar::Int(value)
    }

    /// Relative cost in scalar floating-point operations, for fusion's
    /// decision between computing again and storing.
    #[inline]
    pub const fn flops(self) -> u64 {
        match self {
            AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::Max | AluOp::Min | AluOp::Neg | AluOp::Abs => 1,
            AluOp::Lt | AluOp::Eq | AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not => 1,
            AluOp::Shl | AluOp::Shr | AluOp::Where | AluOp::Floor | AluOp::Trunc | AluOp::Round => 1,
            AluOp::Div | AluOp::Recip | AluOp::Sqrt | AluOp::Rem => 4,
            AluOp::Exp | AluOp::Exp2 | AluOp::Log | AluOp::Log2 => 10,
            AluOp::Sin | AluOp::Cos | AluOp::Tanh | AluOp::Erf => 16,
            AluOp::Pow => 24,
        }
    }
}

/// The operands as values of one type; what an operation lacks of three is 0.
fn values<T: Copy + Default>(operands: &[Scalar], value: fn(Scalar) -> T) -> [T; 3] {
    std::array::from_fn(|i| operands.get(i).map_or_else(T::default, |&operand| value(operand)))
}

/// IEEE 754-2019 `maximum`.
fn float_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { b } else { a }
    } else if a > b {
        a
    } else {
        b
    }
}

fn int_pow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}
