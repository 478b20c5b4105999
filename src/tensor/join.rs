//! Tensors put together into one.

use std::borrow::Borrow;

use crate::base::{Result, Shape};
use crate::ir::PadAxis;
use crate::tensor::Tensor;
use crate::tensor::call_site::{common_dtype, with_axis, with_extent, without};
use crate::tensor::compose::CallSite;
use crate::tensor::movement::{atleast, new_axis};
use crate::tensor::pack::{side_by_side, stored};
use crate::tensor::permute::move_axis;
use crate::tensor::position::{along, before};

/// Which of the first two inputs of [`Tensor::meshgrid`] varies along axis 0.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::opts::Indexing;
/// let (x, y) = (Tensor::zeros([2], ()), Tensor::zeros([3], ()));
/// assert_eq!(Tensor::meshgrid(&[x, y], Indexing::Xy)[0].dims()?, [3, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// The first: matrix order.
    #[default]
    Ij,
    /// The second: Cartesian order.
    Xy,
}

impl Tensor {
    /// The tensors one after another along an axis: `[2, 3]` and `[2, 5]` along 1 give `[2, 8]`.
    ///
    /// They agree on all other axes and are brought to one type. Empty rank-1 tensors are passed
    /// over, as in PyTorch.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// let y = Tensor::cat(&[&x, &Tensor::from([[5i64, 6]])], 0);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cat<T: Borrow<Tensor>>(tensors: &[T], axis: i64) -> Tensor {
        joined(CallSite::here("cat"), tensors, |site, tensors| {
            let parts: Vec<&Tensor> = tensors.iter().copied().filter(|x| x.shape()[..] != [0]).collect();
            match parts.first() {
                Some(first) => cat_along(site, &parts, site.axis_number(first, axis)?),
                None => Ok(site.cast(tensors[0], common_dtype(tensors))),
            }
        })
    }

    /// The tensors, all of one shape, one after another along a new axis.
    ///
    /// Two of `[3]` along 0 give `[2, 3]`. Invalid for no tensors or different shapes.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([1i64, 2]), Tensor::from([3i64, 4]));
    /// assert_eq!(Tensor::stack(&[x, y], 1).to_vec::<i64>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], axis: i64) -> Tensor {
        joined(CallSite::here("stack"), tensors, |site, tensors| {
            let axis = new_axis(site, tensors[0], axis)?;
            if tensors.iter().any(|x| x.shape() != tensors[0].shape()) {
                let found: Vec<String> = tensors.iter().map(|x| x.shape().to_string()).collect();
                return Err(site.error("tensors of one shape", found.join(", "), &[]));
            }
            let shape = with_axis(&tensors[0].shape(), axis, 1);
            let parts: Vec<Tensor> = tensors.iter().map(|x| site.reshape(x, &shape)).collect();
            cat_along(site, &parts.iter().collect::<Vec<_>>(), axis)
        })
    }

    /// The tensors side by side: along axis 1, or 0 for rank 1.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64], [2]]);
    /// assert_eq!(Tensor::hstack(&[&x, &x]).to_vec::<i64>()?, [1, 1, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hstack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        joined(CallSite::here("hstack"), tensors, |site, tensors| {
            let parts: Vec<Tensor> = tensors.iter().map(|x| atleast(site, x, 1)).collect();
            let axis = usize::from(parts[0].rank() > 1);
            cat_along(site, &parts.iter().collect::<Vec<_>>(), axis)
        })
    }

    /// The tensors on top of each other: along axis 0, rank 1 as rows.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(Tensor::vstack(&[&x, &x]).dims()?, [2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn vstack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        joined(CallSite::here("vstack"), tensors, |site, tensors| {
            let parts: Vec<Tensor> = tensors.iter().map(|x| atleast(site, x, 2)).collect();
            cat_along(site, &parts.iter().collect::<Vec<_>>(), 0)
        })
    }

    /// The tensors one behind another: along axis 2, after [`Tensor::atleast_3d`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(Tensor::dstack(&[&x, &x]).dims()?, [1, 2, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dstack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        joined(CallSite::here("dstack"), tensors, |site, tensors| {
            let parts: Vec<Tensor> = tensors.iter().map(|x| atleast(site, x, 3)).collect();
            cat_along(site, &parts.iter().collect::<Vec<_>>(), 2)
        })
    }

    /// The tensors side by side along axis 1, rank 1 and less as columns.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([1i64, 2]), Tensor::from([3i64, 4]));
    /// assert_eq!(Tensor::column_stack(&[x, y]).to_vec::<i64>()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn column_stack<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        joined(CallSite::here("column_stack"), tensors, |site, tensors| {
            let column = |x: &&Tensor| match x.rank() {
                0 | 1 => site.reshape(x, &Shape::new(&[x.numel(), 1])),
                _ => (*x).clone(),
            };
            let parts: Vec<Tensor> = tensors.iter().map(column).collect();
            cat_along(site, &parts.iter().collect::<Vec<_>>(), 1)
        })
    }

    /// The matrices along the diagonal of a larger one, zeros elsewhere.
    ///
    /// Rank 1 and less counts as one row; invalid above rank 2.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let (x, y) = (Tensor::from([[1i64]]), Tensor::from([[2i64, 3]]));
    /// assert_eq!(Tensor::block_diag(&[x, y]).to_vec::<i64>()?, [1, 0, 0, 0, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn block_diag<T: Borrow<Tensor>>(tensors: &[T]) -> Tensor {
        joined(CallSite::here("block_diag"), tensors, |site, tensors| {
            let blocks: Vec<Tensor> = tensors.iter().map(|x| atleast(site, x, 2)).collect();
            if let Some(wrong) = blocks.iter().find(|x| x.rank() > 2) {
                return Err(site.error("rank 2 or less", format!("rank {}", wrong.rank()), &[wrong]));
            }
            let columns = |x: &Tensor| x.shape()[1] as i64;
            let width = blocks.iter().fold(0i64, |sum, x| sum.saturating_add(columns(x)));
            let mut left = 0i64;
            let rows: Vec<Tensor> = blocks
                .iter()
                .map(|x| {
                    let (lo, own) = (left, columns(x));
                    left = left.saturating_add(own);
                    let pad = PadAxis { lo, hi: width - left, interior: 0 };
                    site.pad(x, vec![PadAxis::default(), pad], 0)
                })
                .collect();
            cat_along(site, &rows.iter().collect::<Vec<_>>(), 0)
        })
    }

    /// One tensor per input, each varying along its own axis of a common grid.
    ///
    /// All have the shape that the inputs (rank 1 or 0) span. An error is a single invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::Indexing;
    /// let grid = Tensor::meshgrid(&[Tensor::from([1i64, 2]), Tensor::from([5i64, 6])], Indexing::Ij);
    /// assert_eq!(grid[0].to_vec::<i64>()?, [1, 1, 2, 2]);
    /// assert_eq!(grid[1].to_vec::<i64>()?, [5, 6, 5, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T], indexing: Indexing) -> Vec<Tensor> {
        let site = CallSite::here("meshgrid");
        let tensors: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
        site.build_list(&tensors, || {
            if let Some(wrong) = tensors.iter().find(|x| x.rank() > 1) {
                return Err(site.error("rank 1 or 0", format!("rank {}", wrong.rank()), &[wrong]));
            }
            let mut slots: Vec<usize> = (0..tensors.len()).collect();
            if indexing == Indexing::Xy && slots.len() >= 2 {
                slots.swap(0, 1);
            }
            let mut shape = Shape(tensors.iter().map(|x| x.numel()).collect());
            for (x, &slot) in tensors.iter().zip(&slots) {
                shape.0[slot] = x.numel();
            }
            let spread = |(x, &slot): (&&Tensor, &usize)| {
                let row = site.reshape(x, &Shape::from(x.numel()));
                site.expand(&along(site, &row, slot, shape.rank()), &shape)
            };
            Ok(tensors.iter().zip(&slots).map(spread).collect())
        })
    }
}

