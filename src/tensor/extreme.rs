//! Extremes of several operands, and values brought within bounds.
//!
//! Operands are promoted and broadcast as the operators do it.

use crate::base::DType;
use crate::ir::AluOp;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{common_dtype, elementwise_as};
use crate::tensor::options::options;
use crate::tensor::term::{Term, formula, formula_as};
use crate::tensor::{Operand, Tensor};

options! {
    /// What [`Tensor::nan_to_num_with`] puts in place of NaN and infinities.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::NanToNumOpts;
    /// let x = Tensor::from([f32::NAN, f32::INFINITY]);
    /// let y = x.nan_to_num_with(NanToNumOpts::default().nan(-1.0).posinf(9.0));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 9.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    NanToNumOpts {
        /// In place of NaN; 0 by default.
        nan: Option<f64> = None, f64 => Some;
        /// In place of infinity; by default the largest finite value of the type.
        posinf: Option<f64> = None, f64 => Some;
        /// In place of minus infinity; by default the least finite value of the type.
        neginf: Option<f64> = None, f64 => Some;
    }
}

impl Tensor {
    /// The larger of each pair; NaN if either is. Of truth values, or.
    ///
    /// Shapes broadcast and types promote; invalid where shapes do not fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 5.0]);
    /// assert_eq!(x.maximum(&Tensor::from([2.0f32, 3.0])).to_vec::<f32>()?, [2.0, 5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn maximum(&self, other: &Tensor) -> Tensor {
        extreme(CallSite::here("maximum"), AluOp::Max, AluOp::Or, self, other)
    }

    /// The smaller of each pair; NaN if either is. Of truth values, and.
    ///
    /// Shapes broadcast and types promote; invalid where shapes do not fit.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 5.0]);
    /// assert_eq!(x.minimum(&Tensor::from([2.0f32, 3.0])).to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn minimum(&self, other: &Tensor) -> Tensor {
        extreme(CallSite::here("minimum"), AluOp::Min, AluOp::And, self, other)
    }

    /// The larger of each pair; NaN only if both are. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([f32::NAN, 5.0]);
    /// assert_eq!(x.fmax(&Tensor::from([2.0f32, 3.0])).to_vec::<f32>()?, [2.0, 5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fmax(&self, other: &Tensor) -> Tensor {
        extreme_but_nan(CallSite::here("fmax"), AluOp::Max, AluOp::Or, self, other)
    }

    /// The smaller of each pair; NaN only if both are. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([f32::NAN, 5.0]);
    /// assert_eq!(x.fmin(&Tensor::from([2.0f32, 3.0])).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fmin(&self, other: &Tensor) -> Tensor {
        extreme_but_nan(CallSite::here("fmin"), AluOp::Min, AluOp::And, self, other)
    }

    /// Each element brought into `[min, max]`; `max` wins where the bounds cross.
    ///
    /// NaN stays NaN, and a NaN bound gives NaN. Bounds may be tensors, which broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2.0f32, 0.5, 3.0]);
    /// assert_eq!(x.clamp(-1.0, 1.0).to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp(&self, min: impl Operand, max: impl Operand) -> Tensor {
        let operands = [self.into_operand(), min.into_operand(), max.into_operand()];
        formula(CallSite::here("clamp"), operands, |[x, min, max]| x.clamp(Some(&min), Some(&max)))
    }

    /// Each element, but not below `min`; see [`Tensor::clamp`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2i64, 3]);
    /// assert_eq!(x.clamp_min(0).to_vec::<i64>()?, [0, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_min(&self, min: impl Operand) -> Tensor {
        let operands = [self.into_operand(), min.into_operand()];
        formula(CallSite::here("clamp_min"), operands, |[x, min]| x.clamp(Some(&min), None))
    }

    /// Each element, but not above `max`; see [`Tensor::clamp`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2i64, 3]);
    /// assert_eq!(x.clamp_max(0).to_vec::<i64>()?, [-2, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp_max(&self, max: impl Operand) -> Tensor {
        let operands = [self.into_operand(), max.into_operand()];
        formula(CallSite::here("clamp_max"), operands, |[x, max]| x.clamp(None, Some(&max)))
    }

    /// NaN replaced by 0, infinities by the finite extremes of the type. Integers stay as they are.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([f32::NAN, f32::INFINITY, 2.0]);
    /// assert_eq!(x.nan_to_num().to_vec::<f32>()?, [0.0, f32::MAX, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num(&self) -> Tensor {
        nan_to_num(CallSite::here("nan_to_num"), self, NanToNumOpts::default())
    }

    /// NaN and infinities replaced as `opts` say. PyTorch: `torch.nan_to_num`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::opts::NanToNumOpts;
    /// let x = Tensor::from([f32::NAN, 2.0]);
    /// assert_eq!(x.nan_to_num_with(NanToNumOpts::default().nan(7.0)).to_vec::<f32>()?, [7.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nan_to_num_with(&self, opts: NanToNumOpts) -> Tensor {
        nan_to_num(CallSite::here("nan_to_num"), self, opts)
    }
}

