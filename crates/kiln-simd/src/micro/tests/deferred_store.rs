//! Products stored by other loops.

use std::ptr::{null, null_mut};

use super::{LENGTHS, Rng};
use crate::AluOp;
use crate::DType;
use crate::micro::isa::forced::each_level;
use crate::micro::*;

/// Elements of a line of the cache.
const LINE: usize = 16;

/// The exponentials of a line and their sum, where `call` computes them.
fn exponentials(x: &[f32], call: impl FnOnce(*mut u8, OperandPtrs)) -> (Vec<f32>, f32) {
    let (mut e, shift, mut sum) = (vec![0f32; x.len()], 1f32, 0f32);
    let reducer = reduce(ReduceKind::Sum, DType::F32).unwrap();
    let mut state = [0u64; STATE_BYTES / 8];
    // SAFETY: a state made by `init`, one `f32` out.
    unsafe {
        let state = state.as_mut_ptr().cast::<u8>();
        (reducer.init)(state);
        call(e.as_mut_ptr().cast(), [x.as_ptr().cast(), (&raw const shift).cast(), state, null_mut()]);
        (reducer.finish)(state, &[(&raw mut sum).cast(), null_mut(), null_mut()]);
    }
    (e, sum)
}

/// Both of one loop have the bits that they have by themselves, whichever of the lines is longer.
#[test]
fn loops_that_store_a_product_do_what_both_do() {
    let kinds = [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Broadcast, OperandKind::Broadcast];
    let late = alu_variants(AluOp::Mul, DType::F32, kinds)
        .map(|variants| variants.non_temporal)
        .filter(|one| one.deferrable)
        .unwrap();
    each_level(|level| {
        for op in [Fused::ExpSubSum, Fused::ExpBelowSum] {
            let both = overlapping(op, DType::F32, kinds);
            assert_eq!(both.is_some(), level > Level::Base);
            let (Some(both), Some(alone)) = (both, fused(op, DType::F32, kinds)) else { return };
            let mut rng = Rng(7);
            let mut line = |n: usize| (0..n).map(|_| rng.unit() as f32).collect::<Vec<f32>>();
            for (n, m) in LENGTHS.into_iter().flat_map(|n| [(n, n), (n, 208), (300, n), (9000, n)]) {
                let (x, from) = (line(n), line(m - m % LINE));
                let mut to = vec![0f32; from.len() + 3 * LINE];
                let start = to.as_ptr().align_offset(4 * LINE) + LINE;
                let first = to[start..].as_mut_ptr();
                let late = DeferredStore {
                    function: late.function,
                    to: first,
                    from: from.as_ptr(),
                    factor: 3.0,
                    n: from.len(),
                };
                assert!(late.fills_cache_lines());
                // SAFETY: lines of `n`, a line of the product's, and a state.
                let (want, got) = unsafe {
                    (
                        exponentials(&x, |to, from| alone(to, from, n, null())),
                        exponentials(&x, |to, from| both(to, from, n, null(), &late)),
                    )
                };
                nt_fence();
                assert!(got == want, "{n} {m}");
                let product =
                    |i: usize| i.checked_sub(start).and_then(|i| from.get(i)).map_or(0.0, |x| x * 3.0);
                assert!(to.iter().enumerate().all(|(i, &to)| to == product(i)), "{n} {m}: {to:?}");
            }
        }
    });
}
