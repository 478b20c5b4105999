//! Sessions of language models whose tokens are guessed, and whose caches are of 8 bits.

use std::path::PathBuf;

use kiln::nn::Sampling;
use kiln::prelude::*;
use kiln_models::{LanguageModel, LoadModelOpts, Session, TextOpts};

use crate::record::recorded;

/// The recorded Llama, and the tokens `w0` to `w23`, of which the last is another word.
fn folder(name: &str, last: &str) -> PathBuf {
    let words: Vec<String> = (0..24).map(|i| if i == 23 { last.into() } else { format!("w{i}") }).collect();
    let numbered = words.iter().enumerate().map(|(i, word)| format!("\"{word}\": {i}"));
    let vocabulary = numbered.collect::<Vec<_>>().join(", ");
    let folder = recorded("llama").saved(name);
    let model = format!(r#"{{"type": "WordLevel", "vocab": {{{vocabulary}}}, "unk_token": "w0"}}"#);
    let tokenizer = format!(r#"{{"model": {model}, "pre_tokenizer": {{"type": "Whitespace"}}}}"#);
    std::fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
    folder
}

fn model(name: &str, last: &str) -> LanguageModel {
    LanguageModel::open(folder(name, last), LoadModelOpts::default()).unwrap()
}

/// Two texts, of which the second continues the first, and how many guesses were read and were right.
fn texts(mut session: Session) -> ([String; 2], (usize, usize)) {
    let sampling = Sampling::greedy().repetition_penalty(1.1);
    let opts = TextOpts::default().sampling(sampling).max_tokens(20);
    let (mut prompt, mut guesses) = ("w5 w7 w11".to_string(), (0, 0));
    let texts = [(); 2].map(|()| {
        let mut stream = session.complete(&prompt, opts.clone()).unwrap();
        let text: String = stream.by_ref().map(Result::unwrap).collect();
        let (guessed, right) = stream.guesses();
        guesses = (guesses.0 + guessed, guesses.1 + right);
        prompt = format!("{prompt}{text} w3");
        text
    });
    (texts, guesses)
}

#[test]
fn guesses_do_not_change_what_a_session_writes() {
    let model = model("guessing", "w23");
    let session = || model.session_of(60);
    let (plain, none) = texts(session());
    assert_eq!(none, (0, 0));
    assert!(plain.iter().all(|text| text.split_whitespace().count() >= 5), "{plain:?}");
    // A draft that is the model itself is right.
    let (drafted, (guessed, right)) = texts(session().draft(&model, 3).unwrap());
    assert_eq!(drafted, plain);
    assert!(guessed >= 8 && right >= 8, "{right} of {guessed}");
    let (found, (guessed, right)) = texts(session().lookup(4));
    assert_eq!(found, plain);
    assert!(right <= guessed);
    // Keys and values of 8 bits are near enough to write the same here.
    let codes = || session().cache_dtype(DType::U8);
    assert_eq!(texts(codes()).0[0], plain[0]);
    assert_eq!(texts(codes().draft(&model, 3).unwrap()).0[0], plain[0]);
}

#[test]
fn a_draft_of_another_vocabulary_is_an_error() {
    let (own, other) = (model("guessing_own", "w23"), model("guessing_other", "word"));
    let error = own.session_of(8).draft(&other, 4).unwrap_err().to_string();
    let expected = "expected a draft model of the same vocabulary, found one of which 1 tokens differ";
    assert!(error.contains(expected), "{error}");
}

/// Also on what the caches hold from before.
#[test]
fn a_repetition_penalty_falls_on_all_that_a_session_has_seen() {
    let model = model("penalized", "w23");
    let sampling = Sampling::greedy().repetition_penalty(1e3);
    let opts = TextOpts::default().sampling(sampling).max_tokens(3);
    let written = |session: &mut Session, prompt: &str| -> String {
        session.complete(prompt, opts.clone()).unwrap().map(Result::unwrap).collect()
    };
    let prompt = "w5 w7 w11 w2";
    let mut session = model.session_of(60);
    let longer = format!("{prompt}{}", written(&mut session, prompt));
    let expected = written(&mut model.session_of(60), &longer);
    assert_eq!(written(&mut session, &longer), expected);
    assert!(
        expected.split_whitespace().all(|word| !longer.split(' ').any(|seen| seen == word)),
        "{expected}, {longer}"
    );
    let mut guessing = model.session_of(60).draft(&model, 2).unwrap();
    assert_eq!(format!("{prompt}{}", written(&mut guessing, prompt)), longer);
    assert_eq!(written(&mut guessing, &longer), expected);
}