fn extreme(site: CallSite, op: AluOp, on_bool: AluOp, a: &Tensor, b: &Tensor) -> Tensor {
    let operands = [a.into_operand(), b.into_operand()];
    let dtype = common_dtype(&operands).unwrap_or(DType::F32);
    let op = if dtype == DType::Bool { on_bool } else { op };
    elementwise_as(site.name, site.span, op, dtype, operands)
}

fn extreme_but_nan(site: CallSite, op: AluOp, on_bool: AluOp, a: &Tensor, b: &Tensor) -> Tensor {
    let operands = [a.into_operand(), b.into_operand()];
    if !common_dtype(&operands).is_some_and(DType::is_float) {
        return extreme(site, op, on_bool, a, b);
    }
    formula(site, operands, |[a, b]| {
        let both = if op == AluOp::Max { a.max(&b) } else { a.min(&b) };
        a.choose(&a.is_nan(), &b, a.choose(&b.is_nan(), &a, both))
    })
}

fn nan_to_num(site: CallSite, x: &Tensor, opts: NanToNumOpts) -> Tensor {
    let (least, greatest) = match x.dtype() {
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => return x.clone(),
        DType::F16 => (-65504.0, 65504.0),
        DType::BF16 => (half::bf16::MIN.to_f64(), half::bf16::MAX.to_f64()),
        DType::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        DType::F64 => (f64::MIN, f64::MAX),
    };
    formula_as(site, x.dtype(), [x.into_operand()], |[x]| {
        let number = x.choose(&x.is_nan(), opts.nan.unwrap_or(0.0), &x);
        let above = x.eq(f64::INFINITY);
        let bounded = x.choose(&above, opts.posinf.unwrap_or(greatest), number);
        let below = x.eq(f64::NEG_INFINITY);
        x.choose(&below, opts.neginf.unwrap_or(least), bounded)
    })
}

impl Term {
    /// Brought between the bounds; `max` wins where they cross. At a number the gradient is the number's,
    /// 0; beside a tensor it is shared with that, as in PyTorch.
    pub(crate) fn clamp(&self, min: Option<&Term>, max: Option<&Term>) -> Term {
        let truth = self.dtype() == DType::Bool;
        let raised = |min: &Term| if truth { self.or(min) } else { self.max(min) };
        let low = min.map_or(self.clone(), raised);
        let lowered = |max: &Term| if truth { low.and(max) } else { low.min(max) };
        let value = max.map_or(low.clone(), lowered);
        let numbers = [min, max].map(|bound| bound.map(|bound| bound.constant()));
        let [None | Some(Some(_)), None | Some(Some(_))] = numbers else { return value };
        if !self.dtype().is_float() {
            return value;
        }
        let [min, max] = numbers.map(Option::flatten);
        value.with_slope(self, move |x, _| {
            let above = min.map(|min| x.gt(x.number(min)));
            let below = max.map(|max| x.lt(x.number(max)));
            let inside = above.into_iter().chain(below).reduce(|a, b| a.and(b));
            inside.map_or(x.number(1), |inside| x.choose(&inside, 1.0, 0.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, f32s, i64s, tensor};

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    #[test]
    fn extremes_treat_nan_as_they_say() {
        let (a, b) = (f32s(&[3], &[1.0, NAN, 3.0]), f32s(&[3], &[2.0, 0.0, NAN]));
        assert_close(&a.maximum(&b), &[3], &[2.0, NAN, NAN]);
        assert_close(&a.minimum(&b), &[3], &[1.0, NAN, NAN]);
        assert_close(&a.fmax(&b), &[3], &[2.0, 0.0, 3.0]);
        assert_close(&a.fmin(&b), &[3], &[1.0, 0.0, 3.0]);
        let truth = tensor(&[2], DType::Bool, &[1.0, 0.0]);
        assert_close(&truth.maximum(&truth.logical_not()), &[2], &[1.0, 1.0]);
    }

    #[test]
    fn bounds_may_be_numbers_or_tensors_and_the_upper_one_wins() {
        let x = f32s(&[4], &[-2.0, 0.5, 3.0, NAN]);
        assert_close(&x.clamp(-1, 1), &[4], &[-1.0, 0.5, 1.0, NAN]);
        assert_close(&x.clamp(2.0, 1.0), &[4], &[1.0, 1.0, 1.0, NAN]);
        let low = f32s(&[4], &[0.0, 1.0, NAN, 0.0]);
        assert_close(&x.clamp_min(&low), &[4], &[0.0, 1.0, NAN, NAN]);
        assert_close(&i64s(&[2], &[-5, 5]).clamp_max(1.5), &[2], &[-5.0, 1.5]);
    }

    #[test]
    fn what_is_not_a_number_becomes_one() {
        let x = f32s(&[3], &[NAN, INF, -INF]);
        assert_close(&x.nan_to_num(), &[3], &[0.0, f64::from(f32::MAX), f64::from(f32::MIN)]);
        let opts = NanToNumOpts::default().nan(1.0).posinf(2.0).neginf(3.0);
        assert_close(&x.nan_to_num_with(opts), &[3], &[1.0, 2.0, 3.0]);
    }
}
