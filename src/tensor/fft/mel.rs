//! Mel filter banks: frequencies gathered into bands as wide as the ear hears them.

use crate::base::{DType, Result, Shape};
use crate::tensor::compose::CallSite;
use crate::tensor::create::from_data;
use crate::tensor::fft::rows::few_enough;
use crate::tensor::options::options;
use crate::tensor::{Place, Tensor};

/// What maps hertz to mels.
///
/// # Examples
/// ```
/// use kiln::fft::MelScale;
/// assert!((MelScale::Htk.mels(1000.0) - 1000.0).abs() < 0.1);
/// assert_eq!(MelScale::Slaney.hertz(MelScale::Slaney.mels(440.0)), 440.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MelScale {
    /// `2595 log10(1 + f / 700)`: O'Shaughnessy's, that of HTK and torchaudio's default.
    #[default]
    Htk,
    /// Even below 1,000 Hz and logarithmic above: that of Slaney's Auditory Toolbox and librosa's default.
    Slaney,
}

/// Hertz of a mel, below [`KNEE`] on Slaney's scale.
const SLOPE: f64 = 200.0 / 3.0;
/// Hertz where Slaney's scale becomes logarithmic.
const KNEE: f64 = 1000.0;
/// There, 27 mels are a factor of 6.4.
const FACTOR: f64 = 6.4;
const MELS_OF_FACTOR: f64 = 27.0;

impl MelScale {
    /// The mels of a frequency in hertz.
    #[must_use]
    pub fn mels(self, hertz: f64) -> f64 {
        match self {
            MelScale::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
            MelScale::Slaney if hertz < KNEE => hertz / SLOPE,
            MelScale::Slaney => KNEE / SLOPE + (hertz / KNEE).ln() * MELS_OF_FACTOR / FACTOR.ln(),
        }
    }

    /// The frequency, in hertz, of a number of mels.
    #[must_use]
    pub fn hertz(self, mels: f64) -> f64 {
        match self {
            MelScale::Htk => 700.0 * (10f64.powf(mels / 2595.0) - 1.0),
            MelScale::Slaney if mels < KNEE / SLOPE => mels * SLOPE,
            MelScale::Slaney => KNEE * FACTOR.powf((mels - KNEE / SLOPE) / MELS_OF_FACTOR),
        }
    }
}

options! {
    /// The options of [`mel_filters`].
    ///
    /// # Examples
    /// ```
    /// use kiln::fft::{MelOpts, MelScale, mel_filters};
    /// let librosa = MelOpts::default().scale(MelScale::Slaney).equal_area(true);
    /// assert_eq!(mel_filters(201, 80, 16_000.0, librosa, ()).dims()?, [201, 80]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    MelOpts {
        /// The lowest frequency of a band, in hertz (0).
        f_min: f64 = 0.0;
        /// The highest (half the rate).
        f_max: Option<f64> = None, f64 => Some;
        /// From hertz to mels (`Htk`).
        scale: MelScale = MelScale::Htk;
        /// Whether bands have one area, not one height: `norm="slaney"` (no).
        equal_area: bool = false;
    }
}

/// Triangular bands, even in mels, over the frequencies of half a spectrum: `[bins, mels]`.
///
/// `bins` is `n_fft / 2 + 1` of [`Tensor::stft`], `rate` the samples per second. Invalid for a rate or
/// frequencies out of order. PyTorch: `torchaudio.functional.melscale_fbanks`; `librosa.filters.mel` is the
/// transpose.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::fft::{StftOpts, Window, mel_filters};
/// let x = Tensor::linspace(-1.0, 1.0, 4000, ());
/// let opts = StftOpts::default().window(&Window::Hann.periodic(400, ()));
/// let power = x.stft(400, opts).abs_squared(); // [201, frames]
/// let mels = mel_filters(201, 80, 16_000.0, Default::default(), ()).t().matmul(&power);
/// assert_eq!(mels.dims()?, [80, 41]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn mel_filters(bins: usize, mels: usize, rate: f64, opts: MelOpts, place: impl Into<Place>) -> Tensor {
    let site = CallSite::here("mel_filters");
    let place = place.into();
    site.build(&[], || {
        let values = filters(site, bins, mels, rate, &opts)?;
        let place = Place { dtype: Some(place.dtype_or(DType::F32)), ..place };
        Ok(from_data(site.name, site.span, &values, Shape::new(&[bins, mels]), place))
    })
}

fn filters(site: CallSite, bins: usize, mels: usize, rate: f64, opts: &MelOpts) -> Result<Vec<f64>> {
    few_enough(site, bins.saturating_mul(mels).max(bins).max(mels))?;
    let MelOpts { f_min, f_max, scale, equal_area } = *opts;
    let f_max = f_max.unwrap_or(rate / 2.0);
    if !(rate > 0.0 && rate.is_finite() && 0.0 <= f_min && f_min < f_max && f_max.is_finite()) {
        let found = format!("from {f_min} to {f_max} Hz at a rate of {rate}");
        return Err(site.error("0 <= f_min < f_max and a positive rate", found, &[]));
    }
    let (low, high) = (scale.mels(f_min), scale.mels(f_max));
    let edge = |i: usize| scale.hertz(low + (high - low) * i as f64 / (mels + 1) as f64);
    let edges: Vec<f64> = (0..mels + 2).map(edge).collect();
    let height = |left: f64, right: f64| if equal_area { 2.0 / (right - left) } else { 1.0 };
    let value = |bin: usize, mel: usize| {
        let hertz = rate / 2.0 * bin as f64 / bins.saturating_sub(1).max(1) as f64;
        let [left, middle, right] = [edges[mel], edges[mel + 1], edges[mel + 2]];
        let rise = (hertz - left) / (middle - left);
        let fall = (right - hertz) / (right - middle);
        rise.min(fall).max(0.0) * height(left, right)
    };
    Ok((0..bins)
        .flat_map(|bin| (0..mels).map(move |mel| (bin, mel)))
        .map(|(bin, mel)| value(bin, mel))
        .collect())
}
