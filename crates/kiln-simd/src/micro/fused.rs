//! Superinstructions: several rows of the ALU table in one pass over a tile.

use std::marker::PhantomData;

use crate::DType;
use crate::micro::alu::{Binary, Micro, VS, VV, micro};
use crate::micro::exponential;
use crate::micro::fold::{BLOCK, CompensatedSum, LANES, Real, join_lanes, prefetch_lanes};
use crate::micro::isa::Isa;
use crate::micro::lane::LaneType;
use crate::micro::math;
use crate::micro::ops::Map2;
use crate::micro::{MicroFn, OperandKind, OperandKinds, OperandPtrs, view, view_mut};

/// A superinstruction. "Sum state" is a state of a reduction by `Sum`
/// on the same type, which the caller initialises, merges and finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fused {
    /// `dst = exp(a - b)`.
    ExpSub,
    /// `dst = exp(a - b)`, whose sum enters the sum state at `c` (which is
    /// written through, so the pointer must come from a mutable one).
    ExpSubSum,
    /// The same where `b` is no less than any `a`, as in a softmax.
    ExpBelowSum,
    /// The sum of `(a - b)²` enters the sum state at `dst`.
    SqDevSum,
    /// The sum of `a·b` enters the sum state at `dst`.
    Dot,
    /// `dst += a·b`, element by element: a row that enters sums across rows, `dst` being
    /// the first component of an [`super::Accumulator`] of `Sum`.
    MulSum,
}

impl Fused {
    /// Whether the loop prefetches other memory while it computes.
    pub fn prefetches(self) -> bool {
        match self {
            Fused::ExpSubSum | Fused::ExpBelowSum => true,
            Fused::ExpSub | Fused::SqDevSum | Fused::Dot | Fused::MulSum => false,
        }
    }
}

/// The micro-op of a superinstruction, or `None` where there is none.
///
/// They exist on `F32` (and the 16-bit floats' register form) only, but for
/// `SqDevSum`, `Dot` and `MulSum`, which `F64` has too.
/// `ExpSub` and `MulSum`: `a` a vector, `b` of either kind. `ExpSubSum`, `ExpBelowSum` and
/// `SqDevSum`: `b` a broadcast. `Dot`: two vectors.
pub fn fused(op: Fused, dtype: DType, kinds: OperandKinds) -> Option<MicroFn> {
    if kinds[0] != OperandKind::Vector {
        return None;
    }
    match LaneType::of(dtype) {
        LaneType::F32 => single(op, kinds),
        LaneType::F64 => real::<f64>(op, kinds),
        LaneType::I32 | LaneType::U32 | LaneType::I64 | LaneType::U8 => None,
    }
}

fn single(op: Fused, kinds: OperandKinds) -> Option<MicroFn> {
    match op {
        Fused::ExpSub if kinds[1] == OperandKind::Vector => Some(micro::<Binary<ExpSubMap, f32, VV>>()),
        Fused::ExpSub => {
            Some(exponential::loops().map_or_else(micro::<Binary<ExpSubMap, f32, VS>>, |loops| loops.exp_sub))
        }
        Fused::ExpSubSum | Fused::ExpBelowSum if kinds[1] == OperandKind::Broadcast => {
            Some(exp_sum_loop(op).unwrap_or_else(micro::<ExpSubSumLoop>))
        }
        Fused::SqDevSum | Fused::Dot | Fused::MulSum => real::<f32>(op, kinds),
        Fused::ExpSubSum | Fused::ExpBelowSum => None,
    }
}

fn real<T: Real>(op: Fused, kinds: OperandKinds) -> Option<MicroFn> {
    match op {
        Fused::SqDevSum if kinds[1] == OperandKind::Broadcast => Some(micro::<SqDevSum<T>>()),
        Fused::Dot if kinds[1] == OperandKind::Vector => Some(micro::<DotSum<T>>()),
        Fused::MulSum if kinds[1] == OperandKind::Vector => Some(micro::<MulSum<T, VV>>()),
        Fused::MulSum => Some(micro::<MulSum<T, VS>>()),
        Fused::SqDevSum | Fused::Dot | Fused::ExpSub | Fused::ExpSubSum | Fused::ExpBelowSum => None,
    }
}

