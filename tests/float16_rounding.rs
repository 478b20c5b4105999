//! 16-bit floats rounded after every operation. The one test here has a process of its own, since
//! the setting is the process's.

#[path = "support/adapter.rs"]
mod adapter;

use kiln::opts::Reduction;
use kiln::prelude::*;
use kiln::{Float16Rounding, float16_rounding, set_float16_rounding};

type Function = fn(&Tensor) -> Tensor;

/// `[4, 6]`, values from 1/16 to 6.
fn positive(dtype: DType, device: Device) -> Tensor {
    let value = |i: usize| ((i * 37 % 97) as f32 + 1.3) / 16.0;
    let x = Tensor::from_vec((0..24).map(value).collect::<Vec<f32>>(), [4, 6], device).to_dtype(dtype);
    x.realize().expect("a leaf");
    x
}

fn bits(x: &Tensor) -> Vec<u32> {
    let x = x.to_dtype(DType::F32).to_vec::<f32>().expect("values");
    x.iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
}

/// Operations of one and of many steps, on positive values.
const FUNCTIONS: &[(&str, Function)] = &[
    ("add", |x| x + x.t().reshape([4, 6])),
    ("sub a number", |x| 2.7 - x),
    ("mul a number", |x| x * 0.1),
    ("div a number", |x| x / 0.3),
    ("div", |x| x / x.t().reshape([4, 6])),
    ("remainder", |x| x.remainder(0.7)),
    ("floor_divide", |x| x.floor_divide(0.7)),
    ("pow", |x| x.pow(1.7)),
    ("square", |x| x.square()),
    ("sqrt", |x| x.sqrt()),
    ("rsqrt", |x| x.rsqrt()),
    ("reciprocal", |x| x.reciprocal()),
    ("exp", |x| x.exp()),
    ("expm1", |x| x.expm1()),
    ("log1p", |x| x.log1p()),
    ("log10", |x| x.log10()),
    ("sin", |x| x.sin()),
    ("tan", |x| x.tan()),
    ("sinh", |x| x.sinh()),
    ("atan2", |x| x.atan2(&x.t().reshape([4, 6]))),
    ("hypot", |x| x.hypot(&x.t().reshape([4, 6]))),
    ("sigmoid", |x| x.sigmoid()),
    ("silu", |x| x.silu()),
    ("gelu", |x| x.gelu()),
    ("softplus", |x| x.softplus(1.0, 20.0)),
    ("mish", |x| x.mish()),
    ("elu", |x| x.neg().elu(1.0)),
    ("hardswish", |x| x.hardswish()),
    ("softmax", |x| x.softmax(-1)),
    ("log_softmax", |x| x.log_softmax(-1)),
    ("logsumexp", |x| x.logsumexp(-1)),
    ("sum", |x| x.sum(1)),
    ("mean", |x| x.mean(1)),
    ("var", |x| x.var(1)),
    ("std", |x| x.std(1)),
    ("norm", |x| x.norm(2.0, 1)),
    ("prod", |x| x.prod(1)),
    ("cumsum", |x| x.cumsum(1)),
    ("cumprod", |x| x.cumprod(1)),
    ("layer_norm", |x| x.layer_norm(6, Default::default())),
    ("normalize", |x| x.normalize(2.0, 1, 1e-12)),
    ("lerp", |x| x.lerp(&x.t().reshape([4, 6]), 0.3)),
    ("mse_loss", |x| x.mse_loss(&x.t().reshape([4, 6]), Reduction::Mean)),
    ("cosine_similarity", |x| x.cosine_similarity(&x.t().reshape([4, 6]), 1, 1e-8)),
    ("matmul", |x| x.matmul(&x.t())),
    ("logaddexp", |x| x.logaddexp(&x.t().reshape([4, 6]))),
    ("quantile", |x| x.quantile(0.3, 1, Default::default())),
    ("avg_pool", |x| x.reshape([1, 4, 6]).avg_pool1d(3, Default::default())),
    ("addcmul", |x| x.addcmul(x, x, 0.3)),
];

