//! Transforms of short frames of a signal, and the signal from them.

use crate::base::Result;
use crate::ir::PadAxis;
use crate::ir::op::WindowAxis;
use crate::tensor::Tensor;
use crate::tensor::complex::Complex;
use crate::tensor::compose::CallSite;
use crate::tensor::fft::real::{half_along, whole_along};
use crate::tensor::fft::rows::Rows;
use crate::tensor::fft::{Direction, FftNorm, FftOpts, built, scaled_along};
use crate::tensor::options::{options, some};
use crate::tensor::pad::{PadMode, padded};

options! {
    /// The options of [`Tensor::stft`] and [`Complex::istft`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::fft::{StftOpts, Window};
    /// let opts = StftOpts::default().window(&Window::Hann.periodic(400, ())).hop(160);
    /// assert_eq!(Tensor::zeros([16_000], ()).stft(400, opts).shape()[..], [201, 101]);
    /// ```
    StftOpts {
        /// Samples from a frame to the next, PyTorch's `hop_length` (a quarter of the frame).
        hop: Option<usize> = None, usize => Some;
        /// `[at most n_fft]`, in the middle of the frame (ones). PyTorch's `win_length` is its extent.
        window: Option<Tensor> = None, &Tensor => some;
        /// Whether frame `t` is centred on sample `t * hop`, the signal continued on both sides (yes).
        center: bool = true;
        /// How the signal is continued (`Reflect`).
        pad_mode: PadMode = PadMode::Reflect;
        /// Whether frames are divided by the root of their length (no).
        normalized: bool = false;
        /// Whether the half of the spectrum that is conjugate to the other is left out (yes).
        onesided: bool = true;
        /// Samples of the signal that [`Complex::istft`] gives (all that frames reach).
        length: Option<usize> = None, usize => Some;
    }
}

impl Tensor {
    /// The short-time Fourier transform: `[.., time]` gives `[.., n_fft / 2 + 1, frames]`.
    ///
    /// Frames of `n_fft` samples, a hop apart, times a window, are transformed. Invalid where no frame fits
    /// or the window is longer. PyTorch: `torch.stft(.., return_complex=True)`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::fft::StftOpts;
    /// let x = Tensor::ones([16], ());
    /// let z = x.stft(8, StftOpts::default().hop(4));
    /// assert_eq!(z.shape()[..], [5, 5]);
    /// assert_eq!(z.re.select_index(0, 0).to_vec::<f32>()?, [8.0; 5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn stft(&self, n_fft: usize, opts: StftOpts) -> Complex {
        let site = CallSite::here("stft");
        built(site, self, None, |x, _| Frames::of(site, x, n_fft, &opts)?.spectra(x))
    }
}

impl Complex {
    /// The inverse of [`Tensor::stft`] with the same options: `[.., bins, frames]` gives `[.., time]`.
    ///
    /// The frames times the window are added where they overlap, over the sum of the windows' squares, which
    /// is the signal nearest to the frames (Griffin and Lim, "Signal estimation from modified short-time
    /// Fourier transform", 1984). A sample that no window reaches is 0, where PyTorch refuses. PyTorch:
    /// `torch.istft`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::fft::{StftOpts, Window};
    /// let x = Tensor::linspace(-1.0, 1.0, 64, ());
    /// let opts = StftOpts::default().window(&Window::Hann.periodic(16, ())).length(64);
    /// let back = x.stft(16, opts.clone()).istft(16, opts);
    /// assert!((back - x).abs().max(..).item::<f32>()? < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn istft(&self, n_fft: usize, opts: StftOpts) -> Tensor {
        let site = CallSite::here("istft");
        let signal = built(site, &self.re, Some(&self.im), |re, im| {
            let z = Complex { re: re.clone(), im: im.cloned().unwrap_or_else(|| site.zeros_like(re)) };
            let re = Frames::of(site, re, n_fft, &opts)?.signal(&z)?;
            Ok(Complex { im: re.clone(), re })
        });
        signal.re
    }
}

/// Frames of a signal.
struct Frames<'a> {
    site: CallSite,
    n_fft: usize,
    hop: usize,
    /// `[n_fft]`, of the signal's type.
    window: Option<Tensor>,
    opts: &'a StftOpts,
}

