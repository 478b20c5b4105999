//! Tensors with slices, single elements or marked elements replaced.

use crate::base::{DType, Kind, Result, Shape};
use crate::ir::{AluOp, Monoid, Op, PadAxis, ScatterMode};
use crate::tensor::Tensor;
use crate::tensor::advanced::{as_index, put_at, rows, wrapped};
use crate::tensor::call_site::{with_axis, with_extent, without};
use crate::tensor::compose::CallSite;
use crate::tensor::index::value_like;
use crate::tensor::operand::Operand;
use crate::tensor::position::{along, inside, mask};
use crate::tensor::scan::scanned;
use crate::tensor::scatter::{ScatterReduce, combined, mode};
use crate::tensor::slicing::{Index, IntoIndex, SliceRange, position};

impl Tensor {
    /// The tensor with `source * alpha` added to whole slices along an axis.
    ///
    /// At the positions a rank-1 index holds; `source` has as many slices.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 1, 1]);
    /// let y = x.index_add(0, &Tensor::from([0i64, 0]), &Tensor::from([2i64, 3]), 10);
    /// assert_eq!(y.to_vec::<i64>()?, [51, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn index_add(&self, axis: i64, index: &Tensor, source: &Tensor, alpha: impl Operand) -> Tensor {
        let site = CallSite::here("index_add");
        let alpha = alpha.into_operand();
        site.build(&[self, index, source], || {
            let alpha = value_like(site, alpha, source)?;
            let times = if source.dtype() == DType::Bool { AluOp::And } else { AluOp::Mul };
            let source = site.alu(times, &[source, &alpha]);
            by_slices(site, self, axis, index, &source, |x, at, values| {
                combined(site, x, at, values, ScatterReduce::Sum, true)
            })
        })
    }

    /// The tensor with whole slices along an axis replaced.
    ///
    /// At the positions a rank-1 index holds; `source` has as many slices.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 1], [2, 2]]);
    /// let y = x.index_copy(0, &Tensor::from([1i64]), &Tensor::from([[8i64, 9]]));
    /// assert_eq!(y.to_vec::<i64>()?, [1, 1, 8, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn index_copy(&self, axis: i64, index: &Tensor, source: &Tensor) -> Tensor {
        let site = CallSite::here("index_copy");
        site.build(&[self, index, source], || {
            by_slices(site, self, axis, index, source, |x, (axis, at), values| {
                site.apply(Op::Scatter(axis as u8, ScatterMode::Set), &[x, at, values])
            })
        })
    }

    /// The tensor with whole slices along an axis filled with one value.
    ///
    /// At the positions a rank-1 index holds. The value is a number or a rank-0 tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 1], [2, 2]]);
    /// assert_eq!(x.index_fill(0, &Tensor::from([1i64]), 7).to_vec::<i64>()?, [1, 1, 7, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn index_fill(&self, axis: i64, index: &Tensor, value: impl Operand) -> Tensor {
        let site = CallSite::here("index_fill");
        let value = value.into_operand();
        site.build(&[self, index], || {
            let (row, number) = site.lane(self, axis)?;
            let shape = with_extent(&row.shape(), number, index.numel());
            let source = site.expand(&value_like(site, value, self)?, &shape);
            by_slices(site, self, axis, index, &source, |x, (axis, at), values| {
                site.apply(Op::Scatter(axis as u8, ScatterMode::Set), &[x, at, values])
            })
        })
    }

    /// The tensor with slices of `source` combined into whole slices along an axis.
    ///
    /// At the positions a rank-1 index holds. Where any is written, the tensor's own elements take
    /// part only with `include_self`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([10i64, 20]);
    /// let (index, source) = (Tensor::from([1i64, 1]), Tensor::from([3i64, 4]));
    /// let y = x.index_reduce(0, &index, &source, ScatterReduce::Prod, true);
    /// assert_eq!(y.to_vec::<i64>()?, [10, 240]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn index_reduce(
        &self,
        axis: i64,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduce,
        include_self: bool,
    ) -> Tensor {
        let site = CallSite::here("index_reduce");
        site.build(&[self, index, source], || {
            by_slices(site, self, axis, index, source, |x, at, values| {
                combined(site, x, at, values, reduce, include_self)
            })
        })
    }

    /// The tensor with `values` written where [`Tensor::i`] would read with these indices.
    ///
    /// Added, with `accumulate`. There is one index for each leading axis, `None` taking the axis
    /// whole. A single bool mask over the leading axes takes values for each element it marks: one
    /// for all, or as many as it marks.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// let (row, column) = (Tensor::from([0i64, 1]), Tensor::from([1i64, 0]));
    /// let y = x.index_put(&[Some(&row), Some(&column)], &Tensor::from([8i64, 9]), false);
    /// assert_eq!(y.to_vec::<i64>()?, [1, 8, 9, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn index_put(&self, indices: &[Option<&Tensor>], values: &Tensor, accumulate: bool) -> Tensor {
        let site = CallSite::here("index_put");
        let operands: Vec<&Tensor> =
            [self, values].into_iter().chain(indices.iter().copied().flatten()).collect();
        site.build(&operands, || {
            if indices.len() > self.rank() || indices.iter().all(Option::is_none) {
                let expected = format!("at least one index and at most {}", self.rank());
                return Err(site.error(expected, format!("{} of these", indices.len()), &[self]));
            }
            same_dtype(site, self, values)?;
            if let [Some(mask), rest @ ..] = indices
                && mask.dtype() == DType::Bool
                && rest.iter().all(Option::is_none)
            {
                return put_marked(site, self, mask, values, accumulate);
            }
            let mut all: Vec<Option<Tensor>> = indices.iter().map(|index| index.cloned()).collect();
            all.resize(self.rank(), None);
            put_at(site, self, &all, values, put_mode(self, accumulate))
        })
    }

    /// The tensor with `source` written at positions of the flattened tensor.
    ///
    /// Added, with `accumulate`. Positions count from the end when negative.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// let y = x.put(&Tensor::from([0i64, -1]), &Tensor::from([8i64, 9]), false);
    /// assert_eq!(y.to_vec::<i64>()?, [8, 2, 3, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn put(&self, index: &Tensor, source: &Tensor, accumulate: bool) -> Tensor {
        let site = CallSite::here("put");
        site.build(&[self, index, source], || {
            same_dtype(site, self, source)?;
            if index.numel() != source.numel() {
                let expected = format!("{} values", index.numel());
                return Err(site.error(expected, source.shape().to_string(), &[index, source]));
            }
            if index.numel() == 0 {
                return Ok(self.clone());
            }
            let row = Shape::from(index.numel());
            let at = site.reshape(&wrapped(site, &as_index(site, index)?, self.numel()), &row);
            let flat = site.reshape(self, &Shape::from(self.numel()));
            let op = Op::Scatter(0, put_mode(self, accumulate));
            Ok(site.reshape(&site.apply(op, &[&flat, &at, &site.reshape(source, &row)]), &self.shape()))
        })
    }

    /// The tensor with the elements of `source`, in order, where the mask is true.
    ///
    /// The mask broadcasts. Invalid unless it is `Bool`; too few elements are an error when it
    /// runs.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3]);
    /// assert_eq!(x.masked_scatter(&x.ne(2), &Tensor::from([8i64, 9])).to_vec::<i64>()?, [8, 2, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Tensor {
        let site = CallSite::here("masked_scatter");
        site.build(&[self, mask, source], || {
            same_dtype(site, self, source)?;
            if mask.dtype().kind() != Kind::Bool {
                return Err(site.error("a bool mask", mask.dtype().to_string(), &[self, mask]));
            }
            let fail = || site.error("a mask that broadcasts", mask.shape().to_string(), &[self, mask]);
            let shape = self.shape().broadcast(&mask.shape()).ok_or_else(fail)?;
            let (x, mask) = (site.expand(self, &shape), site.expand(mask, &shape));
            if source.numel() == 0 {
                return Ok(x);
            }
            let flat = site.reshape(source, &Shape::from(source.numel()));
            let taken = site.reshape(&in_turn(site, &mask, &flat), &shape);
            Ok(site.choose(&mask, &taken, &x))
        })
    }

    /// The tensor with `src` at one position along an axis, which `src` lacks.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([[1i64, 2], [3, 4]]);
    /// assert_eq!(x.select_scatter(&Tensor::from([8i64, 9]), 1, 0).to_vec::<i64>()?, [8, 2, 9, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn select_scatter(&self, src: &Tensor, axis: i64, index: i64) -> Tensor {
        let site = CallSite::here("select_scatter");
        site.build(&[self, src], || {
            let axis = site.axis_number(self, axis)?;
            let at = position(site, self, axis, index)?;
            let shape = self.shape();
            expect_shape(site, src, &without(&shape, axis))?;
            let src = site.reshape(&site.cast(src, self.dtype()), &with_axis(&src.shape(), axis, 1));
            let here = mask(site, &shape, axis, AluOp::Eq, at, self.device());
            Ok(site.choose(&here, &site.expand(&src, &shape), self))
        })
    }

    /// The tensor with `src` in a range along an axis.
    ///
    /// Invalid unless `src` has the shape of that part.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2, 3, 4]);
    /// assert_eq!(x.slice_scatter(&Tensor::from([8i64, 9]), 0, 1..3).to_vec::<i64>()?, [1, 8, 9, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_scatter(&self, src: &Tensor, axis: i64, range: impl IntoIndex) -> Tensor {
        let site = CallSite::here("slice_scatter");
        let range = range.into_index();
        site.build(&[self, src], || {
            let axis = site.axis_number(self, axis)?;
            match range {
                Index::Range(range) => in_range(site, self, src, axis, range),
                Index::At(_) | Index::NewAxis | Index::Ellipsis | Index::Tensor(_) => {
                    Err(site.error("a range", format!("{range:?}"), &[self]))
                }
            }
        })
    }
}