fn joined<T: Borrow<Tensor>>(
    site: CallSite,
    tensors: &[T],
    body: impl FnOnce(CallSite, &[&Tensor]) -> Result<Tensor>,
) -> Tensor {
    let tensors: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
    site.build(&tensors, || match tensors[..] {
        [] => Err(site.error("at least one tensor", "none", &[])),
        _ => body(site, &tensors),
    })
}

/// Tensors that are chosen between by position at most: each element asks for all of them.
const CHOSEN: usize = 32;

/// Tensors in a group, where many are joined in groups: kernels are cut into so many pieces.
const GROUP: usize = 8;

/// The tensors one after another along an axis.
///
/// Few are padded to the whole, and a balanced tree of selections by position
/// takes every element from the one tensor that has it: never an addition,
/// which would lose signed zeros and spread NaN. Many are written to their places in one
/// piece of memory.
pub(crate) fn cat_along(site: CallSite, tensors: &[&Tensor], axis: usize) -> Result<Tensor> {
    let first = tensors[0].shape();
    let fits = |x: &&Tensor| {
        let shape = x.shape();
        shape.rank() == first.rank()
            && axis < shape.rank()
            && with_extent(&shape, axis, 0) == with_extent(&first, axis, 0)
    };
    if !tensors.iter().all(fits) {
        let found: Vec<String> = tensors.iter().map(|x| x.shape().to_string()).collect();
        let expected = format!("tensors of one shape but for axis {axis}");
        return Err(site.error(expected, found.join(", "), &[]));
    }
    let dtype = common_dtype(tensors);
    let mut total = 0usize;
    let mut parts = Vec::with_capacity(tensors.len());
    for x in tensors.iter().filter(|x| x.shape()[axis] > 0) {
        parts.push((total, site.cast(x, dtype)));
        total = total.saturating_add(x.shape()[axis]);
    }
    if parts.len() > 1 && i64::try_from(total).is_err() {
        let found: Vec<String> = tensors.iter().map(|x| x.shape()[axis].to_string()).collect();
        let expected = format!("extents on axis {axis} of at most 2^63 - 1 together");
        return Err(site.error(expected, found.join(" and "), tensors));
    }
    let whole = with_extent(&first, axis, total);
    match &parts[..] {
        [] => Ok(site.cast(tensors[0], dtype)),
        [(_, only)] => Ok(only.clone()),
        many if many.len() > CHOSEN => in_memory(site, many, axis, &whole),
        few => Ok(merged(site, few, axis, &whole)),
    }
}

