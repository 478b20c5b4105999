//! The micro-ops of the ALU table.

use std::marker::PhantomData;

use crate::AluOp;
use crate::DType;
use crate::micro::exponential;
use crate::micro::isa::{Isa, versioned};
use crate::micro::lane::LaneType;
use crate::micro::memory::prefetch_l2;
use crate::micro::non_temporal::{Elementwise, step};
use crate::micro::ops::{self, Angle, Map1, Map2, Periodic};
use crate::micro::{
    MAX_OPERANDS, MicroFn, OperandKind, OperandKinds, OperandPtrs, piecewise, view, view_mut,
};
use crate::thresholds::PREFETCH_CHUNK;

/// The micro-op of an ALU row on operands of type `dtype` (the values' type
/// for `Where`), whose `i`-th operand is of kind `kinds[i]`.
///
/// Every combination of kinds exists; that of broadcasts only computes once and
/// fills. A unary row ignores its operand's kind (a vector, of one element if need be).
/// The 16-bit floats mean their register form, `F32`. Comparisons write bytes
/// of 0 and 1, and `Where` reads such bytes as its first operand.
///
/// # Panics
/// Panics if the row does not accept the type.
pub fn alu(op: AluOp, dtype: DType, kinds: OperandKinds) -> MicroFn {
    assert!(op.accepts().kind(dtype.kind()), "{} does not accept {dtype}", op.name());
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => float32(op, kinds),
        DType::F64 => float64(op, kinds),
        DType::Bool => boolean(op, kinds),
        DType::U8 => unsigned8(op, kinds),
        DType::I32 => signed32(op, kinds),
        DType::U32 => unsigned32(op, kinds),
        DType::I64 => signed64(op, kinds),
    }
}

/// Whether the loop of a row computes so much for each element that it prefetches other memory
/// meanwhile.
pub fn prefetches(op: AluOp, dtype: DType) -> bool {
    let costly = match op {
        AluOp::Recip | AluOp::Sqrt | AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log => true,
        AluOp::Tanh | AluOp::Erf => true,
        AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::Div | AluOp::Rem | AluOp::Max | AluOp::Min => false,
        AluOp::Pow
        | AluOp::Neg
        | AluOp::Abs
        | AluOp::Floor
        | AluOp::Trunc
        | AluOp::Round
        | AluOp::Lt
        | AluOp::Eq => false,
        AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr | AluOp::Where => false,
        // Arguments out of range take a second pass.
        AluOp::Sin | AluOp::Cos => false,
    };
    costly && LaneType::of(dtype) == LaneType::F32
}

versioned! {
    /// A loop with the signature [`MicroFn`].
    Micro, micro, base_micro, fn(dst: *mut u8, from: OperandPtrs, n: usize, next: *const u8)
}

// Broadcast masks of two operands, vector (V) or broadcast scalar (S): bit 0 is the second's,
// bit 1 the first's.
pub(super) const VV: u8 = 0;
pub(super) const VS: u8 = 1;
pub(super) const SV: u8 = 2;
pub(super) const SS: u8 = 3;

