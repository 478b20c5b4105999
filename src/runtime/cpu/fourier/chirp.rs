//! A length as a convolution: `j k = (j^2 + k^2 - (k - j)^2) / 2`.

use std::ops::Range;

use kiln_simd::micro::fft::root;

use super::split::{Split, smooth};
use super::{Parts, Real};
use crate::runtime::cpu::gemm::scratch;
use crate::runtime::cpu::threads;

/// The tables of a length.
#[derive(Debug)]
pub(super) struct Chirp<T> {
    /// Transforms around a circle that holds the convolution.
    circle: Split<T>,
    around: usize,
    /// `e^(-pi i k^2 / n)`.
    chirp: [Vec<T>; 2],
    /// The transform of its conjugate on the circle, over the circle's points.
    spectrum: [Vec<T>; 2],
}

/// Elements that a thread multiplies at a time.
const BLOCK: usize = 1 << 14;

impl<T: Real> Chirp<T> {
    pub fn new(points: usize) -> Chirp<T> {
        let around = smooth(2 * points - 1);
        let chirp = |k: usize| root((k as u128 * k as u128 % (2 * points) as u128) as usize, 2 * points);
        let mut circle = [vec![0.0; around], vec![0.0; around]];
        for k in 0..points {
            let (re, im) = chirp(k);
            for at in [k, (around - k) % around] {
                (circle[0][at], circle[1][at]) = (re, im);
            }
        }
        let mut spectrum = [vec![0.0f64; around], vec![0.0; around]];
        let [re, im] = circle.each_mut().map(|part| part.as_mut_ptr());
        let [to_re, to_im] = spectrum.each_mut().map(|part| part.as_mut_ptr());
        // SAFETY: vectors of that length.
        unsafe {
            let (from, to) = (Parts { re, im }, Parts { re: to_re, im: to_im });
            small(Split::<f64>::new(around)).run(from, to, false);
        }
        let rounded = |x: Vec<f64>| x.into_iter().map(|x| T::rounded(x / around as f64)).collect();
        Chirp {
            circle: small(Split::new(around)),
            around,
            chirp: [
                (0..points).map(|k| T::rounded(chirp(k).0)).collect(),
                (0..points).map(|k| T::rounded(-chirp(k).1)).collect(),
            ],
            spectrum: spectrum.map(rounded),
        }
    }

    /// # Safety
    /// As [`super::Tables::run`].
    pub unsafe fn run(&self, from: Parts<T>, to: Parts<T>, shared: bool) {
        let points = self.chirp[0].len();
        scratch::with(4 * self.around, |room: *mut T| {
            let part = |i: usize| room.wrapping_add(i * self.around);
            let (a, b) = (Parts { re: part(0), im: part(1) }, Parts { re: part(2), im: part(3) });
            // SAFETY: rows of so many points; those in scratch memory are longer.
            unsafe {
                times(from, &self.chirp, 0..points, a, shared);
                for part in [a.re, a.im] {
                    part.add(points).write_bytes(0, self.around - points);
                }
                self.circle.run(a, b, shared);
                times(b, &self.spectrum, 0..self.around, b, shared);
                self.circle.run(b.exchanged(), a.exchanged(), shared);
                times(a, &self.chirp, 0..points, to, shared);
            }
        });
    }
}

/// The tables of a length that [`smooth`] gives.
fn small<T>(split: Option<Split<T>>) -> Split<T> {
    split.unwrap_or_else(|| panic!("the circle's points have small factors"))
}

/// The products of numbers and factors; `to` may be where the numbers are.
///
/// # Safety
/// The numbers in the range are readable, the products writable.
unsafe fn times<T: Real>(
    from: Parts<T>,
    [re, im]: &[Vec<T>; 2],
    range: Range<usize>,
    to: Parts<T>,
    shared: bool,
) {
    let product = |i: usize| {
        // SAFETY: an element of the range.
        unsafe {
            let (x, y) = from.read(i);
            to.write(i, x * re[i] - y * im[i], x * im[i] + y * re[i]);
        }
    };
    let end = range.end;
    match shared {
        true => threads::parallel_for(end.div_ceil(BLOCK), |block| {
            (block * BLOCK..end.min((block + 1) * BLOCK)).for_each(product);
        }),
        false => range.for_each(product),
    }
}
