//! Files of sound and images.

use kiln_models::{Image, Sound};

/// A WAV file of 16-bit PCM.
fn wav(channels: u16, rate: u32, samples: &[i16]) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend(16u16.to_le_bytes());
    // A chunk of odd length, which a byte follows.
    bytes.extend(b"LIST\x03\0\0\0abc\0data");
    bytes.extend((2 * samples.len() as u32).to_le_bytes());
    bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    bytes
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

#[test]
fn wrong_images_are_errors() {
    let error = |bytes: &[u8]| Image::parse("a.ppm", bytes).unwrap_err().to_string();
    assert_eq!(error(b"P5 1 1 255 x"), "a.ppm: expected a PPM file, P6, found another kind");
    assert_eq!(error(b"P6 1"), "a.ppm: expected three numbers, found fewer");
    assert_eq!(error(b"P6 2 2 65535 "), "a.ppm: expected some pixels of 8 bits, found 2 by 2, up to 65535");
    assert_eq!(error(b"P6 2 2 255\nabc"), "a.ppm: expected 2 by 2 pixels, found 3 bytes");
    assert!(error(format!("P6 {0} {0} 255 x", usize::MAX).as_bytes()).contains("pixels"));
}

#[test]
fn wrong_files_are_errors() {
    let whole = wav(1, 16_000, &[1, 2, 3]);
    let error = |bytes: &[u8]| Sound::parse("a.wav", bytes).unwrap_err().to_string();
    assert_eq!(error(b"no sound"), "a.wav: expected a WAV file, found another kind");
    assert_eq!(error(&whole[..40]), "a.wav: expected chunks fmt and data, found neither or one");
    let mut other = whole.clone();
    other[34] = 24;
    let expected = "a.wav: expected 16-bit PCM of at least 1000 samples a second, found format 1, 1 channels, \
                    16000 samples a second, 24 bits";
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
