//! Softmax of scores that lie key by key: some queries side by side, so that what is known of
//! each is a lane.

use crate::runtime::cpu::micro::exponential;
use crate::runtime::cpu::micro::isa::{Isa, versioned};
use crate::runtime::cpu::micro::math::exp;

/// Queries of a vector; there are whole vectors of them.
pub const QUERIES: usize = 16;

/// Scores of some queries for some keys, and what is known of each query.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// The scores, which their exponentials replace.
    pub scores: *mut f32,
    /// From a key's to the next's, in elements.
    pub step: usize,
    /// How many keys.
    pub keys: usize,
    /// How many queries, a multiple of [`QUERIES`].
    pub queries: usize,
    /// Of each query, the greatest score before these keys, then of these too.
    pub most: *mut f32,
    /// The sum of the exponentials of scores less the greatest.
    pub sum: *mut f32,
    /// Written: by what sums so far are multiplied, since scores turned out greater.
    pub left: *mut f32,
}

/// Rows that are added to others.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    /// The first element added to.
    pub to: *mut f32,
    /// The first element added.
    pub from: *const f32,
    /// From a row to the next, in elements, of both.
    pub step: usize,
    /// Of each row, by what it is multiplied before.
    pub factors: *const f32,
    /// How many rows.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
}

/// Takes keys in: scores become exponentials of what they are less than the greatest, of
/// all keys so far. Of a query that has seen nothing but minus infinity they are 0.
///
/// # Safety
/// The scores of each key, and what is known of queries, are writable for so many elements,
/// and overlap nothing.
pub fn weigh() -> unsafe fn(weights: &Weights) {
    exponential::loops().map_or_else(weighing::<Weigh>, |loops| loops.weigh)
}

/// Multiplies rows by a factor each and adds others to them.
///
/// # Safety
/// Both are so many rows and do not overlap; there is a factor for each.
pub fn add() -> unsafe fn(sums: &Sums) {
    adding::<Add>()
}

versioned! {
    /// What [`weigh`] does.
    Weighing, weighing, base_weighing, fn(weights: &Weights)
}
versioned! {
    /// What [`add`] does.
    Adding, adding, base_adding, fn(sums: &Sums)
}

struct Weigh;
impl Weighing for Weigh {
    #[inline(always)]
    unsafe fn run<I: Isa>(weights: &Weights) {
        for first in (0..weights.queries).step_by(QUERIES) {
            // SAFETY: the function's contract.
            unsafe { weigh_vector::<I>(weights, first) }
        }
    }
}

/// # Safety
/// As [`weigh`], for the vector of queries that starts at `first`.
#[inline(always)]
unsafe fn weigh_vector<I: Isa>(weights: &Weights, first: usize) {
    type Vector = [f32; QUERIES];
    let Weights { scores, step, keys, most, sum, left, .. } = *weights;
    let [most, sum, left] = [most, sum, left].map(|x| x.wrapping_add(first).cast::<Vector>());
    let at = |key: usize| scores.wrapping_add(key * step + first).cast::<Vector>();
    // SAFETY: the caller's promise.
    unsafe {
        let before: Vector = most.read();
        let mut greatest = before;
        for key in 0..keys {
            let scores = at(key).read();
            for (greatest, score) in greatest.iter_mut().zip(scores) {
                *greatest = if score > *greatest { score } else { *greatest };
            }
        }
        // Minus infinity less itself would be no number. Arrays are gone through by loops: a
        // function that is not inlined would not have the instruction set.
        let mut shift = greatest;
        shift.iter_mut().filter(|x| **x == f32::NEG_INFINITY).for_each(|x| *x = 0.0);
        let mut factors = before;
        factors.iter_mut().zip(shift).for_each(|(x, shift)| *x = exp::<I>(*x - shift));
        let mut sums: Vector = [0.0; QUERIES];
        for key in 0..keys {
            let mut scores = at(key).read();
            for ((score, shift), sum) in scores.iter_mut().zip(shift).zip(&mut sums) {
                *score = exp::<I>(*score - shift);
                *sum += *score;
            }
            at(key).write(scores);
        }
        let mut total: Vector = sum.read();
        for ((total, factor), sum) in total.iter_mut().zip(factors).zip(sums) {
            *total = *total * factor + sum;
        }
        sum.write(total);
        most.write(greatest);
        left.write(factors);
    }
}

struct Add;
impl Adding for Add {
    #[inline(always)]
    unsafe fn run<I: Isa>(sums: &Sums) {
        let Sums { to, from, step, factors, rows, columns } = *sums;
        for row in 0..rows {
            // SAFETY: the function's contract.
            unsafe {
                let factor = factors.add(row).read();
                let to = std::slice::from_raw_parts_mut(to.add(row * step), columns);
                let from = std::slice::from_raw_parts(from.add(row * step), columns);
                for (to, from) in to.iter_mut().zip(from) {
                    *to = *to * factor + from;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpu::micro::isa::forced::each_level;

    /// Scores that lie so far apart, taken in so many keys at a time: what is known in the end.
    fn known(scores: &[[f32; QUERIES]], at_once: usize) -> ([f32; QUERIES], [f32; QUERIES]) {
        let (mut most, mut sum, mut left) = ([f32::NEG_INFINITY; QUERIES], [0.0; QUERIES], [0.0; QUERIES]);
        for some in scores.chunks(at_once) {
            let mut some = some.concat();
            let weights = Weights {
                scores: some.as_mut_ptr(),
                step: QUERIES,
                keys: some.len() / QUERIES,
                queries: QUERIES,
                most: most.as_mut_ptr(),
                sum: sum.as_mut_ptr(),
                left: left.as_mut_ptr(),
            };
            // SAFETY: the arrays are as large.
            unsafe { weigh()(&weights) };
        }
        (most, sum)
    }

    #[test]
    fn sums_do_not_depend_on_how_many_keys_come_at_once() {
        let score = |key: usize, j: usize| ((key * 37 + j * 11) % 83) as f32 / 4.0 - 9.0;
        let scores: Vec<[f32; QUERIES]> = (0..40).map(|key| std::array::from_fn(|j| score(key, j))).collect();
        each_level(|level| {
            let (most, sum) = known(&scores, 40);
            for j in 0..QUERIES {
                let of = |key: usize| f64::from(scores[key][j]);
                let greatest = (0..40).map(of).fold(f64::MIN, f64::max);
                let want: f64 = (0..40).map(|key| (of(key) - greatest).exp()).sum();
                assert_eq!(f64::from(most[j]), greatest, "{level:?}");
                assert!((f64::from(sum[j]) / want - 1.0).abs() < 1e-6, "{level:?} {} {want}", sum[j]);
            }
            for at_once in [1, 7] {
                let (again, others) = known(&scores, at_once);
                assert_eq!(again, most);
                let near = |(a, b): (f32, f32)| (a / b - 1.0).abs() < 1e-5;
                assert!(others.into_iter().zip(sum).all(near), "{level:?} {others:?} {sum:?}");
            }
        });
    }

    #[test]
    fn keys_that_are_hidden_weigh_nothing() {
        let mut scores = vec![[f32::NEG_INFINITY; QUERIES]; 3];
        scores[2][1] = 5.0;
        for at_once in [1, 3] {
            let (most, sum) = known(&scores, at_once);
            assert_eq!((most[0], sum[0]), (f32::NEG_INFINITY, 0.0));
            assert_eq!((most[1], sum[1]), (5.0, 1.0));
        }
    }
}
