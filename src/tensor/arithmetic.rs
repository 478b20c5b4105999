//! Arithmetic of two and more operands: scaled sums, interpolation, logarithms
//! of sums, common divisors. Extremes are in [`crate::tensor::extreme`].
//!
//! Operands are promoted and broadcast as the operators do it. A method that
//! takes `&Tensor` where others take any operand follows PyTorch, which has
//! no form with a number there.

use crate::base::{DType, Kind, Scalar};
use crate::tensor::compose::CallSite;
use crate::tensor::operand::{OperandValue, common_dtype};
use crate::tensor::operators;
use crate::tensor::term::{Term, float_formula, formula};
use crate::tensor::{Operand, Tensor};

impl Tensor {
    /// `self + alpha * other`; shapes broadcast.
    ///
    /// Invalid where integers meet a floating alpha, or numbers a truth value. PyTorch: `torch.add`
    /// with `alpha`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(x.add_alpha(&Tensor::from([10i64, 20]), 2).to_vec::<i64>()?, [21, 42]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn add_alpha(&self, other: impl Operand, alpha: impl Into<Scalar>) -> Tensor {
        let site = CallSite::here("add");
        match scaled(site, self, other.into_operand(), alpha.into()) {
            Ok(other) => operators::add(site.span, [self.into_operand(), other.into_operand()]),
            Err(invalid) => invalid,
        }
    }

    /// `self - alpha * other`; invalid as [`Tensor::add_alpha`]. PyTorch: `torch.sub` with `alpha`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(x.sub_alpha(&Tensor::from([10i64, 20]), 2).to_vec::<i64>()?, [-19, -38]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sub_alpha(&self, other: impl Operand, alpha: impl Into<Scalar>) -> Tensor {
        let site = CallSite::here("sub");
        match scaled(site, self, other.into_operand(), alpha.into()) {
            Ok(other) => operators::sub(site.span, [self.into_operand(), other.into_operand()]),
            Err(invalid) => invalid,
        }
    }

    /// `other - alpha * self`; invalid as [`Tensor::add_alpha`]. PyTorch: `torch.rsub`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1i64, 2]);
    /// assert_eq!(x.rsub_alpha(10, 3).to_vec::<i64>()?, [7, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rsub_alpha(&self, other: impl Operand, alpha: impl Into<Scalar>) -> Tensor {
        let site = CallSite::here("rsub");
        let other = other.into_operand();
        match scaled(site, self, self.into_operand(), alpha.into()) {
            Ok(this) => operators::sub(site.span, [other, this.into_operand()]),
            Err(invalid) => invalid,
        }
    }

    /// `self + weight * (end - self)`, computed from the nearer end; shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 10.0]);
    /// assert_eq!(x.lerp(&Tensor::from([4.0f32, 20.0]), 0.25).to_vec::<f32>()?, [1.0, 12.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn lerp(&self, end: &Tensor, weight: impl Operand) -> Tensor {
        let operands = [self.into_operand(), end.into_operand(), weight.into_operand()];
        formula(CallSite::here("lerp"), operands, |[a, b, w]| {
            let difference = &b - &a;
            let (from_start, from_end) = (&a + &w * &difference, || &b - &difference * (1.0 - &w));
            match w.constant().map(Scalar::as_f64) {
                Some(w) if w < 0.5 => from_start,
                Some(_) => from_end(),
                None => a.choose(&w.lt(0.5), from_start, from_end()),
            }
        })
    }

    /// `self + value * a * b`; shapes broadcast. Invalid where integers meet a floating value.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.addcmul(&x, &x, 10.0).to_vec::<f32>()?, [11.0, 42.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn addcmul(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let (site, value) = (CallSite::here("addcmul"), value.into());
        let operands = [self, a, b].map(Operand::into_operand);
        if let Some(invalid) = refuse_factor(site, &operands, value) {
            return invalid;
        }
        formula(site, operands, |[x, a, b]| x + (a * b).times(value))
    }

    /// `self + value * a / b`; shapes broadcast.
    ///
    /// Invalid for integers, whose quotients would need a rounding.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.addcdiv(&x, &Tensor::from([2.0f32, 4.0]), 2.0).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn addcdiv(&self, a: &Tensor, b: &Tensor, value: impl Into<Scalar>) -> Tensor {
        let (site, value) = (CallSite::here("addcdiv"), value.into());
        let operands = [self, a, b].map(Operand::into_operand);
        if !common_dtype(&operands).is_some_and(DType::is_float) {
            return site.invalid("a floating operand", "integers only", &[self, a, b]);
        }
        formula(site, operands, |[x, a, b]| x + a.times(value) / b)
    }

    /// The length of the hypotenuse, `sqrt(self^2 + other^2)`, without overflow on the way.
    ///
    /// Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([3.0f32, 5.0]);
    /// assert_eq!(x.hypot(&Tensor::from([4.0f32, 12.0])).to_vec::<f32>()?, [5.0, 13.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hypot(&self, other: &Tensor) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        float_formula(CallSite::here("hypot"), operands, |[a, b]| {
            hypot(&a, &b).with_cotangents([&a, &b], |[a, b], y, g| [g * share(&a, y), g * share(&b, y)])
        })
    }

    /// 0 where the element is negative or NaN, 1 where it is positive, and `values` where it is 0.
    ///
    /// Shapes broadcast. Invalid unless both have one type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-2.0f32, 0.0, 2.0]);
    /// assert_eq!(x.heaviside(&Tensor::from([0.5f32])).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn heaviside(&self, values: &Tensor) -> Tensor {
        let site = CallSite::here("heaviside");
        if self.dtype() != values.dtype() {
            let found = format!("{} and {}", self.dtype(), values.dtype());
            return site.invalid("operands of one type", found, &[self, values]);
        }
        let operands = [self.into_operand(), values.into_operand()];
        formula(site, operands, |[x, at_zero]| {
            let zero = x.number(0);
            let step = x.gt(&zero).cast(x.dtype());
            x.choose(&x.eq(&zero), &at_zero, step).as_steps_of(&[&x, &at_zero])
        })
    }

    /// `log(exp(self) + exp(other))`, without overflow on the way; shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::scalar(1000.0, ());
    /// assert!((x.logaddexp(&x).item::<f32>()? - 1000.6931).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp(&self, other: &Tensor) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        float_formula(CallSite::here("logaddexp"), operands, |[a, b]| {
            a.max(&b) + (-distance(&a, &b)).exp().log1p()
        })
    }

    /// `log2(2^self + 2^other)`, without overflow on the way; shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::scalar(1000.0, ());
    /// assert!((x.logaddexp2(&x).item::<f32>()? - 1001.0).abs() < 1e-4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp2(&self, other: &Tensor) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        float_formula(CallSite::here("logaddexp2"), operands, |[a, b]| {
            a.max(&b) + (-distance(&a, &b)).exp2().log1p() * std::f64::consts::LOG2_E
        })
    }

    /// `self * log(other)`, and 0 where `self` is 0, unless `other` is NaN. Shapes broadcast.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 2.0]);
    /// assert_eq!(x.xlogy(&Tensor::from([0.0f32, 1.0])).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn xlogy(&self, other: impl Operand) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        float_formula(CallSite::here("xlogy"), operands, |[x, y]| {
            let value = &x * finite_factor(&x, &y, 0.0, y.log());
            value.with_cotangents([&x, &y], |[x, y], _, g| {
                [g * slope_of_factor(&x, &y, 0.0, y.log()), g * x / y]
            })
        })
    }

    /// `self * log(1 + other)`, and 0 where `self` is 0, unless `other` is NaN.
    ///
    /// Shapes broadcast. PyTorch: `torch.special.xlog1py`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([0.0f32, 2.0]);
    /// assert_eq!(x.xlog1py(&Tensor::from([-1.0f32, 0.0])).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn xlog1py(&self, other: impl Operand) -> Tensor {
        let operands = [self.into_operand(), other.into_operand()];
        float_formula(CallSite::here("xlog1py"), operands, |[x, y]| {
            let value = &x * finite_factor(&x, &y, -1.0, y.log1p());
            value.with_cotangents([&x, &y], |[x, y], _, g| {
                [g * slope_of_factor(&x, &y, -1.0, y.log1p()), g * x / (y + 1.0)]
            })
        })
    }

    /// The greatest common divisor, never negative; shapes broadcast.
    ///
    /// Invalid unless both are integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([12i64, -8]);
    /// assert_eq!(x.gcd(&Tensor::from([18i64, 12])).to_vec::<i64>()?, [6, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn gcd(&self, other: &Tensor) -> Tensor {
        integer_formula(CallSite::here("gcd"), self, other, |a, b| gcd(&a, &b))
    }

    /// The least common multiple, never negative unless it overflows; 0 with 0.
    ///
    /// Shapes broadcast. Invalid unless both are integers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([4i64, 6]);
    /// assert_eq!(x.lcm(&Tensor::from([6i64, 0])).to_vec::<i64>()?, [12, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn lcm(&self, other: &Tensor) -> Tensor {
        integer_formula(CallSite::here("lcm"), self, other, |a, b| ((&a / gcd(&a, &b)) * b).abs())
    }
}