/// The loop of a unary operation.
pub(super) struct Unary<O, T>(PhantomData<(O, T)>);
impl<O: Map1<T>, T: Copy> Micro for Unary<O, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`.
        let (dst, a) = unsafe { (view_mut(dst, n), view(a, n)) };
        map::<I, O, T>(dst, a);
    }
}

impl<O: Map1<f32, Out = f32>> Elementwise for Unary<O, f32> {
    const STEPS: [usize; MAX_OPERANDS] = [step(true), 0, 0, 0];
}

// The loops are functions of slices because LLVM then knows, even after
// inlining, that the destination overlaps nothing.
#[inline(always)]
fn map<I: Isa, O: Map1<T>, T: Copy>(dst: &mut [O::Out], a: &[T]) {
    for (d, &x) in dst.iter_mut().zip(a) {
        *d = O::map::<I>(x);
    }
}

/// The loop of a unary operation that [`prefetches`].
pub(super) struct Prefetching<O, T>(PhantomData<(O, T)>);
impl<O: Map1<T>, T: Copy> Micro for Prefetching<O, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, next: *const u8) {
        // SAFETY: the contract of `MicroFn`.
        let (dst, a): (&mut [O::Out], &[T]) = unsafe { (view_mut(dst, n), view(a, n)) };
        for (i, (dst, a)) in dst.chunks_mut(PREFETCH_CHUNK).zip(a.chunks(PREFETCH_CHUNK)).enumerate() {
            prefetch_l2(next.wrapping_add(i * PREFETCH_CHUNK * size_of::<T>()), size_of_val(a));
            map::<I, O, T>(dst, a);
        }
    }
}

impl<O: Map1<f32, Out = f32>> Elementwise for Prefetching<O, f32> {
    const STEPS: [usize; MAX_OPERANDS] = [step(true), 0, 0, 0];
}

/// The loop of a binary operation for one broadcast mask.
pub(super) struct Binary<O, T, const BROADCAST: u8>(PhantomData<(O, T)>);
impl<O: Map2<T>, T: Copy, const BROADCAST: u8> Micro for Binary<O, T, BROADCAST> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            let dst: &mut [O::Out] = view_mut(dst, n);
            let (a, b) = (a.cast::<T>(), b.cast::<T>());
            match BROADCAST {
                VV => zip::<I, O, T>(dst, view(a.cast(), n), view(b.cast(), n)),
                VS => map_right::<I, O, T>(dst, view(a.cast(), n), b.read()),
                SV => map_left::<I, O, T>(dst, a.read(), view(b.cast(), n)),
                _ => dst.fill(O::map::<I>(a.read(), b.read())),
            }
        }
    }
}

impl<O: Map2<f32, Out = f32>, const BROADCAST: u8> Elementwise for Binary<O, f32, BROADCAST> {
    const STEPS: [usize; MAX_OPERANDS] = [step(BROADCAST & SV == 0), step(BROADCAST & VS == 0), 0, 0];
}

#[inline(always)]
fn zip<I: Isa, O: Map2<T>, T: Copy>(dst: &mut [O::Out], a: &[T], b: &[T]) {
    for ((d, &x), &y) in dst.iter_mut().zip(a).zip(b) {
        *d = O::map::<I>(x, y);
    }
}

#[inline(always)]
fn map_right<I: Isa, O: Map2<T>, T: Copy>(dst: &mut [O::Out], a: &[T], y: T) {
    for (d, &x) in dst.iter_mut().zip(a) {
        *d = O::map::<I>(x, y);
    }
}

#[inline(always)]
fn map_left<I: Isa, O: Map2<T>, T: Copy>(dst: &mut [O::Out], x: T, b: &[T]) {
    for (d, &y) in dst.iter_mut().zip(b) {
        *d = O::map::<I>(x, y);
    }
}

fn binary<O: Map2<T> + 'static, T: Copy + 'static>(kinds: OperandKinds) -> MicroFn {
    match (kinds[0], kinds[1]) {
        (OperandKind::Vector, OperandKind::Vector) => micro::<Binary<O, T, VV>>(),
        (OperandKind::Vector, OperandKind::Broadcast) => micro::<Binary<O, T, VS>>(),
        (OperandKind::Broadcast, OperandKind::Vector) => micro::<Binary<O, T, SV>>(),
        (OperandKind::Broadcast, OperandKind::Broadcast) => base_micro::<Binary<O, T, SS>>(),
    }
}

/// A binary operation no instruction set vectorises: one version serves all.
fn slow_binary<O: Map2<T> + 'static, T: Copy + 'static>(kinds: OperandKinds) -> MicroFn {
    match (kinds[0], kinds[1]) {
        (OperandKind::Vector, OperandKind::Vector) => base_micro::<Binary<O, T, VV>>(),
        (OperandKind::Vector, OperandKind::Broadcast) => base_micro::<Binary<O, T, VS>>(),
        (OperandKind::Broadcast, OperandKind::Vector) => base_micro::<Binary<O, T, SV>>(),
        (OperandKind::Broadcast, OperandKind::Broadcast) => base_micro::<Binary<O, T, SS>>(),
    }
}

fn unary<O: Map1<T> + 'static, T: Copy + 'static>() -> MicroFn {
    micro::<Unary<O, T>>()
}

/// A unary operation that [`prefetches`].
fn prefetching<O: Map1<T> + 'static, T: Copy + 'static>() -> MicroFn {
    micro::<Prefetching<O, T>>()
}

/// Sine and cosine: the fastest loop, then a second pass over arguments out of its range.
pub(super) struct Trig<O, T>(PhantomData<(O, T)>);
impl<O: Periodic<T>, T: Angle> Micro for Trig<O, T> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`.
        let (dst, a): (&mut [T], &[T]) = unsafe { (view_mut(dst, n), view(a, n)) };
        map::<I, O, T>(dst, a);
        if !a.iter().fold(true, |near, x| near & x.is_near::<I>()) {
            for (dst, a) in dst.chunks_mut(PREFETCH_CHUNK).zip(a.chunks(PREFETCH_CHUNK)) {
                fix_far::<I, O, T>(dst, a);
            }
        }
    }
}

