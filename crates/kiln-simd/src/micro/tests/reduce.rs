//! Reductions along and across rows, and summing superinstructions.

use std::ptr::{null, null_mut};

use super::{LENGTHS, Register, Rng, register_type, samples};
use crate::micro::isa::forced::each_level;
use crate::micro::*;
use crate::{DType, Scalar};

pub(super) const KINDS: [ReduceKind; 8] = [
    ReduceKind::Sum,
    ReduceKind::Prod,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::ArgMax,
    ReduceKind::ArgMin,
    ReduceKind::Moments,
    ReduceKind::LogSumExp,
];

pub(super) type State = [u64; STATE_BYTES / 8];

/// Whether `x` replaces `y` as an extreme.
fn beats(x: Scalar, y: Scalar, largest: bool) -> bool {
    if let (Scalar::Int(x), Scalar::Int(y)) = (x, y) {
        return if largest { x > y } else { x < y };
    }
    let (x, y) = (x.as_f64(), y.as_f64());
    if x.is_nan() || y.is_nan() {
        return x.is_nan() && !y.is_nan();
    }
    if largest { x > y } else { x < y }
}

fn best(x: &[Scalar], largest: bool) -> usize {
    (1..x.len()).fold(0, |best, i| if beats(x[i], x[best], largest) { i } else { best })
}

/// The components by definition: exact in integers, in `f64` for floats.
pub(super) fn reference(kind: ReduceKind, dtype: DType, x: &[Scalar]) -> Vec<f64> {
    let float: Vec<f64> = x.iter().map(|x| x.as_f64()).collect();
    let wrapped = |i: i64| Scalar::Int(i).cast(dtype).as_f64();
    let (sum, product) = if dtype.is_float() {
        (float.iter().sum(), float.iter().product())
    } else {
        let fold = |f: fn(i64, i64) -> i64, id| x.iter().fold(id, |acc, x| f(acc, x.as_i64()));
        (wrapped(fold(i64::wrapping_add, 0)), wrapped(fold(i64::wrapping_mul, 1)))
    };
    let mean = sum / x.len() as f64;
    let extreme = |largest| {
        let at = best(x, largest);
        vec![x[at].as_f64(), at as f64]
    };
    match kind {
        ReduceKind::Sum => vec![sum],
        ReduceKind::Prod => vec![product],
        ReduceKind::Max => extreme(true)[..1].to_vec(),
        ReduceKind::Min => extreme(false)[..1].to_vec(),
        ReduceKind::ArgMax => extreme(true),
        ReduceKind::ArgMin => extreme(false),
        ReduceKind::Moments => {
            vec![mean, float.iter().map(|x| (x - mean).powi(2)).sum(), x.len() as f64]
        }
        ReduceKind::LogSumExp => {
            let max = extreme(true)[0];
            let gap = |x: f64| if x == max { 0.0 } else { x - max };
            let sum: f64 =
                if max == f64::NEG_INFINITY { 0.0 } else { float.iter().map(|&x| gap(x).exp()).sum() };
            vec![max, sum, max + sum.ln()]
        }
    }
}

/// Values on which the sums are finite, with ties; `wild` puts in specials.
pub(super) fn data(kind: ReduceKind, dtype: DType, n: usize, wild: bool, rng: &mut Rng) -> Vec<Scalar> {
    if !dtype.is_float() {
        return samples(dtype, n, rng);
    }
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][rng.next() as usize % 3];
    let at = rng.next() as usize % (2 * n).max(1);
    (0..n)
        .map(|i| {
            let x = if kind == ReduceKind::Prod {
                0.75 + 0.5 * rng.unit()
            } else {
                (rng.unit() * 64.0).floor() / 8.0 - 4.0
            };
            Scalar::Float(if wild && i % 3 == at % 3 { special } else { x }).cast(register_type(dtype))
        })
        .collect()
}

