//! The tokenizer in a GGUF file, as a `tokenizer.json` would have it.

use kiln::io::gguf::{Gguf, GgufValue};
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::text::pre_tokenizer::{PreTokenizer, byte_level};
use crate::text::sentence_piece;
use crate::text::tokenizer::wrong;

/// Types of tokens: marks, and those that users added.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// What kinds of tokenizers differ in.
struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    model: Value,
    /// Whether the first token begins a text where the file does not say it.
    begins: bool,
}

/// A `tokenizer.json` of the file's lists.
///
/// # Errors
/// A kind of tokenizer that is not known, or lists that are missing.
pub(super) fn tokenizer_json(gguf: &Gguf) -> Result<Value> {
    let parts = match text(gguf, "model") {
        Some("gpt2") => byte_pairs(gguf)?,
        Some("llama") => sentence_pieces(gguf)?,
        other => {
            let known = "byte-level pairs (gpt2), SentencePiece (llama), or a tokenizer.json beside the file";
            return Err(wrong(format!("expected {known}, found {}", other.unwrap_or("nothing"))));
        }
    };
    let tokens = texts(gguf, "tokens")?;
    Ok(json!({
        "version": "1.0",
        "added_tokens": added(gguf, &tokens),
        "normalizer": parts.normalizer,
        "pre_tokenizer": parts.pre_tokenizer,
        "post_processor": beginning(gguf, &tokens, parts.begins),
        "decoder": parts.decoder,
        "model": parts.model,
    }))
}

fn byte_pairs(gguf: &Gguf) -> Result<Parts> {
    let cut = PreTokenizer::of(text(gguf, "pre").unwrap_or("default"))?;
    let tokens = texts(gguf, "tokens")?.into_iter().enumerate();
    let vocab: Map<String, Value> = tokens.map(|(id, token)| (token.to_string(), json!(id))).collect();
    let merges = texts(gguf, "merges")?;
    Ok(Parts {
        normalizer: Value::Null,
        pre_tokenizer: cut.json(),
        decoder: byte_level(),
        model: json!({"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": cut.ignore_merges}),
        begins: cut.begins,
    })
}

fn sentence_pieces(gguf: &Gguf) -> Result<Parts> {
    let tokens = texts(gguf, "tokens")?;
    let scores = list(gguf, "scores").ok_or_else(|| wrong("expected a list of scores, found none"))?;
    let scores = scores.iter().map(|score| score.as_f64().unwrap_or_default());
    let pieces: Vec<_> = tokens.iter().copied().zip(scores).collect();
    let unknown = token(gguf, "unknown_token_id", &tokens).map(|(_, text)| text);
    let space = flag(gguf, "add_space_prefix").unwrap_or(true);
    Ok(Parts {
        normalizer: sentence_piece::normalizer(space),
        pre_tokenizer: Value::Null,
        decoder: sentence_piece::decoder(space),
        model: sentence_piece::model(&pieces, unknown),
        begins: true,
    })
}

fn get<'a>(gguf: &'a Gguf, key: &str) -> Option<&'a GgufValue> {
    gguf.get(&format!("tokenizer.ggml.{key}"))
}

fn text<'a>(gguf: &'a Gguf, key: &str) -> Option<&'a str> {
    get(gguf, key).and_then(GgufValue::as_text)
}

fn flag(gguf: &Gguf, key: &str) -> Option<bool> {
    match get(gguf, key) {
        Some(GgufValue::Bool(flag)) => Some(*flag),
        Some(_) | None => None,
    }
}

fn list<'a>(gguf: &'a Gguf, key: &str) -> Option<&'a [GgufValue]> {
    get(gguf, key).and_then(GgufValue::as_list)
}

fn texts<'a>(gguf: &'a Gguf, key: &str) -> Result<Vec<&'a str>> {
    let texts = list(gguf, key).and_then(|list| list.iter().map(GgufValue::as_text).collect());
    texts.ok_or_else(|| wrong(format!("expected a list of {key}, found none")))
}

/// A token that an entry gives the number of, and its text.
fn token<'a>(gguf: &Gguf, key: &str, tokens: &[&'a str]) -> Option<(u64, &'a str)> {
    let id = get(gguf, key).and_then(GgufValue::as_u64)?;
    Some((id, tokens.get(usize::try_from(id).ok()?)?))
}

/// Tokens that are found in the text whole.
fn added(gguf: &Gguf, tokens: &[&str]) -> Vec<Value> {
    let types = list(gguf, "token_type").unwrap_or_default().iter().map(GgufValue::as_u64);
    let marks = tokens.iter().zip(types).enumerate();
    let marks = marks.filter(|(_, (_, kind))| matches!(kind, Some(CONTROL | USER_DEFINED)));
    let mark = |(id, (token, kind)): (usize, (&&str, Option<u64>))| {
        json!({
            "id": id, "content": token, "special": kind == Some(CONTROL), "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    marks.map(mark).collect()
}

/// What puts the first token before a text, if the model wants it.
fn beginning(gguf: &Gguf, tokens: &[&str], begins: bool) -> Value {
    let wanted = flag(gguf, "add_bos_token").unwrap_or(begins);
    let first = token(gguf, "bos_token_id", tokens).filter(|_| wanted);
    first.map_or(Value::Null, |(id, token)| {
        let mark = json!({"SpecialToken": {"id": token, "type_id": 0}});
        let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
        json!({
            "type": "TemplateProcessing", "single": [mark, text("A")], "pair": [mark, text("A"), text("B")],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
        })
    })
}
