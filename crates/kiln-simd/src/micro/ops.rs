//! The scalar operations the loops apply, as types: one marker per row of the
//! ALU table (and per fused function of one operand).

use crate::AluOp;
use crate::micro::isa::Isa;
use crate::micro::lane::Number;
use crate::micro::{math, math64};

/// An operation on one element.
pub(super) trait Map1<T> {
    /// Result element.
    type Out: Copy;
    /// The operation.
    fn map<I: Isa>(x: T) -> Self::Out;
}

/// An operation on two elements.
pub(super) trait Map2<T> {
    /// Result element.
    type Out: Copy;
    /// The operation.
    fn map<I: Isa>(x: T, y: T) -> Self::Out;
}

macro_rules! unary {
    ($($name:ident: $($t:ty),+; |$x:ident| $body:expr;)*) => {$(
        unary!(@type $name);
        $(unary!(@impl $name, $t, $x, $body);)+
    )*};
    (@type $name:ident) => { pub(super) struct $name; };
    (@impl $name:ident, $t:ty, $x:ident, $body:expr) => {
        impl Map1<$t> for $name {
            type Out = $t;
            #[inline(always)]
            fn map<I: Isa>($x: $t) -> $t { $body }
        }
    };
}

macro_rules! binary {
    ($($name:ident: $($t:ty),+ => $out:ty; |$x:ident, $y:ident| $body:expr;)*) => {$(
        pub(super) struct $name;
        $(binary!(@impl $name, $t, $out, $x, $y, $body);)+
    )*};
    (@impl $name:ident, $t:ty, $out:ty, $x:ident, $y:ident, $body:expr) => {
        impl Map2<$t> for $name {
            type Out = $out;
            #[inline(always)]
            fn map<I: Isa>($x: $t, $y: $t) -> $out { $body }
        }
    };
}

macro_rules! generic_binary {
    ($($name:ident |$x:ident, $y:ident| $body:expr;)*) => {$(
        pub(super) struct $name;
        impl<T: Number> Map2<T> for $name {
            type Out = T;
            #[inline(always)]
            fn map<I: Isa>($x: T, $y: T) -> T { $body }
        }
    )*};
}

generic_binary! {
    Add |x, y| x.plus(y);
    Sub |x, y| x.minus(y);
    Mul |x, y| x.times(y);
    Max |x, y| x.larger(y);
    Min |x, y| x.smaller(y);
}

binary! {
    Lt: f32, f64, u8, i32, u32, i64 => u8; |x, y| u8::from(x < y);
    Eq: f32, f64, u8, i32, u32, i64 => u8; |x, y| u8::from(x == y);
}

/// Quotient; for integers 0 where the divisor is 0.
pub(super) struct Div;
/// Remainder with the dividend's sign; for integers 0 where the divisor is 0.
pub(super) struct Rem;
/// Power.
pub(super) struct Pow;
/// Negation; integers wrap.
pub(super) struct Neg;
/// Absolute value; integers wrap.
pub(super) struct Abs;
/// Bitwise and.
pub(super) struct And;
/// Bitwise or.
pub(super) struct Or;
/// Bitwise exclusive or.
pub(super) struct Xor;
/// Bitwise complement.
pub(super) struct Not;
/// Shift to the left.
pub(super) struct Shl;
/// Shift to the right.
pub(super) struct Shr;

macro_rules! integer {
    ($($t:ident as $unsigned:ident, |$x:ident| $abs:expr, $out:expr;)*) => {$(
        unary!(@impl Neg, $t, x, x.wrapping_neg());
        unary!(@impl Abs, $t, $x, $abs);
        unary!(@impl Not, $t, x, !x);
        binary!(@impl Div, $t, $t, x, y, $t::quotient::<I>(x, y));
        binary!(@impl Rem, $t, $t, x, y, $t::remainder::<I>(x, y));
        binary!(@impl Pow, $t, $t, x, y, AluOp::Pow.eval_int(&[i64::from(x), i64::from(y)]) as $t);
        binary!(@impl And, $t, $t, x, y, x & y);
        binary!(@impl Or, $t, $t, x, y, x | y);
        binary!(@impl Xor, $t, $t, x, y, x ^ y);
        binary!(@impl Shl, $t, $t, x, y,
            if (y as $unsigned) < $t::BITS as $unsigned { x.wrapping_shl(y as u32) } else { 0 });
        binary!(@impl Shr, $t, $t, x, y,
            if (y as $unsigned) < $t::BITS as $unsigned { x.wrapping_shr(y as u32) } else { $out(x) });
    )*};
}
integer! {
    u8 as u8, |x| x, |_| 0;
    u32 as u32, |x| x, |_| 0;
    i32 as u32, |x| x.wrapping_abs(), |x| x >> 31;
    i64 as u64, |x| x.wrapping_abs(), |x| x >> 63;
}