pub(super) fn near(got: f64, want: f64, dtype: DType) -> bool {
    let tolerance = if dtype == DType::F64 { 1e-12 } else { 2e-6 };
    got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= tolerance * want.abs().max(1.0)
}

/// The components compared: of special moments and weights only the result.
fn agree(kind: ReduceKind, got: &[f64], want: &[f64], dtype: DType) -> bool {
    let skip = if kind == ReduceKind::LogSumExp && !want[0].is_finite() { 2 } else { 0 };
    if kind == ReduceKind::Moments && !want[1].is_finite() {
        return !got[1].is_finite();
    }
    got.iter().zip(want).skip(skip).all(|(&got, &want)| near(got, want, dtype))
}

fn check_reduce(kind: ReduceKind, dtype: DType, n: usize, wild: bool, rng: &mut Rng) {
    let Some(reducer) = reduce(kind, dtype) else {
        assert!(!dtype.is_float());
        return;
    };
    let x = data(kind, dtype, n, wild, rng);
    let register = Register::of(dtype, &x);
    let cut = n / 3;
    let mut states: [State; 2] = Default::default();
    let mut outs = [Register::new(dtype, 1), Register::new(dtype, 1), Register::new(dtype, 1)];
    let mut index = 0i64;
    // SAFETY: states made by `init`, and registers of the types asked for.
    unsafe {
        let [a, b] = states.each_mut().map(|s| s.as_mut_ptr().cast::<u8>());
        let rest = register.ptr().wrapping_add(cut * register.size());
        (reducer.init)(a);
        (reducer.init)(b);
        (reducer.update)(a, register.ptr(), cut, 0);
        (reducer.update)(b, rest, n - cut, cut as i64);
        (reducer.combine)(a, b);
        let mut out = outs.each_mut().map(Register::ptr_mut);
        if matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin) {
            out[1] = (&raw mut index).cast();
        }
        (reducer.finish)(a, &out);
    }
    let want = if n == 0 { empty(kind, dtype) } else { reference(truth(kind, dtype), dtype, &x) };
    let mut got: Vec<f64> = outs[..want.len()].iter().map(|o| o.get(0).as_f64()).collect();
    if matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin) {
        got[1] = index as f64;
    }
    if dtype == DType::Bool {
        // SAFETY: the register's first byte.
        assert!(unsafe { outs[0].ptr().read() } <= 1);
    }
    assert!(agree(kind, &got, &want, dtype), "{kind:?} {dtype} n {n}: {got:?} {want:?}");
}

pub(super) fn truth(kind: ReduceKind, dtype: DType) -> ReduceKind {
    match kind {
        ReduceKind::Sum if dtype == DType::Bool => ReduceKind::Max,
        ReduceKind::Prod if dtype == DType::Bool => ReduceKind::Min,
        kind => kind,
    }
}

fn empty(kind: ReduceKind, dtype: DType) -> Vec<f64> {
    let low = match dtype {
        DType::Bool | DType::U8 | DType::U32 => 0.0,
        DType::I32 => f64::from(i32::MIN),
        DType::I64 => i64::MIN as f64,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => f64::NEG_INFINITY,
    };
    let high = match dtype {
        DType::Bool => 1.0,
        DType::U8 => 255.0,
        DType::U32 => f64::from(u32::MAX),
        DType::I32 => f64::from(i32::MAX),
        DType::I64 => i64::MAX as f64,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => f64::INFINITY,
    };
    match kind {
        ReduceKind::Sum => vec![0.0],
        ReduceKind::Moments => vec![0.0; 3],
        ReduceKind::Prod => vec![1.0],
        ReduceKind::Max => vec![low],
        ReduceKind::Min => vec![high],
        ReduceKind::ArgMax => vec![low, -1.0],
        ReduceKind::ArgMin => vec![high, -1.0],
        ReduceKind::LogSumExp => vec![f64::NEG_INFINITY, 0.0, f64::NEG_INFINITY],
    }
}

