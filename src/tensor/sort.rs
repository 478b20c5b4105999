//! Order along an axis. Sorting is stable, and NaN counts as largest.

use crate::ir::Op;
use crate::tensor::Tensor;
use crate::tensor::call_site::without;
use crate::tensor::compose::CallSite;
use crate::tensor::options::options;

options! {
    /// How the largest or smallest elements are chosen.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[3i64, 1, 2]]);
    /// assert_eq!(x.topk(1, TopkOpts::default().axis(1).largest(false)).0.to_vec::<i64>()?, [1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    TopkOpts {
        /// The axis chosen along (-1).
        axis: i64 = -1;
        /// The largest elements (true), else the smallest.
        largest: bool = true;
    }
}

impl Tensor {
    /// The elements in order along an axis, and where each came from (`I64`); both have this shape.
    ///
    /// Invalid for an axis out of range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([3i64, 1, 2]);
    /// let (values, indices) = x.sort(0, false);
    /// assert_eq!(values.to_vec::<i64>()?, [1, 2, 3]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: i64, descending: bool) -> (Tensor, Tensor) {
        let site = CallSite::here("sort");
        site.build_pair(&[self], || {
            let (row, axis) = site.lane(self, axis)?;
            let (values, order) = sorted(site, &row, axis, descending);
            Ok((site.reshape(&values, &self.shape()), site.reshape(&order, &self.shape())))
        })
    }

    /// The positions (`I64`) that put the elements in order along an axis.
    ///
    /// Invalid for an axis out of range.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([3i64, 1, 2]).argsort(0, true).to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: i64, descending: bool) -> Tensor {
        let site = CallSite::here("argsort");
        site.build(&[self], || {
            let (row, axis) = site.lane(self, axis)?;
            Ok(site.reshape(&order(site, &row, axis, descending), &self.shape()))
        })
    }

    /// The elements in ascending order along axis 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([3i64, 1, 2]).msort().to_vec::<i64>()?, [1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn msort(&self) -> Tensor {
        let site = CallSite::here("msort");
        site.build(&[self], || {
            let (row, axis) = site.lane(self, 0)?;
            Ok(site.reshape(&sorted(site, &row, axis, false).0, &self.shape()))
        })
    }

    /// The `k` largest (or smallest) elements along an axis, in order, and their positions.
    ///
    /// `[.., n]` along -1 gives `[.., k]`. Invalid when `k` exceeds the extent.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([3i64, 1, 2]);
    /// let (values, indices) = x.topk(2, TopkOpts::default());
    /// assert_eq!(values.to_vec::<i64>()?, [3, 2]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, opts: TopkOpts) -> (Tensor, Tensor) {
        let site = CallSite::here("topk");
        site.build_pair(&[self], || {
            let (row, axis) = site.lane(self, opts.axis)?;
            if k > row.shape()[axis] {
                let expected = format!("at most {} elements", row.shape()[axis]);
                return Err(site.error(expected, k.to_string(), &[self]));
            }
            let chosen = first(site, &row, axis, opts.largest, k);
            let values = at(site, &row, axis, &chosen);
            if self.rank() == 0 && k == 1 {
                return Ok((site.reshape(&values, &self.shape()), site.reshape(&chosen, &self.shape())));
            }
            Ok((values, chosen))
        })
    }

    /// The `k`-th smallest element along an axis (from 1) and its position.
    ///
    /// Invalid unless `k` is in `1..=n`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (value, index) = Tensor::from([30i64, 10, 20]).kthvalue(2, 0);
    /// assert_eq!((value.item::<i64>()?, index.item::<i64>()?), (20, 2));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue(&self, k: usize, axis: i64) -> (Tensor, Tensor) {
        kth(CallSite::here("kthvalue"), self, k, axis, false)
    }

    /// As [`Tensor::kthvalue`], the axis kept with extent 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (value, index) = Tensor::from([30i64, 10, 20]).kthvalue_keepdim(2, 0);
    /// assert_eq!((value.dims()?, index.dims()?), ([1], [1]));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn kthvalue_keepdim(&self, k: usize, axis: i64) -> (Tensor, Tensor) {
        kth(CallSite::here("kthvalue"), self, k, axis, true)
    }
}

