//! Windows: what frames of a signal are multiplied by before they are transformed.

use std::f64::consts::{PI, TAU};

use crate::base::{DType, Error, Shape};
use crate::tensor::compose::CallSite;
use crate::tensor::create::from_data;
use crate::tensor::fft::rows::few_enough;
use crate::tensor::{Place, Tensor};

/// A bell of a number of points, 1 at its middle, computed in `f64` and rounded once.
///
/// [`Window::periodic`] is for frames that overlap, [`Window::symmetric`] for filters.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::fft::Window;
/// assert_eq!(Window::Hann.periodic(4, ()).to_vec::<f32>()?, [0.0, 0.5, 1.0, 0.5]);
/// assert_eq!(Window::Bartlett.symmetric(5, ()).to_vec::<f32>()?, [0.0, 0.5, 1.0, 0.5, 0.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Window {
    /// Ones.
    Rectangular,
    /// A triangle. PyTorch: `torch.bartlett_window`.
    Bartlett,
    /// A raised cosine, 0 at the ends. PyTorch: `torch.hann_window`.
    Hann,
    /// A raised cosine, 0.08 at the ends. PyTorch: `torch.hamming_window`.
    Hamming,
    /// Three terms of cosines. PyTorch: `torch.blackman_window`.
    Blackman,
    /// Four terms of cosines, with the least side lobes. PyTorch: `torch.signal.windows.nuttall`.
    Nuttall,
    /// Half a turn of a sine. PyTorch: `torch.signal.windows.cosine`.
    Cosine,
    /// Bessel's function, which holds most of the energy near 0. PyTorch: `torch.kaiser_window`.
    Kaiser {
        /// The larger, the wider the main lobe and the lower the others; PyTorch's default is 12.
        beta: f64,
    },
    /// A normal density. PyTorch: `torch.signal.windows.gaussian`.
    Gaussian {
        /// The standard deviation, in points.
        std: f64,
    },
}

impl Window {
    /// The first `n` points of the symmetric window of `n + 1`, so that repetitions continue each other.
    ///
    /// `F32` unless the place names a floating-point type. PyTorch: `periodic=True`, `sym=False`.
    ///
    /// # Examples
    /// ```
    /// use kiln::fft::Window;
    /// let w = Window::Hamming.periodic(2, kiln::DType::F64).to_vec::<f64>()?;
    /// assert!((w[0] - 0.08).abs() < 1e-12 && (w[1] - 1.0).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn periodic(self, n: usize, place: impl Into<Place>) -> Tensor {
        self.points(CallSite::here("window"), n, n.saturating_add(1), place.into())
    }

    /// `n` points, the last ones those at the start mirrored. PyTorch: `periodic=False`, `sym=True`.
    ///
    /// # Examples
    /// ```
    /// use kiln::fft::Window;
    /// assert_eq!(Window::Hann.symmetric(3, ()).to_vec::<f32>()?, [0.0, 1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn symmetric(self, n: usize, place: impl Into<Place>) -> Tensor {
        self.points(CallSite::here("window"), n, n, place.into())
    }

    /// The first `n` of a window of `whole` points.
    fn points(self, site: CallSite, n: usize, whole: usize, place: Place) -> Tensor {
        let dtype = place.dtype_or(DType::F32);
        let place = Place { dtype: Some(dtype), ..place };
        site.build(&[], || {
            if !dtype.is_float() {
                return Err(site.error("a floating-point type", dtype.to_string(), &[]));
            }
            self.check(site)?;
            few_enough(site, n)?;
            if place.device().is_meta() {
                return Ok(Tensor::empty([n], place));
            }
            let last = whole.saturating_sub(1).max(1) as f64;
            let value = |k: usize| if n == 1 { 1.0 } else { self.at(k as f64, last) };
            let values: Vec<f64> = (0..n).map(value).collect();
            Ok(from_data(site.name, site.span, &values, Shape::from(n), place))
        })
    }

    fn check(self, site: CallSite) -> Result<(), Error> {
        match self {
            Window::Kaiser { beta } if !beta.is_finite() => {
                Err(site.error("a finite beta", beta.to_string(), &[]))
            }
            Window::Gaussian { std } if !(std > 0.0) => {
                Err(site.error("a positive deviation", std.to_string(), &[]))
            }
            Window::Rectangular
            | Window::Bartlett
            | Window::Hann
            | Window::Hamming
            | Window::Blackman
            | Window::Nuttall
            | Window::Cosine
            | Window::Kaiser { .. }
            | Window::Gaussian { .. } => Ok(()),
        }
    }

    /// The value at point `k` of `0..=last`.
    fn at(self, k: f64, last: f64) -> f64 {
        let cosines = |terms: &[f64]| {
            let term = |(i, a): (usize, &f64)| a * (TAU * i as f64 * k / last).cos();
            terms.iter().enumerate().map(term).sum()
        };
        // From -1 to 1.
        let place = 2.0 * k / last - 1.0;
        match self {
            Window::Rectangular => 1.0,
            Window::Bartlett => 1.0 - place.abs(),
            Window::Hann => cosines(&[0.5, -0.5]),
            Window::Hamming => cosines(&[0.54, -0.46]),
            Window::Blackman => cosines(&[0.42, -0.5, 0.08]),
            Window::Nuttall => cosines(&[0.3635819, -0.4891775, 0.1365995, -0.0106411]),
            Window::Cosine => (PI * (k + 0.5) / (last + 1.0)).sin(),
            Window::Kaiser { beta } => {
                bessel_i0(beta * (1.0 - place * place).max(0.0).sqrt()) / bessel_i0(beta)
            }
            Window::Gaussian { std } => (-0.5 * ((k - 0.5 * last) / std).powi(2)).exp(),
        }
    }
}

/// The modified Bessel function of order 0, by its series, whose terms are all positive.
fn bessel_i0(x: f64) -> f64 {
    let square = 0.25 * x * x;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 0.0);
    while term > sum * f64::EPSILON {
        k += 1.0;
        term *= square / (k * k);
        sum += term;
    }
    sum
}
