//! Published models against what `transformers` computes for small ones of each kind (`record.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiln::io::gguf::{Gguf, GgufValue};
use kiln::nn::{Layer, ModuleExt};
use kiln::prelude::*;
use kiln::{StateDict, no_grad};
use kiln_models::{Bert, Checkpoint, Config, Llama, LoadModelOpts, ResNet, Vit};
use serde_json::Value;

const DECODERS: [&str; 8] = ["llama", "llama_yarn", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"];

/// The CPU, and others where they are.
fn devices() -> Vec<Device> {
    let all = [Device::cpu(), Device::wgpu(0), Device::cuda(0)];
    all.into_iter().filter(|device| device.probe().is_ok()).collect()
}

struct Recorded {
    text: String,
    tokens: Vec<i64>,
    mask: Option<Vec<bool>>,
    output: Vec<f32>,
    weights: BTreeMap<String, Tensor>,
}

/// Reads a record, and makes the weights by the formula of the script.
fn recorded(name: &str) -> Recorded {
    let path = format!("{}/tests/recorded/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let record: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let text = record["config"].to_string();
    let numbers = |key: &str| -> Vec<i64> {
        let Some(rows) = record[key].as_array() else { return Vec::new() };
        rows.iter().flat_map(|row| row.as_array().unwrap()).map(|token| token.as_i64().unwrap()).collect()
    };
    let shapes: BTreeMap<String, Vec<usize>> = serde_json::from_value(record["names"].clone()).unwrap();
    let weights = shapes.into_iter().enumerate().map(|(k, (weight, shape))| {
        let norm = weight.to_lowercase().contains("norm") && weight.ends_with("weight");
        let one = norm && !name.starts_with("gemma") || weight.ends_with("running_var");
        let base = if one { 1.0 } else { 0.0 };
        let value = |i: usize| (base + 0.2 * (0.7 * i as f64 + 1.3 * k as f64).sin()) as f32;
        let numel = shape.iter().product();
        (weight, Tensor::from_vec((0..numel).map(value).collect::<Vec<f32>>(), &shape[..], ()))
    });
    Recorded {
        weights: weights.collect(),
        tokens: numbers("tokens"),
        mask: record.get("mask").map(|_| numbers("mask").into_iter().map(|mask| mask == 1).collect()),
        output: serde_json::from_value(record["output"].clone()).unwrap(),
        text,
    }
}

impl Recorded {
    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        self.weights.iter().for_each(|(name, tensor)| state.insert(name, tensor).unwrap());
        state
    }

    /// The checkpoint that a folder of these files is.
    fn saved(&self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("models/{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.json"), &self.text).unwrap();
        self.state().save(folder.join("model.safetensors")).unwrap();
        folder
    }

    fn tokens(&self, device: Device) -> Tensor {
        Tensor::from_vec(self.tokens.clone(), [2, 8], device)
    }
}

fn assert_near(found: &Tensor, expected: &[f32], what: &str) {
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    let most = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f32::max);
    assert!(most < 2e-5, "{what}: {most}");
}

/// The last eight tokens at once, and the same by a cache: five, then one by one.
fn check_decoder(name: &str, device: Device) {
    let record = recorded(name);
    let opts = LoadModelOpts::default().device(device);
    let model = Llama::load(&Checkpoint::open(record.saved(name)).unwrap(), opts).unwrap();
    let tokens = record.tokens(device);
    let all = model.forward(&tokens);
    assert_near(&all, &record.output, &format!("{name} on {device}"));

    let _no_graph = no_grad();
    let caches = model.caches(2, 16);
    let last =
        |logits: &Tensor, place: i64| (logits - all.i((.., place))).abs().max(..).item::<f32>().unwrap();
    assert!(last(&model.next(&tokens.narrow(1, 0, 5), &caches), 4) < 2e-5, "{name} on {device}");
    for place in 5..8 {
        let logits = model.next(&tokens.narrow(1, place, 1), &caches);
        assert!(last(&logits, place) < 2e-5, "{name} on {device}, token {place}");
    }
}

#[test]
fn decoders_compute_what_transformers_computes() {
    for device in devices() {
        DECODERS.iter().for_each(|name| check_decoder(name, device));
    }
}

#[test]
fn bert_computes_what_transformers_computes() {
    let record = recorded("bert");
    for device in devices() {
        let opts = LoadModelOpts::default().device(device);
        let model = Bert::load(&Checkpoint::open(record.saved("bert")).unwrap(), opts).unwrap();
        let mask = Tensor::from_vec(record.mask.clone().unwrap(), [2, 8], device);
        let vectors = model.encode(&record.tokens(device), Some(&mask));
        assert_near(&vectors, &record.output, &format!("bert on {device}"));
    }
}

