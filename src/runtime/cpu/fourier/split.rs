//! A length as rows of points, transformed in two steps over columns.

use kiln_simd::micro::fft::{COLUMNS, Job, Source, Store, Transform, root};

use super::{Parts, Real};
use crate::runtime::cpu::gemm::scratch;
use crate::runtime::cpu::threads;

/// The tables of a length.
#[derive(Debug)]
pub(super) struct Split<T> {
    /// Along the columns as they are given.
    first: Transform<T>,
    /// Along those of what is turned.
    second: Transform<T>,
    /// The roots of unity between both, as the first step reads them.
    factors: Vec<T>,
}

impl<T: Real> Split<T> {
    /// `None` if a prime factor of the length is too large.
    pub fn new(points: usize) -> Option<Split<T>> {
        let rows = rows(points);
        let columns = points / rows;
        let (first, second) = (Transform::new(rows)?, Transform::new(columns)?);
        let mut factors = Vec::with_capacity(rows * columns.next_multiple_of(COLUMNS) * 2);
        for block in (0..columns).step_by(COLUMNS) {
            for k in 0..rows {
                let roots: [(f64, f64); COLUMNS] =
                    std::array::from_fn(|c| root(k * ((block + c) % columns), points));
                factors.extend(roots.map(|(cos, _)| T::rounded(cos)));
                factors.extend(roots.map(|(_, sin)| T::rounded(-sin)));
            }
        }
        Some(Split { first, second, factors })
    }

    /// # Safety
    /// As [`super::Tables::run`].
    pub unsafe fn run(&self, from: Parts<T>, to: Parts<T>, shared: bool) {
        let (rows, columns) = (self.first.points(), self.second.points());
        let blocks = |count: usize, step: &(dyn Fn(usize) + Sync)| match shared {
            true => threads::parallel_for(count.div_ceil(COLUMNS), |block| step(block * COLUMNS)),
            false => (0..count).step_by(COLUMNS).for_each(step),
        };
        blocks(columns, &|c| {
            let factors = self.factors[c * rows * 2..].as_ptr();
            let turned = to.at(c * rows);
            // SAFETY: some columns of the points; their results are rows of their own.
            let to = Store::Turned { to: [turned.re, turned.im], factors };
            unsafe { step(&self.first, from.at(c), columns, c, to) }
        });
        blocks(rows, &|c| {
            let part = to.at(c);
            let to = Store::Rows { to: [part.re, part.im], step: rows, scale: T::rounded(1.0) };
            // SAFETY: columns that no other step touches; all are read before any is written.
            unsafe { step(&self.second, part, rows, c, to) }
        });
    }
}

/// Transforms up to [`COLUMNS`] columns of a matrix, from column `first` on, which is at `from`.
///
/// # Safety
/// They are readable, and what `to` says is writable.
unsafe fn step<T: Real>(
    transform: &Transform<T>,
    from: Parts<T>,
    columns: usize,
    first: usize,
    to: Store<T>,
) {
    let from = Source { re: from.re, im: from.im, step: columns };
    scratch::with(transform.scratch(), |scratch| {
        let job = Job { transform, from, columns: COLUMNS.min(columns - first), to, scratch };
        // SAFETY: the caller's promise.
        unsafe { T::columns()(&job) }
    });
}

/// The divisor that leaves the fewest lanes idle, near the root among equals.
fn rows(points: usize) -> usize {
    let lanes = |count: usize| count.next_multiple_of(COLUMNS);
    let cost = |rows: usize| {
        let columns = points / rows;
        (lanes(columns) * rows + lanes(rows) * columns, rows.max(columns))
    };
    let divisors = (1..=points.isqrt()).filter(|rows| points.is_multiple_of(*rows));
    divisors.min_by_key(|&rows| cost(rows)).unwrap_or(1)
}

/// The least length of at least `n` whose factors are small: of a power of two, or three, five, or fifteen
/// times one.
pub fn smooth(n: usize) -> usize {
    let least = |odd: usize| odd * n.div_ceil(odd).next_power_of_two();
    [1, 3, 5, 15].map(least).into_iter().min().unwrap_or(n)
}