fn merged(site: CallSite, parts: &[(usize, Tensor)], axis: usize, whole: &Shape) -> Tensor {
    if let [(start, only)] = parts {
        let after = whole[axis] - start - only.shape()[axis];
        let mut pads = vec![PadAxis::default(); whole.rank()];
        pads[axis] = PadAxis { lo: *start as i64, hi: after as i64, interior: 0 };
        return site.pad(only, pads, 0);
    }
    let (low, high) = parts.split_at(parts.len() / 2);
    let before = before(site, whole, axis, high[0].0, low[0].1.device());
    site.choose(&before, &merged(site, low, axis, whole), &merged(site, high, axis, whole))
}

/// Many tensors, each computed or copied where it is to lie, side by side with the axis first;
/// where a device's results cannot lie so, joined in groups, and those again.
fn in_memory(site: CallSite, parts: &[(usize, Tensor)], axis: usize, whole: &Shape) -> Result<Tensor> {
    let rows: Vec<Tensor> = parts.iter().map(|(_, x)| move_axis(site, x, axis, 0)).collect();
    if let Some(row) = side_by_side(site, &rows)? {
        let mut shape = without(whole, axis);
        shape.0.insert(0, whole[axis]);
        return Ok(move_axis(site, &site.reshape(&row, &shape), 0, axis));
    }
    let mut joined = Vec::with_capacity(parts.len().div_ceil(GROUP));
    for group in parts.chunks(GROUP) {
        let (start, mut extent) = (group[0].0, 0);
        let mut own = Vec::with_capacity(GROUP);
        for (_, x) in group {
            own.push((extent, x.clone()));
            extent += x.shape()[axis];
        }
        joined.push((start, stored(site, &merged(site, &own, axis, &with_extent(whole, axis, extent)))));
    }
    if joined.len() > CHOSEN {
        in_memory(site, &joined, axis, whole)
    } else {
        Ok(merged(site, &joined, axis, whole))
    }
}

