//! The five models: inference, its smallest piece, and training.

use std::rc::Rc;

use kiln::nn::{Layer, Module, ModuleExt};
use kiln::optim::clip_grad_norm;
use kiln::opts::CrossEntropyOpts;
use kiln::prelude::*;
use kiln::{LoadOpts, no_grad};
use kiln_models::{ActionExpert, Checkpoint, Config, Llama, LoadModelOpts, ResNet, UNet, WhisperEncoder};
use serde_json::{Value, json};

use crate::clock::{measure, peak_mb};
use crate::{Arguments, Failure};

/// A model and what is done with it.
struct Network {
    /// As the other libraries' lines have it.
    name: &'static str,
    module: Rc<dyn Module>,
    /// The output for the whole input.
    infer: Box<dyn Fn() -> Tensor>,
    /// For the smallest input; the whole one if `None`.
    small: Option<Box<dyn Fn() -> Tensor>>,
    loss: Box<dyn Fn(&Tensor) -> Tensor>,
}

/// Times a model; gives the line of the report.
pub fn run(arguments: &Arguments, name: &str) -> Result<Value, Failure> {
    kiln::manual_seed(0);
    let network = match name {
        "smollm2" => smollm2(arguments)?,
        "resnet50" => resnet50(arguments)?,
        "whisper" => whisper(arguments)?,
        "unet" => unet(arguments)?,
        "smolvla" => smolvla(arguments)?,
        other => return Err(format!("no model {other}").into()),
    };
    let infer = |output: &dyn Fn() -> Tensor| -> Result<(), Failure> {
        let _no_graph = no_grad();
        output().realize()?;
        Ok(arguments.device.synchronize()?)
    };
    let mut line = json!({ "model": network.name });
    line["infer"] = measure(arguments.budget, || infer(&network.infer))?;
    line["infer"]["peak_mb"] = peak_mb().into();
    line["small"] = match &network.small {
        Some(small) => measure(arguments.budget / 2.0, || infer(small))?,
        None => line["infer"].clone(),
    };
    let params = network.module.parameters();
    let step = || -> Result<Tensor, Failure> {
        network.module.zero_grad();
        let loss = (network.loss)(&(network.infer)());
        loss.backward()?;
        Ok(loss)
    };
    line["train"] = measure(arguments.budget * 1.5, || {
        let loss = step()?;
        let gradients: Vec<Tensor> = params.iter().filter_map(|param| param.grad()).collect();
        realize(&gradients.iter().chain([&loss]).collect::<Vec<_>>())?;
        Ok(arguments.device.synchronize()?)
    })?;
    let loss = step()?;
    let norm = clip_grad_norm(&params, f64::INFINITY)?;
    let sum = no_grad_sum(&network)?;
    let (loss, norm) = (loss.item::<f32>()?, norm.item::<f32>()?);
    for (key, value) in [("loss", loss), ("grad_norm", norm), ("sum_abs", sum)] {
        line[key] = f64::from(value).into();
    }
    Ok(line)
}

fn no_grad_sum(network: &Network) -> Result<f32, Failure> {
    let _no_graph = no_grad();
    Ok((network.infer)().abs().sum(..).item::<f32>()?)
}

/// A model with the weights of a file, or random ones of a 50th.
fn filled<M: Module>(arguments: &Arguments, file: &str, opts: LoadOpts, model: M) -> Result<Rc<M>, Failure> {
    match &arguments.weights {
        Some(folder) if !arguments.small => {
            let path = folder.join(format!("{file}.safetensors"));
            model.load_with(path, opts.device(arguments.device))?;
        }
        Some(_) | None => randomize(&model)?,
    }
    Ok(Rc::new(model))
}

/// Matrices of normal numbers, 0.02 wide.
pub fn randomize(model: &dyn Module) -> Result<(), Failure> {
    for param in model.parameters() {
        if param.shape().rank() > 1 && param.requires_grad() {
            param.set((Tensor::randn(param.shape(), (param.device(), param.dtype())) * 0.02).realize()?)?;
        }
    }
    Ok(())
}

/// A function's values at multiples of a step, in f32 as the other libraries' programs have them.
fn wave<const N: usize>(of: fn(f32) -> f32, step: f32, shape: [usize; N], device: Device) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_vec((0..count).map(|i| of(i as f32 * step)).collect::<Vec<f32>>(), shape, device)
}

fn mean_square(output: &Tensor) -> Tensor {
    output.square().mean(..)
}