#[test]
fn reductions_agree_with_their_definitions() {
    each_level(|_| {
        let mut rng = Rng(41);
        for kind in KINDS {
            for dtype in DType::ALL {
                for n in LENGTHS.into_iter().chain([10_000]) {
                    check_reduce(kind, dtype, n, false, &mut rng);
                    check_reduce(kind, dtype, n, true, &mut rng);
                }
            }
        }
    });
}

#[test]
fn long_sums_stay_accurate() {
    each_level(|_| {
        let x = vec![0.1f32; 5_000_000];
        let reducer = reduce(ReduceKind::Sum, DType::F32).unwrap();
        let (mut state, mut sum): (State, f32) = Default::default();
        // SAFETY: a state made by `init`, a run of `f32`, one `f32` out.
        unsafe {
            let state = state.as_mut_ptr().cast::<u8>();
            (reducer.init)(state);
            (reducer.update)(state, x.as_ptr().cast(), x.len(), 0);
            (reducer.finish)(state, &[(&raw mut sum).cast(), null_mut(), null_mut()]);
        }
        assert!((f64::from(sum) / (5e6 * f64::from(0.1f32)) - 1.0).abs() < 1e-6, "{sum}");
    });
}

#[test]
fn an_extreme_of_zeros_is_signed() {
    each_level(|_| {
        let x: Vec<f32> = (0..100).map(|i| if i == 77 { 0.0 } else { -0.0 }).collect();
        let mut out = [0f32; 2];
        for (out, kind) in out.iter_mut().zip([ReduceKind::Max, ReduceKind::Min]) {
            let reducer = reduce(kind, DType::F32).unwrap();
            let mut state: State = Default::default();
            // SAFETY: a state made by `init`, a run of `f32`, one `f32` out.
            unsafe {
                let state = state.as_mut_ptr().cast::<u8>();
                (reducer.init)(state);
                (reducer.update)(state, x.as_ptr().cast(), x.len(), 0);
                (reducer.finish)(state, &[(&raw mut *out).cast(), null_mut(), null_mut()]);
            }
        }
        assert!(out[0].is_sign_positive() && out[1].is_sign_negative());
    });
}

fn check_rows(kind: ReduceKind, dtype: DType, n: usize, wild: bool, rng: &mut Rng) {
    let Some(accumulator) = accumulate(kind, dtype) else {
        assert!(!dtype.is_float());
        return;
    };
    let (rows, cut) = (9, 4);
    let x: Vec<Vec<Scalar>> = (0..rows).map(|_| data(kind, dtype, n, wild, rng)).collect();
    let arg = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
    let second = if arg { DType::I64 } else { dtype };
    let mut states =
        [0; 2].map(|_| [Register::new(dtype, n), Register::new(second, n), Register::new(dtype, n)]);
    // SAFETY: components of the types and length asked for.
    unsafe {
        let [a, b] = states.each_mut().map(|[p, q, r]| [p.ptr_mut(), q.ptr_mut(), r.ptr_mut()]);
        (accumulator.init)(a, n);
        (accumulator.init)(b, n);
        for (k, row) in x.iter().enumerate() {
            let row = Register::of(dtype, row);
            let (acc, first) = if k < cut { (a, 0) } else { (b, cut) };
            let number = if arg { k } else { k - first };
            (accumulator.step)(acc, row.ptr(), n, number as i64);
        }
        let next = b.map(|component| component.cast_const());
        (accumulator.merge)(a, next, n, [cut as i64, (rows - cut) as i64]);
    }
    for i in 0..n {
        let column: Vec<Scalar> = x.iter().map(|row| row[i]).collect();
        let want = reference(truth(kind, dtype), dtype, &column);
        let mut got: Vec<f64> = states[0].iter().map(|c| c.get(i).as_f64()).collect();
        if kind == ReduceKind::LogSumExp {
            got[2] = got[0] + got[1].ln();
        }
        if kind == ReduceKind::Moments {
            // The caller counts.
            got = vec![got[0] + got[2], got[1]];
        }
        got.truncate(want.len());
        assert!(agree(kind, &got, &want, dtype), "{kind:?} {dtype} column {i}: {got:?} {want:?}");
    }
}

