//! Distinct values. How many there are is known only once the values are; see
//! [`crate::tensor::filter`].

use crate::base::{DType, Result, Shape};
use crate::ir::{AluOp, Monoid, Op, PadAxis, ScatterMode};
use crate::plan::context;
use crate::plan::wait::{now, within};
use crate::runtime::Waiting;
use crate::tensor::Tensor;
use crate::tensor::advanced::rows;
use crate::tensor::axis::{AxisList, IntoAxes};
use crate::tensor::blocked::line;
use crate::tensor::call_site::without;
use crate::tensor::compose::CallSite;
use crate::tensor::control::loop_at;
use crate::tensor::filter::{Marks, with_data};
use crate::tensor::lane::one_lane;
use crate::tensor::permute::move_axis;
use crate::tensor::sort::order;

/// Distinct elements, or distinct slices along an axis.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let unique = Tensor::from([5i64, 3, 5]).unique(..)?;
/// assert_eq!(unique.values.i(unique.inverse).to_vec::<i64>()?, [5, 3, 5]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Unique {
    /// Each of them once.
    pub values: Tensor,
    /// For each element, or slice, of the original its number in `values`: `I64`.
    pub inverse: Tensor,
    /// How often each occurs: `I64`, rank 1.
    pub counts: Tensor,
}

impl Tensor {
    /// The distinct slices along an axis, in lexicographic order.
    ///
    /// With `..` the distinct elements, ascending. NaN differs from every element.
    ///
    /// Sorts at once and waits for the count. Slices of `n` elements are sorted `n` times, from the
    /// last element to the first.
    ///
    /// # Errors
    /// An axis out of range, slices without elements, or as
    /// [`Tensor::nonzero`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let unique = Tensor::from([5i64, 3, 5]).unique(..)?;
    /// assert_eq!(unique.values.to_vec::<i64>()?, [3, 5]);
    /// assert_eq!(unique.counts.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unique(&self, axis: impl IntoAxes) -> Result<Unique> {
        now(distinct(CallSite::here("unique"), self, &axis.into_axes(), true, Waiting::Block))
    }

    /// [`Tensor::unique`] as a future ([`Tensor::nonzero_async`]).
    ///
    /// # Errors
    /// As [`Tensor::unique`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let unique = pollster::block_on(Tensor::from([5i64, 3, 5]).unique_async(..))?;
    /// assert_eq!(unique.values.to_vec::<i64>()?, [3, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_async<A: IntoAxes>(&self, axis: A) -> impl Future<Output = Result<Unique>> + use<A> {
        let (x, axes, site) = (self.clone(), axis.into_axes(), CallSite::here("unique_async"));
        within(context::current(), async move { distinct(site, &x, &axes, true, Waiting::Yield).await })
    }

    /// As [`Tensor::unique`], but only neighbours are compared and the order stays.
    ///
    /// Of each run of equal slices, one.
    ///
    /// # Errors
    /// As [`Tensor::unique`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let unique = Tensor::from([5i64, 5, 3, 5]).unique_consecutive(..)?;
    /// assert_eq!(unique.values.to_vec::<i64>()?, [5, 3, 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_consecutive(&self, axis: impl IntoAxes) -> Result<Unique> {
        now(distinct(CallSite::here("unique_consecutive"), self, &axis.into_axes(), false, Waiting::Block))
    }

    /// [`Tensor::unique_consecutive`] as a future ([`Tensor::nonzero_async`]).
    ///
    /// # Errors
    /// As [`Tensor::unique`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let unique = pollster::block_on(Tensor::from([5i64, 5, 3]).unique_consecutive_async(..))?;
    /// assert_eq!(unique.counts.to_vec::<i64>()?, [2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_consecutive_async<A: IntoAxes>(
        &self,
        axis: A,
    ) -> impl Future<Output = Result<Unique>> + use<A> {
        let (x, axes, site) = (self.clone(), axis.into_axes(), CallSite::here("unique_consecutive_async"));
        within(context::current(), async move { distinct(site, &x, &axes, false, Waiting::Yield).await })
    }
}

async fn distinct(
    site: CallSite,
    x: &Tensor,
    axes: &AxisList,
    sort: bool,
    waiting: Waiting,
) -> Result<Unique> {
    with_data(site, x)?;
    let (row, axis) = one_lane(site, x, axes)?;
    let (extent, rest) = (row.shape()[axis], without(&row.shape(), axis));
    if rest.numel() == 0 {
        return Err(site.error("slices of at least one element", format!("shape {rest}"), &[x]));
    }
    let slices = site.reshape(&move_axis(site, &row, axis, 0), &[extent, rest.numel()]);
    let order = sort.then(|| lexicographic(site, &slices));
    let sorted = order.as_ref().map_or(slices.clone(), |order| rows(site, &slices, 0, order));
    let runs = Marks::of(site, &starts(site, &sorted), waiting).await?;
    let at = runs.positions(site);
    let mut dims = vec![runs.count];
    dims.extend_from_slice(&rest);
    let values = move_axis(site, &site.reshape(&rows(site, &sorted, 0, &at), &dims), 0, axis);
    let inverse = unsorted(site, order.as_ref(), &site.sub(&runs.seen, 1i64));
    let inverse = if *axes == AxisList::All { site.reshape(&inverse, &x.shape()) } else { inverse };
    Ok(Unique { values, inverse, counts: runs.distances(site, &at) })
}

