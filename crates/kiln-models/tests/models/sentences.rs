//! Sentences as vectors: what a folder of `sentence-transformers` says of them.

use std::path::{Path, PathBuf};

use kiln_models::{LoadModelOpts, SentenceEncoder};

use crate::record::recorded;

/// The recorded BERT, with words `w0` to `w23`, of which `w1` begins and `w2` ends a text, and further files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = recorded("bert").saved(&format!("sentences_{name}"));
    let words = (0..24).map(|i| format!("\"w{i}\": {i}")).collect::<Vec<_>>().join(", ");
    let mark = |id: usize| format!(r#""w{id}": {{"id": "w{id}", "ids": [{id}], "tokens": ["w{id}"]}}"#);
    let special = |id: usize| format!(r#"{{"SpecialToken": {{"id": "w{id}", "type_id": 0}}}}"#);
    let [first, last] = [special(1), special(2)];
    let tokenizer = format!(
        r#"{{"model": {{"type": "WordLevel", "vocab": {{{words}}}, "unk_token": "w0"}},
            "pre_tokenizer": {{"type": "Whitespace"}},
            "post_processor": {{"type": "TemplateProcessing",
                "single": [{first}, {{"Sequence": {{"id": "A", "type_id": 0}}}}, {last}],
                "pair": [], "special_tokens": {{{}, {}}}}}}}"#,
        mark(1),
        mark(2)
    );
    for (file, text) in [("tokenizer.json", &tokenizer[..])].iter().chain(files) {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn open(name: &str, files: &[(&str, &str)]) -> kiln_models::Result<SentenceEncoder> {
    SentenceEncoder::open(folder(name, files), LoadModelOpts::default())
}

fn vector(encoder: &SentenceEncoder, text: &str) -> Vec<f32> {
    encoder.encode(&[text]).unwrap().to_vec().unwrap()
}

/// Whether two vectors of length one are the same, but for rounding.
fn same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5)
}

const POOLING: &str = "1_Pooling/config.json";

/// As `sentence-transformers` cuts it: what ends a text stays.
#[test]
fn texts_that_are_too_long_lose_their_last_words() {
    let cut = open("cut", &[("sentence_bert_config.json", r#"{"max_seq_length": 6}"#)]).unwrap();
    let whole = open("whole", &[]).unwrap();
    let text = "w5 w7 w11 w4 w20 w3 w8";
    assert!(same(&vector(&cut, text), &vector(&whole, "w5 w7 w11 w4")));
    assert!(!same(&vector(&cut, text), &vector(&whole, text)));
    // The model has 16 positions.
    let long = "w5 w7 ".repeat(12);
    assert!(same(&vector(&whole, &long), &vector(&whole, &"w5 w7 ".repeat(7))));
}

#[test]
fn a_folder_says_how_tokens_become_one_vector() {
    let text = "w5 w7 w11";
    let [mean, first] = ["mean_tokens", "cls_token"].map(|mode| {
        let config = format!(r#"{{"word_embedding_dimension": 16, "pooling_mode_{mode}": true}}"#);
        vector(&open(mode, &[(POOLING, &config)]).unwrap(), text)
    });
    assert!(!same(&mean, &first));
    assert_eq!(mean, vector(&open("plain", &[]).unwrap(), text));
    for (mode, expected) in [("mean", mean), ("cls", first)] {
        let config = format!(r#"{{"pooling_mode": "{mode}"}}"#);
        assert_eq!(vector(&open(mode, &[(POOLING, &config)]).unwrap(), text), expected);
    }
}

#[test]
fn what_would_give_other_vectors_is_an_error() {
    let modules = r#"[{"type": "sentence_transformers.models.Pooling"}, {"type": "sentence_transformers.models.Dense"}]"#;
    for (name, file, text, expected) in [
        ("last", POOLING, r#"{"pooling_mode_lasttoken": true}"#, "to be mean or cls, found lasttoken"),
        (
            "two",
            POOLING,
            r#"{"pooling_mode": "max", "pooling_mode_cls_token": true}"#,
            "found cls_token and max",
        ),
        ("list", POOLING, r#"{"pooling_mode": ["max"]}"#, "pooling_mode to be a text"),
        ("dense", "modules.json", modules, "to be Transformer, Pooling or Normalize, found Dense"),
        ("flag", POOLING, r#"{"pooling_mode_cls_token": 3}"#, "to be true or false, found 3"),
        (
            "short",
            "sentence_bert_config.json",
            r#"{"max_seq_length": 1}"#,
            "at least 2 tokens, found a limit of 1",
        ),
    ] {
        let error = open(name, &[(file, text)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
