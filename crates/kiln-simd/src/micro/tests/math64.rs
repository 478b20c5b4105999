//! Accuracy of the `f64` functions and of powers.

use super::Rng;
use crate::AluOp;
use crate::DType;
use crate::micro::isa::forced::each_level;
use crate::micro::{OperandKind, alu};
use crate::special::erf;

/// The distance of two numbers in units of the last place of the second; infinite where one is special and the
/// other not the same.
fn ulps(got: f64, want: f64) -> f64 {
    if got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if got.is_nan() || want.is_nan() || want == 0.0 {
        return f64::INFINITY;
    }
    if got.is_infinite() || want.is_infinite() {
        // One ulp beyond the largest number is where infinity begins.
        return if got.abs() >= f64::MAX && want.abs() >= f64::MAX { 1.0 } else { f64::INFINITY };
    }
    let ulp = want.abs().next_up() - want.abs();
    (got - want).abs() / ulp
}

/// All exponents and signs, specials, and a dense random sample.
fn arguments() -> Vec<f64> {
    let mut rng = Rng(19);
    let mut x = vec![0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 5e-324];
    x.extend((0..60_000).map(|_| f64::from_bits(rng.next())));
    for range in [2.0, 20.0, 200.0, 2000.0, 1e5, 1e6] {
        x.extend((0..20_000).map(|_| (rng.unit() - 0.5) * range));
    }
    // Around the multiples of π/2 and 1, where sine and logarithm vanish.
    for k in 0..4000 {
        let near = f64::from(k) * std::f64::consts::FRAC_PI_2;
        let beside = f64::from(k) * f64::EPSILON;
        x.extend([near.next_down(), near, near.next_up(), 1.0 + beside, 1.0 - beside]);
    }
    // Around the ends of the range of exponentials.
    x.extend((0..4000).map(|k| -707.0 - f64::from(k) * 0.01));
    x.extend((0..4000).map(|k| -1021.0 - f64::from(k) * 0.015));
    x
}

fn evaluated<T: Copy + Default>(
    op: AluOp,
    dtype: DType,
    operands: [&[T]; 2],
    kinds: [OperandKind; 2],
) -> Vec<T> {
    let mut y = vec![T::default(); operands[0].len().max(operands[1].len())];
    let [a, b] = operands.map(|x| x.as_ptr().cast());
    let kinds = [kinds[0], kinds[1], OperandKind::Broadcast, OperandKind::Broadcast];
    // SAFETY: as many elements as the kinds say.
    unsafe { alu(op, dtype, kinds)(y.as_mut_ptr().cast(), [a, b, b, b], y.len(), std::ptr::null()) };
    y
}

/// Most are within one of the C library's, which are as far from the exact value (its hyperbolic tangents two); the
/// series of the error function is ten off.
#[test]
fn double_functions_stay_within_a_few_ulp() {
    let rows: [(AluOp, fn(f64) -> f64, f64); 8] = [
        (AluOp::Exp, f64::exp, 1.0),
        (AluOp::Exp2, f64::exp2, 1.0),
        (AluOp::Log, f64::ln, 2.0),
        (AluOp::Log2, f64::log2, 2.0),
        (AluOp::Tanh, f64::tanh, 4.0),
        (AluOp::Sin, f64::sin, 2.0),
        (AluOp::Cos, f64::cos, 2.0),
        (AluOp::Erf, erf, 11.0),
    ];
    let x = arguments();
    each_level(|level| {
        for (op, reference, bound) in rows {
            let y = evaluated(op, DType::F64, [&x, &x], [OperandKind::Vector; 2]);
            let errors = x.iter().zip(&y).map(|(&x, &y)| (ulps(y, reference(x)), x));
            let (error, x) = errors.fold((0.0, 0.0), |worst, e| if e.0 > worst.0 { e } else { worst });
            println!("{level:?} {op:?} {error:.3} ulp at {x:e}");
            assert!(error <= bound, "{level:?} {op:?} is {error} ulp off at {x:e}");
        }
    });
}

/// Bases and exponents of all sizes, and all pairs of what has rules of its own.
fn powers() -> (Vec<f32>, Vec<f32>) {
    let mut rng = Rng(23);
    let special =
        [0.0, 1.0, 2.0, 3.0, 0.5, 2.5, 1e-45, 1e38, 8_388_609.0, 16_777_216.0, f32::INFINITY, f32::NAN];
    let special: Vec<f32> = special.into_iter().flat_map(|x| [x, -x]).collect();
    let mut pairs: Vec<(f32, f32)> =
        special.iter().flat_map(|&x| special.iter().map(move |&y| (x, y))).collect();
    let mut bits = || f32::from_bits(rng.next() as u32);
    pairs.extend((0..40_000).map(|_| (bits(), bits())));
    let mut unit = || rng.unit() as f32;
    for _ in 0..40_000 {
        // Results between 2^-150 and 2^129, of bases near one too.
        let (base, near, goal) = (unit() * 40.0, 1.0 + (unit() - 0.5) * 0.01, unit() * 279.0 - 150.0);
        pairs.extend([
            (base, goal / base.log2()),
            (near, goal / near.log2()),
            (-base, (unit() * 40.0).round()),
        ]);
    }
    pairs.into_iter().unzip()
}

#[test]
fn powers_stay_within_an_ulp_and_keep_the_exceptions() {
    let (x, y) = powers();
    let wanted = |x: f32, y: f32| f64::from(x).powf(f64::from(y));
    let off = |got: f32, want: f64| {
        let rounded = want as f32;
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        let ulp = f64::from(rounded.abs().next_up() - rounded.abs());
        let error = (f64::from(got) - want).abs() / ulp;
        if error.is_nan() { f64::INFINITY } else { error }
    };
    each_level(|level| {
        let found = evaluated(AluOp::Pow, DType::F32, [&x, &y], [OperandKind::Vector; 2]);
        let mut worst = 0.0f64;
        for ((&x, &y), &found) in x.iter().zip(&y).zip(&found) {
            let error = off(found, wanted(x, y));
            worst = worst.max(error);
            assert!(
                error <= 0.51,
                "{level:?}: {x:e} to the power of {y:e} is {found:e}, not {:e}",
                wanted(x, y)
            );
        }
        println!("{level:?} {worst:.3} ulp");
        for exponent in [-2.0, 0.5, 2.5, 3.0] {
            let alike = evaluated(
                AluOp::Pow,
                DType::F32,
                [&x, &[exponent]],
                [OperandKind::Vector, OperandKind::Broadcast],
            );
            let apart =
                evaluated(AluOp::Pow, DType::F32, [&x, &vec![exponent; x.len()]], [OperandKind::Vector; 2]);
            let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(alike.iter().zip(&apart).all(same), "{level:?}: exponent {exponent}");
        }
    });
}
