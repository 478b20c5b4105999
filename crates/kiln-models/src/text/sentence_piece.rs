//! SentencePiece's tokenizers, as GGUF files have them: pieces of text with scores.

use std::collections::HashMap;

use serde_json::{Value, json};

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// The model of a `tokenizer.json` that merges pairs of pieces into the piece with the best score first, as
/// SentencePiece's own does (Kudo and Richardson 2018). What no piece is becomes bytes.
pub(super) fn model(pieces: &[(&str, f64)], unknown: Option<&str>) -> Value {
    let vocab: HashMap<&str, usize> = pieces.iter().enumerate().map(|(id, (text, _))| (*text, id)).collect();
    let merges = merges(pieces, &vocab);
    json!({
        "type": "BPE", "vocab": vocab, "merges": merges, "unk_token": unknown, "fuse_unk": true,
        "byte_fallback": true,
    })
}

/// Pairs that are pieces together, the best first.
fn merges<'a>(pieces: &[(&'a str, f64)], vocab: &HashMap<&str, usize>) -> Vec<[&'a str; 2]> {
    let halves = |text: &'a str| text.char_indices().skip(1).map(move |(at, _)| text.split_at(at).into());
    let known = |pair: &[&str; 2]| pair.iter().all(|half| vocab.contains_key(half));
    let merges_of =
        |&(text, score): &(&'a str, f64)| halves(text).filter(known).map(move |pair| (score, pair));
    let mut merges: Vec<(f64, [&str; 2])> = pieces.iter().flat_map(merges_of).collect();
    merges.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    merges.into_iter().map(|(_, pair)| pair).collect()
}

/// Spaces as SentencePiece writes them, with one more before the text if `begins`.
pub(super) fn normalizer(begins: bool) -> Value {
    let first = begins.then(|| json!({"type": "Prepend", "prepend": SPACE}));
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    json!({"type": "Sequence", "normalizers": first.into_iter().chain([spaces]).collect::<Vec<_>>()})
}

/// The way back.
pub(super) fn decoder(begins: bool) -> Value {
    let steps = [
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    let first = begins.then(|| json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    json!({"type": "Sequence", "decoders": steps.into_iter().chain(first).collect::<Vec<_>>()})
}
