//! The tokenizer in a GGUF file, as a `tokenizer.json` would have it.

use kiln::io::gguf::{Gguf, GgufValue};
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::text::tokenizer::wrong;

/// How text is cut before pairs are merged, by the name that llama.cpp has for it: numbers and words.
const CUTS: [(&[&str], Cut); 4] = [
    (&["gpt-2", "default"], Cut { regex: GPT2, digits: false, whole: false }),
    (&["smollm", "starcoder", "refact", "command-r"], Cut { regex: GPT2, digits: true, whole: false }),
    (&["llama-bpe", "llama3", "llama-v3", "smaug-bpe"], Cut { regex: LLAMA3, digits: false, whole: true }),
    (&["qwen2", "stablelm2", "deepseek-r1-qwen"], Cut { regex: QWEN2, digits: false, whole: false }),
];

#[derive(Clone, Copy)]
struct Cut {
    regex: &'static str,
    /// Each digit is a piece.
    digits: bool,
    /// A piece that is a token is one, whatever its pairs merge to.
    whole: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Types of tokens: marks, and those that users added.
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;

/// A `tokenizer.json` of the file's lists.
///
/// # Errors
/// A kind of tokenizer that is not known, or lists that are missing.
pub(super) fn tokenizer_json(gguf: &Gguf) -> Result<Value> {
    let text = |key: &str| gguf.get(&format!("tokenizer.ggml.{key}")).and_then(GgufValue::as_text);
    let kind = text("model").unwrap_or("nothing");
    if kind != "gpt2" {
        let known = "byte-level pairs (gpt2), or a tokenizer.json beside the file";
        return Err(wrong(format!("expected {known}, found {kind}")));
    }
    let cut = cut(text("pre").unwrap_or("default"))?;
    let tokens = texts(gguf, "tokens")?;
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.to_string(), json!(id))).collect();
    let split = json!({
        "type": "Split", "pattern": {"Regex": cut.regex}, "behavior": "Isolated", "invert": false,
    });
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    });
    let digits = cut.digits.then(|| json!({"type": "Digits", "individual_digits": true}));
    let steps: Vec<Value> = digits.into_iter().chain([split, bytes.clone()]).collect();
    Ok(json!({
        "version": "1.0",
        "added_tokens": added(gguf, &tokens),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "post_processor": beginning(gguf, &tokens),
        "decoder": bytes,
        "model": {"type": "BPE", "vocab": vocab, "merges": texts(gguf, "merges")?, "ignore_merges": cut.whole},
    }))
}

fn cut(name: &str) -> Result<Cut> {
    let known = CUTS.iter().find(|(names, _)| names.contains(&name)).map(|&(_, cut)| cut);
    let names = || CUTS.iter().flat_map(|(names, _)| *names).copied().collect::<Vec<_>>().join(", ");
    known.ok_or_else(|| wrong(format!("expected a way to cut text of {}, found {name}", names())))
}

fn texts<'a>(gguf: &'a Gguf, key: &str) -> Result<Vec<&'a str>> {
    let list = gguf.get(&format!("tokenizer.ggml.{key}")).and_then(GgufValue::as_list);
    let texts = list.and_then(|list| list.iter().map(GgufValue::as_text).collect());
    texts.ok_or_else(|| wrong(format!("expected a list of {key}, found none")))
}

/// Tokens that are found in the text whole.
fn added(gguf: &Gguf, tokens: &[&str]) -> Vec<Value> {
    let types = gguf.get("tokenizer.ggml.token_type").and_then(GgufValue::as_list).unwrap_or_default();
    let types = types.iter().map(GgufValue::as_u64);
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
fn beginning(gguf: &Gguf, tokens: &[&str]) -> Value {
    let wanted = gguf.get("tokenizer.ggml.add_bos_token") == Some(&GgufValue::Bool(true));
    let id = gguf.get("tokenizer.ggml.bos_token_id").and_then(GgufValue::as_u64).filter(|_| wanted);
    let first = id.and_then(|id| Some((id, *tokens.get(usize::try_from(id).ok()?)?)));
    first.map_or(Value::Null, |(id, token)| {
        let mark = json!({"SpecialToken": {"id": token, "type_id": 0}});
        let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
        json!({
            "type": "TemplateProcessing", "single": [mark, text("A")], "pair": [mark, text("A"), text("B")],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
        })
    })
}
