//! Images as PNG.

/// An image with 8 bits a channel.
#[derive(Debug)]
pub(super) struct Image {
    pub width: u32,
    pub height: u32,
    pub channels: usize,
    pub png: Vec<u8>,
}

impl Image {
    /// The largest width or height of a PNG.
    pub const MAX_SIDE: u32 = i32::MAX as u32;

    /// Encodes rows of pixels with 1, 3 or 4 channels.
    ///
    /// # Errors
    /// What the encoder says.
    pub fn encode(width: u32, height: u32, channels: usize, bytes: &[u8]) -> Result<Image, String> {
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, width, height);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_color(match channels {
            1 => png::ColorType::Grayscale,
            3 => png::ColorType::Rgb,
            _ => png::ColorType::Rgba,
        });
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(bytes)?;
            writer.finish()
        });
        written.map_err(|error| error.to_string())?;
        Ok(Image { width, height, channels, png })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_come_back() {
        for channels in [1, 3, 4] {
            let bytes: Vec<u8> = (0..2 * 5 * channels).map(|i| (i * 9) as u8).collect();
            let image = Image::encode(5, 2, channels, &bytes).expect("an image");
            let decoder = png::Decoder::new(std::io::Cursor::new(&image.png));
            let mut reader = decoder.read_info().expect("a header");
            let mut out = vec![0; reader.output_buffer_size().expect("a size")];
            let info = reader.next_frame(&mut out).expect("pixels");
            assert_eq!((info.width, info.height, &out), (5, 2, &bytes));
        }
        assert!(Image::encode(5, 2, 3, &[0]).is_err());
    }
}
