//! Complex numbers as pairs of real tensors.

mod operators;
mod shape;

use crate::base::{Element, OpError, Result, Span};
use crate::ir::AluOp;
use crate::tensor::compose::CallSite;
use crate::tensor::operand::OperandValue;
use crate::tensor::read::realize;
use crate::tensor::{Tensor, matmul};

pub use operators::ComplexOperand;

/// A tensor of complex numbers: the real and the imaginary parts, of one shape, type and device.
///
/// Both parts are tensors like any other, so every device computes with them and gradients reach them. An
/// error in one makes both invalid. PyTorch: a tensor of `torch.complex64` or `complex128`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let z = Complex::new(&Tensor::from([3.0f32, 0.0]), &Tensor::from([4.0f32, 1.0]));
/// assert_eq!(z.abs().to_vec::<f32>()?, [5.0, 1.0]);
/// assert_eq!((&z * &z).to_vec::<f32>()?, [(-7.0, 24.0), (-1.0, 0.0)]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Complex {
    /// The real parts.
    pub re: Tensor,
    /// The imaginary parts.
    pub im: Tensor,
}

/// Making complex numbers, and taking them apart.
impl Complex {
    /// Real and imaginary parts, broadcast to one shape and brought to one floating-point type.
    ///
    /// Invalid where shapes do not broadcast or devices differ. PyTorch: `torch.complex`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([1.0f32, 2.0]), &Tensor::from([0.5f32]));
    /// assert_eq!(z.to_vec::<f32>()?, [(1.0, 0.5), (2.0, 0.5)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn new(re: &Tensor, im: &Tensor) -> Complex {
        Complex::of(CallSite::here("complex"), re.clone(), im.clone())
    }

    /// Numbers on the real axis: imaginary parts of 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Complex::from_real(&Tensor::from([2.0f32])).to_vec::<f32>()?, [(2.0, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn from_real(re: &Tensor) -> Complex {
        let site = CallSite::here("complex");
        let zero = site.constant_like(0.0, re);
        Complex::of(site, re.clone(), zero)
    }

    /// `abs (cos(angle) + i sin(angle))`, angles in radians. PyTorch: `torch.polar`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::polar(&Tensor::from([2.0f32]), &Tensor::from([std::f32::consts::PI]));
    /// assert_eq!(z.re.to_vec::<f32>()?, [-2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn polar(abs: &Tensor, angle: &Tensor) -> Complex {
        let site = CallSite::here("polar");
        let z = Complex::of(site, abs.clone(), angle.clone());
        let part = |op| site.mul(&z.re, site.unary(op, &z.im));
        Complex { re: part(AluOp::Cos), im: part(AluOp::Sin) }
    }

    /// Pairs along the last axis, of extent 2, as complex numbers: `[.., 2]` gives `[..]`.
    ///
    /// PyTorch: `torch.view_as_complex`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_pairs(&Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
    /// assert_eq!(z.to_vec::<f32>()?, [(1.0, 2.0), (3.0, 4.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn from_pairs(pairs: &Tensor) -> Complex {
        let site = CallSite::here("from_pairs");
        let (re, im) = site.build_pair(&[pairs], || match pairs.rank().checked_sub(1) {
            Some(last) if pairs.shape()[last] == 2 => {
                Ok((site.select_index(pairs, last, 0), site.select_index(pairs, last, 1)))
            }
            Some(_) | None => Err(site.error("a last axis of 2", pairs.shape().to_string(), &[pairs])),
        });
        Complex::of(site, re, im)
    }

    /// Real and imaginary parts along a new last axis of 2. PyTorch: `torch.view_as_real`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32, 2.0]));
    /// assert_eq!(z.to_pairs().to_vec::<f32>()?, [1.0, 0.0, 2.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_pairs(&self) -> Tensor {
        Tensor::stack(&[&self.re, &self.im], -1)
    }

    /// The numbers in row-major order as (real, imaginary), computed together if need be.
    ///
    /// # Errors
    /// Those of [`Tensor::to_vec`], and parts of different shapes.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Complex::from_real(&Tensor::from([1.5f64])).to_vec::<f64>()?, [(1.5, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<(T, T)>> {
        let span = Span::caller();
        realize(&[&self.re, &self.im])?;
        let (re, im) = (self.re.to_vec::<T>()?, self.im.to_vec::<T>()?);
        if re.len() != im.len() {
            let found = format!("{} and {}", self.re.shape(), self.im.shape());
            return Err(OpError::new("to_vec", span, "parts of one shape", found).into());
        }
        Ok(re.into_iter().zip(im).collect())
    }
}