/// SmolLM2-135M with 32-bit weights.
pub fn llama(arguments: &Arguments) -> Result<Llama, Failure> {
    let config = if arguments.small {
        r#"{"model_type": "llama", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true}"#
    } else {
        r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5,
            "rope_theta": 100000, "tie_word_embeddings": true}"#
    };
    let Some(path) = arguments.gguf.as_ref().filter(|_| !arguments.small) else {
        let model = Llama::new(&Config::parse("smollm2", config)?, arguments.device)?;
        randomize(&model)?;
        return Ok(model);
    };
    let model = Llama::load(&Checkpoint::open(path)?, LoadModelOpts::default().device(arguments.device))?;
    for param in model.parameters() {
        param.dequantize()?;
        param.set_requires_grad(true);
    }
    Ok(model)
}

fn smollm2(arguments: &Arguments) -> Result<Network, Failure> {
    let (model, device) = (Rc::new(llama(arguments)?), arguments.device);
    let tokens = Tensor::arange(0i64, 128, 1, device).unsqueeze(0);
    let next = Tensor::arange(1i64, 129, 1, device);
    let (first, vocab) = (Tensor::zeros([1, 1], (device, DType::I64)), model.config().vocab);
    let [whole, one] = [model.clone(), model.clone()];
    Ok(Network {
        name: "SmolLM2-135M",
        module: model,
        infer: Box::new(move || whole.forward(&tokens)),
        small: Some(Box::new(move || one.forward(&first))),
        loss: Box::new(move |logits| {
            logits.reshape([128, vocab]).cross_entropy(&next, CrossEntropyOpts::default())
        }),
    })
}