/// For each element of the mask, in row-major order, the slice of `source`
/// along axis 0 that belongs to it if it is marked: the first to the first
/// marked, and so on.
fn in_turn(site: CallSite, mask: &Tensor, source: &Tensor) -> Tensor {
    let marks = site.cast(&site.reshape(mask, &Shape::from(mask.numel())), DType::I64);
    let seen = scanned(site, &marks, 0, Monoid::Sum);
    let at = site.alu(AluOp::Sub, &[&seen, &site.constant_like(1, &seen)]);
    // Before the first mark any slice will do.
    let at = site.alu(AluOp::Max, &[&at, &site.constant_like(0, &at)]);
    rows(site, source, 0, &at)
}

/// `values` written or added where a mask over the leading axes is true.
fn put_marked(
    site: CallSite,
    x: &Tensor,
    mask: &Tensor,
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    let (shape, marked) = (x.shape(), mask.rank());
    if marked > shape.rank() || shape[..marked] != mask.shape()[..] {
        let expected = format!("a mask of the leading extents of {shape}");
        return Err(site.error(expected, mask.shape().to_string(), &[x, mask]));
    }
    let mut slice = Shape::new(&shape[marked..]);
    let fail = || {
        let expected = format!("values that broadcast to slices of shape {}", Shape::new(&shape[marked..]));
        site.error(expected, values.shape().to_string(), &[x, values])
    };
    let many = values.rank() > slice.rank() && values.shape()[0] != 1;
    slice.0.insert(0, if many { values.shape()[0] } else { 1 });
    if values.shape().broadcast(&slice).as_ref() != Some(&slice) {
        return Err(fail());
    }
    let values = site.expand(values, &slice);
    let spread = if many { in_turn(site, mask, &values) } else { site.reshape(&values, &slice[1..]) };
    let spread = if many { site.reshape(&spread, &shape) } else { site.expand(&spread, &shape) };
    let mut wide = mask.shape();
    wide.0.resize(shape.rank(), 1);
    let mask = site.expand(&site.reshape(mask, &wide), &shape);
    let add = if x.dtype() == DType::Bool { AluOp::Or } else { AluOp::Add };
    let new = if accumulate { site.alu(add, &[x, &spread]) } else { spread };
    Ok(site.choose(&mask, &new, x))
}

