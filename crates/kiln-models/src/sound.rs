//! Sound files.

use std::f64::consts::PI;
use std::path::Path;

use kiln::tensor::{Place, Tensor};

use crate::error::{Error, Result};

/// Sound of one channel.
///
/// # Examples
/// ```
/// use kiln_models::Sound;
/// let tone = |i: i32| (f64::from(i) * 0.05).sin() as f32;
/// let sound = Sound { rate: 8000, samples: (0..800).map(tone).collect() };
/// let fast = sound.resampled(16_000);
/// assert_eq!((fast.rate, fast.samples.len()), (16_000, 1600));
/// assert!((fast.samples[800] - sound.samples[400]).abs() < 1e-3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// Samples a second.
    pub rate: u32,
    /// From -1 to 1.
    pub samples: Vec<f32>,
}

/// What a file's `fmt ` chunk says.
struct Format {
    channels: usize,
    rate: u32,
}

impl Sound {
    /// Reads a WAV file of 16-bit PCM; of several channels, their mean.
    ///
    /// # Errors
    /// A file that cannot be read, or of another kind.
    pub fn open(path: impl AsRef<Path>) -> Result<Sound> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        Sound::parse(&path.display().to_string(), &bytes)
    }

    /// Reads what is in a file of this name.
    ///
    /// # Errors
    /// Another kind of file.
    ///
    /// # Examples
    /// ```
    /// use kiln_models::Sound;
    /// let mut bytes = b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0".to_vec();
    /// bytes.extend(*b"\x80\x3e\0\0\0\xfa\0\0\x04\0\x10\0data\x04\0\0\0\0\x40\0\0");
    /// let sound = Sound::parse("two channels", &bytes)?;
    /// assert_eq!((sound.rate, &sound.samples[..]), (16_000, &[0.25f32][..]));
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Sound> {
        let wrong = |expected: &str, found: String| Error::Media {
            path: file.into(),
            expected: expected.into(),
            found,
        };
        let (Some(b"RIFF"), Some(b"WAVE"), Some(mut rest)) =
            (bytes.get(..4), bytes.get(8..12), bytes.get(12..))
        else {
            return Err(wrong("a WAV file", "another kind".into()));
        };
        let mut format = None;
        while let Some((id, body, later)) = chunk(rest) {
            match (id, &format) {
                (b"fmt ", _) => format = Some(read_format(body).map_err(|found| wrong(KIND, found))?),
                (b"data", Some(Format { channels, rate })) => {
                    let samples = body.chunks_exact(2 * channels).map(mean).collect();
                    return Ok(Sound { rate: *rate, samples });
                }
                (_, Some(_) | None) => {}
            }
            rest = later;
        }
        Err(wrong("chunks fmt and data", "neither or one".into()))
    }

    /// The same sound with so many samples a second.
    ///
    /// Each sample is a sum of those around it, by a sinc under a raised cosine that cuts what the lower rate
    /// cannot hold (Smith and Gossett, "A flexible sampling-rate conversion method", 1984).
    #[must_use]
    pub fn resampled(&self, rate: u32) -> Sound {
        if rate == self.rate || rate == 0 || self.rate == 0 {
            return self.clone();
        }
        let step = f64::from(self.rate) / f64::from(rate);
        let (cut, reach) = ((1.0 / step).min(1.0), CROSSINGS * step.max(1.0));
        let at = |i: usize| {
            let centre = i as f64 * step;
            let (first, last) = ((centre - reach).ceil().max(0.0) as usize, (centre + reach) as usize);
            let last = last.min(self.samples.len().saturating_sub(1));
            let weight = |k: usize| {
                let (distance, x) = (k as f64 - centre, (k as f64 - centre) * cut * PI);
                let sinc = if x == 0.0 { 1.0 } else { x.sin() / x };
                cut * sinc * (0.5 + 0.5 * (PI * distance / reach).cos())
            };
            (first..=last).map(|k| f64::from(self.samples[k]) * weight(k)).sum::<f64>() as f32
        };
        let count = (self.samples.len() as f64 / step).ceil() as usize;
        Sound { rate, samples: (0..count).map(at).collect() }
    }

    /// The samples as a tensor `[time]`.
    #[track_caller]
    pub fn tensor(&self, place: impl Into<Place>) -> Tensor {
        Tensor::from_vec(self.samples.clone(), [self.samples.len()], place)
    }
}

/// What is read.
const KIND: &str = "16-bit PCM of at least 1000 samples a second";
/// Sound of lower rates would be much longer at those that models hear.
const LEAST_RATE: u32 = 1000;

/// Zeros of the sinc on each side.
const CROSSINGS: f64 = 16.0;

/// The next chunk's name and contents, and what follows it. The last one may say that it is longer than it
/// is: who writes as sound comes does not know.
fn chunk(bytes: &[u8]) -> Option<(&[u8; 4], &[u8], &[u8])> {
    let (id, size) = (bytes.first_chunk::<4>()?, word(bytes, 4)? as usize);
    let rest = &bytes[8..];
    let size = size.min(rest.len());
    let (body, later) = rest.split_at(size);
    Some((id, body, later.get(size % 2..).unwrap_or(&[])))
}

fn read_format(body: &[u8]) -> Result<Format, String> {
    let half = |at: usize| Some(u16::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let rate = word(body, 4);
    match (half(0), half(2), rate, half(14)) {
        // PCM, or what is said further on.
        (Some(1 | 0xfffe), Some(channels @ 1..), Some(rate @ LEAST_RATE..), Some(16)) => {
            Ok(Format { channels: channels.into(), rate })
        }
        (kind, channels, _, bits) => {
            let [kind, channels, bits] = [kind, channels, bits].map(Option::unwrap_or_default);
            let rate = rate.unwrap_or_default();
            Err(format!("format {kind}, {channels} channels, {rate} samples a second, {bits} bits"))
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The mean of one moment's channels.
fn mean(frame: &[u8]) -> f32 {
    let sum: i32 =
        frame.chunks_exact(2).map(|sample| i32::from(i16::from_le_bytes([sample[0], sample[1]]))).sum();
    sum as f32 / (frame.len() / 2) as f32 / 32_768.0
}