fn resnet50(arguments: &Arguments) -> Result<Network, Failure> {
    let (text, size) = if arguments.small {
        (
            r#"{"model_type": "resnet", "num_labels": 10, "hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 8}"#,
            32,
        )
    } else {
        (r#"{"model_type": "resnet", "num_labels": 1000}"#, 224)
    };
    let device = arguments.device;
    let model = ResNet::new(&Config::parse("resnet50", text)?, device)?;
    let opts = ResNet::load_opts().rename_with(names::resnet50);
    let model = filled(arguments, "resnet50", opts, model)?;
    // Running statistics in every phase.
    model.eval();
    let images = wave(f32::sin, 0.001, [4, 3, size, size], device);
    let (first, labels) = (images.narrow(0, 0, 1).realize()?.clone(), Tensor::arange(0i64, 4, 1, device));
    let [whole, one] = [model.clone(), model.clone()];
    Ok(Network {
        name: "ResNet-50",
        module: model,
        infer: Box::new(move || whole.forward(&images)),
        small: Some(Box::new(move || one.forward(&first))),
        loss: Box::new(move |scores| scores.cross_entropy(&labels, CrossEntropyOpts::default())),
    })
}

fn whisper(arguments: &Arguments) -> Result<Network, Failure> {
    let (width, inner, layers, frames) =
        if arguments.small { (48, 64, 1, 200) } else { (384, 1536, 4, 3000) };
    let mut config = json!({"model_type": "whisper", "vocab_size": 51865, "d_model": width});
    for part in ["encoder", "decoder"] {
        config[format!("{part}_layers")] = layers.into();
        config[format!("{part}_attention_heads")] = 6.into();
        config[format!("{part}_ffn_dim")] = inner.into();
    }
    let model = WhisperEncoder::new(&Config::parse("whisper", &config.to_string())?, arguments.device)?;
    let opts = LoadOpts::default().rename_with(names::whisper);
    let model = filled(arguments, "whisper", opts, model)?;
    let mel = wave(f32::sin, 0.001, [1, 80, frames], arguments.device);
    let whole = model.clone();
    Ok(Network {
        name: "Whisper-tiny encoder",
        module: model,
        infer: Box::new(move || whole.forward(&mel)),
        small: None,
        loss: Box::new(mean_square),
    })
}

fn unet(arguments: &Arguments) -> Result<Network, Failure> {
    let config = if arguments.small {
        r#"{"model_type": "unet", "block_out_channels": [16, 32]}"#
    } else {
        r#"{"model_type": "unet"}"#
    };
    let model = UNet::new(&Config::parse("unet", config)?, arguments.device)?;
    let model = filled(arguments, "unet", LoadOpts::default().rename_with(names::unet), model)?;
    let shape = [2, 4, 32, 32];
    let latent = wave(f32::sin, 0.01, shape, arguments.device);
    let (first, clean) =
        (latent.narrow(0, 0, 1).realize()?.clone(), wave(f32::cos, 0.007, shape, arguments.device));
    let [whole, one] = [model.clone(), model.clone()];
    Ok(Network {
        name: "U-Net (simplified)",
        module: model,
        infer: Box::new(move || whole.forward(&latent)),
        small: Some(Box::new(move || one.forward(&first))),
        loss: Box::new(move |output| output.mse_loss(&clean, Reduction::Mean)),
    })
}

fn smolvla(arguments: &Arguments) -> Result<Network, Failure> {
    let (config, width) = if arguments.small {
        (
            r#"{"model_type": "smolvla_expert", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96}"#,
            64,
        )
    } else {
        (r#"{"model_type": "smolvla_expert"}"#, 720)
    };
    let device = arguments.device;
    let model = ActionExpert::new(&Config::parse("smolvla", config)?, device)?;
    let model = filled(arguments, "smolvla", LoadOpts::default().rename_with(names::smolvla), model)?;
    let inputs = |actions, seen| {
        let time = wave(f32::sin, 0.005, [1, 1, 2 * width], device);
        [wave(f32::sin, 0.01, [1, actions, 32], device), time, wave(f32::cos, 0.01, [1, seen, 320], device)]
    };
    let pass = |inputs: [Tensor; 3]| {
        let model = model.clone();
        Box::new(move || model.forward(&inputs[0], &inputs[1], &inputs[2]))
    };
    Ok(Network {
        name: "SmolVLA action expert",
        infer: pass(inputs(50, 16)),
        small: Some(pass(inputs(1, 1))),
        module: model,
        loss: Box::new(mean_square),
    })
}

/// What the other libraries' programs call the weights.
mod names {
    /// Each part of a name as a table has it.
    fn by(table: &[(&str, &str)], name: &str) -> String {
        let own = |part: &str| {
            table.iter().find(|(theirs, _)| *theirs == part).map_or(part.to_string(), |own| own.1.into())
        };
        name.split('.').map(own).collect::<Vec<_>>().join(".")
    }

    pub fn whisper(name: &str) -> String {
        by(
            &[
                ("c1", "conv1"),
                ("c2", "conv2"),
                ("pos", "embed_positions.weight"),
                ("norm", "layer_norm"),
                ("n1", "self_attn_layer_norm"),
                ("n2", "final_layer_norm"),
                ("q", "self_attn.q_proj"),
                ("k", "self_attn.k_proj"),
                ("v", "self_attn.v_proj"),
                ("o", "self_attn.out_proj"),
            ],
            name,
        )
    }

    pub fn unet(name: &str) -> String {
        by(
            &[
                ("first", "conv_in"),
                ("last", "conv_out"),
                ("norm", "norm_out"),
                ("mid", "mid_block"),
                ("enc", "down_blocks"),
                ("down", "downsamplers"),
                ("dec", "up_blocks"),
                ("n1", "norm1"),
                ("n2", "norm2"),
                ("c1", "conv1"),
                ("c2", "conv2"),
                ("skip", "conv_shortcut"),
            ],
            name,
        )
    }

    pub fn smolvla(name: &str) -> String {
        by(
            &[
                ("action", "action_in_proj"),
                ("time", "time_in_proj"),
                ("ctx", "context_proj"),
                ("head", "action_out_proj"),
                ("n1", "input_layernorm"),
                ("n2", "post_attention_layernorm"),
                ("q", "self_attn.q_proj"),
                ("k", "self_attn.k_proj"),
                ("v", "self_attn.v_proj"),
                ("o", "self_attn.out_proj"),
                ("gate", "mlp.gate_proj"),
                ("up", "mlp.up_proj"),
                ("down", "mlp.down_proj"),
            ],
            name,
        )
    }

    pub fn resnet50(name: &str) -> String {
        let kind = |part: &str| if part == "0" { "convolution" } else { "normalization" };
        match name.split('.').collect::<Vec<_>>()[..] {
            ["stem", part, last] => format!("stem.{}.{last}", kind(part)),
            ["fc", last] => format!("classifier.{last}"),
            ["blocks", number, conv, part, last] => {
                let (stage, block) = place(number.parse().unwrap_or(0));
                let conv = match conv {
                    "down" => "shortcut".to_string(),
                    other => {
                        format!("convs.{}", ["a", "b", "c"].iter().position(|own| *own == other).unwrap_or(0))
                    }
                };
                format!("stages.{stage}.{block}.{conv}.{}.{last}", kind(part))
            }
            _ => name.into(),
        }
    }

    /// The stage and the place in it of a block.
    fn place(mut number: usize) -> (usize, usize) {
        let stage = [3, 4, 6, 3].iter().position(|&depth| {
            let here = number < depth;
            number -= if here { 0 } else { depth };
            here
        });
        (stage.unwrap_or(4), number)
    }
}
