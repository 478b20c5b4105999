//! Image files.

use std::path::Path;

use kiln::opts::{InterpolateMode, InterpolateOpts};
use kiln::prelude::DType;
use kiln::tensor::{Place, Tensor};

use crate::error::{Error, Result};

/// An image of red, green and blue.
///
/// # Examples
/// ```
/// use kiln_models::Image;
/// let image = Image::parse("two pixels", b"P6 # a note\n2 1\n255\n\xff\0\0\0\0\x33")?;
/// assert_eq!((image.width, image.height), (2, 1));
/// assert_eq!(image.tensor(()).to_vec::<f32>()?, [1.0, 0.0, 0.0, 0.0, 0.0, 0.2]);
/// # Ok::<(), kiln_models::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels of a row.
    pub width: usize,
    /// Rows, the highest first.
    pub height: usize,
    /// Red, green and blue of each pixel, row by row.
    pub bytes: Vec<u8>,
}

impl Image {
    /// Reads a PPM file of 8 bits (`P6`), which most programs write.
    ///
    /// # Errors
    /// A file that cannot be read, or of another kind.
    pub fn open(path: impl AsRef<Path>) -> Result<Image> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        Image::parse(&path.display().to_string(), &bytes)
    }

    /// Reads what is in a file of this name.
    ///
    /// # Errors
    /// Another kind of file.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Image> {
        let wrong = |expected: &str, found: String| Error::Media {
            path: file.into(),
            expected: expected.into(),
            found,
        };
        let mut rest =
            bytes.strip_prefix(b"P6").ok_or_else(|| wrong("a PPM file, P6", "another kind".into()))?;
        let mut header = [0usize; 3];
        for number in &mut header {
            *number = next_number(&mut rest).ok_or_else(|| wrong("three numbers", "fewer".into()))?;
        }
        let [width, height, most] = header;
        if width == 0 || height == 0 || most != 255 {
            return Err(wrong("some pixels of 8 bits", format!("{width} by {height}, up to {most}")));
        }
        // One white space is before the pixels.
        let pixels = rest.get(1..).unwrap_or(&[]);
        let size = width.checked_mul(height).and_then(|count| count.checked_mul(3));
        let pixels = size.and_then(|size| pixels.get(..size));
        let found = format!("{} bytes", rest.len().saturating_sub(1));
        let bytes = pixels.ok_or_else(|| wrong(&format!("{width} by {height} pixels"), found))?.to_vec();
        Ok(Image { width, height, bytes })
    }

    /// The image as numbers from 0 to 1, `[3, height, width]`.
    #[track_caller]
    pub fn tensor(&self, place: impl Into<Place>) -> Tensor {
        let place = place.into();
        let shape = [self.height, self.width, 3];
        let pixels = Tensor::from_vec(self.bytes.clone(), shape, place.device()).permute([2, 0, 1]);
        pixels.to_dtype(place.dtype.unwrap_or(DType::F32)) / 255.0
    }

    /// The square in the middle as numbers from 0 to 1, `[3, size, size]`: what models of images are shown.
    ///
    /// # Examples
    /// ```
    /// use kiln_models::Image;
    /// let image = Image { width: 4, height: 2, bytes: vec![255; 24] };
    /// assert_eq!(image.square(8, ()).dims()?, [3, 8, 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn square(&self, size: usize, place: impl Into<Place>) -> Tensor {
        let side = self.width.min(self.height);
        let (left, top) = ((self.width - side) / 2, (self.height - side) / 2);
        let middle = self.tensor(place).narrow(1, top as i64, side).narrow(2, left as i64, side);
        // Pixels that become fewer are averaged.
        let mode = if size < side { InterpolateMode::Area } else { InterpolateMode::Linear };
        middle.unsqueeze(0).interpolate(InterpolateOpts::default().size([size, size]).mode(mode)).squeeze(0)
    }
}

/// The next number of a header, after white space and comments.
fn next_number(bytes: &mut &[u8]) -> Option<usize> {
    loop {
        match bytes.first()? {
            b'#' => {
                let end = bytes.iter().position(|&byte| byte == b'\n')?;
                *bytes = &bytes[end..];
            }
            byte if byte.is_ascii_whitespace() => *bytes = &bytes[1..],
            _ => break,
        }
    }
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at(end);
    *bytes = rest;
    std::str::from_utf8(digits).ok()?.parse().ok()
}
