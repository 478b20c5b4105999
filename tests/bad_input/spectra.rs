//! Transforms of nothing, and frames, windows and bands that do not fit.

use kiln::fft::{FftOpts, FftnOpts, MelOpts, StftOpts, Window, mel_filters};
use kiln::prelude::*;

use crate::{all_refused, floats, here, refused};

#[test]
fn points_and_axes() {
    let x = floats([2, 8]);
    let (none, beyond) = (FftOpts::default().n(0), FftOpts::default().axis(2));
    refused(here!(x.fft(none.clone()).re), "fft", "at least one point", "0 points");
    refused(here!(x.rfft(none.clone()).im), "rfft", "at least one point", "0 points");
    refused(here!(floats([2, 1]).irfft(Default::default())), "irfft", "at least one point", "0 points");
    refused(here!(x.ifft(beyond.clone()).re), "ifft", "an axis in -2..=1", "axis 2");
    let twice = FftnOpts::default().axes([0, -2]);
    refused(here!(x.fftn(twice).re), "fftn", "distinct axes", "axis -2 twice");
    let sizes = FftnOpts::default().axes([0, 1]).sizes([4]);
    refused(here!(x.fft2(sizes).re), "fft2", "a size for each of 2 axes", "1 sizes");
    refused(here!(Tensor::fftfreq(0, 1.0, ())), "fftfreq", "at least one point", "0 points");
    let z = x.fft(Default::default());
    all_refused([
        ("more points than there are", x.fft(FftOpts::default().n(usize::MAX)).re),
        ("a terabyte of points", x.rfft(FftOpts::default().n(1 << 40)).re),
        ("no axis", Tensor::scalar(1.0, ()).fft(Default::default()).re),
        ("no axes", x.rfftn(FftnOpts::default().axes([0i64; 0])).re),
        ("no points of an empty axis", floats([3, 0]).fft(Default::default()).re),
        ("no points of several axes", x.fftn(FftnOpts::default().sizes([0])).re),
        ("an axis of irfft", z.irfft(beyond)),
        ("points of hfft", z.hfft(none)),
        ("frequencies of integers", Tensor::rfftfreq(4, 1.0, DType::I32)),
    ]);
}

#[test]
fn complex_parts() {
    let (x, y) = (floats([2, 3]), floats([4]));
    refused(here!(Complex::from_pairs(&x).re), "from_pairs", "a last axis of 2", "[2, 3]");
    let z = Complex { re: x.clone(), im: y.clone() };
    all_refused([
        ("parts that do not broadcast", Complex::new(&x, &y).im),
        ("parts of two shapes", z.fft(Default::default()).re),
        ("a sum with another shape", (Complex::from_real(&x) + &y).im),
        ("a product of matrices", Complex::from_real(&x).matmul(&Complex::from_real(&x)).re),
        ("an invalid part", (Complex::from_real(&(&x + &y)) * 2.0).im),
        ("a quotient", (1.0 / Complex::new(&x, &y)).re),
    ]);
    assert!(Complex { re: floats([2]), im: floats([3]) }.to_vec::<f32>().is_err());
}

#[test]
fn frames() {
    let x = floats([2, 100]);
    let window = |n: usize| StftOpts::default().window(&Window::Hann.periodic(n, ()));
    refused(here!(x.stft(16, window(17)).re), "stft", "a window of 1 to 16 points", "[17]");
    let apart = "frames of at least one sample, at least one apart";
    refused(here!(x.stft(0, Default::default()).re), "stft", apart, "frames of 0, 0 apart");
    refused(here!(x.stft(8, StftOpts::default().hop(0)).im), "stft", apart, "frames of 8, 0 apart");
    let long = StftOpts::default().center(false);
    refused(here!(x.stft(128, long.clone()).re), "stft", "at least one frame of 128", "100 samples");
    let z = x.stft(16, window(16));
    refused(here!(z.istft(18, Default::default())), "istft", "[.., 10, frames]", "[2, 9, 26]");
    let plane = StftOpts::default().window(&floats([4, 4]));
    all_refused([
        ("a margin beyond the signal", x.stft(300, Default::default()).re),
        ("a single number", Tensor::scalar(1.0, ()).stft(4, Default::default()).re),
        ("a window of two axes", x.stft(16, plane).re),
        ("an empty window", x.stft(16, window(0)).re),
        ("spectra of one axis", Complex::from_real(&floats([9])).istft(16, Default::default())),
        ("the whole spectrum", z.istft(16, StftOpts::default().onesided(false))),
    ]);
}

#[test]
fn windows_and_bands() {
    let bands = |rate: f64, opts: MelOpts| mel_filters(9, 4, rate, opts, ());
    let wide = MelOpts::default().f_min(9000.0);
    all_refused([
        ("an endless window", Window::Hann.periodic(usize::MAX, ())),
        ("endless bands", mel_filters(usize::MAX, 2, 16_000.0, Default::default(), ())),
        ("a window of integers", Window::Hann.periodic(4, DType::I64)),
        ("a deviation of 0", Window::Gaussian { std: 0.0 }.symmetric(4, ())),
        ("a deviation that is no number", Window::Gaussian { std: f64::NAN }.symmetric(4, ())),
        ("an infinite beta", Window::Kaiser { beta: f64::INFINITY }.symmetric(4, ())),
        ("a rate of 0", bands(0.0, Default::default())),
        ("a rate that is no number", bands(f64::NAN, Default::default())),
        ("bands above the highest frequency", bands(16_000.0, wide)),
        ("bands below 0", bands(16_000.0, MelOpts::default().f_min(-1.0))),
    ]);
}
