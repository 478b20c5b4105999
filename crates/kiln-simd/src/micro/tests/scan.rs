//! Running reductions.

use super::reduce::{KINDS, State, data, near, reference, truth};
use super::{Register, Rng};
use crate::micro::isa::forced::each_level;
use crate::micro::*;
use crate::{DType, Scalar};

/// The scan of a register, in two runs.
fn scanned(scanner: Scanner, x: &Register, dtype: DType, n: usize) -> Register {
    let (size, cut) = (x.size(), n / 2);
    let mut state: State = Default::default();
    let mut values = Register::new(dtype, n);
    // SAFETY: a state made by `init`, and registers of the types asked for.
    unsafe {
        let state = state.as_mut_ptr().cast::<u8>();
        (scanner.init)(state);
        for (from, count) in [(0, cut), (cut, n - cut)] {
            let to = values.ptr_mut().wrapping_add(from * size);
            (scanner.run)(to, x.ptr().wrapping_add(from * size), count, state);
        }
    }
    values
}

fn check_scan(kind: ReduceKind, dtype: DType, n: usize, wild: bool, rng: &mut Rng) {
    let Some(scanner) = scan(kind, dtype) else {
        let no_scan = [ReduceKind::Moments, ReduceKind::ArgMax, ReduceKind::ArgMin];
        assert!(no_scan.contains(&kind) || (kind == ReduceKind::LogSumExp && !dtype.is_float()));
        return;
    };
    let x = data(kind, dtype, n, wild, rng);
    let values = scanned(scanner, &Register::of(dtype, &x), dtype, n);
    for i in 0..n {
        let want = reference(truth(kind, dtype), dtype, &x[..=i]);
        let want = if kind == ReduceKind::LogSumExp { want[2] } else { want[0] };
        let got = values.get(i).as_f64();
        assert!(near(got, want, dtype), "{kind:?} {dtype} {i}/{n}: {got} {want}");
    }
}

#[test]
fn scans_agree_with_reductions_of_prefixes() {
    each_level(|_| {
        let mut rng = Rng(43);
        for kind in KINDS {
            for dtype in DType::ALL {
                for n in [0, 1, 7, 31, 64, 65, 100] {
                    check_scan(kind, dtype, n, false, &mut rng);
                    check_scan(kind, dtype, n, true, &mut rng);
                }
            }
        }
    });
}

/// The scan of given floats.
fn of_floats(kind: ReduceKind, dtype: DType, x: &[f64]) -> Vec<f64> {
    let x: Vec<Scalar> = x.iter().map(|&x| Scalar::Float(x)).collect();
    let values = scanned(scan(kind, dtype).unwrap(), &Register::of(dtype, &x), dtype, x.len());
    (0..x.len()).map(|i| values.get(i).as_f64()).collect()
}

#[test]
fn running_products_are_held_wherever_one_after_the_other_are() {
    each_level(|_| {
        for (dtype, large) in [(DType::F32, 2f64.powi(127)), (DType::F64, 2f64.powi(1000))] {
            // Parts of these are more than a type holds that no running product is.
            let mut x = [1.0 / large, 1.0 / large, large, large].repeat(16);
            x[1] = 1.0;
            let mut product = 1.0;
            let want = x.iter().map(|x| {
                product *= x;
                product
            });
            assert_eq!(of_floats(ReduceKind::Prod, dtype, &x), want.collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_running_extreme_of_zeros_is_signed_and_nan_stays() {
    each_level(|_| {
        let mut x: Vec<f64> = (0..100).map(|i| if i == 37 { 0.0 } else { -0.0 }).collect();
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let largest = of_floats(ReduceKind::Max, dtype, &x);
            assert!((0..100).all(|i| largest[i].is_sign_negative() == (i < 37)), "{dtype}");
        }
        x[50] = f64::NAN;
        x[51] = f64::INFINITY;
        x[52] = f64::NEG_INFINITY;
        for kind in [ReduceKind::Max, ReduceKind::Min] {
            let extremes = of_floats(kind, DType::F32, &x);
            assert!((0..100).all(|i| extremes[i].is_nan() == (i >= 50)), "{kind:?}");
        }
    });
}

#[test]
fn running_logarithms_follow_maxima_that_come_late() {
    for (dtype, late) in [(DType::F32, 5e3), (DType::F64, 1e300)] {
        let value = |i: usize| match i {
            0..3 => f64::NEG_INFINITY,
            150 => late,
            _ => (i * 37 % 11) as f64,
        };
        let x: Vec<f64> = (0..255).map(value).collect();
        let scalars: Vec<Scalar> = x.iter().map(|&x| Scalar::Float(x)).collect();
        each_level(|level| {
            for (i, got) in of_floats(ReduceKind::LogSumExp, dtype, &x).into_iter().enumerate() {
                let want = reference(ReduceKind::LogSumExp, dtype, &scalars[..=i])[2];
                assert!(near(got, want, dtype), "{level:?} {dtype} {i}: {got} {want}");
            }
        });
    }
}
