//! Gradients of every layer's parameters and input against central
//! differences, in `f64`.

use kiln::nn::{
    BatchNorm, Bilinear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Dropout,
    Embedding, GroupNorm, Gru, Layer, LayerNorm, Linear, Lstm, Module, ModuleExt, MultiheadAttention, Param,
    RMSNorm, Rnn, Sequential, TransformerDecoderLayer, TransformerEncoderLayer, TransformerOpts,
};
use kiln::prelude::*;

const PLACE: DType = DType::F64;
/// Elements of each parameter that are moved.
const MOVED: usize = 4;

fn values(shape: &[usize], seed: usize) -> Vec<f64> {
    let count = shape.iter().product();
    (0..count).map(|i| ((i * 7 + seed * 13) % 23) as f64 / 9.0 - 1.27 + 0.01 * i as f64).collect()
}

fn input(shape: &[usize], seed: usize) -> Param {
    Param::new(Tensor::from_vec(values(shape, seed), shape, ()))
}

/// Compares what `backward` leaves in every parameter and input with central
/// differences of a number that depends on the whole output.
#[track_caller]
fn check(name: &str, module: &dyn Module, inputs: &[Param], forward: &dyn Fn(&[Tensor]) -> Tensor) {
    let mut params: Vec<(String, Param)> =
        inputs.iter().enumerate().map(|(i, input)| (format!("input {i}"), input.clone())).collect();
    params.extend(Wrapped(module).named_parameters());
    let loss = || {
        let inputs: Vec<Tensor> = inputs.iter().map(Param::get).collect();
        let y = forward(&inputs);
        let weights = Tensor::from_vec(values(&y.shape(), 5), y.shape(), ());
        (y.square() * weights).sum(..)
    };
    loss().backward().unwrap();
    for (what, param) in params {
        let found = param.grad().unwrap_or_else(|| panic!("{name}: {what} has no gradient"));
        let found = found.to_vec::<f64>().unwrap();
        let at = param.get().to_vec::<f64>().unwrap();
        let moved = |i: usize, by: f64| {
            let mut values = at.clone();
            values[i] += by;
            param.set(&Tensor::from_vec(values, param.shape(), ())).unwrap();
            loss().item::<f64>().unwrap()
        };
        for i in (0..at.len()).step_by(at.len().div_ceil(MOVED)) {
            let expected = (moved(i, 1e-5) - moved(i, -1e-5)) / 2e-5;
            let close = (found[i] - expected).abs() <= 1e-6 * (1.0 + expected.abs());
            assert!(close, "{name}: element {i} of {what} is {}, expected {expected}", found[i]);
        }
        param.set(&Tensor::from_vec(at, param.shape(), ())).unwrap();
    }
}

/// A module behind a reference.
struct Wrapped<'a>(&'a dyn Module);
impl Module for Wrapped<'_> {
    fn visit(&self, visitor: &mut dyn kiln::nn::Visitor) {
        self.0.visit(visitor);
    }
}

/// A layer of one input of this shape.
#[track_caller]
fn check_layer(name: &str, layer: impl Layer, shape: &[usize]) {
    check(name, &layer, &[input(shape, 1)], &|x| layer.forward(&x[0]));
}

#[test]
fn affine_layers() {
    kiln::manual_seed(3);
    check_layer("linear", Linear::new(3, 4, PLACE), &[2, 3]);
    let bilinear = Bilinear::new((3, 2), 4, PLACE);
    check("bilinear", &bilinear, &[input(&[2, 3], 1), input(&[2, 2], 2)], &|x| {
        bilinear.forward(&x[0], &x[1])
    });
    let embedding = Embedding::new(5, 3, PLACE);
    let rows = Tensor::from_vec(vec![4i64, 0, 2, 4], [2, 2], ());
    check("embedding", &embedding, &[], &|_| embedding.forward(&rows));
    check_layer("dropout", Dropout::new(0.0), &[2, 3]);
    check_layer("sequential", Sequential::new().push(Linear::new(3, 4, PLACE)).then(Tensor::tanh), &[2, 3]);
}

#[test]
fn convolutions() {
    kiln::manual_seed(3);
    let opts = || ConvOpts::default().padding(1).stride(2);
    check_layer("conv1d", Conv1d::new(2, 3, [3], opts(), PLACE), &[2, 2, 5]);
    check_layer("conv2d", Conv2d::new(2, 4, [3, 2], opts().groups(2), PLACE), &[1, 2, 5, 4]);
    check_layer("conv3d", Conv3d::new(1, 2, [2, 2, 2], opts(), PLACE), &[1, 1, 3, 3, 3]);
    let opts = || ConvTransposeOpts::default().padding(1).stride(2);
    check_layer("transposed 1d", ConvTranspose1d::new(2, 3, [3], opts(), PLACE), &[2, 2, 4]);
    check_layer("transposed 2d", ConvTranspose2d::new(2, 3, [3, 2], opts(), PLACE), &[1, 2, 3, 4]);
    check_layer("transposed 3d", ConvTranspose3d::new(1, 2, [2, 3, 3], opts(), PLACE), &[1, 1, 3, 2, 3]);
}

#[test]
fn normalizations() {
    check_layer("layer norm", LayerNorm::new([4], PLACE), &[3, 4]);
    check_layer("rms norm", RMSNorm::new([4], PLACE), &[3, 4]);
    check_layer("group norm", GroupNorm::new(2, 4, PLACE), &[2, 4, 3]);
    check_layer("batch norm", BatchNorm::new(3, PLACE), &[4, 3, 2]);
    let evaluated = BatchNorm::new(3, PLACE);
    evaluated.eval();
    check_layer("batch norm in evaluation", evaluated, &[4, 3, 2]);
}

#[test]
fn attention_and_transformers() {
    kiln::manual_seed(3);
    check_layer("attention", MultiheadAttention::new(4, 2, Default::default(), PLACE), &[2, 3, 4]);
    let opts = || TransformerOpts::default().feed_forward(6).dropout(0.0).gelu(true);
    check_layer("encoder", TransformerEncoderLayer::new(4, 2, opts(), PLACE), &[2, 3, 4]);
    check_layer(
        "encoder, norm first",
        TransformerEncoderLayer::new(4, 2, opts().norm_first(true), PLACE),
        &[2, 3, 4],
    );
    let decoder = TransformerDecoderLayer::new(4, 2, opts(), PLACE);
    let inputs = [input(&[1, 2, 4], 1), input(&[1, 3, 4], 2)];
    check("decoder", &decoder, &inputs, &|x| decoder.forward(&x[0], &x[1]));
}

#[test]
fn recurrent_layers() {
    kiln::manual_seed(3);
    let inputs = || [input(&[3, 2, 2], 1)];
    let rnn = Rnn::new(2, 3, 2, PLACE);
    check("rnn", &rnn, &inputs(), &|x| rnn.forward(&x[0], None).0);
    let lstm = Lstm::new(2, 3, 1, PLACE);
    check("lstm", &lstm, &inputs(), &|x| lstm.forward(&x[0], None).0);
    let gru = Gru::new(2, 3, 1, PLACE);
    check("gru", &gru, &inputs(), &|x| gru.forward(&x[0], None).0);
}
