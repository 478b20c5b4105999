//! Superinstructions: several rows of the ALU table in one pass over a tile.

use std::marker::PhantomData;

use crate::base::DType;
use crate::runtime::cpu::micro::alu::{Binary, Micro, SS, SV, Unary, VS, VV, micro};
use crate::runtime::cpu::micro::fold::{BLOCK, LANES, Real, Sum, join_lanes, lanewise};
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::lane::Lane;
use crate::runtime::cpu::micro::math;
use crate::runtime::cpu::micro::ops::{self, Map1, Map2};
use crate::runtime::cpu::micro::{Form, MicroFn, view, view_mut};

/// A superinstruction. "Sum state" is a state of [`super::reduce`] of `Sum`
/// on the same type, which the caller initialises, merges and finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fused {
    /// `dst = a·b + c`; rounds once where the machine can, else twice.
    MulAdd,
    /// `dst = a·b - c`, as `MulAdd`.
    MulSub,
    /// `dst = (a - b)·c`.
    SubMul,
    /// `dst = exp(a - b)`.
    ExpSub,
    /// `dst = 1 / (1 + exp(-a))`.
    Sigmoid,
    /// `dst = a · sigmoid(a)`.
    Silu,
    /// `dst = a/2 · (1 + tanh(√(2/π)·(a + 0.044715·a³)))`.
    GeluTanh,
    /// `dst = a/2 · (1 + erf(a / √2))`.
    Gelu,
    /// `dst = exp(a - b)`, whose sum enters the sum state at `c` (which is
    /// written through, so the pointer must come from a mutable one).
    ExpSubSum,
    /// The sum of `(a - b)²` enters the sum state at `dst`.
    SqDevSum,
    /// The sum of `a·b` enters the sum state at `dst`.
    Dot,
}

/// The micro-op of a superinstruction, or `None` where there is none.
///
/// `MulAdd`, `MulSub`, `SubMul`: `F32` and `F64`, `a` a vector, `b` and `c`
/// each of either form. The others exist on `F32` (and the 16-bit floats'
/// register form) only, but for `SqDevSum` and `Dot`, which `F64` has too.
/// `ExpSub`: `a` a vector, `b` of either form. `ExpSubSum` and `SqDevSum`: `b`
/// a scalar. `Dot`: two vectors.
pub fn fused(op: Fused, dtype: DType, forms: [Form; 3]) -> Option<MicroFn> {
    if forms[0] != Form::V {
        return None;
    }
    match Lane::of(dtype) {
        Lane::F32 => single(op, forms),
        Lane::F64 => real::<f64>(op, forms),
        Lane::I32 | Lane::U32 | Lane::I64 | Lane::U8 => None,
    }
}

fn single(op: Fused, forms: [Form; 3]) -> Option<MicroFn> {
    match op {
        Fused::ExpSub if forms[1] == Form::V => Some(micro::<Binary<ExpSub, f32, VV>>()),
        Fused::ExpSub => Some(micro::<Binary<ExpSub, f32, VS>>()),
        Fused::ExpSubSum if forms[1] == Form::S => Some(micro::<ExpSubSum>()),
        Fused::Sigmoid => Some(micro::<Unary<ops::Sigmoid, f32>>()),
        Fused::Silu => Some(micro::<Unary<ops::Silu, f32>>()),
        Fused::GeluTanh => Some(micro::<Unary<GeluTanh, f32>>()),
        Fused::Gelu => Some(micro::<Unary<Gelu, f32>>()),
        Fused::MulAdd | Fused::MulSub | Fused::SubMul | Fused::SqDevSum | Fused::Dot => {
            real::<f32>(op, forms)
        }
        Fused::ExpSubSum => None,
    }
}

fn real<T: Real>(op: Fused, forms: [Form; 3]) -> Option<MicroFn> {
    match op {
        Fused::MulAdd => Some(ternary::<MulAdd, T>(forms)),
        Fused::MulSub => Some(ternary::<MulSub, T>(forms)),
        Fused::SubMul => Some(ternary::<SubMul, T>(forms)),
        Fused::SqDevSum if forms[1] == Form::S => Some(micro::<SqDevSum<T>>()),
        Fused::Dot if forms[1] == Form::V => Some(micro::<Dot<T>>()),
        Fused::SqDevSum | Fused::Dot | Fused::ExpSub | Fused::ExpSubSum => None,
        Fused::Sigmoid | Fused::Silu | Fused::GeluTanh | Fused::Gelu => None,
    }
}