#[test]
fn classifiers_of_images_compute_what_transformers_computes() {
    let values = (0..2 * 3 * 32 * 32).map(|i| (0.1 * f64::from(i)).sin() as f32).collect::<Vec<f32>>();
    for (device, name) in
        devices().into_iter().flat_map(|d| ["resnet", "resnet_bottleneck", "vit"].map(|n| (d, n)))
    {
        let record = recorded(name);
        let checkpoint = Checkpoint::open(record.saved(name)).unwrap();
        let opts = LoadModelOpts::default().device(device);
        let images = Tensor::from_vec(values.clone(), [2, 3, 32, 32], device);
        let scores = if name == "vit" {
            Vit::load(&checkpoint, opts).unwrap().forward(&images)
        } else {
            let model = ResNet::load(&checkpoint, opts).unwrap();
            model.eval();
            model.forward(&images)
        };
        assert_near(&scores, &record.output, &format!("{name} on {device}"));
    }
}

/// Rows of each head in the order of llama.cpp: turned planes are neighbours.
fn interleaved(weight: &Tensor, heads: usize) -> Tensor {
    let [rows, width] = weight.dims::<2>().unwrap();
    weight.reshape([heads, 2, rows / heads / 2, width]).transpose(1, 2).reshape([rows, width])
}

#[test]
fn a_file_of_llama_cpp_is_the_same_model() {
    let record = recorded("llama");
    let mut gguf = Gguf::new();
    gguf.set("general.architecture", "llama".into());
    for (key, value) in [("embedding_length", 16), ("feed_forward_length", 20), ("block_count", 2)] {
        gguf.set(&format!("llama.{key}"), GgufValue::U32(value));
    }
    gguf.set("llama.attention.head_count", GgufValue::U32(4));
    gguf.set("llama.attention.head_count_kv", GgufValue::U32(2));
    gguf.set("llama.attention.layer_norm_rms_epsilon", GgufValue::F32(1e-5));
    gguf.set("llama.rope.freq_base", GgufValue::F32(100.0));
    gguf.set("llama.rope.scaling.type", "linear".into());
    gguf.set("llama.rope.scaling.factor", GgufValue::F32(2.0));
    let names = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("_proj", ""),
    ];
    for (name, tensor) in &record.weights {
        let renamed = names.iter().fold(name.clone(), |name, (from, to)| name.replace(from, to));
        let turned = [("q_proj", 4), ("k_proj", 2)].into_iter().find(|(part, _)| name.contains(part));
        let tensor = turned.map_or_else(|| tensor.clone(), |(_, heads)| interleaved(tensor, heads));
        gguf.insert(&renamed, &tensor).unwrap();
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llama.gguf");
    gguf.save(&path).unwrap();
    let model = Llama::load(&Checkpoint::open(&path).unwrap(), LoadModelOpts::default()).unwrap();

    let linear = record.text.replace("llama3", "linear").replace("\"factor\":4.0", "\"factor\":2.0");
    let plain = Llama::new(&Config::parse("config.json", &linear).unwrap(), ()).unwrap();
    plain.load_state_dict_with(&record.state(), Llama::load_opts()).unwrap();
    let tokens = record.tokens(Device::cpu());
    assert_near(&model.forward(&tokens), &plain.forward(&tokens).to_vec::<f32>().unwrap(), "gguf");
}

#[test]
fn wrong_configurations_are_errors_that_name_the_entry() {
    let text = recorded("llama").text;
    let error = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let config = Config::parse("config.json", &text.replace(from, to));
        config.and_then(|config| Llama::new(&config, Device::meta())).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("\"model_type\":\"llama\"", "\"model_type\":\"mamba\"", "expected model_type to be llama, mistral"),
        ("\"hidden_size\":16,", "", "expected hidden_size to be a count, found nothing"),
        ("\"hidden_size\":16", "\"hidden_size\":-1", "expected hidden_size to be a count, found -1"),
        ("\"num_hidden_layers\":2", "\"num_hidden_layers\":1e18", "expected num_hidden_layers to be"),
        ("\"num_hidden_layers\":2", "\"num_hidden_layers\":100000000", "from 1 to 1024, found 100000000"),
        ("\"num_attention_heads\":4", "\"num_attention_heads\":0", "from 1 to 1024, found 0"),
        ("\"num_key_value_heads\":2", "\"num_key_value_heads\":3", "a divisor of 4 heads, found 3"),
        ("\"hidden_act\":\"silu\"", "\"hidden_act\":\"sine\"", "expected hidden_act to be gelu"),
        ("\"rope_type\":\"llama3\"", "\"rope_type\":\"longrope\"", "default, linear, llama3 or yarn"),
        ("\"rope_theta\":100.0", "\"rope_theta\":0.0", "expected rope_theta to be a positive number"),
        ("{", "[", "config.json: "),
    ] {
        let found = error(from, to);
        assert!(found.contains(expected), "{found}");
    }
}
