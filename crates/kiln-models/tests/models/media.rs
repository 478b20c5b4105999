//! Files of sound and images.

use kiln_models::Sound;

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
    let (whole, mut state) = (wav(2, 8000, &[5; 8]), 1u32);
    let mut draw = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    for _ in 0..1000 {
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
    }
}