/// Recomputes arguments that are not near.
#[inline(always)]
fn fix_far<I: Isa, O: Periodic<T>, T: Angle>(dst: &mut [T], a: &[T]) {
    let mut wide = [T::default(); PREFETCH_CHUNK];
    for (wide, &x) in wide.iter_mut().zip(a) {
        *wide = O::wide::<I>(x);
    }
    for ((d, &x), wide) in dst.iter_mut().zip(a).zip(wide) {
        if !x.is_near::<I>() {
            *d = if x.is_wide() { wide } else { x.by(O::any) };
        }
    }
}

impl<O: Periodic<f32>> Elementwise for Trig<O, f32> {
    const STEPS: [usize; MAX_OPERANDS] = [step(true), 0, 0, 0];
}

/// The loop of `Where`, on any elements of one size, with a vector condition.
pub(super) struct Select<T, const BROADCAST: u8>(PhantomData<T>);
impl<T: Copy, const BROADCAST: u8> Micro for Select<T, BROADCAST> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            let (dst, condition): (&mut [T], &[u8]) = (view_mut(dst, n), view(a, n));
            let (b_len, c_len) = match BROADCAST {
                VV => (n, n),
                VS => (n, 1),
                SV => (1, n),
                _ => (1, 1),
            };
            select::<T>(dst, condition, view(b, b_len.min(n)), view(c, c_len.min(n)), BROADCAST);
        }
    }
}

impl<const BROADCAST: u8> Elementwise for Select<u32, BROADCAST> {
    const STEPS: [usize; MAX_OPERANDS] =
        [size_of::<u8>(), step(BROADCAST & SV == 0), step(BROADCAST & VS == 0), 0];
}

#[inline(always)]
fn select<T: Copy>(dst: &mut [T], condition: &[u8], b: &[T], c: &[T], mask: u8) {
    let n = dst.len();
    if n == 0 {
        return;
    }
    let (b_step, c_step) = (usize::from(mask & SV == 0), usize::from(mask & VS == 0));
    let (condition, b, c) = (&condition[..n], &b[..1 + (n - 1) * b_step], &c[..1 + (n - 1) * c_step]);
    for i in 0..n {
        let (x, y) = (b[i * b_step], c[i * c_step]);
        dst[i] = if condition[i] != 0 { x } else { y };
    }
}

/// `Where` with a scalar condition: one operand, copied or repeated.
struct ScalarSelect<T, const BROADCAST: u8>(PhantomData<T>);
impl<T: Copy, const BROADCAST: u8> Micro for ScalarSelect<T, BROADCAST> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, ..]: OperandPtrs, n: usize, _next: *const u8) {
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            let dst: &mut [T] = view_mut(dst, n);
            let (from, scalar) =
                if a.read() != 0 { (b, BROADCAST & SV != 0) } else { (c, BROADCAST & VS != 0) };
            if scalar {
                dst.fill(from.cast::<T>().read());
            } else {
                dst.copy_from_slice(view(from, n));
            }
        }
    }
}

fn where_of<T: Copy + 'static>(kinds: OperandKinds) -> MicroFn {
    match (kinds[0], kinds[1], kinds[2]) {
        (OperandKind::Vector, OperandKind::Vector, OperandKind::Vector) => micro::<Select<T, VV>>(),
        (OperandKind::Vector, OperandKind::Vector, OperandKind::Broadcast) => micro::<Select<T, VS>>(),
        (OperandKind::Vector, OperandKind::Broadcast, OperandKind::Vector) => micro::<Select<T, SV>>(),
        (OperandKind::Vector, OperandKind::Broadcast, OperandKind::Broadcast) => micro::<Select<T, SS>>(),
        (OperandKind::Broadcast, OperandKind::Vector, OperandKind::Vector) => {
            base_micro::<ScalarSelect<T, VV>>()
        }
        (OperandKind::Broadcast, OperandKind::Vector, OperandKind::Broadcast) => {
            base_micro::<ScalarSelect<T, VS>>()
        }
        (OperandKind::Broadcast, OperandKind::Broadcast, OperandKind::Vector) => {
            base_micro::<ScalarSelect<T, SV>>()
        }
        (OperandKind::Broadcast, OperandKind::Broadcast, OperandKind::Broadcast) => {
            base_micro::<ScalarSelect<T, SS>>()
        }
    }
}

