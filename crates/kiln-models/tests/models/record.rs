//! What `record.py` wrote down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kiln::StateDict;
use kiln::prelude::*;
use serde_json::Value;

/// The CPU, and others where they are.
pub fn devices() -> Vec<Device> {
    let all = [Device::cpu(), Device::wgpu(0), Device::cuda(0)];
    all.into_iter().filter(|device| device.probe().is_ok()).collect()
}

pub struct Recorded {
    pub text: String,
    pub tokens: Vec<i64>,
    pub mask: Option<Vec<bool>>,
    pub output: Vec<f32>,
    pub weights: BTreeMap<String, Tensor>,
    record: Value,
}

/// Reads a record, and makes the weights by the formula of the script.
pub fn recorded(name: &str) -> Recorded {
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
        record,
    }
}

impl Recorded {
    /// Another entry of the record.
    pub fn value(&self, key: &str) -> Value {
        self.record[key].clone()
    }

    pub fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        for (name, tensor) in &self.weights {
            state.insert(name, tensor).unwrap();
            // Published files count batches.
            if let Some(norm) = name.strip_suffix("running_mean") {
                let count = Tensor::zeros([], DType::I64);
                state.insert(format!("{norm}num_batches_tracked"), &count).unwrap();
            }
        }
        state
    }

    /// The checkpoint that a folder of these files is.
    pub fn saved(&self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("models/{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.json"), &self.text).unwrap();
        self.state().save(folder.join("model.safetensors")).unwrap();
        folder
    }

    pub fn tokens(&self, device: Device) -> Tensor {
        Tensor::from_vec(self.tokens.clone(), [2, 8], device)
    }
}

pub fn assert_near(found: &Tensor, expected: &[f32], what: &str) {
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    let most = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f32::max);
    assert!(most < 2e-5, "{what}: {most}");
}
