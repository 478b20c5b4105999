//! Gradients of every layer's parameters and input against central
//! differences, in `f64`.

use kiln::nn::*;
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
fn lazy_layers() {
    kiln::manual_seed(3);
    let linear = Linear::lazy(4, PLACE);
    let conv = Conv2d::lazy(3, [2, 2], ConvOpts::default(), PLACE);
    for (layer, shape) in [(&linear as &dyn Layer, &[2, 3][..]), (&conv, &[1, 2, 3, 3])] {
        layer.forward(&Tensor::zeros(shape, PLACE)).check().unwrap();
    }
    check_layer("lazy linear", linear, &[2, 3]);
    check_layer("lazy convolution", conv, &[1, 2, 3, 3]);
}

#[test]
fn pools() {
    let (max, avg) = (MaxPoolOpts::default, AvgPoolOpts::default);
    check_layer("max 1d", MaxPool1d::new([3], max().stride(2).padding(1)), &[1, 2, 7]);
    check_layer("max 2d", MaxPool2d::new([2, 3], max().dilation(2)), &[1, 2, 6, 7]);
    check_layer("max 3d", MaxPool3d::new([2, 2, 2], max()), &[1, 1, 4, 4, 5]);
    check_layer("average 1d", AvgPool1d::new([3], avg().stride(2).padding(1)), &[1, 2, 7]);
    check_layer("average 2d", AvgPool2d::new([2, 3], avg().stride(1)), &[1, 2, 5, 4]);
    check_layer("average 3d", AvgPool3d::new([2, 2, 2], avg()), &[1, 1, 4, 4, 5]);
    check_layer("average to sizes 1d", AdaptiveAvgPool1d::new([3]), &[1, 2, 7]);
    check_layer("average to sizes 2d", AdaptiveAvgPool2d::new([2, 3]), &[1, 2, 5, 4]);
    check_layer("average to sizes 3d", AdaptiveAvgPool3d::new([2, 1, 3]), &[1, 1, 3, 2, 5]);
    check_layer("max to sizes 1d", AdaptiveMaxPool1d::new([3]), &[1, 2, 7]);
    check_layer("max to sizes 2d", AdaptiveMaxPool2d::new([2, 3]), &[1, 2, 5, 4]);
    check_layer("max to sizes 3d", AdaptiveMaxPool3d::new([2, 1, 3]), &[1, 1, 3, 2, 5]);
}

#[test]
fn activations() {
    macro_rules! all {
        ($($name:ident)*) => { $(check_layer(stringify!($name), $name::default(), &[2, 3, 4]);)* };
    }
    all! { Relu Relu6 Sigmoid Tanh Silu Gelu GeluTanh Mish Hardswish Hardsigmoid Softsign Tanhshrink LogSigmoid
    Selu LeakyRelu Elu Celu Softplus Hardtanh Hardshrink Softshrink Softmax LogSoftmax Softmin Glu Flatten }
    check_layer("prelu", Prelu::new(3, PLACE), &[2, 3, 4]);
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
    check_layer("instance norm", InstanceNorm::new(), &[2, 3, 4]);
    check_layer("instance norm, affine", InstanceNorm::affine(3, PLACE), &[2, 3, 4]);
    let evaluated = BatchNorm::new(3, PLACE);
    evaluated.eval();
    check_layer("batch norm in evaluation", evaluated, &[4, 3, 2]);
    let spectral = SpectralNorm::new(input(&[4, 3, 2], 1).get());
    spectral.eval();
    check("spectral norm", &spectral, &[], &|_| spectral.weight_normalized());
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
fn attention_through_a_cache() {
    kiln::manual_seed(3);
    let opts = AttentionLayerOpts::default().causal(true).rotary(100.0).kv_heads(1);
    let make = || MultiheadAttention::new(4, 2, opts.clone(), PLACE);
    let layer = make();
    check("cached", &layer, &[input(&[2, 3, 4], 1)], &|x| layer.attend_cached(&x[0], &layer.cache(2, 5)));
    // Later positions look at earlier ones through the cache.
    let layer = make();
    let pieces = [input(&[1, 2, 4], 1), input(&[1, 1, 4], 2)];
    check("cached piece by piece", &layer, &pieces, &|x| {
        let cache = layer.cache(1, 4);
        let first = layer.attend_cached(&x[0], &cache);
        Tensor::cat(&[&first, &layer.attend_cached(&x[1], &cache)], 1)
    });
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