/// Writes slices of `source` along an axis at the positions of a rank-1 index.
fn by_slices(
    site: CallSite,
    x: &Tensor,
    axis: i64,
    index: &Tensor,
    source: &Tensor,
    write: impl FnOnce(&Tensor, (usize, &Tensor), &Tensor) -> Tensor,
) -> Result<Tensor> {
    same_dtype(site, x, source)?;
    let (row, axis) = site.lane(x, axis)?;
    let (source, _) = site.lane(source, 0)?;
    if index.rank() > 1 {
        return Err(site.error("an index of rank 1", index.shape().to_string(), &[x, index]));
    }
    expect_shape(site, &source, &with_extent(&row.shape(), axis, index.numel()))?;
    if index.numel() == 0 {
        return Ok(x.clone());
    }
    let at = site.reshape(&as_index(site, index)?, &Shape::from(index.numel()));
    let at = site.expand(&along(site, &at, axis, row.rank()), &source.shape());
    Ok(site.reshape(&write(&row, (axis, &at), &source), &x.shape()))
}

fn in_range(site: CallSite, x: &Tensor, src: &Tensor, axis: usize, range: SliceRange) -> Result<Tensor> {
    let steps = range.resolve(site, x, axis)?;
    let shape = x.shape();
    expect_shape(site, src, &with_extent(&shape, axis, steps.count()))?;
    if steps.count() == 0 {
        return Ok(x.clone());
    }
    let mut src = site.cast(src, x.dtype());
    if steps.backwards {
        src = site.flip(&src, &[axis]);
    }
    let reach = steps.start + (steps.count() - 1) * steps.step + 1;
    let mut pads = vec![PadAxis::default(); shape.rank()];
    pads[axis] = PadAxis {
        lo: steps.start as i64,
        hi: (shape[axis] - reach) as i64,
        interior: if steps.count() > 1 { steps.step - 1 } else { 0 },
    };
    let spread = site.pad(&src, pads.clone(), 0);
    Ok(site.choose(&inside(site, &src.shape(), &pads, x.device()), &spread, x))
}

