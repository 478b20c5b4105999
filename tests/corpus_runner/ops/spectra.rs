//! Fourier transforms. A complex result is recorded as pairs along a last axis.

use kiln::fft::{FftNorm, FftOpts, FftnOpts, StftOpts};
use kiln::opts::PadMode;
use kiln::tensor::AxisList;

use super::super::call::{Call, Outcome, unsupported};
use super::{Entry, entry, one, with};

/// A mapping whose result may be complex.
const fn spectrum(name: &'static str, parameters: &'static str, run: fn(&Call) -> Outcome) -> Entry {
    Entry { complex: true, ..entry(name, parameters, run) }
}

const ALONG: &str = "self n dim norm";
const SEVERAL: &str = "self s dim norm";

/// Transforms of real tensors.
pub const SPECTRA: &[Entry] = &[
    spectrum("fft.fft", ALONG, |c| one(c.tensor("self")?.fft(along(c)?).to_pairs())),
    spectrum("fft.ifft", ALONG, |c| one(c.tensor("self")?.ifft(along(c)?).to_pairs())),
    spectrum("fft.rfft", ALONG, |c| one(c.tensor("self")?.rfft(along(c)?).to_pairs())),
    spectrum("fft.irfft", ALONG, |c| one(c.tensor("self")?.irfft(along(c)?))),
    spectrum("fft.hfft", ALONG, |c| one(c.tensor("self")?.hfft(along(c)?))),
    spectrum("fft.ihfft", ALONG, |c| one(c.tensor("self")?.ihfft(along(c)?).to_pairs())),
    spectrum("fft.fft2", SEVERAL, |c| one(c.tensor("self")?.fft2(several(c)?).to_pairs())),
    spectrum("fft.ifft2", SEVERAL, |c| one(c.tensor("self")?.ifft2(several(c)?).to_pairs())),
    spectrum("fft.rfft2", SEVERAL, |c| one(c.tensor("self")?.rfft2(several(c)?).to_pairs())),
    spectrum("fft.fftn", SEVERAL, |c| one(c.tensor("self")?.fftn(several(c)?).to_pairs())),
    spectrum("fft.ifftn", SEVERAL, |c| one(c.tensor("self")?.ifftn(several(c)?).to_pairs())),
    spectrum("fft.rfftn", SEVERAL, |c| one(c.tensor("self")?.rfftn(several(c)?).to_pairs())),
    spectrum(
        "stft",
        "self n_fft hop_length win_length window center pad_mode normalized onesided return_complex",
        stft,
    ),
];

fn norm(c: &Call) -> Outcome<FftNorm> {
    match c.opt_text("norm")?.as_deref() {
        None | Some("backward") => Ok(FftNorm::Backward),
        Some("forward") => Ok(FftNorm::Forward),
        Some("ortho") => Ok(FftNorm::Ortho),
        Some(other) => unsupported("norm", other),
    }
}

fn along(c: &Call) -> Outcome<FftOpts> {
    let n = if c.has("n") { Some(c.size("n")?) } else { None };
    let opts = with(FftOpts::default().norm(norm(c)?), n, FftOpts::n);
    Ok(with(opts, c.opt_int("dim")?, FftOpts::axis))
}

fn several(c: &Call) -> Outcome<FftnOpts> {
    let sizes = if c.has("s") { Some(c.sizes("s")?) } else { None };
    let opts = with(FftnOpts::default().norm(norm(c)?), sizes, |opts, sizes: Vec<usize>| opts.sizes(sizes));
    let axes = if c.has("dim") { Some(c.axes("dim")?) } else { None };
    Ok(with(opts, axes, |opts, axes: AxisList| opts.axes(axes)))
}

fn stft(c: &Call) -> Outcome {
    c.ignore("return_complex", |_| true)?;
    c.ignore("win_length", |_| false)?;
    let mode = match c.opt_text("pad_mode")?.as_deref() {
        None | Some("reflect") => PadMode::Reflect,
        Some("replicate") => PadMode::Replicate,
        Some("circular") => PadMode::Circular,
        Some(other) => return unsupported("pad_mode", other),
    };
    let opts = StftOpts::default().pad_mode(mode).normalized(c.is("normalized")?);
    let hop = if c.has("hop_length") { Some(c.size("hop_length")?) } else { None };
    let opts = with(opts, hop, StftOpts::hop);
    let opts = with(opts, c.opt_tensor("window")?.as_ref(), StftOpts::window);
    let opts = with(opts, c.opt_flag("center")?, StftOpts::center);
    let opts = with(opts, c.opt_flag("onesided")?, StftOpts::onesided);
    one(c.tensor("self")?.stft(c.size("n_fft")?, opts).to_pairs())
}