/// An integer with a quotient and a remainder that are 0 where the divisor is.
trait Divides: Sized {
    /// The quotient, rounded to zero; it wraps.
    fn quotient<I: Isa>(x: Self, y: Self) -> Self;
    /// What that leaves, with the dividend's sign.
    fn remainder<I: Isa>(x: Self, y: Self) -> Self;
}
macro_rules! divides {
    ($($t:ident, $vectors:expr;)*) => {$(
        impl Divides for $t {
            #[inline(always)]
            fn quotient<I: Isa>(x: $t, y: $t) -> $t {
                // No instruction divides vectors of integers. A quotient of doubles is off by less than
                // what it is from the next whole number; added to 1.5 * 2^52, its low bits are the integer's.
                if I::AVX2 && $vectors {
                    let whole = (x as f64 / y as f64).trunc() + 6_755_399_441_055_744.0;
                    return if y == 0 { 0 } else { whole.to_bits() as $t };
                }
                if y == 0 { 0 } else { x.wrapping_div(y) }
            }
            #[inline(always)]
            fn remainder<I: Isa>(x: $t, y: $t) -> $t {
                if I::AVX2 && $vectors {
                    let rest = x.wrapping_sub(Self::quotient::<I>(x, y).wrapping_mul(y));
                    return if y == 0 { 0 } else { rest };
                }
                if y == 0 { 0 } else { x.wrapping_rem(y) }
            }
        }
    )*};
}
divides! {
    u8, true;
    i32, true;
    u32, true;
    i64, false;
}

macro_rules! float {
    ($($t:ident)*) => {$(
        unary!(@impl Neg, $t, x, -x);
        unary!(@impl Abs, $t, x, x.abs());
        binary!(@impl Div, $t, $t, x, y, x / y);
        binary!(@impl Rem, $t, $t, x, y, x % y);
    )*};
}
float!(f32 f64);
binary!(@impl Pow, f32, f32, x, y, math::pow::<I>(x, y));
binary!(@impl Pow, f64, f64, x, y, x.powf(y));

unary! {
    LogicalNot: u8; |x| u8::from(x == 0);
    Recip: f32, f64; |x| 1.0 / x;
    Sqrt: f32, f64; |x| x.sqrt();
    Floor: f32; |x| math::floor::<I>(x);
    Trunc: f32; |x| math::trunc::<I>(x);
    Round: f32; |x| math::round::<I>(x);
    Exp: f32; |x| math::exp::<I>(x);
    Exp2: f32; |x| math::exp2::<I>(x);
    Log: f32; |x| math::log::<I>(x);
    Log2: f32; |x| math::log2::<I>(x);
    Tanh: f32; |x| math::tanh::<I>(x);
    Erf: f32; |x| math::erf::<I>(x);
}

macro_rules! double {
    ($($name:ident |$x:ident| $body:expr;)*) => {$(unary!(@impl $name, f64, $x, $body);)*};
}
double! {
    Floor |x| x.floor();
    Trunc |x| x.trunc();
    Round |x| x.round_ties_even();
    Exp |x| math64::exp::<I>(x);
    Exp2 |x| math64::exp2::<I>(x);
    Log |x| math64::log::<I>(x);
    Log2 |x| math64::log2::<I>(x);
    Tanh |x| math64::tanh::<I>(x);
    Erf |x| math64::erf::<I>(x);
}

/// Sine of near arguments.
pub(super) struct Sin;
/// Cosine of near arguments.
pub(super) struct Cos;
unary!(@impl Sin, f32, x, math::sin::<I>(x));
unary!(@impl Cos, f32, x, math::cos::<I>(x));
double! {
    Sin |x| math64::sin::<I>(x);
    Cos |x| math64::cos::<I>(x);
}

/// A function of angles, of which vectors compute most.
pub(super) trait Periodic<T>: Map1<T, Out = T> {
    /// The function of wide arguments.
    fn wide<I: Isa>(x: T) -> T;
    /// The function of any angle.
    fn any(x: f64) -> f64;
}
macro_rules! periodic {
    ($($name:ident, $t:ty, $wide:path, $any:path;)*) => {$(
        impl Periodic<$t> for $name {
            #[inline(always)]
            fn wide<I: Isa>(x: $t) -> $t { $wide(x) }
            fn any(x: f64) -> f64 { $any(x) }
        }
    )*};
}
periodic! {
    Sin, f32, math::sin_wide::<I>, f64::sin;
    Cos, f32, math::cos_wide::<I>, f64::cos;
    Sin, f64, math64::sin::<I>, f64::sin;
    Cos, f64, math64::cos::<I>, f64::cos;
}

/// A type of angles.
pub(super) trait Angle: Copy + Default {
    /// Whether the fastest loop reduces it.
    fn is_near<I: Isa>(self) -> bool;
    /// Whether some loop does.
    fn is_wide(self) -> bool;
    /// A function's value, rounded to the type.
    fn by(self, function: fn(f64) -> f64) -> Self;
}
macro_rules! angle {
    ($($t:ty, $near:expr, $wide:expr;)*) => {$(
        impl Angle for $t {
            #[inline(always)]
            fn is_near<I: Isa>(self) -> bool {
                self.abs() <= $near
            }
            #[inline(always)]
            fn is_wide(self) -> bool {
                self.abs() <= $wide
            }
            fn by(self, function: fn(f64) -> f64) -> Self {
                function(f64::from(self)) as $t
            }
        }
    )*};
}
angle! {
    f32, math::near::<I>(), math::TRIG_LIMIT;
    f64, math64::TRIG_LIMIT, math64::TRIG_LIMIT;
}
