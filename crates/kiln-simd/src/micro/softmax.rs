//! Online softmax of scores stored key by key: queries are contiguous, so that a query's running
//! maximum, sum and rescale factor are lanes.

use crate::micro::exponential;
use crate::micro::isa::{Isa, versioned};
use crate::micro::math::exp;

/// Queries of a vector; a block has whole vectors of them.
pub const QUERY_LANES: usize = 16;

/// Scores of some queries for some keys, and the state of each query.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxBlock {
    /// The scores, which their exponentials replace.
    pub scores: *mut f32,
    /// From a key's to the next's, in elements.
    pub step: usize,
    /// How many keys.
    pub keys: usize,
    /// How many queries, a multiple of [`QUERY_LANES`].
    pub queries: usize,
    /// The greatest score of each query so far: read for the keys before, written for these too.
    pub running_max: *mut f32,
    /// The sum of each query's exponentials so far.
    pub sum: *mut f32,
    /// Written: the factor that rescales each query's earlier sums to the new maximum.
    pub rescale: *mut f32,
}

/// Rows that are rescaled, and rows that are added to them.
#[derive(Clone, Copy, Debug)]
pub struct RescaledRows {
    /// The first element added to.
    pub to: *mut f32,
    /// The first element added.
    pub from: *const f32,
    /// From a row to the next, in elements, of both.
    pub step: usize,
    /// The rescale factor of each row.
    pub factors: *const f32,
    /// How many rows.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
}

/// The online-softmax update with a block of keys: scores become `exp(score - running_max)`. For a
/// query that has seen nothing but minus infinity they become 0.
///
/// # Safety
/// The scores of each key and the queries' states are writable for `queries` elements,
/// and overlap nothing.
pub fn online_softmax_update() -> unsafe fn(block: &SoftmaxBlock) {
    exponential::loops()
        .map_or_else(online_softmax_loop::<OnlineSoftmax>, |loops| loops.online_softmax_update)
}

/// Multiplies each row by its factor and adds another row to it.
///
/// # Safety
/// Both blocks have `rows` rows and do not overlap; there is a factor for each row.
pub fn rescale_add() -> unsafe fn(rows: &RescaledRows) {
    rescale_add_loop::<RescaleAdd>()
}

versioned! {
    /// A loop with the signature of [`online_softmax_update`].
    OnlineSoftmaxLoop, online_softmax_loop, base_online_softmax_loop, fn(block: &SoftmaxBlock)
}
versioned! {
    /// A loop with the signature of [`rescale_add`].
    RescaleAddLoop, rescale_add_loop, base_rescale_add_loop, fn(rows: &RescaledRows)
}

struct OnlineSoftmax;
impl OnlineSoftmaxLoop for OnlineSoftmax {
    #[inline(always)]
    unsafe fn run<I: Isa>(block: &SoftmaxBlock) {
        for first in (0..block.queries).step_by(QUERY_LANES) {
            // SAFETY: the function's contract.
            unsafe { update_vector::<I>(block, first) }
        }
    }
}

/// # Safety
/// As [`online_softmax_update`], for the vector of queries that starts at `first`.
#[inline(always)]
unsafe fn update_vector<I: Isa>(block: &SoftmaxBlock, first: usize) {
    type Vector = [f32; QUERY_LANES];
    let SoftmaxBlock { scores, step, keys, running_max, sum, rescale, .. } = *block;
    let [running_max, sum, rescale] =
        [running_max, sum, rescale].map(|x| x.wrapping_add(first).cast::<Vector>());
    let at = |key: usize| scores.wrapping_add(key * step + first).cast::<Vector>();
    // SAFETY: the caller's promise.
    unsafe {
        let old_max: Vector = running_max.read();
        let mut new_max = old_max;
        for key in 0..keys {
            let scores = at(key).read();
            for (new_max, score) in new_max.iter_mut().zip(scores) {
                *new_max = if score > *new_max { score } else { *new_max };
            }
        }
        // Minus infinity less itself would be NaN. Loops over arrays, not `map`: a closure that is
        // not inlined would not have the instruction set.
        let mut shift = new_max;
        shift.iter_mut().filter(|x| **x == f32::NEG_INFINITY).for_each(|x| *x = 0.0);
        let mut factors = old_max;
        factors.iter_mut().zip(shift).for_each(|(x, shift)| *x = exp::<I>(*x - shift));
        let mut sums: Vector = [0.0; QUERY_LANES];
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
        running_max.write(new_max);
        rescale.write(factors);
    }
}

struct RescaleAdd;
impl RescaleAddLoop for RescaleAdd {
    #[inline(always)]
    unsafe fn run<I: Isa>(rows: &RescaledRows) {
        let RescaledRows { to, from, step, factors, rows, columns } = *rows;
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
    use crate::micro::isa::forced::each_level;

    /// The running maxima and sums of scores, updated with `at_once` keys at a time.
    fn run_updates(
        scores: &[[f32; QUERY_LANES]],
        at_once: usize,
    ) -> ([f32; QUERY_LANES], [f32; QUERY_LANES]) {
        let (mut running_max, mut sum, mut rescale) =
            ([f32::NEG_INFINITY; QUERY_LANES], [0.0; QUERY_LANES], [0.0; QUERY_LANES]);
        for some in scores.chunks(at_once) {
            let mut some = some.concat();
            let block = SoftmaxBlock {
                scores: some.as_mut_ptr(),
                step: QUERY_LANES,
                keys: some.len() / QUERY_LANES,
                queries: QUERY_LANES,
                running_max: running_max.as_mut_ptr(),
                sum: sum.as_mut_ptr(),
                rescale: rescale.as_mut_ptr(),
            };
            // SAFETY: the arrays are as large.
            unsafe { online_softmax_update()(&block) };
        }
        (running_max, sum)
    }

    #[test]
    fn sums_do_not_depend_on_how_many_keys_come_at_once() {
        let score = |key: usize, j: usize| ((key * 37 + j * 11) % 83) as f32 / 4.0 - 9.0;
        let scores: Vec<[f32; QUERY_LANES]> =
            (0..40).map(|key| std::array::from_fn(|j| score(key, j))).collect();
        each_level(|level| {
            let (running_max, sum) = run_updates(&scores, 40);
            for j in 0..QUERY_LANES {
                let of = |key: usize| f64::from(scores[key][j]);
                let new_max = (0..40).map(of).fold(f64::MIN, f64::max);
                let want: f64 = (0..40).map(|key| (of(key) - new_max).exp()).sum();
                assert_eq!(f64::from(running_max[j]), new_max, "{level:?}");
                assert!((f64::from(sum[j]) / want - 1.0).abs() < 1e-6, "{level:?} {} {want}", sum[j]);
            }
            for at_once in [1, 7] {
                let (again, others) = run_updates(&scores, at_once);
                assert_eq!(again, running_max);
                let near = |(a, b): (f32, f32)| (a / b - 1.0).abs() < 1e-5;
                assert!(others.into_iter().zip(sum).all(near), "{level:?} {others:?} {sum:?}");
            }
        });
    }

    #[test]
    fn masked_keys_have_no_weight() {
        let mut scores = vec![[f32::NEG_INFINITY; QUERY_LANES]; 3];
        scores[2][1] = 5.0;
        for at_once in [1, 3] {
            let (running_max, sum) = run_updates(&scores, at_once);
            assert_eq!((running_max[0], sum[0]), (f32::NEG_INFINITY, 0.0));
            assert_eq!((running_max[1], sum[1]), (5.0, 1.0));
        }
    }
}
