//! Files of sound and images.

use std::io::Cursor;

use image::{ExtendedColorType, ImageFormat};
use kiln_models::{Image, Sound};

/// A WAV file of 16-bit PCM.
fn wav(channels: u16, rate: u32, samples: &[i16]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    wav_of(1, 16, channels, rate, &data)
}

/// A WAV file of a format with so many bits a sample.
fn wav_of(format: u16, bits: u16, channels: u16, rate: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
    bytes.extend([format, channels].into_iter().flat_map(u16::to_le_bytes));
    bytes.extend(rate.to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend(bits.to_le_bytes());
    // A chunk of odd length, which a byte follows.
    bytes.extend(b"LIST\x03\0\0\0abc\0data");
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(data);
    bytes
}

/// A half and minus one, in each way of writing.
#[test]
fn samples_of_all_kinds_are_read() {
    let both = |half: &[u8], least: &[u8]| [half, least].concat();
    for (format, bits, data) in [
        (1, 8, both(&[192], &[0])),
        (1, 16, both(&[0, 0x40], &[0, 0x80])),
        (1, 24, both(&[0, 0, 0x40], &[0, 0, 0x80])),
        (1, 32, both(&[0, 0, 0, 0x40], &[0, 0, 0, 0x80])),
        (3, 32, both(&0.5f32.to_le_bytes(), &(-1f32).to_le_bytes())),
        (3, 64, both(&0.5f64.to_le_bytes(), &(-1f64).to_le_bytes())),
    ] {
        let sound = Sound::parse("a.wav", &wav_of(format, bits, 1, 16_000, &data)).unwrap();
        assert_eq!(sound.samples, [0.5, -1.0], "format {format}, {bits} bits");
        let both = Sound::parse("a.wav", &wav_of(format, bits, 2, 16_000, &data)).unwrap();
        assert_eq!(both.samples, [-0.25], "format {format}, {bits} bits");
    }
    // As files of more than 16 bits or two channels mostly are: the format stands further on.
    let mut long = wav_of(0xfffe, 24, 1, 16_000, &[0, 0, 0x40]);
    long[16] = 40;
    long.splice(36..36, [&[22, 0, 24, 0, 4, 0, 0, 0, 1, 0][..], &[0; 14]].concat());
    assert_eq!(Sound::parse("a.wav", &long).unwrap().samples, [0.5]);
}

#[test]
fn sound_is_read_and_resampled() {
    let sound = Sound::parse("a.wav", &wav(2, 8000, &[16_384, 0, -32_768, -32_768])).unwrap();
    assert_eq!(sound, Sound { rate: 8000, samples: vec![0.25, -1.0] });
    // A low tone stays, one that the lower rate cannot hold is gone.
    let tone = |hertz: f64| Sound {
        rate: 44_100,
        samples: (0..22_050)
            .map(|i| (f64::from(i) * hertz * std::f64::consts::TAU / 44_100.0).sin() as f32)
            .collect(),
    };
    let middle = |sound: &Sound| sound.resampled(16_000).samples[1000..7000].to_vec();
    let low = middle(&tone(440.0));
    let expected =
        (1000..7000).map(|i| (f64::from(i) * 440.0 * std::f64::consts::TAU / 16_000.0).sin() as f32);
    assert!(low.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-3));
    assert!(middle(&tone(12_000.0)).iter().all(|x| x.abs() < 2e-3));
}

#[test]
fn the_middle_of_an_image_is_shown() {
    // Columns of one colour each; the outer two are cut off.
    let bytes: Vec<u8> = (0..2).flat_map(|_| (0..4u8).flat_map(|column| [column * 51; 3])).collect();
    let image = Image::parse("a.ppm", &[b"P6\n4 2\n255\n", &bytes[..]].concat()).unwrap();
    let middle = image.square(2, ()).to_vec::<f32>().unwrap();
    assert!(
        middle.chunks(2).all(|row| (row[0] - 0.2).abs() < 1e-6 && (row[1] - 0.4).abs() < 1e-6),
        "{middle:?}"
    );
    let mean = image.square(1, ()).to_vec::<f32>().unwrap();
    assert!(mean.iter().all(|x| (x - 0.3).abs() < 1e-6), "{mean:?}");
}

