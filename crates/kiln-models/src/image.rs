//! Image files.

#[cfg(feature = "images")]
use std::path::Path;

use kiln::opts::{InterpolateMode, InterpolateOpts};
use kiln::prelude::DType;
use kiln::tensor::{Place, Tensor};

#[cfg(feature = "images")]
use crate::error::{Error, Result};

/// An image of red, green and blue.
///
/// # Examples
/// ```
/// use kiln_models::Image;
/// let image = Image { width: 2, height: 1, bytes: vec![255, 0, 0, 0, 0, 51] };
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
    /// Reads a JPEG, PNG, WebP or PPM file, turned as the camera says it was held.
    ///
    /// # Errors
    /// A file that cannot be read, or of another kind.
    #[cfg(feature = "images")]
    pub fn open(path: impl AsRef<Path>) -> Result<Image> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        Image::parse(&path.display().to_string(), &bytes)
    }

    /// Reads what is in a file of this name.
    ///
    /// # Errors
    /// Another kind of file, or one that would take more than 512 MiB.
    ///
    /// # Examples
    /// ```
    /// use kiln_models::Image;
    /// let image = Image::parse("two pixels", b"P6 2 1 255\n\xff\0\0\0\0\x33")?;
    /// assert_eq!((image.width, image.height), (2, 1));
    /// assert_eq!(image.bytes, [255, 0, 0, 0, 0, 51]);
    /// # Ok::<(), kiln_models::Error>(())
    /// ```
    #[cfg(feature = "images")]
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Image> {
        let image = decoded(bytes).map_err(|error| Error::Media {
            path: file.into(),
            expected: "a JPEG, PNG, WebP or PPM image".into(),
            found: error.to_string(),
        })?;
        let [width, height] = [image.width(), image.height()].map(|extent| extent as usize);
        Ok(Image { width, height, bytes: image.into_rgb8().into_raw() })
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

#[cfg(feature = "images")]
fn decoded(bytes: &[u8]) -> image::ImageResult<image::DynamicImage> {
    use image::ImageDecoder;
    let reader = image::ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format()?;
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut image = image::DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}
