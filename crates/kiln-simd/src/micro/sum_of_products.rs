//! The sum or the difference of two products as one loop. Each operation rounds separately, so the
//! result is bit-identical to one loop after the other.

use std::marker::PhantomData;

use crate::DType;
use crate::micro::alu::Micro;
use crate::micro::binary_chain::{Map2F32, loops};
use crate::micro::isa::Isa;
use crate::micro::lane::LaneType;
use crate::micro::non_temporal::{Elementwise, step};
use crate::micro::ops;
use crate::micro::{MAX_OPERANDS, MicroFn, OperandKind, OperandKinds, OperandPtrs, Operation, Variants};
use crate::micro::{view, view_mut};

/// `a * b + c * d`, or their `difference`; `None` where there are no loops.
///
/// On `F32` and the 16-bit floats' register form. `a` and `c` are vectors, `b` and `d` of either
/// kind.
pub fn sum_of_products(difference: bool, dtype: DType, kinds: OperandKinds) -> Option<Operation> {
    if LaneType::of(dtype) != LaneType::F32 {
        return None;
    }
    let mask = match kinds {
        [OperandKind::Vector, OperandKind::Vector, OperandKind::Vector, OperandKind::Vector] => 0,
        [OperandKind::Vector, OperandKind::Vector, OperandKind::Vector, OperandKind::Broadcast] => 1,
        [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Vector, OperandKind::Vector] => 2,
        [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Vector, OperandKind::Broadcast] => 3,
        [OperandKind::Broadcast, ..] | [_, _, OperandKind::Broadcast, _] => return None,
    };
    let (name, (function, variants)) = if difference {
        ("products_sub", by_mask::<ops::Sub>(mask))
    } else {
        ("products_add", by_mask::<ops::Add>(mask))
    };
    Some(Operation { function, name, variants: Some(variants) })
}

/// The loops of a broadcast mask: bit 1 if `b` is a broadcast, bit 0 if `d` is.
fn by_mask<O: Map2F32>(mask: u8) -> (MicroFn, Variants) {
    match mask {
        0 => loops::<SumOfProducts<O, 0>>(),
        1 => loops::<SumOfProducts<O, 1>>(),
        2 => loops::<SumOfProducts<O, 2>>(),
        _ => loops::<SumOfProducts<O, 3>>(),
    }
}

struct SumOfProducts<O, const BROADCAST: u8>(PhantomData<O>);
impl<O: Map2F32, const BROADCAST: u8> Micro for SumOfProducts<O, BROADCAST> {
    #[inline(always)]
    unsafe fn run<I: Isa>(dst: *mut u8, [a, b, c, d]: OperandPtrs, n: usize, _next: *const u8) {
        if n == 0 {
            return;
        }
        let [b_len, d_len] = [2, 1].map(|scalar| if BROADCAST & scalar == 0 { n } else { 1 });
        // SAFETY: the contract of `MicroFn`; a broadcast operand is one element.
        unsafe {
            let (first, second) = ([view(a, n), view(b, b_len)], [view(c, n), view(d, d_len)]);
            zip::<I, O, BROADCAST>(view_mut(dst, n), first, second);
        }
    }
}

impl<O: Map2F32, const BROADCAST: u8> Elementwise for SumOfProducts<O, BROADCAST> {
    const STEPS: [usize; MAX_OPERANDS] =
        [step(true), step(BROADCAST & 2 == 0), step(true), step(BROADCAST & 1 == 0)];
}

#[inline(always)]
fn zip<I: Isa, O: Map2F32, const BROADCAST: u8>(dst: &mut [f32], [a, b]: [&[f32]; 2], [c, d]: [&[f32]; 2]) {
    let n = dst.len();
    let (a, c) = (&a[..n], &c[..n]);
    let b = &b[..if BROADCAST & 2 == 0 { n } else { 1 }];
    let d = &d[..if BROADCAST & 1 == 0 { n } else { 1 }];
    let (y, w) = (b[0], d[0]);
    for i in 0..n {
        let y = if BROADCAST & 2 == 0 { b[i] } else { y };
        let w = if BROADCAST & 1 == 0 { d[i] } else { w };
        dst[i] = O::map::<I>(a[i] * y, c[i] * w);
    }
}
