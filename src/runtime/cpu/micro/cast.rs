//! Conversions between registers.

use half::{bf16, f16};
use std::marker::PhantomData;

use crate::base::DType;
use crate::runtime::cpu::micro::alu::{Unary, micro};
use crate::runtime::cpu::micro::half16::{narrow_bf16, narrow_f16, widen_bf16, widen_f16};
use crate::runtime::cpu::micro::isa::Isa;
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::ops::Map1;
use crate::runtime::cpu::micro::{MicroFn, memory};

/// The micro-op that converts operand `a` from one type to another, both in
/// register form: a cast to a 16-bit float rounds to its precision and leaves
/// an `F32`. Floats become integers by truncation, saturating at 64 bits and
/// then wrapping to the width, NaN as 0; anything but zero becomes true.
pub fn cast(from: DType, to: DType) -> MicroFn {
    match Lane::of(from) {
        Lane::F32 => from_lane::<f32>(to),
        Lane::F64 => from_lane::<f64>(to),
        Lane::I32 => from_lane::<i32>(to),
        Lane::U32 => from_lane::<u32>(to),
        Lane::I64 => from_lane::<i64>(to),
        Lane::U8 => from_lane::<u8>(to),
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
    Some(if to == DType::Bool { cast(from, to) } else { memory::copy(Lane::of(to)) })
}

fn from_lane<T: Convert>(to: DType) -> MicroFn {
    match to {
        DType::Bool => micro::<Unary<Truth, T>>(),
        DType::U8 => micro::<Unary<To<u8>, T>>(),
        DType::I32 => micro::<Unary<To<i32>, T>>(),
        DType::U32 => micro::<Unary<To<u32>, T>>(),
        DType::I64 => micro::<Unary<To<i64>, T>>(),
        DType::F16 => micro::<Unary<Rounded<f16>, T>>(),
        DType::BF16 => micro::<Unary<Rounded<bf16>, T>>(),
        DType::F32 => micro::<Unary<To<f32>, T>>(),
        DType::F64 => micro::<Unary<To<f64>, T>>(),
    }
}

/// A lane's conversions.
trait Convert: Copy + 'static {
    fn truth(self) -> bool;
    fn to_i64(self) -> i64;
    /// The low 32 bits of [`Convert::to_i64`].
    fn to_i32(self) -> i32;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
}

macro_rules! convert {
    ($($t:ty: |$x:ident| $i64:expr, $i32:expr, $f32:expr;)*) => {$(
        impl Convert for $t {
            #[inline(always)]
            fn truth(self) -> bool { self != 0 as $t }
            #[inline(always)]
            fn to_i64(self) -> i64 { let $x = self; $i64 }
            #[inline(always)]
            fn to_i32(self) -> i32 { let $x = self; $i32 }
            #[inline(always)]
            fn to_f32(self) -> f32 { let $x = self; $f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}
convert! {
    u8: |x| i64::from(x), i32::from(x), f32::from(x);
    i32: |x| i64::from(x), x, x as f32;
    u32: |x| i64::from(x), x as i32, x as f32;
    i64: |x| x, x as i32, x as f64 as f32; // rounds twice, as `Scalar::cast` does
    f32: |x| saturate(f64::from(x)), wrap(x), x;
    f64: |x| saturate(x), saturate(x) as i32, x as f32;
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// `x as i64`, in selects that vectorise where the conversion does.
#[inline(always)]
fn saturate(x: f64) -> i64 {
    let safe = if x.abs() < TWO_63 { x } else { 0.0 };
    // SAFETY: `safe` is finite and below 2^63 in magnitude.
    let whole = unsafe { safe.to_int_unchecked::<i64>() };
    let whole = if x >= TWO_63 { i64::MAX } else { whole };
    if x <= -TWO_63 { i64::MIN } else { whole }
}

/// `x as i64 as i32` without 64-bit lanes: from 2^31 on, a float is its
/// significand shifted left, of which the low bits are left over.
#[inline(always)]
fn wrap(x: f32) -> i32 {
    const TWO_31: f32 = 2_147_483_648.0;
    let small = x.abs() < TWO_31;
    let safe = if small { x } else { 0.0 };
    // SAFETY: `safe` is finite and below 2^31 in magnitude.
    let whole = unsafe { safe.to_int_unchecked::<i32>() };
    let bits = x.to_bits();
    let shift = (bits >> 23 & 0xff).wrapping_sub(150);
    let significand = bits & 0x7f_ffff | 0x80_0000;
    let low = if shift < 32 { significand.wrapping_shl(shift) as i32 } else { 0 };
    let low = if x < 0.0 { low.wrapping_neg() } else { low };
    let low = if x >= TWO_63 as f32 { -1 } else { low };
    if small { whole } else { low }
}

struct Truth;
impl<T: Convert> Map1<T> for Truth {
    type Out = u8;
    #[inline(always)]
    fn map<I: Isa>(x: T) -> u8 {
        u8::from(x.truth())
    }
}

struct To<U>(PhantomData<U>);
macro_rules! to {
    ($($u:ty: |$x:ident| $e:expr;)*) => {$(
        impl<T: Convert> Map1<T> for To<$u> {
            type Out = $u;
            #[inline(always)]
            fn map<I: Isa>($x: T) -> $u { $e }
        }
    )*};
}
to! {
    u8: |x| x.to_i32() as u8;
    i32: |x| x.to_i32();
    u32: |x| x.to_i32() as u32;
    i64: |x| x.to_i64();
    f32: |x| x.to_f32();
    f64: |x| x.to_f64();
}

struct Rounded<U>(PhantomData<U>);
impl<T: Convert> Map1<T> for Rounded<f16> {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: T) -> f32 {
        widen_f16(narrow_f16(x.to_f32()))
    }
}
impl<T: Convert> Map1<T> for Rounded<bf16> {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: T) -> f32 {
        widen_bf16(narrow_bf16(x.to_f32()))
    }
}