/// Functions of complex numbers.
impl Complex {
    /// The distance from 0: `sqrt(re^2 + im^2)`, without overflow on the way; its slope at 0 is 0.
    ///
    /// PyTorch: `torch.abs`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([3.0f32]), &Tensor::from([-4.0f32]));
    /// assert_eq!(z.abs().to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn abs(&self) -> Tensor {
        self.re.hypot(&self.im)
    }

    /// The square of the distance from 0, `re^2 + im^2`: the power of a spectrum.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([3.0f32]), &Tensor::from([-4.0f32]));
    /// assert_eq!(z.abs_squared().to_vec::<f32>()?, [25.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn abs_squared(&self) -> Tensor {
        let site = CallSite::here("abs_squared");
        site.add(site.square(&self.re), site.square(&self.im))
    }

    /// The angle with the positive real axis, in `-pi..=pi`. PyTorch: `torch.angle`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([0.0f32]), &Tensor::from([2.0f32]));
    /// assert_eq!(z.angle().to_vec::<f32>()?, [std::f32::consts::FRAC_PI_2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn angle(&self) -> Tensor {
        self.im.atan2(&self.re)
    }

    /// The conjugate: the imaginary parts negated. PyTorch: `torch.conj`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([1.0f32]), &Tensor::from([2.0f32]));
    /// assert_eq!(z.conj().to_vec::<f32>()?, [(1.0, -2.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn conj(&self) -> Complex {
        let site = CallSite::here("conj");
        Complex { re: self.re.clone(), im: site.unary(AluOp::Neg, &self.im) }
    }

    /// `e` to the power of each number. PyTorch: `torch.exp`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::new(&Tensor::from([0.0f32]), &Tensor::from([std::f32::consts::PI]));
    /// assert_eq!(z.exp().re.to_vec::<f32>()?, [-1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn exp(&self) -> Complex {
        let site = CallSite::here("exp");
        let scale = site.unary(AluOp::Exp, &self.re);
        let part = |op| site.mul(&scale, site.unary(op, &self.im));
        Complex { re: part(AluOp::Cos), im: part(AluOp::Sin) }
    }

    /// The product of matrices, with [`Tensor::matmul`]'s shapes.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let i = Complex::new(&Tensor::zeros([2, 2], ()), &Tensor::eye(2, 2, ()));
    /// assert_eq!(i.matmul(&i).re.to_vec::<f32>()?, [-1.0, 0.0, 0.0, -1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: &Complex) -> Complex {
        let site = CallSite::here("matmul");
        let product = |a: &Tensor, b: &Tensor| site.build(&[a, b], || Ok(matmul::matmul(site, a, b)));
        let re = site.sub(product(&self.re, &other.re), product(&self.im, &other.im));
        Complex { re, im: site.add(product(&self.re, &other.im), product(&self.im, &other.re)) }
    }
}

impl Complex {
    /// Two parts made alike: of one floating-point type and one shape. An invalid part makes both so.
    pub(crate) fn of(site: CallSite, re: Tensor, im: Tensor) -> Complex {
        let values = [&re, &im].map(|part| OperandValue::Tensor(part.clone()));
        let dtype = crate::tensor::operand::common_dtype(&values).map(|dtype| dtype.to_float());
        let (re, im) = site.build_pair(&[&re, &im], || {
            let dtype = dtype.unwrap_or(re.dtype());
            let parts = site.unify(&[&site.cast(&re, dtype), &site.cast(&im, dtype)])?;
            Ok((parts[0].clone(), parts[1].clone()))
        });
        Complex { re, im }
    }

    /// The same operation on both parts.
    pub(crate) fn map(&self, mut operation: impl FnMut(&Tensor) -> Tensor) -> Complex {
        Complex { re: operation(&self.re), im: operation(&self.im) }
    }
}