/// Every operation's result is the one of 32 bits, rounded once.
fn operations_round_once(dtype: DType, device: Device) -> Vec<String> {
    let x = positive(dtype, device);
    let wide = x.to_dtype(DType::F32).realize().expect("values").clone();
    let mut wrong = Vec::new();
    for (name, function) in FUNCTIONS {
        // Another operation behind it, so that the kernel does not store the result.
        let (narrow, once) = (function(&x), function(&wide).to_dtype(dtype));
        if bits(&narrow.to_dtype(DType::F32).neg()) != bits(&once.to_dtype(DType::F32).neg()) {
            wrong.push(format!("{dtype} {name} on {device}"));
        }
    }
    wrong
}

/// The gradients of single operations that PyTorch rounds once, likewise.
fn gradients_round_once(dtype: DType, device: Device) -> Vec<String> {
    let gradient = |x: &Tensor, function: Function| {
        let x = x.clone().with_requires_grad();
        let y = function(&x);
        kiln::grad(&y.to_dtype(DType::F32).sum(..), &[&x]).remove(0)
    };
    let x = positive(dtype, device);
    let wide = x.to_dtype(DType::F32).realize().expect("values").clone();
    let mut wrong = Vec::new();
    for (name, function) in FUNCTIONS {
        if !ONCE_BACKWARDS.contains(name) {
            continue;
        }
        let (narrow, once) = (gradient(&x, *function), gradient(&wide, *function).to_dtype(dtype));
        if bits(&narrow.to_dtype(DType::F32).neg()) != bits(&once.to_dtype(DType::F32).neg()) {
            wrong.push(format!("gradient of {dtype} {name} on {device}"));
        }
    }
    wrong
}

/// Functions of one operation whose gradient does not read the result.
const ONCE_BACKWARDS: &[&str] = &[
    "mul a number",
    "div a number",
    "pow",
    "square",
    "sin",
    "log1p",
    "log10",
    "silu",
    "gelu",
    "softplus",
    "hardswish",
    "sum",
    "mean",
    "cumsum",
    "avg_pool",
];

/// A chain of operations, each realized or none.
fn chain(x: &Tensor, stored: bool) -> Vec<Tensor> {
    let keep = |x: Tensor| {
        if stored {
            x.realize().expect("a value");
        }
        x
    };
    let sum = keep(x + 2048.0);
    let difference = keep(&sum - 2048.0);
    let product = keep(&difference * x);
    let active = keep(product.gelu());
    let weights = keep(active.softmax(-1));
    let mixed = keep(weights.matmul(&x.t()));
    let scaled = keep(&mixed / 3.0);
    let normal = keep(scaled.layer_norm(4, Default::default()));
    let total = keep(normal.exp().sum(1));
    vec![difference, weights, scaled, total]
}

fn results_do_not_depend_on_what_was_realized(dtype: DType, device: Device) {
    let x = positive(dtype, device);
    for (fused, stored) in chain(&x, false).iter().zip(chain(&x, true)) {
        assert_eq!(bits(fused), bits(&stored), "{dtype} on {device}");
    }
    let gradient = |stored: bool| {
        let x = x.clone().with_requires_grad();
        let loss = chain(&x, stored).iter().fold(Tensor::zeros([], device), |sum, y| sum + y.sum(..));
        bits(&kiln::grad(&loss, &[&x])[0])
    };
    assert_eq!(gradient(false), gradient(true), "{dtype} on {device}");
}

#[test]
fn the_setting_rounds_after_every_operation() {
    assert_eq!(float16_rounding(), Float16Rounding::Stored);
    let devices: Vec<Device> = [Some(Device::cpu()), adapter::adapter()].into_iter().flatten().collect();
    let wide = Tensor::from([1.0f32, 3.3]).to_dtype(DType::F16);
    assert_ne!(bits(&((&wide + 2048.0) - 2048.0)), bits(&Tensor::from([0.0f32, 4.0])));
    set_float16_rounding(Float16Rounding::EveryOperation);
    let mut wrong = Vec::new();
    for &device in &devices {
        for dtype in [DType::F16, DType::BF16] {
            let x = Tensor::from([1.0f32, 3.3]).to(device).to_dtype(DType::F16);
            assert_eq!(bits(&((x + 2048.0) - 2048.0)), bits(&Tensor::from([0.0f32, 4.0])));
            results_do_not_depend_on_what_was_realized(dtype, device);
            wrong.extend(operations_round_once(dtype, device));
            wrong.extend(gradients_round_once(dtype, device));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
