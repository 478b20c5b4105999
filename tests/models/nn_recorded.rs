//! Recurrent and attention layers against PyTorch, as recorded by
//! `tests/models/nn/record.py`.

use std::path::Path;

use kiln::nn::{
    AdaptiveAvgPool2d, AdaptiveMaxPool2d, AttentionLayerOpts, AvgPool2d, Celu, Elu, Flatten, Gelu, GeluTanh,
    Glu, Gru, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, InstanceNorm, Layer, LeakyRelu, LogSigmoid,
    LogSoftmax, Lstm, MaxPool2d, Mish, Module, ModuleExt, MultiheadAttention, Prelu, Relu6, Rnn, Selu, Silu,
    Softmax, Softmin, Softplus, Softshrink, Softsign, Tanhshrink, TransformerDecoderLayer,
    TransformerEncoderLayer, TransformerOpts,
};
use kiln::prelude::*;
use kiln::{Context, with_context};
use serde_json::Value;

fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/nn/recorded.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[name].take()
}

fn tensor(value: &Value) -> Tensor {
    let list = |key: &str| value[key].as_array().unwrap().iter();
    let shape: Vec<usize> = list("shape").map(|n| n.as_u64().unwrap() as usize).collect();
    Tensor::from_vec(list("values").map(|n| n.as_f64().unwrap()).collect::<Vec<f64>>(), shape, ())
}

/// Puts the recorded parameters in; all of them, and no others.
fn load(module: &dyn Module, recorded: &Value) {
    module.to_dtype(DType::F64).unwrap();
    let params = recorded["params"].as_object().unwrap();
    let own = module.named_parameters();
    assert_eq!(own.len(), params.len(), "{:?}", own.iter().map(|(name, _)| name).collect::<Vec<_>>());
    for (name, param) in own {
        param.set(&tensor(params.get(&name).unwrap_or_else(|| panic!("{name} is not recorded")))).unwrap();
    }
    module.eval();
}

#[track_caller]
fn assert_close(what: &str, found: &Tensor, expected: &Value) {
    let expected = tensor(expected);
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let (found, expected) = (found.to_vec::<f64>().unwrap(), expected.to_vec::<f64>().unwrap());
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() <= 1e-9, "{what}: element {i} is {found}, recorded {expected}");
    }
}

fn check_recurrent(
    name: &str,
    layer: &dyn Module,
    weight: &str,
    forward: impl Fn(&Tensor, &[Tensor]) -> (Tensor, Vec<Tensor>),
) {
    let recorded = recorded(name);
    load(layer, &recorded);
    let start: Vec<Tensor> = recorded["start"].as_array().unwrap().iter().map(tensor).collect();
    let (y, end) = forward(&tensor(&recorded["x"]), &start);
    assert_close(name, &y, &recorded["y"]);
    for (end, expected) in end.iter().zip(recorded["end"].as_array().unwrap()) {
        assert_close(name, end, expected);
    }
    y.square().sum(..).backward().unwrap();
    let weight = layer.named_parameters().into_iter().find(|(name, _)| name == weight).unwrap().1;
    assert_close(&format!("{name}'s gradient"), &weight.grad().unwrap(), &recorded["gradient"]);
}

#[test]
fn recurrent_layers_are_pytorchs() {
    let rnn = Rnn::new(3, 4, 2, ());
    check_recurrent("rnn", &rnn, "weight_hh_l0", |x, start| {
        let (y, h) = rnn.forward(x, Some(&start[0]));
        (y, vec![h])
    });
    let gru = Gru::new(3, 4, 2, ());
    check_recurrent("gru", &gru, "weight_hh_l0", |x, start| {
        let (y, h) = gru.forward(x, Some(&start[0]));
        (y, vec![h])
    });
    let lstm = Lstm::new(3, 4, 2, ());
    check_recurrent("lstm", &lstm, "weight_hh_l0", |x, start| {
        let (y, (h, c)) = lstm.forward(x, Some((&start[0], &start[1])));
        (y, vec![h, c])
    });
}

