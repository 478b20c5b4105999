//! The loops over a register of 16 that any machine has, as wide as the widest.

use std::array::from_fn;
use std::ptr::null;

use super::register::Register;
use super::rows;
use crate::runtime::cpu::micro::fold::{Fold, Sum};
use crate::runtime::cpu::micro::isa::Base;
use crate::runtime::cpu::micro::math;
use crate::runtime::cpu::micro::softmax::Weights;

#[derive(Clone, Copy)]
struct Wide([f32; 16]);

impl Wide {
    fn of(f: impl FnMut(usize) -> f32) -> Wide {
        Wide(from_fn(f))
    }
}

// SAFETY (of every block below): the caller vouches for the elements.
impl Register for Wide {
    const WIDTH: usize = 16;

    unsafe fn splat(x: f32) -> Self {
        Wide([x; 16])
    }
    unsafe fn load(from: *const f32) -> Self {
        unsafe { Self::load_first(from, 16) }
    }
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        Wide::of(|j| if j < count { unsafe { from.add(j).read() } } else { 0.0 })
    }
    unsafe fn store(self, to: *mut f32) {
        unsafe { self.store_first(to, 16) }
    }
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        for j in 0..count {
            unsafe { to.add(j).write(self.0[j]) }
        }
    }
    unsafe fn stream(self, to: *mut f32) {
        unsafe { self.store(to) }
    }
    unsafe fn first(self, count: usize) -> Self {
        Wide::of(|j| if j < count { self.0[j] } else { 0.0 })
    }
    unsafe fn add(self, other: Self) -> Self {
        Wide::of(|j| self.0[j] + other.0[j])
    }
    unsafe fn sub(self, other: Self) -> Self {
        Wide::of(|j| self.0[j] - other.0[j])
    }
    unsafe fn mul(self, other: Self) -> Self {
        Wide::of(|j| self.0[j] * other.0[j])
    }
    unsafe fn greater(self, other: Self) -> Self {
        Wide::of(|j| if self.0[j] > other.0[j] { self.0[j] } else { other.0[j] })
    }
    unsafe fn or_zero(self) -> Self {
        Wide::of(|j| if self.0[j] == f32::NEG_INFINITY { 0.0 } else { self.0[j] })
    }
    unsafe fn inside<const N: usize, const BELOW: bool>(x: &[Self; N]) -> bool {
        x.iter().all(|x| x.0.iter().all(|x| x.abs() < 3.0))
    }
    unsafe fn exp<const BELOW: bool>(self) -> Self {
        Wide(self.0.map(math::exp::<Base>))
    }
    unsafe fn exp_any(self) -> Self {
        Wide(self.0.map(math::exp::<Base>))
    }
}

fn line(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 37 % 101) as f32 / -20.0).collect()
}

#[test]
fn every_element_is_computed_and_summed_once() {
    let shift = 0.5f32;
    for n in [0, 1, 15, 16, 17, 63, 64, 65, 127, 160, 4096, 4099, 9000] {
        let x = line(n);
        let [mut sums, mut plain, mut streamed, mut apart] = [0; 4].map(|_| vec![0f32; n + 1]);
        let (from, by) = (x.as_ptr().cast(), (&raw const shift).cast());
        let mut state = Sum::<f32>::EMPTY;
        // SAFETY: lines of `n` elements, and a sum state.
        unsafe {
            let from = [from, by, (&raw mut state).cast_const().cast(), null()];
            rows::exp_sum::<Wide, 4, true>(sums.as_mut_ptr().cast(), from, n, null(), None);
            rows::exp::<Wide, 4>(plain.as_mut_ptr().cast(), from, n, null());
            rows::exp_streamed::<Wide, 4>(streamed.as_mut_ptr().cast(), from, n, null());
            rows::exp_sub::<Wide, 4>(apart.as_mut_ptr().cast(), from, n, null());
        }
        let exp = |x: f32| math::exp::<Base>(x);
        let total: f64 = x.iter().map(|x| f64::from(exp(x - shift))).sum();
        assert!((state.total() - total).abs() <= 1e-6 * total, "{n}: {} {total}", state.total());
        for (i, x) in x.iter().enumerate() {
            assert_eq!(
                [sums[i], plain[i], streamed[i], apart[i]],
                [exp(x - shift), exp(*x), exp(*x), exp(x - shift)],
                "{i} of {n}"
            );
        }
        assert_eq!([sums[n], plain[n], streamed[n], apart[n]], [0.0; 4], "written beyond {n}");
    }
}

#[test]
fn every_key_is_weighed_once() {
    const QUERIES: usize = 32;
    for keys in [1, 3, 4, 5, 11] {
        let before = line(keys * QUERIES);
        let mut scores = before.clone();
        let (mut most, mut sum, mut left) = ([-3f32; QUERIES], [2f32; QUERIES], [0f32; QUERIES]);
        let weights = Weights {
            scores: scores.as_mut_ptr(),
            step: QUERIES,
            keys,
            queries: QUERIES,
            most: most.as_mut_ptr(),
            sum: sum.as_mut_ptr(),
            left: left.as_mut_ptr(),
        };
        // SAFETY: arrays of so many elements.
        unsafe { rows::weigh::<Wide, 4>(&weights) };
        for q in 0..QUERIES {
            let of = |key: usize| before[key * QUERIES + q];
            let greatest = (0..keys).map(of).fold(-3.0, f32::max);
            assert_eq!((most[q], left[q]), (greatest, math::exp::<Base>(-3.0 - greatest)), "{q} of {keys}");
            let mut sums = 0.0;
            for key in 0..keys {
                let power = math::exp::<Base>(of(key) - greatest);
                assert_eq!(scores[key * QUERIES + q], power, "{q}, {key} of {keys}");
                sums += power;
            }
            assert_eq!(sum[q], 2.0 * left[q] + sums, "{q} of {keys}");
        }
    }
}