#[cfg(test)]
mod tests {
    use super::Indexing;
    use crate::base::DType;
    use crate::tensor::Tensor;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, pattern, values};

    #[test]
    fn cat_takes_each_element_as_it_is() {
        let x = f32s(&[2], &[-0.0, f64::NAN]);
        let y = f32s(&[1], &[f64::INFINITY]);
        let found = values(&Tensor::cat(&[&x, &y, &x], 0));
        assert!(found[0].is_sign_negative() && found[3].is_sign_negative());
        assert!(found[1].is_nan() && found[4].is_nan() && found[2] == f64::INFINITY);
    }

    #[test]
    fn cat_of_many_is_in_order() {
        let parts: Vec<Tensor> = (0..7).map(|i| f32s(&[1, 2], &[i as f64, -(i as f64)])).collect();
        let expected: Vec<f64> = (0..7).flat_map(|i| [i as f64, -(i as f64)]).collect();
        assert_close(&Tensor::cat(&parts, 0), &[7, 2], &expected);
        assert_eq!(Tensor::cat(&parts, -1).shape()[..], [1, 14]);
    }

    #[test]
    fn cat_promotes_and_passes_over_empty_rows() {
        let x = Tensor::cat(&[&i64s(&[1], &[1]), &f32s(&[0], &[]), &f32s(&[1], &[0.5])], 0);
        assert_eq!(x.dtype(), DType::F32);
        assert_close(&x, &[2], &[1.0, 0.5]);
        assert_eq!(Tensor::cat(&[f32s(&[0], &[]), pattern(&[2, 2], 0)], 1).shape()[..], [2, 2]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let none: [Tensor; 0] = [];
        assert!(error_text(&Tensor::cat(&none, 0)).contains("at least one tensor"));
        let pair = [pattern(&[2, 3], 0), pattern(&[2, 4], 0)];
        assert!(
            error_text(&Tensor::cat(&pair, 0)).contains("one shape but for axis 0, found [2, 3], [2, 4]")
        );
        assert!(error_text(&Tensor::stack(&pair, 0)).contains("tensors of one shape"));
        assert!(Tensor::cat(&pair, 2).check().is_err());
    }

    #[test]
    fn blocks_lie_on_the_diagonal() {
        let x = Tensor::block_diag(&[f32s(&[1, 1], &[1.0]), f32s(&[2], &[2.0, 3.0])]);
        assert_close(&x, &[2, 3], &[1.0, 0.0, 0.0, 0.0, 2.0, 3.0]);
    }

    #[test]
    fn grids_vary_along_their_own_axis() {
        let axes = [f32s(&[2], &[1.0, 2.0]), f32s(&[3], &[3.0, 4.0, 5.0])];
        let ij = Tensor::meshgrid(&axes, Indexing::Ij);
        assert_close(&ij[0], &[2, 3], &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        let xy = Tensor::meshgrid(&axes, Indexing::Xy);
        assert_close(&xy[0], &[3, 2], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    }
}
