//! Published models against what `transformers` computes for small ones of each kind (`record.py`).

use std::path::Path;

use kiln::io::gguf::{Gguf, GgufValue};
use kiln::nn::{KvCache, Layer, ModuleExt};
use kiln::prelude::*;
use kiln::{Context, StateDict, no_grad, with_context};
use kiln_models::{Bert, Checkpoint, Config, Llama, LoadModelOpts, ResNet, Vit};
use serde_json::Value;

mod beams;
mod checkpoints;
mod configs;
#[cfg(feature = "text")]
mod guesses;
#[cfg(feature = "hub")]
mod hub;
#[cfg(feature = "hub")]
#[path = "../../../../tests/support/hub_server.rs"]
mod hub_server;
#[cfg(feature = "images")]
mod media;
mod record;
#[cfg(feature = "text")]
mod sentences;
#[cfg(feature = "text")]
mod templates;
#[cfg(feature = "text")]
mod tokenizers;
mod trained;
mod unet2d;
mod whisper;

use record::{Recorded, assert_near, devices, recorded};

const DECODERS: [&str; 9] =
    ["llama", "llama_yarn", "mistral", "smollm3", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"];

/// The last eight tokens at once, and the same by a cache: five, then one by one.
fn check_decoder(name: &str, device: Device) {
    let record = recorded(name);
    let opts = LoadModelOpts::default().device(device);
    let model = Llama::load(&Checkpoint::open(record.saved(name)).unwrap(), opts).unwrap();
    let tokens = record.tokens(device);
    let all = model.forward(&tokens);
    assert_near(&all, &record.output, &format!("{name} on {device}"));

    let _no_graph = no_grad();
    let each = model.next_all(&tokens.narrow(1, 0, 5), &model.caches(2, 16));
    let expected = all.narrow(1, 0, 5);
    assert!((each - expected).abs().max(..).item::<f32>().unwrap() < 2e-5, "{name} on {device}");
    let caches = model.caches(2, 16);
    let last =
        |logits: &Tensor, place: i64| (logits - all.i((.., place))).abs().max(..).item::<f32>().unwrap();
    assert!(last(&model.next(&tokens.narrow(1, 0, 5), &caches), 4) < 2e-5, "{name} on {device}");
    let (decoder, decoder_caches) = (model.decoder(), model.caches(2, 16));
    let each = decoder.next_all(&tokens.narrow(1, 0, 5), &decoder_caches);
    assert!(last(&each.i((.., -1)), 4) < 2e-5, "{name} on {device}, by functions");
    for place in 5..8 {
        let token = tokens.narrow(1, place, 1);
        let logits = model.next(&token, &caches);
        assert!(last(&logits, place) < 2e-5, "{name} on {device}, token {place}");
        let logits = decoder.next(&token, &decoder_caches);
        assert!(last(&logits, place) < 2e-5, "{name} on {device}, token {place}, by functions");
    }
}

#[test]
fn decoders_compute_what_transformers_computes() {
    for device in devices() {
        DECODERS.iter().for_each(|name| check_decoder(name, device));
    }
}

/// The vectors of the record's texts, of which the second is shorter.
fn vectors(model: &Bert, record: &Recorded) -> Tensor {
    let device = model.norm.weight.device();
    let mask = Tensor::from_vec(record.mask.clone().unwrap(), [2, 8], device);
    let counts = mask.unsqueeze(-1);
    counts.select(model.encode(&record.tokens(device), Some(&mask)), 0.0)
}

#[test]
fn encoders_compute_what_transformers_computes() {
    for name in ["bert", "roberta", "distilbert"] {
        let record = recorded(name);
        // What is beyond a text's end means nothing.
        let counts = record.mask.iter().flatten().flat_map(|&counts| [f32::from(counts); 16]);
        let expected: Vec<f32> =
            record.output.iter().zip(counts).map(|(value, counts)| value * counts).collect();
        for device in devices() {
            let opts = LoadModelOpts::default().device(device);
            let model = Bert::load(&Checkpoint::open(record.saved(name)).unwrap(), opts).unwrap();
            assert_eq!(model.positions(), if name == "roberta" { 11 } else { 16 });
            assert_near(&vectors(&model, &record), &expected, &format!("{name} on {device}"));
        }
    }
}

/// As `bert-base-uncased` has it: names of norms from TensorFlow, and the layers of a task.
#[test]
fn encoders_load_from_old_files_with_heads() {
    let record = recorded("bert");
    let mut state = StateDict::new();
    for (name, tensor) in &record.weights {
        let old =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        state.insert(format!("bert.{old}"), tensor).unwrap();
    }
    for head in
        ["cls.predictions.bias", "cls.seq_relationship.weight", "classifier.weight", "qa_outputs.bias"]
    {
        state.insert(head, &Tensor::zeros([2], ())).unwrap();
    }
    let config = Config::parse("config.json", &record.text).unwrap();
    let [old, new] = [state, record.state()].map(|state| {
        let model = Bert::new(&config, ()).unwrap();
        model.load_state_dict_with(&state, Bert::load_opts()).unwrap();
        vectors(&model, &record)
    });
    assert_eq!(old.to_vec::<f32>().unwrap(), new.to_vec::<f32>().unwrap());
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

/// The names of llama.cpp.
fn gguf_name(kind: &str, name: &str) -> String {
    let around = ["gemma2", "gemma3"].contains(&kind);
    let after = if around { "post_attention_norm" } else { "ffn_norm" };
    let names = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", after),
        ("pre_feedforward_layernorm", "ffn_norm"),
        ("post_feedforward_layernorm", "post_ffw_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("_proj", ""),
    ];
    names.iter().fold(name.to_string(), |name, (from, to)| name.replace(from, to))
}

/// A recorded model as llama.cpp's converter writes it.
fn gguf(kind: &str, record: &Recorded) -> Gguf {
    let config: Value = serde_json::from_str(&record.text).unwrap();
    let tied = config["tie_word_embeddings"] == true;
    let mut gguf = Gguf::new();
    gguf.set("general.architecture", kind.into());
    for (key, name) in [
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("block_count", "num_hidden_layers"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
        ("attention.key_length", "head_dim"),
        ("attention.sliding_window", "sliding_window"),
    ] {
        if let Some(value) = config[name].as_u64() {
            gguf.set(&format!("{kind}.{key}"), GgufValue::U32(value as u32));
        }
    }
    for (key, value) in [
        ("attention.layer_norm_rms_epsilon", &config["rms_norm_eps"]),
        ("attn_logit_softcapping", &config["attn_logit_softcapping"]),
        ("final_logit_softcapping", &config["final_logit_softcapping"]),
        ("rope.freq_base", &config["rope_parameters"]["rope_theta"]),
        ("rope.freq_base", &config["rope_parameters"]["full_attention"]["rope_theta"]),
    ] {
        if let Some(value) = value.as_f64() {
            gguf.set(&format!("{kind}.{key}"), GgufValue::F32(value as f32));
        }
    }
    for (name, tensor) in record.weights.iter().filter(|(name, _)| !(tied && name.starts_with("lm_head"))) {
        let heads = [("q_proj", 4), ("k_proj", 2)].into_iter().find(|(part, _)| name.contains(part));
        let tensor = match heads {
            Some((_, heads)) if ["llama", "smollm3"].contains(&kind) => interleaved(tensor, heads),
            _ if kind.starts_with("gemma") && name.contains("norm") => tensor + 1.0,
            _ => tensor.clone(),
        };
        gguf.insert(&gguf_name(kind, name), &tensor).unwrap();
    }
    gguf
}

#[test]
fn a_file_of_llama_cpp_is_the_same_model() {
    // The file does not have the factor of Gemma 2's scores, which is that of a head's width.
    let scalar = ("\"query_pre_attn_scalar\":9", "\"query_pre_attn_scalar\":6");
    // Nor which layers of Gemma 3 look at all positions: each sixth.
    let types = ("\"full_attention\"]", "\"sliding_attention\"]");
    for (kind, scaling, other) in [
        ("llama", "linear", vec![("llama3", "linear")]),
        // Which layers turn nothing: each fourth.
        ("smollm3", "", vec![("\"no_rope_layers\":[1,0]", "\"no_rope_layers\":[1,1]")]),
        ("qwen2", "", vec![]),
        ("qwen3", "", vec![]),
        ("gemma", "", vec![]),
        ("gemma2", "", vec![scalar]),
        ("gemma3", "", vec![scalar, types]),
    ] {
        let record = recorded(kind);
        let mut gguf = gguf(kind, &record);
        if !scaling.is_empty() {
            gguf.set("llama.rope.scaling.type", scaling.into());
            gguf.set("llama.rope.scaling.factor", GgufValue::F32(4.0));
        }
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{kind}.gguf"));
        gguf.save(&path).unwrap();
        let model = Llama::load(&Checkpoint::open(&path).unwrap(), LoadModelOpts::default()).unwrap();

        let text = other.iter().fold(record.text.clone(), |text, (from, to)| text.replace(from, to));
        let plain = Llama::new(&Config::parse("config.json", &text).unwrap(), ()).unwrap();
        let opts = Llama::load_opts();
        let opts = if model.lm_head.is_none() { opts.ignore("lm_head") } else { opts };
        plain.load_state_dict_with(&record.state(), opts).unwrap();
        let tokens = record.tokens(Device::cpu());
        let expected = plain.forward(&tokens).to_vec::<f32>().unwrap();
        assert_near(&model.forward(&tokens), &expected, kind);
    }
}

/// Gemma 2 of 27 billion weights, whose heads are narrower than their part of the width, by its layers.
#[test]
fn the_largest_gemma_has_a_scale_of_its_own() {
    let scale = |layers: u32| {
        let mut gguf = Gguf::new();
        gguf.set("general.architecture", "gemma2".into());
        for (key, value) in
            [("block_count", layers), ("embedding_length", 4608), ("attention.head_count", 32)]
        {
            gguf.set(&format!("gemma2.{key}"), GgufValue::U32(value));
        }
        Config::from_gguf("model.gguf", &gguf).unwrap().maybe_number("query_pre_attn_scalar").unwrap()
    };
    assert_eq!((scale(46), scale(42)), (Some(144.0), None));
}

/// The names of `torchvision`.
fn torchvision_name(name: &str) -> String {
    let name = name.replace("resnet.embedder.embedder.", "").replace("classifier.1", "fc");
    let parts: Vec<&str> = name.split('.').collect();
    let kind = |kind: &str| if kind == "convolution" { "conv" } else { "bn" };
    let after = |number: &str| number.parse::<usize>().unwrap() + 1;
    match parts[..] {
        [part, last] if part != "fc" => format!("{}1.{last}", kind(part)),
        ["resnet", "encoder", "stages", stage, "layers", block, "shortcut", part, last] => {
            let place = usize::from(part != "convolution");
            format!("layer{}.{block}.downsample.{place}.{last}", after(stage))
        }
        ["resnet", "encoder", "stages", stage, "layers", block, "layer", conv, part, last] => {
            format!("layer{}.{block}.{}{}.{last}", after(stage), kind(part), after(conv))
        }
        _ => name,
    }
}

#[test]
fn residual_networks_come_from_torchvision_too() {
    for name in ["resnet", "resnet_bottleneck"] {
        let record = recorded(name);
        let mut state = StateDict::new();
        record.state().iter().for_each(|(name, x)| state.insert(torchvision_name(name), x).unwrap());
        assert!(state.get("layer1.0.conv1.weight").is_some() && state.get("fc.bias").is_some());
        let plain = |by: &dyn Fn(&ResNet)| {
            let model = ResNet::new(&Config::parse("config.json", &record.text).unwrap(), ()).unwrap();
            by(&model);
            model.eval();
            model.forward(&Tensor::linspace(-1.0, 1.0, 3 * 32 * 32, ()).reshape([1, 3, 32, 32]))
        };
        let load = |state: StateDict| {
            move |model: &ResNet| drop(model.load_state_dict_with(&state, ResNet::load_opts()).unwrap())
        };
        let expected = plain(&load(record.state())).to_vec::<f32>().unwrap();
        assert_near(&plain(&load(state)), &expected, name);
    }
}

/// The recorded model's configuration, with so many layers.
fn with_layers(layers: usize) -> Config {
    let mut config: serde_json::Value = serde_json::from_str(&recorded("llama").text).unwrap();
    config["num_hidden_layers"] = layers.into();
    Config::parse("config.json", &config.to_string()).unwrap()
}

/// Bytes that the third token moves, and kernels that it launches; perhaps by functions.
fn cost_of_a_token(config: &Config, capacity: usize, device: Device, by_functions: bool) -> (u64, u64) {
    let context = Context::new();
    with_context(&context, || {
        let _no_graph = no_grad();
        let model = Llama::new(config, device).unwrap();
        let (decoder, caches) = (model.decoder(), model.caches(1, capacity));
        let mut before = context.counters();
        for token in [5i64, 1, 3] {
            before = context.counters();
            let tokens = Tensor::from_vec(vec![token], [1, 1], device);
            let logits =
                if by_functions { decoder.next(&tokens, &caches) } else { model.next(&tokens, &caches) };
            // The logits, held, keep no cache from being written in place.
            logits.argmax(-1).realize().unwrap();
        }
        let now = context.counters();
        (now.bytes_moved - before.bytes_moved, now.kernels_launched - before.kernels_launched)
    })
}

#[test]
fn a_token_costs_the_same_with_larger_caches() {
    for device in devices() {
        let cost = |capacity, by_functions| cost_of_a_token(&with_layers(2), capacity, device, by_functions);
        let small = cost(64, false);
        assert_eq!(small, cost(4096, false), "{device}");
        assert_eq!(small, cost(4096, true), "{device}");
    }
}

#[test]
fn a_layer_of_a_token_is_nine_launches() {
    for device in devices() {
        let [two, three] = [2, 3].map(|layers| cost_of_a_token(&with_layers(layers), 64, device, true).1);
        assert_eq!(three - two, 9, "{device}");
    }
}

#[test]
fn caches_that_do_not_fit_are_an_error() {
    let model = Llama::new(&Config::parse("config.json", &recorded("llama").text).unwrap(), ()).unwrap();
    let tokens = Tensor::from([[1i64, 2]]);
    let error = |caches: &[KvCache]| model.next(&tokens, caches).check().unwrap_err().to_string();
    let mut caches = model.caches(1, 4);
    assert!(error(&caches[..1]).contains("expected 2 caches of one length, found 1 of lengths [0]"));
    assert!(model.next(&tokens, &caches).check().is_ok());
    caches[1].truncate(1);
    let text = error(&caches);
    assert!(text.contains("found 2 of lengths [2, 1]") && text.contains("tests/models/main.rs:"), "{text}");
    let text = model.next_all(&tokens, &caches).check().unwrap_err().to_string();
    assert!(text.contains("next_all") && text.contains("tests/models/main.rs:"), "{text}");
    caches.clear();
    assert!(error(&caches).contains("found 0 of lengths []"));
}
