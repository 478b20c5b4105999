//! Transforms of real numbers, whose spectrum is conjugate to itself mirrored, so that half of it is enough.
//!
//! An even number of points is packed into half as many complex ones, the even places real and the odd ones
//! imaginary, and their spectrum taken apart (Press et al., "Numerical Recipes", 12.3).

use crate::base::Result;
use crate::ir::{AluOp, PadAxis};
use crate::tensor::Tensor;
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::fft::factors::is_direct;
use crate::tensor::fft::rows::{Rows, scaled};
use crate::tensor::fft::tables::Tables;
use crate::tensor::fft::transform::transform;
use crate::tensor::fft::{Direction, FftOpts, built};
use crate::tensor::join::cat_along;

impl Tensor {
    /// The first half of the transform of real numbers: `[.., n]` gives `[.., n / 2 + 1]`.
    ///
    /// Half the work of [`Tensor::fft`] for even lengths. PyTorch: `torch.fft.rfft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]).rfft(Default::default());
    /// assert_eq!(x.to_vec::<f32>()?, [(10.0, 0.0), (-2.0, 2.0), (-2.0, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rfft(&self, opts: FftOpts) -> Complex {
        half(CallSite::here("rfft"), self, &opts, Direction::Forward)
    }

    /// The inverse of [`Complex::hfft`]: the first half of the inverse transform of real numbers.
    ///
    /// PyTorch: `torch.fft.ihfft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([4.0f32, 0.0, 0.0, 0.0]).ihfft(Default::default());
    /// assert_eq!(x.re.to_vec::<f32>()?, [1.0; 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ihfft(&self, opts: FftOpts) -> Complex {
        half(CallSite::here("ihfft"), self, &opts, Direction::Inverse)
    }

    /// As [`Complex::irfft`], of a spectrum that is real.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([4.0f32, 0.0, 0.0]).irfft(Default::default());
    /// assert_eq!(x.to_vec::<f32>()?, [1.0; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn irfft(&self, opts: FftOpts) -> Tensor {
        whole(CallSite::here("irfft"), self, None, &opts, Direction::Inverse)
    }

    /// As [`Complex::hfft`], of real numbers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 1.0, 1.0]).hfft(Default::default());
    /// assert_eq!(x.to_vec::<f32>()?, [4.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hfft(&self, opts: FftOpts) -> Tensor {
        whole(CallSite::here("hfft"), self, None, &opts, Direction::Forward)
    }
}

impl Complex {
    /// The inverse of [`Tensor::rfft`]: the real numbers of which this is the first half of the spectrum.
    ///
    /// `[.., m]` gives `[.., n]`; without [`FftOpts::n`], `2 (m - 1)` points, so an odd number of points has to
    /// be told. The imaginary part at frequency 0, and at the middle of an even number, does not count.
    /// PyTorch: `torch.fft.irfft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::fft::FftOpts;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    /// let back = x.rfft(Default::default()).irfft(FftOpts::default().n(4));
    /// assert_eq!(back.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn irfft(&self, opts: FftOpts) -> Tensor {
        whole(CallSite::here("irfft"), &self.re, Some(&self.im), &opts, Direction::Inverse)
    }

    /// The spectrum, which is real, of numbers of which this is the first half, the other conjugate to it.
    ///
    /// Extents as those of [`Complex::irfft`]. PyTorch: `torch.fft.hfft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Complex::new(&Tensor::from([0.0f32, 0.0]), &Tensor::from([0.0f32, 1.0]));
    /// assert_eq!(x.hfft(kiln::fft::FftOpts::default().n(3)).sum(0).item::<f32>()?, 0.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hfft(&self, opts: FftOpts) -> Tensor {
        whole(CallSite::here("hfft"), &self.re, Some(&self.im), &opts, Direction::Forward)
    }
}

/// The first half of the transform of real numbers along an axis.
fn half(site: CallSite, x: &Tensor, opts: &FftOpts, direction: Direction) -> Complex {
    built(site, x, None, |x, _| half_along(site, x, opts, direction))
}

/// [`half`] of a valid operand of a type that is computed with.
pub(super) fn half_along(
    site: CallSite,
    x: &Tensor,
    opts: &FftOpts,
    direction: Direction,
) -> Result<Complex> {
    let rows = Rows::of(site, x, opts.axis, opts.n)?;
    let scale = opts.norm.scale(direction, rows.n);
    let [re, im] = half_spectrum(site, &rows.matrix(site, x))?.map(|part| scaled(site, &part, scale));
    let z = rows.with_points(rows.n / 2 + 1).numbers(site, [&re, &im]);
    Ok(match direction {
        Direction::Forward => z,
        Direction::Inverse => Complex { im: site.unary(AluOp::Neg, &z.im), re: z.re },
    })
}