#[test]
fn padded_sequences_are_pytorchs() {
    let lengths = Tensor::from([4i64, 1]);
    let gru = Gru::new(3, 4, 2, ());
    check_recurrent("gru_padded", &gru, "weight_hh_l0", |x, start| {
        let (y, h) = gru.forward_padded(x, &lengths, Some(&start[0]));
        (y, vec![h])
    });
    let lengths = Tensor::from([2i32, 5]);
    let lstm = Lstm::new(3, 4, 2, ());
    check_recurrent("lstm_padded", &lstm, "weight_hh_l0", |x, start| {
        let (y, (h, c)) = lstm.forward_padded(x, &lengths, Some((&start[0], &start[1])));
        (y, vec![h, c])
    });
    let wrong = Tensor::from([2.0f32, 5.0]);
    let error =
        lstm.forward_padded(&Tensor::ones([5, 2, 3], DType::F64), &wrong, None).0.check().unwrap_err();
    assert!(error.to_string().contains("expected integer lengths [2], found f32[2]"), "{error}");
}

#[test]
fn lengths_of_padded_sequences_need_no_new_plan() {
    let context = Context::new();
    with_context(&context, || {
        let rnn = Rnn::new(3, 4, 1, ());
        let x = Tensor::linspace(-1.0, 1.0, 36, ()).reshape([6, 2, 3]);
        let mut plans = Vec::new();
        for longest in 1..=6 {
            let (y, _) = rnn.forward_padded(&x, &Tensor::from([longest, 1i64]), None);
            y.realize().unwrap();
            plans.push(context.counters().plans_built);
        }
        assert_eq!(plans[1..], [plans[1]; 5]);
    });
}

#[test]
fn another_length_plans_and_compiles_nothing() {
    let lstm = Lstm::new(3, 4, 1, ());
    let forward = |length: usize| {
        let x = Tensor::linspace(-1.0, 1.0, length * 6, ()).reshape([length, 2, 3]);
        lstm.forward(&x, None).0.to_vec::<f32>().unwrap()
    };
    let context = Context::new();
    with_context(&context, || {
        let another = |length: usize| {
            let before = context.counters();
            let y = forward(length);
            let after = context.counters();
            assert_eq!(y, with_context(&Context::new(), || forward(length)), "length {length}");
            let built = after.plans_built - before.plans_built;
            (
                built,
                after.plans_resized - before.plans_resized,
                after.kernels_compiled - before.kernels_compiled,
            )
        };
        // The first pass draws the weights too.
        (3..6).for_each(|length| _ = another(length));
        // The inputs' share of all gates differs in sizes; the loop's body is the same.
        assert_eq!([6, 7, 40].map(another), [(0, 1, 0); 3]);
    });
}

#[test]
fn training_on_another_length_plans_nothing() {
    let context = Context::new();
    with_context(&context, || {
        let gru = Gru::new(3, 4, 2, ());
        let gradients = |length: usize| {
            gru.zero_grad();
            let x = Tensor::linspace(-1.0, 1.0, length * 6, ()).reshape([length, 2, 3]);
            gru.forward(&x, None).0.square().mean(..).backward().unwrap();
            let gradients = gru.parameters().into_iter().map(|w| w.grad().unwrap());
            let gradients: Vec<Tensor> = gradients.collect();
            kiln::realize(&gradients.iter().collect::<Vec<_>>()).unwrap();
            gradients.iter().map(|g| g.to_vec::<f32>().unwrap()).collect::<Vec<_>>()
        };
        // The first pass draws the weights too.
        (3..6).for_each(|length| _ = gradients(length));
        let built = context.counters().plans_built;
        for length in [6, 9, 30] {
            let found = gradients(length);
            assert_eq!(found, with_context(&Context::new(), || gradients(length)), "length {length}");
        }
        assert_eq!(context.counters().plans_built, built);
    });
}

#[test]
fn recurrent_layers_start_from_zeros_and_name_a_wrong_input() {
    let lstm = Lstm::new(3, 4, 1, ());
    let x = Tensor::randn([6, 2, 3], ());
    let zeros = Tensor::zeros([1, 2, 4], ());
    let (y, _) = lstm.forward(&x, None);
    let (same, _) = lstm.forward(&x, Some((&zeros, &zeros)));
    assert_eq!(y.to_vec::<f32>().unwrap(), same.to_vec::<f32>().unwrap());
    let error = lstm.forward(&Tensor::ones([6, 2, 5], ()), None).0.check().unwrap_err().to_string();
    assert!(
        error.contains("lstm: expected [length, batch, 3]") && error.contains("nn_recorded.rs"),
        "{error}"
    );
}

#[test]
fn attention_is_pytorchs() {
    let recorded = recorded("attention");
    let layer = MultiheadAttention::new(8, 2, AttentionLayerOpts::default(), ());
    load(&layer, &recorded);
    assert_close("attention", &layer.forward(&tensor(&recorded["x"][0])), &recorded["y"]);
}