/// Two pixels, red and dark blue, as files of every kind.
#[test]
fn images_of_all_kinds_are_read() {
    let pixels = [255, 0, 0, 0, 0, 51];
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Pnm] {
        let mut file = Cursor::new(Vec::new());
        image::write_buffer_with_format(&mut file, &pixels, 2, 1, ExtendedColorType::Rgb8, format).unwrap();
        let image = Image::parse("a", file.get_ref()).unwrap();
        assert_eq!(image, Image { width: 2, height: 1, bytes: pixels.to_vec() }, "{format:?}");
    }
    // Few bits of many pixels alike are lost.
    let (mut file, grey) = (Cursor::new(Vec::new()), [100; 3 * 64]);
    let kind = (ExtendedColorType::Rgb8, ImageFormat::Jpeg);
    image::write_buffer_with_format(&mut file, &grey, 16, 4, kind.0, kind.1).unwrap();
    let whole = file.into_inner();
    let image = Image::parse("a.jpg", &whole).unwrap();
    assert!((image.width, image.height) == (16, 4) && image.bytes.iter().all(|&x| x.abs_diff(100) < 3));
    // A camera that was turned to the right says so: EXIF's orientation 6.
    let exif = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let turned = [&whole[..2], exif, &whole[2..]].concat();
    let image = Image::parse("a.jpg", &turned).unwrap();
    assert_eq!((image.width, image.height), (4, 16));
}

#[test]
fn wrong_images_are_errors() {
    let error = |bytes: &[u8]| Image::parse("a.ppm", bytes).unwrap_err().to_string();
    for bytes in [&b"no image"[..], b"P6 1", b"P6 2 2 255\nabc", b"\x89PNG\r\n\x1a\n"] {
        assert!(error(bytes).starts_with("a.ppm: expected a JPEG, PNG, WebP or PPM image, found "));
    }
    error(b"P6 4000000000 4000000000 255 x");
    assert!(Image::open("nowhere.png").unwrap_err().to_string().starts_with("nowhere.png: "));
}

#[test]
fn wrong_files_are_errors() {
    let whole = wav(1, 16_000, &[1, 2, 3]);
    let error = |bytes: &[u8]| Sound::parse("a.wav", bytes).unwrap_err().to_string();
    assert_eq!(error(b"no sound"), "a.wav: expected a WAV file, found another kind");
    assert_eq!(error(&whole[..40]), "a.wav: expected chunks fmt and data, found neither or one");
    let mut other = whole.clone();
    other[34] = 12;
    let expected = "a.wav: expected PCM or floats of at least 1000 samples a second, found format 1, 1 channels, \
                    16000 samples a second, 12 bits";
    assert_eq!(error(&other), expected);
    other[22] = 0;
    assert!(error(&other).contains("0 channels"));
    assert!(Sound::open("nowhere.wav").unwrap_err().to_string().starts_with("nowhere.wav: "));
}

/// Any bytes give an error or a file's contents.
#[test]
fn broken_files_never_panic() {
    let (sound, image, mut state) = (wav(2, 8000, &[5; 8]), b"P6 #a\n2 2 255\nabcdefghijkl".to_vec(), 1u32);
    let mut draw = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    for _ in 0..1000 {
        let whole = [&sound, &image][draw(2)];
        let mut bytes = whole[..draw(whole.len() + 1)].to_vec();
        for _ in 0..draw(4) {
            let place = draw(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(place) {
                *byte = [0, 1, 255, draw(256) as u8][draw(4)];
            }
        }
        if let Ok(sound) = Sound::parse("a.wav", &bytes) {
            assert!(sound.samples.len() <= bytes.len());
        }
        if let Ok(image) = Image::parse("a.ppm", &bytes) {
            assert!(image.bytes.len() <= bytes.len());
        }
    }
}