/// `alpha * other`, after PyTorch's rules for `alpha`.
fn scaled(site: CallSite, x: &Tensor, other: OperandValue, alpha: Scalar) -> Result<Tensor, Tensor> {
    let operands = [x.into_operand(), other.clone()];
    if let Some(invalid) = refuse_factor(site, &operands, alpha) {
        return Err(invalid);
    }
    let other = match other {
        OperandValue::Tensor(tensor) => tensor,
        OperandValue::Scalar(number) => site.scalar(number, number.promote(x.dtype()), x.device()),
    };
    let one = (alpha.as_f64() - 1.0).abs() < f64::EPSILON;
    Ok(if one { other } else { operators::mul(site.span, [other.into_operand(), alpha.into_operand()]) })
}

/// The error, where a factor's category is above the operands'.
fn refuse_factor(site: CallSite, operands: &[OperandValue], factor: Scalar) -> Option<Tensor> {
    let dtype = common_dtype(operands).unwrap_or(DType::F32);
    let fits = match factor.kind() {
        Kind::Bool => dtype == DType::Bool,
        Kind::Int => true,
        Kind::Float => dtype.is_float(),
    };
    let expected = || format!("a factor that {dtype} tensors can be multiplied by");
    (!fits).then(|| site.invalid(expected(), factor.to_string(), &[]))
}

