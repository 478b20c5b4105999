//! Tokenizers of GGUF files, against what SentencePiece makes of the same texts (`record_pieces.py`).

use kiln::io::gguf::{Gguf, GgufValue};
use kiln_models::{LanguageModel, LoadModelOpts, TextOpts, Tokenizer};
use serde_json::Value;

use crate::record::recorded;

/// A vocabulary of SentencePiece, and texts with their tokens.
struct Pieces {
    record: Value,
}

impl Pieces {
    fn of(kind: &str) -> Pieces {
        let path = format!("{}/tests/recorded/pieces.json", env!("CARGO_MANIFEST_DIR"));
        let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        Pieces { record: all[kind].clone() }
    }

    fn list(&self, key: &str, value: impl Fn(&Value) -> GgufValue) -> GgufValue {
        GgufValue::List(self.record[key].as_array().unwrap().iter().map(value).collect())
    }

    fn texts(&self) -> Vec<(String, Vec<i64>)> {
        let tokens = |text: &Value| serde_json::from_value(text["tokens"].clone()).unwrap();
        let text = |text: &Value| (text["text"].as_str().unwrap().to_string(), tokens(text));
        self.record["texts"].as_array().unwrap().iter().map(text).collect()
    }

    /// A file of llama.cpp that holds only the vocabulary.
    fn gguf(&self) -> Gguf {
        let number = |value: &Value| GgufValue::I32(value.as_i64().unwrap() as i32);
        let mut gguf = Gguf::new();
        for (key, value) in [
            ("model", "llama".into()),
            ("tokens", self.list("tokens", |token| token.as_str().unwrap().into())),
            ("scores", self.list("scores", |score| GgufValue::F32(score.as_f64().unwrap() as f32))),
            ("token_type", self.list("types", number)),
            ("add_space_prefix", GgufValue::Bool(self.record["space"] == true)),
            ("unknown_token_id", GgufValue::U32(0)),
            ("bos_token_id", GgufValue::U32(1)),
        ] {
            gguf.set(&format!("tokenizer.ggml.{key}"), value);
        }
        gguf
    }
}

#[test]
fn pieces_are_those_of_sentencepiece() {
    for kind in ["prefix", "plain"] {
        let pieces = Pieces::of(kind);
        let tokenizer = Tokenizer::from_gguf(&pieces.gguf()).unwrap();
        for (text, tokens) in pieces.texts() {
            assert_eq!(tokenizer.encode(&text, false).unwrap(), tokens, "{kind}: {text:?}");
            assert_eq!(tokenizer.decode(&tokens).unwrap(), text, "{kind}");
            let begun = [&[1], &tokens[..]].concat();
            assert_eq!(tokenizer.encode(&text, true).unwrap(), begun, "{kind}: {text:?}");
        }
    }
}

#[test]
fn a_file_says_whether_a_text_begins_with_a_mark() {
    let mut gguf = Pieces::of("prefix").gguf();
    gguf.set("tokenizer.ggml.add_bos_token", GgufValue::Bool(false));
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    assert_eq!(tokenizer.encode("a", true).unwrap(), tokenizer.encode("a", false).unwrap());
}

#[test]
fn lists_that_are_missing_are_errors() {
    let whole = Pieces::of("plain").gguf();
    let without = |missing: &str| {
        let mut gguf = Gguf::new();
        for (key, value) in whole.metadata().filter(|(key, _)| !key.ends_with(missing)) {
            gguf.set(key, value.clone());
        }
        gguf
    };
    for (missing, message) in [
        ("tokens", "expected a list of tokens, found none"),
        ("scores", "expected a list of scores, found none"),
        ("model", "found nothing"),
    ] {
        let error = Tokenizer::from_gguf(&without(missing)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // Without types all tokens are text, and a space after a space is one of its own.
    let tokenizer = Tokenizer::from_gguf(&without("token_type")).unwrap();
    assert_eq!(tokenizer.decode(&tokenizer.encode("a  b", false).unwrap()).unwrap(), "a  b");
}

/// The recorded Llama with 24 words, before each of which a space is part of the token, and of a text too.
fn model() -> LanguageModel {
    let folder = recorded("llama").saved("spaces");
    let words = (0..24).map(|i| format!("\"\u{2581}w{i}\": {i}")).collect::<Vec<_>>().join(", ");
    let space = r#"{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}"#;
    let tokenizer = format!(
        r#"{{"model": {{"type": "WordLevel", "vocab": {{{words}}}, "unk_token": "\u2581w0"}},
            "pre_tokenizer": {space}, "decoder": {space}}}"#
    );
    std::fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
    LanguageModel::open(folder, LoadModelOpts::default()).unwrap()
}

/// The space that such tokenizers write before a text is none where the text goes on.
#[test]
fn what_is_written_goes_on_where_the_prompt_ends() {
    let (model, prompt) = (model(), "w5 w7 w11");
    let opts = TextOpts::default().max_tokens(4);
    let mut session = model.session_of(16);
    let pieces: Vec<String> = session.complete(prompt, opts.clone()).unwrap().map(Result::unwrap).collect();
    assert!(pieces.iter().all(|piece| piece.starts_with(" w")), "{pieces:?}");
    let together = model.complete_all(&[prompt, "w3"], &opts).unwrap();
    assert_eq!(together[0], pieces.concat());
    assert!(together[1].starts_with(" w"), "{together:?}");
}
