//! The frequencies that the places of a spectrum stand for, and spectra with frequency 0 in the middle.

use crate::base::{DType, Result};
use crate::tensor::axis::IntoAxes;
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::{Place, Tensor};

impl Tensor {
    /// The frequency of each place of a transform of `n` points that are `d` apart, negative ones last.
    ///
    /// Cycles per unit of `d`. Invalid for no points. PyTorch: `torch.fft.fftfreq`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::fftfreq(4, 0.5, ()).to_vec::<f32>()?, [0.0, 0.5, -1.0, -0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fftfreq(n: usize, d: f64, place: impl Into<Place>) -> Tensor {
        let site = CallSite::here("fftfreq");
        let place = place.into();
        site.build(&[], || {
            let number = numbers(site, n, n, place)?;
            let half = n.div_ceil(2) as f64;
            let beyond = site.lt(&number, half);
            let dtype = number.dtype();
            let turned = site.select(&beyond, &number, site.sub(&number, n as f64), dtype);
            Ok(site.mul(turned, 1.0 / (n as f64 * d)))
        })
    }

    /// The frequency of each place of half a spectrum: `n / 2 + 1` of them, from 0 on.
    ///
    /// PyTorch: `torch.fft.rfftfreq`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::rfftfreq(4, 0.5, ()).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rfftfreq(n: usize, d: f64, place: impl Into<Place>) -> Tensor {
        let site = CallSite::here("rfftfreq");
        let place = place.into();
        site.build(&[], || {
            let number = numbers(site, n, n / 2 + 1, place)?;
            Ok(site.mul(number, 1.0 / (n as f64 * d)))
        })
    }
}

impl Complex {
    /// As [`Tensor::fftshift`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32, 2.0, 3.0]));
    /// assert_eq!(z.fftshift(0).re.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fftshift(&self, axes: impl IntoAxes + Clone) -> Complex {
        Complex { re: self.re.fftshift(axes.clone()), im: self.im.fftshift(axes) }
    }

    /// As [`Tensor::ifftshift`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let z = Complex::from_real(&Tensor::from([1.0f32, 2.0, 3.0]));
    /// assert_eq!(z.ifftshift(0).re.to_vec::<f32>()?, [2.0, 3.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ifftshift(&self, axes: impl IntoAxes + Clone) -> Complex {
        Complex { re: self.re.ifftshift(axes.clone()), im: self.im.ifftshift(axes) }
    }
}

/// The places of `count` of a transform of `n` points, as floats.
fn numbers(site: CallSite, n: usize, count: usize, place: Place) -> Result<Tensor> {
    if n == 0 {
        return Err(site.error("at least one point", "0 points", &[]));
    }
    let dtype = place.dtype_or(DType::F32);
    if !dtype.is_float() {
        return Err(site.error("a floating-point type", dtype.to_string(), &[]));
    }
    Ok(site.iota(count, dtype, place.device()))
}
