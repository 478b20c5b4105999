//! Accuracy of the `f32` functions.

use super::Rng;
use crate::AluOp;
use crate::DType;
use crate::micro::isa::forced::each_level;
use crate::micro::{Fused, MAX_OPERANDS, MicroFn, OperandKind, ReduceKind, STATE_BYTES, alu, fused, reduce};
use crate::special::erf;

type Reference = fn(f64) -> f64;

/// The distance of `got` from `want` in units of the last place of `want`
/// as an `f32`; infinite where one is special and the other not the same.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if rounded.is_nan() || got.is_nan() {
        return if rounded.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded && (got != 0.0 || got.is_sign_negative() == rounded.is_sign_negative()) {
        return 0.0;
    }
    if got.is_infinite() || rounded.is_infinite() || (want == 0.0) {
        // One ulp beyond the largest number is where infinity begins.
        return if got.abs() >= f32::MAX && rounded.abs() >= f32::MAX { 1.0 } else { f64::INFINITY };
    }
    let exponent = (f64::from(rounded.abs().max(f32::MIN_POSITIVE)).log2().floor() as i32).clamp(-126, 127);
    (f64::from(got) - want).abs() / 2f64.powi(exponent - 23)
}

/// All exponents and signs, specials, and a dense random sample.
fn arguments() -> Vec<f32> {
    let mut rng = Rng(17);
    let mut x =
        vec![0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-45];
    x.extend((0..60_000).map(|_| f32::from_bits(rng.next() as u32)));
    for range in [2.0, 20.0, 200.0, 1e6] {
        x.extend((0..20_000).map(|_| ((rng.unit() - 0.5) * range) as f32));
    }
    // Around the multiples of π/2 and 1, where sine and logarithm vanish.
    for k in 0..8200 {
        let near = (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32;
        x.extend([
            near.next_down(),
            near,
            near.next_up(),
            1.0 + k as f32 * f32::EPSILON,
            1.0 - k as f32 * f32::EPSILON,
        ]);
    }
    x.extend((0..2000).map(|k| -86.0 - k as f32 * 0.01));
    x.extend((0..2000).map(|k| -124.0 - k as f32 * 0.015));
    x
}

fn worst(micro: MicroFn, reference: impl Fn(f64) -> f64) -> (f64, f32) {
    let x = arguments();
    let mut y = vec![0f32; x.len()];
    // SAFETY: both hold as many elements.
    unsafe { micro(y.as_mut_ptr().cast(), [x.as_ptr().cast(); MAX_OPERANDS], x.len(), x.as_ptr().cast()) };
    let mut worst = (0.0, 0.0);
    for (&x, &y) in x.iter().zip(&y) {
        let error = ulps(y, reference(f64::from(x)));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

#[test]
fn functions_stay_within_two_and_a_half_ulp() {
    let rows: [(AluOp, Reference); 8] = [
        (AluOp::Exp, f64::exp),
        (AluOp::Exp2, f64::exp2),
        (AluOp::Log, f64::ln),
        (AluOp::Log2, f64::log2),
        (AluOp::Tanh, f64::tanh),
        (AluOp::Erf, erf),
        (AluOp::Sin, f64::sin),
        (AluOp::Cos, f64::cos),
    ];
    each_level(|level| {
        for (op, reference) in rows {
            let (error, x) = worst(alu(op, DType::F32, [OperandKind::Vector; MAX_OPERANDS]), reference);
            println!("{level:?} {op:?} {error:.3} ulp at {x:e}");
            assert!(error <= 2.5, "{level:?} {op:?} is {error} ulp off at {x:e}");
        }
    });
}

/// Nor do its bits depend on what lies beside it, even if that takes a way of its own.
#[test]
fn exponentials_have_the_same_bits_whatever_lies_beside_them() {
    let x: Vec<f32> = arguments().into_iter().step_by(37).collect();
    each_level(|level| {
        let exp = alu(AluOp::Exp, DType::F32, [OperandKind::Vector; MAX_OPERANDS]);
        let of = |x: &[f32]| {
            let mut y = vec![0f32; x.len()];
            // SAFETY: both hold as many elements.
            unsafe {
                exp(y.as_mut_ptr().cast(), [x.as_ptr().cast(); MAX_OPERANDS], x.len(), x.as_ptr().cast())
            };
            y
        };
        for beside in [0.0, f32::NEG_INFINITY, f32::NAN, 100.0, -95.0] {
            let among: Vec<f32> = x.iter().flat_map(|&x| [x, beside, beside]).collect();
            for (&x, y) in x.iter().zip(of(&among).chunks(3)) {
                let alone = of(&[x; 1])[0];
                assert!(
                    alone.to_bits() == y[0].to_bits() || (alone.is_nan() && y[0].is_nan()),
                    "{level:?}: of {x:e} beside {beside} {:e}, alone {alone:e}",
                    y[0]
                );
            }
        }
    });
}

/// Whichever loop computes it, an exponential has the same bits.
#[test]
fn exponentials_of_differences_have_the_bits_of_exponentials() {
    let all = arguments();
    let below: Vec<f32> = all.iter().copied().filter(|x| x.is_nan() || *x <= 0.0).collect();
    assert!(below.len() > all.len() / 3 && below.contains(&f32::NEG_INFINITY));
    same_exponentials(&all, Fused::ExpSubSum);
    same_exponentials(&below, Fused::ExpBelowSum);
}

fn same_exponentials(x: &[f32], summing: Fused) {
    let (zero, n) = (0f32, x.len() - 3);
    let null = std::ptr::null();
    each_level(|level| {
        let kinds =
            [OperandKind::Vector, OperandKind::Broadcast, OperandKind::Broadcast, OperandKind::Broadcast];
        let (plain, summed) = (fused(Fused::ExpSub, DType::F32, kinds), fused(summing, DType::F32, kinds));
        let exp = alu(AluOp::Exp, DType::F32, [OperandKind::Vector; MAX_OPERANDS]);
        let sums = reduce(ReduceKind::Sum, DType::F32).unwrap();
        let mut results = [vec![0f32; n + 1], vec![0f32; n + 1], vec![0f32; n + 1]];
        let [wanted, differences, entering] = results.each_mut().map(|y| y.as_mut_ptr().cast::<u8>());
        let (x, zero) = (x.as_ptr().cast(), (&raw const zero).cast());
        let mut state = [0u64; STATE_BYTES / 8];
        // SAFETY: all hold `n` elements; the state is the reducer's.
        unsafe {
            exp(wanted, [x; MAX_OPERANDS], n, null);
            plain.unwrap()(differences, [x, zero, null, null], n, null);
            (sums.init)(state.as_mut_ptr().cast());
            summed.unwrap()(entering, [x, zero, state.as_ptr().cast(), null], n, null);
        }
        let [wanted, others @ ..] = &results;
        for other in others {
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(wanted.iter().zip(other).all(same), "{level:?}");
            assert_eq!(other[n], 0.0, "{level:?}: written beyond the end");
        }
    });
}
