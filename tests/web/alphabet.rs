//! A language model that knows the alphabet.

use std::path::Path;

use kiln::io::gguf::{BlockFormat, Gguf, GgufValue};
use kiln::prelude::*;

const WIDTH: usize = 64;
const INNER: usize = 96;
const END: &str = "<|im_end|>";

/// Writes a GGUF file of two layers and random weights. Those of its layers are small, and the logits of each token
/// are made with the embedding of the one before it: after `abc` come `d` to `z`, and then the end.
pub fn save(path: &Path) {
    kiln::manual_seed(1);
    let tokens = tokens();
    let embedding = Tensor::randn([tokens.len(), WIDTH], ());
    let mut file = Gguf::new();
    describe(&mut file, &tokens);
    let mut packed = |name: &str, tensor: &Tensor| {
        file.insert_packed(name, tensor, BlockFormat::Q8_0).expect("a tensor in blocks");
    };
    packed("token_embd.weight", &embedding);
    packed("output.weight", &embedding.roll(1, 0));
    let matrices = [
        ("attn_q", WIDTH, WIDTH),
        ("attn_k", WIDTH / 2, WIDTH),
        ("attn_v", WIDTH / 2, WIDTH),
        ("attn_output", WIDTH, WIDTH),
        ("ffn_gate", INNER, WIDTH),
        ("ffn_up", INNER, WIDTH),
        ("ffn_down", WIDTH, INNER),
    ];
    for layer in 0..2 {
        for (name, rows, columns) in matrices {
            packed(&format!("blk.{layer}.{name}.weight"), &(Tensor::randn([rows, columns], ()) * 0.02));
        }
    }
    let norms = ["blk.0.attn_norm", "blk.0.ffn_norm", "blk.1.attn_norm", "blk.1.ffn_norm", "output_norm"];
    for name in norms {
        file.insert(&format!("{name}.weight"), &Tensor::ones([WIDTH], ())).expect("a tensor");
    }
    file.save(path).expect("a file");
}

fn describe(file: &mut Gguf, tokens: &[String]) {
    let texts = |texts: &[String]| GgufValue::List(texts.iter().map(|text| text.as_str().into()).collect());
    let kinds = tokens.iter().map(|token| GgufValue::U32(if token == END { 3 } else { 1 }));
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let counts = [
        ("llama.embedding_length", WIDTH),
        ("llama.feed_forward_length", INNER),
        ("llama.block_count", 2),
        ("llama.context_length", 128),
        ("llama.attention.head_count", 4),
        ("llama.attention.head_count_kv", 2),
    ];
    counts.into_iter().for_each(|(key, count)| file.set(key, GgufValue::U32(count as u32)));
    file.set("general.architecture", "llama".into());
    file.set("llama.attention.layer_norm_rms_epsilon", GgufValue::F32(1e-5));
    file.set("tokenizer.ggml.model", "gpt2".into());
    file.set("tokenizer.ggml.tokens", texts(tokens));
    file.set("tokenizer.ggml.token_type", GgufValue::List(kinds.collect()));
    file.set("tokenizer.ggml.merges", texts(&[]));
    file.set("tokenizer.chat_template", template.into());
}

/// The letters, the end, and what else a text is made of: a character for each byte, as GPT-2 has them.
fn tokens() -> Vec<String> {
    let shown = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let (shown, others): (Vec<u8>, Vec<u8>) = (0..=255).partition(shown);
    let letters = (b'a'..=b'z').map(char::from);
    let rest = shown.into_iter().filter(|byte| !byte.is_ascii_lowercase()).map(char::from);
    let others = (0..others.len() as u32).filter_map(|number| char::from_u32(256 + number));
    let text = |character: char| character.to_string();
    letters.map(text).chain([END.into()]).chain(rest.map(text)).chain(others.map(text)).collect()
}
