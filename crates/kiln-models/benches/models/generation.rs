//! How fast SmolLM2-135M reads and writes tokens.

use std::time::Instant;

use kiln::nn::{ModuleExt, QuantizeOpts};
use kiln::prelude::*;
use kiln::{Precision, Quantization, no_grad, set_float32_matmul_precision};
use serde_json::{Value, json};

use crate::clock::{cpu_ms, measure, sorted};
use crate::network::llama;
use crate::{Arguments, Failure};

/// Tokens of the prompt, and those that follow.
const READ: usize = 128;
const WRITTEN: usize = 64;

/// Times reading and writing with weights of this format.
pub fn run(arguments: &Arguments, format: &str) -> Result<Value, Failure> {
    kiln::manual_seed(0);
    let _no_graph = no_grad();
    let model = llama(arguments)?;
    match Quantization::of(&format.to_uppercase()) {
        Some(quantization) => {
            drop(model.quantize(quantization, QuantizeOpts::default())?);
            // As `chat` does, and llama.cpp: what packed weights are multiplied with has 8 bits.
            set_float32_matmul_precision(Precision::Medium);
        }
        None if format == "bf16" => model.to_dtype(DType::BF16)?,
        None => {}
    }
    let (decoder, caches) = (model.decoder(), model.caches(1, 2 * READ));
    let prompt = Tensor::arange(0i64, READ as i64, 1, arguments.device).unsqueeze(0);
    let read = || -> kiln::Result<i64> {
        caches.iter().for_each(|cache| cache.truncate(0));
        decoder.next(&prompt, &caches).argmax(-1).reshape(()).item::<i64>()
    };
    let mut reading = measure(arguments.budget, || Ok(read().map(drop)?))?;
    reading["tok_s_best"] = rate(READ, reading["wall_min"].as_f64());
    reading["tok_s_med"] = rate(READ, reading["wall_med"].as_f64());

    let (mut walls, mut cpus, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let writing = measure(arguments.budget * 1.5, || {
        let (mut token, begin) = (read()?, walls.len());
        for _ in 0..WRITTEN {
            let (start, cpu) = (Instant::now(), cpu_ms());
            let tokens = Tensor::from_vec(vec![token], [1, 1], arguments.device);
            token = decoder.next(&tokens, &caches).argmax(-1).reshape(()).item::<i64>()?;
            walls.push(start.elapsed().as_secs_f64() * 1e3);
            cpus.push(cpu_ms() - cpu);
        }
        runs.push(1e3 * WRITTEN as f64 / walls[begin..].iter().sum::<f64>());
        Ok(())
    })?;
    let [walls, cpus, runs] = [walls, cpus, runs].map(sorted);
    let middle = |times: &[f64]| times[times.len() / 2];
    Ok(json!({
        "model": "SmolLM2-135M", "file": format!("{format}.gguf"), "pp128": reading,
        "tg64": {
            "first_s": writing["first_s"], "tok_s_best_run": runs[runs.len() - 1], "tok_s_med_run": middle(&runs),
            "runs": runs.len(), "wall_min": walls[0], "wall_med": middle(&walls),
            "cpu_min": cpus[0], "cpu_med": middle(&cpus),
        },
    }))
}

fn rate(tokens: usize, wall_ms: Option<f64>) -> Value {
    wall_ms.map(|wall| 1e3 * tokens as f64 / wall).into()
}