/// `fn(dst, x, stats, gain, bias, n)`: `dst = (x - mean)·rstd·gain + bias`,
/// with `stats` two scalars, the mean and the reciprocal of the deviation.
///
/// # Safety
/// As [`MicroFn`]: four vectors of `n` elements and two scalars.
pub type NormalizeFn =
    unsafe fn(dst: *mut u8, x: *const u8, stats: *const u8, gain: *const u8, bias: *const u8, n: usize);

/// The normalisation of a row with gain and bias; floats only.
pub fn normalize_affine(dtype: DType) -> Option<NormalizeFn> {
    match Lane::of(dtype) {
        Lane::F32 => Some(normalize::<Affine<f32>>()),
        Lane::F64 => Some(normalize::<Affine<f64>>()),
        Lane::I32 | Lane::U32 | Lane::I64 | Lane::U8 => None,
    }
}

versioned! {
    /// A loop with the signature [`NormalizeFn`].
    Normalize, normalize, base_normalize,
    fn(dst: *mut u8, x: *const u8, stats: *const u8, gain: *const u8, bias: *const u8, n: usize)
}

struct Affine<T>(PhantomData<T>);
impl<T: Real> Normalize for Affine<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(
        dst: *mut u8,
        x: *const u8,
        stats: *const u8,
        gain: *const u8,
        bias: *const u8,
        n: usize,
    ) {
        // SAFETY: the contract of `NormalizeFn`.
        let (dst, x, gain, bias) =
            unsafe { (view_mut::<T>(dst, n), view(x, n), view(gain, n), view(bias, n)) };
        // SAFETY: as above.
        let (mean, rstd) = unsafe { (stats.cast::<T>().read(), stats.cast::<T>().add(1).read()) };
        affine::<I, T>(dst, x, (mean, rstd), gain, bias);
    }
}

#[inline(always)]
fn affine<I: Isa, T: Real>(dst: &mut [T], x: &[T], stats: (T, T), gain: &[T], bias: &[T]) {
    for (((d, &x), &g), &b) in dst.iter_mut().zip(x).zip(gain).zip(bias) {
        *d = x.minus(stats.0).times(stats.1).mul_add::<I>(g, b);
    }
}

/// An operation on three elements.
trait Map3<T> {
    fn map<I: Isa>(x: T, y: T, z: T) -> T;
}
macro_rules! map3 {
    ($($name:ident |$x:ident, $y:ident, $z:ident| $e:expr;)*) => {$(
        struct $name;
        impl<T: Real> Map3<T> for $name {
            #[inline(always)]
            fn map<I: Isa>($x: T, $y: T, $z: T) -> T { $e }
        }
    )*};
}
map3! {
    MulAdd |x, y, z| x.mul_add::<I>(y, z);
    MulSub |x, y, z| x.mul_add::<I>(y, z.opposite());
    SubMul |x, y, z| x.minus(y).times(z);
}

/// A ternary loop; the form is that of the last two operands.
struct Ternary<O, T, const FORM: u8>(PhantomData<(O, T)>);
impl<O: Map3<T>, T: Copy, const FORM: u8> Micro for Ternary<O, T, FORM> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        if n == 0 {
            return;
        }
        let (b_len, c_len) = lengths(FORM, n);
        // SAFETY: the contract of `MicroFn`; a scalar operand is one element.
        unsafe { zip3::<I, O, T, FORM>(view_mut(dst, n), view(a, n), view(b, b_len), view(c, c_len)) }
    }
}

#[inline(always)]
fn lengths(form: u8, n: usize) -> (usize, usize) {
    (if form & SV == 0 { n } else { 1 }, if form & VS == 0 { n } else { 1 })
}

#[inline(always)]
fn zip3<I: Isa, O: Map3<T>, T: Copy, const FORM: u8>(dst: &mut [T], a: &[T], b: &[T], c: &[T]) {
    let n = dst.len();
    let (b_len, c_len) = lengths(FORM, n);
    let (a, b, c) = (&a[..n], &b[..b_len], &c[..c_len]);
    let (y, z) = (b[0], c[0]);
    for i in 0..n {
        let y = if FORM & SV == 0 { b[i] } else { y };
        let z = if FORM & VS == 0 { c[i] } else { z };
        dst[i] = O::map::<I>(a[i], y, z);
    }
}

