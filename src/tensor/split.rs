//! Tensors cut into parts, and single parts of them.

use crate::base::{Result, Scalar};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::slicing::{Index, IntoIndex};
use crate::tensor::spec::{IntoOneOrMany, OneOrMany};
use crate::tensor::{index, slicing};

impl Tensor {
    /// Parts along an axis: of `sizes` elements each, or of the sizes listed.
    ///
    /// The last of one size may be shorter; sizes listed must add up to the extent. An error is a
    /// single invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let parts = Tensor::from([1i64, 2, 3]).split(2, 0);
    /// assert_eq!(parts[0].to_vec::<i64>()?, [1, 2]);
    /// assert_eq!(parts[1].to_vec::<i64>()?, [3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, sizes: impl IntoOneOrMany, axis: i64) -> Vec<Tensor> {
        let site = CallSite::here("split");
        let sizes = sizes.into_one_or_many();
        site.build_list(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let extent = self.shape()[axis];
            match &sizes {
                OneOrMany::One(size) => every(site, self, axis, usize::try_from(*size).unwrap_or(0)),
                OneOrMany::Many(sizes) => {
                    if sizes.iter().any(|&size| size < 0)
                        || sizes.iter().map(|&size| i128::from(size)).sum::<i128>() != extent as i128
                    {
                        let expected = format!("sizes that add up to {extent}");
                        return Err(site.error(expected, format!("{sizes:?}"), &[self]));
                    }
                    let mut start = 0;
                    Ok(sizes
                        .iter()
                        .map(|&size| {
                            start += size as usize;
                            site.slice(self, axis, start - size as usize, start, 1)
                        })
                        .collect())
                }
            }
        })
    }

    /// At most `chunks` parts of one size along an axis; the last may be shorter.
    ///
    /// An error is a single invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let parts = Tensor::zeros([5], ()).chunk(2, 0);
    /// assert_eq!((parts[0].numel(), parts[1].numel()), (3, 2));
    /// ```
    #[track_caller]
    pub fn chunk(&self, chunks: usize, axis: i64) -> Vec<Tensor> {
        let site = CallSite::here("chunk");
        site.build_list(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let extent = self.shape()[axis];
            if chunks == 0 {
                return Err(site.error("at least one chunk", "0", &[self]));
            }
            if extent == 0 {
                return Ok(vec![self.clone(); chunks]);
            }
            every(site, self, axis, extent.div_ceil(chunks))
        })
    }

    /// Parts along an axis: `sections` of nearly one size, or cut before each position listed.
    ///
    /// The first sections are the longer ones. An error is a single invalid tensor.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let parts = Tensor::from([1i64, 2, 3, 4]).tensor_split([1, 3], 0);
    /// assert_eq!(parts[1].to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tensor_split(&self, sections: impl IntoOneOrMany, axis: i64) -> Vec<Tensor> {
        let site = CallSite::here("tensor_split");
        let sections = sections.into_one_or_many();
        site.build_list(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let extent = self.shape()[axis];
            let mut cuts: Vec<usize> = vec![0];
            match &sections {
                OneOrMany::One(n) if *n < 1 => {
                    return Err(site.error("at least one section", n.to_string(), &[self]));
                }
                OneOrMany::One(n) => {
                    let (size, longer) = (extent / *n as usize, extent % *n as usize);
                    cuts.extend((1..=*n as usize).map(|i| i * size + i.min(longer)));
                }
                OneOrMany::Many(at) => {
                    cuts.extend(at.iter().map(|&p| slicing::clamped(p, extent)));
                    cuts.push(extent);
                }
            }
            Ok(cuts.windows(2).map(|cut| site.slice(self, axis, cut[0], cut[1].max(cut[0]), 1)).collect())
        })
    }

    /// One tensor for each position along an axis, which is removed.
    ///
    /// `[2, 3]` along 0 gives two of `[3]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let rows = Tensor::from([[1i64, 2], [3, 4]]).unbind(0);
    /// assert_eq!(rows[1].to_vec::<i64>()?, [3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, axis: i64) -> Vec<Tensor> {
        let site = CallSite::here("unbind");
        site.build_list(&[self], || {
            let axis = site.axis_number(self, axis)?;
            Ok((0..self.shape()[axis]).map(|i| site.select_index(self, axis, i)).collect())
        })
    }

    /// `length` elements from `start` along an axis.
    ///
    /// A number may count from the end; a rank-0 integer tensor is a position known only when
    /// running. Invalid where the range leaves the axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3, 4]).narrow(0, 1, 2).to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, axis: i64, start: impl Operand, length: usize) -> Tensor {
        let site = CallSite::here("narrow");
        let start = start.into_operand();
        site.build(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let extent = self.shape()[axis];
            if length > extent {
                return Err(site.error(format!("at most {extent} elements"), length.to_string(), &[self]));
            }
            match start {
                OperandValue::Tensor(start) => index::narrow_at(site, self, axis, &start, length),
                OperandValue::Scalar(start) => {
                    let start = start_of(site, self, start, extent, extent - length)?;
                    Ok(site.slice(self, axis, start, start + length, 1))
                }
            }
        })
    }

    /// The elements at one position along an axis, which is removed.
    ///
    /// Counted from the end when negative; invalid out of range. PyTorch: `torch.select`
    /// ([`Tensor::select`] is the conditional choice).
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).select_index(1, -1).to_vec::<i64>()?, [2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn select_index(&self, axis: i64, index: i64) -> Tensor {
        let site = CallSite::here("select_index");
        site.build(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let index = slicing::position(site, self, axis, index)?;
            Ok(site.select_index(self, axis, index))
        })
    }

    /// A range along one axis, with Python's clamping: `x.slice(0, 1..-1)`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1i64, 2, 3, 4]).slice(0, 1..-1).to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, axis: i64, range: impl IntoIndex) -> Tensor {
        let site = CallSite::here("slice");
        let range = range.into_index();
        site.build(&[self], || {
            let axis = site.axis_number(self, axis)?;
            let Index::Range(range) = range else {
                return Err(site.error("a range", format!("{range:?}"), &[self]));
            };
            Ok(range.resolve(site, self, axis)?.take(site, self, axis))
        })
    }
}