/// The loop of `ExpSubSum` or `ExpBelowSum` written for the instruction set, if any.
fn exp_sum_loop(op: Fused) -> Option<MicroFn> {
    let loops = exponential::loops()?;
    match op {
        Fused::ExpSubSum => Some(loops.exp_sub_sum),
        Fused::ExpBelowSum => Some(loops.exp_below_sum),
        Fused::ExpSub | Fused::SqDevSum | Fused::Dot | Fused::MulSum => None,
    }
}

struct ExpSubMap;
impl Map2<f32> for ExpSubMap {
    type Out = f32;
    #[inline(always)]
    fn map<I: Isa>(x: f32, y: f32) -> f32 {
        math::exp::<I>(x - y)
    }
}

struct ExpSubSumLoop;
impl Micro for ExpSubSumLoop {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, ..]: OperandPtrs, n: usize, next: *const u8) {
        // SAFETY: the contract of `MicroFn`, with `c` a sum state.
        unsafe {
            let (dst, a, shift): (&mut [f32], &[f32], f32) =
                (view_mut(dst, n), view(a, n), b.cast::<f32>().read());
            let sum = &mut *c.cast_mut().cast::<CompensatedSum<f32>>();
            for (i, (dst, a)) in dst.chunks_mut(BLOCK).zip(a.chunks(BLOCK)).enumerate() {
                let next = next.wrapping_add(i * BLOCK * size_of::<f32>());
                sum.add(f64::from(exp_sub_block::<I>(dst, a, shift, next)));
            }
        }
    }
}

#[inline(always)]
fn exp_sub_block<I: Isa>(dst: &mut [f32], x: &[f32], shift: f32, next: *const u8) -> f32 {
    let mut lanes = [0.0; LANES];
    let n = x.len();
    let whole = n - n % LANES;
    let (to, to_rest) = dst.split_at_mut(whole);
    for (i, (to, x)) in to.chunks_exact_mut(LANES).zip(x.chunks_exact(LANES)).enumerate() {
        prefetch_lanes(next.wrapping_add(i * size_of_val(x)), LANES, n);
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
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`, with `dst` a sum state.
        let (sum, a, shift): (&mut CompensatedSum<T>, &[T], T) =
            unsafe { (&mut *dst.cast(), view(a, n), b.cast::<T>().read()) };
        for block in a.chunks(BLOCK) {
            sum.add(T::squares::<I>(block, shift).widen());
        }
    }
}

struct DotSum<T>(PhantomData<T>);
impl<T: Real> Micro for DotSum<T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`, with `dst` a sum state.
        let (sum, a, b): (&mut CompensatedSum<T>, &[T], &[T]) =
            unsafe { (&mut *dst.cast(), view(a, n), view(b, n)) };
        for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
            sum.add(T::dot::<I>(a, b).widen());
        }
    }
}

struct MulSum<T, const BROADCAST: u8>(PhantomData<T>);
impl<T: Real, const BROADCAST: u8> Micro for MulSum<T, BROADCAST> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            match BROADCAST {
                VV => add_products::<I, T>(view_mut(dst, n), view(a, n), view(b, n)),
                _ => add_multiple::<I, T>(view_mut(dst, n), view(a, n), b.cast::<T>().read()),
            }
        }
    }
}

#[inline(always)]
fn add_products<I: Isa, T: Real>(sums: &mut [T], a: &[T], b: &[T]) {
    for ((sum, &x), &y) in sums.iter_mut().zip(a).zip(b) {
        *sum = x.mul_add::<I>(y, *sum);
    }
}

#[inline(always)]
fn add_multiple<I: Isa, T: Real>(sums: &mut [T], a: &[T], b: T) {
    for (sum, &x) in sums.iter_mut().zip(a) {
        *sum = x.mul_add::<I>(b, *sum);
    }
}