fn ternary<O: Map3<T> + 'static, T: Copy + 'static>(forms: [Form; 3]) -> MicroFn {
    match (forms[1], forms[2]) {
        (Form::V, Form::V) => micro::<Ternary<O, T, VV>>(),
        (Form::V, Form::S) => micro::<Ternary<O, T, VS>>(),
        (Form::S, Form::V) => micro::<Ternary<O, T, SV>>(),
        (Form::S, Form::S) => micro::<Ternary<O, T, SS>>(),
    }
}

struct ExpSub;
impl Map2<f32> for ExpSub {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: f32, y: f32) -> f32 {
        math::exp::<I>(x - y)
    }
}

/// Through the sigmoid of twice the argument of tanh, which is the same.
struct GeluTanh;
impl Map1<f32> for GeluTanh {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: f32) -> f32 {
        const DOUBLE_ROOT: f32 = 1.595_769_2;
        let inner = DOUBLE_ROOT * x * math::fma::<I>(0.044_715 * x, x, 1.0);
        // Where sigmoid is 0, so is the limit, even at minus infinity.
        let x = if x < -1e4 { -1e4 } else { x };
        x * math::sigmoid::<I>(inner)
    }
}

struct Gelu;
impl Map1<f32> for Gelu {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: f32) -> f32 {
        let x = if x < -1e4 { -1e4 } else { x };
        0.5 * x * (1.0 + math::erf::<I>(x * std::f32::consts::FRAC_1_SQRT_2))
    }
}

struct ExpSubSum;
impl Micro for ExpSubSum {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the contract of `MicroFn`, with `c` a sum state.
        unsafe {
            let (dst, a, shift): (&mut [f32], &[f32], f32) =
                (view_mut(dst, n), view(a, n), b.cast::<f32>().read());
            let sum = &mut *c.cast_mut().cast::<Sum<f32>>();
            for (dst, a) in dst.chunks_mut(BLOCK).zip(a.chunks(BLOCK)) {
                sum.add(f64::from(exp_sub_sum::<I>(dst, a, shift)));
            }
        }
    }
}

#[inline(always)]
fn exp_sub_sum<I: Isa>(dst: &mut [f32], x: &[f32], shift: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let whole = x.len() - x.len() % LANES;
    let (to, to_rest) = dst.split_at_mut(whole);
    for (to, x) in to.chunks_exact_mut(LANES).zip(x.chunks_exact(LANES)) {
        exp_sub_lanes::<I>(to, x, shift, &mut lanes);
    }
    exp_sub_lanes::<I>(to_rest, &x[whole..], shift, &mut lanes);
    join_lanes(lanes, |p, q| p + q)
}

#[inline(always)]
fn exp_sub_lanes<I: Isa>(dst: &mut [f32], x: &[f32], shift: f32, lanes: &mut [f32; LANES]) {
    for ((d, &x), lane) in dst.iter_mut().zip(x).zip(lanes) {
        let e = math::exp::<I>(x - shift);
        *d = e;
        *lane += e;
    }
}

struct SqDevSum<T>(PhantomData<T>);
impl<T: Real> Micro for SqDevSum<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, a: *const u8, b: *const u8, _c: *const u8, n: usize) {
        // SAFETY: the contract of `MicroFn`, with `dst` a sum state.
        let (sum, a, shift): (&mut Sum<T>, &[T], T) =
            unsafe { (&mut *dst.cast(), view(a, n), b.cast::<T>().read()) };
        for block in a.chunks(BLOCK) {
            let mut lanes = [T::ZERO; LANES];
            lanewise!(block, |j, x| {
                let d = x.minus(shift);
                lanes[j] = d.mul_add::<I>(d, lanes[j]);
            });
            sum.add(join_lanes(lanes, T::plus).widen());
        }
    }
}

struct Dot<T>(PhantomData<T>);
impl<T: Real> Micro for Dot<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, a: *const u8, b: *const u8, _c: *const u8, n: usize) {
        // SAFETY: the contract of `MicroFn`, with `dst` a sum state.
        let (sum, a, b): (&mut Sum<T>, &[T], &[T]) = unsafe { (&mut *dst.cast(), view(a, n), view(b, n)) };
        for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
            let mut lanes = [T::ZERO; LANES];
            lanewise!(a, b, |j, x, y| lanes[j] = x.mul_add::<I>(y, lanes[j]));
            sum.add(join_lanes(lanes, T::plus).widen());
        }
    }
}