/// The positions that put rows in lexicographic order: sorted stably by every
/// column, the last first.
fn lexicographic(site: CallSite, table: &Tensor) -> Tensor {
    let (extent, columns) = (table.shape()[0], table.shape()[1]);
    if columns == 1 {
        return order(site, &site.reshape(table, &[extent]), 0, false);
    }
    let identity = site.iota(extent, DType::I64, table.device());
    let sorted = loop_at(site, columns, &[identity], |i, carries| {
        let column = site.sub(columns as i64 - 1, i);
        let keys = site.reshape(&line(site, table, 1, &column), &[extent]);
        let keys = rows(site, &keys, 0, &carries[0]);
        vec![rows(site, &carries[0], 0, &order(site, &keys, 0, false))]
    });
    sorted[0].clone()
}

/// Which rows differ from the one before.
fn starts(site: CallSite, table: &Tensor) -> Tensor {
    let (extent, columns) = (table.shape()[0], table.shape()[1]);
    if extent == 0 {
        return site.expand(&site.scalar(true, DType::Bool, table.device()), &[0]);
    }
    let (before, after) = (site.slice(table, 0, 0, extent - 1, 1), site.slice(table, 0, 1, extent, 1));
    let differ = site.alu(AluOp::Not, &[&site.alu(AluOp::Eq, &[&before, &after])]);
    let differ = if columns == 1 {
        site.reshape(&differ, &[extent - 1])
    } else {
        site.reduce(Monoid::Max, &differ, &[1])
    };
    site.pad(&differ, vec![PadAxis { lo: 1, hi: 0, interior: 0 }], true)
}

/// Values of sorted elements at the places that those had before.
fn unsorted(site: CallSite, order: Option<&Tensor>, values: &Tensor) -> Tensor {
    let Some(order) = order else { return values.clone() };
    let base = site.expand(&site.constant_like(0, values), &Shape::from(values.numel()));
    site.apply(Op::Scatter(0, ScatterMode::Set), &[&base, order, values])
}

#[cfg(test)]
mod tests {
    use crate::tensor::testing::{assert_close, f32s, i64s};

    #[test]
    fn elements_occur_once_and_know_their_places() {
        let x = i64s(&[2, 3], &[3, 1, 3, 2, 1, 1]);
        let found = x.unique(..).unwrap();
        assert_close(&found.values, &[3], &[1.0, 2.0, 3.0]);
        assert_close(&found.inverse, &[2, 3], &[2.0, 0.0, 2.0, 1.0, 0.0, 0.0]);
        assert_close(&found.counts, &[3], &[3.0, 1.0, 2.0]);
        let runs = x.unique_consecutive(..).unwrap();
        assert_close(&runs.values, &[5], &[3.0, 1.0, 3.0, 2.0, 1.0]);
        assert_close(&runs.counts, &[5], &[1.0, 1.0, 1.0, 1.0, 2.0]);
        let nan = f32s(&[2], &[f64::NAN, f64::NAN]).unique(0).unwrap();
        assert_close(&nan.values, &[2], &[f64::NAN, f64::NAN]);
    }

    #[test]
    fn slices_are_compared_whole() {
        let x = i64s(&[3, 4], &[1, 0, 1, 0, 2, 5, 2, 4, 3, 6, 3, 6]);
        let found = x.unique(1).unwrap();
        assert_close(&found.values, &[3, 3], &[0.0, 0.0, 1.0, 4.0, 5.0, 2.0, 6.0, 6.0, 3.0]);
        assert_close(&found.inverse, &[4], &[2.0, 1.0, 2.0, 0.0]);
        assert_close(&found.counts, &[3], &[1.0, 1.0, 2.0]);
        assert_close(
            &x.unique_consecutive(-1).unwrap().values,
            &[3, 4],
            &[1.0, 0.0, 1.0, 0.0, 2.0, 5.0, 2.0, 4.0, 3.0, 6.0, 3.0, 6.0],
        );
    }

    #[test]
    fn nothing_has_no_values_and_slices_need_elements() {
        let none = i64s(&[0], &[]).unique(..).unwrap();
        assert_close(&none.values, &[0], &[]);
        assert_close(&none.counts, &[0], &[]);
        let error = f32s(&[3, 0], &[]).unique(0).unwrap_err().to_string();
        assert!(error.contains("slices of at least one element"), "{error}");
    }
}
