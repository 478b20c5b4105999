//! What Whisper hears: logarithms of spectra.

use kiln::fft::{MelOpts, MelScale, StftOpts, Window, mel_filters};
use kiln::tensor::Tensor;

/// Samples a second.
const RATE: f64 = 16_000.0;
/// Samples of a frame.
const FRAME: usize = 400;
/// Samples from a frame to the next.
pub(super) const HOP: usize = 160;

/// The features of sound `[.., time]`, 16,000 samples a second from -1 to 1: `[.., mels, time / 160]`.
///
/// Powers of frames of 25 milliseconds in bands that are even in mels, as decimal logarithms down to eight
/// below the loudest, plus four, over four. `transformers`: `WhisperFeatureExtractor`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln_models::log_mel;
/// let tone = (Tensor::arange(0, 1600, 1, DType::F32) * 0.1).sin();
/// let features = log_mel(&tone, 80);
/// assert_eq!(features.dims()?, [80, 10]);
/// let spread = features.max(..) - features.min(..);
/// assert!(spread.item::<f32>()? <= 2.0);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn log_mel(sound: &Tensor, mels: usize) -> Tensor {
    let window = Window::Hann.periodic(FRAME, sound.device());
    let power = sound.stft(FRAME, StftOpts::default().window(&window).hop(HOP)).abs_squared();
    // The last frame is centred on the end.
    let frames = power.shape().last().copied().unwrap_or(0);
    let power = power.narrow(-1, 0, frames.saturating_sub(1));
    let bands = MelOpts::default().scale(MelScale::Slaney).equal_area(true);
    let filters = mel_filters(FRAME / 2 + 1, mels, RATE, bands, power.device());
    let levels = filters.t().matmul(&power).clamp_min(1e-10).log10();
    let loudest = levels.amax_keepdim([-2, -1]);
    (levels.maximum(&(loudest - 8.0)) + 4.0) / 4.0
}