fn every(site: CallSite, x: &Tensor, axis: usize, size: usize) -> Result<Vec<Tensor>> {
    let extent = x.shape()[axis];
    if extent == 0 {
        return Ok(vec![x.clone()]);
    }
    if size == 0 {
        return Err(site.error("parts of at least one element", "0", &[x]));
    }
    let part = |start| site.slice(x, axis, start, extent.min(start + size), 1);
    Ok((0..extent).step_by(size).map(part).collect())
}

/// A start counted from the end when negative, at most `last`.
fn start_of(site: CallSite, x: &Tensor, start: Scalar, extent: usize, last: usize) -> Result<usize> {
    let Scalar::Int(position) = start else {
        return Err(site.error("an integer start", start.to_string(), &[x]));
    };
    let wrapped = if position < 0 { position.saturating_add(extent as i64) } else { position };
    match usize::try_from(wrapped) {
        Ok(start) if start <= last => Ok(start),
        Ok(_) | Err(_) => {
            Err(site.error(format!("a start in -{extent}..={last}"), position.to_string(), &[x]))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tensor::slicing::r;
    use crate::tensor::testing::{assert_close, error_text, f32s, pattern};

    fn extents(parts: &[crate::tensor::Tensor]) -> Vec<usize> {
        parts.iter().map(|part| part.shape()[0]).collect()
    }

    #[test]
    fn parts_of_one_size_or_of_sizes() {
        let x = pattern(&[7, 2], 0);
        assert_eq!(extents(&x.split(3, 0)), [3, 3, 1]);
        assert_eq!(extents(&x.split([2, 0, 5], 0)), [2, 0, 5]);
        assert_eq!(extents(&x.chunk(4, 0)), [2, 2, 2, 1]);
        assert_eq!(extents(&x.tensor_split(4, 0)), [2, 2, 2, 1]);
        assert_eq!(extents(&x.tensor_split([2, -1, 3], 0)), [2, 4, 0, 4]);
        assert_eq!(x.unbind(0).len(), 7);
    }

    #[test]
    fn a_mistake_is_one_invalid_tensor() {
        let x = pattern(&[7], 0);
        for parts in [x.split([3, 3], 0), x.split(0, 0), x.chunk(0, 0), x.tensor_split(0, 0), x.unbind(1)] {
            assert_eq!(parts.len(), 1);
            error_text(&parts[0]);
        }
        assert!(error_text(&x.split([3, 3], 0)[0]).contains("sizes that add up to 7"));
    }

    #[test]
    fn one_position_or_a_range() {
        let x = f32s(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_close(&x.select_index(0, -1), &[2], &[4.0, 5.0]);
        assert_close(&x.slice(0, r(.., ..).step(2)), &[2, 2], &[0.0, 1.0, 4.0, 5.0]);
        assert!(error_text(&x.slice(0, 1)).contains("a range"));
        assert!(error_text(&x.select_index(1, 2)).contains("on axis 1 of extent 2, found 2"));
    }
}
