//! Fourier transforms of any length, on every device.
//!
//! The names and conventions are those of `torch.fft`: methods of [`Tensor`] and [`Complex`] named `fft`,
//! `rfft` and so on, and their options. Transforms are ordinary operations of the graph: products with small
//! matrices and multiplications by roots of unity, so they fuse with what is around them, and gradients are
//! the transforms the other way.
//!
//! ```
//! use kiln::prelude::*;
//! // A wave that turns once in eight samples is all in the frequency 1 (and -1).
//! let time = Tensor::arange(0, 8, 1, DType::F32) * (std::f64::consts::TAU / 8.0);
//! let power = time.cos().fft(Default::default()).abs().to_vec::<f32>()?;
//! assert!((power[1] - 4.0).abs() < 1e-5 && (power[7] - 4.0).abs() < 1e-5 && power[2] < 1e-5);
//! # Ok::<(), kiln::Error>(())
//! ```

mod axes;
mod factors;
mod frequencies;
mod mel;
mod real;
mod roots;
mod rows;
mod stft;
mod tables;
mod transform;
mod window;

use crate::base::Result;
use crate::tensor::Tensor;
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::fft::rows::Rows;
use crate::tensor::fft::transform::transform;
use crate::tensor::options::options;

pub use axes::FftnOpts;
pub use mel::{MelOpts, MelScale, mel_filters};
pub use stft::StftOpts;
pub use window::Window;

/// From time to frequency or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// With `e^(-2 pi i j k / n)`.
    Forward,
    /// With the conjugate.
    Inverse,
}

impl Direction {
    fn sign(self) -> f64 {
        match self {
            Direction::Forward => -1.0,
            Direction::Inverse => 1.0,
        }
    }

    fn reverse(self) -> Direction {
        match self {
            Direction::Forward => Direction::Inverse,
            Direction::Inverse => Direction::Forward,
        }
    }
}

/// Which transform divides by the number of points, so that forth and back give the same. PyTorch's `norm`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::fft::{FftNorm, FftOpts};
/// let x = Tensor::ones([4], ());
/// let mean = x.fft(FftOpts::default().norm(FftNorm::Forward));
/// assert_eq!(mean.re.to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FftNorm {
    /// The inverse one: `"backward"`.
    #[default]
    Backward,
    /// The forward one: `"forward"`.
    Forward,
    /// Each by the root: `"ortho"`.
    Ortho,
}

impl FftNorm {
    /// What a transform of so many points is multiplied by.
    fn scale(self, direction: Direction, points: usize) -> f64 {
        let points = points as f64;
        match (self, direction) {
            (FftNorm::Ortho, _) => 1.0 / points.sqrt(),
            (FftNorm::Backward, Direction::Inverse) | (FftNorm::Forward, Direction::Forward) => 1.0 / points,
            (FftNorm::Backward, Direction::Forward) | (FftNorm::Forward, Direction::Inverse) => 1.0,
        }
    }
}

options! {
    /// The options of transforms along one axis.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::fft::FftOpts;
    /// let x = Tensor::ones([3, 2], ());
    /// assert_eq!(x.fft(FftOpts::default().n(8).axis(0)).shape()[..], [8, 2]);
    /// ```
    FftOpts {
        /// Points: the axis is cut or continued with zeros (its extent).
        n: Option<usize> = None, usize => Some;
        /// The axis, PyTorch's `dim` (-1).
        axis: i64 = -1;
        /// Which direction divides (`Backward`).
        norm: FftNorm = FftNorm::Backward;
    }
}

impl Tensor {
    /// The discrete Fourier transform along an axis: `X[k] = sum over j of x[j] e^(-2 pi i j k / n)`.
    ///
    /// Any length; of smooth ones by factors, of primes by a chirp. Integers become `F32`. Invalid for no
    /// points. PyTorch: `torch.fft.fft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]).fft(Default::default());
    /// assert_eq!(x.to_vec::<f32>()?, [(10.0, 0.0), (-2.0, 2.0), (-2.0, 0.0), (-2.0, -2.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fft(&self, opts: FftOpts) -> Complex {
        along(CallSite::here("fft"), self, None, &opts, Direction::Forward)
    }

    /// The inverse of [`Tensor::fft`], of real numbers. PyTorch: `torch.fft.ifft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([4.0f32, 0.0, 0.0, 0.0]).ifft(Default::default());
    /// assert_eq!(x.re.to_vec::<f32>()?, [1.0; 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ifft(&self, opts: FftOpts) -> Complex {
        along(CallSite::here("ifft"), self, None, &opts, Direction::Inverse)
    }
}

impl Complex {
    /// As [`Tensor::fft`], of complex numbers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let i = Complex::new(&Tensor::from([0.0f32, 0.0]), &Tensor::from([1.0f32, 1.0]));
    /// assert_eq!(i.fft(Default::default()).to_vec::<f32>()?, [(0.0, 2.0), (0.0, 0.0)]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn fft(&self, opts: FftOpts) -> Complex {
        along(CallSite::here("fft"), &self.re, Some(&self.im), &opts, Direction::Forward)
    }

    /// The inverse of [`Complex::fft`]. PyTorch: `torch.fft.ifft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    /// let back = x.fft(Default::default()).ifft(Default::default());
    /// assert_eq!(back.re.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ifft(&self, opts: FftOpts) -> Complex {
        along(CallSite::here("ifft"), &self.re, Some(&self.im), &opts, Direction::Inverse)
    }
}

/// The transform along one axis of numbers whose imaginary parts may be missing.
fn along(site: CallSite, re: &Tensor, im: Option<&Tensor>, opts: &FftOpts, direction: Direction) -> Complex {
    built(site, re, im, |re, im| {
        let rows = Rows::of(site, re, opts.axis, opts.n)?;
        let scale = opts.norm.scale(direction, rows.n);
        scaled_along(site, &rows, re, im, direction, scale)
    })
}

/// The transform along the axis of `rows`, times `scale`.
fn scaled_along(
    site: CallSite,
    rows: &Rows,
    re: &Tensor,
    im: Option<&Tensor>,
    direction: Direction,
    scale: f64,
) -> Result<Complex> {
    let im = im.map(|im| rows.matrix(site, im));
    let z = transform(site, &rows.matrix(site, re), im.as_ref(), direction)?;
    let [re, im] = z.map(|part| rows::scaled(site, &part, scale));
    Ok(rows.numbers(site, [&re, &im]))
}

/// Complex results of a body, whose operands are valid floats of at least 32 bits and whose results have
/// the operands' type.
fn built(
    site: CallSite,
    re: &Tensor,
    im: Option<&Tensor>,
    body: impl FnOnce(&Tensor, Option<&Tensor>) -> Result<Complex>,
) -> Complex {
    let dtype = re.dtype().to_float();
    let operands: Vec<&Tensor> = std::iter::once(re).chain(im).collect();
    let (re, im) = site.build_pair(&operands, || {
        if let Some(im) = im.filter(|im| im.ty() != re.ty()) {
            let found = format!("{re:?} and {im:?}");
            return Err(site.error("real and imaginary parts of one type and shape", found, &[re, im]));
        }
        let wide = |x: &Tensor| site.cast(x, dtype.compute());
        let z = body(&wide(re), im.map(wide).as_ref())?;
        Ok((site.cast(&z.re, dtype), site.cast(&z.im, dtype)))
    });
    Complex { re, im }
}