#[test]
fn rows_accumulate_like_reductions() {
    each_level(|_| {
        let mut rng = Rng(47);
        for kind in KINDS {
            for dtype in DType::ALL {
                for n in [0, 1, 7, 64, 65] {
                    check_rows(kind, dtype, n, false, &mut rng);
                    check_rows(kind, dtype, n, true, &mut rng);
                }
            }
        }
    });
}

#[test]
fn summing_superinstructions_agree_with_sums() {
    each_level(|_| {
        let mut rng = Rng(53);
        for n in LENGTHS.into_iter().chain([9000]) {
            let [a, b] = [0; 2].map(|_| (0..n).map(|_| rng.unit() as f32).collect::<Vec<f32>>());
            let (shift, mut e) = (0.25f32, vec![0f32; n]);
            let reducer = reduce(ReduceKind::Sum, DType::F32).unwrap();
            let with = |second| [OperandKind::Vector, second, OperandKind::Broadcast, OperandKind::Broadcast];
            let run = |call: &mut dyn FnMut(*mut u8)| {
                let (mut state, mut sum): (State, f32) = Default::default();
                // SAFETY: a state made by `init`, one `f32` out.
                unsafe {
                    (reducer.init)(state.as_mut_ptr().cast());
                    call(state.as_mut_ptr().cast());
                    (reducer.finish)(state.as_ptr().cast(), &[(&raw mut sum).cast(), null_mut(), null_mut()]);
                }
                f64::from(sum)
            };
            let (pa, pb, ps) = (a.as_ptr().cast(), b.as_ptr().cast(), (&raw const shift).cast());
            let exp = fused(Fused::ExpSubSum, DType::F32, with(OperandKind::Broadcast)).unwrap();
            let deviation = fused(Fused::SqDevSum, DType::F32, with(OperandKind::Broadcast)).unwrap();
            let dot = fused(Fused::Dot, DType::F32, with(OperandKind::Vector)).unwrap();
            // SAFETY: vectors of `n` and a scalar, and the state `run` made.
            let got = unsafe {
                [
                    run(&mut |state| exp(e.as_mut_ptr().cast(), [pa, ps, state, null()], n, null())),
                    run(&mut |state| deviation(state, [pa, ps, null(), null()], n, null())),
                    run(&mut |state| dot(state, [pa, pb, null(), null()], n, null())),
                ]
            };
            let wide = |x: f32| f64::from(x) - 0.25;
            let want = [
                a.iter().map(|&x| wide(x).exp()).sum::<f64>(),
                a.iter().map(|&x| wide(x).powi(2)).sum(),
                a.iter().zip(&b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum(),
            ];
            for (got, want) in got.into_iter().zip(want) {
                assert!(near(got, want, DType::F32), "n {n}: {got} {want}");
            }
            assert!(a.iter().zip(&e).all(|(&x, &e)| near(f64::from(e), wide(x).exp(), DType::F32)));
        }
    });
}

#[test]
fn products_enter_sums_across_rows() {
    each_level(|level| {
        let mut rng = Rng(31);
        for n in LENGTHS {
            let mut draw = || -> Vec<f32> { (0..n.max(1)).map(|_| rng.unit() as f32 * 4.0 - 2.0).collect() };
            let (a, b, before) = (draw(), draw(), draw());
            for kind in [OperandKind::Vector, OperandKind::Broadcast] {
                let function = fused(
                    Fused::MulSum,
                    DType::F32,
                    [OperandKind::Vector, kind, OperandKind::Vector, OperandKind::Vector],
                )
                .unwrap();
                let mut sums = before.clone();
                let (pa, pb) = (a.as_ptr().cast(), b.as_ptr().cast());
                // SAFETY: vectors of `n`, or a scalar.
                unsafe { function(sums.as_mut_ptr().cast(), [pa, pb, null(), null()], n, null()) };
                for i in 0..n {
                    let factor = if kind == OperandKind::Vector { b[i] } else { b[0] };
                    let want = f64::from(a[i]) * f64::from(factor) + f64::from(before[i]);
                    assert!(near(f64::from(sums[i]), want, DType::F32), "{level:?} {kind:?}, n {n}, {i}");
                }
            }
        }
    });
}

#[test]
fn shifted_rows_are_summed_with_weights() {
    each_level(|level| {
        let mut rng = Rng(37);
        for n in LENGTHS {
            let from: Vec<f32> = (0..n + 40).map(|_| rng.unit() as f32 * 4.0 - 2.0).collect();
            let (offsets, weights) = ([3, 0, 17, 40, 40], [0.5, -1.25, 3.0, 0.0, 0.75]);
            let mut sums = vec![f32::NAN; n + 1];
            // SAFETY: all offsets leave `n` elements.
            unsafe { weighted_sum()(sums.as_mut_ptr(), n, from.as_ptr(), &offsets, &weights) };
            for i in 0..n {
                let terms =
                    offsets.iter().zip(weights).map(|(&at, w)| f64::from(from[at + i]) * f64::from(w));
                assert!(near(f64::from(sums[i]), terms.sum(), DType::F32), "{level:?}, n {n}, {i}");
            }
            assert!(sums[n].is_nan());
        }
    });
}

/// Rows that lie apart, taken in at once and one by one: the same bits.
#[test]
fn rows_at_once_have_the_bits_of_one_by_one() {
    let (rows, n, apart) = (19, 37, 40);
    each_level(|level| {
        let mut rng = Rng(53);
        for (kind, dtype) in KINDS.into_iter().flat_map(|kind| DType::ALL.map(|dtype| (kind, dtype))) {
            let Some(accumulator) = accumulate(kind, dtype) else { continue };
            let x = Register::of(dtype, &data(kind, dtype, rows * apart, true, &mut rng));
            let arg = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
            let second = if arg { DType::I64 } else { dtype };
            let mut states =
                [0; 2].map(|_| [Register::new(dtype, n), Register::new(second, n), Register::new(dtype, n)]);
            let bytes = apart * x.size();
            // SAFETY: components of the types and length asked for; `rows` rows `apart` apart.
            unsafe {
                let [a, b] = states.each_mut().map(|[p, q, r]| [p.ptr_mut(), q.ptr_mut(), r.ptr_mut()]);
                (accumulator.init)(a, n);
                (accumulator.init)(b, n);
                (0..rows).for_each(|k| (accumulator.step)(a, x.ptr().add(k * bytes), n, k as i64));
                (accumulator.rows)(b, x.ptr(), [rows, bytes], n, 0);
            }
            let [one_by_one, at_once] = states;
            for (one_by_one, at_once) in one_by_one.iter().zip(&at_once) {
                let bits = |register: &Register| -> Vec<u64> {
                    (0..n).map(|i| register.get(i).to_bits(register.dtype)).collect()
                };
                assert_eq!(bits(one_by_one), bits(at_once), "{kind:?} {dtype} {level:?}");
            }
        }
    });
}

/// Two lanes share a comparison that looks for NaN: each of them finds one.
#[test]
fn a_nan_anywhere_is_the_largest_and_the_smallest() {
    const COUNT: usize = 150;
    each_level(|level| {
        for kind in [ReduceKind::Max, ReduceKind::Min] {
            let reducer = reduce(kind, DType::F32).expect("on floats");
            for at in 0..COUNT {
                let mut x = [1f32; COUNT];
                x[at] = f32::NAN;
                let mut best = 0f32;
                let out = [(&raw mut best).cast(), null_mut(), null_mut()];
                // SAFETY: so many elements, and room for one result.
                unsafe { (reducer.row)(x.as_ptr().cast(), COUNT, 0, &out) };
                assert!(best.is_nan(), "{level:?} {kind:?} {at}: {best}");
            }
        }
    });
}