impl Term {
    /// Times a number, unless that is 1.
    fn times(self, factor: Scalar) -> Term {
        if factor.as_f64() == 1.0 {
            return self;
        }
        let factor = self.number(factor);
        self * factor
    }
}

/// Which of two operands is the larger is decided by comparison and not by
/// `max`, whose gradient is shared at ties.
fn hypot(a: &Term, b: &Term) -> Term {
    let (a, b) = (a.abs(), b.abs());
    let swap = a.lt(&b);
    let (small, large) = (a.choose(&swap, &a, &b), a.choose(&swap, &b, &a));
    let ratio = small / a.choose(&large.eq(0.0), 1.0, &large);
    let length = &large * (&ratio * &ratio + 1.0).sqrt();
    // An infinity decides, whatever the other is: even beside NaN.
    let infinite = a.eq(f64::INFINITY).or(b.eq(f64::INFINITY));
    a.choose(&infinite, f64::INFINITY, length)
}

/// What a leg of a right triangle is of its length: the length's slope. Of an infinite length a finite
/// leg is nothing.
fn share(leg: &Term, length: &Term) -> Term {
    leg / length.choose(&length.eq(0.0), 1.0, length)
}

/// `|a - b|`, and 0 where they are equal, infinities too.
fn distance(a: &Term, b: &Term) -> Term {
    a.choose(&a.eq(b), 0.0, (a - b).abs())
}

/// `factor`, or 0 where `x` is 0 and the factor, which is finite for `y`
/// above `pole`, is not; NaN stays.
fn finite_factor(x: &Term, y: &Term, pole: f64, factor: Term) -> Term {
    let infinite = y.le(pole).or(y.eq(f64::INFINITY));
    x.choose(&x.eq(0.0).and(infinite), 0.0, factor)
}

/// The slope of `x * factor` by `x`: 0 where `x` is 0 and `y` not above the pole, as in PyTorch.
fn slope_of_factor(x: &Term, y: &Term, pole: f64, factor: Term) -> Term {
    x.choose(&x.eq(0.0).and(y.le(pole)), 0.0, factor)
}

fn integer_formula(site: CallSite, a: &Tensor, b: &Tensor, body: impl FnOnce(Term, Term) -> Term) -> Tensor {
    if let Some(other) = [a, b].into_iter().find(|t| !t.dtype().is_int()) {
        return site.invalid("integers", other.dtype().name(), &[a, b]);
    }
    formula(site, [a.into_operand(), b.into_operand()], |[a, b]| body(a, b))
}