pub(super) fn same_dtype(site: CallSite, x: &Tensor, values: &Tensor) -> Result<()> {
    if x.dtype() == values.dtype() {
        return Ok(());
    }
    Err(site.error(format!("values of type {}", x.dtype()), values.dtype().to_string(), &[x, values]))
}

pub(super) fn expect_shape(site: CallSite, src: &Tensor, shape: &Shape) -> Result<()> {
    if src.shape() == *shape {
        return Ok(());
    }
    Err(site.error(format!("values of shape {shape}"), src.shape().to_string(), &[]))
}

fn put_mode(x: &Tensor, accumulate: bool) -> ScatterMode {
    if accumulate { mode(ScatterReduce::Sum, x.dtype()) } else { ScatterMode::Set }
}

#[cfg(test)]
mod tests {
    use crate::base::DType;
    use crate::tensor::slicing::r;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, tensor};

    #[test]
    fn whole_slices_are_added_and_filled() {
        let x = f32s(&[3, 2], &[0.0; 6]);
        let index = i64s(&[2], &[2, 2]);
        let rows = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_close(&x.index_add(0, &index, &rows, 2), &[3, 2], &[0.0, 0.0, 0.0, 0.0, 8.0, 12.0]);
        assert_close(&x.index_copy(0, &index, &rows), &[3, 2], &[0.0, 0.0, 0.0, 0.0, 3.0, 4.0]);
        assert_close(&x.index_fill(1, &i64s(&[1], &[0]), 5), &[3, 2], &[5.0, 0.0, 5.0, 0.0, 5.0, 0.0]);
        assert!(error_text(&x.index_add(1, &index, &rows, 1)).contains("values of shape [3, 2]"));
    }

    #[test]
    fn writing_where_slicing_reads() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let (rows, columns) = (i64s(&[2], &[0, -1]), i64s(&[2], &[2, 2]));
        let y = x.index_put(&[Some(&rows), Some(&columns)], &f32s(&[2], &[1.0, 2.0]), false);
        assert_close(&y, &[2, 3], &[0.0, 0.0, 1.0, 0.0, 0.0, 2.0]);
        let y = x.index_put(&[None, Some(&columns)], &f32s(&[2, 1], &[1.0, 2.0]), true);
        assert_close(&y, &[2, 3], &[0.0, 0.0, 2.0, 0.0, 0.0, 4.0]);
        assert_close(&x.put(&i64s(&[1], &[-2]), &f32s(&[1], &[7.0]), false).i(1), &[3], &[0.0, 7.0, 0.0]);
    }

    #[test]
    fn masks_write_in_turn() {
        let x = f32s(&[3, 2], &[0.0; 6]);
        let mask = tensor(&[3], DType::Bool, &[1.0, 0.0, 1.0]);
        let rows = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_close(&x.index_put(&[Some(&mask)], &rows, false), &[3, 2], &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
        let row = f32s(&[2], &[1.0, 2.0]);
        assert_close(&x.index_put(&[Some(&mask)], &row, true), &[3, 2], &[1.0, 2.0, 0.0, 0.0, 1.0, 2.0]);
        let marks = tensor(&[2], DType::Bool, &[0.0, 1.0]);
        assert_close(
            &x.masked_scatter(&marks, &f32s(&[3], &[1.0, 2.0, 3.0])),
            &[3, 2],
            &[0.0, 1.0, 0.0, 2.0, 0.0, 3.0],
        );
    }

    #[test]
    fn ranges_are_replaced_and_the_rest_stays() {
        let x = f32s(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0]);
        let new = f32s(&[2], &[-1.0, -2.0]);
        assert_close(&x.slice_scatter(&new, 0, r(.., 3).step(2)), &[5], &[-1.0, 1.0, -2.0, 3.0, 4.0]);
        assert_close(&x.slice_scatter(&new, 0, r(-1, 2).step(-1)), &[5], &[0.0, 1.0, 2.0, -2.0, -1.0]);
        assert_close(&x.select_scatter(&f32s(&[], &[9.0]), 0, -1), &[5], &[0.0, 1.0, 2.0, 3.0, 9.0]);
        assert!(error_text(&x.slice_scatter(&new, 0, ..)).contains("values of shape [5]"));
    }

    #[test]
    fn updates_start_where_the_run_says() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let patch = f32s(&[2, 1], &[1.0, 2.0]);
        let expected = [0.0, 0.0, 1.0, 0.0, 0.0, 2.0];
        assert_close(&x.slice_update(1, i64s(&[], &[2]), &patch), &[2, 3], &expected);
        assert_close(&x.slice_update(1, -1, &patch), &[2, 3], &expected);
    }
}
