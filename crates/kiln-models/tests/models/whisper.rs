//! Speech.

use kiln::nn::{Beam, BeamOpts, Layer};
use kiln::no_grad;
use kiln::prelude::*;
use kiln_models::{Checkpoint, LoadModelOpts, Whisper};

use crate::record::{assert_near, devices, recorded};

/// The sound of the script: 12,000 samples.
fn sound(device: Device) -> Tensor {
    let sample = |i: usize| (0.3 * (1e-5 * (i * i) as f64).sin() + 0.1 * (i as f64).sin()) as f32;
    Tensor::from_vec((0..12_000).map(sample).collect::<Vec<f32>>(), [12_000], device)
}

fn whisper(device: Device) -> Whisper {
    let checkpoint = Checkpoint::open(recorded("whisper").saved("whisper")).unwrap();
    Whisper::load(&checkpoint, LoadModelOpts::default().device(device)).unwrap()
}

#[test]
fn whisper_computes_what_transformers_computes() {
    let record = recorded("whisper");
    let heard_there: Vec<f32> = serde_json::from_value(record.value("features")).unwrap();
    for device in devices() {
        let model = whisper(device);
        let heard = model.features(&sound(device));
        assert_near(&heard, &heard_there, &format!("features on {device}"));
        let (one, tokens) = (heard.unsqueeze(0), record.tokens(device));
        let features = Tensor::cat(&[&one, &(&one * 0.5)], 0);
        let logits = model.forward(&features, &tokens);
        assert_near(&logits, &record.output, &format!("whisper on {device}"));

        // Token by token, beside a source that is projected once.
        let _no_graph = no_grad();
        let state = model.decoder.state(&model.encoder.forward(&features), 8);
        state.realize().unwrap();
        for (place, count) in [(0, 3), (3, 1), (4, 1), (5, 3)] {
            let next = model.decoder.next(&tokens.narrow(1, place, count), &state);
            let last = (next - logits.i((.., place + count as i64 - 1))).abs().max(..).item::<f32>().unwrap();
            assert!(last < 2e-5, "{device}, token {place}: {last}");
        }
    }
}

#[test]
fn the_likeliest_tokens_are_those_of_transformers() {
    let expected: Vec<i64> = serde_json::from_value(recorded("whisper").value("greedy")).unwrap();
    for device in devices() {
        let model = whisper(device);
        let features = model.features(&sound(device)).unsqueeze(0);
        assert_eq!(model.transcribe(&features, &[1, 5], 10).unwrap(), expected, "{device}");
        // Texts end where the model has no more positions.
        assert_eq!(model.transcribe(&features, &[1, 5], 100).unwrap()[..10], expected, "{device}");
    }
}

/// The mean log-probability of tokens after a prompt of two, of which the model never writes 5, nor 19 or 2 first.
fn score(model: &Whisper, features: &Tensor, tokens: &[i64]) -> f64 {
    let all = Tensor::from_vec([&[1, 5], tokens].concat(), [1, tokens.len() + 2], features.device());
    let logits = model.forward(features, &all).to_vec::<f32>().unwrap();
    let logits: Vec<&[f32]> = logits.chunks(24).collect();
    let each = tokens.iter().enumerate().map(|(place, &token)| {
        let never = |id: usize| id == 5 || place == 0 && [19, 2].contains(&id);
        let weights = logits[place + 1].iter().map(|logit| f64::from(*logit).exp()).enumerate();
        let sum: f64 = weights.filter(|(id, _)| !never(*id)).map(|(_, weight)| weight).sum();
        f64::from(logits[place + 1][token as usize]) - sum.ln()
    });
    each.sum::<f64>() / tokens.len() as f64
}

#[test]
fn beams_find_likelier_texts_than_the_likeliest_tokens() {
    for device in devices() {
        let model = whisper(device);
        let features = model.features(&sound(device)).unsqueeze(0);
        let search = |beams: usize| {
            let opts = BeamOpts::default().beams(beams).max_tokens(6);
            model.transcribe_beams(&features, &[1, 5], opts).unwrap()
        };
        let greedy = model.transcribe(&features, &[1, 5], 6).unwrap();
        assert_eq!(search(1)[0].tokens, greedy, "{device}");
        let beams = search(4);
        assert_eq!(beams.len(), 4);
        for Beam { tokens, score: found } in &beams {
            let end = if tokens.len() < 6 { vec![2] } else { vec![] };
            let expected = score(&model, &features, &[&tokens[..], &end].concat());
            assert!((found - expected).abs() < 1e-4, "{device}: {tokens:?} {found} {expected}");
        }
        assert!(beams[0].score >= score(&model, &features, &greedy) - 1e-6, "{device}: {beams:?}");
    }
}

#[test]
fn weights_of_16_bits_hear_as_well() {
    let record = recorded("whisper");
    let checkpoint = Checkpoint::open(record.saved("whisper_16")).unwrap();
    for (dtype, most) in [(DType::F16, 0.02), (DType::BF16, 0.2)] {
        let model = Whisper::load(&checkpoint, LoadModelOpts::default().dtype(dtype)).unwrap();
        let features = model.features(&sound(Device::cpu())).unsqueeze(0);
        let logits = model.forward(&features, &record.tokens(Device::cpu()).narrow(0, 0, 1));
        assert_eq!(logits.dtype(), dtype);
        let expected = Tensor::from_vec(record.output[..8 * 24].to_vec(), [1, 8, 24], ());
        let error = (logits.float() - expected).abs().max(..).item::<f32>().unwrap();
        assert!(error < most, "{dtype}: {error}");
        assert!(!model.transcribe(&features, &[1, 5], 4).unwrap().is_empty());
    }
}

#[test]
fn sound_of_any_length_is_heard() {
    let model = whisper(Device::cpu());
    for length in [0, 1, 16_000, 40_000] {
        let features = model.features(&Tensor::ones([length], ()));
        assert_eq!(features.dims::<2>().unwrap(), [8, 100], "{length}");
        assert!(features.abs().max(..).item::<f32>().unwrap().is_finite(), "{length}");
    }
}

#[test]
fn wrong_speech_is_an_error() {
    let model = whisper(Device::cpu());
    let features = Tensor::zeros([1, 8, 100], ());
    let error =
        |features: &Tensor, prompt: &[i64]| model.transcribe(features, prompt, 4).unwrap_err().to_string();
    assert_eq!(error(&features, &[1; 17]), "expected a text of at most 16 tokens, found 17");
    assert!(error(&features, &[24]).contains("24"));
    assert!(error(&Tensor::zeros([1, 7, 100], ()), &[1]).contains("conv1d"));
    assert!(error(&Tensor::zeros([1, 8, 102], ()), &[1]).contains("narrow"));
    assert!(error(&Tensor::zeros([], ()), &[1]).contains("conv1d"));
    let state = model.decoder.state(&model.encoder.forward(&features), 2);
    let next = |tokens: Tensor| model.decoder.next(&tokens, &state).check().unwrap_err().to_string();
    assert!(next(Tensor::from([[1i64, 2, 3]])).contains("at most 2 positions"));
    assert!(next(Tensor::from([1i64])).contains("expected rank 3, found rank 2"));
}