impl<'a> Frames<'a> {
    /// Frames of this length, and a window of the type of `like`.
    ///
    /// # Errors
    /// Lengths of 0, a window that is longer or has other than one axis.
    fn of(site: CallSite, like: &Tensor, n_fft: usize, opts: &'a StftOpts) -> Result<Frames<'a>> {
        let hop = opts.hop.unwrap_or(n_fft / 4);
        if n_fft == 0 || hop == 0 {
            let found = format!("frames of {n_fft}, {hop} apart");
            return Err(site.error("frames of at least one sample, at least one apart", found, &[like]));
        }
        let window =
            opts.window.as_ref().map(|window| whole_window(site, window, like, n_fft)).transpose()?;
        Ok(Frames { site, n_fft, hop, window, opts })
    }

    /// Frames along an axis.
    fn along(&self, axis: usize) -> WindowAxis {
        WindowAxis { axis: axis as u8, size: self.n_fft, stride: self.hop, dilation: 1 }
    }

    /// Samples that frames begin before the signal, and end after it.
    fn margin(&self) -> usize {
        if self.opts.center { self.n_fft / 2 } else { 0 }
    }

    fn points(&self) -> FftOpts {
        let norm = if self.opts.normalized { FftNorm::Ortho } else { FftNorm::Backward };
        FftOpts { n: Some(self.n_fft), axis: -1, norm }
    }

    /// The spectra of a signal's frames.
    fn spectra(&self, x: &Tensor) -> Result<Complex> {
        let (site, margin) = (self.site, self.margin() as i64);
        let Some(last) = x.rank().checked_sub(1) else {
            return Err(site.error("a signal along the last axis", "a single number", &[x]));
        };
        let mut pads = vec![(0, 0); x.rank()];
        pads[last] = (margin, margin);
        let x = padded(site, x, &pads, self.opts.pad_mode)?;
        x.check()?;
        if x.shape()[last] < self.n_fft {
            let found = format!("{} samples", x.shape()[last]);
            return Err(site.error(format!("at least one frame of {}", self.n_fft), found, &[&x]));
        }
        let frames = self.windowed(&site.window(&x, self.along(last)));
        let points = self.points();
        let z = if self.opts.onesided {
            half_along(site, &frames, &points, Direction::Forward)?
        } else {
            let rows = Rows::of(site, &frames, -1, points.n)?;
            let scale = points.norm.scale(Direction::Forward, self.n_fft);
            scaled_along(site, &rows, &frames, None, Direction::Forward, scale)?
        };
        Ok(z.map(|part| site.transpose(part, last, last + 1)))
    }

    /// The signal of which these are the spectra.
    fn signal(&self, z: &Complex) -> Result<Tensor> {
        let (site, points) = (self.site, self.points());
        let bins = if self.opts.onesided { self.n_fft / 2 + 1 } else { self.n_fft };
        let shape = z.re.shape();
        let Some(axis) =
            shape.rank().checked_sub(2).filter(|&axis| shape[axis] == bins && shape[axis + 1] > 0)
        else {
            return Err(site.error(format!("[.., {bins}, frames]"), shape.to_string(), &[&z.re]));
        };
        let z = z.map(|part| site.transpose(part, axis, axis + 1));
        let frames = if self.opts.onesided {
            whole_along(site, &z.re, Some(&z.im), &points, Direction::Inverse)?
        } else {
            let rows = Rows::of(site, &z.re, -1, points.n)?;
            let scale = points.norm.scale(Direction::Inverse, self.n_fft);
            scaled_along(site, &rows, &z.re, Some(&z.im), Direction::Inverse, scale)?.re
        };
        let extent = self.hop.saturating_mul(shape[axis + 1] - 1).saturating_add(self.n_fft);
        let sum = site.unwindow(&self.windowed(&frames), self.along(axis), extent);
        let ones = site.expand(&site.scalar(1.0, frames.dtype(), frames.device()), &frames.shape()[axis..]);
        let squares = self.windowed(&self.windowed(&ones));
        let overlap = site.unwindow(&squares, self.along(0), extent);
        let reached = site.lt(LEAST_OVERLAP, &overlap);
        let overlap = site.select(&reached, &overlap, 1.0, overlap.dtype());
        let reached = site.expand(&reached, &sum.shape());
        let signal = site.select(&reached, site.div(&sum, overlap), 0.0, sum.dtype());
        Ok(self.cut(&signal, axis))
    }

    /// Without the margins, or as many samples as are asked for.
    fn cut(&self, signal: &Tensor, axis: usize) -> Tensor {
        let (site, margin, extent) = (self.site, self.margin(), signal.shape()[axis]);
        let end = match self.opts.length {
            Some(length) => margin.saturating_add(length),
            None => extent.saturating_sub(margin).max(margin),
        };
        let there = site.slice(signal, axis, margin.min(extent), end.min(extent), 1);
        let mut pads = vec![PadAxis::default(); signal.rank()];
        pads[axis].hi = (end - end.min(extent)) as i64;
        site.pad(&there, pads, 0.0)
    }

    fn windowed(&self, frames: &Tensor) -> Tensor {
        match &self.window {
            Some(window) => self.site.mul(frames, window),
            None => frames.clone(),
        }
    }
}

/// Squares of windows that sum to less do not reach a sample.
const LEAST_OVERLAP: f64 = 1e-11;

/// A window in the middle of a frame, 0 beside it.
fn whole_window(site: CallSite, window: &Tensor, like: &Tensor, n_fft: usize) -> Result<Tensor> {
    window.check()?;
    let fits = window.rank() == 1 && (1..=n_fft).contains(&window.numel());
    if !fits {
        let expected = format!("a window of 1 to {n_fft} points");
        return Err(site.error(expected, window.shape().to_string(), &[like, window]));
    }
    site.together(&[like, window])?;
    let before = (n_fft - window.numel()) / 2;
    let pads = vec![PadAxis { lo: before as i64, hi: (n_fft - window.numel() - before) as i64, interior: 0 }];
    Ok(site.pad(&site.cast(window, like.dtype()), pads, 0.0))
}
