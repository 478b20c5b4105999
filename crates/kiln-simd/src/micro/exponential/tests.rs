//! The loops over a portable vector of 16 lanes, as wide as the widest.

use std::array::from_fn;
use std::ptr::null;

use super::rows;
use super::vector::F32Vector;
use crate::micro::fold::{CompensatedSum, FoldState};
use crate::micro::isa::Base;
use crate::micro::math;
use crate::micro::softmax::SoftmaxBlock;

#[derive(Clone, Copy)]
struct F32x16Array([f32; 16]);

impl F32x16Array {
    fn of(f: impl FnMut(usize) -> f32) -> F32x16Array {
        F32x16Array(from_fn(f))
    }
}

// SAFETY (of every block below): the caller vouches for the elements.
impl F32Vector for F32x16Array {
    const WIDTH: usize = 16;

    unsafe fn splat(x: f32) -> Self {
        F32x16Array([x; 16])
    }
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self::load_first(from, 16) }
    }
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        F32x16Array::of(|j| if j < count { unsafe { from.add(j).read() } } else { 0.0 })
    }
    unsafe fn store(self, to: *mut f32) {
        unsafe { self.store_first(to, 16) }
    }
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        for j in 0..count {
            unsafe { to.add(j).write(self.0[j]) }
        }
    }
    unsafe fn store_non_temporal(self, to: *mut f32) {
        unsafe { self.store(to) }
    }
    unsafe fn first(self, count: usize) -> Self {
        F32x16Array::of(|j| if j < count { self.0[j] } else { 0.0 })
    }
    unsafe fn add(self, other: Self) -> Self {
        F32x16Array::of(|j| self.0[j] + other.0[j])
    }
    unsafe fn sub(self, other: Self) -> Self {
        F32x16Array::of(|j| self.0[j] - other.0[j])
    }
    unsafe fn mul(self, other: Self) -> Self {
        F32x16Array::of(|j| self.0[j] * other.0[j])
    }
    unsafe fn max(self, other: Self) -> Self {
        F32x16Array::of(|j| if self.0[j] > other.0[j] { self.0[j] } else { other.0[j] })
    }
    unsafe fn zero_if_neg_inf(self) -> Self {
        F32x16Array::of(|j| if self.0[j] == f32::NEG_INFINITY { 0.0 } else { self.0[j] })
    }
    unsafe fn in_range<const N: usize, const BELOW: bool>(x: &[Self; N]) -> bool {
        x.iter().all(|x| x.0.iter().all(|x| x.abs() < 3.0))
    }
    unsafe fn exp<const BELOW: bool>(self) -> Self {
        F32x16Array(self.0.map(math::exp::<Base>))
    }
    unsafe fn exp_any(self) -> Self {
        F32x16Array(self.0.map(math::exp::<Base>))
    }
}

fn row(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32 / -20.0).collect()
}

#[test]
fn every_element_is_computed_and_summed_once() {
    let shift = 0.5f32;
    for n in [0, 1, 15, 16, 17, 63, 64, 65, 127, 160, 4096, 4099, 9000] {
        let x = row(n);
        let [mut sums, mut plain, mut non_temporal, mut shifted] = [0; 4].map(|_| vec![0f32; n + 1]);
        let (from, by) = (x.as_ptr().cast(), (&raw const shift).cast());
        let mut state = CompensatedSum::<f32>::EMPTY;
        // SAFETY: rows of `n` elements, and a sum state.
        unsafe {
            let from = [from, by, (&raw mut state).cast_const().cast(), null()];
            rows::exp_sum::<F32x16Array, 4, true>(sums.as_mut_ptr().cast(), from, n, null());
            rows::exp::<F32x16Array, 4>(plain.as_mut_ptr().cast(), from, n, null());
            rows::exp_non_temporal::<F32x16Array, 4>(non_temporal.as_mut_ptr().cast(), from, n, null());
            rows::exp_sub::<F32x16Array, 4>(shifted.as_mut_ptr().cast(), from, n, null());
        }
        let exp = |x: f32| math::exp::<Base>(x);
        let total: f64 = x.iter().map(|x| f64::from(exp(x - shift))).sum();
        assert!((state.total() - total).abs() <= 1e-6 * total, "{n}: {} {total}", state.total());
        for (i, x) in x.iter().enumerate() {
            assert_eq!(
                [sums[i], plain[i], non_temporal[i], shifted[i]],
                [exp(x - shift), exp(*x), exp(*x), exp(x - shift)],
                "{i} of {n}"
            );
        }
        assert_eq!([sums[n], plain[n], non_temporal[n], shifted[n]], [0.0; 4], "written beyond {n}");
    }
}

#[test]
fn every_key_is_counted_once() {
    const QUERY_LANES: usize = 32;
    for keys in [1, 3, 4, 5, 11] {
        let before = row(keys * QUERY_LANES);
        let mut scores = before.clone();
        let (mut running_max, mut sum, mut rescale) =
            ([-3f32; QUERY_LANES], [2f32; QUERY_LANES], [0f32; QUERY_LANES]);
        let block = SoftmaxBlock {
            scores: scores.as_mut_ptr(),
            step: QUERY_LANES,
            keys,
            queries: QUERY_LANES,
            running_max: running_max.as_mut_ptr(),
            sum: sum.as_mut_ptr(),
            rescale: rescale.as_mut_ptr(),
        };
        // SAFETY: arrays of so many elements.
        unsafe { rows::online_softmax_update::<F32x16Array, 4>(&block) };
        for q in 0..QUERY_LANES {
            let of = |key: usize| before[key * QUERY_LANES + q];
            let new_max = (0..keys).map(of).fold(-3.0, f32::max);
            assert_eq!(
                (running_max[q], rescale[q]),
                (new_max, math::exp::<Base>(-3.0 - new_max)),
                "{q} of {keys}"
            );
            let mut sums = 0.0;
            for key in 0..keys {
                let power = math::exp::<Base>(of(key) - new_max);
                assert_eq!(scores[key * QUERY_LANES + q], power, "{q}, {key} of {keys}");
                sums += power;
            }
            assert_eq!(sum[q], 2.0 * rescale[q] + sums, "{q} of {keys}");
        }
    }
}
