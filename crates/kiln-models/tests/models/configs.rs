//! Configurations that are wrong.

use kiln::nn::Module;
use kiln::prelude::*;
use kiln_models::{ActionExpert, Bert, Config, Llama, ResNet, UNet, UNet2d, Vit, Whisper};
use serde_json::{Value, json};

use crate::record::recorded;

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

/// The model that a configuration describes, without memory.
fn build(name: &str, config: &Config) -> kiln_models::Result<Box<dyn Module>> {
    let place = Device::meta();
    Ok(match name {
        "bert" | "distilbert" | "roberta" => Box::new(Bert::new(config, place)?),
        "expert" => Box::new(ActionExpert::new(config, place)?),
        "resnet" => Box::new(ResNet::new(config, place)?),
        "unet" | "unet_timed" => Box::new(UNet::new(config, place)?),
        "ddpm" | "stable_diffusion_xl" => Box::new(UNet2d::new(config, place)?),
        "vit" => Box::new(Vit::new(config, place)?),
        "whisper" => Box::new(Whisper::new(config, place)?),
        _ => Box::new(Llama::new(config, place)?),
    })
}

/// Entries of all kinds give an error or a model.
#[test]
fn no_configuration_panics() {
    let strange = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(3),
        json!(0.5),
        json!(1e300),
        json!(1u64 << 32),
        json!(u64::MAX),
        json!("strange"),
        json!([]),
        json!([0]),
        json!([u64::MAX, 1]),
        json!(["full_attention"]),
        json!({}),
        json!({"rope_type": "yarn"}),
        json!({"rope_theta": -1}),
    ];
    let names = "bert ddpm distilbert expert gemma3 llama qwen2 resnet roberta smollm3 stable_diffusion_xl unet unet_timed vit whisper";
    let mut state = 1u32;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let (mut built, mut refused) = (0, 0);
    for name in names.split(' ') {
        let whole: serde_json::Map<String, Value> = serde_json::from_str(&recorded(name).text).unwrap();
        let keys: Vec<String> = whole.keys().cloned().collect();
        for _ in 0..100 {
            let mut entries = whole.clone();
            for _ in 0..=draw(2) {
                entries.insert(keys[draw(keys.len())].clone(), strange[draw(strange.len())].clone());
            }
            let config = Config::parse("config.json", &Value::Object(entries).to_string()).unwrap();
            match build(name, &config) {
                Ok(_) => built += 1,
                Err(error) => {
                    assert!(error.to_string().starts_with("config.json: "), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(built > 100 && refused > 100, "{built} built, {refused} refused");
}