/// Euclid's algorithm, with as many steps as the type's worst case takes:
/// consecutive Fibonacci numbers, and one more to swap them.
fn gcd(a: &Term, b: &Term) -> Term {
    let steps = match a.dtype() {
        DType::Bool | DType::U8 => 13,
        DType::I32 => 46,
        DType::U32 => 47,
        DType::I64 | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => 92,
    };
    let (mut a, mut b) = (a.abs(), b.abs());
    let zero = a.number(0);
    for _ in 0..steps {
        // A remainder by 0 is 0, so the pair (a, 0) repeats itself.
        (a, b) = (a.choose(&b.eq(&zero), &a, &b), a.rem(&b));
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s};

    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;

    #[test]
    fn alpha_scales_the_second_operand_within_its_category() {
        let (a, b) = (i64s(&[2], &[1, 2]), i64s(&[2], &[10, 20]));
        assert_close(&a.add_alpha(&b, 2), &[2], &[21.0, 42.0]);
        assert_close(&a.sub_alpha(&b, 2), &[2], &[-19.0, -38.0]);
        assert_close(&a.rsub_alpha(&b, 2), &[2], &[8.0, 16.0]);
        assert!(error_text(&a.add_alpha(&b, 0.5)).contains("i64"));
        assert!(error_text(&a.add_alpha(&b, true)).contains("i64"));
    }

    #[test]
    fn interpolation_reaches_both_ends() {
        let (a, b) = (f32s(&[2], &[1.0, 1e8]), f32s(&[2], &[3.0, 1.0]));
        assert_close(&a.lerp(&b, 0.25), &[2], &[1.5, 75_000_000.25]);
        assert_close(&a.lerp(&b, f32s(&[2], &[0.0, 1.0])), &[2], &[1.0, 1.0]);
        assert_close(&a.addcmul(&b, &b, 2.0), &[2], &[19.0, 1e8]);
        assert!(
            error_text(&i64s(&[1], &[1]).addcdiv(&i64s(&[1], &[1]), &i64s(&[1], &[1]), 1))
                .contains("floating")
        );
    }

    #[test]
    fn lengths_and_logarithms_do_not_overflow_on_the_way() {
        let (a, b) = (f32s(&[5], &[3.0, 3e30, INF, 0.0, NAN]), f32s(&[5], &[4.0, 4e30, NAN, 0.0, 1.0]));
        let scaled = a.hypot(&b) / f32s(&[5], &[1.0, 5e30, 1.0, 1.0, 1.0]);
        assert_close(&scaled, &[5], &[5.0, 1.0, INF, 0.0, NAN]);
        let (a, b) = (f32s(&[4], &[1000.0, INF, -INF, -INF]), f32s(&[4], &[1000.0, -INF, -INF, 1.0]));
        assert_close(&a.logaddexp(&b), &[4], &[1000.0 + 2f64.ln(), INF, -INF, 1.0]);
        assert_close(&a.logaddexp2(&b), &[4], &[1001.0, INF, -INF, 1.0]);
    }

    #[test]
    fn nothing_times_an_infinite_logarithm_is_nothing() {
        let (x, y) = (f32s(&[5], &[0.0, 0.0, 0.0, 0.0, 2.0]), f32s(&[5], &[0.0, -1.0, INF, NAN, 1.0]));
        assert_close(&x.xlogy(&y), &[5], &[0.0, 0.0, 0.0, NAN, 0.0]);
        assert_close(&x.xlog1py(&(&y - 1.0)), &[5], &[0.0, 0.0, 0.0, NAN, 0.0]);
    }

    #[test]
    fn divisors_of_the_worst_and_the_least_case() {
        // Consecutive Fibonacci numbers take the most steps.
        let fibonacci = [(233, 144, DType::U8), (1_836_311_903, 1_134_903_170, DType::I32)];
        for (a, b, dtype) in fibonacci {
            let [a, b] = [a, b].map(|n| Tensor::full([1], n, dtype));
            assert_close(&a.gcd(&b), &[1], &[1.0]);
            assert_close(&b.gcd(&a), &[1], &[1.0]);
        }
        let (a, b) = (i64s(&[3], &[-12, 0, 0]), i64s(&[3], &[18, 5, 0]));
        assert_close(&a.gcd(&b), &[3], &[6.0, 5.0, 0.0]);
        assert_close(&a.lcm(&b), &[3], &[36.0, 0.0, 0.0]);
        let [f92, f91] =
            [7_540_113_804_746_346_429i64, 4_660_046_610_375_530_309].map(|n| Tensor::full([1], n, ()));
        assert_close(&f91.gcd(&f92), &[1], &[1.0]);
        assert!(error_text(&f91.gcd(&f32s(&[1], &[1.0]))).contains("integers"));
    }
}