macro_rules! float_rows {
    ($name:ident, $t:ty, $bits:ty, $unary:ident, $pow:ident, $exp:expr, $erf:expr) => {
        fn $name(op: AluOp, kinds: OperandKinds) -> MicroFn {
            match op {
                AluOp::Add => binary::<ops::Add, $t>(kinds),
                AluOp::Sub => binary::<ops::Sub, $t>(kinds),
                AluOp::Mul => binary::<ops::Mul, $t>(kinds),
                AluOp::Div => binary::<ops::Div, $t>(kinds),
                AluOp::Rem => slow_binary::<ops::Rem, $t>(kinds),
                AluOp::Max => binary::<ops::Max, $t>(kinds),
                AluOp::Min => binary::<ops::Min, $t>(kinds),
                AluOp::Pow => $pow::<ops::Pow, $t>(kinds),
                AluOp::Neg => unary::<ops::Neg, $t>(),
                AluOp::Abs => unary::<ops::Abs, $t>(),
                AluOp::Recip => $unary::<ops::Recip, $t>(),
                AluOp::Sqrt => $unary::<ops::Sqrt, $t>(),
                AluOp::Exp2 => $unary::<ops::Exp2, $t>(),
                AluOp::Log2 => $unary::<ops::Log2, $t>(),
                AluOp::Exp => $exp,
                AluOp::Log => $unary::<ops::Log, $t>(),
                AluOp::Sin => micro::<Trig<ops::Sin, $t>>(),
                AluOp::Cos => micro::<Trig<ops::Cos, $t>>(),
                AluOp::Tanh => $unary::<ops::Tanh, $t>(),
                AluOp::Erf => $erf,
                AluOp::Floor => unary::<ops::Floor, $t>(),
                AluOp::Trunc => unary::<ops::Trunc, $t>(),
                AluOp::Round => unary::<ops::Round, $t>(),
                AluOp::Lt => binary::<ops::Lt, $t>(kinds),
                AluOp::Eq => binary::<ops::Eq, $t>(kinds),
                AluOp::Where => where_of::<$bits>(kinds),
                AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Not | AluOp::Shl | AluOp::Shr => {
                    unreachable!("{} on floats", op.name())
                }
            }
        }
    };
}
float_rows!(float32, f32, u32, prefetching, binary, exp(), erf());
float_rows!(float64, f64, u64, unary, slow_binary, unary::<ops::Exp, f64>(), unary::<ops::Erf, f64>());

/// The exponential, by a loop written for the instruction set where there is one.
fn exp() -> MicroFn {
    exponential::loops().map_or_else(prefetching::<ops::Exp, f32>, |loops| loops.exp)
}

/// The error function, by permutes where registers hold the tables.
fn erf() -> MicroFn {
    piecewise::erf().unwrap_or_else(prefetching::<ops::Erf, f32>)
}

macro_rules! integer_rows {
    ($name:ident, $t:ty, $bits:ty, $division:ident) => {
        fn $name(op: AluOp, kinds: OperandKinds) -> MicroFn {
            match op {
                AluOp::Add => binary::<ops::Add, $t>(kinds),
                AluOp::Sub => binary::<ops::Sub, $t>(kinds),
                AluOp::Mul => binary::<ops::Mul, $t>(kinds),
                AluOp::Div => $division::<ops::Div, $t>(kinds),
                AluOp::Rem => $division::<ops::Rem, $t>(kinds),
                AluOp::Max => binary::<ops::Max, $t>(kinds),
                AluOp::Min => binary::<ops::Min, $t>(kinds),
                AluOp::Pow => slow_binary::<ops::Pow, $t>(kinds),
                AluOp::Neg => unary::<ops::Neg, $t>(),
                AluOp::Abs => unary::<ops::Abs, $t>(),
                AluOp::Lt => binary::<ops::Lt, $t>(kinds),
                AluOp::Eq => binary::<ops::Eq, $t>(kinds),
                AluOp::And => binary::<ops::And, $t>(kinds),
                AluOp::Or => binary::<ops::Or, $t>(kinds),
                AluOp::Xor => binary::<ops::Xor, $t>(kinds),
                AluOp::Not => unary::<ops::Not, $t>(),
                AluOp::Shl => binary::<ops::Shl, $t>(kinds),
                AluOp::Shr => binary::<ops::Shr, $t>(kinds),
                AluOp::Where => where_of::<$bits>(kinds),
                AluOp::Recip | AluOp::Sqrt | AluOp::Exp2 | AluOp::Log2 | AluOp::Exp | AluOp::Log => {
                    unreachable!("{} on integers", op.name())
                }
                AluOp::Sin
                | AluOp::Cos
                | AluOp::Tanh
                | AluOp::Erf
                | AluOp::Floor
                | AluOp::Trunc
                | AluOp::Round => {
                    unreachable!("{} on integers", op.name())
                }
            }
        }
    };
}
integer_rows!(unsigned8, u8, u8, binary);
integer_rows!(signed32, i32, u32, binary);
integer_rows!(unsigned32, u32, u32, binary);
integer_rows!(signed64, i64, u64, slow_binary);

/// Truth values share the bytes' loops, but for their complement.
fn boolean(op: AluOp, kinds: OperandKinds) -> MicroFn {
    if op == AluOp::Not { unary::<ops::LogicalNot, u8>() } else { unsigned8(op, kinds) }
}
