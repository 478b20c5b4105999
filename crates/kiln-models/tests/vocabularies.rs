//! Tokenizers of llama.cpp's files, where they are: `KILN_VOCABS` names the folder `vendor/llama.cpp/models` of the
//! source of the Python package `llama-cpp-python` 0.3.36, which has vocabularies, texts and their tokens.
#![cfg(feature = "text")]

use std::path::PathBuf;

use kiln::io::gguf::Gguf;
use kiln_models::Tokenizer;

fn check(kinds: &[&str]) {
    let Some(folder) = std::env::var_os("KILN_VOCABS").map(PathBuf::from) else {
        return println!("skipped: KILN_VOCABS names no folder with vocabularies");
    };
    for kind in kinds {
        let path = folder.join(format!("ggml-vocab-{kind}.gguf"));
        let beside = |end: &str| std::fs::read_to_string(format!("{}.{end}", path.display())).unwrap();
        let tokenizer = Tokenizer::from_gguf(&Gguf::open(&path).unwrap()).unwrap();
        let (texts, tokens) = (beside("inp"), beside("out"));
        // A mark follows each text.
        let texts: Vec<&str> = texts.split_terminator("\n__ggml_vocab_test__\n").collect();
        assert_eq!(texts.len(), tokens.lines().count());
        for (text, tokens) in texts.iter().zip(tokens.lines()) {
            let expected: Vec<i64> = tokens.split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(tokenizer.encode(text, false).unwrap(), expected, "{kind}: {text:?}");
        }
    }
}

#[test]
fn byte_level_pairs_are_those_of_llama_cpp() {
    check(&["llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "refact", "starcoder", "gpt-2", "mpt"]);
}

#[test]
fn pieces_are_those_of_llama_cpp() {
    check(&["llama-spm", "phi-3"]);
}
