//! How text is cut before byte-level pairs are merged, which GGUF files name.

use serde_json::{Value, json};

use crate::error::Result;
use crate::text::tokenizer::wrong;

/// A way to cut text.
#[derive(Clone, Copy)]
pub(super) struct PreTokenizer {
    /// What llama.cpp calls it.
    names: &'static [&'static str],
    /// Patterns whose matches are pieces of their own, one after the other.
    patterns: &'static [&'static str],
    /// A piece that is a token is one, whatever its pairs merge to.
    pub ignore_merges: bool,
    /// Whether the first token begins a text where the file does not say it.
    pub begins: bool,
}

const PLAIN: PreTokenizer =
    PreTokenizer { names: &[], patterns: &[GPT2], ignore_merges: false, begins: false };

/// Those of models that are of the Llama family.
const KNOWN: [PreTokenizer; 9] = [
    PreTokenizer { names: &["gpt-2", "mpt", "olmo", "jais", "trillion", "a.x-4.0", "mellum"], ..PLAIN },
    PreTokenizer { names: &["default"], patterns: &[PUNCTUATION, GPT2, NUMBER, THREE_DIGITS], ..PLAIN },
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        patterns: &[DIGIT, GPT2],
        ..PLAIN
    },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "midm-2.0"],
        patterns: &[LLAMA3],
        ignore_merges: true,
        begins: true,
    },
    PreTokenizer { names: &["smaug-bpe", "dbrx"], patterns: &[LLAMA3], ..PLAIN },
    PreTokenizer {
        names: &["qwen2", "stablelm2", "deepseek-r1-qwen", "megrez", "kormo"],
        patterns: &[QWEN2],
        ..PLAIN
    },
    PreTokenizer { names: &["tekken"], patterns: &[TEKKEN], ignore_merges: true, begins: true },
    PreTokenizer {
        names: &["deepseek-llm"],
        patterns: &[LINE_END, CASED, WIDE_PUNCTUATION, END_SPACE, CJK_HANGUL, NUMBER],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        patterns: &[LINE_END, LETTERS, PUNCTUATIONS, CJK_HANGUL, DIGIT],
        ..PLAIN
    },
];

/// Words with the space before them, numbers, other signs, and spaces.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Mistral's: a word ends where a capital letter begins the next.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const DIGIT: &str = r"\p{N}";
const THREE_DIGITS: &str = "[0-9][0-9][0-9]";
const NUMBER: &str = r"\p{N}+";
const PUNCTUATION: &str = r"[\p{P}\$\+<=>\^~\|]+";
const LINE_END: &str = r"[\r\n]";
const END_SPACE: &str = r"\s+$";
const LETTERS: &str = r"\s?\p{L}+";
const PUNCTUATIONS: &str = r"\s?\p{P}+";
/// Letters that are large or small.
const CASED: &str = r"\s?[\p{Lu}\p{Ll}\p{Lt}]+";
const WIDE_PUNCTUATION: &str =
    r"\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+";
const CJK_HANGUL: &str = r"[\u{800}-\u{9fa5}\u{ac00}-\u{d7ff}]+";

impl PreTokenizer {
    /// The one of this name.
    ///
    /// # Errors
    /// A name that is not known.
    pub(super) fn of(name: &str) -> Result<PreTokenizer> {
        let known = KNOWN.into_iter().find(|cut| cut.names.contains(&name));
        let names = || KNOWN.iter().flat_map(|cut| cut.names).copied().collect::<Vec<_>>().join(", ");
        known.ok_or_else(|| wrong(format!("expected a way to cut text of {}, found {name}", names())))
    }

    /// As `tokenizer.json` has it, with bytes written as letters in the end.
    pub(super) fn json(&self) -> Value {
        let cut = |pattern: &&str| {
            json!({
                "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false,
            })
        };
        let steps: Vec<Value> = self.patterns.iter().map(cut).chain([byte_level()]).collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

/// Bytes as letters, or letters as bytes.
pub(super) fn byte_level() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})
}