#[test]
fn transformer_blocks_are_pytorchs() {
    let opts = TransformerOpts::default().feed_forward(12).dropout(0.0);
    let causal = opts.clone().attention(AttentionLayerOpts::default().causal(true));
    for (name, opts) in [
        ("encoder", opts.clone()),
        ("encoder_norm_first_gelu_causal", causal.clone().norm_first(true).gelu(true)),
    ] {
        let recorded = recorded(name);
        let layer = TransformerEncoderLayer::new(8, 2, opts, ());
        load(&layer, &recorded);
        assert_close(name, &layer.forward(&tensor(&recorded["x"][0])), &recorded["y"]);
    }
    let recorded = recorded("decoder");
    let layer = TransformerDecoderLayer::new(8, 2, causal, ());
    load(&layer, &recorded);
    let y = layer.forward(&tensor(&recorded["x"][0]), &tensor(&recorded["x"][1]));
    assert_close("decoder", &y, &recorded["y"]);
}

#[test]
fn heads_that_are_shared_or_turned_train_too() {
    let opts = AttentionLayerOpts::default().causal(true).kv_heads(2).rotary(1e4);
    let layer = MultiheadAttention::new(16, 4, opts, ());
    assert_eq!(layer.k_proj.weight.shape()[..], [8, 16]);
    let x = Tensor::randn([2, 5, 16], ());
    let y = layer.forward(&x);
    y.square().sum(..).backward().unwrap();
    assert!(layer.parameters().iter().all(|param| param.grad().is_some()));
    // What is behind a position does not reach it.
    let changed = Tensor::cat(&[&x.i((.., r(0, 4))), &Tensor::ones([2, 1, 16], ())], 1);
    let first = |x: &Tensor| layer.forward(x).i((.., r(0, 4))).to_vec::<f32>().unwrap();
    let (a, b) = (first(&x), first(&changed));
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
}

#[test]
fn layers_of_one_input_are_pytorchs() {
    let shared = AttentionLayerOpts::default().causal(true).kv_heads(2).rotary(1e4);
    let avg = AvgPoolOpts::default().stride(1).count_include_pad(false);
    let layers: Vec<(&str, Box<dyn Layer>)> = vec![
        ("shared_rotary", Box::new(MultiheadAttention::new(16, 4, shared, ()))),
        ("instance_norm", Box::new(InstanceNorm::new())),
        ("instance_norm_affine", Box::new(InstanceNorm::affine(3, ()))),
        ("prelu", Box::new(Prelu::new(3, ()))),
        ("max_pool", Box::new(MaxPool2d::new(3, MaxPoolOpts::default().stride(2).padding(1)))),
        ("avg_pool", Box::new(AvgPool2d::new(2, avg))),
        ("adaptive_avg_pool", Box::new(AdaptiveAvgPool2d::new([3, 2]))),
        ("adaptive_max_pool", Box::new(AdaptiveMaxPool2d::new(2))),
        ("relu6", Box::new(Relu6)),
        ("gelu", Box::new(Gelu)),
        ("gelu_tanh", Box::new(GeluTanh)),
        ("silu", Box::new(Silu)),
        ("mish", Box::new(Mish)),
        ("hardswish", Box::new(Hardswish)),
        ("hardsigmoid", Box::new(Hardsigmoid)),
        ("softsign", Box::new(Softsign)),
        ("tanhshrink", Box::new(Tanhshrink)),
        ("log_sigmoid", Box::new(LogSigmoid)),
        ("selu", Box::new(Selu)),
        ("leaky_relu", Box::new(LeakyRelu::default())),
        ("elu", Box::new(Elu::default())),
        ("celu", Box::new(Celu::default())),
        ("softplus", Box::new(Softplus::default())),
        ("hardtanh", Box::new(Hardtanh::default())),
        ("hardshrink", Box::new(Hardshrink::default())),
        ("softshrink", Box::new(Softshrink::default())),
        ("softmax", Box::new(Softmax::default())),
        ("log_softmax", Box::new(LogSoftmax::default())),
        ("softmin", Box::new(Softmin::default())),
        ("glu", Box::new(Glu::default())),
        ("flatten", Box::new(Flatten::default())),
    ];
    for (name, layer) in layers {
        let recorded = recorded(name);
        load(&*layer, &recorded);
        assert_close(name, &layer.forward(&tensor(&recorded["x"][0])), &recorded["y"]);
    }
}