/// The positions that put the elements in order along an axis.
pub(crate) fn order(site: CallSite, x: &Tensor, axis: usize, descending: bool) -> Tensor {
    first(site, x, axis, descending, x.shape()[axis])
}

/// As many of these positions, from the first.
pub(crate) fn first(site: CallSite, x: &Tensor, axis: usize, descending: bool, count: usize) -> Tensor {
    site.apply(Op::Sort { axis: axis as u8, descending, count }, &[x])
}

/// The elements at positions along an axis.
pub(crate) fn at(site: CallSite, x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    site.apply(Op::Gather(axis as u8), &[x, index])
}

/// The elements in order along an axis, and where each came from.
pub(crate) fn sorted(site: CallSite, x: &Tensor, axis: usize, descending: bool) -> (Tensor, Tensor) {
    let order = order(site, x, axis, descending);
    (at(site, x, axis, &order), order)
}

fn kth(site: CallSite, x: &Tensor, k: usize, axis: i64, keepdim: bool) -> (Tensor, Tensor) {
    site.build_pair(&[x], || {
        let (row, axis) = site.lane(x, axis)?;
        let extent = row.shape()[axis];
        if !(1..=extent).contains(&k) {
            return Err(site.error(format!("a k in 1..={extent}"), k.to_string(), &[x]));
        }
        let index = site.slice(&first(site, &row, axis, false, k), axis, k - 1, k, 1);
        Ok(chosen(site, x, &row, axis, &index, keepdim))
    })
}

/// The elements of `row`, which is `x` with at least one axis, at one
/// position along an axis, and that position.
pub(crate) fn chosen(
    site: CallSite,
    x: &Tensor,
    row: &Tensor,
    axis: usize,
    index: &Tensor,
    keepdim: bool,
) -> (Tensor, Tensor) {
    let shape = match (keepdim, x.rank()) {
        (true, 0) => x.shape(),
        (true, _) => index.shape(),
        (false, _) => without(&index.shape(), axis),
    };
    (site.reshape(&at(site, row, axis, index), &shape), site.reshape(index, &shape))
}

#[cfg(test)]
mod tests {
    use super::TopkOpts;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s};

    #[test]
    fn sorting_is_stable_and_puts_nan_at_the_large_end() {
        let x = f32s(&[4], &[2.0, f64::NAN, 1.0, 2.0]);
        let (values, order) = x.sort(0, false);
        assert_close(&values, &[4], &[1.0, 2.0, 2.0, f64::NAN]);
        assert_close(&order, &[4], &[2.0, 0.0, 3.0, 1.0]);
        assert_close(&x.argsort(-1, true), &[4], &[1.0, 0.0, 3.0, 2.0]);
    }

    #[test]
    fn the_chosen_few_come_in_order() {
        let x = i64s(&[2, 3], &[5, 9, 7, 1, 3, 2]);
        let (values, indices) = x.topk(2, TopkOpts::default());
        assert_close(&values, &[2, 2], &[9.0, 7.0, 3.0, 2.0]);
        assert_close(&indices, &[2, 2], &[1.0, 2.0, 1.0, 2.0]);
        let (least, _) = x.topk(1, TopkOpts::default().axis(0).largest(false));
        assert_close(&least, &[1, 3], &[1.0, 3.0, 2.0]);
        assert_close(&x.kthvalue(2, 1).0, &[2], &[7.0, 2.0]);
        assert!(error_text(&x.topk(4, TopkOpts::default()).0).contains("at most 3 elements, found 4"));
        assert!(error_text(&x.kthvalue(0, 1).0).contains("a k in 1..=3"));
    }
}