/// `[batch, n]` real numbers to the first half of their spectrum, `[batch, n / 2 + 1]` each part.
fn half_spectrum(site: CallSite, x: &Tensor) -> Result<[Tensor; 2]> {
    let [batch, n] = x.dims()?;
    let middle = n / 2;
    if n % 2 == 1 || is_direct(n) {
        let spectrum = transform(site, x, None, Direction::Forward)?;
        return Ok(spectrum.map(|part| site.slice(&part, 1, 0, middle + 1, 1)));
    }
    let pairs = site.reshape(x, &[batch, middle, 2]);
    let [even, odd] = [0, 1].map(|place| site.select_index(&pairs, 2, place));
    let z = transform(site, &even, Some(&odd), Direction::Forward)?;
    let around = |part: &Tensor| -> Result<Tensor> {
        let whole = cat_along(site, &[part, &site.slice(part, 1, 0, 1, 1)], 1)?;
        Ok(scaled(site, &whole, 0.5))
    };
    let (a, b) = (around(&z[0])?, around(&z[1])?);
    let [c, d] = [&a, &b].map(|part| site.flip(part, &[1]));
    let [w_re, w_im] = Tables { site, like: x }.half_turn(n)?;
    let (even_re, even_im) = (site.add(&a, &c), site.sub(&b, &d));
    let (odd_re, odd_im) = (site.add(&b, &d), site.sub(&c, &a));
    let turned_re = site.sub(site.mul(&odd_re, &w_re), site.mul(&odd_im, &w_im));
    let turned_im = site.add(site.mul(&odd_im, &w_re), site.mul(&odd_re, &w_im));
    Ok([site.add(even_re, turned_re), site.add(even_im, turned_im)])
}

/// Real numbers of which the first half of the spectrum is given, or the real spectrum of half the numbers.
fn whole(site: CallSite, re: &Tensor, im: Option<&Tensor>, opts: &FftOpts, direction: Direction) -> Tensor {
    let real = built(site, re, im, |re, im| {
        let re = whole_along(site, re, im, opts, direction)?;
        Ok(Complex { im: re.clone(), re })
    });
    real.re
}

/// [`whole`] of valid operands of a type that is computed with.
pub(super) fn whole_along(
    site: CallSite,
    re: &Tensor,
    im: Option<&Tensor>,
    opts: &FftOpts,
    direction: Direction,
) -> Result<Tensor> {
    let axis = site.axis_number(re, opts.axis)?;
    let n = opts.n.unwrap_or(2 * re.shape()[axis].saturating_sub(1));
    let rows = Rows::of(site, re, opts.axis, Some(n))?;
    let half = rows.with_points(n / 2 + 1);
    let im = match (im, direction) {
        (None, _) => site.zeros_like(re),
        (Some(im), Direction::Inverse) => im.clone(),
        // The spectrum of the conjugate numbers is their inverse transform.
        (Some(im), Direction::Forward) => site.unary(AluOp::Neg, im),
    };
    let x = from_half_spectrum(site, &half.matrix(site, re), &half.matrix(site, &im), n)?;
    Ok(rows.tensor(site, &scaled(site, &x, opts.norm.scale(direction, n))))
}

/// `[batch, n / 2 + 1]` real and imaginary parts to `[batch, n]`, not scaled.
fn from_half_spectrum(site: CallSite, re: &Tensor, im: &Tensor, n: usize) -> Result<Tensor> {
    let im = without_ends(site, im, n);
    let [batch, points] = re.dims()?;
    let middle = points - 1;
    let mirrored = |x: &Tensor| site.flip(x, &[1]);
    if n % 2 == 1 || is_direct(n) {
        // Frequencies beyond the middle are those before it, conjugate.
        let rest = |x: &Tensor| mirrored(&site.slice(x, 1, 1, n - middle, 1));
        let re = cat_along(site, &[re, &rest(re)], 1)?;
        let im = cat_along(site, &[&im, &site.unary(AluOp::Neg, &rest(&im))], 1)?;
        let [re, _] = transform(site, &re, Some(&im), Direction::Inverse)?;
        return Ok(re);
    }
    let first = |x: &Tensor| site.slice(x, 1, 0, middle, 1);
    let (a, b) = (first(re), first(&im));
    let (c, d) = (first(&mirrored(re)), first(&mirrored(&im)));
    let w = Tables { site, like: re }.half_turn(n)?;
    let [w_re, w_im] = w.map(|part| site.slice(&part, 1, 0, middle, 1));
    // The odd places are turned back: times e^(2 pi i k / n), the conjugate.
    let (odd_re, odd_im) = (site.sub(&a, &c), site.add(&b, &d));
    let turned_re = site.add(site.mul(&odd_re, &w_re), site.mul(&odd_im, &w_im));
    let turned_im = site.sub(site.mul(&odd_im, &w_re), site.mul(&odd_re, &w_im));
    let z_re = site.sub(site.add(a, c), turned_im);
    let z_im = site.add(site.sub(b, d), turned_re);
    let z = transform(site, &z_re, Some(&z_im), Direction::Inverse)?;
    let pairs = z.map(|part| site.unsqueeze(&part, 2));
    Ok(site.reshape(&cat_along(site, &[&pairs[0], &pairs[1]], 2)?, &[batch, n]))
}

/// Imaginary parts of half a spectrum, 0 where that of real numbers has none.
fn without_ends(site: CallSite, im: &Tensor, n: usize) -> Tensor {
    let points = im.shape()[1];
    let last = if n.is_multiple_of(2) { points - 1 } else { points };
    let inner = site.slice(im, 1, 1.min(last), last, 1);
    let mut pads = vec![PadAxis::default(); 2];
    pads[1] = PadAxis { lo: 1.min(last) as i64, hi: (points - last) as i64, interior: 0 };
    site.pad(&inner, pads, 0.0)
}
