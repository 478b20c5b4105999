//! Positions in sorted sequences.

use crate::base::{DType, Result, Shape};
use crate::ir::{AluOp, Op};
use crate::tensor::Tensor;
use crate::tensor::call_site::{common_dtype, with_axis};
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{Operand, OperandValue};
use crate::tensor::options::{options, some};
use crate::tensor::reduce::total;
use crate::tensor::sort::at;

/// Longest sequence that is compared with as a whole; longer ones are halved.
const COMPARED: usize = 128;

options! {
    /// How a sorted sequence is searched.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::SearchOpts;
    /// let x = Tensor::from([1i64, 3, 3]);
    /// assert_eq!(x.searchsorted(3, SearchOpts::default().right(true)).to_vec::<i64>()?, [3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    SearchOpts {
        /// Find the position after the elements equal to the value, not
        /// before (false).
        right: bool = false;
        /// The positions that sort the sequence, if it is not sorted itself.
        sorter: Option<Tensor> = None, &Tensor => some;
    }
}

impl Tensor {
    /// Where values would be inserted to keep this sequence sorted: `I64`.
    ///
    /// Its last axis is ascending, NaN last. A rank-1 sequence serves values of any shape; others agree with
    /// the values on all axes but the last.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 3, 5]);
    /// let y = x.searchsorted(Tensor::from([0i64, 3, 9]), Default::default());
    /// assert_eq!(y.to_vec::<i64>()?, [0, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: impl Operand, opts: SearchOpts) -> Tensor {
        let site = CallSite::here("searchsorted");
        let values = match values.into_operand() {
            OperandValue::Tensor(tensor) => tensor,
            OperandValue::Scalar(value) => site.scalar(value, value.promote(self.dtype()), self.device()),
        };
        let operands: Vec<&Tensor> = [self, &values].into_iter().chain(&opts.sorter).collect();
        site.build(&operands, || {
            let mut sequence = self.clone();
            if let Some(sorter) = &opts.sorter {
                let sorter = crate::tensor::advanced::as_index(site, sorter)?;
                if sorter.shape() != self.shape() || self.rank() == 0 {
                    let expected = format!("a sorter of shape {}", self.shape());
                    return Err(site.error(expected, sorter.shape().to_string(), &operands));
                }
                sequence = at(site, self, self.rank() - 1, &sorter);
            }
            inserted(site, &sequence, &values, opts.right)
        })
    }

    /// The bucket of each element, bounded by the ascending rank-1 `boundaries`.
    ///
    /// `I64`, in this shape. Bucket `i` reaches from boundary `i - 1` (exclusive) to `i`
    /// (inclusive), or with `right` from inclusive to exclusive.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0i64, 3, 9]);
    /// assert_eq!(x.bucketize(&Tensor::from([1i64, 3, 5]), false).to_vec::<i64>()?, [0, 1, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Tensor {
        let site = CallSite::here("bucketize");
        site.build(&[self, boundaries], || {
            if boundaries.rank() != 1 {
                let found = format!("rank {}", boundaries.rank());
                return Err(site.error("boundaries of rank 1", found, &[self, boundaries]));
            }
            inserted(site, boundaries, self, right)
        })
    }
}

fn inserted(site: CallSite, sequence: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    let (rank, shape) = (sequence.rank(), values.shape());
    let agree =
        rank == 1 || (rank > 1 && shape.rank() == rank && shape[..rank - 1] == sequence.shape()[..rank - 1]);
    if !agree {
        let expected = "a sequence of rank 1, or one that agrees with the values but for the last axis";
        return Err(site.error(expected, sequence.shape().to_string(), &[sequence, values]));
    }
    let dtype = common_dtype(&[sequence, values]);
    let (sequence, values) = (site.cast(sequence, dtype), site.cast(values, dtype));
    let values = if rank == 1 { site.reshape(&values, &Shape::from(shape.numel())) } else { values };
    Ok(site.reshape(&search(site, &sequence, &values, right), &shape))
}

/// For each value, the number of elements of the sequence before it (with
/// `right`: before it or equal), as `I64`. Both are of one type and agree on
/// all axes but the last.
pub(crate) fn search(site: CallSite, sequence: &Tensor, values: &Tensor, right: bool) -> Tensor {
    let last = sequence.rank() - 1;
    if sequence.shape()[last] <= COMPARED {
        compared(site, sequence, values, right)
    } else {
        halved(site, sequence, values, right)
    }
}

/// Whether an element comes before the value. NaN is largest, as in a sort, and a NaN value comes after
/// NaN elements too, as in PyTorch.
fn before(site: CallSite, element: &Tensor, value: &Tensor, right: bool) -> Tensor {
    let mut before = site.alu(AluOp::Lt, &[element, value]);
    if right {
        before = site.alu(AluOp::Or, &[&before, &site.alu(AluOp::Eq, &[element, value])]);
    }
    if value.dtype().is_float() {
        before = site.alu(AluOp::Or, &[&before, &site.is_nan(value)]);
    }
    before
}

