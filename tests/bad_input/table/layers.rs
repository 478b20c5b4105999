//! Layers given what they do not take.

use kiln::Tensor;
use kiln::nn::*;
use kiln::prelude::*;
use kiln::{DType, Device};

use super::{Op, Tally, on};
use crate::floats;

pub fn run(tally: &mut Tally) {
    let inputs = [
        ("another width", floats([2, 5])),
        ("another number of axes", floats([3])),
        ("many axes", floats([1, 1, 1, 1, 1, 5])),
        ("no axes", floats([1]).i(0)),
        ("whole numbers", Tensor::ones([2, 5], DType::I64)),
        ("another device", Tensor::ones([2, 5], Device::null())),
        ("another type", Tensor::ones([2, 5], DType::F64)),
        ("an invalid tensor", floats([2]).reshape([5])),
    ];
    tally.all(&of_images(), &inputs[..4]);
    tally.all(&of_rows(), &inputs[..4]);
    tally.all(&of_sequences(), &inputs[..6]);
    tally.all(&of_types(), &inputs[4..7]);
    let [_, row, _, number, whole, ..] = inputs;
    let spectral = [on("SpectralNorm", |x| SpectralNorm::new(x.clone()).weight_normalized())];
    tally.all(&spectral, &[row, number, whole]);
}

fn of_images() -> Vec<Op<Tensor>> {
    vec![
        on("Conv1d", |x| Conv1d::new(3, 2, [3], ConvOpts::default(), ()).forward(x)),
        on("Conv2d", |x| Conv2d::new(3, 2, [3, 3], ConvOpts::default(), ()).forward(x)),
        on("Conv3d", |x| Conv3d::new(3, 2, [3, 3, 3], ConvOpts::default(), ()).forward(x)),
        on("ConvTranspose1d", |x| ConvTranspose1d::new(3, 2, [3], Default::default(), ()).forward(x)),
        on("ConvTranspose2d", |x| ConvTranspose2d::new(3, 2, [3, 3], Default::default(), ()).forward(x)),
        on("ConvTranspose3d", |x| ConvTranspose3d::new(3, 2, [3; 3], Default::default(), ()).forward(x)),
        on("BatchNorm", |x| BatchNorm::new(3, ()).forward(x)),
        on("GroupNorm", |x| GroupNorm::new(2, 4, ()).forward(x)),
        on("MaxPool2d", |x| MaxPool2d::new(9, MaxPoolOpts::default()).forward(x)),
        on("AvgPool2d", |x| AvgPool2d::new(9, AvgPoolOpts::default()).forward(x)),
        on("MaxPool3d", |x| MaxPool3d::new(9, MaxPoolOpts::default()).forward(x)),
        on("AdaptiveAvgPool2d", |x| AdaptiveAvgPool2d::new([0, -1]).forward(x)),
        on("max_unpool", |x| x.pixel_shuffle(2)),
    ]
}

fn of_rows() -> Vec<Op<Tensor>> {
    vec![
        on("Linear", |x| Linear::new(4, 2, ()).forward(x)),
        on("Linear without bias", |x| Linear::without_bias(4, 2, ()).forward(x)),
        on("Bilinear", |x| Bilinear::new((4, 4), 2, ()).forward(x, x)),
        on("LayerNorm", |x| LayerNorm::new([4], ()).forward(x)),
        on("LayerNorm of two axes", |x| LayerNorm::new([4, 4], ()).forward(x)),
        on("RMSNorm", |x| RMSNorm::new([4], ()).forward(x)),
        on("Embedding", |x| Embedding::new(10, 4, ()).forward(x)),
        on("Sequential", |x| Sequential::new().push(Linear::new(4, 2, ())).then(Tensor::relu).forward(x)),
        on("Dropout of NaN", |x| Dropout::new(f64::NAN).forward(x)),
        on("Dropout of more than all", |x| Dropout::new(1.5).forward(x)),
        on("Dropout of less than none", |x| Dropout::new(-0.5).forward(x)),
    ]
}

fn of_sequences() -> Vec<Op<Tensor>> {
    vec![
        on("Rnn", |x| Rnn::new(4, 3, 1, ()).forward(x, None)),
        on("Gru", |x| Gru::new(4, 3, 2, ()).forward(x, None)),
        on("Lstm", |x| Lstm::new(4, 3, 2, ()).forward(x, None).0),
        on("a start of Rnn", |x| Rnn::new(4, 3, 1, ()).forward(&floats([2, 2, 4]), Some(x))),
        on("lengths of Rnn", |x| Rnn::new(4, 3, 1, ()).forward_padded(&floats([2, 2, 4]), x, None)),
        on("MultiheadAttention", |x| MultiheadAttention::new(4, 2, Default::default(), ()).forward(x)),
        on("a memory", |x| {
            let input = AttentionInput::default().memory(x);
            MultiheadAttention::new(4, 2, Default::default(), ()).attend(&floats([1, 2, 4]), input)
        }),
        on("a cache", |x| {
            let layer = MultiheadAttention::new(4, 2, Default::default(), ());
            layer.attend_cached(x, &layer.cache(1, 2))
        }),
        on("TransformerEncoderLayer", |x| {
            TransformerEncoderLayer::new(4, 2, TransformerOpts::default(), ()).forward(x)
        }),
        on("TransformerDecoderLayer", |x| {
            TransformerDecoderLayer::new(4, 2, TransformerOpts::default(), ()).forward(x, &floats([1, 2, 4]))
        }),
        on("what a decoder remembers", |x| {
            TransformerDecoderLayer::new(4, 2, TransformerOpts::default(), ()).forward(&floats([1, 2, 4]), x)
        }),
    ]
}

fn of_types() -> Vec<Op<Tensor>> {
    vec![
        on("Linear", |x| Linear::new(5, 2, ()).forward(x)),
        on("Sequential", |x| Sequential::new().push(Linear::new(5, 2, ())).forward(x)),
        on("Conv1d", |x| Conv1d::new(2, 2, [3], ConvOpts::default(), ()).forward(x)),
    ]
}
