//! Conversions between registers.

use half::{bf16, f16};
use std::marker::PhantomData;

use crate::DType;
use crate::micro::alu::{Unary, micro};
use crate::micro::half16::{narrow_bf16, narrow_f16, round_f16, widen_bf16, widen_f16};
use crate::micro::isa::Isa;
use crate::micro::lane::LaneType;
use crate::micro::ops::Map1;
use crate::micro::{MicroFn, memory};

/// The micro-op that converts operand `a` from one type to another, both in
/// register form: a cast to a 16-bit float rounds to its precision and leaves
/// an `F32`. Floats become integers by truncation, as [`crate::Scalar::cast`]
/// says; anything but zero becomes true.
pub fn cast(from: DType, to: DType) -> MicroFn {
    if LaneType::of(from) == LaneType::F32
        && to == DType::F16
        && let Some(round) = round_f16()
    {
        return round;
    }
    match LaneType::of(from) {
        LaneType::F32 => from_lane::<f32>(to),
        LaneType::F64 => from_lane::<f64>(to),
        LaneType::I32 => from_lane::<i32>(to),
        LaneType::U32 => from_lane::<u32>(to),
        LaneType::I64 => from_lane::<i64>(to),
        LaneType::U8 => from_lane::<u8>(to),
    }
}

/// The micro-op that reinterprets the bits of operand `a`; `None` where the
/// registers differ in width or a 16-bit float is involved, which in a
/// register is not what it is in memory. As `Bool`, any bits but zero are true.
pub fn bitcast(from: DType, to: DType) -> Option<MicroFn> {
    let sixteen = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    if sixteen(from) || sixteen(to) || from.size() != to.size() {
        return None;
    }
    Some(if to == DType::Bool { cast(from, to) } else { memory::copy(LaneType::of(to)) })
}

fn from_lane<T: Convert>(to: DType) -> MicroFn {
    match to {
        DType::Bool => micro::<Unary<ToBool, T>>(),
        DType::U8 => micro::<Unary<ConvertTo<u8>, T>>(),
        DType::I32 => micro::<Unary<ConvertTo<i32>, T>>(),
        DType::U32 => micro::<Unary<ConvertTo<u32>, T>>(),
        DType::I64 => micro::<Unary<ConvertTo<i64>, T>>(),
        DType::F16 => micro::<Unary<RoundTo<f16>, T>>(),
        DType::BF16 => micro::<Unary<RoundTo<bf16>, T>>(),
        DType::F32 => micro::<Unary<ConvertTo<f32>, T>>(),
        DType::F64 => micro::<Unary<ConvertTo<f64>, T>>(),
    }
}

/// A lane's conversions.
trait Convert: Copy + 'static {
    fn truth(self) -> bool;
    fn to_i64(self) -> i64;
    fn to_i32(self) -> i32;
    /// The low 32 bits of [`Convert::to_i64`].
    fn to_low(self) -> u32;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
}

macro_rules! convert {
    ($($t:ty: |$x:ident| $i64:expr, $i32:expr, $low:expr, $f32:expr;)*) => {$(
        impl Convert for $t {
            #[inline(always)]
            fn truth(self) -> bool { self != 0 as $t }
            #[inline(always)]
            fn to_i64(self) -> i64 { let $x = self; $i64 }
            #[inline(always)]
            fn to_i32(self) -> i32 { let $x = self; $i32 }
            #[inline(always)]
            fn to_low(self) -> u32 { let $x = self; $low }
            #[inline(always)]
            fn to_f32(self) -> f32 { let $x = self; $f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}
convert! {
    u8: |x| i64::from(x), i32::from(x), u32::from(x), f32::from(x);
    i32: |x| i64::from(x), x, x as u32, x as f32;
    u32: |x| i64::from(x), x as i32, x, x as f32;
    i64: |x| x, x as i32, x as u32, x as f32;
    f32: |x| whole64(f64::from(x)), whole32(x), low_bits(x), x;
    f64: |x| whole64(x), narrow32(x), whole64(x) as u32, x as f32;
}

const TWO_31: f32 = 2_147_483_648.0;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// The integer part, or the least integer where it does not fit; in selects
/// that vectorise where the conversion does.
#[inline(always)]
fn whole64(x: f64) -> i64 {
    let fits = x.abs() < TWO_63;
    let safe = if fits { x } else { 0.0 };
    // SAFETY: `safe` is finite and below 2^63 in magnitude.
    let whole = unsafe { safe.to_int_unchecked::<i64>() };
    if fits { whole } else { i64::MIN }
}

/// As [`whole64`], in 32 bits.
#[inline(always)]
fn whole32(x: f32) -> i32 {
    let fits = x.abs() < TWO_31;
    let safe = if fits { x } else { 0.0 };
    // SAFETY: `safe` is finite and below 2^31 in magnitude.
    let whole = unsafe { safe.to_int_unchecked::<i32>() };
    if fits { whole } else { i32::MIN }
}

/// As [`whole32`]; a double just above 2^31 in magnitude may still fit once
/// its fraction is cut off, to the least integer.
#[inline(always)]
fn narrow32(x: f64) -> i32 {
    let fits = x.abs() < f64::from(TWO_31);
    let safe = if fits { x } else { 0.0 };
    // SAFETY: `safe` is finite and below 2^31 in magnitude.
    let whole = unsafe { safe.to_int_unchecked::<i32>() };
    if fits { whole } else { i32::MIN }
}

/// The low bits of [`whole64`] without 64-bit lanes: from 2^31 on, a float is
/// its significand shifted left, of which the low bits are left over; from
/// 2^63 on there are none, and the least integer has none either.
#[inline(always)]
fn low_bits(x: f32) -> u32 {
    let bits = x.to_bits();
    let shift = (bits >> 23 & 0xff).wrapping_sub(150);
    let significand = bits & 0x7f_ffff | 0x80_0000;
    let low = if shift < 32 { significand.wrapping_shl(shift) } else { 0 };
    let low = if x < 0.0 { low.wrapping_neg() } else { low };
    if x.abs() < TWO_31 { whole32(x) as u32 } else { low }
}

struct ToBool;
impl<T: Convert> Map1<T> for ToBool {
    type Out = u8;
    #[inline(always)]
    fn map<I: Isa>(x: T) -> u8 {
        u8::from(x.truth())
    }
}

struct ConvertTo<U>(PhantomData<U>);
macro_rules! to {
    ($($u:ty: |$x:ident| $e:expr;)*) => {$(
        impl<T: Convert> Map1<T> for ConvertTo<$u> {
            type Out = $u;
            #[inline(always)]
            fn map<I: Isa>($x: T) -> $u { $e }
        }
    )*};
}
to! {
    u8: |x| x.to_low() as u8;
    i32: |x| x.to_i32();
    u32: |x| x.to_low();
    i64: |x| x.to_i64();
    f32: |x| x.to_f32();
    f64: |x| x.to_f64();
}

struct RoundTo<U>(PhantomData<U>);
impl<T: Convert> Map1<T> for RoundTo<f16> {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: T) -> f32 {
        widen_f16(narrow_f16(x.to_f32()))
    }
}
impl<T: Convert> Map1<T> for RoundTo<bf16> {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: T) -> f32 {
        widen_bf16(narrow_bf16(x.to_f32()))
    }
}