fn compared(site: CallSite, sequence: &Tensor, values: &Tensor, right: bool) -> Tensor {
    let last = sequence.rank() - 1;
    let pairs = with_axis(&values.shape(), last + 1, sequence.shape()[last]);
    let value = site.reshape(values, &with_axis(&values.shape(), last + 1, 1));
    let element = site.reshape(sequence, &with_axis(&sequence.shape(), last, 1));
    let smaller = before(site, &site.expand(&element, &pairs), &site.expand(&value, &pairs), right);
    total(site, &smaller, &[last + 1])
}

/// Powers of two added, from the highest, wherever the element just below
/// the sum still comes before the value.
fn halved(site: CallSite, sequence: &Tensor, values: &Tensor, right: bool) -> Tensor {
    let last = sequence.rank() - 1;
    let extent = sequence.shape()[last];
    let number = |n: usize| site.scalar(n, DType::I64, values.device());
    let mut found = site.expand(&number(0), &values.shape());
    let mut step = 1usize << extent.ilog2();
    while step > 0 {
        let next = site.alu(AluOp::Add, &[&found, &number(step)]);
        let fits = site.alu(AluOp::Lt, &[&next, &number(extent + 1)]);
        let below = site.alu(AluOp::Sub, &[&site.alu(AluOp::Min, &[&next, &number(extent)]), &number(1)]);
        let element = site.apply(Op::Gather(last as u8), &[sequence, &below]);
        let go = site.alu(AluOp::And, &[&fits, &before(site, &element, values, right)]);
        found = site.choose(&go, &next, &found);
        step /= 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::SearchOpts;
    use crate::base::DType;
    use crate::tensor::testing::{assert_close, f32s, i64s, values};

    #[test]
    fn equal_elements_are_passed_only_to_the_right() {
        let x = f32s(&[4], &[1.0, 2.0, 2.0, 3.0]);
        let sought = f32s(&[4], &[0.0, 2.0, 9.0, f64::NAN]);
        assert_close(&x.searchsorted(&sought, SearchOpts::default()), &[4], &[0.0, 1.0, 4.0, 4.0]);
        let right = SearchOpts::default().right(true);
        assert_close(&x.searchsorted(&sought, right), &[4], &[0.0, 3.0, 4.0, 4.0]);
        assert_close(&sought.i(..2).bucketize(&x, false), &[2], &[0.0, 1.0]);
        let shuffled = f32s(&[3], &[5.0, 1.0, 3.0]);
        let opts = SearchOpts::default().sorter(&i64s(&[3], &[1, 2, 0]));
        assert_close(&shuffled.searchsorted(4.0, opts), &[], &[2.0]);
    }

    #[test]
    fn nan_is_largest_in_a_sequence_and_after_it_as_a_value() {
        let sought = [0.0, 1.0, 2.0, 3.0, f64::INFINITY, f64::NAN];
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let x = f32s(&[4], &[1.0, 2.0, 2.0, f64::NAN]).to_dtype(dtype);
            let y = f32s(&[6], &sought).to_dtype(dtype);
            let left = [0.0, 0.0, 1.0, 3.0, 3.0, 4.0];
            assert_close(&x.searchsorted(&y, SearchOpts::default()), &[6], &left);
            assert_close(&y.bucketize(&x, false), &[6], &left);
            assert_close(&y.bucketize(&x, true), &[6], &[0.0, 1.0, 3.0, 3.0, 3.0, 4.0]);
            // Long enough to be halved.
            let long: Vec<f64> = (0..300).map(|i| if i < 200 { f64::from(i) } else { f64::NAN }).collect();
            let found = f32s(&[300], &long).to_dtype(dtype).searchsorted(&y, SearchOpts::default());
            assert_close(&found, &[6], &[0.0, 1.0, 2.0, 3.0, 200.0, 300.0]);
        }
    }

    #[test]
    fn long_sequences_are_halved_to_the_same_end() {
        let sequence: Vec<f64> = (0..300).map(|i| f64::from(i / 3)).collect();
        let sought: Vec<f64> = (-2..=205).map(|i| f64::from(i) / 2.0).collect();
        let (x, y) = (f32s(&[300], &sequence), f32s(&[sought.len()], &sought));
        for right in [false, true] {
            let found = values(&x.searchsorted(&y, SearchOpts::default().right(right)));
            let before = |v: f64| sequence.iter().filter(|&&e| e < v || (right && e == v)).count() as f64;
            assert_eq!(found, sought.iter().map(|&v| before(v)).collect::<Vec<_>>());
        }
    }
}
