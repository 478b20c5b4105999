//! Transforms of few points, one for each lane of a vector.

use crate::micro::fft::vector::Vector;
use crate::micro::fft::{COLUMNS, Point};

/// A complex number for each of some columns.
///
/// # Safety
/// The methods need the vector's instruction set.
#[derive(Clone, Copy)]
pub(super) struct Lanes<V> {
    re: V,
    im: V,
}

// SAFETY (of all that follows): the callers' promise that the machine has the vector's instruction set.
impl<V: Vector> Lanes<V> {
    #[inline(always)]
    pub unsafe fn splat([re, im]: [V::Element; 2]) -> Lanes<V> {
        unsafe { Lanes { re: V::splat(re), im: V::splat(im) } }
    }

    /// # Safety
    /// Readable, and so is what lies [`COLUMNS`] after.
    #[inline(always)]
    pub unsafe fn load(from: *const V::Element) -> Lanes<V> {
        unsafe { Lanes { re: V::load(from), im: V::load(from.add(COLUMNS)) } }
    }

    /// # Safety
    /// Writable, and so is what lies `apart` after.
    #[inline(always)]
    pub unsafe fn store(self, to: *mut V::Element, apart: usize) {
        unsafe {
            self.re.store(to);
            self.im.store(to.add(apart));
        }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Lanes<V>) -> Lanes<V> {
        unsafe { Lanes { re: self.re.plus(other.re), im: self.im.plus(other.im) } }
    }

    #[inline(always)]
    unsafe fn minus(self, other: Lanes<V>) -> Lanes<V> {
        unsafe { Lanes { re: self.re.minus(other.re), im: self.im.minus(other.im) } }
    }

    /// `self + by other`.
    #[inline(always)]
    unsafe fn plus_scaled(self, by: V, other: Lanes<V>) -> Lanes<V> {
        unsafe { Lanes { re: by.times_plus(other.re, self.re), im: by.times_plus(other.im, self.im) } }
    }

    /// `self - i other`.
    #[inline(always)]
    unsafe fn minus_i(self, other: Lanes<V>) -> Lanes<V> {
        unsafe { Lanes { re: self.re.plus(other.im), im: self.im.minus(other.re) } }
    }

    /// `self + i other`.
    #[inline(always)]
    unsafe fn plus_i(self, other: Lanes<V>) -> Lanes<V> {
        unsafe { Lanes { re: self.re.minus(other.im), im: self.im.plus(other.re) } }
    }

    /// Times a real number.
    #[inline(always)]
    unsafe fn scaled(self, by: V) -> Lanes<V> {
        unsafe { Lanes { re: self.re.times(by), im: self.im.times(by) } }
    }

    /// The product.
    #[inline(always)]
    pub unsafe fn times(self, by: Lanes<V>) -> Lanes<V> {
        unsafe {
            Lanes {
                re: self.re.times_minus(by.re, self.im.times(by.im)),
                im: self.re.times_plus(by.im, self.im.times(by.re)),
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn two<V: Vector>([a, b]: [Lanes<V>; 2]) -> [Lanes<V>; 2] {
    unsafe { [a.plus(b), a.minus(b)] }
}

#[inline(always)]
pub(super) unsafe fn four<V: Vector>([a, b, c, d]: [Lanes<V>; 4]) -> [Lanes<V>; 4] {
    unsafe {
        let ([s, t], [u, v]) = (two([a, c]), two([b, d]));
        [s.plus(u), t.minus_i(v), s.minus(u), t.plus_i(v)]
    }
}

#[inline(always)]
pub(super) unsafe fn eight<V: Vector>(x: [Lanes<V>; 8]) -> [Lanes<V>; 8] {
    unsafe {
        let e = four([x[0], x[2], x[4], x[6]]);
        let o = four([x[1], x[3], x[5], x[7]]);
        let half = V::splat(V::Element::rounded(std::f64::consts::FRAC_1_SQRT_2));
        // Times e^(-pi i / 4), and e^(-3 pi i / 4) times i, which is the same.
        let first = o[1].minus_i(o[1]).scaled(half);
        let third = o[3].minus_i(o[3]).scaled(half);
        let ([a, f], [b, g]) = (two([e[0], o[0]]), two([e[1], first]));
        [a, b, e[2].minus_i(o[2]), e[3].minus_i(third), f, g, e[2].plus_i(o[2]), e[3].plus_i(third)]
    }
}

#[inline(always)]
pub(super) unsafe fn three<V: Vector>([a, b, c]: [Lanes<V>; 3]) -> [Lanes<V>; 3] {
    unsafe {
        let number = |x: f64| V::splat(V::Element::rounded(x));
        let [sum, difference] = two([b, c]);
        let middle = a.plus_scaled(number(-0.5), sum);
        let turned = difference.scaled(number(3f64.sqrt() / 2.0));
        [a.plus(sum), middle.minus_i(turned), middle.plus_i(turned)]
    }
}

#[inline(always)]
pub(super) unsafe fn five<V: Vector>([a, b, c, d, e]: [Lanes<V>; 5]) -> [Lanes<V>; 5] {
    unsafe {
        let number = |x: f64| V::splat(V::Element::rounded(x));
        // Of a fifth and two fifths of a turn.
        let (cos1, cos2) = (number(0.309_016_994_374_947_45), number(-0.809_016_994_374_947_5));
        let (sin1, sin2) = (number(0.951_056_516_295_153_5), number(0.587_785_252_292_473_1));
        let ([p, q], [r, s]) = (two([b, e]), two([c, d]));
        let one = a.plus_scaled(cos1, p).plus_scaled(cos2, r);
        let two = a.plus_scaled(cos2, p).plus_scaled(cos1, r);
        let u = q.scaled(sin1).plus_scaled(sin2, s);
        let v = q.scaled(sin2).minus(s.scaled(sin1));
        [a.plus(p).plus(r), one.minus_i(u), two.minus_i(v), two.plus_i(v), one.plus_i(u)]
    }
}

/// Of an odd number of points, given the powers of its root.
#[inline(always)]
pub(super) unsafe fn prime<V: Vector>(x: &[Lanes<V>], y: &mut [Lanes<V>], roots: &[[V::Element; 2]]) {
    let n = x.len();
    unsafe {
        y[0] = x[0];
        for &x in &x[1..] {
            y[0] = y[0].plus(x);
        }
        for k in 1..=n / 2 {
            let (mut even, mut odd) = (x[0], x[0].minus(x[0]));
            for j in 1..=n / 2 {
                let [cos, sin] = roots[j * k % n];
                even = even.plus_scaled(V::splat(cos), x[j].plus(x[n - j]));
                odd = odd.plus_scaled(V::splat(sin), x[j].minus(x[n - j]));
            }
            y[k] = even.plus_i(odd);
            y[n - k] = even.minus_i(odd);
        }
    }
}
