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
    encoding: Encoding,
}

/// How a sample is written.
#[derive(Clone, Copy)]
enum Encoding {
    /// 8 bits, of which 128 is silence.
    Unsigned,
    /// So many bytes, the lowest first.
    Signed(usize),
    Single,
    Double,
}

impl Sound {
    /// Reads a WAV file of integers of 8 to 32 bits or floats; of several channels, their mean.
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
                (b"data", Some(Format { channels, rate, encoding })) => {
                    let frames = body.chunks_exact(encoding.bytes() * channels);
                    return Ok(Sound {
                        rate: *rate,
                        samples: frames.map(|frame| encoding.mean(frame)).collect(),
                    });
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
const KIND: &str = "PCM or floats of at least 1000 samples a second";
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
    // What is said further on.
    let kind = if half(0) == Some(0xfffe) { half(24) } else { half(0) };
    let encoding = match (kind, half(14)) {
        (Some(1), Some(8)) => Some(Encoding::Unsigned),
        (Some(1), Some(bits @ (16 | 24 | 32))) => Some(Encoding::Signed(usize::from(bits) / 8)),
        (Some(3), Some(32)) => Some(Encoding::Single),
        (Some(3), Some(64)) => Some(Encoding::Double),
        _ => None,
    };
    match (encoding, half(2), word(body, 4)) {
        (Some(encoding), Some(channels @ 1..), Some(rate @ LEAST_RATE..)) => {
            Ok(Format { channels: channels.into(), rate, encoding })
        }
        (_, channels, rate) => {
            let [kind, channels, bits] = [kind, channels, half(14)].map(Option::unwrap_or_default);
            let rate = rate.unwrap_or_default();
            Err(format!("format {kind}, {channels} channels, {rate} samples a second, {bits} bits"))
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Encoding {
    fn bytes(self) -> usize {
        match self {
            Encoding::Unsigned => 1,
            Encoding::Signed(bytes) => bytes,
            Encoding::Single => 4,
            Encoding::Double => 8,
        }
    }

    /// A sample, from -1 to 1.
    fn value(self, bytes: &[u8]) -> f32 {
        match self {
            Encoding::Unsigned => (f32::from(bytes[0]) - 128.0) / 128.0,
            Encoding::Signed(count) => {
                // At the upper end of 32 bits, all sizes have one scale.
                let mut whole = [0; 4];
                whole[4 - count..].copy_from_slice(bytes);
                i32::from_le_bytes(whole) as f32 / 2f32.powi(31)
            }
            Encoding::Single => bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes)),
            Encoding::Double => bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes) as f32),
        }
    }

    /// The mean of one moment's channels.
    fn mean(self, frame: &[u8]) -> f32 {
        let channels = frame.chunks_exact(self.bytes());
        channels.clone().map(|sample| self.value(sample)).sum::<f32>() / channels.len() as f32
    }
}
