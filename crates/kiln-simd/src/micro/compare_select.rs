//! A select on a comparison as one loop: no intermediate mask is stored.

use std::marker::PhantomData;

use crate::AluOp;
use crate::DType;
use crate::micro::alu::Micro;
use crate::micro::binary_chain::loops;
use crate::micro::isa::Isa;
use crate::micro::lane::LaneType;
use crate::micro::non_temporal::{Elementwise, step};
use crate::micro::ops::{self, Map2};
use crate::micro::{MAX_OPERANDS, MicroFn, OperandKind, OperandKinds, OperandPtrs, Operation, Variants};
use crate::micro::{view, view_mut};

/// `c` where `a ∘ b`, else `d`; `None` where there are no loops.
///
/// On `F32` and the 16-bit floats' register form, by `Lt` and `Eq`. At least one of `a` and `b`
/// is a vector.
pub fn compare_select(comparison: AluOp, dtype: DType, kinds: OperandKinds) -> Option<Operation> {
    if LaneType::of(dtype) != LaneType::F32 {
        return None;
    }
    let (name, (function, variants)) = if comparison == AluOp::Lt {
        ("where_lt", by_mask::<ops::Lt>(kinds)?)
    } else if comparison == AluOp::Eq {
        ("where_eq", by_mask::<ops::Eq>(kinds)?)
    } else {
        return None;
    };
    Some(Operation { function, name, variants: Some(variants) })
}

fn by_mask<O: Comparison>(kinds: OperandKinds) -> Option<(MicroFn, Variants)> {
    match [kinds[0], kinds[1]] {
        [OperandKind::Vector, OperandKind::Vector] => Some(by_values::<O, 0>(kinds)),
        [OperandKind::Vector, OperandKind::Broadcast] => Some(by_values::<O, 1>(kinds)),
        [OperandKind::Broadcast, OperandKind::Vector] => Some(by_values::<O, 2>(kinds)),
        [OperandKind::Broadcast, OperandKind::Broadcast] => None,
    }
}

fn by_values<O: Comparison, const COMPARED: u8>(kinds: OperandKinds) -> (MicroFn, Variants) {
    match [kinds[2], kinds[3]] {
        [OperandKind::Vector, OperandKind::Vector] => loops::<CompareSelect<O, COMPARED, 0>>(),
        [OperandKind::Vector, OperandKind::Broadcast] => loops::<CompareSelect<O, COMPARED, 1>>(),
        [OperandKind::Broadcast, OperandKind::Vector] => loops::<CompareSelect<O, COMPARED, 2>>(),
        [OperandKind::Broadcast, OperandKind::Broadcast] => loops::<CompareSelect<O, COMPARED, 3>>(),
    }
}

trait Comparison: Map2<f32, Out = u8> + 'static {}
impl<O: Map2<f32, Out = u8> + 'static> Comparison for O {}

/// Each parameter is a mask of two operands: bit 1 if the first is a broadcast, bit 0 if the second is.
struct CompareSelect<O, const COMPARED: u8, const VALUES: u8>(PhantomData<O>);
impl<O: Comparison, const COMPARED: u8, const VALUES: u8> Micro for CompareSelect<O, COMPARED, VALUES> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, from: OperandPtrs, n: usize, _next: *const u8) {
        if n == 0 {
            return;
        }
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            let of = |i: usize| view(from[i], if Self::STEPS[i] == 0 { 1 } else { n });
            select::<I, O, COMPARED, VALUES>(view_mut(dst, n), [of(0), of(1)], [of(2), of(3)]);
        }
    }
}

impl<O: Comparison, const COMPARED: u8, const VALUES: u8> Elementwise for CompareSelect<O, COMPARED, VALUES> {
    const STEPS: [usize; MAX_OPERANDS] =
        [step(COMPARED & 2 == 0), step(COMPARED & 1 == 0), step(VALUES & 2 == 0), step(VALUES & 1 == 0)];
}

#[inline(always)]
fn select<I: Isa, O: Comparison, const COMPARED: u8, const VALUES: u8>(
    dst: &mut [f32],
    [a, b]: [&[f32]; 2],
    [c, d]: [&[f32]; 2],
) {
    let n = dst.len();
    let a = &a[..if COMPARED & 2 == 0 { n } else { 1 }];
    let b = &b[..if COMPARED & 1 == 0 { n } else { 1 }];
    let c = &c[..if VALUES & 2 == 0 { n } else { 1 }];
    let d = &d[..if VALUES & 1 == 0 { n } else { 1 }];
    let (x, y, yes, no) = (a[0], b[0], c[0], d[0]);
    for i in 0..n {
        let x = if COMPARED & 2 == 0 { a[i] } else { x };
        let y = if COMPARED & 1 == 0 { b[i] } else { y };
        let yes = if VALUES & 2 == 0 { c[i] } else { yes };
        let no = if VALUES & 1 == 0 { d[i] } else { no };
        dst[i] = if O::map::<I>(x, y) != 0 { yes } else { no };
    }
}
